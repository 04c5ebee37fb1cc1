/*
 * Forms that confirm a call; see confirm.h. If a client can show a form, the argument `confirm` is
 * not enough: the model writes it.
 */
#include "mcp/confirm.h"

#include "base/encode.h"
#include "catalog/recipient.h"
#include "exec/exec.h"
#include "flow/template.h"
#include "json/scan.h"
#include "mcp/input_form.h"
#include "serve/foresee.h"
#include "store/idempotency.h"

enum { FLOWS_NAMED_MAX = 3 };

struct mcp_asking {
    struct exec_request wanted;
    slice title; /* title of the action */
    struct mcp_state state;
};

const struct catalog_action *mcp_wanted_action(struct api_request *request,
                                               const struct exec_request *wanted)
{
    const struct catalog_integration *integration =
        catalog_find_integration(*request->api->config.catalog, wanted->integration_id, NULL);
    return serve_known(&request->serve,
                       integration ? catalog_find_action(integration, wanted->action_id, NULL)
                                   : NULL);
}

bool mcp_confirm_is_wanted(struct api_request *request, const struct mcp_message *message,
                           const struct exec_request *wanted)
{
    if (!message->has_forms || wanted->is_dry_run)
        return false;
    const struct catalog_action *action = mcp_wanted_action(request, wanted);
    return action && mcp_confirm_may_be_asked(request, action);
}

bool mcp_confirm_may_be_asked(const struct api_request *request,
                              const struct catalog_action *action)
{
    struct policy_verdict verdict;
    serve_foresee(&request->serve, action, &verdict);
    return verdict.decision != POLICY_HOLD && serve_confirms(&request->serve, action);
}

/* ---- no form ---- */

static bool has_approved_step(const struct flow_template *tmpl, slice tool_name)
{
    for (size_t i = 0; i < tmpl->step_count; i++)
        if (tmpl->steps[i].confirm == FLOW_CONFIRM_APPROVAL &&
            slice_eq(tmpl->steps[i].tool, tool_name))
            return true;
    return false;
}

static slice say_alternatives(struct api_request *request, slice tool_name)
{
    const struct flow_template_set *set = *request->api->config.templates;
    size_t count = 0;
    struct buf hint;
    buf_init(&hint, MCP_FORM_BYTES_MAX);
    buf_append_cstr(&hint, "Use a client that can show a form (MCP elicitation)");
    for (size_t i = 0; i < set->count && count < FLOWS_NAMED_MAX; i++)
        if (has_approved_step(set->items[i], tool_name) && api_may_start(request, set->items[i]))
            buf_printf(&hint, "%s%.*s",
                       count++ > 0 ? ", " : ", or a flow that waits for an approval: ",
                       SLICE_ARG(set->items[i]->key));
    buf_append_char(&hint, '.');
    slice text = arena_take(&request->serve.op.arena, &hint);
    return text.ptr ? text : SLICE("Use a client that can show a form.");
}

/* What becomes of a write of this client, if a person has to confirm it. */
static enum vault_unattended limit_of(const struct api_request *request,
                                      const struct mcp_message *message)
{
    enum vault_unattended limit = request->serve.grant.unattended;
    if (message->has_forms)
        return UNATTENDED_ALLOWED;
    return limit == UNATTENDED_BY_SETTING ? request->api->config.unattended : limit;
}

void mcp_confirm_limit(struct api_request *request, const struct mcp_message *message,
                       const struct catalog_action *action, struct exec_request *wanted)
{
    enum vault_unattended limit = limit_of(request, message);
    wanted->holds_writes = limit == UNATTENDED_HELD;
    wanted->is_set_to_hold = request->serve.grant.unattended == UNATTENDED_BY_SETTING;
    if (limit == UNATTENDED_REFUSED)
        wanted->refusal_hint = say_alternatives(request, action->tool_name);
}

slice mcp_confirm_refusal(struct api_request *request, const struct mcp_message *message,
                          slice tool_name)
{
    return limit_of(request, message) >= UNATTENDED_HELD ? say_alternatives(request, tool_name)
                                                         : SLICE_NONE;
}

/* ---- the form ---- */

enum op_result mcp_confirm_refuse_large(struct api_request *request)
{
    return api_reply_error(request, 409,
                           "The input is larger than a form can show (32 KB), so no person can "
                           "agree to it. Make it smaller.");
}

/* Writes each value as JSON on a single line: a line break in a value cannot begin a new line, and
 * right-to-left letters in it cannot reorder other text. */
void mcp_confirm_put_input(struct buf *form, const struct json *input)
{
    for (uint32_t i = 0; i < input->count; i++) {
        slice name = json_str(&input->as.members[i].key);
        form->is_failed = form->is_failed || name.len > JSON_EXCERPT_BYTES_MAX;
        mcp_form_put_name(form, name);
        json_write(form, &input->as.members[i].value);
    }
}

static void put_unaddressed(void *user, slice field, const struct recipient *recipient)
{
    struct buf *lines = user;
    if (recipient->domain.ptr)
        return;
    mcp_form_put_name(lines, field);
    json_write_str(lines, recipient->address);
}

/* What was not read may decide whom the call reaches, so recipients that the input does not name
 * follow, as the manifest describes them. */
static void put_unread(struct buf *lines, struct api_request *request,
                       const struct exec_request *wanted, const struct json *unread)
{
    const struct catalog_action *action = mcp_wanted_action(request, wanted);
    for (uint32_t i = 0; i < unread->count; i++) {
        mcp_form_put_name(lines, json_str(&unread->as.items[i]));
        buf_append_cstr(lines, "(could not be read)");
    }
    if (action)
        recipient_each(action, wanted->input, &request->serve.op.arena, put_unaddressed, lines);
}

slice mcp_confirm_shows(struct api_request *request, struct exec *exec,
                        const struct exec_request *wanted)
{
    static const char heading[] = "\n\nFrom the app, about this input (not sent):";
    struct arena *arena = &request->serve.op.arena;
    slice summary = exec_summary_of(exec);
    const struct json *shows = json_parse(arena, json_scan_get(summary, SLICE("shows"), arena),
                                          &json_limits_provider, NULL),
                      *unread = json_parse(arena, json_scan_get(summary, SLICE("unread"), arena),
                                           &json_limits_provider, NULL);
    struct buf lines;
    if (!json_is(shows, JSON_OBJECT) && !json_is(unread, JSON_ARRAY))
        return SLICE("");
    buf_init(&lines, MCP_FORM_BYTES_MAX);
    buf_append_cstr(&lines, heading);
    if (json_is(shows, JSON_OBJECT))
        mcp_confirm_put_input(&lines, shows);
    if (json_is(unread, JSON_ARRAY))
        put_unread(&lines, request, wanted, unread);
    return arena_take(arena, &lines);
}

slice mcp_confirm_call(struct exec *exec, slice title, const struct json *input,
                       struct arena *arena)
{
    const struct exec_outcome *out = exec_outcome_of(exec);
    slice sent = json_scan_get(exec_summary_of(exec), SLICE("request"), arena);
    struct buf form;
    buf_init(&form, MCP_FORM_BYTES_MAX);
    encode_visible(&form, title, SLICE_NONE);
    buf_printf(&form, "\n%.*s %.*s", SLICE_ARG(out->integration_id), SLICE_ARG(out->action_id));
    if (out->connection_id)
        buf_printf(&form, ", with the connection %lld: \"%.*s\"", (long long)out->connection_id,
                   SLICE_ARG(json_excerpt(out->connection_label, arena)));
    buf_append_char(&form, '\n');
    buf_append(&form, json_scan_str(json_scan_get(sent, SLICE("method"), arena), arena));
    buf_append_char(&form, ' ');
    buf_append(&form, json_scan_str(json_scan_get(sent, SLICE("url"), arena), arena));
    mcp_confirm_put_input(&form, input);
    return arena_take(arena, &form);
}

/* What the ids mean follows the exact input. A long input must not hide it: the two together are
 * too large for a form then. */
static slice show_call(struct api_request *request, const struct mcp_asking *asking)
{
    struct arena *arena = &request->serve.op.arena;
    slice call = mcp_confirm_call(request->state, asking->title, asking->wanted.input, arena);
    slice shows = mcp_confirm_shows(request, request->state, &asking->wanted);
    if (!call.ptr || !shows.ptr || call.len + shows.len > MCP_FORM_BYTES_MAX)
        return SLICE_NONE;
    return arena_printf(arena, "%.*s%.*s", SLICE_ARG(call), SLICE_ARG(shows));
}

static void put_confirmation(struct json_writer *w, slice message)
{
    mcp_form_open(w, SLICE("confirmation"), message);
    json_member_raw(w, "requestedSchema",
                    SLICE("{\"type\":\"object\",\"properties\":{"
                          "\"confirm\":{\"type\":\"boolean\",\"title\":\"Do this now\"}},"
                          "\"required\":[\"confirm\"]}"));
    mcp_form_close(w);
}

enum op_result mcp_confirm_send(struct api_request *request, struct mcp_state *state, slice text)
{
    const struct mcp_message *message = request->outer;
    struct mcp_result result;
    if (!text.ptr)
        return mcp_confirm_refuse_large(request);
    random_kernel(state->nonce, sizeof(state->nonce));
    state->is_confirmation = true;
    state->filled = mcp_input_form_answers(request, message);
    slice sealed = mcp_state_seal(request, state);
    if (!sealed.ptr)
        return message->filled ? mcp_confirm_refuse_large(request) : api_reply_no_memory(request);
    mcp_result_begin_as(&result, message, "input_required", text.len * 2);
    put_confirmation(&result.w, text);
    json_member_str(&result.w, "requestState", sealed);
    return mcp_result_send(request, message, &result);
}

/* ---- the question ---- */

static enum op_result finish_ask(struct api_request *request)
{
    const struct exec_outcome *out = exec_outcome_of(request->state);
    if (out->reason != EXEC_SUCCEEDED || !out->is_dry_run)
        return mcp_run_reply(request);
    struct mcp_asking *asking = ((const struct mcp_message *)request->outer)->asking;
    if (!out->wants_confirmation) /* the policy wants one for other inputs alone */
        return mcp_run_start(request, &asking->wanted);
    asking->state.connection_id = out->connection_id;
    return mcp_confirm_send(request, &asking->state, show_call(request, asking));
}

enum op_result mcp_confirm_ask(struct api_request *request, const struct exec_request *wanted)
{
    struct mcp_message *message = request->outer;
    const struct catalog_action *action = mcp_wanted_action(request, wanted);
    struct mcp_asking *asking = ARENA_NEW(&request->serve.op.arena, struct mcp_asking);
    struct exec_request dry = *wanted;
    ASSERT(action && !wanted->is_dry_run);
    if (!asking)
        return api_reply_no_memory(request);
    if (!mcp_state_digest(wanted, action, asking->state.call))
        return mcp_confirm_refuse_large(request);
    asking->wanted = *wanted;
    /* a copy: a reload may drop the action */
    asking->title = arena_dup(&request->serve.op.arena, action->title);
    message->asking = asking;
    dry.is_dry_run = dry.wants_shows = true;
    dry.is_confirmed = false;
    request->state = exec_start(request->api->config.exec, &dry, &request->serve.op);
    return request->state ? api_execution_wait(request, finish_ask) : api_reply_no_memory(request);
}

/* ---- the answer ---- */

static enum mcp_answer answer_of(const struct mcp_message *message)
{
    const struct json *given = JSON_GET(message->answers, "confirmation");
    const struct json *box = JSON_GET(JSON_GET(given, "content"), "confirm");
    slice action = json_get_str(given, SLICE("action"));
    if (slice_eq_cstr(action, "decline") || slice_eq_cstr(action, "cancel"))
        return MCP_ANSWER_NO;
    if (!slice_eq_cstr(action, "accept") || !json_is(box, JSON_BOOL))
        return MCP_ANSWER_NONE;
    return box->as.boolean ? MCP_ANSWER_YES : MCP_ANSWER_NO;
}

enum op_result mcp_confirm_refuse_state(struct api_request *request, const char *why)
{
    return mcp_reply_error(request, request->outer, 200, MCP_INVALID_PARAMS, SLICE_NONE,
                           "requestState %s. Nothing was run. Call the tool again without it.",
                           why);
}

/* Makes the idempotency key from the state's nonce, which clients cannot guess. A state that is
 * used again finds the first run. */
static slice key_of(struct api_request *request, const struct mcp_state *state)
{
    struct buf text;
    buf_init(&text, 64);
    buf_append_cstr(&text, "mcp-");
    encode_hex(&text, slice_of(state->nonce, MCP_NONCE_LEN));
    return arena_take(&request->serve.op.arena, &text);
}

enum op_result mcp_confirm_reply_no(struct api_request *request, bool is_late)
{
    if (is_late)
        return api_reply_error(request, 409,
                               "A person agreed to this before, so it has run or is running. The "
                               "answer \"no\" came too late.");
    return api_reply_error(
        request, 409,
        "The person did not agree. Nothing was done. Do not try again unless they ask for it.");
}

static enum op_result finish_no(struct api_request *request)
{
    struct claim_outcome found;
    int status = store_claim_result(&request->query, &found);
    return status == OK ? mcp_confirm_reply_no(request, !store_claim_is_spent(&found))
                        : api_reply_database(request, status);
}

enum mcp_answer mcp_confirm_answer(struct api_request *request, const struct mcp_state *state,
                                   slice *key, int64_t *guards_until)
{
    enum mcp_answer answer = answer_of(request->outer);
    if (answer == MCP_ANSWER_NONE)
        return answer;
    /* The state can be sent again until it expires, so the key must be kept until then. */
    *guards_until = state->until_ms * 1000;
    if (!key->ptr)
        *key = key_of(request, state);
    return answer;
}

enum op_result mcp_confirm_take_no(struct api_request *request, const struct exec_request *wanted)
{
    if (!wanted->idempotency_key.ptr ||
        !exec_claim_spend(request->api->config.pool, &request->query, &request->serve.op, wanted))
        return api_reply_no_memory(request);
    return api_wait(request, finish_no);
}

enum op_result mcp_confirm_take(struct api_request *request, struct mcp_message *message,
                                struct exec_request *wanted)
{
    const struct catalog_action *action = mcp_wanted_action(request, wanted);
    struct mcp_state state;
    uint8_t call[32];
    if (!mcp_state_open(request, message->state, &state))
        return mcp_confirm_refuse_state(request, "is not valid or is older than 10 minutes");
    if (!action || !mcp_input_form_restore(request, message, state.filled, wanted))
        return mcp_confirm_refuse_state(request, "belongs to another call");
    if (!mcp_state_digest(wanted, action, call) || memcmp(call, state.call, sizeof(call)) != 0)
        return mcp_confirm_refuse_state(request, "belongs to another call");
    if (!state.is_confirmation)
        return OP_NEXT;
    enum mcp_answer answer =
        mcp_confirm_answer(request, &state, &wanted->idempotency_key, &wanted->key_guards_until);
    if (answer == MCP_ANSWER_NONE)
        return mcp_confirm_ask(request, wanted);
    message->is_agreed = wanted->is_confirmed = true;
    wanted->connection_id = state.connection_id;
    if (answer == MCP_ANSWER_NO)
        return mcp_confirm_take_no(request, wanted);
    return wanted->idempotency_key.ptr ? OP_NEXT : api_reply_no_memory(request);
}
