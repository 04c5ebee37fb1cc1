/*
 * Sealed credentials and inputs: AES-256-GCM under a master key, bound to account, row and key id,
 * so that a ciphertext moved to another row does not open.
 *
 * Form 1: byte 0x01, 12 bytes of random nonce, ciphertext, 16 bytes of tag. Additional data:
 * "sluice seal 1", the account's 16 bytes, the connection id as 8 bytes big-endian, the key id.
 *
 * Master keys: 32 bytes as base64 or hex. Several (separated by comma or white space, '#' starts a
 * comment up to the end of its line) allow rotation: the first seals, all open. A key's id is
 * derived from the key: 8 hex digits of SHA-256.
 */
#ifndef VAULT_SEAL_H
#define VAULT_SEAL_H

#include "base/buf.h"
#include "base/err.h"
#include "base/id.h"
#include "base/secret.h"

enum {
    VAULT_MASTER_KEY_LEN = 32,
    VAULT_MASTER_KEYS_MAX = 16,
    VAULT_KEY_ID_LEN = 8,
    VAULT_SEAL_OVERHEAD = 1 + 12 + 16,
    VAULT_PLAIN_MAX = 64 * 1024,
};

struct vault_ring; /* the master keys */

/* text: as described above. ERR_SYNTAX, ERR_INVALID (no key, or a key twice) with a sentence
 * that never contains key material. */
struct vault_ring *vault_ring_new(slice text, struct err *err) MUST_CHECK;
/* Reads a file of at most 64 KB; ERR_REFUSED if others may read the file. */
struct vault_ring *vault_ring_from_file(const char *path, struct err *err) MUST_CHECK;
void vault_ring_free(struct vault_ring *ring);
/* Returns the id of the key that seals; it lives as long as the ring. */
slice vault_ring_key_id(const struct vault_ring *ring);
/* Returns whether the ring has the key with that id. */
bool vault_ring_has(const struct vault_ring *ring, slice key_id);
/* Writes a new master key as base64 text and a newline, for `dev` and `keys master`. */
void vault_master_key_new(struct buf *out);

struct vault_binding {
    struct uuid account_id;
    int64_t connection_id;
};
/* Returns the binding of a row other than a connection, from its kind and its key, which have at
 * most VAULT_ROW_NAME_MAX bytes together. */
enum { VAULT_ROW_NAME_MAX = 1000 };
struct vault_binding vault_row_binding(struct uuid account_id, const char *kind, slice key);
/* Appends the sealed form. ERR_LIMIT if plain is over VAULT_PLAIN_MAX, ERR_NOMEM. */
int vault_seal(const struct vault_ring *ring, const struct vault_binding *binding, slice plain,
               struct buf *out) MUST_CHECK;
/* Opens a sealed form. Returns ERR_NOTFOUND if the ring does not have its key (err names the id),
 * ERR_CRYPTO if it does not open with it, ERR_SYNTAX if it is not a sealed form, or ERR_NOMEM. */
int vault_open(const struct vault_ring *ring, const struct vault_binding *binding, slice key_id,
               slice sealed, struct secret **plain, struct err *err) MUST_CHECK;

#endif
