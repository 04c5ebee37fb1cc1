/*
 * When connections were last used, and what last went wrong: kept in memory, stored soon after a
 * connection's first use and then at most once every use_every_ms, many at once. A process that
 * dies loses at most that; a clean shutdown loses nothing (connect_uses_flush).
 *
 * A use is in uses_young until it is first stored, then in uses_stored. The delay is the same for
 * all of a list, so each list is in order of due_ns and only its first is examined. A use that
 * comes due with nothing new is dropped.
 */
#include "base/clock.h"
#include "base/mem.h"
#include "base/metric.h"
#include "connect/internal.h"

enum {
    USES_MAX = 20000, /* connections remembered: past it a use is counted, and not stored */
    SOON_MS = 1000,
    FLUSH_MAX = 64, /* statements at once; they share a commit */
    FLUSH_ARENA_BYTES_MAX = 1024 * 1024,
    KEY_LEN = 16 + 8,
};

static struct metric lost_total =
    METRIC_INIT("sluice_connection_uses_untold_total",
                "Uses of connections that could not be kept or stored.", METRIC_COUNTER);

struct use {
    struct line line; /* by account and connection; in uses_young or uses_stored, in order of
                         due_ns, or in no list, while a flush has it */
    uint64_t due_ns;
    int64_t used_at, failed_at;
    char *failure; /* failure_len bytes; NULL: none */
    size_t failure_len;
    bool is_dirty; /* something is to be stored */
};

struct connect_flush {
    struct op op;
    struct connect_service *service; /* NULL once it has gone */
    struct use *uses[FLUSH_MAX];
    struct pg_query queries[FLUSH_MAX];
    char failures[FLUSH_MAX][CONNECTION_FAILURE_MAX]; /* copies: another one may come meanwhile */
    size_t count;
};

static void drop(struct connect_service *service, struct use *use)
{
    mem_free(use->failure);
    lines_drop(&service->uses, &use->line);
}

/* ---- storing ---- */

/* The first of a list if it is due; at a shutdown the first in any case. */
static struct use *first_due(const struct connect_service *service, const struct list *list)
{
    if (list_is_empty(list))
        return NULL;
    struct use *use = LIST_ITEM(list->next, struct use, line.ring);
    bool is_due = service->are_uses_hurried || use->due_ns <= loop_now_ns(service->loop);
    return is_due ? use : NULL;
}

static void submit(struct connect_flush *flush, struct use *use)
{
    struct connection_use row = {.used_at = use->used_at, .failed_at = use->failed_at};
    ASSERT(flush->count < FLUSH_MAX && use->is_dirty && use->used_at > 0);
    size_t at = flush->count++;
    memcpy(row.account_id.bytes, use->line.key, 16);
    memcpy(&row.id, use->line.key + 16, sizeof(row.id));
    if (use->failure) {
        memcpy(flush->failures[at], use->failure, use->failure_len);
        row.failure = slice_of(flush->failures[at], use->failure_len);
    }
    list_unlink(&use->line.ring); /* step_sent or connect_uses_free takes it from here */
    use->is_dirty = false;        /* set again by a call meanwhile */
    flush->uses[at] = use;
    store_connection_use(flush->service->config.pool, &flush->queries[at], &flush->op, &row);
}

enum flush_step { FLUSH_SEND, FLUSH_SENT };

static enum op_result step_send(struct op *op)
{
    struct connect_flush *flush = CONTAINER_OF(op, struct connect_flush, op);
    struct connect_service *service = flush->service;
    struct use *use;
    flush->count = 0;
    if (!service)
        return OP_FAIL;
    while (flush->count < FLUSH_MAX && (use = first_due(service, &service->uses_young)))
        submit(flush, use);
    while (flush->count < FLUSH_MAX && (use = first_due(service, &service->uses_stored))) {
        if (use->is_dirty)
            submit(flush, use);
        else
            drop(service, use);
    }
    return flush->count > 0 ? OP_WAIT : OP_DONE;
}

static enum op_result step_sent(struct op *op)
{
    struct connect_flush *flush = CONTAINER_OF(op, struct connect_flush, op);
    struct connect_service *service = flush->service;
    size_t failed = 0;
    if (!service)
        return OP_FAIL;
    for (size_t i = 0; i < flush->count; i++) {
        struct use *use = flush->uses[i];
        bool is_lost = flush->queries[i].status != OK;
        failed += is_lost;
        if (service->are_uses_hurried) { /* there is no next one */
            drop(service, use);
            continue;
        }
        use->is_dirty |= is_lost; /* stored with the next one */
        use->due_ns = loop_now_ns(service->loop) + service->use_every_ns;
        list_push_back(&service->uses_stored, &use->line.ring);
    }
    flush->count = 0;
    if (failed > 0) {
        metric_add(metric_series(&lost_total, SLICE_NONE), (double)failed);
        op_log(op, LOG_WARN, "the last use of connections could not be stored",
               LOG_INT("count", failed), LOG_STR("cause", flush->queries[0].message));
    }
    /* ends: what was stored is due use_every_ms later, or was dropped */
    return op_jump(op, FLUSH_SEND);
}

/* At the earlier of the two firsts. */
static void arm(struct connect_service *service)
{
    uint64_t due_ns = UINT64_MAX;
    const struct list *const lists[] = {&service->uses_young, &service->uses_stored};
    for (size_t i = 0; i < ARRAY_LEN(lists); i++) {
        const struct use *first = LIST_ITEM(lists[i]->next, struct use, line.ring);
        if (!list_is_empty(lists[i]) && first->due_ns < due_ns)
            due_ns = first->due_ns;
    }
    if (due_ns != UINT64_MAX)
        timer_start(&service->uses_timer, due_ns);
}

static void on_flush_end(struct op *op, enum op_end end)
{
    struct connect_flush *flush = CONTAINER_OF(op, struct connect_flush, op);
    (void)end;
    if (!flush->service)
        return;
    ASSERT(flush->service->flush == flush);
    flush->service->flush = NULL;
    arm(flush->service);
}

static const struct op_step flush_steps[] = {
    [FLUSH_SEND] = {"send", step_send, 0},
    [FLUSH_SENT] = {"sent", step_sent, OP_TO(FLUSH_SEND)},
};
static const struct op_class flush_class = {
    .name = "connect_uses",
    .is_background = true,
    OP_STEPS(flush_steps),
    .on_end = on_flush_end,
    .free = op_free_struct,
};

static void start_flush(struct connect_service *service)
{
    if (service->flush)
        return; /* one at a time: it goes on with what comes due meanwhile */
    struct connect_flush *flush = mem_zalloc(sizeof(*flush));
    if (!flush) {
        timer_start_in_ms(&service->uses_timer, SOON_MS);
        return;
    }
    timer_stop(&service->uses_timer);
    flush->service = service;
    service->flush = flush;
    op_start(&flush->op, &flush_class, service->loop, NULL, FLUSH_ARENA_BYTES_MAX);
}

static void on_due(struct timer *timer)
{
    start_flush(CONTAINER_OF(timer, struct connect_service, uses_timer));
}

/* ---- recording ---- */

/* NULL: no room. */
static struct use *use_get(struct connect_service *service, slice key)
{
    struct use *use = lines_find(&service->uses, key);
    if (use || service->uses.map.count >= USES_MAX)
        return use;
    use = lines_get(&service->uses, key);
    if (!use)
        return NULL;
    use->due_ns = loop_now_ns(service->loop) + SOON_MS * 1000000ULL;
    list_push_back(&service->uses_young, &use->line.ring);
    if (!service->flush)
        arm(service);
    return use;
}

/* A provider's text may hold NUL, which no text column takes, and control characters, which a page
 * would show as boxes. Without memory the former failure stays. */
static void keep_failure(struct use *use, slice failure)
{
    slice text = slice_first_utf8(failure, CONNECTION_FAILURE_MAX);
    char *copy = mem_strndup(text.ptr, text.len);
    if (!copy)
        return;
    for (size_t i = 0; i < text.len; i++)
        if ((unsigned char)copy[i] < 0x20 || copy[i] == 0x7F)
            copy[i] = ' ';
    mem_free(use->failure);
    use->failure = copy;
    use->failure_len = text.len;
    use->failed_at = use->used_at;
}

void connect_used(struct connect_service *service, struct uuid account_id, int64_t id,
                  slice failure)
{
    char key[KEY_LEN];
    ASSERT(id > 0);
    memcpy(key, account_id.bytes, 16);
    memcpy(key + 16, &id, sizeof(id));
    struct use *use = use_get(service, slice_of(key, KEY_LEN));
    if (!use) {
        metric_inc(&lost_total);
        return;
    }
    use->is_dirty = true;
    use->used_at = clock_shared_us();
    if (failure.len > 0)
        keep_failure(use, failure);
}

/* ---- the service ---- */

void connect_uses_init(struct connect_service *service)
{
    lines_init(&service->uses, sizeof(struct use));
    list_init(&service->uses_young);
    list_init(&service->uses_stored);
    timer_init(&service->uses_timer, service->loop, on_due);
}

void connect_uses_flush(struct connect_service *service)
{
    service->are_uses_hurried = true;
    if (service->uses.map.count > 0)
        start_flush(service);
}

bool connect_uses_active(const struct connect_service *service)
{
    return service->flush != NULL;
}

static void drop_all(struct connect_service *service, struct list *list)
{
    LIST_EACH(list, struct use, use, line.ring)
        drop(service, use);
}

void connect_uses_free(struct connect_service *service)
{
    struct connect_flush *flush = service->flush;
    timer_stop(&service->uses_timer);
    for (size_t i = 0; flush && i < flush->count; i++)
        drop(service, flush->uses[i]);
    drop_all(service, &service->uses_young);
    drop_all(service, &service->uses_stored);
    if (flush) { /* it ends later, and finds that its uses are gone */
        flush->service = NULL;
        op_cancel(&flush->op);
    }
    lines_deinit(&service->uses);
}
