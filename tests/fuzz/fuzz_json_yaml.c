/*
 * Any text as YAML: it is refused with a message, or becomes a value within both limits that is the
 * same after it is written and parsed as JSON. A second run gives the same result, and no memory is
 * left allocated.
 */
#include <stdlib.h>

#include "base/mem.h"
#include "json/yaml.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* The limits are low, so that a short input reaches them. */
enum {
    INPUT_MAX = 16 * 1024,
    DEPTH_MAX = 24,
    NODES_MAX = 2000,
    ARENA_BYTES_MAX = 64 * 1024 * 1024
};

static void check(bool is_fine)
{
    if (!is_fine)
        abort();
}

/* Counts everything that a walk over the value visits. */
static size_t count_nodes(const struct json *value, unsigned depth)
{
    size_t count = 1;
    check(depth <= DEPTH_MAX);
    for (uint32_t i = 0; value->type == JSON_ARRAY && i < value->count; i++)
        count += count_nodes(&value->as.items[i], depth + 1);
    for (uint32_t i = 0; value->type == JSON_OBJECT && i < value->count; i++)
        count += count_nodes(&value->as.members[i].value, depth + 1);
    return count;
}

static void check_text(struct arena *arena, const struct json *value)
{
    struct buf text;
    buf_init(&text, ARENA_BYTES_MAX);
    json_write(&text, value);
    check(buf_is_ok(&text));
    const struct json *read = json_parse(arena, buf_slice(&text), &json_limits_request, NULL);
    check((read && json_equal(read, value)) || arena->is_exhausted);
    buf_deinit(&text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct arena arena;
    struct err err = {.code = OK}, again = {.code = OK};
    slice text = slice_of(data, size);
    if (size > INPUT_MAX)
        return 0;
    arena_init(&arena, ARENA_BYTES_MAX);
    const struct json *value = yaml_parse(&arena, text, DEPTH_MAX, NODES_MAX, &err);
    const struct json *other = yaml_parse(&arena, text, DEPTH_MAX, NODES_MAX, &again);
    check((value == NULL) == (other == NULL) && err.code == again.code);
    check(value || (err.code != OK && slice_cstr(err.text).len > 0));
    if (value) {
        check(json_equal(value, other));
        check(count_nodes(value, 0) <= NODES_MAX);
        check_text(&arena, value);
    }
    arena_deinit(&arena);
    check(mem_live_blocks() == 0);
    return 0;
}
