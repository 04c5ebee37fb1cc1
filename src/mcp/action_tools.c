/*
 * The catalog's tools under their own names (gmail_send_message), with their schemas.
 * /mcp?tools=gmail,slack_post_* lists some of them; any of them may be called. A tool that writes
 * also takes the argument `idempotency_key`, and a tool that needs confirmation takes `confirm`. If
 * the action has an input of that name, the argument has the prefix `sluice_`.
 */
#include "catalog/tool.h"
#include "mcp/method.h"
#include "serve/foresee.h"

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
bool mcp_action_tools_are_few(slice list)
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

/* A tool's arguments that are not inputs of the action. */
enum own { CONFIRM, KEY, OWN_COUNT };
static const struct {
    const char *name, *other, *type, *about; /* other: the name to use if the action has a member
                                              * of that name */
} owns[] = {
    [CONFIRM] = {"confirm", "sluice_confirm", "boolean",
                 "true: the person has agreed to exactly this call. Without it nothing is done, "
                 "and the result says what would be done."},
    [KEY] = {"idempotency_key", "sluice_idempotency_key", "string",
             "The same key with the same arguments runs once and gives the first result."},
};

/* Returns NULL if the tool does not take the argument. */
static const char *own_name(const struct api_request *request, const struct catalog_action *action,
                            enum own own)
{
    const struct json *properties = JSON_GET(action->input_schema, "properties");
    bool is_taken = own == CONFIRM ? serve_confirms(&request->serve, action)
                                   : action->level != LEVEL_READ;
    if (!is_taken)
        return NULL;
    return json_get(properties, slice_cstr(owns[own].name)) ? owns[own].other : owns[own].name;
}

static void put_owns(const struct api_request *request, struct json_writer *w,
                     const struct catalog_action *action)
{
    for (enum own own = 0; own < OWN_COUNT; own++) {
        const char *name = own_name(request, action, own);
        if (!name)
            continue;
        json_member_open(w, name, '{');
        json_member_str(w, "type", slice_cstr(owns[own].type));
        json_member_str(w, "description", slice_cstr(owns[own].about));
        json_close(w, '}');
    }
}

/* The top level has only keywords that all clients accept; catalog_tool_description has the
 * rest. */
static void put_schema(const struct api_request *request, struct json_writer *w,
                       const struct catalog_action *action)
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
    put_owns(request, w, action);
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

/* Writes what the key's policy says about the tool, for clients that show it. */
static void put_policy(const struct api_request *request, struct json_writer *w,
                       const struct catalog_action *action)
{
    struct policy_verdict verdict;
    if (!serve_policy(&request->serve))
        return;
    serve_foresee(&request->serve, action, &verdict);
    json_member_open(w, "_meta", '{');
    json_member_open(w, MCP_META_POLICY, '{');
    policy_put_decision(w, &verdict);
    json_close(w, '}');
    json_close(w, '}');
}

/* Writes a tool with its hints for clients. Many clients decide by readOnlyHint alone whether to
 * ask their user. */
static void put_tool(struct api_request *request, struct json_writer *w,
                     const struct catalog_action *action)
{
    json_open(w, '{');
    json_member_str(w, "name", action->tool_name);
    json_member_str(w, "title", action->title);
    json_member_str(w, "description", catalog_tool_description(action, &request->serve.op.arena));
    put_schema(request, w, action);
    json_member_open(w, "annotations", '{');
    json_member_bool(w, "readOnlyHint", action->level == LEVEL_READ);
    json_member_bool(w, "destructiveHint",
                     action->level == LEVEL_DELETE || action->level == LEVEL_ADMIN);
    json_member_bool(w, "idempotentHint", action->is_idempotent);
    json_member_bool(w, "openWorldHint", true);
    json_close(w, '}');
    put_policy(request, w, action);
    json_close(w, '}');
}

void mcp_action_tools_put(struct api_request *request, struct json_writer *w, size_t room)
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

/* Returns the arguments that are inputs of the action. If some arguments are the tool's own, their
 * table is copied, but not the values. given receives the tool's own arguments, NULL where absent
 * or null. Returns NULL if out of memory. */
static const struct json *take_owns(struct api_request *request,
                                    const struct catalog_action *action,
                                    const struct json *arguments, const struct json **given)
{
    struct arena *arena = &request->serve.op.arena;
    const char *names[OWN_COUNT];
    bool is_any = false;
    for (enum own own = 0; own < OWN_COUNT; own++) {
        names[own] = own_name(request, action, own);
        slice name = names[own] ? slice_cstr(names[own]) : SLICE_NONE;
        given[own] = names[own] ? json_given(arguments, name) : NULL;
        is_any = is_any || (names[own] && json_get(arguments, name));
    }
    if (!is_any)
        return arguments;
    struct json *rest = ARENA_NEW(arena, struct json);
    if (!rest)
        return NULL;
    *rest = json_object();
    for (uint32_t i = 0; i < arguments->count; i++) {
        const struct json_member *member = &arguments->as.members[i];
        bool is_own = false;
        for (enum own own = 0; own < OWN_COUNT; own++)
            is_own = is_own || (names[own] && slice_eq_cstr(json_str(&member->key), names[own]));
        if (!is_own)
            json_object_set(arena, rest, json_str(&member->key), member->value);
    }
    return arena->is_exhausted ? NULL : rest;
}

/* Checks the types of the tool's own arguments. Returns false if it has answered the request. */
static bool check_owns(struct api_request *request, const struct catalog_action *action,
                       const struct json *const *given)
{
    static const char *const wanted[] = {[CONFIRM] = "true or false", [KEY] = "a string"};
    static const enum json_type types[] = {[CONFIRM] = JSON_BOOL, [KEY] = JSON_STRING};
    for (enum own own = 0; own < OWN_COUNT; own++)
        if (given[own] && given[own]->type != types[own]) {
            (void)api_reply_error(request, 400, "%s must be %s, got %s",
                                  own_name(request, action, own), wanted[own],
                                  json_type_name(given[own]));
            return false;
        }
    return true;
}

static enum op_result refuse_unknown(struct api_request *request)
{
    const struct mcp_message *message = request->outer;
    const struct catalog *catalog = *request->api->config.catalog;
    const bool *unlisted;
    if (serve_unlisted(&request->serve, catalog, &unlisted) != OK)
        return api_reply_no_memory(request);
    slice text = catalog_say_no_tool(catalog, message->name, unlisted, &request->serve.op.arena);
    return mcp_reply_error(request, message, 200, MCP_INVALID_PARAMS, SLICE_NONE,
                           "Unknown tool: %.*s", SLICE_ARG(text));
}

static const struct catalog_action *named_action(const struct api_request *request)
{
    const struct mcp_message *message = request->outer;
    return serve_known(&request->serve,
                       catalog_find_tool(*request->api->config.catalog, message->name));
}

static enum op_result begin_action_tool(struct api_request *request)
{
    const struct mcp_message *message = request->outer;
    /* the catalog may have been replaced while the user was created */
    const struct catalog_action *action = named_action(request);
    if (!action)
        return refuse_unknown(request);
    const struct json *given[OWN_COUNT], *input = take_owns(request, action, request->body, given);
    if (!input)
        return api_reply_no_memory(request);
    if (!check_owns(request, action, given))
        return OP_DONE;
    struct exec_request wanted = {
        .integration_id = slice_first(message->name, action->integration->integration_id.len),
        .action_id = message->name,
        .input = input,
        .input_pointer = SLICE(""),
        .confirm_name = own_name(request, action, CONFIRM),
        .is_confirmed = given[CONFIRM] && given[CONFIRM]->as.boolean,
        .idempotency_key = json_str(given[KEY]),
        .key_name = own_name(request, action, KEY),
    };
    if (!wanted.key_name) /* a read has no argument for a key */
        wanted.key_name = MCP_META_KEY_NAME;
    mcp_run_prepare(request, message, &wanted);
    return mcp_run(request, &wanted);
}

enum op_result mcp_action_tool_call(struct api_request *request, const struct mcp_message *message,
                                    const struct json *arguments)
{
    ASSERT(request->outer == message);
    if (!named_action(request))
        return refuse_unknown(request);
    request->endpoint = &mcp_run_action; /* both endpoints end in the same way */
    request->envelope = &mcp_tool_result;
    request->body = arguments;
    if (!api_may(request, SCOPE_EXECUTE, NULL))
        return api_refuse_scope(request, SCOPE_EXECUTE);
    return api_with_user(request, begin_action_tool);
}
