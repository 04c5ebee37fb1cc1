/*
 * func_mail: functions over the parts of a mail in Gmail's form: {mimeType, filename, headers,
 * body: {data}, parts}. Any other value has no text, and a bad part does not affect the others.
 *
 * The text is built on the heap and charged when it is complete: a mail's markup is often ten times
 * as long as its text, and would use up the budget.
 */
#include "base/encode.h"
#include "expr/func.h"
#include "expr/html.h"
#include "mime/mime.h"

/* One text under construction. */
struct words {
    struct buf text;
    bool is_plain; /* text/plain alone */
};

static int add_words(struct expr_run *run, const struct json *part, struct words *words);

static bool is_media(const struct json *part, slice type)
{
    slice is = json_get_str(part, SLICE("mimeType"));
    return slice_eq_nocase(slice_first(is, type.len), type);
}

/* Whether the part is an attached file, or a forwarded mail, whose author is someone else. */
static bool is_attached(const struct json *part)
{
    const struct json *headers = JSON_GET(part, "headers");
    if (json_get_str(part, SLICE("filename")).len > 0 || is_media(part, SLICE("message/")))
        return true;
    for (uint32_t i = 0; json_is(headers, JSON_ARRAY) && i < headers->count; i++) {
        const struct json *header = &headers->as.items[i];
        if (slice_eq_nocase(json_get_str(header, SLICE("name")), SLICE("content-disposition")))
            return slice_eq_nocase(slice_first(json_get_str(header, SLICE("value")), 10),
                                   SLICE("attachment"));
    }
    return false;
}

/* ---- leaves ---- */

/* Replaces each sequence that is not UTF-8 with U+FFFD. */
static void add_utf8(struct buf *out, slice bytes)
{
    size_t bad_at;
    while (!slice_is_utf8(bytes, &bad_at)) {
        buf_append(out, slice_first(bytes, bad_at));
        buf_append_cstr(out, "\xEF\xBF\xBD");
        bytes = slice_from(bytes, bad_at);
        bytes = slice_from(bytes, slice_utf8_fault(bytes));
    }
    buf_append(out, bytes);
}

static bool add_page(struct buf *out, slice page)
{
    struct buf text;
    buf_init(&text, page.len);
    char *room = buf_reserve(&text, page.len);
    if (room)
        buf_append(out, slice_of(room, expr_html_text(page, room)));
    buf_deinit(&text);
    return room != NULL;
}

/* data is base64url, with or without padding. Invalid data gives no text. */
static int add_leaf(struct expr_run *run, slice data, bool is_html, struct words *words)
{
    struct buf bytes, page;
    int rc = expr_run_scan(run, data.len);
    if (rc != OK || data.len == 0)
        return rc;
    buf_init(&bytes, data.len);
    buf_init(&page, 3 * data.len);
    if (decode_base64url(&bytes, data) == OK)
        add_utf8(is_html ? &page : &words->text, buf_slice(&bytes));
    words->is_plain = !is_html;
    if (bytes.is_failed || page.is_failed ||
        (page.len > 0 && !add_page(&words->text, buf_slice(&page))))
        rc = expr_run_nomem(run);
    buf_deinit(&bytes);
    buf_deinit(&page);
    return rc;
}

/* ---- the tree ---- */

/* Appends `more` with a blank line before it. */
static void join_words(struct buf *text, slice more)
{
    while (text->len > 0 && (text->ptr[text->len - 1] == '\n' || text->ptr[text->len - 1] == '\r'))
        text->len--;
    if (text->len > 0)
        buf_append_cstr(text, "\n\n");
    buf_append(text, more);
}

/* All alternatives have the same content (RFC 2046 5.1.4): the plain text is taken if it has words,
 * otherwise the last alternative that has words. */
static bool is_better(const struct words *one, const struct words *best)
{
    return best->text.len == 0 || one->is_plain || !best->is_plain;
}

static int add_words_below(struct expr_run *run, const struct json *parts, bool are_alternatives,
                           struct words *words)
{
    int rc = OK;
    for (uint32_t i = 0; rc == OK && json_is(parts, JSON_ARRAY) && i < parts->count; i++) {
        struct words one = {.is_plain = false};
        buf_init(&one.text, words->text.bytes_max);
        rc = add_words(run, &parts->as.items[i], &one);
        bool has_words = rc == OK && expr_text_has_words(buf_slice(&one.text));
        if (has_words && are_alternatives && is_better(&one, words)) {
            struct words former = *words;
            *words = one;
            one = former;
        } else if (has_words && !are_alternatives) {
            words->is_plain = one.is_plain && (words->is_plain || words->text.len == 0);
            join_words(&words->text, buf_slice(&one.text));
        }
        buf_deinit(&one.text);
    }
    return rc;
}

static int add_words(struct expr_run *run, const struct json *part, struct words *words)
{
    int rc = expr_run_visit(run, 1);
    if (rc != OK || is_attached(part))
        return rc;
    bool is_html = is_media(part, SLICE("text/html"));
    if (is_html || is_media(part, SLICE("text/plain")))
        rc = add_leaf(run, json_get_str(JSON_GET(part, "body"), SLICE("data")), is_html, words);
    else
        rc = add_words_below(run, JSON_GET(part, "parts"),
                             is_media(part, SLICE("multipart/alternative")), words);
    if (rc == OK && words->text.is_failed)
        rc = words->text.is_over ? expr_run_over_bytes(run) : expr_run_nomem(run);
    return rc;
}

EXPR_FUNCTION(mail_text)
{
    struct words words = {.is_plain = false};
    char *room = NULL;
    *out = json_null;
    buf_init(&words.text, run->budget->bytes_max);
    int rc = add_words(run, &args[0], &words);
    if (rc == OK && expr_text_has_words(buf_slice(&words.text))) {
        rc = expr_run_text(run, words.text.len, &room);
        if (rc == OK) {
            memcpy(room, words.text.ptr, words.text.len);
            *out = expr_string(room, words.text.len);
        }
    }
    buf_deinit(&words.text);
    return rc;
}

/* ---- addresses ---- */

EXPR_FUNCTION(mail_addresses)
{
    struct arena_text text;
    struct err ignored;
    *out = json_null;
    int rc = args[0].type == JSON_NULL ? OK : expr_run_scan(run, args[0].count);
    if (rc != OK || args[0].type == JSON_NULL)
        return rc;
    expr_text_init(&text, run);
    rc = mime_addresses(&args[0], &text, &ignored);
    if (rc == ERR_INVALID)
        return OK;
    rc = expr_text_done(run, &text, out);
    if (rc == OK && json_str(out).len == 0)
        *out = json_null;
    return rc;
}

EXPR_FUNCTION(message_ids)
{
    struct arena_text text;
    *out = json_null;
    int rc = args[0].type == JSON_NULL ? OK : expr_run_scan(run, args[0].count);
    if (rc != OK || args[0].type == JSON_NULL)
        return rc;
    expr_text_init(&text, run);
    /* expr_text_done reports a failure. */
    if (mime_ids(json_str(&args[0]), &text) == OK && text.len == 0)
        return OK;
    return expr_text_done(run, &text, out);
}

/* ---- all parts ---- */

static size_t count_parts(const struct json *part)
{
    const struct json *parts = JSON_GET(part, "parts");
    size_t count = 1;
    for (uint32_t i = 0; json_is(parts, JSON_ARRAY) && i < parts->count; i++)
        count += count_parts(&parts->as.items[i]);
    return count;
}

static struct json *put_parts(struct json *to, const struct json *part)
{
    const struct json *parts = JSON_GET(part, "parts");
    *to++ = *part;
    for (uint32_t i = 0; json_is(parts, JSON_ARRAY) && i < parts->count; i++)
        to = put_parts(to, &parts->as.items[i]);
    return to;
}

EXPR_FUNCTION(mail_parts)
{
    struct json *items = NULL;
    size_t count = args[0].type == JSON_NULL ? 0 : count_parts(&args[0]);
    int rc = expr_run_visit(run, count);
    if (rc == OK)
        rc = expr_run_items(run, count, &items);
    if (rc == OK && count > 0)
        ASSERT(put_parts(items, &args[0]) == items + count);
    if (rc == OK)
        *out = expr_array(items, count);
    return rc;
}
