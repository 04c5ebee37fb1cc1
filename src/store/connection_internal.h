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

/* `changed`, whose `returning` follows. The other default of the same integration gives way first.
 * `(select count(*) from cleared) >= 0` is always true: it makes the first update run to its end
 * before a row of the second is touched, so that the unique index finds no two defaults. Such a
 * statement goes alone, since two of one integration in a set would each see the table as it was
 * before both. */
#define CONNECTION_MAKE_DEFAULT                                                                   \
    "cleared as (update sluice.connection t set is_default = false, rev = t.rev + 1, "            \
    "op_token = :op_token, updated_at = :now @from where t.account_id = :account_id "             \
    "and t.is_default and t.id <> :id and t.integration_id = (select c.integration_id "           \
    "from sluice.connection c where c.account_id = :account_id and c.id = :id) returning t.id), " \
    "changed as (update sluice.connection t set is_default = true, rev = t.rev + 1, "             \
    "op_token = :op_token, updated_at = :now @update(sluice.connection) "                         \
    "and (select count(*) from cleared) >= 0"

/* "params" of connection_insert, which precedes count_max there: {} where there are none. */
struct pg_value connection_params_value(const struct connection *connection);

#endif
