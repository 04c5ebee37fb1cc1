/*
 * A command's own loop; see engine.h.
 */
#include "cli/engine.h"

#include "base/clock.h"
#include "store/change.h"
#include "store/retention.h"

enum { SETTLE_MS = 5000, ARENA_BYTES_MAX = 1024 * 1024 };

/* Servers cache the old row. The notification is a hint: if it is lost, they use the old row for
 * cache-time. */
static void on_changed(void *owner, struct uuid account_id, slice integration_id)
{
    struct session *session = owner;
    struct err ignored;
    (void)integration_id;
    (void)!store_change_notify_sync(session->sync, account_id, &ignored);
}

int engine_open(struct engine *engine, struct session *session, bool has_apps)
{
    struct err *err = &session->err;
    *engine = (struct engine){.session = session};
    /* servers create partitions in advance, but no server may have run for days */
    if (store_partitions_make_sync(session->sync, &session->arena, err) != OK)
        return (int)err->code;
    engine->loop = loop_new(err);
    if (!engine->loop)
        return (int)err->code;
    engine->has_out = has_apps;
    if (has_apps && outbound_open(&engine->out, engine->loop, session->config, err) != OK)
        return (int)err->code;
    engine->dns = has_apps ? engine->out.dns : dns_resolver_new(engine->loop, NULL);
    if (!engine->dns)
        return err_set(err, ERR_NOMEM, "out of memory");
    /* One writer and one reader are enough, because only one op runs at a time. */
    const struct pg_pool_config pool = {.conninfo = session->config->database_url.ptr,
                                        .dns = engine->dns,
                                        .is_command = true,
                                        .writers = 1,
                                        .readers = 1};
    engine->pool = pg_pool_new(engine->loop, &pool, err);
    if (!engine->pool)
        return (int)err->code;
    const struct connect_config connect = {
        .pool = engine->pool,
        .ring = session->ring,
        .http = engine->out.client,
        .catalog = &session->catalog,
        .token_timeout_ms = (unsigned)session->config->token_timeout_ms,
        .connections_max = session->config->account_kept_connections,
        .on_changed = on_changed,
        .owner = session,
    };
    const struct vault_auth_config auth = {
        .pool = engine->pool, .on_changed = on_changed, .owner = session};
    const struct event_config event = {
        .loop = engine->loop,
        .pool = engine->pool,
        .ring = session->ring,
        .dns = engine->dns,
        .hosts = session->config->webhook_host.items,
        .host_count = session->config->webhook_host.count,
    };
    engine->event = event_service_new(&event, err);
    if (!engine->event)
        return (int)err->code;
    engine->connect = connect_new(engine->loop, &connect);
    engine->auth = engine->connect ? vault_auth_new(engine->loop, &auth) : NULL;
    return engine->auth ? OK : err_set(err, ERR_NOMEM, "out of memory");
}

void engine_close(struct engine *engine)
{
    /* The engine was not opened, or the first step of opening it failed. */
    if (!engine->loop)
        return;
    /* The pool is freed first, so that its connections close while the loop still runs. */
    pg_pool_free(engine->pool);
    event_service_close(engine->event);
    if (engine->has_out)
        outbound_close(&engine->out);
    else
        dns_resolver_free(engine->dns);
    uint64_t until = clock_mono_ns() + SETTLE_MS * 1000000ULL;
    while (op_count(engine->loop) > 0 && clock_mono_ns() < until)
        (void)loop_turn(engine->loop, false);
    /* No op that uses these services is still running. */
    vault_auth_free(engine->auth);
    connect_free(engine->connect);
    event_service_free(engine->event);
    loop_free(engine->loop);
    if (engine->has_out)
        outbound_free(&engine->out);
}

/* ---- one run ---- */

struct run {
    struct op op;
    struct engine *engine;
    engine_start *start, *done;
    void *arg;
    bool is_freed;
};

OP_OF(run_of, run)

static enum op_result step_start(struct op *op)
{
    struct run *run = run_of(op);
    run->start(run->engine, op, run->arg);
    return OP_WAIT;
}

static enum op_result step_done(struct op *op)
{
    struct run *run = run_of(op);
    if (run->done)
        run->done(run->engine, op, run->arg);
    return OP_DONE;
}

static void on_free(struct op *op)
{
    run_of(op)->is_freed = true;
}

static const struct op_step steps[] = {{"start", step_start, 0}, {"done", step_done, 0}};
static const struct op_class run_class = {
    .name = "command", .steps = steps, .step_count = ARRAY_LEN(steps), .free = on_free};

void engine_run(struct engine *engine, engine_start *start, engine_start *done, void *arg)
{
    struct run run = {.engine = engine, .start = start, .done = done, .arg = arg};
    op_start(&run.op, &run_class, engine->loop, NULL, ARENA_BYTES_MAX);
    /* The op is over when it is freed, not when it ends. Until then its struct, which is on this
     * stack, must exist. */
    while (!run.is_freed)
        (void)loop_turn(engine->loop, true);
}
