/*
 * Converts schemas of OpenAPI 3.0 (its own dialect: nullable, boolean exclusiveMinimum, example)
 * and 3.1 to plain JSON Schema 2020-12. A table maps each keyword; a keyword that is not in the
 * table (xml, discriminator, x-...) does not constrain values and is dropped silently. A keyword
 * with a malformed value is dropped with a line in the report: that only allows more values, and
 * the provider checks them in any case.
 */
#include "openapi/internal.h"

enum {
    SCHEMA_DEPTH_LEVELS_MAX = 40, /* nesting of subschemas; a manifest nests at most 128 deep */
    VALUE_DEPTH_MAX = 8,          /* nesting of a default, an enum's item or an example */
    VALUE_BYTES_MAX = 500,        /* size of an example */
    TEXT_BYTES_MAX = 1000,
    PATTERN_ARENA_BYTES_MAX = 4 * 1024 * 1024,
};

static struct json convert(struct import_schema *s, const struct json *in, unsigned depth);

/* Returns false if the value is not valid for the keyword, which is then omitted. *out is initially
 * the value as given. */
typedef bool keyword_fn(struct import_schema *s, const struct json *value, unsigned depth,
                        struct json *out);

static void report_loss(struct import_schema *s, const char *what)
{
    if (s->op)
        import_weaken(s->op, "%s", what);
}

/* ---- values ---- */

/* Recursion is bounded by depth, so values of any nesting are safe. */
bool import_is_shallow(const struct json *value, unsigned depth)
{
    if (value->type != JSON_ARRAY && value->type != JSON_OBJECT)
        return true;
    for (uint32_t i = 0; depth > 0 && i < value->count; i++) {
        const struct json *item = value->type == JSON_ARRAY ? &value->as.items[i]
                                                            : &value->as.members[i].value;
        if (!import_is_shallow(item, depth - 1))
            return false;
    }
    return depth > 0;
}

static size_t size_left(const struct json *value, size_t left)
{
    /* Estimates the length of the text and stops at `left`: a huge value costs no more than a
     * small one. */
    size_t own = value->type == JSON_STRING || value->type == JSON_BIGNUM ? value->count + 2 : 4;
    if (own > left)
        return 0;
    left -= own;
    for (uint32_t i = 0; value->type == JSON_ARRAY && left > 0 && i < value->count; i++)
        left = size_left(&value->as.items[i], left);
    for (uint32_t i = 0; value->type == JSON_OBJECT && left > 0 && i < value->count; i++) {
        left = size_left(&value->as.members[i].key, left);
        left = size_left(&value->as.members[i].value, left);
    }
    return left;
}

bool import_is_small(const struct json *value, size_t bytes_max)
{
    return size_left(value, bytes_max) > 0;
}

static bool keep_clipped_text(struct import_schema *s, const struct json *value, unsigned depth,
                              struct json *out)
{
    (void)depth;
    *out = json_string(import_clip(s->im, json_str(value), TEXT_BYTES_MAX));
    return json_str(value).len > 0;
}

static bool is_bool(const struct json *value)
{
    return value->type == JSON_BOOL;
}

static bool is_divisor(const struct json *value)
{
    /* multipleOf must be above 0 (JSON Schema Validation section 6.2.1). */
    return json_is_number(value) && json_to_double(value) > 0;
}

static bool is_count(const struct json *value)
{
    int64_t number = 0;
    return json_to_i64(value, &number) && number >= 0;
}

static bool is_shallow_value(const struct json *value)
{
    return import_is_shallow(value, VALUE_DEPTH_MAX);
}

static bool is_enum(const struct json *value)
{
    return value->type == JSON_ARRAY && value->count > 0 && is_shallow_value(value);
}

static const char *const type_names[] = {"null",   "boolean", "integer", "number",
                                         "string", "array",   "object"};

static bool is_type_name(slice name)
{
    for (size_t i = 0; i < ARRAY_LEN(type_names); i++)
        if (slice_eq_cstr(name, type_names[i]))
            return true;
    return false;
}

static bool is_type(const struct json *value)
{
    if (value->type == JSON_STRING)
        return is_type_name(json_str(value));
    bool is_good = value->type == JSON_ARRAY && value->count > 0;
    for (uint32_t i = 0; is_good && i < value->count; i++) {
        is_good = is_type_name(json_str(&value->as.items[i]));
        /* Items are unique (section 6.1.1); there are at most seven names, so the quadratic loop is
         * cheap. */
        for (uint32_t j = 0; is_good && j < i; j++)
            is_good = !json_equal(&value->as.items[i], &value->as.items[j]);
    }
    return is_good;
}

/* Examples only help readers: dropping long ones loses nothing. */
static bool keep_examples(struct import_schema *s, const struct json *value, unsigned depth,
                          struct json *out)
{
    (void)s, (void)depth;
    if (value->type != JSON_ARRAY || !import_is_small(value, VALUE_BYTES_MAX))
        *out = json_array();
    return true;
}

/* Whether this program's regex compiler accepts the pattern: descriptions use many dialects (PCRE,
 * lookbehind), and a pattern that does not compile would invalidate the whole schema. */
static bool keep_pattern(struct import_schema *s, const struct json *value, unsigned depth,
                         struct json *out)
{
    struct arena arena;
    struct err err;
    struct json schema = json_object();
    (void)depth, (void)out;
    if (value->type != JSON_STRING)
        return false;
    arena_init(&arena, PATTERN_ARENA_BYTES_MAX);
    json_object_set(&arena, &schema, SLICE("pattern"), *value);
    bool is_good = schema_compile(&arena, &schema, false, &err) != NULL;
    /* A failure far below the arena's limit means that the heap was exhausted, not that the pattern
     * is bad. */
    if (!is_good && err.code == ERR_NOMEM && arena.bytes_used < PATTERN_ARENA_BYTES_MAX / 4)
        import_starve(s->im);
    arena_deinit(&arena);
    return is_good;
}

/* ---- subschemas ---- */

static bool keep_schema(struct import_schema *s, const struct json *value, unsigned depth,
                        struct json *out)
{
    *out = convert(s, value, depth + 1);
    return value->type == JSON_OBJECT || value->type == JSON_BOOL;
}

static bool keep_list(struct import_schema *s, const struct json *value, unsigned depth,
                      struct json *out)
{
    if (value->type != JSON_ARRAY || value->count == 0)
        return false;
    *out = json_array();
    for (uint32_t i = 0; i < value->count; i++)
        json_array_push(s->im->arena, out, convert(s, &value->as.items[i], depth + 1));
    return true;
}

/* Whether only the other direction has the property: readOnly in a request, writeOnly in a
 * reply. */
static bool is_other_way(struct import_schema *s, const struct json *schema)
{
    const struct json *target = import_resolve(s->im, schema);
    return json_get_bool(target, s->is_request ? SLICE("readOnly") : SLICE("writeOnly"), false);
}

static bool keep_map(struct import_schema *s, const struct json *value, unsigned depth,
                     struct json *out)
{
    if (value->type != JSON_OBJECT)
        return false;
    *out = json_object();
    for (uint32_t i = 0; i < value->count; i++)
        if (!is_other_way(s, &value->as.members[i].value))
            json_object_set(s->im->arena, out, json_str(&value->as.members[i].key),
                            convert(s, &value->as.members[i].value, depth + 1));
    return true;
}

/* Keys are patterns; this program must be able to run each of them. */
static bool keep_pattern_map(struct import_schema *s, const struct json *value, unsigned depth,
                             struct json *out)
{
    struct json ignored;
    for (uint32_t i = 0; value->type == JSON_OBJECT && i < value->count; i++)
        if (!keep_pattern(s, &value->as.members[i].key, depth, &ignored))
            return false;
    return keep_map(s, value, depth, out);
}

static bool keep_names(struct import_schema *s, const struct json *value, unsigned depth,
                       struct json *out)
{
    (void)depth;
    if (value->type != JSON_ARRAY)
        return false;
    *out = json_array();
    for (uint32_t i = 0; i < value->count; i++) {
        const struct json *name = &value->as.items[i];
        bool is_new = name->type == JSON_STRING;
        for (uint32_t j = 0; is_new && j < out->count; j++)
            is_new = !json_equal(name, &out->as.items[j]);
        if (is_new)
            json_array_push(s->im->arena, out, *name);
    }
    return true;
}

static bool keep_name_map(struct import_schema *s, const struct json *value, unsigned depth,
                          struct json *out)
{
    if (value->type != JSON_OBJECT)
        return false;
    *out = json_object();
    for (uint32_t i = 0; i < value->count; i++) {
        struct json names;
        if (!keep_names(s, &value->as.members[i].value, depth, &names))
            return false;
        json_object_set(s->im->arena, out, json_str(&value->as.members[i].key), names);
    }
    return true;
}

/* Unordered: at most about forty comparisons per keyword. minimum and maximum with their
 * exclusive forms, and required, depend on more than one keyword and have their own functions. */
static const struct {
    const char *name;
    bool (*is_right)(const struct json *value); /* the check of a value that is kept unchanged,
                                                 * otherwise NULL */
    keyword_fn *keep;
} keywords[] = {
    {"title", NULL, keep_clipped_text},
    {"description", NULL, keep_clipped_text},
    {"default", is_shallow_value, NULL},
    {"examples", NULL, keep_examples},
    {"deprecated", is_bool, NULL},
    {"writeOnly", is_bool, NULL},
    {"format", NULL, keep_clipped_text},
    {"type", is_type, NULL},
    {"enum", is_enum, NULL},
    {"const", is_shallow_value, NULL},
    {"multipleOf", is_divisor, NULL},
    {"minLength", is_count, NULL},
    {"maxLength", is_count, NULL},
    {"pattern", NULL, keep_pattern},
    {"minItems", is_count, NULL},
    {"maxItems", is_count, NULL},
    {"uniqueItems", is_bool, NULL},
    {"minContains", is_count, NULL},
    {"maxContains", is_count, NULL},
    {"minProperties", is_count, NULL},
    {"maxProperties", is_count, NULL},
    {"dependentRequired", NULL, keep_name_map},
    {"contentEncoding", NULL, keep_clipped_text},
    {"contentMediaType", NULL, keep_clipped_text},
    {"properties", NULL, keep_map},
    {"patternProperties", NULL, keep_pattern_map},
    {"additionalProperties", NULL, keep_schema},
    {"propertyNames", NULL, keep_schema},
    {"items", NULL, keep_schema},
    {"prefixItems", NULL, keep_list},
    {"contains", NULL, keep_schema},
    {"allOf", NULL, keep_list},
    {"anyOf", NULL, keep_list},
    {"oneOf", NULL, keep_list},
    {"not", NULL, keep_schema},
    {"if", NULL, keep_schema},
    {"then", NULL, keep_schema},
    {"else", NULL, keep_schema},
    {"dependentSchemas", NULL, keep_map},
    {"unevaluatedItems", NULL, keep_schema},
    {"unevaluatedProperties", NULL, keep_schema},
};

static void keep_keyword(struct import_schema *s, const struct json_member *member, unsigned depth,
                         struct json *out)
{
    slice name = json_str(&member->key);
    for (size_t i = 0; i < ARRAY_LEN(keywords); i++) {
        struct json value = member->value;
        if (!slice_eq_cstr(name, keywords[i].name))
            continue;
        if (keywords[i].is_right ? keywords[i].is_right(&value)
                                 : keywords[i].keep(s, &member->value, depth, &value)) {
            bool is_empty = value.type == JSON_ARRAY && value.count == 0;
            if (!is_empty || !slice_eq_cstr(name, "examples"))
                json_object_set(s->im->arena, out, name, value);
        } else if (s->op && keywords[i].keep == keep_pattern) {
            import_weaken(s->op, "the pattern %.*s is dropped: it cannot be checked",
                          SLICE_ARG(slice_first_utf8(json_str(&member->value), 100)));
        } else if (s->op && keywords[i].keep != keep_clipped_text) {
            import_weaken(s->op, "a schema's \"%.*s\" is dropped: its value is not allowed",
                          SLICE_ARG(name));
        }
        return;
    }
    if (slice_eq_cstr(name, "$dynamicRef") || slice_eq_cstr(name, "$recursiveRef"))
        report_loss(s, "a schema's \"$dynamicRef\" is dropped");
}

/* 3.0 has "exclusiveMinimum: true" next to minimum; in 2020-12 it is the number itself. */
static void keep_bound(struct import_schema *s, const struct json *in, slice plain, slice exclusive,
                       struct json *out)
{
    const struct json *bound = json_get(in, plain), *strict = json_get(in, exclusive);
    bool is_strict = json_is(strict, JSON_BOOL) && strict->as.boolean;
    if (json_is_number(bound))
        json_object_set(s->im->arena, out, is_strict ? exclusive : plain, *bound);
    if (json_is_number(strict))
        json_object_set(s->im->arena, out, exclusive, *strict);
}

/* Leaves out the names that is_other_way omits, which no request could have. */
static void keep_required(struct import_schema *s, const struct json *in, struct json *out)
{
    const struct json *required = JSON_GET(in, "required");
    const struct json *properties = JSON_GET(in, "properties");
    struct json all, kept = json_array();
    if (!json_is(required, JSON_ARRAY) || !keep_names(s, required, 0, &all))
        return; /* authors of 3.0 put a boolean `required` into a property, which is not valid */
    for (uint32_t i = 0; i < all.count; i++) {
        const struct json *property = json_get(properties, json_str(&all.as.items[i]));
        if (!property || !is_other_way(s, property))
            json_array_push(s->im->arena, &kept, all.as.items[i]);
    }
    if (kept.count > 0)
        import_set(s->im, out, "required", kept);
}

/* 3.0's example is one of 2020-12's examples. */
static void keep_example(struct import_schema *s, const struct json *in, struct json *out)
{
    const struct json *example = JSON_GET(in, "example");
    struct json list = json_array();
    if (!example || JSON_GET(in, "examples") || !import_is_shallow(example, VALUE_DEPTH_MAX) ||
        !import_is_small(example, VALUE_BYTES_MAX))
        return;
    json_array_push(s->im->arena, &list, *example);
    import_set(s->im, out, "examples", list);
}

/* ---- null ---- */

/* 3.0's nullable: a plain type becomes a list with "null", and an enum, which would otherwise
 * forbid null, gets a null. If the schema has more than a type, a branch of anyOf allows null. */
static struct json with_null(struct import_schema *s, struct json schema)
{
    struct arena *arena = s->im->arena;
    const struct json *type = JSON_GET(&schema, "type"), *list = JSON_GET(&schema, "enum");
    bool is_plain = json_is(type, JSON_STRING) && !JSON_GET(&schema, "allOf") &&
                    !JSON_GET(&schema, "anyOf") && !JSON_GET(&schema, "oneOf") &&
                    !JSON_GET(&schema, "not") && !JSON_GET(&schema, "const");
    if (is_plain) {
        struct json types = json_array();
        json_array_push(arena, &types, *type);
        json_array_push(arena, &types, json_string(SLICE("null")));
        json_object_put(arena, &schema, SLICE("type"), types);
        bool has_null = !list;
        struct json values = json_array();
        for (uint32_t i = 0; list && i < list->count; i++) {
            json_array_push(arena, &values, list->as.items[i]);
            has_null = has_null || list->as.items[i].type == JSON_NULL;
        }
        if (!has_null) {
            json_array_push(arena, &values, json_null);
            json_object_put(arena, &schema, SLICE("enum"), values);
        }
        return schema;
    }
    /* Texts for people are kept outside the branches, where readers of the schema expect them. */
    struct json branches = json_array(), null_schema = json_object(), out = json_object();
    struct json inner = json_object();
    for (uint32_t i = 0; i < schema.count; i++) {
        slice name = json_str(&schema.as.members[i].key);
        bool is_word = slice_eq_cstr(name, "title") || slice_eq_cstr(name, "description");
        json_object_set(arena, is_word ? &out : &inner, name, schema.as.members[i].value);
    }
    json_object_set(arena, &null_schema, SLICE("type"), json_string(SLICE("null")));
    json_array_push(arena, &branches, inner);
    json_array_push(arena, &branches, null_schema);
    json_object_set(arena, &out, SLICE("anyOf"), branches);
    return out;
}

/* ---- arrays ---- */

static struct json any_type(struct import_schema *s)
{
    struct json types = json_array();
    for (size_t i = 0; i < ARRAY_LEN(type_names); i++)
        json_array_push(s->im->arena, &types, json_string(slice_cstr(type_names[i])));
    return types;
}

static struct json any_ref(struct import_schema *s)
{
    struct json ref = json_object();
    import_set(s->im, &ref, "$ref", json_string(SLICE("#/$defs/" IMPORT_ANY_NAME)));
    s->has_any = true;
    return ref;
}

static bool says_type(const struct json *schema)
{
    static const char *const typing[] = {"type", "enum", "const", "anyOf", "oneOf"};
    for (size_t i = 0; i < ARRAY_LEN(typing); i++)
        if (json_get(schema, slice_cstr(typing[i])))
            return true;
    return false;
}

/* An array whose items may have any type lists all types: model clients refuse an array without
 * types (catalog/tool.h). */
static void type_items(struct import_schema *s, const struct json *in, struct json *out)
{
    const struct json *type = JSON_GET(out, "type"), *items = JSON_GET(out, "items");
    bool is_array = slice_eq_cstr(json_str(type), "array") || json_has_text(type, SLICE("array"));
    bool is_none = json_is(items, JSON_BOOL) && !items->as.boolean;
    bool is_typed = says_type(items) || (JSON_GET(items, "$ref") &&
                                         says_type(import_resolve(s->im, JSON_GET(in, "items"))));
    if (!s->is_request || !is_array || is_none || is_typed)
        return;
    struct json typed = json_is(items, JSON_OBJECT) ? *items : json_object();
    if (typed.count == 0) {
        typed = any_ref(s);
    } else {
        json_object_put(s->im->arena, &typed, SLICE("type"), any_type(s));
        if (!JSON_GET(&typed, "items"))
            json_object_put(s->im->arena, &typed, SLICE("items"), any_ref(s));
    }
    json_object_put(s->im->arena, out, SLICE("items"), typed);
}

/* ---- discriminators ---- */

/* Whether a key of the mapping names the schema of `ref`, by the reference or by its last part
 * (OpenAPI "Discriminator Object"). */
static bool is_mapped_to(slice value, slice ref)
{
    size_t at = ref.len - (value.len < ref.len ? value.len : ref.len);
    return slice_eq(value, ref) || (value.len > 0 && at > 0 && ref.ptr[at - 1] == '/' &&
                                    slice_eq(slice_from(ref, at), value));
}

/* Returns the values that choose the branch: those of the mapping, otherwise the name of its
 * schema. */
static struct json names_of(struct import_schema *s, const struct json *mapping, slice ref)
{
    struct json names = json_array();
    for (uint32_t i = 0; json_is(mapping, JSON_OBJECT) && i < mapping->count; i++)
        if (is_mapped_to(json_str(&mapping->as.members[i].value), ref))
            json_array_push(s->im->arena, &names, mapping->as.members[i].key);
    size_t from = ref.len;
    while (from > 0 && ref.ptr[from - 1] != '/')
        from--;
    if (names.count == 0)
        json_array_push(s->im->arena, &names, json_string(slice_from(ref, from)));
    return names;
}

/* Without the discriminator property a value may fit two branches of a oneOf, which then refuses
 * it. A branch that defines the property itself keeps its definition. */
static void name_branch(struct import_schema *s, slice property, struct json names,
                        const struct json *described, struct json *branch)
{
    struct arena *arena = s->im->arena;
    const struct json *own =
        json_get(JSON_GET(import_resolve(s->im, described), "properties"), property);
    own = import_resolve(s->im, own);
    if (JSON_GET(own, "const") || JSON_GET(own, "enum") || JSON_GET(branch, "properties") ||
        branch->type != JSON_OBJECT)
        return;
    struct json value = json_object(), properties = json_object(), required = json_array();
    if (names.count == 1)
        json_object_set(arena, &value, SLICE("const"), names.as.items[0]);
    else
        json_object_set(arena, &value, SLICE("enum"), names);
    json_object_set(arena, &properties, property, value);
    json_array_push(arena, &required, json_string(property));
    json_object_set(arena, branch, SLICE("properties"), properties);
    if (!JSON_GET(branch, "required"))
        json_object_set(arena, branch, SLICE("required"), required);
}

static void name_branches(struct import_schema *s, const struct json *in, struct json *out)
{
    static const char *const lists[] = {"oneOf", "anyOf"};
    const struct json *by = JSON_GET(in, "discriminator"), *mapping = JSON_GET(by, "mapping");
    slice property = json_get_str(by, SLICE("propertyName"));
    for (size_t i = 0; property.len > 0 && i < ARRAY_LEN(lists); i++) {
        const struct json *described = json_get(in, slice_cstr(lists[i]));
        const struct json *list = json_get(out, slice_cstr(lists[i]));
        for (uint32_t k = 0; json_is(list, JSON_ARRAY) && k < list->count; k++) {
            slice ref = json_get_str(&described->as.items[k], SLICE("$ref"));
            if (ref.len > 0)
                name_branch(s, property, names_of(s, mapping, ref), &described->as.items[k],
                            &list->as.items[k]);
        }
    }
}

/* ---- references ---- */

/* A $ref is replaced by a reference to `$defs` of the action's schema. Its target is queued once
 * and converted by import_schema_finish, so the conversion of a recursive schema ends. A
 * dangling reference allows any value. */
static bool keep_ref(struct import_schema *s, slice text, struct json *out)
{
    struct import_ref *ref = import_ref_find(s->im, text);
    if (!ref || !ref->target || !ref->name.ptr) {
        if (s->op)
            import_weaken(
                s->op,
                "the reference %.*s does not lead to anything in this document and its folder",
                SLICE_ARG(slice_first_utf8(text, 200)));
        return false;
    }
    if (ref->used_by != s->id) {
        ref->used_by = s->id;
        ref->next = NULL;
        *s->end = ref;
        s->end = &ref->next;
    }
    import_set(s->im, out, "$ref",
               json_string(arena_printf(s->im->arena, "#/$defs/%.*s", SLICE_ARG(ref->name))));
    return true;
}

static struct json convert(struct import_schema *s, const struct json *in, unsigned depth)
{
    if (json_is(in, JSON_BOOL))
        return *in;
    struct json out = json_object();
    /* Counts conversions over all references, which limits an action's schema. */
    if (++s->nodes > s->nodes_max)
        s->is_over = true;
    if (s->is_over || !json_is(in, JSON_OBJECT))
        return out;
    if (depth > SCHEMA_DEPTH_LEVELS_MAX) {
        report_loss(s, "a schema is nested too deep: the deeper levels are not checked");
        return out;
    }
    /* In 3.0 siblings of a $ref are ignored ("Reference Object"), although authors put
     * descriptions there. In 3.1 they count. */
    slice ref = json_get_str(in, SLICE("$ref"));
    bool is_ref = ref.ptr && keep_ref(s, ref, &out);
    for (uint32_t i = 0; i < in->count; i++)
        if (!is_ref || !s->im->is_30 ||
            slice_eq_cstr(json_str(&in->as.members[i].key), "description"))
            keep_keyword(s, &in->as.members[i], depth, &out);
    if (is_ref && s->im->is_30)
        return out;
    keep_bound(s, in, SLICE("minimum"), SLICE("exclusiveMinimum"), &out);
    keep_bound(s, in, SLICE("maximum"), SLICE("exclusiveMaximum"), &out);
    keep_required(s, in, &out);
    keep_example(s, in, &out);
    type_items(s, in, &out);
    name_branches(s, in, &out);
    return s->im->is_30 && json_get_bool(in, SLICE("nullable"), false) ? with_null(s, out) : out;
}

void import_schema_begin(struct import_schema *schemas, struct import *im, struct import_op *op,
                         bool is_request, unsigned nodes_max)
{
    *schemas = (struct import_schema){.im = im,
                                      .op = op,
                                      .is_request = is_request,
                                      .nodes_max = nodes_max,
                                      .id = ++im->conversions};
    schemas->end = &schemas->first;
}

struct json import_schema_convert(struct import_schema *schemas, const struct json *schema)
{
    /* Only one conversion runs at a time, because its queue is linked through the references
     * themselves. */
    ASSERT(schemas->id == schemas->im->conversions);
    return convert(schemas, schema, 0);
}

void import_schema_finish(struct import_schema *schemas, struct json *root)
{
    struct json defs = json_object();
    ASSERT(schemas->id == schemas->im->conversions && root->type == JSON_OBJECT);
    /* The queue grows at its end while it is walked; each reference is in it at most once, so
     * the loop ends. */
    for (struct import_ref *ref = schemas->first; ref && !schemas->is_over; ref = ref->next)
        json_object_set(schemas->im->arena, &defs, ref->name, convert(schemas, ref->target, 1));
    if (schemas->has_any) {
        struct json any = json_object();
        import_set(schemas->im, &any, "type", any_type(schemas));
        import_set(schemas->im, &any, "items", any_ref(schemas));
        json_object_set(schemas->im->arena, &defs, SLICE(IMPORT_ANY_NAME), any);
    }
    if (defs.count > 0)
        import_set(schemas->im, root, "$defs", defs);
}
