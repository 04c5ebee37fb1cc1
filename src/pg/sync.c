/*
 * Blocking statements for operator commands and migrations. Each statement is a separate
 * transaction unless pg_sync_run has begun one. A lost connection stays lost: every later call ends
 * with ERR_IO, and the command fails.
 */
#include "pg/sync.h"

#include "base/log.h"
#include "base/mem.h"
#include "pg/rows.h"
#include "pg/stmt.h"
#include "pg/target.h"
#include "pg/value.h"

struct pg_sync {
    struct pg_target *target;
    PGconn *conn;
};

static slice trimmed(const char *text)
{
    slice s = slice_cstr(text);
    while (s.len && (s.ptr[s.len - 1] == '\n' || s.ptr[s.len - 1] == ' '))
        s.len--;
    return s;
}

static void on_notice(void *owner, const char *message)
{
    (void)owner;
    log_event(LOG_DEBUG, "database notice", LOG_STR("text", trimmed(message)));
}

struct pg_sync *pg_sync_open(const char *conninfo, struct err *err)
{
    struct pg_sync *sync = mem_zalloc(sizeof(*sync));
    if (!sync)
        return err_null(err, ERR_NOMEM, "out of memory");
    /* Ten times the pool's limit: a person waits for the command, and DDL waits for running
     * transactions. No statement_timeout, because a migration may rewrite a table. */
    sync->target = pg_target_new(conninfo, NULL, "('lock_timeout','10000')", err);
    if (sync->target)
        sync->conn = pg_target_connect_blocking(sync->target);
    if (sync->conn && PQstatus(sync->conn) == CONNECTION_OK) {
        PQsetNoticeProcessor(sync->conn, on_notice, NULL);
        return sync;
    }
    /* Without a target, err already has the reason. */
    if (sync->target) {
        slice why = trimmed(sync->conn ? PQerrorMessage(sync->conn) : "out of memory");
        err_set(err, ERR_IO, "cannot connect to the database: %.*s", SLICE_ARG(why));
    }
    pg_sync_close(sync);
    return NULL;
}

void pg_sync_close(struct pg_sync *sync)
{
    if (!sync)
        return;
    PQfinish(sync->conn);
    pg_target_free(sync->target);
    mem_free(sync);
}

/* Returns OK, or the error of a result. NULL means that libpq has no memory or no connection;
 * the connection then has the message. */
static int sync_check(struct pg_sync *sync, const PGresult *result, struct err *err)
{
    ExecStatusType status = PQresultStatus(result);
    if (status == PGRES_TUPLES_OK || status == PGRES_COMMAND_OK || status == PGRES_EMPTY_QUERY)
        return OK;
    const char *state = result ? PQresultErrorField(result, PG_DIAG_SQLSTATE) : NULL;
    const char *text = result ? PQresultErrorField(result, PG_DIAG_MESSAGE_PRIMARY) : NULL;
    slice code = slice_first(slice_cstr(state), PG_SQLSTATE_LEN);
    /* Only the primary message, because DETAIL may quote values of the row. */
    slice why = trimmed(text ? text : PQerrorMessage(sync->conn));
    bool is_refused = slice_starts_with(code, SLICE("22")) || slice_starts_with(code, SLICE("23"));
    return err_set(err, is_refused ? ERR_INVALID : ERR_IO, "the database says: %.*s",
                   SLICE_ARG(why));
}

static int sync_finish(struct pg_sync *sync, PGresult *result, size_t lead, struct arena *arena,
                       struct pg_rows *rows, struct err *err)
{
    int rc = sync_check(sync, result, err);
    size_t columns = result ? (size_t)PQnfields(result) : 0;
    if (rc == OK && rows) {
        ASSERT(arena && (columns >= lead || columns == 0));
        /* Without any columns (an INSERT without RETURNING) there is no ordinal either. */
        rc = pg_rows_copy(arena, result, lead, columns ? columns - lead : 0, NULL,
                          (size_t)PQntuples(result), rows);
        if (rc != OK)
            err_set(err, ERR_NOMEM, "the result is too large");
    }
    PQclear(result);
    return rc;
}

int pg_sync_exec(struct pg_sync *sync, const struct pg_stmt *stmt, const struct pg_value *params,
                 struct arena *arena, struct pg_rows *rows, struct err *err)
{
    char scratch[PG_PARAMS_MAX][8];
    const char *values[PG_PARAMS_MAX];
    int lengths[PG_PARAMS_MAX], formats[PG_PARAMS_MAX];
    Oid oids[PG_PARAMS_MAX];
    for (size_t i = 0; i < stmt->param_count; i++) {
        ASSERT(params[i].type == stmt->params[i].type);
        slice bytes = params[i].is_null ? SLICE_NONE : pg_value_encode(&params[i], scratch[i]);
        values[i] = bytes.ptr;
        lengths[i] = (int)bytes.len;
        formats[i] = 1;
        oids[i] = pg_stmt_param_oid(stmt, PG_MODE_PIPE, i);
    }
    struct buf sql;
    buf_init(&sql, PG_SQL_MAX);
    int rc = pg_stmt_expand(stmt, PG_MODE_PIPE, &sql, err);
    /* The statement is not prepared: a command runs it once, and PQexecParams parses it each
     * time. */
    buf_append_char(&sql, '\0');
    if (rc == OK && !buf_is_ok(&sql))
        rc = err_set(err, ERR_NOMEM, "out of memory");
    if (rc == OK) {
        PGresult *result =
            PQexecParams(sync->conn, sql.ptr, stmt->param_count, oids, values, lengths, formats, 1);
        rc = sync_finish(sync, result, stmt->match == PG_MATCH_ORD, arena, rows, err);
    }
    buf_deinit(&sql);
    return rc;
}

int pg_sync_run(struct pg_sync *sync, const char *sql, struct err *err)
{
    return sync_finish(sync, PQexec(sync->conn, sql), 0, NULL, NULL, err);
}

int pg_sync_text(struct pg_sync *sync, const char *sql, struct arena *arena, struct pg_rows *rows,
                 struct err *err)
{
    return sync_finish(sync, PQexec(sync->conn, sql), 0, arena, rows, err);
}
