/*
 * Changes of a flow by a person. An approval is bound to what was displayed: the form contains the
 * revision of the page, and a flow that has changed since then is not approved.
 */
#include "trace/trace.h"
#include "web/flow_decision.h"
#include "flow/doer.h"
#include "web/flow_next.h"

struct pending {
    struct flow_command command;
    struct flow_request in;
    /* of a decision that came too late */
    struct flow_doer cancel;
    slice by; /* the person who was earlier; SLICE_NONE: unknown, or it has expired */
    int64_t at;
    struct flow_names *names;
};

/* A flow that is started here may be traced like any other. A browser sends no trace context,
 * but one from a proxy is used. */
static const struct trace_context *begin_trace(struct web_request *request)
{
    const struct tracer *tracer = request->web->config.tracer;
    slice parent = http_request_header(request->serve.exchange, SLICE("traceparent"));
    struct trace_context *trace = tracer ? ARENA_NEW(&request->serve.op.arena, struct trace_context)
                                         : NULL;
    return trace && trace_begin(tracer, parent, SLICE_NONE, trace) ? trace : NULL;
}

enum op_result web_begin_command(struct web_request *request, const struct flow_request *in,
                                 web_step *then)
{
    ASSERT(request->session.is_open && !request->state);
    struct pending *pending = web_state_new(request, sizeof(*pending));
    if (!pending)
        return OP_DONE;
    /* `in` may be on the caller's stack; the command reads this copy until it ends. */
    pending->in = *in;
    pending->in.account_id = request->session.account_id;
    pending->in.by = serve_by(&request->serve);
    pending->in.scopes = request->serve.grant.scopes;
    pending->in.policy = request->serve.policy;
    pending->in.user = request->serve.user;
    if (in->kind == FLOW_COMMAND_START)
        pending->in.trace = begin_trace(request);
    flow_command_start(request->web->config.flow, &pending->command, &pending->in,
                       &request->serve.op);
    return web_wait(request, then);
}

const struct flow_command *web_command_of(const struct web_request *request)
{
    const struct pending *pending = request->state;
    ASSERT(pending && !op_is_active(&pending->command.op));
    return &pending->command;
}

enum op_result web_refuse_command(struct web_request *request, const struct flow_command *command)
{
    /* REPEATED is a result of starts only, and web_flow_start treats it as done. */
    ASSERT(command->answer != FLOW_ANSWER_DONE && command->answer != FLOW_ANSWER_REPEATED);
    switch (command->answer) {
    case FLOW_ANSWER_NOT_FOUND:
        return web_reply_missing(request, "There is no such flow.");
    case FLOW_ANSWER_NO_TEMPLATE:
        return web_reply_problem(request, 404, "No such template",
                                 "It may have been removed. Reload the list.");
    case FLOW_ANSWER_NOT_IN_SCOPE:
        return web_reply_problem(request, 403, "Not allowed",
                                 "This flow writes, and the key of this session may only run "
                                 "actions that read. Sign in with a key that has the scope "
                                 "execute:write.");
    case FLOW_ANSWER_NOT_APPROVER:
        return web_reply_problem(request, 403, "Not decided", "%.*s", SLICE_ARG(command->message));
    case FLOW_ANSWER_CONFLICT:
    case FLOW_ANSWER_INVALID:
        return web_reply_problem(
            request, 409, "Not done",
            "%.*s The flow may have changed since its page was loaded. Reload it.",
            SLICE_ARG(command->message));
    case FLOW_ANSWER_UNAVAILABLE:
        if (command->message.ptr)
            return web_reply_problem(request, 503, "Not available now", "%.*s",
                                     SLICE_ARG(command->message));
        break;
    case FLOW_ANSWER_UNKNOWN:
        return web_reply_problem(request, 503, "Outcome unknown",
                                 "The database's answer was lost. Reload the flow's page, or the "
                                 "list of flows, to see whether the change was made.");
    case FLOW_ANSWER_KEY_MISMATCH: /* a form has no key */
    case FLOW_ANSWER_KEY_GONE:
    /* The ASSERT excludes the last two; they are listed for -Wswitch. */
    case FLOW_ANSWER_REPEATED:
    case FLOW_ANSWER_DONE:
        break;
    }
    return web_reply_database(request, ERR_BUSY);
}

static enum op_result reply_done(struct web_request *request)
{
    const struct flow_command *command = web_command_of(request);
    /* A redirect follows only a command that was carried out, so a reload repeats nothing. The
     * flow's page says what its state is, so it gets no notice. */
    if (command->answer != FLOW_ANSWER_DONE)
        return web_refuse_command(request, command);
    return web_reply_redirect(request,
                              arena_printf(&request->serve.op.arena, "/flows/%.*s",
                                           SLICE_ARG(request->serve.match.params[0])),
                              "");
}

/* ---- decisions ---- */

/* The form was sent twice, or the approval does not wait any more. That is an error unless the same
 * was decided. */
static enum op_result reply_decided(struct web_request *request)
{
    static const char *const words[] = {[FLOW_EARLIER_APPROVED] = "approved",
                                        [FLOW_EARLIER_REJECTED] = "rejected",
                                        [FLOW_EARLIER_EXPIRED] = "expired",
                                        [FLOW_EARLIER_CANCELLED] = "cancelled"};
    const struct pending *pending = request->state;
    const struct flow_command *command = &pending->command;
    struct json_writer *w = view_begin(request);
    slice by = pending->by;
    json_member_str(w, "id", request->serve.match.params[0]);
    json_member_str(w, "what", slice_cstr(words[command->earlier.what]));
    json_member_str(w, "by", by.ptr ? flow_names_actor(pending->names, by) : SLICE_NONE);
    json_member_bool(w, "own", by.ptr && slice_eq(by, command->in.by.actor));
    view_time(w, "at", pending->at);
    /* A note belongs to one decision, so the later note cannot be stored. */
    json_member_bool(w, "has_note", command->in.note.ptr != NULL);
    bool is_same =
        command->earlier.what ==
        (pending->in.kind == FLOW_COMMAND_APPROVE ? FLOW_EARLIER_APPROVED : FLOW_EARLIER_REJECTED);
    return web_reply_view(request, is_same ? 200 : 409, "flow_decided");
}

static enum op_result name_decider(struct web_request *request)
{
    struct pending *pending = request->state;
    return flow_names_begin(request, &pending->by, pending->by.ptr ? 1 : 0, NULL, &pending->names,
                            reply_decided);
}

/* If the person is not found, the page names none. */
static enum op_result find_canceller(struct web_request *request)
{
    struct pending *pending = request->state;
    int status =
        flow_doer_result(&pending->cancel, pending->in.flow_id, &pending->by, &pending->at);
    return status == OK ? name_decider(request) : web_reply_database(request, status);
}

static enum op_result explain_late(struct web_request *request)
{
    struct pending *pending = request->state;
    pending->by = pending->command.earlier.by;
    pending->at = pending->command.earlier.at;
    if (pending->command.earlier.what != FLOW_EARLIER_CANCELLED)
        return name_decider(request);
    pending->cancel = (struct flow_doer){.kind = AUDIT_FLOW_CANCELLED, .at = pending->at};
    flow_doer_ask(request->web->config.pool, &request->serve.op, request->session.account_id,
                  &pending->cancel);
    return web_wait(request, find_canceller);
}

static enum op_result finish_decision(struct web_request *request)
{
    struct pending *pending = request->state;
    const struct flow_command *command = &pending->command;
    if (command->answer == FLOW_ANSWER_CONFLICT && command->earlier.what != FLOW_EARLIER_NONE)
        return explain_late(request);
    bool goes_on = command->answer == FLOW_ANSWER_DONE &&
                   slice_eq_cstr(web_field(request, "then"), "next");
    return goes_on ? flow_next_go(request, pending->in.flow_id) : reply_done(request);
}

static enum op_result begin_approval(struct web_request *request, enum flow_command_kind kind)
{
    struct flow_request in = {.kind = kind};
    if (!web_path_uuid(request, 0, &in.flow_id))
        return OP_DONE;
    in.step_key = web_field(request, "step");
    in.note = web_field(request, "note");
    /* An empty field means no note; an empty note would be stored. */
    if (in.note.len == 0)
        in.note = SLICE_NONE;
    if (!flow_note_fits(in.note))
        return web_reply_problem(request, 400, "Not done",
                                 "The note has more than 2,000 characters.");
    /* Without a valid revision nothing is approved: the approval would not be bound to any page. */
    if (in.step_key.len == 0 || !slice_to_i64(web_field(request, "rev"), &in.rev) || in.rev < 1)
        return web_reply_problem(request, 400, "Not done",
                                 "The form is not complete. Load the flow's page again.");
    return web_begin_command(request, &in, finish_decision);
}

enum op_result web_flow_approve(struct web_request *request)
{
    return begin_approval(request, FLOW_COMMAND_APPROVE);
}
enum op_result web_flow_reject(struct web_request *request)
{
    return begin_approval(request, FLOW_COMMAND_REJECT);
}

static enum op_result begin_plain(struct web_request *request, enum flow_command_kind kind)
{
    struct flow_request in = {.kind = kind};
    /* web_path_uuid has sent a 404 if it fails. */
    return web_path_uuid(request, 0, &in.flow_id) ? web_begin_command(request, &in, finish_decision)
                                                  : OP_DONE;
}

enum op_result web_flow_resume(struct web_request *request)
{
    return begin_plain(request, FLOW_COMMAND_RESUME);
}
enum op_result web_flow_cancel(struct web_request *request)
{
    return begin_plain(request, FLOW_COMMAND_CANCEL);
}
