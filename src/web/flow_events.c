/*
 * Server-sent events for a flow's page, and for the pages of an account as a whole. They report
 * that something has changed, not what; the page then requests the new content. An event's id is
 * the flow's revision, or the account's stamp (flow.h). The page sends the id that it displays
 * (`since`), and a browser that reconnects sends the last id it received (Last-Event-ID). A known
 * id is not sent again, so many browsers that reconnect at the same time request nothing. The
 * stream ends with the flow, when the session's key is revoked, when the server drains, and after
 * STREAM_MS_MAX; the browser reconnects by itself, and gets the sign-in page if the key was
 * revoked.
 */
#include <stdio.h>

#include "flow/load.h"
#include "serve/stream.h"
#include "web/pages.h"

enum { STREAM_MS_MAX = 10 * 60 * 1000 };

struct events {
    struct flow_watch watch;
    struct serve_stream stream;
    int64_t known_rev;      /* the revision or stamp that the browser has */
    struct flow_load *load; /* the flow's existence and revision; used until the stream begins */
    bool has_news;
};

static void on_change(struct flow_watch *watch)
{
    struct events *events = CONTAINER_OF(watch, struct events, watch);
    watch->rev = watch->news_rev; /* one event for each revision, however many comparisons */
    events->has_news = true;
    serve_stream_wake(&events->stream);
}

/* Returns 0 if the browser has no revision yet. */
static int64_t read_known(struct web_request *request)
{
    /* The header is newer than the query string, which stays as it was in the page. */
    slice last = http_request_header(request->serve.exchange, SLICE("Last-Event-ID"));
    int64_t rev;
    return slice_to_i64(last.len > 0 ? last : web_query(request, "since"), &rev) ? rev : 0;
}

/* Also runs when the browser has disconnected. */
static void stop_watching(struct web_request *request)
{
    struct events *events = request->state;
    flow_watch_remove(&events->watch);
    serve_stream_close(&events->stream);
}

static enum op_result end_stream(struct web_request *request)
{
    ASSERT(!request->serve.is_answered);
    request->serve.is_answered = true;
    http_reply_end(request->serve.exchange);
    return OP_DONE;
}

/* Sends an event if there is a change, otherwise a comment that keeps the connection open. */
static bool send_event(struct web_request *request, struct events *events)
{
    char text[48];
    ASSERT(!request->serve.is_answered);
    if (!events->has_news)
        return serve_events_beat(request->serve.exchange);
    events->has_news = false;
    int len =
        snprintf(text, sizeof(text), "id: %lld\ndata: changed\n\n", (long long)events->watch.rev);
    return http_reply_chunk(request->serve.exchange, slice_of(text, (size_t)len)) == OK;
}

/* The event is sent before the op sleeps, so that an earlier change is sent at once. For a slow
 * reader has_news stays set. */
static enum op_result continue_stream(struct web_request *request)
{
    struct events *events = request->state;
    enum serve_stream_state state = serve_stream_check(&events->stream);
    bool is_over = state == SERVE_STREAM_REFUSED || state == SERVE_STREAM_OVER;
    if (is_over || (state == SERVE_STREAM_READY && !send_event(request, events)))
        return end_stream(request);
    serve_stream_sleep(&events->stream, SERVE_HEARTBEAT_MS, "a change");
    return web_wait(request, continue_stream);
}

/* From here on a reply is under way, and an error can only end it. */
static void open_stream(struct web_request *request)
{
    struct events *events = request->state;
    /* The watch begins before the first event is written, so a change in between is not lost. */
    serve_events_begin(request->serve.exchange);
    flow_watch_add(request->web->config.flow, &events->watch);
    serve_stream_open(&events->stream, &request->serve.op, request->serve.exchange,
                      request->web->config.auth, &request->serve.check, STREAM_MS_MAX);
    request->on_end = stop_watching;
}

static enum op_result begin_stream(struct web_request *request)
{
    struct events *events = request->state;
    const struct flow_load *load = events->load;
    bool has_ended = load->status == OK && flow_load_has_ended(load);
    if (load->status == ERR_NOTFOUND)
        return web_reply_missing(request, "There is no such flow.");
    if (load->status != OK)
        return web_reply_database(request, load->status);
    events->watch.rev = load->whole.flow.rev;
    events->load = NULL;
    events->has_news = events->watch.rev != events->known_rev;
    if (has_ended && !events->has_news) { /* a browser does not reconnect after a 204 */
        request->serve.is_answered = true;
        http_reply(request->serve.exchange, 204, NULL, 0, SLICE_NONE);
        return OP_DONE;
    }
    open_stream(request);
    /* A flow that has ended gets its one event, so that the page can load the final state. */
    if (!has_ended && request->serve.exchange->head.method != HTTP_METHOD_HEAD)
        return continue_stream(request);
    (void)send_event(request, events);
    return end_stream(request);
}

/* The flow in the path; the nil id means the account. Returns NULL if a reply was sent. on_end is
 * set only once the watch and the guard exist (open_stream). */
static struct events *make_events(struct web_request *request, struct uuid flow_id)
{
    struct events *events = web_state_new(request, sizeof(*events));
    if (!events)
        return NULL;
    events->known_rev = read_known(request);
    events->watch = (struct flow_watch){.account_id = request->session.account_id,
                                        .flow_id = flow_id,
                                        .rev = events->known_rev,
                                        .on_change = on_change};
    return events;
}

enum op_result web_flow_events(struct web_request *request)
{
    struct uuid id;
    if (!web_path_uuid(request, 0, &id))
        return OP_DONE;
    struct events *events = make_events(request, id);
    if (!events)
        return OP_DONE;
    events->load = flow_load_start(request->web->config.flow, request->session.account_id, id,
                                   request->serve.policy, &request->serve.op);
    return events->load ? web_wait(request, begin_stream) : web_reply_database(request, ERR_NOMEM);
}

/* The first poll of the account's stamp shows whether the browser has the present stamp. */
enum op_result web_account_events(struct web_request *request)
{
    if (!make_events(request, (struct uuid){{0}}))
        return OP_DONE;
    open_stream(request);
    return request->serve.exchange->head.method == HTTP_METHOD_HEAD ? end_stream(request)
                                                                    : continue_stream(request);
}
