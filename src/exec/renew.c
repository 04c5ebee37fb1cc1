/*
 * Renews the token for the call (connect/connect.h): before it expires, and once after the provider
 * has refused it. Then the connection is looked up and the request is built again.
 *
 * A renewal writes a new revision of the connection's row, possibly in another process; so the run
 * drops its copy of the connection, and never changes it in place.
 */
#include "base/clock.h"
#include "exec/internal.h"

const struct catalog_auth *exec_auth(const struct exec *exec)
{
    return exec->connection.item
               ? catalog_auth_of(exec->integration, exec->connection.item->auth_kind)
               : &exec->integration->auth;
}

static bool is_grant(const struct exec *exec)
{
    enum catalog_auth_kind kind = exec_auth(exec)->kind;
    return kind == AUTH_OAUTH2 || kind == AUTH_OAUTH2_CLIENT_CREDENTIALS;
}

/* The provider refused a token that has expired by now: the grant may still be valid. */
static bool has_run_out(const struct exec *exec)
{
    int64_t expires_at = exec->connection.item->expires_at;
    return expires_at > 0 && clock_shared_us() >= expires_at;
}

/* A token is renewed once in a run, since the refusal of a fresh token means that the grant was
 * refused. A token that expired while the call was under way is an exception; the maximum of
 * attempts limits it. */
bool exec_renews_after(const struct exec *exec)
{
    if (exec->out.reason != EXEC_REAUTH_REQUIRED || !exec->connection.item || !is_grant(exec) ||
        exec->out.attempts >= EXEC_ATTEMPTS_MAX)
        return false;
    return !exec->connection.is_renewed_after || has_run_out(exec);
}

/* A token may expire on the way to the provider: if the connection were then marked as refused, a
 * person would have to reconnect a valid connection. */
void exec_excuse_token(struct exec *exec)
{
    if (exec->out.reason != EXEC_REAUTH_REQUIRED || !exec->connection.is_renewed_after ||
        !has_run_out(exec))
        return;
    exec->out.reason = EXEC_TIMED_OUT;
    exec->out.error_code = SLICE_NONE;
    exec->out.is_repeatable = true;
    exec->out.effect = EXEC_EFFECT_NONE;
    exec->out.message = exec->out.display_summary =
        SLICE("The connection's tokens expired before the provider could check them.");
    exec->out.hint = SLICE("Nothing was done, and the connection stays as it is. Try again.");
}

bool exec_needs_first_token(const struct exec *exec)
{
    return exec->connection.item && !exec->connection.item->has_token &&
           exec_auth(exec)->kind == AUTH_OAUTH2_CLIENT_CREDENTIALS;
}

enum op_result exec_check_token(struct exec *exec)
{
    struct connect_service *connect = exec->service->config.connect;
    const struct connect_item *item = exec->connection.item;
    enum connect_need need =
        item ? connect_item_need(connect, item, exec_auth(exec)->kind, clock_shared_us())
             : CONNECT_FRESH;
    if (need == CONNECT_EXPIRED)
        return OP_NEXT;
    if (need == CONNECT_AGING) /* valid for this call; the next call should not have to wait */
        connect_renew_in_background(connect, exec_connection_owner(exec),
                                    exec->integration->integration_id, item);
    return op_jump(&exec->op, EXEC_STEP_ENTER_LIMITS);
}

/* This step runs before the first call if the token has expired, and after check_reply if the
 * provider refused the token and exec_renews_after allows a renewal. */
enum op_result exec_step_renew_token(struct op *op)
{
    struct exec *exec = exec_of(op);
    /* there was an attempt, so the provider refused the token */
    exec->connection.is_renewed_after |= exec->out.attempts > 0;
    bool is_here = connect_renew(exec->service->config.connect, &exec->connection.renewal,
                                 exec_connection_owner(exec), exec->integration->integration_id,
                                 exec->connection.item, exec->deadline_ns, op);
    return is_here ? OP_NEXT : OP_WAIT;
}

/* ---- no token ---- */

/* Ends the run. The provider refused the token or was not called, so this request had no effect. */
static enum op_result end_run(struct exec *exec, enum exec_reason reason, slice message, slice hint)
{
    ASSERT(reason != EXEC_SUCCEEDED && !exec->pages.is_ended);
    exec_end_with(exec, reason, message, hint);
    if (uuid_is_nil(exec->out.execution_id))
        exec->out.execution_id = uuid_v7();
    return op_jump(&exec->op, EXEC_STEP_NEXT); /* earlier pages are the result */
}

static enum op_result end_unrenewed(struct exec *exec)
{
    enum exec_reason reason = EXEC_UNREACHABLE;
    slice hint = SLICE("Nothing was done, and the connection stays as it is. Try again later.");
    exec->out.is_repeatable = true;
    if (exec->connection.renewal.result == CONNECT_RENEWAL_TIMEOUT)
        reason = EXEC_TIMED_OUT;
    if (exec->connection.renewal.result == CONNECT_RENEWAL_NO_DATABASE)
        reason = EXEC_UNAVAILABLE;
    if (exec->connection.renewal.result == CONNECT_RENEWAL_REFUSED ||
        exec->connection.renewal.result == CONNECT_RENEWAL_IMPOSSIBLE) {
        exec->out.is_repeatable = false;
        hint = SLICE("Nothing was done. The operator of this server has to check the app's OAuth "
                     "client (sluice oauth-clients).");
    }
    return end_run(exec, reason,
                   arena_printf(&exec->op.arena,
                                "The token of the connection to %.*s could not be renewed: %.*s.",
                                SLICE_ARG(exec->integration->name),
                                SLICE_ARG(exec->connection.renewal.message)),
                   hint);
}

/* Continues with the present token if it has not expired, or if it cannot be renewed and the
 * provider has not refused it yet; otherwise ends the run. */
static enum op_result continue_unrenewed(struct exec *exec)
{
    bool is_refused = exec->out.attempts > 0;
    bool is_impossible = exec->connection.renewal.result == CONNECT_RENEWAL_IMPOSSIBLE;
    if (is_refused && is_impossible) /* the provider's refusal is the outcome */
        return op_jump(&exec->op, EXEC_STEP_NEXT);
    bool is_usable = exec->connection.item->has_token &&
                     (is_impossible || clock_shared_us() < exec->connection.item->expires_at);
    if (is_refused || !is_usable)
        return end_unrenewed(exec);
    return op_jump(&exec->op, EXEC_STEP_ENTER_LIMITS);
}

/* ---- the present connection ---- */

/* After CONNECT_RENEWAL_GONE the connection is reloaded, too: its state (removed, or refused since)
 * becomes the outcome in rebuild_request. The id is copied first, because the item is freed with
 * its set. The lookup uses the id, not the caller's choice, so it finds the same connection even if
 * the default has changed. */
enum op_result exec_step_reload_connection(struct op *op)
{
    struct exec *exec = exec_of(op);
    ASSERT(exec->connection.item); /* only the token of a connection is renewed */
    if (exec->connection.renewal.result != CONNECT_RENEWED &&
        exec->connection.renewal.result != CONNECT_RENEWAL_GONE)
        return continue_unrenewed(exec);
    struct uuid owner_id = exec_connection_owner(exec);
    exec->connection.renewed_id = exec->connection.item->id;
    exec_connection_drop(exec);
    bool is_known = connect_find(exec->service->config.connect, &exec->connection.lookup, owner_id,
                                 exec->integration->integration_id, exec->connection.renewed_id,
                                 op);
    return is_known ? OP_NEXT : OP_WAIT;
}

/* The refusal that led here is cleared before anything else may end the run: otherwise its message
 * would appear in the outcome of another failure. A run that has made a call already has its slot
 * and its claim, so it returns to CALL; otherwise these steps follow. */
enum op_result exec_step_rebuild_request(struct op *op)
{
    struct exec *exec = exec_of(op);
    struct exec_outcome *out = &exec->out;
    ASSERT(exec->connection.renewed_id != 0 && !exec->connection.item);
    out->reason = EXEC_SUCCEEDED;
    out->message = out->hint = out->error_code = SLICE_NONE;
    if (exec->connection.lookup.status != OK)
        return end_run(exec, EXEC_UNAVAILABLE, SLICE("The database cannot be reached."),
                       SLICE_NONE);
    if (exec_use_connection(exec, exec->connection.renewed_id) == OP_STOP ||
        exec_build_request(exec) == OP_STOP)
        return op_jump(op, EXEC_STEP_NEXT);
    if (exec->in.is_dry_run)
        return exec_dry_run(exec);
    return op_jump(op, out->attempts > 0 ? EXEC_STEP_CALL : EXEC_STEP_ENTER_LIMITS);
}
