/*
 * Other files of a description: those that a $ref names in its folder or below. A file is read
 * once, and its references are made absolute ("/schemas/pet.yaml#/Pet", from the folder) while it
 * is read, so that they mean the same wherever they are followed. Nothing outside the folder is
 * read, and nothing is fetched.
 *
 * An untrusted document must not read this machine's files: paths are joined here, cannot leave the
 * folder by "..", and are opened by the caller's `read`, which knows the folder. A file that cannot
 * be read is recorded as such, so it is tried and reported once.
 */
#include "base/encode.h"
#include "json/yaml.h"
#include "openapi/internal.h"

enum { PATH_BYTES_MAX = 1024, FILES_MAX = 1000, NODES_MAX = 4000000 };

static const struct json_limits document_limits = {.depth_max = IMPORT_DEPTH_MAX};

struct json *import_parse(struct arena *arena, slice text, struct err *err)
{
    slice start = text;
    while (start.len > 0 && strchr(" \t\r\n", start.ptr[0]))
        start = slice_from(start, 1);
    if (start.len > 0 && (start.ptr[0] == '{' || start.ptr[0] == '['))
        return json_parse(arena, text, &document_limits, err);
    /* YAML 1.2 contains JSON, but the JSON parser is stricter and faster. NODES_MAX bounds
     * aliases, with which a short text could expand to billions of nodes. */
    return yaml_parse(arena, text, IMPORT_DEPTH_MAX, NODES_MAX, err);
}

/* ---- paths ---- */

/* Joins base's folder and the relative path, without "." and "..". A path that begins with "/"
 * starts at the description's folder. Returns SLICE_NONE if the path leads out of that folder, is
 * too long, or is a URL. */
static slice join(struct import *im, slice base, slice relative)
{
    char out[PATH_BYTES_MAX];
    size_t len = 0;
    ASSERT(relative.len > 0); /* its first byte shows where it begins */
    if (slice_find(relative, SLICE("://")) >= 0 || slice_find_char(relative, '\\') >= 0)
        return SLICE_NONE;
    for (size_t i = base.len; relative.ptr[0] != '/' && i > 0; i--)
        if (base.ptr[i - 1] == '/') {
            len = i;
            break;
        }
    /* Checked once for all parts, because leaving some out only makes the path shorter. */
    if (len + relative.len + 1 >= sizeof(out))
        return SLICE_NONE;
    if (len > 0)
        memcpy(out, base.ptr, len);
    while (relative.ptr && relative.len > 0) {
        slice part = slice_split(&relative, '/');
        if (part.len == 0 || slice_eq_cstr(part, "."))
            continue;
        if (slice_eq_cstr(part, "..")) {
            if (len == 0)
                return SLICE_NONE;
            for (len--; len > 0 && out[len - 1] != '/'; len--)
                ;
            continue;
        }
        memcpy(out + len, part.ptr, part.len);
        len += part.len;
        if (relative.ptr && relative.len > 0)
            out[len++] = '/';
    }
    return arena_dup(im->arena, slice_of(out, len));
}

static slice decode_path(struct import *im, slice text)
{
    slice path = decode_percent_in(im->arena, text, false);
    /* A NUL would end the path early when it becomes a C string. */
    return path.len > PATH_BYTES_MAX || slice_find_char(path, '\0') >= 0 ? SLICE_NONE : path;
}

/* ---- references ---- */

/* Writes the same reference as seen from the folder, "/path#pointer". A reference that is
 * absolute, is a URL or leads out of the folder is left unchanged; import_file_root refuses the
 * latter two when it is followed. */
static slice absolute(struct import *im, slice base, slice text)
{
    slice rest = text, path = slice_split(&rest, '#');
    if (slice_starts_with(text, SLICE("/")) || slice_find(text, SLICE("://")) >= 0)
        return text;
    if (path.len > 0)
        path = join(im, base, path);
    else
        path = base;
    if (path.len == 0)
        return text;
    return arena_printf(im->arena, "/%.*s#%.*s", SLICE_ARG(path), SLICE_ARG(rest));
}

/* Recursion is bounded: the parsers nest at most IMPORT_DEPTH_MAX deep. Nodes that YAML aliases
 * share are visited more than once; by then their references are absolute, and do not change
 * again. */
static void make_absolute(struct import *im, slice base, struct json *value)
{
    for (uint32_t i = 0; value->type == JSON_ARRAY && i < value->count; i++)
        make_absolute(im, base, &value->as.items[i]);
    for (uint32_t i = 0; value->type == JSON_OBJECT && i < value->count; i++) {
        struct json_member *member = &value->as.members[i];
        slice text = json_str(&member->value);
        if (text.ptr && slice_eq_cstr(json_str(&member->key), "$ref"))
            member->value = json_string(absolute(im, base, text));
        else
            make_absolute(im, base, &member->value);
    }
}

/* ---- files ---- */

static struct import_file *read_import_file(struct import *im, slice path)
{
    struct err err = {0};
    slice text = SLICE_NONE;
    struct import_file *file = ARENA_NEW(im->arena, struct import_file);
    /* Entered before it is read, so that a file whose references lead back to it is found and
     * not read again. */
    if (!file || map_put(&im->files, path, file, NULL) != OK) {
        import_starve(im);
        return NULL;
    }
    const struct import_folder *folder = im->folder;
    if (folder->read(folder->ctx, path, im->arena, &text, &err) != OK) {
        import_note(im, "the file %.*s, which a reference names, is not read: %s", SLICE_ARG(path),
                    err.text);
        return file;
    }
    struct json *root = import_parse(im->arena, text, &err);
    if (!root)
        import_note(im, "the file %.*s, which a reference names, is not read: %s", SLICE_ARG(path),
                    err.text);
    else
        make_absolute(im, path, root);
    file->root = root;
    return file;
}

const struct json *import_file_root(struct import *im, slice reference)
{
    const struct import_folder *folder = im->folder;
    if (reference.len == 0)
        return im->document;
    slice path = folder ? decode_path(im, reference) : SLICE_NONE;
    path = path.len > 0 ? join(im, SLICE(""), path) : SLICE_NONE;
    if (path.len == 0)
        return NULL;
    if (slice_eq(path, folder->name))
        return im->document;
    struct import_file *file = map_get(&im->files, path);
    if (!file && im->files.count < FILES_MAX)
        file = read_import_file(im, path);
    return file ? file->root : NULL;
}
