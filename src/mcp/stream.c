/*
 * Streams of server-sent events (WHATWG HTML 9.2) for one message; see stream.h.
 */
#include "mcp/stream.h"

#include "serve/stream.h"

enum { NOTE_BYTES_MAX = 128 * 1024 * 1024 };

void mcp_stream_begin(struct api_request *request)
{
    struct mcp_message *message = request->outer;
    ASSERT(!message->is_streaming && !request->serve.is_answered);
    message->is_streaming = true;
    serve_events_begin(request->serve.exchange);
}

void mcp_notification_begin(struct mcp_result *note, const char *method)
{
    buf_init(&note->text, NOTE_BYTES_MAX);
    buf_append(&note->text, SLICE("data: "));
    json_begin(&note->w, &note->text);
    json_open(&note->w, '{');
    json_member_str(&note->w, "jsonrpc", SLICE("2.0"));
    json_member_str(&note->w, "method", slice_cstr(method));
    json_member_open(&note->w, "params", '{');
}

/* The JSON written here contains no line break, so one line is enough. */
bool mcp_notification_send(struct api_request *request, struct mcp_result *note)
{
    json_close(&note->w, '}');
    json_close(&note->w, '}');
    buf_append(&note->text, SLICE("\n\n"));
    bool is_sent = buf_is_ok(&note->text) &&
                   http_reply_chunk(request->serve.exchange, buf_slice(&note->text)) == OK;
    buf_deinit(&note->text);
    return is_sent;
}

/* Progress never decreases: the steps of a batch may end in a different order than they began. */
void mcp_stream_progress(struct api_request *request, int64_t progress, int64_t total, slice text)
{
    struct mcp_message *message = request->outer;
    struct mcp_result note;
    if (!message->progress || progress <= message->progress_sent)
        return;
    message->progress_sent = progress;
    if (!message->is_streaming)
        mcp_stream_begin(request);
    mcp_notification_begin(&note, "notifications/progress");
    json_member(&note.w, "progressToken", message->progress);
    json_member_i64(&note.w, "progress", progress);
    if (total > 0)
        json_member_i64(&note.w, "total", total);
    json_member_str(&note.w, "message", text);
    (void)!mcp_notification_send(request, &note); /* a disconnect is noticed elsewhere */
}

/* If the response cannot be sent, the stream ends without it, which a client sees as a
 * disconnect. */
enum op_result mcp_stream_end(struct api_request *request, slice json_text)
{
    struct buf text;
    buf_init(&text, NOTE_BYTES_MAX);
    buf_append(&text, SLICE("data: "));
    buf_append(&text, json_text);
    buf_append(&text, SLICE("\n\n"));
    if (buf_is_ok(&text))
        (void)!http_reply_chunk(request->serve.exchange, buf_slice(&text));
    buf_deinit(&text);
    request->serve.is_answered = true;
    http_reply_end(request->serve.exchange);
    return OP_DONE;
}
