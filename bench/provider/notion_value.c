/*
 * Rich text, the schemas of data sources and the values of pages: from what a client may send to
 * what a reply holds. Everything is made in the request's arena.
 *
 * A schema: {"Name": {"id": "title", "name": "Name", "type": "title", "title": {}}, ...};
 * a page's properties: {"Name": {"id": "title", "type": "title", "title": [...]}, ...}.
 */
#include "base/clock.h"
#include "provider/notion.h"

enum { ITEMS_MAX = 100, PROPERTIES_MAX = 200, NAME_MAX = 100 };

/* What a value of the types is in JSON; JSON_NULL: only read. */
static const struct {
    const char *types;
    enum json_type holds;
} values[] = {
    {"title rich_text multi_select people files relation", JSON_ARRAY},
    {"select status date", JSON_OBJECT},
    {"number", JSON_INT},
    {"checkbox", JSON_BOOL},
    {"url email phone_number", JSON_STRING},
    {"created_time created_by last_edited_time last_edited_by", JSON_NULL},
};

static bool is_text(slice type)
{
    return slice_has_word(SLICE("title rich_text"), type);
}

/* ---- texts ---- */

/* With its type. */
static bool read_item(struct call *call, const struct json *input, const char *where,
                      struct json *out)
{
    const struct json *content = JSON_GET(JSON_GET(input, "text"), "content");
    const char *type = content                       ? "text"
                       : JSON_GET(input, "mention")  ? "mention"
                       : JSON_GET(input, "equation") ? "equation"
                                                     : NULL;
    slice plain = json_str(content);
    if (!type)
        return notion_should(call, arena_printf(call->arena, "%s.text", where).ptr, "be defined",
                             NULL);
    *out = provider_copy(call->arena, input);
    json_object_put(call->arena, out, SLICE("type"), json_string(slice_cstr(type)));
    return !plain.len ||
           notion_in_range(call, arena_printf(call->arena, "%s.text.content.length", where).ptr,
                           (int64_t)plain.len, NOTION_TEXT_MAX);
}

bool notion_text_read(struct call *call, const struct json *input, const char *where,
                      struct json *out)
{
    const struct notion *notion = call->provider->notion;
    struct json list = json_array();
    if (!json_is(input, JSON_ARRAY))
        return notion_should(call, where, "be an array", input);
    if (input->count && !notion_in_range(call, arena_printf(call->arena, "%s.length", where).ptr,
                                         input->count, ITEMS_MAX))
        return false;
    for (uint32_t i = 0; i < input->count; i++) {
        struct json item;
        slice inner = arena_printf(call->arena, "%s[%u]", where, i);
        if (!read_item(call, json_at(input, i), inner.ptr, &item))
            return false;
        json_array_push(call->arena, &list, item);
    }
    struct json scope =
        OBJECT(call->arena, "texts plain", list, *JSON_GET(notion->data, "annotations"));
    *out = shapes_make(&notion->shapes, call->arena, SLICE("rich_text"), &scope);
    return true;
}

static slice plain_text(struct arena *arena, const struct json *texts)
{
    slice text = json_get_str(json_at(texts, 0), SLICE("plain_text"));
    for (uint32_t i = 1; json_is(texts, JSON_ARRAY) && i < texts->count; i++)
        text = arena_printf(arena, "%.*s%.*s", SLICE_ARG(text),
                            SLICE_ARG(json_get_str(json_at(texts, i), SLICE("plain_text"))));
    return text.ptr ? text : SLICE("");
}

/* ---- schemas ---- */

static const struct json *find_property(const struct json *properties, slice name_or_id)
{
    for (uint32_t i = 0; json_is(properties, JSON_OBJECT) && i < properties->count; i++) {
        const struct json_member *member = &properties->as.members[i];
        if (slice_eq(json_str(&member->key), name_or_id) ||
            slice_eq(json_get_str(&member->value, SLICE("id")), name_or_id))
            return &member->value;
    }
    return NULL;
}

const struct json *notion_property(const struct record *record, slice name_or_id)
{
    return find_property(JSON_GET(&record->json, "properties"), name_or_id);
}

slice notion_label(struct arena *arena, const struct json *object)
{
    const struct json *text = JSON_GET(object, "title");
    slice type = json_get_str(object, SLICE("type"));
    if (!text)
        text = JSON_GET(find_property(JSON_GET(object, "properties"), SLICE("title")), "title");
    if (!text)
        text = JSON_GET(type.len ? json_get(object, type) : object, "rich_text");
    return plain_text(arena, text);
}

/* false: there is no such type. */
static bool find_type(slice type, enum json_type *holds)
{
    for (size_t i = 0; i < ARRAY_LEN(values); i++) {
        *holds = values[i].holds;
        if (slice_has_word(slice_cstr(values[i].types), type))
            return true;
    }
    return false;
}

static const struct json *find_option(const struct json *config, slice name_or_id)
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

static struct json make_option(struct call *call, slice name, slice color)
{
    return OBJECT(call->arena, "id name color", notion_id_new(call), json_string(name),
                  json_string(color.len ? color : SLICE("default")));
}

/* The configuration with ids for its options; former ones are kept where they are named again. */
static bool read_config(struct call *call, slice type, const struct json *input,
                        const struct json *former, struct json *out)
{
    const struct json *given = JSON_GET(input, "options");
    struct json options = json_array();
    *out = provider_copy(call->arena, input);
    if (!slice_has_word(SLICE("select multi_select status"), type))
        return true;
    for (uint32_t i = 0; json_is(given, JSON_ARRAY) && i < given->count; i++) {
        slice name = json_get_str(json_at(given, i), SLICE("name"));
        const struct json *old = find_option(former, name);
        if (!name.len || name.len > NAME_MAX)
            return notion_should(call, arena_printf(call->arena, "body.options[%u].name", i).ptr,
                                 "be at most `100` long", JSON_GET(json_at(given, i), "name"));
        json_array_push(
            call->arena, &options,
            old ? *old : make_option(call, name, json_get_str(json_at(given, i), SLICE("color"))));
    }
    json_object_put(call->arena, out, SLICE("options"), options);
    return true;
}

/* "title", the seed's own, or four characters that need no percent-encoding. */
static slice new_property_id(struct call *call, const struct json *schema, const struct json *entry,
                             slice type)
{
    slice id = call->provider->notion->seed ? json_get_str(entry, SLICE("id")) : SLICE_NONE;
    if (slice_eq(type, SLICE("title")))
        id = type;
    while (!id.len || find_property(schema, id))
        id = arena_printf(call->arena, "%04llx",
                          (unsigned long long)rng_below(&call->provider->rng, 0x10000));
    return id;
}

/* Whether an entry may take the place of one of old_type, SLICE_NONE where there is none yet. */
static bool may_become(struct call *call, slice key, const struct json *entry, slice old_type,
                       slice type)
{
    bool is_title = slice_eq(old_type, SLICE("title")), is_removal = json_is(entry, JSON_NULL);
    bool is_new_status = slice_eq(type, SLICE("status")) && !slice_eq(type, old_type);
    if (is_removal && is_title)
        return notion_invalid(call, "Cannot delete title property.");
    if (!type.len && !is_removal)
        return notion_should(call,
                             arena_printf(call->arena, "body.properties.%.*s", SLICE_ARG(key)).ptr,
                             "have one known property type", entry);
    if (old_type.len && is_title != slice_eq(type, SLICE("title")))
        return notion_invalid(call, "Cannot change the type of the title property.");
    return !is_new_status || call->provider->notion->seed ||
           notion_invalid(call,
                          "Creating new status database properties is currently not supported.");
}

/* One entry of a schema over what it was: null removes, a name renames, a type adds or changes. */
static bool read_entry(struct call *call, slice key, const struct json *entry, struct json *schema)
{
    struct json *found = (struct json *)(uintptr_t)find_property(schema, key);
    struct json old = found ? *found : json_null, config;
    enum json_type holds;
    slice old_type = json_get_str(&old, SLICE("type")), type = old_type;
    slice name = json_get_str(entry, SLICE("name")), id = json_get_str(&old, SLICE("id"));
    for (uint32_t i = 0; json_is(entry, JSON_OBJECT) && i < entry->count; i++)
        if (json_is(&entry->as.members[i].value, JSON_OBJECT) &&
            find_type(json_str(&entry->as.members[i].key), &holds))
            type = json_str(&entry->as.members[i].key);
    if (!may_become(call, key, entry, old_type, type))
        return false;
    const struct json *input = json_get(entry, type), *former = json_get(&old, type);
    if (!read_config(call, type, input ? input : former, former, &config))
        return false;
    if (!id.len)
        id = new_property_id(call, schema, entry, type);
    if (found) { /* it goes to the end */
        struct json_member *member = CONTAINER_OF(found, struct json_member, value);
        key = json_str(&member->key);
        schema->count--;
        memmove(member, member + 1,
                (size_t)(schema->as.members + schema->count - member) * sizeof(*member));
    }
    if (json_is(entry, JSON_NULL))
        return true;
    name = name.len ? name : key;
    struct json added =
        OBJECT(call->arena, "id name type", json_string(id), json_string(name), json_string(type));
    json_object_set(call->arena, &added, type, config);
    json_object_put(call->arena, schema, name, added);
    return true;
}

bool notion_schema_read(struct call *call, struct json *source, const struct json *input)
{
    struct json schema = provider_copy(call->arena, JSON_GET(source, "properties"));
    size_t titles = 0;
    if (!json_is(input, JSON_OBJECT) || input->count > PROPERTIES_MAX)
        return notion_should(call, "body.properties", "be an object with at most `200` members",
                             input);
    for (uint32_t i = 0; i < input->count; i++)
        if (!read_entry(call, json_str(&input->as.members[i].key), &input->as.members[i].value,
                        &schema))
            return false;
    for (uint32_t i = 0; i < schema.count; i++)
        titles += JSON_GET(&schema.as.members[i].value, "title") != NULL;
    json_object_put(call->arena, source, SLICE("properties"), schema);
    return titles == 1 || notion_invalid(call, titles ? "Only one title property is allowed."
                                                      : "Title is not provided");
}

/* ---- values ---- */

struct reading {
    struct call *call;
    struct record *source; /* NULL: a sub-page */
    slice name, type;
    enum json_type holds;
    const struct json *config; /* of the schema, below the type */
};

static bool expected(const struct reading *r)
{
    return notion_invalid(r->call, "%.*s is expected to be %.*s.", SLICE_ARG(r->name),
                          SLICE_ARG(r->type));
}

/* The option that input names; a new one is added to the schema, except for a status. */
static bool read_option(const struct reading *r, const struct json *input, struct json *out)
{
    slice name = json_get_str(input, SLICE("name"));
    slice key = name.len ? name : json_get_str(input, SLICE("id"));
    const struct json *option = find_option(r->config, key);
    if (!key.len || key.len > NAME_MAX)
        return expected(r);
    if (slice_find_char(key, ',') >= 0)
        return notion_invalid(r->call, "Invalid select option, commas not allowed: %.*s",
                              SLICE_ARG(key));
    if (!option && slice_eq(r->type, SLICE("status")))
        return notion_invalid(r->call,
                              "Invalid status option. Status option \"%.*s\" does not exist\".",
                              SLICE_ARG(key));
    *out = option ? *option : make_option(r->call, key, json_get_str(input, SLICE("color")));
    struct json *options = (struct json *)(uintptr_t)JSON_GET(r->config, "options");
    const struct json *kept = option || !options ? NULL : json_dup(&r->source->arena, out);
    if (kept)
        json_array_push(&r->source->arena, options, *kept);
    return true;
}

/* "2026-12-01" or a date-time. */
static bool is_date(struct arena *arena, slice text)
{
    int64_t time_us;
    return time_parse(
        text.len == 10 ? arena_printf(arena, "%.*sT00:00:00Z", SLICE_ARG(text)) : text, &time_us);
}

static bool read_date(const struct reading *r, const struct json *input, struct json *out)
{
    static const char *const fields[] = {"start", "end", "time_zone"};
    struct arena *arena = r->call->arena;
    *out = json_object();
    for (size_t i = 0; i < ARRAY_LEN(fields); i++) {
        const struct json *value = json_get(input, slice_cstr(fields[i]));
        slice text = json_str(value);
        if (text.ptr ? i < 2 && !is_date(arena, text) : i == 0)
            return notion_should(
                r->call,
                arena_printf(arena, "body.properties.%.*s.date.%s", SLICE_ARG(r->name), fields[i])
                    .ptr,
                "be a valid ISO 8601 date string", value);
        json_object_set(arena, out, slice_cstr(fields[i]), value ? *value : json_null);
    }
    return true;
}

/* One of multi_select, people, relation or files. */
static bool read_member(const struct reading *r, const struct json *input, struct json *out)
{
    slice id = json_get_str(input, SLICE("id"));
    if (slice_eq(r->type, SLICE("multi_select")))
        return read_option(r, input, out);
    if (!json_is(input, JSON_OBJECT) || (!id.len && !slice_eq(r->type, SLICE("files"))))
        return expected(r);
    *out = provider_copy(r->call->arena, input);
    if (slice_eq(r->type, SLICE("people")))
        json_object_put(r->call->arena, out, SLICE("object"), json_string(SLICE("user")));
    return true;
}

static bool read_typed(const struct reading *r, const struct json *input, struct json *out)
{
    bool is_null = json_is(input, JSON_NULL) && r->holds != JSON_ARRAY && r->holds != JSON_BOOL;
    bool is_number = r->holds == JSON_INT && json_is_number(input);
    if (r->holds == JSON_NULL)
        return notion_invalid(r->call, "%.*s is read-only.", SLICE_ARG(r->name));
    if (is_text(r->type))
        return notion_text_read(r->call, input, "body.properties", out);
    if (!is_null && !is_number && !json_is(input, r->holds))
        return expected(r);
    *out = *input;
    if (is_null || r->holds < JSON_ARRAY)
        return true;
    if (r->holds == JSON_OBJECT)
        return slice_eq(r->type, SLICE("date")) ? read_date(r, input, out)
                                                : read_option(r, input, out);
    *out = json_array();
    for (uint32_t i = 0; i < input->count && i < ITEMS_MAX; i++) {
        struct json member;
        if (!read_member(r, json_at(input, i), &member))
            return false;
        json_array_push(r->call->arena, out, member);
    }
    return true;
}

/* One property of the schema into out; false: answered. */
static bool read_value(struct reading *r, const struct json *entry, const struct json *page,
                       const struct json *input, struct json *out)
{
    struct arena *arena = r->call->arena;
    slice id = json_get_str(entry, SLICE("id"));
    r->type = json_get_str(entry, SLICE("type"));
    (void)find_type(r->type, &r->holds);
    r->config = json_get(entry, r->type);
    const struct json *by_name = json_get(input, r->name);
    const struct json *given = by_name ? by_name : json_get(input, id);
    bool is_short = json_is(given, JSON_ARRAY) && slice_eq(r->type, SLICE("title"));
    const struct json *typed = is_short ? given : json_get(given, r->type);
    /* What the page has where nothing is said. */
    const struct json *own = find_property(JSON_GET(page, "properties"), id);
    const struct json *former = json_get(r->holds == JSON_NULL ? page : own, r->type);
    struct json value = former                   ? *former
                        : r->holds == JSON_ARRAY ? json_array()
                        : r->holds == JSON_BOOL  ? json_bool(false)
                                                 : json_null;
    if (given && !(typed ? read_typed(r, typed, &value) : expected(r)))
        return false;
    struct json property = OBJECT(arena, "id type", json_string(id), json_string(r->type));
    json_object_set(arena, &property, r->type, value);
    json_object_set(arena, out, r->name, property);
    return true;
}

bool notion_values_read(struct call *call, struct record *parent, struct json *page,
                        const struct json *input)
{
    struct record *source = parent && parent->kind == NOTION_SOURCE ? parent : NULL;
    const struct json *schema = source ? JSON_GET(&source->json, "properties")
                                       : JSON_GET(call->provider->notion->data, "title_only");
    struct json properties = json_object();
    struct reading r = {.call = call, .source = source};
    if (input && !json_is(input, JSON_OBJECT))
        return notion_should(call, "body.properties", "be an object", input);
    for (uint32_t i = 0; input && i < input->count; i++)
        if (!find_property(schema, json_str(&input->as.members[i].key)))
            return notion_invalid(call, "%.*s is not a property that exists.",
                                  SLICE_ARG(json_str(&input->as.members[i].key)));
    for (uint32_t i = 0; i < schema->count; i++) {
        r.name = json_str(&schema->as.members[i].key);
        if (!read_value(&r, &schema->as.members[i].value, page, input, &properties))
            return false;
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
