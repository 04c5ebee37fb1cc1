/*
 * The ledger: one entry for each write that was carried out, so that a test can compare what a
 * client believes with what happened. Entries past LEDGER_ENTRIES_MAX replace the oldest; counters
 * count all.
 */
#ifndef PROVIDER_LEDGER_H
#define PROVIDER_LEDGER_H

#include "provider/provider.h"

enum { LEDGER_ENTRIES_MAX = 200000, LEDGER_TEXT_MAX = 96 };

struct ledger *ledger_new(void);
void ledger_free(struct ledger *ledger);
/* app and kind are constant texts, "gmail" and "messages.send"; object_id and marker (a subject, a
 * title) are cut at LEDGER_TEXT_MAX. */
void ledger_add(struct ledger *ledger, const struct provider_request *request, const char *app,
                const char *kind, slice object_id, slice marker);
/* Counts one more request for this app ("gmail", "notion", "other") with this reply status. */
void ledger_count(struct ledger *ledger, const char *app, unsigned status);
/* GET /__control/ledger and /__control/counters. */
void ledger_write(struct json_writer *w, const struct ledger *ledger);
void ledger_write_counters(struct json_writer *w, const struct ledger *ledger);

#endif
