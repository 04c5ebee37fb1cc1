/*
 * Database filters: compiled against the schema (a condition that does not fit is a
 * validation_error), then run on each page.
 */
#include "base/clock.h"
#include "provider/notion_property.h"

enum { FILTER_DEPTH_MAX = 4, FILTER_ITEMS_MAX = 100 };

enum filter_kind { FILTER_ALL_OF, FILTER_ANY_OF, FILTER_PROPERTY };

enum condition {
    IS_EMPTY,
    IS_NOT_EMPTY,
    EQUALS,
    DOES_NOT_EQUAL,
    CONTAINS,
    DOES_NOT_CONTAIN,
    STARTS_WITH,
    ENDS_WITH,
    GREATER_THAN,
    LESS_THAN,
    GREATER_OR_EQUAL,
    LESS_OR_EQUAL,
    BEFORE,
    AFTER,
    ON_OR_BEFORE,
    ON_OR_AFTER,
    BETWEEN, /* this_week, past_month ...: time in [low, high] */
    CONDITIONS
};

enum {
    FOR_TEXT = 1,
    FOR_NUMBER = 2,
    FOR_OPTION = 4,
    FOR_SET = 8,
    FOR_DATE = 16,
    FOR_BOOL = 32,
    FOR_FILES = 64
};

static const struct {
    const char *name;
    unsigned fits;
} conditions[CONDITIONS] = {
    [IS_EMPTY] = {"is_empty", FOR_TEXT | FOR_NUMBER | FOR_OPTION | FOR_SET | FOR_DATE | FOR_FILES},
    [IS_NOT_EMPTY] = {"is_not_empty",
                      FOR_TEXT | FOR_NUMBER | FOR_OPTION | FOR_SET | FOR_DATE | FOR_FILES},
    [EQUALS] = {"equals", FOR_TEXT | FOR_NUMBER | FOR_OPTION | FOR_DATE | FOR_BOOL},
    [DOES_NOT_EQUAL] = {"does_not_equal", FOR_TEXT | FOR_NUMBER | FOR_OPTION | FOR_BOOL},
    [CONTAINS] = {"contains", FOR_TEXT | FOR_SET},
    [DOES_NOT_CONTAIN] = {"does_not_contain", FOR_TEXT | FOR_SET},
    [STARTS_WITH] = {"starts_with", FOR_TEXT},
    [ENDS_WITH] = {"ends_with", FOR_TEXT},
    [GREATER_THAN] = {"greater_than", FOR_NUMBER},
    [LESS_THAN] = {"less_than", FOR_NUMBER},
    [GREATER_OR_EQUAL] = {"greater_than_or_equal_to", FOR_NUMBER},
    [LESS_OR_EQUAL] = {"less_than_or_equal_to", FOR_NUMBER},
    [BEFORE] = {"before", FOR_DATE},
    [AFTER] = {"after", FOR_DATE},
    [ON_OR_BEFORE] = {"on_or_before", FOR_DATE},
    [ON_OR_AFTER] = {"on_or_after", FOR_DATE},
    [BETWEEN] = {"", FOR_DATE},
};

/* Relative ranges in days from today. */
static const struct {
    const char *name;
    int low, high;
} ranges[] = {
    {"past_week", -7, 0},  {"past_month", -30, 0}, {"past_year", -365, 0}, {"next_week", 0, 7},
    {"next_month", 0, 30}, {"next_year", 0, 365},  {"this_week", -7, 7},
};

struct notion_filter {
    enum filter_kind kind;
    struct notion_filter *first, *next; /* of a compound */
    const struct json *schema;          /* of the property, or made up for a timestamp */
    enum notion_type type;
    unsigned fits;
    enum condition condition;
    slice text;
    double number;
    bool boolean;
    int64_t low_us, high_us; /* a day's beginning and end, or the same moment twice */
};

static unsigned class_of(enum notion_type type)
{
    switch (type) {
    case NOTION_TITLE:
    case NOTION_RICH_TEXT:
    case NOTION_URL:
    case NOTION_EMAIL:
    case NOTION_PHONE:
        return FOR_TEXT;
    case NOTION_NUMBER:
        return FOR_NUMBER;
    case NOTION_SELECT:
    case NOTION_STATUS:
        return FOR_OPTION;
    case NOTION_MULTI_SELECT:
    case NOTION_PEOPLE:
    case NOTION_RELATION:
    case NOTION_CREATED_BY:
    case NOTION_EDITED_BY:
        return FOR_SET;
    case NOTION_DATE:
    case NOTION_CREATED_TIME:
    case NOTION_EDITED_TIME:
        return FOR_DATE;
    case NOTION_CHECKBOX:
        return FOR_BOOL;
    case NOTION_FILES:
        return FOR_FILES;
    case NOTION_TYPE_NONE:
        break;
    }
    return 0;
}

/* A day covers all its time; a date-time is one moment. */
static bool read_moment(slice text, int64_t *low_us, int64_t *high_us)
{
    char day[20];
    if (text.len != 10) {
        if (!time_parse(text, low_us))
            return false;
        *high_us = *low_us;
        return true;
    }
    memcpy(day, text.ptr, 10);
    memcpy(day + 10, "T00:00:00Z", 10);
    if (!time_parse(slice_of(day, 20), low_us))
        return false;
    *high_us = *low_us + INT64_C(86400000000) - 1;
    return true;
}

static bool read_operand(struct notion_request *request, struct notion_filter *filter,
                         const struct json *value)
{
    slice text = json_str(value);
    if (filter->condition == IS_EMPTY || filter->condition == IS_NOT_EMPTY)
        return json_is(value, JSON_BOOL) && value->as.boolean
                   ? true
                   : notion_invalid(request,
                                    "body failed validation: body.filter.%s should be "
                                    "`true`.",
                                    conditions[filter->condition].name);
    bool is_ok = filter->fits == FOR_NUMBER ? json_is_number(value)
                 : filter->fits == FOR_BOOL ? json_is(value, JSON_BOOL)
                                            : text.ptr != NULL;
    if (is_ok && filter->fits == FOR_DATE)
        is_ok = read_moment(text, &filter->low_us, &filter->high_us);
    if (!is_ok)
        return notion_invalid(request,
                              "body failed validation: body.filter.%s.%s has a value of the wrong "
                              "type: `%s`.",
                              notion_type_name(filter->type), conditions[filter->condition].name,
                              json_type_name(value));
    filter->text = text;
    filter->number = json_to_double(value);
    filter->boolean = json_is(value, JSON_BOOL) && value->as.boolean;
    return true;
}

static bool read_range(struct notion_request *request, struct notion_filter *filter, slice name)
{
    const int64_t day_us = INT64_C(86400000000);
    int64_t today_us = request->http->now_us - request->http->now_us % day_us;
    for (size_t i = 0; i < ARRAY_LEN(ranges); i++) {
        if (!slice_eq_cstr(name, ranges[i].name))
            continue;
        filter->condition = BETWEEN;
        filter->low_us = today_us + ranges[i].low * day_us;
        filter->high_us = today_us + (ranges[i].high + 1) * day_us - 1;
        return true;
    }
    return false;
}

/* {"equals": "x"}: exactly one condition that fits the type. */
static bool read_condition(struct notion_request *request, struct notion_filter *filter,
                           const struct json *input)
{
    if (!json_is(input, JSON_OBJECT) || input->count != 1)
        return notion_invalid(request,
                              "body failed validation: body.filter.%s should have one condition.",
                              notion_type_name(filter->type));
    slice name = json_str(&input->as.members[0].key);
    for (size_t i = 0; i < CONDITIONS; i++) {
        if (!(conditions[i].fits & filter->fits) || !slice_eq_cstr(name, conditions[i].name))
            continue;
        filter->condition = (enum condition)i;
        return read_operand(request, filter, &input->as.members[0].value);
    }
    if (filter->fits == FOR_DATE && read_range(request, filter, name))
        return true;
    return notion_invalid(request,
                          "body failed validation: body.filter.%s.%.*s is not a condition of that "
                          "type.",
                          notion_type_name(filter->type), SLICE_ARG(name));
}

static bool read_timestamp(struct notion_request *request, struct notion_filter *filter,
                           const struct json *input, slice name)
{
    filter->type = notion_type_of(name);
    if (filter->type != NOTION_CREATED_TIME && filter->type != NOTION_EDITED_TIME)
        return notion_invalid(request, "body failed validation: body.filter.timestamp should be "
                                       "`\"created_time\"` or `\"last_edited_time\"`.");
    struct json *schema = ARENA_NEW(request->http->arena, struct json);
    if (!schema)
        return false;
    *schema = notion_schema_entry(request->http->arena, SLICE_NONE, SLICE_NONE, filter->type,
                                  json_object());
    filter->schema = schema;
    filter->fits = FOR_DATE;
    return read_condition(request, filter, json_get(input, name));
}

static bool read_property(struct notion_request *request, const struct notion_node *source,
                          struct notion_filter *filter, const struct json *input)
{
    filter->kind = FILTER_PROPERTY;
    slice timestamp = json_get_str(input, SLICE("timestamp"));
    if (timestamp.len)
        return read_timestamp(request, filter, input, timestamp);
    slice name = json_get_str(input, SLICE("property"));
    if (!name.len)
        return notion_invalid(request, "body failed validation. Fix one: body.filter.or should be "
                                       "defined, instead was `undefined`. body.filter.and should "
                                       "be defined, instead was `undefined`. body.filter.property "
                                       "should be defined, instead was `undefined`.");
    filter->schema = notion_schema_find(source, name, NULL);
    if (!filter->schema)
        return notion_invalid(request, "Could not find property with name or id: %.*s",
                              SLICE_ARG(name));
    slice type = json_get_str(filter->schema, SLICE("type"));
    filter->type = notion_type_of(type);
    filter->fits = class_of(filter->type);
    const struct json *condition = json_get(input, type);
    if (!condition && filter->fits == FOR_TEXT) /* the title and links take rich_text, too */
        condition = JSON_GET(input, "rich_text");
    if (!condition && filter->fits == FOR_DATE)
        condition = JSON_GET(input, "date");
    if (!condition)
        return notion_invalid(
            request, "database property %.*s does not match filter %.*s", SLICE_ARG(type),
            SLICE_ARG(input->count > 1 ? json_str(&input->as.members[1].key) : SLICE("")));
    return read_condition(request, filter, condition);
}

static struct notion_filter *compile(struct notion_request *request,
                                     const struct notion_node *source, const struct json *input,
                                     unsigned depth)
{
    struct notion_filter *filter = ARENA_NEW(request->http->arena, struct notion_filter);
    const struct json *all = JSON_GET(input, "and"), *any = JSON_GET(input, "or");
    const struct json *list = all ? all : any;
    if (!filter)
        return NULL;
    if (!list)
        return read_property(request, source, filter, input) ? filter : NULL;
    filter->kind = all ? FILTER_ALL_OF : FILTER_ANY_OF;
    if (!json_is(list, JSON_ARRAY) || list->count > FILTER_ITEMS_MAX || depth > FILTER_DEPTH_MAX) {
        notion_invalid(request,
                       "body failed validation: body.filter.%s should be an array of at "
                       "most `%d` filters, nested at most `%d` deep.",
                       all ? "and" : "or", FILTER_ITEMS_MAX, FILTER_DEPTH_MAX);
        return NULL;
    }
    struct notion_filter **end = &filter->first;
    for (uint32_t i = 0; i < list->count; i++, end = &(*end)->next) {
        *end = compile(request, source, json_at(list, i), depth + 1);
        if (!*end)
            return NULL;
    }
    return filter;
}

struct notion_filter *notion_filter_compile(struct notion_request *request,
                                            const struct notion_node *source,
                                            const struct json *input)
{
    struct notion_filter *filter;
    if (!input) {
        filter = ARENA_NEW(request->http->arena, struct notion_filter); /* all of nothing */
    } else if (!json_is(input, JSON_OBJECT)) {
        notion_invalid(request,
                       "body failed validation: body.filter should be an object, instead "
                       "was `%s`.",
                       json_type_name(input));
        return NULL;
    } else {
        filter = compile(request, source, input, 1);
    }
    if (!filter && !request->reply->status)
        notion_error_plain(request->notion->provider, request->reply, 503);
    return filter;
}

/* ASCII case-insensitive: lists are compared as a person would. */
static bool text_contains(slice text, slice part)
{
    for (size_t i = 0; i + part.len <= text.len; i++)
        if (slice_eq_nocase(slice_of(text.ptr + i, part.len), part))
            return true;
    return false;
}

static bool text_matches(const struct notion_filter *filter, slice text)
{
    slice part = filter->text;
    switch (filter->condition) {
    case IS_EMPTY:
        return !text.len;
    case IS_NOT_EMPTY:
        return text.len > 0;
    case EQUALS:
        return slice_eq_nocase(text, part);
    case DOES_NOT_EQUAL:
        return !slice_eq_nocase(text, part);
    case CONTAINS:
        return text_contains(text, part);
    case DOES_NOT_CONTAIN:
        return !text_contains(text, part);
    case STARTS_WITH:
        return slice_eq_nocase(slice_first(text, part.len), part);
    case ENDS_WITH:
        return text.len >= part.len && slice_eq_nocase(slice_from(text, text.len - part.len), part);
    default:
        return false;
    }
}

static bool number_matches(const struct notion_filter *filter, const struct json *value)
{
    if (filter->condition == IS_EMPTY || filter->condition == IS_NOT_EMPTY)
        return json_is_number(value) == (filter->condition == IS_NOT_EMPTY);
    double number = json_to_double(value);
    bool is_number = json_is_number(value);
    switch (filter->condition) {
    case EQUALS:
        return is_number && number == filter->number;
    case DOES_NOT_EQUAL:
        return !is_number || number != filter->number;
    case GREATER_THAN:
        return is_number && number > filter->number;
    case LESS_THAN:
        return is_number && number < filter->number;
    case GREATER_OR_EQUAL:
        return is_number && number >= filter->number;
    case LESS_OR_EQUAL:
        return is_number && number <= filter->number;
    default:
        return false;
    }
}

static bool date_matches(const struct notion_filter *filter, slice text)
{
    int64_t low, high;
    bool has_date = text.len && read_moment(text, &low, &high);
    if (filter->condition == IS_EMPTY || filter->condition == IS_NOT_EMPTY)
        return has_date == (filter->condition == IS_NOT_EMPTY);
    if (!has_date)
        return false;
    switch (filter->condition) {
    case EQUALS:
        return high >= filter->low_us && low <= filter->high_us;
    case BEFORE:
        return low < filter->low_us;
    case AFTER:
        return low > filter->high_us;
    case ON_OR_BEFORE:
        return low <= filter->high_us;
    case ON_OR_AFTER:
        return low >= filter->low_us;
    case BETWEEN:
        return low >= filter->low_us && low <= filter->high_us;
    default:
        return false;
    }
}

/* Sets of options, people, pages: by id, options by name as well. */
static bool set_holds(const struct json *value, slice wanted)
{
    char id[UUID_TEXT_LEN + 1];
    bool is_id = notion_id_read(wanted, id);
    for (uint32_t i = 0; i < value->count; i++) {
        const struct json *item = json_at(value, i);
        if (slice_eq(json_get_str(item, SLICE("name")), wanted) ||
            (is_id && slice_eq_cstr(json_get_str(item, SLICE("id")), id)))
            return true;
    }
    return false;
}

static bool set_matches(const struct notion_filter *filter, const struct json *value)
{
    size_t count = json_is(value, JSON_ARRAY) ? value->count : value->type != JSON_NULL;
    if (filter->condition == IS_EMPTY || filter->condition == IS_NOT_EMPTY)
        return (count > 0) == (filter->condition == IS_NOT_EMPTY);
    bool holds = json_is(value, JSON_ARRAY)
                     ? set_holds(value, filter->text)
                     : slice_eq(json_get_str(value, SLICE("id")), filter->text);
    return holds == (filter->condition == CONTAINS);
}

static bool option_matches(const struct notion_filter *filter, const struct json *value)
{
    slice name = json_get_str(value, SLICE("name"));
    if (filter->condition == IS_EMPTY || filter->condition == IS_NOT_EMPTY)
        return (name.len > 0) == (filter->condition == IS_NOT_EMPTY);
    return slice_eq(name, filter->text) == (filter->condition == EQUALS);
}

static bool property_matches(const struct notion_filter *filter, const struct notion_node *page,
                             struct arena *arena)
{
    struct json value = notion_value_get(page, filter->schema, arena);
    switch (filter->fits) {
    case FOR_TEXT:
        return text_matches(filter, value.type == JSON_ARRAY ? notion_text_plain(arena, &value)
                                                             : json_str(&value));
    case FOR_NUMBER:
        return number_matches(filter, &value);
    case FOR_OPTION:
        return option_matches(filter, &value);
    case FOR_SET:
    case FOR_FILES:
        return set_matches(filter, &value);
    case FOR_DATE:
        return date_matches(filter, value.type == JSON_STRING
                                        ? json_str(&value)
                                        : json_get_str(&value, SLICE("start")));
    case FOR_BOOL:
        return (value.as.boolean == filter->boolean) == (filter->condition == EQUALS);
    default:
        return false;
    }
}

bool notion_filter_matches(const struct notion_filter *filter, const struct notion_node *page,
                           struct arena *arena)
{
    if (filter->kind == FILTER_PROPERTY)
        return property_matches(filter, page, arena);
    bool is_all = filter->kind == FILTER_ALL_OF;
    for (const struct notion_filter *child = filter->first; child; child = child->next)
        if (notion_filter_matches(child, page, arena) != is_all)
            return !is_all;
    return is_all || !filter->first;
}
