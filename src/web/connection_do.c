/*
 * What a person can do with a connection: make it the default, rename it, test it, disconnect it.
 */
#include "web/app.h"

#include "base/clock.h"

enum doing_kind { MAKE_DEFAULT, SET_LABEL, DISCONNECT, TEST };

struct doing {
    enum doing_kind kind;
    int64_t id, rev; /* rev: of the credential that is tested */
    slice integration_id;
    struct connect_lookup lookup;
    struct connect_renewal renewal;
    struct exec_probe probe;
    bool has_renewed;
};

enum { RENEW_MS = 15 * 1000 };

static void on_cancel(struct web_request *request)
{
    struct doing *it = request->state;
    connect_find_cancel(&it->lookup);
    /* Each call is a no-op for what is not under way. */
    connect_renew_cancel(&it->renewal);
    op_cancel(&it->probe.op);
}

static void on_end(struct web_request *request)
{
    struct doing *it = request->state;
    connect_set_unref(it->lookup.set);
}

static web_step on_loaded;

static enum op_result begin_doing(struct web_request *request, enum doing_kind kind)
{
    struct doing *it = ARENA_NEW(&request->op.arena, struct doing);
    if (!it)
        return web_reply_database(request, ERR_NOMEM);
    it->kind = kind;
    if (!slice_to_i64(request->match.params[0], &it->id) || it->id <= 0)
        return app_no_connection(request);
    if (kind == SET_LABEL && !slice_is_name(web_field(request, "label"), CONNECTION_LABEL_MAX))
        return web_reply_problem(request, 400, "Not changed",
                                 "A label has 1 to 200 characters, on one line.");
    /* Initialized before on_cancel is set, which relies on it. */
    list_init(&it->lookup.link);
    request->state = it;
    request->on_end = on_end;
    request->on_cancel = on_cancel;
    /* The row is read first: the cache and the audit event need the id of its app. */
    store_connection_get(request->web->config.pool, &request->query, &request->op,
                         request->session.account_id, it->id);
    return web_wait(request, on_loaded);
}

/* ---- changing ---- */

static enum op_result on_changed(struct web_request *request)
{
    static const enum audit_kind kinds[] = {[MAKE_DEFAULT] = AUDIT_CONNECTION_DEFAULT_SET,
                                            [SET_LABEL] = AUDIT_CONNECTION_RENAMED,
                                            [DISCONNECT] = AUDIT_CONNECTION_REMOVED};
    const struct doing *it = request->state;
    ASSERT((size_t)it->kind < ARRAY_LEN(kinds)); /* a test changes nothing */
    bool is_gone = it->kind == DISCONNECT;
    int64_t rev;
    int status = is_gone ? store_hit_result(&request->query)
                         : store_rev_result(&request->query, &rev);
    /* ERR_INVALID: a concurrent change won, and this one was not made. */
    if (status == ERR_NOTFOUND)
        return app_no_connection(request);
    if (status == ERR_INVALID)
        return web_reply_problem(request, 409, "Not changed",
                                 "Another change was made at the same moment; try again.");
    if (status != OK)
        return web_reply_database(request, status);
    /* This process forgets its cached copy at once; others are notified with the commit. */
    connect_changed(request->web->config.connect, request->session.account_id, it->integration_id);
    return web_audit_then_redirect(
        request, kinds[it->kind],
        arena_printf(&request->op.arena, "\"connection_id\":\"%lld\",\"integration_id\":\"%.*s\"",
                     (long long)it->id, SLICE_ARG(it->integration_id)),
        is_gone ? app_path(request, it->integration_id) : app_connection_path(request, it->id),
        is_gone ? "connection_deleted" : "connection_changed");
}

static enum op_result change_connection(struct web_request *request)
{
    const struct doing *it = request->state;
    struct pg_pool *pool = request->web->config.pool;
    struct uuid account_id = request->session.account_id;
    if (it->kind == MAKE_DEFAULT)
        store_connection_default_set(pool, &request->query, &request->op, account_id, it->id);
    else if (it->kind == DISCONNECT)
        store_connection_delete(pool, &request->query, &request->op, account_id, it->id);
    else
        store_connection_label_set(pool, &request->query, &request->op, account_id, it->id,
                                   web_field(request, "label"));
    return web_wait(request, on_changed);
}

/* ---- testing ---- */

static web_step on_found;

/* Reads the credential through the cache; again after a renewal, which has replaced it. */
static enum op_result find_credential(struct web_request *request)
{
    struct doing *it = request->state;
    struct connect_service *connect = request->web->config.connect;
    ASSERT(it->kind == TEST && it->integration_id.ptr);
    /* After a renewal: the set that was found first has the old credential. */
    connect_set_unref(it->lookup.set);
    return connect_find(connect, &it->lookup, request->session.account_id, it->integration_id,
                        it->id, &request->op)
               ? on_found(request)
               : web_wait(request, on_found);
}

/* The credential is tested also when its renewal failed: only the app's answer decides. */
static enum op_result on_renewed(struct web_request *request)
{
    struct doing *it = request->state;
    ASSERT(!it->has_renewed);
    it->has_renewed = true;
    return find_credential(request);
}

static enum op_result reply_test(struct web_request *request, unsigned status, slice text)
{
    const struct doing *it = request->state;
    struct json_writer *w = view_begin(request);
    json_member_str(w, "message", text);
    json_member_str(w, "back", app_connection_path(request, it->id));
    return web_reply_view(request, status, "connection_test");
}

static slice keep_identity_text(struct web_request *request, slice text)
{
    return text.ptr ? arena_dup(&request->op.arena, text) : SLICE_NONE;
}

static enum op_result reply_works(struct web_request *request)
{
    const struct doing *it = request->state;
    return web_reply_redirect(request, app_connection_path(request, it->id), "connection_works");
}

/* The identity could not be stored: it is logged only, since the next test finds it again. */
static enum op_result on_known(struct web_request *request)
{
    if (store_done_result(&request->query) != OK)
        op_log(&request->op, LOG_WARN, "identity of a connection not stored",
               LOG_STR("cause", request->query.message));
    return reply_works(request);
}

static enum op_result on_tested(struct web_request *request)
{
    struct doing *it = request->state;
    const struct exec_probe *probe = &it->probe;
    /* 503 for an app that is unreachable, 409 where it rejected the credential. */
    if (probe->verdict != EXEC_PROBE_WORKS)
        return reply_test(request, probe->verdict == EXEC_PROBE_OUTAGE ? 503 : 409, probe->message);
    if (!connection_identity_is_known(&probe->identity))
        return reply_works(request);
    const struct connection_identity identity = {
        /* The probe's arena ends before the query is done, so the texts are copied. */
        .email = keep_identity_text(request, probe->identity.email),
        .subject = keep_identity_text(request, probe->identity.subject),
        .label = keep_identity_text(request, probe->identity.label),
    };
    store_connection_identity_set(request->web->config.pool, &request->query, &request->op,
                                  request->session.account_id, it->id, it->rev, &identity);
    return web_wait(request, on_known);
}

static enum op_result test(struct web_request *request, const struct connect_item *item)
{
    struct doing *it = request->state;
    const struct exec_probe_request in = {.account_id = request->session.account_id,
                                          .integration_id = it->integration_id,
                                          .credential = secret_reveal(item->credential),
                                          .params = item->params};
    /* Without a credential the row is marked as to be reconnected, and the item says why. */
    if (!item->credential)
        return reply_test(request, 409, item->error.len > 0 ? item->error : SLICE("Reconnect it."));
    /* The identity is stored only if the credential is still this revision. */
    it->rev = item->rev;
    exec_probe_start(request->web->config.http, *request->web->config.catalog, &it->probe, &in,
                     &request->op);
    return web_wait(request, on_tested);
}

static enum op_result on_found(struct web_request *request)
{
    struct doing *it = request->state;
    struct connect_service *connect = request->web->config.connect;
    const struct catalog_integration *app =
        catalog_find_integration(*request->web->config.catalog, it->integration_id, NULL);
    if (it->lookup.status != OK)
        return web_reply_database(request, it->lookup.status);
    if (it->lookup.set->count == 0 || !app)
        return app_no_connection(request);
    const struct connect_item *item = &it->lookup.set->items[0];
    bool is_old = connect_item_need(connect, item, catalog_auth_of(app, item->auth_kind)->kind,
                                    clock_wall_us()) == CONNECT_EXPIRED;
    /* Renewed once at most, so that a token that is born expired does not loop. */
    if (!is_old || it->has_renewed)
        return test(request, item);
    uint64_t deadline = loop_now_ns(request->op.loop) + RENEW_MS * 1000000ULL;
    return connect_renew(connect, &it->renewal, request->session.account_id, it->integration_id,
                         item, deadline, &request->op)
               ? on_renewed(request)
               : web_wait(request, on_renewed);
}

/* ---- which of these the request is ---- */

static enum op_result on_loaded(struct web_request *request)
{
    struct doing *it = request->state;
    struct connection row;
    int status = store_connection_get_result(&request->query, &row);
    if (status == ERR_NOTFOUND)
        return app_no_connection(request);
    if (status != OK)
        return web_reply_database(request, status);
    /* The query's result is overwritten by the next query of this request. */
    it->integration_id = arena_dup(&request->op.arena, row.integration_id);
    if (!it->integration_id.ptr)
        return web_reply_database(request, ERR_NOMEM);
    return it->kind == TEST ? find_credential(request) : change_connection(request);
}

enum op_result web_connection_default(struct web_request *request)
{
    return begin_doing(request, MAKE_DEFAULT);
}
enum op_result web_connection_label(struct web_request *request)
{
    return begin_doing(request, SET_LABEL);
}
enum op_result web_connection_delete(struct web_request *request)
{
    return begin_doing(request, DISCONNECT);
}
enum op_result web_connection_test(struct web_request *request)
{
    return begin_doing(request, TEST);
}
