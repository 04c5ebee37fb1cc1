/*
 * The tools of the catalog under their own names (gmail_send_message), with their schemas:
 * /mcp?tools=gmail,slack_post_* lists them, and any may be called. A tool that needs confirmation
 * takes an argument more, `confirm`; where the action has an input of that name, `sluice_confirm`.
 */
#include "catalog/tool.h"
#include "mcp/method.h"

/* ---- the list ---- */

bool mcp_name_is_like(slice name, slice pattern)
{
    ptrdiff_t star = slice_find_char(pattern, '*');
    if (star < 0)
        return slice_eq(name, pattern);
    slice before = slice_first(pattern, (size_t)star),
          after = slice_from(pattern, (size_t)star + 1);
    return name.len >= before.len + after.len && slice_starts_with(name, before) &&
           slice_ends_with(name, after);
}

/* Each item is compared with every name of the catalog, in one turn of the loop. */
bool mcp_real_tools_are_few(slice list)
{
    for (size_t count = 0; list.len > 0; count++) {
        slice item = slice_split(&list, ',');
        ptrdiff_t star = slice_find_char(item, '*');
        if (count == MCP_TOOLS_ITEMS_MAX ||
            (star >= 0 && slice_find_char(slice_from(item, (size_t)star + 1), '*') >= 0))
            return false;
    }
    return true;
}

/* An item is an integration's id, a tool's name, or either with `*`. */
static bool is_wanted(const struct catalog_action *action, slice list)
{
    while (list.len > 0) {
        slice item = slice_trim(slice_split(&list, ','));
        if (mcp_name_is_like(action->integration->integration_id, item) ||
            mcp_name_is_like(action->tool_name, item))
            return true;
    }
    return false;
}

/* What the argument is called that confirms a write. */
static const char *confirm_name(const struct catalog_action *action)
{
    return json_get(JSON_GET(action->input_schema, "properties"), SLICE("confirm"))
               ? "sluice_confirm"
               : "confirm";
}

static void put_confirm(struct json_writer *w, const struct catalog_action *action)
{
    json_member_open(w, confirm_name(action), '{');
    json_member_str(w, "type", SLICE("boolean"));
    json_member_str(w, "description",
                    SLICE("true: the person who is asked for has agreed to this very call. Without "
                          "it nothing is done, and the result says what would be."));
    json_close(w, '}');
}

/* At its top there is what all clients take; catalog_tool_description says the rest. */
static void put_schema(struct json_writer *w, const struct catalog_action *action)
{
    const struct json *schema = action->input_schema, *properties = JSON_GET(schema, "properties");
    const struct json *required = JSON_GET(schema, "required");
    const struct json *more = JSON_GET(schema, "additionalProperties");
    struct catalog_tool tool;
    catalog_tool_begin(&tool, schema);
    json_member_open(w, "inputSchema", '{');
    json_member_str(w, "type", SLICE("object"));
    json_member_open(w, "properties", '{');
    for (uint32_t i = 0; json_is(properties, JSON_OBJECT) && i < properties->count; i++) {
        json_key_slice(w, json_str(&properties->as.members[i].key));
        catalog_tool_put_schema(&tool, w, &properties->as.members[i].value);
    }
    if (action->requires_confirmation)
        put_confirm(w, action);
    json_close(w, '}');
    json_member_open(w, "required", '[');
    for (uint32_t i = 0; json_is(required, JSON_ARRAY) && i < required->count; i++)
        json_put(w, &required->as.items[i]);
    json_close(w, ']');
    json_key(w, "additionalProperties");
    if (more)
        catalog_tool_put_schema(&tool, w, more);
    else
        json_put_bool(w, true);
    json_close(w, '}');
}

/* Hints for clients, many of which ask their user by readOnlyHint alone. */
static void put_tool(struct api_request *request, struct json_writer *w,
                     const struct catalog_action *action)
{
    json_open(w, '{');
    json_member_str(w, "name", action->tool_name);
    json_member_str(w, "title", action->title);
    json_member_str(w, "description", catalog_tool_description(action, &request->serve.op.arena));
    put_schema(w, action);
    json_member_open(w, "annotations", '{');
    json_member_bool(w, "readOnlyHint", action->level == LEVEL_READ);
    json_member_bool(w, "destructiveHint",
                     action->level == LEVEL_DELETE || action->level == LEVEL_ADMIN);
    json_member_bool(w, "idempotentHint", action->is_idempotent);
    json_member_bool(w, "openWorldHint", true);
    json_close(w, '}');
    json_close(w, '}');
}

void mcp_real_tools_put(struct api_request *request, struct json_writer *w, size_t room)
{
    const struct catalog *catalog = *request->api->config.catalog;
    slice list = http_query_get(request->serve.exchange, SLICE("tools"));
    for (size_t i = 0; list.ptr && i < catalog->integration_count; i++) {
        const struct catalog_integration *integration = catalog->integrations[i];
        for (size_t k = 0; room > 0 && k < integration->action_count; k++) {
            const struct catalog_action *head = &integration->actions[k];
            if (!is_wanted(head, list) || !api_may(request, SCOPE_EXECUTE, head))
                continue;
            const struct catalog_action *action = catalog_find_tool(catalog, head->tool_name);
            if (!action)
                continue;
            put_tool(request, w, action);
            room--;
        }
    }
}

/* ---- a call ---- */

/* The arguments without that one: a copy of their table, not of the values. NULL: no memory. */
static struct json *leave_out(struct arena *arena, const struct json *arguments, slice name)
{
    struct json *rest = ARENA_NEW(arena, struct json);
    if (!rest)
        return NULL;
    *rest = json_object();
    for (uint32_t i = 0; i < arguments->count; i++)
        if (!slice_eq(json_str(&arguments->as.members[i].key), name))
            json_object_set(arena, rest, json_str(&arguments->as.members[i].key),
                            arguments->as.members[i].value);
    return arena->is_exhausted ? NULL : rest;
}

enum op_result mcp_real_tool_call(struct api_request *request, const struct mcp_message *message,
                                  const struct json *arguments)
{
    const struct catalog *catalog = *request->api->config.catalog;
    const struct catalog_action *action = catalog_find_tool(catalog, message->name);
    struct arena *arena = &request->serve.op.arena;
    if (!action)
        return mcp_reply_error(request, message, 200, MCP_INVALID_PARAMS, SLICE_NONE,
                               "Unknown tool: %.*s",
                               SLICE_ARG(catalog_say_no_tool(catalog, message->name, arena)));
    request->endpoint = &mcp_run_action; /* its end is the same */
    request->envelope = &mcp_tool_result;
    if (!api_may(request, SCOPE_EXECUTE, action))
        return api_refuse_scope(request, SCOPE_EXECUTE);
    slice name = slice_cstr(confirm_name(action));
    const struct json *confirm = action->requires_confirmation ? json_get(arguments, name) : NULL;
    if (confirm && confirm->type != JSON_BOOL && confirm->type != JSON_NULL)
        return api_reply_error(request, 400, "%.*s must be true or false, got %s", SLICE_ARG(name),
                               json_type_name(confirm));
    struct exec_request wanted = {
        .integration_id = slice_first(message->name, action->integration->integration_id.len),
        .action_id = message->name,
        .input = confirm ? leave_out(arena, arguments, name) : arguments,
        .input_pointer = SLICE(""),
        .confirm_name = name.ptr,
        .is_confirmed = json_get_bool(arguments, name, false) && confirm,
    };
    if (!wanted.input)
        return api_reply_no_memory(request);
    mcp_run_prepare(request, message, &wanted);
    return mcp_run(request, &wanted);
}
