/*
 * head_scan: step 1 of the check of a head: its end and its line structure. It reads byte by byte
 * with a few counters, so that the result does not depend on how the bytes arrive. It stores none
 * of the bytes: a client that sends its head slowly costs this struct, not a buffer.
 */
#include "http/head.h"

enum {
    /* The longest registered method has 17 letters (UPDATEREDIRECTREF). */
    METHOD_BYTES_MAX = 32,
    EMPTY_LINES_MAX = 2, /* RFC 9112 2.2: a robust server ignores some empty lines before a
                          * request line */
};

enum scan_state {
    AT_START,   /* nothing but empty lines so far */
    IN_START,   /* the start line */
    AT_LINE,    /* the first byte of a header line */
    IN_LINE,    /* a header line */
    AFTER_CR,   /* only LF may follow; ends a line */
    AFTER_LAST, /* only LF may follow; ends the head */
    AFTER_EMPTY /* only LF may follow; ends an empty line before the start line */
};

void http_head_scan_init(struct http_head_scan *scan, const struct http_head_limits *limits)
{
    ASSERT(limits->head_bytes_max > 0 && limits->headers_max > 0);
    *scan = (struct http_head_scan){.limits = *limits};
}

static enum http_scan refuse_scan(struct http_head_scan *scan, unsigned status, const char *text)
{
    scan->problem = (struct http_problem){status, text};
    return HTTP_SCAN_BAD;
}

static enum http_scan bad_control(struct http_head_scan *scan, unsigned char c)
{
    /* A bare LF: RFC 9112 2.2 lets a recipient treat it as the end of a line, so different
     * parsers may see different heads. */
    if (c == '\n')
        return refuse_scan(scan, 400, "a line of the head ends without CR");
    if (c == 0)
        return refuse_scan(scan, 400, "a NUL byte in the head");
    return refuse_scan(scan, 400, "a control character in the head");
}

static enum http_scan scan_start_line(struct http_head_scan *scan, unsigned char c)
{
    if (c == '\r') {
        scan->state = AFTER_CR;
        return HTTP_SCAN_MORE;
    }
    /* RFC 9112 3 lets a parser split at tabs; this one, and those in front of it, must agree on
     * single spaces. */
    if (c == '\t')
        return refuse_scan(scan, 400, "a tab in the request line");
    if (c < ' ' || c == 0x7f)
        return bad_control(scan, c);
    if (c > 0x7f)
        return refuse_scan(scan, 400, "the request line has bytes that are not ASCII");
    if (c == ' ') {
        scan->token_bytes = 0;
        /* The counter saturates, so that a line of spaces cannot wrap it back to 1. */
        if (scan->spaces < UINT8_MAX)
            scan->spaces++;
        return HTTP_SCAN_MORE;
    }
    scan->token_bytes++;
    if (scan->spaces == 0 && scan->token_bytes > METHOD_BYTES_MAX)
        return refuse_scan(scan, 501, "the method is not known");
    /* The target is limited as it arrives, so that one that is too long is answered with 414, not
     * 431. */
    if (scan->spaces == 1 && scan->token_bytes > scan->limits.url_bytes_max)
        return refuse_scan(scan, 414, "the request target is too long");
    return HTTP_SCAN_MORE;
}

static enum http_scan scan_start(struct http_head_scan *scan, unsigned char c)
{
    if (c == '\r') {
        scan->state = AFTER_EMPTY;
        return HTTP_SCAN_MORE;
    }
    if (c == ' ')
        return refuse_scan(scan, 400, "the start line begins with a space");
    scan->state = IN_START;
    scan->lines = 0; /* until now, `lines` has counted empty lines */
    return scan_start_line(scan, c);
}

static enum http_scan scan_line(struct http_head_scan *scan, unsigned char c)
{
    if (c == '\r')
        scan->state = AFTER_CR;
    else if ((c < ' ' && c != '\t') || c == 0x7f)
        return bad_control(scan, c);
    return HTTP_SCAN_MORE;
}

static enum http_scan scan_line_begin(struct http_head_scan *scan, unsigned char c)
{
    if (c == '\r') {
        scan->state = AFTER_LAST;
        return HTTP_SCAN_MORE;
    }
    /* Obsolete line folding (RFC 9112 5.2): some parsers join the lines, others see a new field. */
    if (c == ' ' || c == '\t')
        return refuse_scan(scan, 400, "a header line begins with white space");
    if (scan->lines > scan->limits.headers_max) /* the start line counts as one */
        return refuse_scan(scan, 431, "too many header fields");
    scan->state = IN_LINE;
    return scan_line(scan, c);
}

static enum http_scan scan_line_feed(struct http_head_scan *scan, unsigned char c)
{
    if (c != '\n')
        return refuse_scan(scan, 400, "a CR without LF in the head");
    if (scan->state == AFTER_LAST)
        return HTTP_SCAN_DONE;
    scan->lines++;
    if (scan->state == AFTER_EMPTY) {
        scan->state = AT_START;
        /* A client that sends only empty lines would be read forever. */
        return scan->lines > EMPTY_LINES_MAX ? refuse_scan(scan, 400, "empty lines before the head")
                                             : HTTP_SCAN_MORE;
    }
    scan->state = AT_LINE;
    return HTTP_SCAN_MORE;
}

static enum http_scan scan_byte(struct http_head_scan *scan, unsigned char c)
{
    switch ((enum scan_state)scan->state) {
    case AT_START:
        return scan_start(scan, c);
    case IN_START:
        return scan_start_line(scan, c);
    case AT_LINE:
        return scan_line_begin(scan, c);
    case IN_LINE:
        return scan_line(scan, c);
    case AFTER_CR:
    case AFTER_LAST:
    case AFTER_EMPTY:
        break;
    }
    return scan_line_feed(scan, c);
}

/* Returns how many bytes are plain text of a header line or of a token of the start line, as
 * most bytes are. */
static size_t plain_run(struct http_head_scan *scan, slice bytes)
{
    if (scan->state == IN_LINE)
        return slice_printable(bytes, ' ');
    if (scan->state != IN_START)
        return 0;
    /* The byte that makes a token too long is refused by scan_start_line. */
    uint32_t token_bytes_max = scan->spaces == 0   ? METHOD_BYTES_MAX
                               : scan->spaces == 1 ? scan->limits.url_bytes_max
                                                   : UINT32_MAX;
    size_t run = slice_printable(slice_first(bytes, token_bytes_max - scan->token_bytes), '!');
    scan->token_bytes += (uint32_t)run;
    return run;
}

enum http_scan http_head_scan(struct http_head_scan *scan, slice bytes, size_t *used)
{
    ASSERT(!scan->problem.status);
    /* room may be 0 here: any further byte is one too many. */
    uint32_t room = scan->limits.head_bytes_max - scan->bytes;
    size_t end = bytes.len < room ? bytes.len : room;
    enum http_scan result = HTTP_SCAN_MORE;
    size_t at = 0;
    while (at < end && result == HTTP_SCAN_MORE) {
        /* Skips runs of plain text without the state machine; a tab ends the run and goes
         * through it. */
        at += plain_run(scan, slice_of(bytes.ptr + at, end - at));
        if (at < end)
            result = scan_byte(scan, (unsigned char)bytes.ptr[at++]);
    }
    scan->bytes += (uint32_t)at;
    *used = at;
    /* The limit is reached, the head is incomplete, and there are more bytes. */
    if (result == HTTP_SCAN_MORE && end < bytes.len)
        return refuse_scan(scan, 431, "the head is too large");
    return result;
}
