/*
 * From a credential to a row; see keep.h.
 *
 * A link is used before the row is written: of two requests with the same link one makes a
 * connection, the other gets CONNECT_KEEP_LINK_USED. If that connection cannot be stored, the
 * class's stop step makes the link usable again. The audit event comes last, because the row must
 * not depend on it.
 *
 * A connection that exists is changed by compare-and-set on rev. If another writer was first, the
 * row is loaded again and the credential stored over it: the newest grant wins.
 */
#include "connect/keep.h"

#include "connect/internal.h"

enum {
    KEEP_ARENA_BYTES_MAX = 1024 * 1024,
    STORE_RETRY_MS = 200,
    STORE_TRIES_MAX = 50, /* 10 s: a person waits for the answer */
    DETAILS_BYTES_MAX = 16 * 1024,
};

enum step {
    STEP_LOAD,
    STEP_LOADED,
    STEP_SEAL,
    STEP_LINKED,
    STEP_STORE,
    STEP_STORED,
    STEP_RELOADED,
    STEP_AUDIT,
    STEP_AUDITED,
    STEP_UNLINK,
    STEP_UNLINKED,
};

OP_OF(keep_of, connect_keep)

static enum op_result stop_keep(struct connect_keep *keep, enum connect_kept result)
{
    ASSERT(result != CONNECT_KEPT);
    keep->result = result;
    return OP_STOP;
}

/* No connection was made: the person may use the link again. */
static enum op_result step_unlink(struct op *op)
{
    struct connect_keep *keep = keep_of(op);
    if (!keep->has_link)
        return OP_FAIL;
    store_connect_session_unuse(keep->service->config.pool, &keep->query, op, keep->row.account_id,
                                keep->in.link->token_hash, keep->row.id);
    return OP_WAIT;
}

static enum op_result step_unlinked(struct op *op)
{
    if (store_done_result(&keep_of(op)->query) != OK)
        op_log(op, LOG_WARN, "a connect link stays used although no connection was made",
               LOG_STR("cause", keep_of(op)->query.message));
    return OP_FAIL;
}

/* ---- the row ---- */

static enum op_result step_load(struct op *op)
{
    struct connect_keep *keep = keep_of(op);
    const struct connect_keep_request *in = &keep->in;
    keep->row = (struct connection){
        .account_id = in->account_id,
        .id = in->connection_id ? in->connection_id
              : in->new_id      ? in->new_id
                                : short_id_new(),
        .integration_id = in->integration_id,
        .label = in->label,
        .is_default = true, /* tried first; step_stored gives way to another default */
        .auth_kind = in->auth_kind,
        .key_id = vault_ring_key_id(keep->service->config.ring),
        .scopes = in->scopes,
        .params = in->params,
        .status = CONNECTION_LIVE,
        .expires_at = in->expires_at,
        .identity = in->identity,
    };
    if (!in->connection_id) {
        return op_jump(op, STEP_SEAL);
    }
    store_connection_get(keep->service->config.pool, &keep->query, op, in->account_id,
                         in->connection_id);
    return OP_WAIT;
}

/* Of the stored row only rev is needed: label and params stay, the rest is replaced as a whole. */
static enum op_result read_rev(struct connect_keep *keep)
{
    struct connection row;
    int status = store_connection_get_result(&keep->query, &row);
    bool is_gone = status == ERR_NOTFOUND ||
                   (status == OK && !slice_eq(row.integration_id, keep->in.integration_id));
    if (is_gone)
        return stop_keep(keep, CONNECT_KEEP_GONE);
    if (status != OK)
        return stop_keep(keep, CONNECT_KEEP_UNAVAILABLE);
    keep->row.rev = row.rev;
    return OP_NEXT;
}

static enum op_result step_loaded(struct op *op)
{
    return read_rev(keep_of(op));
}

/* The sealed text is bound to account and id: so step_load draws a new connection's id, not the
 * database. */
static enum op_result step_seal(struct op *op)
{
    struct connect_keep *keep = keep_of(op);
    const struct connect_session *link = keep->in.link;
    struct vault_binding binding = {keep->row.account_id, keep->row.id};
    int status =
        vault_seal(keep->service->config.ring, &binding, keep->in.credential, &keep->sealed);
    if (status != OK)
        return stop_keep(keep,
                         status == ERR_LIMIT ? CONNECT_KEEP_TOO_LARGE : CONNECT_KEEP_UNAVAILABLE);
    keep->row.sealed = buf_slice(&keep->sealed);
    if (!link)
        return op_jump(op, STEP_STORE);
    store_connect_session_use(keep->service->config.pool, &keep->query, op, keep->row.account_id,
                              link->token_hash, keep->row.id);
    return OP_WAIT;
}

static enum op_result step_linked(struct op *op)
{
    struct connect_keep *keep = keep_of(op);
    int status = store_hit_result(&keep->query);
    if (status == ERR_NOTFOUND)
        return stop_keep(keep, CONNECT_KEEP_LINK_USED);
    keep->has_link = true; /* also if the answer was lost: the statement may have run */
    return status == OK ? OP_NEXT : stop_keep(keep, CONNECT_KEEP_UNAVAILABLE);
}

/* ---- storing ---- */

static enum op_result step_store(struct op *op)
{
    struct connect_keep *keep = keep_of(op);
    struct pg_pool *pool = keep->service->config.pool;
    const struct connection *row = &keep->row;
    ASSERT(row->sealed.len > 0 && row->id > 0);
    ASSERT(!keep->in.connection_id || row->rev > 0); /* the fence */
    ASSERT(!keep->in.link || keep->has_link);        /* used up first */
    const struct connection_credentials credentials = {
        .sealed = row->sealed,
        .key_id = row->key_id,
        .auth_kind = row->auth_kind,
        .scopes = row->scopes,
        .expires_at = row->expires_at,
        .is_grant_new = true, /* unlike a renewal, it may be another person's */
        .identity = row->identity,
    };
    if (keep->in.connection_id)
        store_connection_credentials_set(pool, &keep->query, op, row->account_id, row->id, row->rev,
                                         &credentials);
    else
        store_connection_insert(pool, &keep->query, op, row, keep->service->config.kept_max);
    return OP_WAIT;
}

static enum op_result retry_store(struct connect_keep *keep)
{
    if (keep->tries++ >= STORE_TRIES_MAX)
        return stop_keep(keep, CONNECT_KEEP_UNAVAILABLE);
    op_sleep(&keep->op, &keep->timer, STORE_RETRY_MS, "the database, to store a connection");
    return op_wait_then(&keep->op, STEP_STORE);
}

static enum op_result step_stored(struct op *op)
{
    struct connect_keep *keep = keep_of(op);
    int64_t rev;
    bool is_own = true;
    int status = keep->in.connection_id ? store_rev_result(&keep->query, &rev)
                                        : store_connection_insert_result(&keep->query, &is_own);
    /* only with OK is it the count of connections; otherwise the size of the statement (pg/pg.h) */
    if (!keep->in.connection_id && status == ERR_LIMIT && keep->query.status == OK)
        return stop_keep(keep, CONNECT_KEEP_FULL);
    keep->is_there = !is_own;
    if (status == OK)
        return op_jump(op, STEP_AUDIT);
    if (status == ERR_NOTFOUND) { /* changed meanwhile */
        store_connection_get(keep->service->config.pool, &keep->query, op, keep->row.account_id,
                             keep->row.id);
        return OP_WAIT;
    }
    bool has_default = slice_eq_cstr(slice_cstr(keep->query.sqlstate), "23505");
    if (status == ERR_INVALID && has_default && keep->row.is_default) {
        keep->row.is_default = false; /* the app has a default connection already */
        return op_jump(op, STEP_STORE);
    }
    return status == ERR_INVALID ? stop_keep(keep, CONNECT_KEEP_UNAVAILABLE) : retry_store(keep);
}

static enum op_result step_reloaded(struct op *op)
{
    struct connect_keep *keep = keep_of(op);
    if (keep->query.status != OK)
        return retry_store(keep);
    enum op_result result = read_rev(keep);
    return result == OP_NEXT ? retry_store(keep) : result;
}

/* ---- the audit event ---- */

static void put_audit_text(struct json_writer *w, const char *key, slice text)
{
    if (!text.ptr)
        return;
    json_member_str(w, key, text);
}

void connect_write_link(struct json_writer *w, const struct connect_session *link)
{
    if (!link)
        return;
    json_member_uuid(w, "link_id", link->id);
    json_member_uuid(w, "key_id", link->key_id);
}

void connect_write_identity(struct json_writer *w, const struct connection_identity *identity)
{
    put_audit_text(w, "email", identity->email);
    put_audit_text(w, "subject", identity->subject);
    put_audit_text(w, "label", identity->label);
}

static slice details_of(struct connect_keep *keep)
{
    char id[SLICE_U64_MAX];
    struct json_text text;
    struct json_writer *w = json_text_begin(&text, DETAILS_BYTES_MAX);
    json_open(w, '{');
    put_audit_text(w, "connection_id", slice_of_u64((uint64_t)keep->row.id, id));
    put_audit_text(w, "integration_id", keep->in.integration_id);
    if (connection_identity_is_known(&keep->in.identity)) {
        json_member_open(w, "identity", '{');
        connect_write_identity(w, &keep->in.identity);
        json_close(w, '}');
    }
    connect_write_link(w, keep->in.link);
    put_audit_text(w, "by", keep->in.by.means);
    json_close(w, '}');
    return json_text_take(&text, &keep->op.arena);
}

/* The row is durable, so the result is already decided: an event that cannot be written is logged,
 * and does not fail the request. */
static enum op_result step_audit(struct op *op)
{
    struct connect_keep *keep = keep_of(op);
    ASSERT(keep->result != CONNECT_KEPT);
    keep->result = CONNECT_KEPT;
    keep->connection_id = keep->row.id;
    keep->is_default = keep->row.is_default;
    if (keep->is_there) /* the request that made it writes its event */
        return OP_DONE;
    connect_changed(keep->service, keep->row.account_id, keep->in.integration_id);
    keep->event = (struct audit_event){
        .account_id = keep->row.account_id,
        .id = uuid_v7(),
        .kind = audit_kind_name(keep->in.connection_id ? AUDIT_CONNECTION_RECONNECTED
                                                       : AUDIT_CONNECTION_ADDED),
        .by = keep->in.by,
        .details = details_of(keep),
    };
    store_audit_insert(keep->service->config.pool, &keep->audit_query, op, &keep->event);
    return OP_WAIT;
}

static enum op_result step_audited(struct op *op)
{
    struct connect_keep *keep = keep_of(op);
    if (store_done_result(&keep->audit_query) != OK)
        op_log(op, LOG_WARN, "an audit event was lost", LOG_STR("kind", keep->event.kind));
    return OP_DONE;
}

static void on_end(struct op *op, enum op_end end)
{
    (void)end;
    buf_deinit(&keep_of(op)->sealed);
}

#define TO_UNLINK OP_TO(STEP_UNLINK)
static const struct op_step steps[] = {
    [STEP_LOAD] = {"load", step_load, OP_TO(STEP_SEAL)},
    [STEP_LOADED] = {"loaded", step_loaded, TO_UNLINK},
    [STEP_SEAL] = {"seal", step_seal, OP_TO(STEP_STORE) | TO_UNLINK},
    [STEP_LINKED] = {"linked", step_linked, TO_UNLINK},
    [STEP_STORE] = {"store", step_store, 0},
    [STEP_STORED] = {"stored", step_stored, OP_TO(STEP_STORE) | OP_TO(STEP_AUDIT) | TO_UNLINK},
    [STEP_RELOADED] = {"reloaded", step_reloaded, OP_TO(STEP_STORE) | TO_UNLINK},
    [STEP_AUDIT] = {"audit", step_audit, 0},
    [STEP_AUDITED] = {"audited", step_audited, 0},
    /* after OP_STOP; an op that has stored its connection ends before */
    [STEP_UNLINK] = {"unlink", step_unlink, 0},
    [STEP_UNLINKED] = {"unlinked", step_unlinked, 0},
};
static const struct op_class keep_class = {
    .name = "connect_keep",
    OP_STEPS(steps),
    .stop = STEP_UNLINK,
    .on_end = on_end,
};

void connect_keep_start(struct connect_service *service, struct connect_keep *keep,
                        const struct connect_keep_request *request, struct op *parent)
{
    ASSERT(request->credential.len > 0 && request->integration_id.len > 0 && parent);
    *keep = (struct connect_keep){
        .result = CONNECT_KEEP_UNAVAILABLE,
        .service = service,
        .in = *request,
    };
    buf_init(&keep->sealed, VAULT_PLAIN_MAX + VAULT_SEAL_OVERHEAD);
    op_start(&keep->op, &keep_class, service->loop, parent, KEEP_ARENA_BYTES_MAX);
}
