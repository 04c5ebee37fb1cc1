/*
 * sha1: the plain algorithm of RFC 3174, method 1.
 */
#include "base/sha1.h"

#include <string.h>

#include "base/assert.h"

static uint32_t rotate_left_32(uint32_t x, unsigned bits)
{
    return (x << bits) | (x >> (32 - bits));
}

static uint32_t load_be32(const unsigned char *p)
{
    return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

static void store_be32(unsigned char *p, uint32_t value)
{
    for (int i = 0; i < 4; i++)
        p[i] = (unsigned char)(value >> (24 - 8 * i));
}

/* Computes f(t) and K(t) of RFC 3174 5. */
static uint32_t round_mix(unsigned t, uint32_t b, uint32_t c, uint32_t d)
{
    if (t < 20)
        return ((b & c) | (~b & d)) + 0x5A827999;
    if (t < 40)
        return (b ^ c ^ d) + 0x6ED9EBA1;
    if (t < 60)
        return ((b & c) | (b & d) | (c & d)) + 0x8F1BBCDC;
    return (b ^ c ^ d) + 0xCA62C1D6;
}

static void compress(uint32_t state[5], const unsigned char *block)
{
    uint32_t w[80];
    for (unsigned t = 0; t < 16; t++)
        w[t] = load_be32(block + 4 * (size_t)t);
    for (unsigned t = 16; t < 80; t++)
        w[t] = rotate_left_32(w[t - 3] ^ w[t - 8] ^ w[t - 14] ^ w[t - 16], 1);
    uint32_t a = state[0], b = state[1], c = state[2], d = state[3], e = state[4];
    for (unsigned t = 0; t < 80; t++) {
        uint32_t next = rotate_left_32(a, 5) + round_mix(t, b, c, d) + e + w[t];
        e = d;
        d = c;
        c = rotate_left_32(b, 30);
        b = a;
        a = next;
    }
    state[0] += a;
    state[1] += b;
    state[2] += c;
    state[3] += d;
    state[4] += e;
}

void sha1_init(struct sha1 *sha)
{
    *sha = (struct sha1){
        .state = {0x67452301, 0xEFCDAB89, 0x98BADCFE, 0x10325476, 0xC3D2E1F0},
    };
}

void sha1_update(struct sha1 *sha, const void *bytes, size_t len)
{
    const unsigned char *p = bytes;
    while (len) {
        /* The number of bytes of an unfinished block in sha->block, left over from the last
         * call. */
        size_t held = sha->bytes % SHA1_BLOCK_LEN;
        size_t step = SHA1_BLOCK_LEN - held < len ? SHA1_BLOCK_LEN - held : len;
        memcpy(sha->block + held, p, step);
        sha->bytes += step;
        p += step;
        len -= step;
        if (held + step == SHA1_BLOCK_LEN)
            compress(sha->state, sha->block);
    }
}

void sha1_final(struct sha1 *sha, unsigned char out[SHA1_LEN])
{
    static const unsigned char padding[SHA1_BLOCK_LEN] = {0x80};
    uint64_t bits = sha->bytes * 8;
    unsigned char length[8];
    store_be32(length, (uint32_t)(bits >> 32));
    store_be32(length + 4, (uint32_t)bits);
    size_t held = sha->bytes % SHA1_BLOCK_LEN;
    /* Pads to 56 modulo 64, so that the eight bytes of the length complete a block (RFC 3174 4). */
    sha1_update(sha, padding, held < 56 ? 56 - held : 120 - held);
    sha1_update(sha, length, sizeof(length));
    ASSERT(sha->bytes % SHA1_BLOCK_LEN == 0);
    for (size_t i = 0; i < 5; i++)
        store_be32(out + 4 * i, sha->state[i]);
}
