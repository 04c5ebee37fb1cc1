/*
 * Running an execution, or a blocked run, again: a form with identity, action and effect. It has
 * the input of the earlier run, if that is kept, else an example of the action. A write needs its
 * box ticked. The form's id is the run's idempotency key, so a form that is sent twice runs once.
 */
#include "call/kept_input.h"
#include "serve/foresee.h"
#include "serve/stored.h"
#include "store/audit.h"
#include "store/connection.h"
#include "store/execution.h"
#include "web/flow_decision.h"
#include "web/once.h"

enum { ONCE_EXECUTION = 'x', PRETTY_BYTES_MAX = 64 * 1024 };

struct rerun {
    struct uuid id;                  /* of the earlier execution, or of a blocked run's event */
    slice integration_id, action_id; /* the earlier run's */
    struct kept_input kept;
    struct pg_query input_query, event_query;
    struct connection connection;
    int64_t connection_id;
    bool has_connection; /* the connection still exists */
    bool is_sent;        /* false: the form is requested */
    struct web_connection named;
    struct exec *exec;
};

/* Returns NULL if the catalog no longer has the action. */
static const struct catalog_action *rerun_action(const struct web_request *request,
                                                 const struct rerun *rerun)
{
    const struct catalog_integration *app =
        catalog_find_integration(*request->web->config.catalog, rerun->integration_id, NULL);
    return serve_known(&request->serve,
                       app ? catalog_find_action(app, rerun->action_id, NULL) : NULL);
}

/* ---- the form ---- */

/* Whether the form contains, or contained, an input without its secrets. The kept input may have
 * expired when the form is sent. */
static bool is_lacking(const struct web_request *request)
{
    const struct rerun *rerun = request->state;
    return kept_input_lacks(rerun->kept.input) || web_field(request, "lacking").len > 0;
}

/* The input of the earlier run, else that of an example. A long one is on one line, since the form
 * must not exceed WEB_RUN_FORM_BYTES_MAX. */
static slice first_input(struct web_request *request, const struct catalog_action *action)
{
    const struct rerun *rerun = request->state;
    const struct json *input = rerun->kept.input ? rerun->kept.input : view_example(action);
    struct buf text;
    buf_init(&text, PRETTY_BYTES_MAX);
    if (input)
        json_write_pretty(&text, input);
    else
        buf_append_cstr(&text, "{}");
    if (buf_is_ok(&text))
        return arena_take(&request->serve.op.arena, &text);
    buf_deinit(&text);
    return json_text_of(input, &request->serve.op.arena, WEB_RUN_FORM_BYTES_MAX);
}

static enum op_result reply_form(struct web_request *request, unsigned status, slice problem)
{
    const struct rerun *rerun = request->state;
    const struct catalog_action *action = rerun_action(request, rerun);
    struct uuid id = uuid_v7();
    char plain[1 + sizeof(id.bytes)] = {ONCE_EXECUTION};
    if (!action)
        return web_reply_problem(request, 409, "This cannot be run again",
                                 "The app no longer has this action.");
    memcpy(plain + 1, id.bytes, sizeof(id.bytes));
    slice typed = web_field(request, "input");
    struct json_writer *w = view_begin(request);
    json_member_str(w, "id", request->serve.match.params[0]);
    json_member_str(w, "problem", problem);
    json_member_str(w, "action", action->title);
    json_member_str(w, "app", action->integration->name);
    json_member_str(w, "effect", slice_cstr(catalog_level_name(action->level)));
    json_member_bool(w, "confirms", serve_confirms(&request->serve, action));
    json_member_bool(w, "is_final", slice_eq_cstr(action->undo, "never"));
    json_member_str(w, "as", rerun->has_connection ? rerun->connection.label : SLICE_NONE);
    json_member_bool(w, "is_deleted", rerun->connection_id != 0 && !rerun->has_connection);
    json_member_str(w, "input", typed.ptr ? typed : first_input(request, action));
    json_member_bool(w, "is_typed", typed.ptr != NULL);
    json_member_str(w, "missing", rerun->kept.missing);
    json_member_bool(w, "is_lacking", is_lacking(request));
    once_view_field(request, slice_of(plain, sizeof(plain)), w);
    return web_reply_view(request, status, "execution_again");
}

static enum op_result refuse_input(struct web_request *request, slice text)
{
    web_fault_add(request, SLICE("input"), text);
    return reply_form(request, 400, SLICE_NONE);
}

/* ---- the run ---- */

static void on_gone(struct web_request *request)
{
    const struct rerun *rerun = request->state;
    exec_client_gone(rerun->exec);
}

static enum op_result finish_run(struct web_request *request)
{
    struct rerun *rerun = request->state;
    const struct exec_outcome *out = exec_outcome_of(rerun->exec);
    char id[UUID_TEXT_LEN + 1];
    if (!uuid_is_nil(out->execution_id)) {
        uuid_format(out->execution_id, id);
        return web_reply_redirect(request,
                                  arena_printf(&request->serve.op.arena, "/executions/%s", id), "");
    }
    if (out->reason == EXEC_HELD && out->approval) { /* the flow's page says what it waits for */
        uuid_format(out->approval->flow_id, id);
        return web_reply_redirect(request, arena_printf(&request->serve.op.arena, "/flows/%s", id),
                                  "");
    }
    return reply_form(request, 409,
                      arena_printf(&request->serve.op.arena, "%.*s %.*s", SLICE_ARG(out->message),
                                   SLICE_ARG(out->hint)));
}

/* A finished run is recorded; its result is not shown to a session whose key ended during the
 * run. */
static enum op_result finish_checked_run(struct web_request *request)
{
    if (request->serve.check.status != ERR_REFUSED)
        return finish_run(request);
    request->session = (struct web_session){0};
    return web_reply_redirect(request, SLICE("/sign-in"), "");
}

static enum op_result check_session_again(struct web_request *request)
{
    const struct vault_caller caller = request->serve.check.caller;
    request->on_cancel = NULL; /* the run has ended */
    if (vault_auth_check_caller(request->web->config.auth, &request->serve.check, &caller,
                                request->serve.check.address, &request->serve.op))
        return finish_checked_run(request);
    op_keep_children(&request->serve.op); /* the result has yet to be read */
    return web_wait(request, finish_checked_run);
}

static enum op_result run_it(struct web_request *request)
{
    struct rerun *rerun = request->state;
    struct arena *arena = &request->serve.op.arena;
    const struct catalog_action *action = rerun_action(request, rerun);
    slice once = once_read_field(request, ONCE_EXECUTION);
    struct err err;
    const struct json *input =
        json_parse(arena, web_field(request, "input"), &json_limits_request, &err);
    struct uuid key;
    char text[UUID_TEXT_LEN + 1];
    if (!action)
        return reply_form(request, 409, SLICE_NONE);
    if (once.len != 1 + sizeof(key.bytes))
        return reply_form(request, 400,
                          SLICE("This form is too old, or from another session. Nothing was run. "
                                "Check it and send it again."));
    if (!json_is(input, JSON_OBJECT))
        return refuse_input(request, SLICE("The input must be a JSON object. Nothing was run."));
    if (is_lacking(request) && kept_input_lacks(input))
        return refuse_input(
            request, SLICE("Secrets of the earlier run are not kept. Replace " KEPT_INPUT_HIDDEN
                           " in the input. Nothing was run."));
    bool is_confirmed = slice_eq_cstr(web_field(request, "confirm"), "yes");
    if (action->requires_confirmation && !is_confirmed)
        return reply_form(request, 400, SLICE("The action was not confirmed. Nothing was run."));
    memcpy(key.bytes, once.ptr + 1, sizeof(key.bytes));
    uuid_format(key, text);
    const struct exec_request wanted = {
        .account_id = request->session.account_id,
        .by = serve_by(&request->serve),
        .scopes = request->serve.grant.scopes,
        .policy = request->serve.policy,
        .user = request->serve.user,
        .asker = request->serve.grant.line,
        .integration_id = rerun->integration_id,
        .action_id = rerun->action_id,
        .input = input,
        .is_confirmed = is_confirmed,
        .idempotency_key = arena_printf(arena, "again-%s", text),
        /* A deleted connection is not silently replaced by another. */
        .connection_id = rerun->connection_id,
    };
    rerun->exec = exec_start(request->web->config.exec, &wanted, &request->serve.op);
    if (!rerun->exec)
        return web_reply_database(request, ERR_NOMEM);
    request->on_cancel = on_gone;
    return web_wait(request, check_session_again);
}

/* ---- reading ---- */

static enum op_result on_connection_named(struct web_request *request)
{
    struct rerun *rerun = request->state;
    int status = rerun->connection_id
                     ? web_connection_result(request, &rerun->named, &rerun->connection)
                     : ERR_NOTFOUND;
    if (status != OK && status != ERR_NOTFOUND)
        return web_reply_database(request, status);
    rerun->has_connection = status == OK;
    return rerun->is_sent ? run_it(request) : reply_form(request, 200, SLICE_NONE);
}

/* Reads the earlier run from its execution, or else from its event. */
static int read_earlier(struct web_request *request)
{
    struct rerun *rerun = request->state;
    struct execution earlier;
    struct audit_event event;
    struct arena *arena = &request->serve.op.arena;
    int status = kept_input_result(&rerun->input_query, request->web->config.ring,
                                   request->session.account_id, rerun->id, arena, &rerun->kept);
    if (status != OK)
        return status;
    /* a key without the scope read may run an action, but not see what others ran */
    if (!serve_may(&request->serve, SCOPE_READ))
        rerun->kept = (struct kept_input){.missing = SLICE("not_kept")};
    status = store_execution_get_result(&request->query, &earlier);
    if (status == OK) {
        rerun->integration_id = earlier.integration_id;
        rerun->action_id = earlier.action_id;
        rerun->connection_id = earlier.connection_id;
    }
    if (status != ERR_NOTFOUND)
        return status;
    status = store_audit_get_result(&rerun->event_query, &event);
    if (status != OK || !slice_eq(event.kind, audit_kind_name(AUDIT_EXECUTION_BLOCKED)))
        return status == OK ? ERR_NOTFOUND : status;
    const struct json *details = json_parse(arena, event.details, &json_limits_provider, NULL);
    rerun->integration_id = json_get_str(details, SLICE("integration_id"));
    rerun->action_id = json_get_str(details, SLICE("action_id"));
    rerun->connection_id = rerun->kept.connection_id;
    return OK;
}

static enum op_result on_earlier(struct web_request *request)
{
    struct rerun *rerun = request->state;
    int status = read_earlier(request);
    if (status == ERR_NOTFOUND)
        return web_reply_missing(request, "There is no such execution.");
    if (status != OK)
        return web_reply_database(request, status);
    if (!serve_gives(&request->serve, *request->web->config.catalog, rerun->integration_id,
                     rerun->action_id))
        return web_reply_missing(request, "There is no such execution.");
    if (rerun->connection_id == 0)
        return on_connection_named(request);
    web_connection_load(request, &rerun->named, rerun->connection_id);
    return web_wait(request, on_connection_named);
}

/* is_sent depends on the route, not on the method: after signing in again a form is rendered within
 * the POST that signs in. */
static enum op_result load_earlier(struct web_request *request, bool is_sent)
{
    struct rerun *rerun = web_state_new(request, sizeof(*rerun));
    struct pg_pool *pool = request->web->config.pool;
    struct op *op = &request->serve.op;
    struct uuid id, account_id = request->session.account_id;
    if (!rerun)
        return OP_DONE;
    if (!web_path_uuid(request, 0, &id))
        return OP_DONE;
    rerun->is_sent = is_sent;
    rerun->id = id;
    store_execution_get(pool, &request->query, op, account_id, id, serve_payer(&request->serve));
    store_execution_input_get(pool, &rerun->input_query, op, account_id, id);
    store_audit_get(pool, &rerun->event_query, op, account_id, id);
    return web_wait(request, on_earlier);
}

enum op_result web_execution_again_ask(struct web_request *request)
{
    return load_earlier(request, false);
}
enum op_result web_execution_again(struct web_request *request)
{
    return load_earlier(request, true);
}
