/*
 * One flow: first a waiting decision, with exactly what will be done; then all its steps.
 */
#include "base/clock.h"
#include "flow/approver.h"
#include "flow/load.h"
#include "serve/foresee.h"
#include "store/hold.h"
#include "web/flow_log.h"
#include "web/flow_next.h"
#include "web/flow_verdict.h"
#include "web/result.h"
#include "web/waterfall.h"

/* Limits the displayed input or output of a step: more would make the page large, and the API
 * returns all of it. The input of a step that waits for a decision is not cut. */
enum { PART_BYTES_MAX = 3 * 1024 };
/* Cancels and resumes with a name, the newest; each costs a query. */
enum { DOERS_MAX = 5 };

/* The state while the page is made. */
struct flow_view_page {
    struct flow_load *load; /* the flow while it is loaded; freed while names are read */
    struct flow flow;
    slice name, title, actor; /* title: SLICE_NONE: the flow has no title */
    slice step_titles[FLOW_STEPS_MAX], step_apps[FLOW_STEPS_MAX]; /* one for each step */
    bool is_fan_out[FLOW_STEPS_MAX];
    int64_t attempt_at[FLOW_STEPS_MAX]; /* when the last attempt began; 0: unknown */
    size_t current;                     /* the index of the current step */
    bool has_ended, is_rejected, is_held;
    bool may_decide;                              /* about held calls */
    slice canceller;                              /* SLICE_NONE: unknown, or not cancelled */
    const struct json *record, *steps, *decision; /* members of the view, the API's answer */
    struct flow_log log;
    struct flow_names *names;
    struct flow_doer doers[DOERS_MAX]; /* read from the audit trail */
    size_t doer_count;
    struct pg_query near;     /* the decisions next to this one */
    struct pg_query approver; /* whether this key decides about held calls */
    struct pg_query hold;     /* of a held flow that does not wait for its approval */
    struct hold_of_flow held;
    bool has_hold; /* held is that of this flow */
};

/* ---- parts of steps ---- */

/* The message of an approval rejected by a person begins with the name of the key. */
static slice error_message(struct web_request *request, const struct flow_view_page *page,
                           const struct json *step)
{
    slice note = SLICE_NONE, by = flow_step_rejecter(step, &note);
    return by.ptr ? flow_rejection_message(flow_names_actor(page->names, by), note,
                                           &request->serve.op.arena)
                  : json_get_str(JSON_GET(step, "error"), SLICE("message"));
}

static void write_error(struct web_request *request, const struct flow_view_page *page,
                        const struct json *step, struct json_writer *w)
{
    const struct json *error = JSON_GET(step, "error");
    if (!json_is(error, JSON_OBJECT)) {
        json_member_str(w, "error", SLICE_NONE);
        return;
    }
    json_member_open(w, "error", '{');
    json_member_str(w, "code", json_get_str(error, SLICE("code")));
    json_member_str(w, "message", error_message(request, page, step));
    json_member_str(w, "hint", json_get_str(error, SLICE("hint")));
    json_close(w, '}');
}

static void write_part(struct json_writer *w, const struct json *step, const char *name)
{
    const struct json *value = json_get(step, slice_cstr(name));
    if (value && value->type != JSON_NULL)
        value_view_text(w, name, value, PART_BYTES_MAX);
    else
        json_member_str(w, name, SLICE_NONE);
}

/* Writes the first items of a list, and their number, which is 0 if the value is not a list. */
static void write_output(struct json_writer *w, const struct json *step)
{
    enum { ITEMS_MAX = 3 };
    const struct json *output = JSON_GET(step, "output");
    uint32_t count = json_is(output, JSON_ARRAY) ? output->count : 0;
    json_member_i64(w, "items", count);
    json_member_i64(w, "listed", count < ITEMS_MAX ? count : ITEMS_MAX);
    if (count > ITEMS_MAX) {
        struct json first = *output;
        first.count = ITEMS_MAX;
        value_view_text(w, "output", &first, PART_BYTES_MAX);
    } else {
        write_part(w, step, "output");
    }
}

/* A flow waits at one step at a time, so the first match is the only one. */
static const struct json *waiting_step(const struct json *steps)
{
    for (size_t i = 0; json_is(steps, JSON_ARRAY) && i < steps->count; i++) {
        const struct json *step = &steps->as.items[i];
        if (slice_eq_cstr(json_get_str(step, SLICE("status")), "waiting") &&
            slice_eq_cstr(json_get_str(step, SLICE("stepType")), "approval"))
            return step;
    }
    return NULL;
}

/* ---- the times of the steps ---- */

_Static_assert((int)FLOW_STEPS_MAX <= (int)WATERFALL_SPANS_MAX, "all steps have a bar");

/* The style and text of a bar. Nothing here depends on the time of day, so a step's block
 * changes only with the flow. */
struct step_bar {
    const char *kind; /* NULL: it has not begun */
    slice text;
    struct waterfall_span span;
    struct waterfall_bar drawn;
};

static struct step_bar bar_of(struct arena *arena, const struct json *step, int64_t begin)
{
    slice status = json_get_str(step, SLICE("status")),
          type = json_get_str(step, SLICE("stepType"));
    bool is_decided = slice_eq_cstr(status, "completed") || flow_step_is_rejected(step),
         is_failed = slice_eq_cstr(status, "failed") && !is_decided;
    slice ended = slice_eq_cstr(status, "completed") ? SLICE("completedAt") : SLICE("updatedAt");
    struct step_bar bar = {.text = SLICE("")};
    bar.span.is_open = slice_eq_cstr(status, "waiting");
    bar.span.is_pause = bar.span.is_open || slice_eq_cstr(type, "approval") ||
                        slice_eq_cstr(type, "wait");
    if (!time_parse(json_get_str(step, SLICE("startedAt")), &bar.span.begin) ||
        !time_parse(json_get_str(step, ended), &bar.span.end))
        return bar;
    if (begin != 0)
        bar.span.begin = begin;
    bar.kind = is_failed ? "bad" : bar.span.is_pause ? "wait" : "ok";
    slice took = view_span(arena, bar.span.end - bar.span.begin);
    if (is_decided && !bar.span.is_pause)
        bar.text = took;
    else if (is_decided || is_failed)
        bar.text =
            arena_printf(arena, "%s %.*s", is_failed ? "failed after" : "waited", SLICE_ARG(took));
    return bar;
}

/* Returns the working time of the steps' last attempts, without pauses. */
static int64_t draw_bars(struct web_request *request, const struct flow_view_page *page,
                         struct step_bar *bars, size_t count)
{
    struct waterfall_span spans[WATERFALL_SPANS_MAX] = {{0}};
    struct waterfall_bar drawn[WATERFALL_SPANS_MAX];
    size_t begun = 0;
    int64_t work = 0;
    for (size_t i = 0; i < count; i++) {
        bars[i] = bar_of(&request->serve.op.arena, &page->steps->as.items[i], page->attempt_at[i]);
        if (bars[i].kind)
            spans[begun++] = bars[i].span;
        if (bars[i].kind && !bars[i].span.is_pause)
            work += bars[i].span.end - bars[i].span.begin;
    }
    waterfall_fit(spans, begun, drawn);
    for (size_t i = 0, at = 0; i < count; i++)
        if (bars[i].kind)
            bars[i].drawn = drawn[at++];
    return work;
}

/* ---- the steps ---- */

/* Returns the description of a step next to its title: the app and the number of calls, or its
 * kind. */
static slice kind_of(struct web_request *request, const struct flow_view_page *page, size_t at)
{
    const struct json *step = &page->steps->as.items[at], *output = JSON_GET(step, "output");
    slice app = page->step_apps[at];
    if (!app.ptr)
        return json_get_str(step, SLICE("stepType"));
    if (!page->is_fan_out[at])
        return app;
    if (!json_is(output, JSON_ARRAY))
        return arena_printf(&request->serve.op.arena, "%.*s, one call per item", SLICE_ARG(app));
    return arena_printf(&request->serve.op.arena, "%.*s, %u call%s", SLICE_ARG(app), output->count,
                        output->count == 1 ? "" : "s");
}

/* Returns what became of a held call that has no execution; SLICE_NONE: it is not over, or its
 * error says so. */
static slice why_no_execution(const struct flow_view_page *page, const struct json *step)
{
    /* its last attempt was refused before anything was sent, and waited for the next */
    slice outcome = json_get_str(JSON_GET(step, "error"), SLICE("outcome"));
    if (page->flow.status != FLOW_CANCELLED)
        return SLICE_NONE;
    return flow_hold_is_made(page->held.execution_id) && !slice_eq_cstr(outcome, "not_done")
               ? SLICE("The call had begun when the flow was cancelled. If it reached the app, its "
                       "execution is stored once it ends.")
               : SLICE("The call was not made, so it has no execution.");
}

/* Writes which execution the call of a hold is. */
static void write_execution(const struct flow_view_page *page, const struct json *step,
                            struct json_writer *w)
{
    bool is_call = slice_eq_cstr(json_get_str(step, SLICE("stepType")), "tool_call");
    bool is_known = is_call && page->has_hold, is_stored = is_known && page->held.has_record;
    if (is_stored)
        view_id(w, "execution", page->held.execution_id);
    else
        json_member_str(w, "execution", SLICE_NONE);
    json_member_str(w, "about", is_known && !is_stored ? why_no_execution(page, step) : SLICE_NONE);
}

static void write_step(struct web_request *request, const struct flow_view_page *page, size_t at,
                       const struct step_bar *bar, struct json_writer *w)
{
    const struct json *step = &page->steps->as.items[at];
    slice key = json_get_str(step, SLICE("stepKey"));
    json_open(w, '{');
    json_member_str(w, "stepKey", key);
    json_member_str(w, "title", page->step_titles[at]);
    json_member_str(w, "kind", kind_of(request, page, at));
    json_member_str(w, "stepType", json_get_str(step, SLICE("stepType")));
    json_member_str(w, "status",
                    flow_step_is_rejected(step) ? SLICE("rejected")
                                                : json_get_str(step, SLICE("status")));
    json_member_bool(w, "current", slice_eq(key, json_get_str(page->record, SLICE("currentStep"))));
    json_member_str(w, "startedAt", json_get_str(step, SLICE("startedAt")));
    view_time(w, "attempt_at", page->attempt_at[at]);
    json_member_i64(w, "attempts", json_get_i64(step, SLICE("attemptCount"), 0));
    json_member_str(w, "wakeAt", json_get_str(step, SLICE("wakeAt")));
    json_member_str(w, "bar", slice_cstr(bar->kind));
    json_member_str(w, "text", bar->text);
    json_member_i64(w, "x", bar->drawn.x);
    json_member_i64(w, "width", bar->drawn.width);
    write_error(request, page, step, w);
    if (step == page->decision) /* the decision already contains its input */
        json_member_str(w, "input", SLICE_NONE);
    else
        write_part(w, step, "input");
    write_output(w, step);
    write_execution(page, step, w);
    json_close(w, '}');
}

/* ---- the page ---- */

/* A flow without a title gets its approval's title; before there is one, its template's name. */
static slice title_of(const struct flow_view_page *page)
{
    slice title = page->title.ptr ? page->title : page->name;
    for (size_t i = 0; json_is(page->steps, JSON_ARRAY) && i < page->steps->count; i++) {
        const struct json *step = &page->steps->as.items[i];
        slice own = json_get_str(JSON_GET(step, "input"), SLICE("title"));
        if (!page->title.ptr &&
            slice_eq(json_get_str(step, SLICE("stepType")), SLICE("approval")) && own.len > 0)
            title = own;
    }
    return title;
}

static void write_steps(struct web_request *request, const struct flow_view_page *page,
                        struct json_writer *w)
{
    struct step_bar bars[WATERFALL_SPANS_MAX] = {{0}};
    size_t count = json_is(page->steps, JSON_ARRAY) ? page->steps->count : 0, done = 0;
    ASSERT(count <= WATERFALL_SPANS_MAX);
    int64_t work = draw_bars(request, page, bars, count);
    json_member_open(w, "steps", '[');
    for (size_t i = 0; i < count; i++) {
        slice status = json_get_str(&page->steps->as.items[i], SLICE("status"));
        done += slice_eq_cstr(status, "completed") || slice_eq_cstr(status, "skipped");
        write_step(request, page, i, &bars[i], w);
    }
    json_close(w, ']');
    json_member_i64(w, "count", (int64_t)count);
    json_member_i64(w, "done", (int64_t)done);
    view_took(request, w, "work", work);
}

static void write_flow(struct web_request *request, struct flow_view_page *page,
                       struct json_writer *w)
{
    static const char *const copied[] = {"templateKey", "triggerType", "createdAt", "updatedAt",
                                         "completedAt"};
    enum flow_status status = page->flow.status;
    json_member_str(w, "id", request->serve.match.params[0]);
    json_member_str(w, "title", title_of(page));
    json_member_str(w, "name", page->name);
    json_member_str(w, "asker", flow_names_actor(page->names, page->actor));
    json_member_bool(w, "is_own", flow_actor_is_own(request, page->actor));
    json_member_bool(w, "is_held", page->is_held);
    json_member_str(w, "status", view_flow_status(status, page->is_rejected));
    view_flow_state(request, page->names, &page->flow, page->steps, page->canceller,
                    page->step_titles[page->current], w);
    json_member_i64(w, "rev", page->flow.rev);
    json_member_bool(w, "has_ended", page->has_ended);
    for (size_t i = 0; i < ARRAY_LEN(copied); i++)
        json_member_str(w, copied[i], json_get_str(page->record, slice_cstr(copied[i])));
    view_time(w, "deadline_at", page->flow.deadline);
    /* A failed flow may be resumed or cancelled; a completed or cancelled flow allows neither. */
    json_member_bool(w, "may_act",
                     serve_may(&request->serve, SCOPE_EXECUTE_WRITE) && status != FLOW_COMPLETED &&
                         status != FLOW_CANCELLED);
    json_member_bool(w, "may_resume", status == FLOW_FAILED && flow_may_go_on(page->steps));
    if (page->decision)
        view_decision(request, page->names, &page->flow, page->actor, page->decision,
                      &(const struct titled_steps){page->steps, page->step_titles},
                      !page->is_held || page->may_decide, !page->may_decide, w);
    else
        json_member_str(w, "decision", SLICE_NONE);
    if (status == FLOW_COMPLETED)
        result_view(w, page->steps);
    else
        json_member_str(w, "result", SLICE_NONE);
    view_writes_as(request, page->names, JSON_GET(JSON_GET(page->decision, "input"), "items"), w);
    write_steps(request, page, w);
    flow_log_write(&page->log, page->names, w);
    value_view_text(w, "input", JSON_GET(page->record, "input"), PART_BYTES_MAX);
}

static enum op_result finish_flow(struct web_request *request)
{
    struct flow_view_page *page = request->state;
    int status = page->approver.stmt ? flow_approver_result(&page->approver, &page->may_decide)
                                     : OK;
    if (status == OK && page->hold.stmt) {
        int found = store_hold_of_flow_result(&page->hold, &page->held);
        page->has_hold = found == OK;
        status = found == ERR_NOTFOUND ? OK : found; /* it is not kept any more */
    }
    if (status != OK)
        return web_reply_database(request, status);
    struct json_writer *w = view_begin(request);
    request->notice_about = WEB_NOTICE_FLOW;
    write_flow(request, page, w);
    status = flow_next_view(request, &page->near, w);
    if (status != OK)
        return web_reply_database(request, status);
    return web_reply_view(request, 200, "flow");
}

/* Whether the policy of this session's key may hold one of the calls: if this is the key that
 * started the flow, or one that counts as it, its approval does not satisfy that. */
static bool may_be_held(struct web_request *request, const struct flow_view_page *page)
{
    const struct json *items = JSON_GET(JSON_GET(page->decision, "input"), "items");
    for (size_t i = 0; request->serve.policy && json_is(items, JSON_ARRAY) && i < items->count;
         i++) {
        const struct catalog_action *action = catalog_find_tool(
            *request->web->config.catalog, json_get_str(&items->as.items[i], SLICE("tool")));
        struct policy_verdict verdict = {.may_hold = false};
        if (action)
            serve_foresee(&request->serve, action, &verdict);
        if (verdict.may_hold)
            return true;
    }
    return false;
}

static enum op_result name_those_of_flow(struct web_request *request)
{
    enum { ACTORS_MAX = 16 };
    struct flow_view_page *page = request->state;
    slice actors[ACTORS_MAX];
    size_t count = flow_log_actors(&page->log, actors, ACTORS_MAX);
    bool may_go_on = serve_may(&request->serve, SCOPE_APPROVE) &&
                     (page->decision || flow_is_own_decision(request, page->steps));
    if (may_go_on)
        flow_next_ask(request, &page->near, page->flow.id);
    if (may_go_on && page->decision && (page->is_held || may_be_held(request, page)))
        flow_approver_ask(request->web->config.pool, &page->approver, &request->serve.op,
                          serve_payer(&request->serve), page->actor, serve_actor(&request->serve));
    if (page->is_held && !page->decision)
        store_hold_of_flow(request->web->config.pool, &page->hold, &request->serve.op,
                           request->session.account_id, page->flow.id);
    return flow_names_begin(request, actors, count,
                            JSON_GET(JSON_GET(page->decision, "input"), "items"), &page->names,
                            finish_flow);
}

/* ---- those who cancelled and resumed ---- */

static enum op_result name_doers(struct web_request *request)
{
    struct flow_view_page *page = request->state;
    for (size_t i = 0; i < page->doer_count; i++) {
        slice by;
        int64_t at;
        int status = flow_doer_result(&page->doers[i], page->flow.id, &by, &at);
        if (status != OK)
            return web_reply_database(request, status);
        if (!by.ptr)
            continue;
        flow_log_set_doer(&page->log, &page->doers[i], by, at);
        if (page->doers[i].kind == AUDIT_FLOW_CANCELLED)
            page->canceller = by;
    }
    return name_those_of_flow(request);
}

/* An approval's title is its question, once that is known; a call has its app's name. The view's
 * steps are in the template's order. */
static void read_step_titles(struct web_request *request, struct flow_view_page *page,
                             const struct flow_template *tmpl)
{
    const struct catalog *catalog = *request->web->config.catalog;
    struct arena *arena = &request->serve.op.arena;
    ASSERT(json_is(page->steps, JSON_ARRAY) && page->steps->count == tmpl->step_count);
    for (size_t i = 0; i < tmpl->step_count; i++) {
        const struct json *input = JSON_GET(&page->steps->as.items[i], "input");
        slice asked = tmpl->steps[i].type == FLOW_APPROVAL ? json_get_str(input, SLICE("title"))
                                                           : SLICE_NONE;
        page->step_titles[i] =
            asked.len > 0 ? asked
                          : arena_dup(arena, flow_step_title(&tmpl->steps[i], catalog, arena));
        const struct catalog_action *action = tmpl->steps[i].type == FLOW_TOOL_CALL
                                                  ? catalog_find_tool(catalog, tmpl->steps[i].tool)
                                                  : NULL;
        if (action)
            page->step_apps[i] = arena_dup(arena, action->integration->name);
        page->is_fan_out[i] = tmpl->steps[i].for_each != NULL;
    }
}

/* Reads when the last attempt of each step began. Attempts come in order. One that has not ended
 * has no row: it began at the last change of the flow's row, unless the flow was cancelled since.
 */
static void read_attempts(struct flow_view_page *page, const struct flow_whole *whole)
{
    const struct flow *flow = &whole->flow;
    int64_t last = 0;
    for (size_t i = 0; i < whole->step_count; i++) {
        const struct flow_step *attempt = &whole->steps[i];
        if (attempt->step_index >= FLOW_STEPS_MAX)
            continue;
        page->attempt_at[attempt->step_index] = attempt->started_at;
        if ((size_t)attempt->step_index == page->current)
            last = attempt->is_completed ? INT64_MAX : attempt->attempt;
    }
    bool is_under_way = flow->status == FLOW_RUNNING
                            ? last != INT64_MAX && last > 0
                            : flow->status == FLOW_WAITING && flow->attempt > last;
    if (is_under_way)
        page->attempt_at[page->current] = flow->updated_at;
}

static enum op_result finish_load(struct web_request *request)
{
    struct flow_view_page *page = request->state;
    struct flow_load *load = page->load;
    if (load->status == ERR_NOTFOUND)
        return web_reply_missing(request, "There is no such flow.");
    if (load->status != OK)
        return web_reply_database(request, load->status);
    ASSERT(load->tmpl);
    /* The view is the same text that the API returns; the page is rendered from it. */
    struct arena *arena = &request->serve.op.arena;
    slice text = arena_dup(arena, flow_load_render_view(load));
    const struct json *whole = text.len > 0 ? json_parse(arena, text, &json_limits_provider, NULL)
                                            : NULL;
    if (!whole)
        return web_reply_database(request, ERR_NOMEM);
    page->flow = load->whole.flow;
    page->name = arena_dup(arena, load->tmpl->name);
    if (load->whole.title.ptr)
        page->title = arena_dup(arena, load->whole.title);
    page->actor = arena_dup(arena, load->whole.actor);
    page->has_ended = flow_load_has_ended(load);
    page->is_held = load->tmpl->is_held;
    page->may_decide = true;
    page->record = JSON_GET(whole, "flow");
    page->steps = JSON_GET(whole, "steps");
    page->decision = waiting_step(page->steps);
    page->current = flow_current_index(&page->flow, load->tmpl);
    read_step_titles(request, page, load->tmpl);
    read_attempts(page, &load->whole);
    page->is_rejected = flow_is_rejected(&page->flow, page->steps);
    if (flow_log_read(&page->log, &load->whole, load->tmpl, page->step_titles, arena) != OK)
        return web_reply_database(request, ERR_NOMEM);
    page->doer_count = flow_log_doers(&page->log, page->doers, DOERS_MAX);
    for (size_t i = 0; i < page->doer_count; i++)
        flow_doer_ask(request->web->config.pool, &request->serve.op, request->session.account_id,
                      &page->doers[i]);
    return page->doer_count > 0 ? web_wait(request, name_doers) : name_those_of_flow(request);
}

enum op_result web_flow(struct web_request *request)
{
    struct flow_view_page *page = web_state_new(request, sizeof(*page));
    struct uuid id;
    if (!page)
        return OP_DONE;
    if (!web_path_uuid(request, 0, &id))
        return OP_DONE;
    page->load = flow_load_start(request->web->config.flow, request->session.account_id, id,
                                 request->serve.policy, &request->serve.op);
    return page->load ? web_wait(request, finish_load) : web_reply_database(request, ERR_NOMEM);
}
