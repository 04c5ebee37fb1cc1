/*
 * GET /api/users; GET, PATCH and DELETE /api/users/{id} (admin scope): the account's end users, by
 * the ids that the account gave them. They are not listed by time, as other lists are, but in the
 * order of these ids, and the cursor is the id of the page's last user. The id under which a user's
 * rows are stored is never shown.
 */
#include "api/listing.h"
#include "store/connection.h"

/* ---- the list ---- */

enum { PAGE_MAX = 100 }; /* the page size if the client does not set one */
enum { QUERY, CURSOR };

static const struct serve_filter filters[SERVE_FILTERS_MAX] = {
    [QUERY] = {.name = "query",
               .wanted = "the beginning of an id: 1 to 255 characters from ! to ~",
               .is_quoted = true},
    [CURSOR] = {.name = "cursor", .wanted = "the next_cursor of another page", .is_quoted = true}};

static void put_user(struct json_writer *w, const void *row)
{
    const struct account_user *user = row;
    json_member_str(w, "id", user->external_id);
    json_member_str(w, "label", user->label);
    json_member_time(w, "created_at", user->created_at);
    json_member_time(w, "last_seen_at", user->last_request_at);
    json_member_bool(w, "erasing", user->erase_at != 0);
}

static enum op_result finish_user_list(struct api_request *request)
{
    const struct serve_list *list = request->state;
    struct account_user *rows;
    size_t count;
    int status = store_account_user_list_result(&request->query, &rows, &count);
    if (status != OK)
        return api_reply_database(request, status);
    bool is_more = count > list->limit;
    count -= is_more;
    struct json_writer *w = listing_reply_open(request, rows, count, sizeof(*rows), put_user);
    json_member_str(w, "next_cursor", is_more ? rows[count - 1].external_id : SLICE_NONE);
    return api_reply_close(request, 200);
}

static enum op_result begin_user_list(struct api_request *request)
{
    struct serve_list *list = request->state;
    if (!listing_read(request, list, filters, PAGE_MAX))
        return OP_DONE;
    for (size_t i = 0; filters[i].name; i++)
        if (list->values[i].ptr && !vault_user_is_id(list->values[i]))
            return listing_refuse(request, &filters[i], list->values[i]);
    /* one row more than requested shows whether there is another page */
    store_account_user_page(request->api->config.pool, &request->query, &request->serve.op,
                            request->serve.grant.account_id, list->values[QUERY],
                            list->values[CURSOR], list->limit + 1);
    return api_wait(request, finish_user_list);
}

const struct api_endpoint api_users_list = {
    .scope = SCOPE_ADMIN,
    .query = &(const struct api_names){.own = {"limit", "cursor", "query"}},
    .begin = begin_user_list,
    .is_of_account = true,
    .state_bytes = sizeof(struct serve_list),
};

/* ---- one user ---- */

struct one {
    slice id;
    struct account_user user;
    union {
        struct vault_user_label label;
        struct vault_user_erase erase;
    } run;
};

#define NO_USER "User not found"

/* Returns NULL if the request has been answered. */
static struct one *one_of_path(struct api_request *request)
{
    struct one *one = request->state;
    one->id = request->serve.match.params[0];
    if (vault_user_is_id(one->id))
        return one;
    (void)api_reply_error(request, 404, NO_USER);
    return NULL;
}

static enum op_result finish_user(struct api_request *request)
{
    const struct one *one = request->state;
    struct connection_app *apps;
    size_t app_count, connections = 0, live = 0;
    int status = store_connection_apps_result(&request->query, &apps, &app_count);
    if (status != OK)
        return api_reply_database(request, status);
    for (size_t i = 0; i < app_count; i++) {
        connections += apps[i].count;
        live += apps[i].live;
    }
    struct json_writer *w = api_reply_open(request, API_REQUEST_ARENA_BYTES_MAX);
    put_user(w, &one->user);
    json_member_i64(w, "connections", (int64_t)connections);
    json_member_i64(w, "broken", (int64_t)(connections - live));
    return api_reply_close(request, 200);
}

/* The user's connections may be on another node of the database than the user's row. */
static enum op_result reply_user(struct api_request *request, int status)
{
    const struct one *one = request->state;
    if (status != OK)
        return api_reply_no_row(request, status, NO_USER);
    store_connection_apps(request->api->config.pool, &request->query, &request->serve.op,
                          one->user.user_id);
    return api_wait(request, finish_user);
}

static enum op_result on_user_found(struct api_request *request)
{
    struct one *one = request->state;
    return reply_user(request, store_account_user_result(&request->query, &one->user));
}

static enum op_result begin_user_get(struct api_request *request)
{
    const struct one *one = one_of_path(request);
    if (!one)
        return OP_DONE;
    store_account_user_find(request->api->config.pool, &request->query, &request->serve.op,
                            request->serve.grant.account_id, one->id);
    return api_wait(request, on_user_found);
}

const struct api_endpoint api_users_get = {
    .scope = SCOPE_ADMIN,
    .begin = begin_user_get,
    .is_of_account = true,
    .state_bytes = sizeof(struct one),
};

static enum op_result on_labelled(struct api_request *request)
{
    struct one *one = request->state;
    one->user = one->run.label.user;
    op_keep_children(&request->serve.op); /* the user's texts are in the memory of that op */
    return reply_user(request, one->run.label.status);
}

static enum op_result begin_user_change(struct api_request *request)
{
    struct one *one = one_of_path(request);
    const struct json *label = JSON_GET(request->body, "label");
    if (!one)
        return OP_DONE;
    slice text = json_str(label);
    bool is_name = text.ptr && slice_is_name(text, ACCOUNT_USER_LABEL_MAX);
    if (!label || !(is_name || label->type == JSON_NULL))
        return api_reply_error(request, 400,
                               "label must be a string of 1 to %d characters on one line, or null",
                               ACCOUNT_USER_LABEL_MAX);
    request->on_gone = api_continue;
    vault_user_label_start(request->api->config.users, &one->run.label,
                           request->serve.grant.account_id, one->id, text, &request->serve.op);
    return api_wait(request, on_labelled);
}

const struct api_endpoint api_users_change = {
    .scope = SCOPE_ADMIN,
    .body = API_BODY_REQUIRED,
    .members = &(const struct api_names){.own = {"label"}},
    .begin = begin_user_change,
    .is_of_account = true,
    .refuses_policy = true,
    .state_bytes = sizeof(struct one),
};

static enum op_result on_erasing(struct api_request *request)
{
    const struct one *one = request->state;
    if (one->run.erase.status != OK)
        return api_reply_no_row(request, one->run.erase.status, NO_USER);
    struct json_writer *w = api_reply_open(request, API_REQUEST_ARENA_BYTES_MAX);
    json_member_str(w, "id", one->id);
    json_member_bool(w, "erasing", true);
    return api_reply_close(request, 202);
}

static enum op_result begin_user_erase(struct api_request *request)
{
    struct one *one = one_of_path(request);
    if (!one)
        return OP_DONE;
    const struct audit_by by = serve_by(&request->serve);
    request->on_gone = api_continue;
    vault_user_erase_start(request->api->config.users, &one->run.erase,
                           request->serve.grant.account_id, one->id, &by, &request->serve.op);
    return api_wait(request, on_erasing);
}

const struct api_endpoint api_users_erase = {
    .scope = SCOPE_ADMIN,
    .begin = begin_user_erase,
    .is_of_account = true,
    .refuses_policy = true,
    .state_bytes = sizeof(struct one),
};
