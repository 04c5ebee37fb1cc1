/*
 * leases: this process's part of a limit that all processes share (src/limit/README.md). A limit is
 * a rate with a burst, or a number of concurrent calls.
 *
 * An unused limit costs nothing. A limit in use requests its part from the database and reports its
 * usage, once in LEASE_TICK_MS, in one statement for all limits. If its part is not enough and more
 * may be available, it requests more without waiting for the tick, at most every LEASE_GAP_MS. A
 * part is valid for RATE_LEASE_MS, counted from its request. If a request is not answered within a
 * second, the process continues with its last part until a later one is; a process that had no part
 * uses the whole limit, as if `leases` were NULL. Each limit is on its own: on a cluster, one node
 * may be unreachable while the others answer.
 *
 * The owner embeds a lease and zeroes it first. Time is the loop's. Not thread-safe.
 */
#ifndef LIMIT_LEASE_H
#define LIMIT_LEASE_H

#include "base/token_bucket.h"
#include "loop/loop.h"
#include "store/later.h"
#include "store/rate_lease.h"

struct leases;
struct lease;

enum { LEASE_TICK_MS = 500, LEASE_GAP_MS = 20, LEASE_FLUSH_MAX = 1000 };
#define LEASE_MILLION 1000000
#define LEASE_NO_PART (-1)

/* on_ask is called before a request: the owner fills in its current need (lease.backlog,
 * lease.floor). on_answer is called after any answer: the owner checks its calls again. Neither
 * callback may free a lease. */
struct lease_owner {
    void (*on_ask)(struct lease *lease);
    void (*on_answer)(struct lease *lease);
};

enum lease_state {
    LEASE_NONE,  /* no part: not requested yet, or not used for a while */
    LEASE_HELD,  /* the part of the last answer, until ends_ns */
    LEASE_ASKED, /* a request is under way; the part is what the database cannot give away before
                  * it answers */
    LEASE_ALONE, /* the last request was not answered: the last part, or the whole limit */
};

struct lease {
    /* set by the owner */
    size_t backlog; /* calls that could be made now */
    size_t floor;   /* limits by number of calls only: the calls under way */
    /* read by the owner: this process's part of `total`, and the tokens it may use now */
    int64_t part;
    struct token_bucket tokens;
    /* private */
    struct leases *leases;
    const struct lease_owner *owner;
    struct uuid account_id;
    int64_t total, burst;
    enum lease_state state;
    int64_t last;      /* LEASE_ASKED and LEASE_ALONE: the part before; LEASE_NO_PART: none */
    double given_back; /* LEASE_ASKED: of the tokens, by the request */
    struct list link;  /* in leases->active or, while LEASE_ASKED, in leases->asked */
    struct lease_ask *ask;
    uint64_t asked_ns, ends_ns, window;
    uint64_t refused_ns; /* when a request was due for which there was no room; 0: none is due */
    int64_t used, arrived, arrived_before; /* used: the usage since the last report */
    bool is_urgent, may_have_more;
    uint8_t name_len;
    char name[RATE_LEASE_NAME_MAX];
};

/* Returns NULL if out of memory. pool must outlive the result. */
struct leases *leases_new(struct loop *loop, struct pg_pool *pool) MUST_CHECK;
/* To be called before the pool is freed: no further requests are made, and those under way end
 * without an answer. Accepts NULL. */
void leases_close(struct leases *leases);
/* All leases must have ended (asserted). Accepts NULL. */
void leases_free(struct leases *leases);

/* leases is NULL if this process is the only one. name is copied and has 1 to RATE_LEASE_NAME_MAX
 * bytes. */
void lease_init(struct lease *lease, struct leases *leases, const struct lease_owner *owner,
                struct uuid account_id, slice name);
/* Ends a lease; unreported usage is lost. May be called any number of times. */
void lease_deinit(struct lease *lease);
/* Sets the limit in millionths: the rate per second and the burst, or the number of concurrent
 * calls and 0. */
void lease_set(struct lease *lease, int64_t total, int64_t burst, uint64_t now_ns);
/* Updates part and tokens to this time. */
void lease_fill(struct lease *lease, uint64_t now_ns);
/* Counts a call that wants to be made, whether or not it may be: the database divides the limit in
 * proportion to this need. */
void lease_arrive(struct lease *lease, uint64_t now_ns);
/* Counts calls as sent, or as not sent if `calls` is negative. The tokens may become negative. */
void lease_spend(struct lease *lease, int64_t calls);
/* Call it if the part is not enough: it requests more if more may be available. Returns whether an
 * answer follows. */
bool lease_wants_more(struct lease *lease, uint64_t now_ns);
/* Returns the time from the last lease_fill until there are this many tokens; 0 if there are
 * enough. It assumes this process's rate, or an eighth of the whole rate, which the process gets
 * with its next request (so the wait may be longer). */
uint64_t lease_wait_ns(const struct lease *lease, double tokens);

#endif
