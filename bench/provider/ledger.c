/*
 * See ledger.h. A ring of entries of fixed size that grows to its maximum and then wraps.
 */
#include "provider/ledger.h"

#include "base/clock.h"
#include "base/mem.h"

struct text {
    unsigned char len;
    char bytes[LEDGER_TEXT_MAX];
};

struct entry {
    uint64_t seq;
    int64_t time_us;
    const char *kind;
    enum http_method method;
    struct text path, object_id, marker;
};

struct counter {
    const char *name;
    uint64_t count;
};

struct app_counter {
    const char *app;
    uint64_t requests, by_class[6]; /* status / 100 */
};

struct ledger {
    struct entry *entries;
    size_t count, cap, first; /* first: index of the oldest once the ring wraps */
    uint64_t seq;
    struct counter kinds[LEDGER_KINDS_MAX];
    size_t kind_count;
    struct app_counter apps[4];
    size_t app_count;
};

struct ledger *ledger_new(void)
{
    return mem_zalloc(sizeof(struct ledger));
}

void ledger_free(struct ledger *ledger)
{
    if (!ledger)
        return;
    mem_free(ledger->entries);
    mem_free(ledger);
}

static struct text text_of(slice s)
{
    struct text text;
    s = slice_first_utf8(s, LEDGER_TEXT_MAX);
    text.len = (unsigned char)s.len;
    if (s.len)
        memcpy(text.bytes, s.ptr, s.len);
    return text;
}

static slice text_slice(const struct text *text)
{
    return slice_of(text->bytes, text->len);
}

static void count_kind(struct ledger *ledger, const char *kind)
{
    for (size_t i = 0; i < ledger->kind_count; i++) {
        if (ledger->kinds[i].name == kind || !strcmp(ledger->kinds[i].name, kind)) {
            ledger->kinds[i].count++;
            return;
        }
    }
    ASSERT(ledger->kind_count < LEDGER_KINDS_MAX);
    ledger->kinds[ledger->kind_count++] = (struct counter){kind, 1};
}

/* NULL when out of memory: the write is counted but not listed. */
static struct entry *new_entry(struct ledger *ledger)
{
    if (ledger->count == LEDGER_ENTRIES_MAX) {
        struct entry *oldest = &ledger->entries[ledger->first];
        ledger->first = (ledger->first + 1) % LEDGER_ENTRIES_MAX;
        return oldest;
    }
    if (ledger->count == ledger->cap) {
        size_t cap = ledger->cap ? ledger->cap * 2 : 64;
        cap = cap < LEDGER_ENTRIES_MAX ? cap : LEDGER_ENTRIES_MAX;
        struct entry *grown = mem_realloc(ledger->entries, cap * sizeof(*grown));
        if (!grown)
            return NULL;
        ledger->entries = grown;
        ledger->cap = cap;
    }
    return &ledger->entries[ledger->count++];
}

void ledger_add(struct ledger *ledger, const struct provider_request *request, const char *kind,
                slice object_id, slice marker)
{
    ledger->seq++;
    count_kind(ledger, kind);
    struct entry *entry = new_entry(ledger);
    if (!entry)
        return;
    entry->seq = ledger->seq;
    entry->time_us = request->now_us;
    entry->kind = kind;
    entry->method = request->method;
    entry->path = text_of(request->path);
    entry->object_id = text_of(object_id);
    entry->marker = text_of(marker);
}

void ledger_count(struct ledger *ledger, const char *app, unsigned status)
{
    size_t i = 0;
    while (i < ledger->app_count && strcmp(ledger->apps[i].app, app) != 0)
        i++;
    ASSERT(i < ARRAY_LEN(ledger->apps));
    if (i == ledger->app_count)
        ledger->apps[ledger->app_count++].app = app;
    ledger->apps[i].requests++;
    ledger->apps[i].by_class[status / 100 < 6 ? status / 100 : 0]++;
}

static void write_entry(struct json_writer *w, const struct entry *entry)
{
    char time[TIME_TEXT_LEN + 1];
    time_format(entry->time_us, time);
    slice kind = slice_cstr(entry->kind);
    json_open(w, '{');
    json_member_i64(w, "seq", (int64_t)entry->seq);
    json_member_str(w, "time", slice_of(time, TIME_TEXT_LEN));
    json_member_str(w, "app", slice_first(kind, (size_t)slice_find_char(kind, '.')));
    json_member_str(w, "kind", kind);
    json_member_str(w, "method", http_method_text(entry->method));
    json_member_str(w, "path", text_slice(&entry->path));
    json_member_str(w, "object_id", text_slice(&entry->object_id));
    json_member_str(w, "marker", text_slice(&entry->marker));
    json_close(w, '}');
}

void ledger_write(struct json_writer *w, const struct ledger *ledger)
{
    json_open(w, '{');
    json_member_i64(w, "total", (int64_t)ledger->seq);
    json_member_i64(w, "dropped", (int64_t)(ledger->seq - ledger->count));
    json_member_open(w, "entries", '[');
    for (size_t i = 0; i < ledger->count; i++)
        write_entry(w, &ledger->entries[(ledger->first + i) % ledger->count]);
    json_close(w, ']');
    json_close(w, '}');
}

static void write_app(struct json_writer *w, const struct app_counter *app)
{
    static const char *const classes[] = {"other", "1xx", "2xx", "3xx", "4xx", "5xx"};
    json_member_open(w, app->app, '{');
    json_member_i64(w, "requests", (int64_t)app->requests);
    for (size_t i = 0; i < ARRAY_LEN(classes); i++) {
        if (!app->by_class[i])
            continue;
        json_member_i64(w, classes[i], (int64_t)app->by_class[i]);
    }
    json_close(w, '}');
}

void ledger_write_counters(struct json_writer *w, const struct ledger *ledger)
{
    json_member_i64(w, "writes_total", (int64_t)ledger->seq);
    json_member_open(w, "writes", '{');
    for (size_t i = 0; i < ledger->kind_count; i++) {
        json_member_i64(w, ledger->kinds[i].name, (int64_t)ledger->kinds[i].count);
    }
    json_close(w, '}');
    json_member_open(w, "apps", '{');
    for (size_t i = 0; i < ledger->app_count; i++)
        write_app(w, &ledger->apps[i]);
    json_close(w, '}');
}
