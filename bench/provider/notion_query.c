/*
 * Queries of a data source (filters, sorts) and the search by titles.
 */
#include <stdlib.h>

#include "base/clock.h"
#include "provider/notion.h"

enum { FILTER_DEPTH_MAX = 10, SORTS_MAX = 10 };

enum { BELOW = 1, SAME = 2, ABOVE = 4 };

/* What a condition asks of a value. */
enum ask { ASK_ORDER, ASK_CONTAINS, ASK_STARTS, ASK_ENDS, ASK_EMPTY, ASK_DAYS };

static const struct condition {
    const char *name;
    enum ask ask;
    int accepts;            /* ASK_ORDER: the orders of value and operand */
    bool negates;           /* holds where the rest does not */
    int from_days, to_days; /* ASK_DAYS: from today */
} conditions[] = {
    {"equals", ASK_ORDER, SAME, false, 0, 0},
    {"does_not_equal", ASK_ORDER, SAME, true, 0, 0},
    {"contains", ASK_CONTAINS, 0, false, 0, 0},
    {"does_not_contain", ASK_CONTAINS, 0, true, 0, 0},
    {"starts_with", ASK_STARTS, 0, false, 0, 0},
    {"ends_with", ASK_ENDS, 0, false, 0, 0},
    {"greater_than", ASK_ORDER, ABOVE, false, 0, 0},
    {"less_than", ASK_ORDER, BELOW, false, 0, 0},
    {"greater_than_or_equal_to", ASK_ORDER, ABOVE | SAME, false, 0, 0},
    {"less_than_or_equal_to", ASK_ORDER, BELOW | SAME, false, 0, 0},
    {"after", ASK_ORDER, ABOVE, false, 0, 0},
    {"before", ASK_ORDER, BELOW, false, 0, 0},
    {"on_or_after", ASK_ORDER, ABOVE | SAME, false, 0, 0},
    {"on_or_before", ASK_ORDER, BELOW | SAME, false, 0, 0},
    {"is_empty", ASK_EMPTY, 0, false, 0, 0},
    {"is_not_empty", ASK_EMPTY, 0, true, 0, 0},
    {"past_week", ASK_DAYS, 0, false, -7, 0},
    {"past_month", ASK_DAYS, 0, false, -30, 0},
    {"past_year", ASK_DAYS, 0, false, -365, 0},
    {"next_week", ASK_DAYS, 0, false, 0, 7},
    {"next_month", ASK_DAYS, 0, false, 0, 30},
    {"next_year", ASK_DAYS, 0, false, 0, 365},
};

/* A condition on a property: {"property": name, type: {condition: operand}}, or on a timestamp. */
struct leaf {
    slice property, type; /* property empty: the timestamp that type names */
    const struct condition *condition;
    const struct json *operand;
};

static bool read_leaf(const struct json *filter, struct leaf *leaf)
{
    *leaf = (struct leaf){.property = json_get_str(filter, SLICE("property"))};
    const struct json *asked = NULL;
    for (uint32_t i = 0; i < filter->count; i++) {
        if (!json_is(&filter->as.members[i].value, JSON_OBJECT))
            continue;
        leaf->type = json_str(&filter->as.members[i].key);
        asked = &filter->as.members[i].value;
    }
    for (size_t i = 0; i < ARRAY_LEN(conditions); i++) {
        const struct json *operand = json_get(asked, slice_cstr(conditions[i].name));
        if (!operand)
            continue;
        leaf->condition = &conditions[i];
        leaf->operand = operand;
    }
    return leaf->condition && asked->count == 1;
}

/* Whether the operand is of the kind that such a condition on such a property takes. */
static bool takes(const struct leaf *leaf)
{
    bool is_text = !slice_eq(leaf->type, SLICE("number")) &&
                   !slice_eq(leaf->type, SLICE("checkbox"));
    if (leaf->condition->ask == ASK_EMPTY)
        return json_is(leaf->operand, JSON_BOOL);
    if (leaf->condition->ask == ASK_DAYS)
        return json_is(leaf->operand, JSON_OBJECT);
    if (leaf->condition->ask != ASK_ORDER)
        return is_text && json_is(leaf->operand, JSON_STRING);
    if (slice_eq(leaf->type, SLICE("date")))
        return json_str(leaf->operand).len >= 10;
    return is_text                                   ? json_is(leaf->operand, JSON_STRING)
           : slice_eq(leaf->type, SLICE("checkbox")) ? json_is(leaf->operand, JSON_BOOL)
                                                     : json_is_number(leaf->operand);
}

static const struct json *parts_of(const struct json *filter, bool *is_any)
{
    const struct json *any = JSON_GET(filter, "or");
    *is_any = any != NULL;
    return any ? any : JSON_GET(filter, "and");
}

/* false: answered. */
static bool check_filter(struct notion_request *request, const struct json *filter, unsigned depth)
{
    bool is_any;
    const struct json *parts = parts_of(filter, &is_any);
    struct leaf leaf;
    if (!json_is(filter, JSON_OBJECT) || depth > FILTER_DEPTH_MAX)
        return notion_should(request, "body.filter", "be an object, at most `10` deep", filter);
    for (uint32_t i = 0; json_is(parts, JSON_ARRAY) && i < parts->count; i++)
        if (!check_filter(request, json_at(parts, i), depth + 1))
            return false;
    if (json_is(parts, JSON_ARRAY))
        return true;
    if (!JSON_GET(filter, "property") && !JSON_GET(filter, "timestamp"))
        return notion_should(request, "body.filter.or", "be defined", NULL);
    bool is_whole = read_leaf(filter, &leaf);
    const struct json *schema = notion_node_property(request->node, leaf.property);
    slice type = json_get_str(schema, SLICE("type"));
    bool are_texts = slice_eq(type, SLICE("title")) && slice_eq(leaf.type, SLICE("rich_text"));
    slice where = arena_printf(request->arena, "body.filter.%.*s", SLICE_ARG(leaf.type));
    if (leaf.property.len && !schema)
        return notion_invalid(request, "Could not find property with name or id: %.*s",
                              SLICE_ARG(leaf.property));
    if (schema && !slice_eq(type, leaf.type) && !are_texts)
        return notion_invalid(request, "database property %.*s does not match filter %.*s",
                              SLICE_ARG(type), SLICE_ARG(leaf.type));
    if (!is_whole)
        return notion_should(request, where.ptr, "have one condition that is known", filter);
    return takes(&leaf) ||
           notion_invalid(request,
                          "body failed validation: %s.%s is not a condition of the property, or "
                          "has the wrong type.",
                          where.ptr, leaf.condition->name);
}

static int order_of(const struct json *value, const struct json *operand)
{
    int order = 0;
    slice text = json_str(value), other = json_str(operand);
    if (json_is_number(value) && json_is_number(operand))
        order = json_number_cmp(value, operand);
    else if (other.len == 10) /* a day: of a time, its day */
        order = slice_cmp(slice_first(text, 10), other);
    else if (text.ptr)
        order = slice_cmp(text, other);
    else
        order = !json_equal(value, operand);
    return order < 0 ? BELOW : order > 0 ? ABOVE : SAME;
}

static bool contains(slice text, slice part)
{
    for (size_t i = 0; i + part.len <= text.len; i++)
        if (slice_eq_nocase(slice_of(text.ptr + i, part.len), part))
            return true;
    return !part.len;
}

static struct json day_from_now(struct arena *arena, int64_t now_us, int days)
{
    char text[TIME_TEXT_LEN + 1];
    time_format(now_us + days * INT64_C(86400000000), text);
    return json_string_dup(arena, slice_of(text, 10));
}

static bool holds(const struct leaf *leaf, const struct json *value,
                  const struct provider_request *http)
{
    const struct condition *condition = leaf->condition;
    slice text = json_str(value), part = json_str(leaf->operand);
    bool is_empty = value->type == JSON_NULL || (value->type >= JSON_STRING && !value->count);
    if (condition->ask == ASK_EMPTY)
        return is_empty;
    if (json_is(value, JSON_ARRAY)) {
        for (uint32_t i = 0; i < value->count; i++)
            if (slice_eq(json_str(json_at(value, i)), part))
                return true;
        return false;
    }
    if (is_empty)
        return false;
    if (condition->ask == ASK_CONTAINS)
        return contains(text, part);
    if (condition->ask == ASK_STARTS)
        return contains(slice_first(text, part.len), part);
    if (condition->ask == ASK_ENDS)
        return text.len >= part.len && contains(slice_from(text, text.len - part.len), part);
    if (condition->ask == ASK_ORDER)
        return order_of(value, leaf->operand) & condition->accepts;
    struct json from = day_from_now(http->arena, http->now_us, condition->from_days);
    struct json to = day_from_now(http->arena, http->now_us, condition->to_days);
    return order_of(value, &from) != BELOW && order_of(value, &to) != ABOVE;
}

/* Of a filter that was checked. */
static bool matches(const struct json *filter, const struct notion_node *page,
                    const struct provider_request *http)
{
    bool is_any;
    const struct json *parts = parts_of(filter, &is_any);
    struct leaf leaf;
    for (uint32_t i = 0; json_is(parts, JSON_ARRAY) && i < parts->count; i++)
        if (matches(json_at(parts, i), page, http) == is_any)
            return is_any;
    if (json_is(parts, JSON_ARRAY))
        return !is_any || !parts->count;
    if (!read_leaf(filter, &leaf))
        return false;
    struct json value =
        leaf.property.len ? notion_value_key(http->arena, notion_node_property(page, leaf.property))
                          : *json_get(notion_object(page), leaf.type);
    return holds(&leaf, &value, http) != leaf.condition->negates;
}

/* ---- sorts ---- */

/* A select or a status sorts as its options are listed; what is empty gives null. */
static struct json sort_key(struct arena *arena, const struct json *schema,
                            const struct json *property)
{
    struct json key = notion_value_key(arena, property);
    const struct json *options =
        JSON_GET(json_get(schema, json_get_str(schema, SLICE("type"))), "options");
    if (json_is(&key, JSON_ARRAY))
        key = key.count ? *json_at(&key, 0) : json_null;
    for (uint32_t i = 0; json_is(options, JSON_ARRAY) && i < options->count; i++)
        if (slice_eq(json_get_str(json_at(options, i), SLICE("name")), json_str(&key)))
            return json_i64(i);
    if (json_is(&key, JSON_BOOL))
        return json_i64(key.as.boolean);
    return json_is(&key, JSON_STRING) && !key.count ? json_null : key;
}

struct sorted {
    const struct notion_node *page;
    struct json keys[SORTS_MAX];
    size_t index;
    const struct json *sorts;
};

static struct sorted with_keys(struct notion_request *request, const struct notion_node *page,
                               size_t index)
{
    struct sorted out = {.page = page, .index = index, .sorts = JSON_GET(request->body, "sorts")};
    for (uint32_t i = 0; i < out.sorts->count; i++) {
        const struct json *sort = json_at(out.sorts, i);
        slice property = json_get_str(sort, SLICE("property"));
        const struct json *own =
            json_get(notion_object(page), json_get_str(sort, SLICE("timestamp")));
        out.keys[i] = own ? *own
                          : sort_key(request->arena, notion_node_property(request->node, property),
                                     notion_node_property(page, property));
    }
    return out;
}

/* Empty values are last, whatever the direction. */
static int compare(const void *one, const void *other)
{
    const struct sorted *a = one, *b = other;
    for (uint32_t i = 0; i < a->sorts->count; i++) {
        slice direction = json_get_str(json_at(a->sorts, i), SLICE("direction"));
        bool has_a = a->keys[i].type != JSON_NULL, has_b = b->keys[i].type != JSON_NULL;
        if (has_a != has_b)
            return has_a ? -1 : 1;
        int order = has_a ? order_of(&a->keys[i], &b->keys[i]) : SAME;
        if (order != SAME)
            return (order == BELOW) == slice_eq(direction, SLICE("descending")) ? 1 : -1;
    }
    return a->index < b->index ? -1 : 1;
}

static bool check_sorts(struct notion_request *request, const struct json *sorts)
{
    if (!json_is(sorts, JSON_ARRAY) || sorts->count > SORTS_MAX)
        return notion_should(request, "body.sorts", "be an array of at most `10`", sorts);
    for (uint32_t i = 0; i < sorts->count; i++) {
        const struct json *direction = JSON_GET(json_at(sorts, i), "direction");
        slice property = json_get_str(json_at(sorts, i), SLICE("property"));
        if (!slice_has_word(SLICE("ascending descending"), json_str(direction)))
            return notion_should(request, "body.sorts.direction",
                                 "be `\"ascending\"` or `\"descending\"`", direction);
        if (!JSON_GET(json_at(sorts, i), "timestamp") &&
            !notion_node_property(request->node, property))
            return notion_invalid(request, "Could not find sort property with name or id: %.*s",
                                  SLICE_ARG(property));
    }
    return true;
}

/* Without sorts the pages are listed in their stored order, the newest first. */
bool notion_sources_query(struct notion_request *request)
{
    const struct json *filter = JSON_GET(request->body, "filter");
    const struct json *sorts = JSON_GET(request->body, "sorts");
    struct list *children = &request->node->children;
    struct sorted *pages = NULL;
    struct notion_list list;
    size_t total = 0, count = 0;
    if ((filter && !check_filter(request, filter, 1)) || (sorts && !check_sorts(request, sorts)) ||
        !notion_list_open(request, "page_or_data_source", &list))
        return false;
    for (const struct list *link = children->next; sorts && link != children; link = link->next)
        total++;
    if (sorts)
        pages = ARENA_ARRAY(request->arena, struct sorted, total + 1);
    LIST_EACH(children, const struct notion_node, page, sibling_link) {
        if (page->kind != NOTION_PAGE || page->is_archived || list.next.len ||
            (filter && !matches(filter, page, request->http)))
            continue;
        if (pages) {
            pages[count] = with_keys(request, page, count);
            count++;
        } else if (notion_list_takes(&list, slice_cstr(page->id))) {
            notion_write(&list.w, page, request->http);
        }
    }
    if (count)
        qsort(pages, count, sizeof(*pages), compare);
    for (size_t i = 0; i < count; i++)
        if (notion_list_takes(&list, slice_cstr(pages[i].page->id)))
            notion_write(&list.w, pages[i].page, request->http);
    return notion_list_close(request, &list);
}

/* ---- search ---- */

/* Every word of the query begins a word of the title, whatever its case. */
static bool title_matches(slice title, slice query)
{
    while (query.len) {
        slice word = slice_split(&query, ' ');
        bool is_found = !word.len;
        for (size_t i = 0; i + word.len <= title.len && !is_found; i++) {
            bool is_start = i == 0 || strchr(" -(\"", title.ptr[i - 1]);
            is_found = is_start && slice_eq_nocase(slice_of(title.ptr + i, word.len), word);
        }
        if (!is_found)
            return false;
    }
    return true;
}

/* Databases are found by their data sources. */
bool notion_search(struct notion_request *request)
{
    const struct list *recent = &request->notion->recent;
    const struct json *wanted = JSON_GET(JSON_GET(request->body, "filter"), "value");
    slice query = slice_trim(json_get_str(request->body, SLICE("query")));
    slice direction = json_get_str(JSON_GET(request->body, "sort"), SLICE("direction"));
    bool is_rising = slice_eq(direction, SLICE("ascending"));
    bool pages = !wanted || slice_eq(json_str(wanted), SLICE("page"));
    bool sources = !wanted || slice_eq(json_str(wanted), SLICE("data_source"));
    struct notion_list list;
    if (!pages && !sources)
        return notion_should(request, "body.filter.value", "be `\"page\"` or `\"data_source\"`",
                             wanted);
    if (!notion_list_open(request, "page_or_data_source", &list))
        return false;
    for (const struct list *link = is_rising ? recent->prev : recent->next;
         link != recent && !list.next.len; link = is_rising ? link->prev : link->next) {
        const struct notion_node *node = LIST_ITEM(link, struct notion_node, recent_link);
        bool is_wanted = node->kind == NOTION_PAGE ? pages : node->kind == NOTION_SOURCE && sources;
        if (is_wanted && !notion_is_gone(node) && title_matches(node->label, query) &&
            notion_list_takes(&list, slice_cstr(node->id)))
            notion_write(&list.w, node, request->http);
    }
    return notion_list_close(request, &list);
}
