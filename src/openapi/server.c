/*
 * `servers` to base_url: the first server is used, since a manifest has one address. Its variables,
 * and the host of a relative URL, are parameters that a person enters when connecting: they belong
 * to the installation of the app, not to a call.
 */
#include <string.h>

#include "base/ascii.h"
#include "base/encode.h"
#include "openapi/internal.h"

enum { VARIABLES_MAX = 20 };

static slice without_slash(slice url)
{
    while (url.len > 0 && url.ptr[url.len - 1] == '/')
        url.len--;
    return url;
}

static slice first_url(const struct json *servers)
{
    return without_slash(json_get_str(json_at(servers, 0), SLICE("url")));
}

static void add_param(struct import *im, slice name, struct json property, bool is_required)
{
    /* Members are set in this order, which the indices 1 and 2 below rely on. */
    struct json *schema = &im->connection_params;
    if (schema->type != JSON_OBJECT) {
        *schema = json_object();
        import_set_text(im, schema, "type", SLICE("object"));
        import_set(im, schema, "properties", json_object());
        import_set(im, schema, "required", json_array());
        import_set(im, schema, "additionalProperties", json_bool(false));
    }
    json_object_set(im->arena, &schema->as.members[1].value, name, property);
    if (is_required)
        json_array_push(im->arena, &schema->as.members[2].value, json_string(name));
}

bool import_has_query(slice path)
{
    return slice_find_char(path, '?') >= 0 || slice_find_char(path, '#') >= 0;
}

/* Whether the text needs no escaping in an address and in an expression. */
static bool is_address_text(slice text)
{
    if (path_has_dot_segment(text))
        return false;
    for (size_t i = 0; i < text.len; i++)
        if (!ascii_is_alnum(text.ptr[i]) && slice_find_char(SLICE("-._~:/"), text.ptr[i]) < 0)
            return false;
    return true;
}

/* A variable for the scheme (at the start), or with an empty default, is replaced by its default,
 * and a variable with a single value by that value. Any other becomes an optional parameter of the
 * connection if it has a default, otherwise a required one. */
static void put_variable(struct import *im, const struct json *variables, slice name,
                         struct buf *out)
{
    const struct json *variable = json_get(variables, name), *values = JSON_GET(variable, "enum");
    const struct json *default_value = JSON_GET(variable, "default");
    slice param = import_slug(im, name), fallback = without_slash(json_str(default_value));
    bool is_usable = default_value && default_value->type == JSON_STRING &&
                     is_address_text(fallback);
    if (is_usable && (out->len == 0 || fallback.len == 0)) {
        buf_append(out, fallback);
        return;
    }
    if (json_is(values, JSON_ARRAY) && values->count == 1 &&
        is_address_text(json_str(&values->as.items[0]))) {
        buf_append(out, json_str(&values->as.items[0]));
        return;
    }
    if (param.len == 0)
        param = SLICE("variable");
    struct json property = json_object();
    slice description = json_get_str(variable, SLICE("description"));
    import_set_text(im, &property, "type", SLICE("string"));
    import_set(im, &property, "minLength", json_i64(1));
    import_set(im, &property, "description",
               json_string(description.len > 0
                               ? import_clip(im, description, 500)
                               : arena_printf(im->arena, "The %.*s of the server's address.",
                                              SLICE_ARG(name))));
    if (json_is(values, JSON_ARRAY) && values->count > 0)
        import_set(im, &property, "enum", *values);
    if (json_is(default_value, JSON_STRING))
        import_set(im, &property, "default", *default_value);
    const struct json *known = JSON_GET(&im->connection_params, "properties");
    /* A variable may occur twice, or two variables may have the same slug; they share the
     * parameter. */
    if (!json_get(known, param))
        add_param(im, param, property, !is_usable);
    if (is_usable)
        buf_printf(out, "${connection.params.%.*s || '%.*s'}", SLICE_ARG(param),
                   SLICE_ARG(fallback));
    else
        buf_printf(out, "${connection.params.%.*s}", SLICE_ARG(param));
}

static int expand_server_url(struct import *im, slice url, const struct json *variables,
                             struct buf *out, struct err *err)
{
    unsigned count = 0;
    while (url.len > 0) {
        ptrdiff_t open = slice_find_char(url, '{');
        ptrdiff_t close = open < 0 ? -1 : slice_find_char(slice_from(url, (size_t)open), '}');
        if (open < 0) {
            buf_append(out, url);
            break;
        }
        if (close < 0 || ++count > VARIABLES_MAX)
            return err_set(err, ERR_INVALID, "servers/0/url: \"%.*s\" has a brace without its end",
                           SLICE_ARG(slice_first_utf8(url, 200)));
        buf_append(out, slice_first(url, (size_t)open));
        put_variable(im, variables, slice_of(url.ptr + open + 1, (size_t)close - 1), out);
        url = slice_from(url, (size_t)(open + close) + 1);
    }
    return OK;
}

/* Returns the length of the next part of a finished address; 0 if the part is not valid. A
 * placeholder is one part. */
static size_t address_part(slice rest, bool is_in_host)
{
    const char *why;
    ptrdiff_t end =
        slice_starts_with(rest, SLICE("${")) ? expr_closing_brace(slice_from(rest, 2), &why) : -1;
    if (end >= 0)
        return (size_t)end + 3;
    if (rest.ptr[0] == '%')
        return !is_in_host && rest.len > 2 && ascii_is_hex(rest.ptr[1]) && ascii_is_hex(rest.ptr[2])
                   ? 3
                   : 0;
    slice others = is_in_host ? SLICE(".-_:[]") : SLICE("/-._~!&'()*+,;=:@");
    return ascii_is_alnum(rest.ptr[0]) || slice_find_char(others, rest.ptr[0]) >= 0;
}

/* Whether calls can use the address: scheme, host and path, without anything that the linter of
 * manifests or the URL parser refuses. */
static bool is_callable(slice url)
{
    bool is_in_host = true;
    size_t host_len = 0, scheme_len = slice_starts_with(url, SLICE("https://"))  ? 8
                                      : slice_starts_with(url, SLICE("http://")) ? 7
                                                                                 : 0;
    if (scheme_len == 0 && !slice_starts_with(url, SLICE("${")))
        return false;
    for (slice rest = slice_from(url, scheme_len); rest.len > 0;) {
        is_in_host = is_in_host && rest.ptr[0] != '/';
        size_t len = address_part(rest, is_in_host);
        if (len == 0)
            return false;
        host_len += is_in_host;
        rest = slice_from(rest, len);
    }
    return host_len > 0;
}

/* Descriptions often give http for a server that also accepts https. */
static slice over_https(struct import *im, slice url)
{
    static const char plain[] = "http://";
    if (!slice_starts_with(url, slice_cstr(plain)))
        return arena_dup(im->arena, url);
    import_note(im, "servers/0/url is plain http, so https is written; give base_url in the "
                    "overrides if an operator allows the host over http");
    return arena_printf(im->arena, "https://%.*s", SLICE_ARG(slice_from(url, strlen(plain))));
}

static int refuse_server_url(slice url, const char *why, struct err *err)
{
    return err_set(err, ERR_INVALID, "servers/0/url: \"%.*s\" %s; give base_url in the overrides",
                   SLICE_ARG(slice_first_utf8(url, 200)), why);
}

/* Checks the URL of a server, to which paths are appended. */
static int check_server_url(slice url, bool is_absolute, struct err *err)
{
    bool is_other = !is_absolute &&
                    (slice_find(url, SLICE("://")) >= 0 || slice_starts_with(url, SLICE("//")));
    const char *why = is_other                    ? "is not an http address"
                      : import_has_query(url)     ? "has a query or a fragment"
                      : path_has_dot_segment(url) ? "has \".\" or \"..\" as a part of its path"
                                                  : NULL;
    return why ? refuse_server_url(url, why, err) : OK;
}

int import_servers(struct import *im, struct err *err)
{
    const struct json *given = JSON_GET(im->integration, "base_url");
    const struct json *params = JSON_GET(im->integration, "connection_params");
    const struct json *server = json_at(JSON_GET(im->document, "servers"), 0);
    struct buf out;
    im->server_url = first_url(JSON_GET(im->document, "servers"));
    if (given) {
        im->base_url = *given;
        im->connection_params = params ? *params : json_null;
        return OK;
    }
    slice url = im->server_url;
    bool is_absolute = slice_starts_with(url, SLICE("https://")) ||
                       slice_starts_with(url, SLICE("http://")) ||
                       slice_starts_with(url, SLICE("{"));
    int result = check_server_url(url, is_absolute, err);
    if (result != OK)
        return result;
    buf_init(&out, 4096);
    if (!is_absolute) {
        import_note(
            im, "no server with a host is described, so the person who connects is "
                "asked for the host (connection_params.host); or give base_url in the overrides");
        struct json property = json_object();
        import_set_text(im, &property, "type", SLICE("string"));
        import_set(im, &property, "minLength", json_i64(1));
        import_set_text(im, &property, "description",
                        SLICE("The host of the service, such as api.example.com."));
        add_param(im, SLICE("host"), property, true);
        buf_append_cstr(&out, "https://${connection.params.host}");
        if (url.len > 0 && url.ptr[0] != '/')
            buf_append_char(&out, '/');
    }
    result = expand_server_url(im, url, JSON_GET(server, "variables"), &out, err);
    im->base_url = json_string(over_https(im, without_slash(buf_slice(&out))));
    if (result == OK && !buf_is_ok(&out))
        result = err_set(err, ERR_LIMIT, "servers/0/url is too long");
    if (result == OK && !is_callable(json_str(&im->base_url)))
        result = refuse_server_url(url, "does not make an address that can be called", err);
    buf_deinit(&out);
    /* Parameters from the overrides replace all those made here; the linter reports parameters
     * that base_url then lacks. */
    if (params)
        im->connection_params = *params;
    const struct json *servers = JSON_GET(im->document, "servers");
    if (json_is(servers, JSON_ARRAY) && servers->count > 1)
        import_note(im, "%u servers are described; the first is used", servers->count);
    return result;
}

slice import_server_prefix(struct import_op *op)
{
    const struct json *servers = JSON_GET(op->node, "servers");
    if (!json_is(servers, JSON_ARRAY) || servers->count == 0)
        servers = JSON_GET(op->path_item, "servers");
    if (!json_is(servers, JSON_ARRAY) || servers->count == 0)
        return SLICE_NONE;
    /* Only a path below the document's server can be expressed: the part of the URL after that
     * server's precedes the operation's path. */
    slice url = first_url(servers), base = op->im->server_url;
    slice rest = slice_from(url, base.len);
    bool is_below = slice_starts_with(url, base) && (rest.len == 0 || rest.ptr[0] == '/') &&
                    slice_find_char(rest, '{') < 0;
    if (!is_below)
        import_skip(op, "it is on a server of its own: %.*s",
                    SLICE_ARG(slice_first_utf8(url, 200)));
    return is_below ? rest : SLICE_NONE;
}
