/*
 * The values for a request's templates, and the allowed hosts of a URL from an earlier reply: the
 * provider chooses it, so only hosts in the manifest are allowed.
 */
#include <stdio.h>

#include "call/build.h"
#include "http/url.h"

/* Makes the files' values for templates: their data as sent, in base64. */
static struct json files_value(const struct call_scope *scope, struct arena *arena)
{
    struct json list = json_array();
    for (size_t i = 0; i < scope->file_count; i++) {
        const struct call_file *file = &scope->files[i];
        struct json item = json_object();
        json_object_set(arena, &item, SLICE("name"), json_string(file->name));
        json_object_set(arena, &item, SLICE("content_type"), json_string(call_file_type(file)));
        json_object_set(arena, &item, SLICE("data"), json_string(file->data));
        json_object_set(arena, &item, SLICE("bytes"), json_u64(call_file_size(file->data)));
        json_array_push(arena, &list, item);
    }
    return list;
}

/* Adds the replies of earlier requests under the names that a manifest uses. */
void call_progress_put(const struct call_progress *progress, struct json *root, struct arena *arena)
{
    static const char *const names[CATALOG_REQUESTS_MAX - 1] = {"first", "second"};
    for (unsigned i = 0; progress && i < progress->at; i++)
        json_object_put(arena, root, slice_cstr(names[i]), progress->replies[i]);
}

/* Makes the values that a manifest's template can name: input, connection, files, and the replies
 * so far. */
struct json call_build_root(const struct call_scope *scope, struct arena *arena)
{
    static const struct json empty = {.type = JSON_OBJECT};
    struct json connection = json_object(), root = json_object();
    json_object_set(arena, &connection, SLICE("params"),
                    scope->connection_params ? *scope->connection_params : empty);
    json_object_set(arena, &root, SLICE("input"), scope->input ? *scope->input : empty);
    json_object_set(arena, &root, SLICE("connection"), connection);
    json_object_set(arena, &root, SLICE("files"), files_value(scope, arena));
    call_progress_put(scope->progress, &root, arena);
    return root;
}

/* ---- a URL from a reply ---- */

/* Whether the URL's host matches the entry: "files.example.com", with a port if it is not the
 * scheme's default, or "*.example.com". */
static bool is_host_of(slice entry, const struct url *url)
{
    char room[URL_HOST_MAX + 8];
    bool is_default = url->port == (url->is_https ? 443 : 80);
    int len = is_default ? snprintf(room, sizeof(room), "%.*s", SLICE_ARG(url->host))
                         : snprintf(room, sizeof(room), "%.*s:%u", SLICE_ARG(url->host),
                                    (unsigned)url->port);
    slice host = slice_of(room, len > 0 && len < (int)sizeof(room) ? (size_t)len : 0);
    if (!slice_starts_with(entry, SLICE("*.")))
        return slice_eq_nocase(entry, host);
    slice tail = slice_from(entry, 1);
    return host.len > tail.len && slice_eq_nocase(slice_from(host, host.len - tail.len), tail);
}

/* The origin of the previous request counts as listed: it is that of base_url, or was checked here.
 * If that origin used TLS, a listed host is refused without TLS. */
static int check_host(slice text, slice former_url, const struct json *hosts, struct err *err)
{
    char room[URL_ORIGIN_MAX + 1], former_room[URL_ORIGIN_MAX + 1];
    struct url url, former;
    bool is_known = false;
    if (url_parse(text, &url, NULL) != OK || url_parse(former_url, &former, NULL) != OK)
        return err_set(err, ERR_INVALID, "the previous reply contains no URL to call");
    if (slice_eq(url_origin(&url, room), url_origin(&former, former_room)))
        return OK;
    for (uint32_t i = 0; hosts && i < hosts->count; i++)
        is_known = is_known || is_host_of(json_str(&hosts->as.items[i]), &url);
    if (is_known && (url.is_https || !former.is_https))
        return OK;
    return err_set(err, ERR_REFUSED, "%.*s", SLICE_ARG(slice_cstr(room)));
}

int call_url_follow(slice former_url, slice text, const struct json *hosts, struct buf *url,
                    struct err *err)
{
    bool is_path = slice_starts_with(text, SLICE("/")) && !slice_starts_with(text, SLICE("//"));
    if (is_path) { /* RFC 9110 10.2.2 */
        size_t end = (size_t)slice_find(former_url, SLICE("://")) + 3;
        while (end < former_url.len && former_url.ptr[end] != '/' && former_url.ptr[end] != '?')
            end++;
        buf_append(url, slice_first(former_url, end));
    }
    buf_append(url, text);
    return check_host(buf_slice(url), former_url, hosts, err);
}
