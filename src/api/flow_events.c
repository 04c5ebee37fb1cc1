/*
 * GET /api/flows/{id}/events: a stream of server-sent events (WHATWG HTML 9.2), with an event for
 * each noticed change of the flow: `id` is the revision, `data` the view. The first event is sent
 * immediately, unless Last-Event-ID has the same revision. The stream ends when the flow has ended,
 * when the key is revoked or expires (after an event "error"), when the server drains, and after
 * STREAM_MS_MAX. A client that reconnects to an ended flow without new changes gets 204, after
 * which it must not reconnect (9.2.3 there).
 *
 * Events may be skipped: changes while a client is slow, or two changes between loads, become one
 * event with the last view. The op has two states: a load is under way (`load`), or it sleeps.
 */
#include <stdio.h>

#include "api/flow_path.h"

enum { STREAM_MS_MAX = 15 * 60 * 1000 };

struct stream_state {
    struct api_flow_wait wait;
    int64_t sent_rev; /* the last revision that the client has; 0: none */
    bool has_begun;   /* status and headers are sent, so an error can only end the stream */
};

static api_step finish_events;

/* If out of memory, a stream that has begun retries at the next heartbeat. */
static enum op_result start_stream_load(struct api_request *request, struct stream_state *state)
{
    if (api_flow_wait_load(request, &state->wait))
        return api_wait(request, finish_events);
    if (!state->has_begun)
        return api_reply_no_memory(request);
    serve_stream_sleep(&state->wait.stream, SERVE_HEARTBEAT_MS, "memory");
    return api_wait(request, finish_events);
}

static enum op_result end_stream(struct api_request *request, struct stream_state *state)
{
    api_flow_wait_end(&state->wait);
    request->serve.is_answered = true;
    http_reply_end(request->serve.exchange);
    return OP_DONE;
}

/* An "error" event has the reason; a client that handles only "message" sees the stream end. */
static enum op_result end_refused(struct api_request *request, struct stream_state *state)
{
    static const char text[] = "event: error\ndata: {\"error\":\"" API_KEY_REFUSED_TEXT "\"}\n\n";
    (void)!http_reply_chunk(request->serve.exchange, slice_cstr(text));
    return end_stream(request, state);
}

static void begin_stream(struct api_request *request, struct stream_state *state)
{
    state->has_begun = true;
    serve_events_begin(request->serve.exchange);
    api_flow_wait_begin(request, &state->wait, STREAM_MS_MAX);
}

/* Returns false if the client has disconnected, or if out of memory. */
static bool send_view(struct api_request *request, struct stream_state *state,
                      const struct flow_view *view)
{
    struct buf text;
    buf_init(&text, FLOW_VIEW_BYTES_MAX + 1024);
    buf_printf(&text, "id: %lld\ndata: ", (long long)view->rev);
    buf_append(&text, api_flow_wait_text(&state->wait, view)); /* JSON, without line breaks */
    buf_append(&text, SLICE("\n\n"));
    int rc = buf_is_ok(&text) ? http_reply_chunk(request->serve.exchange, buf_slice(&text))
                              : ERR_NOMEM;
    buf_deinit(&text);
    state->sent_rev = view->rev;
    return rc == OK;
}

/* If a change arrived while the last event was sent, it is sent without waiting for a heartbeat. */
static enum op_result wait_for_change(struct api_request *request, struct stream_state *state)
{
    state->wait.load = NULL;
    serve_stream_sleep(&state->wait.stream, state->wait.is_notified ? 0 : SERVE_HEARTBEAT_MS,
                       "a change of the flow");
    return api_wait(request, finish_events);
}

/* A HEAD request gets the headers of a stream and no event. */
static enum op_result send_or_wait(struct api_request *request, struct stream_state *state,
                                   const struct flow_view *view)
{
    bool is_new = view->rev != state->sent_rev, has_ended = flow_view_has_ended(view);
    if (!state->has_begun && !is_new && has_ended)
        return api_reply(request, 204, SLICE_NONE);
    bool is_head = request->serve.exchange->head.method == HTTP_METHOD_HEAD;
    if (!state->has_begun)
        begin_stream(request, state);
    if (is_head || (is_new && !send_view(request, state, view)) || has_ended)
        return end_stream(request, state);
    state->wait.watch.rev = view->rev;
    return wait_for_change(request, state);
}

/* A notification of this process includes the view; a change by another process has to be
 * loaded. */
static enum op_result check_update(struct api_request *request, struct stream_state *state)
{
    struct flow_view *view = flow_watch_take_view(&state->wait.watch);
    if (!view)
        return start_stream_load(request, state);
    state->wait.is_notified = false;
    bool is_newer = view->rev > state->wait.watch.rev; /* newer than the load that is under way */
    enum op_result result = is_newer ? send_or_wait(request, state, view)
                                     : wait_for_change(request, state);
    flow_view_unref(view);
    return result;
}

static enum op_result resume_stream(struct api_request *request, struct stream_state *state)
{
    switch (serve_stream_check(&state->wait.stream)) {
    case SERVE_STREAM_REFUSED:
        return end_refused(request, state);
    case SERVE_STREAM_OVER:
        return end_stream(request, state);
    case SERVE_STREAM_SLOW:
        serve_stream_sleep(&state->wait.stream, SERVE_HEARTBEAT_MS, "a client that reads slowly");
        return api_wait(request, finish_events);
    case SERVE_STREAM_READY:
        break;
    }
    if (state->wait.is_notified)
        return check_update(request, state);
    return serve_events_beat(request->serve.exchange) ? wait_for_change(request, state)
                                                      : end_stream(request, state);
}

static enum op_result finish_events(struct api_request *request)
{
    struct stream_state *state = request->state;
    ASSERT(state);
    if (state->wait.stream.is_refused || !state->wait.load)
        return resume_stream(request, state);
    int status = state->wait.load->status;
    if (status == OK && !state->wait.load->view)
        status = ERR_NOMEM;
    if (status == OK)
        return send_or_wait(request, state, state->wait.load->view);
    if (!state->has_begun)
        return status == ERR_NOTFOUND ? api_reply_no_flow(request)
                                      : api_reply_database(request, status);
    if (status == ERR_NOTFOUND)
        return end_stream(request, state);
    state->wait.load = NULL; /* the database is unreachable: the next heartbeat loads again */
    serve_stream_sleep(&state->wait.stream, SERVE_HEARTBEAT_MS, "the database");
    state->wait.is_notified = true;
    return api_wait(request, finish_events);
}

static void gone_events(struct api_request *request)
{
    struct stream_state *state = request->state;
    api_flow_wait_end(&state->wait);
    op_cancel(&request->serve.op);
}

static enum op_result begin_events(struct api_request *request)
{
    struct stream_state *state = request->state;
    slice last = http_request_header(request->serve.exchange, SLICE("Last-Event-ID"));
    if (!api_flow_wait_init(request, &state->wait))
        return OP_DONE;
    if (!slice_to_i64(last, &state->sent_rev)) /* a malformed value is ignored */
        state->sent_rev = 0;
    request->on_gone = gone_events;
    return start_stream_load(request, state);
}

const struct api_endpoint api_flows_events = {
    .scope = SCOPE_READ,
    .query = &(const struct api_names){.own = {"fields"}},
    .begin = begin_events,
    .state_bytes = sizeof(struct stream_state),
};
