/*
 * Sealed states; see state.h. The text is base64url of the master key's id and the sealed bytes:
 * the id of the API key (16), the time of expiry in milliseconds (8), and the members of struct
 * mcp_state, `filled` last.
 */
#include "mcp/state.h"

#include "base/clock.h"
#include "base/encode.h"
#include "exec/exec.h"
#include "vault/key.h"
#include "vault/seal.h"

enum {
    FIXED_LEN = 16 + 8 + MCP_NONCE_LEN + 8 + 32 + 1,
    PLAIN_MAX = FIXED_LEN + MCP_FILLED_BYTES_MAX,
    SEALED_MAX = VAULT_KEY_ID_LEN + VAULT_SEAL_OVERHEAD + PLAIN_MAX,
};

/* No connection and no other sealed text has this id: a state cannot be unsealed as anything
 * else. */
static struct vault_binding state_binding_of(const struct api_request *request)
{
    return (struct vault_binding){.account_id = request->serve.grant.account_id,
                                  .connection_id = -3};
}

/* The input is sorted, so that a client may write its members in any order. */
static bool finish_digest(struct buf *text, const struct json *input, uint8_t digest[32])
{
    buf_append_char(text, '\n');
    json_write_sorted(text, input);
    bool is_whole = buf_is_ok(text);
    if (is_whole)
        vault_sha256(buf_slice(text), digest);
    buf_deinit(text);
    return is_whole;
}

bool mcp_state_digest(const struct exec_request *wanted, const struct catalog_action *action,
                      uint8_t digest[32])
{
    struct buf text;
    buf_init(&text, MCP_CALL_BYTES_MAX);
    buf_printf(&text, "%.*s\n%lld %u\n%zu:%.*s\n", SLICE_ARG(action->tool_name),
               (long long)wanted->connection_id, wanted->pages_max, wanted->idempotency_key.len,
               SLICE_ARG(wanted->idempotency_key));
    /* a changed action is not the action that the person agreed to */
    buf_append(&text, action->detail_json);
    return finish_digest(&text, wanted->input, digest);
}

/* The digest begins with the name start_flow, which no tool of the catalog has. */
bool mcp_state_digest_start(const struct flow_request *in, const struct flow_template *tmpl,
                            uint8_t digest[32])
{
    struct buf text;
    buf_init(&text, MCP_CALL_BYTES_MAX);
    buf_printf(&text, "start_flow\n%.*s\n%zu:%.*s\n", SLICE_ARG(tmpl->key), in->idempotency_key.len,
               SLICE_ARG(in->idempotency_key));
    buf_append(&text, slice_of(tmpl->whole.bytes, sizeof(tmpl->whole.bytes)));
    return finish_digest(&text, in->input, digest);
}

slice mcp_state_seal(struct api_request *request, const struct mcp_state *state)
{
    const struct vault_ring *ring = request->api->config.ring;
    const struct vault_binding binding = state_binding_of(request);
    int64_t until_ms = clock_shared_us() / 1000 + MCP_STATE_MS;
    uint8_t is_confirmation = state->is_confirmation;
    struct buf plain, sealed, text;
    buf_init(&plain, PLAIN_MAX);
    buf_append(&plain, slice_of(request->serve.grant.key_id.bytes, 16));
    buf_append(&plain, slice_of(&until_ms, 8));
    buf_append(&plain, slice_of(state->nonce, MCP_NONCE_LEN));
    buf_append(&plain, slice_of(&state->connection_id, 8));
    buf_append(&plain, slice_of(state->call, 32));
    buf_append(&plain, slice_of(&is_confirmation, 1));
    buf_append(&plain, state->filled);
    buf_init(&sealed, SEALED_MAX);
    buf_init(&text, 2 * SEALED_MAX);
    buf_append(&sealed, vault_ring_key_id(ring));
    if (buf_is_ok(&plain) && vault_seal(ring, &binding, buf_slice(&plain), &sealed) == OK)
        encode_base64url(&text, buf_slice(&sealed));
    buf_deinit(&plain);
    buf_deinit(&sealed);
    slice result = arena_take(&request->serve.op.arena, &text);
    return result.len > 0 ? result : SLICE_NONE;
}

/* Reads an unsealed text. It was sealed by this server, so only the caller and the expiry are
 * checked. */
static bool read_plain(struct api_request *request, slice plain, struct mcp_state *state)
{
    const char *at = plain.ptr;
    if (plain.len < FIXED_LEN || memcmp(at, request->serve.grant.key_id.bytes, 16) != 0)
        return false;
    memcpy(&state->until_ms, at += 16, 8);
    memcpy(state->nonce, at += 8, MCP_NONCE_LEN);
    memcpy(&state->connection_id, at += MCP_NONCE_LEN, 8);
    memcpy(state->call, at += 8, 32);
    state->is_confirmation = at[32] != 0;
    state->filled = arena_dup(&request->serve.op.arena, slice_from(plain, FIXED_LEN));
    return state->filled.ptr && clock_shared_us() / 1000 <= state->until_ms;
}

/* Accepts only the canonical text of those bytes: base64url has unused bits at its end, which
 * would allow other texts. */
static bool is_canonical(slice bytes, slice text)
{
    char room[BASE64URL_LEN(SEALED_MAX)];
    return slice_eq(encode_base64url_in(room, sizeof(room), bytes), text);
}

bool mcp_state_open(struct api_request *request, slice text, struct mcp_state *state)
{
    const struct vault_binding binding = state_binding_of(request);
    struct secret *plain = NULL;
    struct buf bytes;
    buf_init(&bytes, SEALED_MAX);
    bool is_good =
        text.len <= BASE64URL_LEN(SEALED_MAX) && decode_base64url(&bytes, text) == OK &&
        bytes.len > VAULT_KEY_ID_LEN && is_canonical(buf_slice(&bytes), text) &&
        vault_open(request->api->config.ring, &binding, slice_of(bytes.ptr, VAULT_KEY_ID_LEN),
                   slice_from(buf_slice(&bytes), VAULT_KEY_ID_LEN), &plain, NULL) == OK &&
        read_plain(request, secret_reveal(plain), state);
    secret_unref(plain);
    buf_deinit(&bytes);
    return is_good;
}
