/*
 * usage: what each key of an account and each of its users did, counted in memory (counts.h) by
 * day, and written once a minute. It is not a bill: a process that dies loses a minute.
 */
#ifndef EXEC_USAGE_H
#define EXEC_USAGE_H

#include "call/outcome.h"
#include "exec/counts.h"

enum { USAGE_MAX = 50000, USAGE_FLUSH_MAX = 2000, USAGE_EVERY_MS = 60 * 1000 };

extern const struct counts_class usage_class;

struct usage_by {
    struct uuid account_id; /* which pays */
    struct uuid user_id;    /* nil: the account itself */
    struct uuid key_id;     /* nil: none is known */
};
/* Counts a run that was attempted or blocked, with its duration unless it was blocked. */
void usage_count(struct counts *usage, const struct usage_by *by,
                 const struct exec_outcome *outcome, uint64_t took_ns, bool is_write,
                 bool is_of_flow);

#endif
