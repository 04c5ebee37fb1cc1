/*
 * Any bytes instead of a state of an MCP form. The first byte decides whether they are the text
 * itself, sealed data whose header may be this caller's, or changes of a good text. Only the good
 * text opens, sealed data are read within their bounds, and no memory is left allocated.
 */
#include <stdlib.h>

#include "base/clock.h"
#include "base/encode.h"
#include "base/mem.h"
#include "mcp/state.h"
#include "vault/seal.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* The layout of a state in src/mcp/state.c. */
enum {
    KEY_LEN = 16,
    HEADER_LEN = KEY_LEN + 8,
    FIXED_LEN = HEADER_LEN + MCP_NONCE_LEN + 8 + 32 + 1
};
enum { ARENA_BYTES_MAX = 16 * 1024 * 1024, INPUT_MAX = 16 * 1024 };

static struct api api;
static struct api_request request;
static size_t blocks; /* blocks allocated by the ring */

static void check(bool is_fine)
{
    if (!is_fine)
        abort();
}

static void set_up(void)
{
    struct err err = {.code = OK};
    if (api.config.ring)
        return;
    api.config.ring = vault_ring_new(
        SLICE("000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f"), &err);
    check(api.config.ring != NULL);
    request.api = &api;
    for (size_t i = 0; i < 16; i++) {
        request.serve.grant.account_id.bytes[i] = (uint8_t)i;
        request.serve.grant.key_id.bytes[i] = (uint8_t)(200 + i);
    }
    blocks = mem_live_blocks();
}

static slice seal(slice plain)
{
    const struct vault_binding binding = {.account_id = request.serve.grant.account_id,
                                          .connection_id = -3};
    struct buf sealed, text;
    buf_init(&sealed, 2 * INPUT_MAX);
    buf_init(&text, 4 * INPUT_MAX);
    buf_append(&sealed, vault_ring_key_id(api.config.ring));
    check(vault_seal(api.config.ring, &binding, plain, &sealed) == OK);
    encode_base64url(&text, buf_slice(&sealed));
    buf_deinit(&sealed);
    return arena_take(&request.serve.op.arena, &text);
}

/* Opens data that only a bug in sluice could have sealed. */
static void open_sealed(slice plain)
{
    struct mcp_state state;
    int64_t until_ms = 0, now_ms = clock_wall_us() / 1000;
    bool is_whole = plain.len >= FIXED_LEN && plain.len <= FIXED_LEN + MCP_FILLED_BYTES_MAX;
    bool is_mine = is_whole && memcmp(plain.ptr, request.serve.grant.key_id.bytes, KEY_LEN) == 0;
    if (is_mine)
        memcpy(&until_ms, plain.ptr + KEY_LEN, sizeof(until_ms));
    bool is_open = mcp_state_open(&request, seal(plain), &state);
    check(is_open == (is_mine && until_ms >= now_ms));
    if (!is_open)
        return;
    check(memcmp(state.nonce, plain.ptr + HEADER_LEN, MCP_NONCE_LEN) == 0);
    check(slice_eq(state.filled, slice_from(plain, FIXED_LEN)));
}

/* Opens data that was sealed for this caller, with an expiry in the future. */
static void open_own(slice rest)
{
    struct buf plain;
    int64_t until_ms = clock_wall_us() / 1000 + MCP_STATE_MS;
    buf_init(&plain, 2 * INPUT_MAX);
    buf_append(&plain, slice_of(request.serve.grant.key_id.bytes, KEY_LEN));
    buf_append(&plain, slice_of(&until_ms, sizeof(until_ms)));
    buf_append(&plain, rest);
    check(buf_is_ok(&plain));
    open_sealed(buf_slice(&plain));
    buf_deinit(&plain);
}

/* Opens the good text after changes. Each change is two bytes of a position and one byte to write
 * there; 0 ends the text there. */
static void open_changed(slice changes)
{
    struct mcp_state given = {.connection_id = 7, .is_confirmation = true}, state;
    slice text = mcp_state_seal(&request, &given);
    slice changed = arena_dup(&request.serve.op.arena, text);
    check(changed.ptr && mcp_state_open(&request, text, &state) && state.connection_id == 7);
    for (; changes.len >= 3; changes = slice_from(changes, 3)) {
        const uint8_t *at = (const uint8_t *)changes.ptr;
        size_t position = (size_t)(at[0] << 8 | at[1]) % text.len;
        if (at[2] == 0 && position < changed.len)
            changed.len = position;
        ((char *)changed.ptr)[position] = (char)at[2];
    }
    check(mcp_state_open(&request, changed, &state) == slice_eq(changed, text));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct mcp_state state;
    if (size == 0 || size > INPUT_MAX)
        return 0;
    set_up();
    arena_init(&request.serve.op.arena, ARENA_BYTES_MAX);
    slice rest = slice_of(data + 1, size - 1);
    switch (data[0] % 4) {
    case 0:
        check(!mcp_state_open(&request, rest, &state));
        break;
    case 1:
        open_sealed(rest);
        break;
    case 2:
        open_own(rest);
        break;
    default:
        open_changed(rest);
        break;
    }
    arena_deinit(&request.serve.op.arena);
    check(mem_live_blocks() == blocks);
    return 0;
}
