/*
 * An action's schema and description for a tool; see tool.h.
 */
#include "catalog/tool.h"

#include "base/ascii.h"
#include "schema/keyword.h"

enum {
    NODES_MAX = 1000,
    HOPS_MAX = 16,
    RULES_BYTES_MAX = 600,
    WORDS_DEPTH_MAX = 4,
    SIGNATURE_BYTES_MAX = 300,
    SIGNATURE_NAMES_MAX = 24,
    SIGNATURE_MEMBERS_MAX = 100, /* bytes of the names of an object's members */
    SIGNATURE_EXAMPLE_MAX = 260, /* bytes of an example */
    SIGNATURE_USUAL_MAX = 8,     /* with this many inputs no optional one is added */
};

/* ---- questions ---- */

bool catalog_tool_takes_property(slice name)
{
    for (size_t i = 0; i < name.len; i++)
        if (!ascii_is_alnum(name.ptr[i]) && slice_find_char(SLICE("_.-"), name.ptr[i]) < 0)
            return false;
    return name.len > 0 && name.len <= CATALOG_TOOL_PROPERTY_MAX;
}

/* Returns the last schema in the chain of $ref, or NULL if the schema has no $ref, or if the chain
 * leaves the schema or is circular. */
static const struct json *target_of(const struct json *root, const struct json *schema)
{
    for (unsigned hops = 0; hops < HOPS_MAX; hops++) {
        slice text = json_get_str(schema, SLICE("$ref"));
        if (!text.ptr)
            return hops == 0 ? NULL : schema;
        if (text.len == 0 || text.ptr[0] != '#')
            return NULL;
        schema = json_pointer(root, slice_from(text, 1));
    }
    return NULL;
}

static bool takes_type(const struct json *schema, const char *name)
{
    const struct json *type = JSON_GET(schema, "type");
    return slice_eq_cstr(json_str(type), name) || json_has_text(type, slice_cstr(name));
}

static bool is_typed(const struct json *root, const struct json *schema)
{
    static const char *const typing[] = {"type", "enum", "const", "anyOf", "oneOf"};
    const struct json *target = target_of(root, schema);
    for (size_t i = 0; i < ARRAY_LEN(typing); i++)
        if (json_get(schema, slice_cstr(typing[i])) || json_get(target, slice_cstr(typing[i])))
            return true;
    return false;
}

bool catalog_tool_lacks_items(const struct json *root, const struct json *schema)
{
    return takes_type(schema, "array") && !is_typed(root, JSON_GET(schema, "items"));
}

/* ---- the schema ---- */

void catalog_tool_begin(struct catalog_tool *tool, const struct json *input_schema)
{
    *tool = (struct catalog_tool){.root = input_schema};
}

/* Writes a schema that allows any value except an array, whose items would need a type. It is for
 * schemas that cannot be described further. */
static void put_any(struct json_writer *w)
{
    static const char *const types[] = {"string", "number", "boolean", "object", "null"};
    json_member_open(w, "type", '[');
    for (size_t i = 0; i < ARRAY_LEN(types); i++)
        json_put_str(w, slice_cstr(types[i]));
    json_close(w, ']');
}

/* Truncates after the last sentence that ends in the second half, else after the last word
 * there, else after a character. */
static slice cut_text(slice text, size_t max)
{
    slice kept = slice_first_utf8(text, max);
    if (kept.len == text.len)
        return text;
    for (size_t end = kept.len; end > max / 2; end--)
        if (kept.ptr[end - 1] == ' ' && kept.ptr[end - 2] == '.')
            return slice_first(kept, end - 1);
    for (size_t end = kept.len; end > max / 2; end--)
        if (kept.ptr[end - 1] == ' ')
            return slice_first(kept, end - 1);
    return kept;
}

static void put_below(struct catalog_tool *tool, struct json_writer *w, slice name,
                      const struct json *value)
{
    enum keyword_holds holds = keyword_holds(keyword_find(name));
    if (holds == HOLDS_SCHEMA) {
        catalog_tool_put_schema(tool, w, value);
    } else if (holds == HOLDS_LIST && value->type == JSON_ARRAY) {
        json_open(w, '[');
        for (uint32_t i = 0; i < value->count; i++)
            catalog_tool_put_schema(tool, w, &value->as.items[i]);
        json_close(w, ']');
    } else if (holds == HOLDS_MAP && value->type == JSON_OBJECT) {
        json_open(w, '{');
        for (uint32_t i = 0; i < value->count; i++) {
            json_key_slice(w, json_str(&value->as.members[i].key));
            catalog_tool_put_schema(tool, w, &value->as.members[i].value);
        }
        json_close(w, '}');
    } else if (slice_eq_cstr(name, "description") && value->type == JSON_STRING) {
        json_put_str(w, cut_text(json_str(value), CATALOG_TOOL_TEXT_MAX));
    } else {
        json_put(w, value);
    }
}

/* Writes all members except those that contain schemas, and those of `before`, which was written
 * already. */
static void put_members(struct catalog_tool *tool, struct json_writer *w, const struct json *schema,
                        const struct json *before)
{
    for (uint32_t i = 0; i < schema->count; i++) {
        slice name = json_str(&schema->as.members[i].key);
        bool is_name = slice_starts_with(name, SLICE("$")) || slice_eq_cstr(name, "definitions");
        bool is_untyped_items = slice_eq_cstr(name, "items") &&
                                catalog_tool_lacks_items(tool->root, schema);
        if (is_name || is_untyped_items || json_get(before, name))
            continue;
        json_key_slice(w, name);
        put_below(tool, w, name, &schema->as.members[i].value);
    }
}

/* Writes a part that a tool's schema cannot contain completely, since it is recursive or too
 * large. */
static void put_cut(struct catalog_tool *tool, struct json_writer *w, const struct json *schema)
{
    const struct json *target = target_of(tool->root, schema);
    slice about = json_get_str(schema, SLICE("description"));
    const struct json *type = json_get(target ? target : schema, SLICE("type"));
    if (!about.ptr)
        about = json_get_str(target, SLICE("description"));
    json_open(w, '{');
    if (about.ptr)
        json_member_str(w, "description", cut_text(about, CATALOG_TOOL_TEXT_MAX));
    if (json_is(type, JSON_STRING) && !slice_eq_cstr(json_str(type), "array"))
        json_member(w, "type", type);
    else
        put_any(w);
    json_close(w, '}');
}

/* Whether the target may be written inside the present schema; if so, marks it as open. */
static bool open_target(struct catalog_tool *tool, const struct json *target)
{
    for (unsigned i = 0; i < tool->open_count; i++)
        if (tool->open[i] == target)
            return false;
    if (tool->open_count == ARRAY_LEN(tool->open))
        return false;
    tool->open[tool->open_count++] = target;
    return true;
}

static void put_items(struct catalog_tool *tool, struct json_writer *w, const struct json *schema)
{
    const struct json *items = JSON_GET(schema, "items");
    json_member_open(w, "items", '{');
    if (json_is(items, JSON_OBJECT))
        put_members(tool, w, items, NULL);
    put_any(w);
    json_close(w, '}');
}

/* Whether both schemas have the same constraining keyword, so that neither value may replace the
 * other. */
static bool constrains_same(const struct json *schema, const struct json *target)
{
    for (uint32_t i = 0; i < schema->count; i++) {
        slice name = json_str(&schema->as.members[i].key);
        if (keyword_find(name) != KW_COUNT && !slice_starts_with(name, SLICE("$")) &&
            json_get(target, name))
            return true;
    }
    return false;
}

static void put_both(struct catalog_tool *tool, struct json_writer *w, const struct json *target)
{
    json_member_open(w, "allOf", '[');
    catalog_tool_put_schema(tool, w, target);
    json_close(w, ']');
}

void catalog_tool_put_schema(struct catalog_tool *tool, struct json_writer *w,
                             const struct json *schema)
{
    unsigned opened = tool->open_count;
    if (schema->type != JSON_OBJECT) {
        json_put(w, schema);
        return;
    }
    const struct json *target = target_of(tool->root, schema);
    if (++tool->nodes > NODES_MAX || (target && !open_target(tool, target))) {
        put_cut(tool, w, schema);
        return;
    }
    json_open(w, '{');
    put_members(tool, w, schema, NULL);
    if (json_is(target, JSON_OBJECT) && !constrains_same(schema, target))
        put_members(tool, w, target, schema);
    else if (json_is(target, JSON_OBJECT) && !JSON_GET(schema, "allOf"))
        put_both(tool, w, target);
    if (catalog_tool_lacks_items(tool->root, schema))
        put_items(tool, w, schema);
    else if (catalog_tool_lacks_items(tool->root, target))
        put_items(tool, w, target);
    json_close(w, '}');
    tool->open_count = opened;
}

/* ---- the schema's other requirements, in words ---- */

static void say(struct arena_text *text, const struct json *schema, unsigned depth);

/* Writes the subschemas of a list, a property's values, or required names, separated by `joint`. */
static void say_list(struct arena_text *text, const struct json *list, const char *joint,
                     unsigned depth)
{
    for (uint32_t i = 0; json_is(list, JSON_ARRAY) && i < list->count; i++) {
        const struct json *item = &list->as.items[i];
        if (i > 0)
            arena_text_add(text, slice_cstr(joint));
        if (item->type == JSON_OBJECT)
            say(text, item, depth);
        else if (item->type == JSON_STRING)
            arena_text_add(text, json_str(item));
    }
}

static void say_json(struct arena_text *text, const struct json *value)
{
    arena_text_add(text, json_text_of(value, text->arena, RULES_BYTES_MAX));
}

/* Writes a property with its values: type = "user" or "group". */
static void say_property(struct arena_text *text, slice name, const struct json *schema)
{
    const struct json *one = JSON_GET(schema, "const"), *list = JSON_GET(schema, "enum");
    arena_text_add(text, name);
    if (one && schema->count == 1) {
        ARENA_TEXT_LIT(text, " = ");
        say_json(text, one);
    } else if (json_is(list, JSON_ARRAY) && schema->count == 1) {
        for (uint32_t i = 0; i < list->count; i++) {
            arena_text_add(text, i == 0 ? SLICE(" = ") : SLICE(" or "));
            say_json(text, &list->as.items[i]);
        }
    } else if (json_is(JSON_GET(schema, "type"), JSON_STRING) && schema->count == 1) {
        ARENA_TEXT_LIT(text, " as ");
        arena_text_add(text, json_get_str(schema, SLICE("type")));
    } else {
        ARENA_TEXT_LIT(text, ": ");
        say_json(text, schema);
    }
}

static void say_properties(struct arena_text *text, const struct json *properties)
{
    for (uint32_t i = 0; json_is(properties, JSON_OBJECT) && i < properties->count; i++) {
        if (i > 0)
            ARENA_TEXT_LIT(text, " and ");
        say_property(text, json_str(&properties->as.members[i].key),
                     &properties->as.members[i].value);
    }
}

/* Writes a subschema as part of a sentence. A keyword without a wording is written as JSON. */
static void say(struct arena_text *text, const struct json *schema, unsigned depth)
{
    for (uint32_t i = 0; depth < WORDS_DEPTH_MAX && i < schema->count; i++) {
        const struct json_member *member = &schema->as.members[i];
        const struct json *value = &member->value;
        bool is_first = i == 0;
        switch (keyword_find(json_str(&member->key))) {
        case KW_REQUIRED:
            arena_text_add(text, is_first ? SLICE("") : SLICE(", with "));
            say_list(text, value, " and ", depth + 1);
            break;
        case KW_PROPERTIES:
            arena_text_add(text, is_first ? SLICE("") : SLICE(", "));
            say_properties(text, value);
            break;
        case KW_ANY_OF:
        case KW_ONE_OF:
            arena_text_add(text, is_first ? SLICE("") : SLICE(", and "));
            say_list(text, value, " or ", depth + 1);
            break;
        case KW_NOT:
            arena_text_add(text, is_first ? SLICE("not ") : SLICE(", but not "));
            say(text, value, depth + 1);
            break;
        default:
            arena_text_add(text, is_first ? SLICE("") : SLICE(", "));
            arena_text_printf(
                text, "\"%.*s\": ", SLICE_ARG(json_excerpt(json_str(&member->key), text->arena)));
            say_json(text, value);
        }
    }
}

/* Writes one sentence for each keyword. */
static void say_rule(struct arena_text *text, enum keyword keyword, const struct json *value)
{
    int64_t count = 0;
    switch (keyword) {
    case KW_ANY_OF:
        ARENA_TEXT_LIT(text, " Needs at least one of: ");
        say_list(text, value, "; ", 0);
        break;
    case KW_ONE_OF:
        ARENA_TEXT_LIT(text, " Needs exactly one of: ");
        say_list(text, value, "; ", 0);
        break;
    case KW_NOT:
        ARENA_TEXT_LIT(text, " Does not take: ");
        if (value->type == JSON_OBJECT && value->count == 1 && JSON_GET(value, "anyOf"))
            say_list(text, JSON_GET(value, "anyOf"), "; or ", 0);
        else if (value->type == JSON_OBJECT)
            say(text, value, 0);
        break;
    case KW_REQUIRED: /* as part of an item of allOf */
        ARENA_TEXT_LIT(text, " Needs ");
        say_list(text, value, " and ", 0);
        break;
    case KW_MIN_PROPERTIES:
    case KW_MAX_PROPERTIES:
        (void)json_to_i64(value, &count);
        arena_text_printf(text, " Needs at %s %lld argument%s",
                          keyword == KW_MIN_PROPERTIES ? "least" : "most", (long long)count,
                          count == 1 ? "" : "s");
        break;
    default:
        arena_text_printf(text,
                          " Also, by JSON Schema, \"%.*s\": ", SLICE_ARG(keyword_name(keyword)));
        say_json(text, value);
    }
    ARENA_TEXT_LIT(text, ".");
}

/* An allOf whose items contain nothing but such rules is a sequence of rules. */
static void say_rules(struct arena_text *text, const struct json *schema, unsigned depth)
{
    for (uint32_t i = 0; i < schema->count; i++) {
        enum keyword keyword = keyword_find(json_str(&schema->as.members[i].key));
        const struct json *value = &schema->as.members[i].value;
        bool is_listed = depth == 0 &&
                         (keyword == KW_TYPE || keyword == KW_PROPERTIES ||
                          keyword == KW_REQUIRED || keyword == KW_ADDITIONAL_PROPERTIES);
        bool is_name = keyword <= KW_SCHEMA && keyword != KW_REF;
        if (keyword == KW_COUNT || is_listed || is_name || keyword == KW_DEFINITIONS)
            continue;
        if (keyword != KW_ALL_OF || depth == WORDS_DEPTH_MAX) {
            say_rule(text, keyword, value);
            continue;
        }
        for (uint32_t k = 0; value->type == JSON_ARRAY && k < value->count; k++)
            if (value->as.items[k].type == JSON_OBJECT)
                say_rules(text, &value->as.items[k], depth + 1);
    }
}

slice catalog_tool_description(const struct catalog_action *action, struct arena *arena)
{
    struct arena_text text;
    arena_text_init(&text, arena, RULES_BYTES_MAX);
    say_rules(&text, action->input_schema, 0);
    slice rules = text.status == OK ? slice_of(text.ptr, text.len)
                                    : SLICE(" Not every combination of arguments is accepted: "
                                            "describe_action has the whole input_schema.");
    slice about = cut_text(action->description, CATALOG_TOOL_TEXT_MAX - rules.len);
    return rules.len == 0 ? about
                          : arena_printf(arena, "%.*s%.*s", SLICE_ARG(about), SLICE_ARG(rules));
}

/* ---- the signature ---- */

struct signature {
    struct arena_text text;
    const struct json *root, *properties;
    slice names[SIGNATURE_NAMES_MAX];
    bool is_open[SIGNATURE_NAMES_MAX]; /* an object whose members are not named */
    size_t count;
};

static const slice open_object = {"{}", 2};

static bool is_in_signature(const struct signature *s, slice name)
{
    for (size_t i = 0; i < s->count; i++)
        if (slice_eq(s->names[i], name))
            return true;
    return false;
}

/* Appends the names of an object's members, and " | " before it if it is one of several forms. */
static void sign_members(struct arena_text *text, const struct json *properties)
{
    const struct json_member *members = properties->as.members;
    bool is_first = true;
    for (uint32_t i = 0; i < properties->count; i++) {
        if (JSON_GET(&members[i].value, "const"))
            continue; /* it says which form it is, and can be left out */
        slice before = !is_first ? SLICE(", ") : text->len > 0 ? SLICE(" | ") : SLICE("");
        arena_text_add(text, before);
        arena_text_add(text, json_str(&members[i].key));
        is_first = false;
    }
}

static void sign_forms(struct signature *s, struct arena_text *text, const struct json *schema)
{
    static const char *const several[] = {"anyOf", "oneOf"};
    const struct json *properties = JSON_GET(schema, "properties");
    if (json_is(properties, JSON_OBJECT))
        sign_members(text, properties);
    for (size_t i = 0; i < ARRAY_LEN(several); i++) {
        const struct json *forms = json_get(schema, slice_cstr(several[i]));
        for (uint32_t k = 0; json_is(forms, JSON_ARRAY) && k < forms->count; k++) {
            const struct json *form = &forms->as.items[k], *target = target_of(s->root, form);
            properties = JSON_GET(target ? target : form, "properties");
            if (json_is(properties, JSON_OBJECT))
                sign_members(text, properties);
        }
    }
}

/* Returns what follows a name: [] for a list; for an object its members, or {} if they are not
 * declared, are too many, or do not fit into memory. */
static slice sign_kind(struct signature *s, const struct json *schema)
{
    struct arena_text text;
    if (takes_type(schema, "array"))
        return SLICE("[]");
    arena_text_init(&text, s->text.arena, SIGNATURE_BYTES_MAX);
    sign_forms(s, &text, schema);
    bool is_open = text.status != OK || text.len > SIGNATURE_MEMBERS_MAX;
    if (text.len == 0 && !takes_type(schema, "object"))
        return SLICE("");
    return text.len == 0 || is_open
               ? open_object
               : arena_printf(s->text.arena, "{%.*s}", (int)text.len, text.ptr);
}

/* Appends a name, or nothing if it does not fit, so that the text never ends inside a name. */
static bool sign_name(struct signature *s, slice separator, slice name, slice mark)
{
    const struct json *schema = json_get(s->properties, name);
    const struct json *target = target_of(s->root, schema);
    if (is_in_signature(s, name) || s->count == SIGNATURE_NAMES_MAX)
        return false;
    slice kind = sign_kind(s, target ? target : schema);
    if (s->text.len + separator.len + name.len + kind.len + mark.len > SIGNATURE_BYTES_MAX)
        return false;
    s->is_open[s->count] = slice_eq(kind, open_object);
    s->names[s->count++] = name;
    const slice parts[] = {separator, name, kind, mark};
    for (size_t i = 0; i < ARRAY_LEN(parts); i++)
        arena_text_add(&s->text, parts[i]);
    return true;
}

static slice next_separator(const struct signature *s)
{
    return s->count > 0 ? SLICE(", ") : SLICE("");
}

static void sign_required(struct signature *s, const struct json *schema)
{
    const struct json *required = JSON_GET(schema, "required");
    for (uint32_t i = 0; json_is(required, JSON_ARRAY) && i < required->count; i++)
        (void)sign_name(s, next_separator(s), json_str(&required->as.items[i]), SLICE("!"));
}

/* Writes the choice only if each branch requires something. */
static void sign_choice(struct signature *s, const struct json *branches)
{
    for (uint32_t i = 0; json_is(branches, JSON_ARRAY) && i < branches->count; i++)
        if (!JSON_GET(&branches->as.items[i], "required"))
            return;
    slice separator = next_separator(s);
    for (uint32_t i = 0; json_is(branches, JSON_ARRAY) && i < branches->count; i++) {
        const struct json *required = JSON_GET(&branches->as.items[i], "required");
        bool is_first = true;
        for (uint32_t k = 0; json_is(required, JSON_ARRAY) && k < required->count; k++) {
            if (!sign_name(s, is_first ? separator : SLICE(" + "), json_str(&required->as.items[k]),
                           SLICE("")))
                continue;
            is_first = false;
            separator = SLICE(" | ");
        }
    }
}

static void sign_choices(struct signature *s, const struct json *schema)
{
    sign_choice(s, JSON_GET(schema, "anyOf"));
    sign_choice(s, JSON_GET(schema, "oneOf"));
}

/* Whether the example shows the form of an object that the signature leaves open. */
static bool shows_open(const struct signature *s, const struct json *input)
{
    for (size_t i = 0; i < s->count; i++)
        if (s->is_open[i] && json_is(json_get(input, s->names[i]), JSON_OBJECT))
            return true;
    return false;
}

static void sign_example(struct signature *s, const struct json *examples)
{
    for (uint32_t i = 0; json_is(examples, JSON_ARRAY) && i < examples->count; i++) {
        const struct json *input = JSON_GET(&examples->as.items[i], "input");
        if (!shows_open(s, input))
            continue;
        slice text = json_text_of(input, s->text.arena, SIGNATURE_EXAMPLE_MAX);
        if (!text.ptr)
            continue;
        ARENA_TEXT_LIT(&s->text, " e.g. ");
        arena_text_add(&s->text, text);
        return;
    }
}

slice catalog_tool_signature(slice name, const struct json *input_schema,
                             const struct json *examples, struct arena *arena)
{
    struct signature s = {.root = input_schema, .properties = JSON_GET(input_schema, "properties")};
    const struct json *all = JSON_GET(input_schema, "allOf");
    uint32_t also = json_is(all, JSON_ARRAY) ? all->count : 0;
    arena_text_init(&s.text, arena, SIGNATURE_BYTES_MAX + CATALOG_TOOL_TEXT_MAX);
    arena_text_add(&s.text, name);
    ARENA_TEXT_LIT(&s.text, "(");
    sign_required(&s, input_schema);
    for (uint32_t i = 0; i < also; i++)
        sign_required(&s, &all->as.items[i]);
    sign_choices(&s, input_schema);
    for (uint32_t i = 0; i < also; i++)
        sign_choices(&s, &all->as.items[i]);
    uint32_t count = json_is(s.properties, JSON_OBJECT) ? s.properties->count : 0;
    for (uint32_t i = 0; i < count && s.count < SIGNATURE_USUAL_MAX; i++)
        (void)sign_name(&s, next_separator(&s), json_str(&s.properties->as.members[i].key),
                        SLICE(""));
    if (s.count < count)
        arena_text_printf(&s.text, "%.*s...", SLICE_ARG(next_separator(&s)));
    ARENA_TEXT_LIT(&s.text, ")");
    sign_example(&s, examples);
    return s.text.status == OK ? slice_of(s.text.ptr, s.text.len) : SLICE_NONE;
}
