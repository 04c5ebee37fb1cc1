/*
 * Outcomes to envelopes; see envelope.h.
 */
#include "api/envelope.h"

#include "api/api.h"
#include "base/clock.h"

enum {
    SUMMARY_BYTES_MAX = 64 * 1024 * 1024,
    SUMMARY_FRAME_BYTES = 1000, /* what stands around most outputs: then it need not grow */
};

/* The first line of each is the canonical endpoint's, the second the tool endpoint's.
 * clang-format off: a table is read by its columns */
static const struct api_verdict verdicts[EXEC_REASONS] = {
    [EXEC_SUCCEEDED] = {"succeeded", 200, NULL, NEXT_NONE, 200, NULL, NULL, RETRY_NEVER},

    [EXEC_INTEGRATION_UNKNOWN] = {"blocked", 409, "integration_not_found", NEXT_NONE, 409,
                                  "not_found", "integration_not_found", RETRY_NEVER},
    [EXEC_ACTION_UNKNOWN] = {"blocked", 409, "action_not_found", NEXT_NONE, 409, "not_found",
                             "action_not_found", RETRY_NEVER},
    [EXEC_INPUT_INVALID] = {"blocked", 409, "validation_error", NEXT_NONE, 409, "validation",
                            "invalid_arguments", RETRY_NEVER},
    [EXEC_CONFIRMATION_MISSING] = {"blocked", 409, "policy_blocked", NEXT_NONE, 412, "confirmation",
                                   "confirmation_required", RETRY_NEVER},
    [EXEC_NOT_CONNECTED] = {"blocked", 409, "integration_not_connected", NEXT_CONNECT, 409,
                            "connection", "not_connected", RETRY_NEVER},
    [EXEC_CONNECTION_UNKNOWN] = {"blocked", 409, "integration_not_connected", NEXT_NONE, 409,
                                 "connection", "connection_not_found", RETRY_NEVER},
    [EXEC_REAUTH_REQUIRED] = {"blocked", 409, "reauth_required", NEXT_RECONNECT, 409, "auth",
                              "reauth_required", RETRY_NEVER},
    [EXEC_KEY_REFUSED] = {"blocked", 409, "unauthorized", NEXT_RECONNECT, 409, "auth",
                          "credential_refused", RETRY_NEVER},
    [EXEC_CONNECTION_AMBIGUOUS] = {"blocked", 409, "policy_blocked", NEXT_NONE, 409, "connection",
                                   "connection_ambiguous", RETRY_NEVER},
    [EXEC_SCOPE_MISSING] = {"blocked", 409, "forbidden", NEXT_RECONNECT, 409, "auth",
                            "scope_missing", RETRY_NEVER},
    [EXEC_OWN_RATE_LIMIT] = {"blocked", 409, "rate_limited", NEXT_NONE, 409, "rate_limit",
                             "rate_limited", RETRY_ALWAYS},
    [EXEC_CIRCUIT_OPEN] = {"blocked", 409, "execution_failed", NEXT_NONE, 409, "provider",
                           "circuit_open", RETRY_ALWAYS},
    [EXEC_ADDRESS_REFUSED] = {"blocked", 409, "unsupported_operation", NEXT_NONE, 409,
                              "unsupported", "address_refused", RETRY_NEVER},
    [EXEC_OPERATION_GONE] = {"blocked", 409, "unsupported_operation", NEXT_NONE, 409, "unsupported",
                             "operation_gone", RETRY_NEVER},
    [EXEC_KEY_MISMATCH] = {"blocked", 409, "validation_error", NEXT_NONE, 409, "validation",
                           "idempotency_key_reused", RETRY_NEVER},

    [EXEC_PROVIDER_FORBIDDEN] = {"failed", 500, "forbidden", NEXT_NONE, 500, "auth",
                                 "provider_forbidden", RETRY_NEVER},
    [EXEC_PROVIDER_RATE_LIMITED] = {"failed", 500, "rate_limited", NEXT_NONE, 500, "rate_limit",
                                    "rate_limited", RETRY_ALWAYS},
    [EXEC_PROVIDER_INVALID] = {"failed", 500, "validation_error", NEXT_NONE, 500, "validation",
                               "provider_refused_arguments", RETRY_NEVER},
    [EXEC_PROVIDER_UNSUPPORTED] = {"failed", 500, "unsupported_operation", NEXT_NONE, 500,
                                   "unsupported", "unsupported_operation", RETRY_NEVER},
    [EXEC_PROVIDER_ERROR] = {"failed", 500, "execution_failed", NEXT_NONE, 500, "provider",
                             "provider_error", RETRY_SERVER_FAULT},
    [EXEC_TIMED_OUT] = {"failed", 500, "timeout", NEXT_NONE, 500, "timeout", "timeout",
                        RETRY_REPEATABLE},
    [EXEC_UNREACHABLE] = {"failed", 500, "execution_failed", NEXT_NONE, 500, "network",
                          "unreachable", RETRY_REPEATABLE},
    [EXEC_BROKEN_OFF] = {"failed", 500, "execution_failed", NEXT_NONE, 500, "network",
                         "connection_lost", RETRY_REPEATABLE},
    [EXEC_REPLY_UNREADABLE] = {"failed", 500, "execution_failed", NEXT_NONE, 500, "provider",
                               "reply_unreadable", RETRY_REPEATABLE},
    [EXEC_REPLY_TOO_LARGE] = {"failed", 500, "execution_failed", NEXT_NONE, 500, "provider",
                              "reply_too_large", RETRY_NEVER},
    [EXEC_PARTLY_DONE] = {"failed", 500, "execution_failed", NEXT_NONE, 500, "provider",
                          "partly_done", RETRY_REPEATABLE},
    [EXEC_OUTCOME_UNKNOWN] = {"failed", 500, "execution_failed", NEXT_NONE, 500, "internal",
                              "outcome_unknown", RETRY_NEVER},

    [EXEC_UNAVAILABLE] = {NULL, 503, NULL, NEXT_NONE, 503, NULL, NULL, RETRY_NEVER},
    [EXEC_STILL_RUNNING] = {NULL, 503, NULL, NEXT_NONE, 503, NULL, NULL, RETRY_NEVER},
    [EXEC_CANCELLED] = {NULL, 503, NULL, NEXT_NONE, 503, NULL, NULL, RETRY_NEVER},
    [EXEC_INTERNAL] = {NULL, 500, NULL, NEXT_NONE, 500, NULL, NULL, RETRY_NEVER},
};
/* clang-format on */

const struct api_verdict *api_verdict_of(enum exec_reason reason)
{
    ASSERT(reason < EXEC_REASONS && verdicts[reason].http_status != 0);
    return &verdicts[reason];
}

bool api_is_retryable(const struct exec_outcome *outcome)
{
    if (outcome->is_replayed) /* the key is bound: it would be the same answer again */
        return false;
    switch (api_verdict_of(outcome->reason)->retry) {
    case RETRY_ALWAYS:
        return true;
    case RETRY_REPEATABLE:
        return outcome->is_repeatable;
    case RETRY_SERVER_FAULT:
        return outcome->is_repeatable && outcome->provider_status >= 500;
    case RETRY_NEVER:
        break;
    }
    return false;
}

slice api_error_code(const struct exec_outcome *outcome)
{
    return outcome->error_code.len > 0 ? outcome->error_code
                                       : slice_cstr(api_verdict_of(outcome->reason)->error_code);
}

static void put_time(struct json_writer *w, const char *key, int64_t wall_us)
{
    char text[TIME_TEXT_LEN + 1];
    time_format(wall_us, text);
    json_key(w, key);
    json_put_str(w, slice_cstr(text));
}

static void put_display(struct json_writer *w, const struct exec_outcome *outcome)
{
    json_key(w, "display");
    json_open(w, '{');
    json_key(w, "title");
    json_put_str(w, outcome->display_title.ptr ? outcome->display_title : SLICE(""));
    json_key(w, "summary");
    json_put_str(w, outcome->display_summary.ptr ? outcome->display_summary : SLICE(""));
    json_close(w, '}');
}

static enum api_next next_action_of(const struct exec_outcome *outcome,
                                    const struct api_verdict *verdict)
{
    switch (outcome->advice) {
    case EXEC_ADVICE_OF_REASON:
        return verdict->next_action;
    case EXEC_ADVICE_RECONNECT:
        return NEXT_RECONNECT;
    case EXEC_ADVICE_NONE:
        break;
    }
    return NEXT_NONE;
}

static void put_next_action(struct json_writer *w, const struct exec_outcome *outcome,
                            const struct api_verdict *verdict)
{
    enum api_next next = next_action_of(outcome, verdict);
    if (next == NEXT_NONE)
        return;
    json_key(w, "recommended_next_action");
    json_open(w, '{');
    json_key(w, "tool");
    json_put_str(w, SLICE("sluice.connect_app"));
    json_key(w, "input");
    json_open(w, '{');
    json_key(w, "integration_id");
    json_put_str(w, outcome->integration_id);
    if (next == NEXT_RECONNECT) {
        json_key(w, "force_reconnect");
        json_put_bool(w, true);
    }
    json_close(w, '}');
    json_close(w, '}');
}

static void put_error(struct json_writer *w, const struct exec_outcome *outcome,
                      const struct api_verdict *verdict)
{
    json_key(w, "error_code");
    json_put_str(w, api_error_code(outcome));
    json_key(w, "message");
    json_put_str(w, outcome->message.ptr ? outcome->message : SLICE(""));
    int64_t retry_after_s = api_retry_after_s(outcome);
    if (retry_after_s > 0) { /* a model sees no headers, and what is stored has none */
        json_key(w, "retry_after");
        json_put_i64(w, retry_after_s);
    }
    if (outcome->hint.len > 0) {
        json_key(w, "hint");
        json_put_str(w, outcome->hint);
    }
    put_next_action(w, outcome, verdict);
}

static void put_pages(struct json_writer *w, const struct exec_outcome *outcome)
{
    json_key(w, "pages");
    json_open(w, '{');
    json_key(w, "read");
    json_put_i64(w, outcome->pages_read);
    json_key(w, "next");
    json_put(w, &outcome->page_next);
    if (outcome->pages_stopped.len > 0) {
        json_key(w, "stopped");
        json_put_str(w, outcome->pages_stopped);
    }
    json_close(w, '}');
}

static void put_summary(struct json_writer *w, const struct exec_outcome *outcome,
                        const struct api_verdict *verdict)
{
    bool is_blocked = exec_reason_is_blocked(outcome->reason);
    char id[UUID_TEXT_LEN + 1];
    json_open(w, '{');
    json_key(w, "status");
    json_put_str(w, slice_cstr(verdict->status));
    json_key(w, "execution_id");
    uuid_format(outcome->execution_id, id);
    json_put_str(w, is_blocked ? SLICE_NONE : slice_cstr(id));
    json_key(w, "integration_id");
    json_put_str(w, outcome->integration_id);
    json_key(w, "action_id");
    json_put_str(w, outcome->action_id);
    if (!is_blocked) {
        put_time(w, "started_at", outcome->started_us);
        put_time(w, "finished_at", outcome->finished_us);
    }
    if (outcome->reason == EXEC_SUCCEEDED) {
        json_key(w, "output");
        json_put_raw(w, outcome->output_json);
        if (outcome->pages_read > 0)
            put_pages(w, outcome);
    }
    put_display(w, outcome);
    if (outcome->reason != EXEC_SUCCEEDED)
        put_error(w, outcome, verdict);
    json_close(w, '}');
}

slice api_render_summary(const struct exec_outcome *outcome, struct arena *arena)
{
    const struct api_verdict *verdict = api_verdict_of(outcome->reason);
    struct json_writer w;
    struct buf text;
    buf_init(&text, SUMMARY_BYTES_MAX);
    (void)buf_reserve(&text, outcome->output_json.len + SUMMARY_FRAME_BYTES);
    json_begin(&w, &text);
    if (verdict->status)
        put_summary(&w, outcome, verdict);
    slice summary = buf_is_ok(&text) ? arena_dup(arena, buf_slice(&text)) : SLICE_NONE;
    buf_deinit(&text);
    return summary;
}
