/*
 * The history of a flow, for its page; see flow_log.h. For a step that failed many times it has
 * only the last attempts, and the number of earlier ones.
 */
#include "web/flow_log.h"

#include "flow/flow.h"
#include "web/view.h"

enum {
    LISTED_MAX = 3,        /* failed attempts of a step */
    EVENTS_OF_ATTEMPT = 2, /* the new start of the step, and its end */
    EVENTS_ONCE = 4,       /* the start, a new start that is under way, a question, the end */
    /* maximum length of an app's message; a note has at most 2,000 characters */
    TEXT_BYTES_MAX = 1000,
    DOCUMENT_BYTES_MAX = 65536
};

struct flow_log_event {
    int64_t at;
    const char *what;  /* NULL: not shown, unless a person did it */
    int64_t failed_at; /* of a new start: when the attempt before it failed; 0: no new start */
    bool is_cancel;
    slice step, by, code, text; /* SLICE_NONE: none */
    bool is_rejection;          /* by a person */
};

static void add_event(struct flow_log *log, struct flow_log_event event)
{
    log->list[log->count++] = event;
}

/* Parsed values borrow from their text, which has to outlive the row. */
static const struct json *parse_copy(struct arena *arena, slice text)
{
    slice copy = text.len > 0 && text.len <= DOCUMENT_BYTES_MAX ? arena_dup(arena, text)
                                                                : SLICE_NONE;
    return copy.ptr ? json_parse(arena, copy, &json_limits_provider, NULL) : NULL;
}

static void add_attempt(struct flow_log *log, const struct flow_step *step, bool is_approval,
                        slice title, struct arena *arena)
{
    const struct json *error = parse_copy(arena, step->error);
    const struct json *output = is_approval ? parse_copy(arena, step->output) : NULL;
    slice note = SLICE_NONE, by = is_approval ? flow_decider_of(output, error, &note) : SLICE_NONE;
    if (by.ptr)
        add_event(log, (struct flow_log_event){.at = step->finished_at,
                                               .what = step->is_completed ? "Approved" : "Rejected",
                                               .by = by,
                                               .text = note,
                                               .is_rejection = !step->is_completed});
    else if (!step->is_completed)
        add_event(log, (struct flow_log_event){
                           .at = step->finished_at,
                           .what = "Failed",
                           .step = title,
                           .code = json_get_str(error, SLICE("code")),
                           .text = slice_first_utf8(json_get_str(error, SLICE("message")),
                                                    TEXT_BYTES_MAX)});
}

/* A step that starts again: after a pause, or because a person has resumed the flow. An approval
 * is asked again only after a resume. */
static void add_restart(struct flow_log *log, const struct flow_step *failed, int64_t at,
                        bool is_approval, slice title)
{
    add_event(log, (struct flow_log_event){.at = at,
                                           .what = is_approval ? NULL : "Tried again",
                                           .failed_at = failed->finished_at,
                                           .step = title});
}

/* The `count` attempts of one step; only the last attempt may have been completed. */
static void add_step(struct flow_log *log, const struct flow_step *attempts, size_t count,
                     const struct flow_template *tmpl, const slice *titles, struct arena *arena)
{
    size_t index = (size_t)attempts[0].step_index;
    size_t failed = count - attempts[count - 1].is_completed;
    size_t left_out = failed > LISTED_MAX ? failed - LISTED_MAX : 0;
    /* The index is that of exactly this template version; the check guards against a broken row. */
    if (index >= tmpl->step_count)
        return;
    if (left_out > 0)
        add_event(
            log, (struct flow_log_event){
                     .at = attempts[0].finished_at,
                     .what = "Failed",
                     .step = titles[index],
                     .text = arena_printf(arena, "for the first time (%zu failures are not listed)",
                                          left_out)});
    for (size_t i = left_out; i < count; i++) {
        bool is_approval = tmpl->steps[index].type == FLOW_APPROVAL;
        if (i > 0)
            add_restart(log, &attempts[i - 1], attempts[i].started_at, is_approval, titles[index]);
        add_attempt(log, &attempts[i], is_approval, titles[index], arena);
    }
}

/* An attempt that has not ended has no row: it began at the last change of the flow's row. */
static void add_under_way(struct flow_log *log, const struct flow_whole *whole,
                          const struct flow_template *tmpl, const slice *titles)
{
    const struct flow *flow = &whole->flow;
    const struct flow_step *last = whole->step_count > 0 ? &whole->steps[whole->step_count - 1]
                                                         : NULL;
    bool is_again = last && !last->is_completed && last->step_index == flow->step_index &&
                    (flow->status == FLOW_RUNNING ||
                     (flow->status == FLOW_WAITING && flow->attempt > last->attempt));
    if (is_again && last->step_index < (int64_t)tmpl->step_count)
        add_restart(log, last, flow->updated_at,
                    tmpl->steps[last->step_index].type == FLOW_APPROVAL, titles[last->step_index]);
}

static void add_end(struct flow_log *log, const struct flow *flow)
{
    bool is_completed = flow->status == FLOW_COMPLETED;
    if (flow->status == FLOW_WAITING && flow->waiting_for == FLOW_WAITS_APPROVAL)
        add_event(log,
                  (struct flow_log_event){.at = flow->updated_at, .what = "Waits for approval"});
    /* A rejection is the end of its flow. */
    bool is_rejected = log->list[log->count - 1].is_rejection;
    if (is_completed || (flow->status == FLOW_CANCELLED && !is_rejected))
        add_event(log, (struct flow_log_event){.at = flow->completed_at ? flow->completed_at
                                                                        : flow->updated_at,
                                               .what = is_completed ? "Completed" : "Cancelled",
                                               .is_cancel = !is_completed});
}

int flow_log_read(struct flow_log *log, const struct flow_whole *whole,
                  const struct flow_template *tmpl, const slice *titles, struct arena *arena)
{
    size_t attempts = tmpl->step_count * (LISTED_MAX + 2);
    attempts = whole->step_count < attempts ? whole->step_count : attempts;
    size_t max = attempts * EVENTS_OF_ATTEMPT + EVENTS_ONCE;
    log->count = 0;
    log->list = ARENA_ARRAY(arena, struct flow_log_event, max);
    slice actor = arena_dup(arena, whole->actor);
    if (!log->list || !actor.ptr)
        return ERR_NOMEM;
    add_event(
        log, (struct flow_log_event){.at = whole->flow.created_at, .what = "Started", .by = actor});
    for (size_t i = 0, count; i < whole->step_count; i += count) {
        count = 1;
        while (i + count < whole->step_count &&
               whole->steps[i + count].step_index == whole->steps[i].step_index)
            count++;
        add_step(log, &whole->steps[i], count, tmpl, titles, arena);
    }
    add_under_way(log, whole, tmpl, titles);
    add_end(log, &whole->flow);
    ASSERT(log->count <= max);
    return OK;
}

size_t flow_log_doers(const struct flow_log *log, struct flow_doer *doers, size_t max)
{
    size_t count = 0;
    for (size_t i = log->count; i > 0 && count < max; i--) {
        const struct flow_log_event *event = &log->list[i - 1];
        if (event->is_cancel || event->failed_at != 0)
            doers[count++] = (struct flow_doer){.kind = event->is_cancel ? AUDIT_FLOW_CANCELLED
                                                                         : AUDIT_FLOW_RESUMED,
                                                .at = event->at,
                                                .after = event->failed_at,
                                                .index = i - 1};
    }
    return count;
}

/* The line before has the step that failed. */
void flow_log_set_doer(struct flow_log *log, const struct flow_doer *doer, slice actor, int64_t at)
{
    ASSERT(doer->index < log->count);
    struct flow_log_event *event = &log->list[doer->index];
    event->by = actor;
    if (event->is_cancel)
        return;
    event->at = at;
    event->what = "Resumed";
    event->step = SLICE_NONE;
}

size_t flow_log_actors(const struct flow_log *log, slice *actors, size_t max)
{
    size_t count = 0;
    for (size_t i = 0; i < log->count && count < max; i++)
        if (log->list[i].by.ptr)
            actors[count++] = log->list[i].by;
    return count;
}

void flow_log_write(const struct flow_log *log, struct flow_names *names, struct json_writer *w)
{
    json_member_open(w, "log", '[');
    for (size_t i = 0; i < log->count; i++) {
        const struct flow_log_event *event = &log->list[i];
        if (!event->what)
            continue;
        json_open(w, '{');
        view_time(w, "at", event->at);
        json_member_str(w, "what", slice_cstr(event->what));
        json_member_str(w, "step", event->step);
        json_member_str(w, "by", event->by.ptr ? flow_names_actor(names, event->by) : SLICE_NONE);
        json_member_str(w, "code", event->code);
        json_member_str(w, "text", event->text);
        json_close(w, '}');
    }
    json_close(w, ']');
}
