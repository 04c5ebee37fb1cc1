/*
 * Changes of a connection by a person: make it the default, rename it, test it, disconnect it.
 */
#include "web/app.h"

#include "base/clock.h"
#include "connect/command.h"

struct changing {
    struct connect_command command;
    struct connect_command_request in;
};

struct testing {
    int64_t id, rev; /* rev: the revision of the tested credential */
    struct changing known;
    slice integration_id;
    struct connect_lookup lookup;
    struct connect_renewal renewal;
    struct call_probe probe;
    bool has_renewed;
};

static bool read_id(struct web_request *request, int64_t *id)
{
    return slice_to_i64(request->serve.match.params[0], id) && *id > 0;
}

/* ---- changes ---- */

static enum op_result on_changed(struct web_request *request)
{
    const struct changing *it = request->state;
    if (it->command.status == ERR_NOTFOUND)
        return app_no_connection(request);
    /* A concurrent change was made first, so this change was not made. */
    if (it->command.status == ERR_INVALID)
        return web_reply_problem(request, 409, "Not changed",
                                 "Another change was made at the same moment. Try again.");
    if (it->command.status != OK)
        return web_reply_database(request, it->command.status);
    bool is_gone = it->in.kind == CONNECT_REMOVE;
    return web_reply_redirect(request,
                              is_gone ? app_path(request, it->command.integration_id)
                                      : app_connection_path(request, it->in.connection.id),
                              is_gone ? "connection_deleted" : "connection_changed");
}

static enum op_result change_connection(struct web_request *request, enum connect_command_kind kind)
{
    slice label = web_field(request, "label");
    int64_t id;
    if (!read_id(request, &id))
        return app_no_connection(request);
    if (kind == CONNECT_RENAME && !slice_is_name(label, CONNECTION_LABEL_MAX)) {
        web_fault_add(request, SLICE("label"),
                      SLICE("A label must have 1 to 200 characters, on one line."));
        return web_again_faulty(request);
    }
    struct changing *it = web_state_new(request, sizeof(*it));
    if (!it)
        return OP_DONE;
    it->in = (struct connect_command_request){
        .kind = kind,
        .label = label,
        .by = serve_by(&request->serve),
        .connection = {.account_id = request->session.account_id, .id = id},
    };
    connect_command_start(request->web->config.connect, &it->command, &it->in, &request->serve.op);
    return web_wait(request, on_changed);
}

enum op_result web_connection_default(struct web_request *request)
{
    return change_connection(request, CONNECT_MAKE_DEFAULT);
}
enum op_result web_connection_label(struct web_request *request)
{
    return change_connection(request, CONNECT_RENAME);
}
enum op_result web_connection_delete(struct web_request *request)
{
    return change_connection(request, CONNECT_REMOVE);
}

/* ---- test ---- */

enum { RENEW_MS = 15 * 1000 };

static void on_cancel(struct web_request *request)
{
    struct testing *it = request->state;
    /* Cancelling has no effect on operations that are not under way. */
    connect_renew_cancel(&it->renewal);
    op_cancel(&it->probe.op);
}

static void on_end(struct web_request *request)
{
    struct testing *it = request->state;
    connect_set_unref(it->lookup.set);
}

static web_step on_found;

/* Reads the credential through the cache, and again after a renewal, which has replaced it. */
static enum op_result find_credential(struct web_request *request)
{
    struct testing *it = request->state;
    struct connect_service *connect = request->web->config.connect;
    ASSERT(it->integration_id.ptr);
    /* After a renewal the first set has the old credential, so it is released. */
    connect_set_unref(it->lookup.set);
    return connect_find(connect, &it->lookup, request->session.account_id, it->integration_id,
                        it->id, &request->serve.op)
               ? on_found(request)
               : web_wait(request, on_found);
}

/* The credential is tested even if its renewal failed: only the app's answer decides. */
static enum op_result on_renewed(struct web_request *request)
{
    struct testing *it = request->state;
    ASSERT(!it->has_renewed);
    it->has_renewed = true;
    return find_credential(request);
}

static enum op_result reply_test(struct web_request *request, unsigned status, slice text)
{
    const struct testing *it = request->state;
    struct json_writer *w = view_begin(request);
    json_member_str(w, "message", text);
    json_member_str(w, "back", app_connection_path(request, it->id));
    return web_reply_view(request, status, "connection_test");
}

static slice keep_identity_text(struct web_request *request, slice text)
{
    return text.ptr ? arena_dup(&request->serve.op.arena, text) : SLICE_NONE;
}

static enum op_result reply_works(struct web_request *request)
{
    const struct testing *it = request->state;
    return web_reply_redirect(request, app_connection_path(request, it->id), "connection_works");
}

/* The identity could not be stored. That is only logged, since the next test finds it again. */
static enum op_result on_known(struct web_request *request)
{
    const struct testing *it = request->state;
    if (it->known.command.status != OK)
        op_log(&request->serve.op, LOG_WARN, "the identity of a connection was not stored",
               LOG_INT("status", it->known.command.status));
    return reply_works(request);
}

static enum op_result on_tested(struct web_request *request)
{
    struct testing *it = request->state;
    const struct call_probe *probe = &it->probe;
    /* The status is 503 if the app was unreachable, and 409 if it rejected the credential. */
    if (probe->verdict != CALL_PROBE_WORKS)
        return reply_test(request, probe->verdict == CALL_PROBE_OUTAGE ? 503 : 409, probe->message);
    if (!connection_identity_is_known(&probe->identity))
        return reply_works(request);
    it->known.in = (struct connect_command_request){
        .kind = CONNECT_IDENTIFY,
        .by = serve_by(&request->serve),
        .connection = {.account_id = request->session.account_id, .id = it->id},
        .rev = it->rev,
        /* The probe's arena ends before the query is done, so the texts are copied. */
        .identity = {.email = keep_identity_text(request, probe->identity.email),
                     .subject = keep_identity_text(request, probe->identity.subject),
                     .label = keep_identity_text(request, probe->identity.label)},
    };
    connect_command_start(request->web->config.connect, &it->known.command, &it->known.in,
                          &request->serve.op);
    return web_wait(request, on_known);
}

static enum op_result test(struct web_request *request, const struct connect_item *item)
{
    struct testing *it = request->state;
    const struct call_probe_request in = {.tenant = serve_payer(&request->serve),
                                          .integration_id = it->integration_id,
                                          .credential = secret_reveal(item->credential),
                                          .params = item->params};
    /* Without a credential the row is marked for reconnecting, and the item has the reason. */
    if (!item->credential)
        return reply_test(request, 409, item->error.len > 0 ? item->error : SLICE("Reconnect it."));
    /* The identity is stored only if the row still has this revision of the credential. */
    it->rev = item->rev;
    call_probe_start(request->web->config.http, *request->web->config.catalog, &it->probe, &in,
                     &request->serve.op);
    return web_wait(request, on_tested);
}

static enum op_result on_found(struct web_request *request)
{
    struct testing *it = request->state;
    struct connect_service *connect = request->web->config.connect;
    const struct catalog_integration *app =
        catalog_find_integration(*request->web->config.catalog, it->integration_id, NULL);
    if (it->lookup.status != OK)
        return web_reply_database(request, it->lookup.status);
    if (it->lookup.set->count == 0 || !app)
        return app_no_connection(request);
    const struct connect_item *item = &it->lookup.set->items[0];
    bool is_old = connect_item_need(connect, item, catalog_auth_of(app, item->auth_kind)->kind,
                                    clock_shared_us()) == CONNECT_EXPIRED;
    /* The token is renewed at most once, so that a token that has already expired when it is issued
     * does not cause a loop. */
    if (!is_old || it->has_renewed)
        return test(request, item);
    uint64_t deadline = loop_now_ns(request->serve.op.loop) + RENEW_MS * 1000000ULL;
    return connect_renew(connect, &it->renewal, request->session.account_id, it->integration_id,
                         item, deadline, &request->serve.op)
               ? on_renewed(request)
               : web_wait(request, on_renewed);
}

/* ---- the row first: it contains its app's id ---- */

static enum op_result on_loaded(struct web_request *request)
{
    struct testing *it = request->state;
    struct connection row;
    int status = store_connection_get_result(&request->query, &row);
    if (status == ERR_NOTFOUND)
        return app_no_connection(request);
    if (status != OK)
        return web_reply_database(request, status);
    /* The query's result is overwritten by the next query of this request. */
    it->integration_id = arena_dup(&request->serve.op.arena, row.integration_id);
    return it->integration_id.ptr ? find_credential(request)
                                  : web_reply_database(request, ERR_NOMEM);
}

enum op_result web_connection_test(struct web_request *request)
{
    struct testing *it = web_state_new(request, sizeof(*it));
    if (!it)
        return OP_DONE;
    if (!read_id(request, &it->id))
        return app_no_connection(request);
    request->on_end = on_end;
    request->on_cancel = on_cancel;
    store_connection_get(request->web->config.pool, &request->query, &request->serve.op,
                         request->session.account_id, it->id);
    return web_wait(request, on_loaded);
}
