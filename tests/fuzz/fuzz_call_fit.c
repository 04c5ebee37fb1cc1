/*
 * Any output under any budget: the answer is valid JSON, stays within the budget, and lists each
 * cut with its position and a way to read the rest. The input is a budget in decimal, a line break,
 * and the output's JSON.
 */
#include <stdlib.h>

#include "base/mem.h"
#include "call/fit.h"
#include "json/json.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { ARENA_BYTES_MAX = 256 * 1024 * 1024, BUDGET_MAX = 1000000 };

static void check(bool is_fine)
{
    if (!is_fine)
        abort();
}

static size_t size_of(const struct json *value)
{
    struct buf text;
    buf_init(&text, ARENA_BYTES_MAX);
    json_write(&text, value);
    check(buf_is_ok(&text));
    size_t size = text.len;
    buf_deinit(&text);
    return size;
}

/* Checks that reading the rest after a cut returns everything that was left out. */
static void check_cut(struct arena *arena, slice summary, const struct json *whole,
                      const struct json *cut)
{
    struct call_fit wanted = {.pointer = json_get_str(cut, SLICE("pointer")),
                              .offset = (uint64_t)json_get_i64(cut, SLICE("kept"), -1)};
    int64_t of = json_get_i64(cut, SLICE("of"), -1);
    const struct json *part = json_pointer(whole, wanted.pointer);
    slice fitted, output;
    bool is_scalar = part && part->type < JSON_STRING; /* cut as a whole */
    check(part && (int64_t)wanted.offset <= of);
    check(is_scalar ? of == 1 && wanted.offset == 0 : (int64_t)part->count == of);
    check(json_get_str(cut, SLICE("more")).len > 0);
    check(call_fit_summary(summary, &wanted, arena, &fitted, &output) == OK);
    const struct json *rest = output.ptr ? json_parse(arena, output, &json_limits_provider, NULL)
                                         : whole;
    check(rest && rest->type == part->type);
    check(is_scalar || rest->count == part->count - wanted.offset);
}

static void check_fitted(struct arena *arena, slice summary, const struct json *whole,
                         size_t budget, slice output)
{
    const struct json *cut = json_parse(arena, output, &json_limits_provider, NULL);
    const struct json *cuts = JSON_GET(cut, "cuts"), *preview = JSON_GET(cut, "preview");
    check(cut && json_get_bool(cut, SLICE("truncated"), false) && preview);
    check((size_t)json_get_i64(cut, SLICE("bytes"), 0) == size_of(whole));
    check(size_of(preview) <= (budget > 4 ? budget : 4)); /* at least {}, [], "" or null */
    check(preview->type == whole->type || preview->type == JSON_NULL);
    for (uint32_t i = 0; i < cuts->count; i++)
        check_cut(arena, summary, whole, &cuts->as.items[i]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct arena arena;
    slice text = slice_of(data, size), line = slice_split(&text, '\n'), fitted, output;
    struct call_fit wanted = {.offset = 0};
    uint64_t budget;
    if (!slice_to_u64(line, BUDGET_MAX, &budget))
        return 0;
    arena_init(&arena, ARENA_BYTES_MAX);
    wanted.bytes_max = (size_t)budget;
    const struct json *whole = json_parse(&arena, text, &json_limits_provider, NULL);
    if (whole) {
        struct buf summary;
        buf_init(&summary, ARENA_BYTES_MAX);
        buf_append_cstr(&summary, "{\"status\":\"succeeded\",\"output\":");
        json_write(&summary, whole);
        buf_append_char(&summary, '}');
        check(call_fit_summary(buf_slice(&summary), &wanted, &arena, &fitted, &output) == OK);
        if (output.ptr)
            check_fitted(&arena, buf_slice(&summary), whole, wanted.bytes_max, output);
        else
            check(budget == 0 || size_of(whole) <= budget);
        buf_deinit(&summary);
    }
    arena_deinit(&arena);
    check(mem_live_blocks() == 0);
    return 0;
}
