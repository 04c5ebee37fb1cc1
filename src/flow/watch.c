/*
 * Watches: long polls and event streams. A change in this process notifies the flow's watches at
 * once. A run in this process also gives them the view, which is made once for all of them, and
 * only if a watch wants it. Changes by other nodes are found by polling the revisions of all
 * watched flows once a second: one query for each flow, which pg combines into one statement.
 * Without a watch there is no timer.
 *
 * An account as a whole is watched under the nil flow id. Its revision is a stamp, which only the
 * poll reads: one row of the database, however many pages are open.
 *
 * A watch may be notified late, or more than once of one change, but is always notified of the last
 * change. Each notification has its revision, so the caller can skip known ones.
 */
#include "base/mem.h"
#include "flow/internal.h"

enum {
    WATCHED_FLOWS_MAX = 100000,
    POLL_EVERY_MS = 1000,
    POLL_FLOWS_MAX = 1000, /* flows per poll; the next poll continues after them */
    POLL_ARENA_BYTES_MAX = 8 * 1024 * 1024,
    STAMP_BITS = 54, /* number of bits of the database's stamp */
};

/* The account is part of the key: a watch with the id of another account's flow finds no flow. The
 * nil flow_id is the account as a whole. */
struct watch_key {
    struct uuid account_id, flow_id;
};

/* A flow with watches. After the last watch is removed it stays until the next poll, so that
 * flow_watch_remove needs no service and a long poll that watches again finds it. */
struct watched {
    struct keyed keyed;  /* by watch_key; in `all`, those with the oldest poll first */
    struct list watches; /* struct flow_watch.link */
    int64_t stamp;       /* for accounts only; 0 before the first poll */
    /* number of touches, which are the bits of an account's stamp above STAMP_BITS */
    uint8_t touches;
};

struct flow_watches {
    struct loop *loop;
    struct pg_pool *pool;
    struct keyed_table by_flow; /* struct watched */
    struct list all;
    struct timer timer;
    struct rev_poll *poll; /* the poll under way */
    bool is_stopped;
};

struct rev_poll_item {
    struct watch_key key;
    struct pg_query query;
};

struct rev_poll {
    struct op op;
    /* NULL if the watches were freed before the pool had drained the queries */
    struct flow_watches *watches;
    struct rev_poll_item *items;
    size_t count;
};

static slice bytes_of(const struct watch_key *key)
{
    return slice_of(key, sizeof(*key));
}

/* ---- notifications ---- */

/* One change of a flow. */
struct news {
    int64_t rev;
    bool is_settled;                /* the flow waits or has ended, or its state is unknown */
    const struct flow_whole *whole; /* NULL: only the revision is known here */
    const struct flow_template *tmpl;
    struct loop *loop;
    struct flow_view *view; /* made for the first watch that wants it */
};

/* Gives the watch the view if it wants one. An old view is dropped in any case, since its revision
 * is earlier than the notification's. */
static void give_view(struct flow_watch *watch, struct news *news)
{
    flow_view_unref(watch->view);
    watch->view = NULL;
    if (!watch->wants_view || !news->whole)
        return;
    if (!news->view)
        news->view = flow_view_new(news->loop, news->whole, news->tmpl);
    if (news->view)
        watch->view = flow_view_ref(news->view);
}

/* Watches that already know a polled change are skipped. */
static void notify_watches(struct watched *watched, struct news *news)
{
    LIST_EACH(&watched->watches, struct flow_watch, watch, link) {
        bool is_account = uuid_is_nil(watch->flow_id);
        bool is_known = is_account ? watch->rev == news->rev : watch->rev >= news->rev;
        if (is_known || (watch->is_until_settled && !news->is_settled))
            continue;
        give_view(watch, news);
        watch->news_rev = news->rev;
        watch->on_change(watch);
    }
}

static void notify_flow(struct flow_watches *watches, const struct watch_key *key,
                        struct news *news)
{
    struct watched *watched = keyed_find(&watches->by_flow, bytes_of(key));
    if (watched)
        notify_watches(watched, news);
    flow_view_unref(news->view);
}

void flow_watch_notify(struct flow_service *service, const struct flow *flow,
                       const struct flow_whole *whole, const struct flow_template *tmpl)
{
    ASSERT(flow->rev > 0 && (tmpl || !whole));
    struct news news = {.rev = flow->rev,
                        .is_settled = flow->status != FLOW_RUNNING,
                        .whole = whole,
                        .tmpl = tmpl,
                        .loop = service->config.loop};
    const struct watch_key key = {flow->account_id, flow->id};

    flow_view_cache_drop(&service->views, flow);
    notify_flow(service->watches, &key, &news);
}

void flow_watch_wake_all(struct flow_service *service)
{
    struct news news = {.rev = INT64_MAX, .is_settled = true};
    LIST_EACH(&service->watches->all, struct watched, watched, keyed.ring)
        notify_watches(watched, &news);
}

struct flow_view *flow_watch_take_view(struct flow_watch *watch)
{
    struct flow_view *view = watch->view;
    watch->view = NULL;
    return view;
}

/* ---- polling ---- */

/* Picks the flows with the oldest poll, so that with more than POLL_FLOWS_MAX all get their
 * turn. They are moved to the end in a second loop: the first loop walks the same list, and
 * would meet them again. */
static enum op_result step_poll(struct op *op)
{
    struct rev_poll *poll = CONTAINER_OF(op, struct rev_poll, op);
    struct flow_watches *watches = poll->watches;
    size_t room = watches->by_flow.map.count;
    room = room < POLL_FLOWS_MAX ? room : POLL_FLOWS_MAX;
    poll->items = ARENA_ARRAY(&op->arena, struct rev_poll_item, room + 1);
    if (!poll->items)
        return OP_FAIL;
    LIST_EACH(&watches->all, struct watched, watched, keyed.ring) {
        if (list_is_empty(&watched->watches)) {
            keyed_drop(&watches->by_flow, &watched->keyed);
            continue;
        }
        if (poll->count == room)
            break;
        memcpy(&poll->items[poll->count++].key, watched->keyed.key, sizeof(struct watch_key));
    }
    for (size_t i = 0; i < poll->count; i++) {
        struct rev_poll_item *item = &poll->items[i];
        struct watched *watched = keyed_find(&watches->by_flow, bytes_of(&item->key));
        list_move_back(&watches->all, &watched->keyed.ring);
        if (uuid_is_nil(item->key.flow_id))
            store_flow_stamp(watches->pool, &item->query, op, item->key.account_id);
        else
            store_flow_rev(watches->pool, &item->query, op, item->key.account_id,
                           item->key.flow_id);
    }
    return poll->count > 0 ? OP_WAIT : OP_DONE;
}

/* The account may have lost its last watch, and its entry, since the poll began. */
static void notify_account(struct flow_watches *watches, const struct watch_key *key,
                           struct news *news)
{
    struct watched *watched = keyed_find(&watches->by_flow, bytes_of(key));
    if (!watched)
        return;
    news->rev |= (int64_t)watched->touches << STAMP_BITS;
    watched->stamp = news->rev;
    notify_watches(watched, news);
}

/* The flow may have lost its last watch by now, which is harmless for notify_flow. */
static enum op_result step_polled(struct op *op)
{
    struct rev_poll *poll = CONTAINER_OF(op, struct rev_poll, op);
    for (size_t i = 0; i < poll->count && poll->watches; i++) {
        struct news news = {.is_settled = true};
        int status = store_rev_result(&poll->items[i].query, &news.rev);
        if (uuid_is_nil(poll->items[i].key.flow_id)) {
            if (status == OK)
                notify_account(poll->watches, &poll->items[i].key, &news);
            continue;
        }
        if (status == ERR_NOTFOUND)
            /* the flow was deleted after its retention: all its watches end */
            news.rev = INT64_MAX;
        if (status == OK || status == ERR_NOTFOUND) /* otherwise the next poll tries again */
            notify_flow(poll->watches, &poll->items[i].key, &news);
    }
    return OP_DONE;
}

/* The next poll is a second after this one has ended, not after it began, so a slow database is
 * not polled faster than it answers. */
static void on_end(struct op *op, enum op_end end)
{
    struct rev_poll *poll = CONTAINER_OF(op, struct rev_poll, op);
    struct flow_watches *watches = poll->watches;
    (void)end;
    if (!watches)
        return;
    watches->poll = NULL;
    if (!watches->is_stopped && !list_is_empty(&watches->all))
        timer_start_in_ms(&watches->timer, POLL_EVERY_MS);
}

static const struct op_step steps[] = {{"poll", step_poll, 0}, {"polled", step_polled, 0}};

static const struct op_class poll_class = {
    .name = "flow_watch",
    .is_background = true,
    OP_STEPS(steps),
    .on_end = on_end,
    .free = op_free_struct,
};

static void on_due(struct timer *timer)
{
    struct flow_watches *watches = CONTAINER_OF(timer, struct flow_watches, timer);
    struct rev_poll *poll = mem_zalloc(sizeof(*poll));
    if (!poll) {
        timer_start_in_ms(&watches->timer, POLL_EVERY_MS);
        return;
    }
    poll->watches = watches;
    watches->poll = poll;
    op_start(&poll->op, &poll_class, watches->loop, NULL, POLL_ARENA_BYTES_MAX);
}

/* ---- watches ---- */

/* Returns NULL if out of memory, or if there are too many entries. */
static struct watched *find_or_make(struct flow_watches *watches, const struct flow_watch *watch)
{
    const struct watch_key key = {watch->account_id, watch->flow_id};
    struct watched *watched = keyed_find(&watches->by_flow, bytes_of(&key));
    if (watched || watches->by_flow.map.count >= WATCHED_FLOWS_MAX)
        return watched;
    watched = keyed_get(&watches->by_flow, bytes_of(&key));
    if (!watched)
        return NULL;
    list_init(&watched->watches);
    list_push_back(&watches->all, &watched->keyed.ring);
    return watched;
}

void flow_watch_add(struct flow_service *service, struct flow_watch *watch)
{
    struct flow_watches *watches = service->watches;
    ASSERT(watch->on_change && !watch->view);
    struct watched *watched = find_or_make(watches, watch);
    list_init(&watch->link);
    if (!watched) /* out of memory; the request ends with its own time-out */
        return;
    list_push_back(&watched->watches, &watch->link);
    if (!watches->is_stopped && !watches->poll && !timer_is_armed(&watches->timer))
        timer_start_in_ms(&watches->timer, POLL_EVERY_MS);
}

void flow_watch_remove(struct flow_watch *watch)
{
    if (watch->link.next)
        list_unlink(&watch->link);
    flow_view_unref(watch->view);
    watch->view = NULL;
}

static struct watched *find_account(const struct flow_service *service, struct uuid account_id)
{
    const struct watch_key key = {.account_id = account_id};
    return keyed_find(&service->watches->by_flow, bytes_of(&key));
}

int64_t flow_watch_stamp(const struct flow_service *service, struct uuid account_id)
{
    const struct watched *watched = find_account(service, account_id);
    return watched ? watched->stamp : 0;
}

void flow_watch_touch(struct flow_service *service, struct uuid account_id)
{
    struct watched *watched = find_account(service, account_id);
    if (watched)
        watched->touches++;
}

/* ---- life ---- */

struct flow_watches *flow_watches_new(struct flow_service *service)
{
    struct flow_watches *watches = mem_zalloc(sizeof(*watches));
    if (!watches)
        return NULL;
    watches->loop = service->config.loop;
    watches->pool = service->config.pool;
    keyed_init(&watches->by_flow, sizeof(struct watched));
    list_init(&watches->all);
    timer_init(&watches->timer, watches->loop, on_due);
    return watches;
}

void flow_watches_stop(struct flow_watches *watches)
{
    watches->is_stopped = true;
    timer_stop(&watches->timer);
    if (watches->poll)
        op_cancel(&watches->poll->op);
}

/* The pool may still drain the queries of a poll that was cancelled. */
void flow_watches_free(struct flow_watches *watches)
{
    if (!watches)
        return;
    flow_watches_stop(watches);
    if (watches->poll)
        watches->poll->watches = NULL;
    LIST_EACH(&watches->all, struct watched, watched, keyed.ring) {
        ASSERT(list_is_empty(&watched->watches));
        keyed_drop(&watches->by_flow, &watched->keyed);
    }
    keyed_deinit(&watches->by_flow);
    mem_free(watches);
}
