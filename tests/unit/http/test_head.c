/* http/head, chunk, target, parser: attacks and valid messages, each sent whole, byte by byte,
 * and split at every position, with the same verdict. */
#include "base/buf.h"
#include "http/head.h"
#include "http/parser.h"
#include "unit.h"
#include "unit/http/head_payloads.h"

enum { BODY_MAX = 1000, HEADERS_MAX = 20 };

static const struct http_head_limits limits = {512, 128, HEADERS_MAX};

/* ---- a reader of one message, like the server's connection ---- */

struct reader {
    struct http_head_scan scan;
    struct http_chunk_scan chunk;
    struct http_parser parser;
    struct http_header headers[HEADERS_MAX];
    struct http_head head;
    struct buf raw, body;
    uint64_t left;
    bool has_head;
    unsigned status;  /* GOOD, UNFINISHED, or the refusal's status */
    const char *text; /* the refusal's text */
    size_t used;      /* bytes of the message */
};

static bool on_body(struct http_parser *parser, slice bytes)
{
    struct reader *reader = CONTAINER_OF(parser, struct reader, parser);
    buf_append(&reader->body, bytes);
    return true;
}

static void reader_init(struct reader *reader)
{
    memset(reader, 0, sizeof(*reader));
    reader->status = UNFINISHED;
    http_head_scan_init(&reader->scan, &limits);
    buf_init(&reader->raw, 1 << 20);
    buf_init(&reader->body, 1 << 20);
}

static void refuse(struct reader *reader, struct http_problem problem)
{
    reader->status = problem.status;
    reader->text = problem.text;
}

static void feed_parser(struct reader *reader, slice bytes)
{
    if (http_parser_feed(&reader->parser, bytes) != OK)
        refuse(reader, (struct http_problem){400, "llhttp"});
}

static void read_head(struct reader *reader)
{
    struct http_problem problem;
    reader->has_head = true;
    if (!http_head_check(buf_slice(&reader->raw), reader->headers, HEADERS_MAX, &reader->head,
                         &problem)) {
        assert_true(problem.status >= 400 && problem.text);
        refuse(reader, problem);
        return;
    }
    http_parser_init(&reader->parser, &reader->head, on_body);
    feed_parser(reader, buf_slice(&reader->raw));
    http_chunk_scan_init(&reader->chunk, BODY_MAX);
    reader->left = reader->head.content_length;
    bool has_body = reader->head.framing == HTTP_FRAMING_CHUNKED ||
                    (reader->head.framing == HTTP_FRAMING_LENGTH && reader->left);
    if (reader->status == UNFINISHED && !has_body)
        reader->status = GOOD;
}

static size_t feed_body(struct reader *reader, slice bytes)
{
    size_t used = bytes.len;
    if (reader->head.framing == HTTP_FRAMING_CHUNKED) {
        enum http_scan scan = http_chunk_scan(&reader->chunk, bytes, &used);
        if (scan == HTTP_SCAN_BAD) {
            feed_parser(reader, slice_first(bytes, used - 1));
            if (reader->status == UNFINISHED)
                refuse(reader, reader->chunk.problem);
            return used;
        }
        if (scan == HTTP_SCAN_DONE)
            reader->status = GOOD;
    } else if (reader->head.framing == HTTP_FRAMING_LENGTH) {
        used = bytes.len < reader->left ? bytes.len : (size_t)reader->left;
        reader->left -= used;
        if (!reader->left)
            reader->status = GOOD;
    }
    unsigned status = reader->status;
    reader->status = UNFINISHED;
    feed_parser(reader, slice_first(bytes, used));
    if (reader->status == UNFINISHED)
        reader->status = status;
    if (reader->status == GOOD)
        assert_true(reader->parser.is_complete);
    return used;
}

static void feed(struct reader *reader, slice bytes)
{
    while (bytes.len && reader->status == UNFINISHED) {
        size_t used;
        if (reader->has_head) {
            used = feed_body(reader, bytes);
        } else {
            enum http_scan scan = http_head_scan(&reader->scan, bytes, &used);
            buf_append(&reader->raw, slice_first(bytes, used));
            if (scan == HTTP_SCAN_BAD)
                refuse(reader, reader->scan.problem);
            else if (scan == HTTP_SCAN_DONE)
                read_head(reader);
        }
        reader->used += used;
        bytes = slice_from(bytes, used);
    }
}

static void reader_deinit(struct reader *reader)
{
    buf_deinit(&reader->raw);
    buf_deinit(&reader->body);
}

struct verdict {
    unsigned status;
    const char *text;
    size_t used;
};

/* cut is the length of the first part, or 0 to send the message byte by byte. */
static struct verdict judge(slice bytes, size_t cut)
{
    struct reader reader;
    reader_init(&reader);
    if (cut) {
        feed(&reader, slice_first(bytes, cut));
        feed(&reader, slice_from(bytes, cut));
    } else {
        for (size_t i = 0; i < bytes.len; i++) {
            char c = bytes.ptr[i]; /* ASan detects a read past it */
            feed(&reader, slice_of(&c, 1));
        }
    }
    struct verdict verdict = {reader.status, reader.text, reader.used};
    reader_deinit(&reader);
    return verdict;
}

static void expect(const char *name, slice bytes, unsigned status)
{
    char *copy = mem_alloc(bytes.len + 1); /* exact size: ASan detects a byte too many */
    memcpy(copy, bytes.ptr, bytes.len);
    slice exact = slice_of(copy, bytes.len);
    struct verdict whole = judge(exact, bytes.len);
    if (whole.status != status)
        fail_msg("%s: %u (%s), expected %u", name, whole.status, whole.text ? whole.text : "",
                 status);
    for (size_t cut = 0; cut < bytes.len; cut++) {
        struct verdict split = judge(exact, cut);
        if (split.status != whole.status || split.text != whole.text ||
            (status == GOOD && split.used != whole.used))
            fail_msg("%s: cut at %zu: %u (%s), whole %u (%s)", name, cut, split.status,
                     split.text ? split.text : "", whole.status, whole.text ? whole.text : "");
    }
    mem_free(copy);
}

static void attacks_are_refused_however_they_arrive(void **state)
{
    (void)state;
    assert_true(ARRAY_LEN(attacks) >= 80);
    for (size_t i = 0; i < ARRAY_LEN(attacks); i++)
        expect(attacks[i].name, attacks[i].bytes, attacks[i].status);
    assert_int_equal(mem_live_blocks(), 0);
}

static void good_requests_pass(void **state)
{
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(good); i++)
        expect(good[i].name, good[i].bytes, good[i].status);
    assert_int_equal(mem_live_blocks(), 0);
}

/* ---- limits, to the byte ---- */

static void fill(struct buf *text, size_t len)
{
    for (size_t i = 0; i < len; i++)
        buf_append_char(text, 'a');
}

static void limits_hold_to_the_byte(void **state)
{
    (void)state;
    struct buf text;
    buf_init(&text, 1 << 16);
    for (size_t over = 0; over < 2; over++) {
        buf_clear(&text); /* target */
        buf_append_cstr(&text, "GET /");
        fill(&text, limits.url_bytes_max - 1 + over);
        buf_append_cstr(&text, " HTTP/1.1\r\nHost: a\r\n\r\n");
        expect("long target", buf_slice(&text), over ? 414 : GOOD);

        buf_clear(&text); /* head */
        buf_append_cstr(&text, "GET / HTTP/1.1\r\nHost: a\r\nX: ");
        fill(&text, limits.head_bytes_max - text.len - 4 + over);
        buf_append_cstr(&text, "\r\n\r\n");
        assert_int_equal(text.len, limits.head_bytes_max + over);
        expect("long head", buf_slice(&text), over ? 431 : GOOD);

        buf_clear(&text); /* fields */
        buf_append_cstr(&text, "GET / HTTP/1.1\r\nHost: a\r\n");
        for (size_t i = 1; i < HEADERS_MAX + over; i++)
            buf_append_cstr(&text, "X: a\r\n");
        buf_append_cstr(&text, "\r\n");
        expect("many fields", buf_slice(&text), over ? 431 : GOOD);

        buf_clear(&text); /* chunk extensions */
        buf_append_cstr(&text, P TE E "1;");
        fill(&text, HTTP_CHUNK_EXT_BYTES_MAX + over);
        buf_append_cstr(&text, "\r\na\r\n0\r\n\r\n");
        expect("long extension", buf_slice(&text), over ? 400 : GOOD);
    }
    buf_clear(&text);
    buf_append_cstr(&text, P TE E "0\r\nX:");
    fill(&text, HTTP_TRAILER_BYTES_MAX);
    struct verdict verdict = judge(buf_slice(&text), text.len);
    assert_int_equal(verdict.status, 400);
    buf_deinit(&text);
}

static void framing_may_not_dwarf_its_body(void **state)
{
    (void)state;
    struct http_chunk_scan scan;
    http_chunk_scan_init(&scan, 1 << 22);
    enum http_scan result = HTTP_SCAN_MORE;
    size_t rounds = 0, used;
    for (; result == HTTP_SCAN_MORE && rounds < 1 << 22; rounds++)
        result = http_chunk_scan(&scan, SLICE("1;aaaaaaaaaaaaaa\r\nx\r\n"), &used);
    assert_int_equal(result, HTTP_SCAN_BAD);
    assert_int_equal(scan.problem.status, 400);
    assert_true(rounds >= HTTP_CHUNK_OVERHEAD_BYTES_MAX / 20 - 1);
}

/* ---- the contents of a good head ---- */

static struct http_head check(const char *text, struct http_header headers[HEADERS_MAX])
{
    struct http_head head;
    struct http_problem problem;
    if (!http_head_check(slice_cstr(text), headers, HEADERS_MAX, &head, &problem))
        fail_msg("%s: %s", text, problem.text);
    return head;
}

static void a_head_is_read(void **state)
{
    (void)state;
    struct http_header headers[HEADERS_MAX];
    struct http_head head = check("POST /a/b%20c?x=1&y HTTP/1.1\r\nHost: Example.org:80\r\n"
                                  "X-One:  two three \t\r\nContent-Length: 12\r\n\r\n",
                                  headers);
    assert_int_equal(head.method, HTTP_METHOD_POST);
    assert_text(head.target, "/a/b%20c?x=1&y");
    assert_text(head.path, "/a/b%20c");
    assert_text(head.query, "x=1&y");
    assert_text(head.host, "Example.org:80");
    assert_int_equal(head.version_minor, 1);
    assert_int_equal(head.framing, HTTP_FRAMING_LENGTH);
    assert_int_equal(head.content_length, 12);
    assert_true(head.is_keep_alive && !head.expects_continue);
    assert_int_equal(head.header_count, 3);
    assert_text(http_header_get(headers, 3, SLICE("x-oNE")), "two three");
    assert_null(http_header_get(headers, 3, SLICE("x-on")).ptr);
    head = check("GET http://a HTTP/1.1\r\nHost: A\r\n\r\n", headers);
    assert_text(head.path, "/");
    head = check("GET http://a?b HTTP/1.1\r\nHost: A\r\n\r\n", headers);
    assert_text(head.path, "/");
    assert_text(head.query, "b");
    assert_text(head.host, "a");
}

static void keep_alive_follows_version_and_connection(void **state)
{
    (void)state;
    static const struct {
        const char *version, *connection;
        bool is_kept;
    } cases[] = {
        {"1.1", "X: y", true},
        {"1.1", "Connection: close", false},
        {"1.1", "Connection: CLOSE", false},
        {"1.1", "Connection: foo , close", false},
        {"1.1", "Connection: foo\r\nConnection: close", false},
        {"1.1", "Connection: closed", true},
        {"1.0", "X: y", false},
        {"1.0", "Connection: Keep-Alive", true},
        {"1.0", "Connection: keep-alive, close", false},
    };
    struct http_header headers[HEADERS_MAX];
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct buf text;
        buf_init(&text, 1000);
        buf_printf(&text, "GET / HTTP/%s\r\nHost: a\r\n%s\r\n\r\n%c", cases[i].version,
                   cases[i].connection, 0);
        assert_int_equal(check(text.ptr, headers).is_keep_alive, cases[i].is_kept);
        buf_deinit(&text);
    }
}

static void expectations_are_found(void **state)
{
    (void)state;
    struct http_header headers[HEADERS_MAX];
    struct http_head head = check(P CL5 "Expect: 100-Continue\r\n\r\n", headers);
    assert_true(head.expects_continue && !head.expects_other);
    head = check(P CL5 "Expect: 200-ok\r\n\r\n", headers);
    assert_true(head.expects_other);
    head = check("POST / HTTP/1.0\r\nExpect: 100-continue\r\n\r\n", headers);
    assert_false(head.expects_continue || head.expects_other);
}

static void bodies_are_decoded(void **state)
{
    (void)state;
    struct reader reader;
    reader_init(&reader);
    feed(&reader, SLICE(P TE E "5;x\r\nhello\r\n7\r\n, world\r\n0\r\nX: y\r\n\r\nnext"));
    assert_int_equal(reader.status, GOOD);
    assert_text(buf_slice(&reader.body), "hello, world");
    reader_deinit(&reader);
}

/* ---- message.h ---- */

static void values_that_split_messages_are_found(void **state)
{
    (void)state;
    assert_true(http_is_field_value(SLICE("")));
    assert_true(http_is_field_value(SLICE("a b\tc \xc3\xa9")));
    assert_false(http_is_field_value(SLICE("a\r\nX: y")));
    assert_false(http_is_field_value(SLICE("a\n")));
    assert_false(http_is_field_value(slice_of("a\0b", 3)));
    assert_false(http_is_field_value(SLICE(" a")));
    assert_false(http_is_field_value(SLICE("a\x7f")));
    assert_false(http_is_token(SLICE("")));
    assert_false(http_is_token(SLICE("a b")));
    assert_false(http_is_token(slice_of("\0", 1)));
    assert_true(http_is_visible(SLICE("r-1/2~!")));
    assert_false(http_is_visible(SLICE("a b")));
    assert_false(http_is_visible(SLICE("\xc3\xa9")));
    assert_text(http_media_type(SLICE(" application/json ; charset=utf-8")), "application/json");
    assert_string_equal(http_status_text(404), "Not Found");
    assert_string_equal(http_status_text(299), "Unknown");
    for (enum http_method method = HTTP_METHOD_GET; method < HTTP_METHODS; method++)
        assert_int_equal(http_method_parse(http_method_text(method)), method);
    struct http_header header = {SLICE("Accept-Encoding"), SLICE("gzip;q=1, br ,x")};
    assert_true(http_header_has_token(&header, 1, SLICE("accept-encoding"), SLICE("GZIP")));
    assert_true(http_header_has_token(&header, 1, SLICE("accept-encoding"), SLICE("br")));
    assert_false(http_header_has_token(&header, 1, SLICE("accept-encoding"), SLICE("zip")));
    struct buf out;
    buf_init(&out, 100);
    http_header_write(&out, header);
    assert_text(buf_slice(&out), "Accept-Encoding: gzip;q=1, br ,x\r\n");
    buf_deinit(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(attacks_are_refused_however_they_arrive),
        cmocka_unit_test(good_requests_pass),
        cmocka_unit_test(limits_hold_to_the_byte),
        cmocka_unit_test(framing_may_not_dwarf_its_body),
        cmocka_unit_test(a_head_is_read),
        cmocka_unit_test(keep_alive_follows_version_and_connection),
        cmocka_unit_test(expectations_are_found),
        cmocka_unit_test(bodies_are_decoded),
        cmocka_unit_test(values_that_split_messages_are_found),
    };
    return unit_result(cmocka_run_group_tests_name("http/head", tests, NULL, NULL));
}
