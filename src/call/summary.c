/*
 * The summary envelope; see summary.h.
 */
#include "call/summary.h"

#include <stdio.h>

enum {
    SUMMARY_BYTES_MAX = 64 * 1024 * 1024,
    SUMMARY_FRAME_BYTES = 1000, /* room for everything but the output, so that the buffer usually
                                 * need not grow */
    HINT_BYTES_MAX = 8192,      /* bytes of a hint, including the line that may be added */
};

#define LINK_HINT                                                                       \
    "POST /api/connect/sessions with the input of recommended_next_action makes a link" \
    " for a person."

static void put_display(struct json_writer *w, const struct exec_outcome *outcome)
{
    json_member_open(w, "display", '{');
    json_member_str(w, "title", outcome->display_title.ptr ? outcome->display_title : SLICE(""));
    json_member_str(w, "summary",
                    outcome->display_summary.ptr ? outcome->display_summary : SLICE(""));
    json_close(w, '}');
}

/* Writes members into the open object. */
static void put_action(struct json_writer *w, const struct exec_outcome *outcome)
{
    bool is_again = exec_outcome_next(outcome) == EXEC_NEXT_RECONNECT;
    char id[24];
    json_member_str(w, "tool", SLICE(EXEC_CONNECT_TOOL));
    json_member_open(w, "input", '{');
    json_member_str(w, "integration_id", outcome->integration_id);
    if (is_again)
        json_member_bool(w, "force_reconnect", true);
    if (is_again && outcome->reconnect_id != 0) {
        (void)snprintf(id, sizeof(id), "%lld", (long long)outcome->reconnect_id);
        json_member_str(w, "connection_id", slice_cstr(id));
    }
    json_close(w, '}');
}

static void put_next_action(struct json_writer *w, const struct exec_outcome *outcome)
{
    if (exec_outcome_next(outcome) == EXEC_NEXT_NONE)
        return;
    json_member_open(w, "recommended_next_action", '{');
    put_action(w, outcome);
    json_close(w, '}');
}

slice exec_next_action_render(const struct exec_outcome *outcome, struct arena *arena)
{
    struct json_text text;
    if (exec_outcome_next(outcome) == EXEC_NEXT_NONE)
        return SLICE_NONE;
    struct json_writer *w = json_text_begin(&text, 1024);
    json_open(w, '{');
    put_action(w, outcome);
    json_close(w, '}');
    return json_text_take(&text, arena);
}

/* Any hint to connect, even one from a manifest, is followed by how a person connects the app. */
static void put_hint(struct json_writer *w, const struct exec_outcome *outcome)
{
    bool is_next = exec_outcome_next(outcome) != EXEC_NEXT_NONE;
    char room[HINT_BYTES_MAX];
    slice hint = slice_first_utf8(outcome->hint, sizeof(room) - sizeof(LINK_HINT));
    if (is_next)
        hint = SLICE_JOIN(room, hint, hint.len > 0 ? SLICE(" ") : SLICE(""), SLICE(LINK_HINT));
    else
        hint = outcome->hint;
    if (hint.len > 0)
        json_member_str(w, "hint", hint);
}

slice exec_hint_of_people(slice hint)
{
    if (!slice_ends_with(hint, SLICE(LINK_HINT)))
        return hint;
    return slice_trim(slice_first(hint, hint.len - strlen(LINK_HINT)));
}

static void put_approval(struct json_writer *w, const struct exec_approval *approval)
{
    json_member_open(w, "approval", '{');
    json_member_uuid(w, "flow_id", approval->flow_id);
    json_member_str(w, "status", approval->status);
    json_member_str(w, "url", approval->url);
    if (approval->expires_at > 0)
        json_member_time(w, "expires_at", approval->expires_at);
    else
        json_member_str(w, "expires_at", SLICE_NONE);
    json_member_str(w, "idempotency_key", approval->key);
    json_close(w, '}');
}

static void put_error(struct json_writer *w, const struct exec_outcome *outcome)
{
    json_member_str(w, "error_code", exec_outcome_error_code(outcome));
    json_member_str(w, "message", outcome->message.ptr ? outcome->message : SLICE(""));
    json_member_bool(w, "retryable", exec_outcome_is_retryable(outcome));
    int64_t retry_after_s = exec_outcome_retry_after_s(outcome);
    if (retry_after_s > 0) { /* a model sees no headers, and a stored summary has none */
        json_member_i64(w, "retry_after", retry_after_s);
    }
    put_hint(w, outcome);
    if (outcome->approval)
        put_approval(w, outcome->approval);
    put_next_action(w, outcome);
}

static void put_pages(struct json_writer *w, const struct exec_outcome *outcome)
{
    json_member_open(w, "pages", '{');
    json_member_i64(w, "read", outcome->pages_read);
    json_member(w, "next", &outcome->page_next);
    if (outcome->pages_stopped.len > 0)
        json_member_str(w, "stopped", outcome->pages_stopped);
    json_close(w, '}');
}

/* Writes the members in the order of the API's examples. A blocked run has no id: no row is
 * stored for it. */
static void put_summary(struct json_writer *w, const struct exec_outcome *outcome)
{
    ASSERT(exec_reason_status(outcome->reason));
    bool is_blocked = exec_reason_is_blocked(outcome->reason);
    json_open(w, '{');
    json_member_str(w, "status", slice_cstr(exec_reason_status(outcome->reason)));
    if (is_blocked)
        json_member_str(w, "execution_id", SLICE_NONE);
    else
        json_member_uuid(w, "execution_id", outcome->execution_id);
    json_member_str(w, "integration_id", outcome->integration_id);
    json_member_str(w, "action_id", outcome->action_id);
    if (!is_blocked) {
        json_member_time(w, "started_at", outcome->started_us);
        json_member_time(w, "finished_at", outcome->finished_us);
    }
    if (outcome->reason == EXEC_SUCCEEDED) {
        json_member_raw(w, "output", outcome->output_json);
        if (outcome->pages_read > 0)
            put_pages(w, outcome);
    }
    put_display(w, outcome);
    json_member_str(w, "outcome", slice_cstr(exec_effect_name(outcome->effect)));
    if (!uuid_is_nil(outcome->approval_flow_id))
        json_member_uuid(w, "approval_flow_id", outcome->approval_flow_id);
    if (outcome->reason != EXEC_SUCCEEDED)
        put_error(w, outcome);
    json_close(w, '}');
}

slice exec_summary_render(const struct exec_outcome *outcome, struct arena *arena)
{
    struct json_text text;
    struct json_writer *w = json_text_begin(&text, SUMMARY_BYTES_MAX);
    (void)buf_reserve(w->out, outcome->output_json.len + SUMMARY_FRAME_BYTES);
    if (exec_reason_status(outcome->reason))
        put_summary(w, outcome);
    return json_text_take(&text, arena);
}

/* Each CHECK constraint of the table is asserted here, where the outcome is still visible in a core
 * file. */
struct execution exec_summary_row(const struct exec_outcome *outcome, struct uuid account_id,
                                  int64_t connection_id, struct uuid owner, slice summary)
{
    bool is_succeeded = outcome->reason == EXEC_SUCCEEDED;
    struct execution row = {
        .account_id = account_id,
        .id = outcome->execution_id,
        .integration_id = outcome->integration_id,
        .action_id = outcome->action_id,
        .connection_id = connection_id,
        .is_succeeded = is_succeeded,
        .error_code = is_succeeded ? SLICE_NONE : slice_cstr(exec_reason_name(outcome->reason)),
        .started_at = outcome->started_us,
        .finished_at = outcome->finished_us,
        .owner = owner,
        .attempts = outcome->attempts,
        .summary = summary,
        .summary_bytes = summary.len,
    };
    ASSERT(is_succeeded || exec_reason_is_failed(outcome->reason)); /* status in (...) */
    ASSERT(!row.is_succeeded == (row.error_code.ptr != NULL));
    ASSERT(!uuid_is_nil(row.account_id) && !uuid_is_nil(row.id));
    ASSERT(row.integration_id.len > 0 && row.action_id.len > 0);
    ASSERT(row.started_at > 0 && row.finished_at > 0);
    return row;
}
