/*
 * message: methods, statuses, header lookup and the grammar checks of http/message.h. Lookups are
 * linear: a head has at most some hundred fields, usually about ten, and is searched a few times.
 */
#include "http/message.h"

#include <stdint.h>

static const slice method_texts[HTTP_METHODS] = {
    [HTTP_METHOD_OTHER] = SLICE_INIT(""),        [HTTP_METHOD_GET] = SLICE_INIT("GET"),
    [HTTP_METHOD_HEAD] = SLICE_INIT("HEAD"),     [HTTP_METHOD_POST] = SLICE_INIT("POST"),
    [HTTP_METHOD_PUT] = SLICE_INIT("PUT"),       [HTTP_METHOD_PATCH] = SLICE_INIT("PATCH"),
    [HTTP_METHOD_DELETE] = SLICE_INIT("DELETE"), [HTTP_METHOD_OPTIONS] = SLICE_INIT("OPTIONS"),
};

slice http_method_text(enum http_method method)
{
    ASSERT(method < HTTP_METHODS);
    return method_texts[method];
}

enum http_method http_method_parse(slice text)
{
    for (enum http_method method = HTTP_METHOD_GET; method < HTTP_METHODS; method++)
        if (slice_eq(text, method_texts[method]))
            return method;
    return HTTP_METHOD_OTHER;
}

/* RFC 9110 15, RFC 6585 and RFC 8470 (425). The most common ones come first, as the list is
 * searched in order. */
static const struct {
    unsigned status;
    const char *text;
} statuses[] = {
    {200, "OK"},
    {404, "Not Found"},
    {409, "Conflict"},
    {500, "Internal Server Error"},
    {100, "Continue"},
    {101, "Switching Protocols"},
    {201, "Created"},
    {202, "Accepted"},
    {203, "Non-Authoritative Information"},
    {204, "No Content"},
    {205, "Reset Content"},
    {206, "Partial Content"},
    {300, "Multiple Choices"},
    {301, "Moved Permanently"},
    {302, "Found"},
    {303, "See Other"},
    {304, "Not Modified"},
    {307, "Temporary Redirect"},
    {308, "Permanent Redirect"},
    {400, "Bad Request"},
    {401, "Unauthorized"},
    {402, "Payment Required"},
    {403, "Forbidden"},
    {405, "Method Not Allowed"},
    {406, "Not Acceptable"},
    {407, "Proxy Authentication Required"},
    {408, "Request Timeout"},
    {410, "Gone"},
    {411, "Length Required"},
    {412, "Precondition Failed"},
    {413, "Content Too Large"},
    {414, "URI Too Long"},
    {415, "Unsupported Media Type"},
    {416, "Range Not Satisfiable"},
    {417, "Expectation Failed"},
    {421, "Misdirected Request"},
    {422, "Unprocessable Content"},
    {425, "Too Early"},
    {426, "Upgrade Required"},
    {428, "Precondition Required"},
    {429, "Too Many Requests"},
    {431, "Request Header Fields Too Large"},
    {451, "Unavailable For Legal Reasons"},
    {501, "Not Implemented"},
    {502, "Bad Gateway"},
    {503, "Service Unavailable"},
    {504, "Gateway Timeout"},
    {505, "HTTP Version Not Supported"},
};

const char *http_status_text(unsigned status)
{
    for (size_t i = 0; i < ARRAY_LEN(statuses); i++)
        if (statuses[i].status == status)
            return statuses[i].text;
    return "Unknown";
}

slice http_header_get(const struct http_header *headers, size_t count, slice name)
{
    for (size_t i = 0; i < count; i++)
        if (slice_eq_nocase(headers[i].name, name))
            return headers[i].value;
    return SLICE_NONE;
}

size_t http_header_count(const struct http_header *headers, size_t count, slice name)
{
    size_t found = 0;
    for (size_t i = 0; i < count; i++)
        found += slice_eq_nocase(headers[i].name, name);
    return found;
}

bool http_header_has_token(const struct http_header *headers, size_t count, slice name, slice token)
{
    for (size_t i = 0; i < count; i++) {
        if (!slice_eq_nocase(headers[i].name, name))
            continue;
        slice list = headers[i].value;
        while (list.len) {
            slice item = slice_split(&list, ',');
            /* A token ends at ';': parameters, such as q in TE, do not matter here. */
            if (slice_eq_nocase(slice_trim(slice_split(&item, ';')), token))
                return true;
        }
    }
    return false;
}

bool http_is_token(slice text)
{
    /* t marks a character of a token: a letter, a digit or one of !#$%&'*+-.^_`|~ */
    static const char classes[] = "                                "
                                  " t ttttt  tt tt tttttttttt      "
                                  " tttttttttttttttttttttttttt   tt"
                                  "ttttttttttttttttttttttttttt t t ";
    for (size_t i = 0; i < text.len; i++) {
        unsigned char c = (unsigned char)text.ptr[i];
        if (c >= 0x80 || classes[c] != 't')
            return false;
    }
    return text.len > 0;
}

bool http_is_field_value(slice text)
{
    for (size_t i = slice_printable(text, ' '); i < text.len; i++) {
        unsigned char c = (unsigned char)text.ptr[i];
        if ((c < ' ' && c != '\t') || c == 0x7f)
            return false;
    }
    /* A reader would remove white space around a value, and would not see the value as it was
     * sent. */
    return text.len == slice_trim(text).len;
}

bool http_is_visible(slice text)
{
    return text.len > 0 && slice_printable(text, '!') == text.len;
}

slice http_media_type(slice value)
{
    return slice_trim(slice_split(&value, ';'));
}

void http_header_write(struct buf *out, struct http_header header)
{
    /* The caller has checked the header (request_check, values_are_good). A CR or LF here would
     * split the message. */
    ASSERT(http_is_token(header.name) && http_is_field_value(header.value));
    buf_append(out, header.name);
    buf_append(out, SLICE(": "));
    buf_append(out, header.value);
    buf_append(out, SLICE("\r\n"));
}
