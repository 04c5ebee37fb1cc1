/*
 * The token endpoint; see oauth_token.h. Replies are parsed leniently where providers differ (JSON
 * or a form, numbers as text, errors with status 200), and strictly where a text is used: a token
 * must be visible ASCII, because it is sent in a header.
 */
#include "connect/oauth_token.h"

#include "base/ascii.h"
#include "base/encode.h"
#include "base/mem.h"

enum {
    /* small enough that its microseconds can be added to any time */
    EXPIRES_IN_S_MAX = 10 * 365 * 24 * 3600,
    ERROR_CODE_MAX = 64,
    SCOPES_BYTES_MAX = 16 * 1024,
};

/* ---- the request ---- */

/* An empty value is omitted: write_body calls this for the fields of all grants. */
static void put_parameter(struct buf *out, bool as_json, struct json_writer *w, const char *name,
                          slice value)
{
    if (value.len == 0)
        return;
    if (as_json) {
        json_member_str(w, name, value);
        return;
    }
    if (out->len > 0)
        buf_append_char(out, '&');
    buf_append_cstr(out, name);
    buf_append_char(out, '=');
    encode_percent(out, value);
}

static slice grant_name(enum oauth_grant grant)
{
    switch (grant) {
    case OAUTH_GRANT_CODE:
        return SLICE("authorization_code");
    case OAUTH_GRANT_REFRESH:
        return SLICE("refresh_token");
    case OAUTH_GRANT_CLIENT:
        return SLICE("client_credentials");
    }
    UNREACHABLE("a grant has a name");
}

/* Writes the manifest's scopes with its separator, only for client credentials: for other grants a
 * person has allowed the scopes. */
static void write_client_scopes(const struct oauth_ask *ask, struct buf *scope)
{
    const struct json *scopes = ask->auth->scopes;
    if (ask->grant != OAUTH_GRANT_CLIENT || !scopes)
        return;
    for (uint32_t i = 0; i < scopes->count; i++) {
        if (i > 0)
            buf_append(scope, ask->auth->scope_separator);
        buf_append(scope, json_str(&scopes->as.items[i]));
    }
}

static void write_body(const struct oauth_ask *ask, struct buf *out, slice scope)
{
    struct json_writer w;
    bool as_json = ask->auth->token_as_json, by_basic = ask->auth->token_by_basic;
    if (as_json) {
        json_begin(&w, out);
        json_open(&w, '{');
    }
    put_parameter(out, as_json, &w, "grant_type", grant_name(ask->grant));
    put_parameter(out, as_json, &w, "code", ask->code);
    put_parameter(out, as_json, &w, "redirect_uri", ask->redirect_uri);
    put_parameter(out, as_json, &w, "code_verifier", ask->verifier);
    put_parameter(out, as_json, &w, "refresh_token", ask->refresh_token);
    put_parameter(out, as_json, &w, "scope", scope);
    /* a public client has no secret for a Basic header, and is named in the body (RFC 6749
     * 4.1.3) */
    if (!by_basic || ask->client_secret.len == 0)
        put_parameter(out, as_json, &w, "client_id", ask->client_id);
    if (!by_basic)
        put_parameter(out, as_json, &w, "client_secret", ask->client_secret);
    if (as_json)
        json_close(&w, '}');
}

/* RFC 6749 2.3.1: both are form-encoded before they are joined into one text. */
static void write_authorization(const struct oauth_ask *ask, struct buf *out)
{
    struct buf pair;
    buf_init(&pair, OAUTH_REQUEST_BYTES_MAX);
    encode_percent(&pair, ask->client_id);
    buf_append_char(&pair, ':');
    encode_percent(&pair, ask->client_secret);
    buf_append_cstr(out, "Basic ");
    encode_base64(out, buf_slice(&pair));
    out->is_failed = out->is_failed || !buf_is_ok(&pair);
    out->is_over = out->is_over || pair.is_over;
    mem_wipe(pair.ptr, pair.len);
    buf_deinit(&pair);
}

/* Masks the secret itself, and its form encoding if that differs. */
static void keep_secret(struct oauth_request *request, slice secret)
{
    struct buf *texts = &request->secret_texts;
    size_t at = texts->len;
    buf_append(texts, secret);
    size_t encoded_at = texts->len;
    encode_percent(texts, secret);
    slice encoded = slice_from(buf_slice(texts), encoded_at);
    secret_mask_add(&request->secrets, slice_of(texts->ptr + at, encoded_at - at));
    if (!slice_eq(encoded, secret))
        secret_mask_add(&request->secrets, encoded);
}

/* The masks point into secret_texts, so the room for its bytes is reserved first. */
static bool keep_secrets(const struct oauth_ask *ask, struct oauth_request *request)
{
    const slice secrets[] = {ask->client_secret, ask->code, ask->verifier, ask->refresh_token};
    size_t bytes = 0;
    for (size_t i = 0; i < ARRAY_LEN(secrets); i++)
        bytes += (1 + 3) * secrets[i].len;
    buf_init(&request->secret_texts, 8 * (size_t)OAUTH_REQUEST_BYTES_MAX);
    if (bytes == 0)
        return true;
    if (!buf_reserve(&request->secret_texts, bytes))
        return false;
    for (size_t i = 0; i < ARRAY_LEN(secrets); i++)
        keep_secret(request, secrets[i]);
    return true;
}

static void add_header(struct oauth_request *request, const char *name, slice value)
{
    ASSERT(request->header_count < OAUTH_REQUEST_HEADERS_MAX);
    request->headers[request->header_count++] = (struct http_header){slice_cstr(name), value};
}

int oauth_request_make(const struct oauth_ask *ask, struct oauth_request *request,
                       struct http_call *call)
{
    struct buf scope;
    ASSERT((ask->grant == OAUTH_GRANT_REFRESH) == (ask->refresh_token.len > 0));
    ASSERT(ask->grant == OAUTH_GRANT_CODE || ask->code.len == 0);
    *request = (struct oauth_request){.header_count = 0};
    buf_init(&request->body, OAUTH_REQUEST_BYTES_MAX);
    buf_init(&request->authorization, OAUTH_REQUEST_BYTES_MAX);
    buf_init(&scope, SCOPES_BYTES_MAX);
    write_client_scopes(ask, &scope);
    write_body(ask, &request->body, buf_slice(&scope));
    bool is_ok = buf_is_ok(&scope) && buf_is_ok(&request->body) && keep_secrets(ask, request);
    bool is_over = scope.is_over;
    buf_deinit(&scope);
    /* without it GitHub answers in form encoding */
    add_header(request, "Accept", SLICE("application/json"));
    add_header(request, "Content-Type",
               ask->auth->token_as_json ? SLICE("application/json")
                                        : SLICE("application/x-www-form-urlencoded"));
    if (ask->auth->token_by_basic && ask->client_secret.len > 0) {
        write_authorization(ask, &request->authorization);
        is_ok = is_ok && buf_is_ok(&request->authorization);
        secret_mask_add(&request->secrets,
                        slice_from(buf_slice(&request->authorization), strlen("Basic ")));
        add_header(request, "Authorization", buf_slice(&request->authorization));
    }
    request->body_part = buf_slice(&request->body);
    call->method = SLICE("POST");
    call->url = ask->token_url.len > 0 ? ask->token_url : ask->auth->token_url;
    call->headers = request->headers;
    call->header_count = request->header_count;
    call->body_parts = &request->body_part;
    call->body_part_count = 1;
    call->response_bytes_max = OAUTH_REPLY_BYTES_MAX;
    is_over = is_over || request->body.is_over || request->authorization.is_over;
    return is_ok ? OK : is_over ? ERR_LIMIT : ERR_NOMEM;
}

void oauth_request_deinit(struct oauth_request *request)
{
    mem_wipe(request->body.ptr, request->body.cap);
    mem_wipe(request->authorization.ptr, request->authorization.cap);
    mem_wipe(request->secret_texts.ptr, request->secret_texts.cap);
    buf_deinit(&request->secret_texts);
    buf_deinit(&request->body);
    buf_deinit(&request->authorization);
    *request = (struct oauth_request){.header_count = 0};
}

/* ---- scopes ---- */

/* RFC 6749 3.3 separates scopes by spaces, but some providers use commas. */
static bool next_scope(slice *text, slice *scope)
{
    while (text->len > 0) {
        size_t len = 0;
        while (len < text->len && text->ptr[len] != ' ' && text->ptr[len] != ',')
            len++;
        *scope = slice_first(*text, len);
        *text = slice_from(*text, len + 1);
        if (scope->len > 0)
            return true;
    }
    return false;
}

slice oauth_scopes_normal(slice text, struct arena *arena)
{
    struct buf out;
    slice scope;
    if (!text.ptr || text.len > SCOPES_BYTES_MAX)
        return SLICE_NONE;
    buf_init(&out, SCOPES_BYTES_MAX);
    while (next_scope(&text, &scope)) {
        if (!http_is_visible(scope))
            continue;
        if (out.len > 0)
            buf_append_char(&out, ' ');
        buf_append(&out, scope);
    }
    slice normal = out.len > 0 ? arena_dup(arena, buf_slice(&out)) : SLICE_NONE;
    buf_deinit(&out);
    return normal;
}

static bool has_granted_scope(slice granted, slice wanted)
{
    slice scope;
    while (next_scope(&granted, &scope))
        if (slice_eq(scope, wanted))
            return true;
    return false;
}

slice oauth_scopes_missing(const struct json *wanted, slice granted, struct arena *arena)
{
    struct buf out;
    buf_init(&out, SCOPES_BYTES_MAX);
    for (uint32_t i = 0; wanted && i < wanted->count; i++) {
        slice scope = json_str(&wanted->as.items[i]);
        if (has_granted_scope(granted, scope))
            continue;
        if (out.len > 0)
            buf_append_char(&out, ' ');
        buf_append(&out, scope);
    }
    slice missing = out.len > 0 ? arena_dup(arena, buf_slice(&out)) : SLICE_NONE;
    buf_deinit(&out);
    return missing;
}

/* ---- the reply ---- */

/* Parses name=value pairs into an object of strings; NULL if it is not a form. Names are those
 * of RFC 6749 and vendors' (a to z and _), so that an HTML page is not parsed as a form. */
static const struct json *parse_form(slice text, struct arena *arena)
{
    struct json *object = ARENA_NEW(arena, struct json);
    struct buf part;
    if (!object)
        return NULL;
    *object = json_object();
    buf_init(&part, OAUTH_REPLY_BYTES_MAX);
    bool is_form = true;
    while (text.len > 0 && is_form) {
        slice value = slice_split(&text, '&'), name = slice_split(&value, '=');
        buf_clear(&part);
        is_form = name.len > 0 && decode_percent(&part, value.ptr ? value : SLICE(""), true) == OK;
        for (size_t i = 0; i < name.len; i++)
            is_form = is_form && (ascii_is_lower(name.ptr[i]) || name.ptr[i] == '_');
        if (is_form)
            json_object_set(arena, object, name, json_string_dup(arena, buf_slice(&part)));
    }
    mem_wipe(part.ptr, part.cap);
    buf_deinit(&part);
    return is_form && !arena->is_exhausted ? object : NULL;
}

static const struct json *parse_reply(const struct http_call *call, struct arena *arena)
{
    const struct json *object = json_parse(arena, call->body, &json_limits_provider, NULL);
    if (object)
        return json_is(object, JSON_OBJECT) ? object : NULL;
    return parse_form(call->body, arena);
}

/* A token is inserted into a header unchanged. */
static bool is_token(slice text)
{
    return text.len > 0 && text.len <= OAUTH_TOKEN_BYTES_MAX && http_is_visible(text);
}

/* Reads a number, or a number in a string. A malformed value counts as absent. */
static int64_t read_expires_in(const struct json *value)
{
    int64_t seconds = 0;
    if (!value)
        return 0;
    if (!json_to_i64(value, &seconds) && !slice_to_i64(json_str(value), &seconds))
        return 0;
    if (seconds < 0)
        return 0;
    return seconds < EXPIRES_IN_S_MAX ? seconds : EXPIRES_IN_S_MAX;
}

/* Whether a token of this type needs more than its text (RFC 6749 7.1). */
static bool is_bound_type(slice type)
{
    return slice_eq_nocase(type, SLICE("mac")) || slice_eq_nocase(type, SLICE("dpop"));
}

static void fail_reply(struct oauth_reply *reply, enum oauth_verdict verdict, slice message)
{
    reply->verdict = verdict;
    reply->message = message;
}

/* The error codes are those of RFC 6749 5.2, and codes that some servers send with status 200. */
static enum oauth_verdict verdict_of(slice error)
{
    slice outage =
        SLICE("temporarily_unavailable server_error slow_down ratelimited internal_error");
    return slice_has_word(outage, error) ? OAUTH_OUTAGE : OAUTH_REFUSED;
}

/* The code is used in messages and the audit trail, so it is repeated only if it is a short word of
 * visible characters. */
static void read_error(struct oauth_reply *reply, slice error, const struct secret_mask *secrets,
                       struct arena *arena)
{
    bool is_word = error.len > 0 && error.len <= ERROR_CODE_MAX && http_is_visible(error);
    error = secret_mask_text(secrets, error, arena);
    reply->error = is_word && error.ptr ? arena_dup(arena, error) : SLICE("an unreadable error");
    reply->verdict = verdict_of(reply->error);
    reply->message =
        arena_printf(arena, "its authorization server answered %.*s", SLICE_ARG(reply->error));
}

static void read_tokens(struct oauth_reply *reply, const struct json *object,
                        const struct secret_mask *secrets, struct arena *arena)
{
    slice refresh = json_get_str(object, SLICE("refresh_token"));
    reply->verdict = OAUTH_GRANTED;
    reply->access_token = json_get_str(object, SLICE("access_token"));
    reply->refresh_token = is_token(refresh) ? refresh : SLICE_NONE;
    reply->expires_in_s = read_expires_in(json_get(object, SLICE("expires_in")));
    reply->id_token = json_get_str(object, SLICE("id_token"));
    slice scopes = oauth_scopes_normal(json_get_str(object, SLICE("scope")), arena);
    reply->scopes = secret_mask_text(secrets, scopes, arena);
}

static void mask_tokens(const struct json *object, struct secret_mask *secrets)
{
    static const char *const names[] = {"access_token", "refresh_token", "id_token"};
    for (size_t i = 0; i < ARRAY_LEN(names); i++)
        secret_mask_add(secrets, json_get_str(object, slice_cstr(names[i])));
}

/* Reads the reply's object if the status shows that it is an answer. */
static void read_object(struct oauth_reply *reply, const struct catalog_auth *auth,
                        const struct oauth_request *request, unsigned status,
                        const struct json *object, struct arena *arena)
{
    struct secret_mask secrets = request->secrets;
    mask_tokens(object, &secrets);
    const struct json *error = json_get(object, SLICE("error"));
    bool is_success = status / 100 == 2, is_error = error && error->type != JSON_NULL;
    bool has_token = is_success && is_token(json_get_str(object, SLICE("access_token")));
    if (is_error) /* this is checked first, since some errors come with empty tokens */
        read_error(reply, json_str(error), &secrets, arena);
    else if (!is_success)
        fail_reply(reply, OAUTH_OUTAGE,
                   arena_printf(arena,
                                "its authorization server answered with HTTP %u and no "
                                "error code",
                                status));
    else if (!has_token)
        fail_reply(reply, OAUTH_OUTAGE,
                   SLICE("its authorization server's reply holds no access token"));
    else if (is_bound_type(json_get_str(object, SLICE("token_type"))))
        fail_reply(reply, OAUTH_REFUSED,
                   SLICE("its authorization server gave a kind of token that sluice cannot send"));
    else
        read_tokens(reply, object, &secrets, arena);
    bool is_refusal = is_error || !has_token;
    if (!is_refusal || !catalog_grant_is_gone(auth, status, object, arena))
        return;
    reply->verdict = OAUTH_GONE;
    if (!is_error || json_str(error).len == 0) { /* the server did not send an error code */
        reply->error = SLICE("invalid_grant");
        reply->message = SLICE("its authorization server says that the grant has ended");
    }
}

static void read_call(const struct http_call *call, struct arena *arena, struct oauth_reply *reply)
{
    switch (call->result) {
    case HTTP_CALL_TIMEOUT:
    case HTTP_CALL_TIMEOUT_CONNECT:
        fail_reply(reply, OAUTH_TIMEOUT, SLICE("its authorization server did not answer in time"));
        return;
    case HTTP_CALL_ADDRESS_REFUSED:
        fail_reply(reply, OAUTH_REFUSED,
                   SLICE("the address of its authorization server is not allowed here"));
        return;
    default:
        fail_reply(reply, OAUTH_OUTAGE,
                   arena_printf(arena, "its authorization server could not be asked (%s)",
                                http_call_result_name(call->result)));
    }
}

void oauth_reply_read(const struct catalog_auth *auth, const struct oauth_request *request,
                      const struct http_call *call, struct arena *arena, struct oauth_reply *reply)
{
    *reply = (struct oauth_reply){.verdict = OAUTH_OUTAGE};
    if (call->result != HTTP_CALL_OK) {
        read_call(call, arena, reply);
        return;
    }
    /* A reply that is neither JSON nor a form may come from a proxy, and says nothing about the
     * grant. */
    bool is_answer = call->status / 100 == 2 ||
                     (call->status / 100 == 4 && call->status != 429 && call->status != 408);
    const struct json *object = is_answer ? parse_reply(call, arena) : NULL;
    if (object)
        read_object(reply, auth, request, call->status, object, arena);
    else
        reply->message = arena_printf(arena, "its authorization server answered with HTTP %u%s",
                                      call->status, is_answer ? " and nothing readable" : "");
}

/* ---- the credential ---- */

/* Other members of the previous credential are kept: a client's own id and secret, and the
 * refresh token if the server sends no new one (RFC 6749 6). */
static bool is_replaced(slice name, const struct oauth_reply *reply)
{
    return slice_eq_cstr(name, "access_token") || slice_eq_cstr(name, "expires_at") ||
           slice_eq_cstr(name, "expires_in") ||
           (slice_eq_cstr(name, "refresh_token") && reply->refresh_token.ptr);
}

int oauth_credential_write(const struct json *former, const struct oauth_reply *reply,
                           struct buf *out)
{
    struct json_writer w;
    ASSERT(reply->verdict == OAUTH_GRANTED && reply->access_token.len > 0);
    json_begin(&w, out);
    json_open(&w, '{');
    json_member_str(&w, "access_token", reply->access_token);
    if (reply->refresh_token.ptr)
        json_member_str(&w, "refresh_token", reply->refresh_token);
    for (uint32_t i = 0; former && i < former->count; i++) {
        const struct json_member *member = &former->as.members[i];
        if (is_replaced(json_str(&member->key), reply))
            continue;
        json_key_slice(&w, json_str(&member->key));
        json_put(&w, &member->value);
    }
    json_close(&w, '}');
    return buf_is_ok(out) ? OK : ERR_LIMIT;
}
