/*
 * Our AES-GCM against the library's and against the test vectors of the GCM specification.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#if defined(__x86_64__)
#include "tls/gcm.h"

enum { TEXT_MAX = 1100, AAD_MAX = 40, ROOM = TEXT_MAX + 64 };

static void make_key(mbedtls_gcm_context *gcm, const unsigned char *key, unsigned bits)
{
    mbedtls_gcm_init(gcm);
    assert_int_equal(mbedtls_gcm_setkey(gcm, MBEDTLS_CIPHER_ID_AES, key, bits), 0);
}

/* Bytes that look like nothing, the same in every run. */
static void fill(unsigned char *out, size_t len, uint32_t seed)
{
    for (size_t i = 0; i < len; i++) {
        seed = seed * 1664525 + 1013904223;
        out[i] = (unsigned char)(seed >> 24);
    }
}

static void expect_filled(const unsigned char *bytes, size_t from, size_t to, unsigned char value)
{
    for (size_t i = from; i < to; i++)
        assert_int_equal(bytes[i], value);
}

/* Both ways, apart and in place; nothing behind the text is touched. */
static void compare(mbedtls_gcm_context *gcm, const unsigned char *nonce, size_t len,
                    size_t aad_len)
{
    unsigned char text[ROOM], aad[AAD_MAX], want[ROOM], got[ROOM], want_tag[16], got_tag[16];
    fill(text, sizeof(text), (uint32_t)(len * 41 + aad_len));
    fill(aad, sizeof(aad), (uint32_t)(len + 7));
    memset(want, 0x5a, sizeof(want));
    memset(got, 0x5a, sizeof(got));
    assert_int_equal(__real_mbedtls_gcm_crypt_and_tag(gcm, MBEDTLS_GCM_ENCRYPT, len, nonce, 12, aad,
                                                      aad_len, text, want, 16, want_tag),
                     0);
    assert_int_equal(mbedtls_gcm_crypt_and_tag(gcm, MBEDTLS_GCM_ENCRYPT, len, nonce, 12, aad,
                                               aad_len, text, got, 16, got_tag),
                     0);
    assert_memory_equal(got, want, sizeof(got));
    assert_memory_equal(got_tag, want_tag, 16);
    assert_int_equal(
        mbedtls_gcm_auth_decrypt(gcm, len, nonce, 12, aad, aad_len, got_tag, 16, want, got), 0);
    assert_memory_equal(got, text, len);
    expect_filled(got, len, sizeof(got), 0x5a);
    assert_int_equal(mbedtls_gcm_crypt_and_tag(gcm, MBEDTLS_GCM_ENCRYPT, len, nonce, 12, aad,
                                               aad_len, got, got, 16, got_tag),
                     0);
    assert_memory_equal(got, want, sizeof(got));
    assert_memory_equal(got_tag, want_tag, 16);
}

static void all_lengths_are_as_the_library_has_them(void **state)
{
    (void)state;
    static const size_t aad_lens[] = {0, 5, 13, 16, 17, AAD_MAX};
    unsigned char key[32], nonce[12];
    for (unsigned bits = 128; bits <= 256; bits += 64) {
        mbedtls_gcm_context gcm;
        fill(key, sizeof(key), bits);
        fill(nonce, sizeof(nonce), bits + 1);
        make_key(&gcm, key, bits);
        for (size_t len = 0; len <= TEXT_MAX; len += len < 300 ? 1 : 29)
            for (size_t i = 0; i < sizeof(aad_lens) / sizeof(aad_lens[0]); i++)
                compare(&gcm, nonce, len, aad_lens[i]);
        mbedtls_gcm_free(&gcm);
    }
}

static void output_may_lie_before_input(void **state)
{
    (void)state;
    unsigned char key[16], nonce[12], text[ROOM], want[ROOM], room[ROOM], tag[16];
    mbedtls_gcm_context gcm;
    fill(key, sizeof(key), 1);
    fill(nonce, sizeof(nonce), 2);
    fill(text, sizeof(text), 3);
    make_key(&gcm, key, 128);
    assert_int_equal(__real_mbedtls_gcm_crypt_and_tag(&gcm, MBEDTLS_GCM_ENCRYPT, 900, nonce, 12,
                                                      NULL, 0, text, want, 16, tag),
                     0);
    memcpy(room + 8, want, 900);
    assert_int_equal(
        mbedtls_gcm_auth_decrypt(&gcm, 900, nonce, 12, NULL, 0, tag, 16, room + 8, room), 0);
    assert_memory_equal(room, text, 900);
    mbedtls_gcm_free(&gcm);
}

static void what_was_changed_is_refused_and_wiped(void **state)
{
    (void)state;
    unsigned char key[16], nonce[12], aad[5], text[300], cipher[300], out[300], tag[16];
    mbedtls_gcm_context gcm;
    fill(key, sizeof(key), 4);
    fill(nonce, sizeof(nonce), 5);
    fill(aad, sizeof(aad), 6);
    fill(text, sizeof(text), 7);
    make_key(&gcm, key, 128);
    assert_int_equal(mbedtls_gcm_crypt_and_tag(&gcm, MBEDTLS_GCM_ENCRYPT, 300, nonce, 12, aad, 5,
                                               text, cipher, 16, tag),
                     0);
    unsigned char *const places[] = {cipher,   cipher + 128, cipher + 299, tag,
                                     tag + 15, aad,          aad + 4,      nonce};
    for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
        *places[i] ^= 0x80;
        memset(out, 0x5a, sizeof(out));
        assert_int_equal(
            mbedtls_gcm_auth_decrypt(&gcm, 300, nonce, 12, aad, 5, tag, 16, cipher, out),
            MBEDTLS_ERR_GCM_AUTH_FAILED);
        expect_filled(out, 0, sizeof(out), 0);
        *places[i] ^= 0x80;
    }
    assert_int_equal(mbedtls_gcm_auth_decrypt(&gcm, 300, nonce, 12, aad, 5, tag, 16, cipher, out),
                     0);
    mbedtls_gcm_free(&gcm);
}

/* What is left to the library: the result is its own. */
static void other_nonces_and_tags_work(void **state)
{
    (void)state;
    unsigned char key[16], nonce[16], text[200], want[200], got[200], want_tag[12], got_tag[12];
    mbedtls_gcm_context gcm;
    fill(key, sizeof(key), 8);
    fill(nonce, sizeof(nonce), 9);
    fill(text, sizeof(text), 10);
    make_key(&gcm, key, 128);
    assert_int_equal(__real_mbedtls_gcm_crypt_and_tag(&gcm, MBEDTLS_GCM_ENCRYPT, 200, nonce, 16,
                                                      NULL, 0, text, want, 12, want_tag),
                     0);
    assert_int_equal(mbedtls_gcm_crypt_and_tag(&gcm, MBEDTLS_GCM_ENCRYPT, 200, nonce, 16, NULL, 0,
                                               text, got, 12, got_tag),
                     0);
    assert_memory_equal(got, want, 200);
    assert_memory_equal(got_tag, want_tag, 12);
    assert_int_equal(
        mbedtls_gcm_auth_decrypt(&gcm, 200, nonce, 16, NULL, 0, got_tag, 12, want, got), 0);
    assert_memory_equal(got, text, 200);
    mbedtls_gcm_free(&gcm);
}

static size_t from_hex(const char *hex, unsigned char *out)
{
    size_t len = strlen(hex) / 2;
    for (size_t i = 0; i < len; i++) {
        unsigned byte;
        assert_int_equal(sscanf(hex + 2 * i, "%2x", &byte), 1);
        out[i] = (unsigned char)byte;
    }
    return len;
}

/* McGrew and Viega, "The Galois/Counter Mode of Operation", appendix B: cases 2, 4 and 16. */
static const struct {
    const char *key, *nonce, *aad, *text, *cipher, *tag;
} vectors[] = {
    {"00000000000000000000000000000000", "000000000000000000000000", "",
     "00000000000000000000000000000000", "0388dace60b6a392f328c2b971b2fe78",
     "ab6e47d42cec13bdf53a67b21257bddf"},
    {"feffe9928665731c6d6a8f9467308308", "cafebabefacedbaddecaf888",
     "feedfacedeadbeeffeedfacedeadbeefabaddad2",
     "d9313225f88406e5a55909c5aff5269a86a7a9531534f7da2e4c303d8a318a721c3c0c95956809532fcf0e2449a6"
     "b525b16aedf5aa0de657ba637b39",
     "42831ec2217774244b7221b784d0d49ce3aa212f2c02a4e035c17e2329aca12e21d514b25466931c7d8f6a5aac84"
     "aa051ba30b396a0aac973d58e091",
     "5bc94fbc3221a5db94fae95ae7121a47"},
    {"feffe9928665731c6d6a8f9467308308feffe9928665731c6d6a8f9467308308", "cafebabefacedbaddecaf888",
     "feedfacedeadbeeffeedfacedeadbeefabaddad2",
     "d9313225f88406e5a55909c5aff5269a86a7a9531534f7da2e4c303d8a318a721c3c0c95956809532fcf0e2449a6"
     "b525b16aedf5aa0de657ba637b39",
     "522dc1f099567d07f47f37a32a84427d643a8cdcbfe5c0c97598a2bd2555d1aa8cb08e48590dbb3da7b08b105682"
     "8838c5f61e6393ba7a0abcc9f662",
     "76fc6ece0f4e1768cddf8853bb2d551b"},
};

static void the_published_vectors_hold(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(vectors) / sizeof(vectors[0]); i++) {
        unsigned char key[32], nonce[12], aad[32], text[64], cipher[64], tag[16], out[64], got[16];
        mbedtls_gcm_context gcm;
        size_t key_len = from_hex(vectors[i].key, key);
        from_hex(vectors[i].nonce, nonce);
        size_t aad_len = from_hex(vectors[i].aad, aad);
        size_t len = from_hex(vectors[i].text, text);
        from_hex(vectors[i].cipher, cipher);
        from_hex(vectors[i].tag, tag);
        make_key(&gcm, key, (unsigned)key_len * 8);
        assert_int_equal(mbedtls_gcm_crypt_and_tag(&gcm, MBEDTLS_GCM_ENCRYPT, len, nonce, 12, aad,
                                                   aad_len, text, out, 16, got),
                         0);
        assert_memory_equal(out, cipher, len);
        assert_memory_equal(got, tag, 16);
        mbedtls_gcm_free(&gcm);
    }
}

/* Else the rest would compare the library with itself. */
static void calls_come_to_ours(void **state)
{
    (void)state;
    assert_ptr_equal(mbedtls_gcm_crypt_and_tag, __wrap_mbedtls_gcm_crypt_and_tag);
    assert_ptr_equal(mbedtls_gcm_auth_decrypt, __wrap_mbedtls_gcm_auth_decrypt);
    if (!tls_gcm_is_fast())
        print_message("this processor has no instructions for AES: only the library is tested\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(calls_come_to_ours),
        cmocka_unit_test(the_published_vectors_hold),
        cmocka_unit_test(all_lengths_are_as_the_library_has_them),
        cmocka_unit_test(output_may_lie_before_input),
        cmocka_unit_test(what_was_changed_is_refused_and_wiped),
        cmocka_unit_test(other_nonces_and_tags_work),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
#else
int main(void)
{
    return 0;
}
#endif
