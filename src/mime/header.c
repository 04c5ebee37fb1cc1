/*
 * Header lines of a message: folding, encoded words, subject, message ids. Lines are
 * folded at 76 columns where there is a space; only an address or id longer than that makes a
 * longer line.
 */
#include "base/encode.h"
#include "mime/internal.h"

bool mime_check_text(struct mime *mime, const char *what, const struct json *value)
{
    if (value->type != JSON_STRING) {
        mime_fail(mime, "%s must be a string, not %s", what,
                  json_is_number(value) ? "number" : json_type_name(value));
        return false;
    }
    for (uint32_t i = 0; i < value->count; i++) {
        unsigned char c = (unsigned char)value->as.text[i];
        /* Bytes from 0x80 on pass here: they are encoded later, never written unencoded. */
        if ((c >= ' ' && c != 0x7f) || c == '\t')
            continue;
        mime_fail(mime, "%s must not hold %s", what,
                  c == '\r' || c == '\n' ? "a line break" : "a control character");
        return false;
    }
    return mime->status == OK;
}

static void begin_field(struct mime *mime, const char *field)
{
    mime_add(mime, slice_cstr(field));
    MIME_LIT(mime, ": ");
    mime->column = strlen(field) + 2;
}

static void fold_line(struct mime *mime)
{
    /* The space after CRLF makes the next line part of this one (RFC 5322 2.2.3). */
    MIME_LIT(mime, "\r\n ");
    mime->column = 1;
}

void mime_put_word(struct mime *mime, slice word, bool with_space)
{
    /* One column is kept for a comma after the word. */
    if (with_space && mime->column + 1 + word.len >= MIME_COLUMNS_MAX) {
        fold_line(mime);
    } else if (with_space) {
        MIME_LIT(mime, " ");
        mime->column++;
    }
    mime_add(mime, word);
    mime->column += word.len;
}

void mime_put_encoded(struct mime *mime, slice text, bool with_space)
{
    enum { FRAME = 12, ROOM_MIN = FRAME + 12 }; /* =?UTF-8?B?...?= around groups of four */
    if (with_space && mime->column + 1 + ROOM_MIN > MIME_COLUMNS_MAX) {
        fold_line(mime);
    } else if (with_space) {
        MIME_LIT(mime, " ");
        mime->column++;
    }
    while (text.len > 0 && mime->status == OK) {
        /* RFC 2047 2: an encoded word has at most 75 characters, a line with one at most 76. */
        size_t room = MIME_COLUMNS_MAX - mime->column;
        /* Three bytes become four digits; a word holds only whole characters, since each word is
         * decoded separately. */
        slice piece = slice_first_utf8(text, (room > 75 ? 75 - FRAME : room - FRAME) / 4 * 3);
        char digits[80];
        struct buf buf = {.ptr = digits, .cap = sizeof digits, .bytes_max = sizeof digits};
        encode_base64(&buf, piece);
        ASSERT(buf_is_ok(&buf) && piece.len > 0);
        MIME_LIT(mime, "=?UTF-8?B?");
        mime_add(mime, buf_slice(&buf));
        MIME_LIT(mime, "?=");
        mime->column += buf.len + FRAME;
        text = slice_from(text, piece.len);
        if (text.len > 0)
            fold_line(mime);
    }
}

/* ---- subject ---- */

/* Whether text can be folded without encoding: printable ASCII in words of moderate length with
 * single spaces between them. "=?" would be read as an encoded word. */
static bool is_plain_text(slice text)
{
    size_t word = 0;
    for (size_t i = 0; i < text.len; i++) {
        char c = text.ptr[i];
        if (c < ' ' || c > '~' || (c == ' ' && word == 0) || word > 60)
            return false;
        word = c == ' ' ? 0 : word + 1;
    }
    return word > 0 && slice_find(text, SLICE("=?")) < 0;
}

void mime_put_subject(struct mime *mime, const struct json *value)
{
    if (!value || value->type == JSON_NULL || !mime_check_text(mime, "subject", value))
        return;
    slice text = json_str(value);
    begin_field(mime, "Subject");
    if (!is_plain_text(text)) {
        mime_put_encoded(mime, text, false);
    } else {
        for (bool is_first = true; text.len > 0; is_first = false)
            mime_put_word(mime, slice_split(&text, ' '), !is_first);
    }
    MIME_LIT(mime, "\r\n");
}

/* ---- addresses ---- */

void mime_put_addresses(struct mime *mime, const char *field, const char *what,
                        const struct json *value)
{
    size_t count = 0;
    if (!value || value->type == JSON_NULL)
        return;
    mime_put_mailboxes(mime, field, what, value, &count);
    if (count > 0)
        MIME_LIT(mime, "\r\n");
}

/* ---- message ids ---- */

/* Accepts more than RFC 5322 3.6.4: visible ASCII without < >, with at least one @. */
/* A line may have at most 998 columns (RFC 5322 2.1.1), and an id cannot be folded. */
static bool is_message_id(slice id)
{
    if (id.len == 0 || id.len > MIME_ID_MAX || slice_find_char(id, '@') < 0)
        return false;
    for (size_t i = 0; i < id.len; i++)
        if (id.ptr[i] <= ' ' || id.ptr[i] > '~' || id.ptr[i] == '<' || id.ptr[i] == '>')
            return false;
    return true;
}

static bool separates_ids(char c)
{
    return c == ' ' || (c >= '\t' && c <= '\r');
}

/* Takes the next id, without < >, from a list. White space between ids may be missing (RFC 5322
 * 3.6.4). Returns false at the end of the list. */
static bool next_id(slice *rest, slice *id)
{
    size_t len;
    while (rest->len > 0 && separates_ids(rest->ptr[0]))
        *rest = slice_from(*rest, 1);
    bool is_bracketed = rest->len > 0 && rest->ptr[0] == '<';
    for (len = is_bracketed; len < rest->len; len++) {
        char c = rest->ptr[len];
        if (is_bracketed ? c == '>' : c == '<' || separates_ids(c))
            break;
    }
    *id = slice_from(slice_first(*rest, len), is_bracketed);
    *rest = slice_from(*rest, len + is_bracketed);
    return len > 0;
}

static void put_id(struct mime *mime, const char *field, const char *what, slice id, size_t *count)
{
    if (!is_message_id(id)) {
        mime_fail(mime, "%s must hold message ids like <x@y>", what);
        return;
    }
    char word[MIME_ID_MAX + 2];
    word[0] = '<';
    memcpy(word + 1, id.ptr, id.len);
    word[id.len + 1] = '>';
    if (*count == 0)
        begin_field(mime, field);
    mime_put_word(mime, slice_of(word, id.len + 2), *count > 0);
    ++*count;
}

static void put_id_list(struct mime *mime, const char *field, const char *what,
                        const struct json *value, size_t *count)
{
    if (!mime_check_text(mime, what, value))
        return;
    slice id, rest = json_str(value);
    while (mime->status == OK && next_id(&rest, &id))
        put_id(mime, field, what, id, count);
}

int mime_ids(slice list, struct arena_text *out)
{
    slice id;
    for (bool is_first = true; next_id(&list, &id);) {
        if (!is_message_id(id))
            continue;
        arena_text_add(out, is_first ? SLICE("<") : SLICE(" <"));
        arena_text_add(out, id);
        ARENA_TEXT_LIT(out, ">");
        is_first = false;
    }
    return out->status;
}

void mime_put_ids(struct mime *mime, const char *field, const char *what, const struct json *value)
{
    size_t count = 0;
    if (!value || value->type == JSON_NULL)
        return;
    if (value->type != JSON_ARRAY)
        put_id_list(mime, field, what, value, &count);
    for (uint32_t i = 0; value->type == JSON_ARRAY && i < value->count; i++)
        put_id_list(mime, field, what, &value->as.items[i], &count);
    if (count > 0)
        MIME_LIT(mime, "\r\n");
}
