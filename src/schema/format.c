/*
 * schema_format: the table of formats (JSON Schema Validation 7.3), and the short ones: uuid, JSON
 * pointers, regex. The last column is the cost of a check, in fuel a byte, as a format runs on text
 * of clients.
 */
#include "schema/format.h"

#include "base/ascii.h"
#include "schema/schema.h"
#include "schema/regex.h"

/* RFC 9562 4, any version and variant. */
static bool format_uuid(slice text)
{
    if (text.len != 36)
        return false;
    for (size_t i = 0; i < text.len; i++) {
        bool is_dash = i == 8 || i == 13 || i == 18 || i == 23;
        if (is_dash ? text.ptr[i] != '-' : !ascii_is_hex(text.ptr[i]))
            return false;
    }
    return true;
}

/* RFC 6901 3 */
static bool format_json_pointer(slice text)
{
    if (text.len > 0 && text.ptr[0] != '/')
        return false;
    /* A "~" must be followed by 0 or 1 (RFC 6901 3). */
    for (size_t i = 0; i < text.len; i++) {
        bool is_escape = i + 1 < text.len && (text.ptr[i + 1] == '0' || text.ptr[i + 1] == '1');
        if (text.ptr[i] == '~' && !is_escape)
            return false;
    }
    return true;
}

/* draft-bhutton-relative-json-pointer-00 3 */
static bool format_relative_json_pointer(slice text)
{
    size_t digits = 0;
    while (digits < text.len && ascii_is_digit(text.ptr[digits]))
        digits++;
    /* No leading zero: "01" is no number there. */
    if (digits == 0 || (digits > 1 && text.ptr[0] == '0'))
        return false;
    slice rest = slice_from(text, digits);
    return slice_eq(rest, SLICE("#")) || format_json_pointer(rest);
}

static bool format_regex(slice text)
{
    /* Only checked, not compiled: no memory is needed. */
    struct schema_regex_info info;
    return schema_regex_translate(text, NULL, &info, NULL) == OK;
}

static const struct schema_format formats[] = {
    {SLICE_INIT("date-time"), format_date_time, "2026-01-31T23:59:59Z", 3},
    {SLICE_INIT("date"), format_date, "2026-01-31", 3},
    {SLICE_INIT("time"), format_time, "23:59:59Z", 3},
    {SLICE_INIT("duration"), format_duration, "P1DT12H", 3},
    {SLICE_INIT("email"), format_email, "name@example.com", 3},
    {SLICE_INIT("idn-email"), format_idn_email, "name@example.com", 3},
    {SLICE_INIT("hostname"), format_hostname, "www.example.com", 3},
    {SLICE_INIT("idn-hostname"), format_idn_hostname, "www.example.com", 3},
    {SLICE_INIT("ipv4"), format_ipv4, "192.0.2.1", 3},
    {SLICE_INIT("ipv6"), format_ipv6, "2001:db8::1", 3},
    {SLICE_INIT("uri"), format_uri, "https://example.com/path", 3},
    {SLICE_INIT("uri-reference"), format_uri_reference, "/path?query", 3},
    {SLICE_INIT("iri"), format_iri, "https://example.com/path", 3},
    {SLICE_INIT("iri-reference"), format_iri_reference, "/path?query", 3},
    {SLICE_INIT("uri-template"), format_uri_template, "https://example.com/{id}", 3},
    {SLICE_INIT("uuid"), format_uuid, "2eb8aa08-aa98-11ea-b4aa-73b441d16380", 3},
    {SLICE_INIT("json-pointer"), format_json_pointer, "/items/0", 3},
    {SLICE_INIT("relative-json-pointer"), format_relative_json_pointer, "1/items", 3},
    {SLICE_INIT("regex"), format_regex, "^[a-z]+$", 40},
};

const struct schema_format *schema_format_find(slice name)
{
    for (size_t i = 0; i < ARRAY_LEN(formats); i++) {
        if (slice_eq(formats[i].name, name))
            return &formats[i];
    }
    return NULL;
}
