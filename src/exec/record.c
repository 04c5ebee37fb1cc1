/*
 * What is kept of a run: the execution with its summary, the end of its claim, the mark on a
 * connection that the provider refused, the audit event of a run that was blocked. A result that a
 * provider has acted on is recorded however long the database is unreachable; nothing is answered
 * before.
 */
#include "base/clock.h"
#include "base/mem.h"
#include "exec/internal.h"
#include "exec/summary.h"
#include "store/audit.h"

enum {
    RECORD_RETRY_MS = 200,
    RECORD_TRIES_MAX = 600,
    AUDIT_ARENA_BYTES_MAX = 64 * 1024,
    RELEASE_RETRY_MS = 500
};

/* With proof that nothing was done, or of a read that failed, the key is free again: "retry
 * unchanged" works. */
static enum claim_end end_of_claim(const struct exec *exec)
{
    bool is_free = exec->in.idempotency_key.len == 0 || exec->out.effect == EXEC_EFFECT_NONE;
    return is_free ? CLAIM_RELEASE : CLAIM_KEEP;
}

/* It went to the provider, or was to: there is a row of it. */
static bool is_tried(const struct exec *exec)
{
    return exec->out.reason == EXEC_SUCCEEDED || exec_reason_is_failed(exec->out.reason);
}

/* Entered again by record_again, so what it sets it sets once: the end's time, the summary, and
 * exec_settle by its own flag. The connection's id is stored as it is now: a renewal may have
 * dropped and found it again. A run with neither a try nor a claim has nothing to store. */
enum op_result exec_step_record(struct op *op)
{
    struct exec *exec = exec_of(op);
    struct pg_pool *pool = exec->service->config.pool;
    const struct connect_item *connection = exec->connection.item;
    ASSERT(exec->action && exec->key.state != EXEC_CLAIM_ASKED);
    exec_settle(exec);
    exec->phase_began_ns = loop_now_ns(op->loop);
    if (exec->out.finished_us == 0)
        exec->out.finished_us = clock_wall_us();
    if (exec->in.is_recorded_by_caller || (!is_tried(exec) && !exec_is_claimed(exec)))
        return op_jump(op, EXEC_STEP_MARK_CONNECTION);
    if (!is_tried(exec)) {
        store_claim_release(pool, &exec->query, op, &exec->key.claim);
        return OP_WAIT;
    }
    if (exec->summary_json.len == 0)
        exec->summary_json = exec_summary_render(&exec->out, &op->arena);
    exec->record.row = exec_summary_row(&exec->out, exec->in.account_id,
                                        connection ? connection->id : 0, exec->key.claim.owner,
                                        exec->summary_json);
    slice actor = exec->in.actor;
    if (slice_starts_with(actor, SLICE("key:")) &&
        !uuid_parse(slice_from(actor, 4), &exec->record.row.api_key_id))
        exec->record.row.api_key_id = (struct uuid){{0}};
    if (exec_is_claimed(exec))
        store_execution_finish(pool, &exec->query, op, &exec->record.row, exec->key.claim.key,
                               end_of_claim(exec));
    else
        store_execution_insert(pool, &exec->query, op, &exec->record.row);
    return OP_WAIT;
}

/* The provider may have acted: try until it is recorded. RECORD_TRIES_MAX times RECORD_RETRY_MS are
 * two minutes at least; after that another process, or the scan for orphans, ends the claim as
 * unknown. */
static enum op_result record_again(struct exec *exec)
{
    ASSERT(exec_is_claimed(exec) && is_tried(exec));
    if (exec->record.tries++ >= RECORD_TRIES_MAX)
        return exec_stop_unavailable(
            exec,
            SLICE("The action ran, but its result could not be recorded. Check whether it was "
                  "done before sending it again."));
    op_sleep(&exec->op, &exec->timer, RECORD_RETRY_MS, "the database, to record a result");
    return op_wait_then(&exec->op, EXEC_STEP_RECORD);
}

static enum op_result stop_recovered(struct exec *exec)
{
    ASSERT(exec->key.state == EXEC_CLAIM_ENDED);
    return exec_stop_unavailable(
        exec, SLICE("The action ran, but this server had lost touch with the database and "
                    "its run was recorded as unknown. Check whether it was done before "
                    "sending it again."));
}

/* It was not stored, and nothing says that it cannot be. */
static enum op_result check_unstored(struct exec *exec)
{
    if (exec_is_claimed(exec) && is_tried(exec))
        return record_again(exec);
    if (exec_is_claimed(exec)) {
        exec_claim_release_later(exec);
        return OP_NEXT;
    }
    return exec_stop_unavailable(
        exec, SLICE("The database cannot be reached, so the result could not be recorded; "
                    "nothing was changed, try again."));
}

/* ERR_NOTFOUND: the fence did not match, so another process has recovered the claim after our lease
 * ran out, and its record is the one that stands. Like OK it ends the claim. ERR_INVALID and
 * ERR_LIMIT would come again however often it is tried. */
enum op_result exec_step_check_record(struct op *op)
{
    struct exec *exec = exec_of(op);
    ASSERT(exec_is_claimed(exec) || is_tried(exec)); /* else there was nothing to store */
    exec->out.times.record_ns += loop_now_ns(op->loop) - exec->phase_began_ns;
    int status = exec_is_claimed(exec) && is_tried(exec) ? store_hit_result(&exec->query)
                                                         : store_done_result(&exec->query);
    if (exec_is_claimed(exec) && (status == OK || status == ERR_NOTFOUND))
        exec_claim_move(exec, EXEC_CLAIM_ENDED);
    switch (status) {
    case OK:
        return OP_NEXT;
    case ERR_NOTFOUND:
        return stop_recovered(exec);
    case ERR_INVALID:
    case ERR_LIMIT:
        op_log(op, LOG_ERROR, "a result cannot be stored",
               LOG_CSTR("sqlstate", exec->query.sqlstate), LOG_STR("cause", exec->query.message));
        return exec_stop(exec, EXEC_INTERNAL, SLICE_NONE, SLICE_NONE);
    default:
        return check_unstored(exec);
    }
}

/* A refused credential is marked once, so that every later run says so without asking the app.
 * After the record: a mark without one would lose the run. The cached set goes first, so that no
 * run of this process finds the connection live while the statement is under way. */
enum op_result exec_step_mark_connection(struct op *op)
{
    struct exec *exec = exec_of(op);
    ASSERT(!exec_is_claimed(exec)); /* nothing is answered before its record */
    enum exec_reason reason = exec->record.is_settled ? exec->record.refusal : exec->out.reason;
    bool is_refused = reason == EXEC_REAUTH_REQUIRED || reason == EXEC_KEY_REFUSED;
    if (!is_refused || !exec->connection.item || exec->connection.item->status != CONNECTION_LIVE)
        return op_jump(op, EXEC_STEP_FIT_OUTPUT);
    connect_forget(exec->service->config.connect, exec->in.account_id,
                   exec->integration->integration_id);
    struct connection_loss loss = {
        .account_id = exec->in.account_id,
        .id = exec->connection.item->id,
        .rev = exec->connection.item->rev,
        .error = SLICE("the provider refused the credential"),
        .reason = slice_cstr(exec_reason_name(reason)),
        .actor = exec->in.actor,
        .request_id = exec->in.request_id,
        .address = exec->in.address.len > 0 ? exec->in.address : SLICE_NONE,
        .details = arena_printf(
            &op->arena, "{\"connection_id\":\"%lld\",\"integration_id\":\"%.*s\"}",
            (long long)exec->connection.item->id, SLICE_ARG(exec->integration->integration_id)),
    };
    store_connection_lost(exec->service->config.pool, &exec->query, op, &loss);
    return OP_WAIT;
}

/* The other processes drop their cached sets too. A mark that failed is made by the next refusal,
 * so its result is not checked. */
enum op_result exec_step_notify_connection(struct op *op)
{
    struct exec *exec = exec_of(op);
    connect_changed(exec->service->config.connect, exec->in.account_id,
                    exec->integration->integration_id);
    return OP_NEXT;
}

/* ---- claims that are released in the background ---- */

/* Our own claim while the database is unreachable: no other process ends it while this one lives,
 * so its release is tried until it is gone. The client has had its 503 long before. */
struct release {
    struct op op;
    struct pg_pool *pool;
    struct pg_query query;
    struct op_timer timer;
    struct claim claim;
    struct list link; /* in the service, to be cut on the way down */
};

enum release_step { RELEASE_CLAIM, RELEASE_CHECK };

static enum op_result step_release(struct op *op)
{
    struct release *release = CONTAINER_OF(op, struct release, op);
    store_claim_release(release->pool, &release->query, op, &release->claim);
    return OP_WAIT;
}

static enum op_result step_check_release(struct op *op)
{
    struct release *release = CONTAINER_OF(op, struct release, op);
    if (store_done_result(&release->query) == OK)
        return OP_DONE;
    op_sleep(op, &release->timer, RELEASE_RETRY_MS, "the database, to release a claim");
    return op_wait_then(op, RELEASE_CLAIM);
}

static void end_release(struct op *op, enum op_end end)
{
    (void)end;
    list_unlink(&CONTAINER_OF(op, struct release, op)->link);
}

static const struct op_step release_steps[] = {
    [RELEASE_CLAIM] = {"release", step_release, 0},
    [RELEASE_CHECK] = {"check", step_check_release, OP_TO(RELEASE_CLAIM)},
};
static const struct op_class release_class = {
    .name = "claim_release",
    OP_STEPS(release_steps),
    .on_end = end_release,
    .free = op_free_struct,
};

void exec_claim_release_later(struct exec *exec)
{
    /* Remembered as unsent before anything can fail: should the claim be committed after its
     * release, the scan for orphans frees its key instead of recording an unknown outcome. */
    exec_claim_move(exec, EXEC_CLAIM_ENDED);
    unsent_note(&exec->service->unsent, exec->key.claim.execution_id);
    struct release *release = mem_zalloc(sizeof(*release));
    if (!release) {
        op_log(&exec->op, LOG_ERROR, "a claim stays behind until the next scan for orphans",
               LOG_STR("integration_id", exec->out.integration_id));
        return;
    }
    release->pool = exec->service->config.pool;
    op_start(&release->op, &release_class, exec->op.loop, NULL, AUDIT_ARENA_BYTES_MAX);
    list_init(&release->link);
    list_push_back(&exec->service->releases, &release->link);
    struct arena *arena = &release->op.arena;
    release->claim = exec->key.claim;
    release->claim.integration_id = arena_dup(arena, exec->key.claim.integration_id);
    release->claim.action_id = arena_dup(arena, exec->key.claim.action_id);
    if (exec->key.claim.key.len > 0)
        release->claim.key = arena_dup(arena, exec->key.claim.key);
}

void exec_releases_cancel(struct exec_service *service)
{
    LIST_EACH(&service->releases, struct release, release, link)
        op_cancel(&release->op);
}

bool exec_releases_have(const struct exec_service *service, struct uuid execution_id)
{
    LIST_EACH(&service->releases, struct release, release, link) {
        if (uuid_eq(release->claim.execution_id, execution_id))
            return true;
    }
    return false;
}

/* ---- audit ---- */

struct audit_op {
    struct op op;
    struct pg_pool *pool;
    struct pg_query query;
    struct audit_event event;
};

static enum op_result step_insert(struct op *op)
{
    struct audit_op *audit = CONTAINER_OF(op, struct audit_op, op);
    store_audit_insert(audit->pool, &audit->query, op, &audit->event);
    return OP_WAIT;
}

static enum op_result step_check(struct op *op)
{
    struct audit_op *audit = CONTAINER_OF(op, struct audit_op, op);
    if (store_done_result(&audit->query) != OK)
        log_event(LOG_WARN, "an audit event was lost", LOG_STR("kind", audit->event.kind),
                  LOG_STR("reason", audit->event.reason));
    return OP_DONE;
}

static const struct op_step audit_steps[] = {{"insert", step_insert, 0}, {"check", step_check, 0}};
static const struct op_class audit_class = {
    .name = "audit",
    OP_STEPS(audit_steps),
    .free = op_free_struct,
};

static slice audit_details(const struct exec *exec, struct arena *arena)
{
    struct json_text text;
    struct json_writer *w = json_text_begin(&text, 8192);
    json_open(w, '{');
    json_member_str(w, "integration_id", slice_first(exec->out.integration_id, 200));
    json_member_str(w, "action_id", slice_first(exec->out.action_id, 200));
    json_close(w, '}');
    return json_text_take(&text, arena);
}

void exec_audit_blocked(struct exec *exec)
{
    ASSERT(exec_reason_is_blocked(exec->out.reason) && !exec->in.is_recorded_by_caller);
    struct audit_op *audit = mem_zalloc(sizeof(*audit));
    if (!audit)
        return;
    audit->pool = exec->service->config.pool;
    op_start(&audit->op, &audit_class, exec->op.loop, NULL, AUDIT_ARENA_BYTES_MAX);
    struct arena *arena = &audit->op.arena;
    audit->event = (struct audit_event){
        .account_id = exec->in.account_id,
        .id = uuid_v7(),
        .kind = SLICE("execution.blocked"),
        .reason = slice_cstr(exec_reason_name(exec->out.reason)),
        .actor = arena_dup(arena, exec->in.actor),
        .request_id = arena_dup(arena, exec->in.request_id),
        .address = exec->in.address.len > 0 ? arena_dup(arena, exec->in.address) : SLICE_NONE,
        .details = audit_details(exec, arena),
    };
}
