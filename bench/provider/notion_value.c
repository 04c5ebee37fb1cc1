/*
 * Property values of pages: what a client sends, checked against the schema, to what a reply holds.
 */
#include <stdio.h>

#include "base/clock.h"
#include "provider/notion_property.h"

struct reading {
    struct notion_request *request;
    struct notion_node *source; /* NULL: a sub-page */
    struct arena *arena;
    const struct json *schema;
    slice name;
};

static bool expected(const struct reading *r, const char *what)
{
    return notion_invalid(r->request, "%.*s is expected to be %s.", SLICE_ARG(r->name), what);
}

/* The option that input names, copied; a new one is added to the schema, except for a status. */
static bool read_option(const struct reading *r, enum notion_type type, const struct json *input,
                        struct json *out)
{
    slice key = json_get_str(input, SLICE("name"));
    if (!key.len)
        key = json_get_str(input, SLICE("id"));
    if (!key.len || key.len > 100)
        return expected(r, "an option with a name or an id");
    if (slice_find_char(key, ',') >= 0)
        return notion_invalid(r->request, "Invalid select option, commas not allowed: %.*s",
                              SLICE_ARG(key));
    struct json *config =
        (struct json *)(uintptr_t)json_get(r->schema, slice_cstr(notion_type_name(type)));
    const struct json *option = notion_option_find(config, key);
    if (!option && type == NOTION_STATUS)
        return notion_invalid(r->request,
                              "Invalid status option. Status option \"%.*s\" does not exist\".",
                              SLICE_ARG(key));
    if (!option) {
        struct json *options = (struct json *)(uintptr_t)JSON_GET(config, "options");
        struct notion *notion = r->request->notion;
        json_array_push(&r->source->arena, options,
                        notion_option_make(notion, &r->source->arena, key,
                                           json_get_str(input, SLICE("color"))));
        option = notion_option_find(config, key);
    }
    const struct json *copy = option ? json_dup(r->arena, option) : NULL;
    *out = copy ? *copy : json_null;
    return true;
}

static bool read_options(const struct reading *r, const struct json *input, struct json *out)
{
    *out = json_array();
    if (!json_is(input, JSON_ARRAY))
        return expected(r, "multi_select");
    for (uint32_t i = 0; i < input->count && i < 100; i++) {
        struct json option;
        if (!read_option(r, NOTION_MULTI_SELECT, json_at(input, i), &option))
            return false;
        json_array_push(r->arena, out, option);
    }
    return true;
}

/* "2026-12-01" or a date-time. */
static bool is_date(slice text)
{
    int64_t time_us;
    char day[32];
    if (text.len != 10)
        return time_parse(text, &time_us);
    memcpy(day, text.ptr, 10);
    memcpy(day + 10, "T00:00:00Z", 10);
    return time_parse(slice_of(day, 20), &time_us);
}

static bool read_date(const struct reading *r, const struct json *input, struct json *out)
{
    static const char *const fields[] = {"start", "end", "time_zone"};
    *out = json_object();
    for (size_t i = 0; i < ARRAY_LEN(fields); i++) {
        slice text = json_get_str(input, slice_cstr(fields[i]));
        if (i < 2 && text.ptr && !is_date(text))
            return notion_invalid(r->request,
                                  "body failed validation: body.properties.%.*s.date.%s should be "
                                  "a valid ISO 8601 date string, instead was `\"%.*s\"`.",
                                  SLICE_ARG(r->name), fields[i], SLICE_ARG(slice_first(text, 40)));
        if (i == 0 && !text.len)
            return expected(r, "a date with a start");
        json_object_set(r->arena, out, slice_cstr(fields[i]),
                        text.ptr ? json_string_dup(r->arena, text) : json_null);
    }
    return true;
}

static struct json user_value(struct arena *arena, const char *id)
{
    struct json user = json_object();
    json_object_set(arena, &user, SLICE("object"), json_string(SLICE("user")));
    json_object_set(arena, &user, SLICE("id"), json_string(slice_cstr(id)));
    return user;
}

static bool read_people(const struct reading *r, const struct json *input, struct json *out)
{
    *out = json_array();
    if (!json_is(input, JSON_ARRAY))
        return expected(r, "people");
    for (uint32_t i = 0; i < input->count && i < 100; i++) {
        slice id = json_get_str(json_at(input, i), SLICE("id"));
        const struct notion_user *user = notion_user_find(id);
        if (!user)
            return notion_invalid(r->request, "Could not find user with ID: %.*s.", SLICE_ARG(id));
        json_array_push(r->arena, out, user_value(r->arena, user->id));
    }
    return true;
}

static bool read_relation(const struct reading *r, const struct json *input, struct json *out)
{
    *out = json_array();
    if (!json_is(input, JSON_ARRAY))
        return expected(r, "relation");
    for (uint32_t i = 0; i < input->count && i < 100; i++) {
        slice id = json_get_str(json_at(input, i), SLICE("id"));
        const struct notion_node *page = notion_find(r->request->notion, id);
        if (!page || page->kind != NOTION_PAGE)
            return notion_not_found(r->request, "page", id);
        struct json item = json_object();
        json_object_set(r->arena, &item, SLICE("id"),
                        json_string_dup(r->arena, slice_of(page->id, UUID_TEXT_LEN)));
        json_array_push(r->arena, out, item);
    }
    return true;
}

static bool read_copy(const struct reading *r, const struct json *input, bool is_right,
                      const char *what, struct json *out)
{
    if (!is_right)
        return expected(r, what);
    const struct json *copy = json_dup(r->arena, input);
    *out = copy ? *copy : json_null;
    return true;
}

static bool read_link(const struct reading *r, const struct json *input, const char *what,
                      struct json *out)
{
    slice text = json_str(input);
    if (text.ptr && !text.len)
        return notion_invalid(r->request,
                              "body failed validation: body.properties.%.*s.%s should be a "
                              "non-empty string or null.",
                              SLICE_ARG(r->name), what);
    return read_copy(r, input, text.len > 0 && text.len <= NOTION_TEXT_MAX, what, out);
}

static bool read_typed(const struct reading *r, enum notion_type type, const struct json *input,
                       struct json *out)
{
    char where[256];
    bool is_list = type == NOTION_TITLE || type == NOTION_RICH_TEXT || type == NOTION_PEOPLE ||
                   type == NOTION_RELATION || type == NOTION_FILES || type == NOTION_MULTI_SELECT;
    *out = json_null;
    if (json_is(input, JSON_NULL) && !is_list)
        return true;
    switch (type) {
    case NOTION_TITLE:
    case NOTION_RICH_TEXT:
        (void)snprintf(where, sizeof(where), "body.properties.%.*s.%s", SLICE_ARG(r->name),
                       notion_type_name(type));
        return notion_text_read(r->request, r->arena, input, where, out);
    case NOTION_NUMBER:
        return read_copy(r, input, json_is_number(input), "number", out);
    case NOTION_SELECT:
    case NOTION_STATUS:
        return read_option(r, type, input, out);
    case NOTION_MULTI_SELECT:
        return read_options(r, input, out);
    case NOTION_DATE:
        return read_date(r, input, out);
    case NOTION_PEOPLE:
        return read_people(r, input, out);
    case NOTION_RELATION:
        return read_relation(r, input, out);
    case NOTION_FILES:
        return read_copy(r, input, json_is(input, JSON_ARRAY), "files", out);
    case NOTION_CHECKBOX:
        return read_copy(r, input, json_is(input, JSON_BOOL), "checkbox", out);
    case NOTION_URL:
    case NOTION_EMAIL:
    case NOTION_PHONE:
        return read_link(r, input, notion_type_name(type), out);
    default:
        return notion_invalid(r->request, "%.*s is a read-only property of type %s.",
                              SLICE_ARG(r->name), notion_type_name(type));
    }
}

/* A sub-page has nothing but a title; short form {"title": [...]} is fine for it. */
static bool read_title_only(const struct reading *base, slice key, const struct json *value,
                            struct json *out)
{
    struct reading r = *base;
    r.name = key;
    if (!slice_eq(key, SLICE("title")))
        return notion_invalid(r.request, "%.*s is not a property that exists.", SLICE_ARG(key));
    const struct json *input = json_is(value, JSON_ARRAY) ? value : JSON_GET(value, "title");
    if (!input)
        return expected(&r, "title");
    struct json read;
    if (!read_typed(&r, NOTION_TITLE, input, &read))
        return false;
    json_object_put(r.arena, out, SLICE("title"), read);
    return true;
}

static bool read_value(const struct reading *base, slice key, const struct json *value,
                       struct json *out)
{
    struct reading r = *base;
    if (!r.source)
        return read_title_only(base, key, value, out);
    r.schema = notion_schema_find(r.source, key, &r.name);
    if (!r.schema)
        return notion_invalid(r.request, "%.*s is not a property that exists.", SLICE_ARG(key));
    slice type_name = json_get_str(r.schema, SLICE("type"));
    enum notion_type type = notion_type_of(type_name);
    const struct json *input = json_get(value, type_name);
    if (type == NOTION_TITLE && json_is(value, JSON_ARRAY))
        input = value;
    if (!input)
        return expected(&r, notion_type_name(type));
    struct json read;
    if (!read_typed(&r, type, input, &read))
        return false;
    json_object_put(r.arena, out, json_get_str(r.schema, SLICE("id")), read);
    return true;
}

bool notion_values_read(struct notion_request *request, struct notion_node *node,
                        struct notion_node *source, const struct json *input, struct json *out)
{
    struct reading reading = {request, source, &node->arena, NULL, SLICE_NONE};
    *out = json_object();
    for (uint32_t i = 0; i < node->properties.count; i++)
        json_object_set(&node->arena, out, json_str(&node->properties.as.members[i].key),
                        node->properties.as.members[i].value);
    if (!input)
        return true;
    if (!json_is(input, JSON_OBJECT) || input->count > NOTION_PROPERTIES_MAX)
        return notion_invalid(request,
                              "body failed validation: body.properties should be an object, "
                              "instead was `%s`.",
                              json_type_name(input));
    for (uint32_t i = 0; i < input->count; i++)
        if (!read_value(&reading, json_str(&input->as.members[i].key), &input->as.members[i].value,
                        out))
            return false;
    /* Ids are borrowed from the schema, which may change: keep own copies. */
    struct json kept = json_object();
    for (uint32_t i = 0; i < out->count; i++)
        json_object_set(&node->arena, &kept,
                        arena_dup(&node->arena, json_str(&out->as.members[i].key)),
                        out->as.members[i].value);
    *out = kept;
    return true;
}

static struct json time_value(struct arena *arena, int64_t time_us)
{
    char text[TIME_TEXT_LEN + 1];
    time_format(time_us - time_us % 60000000, text);
    return json_string_dup(arena, slice_of(text, TIME_TEXT_LEN));
}

struct json notion_value_get(const struct notion_node *page, const struct json *schema,
                             struct arena *arena)
{
    enum notion_type type = notion_type_of(json_get_str(schema, SLICE("type")));
    switch (type) {
    case NOTION_CREATED_TIME:
        return time_value(arena, page->created_us);
    case NOTION_EDITED_TIME:
        return time_value(arena, page->edited_us);
    case NOTION_CREATED_BY:
        return user_value(arena, page->created_by);
    case NOTION_EDITED_BY:
        return user_value(arena, page->edited_by);
    default:
        break;
    }
    const struct json *value = json_get(&page->properties, json_get_str(schema, SLICE("id")));
    if (value)
        return *value;
    if (type == NOTION_TITLE || type == NOTION_RICH_TEXT || type == NOTION_MULTI_SELECT ||
        type == NOTION_PEOPLE || type == NOTION_FILES || type == NOTION_RELATION)
        return json_array();
    return type == NOTION_CHECKBOX ? json_bool(false) : json_null;
}

slice notion_title(struct arena *arena, const struct notion_node *node)
{
    if (node->kind == NOTION_DATABASE || node->kind == NOTION_SOURCE)
        return notion_text_plain(arena, &node->title);
    return notion_text_plain(arena, JSON_GET(&node->properties, "title"));
}
