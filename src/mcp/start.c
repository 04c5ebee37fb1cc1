/*
 * The tool start_flow. The start of a template can confirm its writes (`confirmed_by: "start"`, the
 * input's member `confirm`); the flow then writes without asking again. The model writes that
 * member, so a client that can show a form asks the person, as for a write (confirm.h). The
 * person's answer sets the member.
 */
#include "base/encode.h"
#include "exec/exec.h"
#include "flow/template.h"
#include "mcp/confirm.h"
#include "mcp/slips.h"
#include "mcp/start.h"
#include "mcp/task.h"

#define CONFIRM "confirm"

/* The input with `confirm` as its member of that name; confirm NULL: without the member. Returns
 * NULL if out of memory. */
static const struct json *with_confirm(struct arena *arena, const struct json *input,
                                       const struct json *confirm)
{
    struct json *changed = ARENA_NEW(arena, struct json);
    if (!changed)
        return NULL;
    *changed = json_object();
    for (uint32_t i = 0; i < input->count; i++)
        if (!slice_eq_cstr(json_str(&input->as.members[i].key), CONFIRM))
            json_object_set(arena, changed, json_str(&input->as.members[i].key),
                            input->as.members[i].value);
    if (confirm)
        json_object_set(arena, changed, SLICE(CONFIRM), *confirm);
    return arena->is_exhausted ? NULL : changed;
}

/* ---- the form ---- */

static void put_tools(struct buf *form, const struct flow_template *tmpl, enum flow_confirm confirm,
                      const char *heading)
{
    size_t count = 0;
    for (size_t i = 0; i < tmpl->step_count; i++)
        if (tmpl->steps[i].confirm == confirm)
            buf_printf(form, "%s%.*s", count++ > 0 ? ", " : heading,
                       SLICE_ARG(tmpl->steps[i].tool));
}

/* Returns the text of the form: the writes that the flow may make, and the whole input. SLICE_NONE:
 * too long for a form. */
static slice show_start(struct arena *arena, const struct flow_template *tmpl,
                        const struct json *input)
{
    struct buf form;
    buf_init(&form, MCP_FORM_BYTES_MAX);
    encode_visible(&form, tmpl->name, SLICE_NONE);
    buf_printf(&form, "\nstart_flow %.*s", SLICE_ARG(tmpl->key));
    put_tools(&form, tmpl, FLOW_CONFIRM_START, "\nruns without another question: ");
    put_tools(&form, tmpl, FLOW_CONFIRM_APPROVAL, "\nwaits for an approval before: ");
    mcp_confirm_put_input(&form, input);
    return arena_take(arena, &form);
}

/* in: has the input that the start would use. */
static enum op_result ask(struct api_request *request, const struct flow_request *in,
                          const struct flow_template *tmpl)
{
    struct arena *arena = &request->serve.op.arena;
    struct mcp_state state = {.connection_id = 0};
    const struct json *asked_input = with_confirm(arena, in->input, NULL);
    if (!asked_input)
        return api_reply_no_memory(request);
    if (!mcp_state_digest_start(in, tmpl, state.call))
        return mcp_confirm_refuse_large(request);
    return mcp_confirm_send(request, &state, show_start(arena, tmpl, asked_input));
}

/* ---- the answer ---- */

/* Spends the key. A flow cannot begin with a spent key, whatever action its claim names. */
static enum op_result take_no(struct api_request *request, const struct flow_request *in)
{
    const struct exec_request none = {
        .account_id = request->serve.grant.account_id,
        .integration_id = SLICE("sluice"),
        .action_id = SLICE("start_flow"),
        .idempotency_key = in->idempotency_key,
        .key_guards_until = in->key_guards_until,
    };
    return mcp_confirm_take_no(request, &none);
}

static enum op_result take_start_answer(struct api_request *request, struct flow_request *in,
                                        const struct flow_template *tmpl)
{
    const struct mcp_message *message = request->outer;
    struct mcp_state state;
    uint8_t call[32];
    if (!mcp_state_open(request, message->state, &state))
        return mcp_confirm_refuse_state(request, "is not valid or is older than 10 minutes");
    if (!mcp_state_digest_start(in, tmpl, call) || !state.is_confirmation ||
        memcmp(call, state.call, sizeof(call)) != 0)
        return mcp_confirm_refuse_state(request, "belongs to another call");
    switch (mcp_confirm_answer(request, &state, &in->idempotency_key, &in->key_guards_until)) {
    case MCP_ANSWER_NONE:
        return ask(request, in, tmpl);
    case MCP_ANSWER_NO:
        return take_no(request, in);
    case MCP_ANSWER_YES:
        break;
    }
    in->template_whole = tmpl->whole;
    return in->idempotency_key.ptr ? api_start(request, in) : api_reply_no_memory(request);
}

/* ---- the tool ---- */

/* Refuses the start because no person can be asked. */
static enum op_result refuse_unattended(struct api_request *request, slice hint)
{
    struct json_writer *w = api_reply_open(request, MCP_FORM_BYTES_MAX);
    json_member_str(w, "error",
                    SLICE("The start of this flow confirms its writes. It needs the consent of a "
                          "person, but this client cannot show a form. Nothing was started."));
    json_member_str(w, "error_code", SLICE("policy_blocked"));
    json_member_str(w, "hint", hint);
    return api_reply_close(request, 409);
}

/* Returns the first step whose tool the start confirms; NULL: none. */
static const struct flow_step_def *confirmed_step(const struct flow_template *tmpl)
{
    for (size_t i = 0; tmpl && i < tmpl->step_count; i++)
        if (tmpl->steps[i].confirm == FLOW_CONFIRM_START)
            return &tmpl->steps[i];
    return NULL;
}

/* The person is not asked about a start that is not allowed or whose input has faults: such a start
 * is answered as if it were unconfirmed. */
static enum op_result begin_start_flow(struct api_request *request)
{
    static const struct json yes = {.type = JSON_BOOL, .as.boolean = true};
    struct mcp_message *message = request->outer;
    struct arena *arena = &request->serve.op.arena;
    struct flow_request in;
    if (!api_start_read(request, &in))
        return OP_DONE;
    in.lost_by = request->serve.grant.key_id;
    const struct flow_template *tmpl = api_template_find(request, in.template_key);
    const struct flow_step_def *step = confirmed_step(tmpl);
    if (tmpl && tmpl->schema)
        in.input = mcp_mend_input(request, message, tmpl->schema, in.input);
    message->result_members = mcp_slips_member(request, message);
    if (!tmpl || !step)
        return api_start(request, &in);
    slice refusal = mcp_confirm_refusal(request, message, step->tool);
    if (refusal.ptr)
        return refuse_unattended(request, refusal);
    if (!message->has_forms)
        return api_start(request, &in);
    const struct json *unconfirmed = with_confirm(arena, in.input, NULL);
    in.input = with_confirm(arena, in.input, &yes);
    if (!unconfirmed || !in.input)
        return api_reply_no_memory(request);
    if (tmpl->schema)
        in.input = schema_drop_nulls(tmpl->schema, in.input, arena);
    if (message->state.ptr)
        return take_start_answer(request, &in, tmpl);
    if (api_may_start(request, tmpl) && schema_validate(tmpl->schema, in.input, NULL))
        return ask(request, &in, tmpl);
    in.input = unconfirmed;
    return api_start(request, &in);
}

static const struct api_endpoint start_flow = {
    .scope = SCOPE_EXECUTE,
    .members = &api_start_members,
    .begin = begin_start_flow,
};

/* The arguments are members of POST /api/flows/start. */
enum op_result mcp_start_flow(struct api_request *request, const struct json *arguments)
{
    struct arena *arena = &request->serve.op.arena;
    const struct json *key = JSON_GET(arguments, "idempotency_key");
    int64_t wait_s;
    struct mcp_message *message = request->outer;
    slice meta_key = mcp_meta_key(message);
    struct json *body = ARENA_NEW(arena, struct json);
    if (!body)
        return api_reply_no_memory(request);
    *body = json_object();
    for (uint32_t i = 0; i < arguments->count; i++) {
        slice name = json_str(&arguments->as.members[i].key);
        if (!slice_eq_cstr(name, "wait"))
            json_object_set(arena, body,
                            slice_eq_cstr(name, "template") ? SLICE("flowTemplate") : name,
                            arguments->as.members[i].value);
    }
    json_object_set(arena, body, SLICE("triggerType"), json_string(SLICE("agent")));
    slice fault = json_is(key, JSON_STRING) ? mcp_meta_key_fault(message, json_str(key))
                                            : SLICE_NONE;
    message->start_wait = json_given(arguments, SLICE("wait"));
    if (message->start_wait && (!json_to_i64(message->start_wait, &wait_s) || wait_s < 0))
        fault = SLICE("wait must be a whole number of seconds");
    if (fault.ptr)
        return mcp_refuse_call(request, fault);
    if (meta_key.ptr && (!key || key->type == JSON_NULL))
        json_object_set(arena, body, SLICE("idempotency_key"), json_string(meta_key));
    return api_delegate(request, &start_flow, body, mcp_flow_envelope(message));
}
