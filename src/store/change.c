/*
 * Hints of changes; see change.h.
 *
 * A payload is "ACCOUNT" or "ACCOUNT INTEGRATION", at most STORE_CHANGE_TEXT_MAX bytes, or
 * "user ACCOUNT USER EXTERNAL" of a user, whose external id is without spaces. Other processes may
 * run another version, whose reader ignores payloads that it cannot parse.
 */
#include "store/change.h"

#include <stdio.h>

slice store_change_format(struct uuid account_id, slice integration_id,
                          char out[STORE_CHANGE_TEXT_MAX + 1])
{
    ASSERT(integration_id.len <= STORE_CHANGE_INTEGRATION_MAX);
    uuid_format(account_id, out);
    if (integration_id.len == 0)
        return slice_of(out, UUID_TEXT_LEN);
    out[UUID_TEXT_LEN] = ' ';
    memcpy(out + UUID_TEXT_LEN + 1, integration_id.ptr, integration_id.len);
    return slice_of(out, UUID_TEXT_LEN + 1 + integration_id.len);
}

bool store_change_parse(slice text, struct uuid *account_id, slice *integration_id)
{
    slice rest = text;
    slice account = slice_split(&rest, ' ');
    bool is_whole = account.len == text.len;
    *integration_id = is_whole ? SLICE_NONE : rest;
    return uuid_parse(account, account_id) &&
           (is_whole || (rest.len > 0 && rest.len <= STORE_CHANGE_INTEGRATION_MAX));
}

slice store_change_user_format(const struct account_user *user, char out[STORE_CHANGE_USER_MAX + 1])
{
    char account[UUID_TEXT_LEN + 1], id[UUID_TEXT_LEN + 1];
    ASSERT(user->external_id.len <= ACCOUNT_USER_ID_MAX);
    uuid_format(user->account_id, account);
    uuid_format(user->user_id, id);
    int len = snprintf(out, STORE_CHANGE_USER_MAX + 1, "user %s %s %.*s", account, id,
                       SLICE_ARG(user->external_id));
    return slice_of(out, (size_t)len);
}

bool store_change_user_parse(slice text, struct account_user *user)
{
    slice rest = text;
    if (!slice_eq_cstr(slice_split(&rest, ' '), "user"))
        return false;
    *user = (struct account_user){.external_id = SLICE_NONE};
    bool is_valid = uuid_parse(slice_split(&rest, ' '), &user->account_id) &&
                    uuid_parse(slice_split(&rest, ' '), &user->user_id);
    user->external_id = rest;
    return is_valid && rest.len > 0 && rest.len <= ACCOUNT_USER_ID_MAX;
}

int store_change_notify_sync(struct pg_sync *sync, struct uuid account_id, struct err *err)
{
    char id[UUID_TEXT_LEN + 1], sql[128];
    uuid_format(account_id, id);
    /* A command's connection has no loop, so pg/notify.h does not apply. An id needs no
     * escaping. */
    (void)snprintf(sql, sizeof(sql), "select pg_notify('" STORE_CHANGE_CHANNEL "', '%s')", id);
    return pg_sync_run(sync, sql, err);
}
