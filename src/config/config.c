/*
 * Values of settings: converts text into struct config, within the limits of the table. Texts are
 * copied into the config's arena, since flags that hold secrets are overwritten. An error names the
 * setting, the allowed values and the given value; read.c adds the source.
 */
#include "config/internal.h"

#include "base/ascii.h"

enum { CONFIG_ARENA_BYTES_MAX = 1024 * 1024 };

/* A linear search: the table is short, and read only at start. */
const struct config_item *config_item_find(slice name)
{
    for (size_t i = 0; i < config_item_count; i++)
        if (slice_eq_cstr(name, config_items[i].name))
            return &config_items[i];
    return NULL;
}

struct scale {
    const char *suffix;
    uint64_t unit;
};

static const struct scale time_scales[] = {
    {"ms", 1}, {"s", 1000}, {"m", 60000}, {"h", 3600000}, {"d", 86400000}};
static const struct scale byte_scales[] = {{"b", 1},          {"k", 1024},     {"kb", 1024},
                                           {"m", 1048576},    {"mb", 1048576}, {"g", 1073741824},
                                           {"gb", 1073741824}};

/* Parses a number with a suffix: "30s" -> 30000. A number without a suffix counts in
 * `bare_unit`. */
static bool parse_scaled(slice text, const struct scale *scales, size_t count, uint64_t bare_unit,
                         uint64_t *value)
{
    size_t digits = 0;
    while (digits < text.len && ascii_is_digit(text.ptr[digits]))
        digits++;
    uint64_t number, unit = 0;
    if (!slice_to_u64(slice_first(text, digits), UINT64_MAX, &number))
        return false;
    slice suffix = slice_from(text, digits);
    if (suffix.len == 0)
        unit = bare_unit;
    for (size_t i = 0; i < count; i++)
        if (slice_eq_nocase(suffix, slice_cstr(scales[i].suffix)))
            unit = scales[i].unit;
    if (unit == 0)
        return false;
    /* larger than any setting's maximum: number_set reports it with the limits */
    if (__builtin_mul_overflow(number, unit, value))
        *value = UINT64_MAX;
    return true;
}

bool config_parse_ms(slice text, uint64_t *ms)
{
    return parse_scaled(text, time_scales, ARRAY_LEN(time_scales), 1000, ms);
}

static bool parse_number(const struct config_item *item, slice text, uint64_t *number)
{
    if (item->kind == CONFIG_MS)
        return config_parse_ms(text, number);
    if (item->kind == CONFIG_BYTES)
        return parse_scaled(text, byte_scales, ARRAY_LEN(byte_scales), 1, number);
    return slice_to_u64(text, UINT64_MAX, number);
}

/* Formats a limit in the largest unit that divides it, as a person would write it. */
static void bound_format(const struct config_item *item, uint64_t value, char *out, size_t cap)
{
    const struct scale *scales = item->kind == CONFIG_MS ? time_scales : byte_scales;
    size_t count = item->kind == CONFIG_MS      ? ARRAY_LEN(time_scales)
                   : item->kind == CONFIG_BYTES ? ARRAY_LEN(byte_scales)
                                                : 0;
    /* A count has no units. */
    const struct scale *best = NULL;
    for (size_t i = 0; i < count; i++)
        if (value % scales[i].unit == 0 && (!best || scales[i].unit > best->unit))
            best = &scales[i];
    if (best && value > 0)
        (void)snprintf(out, cap, "%llu%s", (unsigned long long)(value / best->unit), best->suffix);
    else
        (void)snprintf(out, cap, "%llu", (unsigned long long)value);
}

static int number_set(struct config *config, const struct config_item *item, slice value,
                      struct err *err)
{
    static const char *const forms[] = {[CONFIG_MS] = "a time such as 500ms, 30s, 5m or 2h",
                                        [CONFIG_BYTES] = "a size such as 65536, 64k or 8m",
                                        [CONFIG_COUNT] = "a whole number"};
    uint64_t number = 0;
    char min[32], max[32];
    if (!parse_number(item, value, &number))
        return err_set(err, ERR_INVALID, "%s must be %s, got \"%.*s\"", item->name,
                       forms[item->kind], SLICE_ARG(value));
    /* The message names both limits, so that the next attempt can succeed. */
    bound_format(item, item->min, min, sizeof(min));
    bound_format(item, item->max, max, sizeof(max));
    if (number < item->min || number > item->max)
        return err_set(err, ERR_INVALID, "%s must be from %s to %s, got \"%.*s\"", item->name, min,
                       max, SLICE_ARG(value));
    *(uint64_t *)(void *)((char *)config + item->offset) = number;
    return OK;
}

static bool list_holds(const struct config_list *list, slice text)
{
    for (size_t i = 0; i < list->count; i++)
        if (slice_eq(list->items[i], text))
            return true;
    return false;
}

/* Commas separate values; an empty value empties the list. */
static int texts_set(struct config *config, const struct config_item *item, slice value,
                     bool is_first, struct err *err)
{
    struct config_list *list = (struct config_list *)(void *)((char *)config + item->offset);
    /* A list from the environment replaces that of the file; only the flags or lines of one
     * source are added together. */
    if (is_first)
        list->count = 0;
    while (value.len > 0) {
        slice one = slice_trim(slice_split(&value, ','));
        /* A repeated value is not an error; it counts once. */
        if (one.len == 0 || list_holds(list, one))
            continue;
        if (list->count == CONFIG_LIST_MAX)
            return err_set(err, ERR_LIMIT, "%s takes at most %d values", item->name,
                           CONFIG_LIST_MAX);
        list->items[list->count] = arena_dup(&config->arena, one);
        if (!list->items[list->count].ptr)
            return err_set(err, ERR_NOMEM, "out of memory for %s", item->name);
        list->count++;
    }
    return OK;
}

int config_item_set(struct config *config, const struct config_item *item, slice value,
                    bool is_first, struct err *err)
{
    if (item->kind == CONFIG_TEXTS)
        return texts_set(config, item, value, is_first, err);
    if (item->kind != CONFIG_TEXT && item->kind != CONFIG_SECRET)
        return number_set(config, item, value, err);
    /* The source's text may be wiped or freed; the arena's copy lives as long as the config. */
    slice copy = arena_dup(&config->arena, value);
    if (!copy.ptr)
        return err_set(err, ERR_NOMEM, "out of memory for %s", item->name);
    *(slice *)(void *)((char *)config + item->offset) = copy;
    return OK;
}

static int set_by_name(struct config *config, slice name, slice value, bool is_first,
                       struct err *err)
{
    const struct config_item *item = config_item_find(name);
    if (!item)
        return err_set(err, ERR_NOTFOUND, "there is no setting \"%.*s\"", SLICE_ARG(name));
    return config_item_set(config, item, value, is_first, err);
}

int config_set(struct config *config, slice name, slice value, struct err *err)
{
    return set_by_name(config, name, value, true, err);
}

int config_add(struct config *config, slice name, slice value, struct err *err)
{
    return set_by_name(config, name, value, false, err);
}

int config_init(struct config *config, struct err *err)
{
    *config = (struct config){.port = 0};
    arena_init(&config->arena, CONFIG_ARENA_BYTES_MAX);
    for (size_t i = 0; i < config_item_count; i++) {
        const struct config_item *item = &config_items[i];
        if (config_item_set(config, item, slice_cstr(item->default_text), true, err) != OK)
            return err_prefix(err, "default of %s", item->name);
    }
    return OK;
}

void config_deinit(struct config *config)
{
    arena_deinit(&config->arena);
}
