/*
 * The sequence of an execution, in reading order, and the service that counts executions.
 */
#include "exec/internal.h"

#include "base/clock.h"
#include "base/mem.h"
#include "base/metric.h"
#include "call/summary.h"

enum {
    LIMITS_IDLE_MAX = 20000, /* idle connections whose limits are remembered */
    STORED_MAX = 20000,      /* large summaries being read at a time */
    ENDINGS_MAX = 10000,
    AUDITS_MAX = 4000, /* beyond this, events are counted as lost */
};

/* Each line names the steps that may follow, besides the next line and the answer (stop). */
#define TO(NAME)                OP_TO(EXEC_STEP_##NAME)
#define STEP(NAME, name, jumps) [EXEC_STEP_##NAME] = {#name, exec_step_##name, jumps}
static const struct op_step steps[EXEC_STEPS] = {
    /* the action, what the key's policy decides, and its files if any: hashed for the key's
     * fingerprint, decoded. LOAD_KEY sends an unconfirmed write to CHECK_INPUT, so that nothing is
     * revealed about its key */
    STEP(FIND_ACTION, find_action, TO(FIND_ACTION) | TO(LOAD_KEY) | TO(CHECK_INPUT) | TO(ANSWER)),
    STEP(TAKE_FILES, take_files, 0),
    /* whether the action has already run with this key: this precedes the checks, since a stored
     * result is returned even if the connection no longer exists. After a wait for another run,
     * LOAD_KEY runs again */
    STEP(LOAD_KEY, load_key,
         TO(LOAD_KEY) | TO(TAKE_STORED) | TO(CHECK_INPUT) | TO(FIT_OUTPUT) | TO(ANSWER)),
    STEP(CHECK_KEY, check_key,
         TO(LOAD_KEY) | TO(READ_REPLAY) | TO(TAKE_STORED) | TO(CHECK_INPUT) | TO(FIT_OUTPUT) |
             TO(ANSWER)),
    STEP(READ_REPLAY, read_replay, TO(LOAD_KEY) | TO(TAKE_STORED) | TO(FIT_OUTPUT) | TO(ANSWER)),
    STEP(TAKE_STORED, take_stored, TO(LOAD_KEY) | TO(ANSWER)),
    /* whether the action may run; the request is built in CHECK_CONNECTION, with the credential, or
     * again in REBUILD_REQUEST with a renewed token */
    STEP(CHECK_INPUT, check_input, TO(ANSWER)),
    STEP(FIND_CONNECTION, find_connection, 0),
    STEP(CHECK_CONNECTION, check_connection,
         TO(FIND_CONNECTION) | TO(SHOW) | TO(HOLD) | TO(ENTER_LIMITS) | TO(ANSWER)),
    STEP(RENEW_TOKEN, renew_token, 0),
    STEP(RELOAD_CONNECTION, reload_connection, TO(ENTER_LIMITS) | TO(NEXT)),
    STEP(REBUILD_REQUEST, rebuild_request,
         TO(SHOW) | TO(ENTER_LIMITS) | TO(CALL) | TO(NEXT) | TO(ANSWER)),
    /* a dry run that a person will read: what its ids mean, from reads of the same connection */
    STEP(SHOW, show, 0),
    STEP(TAKE_TEXTS, take_texts, TO(ANSWER)),
    /* a call that has to be approved: the approval is made, or found */
    STEP(HOLD, hold, TO(ANSWER)),
    STEP(HELD, held, TO(READ_REPLAY) | TO(ANSWER)),
    /* limits, circuit and the intent: the claim comes last, because a wait for the limits may be
     * refused and a refusal must leave no row. CLAIM jumps over PROVE: the row that proves a flow's
     * step was written a moment ago */
    STEP(ENTER_LIMITS, enter_limits, 0),
    STEP(ADMIT, admit, TO(ANSWER)),
    STEP(CLAIM, claim, TO(CALL) | TO(ANSWER)),
    STEP(CHECK_CLAIM, check_claim, TO(LOAD_KEY) | TO(READ_REPLAY) | TO(CALL) | TO(ANSWER)),
    /* the call, its retries, and what follows: another request, another page, or the end; only CALL
     * sends a request, and goes back to PROVE if the proof is too old to be valid at the first
     * byte */
    STEP(PROVE, prove, 0),
    STEP(PROVEN, proven, TO(RECORD) | TO(ANSWER)),
    STEP(CALL, call, TO(PROVE) | TO(NEXT) | TO(RECORD)),
    STEP(READ_REPLY, read_reply, TO(CALL)),
    STEP(CHECK_REPLY, check_reply, TO(RENEW_TOKEN) | TO(CALL) | TO(READ_REPLY)),
    STEP(NEXT, next, TO(NEXT) | TO(CALL)),
    /* the record and the answer: the record has the whole output, so it is written before the
     * answer's copy is cut */
    STEP(RECORD, record, TO(MARK_CONNECTION) | TO(FIT_OUTPUT)),
    STEP(CHECK_RECORD, check_record,
         TO(RECORD) | TO(MARK_CONNECTION) | TO(FIT_OUTPUT) | TO(ANSWER)),
    STEP(MARK_CONNECTION, mark_connection, 0),
    STEP(NOTIFY_CONNECTION, notify_connection, 0),
    STEP(FIT_OUTPUT, fit_output, 0),
    STEP(ANSWER, answer, 0),
};

static struct metric executions_total = METRIC_INIT(
    "sluice_executions_total", "Executions by integration and how they ended.", METRIC_COUNTER);
static struct metric executions_active =
    METRIC_INIT("sluice_executions_active", "Executions under way.", METRIC_GAUGE);

struct exec_service *exec_service_new(const struct exec_config *config)
{
    struct exec_service *service = mem_zalloc(sizeof(*service));
    if (!service)
        return NULL;
    service->config = *config;
    service->self = uuid_v7();
    list_init(&service->all);
    list_init(&service->carried);
    store_laters_init(&service->endings, config->loop, config->pool, ENDINGS_MAX);
    store_laters_init(&service->audits, config->loop, config->pool, AUDITS_MAX);
    map_init(&service->in_flight, config->executions_max + 1);
    exec_turns_init(&service->turns, config->loop);
    concurrency_init(&service->concurrency, config->executions_max, config->account_executions_max);
    exec_summaries_init(&service->summaries, config->loop, config->pool, config->work, STORED_MAX);
    counts_init(&service->tallies, &tallies_class, config->loop, config->pool);
    counts_init(&service->usage, &usage_class, config->loop, config->pool);
    struct limits_config limits = {
        .loop = config->loop,
        .buckets_max = config->executions_max + LIMITS_IDLE_MAX,
        .leases = config->leases,
        .is_off = config->is_limits_off,
    };
    service->limits = limits_new(&limits);
    service->breaker = breaker_new(&config->breaker);
    service->sums = tally_cache_new();
    if (app_times_init(&service->app_times) == OK && service->limits && service->breaker &&
        service->sums)
        return service;
    exec_service_free(service);
    return NULL;
}

void exec_service_holder_set(struct exec_service *service, const struct exec_holder *holder)
{
    service->holder = *holder;
}

void exec_service_free(struct exec_service *service)
{
    if (!service)
        return;
    exec_turns_deinit(&service->turns);
    concurrency_deinit(&service->concurrency);
    map_deinit(&service->in_flight);
    exec_summaries_deinit(&service->summaries);
    unsent_deinit(&service->unsent);
    store_laters_deinit(&service->endings);
    store_laters_deinit(&service->audits);
    counts_deinit(&service->tallies);
    counts_deinit(&service->usage);
    app_times_deinit(&service->app_times);
    tally_cache_free(service->sums);
    limits_free(service->limits);
    breaker_free(service->breaker);
    mem_free(service);
}

bool exec_service_may_write(const struct exec_service *service)
{
    return node_may_write(service->config.node);
}

size_t exec_service_active(const struct exec_service *service)
{
    return service->concurrency.count + service->endings.count + service->audits.count;
}

/* A run's id is in key.claim before the claim is sent, and stays in `all` until it has ended, so a
 * claim in the database that has no run here is an orphan. The search is linear: housekeeping calls
 * this for the few claims that are older than ORPHAN_AGE_MS. */
static bool is_carried(const void *owner, struct uuid execution_id)
{
    const struct exec_service *service = owner;
    LIST_EACH(&service->all, struct exec, exec, all_link) {
        if (uuid_eq(exec->key.claim.execution_id, execution_id))
            return true;
    }
    LIST_EACH(&service->carried, struct exec_carried, carried, link) {
        if (uuid_eq(carried->execution_id, execution_id))
            return true;
    }
    return exec_endings_have(service, execution_id);
}

void exec_claim_carry(struct exec_service *service, struct exec_carried *carried)
{
    list_push_back(&service->carried, &carried->link);
}

static bool is_unsent(const void *owner, struct uuid execution_id)
{
    const struct exec_service *service = owner;
    return unsent_has(&service->unsent, execution_id);
}

struct node_claims exec_service_claims(const struct exec_service *service)
{
    return (struct node_claims){is_carried, is_unsent, service};
}

size_t exec_service_output_bytes(const struct exec_service *service)
{
    return service->config.output_bytes;
}

struct exec_summaries *exec_service_summaries(struct exec_service *service)
{
    return &service->summaries;
}

struct counts *exec_service_tallies(struct exec_service *service)
{
    return &service->tallies;
}

bool exec_service_write_counts(struct exec_service *service)
{
    counts_write(&service->tallies);
    counts_write(&service->usage);
    return counts_are_written(&service->tallies) && counts_are_written(&service->usage);
}

struct tally_cache *exec_service_sums(struct exec_service *service)
{
    return service->sums;
}

void exec_service_cancel_all(struct exec_service *service)
{
    store_laters_cancel(&service->endings);
    store_laters_cancel(&service->audits);
    LIST_EACH(&service->all, struct exec, exec, all_link)
        op_cancel(&exec->op);
}

static void count_active(struct exec *exec, bool is_active)
{
    struct concurrency *inflight = &exec->service->concurrency;
    if (is_active)
        exec->counted = concurrency_enter(inflight, exec_payer(exec));
    else if (exec->counted)
        concurrency_leave(inflight, exec->counted);
    if (!is_active)
        exec->counted = NULL;
    metric_set(metric_series(&executions_active, SLICE_NONE), (double)inflight->count);
}

static void count_times(struct exec *exec, uint64_t took_ns)
{
    struct exec_times *times = &exec->out.times;
    uint64_t known_ns = times->limits_ns + times->provider_ns + times->record_ns;
    times->gate_ns = took_ns > known_ns ? took_ns - known_ns : 0;
    app_times_count(app_times_of(&exec->service->app_times, exec->integration), times, took_ns);
}

/* Counts a run that was attempted or blocked, unless it was answered from what is stored. A part of
 * another run is not an execution of its own: no caller asked for it, and none is stored. */
static void count_run(struct exec *exec, uint64_t took_ns)
{
    const struct exec_outcome *out = &exec->out;
    if (exec->in.is_part || !exec_reason_status(out->reason) || out->is_replayed ||
        out->is_dry_run || exec_is_known_hold(exec))
        return;
    tallies_count(&exec->service->tallies, exec_payer(exec),
                  exec->integration ? exec->integration->integration_id : SLICE(""),
                  exec->action ? exec->action->action_id : SLICE(""), &exec->out, exec->in.input,
                  took_ns);
    bool is_of_user = !uuid_is_nil(exec->in.by.parent_id);
    const struct usage_by by = {
        .account_id = exec_payer(exec),
        .user_id = is_of_user ? exec->in.account_id : (struct uuid){{0}},
        .key_id = audit_actor_key(exec->in.by.actor),
    };
    bool is_write = exec->action && exec_scope_of(exec->action) == SCOPE_EXECUTE_WRITE;
    usage_count(&exec->service->usage, &by, out, took_ns, is_write, exec->in.is_recorded_by_caller);
}

static void count_end(struct exec *exec)
{
    char labels[160];
    slice integration = exec->integration ? exec->integration->integration_id : SLICE("(unknown)");
    slice outcome = exec->out.is_dry_run ? SLICE("dry_run")
                                         : slice_cstr(exec_reason_name(exec->out.reason));
    slice text = SLICE_JOIN(labels, SLICE("integration=\""), integration, SLICE("\",outcome=\""),
                            outcome, SLICE("\""));
    if (!exec->in.is_part)
        metric_add(metric_series(&executions_total, text), 1);
    uint64_t took_ns = loop_now_ns(exec->op.loop) - exec->op.started_ns;
    count_times(exec, took_ns);
    exec_trace_end(exec, took_ns);
    count_run(exec, took_ns);
}

/* Also called after a cancel: everything that was taken is returned here, and only here. */
static void on_end(struct op *op, enum op_end end)
{
    struct exec *exec = exec_of(op);
    ASSERT(end != OP_ENDED_FAILED); /* every failure of a run is an outcome and is answered */
    if (end == OP_ENDED_CANCELLED)
        exec->out.reason = EXEC_CANCELLED;
    /* The circuit's vote reads the call and the outcome, so it comes first. Waiters on the key are
     * only woken here; they run later, with the copies of the row made now. */
    exec_leave(exec);
    exec_key_release(exec);
    exec_lost_note(exec);
    list_unlink(&exec->all_link);
    count_active(exec, false);
    count_end(exec);
    /* This comes last, because count_end still reads the integration's name from the catalog's
     * memory. */
    exec_connection_drop(exec);
    catalog_unref(exec->catalog);
    exec->catalog = NULL;
}

/* Each of these calls does nothing if there is nothing to cancel, so the run's present step does
 * not matter. */
static void on_cancel(struct op *op)
{
    struct exec *exec = exec_of(op);
    http_call_cancel(&exec->attempt.call);
    exec_summary_read_cancel(&exec->key.summary_read);
    budget_wait_stop(&exec->attempt.memory);
    exec_cancel_each(exec);
    connect_renew_cancel(&exec->connection.renewal);
    exec_shows_cancel(exec);
    limits_leave(&exec->gate.slot, false);
}

/* The struct is in its parent's arena. */
static void on_free(struct op *op)
{
    policy_unref(exec_of(op)->in.policy);
    budget_use_end(&exec_of(op)->use);
}

static const struct op_class exec_class = {
    .name = "exec",
    OP_STEPS(steps),
    .stop = EXEC_STEP_ANSWER,
    .on_cancel = on_cancel,
    .on_end = on_end,
    .free = on_free,
};

/* An execution's memory is counted separately from its caller's, since one execution may exceed its
 * account's share. If memory is short, it is counted with the caller's. */
static void count_memory(struct exec *exec)
{
    struct budget_queue *work = exec->service->config.work;
    if (!work || budget_use_begin(&exec->use, &work->budget, exec_payer(exec)) != OK)
        return;
    exec->op.arena.use = NULL;
    arena_count_in(&exec->op.arena, &exec->use);
}

struct exec *exec_start(struct exec_service *service, const struct exec_request *request,
                        struct op *parent)
{
    struct exec *exec = arena_alloc(&parent->arena, sizeof(*exec));
    if (!exec)
        return NULL;
    memset(exec, 0, EXEC_CLEARED);
    exec->service = service;
    exec->in = *request;
    (void)policy_ref(exec->in.policy);
    list_init(&exec->key.waiters);
    list_init(&exec->key.waiter_link);
    list_init(&exec->all_link);
    list_push_back(&service->all, &exec->all_link);
    exec->out.retry_after_ms = exec->out.quota_remaining = exec->out.quota_reset_ms = -1;
    exec->out.started_us = clock_shared_us();
    exec->out.approval_flow_id = exec->in.approval_flow_id;
    op_start(&exec->op, &exec_class, service->config.loop, parent,
             EXEC_ARENA_BYTES_MAX + call_files_size(request->files, request->file_count));
    exec->op.request_id = request->by.request_id;
    count_memory(exec);
    exec_trace_begin(exec);
    /* The time-out is that of the setting until find_action knows the action's own. A run that
     * exceeds its account's share begins anyway: find_action refuses it, so that its caller gets an
     * outcome as usual. */
    exec->deadline_ns = loop_now_ns(exec->op.loop) + service->config.timeout_ms * 1000000;
    count_active(exec, true);
    return exec;
}

const struct exec_outcome *exec_outcome_of(const struct exec *exec)
{
    ASSERT(exec->op.is_ended);
    return &exec->out;
}

slice exec_summary_of(const struct exec *exec)
{
    ASSERT(exec->op.is_ended);
    return exec->summary_json;
}

struct op *exec_op_of(struct exec *exec)
{
    return &exec->op;
}

void exec_cancel(struct exec *exec)
{
    op_cancel(&exec->op);
}

/* A run whose client has closed is cancelled while nothing depends on it: before a provider can
 * have received the request, and a plain read at any time. A read with a key may have sent its
 * claim, and a write after CLAIM may have been sent: both continue until they are recorded. A run
 * whose result other requests with the same key are waiting for continues, too. */
void exec_client_gone(struct exec *exec)
{
    exec->key.is_client_gone = true;
    if (exec->op.is_ended) { /* its action may no longer exist */
        exec_lost_note(exec);
        return;
    }
    bool is_plain_read = exec->action && exec->action->level == LEVEL_READ &&
                         exec->in.idempotency_key.len == 0;
    bool is_early = exec->op.step <= EXEC_STEP_CLAIM && !exec_is_claimed(exec);
    if (!op_is_active(&exec->op) || !list_is_empty(&exec->key.waiters))
        return;
    if (is_plain_read || is_early)
        op_cancel(&exec->op);
}

/* ---- endings ---- */

void exec_end_with(struct exec *exec, enum exec_reason reason, slice message, slice hint)
{
    ASSERT(reason != EXEC_SUCCEEDED && reason < EXEC_REASONS);
    exec->out.reason = reason;
    exec->out.effect = EXEC_EFFECT_NONE; /* the request is not sent */
    exec->out.message = message;
    exec->out.hint = hint;
    exec->out.display_summary = message;
    exec->out.display_title = exec->action ? exec->action->title : SLICE("Action not run");
}

enum op_result exec_stop(struct exec *exec, enum exec_reason reason, slice message, slice hint)
{
    exec_end_with(exec, reason, message, hint);
    return OP_STOP;
}

enum op_result exec_stop_unavailable(struct exec *exec, slice message)
{
    return exec_stop(exec, EXEC_UNAVAILABLE, message, SLICE_NONE);
}

enum op_result exec_stop_memory(struct exec *exec)
{
    return exec_stop_unavailable(
        exec, SLICE("The server is out of memory. Nothing was done. Try again."));
}

enum op_result exec_stop_database(struct exec *exec)
{
    return exec_stop_unavailable(
        exec, SLICE("The database cannot be reached. Nothing was done. Try again."));
}
