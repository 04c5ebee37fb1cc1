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

static void write_app_option(struct json_writer *w, slice id, slice name)
{
    json_open(w, '{');
    json_member_str(w, "id", id);
    json_member_str(w, "name", name);
    json_close(w, '}');
}

/* All apps of the catalog, and the one that is filtered by if the catalog no longer has it. */
static void write_apps(struct web_request *request, struct json_writer *w, slice chosen)
{
    const struct catalog *catalog = *request->web->config.catalog;
    json_member_open(w, "apps", '[');
    if (chosen.len > 0 && !catalog_find_integration(catalog, chosen))
        write_app_option(w, chosen, chosen);
    for (size_t i = 0; i < catalog->integration_count; i++)
        write_app_option(w, catalog->integrations[i]->integration_id,
                         catalog->integrations[i]->name);
    json_close(w, ']');
}

/* Where the catalog has the app or the action no more, the ids are their names. */
void view_execution(struct web_request *request, struct json_writer *w,
                    const struct execution *execution)
{
    const struct catalog_integration *app =
        catalog_find_integration(*request->web->config.catalog, execution->integration_id);
    const struct catalog_action *action = app ? catalog_find_action(app, execution->action_id)
                                              : NULL;
    /* The summary has the failure's message; a successful row needs no parsing. */
    const struct json *summary =
        execution->is_succeeded
            ? NULL
            : json_parse(&request->op.arena, execution->summary, &json_limits_provider, NULL);
    json_open(w, '{');
    view_id(w, "execution_id", execution->id);
    json_member_str(w, "app", app ? app->name : execution->integration_id);
    json_member_str(w, "action", action ? action->title : execution->action_id);
    json_member_str(w, "status", execution->is_succeeded ? SLICE("succeeded") : SLICE("failed"));
    json_member_str(w, "message", json_get_str(summary, SLICE("message")));
    view_time(w, "started_at", execution->started_at);
    json_close(w, '}');
}

static enum op_result finish_executions_page(struct web_request *request)
{
    struct list_page *list = request->state;
    struct execution *rows;
    struct uuid next;
    struct view view;
    size_t count;
    int status = store_execution_list_result(&request->query, &rows, &count, &next);
    if (status != OK)
        return web_reply_database(request, status);
    if (count == 0 && !uuid_is_nil(next) && ++list->scans < SCANS_MAX) {
        list->page.before = next;
        load_list_page(request, list);
        return OP_WAIT;
    }
    struct json_writer *w = view_begin(&view);
    write_apps(request, w, list->filter.integration_id);
    json_member_str(w, "app", list->filter.integration_id);
    json_member_str(w, "status", list->filter.status);
    json_member_open(w, "executions", '[');
    for (size_t i = 0; i < count; i++)
        view_execution(request, w, &rows[i]);
    json_close(w, ']');
    if (uuid_is_nil(next))
        json_member_str(w, "older", SLICE_NONE);
    else
        view_id(w, "older", next);
    return web_reply_view(request, 200, "executions", &view);
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

static void write_output(const struct execution *execution, const struct json *summary,
                         struct json_writer *w)
{
    const struct json *output = JSON_GET(summary, "output");
    bool is_none = !output || output->type == JSON_NULL;
    /* The reader that cuts large summaries replaces the output by a preview and its full size. */
    bool is_cut = execution->summary_bytes > STORE_SUMMARY_INLINE_BYTES &&
                  JSON_GET(output, "preview");
    json_member_i64(w, "output_bytes", is_cut ? json_get_i64(output, SLICE("bytes"), 0) : 0);
    if (is_none && !execution->is_succeeded)
        json_member_str(w, "output", SLICE_NONE);
    else
        value_view_text(w, "output", is_cut ? JSON_GET(output, "preview") : output,
                        VALUE_TEXT_BYTES_MAX);
}

static enum op_result reply_one(struct web_request *request, const struct execution *execution)
{
    struct arena *arena = &request->op.arena;
    const struct json *summary = json_parse(arena, execution->summary, &json_limits_provider, NULL);
    const struct json *display = JSON_GET(summary, "display");
    struct view view;
    struct json_writer *w = view_begin(&view);
    json_member_str(w, "title", json_get_str(display, SLICE("title")));
    json_member_str(w, "status", execution->is_succeeded ? SLICE("succeeded") : SLICE("failed"));
    json_member_str(w, "error_code", json_get_str(summary, SLICE("error_code")));
    json_member_str(w, "message", json_get_str(summary, SLICE("message")));
    json_member_str(w, "hint", json_get_str(summary, SLICE("hint")));
    json_member_str(w, "summary", json_get_str(display, SLICE("summary")));
    json_member_str(w, "integration_id", execution->integration_id);
    json_member_str(w, "action_id", execution->action_id);
    json_member_str(w, "connection_id",
                    execution->connection_id
                        ? arena_printf(arena, "%lld", (long long)execution->connection_id)
                        : SLICE_NONE);
    view_time(w, "started_at", execution->started_at);
    /* Timestamps are in microseconds; a page shows tenths of a millisecond. */
    json_member_str(w, "took",
                    arena_printf(arena, "%.1f",
                                 (double)(execution->finished_at - execution->started_at) / 1000));
    json_member_str(w, "execution_id", json_get_str(summary, SLICE("execution_id")));
    write_output(execution, summary, w);
    return web_reply_view(request, 200, "execution", &view);
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
