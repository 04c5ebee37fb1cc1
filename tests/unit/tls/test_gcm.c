/*
 * AES-GCM: the vectors of its authors, and whatever the library's own code says.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/assert.h"
#include "tls/gcm.h"

enum { BYTES_MAX = 1200, TAG = 16 };

static size_t from_hex(const char *text, unsigned char *out)
{
    size_t len = strlen(text) / 2;
    for (size_t i = 0; i < len; i++) {
        unsigned value;
        assert_int_equal(sscanf(text + 2 * i, "%2x", &value), 1);
        out[i] = (unsigned char)value;
    }
    return len;
}

/* McGrew and Viega, "The Galois/Counter Mode of Operation (GCM)", appendix B: those with a nonce of
 * 12 bytes. */
static const struct {
    const char *key, *nonce, *add, *plain, *cipher, *tag;
} vectors[] = {
    {"00000000000000000000000000000000", "000000000000000000000000", "", "", "",
     "58e2fccefa7e3061367f1d57a4e7455a"},
    {"00000000000000000000000000000000", "000000000000000000000000", "",
     "00000000000000000000000000000000", "0388dace60b6a392f328c2b971b2fe78",
     "ab6e47d42cec13bdf53a67b21257bddf"},
    {"feffe9928665731c6d6a8f9467308308", "cafebabefacedbaddecaf888", "",
     "d9313225f88406e5a55909c5aff5269a86a7a9531534f7da2e4c303d8a318a72"
     "1c3c0c95956809532fcf0e2449a6b525b16aedf5aa0de657ba637b391aafd255",
     "42831ec2217774244b7221b784d0d49ce3aa212f2c02a4e035c17e2329aca12e"
     "21d514b25466931c7d8f6a5aac84aa051ba30b396a0aac973d58e091473f5985",
     "4d5c2af327cd64a62cf35abd2ba6fab4"},
    {"feffe9928665731c6d6a8f9467308308", "cafebabefacedbaddecaf888",
     "feedfacedeadbeeffeedfacedeadbeefabaddad2",
     "d9313225f88406e5a55909c5aff5269a86a7a9531534f7da2e4c303d8a318a72"
     "1c3c0c95956809532fcf0e2449a6b525b16aedf5aa0de657ba637b39",
     "42831ec2217774244b7221b784d0d49ce3aa212f2c02a4e035c17e2329aca12e"
     "21d514b25466931c7d8f6a5aac84aa051ba30b396a0aac973d58e091",
     "5bc94fbc3221a5db94fae95ae7121a47"},
    {"feffe9928665731c6d6a8f9467308308feffe9928665731c6d6a8f9467308308", "cafebabefacedbaddecaf888",
     "feedfacedeadbeeffeedfacedeadbeefabaddad2",
     "d9313225f88406e5a55909c5aff5269a86a7a9531534f7da2e4c303d8a318a72"
     "1c3c0c95956809532fcf0e2449a6b525b16aedf5aa0de657ba637b39",
     "522dc1f099567d07f47f37a32a84427d643a8cdcbfe5c0c97598a2bd2555d1aa"
     "8cb08e48590dbb3da7b08b1056828838c5f61e6393ba7a0abcc9f662",
     "76fc6ece0f4e1768cddf8853bb2d551b"},
};

static void set_key(mbedtls_gcm_context *ctx, const unsigned char *key, size_t len)
{
    mbedtls_gcm_init(ctx);
    assert_int_equal(mbedtls_gcm_setkey(ctx, MBEDTLS_CIPHER_ID_AES, key, (unsigned)len * 8), 0);
}

static void the_authors_vectors_hold(void **state)
{
    (void)state;
    assert_true(mbedtls_gcm_crypt_and_tag != __real_mbedtls_gcm_crypt_and_tag);
    assert_true(mbedtls_gcm_auth_decrypt != __real_mbedtls_gcm_auth_decrypt);
    for (size_t i = 0; i < ARRAY_LEN(vectors); i++) {
        unsigned char key[32], nonce[12], add[32], plain[64], wanted[64], tag[TAG], out[64],
            got[TAG];
        mbedtls_gcm_context ctx;
        set_key(&ctx, key, from_hex(vectors[i].key, key));
        size_t nonce_len = from_hex(vectors[i].nonce, nonce),
               add_len = from_hex(vectors[i].add, add);
        size_t len = from_hex(vectors[i].plain, plain);
        from_hex(vectors[i].cipher, wanted);
        from_hex(vectors[i].tag, tag);
        assert_int_equal(mbedtls_gcm_crypt_and_tag(&ctx, MBEDTLS_GCM_ENCRYPT, len, nonce, nonce_len,
                                                   add, add_len, plain, out, TAG, got),
                         0);
        assert_memory_equal(out, wanted, len);
        assert_memory_equal(got, tag, TAG);
        assert_int_equal(mbedtls_gcm_auth_decrypt(&ctx, len, nonce, nonce_len, add, add_len, tag,
                                                  TAG, wanted, out),
                         0);
        assert_memory_equal(out, plain, len);
        mbedtls_gcm_free(&ctx);
    }
}

static unsigned char byte_at(size_t i)
{
    return (unsigned char)(i * 167 + (i >> 8) * 29 + 11);
}

/* Every length up to nine times what is done at once, in place and not, with any additional data.
 */
static void it_agrees_with_the_library(void **state)
{
    (void)state;
    static unsigned char plain[BYTES_MAX], ours[BYTES_MAX + 1], theirs[BYTES_MAX], add[64];
    for (size_t i = 0; i < BYTES_MAX; i++)
        plain[i] = byte_at(i);
    memcpy(add, plain + 100, sizeof(add));
    for (size_t key_len = 16; key_len <= 32; key_len += 8) {
        mbedtls_gcm_context ctx;
        set_key(&ctx, plain + 7, key_len);
        for (size_t len = 0; len < BYTES_MAX; len++) {
            unsigned char nonce[12], tag[TAG], wanted[TAG];
            size_t add_len = len % 50, tag_len = 4 + len % 13;
            memcpy(nonce, plain + len % 1000, sizeof(nonce));
            assert_int_equal(__real_mbedtls_gcm_crypt_and_tag(&ctx, MBEDTLS_GCM_ENCRYPT, len, nonce,
                                                              12, add, add_len, plain, theirs,
                                                              tag_len, wanted),
                             0);
            memcpy(ours, plain, len);
            ours[len] = 0xa5;
            assert_int_equal(mbedtls_gcm_crypt_and_tag(&ctx, MBEDTLS_GCM_ENCRYPT, len, nonce, 12,
                                                       add, add_len, ours, ours, tag_len, tag),
                             0);
            assert_memory_equal(ours, theirs, len);
            assert_memory_equal(tag, wanted, tag_len);
            assert_int_equal(ours[len], 0xa5);
            assert_int_equal(mbedtls_gcm_auth_decrypt(&ctx, len, nonce, 12, add, add_len, wanted,
                                                      tag_len, theirs, ours),
                             0);
            assert_memory_equal(ours, plain, len);
            assert_int_equal(ours[len], 0xa5);
        }
        mbedtls_gcm_free(&ctx);
    }
}

/* A bit of the message, of the additional data, of the nonce or of the tag: nothing is given out.
 */
static void what_was_changed_is_refused(void **state)
{
    (void)state;
    unsigned char plain[300], sealed[300], out[300], add[13], nonce[12], tag[TAG];
    mbedtls_gcm_context ctx;
    for (size_t i = 0; i < sizeof(plain); i++)
        plain[i] = byte_at(i);
    memcpy(add, plain, sizeof(add));
    memcpy(nonce, plain + 40, sizeof(nonce));
    set_key(&ctx, plain, 16);
    assert_int_equal(mbedtls_gcm_crypt_and_tag(&ctx, MBEDTLS_GCM_ENCRYPT, sizeof(plain), nonce, 12,
                                               add, sizeof(add), plain, sealed, TAG, tag),
                     0);
    const struct {
        unsigned char *bytes;
        size_t len;
    } places[] = {{sealed, sizeof(sealed)}, {add, sizeof(add)}, {nonce, sizeof(nonce)}, {tag, TAG}};
    for (size_t p = 0; p < ARRAY_LEN(places); p++) {
        for (size_t i = 0; i < places[p].len; i++) {
            static const unsigned char zeros[300];
            places[p].bytes[i] ^= (unsigned char)(1u << i % 8);
            memset(out, 0xff, sizeof(out));
            assert_int_equal(mbedtls_gcm_auth_decrypt(&ctx, sizeof(plain), nonce, 12, add,
                                                      sizeof(add), tag, TAG, sealed, out),
                             MBEDTLS_ERR_GCM_AUTH_FAILED);
            assert_memory_equal(out, zeros, sizeof(out));
            places[p].bytes[i] ^= (unsigned char)(1u << i % 8);
        }
    }
    assert_int_equal(mbedtls_gcm_auth_decrypt(&ctx, sizeof(plain), nonce, 12, add, sizeof(add), tag,
                                              TAG, sealed, out),
                     0);
    assert_memory_equal(out, plain, sizeof(plain));
    mbedtls_gcm_free(&ctx);
}

/* Another nonce, a tag too short, output that overruns what is still to be read. */
static void the_rest_is_the_librarys(void **state)
{
    (void)state;
    unsigned char bytes[100] = {0}, ours[100], theirs[100], tag[TAG], wanted[TAG];
    mbedtls_gcm_context ctx;
    set_key(&ctx, bytes, 16);
    assert_int_equal(mbedtls_gcm_crypt_and_tag(&ctx, MBEDTLS_GCM_ENCRYPT, sizeof(bytes), bytes, 16,
                                               NULL, 0, bytes, ours, TAG, tag),
                     0);
    assert_int_equal(__real_mbedtls_gcm_crypt_and_tag(&ctx, MBEDTLS_GCM_ENCRYPT, sizeof(bytes),
                                                      bytes, 16, NULL, 0, bytes, theirs, TAG,
                                                      wanted),
                     0);
    assert_memory_equal(ours, theirs, sizeof(ours));
    assert_memory_equal(tag, wanted, TAG);
    assert_int_equal(mbedtls_gcm_crypt_and_tag(&ctx, MBEDTLS_GCM_ENCRYPT, 50, bytes, 12, NULL, 0,
                                               bytes, ours, 3, tag),
                     MBEDTLS_ERR_GCM_BAD_INPUT);
    assert_int_equal(mbedtls_gcm_crypt_and_tag(&ctx, MBEDTLS_GCM_ENCRYPT, 50, bytes, 12, NULL, 0,
                                               bytes, bytes + 8, TAG, tag),
                     MBEDTLS_ERR_GCM_BAD_INPUT);
    mbedtls_gcm_free(&ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_authors_vectors_hold),
        cmocka_unit_test(it_agrees_with_the_library),
        cmocka_unit_test(what_was_changed_is_refused),
        cmocka_unit_test(the_rest_is_the_librarys),
    };
    return cmocka_run_group_tests_name("tls/gcm", tests, NULL, NULL);
}
