/*
 * Initial rows of tests, inserted directly into their tables, without an event or a notification.
 * Each function returns OK, or the database's error.
 */
#ifndef SUPPORT_ROWS_H
#define SUPPORT_ROWS_H

#include "store/account.h"
#include "store/api_key.h"
#include "store/connection.h"
#include "store/oauth.h"

/* The caller sets account_id and name. */
int rows_account(struct pg_sync *sync, const struct account *row) MUST_CHECK;
/* The caller sets account_id, id, hash, prefix, name, scopes, addresses and expires_at. */
int rows_key(struct pg_sync *sync, const struct api_key *row) MUST_CHECK;
/* The caller sets everything except the times. An existing row is replaced. */
int rows_client(struct pg_sync *sync, const struct oauth_client *row) MUST_CHECK;
/* The first connection of an app becomes the default. */
int rows_connection(struct pg_sync *sync, const struct connection *row) MUST_CHECK;

#endif
