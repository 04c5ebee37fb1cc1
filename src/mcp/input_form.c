/*
 * Forms for missing input; see input_form.h. The answers are not checked here: the execution checks
 * the input as a whole, from any source.
 */
#include "mcp/input_form.h"

#include "base/encode.h"
#include "catalog/catalog.h"

enum { MISSING_MAX = 16, SENTENCE_BYTES_MAX = 8 * 1024 };

/* The required members that the input lacks, with the action's schemas. */
struct missing {
    slice names[MISSING_MAX];
    const struct json *schemas[MISSING_MAX];
    size_t count;
    bool is_askable; /* a form can have one field for each */
};

/* ---- what is missing ---- */

/* The schema keywords that a form's field may have (PrimitiveSchemaDefinition). */
static const char *const field_members[] = {"title",     "description", "default", "enum",
                                            "minLength", "maxLength",   "minimum", "maximum"};
enum {
    READ_MEMBERS = 2
}; /* the first members are texts for people; the others must be sent
    * unchanged */

/* A value that is sent back must be shown exactly, so it may contain no invisible characters. */
static bool is_plain(slice text)
{
    struct buf visible;
    if (slice_printable(text, ' ') == text.len)
        return true;
    buf_init(&visible, 8 * text.len + 16);
    encode_visible(&visible, text, SLICE_NONE);
    bool is_same = slice_eq(buf_slice(&visible), text);
    buf_deinit(&visible);
    return is_same;
}

static bool is_choice_of_strings(const struct json *choice)
{
    for (uint32_t i = 0; choice && i < choice->count; i++)
        if (!json_is(&choice->as.items[i], JSON_STRING) ||
            !is_plain(json_str(&choice->as.items[i])))
            return false;
    return true;
}

/* Whether a form may have a field for the member. A password must not pass through a model or a
 * form. */
static bool is_field(const struct json *schema)
{
    slice type = json_get_str(schema, SLICE("type"));
    const struct json *secret = JSON_GET(schema, "writeOnly"), *choice = JSON_GET(schema, "enum");
    if ((json_is(secret, JSON_BOOL) && secret->as.boolean) || JSON_GET(schema, "const") ||
        slice_eq_cstr(json_get_str(schema, SLICE("format")), "password"))
        return false;
    if (!is_plain(json_get_str(schema, SLICE("default"))))
        return false;
    if (slice_eq_cstr(type, "string"))
        return !choice || (json_is(choice, JSON_ARRAY) && is_choice_of_strings(choice));
    return !choice && slice_has_word(SLICE("integer number boolean"), type);
}

/* A member that the schema does not have is the model's mistake; it may be the misspelt name of a
 * missing member. */
static bool has_known_names(const struct json *schema, const struct json *input)
{
    const struct json *properties = JSON_GET(schema, "properties");
    for (uint32_t i = 0; i < input->count; i++)
        if (!json_get(properties, json_str(&input->as.members[i].key)))
            return false;
    return true;
}

static struct missing find_missing(const struct catalog_action *action, const struct json *input)
{
    const struct json *schema = action->input_schema, *required = JSON_GET(schema, "required");
    struct missing missing = {.is_askable = has_known_names(schema, input)};
    for (uint32_t i = 0; json_is(required, JSON_ARRAY) && i < required->count; i++) {
        slice name = json_str(&required->as.items[i]);
        if (!name.ptr || json_given(input, name))
            continue;
        const struct json *field = json_get(JSON_GET(schema, "properties"), name);
        if (missing.count == MISSING_MAX || !is_field(field) || !is_plain(name)) {
            missing.is_askable = false;
            return missing;
        }
        missing.names[missing.count] = name;
        missing.schemas[missing.count++] = field;
    }
    return missing;
}

/* ---- the form ---- */

/* A line break could look like the beginning of another field. */
static void put_one_line(struct json_writer *w, const char *name, slice text)
{
    struct buf line;
    buf_init(&line, text.len);
    for (size_t i = 0; i < text.len; i++)
        buf_append_char(&line,
                        slice_find_char(SLICE("\n\r\t"), text.ptr[i]) < 0 ? text.ptr[i] : ' ');
    mcp_put_visible(w, name, buf_slice(&line), SLICE_NONE);
    w->out->is_failed = w->out->is_failed || !buf_is_ok(&line);
    buf_deinit(&line);
}

static void put_field(struct json_writer *w, slice name, const struct json *schema)
{
    slice format = json_get_str(schema, SLICE("format"));
    json_key_slice(w, name);
    json_open(w, '{');
    json_member(w, "type", JSON_GET(schema, "type"));
    for (size_t i = 0; i < ARRAY_LEN(field_members); i++) {
        const struct json *member = json_get(schema, slice_cstr(field_members[i]));
        if (i < READ_MEMBERS && json_is(member, JSON_STRING))
            put_one_line(w, field_members[i], json_str(member));
        else if (member)
            json_member(w, field_members[i], member);
    }
    if (slice_has_word(SLICE("email uri date date-time"), format))
        json_member_str(w, "format", format);
    json_close(w, '}');
}

static void put_input_form(struct json_writer *w, const struct missing *missing, slice sentence)
{
    mcp_form_open(w, SLICE("input"), sentence);
    json_member_open(w, "requestedSchema", '{');
    json_member_str(w, "type", SLICE("object"));
    json_member_open(w, "properties", '{');
    for (size_t i = 0; i < missing->count; i++)
        put_field(w, missing->names[i], missing->schemas[i]);
    json_close(w, '}');
    json_member_open(w, "required", '[');
    for (size_t i = 0; i < missing->count; i++)
        json_put_str(w, missing->names[i]);
    json_close(w, ']');
    json_close(w, '}');
    mcp_form_close(w);
}

static enum op_result ask_for_input(struct api_request *request, const struct mcp_message *message,
                                    const struct catalog_action *action,
                                    const struct missing *missing)
{
    struct mcp_result result;
    struct buf text;
    buf_init(&text, SENTENCE_BYTES_MAX);
    encode_visible(&text, action->title, SLICE_NONE);
    buf_printf(&text, "\n%.*s needs more input:", SLICE_ARG(action->tool_name));
    for (size_t i = 0; i < missing->count; i++)
        buf_printf(&text, "%s %.*s", i > 0 ? "," : "", SLICE_ARG(missing->names[i]));
    slice sentence = arena_take(&request->serve.op.arena, &text);
    if (!sentence.ptr)
        return api_reply_no_memory(request);
    mcp_result_begin_as(&result, message, "input_required", 2048);
    put_input_form(&result.w, missing, sentence);
    return mcp_result_send(request, message, &result);
}

/* ---- the answer ---- */

/* Replaces the input with a copy of its table that has the new members at the end. */
static bool fill(struct arena *arena, const struct json *filled, struct exec_request *wanted)
{
    struct json *input = ARENA_NEW(arena, struct json);
    if (!input)
        return false;
    *input = json_object();
    for (uint32_t i = 0; i < wanted->input->count; i++)
        json_object_set(arena, input, json_str(&wanted->input->as.members[i].key),
                        wanted->input->as.members[i].value);
    for (uint32_t i = 0; i < filled->count; i++)
        json_object_put(arena, input, json_str(&filled->as.members[i].key),
                        filled->as.members[i].value);
    wanted->input = input;
    return !arena->is_exhausted;
}

slice mcp_input_form_answers(struct api_request *request, const struct mcp_message *message)
{
    if (!message->filled)
        return SLICE("");
    return json_text_of(message->filled, &request->serve.op.arena, 64 * MCP_FILLED_BYTES_MAX);
}

bool mcp_input_form_restore(struct api_request *request, struct mcp_message *message, slice filled,
                            struct exec_request *wanted)
{
    struct arena *arena = &request->serve.op.arena;
    if (filled.len == 0)
        return true;
    message->filled = json_parse(arena, filled, &json_limits_request, NULL);
    return message->filled && fill(arena, message->filled, wanted);
}

/* Returns the requested members that the person filled in, or NULL if out of memory. */
static struct json *read_filled(struct arena *arena, const struct missing *missing,
                                const struct json *content)
{
    struct json *filled = ARENA_NEW(arena, struct json);
    if (!filled)
        return NULL;
    *filled = json_object();
    for (size_t i = 0; i < missing->count; i++) {
        const struct json *value = json_get(content, missing->names[i]);
        if (value)
            json_object_set(arena, filled, missing->names[i], *value);
    }
    return arena->is_exhausted ? NULL : filled;
}

enum op_result mcp_input_form_take(struct api_request *request, struct mcp_message *message,
                                   const struct catalog_action *action, struct exec_request *wanted)
{
    struct arena *arena = &request->serve.op.arena;
    struct missing missing;
    if (!message->has_forms || !action)
        return OP_NEXT;
    missing = find_missing(action, wanted->input);
    if (missing.count == 0 || !missing.is_askable)
        return OP_NEXT;
    const struct json *answer = JSON_GET(message->answers, "input");
    slice decision = json_get_str(answer, SLICE("action"));
    if (slice_eq_cstr(decision, "decline") || slice_eq_cstr(decision, "cancel"))
        return OP_NEXT; /* the execution reports the missing members */
    message->filled = read_filled(arena, &missing, JSON_GET(answer, "content"));
    if (!message->filled)
        return api_reply_no_memory(request);
    if (!slice_eq_cstr(decision, "accept") || message->filled->count < missing.count)
        return ask_for_input(request, message, action, &missing);
    return fill(arena, message->filled, wanted) ? OP_NEXT : api_reply_no_memory(request);
}
