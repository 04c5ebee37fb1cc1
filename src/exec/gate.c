/*
 * Whether the execution may run. The checks are in the order of src/api/README.md "Executions":
 * integration and action, then confirmation and input (check.c), then the connection. Nothing here
 * is recorded; a refusal is an audit event.
 */
#include "exec/internal.h"
#include "call/summary.h"
#include "catalog/target.h"
#include "policy/unlisted.h"

enum { TEXT_BYTES_MAX = 256 * 1024 };

/* Returns the short id, even for an action that does not exist, so that a key's fingerprint is
 * stable. */
static slice short_action_id(const struct exec *exec)
{
    return exec->action ? exec->action->action_id
                        : catalog_short_id(exec->in.integration_id, exec->in.action_id);
}

/* The deadline has been set from the setting. Here the action's time-out replaces it, or the
 * caller's time-out for this call; no run outlives the caller's deadline. */
static void set_deadline(struct exec *exec)
{
    uint64_t timeout_ms = exec->in.timeout_ms;
    if (timeout_ms == 0 && exec->action)
        timeout_ms = exec->action->deadline_ms;
    if (timeout_ms > 0)
        exec->deadline_ns = exec->op.started_ns + timeout_ms * 1000000;
    if (exec->in.deadline_ns > 0 && exec->in.deadline_ns < exec->deadline_ns)
        exec->deadline_ns = exec->in.deadline_ns;
}

uint32_t exec_scope_of(const struct catalog_action *action)
{
    return action->level == LEVEL_READ ? SCOPE_EXECUTE_READ : SCOPE_EXECUTE_WRITE;
}

static enum op_result stop_not_in_scope(struct exec *exec)
{
    const char *scope = scope_name((enum api_key_scope)exec_scope_of(exec->action));
    return exec_stop(exec, EXEC_NOT_IN_SCOPE,
                     arena_printf(&exec->op.arena, "This API key lacks the scope \"%s\"", scope),
                     SLICE_NONE);
}

enum op_result exec_step_find_action(struct op *op)
{
    struct exec *exec = exec_of(op);
    ASSERT(!exec->catalog && exec->key.state == EXEC_CLAIM_NONE);
    if (exec->in.policy && exec_awaits_turn(exec))
        return op_wait_then(op, EXEC_STEP_FIND_ACTION);
    if (!exec->counted)
        return exec_stop_unavailable(
            exec, SLICE("Too many executions are running. Nothing was done. Try again."));
    exec->catalog = catalog_ref(*exec->service->config.catalog);
    exec->integration =
        catalog_find_integration(exec->catalog, exec->in.integration_id, &exec->find_status);
    if (exec->integration)
        exec->action =
            catalog_find_action(exec->integration, exec->in.action_id, &exec->find_status);
    const struct json *given = exec->in.input;
    /* This comes before the policy and the fingerprint: the request is the same with and without
     * such a null. */
    if (exec->action)
        exec->in.input = schema_drop_nulls(exec->action->schema, given, &op->arena);
    if (exec->action && (exec->in.policy || exec->in.holds_writes))
        exec_decide(exec);
    else if (exec->in.policy)
        exec_turn_used(exec); /* the next one decides */
    if (exec->action)
        exec->out.advice = exec_advice_for(exec->action);
    else
        exec->in.input = given;
    exec->out.action_id = arena_dup(&op->arena, short_action_id(exec));
    exec->out.integration_id = exec->in.integration_id;
    set_deadline(exec);
    if (exec->action && !exec->in.is_dry_run && !(exec->in.scopes & exec_scope_of(exec->action)))
        return stop_not_in_scope(exec);
    if (exec_is_denied(exec) && !exec->verdict.is_unsure)
        return exec_stop_denied(exec);
    if (exec->action && exec_is_unheld(exec))
        return exec_stop_unheld(exec);
    if (exec->in.file_count > 0)
        return OP_NEXT;
    bool has_key = exec->in.idempotency_key.len > 0 || exec_is_lost_watched(exec) ||
                   exec_needs_hold_key(exec);
    return op_jump(op, has_key ? EXEC_STEP_LOAD_KEY : EXEC_STEP_CHECK_INPUT);
}

/* Replaces {app}, {title} ... in the text, for this request and case. */
static slice fill_refusal(struct exec *exec, const char *text, slice detail)
{
    const struct catalog_action *action = exec->action;
    const struct {
        slice name, value;
    } values[] = {
        {SLICE("app"), exec->integration ? exec->integration->name : SLICE_NONE},
        {SLICE("title"), action ? action->title : SLICE_NONE},
        {SLICE("tool"), action ? action->tool_name : SLICE_NONE},
        {SLICE("integration_id"), exec->out.integration_id},
        {SLICE("action_id"), exec->out.action_id},
        {SLICE("detail"), detail},
    };
    slice rest = slice_cstr(text);
    struct buf out;
    buf_init(&out, TEXT_BYTES_MAX);
    while (rest.len > 0) {
        buf_append(&out, slice_split(&rest, '{'));
        slice name = slice_split(&rest, '}');
        for (size_t i = 0; i < ARRAY_LEN(values); i++)
            if (slice_eq(name, values[i].name))
                buf_append(&out, values[i].value);
    }
    return arena_take(&exec->op.arena, &out);
}

static enum op_result refuse_execution(struct exec *exec, enum exec_reason reason,
                                       const char *message, const char *hint, slice detail)
{
    return exec_stop(exec, reason, fill_refusal(exec, message, detail),
                     fill_refusal(exec, hint, detail));
}

/* The integration's part of a full tool name is only a guess, so the message has the whole name. */
static slice say_no_integration(struct exec *exec, const bool *unlisted)
{
    slice action = exec->in.action_id, id = exec->in.integration_id;
    bool is_tool = catalog_short_id(id, action).len < action.len;
    if (is_tool && catalog_nearest_tool(exec->catalog, action, unlisted).len > 0)
        return catalog_say_no_tool(exec->catalog, action, unlisted, &exec->op.arena);
    return catalog_say_no_integration(exec->catalog, id, &exec->op.arena);
}

/* Whether the action is the tool of recommended_next_action, called as if it belonged to an app. */
static bool is_connect_tool(const struct exec *exec)
{
    slice service = SLICE(EXEC_CONNECT_TOOL), action = service;
    service = slice_split(&action, '.');
    return slice_eq_cstr(exec->in.action_id, EXEC_CONNECT_TOOL) ||
           (slice_eq(exec->in.integration_id, service) && slice_eq(exec->in.action_id, action));
}

enum op_result exec_stop_unknown(struct exec *exec)
{
    const bool *unlisted = NULL; /* a suggestion names nothing that the policy denies */
    if (exec->find_status == ERR_NOMEM ||
        policy_unlisted(exec->in.policy, exec->catalog, &exec->op.arena, &unlisted) != OK)
        return exec_stop_unavailable(
            exec, SLICE("The server is short of memory. Nothing was done. Try again."));
    if (!exec->integration && is_connect_tool(exec))
        return refuse_execution(
            exec, EXEC_INTEGRATION_UNKNOWN,
            EXEC_CONNECT_TOOL
            " connects an app. It is not one of an app's tools. Nothing was done.",
            "POST /api/connect/sessions with the tool's input makes a link for a person.",
            SLICE(""));
    if (!exec->integration)
        return refuse_execution(exec, EXEC_INTEGRATION_UNKNOWN, "{detail} Nothing was done.",
                                "GET /api/integrations lists the integrations. GET "
                                "/api/search?query= finds one by what it does.",
                                say_no_integration(exec, unlisted));
    return refuse_execution(
        exec, EXEC_ACTION_UNKNOWN, "{detail} Nothing was done.",
        "GET /api/actions?integration_id={integration_id} lists its actions.",
        catalog_say_no_action(exec->integration, exec->in.action_id, unlisted, &exec->op.arena));
}

/* ---- connections ---- */

#define SHOWS_LABELS "GET /api/connections?integration_id={integration_id} shows their labels."

void exec_connection_drop(struct exec *exec)
{
    exec->connection.item = NULL;
    connect_set_unref(exec->connection.lookup.set);
    exec->connection.lookup.set = NULL;
}

enum op_result exec_step_find_connection(struct op *op)
{
    struct exec *exec = exec_of(op);
    ASSERT(exec->integration && exec->action);
    bool is_shared = exec->connection.wants_shared;
    /* set only if another run had the key and this run started again, or for a shared one */
    exec_connection_drop(exec);
    exec->connection.wants_shared = false;
    if (exec->integration->auth.kind == AUTH_NONE)
        return OP_NEXT;
    if (exec->in.has_connected)
        connect_forget(exec->service->config.connect, exec->in.account_id,
                       exec->integration->integration_id);
    int64_t id = exec->in.connection_id;
    bool is_known = connect_find(exec->service->config.connect, &exec->connection.lookup,
                                 is_shared ? exec->in.by.parent_id : exec->in.account_id,
                                 exec->integration->integration_id,
                                 is_shared && id == 0 ? CONNECT_SHARED : id, op);
    return is_known ? OP_NEXT : OP_WAIT;
}

static const struct connect_item *find_item(const struct exec *exec, int64_t id)
{
    const struct connect_set *set = exec->connection.lookup.set;
    for (size_t i = 0; i < set->count; i++)
        if (set->items[i].id == id && set->items[i].status != CONNECTION_REVOKED &&
            (set->items[i].is_shared || !exec_is_shared(exec)))
            return &set->items[i];
    return NULL;
}

/* A user without a connection to the app uses those that the account shares. A connection of the
 * user that no longer works is not replaced: the call would act as another login. */
static bool needs_shared(const struct exec *exec)
{
    const struct connect_set *set = exec->connection.lookup.set;
    const struct connect_item *ignored;
    int64_t id = exec->in.connection_id;
    if (uuid_is_nil(exec->in.by.parent_id) || !set || exec_is_shared(exec))
        return false;
    return id != 0 ? !find_item(exec, id)
                   : connect_set_state(set, &ignored) == CONNECT_NOT_CONNECTED;
}

/* The ids of the other live connections, for a hint. Their labels are data from outside. */
static slice list_live(struct exec *exec)
{
    struct buf text;
    buf_init(&text, 4096);
    for (size_t i = 0; i < exec->connection.lookup.set->count; i++) {
        const struct connect_item *item = &exec->connection.lookup.set->items[i];
        if (item->status == CONNECTION_LIVE && item != exec->connection.item)
            buf_printf(&text, "%s%lld", text.len ? ", " : "", (long long)item->id);
    }
    slice list = text.len > 0 ? arena_dup(&exec->op.arena, buf_slice(&text)) : SLICE_NONE;
    buf_deinit(&text);
    return list;
}

void exec_end_not_connected(struct exec *exec)
{
    /* the dashboard has the account's own connections alone; the summary names the link */
    bool is_of_user = !uuid_is_nil(exec->in.by.parent_id);
    exec_end_with(
        exec, EXEC_NOT_CONNECTED,
        fill_refusal(exec,
                     is_of_user ? "{app} is not connected for this user. Nothing was done."
                                : "{app} is not connected to this account. Nothing was done.",
                     SLICE_NONE),
        fill_refusal(exec,
                     is_of_user
                         ? "Have the user connect the app, then send the same request again."
                         : "Connect the app in the dashboard, then send the same request again.",
                     SLICE_NONE));
}

/* cause is a clause without a full stop. A user cannot reconnect what the account shares. */
static enum op_result stop_unusable(struct exec *exec, slice cause)
{
    if (exec_is_shared(exec)) {
        exec_end_not_connected(exec);
        return OP_STOP;
    }
    const char *hint = "Reconnect the app, then send the same request again.";
    slice others = list_live(exec);
    if (others.len > 0)
        hint = "Reconnect the app and send the same request again, or name another connection: "
               "POST /api/tools/{tool}/execute with connectionId, one of {detail}. " SHOWS_LABELS;
    else if (exec->in.connection_id != 0)
        hint = "Reconnect the app and send the same request again, or name another connection: "
               "GET /api/connections?integration_id={integration_id} lists them.";
    return exec_stop(
        exec, EXEC_REAUTH_REQUIRED,
        fill_refusal(exec, "The connection to {app} no longer works ({detail}). Nothing was done.",
                     cause),
        fill_refusal(exec, hint, others));
}

static enum op_result stop_reauth(struct exec *exec)
{
    const struct connect_item *item = exec->connection.item;
    return stop_unusable(exec, item && item->error.len > 0
                                   ? item->error
                                   : SLICE("its grant expired or was revoked"));
}

/* The connection is live but no request can be made with it: a fault of the manifest, or of the
 * stored row. The fault is permanent, so it is logged, too. */
static enum op_result stop_unsendable(struct exec *exec, slice cause)
{
    op_log(&exec->op, LOG_WARN, "a stored credential cannot be sent",
           LOG_STR("integration_id", exec->out.integration_id),
           LOG_INT("connection_id", exec->connection.item->id), LOG_STR("cause", cause));
    return stop_unusable(exec, cause);
}

static enum op_result stop_connection_unknown(struct exec *exec, int64_t id)
{
    if (!exec->connection.lookup.set)
        return refuse_execution(exec, EXEC_CONNECTION_UNKNOWN,
                                "{app} needs no connection. Nothing was sent.",
                                "Leave connectionId out.", SLICE_NONE);
    const char *hint = "GET /api/connections?integration_id={integration_id} lists the connections "
                       "that you can choose. Without connectionId the default one is used.";
    return exec_stop(exec, EXEC_CONNECTION_UNKNOWN,
                     arena_printf(&exec->op.arena,
                                  "There is no %.*s connection %lld in this account. Nothing was "
                                  "sent.",
                                  SLICE_ARG(exec->integration->name), (long long)id),
                     fill_refusal(exec, hint, SLICE_NONE));
}

enum op_result exec_use_connection(struct exec *exec, int64_t id)
{
    ASSERT(id != 0 && exec->connection.lookup.set);
    exec->connection.item = find_item(exec, id);
    if (!exec->connection.item)
        return stop_connection_unknown(exec, id);
    if (exec->in.connection_id != 0 && !exec->connection.item->is_default && !exec_is_shared(exec))
        exec->out.reconnect_id = id;
    return exec->connection.item->status == CONNECTION_LIVE ? OP_NEXT : stop_reauth(exec);
}

/* Sets exec->connection.item; returns OP_NEXT if it may be used. */
static enum op_result choose_connection(struct exec *exec)
{
    if (exec->in.connection_id != 0)
        return exec_use_connection(exec, exec->in.connection_id);
    switch (connect_set_state(exec->connection.lookup.set, &exec->connection.item)) {
    case CONNECT_CONNECTED:
        return OP_NEXT;
    case CONNECT_REAUTH_REQUIRED:
        return stop_reauth(exec);
    case CONNECT_AMBIGUOUS:
        return refuse_execution(
            exec, EXEC_CONNECTION_AMBIGUOUS,
            "{app} has several connections, and none of them is the default. Nothing was done.",
            "Make one the default, or name one: POST /api/tools/{tool}/execute with "
            "connectionId, one of {detail}. " SHOWS_LABELS,
            list_live(exec));
    case CONNECT_NOT_CONNECTED:
        break;
    }
    exec_end_not_connected(exec);
    return OP_STOP;
}

/* Any one of the action's scopes suffices. If the granted scopes are unknown, the provider
 * decides. */
static bool is_scope_missing(const struct exec *exec)
{
    const struct json *wanted = exec->action->scopes;
    if (!wanted || wanted->count == 0 || !exec->connection.item->scopes.ptr)
        return false;
    for (uint32_t i = 0; i < wanted->count; i++)
        if (slice_has_word(exec->connection.item->scopes, json_str(&wanted->as.items[i])))
            return false;
    return true;
}

/* "a", "b or c": any one of these scopes suffices. */
static slice list_scopes(struct exec *exec)
{
    const struct json *wanted = exec->action->scopes;
    struct buf text;
    buf_init(&text, 4096);
    for (uint32_t i = 0; i < wanted->count; i++) {
        buf_append_cstr(&text, i ? " or " : "");
        buf_append(&text, json_str(&wanted->as.items[i]));
    }
    return arena_take(&exec->op.arena, &text);
}

/* The box that a person has to tick when reconnecting: the label of the first scope that is
 * requested only if its box is ticked. SLICE_NONE: all scopes are requested anyway. */
static slice words_to_tick(const struct exec *exec)
{
    const struct json *wanted = exec->action->scopes;
    const struct json *optional = exec_auth(exec)->optional_scopes;
    for (uint32_t i = 0; optional && i < wanted->count; i++) {
        slice words = json_get_str(optional, json_str(&wanted->as.items[i]));
        if (words.len > 0)
            return words;
    }
    return SLICE_NONE;
}

static enum op_result stop_scope(struct exec *exec)
{
    slice words = words_to_tick(exec);
    const char *hint =
        "Reconnect the app and grant the permission, then send the same request again.";
    if (words.len > 0)
        hint = "This permission is optional. Reconnect the app, tick \"{detail}\" there, then send "
               "the same request again.";
    return exec_stop(exec, EXEC_SCOPE_MISSING,
                     fill_refusal(exec,
                                  "The connection to {app} lacks the permission that this action "
                                  "needs ({detail}). Nothing was done.",
                                  list_scopes(exec)),
                     fill_refusal(exec, hint, words));
}

/* Stops the run because a later request of the action cannot be built: its values come from the
 * app's replies. */
static enum op_result stop_unbuilt_later(struct exec *exec, const struct err *err)
{
    if (err->code == ERR_REFUSED)
        return refuse_execution(exec, EXEC_ADDRESS_REFUSED,
                                "{app} named {detail} in its reply, and this action may not call "
                                "that host. Nothing was sent there.",
                                "Sending it again does not help. The app's manifest lists the "
                                "hosts that the action may call.",
                                slice_cstr(err->text));
    return refuse_execution(
        exec, EXEC_REPLY_UNREADABLE,
        "The next request cannot be made from the reply of {app}: {detail}. It was not sent.",
        "Nothing permanent was done. Try again later, or ask the operator of this server to check "
        "what answers there.",
        slice_cstr(err->text));
}

static enum op_result stop_unbuilt(struct exec *exec, const struct err *err)
{
    return refuse_execution(
        exec, EXEC_INPUT_INVALID,
        "The request cannot be made from this input: {detail}. Nothing was sent.",
        "Correct the input. GET /api/actions/{integration_id}/{action_id} shows what the action "
        "takes.",
        slice_cstr(err->text));
}

/* Makes an id from the client's key and its request (RFC 9562 5.5: a name in the account's space,
 * so accounts never collide). If the key was freed, a corrected request is thus new to the
 * provider, too. */
static struct uuid id_of_key(const struct exec *exec)
{
    char name[IDEMPOTENCY_KEY_MAX * 4 + 1 + sizeof(exec->key.claim.fingerprint)];
    slice fingerprint =
        slice_of((const char *)exec->key.claim.fingerprint, sizeof(exec->key.claim.fingerprint));
    return uuid_v5(exec->in.account_id,
                   SLICE_JOIN(name, exec->in.idempotency_key, SLICE("\n"), fingerprint));
}

/* The provider's own idempotency key, if the action has one: the same for every attempt, and for
 * every run of the same request with the same client key. */
static slice provider_key(struct exec *exec)
{
    char *text = NULL;
    if (exec->attempt.provider_key.len == 0 && catalog_has_provider_key(exec->action))
        text = arena_alloc_text(&exec->op.arena, UUID_TEXT_LEN + 1);
    if (!text)
        return exec->attempt.provider_key;
    struct uuid id = exec->in.provider_name.len > 0
                         ? uuid_v5(exec->in.provider_space, exec->in.provider_name)
                     : exec->in.idempotency_key.len > 0 ? id_of_key(exec)
                                                        : uuid_v7();
    uuid_format(id, text);
    return exec->attempt.provider_key = slice_of(text, UUID_TEXT_LEN);
}

/* Begins with the second request if this input does not need the first, whose reply is then null
 * in the expressions of the second. */
static void skip_first(struct exec *exec)
{
    const struct expr *when = exec->action->request.when;
    if (!when || exec->progress.at > 0 || target_input_is(when, exec->in.input, &exec->op.arena))
        return;
    exec->progress.replies[0] = json_null;
    exec->progress.at = exec->progress.began_at = 1;
}

/* Builds the first request, and finds faults of later requests that are known before the first
 * is sent. */
static int build_and_preview(struct exec *exec, const struct call_scope *scope,
                             const struct json *credential, struct err *err)
{
    int result =
        call_build(exec->action, scope, credential, &exec->op.arena, &exec->attempt.request, err);
    bool is_first = exec->action->then_count > 0 && exec->progress.at == 0;
    return result == OK && is_first ? exec_preview(exec, NULL, err) : result;
}

/* The request is built before anything is claimed, so that a request that cannot be built leaves
 * no trace; later requests are built when it is their turn. */
enum op_result exec_build_request(struct exec *exec)
{
    const struct connect_item *connection = exec->connection.item;
    struct call_scope scope = {.input = exec_input(exec),
                               .connection_params = connection ? connection->params : NULL,
                               .auth = exec_auth(exec),
                               .files = exec->in.files,
                               .file_count = exec->in.file_count,
                               .provider_key = provider_key(exec),
                               .progress = &exec->progress};
    const struct json *credential = NULL;
    struct err err;
    ASSERT(exec->action && exec->in.input);
    if (connection)
        credential = json_parse(&exec->op.arena, secret_reveal(connection->credential),
                                &json_limits_provider, &err);
    skip_first(exec);
    if (connection && !credential)
        return err.code == ERR_NOMEM
                   ? exec_stop_memory(exec)
                   : stop_unsendable(exec, SLICE("its stored credential cannot be read"));
    switch (build_and_preview(exec, &scope, credential, &err)) {
    case OK:
        return OP_NEXT;
    case ERR_CRYPTO:
        return stop_unsendable(exec, arena_dup(&exec->op.arena, slice_cstr(err.text)));
    case ERR_NOMEM:
        return exec_stop_memory(exec);
    default:
        return exec->progress.at > exec->progress.began_at ? stop_unbuilt_later(exec, &err)
                                                           : stop_unbuilt(exec, &err);
    }
}

static void name_connection(struct exec *exec)
{
    exec->out.connection_id = exec->connection.item->id;
    exec->out.connection_label = arena_dup(&exec->op.arena, exec->connection.item->label);
}

enum op_result exec_end_dry_run(struct exec *exec)
{
    ASSERT(exec->in.is_dry_run && exec->out.attempts == 0);
    ASSERT(exec->key.state == EXEC_CLAIM_NONE && !exec->key.is_holder);
    exec->summary_json = exec_render_dry_run(exec);
    if (!exec->summary_json.ptr)
        return exec_stop_memory(exec);
    exec->out.is_dry_run = true;
    exec->out.wants_confirmation = exec_wants_confirmation(exec);
    if (exec->connection.item)
        name_connection(exec);
    return OP_STOP;
}

enum op_result exec_dry_run(struct exec *exec)
{
    bool has_shows = exec->in.wants_shows && exec->action->show_count > 0;
    return has_shows ? op_jump(&exec->op, EXEC_STEP_SHOW) : exec_end_dry_run(exec);
}

/* The API defines the order: a missing connection is reported before a missing scope, and both
 * before an operation that no longer exists. The request is built last, with the credential that
 * was found. */
enum op_result exec_step_check_connection(struct op *op)
{
    struct exec *exec = exec_of(op);
    ASSERT(!exec->connection.item && exec->out.attempts == 0);
    if (exec->integration->auth.kind != AUTH_NONE) {
        if (exec->connection.lookup.status != OK)
            return exec_stop_database(exec);
        if (needs_shared(exec)) {
            exec->connection.wants_shared = true;
            return op_jump(op, EXEC_STEP_FIND_CONNECTION);
        }
        if (choose_connection(exec) == OP_STOP)
            return OP_STOP;
        if (exec->connection.lookup.set->count > 1)
            name_connection(exec);
        if (is_scope_missing(exec))
            return stop_scope(exec);
    } else if (exec->in.connection_id != 0) {
        return stop_connection_unknown(exec, exec->in.connection_id);
    }
    if (exec->action->gone.len > 0)
        return refuse_execution(
            exec, EXEC_OPERATION_GONE,
            "{app} no longer offers \"{title}\": {detail}. Nothing was done.",
            "Do not send it again. GET /api/actions?integration_id={integration_id} lists the "
            "actions that {app} offers.",
            exec->action->gone);
    bool is_held = exec_is_held(exec) && !exec->in.is_dry_run;
    bool has_token = !exec_needs_first_token(exec); /* else there is none to build a request with */
    if (has_token && exec_build_request(exec) == OP_STOP)
        return OP_STOP;
    if (is_held)
        return op_jump(op, EXEC_STEP_HOLD);
    return has_token && exec->in.is_dry_run ? exec_dry_run(exec) : exec_check_token(exec);
}
