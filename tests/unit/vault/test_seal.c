/* Sealing: what can be opened and what cannot, and the ring of master keys. */
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "unit.h"
#include "vault/seal.h"

#define KEY_HEX    "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f"
#define KEY_BASE64 "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="
#define OTHER_HEX  "ff0102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1eff"

static const struct vault_binding place = {{{1, 2, 3}}, 42};

static struct vault_ring *ring_of(const char *text)
{
    struct err err;
    struct vault_ring *ring = vault_ring_new(slice_cstr(text), &err);
    assert_non_null(ring);
    return ring;
}

static int open_at(const struct vault_ring *ring, const struct vault_binding *where, slice key_id,
                   slice sealed)
{
    struct err err;
    struct secret *plain;
    int rc = vault_open(ring, where, key_id, sealed, &plain, &err);
    if (rc == OK)
        assert_true(slice_eq(secret_reveal(plain), SLICE("hunter2")));
    else
        assert_null(plain);
    secret_unref(plain);
    return rc;
}

static void test_round_trip_and_binding(void **state)
{
    struct vault_ring *ring = ring_of(KEY_HEX);
    struct vault_binding elsewhere = place;
    struct buf sealed;
    (void)state;
    buf_init(&sealed, 1000);
    assert_int_equal(vault_seal(ring, &place, SLICE("hunter2"), &sealed), OK);
    assert_int_equal(sealed.len, 7 + VAULT_SEAL_OVERHEAD);
    assert_true(slice_find(buf_slice(&sealed), SLICE("hunter2")) < 0);
    slice id = vault_ring_key_id(ring);
    assert_int_equal(open_at(ring, &place, id, buf_slice(&sealed)), OK);
    elsewhere.connection_id = 43;
    assert_int_equal(open_at(ring, &elsewhere, id, buf_slice(&sealed)), ERR_CRYPTO);
    elsewhere = place;
    elsewhere.account_id.bytes[15] = 1;
    assert_int_equal(open_at(ring, &elsewhere, id, buf_slice(&sealed)), ERR_CRYPTO);
    for (size_t i = 0; i < sealed.len; i++) { /* no bit may change */
        sealed.ptr[i] = (char)(sealed.ptr[i] ^ 1);
        assert_int_equal(open_at(ring, &place, id, buf_slice(&sealed)),
                         i ? ERR_CRYPTO : ERR_SYNTAX);
        sealed.ptr[i] = (char)(sealed.ptr[i] ^ 1);
    }
    for (size_t len = 0; len < sealed.len; len++) /* no byte may be missing */
        assert_int_not_equal(open_at(ring, &place, id, slice_of(sealed.ptr, len)), OK);
    buf_deinit(&sealed);
    vault_ring_free(ring);
}

static void test_nonces_differ(void **state)
{
    struct vault_ring *ring = ring_of(KEY_HEX);
    struct buf one, two;
    (void)state;
    buf_init(&one, 1000);
    buf_init(&two, 1000);
    assert_int_equal(vault_seal(ring, &place, SLICE("hunter2"), &one), OK);
    assert_int_equal(vault_seal(ring, &place, SLICE("hunter2"), &two), OK);
    assert_memory_not_equal(one.ptr + 1, two.ptr + 1, 12);
    assert_memory_not_equal(one.ptr + 13, two.ptr + 13, 7);
    buf_deinit(&one);
    buf_deinit(&two);
    vault_ring_free(ring);
}

static void test_rotation(void **state)
{
    struct vault_ring *before = ring_of(KEY_HEX), *both = ring_of(OTHER_HEX ", " KEY_BASE64),
                      *after = ring_of("# the new one\n" OTHER_HEX "\n");
    struct buf sealed;
    (void)state;
    buf_init(&sealed, 1000);
    assert_int_equal(vault_seal(before, &place, SLICE("hunter2"), &sealed), OK);
    slice id = vault_ring_key_id(before);
    assert_int_equal(id.len, VAULT_KEY_ID_LEN);
    assert_int_equal(open_at(both, &place, id, buf_slice(&sealed)), OK);
    assert_int_equal(open_at(after, &place, id, buf_slice(&sealed)), ERR_NOTFOUND);
    /* the id of the other key does not help, because it is also authenticated */
    assert_int_equal(open_at(both, &place, vault_ring_key_id(both), buf_slice(&sealed)),
                     ERR_CRYPTO);
    assert_true(slice_eq(vault_ring_key_id(both), vault_ring_key_id(after)));
    assert_false(slice_eq(vault_ring_key_id(both), id));
    buf_deinit(&sealed);
    vault_ring_free(before);
    vault_ring_free(both);
    vault_ring_free(after);
}

static void check_bad(const char *text, enum err_code code, const char *part)
{
    struct err err;
    assert_null(vault_ring_new(slice_cstr(text), &err));
    assert_int_equal(err.code, code);
    assert_non_null(strstr(err.text, part));
    if (text[0])
        assert_null(strstr(err.text, text)); /* no key material in messages */
}

static void test_bad_master_keys(void **state)
{
    (void)state;
    check_bad("", ERR_INVALID, "no master key");
    check_bad("# nothing here", ERR_INVALID, "no master key");
    check_bad("not!base64", ERR_SYNTAX, "neither base64 nor hex");
    check_bad("c2hvcnQ=", ERR_SYNTAX, "has 5 bytes");
    check_bad(KEY_HEX "," KEY_BASE64, ERR_INVALID, "1 and 2 are the same");
}

static void test_limits_and_empty(void **state)
{
    struct vault_ring *ring = ring_of(KEY_HEX);
    struct buf sealed;
    struct err err;
    struct secret *plain;
    char *large = mem_zalloc(VAULT_PLAIN_MAX + 1);
    (void)state;
    buf_init(&sealed, 2 * VAULT_PLAIN_MAX);
    assert_int_equal(vault_seal(ring, &place, slice_of(large, VAULT_PLAIN_MAX + 1), &sealed),
                     ERR_LIMIT);
    assert_int_equal(vault_seal(ring, &place, slice_of(large, VAULT_PLAIN_MAX), &sealed), OK);
    buf_clear(&sealed);
    assert_int_equal(vault_seal(ring, &place, SLICE_NONE, &sealed), OK);
    assert_int_equal(
        vault_open(ring, &place, vault_ring_key_id(ring), buf_slice(&sealed), &plain, &err), OK);
    assert_int_equal(secret_reveal(plain).len, 0);
    secret_unref(plain);
    mem_free(large);
    buf_deinit(&sealed);
    vault_ring_free(ring);
}

static void test_key_files(void **state)
{
    char path[] = "/tmp/sluice-key-XXXXXX";
    struct buf text;
    struct err err;
    (void)state;
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    buf_init(&text, 1000);
    vault_master_key_new(&text);
    assert_int_equal(write(fd, text.ptr, text.len), text.len);
    struct vault_ring *ring = vault_ring_from_file(path, &err);
    assert_non_null(ring);
    vault_ring_free(ring);
    fchmod(fd, 0640);
    assert_null(vault_ring_from_file(path, &err));
    assert_int_equal(err.code, ERR_REFUSED);
    assert_non_null(strstr(err.text, "chmod 600"));
    close(fd);
    unlink(path);
    assert_null(vault_ring_from_file(path, &err));
    assert_int_equal(err.code, ERR_NOTFOUND);
    assert_null(vault_ring_from_file("/dev/null", &err));
    assert_int_equal(err.code, ERR_INVALID);
    buf_deinit(&text);
}

/* Each allocation in turn fails: there is no crash and no leak, and the answer is correct. */
static void test_failing_allocations(void **state)
{
    (void)state;
    for (uint64_t n = 1;; n++) {
        struct err err;
        struct buf sealed;
        struct secret *plain = NULL;
        buf_init(&sealed, 1000);
        mem_fail_at(n, 1);
        struct vault_ring *ring = vault_ring_new(SLICE(KEY_HEX), &err);
        int rc = ring ? vault_seal(ring, &place, SLICE("hunter2"), &sealed) : ERR_NOMEM;
        if (rc == OK)
            rc =
                vault_open(ring, &place, vault_ring_key_id(ring), buf_slice(&sealed), &plain, &err);
        bool was_hit = mem_fail_hits() > 0;
        mem_fail_at(0, 0);
        assert_int_equal(rc, was_hit ? ERR_NOMEM : OK);
        secret_unref(plain);
        buf_deinit(&sealed);
        vault_ring_free(ring);
        if (!was_hit)
            break;
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_round_trip_and_binding),
        cmocka_unit_test(test_nonces_differ),
        cmocka_unit_test(test_rotation),
        cmocka_unit_test(test_bad_master_keys),
        cmocka_unit_test(test_limits_and_empty),
        cmocka_unit_test(test_key_files),
        cmocka_unit_test(test_failing_allocations),
    };
    return unit_result(cmocka_run_group_tests(tests, NULL, NULL));
}
