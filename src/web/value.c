/*
 * JSON as markup; see value.h.
 */
#include "web/value.h"

#include "base/ascii.h"

static void write_cut(struct buf *out, slice text, size_t bytes_max)
{
    /* Cut between characters, never within one. */
    slice kept = slice_first_utf8(text, bytes_max);
    html_text(out, kept);
    if (kept.len < text.len)
        buf_append(out, SLICE(" ... (shortened)"));
}

static void write_scalar(struct buf *out, const struct json *value)
{
    struct buf text;
    if (json_is(value, JSON_STRING)) {
        write_cut(out, json_str(value), VALUE_TEXT_BYTES_MAX);
        return;
    }
    /* Numbers, booleans and null are short; the margin is for the writer. */
    buf_init(&text, VALUE_TEXT_BYTES_MAX + 1024);
    json_write(&text, value);
    html_text(out, buf_slice(&text));
    buf_deinit(&text);
}

static void write_nested(struct buf *out, const struct json *value, unsigned depth);

static void write_left_out(struct buf *out, size_t count, const char *tag)
{
    if (count > VALUE_ITEMS_MAX)
        buf_printf(out, "<%s>and %zu more</%s>", tag, count - VALUE_ITEMS_MAX, tag);
}

static void write_object(struct buf *out, const struct json *value, unsigned depth)
{
    ASSERT(value->type == JSON_OBJECT && depth < VALUE_DEPTH_MAX);
    buf_append(out, SLICE("<dl>"));
    for (size_t i = 0; i < value->count && i < VALUE_ITEMS_MAX; i++) {
        HTML(out, "<dt>{}</dt><dd>", json_str(&value->as.members[i].key));
        write_nested(out, &value->as.members[i].value, depth + 1);
        buf_append(out, SLICE("</dd>"));
    }
    write_left_out(out, value->count, "dd");
    buf_append(out, SLICE("</dl>"));
}

static void write_array(struct buf *out, const struct json *value, unsigned depth)
{
    ASSERT(value->type == JSON_ARRAY && depth < VALUE_DEPTH_MAX);
    buf_append(out, SLICE("<ol>"));
    for (size_t i = 0; i < value->count && i < VALUE_ITEMS_MAX; i++) {
        buf_append(out, SLICE("<li>"));
        write_nested(out, &value->as.items[i], depth + 1);
        buf_append(out, SLICE("</li>"));
    }
    write_left_out(out, value->count, "li");
    buf_append(out, SLICE("</ol>"));
}

static void write_nested(struct buf *out, const struct json *value, unsigned depth)
{
    bool is_container = json_is(value, JSON_OBJECT) || json_is(value, JSON_ARRAY);
    if (!is_container)
        write_scalar(out, value);
    else if (value->count == 0)
        buf_append(out, SLICE("<span class=\"soft\">none</span>"));
    /* Deeper values would be hard to follow as nested lists; they are printed as JSON. */
    else if (depth >= VALUE_DEPTH_MAX)
        value_write_text(out, value, VALUE_TEXT_BYTES_MAX);
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
        write_nested(out, value, 0);
}

/* ---- the brief form ---- */

enum { BRIEF_BYTES_MAX = 240 };

static slice headline_at(const struct json *value, unsigned depth)
{
    static const char *const names[] = {"title", "subject", "name", "summary", "text", "content"};
    /* A string is its own headline; only named members and containers are searched further. */
    slice found = json_is(value, JSON_STRING) ? slice_trim(json_str(value)) : SLICE_NONE;
    if (!value || depth > VALUE_DEPTH_MAX)
        return SLICE_NONE;
    for (size_t i = 0; value->type == JSON_OBJECT && i < ARRAY_LEN(names) && found.len == 0; i++)
        found = headline_at(json_get(value, slice_cstr(names[i])), depth + 1);
    /* Other members next, since requests often wrap what matters in one object. */
    for (size_t i = 0; value->type == JSON_OBJECT && i < value->count && found.len == 0; i++)
        if (!json_is(&value->as.members[i].value, JSON_STRING))
            found = headline_at(&value->as.members[i].value, depth + 1);
    for (size_t i = 0; value->type == JSON_ARRAY && i < value->count && found.len == 0; i++)
        if (!json_is(&value->as.items[i], JSON_STRING))
            found = headline_at(&value->as.items[i], depth + 1);
    return found;
}

slice value_headline(const struct json *value)
{
    return headline_at(value, 0);
}

static void write_start_of(struct buf *out, slice text)
{
    slice kept = slice_first_utf8(text, BRIEF_BYTES_MAX);
    html_text(out, kept);
    if (kept.len < text.len)
        buf_append(out, SLICE(" ..."));
}

/* Writes texts of more than one word, which leaves out ids and names of types. Returns how many
 * more may follow. */
static unsigned write_sentences(struct buf *out, const struct json *value, slice headline,
                                unsigned left, unsigned depth)
{
    if (!value || depth > VALUE_DEPTH_MAX || left == 0)
        return 0;
    slice text = json_is(value, JSON_STRING) ? slice_trim(json_str(value)) : SLICE_NONE;
    if (slice_find_char(text, ' ') > 0 && !slice_eq(text, headline)) {
        buf_append(out, SLICE("<p class=\"brief\">"));
        write_start_of(out, text);
        buf_append(out, SLICE("</p>"));
        return left - 1;
    }
    for (size_t i = 0; value->type == JSON_OBJECT && i < value->count; i++)
        left = write_sentences(out, &value->as.members[i].value, headline, left, depth + 1);
    for (size_t i = 0; value->type == JSON_ARRAY && i < value->count; i++)
        left = write_sentences(out, &value->as.items[i], headline, left, depth + 1);
    return left;
}

void value_write_brief(struct buf *out, const struct json *value, slice headline)
{
    /* The whole value has few lines, however deep the sentences are. */
    unsigned left = VALUE_LINES_MAX;
    if (!json_is(value, JSON_OBJECT))
        return;
    buf_append(out, SLICE("<dl>"));
    for (size_t i = 0; i < value->count && i < VALUE_ITEMS_MAX; i++) {
        const struct json_member *member = &value->as.members[i];
        slice text = json_is(&member->value, JSON_STRING) ? json_str(&member->value) : SLICE_NONE;
        if (!text.ptr || slice_eq(slice_trim(text), headline))
            continue;
        HTML(out, "<dt>{}</dt><dd>", json_str(&member->key));
        write_start_of(out, text);
        buf_append(out, SLICE("</dd>"));
    }
    buf_append(out, SLICE("</dl>"));
    for (size_t i = 0; i < value->count; i++)
        if (!json_is(&value->as.members[i].value, JSON_STRING))
            left = write_sentences(out, &value->as.members[i].value, headline, left, 1);
}

void value_write_text(struct buf *out, const struct json *value, size_t bytes_max)
{
    struct buf text;
    ASSERT(bytes_max > 0 && bytes_max <= VALUE_TEXT_BYTES_MAX);
    buf_init(&text, 16 * 1024 * 1024);
    json_write_pretty(&text, value ? value : &json_null);
    buf_append(out, SLICE("<pre tabindex=\"0\">"));
    write_cut(out, buf_slice(&text), bytes_max);
    buf_append(out, SLICE("</pre>"));
    buf_deinit(&text);
}

/* ASCII only. A run of capitals is an abbreviation and stays as it is. */
static bool is_upper_at(slice text, size_t i)
{
    return i < text.len && ascii_is_upper(text.ptr[i]);
}

void value_write_name(struct buf *out, slice name)
{
    struct buf words;
    buf_init(&words, VALUE_TEXT_BYTES_MAX);
    for (size_t i = 0; i < name.len; i++) {
        char c = name.ptr[i];
        /* A capital after a small letter begins a word: taskParent. */
        bool is_word = is_upper_at(name, i) && i > 0 && !is_upper_at(name, i - 1);
        if (is_word)
            buf_append_char(&words, ' ');
        if (c == '_' || c == '-')
            c = ' ';
        else if (i == 0 && ascii_is_lower(c))
            c = ascii_upper(c);
        else if (is_word && !is_upper_at(name, i + 1))
            c = ascii_lower(c);
        buf_append_char(&words, c);
    }
    html_text(out, buf_is_ok(&words) ? buf_slice(&words) : name);
    buf_deinit(&words);
}
