/*
 * GET /api/connections and GET /api/connections/{id} (read scope), PATCH and DELETE
 * /api/connections/{id} (admin scope): the account's connections, without their credentials; with
 * `users=all` (admin scope) also those of its users. Apps are connected in the dashboard,
 * through POST /api/connect/sessions (connect_session.c) and with POST /api/connections
 * (connections_add.c).
 */
#include "api/listing.h"
#include "connect/command.h"
#include "serve/stored.h"

/* ---- the list ---- */

enum { PAGE_MAX = 100 }; /* the page size if the client does not set one */
enum { INTEGRATION, USERS, CURSOR };

static const struct serve_filter filters[SERVE_FILTERS_MAX] = {
    [INTEGRATION] = {.name = "integration_id", SERVE_A_WORD},
    [USERS] = LISTING_USERS,
    [CURSOR] = {.name = "cursor",
                .wanted = "the next_cursor of another page of the same list",
                .is_quoted = true}};

/* A user sees the connections that the account shares before its own ones. The cursor of such a one
 * begins with this. */
#define OF_SHARED SLICE("shared/")

struct connections {
    struct listing_users users; /* must be the first member */
    struct connection_page page, shared_page;
    struct pg_query shared_query;
    bool has_shared; /* shared connections are part of this page */
    struct connection *rows;
    size_t count;
    bool is_more, is_partial;
};

static struct connection given_connection(const struct api_request *request,
                                          const struct connection *row)
{
    return serve_connection(&request->serve, *request->api->config.catalog, row);
}

static void put_listed_connection(struct json_writer *w, const struct api_request *request,
                                  const struct connection *row)
{
    bool is_of_account = uuid_eq(row->account_id, request->serve.grant.parent_id);
    const struct connection known = is_of_account ? connect_as_shared(row)
                                                  : given_connection(request, row);
    if (request->outer)
        connect_write_brief(w, &known);
    else
        connect_write(w, &known);
}

/* Returns the name of the page's last row. */
static slice cursor_of(const struct api_request *request, const struct connection *last)
{
    struct arena *arena = (struct arena *)&request->serve.op.arena;
    slice name = connect_cursor(last, arena);
    return uuid_eq(last->account_id, request->serve.grant.parent_id)
               ? arena_printf(arena, "%.*s%.*s", SLICE_ARG(OF_SHARED), SLICE_ARG(name))
               : name;
}

static enum op_result reply_connection_list(struct api_request *request)
{
    const struct connections *it = request->state;
    struct json_writer *w = api_reply_open(request, API_REQUEST_ARENA_BYTES_MAX);
    json_member_open(w, "connections", '[');
    for (size_t i = 0; i < it->count; i++) {
        slice user;
        if (it->page.is_all && !listing_find_user(request, it->rows[i].account_id, &user))
            continue;
        json_open(w, '{');
        put_listed_connection(w, request, &it->rows[i]);
        if (it->page.is_all)
            json_member_str(w, "user", user);
        json_close(w, '}');
    }
    json_close(w, ']');
    json_member_str(w, "next_cursor",
                    it->is_more ? cursor_of(request, &it->rows[it->count - 1]) : SLICE_NONE);
    if (it->is_partial)
        json_member_bool(w, "partial", true);
    return api_reply_close(request, 200);
}

/* Puts the shared connections before the user's own ones. Returns a status. */
static int add_shared(struct api_request *request, struct connections *it)
{
    struct connection *shared, *all;
    size_t count;
    int status = store_connection_list_result(&it->shared_query, &shared, &count);
    if (status != OK || count == 0)
        return status;
    all = ARENA_ARRAY(&request->serve.op.arena, struct connection, count + it->count);
    if (!all)
        return ERR_NOMEM;
    memcpy(all, shared, count * sizeof(*all));
    if (it->count > 0)
        memcpy(all + count, it->rows, it->count * sizeof(*all));
    it->rows = all;
    it->count += count;
    return OK;
}

static enum op_result finish_connection_list(struct api_request *request)
{
    struct connections *it = request->state;
    struct uuid owners[LISTING_MAX];
    ASSERT(it);
    int status = store_connection_list_result(&request->query, &it->rows, &it->count);
    if (status == OK && it->has_shared)
        status = add_shared(request, it);
    if (status != OK)
        return api_reply_database(request, status);
    it->is_partial = request->query.is_partial;
    /* The two queries, and the nodes of a sharded database, return more rows together. */
    it->is_more = it->count >= it->page.count_max;
    if (it->is_more)
        it->count = it->page.count_max - 1;
    if (!it->page.is_all)
        return reply_connection_list(request);
    for (size_t i = 0; i < it->count; i++)
        owners[i] = it->rows[i].account_id;
    return listing_name_users(request, owners, it->count, reply_connection_list);
}

/* Reads the cursor. It is in the shared part, at whose beginning a list of a user begins, or in the
 * user's own part. */
static bool read_cursor(const struct api_request *request, struct connections *it, slice cursor)
{
    bool is_of_user = !uuid_is_nil(request->serve.grant.parent_id);
    bool is_shared = is_of_user && slice_starts_with(cursor, OF_SHARED);
    it->has_shared = is_shared || (is_of_user && !cursor.ptr);
    it->shared_page = it->page;
    it->shared_page.is_shared = true;
    return is_shared ? connect_cursor_read(slice_from(cursor, OF_SHARED.len), &it->shared_page)
                     : connect_cursor_read(cursor, &it->page);
}

static enum op_result begin_connection_list(struct api_request *request)
{
    struct connections *it = request->state;
    struct pg_pool *pool = request->api->config.pool;
    const struct vault_grant *grant = &request->serve.grant;
    struct serve_list list = {0};
    if (!listing_read(request, &list, filters, PAGE_MAX))
        return OP_DONE;
    it->page.integration_id = list.values[INTEGRATION];
    it->page.is_all = listing_is_all(&list, filters);
    it->page.count_max =
        list.limit + 1; /* one row more than requested shows whether there is another page */
    if (!read_cursor(request, it, list.values[CURSOR]))
        return listing_refuse(request, &filters[CURSOR], list.values[CURSOR]);
    store_connection_page(pool, &request->query, &request->serve.op, grant->account_id, &it->page);
    if (it->has_shared)
        store_connection_page(pool, &it->shared_query, &request->serve.op, grant->parent_id,
                              &it->shared_page);
    return api_wait(request, finish_connection_list);
}

const struct api_endpoint api_connections_list = {
    .scope = SCOPE_READ,
    .query = &(const struct api_names){.own = {"limit", "cursor", "integration_id", "users"}},
    .begin = begin_connection_list,
    .state_bytes = sizeof(struct connections),
};

/* ---- one connection ---- */

#define NO_CONNECTION "Connection not found"

/* Reads the {id} of the path. Returns false if it is invalid; 404 was then answered. */
static bool read_id(struct api_request *request, int64_t *id)
{
    if (slice_to_i64(request->serve.match.params[0], id) && *id > 0)
        return true;
    (void)api_reply_error(request, 404, NO_CONNECTION);
    return false;
}

static enum op_result load_connection(struct api_request *request, int64_t id, api_step *then)
{
    store_connection_get(request->api->config.pool, &request->query, &request->serve.op,
                         request->serve.grant.account_id, id);
    return api_wait(request, then);
}

static enum op_result finish_shared_get(struct api_request *request)
{
    struct connection row;
    int status = store_connection_get_result(&request->query, &row);
    if (status != OK || !row.is_shared)
        return api_reply_no_row(request, status != OK ? status : ERR_NOTFOUND, NO_CONNECTION);
    const struct connection known = connect_as_shared(&row);
    connect_write(api_reply_open(request, API_REQUEST_ARENA_BYTES_MAX), &known);
    return api_reply_close(request, 200);
}

static enum op_result finish_connection_get(struct api_request *request)
{
    struct connection row;
    struct uuid parent_id = request->serve.grant.parent_id;
    int64_t id = request->query.params[1].as.i64;
    int status = store_connection_get_result(&request->query, &row);
    if (status == ERR_NOTFOUND && !uuid_is_nil(parent_id)) {
        store_connection_get(request->api->config.pool, &request->query, &request->serve.op,
                             parent_id, id);
        return api_wait(request, finish_shared_get);
    }
    if (status != OK)
        return api_reply_no_row(request, status, NO_CONNECTION);
    const struct connection known = given_connection(request, &row);
    connect_write(api_reply_open(request, API_REQUEST_ARENA_BYTES_MAX), &known);
    return api_reply_close(request, 200);
}

static enum op_result begin_connection_get(struct api_request *request)
{
    int64_t id;
    return read_id(request, &id) ? load_connection(request, id, finish_connection_get) : OP_DONE;
}

const struct api_endpoint api_connections_get = {
    .scope = SCOPE_READ,
    .begin = begin_connection_get,
};

/* ---- changes ---- */

enum { CHANGES_MAX = 3 };

/* Each changed member is a command of its own; the default comes last. The current row is returned
 * after a change, but not after a deletion. */
struct changing {
    struct connect_command commands[CHANGES_MAX]; /* an op that has just ended cannot be started
                                                   * again */
    enum connect_command_kind kinds[CHANGES_MAX];
    size_t count, begun;
    struct connect_command_request in;
};

static api_step on_changed;

static enum op_result begin_next(struct api_request *request)
{
    struct changing *it = request->state;
    ASSERT(it->begun < it->count);
    request->on_gone = api_continue;
    it->in.by = serve_by(&request->serve);
    it->in.connection.account_id = request->serve.grant.account_id;
    it->in.kind = it->kinds[it->begun];
    connect_command_start(request->api->config.connect, &it->commands[it->begun++], &it->in,
                          &request->serve.op);
    return api_wait(request, on_changed);
}

static enum op_result on_changed(struct api_request *request)
{
    const struct changing *it = request->state;
    int status = it->commands[it->begun - 1].status;
    if (status == ERR_INVALID)
        return api_reply_error(
            request, 409, "Another connection was made the default at the same moment. Try again.");
    if (status != OK)
        return api_reply_no_row(request, status, NO_CONNECTION);
    if (it->in.kind == CONNECT_REMOVE)
        return api_reply(request, 200, SLICE("{\"success\":true}"));
    return it->begun < it->count
               ? begin_next(request)
               : load_connection(request, it->in.connection.id, finish_connection_get);
}

static enum op_result begin_change(struct api_request *request)
{
    struct changing *it = request->state;
    const struct json *label = JSON_GET(request->body, "label");
    const struct json *is_default = JSON_GET(request->body, "default");
    const struct json *is_shared = JSON_GET(request->body, "shared");
    if (!read_id(request, &it->in.connection.id))
        return OP_DONE;
    it->in.label = json_str(label);
    it->in.is_shared = json_get_bool(request->body, SLICE("shared"), false);
    if (label && !slice_is_name(it->in.label, CONNECTION_LABEL_MAX))
        return api_reply_error(request, 400,
                               "label must be a string of 1 to %d characters on one line",
                               CONNECTION_LABEL_MAX);
    if (is_default && !(is_default->type == JSON_BOOL && is_default->as.boolean))
        return api_reply_error(request, 400,
                               "default can only be set to true. To change the default, set it to "
                               "true on another connection.");
    if (is_shared && is_shared->type != JSON_BOOL)
        return api_reply_error(request, 400, "shared must be true or false");
    if (!label && !is_default && !is_shared)
        return api_reply_error(request, 400,
                               "Nothing to change. Send at least one of label, default, shared.");
    if (is_shared && api_user_check_account(request, "shared") != OP_NEXT)
        return OP_DONE;
    if (label)
        it->kinds[it->count++] = CONNECT_RENAME;
    if (is_shared)
        it->kinds[it->count++] = CONNECT_SHARE;
    if (is_default)
        it->kinds[it->count++] = CONNECT_MAKE_DEFAULT;
    return begin_next(request);
}

const struct api_endpoint api_connections_change = {
    .scope = SCOPE_ADMIN,
    .body = API_BODY_REQUIRED,
    .members = &(const struct api_names){.own = {"label", "default", "shared"}},
    .begin = begin_change,
    .state_bytes = sizeof(struct changing),
};

static enum op_result begin_connection_delete(struct api_request *request)
{
    struct changing *it = request->state;
    if (!read_id(request, &it->in.connection.id))
        return OP_DONE;
    it->kinds[it->count++] = CONNECT_REMOVE;
    return begin_next(request);
}

const struct api_endpoint api_connections_delete = {
    .scope = SCOPE_ADMIN,
    .begin = begin_connection_delete,
    .state_bytes = sizeof(struct changing),
};
