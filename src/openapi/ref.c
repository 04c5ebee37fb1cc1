/*
 * References of an OpenAPI document: `file#/components/...`. The file is a relative path (file.c),
 * the pointer is RFC 6901, percent-encoded.
 *
 * A target is looked up once for each text of a $ref and the result is kept, even if there is none:
 * documents repeat references thousands of times.
 */
#include "base/ascii.h"
#include "base/encode.h"
#include "openapi/internal.h"

enum { REF_BYTES_MAX = 2048, DEF_NAME_MAX = 60 };

static const struct json *find_target(struct import *im, slice text)
{
    slice fragment = text, file = slice_split(&fragment, '#');
    if (text.len < 2 || text.len > REF_BYTES_MAX)
        return NULL;
    const struct json *root = import_file_root(im, file);
    /* A reference to the whole imported document cannot be a schema; another file may be a schema.
     */
    if (!root || fragment.len == 0)
        return root == im->document ? NULL : root;
    slice pointer = decode_percent_in(im->arena, fragment, false);
    if (!pointer.ptr && im->arena->is_exhausted)
        import_starve(im);
    return pointer.ptr ? json_pointer(root, pointer) : NULL;
}

/* The name in `$defs`: the last part of the pointer in letters, digits, '_', '-' and '.', made
 * unique by a number. Numbers follow the order of first use in the document, so they are the same
 * in each run. */
static slice make_name(struct import *im, slice text)
{
    size_t from = text.len;
    while (from > 0 && text.ptr[from - 1] != '/')
        from--;
    slice last = slice_first(slice_from(text, from), DEF_NAME_MAX);
    char *out = arena_alloc_text(im->arena, last.len + 1);
    if (!out)
        return SLICE_NONE;
    for (size_t i = 0; i < last.len; i++) {
        char c = last.ptr[i];
        bool is_fine = ascii_is_alnum(c) || c == '_' || c == '-' || c == '.';
        out[i] = is_fine ? c : '_';
    }
    slice base = last.len > 0 ? slice_of(out, last.len) : SLICE("schema");
    slice name = base;
    for (unsigned n = 2; map_get(&im->def_names, name); n++) {
        name = arena_printf(im->arena, "%.*s_%u", SLICE_ARG(base), n);
        if (!name.ptr)
            return SLICE_NONE;
    }
    if (map_put(&im->def_names, name, im, NULL) == OK)
        return name;
    import_starve(im);
    return SLICE_NONE;
}

struct import_ref *import_ref_find(struct import *im, slice text)
{
    struct import_ref *ref = map_get(&im->refs, text);
    if (ref)
        return ref;
    ref = ARENA_NEW(im->arena, struct import_ref);
    if (!ref)
        return NULL;
    ref->target = find_target(im, text);
    if (ref->target)
        ref->name = make_name(im, text);
    if (map_put(&im->refs, text, ref, NULL) == OK)
        return ref;
    import_starve(im);
    return NULL;
}

const struct json *import_resolve(struct import *im, const struct json *value)
{
    /* The limit ends chains that lead back to themselves. */
    for (unsigned hops = 0; value && hops < IMPORT_REF_HOPS_MAX; hops++) {
        slice text = json_get_str(value, SLICE("$ref"));
        if (!text.ptr)
            return value;
        struct import_ref *ref = import_ref_find(im, text);
        value = ref ? ref->target : NULL;
    }
    return NULL;
}
