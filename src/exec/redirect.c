/*
 * Redirects of an app to a renamed resource (contrib/integrations/README.md "redirects"): the same
 * request again, at the address in the reply. Only redirects within the request's own origin are
 * followed, so the credential is not sent elsewhere, and the client checks the origin's address as
 * it did before.
 */
#include "exec/internal.h"

#include "http/url.h"

/* RFC 9110 15.4: 307 and 308 require the same method. After 301 and 302 clients usually send a
 * GET, which is the same request only if it was a GET before. */
static bool asks_for_the_same(const struct exec *exec)
{
    const struct call_built *request = &exec->attempt.request;
    unsigned status = exec->attempt.call.status;
    bool is_read = slice_eq_cstr(request->method, "GET") &&
                   !catalog_request_acts(exec->action, request->at);
    return status == 307 || status == 308 || (is_read && (status == 301 || status == 302));
}

/* A redirect is not followed if a reply to this or an earlier request of a write that must not be
 * repeated may have been lost, or if the credential is in the URL, since the redirect would drop
 * it. */
static bool may_follow(const struct exec *exec)
{
    const struct call_built *request = &exec->attempt.request;
    bool is_in_doubt = catalog_request_acts(exec->action, request->at) && exec_is_in_doubt(exec) &&
                       !exec_is_repeat_safe(exec);
    return exec->integration->follows_redirects && exec->attempt.call.result == HTTP_CALL_OK &&
           !request->is_redirected && request->secret_len == 0 && !is_in_doubt &&
           exec->out.effect == EXEC_EFFECT_NONE && asks_for_the_same(exec);
}

bool exec_follow_redirect(struct exec *exec)
{
    struct call_built *request = &exec->attempt.request;
    struct buf url;
    struct err err;
    if (!may_follow(exec))
        return false;
    slice location = http_call_header(&exec->attempt.call, SLICE("location"));
    location = slice_split(&location, '#'); /* a fragment is for browsers */
    buf_init(&url, URL_BYTES_MAX);
    bool is_ours = location.len > 0 &&
                   call_url_follow(request->url, location, NULL, &url, &err) == OK &&
                   !slice_eq(buf_slice(&url), request->url);
    slice text = is_ours ? arena_dup(&exec->op.arena, buf_slice(&url)) : SLICE_NONE;
    buf_deinit(&url);
    if (!text.ptr)
        return false;
    request->url = text;
    request->is_redirected = true;
    op_log(&exec->op, LOG_INFO, "following a redirect",
           LOG_STR("integration_id", exec->out.integration_id),
           LOG_INT("status", exec->attempt.call.status));
    return true;
}
