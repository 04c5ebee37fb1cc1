/*
 * See gcm.h. The hash is computed as POLYVAL (RFC 8452, appendix A): of blocks whose bytes are
 * turned round, with H times x in its place, it is GHASH without the shift that reflected bits cost
 * after each product. The reduction by two multiplications is that of Gueron, "AES-GCM-SIV
 * implementations" and RFC 8452. Eight blocks are multiplied by H^8 to H^1 and reduced as one sum.
 */
#include "tls/gcm.h"

#include <string.h>

#include "base/mem.h"

#if defined(__x86_64__) && !defined(MBEDTLS_GCM_ALT) && !defined(MBEDTLS_AES_ALT) && \
    !defined(MBEDTLS_BLOCK_CIPHER_C)

#include <immintrin.h>
#include <mbedtls/aes.h>

/* clang does it by itself */
#if defined(__clang__)
#define UNROLLED
#else
#define UNROLLED _Pragma("GCC unroll 8")
#endif
#define FAST static inline __attribute__((target("aes,pclmul,ssse3"), always_inline))

enum { BLOCK = 16, WIDE = 8, ROUNDS_MAX = 14, NONCE = 12, TAG_MIN = 4, BYTES_MAX = 1 << 30 };

/* All of it is secret. */
struct gcm {
    __m128i keys[ROUNDS_MAX + 1];
    __m128i powers[WIDE]; /* H^8 first */
    __m128i sum;          /* of the hash */
    __m128i counter;      /* turned round, so that it counts as a number */
    __m128i mask;         /* of the tag: the first block of the key stream */
    int rounds;
};

FAST __m128i load(const void *bytes)
{
    return _mm_loadu_si128(bytes);
}

FAST void store(void *bytes, __m128i block)
{
    _mm_storeu_si128(bytes, block);
}

FAST __m128i turned(__m128i block)
{
    return _mm_shuffle_epi8(block,
                            _mm_set_epi8(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15));
}

/* ---- AES in counter mode ---- */

/* Up to eight blocks at once. */
FAST void encrypt(const struct gcm *g, __m128i *blocks, int count)
{
    UNROLLED
    for (int i = 0; i < count; i++)
        blocks[i] = _mm_xor_si128(blocks[i], g->keys[0]);
    for (int round = 1; round < g->rounds; round++) {
        UNROLLED
        for (int i = 0; i < count; i++)
            blocks[i] = _mm_aesenc_si128(blocks[i], g->keys[round]);
    }
    UNROLLED
    for (int i = 0; i < count; i++)
        blocks[i] = _mm_aesenclast_si128(blocks[i], g->keys[g->rounds]);
}

FAST void key_stream(struct gcm *g, __m128i *blocks, int count)
{
    UNROLLED
    for (int i = 0; i < count; i++) {
        g->counter = _mm_add_epi32(g->counter, _mm_set_epi32(0, 0, 0, 1));
        blocks[i] = turned(g->counter);
    }
    encrypt(g, blocks, count);
}

/* ---- the hash ---- */

struct product {
    __m128i low, middle, high;
};

FAST void multiply_add(struct product *sum, __m128i a, __m128i b)
{
    sum->low = _mm_xor_si128(sum->low, _mm_clmulepi64_si128(a, b, 0x00));
    sum->high = _mm_xor_si128(sum->high, _mm_clmulepi64_si128(a, b, 0x11));
    sum->middle = _mm_xor_si128(sum->middle, _mm_clmulepi64_si128(a, b, 0x01));
    sum->middle = _mm_xor_si128(sum->middle, _mm_clmulepi64_si128(a, b, 0x10));
}

FAST __m128i reduce(struct product p)
{
    const __m128i poly = _mm_set_epi32((int)0xc2000000, 0, 0, 0);
    p.low = _mm_xor_si128(p.low, _mm_slli_si128(p.middle, 8));
    p.high = _mm_xor_si128(p.high, _mm_srli_si128(p.middle, 8));
    UNROLLED
    for (int i = 0; i < 2; i++)
        p.low =
            _mm_xor_si128(_mm_shuffle_epi32(p.low, 0x4e), _mm_clmulepi64_si128(p.low, poly, 0x10));
    return _mm_xor_si128(p.low, p.high);
}

/* Up to eight blocks, as they lie in memory. */
FAST void hash(struct gcm *g, const __m128i *blocks, int count)
{
    struct product sum = {_mm_setzero_si128(), _mm_setzero_si128(), _mm_setzero_si128()};
    UNROLLED
    for (int i = 0; i < count; i++) {
        __m128i block = turned(blocks[i]);
        if (i == 0)
            block = _mm_xor_si128(block, g->sum);
        multiply_add(&sum, block, g->powers[WIDE - count + i]);
    }
    g->sum = reduce(sum);
}

/* H times x: one bit to the left, reduced where one falls out. */
FAST __m128i times_x(__m128i value)
{
    __m128i top = _mm_srai_epi32(_mm_shuffle_epi32(value, 0xff), 31); /* of its highest bit */
    __m128i carries = _mm_slli_si128(_mm_srli_epi64(value, 63), 8);
    __m128i poly = _mm_set_epi32((int)0xc2000000, 0, 0, 1);
    return _mm_xor_si128(_mm_or_si128(_mm_slli_epi64(value, 1), carries), _mm_and_si128(top, poly));
}

FAST void start(struct gcm *g, const mbedtls_aes_context *aes, const unsigned char *nonce)
{
    const unsigned char *keys =
        (const unsigned char *)(aes->MBEDTLS_PRIVATE(buf) + aes->MBEDTLS_PRIVATE(rk_offset));
    g->rounds = aes->MBEDTLS_PRIVATE(nr);
    for (int i = 0; i <= g->rounds; i++)
        g->keys[i] = load(keys + BLOCK * i);
    unsigned char first[BLOCK] = {0};
    memcpy(first, nonce, NONCE);
    first[BLOCK - 1] = 1;
    __m128i blocks[2] = {_mm_setzero_si128(), load(first)};
    g->counter = turned(blocks[1]);
    encrypt(g, blocks, 2);
    g->mask = blocks[1];
    g->powers[WIDE - 1] = times_x(turned(blocks[0]));
    for (int i = WIDE - 1; i > 0; i--) {
        struct product p = {_mm_setzero_si128(), _mm_setzero_si128(), _mm_setzero_si128()};
        multiply_add(&p, g->powers[i], g->powers[WIDE - 1]);
        g->powers[i - 1] = reduce(p);
    }
    g->sum = _mm_setzero_si128();
}

FAST void hash_bytes(struct gcm *g, const unsigned char *bytes, size_t len)
{
    for (; len > 0; bytes += len < BLOCK ? len : BLOCK, len -= len < BLOCK ? len : BLOCK) {
        unsigned char padded[BLOCK] = {0};
        memcpy(padded, bytes, len < BLOCK ? len : BLOCK);
        __m128i block = load(padded);
        hash(g, &block, 1);
    }
}

/* ---- a message ---- */

/* The last blocks, fewer than eight, the very last of them maybe not whole. */
FAST void crypt_rest(struct gcm *g, bool is_encrypt, const unsigned char *in, unsigned char *out,
                     size_t len)
{
    __m128i stream[WIDE], data[WIDE];
    int count = (int)((len + BLOCK - 1) / BLOCK);
    for (int i = 0; i < WIDE; i++)
        stream[i] = data[i] = _mm_setzero_si128();
    memcpy(data, in, len);
    if (!is_encrypt)
        hash(g, data, count);
    key_stream(g, stream, count);
    for (int i = 0; i < count; i++)
        data[i] = _mm_xor_si128(data[i], stream[i]);
    memcpy(out, data, len);
    if (is_encrypt) {
        memset((unsigned char *)data + len, 0, (size_t)count * BLOCK - len);
        hash(g, data, count);
    }
    mem_wipe(stream, sizeof(stream));
    mem_wipe(data, sizeof(data));
}

FAST void crypt_whole(struct gcm *g, bool is_encrypt, const unsigned char *in, unsigned char *out,
                      size_t len)
{
    for (; len >= (size_t)WIDE * BLOCK;
         len -= WIDE * BLOCK, in += WIDE * BLOCK, out += WIDE * BLOCK) {
        __m128i stream[WIDE], data[WIDE];
        key_stream(g, stream, WIDE);
        UNROLLED
        for (int i = 0; i < WIDE; i++)
            data[i] = load(in + BLOCK * i);
        if (!is_encrypt)
            hash(g, data, WIDE);
        UNROLLED
        for (int i = 0; i < WIDE; i++) {
            data[i] = _mm_xor_si128(data[i], stream[i]);
            store(out + BLOCK * i, data[i]);
        }
        if (is_encrypt)
            hash(g, data, WIDE);
    }
    if (len)
        crypt_rest(g, is_encrypt, in, out, len);
}

__attribute__((target("aes,pclmul,ssse3"))) static void gcm_crypt(
    const void *key, bool is_encrypt, size_t length, const unsigned char *nonce,
    const unsigned char *add, size_t add_len, const unsigned char *input, unsigned char *output,
    unsigned char tag[BLOCK])
{
    struct gcm g;
    start(&g, key, nonce);
    hash_bytes(&g, add, add_len);
    if (is_encrypt)
        crypt_whole(&g, true, input, output, length);
    else
        crypt_whole(&g, false, input, output, length);
    __m128i bits = turned(_mm_set_epi64x((long long)add_len * 8, (long long)length * 8));
    hash(&g, &bits, 1);
    store(tag, _mm_xor_si128(turned(g.sum), g.mask));
    mem_wipe(&g, sizeof(g));
}

bool tls_gcm_is_fast(void)
{
    return __builtin_cpu_supports("aes") && __builtin_cpu_supports("pclmul") &&
           __builtin_cpu_supports("ssse3");
}

/* The key; NULL where the library's own code is to do it. */
static const void *fast_key(const mbedtls_gcm_context *ctx, size_t length, size_t iv_len,
                            size_t add_len, const unsigned char *input, const unsigned char *output,
                            size_t tag_len)
{
    const mbedtls_cipher_context_t *cipher = &ctx->MBEDTLS_PRIVATE(cipher_ctx);
    mbedtls_cipher_type_t type = mbedtls_cipher_get_type(cipher);
    bool is_aes = type == MBEDTLS_CIPHER_AES_128_ECB || type == MBEDTLS_CIPHER_AES_192_ECB ||
                  type == MBEDTLS_CIPHER_AES_256_ECB;
    bool is_usual = iv_len == NONCE && length <= BYTES_MAX && add_len <= BYTES_MAX &&
                    tag_len >= TAG_MIN && tag_len <= BLOCK;
    bool is_behind = output > input && output < input + length;
    return is_aes && is_usual && !is_behind && tls_gcm_is_fast()
               ? cipher->MBEDTLS_PRIVATE(cipher_ctx)
               : NULL;
}

#else /* another processor, or a library that keeps its keys otherwise */

enum { BLOCK = 16 };

static void gcm_crypt(const void *key, bool is_encrypt, size_t length, const unsigned char *nonce,
                      const unsigned char *add, size_t add_len, const unsigned char *input,
                      unsigned char *output, unsigned char tag[BLOCK])
{
    (void)key, (void)is_encrypt, (void)length, (void)nonce, (void)add, (void)add_len, (void)input;
    (void)output, (void)tag;
    UNREACHABLE("there is no fast key");
}

bool tls_gcm_is_fast(void)
{
    return false;
}

static const void *fast_key(const mbedtls_gcm_context *ctx, size_t length, size_t iv_len,
                            size_t add_len, const unsigned char *input, const unsigned char *output,
                            size_t tag_len)
{
    (void)ctx, (void)length, (void)iv_len, (void)add_len, (void)input, (void)output, (void)tag_len;
    return NULL;
}

#endif

/* NOLINTNEXTLINE(bugprone-reserved-identifier) */
int __wrap_mbedtls_gcm_crypt_and_tag(mbedtls_gcm_context *ctx, int mode, size_t length,
                                     const unsigned char *iv, size_t iv_len,
                                     const unsigned char *add, size_t add_len,
                                     const unsigned char *input, unsigned char *output,
                                     size_t tag_len, unsigned char *tag)
{
    const void *key = fast_key(ctx, length, iv_len, add_len, input, output, tag_len);
    unsigned char whole[BLOCK];
    if (!key)
        return __real_mbedtls_gcm_crypt_and_tag(ctx, mode, length, iv, iv_len, add, add_len, input,
                                                output, tag_len, tag);
    gcm_crypt(key, mode == MBEDTLS_GCM_ENCRYPT, length, iv, add, add_len, input, output, whole);
    memcpy(tag, whole, tag_len);
    mem_wipe(whole, sizeof(whole));
    return 0;
}

/* NOLINTNEXTLINE(bugprone-reserved-identifier) */
int __wrap_mbedtls_gcm_auth_decrypt(mbedtls_gcm_context *ctx, size_t length,
                                    const unsigned char *iv, size_t iv_len,
                                    const unsigned char *add, size_t add_len,
                                    const unsigned char *tag, size_t tag_len,
                                    const unsigned char *input, unsigned char *output)
{
    const void *key = fast_key(ctx, length, iv_len, add_len, input, output, tag_len);
    unsigned char wanted[BLOCK], differ = 0;
    if (!key)
        return __real_mbedtls_gcm_auth_decrypt(ctx, length, iv, iv_len, add, add_len, tag, tag_len,
                                               input, output);
    gcm_crypt(key, false, length, iv, add, add_len, input, output, wanted);
    for (size_t i = 0; i < tag_len; i++)
        differ |= (unsigned char)(tag[i] ^ wanted[i]);
    mem_wipe(wanted, sizeof(wanted));
    if (!differ)
        return 0;
    if (length)
        mem_wipe(output, length);
    return MBEDTLS_ERR_GCM_AUTH_FAILED;
}
