/*
 * breaker: circuit breakers, by account and origin, and by origin alone. If an account's executions
 * against an origin mostly fail because of the origin (no connection, no reply in time, an invalid
 * reply, 5xx), further executions are refused at once for a while. Then a few probes are sent: the
 * first that succeeds closes the circuit, and a failed probe opens it again for longer. Other
 * accounts are not affected: an account's requests may be the cause.
 *
 * The origin's own circuit, which applies to all accounts, opens if enough accounts failed, and
 * they are a large enough fraction of those that tried. Each account counts once, however many
 * calls it makes. Even then these executions pass: - an account whose last execution there, within
 * the window, succeeded;
 *   - probes: one at a time for each account, and a few in total. During the open period, one
 *     probe now and then is from an account that did not fail there lately, so that failing
 *     accounts do not block the others.
 * The first of these executions that succeeds closes the circuit, and circuits of accounts may then
 * be probed at once.
 *
 * A host that a connection names (`is_host_given`) concerns only its account: it has circuits by
 * account alone, separate from those of an app at the same origin.
 *
 * An execution has one vote, given at its end, however many attempts it made. A reply below 500 is
 * a success: the provider works. An execution that was not sent because of this server has no vote.
 *
 * Limits: origins_max origins and members_max pairs of account and origin are remembered; the least
 * recently used one without executions is dropped first; an account displaces only itself and the
 * few in its shard of the table. The caller passes the time (loop clock). Not thread-safe.
 */
#ifndef LIMIT_BREAKER_H
#define LIMIT_BREAKER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/id.h"
#include "base/slice.h"

enum { BREAKER_ORIGIN_MAX = 300 };

struct breaker;

/* 0 means the default for each member except volume_min. */
struct breaker_config {
    unsigned volume_min; /* executions in a window before a circuit may open; 0: no circuit
                          * ever opens */
    /* accounts that must have failed before the origin's circuit opens; default 3 */
    unsigned accounts_min;
    /* percentage of executions, or of accounts, that must have failed; default 50 */
    unsigned percent;
    unsigned window_ms;   /* default 10000 */
    unsigned open_ms;     /* first open period, doubled each time; default 5000 */
    unsigned open_ms_max; /* longest open period; default 60000 */
    unsigned probes_max;  /* probes at the same time; default 3 */
    size_t origins_max;   /* default 4096 */
    size_t members_max;   /* default 16384 */
};

/* An account and the origin that it calls. Borrowed during a call of the functions below. */
struct breaker_key {
    struct uuid account_id;
    slice origin;         /* scheme and authority of a URL */
    slice integration_id; /* used only with is_host_given */
    bool is_host_given;
};

/* An execution's pass through the circuits. Zero it before its first use, so that breaker_leave may
 * always be called. */
struct breaker_pass {
    struct breaker_member *member; /* NULL: the execution has not entered, or is not counted */
    bool is_probe;                 /* probe of either circuit */
    bool is_member_probe, is_origin_probe;
    unsigned opening; /* the origin's `openings` at entry */
};

struct breaker_refusal {
    uint64_t retry_ms; /* at least 1 */
    bool is_of_all;    /* the origin's circuit, not the account's */
};

/* Returns NULL if out of memory. */
struct breaker *breaker_new(const struct breaker_config *config) MUST_CHECK;
/* No pass may be in use (asserted). */
void breaker_free(struct breaker *breaker);

/* Returns false if a circuit is open; refusal says which, and for how long. Each true requires
 * one breaker_report or breaker_leave. */
bool breaker_enter(struct breaker *breaker, struct breaker_pass *pass,
                   const struct breaker_key *key, uint64_t now_ns,
                   struct breaker_refusal *refusal) MUST_CHECK;
/* Whether breaker_enter would refuse, for a caller that has to wait before it can enter. */
bool breaker_would_refuse(struct breaker *breaker, const struct breaker_key *key, uint64_t now_ns);
/* Whether a circuit has opened since this pass entered: another attempt would not help. */
bool breaker_is_open(const struct breaker_pass *pass, uint64_t now_ns);
/* Votes, then leaves. */
void breaker_report(struct breaker_pass *pass, bool is_failure, uint64_t now_ns);
/* The state changes that the last vote caused in the circuits of the account and the origin, for
 * other processes. */
enum breaker_turn { BREAKER_STAYS, BREAKER_OPENS, BREAKER_CLOSES };
struct breaker_news {
    enum breaker_turn turn;
    uint64_t for_ms; /* open period */
};
struct breaker_votes_news {
    struct breaker_news own, all;
};
const struct breaker_votes_news *breaker_news(const struct breaker *breaker);
/* Call it when another process has changed the circuit of the account, or of the origin if
 * is_of_all: it applies the change here, for at most this process's own open period. */
void breaker_hear(struct breaker *breaker, const struct breaker_key *key, bool is_of_all,
                  const struct breaker_news *news, uint64_t now_ns);
/* Leaves without a vote. May be called any number of times. */
void breaker_leave(struct breaker_pass *pass);

/* Returns the origin of a URL ("https://api.example.com"), with its spelling unchanged. */
slice breaker_origin_of(slice url);

#endif
