/*
 * The contents of struct vault_ring, for seal.c and ring.c.
 */
#ifndef VAULT_RING_H
#define VAULT_RING_H

#include "vault/seal.h"

struct vault_ring_key {
    char id[VAULT_KEY_ID_LEN + 1];
    struct secret *secret;
};

/* The key of an account's words (words.c). */
struct vault_ring_words {
    struct uuid account_id;
    struct secret *key; /* NULL: the place is free */
};
enum { VAULT_RING_WORDS_MAX = 64 };

struct vault_ring {
    size_t count; /* at least 1; the first seals */
    struct vault_ring_key keys[VAULT_MASTER_KEYS_MAX];
    /* Under the first key, an account's by the end of its id. VAULT_RING_WORDS_MAX places, for the
     * loop's thread. */
    struct vault_ring_words *words;
};

#endif
