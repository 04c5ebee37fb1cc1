/*
 * The internals of struct loop, for the files of this room.
 */
#ifndef LOOP_INTERNAL_H
#define LOOP_INTERNAL_H

#include <uv.h>

#include "base/clock.h"
#include "base/id.h"
#include "base/keyed.h"
#include "base/metric.h"
#include "loop/loop.h"

enum {
    LOOP_READ_BYTES = 64 * 1024,
    LOOP_DISCARD_BYTES = 4 * 1024, /* bytes read at a time from a stream whose input is discarded */
    /* Maximum time for reading and accepting in one turn, however many sockets are ready. */
    LOOP_READ_NS_MAX = 500 * 1000,
    /* Maximum time for tasks in one turn, however many they are, including the time that hooks will
     * need for them (loop_reserve). I/O follows. A step that has begun may exceed the time. */
    LOOP_DRAIN_NS_MAX = 1000 * 1000,
};

/* The parts of a turn among which its CPU time is divided; reported for turns over the limit. */
enum loop_part { PART_EVENTS, PART_STEPS, PART_DATABASE, PART_REPLY, PART_LOG, PART_MEMORY, PARTS };

/* Contains a copy of armed_ns next to the pointer, so that sifting accesses only the heap's own
 * memory. */
struct timer_slot {
    uint64_t armed_ns;
    struct timer *timer;
};

/* job.c */
struct loop_jobs {
    struct keyed_table accounts; /* struct job_account, by id */
    struct list ring;
    size_t running, account_max;
};

/* entrance.c */
/* How a request entered: while no other account sent requests, at once although others did, or
 * after a wait for its account's turn. */
enum entered { ENTERED_ALONE, ENTERED_SHARED, ENTERED_HELD, ENTERED };

struct loop_entrance {
    struct loop *loop;
    struct keyed_table queues; /* struct entry_queue, by account */
    struct list ring;          /* the queues with waiting requests */
    struct list young;         /* struct op_entry.link, in order of their start */
    /* number of young and waiting requests together; number of waiting requests */
    size_t entries, waiting;
    struct loop_task task;
    struct timer timer;
    struct list quiet;        /* queues without entries */
    char last[UUID_TEXT_LEN]; /* the account of the last request */
    size_t last_len;
    uint64_t shared_until_ns;
    struct metric_series *series[ENTERED];
};

/* reads.c */
enum read_class { READ_APPS, READ_CLIENTS, READ_DISCARDED, READ_CLASSES };
/* For the metrics: clients are accounts or anonymous. */
enum read_kind {
    READ_KIND_APP,
    READ_KIND_ACCOUNT,
    READ_KIND_STRANGER,
    READ_KIND_DISCARDED,
    READ_KINDS
};

struct read_queue {
    /* Accounts with ready streams: struct keyed, by id. Each lists struct loop_reader.link in the
     * order in which poll reported the streams. */
    struct keyed_table accounts;
    struct keyed strangers;
    struct list ring; /* the accounts with ready streams */
};

struct loop_reads {
    struct read_queue queues[READ_CLASSES];
    struct loop_task discard_task;
    struct timer discard_timer;
    uint64_t until_ns; /* end of the time for reading of this class in this turn */
    uint64_t turns_max[READ_KINDS];
    struct metric_series *waits[READ_KINDS], *turns[READ_KINDS];
};

/* A stream that poll has reported as readable, until it is read. The struct is embedded in its
 * owner. */
struct loop_reader {
    struct list link;
    struct keyed *streams; /* the ready streams of its account; NULL: the stream is not ready */
    uint64_t ready_ns, ready_turn;
    struct uuid account; /* nil: without an account */
    enum read_class class;
    void (*read)(struct loop_reader *reader);
};

struct loop {
    uv_loop_t uv;
    uv_prepare_t prepare;
    uv_check_t check;
    uv_idle_t idle; /* active only while tasks are left over: poll must not block then */
    uv_timer_t uv_timer;

    struct list tasks, tasks_next;
    struct list hooks[LOOP_PHASES];
    struct list garbage;
    struct list ops;
    size_t op_count;
    size_t work_count; /* on pool threads */
    struct loop_jobs jobs;
    struct loop_entrance entrance;
    struct loop_reads reads;

    struct timer_slot *slots;
    size_t slot_count, slot_cap;
    struct timer *spilled;
    uint64_t timer_armed_ns; /* the time to which uv_timer is set; UINT64_MAX: not set */
    uint64_t firing_ns;      /* not 0 while timers fire: new timers must be due later than this */

    uint64_t now_ns, turn_began_ns, cpu_mark_ns;
    bool is_in_turn, is_dirty, is_stopped;
    bool is_one_turn; /* loop_turn runs the loop */

    struct loop_stats stats;
    uint64_t turn_cpu_ns_limit;        /* 0: none */
    const char *worst_op, *worst_step; /* the most expensive step of this turn */
    uint64_t worst_ns, step_began_ns;
    unsigned uncharged;      /* steps since time was last charged */
    uint64_t drain_until_ns; /* end of the time for tasks in this turn; 0: it has not drained yet */
    uint64_t reserved_ns;    /* time that hooks need at the end of this turn */
    uint64_t parts_ns[PARTS], part_began_ns;
    unsigned events, tasks_run; /* in this turn */
    struct metric_series *lag_series, *turn_series;

    uv_thread_t pool_starter;
    bool has_pool_starter;

    char *read_buf; /* LOOP_READ_BYTES, shared by all streams */
};

/* ---- turn.c: what a turn takes ---- */

/* Called first after poll, before anything is read. */
void loop_turn_begin(struct loop *loop);
/* Every libuv callback of this room begins with this call: the first one of a turn reads the
 * clock. */
void loop_enter(struct loop *loop);
/* Called after a step: the time since the previous step is charged to it. */
void loop_charge_step(struct loop *loop, const char *op_name, const char *step_name);
/* Whether the time for tasks of this turn is used up: the rest runs in the next turn. */
bool loop_is_drain_over(const struct loop *loop);
/* Charges the time since the last lap to this part of the turn. */
void loop_lap(struct loop *loop, enum loop_part part);
void loop_turn_end(struct loop *loop);
/* Reads the environment. */
void loop_turn_init(struct loop *loop);

/* Starts libuv's pool on a separate thread. If the first work made its threads, the loop would
 * lose a turn of some milliseconds. */
void loop_pool_start(struct loop *loop);
void loop_pool_started(struct loop *loop);

int loop_err_from_uv(int status);

void loop_timers_init(struct loop *loop);
void loop_timers_deinit(struct loop *loop);

void loop_jobs_init(struct loop_jobs *jobs);
void loop_jobs_deinit(struct loop_jobs *jobs);

void loop_reads_init(struct loop *loop);
void loop_reads_deinit(struct loop_reads *reads);
/* read(reader) is called when it is the reader's turn, once for each loop_reader_ready. */
void loop_reader_init(struct loop_reader *reader, enum read_class class,
                      void (*read)(struct loop_reader *reader));
/* Call it when poll has reported the reader, or when the reader has read a part and continues. May
 * be called any number of times. */
void loop_reader_ready(struct loop *loop, struct loop_reader *reader);
/* Stops reading the reader; does nothing if it is not ready. */
void loop_reader_leave(struct loop *loop, struct loop_reader *reader);
/* Changes the reader's account and class. */
void loop_reader_move(struct loop *loop, struct loop_reader *reader, struct uuid account,
                      enum read_class class);
/* Called after poll: reads the readers whose turn it is. The others keep their position until
 * the next turn. */
void loop_read_ready(struct loop *loop);
/* Whether some ready streams were not read; streams with discarded input do not count. */
bool loop_has_ready(const struct loop *loop);
/* For read(): whether the time of the reader's class is used up; it is then read again in the next
 * turn. */
bool loop_is_reading_over(const struct loop *loop);

void loop_entrance_init(struct loop *loop);
void loop_entrance_deinit(struct loop *loop);

/* A libuv handle in a separate block, freed once libuv has released it. */
void loop_handle_close(uv_handle_t *handle);

static inline struct loop *loop_of(const uv_loop_t *uv)
{
    return (struct loop *)uv->data;
}

#endif
