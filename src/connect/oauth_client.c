/*
 * OAuth clients; see oauth_client.h. Both rows are loaded at once. If the secret of an account's
 * own client cannot be opened, this is an error, and the shared client does not replace it: a
 * refresh token is bound to the client that got it (RFC 6749 10.4).
 */
#include "connect/oauth_client.h"

#include "connect/internal.h"
#include "http/message.h"

bool oauth_client_is_used(const struct catalog_integration *integration)
{
    return catalog_auth_by(integration, AUTH_OAUTH2) ||
           catalog_auth_by(integration, AUTH_OAUTH2_CLIENT_CREDENTIALS);
}

bool oauth_client_is_id(slice text)
{
    return http_is_visible(text) && text.len <= OAUTH_CLIENT_ID_MAX;
}

bool oauth_client_is_secret(slice text)
{
    return text.len == 0 || (http_is_visible(text) && text.len <= OAUTH_CLIENT_SECRET_MAX);
}

struct vault_binding oauth_client_binding(struct uuid account_id, slice integration_id)
{
    return vault_row_binding(account_id, "oauth_client", integration_id);
}

struct vault_binding oauth_begun_binding(struct uuid account_id,
                                         const uint8_t state_hash[OAUTH_HASH_LEN])
{
    return vault_row_binding(account_id, "oauth_begun", slice_of(state_hash, OAUTH_HASH_LEN));
}

void oauth_client_find(struct connect_service *service, struct oauth_client_lookup *lookup,
                       struct op *op, struct uuid account_id, slice integration_id)
{
    struct pg_pool *pool = service->config.pool;
    store_oauth_client_get(pool, &lookup->own, op, account_id, integration_id);
    store_oauth_client_get(pool, &lookup->shared, op, (struct uuid){{0}}, integration_id);
}

int oauth_client_result(struct connect_service *service, const struct oauth_client_lookup *lookup,
                        slice integration_id, slice *client_id, struct secret **secret)
{
    struct oauth_client client;
    struct err err;
    *secret = NULL;
    int status = store_oauth_client_get_result(&lookup->own, &client);
    if (status == ERR_NOTFOUND)
        status = store_oauth_client_get_result(&lookup->shared, &client);
    if (status != OK)
        return status;
    *client_id = client.client_id;
    if (client.sealed.len == 0)
        return OK;
    struct vault_binding binding = oauth_client_binding(client.account_id, integration_id);
    if (vault_open(service->config.ring, &binding, client.key_id, client.sealed, secret, &err) ==
        OK)
        return OK;
    log_event(LOG_ERROR, "the secret of an OAuth client does not open",
              LOG_STR("integration_id", integration_id), LOG_CSTR("cause", err.text));
    return ERR_CRYPTO;
}
