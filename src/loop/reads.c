/*
 * The order of reads. Poll only reports which streams are readable. They are read after it, in
 * turn: first those from apps, then clients, by account, and last those whose input is discarded.
 * The database's connections are few, and are read as soon as poll reports them.
 *
 * Each class has a ring of accounts with ready streams; streams without an account count as one
 * more. A visit reads one stream once; then it is the next account's turn. So a stream waits for
 * the earlier streams of its account, and never for streams that came later, however many they are.
 * Apps cannot use up the time of clients, nor clients the time of apps.
 *
 * Discarded input is read at some KB per millisecond. Such streams are not polled in between: the
 * faster their input is discarded, the faster their peers send more, which would keep the loop
 * busy.
 */
#include <string.h>

#include "loop/internal.h"

enum {
    DISCARDS_A_TURN = 4, /* reads of LOOP_DISCARD_BYTES each */
    DISCARD_REST_MS = 1,
};

static struct metric wait_metric = METRIC_INIT(
    "sluice_loop_read_wait_seconds",
    "How long a readable connection waited for its turn to be read, by kind: an app's, an "
    "account's, a stranger's (no account is known yet), or one whose input is discarded.",
    METRIC_HISTOGRAM);
static struct metric turns_metric =
    METRIC_INIT("sluice_loop_read_wait_turns_max",
                "The most turns of the loop that a readable connection has waited.", METRIC_GAUGE);

static const char *const kind_labels[READ_KINDS] = {"of=\"apps\"", "of=\"accounts\"",
                                                    "of=\"strangers\"", "of=\"discarded\""};

/* ---- ready streams, by account ---- */

/* If there is no memory for an entry, the account's streams join those without an account. */
static struct keyed *streams_of(struct loop_reads *reads, const struct loop_reader *reader)
{
    struct read_queue *queue = &reads->queues[reader->class];
    bool is_own = reader->class != READ_DISCARDED && !uuid_is_nil(reader->account);
    struct keyed *streams = is_own ? keyed_get(&queue->accounts, uuid_slice(&reader->account))
                                   : NULL;
    return streams ? streams : &queue->strangers;
}

static void reader_join(struct loop_reads *reads, struct loop_reader *reader)
{
    struct read_queue *queue = &reads->queues[reader->class];
    struct keyed *streams = streams_of(reads, reader);
    keyed_join(streams, &queue->ring, &reader->link);
    reader->streams = streams;
    if (reader->class == READ_DISCARDED && !timer_is_armed(&reads->discard_timer))
        timer_start_in_ms(&reads->discard_timer, DISCARD_REST_MS);
}

static void reader_part(struct loop_reads *reads, struct loop_reader *reader)
{
    struct read_queue *queue = &reads->queues[reader->class];
    struct keyed *streams = reader->streams;
    keyed_leave(streams, &reader->link);
    reader->streams = NULL;
    if (!list_is_empty(&streams->waiting))
        return;
    if (streams != &queue->strangers)
        keyed_drop(&queue->accounts, streams);
    if (reader->class == READ_DISCARDED)
        timer_stop(&reads->discard_timer);
}

/* ---- readers ---- */

void loop_reader_init(struct loop_reader *reader, enum read_class class,
                      void (*read)(struct loop_reader *reader))
{
    *reader = (struct loop_reader){.class = class, .read = read};
    list_init(&reader->link);
}

void loop_reader_ready(struct loop *loop, struct loop_reader *reader)
{
    loop_turn_begin(loop);
    if (reader->streams)
        return;
    reader->ready_ns = loop->turn_began_ns;
    reader->ready_turn = loop->stats.turns;
    reader_join(&loop->reads, reader);
}

void loop_reader_leave(struct loop *loop, struct loop_reader *reader)
{
    if (reader->streams)
        reader_part(&loop->reads, reader);
}

void loop_reader_move(struct loop *loop, struct loop_reader *reader, struct uuid account,
                      enum read_class class)
{
    bool was_ready = reader->streams != NULL;
    if (class == reader->class && uuid_eq(account, reader->account))
        return;
    loop_reader_leave(loop, reader);
    reader->class = class;
    reader->account = account;
    if (was_ready)
        reader_join(&loop->reads, reader);
}

bool loop_has_ready(const struct loop *loop)
{
    const struct read_queue *queues = loop->reads.queues;
    return !list_is_empty(&queues[READ_APPS].ring) || !list_is_empty(&queues[READ_CLIENTS].ring);
}

/* ---- reading ---- */

static enum read_kind read_kind_of(const struct loop_reader *reader)
{
    switch (reader->class) {
    case READ_APPS:
        return READ_KIND_APP;
    case READ_DISCARDED:
        return READ_KIND_DISCARDED;
    default:
        /* Only the ids of accounts contain a time. */
        return uuid_v7_wall_ms(reader->account) ? READ_KIND_ACCOUNT : READ_KIND_STRANGER;
    }
}

static void note_wait(struct loop *loop, const struct loop_reader *reader)
{
    struct loop_reads *reads = &loop->reads;
    enum read_kind kind = read_kind_of(reader);
    uint64_t turns = loop->stats.turns - reader->ready_turn;
    metric_observe_ns(reads->waits[kind], loop->turn_began_ns - reader->ready_ns);
    if (turns <= reads->turns_max[kind])
        return;
    reads->turns_max[kind] = turns;
    metric_set(reads->turns[kind], (double)turns);
}

static void read_next(struct loop *loop, struct read_queue *queue)
{
    struct keyed *streams = LIST_ITEM(queue->ring.next, struct keyed, ring);
    struct loop_reader *reader = LIST_ITEM(streams->waiting.next, struct loop_reader, link);
    /* The entry is moved before the read, which may end the stream and thereby free the account's
     * entry. */
    list_move_back(&queue->ring, &streams->ring);
    reader_part(&loop->reads, reader);
    note_wait(loop, reader);
    reader->read(reader);
}

/* At least one stream is read, so that every class makes progress. */
static void read_queue_until(struct loop *loop, enum read_class class, uint64_t until_ns)
{
    struct read_queue *queue = &loop->reads.queues[class];
    loop->reads.until_ns = until_ns;
    while (!list_is_empty(&queue->ring)) {
        read_next(loop, queue);
        if (loop_is_reading_over(loop))
            return;
    }
}

bool loop_is_reading_over(const struct loop *loop)
{
    return clock_mono_ns() >= loop->reads.until_ns;
}

void loop_read_ready(struct loop *loop)
{
    if (!loop_has_ready(loop))
        return;
    loop_enter(loop);
    uint64_t began_ns = clock_mono_ns();
    bool has_clients = !list_is_empty(&loop->reads.queues[READ_CLIENTS].ring);
    read_queue_until(loop, READ_APPS,
                     began_ns + (has_clients ? LOOP_READ_NS_MAX / 2 : LOOP_READ_NS_MAX));
    read_queue_until(loop, READ_CLIENTS, began_ns + LOOP_READ_NS_MAX);
}

/* Runs with the tasks, which come after all reads. */
static void on_discard(struct loop_task *task)
{
    struct loop *loop = CONTAINER_OF(task, struct loop, reads.discard_task);
    struct read_queue *queue = &loop->reads.queues[READ_DISCARDED];
    for (size_t i = 0; i < DISCARDS_A_TURN && !list_is_empty(&queue->ring); i++)
        read_next(loop, queue);
    if (!list_is_empty(&queue->ring))
        timer_start_in_ms(&loop->reads.discard_timer, DISCARD_REST_MS);
}

/* Queues a task that runs after poll and the reads, because timers run before both. */
static void on_discard_due(struct timer *timer)
{
    struct loop_reads *reads = CONTAINER_OF(timer, struct loop_reads, discard_timer);
    loop_task_queue_next_turn(timer->loop, &reads->discard_task);
}

/* ---- creation and removal ---- */

void loop_reads_init(struct loop *loop)
{
    struct loop_reads *reads = &loop->reads;
    loop_task_init(&reads->discard_task, on_discard);
    timer_init(&reads->discard_timer, loop, on_discard_due);
    for (size_t class = 0; class < READ_CLASSES; class ++) {
        struct read_queue *queue = &reads->queues[class];
        keyed_init(&queue->accounts, sizeof(struct keyed));
        list_init(&queue->ring);
        list_init(&queue->strangers.ring);
        list_init(&queue->strangers.waiting);
    }
    for (size_t kind = 0; kind < READ_KINDS; kind++) {
        slice label = slice_cstr(kind_labels[kind]);
        reads->waits[kind] = metric_series(&wait_metric, label);
        reads->turns[kind] = metric_series(&turns_metric, label);
    }
}

void loop_reads_deinit(struct loop_reads *reads)
{
    loop_task_cancel(&reads->discard_task);
    for (size_t class = 0; class < READ_CLASSES; class ++) {
        struct read_queue *queue = &reads->queues[class];
        ASSERT(list_is_empty(&queue->ring));
        keyed_deinit(&queue->accounts);
    }
}
