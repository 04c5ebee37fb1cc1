/*
 * The reply to a message as server-sent events: notifications, then the response. Private to the
 * mcp room. Once a stream has begun, the answer to the message (message.h) ends it.
 */
#ifndef MCP_STREAM_H
#define MCP_STREAM_H

#include "mcp/message.h"

/* Sends status and headers. */
void mcp_stream_begin(struct api_request *request);
/* The caller writes params, an open object, with note->w. */
void mcp_notification_begin(struct mcp_result *note, const char *method);
/* Completes and sends the notification. Returns false if the client has disconnected, or if out of
 * memory. */
bool mcp_notification_send(struct api_request *request, struct mcp_result *note) MUST_CHECK;
/* Notifies the client of progress if it asked for that and progress was made; this begins a
 * stream. total 0: unknown. text is for a person. */
void mcp_stream_progress(struct api_request *request, int64_t progress, int64_t total, slice text);
/* Sends the response and ends the stream. */
enum op_result mcp_stream_end(struct api_request *request, slice json_text);

#endif
