/*
 * changes: drops cached rows that other processes or operator commands have changed
 * (store/change.h), and notifies them of changes made here.
 */
#ifndef SERVER_CHANGES_H
#define SERVER_CHANGES_H

#include "connect/connect.h"
#include "flow/flow.h"
#include "mcp/mcp.h"
#include "server/janitor.h"
#include "vault/auth.h"
#include "vault/user.h"

struct changes;

struct changes_config {
    const char *conninfo;
    struct dns_resolver *dns; /* this and the pointers below outlive changes */
    struct vault_auth *auth;
    struct vault_users *users;
    struct connect_service *connect;
    struct janitor *const *janitor;   /* points to NULL once it is stopped */
    struct exec_service *const *exec; /* exec and flow point to NULL until they are started */
    struct flow_service *const *flow;
    struct mcp_listeners *mcp_listeners;
};

struct changes *changes_new(struct loop *loop, const struct changes_config *config,
                            struct err *err) MUST_CHECK;
/* Accepts NULL. */
void changes_free(struct changes *changes);
/* Notifies other processes, after the commit; used as connect_config.on_changed. */
void changes_notify(struct changes *changes, struct uuid account_id, slice integration_id);
/* Notifies all processes that a user is being erased: they drop what they have cached of it, and
 * one of them deletes its rows. */
void changes_notify_erasing(struct changes *changes, const struct account_user *user);
/* Sends notifications that are not about rows; used as exec_config.on_circuit. */
void changes_send(struct changes *changes, slice payload);

#endif
