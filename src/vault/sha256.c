/*
 * FIPS 180-4, with the instructions of Intel's "SHA Extensions": two rounds each, on a state in two
 * registers. By their letters there, from the lowest word: FEBA and HGDC.
 */
#include "vault/sha256.h"

#if defined(__x86_64__)

#include <cpuid.h>
#include <immintrin.h>

#include "base/mem.h"

enum { BLOCK = 64, LENGTH_BYTES = 8 };

static const uint32_t round_words[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2,
};

#define WITH_SHA __attribute__((target("sha,sse4.1")))

static bool has_instructions(void)
{
    enum { UNKNOWN, NO, YES };
    static int known;
    unsigned a, b, c, d;
    if (known == UNKNOWN) /* processors with SHA have SSE 4.1 */
        known = __get_cpuid_count(7, 0, &a, &b, &c, &d) && (b & bit_SHA) ? YES : NO;
    return known == YES;
}

/* Loads four words, which are big-endian. */
WITH_SHA static __m128i load_words(const unsigned char *at)
{
    const __m128i swap = _mm_set_epi64x(0x0c0d0e0f08090a0b, 0x0405060700010203);
    return _mm_shuffle_epi8(_mm_loadu_si128((const __m128i *)at), swap);
}

WITH_SHA static void add_blocks(__m128i state[2], const unsigned char *at, size_t count)
{
    for (; count > 0; count--, at += BLOCK) {
        __m128i feba = state[0], hgdc = state[1];
        /* the words of four rounds, and of the next three times four */
        __m128i w0 = load_words(at), w1 = load_words(at + 16);
        __m128i w2 = load_words(at + 32), w3 = load_words(at + 48);
        for (size_t round = 0; round < ARRAY_LEN(round_words); round += 4) {
            __m128i sum = _mm_add_epi32(w0, _mm_loadu_si128((const __m128i *)&round_words[round]));
            hgdc = _mm_sha256rnds2_epu32(hgdc, feba, sum);
            feba = _mm_sha256rnds2_epu32(feba, hgdc, _mm_shuffle_epi32(sum, 0x0e));
            sum = _mm_add_epi32(_mm_sha256msg1_epu32(w0, w1), _mm_alignr_epi8(w3, w2, 4));
            w0 = w1;
            w1 = w2;
            w2 = w3;
            w3 = _mm_sha256msg2_epu32(sum, w3);
        }
        state[0] = _mm_add_epi32(state[0], feba);
        state[1] = _mm_add_epi32(state[1], hgdc);
    }
}

WITH_SHA static void hash_all(slice bytes, uint8_t hash[32])
{
    __m128i state[2] = {_mm_set_epi64x(0x6a09e667bb67ae85, 0x510e527f9b05688c),
                        _mm_set_epi64x(0x3c6ef372a54ff53a, 0x1f83d9ab5be0cd19)};
    /* the rest of the text, a bit that ends it, and its length in bits */
    unsigned char end[2 * BLOCK] = {0};
    size_t rest = bytes.len % BLOCK, end_count = rest + 1 + LENGTH_BYTES > BLOCK ? 2 : 1;
    uint64_t bits = __builtin_bswap64((uint64_t)bytes.len * 8);
    uint32_t words[8];
    add_blocks(state, (const unsigned char *)bytes.ptr, bytes.len / BLOCK);
    if (rest > 0)
        memcpy(end, bytes.ptr + bytes.len - rest, rest);
    end[rest] = 0x80;
    memcpy(end + end_count * BLOCK - sizeof(bits), &bits, sizeof(bits));
    add_blocks(state, end, end_count);
    memcpy(words, state, sizeof(words));
    static const uint8_t order[] = {3, 2, 7, 6, 1, 0, 5, 4}; /* A to H */
    for (size_t i = 0; i < ARRAY_LEN(order); i++) {
        uint32_t word = __builtin_bswap32(words[order[i]]);
        memcpy(hash + i * sizeof(word), &word, sizeof(word));
    }
    mem_wipe(end, sizeof(end)); /* it may have a part of a key */
}

bool sha256_by_processor(slice bytes, uint8_t hash[32])
{
    if (!has_instructions())
        return false;
    hash_all(bytes, hash);
    return true;
}

#else

bool sha256_by_processor(slice bytes, uint8_t hash[32])
{
    (void)bytes;
    (void)hash;
    return false;
}

#endif
