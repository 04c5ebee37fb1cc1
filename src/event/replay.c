/*
 * Sends events again; see replay.h. Rows are found a page at a time; those of a page are changed in
 * one batch.
 */
#include "event/replay.h"

#include "event/internal.h"

enum {
    REPLAY_ARENA_BYTES_MAX = 1024 * 1024,
    ROOM_MS = 50, /* other requests have all places for the time of a statement */
    ROOM_WAITS_MAX = 200,
};

enum replay_step { REPLAY_FIND, REPLAY_FOUND, REPLAY_NEXT };

OP_OF(replay_of, event_replay)

struct replaying {
    struct store_later later;
    struct event_replay *replay; /* outlives this op, which is its child */
    struct due_ref ref;
};

/* The row may have been changed since it was found: the number of its attempts is the fence. */
static void send_replaying(struct store_later *later)
{
    const struct replaying *it = CONTAINER_OF(later, struct replaying, later);
    store_delivery_replay(later->laters->pool, &later->query, &later->op, &it->ref);
}

/* The row is sent at once by this process, or by any that finds it due. */
static bool on_replaying(struct store_later *later)
{
    const struct replaying *it = CONTAINER_OF(later, struct replaying, later);
    int status = store_hit_result(&later->query);
    if (status == OK) {
        it->replay->count++;
        event_outbox_take(it->replay->service, &it->ref, false);
    } else if (status != ERR_NOTFOUND) { /* another request was first */
        it->replay->status = status;
    }
    return false;
}

static const struct store_later_class replaying_class = {
    STORE_LATER(store_later_once, "replaying", struct replaying),
    .send = send_replaying,
    .on_sent = on_replaying,
};

static enum op_result step_find(struct op *op)
{
    struct event_replay *replay = replay_of(op);
    arena_reset(&op->arena);
    store_delivery_replays(replay->service->config.pool, &replay->query, op, &replay->in);
    return OP_WAIT;
}

static bool may_wait(struct event_replay *replay)
{
    return !replay->service->outbox.is_stopped && replay->waits++ < ROOM_WAITS_MAX;
}

/* A row for which there is no room ends the page, and is found again. If other requests have all
 * places, the page is found again later. */
static enum op_result step_found(struct op *op)
{
    struct event_replay *replay = replay_of(op);
    struct due_ref *refs;
    size_t count;
    replay->status = store_due_scan_result(&replay->query, &refs, &count);
    if (replay->status != OK || count == 0)
        return OP_DONE;
    for (size_t i = 0; i < count && replay->found < EVENT_REPLAYS_MAX; i++) {
        struct replaying *it =
            store_later(&replay->service->outbox.replays, &replaying_class, op, 0);
        if (!it && i == 0 && may_wait(replay)) {
            op_sleep(op, &replay->timer, ROOM_MS, "room to send events again");
            return op_wait_then(op, REPLAY_FIND);
        }
        if (!it) {
            replay->status = i == 0 ? ERR_BUSY : OK;
            break;
        }
        replay->waits = 0;
        it->replay = replay;
        it->ref = refs[i];
        replay->in.after = refs[i].id;
        replay->found++;
    }
    return op->holds > 0 ? OP_WAIT : OP_NEXT;
}

/* The next page begins after the last row for which there was room. */
static enum op_result step_next(struct op *op)
{
    struct event_replay *replay = replay_of(op);
    if (replay->status != OK || replay->found >= EVENT_REPLAYS_MAX)
        return OP_DONE;
    return op_jump(op, REPLAY_FIND);
}

static const struct op_step steps[] = {
    [REPLAY_FIND] = {"find", step_find, 0},
    [REPLAY_FOUND] = {"found", step_found, OP_TO(REPLAY_FIND)},
    [REPLAY_NEXT] = {"next", step_next, OP_TO(REPLAY_FIND)},
};

static const struct op_class replay_class = {.name = "event_replay", OP_STEPS(steps)};

void event_replay_start(struct event_service *service, struct event_replay *replay,
                        struct uuid webhook_id, struct uuid since, struct uuid until,
                        struct op *parent)
{
    *replay = (struct event_replay){
        .service = service,
        .in = {.webhook_id = webhook_id, .since = since, .until = until},
    };
    op_start(&replay->op, &replay_class, parent->loop, parent, REPLAY_ARENA_BYTES_MAX);
}
