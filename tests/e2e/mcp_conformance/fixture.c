/*
 * Answers from a table, linked only into test builds. The protocol's conformance suite calls tools,
 * prompts and resources of its own (pictures, sounds, questions of any kind), which a catalog of
 * apps does not need. Headers, states, errors and results are those of all methods. The table is
 * the file that SLUICE_MCP_FIXTURES names:
 *
 *   {"tools/call test_name": {"needs": "sampling", "is_sealed": true,
 *                             "rounds": [{"key": {"method": "elicitation/create", ...}}],
 *                             "result": {"content": [{"type": "text", "text": "$argument"}]}}}
 *
 * A round is repeated until each of its keys is answered. Requests that the client cannot answer,
 * by its own capabilities, are left out. A text that begins with $ stands for that argument.
 */
#include "base/file.h"
#include "mcp/method.h"
#include "mcp/state.h"
#include "vault/key.h"

#include <stdlib.h>

#define VARIABLE "SLUICE_MCP_FIXTURES"

enum { TABLE_BYTES_MAX = 64 * 1024 };

void mcp_fixture_put_abilities(struct json_writer *w)
{
    if (!getenv(VARIABLE))
        return;
    json_member_raw(w, "prompts", SLICE("{}"));
    json_member_raw(w, "completions", SLICE("{}"));
}

static const struct json *find(struct api_request *request, slice key)
{
    const char *path = getenv(VARIABLE);
    struct buf text;
    buf_init(&text, TABLE_BYTES_MAX);
    if (!path || file_read_into(path, &text, NULL, NULL) != OK)
        return NULL;
    const struct json *table =
        json_parse(&request->serve.op.arena, buf_slice(&text), &json_limits_request, NULL);
    buf_deinit(&text);
    for (uint32_t i = 0; json_is(table, JSON_OBJECT) && i < table->count; i++)
        if (mcp_name_is_like(key, json_str(&table->as.members[i].key)))
            return &table->as.members[i].value;
    return NULL;
}

static void put(struct json_writer *w, const struct json *value, const struct json *arguments)
{
    if (value->type == JSON_OBJECT) {
        json_open(w, '{');
        for (uint32_t i = 0; i < value->count; i++) {
            json_key_slice(w, json_str(&value->as.members[i].key));
            put(w, &value->as.members[i].value, arguments);
        }
        json_close(w, '}');
    } else if (value->type == JSON_ARRAY) {
        json_open(w, '[');
        for (uint32_t i = 0; i < value->count; i++)
            put(w, &value->as.items[i], arguments);
        json_close(w, ']');
    } else {
        bool is_named = slice_starts_with(json_str(value), SLICE("$"));
        json_put(w, is_named ? json_get(arguments, slice_from(json_str(value), 1)) : value);
    }
}

static bool is_answered(const struct mcp_message *message, const struct json *round)
{
    for (uint32_t i = 0; i < round->count; i++)
        if (!json_is(json_get(message->answers, json_str(&round->as.members[i].key)), JSON_OBJECT))
            return false;
    return true;
}

/* A capability is named like the first part of the method: "sampling" for
 * sampling/createMessage. */
static bool is_able(const struct mcp_message *message, slice method)
{
    return json_get(message->capabilities, slice_split(&method, '/')) != NULL;
}

/* the state's connection_id is the round's number */
static enum op_result ask_round(struct api_request *request, const struct mcp_message *message,
                                const struct json *round, struct mcp_state *state, bool is_sealed)
{
    struct mcp_result result;
    mcp_result_begin_as(&result, message, "input_required", 1024);
    json_member_open(&result.w, "inputRequests", '{');
    for (uint32_t i = 0; i < round->count; i++) {
        const struct json_member *member = &round->as.members[i];
        if (is_able(message, json_get_str(&member->value, SLICE("method")))) {
            json_key_slice(&result.w, json_str(&member->key));
            json_put(&result.w, &member->value);
        }
    }
    json_close(&result.w, '}');
    random_kernel(state->nonce, sizeof(state->nonce));
    if (is_sealed)
        json_member_str(&result.w, "requestState", mcp_state_seal(request, state));
    return mcp_result_send(request, message, &result);
}

static enum op_result give(struct api_request *request, const struct mcp_message *message,
                           const struct json *members)
{
    const struct json *arguments = JSON_GET(message->params, "arguments");
    struct mcp_result result;
    mcp_result_begin(&result, message, 1024);
    for (uint32_t i = 0; i < members->count; i++) {
        json_key_slice(&result.w, json_str(&members->as.members[i].key));
        put(&result.w, &members->as.members[i].value, arguments ? arguments : message->params);
    }
    if (slice_ends_with(message->method, SLICE("/list")) || JSON_GET(members, "contents"))
        mcp_result_put_caching(&result, message, MCP_LIST_TTL_MS);
    return mcp_result_send(request, message, &result);
}

static enum op_result refuse_capability(struct api_request *request,
                                        const struct mcp_message *message, slice name)
{
    return mcp_reply_error(request, message, 400, MCP_MISSING_CAPABILITY,
                           arena_printf(&request->serve.op.arena,
                                        "{\"requiredCapabilities\":{\"%.*s\":{}}}",
                                        SLICE_ARG(name)),
                           "The client lacks a capability");
}

bool mcp_fixture_answer(struct api_request *request, const struct mcp_message *message,
                        enum op_result *result)
{
    slice name = message->name.ptr ? message->name : json_get_str(message->params, SLICE("name"));
    slice key = arena_printf(&request->serve.op.arena, "%.*s %.*s", SLICE_ARG(message->method),
                             SLICE_ARG(name));
    const struct json *entry = find(request, key);
    const struct json *rounds = JSON_GET(entry, "rounds");
    bool is_sealed = JSON_GET(entry, "is_sealed"), has_state = is_sealed && message->state.ptr;
    slice needs = json_get_str(entry, SLICE("needs"));
    struct mcp_state state = {0};
    uint8_t call[sizeof(state.call)];
    if (!entry || (rounds && !message->is_modern))
        return false;
    vault_sha256(key, call);
    size_t at = 0;
    if (needs.ptr && !is_able(message, needs)) {
        *result = refuse_capability(request, message, needs);
    } else if (has_state && (!mcp_state_open(request, message->state, &state) ||
                             memcmp(state.call, call, sizeof(call)) != 0)) {
        *result = mcp_reply_error(request, message, 200, MCP_INVALID_PARAMS, SLICE_NONE,
                                  "requestState is not valid");
    } else {
        at = (size_t)state.connection_id;
        if (rounds && has_state == is_sealed && is_answered(message, &rounds->as.items[at]))
            at++;
        state.connection_id = (int64_t)at;
        memcpy(state.call, call, sizeof(call));
        *result = rounds && at < rounds->count
                      ? ask_round(request, message, &rounds->as.items[at], &state, is_sealed)
                      : give(request, message, JSON_GET(entry, "result"));
    }
    return true;
}
