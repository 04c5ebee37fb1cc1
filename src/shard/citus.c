/*
 * Citus' catalogs (pg_dist_*) exist only if the extension does, so each query that names one is
 * sent after the check of the extension's version.
 */
#include "shard/citus.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/mem.h"
#include "pg/script.h"

enum { ARENA_BYTES_MAX = 1024 * 1024, VERSION_MIN = 13 };

struct citus {
    struct pg_sync *sync;
    struct arena arena;
    struct err *err;
    slice version; /* SLICE_NONE: the database has no Citus */
};

/* Reads the first row of a query's result; rows->count is 0 if there is none. */
static int citus_ask(struct citus *citus, const char *sql, struct pg_rows *rows)
{
    return pg_sync_text(citus->sync, sql, &citus->arena, rows, citus->err);
}

static int citus_begin(struct citus *citus, struct pg_sync *sync, struct err *err)
{
    struct pg_rows rows;
    *citus = (struct citus){.sync = sync, .err = err};
    arena_init(&citus->arena, ARENA_BYTES_MAX);
    int rc = citus_ask(citus, "select extversion from pg_extension where extname = 'citus'", &rows);
    if (rc == OK && rows.count > 0)
        citus->version = pg_get_bytes(&rows, 0, 0);
    return rc;
}

/* Checks that database-url names Citus' coordinator, which knows all other nodes. */
static int citus_demand_coordinator(struct citus *citus)
{
    struct pg_rows rows;
    int rc = citus_ask(citus, "select groupid from pg_dist_local_group where groupid <> 0", &rows);
    if (rc == OK && rows.count > 0)
        return err_set(
            citus->err, ERR_REFUSED,
            "the database is a worker of a Citus cluster: set database-url to the coordinator");
    return rc;
}

/* ---- what is distributed ---- */

#define OUR_TABLES                                                                  \
    "from pg_class c left join pg_dist_partition p on p.logicalrelid = c.oid "      \
    "where c.relnamespace = to_regnamespace('sluice') and c.relkind in ('r', 'p') " \
    "and not c.relispartition "

/* Sets *missing to the names of tables that are not distributed, except sluice.node, or to "" if
 * there are none. */
static int citus_tables(struct citus *citus, bool *is_distributed, slice *missing)
{
    struct pg_rows rows;
    *is_distributed = false;
    *missing = SLICE("");
    if (!citus->version.len)
        return OK;
    int rc = citus_ask(
        citus,
        "select count(*) filter (where p.partmethod = 'h') > 0, "
        "coalesce(string_agg('sluice.' || c.relname, ', ' order by c.relname) filter (where "
        "c.relname <> 'node' and coalesce(p.partmethod <> 'h' and p.repmodel <> 't', true)), "
        "'') " OUR_TABLES,
        &rows);
    if (rc != OK)
        return rc;
    *is_distributed = slice_eq(pg_get_bytes(&rows, 0, 0), SLICE("t"));
    *missing = pg_get_bytes(&rows, 0, 1);
    return OK;
}

int citus_is_distributed(struct pg_sync *sync, bool *is_distributed, struct err *err)
{
    struct citus citus;
    slice missing = SLICE_NONE;
    int rc = citus_begin(&citus, sync, err);
    if (rc == OK)
        rc = citus_tables(&citus, is_distributed, &missing);
    arena_deinit(&citus.arena);
    return rc;
}

/* ---- the check of a server ---- */

/* A table that a migration added stays on the coordinator until it is distributed, too. */
static int check_sharded(struct citus *citus, bool is_distributed, slice missing)
{
    if (!is_distributed)
        return err_set(citus->err, ERR_REFUSED,
                       "database-batch is sharded, but the tables of this database are not "
                       "distributed: run `sluice migrate --citus`, or set database-batch to set");
    if (missing.len)
        return err_set(citus->err, ERR_REFUSED,
                       "not distributed yet: %.*s: run `sluice migrate --citus`",
                       SLICE_ARG(missing));
    return citus_demand_coordinator(citus);
}

int citus_check(struct pg_sync *sync, bool is_sharded, struct err *err)
{
    struct citus citus;
    bool is_distributed = false;
    slice missing = SLICE_NONE;
    int rc = citus_begin(&citus, sync, err);
    if (rc == OK)
        rc = citus_tables(&citus, &is_distributed, &missing);
    if (rc == OK && is_sharded)
        rc = check_sharded(&citus, is_distributed, missing);
    else if (rc == OK && is_distributed)
        rc = err_set(err, ERR_REFUSED,
                     "the tables of this database are distributed by Citus: set database-batch to "
                     "sharded");
    arena_deinit(&citus.arena);
    return rc;
}

/* ---- distributing ---- */

/* A cluster that consists only of a coordinator has no node for shards. */
static int citus_demand_nodes(struct citus *citus)
{
    struct pg_rows rows;
    int rc = citus_ask(
        citus, "select from pg_dist_node where isactive and shouldhaveshards limit 1", &rows);
    if (rc == OK && rows.count == 0)
        return err_set(citus->err, ERR_REFUSED,
                       "no node of the Citus cluster takes shards: add one on the coordinator, "
                       "select citus_add_node('host', 5432)");
    return rc;
}

/* Checks the version before anything is changed: an older version lacks functions that the middle
 * of the script needs. */
static int citus_demand_version(struct citus *citus)
{
    if (!citus->version.len)
        return err_set(citus->err, ERR_REFUSED,
                       "the database has no Citus: `create extension citus` on every node, then "
                       "citus_set_coordinator_host and citus_add_node on the coordinator");
    char version[16];
    (void)snprintf(version, sizeof(version), "%.*s", SLICE_ARG(citus->version));
    if (strtol(version, NULL, 10) >= VERSION_MIN)
        return OK;
    return err_set(citus->err, ERR_REFUSED, "the database has Citus %s, but %d or newer is needed",
                   version, VERSION_MIN);
}

int citus_demand(struct pg_sync *sync, struct err *err)
{
    struct citus citus;
    int rc = citus_begin(&citus, sync, err);
    if (rc == OK)
        rc = citus_demand_version(&citus);
    if (rc == OK)
        rc = citus_demand_coordinator(&citus);
    if (rc == OK)
        rc = citus_demand_nodes(&citus);
    arena_deinit(&citus.arena);
    return rc;
}

/* Only one process does this at a time: it takes the migrations' lock, which ends with the
 * connection. */
static int citus_prepare(struct citus *citus, unsigned shards)
{
    char sql[64];
    int rc = pg_sync_run(citus->sync,
                         "set lock_timeout = 0; select pg_advisory_lock(7453010373645639521);"
                         "set lock_timeout = '10s'",
                         citus->err);
    if (rc != OK || shards == 0)
        return rc;
    (void)snprintf(sql, sizeof(sql), "set citus.shard_count = %u", shards);
    return pg_sync_run(citus->sync, sql, citus->err);
}

/* A statement of the script checks whether its table is distributed already, so that the whole
 * script may run again. */
static int citus_run_script(struct citus *citus, slice script, const struct citus_events *events)
{
    slice statement;
    while (pg_script_next(&script, &statement)) {
        struct pg_rows rows;
        char *sql = arena_cstr(&citus->arena, statement);
        if (!sql)
            return err_set(citus->err, ERR_NOMEM, "out of memory");
        int rc = citus_ask(citus, sql, &rows);
        if (rc != OK)
            return rc;
        /* There was nothing to do if there is no result, or if it is NULL. */
        if (rows.count > 0 && !pg_is_null(&rows, 0, 0) && events->on_done)
            events->on_done(events->owner, pg_get_bytes(&rows, 0, 0));
    }
    return OK;
}

/* Reports the version of Citus, and over how many shards and nodes the tables are distributed, as
 * the last line. */
static int citus_sum_up(struct citus *citus, const struct citus_events *events)
{
    struct pg_rows rows;
    int rc = citus_ask(citus,
                       "select format('distributed by Citus %s over %s shards on %s nodes', "
                       "(select extversion from pg_extension where extname = 'citus'), "
                       "count(distinct s.shardid), count(distinct l.groupid)) from pg_dist_shard s "
                       "join pg_dist_placement l on l.shardid = s.shardid "
                       "where s.logicalrelid = 'sluice.connection'::regclass",
                       &rows);
    if (rc == OK && events->on_done)
        events->on_done(events->owner, pg_get_bytes(&rows, 0, 0));
    return rc;
}

int citus_distribute(struct pg_sync *sync, const struct embed_file *files, size_t file_count,
                     unsigned shards, const struct citus_events *events, struct err *err)
{
    struct citus citus;
    slice script = SLICE_NONE;
    for (size_t i = 0; i < file_count; i++)
        if (slice_eq(slice_cstr(files[i].name), SLICE("citus.sql")))
            script = slice_of(files[i].data, files[i].len);
    int rc = citus_begin(&citus, sync, err);
    if (rc == OK)
        rc = citus_prepare(&citus, shards);
    if (rc == OK)
        rc = citus_run_script(&citus, script, events);
    if (rc == OK)
        rc = citus_sum_up(&citus, events);
    arena_deinit(&citus.arena);
    return rc;
}
