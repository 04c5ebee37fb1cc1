/*
 * Flows for a model; see flow_view.h. A whole view repeats each document up to three times: as the
 * output of a step, in the context, and in the input of a later step. A model seldom needs more
 * than the last document. `include` adds the others.
 */
#include "mcp/flow_view.h"

#include <stdio.h>

#include "json/scan.h"
#include "mcp/task.h"
#include "mcp/words.h"

/* ---- a view's facts ---- */

slice mcp_flow_text(slice object, const char *name, struct arena *arena)
{
    return json_scan_str(json_scan_get(object, slice_cstr(name), arena), arena);
}

struct mcp_flow_facts mcp_flow_read(slice view, struct arena *arena)
{
    struct mcp_flow_facts facts = {.flow = json_scan_get(view, SLICE("flow"), arena)};
    struct json_scan steps;
    slice key, step;
    facts.status = mcp_flow_text(facts.flow, "status", arena);
    facts.rev = json_scan_get(facts.flow, SLICE("rev"), arena);
    facts.step_key = mcp_flow_text(facts.flow, "currentStep", arena);
    json_scan_open(&steps, json_scan_get(view, SLICE("steps"), arena));
    while (json_scan_next(&steps, &key, &step)) {
        facts.step_count++;
        slice output = json_scan_get(step, SLICE("output"), arena);
        if (json_scan_type(output) != JSON_NULL) {
            facts.output = output;
            facts.output_of = json_scan_get(step, SLICE("stepKey"), arena);
        }
        if (!slice_eq(mcp_flow_text(step, "stepKey", arena), facts.step_key))
            continue;
        facts.step = step;
        facts.step_number = facts.step_count;
    }
    facts.is_approval = slice_eq_cstr(facts.status, "waiting") &&
                        slice_eq_cstr(mcp_flow_text(facts.step, "stepType", arena), "approval");
    return facts;
}

/* ---- the lean view ---- */

/* Writes the members that are in `names` and are not null. */
static void put_members(struct json_writer *w, slice object, slice names, struct arena *arena)
{
    struct json_scan scan;
    slice key, value;
    json_scan_open(&scan, object);
    while (json_scan_next(&scan, &key, &value)) {
        slice name = json_scan_str(key, arena);
        if (json_scan_type(value) != JSON_NULL && slice_has_word(names, name)) {
            json_key_slice(w, name);
            json_put_raw(w, value);
        }
    }
}

/* Writes a document. One that is too large for a result is replaced with its size. */
static void put_document(struct json_writer *w, const char *name, slice document)
{
    char size[32];
    if (!document.ptr || json_scan_type(document) == JSON_NULL)
        return;
    if (document.len <= MCP_OUTPUT_BYTES) {
        json_member_raw(w, name, document);
        return;
    }
    (void)snprintf(size, sizeof(size), "%s_bytes", name);
    json_member_i64(w, size, (int64_t)document.len);
}

/* Writes what the approval asks for, or the last output. */
static void put_present(struct json_writer *w, const struct mcp_flow_facts *facts,
                        struct arena *arena)
{
    if (facts->is_approval) {
        put_document(w, "to_approve", json_scan_get(facts->step, SLICE("input"), arena));
        return;
    }
    if (!facts->output.ptr)
        return;
    json_member_raw(w, "output_of", facts->output_of);
    put_document(w, "output", facts->output);
}

/* Returns a hint in sluice's own words. SLICE_NONE: there is no hint. */
static slice flow_hint(const struct api_request *request, const struct mcp_flow_facts *facts,
                       struct arena *arena)
{
    const struct mcp_message *message = request->outer;
    bool is_large = !message->wants_steps && facts->output.len > MCP_OUTPUT_BYTES;
    slice id = mcp_flow_text(facts->flow, "id", arena);
    if (facts->is_approval && mcp_reader_of(request) == MCP_OF_USER)
        return arena_printf(arena,
                            "A person approves or rejects this in the account's application: POST "
                            "/api/flows/%.*s/approve or POST /api/flows/%.*s/reject. get_flow with "
                            "`wait` and until \"ended\" waits for that.",
                            SLICE_ARG(id), SLICE_ARG(id));
    if (facts->is_approval)
        return arena_printf(arena,
                            "A person approves or rejects this at %s/flows/%.*s. get_flow with "
                            "`wait` and until \"ended\" waits for that.",
                            request->api->public_url, SLICE_ARG(id));
    return is_large ? SLICE("get_flow with include [\"steps\"] has the output.") : SLICE_NONE;
}

slice mcp_flow_lean(struct api_request *request, struct arena *arena, slice view)
{
    const struct mcp_message *message = request->outer;
    struct mcp_flow_facts facts = mcp_flow_read(view, arena);
    struct json_text text;
    struct json_scan steps;
    slice key, step;
    struct json_writer *w = json_text_begin(&text, FLOW_VIEW_BYTES_MAX);
    json_open(w, '{');
    json_member_open(w, "flow", '{');
    put_members(w, facts.flow, SLICE("id rev templateKey status currentStep"), arena);
    /* If the template has no flow_title, the title is the template's name. */
    if (!slice_eq(mcp_flow_text(facts.flow, "title", arena),
                  mcp_flow_text(facts.flow, "name", arena)))
        put_members(w, facts.flow, SLICE("title"), arena);
    if (message->wants_context)
        put_members(w, facts.flow, SLICE("input context"), arena);
    json_close(w, '}');
    json_member_open(w, "steps", '[');
    json_scan_open(&steps, json_scan_get(view, SLICE("steps"), arena));
    while (json_scan_next(&steps, &key, &step)) {
        if (message->wants_steps) {
            json_put_raw(w, step);
            continue;
        }
        json_open(w, '{');
        put_members(w, step, SLICE("stepKey status error wakeAt expiresAt"), arena);
        json_close(w, '}');
    }
    json_close(w, ']');
    if (!message->wants_steps)
        put_present(w, &facts, arena);
    slice hint = flow_hint(request, &facts, arena);
    if (hint.ptr)
        json_member_str(w, "hint", hint);
    json_close(w, '}');
    return json_text_take(&text, arena);
}

/* Answers with the flow's view, at once or after a wait (seconds; NULL: none). By default (until
 * NULL) it ends when the flow no longer runs: that is what a model waits for. */
static enum op_result read_flow(struct api_request *request, slice id, const struct json *wait,
                                const struct json *until, const struct api_envelope *envelope)
{
    struct arena *arena = &request->serve.op.arena;
    struct json *query = ARENA_NEW(arena, struct json);
    if (!query)
        return api_reply_no_memory(request);
    *query = json_object();
    if (wait)
        json_object_set(arena, query, SLICE("wait"), *wait);
    json_object_set(arena, query, SLICE("until"), until ? *until : json_string(SLICE("settled")));
    request->serve.match.params[0] = id;
    if (((const struct mcp_message *)request->outer)->progress)
        request->on_view = mcp_flow_progress;
    return api_delegate(request, &api_flows_get, query, envelope);
}

/* ---- results ---- */

static enum op_result send_flow(struct api_request *request, slice json_text, struct op *owner)
{
    return json_text.ptr ? mcp_tool_result.reply(request, 200, json_text, owner)
                         : api_reply_no_memory(request);
}

/* id: quoted. */
static slice started_flow(struct api_request *request, slice id, slice view)
{
    struct arena *arena = &request->serve.op.arena;
    slice lean = mcp_flow_lean(request, arena, view);
    return lean.ptr ? arena_printf(arena, "{\"flowId\":%.*s,\"flow\":%.*s}", SLICE_ARG(id),
                                   SLICE_ARG(lean))
                    : SLICE_NONE;
}

static enum op_result reply_flow(struct api_request *request, unsigned status, slice json_text,
                                 struct op *owner)
{
    struct arena *arena = &request->serve.op.arena;
    return status == 200 ? send_flow(request, mcp_flow_lean(request, arena, json_text), owner)
                         : mcp_tool_result.reply(request, status, json_text, owner);
}

const struct api_envelope mcp_flow_result = {.reply = reply_flow};

/* The flow has been started, whatever happens to the wait. */
static enum op_result reply_waited(struct api_request *request, unsigned status, slice json_text,
                                   struct op *owner)
{
    struct arena *arena = &request->serve.op.arena;
    const struct mcp_message *message = request->outer;
    if (status != 200)
        return send_flow(request, message->started, owner);
    slice id = json_scan_get(json_scan_get(json_text, SLICE("flow"), arena), SLICE("id"), arena);
    return send_flow(request, started_flow(request, id, json_text), owner);
}

static enum op_result reply_start(struct api_request *request, unsigned status, slice json_text,
                                  struct op *owner)
{
    static const struct api_envelope waited = {.reply = reply_waited};
    struct arena *arena = &request->serve.op.arena;
    struct mcp_message *message = request->outer;
    if (status != 200)
        return mcp_tool_result.reply(request, status, json_text, owner);
    slice id = json_scan_get(json_text, SLICE("flowId"), arena);
    if (json_scan_get(json_text, SLICE("idempotent_replayed"), arena).ptr)
        message->result_members = arena_printf(arena, "\"idempotent_replayed\":true,%.*s",
                                               SLICE_ARG(message->result_members));
    message->started = started_flow(request, id, json_scan_get(json_text, SLICE("flow"), arena));
    if (!message->started.ptr || !message->start_wait || request->serve.exchange->is_gone ||
        !api_may(request, SCOPE_READ, NULL))
        return send_flow(request, message->started, owner);
    return read_flow(request, json_scan_str(id, arena), message->start_wait, NULL, &waited);
}

const struct api_envelope mcp_start_result = {.reply = reply_start};

/* ---- get_flow ---- */

/* Reads `include`: the parts to add to the lean view. Returns false if it has answered the
 * request. */
static bool read_include(struct api_request *request, const struct json *include)
{
    struct mcp_message *message = request->outer;
    bool is_list = !include || include->type == JSON_NULL || include->type == JSON_ARRAY;
    for (uint32_t i = 0; is_list && json_is(include, JSON_ARRAY) && i < include->count; i++) {
        slice word = json_str(&include->as.items[i]);
        bool is_steps = slice_eq_cstr(word, "steps"), is_context = slice_eq_cstr(word, "context");
        message->wants_steps = message->wants_steps || is_steps;
        message->wants_context = message->wants_context || is_context;
        is_list = is_steps || is_context;
    }
    if (is_list)
        return true;
    (void)mcp_refuse_call(request, SLICE("include must be a list of: steps, context"));
    return false;
}

enum op_result mcp_get_flow(struct api_request *request, const struct json *arguments)
{
    if (!read_include(request, JSON_GET(arguments, "include")))
        return OP_DONE;
    return read_flow(request, json_get_str(arguments, SLICE("flow_id")),
                     JSON_GET(arguments, "wait"), json_given(arguments, SLICE("until")),
                     &mcp_flow_result);
}
