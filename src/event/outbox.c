/*
 * What is sent when; see outbox.h. A row comes from the statement that wrote it, from a timer or
 * scan (due/due.h), or after the object's event before it. Limits of an endpoint, an account and
 * the process keep the number of messages under way small. Rows above them wait here, and those
 * above that are put off in the database (store_delivery_claim).
 */
#include "event/outbox.h"

#include "base/mem.h"
#include "event/internal.h"

enum {
    LANE_SENDING_MAX = 8,
    ACCOUNT_SENDING_MAX = 16,
    SENDING_MAX = 64,
    LANE_WAITING_MAX = 100,
    WAITING_MAX = 4000,
    LANES_WAITING_MAX = 20000,
    PUTTING_OFF_MAX = 500, /* one statement has all of them */
    LATE_MAX = 20000,
    NEWS_MAX = 256,
};

static void fill_row_key(const struct due_ref *ref, uint8_t key[2 * sizeof(struct uuid)])
{
    memcpy(key, &ref->id, sizeof(ref->id));
    memcpy(key + sizeof(ref->id), &ref->webhook_id, sizeof(ref->webhook_id));
}

static slice key_of(const uint8_t *key)
{
    return slice_of((const char *)key, 2 * sizeof(struct uuid));
}

/* ---- room ---- */

static size_t count_of_account(const struct event_outbox *outbox, struct uuid payer_id)
{
    size_t count = 0;
    LIST_EACH(&outbox->sending, struct event_row, row, link)
        count += uuid_eq(row->lane->payer_id, payer_id);
    return count;
}

static bool can_send(const struct event_outbox *outbox, const struct event_lane *lane)
{
    return outbox->sending_count < SENDING_MAX && lane->sending_count < LANE_SENDING_MAX &&
           count_of_account(outbox, lane->payer_id) < ACCOUNT_SENDING_MAX;
}

static bool is_unused(const struct event_lane *lane)
{
    return lane->sending_count == 0 && lane->putting_off_count == 0 && lane->waiting_count == 0 &&
           !lane->is_reading;
}

static void drop_row(struct event_service *service, struct event_row *row)
{
    struct event_lane *lane = row->lane;
    (void)map_remove(&service->outbox.known, key_of(row->key));
    if (is_unused(lane))
        keyed_drop(&service->outbox.lanes, &lane->keyed);
    mem_free(row);
}

static void leave_sending(struct event_outbox *outbox, struct event_row *row)
{
    list_unlink(&row->link);
    if (row->is_full) {
        row->lane->putting_off_count--;
        outbox->putting_off_count--;
    } else {
        row->lane->sending_count--;
        outbox->sending_count--;
    }
}

/* Rows that are put off keep their lane, but count against no limit of those that are sent. */
static void begin_row(struct event_service *service, struct event_row *row)
{
    struct event_outbox *outbox = &service->outbox;
    if (row->is_full) {
        outbox->putting_off_count++;
    } else {
        row->lane->sending_count++;
        outbox->sending_count++;
    }
    list_push_back(row->is_full ? &outbox->putting_off : &outbox->sending, &row->link);
    if (event_deliver_start(service, row))
        return;
    leave_sending(outbox, row); /* out of memory: the next scan finds the row */
    drop_row(service, row);
}

/* Starts the first row of each lane that may send, until none may. */
static void serve(struct event_service *service)
{
    struct event_outbox *outbox = &service->outbox;
    bool has_begun = !outbox->is_stopped;
    while (has_begun && outbox->sending_count < SENDING_MAX) {
        has_begun = false;
        LIST_EACH(&outbox->ring, struct event_lane, lane, keyed.ring) {
            if (!can_send(outbox, lane))
                continue;
            struct event_row *row = LIST_ITEM(lane->keyed.waiting.next, struct event_row, link);
            keyed_leave(&lane->keyed, &row->link);
            lane->waiting_count--;
            outbox->waiting_count--;
            /* in turn: else the first lanes would get each place that becomes free */
            if (lane->waiting_count > 0)
                list_move_back(&outbox->ring, &lane->keyed.ring);
            begin_row(service, row);
            has_begun = true;
        }
    }
}

/* Rows to be put off are taken even while others are, a statement's number at a time: else those of
 * a busy endpoint would have to be put off before the timers fire rows of others. */
static void put_off_more(struct event_service *service)
{
    struct event_outbox *outbox = &service->outbox;
    while (!list_is_empty(&outbox->late) && outbox->putting_off_count < PUTTING_OFF_MAX) {
        struct event_row *row = LIST_ITEM(outbox->late.next, struct event_row, link);
        list_unlink(&row->link);
        outbox->late_count--;
        begin_row(service, row);
    }
}

static void join_late(struct event_service *service, struct event_row *row)
{
    row->is_full = true;
    row->lane->putting_off_count++;
    service->outbox.late_count++;
    list_push_back(&service->outbox.late, &row->link);
    put_off_more(service);
}

/* The first row of a lane may wait also if others have all of WAITING_MAX: else busy endpoints
 * would keep the events of all others out. */
static bool can_wait(const struct event_outbox *outbox, const struct event_lane *lane)
{
    size_t max = lane->waiting_count == 0 ? LANES_WAITING_MAX : WAITING_MAX;
    return lane->waiting_count < LANE_WAITING_MAX && outbox->waiting_count < max;
}

/* The event is put off, or left to the next scan. */
static void note_behind(struct event_lane *lane, struct uuid event_id)
{
    if (!lane->is_behind || uuid_cmp(event_id, lane->behind_from) < 0)
        lane->behind_from = event_id;
    lane->is_behind = true;
}

void event_outbox_take(struct event_service *service, const struct due_ref *ref, bool is_next)
{
    struct event_outbox *outbox = &service->outbox;
    uint8_t key[2 * sizeof(struct uuid)];
    fill_row_key(ref, key);
    if (outbox->is_stopped || map_get(&outbox->known, key_of(key)))
        return;
    struct event_lane *lane = keyed_get(&outbox->lanes, uuid_slice(&ref->webhook_id));
    struct event_row *row = lane ? mem_zalloc(sizeof(*row)) : NULL;
    if (!row) {
        if (lane && is_unused(lane))
            keyed_drop(&outbox->lanes, &lane->keyed);
        return;
    }
    *row = (struct event_row){.ref = *ref, .is_next = is_next, .lane = lane};
    memcpy(row->key, key, sizeof(key));
    list_init(&row->link);
    lane->payer_id = uuid_or(ref->parent_id, ref->account_id);
    if (map_put(&outbox->known, key_of(row->key), row, NULL) != OK) {
        drop_row(service, row);
    } else if (lane->waiting_count == 0 && can_send(outbox, lane)) {
        begin_row(service, row);
    } else if (can_wait(outbox, lane)) {
        keyed_join(&lane->keyed, &outbox->ring, &row->link);
        lane->waiting_count++;
        outbox->waiting_count++;
    } else if (outbox->late_count < LATE_MAX) {
        note_behind(lane, ref->id);
        join_late(service, row);
    } else {
        note_behind(lane, ref->id);
        drop_row(service, row); /* the next scan finds it */
    }
}

/* ---- the next rows of an endpoint ---- */

struct more {
    struct store_later later;
    struct delivery_more in;
};

static struct event_service *service_of_later(const struct store_later *later)
{
    return CONTAINER_OF(later->laters, struct event_service, outbox.news);
}

static struct event_lane *lane_of(const struct more *more)
{
    struct event_lane *lane =
        keyed_find(&service_of_later(&more->later)->outbox.lanes, uuid_slice(&more->in.webhook_id));
    ASSERT(lane && lane->is_reading);
    return lane;
}

static void send_more(struct store_later *later)
{
    store_delivery_more(later->laters->pool, &later->query, &later->op,
                        &CONTAINER_OF(later, struct more, later)->in);
}

/* The rows need not be due: they were put off for lack of room alone. One that may still not be
 * sent, because of an earlier event of its object, is put off again. */
static bool on_more(struct store_later *later)
{
    struct more *more = CONTAINER_OF(later, struct more, later);
    struct event_service *service = service_of_later(later);
    struct event_lane *lane = lane_of(more);
    struct due_ref *refs;
    size_t count;
    if (store_due_scan_result(&later->query, &refs, &count) != OK) {
        note_behind(lane, more->in.since);
        return false;
    }
    if (count == DELIVERY_MORE_MAX)
        note_behind(lane, refs[count - 1].id);
    for (size_t i = 0; i < count; i++) {
        if (!can_wait(&service->outbox, lane)) {
            note_behind(lane, refs[i].id);
            break;
        }
        event_outbox_take(service, &refs[i], true);
    }
    return false;
}

static void on_more_end(struct store_later *later, enum op_end end)
{
    struct event_lane *lane = lane_of(CONTAINER_OF(later, struct more, later));
    (void)end;
    lane->is_reading = false;
    if (is_unused(lane))
        keyed_drop(&service_of_later(later)->outbox.lanes, &lane->keyed);
}

static const struct store_later_class more_class = {
    STORE_LATER(store_later_once, "event_more", struct more),
    .send = send_more,
    .on_sent = on_more,
    .on_end = on_more_end,
};

/* A burst of events is put off, since no endpoint may hold all places. If its endpoint accepts them
 * faster than they come back, they are read by the endpoint, the oldest first: scans would find
 * only as many at a time as may wait. One that does not accept them gets them when they are due. */
static void read_more(struct event_service *service, struct event_lane *lane)
{
    struct event_outbox *outbox = &service->outbox;
    bool is_wanted = lane->is_behind && lane->is_well && !lane->is_reading &&
                     lane->putting_off_count == 0 &&
                     lane->waiting_count <= LANE_WAITING_MAX - DELIVERY_MORE_MAX &&
                     can_wait(outbox, lane) && !outbox->is_stopped;
    struct more *more = is_wanted ? store_later(&outbox->news, &more_class, NULL, 0) : NULL;
    if (!more)
        return;
    more->in = (struct delivery_more){.since = lane->behind_from};
    memcpy(&more->in.webhook_id, lane->keyed.key, sizeof(more->in.webhook_id));
    lane->is_reading = true;
    lane->is_behind = false;
}

void event_outbox_ended(struct event_service *service, struct event_row *row)
{
    leave_sending(&service->outbox, row);
    if (row->is_sent)
        row->lane->is_well = row->is_accepted;
    if (row->is_held) {
        row->lane->is_well = false;
        note_behind(row->lane, row->ref.id);
    }
    if (row->has_healed) /* what was put off by the pause */
        note_behind(row->lane, (struct uuid){{0}});
    read_more(service, row->lane);
    drop_row(service, row);
    serve(service);
    put_off_more(service);
}

/* ---- timers ---- */

/* There is always room: a row that can neither be sent, wait nor be put off is dropped, so that the
 * rows of busy endpoints are out of the way of the others'. */
static bool can_take_row(void *owner)
{
    return !((const struct event_service *)owner)->outbox.is_stopped;
}

static bool is_moving(void *owner, const struct due_ref *ref)
{
    const struct event_outbox *outbox = &((const struct event_service *)owner)->outbox;
    uint8_t key[2 * sizeof(struct uuid)];
    fill_row_key(ref, key);
    return map_get(&outbox->known, key_of(key)) != NULL;
}

static void fire(void *owner, const struct due_ref *ref)
{
    event_outbox_take(owner, ref, false);
}

static const struct due_class due_class = {can_take_row, is_moving, fire};

/* ---- news ---- */

struct news {
    struct store_later later;
    struct uuid account_id, event_id;
};

static void send_news(struct store_later *later)
{
    const struct news *news = CONTAINER_OF(later, struct news, later);
    store_delivery_of_event(later->laters->pool, &later->query, &later->op, news->account_id,
                            news->event_id);
}

static bool on_news(struct store_later *later)
{
    struct event_service *service = service_of_later(later);
    struct due_ref *refs;
    size_t count;
    if (store_due_scan_result(&later->query, &refs, &count) != OK)
        return false; /* the next scan finds them */
    for (size_t i = 0; i < count; i++)
        event_outbox_take(service, &refs[i], false);
    return false;
}

static const struct store_later_class news_class = {
    STORE_LATER(store_later_once, "event_news", struct news),
    .send = send_news,
    .on_sent = on_news,
};

/* Which endpoints hear of it is read, since a row of the statement's result is one event. */
void event_written(struct event_service *service, struct uuid account_id, struct uuid event_id)
{
    if (!service || service->outbox.is_stopped || !service->config.due || uuid_is_nil(event_id))
        return;
    struct news *news = store_later(&service->outbox.news, &news_class, NULL, 0);
    if (!news)
        return; /* the next scan finds it */
    news->account_id = account_id;
    news->event_id = event_id;
}

/* ---- life ---- */

void event_outbox_init(struct event_service *service)
{
    struct event_outbox *outbox = &service->outbox;
    keyed_init(&outbox->lanes, sizeof(struct event_lane));
    map_init(&outbox->known, SIZE_MAX);
    list_init(&outbox->ring);
    list_init(&outbox->sending);
    list_init(&outbox->putting_off);
    list_init(&outbox->late);
    store_laters_init(&outbox->news, service->config.loop, service->config.pool, NEWS_MAX);
    store_laters_init(&outbox->replays, service->config.loop, service->config.pool,
                      DELIVERY_REPLAYS_MAX);
    if (service->config.due)
        due_own(service->config.due, DUE_DELIVERY, &due_class, service);
}

void event_service_drain(struct event_service *service)
{
    struct event_outbox *outbox = &service->outbox;
    if (outbox->is_stopped)
        return;
    outbox->is_stopped = true;
    LIST_EACH(&outbox->late, struct event_row, late, link) {
        list_unlink(&late->link);
        late->lane->putting_off_count--;
        drop_row(service, late);
    }
    outbox->late_count = 0;
    LIST_EACH(&outbox->ring, struct event_lane, lane, keyed.ring) {
        struct list *waiting = &lane->keyed.waiting;
        while (!list_is_empty(waiting)) {
            struct event_row *row = LIST_ITEM(waiting->next, struct event_row, link);
            bool is_last = waiting->next == waiting->prev;
            keyed_leave(&lane->keyed, &row->link);
            lane->waiting_count--;
            outbox->waiting_count--;
            drop_row(service, row);
            if (is_last)
                break; /* the lane may no longer exist */
        }
    }
}

size_t event_service_active(const struct event_service *service)
{
    return service->outbox.sending_count;
}

static void cancel_all(struct list *rows)
{
    LIST_EACH(rows, struct event_row, row, link)
        op_cancel(row->op);
}

void event_service_cancel_all(struct event_service *service)
{
    event_service_drain(service);
    store_laters_cancel(&service->outbox.news);
    store_laters_cancel(&service->outbox.replays);
    cancel_all(&service->outbox.sending);
    cancel_all(&service->outbox.putting_off);
}

void event_outbox_deinit(struct event_service *service)
{
    struct event_outbox *outbox = &service->outbox;
    ASSERT(outbox->sending_count == 0 && outbox->putting_off_count == 0 &&
           outbox->news.count == 0 && outbox->replays.count == 0);
    keyed_deinit(&outbox->lanes);
    map_deinit(&outbox->known);
}
