/*
 * Warns about keywords in a manifest's schemas that JSON Schema does not define. The specification
 * ignores unknown keywords (JSON Schema Core 2020-12, section 6.5), so "requried" would require
 * nothing. The result is only a warning, because another tool may use the keyword.
 */
#include "base/suggest.h"
#include "catalog/manifest.h"
#include "catalog/tool.h"
#include "schema/keyword.h"

enum { LINTED_DEPTH_MAX = 32 };

struct schema_lint {
    struct reader reader;
    const struct json *root;
    bool is_input; /* a model fills in values of this schema */
};

/* Known keywords that only annotate. keyword_find knows the keywords that constrain values. */
static const char *const annotations[] = {
    "$comment", "$vocabulary", "contentEncoding", "contentMediaType",
    "default",  "deprecated",  "description",     "examples",
    "readOnly", "title",       "writeOnly"};

static void check_name(const struct reader *r, slice name)
{
    struct suggest suggest;
    /* "x-" is the convention for extensions, for example in OpenAPI. */
    if (keyword_find(name) != KW_COUNT || slice_starts_with(name, SLICE("x-")))
        return;
    suggest_begin(&suggest, name);
    for (size_t i = 0; i < ARRAY_LEN(annotations); i++) {
        if (slice_eq_cstr(name, annotations[i]))
            return;
        suggest_offer(&suggest, slice_cstr(annotations[i]));
    }
    for (unsigned i = 0; i < KW_COUNT; i++)
        suggest_offer(&suggest, keyword_name((enum keyword)i));
    if (suggest.best.len > 0)
        reader_warning(
            r, NULL,
            "\"%.*s\" is not a keyword of JSON Schema and has no effect; did you mean \"%.*s\"?",
            SLICE_ARG(name), SLICE_ARG(suggest.best));
    else
        reader_warning(r, NULL, "\"%.*s\" is not a keyword of JSON Schema and has no effect",
                       SLICE_ARG(name));
}

/* Warns about schemas because of which clients of models omit a tool (tool.h). */
static void check_for_clients(const struct schema_lint *lint, const struct json *schema)
{
    if (catalog_tool_lacks_items(lint->root, schema))
        reader_warning(&lint->reader, NULL,
                       "an array needs \"items\" with a \"type\": some model clients refuse a tool "
                       "without it");
    if (json_get_str(schema, SLICE("description")).len > CATALOG_TOOL_TEXT_MAX)
        reader_warning(&lint->reader, "description", "must have at most %d bytes for a tool",
                       CATALOG_TOOL_TEXT_MAX);
}

static void check_schema(const struct schema_lint *r, const struct json *schema, unsigned depth);

static void check_at(const struct schema_lint *r, slice name, ptrdiff_t index,
                     const struct json *schema, unsigned depth)
{
    struct schema_lint below = *r;
    struct reader_path path = {r->reader.path, name, index};
    below.reader.path = &path;
    check_schema(&below, schema, depth + 1);
}

static void check_below(const struct schema_lint *r, slice name, const struct json *value,
                        unsigned depth)
{
    struct schema_lint below = *r;
    struct reader_path path = {r->reader.path, name, -1};
    /* Members are keywords again only below a keyword that contains schemas: below "properties"
     * they are names of inputs, and "default" contains a value. */
    enum keyword_holds holds = keyword_holds(keyword_find(name));
    below.reader.path = &path;
    if (holds == HOLDS_SCHEMA)
        check_schema(&below, value, depth + 1);
    for (uint32_t i = 0; holds == HOLDS_LIST && json_is(value, JSON_ARRAY) && i < value->count; i++)
        check_at(&below, SLICE_NONE, i, &value->as.items[i], depth);
    for (uint32_t i = 0; holds == HOLDS_MAP && json_is(value, JSON_OBJECT) && i < value->count; i++)
        check_at(&below, json_str(&value->as.members[i].key), -1, &value->as.members[i].value,
                 depth);
}

static void check_schema(const struct schema_lint *r, const struct json *schema, unsigned depth)
{
    if (r->is_input && json_is(schema, JSON_OBJECT))
        check_for_clients(r, schema);
    for (uint32_t i = 0;
         json_is(schema, JSON_OBJECT) && depth < LINTED_DEPTH_MAX && i < schema->count; i++) {
        slice name = json_str(&schema->as.members[i].key);
        check_name(&r->reader, name);
        if (keyword_find(name) != KW_COUNT)
            check_below(r, name, &schema->as.members[i].value, depth);
    }
}

void manifest_lint_schema(const struct reader *parent, const char *name, const struct json *schema)
{
    struct reader_path path = {parent->path, slice_cstr(name), -1};
    struct schema_lint lint = {.reader = *parent, .root = schema};
    lint.reader.path = &path;
    lint.is_input = slice_eq_cstr(slice_cstr(name), "input_schema");
    check_schema(&lint, schema, 0);
}
