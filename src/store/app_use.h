/*
 * app_use: how much an account uses one app, and with which keys, for the page of a connection.
 */
#ifndef STORE_APP_USE_H
#define STORE_APP_USE_H

#include "store/tally_sums.h"

enum { APP_USE_NEWEST = 200 };

/* Sums an account's calls of an app for each step of the range, up to `until` (sets `at`,
 * succeeded, failed and blocked of each sum). Each slot of TALLY_SLOT_S seconds in the range is
 * looked up by key, so the cost does not depend on the number of other apps. A step without calls
 * has no row. */
void store_app_use(STORE_ARGS, struct uuid account_id, slice integration_id,
                   const struct tally_range *range, int64_t until);
STORE_LIST_RESULT(store_app_use_result, tally_sum)

/* Lists the keys that called through a connection, by name, and how many of their calls failed.
 * Only the account's newest APP_USE_NEWEST executions are searched, which do not include calls of
 * flows. payer_id: the account, also of a user's connection: its keys are named. The result is in
 * the op's arena. */
struct app_key {
    struct uuid id; /* nil: the calls of no key, or of an unknown one */
    slice name;     /* SLICE_NONE: the key no longer exists */
    int64_t calls, failed;
};
void store_app_keys(STORE_ARGS, struct uuid account_id, int64_t connection_id,
                    struct uuid payer_id);
STORE_LIST_RESULT(store_app_keys_result, app_key)

#endif
