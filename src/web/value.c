/*
 * JSON for people; see value.h.
 */
#include "web/value.h"

#include "base/ascii.h"
#include "web/view.h"

/* Writes at most bytes_max of the text, cut between characters, and `more` if it was cut. */
static void put_cut(struct json_writer *w, slice text, size_t bytes_max, const char *more)
{
    struct buf cut;
    slice kept = slice_first_utf8(text, bytes_max);
    if (kept.len == text.len) {
        json_put_str(w, text.ptr ? text : SLICE(""));
        return;
    }
    buf_init(&cut, VALUE_TEXT_BYTES_MAX + 64);
    buf_append(&cut, kept);
    buf_append_cstr(&cut, more);
    json_put_str(w, buf_slice(&cut));
    buf_deinit(&cut);
}

static void put_json(struct json_writer *w, const struct json *value, size_t bytes_max)
{
    struct buf text;
    ASSERT(bytes_max > 0 && bytes_max <= VALUE_TEXT_BYTES_MAX);
    buf_init(&text, 16 * 1024 * 1024);
    json_write_pretty(&text, value ? value : &json_null);
    put_cut(w, buf_slice(&text), bytes_max, " ... (shortened)");
    buf_deinit(&text);
}

void value_view_text(struct json_writer *w, const char *key, const struct json *value,
                     size_t bytes_max)
{
    json_key(w, key);
    put_json(w, value, bytes_max);
}

/* ---- a list of equal objects ---- */

enum { COLUMNS_MAX = 6, ROWS_MIN = 2 };

static bool is_plain(const struct json *value)
{
    return !json_is(value, JSON_OBJECT) && !json_is(value, JSON_ARRAY);
}

/* Returns the names of the members that are not null in some item of a list of flat objects, at
 * most COLUMNS_MAX, in the order in which they appear; 0 if the list cannot be a table. */
static size_t columns_of(const struct json *list, slice columns[COLUMNS_MAX])
{
    size_t count = 0;
    if (!json_is(list, JSON_ARRAY) || list->count < ROWS_MIN)
        return 0;
    for (uint32_t i = 0; i < list->count; i++) {
        const struct json *item = &list->as.items[i];
        if (!json_is(item, JSON_OBJECT))
            return 0;
        for (uint32_t m = 0; m < item->count; m++) {
            const struct json_member *member = &item->as.members[m];
            size_t at = 0;
            if (member->value.type == JSON_NULL)
                continue;
            while (at < count && !slice_eq(columns[at], json_str(&member->key)))
                at++;
            if (!is_plain(&member->value) || at == COLUMNS_MAX)
                return 0;
            if (at == count)
                columns[count++] = json_str(&member->key);
        }
    }
    return count;
}

static void put_more(struct json_writer *w, const struct json *value)
{
    json_member_i64(w, "more",
                    value->count > VALUE_ITEMS_MAX ? (int64_t)value->count - VALUE_ITEMS_MAX : 0);
}

static void put_nested(struct json_writer *w, const struct json *value, unsigned depth);

/* A member that is missing or null is an empty cell. */
static void put_table(struct json_writer *w, const struct json *list, const slice *columns,
                      size_t count, unsigned depth)
{
    json_member_open(w, "columns", '[');
    for (size_t c = 0; c < count; c++)
        json_put_str(w, columns[c]);
    json_close(w, ']');
    json_member_open(w, "rows", '[');
    for (uint32_t i = 0; i < list->count && i < VALUE_ITEMS_MAX; i++) {
        json_open(w, '{');
        json_member_open(w, "cells", '[');
        for (size_t c = 0; c < count; c++) {
            const struct json *cell = json_get(&list->as.items[i], columns[c]);
            if (cell && cell->type != JSON_NULL)
                put_nested(w, cell, depth + 1);
            else
                json_put_null(w);
        }
        json_close(w, ']');
        json_close(w, '}');
    }
    json_close(w, ']');
}

static void put_nested(struct json_writer *w, const struct json *value, unsigned depth)
{
    slice columns[COLUMNS_MAX];
    size_t column_count = depth < VALUE_DEPTH_MAX ? columns_of(value, columns) : 0;
    bool is_object = json_is(value, JSON_OBJECT);
    json_open(w, '{');
    if (!is_object && !json_is(value, JSON_ARRAY)) {
        json_key(w, "text");
        if (json_is(value, JSON_STRING))
            put_cut(w, json_str(value), VALUE_TEXT_BYTES_MAX, " ... (shortened)");
        else
            put_json(w, value, VALUE_TEXT_BYTES_MAX);
    } else if (depth >= VALUE_DEPTH_MAX && value->count > 0) {
        /* Deeper values would be hard to follow as nested lists; they are printed as JSON. */
        value_view_text(w, "json", value, VALUE_TEXT_BYTES_MAX);
    } else if (column_count > 0) {
        put_table(w, value, columns, column_count, depth);
        put_more(w, value);
    } else {
        json_member_open(w, is_object ? "members" : "items", '[');
        for (uint32_t i = 0; i < value->count && i < VALUE_ITEMS_MAX; i++) {
            if (!is_object) {
                put_nested(w, &value->as.items[i], depth + 1);
                continue;
            }
            json_open(w, '{');
            json_member_str(w, "name", json_str(&value->as.members[i].key));
            json_key(w, "value");
            put_nested(w, &value->as.members[i].value, depth + 1);
            json_close(w, '}');
        }
        json_close(w, ']');
        put_more(w, value);
    }
    json_close(w, '}');
}

void value_view(struct json_writer *w, const char *key, const struct json *value)
{
    static const struct json none = {.type = JSON_STRING, .count = 1, .as.text = "-"};
    json_key(w, key);
    put_nested(w, value && value->type != JSON_NULL ? value : &none, 0);
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
    /* Other members are searched next, since requests often wrap the relevant part in one
     * object. */
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

/* Writes texts of more than one word, which excludes ids and names of types. Returns how many more
 * may follow. */
static unsigned put_sentences(struct json_writer *w, const struct json *value, slice headline,
                              unsigned left, unsigned depth)
{
    if (!value || depth > VALUE_DEPTH_MAX || left == 0)
        return 0;
    slice text = json_is(value, JSON_STRING) ? slice_trim(json_str(value)) : SLICE_NONE;
    if (slice_find_char(text, ' ') > 0 && !slice_eq(text, headline)) {
        put_cut(w, text, BRIEF_BYTES_MAX, " ...");
        return left - 1;
    }
    for (size_t i = 0; value->type == JSON_OBJECT && i < value->count; i++)
        left = put_sentences(w, &value->as.members[i].value, headline, left, depth + 1);
    for (size_t i = 0; value->type == JSON_ARRAY && i < value->count; i++)
        left = put_sentences(w, &value->as.items[i], headline, left, depth + 1);
    return left;
}

void value_view_brief(struct json_writer *w, const struct json *value, slice headline,
                      slice elsewhere)
{
    /* The whole value has few lines, however deeply nested the sentences are. */
    unsigned left = VALUE_LINES_MAX;
    size_t count = json_is(value, JSON_OBJECT) ? value->count : 0;
    json_member_open(w, "brief", '[');
    for (size_t i = 0; i < count && i < VALUE_ITEMS_MAX; i++) {
        const struct json_member *member = &value->as.members[i];
        slice text = json_is(&member->value, JSON_STRING) ? json_str(&member->value) : SLICE_NONE;
        if (!text.ptr || slice_eq(slice_trim(text), headline) ||
            slice_has_word(elsewhere, json_str(&member->key)))
            continue;
        json_open(w, '{');
        value_view_name(w, "name", json_str(&member->key));
        json_key(w, "text");
        put_cut(w, text, BRIEF_BYTES_MAX, " ...");
        json_close(w, '}');
    }
    json_close(w, ']');
    json_member_open(w, "sentences", '[');
    for (size_t i = 0; i < count; i++)
        if (!json_is(&value->as.members[i].value, JSON_STRING))
            left = put_sentences(w, &value->as.members[i].value, headline, left, 1);
    json_close(w, ']');
}

/* Returns whether an ASCII capital is at i. A run of capitals is an abbreviation and stays as it
 * is. */
static bool is_upper_at(slice text, size_t i)
{
    return i < text.len && ascii_is_upper(text.ptr[i]);
}

void value_view_name(struct json_writer *w, const char *key, slice name)
{
    struct buf words;
    buf_init(&words, VALUE_TEXT_BYTES_MAX);
    for (size_t i = 0; i < name.len; i++) {
        char c = name.ptr[i];
        /* A capital after a lower-case letter begins a word: taskParent. */
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
    json_member_str(w, key, buf_is_ok(&words) ? buf_slice(&words) : name);
    buf_deinit(&words);
}
