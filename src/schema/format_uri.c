/*
 * schema_format_uri: RFC 3986 URIs and references, RFC 3987 IRIs (the same with characters past
 * ASCII), RFC 6570 templates. Only the grammar is checked; schemes have rules of their own that are
 * not.
 */
#include "schema/format.h"

#include "base/ascii.h"
#include "schema/uri.h"

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

/* A code point of RFC 3987's ucschar, or of iprivate where that is allowed. */
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

/* Whether all of text is unreserved, sub-delims, percent triplets, and what `extra` lists. */
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

static bool is_authority(slice text, bool is_iri)
{
    ptrdiff_t user_end = slice_find_char(text, '@');
    /* The first "@": user information cannot hold another one unescaped. */
    if (user_end >= 0) {
        if (!is_component(slice_first(text, (size_t)user_end), ":", is_iri, false))
            return false;
        text = slice_from(text, (size_t)user_end + 1);
    }
    if (text.len > 0 && text.ptr[0] == '[') {
        ptrdiff_t close = slice_find_char(text, ']');
        if (close < 0 || !is_ip_literal((slice){text.ptr + 1, (size_t)close - 1}))
            return false;
        slice rest = slice_from(text, (size_t)close + 1);
        return rest.len == 0 || (rest.ptr[0] == ':' && is_port(slice_from(rest, 1)));
    }
    ptrdiff_t colon = slice_find_char(text, ':');
    slice host = colon < 0 ? text : slice_first(text, (size_t)colon);
    return is_component(host, "", is_iri, false) &&
           (colon < 0 || is_port(slice_from(text, (size_t)colon + 1)));
}

/* Cuts text at the first c: what is behind goes to *tail. */
static slice cut_at(slice text, char c, slice *tail)
{
    ptrdiff_t at = slice_find_char(text, c);
    *tail = at < 0 ? SLICE_NONE : slice_from(text, (size_t)at + 1);
    return at < 0 ? text : slice_first(text, (size_t)at);
}

/* What follows the scheme: relative-part or hier-part, query, fragment. */
static bool is_rest(slice text, bool has_scheme, bool is_iri)
{
    slice fragment = SLICE_NONE;
    slice query = SLICE_NONE;
    /* Fragment first: "#" ends the query as well, and "?" may stand in a fragment. */
    slice path = cut_at(cut_at(text, '#', &fragment), '?', &query);
    if (!is_component(fragment, ":@/?", is_iri, false) ||
        !is_component(query, ":@/?", is_iri, true))
        return false;
    if (slice_starts_with(path, SLICE("//"))) {
        slice rest = slice_from(path, 2);
        /* The query is cut off already, so only a slash can end the authority. */
        ptrdiff_t slash = slice_find_char(rest, '/');
        if (!is_authority(slash < 0 ? rest : slice_first(rest, (size_t)slash), is_iri))
            return false;
        path = slash < 0 ? SLICE_NONE : slice_from(rest, (size_t)slash);
    } else if (!has_scheme) {
        /* RFC 3986 4.2: a colon in the first segment would parse as a scheme. */
        slice none = SLICE_NONE;
        if (slice_find_char(cut_at(path, '/', &none), ':') >= 0)
            return false;
    }
    return is_component(path, ":@/", is_iri, false);
}

bool format_uri(slice text)
{
    size_t len = schema_uri_scheme_len(text);
    return len > 0 && is_rest(slice_from(text, len), true, false);
}

bool format_uri_reference(slice text)
{
    size_t len = schema_uri_scheme_len(text);
    return is_rest(slice_from(text, len), len > 0, false);
}

bool format_iri(slice text)
{
    size_t len = schema_uri_scheme_len(text);
    return len > 0 && slice_is_utf8(text, NULL) && is_rest(slice_from(text, len), true, true);
}

bool format_iri_reference(slice text)
{
    size_t len = schema_uri_scheme_len(text);
    return slice_is_utf8(text, NULL) && is_rest(slice_from(text, len), len > 0, true);
}

/* ---- RFC 6570 ---- */

/* 2.3: varname, made of letters, digits, _ and triplets, with single dots between. */
static size_t varname_len(slice text)
{
    size_t at = 0;
    /* A dot stands only between two characters of names (RFC 6570 2.3): neither first, last nor
     * doubled. */
    bool after_char = false;
    while (at < text.len) {
        if (ascii_is_alnum(text.ptr[at]) || text.ptr[at] == '_') {
            at++;
        } else if (is_percent_triplet(text, at)) {
            at += 3;
        } else if (text.ptr[at] == '.' && after_char && at + 1 < text.len &&
                   text.ptr[at + 1] != '.') {
            at++;
            after_char = false;
            continue;
        } else {
            break;
        }
        after_char = true;
    }
    return after_char ? at : 0;
}

/* 2.4: a prefix of 1 to 9999, or '*' */
static bool is_modifier(slice text)
{
    if (text.len == 0 || slice_eq(text, SLICE("*")))
        return true;
    if (text.ptr[0] != ':' || text.len < 2 || text.len > 5 || text.ptr[1] == '0')
        return false;
    return is_port(slice_from(text, 1));
}

static bool is_expression(slice text)
{
    /* Operators, those reserved for extensions among them (RFC 6570 2.2). */
    if (text.len > 0 && text.ptr[0] && strchr("+#./;?&=,!@|", text.ptr[0]))
        text = slice_from(text, 1);
    do {
        slice variable = slice_split(&text, ',');
        size_t len = varname_len(variable);
        if (len == 0 || !is_modifier(slice_from(variable, len)))
            return false;
    } while (text.ptr);
    return true;
}

/* 2.1: any character but controls, space, and a few. */
static bool is_template_literal(slice text, size_t at)
{
    char c = text.ptr[at];
    if (c == '%')
        return is_percent_triplet(text, at);
    return (unsigned char)c > 0x20 && c != 0x7F && !strchr("\"<>\\^`{|}", c);
}

bool format_uri_template(slice text)
{
    for (size_t at = 0; at < text.len; at++) {
        if (text.ptr[at] != '{') {
            if (!is_template_literal(text, at))
                return false;
            continue;
        }
        ptrdiff_t close = slice_find_char(slice_from(text, at), '}');
        if (close < 0 || !is_expression((slice){text.ptr + at + 1, (size_t)close - 1}))
            return false;
        at += (size_t)close;
    }
    return true;
}
