/*
 * Reading flows: GET /api/flows/{id}, which may wait for a change (a long poll), and GET /api/flows
 * (src/api/README.md "Flows").
 *
 * A long poll alternates between a load and a sleep until it can answer with the view. A timer ends
 * each sleep at the time that the client set; a change or a refused key ends it earlier.
 */
#include "api/flow_path.h"
#include "api/listing.h"

#define SUMMARY "summary (no input, context or output), or left out"

/* ---- waiting for changes ---- */

static void on_change(struct flow_watch *watch)
{
    struct api_flow_wait *wait = CONTAINER_OF(watch, struct api_flow_wait, watch);
    wait->is_notified = true;
    serve_stream_wake(&wait->stream);
}

bool api_flow_wait_init(struct api_request *request, struct api_flow_wait *wait)
{
    slice fields = api_query_text(request, "fields");
    if (!api_flow_id(request, &wait->id))
        return false;
    wait->is_summary = slice_eq_cstr(fields, "summary");
    if (fields.ptr && !wait->is_summary) {
        (void)api_reply_error(request, 400, "fields must be " SUMMARY);
        return false;
    }
    wait->watch = (struct flow_watch){.account_id = request->serve.grant.account_id,
                                      .flow_id = wait->id,
                                      .wants_view = true,
                                      .on_change = on_change};
    return true;
}

slice api_flow_wait_text(const struct api_flow_wait *wait, const struct flow_view *view)
{
    return wait->is_summary ? view->summary : view->text;
}

void api_flow_wait_begin(struct api_request *request, struct api_flow_wait *wait, uint64_t ms_max)
{
    flow_watch_add(request->api->config.flow, &wait->watch);
    serve_stream_open(&wait->stream, &request->serve.op, request->serve.exchange,
                      request->api->config.auth, &request->serve.check, ms_max);
}

void api_flow_wait_end(struct api_flow_wait *wait)
{
    flow_watch_remove(&wait->watch);
    serve_stream_close(&wait->stream);
}

bool api_flow_wait_load(struct api_request *request, struct api_flow_wait *wait)
{
    wait->is_notified = false;
    wait->load = flow_load_start_view(request->api->config.flow, request->serve.grant.account_id,
                                      wait->id, request->serve.policy, &request->serve.op);
    return wait->load != NULL;
}

/* ---- GET /api/flows/{id} ---- */

struct get {
    struct api_flow_wait wait;
    struct flow_view *view; /* a reference to the newest known view */
    /* revision of the first view, after which the request waits for a later one; 0 before the first
     * view */
    int64_t first_rev;
    enum { UNTIL_CHANGE, UNTIL_SETTLED, UNTIL_ENDED } until;
};

static void release(struct get *get)
{
    api_flow_wait_end(&get->wait);
    flow_view_unref(get->view);
    get->view = NULL;
}

static api_step finish_flow_get;

static enum op_result start_view_load(struct api_request *request, struct get *get)
{
    if (api_flow_wait_load(request, &get->wait))
        return api_wait(request, finish_flow_get);
    release(get);
    return api_reply_no_memory(request);
}

static enum op_result wait_for_change(struct api_request *request, struct get *get)
{
    uint64_t left_ns = get->wait.stream.until_ns - loop_now_ns(request->serve.op.loop);
    serve_stream_sleep(&get->wait.stream, left_ns / 1000000 + 1, "a change of the flow");
    return api_wait(request, finish_flow_get);
}

/* ?until=change (the default) waits for a change, until=settled until the flow no longer runs,
 * until=ended until it has ended. */
static bool read_until(struct api_request *request, struct get *get)
{
    slice until = api_query_text(request, "until");
    get->until = slice_eq_cstr(until, "settled") ? UNTIL_SETTLED
                 : slice_eq_cstr(until, "ended") ? UNTIL_ENDED
                                                 : UNTIL_CHANGE;
    if (!until.ptr || get->until != UNTIL_CHANGE || slice_eq_cstr(until, "change"))
        return true;
    (void)api_reply_error(request, 400, "until must be change, settled or ended");
    return false;
}

/* If this process runs the flow, its revision is known without a query. A client that waits for
 * a later revision then sleeps immediately. */
static bool knows_enough(struct api_request *request, struct get *get)
{
    slice wanted = http_request_header(request->serve.exchange, SLICE("If-None-Match"));
    int64_t rev;
    if (get->wait.stream.until_ns == 0 || request->on_view ||
        http_server_is_draining(request->serve.exchange->server) ||
        !flow_is_running_here(request->api->config.flow, request->serve.grant.account_id,
                              get->wait.id, request->serve.policy, &rev))
        return false;
    if (get->until == UNTIL_CHANGE && wanted.ptr &&
        !api_has_etag(request, api_flow_etag(request, rev)))
        return false;
    get->wait.watch.rev = get->first_rev = rev;
    return true;
}

/* Whether the client already has this revision. */
static bool is_known_revision(struct api_request *request, const struct get *get)
{
    slice wanted = http_request_header(request->serve.exchange, SLICE("If-None-Match"));
    int64_t rev = get->view->rev;
    if (wanted.ptr)
        return api_has_etag(request, api_flow_etag(request, rev));
    return get->first_rev == 0 || get->first_rev == rev;
}

/* Whether the client waits for this view. A flow that has ended never changes again. */
static bool is_wanted(struct api_request *request, const struct get *get)
{
    if (flow_view_has_ended(get->view))
        return true;
    switch (get->until) {
    case UNTIL_CHANGE:
        return !is_known_revision(request, get);
    case UNTIL_SETTLED:
        return get->view->status != FLOW_RUNNING;
    case UNTIL_ENDED:
        break;
    }
    return false;
}

/* Whether to wait: there is time left, the server is not draining, and the view is not the one that
 * the client waits for. */
static bool may_wait(struct api_request *request, const struct get *get)
{
    return loop_now_ns(request->serve.op.loop) < get->wait.stream.until_ns &&
           !is_wanted(request, get) && !http_server_is_draining(request->serve.exchange->server);
}

/* A large reply is not copied by the server, nor is every part of one with an envelope, and the
 * client may read it long after the view's last reference has ended. The copy counts for the
 * account, as a view does not. */
static slice text_to_reply(struct api_request *request, const struct get *get)
{
    slice text = api_flow_wait_text(&get->wait, get->view);
    bool is_copied = !request->envelope && text.len <= API_REPLY_LARGE_BYTES;
    return is_copied ? text : arena_dup(&request->serve.op.arena, text);
}

static enum op_result reply_view(struct api_request *request, struct get *get)
{
    enum op_result result = OP_DONE;
    if (!api_reply_not_modified(request, api_flow_etag(request, get->view->rev))) {
        slice text = text_to_reply(request, get);
        result = text.ptr ? api_reply(request, 200, text) : api_reply_no_memory(request);
    }
    release(get);
    return result;
}

/* Takes the view of the notification, unless the loaded view is newer. Returns false if the
 * notification has no view, because another process made the change; the view must then be
 * loaded. */
static bool take_update(struct get *get)
{
    struct flow_view *update = flow_watch_take_view(&get->wait.watch), *old = get->view;
    bool is_newer = update && (!old || update->rev > old->rev);
    get->wait.is_notified = false;
    get->view = is_newer ? update : old;
    flow_view_unref(is_newer ? old : update);
    return update != NULL;
}

/* The loop ends: each round takes a view, sleeps, loads or answers. */
static enum op_result answer_or_wait(struct api_request *request, struct get *get)
{
    while (may_wait(request, get)) {
        if (get->first_rev == 0)
            get->first_rev = get->view->rev;
        if (request->on_view)
            request->on_view(request, get->view->text);
        if (get->wait.watch.rev < get->view->rev)
            get->wait.watch.rev = get->view->rev;
        if (!get->wait.is_notified)
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
    if (get->wait.stream.is_refused) {
        release(get);
        return api_reply_key_refused(request);
    }
    if (get->wait.stream.is_over) { /* the next request has the key's present policy */
        release(get);
        return api_reply_later(request,
                               SLICE("The policy of this API key has changed. Ask again."));
    }
    const struct flow_load *load = get->wait.load;
    if (!load) /* the op slept */
        return take_update(get) ? answer_or_wait(request, get) : start_view_load(request, get);
    int status = load->status;
    flow_view_unref(get->view);
    get->view = load->view ? flow_view_ref(load->view) : NULL;
    get->wait.load = NULL;
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
    release(request->state);
    op_cancel(&request->serve.op);
}

static enum op_result begin_flow_get(struct api_request *request)
{
    struct get *get = request->state;
    uint64_t wait_s;
    if (!api_flow_wait_init(request, &get->wait) ||
        !api_query_count(request, "wait", 0, API_WAIT_S_MAX, &wait_s) || !read_until(request, get))
        return OP_DONE;
    get->wait.watch.is_until_settled = get->until != UNTIL_CHANGE && !request->on_view;
    request->on_gone = gone_get;
    if (wait_s > 0)
        /* Watching begins before the load, so that a change during the load is not missed. */
        api_flow_wait_begin(request, &get->wait, wait_s * 1000);
    return knows_enough(request, get) ? wait_for_change(request, get)
                                      : start_view_load(request, get);
}

const struct api_endpoint api_flows_get = {
    .scope = SCOPE_READ,
    .query = &(const struct api_names){.own = {"wait", "until", "fields"}},
    .begin = begin_flow_get,
    .state_bytes = sizeof(struct get),
};

/* ---- GET /api/flows ---- */

/* `pending` is a status of the API that no stored flow has, so its list is empty without a query.
 * With fields=summary documents are not even read. */
enum { STATUS, TEMPLATE, FIELDS, Q, STATUS_PENDING = FLOW_CANCELLED + 1 };

static const struct serve_filter filters[SERVE_FILTERS_MAX] = {
    [STATUS] = {.name = "status",
                .words = "running waiting completed failed cancelled pending",
                .wanted = "pending, running, waiting, completed, failed or cancelled"},
    [TEMPLATE] = {.name = "template", .wanted = "the key of a template"},
    [FIELDS] = {.name = "fields", .words = "summary", .wanted = SUMMARY},
    [Q] = {.name = "q", SERVE_A_SEARCH},
    {.name = "cursor", .kind = SERVE_CURSOR, .wanted = "the id of a flow"}};

static enum op_result finish_flow_list(struct api_request *request)
{
    const struct flow_page *page = request->state;
    ASSERT(page);
    if (page->status != OK)
        return api_reply_database(request, page->status);
    if (!buf_is_ok(&page->text))
        return api_reply_error(request, 500, "Internal error");
    /* The cursor of a full page is the id of its last flow. */
    bool is_cut = (int64_t)page->count < page->filter.limit && !uuid_is_nil(page->older);
    char older[UUID_TEXT_LEN + 1];
    uuid_format(page->older, older);
    slice text = arena_printf(
        &request->serve.op.arena, "{\"flows\":%.*s%s%s%s}", SLICE_ARG(buf_slice(&page->text)),
        is_cut ? ",\"next_cursor\":\"" : "", is_cut ? older : "", is_cut ? "\"" : "");
    return text.ptr ? api_reply(request, 200, text)
                    : api_reply_error(request, 500, "Internal error");
}

static enum op_result begin_flow_list(struct api_request *request)
{
    struct serve_list list = {0};
    if (!listing_read(request, &list, filters, LISTING_DEFAULT))
        return OP_DONE;
    serve_list_narrow(&list);
    const struct flow_filter filter = {.account_id = request->serve.grant.account_id,
                                       .words =
                                           serve_list_plain(&list, Q, &request->serve.op.arena),
                                       .id = list.id,
                                       .status = list.choices[STATUS],
                                       .template_key = list.values[TEMPLATE],
                                       .is_rows_alone = list.values[FIELDS].ptr != NULL,
                                       .before = list.page.before,
                                       .limit = (int64_t)list.limit};
    if (filter.status == STATUS_PENDING)
        return api_reply(request, 200, SLICE("{\"flows\":[]}"));
    request->state = flow_page_start(request->api->config.flow, &filter, request->serve.policy,
                                     &request->serve.op);
    return request->state ? api_wait(request, finish_flow_list) : api_reply_no_memory(request);
}

const struct api_endpoint api_flows_list = {
    .scope = SCOPE_READ,
    .query =
        &(const struct api_names){
            .own = {"limit", "status", "template", "cursor", "fields", "q"},
            .other = {{"flowTemplate", "template"}, {"template_key", "template"}}},
    .begin = begin_flow_list,
};
