/*
 * Whole messages byte by byte, then rules for any input: CRLF and columns, encoded words, no
 * injection, and everything in the input appears in the message.
 */
#include <stdlib.h>

#include "base/encode.h"
#include "mime/mime.h"
#include "unit.h"

enum { MESSAGE_BYTES_MAX = 1024 * 1024 };

struct bench {
    struct arena arena;
    struct err err;
    int code; /* the result for the last message */
};

static int setup(void **state)
{
    struct bench *b = calloc(1, sizeof(*b));
    arena_init(&b->arena, 256u << 20);
    *state = b;
    return 0;
}

static int teardown(void **state)
{
    struct bench *b = *state;
    arena_deinit(&b->arena);
    free(b);
    return unit_end();
}

#define bench_test(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

static const struct json *bench_json(struct bench *b, const char *text)
{
    struct json *value = json_parse(&b->arena, slice_cstr(text), &json_limits_provider, &b->err);
    if (!value)
        fail_msg("%s in %s", b->err.text, text);
    return value;
}

/* The message of a JSON object, or NULL with b->err if it was refused. */
static const char *message_of(struct bench *b, const struct json *object)
{
    struct arena_text text;
    arena_text_init(&text, &b->arena, MESSAGE_BYTES_MAX);
    b->code = mime_message(object, &text, &b->err);
    assert_true(b->code == OK || b->code == ERR_INVALID || b->code == text.status);
    return b->code == OK ? arena_cstr(&b->arena, slice_of(text.ptr, text.len)) : NULL;
}

static void check_message(struct bench *b, const char *object, const char *wanted, int line)
{
    const char *got = message_of(b, bench_json(b, object));
    _assert_string_equal(got ? got : b->err.text, wanted, __FILE__, line);
}

#define assert_message(b, object, wanted) check_message((b), (object), (wanted), __LINE__)

static void check_refused(struct bench *b, const char *object, const char *phrase, int line)
{
    const char *got = message_of(b, bench_json(b, object));
    _assert_string_equal(got ? got : "", "", __FILE__, line);
    _assert_int_equal(b->code, ERR_INVALID, __FILE__, line);
    if (!strstr(b->err.text, phrase))
        _assert_string_equal(b->err.text, phrase, __FILE__, line);
}

#define assert_refused(b, object, phrase) check_refused((b), (object), (phrase), __LINE__)

#define PLAIN                                                          \
    "MIME-Version: 1.0\r\nContent-Type: text/plain; charset=UTF-8\r\n" \
    "Content-Transfer-Encoding: quoted-printable\r\n\r\n"

/* ---- whole messages ---- */

static void a_plain_message(void **state)
{
    assert_message(*state,
                   "{\"to\":\"Bob <bob@example.com>, al@example.org\",\"from\":\"me@example.com\","
                   "\"subject\":\"Hello there\",\"body\":\"Hi Bob,\\n\\na = b \\n\"}",
                   "From: me@example.com\r\nTo: Bob <bob@example.com>, al@example.org\r\n"
                   "Subject: Hello there\r\n" PLAIN "Hi Bob,\r\n\r\na =3D b=20\r\n\r\n");
    assert_message(*state, "{}", PLAIN "\r\n");
    assert_message(*state, "{\"to\":null,\"cc\":[],\"bcc\":\"\",\"subject\":null,\"text\":\"x\"}",
                   PLAIN "x\r\n");
}

static void all_headers(void **state)
{
    assert_message(*state,
                   "{\"date\":\"2026-11-21T05:06:07+01:00\",\"from\":{\"email\":\"a@x\"},"
                   "\"to\":[\"b@x\",{\"name\":\"C D\",\"email\":\"c@x\"}],\"cc\":\"d@x\","
                   "\"bcc\":\"e@x\",\"reply_to\":\"f@x\",\"message_id\":\"m1@x\","
                   "\"in_reply_to\":\"<m0@x>\",\"references\":[\"<r1@x> r2@x\",\"<m0@x>\"],"
                   "\"subject\":\"Re: it\",\"body\":\"\"}",
                   "Date: Sat, 21 Nov 2026 04:06:07 +0000\r\nFrom: a@x\r\n"
                   "To: b@x, C D <c@x>\r\nCc: d@x\r\nBcc: e@x\r\nReply-To: f@x\r\n"
                   "Message-ID: <m1@x>\r\nIn-Reply-To: <m0@x>\r\n"
                   "References: <r1@x> <r2@x> <m0@x>\r\nSubject: Re: it\r\n" PLAIN "\r\n");
}

static void text_and_html_and_a_file(void **state)
{
    const char *got = message_of(
        *state, bench_json(*state, "{\"subject\":\"s\",\"body\":\"one\",\"html\":\"<p>1</p>\","
                                   "\"attachments\":[{\"name\":\"a b.txt\",\"content_type\":"
                                   "\"text/plain; charset=utf-8\",\"data\":\"aGVsbG8\"}]}"));
    assert_non_null(got);
    char mixed[64] = "", alt[64] = "";
    assert_int_equal(sscanf(strstr(got, "multipart/mixed;\r\n"),
                            "multipart/mixed;\r\n boundary=\"%63[^\"]\"", mixed),
                     1);
    assert_int_equal(sscanf(strstr(got, "multipart/alternative;\r\n"),
                            "multipart/alternative;\r\n boundary=\"%63[^\"]\"", alt),
                     1);
    assert_int_equal(strncmp(mixed, "=_", 2), 0);
    assert_string_not_equal(mixed, alt);
    char wanted[2048];
    snprintf(wanted, sizeof wanted,
             "Subject: s\r\nMIME-Version: 1.0\r\n"
             "Content-Type: multipart/mixed;\r\n boundary=\"%s\"\r\n\r\n--%s\r\n"
             "Content-Type: multipart/alternative;\r\n boundary=\"%s\"\r\n\r\n--%s\r\n"
             "Content-Type: text/plain; charset=UTF-8\r\n"
             "Content-Transfer-Encoding: quoted-printable\r\n\r\none\r\n--%s\r\n"
             "Content-Type: text/html; charset=UTF-8\r\n"
             "Content-Transfer-Encoding: quoted-printable\r\n\r\n<p>1</p>\r\n--%s--\r\n--%s\r\n"
             "Content-Type: text/plain; charset=utf-8\r\n"
             "Content-Disposition: attachment;\r\n filename=\"a b.txt\"\r\n"
             "Content-Transfer-Encoding: base64\r\n\r\naGVsbG8=\r\n--%s--\r\n",
             mixed, mixed, alt, alt, alt, alt, mixed, mixed);
    assert_string_equal(got, wanted);
}

/* Returns the boundary of the message; NULL if it has none. */
static const char *boundary_in(struct bench *b, const char *message)
{
    char found[64] = "";
    const char *at = strstr(message, "boundary=\"");
    return at && sscanf(at, "boundary=\"%63[^\"]\"", found) == 1
               ? arena_cstr(&b->arena, slice_cstr(found))
               : NULL;
}

/* Returns a mail with the text "Look." that forwards the message. */
static const char *forwarding(struct bench *b, slice message)
{
    char *text = arena_alloc_text(&b->arena, 2 * message.len + 100);
    char *raw = arena_alloc_text(&b->arena, 2 * message.len + 8);
    slice encoded = encode_base64url_in(raw, 2 * message.len + 8, message);
    snprintf(text, 2 * message.len + 100, "{\"text\":\"Look.\",\"forward\":\"%.*s\"}",
             SLICE_ARG(encoded));
    const char *got = message_of(b, bench_json(b, text));
    assert_non_null(got);
    return got;
}

static void check_forward(struct bench *b, const char *message, const char *label,
                          const char *wanted)
{
    const char *got = forwarding(b, slice_cstr(message));
    const char *mixed = boundary_in(b, got);
    char expected[2048];
    snprintf(expected, sizeof(expected),
             "MIME-Version: 1.0\r\nContent-Type: multipart/mixed;\r\n boundary=\"%s\"\r\n%s"
             "\r\n--%s\r\nContent-Type: text/plain; charset=UTF-8\r\n"
             "Content-Transfer-Encoding: quoted-printable\r\n\r\nLook.\r\n--%s\r\n"
             "%s\r\n--%s--\r\n",
             mixed, label, mixed, mixed, wanted, mixed);
    assert_string_equal(got, expected);
}

static void a_message_is_forwarded_unchanged(void **state)
{
    static const char body[] = "\r\n--b\r\nContent-Type: text/html\r\n\r\n<p>1</p>\r\n--b--";
    char message[512], part[512];
    snprintf(message, sizeof(message),
             "From: a@x\r\nDKIM-Signature: v=1;\r\n content-type\r\nCONTENT-Type: multipart/mixed;"
             "\r\n\tboundary=b\r\nBcc: secret@x\r\nContent-Language: de\r\n\r\n%s",
             body);
    snprintf(part, sizeof(part),
             "CONTENT-Type: multipart/mixed;\r\n\tboundary=b\r\nContent-Language: de\r\n\r\n%s",
             body);
    check_forward(*state, message, "", part);
    /* ends of lines without CR; no fields of the body; no body */
    check_forward(*state, "From: a@x\nContent-Type: text/plain\n\nHi\n", "",
                  "Content-Type: text/plain\r\n\r\nHi\n");
    check_forward(*state, "From: a@x\r\n\r\nHi", "", "\r\nHi");
    check_forward(*state, "From: a@x", "", "\r\n");
    check_forward(*state, "", "", "\r\n");
    /* bytes beyond ASCII stay, and the whole message says so */
    check_forward(*state, "Content-Transfer-Encoding: 8bit\r\n\r\nGr\xc3\xbc\xdf",
                  "Content-Transfer-Encoding: 8bit\r\n",
                  "Content-Transfer-Encoding: 8bit\r\n\r\nGr\xc3\xbc\xdf");
    assert_refused(*state, "{\"forward\":\"a+b\"}", "forward must be a message in base64url");
    assert_refused(*state, "{\"forward\":[]}", "forward must be a string, not array");
}

/* A mail that was made here has a boundary that its own text determines. */
static void a_forwarded_message_cannot_end_its_part(void **state)
{
    struct bench *b = *state;
    const char *first = forwarding(b, SLICE("\r\nOne"));
    const char *second = forwarding(b, slice_cstr(first));
    assert_string_not_equal(boundary_in(b, first), boundary_in(b, second));
    assert_non_null(strstr(second, strstr(first, "\r\n--")));
    const char *third = forwarding(b, slice_cstr(second));
    assert_null(strstr(second, boundary_in(b, third)));
    /* a sender who knows the boundaries that follow from the text, and from one another */
    char chain[4096] = "\r\n";
    const char *next = boundary_in(b, third);
    for (size_t len = 2; len + 50 < sizeof(chain);) {
        len += (size_t)snprintf(chain + len, sizeof(chain) - len, "%s\n", next);
        next = boundary_in(b, forwarding(b, slice_cstr(chain)));
    }
    assert_null(strstr(chain, boundary_in(b, forwarding(b, slice_cstr(chain)))));
}

static void html_alone_and_file_names(void **state)
{
    struct bench *b = *state;
    const char *got = message_of(b, bench_json(b, "{\"html\":\"<b>x</b>\"}"));
    assert_non_null(strstr(got, "Content-Type: text/html; charset=UTF-8\r\n"));
    assert_null(strstr(got, "multipart"));
    got = message_of(b, bench_json(b, "{\"attachments\":[{\"name\":\"\xC3\xA9t\xC3\xA9 'x'.pdf\","
                                      "\"data\":\"\"},{\"data\":\"QUJD\\r\\nREVG\"},"
                                      "{\"name\":\"q\\\"\\\\.txt\",\"data\":\"-_-_\"}]}"));
    assert_non_null(strstr(got, ";\r\n filename*0*=UTF-8''%C3%A9t%C3%A9%20%27x%27.pdf\r\n"));
    assert_non_null(strstr(got, "Content-Disposition: attachment\r\n"));
    assert_non_null(strstr(got, "\r\n\r\nQUJDREVG\r\n--"));
    assert_non_null(strstr(got, "filename=\"q\\\"\\\\.txt\"\r\n"));
    assert_non_null(strstr(got, "\r\n\r\n+/+/\r\n--"));
    assert_non_null(strstr(got, "Content-Type: application/octet-stream\r\n"));
}

static void display_names_are_made_safe(void **state)
{
    assert_message(*state, "{\"to\":\"\\\"Doe, \\\\\\\"J\\\\\\\" <x>\\\" <j@x>, plain@x\"}",
                   "To: \"Doe, \\\"J\\\" <x>\" <j@x>, plain@x\r\n" PLAIN "\r\n");
    assert_message(*state, "{\"to\":[{\"name\":\"J\xC3\xBCrgen\",\"email\":\"j@x\"}]}",
                   "To: =?UTF-8?B?SsO8cmdlbg==?= <j@x>\r\n" PLAIN "\r\n");
    assert_message(*state, "{\"to\":{\"name\":\"=?utf-8?q?x?=\",\"email\":\"j@x\"}}",
                   "To: =?UTF-8?B?PT91dGYtOD9xP3g/PQ==?= <j@x>\r\n" PLAIN "\r\n");
    assert_message(*state, "{\"to\":{\"name\":\"a@b, c\",\"email\":\"j@x\"}}",
                   "To: \"a@b, c\" <j@x>\r\n" PLAIN "\r\n");
}

/* ---- rules for any input ---- */

static void check_lines(const char *message)
{
    size_t column = 0;
    for (const char *c = message; *c; c++) {
        assert_true((unsigned char)*c < 0x80 &&
                    (*c >= ' ' || *c == '\r' || *c == '\n' || *c == '\t'));
        assert_int_equal(*c == '\r', c[1] == '\n');
        column = *c == '\n' ? 0 : column + (*c != '\r');
        assert_true(column <= 76);
    }
}

/* The text of a header without folding, with its encoded words decoded. */
static const char *decoded_header(struct bench *b, const char *message, const char *field)
{
    const char *at = strstr(message, field);
    assert_non_null(at);
    at += strlen(field);
    struct buf out;
    buf_init(&out, 1 << 20);
    bool after_word = false;
    while (strncmp(at, "\r\n", 2) != 0 || at[2] == ' ') {
        const char *end = strncmp(at, "=?UTF-8?B?", 10) == 0 ? strstr(at + 10, "?=") : NULL;
        if (end) {
            assert_true(end + 2 - at <= 75);
            assert_int_equal(decode_base64(&out, slice_of(at + 10, (size_t)(end - at - 10))), OK);
            size_t bad_at = 0;
            assert_true(slice_is_utf8(buf_slice(&out), &bad_at)); /* no character is cut */
            at = end + 2;
        } else if (strncmp(at, "\r\n ", 3) == 0) {
            at += after_word && strncmp(at + 3, "=?UTF-8?B?", 10) == 0 ? 3 : 2;
        } else {
            buf_append_char(&out, *at++);
        }
        after_word = end != NULL;
    }
    const char *text = arena_cstr(&b->arena, buf_slice(&out));
    buf_deinit(&out);
    return text;
}

static const char *repeat(struct bench *b, const char *text, size_t count)
{
    size_t len = strlen(text);
    char *to = arena_alloc_text(&b->arena, len * count + 1);
    for (size_t i = 0; i < count; i++)
        memcpy(to + i * len, text, len);
    to[len * count] = '\0';
    return to;
}

static void subjects_survive(void **state)
{
    struct bench *b = *state;
    static const char *const pieces[] = {"a",     "word ",  "\xC3\xA9",         "\xE2\x82\xAC ",
                                         "  two", "=?x?= ", "\xF0\x9F\x98\x80", "long-word-"};
    for (size_t i = 0; i < ARRAY_LEN(pieces); i++)
        for (size_t count = 1; count < 120; count += 7) {
            struct json object = json_object();
            const char *subject = repeat(b, pieces[i], count);
            json_object_set(&b->arena, &object, SLICE("subject"), json_string(slice_cstr(subject)));
            const char *message = message_of(b, &object);
            assert_non_null(message);
            check_lines(message);
            assert_string_equal(decoded_header(b, message, "Subject: "), subject);
        }
}

/* The body after the empty line, decoded as the header says. */
static const char *decoded_body(struct bench *b, const char *message)
{
    bool is_base64 = strstr(message, "Encoding: base64\r\n") != NULL;
    const char *at = strstr(message, "\r\n\r\n") + 4;
    struct buf out, digits;
    buf_init(&out, 1 << 20);
    buf_init(&digits, 1 << 20);
    for (; *at; at++) {
        if (is_base64 && *at != '\r' && *at != '\n') {
            buf_append_char(&digits, *at);
        } else if (!is_base64 && strncmp(at, "=\r\n", 3) == 0) {
            at += 2;
        } else if (!is_base64 && *at == '=') {
            assert_int_equal(decode_hex(&out, slice_of(at + 1, 2)), OK);
            at += 2;
        } else if (!is_base64) {
            buf_append_char(&out, *at);
        }
    }
    assert_int_equal(decode_base64(&out, buf_slice(&digits)), OK);
    if (is_base64)
        buf_append_cstr(&out, "\r\n"); /* the line end of the message's last line is not a part
                                        * of the digits */
    const char *text = arena_cstr(&b->arena, buf_slice(&out));
    buf_deinit(&out);
    buf_deinit(&digits);
    return text;
}

/* A person's text that resembles an encoded word must be decoded to the original text. */
static void looks_of_encoded_words_are_encoded(void **state)
{
    assert_message(*state, "{\"subject\":\"=?utf-8?q?x?=\"}",
                   "Subject: =?UTF-8?B?PT91dGYtOD9xP3g/PQ==?=\r\n" PLAIN "\r\n");
}

static void bodies_survive(void **state)
{
    struct bench *b = *state;
    static const char *const pieces[] = {
        "a",          "word ", "\xC3\xA9",         "tab\t\r\n", "a = b ",
        "line  \r\n", "\r\n",  "\xF0\x9F\x98\x80", ".",         "\xE6\xBC\xA2\r\n"};
    for (size_t i = 0; i < ARRAY_LEN(pieces); i++)
        for (size_t count = 1; count < 200; count += 9) {
            struct json object = json_object();
            const char *body = repeat(b, pieces[i], count);
            json_object_set(&b->arena, &object, SLICE("body"), json_string(slice_cstr(body)));
            const char *message = message_of(b, &object);
            assert_non_null(message);
            check_lines(message);
            slice got = slice_cstr(decoded_body(b, message));
            assert_true(slice_ends_with(got, SLICE("\r\n")));
            assert_true(slice_eq_cstr(slice_first(got, got.len - 2), body));
        }
}

static void line_ends_become_crlf(void **state)
{
    assert_message(*state, "{\"body\":\"a\\rb\\nc\\r\\nd\\n\\re\"}",
                   PLAIN "a\r\nb\r\nc\r\nd\r\n\r\ne\r\n");
    struct bench *b = *state;
    const char *got = message_of(b, bench_json(b, "{\"body\":\"\xC3\xA9\\n\xC3\xA9\"}"));
    assert_string_equal(decoded_body(b, got), "\xC3\xA9\r\n\xC3\xA9\r\n");
}

/* White space between ids may be a tab, or missing. */
static void ids_are_separated_as_in_the_rfc(void **state)
{
    struct bench *b = *state;
    const char *got =
        message_of(b, bench_json(b, "{\"references\":\"<a@x>\\t<b@x><c@x> d@x<e@x>\"}"));
    assert_non_null(got);
    assert_non_null(strstr(got, "References: <a@x> <b@x> <c@x> <d@x> <e@x>\r\n"));
    assert_refused(b, "{\"references\":\"<a@x> <b c@x>\"}", "references must hold message ids");
    assert_refused(b, "{\"references\":\"<>\"}", "references must hold message ids");
}

static void nothing_is_injected(void **state)
{
    struct bench *b = *state;
    static const char *const evil[] = {"x\\r\\nBcc: evil@x", "x\\nBcc: evil@x", "x\\rBcc: evil@x",
                                       "x\\u0000y",          "\\u0007",         "x\\u007fy",
                                       "x\\r\\n\\r\\nbody"};
    static const char *const places[] = {
        "{\"subject\":\"%s\"}",
        "{\"to\":\"%s\"}",
        "{\"to\":[\"a@x\",\"%s\"]}",
        "{\"cc\":{\"name\":\"%s\",\"email\":\"a@x\"}}",
        "{\"from\":{\"name\":\"n\",\"email\":\"%s\"}}",
        "{\"reply_to\":\"\\\"%s\\\" <a@x>\"}",
        "{\"in_reply_to\":\"<a@x> %s\"}",
        "{\"message_id\":\"%s\"}",
        "{\"references\":[\"%s\"]}",
        "{\"attachments\":[{\"data\":\"\",\"name\":\"%s\"}]}",
        "{\"attachments\":[{\"data\":\"\",\"content_type\":\"text/%s\"}]}"};
    for (size_t p = 0; p < ARRAY_LEN(places); p++)
        for (size_t e = 0; e < ARRAY_LEN(evil); e++) {
            char object[256];
            const char *hole = strstr(places[p], "%s");
            snprintf(object, sizeof object, "%.*s%s%s", (int)(hole - places[p]), places[p], evil[e],
                     hole + 2);
            assert_null(message_of(b, bench_json(b, object)));
            assert_int_equal(b->code, ERR_INVALID);
        }
    assert_refused(b, "{\"subject\":\"a\\nb\"}", "subject must not hold a line break");
    assert_refused(b, "{\"to\":\"a\\u0001@x\"}", "to must not hold a control character");
    /* A line in a body that resembles a header or a boundary is only text. */
    const char *got = message_of(
        b, bench_json(b, "{\"body\":\"--=_sluice\\r\\n\\r\\nBcc: x\",\"html\":\"--=_sluice\"}"));
    assert_null(strstr(got, "--=_sluice\r\n"));
    assert_non_null(strstr(got, "--=3D_sluice\r\n"));
}

static void bad_input_is_named(void **state)
{
    assert_refused(*state, "{\"to\":\"nobody\"}",
                   "to: nobody is not an email address"); /* words: ok */
    assert_refused(*state, "{\"to\":\"a@b@c\"}", "a@b@c is not an email address");
    assert_refused(*state, "{\"to\":\"a b@c\"}", "a b@c is not an email address");
    assert_refused(*state, "{\"to\":\"Name <>\"}", "not an email address");
    assert_refused(*state, "{\"to\":\"a..b@c\"}", "not an email address");
    assert_refused(*state, "{\"to\":\"a@-_!\"}", "not an email address");
    assert_refused(*state, "{\"to\":\"j\xC3\xBC@x\"}", "the part before the @ must be ASCII");
    assert_refused(*state, "{\"to\":5}", "to must be a string, not number");
    assert_refused(*state, "{\"to\":{\"name\":\"x\"}}", "needs a member email");
    assert_refused(*state, "{\"subject\":[]}", "subject must be a string, not array");
    assert_refused(*state, "{\"body\":{}}", "body must be a string, not object");
    assert_refused(*state, "{\"date\":\"today\"}", "date must be an RFC 3339 time");
    assert_refused(*state, "{\"references\":\"x\"}", "references must hold message ids");
    assert_refused(*state, "{\"attachments\":{}}", "attachments must be an array, not object");
    assert_refused(*state, "{\"attachments\":[{}]}", "must be an object with a string data");
    assert_refused(*state, "{\"attachments\":[5]}", "must be an object with a string data");
    assert_refused(*state, "{\"attachments\":[{\"data\":\"ab*c\"}]}",
                   "not base64: wrong character at offset 2");
    assert_refused(*state, "{\"attachments\":[{\"data\":\"abcde\"}]}", "its length is wrong");
    assert_refused(*state, "{\"attachments\":[{\"data\":\"ab=\"}]}", "its length is wrong");
    assert_refused(*state, "{\"attachments\":[{\"data\":\"a=bc\"}]}", "not base64");
    assert_refused(*state, "{\"attachments\":[{\"data\":\"\",\"content_type\":\"pdf\"}]}",
                   "like application/pdf");
    assert_refused(*state,
                   "{\"attachments\":[{\"data\":\"\",\"content_type\":\"Message/RFC822\"}]}",
                   "multipart/* or message/*");
}

/* Domains get the form that WHATWG's URL parser gives them. */
static void domains_beyond_ascii_are_punycoded(void **state)
{
    static const struct {
        const char *domain, *wanted;
    } cases[] = {
        {"m\xC3\xBCller.example", "xn--mller-kva.example"},
        {"M\xC3\x9CLLER.Example", "xn--mller-kva.example"},
        {"a.B\xC3\xBC"
         "cher.example",
         "a.xn--bcher-kva.example"},
        {"\xE4\xBE\x8B\xE3\x81\x88.\xE3\x83\x86\xE3\x82\xB9\xE3\x83\x88", "xn--r8jz45g.xn--zckzah"},
        {"\xE4\xBB\x96\xE4\xBB\xAC\xE4\xB8\xBA\xE4\xBB\x80\xE4\xB9\x88\xE4\xB8\x8D\xE8\xAF\xB4\xE4"
         "\xB8\xAD\xE6\x96\x87.example",
         "xn--ihqwcrb4cv8a8dqg056pqjye.example"},
        {"\xD0\xBF\xD0\xBE\xD1\x87\xD0\xB5\xD0\xBC\xD1\x83\xD0\xB6\xD0\xB5\xD0\xBE\xD0\xBD\xD0\xB8"
         "\xD0\xBD\xD0\xB5\xD0\xB3\xD0\xBE\xD0\xB2\xD0\xBE\xD1\x80\xD1\x8F\xD1\x82\xD0\xBF\xD0\xBE"
         "\xD1\x80\xD1\x83\xD1\x81\xD1\x81\xD0\xBA\xD0\xB8.example",
         "xn--b1abfaaepdrnnbgefbadotcwatmq2g4l.example"},
        {"\xCE\x95\xCE\xBB\xCE\xBB\xCE\xAC\xCE\xB4\xCE\xB1.gr", "xn--hxakic4aa.gr"},
        {"stra\xC3\x9F"
         "e.example",
         "xn--strae-oqa.example"},
        {"\xC5\x81\xC3\x93"
         "D\xC5\xB9.pl",
         "xn--d-uga0v4h.pl"},
        {"\xE0\xA4\xB9\xE0\xA4\xBF\xE0\xA4\xA8\xE0\xA5\x8D\xE0\xA4\xA6\xE0\xA5\x80.example",
         "xn--j2bd4cyah0f.example"},
        {"\xD9\x84\xD9\x8A\xD9\x87\xD9\x85\xD8\xA7\xD8\xA8\xD8\xAA\xD9\x83\xD9\x84\xD9\x85\xD9\x88"
         "\xD8\xB4\xD8\xB9\xD8\xB1\xD8\xA8\xD9\x8A.example",
         "xn--mgbcah9ar9a4efegftvvn.example"},
        {"l\xC3\xBCgen-und-\xC3\xA4hnliches.example", "xn--lgen-und-hnliches-yqb16b.example"},
        {"\xC5\xB8.\xC5\xBD.\xC4\x80\xC4\x82.\xE1\xBA\xBE", "xn--wda.xn--jha.xn--ydae.xn--ilg"},
        {"\xC3\xBC.\xC3\xBC.\xC3\xBC", "xn--tda.xn--tda.xn--tda"},
        {"\xF0\xA0\x80\x80.example", "xn--j50i.example"},
    };
    static const char *const refused[] = {
        "u\xCC\x88.example",
        "\xEF\xBC\xA1\xEF\xBC\xA2.example",
        "i\xE2\x9D\xA4.example",
        "\xC3\xBC\xE3\x80\x82"
        "example",
        "\xC3\xBC..example",
        "\xC3\xBC\xE2\x80\x8B.example",
        "\xC4\xB0.example",
        "\xC3\xBC_.example",
        "\xC3\xBC\xC3\xBC\xC3\xBC\xC3\xBC\xC3\xBC\xC3\xBC\xC3\xBC\xC3\xBC\xC3\xBC\xC3\xBC\xC3\xBC"
        "\xC3\xBC\xC3\xBC\xC3\xBC\xC3\xBC\xC3\xBC\xC3\xBC\xC3\xBC\xC3\xBC\xC3\xBC\xC3\xBC\xC3\xBC"
        "\xC3\xBC\xC3\xBC\xC3\xBC\xC3\xBC\xC3\xBC\xC3\xBC\xC3\xBC\xC3\xBC\xC3\xBC\xC3\xBC\xC3\xBC"
        "\xC3\xBC\xC3\xBC\xC3\xBC\xC3\xBC\xC3\xBC\xC3\xBC\xC3\xBC\xC3\xBC\xC3\xBC\xC3\xBC\xC3\xBC"
        "\xC3\xBC\xC3\xBC\xC3\xBC\xC3\xBC\xC3\xBC\xC3\xBC\xC3\xBC\xC3\xBC\xC3\xBC\xC3\xBC\xC3\xBC"
        "\xC3\xBC\xC3\xBC\xC3\xBC\xC3\xBC\xC3\xBC\xC3\xBC\xC3\xBC\xC3\xBC\xC3\xBC.example",
    };
    char object[512], wanted[512];
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        (void)snprintf(object, sizeof object, "{\"to\":\"Ada <a.b@%s>, c@d.example\"}",
                       cases[i].domain);
        (void)snprintf(wanted, sizeof wanted, "To: Ada <a.b@%s>, c@d.example\r\n", cases[i].wanted);
        const char *got = message_of(*state, bench_json(*state, object));
        assert_non_null(got);
        if (strncmp(got, wanted, strlen(wanted)) != 0)
            assert_string_equal(got, wanted);
    }
    for (size_t i = 0; i < ARRAY_LEN(refused); i++) {
        (void)snprintf(object, sizeof object, "{\"to\":[\"a@%s\"]}", refused[i]);
        assert_refused(*state, object, "must be written in its ASCII form");
    }
}

static void long_lists_are_folded(void **state)
{
    struct bench *b = *state;
    struct json object = json_object(), list = json_array(), ids = json_array();
    for (int i = 0; i < 200; i++) {
        json_array_push(&b->arena, &list,
                        json_string(arena_printf(&b->arena, "Name %0*d <user%d@example.com>",
                                                 i % 30 + 1, i, i)));
        json_array_push(&b->arena, &ids, json_string(arena_printf(&b->arena, "<%d@mail.x>", i)));
    }
    json_object_set(&b->arena, &object, SLICE("to"), list);
    json_object_set(&b->arena, &object, SLICE("references"), ids);
    const char *message = message_of(b, &object);
    assert_non_null(message);
    check_lines(message);
    const char *to = decoded_header(b, message, "To: ");
    for (uint32_t i = 0; i < list.count; i++) {
        slice one = json_str(json_at(&list, i));
        assert_int_equal(strncmp(to, one.ptr, one.len), 0);
        to += one.len;
        assert_int_equal(strncmp(to, i + 1 < list.count ? ", " : "", 2), 0);
        to += i + 1 < list.count ? 2 : 0;
    }
    assert_string_equal(to, "");
}

static void size_is_bounded(void **state)
{
    struct bench *b = *state;
    struct json object = json_object();
    char *body = arena_alloc_text(&b->arena, 900000);
    memset(body, 'x', 900000);
    json_object_set(&b->arena, &object, SLICE("body"), json_string(slice_of(body, 900000)));
    assert_non_null(message_of(b, &object));
    json_object_set(&b->arena, &object, SLICE("html"), json_string(slice_of(body, 900000)));
    size_t before = b->arena.bytes_used;
    assert_null(message_of(b, &object));
    assert_int_equal(b->code, ERR_LIMIT);
    assert_true(b->arena.bytes_used - before < 6u << 20);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        bench_test(a_plain_message),
        bench_test(all_headers),
        bench_test(text_and_html_and_a_file),
        bench_test(a_message_is_forwarded_unchanged),
        bench_test(a_forwarded_message_cannot_end_its_part),
        bench_test(html_alone_and_file_names),
        bench_test(display_names_are_made_safe),
        bench_test(subjects_survive),
        bench_test(looks_of_encoded_words_are_encoded),
        bench_test(bodies_survive),
        bench_test(line_ends_become_crlf),
        bench_test(ids_are_separated_as_in_the_rfc),
        bench_test(nothing_is_injected),
        bench_test(bad_input_is_named),
        bench_test(domains_beyond_ascii_are_punycoded),
        bench_test(long_lists_are_folded),
        bench_test(size_is_bounded),
    };
    return cmocka_run_group_tests_name("mime", tests, NULL, NULL);
}
