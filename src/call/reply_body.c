/*
 * See reply_body.h.
 */
#include "call/reply_body.h"

#include "base/encode.h"

enum { TYPE_QUOTED_BYTES_MAX = 80, PAGE_BLANKS_MAX = 4096 };

/* ---- values ---- */

/* Makes {content_type, encoding, data, bytes}. */
static struct json binary_value(const struct http_call *call, struct arena *arena)
{
    slice body = call->body, type = http_call_header(call, SLICE("content-type"));
    struct json object = json_object();
    struct buf data;
    buf_init(&data, arena->bytes_max);
    encode_base64(&data, body);
    slice text = arena_take(arena, &data);
    if (!text.ptr)
        return json_null;
    if (type.len == 0 || !slice_is_utf8(type, NULL))
        type = SLICE("application/octet-stream");
    json_object_set(arena, &object, SLICE("content_type"), json_string(type));
    json_object_set(arena, &object, SLICE("encoding"), json_string(SLICE("base64")));
    json_object_set(arena, &object, SLICE("data"), json_string(text));
    json_object_set(arena, &object, SLICE("bytes"), json_u64(body.len));
    return object;
}

struct json reply_body_value(struct reply_body *found, enum catalog_reply_body wanted,
                             const struct http_call *call, struct arena *arena)
{
    slice body = call->body;
    const struct json *parsed = NULL;
    *found = (struct reply_body){.is_json = false};
    if (body.len == 0 && wanted != REPLY_BYTES)
        return wanted == REPLY_TEXT ? json_string(SLICE("")) : json_null;
    if (wanted != REPLY_TEXT && wanted != REPLY_BYTES)
        parsed = json_parse(arena, body, &json_limits_provider, NULL);
    if (parsed) {
        *found = (struct reply_body){.is_json = true, .type = parsed->type};
        return *parsed;
    }
    bool is_text = wanted != REPLY_BYTES && slice_is_utf8(body, NULL);
    return is_text ? json_string(body) : binary_value(call, arena);
}

/* ---- the action's own replies ---- */

static slice media_type(const struct http_call *call)
{
    slice type = http_call_header(call, SLICE("content-type"));
    return slice_trim(slice_split(&type, ';'));
}

static bool says_json(slice media)
{
    return slice_eq_nocase(media, SLICE("application/json")) ||
           slice_ends_with(media, SLICE("+json"));
}

/* Returns the text after a byte order mark and blank lines. */
static slice text_begin(slice body)
{
    size_t at = slice_starts_with(body, SLICE("\xef\xbb\xbf")) ? 3 : 0;
    while (at < body.len && at < PAGE_BLANKS_MAX && (unsigned char)body.ptr[at] <= ' ')
        at++;
    return slice_from(body, at);
}

/* Whether the body is an HTML page for people, from a proxy or with a login form. The type alone is
 * not enough: some servers send it with any text. */
static bool is_web_page(const struct http_call *call, slice media)
{
    slice text = text_begin(call->body);
    bool is_html = slice_eq_nocase(media, SLICE("text/html")) ||
                   slice_eq_nocase(media, SLICE("application/xhtml+xml"));
    return (is_html && slice_starts_with(text, SLICE("<"))) ||
           slice_eq_nocase(slice_first(text, 14), SLICE("<!doctype html")) ||
           slice_eq_nocase(slice_first(text, 5), SLICE("<html"));
}

static slice json_misfit(const struct reply_body *found, enum catalog_reply_kind kind)
{
    if (kind == REPLY_KIND_OBJECT && found->type != JSON_OBJECT)
        return found->type == JSON_ARRAY
                   ? SLICE("with an array, not the object that the action returns")
                   : SLICE("with a single value, not the object that the action returns");
    if (kind == REPLY_KIND_ARRAY && found->type != JSON_ARRAY)
        return found->type == JSON_OBJECT
                   ? SLICE("with an object, not the array that the action returns")
                   : SLICE("with a single value, not the array that the action returns");
    return SLICE_NONE;
}

slice reply_body_misfit(const struct reply_body *found, const struct catalog_reply *wanted,
                        const struct http_call *call, struct arena *arena)
{
    slice media = media_type(call);
    bool is_claimed = call->body.len > 0 && !found->is_json && says_json(media);
    if (wanted->body == REPLY_TEXT || wanted->body == REPLY_BYTES)
        return SLICE_NONE;
    if (found->is_json)
        return wanted->body == REPLY_JSON ? json_misfit(found, wanted->kind) : SLICE_NONE;
    if (is_claimed)
        return SLICE("with a body that claims to be JSON and is not");
    if (is_web_page(call, media))
        return SLICE("with a web page, not what the action returns");
    if (wanted->body != REPLY_JSON)
        return SLICE_NONE;
    if (call->body.len == 0)
        return SLICE("with an empty body, not the JSON that the action returns");
    if (!slice_is_utf8(media, NULL) || media.len == 0 || media.len > TYPE_QUOTED_BYTES_MAX)
        return SLICE("with a body that is not the JSON that the action returns");
    return arena_printf(arena, "with %.*s, not the JSON that the action returns", SLICE_ARG(media));
}
