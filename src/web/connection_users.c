/*
 * The users of a connection, read in parts, each a bounded read by a key. The chart counts
 * calls by app, not by connection; the page says so.
 */
#include "web/connection_users.h"

#include "base/clock.h"
#include "store/connection.h"
#include "web/chart.h"

enum { HOURS = 24 };

void connection_users_begin(struct web_request *request, struct connection_users *use,
                            const struct catalog *catalog, const struct connection *row,
                            int64_t flows_max)
{
    struct pg_pool *pool = request->web->config.pool;
    struct flow_service *flow = request->web->config.flow;
    struct flow_filter filter = {
        .account_id = request->session.account_id, .limit = flows_max, .with_input = true};
    int64_t now = clock_shared_us();
    bool is_range = tally_range_of(HOURS, now, &use->range);
    ASSERT(is_range);
    use->flows_max = flows_max;
    /* A flow needs the connection if it names it, or names none and this is the default one. */
    use->need = (struct flow_need){.catalog = catalog,
                                   .integration_id = row->integration_id,
                                   .connection_id = row->id,
                                   .is_default = row->is_default};
    /* There are two lists, since a filter has one status. */
    filter.status = FLOW_RUNNING;
    use->running = flow_page_start_needing(flow, &filter, &use->need, request->serve.policy,
                                           &request->serve.op);
    filter.status = FLOW_WAITING;
    use->waiting = flow_page_start_needing(flow, &filter, &use->need, request->serve.policy,
                                           &request->serve.op);
    store_app_keys(pool, &use->keys, &request->serve.op, filter.account_id, row->id,
                   serve_payer(&request->serve));
    store_app_use(pool, &use->calls, &request->serve.op, filter.account_id, row->integration_id,
                  &use->range, now);
}

int connection_users_result(struct connection_users *use)
{
    if (!use->running || !use->waiting)
        return ERR_NOMEM;
    int status = use->running->status;
    if (status == OK)
        status = use->waiting->status;
    if (status == OK)
        status = store_app_keys_result(&use->keys, &use->key_list, &use->key_count);
    if (status == OK)
        status = store_app_use_result(&use->calls, &use->sums, &use->sum_count);
    return status;
}

/* ---- writing ---- */

static void write_flows(struct json_writer *w, const char *key, const struct flow_page *page)
{
    json_member_open(w, key, '[');
    for (size_t i = 0; i < page->count; i++)
        view_flow(w, &page->rows[i]);
    json_close(w, ']');
}

void connection_users_flows(struct json_writer *w, const struct connection_users *use)
{
    size_t max = (size_t)use->flows_max;
    bool may_be_more = use->running->examined == max || use->waiting->examined == max;
    write_flows(w, "running", use->running);
    write_flows(w, "waiting", use->waiting);
    json_member_i64(w, "count", (int64_t)(use->running->count + use->waiting->count));
    json_member_i64(w, "examined", may_be_more ? use->flows_max : 0);
}

void connection_users_keys(struct json_writer *w, const struct connection_users *use)
{
    json_member_open(w, "keys", '[');
    for (size_t i = 0; i < use->key_count; i++) {
        if (uuid_is_nil(use->key_list[i].id))
            continue;
        json_open(w, '{');
        view_id(w, "id", use->key_list[i].id);
        json_member_str(w, "app_id", use->need.integration_id);
        json_member_str(w, "name",
                        use->key_list[i].name.ptr ? use->key_list[i].name : SLICE("a deleted key"));
        json_member_i64(w, "calls", use->key_list[i].calls);
        json_close(w, '}');
    }
    json_close(w, ']');
}

static void write_counts(struct json_writer *w, const struct connection_users *use)
{
    int64_t calls = 0, failed = 0;
    for (size_t i = 0; i < use->key_count; i++) {
        calls += use->key_list[i].calls;
        failed += use->key_list[i].failed;
    }
    json_member_i64(w, "calls", calls);
    json_member_i64(w, "failed", failed);
    json_member_i64(w, "newest", APP_USE_NEWEST);
}

/* Writes the templates with a step that calls the app. */
static void write_users(struct web_request *request, struct json_writer *w, slice integration_id)
{
    const struct flow_template_set *set = *request->web->config.templates;
    json_member_open(w, "templates", '[');
    for (size_t i = 0; i < set->count; i++) {
        const struct flow_template *tmpl = set->items[i];
        bool is_user = false;
        for (size_t j = 0; j < tmpl->step_count && !is_user; j++) {
            const struct catalog_action *action =
                tmpl->steps[j].type == FLOW_TOOL_CALL
                    ? catalog_find_tool(*request->web->config.catalog, tmpl->steps[j].tool)
                    : NULL;
            is_user = action && slice_eq(action->integration->integration_id, integration_id);
        }
        if (!is_user || !web_gives_flow(request, tmpl->key))
            continue;
        json_open(w, '{');
        json_member_str(w, "key", tmpl->key);
        json_member_str(w, "name", tmpl->name);
        json_close(w, '}');
    }
    json_close(w, ']');
}

/* Adds up the hours with calls. */
static void write_use_chart(struct json_writer *w, const struct connection_users *use)
{
    struct chart_column columns[HOURS] = {0};
    int64_t step_us = use->range.step_s * 1000000;
    for (size_t i = 0; i < HOURS; i++)
        columns[i].at = use->range.since + (int64_t)i * step_us;
    for (size_t i = 0; i < use->sum_count; i++) {
        const struct tally_sum *sum = &use->sums[i];
        int64_t at = (sum->at - use->range.since) / step_us;
        if (at >= 0 && at < HOURS)
            columns[at] = (struct chart_column){sum->at, sum->succeeded, sum->failed, sum->blocked};
    }
    chart_write(w, "chart", columns, HOURS, use->range.step_s);
}

void connection_users_view(struct web_request *request, struct json_writer *w,
                           const struct connection_users *use)
{
    slice id = use->need.integration_id;
    const struct catalog_integration *app = catalog_find_integration(use->need.catalog, id, NULL);
    json_member_open(w, "use", '{');
    json_member_str(w, "app_id", id);
    json_member_str(w, "app", app ? app->name : id);
    write_use_chart(w, use);
    connection_users_flows(w, use);
    write_users(request, w, id);
    connection_users_keys(w, use);
    write_counts(w, use);
    json_close(w, '}');
}
