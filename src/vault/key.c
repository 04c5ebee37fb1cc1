/*
 * Generates, recognizes and hashes API keys.
 */
#include "vault/key.h"

#include <mbedtls/sha256.h>

#include "base/ascii.h"
#include "base/encode.h"
#include "base/ip.h"
#include "base/mem.h"

enum { KEY_RANDOM_LEN = 32, KEY_MARK_LEN = 3, ADDRESSES_BYTES_MAX = 3000 };

void vault_sha256(slice bytes, uint8_t hash[32])
{
    int rc =
        mbedtls_sha256((const unsigned char *)(bytes.ptr ? bytes.ptr : ""), bytes.len, hash, 0);
    ASSERT(rc == 0); /* software SHA-256 cannot fail */
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
