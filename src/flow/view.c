/*
 * The record and the view of a flow (src/api/README.md "Flows"), derived from its row, its
 * document, the attempts that have finished and the template that it is pinned to. An attempt that
 * has not finished has no row: steps after the current one are pending while the flow may still
 * reach them, steps before it without a completed attempt were skipped.
 *
 * A view is written in one pass, since steps and attempts both come in order of step_index.
 */
#include "flow/flow.h"
#include "flow/hint.h"

enum { ERROR_ARENA_BYTES_MAX = 4 * 1024 * 1024 };

/* The state of one step while it is written. */
struct step_view {
    /* the step's first and last finished attempts; NULL if there are none */
    const struct flow_step *first, *last;
    const char *status;
    bool is_current;
};

size_t flow_current_index(const struct flow *flow, const struct flow_template *tmpl)
{
    ASSERT(tmpl->step_count > 0 && flow->step_index >= 0);
    size_t last = tmpl->step_count - 1;
    bool is_inside = flow->status != FLOW_COMPLETED && (size_t)flow->step_index < last;
    return is_inside ? (size_t)flow->step_index : last;
}

/* ---- the record ---- */

static void put_context(struct json_writer *w, const struct flow_template *tmpl,
                        const struct flow_step *steps, size_t count)
{
    json_member_open(w, "context", '{');
    for (size_t i = 0; i < count; i++) {
        /* The index is that of this template version; the check guards against a corrupt row. */
        if (!steps[i].is_completed || (size_t)steps[i].step_index >= tmpl->step_count)
            continue;
        json_key_slice(w, tmpl->steps[steps[i].step_index].key);
        json_put_raw(w, steps[i].output);
    }
    json_close(w, '}');
}

/* Writes the flow's record. steps are the finished attempts, whose outputs are the context. */
static void put_record(struct json_writer *w, const struct flow *flow, slice title, slice input,
                       const struct flow_step *steps, size_t count,
                       const struct flow_template *tmpl, enum flow_view_kind kind)
{
    /* a bare record omits the title, which has parts of the input */
    bool is_bare = kind == FLOW_VIEW_BARE;
    json_open(w, '{');
    json_member_uuid(w, "id", flow->id);
    json_member_i64(w, "rev", flow->rev);
    json_member_str(w, "name", tmpl->name);
    json_member_str(w, "title", title.ptr && !is_bare ? title : tmpl->name);
    json_member_str(w, "templateKey", flow->template_key);
    json_member_str(w, "status", slice_cstr(flow_status_name(flow->status)));
    json_member_str(w, "triggerType", flow->trigger_type);
    if (kind != FLOW_VIEW_SUMMARY) {
        json_member_raw(w, "input", is_bare ? SLICE("{}") : input);
        put_context(w, tmpl, steps, is_bare ? 0 : count);
    }
    json_member_str(w, "currentStep", tmpl->steps[flow_current_index(flow, tmpl)].key);
    json_member_time(w, "createdAt", flow->created_at);
    json_member_time(w, "updatedAt", flow->updated_at);
    json_member_time(w, "completedAt", flow->completed_at);
    json_close(w, '}');
}

void flow_record_write(struct buf *out, const struct flow_listed *listed,
                       const struct flow_template *tmpl, bool is_summary)
{
    struct json_writer w;
    json_begin(&w, out);
    put_record(&w, &listed->flow, listed->title, listed->input, listed->outputs,
               listed->output_count, tmpl, is_summary ? FLOW_VIEW_SUMMARY : FLOW_VIEW_WHOLE);
}

/* ---- steps ---- */

/* Whether the last attempt has ended, and no other attempt has begun since then. */
static bool has_ended(const struct step_view *step, const struct flow *flow)
{
    return step->last && step->last->attempt >= flow->attempt;
}

/* The status of a step without a completed attempt. A cancelled flow's step that had failed
 * stays failed. */
static const char *current_status(const struct step_view *step, const struct flow *flow)
{
    switch (flow->status) {
    case FLOW_RUNNING:
        return flow->is_begun || flow->attempt > 0 ? "running" : "pending";
    case FLOW_WAITING:
        return "waiting";
    case FLOW_COMPLETED: /* this is the last step, and its condition was false */
        return "skipped";
    case FLOW_FAILED:
        return "failed";
    case FLOW_CANCELLED:
        return has_ended(step, flow) ? "failed" : "cancelled";
    }
    UNREACHABLE("all are listed");
    return "pending";
}

static const char *step_status(const struct step_view *step, const struct flow *flow, size_t index)
{
    if (step->last && step->last->is_completed)
        return "completed";
    if (step->is_current)
        return current_status(step, flow);
    if ((int64_t)index < flow->step_index || flow->status == FLOW_COMPLETED)
        return "skipped";
    return flow->status == FLOW_CANCELLED ? "cancelled" : "pending";
}

/* Whether the last error is shown: if the step has failed, and while it waits for another
 * attempt. */
static bool shows_error(const struct step_view *step, const struct flow *flow)
{
    bool waits_for_retry = step->is_current && flow->waiting_for == FLOW_WAITS_RETRY;
    return step->last && (strcmp(step->status, "failed") == 0 || waits_for_retry);
}

/* Writes the error's code and whether a retry helps, but not its texts, which may come from an
 * app. */
static void put_bare_error(struct json_writer *w, slice text)
{
    static const char *const facts[] = {"code", "retryable", "retry_after", "outcome", "resumable"};
    struct arena arena;
    arena_init(&arena, ERROR_ARENA_BYTES_MAX);
    const struct json *error = json_parse(&arena, text, &json_limits_provider, NULL);
    json_member_open(w, "error", '{');
    for (size_t i = 0; i < ARRAY_LEN(facts); i++)
        if (json_get(error, slice_cstr(facts[i])))
            json_member(w, facts[i], json_get(error, slice_cstr(facts[i])));
    json_member_str(w, "message", SLICE("Only a key with the scope read sees the message."));
    json_close(w, '}');
    w->out->is_failed = w->out->is_failed || !error;
    arena_deinit(&arena);
}

/* Writes the error of a step that a resume does not make again now: the flow was cancelled, or goes
 * on by itself. Its hint is without the sentences about a resume. */
static void put_unresumed_error(struct json_writer *w, slice text)
{
    struct arena arena;
    arena_init(&arena, ERROR_ARENA_BYTES_MAX);
    const struct json *error = json_parse(&arena, text, &json_limits_provider, NULL);
    slice hint = flow_hint_unresumed(json_get_str(error, SLICE("hint")), &arena);
    json_member_open(w, "error", '{');
    for (uint32_t i = 0; json_is(error, JSON_OBJECT) && i < error->count; i++) {
        slice name = json_str(&error->as.members[i].key);
        if (slice_eq_cstr(name, "hint"))
            continue;
        json_key_slice(w, name);
        json_put(w, &error->as.members[i].value);
    }
    if (hint.len > 0)
        json_member_str(w, "hint", hint);
    json_close(w, '}');
    w->out->is_failed = w->out->is_failed || !error || arena.is_exhausted;
    arena_deinit(&arena);
}

/* A waiting step has no row yet: its input is in the flow's document. After a retry's pause the
 * last attempt's input is shown again. A summary has only the error. */
static void put_documents(struct json_writer *w, const struct flow_whole *whole,
                          const struct step_view *step, enum flow_view_kind kind)
{
    bool is_bare = kind == FLOW_VIEW_BARE;
    bool is_waiting = step->is_current && whole->flow.status == FLOW_WAITING;
    bool is_done = step->last && step->last->is_completed;
    slice input = step->last ? step->last->input : SLICE_NONE;
    if (is_waiting && whole->waiting_input.ptr)
        input = whole->waiting_input;
    if (kind != FLOW_VIEW_SUMMARY) {
        json_member_raw(w, "input", is_bare ? SLICE_NONE : input);
        json_member_raw(w, "output", is_done && !is_bare ? step->last->output : SLICE_NONE);
    }
    slice error = shows_error(step, &whole->flow) ? step->last->error : SLICE_NONE;
    bool is_unresumed = whole->flow.status == FLOW_CANCELLED || is_waiting;
    if (is_bare && error.ptr)
        put_bare_error(w, error);
    else if (is_unresumed && error.ptr)
        put_unresumed_error(w, error);
    else
        json_member_raw(w, "error", error);
}

/* An attempt without a row began at the last change of the flow's row. */
static void put_times(struct json_writer *w, const struct flow *flow, const struct step_view *step)
{
    bool is_touched = step->is_current && (flow->attempt > 0 || flow->is_begun);
    int64_t started = step->first ? step->first->started_at : 0;
    int64_t updated = step->last ? step->last->finished_at : flow->created_at;
    if (!started && is_touched)
        started = flow->updated_at;
    if (step->is_current && flow->updated_at > updated)
        updated = flow->updated_at;
    json_member_time(w, "createdAt", flow->created_at);
    json_member_time(w, "startedAt", started);
    json_member_time(w, "completedAt",
                     step->last && step->last->is_completed ? step->last->finished_at : 0);
    json_member_time(w, "updatedAt", updated);
    if (step->is_current && flow_continues_at(flow))
        json_member_time(w, "wakeAt", flow_continues_at(flow));
    if (step->is_current && flow_approval_ends_at(flow))
        json_member_time(w, "expiresAt", flow_approval_ends_at(flow));
}

/* A call that may be repeated has no row while it runs, so its attempt follows from the last
 * attempt that has ended. */
static int64_t attempt_count(const struct step_view *step, const struct flow *flow)
{
    int64_t count = step->last ? step->last->attempt : 0;
    if (!step->is_current)
        return count;
    if (flow->status == FLOW_RUNNING && has_ended(step, flow) && !step->last->is_completed)
        return count + 1;
    return flow->attempt > count ? flow->attempt : count;
}

static void put_step_view(struct json_writer *w, const struct flow_whole *whole,
                          const struct flow_step_def *def, size_t index,
                          const struct step_view *step, enum flow_view_kind kind)
{
    json_open(w, '{');
    json_member_str(w, "stepKey", def->key);
    json_member_i64(w, "stepIndex", (int64_t)index);
    json_member_str(w, "stepType", slice_cstr(flow_step_type_name(def->type)));
    json_member_str(w, "status", slice_cstr(step->status));
    put_documents(w, whole, step, kind);
    json_member_i64(w, "attemptCount", attempt_count(step, &whole->flow));
    put_times(w, &whole->flow, step);
    json_close(w, '}');
}

void flow_view_write(struct buf *out, const struct flow_whole *whole,
                     const struct flow_template *tmpl, enum flow_view_kind kind)
{
    struct json_writer w;
    size_t at = 0;
    json_begin(&w, out);
    json_open(&w, '{');
    json_key(&w, "flow");
    put_record(&w, &whole->flow, whole->title, whole->input, whole->steps, whole->step_count, tmpl,
               kind);
    json_member_open(&w, "steps", '[');
    for (size_t i = 0; i < tmpl->step_count; i++) {
        struct step_view step = {.is_current = i == flow_current_index(&whole->flow, tmpl)};
        for (; at < whole->step_count && (size_t)whole->steps[at].step_index <= i; at++) {
            step.last = &whole->steps[at];
            if (!step.first)
                step.first = step.last;
        }
        step.status = step_status(&step, &whole->flow, i);
        put_step_view(&w, whole, &tmpl->steps[i], i, &step, kind);
    }
    json_close(&w, ']');
    json_close(&w, '}');
}
