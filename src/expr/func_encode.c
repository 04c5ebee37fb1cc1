/*
 * func_encode: encoding functions that JMESPath does not have: ascii_json, base64, base64url,
 * base64url_decode, mime_message, uuid5.
 */
#include "base/encode.h"
#include "base/id.h"
#include "expr/func.h"
#include "mime/mime.h"

/* Makes a buf over a block of exactly `size` bytes in the arena, which are charged. It never grows,
 * so it never touches the heap. */
static int arena_buf(struct expr_run *run, size_t size, struct buf *buf)
{
    char *room = NULL;
    int rc = expr_run_text(run, size, &room);
    *buf = (struct buf){.ptr = room, .cap = size, .bytes_max = size};
    return rc;
}

static int encode(struct expr_run *run, slice text, size_t size,
                  void (*write)(struct buf *out, slice bytes), struct json *out)
{
    struct buf buf;
    int rc = arena_buf(run, size, &buf);
    if (rc != OK)
        return rc;
    const char *room = buf.ptr;
    write(&buf, text);
    /* If the buffer had grown, it would have called realloc on memory of the arena. */
    ASSERT(buf_is_ok(&buf) && buf.ptr == room && buf.len <= size);
    *out = expr_string(room, buf.len);
    return OK;
}

EXPR_FUNCTION(base64)
{
    slice text = json_str(&args[0]);
    return encode(run, text, (text.len + 2) / 3 * 4, encode_base64, out);
}

EXPR_FUNCTION(base64url)
{
    slice text = json_str(&args[0]);
    return encode(run, text, (text.len + 2) / 3 * 4, encode_base64url, out);
}

static void add_escape(struct arena_text *text, uint32_t unit)
{
    static const char digits[] = "0123456789abcdef";
    char escape[6] = {'\\', 'u'};
    for (unsigned i = 0; i < 4; i++)
        escape[2 + i] = digits[unit >> (12 - 4 * i) & 15];
    arena_text_add(text, slice_of(escape, sizeof(escape)));
}

EXPR_FUNCTION(ascii_json)
{
    slice json = SLICE_NONE;
    struct arena_text text;
    int rc = expr_value_text(run, &args[0], &json);
    if (rc != OK)
        return rc;
    expr_text_init(&text, run);
    size_t plain = 0, len;
    for (size_t at = 0; at < json.len && text.status == OK; at += len) {
        uint32_t point;
        len = slice_code_point(slice_from(json, at), &point);
        /* 0x7F is a control character, which a header may not carry; all below 0x20 were escaped by
         * the writer. */
        if (point < 0x7F)
            continue;
        arena_text_add(&text, slice_of(json.ptr + plain, at - plain));
        /* Beyond U+FFFF JSON needs a surrogate pair (RFC 8259 7). */
        if (point >= 0x10000)
            add_escape(&text, 0xD800 + ((point - 0x10000) >> 10));
        add_escape(&text, point < 0x10000 ? point : 0xDC00 + ((point - 0x10000) & 0x3FF));
        plain = at + len;
    }
    arena_text_add(&text, slice_from(json, plain));
    return expr_text_done(run, &text, out);
}

/* Sets *out to the bytes as UTF-8 text, with U+FFFD for each byte that is not part of a valid
 * sequence. */
static int put_utf8(struct expr_run *run, slice bytes, struct json *out)
{
    size_t bad_at = 0;
    *out = expr_string(bytes.ptr, bytes.len);
    if (slice_is_utf8(bytes, &bad_at))
        return OK;
    struct arena_text text;
    expr_text_init(&text, run);
    /* slice_is_utf8 starts after the part that was already checked. */
    while (!slice_is_utf8(bytes, &bad_at) && text.status == OK) {
        arena_text_add(&text, slice_first(bytes, bad_at));
        ARENA_TEXT_LIT(&text, "\xEF\xBF\xBD");
        bytes = slice_from(bytes, bad_at);
        bytes = slice_from(bytes, slice_utf8_fault(bytes));
    }
    arena_text_add(&text, bytes);
    return expr_text_done(run, &text, out);
}

EXPR_FUNCTION(base64url_decode)
{
    slice text = json_str(&args[0]);
    struct buf buf;
    /* The size is three bytes for each group of four digits, and three more for an incomplete last
     * group. */
    int rc = arena_buf(run, text.len / 4 * 3 + 3, &buf);
    if (rc != OK)
        return rc;
    const char *room = buf.ptr;
    if (decode_base64url(&buf, text) != OK)
        return expr_run_fail(run, EXPR_FAULT_VALUE, call->at,
                             "base64url_decode() wants base64url text (RFC 4648 5)");
    ASSERT(buf.ptr == room);
    return put_utf8(run, slice_of(room, buf.len), out);
}

/* Finds a namespace of RFC 9562 6.6; these differ in one byte. */
static bool known_name_space(slice name, struct uuid *id)
{
    static const struct {
        slice name;
        uint8_t byte;
    } known[] = {{SLICE_INIT("dns"), 0x10},
                 {SLICE_INIT("url"), 0x11},
                 {SLICE_INIT("oid"), 0x12},
                 {SLICE_INIT("x500"), 0x14}};
    for (size_t i = 0; i < ARRAY_LEN(known); i++) {
        if (!slice_eq(name, known[i].name))
            continue;
        *id = (struct uuid){{0x6b, 0xa7, 0xb8, known[i].byte, 0x9d, 0xad, 0x11, 0xd1, 0x80, 0xb4,
                             0x00, 0xc0, 0x4f, 0xd4, 0x30, 0xc8}};
        return true;
    }
    return false;
}

EXPR_FUNCTION(uuid5)
{
    struct uuid name_space;
    slice name = json_str(&args[0]);
    if (!known_name_space(name, &name_space) && !uuid_parse(name, &name_space))
        return expr_run_fail(run, EXPR_FAULT_VALUE, call->at,
                             "uuid5() wants a UUID, 'dns', 'url', 'oid' or 'x500' as namespace");
    int rc = expr_run_scan(run, args[1].count * (size_t)8); /* hashing a byte costs more than
                                                             * reading it */
    char text[UUID_TEXT_LEN + 1], *to = NULL;
    if (rc == OK)
        rc = expr_run_text(run, UUID_TEXT_LEN, &to);
    if (rc != OK)
        return rc;
    uuid_format(uuid_v5(name_space, json_str(&args[1])), text);
    memcpy(to, text, UUID_TEXT_LEN);
    *out = expr_string(to, UUID_TEXT_LEN);
    return OK;
}

EXPR_FUNCTION(mime_message)
{
    static const slice texts[] = {SLICE_INIT("body"), SLICE_INIT("text"), SLICE_INIT("html"),
                                  SLICE_INIT("forward")};
    struct arena_text text;
    struct err err;
    size_t read = 0;
    for (size_t i = 0; i < ARRAY_LEN(texts); i++)
        read += json_get_str(&args[0], texts[i]).len;
    int rc = expr_run_scan(run, read); /* the output is charged at the end */
    if (rc != OK)
        return rc;
    expr_text_init(&text, run);
    rc = mime_message(&args[0], &text, &err);
    return rc == ERR_INVALID
               ? expr_run_fail(run, EXPR_FAULT_VALUE, call->at, "mime_message(): %s", err.text)
               : expr_text_done(run, &text, out);
}
