/*
 * The list of flows, with the number of flows in each state.
 */
#include "base/clock.h"
#include "web/flow_decision.h"

enum {
    FLOWS_A_PAGE = 25,
    COUNTED_MS = 24 * 60 * 60 * 1000 /* how far back ended flows are counted */
};

/* In the order of enum flow_status. To people a rejected flow is in a state of its own; the API
 * reports it as cancelled. */
#define STATUSES "running waiting completed failed cancelled rejected"
enum { STATUS, TEMPLATE, Q, STATUS_REJECTED = FLOW_CANCELLED + 1, STATUS_APPROVAL };
static const struct serve_filter filters[SERVE_FILTERS_MAX] = {
    /* The last choice is for waiting flows that need an approval. */
    [STATUS] = {.name = "status", .words = STATUSES " approval"},
    [TEMPLATE] = {.name = "template", .wanted = "the key of a template"},
    [Q] = {.name = "q", SERVE_A_SEARCH},
    {.name = "before", .kind = SERVE_CURSOR}};

/* ---- the list ---- */

slice view_flow_status(enum flow_status status, bool is_rejected)
{
    return is_rejected ? SLICE("rejected") : slice_cstr(flow_status_name(status));
}

void view_flow(struct json_writer *w, const struct flow_row *flow)
{
    static const slice waits[] = {[FLOW_WAITS_NOT] = SLICE_INIT(""),
                                  [FLOW_WAITS_TIME] = SLICE_INIT("time"),
                                  [FLOW_WAITS_APPROVAL] = SLICE_INIT("approval"),
                                  [FLOW_WAITS_RETRY] = SLICE_INIT("retry")};
    json_open(w, '{');
    view_id(w, "id", flow->id);
    json_member_str(w, "title", flow->title);
    json_member_str(w, "name", flow->name);
    json_member_str(w, "status", view_flow_status(flow->status, flow->is_rejected));
    json_member_str(w, "asker", flow->asker);
    json_member_str(w, "waits_for", waits[flow->waiting_for]);
    view_time(w, "until_at", flow->ends_at);
    json_member_str(w, "step", flow->step_title);
    json_member_i64(w, "number", (int64_t)flow->step);
    json_member_i64(w, "count", (int64_t)flow->step_count);
    view_time(w, "updatedAt", flow->updated_at);
    json_close(w, '}');
}

/* ---- how many there are ---- */

/* Of a session without a policy it is one statement. */
void flow_counts_begin(struct web_request *request, struct flow_counted *counted)
{
    struct uuid account_id = request->session.account_id;
    struct uuid since = uuid_v7_floor(clock_shared_us() / 1000 - COUNTED_MS);
    store_flow_counts(request->web->config.pool, &counted->query, &request->serve.op, account_id,
                      since);
    if (request->serve.policy)
        counted->given = flow_given_start(request->web->config.flow, account_id, since,
                                          request->serve.policy, &request->serve.op);
}

int flow_counts_result(const struct web_request *request, struct flow_counted *counted)
{
    const struct flow_given *given = counted->given;
    int status = store_flow_counts_result(&counted->query, &counted->counts);
    if (status != OK || !request->serve.policy)
        return status;
    if (!given)
        return ERR_NOMEM;
    counted->counts.running = given->counts.running;
    counted->counts.waiting = given->counts.waiting;
    counted->counts.completed = given->counts.completed;
    counted->counts.failed = given->counts.failed;
    return given->status;
}

void view_flow_count(struct json_writer *w, const char *key, int64_t count)
{
    json_member_open(w, key, '{');
    json_member_i64(w, "count", count);
    json_member_bool(w, "is_cut", count == FLOW_COUNT_MAX);
    json_close(w, '}');
}

struct flows_page {
    struct flow_page *list; /* NULL if there was no memory when the query was started */
    struct flow_counted counted;
};

static enum op_result finish_flows_page(struct web_request *request)
{
    struct flows_page *whole = request->state;
    const struct flow_page *page = whole->list;
    const struct flow_counts *counts = &whole->counted.counts;
    int read = page ? page->status : ERR_NOMEM;
    if (read == OK)
        read = flow_counts_result(request, &whole->counted);
    if (read != OK)
        return web_reply_database(request, read);
    ASSERT(page->count <= FLOWS_A_PAGE);
    struct json_writer *w = view_begin(request);
    view_flow_count(w, "running", counts->running);
    view_flow_count(w, "waiting", counts->waiting);
    view_flow_count(w, "completed", counts->completed);
    view_flow_count(w, "failed", counts->failed);
    json_member_open(w, "flows", '[');
    for (size_t i = 0; i < page->count; i++)
        view_flow(w, &page->rows[i]);
    json_close(w, ']');
    json_member_words(w, "statuses", SLICE(STATUSES));
    json_member_str(w, "status", web_query(request, "status"));
    view_templates(request, w);
    json_member_str(w, "template", web_query(request, "template"));
    json_member_str(w, "q", web_query(request, "q"));
    json_member_str(w, "before", web_query(request, "before"));
    /* If a template has few flows, a page reads only a limited number of rows, and "Older"
     * continues. */
    view_pager(request, w, page->older);
    return web_reply_view(request, 200, "flows");
}

enum op_result web_flows(struct web_request *request)
{
    struct serve_list list = {0};
    struct flows_page *page = web_state_new(request, sizeof(*page));
    if (!page || !web_list_read(request, &list, filters, FLOWS_A_PAGE))
        return OP_DONE;
    int status = list.choices[STATUS];
    serve_list_narrow(&list);
    const struct flow_filter filter = {
        .account_id = request->session.account_id,
        .payer_id = serve_payer(&request->serve),
        .status = status == STATUS_APPROVAL   ? FLOW_WAITING
                  : status == STATUS_REJECTED ? FLOW_CANCELLED
                                              : status,
        .state = status == STATUS_REJECTED || status == FLOW_CANCELLED
                     ? web_query(request, "status")
                     : SLICE_NONE,
        .is_for_approval = status == STATUS_APPROVAL,
        .template_key = list.values[TEMPLATE],
        .words = serve_list_plain(&list, Q, &request->serve.op.arena),
        .id = list.id,
        .before = list.page.before,
        .limit = FLOWS_A_PAGE,
    };
    page->list = flow_page_start_rows(request->web->config.flow, &filter, request->serve.policy,
                                      &request->serve.op);
    flow_counts_begin(request, &page->counted);
    return web_wait(request, finish_flows_page);
}
