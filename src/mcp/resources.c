/*
 * Resources: executions and flows by their address, read by the endpoints of the API that show
 * them.
 *
 *   sluice://executions/{id}?pointer=/messages&offset=12
 *   sluice://flows/{id}
 *
 * The former is the `more` of a cut output (call/fit.h). Resources are not listed: a tool's result
 * names those that its reader may need.
 */
#include "base/encode.h"
#include "json/scan.h"
#include "mcp/method.h"
#include "mcp/outside.h"
#include "mcp/words.h"

enum { URI_BYTES_MAX = 8 * 1024, RESOURCE_BYTES_MAX = 4 * MCP_OUTPUT_BYTES_MAX };

static const struct {
    const char *uri, *name, *about;
} templates[] = {
    {"sluice://executions/{id}{?pointer,offset,max_output_bytes,select,view}", "execution",
     "An execution's result: its summary with the stored output, or a part of the output"},
    {"sluice://flows/{id}", "flow", "A flow with its steps"},
};

/* A program that asks for objects parses the text, so the type is JSON's. */
static const char *mime_type(const struct mcp_message *message)
{
    return message->is_structured ? "application/json" : "text/plain";
}

enum op_result mcp_resources_list(struct api_request *request, const struct mcp_message *message)
{
    struct mcp_result result;
    mcp_result_begin(&result, message, 512);
    json_member_raw(&result.w, "resources", SLICE("[]"));
    mcp_result_put_caching(&result, message, MCP_LIST_TTL_MS);
    return mcp_result_send(request, message, &result);
}

enum op_result mcp_resources_templates(struct api_request *request,
                                       const struct mcp_message *message)
{
    struct mcp_result result;
    mcp_result_begin(&result, message, 1024);
    json_member_open(&result.w, "resourceTemplates", '[');
    for (size_t i = 0; i < ARRAY_LEN(templates); i++) {
        json_open(&result.w, '{');
        json_member_str(&result.w, "uriTemplate", slice_cstr(templates[i].uri));
        json_member_str(&result.w, "name", slice_cstr(templates[i].name));
        json_member_str(&result.w, "description", slice_cstr(templates[i].about));
        json_member_str(&result.w, "mimeType", slice_cstr(mime_type(message)));
        json_close(&result.w, '}');
    }
    json_close(&result.w, ']');
    mcp_result_put_caching(&result, message, MCP_LIST_TTL_MS);
    return mcp_result_send(request, message, &result);
}

/* ---- resources/read ---- */

/* The code of this error differs between the eras. */
static enum op_result refuse_uri(struct api_request *request, const struct mcp_message *message,
                                 slice sentence)
{
    struct json_text text;
    struct json_writer *w = json_text_begin(&text, URI_BYTES_MAX * 8);
    json_open(w, '{');
    json_member_str(w, "uri", message->name);
    json_close(w, '}');
    return mcp_reply_error(
        request, message, 200, message->is_modern ? MCP_INVALID_PARAMS : MCP_RESOURCE_NOT_FOUND,
        json_text_take(&text, &request->serve.op.arena), "%.*s", SLICE_ARG(sentence));
}

/* The text of the resource is the endpoint's reply, in which data from outside is marked as in a
 * tool's result. */
static enum op_result reply_resource(struct api_request *request, unsigned status, slice json_text,
                                     struct op *owner)
{
    const struct mcp_message *message = request->outer;
    struct arena *arena = &request->serve.op.arena;
    struct mcp_outside found;
    struct mcp_result result;
    if (status == 400 || status == 403 || status == 404) {
        slice sentence = json_scan_str(json_scan_get(json_text, SLICE("error"), arena), arena);
        return refuse_uri(request, message, mcp_words_say(sentence, mcp_reader_of(request), arena));
    }
    if (status != 200)
        return mcp_refusal.reply(request, status, json_text, owner);
    if (json_text.len > RESOURCE_BYTES_MAX) /* a flow's view */
        return refuse_uri(request, message,
                          arena_printf(arena, "Too large to be read here. %s",
                                       mcp_words_whole_flow(mcp_reader_of(request))));
    json_text = mcp_words_say_json(json_text, mcp_reader_of(request), arena);
    if (!mcp_outside_find(json_text, arena, &found))
        return api_reply_no_memory(request);
    slice text = message->is_structured ? mcp_outside_object(&found, json_text, arena)
                                        : mcp_outside_text(&found, arena);
    mcp_result_begin(&result, message, text.len + text.len / 4 + 512);
    json_member_open(&result.w, "contents", '[');
    json_open(&result.w, '{');
    json_member_str(&result.w, "uri", message->name);
    json_member_str(&result.w, "mimeType", slice_cstr(mime_type(message)));
    json_member_str(&result.w, "text", text.ptr ? text : SLICE("Out of memory"));
    json_close(&result.w, '}');
    json_close(&result.w, ']');
    mcp_result_put_caching(&result, message, 0);
    return mcp_result_send(request, message, &result);
}

static const struct api_envelope resource = {.reply = reply_resource};

/* Parses "pointer=%2Fa&offset=3" into the members of an object. Returns false if it is malformed,
 * or if out of memory. */
static bool read_query(struct arena *arena, slice query, struct json *arguments)
{
    while (query.len > 0) {
        slice value = slice_split(&query, '&'), name = slice_split(&value, '=');
        slice decoded = decode_percent_in(arena, value, true);
        if (!decoded.ptr)
            return false;
        json_object_set(arena, arguments, name, json_string(decoded));
    }
    return !arena->is_exhausted;
}

/* Passes the id in the path and the parameters in the query to the endpoint. */
enum op_result mcp_resources_read(struct api_request *request, const struct mcp_message *message)
{
    static const slice executions = SLICE_INIT("sluice://executions/");
    static const slice flows = SLICE_INIT("sluice://flows/");
    slice uri = message->name, query = uri;
    slice path = slice_split(&query, '?');
    bool is_execution = slice_starts_with(path, executions);
    struct arena *arena = &request->serve.op.arena;
    struct json *arguments = ARENA_NEW(arena, struct json);
    if (!arguments)
        return api_reply_no_memory(request);
    *arguments = json_object();
    if (uri.len > URI_BYTES_MAX || (!is_execution && !slice_starts_with(path, flows)) ||
        !read_query(arena, query, arguments))
        return refuse_uri(
            request, message,
            SLICE("Resource not found. resources/templates/list lists the resources."));
    request->serve.match.params[0] = slice_from(path, is_execution ? executions.len : flows.len);
    if (!is_execution)
        return api_delegate(request, &api_flows_get, arguments, &resource);
    slice bytes = json_get_str(arguments, SLICE("max_output_bytes"));
    uint64_t bytes_max = MCP_OUTPUT_BYTES;
    if (!bytes.ptr || slice_to_u64_capped(bytes, MCP_OUTPUT_BYTES_MAX, &bytes_max))
        json_object_put(arena, arguments, SLICE("max_output_bytes"), json_i64((int64_t)bytes_max));
    return api_delegate(request, &api_executions_get, arguments, &resource);
}
