/*
 * The call to the provider, and when it is retried (src/api/README.md "Executions").
 */
#include "base/clock.h"
#include "base/metric.h"
#include "exec/internal.h"
#include "store/flow_read.h"

enum {
    /* A larger reply is parsed and evaluated on a pool thread: this takes up to 10 ms for a
     * megabyte. */
    READ_ON_LOOP_BYTES_MAX = 64 * 1024,
    TEXTS_OF_REPLY = 3,
};

static struct metric provider_calls = METRIC_INIT(
    "sluice_provider_calls_total",
    "Calls to providers by integration and result (a status class, or what went wrong).",
    METRIC_COUNTER);

static unsigned min_timeout(unsigned wanted, uint64_t left_ms)
{
    return wanted > 0 && wanted < left_ms ? wanted : 0;
}

bool exec_is_repeat_safe(const struct exec *exec)
{
    return exec->action->is_idempotent || catalog_has_provider_key(exec->action);
}

/* Whether the current request can be sent again without a second effect. */
static bool is_repeat_safe(const struct exec *exec)
{
    const struct catalog_action *action = exec->action;
    unsigned at = exec->progress.at;
    bool only_asks = at < action->then_count && !action->then[at].done;
    if (at > 0)
        return only_asks || action->then[at - 1].is_idempotent;
    return only_asks || exec_is_repeat_safe(exec);
}

/* Whether the intent, if any, may still be carried out here. Once the lease has expired another
 * process may have ended the intent, and this process continues as another incarnation. */
static bool is_ours(const struct exec *exec)
{
    const struct node *node = exec->service->config.node;
    const struct exec_proof *proof = exec->in.proof;
    bool is_claimed = exec_is_claimed(exec);
    if (!proof && !is_claimed)
        return true;
    return node_may_write(node) && (!proof || uuid_eq(node_id(node), proof->owner)) &&
           (!is_claimed || uuid_eq(node_id(node), exec->key.claim.owner));
}

/* The difference is not negative: both times are from clock_boot_ns. */
static bool is_proven(const struct exec *exec, uint64_t ms_max)
{
    if (!exec->in.proof)
        return true;
    return clock_boot_ns() - exec->in.proof->sent_boot_ns < ms_max * 1000000;
}

/* The last check: the connection is open, and the first byte is about to be sent. In the
 * microseconds after this check the process may still be suspended; the margins of the lease and of
 * a cancel's wait cover this case. More is impossible without support by the provider. */
static bool may_send(const struct http_call *call)
{
    const struct exec *exec = CONTAINER_OF(call, struct exec, attempt.call);
    return is_ours(exec) && is_proven(exec, EXEC_PROOF_MS);
}

/* Ends the run before the first byte, so that the claim is deleted and the key is free. If an
 * earlier request of the run may have had an effect, exec_settle says so. */
static enum op_result stop_unsent(struct exec *exec, slice message)
{
    exec->out.effect = EXEC_EFFECT_NONE;
    exec->out.message = message;
    exec->out.hint = SLICE_NONE;
    exec->out.reason = EXEC_UNAVAILABLE;
    return op_jump(&exec->op, EXEC_STEP_RECORD);
}

/* Reads the flow's row. Most calls skip this step, since they directly follow the statement that
 * proved ownership. */
enum op_result exec_step_prove(struct op *op)
{
    struct exec *exec = exec_of(op);
    const struct exec_proof *proof = exec->in.proof;
    exec->attempt.proof_boot_ns = clock_boot_ns();
    store_flow_rev(exec->service->config.pool, &exec->query, op, exec->in.account_id,
                   proof->flow_id);
    return OP_WAIT;
}

enum op_result exec_step_proven(struct op *op)
{
    struct exec *exec = exec_of(op);
    struct exec_proof *proof = exec->in.proof;
    int64_t rev;
    int status = store_rev_result(&exec->query, &rev);
    if (status == ERR_NOTFOUND || (status == OK && rev != proof->rev)) {
        exec_end_with(exec, EXEC_CANCELLED, SLICE("The flow was cancelled or taken over."),
                      SLICE_NONE);
        return op_jump(op, exec_is_claimed(exec) ? EXEC_STEP_RECORD : EXEC_STEP_ANSWER);
    }
    if (status != OK)
        return stop_unsent(exec, SLICE("The database cannot be reached. Nothing was sent."));
    if (proof->sent_boot_ns < exec->attempt.proof_boot_ns)
        proof->sent_boot_ns = exec->attempt.proof_boot_ns;
    return OP_NEXT;
}

enum op_result exec_step_call(struct op *op)
{
    struct exec *exec = exec_of(op);
    ASSERT(exec->attempt.request.url.len > 0 && !exec->in.is_dry_run);
    /* a write is sent only with a durable intent */
    ASSERT(exec->in.proof || exec->action->level == LEVEL_READ || exec_is_claimed(exec));
    const struct catalog_limits *limits = &exec->integration->limits;
    uint64_t now = loop_now_ns(op->loop);
    uint64_t left_ms = exec->deadline_ns > now ? (exec->deadline_ns - now) / 1000000 : 0;
    /* Ownership and proof are checked here, which may save opening a connection, and again in
     * may_send, which decides. */
    if (!is_ours(exec))
        return stop_unsent(exec, SLICE("This server has lost its connection to the database. "
                                       "Nothing was sent. Try again."));
    if (!is_proven(exec, EXEC_PROOF_MS / 2)) /* the proof would expire during any handshake */
        return op_jump(op, EXEC_STEP_PROVE);
    bool is_first = exec->out.attempts == 0;
    bool is_retry = !is_first && exec->out.reason != EXEC_SUCCEEDED;
    /* the outcome of the last attempt is the result */
    if (is_retry && breaker_is_open(&exec->gate.pass, now))
        return op_jump(op, EXEC_STEP_NEXT);
    if (!is_first)
        (void)limits_repeat(&exec->gate.slot); /* the back-off has already been waited for */
    /* The manifest's total time-out is for one call; the run's deadline is for all calls. */
    uint64_t deadline = exec->deadline_ns;
    if (limits->total_timeout_ms > 0 && limits->total_timeout_ms < left_ms)
        deadline = now + (uint64_t)limits->total_timeout_ms * 1000000;
    exec->attempt.call = (struct http_call){
        .tenant = exec_payer(exec),
        .attempt = exec->out.attempts + 1,
        .method = exec->attempt.request.method,
        .url = exec->attempt.request.url,
        .is_host_given = exec->attempt.request.is_host_given || exec->integration->is_host_given,
        .headers = exec->attempt.request.headers,
        .header_count = exec->attempt.request.header_count,
        .body_parts = exec->attempt.request.body,
        .body_part_count = exec->attempt.request.body_count,
        .is_idempotent = is_repeat_safe(exec),
        .may_send = may_send,
        .deadline_ns = deadline,
        .connect_ms = min_timeout(limits->connect_timeout_ms, left_ms),
        .first_byte_ms = min_timeout(limits->first_byte_timeout_ms, left_ms),
        .response_bytes_max = limits->response_bytes_max ? limits->response_bytes_max
                                                         : exec->service->config.response_bytes_max,
    };
    /* Set before the call starts: from here on exec_leave treats the call as made, even if it is
     * cancelled. */
    exec->out.attempts++;
    exec->attempt.started_ns = now;
    exec->attempt.memory_ns = 0;
    exec_trace_call(exec);
    if (http_call_start(exec->service->config.http, &exec->attempt.call, op) == OK)
        return OP_WAIT;
    exec->attempt.call.result = HTTP_CALL_INVALID;
    return OP_NEXT;
}

static void count_call(struct exec *exec)
{
    char labels[160], digits[SLICE_U64_MAX];
    uint64_t took_ns = clock_mono_ns() - exec->attempt.started_ns - exec->attempt.memory_ns;
    bool is_ok = exec->attempt.call.result == HTTP_CALL_OK;
    slice name = exec->integration->integration_id;
    exec->out.times.provider_ns += took_ns;
    app_times_count_call(app_times_of(&exec->service->app_times, exec->integration), took_ns);
    slice of_result = SLICE_JOIN(labels, SLICE("integration=\""), name, SLICE("\",result=\""),
                                 is_ok
                                     ? slice_of_u64(exec->attempt.call.status / 100, digits)
                                     : slice_cstr(http_call_result_name(exec->attempt.call.result)),
                                 is_ok ? SLICE("xx\"") : SLICE("\""));
    metric_add(metric_series(&provider_calls, of_result), 1);
    exec_trace_called(exec, took_ns);
}

/* Called for the final result of the call, not for each attempt. */
static void report_use(const struct exec *exec)
{
    const struct exec_outcome *out = &exec->out;
    if (exec->connection.item)
        connect_used(exec->service->config.connect, exec_connection_owner(exec), exec_payer(exec),
                     exec->connection.item->id,
                     out->reason == EXEC_SUCCEEDED ? SLICE_NONE : out->message);
}

/* Whether the current request cannot be repeated on its own, but its action can be repeated from
 * the first request. */
static bool repeats_from_first(const struct exec *exec)
{
    return exec->progress.at > 0 && exec->out.reason != EXEC_UNREACHABLE && !is_repeat_safe(exec) &&
           exec_is_repeat_safe(exec);
}

/* Whether the same request may be sent again without a second effect, and a retry could help. */
static bool is_worth_retrying(const struct exec *exec)
{
    const struct http_call *call = &exec->attempt.call;
    if (exec->out.attempts >= EXEC_ATTEMPTS_MAX || exec->gate.pass.is_probe)
        return false;
    if (repeats_from_first(exec) &&
        exec->out.attempts + exec->pages.attempts >= 2 * EXEC_ATTEMPTS_MAX)
        return false;
    if (exec->out.reason == EXEC_UNREACHABLE)
        return call->result == HTTP_CALL_DNS || call->result == HTTP_CALL_CONNECT ||
               call->result == HTTP_CALL_PROXY || call->result == HTTP_CALL_RESET;
    if (!is_repeat_safe(exec) && !repeats_from_first(exec))
        return false;
    if (exec->out.reason == EXEC_PROVIDER_RATE_LIMITED || exec->out.reason == EXEC_BROKEN_OFF ||
        exec->out.is_in_progress)
        return true;
    return call->result == HTTP_CALL_OK &&
           (call->status == 502 || call->status == 503 || call->status == 504);
}

uint64_t exec_backoff_ms(unsigned attempts, uint64_t left_ms, int64_t retry_after_ms)
{
    uint64_t ceiling = EXEC_BACKOFF_MS_MAX;
    /* 16 keeps the shift within its type; the maximum is reached at 6. */
    if (attempts < 16 && (uint64_t)EXEC_BACKOFF_MS_MIN << attempts < ceiling)
        ceiling = (uint64_t)EXEC_BACKOFF_MS_MIN << attempts;
    /* Never 0, which means "do not retry". Added to the wait that the provider asked for, so
     * that calls which it rejected together do not return together. */
    uint64_t wait = 1 + random_below(ceiling);
    if (retry_after_ms > EXEC_BACKOFF_MS_MAX)
        return 0;
    if (retry_after_ms > 0)
        wait += (uint64_t)retry_after_ms;
    return wait * 2 < left_ms ? wait : 0;
}

uint64_t exec_left_ms(const struct exec *exec)
{
    uint64_t now = loop_now_ns(exec->op.loop);
    return exec->deadline_ns > now ? (exec->deadline_ns - now) / 1000000 : 0;
}

/* Takes the memory to parse a large reply, and for its output and summary as text. Returns false if
 * the run must wait for exec->attempt.reading_bytes of memory. */
static bool take_memory(struct exec *exec)
{
    struct budget_use *use = exec->op.arena.use;
    slice body = exec->attempt.call.body;
    if (!use || body.len <= READ_ON_LOOP_BYTES_MAX || exec->attempt.reading_bytes > 0)
        return true;
    size_t bytes = json_parse_bytes(body) + TEXTS_OF_REPLY * body.len;
    if (budget_use_take(use, bytes))
        return true;
    exec->attempt.reading_bytes = bytes;
    return false;
}

static void read_attempt_reply(struct op *op)
{
    struct exec *exec = exec_of(op);
    if (!take_memory(exec))
        return;
    exec->attempt.reading_bytes = 0;
    struct call_scope scope = {.input = exec_input(exec),
                               .connection_params =
                                   exec->connection.item ? exec->connection.item->params : NULL,
                               .progress = &exec->progress,
                               .auth = exec_auth(exec),
                               .is_display_unused = exec->in.is_recorded_by_caller};
    call_reply_read(exec->action, &exec->attempt.call, &scope, &exec->attempt.request, &op->arena,
                    &exec->out);
}

/* Called when the wait for memory has ended without it. The reply of a write says what was done, so
 * it is read anyway. That of a read is dropped: on a slow machine many waits end together, and all
 * these replies would take several times the budget. */
static void drop_reply_of_read(struct exec *exec)
{
    struct http_call *call = &exec->attempt.call;
    if (exec->action->level != LEVEL_READ)
        return;
    call->result = HTTP_CALL_OVERLOADED;
    call->body = SLICE_NONE;
    (void)err_set(&call->err, ERR_NOMEM, "timed out waiting for memory to read the reply");
}

enum op_result exec_step_read_reply(struct op *op)
{
    struct exec *exec = exec_of(op);
    if (exec->attempt.call.result ==
        HTTP_CALL_UNSENT) { /* nothing was sent, so this does not count as an attempt */
        exec->out.attempts--;
        return op_jump(op, EXEC_STEP_CALL);
    }
    ASSERT(exec->out.attempts > 0);
    if (exec->attempt.reading_bytes > 0)
        exec->attempt.memory_ns = clock_mono_ns() - exec->attempt.waits_since_ns;
    if (exec->attempt.reading_bytes > 0 && !exec->attempt.memory.is_taken)
        drop_reply_of_read(exec);
    return op_run_job(op, &exec->job, exec->attempt.call.body.len > READ_ON_LOOP_BYTES_MAX,
                      read_attempt_reply, "the reply to be read");
}

/* The reply has arrived, so the run waits for memory until its deadline. Without memory the waiting
 * replies are read one at a time (BUDGET_IN_HAND). The app has done its part, so this is not
 * counted as its time. The connection's slot is kept: another call would only bring a reply that
 * waits, too. */
static enum op_result wait_for_memory(struct exec *exec)
{
    ASSERT(exec->op.arena.use && exec->attempt.reading_bytes > 0);
    exec->attempt.waits_since_ns = clock_mono_ns();
    bool is_taken = budget_wait_op(&exec->attempt.memory, &exec->op, exec->op.arena.use,
                                   exec->attempt.reading_bytes, BUDGET_IN_HAND, exec_left_ms(exec));
    return is_taken ? op_jump(&exec->op, EXEC_STEP_READ_REPLY)
                    : op_wait_then(&exec->op, EXEC_STEP_READ_REPLY);
}

/* The order matters. Limits are updated from every reply, including one that is retried. A
 * refused token is renewed before a retry is considered, since the same token would be refused
 * again. Only then is it decided whether this reply is final. */
enum op_result exec_step_check_reply(struct op *op)
{
    struct exec *exec = exec_of(op);
    ASSERT(exec->out.attempts > 0 && exec->out.reason < EXEC_REASONS);
    if (exec->attempt.reading_bytes > 0)
        return wait_for_memory(exec);
    if (exec->op.arena.use)
        budget_use_settle(exec->op.arena.use);
    exec_doubt_learn(exec);
    exec->out.is_repeatable = exec->out.effect == EXEC_EFFECT_NONE ||
                              (exec->in.is_recorded_by_caller && exec_is_repeat_safe(exec));
    count_call(exec);
    exec_limits_learn(exec);
    if (exec_renews_after(exec))
        return op_jump(op, EXEC_STEP_RENEW_TOKEN);
    exec_excuse_token(exec);
    if (exec_follow_redirect(exec))
        return op_jump(op, EXEC_STEP_CALL);
    uint64_t wait_ms = 0;
    if (exec->out.reason != EXEC_SUCCEEDED && is_worth_retrying(exec))
        wait_ms = exec_backoff_ms(exec->out.attempts, exec_left_ms(exec), exec->out.retry_after_ms);
    if (wait_ms > 0 && repeats_from_first(exec) && !exec_start_over(exec))
        wait_ms = 0;
    if (wait_ms == 0) {
        bool is_too_fast = exec->out.reason == EXEC_PROVIDER_RATE_LIMITED;
        if (is_too_fast && exec->out.retry_after_ms < 0 && !exec->in.is_recorded_by_caller)
            exec->out.retry_after_ms = EXEC_RETRY_AFTER_MS_DEFAULT;
        report_use(exec);
        return OP_NEXT;
    }
    op_log(op, LOG_INFO, "calling the provider again",
           LOG_STR("integration_id", exec->out.integration_id),
           LOG_CSTR("cause", exec_reason_name(exec->out.reason)), LOG_INT("wait_ms", wait_ms));
    op_sleep(op, &exec->timer, wait_ms, "back-off");
    return op_wait_then(op, EXEC_STEP_CALL);
}
