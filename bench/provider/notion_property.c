/*
 * Database schemas: {"Name": {"id": "title", "name": "Name", "type": "title", "title": {}}, ...}.
 */
#include "provider/notion_property.h"

static const struct {
    const char *name;
    enum notion_type type;
} type_names[] = {
    {"title", NOTION_TITLE},
    {"rich_text", NOTION_RICH_TEXT},
    {"number", NOTION_NUMBER},
    {"select", NOTION_SELECT},
    {"multi_select", NOTION_MULTI_SELECT},
    {"status", NOTION_STATUS},
    {"date", NOTION_DATE},
    {"people", NOTION_PEOPLE},
    {"files", NOTION_FILES},
    {"checkbox", NOTION_CHECKBOX},
    {"url", NOTION_URL},
    {"email", NOTION_EMAIL},
    {"phone_number", NOTION_PHONE},
    {"relation", NOTION_RELATION},
    {"created_time", NOTION_CREATED_TIME},
    {"created_by", NOTION_CREATED_BY},
    {"last_edited_time", NOTION_EDITED_TIME},
    {"last_edited_by", NOTION_EDITED_BY},
};

static const char *const colors[] = {"default", "gray", "brown",  "orange", "yellow",
                                     "green",   "blue", "purple", "pink",   "red"};

enum notion_type notion_type_of(slice name)
{
    for (size_t i = 0; i < ARRAY_LEN(type_names); i++)
        if (slice_eq_cstr(name, type_names[i].name))
            return type_names[i].type;
    return NOTION_TYPE_NONE;
}

const char *notion_type_name(enum notion_type type)
{
    for (size_t i = 0; i < ARRAY_LEN(type_names); i++)
        if (type_names[i].type == type)
            return type_names[i].name;
    return "unknown";
}

const struct json *notion_schema_find(const struct notion_node *source, slice name_or_id,
                                      slice *name)
{
    const struct json *schema = &source->properties;
    for (uint32_t i = 0; i < schema->count; i++) {
        const struct json_member *member = &schema->as.members[i];
        if (slice_eq(json_str(&member->key), name_or_id) ||
            slice_eq(json_get_str(&member->value, SLICE("id")), name_or_id)) {
            if (name)
                *name = json_str(&member->key);
            return &member->value;
        }
    }
    return NULL;
}

/* Four characters drawn from what needs no percent-encoding; "title" is the title's. */
static slice new_property_id(struct notion *notion, struct notion_node *source)
{
    static const char alphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
    char id[4];
    do {
        for (size_t i = 0; i < sizeof(id); i++)
            id[i] = alphabet[rng_below(&notion->provider->rng, sizeof(alphabet) - 1)];
    } while (notion_schema_find(source, slice_of(id, sizeof(id)), NULL));
    return arena_dup(&source->arena, slice_of(id, sizeof(id)));
}

struct json notion_option_make(struct notion *notion, struct arena *arena, slice name, slice color)
{
    char id[UUID_TEXT_LEN + 1];
    notion_id_new(notion, id);
    bool is_known = false;
    for (size_t i = 0; i < ARRAY_LEN(colors); i++)
        is_known |= slice_eq_cstr(color, colors[i]);
    struct json option = json_object();
    json_object_set(arena, &option, SLICE("id"),
                    json_string_dup(arena, slice_of(id, UUID_TEXT_LEN)));
    json_object_set(arena, &option, SLICE("name"), json_string_dup(arena, name));
    json_object_set(arena, &option, SLICE("color"),
                    is_known ? json_string_dup(arena, color) : json_string(SLICE("default")));
    return option;
}

/* {"options": [...]} with ids; former ones are kept where their name is named again. */
static bool read_options(struct notion_request *request, struct notion_node *source,
                         const struct json *config, const struct json *former, struct json *out)
{
    struct arena *arena = &source->arena;
    const struct json *input = JSON_GET(config, "options");
    struct json options = json_array();
    *out = json_object();
    for (uint32_t i = 0; json_is(input, JSON_ARRAY) && i < input->count && i < 100; i++) {
        slice name = json_get_str(json_at(input, i), SLICE("name"));
        if (!name.len || name.len > 100)
            return notion_invalid(request,
                                  "body failed validation: options[%u].name should be defined and "
                                  "at most `100` long.",
                                  i);
        const struct json *old = notion_option_find(former, name);
        json_array_push(arena, &options,
                        old ? *old
                            : notion_option_make(request->notion, arena, name,
                                                 json_get_str(json_at(input, i), SLICE("color"))));
    }
    json_object_set(arena, out, SLICE("options"), options);
    return true;
}

const struct json *notion_option_find(const struct json *config, slice name_or_id)
{
    const struct json *options = JSON_GET(config, "options");
    for (uint32_t i = 0; json_is(options, JSON_ARRAY) && i < options->count; i++) {
        const struct json *option = json_at(options, i);
        if (slice_eq(json_get_str(option, SLICE("name")), name_or_id) ||
            slice_eq(json_get_str(option, SLICE("id")), name_or_id))
            return option;
    }
    return NULL;
}

/* The configuration under the type's name. */
static bool read_config(struct notion_request *request, struct notion_node *source,
                        enum notion_type type, const struct json *config, const struct json *former,
                        struct json *out)
{
    *out = json_object();
    if (type == NOTION_SELECT || type == NOTION_MULTI_SELECT)
        return read_options(request, source, config, former, out);
    if (type == NOTION_STATUS)
        return notion_invalid(request, "Creating new status database properties is currently not "
                                       "supported.");
    if (type == NOTION_NUMBER) {
        slice format = json_get_str(config, SLICE("format"));
        json_object_set(&source->arena, out, SLICE("format"),
                        format.len ? json_string_dup(&source->arena, format)
                                   : json_string(SLICE("number")));
    } else if (type == NOTION_RELATION) {
        const struct json *copy = json_dup(&source->arena, config);
        *out = copy ? *copy : json_null;
    }
    return true;
}

static enum notion_type type_of_entry(const struct json *entry, const struct json **config)
{
    for (size_t i = 0; i < ARRAY_LEN(type_names); i++) {
        *config = json_get(entry, slice_cstr(type_names[i].name));
        if (json_is(*config, JSON_OBJECT))
            return type_names[i].type;
    }
    return NOTION_TYPE_NONE;
}

struct json notion_schema_entry(struct arena *arena, slice id, slice name, enum notion_type type,
                                struct json config)
{
    struct json entry = json_object();
    json_object_set(arena, &entry, SLICE("id"), json_string(id));
    json_object_set(arena, &entry, SLICE("name"), json_string(name));
    json_object_set(arena, &entry, SLICE("type"), json_string(slice_cstr(notion_type_name(type))));
    json_object_set(arena, &entry, slice_cstr(notion_type_name(type)), config);
    return entry;
}

/* The schema without the property of that name. */
static struct json without(struct arena *arena, const struct json *schema, slice name)
{
    struct json out = json_object();
    for (uint32_t i = 0; i < schema->count; i++)
        if (!slice_eq(json_str(&schema->as.members[i].key), name))
            json_object_set(arena, &out, json_str(&schema->as.members[i].key),
                            schema->as.members[i].value);
    return out;
}

/* One entry of an update: null removes, a name renames, a type adds or changes. */
static bool read_entry(struct notion_request *request, struct notion_node *source, slice key,
                       const struct json *entry, struct json *schema)
{
    struct arena *arena = &source->arena;
    slice name = key;
    const struct json *old = notion_schema_find(source, key, &name);
    if (json_is(entry, JSON_NULL)) {
        if (old && slice_eq(json_get_str(old, SLICE("id")), SLICE("title")))
            return notion_invalid(request, "Cannot delete title property.");
        if (old)
            *schema = without(arena, schema, name);
        return true;
    }
    const struct json *config = NULL;
    enum notion_type type = type_of_entry(entry, &config);
    slice new_name = json_get_str(entry, SLICE("name"));
    if (!type && !(old && new_name.len))
        return notion_invalid(request,
                              "body failed validation: body.properties.%.*s should have one known "
                              "property type, instead was `{}`.",
                              SLICE_ARG(key));
    enum notion_type old_type = old ? notion_type_of(json_get_str(old, SLICE("type"))) : type;
    if (old && type && (type == NOTION_TITLE) != (old_type == NOTION_TITLE))
        return notion_invalid(request, "Cannot change the type of the title property.");
    struct json read = json_null;
    const struct json *former = old ? json_get(old, slice_cstr(notion_type_name(old_type))) : NULL;
    if (type && !(old && type == NOTION_STATUS && old_type == NOTION_STATUS) &&
        !read_config(request, source, type, config, former, &read))
        return false;
    if (!type || read.type == JSON_NULL)
        read = former ? *former : json_object();
    slice id = old                    ? json_get_str(old, SLICE("id"))
               : type == NOTION_TITLE ? SLICE("title")
                                      : new_property_id(request->notion, source);
    slice kept = arena_dup(arena, new_name.len ? new_name : name);
    if (old)
        *schema = without(arena, schema, name);
    json_object_set(arena, schema, kept,
                    notion_schema_entry(arena, id, kept, type ? type : old_type, read));
    return true;
}

bool notion_schema_read(struct notion_request *request, struct notion_node *source,
                        const struct json *input, bool is_update)
{
    if (!json_is(input, JSON_OBJECT) || input->count > NOTION_PROPERTIES_MAX)
        return notion_invalid(request,
                              "body failed validation: body.properties should be an object with "
                              "at most `%d` members, instead was `%s`.",
                              NOTION_PROPERTIES_MAX, input ? json_type_name(input) : "undefined");
    struct json schema = is_update ? without(&source->arena, &source->properties, SLICE_NONE)
                                   : json_object();
    for (uint32_t i = 0; i < input->count; i++)
        if (!read_entry(request, source, json_str(&input->as.members[i].key),
                        &input->as.members[i].value, &schema))
            return false;
    size_t titles = 0;
    for (uint32_t i = 0; i < schema.count; i++)
        titles +=
            slice_eq(json_get_str(&schema.as.members[i].value, SLICE("type")), SLICE("title"));
    if (titles != 1)
        return notion_invalid(request, titles ? "Only one title property is allowed."
                                              : "Title is not provided");
    source->properties = schema;
    return true;
}
