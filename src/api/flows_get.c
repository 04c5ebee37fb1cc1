/*
 * Reading flows: GET /api/flows/{id}, which may wait for a change (a long poll), and GET /api/flows
 * (src/api/README.md "Flows").
 *
 * A long poll alternates between a load and a sleep until its view is an answer. A timer ends each
 * sleep at the client's time; on_change and on_refused store a fact and wake it earlier.
 */
#include <stdio.h>

#include "api/flow_path.h"

enum { LIST_LIMIT = 20, LIST_LIMIT_MAX = 100 };

/* ---- GET /api/flows/{id} ---- */

struct get {
    struct uuid id;
    struct flow_load *load; /* under way, or just done; NULL: the op slept */
    struct flow_view *view; /* the newest one so far: a reference */
    struct flow_watch watch;
    struct op_timer timer;
    uint64_t until_ns; /* 0: it does not wait */
    int64_t first_rev; /* of the first view, which the wait is for a change of; 0: none yet */
    bool is_notified;  /* of a change, while the op did not sleep */
    struct vault_guard guard;
    bool is_refused; /* the key, while it waited */
    struct api_request *request;
};

static void on_refused(struct vault_guard *guard)
{
    struct get *get = CONTAINER_OF(guard, struct get, guard);
    get->is_refused = true;
    op_sleep_stop(&get->timer);
}

static void on_change(struct flow_watch *watch)
{
    struct get *get = CONTAINER_OF(watch, struct get, watch);
    get->is_notified = true;
    op_sleep_stop(&get->timer);
}

/* Before each answer, and when the client has gone: callbacks must not reach an op that ends. */
static void release(struct get *get)
{
    flow_watch_remove(&get->watch);
    vault_guard_stop(&get->guard);
    flow_view_unref(get->view);
    get->view = NULL;
}

static enum op_result start_view_load(struct api_request *request, struct get *get)
{
    get->is_notified = false;
    get->load = flow_load_start_view(request->api->config.flow, request->grant.account_id, get->id,
                                     &request->op);
    if (get->load)
        return OP_WAIT;
    release(get);
    return api_reply_database(request, ERR_BUSY);
}

static enum op_result wait_for_change(struct api_request *request, struct get *get)
{
    uint64_t left_ns = get->until_ns - loop_now_ns(request->op.loop);
    op_sleep(&request->op, &get->timer, left_ns / 1000000 + 1, "a change of the flow");
    return OP_WAIT;
}

/* ?until=change (what is waited for by default) or settled: until it runs no more. */
static bool read_until(struct api_request *request, bool *is_until_settled)
{
    slice until = api_query_text(request, "until");
    *is_until_settled = slice_eq_cstr(until, "settled");
    if (!until.ptr || *is_until_settled || slice_eq_cstr(until, "change"))
        return true;
    (void)api_reply_error(request, 400, "until must be change or settled");
    return false;
}

/* Where this process runs the flow, its revision is known without a query. A client that waits for
 * a later one sleeps at once. */
static bool knows_enough(struct api_request *request, struct get *get)
{
    slice wanted = http_request_header(request->exchange, SLICE("If-None-Match"));
    int64_t rev;
    if (get->until_ns == 0 || http_server_is_draining(request->exchange->server) ||
        !flow_is_running_here(request->api->config.flow, request->grant.account_id, get->id, &rev))
        return false;
    if (!get->watch.is_until_settled && wanted.ptr &&
        !api_has_etag(request, api_flow_etag(request, rev)))
        return false;
    get->watch.rev = get->first_rev = rev;
    return true;
}

static enum op_result begin_flow_get(struct api_request *request)
{
    struct get *get = ARENA_NEW(&request->op.arena, struct get);
    uint64_t wait_s;
    struct uuid id;
    bool is_until_settled;
    if (!get)
        return api_reply_database(request, ERR_BUSY);
    if (!api_flow_id(request, &id) ||
        !api_query_count(request, "wait", 0, API_WAIT_S_MAX, &wait_s) ||
        !read_until(request, &is_until_settled))
        return OP_DONE;
    get->id = id;
    get->request = request;
    get->watch = (struct flow_watch){.account_id = request->grant.account_id,
                                     .flow_id = id,
                                     .is_until_settled = is_until_settled,
                                     .wants_view = true,
                                     .on_change = on_change};
    request->state = get;
    if (wait_s > 0) {
        get->until_ns = loop_now_ns(request->op.loop) + wait_s * 1000000000ULL;
        /* before the load: what changes while it is under way is not missed */
        flow_watch_add(request->api->config.flow, &get->watch);
        get->guard.on_refused = on_refused;
        vault_guard_start(request->api->config.auth, &get->guard, &request->check.caller);
    }
    return knows_enough(request, get) ? wait_for_change(request, get)
                                      : start_view_load(request, get);
}

/* Whether the client asked for what comes after this revision. */
static bool is_known_revision(struct api_request *request, const struct get *get)
{
    slice wanted = http_request_header(request->exchange, SLICE("If-None-Match"));
    int64_t rev = get->view->rev;
    if (wanted.ptr)
        return api_has_etag(request, api_flow_etag(request, rev));
    return get->first_rev == 0 || get->first_rev == rev;
}

/* While the time is not over, the server does not drain and the view is not what the client waits
 * for: settled, or changed. A flow that has ended changes no more. */
static bool may_wait(struct api_request *request, const struct get *get)
{
    bool is_wanted = get->watch.is_until_settled
                         ? get->view->status != FLOW_RUNNING
                         : flow_view_has_ended(get->view) || !is_known_revision(request, get);
    return loop_now_ns(request->op.loop) < get->until_ns && !is_wanted &&
           !http_server_is_draining(request->exchange->server);
}

static enum op_result reply_view(struct api_request *request, struct get *get)
{
    enum op_result result = OP_DONE;
    if (!api_reply_not_modified(request, api_flow_etag(request, get->view->rev)))
        result = api_reply(request, 200, get->view->text);
    release(get);
    return result;
}

/* Takes the view that came with a notification, unless the one from a load is newer. false: none
 * came, since another process made the change: it is loaded. */
static bool take_update(struct get *get)
{
    struct flow_view *update = flow_watch_take_view(&get->watch), *old = get->view;
    bool is_newer = update && (!old || update->rev > old->rev);
    get->is_notified = false;
    get->view = is_newer ? update : old;
    flow_view_unref(is_newer ? old : update);
    return update != NULL;
}

/* Ends: each round takes a view, sleeps, loads or answers. */
static enum op_result answer_or_wait(struct api_request *request, struct get *get)
{
    while (may_wait(request, get)) {
        if (get->first_rev == 0)
            get->first_rev = get->view->rev;
        if (get->watch.rev < get->view->rev)
            get->watch.rev = get->view->rev;
        if (!get->is_notified)
            return wait_for_change(request, get);
        if (!take_update(get))
            return start_view_load(request, get);
    }
    return reply_view(request, get);
}

static enum op_result finish_flow_get(struct api_request *request)
{
    struct get *get = request->state;
    ASSERT(get);
    if (get->is_refused) {
        release(get);
        return api_reply_key_refused(request);
    }
    if (!get->load) /* it slept */
        return take_update(get) ? answer_or_wait(request, get) : start_view_load(request, get);
    int status = get->load->status;
    flow_view_unref(get->view);
    get->view = get->load->view ? flow_view_ref(get->load->view) : NULL;
    get->load = NULL;
    if (status == OK && get->view)
        return answer_or_wait(request, get);
    release(get);
    if (status == OK)
        return api_reply_error(request, 500, "Internal error");
    return status == ERR_NOTFOUND ? api_reply_no_flow(request)
                                  : api_reply_database(request, status);
}

static void gone_get(struct api_request *request)
{
    struct get *get = request->state;
    if (get)
        release(get);
    op_cancel(&request->op);
}

const struct api_endpoint api_flows_get = {
    .route = "/api/flows/{id}",
    .scope = SCOPE_READ,
    .query = &(const struct api_names){.own = {"wait", "until"}},
    .begin = begin_flow_get,
    .finish = finish_flow_get,
    .on_gone = gone_get,
};

/* ---- GET /api/flows ---- */

/* A status of the interface that no stored flow has: such a list is empty without a query. */
enum { STATUS_PENDING = FLOW_CANCELLED + 1 };

static bool read_status(struct api_request *request, int *status)
{
    slice text = api_query_text(request, "status");
    *status = slice_eq_cstr(text, "pending") ? STATUS_PENDING : -1;
    for (int i = FLOW_RUNNING; i <= FLOW_CANCELLED; i++)
        if (slice_eq_cstr(text, flow_status_name((enum flow_status)i)))
            *status = i;
    if (!text.ptr || *status >= 0)
        return true;
    (void)api_reply_error(request, 400,
                          "status must be pending, running, waiting, completed, "
                          "failed or cancelled");
    return false;
}

static bool read_cursor(struct api_request *request, struct uuid *before)
{
    slice text = api_query_text(request, "cursor");
    if (!text.ptr || uuid_parse(text, before))
        return true;
    (void)api_reply_error(request, 400, "cursor must be the id of a flow");
    return false;
}

/* ?fields=summary: without documents, which are then not read either. */
static bool read_fields(struct api_request *request, bool *is_summary)
{
    slice text = api_query_text(request, "fields");
    *is_summary = slice_eq_cstr(text, "summary");
    if (!text.ptr || *is_summary)
        return true;
    (void)api_reply_error(request, 400,
                          "fields must be summary (no input, no context), or left out");
    return false;
}

static enum op_result begin_flow_list(struct api_request *request)
{
    struct flow_filter filter = {.account_id = request->grant.account_id,
                                 .template_key = api_query_text(request, "template")};
    uint64_t limit;
    if (!api_query_positive(request, "limit", LIST_LIMIT, LIST_LIMIT_MAX, &limit) ||
        !read_status(request, &filter.status) || !read_cursor(request, &filter.before) ||
        !read_fields(request, &filter.is_rows_alone))
        return OP_DONE;
    filter.limit = (int64_t)limit;
    /* bytes that a text parameter of PostgreSQL does not take */
    if (!slice_is_utf8(filter.template_key, NULL) ||
        (filter.template_key.ptr && memchr(filter.template_key.ptr, 0, filter.template_key.len)))
        return api_reply_error(request, 400, "template must be the key of a template");
    if (filter.status == STATUS_PENDING)
        return api_reply(request, 200, SLICE("{\"flows\":[]}"));
    request->state = flow_page_start(request->api->config.flow, &filter, &request->op);
    return request->state ? OP_WAIT : api_reply_database(request, ERR_BUSY);
}

static enum op_result finish_flow_list(struct api_request *request)
{
    const struct flow_page *page = request->state;
    ASSERT(page);
    if (page->status != OK)
        return api_reply_database(request, page->status);
    if (!buf_is_ok(&page->text))
        return api_reply_error(request, 500, "Internal error");
    slice text =
        arena_printf(&request->op.arena, "{\"flows\":%.*s}", SLICE_ARG(buf_slice(&page->text)));
    return text.ptr ? api_reply(request, 200, text)
                    : api_reply_error(request, 500, "Internal error");
}

const struct api_endpoint api_flows_list = {
    .route = "/api/flows",
    .scope = SCOPE_READ,
    .query = &(const struct api_names){.own = {"limit", "status", "template", "cursor", "fields"}},
    .begin = begin_flow_list,
    .finish = finish_flow_list,
};
