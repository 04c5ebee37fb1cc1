/*
 * The overview: what needs a person, the states of flows, calls and failures, connections and, for
 * a new account, the first steps. Five queries run at the same time.
 */
#include "serve/foresee.h"
#include "store/connection.h"
#include "store/flow_inbox.h"
#include "web/chart.h"
#include "web/flow_decision.h"
#include "web/overview_stats.h"

enum {
    ROWS_MAX = 6, /* of each list: the first visit has a limit of bytes, a phone of screens */
    CONNECTIONS_MAX = 16,
};

struct overview {
    struct flow_page *latest; /* NULL if there was no memory when the query was started */
    struct flow_inbox_row *inbox;
    struct flow_counted counted;
    struct connection *connections;
    size_t inbox_count, connection_count;
    struct call_stats stats;
    struct pg_query inbox_query, connections_query;
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

static void write_counts(struct json_writer *w, const struct flow_counts *counts)
{
    view_flow_count(w, "running", counts->running);
    view_flow_count(w, "parked", counts->waiting);
    view_flow_count(w, "completed", counts->completed);
    view_flow_count(w, "failed", counts->failed);
}

/* Selects a read to try, with an example: of the first connected app, else of the mail app. */
static const struct catalog_action *first_read(struct web_request *request,
                                               const struct overview *overview)
{
    enum { EXAMINED_MAX = 20 };
    struct arena *arena = &request->serve.op.arena;
    const struct catalog_integration *app = catalog_find_integration(
        *request->web->config.catalog,
        overview->connection_count > 0 ? overview->connections[0].integration_id : SLICE("gmail"),
        NULL);
    const struct json *ids =
        app ? json_parse(arena, app->capabilities_json, &json_limits_provider, NULL) : NULL;
    const struct catalog_action *found = NULL;
    size_t count = json_is(ids, JSON_ARRAY) ? ids->count : 0;
    for (size_t i = 0; i < count && i < EXAMINED_MAX; i++) {
        const struct catalog_action *action =
            catalog_find_action(app, json_str(&ids->as.items[i]), NULL);
        if (!action || !serve_lists(&request->serve, action) || action->level != LEVEL_READ ||
            !action->examples || action->examples->count == 0)
            continue;
        /* The example works unchanged if it needs no id that belongs to the reader. */
        const struct json *required = JSON_GET(action->input_schema, "required");
        if (!json_is(required, JSON_ARRAY) || required->count == 0)
            return action;
        found = found ? found : action;
    }
    return found;
}

/* Writes "Gmail as sam@example.com" and the like, for the first few connections. */
static void write_connected(struct web_request *request, struct json_writer *w,
                            const struct overview *overview)
{
    enum { LISTED_MAX = 3 };
    json_member_open(w, "connected", '[');
    for (size_t i = 0; i < overview->connection_count && i < LISTED_MAX; i++) {
        const struct connection *row = &overview->connections[i];
        const struct catalog_integration *app =
            catalog_find_integration(*request->web->config.catalog, row->integration_id, NULL);
        slice name = app ? app->name : row->integration_id;
        json_put_str(w, slice_eq(name, row->label)
                            ? name
                            : arena_printf(&request->serve.op.arena, "%.*s as %.*s",
                                           SLICE_ARG(name), SLICE_ARG(row->label)));
    }
    json_close(w, ']');
}

/* Writes the first steps, and whether they are done; signing in is the first of five. They are
 * hidden once the account is in use, with as many flows as the page lists. */
static void write_begun(struct web_request *request, struct json_writer *w,
                        const struct overview *overview)
{
    const struct flow_counts *counts = &overview->counted.counts;
    bool has_connection = overview->connection_count > 0, has_flow = overview->latest->count > 0;
    const struct catalog_action *action = counts->has_execution ? NULL
                                                                : first_read(request, overview);
    json_member_open(w, "begun", '{');
    json_member_bool(w, "is_over",
                     overview->latest->count == ROWS_MAX ||
                         (has_connection && counts->has_execution && has_flow && counts->has_keys));
    json_member_bool(w, "connection", has_connection);
    json_member_bool(w, "execution", counts->has_execution);
    json_member_bool(w, "flow", has_flow);
    json_member_bool(w, "keys", counts->has_keys);
    json_member_i64(w, "done",
                    1 + has_connection + counts->has_execution + has_flow + counts->has_keys);
    write_connected(request, w, overview);
    if (action)
        view_action_curl(request, w, action->integration->integration_id, action->action_id,
                         view_example(action));
    else
        json_member_str(w, "curl", SLICE_NONE);
    json_close(w, '}');
}

/* Writes an ended connection, as todo_connection.html declares it. */
static void write_one_ended(struct web_request *request, struct json_writer *w,
                            const struct connection *row, const struct call_stats *stats)
{
    const struct catalog_integration *app =
        catalog_find_integration(*request->web->config.catalog, row->integration_id, NULL);
    int64_t blocked = overview_refused(stats, row->integration_id);
    json_open(w, '{');
    json_member_str(w, "id", arena_printf(&request->serve.op.arena, "%lld", (long long)row->id));
    json_member_str(w, "app", app ? app->name : row->integration_id);
    view_app_mark_of(request, w, row->integration_id);
    json_member_str(w, "label", row->label);
    json_member_str(w, "error", row->error);
    if (blocked > 0)
        chart_member_number(w, "blocked", blocked);
    else
        json_member_str(w, "blocked", SLICE_NONE);
    json_member_str(w, "period", call_stats_period(stats));
    json_close(w, '}');
}

/* Writes the ended connections, which come first in the list. */
static void write_ended(struct web_request *request, struct json_writer *w,
                        const struct overview *overview)
{
    const struct connection *list = overview->connections;
    size_t count = 0;
    json_member_open(w, "ended", '[');
    for (; count < overview->connection_count && count < CONNECTIONS_MAX &&
           list[count].status == CONNECTION_REAUTH_REQUIRED;
         count++)
        write_one_ended(request, w, &list[count], &overview->stats);
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
    write_counts(w, &overview->counted.counts);
    write_begun(request, w, overview);
    call_stats_write(request, w, &overview->stats, SLICE("/"));
    overview_errors_write(request, w, &overview->stats);
    overview_apps_write(request, w, &overview->stats, overview->connections,
                        overview->connection_count);
    write_ended(request, w, overview);
    json_member_raw(w, "failing",
                    overview->counted.counts.failing_webhooks.ptr
                        ? overview->counted.counts.failing_webhooks
                        : SLICE("[]"));
}

static void start_latest(struct web_request *request, struct overview *overview)
{
    const struct flow_filter latest = {
        .account_id = request->session.account_id, .status = -1, .limit = ROWS_MAX};
    overview->latest = flow_page_start_rows(request->web->config.flow, &latest,
                                            request->serve.policy, &request->serve.op);
}

static enum op_result finish_overview(struct web_request *request)
{
    struct overview *it = request->state;
    if (call_stats_continues(&it->stats)) {
        start_latest(request, it); /* the memory of the previous stats is freed with this turn */
        return web_wait(request, finish_overview);
    }
    int status = it->latest ? it->latest->status : ERR_NOMEM;
    if (status == OK)
        status = store_flow_inbox_result(&it->inbox_query, &it->inbox, &it->inbox_count);
    if (status == OK)
        status = flow_counts_result(request, &it->counted);
    if (status == OK)
        status = call_stats_result(&it->stats);
    if (status == OK)
        status = store_connection_list_result(&it->connections_query, &it->connections,
                                              &it->connection_count);
    /* If any part fails, the page fails: half an overview would suggest that nothing waits for a
     * decision. */
    if (status != OK)
        return web_reply_database(request, status);
    write_overview(request, it, view_begin(request));
    return web_reply_view(request, 200, "overview");
}

enum op_result web_overview(struct web_request *request)
{
    struct overview *overview = web_state_new(request, sizeof(*overview));
    struct pg_pool *pool = request->web->config.pool;
    struct uuid account_id = request->session.account_id;
    if (!overview)
        return OP_DONE;
    /* All queries hold the op, so finish runs once, after the last. */
    start_latest(request, overview);
    store_flow_inbox(pool, &overview->inbox_query, &request->serve.op, account_id,
                     &(const struct flow_inbox_filter){.payer_id = account_id,
                                                       .given = web_given_flows(request),
                                                       .count_max = ROWS_MAX});
    flow_counts_begin(request, &overview->counted);
    call_stats_begin(request, &overview->stats, SLICE_NONE);
    store_connection_ended(pool, &overview->connections_query, &request->serve.op, account_id,
                           CONNECTIONS_MAX + 1);
    return web_wait(request, finish_overview);
}
