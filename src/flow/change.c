/*
 * The changes that a call makes; see change.h.
 *
 * A person decides by this table, so it omits anything that may be wrong: if no member of `now` is
 * known there is no table, and equal texts do not count as a difference. For a call that sends
 * nulls the number of unchanged properties is uncertain, since a null may clear a property.
 */
#include "flow/change.h"

enum { VALUE_BYTES_MAX = 1024 * 1024, NAME_BYTES_MAX = 100, BYTES_BEFORE_DIFFERENCE = 60 };

/* Returns the value as text for people: a string as it is, null and "" as an empty text, everything
 * else as JSON. SLICE_NONE if the text is too large. */
static slice text_of(const struct json *value, struct arena *arena)
{
    if (!value || value->type == JSON_NULL)
        return SLICE("");
    return json_is(value, JSON_STRING) ? json_str(value)
                                       : json_text_of(value, arena, VALUE_BYTES_MAX);
}

static bool is_nothing(const struct json *value)
{
    return value->type == JSON_NULL || (value->type == JSON_STRING && json_str(value).len == 0);
}

/* An object without any known property reveals nothing: it comes from a skipped step, or from an
 * item that was not found. */
static bool is_known(const struct json *now)
{
    for (uint32_t i = 0; json_is(now, JSON_OBJECT) && i < now->count; i++)
        if (now->as.members[i].value.type != JSON_NULL)
            return true;
    return false;
}

static bool has_null(const struct json *value)
{
    bool is_found = value->type == JSON_NULL;
    if (value->type == JSON_ARRAY)
        for (uint32_t i = 0; i < value->count && !is_found; i++)
            is_found = has_null(&value->as.items[i]);
    if (value->type == JSON_OBJECT)
        for (uint32_t i = 0; i < value->count && !is_found; i++)
            is_found = has_null(&value->as.members[i].value);
    return is_found;
}

/* Returns the position at which the two texts begin to differ, at the start of a character. */
static size_t difference_at(slice a, slice b)
{
    size_t at = 0;
    while (at < a.len && at < b.len && a.ptr[at] == b.ptr[at])
        at++;
    while (at > 0 && at < a.len && ((unsigned char)a.ptr[at] & 0xC0) == 0x80)
        at--;
    return at;
}

/* Writes a long text from shortly before the difference, so that two long texts never look the
 * same. */
static void put_text(struct json_writer *w, const char *key, slice text, size_t difference,
                     struct arena *arena)
{
    size_t from = 0;
    if (text.len == 0)
        return;
    if (text.len > FLOW_CHANGE_TEXT_BYTES_MAX && difference > BYTES_BEFORE_DIFFERENCE)
        from = difference - BYTES_BEFORE_DIFFERENCE;
    while (from > 0 && from < text.len && ((unsigned char)text.ptr[from] & 0xC0) == 0x80)
        from--;
    slice rest = slice_from(text, from), kept = slice_first_utf8(rest, FLOW_CHANGE_TEXT_BYTES_MAX);
    if (kept.len < text.len)
        kept = arena_printf(arena, "%s%.*s%s", from > 0 ? "\u2026" : "", SLICE_ARG(kept),
                            kept.len < rest.len ? "\u2026" : "");
    json_member_str(w, key, kept);
}

struct comparison {
    struct json_writer *w;
    struct arena *arena;
    const struct json *now, *then;
    size_t changed, same;
    bool is_sure; /* the number of unchanged properties is certain */
};

static void put_change(struct comparison *c, slice name, slice now, slice then)
{
    size_t at = difference_at(now, then);
    if (++c->changed > FLOW_CHANGE_PROPERTIES_MAX)
        return;
    json_open(c->w, '{');
    json_member_str(c->w, "name", slice_first_utf8(name, NAME_BYTES_MAX));
    put_text(c->w, "now", now, at, c->arena);
    put_text(c->w, "then", then, at, c->arena);
    json_close(c->w, '}');
}

/* If a property's new value is null, the call does not set that property. */
static void compare_member(struct comparison *c, const struct json_member *member)
{
    const struct json *value = &member->value, *before = json_get(c->now, json_str(&member->key));
    if (value->type == JSON_NULL)
        return;
    slice now = text_of(before, c->arena), then = text_of(value, c->arena);
    bool is_same = before ? json_equal(before, value) : is_nothing(value);
    if (!now.ptr || !then.ptr)
        c->is_sure = false;
    else if (is_same || slice_eq(now, then))
        c->same++;
    else
        put_change(c, json_str(&member->key), now, then);
}

static void put_properties(struct comparison *c)
{
    json_member_open(c->w, "properties", '[');
    for (uint32_t i = 0; i < c->then->count; i++)
        compare_member(c, &c->then->as.members[i]);
    json_close(c->w, ']');
    for (uint32_t i = 0; i < c->now->count; i++) {
        const struct json *then = json_get(c->then, json_str(&c->now->as.members[i].key));
        c->same += !then || then->type == JSON_NULL;
    }
    if (c->changed > FLOW_CHANGE_PROPERTIES_MAX)
        json_member_i64(c->w, "more", (int64_t)(c->changed - FLOW_CHANGE_PROPERTIES_MAX));
    if (c->is_sure)
        json_member_i64(c->w, "same", (int64_t)c->same);
}

/* Writes the title, unless it is not a text. */
static void put_title(struct json_writer *w, const struct flow_change *change,
                      const struct json *root, struct expr_budget *budget, struct arena *arena)
{
    struct json title;
    if (change->def->title &&
        expr_template_eval(change->def->title, root, 0, budget, arena, &title, NULL) == OK &&
        json_is(&title, JSON_STRING) && json_str(&title).len > 0)
        json_member_str(w, "title", slice_first_utf8(json_str(&title), FLOW_CHANGE_TEXT_BYTES_MAX));
}

void flow_change_write(struct json_writer *w, const struct flow_change *change,
                       struct expr_budget *budget, struct arena *arena)
{
    struct json root = json_object(), now, then;
    if (!change->before || change->before->type == JSON_NULL)
        return;
    json_object_set(arena, &root, SLICE("before"), *change->before);
    if (change->item) {
        json_object_set(arena, &root, SLICE("item"), *change->item);
        json_object_set(arena, &root, SLICE("index"), json_i64((int64_t)change->index));
    }
    /* If an expression fails, the changes are unknown. */
    if (arena->is_exhausted ||
        expr_template_eval(change->def->now, &root, 0, budget, arena, &now, NULL) != OK ||
        expr_template_eval(change->def->then, change->input, 0, budget, arena, &then, NULL) != OK ||
        !is_known(&now) || !json_is(&then, JSON_OBJECT))
        return;
    struct comparison c = {.w = w, .arena = arena, .now = &now, .then = &then};
    c.is_sure = !has_null(change->input);
    json_member_open(w, "changes", '{');
    json_member_str(w, "step", change->step);
    put_title(w, change, &root, budget, arena);
    put_properties(&c);
    json_close(w, '}');
}
