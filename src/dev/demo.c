/*
 * The demo account; see demo.h.
 */
#include "dev/demo.h"

#include "base/clock.h"
#include "base/mem.h"
#include "cli/change.h"
#include "cli/credential.h"

enum { KEY_FILE_BYTES_MAX = 64 * 1024, CREDENTIAL_BYTES_MAX = 4096 };

static const char account_name[] = "demo", key_file[] = "api_key";

/* ---- the account ---- */

static int make_account(struct dev_demo *demo, struct session *session)
{
    struct vault_command_request request = {
        .kind = VAULT_ACCOUNT_CREATE,
        .account = {.account = {.account_id = uuid_v7(), .name = slice_cstr(account_name)},
                    .is_again = true}, /* another account of this name is disabled */
    };
    demo->account_id = request.account.account.account_id;
    return change_vault(session, &request, NULL);
}

static int find_account(struct dev_demo *demo, struct session *session)
{
    struct account *list;
    size_t count;
    if (store_account_list_sync(session->sync, &session->arena, &list, &count, &session->err) != OK)
        return (int)session->err.code;
    /* A disabled account does not change; a new account is made. */
    for (size_t i = 0; i < count; i++) {
        if (list[i].disabled_at || !slice_eq_cstr(list[i].name, account_name))
            continue;
        demo->account_id = list[i].account_id;
        return OK;
    }
    return make_account(demo, session);
}

/* ---- the key ---- */

/* All four scopes are required: a key that was revoked or has lost a scope is replaced. */
static bool is_usable(const struct api_key *key, const uint8_t hash[API_KEY_HASH_LEN])
{
    return memcmp(key->hash, hash, API_KEY_HASH_LEN) == 0 && !key->revoked_at &&
           (!key->expires_at || key->expires_at > clock_shared_us()) && key->scopes == SCOPE_ALL;
}

/* Uses the key in the file if the account still has it. */
static bool take_old_key(struct dev_demo *demo, struct session *session,
                         const struct dev_folder *folder)
{
    uint8_t hash[API_KEY_HASH_LEN];
    const struct api_key *keys = NULL;
    struct buf text;
    size_t count;
    bool is_found = false;
    buf_init(&text, KEY_FILE_BYTES_MAX);
    int result = dev_folder_read(folder, key_file, &text, &session->err);
    slice key = buf_slice(&text);
    /* The file ends with a newline, so that it prints well in a terminal. */
    while (key.len > 0 && key.ptr[key.len - 1] == '\n')
        key.len--;
    if (result == OK && key.len == VAULT_KEY_LEN && vault_key_hash(key, hash))
        keys = store_api_key_list_sync(session->sync, &session->arena, demo->account_id, &count,
                                       &session->err);
    for (size_t i = 0; keys && i < count; i++)
        is_found = is_found || is_usable(&keys[i], hash);
    /* The text is copied only if the database knows its hash. */
    if (is_found)
        memcpy(demo->key, key.ptr, VAULT_KEY_LEN);
    demo->key[VAULT_KEY_LEN] = '\0';
    mem_wipe(text.ptr, text.cap);
    buf_deinit(&text);
    return is_found;
}

static int store_key(struct dev_demo *demo, struct session *session, const struct vault_key *fresh)
{
    struct vault_command_request request = {
        .kind = VAULT_KEY_CREATE,
        .key.key = {.account_id = demo->account_id,
                    .id = uuid_v7(),
                    .prefix = slice_cstr(fresh->prefix),
                    .name = SLICE("sluice dev"),
                    .scopes = SCOPE_ALL,
                    .created_at = clock_shared_us()},
    };
    memcpy(request.key.key.hash, fresh->hash, sizeof(fresh->hash));
    return change_vault(session, &request, NULL);
}

static int make_demo_key(struct dev_demo *demo, struct session *session,
                         const struct dev_folder *folder)
{
    struct vault_key fresh;
    char line[VAULT_KEY_LEN + 2];
    vault_key_new(&fresh);
    int result = store_key(demo, session, &fresh);
    memcpy(demo->key, fresh.text, sizeof(demo->key));
    int len = snprintf(line, sizeof(line), "%s\n", fresh.text);
    if (result == OK)
        result = dev_folder_write(folder, key_file, slice_of(line, (size_t)len), &session->err);
    /* Both copies of the key are wiped; demo->key is the one that is printed. */
    mem_wipe(line, sizeof(line));
    mem_wipe(&fresh, sizeof(fresh));
    return result;
}

/* ---- the connections ---- */

/* Returns whether the connection is live and its credential is the one that the provider accepts
 * now. */
static bool is_good(struct session *session, const struct connection *row, slice credential)
{
    const struct vault_binding binding = {row->account_id, row->id};
    struct secret *plain = NULL;
    if (row->status != CONNECTION_LIVE ||
        vault_open(session->ring, &binding, row->key_id, row->sealed, &plain, &session->err) != OK)
        return false;
    /* Compared in constant time, as secrets are everywhere. */
    bool is_same = slice_eq_secret(secret_reveal(plain), credential);
    secret_unref(plain);
    return is_same;
}

static int connect_app(struct dev_demo *demo, struct session *session,
                       const struct catalog_integration *integration, slice credential)
{
    int64_t id;
    struct call_enrol_request request;
    /* the scopes are unknown: the emulator's demo tokens are allowed everything */
    const struct call_order order = {.integration = integration, .credential = credential};
    slice label = arena_printf(&session->arena, "Demo %.*s", SLICE_ARG(integration->name));
    if (credential_order_read(session, &order, label, &request) != OK)
        return (int)session->err.code;
    request.save.account_id = demo->account_id;
    request.save.is_default = true;
    return change_save(session, &request.save, &id);
}

/* Keeps the first connection that works and removes dev's connections that do not. Connections
 * with other labels are the user's and stay. */
static int mend_app(struct dev_demo *demo, struct session *session,
                    const struct catalog_integration *integration, slice credential,
                    const struct connection *rows, size_t count)
{
    bool is_there = false;
    for (size_t i = 0; i < count; i++) {
        const struct connection *row = &rows[i];
        if (!slice_eq(row->integration_id, integration->integration_id) ||
            !slice_starts_with(row->label, SLICE("Demo ")))
            continue;
        if (!is_there && is_good(session, row, credential)) {
            is_there = true;
            continue;
        }
        struct connect_command_request request = {
            .kind = CONNECT_REMOVE,
            .connection = {.account_id = row->account_id, .id = row->id},
        };
        if (change_connect(session, &request) != OK)
            return (int)session->err.code;
    }
    /* All other demo connections were removed; the new connection becomes the default. */
    return is_there ? OK : connect_app(demo, session, integration, credential);
}

static int make_connections(struct dev_demo *demo, struct session *session,
                            const struct json *tokens)
{
    size_t count;
    const struct connection *rows = store_connection_list_sync(
        session->sync, &session->arena, demo->account_id, &count, &session->err);
    int result = rows ? OK : (int)session->err.code;
    for (uint32_t i = 0; result == OK && i < tokens->count; i++) {
        const struct json_member *app = &tokens->as.members[i];
        const struct catalog_integration *integration =
            catalog_find_integration(session->catalog, json_str(&app->key), NULL);
        struct buf text;
        struct json_writer w;
        if (!integration) /* the provider may emulate apps that this catalog does not have */
            continue;
        buf_init(&text, CREDENTIAL_BYTES_MAX);
        json_begin(&w, &text);
        json_open(&w, '{');
        json_member_str(&w, "access_token", json_str(&app->value));
        json_close(&w, '}');
        result = mend_app(demo, session, integration, buf_slice(&text), rows, count);
        buf_deinit(&text);
    }
    return result;
}

int dev_demo_make(struct dev_demo *demo, struct session *session, const struct dev_folder *folder,
                  const struct json *tokens)
{
    ASSERT(json_is(tokens, JSON_OBJECT));
    *demo = (struct dev_demo){.key = ""};
    /* The order matters: the key belongs to the account, and connections need both. */
    if (find_account(demo, session) != OK)
        return (int)session->err.code;
    if (!take_old_key(demo, session, folder) && make_demo_key(demo, session, folder) != OK)
        return (int)session->err.code;
    return make_connections(demo, session, tokens);
}
