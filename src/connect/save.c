/*
 * Stores a credential as a row; see save.h.
 *
 * A link is used up before the row is written: of two requests with the same link, one makes a
 * connection and the other gets CONNECT_SAVE_LINK_USED. If the connection cannot be stored, the
 * stop step makes the link usable again. The audit event comes last, because the row must not
 * depend on it.
 *
 * An existing connection is changed by compare-and-set on rev. If another writer was first, the row
 * is loaded again and the credential stored over it: the newest grant wins.
 */
#include "connect/save.h"

#include "connect/internal.h"
#include "event/outbox.h"

enum {
    SAVE_ARENA_BYTES_MAX = 1024 * 1024,
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
    STEP_DEFAULTED,
    STEP_UNLINK,
    STEP_UNLINKED,
};

OP_OF(save_of, connect_save)

static enum op_result stop_save(struct connect_save *save, enum connect_saved result)
{
    ASSERT(result != CONNECT_SAVED);
    save->result = result;
    return OP_STOP;
}

/* Makes the link usable again, since no connection was made. */
static enum op_result step_unlink(struct op *op)
{
    struct connect_save *save = save_of(op);
    if (!save->has_link)
        return OP_FAIL;
    store_connect_session_unuse(save->service->config.pool, &save->query, op, save->row.account_id,
                                save->in.link->token_hash, save->row.id);
    return OP_WAIT;
}

static enum op_result step_unlinked(struct op *op)
{
    if (store_done_result(&save_of(op)->query) != OK)
        op_log(op, LOG_WARN, "a connect link stays used although no connection was made",
               LOG_STR("cause", save_of(op)->query.message));
    return OP_FAIL;
}

/* ---- the row ---- */

static enum op_result step_load(struct op *op)
{
    struct connect_save *save = save_of(op);
    const struct connect_save_request *in = &save->in;
    save->row = (struct connection){
        .account_id = in->account_id,
        .id = in->connection_id ? in->connection_id
              : in->new_id      ? in->new_id
                                : short_id_new(),
        .integration_id = in->integration_id,
        .label = in->label,
        .is_default = true, /* tried first; step_stored retries without it if there is another
                             * default */
        .auth_kind = in->auth_kind,
        .key_id = vault_ring_key_id(save->service->config.ring),
        .scopes = in->scopes,
        .params = in->params,
        .status = CONNECTION_LIVE,
        .expires_at = in->expires_at,
        .identity = in->identity,
        .parent_id = in->by.parent_id,
    };
    if (!in->connection_id) {
        return op_jump(op, STEP_SEAL);
    }
    store_connection_get(save->service->config.pool, &save->query, op, in->account_id,
                         in->connection_id);
    return OP_WAIT;
}

/* Label and params of the stored row stay; the rest is replaced as a whole. */
static enum op_result read_row(struct connect_save *save)
{
    struct connection row;
    int status = store_connection_get_result(&save->query, &row);
    bool is_gone = status == ERR_NOTFOUND ||
                   (status == OK && !slice_eq(row.integration_id, save->in.integration_id));
    if (is_gone)
        return stop_save(save, CONNECT_SAVE_GONE);
    if (status != OK)
        return stop_save(save, CONNECT_SAVE_UNAVAILABLE);
    save->row.rev = row.rev;
    save->row.is_default = row.is_default;
    return OP_NEXT;
}

static enum op_result step_loaded(struct op *op)
{
    return read_row(save_of(op));
}

/* The sealed text is bound to account and id, so step_load generates a new connection's id, not
 * the database. */
static enum op_result step_seal(struct op *op)
{
    struct connect_save *save = save_of(op);
    const struct connect_session *link = save->in.link;
    struct vault_binding binding = {save->row.account_id, save->row.id};
    int status =
        vault_seal(save->service->config.ring, &binding, save->in.credential, &save->sealed);
    if (status != OK)
        return stop_save(save,
                         status == ERR_LIMIT ? CONNECT_SAVE_TOO_LARGE : CONNECT_SAVE_UNAVAILABLE);
    save->row.sealed = buf_slice(&save->sealed);
    if (!link)
        return op_jump(op, STEP_STORE);
    store_connect_session_use(save->service->config.pool, &save->query, op, save->row.account_id,
                              link->token_hash, save->row.id);
    return OP_WAIT;
}

static enum op_result step_linked(struct op *op)
{
    struct connect_save *save = save_of(op);
    int status = store_hit_result(&save->query);
    if (status == ERR_NOTFOUND)
        return stop_save(save, CONNECT_SAVE_LINK_USED);
    save->has_link = true; /* set even if the answer was lost, since the statement may have run */
    return status == OK ? OP_NEXT : stop_save(save, CONNECT_SAVE_UNAVAILABLE);
}

/* ---- storing ---- */

static enum op_result step_store(struct op *op)
{
    struct connect_save *save = save_of(op);
    struct pg_pool *pool = save->service->config.pool;
    const struct connection *row = &save->row;
    ASSERT(row->sealed.len > 0 && row->id > 0);
    ASSERT(!save->in.connection_id || row->rev > 0); /* the fence */
    ASSERT(!save->in.link || save->has_link);        /* used up first */
    const struct connection_credentials credentials = {
        .sealed = row->sealed,
        .key_id = row->key_id,
        .auth_kind = row->auth_kind,
        .scopes = row->scopes,
        .expires_at = row->expires_at,
        .is_grant_new = true, /* unlike after a renewal, the grant may be another person's */
        .identity = row->identity,
    };
    if (save->in.connection_id)
        store_connection_credentials_set(pool, &save->query, op, row->account_id, row->id, row->rev,
                                         &credentials);
    else
        store_connection_insert(pool, &save->query, op, row, save->service->config.connections_max);
    return OP_WAIT;
}

static enum op_result retry_store(struct connect_save *save)
{
    if (save->tries++ >= STORE_TRIES_MAX)
        return stop_save(save, CONNECT_SAVE_UNAVAILABLE);
    op_sleep(&save->op, &save->timer, STORE_RETRY_MS, "the database, to store a connection");
    return op_wait_then(&save->op, STEP_STORE);
}

static enum op_result step_stored(struct op *op)
{
    struct connect_save *save = save_of(op);
    int64_t rev;
    bool is_own = true;
    int status = save->in.connection_id ? store_rev_result(&save->query, &rev)
                                        : store_connection_insert_result(&save->query, &is_own);
    /* ERR_LIMIT is about the number of connections only if the query is OK; otherwise the statement
     * is too large (pg/pg.h) */
    if (!save->in.connection_id && status == ERR_LIMIT && save->query.status == OK)
        return stop_save(save, CONNECT_SAVE_FULL);
    save->is_there = !is_own;
    if (status == OK) {
        event_written(save->service->config.events, save->row.account_id,
                      store_event_of(&save->query));
        return op_jump(op, STEP_AUDIT);
    }
    if (status == ERR_NOTFOUND) { /* the row has changed since it was loaded */
        store_connection_get(save->service->config.pool, &save->query, op, save->row.account_id,
                             save->row.id);
        return OP_WAIT;
    }
    bool has_default = slice_eq_cstr(slice_cstr(save->query.sqlstate), "23505");
    if (status == ERR_INVALID && has_default && save->row.is_default) {
        save->row.is_default = false; /* the app has a default connection already */
        return op_jump(op, STEP_STORE);
    }
    return status == ERR_INVALID ? stop_save(save, CONNECT_SAVE_UNAVAILABLE) : retry_store(save);
}

static enum op_result step_reloaded(struct op *op)
{
    struct connect_save *save = save_of(op);
    if (save->query.status != OK)
        return retry_store(save);
    enum op_result result = read_row(save);
    return result == OP_NEXT ? retry_store(save) : result;
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

static slice details_of(struct connect_save *save)
{
    char id[SLICE_U64_MAX];
    struct json_text text;
    struct json_writer *w = json_text_begin(&text, DETAILS_BYTES_MAX);
    json_open(w, '{');
    put_audit_text(w, "connection_id", slice_of_u64((uint64_t)save->row.id, id));
    put_audit_text(w, "integration_id", save->in.integration_id);
    if (connection_identity_is_known(&save->in.identity)) {
        json_member_open(w, "identity", '{');
        connect_write_identity(w, &save->in.identity);
        json_close(w, '}');
    }
    connect_write_link(w, save->in.link);
    put_audit_text(w, "by", save->in.by.means);
    json_close(w, '}');
    return json_text_take(&text, &save->op.arena);
}

/* The row is durable, so the result is already decided: if the event cannot be written, this is
 * logged, and the request does not fail. */
static enum op_result step_audit(struct op *op)
{
    struct connect_save *save = save_of(op);
    ASSERT(save->result != CONNECT_SAVED);
    save->result = CONNECT_SAVED;
    save->connection_id = save->row.id;
    save->is_default = save->row.is_default;
    if (save->is_there) /* the request that made the connection has written the event */
        return OP_DONE;
    connect_changed(save->service, save->row.account_id, save->in.integration_id);
    save->event = (struct audit_event){
        .account_id = save->row.account_id,
        .id = uuid_v7(),
        .kind = audit_kind_name(save->in.connection_id ? AUDIT_CONNECTION_RECONNECTED
                                                       : AUDIT_CONNECTION_ADDED),
        .by = save->in.by,
        .details = details_of(save),
    };
    store_audit_insert(save->service->config.pool, &save->audit_query, op, &save->event);
    return OP_WAIT;
}

static enum op_result step_audited(struct op *op)
{
    struct connect_save *save = save_of(op);
    if (store_done_result(&save->audit_query) != OK)
        op_log(op, LOG_WARN, "an audit event was lost", LOG_STR("kind", save->event.kind));
    if (!save->in.is_default || save->is_default)
        return OP_DONE;
    /* This is a separate change with an event of its own, since it changes two connections. */
    struct connect_command_request request = {
        .kind = CONNECT_MAKE_DEFAULT,
        .by = save->in.by,
        .connection = {.account_id = save->row.account_id, .id = save->row.id},
    };
    connect_command_start(save->service, &save->command, &request, op);
    return OP_WAIT;
}

/* The connection is stored, whether or not it is the default now. */
static enum op_result step_defaulted(struct op *op)
{
    struct connect_save *save = save_of(op);
    save->is_default = save->command.status == OK;
    if (!save->is_default)
        op_log(op, LOG_WARN, "a connection was stored, but not made the default",
               LOG_INT("connection_id", save->connection_id),
               LOG_INT("status", save->command.status));
    return OP_DONE;
}

static void on_end(struct op *op, enum op_end end)
{
    (void)end;
    buf_deinit(&save_of(op)->sealed);
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
    [STEP_DEFAULTED] = {"defaulted", step_defaulted, 0},
    /* runs after OP_STOP; an op that has stored its connection ends before */
    [STEP_UNLINK] = {"unlink", step_unlink, 0},
    [STEP_UNLINKED] = {"unlinked", step_unlinked, 0},
};
static const struct op_class save_class = {
    .name = "connect_save",
    OP_STEPS(steps),
    .stop = STEP_UNLINK,
    .on_end = on_end,
};

void connect_save_start(struct connect_service *service, struct connect_save *save,
                        const struct connect_save_request *request, struct op *parent)
{
    ASSERT(request->credential.len > 0 && request->integration_id.len > 0 && parent);
    *save = (struct connect_save){
        .result = CONNECT_SAVE_UNAVAILABLE,
        .service = service,
        .in = *request,
    };
    buf_init(&save->sealed, VAULT_PLAIN_MAX + VAULT_SEAL_OVERHEAD);
    op_start(&save->op, &save_class, service->loop, parent, SAVE_ARENA_BYTES_MAX);
}
