/*
 * schema_format: the formats of JSON Schema Validation 7.3. The formats most common in inputs are
 * functions over the text that build neither a time nor an address from it; the others are
 * patterns. They are stricter than resolvers (0x7f.1, 127.1): a format describes the text, not how
 * some library reads it. For URIs only the grammar is checked, not the rules of each scheme.
 */
#include "schema/format.h"

#include "base/ascii.h"
#include "base/ip.h"
#include "schema/regex.h"
#include "schema/uri.h"

/* RFC 1035 2.3.4: 255 bytes on the wire are 253 characters; a label has at most 63. */
enum {
    HOSTNAME_BYTES_MAX = 253,
    LABEL_BYTES_MAX = 63,
    LOCAL_PART_BYTES_MAX = 64,
};

/* ---- RFC 3339 5.6 ---- */

/* Reads a number at each run of d's in the form; all other characters match themselves. The
 * caller checks the rest of the text. */
static bool read_form(slice text, const char *form, int *numbers)
{
    *numbers = 0;
    for (size_t i = 0; form[i]; i++) {
        char c = i < text.len ? text.ptr[i] : '\0';
        if (form[i] == 'd' ? !ascii_is_digit(c) : c != form[i])
            return false;
        if (form[i] == 'd')
            *numbers = *numbers * 10 + (c - '0');
        else
            *++numbers = 0;
    }
    return true;
}

static bool format_date(slice text)
{
    /* February has 29 here; the year is checked below. */
    static const int days[] = {31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    int n[3];
    if (text.len != 10 || !read_form(text, "dddd-dd-dd", n) || n[1] < 1 || n[1] > 12 || n[2] < 1 ||
        n[2] > days[n[1] - 1])
        return false;
    bool is_leap_year = (n[0] % 4 == 0 && n[0] % 100 != 0) || n[0] % 400 == 0;
    return n[1] != 2 || n[2] != 29 || is_leap_year;
}

/* Reads text as "Z" or "+hh:mm"; *minutes is the offset east of Greenwich. */
static bool read_offset(slice text, int *minutes)
{
    int n[2];
    *minutes = 0;
    if (text.len == 1)
        return text.ptr[0] == 'Z' || text.ptr[0] == 'z';
    if (text.len != 6 || (text.ptr[0] != '+' && text.ptr[0] != '-') ||
        !read_form(slice_from(text, 1), "dd:dd", n) || n[0] > 23 || n[1] > 59)
        return false;
    *minutes = (n[0] * 60 + n[1]) * (text.ptr[0] == '+' ? 1 : -1);
    return true;
}

/* A leap second is the last second of a UTC day, whatever the offset. */
static bool is_leap_moment(int hour, int minute, int offset)
{
    const int day = 24 * 60;
    return ((hour * 60 + minute - offset) % day + day) % day == day - 1;
}

static bool format_time(slice text)
{
    int n[3], offset = 0;
    if (!read_form(text, "dd:dd:dd", n) || n[0] > 23 || n[1] > 59 || n[2] > 60)
        return false;
    text = slice_from(text, 8);
    if (text.len > 0 && text.ptr[0] == '.') {
        size_t digits = 0;
        while (1 + digits < text.len && ascii_is_digit(text.ptr[1 + digits]))
            digits++;
        if (digits == 0)
            return false;
        text = slice_from(text, 1 + digits);
    }
    /* 60 is allowed only where a leap second is possible (RFC 3339 5.7). */
    return read_offset(text, &offset) && (n[2] < 60 || is_leap_moment(n[0], n[1], offset));
}

static bool format_date_time(slice text)
{
    return text.len > 10 && (text.ptr[10] == 'T' || text.ptr[10] == 't') &&
           format_date(slice_first(text, 10)) && format_time(slice_from(text, 11));
}

/* ---- addresses ---- */

/* RFC 2673 3.2 */
static bool format_ipv4(slice text)
{
    uint8_t bytes[16];
    return ip_parse(text, bytes) == 4;
}

/* RFC 4291 2.2 */
static bool format_ipv6(slice text)
{
    uint8_t bytes[16];
    return ip_parse(text, bytes) == 16;
}

/* ---- hostname ---- */

/* RFC 5891 4.2.3.1 allows "--" in the third and fourth position only in an A-label, and RFC 3492
 * requires something decodable after "xn--"; the tables of code points are not checked. */
static bool is_plausible_a_label(slice label)
{
    slice code = slice_from(label, 4);
    ptrdiff_t last = -1;
    for (size_t i = 0; i < code.len; i++) {
        if (code.ptr[i] == '-')
            last = (ptrdiff_t)i;
    }
    /* The deltas follow the last hyphen: at least two digits for one character. */
    return code.len - (size_t)(last + 1) >= 2;
}

static bool is_label(slice label)
{
    if (label.len == 0 || label.len > LABEL_BYTES_MAX || label.ptr[0] == '-' ||
        label.ptr[label.len - 1] == '-')
        return false;
    for (size_t i = 0; i < label.len; i++) {
        if (!ascii_is_alnum(label.ptr[i]) && label.ptr[i] != '-')
            return false;
    }
    /* "--" in the third and fourth position is reserved for A-labels. */
    if (label.len < 4 || label.ptr[2] != '-' || label.ptr[3] != '-')
        return true;
    return slice_eq_nocase(slice_first(label, 2), SLICE("xn")) && is_plausible_a_label(label);
}

static bool format_hostname(slice text)
{
    /* In RFC 1123 2.1 a host name does not have the trailing dot of the root. */
    if (text.len == 0 || text.len > HOSTNAME_BYTES_MAX || text.ptr[text.len - 1] == '.')
        return false;
    /* slice_split sets ptr to NULL after the last label; an empty label between two dots is
     * refused. */
    while (text.ptr) {
        if (!is_label(slice_split(&text, '.')))
            return false;
    }
    return true;
}

/* Returns the length of the label separator at the start of text (RFC 3490 3.1): '.', or one of the
 * three wide full stops. Returns 0 if there is none. */
static size_t separator_len(slice text)
{
    static const slice stops[] = {SLICE_INIT("."), SLICE_INIT("\xE3\x80\x82"),
                                  SLICE_INIT("\xEF\xBC\x8E"), SLICE_INIT("\xEF\xBD\xA1")};
    for (size_t i = 0; i < ARRAY_LEN(stops); i++) {
        if (slice_starts_with(text, stops[i]))
            return stops[i].len;
    }
    return 0;
}

/* Checks only the form of a U-label: ASCII as in host names, no hyphen at either end, no "--" in
 * the third and fourth position, and the minimum size of its A-label: "xn--" and a digit for
 * each character that is not ASCII. */
static bool is_u_label(slice label)
{
    size_t wide = 0;
    size_t ascii = 0;
    for (size_t i = 0; i < label.len; i++) {
        unsigned char c = (unsigned char)label.ptr[i];
        if (c < 0x80 && !ascii_is_alnum((char)c) && c != '-')
            return false;
        ascii += c < 0x80;
        /* Bytes from 0xC0 on are lead bytes: one for each character that is not ASCII. */
        wide += c >= 0xC0;
    }
    if (wide == 0)
        return is_label(label);
    if (label.ptr[0] == '-' || label.ptr[label.len - 1] == '-')
        return false;
    /* An A-label begins with "xn--" and has at least one digit for each wide character. */
    return ascii + wide + 4 <= LABEL_BYTES_MAX &&
           !slice_starts_with(slice_from(label, 2), SLICE("--"));
}

/* RFC 5890, without the tables of code points and the context rules of RFC 5892. */
static bool format_idn_hostname(slice text)
{
    size_t start = 0;
    /* A character has up to four bytes; the exact count is checked below. */
    if (text.len == 0 || text.len > HOSTNAME_BYTES_MAX * 4 || !slice_is_utf8(text, NULL))
        return false;
    size_t characters = 0;
    for (size_t at = 0; at <= text.len; at++) {
        size_t stop = separator_len(slice_from(text, at));
        if (at < text.len)
            characters += ((unsigned char)text.ptr[at] & 0xC0) != 0x80;
        if (stop == 0 && at < text.len)
            continue;
        if (at == start || !is_u_label((slice){text.ptr + start, at - start}))
            return false;
        start = at + stop;
        /* The loop's own increment skips the last byte of the separator. */
        at += stop > 0 ? stop - 1 : 0;
    }
    return characters <= HOSTNAME_BYTES_MAX;
}

/* ---- email ---- */

/* Whether c is atext of RFC 5322 3.2.3; with is_idn also a byte beyond ASCII (RFC 6531). */
static bool is_atext(char c, bool is_idn)
{
    if ((unsigned char)c >= 0x80)
        return is_idn;
    return ascii_is_alnum(c) || (c && strchr("!#$%&'*+-/=?^_`{|}~", c));
}

static bool is_dot_atom(slice text, bool is_idn)
{
    bool after_dot = true;
    for (size_t i = 0; i < text.len; i++) {
        if (text.ptr[i] == '.' ? after_dot : !is_atext(text.ptr[i], is_idn))
            return false;
        after_dot = text.ptr[i] == '.';
    }
    return !after_dot;
}

/* Returns the length of a quoted string, quotes included (RFC 5321 4.1.2); 0 if text is not a
 * quoted string. */
static size_t quoted_len(slice text, bool is_idn)
{
    for (size_t i = 1; i < text.len; i++) {
        char c = text.ptr[i];
        if (c == '"')
            return i + 1;
        /* A backslash escapes the next byte, which may be a quote or another backslash. */
        if (c == '\\' && ++i < text.len)
            c = text.ptr[i];
        bool is_past_ascii = (unsigned char)c >= 0x80;
        if (is_past_ascii ? !is_idn : c < 0x20 || c == 0x7F)
            return 0;
    }
    return 0;
}

/* RFC 5321 4.1.3 */
static bool is_address_literal(slice text)
{
    if (text.len < 2 || text.ptr[text.len - 1] != ']')
        return false;
    slice inner = {text.ptr + 1, text.len - 2};
    if (slice_eq_nocase(slice_first(inner, 5), SLICE("IPv6:")))
        return format_ipv6(slice_from(inner, 5));
    return format_ipv4(inner);
}

static bool is_email(slice text, bool is_idn)
{
    size_t local_len = 0;
    if (text.len > 0 && text.ptr[0] == '"') {
        local_len = quoted_len(text, is_idn);
    } else {
        /* The first "@" ends the local part: unquoted it cannot contain an "@". */
        ptrdiff_t at = slice_find_char(text, '@');
        if (at <= 0 || !is_dot_atom(slice_first(text, (size_t)at), is_idn))
            return false;
        local_len = (size_t)at;
    }
    if (local_len == 0 || local_len > LOCAL_PART_BYTES_MAX || local_len >= text.len ||
        text.ptr[local_len] != '@')
        return false;
    slice domain = slice_from(text, local_len + 1);
    if (domain.len > 0 && domain.ptr[0] == '[')
        return is_address_literal(domain);
    return is_idn ? format_idn_hostname(domain) : format_hostname(domain);
}

static bool format_email(slice text)
{
    return is_email(text, false);
}

static bool format_idn_email(slice text)
{
    return slice_is_utf8(text, NULL) && is_email(text, true);
}

/* ---- RFC 3986; RFC 3987: the same with characters beyond ASCII ---- */

/* RFC 3986 2.2, 2.3 */
static bool is_unreserved_or_sub(char c)
{
    return ascii_is_alnum(c) || (c && strchr("-._~!$&'()*+,;=", c));
}

static bool is_percent_triplet(slice text, size_t at)
{
    return at + 2 < text.len && text.ptr[at] == '%' && ascii_is_hex(text.ptr[at + 1]) &&
           ascii_is_hex(text.ptr[at + 2]);
}

/* Whether the code point is in RFC 3987's ucschar, or in iprivate where that is allowed. */
static bool is_iri_char(uint32_t code_point, bool allows_private)
{
    /* Planes 15 and 16 without their last two code points. */
    bool is_private = (code_point >= 0xE000 && code_point <= 0xF8FF) ||
                      (code_point >= 0xF0000 && (code_point & 0xFFFF) <= 0xFFFD);
    if (is_private)
        return allows_private;
    /* Noncharacters and tags are in no range of ucschar. */
    if (code_point >= 0xFDD0 && code_point <= 0xFDEF)
        return false;
    if (code_point >= 0xE0000 && code_point < 0xE1000)
        return false;
    return code_point >= 0xA0 && (code_point & 0xFFFF) <= 0xFFFD &&
           !(code_point >= 0xFFF0 && code_point <= 0xFFFF);
}

/* Whether text consists only of unreserved characters, sub-delims, percent triplets and the
 * characters in `extra`. */
static bool is_component(slice text, const char *extra, bool is_iri, bool allows_private)
{
    for (size_t at = 0; at < text.len;) {
        char c = text.ptr[at];
        uint32_t code_point = 0;
        if (is_unreserved_or_sub(c) || (c && strchr(extra, c))) {
            at++;
        } else if (is_percent_triplet(text, at)) {
            at += 3;
        } else if (is_iri && (unsigned char)c >= 0x80) {
            at += slice_code_point(slice_from(text, at), &code_point);
            if (!is_iri_char(code_point, allows_private))
                return false;
        } else {
            return false;
        }
    }
    return true;
}

/* RFC 3986 3.2.2: IPv6address or IPvFuture, between the brackets. */
static bool is_ip_literal(slice text)
{
    if (text.len == 0 || (text.ptr[0] != 'v' && text.ptr[0] != 'V'))
        return format_ipv6(text);
    size_t at = 1;
    while (at < text.len && ascii_is_hex(text.ptr[at]))
        at++;
    if (at == 1 || at + 1 >= text.len || text.ptr[at] != '.')
        return false;
    slice rest = slice_from(text, at + 1);
    /* IPvFuture has no percent triplets (RFC 3986 3.2.2). */
    return slice_find_char(rest, '%') < 0 && is_component(rest, ":", false, false);
}

static bool is_port(slice text)
{
    for (size_t i = 0; i < text.len; i++) {
        if (!ascii_is_digit(text.ptr[i]))
            return false;
    }
    return true;
}

/* slice_split leaves a rest with a NULL ptr if there was no separator. */
static bool is_authority(slice text, bool is_iri)
{
    slice rest = text, user = slice_split(&rest, '@');
    /* The first "@": user information cannot contain another "@" unescaped. */
    if (rest.ptr && !is_component(user, ":", is_iri, false))
        return false;
    text = rest.ptr ? rest : text;
    ptrdiff_t close = slice_find_char(text, ']');
    if (text.len > 0 && text.ptr[0] == '[') {
        if (close < 0 || !is_ip_literal((slice){text.ptr + 1, (size_t)close - 1}))
            return false;
        rest = slice_from(text, (size_t)close + 1);
        return rest.len == 0 || (rest.ptr[0] == ':' && is_port(slice_from(rest, 1)));
    }
    slice host = slice_split(&text, ':');
    return is_component(host, "", is_iri, false) && is_port(text);
}

/* Checks what follows the scheme: relative-part or hier-part, query, fragment. */
static bool is_rest(slice fragment, bool has_scheme, bool is_iri)
{
    /* Fragment first: "#" also ends the query, and "?" is allowed in a fragment. */
    slice query = slice_split(&fragment, '#'), path = slice_split(&query, '?');
    if (!is_component(fragment, ":@/?", is_iri, false) ||
        !is_component(query, ":@/?", is_iri, true))
        return false;
    if (slice_starts_with(path, SLICE("//"))) {
        path = slice_from(path, 2);
        /* The query is already cut off, so only a slash can end the authority. */
        if (!is_authority(slice_split(&path, '/'), is_iri))
            return false;
    } else if (!has_scheme) {
        slice rest = path;
        /* RFC 3986 4.2: a colon in the first segment would parse as a scheme. */
        if (slice_find_char(slice_split(&rest, '/'), ':') >= 0)
            return false;
    }
    return is_component(path, ":@/", is_iri, false);
}

static bool is_uri(slice text, bool needs_scheme, bool is_iri)
{
    size_t len = schema_uri_scheme_len(text);
    return (len > 0 || !needs_scheme) && is_rest(slice_from(text, len), len > 0, is_iri);
}

static bool format_uri(slice text)
{
    return is_uri(text, true, false);
}

static bool format_uri_reference(slice text)
{
    return is_uri(text, false, false);
}

static bool format_iri(slice text)
{
    return slice_is_utf8(text, NULL) && is_uri(text, true, true);
}

static bool format_iri_reference(slice text)
{
    return slice_is_utf8(text, NULL) && is_uri(text, false, true);
}

/* ---- the others ---- */

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

/* RFC 6570 2: literals, and expressions that hold variables with modifiers. */
#define HEX      "%[0-9A-Fa-f]{2}"
#define LITERALS "[^\\x00-\\x20\"%<>\\\\^`{|}\\x7f]*"
#define NAME     "(?:\\w|" HEX ")(?:\\.?(?:\\w|" HEX "))*"
#define VARIABLE NAME "(?::[1-9]\\d{0,3}|\\*)?"
#define TEMPLATE \
    LITERALS "(?:(?:" HEX "|\\{[+#./;?&=,!@|]?" VARIABLE "(?:," VARIABLE ")*\\})" LITERALS ")*"
/* RFC 6901 3: a "~" is followed by 0 or 1. */
#define POINTER "(?:/[^~]*(?:~[01][^~]*)*)?"
/* RFC 3339, appendix A: units without gaps; weeks cannot be combined with other units. */
#define DAYS     "(?:\\d+Y(?:\\d+M(?:\\d+D)?)?|\\d+M(?:\\d+D)?|\\d+D)"
#define SECONDS  "(?:\\d+H(?:\\d+M(?:\\d+S)?)?|\\d+M(?:\\d+S)?|\\d+S)"
#define DURATION "P(?:\\d+W|" DAYS "(?:T" SECONDS ")?|T" SECONDS ")"

static bool format_regex(slice text)
{
    /* Only checked, not compiled: no memory is needed. */
    struct schema_regex_info info;
    return schema_regex_translate(text, NULL, &info, NULL) == OK;
}

static const struct schema_format formats[] = {
    {SLICE_INIT("date-time"), "2026-01-31T23:59:59Z", format_date_time, NULL, NULL},
    {SLICE_INIT("date"), "2026-01-31", format_date, NULL, NULL},
    {SLICE_INIT("time"), "23:59:59Z", format_time, NULL, NULL},
    {SLICE_INIT("duration"), "P1DT12H", NULL, "^" DURATION "$", NULL},
    {SLICE_INIT("email"), "name@example.com", format_email, NULL, NULL},
    {SLICE_INIT("idn-email"), "name@example.com", format_idn_email, NULL, NULL},
    {SLICE_INIT("hostname"), "www.example.com", format_hostname, NULL, NULL},
    {SLICE_INIT("idn-hostname"), "www.example.com", format_idn_hostname, NULL, NULL},
    {SLICE_INIT("ipv4"), "192.0.2.1", format_ipv4, NULL, NULL},
    {SLICE_INIT("ipv6"), "2001:db8::1", format_ipv6, NULL, NULL},
    {SLICE_INIT("uri"), "https://example.com/path", format_uri, NULL, NULL},
    {SLICE_INIT("uri-reference"), "/path?query", format_uri_reference, NULL, NULL},
    {SLICE_INIT("iri"), "https://example.com/path", format_iri, NULL, NULL},
    {SLICE_INIT("iri-reference"), "/path?query", format_iri_reference, NULL, NULL},
    {SLICE_INIT("uri-template"), "https://example.com/{id}", NULL, "^" TEMPLATE "$", NULL},
    {SLICE_INIT("uuid"), "2eb8aa08-aa98-11ea-b4aa-73b441d16380", format_uuid, NULL, NULL},
    {SLICE_INIT("json-pointer"), "/items/0", NULL, "^" POINTER "$", NULL},
    {SLICE_INIT("relative-json-pointer"), "1/items", NULL, "^(?:0|[1-9]\\d*)(?:#|" POINTER ")$",
     NULL},
    {SLICE_INIT("regex"), "^[a-z]+$", format_regex, NULL, NULL},
};

const struct schema_format *schema_format_find(slice name)
{
    for (size_t i = 0; i < ARRAY_LEN(formats); i++) {
        if (slice_eq(formats[i].name, name))
            return &formats[i];
    }
    return NULL;
}

uint64_t schema_format_fuel(const struct schema_format *format, slice text)
{
    return text.len * (format->check == format_regex ? UINT64_C(40) : 3);
}
