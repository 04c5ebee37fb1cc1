/*
 * The overview: what needs a person, how the flows stand, calls and what fails, what is connected;
 * at first, what to begin with. Five queries that run at the same time.
 */
#include "base/clock.h"
#include "store/connection.h"
#include "store/flow_inbox.h"
#include "web/flow_decision.h"
#include "web/overview_stats.h"

enum {
    ROWS_MAX = 8,
    CONNECTIONS_MAX = 16,
    DAY_MS = 24 * 60 * 60 * 1000,
};

struct overview {
    struct flow_page *latest; /* NULL: out of memory when it was started */
    struct flow_inbox_row *inbox;
    struct flow_counts counts;
    struct connection *connections;
    size_t inbox_count, connection_count;
    struct overview_stats stats;
    struct pg_query inbox_query, counts_query, connections_query;
};

/* ---- writing ---- */

static void write_flows(struct json_writer *w, const struct flow_page *page)
{
    ASSERT(page->count <= ROWS_MAX);
    json_member_open(w, "flows", '[');
    for (size_t i = 0; i < page->count; i++)
        view_flow(w, &page->rows[i]);
    json_close(w, ']');
}

static void write_count(struct json_writer *w, const char *key, int64_t count)
{
    json_member_open(w, key, '{');
    json_member_i64(w, "count", count);
    json_member_bool(w, "is_cut", count == FLOW_COUNT_MAX);
    json_close(w, '}');
}

static void write_counts(struct json_writer *w, const struct flow_counts *counts)
{
    write_count(w, "running", counts->running);
    write_count(w, "parked", counts->waiting);
    write_count(w, "completed", counts->completed);
    write_count(w, "failed", counts->failed);
}

/* What one begins with, and whether it was done. */
static void write_begun(struct json_writer *w, const struct overview *overview)
{
    json_member_open(w, "begun", '{');
    json_member_bool(w, "connection", overview->connection_count > 0);
    json_member_bool(w, "execution", overview->counts.has_execution);
    json_member_bool(w, "flow", overview->latest->count > 0);
    json_member_bool(w, "keys", overview->counts.has_keys);
    json_close(w, '}');
}

/* Those that ended stand first. */
static void write_ended(struct web_request *request, struct json_writer *w,
                        const struct overview *overview)
{
    const struct connection *list = overview->connections;
    size_t count = 0;
    json_member_open(w, "ended", '[');
    for (; count < overview->connection_count && count < CONNECTIONS_MAX &&
           list[count].status == CONNECTION_REAUTH_REQUIRED;
         count++)
        view_connection(request, w, &list[count]);
    json_close(w, ']');
    json_member_bool(w, "is_cut",
                     count < overview->connection_count &&
                         list[count].status == CONNECTION_REAUTH_REQUIRED);
}

static void write_overview(struct web_request *request, const struct overview *overview,
                           struct json_writer *w)
{
    json_member_open(w, "waiting", '[');
    for (size_t i = 0; i < overview->inbox_count; i++)
        view_waiting(request, w, &overview->inbox[i]);
    json_close(w, ']');
    write_flows(w, overview->latest);
    write_counts(w, &overview->counts);
    write_begun(w, overview);
    overview_stats_write(request, w, &overview->stats);
    overview_apps_write(request, w, &overview->stats, overview->connections,
                        overview->connection_count);
    write_ended(request, w, overview);
}

static void start_latest(struct web_request *request, struct overview *overview)
{
    const struct flow_filter latest = {
        .account_id = request->session.account_id, .status = -1, .limit = ROWS_MAX};
    overview->latest = flow_page_start_rows(request->web->config.flow, &latest, &request->op);
}

static enum op_result finish_overview(struct web_request *request)
{
    struct overview *it = request->state;
    if (overview_stats_goes_on(&it->stats)) {
        start_latest(request, it); /* the former's memory goes with this turn */
        return web_wait(request, finish_overview);
    }
    int status = it->latest ? it->latest->status : ERR_NOMEM;
    if (status == OK)
        status = store_flow_inbox_result(&it->inbox_query, &it->inbox, &it->inbox_count);
    if (status == OK)
        status = store_flow_counts_result(&it->counts_query, &it->counts);
    if (status == OK)
        status = overview_stats_result(&it->stats);
    if (status == OK)
        status = store_connection_list_result(&it->connections_query, &it->connections,
                                              &it->connection_count);
    /* Any part that failed fails the page: half an overview would read as "nothing waits". */
    if (status != OK)
        return web_reply_database(request, status);
    write_overview(request, it, view_begin(request));
    return web_reply_view(request, 200, "overview");
}

enum op_result web_overview(struct web_request *request)
{
    struct overview *overview = ARENA_NEW(&request->op.arena, struct overview);
    struct pg_pool *pool = request->web->config.pool;
    struct uuid account_id = request->session.account_id;
    int64_t now_ms = clock_wall_us() / 1000;
    if (!overview)
        return web_reply_database(request, ERR_NOMEM);
    /* All hold the op, so finish runs once, after the last. */
    request->state = overview;
    start_latest(request, overview);
    store_flow_inbox(pool, &overview->inbox_query, &request->op, account_id,
                     &(const struct flow_inbox_part){.count_max = ROWS_MAX});
    store_flow_counts(pool, &overview->counts_query, &request->op, account_id,
                      uuid_v7_floor(now_ms - DAY_MS));
    overview_stats_begin(request, &overview->stats);
    store_connection_ended(pool, &overview->connections_query, &request->op, account_id,
                           CONNECTIONS_MAX + 1);
    return web_wait(request, finish_overview);
}
