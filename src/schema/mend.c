/*
 * Harmless slips of a model in an instance: see schema_mend. A value is replaced because the report
 * says that its type is wrong, and stays replaced only if the next report has nothing against it or
 * a part of it. So alternatives and references need no rules here, and a text that any schema
 * accepts is never changed.
 */
#include "base/mem.h"
#include "schema/program.h"

/* All JSON texts of an instance together; a longer one is reported as a text. */
enum { TEXTS_BYTES_MAX = 32 * 1024 };

struct mend {
    struct arena *arena;
    size_t texts_left, depth; /* depth: of the containers around the instance */
};

static size_t depth_of(slice pointer)
{
    size_t depth = 0;
    slice token;
    while (json_pointer_next(&pointer, &token))
        depth++;
    return depth;
}

/* Parses a text. Returns NULL if it is not JSON, too long, or nested too deeply for its place. */
static struct json *parse(struct mend *mend, slice text, size_t depth)
{
    struct json_limits limits = json_limits_request;
    if (text.len > mend->texts_left)
        return NULL;
    mend->texts_left -= text.len;
    limits.depth_max -= depth;
    return json_parse(mend->arena, text, &limits, NULL);
}

/* Returns false if the text is not a slip where these types are allowed. */
static bool replacement(struct mend *mend, const struct schema_violation *violation,
                        const struct json *text, struct json *result)
{
    unsigned types = violation->types;
    size_t depth = mend->depth + depth_of(violation->pointer);
    if (depth >= json_limits_request.depth_max) /* no container fits here */
        return false;
    const struct json *value = parse(mend, json_str(text), depth);
    bool is_wanted = value && ((types & TYPE_OBJECT && value->type == JSON_OBJECT) ||
                               (types & TYPE_ARRAY && value->type == JSON_ARRAY) ||
                               (types & (TYPE_NUMBER | TYPE_INTEGER) && json_is_number(value)));
    if (is_wanted) {
        *result = *value;
        return true;
    }
    /* It was meant as a list or an object, so it must not become the only item of a list. */
    bool is_broken = slice_starts_with(slice_trim(json_str(text)), SLICE("[")) ||
                     slice_starts_with(slice_trim(json_str(text)), SLICE("{"));
    struct json *item = types & TYPE_ARRAY && !is_broken ? ARENA_NEW(mend->arena, struct json)
                                                         : NULL;
    if (!item)
        return false;
    *item = *text;
    *result = (struct json){.type = JSON_ARRAY, .count = 1, .as.items = item};
    return true;
}

/* A copy of `value` in which the place that the pointer leads to has the new value; containers on
 * the way are copied, the rest is shared. Returns false if out of memory. */
static bool put_at(struct arena *arena, struct json *value, slice pointer, const struct json *new)
{
    slice token;
    uint64_t index = 0;
    if (!json_pointer_next(&pointer, &token)) {
        *value = *new;
        return true;
    }
    if (value->type == JSON_ARRAY) {
        struct json *items = ARENA_ARRAY(arena, struct json, value->count);
        if (!items || !json_pointer_token_index(token, &index) || index >= value->count)
            return false;
        memcpy(items, value->as.items, value->count * sizeof(*items));
        value->as.items = items;
        return put_at(arena, &items[index], pointer, new);
    }
    struct json_member *members = ARENA_ARRAY(arena, struct json_member, value->count);
    while (index < value->count &&
           !json_pointer_token_is(token, json_str(&value->as.members[index].key)))
        index++;
    if (!members || index == value->count)
        return false;
    memcpy(members, value->as.members, value->count * sizeof(*members));
    value->as.members = members;
    return put_at(arena, &members[index].value, pointer, new);
}

/* Replaces each text that is a slip. Returns false if there is none, or if out of memory. */
static bool replace_all(struct mend *mend, const struct schema_report *report, struct json *value,
                        struct schema_slips *slips)
{
    for (size_t i = 0; i < report->count; i++) {
        const struct schema_violation *violation = &report->violations[i];
        const struct json *text = json_pointer(value, violation->pointer);
        struct json new;
        if (violation->types == 0 || !json_is(text, JSON_STRING) ||
            !replacement(mend, violation, text, &new))
            continue;
        if (!put_at(mend->arena, value, violation->pointer, &new))
            return false;
        slips->pointers[slips->count++] = violation->pointer;
    }
    return slips->count > 0;
}

static bool is_within(slice pointer, slice outer)
{
    return slice_starts_with(pointer, outer) &&
           (pointer.len == outer.len || pointer.ptr[outer.len] == '/');
}

static bool is_accepted(const struct schema_report *report, const struct schema_slips *slips)
{
    for (size_t i = 0; i < report->count; i++)
        for (size_t k = 0; k < slips->count; k++)
            if (is_within(report->violations[i].pointer, slips->pointers[k]))
                return false;
    return !report->is_cut;
}

const struct json *schema_mend(const struct schema *schema, const struct json *instance,
                               size_t depth, struct arena *arena, struct schema_slips *slips)
{
    struct mend mend = {.arena = arena, .texts_left = TEXTS_BYTES_MAX, .depth = depth};
    struct schema_report report;
    *slips = (struct schema_slips){0};
    if (schema_validate(schema, instance, NULL))
        return instance;
    schema_report_init(&report, arena, SLICE(""));
    struct json *mended = ARENA_NEW(arena, struct json);
    if (!mended || schema_validate(schema, instance, &report) || report.is_cut)
        return instance;
    *mended = *instance;
    if (replace_all(&mend, &report, mended, slips)) {
        schema_report_init(&report, arena, SLICE(""));
        if ((schema_validate(schema, mended, &report) || is_accepted(&report, slips)) &&
            !arena->is_exhausted)
            return mended;
    }
    slips->count = 0;
    return instance;
}
