/*
 * writer: the streaming writer. Its only state is whether a comma comes next: after every value and
 * every closed container, but not after an opening bracket or a key. The caller makes sure that
 * brackets match and that keys are in objects.
 */
#include "base/clock.h"
#include "json/json.h"

void json_begin(struct json_writer *w, struct buf *out)
{
    *w = (struct json_writer){.out = out};
}

struct json_writer *json_text_begin(struct json_text *text, size_t bytes_max)
{
    buf_init(&text->buf, bytes_max);
    json_begin(&text->w, &text->buf);
    return &text->w;
}

slice json_text_take(struct json_text *text, struct arena *arena)
{
    return arena_take(arena, &text->buf);
}

slice json_text_of(const struct json *value, struct arena *arena, size_t bytes_max)
{
    struct buf text;
    buf_init(&text, bytes_max);
    json_write(&text, value);
    return arena_take(arena, &text);
}

static void before_value(struct json_writer *w)
{
    if (w->needs_comma)
        buf_append_char(w->out, ',');
    w->needs_comma = true;
}

void json_open(struct json_writer *w, char bracket)
{
    ASSERT(bracket == '{' || bracket == '[');
    before_value(w);
    buf_append_char(w->out, bracket);
    w->needs_comma = false;
}

void json_close(struct json_writer *w, char bracket)
{
    ASSERT(bracket == '}' || bracket == ']');
    buf_append_char(w->out, bracket);
    w->needs_comma = true;
}

void json_key_slice(struct json_writer *w, slice key)
{
    before_value(w);
    json_write_str(w->out, key);
    buf_append_char(w->out, ':');
    w->needs_comma = false;
}

void json_key(struct json_writer *w, const char *key)
{
    json_key_slice(w, slice_cstr(key));
}

void json_put(struct json_writer *w, const struct json *value)
{
    before_value(w);
    json_write(w->out, value ? value : &json_null);
}

void json_put_without_nulls(struct json_writer *w, const struct json *value)
{
    bool is_object = value->type == JSON_OBJECT;
    if (!is_object && value->type != JSON_ARRAY) {
        json_put(w, value);
        return;
    }
    json_open(w, is_object ? '{' : '[');
    for (uint32_t i = 0; i < value->count; i++) {
        const struct json *item = is_object ? &value->as.members[i].value : &value->as.items[i];
        if (is_object && item->type == JSON_NULL)
            continue;
        if (is_object)
            json_key_slice(w, json_str(&value->as.members[i].key));
        json_put_without_nulls(w, item);
    }
    json_close(w, is_object ? '}' : ']');
}

void json_put_str(struct json_writer *w, slice text)
{
    before_value(w);
    if (text.ptr)
        json_write_str(w->out, text);
    else
        buf_append(w->out, SLICE("null"));
}

void json_put_i64(struct json_writer *w, int64_t value)
{
    before_value(w);
    buf_append_i64(w->out, value);
}

void json_put_bool(struct json_writer *w, bool value)
{
    before_value(w);
    buf_append(w->out, value ? SLICE("true") : SLICE("false"));
}

void json_put_null(struct json_writer *w)
{
    before_value(w);
    buf_append(w->out, SLICE("null"));
}

void json_put_raw(struct json_writer *w, slice json_text)
{
    before_value(w);
    buf_append(w->out, json_text.len ? json_text : SLICE("null"));
}

void json_member(struct json_writer *w, const char *key, const struct json *value)
{
    json_key(w, key);
    json_put(w, value);
}

void json_member_str(struct json_writer *w, const char *key, slice text)
{
    json_key(w, key);
    json_put_str(w, text);
}

void json_member_words(struct json_writer *w, const char *key, slice words)
{
    if (!words.ptr) {
        json_member_str(w, key, SLICE_NONE);
        return;
    }
    json_member_open(w, key, '[');
    while (words.len > 0)
        json_put_str(w, slice_split(&words, ' '));
    json_close(w, ']');
}

void json_member_i64(struct json_writer *w, const char *key, int64_t value)
{
    json_key(w, key);
    json_put_i64(w, value);
}

void json_member_bool(struct json_writer *w, const char *key, bool value)
{
    json_key(w, key);
    json_put_bool(w, value);
}

void json_member_raw(struct json_writer *w, const char *key, slice json_text)
{
    json_key(w, key);
    json_put_raw(w, json_text);
}

void json_member_open(struct json_writer *w, const char *key, char bracket)
{
    json_key(w, key);
    json_open(w, bracket);
}

void json_member_time(struct json_writer *w, const char *key, int64_t wall_us)
{
    char text[TIME_TEXT_LEN + 1] = "";
    if (wall_us != 0)
        time_format(wall_us, text);
    json_member_str(w, key, wall_us == 0 ? SLICE_NONE : slice_cstr(text));
}

void json_member_uuid(struct json_writer *w, const char *key, struct uuid id)
{
    char text[UUID_TEXT_LEN + 1];
    uuid_format(id, text);
    json_member_str(w, key, slice_cstr(text));
}
