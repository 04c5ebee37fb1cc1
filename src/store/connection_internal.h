/*
 * What the files of connections share.
 */
#ifndef STORE_CONNECTION_INTERNAL_H
#define STORE_CONNECTION_INTERNAL_H

#include "store/connection.h"

enum { CONNECTION_COLUMNS = 22 };

#define CONNECTION_SELECT                                                                  \
    "t.account_id, t.id, t.integration_id, t.label, t.is_default, t.auth_kind, t.sealed, " \
    "t.key_id, t.scopes, t.params, t.status, t.error, t.expires_at, t.rev, t.created_at, " \
    "t.updated_at, t.last_used_at, t.failed_at, t.failure, t.identity_email, "             \
    "t.identity_subject, t.identity_label"

extern const struct pg_column connection_columns[CONNECTION_COLUMNS];
extern const struct pg_stmt connection_insert;
extern const struct pg_stmt connection_choice, connection_page, connection_page_of_app,
    connection_apps, connection_count;
extern const struct pg_stmt connection_clear_default, connection_set_default,
    connection_default_if_none, connection_delete, connection_stale, connection_reseal;
extern const struct pg_stmt connection_lost, connection_claim, connection_release;
extern const struct pg_stmt connection_make_default, connection_label_set;
extern const struct pg_stmt connection_identity_set, connection_use;

/* "params" of connection_insert, which precedes count_max there: {} where there are none. */
struct pg_value connection_params_value(const struct connection *connection);

#endif
