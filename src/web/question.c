/*
 * Confirmations: before a key is revoked, a connection deleted or a flow cancelled, a page shows
 * what depends on it and asks. Its form posts to its own address, so that it works without a
 * script.
 */
#include "base/clock.h"
#include "store/connect_session.h"
#include "web/app.h"
#include "web/connection_users.h"
#include "web/flow_verdict.h"

/* ---- a key ---- */

struct revoking {
    struct api_key key;
    bool is_last_admin;
};

static bool is_expired(const struct api_key *key)
{
    return key->expires_at != 0 && key->expires_at <= clock_shared_us();
}

/* An expired key may still be revoked, but it does not count as an admin; nor does a user's. */
static bool is_valid_admin(const struct api_key *key)
{
    return !key->revoked_at && !is_expired(key) && (key->scopes & SCOPE_ADMIN) &&
           uuid_is_nil(key->user_id);
}

static enum op_result finish_revoke(struct web_request *request)
{
    const struct revoking *it = request->state;
    size_t links;
    int status = store_count_result(&request->query, &links);
    if (status != OK)
        return web_reply_database(request, status);
    struct json_writer *w = view_begin(request);
    view_id(w, "id", it->key.id);
    json_member_str(w, "name", it->key.name);
    json_member_str(w, "prefix", it->key.prefix);
    json_member_bool(w, "revoked", it->key.revoked_at != 0);
    json_member_bool(w, "expired", is_expired(&it->key));
    json_member_bool(w, "own", uuid_eq(it->key.id, request->serve.grant.key_id));
    json_member_bool(w, "last_admin", it->is_last_admin);
    view_time(w, "last_used_at", it->key.last_used_at);
    json_member_i64(w, "links", (int64_t)links);
    return web_reply_view(request, 200, "key_revoke");
}

/* The last valid admin key of the account: without it only the operator can manage the account. */
static enum op_result load_links(struct web_request *request)
{
    struct revoking *it = request->state;
    size_t admins;
    int status = store_count_result(&request->query, &admins);
    if (status != OK)
        return web_reply_database(request, status);
    it->is_last_admin = admins == 1 && is_valid_admin(&it->key);
    store_connect_session_count(request->web->config.pool, &request->query, &request->serve.op,
                                uuid_or(it->key.user_id, request->session.account_id),
                                it->key.hash);
    return web_wait(request, finish_revoke);
}

static enum op_result count_admins(struct web_request *request)
{
    struct revoking *it = request->state;
    int status = store_api_key_find_result(&request->query, &it->key);
    if (status == ERR_NOTFOUND)
        return web_reply_missing(request, "The account has no such key.");
    if (status != OK)
        return web_reply_database(request, status);
    store_api_key_admins(request->web->config.pool, &request->query, &request->serve.op,
                         request->session.account_id);
    return web_wait(request, load_links);
}

enum op_result web_key_revoke_ask(struct web_request *request)
{
    struct revoking *it = web_state_new(request, sizeof(*it));
    struct uuid id;
    if (!it)
        return OP_DONE;
    if (!web_path_uuid(request, 0, &id))
        return OP_DONE;
    store_api_key_get(request->web->config.pool, &request->query, &request->serve.op,
                      request->session.account_id, id);
    return web_wait(request, count_admins);
}

/* ---- a connection ---- */

enum { FLOWS_EXAMINED = 50 }; /* the newest of each status; the page says if there are more */

struct disconnecting {
    struct catalog *catalog;
    struct connection row;
    struct connection_users use;
};

static void on_disconnect_end(struct web_request *request)
{
    const struct disconnecting *it = request->state;
    catalog_unref(it->catalog);
}

static enum op_result finish_disconnect(struct web_request *request)
{
    struct disconnecting *it = request->state;
    int status = connection_users_result(&it->use);
    if (status != OK)
        return web_reply_database(request, status);
    const struct catalog_integration *app =
        catalog_find_integration(it->catalog, it->row.integration_id, NULL);
    struct json_writer *w = view_begin(request);
    json_member_str(w, "id", request->serve.match.params[0]);
    json_member_str(w, "label", it->row.label);
    json_member_str(w, "app", app ? app->name : it->row.integration_id);
    json_member_bool(w, "default", it->row.is_default);
    json_member_bool(w, "shared", it->row.is_shared);
    view_time(w, "last_used_at", it->row.last_used_at);
    connection_users_flows(w, &it->use);
    connection_users_keys(w, &it->use);
    return web_reply_view(request, 200, "connection_delete");
}

static enum op_result load_use(struct web_request *request)
{
    struct disconnecting *it = request->state;
    int status = store_connection_get_result(&request->query, &it->row);
    if (status == ERR_NOTFOUND)
        return app_no_connection(request);
    if (status != OK)
        return web_reply_database(request, status);
    connection_users_begin(request, &it->use, it->catalog, &it->row, FLOWS_EXAMINED);
    return web_wait(request, finish_disconnect);
}

enum op_result web_connection_delete_ask(struct web_request *request)
{
    struct disconnecting *it = web_state_new(request, sizeof(*it));
    int64_t id;
    if (!it)
        return OP_DONE;
    if (!slice_to_i64(request->serve.match.params[0], &id) || id <= 0)
        return app_no_connection(request);
    /* on_end releases it; the users of the connection point into it. */
    it->catalog = catalog_ref(*request->web->config.catalog);
    request->on_end = on_disconnect_end;
    store_connection_get(request->web->config.pool, &request->query, &request->serve.op,
                         request->session.account_id, id);
    return web_wait(request, load_use);
}

/* ---- a flow ---- */

/* Writes the step if it may have changed data in an app, and skips any other step. */
static void write_change(struct web_request *request, const struct flow_step_def *step,
                         const struct json *output, struct json_writer *w)
{
    const struct catalog_action *action =
        step->type == FLOW_TOOL_CALL ? catalog_find_tool(*request->web->config.catalog, step->tool)
                                     : NULL;
    /* A tool that is no longer in the catalog may have written, so it is listed. */
    if (step->type != FLOW_TOOL_CALL || (action && action->level == LEVEL_READ))
        return;
    json_open(w, '{');
    json_member_str(w, "title", action ? action->title : step->tool);
    json_member_str(w, "effect", effect_verb(action));
    json_member_bool(w, "is_final", effect_is_final(action));
    json_member_str(w, "app", action ? action->integration->name : SLICE_NONE);
    /* A step that repeats has one output for each item. */
    json_member_i64(w, "times", step->for_each && json_is(output, JSON_ARRAY) ? output->count : 0);
    json_close(w, '}');
}

enum part { PART_DONE, PART_BEGUN, PART_LEFT, PART_NONE };

/* A step that failed, was cancelled or waits for another attempt may have made some of its calls,
 * or one whose answer was lost. */
static enum part part_of(const struct json *step)
{
    slice status = json_get_str(step, SLICE("status"));
    if (slice_eq_cstr(status, "completed"))
        return PART_DONE;
    /* A skipped step writes nothing, and is in no list. */
    if (slice_eq_cstr(status, "skipped"))
        return PART_NONE;
    return json_get_str(step, SLICE("startedAt")).ptr ? PART_BEGUN : PART_LEFT;
}

/* The view's steps are in the template's order, so both have the same index. */
static void write_part(struct web_request *request, const struct flow_template *tmpl,
                       const struct json *steps, enum part part, struct json_writer *w)
{
    static const char *const names[] = {
        [PART_DONE] = "done", [PART_BEGUN] = "begun", [PART_LEFT] = "left"};
    ASSERT(steps->count == tmpl->step_count);
    json_member_open(w, names[part], '[');
    for (size_t i = 0; i < steps->count; i++) {
        const struct json *step = &steps->as.items[i];
        if (part_of(step) == part)
            write_change(request, &tmpl->steps[i], JSON_GET(step, "output"), w);
    }
    json_close(w, ']');
}

struct cancelling {
    struct flow_load *load; /* until it has arrived */
    slice actor;
    struct flow_names *names;
};

/* The other values were written before the flow was freed. */
static enum op_result finish_cancel(struct web_request *request)
{
    const struct cancelling *it = request->state;
    json_member_str(&request->view, "asker", flow_names_actor(it->names, it->actor));
    return web_reply_view(request, 200, "flow_cancel");
}

static enum op_result write_cancel(struct web_request *request)
{
    struct cancelling *it = request->state;
    struct flow_load *load = it->load;
    if (load->status == ERR_NOTFOUND)
        return web_reply_missing(request, "There is no such flow.");
    /* whole, and so steps, is NULL after every failure; the status distinguishes them. */
    slice text = load->status == OK ? flow_load_render_view(load) : SLICE_NONE;
    const struct json *whole =
        text.ptr ? json_parse(&request->serve.op.arena, text, &json_limits_provider, NULL) : NULL;
    const struct json *steps = JSON_GET(whole, "steps");
    if (!json_is(steps, JSON_ARRAY))
        return web_reply_database(request, load->status != OK ? load->status : ERR_NOMEM);
    enum flow_status status = load->whole.flow.status;
    struct json_writer *w = view_begin(request);
    json_member_str(w, "id", request->serve.match.params[0]);
    json_member_str(w, "title", flow_whole_title(&load->whole, load->tmpl));
    json_member_str(w, "status",
                    view_flow_status(status, flow_is_rejected(&load->whole.flow, steps)));
    json_member_bool(w, "has_ended", status == FLOW_COMPLETED || status == FLOW_CANCELLED);
    view_time(w, "since_at", load->whole.flow.created_at);
    view_time(w, "until_at", flow_approval_ends_at(&load->whole.flow));
    for (enum part part = PART_DONE; part < PART_NONE; part++)
        write_part(request, load->tmpl, steps, part, w);
    it->actor = arena_dup(&request->serve.op.arena, load->whole.actor);
    return flow_names_begin(request, &it->actor, 1, NULL, &it->names, finish_cancel);
}

enum op_result web_flow_cancel_ask(struct web_request *request)
{
    struct uuid id;
    if (!web_path_uuid(request, 0, &id))
        return OP_DONE;
    struct cancelling *it = web_state_new(request, sizeof(*it));
    if (!it)
        return OP_DONE;
    it->load = flow_load_start(request->web->config.flow, request->session.account_id, id,
                               request->serve.policy, &request->serve.op);
    return it->load ? web_wait(request, write_cancel) : web_reply_database(request, ERR_NOMEM);
}
