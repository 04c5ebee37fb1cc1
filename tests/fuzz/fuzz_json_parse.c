/*
 * Any bytes: the parser refuses them with a position, or its result survives every writer. The
 * first byte chooses the limits.
 */
#include <stdlib.h>

#include "base/mem.h"
#include "json/json.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(bool is_fine)
{
    if (!is_fine)
        abort();
}

static void check_round_trip(struct arena *arena, const struct json *value)
{
    void (*const writers[])(struct buf *, const struct json *) = {json_write, json_write_pretty,
                                                                  json_write_sorted};
    for (size_t i = 0; i < ARRAY_LEN(writers); i++) {
        struct buf out;
        buf_init(&out, (size_t)64 * 1024 * 1024);
        writers[i](&out, value);
        check(buf_is_ok(&out));
        struct err err = {0};
        const struct json *again = json_parse(arena, buf_slice(&out), &json_limits_provider, &err);
        check(again && json_equal(value, again) && json_hash(value) == json_hash(again));
        buf_deinit(&out);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0)
        return 0;
    const struct json_limits *limits = data[0] & 1 ? &json_limits_request : &json_limits_provider;
    struct arena arena;
    arena_init(&arena, (size_t)256 * 1024 * 1024);
    struct err err = {0};
    const struct json *value =
        json_parse(&arena, (slice){(const char *)data + 1, size - 1}, limits, &err);
    if (value)
        check_round_trip(&arena, value);
    else
        check(err.code != OK && err.text[0]);
    arena_deinit(&arena);
    check(mem_live_blocks() == 0);
    return 0;
}
