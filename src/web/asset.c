/*
 * The style, the script and the icon, compiled in; each at a path that holds the hash of its bytes.
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

static enum op_result begin_asset(struct web_request *request)
{
    slice wanted = request->match.params[0];
    for (size_t i = 0; i < embed_web_count; i++) {
        const struct embed_file *file = &embed_web[i];
        slice path = slice_cstr(web_asset_path(file->name));
        if (slice_eq(slice_from(path, sizeof("/assets/") - 1), wanted))
            return web_reply_asset(request, type_of(wanted), slice_of(file->data, file->len));
    }
    return web_reply_problem(request, 404, SLICE("Not found"),
                             SLICE("There is no page at this address."));
}

const struct web_page web_asset = {
    .route = "/assets/{name}", .access = WEB_OPEN, .begin = begin_asset};
