/*
 * sluice migrate: brings the schema to this program's version. With --check it changes nothing and
 * reports whether `serve` would start. With --citus it distributes the tables; without --citus it
 * distributes the tables that a migration has added to a distributed database.
 */
#include <stdio.h>

#include "base/embed.h"
#include "cli/commands.h"
#include "shard/citus.h"
#include "pg/migrate.h"

static void on_apply(void *owner, unsigned version, const char *name)
{
    (void)owner;
    (void)version;
    (void)printf("applying %s\n", name);
    (void)fflush(stdout);
}

static void on_done(void *owner, slice what)
{
    (void)owner;
    (void)printf("%.*s\n", SLICE_ARG(what));
    (void)fflush(stdout);
}

static int migrate(const char *url, bool is_citus, unsigned shards, struct err *err)
{
    const struct pg_migrate_events events = {.on_apply = on_apply};
    const struct citus_events citus_events = {.on_done = on_done};
    unsigned applied = 0;
    struct pg_sync *sync = pg_sync_open(url, err);
    int rc = sync ? OK : ERR_IO;
    if (rc == OK && is_citus)
        rc = citus_demand(sync, err);
    if (rc == OK)
        rc = pg_migrate(url, embed_sql, embed_sql_count, &events, &applied, err);
    if (rc == OK)
        (void)printf(applied > 0 ? "the schema is now at version %u\n"
                                 : "the schema is already at version %u\n",
                     pg_schema_known(embed_sql, embed_sql_count));
    if (rc == OK && !is_citus)
        rc = citus_is_distributed(sync, &is_citus, err);
    if (rc == OK && is_citus)
        rc = citus_distribute(sync, embed_sql, embed_sql_count, shards, &citus_events, err);
    pg_sync_close(sync);
    return rc;
}

static int check(struct command_call *call, const char *url)
{
    struct err err;
    unsigned version = 0, known = pg_schema_known(embed_sql, embed_sql_count);
    if (pg_schema_check(url, embed_sql, embed_sql_count, &version, &err) != OK)
        return command_fail(call, "%s", err.text);
    (void)printf("the schema is at version %u, this program knows %u: %s\n", version, known,
                 version == known ? "current" : "newer, and served");
    return EXIT_OK;
}

static int run_migrate(struct command_call *call)
{
    struct err err;
    bool is_citus = command_has(call, "citus");
    slice url = call->config->database_url, shards_text = command_option(call, "shards");
    uint64_t shards = 0;
    if (url.len == 0)
        return command_misuse(call, "no database: set DATABASE_URL or --database-url, for example "
                                    "postgresql://user@localhost/sluice");
    if (shards_text.ptr &&
        (!is_citus || !slice_to_u64(shards_text, CITUS_SHARDS_MAX, &shards) || shards == 0))
        return command_misuse(call, "--shards must be a number from 1 to %d, and needs --citus",
                              CITUS_SHARDS_MAX);
    if (command_has(call, "check"))
        return check(call, url.ptr);
    if (migrate(url.ptr, is_citus, (unsigned)shards, &err) != OK)
        return command_fail(call, "%s", err.text);
    return EXIT_OK;
}

static const struct config_option options[] = {
    {"check", NULL, "change nothing; exit 1 where `serve` would refuse to start"},
    {"citus", NULL,
     "distribute the tables by account over the nodes of the Citus cluster whose coordinator this "
     "database is on; for servers with --database-batch sharded"},
    {"shards", "N",
     "number of shards of each table that is distributed now; citus.shard_count (32) by default"},
};

static const struct command_verb verbs[] = {
    {NULL, "", "Bring the database's schema to this program's version; safe to repeat.",
     COMMAND_OPTIONS(options), .run = run_migrate}};

const struct command migrate_command = {
    .name = "migrate",
    .summary = "create or upgrade the schema of the database",
    .help = "Each migration runs in a transaction of its own, under a lock, and is recorded with "
            "its checksum. Servers of the previous version can run meanwhile.",
    .scopes = CONFIG_DATABASE,
    COMMAND_VERBS(verbs),
};
