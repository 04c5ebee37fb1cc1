/*
 * One flow: a step that waits for a decision first, with exactly what will be done; then all its
 * steps.
 */
#include "base/clock.h"
#include "flow/load.h"
#include "web/pages.h"

/* Of a step's input or output: more would make the page large, and the API returns all of it. The
 * input of a step that waits for a decision is not cut. */
enum { PART_BYTES_MAX = 3 * 1024 };

static enum op_result begin_flow(struct web_request *request)
{
    struct uuid id;
    if (!web_path_uuid(request, 0, &id))
        return OP_DONE;
    request->state =
        flow_load_start(request->web->config.flow, request->session.account_id, id, &request->op);
    return request->state ? OP_WAIT : web_reply_database(request, ERR_BUSY);
}

/* ---- a decision ---- */

/* The headline first, then all fields, folded. */
static void write_item(struct web_request *request, const struct json *item, size_t i,
                       struct json_writer *w)
{
    slice tool = json_get_str(item, SLICE("tool"));
    const struct json *input = JSON_GET(item, "input");
    /* A tool that is no longer in the catalog is named by its id. */
    const struct catalog_action *action = catalog_find_tool(*request->web->config.catalog, tool);
    slice headline = value_headline(input);
    json_open(w, '{');
    json_member_i64(w, "number", (int64_t)i);
    json_member_str(w, "headline", headline);
    json_member_str(w, "what", action ? action->title : tool);
    json_member_str(w, "app", action ? action->integration->name : SLICE_NONE);
    value_view_brief(w, input, headline);
    value_view(w, "fields", input);
    json_close(w, '}');
}

static void write_decision(struct web_request *request, const struct flow *flow,
                           const struct json *step, struct json_writer *w)
{
    const struct json *input = JSON_GET(step, "input"), *items = JSON_GET(input, "items");
    size_t count = json_is(items, JSON_ARRAY) ? items->count : 0;
    json_member_open(w, "decision", '{');
    json_member_str(w, "id", request->match.params[0]);
    /* The revision binds the decision to what this page shows (flow_do.c). */
    json_member_i64(w, "rev", flow->rev);
    json_member_str(w, "step", json_get_str(step, SLICE("stepKey")));
    json_member_str(w, "title", json_get_str(input, SLICE("title")));
    json_member_str(w, "summary", json_get_str(input, SLICE("summary")));
    json_member_str(w, "note", web_field(request, "note"));
    json_member_i64(w, "count", (int64_t)count);
    json_member_open(w, "items", '[');
    for (size_t i = 0; i < count; i++)
        write_item(request, &items->as.items[i], i, w);
    json_close(w, ']');
    json_close(w, '}');
}

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

/* "12 ms", "1.5 s"; SLICE_NONE before its end. */
static slice took_of(struct arena *arena, const struct json *step)
{
    int64_t started = 0, completed = 0;
    if (!time_parse(json_get_str(step, SLICE("startedAt")), &started) ||
        !time_parse(json_get_str(step, SLICE("completedAt")), &completed))
        return SLICE_NONE;
    double us = (double)(completed - started);
    return us < 1e6 ? arena_printf(arena, "%.0f ms", us / 1e3)
                    : arena_printf(arena, "%.1f s", us / 1e6);
}

static void write_step(struct web_request *request, const struct json *step, slice current,
                       bool is_decided_on, struct json_writer *w)
{
    slice key = json_get_str(step, SLICE("stepKey"));
    json_open(w, '{');
    json_member_str(w, "stepKey", key);
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

static void write_flow(struct web_request *request, const struct flow_load *load,
                       const struct json *whole, struct json_writer *w)
{
    static const char *const copied[] = {"templateKey", "triggerType", "createdAt",
                                         "updatedAt",   "completedAt", "status"};
    const struct json *record = JSON_GET(whole, "flow"), *steps = JSON_GET(whole, "steps");
    const struct json *decision = waiting_step(steps);
    enum flow_status status = load->whole.flow.status;
    json_member_str(w, "id", request->match.params[0]);
    json_member_str(w, "name", load->tmpl->name);
    json_member_i64(w, "rev", load->whole.flow.rev);
    json_member_bool(w, "has_ended", flow_load_has_ended(load));
    for (size_t i = 0; i < ARRAY_LEN(copied); i++)
        json_member_str(w, copied[i], json_get_str(record, slice_cstr(copied[i])));
    /* A failed flow may be resumed or cancelled; a completed or cancelled one has nothing left to
     * do. */
    json_member_bool(w, "may_act",
                     web_may(request, SCOPE_EXECUTE) && status != FLOW_COMPLETED &&
                         status != FLOW_CANCELLED);
    if (decision)
        write_decision(request, &load->whole.flow, decision, w);
    else
        json_member_str(w, "decision", SLICE_NONE);
    json_member_open(w, "steps", '[');
    for (size_t i = 0; json_is(steps, JSON_ARRAY) && i < steps->count; i++)
        write_step(request, &steps->as.items[i], json_get_str(record, SLICE("currentStep")),
                   &steps->as.items[i] == decision, w);
    json_close(w, ']');
    value_view_text(w, "input", JSON_GET(record, "input"), PART_BYTES_MAX);
}

static enum op_result finish_flow(struct web_request *request)
{
    struct flow_load *load = request->state;
    struct view view;
    if (load->status == ERR_NOTFOUND)
        return web_reply_problem(request, 404, SLICE("Not found"), SLICE("There is no such flow."));
    if (load->status != OK)
        return web_reply_database(request, load->status);
    ASSERT(load->tmpl);
    /* The view is the same text that the API answers with; the page is rendered from it. */
    slice text = flow_load_render_view(load);
    const struct json *whole =
        text.ptr ? json_parse(&request->op.arena, text, &json_limits_provider, NULL) : NULL;
    if (!whole)
        return web_reply_database(request, ERR_NOMEM);
    write_flow(request, load, whole, view_begin(&view));
    return web_reply_view(request, 200, "flow", &view);
}

const struct web_page web_flow = {.route = "/flows/{id}",
                                  .access = WEB_SESSION,
                                  .scope = SCOPE_READ,
                                  .begin = begin_flow,
                                  .finish = finish_flow};
