/* API keys and the hash. */
#include "base/encode.h"
#include "unit.h"
#include "vault/key.h"

static void test_sha256(void **state)
{
    static const char want[] = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
    uint8_t hash[32];
    struct buf text;
    (void)state;
    buf_init(&text, 100);
    vault_sha256(SLICE("abc"), hash);
    encode_hex(&text, slice_of(hash, sizeof(hash)));
    assert_true(slice_eq_cstr(buf_slice(&text), want)); /* FIPS 180-2, B.1 */
    vault_sha256(SLICE_NONE, hash);
    assert_int_equal(hash[0], 0xe3);
    buf_deinit(&text);
}

static void test_new_keys(void **state)
{
    struct vault_key one, two;
    uint8_t hash[32];
    struct buf bytes;
    (void)state;
    buf_init(&bytes, 100);
    for (int i = 0; i < 200; i++) {
        vault_key_new(&one);
        vault_key_new(&two);
        assert_string_not_equal(one.text, two.text);
        assert_int_equal(strlen(one.text), VAULT_KEY_LEN);
        assert_true(slice_starts_with(slice_cstr(one.text), slice_cstr(one.prefix)));
        assert_int_equal(strlen(one.prefix), VAULT_KEY_PREFIX_LEN);
        assert_true(vault_key_hash(slice_cstr(one.text), hash));
        assert_memory_equal(hash, one.hash, sizeof(hash));
        buf_clear(&bytes);
        /* sk_ is followed by base64url of exactly 32 bytes, without unused bits at its end */
        assert_int_equal(decode_base64url(&bytes, slice_from(slice_cstr(one.text), 3)), OK);
        assert_int_equal(bytes.len, 32);
    }
    buf_deinit(&bytes);
}

static void test_invalid_keys(void **state)
{
    static const char *const bad[] = {
        "",
        "sk_",
        "sk_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA",   /* one character too short */
        "sk_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA", /* one character too long */
        "sk-AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA",  /* no underscore */
        "sk_AAAAAAAAAAAAAAAAAAAA+AAAAAAAAAAAAAAAAAAAAAA",  /* base64, not base64url */
        "SK_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"};
    uint8_t hash[32];
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(bad); i++)
        assert_false(vault_key_hash(slice_cstr(bad[i]), hash));
    assert_false(vault_key_hash(SLICE_NONE, hash));
    char nul[VAULT_KEY_LEN] = "sk_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";
    assert_false(vault_key_hash(slice_of(nul, sizeof(nul)), hash));
}

static void test_scopes(void **state)
{
    struct err err;
    uint32_t set;
    char text[48];
    (void)state;
    assert_int_equal(scopes_parse(SLICE("read, execute"), &set, &err), OK);
    assert_int_equal(set, SCOPE_READ | SCOPE_EXECUTE);
    assert_true(slice_eq(scopes_format(SCOPE_ALL, text), SLICE("read execute approve admin")));
    assert_int_equal(scopes_parse(slice_cstr(text), &set, &err), OK);
    assert_int_equal(set, SCOPE_ALL);
    assert_int_equal(scopes_parse(SLICE("execute:read"), &set, &err), OK);
    assert_int_equal(set, SCOPE_EXECUTE_READ);
    assert_true(slice_eq(scopes_format(set, text), SLICE("execute:read")));
    assert_int_equal(scopes_parse(SLICE("execute:write,execute:read"), &set, &err), OK);
    assert_true(slice_eq(scopes_format(set, text), SLICE("execute")));
    /* the longest */
    assert_true(slice_eq(scopes_format(SCOPE_ALL & ~(uint32_t)SCOPE_EXECUTE_READ, text),
                         SLICE("read execute:write approve admin")));
    assert_int_equal(scopes_parse(SLICE("root"), &set, &err), ERR_INVALID);
    assert_non_null(strstr(err.text, "\"root\" is not a scope"));
    assert_int_equal(scopes_parse(SLICE(" ,"), &set, &err), ERR_INVALID);
    assert_string_equal(scope_name(SCOPE_APPROVE), "approve");
}

static void test_addresses(void **state)
{
    static const char *const bad[] = {
        "", ",", "10.0.0.0/8,", "10.1.2.3/16", "localhost", "::1;10.0.0.1", "10.0.0.1 x"};
    struct arena arena;
    struct err err;
    struct buf many;
    slice words;
    (void)state;
    arena_init(&arena, 64 * 1024);
    assert_int_equal(
        vault_key_addresses(SLICE("10.1.0.0/16,  ::1 192.0.2.7 , fd00::/8"), &arena, &words, &err),
        OK);
    assert_true(slice_eq(words, SLICE("10.1.0.0/16 ::1 192.0.2.7 fd00::/8")));
    for (size_t i = 0; i < ARRAY_LEN(bad); i++)
        if (vault_key_addresses(slice_cstr(bad[i]), &arena, &words, &err) == OK)
            fail_msg("\"%s\" is taken", bad[i]);
    buf_init(&many, 4096);
    for (size_t i = 0; i < API_KEY_ADDRESSES_MAX; i++)
        buf_append_cstr(&many, i > 0 ? ",::1" : "::1");
    assert_int_equal(vault_key_addresses(buf_slice(&many), &arena, &words, &err), OK);
    buf_append_cstr(&many, ",::1");
    assert_int_equal(vault_key_addresses(buf_slice(&many), &arena, &words, &err), ERR_LIMIT);
    while (many.len <= 3000)
        buf_append_cstr(&many, ",::1");
    assert_int_equal(vault_key_addresses(buf_slice(&many), &arena, &words, &err), ERR_LIMIT);
    buf_deinit(&many);
    arena_deinit(&arena);
}

#define SOON 1000
#define LATE 2000
static const struct api_key limited = {.scopes = SCOPE_READ | SCOPE_EXECUTE_READ | SCOPE_ADMIN,
                                       .expires_at = SOON,
                                       .addresses = SLICE_INIT("10.1.0.0/16 2001:db8::/32"),
                                       .unattended_writes = SLICE_INIT("refuse")};

/* What a key leaves open becomes its maker's. */
static void test_limit_fills_in(void **state)
{
    struct api_key free_key = {.scopes = SCOPE_ALL}, key = {.scopes = SCOPE_READ};
    struct err err;
    (void)state;
    assert_int_equal(vault_key_limit(&key, &free_key, &err), OK);
    assert_true(!key.expires_at && !key.addresses.ptr && !key.unattended_writes.ptr);
    assert_int_equal(vault_key_limit(&key, &limited, &err), OK);
    assert_int_equal(key.expires_at, SOON);
    assert_true(slice_eq(key.addresses, limited.addresses));
    assert_true(slice_eq(key.unattended_writes, limited.unattended_writes));
    assert_int_equal(key.scopes, SCOPE_READ);
}

static void test_limit_refuses(void **state)
{
    static const struct {
        struct api_key key;
        bool is_right;
    } cases[] = {
        {{.scopes = SCOPE_EXECUTE_READ, .expires_at = SOON - 1}, true},
        {{.scopes = SCOPE_READ, .expires_at = SOON}, true},
        {{.scopes = SCOPE_READ, .expires_at = SOON + 1}, false},
        {{.scopes = SCOPE_EXECUTE}, false},
        {{.scopes = SCOPE_APPROVE}, false},
        {{.scopes = SCOPE_READ, .addresses = SLICE_INIT("10.1.2.0/24 2001:db8::1")}, true},
        {{.scopes = SCOPE_READ, .addresses = SLICE_INIT("10.1.0.0/16")}, true},
        {{.scopes = SCOPE_READ, .addresses = SLICE_INIT("10.0.0.0/15")}, false},
        {{.scopes = SCOPE_READ, .addresses = SLICE_INIT("10.1.2.3 10.2.0.0")}, false},
        {{.scopes = SCOPE_READ, .addresses = SLICE_INIT("a01::/16")}, false}, /* 10.1.0.0 in IPv4 */
        {{.scopes = SCOPE_READ, .unattended_writes = SLICE_INIT("refuse")}, true},
        {{.scopes = SCOPE_READ, .unattended_writes = SLICE_INIT("allow")}, false},
    };
    struct api_key of_user = limited;
    struct err err;
    (void)state;
    of_user.user_id.bytes[0] = 1;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct api_key key = cases[i].key;
        int status = vault_key_limit(&key, &limited, &err);
        if (status != (cases[i].is_right ? OK : ERR_REFUSED))
            fail_msg("case %zu: %d", i, status);
        key = cases[i].key;
        assert_int_equal(vault_key_limit(&key, &of_user, &err), ERR_REFUSED);
    }
}

/* Writes that no form can confirm: allow, hold, refuse, from the loosest to the strictest. */
static void test_limit_of_unattended_writes(void **state)
{
    static const struct {
        const char *maker, *key, *made; /* NULL: open; made: NULL if it is refused */
    } cases[] = {
        {"allow", "allow", "allow"}, {"allow", "hold", "hold"}, {"hold", NULL, "hold"},
        {"hold", "allow", NULL},     {"hold", "hold", "hold"},  {"hold", "refuse", "refuse"},
        {"refuse", NULL, "refuse"},  {"refuse", "hold", NULL},  {NULL, "hold", "hold"},
        {NULL, "allow", "allow"},
    };
    struct err err;
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct api_key maker = {.scopes = SCOPE_ALL}, key = {.scopes = SCOPE_READ};
        maker.unattended_writes = slice_cstr(cases[i].maker);
        key.unattended_writes = slice_cstr(cases[i].key);
        bool is_made = vault_key_limit(&key, &maker, &err) == OK;
        if (is_made != (cases[i].made != NULL) ||
            (is_made && !slice_eq_cstr(key.unattended_writes, cases[i].made)))
            fail_msg("case %zu", i);
    }
    assert_int_equal(vault_unattended_parse(SLICE("later")), UNATTENDED_REFUSED);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sha256),        cmocka_unit_test(test_new_keys),
        cmocka_unit_test(test_invalid_keys),  cmocka_unit_test(test_scopes),
        cmocka_unit_test(test_addresses),     cmocka_unit_test(test_limit_fills_in),
        cmocka_unit_test(test_limit_refuses), cmocka_unit_test(test_limit_of_unattended_writes),
    };
    return unit_result(cmocka_run_group_tests(tests, NULL, NULL));
}
