/*
 * One flow: a step that waits for a decision first, with exactly what will be done; then all its
 * steps. The page consists of blocks that are refreshed one by one, so that a change does not move
 * what a person is about to press.
 */
#include <stdio.h>

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

static void write_flow_time(struct buf *out, const struct json *of, const char *name,
                            const char *label)
{
    int64_t at = 0;
    if (!time_parse(json_get_str(of, slice_cstr(name)), &at))
        return;
    HTML(out, "<dt>{}</dt><dd>", slice_cstr(label));
    html_time(out, at);
    buf_append(out, SLICE("</dd>"));
}

/* ---- a decision ---- */

/* The headline first, then all fields, folded. */
static void write_item(struct web_request *request, const struct json *item, size_t i,
                       struct buf *out)
{
    slice tool = json_get_str(item, SLICE("tool"));
    const struct json *input = JSON_GET(item, "input");
    /* A tool that is no longer in the catalog is named by its id. */
    const struct catalog_action *action = catalog_find_tool(*request->web->config.catalog, tool);
    slice headline = value_headline(input), what = action ? action->title : tool;
    if (headline.len > 0)
        HTML(out, "<li><p class=\"row\"><strong>{}</strong><span class=\"soft\">{}", headline,
             what);
    else
        HTML(out, "<li><p class=\"row\"><strong>{}</strong><span class=\"soft\">", what);
    if (action)
        HTML(out, " <span class=\"badge\">{}</span>", action->integration->name);
    buf_append(out, SLICE("</span></p>"));
    value_write_brief(out, input, headline);
    buf_printf(out, "<details id=\"item-%zu\"><summary>All fields that are sent</summary>", i);
    value_write(out, input);
    buf_append(out, SLICE("</details></li>"));
}

static void write_items(struct web_request *request, const struct json *items, struct buf *out)
{
    if (!json_is(items, JSON_ARRAY) || items->count == 0)
        return;
    buf_printf(out, "<h3>What will be done (%u)</h3><ol class=\"list items\">", items->count);
    for (size_t i = 0; i < items->count; i++)
        write_item(request, &items->as.items[i], i, out);
    buf_append(out, SLICE("</ol>"));
}

static void write_decision(struct web_request *request, const struct flow *flow,
                           const struct json *step, struct buf *out)
{
    const struct json *input = JSON_GET(step, "input");
    slice id = request->match.params[0], key = json_get_str(step, SLICE("stepKey"));
    char rev[24];
    /* The revision binds the decision to what this page shows (flow_do.c). */
    (void)snprintf(rev, sizeof(rev), "%lld", (long long)flow->rev);
    /* data-news is read out by screen readers when the block appears on an open page. */
    size_t began = html_block_begin(
        out, "section", arena_printf(&request->op.arena, "decision-%.*s", SLICE_ARG(key)),
        " class=\"card\" aria-labelledby=\"decision\" "
        "data-news=\"The flow now waits for your decision.\"");
    HTML(out, "<h2 id=\"decision\" tabindex=\"-1\">{}</h2><p>{}</p>",
         json_get_str(input, SLICE("title")), json_get_str(input, SLICE("summary")));
    write_items(request, JSON_GET(input, "items"), out);
    if (!web_may(request, SCOPE_APPROVE)) {
        buf_append(out, SLICE("<p class=\"problem\">The API key of this session may not approve; "
                              "sign in with one that has the scope approve.</p>"));
        /* A block has to be closed on every path: its version is written then. */
        html_block_end(out, "section", began);
        return;
    }
    HTML(out,
         "<form method=\"post\" action=\"/flows/{}/approve\">"
         /* formaction sends the same fields to either address, so the note is typed once. */
         "<input type=\"hidden\" name=\"step\" value=\"{}\">"
         "<input type=\"hidden\" name=\"rev\" value=\"{}\">",
         id, key, slice_cstr(rev));
    web_csrf_field(request, out);
    HTML(out,
         "<label for=\"note\">Note <span class=\"soft\">(optional)</span></label>"
         "<textarea id=\"note\" name=\"note\" rows=\"2\" maxlength=\"2000\">\n{}</textarea>"
         "<p class=\"actions\"><button class=\"primary\">Approve</button>"
         "<button class=\"danger\" formaction=\"/flows/{}/reject\">Reject</button></p></form>",
         web_field(request, "note"), id);
    html_block_end(out, "section", began);
}

/* ---- the steps ---- */

static void write_error(struct buf *out, const struct json *error)
{
    if (!json_is(error, JSON_OBJECT))
        return;
    HTML(out, "<p class=\"problem\"><strong>{}</strong>: {}", json_get_str(error, SLICE("code")),
         json_get_str(error, SLICE("message")));
    slice hint = json_get_str(error, SLICE("hint"));
    if (hint.len > 0)
        HTML(out, " {}", hint);
    buf_append(out, SLICE("</p>"));
}

static void write_part(struct buf *out, const struct json *step, const char *name,
                       const char *label)
{
    const struct json *value = json_get(step, slice_cstr(name));
    slice key = json_get_str(step, SLICE("stepKey"));
    if (!value || value->type == JSON_NULL)
        return;
    HTML(out, "<details id=\"{}-{}\"><summary>{}</summary>", key, slice_cstr(name),
         slice_cstr(label));
    value_write_text(out, value, PART_BYTES_MAX);
    buf_append(out, SLICE("</details>"));
}

static void write_timing(struct buf *out, const struct json *step)
{
    int64_t started = 0, completed = 0, wakes = 0;
    int64_t attempts = json_get_i64(step, SLICE("attemptCount"), 0);
    /* A step that has not started has no times. */
    if (!time_parse(json_get_str(step, SLICE("startedAt")), &started))
        return;
    buf_append(out, SLICE("<p class=\"soft\">"));
    html_time(out, started);
    if (time_parse(json_get_str(step, SLICE("completedAt")), &completed))
        buf_printf(out, completed - started < 1000000 ? ", took %.0f ms" : ", took %.1f s",
                   (double)(completed - started) / (completed - started < 1000000 ? 1e3 : 1e6));
    if (attempts > 1)
        buf_printf(out, ", %lld attempts", (long long)attempts);
    if (time_parse(json_get_str(step, SLICE("wakeAt")), &wakes)) {
        buf_append(out, SLICE(", continues "));
        html_time(out, wakes);
    }
    buf_append(out, SLICE("</p>"));
}

static void write_step(struct web_request *request, const struct json *step, slice current,
                       bool is_decided_on, struct buf *out)
{
    slice key = json_get_str(step, SLICE("stepKey"));
    size_t began = html_block_begin(out, "li",
                                    arena_printf(&request->op.arena, "step-%.*s", SLICE_ARG(key)),
                                    slice_eq(key, current) ? " class=\"current\"" : "");
    HTML(out, "<div class=\"row\"><h3>{} <span class=\"soft\">{}</span></h3>", key,
         json_get_str(step, SLICE("stepType")));
    web_badge(out, json_get_str(step, SLICE("status")));
    buf_append(out, SLICE("</div>"));
    write_timing(out, step);
    write_error(out, JSON_GET(step, "error"));
    if (!is_decided_on) /* write_decision has its input already */
        write_part(out, step, "input", "Input");
    write_part(out, step, "output", "Output");
    html_block_end(out, "li", began);
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

static void write_actions(struct web_request *request, const struct flow *flow, struct buf *out)
{
    struct arena *arena = &request->op.arena;
    slice id = request->match.params[0];
    size_t began = html_block_begin(out, "div", SLICE("flow-actions"), " class=\"actions\"");
    /* A failed flow may be resumed or cancelled; a completed or cancelled one has nothing left to
     * do. */
    bool may_act = web_may(request, SCOPE_EXECUTE) && flow->status != FLOW_COMPLETED &&
                   flow->status != FLOW_CANCELLED;
    if (may_act && flow->status == FLOW_FAILED)
        web_button(request, out, arena_printf(arena, "/flows/%.*s/resume", SLICE_ARG(id)),
                   SLICE("Resume from the failed step"), "primary");
    if (may_act)
        HTML(out, "<a class=\"button danger\" href=\"/flows/{}/cancel\">Cancel the flow</a>", id);
    html_block_end(out, "div", began);
}

static void write_flow_about(struct web_request *request, const struct json *record,
                             struct buf *out)
{
    size_t began = html_block_begin(out, "section", SLICE("flow-about"), "");
    HTML(out, "<h2>Details</h2><dl><dt>template</dt><dd>{}</dd><dt>started as</dt><dd>{}</dd>",
         json_get_str(record, SLICE("templateKey")), json_get_str(record, SLICE("triggerType")));
    write_flow_time(out, record, "createdAt", "created");
    write_flow_time(out, record, "updatedAt", "changed");
    write_flow_time(out, record, "completedAt", "completed");
    HTML(out, "<dt>id</dt><dd><code>{}</code></dd></dl>", request->match.params[0]);
    html_block_end(out, "section", began);
}

static void write_flow(struct web_request *request, const struct flow_load *load,
                       const struct json *view, struct buf *out)
{
    const struct json *record = JSON_GET(view, "flow"), *steps = JSON_GET(view, "steps");
    const struct json *decision = waiting_step(steps);
    slice id = request->match.params[0];
    /* The script opens the event stream from this attribute; `since` is the revision rendered here.
     */
    HTML(out, "<div data-page=\"/flows/{}\" data-live=\"/flows/{}/events?since=", id, id);
    buf_append_i64(out, load->whole.flow.rev);
    buf_append(out, flow_load_has_ended(load) ? SLICE("\" data-over>") : SLICE("\">"));
    size_t began = html_block_begin(out, "p", SLICE("flow-state"), " role=\"status\"");
    web_badge(out, json_get_str(record, SLICE("status")));
    html_block_end(out, "p", began);
    if (decision)
        write_decision(request, &load->whole.flow, decision, out);
    buf_append(out, SLICE("<h2>Steps</h2><ol class=\"steps\">"));
    for (size_t i = 0; json_is(steps, JSON_ARRAY) && i < steps->count; i++)
        write_step(request, &steps->as.items[i], json_get_str(record, SLICE("currentStep")),
                   &steps->as.items[i] == decision, out);
    buf_append(out, SLICE("</ol>"));
    /* Each block is compared by its hash, so its order here is the page's order, too. */
    write_actions(request, &load->whole.flow, out);
    write_flow_about(request, record, out);
    buf_append(out, SLICE("<details><summary>Inputs</summary>"));
    value_write_text(out, JSON_GET(record, "input"), PART_BYTES_MAX);
    buf_append(out, SLICE("</details></div>"));
}

static enum op_result finish_flow(struct web_request *request)
{
    struct flow_load *load = request->state;
    struct buf body;
    if (load->status == ERR_NOTFOUND)
        return web_reply_problem(request, 404, SLICE("Not found"), SLICE("There is no such flow."));
    if (load->status != OK)
        return web_reply_database(request, load->status);
    ASSERT(load->tmpl);
    /* The view is the same text that the API answers with; the page is rendered from it. */
    slice text = flow_load_render_view(load);
    const struct json *view =
        text.ptr ? json_parse(&request->op.arena, text, &json_limits_provider, NULL) : NULL;
    if (!view)
        return web_reply_database(request, ERR_NOMEM);
    buf_init(&body, WEB_PAGE_BYTES_MAX);
    write_flow(request, load, view, &body);
    return web_reply_page(request, 200, load->tmpl->name, &body);
}

const struct web_page web_flow = {.route = "/flows/{id}",
                                  .access = WEB_SESSION,
                                  .scope = SCOPE_READ,
                                  .begin = begin_flow,
                                  .finish = finish_flow};
