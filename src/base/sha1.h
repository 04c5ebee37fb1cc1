/*
 * SHA-1 (RFC 3174), only for name-based UUIDs (RFC 9562 5.5), where its weakness does not matter.
 * Rooms that protect something use mbedtls.
 */
#ifndef BASE_SHA1_H
#define BASE_SHA1_H

#include <stddef.h>
#include <stdint.h>

enum { SHA1_LEN = 20, SHA1_BLOCK_LEN = 64 };

struct sha1 {
    uint32_t state[5];
    uint64_t bytes;
    unsigned char block[SHA1_BLOCK_LEN];
};

void sha1_init(struct sha1 *sha);
void sha1_update(struct sha1 *sha, const void *bytes, size_t len);
void sha1_final(struct sha1 *sha, unsigned char out[SHA1_LEN]);

#endif
