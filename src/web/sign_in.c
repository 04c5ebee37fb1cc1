/*
 * Signing in with an API key, and out. Only the key's hash is kept.
 */
#include "base/clock.h"
#include "vault/key.h"
#include "vault/command.h"
#include "web/view.h"

/* Returns a path of this site at which to continue, never one that a browser would take for another
 * site. */
static slice next_path(slice wanted)
{
    /* "//host" and "/\host" are other sites for a browser. */
    bool is_path = wanted.len > 0 && wanted.ptr[0] == '/' &&
                   !(wanted.len > 1 && (wanted.ptr[1] == '/' || wanted.ptr[1] == '\\'));
    for (size_t i = 0; is_path && i < wanted.len; i++)
        is_path = wanted.ptr[i] > ' ' && wanted.ptr[i] <= '~';
    return is_path ? wanted : SLICE("/");
}

enum op_result web_sign_in_reply(struct web_request *request, unsigned status, slice next,
                                 const char *problem)
{
    struct json_writer *w = view_begin(request);
    ASSERT(next.len > 0 && next.ptr[0] == '/');
    json_member_str(w, "next", next);
    json_member_str(w, "problem", slice_cstr(problem));
    /* A form that was sent without a session is kept in hidden fields (again.c). */
    web_again_view_fields(request, w);
    return web_reply_view(request, status, "sign_in");
}

enum op_result web_sign_in(struct web_request *request)
{
    slice next = next_path(web_query(request, "next"));
    /* The reader may have signed in in another tab since the form was shown. */
    if (request->session.is_open)
        return web_reply_redirect(request, next, "");
    return web_sign_in_reply(request, 200, next, "");
}

static enum op_result finish_post(struct web_request *request)
{
    struct web_session *session = &request->session;
    slice next = next_path(web_field(request, "next"));
    if (request->serve.check.is_elsewhere)
        return web_sign_in_reply(request, 403, next, "This key may not be used from your address.");
    if (request->serve.check.status == ERR_REFUSED)
        return web_sign_in_reply(
            request, 401, next,
            "This key is unknown, expired or revoked. Check that it was copied completely.");
    if (request->serve.check.status != OK)
        return web_reply_database(request, request->serve.check.status);
    if (request->serve.check.grant.is_of_user)
        return web_sign_in_reply(
            request, 403, next,
            "This key acts for one end user of its account, so it opens no dashboard.");
    if (request->serve.check.grant.scopes & SCOPE_OPERATOR)
        return web_sign_in_reply(
            request, 403, next,
            "This is a key of the operator, for /api/accounts: it opens no dashboard.");
    /* Everything is new, including the CSRF token: forms of the earlier session are refused. */
    *session = (struct web_session){.is_open = true,
                                    .account_id = request->serve.check.grant.account_id,
                                    .until_ms = clock_shared_us() / 1000 + SESSION_MS};
    if (!vault_key_hash(web_field(request, "key"), session->key_hash))
        return web_sign_in_reply(request, 401, next, "This is not an API key.");
    session_draw_csrf(session);
    request->serve.grant = request->serve.check.grant;
    if (!web_set_cookie(request))
        return web_reply_problem(request, 503, "Not available now", "Try again.");
    /* A kept form is rendered again; nothing is sent on the reader's behalf. */
    return web_again_restore(request, next);
}

enum op_result web_sign_in_post(struct web_request *request)
{
    /* Attempts are counted by address, since a wrong key belongs to no account. */
    struct uuid address = uuid_v5((struct uuid){{0}}, serve_client_address(&request->serve));
    uint64_t wait_ms =
        account_rate_take(request->web->sign_ins, address, loop_now_ns(request->serve.op.loop));
    if (wait_ms > 0) {
        serve_header(&request->serve, "Retry-After", SLICE("1"));
        return web_sign_in_reply(
            request, 429, next_path(web_field(request, "next")),
            "Too many attempts from your address. Wait a moment, then try again.");
    }
    bool is_known = vault_auth_check(request->web->config.auth, &request->serve.check,
                                     web_field(request, "key"),
                                     serve_client_address(&request->serve), &request->serve.op);
    return is_known ? finish_post(request) : web_wait(request, finish_post);
}

/* ---- signing out ---- */

/* From now on every copy of the cookie is refused, at once here and on other nodes when they are
 * notified. */
static enum op_result finish_sign_out(struct web_request *request)
{
    const struct vault_command *command = request->state;
    if (command->status != OK) /* the browser keeps its session, so that the reader can try again
                                * to sign out */
        return web_reply_database(request, command->status);
    /* Without a session the page has no navigation and no CSRF field. */
    request->session = (struct web_session){0};
    web_clear_cookie(request);
    return web_reply_redirect(request, SLICE("/sign-in"), "signed_out");
}

static enum op_result sign_out(struct web_request *request, enum vault_command_kind kind)
{
    const struct web_session *session = &request->session;
    struct vault_command *command = web_state_new(request, sizeof(*command));
    const struct vault_command_request in = {
        .kind = kind,
        .key.key = {.account_id = session->account_id, .id = request->serve.grant.key_id},
        .session_hash = request->serve.check.caller.session_hash,
        /* The end is stored until the cookie would have expired; until then a copy of it is
         * refused. */
        .session_until = session->until_ms * 1000,
    };
    /* The session is ended by the hash of this request's cookie. */
    ASSERT(memcmp(request->serve.check.caller.key_hash, session->key_hash, API_KEY_HASH_LEN) == 0);
    if (!command)
        return OP_DONE;
    vault_command_start(request->web->config.auth, command, &in, &request->serve.op);
    return web_wait(request, finish_sign_out);
}

enum op_result web_sign_out(struct web_request *request)
{
    return sign_out(request, VAULT_SESSION_END);
}

enum op_result web_sign_out_everywhere(struct web_request *request)
{
    return sign_out(request, VAULT_SESSIONS_END);
}

enum op_result web_sign_out_ask(struct web_request *request)
{
    (void)view_begin(request);
    return web_reply_view(request, 200, "sign_out");
}
