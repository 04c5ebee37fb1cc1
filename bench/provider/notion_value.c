/*
 * Rich text, the schemas of data sources and the values of pages: from what a client may send to
 * what a reply holds. Everything is made in the request's arena.
 *
 * A schema: {"Name": {"id": "title", "name": "Name", "type": "title", "title": {}}, ...};
 * a page's properties: {"Name": {"id": "title", "type": "title", "title": [...]}, ...}.
 */
#include "base/clock.h"
#include "provider/notion.h"

static bool is_text(slice type)
{
    return slice_has_word(SLICE("title rich_text"), type);
}

struct json notion_value(struct call *call, const char *type, const struct json *input)
{
    const struct notion *notion = call->provider->notion;
    const char *shape =
        slice_has_word(SLICE("title rich_text description caption"), slice_cstr(type)) ? "text"
                                                                                       : type;
    struct json scope =
        OBJECT(call->arena, "value plain", *input, *JSON_GET(notion->app.data, "annotations"));
    return json_get(notion->app.shapes.data, slice_cstr(shape))
               ? shapes_make(&notion->app.shapes, call->arena, slice_cstr(shape), &scope)
               : *input;
}

static slice plain_text(struct arena *arena, const struct json *texts)
{
    slice text = json_get_str(json_at(texts, 0), SLICE("plain_text"));
    for (uint32_t i = 1; json_is(texts, JSON_ARRAY) && i < texts->count; i++)
        text = arena_printf(arena, "%.*s%.*s", SLICE_ARG(text),
                            SLICE_ARG(json_get_str(json_at(texts, i), SLICE("plain_text"))));
    return text.ptr ? text : SLICE("");
}

static struct json_member *find_property(const struct json *properties, slice name_or_id)
{
    for (uint32_t i = 0; json_is(properties, JSON_OBJECT) && i < properties->count; i++) {
        struct json_member *member = &properties->as.members[i];
        if (slice_eq(json_str(&member->key), name_or_id) ||
            slice_eq(json_get_str(&member->value, SLICE("id")), name_or_id))
            return member;
    }
    return NULL;
}

const struct json *notion_property(const struct record *record, slice name_or_id)
{
    const struct json_member *found =
        find_property(JSON_GET(&record->json, "properties"), name_or_id);
    return found ? &found->value : NULL;
}

slice notion_label(struct arena *arena, const struct json *object)
{
    const struct json *text = JSON_GET(object, "title");
    const struct json_member *title = find_property(JSON_GET(object, "properties"), SLICE("title"));
    slice type = json_get_str(object, SLICE("type"));
    if (!text && title)
        text = JSON_GET(&title->value, "title");
    if (!text)
        text = JSON_GET(type.len ? json_get(object, type) : object, "rich_text");
    return plain_text(arena, text);
}

/* ---- schemas ---- */

/* Returns the option of the list with that name or id, or a new option. */
static struct json find_option(struct call *call, const struct json *options,
                               const struct json *meant)
{
    slice name = json_get_str(meant, SLICE("name")), id = json_get_str(meant, SLICE("id"));
    slice color = json_get_str(meant, SLICE("color"));
    for (uint32_t i = 0; json_is(options, JSON_ARRAY) && i < options->count; i++) {
        const struct json *option = json_at(options, i);
        if (slice_eq(json_get_str(option, SLICE("name")), name) ||
            slice_eq(json_get_str(option, SLICE("id")), id))
            return *option;
    }
    return OBJECT(call->arena, "id name color", call_uuid(call), json_string(name.len ? name : id),
                  json_string(color.len ? color : SLICE("default")));
}

/* Returns the configuration with an id for each option. An option that also occurs in `former`
 * keeps its id. */
static struct json read_config(struct call *call, slice type, const struct json *input,
                               const struct json *former)
{
    const struct json *given = JSON_GET(input, "options"), *kept = JSON_GET(former, "options");
    struct json options = json_array(), out = provider_copy(call->arena, input ? input : former);
    for (uint32_t i = 0; given && i < given->count; i++)
        json_array_push(call->arena, &options, find_option(call, kept, json_at(given, i)));
    if (slice_has_word(SLICE("select multi_select status"), type))
        json_object_put(call->arena, &out, SLICE("options"), given || !kept ? options : *kept);
    return out;
}

/* Applies one entry of a schema: null removes the property, a name renames it, a type adds or
 * changes it. The changed property moves to the end. */
static void read_entry(struct call *call, slice key, const struct json *entry, struct json *schema)
{
    struct json_member *found = find_property(schema, key);
    struct json old = found ? found->value : json_null;
    slice type = json_get_str(&old, SLICE("type")), id = json_get_str(&old, SLICE("id"));
    slice name = json_get_str(entry, SLICE("name"));
    if (!name.len)
        name = found ? json_str(&found->key) : key;
    for (uint32_t i = 0; i < entry->count && json_is(entry, JSON_OBJECT); i++)
        if (json_is(&entry->as.members[i].value, JSON_OBJECT))
            type = json_str(&entry->as.members[i].key);
    if (!id.len && call->provider->notion->seed)
        id = json_get_str(entry, SLICE("id"));
    if (slice_eq(type, SLICE("title")))
        id = type;
    while (!id.len || (!found && find_property(schema, id))) /* ids need no percent-encoding */
        id = arena_printf(call->arena, "%04llx",
                          (unsigned long long)rng_below(&call->provider->rng, 0x10000));
    if (found) {
        schema->count--;
        memmove(found, found + 1,
                (size_t)(schema->as.members + schema->count - found) * sizeof(*found));
    }
    if (json_is(entry, JSON_NULL))
        return;
    struct json added =
        OBJECT(call->arena, "id name type", json_string(id), json_string(name), json_string(type));
    json_object_set(call->arena, &added, type,
                    read_config(call, type, json_get(entry, type), json_get(&old, type)));
    json_object_put(call->arena, schema, name, added);
}

bool notion_schema_read(struct call *call, struct json *schema, const struct json *input)
{
    size_t titles = 0;
    *schema = provider_copy(call->arena, schema);
    for (uint32_t i = 0; i < input->count; i++)
        read_entry(call, json_str(&input->as.members[i].key), &input->as.members[i].value, schema);
    for (uint32_t i = 0; i < schema->count; i++)
        titles += JSON_GET(&schema->as.members[i].value, "title") != NULL;
    return titles == 1 || call_bad(call, "A data source has one title property, not %zu.", titles);
}

/* ---- values ---- */

/* Finds the option of the schema that input names. A new option is added to the schema, except for
 * a status. */
static bool read_option(struct call *call, struct record *source, slice type,
                        const struct json *config, const struct json *input, struct json *out)
{
    struct json *options = (struct json *)(uintptr_t)JSON_GET(config, "options");
    *out = json_is(input, JSON_NULL) ? json_null : find_option(call, options, input);
    for (uint32_t i = 0; i < options->count; i++)
        if (json_is(input, JSON_NULL) || json_equal(json_at(options, i), out))
            return true;
    if (slice_eq(type, SLICE("status")))
        return call_bad(call, "Invalid status option. Status option \"%.*s\" does not exist\".",
                        SLICE_ARG(json_get_str(out, SLICE("name"))));
    const struct json *kept = json_dup(&source->arena, out);
    if (kept)
        json_array_push(&source->arena, options, *kept);
    return true;
}

/* Reads a value by its entry in the source's schema. */
static bool read_typed(struct call *call, struct record *source, const struct json *entry,
                       const struct json *input, struct json *out)
{
    slice type = json_get_str(entry, SLICE("type"));
    const struct json *config = json_get(entry, type);
    struct json option;
    if (slice_has_word(SLICE("select status"), type))
        return read_option(call, source, type, config, input, out);
    *out = json_array();
    for (uint32_t i = 0; i < input->count && slice_eq(type, SLICE("multi_select")); i++) {
        if (!read_option(call, source, type, config, json_at(input, i), &option))
            return false;
        json_array_push(call->arena, out, option);
    }
    if (!slice_eq(type, SLICE("multi_select")))
        *out = notion_value(call, arena_cstr(call->arena, type), input);
    return true;
}

bool notion_values_read(struct call *call, struct record *parent, struct json *page,
                        const struct json *input)
{
    const struct json *data = call->app->data;
    struct record *source = parent && parent->kind == NOTION_SOURCE ? parent : NULL;
    const struct json *schema = source ? JSON_GET(&source->json, "properties")
                                       : JSON_GET(data, "title_only");
    struct json properties = json_object();
    for (uint32_t i = 0; input && i < input->count; i++)
        if (!find_property(schema, json_str(&input->as.members[i].key)))
            return call_bad(call, "%.*s is not a property that exists.",
                            SLICE_ARG(json_str(&input->as.members[i].key)));
    for (uint32_t i = 0; i < schema->count; i++) {
        const struct json *entry = &schema->as.members[i].value, *given;
        slice name = json_str(&schema->as.members[i].key), id = json_get_str(entry, SLICE("id"));
        slice type = json_get_str(entry, SLICE("type"));
        const struct json_member *own = find_property(JSON_GET(page, "properties"), id);
        /* This is the value of a page that does not set the property. */
        const struct json *former = own ? json_get(&own->value, type) : NULL;
        const struct json *empty = json_get(JSON_GET(data, "values"), type);
        struct json value = *(former ? former : empty ? empty : json_get(page, type));
        given = json_get(input, name) ? json_get(input, name) : json_get(input, id);
        if (json_is(given, JSON_OBJECT))
            given = json_get(given, type);
        else if (!slice_eq(type, SLICE("title")))
            given = NULL;
        if (!given && (json_get(input, name) || json_get(input, id)))
            return call_bad(call, "%.*s is expected to be %.*s.", SLICE_ARG(name), SLICE_ARG(type));
        if (given && !read_typed(call, source, entry, given, &value))
            return false;
        struct json property = OBJECT(call->arena, "id type", json_string(id), json_string(type));
        json_object_set(call->arena, &property, type, value);
        json_object_set(call->arena, &properties, name, property);
    }
    json_object_put(call->arena, page, SLICE("properties"), properties);
    return true;
}

struct json notion_value_key(struct arena *arena, const struct json *property)
{
    static const char *const keys[] = {"name", "start", "id"};
    slice type = json_get_str(property, SLICE("type"));
    const struct json *value = json_get(property, type);
    struct json list = json_array();
    if (is_text(type))
        return json_string(plain_text(arena, value));
    for (size_t i = 0; i < ARRAY_LEN(keys); i++)
        if (json_get(value, slice_cstr(keys[i])))
            return *json_get(value, slice_cstr(keys[i]));
    if (!json_is(value, JSON_ARRAY))
        return value ? *value : json_null;
    for (uint32_t i = 0; i < value->count; i++) {
        slice name = json_get_str(json_at(value, i), SLICE("name"));
        slice id = json_get_str(json_at(value, i), SLICE("id"));
        json_array_push(arena, &list, json_string(name.len ? name : id));
    }
    return list;
}
