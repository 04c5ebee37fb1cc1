/*
 * The one table from outcomes to statuses and error codes (DECISIONS.md "Executions"), and the
 * summary envelope. Private to the api room.
 */
#ifndef API_ENVELOPE_H
#define API_ENVELOPE_H

#include "exec/outcome.h"

/* recommended_next_action: none, connect, or connect with force_reconnect */
enum api_next { NEXT_NONE, NEXT_CONNECT, NEXT_RECONNECT };

struct api_verdict {
    const char *status; /* "succeeded", "blocked", "failed"; NULL: a guard error */
    unsigned http_status;
    const char *error_code;    /* INTERFACE.md 7.3; NULL when succeeded or a guard error */
    enum api_next next_action; /* where the outcome's advice is EXEC_ADVICE_OF_REASON */
    /* of the tool endpoint (7.1); type and code are NULL where error_code is */
    unsigned tool_status;
    const char *error_type, *tool_code;
    /* whether the same request could succeed; the latter two only where nothing is done twice and
     * no key is bound, and SERVER_FAULT for a provider's 5xx alone */
    enum { RETRY_NEVER, RETRY_ALWAYS, RETRY_REPEATABLE, RETRY_SERVER_FAULT } retry;
};

const struct api_verdict *api_verdict_of(enum exec_reason reason);
/* error_code of INTERFACE.md 7.3: a manifest's own, or the table's. */
slice api_error_code(const struct exec_outcome *outcome);
/* Seconds for Retry-After, at least 1; 0: it is not told. */
int64_t api_retry_after_s(const struct exec_outcome *outcome);
bool api_is_retryable(const struct exec_outcome *outcome);

#endif
