/*
 * breaker: a circuit breaker per origin (DESIGN.md 5). When most executions against an origin fail
 * for the origin's sake (no connection, no reply in time, a reply that is none, 5xx), further ones
 * are refused at once for a while; then a few probes go out, and the first that succeeds closes the
 * circuit, one that fails opens it again for longer.
 *
 * An execution has one vote, given at its end, whatever number of attempts it made. What a provider
 * answers below 500 is a success: it is there. Failures of one account alone do not open a circuit
 * while the origin serves others: its requests may be the cause.
 *
 * Limits: origins_max origins are remembered; the least recently used one without executions goes
 * first. The time comes from the caller (loop clock). Not for several threads.
 */
#ifndef EXEC_BREAKER_H
#define EXEC_BREAKER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/id.h"
#include "base/slice.h"

enum { BREAKER_ORIGIN_MAX = 300 };

struct breaker;

/* 0 stands for the default in each, but for volume_min. */
struct breaker_config {
    unsigned volume_min;  /* executions in a window before it may open; 0: it never opens */
    unsigned percent;     /* of them that must have failed, 50 */
    unsigned window_ms;   /* 10000 */
    unsigned open_ms;     /* first time it opens, 5000; doubles each time ... */
    unsigned open_ms_max; /* ... up to this, 60000 */
    unsigned probes_max;  /* at the same time, 3 */
    size_t origins_max;   /* 4096 */
};

/* An execution's way through the circuit. Zero it before its first use: then breaker_leave is
 * harmless from the start. */
struct breaker_pass {
    struct breaker_origin *origin; /* NULL: not in */
    bool is_probe;
};

/* NULL: out of memory. */
struct breaker *breaker_new(const struct breaker_config *config) MUST_CHECK;
/* No pass may be in (asserted). */
void breaker_free(struct breaker *breaker);

/* false: the circuit is open; *retry_ms says for how long, at least 1. Each true wants one
 * breaker_report or breaker_leave. origin: scheme and authority of a URL. */
bool breaker_enter(struct breaker *breaker, struct breaker_pass *pass, slice origin,
                   uint64_t now_ns, uint64_t *retry_ms) MUST_CHECK;
/* Whether enter would refuse, for those who would have to wait before they could ask. */
bool breaker_would_refuse(struct breaker *breaker, slice origin, uint64_t now_ns);
/* Whether it has opened since this pass went in: another attempt would do no good. */
bool breaker_is_open(const struct breaker_pass *pass, uint64_t now_ns);
/* The vote. Leaves. */
void breaker_report(struct breaker_pass *pass, bool is_failure, struct uuid account_id,
                    uint64_t now_ns);
/* Leaves without a vote. Any number of times. */
void breaker_leave(struct breaker_pass *pass);

/* "https://api.example.com" of a URL, as it is written there. */
slice breaker_origin_of(slice url);

#endif
