/*
 * Building a request; see build.h. Every text that is sent is made in this file, so all decisions
 * on encodings and refusals are here.
 */
#include "call/build.h"

#include "base/encode.h"
#include "base/log.h"
#include "base/mem.h"

enum {
    BUILD_URL_BYTES_MAX = 16 * 1024,
    BUILD_BODY_BYTES_MAX = 64 * 1024 * 1024,
    BUILD_BOUNDARY_LEN = 24,
    BUILD_NAME_BYTES_MAX = 4096, /* size of the name of a form field, with its brackets */
};

struct build {
    const struct catalog_action *action;
    const struct catalog_request *request;
    const struct call_progress *progress; /* NULL: the first request */
    const struct catalog_auth *auth;
    slice key; /* the provider's idempotency key; empty: none */
    struct arena *arena;
    struct json root;
    struct expr_budget budget;
    struct call_built *out;
    struct err *err;
    const struct call_file *files;
    size_t file_count;              /* 0 if another request of the action has the files */
    size_t file_at[CALL_FILES_MAX]; /* multipart: the position of each file in the text of the
                                     * body */
};

static int eval_template(struct build *b, const struct expr_template *tmpl, unsigned flags,
                         struct json *value)
{
    int result = expr_template_eval(tmpl, &b->root, flags, &b->budget, b->arena, value, b->err);
    if (result == OK)
        return OK;
    /* Only logged, since the caller knows the action's input but not how the manifest uses it. */
    log_event(LOG_DEBUG, "an expression of a manifest failed",
              LOG_STR("tool", b->action->tool_name), LOG_CSTR("cause", b->err->text));
    return err_set(b->err, (enum err_code)result, "%s", b->budget.words);
}

/* Makes the text of a scalar: strings unchanged, numbers and booleans as JSON. A whole number is
 * written without a fraction: the schema accepts 1.0 as an integer, but a vendor's query may
 * not. */
static int scalar_text(struct build *b, const struct json *value, slice name, slice *text)
{
    if (value->type == JSON_STRING) {
        *text = json_str(value);
        return OK;
    }
    if (value->type == JSON_ARRAY || value->type == JSON_OBJECT)
        return err_set(b->err, ERR_INVALID, "%.*s: %s cannot be sent here", SLICE_ARG(name),
                       json_type_name(value));
    struct json plain = json_plain_number(value);
    *text = json_text_of(&plain, b->arena, 1024);
    return text->ptr ? OK : err_set(b->err, ERR_NOMEM, "out of memory");
}

/* ---- url-encoded pairs: query and form ---- */

/* Returns the next input that is not in the schema, if the body accepts such members; NULL if there
 * is none. */
static const struct json_member *next_other(const struct build *b, uint32_t *at)
{
    const struct json *input = JSON_GET(&b->root, "input");
    const struct json *named = JSON_GET(b->action->input_schema, "properties");
    while (b->request->takes_others && json_is(input, JSON_OBJECT) && *at < input->count) {
        const struct json_member *member = &input->as.members[(*at)++];
        if (!json_get(named, json_str(&member->key)))
            return member;
    }
    return NULL;
}

/* name is that of the pair being written, with the brackets of its nesting. */
struct pairs {
    struct buf *out;
    struct buf name;
    enum catalog_nesting nesting;
    char lead; /* written before the next pair; NUL: nothing */
};

static int append_value(struct build *b, struct pairs *pairs, const struct json *value);

/* Writes one name=value, both percent-encoded. A null is omitted, since "name=null" would send the
 * text "null". */
static int append_pair(struct build *b, struct pairs *pairs, const struct json *value)
{
    slice text, name = buf_slice(&pairs->name);
    if (value->type == JSON_NULL)
        return OK;
    if (scalar_text(b, value, name, &text) != OK)
        return (int)b->err->code;
    if (pairs->lead)
        buf_append_char(pairs->out, pairs->lead);
    pairs->lead = '&';
    encode_percent(pairs->out, name);
    buf_append_char(pairs->out, '=');
    encode_percent(pairs->out, text);
    return OK;
}

static int check_name(struct build *b, const struct buf *name)
{
    if (buf_is_ok(name))
        return OK;
    if (!name->is_over)
        return err_set(b->err, ERR_NOMEM, "out of memory");
    return err_set(b->err, ERR_INVALID, "%.*s: a name nested there is too long",
                   SLICE_ARG(slice_first_utf8(buf_slice(name), 100)));
}

/* Writes name[key]=value, or key=value if there is no name; nested values likewise. */
static int append_nested(struct build *b, struct pairs *pairs, slice key, const struct json *value)
{
    size_t len = pairs->name.len;
    if (len > 0)
        buf_append_char(&pairs->name, '[');
    buf_append(&pairs->name, key);
    if (len > 0)
        buf_append_char(&pairs->name, ']');
    int result = check_name(b, &pairs->name);
    if (result == OK)
        result = append_value(b, pairs, value);
    pairs->name.len = len;
    return result;
}

/* The manifest defines how an array is written: its name is repeated for each item, or followed
 * by [] or [index]. */
static int append_items(struct build *b, struct pairs *pairs, const struct json *array)
{
    int result = OK;
    for (uint32_t i = 0; i < array->count && result == OK; i++) {
        const struct json *item = &array->as.items[i];
        slice key = pairs->nesting == NESTING_INDICES ? arena_printf(b->arena, "%u", i) : SLICE("");
        result = pairs->nesting == NESTING_REPEAT ? append_pair(b, pairs, item)
                 : pairs->nesting == NESTING_DEEP ? append_value(b, pairs, item)
                                                  : append_nested(b, pairs, key, item);
    }
    return result;
}

/* A null is omitted; the manifest decides the form of arrays and objects. */
static int append_value(struct build *b, struct pairs *pairs, const struct json *value)
{
    int result = OK;
    if (value->type == JSON_ARRAY)
        return append_items(b, pairs, value);
    if (value->type != JSON_OBJECT || pairs->nesting == NESTING_REPEAT)
        return append_pair(b, pairs, value);
    for (uint32_t i = 0; i < value->count && result == OK; i++)
        result = append_nested(b, pairs, json_str(&value->as.members[i].key),
                               &value->as.members[i].value);
    return result;
}

static int append_named(struct build *b, struct pairs *pairs, slice name, const struct json *value)
{
    buf_clear(&pairs->name);
    buf_append(&pairs->name, name);
    int result = check_name(b, &pairs->name);
    return result == OK ? append_value(b, pairs, value) : result;
}

/* Writes name=value pairs; `lead` is written before the first pair. */
static int append_pairs(struct build *b, struct buf *out, char lead,
                        const struct catalog_pairs *templates, bool takes_others)
{
    struct pairs pairs = {.out = out, .nesting = b->request->nesting, .lead = lead};
    const struct json_member *other;
    int result = OK;
    buf_init(&pairs.name, BUILD_NAME_BYTES_MAX);
    for (size_t i = 0; i < templates->count && result == OK; i++) {
        struct json value;
        result = eval_template(b, templates->items[i].value, EXPR_DROP_NULL_MEMBERS, &value);
        if (result == OK)
            result = append_named(b, &pairs, templates->items[i].name, &value);
    }
    for (uint32_t at = 0; takes_others && result == OK && (other = next_other(b, &at)) != NULL;)
        result = append_named(b, &pairs, json_str(&other->key), &other->value);
    buf_deinit(&pairs.name);
    return result;
}

/* ---- headers ---- */

/* An existing header gets the new value: an action's own header overrides the app's. */
static int add_header(struct build *b, slice name, slice value)
{
    struct call_built *out = b->out;
    if (!http_is_token(name) || !http_is_field_value(value))
        return err_set(b->err, ERR_INVALID,
                       "header %.*s: the value has characters that may not be sent",
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

/* A header whose value is null is omitted. */
static int add_headers(struct build *b, const struct catalog_pairs *headers)
{
    for (size_t i = 0; i < headers->count; i++) {
        struct json value;
        slice text;
        if (eval_template(b, headers->items[i].value, 0, &value) != OK)
            return (int)b->err->code;
        if (value.type == JSON_NULL)
            continue;
        if (scalar_text(b, &value, headers->items[i].name, &text) != OK ||
            add_header(b, headers->items[i].name, text) != OK)
            return (int)b->err->code;
    }
    return OK;
}

/* ---- the credential ---- */

/* Makes the header of RFC 7617: user and password in base64. Both copies are wiped; the mask hides
 * the value that remains in the arena. */
static int basic_header(struct build *b, const struct json *credential, slice *value)
{
    slice user = json_get_str(credential, SLICE("username"));
    slice password = json_get_str(credential, SLICE("password"));
    if (!user.ptr || !password.ptr)
        return err_set(b->err, ERR_CRYPTO,
                       "the connection has no \"%s\", which the Basic header needs",
                       user.ptr ? "password" : "username");
    struct buf pair, out;
    buf_init(&pair, 12 * 1024);
    buf_init(&out, 16 * 1024);
    buf_append(&pair, user);
    buf_append_char(&pair, ':');
    buf_append(&pair, password);
    buf_append_cstr(&out, "Basic ");
    encode_base64(&out, buf_slice(&pair));
    *value = arena_dup(b->arena, buf_slice(&out));
    bool is_ok = buf_is_ok(&pair) && buf_is_ok(&out) && value->ptr;
    mem_wipe(pair.ptr, pair.len);
    mem_wipe(out.ptr, out.len);
    buf_deinit(&pair);
    buf_deinit(&out);
    return is_ok ? OK : err_set(b->err, ERR_NOMEM, "out of memory");
}

void call_mask_credential(const struct json *credential, struct secret_mask *mask)
{
    static const char *const names[] = {"access_token", "token",         "api_key",
                                        "password",     "refresh_token", "client_secret"};
    for (size_t i = 0; i < ARRAY_LEN(names); i++)
        secret_mask_add(mask, json_get_str(credential, slice_cstr(names[i])));
}

/* Adds to the mask everything that a provider could send back: the members, and the form in
 * which they were sent. */
static void keep_secrets(struct build *b, const struct json *credential, slice sent)
{
    ptrdiff_t space = slice_find_char(sent, ' '); /* after the scheme: "Bearer", "Basic" */
    call_mask_credential(credential, &b->out->secrets);
    secret_mask_add(&b->out->secrets, slice_from(sent, (size_t)(space + 1)));
}

struct lack {
    const struct json *credential;
    slice member; /* the first missing member; empty: none so far */
};

/* Stops the search at the first missing member. */
static bool on_lack_path(void *user, const slice *names, size_t count)
{
    struct lack *lack = user;
    if (count < 2 || !slice_eq_cstr(names[0], "credential"))
        return true;
    const struct json *value = json_get(lack->credential, names[1]);
    if (!value || value->type == JSON_NULL)
        lack->member = names[1];
    return lack->member.len == 0;
}

static bool on_lack_expr(void *user, const struct expr *expr, slice where)
{
    struct lack *lack = user;
    (void)where;
    expr_root_names(expr, on_lack_path, lack);
    return lack->member.len == 0;
}

/* Only names are written: an error never contains a value of the credential. */
static int refuse_credential(struct build *b, const struct json *credential)
{
    struct lack lack = {.credential = credential};
    expr_template_each_expr(b->auth->send_value, on_lack_expr, &lack);
    if (lack.member.len == 0)
        return err_set(b->err, ERR_CRYPTO,
                       "\"send\" in the app's manifest needs another kind of credential than the "
                       "connection has");
    return err_set(b->err, ERR_CRYPTO,
                   "the connection has no \"%.*s\", which \"send\" in the app's manifest needs",
                   SLICE_ARG(slice_first_utf8(lack.member, 40)));
}

/* Makes the value that auth.send defines from the credential. */
static int credential_text(struct build *b, const struct json *credential, slice *text)
{
    const struct catalog_auth *auth = b->auth;
    if (!auth->send_value) {
        int made = basic_header(b, credential, text);
        if (made == OK)
            keep_secrets(b, credential, *text);
        return made;
    }
    struct json root = b->root, value;
    struct err detail;
    json_object_set(b->arena, &root, SLICE("credential"), *credential);
    unsigned flags = auth->send_in == SEND_IN_PATH ? EXPR_PATH_SEGMENTS : 0;
    int result =
        expr_template_eval(auth->send_value, &root, flags, &b->budget, b->arena, &value, &detail);
    *text = json_str(&value);
    if (result == OK && text->len > 0) {
        keep_secrets(b, credential, *text);
        return OK;
    }
    return b->arena->is_exhausted ? err_set(b->err, ERR_NOMEM, "out of memory")
                                  : refuse_credential(b, credential);
}

/* Appends the path with the credential, which follows base_url. The placeholder is encoded like a
 * segment, so a credential with a slash stays one segment, and a credential that is "" or ".." is
 * refused. */
static int add_credential_path(struct build *b, const struct json *credential, struct buf *url)
{
    const struct catalog_auth *auth = b->auth;
    slice text;
    if (auth->kind == AUTH_NONE || auth->send_in != SEND_IN_PATH || !credential)
        return OK;
    if (credential_text(b, credential, &text) != OK)
        return (int)b->err->code;
    buf_append_char(url, '/');
    b->out->secret_at = url->len;
    buf_append(url, slice_from(text, 1));
    b->out->secret_len = url->len - b->out->secret_at;
    return OK;
}

static int add_credential(struct build *b, const struct json *credential, struct buf *url)
{
    const struct catalog_auth *auth = b->auth;
    slice text;
    b->out->credential_index = SIZE_MAX;
    b->out->is_bare = b->request->is_bare;
    if (auth->kind == AUTH_NONE || auth->send_in == SEND_IN_PATH || !credential)
        return OK;
    if (credential_text(b, credential, &text) != OK)
        return (int)b->err->code;
    if (b->request->is_bare)
        return OK; /* recorded, so that replies do not show it */
    if (auth->send_in == SEND_IN_QUERY) {
        buf_append_char(url, slice_find_char(buf_slice(url), '?') < 0 ? '?' : '&');
        encode_percent(url, auth->send_name);
        buf_append_char(url, '=');
        b->out->secret_at = url->len;
        encode_percent(url, text);
        b->out->secret_len = url->len - b->out->secret_at;
        return OK;
    }
    slice name = auth->send_name.len > 0 ? auth->send_name : SLICE("Authorization");
    if (add_header(b, name, text) != OK)
        return err_set(b->err, ERR_CRYPTO,
                       "the stored credential has characters that may not be sent");
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
    if (eval_template(b, tmpl, flags, &value) != OK)
        return (int)b->err->code;
    ASSERT(value.type == JSON_STRING);
    buf_append(out, json_str(&value));
    return OK;
}

/* Appends base_url, the credential if it is part of the path, and the path, whose placeholders are
 * segments. */
static int append_path(struct build *b, const struct json *credential, struct buf *url)
{
    const struct catalog_request *request = b->request;
    const struct expr_template *base = request->base_url ? request->base_url
                                                         : b->action->integration->base_url;
    if (append_template(b, url, base, 0) != OK)
        return (int)b->err->code;
    size_t base_len = url->len;
    if (add_credential_path(b, credential, url) != OK)
        return (int)b->err->code;
    /* the credential before it is encoded already, and is not checked below */
    size_t path_at = url->len;
    if (append_template(b, url, request->path, EXPR_PATH_SEGMENTS) != OK)
        return (int)b->err->code;
    /* A placeholder's value cannot be "." or "..", but it could complete a dot segment, or contain
     * one after an encoded separator. */
    if (path_has_dot_segment(slice_first(buf_slice(url), base_len)) ||
        path_has_dot_segment(slice_from(buf_slice(url), path_at)))
        return err_set(b->err, ERR_INVALID,
                       "a value would turn a part of the path into \".\" or \"..\"");
    return OK;
}

/* Takes the URL from an earlier reply. */
static int append_url(struct build *b, struct buf *url)
{
    struct json value;
    if (eval_template(b, b->request->url, 0, &value) != OK)
        return (int)b->err->code;
    ASSERT(b->progress && b->progress->at > 0);
    return call_url_follow(b->progress->former_url, json_str(&value), b->request->hosts, url,
                           b->err);
}

static int build_url(struct build *b, const struct json *credential)
{
    const struct catalog_request *request = b->request;
    struct buf url;
    buf_init(&url, BUILD_URL_BYTES_MAX);
    int result = request->url ? append_url(b, &url) : append_path(b, credential, &url);
    if (result == OK)
        result = append_pairs(b, &url, slice_find_char(buf_slice(&url), '?') < 0 ? '?' : '&',
                              &request->query, false);
    if (result == OK)
        result = add_credential(b, credential, &url);
    if (result == OK && url.is_over)
        result = err_set(b->err, ERR_INVALID, "the URL would be longer than %d bytes",
                         BUILD_URL_BYTES_MAX);
    b->out->url = arena_dup(b->arena, buf_slice(&url));
    if (result == OK && (!buf_is_ok(&url) || !b->out->url.ptr))
        result = err_set(b->err, ERR_NOMEM, "out of memory");
    if (result == OK) /* masked in its encoded form */
        secret_mask_add(&b->out->secrets, slice_first(slice_from(b->out->url, b->out->secret_at),
                                                      b->out->secret_len));
    buf_deinit(&url);
    return result;
}

/* ---- the body ---- */

/* Written to a copy, since constant parts of a template are shared. */
static int put_others(struct build *b, struct json *object)
{
    uint32_t at = 0;
    const struct json_member *other = next_other(b, &at);
    struct json copy = json_object();
    if (!other)
        return OK;
    if (object->type != JSON_OBJECT)
        return err_set(b->err, ERR_INVALID, "members cannot be added to the body, because it is %s",
                       json_type_name(object));
    for (uint32_t i = 0; i < object->count; i++)
        json_object_set(b->arena, &copy, json_str(&object->as.members[i].key),
                        object->as.members[i].value);
    for (; other; other = next_other(b, &at))
        json_object_put(b->arena, &copy, json_str(&other->key), other->value);
    *object = copy;
    return OK;
}

/* Sets the member at `path`, whose names are separated by dots, to the text; missing objects on the
 * way are created. Objects along the path are copied, since constant parts of a template are
 * shared. */
static int put_member(struct build *b, struct json *object, slice path, slice text)
{
    slice name = slice_split(&path, '.');
    const struct json *former = json_get(object, name);
    struct json copy = json_object(), inner = former ? *former : json_object();
    if (object->type != JSON_OBJECT)
        return err_set(b->err, ERR_INVALID, "the body cannot take the idempotency key: %s",
                       json_type_name(object));
    for (uint32_t i = 0; i < object->count; i++)
        if (&object->as.members[i].value != former)
            json_object_set(b->arena, &copy, json_str(&object->as.members[i].key),
                            object->as.members[i].value);
    if (path.len > 0 && put_member(b, &inner, path, text) != OK)
        return (int)b->err->code;
    json_object_set(b->arena, &copy, name, path.len > 0 ? inner : json_string(text));
    *object = copy;
    return OK;
}

/* Whether the provider's idempotency key is sent in the body. */
static bool has_key_member(const struct build *b)
{
    return b->key.len > 0 && b->action->idempotency_member.len > 0;
}

static int body_json(struct build *b, struct buf *out)
{
    struct json value;
    const unsigned flags = EXPR_DROP_NULL_MEMBERS | EXPR_KEEP_GIVEN_NULLS;
    if (eval_template(b, b->request->body, flags, &value) != OK)
        return (int)b->err->code;
    if (put_others(b, &value) != OK)
        return (int)b->err->code;
    if (has_key_member(b) && put_member(b, &value, b->action->idempotency_member, b->key) != OK)
        return (int)b->err->code;
    json_write(out, &value);
    slice type = b->request->content_type;
    return add_header(b, SLICE("Content-Type"), type.len > 0 ? type : SLICE("application/json"));
}

static int body_form(struct build *b, struct buf *out)
{
    if (append_pairs(b, out, '\0', &b->request->fields, true) != OK)
        return (int)b->err->code;
    if (has_key_member(b)) {
        if (out->len > 0)
            buf_append_char(out, '&');
        encode_percent(out, b->action->idempotency_member);
        buf_append_char(out, '=');
        encode_percent(out, b->key);
    }
    return add_header(b, SLICE("Content-Type"), SLICE("application/x-www-form-urlencoded"));
}

/* Makes the body from a single template, sent unchanged: the manifest defines its type. */
static int body_raw(struct build *b, struct buf *out)
{
    const struct catalog_request *request = b->request;
    struct json value;
    if (eval_template(b, request->body, 0, &value) != OK)
        return (int)b->err->code;
    if (value.type != JSON_STRING)
        return err_set(b->err, ERR_INVALID, "the body must be a string, got %s",
                       json_type_name(&value));
    if (!request->raw_is_base64)
        buf_append(out, json_str(&value));
    else if (decode_base64(out, json_str(&value)) != OK)
        return err_set(b->err, ERR_INVALID, "the body is not valid base64");
    return add_header(b, SLICE("Content-Type"), request->content_type);
}

/* Writes a name in quotes as browsers do (RFC 7578 4.2): no character in it can end the quotes
 * or the line. */
static void append_quoted(struct buf *out, slice text)
{
    buf_append_char(out, '"');
    for (size_t i = 0; i < text.len; i++) {
        char c = text.ptr[i];
        if (c == '"' || c == '\r' || c == '\n')
            buf_append_cstr(out, c == '"' ? "%22" : c == '\r' ? "%0D" : "%0A");
        else
            buf_append_char(out, c);
    }
    buf_append_char(out, '"');
}

/* Writes the head of one part, up to its bytes. file: NULL for a field. */
static void append_part_head(struct buf *out, slice boundary, slice name,
                             const struct call_file *file)
{
    buf_printf(out, "--%.*s\r\nContent-Disposition: form-data; name=", SLICE_ARG(boundary));
    append_quoted(out, name);
    if (file) {
        buf_append_cstr(out, "; filename=");
        append_quoted(out, file->name);
        buf_append_cstr(out, "\r\nContent-Type: ");
        buf_append(out, call_file_type(file));
    }
    buf_append_cstr(out, "\r\n\r\n");
}

static void append_files(struct build *b, struct buf *out, slice boundary)
{
    slice default_field = b->action->files.field.len > 0 ? b->action->files.field : SLICE("file");
    if (b->action->files.travel != FILES_MULTIPART)
        return;
    for (size_t i = 0; i < b->file_count; i++) {
        slice field = b->files[i].field.len > 0 ? b->files[i].field : default_field;
        append_part_head(out, boundary, field, &b->files[i]);
        b->file_at[i] = out->len;
        buf_append_cstr(out, "\r\n");
    }
}

static void append_text_part(struct buf *out, slice boundary, slice name, slice text)
{
    append_part_head(out, boundary, name, NULL);
    buf_append(out, text);
    buf_append_cstr(out, "\r\n");
}

/* A null is omitted; an array repeats the part. */
static int append_field(struct build *b, struct buf *out, slice boundary, slice name,
                        const struct json *value)
{
    const struct json *items = value;
    uint32_t count = 1;
    if (value->type == JSON_ARRAY) {
        items = value->as.items;
        count = value->count;
    }
    for (uint32_t i = 0; i < count; i++) {
        slice text;
        if (items[i].type == JSON_NULL)
            continue;
        if (scalar_text(b, &items[i], name, &text) != OK)
            return (int)b->err->code;
        append_text_part(out, boundary, name, text);
    }
    return OK;
}

static int append_fields(struct build *b, struct buf *out, slice boundary)
{
    const struct catalog_pairs *fields = &b->request->fields;
    const struct json_member *other;
    int result = OK;
    for (size_t i = 0; i < fields->count && result == OK; i++) {
        struct json value;
        result = eval_template(b, fields->items[i].value, 0, &value);
        if (result == OK)
            result = append_field(b, out, boundary, fields->items[i].name, &value);
    }
    for (uint32_t at = 0; result == OK && (other = next_other(b, &at)) != NULL;)
        result = append_field(b, out, boundary, json_str(&other->key), &other->value);
    return result;
}

/* RFC 7578. The boundary is random: a value can contain it only by guessing 144 bits. */
static int body_multipart(struct build *b, struct buf *out)
{
    uint8_t noise[18];
    char room[BUILD_BOUNDARY_LEN];
    random_bytes(noise, sizeof(noise));
    slice boundary = encode_base64url_in(room, sizeof(room), slice_of(noise, sizeof(noise)));
    int result = append_fields(b, out, boundary);
    if (has_key_member(b))
        append_text_part(out, boundary, b->action->idempotency_member, b->key);
    append_files(b, out, boundary);
    buf_printf(out, "--%.*s--\r\n", SLICE_ARG(boundary));
    slice type = arena_printf(b->arena, "multipart/form-data; boundary=%.*s", SLICE_ARG(boundary));
    return result == OK ? add_header(b, SLICE("Content-Type"), type) : result;
}

/* The file is the whole body. */
static int body_file(struct build *b)
{
    const struct catalog_request *request = b->request;
    const struct call_file *file = &b->files[0];
    ASSERT(b->file_count == 1);
    b->out->body[0] = file->bytes;
    b->out->body_count = 1;
    slice type = file->content_type.len == 0 && request->content_type.len > 0
                     ? request->content_type
                     : call_file_type(file);
    if (http_header_get(b->out->headers, b->out->header_count, SLICE("Content-Type")).ptr)
        return OK; /* the only type that the vendor accepts is among the request's headers */
    return add_header(b, SLICE("Content-Type"), type);
}

/* Puts the text into the body in one piece, or split where files are inserted. */
static void split_body(struct build *b, slice text)
{
    struct call_built *out = b->out;
    size_t at = 0;
    for (size_t i = 0; i < b->file_count && b->file_at[i] > 0; i++) {
        out->body[out->body_count++] = slice_of(text.ptr + at, b->file_at[i] - at);
        out->body[out->body_count++] = b->files[i].bytes;
        at = b->file_at[i];
    }
    out->body[out->body_count++] = slice_from(text, at);
}

/* Makes the body that the manifest defines; none if it defines none. */
static int build_body(struct build *b)
{
    static int (*const makers[])(struct build *, struct buf *) = {
        [BODY_JSON] = body_json,
        [BODY_FORM] = body_form,
        [BODY_MULTIPART] = body_multipart,
        [BODY_RAW] = body_raw,
    };
    enum catalog_body_kind kind = b->request->body_kind;
    if (b->action->files.travel == FILES_RAW && b->file_count > 0)
        return body_file(b);
    if (b->action->files.travel == FILES_MULTIPART && b->file_count > 0)
        kind = BODY_MULTIPART;
    if (kind == BODY_NONE)
        return OK;
    struct buf out;
    buf_init(&out, BUILD_BODY_BYTES_MAX);
    int result = makers[kind](b, &out);
    slice text = result == OK && buf_is_ok(&out) ? arena_dup(b->arena, buf_slice(&out))
                                                 : SLICE_NONE;
    if (text.ptr)
        split_body(b, text);
    else if (result == OK && out.is_over)
        result = err_set(b->err, ERR_LIMIT, "the request body would be too large");
    else if (result == OK)
        result = err_set(b->err, ERR_NOMEM, "out of memory");
    buf_deinit(&out);
    return result;
}

/* Returns the action's request, or its alternative for this input. */
static const struct catalog_request *choose_request(struct build *b)
{
    const struct catalog_request *request = b->request;
    for (size_t i = 0; i < request->instead_count; i++) {
        struct json is_match;
        struct err ignored;
        if (expr_eval(request->instead[i].when, &b->root, &b->root, &b->budget, b->arena, &is_match,
                      &ignored) == OK &&
            expr_is_true(&is_match))
            return &request->instead[i].request;
    }
    return request;
}

/* The size of the replies that the templates of a later request may use. */
static size_t replies_size(const struct call_scope *scope)
{
    size_t bytes = 0;
    for (unsigned i = 0; scope->progress && i < scope->progress->at; i++)
        bytes += json_text_bytes(&scope->progress->replies[i]);
    return bytes;
}

int call_build(const struct catalog_action *action, const struct call_scope *scope,
               const struct json *credential, struct arena *arena, struct call_built *built,
               struct err *err)
{
    unsigned at = scope->progress ? scope->progress->at : 0;
    struct build b = {.action = action,
                      .request = catalog_request_at(action, at),
                      .progress = scope->progress,
                      .auth = scope->auth ? scope->auth : &action->integration->auth,
                      .key = scope->provider_key,
                      .arena = arena,
                      .out = built,
                      .err = err,
                      .files = scope->files,
                      .file_count = action->files.at == at ? scope->file_count : 0};
    ASSERT(scope->file_count <= CALL_FILES_MAX);
    memset(built, 0, CALL_BUILT_CLEARED);
    built->credential_index = SIZE_MAX;
    built->at = at;
    expr_budget_init(&b.budget);
    /* The budget allows any input that the schema accepts, and the earlier replies, even in base64
     * inside a mail that is itself in base64. */
    expr_budget_add_data(&b.budget, call_files_size(scope->files, scope->file_count) +
                                        json_text_bytes(scope->input) + replies_size(scope));
    b.root = call_build_root(scope, arena);
    if (arena->is_exhausted)
        return err_set(err, ERR_NOMEM, "out of memory");
    b.request = choose_request(&b);
    built->method = b.request->method;
    built->is_host_given = b.request->base_url
                               ? b.request->is_host_given
                               : !b.request->url && action->integration->is_host_given;
    if (add_header(&b, SLICE("Accept"), SLICE("application/json")) != OK ||
        (!b.request->is_bare && add_headers(&b, &action->integration->headers) != OK) ||
        add_headers(&b, &b.request->headers) != OK || build_body(&b) != OK ||
        (b.key.len > 0 && action->idempotency_header.len > 0 &&
         add_header(&b, action->idempotency_header, b.key) != OK))
        return (int)err->code;
    int result = build_url(&b, credential);
    /* a text could be missing for lack of memory, which would change the request */
    return result == OK && arena->is_exhausted ? err_set(err, ERR_NOMEM, "out of memory") : result;
}
