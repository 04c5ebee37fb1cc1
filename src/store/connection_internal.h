/*
 * Shared by the files of connections.
 */
#ifndef STORE_CONNECTION_INTERNAL_H
#define STORE_CONNECTION_INTERNAL_H

#include "store/connection.h"

enum { CONNECTION_COLUMNS = 24 };

#define CONNECTION_SELECT                                                                  \
    "t.account_id, t.id, t.integration_id, t.label, t.is_default, t.auth_kind, t.sealed, " \
    "t.key_id, t.scopes, t.params, t.status, t.error, t.expires_at, t.rev, t.created_at, " \
    "t.updated_at, t.last_used_at, t.failed_at, t.failure, t.identity_email, "             \
    "t.identity_subject, t.identity_label, t.parent_id, coalesce(t.is_shared, false)"

/* Whether row t acts as the user of a struct connection_twin. A subject may be that of a workspace:
 * then two known addresses tell its members apart. */
#define CONNECTION_MAY_BE_TWIN(t) t ".params::jsonb = :params::jsonb and " t ".status <> 'revoked'"
#define CONNECTION_IS_TWIN(t)                                                 \
    t ".identity_subject = :subject and " CONNECTION_MAY_BE_TWIN(             \
        t) " and (" t ".identity_email is null or :email is null or lower(" t \
           ".identity_email) = lower(:email))"
#define CONNECTION_TWIN_OF(name, type) PG_OF(#name, type, struct connection_twin, name)
#define CONNECTION_TWIN_PARAMS                                                         \
    CONNECTION_TWIN_OF(integration_id, PG_TEXT), CONNECTION_TWIN_OF(subject, PG_TEXT), \
        CONNECTION_TWIN_OF(email, PG_TEXT), CONNECTION_TWIN_OF(params, PG_TEXT)

extern const struct pg_column connection_columns[CONNECTION_COLUMNS];

#endif
