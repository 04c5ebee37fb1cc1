/*
 * tallies: calls counted in memory (counts.h) by account, five minutes, action and outcome, for
 * charts.
 */
#ifndef EXEC_TALLY_H
#define EXEC_TALLY_H

#include "call/outcome.h"
#include "exec/counts.h"
#include "store/tally.h"

enum { TALLIES_MAX = 8000, TALLIES_FLUSH_MAX = 2000, TALLIES_EVERY_MS = 10000 };

extern const struct counts_class tallies_class;

/* Counts a run that was attempted or blocked. The ids are copied; they are empty if the catalog
 * does not have them. input may be NULL; no value of it is kept. */
void tallies_count(struct counts *tallies, struct uuid account_id, slice integration_id,
                   slice action_id, const struct exec_outcome *outcome, const struct json *input,
                   uint64_t took_ns);
/* Returns the message without the values that it has from the input (NULL: none) and without mail
 * addresses, truncated, in room. */
slice tally_message(char room[TALLY_LAST_MAX], slice message, const struct json *input);

#endif
