/*
 * The style sheet, the script and the icon, compiled in, each also compressed (NAME.gz). Each has a
 * path with the hash of its bytes, so that browsers may cache it permanently.
 */
#include <stdio.h>

#include "base/embed.h"
#include "base/map.h"
#include "web/page.h"

enum { ASSETS_MAX = 8, PATH_MAX_BYTES = 64 };

static struct {
    char path[PATH_MAX_BYTES]; /* "/assets/0123456789abcdef-style.css" */
} made[ASSETS_MAX];

const char *web_asset_path(const char *name)
{
    for (size_t i = 0; i < embed_web_count && i < ASSETS_MAX; i++) {
        const struct embed_file *file = &embed_web[i];
        if (strcmp(file->name, name) != 0)
            continue;
        /* Paths are computed at the first use, since the bytes never change while the process
         * runs. */
        if (!made[i].path[0])
            (void)snprintf(made[i].path, PATH_MAX_BYTES, "/assets/%016llx-%s",
                           (unsigned long long)hash_stable((const char *)file->data, file->len),
                           name);
        return made[i].path;
    }
    UNREACHABLE("a page names an asset that is not compiled in");
}

static slice type_of(slice name)
{
    if (slice_ends_with(name, SLICE(".css")))
        return SLICE("text/css; charset=utf-8");
    if (slice_ends_with(name, SLICE(".mjs")))
        return SLICE("text/javascript; charset=utf-8");
    return SLICE("image/svg+xml");
}

/* The build adds NAME.gz for each asset. */
static const struct embed_file *compressed(const char *name)
{
    for (size_t i = 0; i < embed_web_count; i++) {
        slice each = slice_cstr(embed_web[i].name);
        if (slice_ends_with(each, SLICE(".gz")) &&
            slice_eq_cstr(slice_first(each, each.len - 3), name))
            return &embed_web[i];
    }
    UNREACHABLE("the build compresses every asset");
}

static enum op_result reply_asset(struct web_request *request, const struct embed_file *file)
{
    slice type = type_of(slice_cstr(file->name));
    if (web_takes_gzip(request)) {
        serve_header(&request->serve, "Content-Encoding", SLICE("gzip"));
        file = compressed(file->name);
    }
    return web_reply_asset(request, type, slice_of(file->data, file->len));
}

enum op_result web_asset(struct web_request *request)
{
    slice wanted = request->serve.match.params[0];
    for (size_t i = 0; i < embed_web_count; i++) {
        const struct embed_file *file = &embed_web[i];
        /* A compressed file has no separate address. */
        if (slice_ends_with(slice_cstr(file->name), SLICE(".gz")))
            continue;
        slice path = slice_cstr(web_asset_path(file->name));
        if (slice_eq(slice_from(path, sizeof("/assets/") - 1), wanted))
            return reply_asset(request, file);
    }
    return web_reply_missing(request, "There is no page at this address.");
}
