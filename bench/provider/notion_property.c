/*
 * Rich text, the schemas of data sources and the values of pages: from what a client may send to
 * what a reply holds. Everything is made in the request's arena.
 *
 * A schema: {"Name": {"id": "title", "name": "Name", "type": "title", "title": {}}, ...};
 * a page's properties: {"Name": {"id": "title", "type": "title", "title": [...]}, ...}.
 */
#include "base/clock.h"
#include "provider/notion.h"

enum { ITEMS_MAX = 100, PROPERTIES_MAX = 200 };

/* What a value of the type is in JSON; JSON_NULL: only read. */
static const struct property_type {
    const char *name;
    enum json_type holds;
} types[] = {
    {"title", JSON_ARRAY},
    {"rich_text", JSON_ARRAY},
    {"number", JSON_INT},
    {"select", JSON_OBJECT},
    {"multi_select", JSON_ARRAY},
    {"status", JSON_OBJECT},
    {"date", JSON_OBJECT},
    {"people", JSON_ARRAY},
    {"files", JSON_ARRAY},
    {"checkbox", JSON_BOOL},
    {"url", JSON_STRING},
    {"email", JSON_STRING},
    {"phone_number", JSON_STRING},
    {"relation", JSON_ARRAY},
    {"created_time", JSON_NULL},
    {"created_by", JSON_NULL},
    {"last_edited_time", JSON_NULL},
    {"last_edited_by", JSON_NULL},
};

static bool is_one_of(slice name, const char *a, const char *b, const char *c)
{
    return slice_eq_cstr(name, a) || slice_eq_cstr(name, b) || slice_eq_cstr(name, c);
}

/* ---- texts ---- */

static bool read_item(struct notion_request *request, const struct json *input, const char *where,
                      uint32_t index, struct json *out)
{
    struct arena *arena = request->http->arena;
    const struct json *content = JSON_GET(JSON_GET(input, "text"), "content");
    const char *type = content ? "text" : JSON_GET(input, "mention") ? "mention" : "equation";
    const struct json *given = json_get(input, slice_cstr(type));
    if (!given)
        return notion_invalid(request,
                              "body failed validation. Fix one: %s[%u].text should be defined, "
                              "instead was `undefined`. %s[%u].mention should be defined, instead "
                              "was `undefined`. %s[%u].equation should be defined, instead was "
                              "`undefined`.",
                              where, index, where, index, where, index);
    slice plain = content ? json_str(content) : json_get_str(given, SLICE("expression"));
    if (plain.len > NOTION_TEXT_MAX)
        return notion_invalid(request,
                              "body failed validation: %s[%u].text.content.length should be ≤ "
                              "`%d`, instead was `%zu`.",
                              where, index, NOTION_TEXT_MAX, plain.len);
    const struct json *link = JSON_GET(JSON_GET(given, "link"), "url");
    const struct json *flags = JSON_GET(input, "annotations");
    struct json text = notion_copy(arena, given);
    struct json annotations = notion_copy(arena, JSON_GET(request->notion->data, "annotations"));
    for (uint32_t i = 0; json_is(flags, JSON_OBJECT) && i < flags->count; i++)
        json_object_put(arena, &annotations, json_str(&flags->as.members[i].key),
                        flags->as.members[i].value);
    if (content && !link)
        json_object_put(arena, &text, SLICE("link"), json_null);
    *out = json_object();
    json_object_set(arena, out, SLICE("type"), json_string(slice_cstr(type)));
    json_object_set(arena, out, slice_cstr(type), text);
    json_object_set(arena, out, SLICE("annotations"), annotations);
    json_object_set(arena, out, SLICE("plain_text"), json_string(plain.ptr ? plain : SLICE("")));
    json_object_set(arena, out, SLICE("href"), link ? *link : json_null);
    return true;
}

bool notion_text_read(struct notion_request *request, const struct json *input, const char *where,
                      struct json *out)
{
    *out = json_array();
    if (!json_is(input, JSON_ARRAY))
        return notion_invalid(request,
                              "body failed validation: %s should be an array, instead was `%s`.",
                              where, input ? json_type_name(input) : "undefined");
    if (input->count > ITEMS_MAX)
        return notion_invalid(
            request, "body failed validation: %s.length should be ≤ `%d`, instead was `%u`.", where,
            ITEMS_MAX, input->count);
    for (uint32_t i = 0; i < input->count; i++) {
        struct json item;
        if (!read_item(request, json_at(input, i), where, i, &item))
            return false;
        json_array_push(request->http->arena, out, item);
    }
    return true;
}

bool notion_text_put(struct notion_request *request, const char *key, struct json *object)
{
    const struct json *input = json_get(request->body, slice_cstr(key));
    struct json text;
    slice where = arena_printf(request->http->arena, "body.%s", key);
    if (!input)
        return true;
    if (!notion_text_read(request, input, where.ptr, &text))
        return false;
    json_object_put(request->http->arena, object, slice_cstr(key), text);
    return true;
}

slice notion_text_plain(struct arena *arena, const struct json *rich_text)
{
    if (!json_is(rich_text, JSON_ARRAY) || !rich_text->count)
        return SLICE("");
    slice text = json_get_str(json_at(rich_text, 0), SLICE("plain_text"));
    for (uint32_t i = 1; i < rich_text->count; i++) {
        slice more = json_get_str(json_at(rich_text, i), SLICE("plain_text"));
        text = arena_printf(arena, "%.*s%.*s", SLICE_ARG(text), SLICE_ARG(more));
    }
    return text;
}

slice notion_label(struct arena *arena, const struct json *object)
{
    const struct json *text = JSON_GET(object, "title");
    const struct json *properties = JSON_GET(object, "properties");
    slice type = json_get_str(object, SLICE("type"));
    if (!text && properties)
        text = JSON_GET(notion_property_find(properties, SLICE("title"), NULL), "title");
    if (!text)
        text = JSON_GET(type.len ? json_get(object, type) : object, "rich_text");
    return notion_text_plain(arena, text);
}

/* ---- schemas ---- */

const struct json *notion_property_find(const struct json *properties, slice name_or_id,
                                        uint32_t *at)
{
    for (uint32_t i = 0; json_is(properties, JSON_OBJECT) && i < properties->count; i++) {
        const struct json_member *member = &properties->as.members[i];
        if (slice_eq(json_str(&member->key), name_or_id) ||
            slice_eq(json_get_str(&member->value, SLICE("id")), name_or_id)) {
            if (at)
                *at = i;
            return &member->value;
        }
    }
    return NULL;
}

static const struct property_type *find_type(slice name)
{
    for (size_t i = 0; i < ARRAY_LEN(types); i++)
        if (slice_eq_cstr(name, types[i].name))
            return &types[i];
    return NULL;
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

static struct json make_option(struct notion_request *request, struct arena *arena, slice name,
                               slice color)
{
    char id[UUID_TEXT_LEN + 1];
    struct json option = json_object();
    notion_id_new(request->notion, id);
    json_object_set(arena, &option, SLICE("id"),
                    json_string_dup(arena, slice_of(id, UUID_TEXT_LEN)));
    json_object_set(arena, &option, SLICE("name"), json_string_dup(arena, name));
    json_object_set(arena, &option, SLICE("color"),
                    json_string_dup(arena, color.len ? color : SLICE("default")));
    return option;
}

/* The configuration with ids for its options; former ones are kept where they are named again. */
static bool read_config(struct notion_request *request, slice type, const struct json *input,
                        const struct json *former, struct json *out)
{
    struct arena *arena = request->http->arena;
    const struct json *given = JSON_GET(input, "options");
    struct json options = json_array();
    *out = notion_copy(arena, input);
    if (!is_one_of(type, "select", "multi_select", "status"))
        return true;
    for (uint32_t i = 0; json_is(given, JSON_ARRAY) && i < given->count; i++) {
        slice name = json_get_str(json_at(given, i), SLICE("name"));
        const struct json *old = find_option(former, name);
        if (!name.len || name.len > 100)
            return notion_invalid(request,
                                  "body failed validation: options[%u].name should be defined and "
                                  "at most `100` long.",
                                  i);
        json_array_push(arena, &options,
                        old ? *old
                            : make_option(request, arena, name,
                                          json_get_str(json_at(given, i), SLICE("color"))));
    }
    json_object_put(arena, out, SLICE("options"), options);
    return true;
}

/* "title", the seed's own, or four characters that need no percent-encoding. */
static slice new_property_id(struct notion_request *request, const struct json *schema,
                             const struct json *entry, slice type)
{
    slice id = request->notion->seed ? json_get_str(entry, SLICE("id")) : SLICE_NONE;
    if (slice_eq(type, SLICE("title")))
        id = type;
    while (!id.len || notion_property_find(schema, id, NULL))
        id = arena_printf(request->http->arena, "%04llx",
                          (unsigned long long)rng_below(&request->notion->provider->rng, 0x10000));
    return id;
}

static void remove_member(struct json *object, uint32_t at)
{
    struct json_member *member = &object->as.members[at];
    object->count--;
    memmove(member, member + 1, (object->count - at) * sizeof(*member));
}

/* One entry of a schema over what it was: null removes, a name renames, a type adds or changes. */
static bool read_entry(struct notion_request *request, slice key, const struct json *entry,
                       struct json *schema)
{
    struct arena *arena = request->http->arena;
    uint32_t at = 0;
    const struct json *old = notion_property_find(schema, key, &at);
    slice old_type = json_get_str(old, SLICE("type")), type = old_type;
    slice name = json_get_str(entry, SLICE("name"));
    slice id = json_get_str(old, SLICE("id"));
    struct json config = json_object(), added = json_object();
    for (size_t i = 0; i < ARRAY_LEN(types); i++)
        if (json_is(json_get(entry, slice_cstr(types[i].name)), JSON_OBJECT))
            type = slice_cstr(types[i].name);
    bool is_title = slice_eq(old_type, SLICE("title"));
    bool is_new_status = slice_eq(type, SLICE("status")) && !slice_eq(type, old_type);
    if (json_is(entry, JSON_NULL) && is_title)
        return notion_invalid(request, "Cannot delete title property.");
    if (!type.len && !json_is(entry, JSON_NULL))
        return notion_invalid(request,
                              "body failed validation: body.properties.%.*s should have one known "
                              "property type, instead was `{}`.",
                              SLICE_ARG(key));
    if (old && is_title != slice_eq(type, SLICE("title")))
        return notion_invalid(request, "Cannot change the type of the title property.");
    if (is_new_status && !request->notion->seed)
        return notion_invalid(request, "Creating new status database properties is currently not "
                                       "supported.");
    const struct json *input = json_get(entry, type), *former = json_get(old, type);
    if (!read_config(request, type, input ? input : former, former, &config))
        return false;
    if (!name.len)
        name = old ? json_str(&schema->as.members[at].key) : key;
    if (!id.len)
        id = new_property_id(request, schema, entry, type);
    if (old)
        remove_member(schema, at);
    if (json_is(entry, JSON_NULL))
        return true;
    json_object_set(arena, &added, SLICE("id"), json_string(id));
    json_object_set(arena, &added, SLICE("name"), json_string(name));
    json_object_set(arena, &added, SLICE("type"), json_string(type));
    json_object_set(arena, &added, type, config);
    json_object_put(arena, schema, name, added);
    return true;
}

bool notion_schema_read(struct notion_request *request, struct json *source,
                        const struct json *input)
{
    struct json schema = notion_copy(request->http->arena, JSON_GET(source, "properties"));
    size_t titles = 0;
    if (!json_is(input, JSON_OBJECT) || input->count > PROPERTIES_MAX)
        return notion_invalid(request,
                              "body failed validation: body.properties should be an object with "
                              "at most `%d` members, instead was `%s`.",
                              PROPERTIES_MAX, input ? json_type_name(input) : "undefined");
    for (uint32_t i = 0; i < input->count; i++)
        if (!read_entry(request, json_str(&input->as.members[i].key), &input->as.members[i].value,
                        &schema))
            return false;
    for (uint32_t i = 0; i < schema.count; i++)
        titles +=
            slice_eq(json_get_str(&schema.as.members[i].value, SLICE("type")), SLICE("title"));
    if (titles != 1)
        return notion_invalid(request, titles ? "Only one title property is allowed."
                                              : "Title is not provided");
    json_object_put(request->http->arena, source, SLICE("properties"), schema);
    return true;
}

/* ---- values ---- */

struct reading {
    struct notion_request *request;
    struct notion_node *source; /* NULL: a sub-page */
    slice name, type;
    const struct json *config; /* of the schema, below the type */
};

static bool expected(const struct reading *r)
{
    return notion_invalid(r->request, "%.*s is expected to be %.*s.", SLICE_ARG(r->name),
                          SLICE_ARG(r->type));
}

/* The option that input names; a new one is added to the schema, except for a status. */
static bool read_option(const struct reading *r, const struct json *input, struct json *out)
{
    slice key = json_get_str(input, SLICE("name"));
    if (!key.len)
        key = json_get_str(input, SLICE("id"));
    if (!key.len || key.len > 100)
        return expected(r);
    if (slice_find_char(key, ',') >= 0)
        return notion_invalid(r->request, "Invalid select option, commas not allowed: %.*s",
                              SLICE_ARG(key));
    const struct json *option = find_option(r->config, key);
    if (!option && slice_eq(r->type, SLICE("status")))
        return notion_invalid(r->request,
                              "Invalid status option. Status option \"%.*s\" does not exist\".",
                              SLICE_ARG(key));
    *out = option ? *option
                  : make_option(r->request, &r->source->arena, key,
                                json_get_str(input, SLICE("color")));
    struct json *options = (struct json *)(uintptr_t)JSON_GET(r->config, "options");
    if (!option && options)
        json_array_push(&r->source->arena, options, *out);
    return true;
}

/* "2026-12-01" or a date-time. */
static bool is_date(slice text)
{
    char day[20];
    int64_t time_us;
    if (text.len == 10) {
        memcpy(day, text.ptr, 10);
        memcpy(day + 10, "T00:00:00Z", 10);
        text = slice_of(day, 20);
    }
    return time_parse(text, &time_us);
}

static bool read_date(const struct reading *r, const struct json *input, struct json *out)
{
    static const char *const fields[] = {"start", "end", "time_zone"};
    *out = json_object();
    for (size_t i = 0; i < ARRAY_LEN(fields); i++) {
        const struct json *value = json_get(input, slice_cstr(fields[i]));
        slice text = json_str(value);
        if ((i < 2 && text.ptr && !is_date(text)) || (i == 0 && !text.ptr))
            return notion_invalid(r->request,
                                  "body failed validation: body.properties.%.*s.date.%s should be "
                                  "a valid ISO 8601 date string, instead was `\"%.*s\"`.",
                                  SLICE_ARG(r->name), fields[i], SLICE_ARG(slice_first(text, 40)));
        json_object_set(r->request->http->arena, out, slice_cstr(fields[i]),
                        value ? *value : json_null);
    }
    return true;
}

/* One of multi_select, people, relation or files. */
static bool read_member(const struct reading *r, const struct json *input, struct json *out)
{
    struct arena *arena = r->request->http->arena;
    slice id = json_get_str(input, SLICE("id"));
    if (slice_eq(r->type, SLICE("multi_select")))
        return read_option(r, input, out);
    if (!json_is(input, JSON_OBJECT) || (!id.len && !slice_eq(r->type, SLICE("files"))))
        return expected(r);
    *out = notion_copy(arena, input);
    if (slice_eq(r->type, SLICE("people")))
        json_object_put(arena, out, SLICE("object"), json_string(SLICE("user")));
    return true;
}

static bool read_typed(const struct reading *r, const struct json *input, struct json *out)
{
    enum json_type holds = find_type(r->type)->holds;
    bool is_text = is_one_of(r->type, "title", "rich_text", "");
    if (holds == JSON_NULL)
        return notion_invalid(r->request, "%.*s is read-only.", SLICE_ARG(r->name));
    if (is_text)
        return notion_text_read(r->request, input, "body.properties", out);
    bool is_empty = json_is(input, JSON_NULL) && holds != JSON_ARRAY && holds != JSON_BOOL;
    if (!is_empty && (holds == JSON_INT ? !json_is_number(input) : !json_is(input, holds)))
        return expected(r);
    *out = *input;
    if (is_empty)
        return true;
    if (slice_eq(r->type, SLICE("date")))
        return read_date(r, input, out);
    if (holds == JSON_OBJECT)
        return read_option(r, input, out);
    if (holds == JSON_ARRAY)
        *out = json_array();
    for (uint32_t i = 0; holds == JSON_ARRAY && i < input->count && i < ITEMS_MAX; i++) {
        struct json member;
        if (!read_member(r, json_at(input, i), &member))
            return false;
        json_array_push(r->request->http->arena, out, member);
    }
    return true;
}

static struct json empty_value(slice type, const struct json *page)
{
    enum json_type holds = find_type(type)->holds;
    if (holds == JSON_ARRAY)
        return json_array();
    if (holds == JSON_NULL)
        return *json_get(page, type);
    return holds == JSON_BOOL ? json_bool(false) : json_null;
}

bool notion_values_read(struct notion_request *request, const struct notion_node *source,
                        struct json *page, const struct json *input)
{
    struct arena *arena = request->http->arena;
    const struct json *schema = source ? JSON_GET(notion_object(source), "properties")
                                       : JSON_GET(request->notion->data, "title_only");
    const struct json *former = JSON_GET(page, "properties");
    struct json properties = json_object();
    if (input && !json_is(input, JSON_OBJECT))
        return notion_invalid(request,
                              "body failed validation: body.properties should be an object, "
                              "instead was `%s`.",
                              json_type_name(input));
    for (uint32_t i = 0; input && i < input->count; i++)
        if (!notion_property_find(schema, json_str(&input->as.members[i].key), NULL))
            return notion_invalid(request, "%.*s is not a property that exists.",
                                  SLICE_ARG(json_str(&input->as.members[i].key)));
    for (uint32_t i = 0; i < schema->count; i++) {
        const struct json *entry = &schema->as.members[i].value;
        slice id = json_get_str(entry, SLICE("id"));
        struct reading r = {.request = request,
                            .source = (struct notion_node *)(uintptr_t)source,
                            .name = json_str(&schema->as.members[i].key),
                            .type = json_get_str(entry, SLICE("type"))};
        r.config = json_get(entry, r.type);
        const struct json *given = json_get(input, r.name);
        const struct json *old = json_get(notion_property_find(former, id, NULL), r.type);
        bool is_short = json_is(given ? given : json_get(input, id), JSON_ARRAY) &&
                        slice_eq(r.type, SLICE("title"));
        given = given ? given : json_get(input, id);
        struct json value =
            old && find_type(r.type)->holds != JSON_NULL ? *old : empty_value(r.type, page);
        struct json property = json_object();
        const struct json *typed = is_short ? given : json_get(given, r.type);
        if (given && !(typed ? read_typed(&r, typed, &value) : expected(&r)))
            return false;
        json_object_set(arena, &property, SLICE("id"), json_string(id));
        json_object_set(arena, &property, SLICE("type"), json_string(r.type));
        json_object_set(arena, &property, r.type, value);
        json_object_set(arena, &properties, r.name, property);
    }
    json_object_put(arena, page, SLICE("properties"), properties);
    return true;
}

struct json notion_value_key(struct arena *arena, const struct json *property)
{
    slice type = json_get_str(property, SLICE("type"));
    const struct json *value = json_get(property, type);
    if (is_one_of(type, "title", "rich_text", ""))
        return json_string(notion_text_plain(arena, value));
    if (json_is(value, JSON_OBJECT)) {
        static const char *const keys[] = {"name", "start", "id"};
        for (size_t i = 0; i < ARRAY_LEN(keys); i++)
            if (json_get(value, slice_cstr(keys[i])))
                return *json_get(value, slice_cstr(keys[i]));
    }
    if (!json_is(value, JSON_ARRAY))
        return value ? *value : json_null;
    struct json list = json_array();
    for (uint32_t i = 0; i < value->count; i++) {
        const struct json *item = json_at(value, i);
        slice name = json_get_str(item, SLICE("name"));
        json_array_push(arena, &list,
                        json_string(name.len ? name : json_get_str(item, SLICE("id"))));
    }
    return list;
}
