/*
 * GET /api/policies; GET, PUT and DELETE /api/policies/{name}; POST /api/policies/test (admin
 * scope, by a key without a policy of its own): what the account's keys may do, in the order of the
 * names.
 */
#include "api/listing.h"
#include "policy/command.h"

/* The document in a body. */
#define DOCUMENT "policy"

static void put_policy(struct json_writer *w, const void *row)
{
    const struct policy_row *policy = row;
    json_member_str(w, "name", policy->name);
    json_member_i64(w, "rev", policy->rev);
    json_member_time(w, "updated_at", policy->updated_at);
    if (policy->body.ptr)
        json_member_raw(w, DOCUMENT, policy->body);
}

#define NO_POLICY "Policy not found"

/* ---- reading ---- */

/* All of an account are one page, without their documents. */
static enum op_result finish_policy_list(struct api_request *request)
{
    struct policy_row *rows;
    size_t count;
    int status = store_policy_list_result(&request->query, &rows, &count);
    if (status != OK)
        return api_reply_database(request, status);
    struct json_writer *w = listing_reply_open(request, rows, count, sizeof(*rows), put_policy);
    listing_put_id(w, "next_cursor", (struct uuid){{0}}); /* one page has all */
    return api_reply_close(request, 200);
}

static enum op_result begin_policy_list(struct api_request *request)
{
    store_policy_list(request->api->config.pool, &request->query, &request->serve.op,
                      request->serve.grant.account_id);
    return api_wait(request, finish_policy_list);
}

const struct api_endpoint api_policies_list = {
    .scope = SCOPE_ADMIN,
    .begin = begin_policy_list,
    .is_of_account = true,
    .refuses_policy = true,
};

static enum op_result load_policy_row(struct api_request *request, slice name, api_step *then)
{
    if (!policy_is_name(name))
        return api_reply_error(request, 404, NO_POLICY);
    store_policy_get(request->api->config.pool, &request->query, &request->serve.op,
                     request->serve.grant.account_id, name);
    return api_wait(request, then);
}

static enum op_result finish_policy(struct api_request *request)
{
    struct policy_row row;
    int status = store_policy_get_result(&request->query, &row);
    if (status != OK)
        return api_reply_no_row(request, status, NO_POLICY);
    put_policy(api_reply_open(request, API_REQUEST_ARENA_BYTES_MAX), &row);
    return api_reply_close(request, 200);
}

static enum op_result begin_policy_get(struct api_request *request)
{
    return load_policy_row(request, request->serve.match.params[0], finish_policy);
}

const struct api_endpoint api_policies_get = {
    .scope = SCOPE_ADMIN,
    .begin = begin_policy_get,
    .is_of_account = true,
    .refuses_policy = true,
};

/* ---- changes ---- */

struct policy_changing {
    struct policy_command command;
    struct policy_command_request in;
};

/* A lost answer is a 500: the client can find out, and a 503 would mean that nothing was done. */
static enum op_result reply_policy_failed(struct api_request *request,
                                          const struct policy_command *command)
{
    switch (command->status) {
    case ERR_SYNTAX:
        return api_reply_error(request, command->is_large ? 413 : 400, "Nothing was changed: %.*s",
                               SLICE_ARG(command->problem));
    case ERR_LIMIT:
        return api_reply_error(request, 409, "Nothing was changed: %.*s",
                               SLICE_ARG(command->problem));
    case ERR_INVALID: /* the account was erased at this moment */
        return api_reply_key_refused(request);
    case ERR_CLOSED:
        return api_reply_error(request, 500,
                               "The database's answer was lost, so the change may have been made. "
                               "Read the policy before you try again.");
    default:
        return api_reply_no_row(request, command->status, NO_POLICY);
    }
}

static enum op_result finish_policy_change(struct api_request *request)
{
    const struct policy_changing *it = request->state;
    const struct policy_command *command = &it->command;
    op_keep_children(&request->serve.op); /* the problem is in the memory of that op */
    if (command->status != OK)
        return reply_policy_failed(request, command);
    if (it->in.kind == POLICY_DELETE)
        return api_reply(request, 200, SLICE("{\"success\":true}"));
    struct json_writer *w = api_reply_open(request, API_REQUEST_ARENA_BYTES_MAX);
    json_member_str(w, "name", it->in.name);
    json_member_i64(w, "rev", command->rev);
    return api_reply_close(request, 200);
}

/* The change goes on without its client: it is made as a whole, with its event. */
static enum op_result change_policy(struct api_request *request,
                                    const struct policy_command_request *in)
{
    struct policy_changing *it = request->state;
    it->in = *in;
    it->in.by = serve_by(&request->serve);
    it->in.account_id = request->serve.grant.account_id;
    it->in.name = request->serve.match.params[0];
    it->in.root = SLICE("/" DOCUMENT);
    request->on_gone = api_continue;
    policy_command_start(request->api->config.auth, &it->command, &it->in, &request->serve.op);
    return api_wait(request, finish_policy_change);
}

/* A revision that the client read guards against a change by another one meanwhile. */
static enum op_result begin_policy_set(struct api_request *request)
{
    const struct json *rev = json_given(request->body, SLICE("rev"));
    struct policy_command_request in = {
        .kind = POLICY_SET, .document = JSON_GET(request->body, DOCUMENT), .has_rev = rev != NULL};
    if (!in.document)
        return api_reply_error(request, 400,
                               DOCUMENT " must be the policy: an object with the members "
                                        "\"default\" and \"rules\"");
    if (rev && (!json_to_i64(rev, &in.rev) || in.rev < 0))
        return api_reply_error(request, 400,
                               "rev must be the number that the policy has now (0: there is none), "
                               "or null to replace it in any case");
    return change_policy(request, &in);
}

const struct api_endpoint api_policies_set = {
    .scope = SCOPE_ADMIN,
    .body = API_BODY_REQUIRED,
    .members = &(const struct api_names){.own = {DOCUMENT, "rev"}},
    .begin = begin_policy_set,
    .is_of_account = true,
    .refuses_policy = true,
    .state_bytes = sizeof(struct policy_changing),
};

/* Keys that name it would lose every right, so it is kept while there are some. */
static enum op_result begin_policy_delete(struct api_request *request)
{
    const struct policy_command_request in = {.kind = POLICY_DELETE};
    return change_policy(request, &in);
}

const struct api_endpoint api_policies_delete = {
    .scope = SCOPE_ADMIN,
    .begin = begin_policy_delete,
    .is_of_account = true,
    .refuses_policy = true,
    .state_bytes = sizeof(struct policy_changing),
};

/* ---- a test ---- */

/* What the call of a tool would be decided as. policy is not NULL. */
static enum op_result reply_verdict(struct api_request *request, struct policy *policy)
{
    struct policy_verdict verdict;
    struct err err;
    int status = policy_test(
        policy, *request->api->config.catalog, json_get_str(request->body, SLICE("tool")),
        json_given(request->body, SLICE("input")), json_get_str(request->body, SLICE("user")),
        &request->serve.op.arena, &verdict, &err);
    if (status == ERR_NOMEM)
        return api_reply_no_memory(request);
    if (status != OK)
        return api_reply_error(request, 400, "%s", err.text);
    policy_put_verdict(api_reply_open(request, API_REQUEST_ARENA_BYTES_MAX), &verdict);
    return api_reply_close(request, 200);
}

/* Compiles a policy and answers with its verdict, or with its faults. document: NULL: it is `text`.
 */
static enum op_result test_policy(struct api_request *request, const struct json *document,
                                  slice text)
{
    struct catalog_report *report = catalog_report_new(NULL);
    if (!report)
        return api_reply_no_memory(request);
    struct policy *policy = document ? policy_compile(document, SLICE_NONE, report)
                                     : policy_compile_text(SLICE_NONE, text, SLICE_NONE, report);
    enum op_result result =
        policy ? reply_verdict(request, policy)
               : api_reply_error(request, 400, "The policy is wrong: %.*s",
                                 SLICE_ARG(policy_faults(report, SLICE("/" DOCUMENT),
                                                         &request->serve.op.arena)));
    policy_unref(policy);
    catalog_report_free(report);
    return result;
}

static enum op_result on_tested_found(struct api_request *request)
{
    struct policy_row row;
    int status = store_policy_get_result(&request->query, &row);
    if (status != OK)
        return api_reply_no_row(request, status, NO_POLICY);
    return test_policy(request, NULL, row.body);
}

/* No call is made, and nothing is stored: an administrator tries a document before it is set. */
static enum op_result begin_policy_test(struct api_request *request)
{
    const struct json *document = json_given(request->body, SLICE(DOCUMENT));
    const struct json *name = json_given(request->body, SLICE("name"));
    const struct json *input = json_given(request->body, SLICE("input"));
    const struct json *user = json_given(request->body, SLICE("user"));
    if (name && !policy_is_name(json_str(name)))
        return api_reply_error(request, 400, "name must be that of a stored policy");
    if (!document == !name)
        return api_reply_error(request, 400,
                               "The body must have " DOCUMENT ", a document, or name, that of a "
                               "stored policy");
    if (!json_get_str(request->body, SLICE("tool")).ptr)
        return api_reply_error(request, 400,
                               "tool must be the name of a tool, such as gmail_send_message");
    if (input && !json_is(input, JSON_OBJECT))
        return api_reply_error(request, 400,
                               "input must be an object, the arguments of the call; leave it out "
                               "for what all calls have in common");
    if (user && !vault_user_is_id(json_str(user)))
        return api_reply_error(request, 400,
                               "user must be a user's id, 1 to %d characters from ! to ~, or null",
                               ACCOUNT_USER_ID_MAX);
    return document ? test_policy(request, document, SLICE_NONE)
                    : load_policy_row(request, json_str(name), on_tested_found);
}

const struct api_endpoint api_policies_test = {
    .scope = SCOPE_ADMIN,
    .body = API_BODY_REQUIRED,
    .members = &(const struct api_names){.own = {DOCUMENT, "name", "tool", "input", "user"},
                                         .other = {{"tool_name", "tool"}, {"arguments", "input"}}},
    .begin = begin_policy_test,
    .is_of_account = true,
    .refuses_policy = true,
};
