/*
 * Generates, recognizes and hashes API keys.
 */
#include "vault/key.h"

#include <mbedtls/sha256.h>

#include "base/ascii.h"
#include "base/encode.h"
#include "base/ip.h"
#include "base/mem.h"

enum { KEY_RANDOM_LEN = 32, KEY_MARK_LEN = 3, ADDRESSES_BYTES_MAX = 3000, HMAC_BLOCK_LEN = 64 };

void vault_sha256(slice bytes, uint8_t hash[32])
{
    int rc =
        mbedtls_sha256((const unsigned char *)(bytes.ptr ? bytes.ptr : ""), bytes.len, hash, 0);
    ASSERT(rc == 0); /* software SHA-256 cannot fail */
}

/* One pass of HMAC: the hash of the padded key and the parts. */
static void hash_padded(slice key, uint8_t pad, const slice *parts, size_t count, uint8_t hash[32])
{
    mbedtls_sha256_context sha;
    uint8_t block[HMAC_BLOCK_LEN];
    for (size_t i = 0; i < sizeof(block); i++)
        block[i] = (uint8_t)(pad ^ (i < key.len ? (uint8_t)key.ptr[i] : 0));
    mbedtls_sha256_init(&sha);
    int rc = mbedtls_sha256_starts(&sha, 0);
    rc |= mbedtls_sha256_update(&sha, block, sizeof(block));
    for (size_t i = 0; i < count; i++)
        if (parts[i].len > 0)
            rc |= mbedtls_sha256_update(&sha, (const unsigned char *)parts[i].ptr, parts[i].len);
    rc |= mbedtls_sha256_finish(&sha, hash);
    ASSERT(rc == 0); /* software SHA-256 cannot fail */
    mbedtls_sha256_free(&sha);
    mem_wipe(block, sizeof(block));
}

void vault_hmac_sha256(slice key, const slice *parts, size_t count, uint8_t mac[32])
{
    uint8_t inner[32];
    ASSERT(key.len <= HMAC_BLOCK_LEN);
    hash_padded(key, 0x36, parts, count, inner);
    const slice hash = slice_of(inner, sizeof(inner));
    hash_padded(key, 0x5c, &hash, 1, mac);
    mem_wipe(inner, sizeof(inner));
}

static bool is_base64url(char c)
{
    return ascii_is_alnum(c) || c == '-' || c == '_';
}

bool vault_key_hash(slice text, uint8_t hash[API_KEY_HASH_LEN])
{
    if (text.len != VAULT_KEY_LEN || !slice_starts_with(text, SLICE("sk_")))
        return false;
    for (size_t i = KEY_MARK_LEN; i < text.len; i++)
        if (!is_base64url(text.ptr[i]))
            return false;
    vault_sha256(text, hash);
    return true;
}

void vault_key_new(struct vault_key *key)
{
    uint8_t random[KEY_RANDOM_LEN];
    random_bytes(random, sizeof(random));
    memcpy(key->text, "sk_", KEY_MARK_LEN);
    (void)encode_base64url_in(key->text + KEY_MARK_LEN, VAULT_KEY_LEN - KEY_MARK_LEN,
                              slice_of(random, sizeof(random)));
    key->text[VAULT_KEY_LEN] = '\0';
    memcpy(key->prefix, key->text, VAULT_KEY_PREFIX_LEN);
    key->prefix[VAULT_KEY_PREFIX_LEN] = '\0';
    mem_wipe(random, sizeof(random));
    bool is_key = vault_key_hash(slice_of(key->text, VAULT_KEY_LEN), key->hash);
    ASSERT(is_key);
}

int vault_key_addresses(slice list, struct arena *arena, slice *words, struct err *err)
{
    struct ip_network network;
    struct buf out;
    size_t count = 0;
    if (list.len > ADDRESSES_BYTES_MAX)
        return err_set(err, ERR_LIMIT, "the list of addresses is longer than %d characters",
                       ADDRESSES_BYTES_MAX);
    buf_init(&out, ADDRESSES_BYTES_MAX);
    int status = OK;
    while (status == OK && list.ptr) {
        slice entry = slice_trim(slice_split(&list, ','));
        do {
            slice word = slice_split(&entry, ' ');
            if (word.len == 0 && entry.ptr)
                continue; /* an empty word between two separators */
            status = ++count > API_KEY_ADDRESSES_MAX
                         ? err_set(err, ERR_LIMIT, "the list has more than %d addresses",
                                   API_KEY_ADDRESSES_MAX)
                         : ip_network_parse(word, &network, err);
            buf_append(&out, count > 1 ? SLICE(" ") : SLICE(""));
            buf_append(&out, word);
        } while (status == OK && entry.ptr);
    }
    *words = arena_take(arena, &out);
    if (status == OK && !words->ptr)
        return err_set(err, ERR_NOMEM, "out of memory");
    return status;
}

/* ---- the rights of a new key ---- */

/* Whether each of these stored networks is inside one of the others. Two networks of the list that
 * together contain it do not count: the list is a person's, who can name the larger one. */
static bool are_networks_within(slice words, slice others)
{
    struct ip_network inner, outer;
    while (words.len > 0) {
        bool is_within = false;
        if (ip_network_parse(slice_split(&words, ' '), &inner, NULL) != OK)
            return false;
        for (slice rest = others; rest.len > 0 && !is_within;)
            is_within = ip_network_parse(slice_split(&rest, ' '), &outer, NULL) == OK &&
                        outer.bits <= inner.bits &&
                        ip_network_holds(&outer, inner.bytes, inner.len);
        if (!is_within)
            return false;
    }
    return true;
}

enum vault_unattended vault_unattended_parse(slice word)
{
    if (!word.ptr)
        return UNATTENDED_BY_SETTING;
    return slice_eq_cstr(word, "allow")  ? UNATTENDED_ALLOWED
           : slice_eq_cstr(word, "hold") ? UNATTENDED_HELD
                                         : UNATTENDED_REFUSED;
}

/* A maker that no form can ask does not write over MCP by itself, so neither does its key. */
static int limit_unattended(struct api_key *key, const struct api_key *maker, struct err *err)
{
    enum vault_unattended most = vault_unattended_parse(maker->unattended_writes);
    if (most <= UNATTENDED_ALLOWED)
        return OK;
    if (maker->forms.ptr)
        key->forms = maker->forms;
    if (!key->unattended_writes.ptr)
        key->unattended_writes = maker->unattended_writes;
    if (vault_unattended_parse(key->unattended_writes) >= most)
        return OK;
    return err_set(err, ERR_REFUSED,
                   "the key that makes this key %s writes that no person can confirm",
                   most == UNATTENDED_HELD ? "holds" : "refuses");
}

int vault_key_limit(struct api_key *key, const struct api_key *maker, struct err *err)
{
    char room[48];
    if (!uuid_is_nil(maker->user_id))
        return err_set(err, ERR_REFUSED, "a key that acts for a user makes no keys");
    if (maker->policy.ptr)
        return err_set(err, ERR_REFUSED, "a key with a policy makes no keys");
    if (key->scopes & ~maker->scopes)
        return err_set(err, ERR_REFUSED,
                       "a key has only scopes of the key that makes it, which lacks: %.*s",
                       SLICE_ARG(scopes_format(key->scopes & ~maker->scopes, room)));
    /* From here on what the key leaves open is limited, and what it names is compared. */
    if (!key->expires_at)
        key->expires_at = maker->expires_at;
    else if (maker->expires_at && key->expires_at > maker->expires_at)
        return err_set(err, ERR_REFUSED, "a key expires no later than the key that makes it");
    if (!key->addresses.ptr)
        key->addresses = maker->addresses;
    else if (maker->addresses.ptr && !are_networks_within(key->addresses, maker->addresses))
        return err_set(err, ERR_REFUSED,
                       "a key works only from addresses of the key that makes it: %.*s",
                       SLICE_ARG(maker->addresses));
    return limit_unattended(key, maker, err);
}
