/*
 * Cookies: base64url of the account's id (16 bytes), the master key's id and the sealed text.
 */
#include "web/session.h"

#include "base/clock.h"
#include "base/encode.h"
#include "json/json.h"
#include "vault/key.h"

enum { HEAD_LEN = 16 + VAULT_KEY_ID_LEN };

/* No connection has these ids, so a cookie cannot be unsealed as a credential. */
static struct vault_binding cookie_binding_of(struct uuid account_id, bool is_link)
{
    return (struct vault_binding){.account_id = account_id, .connection_id = is_link ? -2 : -1};
}

static int64_t now_ms(void)
{
    return clock_shared_us() / 1000;
}

void session_draw_csrf(struct web_session *session)
{
    uint8_t bytes[SESSION_CSRF_LEN / 2];
    /* The token is random, so that another site cannot guess it. */
    random_bytes(bytes, sizeof(bytes));
    encode_hex_in(session->csrf, sizeof(session->csrf), slice_of(bytes, sizeof(bytes)));
}

static void write_plain(const struct web_session *session, struct buf *out)
{
    char hex[2 * API_KEY_HASH_LEN + 1];
    struct json_writer w;
    encode_hex_in(hex, sizeof(hex), slice_of(session->key_hash, API_KEY_HASH_LEN));
    /* A compact form: a cookie has 4 KB in total, with its name and attributes. */
    json_begin(&w, out);
    json_open(&w, '{');
    json_member_str(&w, "key", slice_cstr(hex));
    json_member_str(&w, "csrf", slice_cstr(session->csrf));
    json_member_i64(&w, "until", session->until_ms);
    json_member_str(&w, "link", session->link_token);
    if (!uuid_is_nil(session->parent_id))
        json_member_uuid(&w, "parent", session->parent_id);
    json_close(&w, '}');
}

slice session_seal(const struct vault_ring *ring, const struct web_session *session,
                   struct arena *arena)
{
    const struct vault_binding binding =
        cookie_binding_of(session->account_id, session->link_token.ptr);
    struct buf plain, bytes, text;
    slice result = SLICE_NONE;
    ASSERT(!uuid_is_nil(session->account_id)); /* the seal is bound to the account */
    buf_init(&plain, SESSION_COOKIE_MAX);
    buf_init(&bytes, SESSION_COOKIE_MAX);
    buf_init(&text, 2 * SESSION_COOKIE_MAX);
    write_plain(session, &plain);
    /* The account's id is unencrypted: the seal is bound to it, so unsealing needs it first. */
    buf_append(&bytes, slice_of(session->account_id.bytes, 16));
    buf_append(&bytes, vault_ring_key_id(ring));
    if (buf_is_ok(&plain) && vault_seal(ring, &binding, buf_slice(&plain), &bytes) == OK) {
        encode_base64url(&text, buf_slice(&bytes));
        if (buf_is_ok(&text))
            result = arena_dup(arena, buf_slice(&text));
    }
    buf_deinit(&plain);
    buf_deinit(&bytes);
    buf_deinit(&text);
    return result;
}

static int read_plain(slice text, struct arena *arena, struct web_session *session)
{
    const struct json *root = json_parse(arena, text, &json_limits_request, NULL);
    slice csrf = json_get_str(root, SLICE("csrf"));
    struct buf hash;
    buf_init(&hash, API_KEY_HASH_LEN);
    /* The text was authenticated, so this fails only for cookies of another version. */
    bool is_whole = decode_hex(&hash, json_get_str(root, SLICE("key"))) == OK &&
                    hash.len == API_KEY_HASH_LEN && csrf.len == SESSION_CSRF_LEN;
    if (is_whole) {
        memcpy(session->key_hash, hash.ptr, API_KEY_HASH_LEN);
        memcpy(session->csrf, csrf.ptr, SESSION_CSRF_LEN);
        session->until_ms = json_get_i64(root, SLICE("until"), 0);
        session->link_token = json_get_str(root, SLICE("link"));
        slice parent = json_get_str(root, SLICE("parent"));
        is_whole = !parent.ptr || uuid_parse(parent, &session->parent_id);
    }
    buf_deinit(&hash);
    if (!is_whole)
        return ERR_SYNTAX;
    /* Checked here, since a browser may keep a cookie beyond its Max-Age. */
    return session->until_ms > now_ms() ? OK : ERR_TIMEOUT;
}

struct vault_caller session_caller(const struct web_session *session)
{
    bool is_link = session->link_token.ptr != NULL;
    struct vault_caller caller = {
        /* When the session began: its end minus its lifetime. One that began before "sign out
         * everywhere" is refused. */
        .begun_at = (session->until_ms - (is_link ? SESSION_LINK_MS : SESSION_MS)) * 1000,
    };
    memcpy(caller.key_hash, session->key_hash, API_KEY_HASH_LEN);
    /* A session is ended by this hash, so that the token itself does not have to be stored. */
    vault_sha256(slice_of(session->csrf, SESSION_CSRF_LEN), caller.session_hash);
    return caller;
}

int session_unseal(const struct vault_ring *ring, slice cookie, bool is_link, struct arena *arena,
                   struct web_session *session)
{
    struct buf bytes;
    struct secret *plain = NULL;
    int status = ERR_SYNTAX;
    *session = (struct web_session){0};
    buf_init(&bytes, SESSION_COOKIE_MAX);
    if (decode_base64url(&bytes, cookie) == OK && bytes.len > HEAD_LEN) {
        /* With a forged id nothing can be unsealed: the seal authenticates it. */
        memcpy(session->account_id.bytes, bytes.ptr, 16);
        const struct vault_binding binding = cookie_binding_of(session->account_id, is_link);
        status = vault_open(ring, &binding, slice_of(bytes.ptr + 16, VAULT_KEY_ID_LEN),
                            slice_from(buf_slice(&bytes), HEAD_LEN), &plain, NULL);
    }
    if (status == OK)
        status = read_plain(secret_reveal(plain), arena, session);
    secret_unref(plain);
    buf_deinit(&bytes);
    return status;
}
