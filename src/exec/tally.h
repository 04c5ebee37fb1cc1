/*
 * tallies: calls counted in memory by account, five minutes, action and outcome, for charts. They
 * are written together every ten seconds, and at a shutdown; a process that dies loses the tallies
 * since the last write.
 *
 * Limits: TALLIES_MAX rows in memory, beyond which a call is counted as lost; at most
 * TALLIES_FLUSH_MAX of them are written at a time.
 */
#ifndef EXEC_TALLY_H
#define EXEC_TALLY_H

#include "base/keyed.h"
#include "call/outcome.h"
#include "store/later.h"
#include "store/tally.h"

enum { TALLIES_MAX = 8000, TALLIES_FLUSH_MAX = 2000, TALLIES_EVERY_MS = 10000 };

struct tallies {
    struct keyed_table table; /* struct tally, private to tally.c */
    struct list order;        /* the same structs, oldest first */
    struct timer timer;
    struct store_laters sent;
};

void tallies_init(struct tallies *tallies, struct loop *loop, struct pg_pool *pool);
/* Rows that were not written are lost. */
void tallies_deinit(struct tallies *tallies);
/* Counts a run, unless it was neither attempted nor blocked, or was answered without a call. The
 * ids are copied; they are empty if the catalog does not have them. input may be NULL; no value of
 * it is kept. */
void tallies_count(struct tallies *tallies, struct uuid account_id, slice integration_id,
                   slice action_id, const struct exec_outcome *outcome, const struct json *input,
                   uint64_t took_ns);
/* Returns the message without the values that it has from the input (NULL: none) and without mail
 * addresses, truncated, in room. */
slice tally_message(char room[TALLY_LAST_MAX], slice message, const struct json *input);
/* Writes all rows now. */
void tallies_write(struct tallies *tallies);
bool tallies_are_written(const struct tallies *tallies);

#endif
