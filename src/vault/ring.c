/*
 * Master keys: read from text or a file; their ids are derived from their hashes.
 */
#include "vault/ring.h"

#include <stdlib.h>
#include <sys/stat.h>

#include "base/encode.h"
#include "base/file.h"
#include "base/mem.h"
#include "vault/key.h"

enum { FILE_BYTES_MAX = 64 * 1024, HEX_LEN = 2 * VAULT_MASTER_KEY_LEN };

static bool is_separator(char c)
{
    return c == ',' || c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

/* The next word of the text; comments are skipped. It is empty at the end. */
static slice next_word(slice *text)
{
    while (text->len) {
        if (text->ptr[0] == '#') {
            slice_split(text, '\n');
            continue;
        }
        if (!is_separator(text->ptr[0]))
            break;
        *text = slice_from(*text, 1);
    }
    size_t len = 0;
    while (len < text->len && !is_separator(text->ptr[len]) && text->ptr[len] != '#')
        len++;
    slice word = slice_first(*text, len);
    *text = slice_from(*text, len);
    return word;
}

static int decode_key(slice word, struct buf *bytes, size_t number, struct err *err)
{
    /* Hex is recognised by its length: 32 bytes have 44 characters at most in base64. */
    int rc = word.len == HEX_LEN ? decode_hex(bytes, word) : decode_base64url(bytes, word);
    if (rc != OK && word.len != HEX_LEN) {
        buf_clear(bytes);
        rc = decode_base64(bytes, word);
    }
    if (rc != OK || !buf_is_ok(bytes))
        return err_set(err, ERR_SYNTAX, "master key %zu is neither base64 nor hex", number);
    if (bytes->len != VAULT_MASTER_KEY_LEN)
        return err_set(err, ERR_SYNTAX, "master key %zu has %zu bytes; a master key has %d", number,
                       bytes->len, VAULT_MASTER_KEY_LEN);
    return OK;
}

/* The id is derived from the key's hash, so that operators do not have to name keys. */
static void name_key(struct vault_ring_key *key, slice bytes)
{
    uint8_t hash[32];
    vault_sha256(bytes, hash);
    encode_hex_in(key->id, sizeof(key->id), slice_of(hash, VAULT_KEY_ID_LEN / 2));
}

static int ring_add(struct vault_ring *ring, slice bytes, struct err *err)
{
    struct vault_ring_key *key = &ring->keys[ring->count];
    name_key(key, bytes);
    for (size_t i = 0; i < ring->count; i++)
        if (slice_eq(slice_cstr(ring->keys[i].id), slice_cstr(key->id)))
            return err_set(err, ERR_INVALID, "master keys %zu and %zu are the same", i + 1,
                           ring->count + 1);
    key->secret = key->id[0] ? secret_new(bytes) : NULL;
    if (!key->secret)
        return err_set(err, ERR_NOMEM, "out of memory");
    ring->count++;
    return OK;
}

static int ring_parse(struct vault_ring *ring, slice text, struct err *err)
{
    slice word;
    while ((word = next_word(&text)).len) {
        struct buf bytes;
        if (ring->count == VAULT_MASTER_KEYS_MAX)
            return err_set(err, ERR_LIMIT, "more than %d master keys", VAULT_MASTER_KEYS_MAX);
        buf_init(&bytes, 256);
        int rc = decode_key(word, &bytes, ring->count + 1, err);
        if (rc == OK)
            rc = ring_add(ring, buf_slice(&bytes), err);
        /* The buffer holds the key unencrypted, after an error as well. */
        if (bytes.ptr)
            mem_wipe(bytes.ptr, bytes.cap);
        buf_deinit(&bytes);
        if (rc != OK)
            return rc;
    }
    if (ring->count == 0)
        return err_set(err, ERR_INVALID,
                       "no master key: give 32 random bytes as base64 or hex "
                       "(`openssl rand -base64 32` makes one)");
    return OK;
}

struct vault_ring *vault_ring_new(slice text, struct err *err)
{
    struct vault_ring *ring = mem_zalloc(sizeof(*ring));
    if (!ring)
        return err_null(err, ERR_NOMEM, "out of memory");
    ring->words = mem_zalloc(VAULT_RING_WORDS_MAX * sizeof(*ring->words));
    if (!ring->words)
        (void)err_set(err, ERR_NOMEM, "out of memory");
    else if (ring_parse(ring, text, err) == OK)
        return ring;
    vault_ring_free(ring);
    return NULL;
}

/* ---- files ---- */

/* The mode bits that would let others read the file. systemd gives a unit its credentials by an ACL
 * on a file of root, and the mask of an ACL appears as the group bits of the mode: 0440, though no
 * group may read it. Their folder belongs to the unit alone. */
static mode_t mode_of_others(const char *path)
{
    slice folder = slice_cstr(getenv("CREDENTIALS_DIRECTORY")), file = slice_cstr(path);
    bool is_credential = folder.len > 0 && slice_starts_with(file, folder) &&
                         slice_starts_with(slice_from(file, folder.len), SLICE("/")) &&
                         !strstr(path, "/../");
    return is_credential ? S_IRWXO | S_IWGRP : S_IRWXG | S_IRWXO;
}

struct vault_ring *vault_ring_from_file(const char *path, struct err *err)
{
    struct vault_ring *ring = NULL;
    struct buf text;
    mode_t mode;
    buf_init(&text, FILE_BYTES_MAX);
    int code = file_read_into(path, &text, &mode, err);
    if (code == OK && mode & mode_of_others(path))
        code = err_set(err, ERR_REFUSED,
                       "others may read %s, which holds master keys: run chmod 600 on it", path);
    if (code == OK)
        ring = vault_ring_new(buf_slice(&text), err);
    if (text.ptr)
        mem_wipe(text.ptr, text.cap);
    buf_deinit(&text);
    return ring;
}

void vault_ring_free(struct vault_ring *ring)
{
    if (!ring)
        return;
    for (size_t i = 0; i < ring->count; i++)
        secret_unref(ring->keys[i].secret);
    for (size_t i = 0; ring->words && i < VAULT_RING_WORDS_MAX; i++)
        secret_unref(ring->words[i].key);
    mem_free(ring->words);
    mem_free(ring);
}

slice vault_ring_key_id(const struct vault_ring *ring)
{
    ASSERT(ring->count > 0);
    return slice_of(ring->keys[0].id, VAULT_KEY_ID_LEN);
}

void vault_master_key_new(struct buf *out)
{
    uint8_t bytes[VAULT_MASTER_KEY_LEN];
    random_bytes(bytes, sizeof(bytes));
    encode_base64(out, slice_of(bytes, sizeof(bytes)));
    buf_append_char(out, '\n');
    mem_wipe(bytes, sizeof(bytes));
}
