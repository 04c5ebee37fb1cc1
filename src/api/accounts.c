/*
 * GET and POST /api/accounts, GET, PATCH and DELETE /api/accounts/{id} (operator keys). An
 * operator's program creates accounts by ids of its own, names, disables, enables and erases them,
 * and makes their first keys (keys.c); it reads nothing of theirs.
 */
#include "api/listing.h"
#include "base/clock.h"
#include "vault/command.h"

enum { PAGE_MAX = 100 };

static void put_account_row(struct json_writer *w, const void *row)
{
    const struct account *account = row;
    json_member_uuid(w, "id", account->account_id);
    json_member_str(w, "name", account->name);
    json_member_str(w, "external_id", account->external_id);
    json_member_bool(w, "disabled", account->disabled_at != 0);
    json_member_bool(w, "erasing", account->erase_at != 0);
    json_member_time(w, "created_at", account->created_at);
}

/* ---- the list ---- */

static const struct serve_filter filters[SERVE_FILTERS_MAX] = {LISTING_CURSOR};

static enum op_result finish_account_list(struct api_request *request)
{
    const struct serve_list *list = request->state;
    struct account *rows;
    size_t count;
    int status = store_account_page_result(&request->query, &rows, &count);
    if (status != OK)
        return api_reply_database(request, status);
    bool is_more = count > list->limit;
    count -= is_more;
    struct json_writer *w =
        listing_reply_open(request, rows, count, sizeof(*rows), put_account_row);
    listing_put_id(w, "next_cursor", is_more ? rows[count - 1].account_id : (struct uuid){{0}});
    return api_reply_close(request, 200);
}

static enum op_result begin_account_list(struct api_request *request)
{
    struct serve_list *list = request->state;
    if (!listing_read(request, list, filters, PAGE_MAX))
        return OP_DONE;
    /* one row more than requested shows whether there is another page */
    store_account_page(request->api->config.pool, &request->query, &request->serve.op,
                       list->page.before, list->limit + 1);
    return api_wait(request, finish_account_list);
}

const struct api_endpoint api_accounts_list = {
    .scope = SCOPE_OPERATOR,
    .query = &(const struct api_names){.own = {"limit", "cursor"}},
    .begin = begin_account_list,
    .is_of_account = true,
    .state_bytes = sizeof(struct serve_list),
};

/* ---- one account ---- */

#define NO_ACCOUNT "Account not found"

struct one {
    struct vault_command first, second; /* an op that has just ended cannot be started again */
    struct vault_command *command;
    struct vault_command_request in;
    bool is_name_given;
};

static enum op_result finish_account(struct api_request *request)
{
    struct account account;
    int status = store_account_get_result(&request->query, &account);
    if (status != OK)
        return api_reply_no_row(request, status, NO_ACCOUNT);
    put_account_row(api_reply_open(request, API_REQUEST_ARENA_BYTES_MAX), &account);
    return api_reply_close(request, 200);
}

static enum op_result load_account(struct api_request *request)
{
    const struct one *one = request->state;
    store_account_get(request->api->config.pool, &request->query, &request->serve.op,
                      one->in.account.account.account_id);
    return api_wait(request, finish_account);
}

/* Reads the {id} of the path. The nil account is the operator's own, and none of these. Returns
 * false if the request has been answered. */
static bool read_account_id(struct api_request *request)
{
    struct one *one = request->state;
    struct uuid *id = &one->in.account.account.account_id;
    if (uuid_parse(request->serve.match.params[0], id) && !uuid_is_nil(*id))
        return true;
    (void)api_reply_error(request, 404, NO_ACCOUNT);
    return false;
}

static enum op_result begin_account_get(struct api_request *request)
{
    return read_account_id(request) ? load_account(request) : OP_DONE;
}

const struct api_endpoint api_accounts_get = {
    .scope = SCOPE_OPERATOR,
    .begin = begin_account_get,
    .is_of_account = true,
    .state_bytes = sizeof(struct one),
};

static enum op_result account_command(struct api_request *request, enum vault_command_kind kind,
                                      api_step *then)
{
    struct one *one = request->state;
    request->on_gone = api_continue;
    one->in.by = serve_by(&request->serve);
    one->in.kind = kind;
    one->command = one->command ? &one->second : &one->first;
    vault_command_start(request->api->config.auth, one->command, &one->in, &request->serve.op);
    return api_wait(request, then);
}

/* Answers with 400 and returns false if the name is not one. */
static bool read_account_name(struct api_request *request, slice *name)
{
    *name = json_get_str(request->body, SLICE("name"));
    if (slice_is_name(*name, ACCOUNT_NAME_MAX))
        return true;
    (void)api_reply_error(request, 400, "name must be a string of 1 to %d characters on one line",
                          ACCOUNT_NAME_MAX);
    return false;
}

/* ---- creation ---- */

/* The account that has the external id was erased after it was found. */
static enum op_result finish_other(struct api_request *request)
{
    struct account account;
    int status = store_account_get_result(&request->query, &account);
    if (status == ERR_NOTFOUND)
        return api_reply_later(request, SLICE("The account with this external_id was erased at "
                                              "this moment. Try again."));
    if (status != OK)
        return api_reply_database(request, status);
    put_account_row(api_reply_open(request, API_REQUEST_ARENA_BYTES_MAX), &account);
    return api_reply_close(request, 200);
}

static enum op_result reply_other(struct api_request *request, struct uuid other)
{
    const struct one *one = request->state;
    char id[UUID_TEXT_LEN + 1];
    if (!one->in.account.account.external_id.ptr) {
        uuid_format(other, id);
        return api_reply_error(request, 409,
                               "The account %s has this name. Send an external_id, by which an "
                               "account is found again, or another name.",
                               id);
    }
    store_account_get(request->api->config.pool, &request->query, &request->serve.op, other);
    return api_wait(request, finish_other);
}

static enum op_result on_created(struct api_request *request)
{
    const struct one *one = request->state;
    const struct vault_command *made = one->command;
    if (made->status == ERR_INVALID && !uuid_is_nil(made->other))
        return reply_other(request, made->other);
    if (made->status == ERR_CLOSED)
        return api_reply_error(request, 500,
                               "The database's answer was lost, so the account may have been "
                               "created. Send the same external_id again, or list the accounts.");
    if (made->status != OK)
        return api_reply_database(request, made->status);
    put_account_row(api_reply_open(request, API_REQUEST_ARENA_BYTES_MAX), &one->in.account.account);
    return api_reply_close(request, 201);
}

static enum op_result begin_account_create(struct api_request *request)
{
    struct one *one = request->state;
    struct account *account = &one->in.account.account;
    const struct json *external = json_given(request->body, SLICE("external_id"));
    if (!read_account_name(request, &account->name))
        return OP_DONE;
    account->external_id = json_str(external);
    if (external && !vault_user_is_id(account->external_id))
        return api_reply_error(request, 400,
                               "external_id must be a string of 1 to %d characters from ! to ~",
                               ACCOUNT_USER_ID_MAX);
    account->account_id = uuid_v7();
    account->created_at = clock_shared_us();
    return account_command(request, VAULT_ACCOUNT_CREATE, on_created);
}

const struct api_endpoint api_accounts_create = {
    .scope = SCOPE_OPERATOR,
    .body = API_BODY_REQUIRED,
    .members = &(const struct api_names){.own = {"name", "external_id"}},
    .begin = begin_account_create,
    .is_of_account = true,
    .state_bytes = sizeof(struct one),
};

/* ---- changes ---- */

static enum op_result reply_account_failed(struct api_request *request)
{
    const struct one *one = request->state;
    if (one->command->status == ERR_REFUSED)
        return api_reply_error(request, 409, "Refused: %s", one->command->err.text);
    return api_reply_no_row(request, one->command->status, NO_ACCOUNT);
}

static api_step on_changed;

static enum op_result rename_account(struct api_request *request)
{
    struct one *one = request->state;
    one->is_name_given = false;
    return account_command(request, VAULT_ACCOUNT_RENAME, on_changed);
}

/* The state comes first: if the second change fails, a disabled account is disabled. */
static enum op_result on_changed(struct api_request *request)
{
    const struct one *one = request->state;
    if (one->command->status != OK)
        return reply_account_failed(request);
    return one->is_name_given ? rename_account(request) : load_account(request);
}

static enum op_result begin_account_change(struct api_request *request)
{
    struct one *one = request->state;
    const struct json *name = JSON_GET(request->body, "name");
    const struct json *disabled = JSON_GET(request->body, "disabled");
    if (!read_account_id(request))
        return OP_DONE;
    if (!name && !disabled)
        return api_reply_error(request, 400, "Nothing to change. Send name, disabled or both.");
    if (disabled && disabled->type != JSON_BOOL)
        return api_reply_error(request, 400, "disabled must be true or false");
    one->is_name_given = name != NULL;
    if (name && !read_account_name(request, &one->in.account.account.name))
        return OP_DONE;
    if (!disabled)
        return rename_account(request);
    return account_command(
        request, disabled->as.boolean ? VAULT_ACCOUNT_DISABLE : VAULT_ACCOUNT_ENABLE, on_changed);
}

const struct api_endpoint api_accounts_change = {
    .scope = SCOPE_OPERATOR,
    .body = API_BODY_REQUIRED,
    .members = &(const struct api_names){.own = {"name", "disabled"}},
    .begin = begin_account_change,
    .is_of_account = true,
    .state_bytes = sizeof(struct one),
};

/* ---- erasure ---- */

static enum op_result on_erasing(struct api_request *request)
{
    const struct one *one = request->state;
    if (one->command->status != OK)
        return reply_account_failed(request);
    struct json_writer *w = api_reply_open(request, API_REQUEST_ARENA_BYTES_MAX);
    json_member_uuid(w, "id", one->in.account.account.account_id);
    json_member_bool(w, "erasing", true);
    return api_reply_close(request, 202);
}

static enum op_result begin_account_erase(struct api_request *request)
{
    return read_account_id(request) ? account_command(request, VAULT_ACCOUNT_ERASE, on_erasing)
                                    : OP_DONE;
}

const struct api_endpoint api_accounts_erase = {
    .scope = SCOPE_OPERATOR,
    .begin = begin_account_erase,
    .is_of_account = true,
    .state_bytes = sizeof(struct one),
};
