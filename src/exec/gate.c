/*
 * May it run? The checks in the order of src/api/README.md "Executions": integration and action,
 * then confirmation and input (check.c), then the connection. Nothing here is recorded; what stops
 * here is an audit event.
 */
#include "exec/internal.h"

/* The short id even of an action that does not exist, so that a key's fingerprint is stable. */
static slice short_action_id(const struct exec *exec)
{
    slice action = exec->in.action_id, prefix = exec->in.integration_id;
    if (exec->action)
        return exec->action->action_id;
    if (slice_starts_with(action, prefix) && action.len > prefix.len + 1 &&
        action.ptr[prefix.len] == '_')
        return slice_from(action, prefix.len + 1);
    return action;
}

/* It began as the setting's. What the caller allows for this call wins over the action's own, and
 * nothing outlives the caller's deadline. */
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

enum op_result exec_step_find_action(struct op *op)
{
    struct exec *exec = exec_of(op);
    ASSERT(!exec->catalog && exec->key.state == EXEC_CLAIM_NONE);
    if (!exec->counted)
        return exec_stop_unavailable(
            exec, SLICE("Too many executions are under way; nothing was done, try again."));
    exec->catalog = catalog_ref(*exec->service->config.catalog);
    exec->integration = catalog_find_integration(exec->catalog, exec->in.integration_id);
    if (exec->integration)
        exec->action = catalog_find_action(exec->integration, exec->in.action_id);
    exec->out.action_id = arena_dup(&op->arena, short_action_id(exec));
    if (exec->action)
        exec->out.advice = exec_advice_for(exec->action);
    exec->out.integration_id = exec->in.integration_id;
    set_deadline(exec);
    if (exec_is_unconfirmed(exec)) /* whatever its key has, it is not for this one */
        return op_jump(op, EXEC_STEP_CHECK_INPUT);
    return OP_NEXT;
}

/* Of a full tool name the integration's part is a guess, and all of it says better what is meant.
 */
static slice say_no_integration(struct exec *exec)
{
    slice action = exec->in.action_id, id = exec->in.integration_id;
    bool is_tool = slice_starts_with(action, id) && action.len > id.len &&
                   action.ptr[id.len] == '_';
    if (is_tool && catalog_nearest_tool(exec->catalog, action).len > 0)
        return catalog_say_no_tool(exec->catalog, action, &exec->op.arena);
    return catalog_say_no_integration(exec->catalog, id, &exec->op.arena);
}

enum op_result exec_stop_unknown(struct exec *exec)
{
    struct arena *arena = &exec->op.arena;
    if (exec->integration ? catalog_has_action(exec->integration, exec->in.action_id)
                          : catalog_has_integration(exec->catalog, exec->in.integration_id))
        return exec_stop_unavailable(exec, SLICE("Memory is short; nothing was done, try again."));
    if (!exec->integration)
        return exec_stop(
            exec, EXEC_INTEGRATION_UNKNOWN,
            arena_printf(arena, "%.*s Nothing was done.", SLICE_ARG(say_no_integration(exec))),
            SLICE("GET /api/integrations lists those there are; GET "
                  "/api/search?query= finds one by what it does."));
    slice said = catalog_say_no_action(exec->integration, exec->in.action_id, arena);
    return exec_stop(exec, EXEC_ACTION_UNKNOWN,
                     arena_printf(arena, "%.*s Nothing was done.", SLICE_ARG(said)),
                     arena_printf(arena, "GET /api/actions?integration_id=%.*s lists its actions.",
                                  SLICE_ARG(exec->in.integration_id)));
}

/* ---- connections ---- */

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
    exec_connection_drop(exec); /* a claim was lost, and this is another try */
    if (exec->integration->auth.kind == AUTH_NONE)
        return OP_NEXT;
    bool is_known = connect_find(exec->service->config.connect, &exec->connection.lookup,
                                 exec->in.account_id, exec->integration->integration_id,
                                 exec->in.connection_id, op);
    return is_known ? OP_NEXT : OP_WAIT;
}

static enum op_result stop_not_connected(struct exec *exec)
{
    return exec_stop(exec, EXEC_NOT_CONNECTED,
                     arena_printf(&exec->op.arena,
                                  "%.*s is not connected to this account; nothing was done.",
                                  SLICE_ARG(exec->integration->name)),
                     SLICE("Connect the app in the dashboard, then send the same request again."));
}

/* The other live ones, for a hint: ids and labels. */
static slice list_live(struct exec *exec)
{
    struct buf text;
    buf_init(&text, 4096);
    for (size_t i = 0; i < exec->connection.lookup.set->count; i++) {
        const struct connect_item *item = &exec->connection.lookup.set->items[i];
        if (item->status == CONNECTION_LIVE && item != exec->connection.item)
            buf_printf(&text, "%s%lld (%.*s)", text.len ? ", " : "", (long long)item->id,
                       SLICE_ARG(item->label));
    }
    slice list = text.len > 0 ? arena_dup(&exec->op.arena, buf_slice(&text)) : SLICE_NONE;
    buf_deinit(&text);
    return list;
}

static enum op_result stop_ambiguous(struct exec *exec)
{
    return exec_stop(
        exec, EXEC_CONNECTION_AMBIGUOUS,
        arena_printf(&exec->op.arena,
                     "%.*s has several connections and none is the default; nothing was done.",
                     SLICE_ARG(exec->integration->name)),
        arena_printf(&exec->op.arena,
                     "Make one the default, or name one: POST /api/tools/%.*s/execute with "
                     "connectionId, one of %.*s.",
                     SLICE_ARG(exec->action->tool_name), SLICE_ARG(list_live(exec))));
}

/* cause: a part of a sentence. */
static enum op_result stop_unusable(struct exec *exec, slice cause)
{
    slice others = list_live(exec), hint = SLICE("Reconnect the app, then send the same request "
                                                 "again.");
    if (others.len > 0)
        hint = arena_printf(&exec->op.arena,
                            "Reconnect the app and send the same request again, or name another "
                            "connection: POST /api/tools/%.*s/execute with connectionId, one of "
                            "%.*s.",
                            SLICE_ARG(exec->action->tool_name), SLICE_ARG(others));
    else if (exec->in.connection_id != 0)
        hint = arena_printf(&exec->op.arena,
                            "Reconnect the app and send the same request again, or name another "
                            "connection: GET /api/connections?integration_id=%.*s lists them.",
                            SLICE_ARG(exec->integration->integration_id));
    return exec_stop(
        exec, EXEC_REAUTH_REQUIRED,
        arena_printf(&exec->op.arena,
                     "The connection to %.*s no longer works (%.*s); nothing was done.",
                     SLICE_ARG(exec->integration->name), SLICE_ARG(cause)),
        hint);
}

static enum op_result stop_reauth(struct exec *exec)
{
    const struct connect_item *item = exec->connection.item;
    return stop_unusable(exec, item && item->error.len > 0
                                   ? item->error
                                   : SLICE("its grant has expired or was revoked"));
}

/* The connection is live and no request can be made with it: a fault of the manifest, or of what
 * was stored. It would last for ever, so the log has it, too. */
static enum op_result stop_unsendable(struct exec *exec, slice cause)
{
    op_log(&exec->op, LOG_WARN, "a stored credential cannot be sent",
           LOG_STR("integration_id", exec->out.integration_id),
           LOG_INT("connection_id", exec->connection.item->id), LOG_STR("cause", cause));
    return stop_unusable(exec, cause);
}

static const struct connect_item *find_item(const struct connect_set *set, int64_t id)
{
    for (size_t i = 0; i < set->count; i++)
        if (set->items[i].id == id && set->items[i].status != CONNECTION_REVOKED)
            return &set->items[i];
    return NULL;
}

static enum op_result stop_connection_unknown(struct exec *exec)
{
    return exec_stop(exec, EXEC_CONNECTION_UNKNOWN,
                     arena_printf(&exec->op.arena,
                                  "The connection that connectionId names is none of this "
                                  "account's connections to %.*s; nothing was done.",
                                  SLICE_ARG(exec->integration->name)),
                     SLICE("Leave connectionId out to use the default connection."));
}

enum op_result exec_use_connection(struct exec *exec, int64_t id)
{
    ASSERT(id != 0 && exec->connection.lookup.set);
    exec->connection.item = find_item(exec->connection.lookup.set, id);
    if (!exec->connection.item)
        return stop_connection_unknown(exec);
    return exec->connection.item->status == CONNECTION_LIVE ? OP_NEXT : stop_reauth(exec);
}

/* Sets exec->connection.item; OP_NEXT when it may be used. */
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
        return stop_ambiguous(exec);
    case CONNECT_NOT_CONNECTED:
        break;
    }
    return stop_not_connected(exec);
}

/* Any one of the action's scopes suffices; unknown grants are left to the provider. */
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

/* "a", "b or c": any one of them suffices. */
static slice list_scopes(struct exec *exec)
{
    const struct json *wanted = exec->action->scopes;
    struct buf text;
    buf_init(&text, 4096);
    for (uint32_t i = 0; i < wanted->count; i++) {
        buf_append_cstr(&text, i ? " or " : "");
        buf_append(&text, json_str(&wanted->as.items[i]));
    }
    slice list = arena_dup(&exec->op.arena, buf_slice(&text));
    buf_deinit(&text);
    return list;
}

/* What a person ticks on reconnecting: the words of the first of them that is asked for only
 * then. SLICE_NONE: all are asked for anyhow. */
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
    slice hint = words.len > 0
                     ? arena_printf(&exec->op.arena,
                                    "It is asked for only where a person wants it: reconnect the "
                                    "app, tick \"%.*s\" there, then send the same request again.",
                                    SLICE_ARG(words))
                     : SLICE("Reconnect the app and grant it, then send the same request again.");
    return exec_stop(exec, EXEC_SCOPE_MISSING,
                     arena_printf(&exec->op.arena,
                                  "The connection to %.*s lacks the permission that this action "
                                  "needs (%.*s); nothing was done.",
                                  SLICE_ARG(exec->integration->name), SLICE_ARG(list_scopes(exec))),
                     hint);
}

static enum op_result stop_gone(struct exec *exec)
{
    return exec_stop(
        exec, EXEC_OPERATION_GONE,
        arena_printf(&exec->op.arena, "%.*s no longer offers \"%.*s\": %.*s; nothing was done.",
                     SLICE_ARG(exec->integration->name), SLICE_ARG(exec->action->title),
                     SLICE_ARG(exec->action->gone)),
        arena_printf(&exec->op.arena,
                     "Do not send it again; GET /api/actions?integration_id=%.*s lists "
                     "the actions there are.",
                     SLICE_ARG(exec->out.integration_id)));
}

/* A later request of the action: what it is made of came from the app. */
static enum op_result stop_unbuilt_later(struct exec *exec, const struct err *err)
{
    struct arena *arena = &exec->op.arena;
    slice name = exec->integration->name;
    if (err->code == ERR_REFUSED)
        return exec_stop(
            exec, EXEC_ADDRESS_REFUSED,
            arena_printf(arena,
                         "%.*s named %s in its reply, which is none of the hosts that this action "
                         "may call; nothing was sent there.",
                         SLICE_ARG(name), err->text),
            SLICE("Sending it again does not help: the hosts are those of the app's manifest."));
    return exec_stop(exec, EXEC_REPLY_UNREADABLE,
                     arena_printf(arena,
                                  "The next request cannot be made from the reply of %.*s: %s; it "
                                  "was not sent.",
                                  SLICE_ARG(name), err->text),
                     SLICE("Nothing that lasts was done. Try again later, or have the operator of "
                           "this server see what answers there."));
}

static enum op_result stop_unbuilt(struct exec *exec, const struct err *err)
{
    return exec_stop(
        exec, EXEC_INPUT_INVALID,
        arena_printf(&exec->op.arena,
                     "The request cannot be made from this input: %s; nothing was sent.",
                     err->text),
        arena_printf(&exec->op.arena,
                     "Correct the input; GET /api/actions/%.*s/%.*s shows what the "
                     "action takes.",
                     SLICE_ARG(exec->out.integration_id), SLICE_ARG(exec->out.action_id)));
}

/* The provider's own idempotency key, where the action has one: the same for every attempt, and for
 * every run under one of the client's keys (RFC 9562 5.5: a name in the account's space, so that
 * accounts cannot meet). */
static slice provider_key(struct exec *exec)
{
    slice key = exec->in.idempotency_key;
    char *text = NULL;
    if (exec->attempt.provider_key.len == 0 && catalog_has_provider_key(exec->action))
        text = arena_alloc_text(&exec->op.arena, UUID_TEXT_LEN + 1);
    if (!text)
        return exec->attempt.provider_key;
    struct uuid id = exec->in.provider_name.len > 0
                         ? uuid_v5(exec->in.provider_space, exec->in.provider_name)
                     : key.len > 0 ? uuid_v5(exec->in.account_id, key)
                                   : uuid_v7();
    uuid_format(id, text);
    return exec->attempt.provider_key = slice_of(text, UUID_TEXT_LEN);
}

/* The first request; and of those behind it what can be known to be wrong before the first is
 * sent. */
static int build_and_preview(struct exec *exec, const struct exec_scope *scope,
                             const struct json *credential, struct err *err)
{
    int result =
        exec_build(exec->action, scope, credential, &exec->op.arena, &exec->attempt.request, err);
    bool is_first = exec->action->then_count > 0 && exec->progress.at == 0;
    return result == OK && is_first ? exec_preview(exec, NULL, err) : result;
}

/* The request is built before anything is claimed, so that one that cannot be built leaves no
 * trace; those behind it when their turn has come. */
enum op_result exec_build_request(struct exec *exec)
{
    const struct connect_item *connection = exec->connection.item;
    struct exec_scope scope = {.input = exec_input(exec),
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
        return exec->progress.at > 0 ? stop_unbuilt_later(exec, &err) : stop_unbuilt(exec, &err);
    }
}

enum op_result exec_end_dry_run(struct exec *exec)
{
    ASSERT(exec->in.is_dry_run && exec->out.attempts == 0);
    ASSERT(exec->key.state == EXEC_CLAIM_NONE && !exec->key.is_holder);
    exec->summary_json = exec_render_dry_run(exec);
    if (!exec->summary_json.ptr)
        return exec_stop_memory(exec);
    exec->out.is_dry_run = true;
    return OP_STOP;
}

/* The order is the interface's: a missing connection is reported before a missing scope, and both
 * before an operation that has gone. The request is built last, with the credential of what was
 * found. */
enum op_result exec_step_check_connection(struct op *op)
{
    struct exec *exec = exec_of(op);
    ASSERT(!exec->connection.item && exec->out.attempts == 0);
    if (exec->integration->auth.kind != AUTH_NONE) {
        if (exec->connection.lookup.status != OK)
            return exec_stop_database(exec);
        if (choose_connection(exec) == OP_STOP)
            return OP_STOP;
        if (is_scope_missing(exec))
            return stop_scope(exec);
    } else if (exec->in.connection_id != 0) {
        return stop_connection_unknown(exec);
    }
    if (exec->action->gone.len > 0)
        return stop_gone(exec);
    if (exec_needs_first_token(exec)) /* there is nothing to build a request with yet */
        return OP_NEXT;
    if (exec_build_request(exec) == OP_STOP)
        return OP_STOP;
    return exec->in.is_dry_run ? exec_end_dry_run(exec) : OP_NEXT;
}
