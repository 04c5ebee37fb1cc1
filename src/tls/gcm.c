/*
 * See gcm.h. The field of GHASH is worked in as POLYVAL's (RFC 8452, appendix A): with the bytes of
 * every block reversed and the hash key multiplied by x once, no bit has to be reversed, and a
 * product is four carry-less multiplications and a reduction. Eight blocks share one reduction:
 * each is multiplied by its own power of the key. There is no look-up by secret bytes and no branch
 * on them.
 */
#if defined(__x86_64__)
#define MBEDTLS_ALLOW_PRIVATE_ACCESS /* the round keys that the library has made */

#include "tls/gcm.h"

#include <immintrin.h>
#include <mbedtls/aes.h>
#include <string.h>

#include "base/mem.h"

#define FAST __attribute__((target("aes,pclmul,ssse3")))

enum { BLOCK = 16, LANES = 8, LEN_MAX = 1 << 30 };

/* The compiler unrolls no loop at -O2, and in a loop the blocks would live in memory. */
#define EACH(_) _(0) _(1) _(2) _(3) _(4) _(5) _(6) _(7)

struct gcm {
    const __m128i *keys; /* rounds + 1 of them */
    int rounds;
    __m128i powers[LANES]; /* of the hash key: the first, the second ... */
    __m128i hash;          /* bytes reversed, like all that is hashed */
    __m128i counter;       /* of the next block, bytes reversed: 32 bits count */
    __m128i tag_mask;
};

/* ---- the field ---- */

FAST static inline __m128i reversed(__m128i block)
{
    const __m128i order = _mm_set_epi8(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    return _mm_shuffle_epi8(block, order);
}

/* x^128 + x^127 + x^126 + x^121 + 1, without its first term. */
FAST static inline __m128i polynomial(void)
{
    return _mm_set_epi32((int)0xc2000000, 0, 0, 1);
}

FAST static __m128i times_x(__m128i a)
{
    __m128i top = _mm_shuffle_epi32(_mm_srai_epi32(a, 31), 0xff); /* all ones when the bit is set */
    __m128i carry = _mm_slli_si128(_mm_srli_epi64(a, 63), 8);
    __m128i doubled = _mm_or_si128(_mm_slli_epi64(a, 1), carry);
    return _mm_xor_si128(doubled, _mm_and_si128(top, polynomial()));
}

/* A product before its reduction, the middle part apart. */
struct product {
    __m128i low, middle, high;
};

FAST static inline void add_product(struct product *sum, __m128i a, __m128i b)
{
    sum->low = _mm_xor_si128(sum->low, _mm_clmulepi64_si128(a, b, 0x00));
    sum->high = _mm_xor_si128(sum->high, _mm_clmulepi64_si128(a, b, 0x11));
    sum->middle = _mm_xor_si128(sum->middle, _mm_clmulepi64_si128(a, b, 0x01));
    sum->middle = _mm_xor_si128(sum->middle, _mm_clmulepi64_si128(a, b, 0x10));
}

/* Times x^-128: Montgomery's reduction, 64 bits at a time. */
FAST static inline __m128i reduced(struct product sum)
{
    __m128i low = _mm_xor_si128(sum.low, _mm_slli_si128(sum.middle, 8));
    __m128i high = _mm_xor_si128(sum.high, _mm_srli_si128(sum.middle, 8));
    for (int half = 0; half < 2; half++) {
        __m128i folded = _mm_clmulepi64_si128(low, polynomial(), 0x10);
        low = _mm_xor_si128(_mm_shuffle_epi32(low, 0x4e), folded);
    }
    return _mm_xor_si128(high, low);
}

FAST static inline __m128i times(__m128i a, __m128i b)
{
    struct product product = {_mm_setzero_si128(), _mm_setzero_si128(), _mm_setzero_si128()};
    add_product(&product, a, b);
    return reduced(product);
}

/* One block, which is reversed here. */
FAST static inline void hash_block(struct gcm *g, __m128i block)
{
    g->hash = times(_mm_xor_si128(g->hash, reversed(block)), g->powers[0]);
}

/* ---- the cipher ---- */

#define COUNT(i)      b[i] = reversed(_mm_add_epi32(g->counter, _mm_set_epi32(0, 0, 0, i)));
#define WHITEN(i)     b[i] = _mm_xor_si128(b[i], key);
#define ROUND(i)      b[i] = _mm_aesenc_si128(b[i], key);
#define LAST_ROUND(i) b[i] = _mm_aesenclast_si128(b[i], key);

FAST static inline void encrypt_blocks(const struct gcm *g, __m128i b[LANES])
{
    __m128i key = _mm_loadu_si128(g->keys);
    EACH(WHITEN)
    for (int round = 1; round < g->rounds; round++) {
        key = _mm_loadu_si128(g->keys + round);
        EACH(ROUND)
    }
    key = _mm_loadu_si128(g->keys + g->rounds);
    EACH(LAST_ROUND)
}

/* The next eight blocks of the key stream. */
FAST static inline void stream_blocks(struct gcm *g, __m128i b[LANES])
{
    EACH(COUNT)
    g->counter = _mm_add_epi32(g->counter, _mm_set_epi32(0, 0, 0, LANES));
    encrypt_blocks(g, b);
}

#define APPLY(i)                                                                         \
    {                                                                                    \
        __m128i text = _mm_loadu_si128((const __m128i *)(const void *)(in + (i)*BLOCK)); \
        __m128i result = _mm_xor_si128(text, b[i]);                                      \
        b[i] = reversed(is_decrypt ? text : result);                                     \
        _mm_storeu_si128((__m128i *)(void *)(out + (i)*BLOCK), result);                  \
    }
#define HASH(i) add_product(&sum, b[i], g->powers[LANES - 1 - (i)]);

/* 128 bytes; in and out may be the same. */
FAST static inline void run_blocks(struct gcm *g, const unsigned char *in, unsigned char *out,
                                   bool is_decrypt)
{
    struct product sum = {_mm_setzero_si128(), _mm_setzero_si128(), _mm_setzero_si128()};
    __m128i b[LANES];
    stream_blocks(g, b);
    EACH(APPLY)
    b[0] = _mm_xor_si128(b[0], g->hash);
    EACH(HASH)
    g->hash = reduced(sum);
}

/* Less than 128 bytes: the last ones. A block that is not whole is hashed with zeros behind it. */
FAST static void run_rest(struct gcm *g, const unsigned char *in, unsigned char *out, size_t len,
                          bool is_decrypt)
{
    __m128i b[LANES];
    if (len == 0)
        return;
    stream_blocks(g, b);
    for (size_t i = 0; len > 0; i++) {
        size_t now = len < BLOCK ? len : BLOCK;
        __m128i text = _mm_setzero_si128(), cipher = text;
        memcpy(&text, in, now);
        __m128i result = _mm_xor_si128(text, b[i]);
        memcpy(out, &result, now);
        memcpy(&cipher, is_decrypt ? (const void *)&text : (const void *)&result, now);
        hash_block(g, cipher);
        in += now;
        out += now;
        len -= now;
    }
    mem_wipe(b, sizeof(b));
}

FAST static void run(struct gcm *g, const unsigned char *in, unsigned char *out, size_t len,
                     bool is_decrypt)
{
    for (; len >= LANES * BLOCK; len -= LANES * BLOCK) {
        run_blocks(g, in, out, is_decrypt);
        in += LANES * BLOCK;
        out += LANES * BLOCK;
    }
    run_rest(g, in, out, len, is_decrypt);
}

/* ---- one message ---- */

FAST static void begin(struct gcm *g, const mbedtls_gcm_context *gcm, const unsigned char *nonce,
                       const unsigned char *aad, size_t aad_len)
{
    const mbedtls_aes_context *aes = gcm->cipher_ctx.cipher_ctx;
    unsigned char first[BLOCK] = {[BLOCK - 1] = 1};
    __m128i b[LANES] = {_mm_setzero_si128()};
    memcpy(first, nonce, 12);
    g->keys = (const __m128i *)(const void *)(aes->buf + aes->rk_offset);
    g->rounds = aes->nr;
    g->counter = reversed(_mm_loadu_si128((const __m128i *)(const void *)first));
    g->hash = _mm_setzero_si128();
    b[1] = _mm_loadu_si128((const __m128i *)(const void *)first);
    encrypt_blocks(g, b); /* two are of use: the hash key and the mask of the tag */
    g->tag_mask = b[1];
    g->counter = _mm_add_epi32(g->counter, _mm_set_epi32(0, 0, 0, 1));
    g->powers[0] = times_x(reversed(b[0]));
    for (int i = 1; i < LANES; i++)
        g->powers[i] = times(g->powers[i - 1], g->powers[0]);
    for (; aad_len > 0;) {
        size_t now = aad_len < BLOCK ? aad_len : BLOCK;
        __m128i block = _mm_setzero_si128();
        memcpy(&block, aad, now);
        hash_block(g, block);
        aad += now;
        aad_len -= now;
    }
}

FAST static __m128i end(struct gcm *g, size_t len, size_t aad_len)
{
    __m128i bits = _mm_set_epi64x((int64_t)(aad_len * 8), (int64_t)(len * 8));
    hash_block(g, reversed(bits));
    __m128i tag = _mm_xor_si128(reversed(g->hash), g->tag_mask);
    mem_wipe(g, sizeof(*g));
    return tag;
}

/* A copy of the library's condition: in and out are the same, apart, or out comes first. */
static bool is_overlap_fine(const unsigned char *in, const unsigned char *out, size_t len)
{
    return out <= in || (size_t)(out - in) >= len;
}

static bool takes(const mbedtls_gcm_context *gcm, size_t len, size_t nonce_len, size_t aad_len,
                  size_t tag_len)
{
    mbedtls_cipher_type_t type = mbedtls_cipher_get_type(&gcm->cipher_ctx);
    bool is_aes = type == MBEDTLS_CIPHER_AES_128_ECB || type == MBEDTLS_CIPHER_AES_192_ECB ||
                  type == MBEDTLS_CIPHER_AES_256_ECB;
    return is_aes && nonce_len == 12 && tag_len == BLOCK && len <= LEN_MAX && aad_len <= LEN_MAX &&
           tls_gcm_is_fast();
}

bool tls_gcm_is_fast(void)
{
    return __builtin_cpu_supports("aes") && __builtin_cpu_supports("pclmul") &&
           __builtin_cpu_supports("ssse3");
}

FAST static void encrypt(const mbedtls_gcm_context *gcm, size_t len, const unsigned char *nonce,
                         const unsigned char *aad, size_t aad_len, const unsigned char *in,
                         unsigned char *out, unsigned char *tag)
{
    struct gcm g;
    begin(&g, gcm, nonce, aad, aad_len);
    run(&g, in, out, len, false);
    _mm_storeu_si128((__m128i *)(void *)tag, end(&g, len, aad_len));
}

/* false: not authentic, and nothing of it is left in out. */
FAST static bool decrypt(const mbedtls_gcm_context *gcm, size_t len, const unsigned char *nonce,
                         const unsigned char *aad, size_t aad_len, const unsigned char *tag,
                         const unsigned char *in, unsigned char *out)
{
    struct gcm g;
    __m128i told = _mm_loadu_si128((const __m128i *)(const void *)tag); /* out may lie over it */
    begin(&g, gcm, nonce, aad, aad_len);
    run(&g, in, out, len, true);
    __m128i same = _mm_cmpeq_epi8(told, end(&g, len, aad_len));
    if (_mm_movemask_epi8(same) == 0xffff)
        return true;
    mem_wipe(out, len);
    return false;
}

/* NOLINTBEGIN(bugprone-reserved-identifier): the linker's names */
int __wrap_mbedtls_gcm_crypt_and_tag(mbedtls_gcm_context *gcm, int mode, size_t len,
                                     const unsigned char *nonce, size_t nonce_len,
                                     const unsigned char *aad, size_t aad_len,
                                     const unsigned char *in, unsigned char *out, size_t tag_len,
                                     unsigned char *tag)
{
    if (mode != MBEDTLS_GCM_ENCRYPT || !takes(gcm, len, nonce_len, aad_len, tag_len) ||
        !is_overlap_fine(in, out, len))
        return __real_mbedtls_gcm_crypt_and_tag(gcm, mode, len, nonce, nonce_len, aad, aad_len, in,
                                                out, tag_len, tag);
    encrypt(gcm, len, nonce, aad, aad_len, in, out, tag);
    return 0;
}

int __wrap_mbedtls_gcm_auth_decrypt(mbedtls_gcm_context *gcm, size_t len,
                                    const unsigned char *nonce, size_t nonce_len,
                                    const unsigned char *aad, size_t aad_len,
                                    const unsigned char *tag, size_t tag_len,
                                    const unsigned char *in, unsigned char *out)
{
    if (!takes(gcm, len, nonce_len, aad_len, tag_len) || !is_overlap_fine(in, out, len))
        return __real_mbedtls_gcm_auth_decrypt(gcm, len, nonce, nonce_len, aad, aad_len, tag,
                                               tag_len, in, out);
    return decrypt(gcm, len, nonce, aad, aad_len, tag, in, out) ? 0 : MBEDTLS_ERR_GCM_AUTH_FAILED;
}
/* NOLINTEND(bugprone-reserved-identifier) */

#endif
