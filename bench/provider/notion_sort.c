/*
 * Sorting the pages of a query: keys are drawn once, then qsort; equal pages keep their order.
 */
#include <stdlib.h>

#include "provider/notion_property.h"

enum { SORTS_MAX = 10 };

struct sort_key {
    bool is_empty;
    double number;
    slice text;
};

struct sort_row {
    struct notion_node *page;
    size_t index;
    const struct sort_rule *rules;
    size_t rule_count;
    struct sort_key keys[SORTS_MAX];
};

struct sort_rule {
    const struct json *schema;
    enum notion_type type;
    bool is_falling;
};

static bool read_rule(struct notion_request *request, const struct notion_node *source,
                      const struct json *input, struct sort_rule *rule)
{
    slice direction = json_get_str(input, SLICE("direction"));
    slice name = json_get_str(input, SLICE("property"));
    slice timestamp = json_get_str(input, SLICE("timestamp"));
    rule->is_falling = slice_eq(direction, SLICE("descending"));
    if (!rule->is_falling && !slice_eq(direction, SLICE("ascending")))
        return notion_invalid(request,
                              "body failed validation: body.sorts[].direction should be "
                              "`\"ascending\"` or `\"descending\"`, instead was `\"%.*s\"`.",
                              SLICE_ARG(direction));
    rule->type = notion_type_of(timestamp);
    if (rule->type == NOTION_CREATED_TIME || rule->type == NOTION_EDITED_TIME)
        return true;
    rule->schema = notion_schema_find(source, name, NULL);
    if (!rule->schema)
        return notion_invalid(request, "Could not find sort property with name or id: %.*s",
                              SLICE_ARG(name));
    rule->type = notion_type_of(json_get_str(rule->schema, SLICE("type")));
    return true;
}

/* Options sort by their position in the schema. */
static double option_index(const struct json *schema, enum notion_type type, slice id)
{
    const struct json *options =
        JSON_GET(json_get(schema, slice_cstr(notion_type_name(type))), "options");
    for (uint32_t i = 0; json_is(options, JSON_ARRAY) && i < options->count; i++)
        if (slice_eq(json_get_str(json_at(options, i), SLICE("id")), id))
            return i;
    return 1e9;
}

static struct sort_key draw_key(const struct sort_rule *rule, const struct notion_node *page,
                                struct arena *arena)
{
    struct sort_key key = {0};
    if (rule->type == NOTION_CREATED_TIME || rule->type == NOTION_EDITED_TIME) {
        bool is_created = rule->type == NOTION_CREATED_TIME;
        key.number = (double)(is_created ? page->created_us : page->edited_us);
        return key;
    }
    struct json value = notion_value_get(page, rule->schema, arena);
    switch (rule->type) {
    case NOTION_NUMBER:
        key.number = json_to_double(&value);
        break;
    case NOTION_CHECKBOX:
        key.number = value.as.boolean;
        return key;
    case NOTION_SELECT:
    case NOTION_STATUS:
        key.number = option_index(rule->schema, rule->type, json_get_str(&value, SLICE("id")));
        break;
    case NOTION_DATE:
        key.text = json_get_str(&value, SLICE("start"));
        break;
    case NOTION_TITLE:
    case NOTION_RICH_TEXT:
        key.text = notion_text_plain(arena, &value);
        key.is_empty = !key.text.len;
        return key;
    default:
        key.text = json_is(&value, JSON_ARRAY) && value.count
                       ? json_get_str(json_at(&value, 0), SLICE("name"))
                       : json_str(&value);
        key.is_empty = !key.text.len;
        return key;
    }
    key.is_empty = value.type == JSON_NULL;
    return key;
}

static int compare_text(slice a, slice b)
{
    size_t shorter = a.len < b.len ? a.len : b.len;
    for (size_t i = 0; i < shorter; i++) {
        int x = a.ptr[i] >= 'A' && a.ptr[i] <= 'Z' ? a.ptr[i] + 32 : (unsigned char)a.ptr[i];
        int y = b.ptr[i] >= 'A' && b.ptr[i] <= 'Z' ? b.ptr[i] + 32 : (unsigned char)b.ptr[i];
        if (x != y)
            return x - y;
    }
    return (a.len > b.len) - (a.len < b.len);
}

/* Empty values come last, whatever the direction. */
static int compare(const void *left, const void *right)
{
    const struct sort_row *a = left, *b = right;
    for (size_t i = 0; i < a->rule_count; i++) {
        const struct sort_key *x = &a->keys[i], *y = &b->keys[i];
        if (x->is_empty != y->is_empty)
            return x->is_empty ? 1 : -1;
        int order = (x->number > y->number) - (x->number < y->number);
        if (!order)
            order = compare_text(x->text, y->text);
        if (order)
            return a->rules[i].is_falling ? -order : order;
    }
    return (a->index > b->index) - (a->index < b->index);
}

bool notion_sort_pages(struct notion_request *request, const struct notion_node *source,
                       const struct json *sorts, struct notion_node **pages, size_t count)
{
    struct arena *arena = request->http->arena;
    struct sort_rule rules[SORTS_MAX] = {0};
    if (sorts->count > SORTS_MAX)
        return notion_invalid(request,
                              "body failed validation: body.sorts.length should be ≤ "
                              "`%d`, instead was `%u`.",
                              SORTS_MAX, sorts->count);
    for (uint32_t i = 0; i < sorts->count; i++)
        if (!read_rule(request, source, json_at(sorts, i), &rules[i]))
            return false;
    struct sort_row *rows = ARENA_ARRAY(arena, struct sort_row, count + 1);
    if (!rows) {
        notion_error_plain(request->notion->provider, request->reply, 503);
        return false;
    }
    for (size_t i = 0; i < count; i++) {
        rows[i].page = pages[i];
        rows[i].index = i;
        rows[i].rules = rules;
        rows[i].rule_count = sorts->count;
        for (uint32_t k = 0; k < sorts->count; k++)
            rows[i].keys[k] = draw_key(&rules[k], pages[i], arena);
    }
    qsort(rows, count, sizeof(*rows), compare);
    for (size_t i = 0; i < count; i++)
        pages[i] = rows[i].page;
    return true;
}
