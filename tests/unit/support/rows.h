/*
 * Rows that tests begin with, put into their tables as they are: no event, no notification. Each
 * returns OK, or what the database said.
 */
#ifndef SUPPORT_ROWS_H
#define SUPPORT_ROWS_H

#include "store/account.h"
#include "store/api_key.h"
#include "store/connection.h"
#include "store/oauth.h"

/* account_id and name are in. */
int rows_account(struct pg_sync *sync, const struct account *row) MUST_CHECK;
/* account_id, id, hash, prefix, name, scopes, addresses and expires_at are in. */
int rows_key(struct pg_sync *sync, const struct api_key *row) MUST_CHECK;
/* All but the times are in; one that is there is replaced. */
int rows_client(struct pg_sync *sync, const struct oauth_client *row) MUST_CHECK;
/* The first of its app becomes the default. */
int rows_connection(struct pg_sync *sync, const struct connection *row) MUST_CHECK;

#endif
