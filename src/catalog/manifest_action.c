/*
 * One action of a manifest (contrib/integrations/README.md "actions[]", request).
 *
 * A manifest is data from an operator or an import, and its requests carry a credential. So the
 * destination of a request (scheme, host) is a constant, a connection's parameter or a host of a
 * fixed list, never the caller's input; path and query may contain input, encoded.
 */
#include "catalog/manifest.h"

#include "base/ascii.h"

enum {
    FILES_MAX = 10,
    FILE_BYTES_MAX = 64 * 1024 * 1024,
    HOST_BYTES_MAX = 253 + 6, /* a name (RFC 1035), ":" and a port */
};

static void read_body_raw(struct reader *r, struct catalog_request *request)
{
    static const char *const encodings[] = {"utf8", "base64", NULL};
    request->body_kind = BODY_RAW;
    request->body = reader_template(r, "raw");
    request->content_type = reader_text_required(r, "content_type");
    request->raw_is_base64 = reader_choice(r, "encoding", encodings, 0) == 1;
}

/* Reads the parts of a multipart body, an array of {name, value}. */
static void read_body_multipart(struct reader *r, struct catalog_request *request)
{
    const struct json *array = reader_member(r, "multipart");
    request->body_kind = BODY_MULTIPART;
    if (!json_is(array, JSON_ARRAY) || array->count > CATALOG_PAIRS_MAX) {
        reader_error(r, "multipart", "must be an array of at most %d parts", CATALOG_PAIRS_MAX);
        return;
    }
    request->fields.items = ARENA_ARRAY(r->arena, struct catalog_pair, array->count + 1);
    for (uint32_t i = 0; request->fields.items && i < array->count; i++) {
        struct reader_path path = {r->path, SLICE("multipart"), i};
        struct reader part;
        if (!reader_init(&part, r, &path, &array->as.items[i]))
            continue;
        struct catalog_pair *out = &request->fields.items[request->fields.count];
        out->name = reader_text_required(&part, "name");
        out->value = reader_template(&part, "value");
        reader_finish(&part);
        if (out->value)
            request->fields.count++;
    }
}

/* A vendor's own media type must be a JSON type (RFC 6839 3.1). */
static void read_json_type(struct reader *r, struct catalog_request *request)
{
    request->content_type = reader_text(r, "content_type");
    slice rest = request->content_type, type = slice_trim(slice_split(&rest, ';'));
    if (type.len > 0 && !slice_ends_with(type, SLICE("+json")) &&
        !slice_eq_cstr(type, "application/json"))
        reader_error(r, "content_type", "must be application/json or end in +json");
}

static void read_body(struct reader *parent, struct catalog_request *request)
{
    struct reader r;
    if (json_is(reader_member(parent, "body"), JSON_NULL) || !reader_enter(&r, parent, "body"))
        return;
    /* The first of these members is used; a second one is not read, so reader_finish reports it. */
    if (json_get(r.object, SLICE("json"))) {
        request->body_kind = BODY_JSON;
        request->body = reader_template(&r, "json");
        read_json_type(&r, request);
    } else if (json_get(r.object, SLICE("form"))) {
        request->body_kind = BODY_FORM;
        request->fields = reader_pairs(&r, "form");
    } else if (json_get(r.object, SLICE("multipart"))) {
        read_body_multipart(&r, request);
    } else if (json_get(r.object, SLICE("raw"))) {
        read_body_raw(&r, request);
    } else {
        reader_error(&r, NULL, "must have one of json, form, multipart, raw");
    }
    if (request->body_kind != BODY_RAW)
        request->takes_others = reader_bool(&r, "others", false);
    reader_finish(&r);
}

/* The request has the credential, so only the connection's params may be part of the address, as
 * lint checks: if it contained the caller's input, a caller could have the credential sent to
 * their own host. */
static void read_base_url(struct reader *r, struct catalog_request *request)
{
    slice text = json_get_str(r->object, SLICE("base_url"));
    request->base_url = reader_template(r, "base_url");
    request->is_host_given = manifest_is_host_given(text);
    if (request->base_url)
        manifest_check_base_url(r, text);
}

static bool is_allowed_host_char(char c)
{
    return ascii_is_lower(c) || ascii_is_digit(c) || c == '.' || c == '-' || c == ':';
}

/* Whether text is a host in lower case, possibly with a port. "*." matches any name below the rest,
 * which must contain a dot: "*.com" would allow any host. */
static bool is_host_entry(slice text)
{
    slice host = slice_starts_with(text, SLICE("*.")) ? slice_from(text, 2) : text;
    bool is_wide = host.len < text.len;
    for (size_t i = 0; i < host.len; i++)
        if (!is_allowed_host_char(host.ptr[i]))
            return false;
    return host.len > 0 && host.len <= HOST_BYTES_MAX &&
           (!is_wide || slice_find_char(host, '.') > 0);
}

/* Reads the hosts that a URL may have besides the host of the previous request. The list limits the
 * calls that a compromised provider, or a forged reply, can cause. */
static void read_hosts(struct reader *r, struct catalog_request *request)
{
    request->hosts = reader_texts(r, "hosts");
    if (!request->hosts)
        return;
    if (request->hosts->count == 0 || request->hosts->count > CATALOG_HOSTS_MAX)
        reader_error(r, "hosts", "must be an array of 1 to %d hosts", CATALOG_HOSTS_MAX);
    for (uint32_t i = 0; i < request->hosts->count; i++)
        if (!is_host_entry(json_str(&request->hosts->as.items[i])))
            reader_error(r, "hosts",
                         "item %u must be a host, such as \"files.example.com\", "
                         "\"example.com:8443\" or \"*.example.com\" for its subdomains",
                         i);
}

/* Reads a URL that comes from an earlier reply, instead of base_url and path. By default the
 * request is sent without the credential: upload URLs are signed themselves, and a credential must
 * not be sent to a host that a reply has chosen. "credential": true means that this API needs the
 * credential. */
static void read_url(struct reader *r, struct catalog_request *request)
{
    static const char *const others[] = {"base_url", "path"};
    request->url = reader_template(r, "url");
    read_hosts(r, request);
    request->is_bare = !reader_bool(r, "credential", false);
    for (size_t i = 0; i < ARRAY_LEN(others); i++)
        if (reader_member(r, others[i]))
            reader_error(r, others[i], "\"url\" replaces it");
}

static void read_path(struct reader *r, struct catalog_request *request)
{
    slice text = json_get_str(r->object, SLICE("path"));
    read_base_url(r, request);
    request->path = reader_template(r, "path");
    if (text.len == 0 || text.ptr[0] != '/')
        reader_error(r, "path", "must be a string that begins with a slash");
    /* A template may contain '?' inside an expression, so only a constant path is checked. */
    if (slice_find_char(text, '?') >= 0 && slice_find(text, SLICE("${")) < 0)
        reader_error(r, "path", "must not have a query; use \"query\"");
    manifest_check_dots(r, "path", text);
}

static void read_request(struct reader *r, struct catalog_request *request, bool is_later)
{
    static const char *const methods[] = {"GET", "POST", "PUT", "PATCH", "DELETE", NULL};
    static const char *const nestings[] = {"repeat", "brackets", "indices", "deep", NULL};
    /* HEAD, OPTIONS and TRACE are not allowed, since an action returns a body. */
    int method = reader_choice(r, "method", methods, -1);
    if (!json_get(r->object, SLICE("method")))
        reader_error(r, "method", "is missing; say GET, POST, PUT, PATCH or DELETE");
    request->method = slice_cstr(methods[method < 0 ? 0 : method]);
    if (is_later && json_get(r->object, SLICE("url")))
        read_url(r, request);
    else
        read_path(r, request);
    request->query = reader_pairs(r, "query");
    request->nesting = (enum catalog_nesting)reader_choice(r, "nesting", nestings, NESTING_REPEAT);
    request->headers = reader_pairs(r, "headers");
    read_body(r, request);
}

/* Returns the request's members, replaced by those of the alternative; "instead" itself is omitted,
 * so alternatives do not nest. The merge is shallow: a member is replaced as a whole. The values
 * are shared with the document, which is not changed. */
static const struct json *merge_request(struct arena *arena, const struct json *request,
                                        const struct json *other)
{
    struct json *merged = ARENA_NEW(arena, struct json);
    ASSERT(json_is(request, JSON_OBJECT) && json_is(other, JSON_OBJECT));
    if (!merged)
        return NULL;
    *merged = json_object();
    for (uint32_t i = 0; i < request->count; i++) {
        slice key = json_str(&request->as.members[i].key);
        if (!slice_eq_cstr(key, "instead"))
            json_object_set(arena, merged, key, request->as.members[i].value);
    }
    for (uint32_t i = 0; i < other->count; i++)
        json_object_put(arena, merged, json_str(&other->as.members[i].key),
                        other->as.members[i].value);
    return merged;
}

static void read_case(struct reader *parent, struct reader_path *path, const struct json *item,
                      struct catalog_request *request)
{
    struct catalog_request_case *out = &request->instead[request->instead_count];
    struct reader r;
    if (!reader_init(&r, parent, path, item))
        return;
    const struct json *merged = merge_request(r.arena, parent->object, item);
    if (!merged)
        return;
    /* An alternative is read as a complete request, so that a call only selects one. Its faults
     * are reported at the alternative's path. */
    r.object = merged;
    out->when = reader_expr(&r, "when");
    read_request(&r, &out->request, false);
    reader_finish(&r);
    if (!json_get(item, SLICE("when")))
        reader_error(&r, NULL, "member \"when\" is missing");
    if (out->when)
        request->instead_count++;
}

static void read_instead(struct reader *r, struct catalog_request *request)
{
    const struct json *array = reader_member(r, "instead");
    if (!array)
        return;
    if (array->type != JSON_ARRAY || array->count > CATALOG_INSTEAD_MAX) {
        reader_error(r, "instead",
                     "must be an array of at most %d alternatives, each with \"when\"",
                     CATALOG_INSTEAD_MAX);
        return;
    }
    request->instead = ARENA_ARRAY(r->arena, struct catalog_request_case, array->count + 1);
    for (uint32_t i = 0; request->instead && i < array->count; i++) {
        struct reader_path path = {r->path, SLICE("instead"), i};
        read_case(r, &path, &array->as.items[i], request);
    }
}

void manifest_read_request(struct reader *parent, struct catalog_request *request, bool is_later)
{
    const struct json *object = reader_member(parent, "request");
    struct reader_path path = {parent->path, SLICE("request"), -1};
    struct reader r;
    ASSERT(!request->path && !request->url && request->instead_count == 0); /* read once */
    if (!reader_init(&r, parent, &path, object))
        return;
    read_request(&r, request, is_later);
    if (!is_later) {
        request->when = reader_expr(&r, "when");
        read_instead(&r, request);
    }
    reader_finish(&r);
}

static void read_files(struct reader *parent, struct catalog_files *files, unsigned then_count)
{
    static const char *const travels[] = {"none", "multipart", "raw", "base64", NULL};
    struct reader r;
    ASSERT(then_count < CATALOG_REQUESTS_MAX); /* `then` was read before */
    if (json_is(reader_member(parent, "files"), JSON_NULL) || !reader_enter(&r, parent, "files"))
        return;
    files->travel = (unsigned)reader_choice(&r, "travel", travels, FILES_NONE);
    files->field = reader_text(&r, "field");
    files->count_max = (unsigned)reader_count(&r, "count_max", FILES_MAX);
    files->bytes_max = reader_count(&r, "bytes_max", FILE_BYTES_MAX);
    unsigned number = (unsigned)reader_count(&r, "request", 1 + then_count);
    files->at = number > 0 ? number - 1 : 0;
    if (files->travel == FILES_NONE)
        reader_error(&r, "travel", "must be multipart, raw or base64");
    reader_finish(&r);
}

static void read_display(struct reader *parent, struct catalog_action *action)
{
    struct reader r;
    if (!reader_enter(&r, parent, "display"))
        return;
    action->display_title = reader_template(&r, "title");
    action->display_summary = reader_template(&r, "summary");
    reader_finish(&r);
}

static void read_behaviour(struct reader *r, struct catalog_action *action)
{
    static const char *const levels[] = {"read", "write", "delete", "admin", NULL};
    int level = reader_choice(r, "side_effect_level", levels, -1);
    if (!json_get(r->object, SLICE("side_effect_level")))
        reader_error(r, "side_effect_level", "is missing; say read, write, delete or admin");
    /* For an unknown level the strictest is used, although the error refuses the manifest in any
     * case. */
    action->level = level < 0 ? LEVEL_ADMIN : (enum catalog_level)level;
    bool is_read = action->level == LEVEL_READ;
    action->requires_confirmation = reader_bool(r, "requires_confirmation", !is_read);
    /* A manifest cannot weaken the protection of a write: the account decides whether a person is
     * asked, not the author. */
    if (!is_read && !action->requires_confirmation) {
        reader_error(r, "requires_confirmation", "can only be made stricter: this action writes");
        action->requires_confirmation = true;
    }
    /* Decides whether a call may be repeated after its reply was lost; false is the safe
     * default. */
    action->is_idempotent = reader_bool(r, "idempotent", is_read);
    action->idempotency_header = reader_text(r, "idempotency_header");
    action->idempotency_member = reader_text(r, "idempotency_member");
    action->undo = reader_text(r, "undo");
    action->recipients = reader_pairs(r, "recipients");
    action->has_recipients = action->recipients.count > 0;
    action->targets = reader_pairs(r, "target");
    manifest_read_shows(r, action);
    action->gone = reader_text(r, "gone");
    action->deadline_ms = (unsigned)reader_count(r, "deadline_ms", CATALOG_DEADLINE_MS_MAX);
}

/* Sets tool_name and checks the limit on its length. */
static void name_tool(struct reader *r, struct catalog_action *action)
{
    action->action_id = reader_text_required(r, "action_id");
    r->about = action->action_id;
    if (action->action_id.len > 0 && !reader_is_id(action->action_id, CATALOG_TOOL_NAME_MAX))
        reader_error(r, "action_id", "must match [a-z][a-z0-9_]*");
    /* The tool name must be unique over all integrations (pack.c) and short enough for model
     * vendors. */
    slice prefix = action->integration->integration_id;
    action->tool_name =
        arena_printf(r->arena, "%.*s_%.*s", SLICE_ARG(prefix), SLICE_ARG(action->action_id));
    if (action->tool_name.len > CATALOG_TOOL_NAME_MAX)
        reader_error(r, "action_id",
                     "the tool name %.*s has %zu characters; at most %d are allowed",
                     SLICE_ARG(action->tool_name), action->tool_name.len, CATALOG_TOOL_NAME_MAX);
}

/* ---- the member of the body that is the provider's idempotency key ---- */

/* Whether a JSON body has a value at `path`, or something other than an object on the way to it.
 * A string is a template, whose value is unknown. */
static bool has_member(const struct json *value, slice path)
{
    slice name = slice_split(&path, '.');
    const struct json *inner = json_get(value, name);
    if (json_is(value, JSON_STRING) || (json_is(value, JSON_OBJECT) && !inner))
        return false;
    return path.len == 0 || has_member(inner, path);
}

/* Whether a multipart part {name, value} has this name. */
static bool has_part(const struct json *parts, slice name)
{
    for (uint32_t i = 0; json_is(parts, JSON_ARRAY) && i < parts->count; i++)
        if (slice_eq(json_get_str(&parts->as.items[i], SLICE("name")), name))
            return true;
    return false;
}

/* sluice writes the member itself, so each possible body must be of a kind that has members, and
 * must not have this one already. */
static void check_key_body(const struct reader *r, const struct json *body, slice member)
{
    const struct json *json = JSON_GET(body, "json");
    bool is_object = json_is(json, JSON_OBJECT) || json_is(json, JSON_STRING);
    if (!is_object && !JSON_GET(body, "form") && !JSON_GET(body, "multipart"))
        reader_error(
            r, "idempotency_member",
            "needs a body of json (an object), form or multipart, but the request has none");
    else if ((json && has_member(json, member)) || json_get(JSON_GET(body, "form"), member) ||
             has_part(JSON_GET(body, "multipart"), member))
        reader_error(r, "idempotency_member",
                     "sluice writes \"%.*s\" itself: leave it out of the request's body",
                     SLICE_ARG(slice_first_utf8(member, 80)));
}

static bool is_member_path(slice path)
{
    while (path.len > 0) {
        bool is_last = slice_find_char(path, '.') < 0;
        if (slice_split(&path, '.').len == 0)
            return false;
        if (is_last)
            return true;
    }
    return false;
}

static void check_key_member(const struct reader *r, const struct catalog_action *action)
{
    const struct json *request = JSON_GET(r->object, "request");
    const struct json *instead = JSON_GET(request, "instead");
    slice member = action->idempotency_member;
    if (!JSON_GET(r->object, "idempotency_member"))
        return;
    if (!is_member_path(member)) {
        reader_error(r, "idempotency_member",
                     "must name a member of the body, with dots between the names if it is nested");
        return;
    }
    if (action->files.travel == FILES_RAW)
        reader_error(r, "idempotency_member", "cannot be used where a file is the whole body");
    if (action->idempotency_header.len > 0)
        reader_error(r, "idempotency_member", "and \"idempotency_header\" cannot be combined");
    check_key_body(r, JSON_GET(request, "body"), member);
    for (uint32_t i = 0; json_is(instead, JSON_ARRAY) && i < instead->count; i++)
        if (JSON_GET(&instead->as.items[i], "body"))
            check_key_body(r, JSON_GET(&instead->as.items[i], "body"), member);
}

/* Whether a schema, or one that it refers to, may mark a value `writeOnly`. A property of that name
 * counts, too. */
static bool may_hide(const struct json *schema)
{
    bool is_object = json_is(schema, JSON_OBJECT), is_found = false;
    uint32_t count = is_object || json_is(schema, JSON_ARRAY) ? schema->count : 0;
    for (uint32_t i = 0; i < count && !is_found; i++) {
        if (!is_object) {
            is_found = may_hide(&schema->as.items[i]);
            continue;
        }
        slice key = json_str(&schema->as.members[i].key);
        const struct json *value = &schema->as.members[i].value;
        bool is_far = slice_eq_cstr(key, "$ref") && !slice_starts_with(json_str(value), SLICE("#"));
        is_found = is_far || slice_eq_cstr(key, "writeOnly") || may_hide(value);
    }
    return is_found;
}

void manifest_read_action(struct reader *parent, struct reader_path *path,
                          const struct json *object, struct catalog_action *action)
{
    struct reader r;
    if (!reader_init(&r, parent, path, object))
        return;
    name_tool(&r, action);
    action->title = reader_text_required(&r, "title");
    action->description = reader_text_required(&r, "description");
    action->docs_url = reader_text(&r, "docs_url");
    manifest_read_proof(&r, action);
    action->tags = reader_texts(&r, "tags");
    read_behaviour(&r, action);
    action->scopes = reader_texts(&r, "scopes");
    /* The schemas are read before the response, since pages and the reply's kind are derived from
     * them. */
    action->schema = reader_schema(&r, "input_schema", &action->input_schema);
    if (!action->input_schema)
        reader_error(&r, NULL, "member \"input_schema\" is missing");
    action->may_hide_inputs = may_hide(action->input_schema);
    (void)reader_schema(&r, "output_schema", &action->output_schema);
    manifest_read_request(&r, &action->request, false);
    manifest_read_response(&r, action, &action->reply, !json_get(object, SLICE("then")));
    /* The further requests are read after the first response, which must not have an output if
     * requests follow, and before files, which refer to a request by number. */
    manifest_read_then(&r, action);
    manifest_read_each(&r, action);
    action->errors = manifest_read_errors(&r, "errors");
    action->not_done_statuses = manifest_read_not_done(&r);
    read_files(&r, &action->files, action->then_count);
    read_display(&r, action);
    check_key_member(&r, action);
    action->examples = reader_member(&r, "examples");
    action->preconditions = reader_member(&r, "preconditions");
    reader_finish(&r);
}
