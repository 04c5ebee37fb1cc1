/*
 * What a person can do with a connection: make it the default, rename it, test it, disconnect it.
 */
#include "web/app.h"

#include "base/clock.h"

enum doing_kind { MAKE_DEFAULT, SET_LABEL, DISCONNECT, TEST };
enum phase {
    PHASE_LOADED,
    PHASE_FOUND,
    PHASE_CHANGED,
    PHASE_AUDITED,
    PHASE_RENEWED,
    PHASE_TESTED,
    PHASE_KNOWN
};

struct doing {
    enum doing_kind kind;
    enum phase phase;
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

static enum op_result not_found(struct web_request *request)
{
    return web_reply_problem(request, 404, SLICE("Not found"),
                             SLICE("There is no such connection; it may have been removed."));
}

static enum op_result begin_doing(struct web_request *request, enum doing_kind kind)
{
    struct doing *it = ARENA_NEW(&request->op.arena, struct doing);
    if (!it)
        return web_reply_database(request, ERR_BUSY);
    it->kind = kind;
    if (!slice_to_i64(request->match.params[0], &it->id) || it->id <= 0)
        return not_found(request);
    if (kind == SET_LABEL && !slice_is_name(web_field(request, "label"), CONNECTION_LABEL_MAX))
        return web_reply_problem(request, 400, SLICE("Not changed"),
                                 SLICE("A label has 1 to 200 characters, on one line."));
    /* Initialized before on_cancel is set, which relies on it. */
    list_init(&it->lookup.link);
    request->state = it;
    request->on_end = on_end;
    request->on_cancel = on_cancel;
    /* The row is read first: the cache and the audit event need the id of its app. */
    store_connection_get(request->web->config.pool, &request->query, &request->op,
                         request->session.account_id, it->id);
    return OP_WAIT;
}

/* ---- changing ---- */

static enum op_result change_connection(struct web_request *request)
{
    struct doing *it = request->state;
    struct pg_pool *pool = request->web->config.pool;
    /* SET_LABEL reads the form's field, which lives as long as the request. */
    struct uuid account_id = request->session.account_id;
    it->phase = PHASE_CHANGED;
    switch (it->kind) {
    case MAKE_DEFAULT:
        store_connection_default_set(pool, &request->query, &request->op, account_id, it->id);
        return OP_WAIT;
    case SET_LABEL:
        store_connection_label_set(pool, &request->query, &request->op, account_id, it->id,
                                   web_field(request, "label"));
        return OP_WAIT;
    case DISCONNECT:
        store_connection_delete(pool, &request->query, &request->op, account_id, it->id);
        return OP_WAIT;
    case TEST:
        break;
    }
    UNREACHABLE("a test changes nothing");
}

static enum op_result on_changed(struct web_request *request)
{
    static const slice kinds[] = {[MAKE_DEFAULT] = SLICE_INIT("connection.default_set"),
                                  [SET_LABEL] = SLICE_INIT("connection.renamed"),
                                  [DISCONNECT] = SLICE_INIT("connection.removed")};
    struct doing *it = request->state;
    ASSERT((size_t)it->kind < ARRAY_LEN(kinds)); /* a test changes nothing */
    int64_t rev;
    int status = it->kind == DISCONNECT ? store_hit_result(&request->query)
                                        : store_connection_set_result(&request->query, &rev);
    /* ERR_INVALID: a concurrent change won, and this one was not made. */
    if (status == ERR_NOTFOUND)
        return not_found(request);
    if (status == ERR_INVALID)
        return web_reply_problem(request, 409, SLICE("Not changed"),
                                 SLICE("Another change was made at the same moment; try again."));
    if (status != OK)
        return web_reply_database(request, status);
    /* This process forgets its cached copy at once; others are notified with the commit. */
    connect_changed(request->web->config.connect, request->session.account_id, it->integration_id);
    it->phase = PHASE_AUDITED;
    app_audit(request, kinds[it->kind], it->id, it->integration_id);
    return OP_WAIT;
}

static enum op_result on_audited(struct web_request *request)
{
    const struct doing *it = request->state;
    web_audited(request);
    if (it->kind == DISCONNECT)
        return web_reply_redirect(request, app_path(request, it->integration_id),
                                  "connection_deleted");
    return web_reply_redirect(request, app_connection_path(request, it->id), "connection_changed");
}

/* ---- testing ---- */

static enum op_result on_found(struct web_request *request);

/* Reads the credential through the cache; again after a renewal, which has replaced it. */
static enum op_result find_credential(struct web_request *request)
{
    struct doing *it = request->state;
    struct connect_service *connect = request->web->config.connect;
    ASSERT(it->kind == TEST && it->integration_id.ptr);
    /* After a renewal: the set that was found first has the old credential. */
    connect_set_unref(it->lookup.set);
    it->phase = PHASE_FOUND;
    return connect_find(connect, &it->lookup, request->session.account_id, it->integration_id,
                        it->id, &request->op)
               ? on_found(request)
               : OP_WAIT;
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
    struct view view;
    struct json_writer *w = view_begin(&view);
    json_member_str(w, "message", text);
    json_member_str(w, "back", app_connection_path(request, it->id));
    return web_reply_view(request, status, "connection_test", &view);
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
    it->phase = PHASE_TESTED;
    /* The identity is stored only if the credential is still this revision. */
    it->rev = item->rev;
    exec_probe_start(request->web->config.http, *request->web->config.catalog, &it->probe, &in,
                     &request->op);
    return OP_WAIT;
}

static enum op_result on_found(struct web_request *request)
{
    struct doing *it = request->state;
    struct connect_service *connect = request->web->config.connect;
    const struct catalog_integration *app =
        catalog_find_integration(*request->web->config.catalog, it->integration_id);
    if (it->lookup.status != OK)
        return web_reply_database(request, it->lookup.status);
    if (it->lookup.set->count == 0 || !app)
        return not_found(request);
    const struct connect_item *item = &it->lookup.set->items[0];
    bool is_old = connect_item_need(connect, item, catalog_auth_of(app, item->auth_kind)->kind,
                                    clock_wall_us()) == CONNECT_EXPIRED;
    /* Renewed once at most, so that a token that is born expired does not loop. */
    if (!is_old || it->has_renewed)
        return test(request, item);
    it->phase = PHASE_RENEWED;
    uint64_t deadline = loop_now_ns(request->op.loop) + RENEW_MS * 1000000ULL;
    return connect_renew(connect, &it->renewal, request->session.account_id, it->integration_id,
                         item, deadline, &request->op)
               ? on_renewed(request)
               : OP_WAIT;
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

static enum op_result on_tested(struct web_request *request)
{
    struct doing *it = request->state;
    const struct exec_probe *probe = &it->probe;
    /* 503 for an app that is unreachable, 409 where it rejected the credential. */
    if (probe->verdict != EXEC_PROBE_WORKS)
        return reply_test(request, probe->verdict == EXEC_PROBE_OUTAGE ? 503 : 409, probe->message);
    it->phase = PHASE_KNOWN;
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
    return OP_WAIT;
}

/* The identity could not be stored: it is logged only, since the next test finds it again. */
static enum op_result on_known(struct web_request *request)
{
    if (store_done_result(&request->query) != OK)
        op_log(&request->op, LOG_WARN, "identity of a connection not stored",
               LOG_STR("cause", request->query.message));
    return reply_works(request);
}

/* ---- which of these the request is ---- */

static enum op_result on_loaded(struct web_request *request)
{
    struct doing *it = request->state;
    struct connection row;
    int status = store_connection_get_result(&request->query, &row);
    if (status == ERR_NOTFOUND)
        return not_found(request);
    if (status != OK)
        return web_reply_database(request, status);
    /* The query's result is overwritten by the next query of this request. */
    it->integration_id = arena_dup(&request->op.arena, row.integration_id);
    if (!it->integration_id.ptr)
        return web_reply_database(request, ERR_NOMEM);
    return it->kind == TEST ? find_credential(request) : change_connection(request);
}

static enum op_result finish_doing(struct web_request *request)
{
    const struct doing *it = request->state;
    switch (it->phase) {
    case PHASE_LOADED:
        return on_loaded(request);
    case PHASE_FOUND:
        return on_found(request);
    case PHASE_CHANGED:
        return on_changed(request);
    case PHASE_AUDITED:
        return on_audited(request);
    case PHASE_RENEWED:
        return on_renewed(request);
    case PHASE_TESTED:
        return on_tested(request);
    case PHASE_KNOWN:
        return on_known(request);
    }
    UNREACHABLE("finish_doing handles each phase");
}

static enum op_result begin_default(struct web_request *request)
{
    return begin_doing(request, MAKE_DEFAULT);
}

static enum op_result begin_label(struct web_request *request)
{
    return begin_doing(request, SET_LABEL);
}

static enum op_result begin_disconnection(struct web_request *request)
{
    return begin_doing(request, DISCONNECT);
}

static enum op_result begin_test(struct web_request *request)
{
    return begin_doing(request, TEST);
}

const struct web_page web_connection_default = {.route = "/connections/{id}/default",
                                                .access = WEB_SESSION,
                                                .scope = SCOPE_ADMIN,
                                                .begin = begin_default,
                                                .finish = finish_doing};
const struct web_page web_connection_label = {.route = "/connections/{id}/label",
                                              .access = WEB_SESSION,
                                              .scope = SCOPE_ADMIN,
                                              .begin = begin_label,
                                              .finish = finish_doing};
const struct web_page web_connection_delete = {.route = "/connections/{id}/delete",
                                               .access = WEB_SESSION,
                                               .scope = SCOPE_ADMIN,
                                               .begin = begin_disconnection,
                                               .finish = finish_doing};
const struct web_page web_connection_test = {.route = "/connections/{id}/test",
                                             .access = WEB_SESSION,
                                             .scope = SCOPE_EXECUTE,
                                             .begin = begin_test,
                                             .finish = finish_doing};
