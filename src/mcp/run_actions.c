/*
 * The tool run_actions: up to 50 calls of run_action in one, as POST /api/executions/batch runs
 * them. The result is {"results": [...]}, in the order of the call; each is what run_action would
 * have returned, and a fault of one does not affect the others.
 *
 * A client that can show a form is asked once, before anything runs: the form shows every write
 * whole. After the answer all actions run; a write that was not in the form, because it could not
 * have run then, does not. The sealed state has the connections that were shown, and its nonce with
 * the position of an action is the idempotency key of that action, so one state runs once.
 *
 * Missing input and a missing connection are not asked for: the result of the action says what it
 * lacks. The outputs share the bytes of one result.
 */
#include "api/batch.h"
#include "base/encode.h"
#include "exec/exec.h"
#include "json/scan.h"
#include "mcp/confirm.h"
#include "mcp/slips.h"
#include "mcp/words.h"
#include "store/connection.h"
#include "store/idempotency.h"
#include "vault/key.h"

enum {
    RESULTS_BYTES_MAX = 768 * 1024, /* beyond that a result is left out; see tools.c */
    REPLY_BYTES_MAX = 4 * 1024 * 1024,
};

enum asking { ASKS_NONE, ASKS_IN_FORM, ASKS_IN_WORDS };

/* An action of the call. Its item of the batch has the same position. */
struct act {
    struct exec_request wanted;
    bool is_read; /* wanted is filled in */
    slice label;  /* of the connection, if it was named by its label */
    struct mcp_label_search search;
    struct pg_query query; /* spends the key after a "no" */
    slice result;          /* known before, or without, a run: JSON text of an object */
    slice coerced, shows;  /* see mcp_slips_member and mcp_run_members */
    enum asking asking;    /* what its dry run is for */
    slice title;           /* of the action, for the form */
    bool is_in_form;       /* it was in the form that the person answered */
    bool is_unasked;       /* it could run, and no person had to be asked: it may be held */
    bool is_unseen;        /* a write that was not: it is made as a dry run */
};

struct run {
    struct api_batch batch; /* must be the first member */
    struct act *acts;
    uint8_t digest[32];
    bool is_short_of_memory;
};

/* ---- the results ---- */

static slice error_result(struct api_request *request, slice sentence, int64_t retry_after_s)
{
    struct arena *arena = &request->serve.op.arena;
    struct json_text text;
    struct json_writer *w = json_text_begin(&text, 2 * sentence.len + 1024);
    json_open(w, '{');
    json_member_str(w, "error", mcp_words_say(sentence, mcp_reader_of(request), arena));
    if (retry_after_s > 0)
        json_member_i64(w, "retry_after", retry_after_s);
    json_close(w, '}');
    return json_text_take(&text, arena);
}

/* Returns the result of an execution whose summary is too large here: what is needed to read it. */
static slice left_out_result(struct api_request *request, const struct exec_outcome *out)
{
    struct json_text text;
    struct json_writer *w = json_text_begin(&text, 4096);
    if (uuid_is_nil(out->execution_id))
        return error_result(
            request, SLICE("Its result is too large here. Run it alone, with run_action."), 0);
    json_open(w, '{');
    json_member_str(w, "status", slice_cstr(exec_reason_status(out->reason)));
    json_member_uuid(w, "execution_id", out->execution_id);
    json_member_str(w, "integration_id", out->integration_id);
    json_member_str(w, "action_id", out->action_id);
    json_member_bool(w, "truncated", true);
    json_close(w, '}');
    return json_text_take(&text, &request->serve.op.arena);
}

/* Returns the result of an execution that has ended. */
static slice outcome_result(struct api_request *request, const struct act *act,
                            const struct exec *exec)
{
    struct arena *arena = &request->serve.op.arena;
    const struct exec_outcome *out = exec_outcome_of(exec);
    slice summary = exec_summary_of(exec);
    bool has_status = exec_reason_status(out->reason) != NULL;
    if (act->is_unseen && out->reason == EXEC_SUCCEEDED)
        return error_result(request,
                            SLICE("The form that the person answered did not show this write. "
                                  "Nothing was done. Call it again."),
                            0);
    if (!has_status || (summary.len == 0 && !out->is_left_out))
        return error_result(
            request, out->message.len > 0 && !has_status ? out->message : SLICE("Internal error"),
            exec_outcome_retry_after_s(out));
    if (out->is_left_out || summary.len > RESULTS_BYTES_MAX)
        return left_out_result(request, out);
    summary = mcp_words_say_json(summary, mcp_reader_of(request), arena);
    slice members = mcp_run_members(out, act->shows, arena);
    return arena_printf(arena, "{%.*s%.*s%.*s", SLICE_ARG(act->coerced), SLICE_ARG(members),
                        SLICE_ARG(slice_from(summary, 1)));
}

static enum op_result reply_results(struct api_request *request)
{
    struct run *run = request->state;
    size_t len = 0;
    bool is_any = false;
    api_trace_batch_end(request, run->batch.trace, run->batch.count);
    struct json_writer *w = api_reply_open(request, REPLY_BYTES_MAX);
    json_member_open(w, "results", '[');
    for (size_t i = 0; i < run->batch.count; i++) {
        const struct api_batch_item *item = &run->batch.items[i];
        slice result = run->acts[i].result;
        if (!result.ptr && item->problem.ptr)
            result = error_result(request, item->problem, item->retry_after_s);
        else if (!result.ptr)
            result = outcome_result(request, &run->acts[i], item->exec);
        if (item->exec && len + result.len > RESULTS_BYTES_MAX)
            result = left_out_result(request, exec_outcome_of(item->exec));
        len += result.len;
        is_any = is_any || (item->exec && exec_outcome_of(item->exec)->reason == EXEC_SUCCEEDED &&
                            !run->acts[i].is_unseen);
        json_put_raw(w, result);
    }
    json_close(w, ']');
    return api_reply_close(request, is_any ? 200 : 409);
}

/* ---- the runs ---- */

/* Whether the act makes a write whose reply may be lost, as exec/lost.c decides for its run. */
static bool may_be_lost(const struct run *run, size_t i, const struct catalog_action *action)
{
    const struct act *act = &run->acts[i];
    bool runs = !run->batch.items[i].problem.ptr && !act->result.ptr && !act->wanted.is_dry_run;
    bool is_allowed = !action->requires_confirmation ||
                      (act->wanted.is_confirmed && !act->wanted.refusal_hint.ptr);
    return runs && is_allowed && action->level != LEVEL_READ && !act->wanted.idempotency_key.ptr;
}

/* Equal writes without a key are numbered, so that after a lost reply each gets its own result.
 * Those that do not run are not counted: a repetition may leave them out. Returns false if out of
 * memory. */
static bool number_writes(struct api_request *request, struct run *run)
{
    uint8_t fingerprints[API_BATCH_ITEMS_MAX][IDEMPOTENCY_FINGERPRINT_LEN] = {{0}};
    for (size_t i = 0; i < run->batch.count; i++) {
        struct exec_request *wanted = &run->acts[i].wanted;
        const struct catalog_action *action =
            run->acts[i].is_read ? mcp_wanted_action(request, wanted) : NULL;
        if (!action || !may_be_lost(run, i, action))
            continue;
        if (exec_fingerprint(wanted, action->action_id, fingerprints[i]) != OK)
            return false;
        for (size_t other = 0; other < i; other++)
            wanted->lost_number +=
                memcmp(fingerprints[other], fingerprints[i], sizeof(fingerprints[i])) == 0;
    }
    return true;
}

static enum op_result run_all(struct api_request *request)
{
    struct run *run = request->state;
    if (!number_writes(request, run))
        return api_reply_no_memory(request);
    for (size_t i = 0; i < run->batch.count; i++)
        if (!run->batch.items[i].problem.ptr && !run->acts[i].result.ptr)
            api_batch_start(request, &run->batch.items[i], &run->acts[i].wanted);
    return api_batch_wait(request, reply_results);
}

/* ---- the form ---- */

static enum op_result refuse_large(struct api_request *request)
{
    return api_reply_error(request, 409,
                           "The writes are larger together than a form can show (32 KB), so no "
                           "person can agree to them. Nothing was done. Run fewer in one call.");
}

/* Returns the text of the form: every write, and what its ids mean. Returns SLICE_NONE if it is too
 * long for a form: one write must not hide what another one means. */
static slice show_calls(struct api_request *request, const struct run *run, size_t count)
{
    struct arena *arena = &request->serve.op.arena;
    struct buf form;
    size_t number = 0;
    buf_init(&form, MCP_FORM_BYTES_MAX);
    buf_printf(&form, "%zu %s", count, count == 1 ? "write:" : "writes, made together:");
    for (size_t i = 0; i < run->batch.count; i++) {
        const struct act *act = &run->acts[i];
        struct exec *exec = run->batch.items[i].exec;
        if (!act->is_in_form)
            continue;
        slice call = mcp_confirm_call(exec, act->title, act->wanted.input, arena);
        slice shows = mcp_confirm_shows(request, exec, &act->wanted);
        form.is_failed = form.is_failed || !call.ptr || !shows.ptr;
        buf_printf(&form, "\n\n%zu. ", ++number);
        buf_append(&form, call);
        buf_append(&form, shows);
    }
    return arena_take(arena, &form);
}

/* Returns the connections that the form shows; for an action that it does not show, true if that
 * could run without it, else null. They come back in the state. Returns NULL if out of memory. */
static const struct json *form_item_of(struct arena *arena, const struct run *run)
{
    struct buf text;
    buf_init(&text, MCP_FILLED_BYTES_MAX);
    buf_append_cstr(&text, "{\"in_form\":[");
    for (size_t i = 0; i < run->batch.count; i++) {
        buf_append_cstr(&text, i > 0 ? "," : "");
        if (run->acts[i].is_in_form)
            buf_printf(&text, "%lld",
                       (long long)exec_outcome_of(run->batch.items[i].exec)->connection_id);
        else
            buf_append_cstr(&text, run->acts[i].is_unasked ? "true" : "null");
    }
    buf_append_cstr(&text, "]}");
    return json_parse(arena, arena_take(arena, &text), &json_limits_request, NULL);
}

/* A dry run that failed is the result of its action; nothing else of it is kept. */
static enum op_result finish_dry_runs(struct api_request *request)
{
    struct run *run = request->state;
    struct mcp_message *message = request->outer;
    struct arena *arena = &request->serve.op.arena;
    size_t count = 0;
    for (size_t i = 0; i < run->batch.count; i++) {
        struct act *act = &run->acts[i];
        struct exec *exec = run->batch.items[i].exec;
        const struct exec_outcome *out = exec ? exec_outcome_of(exec) : NULL;
        bool is_asked = exec && act->asking == ASKS_IN_FORM;
        bool can_run = is_asked && out->is_dry_run && out->reason == EXEC_SUCCEEDED;
        act->is_in_form = can_run && out->wants_confirmation;
        act->is_unasked = can_run && !out->wants_confirmation;
        count += act->is_in_form;
        if (is_asked && !can_run)
            act->result = arena_dup(arena, outcome_result(request, act, exec));
        if (exec && act->asking == ASKS_IN_WORDS)
            act->shows = mcp_run_shows(exec, arena);
    }
    if (count > 0) {
        struct mcp_state state = {.connection_id = 0};
        memcpy(state.call, run->digest, sizeof(state.call));
        slice text = show_calls(request, run, count);
        message->filled = form_item_of(arena, run);
        if (!message->filled)
            return api_reply_no_memory(request);
        return text.ptr ? mcp_confirm_send(request, &state, text) : refuse_large(request);
    }
    for (size_t i = 0; i < run->batch.count; i++)
        run->batch.items[i].exec = NULL;
    return run_all(request);
}

/* Starts the dry runs of what a person is asked about, and of writes whose ids are explained to a
 * client without forms. */
static enum op_result ask_form(struct api_request *request)
{
    struct run *run = request->state;
    struct mcp_message *message = request->outer;
    for (size_t i = 0; i < run->batch.count; i++) {
        struct act *act = &run->acts[i];
        const struct catalog_action *action =
            act->is_read ? mcp_wanted_action(request, &act->wanted) : NULL;
        /* The argument `confirm` is not enough for a client with forms. The action is looked up
         * again when it runs, and a reload may have added it since. */
        if (message->has_forms || !action)
            act->wanted.is_confirmed = false;
        if (!action || run->batch.items[i].problem.ptr || act->result.ptr ||
            !api_may(request, SCOPE_EXECUTE, action))
            continue; /* the execution reports what is wrong */
        mcp_confirm_limit(request, message, action, &act->wanted);
        /* a copy: a reload may drop the action */
        act->title = arena_dup(&request->serve.op.arena, action->title);
        struct exec_request dry = mcp_run_dry(&act->wanted);
        if (mcp_confirm_is_wanted(request, message, &act->wanted)) {
            act->asking = ASKS_IN_FORM;
            dry.is_recorded_by_caller = false;
            dry.idempotency_key = act->wanted.idempotency_key;
        } else if (mcp_run_will_be_asked(request, action, &act->wanted)) {
            act->asking = ASKS_IN_WORDS;
        } else {
            act->is_unasked = true;
            continue;
        }
        api_batch_start(request, &run->batch.items[i], &dry);
    }
    return api_batch_wait(request, finish_dry_runs);
}

/* ---- the answer ---- */

static enum op_result finish_no(struct api_request *request)
{
    struct run *run = request->state;
    bool is_late = false;
    for (size_t i = 0; i < run->batch.count; i++) {
        struct claim_outcome found;
        if (!run->acts[i].is_in_form)
            continue;
        int status = run->is_short_of_memory ? ERR_NOMEM
                                             : store_claim_result(&run->acts[i].query, &found);
        if (status != OK)
            return status == ERR_NOMEM ? api_reply_no_memory(request)
                                       : api_reply_database(request, status);
        is_late = is_late || !store_claim_is_spent(&found);
    }
    return mcp_confirm_reply_no(request, is_late);
}

/* Spends the key of each write that was shown. */
static enum op_result take_no(struct api_request *request)
{
    struct run *run = request->state;
    for (size_t i = 0; i < run->batch.count; i++)
        if (run->acts[i].is_in_form && !run->is_short_of_memory)
            run->is_short_of_memory = !exec_claim_spend(request->api->config.pool,
                                                        &run->acts[i].query, &request->serve.op,
                                                        &run->acts[i].wanted);
    return request->serve.op.holds > 0 ? api_wait(request, finish_no) : finish_no(request);
}

/* What was shown has the consent, the connection and the key that go with the form. */
static void take_form_items(struct api_request *request, struct act *act, size_t index,
                            const struct json *in_form, slice key)
{
    const struct catalog_action *action = act->is_read ? mcp_wanted_action(request, &act->wanted)
                                                       : NULL;
    act->is_in_form = action && json_to_i64(in_form, &act->wanted.connection_id);
    act->is_unasked = json_is(in_form, JSON_BOOL);
    act->is_unseen = action && !act->is_in_form && !act->is_unasked &&
                     action->requires_confirmation && !act->wanted.is_dry_run;
    act->wanted.is_confirmed = act->is_in_form;
    act->wanted.is_dry_run = act->wanted.is_dry_run || act->is_unseen;
    if (act->is_in_form && !act->wanted.idempotency_key.ptr)
        act->wanted.idempotency_key =
            arena_printf(&request->serve.op.arena, "%.*s-%zu", SLICE_ARG(key), index);
}

static enum op_result take_answer(struct api_request *request, slice sealed)
{
    struct run *run = request->state;
    struct mcp_state state;
    slice key = SLICE_NONE;
    int64_t guards_until;
    if (!mcp_state_open(request, sealed, &state))
        return mcp_confirm_refuse_state(request, "is not valid or is older than 10 minutes");
    const struct json *filled =
        json_parse(&request->serve.op.arena, state.filled, &json_limits_request, NULL);
    const struct json *in_form = JSON_GET(filled, "in_form");
    if (memcmp(state.call, run->digest, sizeof(state.call)) != 0 || !state.is_confirmation ||
        !json_is(in_form, JSON_ARRAY) || in_form->count != run->batch.count)
        return mcp_confirm_refuse_state(request, "belongs to another call");
    enum mcp_answer answer = mcp_confirm_answer(request, &state, &key, &guards_until);
    if (answer == MCP_ANSWER_NONE)
        return ask_form(request);
    if (!key.ptr)
        return api_reply_no_memory(request);
    for (size_t i = 0; i < run->batch.count; i++) {
        take_form_items(request, &run->acts[i], i, &in_form->as.items[i], key);
        run->acts[i].wanted.key_guards_until = run->acts[i].is_in_form ? guards_until : 0;
        if (run->acts[i].is_in_form && !run->acts[i].wanted.idempotency_key.ptr)
            return api_reply_no_memory(request);
    }
    return answer == MCP_ANSWER_NO ? take_no(request) : run_all(request);
}

/* ---- the arguments ---- */

/* Makes the digest of all calls and their actions, as they are before a state changes them. Returns
 * false if they are too large. */
static bool digest_calls(struct api_request *request, struct run *run)
{
    struct buf text;
    buf_init(&text, MCP_CALL_BYTES_MAX);
    buf_append_cstr(&text, "run_actions\n");
    for (size_t i = 0; i < run->batch.count; i++) {
        const struct act *act = &run->acts[i];
        const struct catalog_action *action =
            act->is_read ? mcp_wanted_action(request, &act->wanted) : NULL;
        uint8_t call[32] = {0};
        if (action && !mcp_state_digest(&act->wanted, action, call))
            text.is_failed = true;
        buf_append(&text, slice_of(call, sizeof(call)));
    }
    bool is_whole = buf_is_ok(&text);
    if (is_whole)
        vault_sha256(buf_slice(&text), run->digest);
    buf_deinit(&text);
    return is_whole;
}

static enum op_result decide(struct api_request *request)
{
    const struct mcp_message *message = request->outer;
    if ((message->has_forms || message->state.ptr) && !digest_calls(request, request->state))
        return refuse_large(request);
    return message->state.ptr ? take_answer(request, message->state) : ask_form(request);
}

static enum op_result finish_labels(struct api_request *request)
{
    struct run *run = request->state;
    for (size_t i = 0; i < run->batch.count; i++) {
        struct act *act = &run->acts[i];
        int status = act->label.ptr ? mcp_label_take(request, &act->search, &act->wanted,
                                                     act->label, &act->result)
                                    : OK;
        if (status != OK)
            return status == ERR_NOMEM ? api_reply_no_memory(request)
                                       : api_reply_database(request, status);
    }
    return decide(request);
}

/* Returns the fault of a name that run_action does not take, or SLICE_NONE. */
static slice unknown_fault(struct api_request *request, const struct json *call)
{
    for (uint32_t i = 0; i < call->count; i++) {
        slice name = json_str(&call->as.members[i].key);
        if (!api_names_has(mcp_run_action.members, name))
            return api_sentence(request, "run_action has no argument %.*s.",
                                SLICE_ARG(json_excerpt(name, &request->serve.op.arena)));
    }
    return SLICE_NONE;
}

/* Gives the call its part of the result's bytes, and a key of its own if the key is in _meta, which
 * all calls share. Returns the fault of that key, or SLICE_NONE. */
static slice prepare(struct api_request *request, struct act *act, const struct json *call,
                     size_t index, size_t count)
{
    struct exec_request *wanted = &act->wanted;
    bool has_key = json_given(call, SLICE("idempotency_key")) != NULL;
    bool has_limit = json_given(call, SLICE("max_output_bytes")) != NULL;
    size_t share = (has_limit ? MCP_OUTPUT_BYTES_MAX : MCP_OUTPUT_BYTES) / count;
    wanted->on_page = NULL;
    if (!has_limit || wanted->output_bytes_max > share)
        wanted->output_bytes_max = share;
    if (has_key || !wanted->idempotency_key.ptr) {
        wanted->key_name = "idempotency_key of this action";
        return SLICE_NONE;
    }
    wanted->idempotency_key = arena_printf(&request->serve.op.arena, "%.*s-%zu",
                                           SLICE_ARG(wanted->idempotency_key), index);
    return api_key_fault(wanted->idempotency_key);
}

/* Returns the fault of this item, or SLICE_NONE. */
static slice read_act(struct api_request *request, struct act *act, size_t index,
                      const struct json *list)
{
    struct mcp_message *message = request->outer;
    message->slips.count = message->slip_bytes = 0; /* each action has its own */
    const struct json *call =
        mcp_mend_value(request, message, "object", &list->as.items[index], SLICE(""));
    if (call->type != JSON_OBJECT)
        return SLICE("An action must be a JSON object");
    slice fault = api_members_fault(request, mcp_run_action.members, call);
    if (!fault.ptr)
        fault = unknown_fault(request, call);
    if (fault.ptr)
        return fault;
    call = mcp_mend_arguments(request, message, "run_action", call);
    if (!call)
        return SLICE("Out of memory. Try again.");
    fault = mcp_run_read(request, call, &act->wanted, &act->label);
    if (!fault.ptr)
        fault = prepare(request, act, call, index, list->count);
    if (fault.ptr)
        return fault;
    const struct catalog_action *action = mcp_wanted_action(request, &act->wanted);
    if (action) { /* as mcp_run does */
        act->wanted.input =
            schema_drop_nulls(action->schema, act->wanted.input, &request->serve.op.arena);
        act->wanted.input = mcp_mend_input(request, message, action->schema, act->wanted.input);
    }
    act->coerced = mcp_slips_member(request, message);
    act->is_read = true;
    if (act->label.ptr)
        fault = mcp_label_find(request, &act->search, &act->wanted, act->label);
    if (fault.ptr) /* no query was sent */
        act->label = SLICE_NONE;
    return fault;
}

static enum op_result begin_run_actions(struct api_request *request)
{
    const struct json *list = api_batch_list(request, "actions");
    if (!list)
        return OP_DONE;
    if (api_batch_awaits_rate(request, list->count))
        return api_wait(request, begin_run_actions);
    struct run *run = ARENA_NEW(&request->serve.op.arena, struct run);
    struct act *acts = ARENA_ARRAY(&request->serve.op.arena, struct act, list->count);
    if (!run || !acts || !api_batch_init(request, &run->batch, list->count, REPLY_BYTES_MAX))
        return api_reply_no_memory(request);
    run->acts = acts;
    for (size_t i = 0; i < list->count; i++) {
        struct api_batch_item *item = &run->batch.items[i];
        slice fault = read_act(request, &acts[i], i, list);
        if (!item->problem.ptr)
            item->problem = fault;
    }
    ((struct mcp_message *)request->outer)->slips.count = 0;
    return request->serve.op.holds > 0 ? api_wait(request, finish_labels) : decide(request);
}

#define EACH "the argument of each action"

const struct api_endpoint mcp_run_actions = {
    .scope = SCOPE_EXECUTE,
    .members = &(const struct api_names){.own = {"actions"},
                                         .other = {{"dry_run", EACH},
                                                   {"idempotency_key", EACH},
                                                   {"confirm", EACH},
                                                   {"max_output_bytes", EACH},
                                                   {"max_pages", EACH},
                                                   {"select", EACH},
                                                   {"executions", "actions"}}},
    .begin = begin_run_actions,
};
