/*
 * sluice keys rotate; see rotate.h. Rows are read in pages, in the order of their keys. Each is
 * updated only if no other process has changed it since it was read; otherwise it is read again in
 * the next pass.
 */
#include "cli/rotate.h"

#include "connect/oauth_client.h"
#include "event/sign.h"
#include "store/connection.h"

enum { SEALED_BYTES_MAX = VAULT_PLAIN_MAX + VAULT_SEAL_OVERHEAD, PASSES_MAX = 5 };

struct rotation {
    struct session *session;
    struct arena pages[2]; /* a page, and the one before: the next begins after its last row */
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

/* Rows with sealed texts. */
struct sealed_rows {
    size_t row_size;
    store_stale_sync_of *stale;
    int (*reseal)(struct rotation *rotation, const void *row, struct err *err);
    /* Reports the failure on stderr: the rotation continues with the other rows, and the command
     * fails at its end. */
    void (*print_failed)(const void *row, const struct err *err);
};

/* ---- connections ---- */

static int reseal_connection(struct rotation *rotation, const void *of, struct err *err)
{
    const struct connection *row = of;
    const struct vault_ring *ring = rotation->session->ring;
    const struct vault_binding binding = {row->account_id, row->id};
    if (seal_again(rotation, &binding, row->key_id, row->sealed, &rotation->sealed, err) != OK)
        return (int)err->code;
    /* The statement compares rev, so that a token renewed since the read is not lost. */
    return store_connection_reseal_sync(rotation->session->sync, row->account_id, row->id, row->rev,
                                        buf_slice(&rotation->sealed), vault_ring_key_id(ring), err);
}

static void print_connection(const void *of, const struct err *err)
{
    const struct connection *row = of;
    char account[UUID_TEXT_LEN + 1], user[UUID_TEXT_LEN + 1];
    bool is_of_user = !uuid_is_nil(row->parent_id);
    uuid_format(uuid_or(row->parent_id, row->account_id), account);
    uuid_format(row->account_id, user);
    (void)fprintf(stderr, "connection %lld of account %s%s%s (%.*s): %s\n", (long long)row->id,
                  account, is_of_user ? ", user " : "", is_of_user ? user : "",
                  SLICE_ARG(row->integration_id), err->text);
}

/* ---- OAuth clients ---- */

static int reseal_client(struct rotation *rotation, const void *of, struct err *err)
{
    const struct oauth_client *row = of;
    const struct vault_ring *ring = rotation->session->ring;
    const struct vault_binding binding = oauth_client_binding(row->account_id, row->integration_id);
    if (seal_again(rotation, &binding, row->key_id, row->sealed, &rotation->sealed, err) != OK)
        return (int)err->code;
    return store_oauth_client_reseal_sync(
        rotation->session->sync, row, buf_slice(&rotation->sealed), vault_ring_key_id(ring), err);
}

static void print_client(const void *of, const struct err *err)
{
    const struct oauth_client *row = of;
    (void)fprintf(stderr, "OAuth client of %.*s: %s\n", SLICE_ARG(row->integration_id), err->text);
}

/* ---- webhooks ---- */

static int reseal_webhook(struct rotation *rotation, const void *of, struct err *err)
{
    const struct webhook *row = of;
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

static void print_webhook(const void *of, const struct err *err)
{
    const struct webhook *row = of;
    char id[UUID_TEXT_LEN + 1], account[UUID_TEXT_LEN + 1];
    uuid_format(row->id, id);
    uuid_format(row->account_id, account);
    (void)fprintf(stderr, "webhook %s of account %s: %s\n", id, account, err->text);
}

/* ---- all ---- */

static const struct sealed_rows kinds[] = {
    {sizeof(struct connection), store_connection_stale_sync, reseal_connection, print_connection},
    {sizeof(struct oauth_client), store_oauth_client_stale_sync, reseal_client, print_client},
    {sizeof(struct webhook), store_webhook_stale_sync, reseal_webhook, print_webhook},
};

/* Counts a row that was read in pass 1 to PASSES_MAX. *is_reported: whether its error is to be
 * printed. Returns an error only of the database or of memory, since all
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
    *is_reported = pass == (is_changed ? PASSES_MAX : 1);
    return OK;
}

static int rotate_one(struct rotation *rotation, const struct sealed_rows *kind, const void *row,
                      int pass)
{
    struct err err;
    bool is_reported;
    buf_clear(&rotation->sealed);
    int result =
        count_resealed(rotation, kind->reseal(rotation, row, &err), &err, pass, &is_reported);
    if (is_reported)
        kind->print_failed(row, &err);
    return result;
}

/* Keyset paging: resealed rows no longer match, and failed rows are skipped. */
static int rotate_pass(struct rotation *rotation, const struct sealed_rows *kind, int pass)
{
    static const union {
        struct connection connection;
        struct oauth_client client;
        struct webhook webhook;
    } none;
    struct session *session = rotation->session;
    const void *after = &none;
    size_t count = 1;
    for (size_t page = 0; count > 0; page++) {
        struct arena *arena = &rotation->pages[page % 2];
        arena_reset(arena);
        const char *rows = kind->stale(session->sync, arena, vault_ring_key_id(session->ring),
                                       after, &count, &session->err);
        if (!rows)
            return (int)session->err.code;
        for (size_t i = 0; i < count; i++) {
            after = rows + i * kind->row_size;
            int result = rotate_one(rotation, kind, after, pass);
            if (result != OK)
                return result;
        }
    }
    return OK;
}

/* Rows that another process changed first are read again in another pass, and so are those that
 * failed, which are reported once. */
static int rotate_kind(struct rotation *rotation, const struct sealed_rows *kind)
{
    size_t failed = rotation->failed, changed = rotation->changed;
    int result = OK;
    for (int pass = 1; pass <= PASSES_MAX && result == OK; pass++) {
        rotation->failed = failed;
        rotation->changed = changed;
        result = rotate_pass(rotation, kind, pass);
        /* Another pass helps with concurrent changes, but not with failures. */
        if (rotation->changed == changed)
            break;
    }
    return result;
}

int rotate_all(struct session *session, struct command_call *call)
{
    struct rotation rotation = {.session = session};
    (void)call;
    /* The ring is opened first: without it no credential could be opened. */
    if (session_open_ring(session) != OK || session_open_database(session) != OK)
        return (int)session->err.code;
    for (size_t i = 0; i < ARRAY_LEN(rotation.pages); i++)
        arena_init(&rotation.pages[i], SESSION_ARENA_BYTES_MAX);
    buf_init(&rotation.sealed, SEALED_BYTES_MAX);
    buf_init(&rotation.old_sealed, SEALED_BYTES_MAX);
    int result = OK;
    for (size_t i = 0; i < ARRAY_LEN(kinds) && result == OK; i++)
        result = rotate_kind(&rotation, &kinds[i]);
    for (size_t i = 0; i < ARRAY_LEN(rotation.pages); i++)
        arena_deinit(&rotation.pages[i]);
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
