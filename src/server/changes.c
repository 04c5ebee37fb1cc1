/*
 * Notifications of changed accounts; see changes.h.
 */
#include "server/changes.h"

#include "base/mem.h"
#include "base/metric.h"
#include "pg/notify.h"
#include "store/change.h"

struct changes {
    struct changes_config config;
    struct pg_notify *notify;
};

static struct metric heard_total =
    METRIC_INIT("sluice_changes_total", "Notifications of changed accounts, from all processes.",
                METRIC_COUNTER);

/* The rows of a user that is being erased are rows of an account, as far as they are cached. */
static void on_erasing(const struct changes_config *config, const struct account_user *user)
{
    vault_users_forget(config->users, user->account_id, user->external_id);
    vault_auth_forget(config->auth, user->user_id);
    connect_forget_account(config->connect, user->user_id);
    if (*config->flow)
        flow_watch_touch(*config->flow, user->user_id);
    mcp_listeners_tools_changed(config->mcp_listeners, &user->user_id);
    if (*config->janitor)
        janitor_erase_users(*config->janitor);
}

/* A call without a payload means a new connection to the database: notifications may have been
 * missed, so everything cached is dropped. */
static void on_notify(void *owner, slice payload)
{
    struct changes *changes = owner;
    struct uuid account_id;
    slice integration_id;
    struct account_user user;
    if (!payload.ptr) {
        vault_auth_flush(changes->config.auth);
        vault_users_forget(changes->config.users, (struct uuid){{0}}, SLICE_NONE);
        connect_forget_all(changes->config.connect);
        mcp_listeners_tools_changed(changes->config.mcp_listeners, NULL);
        if (*changes->config.flow)
            flow_policies_changed(*changes->config.flow, NULL);
        return;
    }
    if (*changes->config.exec && exec_service_hear(*changes->config.exec, payload))
        return;
    if (store_change_user_parse(payload, &user)) {
        metric_add(metric_series(&heard_total, SLICE_NONE), 1);
        on_erasing(&changes->config, &user);
        return;
    }
    /* The payload is from another version: the cached rows expire by themselves. */
    if (!store_change_parse(payload, &account_id, &integration_id))
        return;
    metric_add(metric_series(&heard_total, SLICE_NONE), 1);
    if (*changes->config.flow)
        flow_watch_touch(*changes->config.flow, account_id);
    mcp_listeners_tools_changed(changes->config.mcp_listeners, &account_id);
    /* The change concerns one app; keys of the account stay cached. */
    if (integration_id.ptr) {
        connect_forget(changes->config.connect, account_id, integration_id);
        return;
    }
    vault_auth_forget(changes->config.auth, account_id);
    connect_forget_account(changes->config.connect, account_id);
    if (*changes->config.flow)
        flow_policies_changed(*changes->config.flow, &account_id);
}

struct changes *changes_new(struct loop *loop, const struct changes_config *config, struct err *err)
{
    struct changes *changes = mem_zalloc(sizeof(*changes));
    if (!changes)
        return err_null(err, ERR_NOMEM, "out of memory");
    changes->config = *config;
    struct pg_notify_config notify = {
        .conninfo = config->conninfo,
        .channel = STORE_CHANGE_CHANNEL,
        .dns = config->dns,
        .on_notify = on_notify,
        .owner = changes,
    };
    changes->notify = pg_notify_new(loop, &notify, err);
    if (changes->notify)
        return changes;
    /* err has the error of pg_notify_new. */
    mem_free(changes);
    return NULL;
}

void changes_free(struct changes *changes)
{
    if (!changes)
        return;
    /* The listener may still call back until it is freed, so it is freed first. */
    pg_notify_free(changes->notify);
    mem_free(changes);
}

void changes_send(struct changes *changes, slice payload)
{
    pg_notify_send(changes->notify, payload);
}

void changes_notify(struct changes *changes, struct uuid account_id, slice integration_id)
{
    char text[STORE_CHANGE_TEXT_MAX + 1];
    pg_notify_send(changes->notify, store_change_format(account_id, integration_id, text));
}

void changes_notify_erasing(struct changes *changes, const struct account_user *user)
{
    char text[STORE_CHANGE_USER_MAX + 1];
    pg_notify_send(changes->notify, store_change_user_format(user, text));
}
