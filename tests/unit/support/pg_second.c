/*
 * See pg_second.h.
 */
#include "support/pg_second.h"

#include <stdio.h>
#include <stdlib.h>

#include "pg/sync.h"
#include "support/pg_items.h"

static bool one_waits(void *conninfo)
{
    return items_ask(conninfo, "select count(*) from pg_stat_activity where wait_event_type = "
                               "'Lock' and datname = current_database()") > 0;
}

struct race {
    const struct pg_call *call;
    const char *conninfo;
};

/* Whether the second query waits, or already has its answer, which is then too early. */
static bool waits_for_the_first(void *arg)
{
    const struct race *race = arg;
    return race->call->is_done || one_waits((void *)(uintptr_t)race->conninfo);
}

static void must(int rc, const struct err *err)
{
    if (rc == OK)
        return;
    fprintf(stderr, "pg_second: %s\n", err->text);
    abort();
}

int pg_second_run(struct pg_bench *bench, const char *conninfo, const char *lock_sql,
                  struct pg_call *call, void (*start)(struct pg_call *call), void *arg)
{
    struct race race = {call, conninfo};
    struct err err = {0};
    struct arena arena;
    struct pg_sync *first = pg_sync_open(conninfo, &err);
    must(first ? OK : err.code, &err);
    must(pg_sync_run(first, "begin", &err), &err);
    must(pg_sync_run(first, lock_sql, &err), &err);
    call->is_again = true;
    pg_call_start(bench, call, start, arg);
    pg_bench_until_true(bench, waits_for_the_first, &race);
    arena_init(&arena, 1024 * 1024);
    must(pg_sync_exec(first, call->query.stmt, call->query.params, &arena, NULL, &err), &err);
    must(pg_sync_run(first, "commit", &err), &err);
    arena_deinit(&arena);
    pg_sync_close(first);
    pg_calls_wait(bench, call, 1);
    call->is_again = false;
    return call->query.status;
}

void pg_answer_unseen(struct pg_bench *bench, const char *conninfo, const char *table,
                      void (*begin)(void *arg), void *arg)
{
    char sql[400];
    struct err err = {0};
    struct pg_sync *lock = pg_sync_open(conninfo, &err);
    must(lock ? OK : err.code, &err);
    snprintf(sql, sizeof(sql), "begin; lock table %s in access exclusive mode", table);
    must(pg_sync_run(lock, sql, &err), &err);
    begin(arg);
    pg_bench_until_true(bench, one_waits, (void *)(uintptr_t)conninfo);
    must(pg_sync_run(lock, "rollback", &err), &err);
    pg_sync_close(lock);
    snprintf(sql, sizeof(sql),
             "select count(*) from pg_stat_activity where state = 'active' and query like '%%%s%%' "
             "and datname = current_database() and pid <> pg_backend_pid()",
             table);
    while (items_ask(conninfo, sql) > 0)
        continue;
}
