/*
 * Inside of the breaker (exec/breaker*.c): what is remembered of origins, and of accounts there.
 */
#ifndef EXEC_BREAKER_INTERNAL_H
#define EXEC_BREAKER_INTERNAL_H

#include "base/list.h"
#include "base/map.h"
#include "base/metric.h"
#include "exec/breaker.h"

enum { BREAKER_SHARDS = 256 }; /* parts of the table of members, by account */

struct votes {
    uint32_t succeeded, failed;
};

struct circuit {
    bool is_open;     /* until a probe has succeeded */
    unsigned open_ms; /* of the present or last time */
    uint64_t opened_ns, open_until_ns;
    size_t probes;
};

/* Of one half of the window. */
struct tally {
    struct votes votes;
    uint32_t accounts, failing;
};

struct breaker_origin {
    struct breaker *breaker;
    struct list age_link; /* least recently used first */
    struct circuit circuit;
    struct list members; /* by origin_link */
    size_t passes;       /* of them all */
    unsigned openings;   /* and closings: what was counted before is void */
    uint64_t closed_ns, fresh_probe_ns;
    uint64_t half; /* of now */
    struct tally now, before;
    struct metric_series *gauge; /* once it was set */
    size_t name_len;
    char name[BREAKER_ORIGIN_MAX];
};

struct member_key {
    struct uuid account_id;
    uint64_t origin_hash; /* under the process's own key: none can be found that meet */
};

struct breaker_member {
    struct member_key key;
    struct breaker *breaker;
    struct breaker_origin *origin; /* NULL: a host that the account's connection names */
    struct list age_link;          /* in its shard, least recently used first */
    struct list origin_link;
    struct circuit circuit;
    size_t passes;
    uint64_t half; /* of now */
    struct votes now, before;
    uint64_t voted_ns, failed_ns; /* the newest vote, the newest that failed; 0: none */
    unsigned counted_opening;
    bool is_probing;                     /* the origin */
    bool is_counted, is_counted_failing; /* in the origin's tally of `half` */
};

struct shard {
    struct list by_age;
    size_t count;
};

struct breaker {
    struct breaker_config config;
    struct map origins, members;
    struct list by_age; /* origins */
    struct shard shards[BREAKER_SHARDS];
};

/* ---- breaker_table.c ---- */

/* NULL: too many others, or no memory. */
struct breaker_member *breaker_member_get(struct breaker *breaker, const struct breaker_key *key);
struct breaker_member *breaker_member_find(struct breaker *breaker, const struct breaker_key *key);
/* A vote that counts, for the member and for its origin. */
void breaker_member_vote(struct breaker_member *member, bool is_failure, uint64_t now);
/* Of the window up to the newest vote. */
struct votes breaker_member_sum(const struct breaker_member *member);
struct tally breaker_origin_sum(const struct breaker_origin *origin);
bool breaker_is_share(const struct breaker *breaker, uint64_t part, uint64_t all);
bool breaker_member_is_failing(const struct breaker_member *member);
slice breaker_origin_name(const struct breaker_origin *origin);
/* The metric. */
void breaker_origin_set_gauge(struct breaker_origin *origin, bool is_open);
/* No pass is in. */
void breaker_table_deinit(struct breaker *breaker);

#endif
