/*
 * The idempotency key of a request: a member of the body, or the header (IETF draft "The
 * Idempotency-Key HTTP Header Field"); the header's value may be unquoted or a quoted string (RFC
 * 8941 3.3.3).
 */
#include "api/request.h"
#include "store/idempotency.h"

/* Whether a key may contain the character: not the control characters C0, DEL and C1 (C2 80 to C2
 * 9F). */
static bool is_key_character(slice character)
{
    unsigned char c = (unsigned char)character.ptr[0];
    bool is_c1 = c == 0xC2 && (unsigned char)character.ptr[1] < 0xA0;
    return c >= 0x20 && c != 0x7F && !is_c1;
}

slice api_key_fault(slice key)
{
    size_t count = 0;
    slice rest = key;
    for (size_t len; (len = slice_utf8_first(rest)) > 0 && is_key_character(rest); count++)
        rest = slice_from(rest, len);
    if (rest.len == 0 && count > 0 && count <= IDEMPOTENCY_KEY_MAX)
        return SLICE_NONE;
    _Static_assert(IDEMPOTENCY_KEY_MAX == 255, "as the sentence says");
    return SLICE("idempotency_key must be 1 to 255 printable characters");
}

/* Returns the unescaped text in the quotes; SLICE_NONE if it is not a quoted string, or if out of
 * memory. Parameters after it are ignored. Bytes beyond ASCII are accepted, as in an unquoted
 * value. */
static slice unquote_key(struct api_request *request, slice value)
{
    char *room = arena_alloc_text(&request->serve.op.arena, value.len);
    size_t len = 0, i = 1;
    if (!room)
        return SLICE_NONE;
    for (; i < value.len && value.ptr[i] != '"'; i++) {
        bool is_escape = value.ptr[i] == '\\';
        i += is_escape;
        if (is_escape && (i == value.len || (value.ptr[i] != '"' && value.ptr[i] != '\\')))
            return SLICE_NONE;
        room[len++] = value.ptr[i];
    }
    slice after = slice_trim(slice_from(value, i + 1));
    bool is_string = i < value.len && (after.len == 0 || after.ptr[0] == ';');
    return is_string ? slice_of(room, len) : SLICE_NONE;
}

slice api_key_header(struct api_request *request, slice *key)
{
    *key = http_request_header(request->serve.exchange, SLICE("Idempotency-Key"));
    if (!key->ptr)
        return SLICE_NONE;
    if (slice_starts_with(*key, SLICE("\"")))
        *key = unquote_key(request, *key);
    if (!key->ptr)
        return SLICE("The header Idempotency-Key is not a valid quoted string (RFC 8941 3.3.3)");
    return api_key_fault(*key);
}

slice api_key_join(struct api_request *request, slice *key)
{
    slice header = SLICE_NONE;
    slice fault = request->outer ? SLICE_NONE : api_key_header(request, &header);
    if (fault.ptr || !header.ptr)
        return fault;
    if (key->ptr && !slice_eq(*key, header))
        return SLICE("idempotency_key and the header Idempotency-Key differ");
    *key = header;
    return SLICE_NONE;
}
