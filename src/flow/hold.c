/*
 * Makes the holds of exec (exec/hold.h). A hold is a flow of two steps, an approval and the held
 * call, and a row that binds the request's key to that flow (store/hold.h). A request whose key has
 * a hold gets it, whatever has become of it.
 *
 * The template differs only by its tool. It is stored before its first use, as flows refer to
 * stored versions. What the request was, and what held it, is the flow's input.
 */
#include "exec/hold.h"

#include <stdio.h>

#include "base/clock.h"
#include "flow/doer.h"
#include "flow/internal.h"
#include "flow/load.h"

enum {
    HOLDING_ARENA_BYTES_MAX = 1024 * 1024,
    /* between two statements another request can make a hold with the key, or its flow can end */
    TRIES_MAX = 4,
};

struct holding {
    struct op op;
    struct flow_service *service;
    struct exec_hold *hold; /* in the parent's memory */
    slice tool, title;      /* of its action, which lives no longer than the parent */
    struct list link;
    struct pg_query query;
    struct hold_found found;
    struct hold row;            /* to be made */
    struct flow_template *tmpl; /* a reference */
    struct flow_command command;
    struct flow_load *load; /* NULL: none is under way */
    struct flow_doer doer;  /* that has cancelled it */
    unsigned tries;
};

OP_OF(holding_of, holding)

enum holding_step {
    HOLDING_FIND,
    HOLDING_FOUND,
    HOLDING_TEMPLATE,
    HOLDING_STORED,
    HOLDING_START,
    HOLDING_STARTED,
    HOLDING_LOAD,
    HOLDING_LOADED,
    HOLDING_CANCELLED,
};

static struct arena *texts_of(const struct holding *holding)
{
    return &holding->op.parent->arena;
}

static enum op_result answer_unavailable(struct holding *holding)
{
    holding->hold->answer = EXEC_HOLD_UNAVAILABLE;
    return OP_DONE;
}

/* message is SLICE_NONE if there was no memory for it. */
static enum op_result answer_with(struct holding *holding, enum exec_hold_answer how, slice message,
                                  slice hint)
{
    if (!message.ptr)
        return answer_unavailable(holding);
    holding->hold->answer = how;
    holding->hold->message = message;
    holding->hold->hint = hint;
    return OP_DONE;
}

/* ---- the hold of the key ---- */

static enum op_result step_find(struct op *op)
{
    struct holding *holding = holding_of(op);
    const struct exec_hold *hold = holding->hold;
    if (++holding->tries > TRIES_MAX)
        return answer_unavailable(holding);
    store_hold_find(holding->service->config.pool, &holding->query, op, hold->account_id,
                    hold->key);
    return OP_WAIT;
}

static enum op_result step_found(struct op *op)
{
    struct holding *holding = holding_of(op);
    struct exec_hold *hold = holding->hold;
    int status = store_hold_find_result(&holding->query, &holding->found);
    if (status == ERR_NOTFOUND)
        return OP_NEXT;
    if (status != OK)
        return answer_unavailable(holding);
    if (memcmp(holding->found.hold.fingerprint, hold->fingerprint, sizeof(hold->fingerprint)) != 0)
        return answer_with(holding, EXEC_HOLD_MISMATCH, SLICE(""), SLICE_NONE);
    return op_jump(op, HOLDING_LOAD);
}

/* ---- the template ---- */

/* clang-format off */
#define ANY(name) "\"" name "\":{}"
static const char template_text[] =
    "{\"key\":\"" FLOW_HELD_KEY "\",\"name\":\"" FLOW_HELD_NAME "\","
    "\"description\":\"A call that waits for an approval.\","
    "\"flow_title\":\"${input.title}\","
    "\"input\":{\"type\":\"object\",\"additionalProperties\":false,\"properties\":{"
    ANY("tool") "," ANY("title") "," ANY("summary") "," ANY("input") "," ANY("pages") ","
    ANY("connection_id") "," ANY("connection") "," ANY("asker") "," ANY("user") ","
    ANY("policy") "," ANY("rule") "," ANY("reason") "," ANY("unattended") ","
    ANY("idempotency_key") "," ANY("expires_in") "," ANY("reads") "}},"
    "\"steps\":[{\"key\":\"approval\",\"type\":\"approval\",\"title\":\"${input.title}\","
    "\"summary\":\"${input.summary}\",\"expires_in\":\"${input.expires_in}\"},"
    "{\"key\":\"call\",\"type\":\"tool_call\",\"tool\":\"%.*s\",\"input\":\"${input.input}\","
    "\"connection\":\"${input.connection_id}\",\"confirmed_by\":\"approval:approval\","
    "\"held\":true}]}";
/* clang-format on */

/* Compiled without the catalog, which has the tool, like a stored version. */
static struct flow_template *make_template(slice tool, struct arena *arena)
{
    slice text = arena_printf(arena, template_text, SLICE_ARG(tool));
    struct catalog_report *report = text.ptr ? catalog_report_new(NULL) : NULL;
    if (!report)
        return NULL;
    struct flow_template *tmpl = flow_template_compile(SLICE(FLOW_HELD_KEY), text, NULL, report);
    catalog_report_free(report);
    return tmpl;
}

/* A version that is in memory is stored. */
static enum op_result step_template(struct op *op)
{
    struct holding *holding = holding_of(op);
    struct flow_service *service = holding->service;
    if (!holding->tmpl)
        holding->tmpl = make_template(holding->tool, &op->arena);
    if (!holding->tmpl)
        return answer_unavailable(holding);
    if (flow_template_known(service, holding->tmpl->version))
        return op_jump(op, HOLDING_START);
    store_flow_template_insert(service->config.pool, &holding->query, op, holding->tmpl->version,
                               holding->tmpl->key, holding->tmpl->body, clock_shared_us());
    return OP_WAIT;
}

static enum op_result step_stored(struct op *op)
{
    struct holding *holding = holding_of(op);
    if (store_done_result(&holding->query) != OK)
        return answer_unavailable(holding);
    if (!flow_template_known(holding->service, holding->tmpl->version))
        flow_pinned_keep(holding->service, holding->tmpl);
    return OP_NEXT;
}

/* ---- the flow ---- */

static void put_known(struct holding *holding, struct json *object, const char *name, slice text)
{
    if (text.len > 0)
        json_object_set(&holding->op.arena, object, slice_cstr(name), json_string(text));
}

/* Returns what holds the call, in words. */
static slice summary_of(struct holding *holding)
{
    const struct exec_hold *hold = holding->hold;
    struct arena *arena = &holding->op.arena;
    bool has_user = hold->user.len > 0;
    char rule[32] = "default", pages[48] = "";
    if (hold->rule >= 0)
        (void)snprintf(rule, sizeof(rule), "rules[%d]", hold->rule);
    if (hold->pages_max > 1)
        (void)snprintf(pages, sizeof(pages), " Up to %u pages are read.", hold->pages_max);
    slice user = has_user
                     ? arena_printf(arena, "%s For the user %.*s.", pages, SLICE_ARG(hold->user))
                     : arena_dup(arena, slice_cstr(pages));
    if (hold->is_unattended)
        return arena_printf(arena, "The client that asks cannot let a person confirm it.%.*s",
                            SLICE_ARG(user));
    return arena_printf(arena, "The policy %.*s holds it (%s)%s%.*s%s%.*s",
                        SLICE_ARG(hold->decider), rule, hold->reason.len > 0 ? ": " : "",
                        SLICE_ARG(hold->reason),
                        slice_ends_with(hold->reason, SLICE(".")) ? "" : ".", SLICE_ARG(user));
}

/* Returns the flow's input: what a person needs to see, and what the call needs. */
static struct json input_of(struct holding *holding)
{
    const struct exec_hold *hold = holding->hold;
    struct arena *arena = &holding->op.arena;
    struct json input = json_object();
    char asker[UUID_TEXT_LEN + 1], digits[SLICE_U64_MAX];
    uuid_format(hold->asker, asker);
    put_known(holding, &input, "tool", holding->tool);
    put_known(holding, &input, "title", holding->title);
    put_known(holding, &input, "summary", summary_of(holding));
    json_object_set(arena, &input, SLICE("input"), *hold->input);
    if (hold->pages_max > 1)
        json_object_set(arena, &input, SLICE("pages"), json_i64(hold->pages_max));
    if (hold->connection_id > 0)
        put_known(holding, &input, "connection_id",
                  arena_dup(arena, slice_of_u64((uint64_t)hold->connection_id, digits)));
    put_known(holding, &input, "connection", hold->connection_name);
    put_known(holding, &input, "asker", arena_dup(arena, slice_cstr(asker)));
    put_known(holding, &input, "user", hold->user);
    put_known(holding, &input, "policy", hold->decider);
    if (hold->decider.len > 0 && hold->rule >= 0)
        json_object_set(arena, &input, SLICE("rule"), json_i64(hold->rule));
    put_known(holding, &input, "reason", hold->reason);
    if (hold->is_unattended)
        put_known(holding, &input, "unattended",
                  hold->is_by_setting ? SLICE("setting") : SLICE("key"));
    put_known(holding, &input, "idempotency_key", hold->key);
    json_object_set(arena, &input, SLICE("expires_in"), json_i64(hold->expires_s));
    if (!(hold->scopes & SCOPE_EXECUTE_READ)) /* see flow_shows_read */
        json_object_set(arena, &input, SLICE("reads"), json_bool(false));
    return input;
}

static enum op_result step_start(struct op *op)
{
    struct holding *holding = holding_of(op);
    const struct exec_hold *hold = holding->hold;
    struct json *input = ARENA_NEW(&op->arena, struct json);
    if (!input)
        return answer_unavailable(holding);
    *input = input_of(holding);
    if (op->arena.is_exhausted)
        return answer_unavailable(holding);
    holding->row = (struct hold){
        .account_id = hold->account_id,
        .key = hold->key,
        .asker = hold->asker,
        .lifetime_ms = flow_key_lifetime_ms(holding->service, hold->key_guards_until),
    };
    memcpy(holding->row.fingerprint, hold->fingerprint, sizeof(hold->fingerprint));
    const struct flow_request request = {
        .kind = FLOW_COMMAND_START,
        .account_id = hold->account_id,
        .by = hold->by,
        .scopes = hold->scopes,
        .policy = hold->policy,
        .user = hold->user,
        .hold = &holding->row,
        .tmpl = holding->tmpl,
        .template_key = holding->tmpl->key,
        .input = input,
        .trigger_type = SLICE("agent"),
        .trace = hold->trace,
    };
    flow_command_start(holding->service, &holding->command, &request, op);
    return OP_WAIT;
}

/* The time at which the approval expires. The flow may run before it asks, to read what ids mean
 * (shows.c): then it is not known yet, and will be a little later than this. */
static int64_t expires_at(const struct holding *holding, const struct flow *flow)
{
    if (flow->waiting_for == FLOW_WAITS_APPROVAL)
        return flow_approval_ends_at(flow);
    return flow->updated_at + (int64_t)holding->hold->expires_s * 1000000;
}

static enum op_result answer_open(struct holding *holding, const struct flow *flow, bool is_decided)
{
    struct exec_hold *hold = holding->hold;
    hold->answer = EXEC_HOLD_OPEN;
    hold->flow_id = flow->id;
    hold->url = flow_service_url(holding->service, flow->id, hold->user, texts_of(holding));
    hold->status = slice_cstr(flow_status_name(flow->status));
    hold->expires_at = is_decided ? 0 : expires_at(holding, flow);
    hold->again_at = flow->waiting_for == FLOW_WAITS_RETRY ? flow_due_at(flow) : 0;
    return OP_DONE;
}

static enum op_result step_started(struct op *op)
{
    struct holding *holding = holding_of(op);
    struct exec_hold *hold = holding->hold;
    const struct flow_command *command = &holding->command;
    slice message = command->message.ptr ? arena_dup(texts_of(holding), command->message)
                                         : SLICE_NONE;
    switch (command->answer) {
    case FLOW_ANSWER_DONE:
        hold->is_new = true;
        return answer_open(holding, &command->flow, false);
    case FLOW_ANSWER_REPEATED: /* another request was faster */
        return op_jump(op, HOLDING_FIND);
    case FLOW_ANSWER_CONFLICT:
        return answer_with(holding, EXEC_HOLD_FULL, message,
                           SLICE("Decide on some of them, or wait until they expire."));
    case FLOW_ANSWER_INVALID:
        return answer_with(holding, EXEC_HOLD_FULL, message,
                           SLICE("A person has to see the whole call. Send less in one call."));
    case FLOW_ANSWER_UNAVAILABLE: /* says why, and that nothing was done */
        hold->message = message;
        return answer_unavailable(holding);
    default:
        return answer_unavailable(holding);
    }
}

/* ---- what has become of it ---- */

static enum op_result step_load(struct op *op)
{
    struct holding *holding = holding_of(op);
    holding->load = flow_load_start(holding->service, holding->hold->account_id,
                                    holding->found.hold.flow_id, NULL, op);
    return holding->load ? OP_WAIT : answer_unavailable(holding);
}

static slice time_text(int64_t at, struct arena *arena)
{
    char text[TIME_TEXT_LEN + 1];
    time_format(at, text);
    return arena_dup(arena, slice_of(text, TIME_TEXT_LEN));
}

/* Returns the approval's last attempt that has ended, since a resumed one asks again; NULL: it has
 * none. */
static const struct flow_step *find_approval(const struct flow_whole *whole)
{
    const struct flow_step *found = NULL;
    for (size_t i = 0; i < whole->step_count; i++)
        if (whole->steps[i].step_index == 0)
            found = &whole->steps[i];
    return found;
}

static const struct json *error_of(struct holding *holding, const struct flow_step *step)
{
    return step && step->error.ptr
               ? json_parse(&holding->op.arena, step->error, &json_limits_provider, NULL)
               : NULL;
}

/* Whether a person has rejected it; *message then says who, and why. */
static bool is_rejected(struct holding *holding, const struct flow_step *last, slice *message)
{
    slice note;
    const struct json *error = error_of(holding, last);
    *message = json_get_str(error, SLICE("message"));
    return last && last->step_index == 0 && flow_decider_of(NULL, error, &note).ptr;
}

static bool has_expired(struct holding *holding, const struct flow_step *approval)
{
    const struct json *error = error_of(holding, approval);
    return slice_eq_cstr(json_get_str(error, SLICE("code")), "timeout");
}

/* Returns the rest of a sentence that ends with this message of an error, and that nothing was
 * done, unless the message says so. */
static slice end_of_message(slice message, bool is_done)
{
    bool is_said = is_done || slice_find(message, SLICE("Nothing was ")) >= 0;
    if (slice_ends_with(message, SLICE(".")))
        return is_said ? SLICE("") : SLICE(" Nothing was done.");
    return is_said ? SLICE(".") : SLICE(". Nothing was done.");
}

/* Says how the hold ended without a cancel. `last` is the attempt that ended last; NULL: none
 * has. */
static slice say_end(struct holding *holding, const struct flow_whole *whole,
                     const struct flow_step *last)
{
    struct arena *arena = texts_of(holding);
    slice message;
    if (whole->flow.status == FLOW_COMPLETED)
        return SLICE("This call was approved and made. Its result is in the flow.");
    if (is_rejected(holding, last, &message))
        return arena_printf(arena, "This call was rejected. %.*s%.*s", SLICE_ARG(message),
                            SLICE_ARG(end_of_message(message, false)));
    if (last && last->step_index == 0 && has_expired(holding, last))
        return arena_printf(arena,
                            "There was no decision on this call by %.*s, when its approval "
                            "expired. Nothing was done.",
                            SLICE_ARG(time_text(whole->flow.updated_at, arena)));
    if (!last || last->step_index == 0)
        return arena_printf(arena, "The approval of this call has failed: %.*s%.*s",
                            SLICE_ARG(message), SLICE_ARG(end_of_message(message, false)));
    bool is_done = holding->hold->effect != EXEC_EFFECT_NONE;
    return arena_printf(arena, "This call was approved, and failed at %.*s: %.*s%.*s",
                        SLICE_ARG(time_text(whole->flow.updated_at, arena)), SLICE_ARG(message),
                        SLICE_ARG(end_of_message(message, is_done)));
}

/* Whether a record is the answer: not that of a call that has failed without an effect, which may
 * be asked for again. */
static bool has_result(struct holding *holding)
{
    const struct hold_found *found = &holding->found;
    const struct json *failure = found->failure.ptr ? json_parse(&holding->op.arena, found->failure,
                                                                 &json_limits_provider, NULL)
                                                    : NULL;
    slice code = json_get_str(failure, SLICE("error_code"));
    return found->has_record && !(failure && flow_error_effect(failure, code) == EXEC_EFFECT_NONE);
}

/* What the call has done, or may have done. If there is a record,
 * it is of a call without an effect (has_result). */
static enum exec_effect effect_of_ended(struct holding *holding, const struct flow_whole *whole,
                                        const struct flow_step *last)
{
    const struct json *error = error_of(holding, last);
    if (whole->flow.status == FLOW_COMPLETED)
        return EXEC_EFFECT_DONE;
    if (whole->flow.status == FLOW_FAILED && error)
        return flow_error_effect(error, json_get_str(error, SLICE("code")));
    bool is_begun = !uuid_is_nil(holding->found.hold.execution_id) && !holding->found.has_record;
    return is_begun ? EXEC_EFFECT_UNKNOWN : EXEC_EFFECT_NONE;
}

/* Whether `resume` makes the approved call: it has failed without an effect, and not because it is
 * no longer held. */
static bool may_resume(struct holding *holding, const struct flow_whole *whole,
                       const struct flow_step *last)
{
    const struct json *error = error_of(holding, last);
    slice code = json_get_str(error, SLICE("code"));
    return whole->flow.status == FLOW_FAILED && last && last->step_index > 0 &&
           holding->hold->effect == EXEC_EFFECT_NONE && !slice_eq_cstr(code, "policy_blocked") &&
           json_get_bool(error, SLICE("resumable"), true);
}

/* Says with which key the caller asks again, in the caller's own word for it. */
static slice say_again(struct holding *holding)
{
    const struct exec_hold *hold = holding->hold;
    return arena_printf(texts_of(holding),
                        hold->effect == EXEC_EFFECT_NONE
                            ? "To ask again, send the request with a new %s."
                            : "Check first what was done. A request with a new %s is another call.",
                        hold->key_name);
}

static enum op_result answer_over(struct holding *holding, slice message)
{
    return answer_with(holding, EXEC_HOLD_ENDED, message, say_again(holding));
}

/* A flow's rows do not have the person who cancelled it. */
static enum op_result answer_ended(struct holding *holding, const struct flow_whole *whole)
{
    const struct flow_step *last = whole->step_count > 0 ? &whole->steps[whole->step_count - 1]
                                                         : NULL;
    struct exec_hold *hold = holding->hold;
    slice message;
    hold->flow_id = whole->flow.id;
    hold->url = flow_service_url(holding->service, whole->flow.id, hold->user, texts_of(holding));
    hold->status = slice_cstr(flow_status_name(whole->flow.status));
    if (has_result(holding)) {
        hold->answer = EXEC_HOLD_RUN;
        hold->execution_id = holding->found.hold.execution_id;
        return OP_DONE;
    }
    hold->effect = effect_of_ended(holding, whole, last);
    if (may_resume(holding, whole, last))
        return answer_with(
            holding, EXEC_HOLD_ENDED, say_end(holding, whole, last),
            arena_printf(texts_of(holding),
                         "POST /api/flows/{id}/resume makes the approved call again. %.*s",
                         SLICE_ARG(say_again(holding))));
    if (whole->flow.status != FLOW_CANCELLED || is_rejected(holding, last, &message))
        return answer_over(holding, say_end(holding, whole, last));
    holding->doer = (struct flow_doer){.kind = AUDIT_FLOW_CANCELLED, .at = whole->flow.updated_at};
    flow_doer_ask(holding->service->config.pool, &holding->op, hold->account_id, &holding->doer);
    return OP_WAIT;
}

/* The row was read before the flow: if the flow has ended in between, there may be a record now. */
static enum op_result step_loaded(struct op *op)
{
    struct holding *holding = holding_of(op);
    const struct flow_load *load = holding->load;
    const struct flow_whole *whole = &load->whole;
    holding->load = NULL;
    if (load->status != OK && load->status != ERR_NOTFOUND)
        return answer_unavailable(holding);
    if (load->status == ERR_NOTFOUND || (flow_load_has_ended(load) && holding->found.is_open))
        return op_jump(op, HOLDING_FIND);
    if (!flow_load_has_ended(load)) {
        const struct flow_step *approval = find_approval(whole);
        return answer_open(holding, &whole->flow, approval && approval->is_completed);
    }
    return answer_ended(holding, whole);
}

static enum op_result step_cancelled(struct op *op)
{
    struct holding *holding = holding_of(op);
    struct arena *arena = texts_of(holding);
    slice by = SLICE_NONE, at = time_text(holding->doer.at, arena);
    int64_t done_at;
    if (flow_doer_result(&holding->doer, holding->hold->flow_id, &by, &done_at) != OK)
        by = SLICE_NONE; /* the rest is known */
    return answer_over(holding,
                       arena_printf(arena, "The flow of this call was cancelled%s%.*s at %.*s%s",
                                    by.ptr ? " by " : "", SLICE_ARG(by), SLICE_ARG(at),
                                    holding->hold->effect == EXEC_EFFECT_NONE
                                        ? ", before it was made. Nothing was done."
                                        : ". It may have been made."));
}

static const struct op_step steps[] = {
    [HOLDING_FIND] = {"find", step_find, 0},
    [HOLDING_FOUND] = {"found", step_found, OP_TO(HOLDING_LOAD)},
    [HOLDING_TEMPLATE] = {"template", step_template, OP_TO(HOLDING_START)},
    [HOLDING_STORED] = {"stored", step_stored, 0},
    [HOLDING_START] = {"start", step_start, 0},
    [HOLDING_STARTED] = {"started", step_started, OP_TO(HOLDING_FIND)},
    [HOLDING_LOAD] = {"load", step_load, 0},
    [HOLDING_LOADED] = {"loaded", step_loaded, OP_TO(HOLDING_FIND)},
    [HOLDING_CANCELLED] = {"cancelled", step_cancelled, 0},
};

static void on_cancel(struct op *op)
{
    struct holding *holding = holding_of(op);
    op_cancel(&holding->command.op);
    if (holding->load)
        op_cancel(&holding->load->op);
}

static void on_end(struct op *op, enum op_end how)
{
    struct holding *holding = holding_of(op);
    if (how == OP_ENDED_CANCELLED)
        holding->hold->answer = EXEC_HOLD_UNAVAILABLE;
    list_unlink(&holding->link);
    holding->service->holding_count--;
}

/* The struct is in the parent's arena. */
static void free_holding(struct op *op)
{
    flow_template_unref(holding_of(op)->tmpl);
}

static const struct op_class holding_class = {
    .name = "hold",
    OP_STEPS(steps),
    .on_cancel = on_cancel,
    .on_end = on_end,
    .free = free_holding,
};

/* ---- the service ---- */

static bool begin_hold(void *owner, struct exec_hold *hold, struct op *op)
{
    struct flow_service *service = owner;
    struct holding *holding = arena_calloc(&op->arena, 1, sizeof(*holding));
    ASSERT(hold->key.len > 0 && hold->action && hold->expires_s > 0);
    if (!holding)
        return false;
    holding->service = service;
    holding->hold = hold;
    holding->tool = arena_dup(&op->arena, hold->action->tool_name);
    holding->title = arena_printf(&op->arena, "%.*s: %.*s",
                                  SLICE_ARG(hold->action->integration->name),
                                  SLICE_ARG(hold->action->title));
    if (!holding->tool.ptr || !holding->title.ptr)
        return false;
    list_init(&holding->link);
    list_push_back(&service->holdings, &holding->link);
    service->holding_count++;
    op_start(&holding->op, &holding_class, service->config.loop, op, HOLDING_ARENA_BYTES_MAX);
    holding->op.request_id = hold->by.request_id;
    return true;
}

void flow_holds_init(struct flow_service *service)
{
    list_init(&service->holdings);
    service->holder = (struct exec_holder){begin_hold, service};
    if (service->config.exec)
        exec_service_holder_set(service->config.exec, &service->holder);
}

void flow_holds_cancel(struct flow_service *service)
{
    LIST_EACH(&service->holdings, struct holding, holding, link)
        op_cancel(&holding->op);
}
