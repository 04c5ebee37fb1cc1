/*
 * Building a request; see build.h. Every text that goes out is made here, so this is the place
 * where encodings and refusals are decided.
 */
#include "exec/build.h"

#include "base/encode.h"
#include "base/id.h"
#include "base/mem.h"

enum {
    BUILD_URL_BYTES_MAX = 16 * 1024,
    BUILD_BODY_BYTES_MAX = 64 * 1024 * 1024,
    BUILD_BOUNDARY_LEN = 24,
};

struct build {
    const struct catalog_action *action;
    struct arena *arena;
    struct json root;
    struct expr_budget budget;
    struct exec_built *out;
    struct err *err;
};

static void make_root(struct build *b, const struct exec_scope *scope)
{
    static const struct json empty = {.type = JSON_OBJECT};
    struct json connection = json_object();
    json_object_set(b->arena, &connection, SLICE("params"),
                    scope->connection_params ? *scope->connection_params : empty);
    b->root = json_object();
    json_object_set(b->arena, &b->root, SLICE("input"), scope->input ? *scope->input : empty);
    json_object_set(b->arena, &b->root, SLICE("connection"), connection);
    json_object_set(b->arena, &b->root, SLICE("files"), json_array());
}

static int eval(struct build *b, const struct expr_template *tmpl, unsigned flags,
                struct json *value)
{
    return expr_template_eval(tmpl, &b->root, flags, &b->budget, b->arena, value, b->err);
}

/* A scalar as text: strings as they are, numbers and booleans as JSON. */
static int scalar_text(struct build *b, const struct json *value, slice name, slice *text)
{
    if (value->type == JSON_STRING) {
        *text = json_str(value);
        return OK;
    }
    if (value->type == JSON_ARRAY || value->type == JSON_OBJECT)
        return err_set(b->err, ERR_INVALID, "%.*s: %s cannot be sent here", SLICE_ARG(name),
                       json_type_name(value));
    struct buf out;
    buf_init(&out, 1024);
    json_write(&out, value);
    *text = arena_dup(b->arena, buf_slice(&out));
    bool is_ok = buf_is_ok(&out) && text->ptr;
    buf_deinit(&out);
    return is_ok ? OK : err_set(b->err, ERR_NOMEM, "out of memory");
}

/* ---- url-encoded pairs: query and form ---- */

static int append_pair(struct build *b, struct buf *out, char lead, slice name,
                       const struct json *value)
{
    slice text;
    if (scalar_text(b, value, name, &text) != OK)
        return (int)b->err->code;
    if (lead)
        buf_append_char(out, lead);
    encode_percent(out, name);
    buf_append_char(out, '=');
    encode_percent(out, text);
    return OK;
}

/* name=value pairs; null is left out, an array repeats its name. `lead` goes before the first. */
static int append_pairs(struct build *b, struct buf *out, char lead,
                        const struct catalog_parts *parts)
{
    for (size_t i = 0; i < parts->count; i++) {
        struct json value;
        const struct json *items = &value;
        uint32_t count = 1;
        if (eval(b, parts->items[i].value, EXPR_DROP_NULL_MEMBERS, &value) != OK)
            return (int)b->err->code;
        if (value.type == JSON_ARRAY) {
            items = value.as.items;
            count = value.count;
        }
        for (uint32_t j = 0; j < count; j++) {
            if (items[j].type == JSON_NULL)
                continue;
            if (append_pair(b, out, lead, parts->items[i].name, &items[j]) != OK)
                return (int)b->err->code;
            lead = '&';
        }
    }
    return OK;
}

/* ---- headers ---- */

static int add_header(struct build *b, slice name, slice value)
{
    struct exec_built *out = b->out;
    if (!http_is_token(name) || !http_is_field_value(value))
        return err_set(b->err, ERR_INVALID,
                       "header %.*s: the value holds characters that may not be sent",
                       SLICE_ARG(name));
    for (size_t i = 0; i < out->header_count; i++)
        if (slice_eq_nocase(out->headers[i].name, name)) {
            out->headers[i].value = value;
            return OK;
        }
    if (out->header_count == HTTP_CALL_HEADERS_MAX)
        return err_set(b->err, ERR_LIMIT, "more than %d headers", HTTP_CALL_HEADERS_MAX);
    out->headers[out->header_count++] = (struct http_header){name, value};
    return OK;
}

static int add_headers(struct build *b, const struct catalog_parts *parts)
{
    for (size_t i = 0; i < parts->count; i++) {
        struct json value;
        slice text;
        if (eval(b, parts->items[i].value, 0, &value) != OK)
            return (int)b->err->code;
        if (value.type == JSON_NULL)
            continue;
        if (scalar_text(b, &value, parts->items[i].name, &text) != OK ||
            add_header(b, parts->items[i].name, text) != OK)
            return (int)b->err->code;
    }
    return OK;
}

/* ---- the credential ---- */

static int basic_header(struct build *b, const struct json *credential, slice *value)
{
    slice user = json_get_str(credential, SLICE("username"));
    slice password = json_get_str(credential, SLICE("password"));
    slice pair = arena_printf(b->arena, "%.*s:%.*s", SLICE_ARG(user), SLICE_ARG(password));
    struct buf out;
    buf_init(&out, 16 * 1024);
    buf_append_cstr(&out, "Basic ");
    encode_base64(&out, pair);
    *value = arena_dup(b->arena, buf_slice(&out));
    mem_wipe(out.ptr, out.len);
    bool is_ok = buf_is_ok(&out) && value->ptr;
    buf_deinit(&out);
    return is_ok ? OK : err_set(b->err, ERR_NOMEM, "out of memory");
}

/* The value that auth.send makes of the credential. Its errors never quote it. */
static int credential_text(struct build *b, const struct json *credential, slice *text)
{
    const struct catalog_auth *auth = &b->action->integration->auth;
    if (!auth->send_value)
        return basic_header(b, credential, text);
    struct json root = b->root, value;
    struct err detail;
    json_object_set(b->arena, &root, SLICE("credential"), *credential);
    int result =
        expr_template_eval(auth->send_value, &root, 0, &b->budget, b->arena, &value, &detail);
    *text = json_str(&value);
    if (result == OK && text->len > 0)
        return OK;
    return err_set(b->err, ERR_CRYPTO,
                   "the stored credential lacks what this app needs; connect the app again");
}

static int add_credential(struct build *b, const struct json *credential, struct buf *url)
{
    const struct catalog_auth *auth = &b->action->integration->auth;
    slice text;
    b->out->credential_index = SIZE_MAX;
    if (auth->kind == AUTH_NONE || !credential)
        return OK;
    if (credential_text(b, credential, &text) != OK)
        return (int)b->err->code;
    if (auth->send_in_query) {
        buf_append_char(url, slice_find_char(buf_slice(url), '?') < 0 ? '?' : '&');
        encode_percent(url, auth->send_name);
        buf_append_char(url, '=');
        encode_percent(url, text);
        return OK;
    }
    slice name = auth->send_name.len > 0 ? auth->send_name : SLICE("Authorization");
    if (add_header(b, name, text) != OK)
        return err_set(b->err, ERR_CRYPTO,
                       "the stored credential holds characters that may not be sent; connect the "
                       "app again");
    for (size_t i = 0; i < b->out->header_count; i++)
        if (slice_eq_nocase(b->out->headers[i].name, name))
            b->out->credential_index = i;
    return OK;
}

/* ---- the url ---- */

static int append_template(struct build *b, struct buf *out, const struct expr_template *tmpl,
                           unsigned flags)
{
    struct json value;
    if (eval(b, tmpl, flags, &value) != OK)
        return (int)b->err->code;
    ASSERT(value.type == JSON_STRING);
    buf_append(out, json_str(&value));
    return OK;
}

static int build_url(struct build *b, const struct json *credential)
{
    const struct catalog_request *request = &b->action->request;
    struct buf url;
    buf_init(&url, BUILD_URL_BYTES_MAX);
    int result = append_template(b, &url, b->action->integration->base_url, 0);
    if (result == OK)
        result = append_template(b, &url, request->path, EXPR_PATH_SEGMENTS);
    if (result == OK)
        result = append_pairs(b, &url, slice_find_char(buf_slice(&url), '?') < 0 ? '?' : '&',
                              &request->query);
    if (result == OK)
        result = add_credential(b, credential, &url);
    if (result == OK && !buf_is_ok(&url))
        result = err_set(b->err, ERR_INVALID, "the URL would be longer than %d bytes",
                         BUILD_URL_BYTES_MAX);
    b->out->url = arena_dup(b->arena, buf_slice(&url));
    if (result == OK && !b->out->url.ptr)
        result = err_set(b->err, ERR_NOMEM, "out of memory");
    buf_deinit(&url);
    return result;
}

/* ---- the body ---- */

static int body_json(struct build *b, struct buf *out)
{
    struct json value;
    if (eval(b, b->action->request.body, EXPR_DROP_NULL_MEMBERS, &value) != OK)
        return (int)b->err->code;
    json_write(out, &value);
    return add_header(b, SLICE("Content-Type"), SLICE("application/json"));
}

static int body_form(struct build *b, struct buf *out)
{
    if (append_pairs(b, out, '\0', &b->action->request.fields) != OK)
        return (int)b->err->code;
    return add_header(b, SLICE("Content-Type"), SLICE("application/x-www-form-urlencoded"));
}

static int body_raw(struct build *b, struct buf *out)
{
    const struct catalog_request *request = &b->action->request;
    struct json value;
    if (eval(b, request->body, 0, &value) != OK)
        return (int)b->err->code;
    if (value.type != JSON_STRING)
        return err_set(b->err, ERR_INVALID, "the body must be a string, got %s",
                       json_type_name(&value));
    if (!request->raw_is_base64)
        buf_append(out, json_str(&value));
    else if (decode_base64(out, json_str(&value)) != OK)
        return err_set(b->err, ERR_INVALID, "the body is not valid base64");
    return add_header(b, SLICE("Content-Type"), request->raw_content_type);
}

/* RFC 7578. The boundary is random: no value can hold it but by guessing 144 bits. */
static int body_multipart(struct build *b, struct buf *out)
{
    const struct catalog_parts *fields = &b->action->request.fields;
    uint8_t noise[18];
    struct buf boundary;
    random_bytes(noise, sizeof(noise));
    buf_init(&boundary, 64);
    encode_base64url(&boundary, slice_of(noise, sizeof(noise)));
    ASSERT(boundary.len == BUILD_BOUNDARY_LEN);
    int result = OK;
    for (size_t i = 0; i < fields->count && result == OK; i++) {
        struct json value;
        slice text = SLICE_NONE;
        result = eval(b, fields->items[i].value, 0, &value);
        if (result != OK || value.type == JSON_NULL)
            continue;
        result = scalar_text(b, &value, fields->items[i].name, &text);
        buf_printf(out, "--%.*s\r\nContent-Disposition: form-data; name=\"%.*s\"\r\n\r\n",
                   SLICE_ARG(buf_slice(&boundary)), SLICE_ARG(fields->items[i].name));
        buf_append(out, text);
        buf_append_cstr(out, "\r\n");
    }
    buf_printf(out, "--%.*s--\r\n", SLICE_ARG(buf_slice(&boundary)));
    slice type = arena_printf(b->arena, "multipart/form-data; boundary=%.*s",
                              SLICE_ARG(buf_slice(&boundary)));
    buf_deinit(&boundary);
    return result == OK ? add_header(b, SLICE("Content-Type"), type) : result;
}

static int build_body(struct build *b)
{
    static int (*const makers[])(struct build *, struct buf *) = {
        [BODY_JSON] = body_json,
        [BODY_FORM] = body_form,
        [BODY_MULTIPART] = body_multipart,
        [BODY_RAW] = body_raw,
    };
    enum catalog_body_kind kind = b->action->request.body_kind;
    if (kind == BODY_NONE)
        return OK;
    struct buf out;
    buf_init(&out, BUILD_BODY_BYTES_MAX);
    int result = makers[kind](b, &out);
    if (result == OK && buf_is_ok(&out)) {
        b->out->body[0] = arena_dup(b->arena, buf_slice(&out));
        b->out->body_count = 1;
    }
    if (result == OK && !b->out->body[0].ptr)
        result = err_set(b->err, ERR_LIMIT, "the request body would be too large");
    buf_deinit(&out);
    return result;
}

int exec_build(const struct catalog_action *action, const struct exec_scope *scope,
               const struct json *credential, struct arena *arena, struct exec_built *built,
               struct err *err)
{
    struct build b = {.action = action, .arena = arena, .out = built, .err = err};
    *built = (struct exec_built){.credential_index = SIZE_MAX};
    expr_budget_init(&b.budget);
    make_root(&b, scope);
    if (arena->is_exhausted)
        return err_set(err, ERR_NOMEM, "out of memory");
    if (add_header(&b, SLICE("Accept"), SLICE("application/json")) != OK ||
        add_headers(&b, &action->integration->headers) != OK ||
        add_headers(&b, &action->request.headers) != OK || build_body(&b) != OK)
        return (int)err->code;
    return build_url(&b, credential);
}
