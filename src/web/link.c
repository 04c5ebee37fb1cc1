/*
 * Tokens of connect links (link.h), and the holder and the row of a link.
 */
#include "web/link.h"

#include "base/ascii.h"
#include "base/encode.h"
#include "vault/key.h"
#include "web/app.h"

enum { TOKEN_BYTES = CONNECT_SESSION_TOKEN_BYTES };

bool web_link_read(slice token, struct web_link *link)
{
    struct buf bytes;
    *link = (struct web_link){.token = token};
    buf_init(&bytes, TOKEN_BYTES);
    /* The version is checked first, since it decides how the rest is read. */
    bool is_whole = decode_base64url(&bytes, token) == OK && buf_is_ok(&bytes) &&
                    bytes.len == TOKEN_BYTES && bytes.ptr[0] == CONNECT_SESSION_TOKEN_VERSION;
    if (is_whole) {
        /* Rows are keyed by account and hash, so the token contains the account's id. */
        memcpy(link->account_id.bytes, bytes.ptr + 1, 16);
        /* The database has only the hash: a copy of the table opens no link. */
        vault_sha256(buf_slice(&bytes), link->hash);
        encode_hex_in(link->mark, sizeof(link->mark), slice_of(link->hash, WEB_LINK_MARK_LEN / 2));
    } else {
        link->token = SLICE_NONE;
    }
    buf_deinit(&bytes);
    return is_whole;
}

slice web_link_mark_of_state(slice state)
{
    slice mark = slice_first(state, WEB_LINK_MARK_LEN);
    /* A state of the dashboard has no mark. */
    if (state.len <= WEB_LINK_MARK_LEN || state.ptr[WEB_LINK_MARK_LEN] != '.')
        return SLICE_NONE;
    for (size_t i = 0; i < mark.len; i++)
        if (!(ascii_is_digit(mark.ptr[i]) || (mark.ptr[i] >= 'a' && mark.ptr[i] <= 'f')))
            return SLICE_NONE;
    return mark;
}

struct audit_by app_link_by(struct web_request *request, const struct connect_session *link)
{
    char id[UUID_TEXT_LEN + 1];
    uuid_format(link->id, id);
    return (struct audit_by){
        .actor = arena_printf(&request->serve.op.arena, "link:%s", id),
        .request_id = request->serve.exchange->request_id,
        .address = serve_client_address(&request->serve),
        .means = SLICE("link"),
        .parent_id = link->parent_id,
    };
}

int app_link_result(const struct pg_query *query, const struct web_link *link,
                    struct connect_session *row)
{
    ASSERT(link->token.ptr);
    /* The result has no key columns: account and hash are copied from the token. */
    int status = store_connect_session_result(query, row);
    if (status != OK)
        return status;
    row->account_id = link->account_id;
    memcpy(row->token_hash, link->hash, sizeof(row->token_hash));
    return OK;
}
