/*
 * Signatures of messages: RFC 4231's vectors for the HMAC, and those published for Standard
 * Webhooks and its libraries.
 */
#include "base/encode.h"
#include "event/sign.h"
#include "tls/tls.h"
#include "unit.h"
#include "vault/key.h"

static struct vault_ring *ring;

static int setup(void **state)
{
    struct err err;
    (void)state;
    assert_int_equal(tls_library_init(&err), OK);
    ring = vault_ring_new(SLICE("AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="), &err);
    return ring ? 0 : -1;
}

static int teardown(void **state)
{
    (void)state;
    vault_ring_free(ring);
    tls_library_deinit();
    return 0;
}

static void check_hmac(slice key, slice text, const char *want)
{
    uint8_t mac[32];
    char hex[65];
    const slice parts[] = {slice_first(text, 3), SLICE(""), slice_from(text, 3)};
    vault_hmac_sha256(key, parts, ARRAY_LEN(parts), mac);
    encode_hex_in(hex, sizeof(hex), slice_of(mac, sizeof(mac)));
    assert_string_equal(hex, want);
}

static void test_hmac(void **state)
{
    char key[20], text[50];
    (void)state;
    memset(key, 0x0b, sizeof(key)); /* RFC 4231, 4.2 to 4.4 */
    check_hmac(slice_of(key, sizeof(key)), SLICE("Hi There"),
               "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7");
    check_hmac(SLICE("Jefe"), SLICE("what do ya want for nothing?"),
               "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
    memset(key, 0xaa, sizeof(key));
    memset(text, 0xdd, sizeof(text));
    check_hmac(slice_of(key, sizeof(key)), slice_of(text, sizeof(text)),
               "773ea91e36800e46854db8ebd09181a72959098b3ef8c122d9635514ced565fe");
}

/* The vector of the tests of the specification's own libraries. */
static void test_published_signature(void **state)
{
    struct buf secret, out;
    (void)state;
    buf_init(&secret, 100);
    buf_init(&out, 200);
    assert_int_equal(decode_base64(&secret, SLICE("MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")), OK);
    event_sign(&out, buf_slice(&secret), SLICE("msg_p5jXN8AQM9LWM0D4loKWxJek"), SLICE("1614265330"),
               SLICE("{\"test\": 2432232314}"));
    assert_text(buf_slice(&out), "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");
    event_sign(&out, SLICE("another"), SLICE("i"), SLICE("1"), SLICE("{}"));
    assert_text(slice_first(buf_slice(&out), 51),
                "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE= v1,");
    assert_int_equal(out.len, 2 * 47 + 1);
    buf_clear(&secret);
    event_secret_format(&secret, SLICE("\x31\xf2\x90\xf6\xbf\x06\x29\x8a\xab"));
    assert_text(buf_slice(&secret), "whsec_MfKQ9r8GKYqr");
    buf_deinit(&secret);
    buf_deinit(&out);
}

struct row {
    struct webhook webhook;
    struct buf sealed, old_sealed;
};

static void make_row(struct row *row)
{
    row->webhook = (struct webhook){.account_id = uuid_v7(), .id = uuid_v7(), .old_until = 1000};
    struct vault_binding binding = event_secret_binding(&row->webhook);
    buf_init(&row->sealed, 200);
    buf_init(&row->old_sealed, 200);
    assert_int_equal(vault_seal(ring, &binding, SLICE("new"), &row->sealed), OK);
    assert_int_equal(vault_seal(ring, &binding, SLICE("old"), &row->old_sealed), OK);
    row->webhook.sealed = buf_slice(&row->sealed);
    row->webhook.old_sealed = buf_slice(&row->old_sealed);
    row->webhook.key_id = vault_ring_key_id(ring);
}

static int sign(const struct webhook *webhook, int64_t now, struct buf *out)
{
    struct err err;
    buf_clear(out);
    return event_sign_webhook(out, ring, webhook, now, SLICE("i"), SLICE("1"), SLICE("{}"), &err);
}

static void test_rolled_secrets(void **state)
{
    struct row row, other;
    struct buf out, want;
    (void)state;
    make_row(&row);
    make_row(&other);
    buf_init(&out, 300);
    buf_init(&want, 300);
    event_sign(&want, SLICE("new"), SLICE("i"), SLICE("1"), SLICE("{}"));
    size_t one = want.len;
    event_sign(&want, SLICE("old"), SLICE("i"), SLICE("1"), SLICE("{}"));
    assert_int_equal(sign(&row.webhook, 999, &out), OK);
    assert_true(slice_eq(buf_slice(&out), buf_slice(&want)));
    assert_int_equal(sign(&row.webhook, 1000, &out), OK);
    assert_true(slice_eq(buf_slice(&out), slice_first(buf_slice(&want), one)));
    /* a rolled secret that does not open does not stop the message */
    row.webhook.old_sealed = other.webhook.old_sealed;
    assert_int_equal(sign(&row.webhook, 999, &out), OK);
    assert_true(slice_eq(buf_slice(&out), slice_first(buf_slice(&want), one)));
    /* a secret copied from another row does not sign */
    row.webhook.sealed = other.webhook.sealed;
    assert_int_equal(sign(&row.webhook, 1000, &out), ERR_CRYPTO);
    row.webhook.key_id = SLICE("00000000");
    assert_int_equal(sign(&row.webhook, 1000, &out), ERR_NOTFOUND);
    buf_deinit(&out);
    buf_deinit(&want);
    buf_deinit(&row.sealed);
    buf_deinit(&row.old_sealed);
    buf_deinit(&other.sealed);
    buf_deinit(&other.old_sealed);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_hmac),
        cmocka_unit_test(test_published_signature),
        cmocka_unit_test(test_rolled_secrets),
    };
    return unit_result(cmocka_run_group_tests(tests, setup, teardown));
}
