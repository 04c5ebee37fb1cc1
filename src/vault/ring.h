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

struct vault_ring {
    size_t count; /* at least 1; the first seals */
    struct vault_ring_key keys[VAULT_MASTER_KEYS_MAX];
};

#endif
