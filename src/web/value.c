/*
 * JSON as markup.
 */
#include "web/value.h"

static void write_cut(struct buf *out, slice text)
{
    slice shown = slice_first_utf8(text, VALUE_TEXT_BYTES_MAX);
    html_text(out, shown);
    if (shown.len < text.len)
        buf_append(out, SLICE(" ... (cut)"));
}

static void write_scalar(struct buf *out, const struct json *value)
{
    struct buf text;
    if (json_is(value, JSON_STRING)) {
        write_cut(out, json_str(value));
        return;
    }
    buf_init(&text, VALUE_TEXT_BYTES_MAX + 1024);
    json_write(&text, value);
    html_text(out, buf_slice(&text));
    buf_deinit(&text);
}

static void write_at(struct buf *out, const struct json *value, unsigned depth);

static void write_left_out(struct buf *out, size_t count, const char *tag)
{
    if (count > VALUE_ITEMS_MAX)
        buf_printf(out, "<%s>and %zu more</%s>", tag, count - VALUE_ITEMS_MAX, tag);
}

static void write_object(struct buf *out, const struct json *value, unsigned depth)
{
    buf_append(out, SLICE("<dl>"));
    for (size_t i = 0; i < value->count && i < VALUE_ITEMS_MAX; i++) {
        HTML(out, "<dt>{}</dt><dd>", json_str(&value->as.members[i].key));
        write_at(out, &value->as.members[i].value, depth + 1);
        buf_append(out, SLICE("</dd>"));
    }
    write_left_out(out, value->count, "dd");
    buf_append(out, SLICE("</dl>"));
}

static void write_array(struct buf *out, const struct json *value, unsigned depth)
{
    buf_append(out, SLICE("<ol>"));
    for (size_t i = 0; i < value->count && i < VALUE_ITEMS_MAX; i++) {
        buf_append(out, SLICE("<li>"));
        write_at(out, &value->as.items[i], depth + 1);
        buf_append(out, SLICE("</li>"));
    }
    write_left_out(out, value->count, "li");
    buf_append(out, SLICE("</ol>"));
}

static void write_at(struct buf *out, const struct json *value, unsigned depth)
{
    bool is_container = json_is(value, JSON_OBJECT) || json_is(value, JSON_ARRAY);
    if (!is_container)
        write_scalar(out, value);
    else if (value->count == 0)
        buf_append(out, SLICE("<span class=\"soft\">none</span>"));
    else if (depth >= VALUE_DEPTH_MAX)
        value_write_text(out, value);
    else if (value->type == JSON_OBJECT)
        write_object(out, value, depth);
    else
        write_array(out, value, depth);
}

void value_write(struct buf *out, const struct json *value)
{
    if (!value || value->type == JSON_NULL)
        buf_append_char(out, '-');
    else
        write_at(out, value, 0);
}

void value_write_text(struct buf *out, const struct json *value)
{
    struct buf text;
    buf_init(&text, 16 * 1024 * 1024);
    json_write_pretty(&text, value ? value : &json_null);
    buf_append(out, SLICE("<pre tabindex=\"0\">"));
    write_cut(out, buf_slice(&text));
    buf_append(out, SLICE("</pre>"));
    buf_deinit(&text);
}
