/*
 * The hidden field of a form that creates a row; see once.h. Its value is base64url of the master
 * key's id and the sealed text: the id of the session's API key (16 bytes), the time in
 * milliseconds (8 bytes) and the row's id.
 */
#include "web/once.h"

#include "base/clock.h"
#include "base/encode.h"
#include "base/mem.h"
#include "web/view.h"

enum { HEAD_LEN = 16 + 8, BYTES_MAX = HEAD_LEN + ONCE_PLAIN_MAX + 256 };

/* No connection has this id, so the field cannot be unsealed as a credential. */
static struct vault_binding once_binding_of(const struct web_request *request)
{
    return (struct vault_binding){.account_id = request->session.account_id, .connection_id = -2};
}

void once_view_field(struct web_request *request, slice plain, struct json_writer *w)
{
    const struct vault_ring *ring = request->web->config.ring;
    const struct vault_binding binding = once_binding_of(request);
    int64_t now_ms = clock_shared_us() / 1000;
    struct buf text, sealed, token;
    ASSERT(request->session.is_open); /* the field is bound to its account and its key */
    /* Ids come from this room only, and all of them are short. */
    ASSERT(plain.len > 0 && plain.len <= ONCE_PLAIN_MAX);
    buf_init(&text, BYTES_MAX);
    buf_init(&sealed, BYTES_MAX);
    buf_init(&token, 2 * BYTES_MAX);
    buf_append(&text, slice_of(request->serve.grant.key_id.bytes, 16));
    buf_append(&text, slice_of(&now_ms, sizeof(now_ms)));
    buf_append(&text, plain);
    buf_append(&sealed, vault_ring_key_id(ring));
    /* If memory runs out, the page is sent without the field, and its form is refused as too
     * old. */
    if (buf_is_ok(&text) && vault_seal(ring, &binding, buf_slice(&text), &sealed) == OK) {
        encode_base64url(&token, buf_slice(&sealed));
    }
    json_member_str(w, "once", buf_is_ok(&token) && token.len > 0 ? buf_slice(&token) : SLICE_NONE);
    /* The text may contain a new key. */
    mem_wipe(text.ptr, text.cap);
    buf_deinit(&text);
    buf_deinit(&sealed);
    buf_deinit(&token);
}

/* Returns the id in the unsealed text, or SLICE_NONE if it was made for another API key or is too
 * old. */
static slice once_id_of(const struct web_request *request, slice text)
{
    int64_t made_ms, now_ms = clock_shared_us() / 1000;
    /* The field is bound to the API key: signing in with another key invalidates the form. */
    if (text.len <= HEAD_LEN || memcmp(text.ptr, request->serve.grant.key_id.bytes, 16) != 0)
        return SLICE_NONE;
    memcpy(&made_ms, text.ptr + 16, sizeof(made_ms));
    return now_ms - made_ms > ONCE_MS ? SLICE_NONE : slice_from(text, HEAD_LEN);
}

slice once_read_field(struct web_request *request, char kind)
{
    const struct vault_binding binding = once_binding_of(request);
    struct secret *plain = NULL;
    struct buf bytes;
    slice id = SLICE_NONE;
    ASSERT(request->session.is_open && request->fields);
    buf_init(&bytes, BYTES_MAX);
    /* Sealed text is authenticated, so a text that can be unsealed was written here. */
    if (decode_base64url(&bytes, web_field(request, "once")) == OK &&
        bytes.len > VAULT_KEY_ID_LEN &&
        vault_open(request->web->config.ring, &binding, slice_of(bytes.ptr, VAULT_KEY_ID_LEN),
                   slice_from(buf_slice(&bytes), VAULT_KEY_ID_LEN), &plain, NULL) == OK)
        id = once_id_of(request, secret_reveal(plain));
    /* The kind prevents the use of one form's id in another form. */
    id = id.len > 0 && id.ptr[0] == kind ? arena_dup(&request->serve.op.arena, id) : SLICE_NONE;
    secret_unref(plain);
    buf_deinit(&bytes);
    return id;
}
