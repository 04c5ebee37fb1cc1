/*
 * The parts of an HTTP/1.1 message that the server and the client share: methods, header fields,
 * status texts, and the grammar checks of RFC 9110 that keep sent messages well-formed. Owns
 * nothing: all slices are borrowed from the owner of the head.
 */
#ifndef HTTP_MESSAGE_H
#define HTTP_MESSAGE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "base/slice.h"

/* The names differ from llhttp's HTTP_GET ..., which this room also includes. */
enum http_method {
    HTTP_METHOD_OTHER, /* any other token; answered with 501 */
    HTTP_METHOD_GET,
    HTTP_METHOD_HEAD,
    HTTP_METHOD_POST,
    HTTP_METHOD_PUT,
    HTTP_METHOD_PATCH,
    HTTP_METHOD_DELETE,
    HTTP_METHOD_OPTIONS,
    HTTP_METHODS
};

struct http_header {
    slice name, value; /* value without the white space around it */
};

/* Returns the method's name, such as "GET"; "" for HTTP_METHOD_OTHER. */
slice http_method_text(enum http_method method);
/* Parses a method's name, which is case-sensitive. */
enum http_method http_method_parse(slice text);
/* Returns the reason phrase, such as "Not Found"; "Unknown" for a status that no RFC defines. */
const char *http_status_text(unsigned status);

/* Returns the first field with this name (ASCII case-insensitive), or SLICE_NONE if it is
 * absent. */
slice http_header_get(const struct http_header *headers, size_t count, slice name);
/* Returns the number of fields with this name. */
size_t http_header_count(const struct http_header *headers, size_t count, slice name);
/* Whether any field of that name, read as a comma-separated list, contains the token (ignoring case
 * and parameters after ';'): Connection, Transfer-Encoding, Accept-Encoding. */
bool http_header_has_token(const struct http_header *headers, size_t count, slice name,
                           slice token);

/* Whether text is a token of RFC 9110 5.6.2: one or more tchar. */
bool http_is_token(slice text);
/* Whether the text may be sent as a field value: visible ASCII and obs-text, with space and tab
 * only inside. An empty value is allowed. Refuses anything that could split a message. */
bool http_is_field_value(slice text);
/* Whether text is one or more visible ASCII characters (0x21 to 0x7e). */
bool http_is_visible(slice text);

/* Returns the media type of a Content-Type value, without parameters and white space:
 * "application/json" of "application/json; charset=utf-8". Borrowed from value. */
slice http_media_type(slice value);

/* Appends "Name: value\r\n". The caller has checked name and value. */
void http_header_write(struct buf *out, struct http_header header);

#endif
