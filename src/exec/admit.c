/*
 * Whether the call may be sent now: checks the connection's limits, then the origin's circuit,
 * before anything is claimed (src/api/README.md "Executions"). Also updates both from the result of
 * the call.
 */
#include "exec/internal.h"

static struct limits_key limits_key_of(const struct exec *exec)
{
    return (struct limits_key){
        .account_id = exec_connection_owner(exec),
        .connection_id = exec->connection.item ? exec->connection.item->id : 0,
        .action = exec->action,
    };
}

static long long seconds_of(uint64_t ms)
{
    return (long long)((ms + 999) / 1000);
}

static enum op_result stop_limited(struct exec *exec)
{
    uint64_t wait_ms = exec->gate.slot.retry_after_ms;
    exec->out.retry_after_ms = (int64_t)wait_ms;
    return exec_stop(
        exec, EXEC_OWN_RATE_LIMIT,
        arena_printf(
            &exec->op.arena,
            "%.*s takes no more calls from this connection for about %lld s. Nothing was sent.",
            SLICE_ARG(exec->integration->name), seconds_of(wait_ms)),
        SLICE("Wait as long as Retry-After says, then send the same request again. Send fewer at a "
              "time."));
}

static struct breaker_key breaker_key_of(const struct exec *exec)
{
    return (struct breaker_key){
        .account_id = exec_payer(exec),
        .origin = breaker_origin_of(exec->attempt.request.url),
        .integration_id = exec->integration->integration_id,
        .is_host_given = exec->attempt.request.is_host_given,
    };
}

static enum op_result stop_circuit(struct exec *exec, slice origin,
                                   const struct breaker_refusal *refusal)
{
    exec->out.retry_after_ms = (int64_t)refusal->retry_ms;
    return exec_stop(
        exec, EXEC_CIRCUIT_OPEN,
        arena_printf(&exec->op.arena,
                     "Calls%s to %.*s kept failing, so no more are sent for about %lld s.",
                     refusal->is_of_all ? "" : " of this account", SLICE_ARG(origin),
                     seconds_of(refusal->retry_ms)),
        refusal->is_of_all
            ? SLICE("Nothing was sent, so nothing was done. The fault is in the app, not in this "
                    "request. Wait, then send it again unchanged.")
            : SLICE("Nothing was sent, so nothing was done. Most of this account's recent calls to "
                    "the app failed. Wait, then send it again unchanged."));
}

/* A wait takes at most half of the remaining time, because the call needs some, too. The circuit
 * is only checked here, and entered in admit, so that a probe's slot is not held during a wait. */
enum op_result exec_step_enter_limits(struct op *op)
{
    struct exec *exec = exec_of(op);
    ASSERT(exec->attempt.request.url.len > 0 && exec->out.attempts == 0);
    struct exec_service *service = exec->service;
    struct limits_key key = limits_key_of(exec);
    uint64_t now = exec->phase_began_ns = loop_now_ns(op->loop);
    uint64_t left_ns = exec->deadline_ns > now ? exec->deadline_ns - now : 0;
    uint64_t wait_ns = service->config.limit_wait_ms * 1000000;
    uint64_t until_ns = now + (wait_ns < left_ns / 2 ? wait_ns : left_ns / 2);
    /* a slot is held only if another run had the key and this run started again */
    exec_leave(exec);
    struct breaker_key circuit = breaker_key_of(exec);
    if (breaker_would_refuse(service->breaker, &circuit, now))
        return OP_NEXT; /* waiting would not help */
    if (limits_enter(service->limits, &exec->gate.slot, &key, until_ns, op) == LIMITS_QUEUED)
        return OP_WAIT;
    return OP_NEXT;
}

/* gate.slot has the decision of limits_enter, made at once or after the wait. If the circuit
 * refuses, the slot is still taken; on_end returns it with its token, since no call was made. */
enum op_result exec_step_admit(struct op *op)
{
    struct exec *exec = exec_of(op);
    ASSERT(!exec->gate.pass.member); /* the previous pass was returned */
    struct breaker_key key = breaker_key_of(exec);
    struct breaker_refusal refusal;
    exec->out.times.limits_ns += loop_now_ns(op->loop) - exec->phase_began_ns;
    if (exec->gate.slot.verdict == LIMITS_REFUSED)
        return stop_limited(exec);
    if (breaker_enter(exec->service->breaker, &exec->gate.pass, &key, loop_now_ns(op->loop),
                      &refusal))
        return OP_NEXT;
    return stop_circuit(exec, key.origin, &refusal);
}

/* ---- learning from the end of a call ---- */

static void send_news(struct exec *exec, const struct breaker_key *key, bool is_of_all,
                      const struct breaker_news *news)
{
    const struct exec_config *config = &exec->service->config;
    char text[CIRCUIT_NEWS_BYTES_MAX];
    if (news->turn == BREAKER_STAYS || !config->on_circuit)
        return;
    struct circuit_news sent = {exec->service->self, *key, is_of_all, *news};
    slice payload = circuit_news_format(&sent, text);
    if (payload.len > 0)
        config->on_circuit(config->owner, payload);
}

/* Votes on the circuit; if its state changes, other processes are notified. url: the URL of the
 * call that is voted on. */
static void vote_on(struct exec *exec, slice url, bool is_failure)
{
    struct breaker_key key = breaker_key_of(exec);
    key.origin = breaker_origin_of(url);
    breaker_report(&exec->gate.pass, is_failure, loop_now_ns(exec->op.loop));
    const struct breaker_votes_news *news = breaker_news(exec->service->breaker);
    send_news(exec, &key, false, &news->own);
    send_news(exec, &key, true, &news->all);
}

bool exec_service_hear(struct exec_service *service, slice payload)
{
    struct circuit_news news;
    if (!circuit_news_parse(payload, &news))
        return false;
    if (!uuid_eq(news.sender, service->self))
        breaker_hear(service->breaker, &news.key, news.is_of_all, &news.news,
                     loop_now_ns(service->config.loop));
    return true;
}

/* Used if the reply does not say how long to wait: the wait of an earlier reply applies, else the
 * manifest's default. */
static void learn_wait(struct exec *exec, const struct limits_key *key,
                       struct limits_feedback *feedback)
{
    struct limits *limits = exec->service->limits;
    uint64_t known_ms = limits_closed_ms(limits, key);
    uint64_t default_ms = (uint64_t)exec->integration->limits.retry_after_s * 1000;
    uint64_t wait_ms = known_ms > 0 ? known_ms : default_ms;
    if (wait_ms == 0)
        return;
    exec->out.retry_after_ms = feedback->retry_after_ms = (int64_t)wait_ms;
    if (known_ms == 0)
        limits_learn(limits, &exec->gate.slot, key, feedback);
}

void exec_limits_learn(struct exec *exec)
{
    struct exec_outcome *out = &exec->out;
    struct limits_key key = limits_key_of(exec);
    ASSERT(exec->out.attempts > 0);
    if (exec->attempt.request.is_bare)
        return; /* the server that replied does not know the connection */
    struct limits_feedback feedback = {
        .is_too_fast = out->reason == EXEC_PROVIDER_RATE_LIMITED,
        .retry_after_ms = out->retry_after_ms,
        .remaining = out->quota_remaining,
        .reset_ms = out->quota_reset_ms,
    };
    limits_learn(exec->service->limits, &exec->gate.slot, &key, &feedback);
    if (feedback.is_too_fast && out->retry_after_ms < 0)
        learn_wait(exec, &key, &feedback);
}

/* Sets *is_failure to whether the origin is at fault. Returns false (no vote) if the origin was not
 * called, or did not have enough time. */
static bool read_vote(const struct exec *exec, bool *is_failure)
{
    const struct http_call *call = &exec->attempt.call;
    *is_failure = true;
    switch (call->result) {
    case HTTP_CALL_OK:
        /* a manifest may map a 5xx to another cause: bad input, too fast */
        *is_failure = call->status >= 500 && (exec->out.reason == EXEC_PROVIDER_ERROR ||
                                              exec->out.reason == EXEC_TIMED_OUT);
        return true;
    case HTTP_CALL_TOO_LARGE:
        *is_failure = false;
        return true;
    case HTTP_CALL_DNS:
    case HTTP_CALL_CONNECT:
    case HTTP_CALL_TLS:
    case HTTP_CALL_TIMEOUT_CONNECT:
    case HTTP_CALL_TIMEOUT:
    case HTTP_CALL_RESET:
    case HTTP_CALL_PROTOCOL:
        return true;
    case HTTP_CALL_ADDRESS_REFUSED:
    case HTTP_CALL_PROXY:
    case HTTP_CALL_OVERLOADED:
    case HTTP_CALL_UNSENT:
    case HTTP_CALL_INVALID:
    case HTTP_CALL_CANCELLED:
    case HTTP_CALL_RESULTS:
        break;
    }
    return false;
}

enum op_result exec_change_origin(struct exec *exec)
{
    struct breaker_key key = breaker_key_of(exec);
    struct breaker_refusal refusal;
    uint64_t now = loop_now_ns(exec->op.loop);
    bool is_failure;
    ASSERT(exec->out.attempts > 0 && exec->progress.former_url.len > 0);
    if (slice_eq(key.origin, breaker_origin_of(exec->progress.former_url)))
        return OP_NEXT;
    if (exec->gate.pass.member && read_vote(exec, &is_failure))
        vote_on(exec, exec->progress.former_url, is_failure);
    breaker_leave(&exec->gate.pass);
    if (breaker_enter(exec->service->breaker, &exec->gate.pass, &key, now, &refusal))
        return OP_NEXT;
    return stop_circuit(exec, key.origin, &refusal);
}

/* vote_on comes first, because breaker_leave empties the pass. */
void exec_leave(struct exec *exec)
{
    bool is_failure, is_called = exec->out.attempts > 0;
    if (is_called && exec->gate.pass.member && read_vote(exec, &is_failure))
        vote_on(exec, exec->attempt.request.url, is_failure);
    breaker_leave(&exec->gate.pass);
    limits_leave(&exec->gate.slot, is_called);
}
