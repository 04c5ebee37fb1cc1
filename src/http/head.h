/*
 * The strict check of the raw bytes of a head and of chunked framing, before llhttp sees them (RFC
 * 9112 11.2; every llhttp accepts some smuggling payloads). Two steps, so that any split of the
 * input gives the same verdict:
 *   1. http_head_scan finds the end of the head and refuses at once anything that breaks its line
 *      structure (CR without LF, LF without CR, control characters, folding, sizes); it needs no
 *      memory.
 *   2. http_head_check reads the complete, contiguous head: start line, names, Host, framing.
 * http_chunk_scan does the same for a chunked body and finds its last byte. Used for requests;
 * replies are checked in client_response.c.
 */
#ifndef HTTP_HEAD_H
#define HTTP_HEAD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/slice.h"
#include "http/message.h"

struct http_head_limits {
    /* maximum size of the head with the empty line; 431 if it is exceeded */
    uint32_t head_bytes_max;
    uint32_t url_bytes_max; /* maximum size of the request target; 414 if it is exceeded */
    uint32_t headers_max;   /* maximum number of fields; 431 if it is exceeded */
};

/* A refusal: the status to answer with (400, 414, 431, 501, 505) and a constant sentence. status 0:
 * no fault. */
struct http_problem {
    unsigned status;
    const char *text;
};

enum http_scan { HTTP_SCAN_MORE, HTTP_SCAN_DONE, HTTP_SCAN_BAD };

struct http_head_scan {
    struct http_head_limits limits;
    struct http_problem problem; /* set with HTTP_SCAN_BAD */
    uint32_t bytes;              /* bytes of this head so far */
    uint32_t lines;              /* complete lines so far, the start line included */
    uint32_t token_bytes;        /* length of the request line's current token */
    uint8_t state, spaces;
};

void http_head_scan_init(struct http_head_scan *scan, const struct http_head_limits *limits);
/* Reads the next bytes of the stream. Sets *used to the number of bytes that belong to the head:
 * all of them with MORE, those up to the end of the empty line with DONE. Empty lines (CRLF) before
 * a request line are counted as part of the head, two at most (RFC 9112 2.2). After DONE or BAD
 * call init again. */
enum http_scan http_head_scan(struct http_head_scan *scan, slice bytes, size_t *used);
/* Whether a byte of a head has arrived: if so, a time-out is answered with 408; otherwise the
 * peer was idle. */
static inline bool http_head_scan_has_begun(const struct http_head_scan *scan)
{
    return scan->bytes > 0;
}

enum http_framing {
    HTTP_FRAMING_NONE,   /* no body */
    HTTP_FRAMING_LENGTH, /* content_length bytes, may be 0 */
    HTTP_FRAMING_CHUNKED,
};

/* The contents of a valid head. Slices point into the head given to http_head_check. */
struct http_head {
    enum http_method method;
    slice method_text;
    slice target; /* as sent */
    slice path;   /* origin-form path without query, "*" for OPTIONS *; absolute-form is reduced */
    slice query;  /* after '?', SLICE_NONE if there is none */
    slice host;
    unsigned version_minor; /* 0 or 1 */
    struct http_header *headers;
    size_t header_count;
    enum http_framing framing;
    uint64_t content_length;
    bool is_keep_alive; /* by version and Connection */
    bool expects_continue;
    bool expects_other; /* an unknown expectation: 417 */
};

/* Checks head, the complete head that http_head_scan has found. headers has room for headers_max
 * entries and belongs to the caller. Returns false with *problem set if the head must be refused.
 * Needs no memory. */
bool http_head_check(slice head, struct http_header *headers, size_t headers_max,
                     struct http_head *out, struct http_problem *problem) MUST_CHECK;

enum {
    HTTP_CHUNK_EXT_BYTES_MAX = 256,          /* extensions of one chunk */
    HTTP_CHUNK_OVERHEAD_BYTES_MAX = 1 << 20, /* framing of one body: size lines and extensions;
                                                at least body_bytes_max / 4 is allowed as well */
    HTTP_TRAILER_BYTES_MAX = 8192,
};

struct http_chunk_scan {
    struct http_problem problem;
    uint64_t chunk_left; /* bytes of the current chunk */
    uint64_t body_bytes; /* length announced so far, including the current chunk */
    uint64_t body_bytes_max;
    uint64_t overhead_bytes, overhead_bytes_max;
    uint32_t line_bytes; /* length of the extensions, or of the trailer section */
    uint8_t state, digits;
};

void http_chunk_scan_init(struct http_chunk_scan *scan, uint64_t body_bytes_max);
/* *Sets *used to the number of bytes that belong to the body, its framing and trailers. DONE: the
 * body is complete. BAD with status 413: a chunk announced more than body_bytes_max allows. */
enum http_scan http_chunk_scan(struct http_chunk_scan *scan, slice bytes, size_t *used);

#endif
