/*
 * The document as a whole: versions, overrides, the walk over its operations, the manifest's text,
 * and the report.
 *
 * All memory of a run is in the result's arena, which is bounded. If it runs out, that is recorded
 * there (import_starve) and fails the run at its end, so that no operation is lost silently. The
 * manifest is made as JSON text and then loaded like any other, so the linter decides whether it is
 * valid, not the importer.
 */
#include "openapi/import.h"

#include <stdarg.h>

#include "catalog/reader.h"
#include "openapi/internal.h"

enum {
    IMPORT_ARENA_BYTES_MAX = 1024 * 1024 * 1024,
    REASONS_BYTES_MAX = 4000,
    INTEGRATION_TEXT_MAX = 1000,
    REFS_MAX = 200000,
};

/* People write the overrides, so a duplicate key is a mistake to report. */
static const struct json_limits override_limits = {.depth_max = 64, .refuse_dup_keys = true};

const char *import_kind_name(enum import_kind kind)
{
    static const char *const names[] = {"skipped", "weakened", "note"};
    return names[kind];
}

/* ---- the report ---- */

void import_line_add(struct import *im, enum import_kind kind, slice operation, slice text)
{
    struct import_result *result = im->result;
    if (result->line_count == im->lines_cap) {
        /* The size is doubled, so all old copies in the arena together are at most as large as the
         * last one. */
        size_t cap = im->lines_cap ? im->lines_cap * 2 : 64;
        struct import_line *lines = arena_realloc(
            im->arena, result->lines, result->line_count * sizeof(*lines), cap * sizeof(*lines));
        if (!lines)
            return;
        result->lines = lines;
        im->lines_cap = cap;
    }
    result->lines[result->line_count++] = (struct import_line){kind, operation, text};
}

void import_set(struct import *im, struct json *object, const char *name, struct json value)
{
    json_object_set(im->arena, object, slice_cstr(name), value);
}

void import_set_text(struct import *im, struct json *object, const char *name, slice text)
{
    if (text.len > 0)
        import_set(im, object, name, json_string(text));
}

void import_note(struct import *im, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    import_line_add(im, IMPORT_NOTE, SLICE_NONE, arena_vprintf(im->arena, fmt, args));
    va_end(args);
}

void import_skip(struct import_op *op, const char *fmt, ...)
{
    va_list args;
    if (op->is_skipped)
        return;
    va_start(args, fmt);
    op->reasons = arena_vprintf(op->im->arena, fmt, args);
    va_end(args);
    op->is_skipped = true;
}

void import_weaken(struct import_op *op, const char *fmt, ...)
{
    va_list args;
    /* A document repeats a mistake in many places; the limit keeps the report readable. */
    if (op->is_skipped || op->reasons.len > REASONS_BYTES_MAX)
        return;
    va_start(args, fmt);
    slice text = arena_vprintf(op->im->arena, fmt, args);
    va_end(args);
    if (op->reasons.len == 0)
        op->reasons = text;
    /* A text search is enough: a reason that is part of another reason adds nothing. */
    else if (slice_find(op->reasons, text) < 0)
        op->reasons =
            arena_printf(op->im->arena, "%.*s; %.*s", SLICE_ARG(op->reasons), SLICE_ARG(text));
}

/* ---- reading ---- */

static int check_version(struct import *im, struct err *err)
{
    slice version = json_get_str(im->document, SLICE("openapi"));
    if (JSON_GET(im->document, "swagger"))
        return err_set(err, ERR_INVALID,
                       "this is Swagger 2.0; convert it to OpenAPI 3 first (swagger2openapi does)");
    /* 3.0 uses its own dialect of JSON Schema; 3.1 uses JSON Schema 2020-12 (schema.c). */
    im->is_30 = slice_starts_with(version, SLICE("3.0"));
    if (!im->is_30 && !slice_starts_with(version, SLICE("3.1")))
        return err_set(err, ERR_INVALID,
                       "member \"openapi\" must say 3.0 or 3.1, got \"%.*s\": only these can be "
                       "imported",
                       SLICE_ARG(slice_first_utf8(version, 40)));
    if (!json_is(JSON_GET(im->document, "paths"), JSON_OBJECT))
        return err_set(err, ERR_INVALID, "the document has no \"paths\"");
    return OK;
}

static int read_document(struct import *im, slice text, struct err *err)
{
    if (text.len > IMPORT_DOCUMENT_BYTES_MAX)
        return err_set(err, ERR_LIMIT, "the document is over %d bytes", IMPORT_DOCUMENT_BYTES_MAX);
    im->document = import_parse(im->arena, text, err);
    if (!im->document)
        return err_prefix(err, "the document");
    if (im->document->type != JSON_OBJECT)
        return err_set(err, ERR_SYNTAX, "the document must be an object, in JSON or YAML");
    return check_version(im, err);
}

static int check_override_members(const struct json *object, slice where, const char *names,
                                  struct err *err)
{
    if (object->type != JSON_OBJECT)
        return err_set(err, ERR_INVALID, "overrides: %.*s must be an object", SLICE_ARG(where));
    for (uint32_t i = 0; i < object->count; i++) {
        slice name = json_str(&object->as.members[i].key);
        if (!slice_has_word(slice_cstr(names), name))
            return err_set(err, ERR_INVALID, "overrides: %.*s has an unknown member \"%.*s\"",
                           SLICE_ARG(where), SLICE_ARG(slice_first_utf8(name, 100)));
    }
    return OK;
}

static int check_operations(const struct json *operations, struct err *err)
{
    /* Unknown members are errors: otherwise a misspelt override would be ignored, and nothing in
     * the manifest would show it. */
    static const char members[] =
        "skip action_id title description tags side_effect_level requires_confirmation idempotent "
        "idempotency_header idempotency_member scopes response display";
    static const char *const arrays[] = {"tags", "scopes"};
    if (operations->type != JSON_OBJECT)
        return err_set(err, ERR_INVALID, "overrides: operations must be an object");
    for (uint32_t i = 0; i < operations->count; i++) {
        slice name = slice_first_utf8(json_str(&operations->as.members[i].key), 200);
        const struct json *one = &operations->as.members[i].value;
        int result = check_override_members(one, name, members, err);
        if (result != OK)
            return result;
        for (size_t j = 0; j < ARRAY_LEN(arrays); j++) {
            const struct json *list = json_get(one, slice_cstr(arrays[j]));
            if (list && list->type != JSON_ARRAY)
                return err_set(err, ERR_INVALID, "overrides: %.*s: %s must be an array",
                               SLICE_ARG(name), arrays[j]);
        }
        slice id = json_get_str(one, SLICE("action_id"));
        if (JSON_GET(one, "action_id") && !reader_is_id(id, CATALOG_TOOL_NAME_MAX))
            return err_set(err, ERR_INVALID,
                           "overrides: %.*s: action_id must match [a-z][a-z0-9_]*",
                           SLICE_ARG(name));
    }
    return OK;
}

static int read_overrides(struct import *im, slice text, struct err *err)
{
    if (text.len == 0)
        return OK;
    if (text.len > IMPORT_OVERRIDES_BYTES_MAX)
        return err_set(err, ERR_LIMIT, "the overrides are over %d bytes",
                       IMPORT_OVERRIDES_BYTES_MAX);
    const struct json *overrides = json_parse(im->arena, text, &override_limits, err);
    if (!overrides)
        return err_prefix(err, "overrides");
    int result =
        check_override_members(overrides, SLICE("the file"), "integration operations", err);
    im->integration = JSON_GET(overrides, "integration");
    im->operations = JSON_GET(overrides, "operations");
    if (result == OK && im->integration)
        result = check_override_members(im->integration, SLICE("integration"),
                                        "name description category tags docs_url base_url headers "
                                        "errors limits not_done_statuses connection_params auth "
                                        "scope_words",
                                        err);
    if (result == OK && im->operations)
        result = check_operations(im->operations, err);
    return result;
}

/* ---- the integration ---- */

static int choose_prefix(struct import *im, slice given, struct err *err)
{
    slice title = json_get_str(JSON_GET(im->document, "info"), SLICE("title"));
    if (given.len > 0 && !reader_is_id(given, IMPORT_PREFIX_MAX))
        return err_set(err, ERR_INVALID,
                       "the integration's id must match [a-z][a-z0-9_]* and have at most %d "
                       "characters",
                       IMPORT_PREFIX_MAX);
    im->prefix = given.len > 0 ? arena_dup(im->arena, given)
                               : import_title_id(im, title, IMPORT_PREFIX_MAX / 2);
    /* Cutting at the maximum may have left a "_" at the end, and a tool name appends another. */
    while (im->prefix.len > 0 && im->prefix.ptr[im->prefix.len - 1] == '_')
        im->prefix.len--;
    if (im->prefix.len == 0)
        return err_set(err, ERR_INVALID,
                       "the document has no title to make an id from; give an id");
    im->result->integration_id = im->prefix;
    return OK;
}

static void put_member_text(struct import *im, struct json *manifest, const char *name, slice found,
                            const char *fallback)
{
    const struct json *given = json_get(im->integration, slice_cstr(name));
    slice text = import_clip(im, found, INTEGRATION_TEXT_MAX);
    if (text.len == 0)
        text = slice_cstr(fallback);
    if (given)
        import_set(im, manifest, name, *given);
    else if (text.len > 0)
        import_set(im, manifest, name, json_string(text));
}

static void put_given_member(struct import *im, struct json *manifest, const char *name)
{
    const struct json *given = json_get(im->integration, slice_cstr(name));
    if (given)
        import_set(im, manifest, name, *given);
}

static const int not_done_statuses[] = {401, 403, 404, 405, 413, 415, 429};

static struct json make_manifest(struct import *im, struct json actions)
{
    const struct json *info = JSON_GET(im->document, "info");
    slice title = json_get_str(info, SLICE("title")),
          about = json_get_str(info, SLICE("description"));
    struct json manifest = json_object();
    import_set(im, &manifest, "integration_id", json_string(im->prefix));
    put_member_text(im, &manifest, "name", slice_first_utf8(title, 100), "Imported");
    put_member_text(im, &manifest, "description", about.len > 0 ? about : title,
                    "Imported from OpenAPI.");
    put_member_text(im, &manifest, "category", SLICE_NONE, "api");
    put_given_member(im, &manifest, "tags");
    put_member_text(im, &manifest, "docs_url",
                    json_get_str(JSON_GET(im->document, "externalDocs"), SLICE("url")), NULL);
    /* Members are in the order of the format's description, since people read and edit the file. */
    import_set(im, &manifest, "base_url", im->base_url);
    put_given_member(im, &manifest, "headers");
    if (im->connection_params.type == JSON_OBJECT)
        import_set(im, &manifest, "connection_params", im->connection_params);
    import_set(im, &manifest, "auth", im->auth);
    if (JSON_GET(im->integration, "scope_words") || im->scope_words.count == 0)
        put_given_member(im, &manifest, "scope_words");
    else
        import_set(im, &manifest, "scope_words", im->scope_words);
    put_given_member(im, &manifest, "limits");
    put_given_member(im, &manifest, "errors");
    /* For an unknown vendor, only these statuses prove that nothing was done. */
    struct json statuses = json_array();
    for (size_t i = 0; i < ARRAY_LEN(not_done_statuses); i++)
        json_array_push(im->arena, &statuses, json_i64(not_done_statuses[i]));
    if (JSON_GET(im->integration, "not_done_statuses"))
        put_given_member(im, &manifest, "not_done_statuses");
    else
        import_set(im, &manifest, "not_done_statuses", statuses);
    import_set(im, &manifest, "actions", actions);
    return manifest;
}

/* ---- the walk ---- */

/* Returns the method in capitals; SLICE_NONE for a member that is not an operation (parameters,
 * servers, summary, x-...). */
static slice method_of(slice name)
{
    static const char *const names[] = {"get",     "put",  "post",  "delete",
                                        "options", "head", "patch", "trace"};
    static const char *const methods[] = {"GET",     "PUT",  "POST",  "DELETE",
                                          "OPTIONS", "HEAD", "PATCH", "TRACE"};
    for (size_t i = 0; i < ARRAY_LEN(names); i++)
        if (slice_eq_cstr(name, names[i]))
            return slice_cstr(methods[i]);
    return SLICE_NONE;
}

static int walk_path(struct import *im, slice path, const struct json *described,
                     struct json *actions, struct err *err)
{
    /* A path item may itself be a $ref (OpenAPI 3.1 "Path Item Object"). */
    const struct json *item = import_resolve(im, described);
    if (!json_is(item, JSON_OBJECT)) {
        import_note(im,
                    "the path %.*s is described outside of this folder or is not an object: its "
                    "operations are not known",
                    SLICE_ARG(slice_first_utf8(path, 500)));
        return OK;
    }
    for (uint32_t i = 0; i < item->count; i++) {
        slice method = method_of(json_str(&item->as.members[i].key));
        if (method.len == 0)
            continue;
        if (im->result->total == IMPORT_OPERATIONS_MAX)
            return err_set(err, ERR_LIMIT, "the document has more than %d operations",
                           IMPORT_OPERATIONS_MAX);
        import_operation(im, item, path, method, &item->as.members[i].value, actions);
    }
    return OK;
}

static int walk(struct import *im, struct json *actions, struct err *err)
{
    const struct json *paths = JSON_GET(im->document, "paths");
    int result = OK;
    ASSERT(json_is(paths, JSON_OBJECT)); /* check_version refuses others */
    for (uint32_t i = 0; i < paths->count && result == OK; i++) {
        slice path = json_str(&paths->as.members[i].key);
        /* "paths" may contain extensions, too (x-...). */
        if (!slice_starts_with(path, SLICE("x-")))
            result = walk_path(im, path, &paths->as.members[i].value, actions, err);
    }
    for (uint32_t i = 0; json_is(im->operations, JSON_OBJECT) && i < im->operations->count; i++) {
        slice key = json_str(&im->operations->as.members[i].key);
        /* An override for an operation that the document does not have is outdated or misspelt. */
        if (result == OK && !map_get(&im->overridden, key))
            result = err_set(err, ERR_NOTFOUND, "overrides: the document has no operation \"%.*s\"",
                             SLICE_ARG(slice_first_utf8(key, 200)));
    }
    if (JSON_GET(im->document, "webhooks"))
        import_note(im, "webhooks are omitted");
    return result;
}

/* ---- the text ---- */

static int write_manifest(struct import *im, const struct json *manifest, struct err *err)
{
    struct buf text;
    buf_init(&text, CATALOG_MANIFEST_BYTES_MAX);
    json_write_pretty(&text, manifest);
    /* A failure far below the limit means out of memory, not that the limit was reached. */
    if (!buf_is_ok(&text) && text.len < CATALOG_MANIFEST_BYTES_MAX / 2) {
        buf_deinit(&text);
        return err_set(err, ERR_NOMEM, "out of memory");
    }
    if (!buf_is_ok(&text)) {
        /* Without indentation it may fit. */
        buf_clear(&text);
        json_write(&text, manifest);
    }
    im->result->manifest = arena_dup(im->arena, buf_slice(&text));
    int result = buf_is_ok(&text)
                     ? OK
                     : err_set(err, ERR_LIMIT,
                               "the manifest would be over %d bytes; skip operations in the "
                               "overrides",
                               CATALOG_MANIFEST_BYTES_MAX);
    buf_deinit(&text);
    return result;
}

/* Members that the overrides supply are only checked here. The first error is enough: it names
 * the member. */
static int check_manifest(struct import *im, struct err *err)
{
    struct catalog_source source = {SLICE("manifest"), im->result->manifest};
    struct catalog_report *report = catalog_report_new(err);
    if (!report)
        return ERR_NOMEM;
    struct catalog *catalog = catalog_load(&source, 1, report);
    int result = OK;
    for (size_t i = 0; !catalog && result == OK && i < report->count; i++)
        if (!report->problems[i].is_warning)
            result = err_set(err, ERR_INVALID, "the manifest would be faulty: %.*s: %.*s",
                             SLICE_ARG(report->problems[i].pointer),
                             SLICE_ARG(report->problems[i].text));
    if (!catalog && result == OK)
        result = err_set(err, ERR_NOMEM, "out of memory");
    catalog_unref(catalog);
    catalog_report_free(report);
    return result;
}

static int convert_document(struct import *im, const struct import_options *options,
                            struct err *err)
{
    struct json actions = json_array();
    int result = read_document(im, options->document, err);
    if (result == OK)
        result = read_overrides(im, options->overrides, err);
    if (result == OK)
        result = choose_prefix(im, options->integration_id, err);
    if (result == OK)
        result = import_servers(im, err);
    if (result != OK)
        return result;
    /* Called after the servers, whose failure ends the run, and before the operations, whose
     * scopes are those of the chosen scheme. */
    import_security(im);
    result = walk(im, &actions, err);
    if (im->arena->is_exhausted)
        return err_set(err, ERR_NOMEM, "out of memory");
    if (result == OK && actions.count == 0)
        return err_set(err, ERR_NOTFOUND, "no operation could be imported");
    if (result != OK)
        return result;
    struct json manifest = make_manifest(im, actions);
    result = write_manifest(im, &manifest, err);
    if (result == OK && im->arena->is_exhausted)
        result = err_set(err, ERR_NOMEM, "out of memory");
    return result == OK ? check_manifest(im, err) : result;
}

int openapi_import(const struct import_options *options, struct import_result *result,
                   struct err *err)
{
    struct import im = {.arena = &result->arena, .result = result, .folder = options->folder};
    *result = (struct import_result){.total = 0};
    arena_init(&result->arena, IMPORT_ARENA_BYTES_MAX);
    map_init(&im.files, REFS_MAX);
    /* The maps are limited, since a document may be made to exhaust memory; map_put fails beyond
     * the limit. */
    map_init(&im.refs, REFS_MAX);
    map_init(&im.def_names, REFS_MAX);
    map_init(&im.ids, IMPORT_OPERATIONS_MAX);
    map_init(&im.overridden, IMPORT_OPERATIONS_MAX);
    if (map_put(&im.def_names, SLICE(IMPORT_ANY_NAME), &im, NULL) != OK)
        import_starve(&im);
    int code = convert_document(&im, options, err);
    map_deinit(&im.files);
    map_deinit(&im.refs);
    map_deinit(&im.def_names);
    map_deinit(&im.ids);
    map_deinit(&im.overridden);
    return code;
}

void openapi_import_free(struct import_result *result)
{
    arena_deinit(&result->arena);
}
