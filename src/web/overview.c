/*
 * The overview: what waits for a person, what failed lately, what is connected. Four
 * queries that run at the same time.
 */
#include "base/clock.h"
#include "store/connection.h"
#include "web/pages.h"

enum { ROWS_MAX = 8, CONNECTIONS_MAX = 24, RECENT_MS = 7 * 24 * 60 * 60 * 1000 };

struct overview {
    struct flow_page *waiting, *failed;
    struct pg_query connections; /* request->query: failed executions */
};

/* Of the waiting flows only those that wait for a person. */
static struct flow_page *start_flows(struct web_request *request, enum flow_status status)
{
    const struct flow_filter filter = {.account_id = request->session.account_id,
                                       .status = (int)status,
                                       .is_for_approval = status == FLOW_WAITING,
                                       .limit = ROWS_MAX};
    return flow_page_start_rows(request->web->config.flow, &filter, &request->op);
}

static enum op_result begin_overview(struct web_request *request)
{
    static const struct execution_filter failed = {.status = SLICE_INIT("failed")};
    struct overview *overview = ARENA_NEW(&request->op.arena, struct overview);
    struct pg_pool *pool = request->web->config.pool;
    int64_t now_ms = clock_wall_us() / 1000;
    /* A minute of margin for nodes whose clocks are ahead. */
    const struct store_page page = {.before = uuid_v7_floor(now_ms + 60000),
                                    .since = uuid_v7_floor(now_ms - RECENT_MS),
                                    .count_max = ROWS_MAX};
    if (!overview)
        return web_reply_database(request, ERR_BUSY);
    /* All four hold the op, so finish runs once, after the last. A list that could not be started
     * is NULL; finish answers with an error then. */
    request->state = overview;
    overview->waiting = start_flows(request, FLOW_WAITING);
    overview->failed = start_flows(request, FLOW_FAILED);
    store_execution_list(pool, &request->query, &request->op, request->session.account_id, &page,
                         &failed);
    store_connection_page(pool, &overview->connections, &request->op, request->session.account_id,
                          &(const struct connection_page){.count_max = CONNECTIONS_MAX + 1});
    return OP_WAIT;
}

/* ---- writing ---- */

static bool write_flows(const struct flow_page *page, const char *title, const char *none,
                        const char *more, struct buf *out)
{
    /* NULL: out of memory when it was started. */
    if (!page || page->status != OK)
        return false;
    ASSERT(page->count <= ROWS_MAX);
    HTML(out, "<h2>{}</h2>", slice_cstr(title));
    if (page->count == 0)
        HTML(out, "<p class=\"soft\">{}</p>", slice_cstr(none));
    buf_append(out, SLICE("<ul class=\"list\">"));
    for (size_t i = 0; i < page->count; i++)
        web_write_flow_row(out, &page->rows[i]);
    buf_append(out, SLICE("</ul>"));
    /* A full list may have more; the link costs nothing if not. */
    if (page->count == ROWS_MAX)
        HTML(out, "<p><a href=\"{}\">All of them</a></p>", slice_cstr(more));
    return true;
}

static bool write_executions(struct web_request *request, struct buf *out)
{
    struct execution *list;
    struct uuid next;
    size_t count;
    if (store_execution_list_result(&request->query, &list, &count, &next) != OK)
        return false;
    buf_append(out, SLICE("<h2>Executions that failed in the last seven days</h2>"));
    if (count == 0)
        buf_append(out, SLICE("<p class=\"soft\">None.</p>"));
    buf_append(out, SLICE("<ul class=\"list\">"));
    for (size_t i = 0; i < count; i++)
        web_write_execution_row(request, &list[i], out);
    buf_append(out, SLICE("</ul>"));
    /* The scan stopped before the end of the seven days, so there may be more. */
    if (!uuid_is_nil(next))
        buf_append(out, SLICE("<p><a href=\"/executions?status=failed\">All of them</a></p>"));
    return true;
}

static bool write_connections(struct web_request *request, const struct overview *overview,
                              struct buf *out)
{
    struct connection *list;
    size_t count;
    ASSERT(overview->connections.stmt);
    if (store_connection_list_result(&overview->connections, &list, &count) != OK)
        return false;
    buf_append(out, SLICE("<h2>Connected apps</h2>"));
    if (count == 0)
        buf_append(out, SLICE("<p class=\"soft\">None yet.</p>"));
    buf_append(out, SLICE("<ul class=\"list grid\">"));
    for (size_t i = 0; i < count && i < CONNECTIONS_MAX; i++)
        web_write_connection_row(request, &list[i], out);
    buf_append(out, SLICE("</ul>"));
    if (count > CONNECTIONS_MAX)
        buf_append(out, SLICE("<p><a href=\"/connections\">All of them</a></p>"));
    buf_append(out, SLICE("<p class=\"actions\"><a class=\"button\" "
                          "href=\"/integrations\">Connect an app</a></p>"
                          "<p><a href=\"/sign-out\">Sign out everywhere</a></p>"));
    return true;
}

static enum op_result finish_overview(struct web_request *request)
{
    struct overview *overview = request->state;
    struct buf body;
    buf_init(&body, WEB_PAGE_BYTES_MAX);
    /* Any part that failed fails the page: half an overview would read as "nothing waits". */
    bool is_whole = write_flows(overview->waiting, "Waiting for you",
                                "Nothing waits for a decision.", "/flows?status=approval", &body) &&
                    write_flows(overview->failed, "Flows that failed", "None.",
                                "/flows?status=failed", &body) &&
                    write_executions(request, &body) && write_connections(request, overview, &body);
    if (is_whole)
        return web_reply_page(request, 200, SLICE("Overview"), &body);
    buf_deinit(&body);
    return web_reply_database(request, ERR_BUSY);
}

const struct web_page web_overview = {.route = "/",
                                      .access = WEB_SESSION,
                                      .scope = SCOPE_READ,
                                      .begin = begin_overview,
                                      .finish = finish_overview};
