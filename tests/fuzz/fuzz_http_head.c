/*
 * Any bytes as an HTTP message, in any pieces: there is one verdict, no byte is read past its
 * piece, and an accepted message contains nothing that a second parser could read in another way.
 * The first byte says whether it is a request (even) or a response, and where the bytes are split.
 */
#include <stdlib.h>

#include "base/buf.h"
#include "base/mem.h"
#include "http/head.h"
#include "http/parser.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { HEADERS_MAX = 20, BODY_MAX = 4096, INPUT_MAX = 8192, GOOD = 0, UNFINISHED = 1 };

static const struct http_head_limits limits = {2048, 512, HEADERS_MAX};

static void check(bool is_fine)
{
    if (!is_fine)
        abort();
}

struct outcome {
    unsigned status;
    const char *text;
    size_t used, body_len;
};

struct reader {
    struct http_head_scan scan;
    struct http_chunk_scan chunk;
    struct http_parser parser;
    struct http_header headers[HEADERS_MAX];
    struct http_head head;
    struct buf raw;
    uint64_t left;
    bool has_head;
    struct outcome outcome;
};

static bool on_body(struct http_parser *parser, slice bytes)
{
    CONTAINER_OF(parser, struct reader, parser)->outcome.body_len += bytes.len;
    return true;
}

static void refuse(struct reader *reader, struct http_problem problem)
{
    check(problem.status >= 400 && problem.status <= 505 && problem.text);
    reader->outcome.status = problem.status;
    reader->outcome.text = problem.text;
}

static void feed_parser(struct reader *reader, slice bytes)
{
    if (http_parser_feed(&reader->parser, bytes) != OK)
        refuse(reader, (struct http_problem){400, "llhttp"});
}

/* Checks that an accepted message is as strict as the parser promises. */
static void check_head(const struct reader *reader)
{
    const struct http_head *head = &reader->head;
    size_t lengths = http_header_count(head->headers, head->header_count, SLICE("Content-Length"));
    size_t codings =
        http_header_count(head->headers, head->header_count, SLICE("Transfer-Encoding"));
    check(lengths + codings <= 1);
    check(slice_find_char(buf_slice(&reader->raw), 0) < 0);
    for (size_t i = 0; i < head->header_count; i++)
        check(http_is_token(head->headers[i].name) && http_is_field_value(head->headers[i].value));
    size_t hosts = http_header_count(head->headers, head->header_count, SLICE("Host"));
    check(head->version_minor == 1 ? hosts == 1 : hosts <= 1);
    check(http_is_visible(head->target) && head->path.len > 0);
    check((head->path.ptr[0] == '/') != slice_eq_cstr(head->path, "*"));
    check(head->method != HTTP_METHOD_OTHER);
}

static void read_head(struct reader *reader)
{
    struct http_problem problem;
    reader->has_head = true;
    if (!http_head_check(buf_slice(&reader->raw), reader->headers, HEADERS_MAX, &reader->head,
                         &problem)) {
        refuse(reader, problem);
        return;
    }
    check_head(reader);
    http_parser_init(&reader->parser, &reader->head, on_body);
    feed_parser(reader, buf_slice(&reader->raw));
    http_chunk_scan_init(&reader->chunk, BODY_MAX);
    reader->left = reader->head.content_length;
    bool has_body = reader->head.framing > HTTP_FRAMING_LENGTH ||
                    (reader->head.framing == HTTP_FRAMING_LENGTH && reader->left);
    if (reader->outcome.status == UNFINISHED && !has_body)
        reader->outcome.status = GOOD;
}

static size_t feed_body(struct reader *reader, slice bytes)
{
    size_t used = bytes.len;
    bool is_done = false;
    if (reader->head.framing == HTTP_FRAMING_CHUNKED) {
        enum http_scan scan = http_chunk_scan(&reader->chunk, bytes, &used);
        if (scan == HTTP_SCAN_BAD) {
            feed_parser(reader, slice_first(bytes, used - 1));
            if (reader->outcome.status == UNFINISHED)
                refuse(reader, reader->chunk.problem);
            return used;
        }
        is_done = scan == HTTP_SCAN_DONE;
    } else if (reader->head.framing == HTTP_FRAMING_LENGTH) {
        used = bytes.len < reader->left ? bytes.len : (size_t)reader->left;
        reader->left -= used;
        is_done = reader->left == 0;
    }
    feed_parser(reader, slice_first(bytes, used));
    if (is_done && reader->outcome.status == UNFINISHED) {
        reader->outcome.status = GOOD;
        check(reader->parser.is_complete); /* both find the same end */
        check(reader->outcome.body_len <= BODY_MAX || reader->head.framing == HTTP_FRAMING_LENGTH);
    }
    return used;
}

static void feed(struct reader *reader, slice bytes)
{
    while (bytes.len && reader->outcome.status == UNFINISHED) {
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
        check(used <= bytes.len);
        reader->outcome.used += used;
        bytes = slice_from(bytes, used);
    }
}

/* Parses the bytes in pieces of `step`, each in its own block. */
static struct outcome judge(slice bytes, size_t step)
{
    struct reader *reader = mem_zalloc(sizeof(*reader));
    check(reader != NULL);
    reader->outcome.status = UNFINISHED;
    http_head_scan_init(&reader->scan, &limits);
    buf_init(&reader->raw, INPUT_MAX);
    while (bytes.len && reader->outcome.status == UNFINISHED) {
        slice piece = slice_first(bytes, step);
        char *copy = mem_strndup(piece.ptr, piece.len);
        feed(reader, slice_of(copy, piece.len));
        mem_free(copy);
        bytes = slice_from(bytes, step);
    }
    struct outcome outcome = reader->outcome;
    buf_deinit(&reader->raw);
    mem_free(reader);
    return outcome;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 2 || size > INPUT_MAX)
        return 0;
    slice bytes = slice_of(data + 1, size - 1);
    struct outcome whole = judge(bytes, bytes.len);
    const size_t steps[] = {1, 2 + data[0] / 2u, bytes.len / 2 + 1};
    for (size_t i = 0; i < ARRAY_LEN(steps); i++) {
        struct outcome pieces = judge(bytes, steps[i]);
        check(pieces.status == whole.status && pieces.text == whole.text);
        check(whole.status != GOOD ||
              (pieces.used == whole.used && pieces.body_len == whole.body_len));
    }
    check(mem_live_blocks() == 0);
    return 0;
}
