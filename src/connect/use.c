/*
 * The last use and the last failure of connections. They are kept in memory, and stored soon after
 * a connection's first use and then at most once every use_every_ms, many at once. A process that
 * dies loses at most the uses of use_every_ms; a clean shutdown loses nothing (connect_uses_flush).
 *
 * A use is in uses_young until it is first stored, then in uses_stored; while it is being stored,
 * it is in uses_sending. All items of a list have the same delay, so each list is in order of
 * due_ns and only its first item is examined. A use that becomes due without news is dropped.
 */
#include "base/clock.h"
#include "base/mem.h"
#include "base/metric.h"
#include "connect/internal.h"

enum {
    /* number of connections remembered; a use beyond it is counted, but not stored */
    USES_MAX = 20000,
    SOON_MS = 1000,
    SENT_MAX = 1000, /* statements under way; statements of one turn share a commit */
    KEY_LEN = 16 + 8,
};

static struct metric lost_total = METRIC_INIT("sluice_connection_uses_untold_total",
                                              "Uses of connections that could not be stored.",
                                              METRIC_COUNTER);

struct use {
    struct keyed keyed; /* by account and connection; in one of the three lists */
    uint64_t due_ns;
    struct uuid payer_id;
    int64_t used_at, failed_at;
    char *failure; /* failure_len bytes; NULL: none */
    size_t failure_len;
    bool is_dirty; /* something is to be stored */
};

struct sent {
    struct store_later later;
    struct connection_use row;
};

static void drop(struct connect_service *service, struct use *use)
{
    mem_free(use->failure);
    keyed_drop(&service->uses, &use->keyed);
}

/* ---- storing ---- */

/* Returns the list's first use if it is due; during a shutdown, returns it in any case. */
static struct use *first_due(const struct connect_service *service, const struct list *list)
{
    if (list_is_empty(list))
        return NULL;
    struct use *use = LIST_ITEM(list->next, struct use, keyed.ring);
    bool is_due = service->are_uses_hurried || use->due_ns <= loop_now_ns(service->loop);
    return is_due ? use : NULL;
}

static void send_use(struct store_later *later)
{
    struct sent *sent = CONTAINER_OF(later, struct sent, later);
    store_connection_use(later->laters->pool, &later->query, &later->op, &sent->row);
}

static slice make_key(char *room, struct uuid account_id, int64_t id)
{
    memcpy(room, account_id.bytes, 16);
    memcpy(room + 16, &id, sizeof(id));
    return slice_of(room, KEY_LEN);
}

/* Sets the timer for the first use of either list, whichever is due earlier. */
static void arm(struct connect_service *service)
{
    uint64_t due_ns = UINT64_MAX;
    const struct list *const lists[] = {&service->uses_young, &service->uses_stored};
    for (size_t i = 0; i < ARRAY_LEN(lists); i++) {
        const struct use *first = LIST_ITEM(lists[i]->next, struct use, keyed.ring);
        if (!list_is_empty(lists[i]) && first->due_ns < due_ns)
            due_ns = first->due_ns;
    }
    if (due_ns != UINT64_MAX)
        timer_start(&service->uses_timer, due_ns);
}

/* A failed write is repeated when its use becomes due again. */
static bool on_sent(struct store_later *later)
{
    const struct sent *sent = CONTAINER_OF(later, struct sent, later);
    struct connect_service *service =
        CONTAINER_OF(later->laters, struct connect_service, uses_sent);
    char key[KEY_LEN];
    struct use *use = keyed_find(&service->uses, make_key(key, sent->row.account_id, sent->row.id));
    bool is_lost = later->query.status != OK;
    if (is_lost)
        metric_inc(&lost_total);
    if (!use) /* the use was dropped during a shutdown */
        return false;
    use->is_dirty |= is_lost;
    use->due_ns = loop_now_ns(service->loop) + service->use_every_ns;
    list_move_back(&service->uses_stored, &use->keyed.ring);
    arm(service);
    return false;
}

static const struct store_later_class sent_class = {
    STORE_LATER(store_later_once, "connect_uses", struct sent),
    .send = send_use,
    .on_sent = on_sent,
    .failure = "the last use of a connection could not be stored",
};

/* Returns false if there is no room. During a shutdown the use is then dropped, since it cannot be
 * retried later. */
static bool submit(struct connect_service *service, struct use *use)
{
    struct sent *sent = store_later(&service->uses_sent, &sent_class, NULL, use->failure_len);
    if (!sent)
        return false;
    ASSERT(use->is_dirty && use->used_at > 0);
    op_account_set(&sent->later.op, use->payer_id);
    memcpy(sent->row.account_id.bytes, use->keyed.key, 16);
    memcpy(&sent->row.id, use->keyed.key + 16, sizeof(sent->row.id));
    sent->row.used_at = use->used_at;
    sent->row.failed_at = use->failed_at;
    if (use->failure) /* a copy: another use may come during the statement */
        sent->row.failure =
            arena_dup(&sent->later.op.arena, slice_of(use->failure, use->failure_len));
    use->is_dirty = false;
    list_move_back(&service->uses_sending, &use->keyed.ring);
    if (service->are_uses_hurried)
        drop(service, use);
    return true;
}

static bool send_due(struct connect_service *service)
{
    struct use *use;
    while ((use = first_due(service, &service->uses_young)))
        if (!submit(service, use))
            return false;
    while ((use = first_due(service, &service->uses_stored))) {
        if (!use->is_dirty)
            drop(service, use);
        else if (!submit(service, use))
            return false;
    }
    return true;
}

static void send_uses(struct connect_service *service)
{
    timer_stop(&service->uses_timer);
    if (send_due(service))
        arm(service);
    else
        timer_start_in_ms(&service->uses_timer, SOON_MS);
}

static void on_due(struct timer *timer)
{
    send_uses(CONTAINER_OF(timer, struct connect_service, uses_timer));
}

/* ---- recording ---- */

/* Returns NULL if the table is full. */
static struct use *use_get(struct connect_service *service, slice key)
{
    struct use *use = keyed_find(&service->uses, key);
    if (use || service->uses.map.count >= USES_MAX)
        return use;
    use = keyed_get(&service->uses, key);
    if (!use)
        return NULL;
    use->due_ns = loop_now_ns(service->loop) + SOON_MS * 1000000ULL;
    list_push_back(&service->uses_young, &use->keyed.ring);
    arm(service);
    return use;
}

/* A provider's text may contain NUL, which a text column does not accept, and control
 * characters, which a page would show as boxes. If memory is short, the previous failure stays. */
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

void connect_used(struct connect_service *service, struct uuid account_id, struct uuid payer_id,
                  int64_t id, slice failure)
{
    char key[KEY_LEN];
    ASSERT(id > 0);
    struct use *use = use_get(service, make_key(key, account_id, id));
    if (!use) {
        metric_inc(&lost_total);
        return;
    }
    use->is_dirty = true;
    use->payer_id = payer_id;
    use->used_at = clock_shared_us();
    if (failure.len > 0)
        keep_failure(use, failure);
}

/* ---- the service ---- */

void connect_uses_init(struct connect_service *service)
{
    keyed_init(&service->uses, sizeof(struct use));
    list_init(&service->uses_young);
    list_init(&service->uses_sending);
    list_init(&service->uses_stored);
    timer_init(&service->uses_timer, service->loop, on_due);
    store_laters_init(&service->uses_sent, service->loop, service->config.pool, SENT_MAX);
}

void connect_uses_flush(struct connect_service *service)
{
    service->are_uses_hurried = true;
    send_uses(service);
}

bool connect_uses_active(const struct connect_service *service)
{
    return service->uses_sent.count > 0;
}

static void drop_all(struct connect_service *service, struct list *list)
{
    LIST_EACH(list, struct use, use, keyed.ring)
        drop(service, use);
}

void connect_uses_free(struct connect_service *service)
{
    timer_stop(&service->uses_timer);
    store_laters_deinit(&service->uses_sent);
    drop_all(service, &service->uses_young);
    drop_all(service, &service->uses_sending);
    drop_all(service, &service->uses_stored);
    keyed_deinit(&service->uses);
}
