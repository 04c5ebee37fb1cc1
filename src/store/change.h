/*
 * change: notifies servers that an account's keys, connections or state were changed by another
 * process, so that they drop their cache of it. A hint by NOTIFY: a server that misses a
 * notification uses its cache for `cache-time` at most.
 */
#ifndef STORE_CHANGE_H
#define STORE_CHANGE_H

#include "store/account_user.h"

#define STORE_CHANGE_CHANNEL "sluice_change"

enum { STORE_CHANGE_INTEGRATION_MAX = 64, STORE_CHANGE_TEXT_MAX = UUID_TEXT_LEN + 1 + 64 };

/* Makes the payload for the whole account or, if integration_id is not SLICE_NONE, for the
 * account's connections to one app. */
slice store_change_format(struct uuid account_id, slice integration_id,
                          char out[STORE_CHANGE_TEXT_MAX + 1]);
/* Returns false if text is not such a payload. *integration_id is SLICE_NONE or a part of text. */
bool store_change_parse(slice text, struct uuid *account_id, slice *integration_id) MUST_CHECK;
/* The payload for a user that is being erased: its rows are no longer cached, and servers erase
 * them (vault/user.h). A version that does not know it ignores it. */
enum { STORE_CHANGE_USER_MAX = 5 + 2 * (UUID_TEXT_LEN + 1) + ACCOUNT_USER_ID_MAX };
slice store_change_user_format(const struct account_user *user,
                               char out[STORE_CHANGE_USER_MAX + 1]);
/* Sets the ids of *user, of which external_id is a part of text. Returns false if text is not such
 * a payload. */
bool store_change_user_parse(slice text, struct account_user *user) MUST_CHECK;
/* Notifies servers of the change. Within a transaction the notification is sent when the
 * transaction commits. */
int store_change_notify_sync(struct pg_sync *sync, struct uuid account_id,
                             struct err *err) MUST_CHECK;

#endif
