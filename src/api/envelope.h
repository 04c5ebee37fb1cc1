/*
 * The one table from outcomes to statuses and error codes (DECISIONS.md "Executions"), and the
 * summary envelope. Private to the api room.
 */
#ifndef API_ENVELOPE_H
#define API_ENVELOPE_H

#include "exec/outcome.h"

struct api_verdict {
    const char *status; /* "succeeded", "blocked", "failed"; NULL: a guard error */
    unsigned http_status;
    const char *error_code; /* INTERFACE.md 7.3; NULL when succeeded or a guard error */
    /* recommended_next_action: none, connect, or connect with force_reconnect */
    enum { NEXT_NONE, NEXT_CONNECT, NEXT_RECONNECT } next_action;
};

const struct api_verdict *api_verdict_of(enum exec_reason reason);

#endif
