/*
 * Slips in a call's input; see slips.h. The schema is the input schema of the action or the
 * template.
 */
#include "mcp/slips.h"

enum {
    TEXT_BYTES_MAX = 32 * 1024,
    MEMBER_BYTES_MAX = 16 * 1024,
    INPUT_DEPTH = 3, /* the message, params and arguments are around an input */
};

static void add_slip(struct mcp_message *message, slice pointer)
{
    struct schema_slips *slips = &message->slips;
    if (slips->count < SCHEMA_VIOLATIONS_MAX)
        slips->pointers[slips->count++] = pointer;
}

const struct json *mcp_mend_arguments(struct api_request *request, struct mcp_message *message,
                                      const struct json *arguments)
{
    struct arena *arena = &request->serve.op.arena;
    const struct json *input = JSON_GET(arguments, "input");
    if (!json_is(input, JSON_STRING) || json_str(input).len > TEXT_BYTES_MAX)
        return arguments;
    struct json_limits limits = json_limits_request;
    limits.depth_max -= INPUT_DEPTH;
    const struct json *object = json_parse(arena, json_str(input), &limits, NULL);
    struct json *mended = ARENA_NEW(arena, struct json);
    if (!json_is(object, JSON_OBJECT) || !mended)
        return mended ? arguments : NULL;
    *mended = json_object();
    for (uint32_t i = 0; i < arguments->count; i++)
        json_object_set(arena, mended, json_str(&arguments->as.members[i].key),
                        arguments->as.members[i].value);
    json_object_put(arena, mended, SLICE("input"), *object);
    add_slip(message, SLICE(""));
    return arena->is_exhausted ? NULL : mended;
}

const struct json *mcp_mend_input(struct api_request *request, struct mcp_message *message,
                                  const struct schema *schema, const struct json *input)
{
    struct schema_slips slips;
    const struct json *mended =
        schema_mend(schema, input, INPUT_DEPTH, &request->serve.op.arena, &slips);
    for (size_t i = 0; i < slips.count; i++)
        add_slip(message, slips.pointers[i]);
    return mended;
}

slice mcp_slips_member(struct api_request *request, const struct mcp_message *message)
{
    const struct schema_slips *slips = &message->slips;
    struct json_writer w;
    struct buf text;
    if (slips->count == 0)
        return SLICE_NONE;
    buf_init(&text, MEMBER_BYTES_MAX);
    buf_append(&text, SLICE("\"coerced\":"));
    json_begin(&w, &text);
    json_open(&w, '[');
    for (size_t i = 0; i < slips->count; i++)
        json_put_str(&w, api_sentence(request, "/input%.*s", SLICE_ARG(slips->pointers[i])));
    json_close(&w, ']');
    buf_append(&text, SLICE(","));
    return arena_take(&request->serve.op.arena, &text);
}
