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

/* NULL: out of memory when it was started. */
static bool write_flows(struct json_writer *w, const char *key, const struct flow_page *page)
{
    if (!page || page->status != OK)
        return false;
    ASSERT(page->count <= ROWS_MAX);
    json_member_open(w, key, '[');
    for (size_t i = 0; i < page->count; i++)
        view_flow(w, &page->rows[i]);
    json_close(w, ']');
    return true;
}

static bool write_overview(struct web_request *request, struct json_writer *w)
{
    struct overview *overview = request->state;
    struct execution *executions;
    struct connection *connections;
    struct uuid next;
    size_t count, connection_count;
    ASSERT(overview->connections.stmt);
    if (!write_flows(w, "waiting", overview->waiting) ||
        !write_flows(w, "failed", overview->failed) ||
        store_execution_list_result(&request->query, &executions, &count, &next) != OK ||
        store_connection_list_result(&overview->connections, &connections, &connection_count) != OK)
        return false;
    json_member_open(w, "executions", '[');
    for (size_t i = 0; i < count; i++)
        view_execution(request, w, &executions[i]);
    json_close(w, ']');
    json_member_open(w, "connections", '[');
    for (size_t i = 0; i < connection_count && i < CONNECTIONS_MAX; i++)
        view_connection(request, w, &connections[i]);
    json_close(w, ']');
    json_member_open(w, "more", '{');
    /* A full list may have more; the link costs nothing if not. */
    json_member_bool(w, "waiting", overview->waiting->count == ROWS_MAX);
    json_member_bool(w, "failed", overview->failed->count == ROWS_MAX);
    /* The scan stopped before the end of the seven days, so there may be more. */
    json_member_bool(w, "executions", !uuid_is_nil(next));
    json_member_bool(w, "connections", connection_count > CONNECTIONS_MAX);
    json_close(w, '}');
    return true;
}

static enum op_result finish_overview(struct web_request *request)
{
    struct view view;
    /* Any part that failed fails the page: half an overview would read as "nothing waits". */
    if (write_overview(request, view_begin(&view)))
        return web_reply_view(request, 200, "overview", &view);
    view_drop(&view);
    return web_reply_database(request, ERR_BUSY);
}

const struct web_page web_overview = {.route = "/",
                                      .access = WEB_SESSION,
                                      .scope = SCOPE_READ,
                                      .begin = begin_overview,
                                      .finish = finish_overview};
