/*
 * Shared by the flow endpoints. Private to the api room.
 */
#ifndef API_FLOW_PATH_H
#define API_FLOW_PATH_H

#include "api/request.h"
#include "flow/load.h"
#include "serve/stream.h"

/* Reads the {id} of the path. Returns false if it is invalid; 404 was then answered. */
bool api_flow_id(struct api_request *request, struct uuid *id) MUST_CHECK;
/* Returns the ETag of a view: its revision in quotes. Two views of the same revision are equal. */
slice api_flow_etag(struct api_request *request, int64_t rev);
enum op_result api_reply_no_flow(struct api_request *request);

/* A request that waits for changes of a flow: a long poll or a stream. Zeroed before its first
 * use. */
struct api_flow_wait {
    struct uuid id;
    struct flow_load *load; /* the load that is under way or just done; NULL if the op slept */
    struct flow_watch watch;
    struct serve_stream stream;
    bool is_notified; /* a change was notified and is not handled yet */
    bool is_summary;  /* ?fields=summary: the views are without documents */
};
/* Reads the path's id and `fields`. Returns false if one is invalid; the request was then
 * answered. */
bool api_flow_wait_init(struct api_request *request, struct api_flow_wait *wait) MUST_CHECK;
/* Returns the text for the client, borrowed from the view. */
slice api_flow_wait_text(const struct api_flow_wait *wait, const struct flow_view *view);
/* Starts watching for changes and for the end of the key, for at most ms_max. */
void api_flow_wait_begin(struct api_request *request, struct api_flow_wait *wait, uint64_t ms_max);
/* Stops watching; may be called even if watching has not begun. Call it before the answer, and when
 * the client has disconnected: callbacks must not reach an op that has ended. */
void api_flow_wait_end(struct api_flow_wait *wait);
/* Starts a load of the view, for api_wait. Returns false if out of memory. */
bool api_flow_wait_load(struct api_request *request, struct api_flow_wait *wait) MUST_CHECK;

#endif
