/* mcp/state: a sealed state opens for its caller until it expires, and does not open if it was
 * altered. */
#include "base/clock.h"
#include "base/encode.h"
#include "mcp/state.h"
#include "unit.h"
#include "vault/key.h"
#include "vault/seal.h"

enum { MUTATIONS = 10000 };

static struct api api;
static struct api_request request;
static struct mcp_state state;

static int setup(void **unused)
{
    struct buf key;
    struct err err;
    (void)unused;
    buf_init(&key, 1000);
    vault_master_key_new(&key);
    struct vault_ring *ring = vault_ring_new(buf_slice(&key), &err);
    buf_deinit(&key);
    if (!ring)
        return -1;
    api.config.ring = ring;
    request.api = &api;
    request.serve.grant.account_id = uuid_v7();
    request.serve.grant.key_id = uuid_v7();
    arena_init(&request.serve.op.arena, 64 * 1024 * 1024);
    random_bytes(state.nonce, sizeof(state.nonce));
    random_bytes(state.call, sizeof(state.call));
    state.connection_id = 4711;
    return 0;
}

static int teardown(void **unused)
{
    (void)unused;
    arena_deinit(&request.serve.op.arena);
    vault_ring_free((struct vault_ring *)api.config.ring);
    return unit_end();
}

static bool opens(slice text)
{
    struct mcp_state found;
    return mcp_state_open(&request, text, &found);
}

static void what_is_sealed_opens(void **unused)
{
    struct mcp_state found;
    slice text = mcp_state_seal(&request, &state), again = mcp_state_seal(&request, &state);
    (void)unused;
    assert_true(text.len > 100 && text.len < 300);
    assert_false(slice_eq(text, again));
    assert_true(mcp_state_open(&request, text, &found));
    assert_in_range(found.until_ms - clock_shared_us() / 1000, MCP_STATE_MS - 60000, MCP_STATE_MS);
    assert_memory_equal(found.nonce, state.nonce, sizeof(state.nonce));
    assert_memory_equal(found.call, state.call, sizeof(state.call));
    assert_int_equal(found.connection_id, 4711);
}

static void it_brings_back_what_was_given(void **unused)
{
    static char large[MCP_FILLED_BYTES_MAX + 1];
    struct mcp_state given = state, found;
    (void)unused;
    given.filled = SLICE("{\"subject\":\"hello\"}");
    given.is_confirmation = true;
    assert_true(mcp_state_open(&request, mcp_state_seal(&request, &given), &found));
    assert_true(slice_eq(found.filled, given.filled));
    assert_true(found.is_confirmation);
    assert_true(mcp_state_open(&request, mcp_state_seal(&request, &state), &found));
    assert_int_equal(found.filled.len, 0);
    assert_false(found.is_confirmation);
    memset(large, 'x', sizeof(large));
    given.filled = slice_of(large, MCP_FILLED_BYTES_MAX);
    assert_true(mcp_state_open(&request, mcp_state_seal(&request, &given), &found));
    given.filled = slice_of(large, sizeof(large));
    assert_null(mcp_state_seal(&request, &given).ptr);
}

static void it_opens_for_no_other_caller(void **unused)
{
    slice text = mcp_state_seal(&request, &state);
    struct vault_grant mine = request.serve.grant;
    (void)unused;
    request.serve.grant.account_id = uuid_v7();
    assert_false(opens(text));
    request.serve.grant = mine;
    request.serve.grant.key_id = uuid_v7();
    assert_false(opens(text));
    request.serve.grant = mine;
    assert_true(opens(text));
}

/* Seals the text again with another expiry. Its parts are the id of the master key, then the id of
 * the API key and the time (see state.c). */
static slice reseal(slice text, int64_t until_ms)
{
    const struct vault_binding binding = {.account_id = request.serve.grant.account_id,
                                          .connection_id = -3};
    struct secret *plain = NULL;
    struct buf bytes, sealed;
    buf_init(&bytes, 1000);
    buf_init(&sealed, 1000);
    assert_int_equal(decode_base64url(&bytes, text), OK);
    slice whole = buf_slice(&bytes), id = slice_first(whole, VAULT_KEY_ID_LEN);
    assert_int_equal(vault_open(api.config.ring, &binding, id, slice_from(whole, VAULT_KEY_ID_LEN),
                                &plain, NULL),
                     OK);
    slice kept = arena_dup(&request.serve.op.arena, secret_reveal(plain));
    memcpy((char *)kept.ptr + 16, &until_ms, sizeof(until_ms));
    buf_append(&sealed, id);
    assert_int_equal(vault_seal(api.config.ring, &binding, kept, &sealed), OK);
    bytes.len = 0;
    encode_base64url(&bytes, buf_slice(&sealed));
    secret_unref(plain);
    buf_deinit(&sealed);
    return arena_take(&request.serve.op.arena, &bytes);
}

static void it_does_not_open_late(void **unused)
{
    int64_t now_ms = clock_shared_us() / 1000;
    slice text = mcp_state_seal(&request, &state);
    (void)unused;
    assert_true(opens(reseal(text, now_ms + MCP_STATE_MS)));
    assert_false(opens(reseal(text, now_ms - 1)));
    assert_false(opens(reseal(text, 0)));
    assert_false(opens(reseal(text, INT64_MIN)));
}

/* Whatever the clocks of the machines say, both use the database's time. */
static void two_machines_agree_when_it_ends(void **unused)
{
    uint64_t boot_ns = clock_boot_ns();
    int64_t now_us = clock_wall_us(), off_us = 3600 * 1000000LL;
    (void)unused;
    clock_share(now_us - off_us, boot_ns, boot_ns); /* this process is an hour ahead */
    slice text = mcp_state_seal(&request, &state);
    struct mcp_state found;
    assert_true(mcp_state_open(&request, text, &found));
    assert_in_range(found.until_ms * 1000 - (now_us - off_us), MCP_STATE_MS * 1000LL - 60000000,
                    MCP_STATE_MS * 1000LL + 60000000);
    clock_share(found.until_ms * 1000 + 1000000, boot_ns, boot_ns);
    assert_false(opens(text));
    clock_share(now_us, boot_ns, boot_ns);
}

static void no_mutation_of_it_opens(void **unused)
{
    static const char letters[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_=+/. ";
    slice text = mcp_state_seal(&request, &state);
    char room[512];
    (void)unused;
    for (size_t i = 0; i < MUTATIONS; i++) {
        memcpy(room, text.ptr, text.len);
        size_t len = text.len, at = (size_t)random_below(text.len);
        char letter = letters[random_below(sizeof(letters) - 1)];
        switch (i % 4) {
        case 0:
            room[at] = letter;
            break;
        case 1:
            len = at;
            break;
        case 2:
            memmove(room + at + 1, room + at, text.len - at);
            room[at] = letter;
            len++;
            break;
        default:
            room[at] = letter;
            room[random_below(text.len)] = letters[random_below(64)];
            room[random_below(text.len)] = letters[random_below(64)];
        }
        slice mutant = slice_of(room, len);
        if (!slice_eq(mutant, text) && opens(mutant))
            fail_msg("%.*s opens as %.*s does", SLICE_ARG(mutant), SLICE_ARG(text));
    }
    assert_true(opens(text));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_sealed_opens),
        cmocka_unit_test(it_brings_back_what_was_given),
        cmocka_unit_test(it_opens_for_no_other_caller),
        cmocka_unit_test(it_does_not_open_late),
        cmocka_unit_test(two_machines_agree_when_it_ends),
        cmocka_unit_test(no_mutation_of_it_opens),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
