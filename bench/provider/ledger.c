/*
 * See ledger.h. Each entry is the text of its reply, in a ring; counters are JSON objects.
 */
#include "provider/ledger.h"

#include <stdio.h>

#include "base/clock.h"
#include "base/mem.h"
#include "provider/call.h"

enum { ENTRY_BYTES_MAX = 8 * LEDGER_TEXT_MAX + 1024 };

struct ledger {
    struct arena arena; /* holds the names of the counters */
    struct json writes, apps;
    uint64_t seq;
    char *entries[LEDGER_ENTRIES_MAX]; /* number seq is at (seq - 1) % LEDGER_ENTRIES_MAX */
};

struct ledger *ledger_new(void)
{
    struct ledger *ledger = mem_zalloc(sizeof(*ledger));
    ASSERT(ledger);
    arena_init(&ledger->arena, 1024 * 1024);
    ledger->writes = json_object();
    ledger->apps = json_object();
    return ledger;
}

void ledger_free(struct ledger *ledger)
{
    for (size_t i = 0; i < LEDGER_ENTRIES_MAX && i < ledger->seq; i++)
        mem_free(ledger->entries[i]);
    arena_deinit(&ledger->arena);
    mem_free(ledger);
}

/* The member, which is created if it is missing. */
static struct json *member_of(struct ledger *ledger, struct json *object, slice name,
                              struct json fresh)
{
    if (!json_get(object, name))
        json_object_set(&ledger->arena, object, arena_dup(&ledger->arena, name), fresh);
    return (struct json *)(uintptr_t)json_get(object, name);
}

static void count(struct ledger *ledger, struct json *object, slice name)
{
    struct json *number = member_of(ledger, object, name, json_i64(0));
    if (number) /* NULL if out of memory */
        number->as.i64++;
}

void call_record(struct call *call, slice object_id, slice marker)
{
    struct ledger *ledger = call->provider->ledger;
    const struct http_head *head = &call->http->head;
    char time[TIME_TEXT_LEN + 1], room[LEDGER_TEXT_MAX];
    char **slot = &ledger->entries[ledger->seq++ % LEDGER_ENTRIES_MAX];
    slice kind =
        SLICE_JOIN(room, slice_cstr(call->app->name), SLICE("."), slice_cstr(call->route->name));
    struct buf text;
    struct json_writer w;
    size_t len;
    count(ledger, &ledger->writes, kind);
    time_format(call->now_us, time);
    buf_init(&text, ENTRY_BYTES_MAX);
    json_begin(&w, &text);
    json_open(&w, '{');
    json_member_i64(&w, "seq", (int64_t)ledger->seq);
    json_member_str(&w, "time", slice_cstr(time));
    json_member_str(&w, "app", slice_cstr(call->app->name));
    json_member_str(&w, "kind", kind);
    json_member_str(&w, "method", head->method_text);
    json_member_str(&w, "path", slice_first_utf8(head->path, LEDGER_TEXT_MAX));
    json_member_str(&w, "object_id", slice_first_utf8(object_id, LEDGER_TEXT_MAX));
    json_member_str(&w, "marker", slice_first_utf8(marker, LEDGER_TEXT_MAX));
    json_close(&w, '}');
    mem_free(*slot);
    *slot = buf_take(&text, &len); /* if memory is exhausted, the write is counted but not listed */
}

void ledger_count(struct ledger *ledger, const char *app, unsigned status)
{
    char name[] = {(char)('0' + status / 100), 'x', 'x', 0};
    struct json *counts = member_of(ledger, &ledger->apps, slice_cstr(app), json_object());
    count(ledger, counts, SLICE("requests"));
    count(ledger, counts, slice_cstr(name));
}

void ledger_write(struct json_writer *w, const struct ledger *ledger)
{
    uint64_t dropped = ledger->seq > LEDGER_ENTRIES_MAX ? ledger->seq - LEDGER_ENTRIES_MAX : 0;
    json_open(w, '{');
    json_member_i64(w, "total", (int64_t)ledger->seq);
    json_member_i64(w, "dropped", (int64_t)dropped);
    json_member_open(w, "entries", '[');
    for (uint64_t i = dropped; i < ledger->seq; i++)
        if (ledger->entries[i % LEDGER_ENTRIES_MAX])
            json_put_raw(w, slice_cstr(ledger->entries[i % LEDGER_ENTRIES_MAX]));
    json_close(w, ']');
    json_close(w, '}');
}

void ledger_write_counters(struct json_writer *w, const struct ledger *ledger)
{
    json_member_i64(w, "writes_total", (int64_t)ledger->seq);
    json_member(w, "writes", &ledger->writes);
    json_member(w, "apps", &ledger->apps);
}
