/*
 * changes: what other processes and operator commands change is forgotten here at once
 * (store/change.h), and what this one changes is told to them.
 */
#ifndef CMD_CHANGES_H
#define CMD_CHANGES_H

#include "connect/connect.h"
#include "vault/auth.h"

struct changes;

struct changes_config {
    const char *conninfo;
    struct dns_resolver *dns; /* these outlive it */
    struct vault_auth *auth;
    struct connect_service *connect;
};

struct changes *changes_new(struct loop *loop, const struct changes_config *config,
                            struct err *err) MUST_CHECK;
/* NULL is fine. */
void changes_free(struct changes *changes);
/* Tells other processes, after the commit; as connect_config.on_changed. */
void changes_tell(struct changes *changes, struct uuid account_id, slice integration_id);

#endif
