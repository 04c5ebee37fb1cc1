/*
 * sluice keys rotate; see rotate.h. Connections are read in pages, in the order of their keys. Each
 * is updated only if no other process has changed it since it was read; otherwise it is read again
 * in the next pass.
 */
#include "cli/rotate.h"

#include "connect/oauth_client.h"
#include "event/sign.h"
#include "store/connection.h"

enum { SEALED_BYTES_MAX = VAULT_PLAIN_MAX + VAULT_SEAL_OVERHEAD, PASSES_MAX = 5 };

struct rotation {
    struct session *session;
    struct arena arena; /* one page */
    struct buf sealed, old_sealed;
    size_t done, failed, changed; /* changed: rows that another process changed first */
};

/* Opens what the row has with the key that sealed it, and seals it with the current key. Account
 * and row are part of the seal, so they must stay the same. */
static int seal_again(struct rotation *rotation, const struct vault_binding *binding, slice key_id,
                      slice sealed, struct buf *out, struct err *err)
{
    const struct vault_ring *ring = rotation->session->ring;
    struct secret *plain = NULL;
    buf_clear(out);
    if (vault_open(ring, binding, key_id, sealed, &plain, err) != OK)
        return (int)err->code;
    int result = vault_seal(ring, binding, secret_reveal(plain), out);
    secret_unref(plain);
    return result == OK ? OK
                        : err_set(err, (enum err_code)result, "the credential could not be sealed");
}

static int reseal(struct rotation *rotation, const struct connection *row, struct err *err)
{
    const struct vault_ring *ring = rotation->session->ring;
    const struct vault_binding binding = {row->account_id, row->id};
    if (seal_again(rotation, &binding, row->key_id, row->sealed, &rotation->sealed, err) != OK)
        return (int)err->code;
    /* The statement compares rev, so that a token renewed since the read is not lost. */
    return store_connection_reseal_sync(rotation->session->sync, row->account_id, row->id, row->rev,
                                        buf_slice(&rotation->sealed), vault_ring_key_id(ring), err);
}

/* Reports the failure on stderr: the rotation continues with the other connections, and the command
 * fails at its end. */
static void print_failed(const struct connection *row, const struct err *err)
{
    char account[UUID_TEXT_LEN + 1], user[UUID_TEXT_LEN + 1];
    bool is_of_user = !uuid_is_nil(row->parent_id);
    uuid_format(uuid_or(row->parent_id, row->account_id), account);
    uuid_format(row->account_id, user);
    (void)fprintf(stderr, "connection %lld of account %s%s%s (%.*s): %s\n", (long long)row->id,
                  account, is_of_user ? ", user " : "", is_of_user ? user : "",
                  SLICE_ARG(row->integration_id), err->text);
}

/* Counts a row that was read in pass 1 to PASSES_MAX (0: there is one pass only). *is_reported:
 * whether its error is to be printed. Returns an error only of the database or of memory, since all
 * other rows would fail, too: it ends the rotation. */
static int count_resealed(struct rotation *rotation, int result, const struct err *err, int pass,
                          bool *is_reported)
{
    /* the store returns ERR_NOTFOUND for a row that has changed, the vault for a key that it does
     * not have */
    bool is_changed = result == ERR_NOTFOUND && rotation->sealed.len > 0;
    *is_reported = false;
    if (result == OK) {
        rotation->done++;
        return OK;
    }
    if (result == ERR_IO || result == ERR_NOMEM) {
        rotation->session->err = *err;
        return result;
    }
    if (is_changed)
        rotation->changed++;
    else
        rotation->failed++;
    /* A row that keeps changing is reported after the last pass, a broken row in the first. */
    *is_reported = pass == 0 || pass == (is_changed ? PASSES_MAX : 1);
    return OK;
}

static int rotate_one(struct rotation *rotation, const struct connection *row, int pass)
{
    struct err err;
    bool is_reported;
    int result = count_resealed(rotation, reseal(rotation, row, &err), &err, pass, &is_reported);
    if (is_reported)
        print_failed(row, &err);
    return result;
}

static int rotate_pass(struct rotation *rotation, int pass)
{
    struct session *session = rotation->session;
    /* Keyset paging: resealed rows no longer match, and failed rows are skipped. */
    struct uuid after_account = {{0}};
    int64_t after_id = 0;
    struct connection *list;
    size_t count = 0;
    do {
        arena_reset(&rotation->arena);
        int result = store_connection_stale_sync(session->sync, &rotation->arena,
                                                 vault_ring_key_id(session->ring), after_account,
                                                 after_id, &list, &count, &session->err);
        for (size_t i = 0; result == OK && i < count; i++) {
            buf_clear(&rotation->sealed);
            result = rotate_one(rotation, &list[i], pass);
            after_account = list[i].account_id;
            after_id = list[i].id;
        }
        if (result != OK)
            return result;
    } while (count > 0);
    return OK;
}

/* ---- OAuth clients: few, and changed by operators only, so one pass is enough ---- */

static int reseal_client(struct rotation *rotation, const struct oauth_client *row, struct err *err)
{
    const struct vault_ring *ring = rotation->session->ring;
    const struct vault_binding binding = oauth_client_binding(row->account_id, row->integration_id);
    if (seal_again(rotation, &binding, row->key_id, row->sealed, &rotation->sealed, err) != OK)
        return (int)err->code;
    return store_oauth_client_reseal_sync(
        rotation->session->sync, row, buf_slice(&rotation->sealed), vault_ring_key_id(ring), err);
}

static int rotate_client(struct rotation *rotation, const struct oauth_client *row)
{
    struct err err;
    bool is_reported;
    int result =
        count_resealed(rotation, reseal_client(rotation, row, &err), &err, 0, &is_reported);
    if (is_reported)
        (void)fprintf(stderr, "OAuth client of %.*s: %s\n", SLICE_ARG(row->integration_id),
                      err.text);
    return result;
}

static int rotate_clients(struct rotation *rotation)
{
    struct session *session = rotation->session;
    struct uuid after_account = {{0}};
    slice after = SLICE_NONE;
    struct oauth_client *list;
    size_t count = 0;
    /* `after` points into the arena, so it is reset only once. */
    arena_reset(&rotation->arena);
    do {
        int result = store_oauth_client_stale_sync(session->sync, &rotation->arena,
                                                   vault_ring_key_id(session->ring), after_account,
                                                   after, &list, &count, &session->err);
        for (size_t i = 0; result == OK && i < count; i++) {
            result = rotate_client(rotation, &list[i]);
            after_account = list[i].account_id;
            after = list[i].integration_id;
        }
        if (result != OK)
            return result;
    } while (count > 0);
    return OK;
}

/* ---- webhooks: few, but accounts change them at any time ---- */

static int reseal_webhook(struct rotation *rotation, const struct webhook *row, struct err *err)
{
    const struct vault_ring *ring = rotation->session->ring;
    const struct vault_binding binding = event_secret_binding(row);
    slice old = row->old_sealed;
    if (old.ptr &&
        seal_again(rotation, &binding, row->key_id, old, &rotation->old_sealed, err) != OK)
        return (int)err->code;
    if (seal_again(rotation, &binding, row->key_id, row->sealed, &rotation->sealed, err) != OK)
        return (int)err->code;
    return store_webhook_reseal_sync(rotation->session->sync, row, buf_slice(&rotation->sealed),
                                     old.ptr ? buf_slice(&rotation->old_sealed) : SLICE_NONE,
                                     vault_ring_key_id(ring), err);
}

static int rotate_webhook(struct rotation *rotation, const struct webhook *row, int pass)
{
    struct err err;
    char id[UUID_TEXT_LEN + 1], account[UUID_TEXT_LEN + 1];
    bool is_reported;
    buf_clear(&rotation->sealed);
    int result =
        count_resealed(rotation, reseal_webhook(rotation, row, &err), &err, pass, &is_reported);
    uuid_format(row->id, id);
    uuid_format(row->account_id, account);
    if (is_reported)
        (void)fprintf(stderr, "webhook %s of account %s: %s\n", id, account, err.text);
    return result;
}

/* Rows that another process changed first are read again in another pass, and so are those that
 * failed, which are reported once. */
static int rotate_webhooks(struct rotation *rotation)
{
    struct session *session = rotation->session;
    size_t failed = rotation->failed;
    for (int pass = 1; pass <= PASSES_MAX; pass++) {
        struct uuid after_account = {{0}}, after = {{0}};
        struct webhook *list;
        size_t count;
        rotation->changed = 0;
        rotation->failed = failed;
        do {
            arena_reset(&rotation->arena);
            int result = store_webhook_stale_sync(session->sync, &rotation->arena,
                                                  vault_ring_key_id(session->ring), after_account,
                                                  after, &list, &count, &session->err);
            for (size_t i = 0; result == OK && i < count; i++) {
                result = rotate_webhook(rotation, &list[i], pass);
                after_account = list[i].account_id;
                after = list[i].id;
            }
            if (result != OK)
                return result;
        } while (count > 0);
        if (rotation->changed == 0)
            break;
    }
    return OK;
}

int rotate_all(struct session *session, struct command_call *call)
{
    struct rotation rotation = {.session = session};
    (void)call;
    /* The ring is opened first: without it no credential could be opened. */
    if (session_open_ring(session) != OK || session_open_database(session) != OK)
        return (int)session->err.code;
    arena_init(&rotation.arena, SESSION_ARENA_BYTES_MAX);
    buf_init(&rotation.sealed, SEALED_BYTES_MAX);
    buf_init(&rotation.old_sealed, SEALED_BYTES_MAX);
    int result = OK;
    for (int pass = 1; pass <= PASSES_MAX && result == OK; pass++) {
        rotation.failed = rotation.changed = 0;
        result = rotate_pass(&rotation, pass);
        /* Another pass helps with concurrent changes, but not with failures. */
        if (rotation.changed == 0)
            break;
    }
    if (result == OK)
        result = rotate_clients(&rotation);
    size_t changed = rotation.changed;
    if (result == OK)
        result = rotate_webhooks(&rotation);
    rotation.changed += changed;
    arena_deinit(&rotation.arena);
    buf_deinit(&rotation.sealed);
    buf_deinit(&rotation.old_sealed);
    if (result != OK)
        return result;
    (void)printf("%zu credentials resealed under key %.*s\n", rotation.done,
                 SLICE_ARG(vault_ring_key_id(session->ring)));
    if (rotation.failed + rotation.changed > 0)
        return err_set(&session->err, ERR_CRYPTO,
                       "%zu credentials were not resealed; keep the old master keys",
                       rotation.failed + rotation.changed);
    return OK;
}
