/*
 * Cookies: an intact cookie is accepted. A cookie that was changed in any bit, is too old, or is
 * from another account or another master key is not.
 */
#include "base/clock.h"
#include "base/encode.h"
#include "tls/tls.h"
#include "unit.h"
#include "web/session.h"

static struct vault_ring *ring, *other_ring;
static struct arena arena;
static struct web_session session;

static struct vault_ring *ring_new(void)
{
    struct buf text;
    struct err err;
    buf_init(&text, 256);
    vault_master_key_new(&text);
    struct vault_ring *made = vault_ring_new(buf_slice(&text), &err);
    buf_deinit(&text);
    assert_non_null(made);
    return made;
}

static int set_up(void **state)
{
    struct err err;
    (void)state;
    assert_int_equal(tls_library_init(&err), OK);
    ring = ring_new();
    other_ring = ring_new();
    arena_init(&arena, 16 * 1024 * 1024);
    session = (struct web_session){
        .account_id = uuid_v7(),
        .until_ms = clock_wall_us() / 1000 + 60000,
    };
    memset(session.key_hash, 0xA5, sizeof(session.key_hash));
    session_draw_csrf(&session);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    arena_deinit(&arena);
    vault_ring_free(ring);
    vault_ring_free(other_ring);
    return 0;
}

static slice sealed(void)
{
    slice cookie = session_seal(ring, &session, &arena);
    assert_non_null(cookie.ptr);
    return cookie;
}

static void test_there_and_back(void **state)
{
    struct web_session back;
    (void)state;
    assert_int_equal(session_unseal(ring, sealed(), false, &arena, &back), OK);
    assert_true(uuid_eq(back.account_id, session.account_id));
    assert_memory_equal(back.key_hash, session.key_hash, sizeof(back.key_hash));
    assert_string_equal(back.csrf, session.csrf);
    assert_int_equal(strlen(back.csrf), SESSION_CSRF_LEN);
    assert_true(back.until_ms == session.until_ms);
    assert_null(back.link_token.ptr);
    assert_false(back.is_open); /* the key still has to be checked */
}

/* A link's cookie opens only the link's pages, and a sign-in's cookie opens no link. */
static void test_a_link_is_not_a_sign_in(void **state)
{
    struct web_session back;
    (void)state;
    assert_int_not_equal(session_unseal(ring, sealed(), true, &arena, &back), OK);
    session.link_token = SLICE("token-of-a-link");
    assert_int_equal(session_unseal(ring, sealed(), true, &arena, &back), OK);
    assert_true(slice_eq(back.link_token, session.link_token));
    assert_int_not_equal(session_unseal(ring, sealed(), false, &arena, &back), OK);
}

static void test_any_bit_changed_is_refused(void **state)
{
    struct web_session back;
    struct buf bytes, text;
    (void)state;
    buf_init(&bytes, SESSION_COOKIE_MAX);
    buf_init(&text, 2 * SESSION_COOKIE_MAX);
    assert_int_equal(decode_base64url(&bytes, sealed()), OK);
    for (size_t i = 0; i < bytes.len; i++) {
        bytes.ptr[i] = (char)(bytes.ptr[i] ^ 0x10);
        buf_clear(&text);
        encode_base64url(&text, buf_slice(&bytes));
        assert_int_not_equal(session_unseal(ring, buf_slice(&text), false, &arena, &back), OK);
        bytes.ptr[i] = (char)(bytes.ptr[i] ^ 0x10);
    }
    for (size_t len = 0; len < bytes.len; len++) {
        buf_clear(&text);
        encode_base64url(&text, slice_first(buf_slice(&bytes), len));
        assert_int_not_equal(session_unseal(ring, buf_slice(&text), false, &arena, &back), OK);
    }
    buf_deinit(&text);
    buf_deinit(&bytes);
}

/* The first 16 bytes are the account's id in plain text. With another account's id, the cookie
 * cannot be opened. */
static void test_moved_to_another_account_it_is_refused(void **state)
{
    struct web_session back;
    struct uuid other = uuid_v7();
    struct buf bytes, text;
    (void)state;
    buf_init(&bytes, SESSION_COOKIE_MAX);
    buf_init(&text, 2 * SESSION_COOKIE_MAX);
    assert_int_equal(decode_base64url(&bytes, sealed()), OK);
    memcpy(bytes.ptr, other.bytes, sizeof(other.bytes));
    encode_base64url(&text, buf_slice(&bytes));
    assert_int_not_equal(session_unseal(ring, buf_slice(&text), false, &arena, &back), OK);
    buf_deinit(&text);
    buf_deinit(&bytes);
}

static void test_too_old_or_of_another_server_it_is_refused(void **state)
{
    struct web_session back;
    (void)state;
    assert_int_not_equal(session_unseal(other_ring, sealed(), false, &arena, &back), OK);
    session.until_ms = clock_wall_us() / 1000 - 1;
    assert_int_not_equal(session_unseal(ring, sealed(), false, &arena, &back), OK);
}

static void test_an_invalid_cookie_is_refused(void **state)
{
    static const char *const texts[] = {"", "x", "====", "%00", "AAAA", "\"quoted\""};
    struct web_session back;
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(texts); i++)
        assert_int_not_equal(session_unseal(ring, slice_cstr(texts[i]), false, &arena, &back), OK);
}

static void test_tokens_of_forms_differ(void **state)
{
    struct web_session other = session;
    (void)state;
    session_draw_csrf(&other);
    assert_string_not_equal(other.csrf, session.csrf);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_there_and_back, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_a_link_is_not_a_sign_in, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_any_bit_changed_is_refused, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_moved_to_another_account_it_is_refused, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_too_old_or_of_another_server_it_is_refused, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_an_invalid_cookie_is_refused, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_tokens_of_forms_differ, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
