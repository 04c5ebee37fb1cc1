/*
 * Begins an authorization and makes its URL; see oauth.h.
 *
 * The data that the browser must not see or change (the PKCE verifier, the params, the connection
 * to reconnect) is sealed and stored under a hash of the state; the URL contains the state itself.
 * The row is durable before the URL is returned, so that every answer finds its row.
 */
#include "base/clock.h"
#include "base/encode.h"
#include "base/mem.h"
#include "connect/internal.h"
#include "connect/oauth.h"
#include "vault/key.h"

enum { BEGIN_ARENA_BYTES_MAX = 1024 * 1024, RANDOM_BYTES = 32 };

OP_OF(begin_of, oauth_begin)

static enum op_result stop_begin(struct oauth_begin *begin, enum oauth_outcome outcome,
                                 slice message)
{
    ASSERT(outcome != OAUTH_DONE);
    begin->outcome = outcome;
    begin->message = message;
    return OP_FAIL;
}

static enum op_result stop_begin_database(struct oauth_begin *begin)
{
    return stop_begin(begin, OAUTH_UNAVAILABLE, SLICE("The database cannot be reached."));
}

/* Writes 256 random bits as text: BASE64URL_LEN(RANDOM_BYTES) + 1 bytes. */
static void draw_random_text(char *out)
{
    uint8_t bytes[RANDOM_BYTES];
    random_kernel(bytes, sizeof(bytes));
    slice text =
        encode_base64url_in(out, BASE64URL_LEN(RANDOM_BYTES), slice_of(bytes, sizeof(bytes)));
    out[text.len] = '\0';
    mem_wipe(bytes, sizeof(bytes));
}

/* ---- loading ---- */

/* Sends all queries at once; each holds the op. A reconnect needs its connection, which may name
 * the server's address; a new connection needs the number of existing ones. */
static enum op_result step_find(struct op *op)
{
    struct oauth_begin *begin = begin_of(op);
    const struct oauth_begin_request *in = &begin->in;
    if (begin->integration)
        begin->auth = catalog_auth_by(begin->integration, AUTH_OAUTH2);
    if (!begin->auth)
        return stop_begin(begin, OAUTH_UNSUPPORTED,
                          SLICE("There is no such app, or it does not use OAuth."));
    oauth_client_find(begin->service, &begin->lookup, op, uuid_or(in->parent_id, in->account_id),
                      in->integration_id);
    struct connect_config *config = &begin->service->config;
    if (in->connection_id != 0)
        store_connection_get(config->pool, &begin->query, op, in->account_id, in->connection_id);
    else if (config->connections_max > 0)
        store_connection_count(config->pool, &begin->query, op, in->account_id,
                               config->connections_max);
    return OP_WAIT;
}

/* ---- the stored request ---- */

static void append_scope(slice scope, slice separator, struct buf *out)
{
    if (out->len > 0)
        buf_append(out, separator);
    buf_append(out, scope);
}

/* Writes all required scopes of the manifest, and the wanted optional ones. */
static void write_scopes(const struct oauth_begin *begin, slice separator, struct buf *out)
{
    const struct json *scopes = begin->auth->scopes, *optional = begin->auth->optional_scopes;
    for (uint32_t i = 0; scopes && i < scopes->count; i++)
        append_scope(json_str(&scopes->as.items[i]), separator, out);
    for (uint32_t i = 0; optional && i < optional->count; i++) {
        slice scope = json_str(&optional->as.members[i].key);
        if (slice_has_word(begin->in.optional_scopes, scope))
            append_scope(scope, separator, out);
    }
}

/* Writes the members that oauth_finish.c reads. URLs and scopes are stored as they were sent: the
 * manifest may change before the browser returns. */
static void write_pending(const struct oauth_begin *begin, struct buf *out)
{
    struct json_writer w;
    struct buf scopes;
    buf_init(&scopes, OAUTH_URL_BYTES_MAX);
    write_scopes(begin, SLICE(" "), &scopes);
    json_begin(&w, out);
    json_open(&w, '{');
    json_member_str(&w, "verifier", slice_cstr(begin->verifier));
    json_member_str(&w, "redirect_uri", begin->in.redirect_uri);
    json_member_str(&w, "scopes", scopes.len > 0 ? buf_slice(&scopes) : SLICE_NONE);
    json_member_str(&w, "label", begin->in.label);
    json_member_str(&w, "authorize_url", begin->authorize_url);
    json_member_str(&w, "token_url", begin->token_url);
    json_member_str(&w, "params", begin->in.params);
    json_member_i64(&w, "connection_id", begin->in.connection_id);
    json_member_bool(&w, "may_change_identity", begin->in.may_change_identity);
    json_close(&w, '}');
    out->is_failed = out->is_failed || !buf_is_ok(&scopes);
    buf_deinit(&scopes);
}

static int seal_pending(struct oauth_begin *begin)
{
    struct oauth_begun *begun = &begin->begun;
    struct vault_binding binding = oauth_begun_binding(begun->account_id, begun->state_hash);
    struct buf text;
    buf_init(&text, VAULT_PLAIN_MAX);
    write_pending(begin, &text);
    int result = buf_is_ok(&text) ? vault_seal(begin->service->config.ring, &binding,
                                               buf_slice(&text), &begin->sealed)
                                  : ERR_LIMIT;
    mem_wipe(text.ptr, text.cap);
    buf_deinit(&text);
    return result;
}

/* ---- the URL ---- */

/* A manifest's authorize_url may already have a query. */
static void put_pair(struct buf *url, slice name, slice value)
{
    buf_append_char(url, slice_find_char(buf_slice(url), '?') < 0 ? '?' : '&');
    encode_percent(url, name);
    buf_append_char(url, '=');
    encode_percent(url, value);
}

/* RFC 7636 4.2, method S256. */
static void put_challenge(const struct oauth_begin *begin, struct buf *url)
{
    uint8_t hash[32];
    char text[BASE64URL_LEN(sizeof(hash))];
    vault_sha256(slice_cstr(begin->verifier), hash);
    put_pair(url, SLICE("code_challenge"),
             encode_base64url_in(text, sizeof(text), slice_of(hash, sizeof(hash))));
    put_pair(url, SLICE("code_challenge_method"), SLICE("S256"));
}

/* The scopes for reading the identity are requested, but not stored: no action needs them, so they
 * are never reported as missing. */
static void put_scopes(const struct oauth_begin *begin, struct buf *url)
{
    const struct catalog_auth *auth = begin->auth;
    const struct json *more = begin->integration->identity.scopes;
    struct buf scopes;
    buf_init(&scopes, OAUTH_URL_BYTES_MAX);
    write_scopes(begin, auth->scope_separator, &scopes);
    for (uint32_t i = 0; more && i < more->count; i++)
        append_scope(json_str(&more->as.items[i]), auth->scope_separator, &scopes);
    if (scopes.len > 0)
        put_pair(url, SLICE("scope"), buf_slice(&scopes));
    url->is_failed = url->is_failed || !buf_is_ok(&scopes);
    buf_deinit(&scopes);
}

/* The manifest maps parameter names to members of an identity. The identity is the request's, else
 * that of the connection to reconnect. */
static void put_hints(const struct oauth_begin *begin, struct buf *url)
{
    const struct json *hints = begin->auth->login_hint;
    const struct connection_identity *row = &begin->row.identity, *wanted = &begin->in.hint;
    const struct connection_identity *identity = connection_identity_is_known(wanted) ? wanted
                                                                                      : row;
    for (uint32_t i = 0; hints && i < hints->count; i++) {
        slice member = json_str(&hints->as.members[i].value);
        slice subject = identity->subject; /* of "workspace/user", the workspace */
        slice value = slice_eq_cstr(member, "email")     ? identity->email
                      : slice_eq_cstr(member, "subject") ? slice_split(&subject, '/')
                                                         : identity->label;
        if (value.ptr)
            put_pair(url, json_str(&hints->as.members[i].key), value);
    }
}

static slice make_url(struct oauth_begin *begin, slice client_id)
{
    const struct catalog_auth *auth = begin->auth;
    const struct json *more = auth->authorize_params;
    struct buf url;
    buf_init(&url, OAUTH_URL_BYTES_MAX);
    buf_append(&url, begin->authorize_url);
    put_pair(&url, SLICE("response_type"), SLICE("code"));
    put_pair(&url, SLICE("client_id"), client_id);
    put_pair(&url, SLICE("redirect_uri"), begin->in.redirect_uri);
    put_scopes(begin, &url);
    put_pair(&url, SLICE("state"), slice_cstr(begin->state));
    if (auth->uses_pkce)
        put_challenge(begin, &url);
    for (uint32_t i = 0; more && i < more->count; i++)
        put_pair(&url, json_str(&more->as.members[i].key), json_str(&more->as.members[i].value));
    put_hints(begin, &url);
    return arena_take(&begin->op.arena, &url);
}

/* ---- steps ---- */

/* Whether the connection can be reconnected. Returns false with *status OK if it belongs to another
 * app. */
static bool is_reconnectable(struct oauth_begin *begin, int *status)
{
    struct connection *row = &begin->row;
    *status = store_connection_get_result(&begin->query, row);
    return *status == OK && slice_eq(row->integration_id, begin->integration->integration_id);
}

/* The addresses may depend on the customer: they are made from the given params, else from those
 * of the connection to reconnect. */
static bool find_server(struct oauth_begin *begin)
{
    struct arena *arena = &begin->op.arena;
    slice text = begin->in.params.ptr           ? begin->in.params
                 : begin->in.connection_id != 0 ? begin->row.params
                                                : SLICE_NONE;
    const struct json *params = text.len > 0 ? json_parse(arena, text, &json_limits_provider, NULL)
                                             : NULL;
    begin->authorize_url = oauth_url_make(begin->auth->authorize_url, params, arena);
    begin->token_url = oauth_url_make(begin->auth->token_url, params, arena);
    return begin->authorize_url.ptr && begin->token_url.ptr;
}

/* A person is not sent to an app for a grant that could not be stored. Further connections may be
 * made before the browser returns, so the insert counts again (save.c). */
static bool is_full(struct oauth_begin *begin, int *status)
{
    size_t count = 0, connections_max = begin->service->config.connections_max;
    *status = OK;
    if (begin->in.connection_id != 0 || connections_max == 0)
        return false;
    *status = store_count_result(&begin->query, &count);
    return *status == OK && count >= connections_max;
}

static enum op_result step_save(struct op *op)
{
    struct oauth_begin *begin = begin_of(op);
    struct secret *secret;
    slice client_id;
    int status = oauth_client_result(begin->service, &begin->lookup,
                                     begin->integration->integration_id, &client_id, &secret);
    secret_unref(secret); /* here it only matters that it can be opened; oauth_finish.c sends it */
    if (status == ERR_NOTFOUND || status == ERR_CRYPTO)
        return stop_begin(begin, OAUTH_NO_CLIENT,
                          arena_printf(&op->arena,
                                       "This server has no usable OAuth client for %.*s. Its "
                                       "operator sets one with `sluice oauth-clients`.",
                                       SLICE_ARG(begin->integration->name)));
    if (status != OK)
        return stop_begin_database(begin);
    if (begin->in.connection_id != 0 && !is_reconnectable(begin, &status))
        return status == OK || status == ERR_NOTFOUND
                   ? stop_begin(begin, OAUTH_CONNECTION_UNKNOWN,
                                SLICE("There is no such connection to reconnect."))
                   : stop_begin_database(begin);
    if (!find_server(begin))
        return stop_begin(begin, OAUTH_UNSUPPORTED,
                          arena_printf(&op->arena,
                                       "You sign in to %.*s at an address of your own. Enter the "
                                       "part of its host name that the form asks for.",
                                       SLICE_ARG(begin->integration->name)));
    if (is_full(begin, &status))
        return stop_begin(begin, OAUTH_FULL, connect_say_full(begin->service, &op->arena));
    if (status != OK)
        return stop_begin_database(begin);
    slice prefix = begin->in.state_prefix;
    ASSERT(prefix.len <= OAUTH_STATE_PREFIX_MAX);
    if (prefix.len > 0)
        memcpy(begin->state, prefix.ptr, prefix.len);
    draw_random_text(begin->state + prefix.len);
    draw_random_text(begin->verifier);
    /* only hashes are stored: a reader of the table cannot finish what another person began */
    vault_sha256(slice_cstr(begin->state), begin->begun.state_hash);
    vault_sha256(begin->in.session_id, begin->begun.session_hash);
    begin->url = make_url(begin, client_id);
    if (!begin->url.ptr || seal_pending(begin) != OK)
        return stop_begin(begin, OAUTH_UNAVAILABLE, SLICE("The request would be too large."));
    begin->begun.sealed = buf_slice(&begin->sealed);
    store_oauth_begun_insert(begin->service->config.pool, &begin->query, op, &begin->begun);
    return OP_WAIT;
}

static enum op_result step_saved(struct op *op)
{
    struct oauth_begin *begin = begin_of(op);
    if (store_done_result(&begin->query) != OK)
        return stop_begin_database(begin);
    begin->outcome = OAUTH_DONE;
    begin->message = SLICE_NONE;
    return OP_DONE;
}

static void on_end(struct op *op, enum op_end end)
{
    struct oauth_begin *begin = begin_of(op);
    (void)end;
    if (begin->outcome != OAUTH_DONE)
        begin->url = SLICE_NONE;
    mem_wipe(begin->verifier, sizeof(begin->verifier));
    buf_deinit(&begin->sealed);
    catalog_unref(begin->catalog);
    begin->catalog = NULL;
    begin->integration = NULL;
}

static const struct op_step steps[] = {
    {"find", step_find, 0},
    {"save", step_save, 0},
    {"saved", step_saved, 0},
};
static const struct op_class begin_class = {
    .name = "oauth_begin",
    OP_STEPS(steps),
    .on_end = on_end,
};

void oauth_begin_start(struct connect_service *service, struct oauth_begin *begin,
                       const struct oauth_begin_request *request, struct op *parent)
{
    int64_t now = clock_shared_us();
    ASSERT(request->session_id.len > 0 && service->config.catalog);
    *begin = (struct oauth_begin){
        .outcome = OAUTH_UNAVAILABLE,
        .message = SLICE("This server is shutting down."),
        .service = service,
        .in = *request,
        .catalog = catalog_ref(*service->config.catalog),
        .begun = {.account_id = request->account_id,
                  .integration_id = request->integration_id,
                  .key_id = vault_ring_key_id(service->config.ring),
                  .created_at = now,
                  .expires_at = now + OAUTH_BEGUN_MS * 1000LL},
    };
    begin->integration = catalog_find_integration(begin->catalog, request->integration_id, NULL);
    buf_init(&begin->sealed, VAULT_PLAIN_MAX + VAULT_SEAL_OVERHEAD);
    op_start(&begin->op, &begin_class, service->loop, parent, BEGIN_ARENA_BYTES_MAX);
}
