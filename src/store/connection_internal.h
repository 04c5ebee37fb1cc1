/*
 * Shared by the files of connections.
 */
#ifndef STORE_CONNECTION_INTERNAL_H
#define STORE_CONNECTION_INTERNAL_H

#include "store/connection.h"

enum { CONNECTION_COLUMNS = 23 };

#define CONNECTION_SELECT                                                                  \
    "t.account_id, t.id, t.integration_id, t.label, t.is_default, t.auth_kind, t.sealed, " \
    "t.key_id, t.scopes, t.params, t.status, t.error, t.expires_at, t.rev, t.created_at, " \
    "t.updated_at, t.last_used_at, t.failed_at, t.failure, t.identity_email, "             \
    "t.identity_subject, t.identity_label, t.parent_id"

extern const struct pg_column connection_columns[CONNECTION_COLUMNS];

#endif
