/*
 * sluice migrate: brings the schema to this program's version; with --check it changes nothing and
 * says whether `serve` would start.
 */
#include <stdio.h>

#include "base/embed.h"
#include "cli/commands.h"
#include "pg/migrate.h"

static void on_apply(void *owner, unsigned version, const char *name)
{
    (void)owner;
    (void)version;
    (void)printf("applying %s\n", name);
    (void)fflush(stdout);
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
    unsigned applied = 0;
    const struct pg_migrate_events events = {.on_apply = on_apply};
    slice url = call->config->database_url;
    if (url.len == 0)
        return command_misuse(call, "no database: set DATABASE_URL or --database-url, for example "
                                    "postgresql://user@localhost/sluice");
    if (command_has(call, "check"))
        return check(call, url.ptr);
    if (pg_migrate(url.ptr, embed_sql, embed_sql_count, &events, &applied, &err) != OK)
        return command_fail(call, "%s", err.text);
    unsigned known = pg_schema_known(embed_sql, embed_sql_count);
    (void)printf(applied > 0 ? "the schema is now at version %u\n"
                             : "the schema is at version %u already\n",
                 known);
    return EXIT_OK;
}

static const struct config_option options[] = {
    {"check", NULL, "change nothing; exit 1 where `serve` would refuse to start"},
};

static const struct command_verb verbs[] = {{
    .synopsis = "",
    .summary = "Bring the database's schema to this program's version; safe to repeat.",
    COMMAND_OPTIONS(options),
    .run = run_migrate,
}};

const struct command migrate_command = {
    .name = "migrate",
    .summary = "create or upgrade the schema of the database",
    .help = "Each migration runs in a transaction of its own, under a lock, and is recorded with "
            "its checksum. Servers of the previous version can run meanwhile.",
    .scopes = CONFIG_DATABASE,
    COMMAND_VERBS(verbs),
};
