/*
 * See ledger.h. A ring of entries of fixed size that grows to its maximum and then wraps.
 */
#include "provider/ledger.h"

#include <stdio.h>

#include "base/clock.h"
#include "base/mem.h"

struct kind {
    const char *app, *name;
    uint64_t count;
};

struct entry {
    uint64_t seq;
    int64_t time_us;
    const struct kind *kind;
    enum http_method method;
    char path[LEDGER_TEXT_MAX + 1], object_id[LEDGER_TEXT_MAX + 1], marker[LEDGER_TEXT_MAX + 1];
};

struct app {
    const char *name;
    uint64_t requests, by_class[6]; /* status / 100 */
};

struct ledger {
    struct entry *entries;
    size_t count, cap, first; /* first: index of the oldest once the ring wraps */
    uint64_t seq;
    struct kind kinds[LEDGER_KINDS_MAX]; /* the used ones have names, as the apps */
    struct app apps[4];
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

static void set_text(char out[LEDGER_TEXT_MAX + 1], slice text)
{
    text = slice_first_utf8(text, LEDGER_TEXT_MAX);
    (void)snprintf(out, LEDGER_TEXT_MAX + 1, "%.*s", SLICE_ARG(text));
}

static const struct kind *count_kind(struct ledger *ledger, const char *app, const char *name)
{
    struct kind *kind = ledger->kinds;
    while (kind->name && (strcmp(kind->name, name) != 0 || strcmp(kind->app, app) != 0))
        kind++;
    ASSERT(kind < ledger->kinds + LEDGER_KINDS_MAX - 1);
    *kind = (struct kind){app, name, kind->count + 1};
    return kind;
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

void ledger_add(struct ledger *ledger, const struct provider_request *request, const char *app,
                const char *kind, slice object_id, slice marker)
{
    struct entry *entry = new_entry(ledger);
    const struct kind *counted = count_kind(ledger, app, kind);
    ledger->seq++;
    if (!entry)
        return;
    entry->seq = ledger->seq;
    entry->time_us = request->now_us;
    entry->kind = counted;
    entry->method = request->method;
    set_text(entry->path, request->path);
    set_text(entry->object_id, object_id);
    set_text(entry->marker, marker);
}

void ledger_count(struct ledger *ledger, const char *name, unsigned status)
{
    struct app *app = ledger->apps;
    while (app->name && strcmp(app->name, name) != 0)
        app++;
    ASSERT(app < ledger->apps + ARRAY_LEN(ledger->apps) - 1);
    app->name = name;
    app->requests++;
    app->by_class[status / 100 < 6 ? status / 100 : 0]++;
}

static slice kind_text(const struct kind *kind, char room[LEDGER_TEXT_MAX])
{
    (void)snprintf(room, LEDGER_TEXT_MAX, "%s.%s", kind->app, kind->name);
    return slice_cstr(room);
}

static void write_entry(struct json_writer *w, const struct entry *entry)
{
    char time[TIME_TEXT_LEN + 1], kind[LEDGER_TEXT_MAX];
    time_format(entry->time_us, time);
    json_open(w, '{');
    json_member_i64(w, "seq", (int64_t)entry->seq);
    json_member_str(w, "time", slice_cstr(time));
    json_member_str(w, "app", slice_cstr(entry->kind->app));
    json_member_str(w, "kind", kind_text(entry->kind, kind));
    json_member_str(w, "method", http_method_text(entry->method));
    json_member_str(w, "path", slice_cstr(entry->path));
    json_member_str(w, "object_id", slice_cstr(entry->object_id));
    json_member_str(w, "marker", slice_cstr(entry->marker));
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

void ledger_write_counters(struct json_writer *w, const struct ledger *ledger)
{
    static const char *const classes[] = {"other", "1xx", "2xx", "3xx", "4xx", "5xx"};
    char room[LEDGER_TEXT_MAX];
    json_member_i64(w, "writes_total", (int64_t)ledger->seq);
    json_member_open(w, "writes", '{');
    for (const struct kind *kind = ledger->kinds; kind->name; kind++) {
        json_key_slice(w, kind_text(kind, room));
        json_put_i64(w, (int64_t)kind->count);
    }
    json_close(w, '}');
    json_member_open(w, "apps", '{');
    for (const struct app *app = ledger->apps; app->name; app++) {
        json_member_open(w, app->name, '{');
        json_member_i64(w, "requests", (int64_t)app->requests);
        for (size_t i = 0; i < ARRAY_LEN(classes); i++)
            if (app->by_class[i])
                json_member_i64(w, classes[i], (int64_t)app->by_class[i]);
        json_close(w, '}');
    }
    json_close(w, '}');
}
