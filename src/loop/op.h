/*
 * op: the only way to write a long sequence of steps (src/README.md "Ops"). A struct with an arena,
 * a static table of steps in reading order, and a count of holds. One driver, one run queue;
 * completion callbacks store a result and wake the op, they never run a step.
 *
 *   struct exec { struct op op; ... };
 *   static enum op_result step_find_action(struct op *op) { ... return OP_NEXT; }
 *   static const struct op_step steps[] = {
 *       [FIND_ACTION] = {"find_action", step_find_action, OP_TO(ANSWER)},
 *       ...
 *   };
 *   static const struct op_class exec_class = {.name = "exec", .steps = steps, ...};
 *
 * After a step the op continues with the next step in the table, or with a step that its line of
 * the table names, so the table shows every way through the op.
 *
 * Rules, asserted: the table names every jump; OP_WAIT only while something holds the op; a start
 * of I/O takes a hold and never completes before it returns; on_end runs exactly once; memory is
 * freed at the bottom of the turn, once the op has ended, the last hold is released and its parent,
 * if any, has run since.
 */
#ifndef LOOP_OP_H
#define LOOP_OP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/id.h"
#include "base/list.h"
#include "base/log.h"
#include "loop/loop.h"

struct op;
struct op_timer;

/* An op's wait for something outside the loop, such as a query, in whose struct it is embedded.
 * op_wait_begin begins it, op_cancel cuts it. */
struct op_wait {
    struct op *op;
    struct list link;                  /* in op->waits */
    void (*cut)(struct op_wait *wait); /* ends the wait now, or lets it run to its end without a
                                        * result */
};

enum op_result {
    OP_NEXT, /* continue with the following step at once */
    /* continue with the following step (or that of op_wait_then) once the holds are released */
    OP_WAIT,
    OP_JUMP, /* continue with the step that op_jump named at once */
    /* continue with the class's stop step at once: the outcome is decided, the rest is skipped */
    OP_STOP,
    OP_DONE, /* end well */
    OP_FAIL, /* end with a failure; the struct around the op has the reason */
};

enum op_end { OP_ENDED_DONE, OP_ENDED_FAILED, OP_ENDED_CANCELLED };

/* A step of a table, as a bit of op_step.jumps. */
#define OP_TO(step) (UINT64_C(1) << (step))
enum { OP_STEPS_MAX = 64 };

typedef enum op_result op_step_fn(struct op *op);

struct op_step {
    const char *name;
    op_step_fn *run;
    uint64_t jumps; /* the steps it may jump to: OP_TO(A) | OP_TO(B) */
};

struct op_class {
    const char *name;
    const struct op_step *steps;
    size_t step_count; /* after the last step OP_NEXT means OP_DONE */
    size_t stop;       /* step that OP_STOP jumps to; 0: no step of this class returns it */
    /* runs repeatedly without a request, so its steps are logged at level trace */
    bool is_background;
    bool is_attended; /* a client waits for its end and prefers an immediate refusal to a wait */
    /* Aborts what is in flight (http_call_cancel ...), except queries and sleeps, which
     * op_cancel has aborted; may be NULL. Called at most once. */
    void (*on_cancel)(struct op *op);
    /* Called exactly once, on the loop, after the last step; after a cancel there may still be
     * holds. */
    void (*on_end)(struct op *op, enum op_end end);
    /* Frees the struct around the op (whose arena is already freed); op_free_struct if there is
     * nothing else to do; NULL if another owner frees its memory. */
    void (*free)(struct op *op);
};

#define OP_STEPS(table) .steps = (table), .step_count = ARRAY_LEN(table)

/* Defines `struct type *name(struct op *op)`: the struct around an op. */
#define OP_OF(name, type)                          \
    static inline struct type *name(struct op *op) \
    {                                              \
        return CONTAINER_OF(op, struct type, op);  \
    }

struct op {
    const struct op_class *class;
    struct loop *loop;
    struct arena arena;
    struct op *parent; /* the parent's hold is released after this op's on_end; NULL: no parent */
    uint16_t step, step_next;
    uint16_t holds;
    uint32_t children; /* number of child ops whose memory is not freed */
    bool is_cancelled, is_ended;
    bool is_background, is_attended; /* set by its class or its parent */
    bool is_kept;                    /* this op has ended, and its parent has not run since then */
    /* the results of ended children stay until this op has run once more */
    bool is_keeping;
    struct list kept, kept_link; /* ended children; this op's link in that list of its parent */
    const char *waits_for;       /* the name of the last hold */
    uint64_t started_ns;
    struct loop_task task; /* its link in the run queue */
    /* in the list of all live ops of the loop, so that a stuck op can be printed */
    struct list all_link;
    struct loop_garbage garbage;
    struct list waits;      /* struct op_wait.link, aborted by op_cancel */
    struct op_timer *sleep; /* the current sleep, aborted by op_cancel */
    struct op_job *job;     /* a job that waits for a pool thread, or runs on one */
    struct op_entry *entry; /* set while the op waits at the entrance or is counted there */
    /* added to each line of op_log; borrowed, live as long as the op */
    slice request_id, account_id;
};

/* Starts an op. The first step runs at the next drain, never inside this call. parent (may be
 * NULL) gets a hold named after class->name, released when this op ends. The parent's memory
 * outlives this op's, which may therefore be embedded in it; this op's arena is charged to the
 * same use as the parent's (arena_count_in). Results that this op leaves in its own arena live
 * until the parent has run next, and then to the bottom of that turn. */
void op_start(struct op *op, const struct op_class *class, struct loop *loop, struct op *parent,
              size_t arena_bytes_max);
/* Call it from a step that is about to wait: the memory of ended children is kept until the op
 * has run once more. */
void op_keep_children(struct op *op);
/* Sets account_id: the account that pays, in whose turn the op's queries are sent. It is copied
 * into the op's arena. The ops below it that start later have it, too. */
void op_account_set(struct op *op, struct uuid account_id);
/* Adds a hold; `what` names it for the log ("pg execution_insert") and is constant text. */
void op_hold(struct op *op, const char *what);
/* Releases a hold; the op is queued when none is left. Allowed after the end, too. */
void op_release(struct op *op);
/* Adds a hold that op_cancel cuts. cut is called at most once, from op_cancel; op_wait_end must
 * follow in any case, then or later. */
void op_wait_begin(struct op *op, struct op_wait *wait, const char *what,
                   void (*cut)(struct op_wait *wait));
void op_wait_end(struct op_wait *wait);
/* For a step's return statement. step is an index in the table; the line of the current step must
 * name it. */
enum op_result op_jump(struct op *op, size_t step) MUST_CHECK;
/* Waits like OP_WAIT, and continues with that step. */
enum op_result op_wait_then(struct op *op, size_t step) MUST_CHECK;
/* May be called at any time, any number of times; frees nothing. on_cancel runs at once, on_end
 * at the next drain. Before the start (of a zeroed op) and after the end it does nothing. */
void op_cancel(struct op *op);
/* For op_class.free, if the struct begins with its op and was allocated by base/mem.h. */
void op_free_struct(struct op *op);
/* Whether the op was started and has not ended. */
bool op_is_active(const struct op *op);
/* Takes a hold until delay_ms have passed, or until the op is cancelled. One sleep at a time;
 * the caller provides the timer, inside the op's struct. */
struct op_timer {
    struct timer timer;
    struct op *op; /* NULL when idle */
};
void op_sleep(struct op *op, struct op_timer *timer, uint64_t delay_ms, const char *what);
/* Ends a sleep early and releases the hold. Does nothing if the op does not sleep. */
void op_sleep_stop(struct op_timer *timer);

/* The names of two queues: for requests without an account, and for load balancers' probes. */
#define OP_STRANGERS SLICE("strangers")
#define OP_PROBES    SLICE("probes")

/* Called when a request begins. Returns OP_NEXT if it may start, or OP_WAIT if it has to wait
 * because others send requests, too (loop/entrance.c). It waits in the queue of op->account_id, or
 * in the given queue if that id is empty. entry is inside the op's struct. */
struct op_entry {
    struct op *op;
    struct entry_queue *queue;
    uint64_t began_ns; /* 0: it waits */
    struct list link;
};
enum op_result op_enter(struct op *op, struct op_entry *entry, slice queue) MUST_CHECK;
/* Reports the size of the reply to the op's request. After a large reply its account begins fewer
 * requests in the following turns, while other accounts send requests. */
void op_weigh(const struct op *op, size_t reply_bytes);
/* For op_cancel and the op's end: the op no longer waits at the entrance, and is no longer
 * counted. */
void op_leave_entrance(struct op *op);

/* A step's heavy part, run on a pool thread so that no turn takes long. It is inside the op's
 * struct. */
struct op_job {
    struct work work;
    struct op *op;
    void (*run)(struct op *op);
    struct job_account *account;
    struct list link; /* while it waits */
};
/* Takes a hold until run(op) has returned on a pool thread; the caller then returns OP_WAIT. The
 * job runs when it is the turn of the op's account, which may run only a few at a time
 * (loop/job.c). run may access the op's arena and anything else that only this op accesses; it may
 * not log, count, draw random numbers or call into the loop. If the op is cancelled during the job,
 * its end (on_end) follows after the job. If the result is not OK, nothing was started, and the
 * caller may call run itself. */
int op_offload(struct op *op, struct op_job *job, void (*run)(struct op *op),
               const char *what) MUST_CHECK;
/* Calls run, on a pool thread if is_large; then the result is OP_WAIT. Otherwise, or if no thread
 * is available, run is called at once and the result is OP_NEXT. */
enum op_result op_run_job(struct op *op, struct op_job *job, bool is_large,
                          void (*run)(struct op *op), const char *what);

/* For op_cancel: a job that still waits never runs. */
void op_job_drop(struct op *op);

/* Prints all live ops: class, step, age, waits_for. For debugging by signal, and for failed drains.
 * */
void op_print_all(struct loop *loop);
size_t op_count(const struct loop *loop);
/* Returns the current step's name; "(end)" after the last. */
const char *op_step_name(const struct op *op);

#ifdef SLUICE_TEST_BUILD
/* For tests that count steps: if it is not NULL, it is called for each step before the step runs,
 * and for each jump when it is returned. op_on_step may cancel the op; the step then does not run.
 */
extern void (*op_on_step)(struct op *op);
extern void (*op_on_jump)(const struct op *op, size_t to);
#endif

/* Returns the level of log lines that report the steps of an op. */
static inline enum log_level op_log_level(const struct op *op)
{
    return op->is_background ? LOG_TRACE : LOG_DEBUG;
}

#define op_log(op_, level, msg, ...)                                                        \
    log_event(level, msg, LOG_STR("request_id", (op_)->request_id),                         \
              LOG_STR("account_id", (op_)->account_id), LOG_CSTR("op", (op_)->class->name), \
              LOG_CSTR("step", op_step_name(op_)), __VA_ARGS__)

#endif
