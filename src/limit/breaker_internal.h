/*
 * Internals of the breaker (limit/breaker*.c): the state of origins, and of accounts at an origin.
 */
#ifndef LIMIT_BREAKER_INTERNAL_H
#define LIMIT_BREAKER_INTERNAL_H

#include "base/keyed.h"
#include "base/metric.h"
#include "limit/breaker.h"

enum {
    BREAKER_SHARDS = 256
}; /* number of shards of the table of members; the account selects
    * one */

struct votes {
    uint32_t succeeded, failed;
};

/* The counts in one half of the window. accounts and failing are used only for origins. */
struct tally {
    struct votes votes;
    uint32_t accounts, failing;
};

/* The window has two halves: the current half, and the one before it. */
struct window {
    uint64_t half; /* the current half */
    struct tally now, before;
};

struct circuit {
    bool is_open;     /* true until a probe has succeeded */
    unsigned open_ms; /* length of the current or last period */
    uint64_t opened_ns, open_until_ns;
    size_t probes;
};

struct breaker_origin {
    struct breaker *breaker;
    struct list age_link; /* least recently used first */
    struct circuit circuit;
    struct list members; /* struct breaker_member, linked by origin_link */
    size_t passes;       /* number of all passes */
    unsigned openings;   /* number of openings and closings; each makes earlier counts void */
    uint64_t closed_ns, fresh_probe_ns;
    struct window window;
    struct metric_series *gauge; /* NULL until it is first set */
    size_t name_len;
    char name[BREAKER_ORIGIN_MAX];
};

struct breaker_member {
    struct keyed keyed; /* by account and origin; in its shard, least recently used first */
    struct uuid account_id;
    struct breaker *breaker;
    struct breaker_origin *origin; /* NULL: a host from the account's connection */
    struct list origin_link;
    struct circuit circuit;
    size_t passes;
    struct window window;
    uint64_t voted_ns, failed_ns; /* the newest vote, the newest failed vote; 0: none */
    unsigned counted_opening;
    bool is_probing;                     /* this member probes its origin */
    bool is_counted, is_counted_failing; /* counted in the origin's tally of `window.half` */
};

struct shard {
    struct list by_age;
    size_t count;
};

struct breaker {
    struct breaker_config config;
    struct map origins;
    struct keyed_table members;
    struct list by_age;             /* origins */
    struct breaker_votes_news news; /* changes caused by the last vote */
    struct uuid first;              /* first account; nil: none */
    bool has_others;
    struct shard shards[BREAKER_SHARDS];
};

/* ---- breaker_table.c ---- */

/* Returns NULL if too many others are in use, or if out of memory. */
struct breaker_origin *breaker_origin_get(struct breaker *breaker, slice name);
struct breaker_member *breaker_member_get(struct breaker *breaker, const struct breaker_key *key);
struct breaker_member *breaker_member_find(struct breaker *breaker, const struct breaker_key *key);
/* Counts a vote for the member and for its origin. */
void breaker_member_vote(struct breaker_member *member, bool is_failure, uint64_t now);
/* Returns the counts of the window that ends with the newest vote. */
struct tally breaker_window_sum(const struct window *window);
bool breaker_is_share(const struct breaker *breaker, uint64_t part, uint64_t all);
bool breaker_member_is_failing(const struct breaker_member *member);
slice breaker_origin_name(const struct breaker_origin *origin);
/* Sets the origin's metric. */
void breaker_origin_set_gauge(struct breaker_origin *origin, bool is_open);
/* No pass may be in use. */
void breaker_table_deinit(struct breaker *breaker);

#endif
