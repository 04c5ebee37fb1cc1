/*
 * The ledger: one entry for each write that was carried out, so that a test can compare what a
 * client believes with what happened. When there are LEDGER_ENTRIES_MAX entries, a new one replaces
 * the oldest. The counters count all writes.
 */
#ifndef PROVIDER_LEDGER_H
#define PROVIDER_LEDGER_H

#include "provider/provider.h"

enum { LEDGER_ENTRIES_MAX = 200000, LEDGER_TEXT_MAX = 96 };

struct ledger *ledger_new(void);
void ledger_free(struct ledger *ledger);
/* Counts one more request for this app ("gmail", "notion", "other") with this reply status. */
void ledger_count(struct ledger *ledger, const char *app, unsigned status);
/* Write the replies to GET /__control/ledger and /__control/counters. */
void ledger_write(struct json_writer *w, const struct ledger *ledger);
void ledger_write_counters(struct json_writer *w, const struct ledger *ledger);

#endif
