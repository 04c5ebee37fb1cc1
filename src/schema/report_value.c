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

/* Never through the middle of a character. */
static slice shorten(slice text, size_t max)
{
    if (text.len <= max)
        return text;
    size_t len = max;
    while (len > 0 && ((unsigned char)text.ptr[len] & 0xC0) == 0x80)
        len--;
    return slice_first(text, len);
}

void schema_text_quote(struct buf *out, slice name)
{
    slice printed = shorten(name, QUOTED_BYTES_MAX);
    json_write_str(out, printed);
    if (printed.len < name.len)
        buf_append(out, SLICE("..."));
}

void schema_text_value(struct buf *out, const struct json *value)
{
    if (value->type == JSON_STRING) {
        schema_text_quote(out, json_str(value));
    } else if (value->type == JSON_BIGNUM && value->count > NUMBER_BYTES_MAX) {
        buf_append(out, (slice){value->as.text, NUMBER_BYTES_MAX});
        buf_append(out, SLICE("..."));
    } else if (value->type == JSON_ARRAY && value->count > 0) {
        buf_printf(out, "an array of %u item%s", value->count, value->count == 1 ? "" : "s");
    } else if (value->type == JSON_OBJECT && value->count > 0) {
        buf_append(out, SLICE("an object"));
    } else {
        json_write(out, value);
    }
}

/* A value of the schema: as JSON where that is short. */
static void append_wanted(struct buf *out, const struct json *value)
{
    /* A buffer over the room itself: where the value does not fit, it fails instead of growing. */
    char room[WANTED_BYTES_MAX + 1];
    struct buf text = {.ptr = room, .cap = WANTED_BYTES_MAX, .bytes_max = WANTED_BYTES_MAX};
    if (value->type == JSON_ARRAY || value->type == JSON_OBJECT)
        json_write(&text, value);
    ASSERT(text.ptr == room);
    if (text.len > 0 && buf_is_ok(&text))
        buf_append(out, buf_slice(&text));
    else
        schema_text_value(out, value);
}

static void append_got(struct buf *out, const struct json *value)
{
    buf_append(out, SLICE(" (got "));
    schema_text_value(out, value);
    buf_append(out, SLICE(")"));
}

static void append_list(struct buf *out, const struct json *list)
{
    uint32_t printed = list->count > ENUM_PRINTED_MAX ? ENUM_PRINTED_MAX : list->count;
    for (uint32_t i = 0; i < printed; i++) {
        if (i > 0)
            buf_append(out, SLICE(", "));
        append_wanted(out, &list->as.items[i]);
    }
    if (printed < list->count)
        buf_printf(out, " and %u more", list->count - printed);
}

slice schema_op_keyword(const struct schema_op *op)
{
    static const uint8_t keywords[] = {
        [OP_CONST] = KW_CONST,
        [OP_ENUM] = KW_ENUM,
        [OP_MULTIPLE_OF] = KW_MULTIPLE_OF,
        [OP_MINIMUM] = KW_MINIMUM,
        [OP_MAXIMUM] = KW_MAXIMUM,
        [OP_EXCLUSIVE_MINIMUM] = KW_EXCLUSIVE_MINIMUM,
        [OP_EXCLUSIVE_MAXIMUM] = KW_EXCLUSIVE_MAXIMUM,
        [OP_MIN_LENGTH] = KW_MIN_LENGTH,
        [OP_MAX_LENGTH] = KW_MAX_LENGTH,
        [OP_PATTERN] = KW_PATTERN,
        [OP_FORMAT] = KW_FORMAT,
        [OP_MIN_ITEMS] = KW_MIN_ITEMS,
        [OP_MAX_ITEMS] = KW_MAX_ITEMS,
        [OP_UNIQUE_ITEMS] = KW_UNIQUE_ITEMS,
        [OP_MIN_PROPERTIES] = KW_MIN_PROPERTIES,
        [OP_MAX_PROPERTIES] = KW_MAX_PROPERTIES,
        [OP_DEPENDENT_REQUIRED] = KW_DEPENDENT_REQUIRED,
        [OP_OBJECT] = KW_PROPERTIES,
        [OP_PROPERTY_NAMES] = KW_PROPERTY_NAMES,
        [OP_DEPENDENT_SCHEMAS] = KW_DEPENDENT_SCHEMAS,
        [OP_ITEMS] = KW_ITEMS,
        [OP_CONTAINS] = KW_CONTAINS,
        [OP_REF] = KW_REF,
        [OP_DYNAMIC_REF] = KW_DYNAMIC_REF,
        [OP_ALL_OF] = KW_ALL_OF,
        [OP_ANY_OF] = KW_ANY_OF,
        [OP_ONE_OF] = KW_ONE_OF,
        [OP_NOT] = KW_NOT,
        [OP_IF] = KW_IF,
        [OP_UNEVALUATED_ITEMS] = KW_UNEVALUATED_ITEMS,
        [OP_UNEVALUATED_PROPERTIES] = KW_UNEVALUATED_PROPERTIES,
    };
    ASSERT(op->kind < ARRAY_LEN(keywords));
    return keyword_name(keywords[op->kind]);
}

/* ---- type ---- */

bool schema_report_type(struct schema_run *run, const struct schema_at *at)
{
    static const char *const names[] = {"null",  "boolean", "number", "string",
                                        "array", "object",  "integer"};
    struct schema_text text;
    if (!run->report)
        return false;
    schema_text_begin(&text);
    unsigned left = at->node->types;
    buf_append(&text.message, SLICE("must be "));
    if (left == 0)
        buf_append(&text.message, SLICE("of no type at all"));
    for (unsigned i = 0; i < ARRAY_LEN(names); i++) {
        if (!(left & 1U << i))
            continue;
        buf_append_cstr(&text.message, names[i]);
        left &= ~(1U << i);
        /* Exactly one bit is left. */
        bool is_last_but_one = left && !(left & (left - 1));
        if (left)
            buf_append(&text.message, is_last_but_one ? SLICE(" or ") : SLICE(", "));
    }
    buf_printf(&text.message, ", not %s", json_type_name(at->value));
    /* A container is described by its type already. */
    if (at->value->type < JSON_ARRAY && at->value->type != JSON_NULL)
        append_got(&text.message, at->value);
    return schema_text_enter(run, &text, at, SLICE("type"));
}

/* ---- values ---- */

static void word_enum(struct schema_text *text, const struct json *list, const struct json *value)
{
    buf_append(&text->message, SLICE("must be one of "));
    append_list(&text->message, list);
    /* Only what is one edit away is suggested, or equal but for its case: a wrong hint is worse
     * than none. */
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
        return;
    buf_append(&text->hint, SLICE("use "));
    schema_text_quote(&text->hint, json_str(nearest));
    buf_append(&text->hint, SLICE(" instead of "));
    schema_text_quote(&text->hint, json_str(value));
}

static void word_bound(struct schema_text *text, const struct schema_op *op)
{
    static const char *const words[] = {
        [OP_MINIMUM - OP_MINIMUM] = "must be at least ",
        [OP_MAXIMUM - OP_MINIMUM] = "must be at most ",
        [OP_EXCLUSIVE_MINIMUM - OP_MINIMUM] = "must be greater than ",
        [OP_EXCLUSIVE_MAXIMUM - OP_MINIMUM] = "must be less than ",
    };
    buf_append_cstr(&text->message, words[op->kind - OP_MINIMUM]);
    schema_text_value(&text->message, op->as.value);
}

static void word_multiple_of(struct schema_text *text, const struct schema_at *at)
{
    buf_append(&text->message, SLICE("must be a multiple of "));
    /* The decimal is taken apart; the source has the number as it was written. */
    schema_text_value(&text->message, json_get(at->node->source, SLICE("multipleOf")));
}

static void word_value(struct schema_text *text, const struct schema_op *op,
                       const struct schema_at *at)
{
    switch (op->kind) {
    case OP_CONST:
        buf_append(&text->message, SLICE("must be "));
        append_wanted(&text->message, op->as.value);
        break;
    case OP_ENUM:
        word_enum(text, op->as.value, at->value);
        break;
    case OP_MULTIPLE_OF:
        word_multiple_of(text, at);
        break;
    case OP_PATTERN:
        buf_append(&text->message, SLICE("must match the pattern "));
        buf_append(&text->message, shorten(schema_pattern_source(op->as.pattern), 300));
        break;
    case OP_FORMAT:
        buf_append(&text->message, SLICE("must have the format "));
        buf_append(&text->message, op->as.format->name);
        buf_printf(&text->message, ", such as %s", op->as.format->hint);
        break;
    default:
        word_bound(text, op);
        break;
    }
}

bool schema_report_value(struct schema_run *run, const struct schema_op *op,
                         const struct schema_at *at)
{
    struct schema_text text;
    if (schema_is_over(run))
        return false;
    schema_text_begin(&text);
    word_value(&text, op, at);
    append_got(&text.message, at->value);
    return schema_text_enter(run, &text, at, schema_op_keyword(op));
}

/* ---- counts ---- */

bool schema_report_count(struct schema_run *run, const struct schema_op *op,
                         const struct schema_at *at, uint64_t got)
{
    static const struct {
        const char *verb, *noun;
    } words[] = {
        [OP_MIN_LENGTH] = {"must be at least", "character"},
        [OP_MAX_LENGTH] = {"must be at most", "character"},
        [OP_MIN_ITEMS] = {"must have at least", "item"},
        [OP_MAX_ITEMS] = {"must have at most", "item"},
        /* "propert" takes "y" or "ies" below. */
        [OP_MIN_PROPERTIES] = {"must have at least", "propert"},
        [OP_MAX_PROPERTIES] = {"must have at most", "propert"},
    };
    struct schema_text text;
    if (schema_is_over(run))
        return false;
    ASSERT(op->kind < ARRAY_LEN(words) && words[op->kind].verb);
    unsigned long long limit = op->as.limit;
    bool is_property = op->types == TYPE_OBJECT;
    const char *ending = is_property ? (limit == 1 ? "y" : "ies") : (limit == 1 ? "" : "s");
    schema_text_begin(&text);
    if (got == 0 && limit == 1)
        buf_append(&text.message, SLICE("must not be empty"));
    else
        buf_printf(&text.message, "%s %llu %s%s%s (got %llu)", words[op->kind].verb, limit,
                   words[op->kind].noun, ending, op->types == TYPE_STRING ? " long" : "",
                   (unsigned long long)got);
    return schema_text_enter(run, &text, at, schema_op_keyword(op));
}
