/*
 * chunk: the raw check of chunked framing (RFC 9112 7.1): sizes, extensions and trailers are
 * bounded, every line ends in CRLF, and anything that parsers read differently is refused. Finds
 * the body's last byte.
 *
 * The byte after it belongs to the next request, so two parsers that disagree about the end of a
 * body allow request smuggling. That is why bare LF, spaces around a size and a sign are refused
 * here, although many parsers accept them. llhttp gets each byte only after this scan has accepted
 * it.
 */
#include "http/head.h"

#include "base/ascii.h"

/* A size has at most 60 bits, so chunk_left * 16 below cannot overflow. */
enum { SIZE_DIGITS_MAX = 15 };

enum chunk_state {
    IN_SIZE,
    IN_EXT,
    AFTER_SIZE_CR,
    IN_DATA,
    AFTER_DATA,
    AFTER_DATA_CR,
    AT_TRAILER, /* after the last chunk, at the beginning of a line */
    IN_NAME,
    IN_VALUE,
    AFTER_TRAILER_CR,
    AFTER_LAST_CR,
};

void http_chunk_scan_init(struct http_chunk_scan *scan, uint64_t body_bytes_max)
{
    /* The limit on overhead is proportional to the largest body allowed, so that a large body may
     * come in small chunks; the minimum is for small limits. */
    uint64_t share = body_bytes_max / 4;
    *scan = (struct http_chunk_scan){
        .body_bytes_max = body_bytes_max,
        .overhead_bytes_max = share > HTTP_CHUNK_OVERHEAD_BYTES_MAX ? share
                                                                    : HTTP_CHUNK_OVERHEAD_BYTES_MAX,
    };
}

static enum http_scan refuse_chunk(struct http_chunk_scan *scan, unsigned status, const char *text)
{
    scan->problem = (struct http_problem){status, text};
    return HTTP_SCAN_BAD;
}

static enum http_scan enter_chunk_state(struct http_chunk_scan *scan, enum chunk_state state)
{
    scan->state = (uint8_t)state;
    return HTTP_SCAN_MORE;
}

static enum http_scan scan_size(struct http_chunk_scan *scan, unsigned char c)
{
    int digit = ascii_hex_value(c);
    if (digit >= 0) {
        /* Leading zeros count as digits; otherwise a size could have any length. */
        if (++scan->digits > SIZE_DIGITS_MAX)
            return refuse_chunk(scan, 400, "a chunk size is too long");
        scan->chunk_left = scan->chunk_left * 16 + (uint64_t)digit;
        return HTTP_SCAN_MORE;
    }
    if (scan->digits == 0 || (c != '\r' && c != ';'))
        return refuse_chunk(scan, 400, "a chunk size is not a number");
    /* A chunk is checked when it is announced, before a byte of it is read. The subtraction cannot
     * wrap: body_bytes never exceeds its maximum. */
    if (scan->chunk_left > scan->body_bytes_max - scan->body_bytes)
        return refuse_chunk(scan, 413, "the body is too large");
    scan->body_bytes += scan->chunk_left;
    scan->line_bytes = 0;
    return enter_chunk_state(scan, c == ';' ? IN_EXT : AFTER_SIZE_CR);
}

/* Reads the text of an extension or of a trailer's value. */
static enum http_scan scan_text(struct http_chunk_scan *scan, unsigned char c, uint32_t bytes_max,
                                enum chunk_state after_cr)
{
    if (c == '\r')
        return enter_chunk_state(scan, after_cr);
    /* A bare LF is below the space, so it is refused here; some parsers end the line with it. */
    if ((c < ' ' && c != '\t') || c == 0x7f)
        return refuse_chunk(scan, 400, "a control character in chunked framing");
    if (++scan->line_bytes > bytes_max)
        return refuse_chunk(scan, 400, "chunk extensions or trailers are too long");
    return HTTP_SCAN_MORE;
}

static enum http_scan scan_line_feed(struct http_chunk_scan *scan, unsigned char c)
{
    if (c != '\n')
        return refuse_chunk(scan, 400, "a CR without LF in chunked framing");
    switch ((enum chunk_state)scan->state) {
    case AFTER_SIZE_CR:
        scan->line_bytes = 0;
        /* A chunk of size 0 is the last one (RFC 9112 7.1.1); trailers or the empty line follow. */
        return enter_chunk_state(scan, scan->chunk_left ? IN_DATA : AT_TRAILER);
    case AFTER_DATA_CR:
        scan->digits = 0;
        return enter_chunk_state(scan, IN_SIZE);
    case AFTER_TRAILER_CR:
        return enter_chunk_state(scan, AT_TRAILER);
    default:
        ASSERT(scan->state == AFTER_LAST_CR);
        return HTTP_SCAN_DONE;
    }
}

static enum http_scan scan_trailer(struct http_chunk_scan *scan, unsigned char c)
{
    char name = (char)c;
    bool is_first = scan->state == AT_TRAILER;
    if (is_first && c == '\r')
        return enter_chunk_state(scan, AFTER_LAST_CR);
    if (!is_first && c == ':')
        return enter_chunk_state(scan, IN_VALUE);
    /* Also refuses white space at the beginning of a line, which would continue the line before
     * (obsolete folding, RFC 9112 5.2). */
    if (!http_is_token(slice_of(&name, 1)))
        return refuse_chunk(scan, 400, "a trailer's name is not a token");
    if (++scan->line_bytes > HTTP_TRAILER_BYTES_MAX)
        return refuse_chunk(scan, 400, "chunk extensions or trailers are too long");
    return enter_chunk_state(scan, IN_NAME);
}

static enum http_scan scan_byte(struct http_chunk_scan *scan, unsigned char c)
{
    switch ((enum chunk_state)scan->state) {
    case IN_SIZE:
        return scan_size(scan, c);
    case IN_EXT:
        return scan_text(scan, c, HTTP_CHUNK_EXT_BYTES_MAX, AFTER_SIZE_CR);
    case AFTER_DATA:
        return c == '\r' ? enter_chunk_state(scan, AFTER_DATA_CR)
                         : refuse_chunk(scan, 400, "a chunk is longer than its size says");
    case AT_TRAILER:
    case IN_NAME:
        return scan_trailer(scan, c);
    case IN_VALUE:
        return scan_text(scan, c, HTTP_TRAILER_BYTES_MAX, AFTER_TRAILER_CR);
    default:
        return scan_line_feed(scan, c);
    }
}

static size_t skip_data(struct http_chunk_scan *scan, size_t len)
{
    size_t count = len < scan->chunk_left ? len : (size_t)scan->chunk_left;
    scan->chunk_left -= count;
    if (scan->chunk_left == 0)
        scan->state = AFTER_DATA;
    return count;
}

enum http_scan http_chunk_scan(struct http_chunk_scan *scan, slice bytes, size_t *used)
{
    ASSERT(!scan->problem.status);
    enum http_scan result = HTTP_SCAN_MORE;
    size_t at = 0;
    while (at < bytes.len && result == HTTP_SCAN_MORE) {
        /* Runs of data are skipped; only the framing is read byte by byte. */
        if (scan->state == IN_DATA) {
            at += skip_data(scan, bytes.len - at);
            continue;
        }
        result = scan_byte(scan, (unsigned char)bytes.ptr[at++]);
        /* A body of one-byte chunks, each with a long extension, costs much work for little data
         * (CVE-2023-39326). The limit prevents it. */
        if (++scan->overhead_bytes > scan->overhead_bytes_max && result == HTTP_SCAN_MORE)
            result = refuse_chunk(scan, 400, "too much chunked framing for its body");
    }
    *used = at;
    return result;
}
