/*
 * Executions: what was run, newest first, and one of them with its outcome.
 */
#include "base/clock.h"
#include "store/execution.h"
#include "web/pages.h"

enum { EXECUTIONS_A_PAGE = 25, CLOCK_MARGIN_MS = 24 * 60 * 60 * 1000 };

/* ---- the list ---- */

struct list_page {
    struct store_page page;
    struct execution_filter filter;
    size_t scans; /* made for this page */
};

/* A filter may match nothing in one scan's range of rows; a few more scans are made then. */
enum { SCANS_MAX = 8 };

static void load_list_page(struct web_request *request, struct list_page *list)
{
    ASSERT(list->scans < SCANS_MAX);
    store_execution_list(request->web->config.pool, &request->query, &request->op,
                         request->session.account_id, &list->page, &list->filter);
}

static enum op_result begin_executions_page(struct web_request *request)
{
    struct list_page *list = ARENA_NEW(&request->op.arena, struct list_page);
    slice before = web_query(request, "before"), status = web_query(request, "status");
    if (!list)
        return web_reply_database(request, ERR_BUSY);
    list->page.count_max = EXECUTIONS_A_PAGE;
    /* A margin for nodes whose clocks are ahead, so that their newest rows are on the first page.
     */
    list->page.before = uuid_v7_floor(clock_wall_us() / 1000 + CLOCK_MARGIN_MS);
    if (before.ptr && !uuid_parse(before, &list->page.before))
        return web_reply_problem(request, 404, SLICE("Not found"),
                                 SLICE("There is no page at this address."));
    list->filter.integration_id = web_query(request, "app");
    /* Another value is ignored, and the page shows all. */
    if (slice_eq_cstr(status, "succeeded") || slice_eq_cstr(status, "failed"))
        list->filter.status = status;
    request->state = list;
    load_list_page(request, list);
    return OP_WAIT;
}

static void write_app(slice id, slice name, bool is_chosen, struct buf *out)
{
    HTML(out,
         is_chosen ? "<option value=\"{}\" selected>{}</option>"
                   : "<option value=\"{}\">{}</option>",
         id, name);
}

/* All apps of the catalog, and the one that is filtered by if the catalog no longer has it. */
static void write_apps(struct web_request *request, slice chosen, struct buf *out)
{
    const struct catalog *catalog = *request->web->config.catalog;
    if (chosen.len > 0 && !catalog_find_integration(catalog, chosen))
        write_app(chosen, chosen, true, out);
    for (size_t i = 0; i < catalog->integration_count; i++) {
        const struct catalog_integration *app = catalog->integrations[i];
        write_app(app->integration_id, app->name, slice_eq(app->integration_id, chosen), out);
    }
}

static void write_execution_filter(struct web_request *request, const struct list_page *list,
                                   struct buf *out)
{
    static const char *const statuses[] = {"succeeded", "failed"};
    buf_append(out, SLICE("<form class=\"inline card\" method=\"get\" action=\"/executions\"><div>"
                          "<label for=\"app\">App</label><select id=\"app\" name=\"app\">"
                          "<option value=\"\">any</option>"));
    write_apps(request, list->filter.integration_id, out);
    buf_append(out, SLICE("</select></div><div><label for=\"status\">Status</label>"
                          "<select id=\"status\" name=\"status\"><option value=\"\">any</option>"));
    for (size_t i = 0; i < ARRAY_LEN(statuses); i++)
        HTML(out,
             slice_eq_cstr(list->filter.status, statuses[i]) ? "<option selected>{}</option>"
                                                             : "<option>{}</option>",
             slice_cstr(statuses[i]));
    buf_append(out, SLICE("</select></div><button>Show</button></form>"));
}

void web_write_action(struct web_request *request, const struct execution *execution,
                      struct buf *out)
{
    const struct catalog_integration *app =
        catalog_find_integration(*request->web->config.catalog, execution->integration_id);
    const struct catalog_action *action = app ? catalog_find_action(app, execution->action_id)
                                              : NULL;
    HTML(out, "{}: {}", app ? app->name : execution->integration_id,
         action ? action->title : execution->action_id);
}

void web_write_execution_row(struct web_request *request, const struct execution *execution,
                             struct buf *out)
{
    char id[UUID_TEXT_LEN + 1];
    uuid_format(execution->id, id);
    HTML(out, "<li class=\"row\"><div><h3><a href=\"/executions/{}\">", slice_cstr(id));
    web_write_action(request, execution, out);
    buf_append(out, SLICE("</a></h3><p class=\"soft\">"));
    html_time(out, execution->started_at);
    buf_append(out, SLICE("</p>"));
    if (!execution->is_succeeded) {
        /* The summary has the failure's message; a successful row needs no parsing. */
        const struct json *summary =
            json_parse(&request->op.arena, execution->summary, &json_limits_provider, NULL);
        HTML(out, "<p>{}</p>", json_get_str(summary, SLICE("message")));
    }
    buf_append(out, SLICE("</div>"));
    web_badge(out, execution->is_succeeded ? SLICE("succeeded") : SLICE("failed"));
    buf_append(out, SLICE("</li>"));
}

static void write_older(const struct list_page *list, struct uuid next, struct buf *out)
{
    char id[UUID_TEXT_LEN + 1];
    if (uuid_is_nil(next))
        return;
    uuid_format(next, id);
    HTML(out,
         "<p class=\"actions\"><a class=\"button\" href=\"/executions?before={}&amp;app={}&amp;"
         "status={}\">Older</a></p>",
         slice_cstr(id), list->filter.integration_id, list->filter.status);
}

static enum op_result finish_executions_page(struct web_request *request)
{
    struct list_page *list = request->state;
    struct execution *rows;
    struct uuid next;
    struct buf body;
    size_t count;
    int status = store_execution_list_result(&request->query, &rows, &count, &next);
    if (status != OK)
        return web_reply_database(request, status);
    if (count == 0 && !uuid_is_nil(next) && ++list->scans < SCANS_MAX) {
        list->page.before = next;
        load_list_page(request, list);
        return OP_WAIT;
    }
    buf_init(&body, WEB_PAGE_BYTES_MAX);
    write_execution_filter(request, list, &body);
    if (count == 0)
        buf_append(&body, SLICE("<p>No executions.</p>"));
    buf_append(&body, SLICE("<ul class=\"list\">"));
    for (size_t i = 0; i < count; i++)
        web_write_execution_row(request, &rows[i], &body);
    buf_append(&body, SLICE("</ul>"));
    write_older(list, next, &body);
    return web_reply_page(request, 200, SLICE("Executions"), &body);
}

const struct web_page web_executions = {.route = "/executions",
                                        .access = WEB_SESSION,
                                        .scope = SCOPE_READ,
                                        .begin = begin_executions_page,
                                        .finish = finish_executions_page};

/* ---- one ---- */

/* The row, then its summary if that is stored apart because of its size: cut to what a page shows.
 */
struct one {
    struct execution execution;
    struct exec_stored_read stored;
    bool is_row_read;
};

static void cancel_one(struct web_request *request)
{
    struct one *one = request->state;
    exec_stored_cancel(&one->stored);
}

static enum op_result begin_one(struct web_request *request)
{
    struct uuid id;
    /* web_path_uuid has sent a 404. */
    if (!web_path_uuid(request, 0, &id))
        return OP_DONE;
    request->state = ARENA_NEW(&request->op.arena, struct one);
    if (!request->state)
        return web_reply_database(request, ERR_NOMEM);
    request->on_cancel = cancel_one;
    store_execution_get(request->web->config.pool, &request->query, &request->op,
                        request->session.account_id, id);
    return OP_WAIT;
}

/* The outcome, in words. */
static void write_outcome(const struct json *summary, struct buf *out)
{
    slice code = json_get_str(summary, SLICE("error_code"));
    slice hint = json_get_str(summary, SLICE("hint"));
    if (code.len == 0) {
        HTML(out, "<p>{}</p>", json_get_str(JSON_GET(summary, "display"), SLICE("summary")));
        return;
    }
    HTML(out, "<p class=\"problem\"><strong>{}</strong>: {}", code,
         json_get_str(summary, SLICE("message")));
    if (hint.len > 0)
        HTML(out, " {}", hint);
    buf_append(out, SLICE("</p>"));
}

static void write_one(const struct execution *execution, const struct json *summary,
                      struct buf *out)
{
    const struct json *output = JSON_GET(summary, "output");
    buf_append(out, SLICE("<p role=\"status\">"));
    web_badge(out, execution->is_succeeded ? SLICE("succeeded") : SLICE("failed"));
    buf_append(out, SLICE("</p>"));
    write_outcome(summary, out);
    HTML(out,
         "<dl><dt>app</dt><dd><a href=\"/integrations/{}\">{}</a></dd><dt>action</dt><dd>{}</dd>",
         execution->integration_id, execution->integration_id, execution->action_id);
    if (execution->connection_id)
        buf_printf(out, "<dt>connection</dt><dd><a href=\"/connections/%lld\">%lld</a></dd>",
                   (long long)execution->connection_id, (long long)execution->connection_id);
    buf_append(out, SLICE("<dt>started</dt><dd>"));
    html_time(out, execution->started_at);
    buf_printf(out, "</dd><dt>took</dt><dd>%.1f ms</dd>",
               /* Timestamps are in microseconds; a page shows tenths of a millisecond. */
               (double)(execution->finished_at - execution->started_at) / 1000);
    HTML(out, "<dt>id</dt><dd><code>{}</code></dd></dl>",
         json_get_str(summary, SLICE("execution_id")));
    if (!execution->is_succeeded && (!output || output->type == JSON_NULL))
        return;
    buf_append(out, SLICE("<h2>Output</h2>"));
    /* The reader that cuts large summaries replaces the output by a preview and its full size. */
    if (execution->summary_bytes > STORE_SUMMARY_INLINE_BYTES && JSON_GET(output, "preview")) {
        buf_printf(out, "<p class=\"soft\">Shortened; the output has %lld bytes.</p>",
                   (long long)json_get_i64(output, SLICE("bytes"), 0));
        output = JSON_GET(output, "preview");
    }
    value_write_text(out, output, VALUE_TEXT_BYTES_MAX);
}

static enum op_result reply_one(struct web_request *request, const struct execution *execution)
{
    struct buf body;
    const struct json *summary =
        json_parse(&request->op.arena, execution->summary, &json_limits_provider, NULL);
    slice title = json_get_str(JSON_GET(summary, "display"), SLICE("title"));
    buf_init(&body, WEB_PAGE_BYTES_MAX);
    write_one(execution, summary, &body);
    return web_reply_page(request, 200, title.len > 0 ? title : SLICE("Execution"), &body);
}

static enum op_result finish_one(struct web_request *request)
{
    struct one *one = request->state;
    /* The first call has the row, the second one the summary. */
    int status = one->is_row_read ? one->stored.status
                                  : store_execution_get_result(&request->query, &one->execution);
    if (status == ERR_NOTFOUND)
        return web_reply_problem(request, 404, SLICE("Not found"),
                                 SLICE("There is no such execution."));
    if (status != OK)
        return web_reply_database(request, status);
    if (one->is_row_read) {
        one->execution.summary = one->stored.summary;
        /* Not in the row, so the summary is read from its own chunks, up to what the page shows. */
    } else if (!one->execution.summary.ptr) {
        struct exec_fit wanted = {.execution_id = one->execution.id,
                                  .bytes_max = VALUE_TEXT_BYTES_MAX};
        one->is_row_read = true;
        exec_stored_begin(exec_service_stored(request->web->config.exec), &one->stored,
                          &request->op, request->session.account_id, &wanted,
                          one->execution.summary_bytes);
        return OP_WAIT;
    }
    return reply_one(request, &one->execution);
}

const struct web_page web_execution = {.route = "/executions/{id}",
                                       .access = WEB_SESSION,
                                       .scope = SCOPE_READ,
                                       .begin = begin_one,
                                       .finish = finish_one};
