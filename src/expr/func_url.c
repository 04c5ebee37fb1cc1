/*
 * func_url: functions that read references to other resources from a reply: URLs, Link fields (RFC
 * 8288), lists of header fields. A URL in a reply is never followed: these functions only extract
 * values from it.
 */
#include "base/encode.h"
#include "expr/func.h"

/* Sets *out to the text without its percent encoding; to null if the encoding is invalid. */
static int put_decoded(struct expr_run *run, slice text, bool plus_is_space, struct json *out)
{
    char *room = NULL;
    *out = expr_string("", 0);
    int rc = text.len > 0 ? expr_run_text(run, text.len, &room) : OK;
    if (rc != OK || text.len == 0)
        return rc;
    /* Decoded text is never longer than its source, so the block is large enough and the buffer
     * never grows. */
    struct buf buf = {.ptr = room, .cap = text.len, .bytes_max = text.len};
    /* Bytes that are not UTF-8 cannot be a JSON string. */
    bool is_good = decode_percent(&buf, text, plus_is_space) == OK &&
                   slice_is_utf8(slice_of(room, buf.len), NULL);
    ASSERT(buf.ptr == room);
    *out = is_good ? expr_string(room, buf.len) : json_null;
    return OK;
}

EXPR_FUNCTION(url_query)
{
    slice url = json_str(&args[0]), name = json_str(&args[1]);
    int rc = expr_run_scan(run, url.len);
    *out = json_null;
    slice rest = slice_split(&url, '#');
    (void)slice_split(&rest, '?');
    while (rc == OK && rest.len > 0) {
        slice value = slice_split(&rest, '&');
        struct json key = json_null;
        /* Names are decoded, too: "page%5Fid" is page_id. */
        rc = put_decoded(run, slice_split(&value, '='), true, &key);
        if (rc == OK && key.type == JSON_STRING && slice_eq(json_str(&key), name))
            return put_decoded(run, value, true, out);
    }
    return rc;
}

EXPR_FUNCTION(url_segment)
{
    slice url = json_str(&args[0]), tail = json_str(&args[1]);
    ptrdiff_t star = slice_find_char(tail, '*');
    if (star < 0)
        return expr_run_fail(run, EXPR_FAULT_VALUE, call->at,
                             "url_segment() wants a pattern with a *, such as '/query/*'");
    slice before = slice_first(tail, (size_t)star), after = slice_from(tail, (size_t)star + 1);
    int rc = expr_run_scan(run, url.len);
    *out = json_null;
    slice rest = slice_split(&url, '#'), path = slice_split(&rest, '?');
    if (rc != OK || !slice_ends_with(path, after))
        return rc;
    path = slice_first(path, path.len - after.len);
    size_t start = path.len;
    while (start > 0 && path.ptr[start - 1] != '/')
        start--;
    slice segment = slice_from(path, start);
    /* The `*` may be only a part of its segment: "/jobs/job-*". */
    slice lead = before;
    for (ptrdiff_t at = slice_find_char(lead, '/'); at >= 0; at = slice_find_char(lead, '/'))
        lead = slice_from(lead, (size_t)at + 1);
    if (!slice_starts_with(segment, lead) || segment.len == lead.len ||
        !slice_ends_with(slice_first(path, start + lead.len), before))
        return OK;
    return put_decoded(run, slice_from(segment, lead.len), false, out);
}

/* Whether the value of `rel`, a list of words, contains the wanted word. */
static bool has_relation(slice value, slice wanted)
{
    while (value.len > 0)
        if (slice_eq_nocase(slice_split(&value, ' '), wanted))
            return true;
    return false;
}

/* Reads `; rel="next"; title=...` up to the comma that ends the link. *rest continues after the
 * comma. */
static bool is_link_of(slice *rest, slice wanted)
{
    bool is_found = false;
    size_t at = 0, start = 0, equals = 0;
    bool is_quoted = false;
    for (;; at++) {
        bool is_end = at >= rest->len;
        char c = is_end ? ',' : rest->ptr[at];
        if (is_quoted && !is_end) {
            /* A backslash includes the next byte (quoted-string, RFC 9110 5.6.4). */
            if (c == '\\')
                at++;
            else if (c == '"')
                is_quoted = false;
            continue;
        }
        if (c == '"')
            is_quoted = true;
        /* The first '=' of a parameter ends its name; the value may contain more. */
        if (c == '=' && equals == 0)
            equals = at;
        if (c != ';' && c != ',')
            continue;
        size_t end = at < rest->len ? at : rest->len;
        slice name = slice_trim(slice_of(rest->ptr + start, (equals ? equals : end) - start));
        slice value = equals ? slice_trim(slice_of(rest->ptr + equals + 1, end - equals - 1))
                             : SLICE("");
        if (value.len > 1 && value.ptr[0] == '"' && value.ptr[value.len - 1] == '"')
            value = slice_of(value.ptr + 1, value.len - 2);
        is_found = is_found || (slice_eq_nocase(name, SLICE("rel")) && has_relation(value, wanted));
        if (c == ',') {
            *rest = slice_from(*rest, end < rest->len ? end + 1 : end);
            return is_found;
        }
        start = at + 1;
        equals = 0;
    }
}

EXPR_FUNCTION(link_url)
{
    slice rest = json_str(&args[0]), wanted = json_str(&args[1]);
    int rc = expr_run_scan(run, rest.len);
    *out = json_null;
    /* Each round passes one '<', so an unterminated field costs linear time. */
    for (ptrdiff_t open = slice_find_char(rest, '<'); rc == OK && open >= 0;
         open = slice_find_char(rest, '<')) {
        rest = slice_from(rest, (size_t)open + 1);
        ptrdiff_t close = slice_find_char(rest, '>');
        if (close < 0)
            return OK;
        slice url = slice_first(rest, (size_t)close);
        rest = slice_from(rest, (size_t)close + 1);
        if (!is_link_of(&rest, wanted))
            continue;
        *out = expr_string(url.ptr, url.len);
        return OK;
    }
    return rc;
}

/* Names of header fields are case-insensitive (RFC 9110 5.1, RFC 5322 1.2.2). */
EXPR_FUNCTION(header)
{
    slice wanted = json_str(&args[1]);
    *out = json_null;
    for (uint32_t i = 0; args[0].type == JSON_ARRAY && i < args[0].count; i++) {
        const struct json *field = &args[0].as.items[i];
        int rc = expr_run_visit(run, 1);
        if (rc != OK)
            return rc;
        if (!slice_eq_nocase(json_get_str(field, SLICE("name")), wanted))
            continue;
        const struct json *value = json_get(field, SLICE("value"));
        *out = value ? *value : json_null;
        return OK;
    }
    return OK;
}
