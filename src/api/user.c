/*
 * The header Sluice-User: the end user for whom a request acts, by the id that the account gave it.
 * The request then reads and changes that user's rows only (grant.account_id), while the account
 * pays (grant.parent_id). It says nothing about the sender: that is the key.
 *
 * A key may act for one user, always (grant.is_of_user): it needs no header, and may name only that
 * user.
 *
 * A user exists from its first request that may change something. Until then a request gets a new
 * id, which owns nothing; if the request creates the user, that id stays. While a user is being
 * erased, its requests are refused; after that it is a new user.
 */
#include "api/request.h"

#include "base/clock.h"

#define HEADER SLICE("Sluice-User")

static struct api_request *api_request_of(struct serve_request *serve)
{
    return CONTAINER_OF(serve, struct api_request, serve);
}

/* Sets *id to SLICE_NONE if the request has no such header. Returns false if it has two, or none
 * that is valid. */
static bool read_header(const struct http_exchange *exchange, slice *id)
{
    const struct http_head *head = &exchange->head;
    *id = SLICE_NONE;
    for (size_t i = 0; i < head->header_count; i++) {
        if (!slice_eq_nocase(head->headers[i].name, HEADER))
            continue;
        if (id->ptr)
            return false;
        *id = head->headers[i].value;
        if (!vault_user_is_id(*id))
            return false;
    }
    return true;
}

static bool is_operator(const struct vault_grant *grant)
{
    return (grant->scopes & SCOPE_OPERATOR) != 0;
}

enum op_result api_user_find(struct serve_request *serve)
{
    struct api_request *request = api_request_of(serve);
    ASSERT(uuid_is_nil(serve->grant.parent_id) || serve->grant.is_of_user);
    if (!read_header(serve->exchange, &request->user_id))
        return api_reply_error(request, 400,
                               "Sluice-User must be sent once, with 1 to %d characters from ! to ~",
                               ACCOUNT_USER_ID_MAX);
    /* An operator's key has no users: api_user_check_path refuses the header. */
    if (!request->user_id.ptr || is_operator(&serve->grant))
        return serve_no_user(serve);
    ASSERT(!uuid_is_nil(serve->grant.account_id));
    serve->user = request->user_id;
    request->user_check = ARENA_NEW(&serve->op.arena, struct vault_user_check);
    if (!request->user_check)
        return api_reply_no_memory(request);
    return vault_user_find(request->api->config.users, request->user_check, serve_payer(serve),
                           request->user_id, true, &serve->op)
               ? OP_NEXT
               : OP_WAIT;
}

enum op_result api_reply_user_erased(struct api_request *request, int64_t erase_at)
{
    /* a round of housekeeping later at most; erase_at may be far */
    int64_t left_ms = (erase_at - clock_shared_us()) / 1000;
    int64_t most_ms = (int64_t)vault_users_erase_wait_ms(request->api->config.users);
    left_ms = left_ms < 0 ? 0 : left_ms < most_ms ? left_ms : most_ms;
    serve_retry_after(&request->serve, left_ms + 60000);
    return api_reply_error(request, 503,
                           "This user is being erased. Its id can be used again after that.");
}

enum op_result api_user_take(struct serve_request *serve)
{
    struct api_request *request = api_request_of(serve);
    int status = request->user_check->status;
    if (status != OK && status != ERR_NOTFOUND)
        return api_reply_database(request, status);
    if (request->user_check->erase_at)
        return api_reply_user_erased(request, request->user_check->erase_at);
    if (serve->grant.is_of_user) {
        request->user_id = SLICE_NONE;
        return status == OK && uuid_eq(request->user_check->user_id, serve->grant.account_id)
                   ? OP_NEXT
                   : api_reply_error(request, 403, "This API key acts for another user");
    }
    serve->grant.parent_id = serve->grant.account_id;
    serve->grant.account_id = status == OK ? request->user_check->user_id : uuid_v7();
    if (status == OK)
        request->user_id = SLICE_NONE;
    return OP_NEXT;
}

enum op_result api_user_check_account(struct api_request *request, const char *what)
{
    const struct vault_grant *grant = &request->serve.grant;
    if (uuid_is_nil(grant->parent_id) && !request->user_id.ptr)
        return OP_NEXT;
    if (!grant->is_of_user)
        return api_reply_error(request, 400,
                               "%s is for the account alone: send it without Sluice-User", what);
    return api_reply_error(request, 403,
                           "%s is for the account alone, and this API key acts for one of its "
                           "users",
                           what);
}

enum op_result api_user_check_path(struct api_request *request)
{
    const struct api_endpoint *endpoint = request->endpoint;
    if (is_operator(&request->serve.grant) && endpoint->scope != SCOPE_OPERATOR)
        return api_reply_error(request, 403,
                               "This API key is the operator's: it reaches only /api/accounts");
    bool is_served = endpoint->serves_user_keys && request->serve.grant.is_of_user;
    return endpoint->is_of_account && !is_served ? api_user_check_account(request, "This path")
                                                 : OP_NEXT;
}

static enum op_result on_created(struct api_request *request)
{
    const struct vault_user_create *create = request->user_create;
    if (create->status == ERR_LIMIT)
        return api_reply_error(request, 403, "This account has the maximum of %zu users",
                               vault_users_max(request->api->config.users));
    if (create->status != OK)
        return api_reply_database(request, create->status);
    if (create->erase_at)
        return api_reply_user_erased(request, create->erase_at);
    request->serve.grant.account_id = create->user_id;
    request->user_id = SLICE_NONE;
    return request->then_user(request);
}

enum op_result api_with_user(struct api_request *request, api_step *then)
{
    const struct vault_grant *grant = &request->serve.grant;
    bool may_change = (request->endpoint->scope & (SCOPE_EXECUTE | SCOPE_ADMIN)) != 0 &&
                      request->serve.exchange->head.method == HTTP_METHOD_POST;
    if (!request->user_id.ptr || !may_change)
        return then(request);
    request->then_user = then;
    request->user_create = ARENA_NEW(&request->serve.op.arena, struct vault_user_create);
    if (!request->user_create)
        return api_reply_no_memory(request);
    vault_user_create_start(request->api->config.users, request->user_create, grant->parent_id,
                            request->user_id, grant->account_id, &request->serve.op);
    return api_wait(request, on_created);
}

static enum op_result begin_endpoint(struct api_request *request)
{
    const struct api_endpoint *endpoint = request->endpoint;
    if (endpoint->state_bytes > 0) {
        request->state = arena_zalloc(&request->serve.op.arena, endpoint->state_bytes);
        if (!request->state)
            return api_reply_no_memory(request);
    }
    return endpoint->begin(request);
}

enum op_result api_begin(struct api_request *request)
{
    return api_with_user(request, begin_endpoint);
}
