/*
 * tools/list and tools/call: twelve tools that cost a model little, and optionally those of the
 * catalog (action_tools.c). Endpoints do the work of a tool; its result is that endpoint's JSON, as
 * text for the model, in which data from outside is marked (outside.h), and as structuredContent
 * for a program that asks for it: many clients show a model both, or only the latter. A refusal is
 * a result, too (isError), so that a model can act on it; only an unknown tool or a malformed
 * request is an error of the protocol.
 */
#include "catalog/tool.h"
#include "flow/template.h"
#include "json/scan.h"
#include "mcp/describe.h"
#include "mcp/flow_view.h"
#include "mcp/list_text.h"
#include "mcp/method.h"
#include "mcp/outside.h"
#include "mcp/search.h"
#include "mcp/slips.h"
#include "mcp/start.h"
#include "mcp/words.h"

enum {
    TOOLS_MAX = 128, /* on one page: many clients do not request another page */
    INPUTS_MAX = 12,
    APPS_PAGE = 100, /* the whole catalog, unless many apps were imported */
    RESULT_BYTES_MAX = 4 * MCP_OUTPUT_BYTES_MAX, /* includes the frame of an output */
};

/* An argument of a tool: one property of its schema. */
struct input {
    const char *name, *type; /* type "objects": an array of objects */
    const char *about;       /* NULL if the name says it all */
    bool is_required;
};

struct tool {
    const char *name, *title, *about;
    const struct api_endpoint *endpoint; /* the tool needs the scope of this endpoint */
    bool is_read, is_destructive;
    bool is_own; /* its results contain no data from outside, only the catalog and ids */
    /* passes the request to that endpoint, or to another endpoint with the same scope */
    enum op_result (*begin)(struct api_request *request, const struct tool *tool,
                            const struct json *arguments);
    struct input inputs[INPUTS_MAX]; /* ends at the first input without a name */
};

/* ---- the tools ---- */

/* For tools whose arguments are the endpoint's members or parameters. */
static enum op_result call_endpoint(struct api_request *request, const struct tool *tool,
                                    const struct json *arguments)
{
    return api_delegate(request, tool->endpoint, arguments, &mcp_tool_result);
}

/* The arguments contain the ids of the endpoint's path. */
static enum op_result call_describe_action(struct api_request *request, const struct tool *tool,
                                           const struct json *arguments)
{
    slice template = json_get_str(arguments, SLICE("template"));
    request->serve.match.params[0] = template;
    if (slice_eq_cstr(template, "*"))
        return api_delegate(request, &api_flows_templates, arguments, &mcp_tool_result);
    if (template.len > 0)
        return api_delegate(request, &api_flows_template, arguments, &mcp_tool_result);
    request->serve.match.params[0] = json_get_str(arguments, SLICE("integration_id"));
    request->serve.match.params[1] = json_get_str(arguments, SLICE("action_id"));
    slice fault = mcp_description_fault(arguments);
    if (request->serve.match.params[0].len == 0 || request->serve.match.params[1].len == 0)
        fault = SLICE("integration_id and action_id are required, or template alone");
    if (!fault.ptr)
        return api_delegate(request, tool->endpoint, arguments, &mcp_description_result);
    return mcp_refuse_call(request, fault);
}

/* With a link_id, the result is the state of that link: ids and times, no data from outside. */
static enum op_result call_list_connections(struct api_request *request, const struct tool *tool,
                                            const struct json *arguments)
{
    const struct json *link_id = json_given(arguments, SLICE("link_id"));
    bool is_filtered = json_given(arguments, SLICE("integration_id")) ||
                       json_given(arguments, SLICE("cursor"));
    ((struct mcp_message *)request->outer)->is_own = link_id != NULL;
    request->serve.match.params[0] = json_str(link_id);
    if (link_id && !is_filtered)
        return api_delegate(request, &api_connect_session_get, arguments, &mcp_tool_result);
    if (link_id)
        return mcp_refuse_call(
            request,
            SLICE("link_id can be combined only with wait: leave out integration_id and cursor"));
    if (json_given(arguments, SLICE("wait")))
        return mcp_refuse_call(request,
                               SLICE("wait needs link_id, the id that connect_app has returned"));
    return api_delegate(request, tool->endpoint, arguments, &mcp_connections_result);
}

/* The next three tools add a member to the arguments: the limit of a result, or what a line of a
 * list needs. */
static enum op_result call_read_result(struct api_request *request, const struct tool *tool,
                                       const struct json *arguments)
{
    struct arena *arena = &request->serve.op.arena;
    struct json *query = json_dup(arena, arguments);
    bool wants_view;
    if (!query)
        return api_reply_no_memory(request);
    slice fault = mcp_view_read(arguments, &wants_view);
    if (fault.ptr)
        return mcp_refuse_call(request, fault);
    request->serve.match.params[0] = json_get_str(arguments, SLICE("execution_id"));
    json_object_set(arena, query, SLICE("max_output_bytes"), json_i64(MCP_OUTPUT_BYTES));
    return api_delegate(request, tool->endpoint, query, &mcp_tool_result);
}

static enum op_result call_list_apps(struct api_request *request, const struct tool *tool,
                                     const struct json *arguments)
{
    struct arena *arena = &request->serve.op.arena;
    struct json *query = json_dup(arena, arguments);
    if (!query)
        return api_reply_no_memory(request);
    json_object_set(arena, query, SLICE("page_size"), json_i64(APPS_PAGE));
    return api_delegate(request, tool->endpoint, query, &mcp_apps_result);
}

static enum op_result call_history(struct api_request *request, const struct tool *tool,
                                   const struct json *arguments)
{
    struct arena *arena = &request->serve.op.arena;
    struct json *query = json_dup(arena, arguments);
    if (!query)
        return api_reply_no_memory(request);
    json_object_set(arena, query, SLICE("display"), json_bool(true));
    json_object_set(arena, query, SLICE("flow_calls"), json_bool(true));
    return api_delegate(request, tool->endpoint, query, &mcp_history_result);
}

static enum op_result call_cancel_flow(struct api_request *request, const struct tool *tool,
                                       const struct json *arguments)
{
    request->serve.match.params[0] = json_get_str(arguments, SLICE("flow_id"));
    return api_delegate(request, tool->endpoint, arguments, &mcp_flow_result);
}

static enum op_result call_start_flow(struct api_request *request, const struct tool *tool,
                                      const struct json *arguments)
{
    (void)tool;
    return mcp_start_flow(request, arguments);
}

static enum op_result call_get_flow(struct api_request *request, const struct tool *tool,
                                    const struct json *arguments)
{
    (void)tool;
    return mcp_get_flow(request, arguments);
}

static const struct tool tools[] = {
    {"search_actions", "Search actions",
     "Finds actions and templates for what you want to do, best first. f(a!, b | c, ...): a is "
     "required, and b or c; ... more inputs; [] a list, {} an object.",
     &mcp_search, .is_read = true, .is_own = true, .begin = call_endpoint,
     .inputs = {{"query", "string", "One thing to do, in words", false},
                {"queries", "array", "Instead: up to 5 things", false},
                {"connected_only", "boolean", "Only connected apps", false},
                {"limit", "integer", "Results of each, 1 to 100. Default: 5", false}}},
    {"describe_action", "Describe an action",
     "The input schema, examples and preconditions of an action or a template.", &api_actions_get,
     .is_read = true, .is_own = true, .begin = call_describe_action,
     .inputs = {{"integration_id", "string", NULL, false},
                {"action_id", "string", NULL, false},
                {"template", "string", "Instead: a template. * lists all", false},
                {"include", "array", "Also: output, provenance, scopes, version", false}}},
    {"run_action", "Run an action",
     "Runs one action. An action that writes is blocked without confirm and says what it would do.",
     &mcp_run_action, .is_destructive = true, .begin = call_endpoint,
     .inputs = {{"integration_id", "string", NULL, true},
                {"action_id", "string", NULL, true},
                {"input", "object", "As the action's input_schema says", true},
                {"confirm", "boolean", "The person has agreed to exactly this call", false},
                {"connection_id", "string", "By id or label, if the app has several", false},
                {"idempotency_key", "string", "Same key and input: runs once", false},
                {"dry_run", "boolean", "Send nothing; return the request", false},
                {"shows", "boolean", "With dry_run: read what the ids mean", false},
                {"max_output_bytes", "integer", "A larger output is cut. Default: 32768", false},
                {"max_pages", "integer", "List pages to read, 1 to 100", false},
                {"select", "string", "JMESPath over the output", false},
                {"view", "string", "full: also what a result has left_out", false}}},
    {"run_actions", "Run several actions",
     "Runs up to 50 calls of run_action at once; results in order.", &mcp_run_actions,
     .is_destructive = true, .begin = call_endpoint,
     .inputs = {{"actions", "objects", "Arguments of run_action", true}}},
    {"read_result", "Read a result", "Reads on where an output was cut, or reads any part of it.",
     &api_executions_get, .is_read = true, .begin = call_read_result,
     .inputs = {{"execution_id", "string", NULL, true},
                {"pointer", "string", "As the cut has it, or of any part", false},
                {"offset", "integer", "The cut's `kept`", false},
                {"select", "string", "As in the call", false},
                {"view", "string", "As in the call", false}}},
    {"start_flow", "Start a flow",
     "Starts a durable run of a template and returns its flow. describe_action with `template` "
     "has its input. Templates: ",
     &api_flows_start, .is_destructive = true, .begin = call_start_flow,
     .inputs = {{"template", "string", "The template's key", true},
                {"input", "object", "As the template's input_schema says", false},
                {"wait", "integer", "As for get_flow", false},
                {"idempotency_key", "string", "Same key and input: one flow", false}}},
    {"get_flow", "Read a flow",
     "Returns the state of a flow, its steps, and its last output or the approval that it waits "
     "for. A person has to approve it.",
     &api_flows_get, .is_read = true, .begin = call_get_flow,
     .inputs = {{"flow_id", "string", "As start_flow returns it", true},
                {"wait", "integer", "Seconds to wait, at most 60", false},
                {"until", "string", "ended: wait also for an approval or a time", false},
                {"include", "array",
                 "steps: every step's input and output; context: the flow's input and outputs",
                 false}}},
    {"cancel_flow", "Cancel a flow", "Stops a flow for good.", &api_flows_cancel,
     .is_destructive = true, .begin = call_cancel_flow,
     .inputs = {{"flow_id", "string", NULL, true}}},
    {"list_apps", "List apps", "All apps, and whether each is connected.", &api_integrations_list,
     .is_read = true, .is_own = true, .begin = call_list_apps,
     .inputs = {{"connected_only", "boolean", "Only connected apps", false},
                {"page", "integer", "Default: 1", false}}},
    {"history", "Read the history",
     "Each action that ran, also in flows, newest first, with time, outcome and key.",
     &api_executions_list, .is_read = true, .begin = call_history,
     .inputs = {{"since", "string", "A time, a UTC date, or an age: 24h, 7d", false},
                {"integration_id", "string", "Only of this app", false},
                {"status", "string", "succeeded or failed", false},
                {"limit", "integer", "1 to 100. Default: 20", false},
                {"cursor", "string", "Of the previous page", false}}},
    {"list_connections", "List connections",
     "Connections: app, label, login, status, default. With link_id: whether that link was used.",
     &api_connections_list, .is_read = true, .begin = call_list_connections,
     .inputs = {{"integration_id", "string", "Only of this app", false},
                {"cursor", "string", "Of the previous page", false},
                {"link_id", "string", "As connect_app returns it", false},
                {"wait", "integer", "Seconds to wait for its use, at most 60", false}}},
    {"connect_app", "Connect an app",
     "Makes a link for a person to connect an app. Show them the link. It works once, for 15 "
     "minutes. Wait for its use with list_connections, then repeat the blocked call.",
     &api_connect_session, .is_own = true, .begin = call_endpoint,
     .inputs = {{"integration_id", "string", NULL, true},
                {"force_reconnect", "boolean", "Renew the existing grant", false},
                {"connection_id", "string", "Which to reconnect, if there are several", false},
                {"email", "string", "Only the login with this email", false},
                {"subject", "string", "Only the login with this id", false}}},
};

/* ---- tools/list ---- */

static void put_schema(struct json_writer *w, const struct tool *tool)
{
    json_member_open(w, "inputSchema", '{');
    json_member_str(w, "type", SLICE("object"));
    json_member_open(w, "properties", '{');
    for (size_t i = 0; i < INPUTS_MAX && tool->inputs[i].name; i++) {
        json_member_open(w, tool->inputs[i].name, '{');
        bool has_objects = strcmp(tool->inputs[i].type, "objects") == 0;
        json_member_str(w, "type", has_objects ? SLICE("array") : slice_cstr(tool->inputs[i].type));
        if (tool->inputs[i].about)
            json_member_str(w, "description", slice_cstr(tool->inputs[i].about));
        /* Without additionalProperties, some clients send an object without members. */
        if (strcmp(tool->inputs[i].type, "object") == 0)
            json_member_bool(w, "additionalProperties", true);
        if (strcmp(tool->inputs[i].type, "array") == 0)
            json_member_raw(w, "items", SLICE("{\"type\":\"string\"}"));
        if (has_objects)
            json_member_raw(w, "items",
                            SLICE("{\"type\":\"object\",\"additionalProperties\":true}"));
        json_close(w, '}');
    }
    json_close(w, '}');
    json_member_open(w, "required", '[');
    for (size_t i = 0; i < INPUTS_MAX && tool->inputs[i].name; i++)
        if (tool->inputs[i].is_required)
            json_put_str(w, slice_cstr(tool->inputs[i].name));
    json_close(w, ']');
    json_member_bool(w, "additionalProperties", false);
    json_close(w, '}');
}

/* Adds a line for each template, with its description or only its name; as many lines as fit. */
static bool add_templates(struct arena_text *text, const struct api_request *request, bool is_short)
{
    const struct flow_template_set *set = *request->api->config.templates;
    for (size_t i = 0; i < set->count; i++) {
        const struct flow_template *one = set->items[i];
        if (!api_may_start(request, one))
            continue;
        slice about = is_short ? one->name : catalog_summary(one->description);
        size_t len = 4 + one->key.len + about.len;
        if (len > text->bytes_max - text->len)
            return is_short;
        ARENA_TEXT_LIT(text, "\n- ");
        arena_text_add(text, one->key);
        ARENA_TEXT_LIT(text, ": ");
        arena_text_add(text, about);
    }
    return true;
}

/* The description of start_flow lists the present templates. */
static slice about(struct api_request *request, const struct tool *tool)
{
    struct arena_text text = {.len = 0};
    bool is_whole = false;
    if (tool->endpoint != &api_flows_start)
        return slice_cstr(tool->about);
    for (int is_short = 0; is_short < 2 && !is_whole; is_short++) {
        arena_text_init(&text, &request->serve.op.arena, CATALOG_TOOL_TEXT_MAX);
        arena_text_add(&text, slice_cstr(tool->about));
        is_whole = add_templates(&text, request, is_short);
    }
    return text.status == OK ? slice_of(text.ptr, text.len) : slice_cstr(tool->about);
}

static void put_tool(struct api_request *request, struct json_writer *w, const struct tool *tool)
{
    json_open(w, '{');
    json_member_str(w, "name", slice_cstr(tool->name));
    json_member_str(w, "title", slice_cstr(tool->title));
    json_member_str(w, "description", about(request, tool));
    put_schema(w, tool);
    json_member_open(w, "annotations", '{');
    json_member_bool(w, "readOnlyHint", tool->is_read);
    if (!tool->is_read) /* the others have their default values */
        json_member_bool(w, "destructiveHint", tool->is_destructive);
    json_close(w, '}');
    json_close(w, '}');
}

enum op_result mcp_tools_list(struct api_request *request, const struct mcp_message *message)
{
    struct mcp_result result;
    size_t count = 0;
    slice list = http_query_get(request->serve.exchange, SLICE("tools"));
    if (JSON_GET(message->params, "cursor"))
        return mcp_reply_error(request, message, 200, MCP_INVALID_PARAMS, SLICE_NONE,
                               "Unknown cursor. All tools are on the first page.");
    if (!mcp_action_tools_are_few(list))
        return mcp_reply_error(
            request, message, 200, MCP_INVALID_PARAMS, SLICE_NONE,
            "The query parameter tools takes at most %d items, each with at most "
            "one *",
            MCP_TOOLS_ITEMS_MAX);
    if (list.ptr && catalog_open_heads(*request->api->config.catalog) != OK)
        return api_reply_no_memory(request);
    mcp_result_begin(&result, message, 16 * 1024);
    json_member_open(&result.w, "tools", '[');
    for (size_t i = 0; i < ARRAY_LEN(tools); i++)
        if (api_may(request, tools[i].endpoint->scope, NULL)) {
            put_tool(request, &result.w, &tools[i]);
            count++;
        }
    mcp_action_tools_put(request, &result.w, TOOLS_MAX - count);
    json_close(&result.w, ']');
    mcp_result_put_caching(&result, message, MCP_LIST_TTL_MS);
    return mcp_result_send(request, message, &result);
}

/* ---- tools/call ---- */

static const struct input *input_of_tool(const struct tool *tool, slice name)
{
    for (size_t i = 0; i < INPUTS_MAX && tool->inputs[i].name; i++)
        if (slice_eq_cstr(name, tool->inputs[i].name))
            return &tool->inputs[i];
    return NULL;
}

const char *mcp_argument_type(const char *tool, slice name)
{
    for (size_t i = 0; i < ARRAY_LEN(tools); i++)
        if (strcmp(tool, tools[i].name) == 0) {
            const struct input *input = input_of_tool(&tools[i], name);
            return input ? input->type : NULL;
        }
    return NULL;
}

/* Returns the first argument that is not one of the tool's inputs and that the endpoint would
 * ignore, or SLICE_NONE. The endpoint itself refuses a misspelt member that it knows, with its
 * right name. */
static slice unknown_argument(const struct tool *tool, const struct json *arguments)
{
    const struct api_names *members = tool->endpoint->members;
    for (uint32_t i = 0; i < arguments->count; i++) {
        slice name = json_str(&arguments->as.members[i].key);
        bool is_misspelt = false;
        for (size_t k = 0; members && k < API_NAMES_OTHER_MAX && members->other[k].name; k++)
            is_misspelt = is_misspelt || slice_eq_cstr(name, members->other[k].name);
        if (!input_of_tool(tool, name) && !is_misspelt)
            return name;
    }
    return SLICE_NONE;
}

static enum op_result call_own_tool(struct api_request *request, const struct tool *tool,
                                    const struct json *arguments)
{
    slice unknown = unknown_argument(tool, arguments);
    struct mcp_message *message = request->outer;
    message->is_own = tool->is_own;
    if (!unknown.ptr)
        arguments = mcp_mend_arguments(request, message, tool->name, arguments);
    if (!arguments)
        return api_reply_no_memory(request);
    message->result_members = mcp_slips_member(request, message);
    if (!unknown.ptr)
        return tool->begin(request, tool, arguments);
    struct arena_text text;
    arena_text_init(&text, &request->serve.op.arena, CATALOG_TOOL_TEXT_MAX);
    for (size_t i = 0; i < INPUTS_MAX && tool->inputs[i].name; i++) {
        arena_text_add(&text, i > 0 ? SLICE(", ") : SLICE_NONE);
        arena_text_add(&text, slice_cstr(tool->inputs[i].name));
    }
    return mcp_refuse_call(request,
                           api_sentence(request, "%s has no argument %.*s. Its arguments are %.*s.",
                                        tool->name,
                                        SLICE_ARG(json_excerpt(unknown, &request->serve.op.arena)),
                                        (int)text.len, text.ptr));
}

/* The names never collide with the catalog's: a tool's name there begins with an integration and
 * an underscore, and no integration is called search, describe, run, read, start, get, cancel, list
 * or connect; history has no underscore. The API refers to one of them with the service's prefix:
 * sluice.connect_app. */
enum op_result mcp_tools_call(struct api_request *request, const struct mcp_message *message)
{
    static const struct json none = {.type = JSON_OBJECT};
    const struct json *arguments = JSON_GET(message->params, "arguments");
    if (!message->name.ptr)
        return mcp_reply_error(request, message, 200, MCP_INVALID_PARAMS, SLICE_NONE,
                               "params.name must be the name of a tool");
    if (arguments && arguments->type != JSON_OBJECT)
        return mcp_reply_error(request, message, 200, MCP_INVALID_PARAMS, SLICE_NONE,
                               "params.arguments must be an object, got %s",
                               json_type_name(arguments));
    if (!arguments)
        arguments = &none;
    slice own = slice_starts_with(message->name, SLICE("sluice."))
                    ? slice_from(message->name, strlen("sluice."))
                    : message->name;
    for (size_t i = 0; i < ARRAY_LEN(tools); i++)
        if (slice_eq_cstr(own, tools[i].name))
            return call_own_tool(request, &tools[i], arguments);
    return mcp_action_tool_call(request, message, arguments);
}

/* ---- a result ---- */

/* Replaces a flow's view that is too large. The output of an execution has already been
 * truncated. */
static slice leave_flow_out(struct arena *arena, slice json_text, enum mcp_reader reader)
{
    struct json_text text;
    slice id = json_scan_get(json_text, SLICE("flowId"), arena);
    if (!id.ptr)
        id = json_scan_pointer(json_text, SLICE("/flow/id"), arena);
    struct json_writer *w = json_text_begin(&text, 1024);
    json_open(w, '{');
    json_member_bool(w, "truncated", true);
    json_member_i64(w, "bytes", (int64_t)json_text.len);
    json_member_raw(w, "flowId", id);
    json_member_str(
        w, "hint", arena_printf(arena, "Too large for a result. %s", mcp_words_whole_flow(reader)));
    json_close(w, '}');
    return json_text_take(&text, arena);
}

static void put_structured(struct json_writer *w, struct arena *arena, slice json_text)
{
    const struct json *value = json_parse(arena, json_text, &json_limits_provider, NULL);
    if (!value)
        return;
    json_key(w, "structuredContent");
    json_put_without_nulls(w, value); /* a null makes some clients drop the whole result */
}

/* The lines of a list that a model reads. */
static struct mcp_outside list_of(const struct mcp_message *message, struct arena *arena)
{
    slice lines = message->list_lines, end = message->list_end, slips = message->result_members;
    if (slips.len > 0) /* a member, without the comma after it */
        end = arena_printf(arena, "%.*s%s{%.*s}", SLICE_ARG(end), end.len > 0 ? "\n" : "",
                           SLICE_ARG(slice_first(slips, slips.len - 1)));
    bool has_both = lines.len > 0 && end.len > 0;
    if (message->is_own || lines.len == 0)
        return (struct mcp_outside){
            .own = ARENA_JOIN(arena, lines, has_both ? SLICE("\n") : SLICE_NONE, end)};
    return (struct mcp_outside){.own = end, .outside = lines};
}

void mcp_tool_result_put(struct json_writer *w, struct api_request *request, struct arena *arena,
                         slice json_text, bool is_error)
{
    const struct mcp_message *message = request->outer;
    if (json_text.len > RESULT_BYTES_MAX)
        json_text = leave_flow_out(arena, json_text, mcp_reader_of(request));
    json_text = mcp_words_say_json(json_text, mcp_reader_of(request), arena);
    if (message->result_members.ptr && slice_starts_with(json_text, SLICE("{\"")))
        json_text =
            ARENA_JOIN(arena, SLICE("{"), message->result_members, slice_from(json_text, 1));
    struct mcp_outside found = {.own = json_text};
    bool is_found = message->is_own || mcp_outside_find(json_text, arena, &found);
    struct mcp_outside read = message->list_lines.ptr ? list_of(message, arena) : found;
    slice text = is_found ? mcp_outside_text(&read, arena) : SLICE_NONE;
    json_member_open(w, "content", '[');
    json_open(w, '{');
    json_member_str(w, "type", SLICE("text"));
    json_member_str(w, "text", text.ptr ? text : SLICE("Out of memory"));
    json_close(w, '}');
    json_close(w, ']');
    if (message->is_structured && is_found)
        put_structured(w, arena, mcp_outside_object(&found, json_text, arena));
    if (is_error)
        json_member_bool(w, "isError", true);
}

/* json_text: an endpoint's reply. A problem that a model cannot solve (the server is busy, the rate
 * is exceeded, the key was revoked during the call) is an error with its HTTP status, for the
 * client. */
static enum op_result reply_tool(struct api_request *request, unsigned status, slice json_text,
                                 struct op *owner)
{
    const struct mcp_message *message = request->outer;
    struct mcp_result result;
    bool is_guard = slice_starts_with(json_text, SLICE("{\"error\":"));
    if (status == 401 || status == 429 || status == 503 || (status == 500 && is_guard))
        return mcp_refusal.reply(request, status, json_text, owner);
    size_t len = json_text.len < RESULT_BYTES_MAX ? json_text.len : RESULT_BYTES_MAX;
    mcp_result_begin(&result, message, len + len / 4 + 512);
    mcp_tool_result_put(&result.w, request, &request->serve.op.arena, json_text, status >= 400);
    return mcp_result_send(request, message, &result);
}

const struct api_envelope mcp_tool_result = {.reply = reply_tool};

enum op_result mcp_refuse_call(struct api_request *request, slice fault)
{
    request->envelope = &mcp_tool_result;
    return api_reply_error(request, 400, "%.*s", SLICE_ARG(fault));
}
