/*
 * Queries of a data source (filters, sorts) and the search by titles.
 */
#include <stdlib.h>

#include "base/clock.h"
#include "provider/notion.h"

enum { SORTS_MAX = 10 }; /* as in notion.json */

enum { BELOW = 1, SAME = 2, ABOVE = 4 };

/* What a condition tests about a value. */
enum ask { ASK_ORDER, ASK_CONTAINS, ASK_STARTS, ASK_ENDS, ASK_EMPTY, ASK_DAYS };

static const struct condition {
    const char *names;
    enum ask ask;
    int accepts;            /* ASK_ORDER: the orders of value and operand */
    bool negates;           /* the result is negated */
    int from_days, to_days; /* ASK_DAYS: days counted from today */
} conditions[] = {
    {"equals", ASK_ORDER, SAME, false, 0, 0},
    {"does_not_equal", ASK_ORDER, SAME, true, 0, 0},
    {"greater_than after", ASK_ORDER, ABOVE, false, 0, 0},
    {"less_than before", ASK_ORDER, BELOW, false, 0, 0},
    {"greater_than_or_equal_to on_or_after", ASK_ORDER, ABOVE | SAME, false, 0, 0},
    {"less_than_or_equal_to on_or_before", ASK_ORDER, BELOW | SAME, false, 0, 0},
    {"contains", ASK_CONTAINS, 0, false, 0, 0},
    {"does_not_contain", ASK_CONTAINS, 0, true, 0, 0},
    {"starts_with", ASK_STARTS, 0, false, 0, 0},
    {"ends_with", ASK_ENDS, 0, false, 0, 0},
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
    /* if property is empty, the condition is on the timestamp that `type` names */
    slice property, type;
    const struct condition *condition;
    const struct json *operand;
};

/* Reads a condition. Returns false if the filter has no known condition. */
static bool read_leaf(const struct json *filter, struct leaf *leaf)
{
    *leaf = (struct leaf){.property = json_get_str(filter, SLICE("property"))};
    for (uint32_t i = 0; i < filter->count; i++) {
        const struct json *asked = &filter->as.members[i].value;
        if (!json_is(asked, JSON_OBJECT))
            continue;
        leaf->type = json_str(&filter->as.members[i].key);
        leaf->operand = &asked->as.members[0].value;
        for (size_t k = 0; k < ARRAY_LEN(conditions); k++)
            if (slice_has_word(slice_cstr(conditions[k].names),
                               json_str(&asked->as.members[0].key)))
                leaf->condition = &conditions[k];
    }
    return leaf->condition != NULL;
}

static int order_of(const struct json *value, const struct json *operand)
{
    slice text = json_str(value), other = json_str(operand);
    int order = !json_equal(value, operand);
    if (json_is_number(value) && json_is_number(operand))
        order = json_number_cmp(value, operand);
    else if (text.ptr) /* compared with a day: only the day of a time counts */
        order = slice_cmp(other.len == 10 ? slice_first(text, 10) : text, other);
    return order < 0 ? BELOW : order > 0 ? ABOVE : SAME;
}

static bool contains(slice text, slice part)
{
    for (size_t i = 0; i + part.len <= text.len; i++)
        if (slice_eq_nocase(slice_of(text.ptr + i, part.len), part))
            return true;
    return false;
}

static struct json day_from_now(struct call *call, int days)
{
    char text[TIME_TEXT_LEN + 1];
    time_format(call->now_us + days * INT64_C(86400000000), text);
    return json_string_dup(call->arena, slice_of(text, 10));
}

static bool holds(struct call *call, const struct leaf *leaf, const struct json *value)
{
    const struct condition *condition = leaf->condition;
    slice text = json_str(value), part = json_str(leaf->operand);
    bool is_empty = value->type == JSON_NULL || (value->type >= JSON_STRING && !value->count);
    if (condition->ask == ASK_EMPTY || is_empty)
        return is_empty && condition->ask == ASK_EMPTY;
    if (json_is(value, JSON_ARRAY))
        return json_has_text(value, part);
    if (condition->ask == ASK_ORDER)
        return order_of(value, leaf->operand) & condition->accepts;
    if (condition->ask != ASK_DAYS)
        return contains(condition->ask == ASK_STARTS ? slice_first(text, part.len)
                        : condition->ask == ASK_ENDS && text.len > part.len
                            ? slice_from(text, text.len - part.len)
                            : text,
                        part);
    struct json from = day_from_now(call, condition->from_days);
    struct json to = day_from_now(call, condition->to_days);
    return order_of(value, &from) != BELOW && order_of(value, &to) != ABOVE;
}

/* Returns whether the filter fits the schema. If not, answers the request. */
static bool check(struct call *call, const struct json *filter)
{
    const struct json *any = JSON_GET(filter, "or"), *parts = any ? any : JSON_GET(filter, "and");
    struct leaf leaf = {0};
    for (uint32_t i = 0; parts && i < parts->count; i++)
        if (!check(call, json_at(parts, i)))
            return false;
    if (parts)
        return true;
    bool is_known = read_leaf(filter, &leaf);
    const struct json *schema = notion_property(call->record, leaf.property);
    slice type = json_get_str(schema, SLICE("type"));
    bool are_texts = slice_eq(type, SLICE("title")) && slice_eq(leaf.type, SLICE("rich_text"));
    if (leaf.property.len && !schema)
        return call_bad(call, "Could not find property with name or id: %.*s",
                        SLICE_ARG(leaf.property));
    return (is_known && (!schema || slice_eq(type, leaf.type) || are_texts)) ||
           call_bad(call, "database property %.*s does not match filter %.*s", SLICE_ARG(type),
                    SLICE_ARG(leaf.type));
}

static bool match(struct call *call, const struct json *filter, const struct record *page)
{
    const struct json *any = JSON_GET(filter, "or"), *parts = any ? any : JSON_GET(filter, "and");
    struct leaf leaf;
    for (uint32_t i = 0; parts && i < parts->count; i++)
        if (match(call, json_at(parts, i), page) == (any != NULL))
            return any != NULL;
    if (parts || !read_leaf(filter, &leaf))
        return !any || !parts->count;
    const struct json *time = json_get(&page->json, leaf.type);
    struct json value = leaf.property.len
                            ? notion_value_key(call->arena, notion_property(page, leaf.property))
                        : time ? *time
                               : json_null;
    return holds(call, &leaf, &value) != leaf.condition->negates;
}

/* ---- sorts ---- */

/* A select or a status sorts in the order of its options; an empty value gives null. */
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
    const struct record *page;
    struct json keys[SORTS_MAX];
    size_t index;
    const struct json *sorts;
};

static struct sorted with_keys(struct call *call, const struct record *page, size_t index)
{
    struct sorted out = {.page = page, .index = index, .sorts = call_get(call, "sorts")};
    for (uint32_t i = 0; out.sorts && i < out.sorts->count; i++) {
        const struct json *sort = json_at(out.sorts, i);
        slice property = json_get_str(sort, SLICE("property"));
        const struct json *own = json_get(&page->json, json_get_str(sort, SLICE("timestamp")));
        out.keys[i] = own ? *own
                          : sort_key(call->arena, notion_property(call->record, property),
                                     notion_property(page, property));
    }
    return out;
}

/* Compares two pages by the sorts. Empty values are last in both directions. */
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

/* Replies to a query. Without sorts, the pages are listed in their stored order, the newest
 * first. */
bool notion_source_query(struct call *call)
{
    const struct json *filter = call_get(call, "filter"), *sorts = call_get(call, "sorts");
    struct json list = json_array();
    size_t count = 0;
    for (uint32_t i = 0; sorts && i < sorts->count; i++) {
        slice property = json_get_str(json_at(sorts, i), SLICE("property"));
        if (property.len && !notion_property(call->record, property))
            return call_bad(call, "Could not find sort property with name or id: %.*s",
                            SLICE_ARG(property));
    }
    if (filter && !check(call, filter))
        return false;
    RECORD_EACH(&call->record->children, page, sibling_link)
        count += !page->is_archived;
    struct sorted *pages = ARENA_ARRAY(call->arena, struct sorted, count + 1);
    count = 0;
    RECORD_EACH(&call->record->children, page, sibling_link) {
        if (page->is_archived || (filter && !match(call, filter, page)))
            continue;
        pages[count] = with_keys(call, page, count);
        count++;
    }
    if (sorts && count)
        qsort(pages, count, sizeof(*pages), compare);
    for (size_t i = 0; i < count; i++)
        json_array_push(call->arena, &list, notion_show(call, pages[i].page));
    return notion_list(call, "page_or_data_source", &list);
}

/* ---- search ---- */

/* Returns whether each word of the query is the beginning of a word of the title. Case is
 * ignored. */
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
bool notion_search(struct call *call)
{
    const struct list *order = &call->provider->notion->app.store.order;
    const struct json *wanted = JSON_GET(call_get(call, "filter"), "value");
    slice query = slice_trim(json_str(call_get(call, "query")));
    slice direction = json_get_str(call_get(call, "sort"), SLICE("direction"));
    bool is_rising = slice_eq(direction, SLICE("ascending"));
    struct json list = json_array();
    for (const struct list *link = is_rising ? order->prev : order->next; link != order;
         link = is_rising ? link->prev : link->next) {
        const struct record *record = LIST_ITEM(link, struct record, order_link);
        bool is_wanted =
            record->kind != NOTION_DATABASE &&
            (!wanted || slice_eq_cstr(json_str(wanted), notion_kind_name(record->kind)));
        if (is_wanted && !notion_is_gone(record) && title_matches(record->label, query))
            json_array_push(call->arena, &list, record->json);
    }
    return notion_list(call, "page_or_data_source", &list);
}
