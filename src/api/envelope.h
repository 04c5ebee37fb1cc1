/*
 * The only table from outcomes to HTTP statuses and the tool endpoint's errors (src/api/README.md
 * "Executions"). Private to the api room; call/outcome.h has the error codes.
 */
#ifndef API_ENVELOPE_H
#define API_ENVELOPE_H

#include "call/outcome.h"

struct api_verdict {
    unsigned http_status;
    /* for the tool endpoint; type and code are NULL without an error code */
    unsigned tool_status;
    const char *error_type, *tool_code;
};

const struct api_verdict *api_verdict_of(enum exec_reason reason);

#endif
