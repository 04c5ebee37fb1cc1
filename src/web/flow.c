/*
 * One flow: a step that waits for a decision first, with exactly what will be done; then all its
 * steps.
 */
#include "base/clock.h"
#include "flow/load.h"
#include "web/flow_decision.h"
#include "web/result.h"
#include "web/waterfall.h"

/* Of a step's input or output: more would make the page large, and the API returns all of it. The
 * input of a step that waits for a decision is not cut. */
enum { PART_BYTES_MAX = 3 * 1024 };

/* ---- the steps ---- */

static void write_error(struct json_writer *w, const struct json *error)
{
    if (!json_is(error, JSON_OBJECT)) {
        json_member_str(w, "error", SLICE_NONE);
        return;
    }
    json_member_open(w, "error", '{');
    json_member_str(w, "code", json_get_str(error, SLICE("code")));
    json_member_str(w, "message", json_get_str(error, SLICE("message")));
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

/* SLICE_NONE before its end. */
static slice took_of(struct arena *arena, const struct json *step)
{
    int64_t started = 0, completed = 0;
    if (!time_parse(json_get_str(step, SLICE("startedAt")), &started) ||
        !time_parse(json_get_str(step, SLICE("completedAt")), &completed))
        return SLICE_NONE;
    return view_span(arena, completed - started);
}

static void write_step(struct web_request *request, const struct json *step, slice title,
                       slice current, bool is_decided_on, struct json_writer *w)
{
    slice key = json_get_str(step, SLICE("stepKey"));
    json_open(w, '{');
    json_member_str(w, "stepKey", key);
    json_member_str(w, "title", title);
    json_member_str(w, "stepType", json_get_str(step, SLICE("stepType")));
    json_member_str(w, "status", json_get_str(step, SLICE("status")));
    json_member_bool(w, "current", slice_eq(key, current));
    json_member_str(w, "startedAt", json_get_str(step, SLICE("startedAt")));
    json_member_str(w, "took", took_of(&request->op.arena, step));
    json_member_i64(w, "attempts", json_get_i64(step, SLICE("attemptCount"), 0));
    json_member_str(w, "wakeAt", json_get_str(step, SLICE("wakeAt")));
    write_error(w, JSON_GET(step, "error"));
    if (is_decided_on) /* the decision has its input already */
        json_member_str(w, "input", SLICE_NONE);
    else
        write_part(w, step, "input");
    write_part(w, step, "output");
    json_close(w, '}');
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

/* ---- when each step ran ---- */

_Static_assert((int)FLOW_STEPS_MAX <= (int)WATERFALL_SPANS_MAX, "all steps have a bar");

/* What a bar looks like, and says. Nothing here depends on the time of day, so that the block
 * changes only when the flow has. */
struct step_bar {
    const char *kind; /* NULL: it has not begun */
    slice text;
    struct waterfall_span span;
};

static struct step_bar bar_of(struct arena *arena, const struct json *step)
{
    slice status = json_get_str(step, SLICE("status")),
          type = json_get_str(step, SLICE("stepType"));
    bool is_done = slice_eq_cstr(status, "completed"), is_failed = slice_eq_cstr(status, "failed");
    struct step_bar bar = {.text = status};
    bar.span.is_open = slice_eq_cstr(status, "waiting");
    bar.span.is_pause = bar.span.is_open || slice_eq_cstr(type, "approval") ||
                        slice_eq_cstr(type, "wait");
    if (!time_parse(json_get_str(step, SLICE("startedAt")), &bar.span.begin) ||
        !time_parse(json_get_str(step, is_done ? SLICE("completedAt") : SLICE("updatedAt")),
                    &bar.span.end))
        return bar;
    bar.kind = is_failed ? "bad" : bar.span.is_pause ? "wait" : "ok";
    slice took = view_span(arena, bar.span.end - bar.span.begin);
    if (is_done && !bar.span.is_pause)
        bar.text = took;
    else if (is_done || is_failed)
        bar.text =
            arena_printf(arena, "%s %.*s", is_done ? "waited" : "failed after", SLICE_ARG(took));
    return bar;
}

static void write_waterfall(struct web_request *request, const struct json *steps,
                            const slice *titles, struct json_writer *w)
{
    struct step_bar bars[WATERFALL_SPANS_MAX];
    struct waterfall_span spans[WATERFALL_SPANS_MAX] = {{0}};
    struct waterfall_bar drawn[WATERFALL_SPANS_MAX];
    size_t count = json_is(steps, JSON_ARRAY) ? steps->count : 0, begun = 0;
    ASSERT(count <= WATERFALL_SPANS_MAX);
    for (size_t i = 0; i < count; i++) {
        bars[i] = bar_of(&request->op.arena, &steps->as.items[i]);
        if (bars[i].kind)
            spans[begun++] = bars[i].span;
    }
    waterfall_fit(spans, begun, drawn);
    json_member_open(w, "waterfall", '[');
    for (size_t i = 0, at = 0; i < count; i++) {
        json_open(w, '{');
        json_member_str(w, "stepKey", json_get_str(&steps->as.items[i], SLICE("stepKey")));
        json_member_str(w, "title", titles[i]);
        json_member_str(w, "kind", slice_cstr(bars[i].kind));
        json_member_str(w, "text", bars[i].text);
        json_member_i64(w, "x", bars[i].kind ? drawn[at].x : 0);
        json_member_i64(w, "width", bars[i].kind ? drawn[at].width : 0);
        json_close(w, '}');
        at += bars[i].kind != NULL;
    }
    json_close(w, ']');
}

/* ---- what happened ---- */

/* While the page is made. */
struct flow_view_page {
    struct flow_load *load; /* until it is there: it is freed while names are read */
    struct flow flow;
    slice name, title, actor;          /* title: SLICE_NONE: none of its own */
    slice step_titles[FLOW_STEPS_MAX]; /* as many as steps */
    bool has_ended;
    const struct json *record, *steps, *decision; /* of the view, the API's answer */
    struct flow_names *names;
};

static slice decider_of(const struct json *step)
{
    return json_get_str(JSON_GET(step, "output"), SLICE("approvedBy"));
}

static void write_event(struct json_writer *w, slice at, const char *what, slice by, slice code,
                        slice text)
{
    json_open(w, '{');
    json_member_str(w, "at", at);
    json_member_str(w, "what", slice_cstr(what));
    json_member_str(w, "by", by);
    json_member_str(w, "code", code);
    json_member_str(w, "text", text);
    json_close(w, '}');
}

/* Of a step: its decision, or its last error. */
static void write_step_event(struct flow_view_page *page, size_t at, struct json_writer *w)
{
    const struct json *step = &page->steps->as.items[at];
    const struct json *output = JSON_GET(step, "output"), *error = JSON_GET(step, "error");
    if (decider_of(step).ptr)
        write_event(w, json_get_str(output, SLICE("approvedAt")), "Approved",
                    flow_names_actor(page->names, decider_of(step)), SLICE_NONE,
                    json_get_str(output, SLICE("note")));
    if (step == page->decision)
        write_event(w, json_get_str(step, SLICE("startedAt")), "Waits for approval", SLICE_NONE,
                    SLICE_NONE, SLICE_NONE);
    if (json_is(error, JSON_OBJECT))
        write_event(w, json_get_str(step, SLICE("updatedAt")), "Failed: ", page->step_titles[at],
                    json_get_str(error, SLICE("code")), json_get_str(error, SLICE("message")));
}

static void write_log(struct flow_view_page *page, struct json_writer *w)
{
    const struct flow *flow = &page->flow;
    json_member_open(w, "log", '[');
    write_event(w, json_get_str(page->record, SLICE("createdAt")), "Started",
                flow_names_actor(page->names, page->actor), SLICE_NONE, SLICE_NONE);
    for (size_t i = 0; json_is(page->steps, JSON_ARRAY) && i < page->steps->count; i++)
        write_step_event(page, i, w);
    if (flow->status == FLOW_COMPLETED || flow->status == FLOW_CANCELLED)
        write_event(w,
                    json_get_str(page->record,
                                 flow->completed_at ? SLICE("completedAt") : SLICE("updatedAt")),
                    flow->status == FLOW_COMPLETED ? "Completed" : "Cancelled", SLICE_NONE,
                    SLICE_NONE, SLICE_NONE);
    json_close(w, ']');
}

/* ---- the page ---- */

/* Without a title of its own a flow does what its approval says; before there is one it has its
 * template's name. */
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
    slice current = json_get_str(page->record, SLICE("currentStep"));
    size_t count = json_is(page->steps, JSON_ARRAY) ? page->steps->count : 0, done = 0;
    json_member_open(w, "steps", '[');
    for (size_t i = 0; i < count; i++) {
        const struct json *step = &page->steps->as.items[i];
        slice status = json_get_str(step, SLICE("status"));
        done += slice_eq_cstr(status, "completed") || slice_eq_cstr(status, "skipped");
        write_step(request, step, page->step_titles[i], current, step == page->decision, w);
    }
    json_close(w, ']');
    json_member_i64(w, "count", (int64_t)count);
    json_member_i64(w, "done", (int64_t)done);
}

static void write_flow(struct web_request *request, struct flow_view_page *page,
                       struct json_writer *w)
{
    static const char *const copied[] = {"templateKey", "triggerType", "createdAt",
                                         "updatedAt",   "completedAt", "status"};
    enum flow_status status = page->flow.status;
    json_member_str(w, "id", request->match.params[0]);
    json_member_str(w, "title", title_of(page));
    json_member_str(w, "name", page->name);
    json_member_str(w, "asker", flow_names_actor(page->names, page->actor));
    json_member_i64(w, "rev", page->flow.rev);
    json_member_bool(w, "has_ended", page->has_ended);
    for (size_t i = 0; i < ARRAY_LEN(copied); i++)
        json_member_str(w, copied[i], json_get_str(page->record, slice_cstr(copied[i])));
    view_time(w, "deadline_at", page->flow.deadline);
    /* A failed flow may be resumed or cancelled; a completed or cancelled one has nothing left to
     * do. */
    json_member_bool(w, "may_act",
                     web_may(request, SCOPE_EXECUTE) && status != FLOW_COMPLETED &&
                         status != FLOW_CANCELLED);
    if (page->decision)
        view_decision(request, page->names, &page->flow, page->actor, page->decision,
                      &(const struct titled_steps){page->steps, page->step_titles}, w);
    else
        json_member_str(w, "decision", SLICE_NONE);
    if (status == FLOW_COMPLETED)
        result_view(w, page->steps);
    else
        json_member_str(w, "result", SLICE_NONE);
    view_writes_as(request, page->names, JSON_GET(JSON_GET(page->decision, "input"), "items"), w);
    write_steps(request, page, w);
    write_waterfall(request, page->steps, page->step_titles, w);
    write_log(page, w);
    value_view_text(w, "input", JSON_GET(page->record, "input"), PART_BYTES_MAX);
}

static enum op_result finish_flow(struct web_request *request)
{
    write_flow(request, request->state, view_begin(request));
    return web_reply_view(request, 200, "flow");
}

static enum op_result name_those_of_flow(struct web_request *request)
{
    enum { ACTORS_MAX = 8 };
    struct flow_view_page *page = request->state;
    slice actors[ACTORS_MAX] = {page->actor};
    size_t count = 1;
    for (size_t i = 0; json_is(page->steps, JSON_ARRAY) && i < page->steps->count; i++)
        if (count < ACTORS_MAX && decider_of(&page->steps->as.items[i]).ptr)
            actors[count++] = decider_of(&page->steps->as.items[i]);
    return flow_names_begin(request, actors, count,
                            JSON_GET(JSON_GET(page->decision, "input"), "items"), &page->names,
                            finish_flow);
}

/* An approval's title is what it asks for, once that is known. The view's steps are in the order of
 * the template's. */
static void read_step_titles(struct web_request *request, struct flow_view_page *page,
                             const struct flow_template *tmpl)
{
    const struct catalog *catalog = *request->web->config.catalog;
    struct arena *arena = &request->op.arena;
    ASSERT(json_is(page->steps, JSON_ARRAY) && page->steps->count == tmpl->step_count);
    for (size_t i = 0; i < tmpl->step_count; i++) {
        const struct json *input = JSON_GET(&page->steps->as.items[i], "input");
        slice asked = tmpl->steps[i].type == FLOW_APPROVAL ? json_get_str(input, SLICE("title"))
                                                           : SLICE_NONE;
        page->step_titles[i] =
            asked.len > 0 ? asked
                          : arena_dup(arena, flow_step_title(&tmpl->steps[i], catalog, arena));
    }
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
    /* The view is the same text that the API answers with; the page is rendered from it. */
    struct arena *arena = &request->op.arena;
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
    page->record = JSON_GET(whole, "flow");
    page->steps = JSON_GET(whole, "steps");
    page->decision = waiting_step(page->steps);
    read_step_titles(request, page, load->tmpl);
    return name_those_of_flow(request);
}

enum op_result web_flow(struct web_request *request)
{
    struct flow_view_page *page = ARENA_NEW(&request->op.arena, struct flow_view_page);
    struct uuid id;
    if (!web_path_uuid(request, 0, &id))
        return OP_DONE;
    if (!page)
        return web_reply_database(request, ERR_NOMEM);
    request->state = page;
    page->load =
        flow_load_start(request->web->config.flow, request->session.account_id, id, &request->op);
    return page->load ? web_wait(request, finish_load) : web_reply_database(request, ERR_NOMEM);
}
