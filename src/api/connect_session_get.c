/*
 * GET /api/connect/sessions/{id} (read scope): the state of a connect link. `wait` waits until the
 * link was used or has expired: each change of the account's connections ends a sleep, and the link
 * is then loaded again.
 */
#include "api/request.h"
#include "base/clock.h"
#include "serve/stream.h"
#include "store/connect_session.h"

struct get {
    struct uuid id;
    struct connect_watch watch;
    struct serve_stream stream;
    bool is_notified; /* a change was notified after the last load began */
};

static void on_change(struct connect_watch *watch)
{
    struct get *get = CONTAINER_OF(watch, struct get, watch);
    get->is_notified = true;
    serve_stream_wake(&get->stream);
}

static void stop_link_wait(struct get *get)
{
    connect_watch_remove(&get->watch);
    serve_stream_close(&get->stream);
}

static void gone_link(struct api_request *request)
{
    stop_link_wait(request->state);
    op_cancel(&request->serve.op);
}

static const char *link_state_name(const struct connect_session *link)
{
    if (link->made_id != 0)
        return "connected";
    if (link->expires_at <= clock_shared_us())
        return "expired";
    return link->taken_at != 0 ? "opened" : "waiting";
}

static enum op_result reply_state(struct api_request *request, const struct connect_session *link)
{
    struct get *get = request->state;
    char id[SLICE_U64_MAX];
    struct json_writer *w = api_reply_open(request, API_REQUEST_ARENA_BYTES_MAX);
    json_member_uuid(w, "id", get->id);
    json_member_str(w, "integration_id", link->integration_id);
    json_member_str(w, "status", slice_cstr(link_state_name(link)));
    json_member_str(w, "connection_id",
                    link->made_id != 0 ? slice_of_u64((uint64_t)link->made_id, id) : SLICE_NONE);
    json_member_time(w, "expires_at", link->expires_at);
    stop_link_wait(get);
    return api_reply_close(request, 200);
}

static api_step on_link_state;

static enum op_result load(struct api_request *request)
{
    struct get *get = request->state;
    if (get->stream.is_refused) {
        stop_link_wait(get);
        return api_reply_key_refused(request);
    }
    get->is_notified = false;
    store_connect_session_state(request->api->config.pool, &request->query, &request->serve.op,
                                request->serve.grant.account_id, get->id);
    return api_wait(request, on_link_state);
}

/* Sleeps until a change, the end of the wait or the expiry of the link. */
static enum op_result on_link_state(struct api_request *request)
{
    struct get *get = request->state;
    ASSERT(get);
    struct connect_session link;
    uint64_t now_ns = loop_now_ns(request->serve.op.loop);
    int status = store_connect_session_result(&request->query, &link);
    if (status != OK) {
        stop_link_wait(get);
        return api_reply_no_row(request, status, "Connect link not found");
    }
    int64_t left_ms = (link.expires_at - clock_shared_us()) / 1000 + 1;
    if (now_ns >= get->stream.until_ns || link.made_id != 0 || left_ms <= 1 ||
        http_server_is_draining(request->serve.exchange->server))
        return reply_state(request, &link);
    if (get->is_notified || get->stream.is_refused)
        return load(request);
    uint64_t wait_ms = (get->stream.until_ns - now_ns) / 1000000 + 1;
    serve_stream_sleep(&get->stream, (uint64_t)left_ms < wait_ms ? (uint64_t)left_ms : wait_ms,
                       "the use of a connect link");
    return api_wait(request, load);
}

static enum op_result begin_link_get(struct api_request *request)
{
    struct get *get = request->state;
    uint64_t wait_s;
    if (!uuid_parse(request->serve.match.params[0], &get->id))
        return api_reply_error(request, 404, "Connect link not found");
    if (!api_query_count(request, "wait", 0, API_WAIT_S_MAX, &wait_s))
        return OP_DONE;
    request->on_gone = gone_link;
    if (wait_s > 0) {
        get->watch.account_id = request->serve.grant.account_id;
        get->watch.on_change = on_change;
        connect_watch_add(request->api->config.connect, &get->watch);
        serve_stream_open(&get->stream, &request->serve.op, request->serve.exchange,
                          request->api->config.auth, &request->serve.check, wait_s * 1000);
    }
    return load(request);
}

const struct api_endpoint api_connect_session_get = {
    .scope = SCOPE_READ,
    .query = &(const struct api_names){.own = {"wait"}},
    .begin = begin_link_get,
    .state_bytes = sizeof(struct get),
};
