/*
 * API keys: `sk_` and 43 base64url characters, 256 random bits. A key is shown once and stored as
 * its SHA-256; 256 bits of entropy need no slow hash.
 */
#ifndef VAULT_KEY_H
#define VAULT_KEY_H

#include "base/arena.h"
#include "store/api_key.h"

enum {
    VAULT_KEY_LEN = 46,        /* sk_ and 43 */
    VAULT_KEY_PREFIX_LEN = 10, /* kept for lists: sk_ and 7 characters */
};

struct vault_key {
    char text[VAULT_KEY_LEN + 1]; /* wipe it (mem_wipe) once shown */
    char prefix[VAULT_KEY_PREFIX_LEN + 1];
    uint8_t hash[API_KEY_HASH_LEN];
};

/* Generates a new random key. */
void vault_key_new(struct vault_key *key);
/* Hashes a key that a caller sent. Returns false if the text does not have the form of a key, so no
 * lookup is needed. */
bool vault_key_hash(slice text, uint8_t hash[API_KEY_HASH_LEN]) MUST_CHECK;
/* Reads the addresses that a key may be used from, "10.0.0.0/8, 2001:db8::1", separated by commas,
 * spaces or both, as the stored words in the arena. All of them are checked: a server that
 * understands no entry of the list refuses the key from everywhere. An empty list gives no words.
 * On failure err says what is wrong. */
int vault_key_addresses(slice list, struct arena *arena, slice *words, struct err *err) MUST_CHECK;
/* How writes over /mcp are handled if there is no one to ask about them; the later ones are
 * stricter. */
enum vault_unattended {
    UNATTENDED_BY_SETTING,
    UNATTENDED_ALLOWED,
    UNATTENDED_HELD, /* they wait for an approval (exec/hold.h) */
    UNATTENDED_REFUSED,
};
/* Returns BY_SETTING for SLICE_NONE, and REFUSED for a word of a later version. */
enum vault_unattended vault_unattended_parse(slice word);
/* Limits a new key to the rights of the key that makes it. Addresses, expiry and unattended_writes
 * that it leaves open become those of the maker. Returns ERR_REFUSED, with the reason in err, if it
 * names more than the maker has, or if the maker acts for a user or has a policy of its own. */
int vault_key_limit(struct api_key *key, const struct api_key *maker, struct err *err) MUST_CHECK;
/* Computes the SHA-256 of any bytes; for fingerprints, so that no other room needs mbedtls. */
void vault_sha256(slice bytes, uint8_t hash[32]);
/* Computes the HMAC-SHA256 (RFC 2104) of the parts, as one text, under a key of at most 64 bytes.
 */
void vault_hmac_sha256(slice key, const slice *parts, size_t count, uint8_t mac[32]);

#endif
