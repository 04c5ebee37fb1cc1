/*
 * One renewal of an OAuth token, by refresh token or client credentials. Only one runs at a time
 * for a connection: in this process (other ops wait in its list) and in all processes (a claim in
 * the row, a lease that expires by itself; store/connection.h). The claim is not a database lock:
 * no transaction is open during the call to the token endpoint.
 *
 * Rotation: a provider may end the old refresh token when it issues a new one. The new one is
 * durable before the new access token is used, and storing it is retried for minutes while the
 * database is unreachable. A process that dies between the reply and the write loses it. Then the
 * next renewal finds out whether the old token still works; if not, the connection becomes
 * reauth_required.
 *
 * Only an answer that the grant has ended marks a connection. If a token endpoint is unreachable,
 * sends an unusable reply or rejects the client, the connection stays unchanged.
 */
#include <stdio.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/metric.h"
#include "connect/renewer.h"
#include "event/outbox.h"

enum {
    RENEWAL_ARENA_BYTES_MAX = 16 * 1024 * 1024,
    LEASE_MARGIN_MS = 5000, /* margin by which a claim outlasts the call to the token endpoint */
    /* pause between loads while another process renews the token; up to twice as long */
    CLAIM_POLL_MS = 60,
    STORE_RETRY_MS = 200,
    STORE_TRIES_MAX = 600, /* two minutes of pauses */
};

static struct metric renewals_total =
    METRIC_INIT("sluice_token_renewals_total",
                "Renewals of OAuth tokens by integration and result.", METRIC_COUNTER);

enum step {
    STEP_LOAD,
    STEP_LOADED,
    STEP_FIND_CLIENT,
    STEP_FOUND_CLIENT,
    STEP_CLAIM,
    STEP_CLAIMED,
    STEP_ASK,
    STEP_READ,
    STEP_STORE,
    STEP_STORED,
    STEP_RELOADED,
    STEP_MARK,
    STEP_MARKED,
    STEP_RELEASE,
    STEP_ANSWER,
};

OP_OF(renewer_of, renewer)

static struct uuid payer_of(const struct renewer *renewer)
{
    return uuid_or(renewer->parent_id, renewer->account_id);
}

static slice integration_of(const struct renewer *renewer)
{
    return slice_of(renewer->integration_id, renewer->integration_len);
}

/* ---- the end ---- */

static void count_end(const struct renewer *renewer)
{
    static const char *const names[] = {
        [CONNECT_RENEWED] = "renewed",
        [CONNECT_RENEWAL_IMPOSSIBLE] = "impossible",
        [CONNECT_RENEWAL_GONE] = "gone",
        [CONNECT_RENEWAL_REFUSED] = "refused",
        [CONNECT_RENEWAL_OUTAGE] = "outage",
        [CONNECT_RENEWAL_TIMEOUT] = "timeout",
        [CONNECT_RENEWAL_NO_DATABASE] = "no_database",
    };
    char labels[160];
    (void)snprintf(labels, sizeof(labels), "integration=\"%.*s\",result=\"%s\"",
                   SLICE_ARG(integration_of(renewer)), names[renewer->result]);
    metric_add(metric_series(&renewals_total, slice_cstr(labels)), 1);
    /* the results before GONE, RENEWED and IMPOSSIBLE, need no warning */
    if (renewer->result >= CONNECT_RENEWAL_GONE)
        op_log(&renewer->op, LOG_WARN, "a token could not be renewed",
               LOG_STR("integration_id", integration_of(renewer)),
               LOG_INT("connection_id", renewer->id), LOG_CSTR("result", names[renewer->result]),
               LOG_STR("cause", renewer->message));
}

/* Also called after a cancel. The cached set is dropped before the waiting ops run, so that they
 * load the row as it is now; other processes are notified only if the row has changed. */
static void on_end(struct op *op, enum op_end end)
{
    struct renewer *renewer = renewer_of(op);
    if (end == OP_ENDED_CANCELLED)
        renewer->result = CONNECT_RENEWAL_NO_DATABASE;
    if (renewer->result == CONNECT_RENEWED || renewer->result == CONNECT_RENEWAL_GONE)
        connect_changed(renewer->service, renewer->account_id, integration_of(renewer));
    else
        connect_forget(renewer->service, renewer->account_id, integration_of(renewer));
    count_end(renewer);
    renewer_ended(renewer);
    oauth_request_deinit(&renewer->asked.request);
    buf_deinit(&renewer->given.sealed);
    secret_unref(renewer->used);
    secret_unref(renewer->former);
    secret_unref(renewer->client.secret);
    secret_unref(renewer->given.credential);
    catalog_unref(renewer->catalog);
}

static void on_cancel(struct op *op)
{
    struct renewer *renewer = renewer_of(op);
    http_call_cancel(&renewer->asked.call);
}

/* Sets the result and continues with STEP_RELEASE, which ends the renewal. */
static enum op_result finish_renewal(struct renewer *renewer, enum connect_renewed result,
                                     slice message)
{
    ASSERT(op_is_active(&renewer->op));
    renewer->result = result;
    renewer->message = message;
    return OP_STOP;
}

static enum op_result no_database(struct renewer *renewer)
{
    return finish_renewal(renewer, CONNECT_RENEWAL_NO_DATABASE,
                          SLICE("the database cannot be reached"));
}

/* ---- the row ---- */

/* Each round begins here: the first round, a round after waiting for another process's claim,
 * and a round after another writer changed the row. */
static enum op_result step_load(struct op *op)
{
    struct renewer *renewer = renewer_of(op);
    store_connection_get(renewer->service->config.pool, &renewer->query, op, renewer->account_id,
                         renewer->id);
    return OP_WAIT;
}

static const struct json *parse_credential(struct renewer *renewer, const struct secret *secret)
{
    return json_parse(&renewer->op.arena, secret_reveal(secret), &json_limits_provider, NULL);
}

static bool has_same(const struct json *a, const struct json *b, slice member)
{
    slice left = json_get_str(a, member), right = json_get_str(b, member);
    return left.len == right.len && (left.len == 0 || slice_eq_secret(left, right));
}

/* Whether both have the same tokens. Other changes of the row (its label, a rotation of master
 * keys) do not matter to a renewal. */
static bool is_same_grant(struct renewer *renewer, const struct secret *a, const struct secret *b)
{
    const struct json *left = parse_credential(renewer, a), *right = parse_credential(renewer, b);
    return has_same(left, right, SLICE("access_token")) &&
           has_same(left, right, SLICE("refresh_token"));
}

/* Opens the row's credential into renewer->former. Returns false if it cannot be opened; the next
 * lookup reports that (open_credential in connect.c). */
static bool open_row(struct renewer *renewer, const struct connection *row)
{
    struct vault_binding binding = {renewer->account_id, renewer->id};
    struct err err;
    ASSERT(row->id == renewer->id && row->rev > 0);
    secret_unref(renewer->former);
    renewer->former = NULL;
    renewer->rev = row->rev;
    renewer->token_url = oauth_url_make(
        renewer->auth->token_url,
        row->params.len > 0
            ? json_parse(&renewer->op.arena, row->params, &json_limits_provider, NULL)
            : NULL,
        &renewer->op.arena);
    return row->sealed.len > 0 && vault_open(renewer->service->config.ring, &binding, row->key_id,
                                             row->sealed, &renewer->former, &err) == OK;
}

static enum op_result step_loaded(struct op *op)
{
    struct renewer *renewer = renewer_of(op);
    struct connection row;
    int status = store_connection_get_result(&renewer->query, &row);
    if (status != OK && status != ERR_NOTFOUND)
        return no_database(renewer);
    /* There is nothing to renew: the row no longer exists, or has changed since the caller's
     * lookup. The caller's next lookup finds the tokens of another renewal, a new grant, or the
     * reason why there is none. */
    if (status == ERR_NOTFOUND || row.status != CONNECTION_LIVE || !open_row(renewer, &row) ||
        !is_same_grant(renewer, renewer->used, renewer->former))
        return finish_renewal(renewer, CONNECT_RENEWED, SLICE_NONE);
    slice refresh =
        json_get_str(parse_credential(renewer, renewer->former), SLICE("refresh_token"));
    if (renewer->auth->kind == AUTH_OAUTH2 && refresh.len == 0)
        return finish_renewal(renewer, CONNECT_RENEWAL_IMPOSSIBLE,
                              SLICE("the app issued no refresh token"));
    if (renewer->client.id.len > 0) /* known from an earlier round */
        return op_jump(op, STEP_CLAIM);
    return OP_NEXT;
}

/* ---- the client ---- */

/* This step comes before the claim, so that only the call uses the claim's lease. */
static enum op_result step_find_client(struct op *op)
{
    struct renewer *renewer = renewer_of(op);
    const struct json *credential = parse_credential(renewer, renewer->former);
    slice id = json_get_str(credential, SLICE("client_id"));
    slice secret = json_get_str(credential, SLICE("client_secret"));
    if (id.len > 0) { /* for client credentials, the connection has its own client */
        renewer->client.id = id;
        renewer->client.secret = secret.len > 0 ? secret_new(secret) : NULL;
        return op_jump(op, STEP_CLAIM);
    }
    oauth_client_find(renewer->service, &renewer->client.lookup, op, payer_of(renewer),
                      integration_of(renewer));
    return OP_WAIT;
}

static enum op_result step_found_client(struct op *op)
{
    struct renewer *renewer = renewer_of(op);
    switch (oauth_client_result(renewer->service, &renewer->client.lookup, integration_of(renewer),
                                &renewer->client.id, &renewer->client.secret)) {
    case OK:
        return OP_NEXT;
    case ERR_NOTFOUND:
        return finish_renewal(renewer, CONNECT_RENEWAL_IMPOSSIBLE,
                              SLICE("this server has no OAuth client for the app"));
    case ERR_CRYPTO:
        return finish_renewal(
            renewer, CONNECT_RENEWAL_IMPOSSIBLE,
            SLICE("the secret of this server's OAuth client can no longer be opened"));
    default:
        return no_database(renewer);
    }
}

/* ---- the claim ---- */

static unsigned lease_ms(const struct renewer *renewer)
{
    return renewer->service->config.token_timeout_ms + LEASE_MARGIN_MS;
}

static enum op_result step_claim(struct op *op)
{
    struct renewer *renewer = renewer_of(op);
    ASSERT(renewer->client.id.len > 0 && renewer->former);
    if (renewer->claim.until_ns == 0) /* the lease of a dead process may have to expire first */
        renewer->claim.until_ns = loop_now_ns(op->loop) + 2ULL * lease_ms(renewer) * 1000000;
    renewer->claim.since_boot_ns = clock_boot_ns();
    store_connection_claim(renewer->service->config.pool, &renewer->query, op, renewer->account_id,
                           renewer->id, renewer->rev, renewer->service->holder, lease_ms(renewer));
    return OP_WAIT;
}

static enum op_result step_claimed(struct op *op)
{
    struct renewer *renewer = renewer_of(op);
    int status = store_hit_result(&renewer->query);
    if (status == OK) {
        renewer->claim.is_held = true;
        return OP_NEXT;
    }
    if (status != ERR_NOTFOUND)
        return no_database(renewer);
    /* another process holds the claim, or the row has changed: loading it shows which */
    if (loop_now_ns(op->loop) > renewer->claim.until_ns)
        return finish_renewal(renewer, CONNECT_RENEWAL_TIMEOUT,
                              SLICE("another process has been renewing its token for too long"));
    op_sleep(op, &renewer->timer, CLAIM_POLL_MS + random_below(CLAIM_POLL_MS),
             "another process's renewal");
    return op_wait_then(op, STEP_LOAD);
}

/* ---- the call ---- */

static enum op_result step_ask(struct op *op)
{
    struct renewer *renewer = renewer_of(op);
    unsigned timeout_ms = renewer->service->config.token_timeout_ms;
    const struct json *credential = parse_credential(renewer, renewer->former);
    /* the claim prevents another process from sending this token at the same time */
    ASSERT(renewer->claim.is_held);
    struct oauth_ask ask = {
        .auth = renewer->auth,
        .grant = renewer->auth->kind == AUTH_OAUTH2 ? OAUTH_GRANT_REFRESH : OAUTH_GRANT_CLIENT,
        .client_id = renewer->client.id,
        .client_secret = secret_reveal(renewer->client.secret),
        .token_url = renewer->token_url,
    };
    if (ask.grant == OAUTH_GRANT_REFRESH)
        ask.refresh_token = json_get_str(credential, SLICE("refresh_token"));
    /* A process that was suspended after sending the claim may find it expired. Then another
     * process may send the token, and a provider may end the grant if a refresh token is used
     * twice. So the boot clock is used, which counts suspended time, and another round follows. */
    uint64_t waited_ms = (clock_boot_ns() - renewer->claim.since_boot_ns) / 1000000;
    if (waited_ms > LEASE_MARGIN_MS / 2) {
        if (loop_now_ns(op->loop) > renewer->claim.until_ns)
            return no_database(renewer);
        return op_jump(op, STEP_LOAD);
    }
    renewer->asked.call = (struct http_call){
        .tenant = payer_of(renewer),
        .deadline_ns = loop_now_ns(op->loop) + (uint64_t)timeout_ms * 1000000,
    };
    oauth_request_deinit(&renewer->asked.request); /* from an earlier round */
    renewer->asked.at_us = clock_shared_us();
    if (oauth_request_make(&ask, &renewer->asked.request, &renewer->asked.call) == OK &&
        http_call_start(renewer->service->config.http, &renewer->asked.call, op) == OK)
        return OP_WAIT;
    return finish_renewal(renewer, CONNECT_RENEWAL_REFUSED,
                          SLICE("the request to its authorization server cannot be made"));
}

/* Seals the new tokens. Returns false if out of memory, or if they are too large to be sealed. */
static bool seal(struct renewer *renewer)
{
    ASSERT(renewer->given.reply.access_token.len > 0 && !renewer->given.credential);
    struct vault_binding binding = {renewer->account_id, renewer->id};
    struct buf text;
    buf_init(&text, VAULT_PLAIN_MAX);
    buf_init(&renewer->given.sealed, VAULT_PLAIN_MAX + VAULT_SEAL_OVERHEAD);
    bool is_ok = oauth_credential_write(parse_credential(renewer, renewer->former),
                                        &renewer->given.reply, &text) == OK &&
                 vault_seal(renewer->service->config.ring, &binding, buf_slice(&text),
                            &renewer->given.sealed) == OK;
    renewer->given.credential = is_ok ? secret_new(buf_slice(&text)) : NULL;
    mem_wipe(text.ptr, text.cap);
    buf_deinit(&text);
    return renewer->given.credential != NULL;
}

static enum op_result step_read(struct op *op)
{
    struct renewer *renewer = renewer_of(op);
    oauth_reply_read(renewer->auth, &renewer->asked.request, &renewer->asked.call, &op->arena,
                     &renewer->given.reply);
    oauth_request_deinit(&renewer->asked.request); /* the request contains unencrypted secrets */
    switch (renewer->given.reply.verdict) {
    case OAUTH_GRANTED:
        if (seal(renewer))
            return OP_NEXT;
        return finish_renewal(renewer, CONNECT_RENEWAL_REFUSED,
                              SLICE("the app's new tokens are too large"));
    case OAUTH_GONE:
        return op_jump(op, STEP_MARK);
    case OAUTH_REFUSED:
        return finish_renewal(renewer, CONNECT_RENEWAL_REFUSED, renewer->given.reply.message);
    case OAUTH_TIMEOUT:
        return finish_renewal(renewer, CONNECT_RENEWAL_TIMEOUT, renewer->given.reply.message);
    case OAUTH_OUTAGE:
        break;
    }
    return finish_renewal(renewer, CONNECT_RENEWAL_OUTAGE, renewer->given.reply.message);
}

/* ---- storing the new tokens ---- */

/* The token's life is counted from the time before the request, so expires_at is never later than
 * the provider's own. */
static enum op_result step_store(struct op *op)
{
    struct renewer *renewer = renewer_of(op);
    int64_t life_s = renewer->given.reply.expires_in_s;
    ASSERT(renewer->given.credential && renewer->given.sealed.len > 0 && renewer->asked.at_us > 0);
    struct connection_credentials credentials = {
        .sealed = buf_slice(&renewer->given.sealed),
        .key_id = vault_ring_key_id(renewer->service->config.ring),
        .scopes = renewer->given.reply.scopes,
        .expires_at = life_s > 0 ? renewer->asked.at_us + life_s * 1000000 : 0,
    };
    store_connection_credentials_set(renewer->service->config.pool, &renewer->query, op,
                                     renewer->account_id, renewer->id, renewer->rev, &credentials);
    return OP_WAIT;
}

static enum op_result retry_later(struct renewer *renewer, enum step step)
{
    op_sleep(&renewer->op, &renewer->timer, STORE_RETRY_MS, "the database, to store a token");
    return op_wait_then(&renewer->op, step);
}

static enum op_result step_stored(struct op *op)
{
    struct renewer *renewer = renewer_of(op);
    int64_t rev;
    int status = store_rev_result(&renewer->query, &rev);
    if (status == OK) {
        renewer->claim.is_held = false; /* the write has ended the claim */
        return finish_renewal(renewer, CONNECT_RENEWED, SLICE_NONE);
    }
    /* ERR_INVALID means that the database refuses the statement, so a retry does not help */
    if (status == ERR_INVALID || renewer->tries++ >= STORE_TRIES_MAX) {
        op_log(op, LOG_ERROR, "a new token cannot be stored", LOG_INT("connection_id", renewer->id),
               LOG_CSTR("sqlstate", renewer->query.sqlstate));
        return no_database(renewer);
    }
    if (status != ERR_NOTFOUND)
        return retry_later(renewer, STEP_STORE);
    store_connection_get(renewer->service->config.pool, &renewer->query, op, renewer->account_id,
                         renewer->id);
    return OP_WAIT;
}

/* The row has another revision now, because of this renewal's own write (whose answer was lost),
 * another change, or a new grant by a person. The received tokens are newer only if the row still
 * has the tokens that were sent. */
static enum op_result step_reloaded(struct op *op)
{
    struct renewer *renewer = renewer_of(op);
    struct connection row;
    struct secret *asked_with = secret_ref(renewer->former); /* open_row replaces it */
    int status = store_connection_get_result(&renewer->query, &row);
    bool is_ours = false;
    if (status == OK && open_row(renewer, &row) && row.status == CONNECTION_LIVE)
        is_ours = is_same_grant(renewer, asked_with, renewer->former);
    secret_unref(asked_with);
    if (status != OK && status != ERR_NOTFOUND && renewer->tries++ < STORE_TRIES_MAX)
        /* the next attempt finds again that the old revision no longer exists */
        return retry_later(renewer, STEP_STORE);
    if (!is_ours)
        return finish_renewal(renewer, CONNECT_RENEWED, SLICE_NONE);
    return op_jump(op, STEP_STORE);
}

/* ---- the grant has ended ---- */

static enum op_result step_mark(struct op *op)
{
    struct renewer *renewer = renewer_of(op);
    ASSERT(renewer->given.reply.verdict == OAUTH_GONE && renewer->given.reply.error.len > 0);
    struct connection_loss loss = {
        .account_id = renewer->account_id,
        .id = renewer->id,
        .rev = renewer->rev,
        .error = renewer->given.reply.message,
        .reason = renewer->given.reply.error,
        .by = {.actor = SLICE("system"), .parent_id = renewer->parent_id},
        .details = arena_printf(&op->arena,
                                "{\"connection_id\":\"%lld\",\"integration_id\":\"%.*s\"}",
                                (long long)renewer->id, SLICE_ARG(integration_of(renewer))),
    };
    store_connection_lost(renewer->service->config.pool, &renewer->query, op, &loss);
    return OP_WAIT;
}

static enum op_result step_marked(struct op *op)
{
    struct renewer *renewer = renewer_of(op);
    int64_t rev;
    int status = store_rev_result(&renewer->query, &rev);
    if (status == OK) {
        renewer->claim.is_held = false;
        event_written(renewer->service->config.events, renewer->account_id,
                      store_event_of(&renewer->query));
    }
    if (status == ERR_NOTFOUND) { /* the row has changed, and may have a valid grant */
        if (renewer->tries++ < STORE_TRIES_MAX)
            return op_jump(op, STEP_LOAD);
        return finish_renewal(renewer, CONNECT_RENEWED, SLICE_NONE);
    }
    if (status != OK && status != ERR_INVALID && renewer->tries++ < STORE_TRIES_MAX)
        return retry_later(renewer, STEP_MARK);
    return finish_renewal(renewer, CONNECT_RENEWAL_GONE, renewer->given.reply.message);
}

/* Releases the claim if no write of the row has ended it, so that the next renewal need not wait
 * for its lease to expire. If this fails, the lease expires by itself. */
static enum op_result step_release(struct op *op)
{
    struct renewer *renewer = renewer_of(op);
    if (!renewer->claim.is_held)
        return OP_NEXT;
    store_connection_release(renewer->service->config.pool, &renewer->query, op,
                             renewer->account_id, renewer->id, renewer->service->holder);
    return OP_WAIT;
}

/* The result of the release does not matter; on_end answers the waiting ops. */
static enum op_result step_answer(struct op *op)
{
    (void)op;
    return OP_DONE;
}

#define TO_RELEASE OP_TO(STEP_RELEASE)
static const struct op_step steps[] = {
    [STEP_LOAD] = {"load", step_load, 0},
    [STEP_LOADED] = {"loaded", step_loaded, OP_TO(STEP_CLAIM) | TO_RELEASE},
    [STEP_FIND_CLIENT] = {"find_client", step_find_client, OP_TO(STEP_CLAIM)},
    [STEP_FOUND_CLIENT] = {"found_client", step_found_client, TO_RELEASE},
    [STEP_CLAIM] = {"claim", step_claim, 0},
    [STEP_CLAIMED] = {"claimed", step_claimed, OP_TO(STEP_LOAD) | TO_RELEASE},
    [STEP_ASK] = {"ask", step_ask, OP_TO(STEP_LOAD) | TO_RELEASE},
    [STEP_READ] = {"read", step_read, OP_TO(STEP_MARK) | TO_RELEASE},
    [STEP_STORE] = {"store", step_store, 0},
    [STEP_STORED] = {"stored", step_stored, OP_TO(STEP_STORE) | TO_RELEASE},
    [STEP_RELOADED] = {"reloaded", step_reloaded, OP_TO(STEP_STORE) | TO_RELEASE},
    [STEP_MARK] = {"mark", step_mark, 0},
    [STEP_MARKED] = {"marked", step_marked, OP_TO(STEP_LOAD) | OP_TO(STEP_MARK) | TO_RELEASE},
    [STEP_RELEASE] = {"release", step_release, 0},
    [STEP_ANSWER] = {"answer", step_answer, 0},
};
static const struct op_class renewer_class = {
    .name = "token_renewal",
    .is_background = true,
    OP_STEPS(steps),
    .stop = STEP_RELEASE,
    .on_cancel = on_cancel,
    .on_end = on_end,
    .free = op_free_struct,
};

static bool is_grant(enum catalog_auth_kind kind)
{
    return kind == AUTH_OAUTH2 || kind == AUTH_OAUTH2_CLIENT_CREDENTIALS;
}

struct renewer *renewer_start(struct connect_service *service, struct slot *slot,
                              struct uuid account_id, slice integration_id,
                              const struct connect_item *item)
{
    const struct catalog_integration *integration =
        catalog_find_integration(*service->config.catalog, integration_id, NULL);
    const struct catalog_auth *auth = integration ? catalog_auth_of(integration, item->auth_kind)
                                                  : NULL;
    if (!auth || !is_grant(auth->kind) || !item->credential)
        return NULL;
    struct renewer *renewer = mem_zalloc(sizeof(*renewer));
    if (!renewer)
        return NULL;
    ASSERT(integration_id.len <= sizeof(renewer->integration_id));
    ASSERT(!slot->running && service->config.http);
    /* copies and references, since the item's set may be evicted and the catalog replaced before
     * the end */
    memcpy(renewer->integration_id, integration_id.ptr, integration_id.len);
    renewer->integration_len = integration_id.len;
    renewer->service = service;
    renewer->slot = slot;
    renewer->account_id = account_id;
    renewer->parent_id = item->parent_id;
    renewer->id = item->id;
    renewer->catalog = catalog_ref(*service->config.catalog);
    renewer->auth = auth;
    renewer->used = secret_ref(item->credential);
    list_init(&renewer->waiting);
    slot->running = renewer;
    service->renewals_active++;
    op_start(&renewer->op, &renewer_class, service->loop, NULL, RENEWAL_ARENA_BYTES_MAX);
    op_account_set(&renewer->op, uuid_or(renewer->parent_id, renewer->account_id));
    return renewer;
}
