/*
 * Faults on request: rules set through PUT /__control/faults, tried in order for each request; the
 * first that matches and is not used up applies.
 *
 *   {"rules": [{"match": {"method": "POST", "path_prefix": "/gmail/", "token": "ya29..."},
 *               "count": 2, "skip": 0, "action": {...}}]}
 *
 * An action has one of these kinds, latency_ms, or both:
 * {"latency_ms": 200} wait, then answer as usual
 *   {"hold": true}                       wait for the next change of the rules (PUT, DELETE,
 * reset), then answer as usual, or with the given status
 *   {"status": 429, "retry_after": 3, "body": {...} | "text", "executed": false}
 *   {"reset": "before" | "after" | "mid_body"}
 *   {"slow_body": {"bytes": 10, "interval_ms": 50}}
 *   {"endless_body": true}  {"close_after_headers": true}  {"garbage": true}
 *   {"hang": "before" | "after"}
 * "before": the request is not carried out. "after", "mid_body" and the other kinds that change the
 * body: it is carried out and entered in the ledger. "status": it is carried out only if executed
 * is true.
 */
#ifndef PROVIDER_FAULT_H
#define PROVIDER_FAULT_H

#include "base/err.h"
#include "provider/provider.h"

enum { FAULT_RULES_MAX = 100, FAULT_BODY_MAX = 64 * 1024 };

enum fault_kind {
    FAULT_NONE, /* latency only */
    FAULT_STATUS,
    FAULT_RESET_BEFORE,
    FAULT_RESET_AFTER,
    FAULT_RESET_MID_BODY,
    FAULT_SLOW_BODY,
    FAULT_ENDLESS_BODY,
    FAULT_CLOSE_AFTER_HEADERS,
    FAULT_GARBAGE,
    FAULT_HANG_BEFORE,
    FAULT_HANG_AFTER,
};

struct fault {
    enum fault_kind kind;
    int64_t latency_ms;
    bool is_held;                  /* until the rules change */
    int64_t status, retry_after_s; /* retry_after_s is -1 if there is none */
    bool is_executed;              /* status: carries the request out first */
    slice body; /* status: SLICE_NONE for the error shape of the app; lives as long as the rules */
    bool is_body_json;
    int64_t slow_bytes, slow_interval_ms;
};

struct faults *faults_new(void);
void faults_free(struct faults *faults);
/* Replaces all rules with those of a document. On an error, nothing changes. */
int faults_set(struct faults *faults, const struct json *document, struct err *err) MUST_CHECK;
void faults_clear(struct faults *faults);
/* Returns the number of times the rules have been replaced. When it changes, held replies are
 * sent. */
uint64_t faults_changes(const struct faults *faults);
/* Returns the fault for this request, which counts toward the `count` of its rule, or NULL if there
 * is none. */
const struct fault *faults_take(struct faults *faults, const struct http_exchange *http);
void faults_write(struct json_writer *w, const struct faults *faults);

#endif
