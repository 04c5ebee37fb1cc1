/* http/head, chunk, target, parser: attacks and good messages, each whole, byte by byte and cut in
 * two at every place: one verdict. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/buf.h"
#include "base/mem.h"
#include "http/head.h"
#include "http/parser.h"

enum { GOOD = 0, UNFINISHED = 1, BODY_MAX = 1000, HEADERS_MAX = 20 };

static const struct http_head_limits limits = {512, 128, HEADERS_MAX};

/* ---- a reader of one message, as the server's connection is one ---- */

struct reader {
    enum http_head_kind kind;
    struct http_head_scan scan;
    struct http_chunk_scan chunk;
    struct http_parser parser;
    struct http_header headers[HEADERS_MAX];
    struct http_head head;
    struct buf raw, body;
    uint64_t left;
    bool has_head;
    unsigned status;  /* GOOD, UNFINISHED, or what the refusal says */
    const char *text; /* of a refusal */
    size_t used;      /* bytes of the message */
};

static bool on_body(struct http_parser *parser, slice bytes)
{
    struct reader *reader = CONTAINER_OF(parser, struct reader, parser);
    buf_append(&reader->body, bytes);
    return true;
}

static void reader_init(struct reader *reader, enum http_head_kind kind)
{
    memset(reader, 0, sizeof(*reader));
    reader->kind = kind;
    reader->status = UNFINISHED;
    http_head_scan_init(&reader->scan, kind, &limits);
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
    if (!http_head_check(buf_slice(&reader->raw), reader->kind, HTTP_METHOD_GET, reader->headers,
                         HEADERS_MAX, &reader->head, &problem)) {
        assert_true(problem.status >= 400 && problem.text);
        refuse(reader, problem);
        return;
    }
    http_parser_init(&reader->parser, reader->kind, &reader->head, on_body);
    feed_parser(reader, buf_slice(&reader->raw));
    http_chunk_scan_init(&reader->chunk, BODY_MAX);
    reader->left = reader->head.content_length;
    bool has_body = reader->head.framing == HTTP_FRAMING_CHUNKED ||
                    (reader->head.framing == HTTP_FRAMING_LENGTH && reader->left) ||
                    reader->head.framing == HTTP_FRAMING_CLOSE;
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

/* cut: 0 byte by byte, else the first part's length. */
static struct verdict judge(enum http_head_kind kind, slice bytes, size_t cut)
{
    struct reader reader;
    reader_init(&reader, kind);
    if (cut) {
        feed(&reader, slice_first(bytes, cut));
        feed(&reader, slice_from(bytes, cut));
    } else {
        for (size_t i = 0; i < bytes.len; i++) {
            char c = bytes.ptr[i]; /* ASan sees a step past it */
            feed(&reader, slice_of(&c, 1));
        }
    }
    struct verdict verdict = {reader.status, reader.text, reader.used};
    reader_deinit(&reader);
    return verdict;
}

static void expect(enum http_head_kind kind, const char *name, slice bytes, unsigned status)
{
    char *copy = mem_alloc(bytes.len + 1); /* exact size: ASan sees a byte too much */
    memcpy(copy, bytes.ptr, bytes.len);
    slice exact = slice_of(copy, bytes.len);
    struct verdict whole = judge(kind, exact, bytes.len);
    if (whole.status != status)
        fail_msg("%s: %u (%s), expected %u", name, whole.status, whole.text ? whole.text : "",
                 status);
    for (size_t cut = 0; cut < bytes.len; cut++) {
        struct verdict split = judge(kind, exact, cut);
        if (split.status != whole.status || split.text != whole.text ||
            (status == GOOD && split.used != whole.used))
            fail_msg("%s: cut at %zu: %u (%s), whole %u (%s)", name, cut, split.status,
                     split.text ? split.text : "", whole.status, whole.text ? whole.text : "");
    }
    mem_free(copy);
}

struct payload {
    const char *name;
    slice bytes;
    unsigned status;
};

#define H    "Host: a\r\n"
#define P    "POST / HTTP/1.1\r\nHost: a\r\n"
#define G    "GET / HTTP/1.1\r\nHost: a\r\n"
#define CL5  "Content-Length: 5\r\n"
#define TE   "Transfer-Encoding: chunked\r\n"
#define E    "\r\n"
#define REST "0\r\n\r\nGET /evil HTTP/1.1\r\nHost: a\r\n\r\n"

static const struct payload attacks[] = {
    /* lines */
    {"bare LF after request line", SLICE_INIT("GET / HTTP/1.1\nHost: a\r\n\r\n"), 400},
    {"bare LF after header", SLICE_INIT("GET / HTTP/1.1\r\nHost: a\n\r\n"), 400},
    {"bare LF ends the head", SLICE_INIT(G "\n"), 400},
    {"bare LF everywhere", SLICE_INIT("GET / HTTP/1.1\nHost: a\n\n"), 400},
    {"CR without LF in a value", SLICE_INIT(G "X: a\rb\r\n\r\n"), 400},
    {"CR hides a header", SLICE_INIT(P "X: a\rTransfer-Encoding: chunked\r\n\r\n" REST), 400},
    {"CR CR LF", SLICE_INIT(G "X: a\r\r\n\r\n"), 400},
    {"CR ends the head", SLICE_INIT(G "\rX: a\r\n\r\n"), 400},
    {"CR in the request line", SLICE_INIT("GET /\r HTTP/1.1\r\nHost: a\r\n\r\n"), 400},
    {"LF in the name", SLICE_INIT(G "X\n: a\r\n\r\n"), 400},
    {"NUL in a value", SLICE_INIT(G "X: a\0b\r\n\r\n"), 400},
    {"NUL in a name", SLICE_INIT(G "X\0: a\r\n\r\n"), 400},
    {"NUL in the target", SLICE_INIT("GET /\0 HTTP/1.1\r\nHost: a\r\n\r\n"), 400},
    {"NUL first", SLICE_INIT("\0GET / HTTP/1.1\r\nHost: a\r\n\r\n"), 400},
    {"vertical tab before the value", SLICE_INIT(P "Transfer-Encoding:\vchunked\r\n\r\n" REST),
     400},
    {"form feed in a value", SLICE_INIT(G "X: \fa\r\n\r\n"), 400},
    {"DEL in a value", SLICE_INIT(G "X: a\x7f\r\n\r\n"), 400},
    {"escape character", SLICE_INIT(G "X: \x1b[31m\r\n\r\n"), 400},
    {"obs-fold with space", SLICE_INIT(G "X: a\r\n b\r\n\r\n"), 400},
    {"obs-fold with tab", SLICE_INIT(P "Transfer-Encoding:\r\n\tchunked\r\n\r\n" REST), 400},
    {"first header folded", SLICE_INIT("GET / HTTP/1.1\r\n Host: a\r\n\r\n"), 400},
    {"space first", SLICE_INIT(" GET / HTTP/1.1\r\nHost: a\r\n\r\n"), 400},
    {"too many empty lines first", SLICE_INIT("\r\n\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n"),
     400},
    {"an LF first", SLICE_INIT("\nGET / HTTP/1.1\r\nHost: a\r\n\r\n"), 400},
    {"TLS hello", SLICE_INIT("\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"), 400},
    /* names */
    {"empty name", SLICE_INIT(G ": a\r\n\r\n"), 400},
    {"no colon", SLICE_INIT(G "X\r\n\r\n"), 400},
    {"space before colon", SLICE_INIT(P "Content-Length : 5\r\n\r\nhello"), 400},
    {"tab before colon", SLICE_INIT(P "Transfer-Encoding\t: chunked\r\n\r\n" REST), 400},
    {"space in a name", SLICE_INIT(P "Content Length: 5\r\n\r\nhello"), 400},
    {"parenthesis in a name", SLICE_INIT(G "X(y): a\r\n\r\n"), 400},
    {"slash in a name", SLICE_INIT(G "X/y: a\r\n\r\n"), 400},
    {"quote in a name", SLICE_INIT(G "\"Host\": a\r\n\r\n"), 400},
    {"bytes over 127 in a name", SLICE_INIT(G "Transfer-Encoding\xa0: chunked\r\n\r\n"), 400},
    {"Transfer_Encoding", SLICE_INIT(P "Transfer_Encoding: chunked\r\n\r\n" REST), 400},
    {"Content_Length", SLICE_INIT(P "Content_Length: 5\r\n\r\nhello"), 400},
    {"Host_", SLICE_INIT(G "Host_: b\r\n\r\n"), 400},
    {"TransferEncoding", SLICE_INIT(P "TransferEncoding: chunked\r\n\r\n" REST), 400},
    {"Content--Length", SLICE_INIT(P "Content--Length: 5\r\n\r\nhello"), 400},
    {"authori_zation", SLICE_INIT(G "_Authorization: Bearer x\r\n\r\n"), 400},
    {"Transfer-Encoding with a dot", SLICE_INIT(P "Transfer.Encoding: chunked\r\n\r\n" REST), 400},
    /* request line */
    {"tab in the request line", SLICE_INIT("GET\t/ HTTP/1.1\r\nHost: a\r\n\r\n"), 400},
    {"two spaces", SLICE_INIT("GET  / HTTP/1.1\r\nHost: a\r\n\r\n"), 400},
    {"two spaces before the version", SLICE_INIT("GET /  HTTP/1.1\r\nHost: a\r\n\r\n"), 400},
    {"space at the end", SLICE_INIT("GET / HTTP/1.1 \r\nHost: a\r\n\r\n"), 400},
    {"space in the target", SLICE_INIT("GET /a b HTTP/1.1\r\nHost: a\r\n\r\n"), 400},
    {"no version", SLICE_INIT("GET /\r\nHost: a\r\n\r\n"), 400},
    {"only a method", SLICE_INIT("GET\r\nHost: a\r\n\r\n"), 400},
    {"no method", SLICE_INIT("/ HTTP/1.1\r\nHost: a\r\n\r\n"), 400},
    {"HTTP/1.10", SLICE_INIT("GET / HTTP/1.10\r\nHost: a\r\n\r\n"), 400},
    {"HTTP/01.1", SLICE_INIT("GET / HTTP/01.1\r\nHost: a\r\n\r\n"), 400},
    {"http/1.1", SLICE_INIT("GET / http/1.1\r\nHost: a\r\n\r\n"), 400},
    {"HTTP/1", SLICE_INIT("GET / HTTP/1\r\nHost: a\r\n\r\n"), 400},
    {"ICY", SLICE_INIT("GET / ICY/1.1\r\nHost: a\r\n\r\n"), 400},
    {"HTTP/1.2", SLICE_INIT("GET / HTTP/1.2\r\nHost: a\r\n\r\n"), 505},
    {"HTTP/0.9", SLICE_INIT("GET / HTTP/0.9\r\nHost: a\r\n\r\n"), 505},
    {"HTTP/2.0", SLICE_INIT("GET / HTTP/2.0\r\nHost: a\r\n\r\n"), 505},
    {"HTTP/2 preface", SLICE_INIT("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"), 505},
    {"unknown method", SLICE_INIT("FROB / HTTP/1.1\r\nHost: a\r\n\r\n"), 501},
    {"lower case method", SLICE_INIT("get / HTTP/1.1\r\nHost: a\r\n\r\n"), 501},
    {"CONNECT", SLICE_INIT("CONNECT a:443 HTTP/1.1\r\nHost: a:443\r\n\r\n"), 501},
    {"TRACE", SLICE_INIT("TRACE / HTTP/1.1\r\nHost: a\r\n\r\n"), 501},
    {"endless method", SLICE_INIT("AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"), 501},
    {"method is no token", SLICE_INIT("G@T / HTTP/1.1\r\nHost: a\r\n\r\n"), 400},
    {"target not from a slash", SLICE_INIT("GET index.html HTTP/1.1\r\nHost: a\r\n\r\n"), 400},
    {"target @", SLICE_INIT("GET @evil/ HTTP/1.1\r\nHost: a\r\n\r\n"), 400},
    {"fragment", SLICE_INIT("GET /#x HTTP/1.1\r\nHost: a\r\n\r\n"), 400},
    {"backslash", SLICE_INIT("GET /\\evil HTTP/1.1\r\nHost: a\r\n\r\n"), 400},
    {"angle bracket", SLICE_INIT("GET /<script> HTTP/1.1\r\nHost: a\r\n\r\n"), 400},
    {"bytes over 127 in the target", SLICE_INIT("GET /\xc3\xa9 HTTP/1.1\r\nHost: a\r\n\r\n"), 400},
    {"broken escape", SLICE_INIT("GET /%4 HTTP/1.1\r\nHost: a\r\n\r\n"), 400},
    {"escape that is none", SLICE_INIT("GET /%zz HTTP/1.1\r\nHost: a\r\n\r\n"), 400},
    {"escaped NUL", SLICE_INIT("GET /a%00b HTTP/1.1\r\nHost: a\r\n\r\n"), 400},
    {"broken escape in the query", SLICE_INIT("GET /?a=%q HTTP/1.1\r\nHost: a\r\n\r\n"), 400},
    {"* for GET", SLICE_INIT("GET * HTTP/1.1\r\nHost: a\r\n\r\n"), 400},
    {"other host in the target", SLICE_INIT("GET http://b/ HTTP/1.1\r\nHost: a\r\n\r\n"), 400},
    {"other port in the target", SLICE_INIT("GET http://a:1/ HTTP/1.1\r\nHost: a\r\n\r\n"), 400},
    {"user in the target", SLICE_INIT("GET http://x@a/ HTTP/1.1\r\nHost: a\r\n\r\n"), 400},
    {"other scheme", SLICE_INIT("GET ftp://a/ HTTP/1.1\r\nHost: a\r\n\r\n"), 400},
    {"scheme without host", SLICE_INIT("GET http:/// HTTP/1.1\r\nHost: a\r\n\r\n"), 400},
    /* Host */
    {"no Host", SLICE_INIT("GET / HTTP/1.1\r\n\r\n"), 400},
    {"Host twice", SLICE_INIT(G H "\r\n"), 400},
    {"Host twice, other case", SLICE_INIT(G "hOsT: b\r\n\r\n"), 400},
    {"Host twice on 1.0", SLICE_INIT("GET / HTTP/1.0\r\nHost: a\r\nHost: a\r\n\r\n"), 400},
    {"empty Host", SLICE_INIT("GET / HTTP/1.1\r\nHost:\r\n\r\n"), 400},
    {"two in one Host", SLICE_INIT("GET / HTTP/1.1\r\nHost: a, b\r\n\r\n"), 400},
    {"Host with a path", SLICE_INIT("GET / HTTP/1.1\r\nHost: a/b\r\n\r\n"), 400},
    {"Host with a user", SLICE_INIT("GET / HTTP/1.1\r\nHost: x@a\r\n\r\n"), 400},
    {"Host with a space", SLICE_INIT("GET / HTTP/1.1\r\nHost: a b\r\n\r\n"), 400},
    {"Host with a bad port", SLICE_INIT("GET / HTTP/1.1\r\nHost: a:b\r\n\r\n"), 400},
    {"Host with a high port", SLICE_INIT("GET / HTTP/1.1\r\nHost: a:65536\r\n\r\n"), 400},
    {"Host with two ports", SLICE_INIT("GET / HTTP/1.1\r\nHost: a:1:2\r\n\r\n"), 400},
    {"Host of brackets only", SLICE_INIT("GET / HTTP/1.1\r\nHost: []\r\n\r\n"), 400},
    {"Host with junk behind brackets", SLICE_INIT("GET / HTTP/1.1\r\nHost: [::1]x\r\n\r\n"), 400},
    /* framing */
    {"CL and TE", SLICE_INIT(P CL5 TE E REST), 400},
    {"TE and CL", SLICE_INIT(P TE CL5 E REST), 400},
    {"CL twice", SLICE_INIT(P CL5 CL5 E "hello"), 400},
    {"two CLs", SLICE_INIT(P CL5 "Content-Length: 6\r\n" E "hello!"), 400},
    {"CL list", SLICE_INIT(P "Content-Length: 5, 5\r\n" E "hello"), 400},
    {"CL +5", SLICE_INIT(P "Content-Length: +5\r\n" E "hello"), 400},
    {"CL -5", SLICE_INIT(P "Content-Length: -5\r\n" E "hello"), 400},
    {"CL 0x5", SLICE_INIT(P "Content-Length: 0x5\r\n" E "hello"), 400},
    {"CL 5 5", SLICE_INIT(P "Content-Length: 5 5\r\n" E "hello"), 400},
    {"CL 5.0", SLICE_INIT(P "Content-Length: 5.0\r\n" E "hello"), 400},
    {"CL empty", SLICE_INIT(P "Content-Length:\r\n" E "hello"), 400},
    {"CL with NBSP",
     SLICE_INIT(P "Content-Length: \xa0"
                  "5\r\n" E "hello"),
     400},
    {"CL past 64 bits", SLICE_INIT(P "Content-Length: 18446744073709551621\r\n" E "hello"), 400},
    {"CL past 63 bits", SLICE_INIT(P "Content-Length: 9223372036854775808\r\n" E "hello"), 400},
    {"CL with leading zeros over 19 digits",
     SLICE_INIT(P "Content-Length: 00000000000000000005\r\n" E "hello"), 400},
    {"TE identity", SLICE_INIT(P "Transfer-Encoding: identity\r\n" E REST), 400},
    {"TE gzip, chunked", SLICE_INIT(P "Transfer-Encoding: gzip, chunked\r\n" E REST), 400},
    {"TE chunked, chunked", SLICE_INIT(P "Transfer-Encoding: chunked, chunked\r\n" E REST), 400},
    {"TE chunked, identity", SLICE_INIT(P "Transfer-Encoding: chunked, identity\r\n" E REST), 400},
    {"TE xchunked", SLICE_INIT(P "Transfer-Encoding: xchunked\r\n" E REST), 400},
    {"TE chunked;x", SLICE_INIT(P "Transfer-Encoding: chunked;q=1\r\n" E REST), 400},
    {"TE quoted", SLICE_INIT(P "Transfer-Encoding: \"chunked\"\r\n" E REST), 400},
    {"TE comma", SLICE_INIT(P "Transfer-Encoding: ,chunked\r\n" E REST), 400},
    {"TE empty", SLICE_INIT(P "Transfer-Encoding:\r\n" E REST), 400},
    {"TE twice", SLICE_INIT(P TE TE E REST), 400},
    {"TE twice, one unknown", SLICE_INIT(P TE "Transfer-Encoding: cow\r\n" E REST), 400},
    {"TE on 1.0", SLICE_INIT("POST / HTTP/1.0\r\nHost: a\r\n" TE E REST), 400},
    {"Connection hides Content-Length", SLICE_INIT(P CL5 "Connection: Content-Length\r\n" E), 400},
    {"Connection hides TE", SLICE_INIT(P TE "Connection: close, transfer-encoding\r\n" E), 400},
    /* chunks */
    {"chunk size with 0x", SLICE_INIT(P TE E "0x5\r\nhello\r\n0\r\n\r\n"), 400},
    {"chunk size negative", SLICE_INIT(P TE E "-5\r\nhello\r\n0\r\n\r\n"), 400},
    {"chunk size plus", SLICE_INIT(P TE E "+5\r\nhello\r\n0\r\n\r\n"), 400},
    {"chunk size empty", SLICE_INIT(P TE E "\r\nhello\r\n0\r\n\r\n"), 400},
    {"chunk size space before", SLICE_INIT(P TE E " 5\r\nhello\r\n0\r\n\r\n"), 400},
    {"chunk size space behind", SLICE_INIT(P TE E "5 \r\nhello\r\n0\r\n\r\n"), 400},
    {"chunk size no hex", SLICE_INIT(P TE E "g\r\nhello\r\n0\r\n\r\n"), 400},
    {"chunk size with underscore", SLICE_INIT(P TE E "1_0\r\nhello\r\n0\r\n\r\n"), 400},
    {"chunk size past 64 bits", SLICE_INIT(P TE E "10000000000000005\r\nhello\r\n0\r\n\r\n"), 400},
    {"chunk size of zeros", SLICE_INIT(P TE E "0000000000000000\r\n\r\n"), 400},
    {"chunk too large", SLICE_INIT(P TE E "3e9\r\n"), 413},
    {"chunks too large together", SLICE_INIT(P TE E "1\r\na\r\n3e8\r\n"), 413},
    {"chunk line LF", SLICE_INIT(P TE E "5\nhello\r\n0\r\n\r\n"), 400},
    {"chunk line CR", SLICE_INIT(P TE E "5\rhello\r\n0\r\n\r\n"), 400},
    {"chunk longer than said", SLICE_INIT(P TE E "5\r\nhelloX\r\n0\r\n\r\n"), 400},
    {"chunk ended by LF", SLICE_INIT(P TE E "5\r\nhello\n0\r\n\r\n"), 400},
    {"chunk ended by CR", SLICE_INIT(P TE E "5\r\nhello\r0\r\n\r\n"), 400},
    {"last chunk ended by LF", SLICE_INIT(P TE E "0\r\n\n"), 400},
    {"last chunk ended by CR X", SLICE_INIT(P TE E "0\r\n\rX"), 400},
    {"chunk extension with LF", SLICE_INIT(P TE E "5;a=b\nhello\r\n0\r\n\r\n"), 400},
    {"chunk extension with CR", SLICE_INIT(P TE E "5;a\rb\r\nhello\r\n0\r\n\r\n"), 400},
    {"chunk extension with NUL", SLICE_INIT(P TE E "5;a\0\r\nhello\r\n0\r\n\r\n"), 400},
    {"bad extension, then bad size", SLICE_INIT(P TE E "5;==b\r\nhello\r\nx\r\n"), 400},
    {"trailer folded", SLICE_INIT(P TE E "0\r\nX: a\r\n b\r\n\r\n"), 400},
    {"trailer without colon", SLICE_INIT(P TE E "0\r\nX\r\n\r\n"), 400},
    {"trailer with an empty name", SLICE_INIT(P TE E "0\r\n: a\r\n\r\n"), 400},
    {"trailer with a space in its name", SLICE_INIT(P TE E "0\r\nX : a\r\n\r\n"), 400},
    {"trailer with LF", SLICE_INIT(P TE E "0\r\nX: a\n\r\n"), 400},
    {"trailer with NUL", SLICE_INIT(P TE E "0\r\nX: \0\r\n\r\n"), 400},
};

static const struct payload good[] = {
    {"plain", SLICE_INIT(G E), GOOD},
    {"one empty line first", SLICE_INIT("\r\n" G E), GOOD},
    {"two empty lines first", SLICE_INIT("\r\n\r\n" G E), GOOD},
    {"1.0 without Host", SLICE_INIT("GET / HTTP/1.0\r\n\r\n"), GOOD},
    {"no space before the value", SLICE_INIT("GET / HTTP/1.1\r\nHost:a\r\n\r\n"), GOOD},
    {"white space around the value", SLICE_INIT("GET / HTTP/1.1\r\nHost: \ta \t\r\n\r\n"), GOOD},
    {"an empty value", SLICE_INIT(G "X:\r\n\r\n"), GOOD},
    {"a tab inside a value", SLICE_INIT(G "X: a\tb\r\n\r\n"), GOOD},
    {"UTF-8 in a value", SLICE_INIT(G "X: caf\xc3\xa9\r\n\r\n"), GOOD},
    {"all token characters", SLICE_INIT(G "!#$%&'*+-.^_`|~09azAZ: x\r\n\r\n"), GOOD},
    {"an underscore elsewhere", SLICE_INIT(G "X_Trace_Id: x\r\n\r\n"), GOOD},
    {"IPv6 Host", SLICE_INIT("GET / HTTP/1.1\r\nHost: [::1]:8080\r\n\r\n"), GOOD},
    {"Host with port", SLICE_INIT("GET / HTTP/1.1\r\nHost: a.b-c.example:65535\r\n\r\n"), GOOD},
    {"URL as target", SLICE_INIT("GET http://A/x?y HTTP/1.1\r\nHost: a\r\n\r\n"), GOOD},
    {"OPTIONS *", SLICE_INIT("OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n"), GOOD},
    {"query", SLICE_INIT("GET /a?b={c}|d&e=%20f+g'()*,;:@ HTTP/1.1\r\nHost: a\r\n\r\n"), GOOD},
    {"body", SLICE_INIT(P CL5 E "hello"), GOOD},
    {"body and the next request", SLICE_INIT(P CL5 E "helloGET / HTTP/1.1\r\n"), GOOD},
    {"empty body", SLICE_INIT(P "Content-Length: 0\r\n" E), GOOD},
    {"zeros before the length", SLICE_INIT(P "Content-Length: 0005\r\n" E "hello"), GOOD},
    {"chunks", SLICE_INIT(P TE E "5\r\nhello\r\nA\r\n0123456789\r\n0\r\n\r\nGET"), GOOD},
    {"chunked in capitals", SLICE_INIT(P "TRANSFER-ENCODING: CHUNKED\r\n" E "0\r\n\r\n"), GOOD},
    {"chunk extensions", SLICE_INIT(P TE E "5;a=b;c\r\nhello\r\n0;d=\"e f\"\r\n\r\n"), GOOD},
    {"trailers", SLICE_INIT(P TE E "5\r\nhello\r\n0\r\nX: a\r\nY:b\r\n\r\n"), GOOD},
    {"zeros before a chunk size", SLICE_INIT(P TE E "005\r\nhello\r\n000\r\n\r\n"), GOOD},
    {"the largest body", SLICE_INIT(P TE E "3e8\r\n"), UNFINISHED},
    {"upgrade is ignored",
     SLICE_INIT(G "Connection: upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\n\r\n"), GOOD},
    {"upgrade with a body",
     SLICE_INIT(P "Connection: upgrade\r\nUpgrade: websocket\r\n" CL5 E "hello"), GOOD},
    {"unfinished head", SLICE_INIT(G), UNFINISHED},
    {"unfinished body", SLICE_INIT(P CL5 E "hell"), UNFINISHED},
    {"unfinished chunk", SLICE_INIT(P TE E "5\r\nhello\r\n0\r\n"), UNFINISHED},
};

#define R "HTTP/1.1 200 OK\r\n"

static const struct payload responses[] = {
    {"plain", SLICE_INIT(R CL5 E "hello"), GOOD},
    {"no reason", SLICE_INIT("HTTP/1.1 200\r\n" CL5 E "hello"), GOOD},
    {"empty reason", SLICE_INIT("HTTP/1.1 200 \r\n" CL5 E "hello"), GOOD},
    {"no body", SLICE_INIT("HTTP/1.1 204 No Content\r\n\r\n"), GOOD},
    {"304 with a length", SLICE_INIT("HTTP/1.1 304 Not Modified\r\n" CL5 E), GOOD},
    {"chunked", SLICE_INIT(R TE E "5\r\nhello\r\n0\r\n\r\n"), GOOD},
    {"until close", SLICE_INIT(R E "hello"), UNFINISHED},
    {"CL and TE", SLICE_INIT(R CL5 TE E "0\r\n\r\n"), 400},
    {"CL twice", SLICE_INIT(R CL5 CL5 E "hello"), 400},
    {"bare LF", SLICE_INIT("HTTP/1.1 200 OK\nContent-Length: 5\r\n\r\nhello"), 400},
    {"folded", SLICE_INIT(R "X: a\r\n b\r\n" CL5 E "hello"), 400},
    {"NUL", SLICE_INIT(R "X: \0\r\n" CL5 E "hello"), 400},
    {"empty line first", SLICE_INIT("\r\n" R CL5 E "hello"), 400},
    {"status of two digits", SLICE_INIT("HTTP/1.1 20 OK\r\n\r\n"), 400},
    {"status 600", SLICE_INIT("HTTP/1.1 600 No\r\n\r\n"), 400},
    {"no status", SLICE_INIT("HTTP/1.1\r\n\r\n"), 400},
    {"HTTP/2.0", SLICE_INIT("HTTP/2.0 200 OK\r\n\r\n"), 505},
    {"TE gzip", SLICE_INIT(R "Transfer-Encoding: gzip\r\n" E), 400},
    {"chunked 204", SLICE_INIT("HTTP/1.1 204 No Content\r\n" TE E), 400},
};

static void attacks_are_refused_however_they_arrive(void **state)
{
    (void)state;
    assert_true(ARRAY_LEN(attacks) >= 80);
    for (size_t i = 0; i < ARRAY_LEN(attacks); i++)
        expect(HTTP_HEAD_REQUEST, attacks[i].name, attacks[i].bytes, attacks[i].status);
    assert_int_equal(mem_live_blocks(), 0);
}

static void good_requests_pass(void **state)
{
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(good); i++)
        expect(HTTP_HEAD_REQUEST, good[i].name, good[i].bytes, good[i].status);
    assert_int_equal(mem_live_blocks(), 0);
}

static void responses_are_judged_too(void **state)
{
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(responses); i++)
        expect(HTTP_HEAD_RESPONSE, responses[i].name, responses[i].bytes, responses[i].status);
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
        expect(HTTP_HEAD_REQUEST, "long target", buf_slice(&text), over ? 414 : GOOD);

        buf_clear(&text); /* head */
        buf_append_cstr(&text, "GET / HTTP/1.1\r\nHost: a\r\nX: ");
        fill(&text, limits.head_bytes_max - text.len - 4 + over);
        buf_append_cstr(&text, "\r\n\r\n");
        assert_int_equal(text.len, limits.head_bytes_max + over);
        expect(HTTP_HEAD_REQUEST, "long head", buf_slice(&text), over ? 431 : GOOD);

        buf_clear(&text); /* fields */
        buf_append_cstr(&text, "GET / HTTP/1.1\r\nHost: a\r\n");
        for (size_t i = 1; i < HEADERS_MAX + over; i++)
            buf_append_cstr(&text, "X: a\r\n");
        buf_append_cstr(&text, "\r\n");
        expect(HTTP_HEAD_REQUEST, "many fields", buf_slice(&text), over ? 431 : GOOD);

        buf_clear(&text); /* chunk extensions */
        buf_append_cstr(&text, P TE E "1;");
        fill(&text, HTTP_CHUNK_EXT_BYTES_MAX + over);
        buf_append_cstr(&text, "\r\na\r\n0\r\n\r\n");
        expect(HTTP_HEAD_REQUEST, "long extension", buf_slice(&text), over ? 400 : GOOD);
    }
    buf_clear(&text);
    buf_append_cstr(&text, P TE E "0\r\nX:");
    fill(&text, HTTP_TRAILER_BYTES_MAX);
    struct verdict verdict = judge(HTTP_HEAD_REQUEST, buf_slice(&text), text.len);
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

/* ---- what a good head says ---- */

static struct http_head check(const char *text, struct http_header headers[HEADERS_MAX])
{
    struct http_head head;
    struct http_problem problem;
    if (!http_head_check(slice_cstr(text), HTTP_HEAD_REQUEST, HTTP_METHOD_OTHER, headers,
                         HEADERS_MAX, &head, &problem))
        fail_msg("%s: %s", text, problem.text);
    return head;
}

static void assert_slice(slice got, const char *want)
{
    if (!slice_eq_cstr(got, want))
        fail_msg("\"%.*s\" is not \"%s\"", SLICE_ARG(got), want);
}

static void a_head_is_read(void **state)
{
    (void)state;
    struct http_header headers[HEADERS_MAX];
    struct http_head head = check("POST /a/b%20c?x=1&y HTTP/1.1\r\nHost: Example.org:80\r\n"
                                  "X-One:  two three \t\r\nContent-Length: 12\r\n\r\n",
                                  headers);
    assert_int_equal(head.method, HTTP_METHOD_POST);
    assert_slice(head.target, "/a/b%20c?x=1&y");
    assert_slice(head.path, "/a/b%20c");
    assert_slice(head.query, "x=1&y");
    assert_slice(head.host, "Example.org:80");
    assert_int_equal(head.version_minor, 1);
    assert_int_equal(head.framing, HTTP_FRAMING_LENGTH);
    assert_int_equal(head.content_length, 12);
    assert_true(head.is_keep_alive && !head.expects_continue && !head.is_upgrade);
    assert_int_equal(head.header_count, 3);
    assert_slice(http_header_get(headers, 3, SLICE("x-oNE")), "two three");
    assert_null(http_header_get(headers, 3, SLICE("x-on")).ptr);
    head = check("GET http://a HTTP/1.1\r\nHost: A\r\n\r\n", headers);
    assert_slice(head.path, "/");
    head = check("GET http://a?b HTTP/1.1\r\nHost: A\r\n\r\n", headers);
    assert_slice(head.path, "/");
    assert_slice(head.query, "b");
    assert_slice(head.host, "a");
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
    reader_init(&reader, HTTP_HEAD_REQUEST);
    feed(&reader, SLICE(P TE E "5;x\r\nhello\r\n7\r\n, world\r\n0\r\nX: y\r\n\r\nnext"));
    assert_int_equal(reader.status, GOOD);
    assert_slice(buf_slice(&reader.body), "hello, world");
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
    assert_slice(http_media_type(SLICE(" application/json ; charset=utf-8")), "application/json");
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
    assert_slice(buf_slice(&out), "Accept-Encoding: gzip;q=1, br ,x\r\n");
    buf_deinit(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(attacks_are_refused_however_they_arrive),
        cmocka_unit_test(good_requests_pass),
        cmocka_unit_test(responses_are_judged_too),
        cmocka_unit_test(limits_hold_to_the_byte),
        cmocka_unit_test(framing_may_not_dwarf_its_body),
        cmocka_unit_test(a_head_is_read),
        cmocka_unit_test(keep_alive_follows_version_and_connection),
        cmocka_unit_test(expectations_are_found),
        cmocka_unit_test(bodies_are_decoded),
        cmocka_unit_test(values_that_split_messages_are_found),
    };
    int failed = cmocka_run_group_tests_name("http/head", tests, NULL, NULL);
    return failed ? failed : mem_live_blocks() != 0;
}
