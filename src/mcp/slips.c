/*
 * Slips in a call; see slips.h. What an input may have is the input schema of the action or the
 * template; what sluice's own tools take beside it is their table (tools.c).
 */
#include "mcp/slips.h"

enum {
    TEXTS_BYTES_MAX = 32 * 1024, /* all texts that are parsed for a call */
    MEMBER_BYTES_MAX = 16 * 1024,
    INPUT_DEPTH = 3, /* the message, params and arguments are around an input */
};

/* pointer: SLICE_NONE if out of memory. */
static void add_slip(struct mcp_message *message, slice pointer)
{
    struct schema_slips *slips = &message->slips;
    if (pointer.ptr && slips->count < SCHEMA_VIOLATIONS_MAX)
        slips->pointers[slips->count++] = pointer;
}

/* ---- the arguments ---- */

/* Returns the value that the text spells as JSON; NULL: it is not JSON, or it is too long. */
static const struct json *parse_text(struct arena *arena, struct mcp_message *message, slice text)
{
    struct json_limits limits = json_limits_request;
    limits.depth_max -= INPUT_DEPTH;
    if (text.len > TEXTS_BYTES_MAX - message->slip_bytes)
        return NULL;
    message->slip_bytes += text.len;
    return json_parse(arena, text, &limits, NULL);
}

static const struct json *list_with(struct arena *arena, const struct json *item)
{
    struct json *list = ARENA_NEW(arena, struct json);
    if (!list)
        return NULL;
    *list = json_array();
    json_array_push(arena, list, *item);
    return arena->is_exhausted ? NULL : list;
}

/* Returns what the text spells where that type is taken; NULL: nothing, or out of memory. */
static const struct json *spelled(struct arena *arena, struct mcp_message *message,
                                  const char *type, const struct json *text)
{
    bool takes_texts = strcmp(type, "array") == 0, takes_objects = strcmp(type, "objects") == 0;
    const struct json *value = parse_text(arena, message, json_str(text));
    slice start = slice_first(slice_trim(json_str(text)), 1);
    if (json_is(value, JSON_ARRAY))
        return takes_texts || takes_objects ? value : NULL;
    if (json_is(value, JSON_OBJECT))
        return strcmp(type, "object") == 0 ? value : takes_objects ? list_with(arena, value) : NULL;
    if (strcmp(type, "integer") == 0)
        return json_is(value, JSON_INT) ? value : NULL;
    /* a broken list or object is not the only item of a list */
    bool is_item = start.len > 0 && slice_find_char(SLICE("[{"), start.ptr[0]) < 0;
    return takes_texts && is_item ? list_with(arena, text) : NULL;
}

const struct json *mcp_mend_value(struct api_request *request, struct mcp_message *message,
                                  const char *type, const struct json *value, slice pointer)
{
    const struct json *mended = json_is(value, JSON_STRING)
                                    ? spelled(&request->serve.op.arena, message, type, value)
                                    : NULL;
    if (mended)
        add_slip(message, pointer);
    return mended ? mended : value;
}

/* A copy of the object whose members can be replaced; NULL if out of memory. */
static struct json *copy_of(struct arena *arena, const struct json *object)
{
    struct json *copy = ARENA_NEW(arena, struct json);
    struct json_member *members = ARENA_ARRAY(arena, struct json_member, object->count);
    if (!copy || !members)
        return NULL;
    memcpy(members, object->as.members, object->count * sizeof(*members));
    *copy = *object;
    copy->as.members = members;
    return copy;
}

const struct json *mcp_mend_arguments(struct api_request *request, struct mcp_message *message,
                                      const char *tool, const struct json *arguments)
{
    struct json *copy = NULL;
    for (uint32_t i = 0; i < arguments->count; i++) {
        const struct json_member *member = &arguments->as.members[i];
        slice name = json_str(&member->key);
        const char *type = json_is(&member->value, JSON_STRING) ? mcp_argument_type(tool, name)
                                                                : NULL;
        const struct json *value =
            type && strcmp(type, "string") != 0
                ? mcp_mend_value(request, message, type, &member->value,
                                 api_sentence(request, "/%.*s", SLICE_ARG(name)))
                : &member->value;
        if (value == &member->value)
            continue;
        if (!copy && !(copy = copy_of(&request->serve.op.arena, arguments)))
            return NULL;
        copy->as.members[i].value = *value;
    }
    return copy ? copy : arguments;
}

/* ---- the input ---- */

const struct json *mcp_mend_input(struct api_request *request, struct mcp_message *message,
                                  const struct schema *schema, const struct json *input)
{
    struct schema_slips slips;
    const struct json *mended =
        schema_mend(schema, input, INPUT_DEPTH, &request->serve.op.arena, &slips);
    for (size_t i = 0; i < slips.count; i++)
        add_slip(message, api_sentence(request, "/input%.*s", SLICE_ARG(slips.pointers[i])));
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
        json_put_str(&w, slips->pointers[i]);
    json_close(&w, ']');
    buf_append(&text, SLICE(","));
    return arena_take(&request->serve.op.arena, &text);
}
