/*
 * schema_report_value: the wording of violations about single values: type, enum, bounds, lengths,
 * patterns. Values of the instance are cut and quoted as JSON: they may be large or hold control
 * characters, and the message goes into logs and terminals.
 */
#include "base/suggest.h"
#include "schema/report.h"

enum {
    QUOTED_BYTES_MAX = 60,
    NUMBER_BYTES_MAX = 40,
    WANTED_BYTES_MAX = 80,
    ENUM_PRINTED_MAX = 12,
};

/* ---- parts of sentences ---- */

slice schema_text_quote(const struct schema_run *run, slice name)
{
    char room[6 * QUOTED_BYTES_MAX + 2]; /* each byte may become \u00xx */
    struct buf text = {.ptr = room, .cap = sizeof(room), .bytes_max = sizeof(room)};
    slice printed = slice_first_utf8(name, QUOTED_BYTES_MAX);
    json_write_str(&text, printed);
    return arena_printf(run->report->arena, "%.*s%s", SLICE_ARG(buf_slice(&text)),
                        printed.len < name.len ? "..." : "");
}

slice schema_text_value(const struct schema_run *run, const struct json *value)
{
    struct arena *arena = run->report->arena;
    char room[NUMBER_BYTES_MAX];
    struct buf text = {.ptr = room, .cap = sizeof(room), .bytes_max = sizeof(room)};
    if (value->type == JSON_STRING)
        return schema_text_quote(run, json_str(value));
    if (value->type == JSON_BIGNUM && value->count > NUMBER_BYTES_MAX)
        return arena_printf(arena, "%.*s...", NUMBER_BYTES_MAX, value->as.text);
    if (value->type == JSON_ARRAY && value->count > 0)
        return arena_printf(arena, "an array of %u item%s", value->count,
                            value->count == 1 ? "" : "s");
    if (value->type == JSON_OBJECT && value->count > 0)
        return SLICE("an object");
    json_write(&text, value);
    return arena_dup(arena, buf_slice(&text));
}

/* A value of the schema: as JSON where that is short. */
static slice wanted_text(const struct schema_run *run, const struct json *value)
{
    /* A buffer over the room itself: where the value does not fit, it fails instead of growing. */
    char room[WANTED_BYTES_MAX + 1];
    struct buf text = {.ptr = room, .cap = WANTED_BYTES_MAX, .bytes_max = WANTED_BYTES_MAX};
    if (value->type == JSON_ARRAY || value->type == JSON_OBJECT)
        json_write(&text, value);
    ASSERT(text.ptr == room);
    return text.len > 0 && buf_is_ok(&text) ? arena_dup(run->report->arena, buf_slice(&text))
                                            : schema_text_value(run, value);
}

static slice list_text(const struct schema_run *run, const struct json *list)
{
    struct arena *arena = run->report->arena;
    uint32_t printed = list->count > ENUM_PRINTED_MAX ? ENUM_PRINTED_MAX : list->count;
    slice text = SLICE("");
    for (uint32_t i = 0; i < printed; i++)
        text = arena_printf(arena, "%.*s%s%.*s", SLICE_ARG(text), i > 0 ? ", " : "",
                            SLICE_ARG(wanted_text(run, &list->as.items[i])));
    return printed == list->count
               ? text
               : arena_printf(arena, "%.*s and %u more", SLICE_ARG(text), list->count - printed);
}

/* ---- type ---- */

bool schema_report_type(struct schema_run *run, const struct schema_at *at)
{
    static const char *const names[] = {"null",  "boolean", "number", "string",
                                        "array", "object",  "integer"};
    if (!run->report)
        return false;
    struct arena *arena = run->report->arena;
    unsigned left = at->node->types;
    slice text = left == 0 ? SLICE("of no type at all") : SLICE("");
    for (unsigned i = 0; i < ARRAY_LEN(names); i++) {
        if (!(left & 1U << i))
            continue;
        left &= ~(1U << i);
        /* Exactly one bit is left. */
        bool is_last_but_one = left && !(left & (left - 1));
        text = arena_printf(arena, "%.*s%s%s", SLICE_ARG(text), names[i],
                            is_last_but_one ? " or "
                            : left          ? ", "
                                            : "");
    }
    text = arena_printf(arena, "must be %.*s, not %s", SLICE_ARG(text), json_type_name(at->value));
    /* A container is described by its type already. */
    if (at->value->type < JSON_ARRAY && at->value->type != JSON_NULL)
        text = arena_printf(arena, "%.*s (got %.*s)", SLICE_ARG(text),
                            SLICE_ARG(schema_text_value(run, at->value)));
    return schema_report_enter(run, at, SLICE("type"), text, SLICE_NONE);
}

/* ---- values ---- */

/* Only what is one edit away is suggested, or equal but for its case: a wrong hint is worse than
 * none. */
static slice hint_enum(const struct schema_run *run, const struct json *list,
                       const struct json *value)
{
    unsigned best = 2;
    const struct json *nearest = NULL;
    for (uint32_t i = 0; i < list->count && value->type == JSON_STRING; i++) {
        const struct json *item = &list->as.items[i];
        if (item->type != JSON_STRING)
            continue;
        unsigned distance = suggest_distance(json_str(item), json_str(value), 2);
        /* Short words are near to many others. */
        if (distance < best && (distance == 0 || value->count > 3)) {
            best = distance;
            nearest = item;
        }
    }
    if (!nearest)
        return SLICE_NONE;
    return arena_printf(run->report->arena, "use %.*s instead of %.*s",
                        SLICE_ARG(schema_text_quote(run, json_str(nearest))),
                        SLICE_ARG(schema_text_quote(run, json_str(value))));
}

/* What the op wants, behind "must ". */
static slice wish_text(const struct schema_run *run, const struct schema_op *op,
                       const struct schema_at *at)
{
    static const char *const bounds[KW_COUNT] = {
        [KW_MINIMUM] = "be at least",
        [KW_MAXIMUM] = "be at most",
        [KW_EXCLUSIVE_MINIMUM] = "be greater than",
        [KW_EXCLUSIVE_MAXIMUM] = "be less than",
    };
    struct arena *arena = run->report->arena;
    slice text;
    switch (op->kind) {
    case KW_CONST:
        return arena_printf(arena, "be %.*s", SLICE_ARG(wanted_text(run, op->as.value)));
    case KW_ENUM:
        return arena_printf(arena, "be one of %.*s", SLICE_ARG(list_text(run, op->as.value)));
    case KW_MULTIPLE_OF:
        /* The decimal is taken apart; the source has the number as it was written. */
        text = schema_text_value(run, json_get(at->node->source, SLICE("multipleOf")));
        return arena_printf(arena, "be a multiple of %.*s", SLICE_ARG(text));
    case KW_PATTERN:
        text = slice_first_utf8(schema_pattern_source(op->as.pattern), 300);
        return arena_printf(arena, "match the pattern %.*s", SLICE_ARG(text));
    case KW_FORMAT:
        return arena_printf(arena, "have the format %.*s, such as %s",
                            SLICE_ARG(op->as.format->name), op->as.format->hint);
    default:
        ASSERT(bounds[op->kind]);
        return arena_printf(arena, "%s %.*s", bounds[op->kind],
                            SLICE_ARG(schema_text_value(run, op->as.value)));
    }
}

bool schema_report_value(struct schema_run *run, const struct schema_op *op,
                         const struct schema_at *at)
{
    if (schema_is_over(run))
        return false;
    slice message = arena_printf(run->report->arena, "must %.*s (got %.*s)",
                                 SLICE_ARG(wish_text(run, op, at)),
                                 SLICE_ARG(schema_text_value(run, at->value)));
    return schema_report_enter(run, at, keyword_name(op->kind), message,
                               op->kind == KW_ENUM ? hint_enum(run, op->as.value, at->value)
                                                   : SLICE_NONE);
}

/* ---- counts ---- */

bool schema_report_count(struct schema_run *run, const struct schema_op *op,
                         const struct schema_at *at, uint64_t got)
{
    static const struct {
        const char *verb, *one, *many;
    } words[KW_COUNT] = {
        [KW_MIN_LENGTH] = {"be at least", "character long", "characters long"},
        [KW_MAX_LENGTH] = {"be at most", "character long", "characters long"},
        [KW_MIN_ITEMS] = {"have at least", "item", "items"},
        [KW_MAX_ITEMS] = {"have at most", "item", "items"},
        [KW_MIN_PROPERTIES] = {"have at least", "property", "properties"},
        [KW_MAX_PROPERTIES] = {"have at most", "property", "properties"},
    };
    if (schema_is_over(run))
        return false;
    ASSERT(words[op->kind].verb);
    unsigned long long limit = op->as.limit;
    slice message = SLICE("must not be empty");
    if (got > 0 || limit != 1)
        message = arena_printf(
            run->report->arena, "must %s %llu %s (got %llu)", words[op->kind].verb, limit,
            limit == 1 ? words[op->kind].one : words[op->kind].many, (unsigned long long)got);
    return schema_report_enter(run, at, keyword_name(op->kind), message, SLICE_NONE);
}
