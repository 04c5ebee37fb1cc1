/*
 * sluice's client at an app's authorization server: the account's own client, else the one that the
 * operator configured for all accounts (`sluice oauth-clients`).
 */
#ifndef CONNECT_OAUTH_CLIENT_H
#define CONNECT_OAUTH_CLIENT_H

#include "connect/connect.h"
#include "store/oauth.h"

/* Returns the binding of a client's sealed secret. account_id is nil for the client of all
 * accounts. The id is negative, so that no connection has the same binding. */
struct vault_binding oauth_client_binding(struct uuid account_id, slice integration_id);
/* Returns the binding of the sealed secret of an authorization that has begun. */
struct vault_binding oauth_begun_binding(struct uuid account_id,
                                         const uint8_t state_hash[OAUTH_HASH_LEN]);

enum { OAUTH_CLIENT_SECRET_MAX = 16 * 1024 };

/* Whether the app uses OAuth clients. */
bool oauth_client_is_used(const struct catalog_integration *integration);
/* Whether these can be an id and a secret: printable ASCII without spaces, since both become part
 * of a header or a form. The secret of a public client is empty. */
bool oauth_client_is_id(slice text);
bool oauth_client_is_secret(slice text);

struct oauth_client_lookup {
    struct pg_query own, shared;
};
/* Takes two holds on op. */
void oauth_client_find(struct connect_service *service, struct oauth_client_lookup *lookup,
                       struct op *op, struct uuid account_id, slice integration_id);
/* *client_id is in op's arena; *secret is a reference for the caller, or NULL for a public client.
 * Returns ERR_NOTFOUND if there is no client, ERR_CRYPTO if the client's secret cannot be opened
 * here, otherwise the status of the queries. */
int oauth_client_result(struct connect_service *service, const struct oauth_client_lookup *lookup,
                        slice integration_id, slice *client_id, struct secret **secret) MUST_CHECK;

#endif
