/*
 * See pg_activity.h. A session that has a request in its socket and has not been scheduled since is
 * idle in pg_stat_activity, but its process is not asleep, so both are checked.
 */
#include "support/pg_activity.h"

#include <libpq-fe.h>
#include <string.h>

static char state_of(long pid)
{
    char path[64], state = '?';
    snprintf(path, sizeof(path), "/proc/%ld/stat", pid);
    FILE *stat = fopen(path, "r");
    if (!stat || fscanf(stat, "%*d (%*[^)]) %c", &state) != 1)
        state = '?';
    if (stat)
        fclose(stat);
    return state;
}

/* The process ids of the postmaster and its children. */
static bool is_asleep(pid_t postmaster)
{
    char path[64];
    long pid;
    snprintf(path, sizeof(path), "/proc/%d/task/%d/children", (int)postmaster, (int)postmaster);
    FILE *children = fopen(path, "r");
    bool all = children && state_of(postmaster) == 'S';
    while (all && fscanf(children, "%ld", &pid) == 1)
        all = state_of(pid) == 'S';
    if (children)
        fclose(children);
    return all;
}

/* Our own session is left out, and so are times, which say nothing about what happens next. */
static const char sessions_sql[] =
    "select pid, coalesce(state, 'begins'), coalesce(wait_event_type || '/' || wait_event, "
    "'running'),"
    " regexp_replace(left(query, 160), '\\s+', ' ', 'g') from pg_stat_activity"
    " where pid <> pg_backend_pid() and backend_type = 'client backend'"
    " and (datname is null or datname like $1) order by state, pid limit 8";

static bool is_at_work(PGresult *rows, FILE *out)
{
    bool found = PQresultStatus(rows) != PGRES_TUPLES_OK;
    for (int i = 0; i < PQntuples(rows); i++) {
        const char *state = PQgetvalue(rows, i, 1);
        bool is_idle = strncmp(state, "idle", 4) == 0;
        found |= !is_idle;
        if (out)
            fprintf(out, "  PostgreSQL %s: %s (%s)%s %s\n", PQgetvalue(rows, i, 0), state,
                    PQgetvalue(rows, i, 2), is_idle ? ", its last statement:" : ":",
                    PQgetvalue(rows, i, 3));
    }
    return found;
}

bool pg_activity(const char *conninfo, const char *databases, pid_t postmaster, FILE *out)
{
    const char *const names[] = {"dbname", "connect_timeout", NULL};
    const char *const values[] = {conninfo, "2", NULL};
    bool is_busy = postmaster && !is_asleep(postmaster);
    if (is_busy && !out)
        return true;
    PGconn *session = PQconnectdbParams(names, values, 1);
    if (PQstatus(session) != CONNECTION_OK) {
        if (out)
            fprintf(out, "  PostgreSQL: %s", PQerrorMessage(session));
        is_busy |= strstr(PQerrorMessage(session), "timeout") != NULL;
    } else {
        PGresult *rows = PQexecParams(session, sessions_sql, 1, NULL, &databases, NULL, NULL, 0);
        is_busy |= is_at_work(rows, out);
        PQclear(rows);
    }
    PQfinish(session);
    return is_busy;
}
