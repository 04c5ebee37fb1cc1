/*
 * What the flow endpoints share. Private to the api room.
 */
#ifndef API_FLOW_PATH_H
#define API_FLOW_PATH_H

#include "api/request.h"
#include "flow/load.h"

/* The {id} of the path. false: answered, 404. */
bool api_flow_id(struct api_request *request, struct uuid *id) MUST_CHECK;
/* The ETag of a view: its revision in quotes. Two views of one revision are equal. */
slice api_flow_etag(struct api_request *request, int64_t rev);
enum op_result api_reply_no_flow(struct api_request *request);

#endif
