/*
 * Any headers and any body as an MCP message: it is refused with a code and a message, or the
 * parsed message matches the body, and the headers that proxies route by agree with it. Its id is
 * returned unchanged. The input has lines "Name: value", an empty one, and the body.
 */
#include <stdlib.h>

#include "base/encode.h"
#include "base/mem.h"
#include "mcp/message.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { ARENA_BYTES_MAX = 64 * 1024 * 1024, INPUT_MAX = 64 * 1024, HEADERS_MAX = 32 };

static void check(bool is_fine)
{
    if (!is_fine)
        abort();
}

/* Reads the lines that a server would accept as headers. */
static void read_headers(slice *text, struct http_head *head)
{
    while (text->len > 0) {
        slice value = slice_split(text, '\n');
        if (value.len == 0)
            return;
        slice name = slice_split(&value, ':');
        value = slice_trim(value);
        if (head->header_count < HEADERS_MAX && http_is_token(name) && http_is_field_value(value))
            head->headers[head->header_count++] = (struct http_header){name, value};
    }
}

/* Whether the header occurs once and has that value, plain or in base64. */
static bool says(const struct http_head *head, const char *name, slice wanted)
{
    struct buf text;
    slice value = http_header_get(head->headers, head->header_count, slice_cstr(name));
    if (http_header_count(head->headers, head->header_count, slice_cstr(name)) != 1)
        return false;
    if (slice_eq(value, wanted))
        return true;
    buf_init(&text, INPUT_MAX);
    bool is_same = value.len > 11 &&
                   decode_base64(&text, slice_of(value.ptr + 9, value.len - 11)) == OK &&
                   slice_eq(buf_slice(&text), wanted);
    buf_deinit(&text);
    return is_same;
}

/* Checks that a result for the message has the message's id. */
static void check_id(struct arena *arena, const struct mcp_message *message)
{
    struct mcp_result result;
    mcp_result_begin(&result, message, 64);
    mcp_put_visible(&result.w, "text", message->method, SLICE_NONE);
    json_close(&result.w, '}');
    json_close(&result.w, '}');
    const struct json *read =
        json_parse(arena, buf_slice(&result.text), &json_limits_request, NULL);
    check(arena->is_exhausted || json_equal(JSON_GET(read, "id"), message->id));
    buf_deinit(&result.text);
}

static void check_message(struct arena *arena, const struct json *body,
                          const struct http_head *head, const struct mcp_message *message)
{
    check(slice_eq(json_get_str(body, SLICE("method")), message->method));
    check(message->method.len > 0 && message->params == JSON_GET(body, "params"));
    check(!message->id || json_is(message->id, JSON_STRING) || json_is(message->id, JSON_INT));
    check(!message->params || json_is(message->params, JSON_OBJECT));
    check(!message->is_agreed && !message->is_streaming && !message->filled);
    if (message->id)
        check_id(arena, message);
    if (!message->is_modern) {
        check(!message->has_forms && !message->has_urls && !message->has_tasks &&
              !message->state.ptr);
        return;
    }
    check(json_is(message->capabilities, JSON_OBJECT));
    check(says(head, "MCP-Protocol-Version", SLICE(MCP_MODERN)));
    check(says(head, "Mcp-Method", message->method));
    check(!message->name.ptr || says(head, "Mcp-Name", message->name));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct http_header headers[HEADERS_MAX];
    struct http_head head = {.headers = headers};
    struct mcp_fault fault;
    struct arena arena;
    slice text = slice_of(data, size);
    if (size > INPUT_MAX)
        return 0;
    arena_init(&arena, ARENA_BYTES_MAX);
    read_headers(&text, &head);
    const struct json *body = json_parse(&arena, text, &json_limits_request, NULL);
    if (json_is(body, JSON_OBJECT)) {
        const struct mcp_message *message = mcp_message_parse(&arena, body, &head, &fault);
        if (message)
            check_message(&arena, body, &head, message);
        else
            check(arena.is_exhausted || (fault.code != 0 && fault.text.len > 0));
        if (!message && fault.data.ptr)
            check(json_parse(&arena, fault.data, &json_limits_request, NULL) || arena.is_exhausted);
    }
    arena_deinit(&arena);
    check(mem_live_blocks() == 0);
    return 0;
}
