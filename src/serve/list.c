/*
 * The arguments and pages of lists; see list.h.
 */
#include "serve/list.h"

#include <stdio.h>

#include "base/clock.h"
#include "json/json.h"
#include "vault/words.h"

enum {
    WORD_LEN_MAX = 200,
    /* A list without a cursor begins this far in the future, because ids come from the clocks of
     * several machines */
    MARGIN_MS = 24 * 60 * 60 * 1000,
};

/* ---- arguments ---- */

/* Returns the index of the word in words; -1 if it is not there. */
static int choice_of(slice words, slice value)
{
    for (int i = 0; words.len > 0; i++) {
        slice word = slice_split(&words, ' ');
        if (slice_eq(word, value) || slice_eq(slice_split(&word, '.'), value))
            return i;
    }
    return -1;
}

bool serve_is_word(slice value)
{
    for (size_t i = 0; i < value.len; i++)
        if (value.ptr[i] <= ' ' || value.ptr[i] >= 0x7f)
            return false;
    return value.len <= WORD_LEN_MAX;
}

/* Whether the value has words, not too many, on one line. */
static bool is_search(slice value)
{
    if (value.len > VAULT_SEARCH_BYTES_MAX || !slice_is_name(value, value.len))
        return false;
    size_t count = vault_words_count(value, VAULT_SEARCH_WORDS_MAX + 1);
    return count > 0 && count <= VAULT_SEARCH_WORDS_MAX;
}

/* Reads a time or an age: clients that do not know the time, such as models, give an age. is_end:
 * of a date, its end. */
static bool read_time(slice text, bool is_end, struct uuid *floor)
{
    enum { AGE_MINUTES_MAX = 1000000 * 24 * 60, DATE_LEN = 10 };
    static const struct {
        char unit;
        int minutes;
    } units[] = {{'m', 1}, {'h', 60}, {'d', 24 * 60}};
    int64_t at_us;
    uint64_t age;
    char date[DATE_LEN + sizeof("T00:00:00Z")];
    bool is_date = text.len == DATE_LEN;
    if (is_date) {
        (void)snprintf(date, sizeof(date), "%.*sT00:00:00Z", SLICE_ARG(text));
        text = slice_cstr(date);
    }
    bool is_read = time_parse(text, &at_us);
    if (is_read && is_date && is_end)
        at_us += INT64_C(86400) * 1000000;
    for (size_t i = 0; i < ARRAY_LEN(units) && !is_read && text.len > 1; i++)
        if (text.ptr[text.len - 1] == units[i].unit &&
            slice_to_u64(slice_first(text, text.len - 1),
                         (uint64_t)(AGE_MINUTES_MAX / units[i].minutes), &age)) {
            at_us = clock_shared_us() - (int64_t)age * units[i].minutes * 60 * 1000000;
            is_read = true;
        }
    if (is_read)
        *floor = uuid_v7_floor(at_us > 0 ? at_us / 1000 : 0);
    return is_read;
}

static bool is_right(struct serve_list *list, int at, const struct serve_filter *filter)
{
    slice value = list->values[at];
    struct uuid id;
    if (filter->words)
        return (list->choices[at] = choice_of(slice_cstr(filter->words), value)) >= 0;
    if (filter->kind == SERVE_TEXT)
        return slice_is_utf8(value, NULL) && !memchr(value.ptr, 0, value.len);
    if (filter->kind == SERVE_SEARCH)
        return uuid_parse(value, &list->id) || is_search(value);
    if (filter->kind == SERVE_SINCE)
        return read_time(value, false, &list->page.since);
    if (filter->kind == SERVE_UNTIL)
        return read_time(value, true, &list->until);
    if (filter->kind == SERVE_ID) /* the nil id would ask for all */
        return uuid_parse(value, &id) && !uuid_is_nil(id);
    return filter->kind == SERVE_WORD ? serve_is_word(value)
                                      : uuid_parse(value, &list->page.before);
}

int serve_list_read(struct serve_list *list, const struct serve_filter *filters)
{
    for (int i = 0; filters[i].name; i++) {
        ASSERT(i < SERVE_FILTERS_MAX);
        list->choices[i] = -1;
        if (list->values[i].ptr && !is_right(list, i, &filters[i]))
            return i;
    }
    return -1;
}

slice serve_filter_refusal(const struct serve_filter *filter, slice value, struct arena *arena)
{
    if (!filter->wanted)
        return arena_printf(arena, "%s must be one of: %s", filter->name, filter->words);
    slice got = filter->is_quoted ? json_excerpt(value, arena) : SLICE_NONE;
    return arena_printf(arena, got.ptr ? "%s must be %s, got \"%.*s\"" : "%s must be %s%.*s",
                        filter->name, filter->wanted, SLICE_ARG(got));
}

slice serve_list_words(const struct serve_list *list, int at, const struct vault_ring *ring,
                       struct uuid account_id, struct arena *arena)
{
    if (!list->values[at].ptr || !uuid_is_nil(list->id))
        return SLICE_NONE;
    return vault_words_search(ring, account_id, list->values[at], arena);
}

slice serve_list_plain(const struct serve_list *list, int at, struct arena *arena)
{
    if (!list->values[at].ptr || !uuid_is_nil(list->id))
        return SLICE_NONE;
    slice words = vault_words_patterns(list->values[at], arena);
    return words.ptr ? words : SLICE("$."); /* no text matches it */
}

/* ---- pages ---- */

/* Lowers the end of the range. */
static void end_before(struct serve_list *list, struct uuid end)
{
    if (uuid_is_nil(list->page.before) || uuid_cmp(end, list->page.before) < 0)
        list->page.before = end;
}

void serve_list_narrow(struct serve_list *list)
{
    struct uuid after = list->id;
    if (!uuid_is_nil(list->until))
        end_before(list, list->until);
    if (uuid_is_nil(list->id))
        return;
    list->wide = list->page;
    for (size_t i = sizeof(after.bytes); i-- > 0 && ++after.bytes[i] == 0;)
        continue;
    if (uuid_cmp(list->id, list->page.since) > 0)
        list->page.since = list->id;
    end_before(list, after);
}

const struct store_page *serve_list_scan(struct serve_list *list)
{
    size_t wanted =
        list->limit - list->count + 1; /* one more row, which shows whether there is another page */
    bool is_first = list->scan.count_max == 0;
    if (is_first && uuid_is_nil(list->page.before))
        list->page.before = uuid_v7_floor(clock_shared_us() / 1000 + MARGIN_MS);
    if (is_first)
        serve_list_narrow(list);
    int64_t recent_ms = uuid_v7_wall_ms(list->page.before) - SERVE_RECENT_MS;
    struct uuid recent = uuid_v7_floor(recent_ms > 0 ? recent_ms : 0);
    list->scan = list->page;
    if (is_first && uuid_cmp(recent, list->page.since) > 0)
        list->scan.since = recent;
    list->scan.count_max = list->is_sieved || wanted > STORE_PAGE_COUNT_MAX ? STORE_PAGE_COUNT_MAX
                                                                            : wanted;
    return &list->scan;
}

bool serve_list_take(struct serve_list *list, struct uuid id)
{
    list->is_full = list->count == list->limit;
    if (!list->is_full) {
        list->next = id;
        list->count++;
    }
    return !list->is_full;
}

bool serve_list_continues(struct serve_list *list, struct uuid end)
{
    ASSERT(list->scans_left > 0);
    if (list->is_full)
        return false;
    if (!uuid_is_nil(list->id) && list->count == 0) {
        /* No row has this id, which may be a word. */
        list->id = (struct uuid){{0}};
        list->page = list->wide;
        list->scan = (struct store_page){0};
        list->next = list->page.before;
        return --list->scans_left > 0;
    }
    bool is_rest = uuid_is_nil(end) && uuid_cmp(list->scan.since, list->page.since) > 0;
    list->next = list->page.before = is_rest ? list->scan.since : end;
    return !uuid_is_nil(list->next) && --list->scans_left > 0;
}
