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

/* The outbox of a statement that changes connections. A row of `from` is {account_id, parent_id,
 * id, integration_id, status, rev, event_id}; status NULL: the row no longer exists. The object of
 * its events is the id as the end of a UUID. */
#define CONNECTION_OUTBOX(kind, from, rest)                                                    \
    STORE_OUTBOX("select c.account_id, c.parent_id, c.event_id, " kind                         \
                 " as kind, lpad(to_hex(c.id), 32, '0')::uuid as object, c.rev, now() as at, " \
                 "c.id, c.integration_id, c.status from " from,                                \
                 "'connection_id', m.id::text, 'account_id', coalesce(m.parent_id, "           \
                 "m.account_id), 'integration_id', m.integration_id, 'status', m.status",      \
                 rest)
#define CONNECTION_HAS_EVENT STORE_HAS_EVENT("c.event_id")
#define CONNECTION_EVENT_ROW "t.account_id, t.parent_id, t.id, t.integration_id"

extern const struct pg_column connection_columns[CONNECTION_COLUMNS];

#endif
