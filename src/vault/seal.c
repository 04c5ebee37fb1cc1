/*
 * Sealing. The ring keeps its keys as secrets and expands them for each use: each call opens a
 * credential at most once, and the key schedule of AES-256 costs less than a microsecond.
 */
#include "vault/seal.h"

#include <mbedtls/gcm.h>

#include "base/mem.h"
#include "vault/key.h"
#include "vault/ring.h"

enum { FORM = 1, NONCE_LEN = 12, TAG_LEN = 16, AAD_MAX = 64 };

static const struct vault_ring_key *ring_find(const struct vault_ring *ring, slice key_id)
{
    for (size_t i = 0; i < ring->count; i++)
        if (slice_eq(key_id, slice_of(ring->keys[i].id, VAULT_KEY_ID_LEN)))
            return &ring->keys[i];
    return NULL;
}

bool vault_ring_has(const struct vault_ring *ring, slice key_id)
{
    return ring_find(ring, key_id) != NULL;
}

/* Sealed data is bound to an account and a number; for a connection, the number is its id. Other
 * rows use 63 bits of a hash with the sign bit set. Ids are positive, so a sealed text that is
 * copied into another kind of row cannot be opened there. */
struct vault_binding vault_row_binding(struct uuid account_id, const char *kind, slice key)
{
    char room[VAULT_ROW_NAME_MAX + 1];
    uint8_t hash[32];
    int64_t id = INT64_MIN;
    ASSERT(strlen(kind) + key.len <= VAULT_ROW_NAME_MAX);
    vault_sha256(SLICE_JOIN(room, slice_of(kind, strlen(kind) + 1), key), hash);
    for (int i = 0; i < 8; i++)
        id |= (int64_t)((uint64_t)(hash[i] & (i ? 0xff : 0x7f)) << (56 - 8 * i));
    return (struct vault_binding){account_id, id};
}

/* The additional data that the ciphertext is bound to. */
static size_t make_aad(const struct vault_binding *binding, slice key_id,
                       unsigned char out[AAD_MAX])
{
    static const char label[] = "sluice seal 1";
    size_t len = sizeof(label) - 1;
    memcpy(out, label, len);
    memcpy(out + len, binding->account_id.bytes, sizeof(binding->account_id.bytes));
    len += sizeof(binding->account_id.bytes);
    for (int shift = 56; shift >= 0; shift -= 8)
        out[len++] = (unsigned char)((uint64_t)binding->connection_id >> shift);
    ASSERT(len + key_id.len <= AAD_MAX);
    memcpy(out + len, key_id.ptr, key_id.len);
    return len + key_id.len;
}

static bool gcm_init(mbedtls_gcm_context *gcm, const struct vault_ring_key *key)
{
    slice bytes = secret_reveal(key->secret);
    ASSERT(bytes.len == VAULT_MASTER_KEY_LEN);
    mbedtls_gcm_init(gcm);
    return mbedtls_gcm_setkey(gcm, MBEDTLS_CIPHER_ID_AES, (const unsigned char *)bytes.ptr,
                              VAULT_MASTER_KEY_LEN * 8) == 0;
}

int vault_seal(const struct vault_ring *ring, const struct vault_binding *binding, slice plain,
               struct buf *out)
{
    /* The first key seals. The others only open what was sealed before a rotation. */
    const struct vault_ring_key *key = &ring->keys[0];
    unsigned char aad[AAD_MAX];
    size_t aad_len = make_aad(binding, slice_of(key->id, VAULT_KEY_ID_LEN), aad);
    if (plain.len > VAULT_PLAIN_MAX)
        return ERR_LIMIT;
    unsigned char *sealed = (unsigned char *)buf_reserve(out, plain.len + VAULT_SEAL_OVERHEAD);
    if (!sealed)
        return ERR_NOMEM;
    unsigned char *nonce = sealed + 1, *text = nonce + NONCE_LEN, *tag = text + plain.len;
    mbedtls_gcm_context gcm;
    /* A random nonce needs no counter that several processes would have to share. */
    sealed[0] = FORM;
    random_bytes(nonce, NONCE_LEN);
    bool is_sealed = gcm_init(&gcm, key) &&
                     mbedtls_gcm_crypt_and_tag(&gcm, MBEDTLS_GCM_ENCRYPT, plain.len, nonce,
                                               NONCE_LEN, aad, aad_len,
                                               (const unsigned char *)(plain.ptr ? plain.ptr : ""),
                                               text, TAG_LEN, tag) == 0;
    mbedtls_gcm_free(&gcm);
    if (!is_sealed)
        return ERR_NOMEM; /* only an allocation can fail here */
    buf_added(out, plain.len + VAULT_SEAL_OVERHEAD);
    return OK;
}

/* plain has space for text_len bytes and one more byte. */
static int open_into(const struct vault_ring_key *key, const struct vault_binding *binding,
                     slice key_id, slice sealed, unsigned char *plain, struct err *err)
{
    unsigned char aad[AAD_MAX];
    size_t aad_len = make_aad(binding, key_id, aad);
    size_t text_len = sealed.len - VAULT_SEAL_OVERHEAD;
    const unsigned char *nonce = (const unsigned char *)sealed.ptr + 1;
    const unsigned char *text = nonce + NONCE_LEN;
    mbedtls_gcm_context gcm;
    /* GCM checks the tag over text and AAD: no byte of a changed value leaves this function. */
    int rc = MBEDTLS_ERR_GCM_BAD_INPUT;
    if (gcm_init(&gcm, key))
        rc = mbedtls_gcm_auth_decrypt(&gcm, text_len, nonce, NONCE_LEN, aad, aad_len,
                                      text + text_len, TAG_LEN, text, plain);
    mbedtls_gcm_free(&gcm);
    if (rc == 0)
        return OK;
    if (rc != MBEDTLS_ERR_GCM_AUTH_FAILED) /* otherwise only an allocation can fail here */
        return err_set(err, ERR_NOMEM, "out of memory");
    return err_set(err, ERR_CRYPTO,
                   "the sealed data cannot be opened: it was sealed for another row, or has been "
                   "changed");
}

int vault_open(const struct vault_ring *ring, const struct vault_binding *binding, slice key_id,
               slice sealed, struct secret **plain, struct err *err)
{
    *plain = NULL;
    if (sealed.len < VAULT_SEAL_OVERHEAD || sealed.len > VAULT_SEAL_OVERHEAD + VAULT_PLAIN_MAX ||
        sealed.ptr[0] != FORM)
        return err_set(err, ERR_SYNTAX, "the sealed data has an unknown form");
    const struct vault_ring_key *key = ring_find(ring, key_id);
    if (!key)
        return err_set(err, ERR_NOTFOUND,
                       "the data was sealed with master key %.*s, which is not configured",
                       SLICE_ARG(slice_first(key_id, 2 * VAULT_KEY_ID_LEN)));
    size_t len = sealed.len - VAULT_SEAL_OVERHEAD;
    unsigned char *text = mem_alloc(len + 1);
    if (!text)
        return err_set(err, ERR_NOMEM, "out of memory");
    int rc = open_into(key, binding, key_id, sealed, text, err);
    if (rc == OK) {
        *plain = secret_new(slice_of(text, len));
        rc = *plain ? OK : err_set(err, ERR_NOMEM, "out of memory");
    }
    /* The secret has its own copy. This one is wiped before the allocator can reuse it. */
    mem_wipe(text, len + 1);
    mem_free(text);
    return rc;
}
