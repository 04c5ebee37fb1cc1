/*
 * Jobs: the CPU-heavy parts of ops, on the threads of the pool. An account and the whole process
 * may each have only a few jobs under way, so that processors are left for the loop and the
 * database, memory is needed for a few jobs only, and an account with many jobs does not delay
 * those of others. Waiting jobs are started round robin by account.
 */
#include <string.h>
#include <unistd.h>

#include "loop/internal.h"
#include "loop/op.h"

enum {
    JOBS_MAX = 8, /* half of the pool; the rest is for lookups and handshakes */
    ACCOUNT_JOBS_MAX = 4,
};

/* The jobs of one account; exists while the account has any. */
struct job_line {
    struct line
        line; /* in the ring of lines whose turn it may be: jobs wait, and one more may run */
    size_t running;
};

void loop_jobs_init(struct loop_jobs *jobs)
{
    long processors = sysconf(_SC_NPROCESSORS_ONLN);
    size_t spare = processors > 2 ? (size_t)processors - 1 : 1;
    *jobs = (struct loop_jobs){.account_max = spare < ACCOUNT_JOBS_MAX ? spare : ACCOUNT_JOBS_MAX};
    lines_init(&jobs->lines, sizeof(struct job_line));
    list_init(&jobs->ring);
}

void loop_jobs_deinit(struct loop_jobs *jobs)
{
    ASSERT(jobs->running == 0);
    lines_deinit(&jobs->lines);
}

/* Called after each change of a line: adds it to the ring, removes it, or frees it. */
static void line_settle(struct loop_jobs *jobs, struct job_line *line)
{
    bool is_due = !list_is_empty(&line->line.waiting) && line->running < jobs->account_max;
    if (!is_due)
        list_unlink(&line->line.ring);
    else if (list_is_empty(&line->line.ring))
        list_push_back(&jobs->ring, &line->line.ring);
    if (line->running == 0 && list_is_empty(&line->line.waiting))
        lines_drop(&jobs->lines, &line->line);
}

/* ---- running ---- */

static void job_run(struct work *work)
{
    struct op_job *job = CONTAINER_OF(work, struct op_job, work);
    job->run(job->op);
}

/* Releases the op. The thread no longer accesses its arena. */
static void job_let_go(struct op *op)
{
    op->job = NULL;
    if (op->is_cancelled) /* op_cancel left the end of the op to the job */
        loop_task_queue(op->loop, &op->task);
    op_release(op);
}

static void start_waiting(struct loop *loop);

static void job_done(struct work *work)
{
    struct op_job *job = CONTAINER_OF(work, struct op_job, work);
    struct loop *loop = job->op->loop;
    struct job_line *line = job->line;
    line->running--;
    loop->jobs.running--;
    line_settle(&loop->jobs, line);
    job_let_go(job->op);
    start_waiting(loop);
}

static int job_start(struct loop *loop, struct op_job *job)
{
    int code = work_start(loop, &job->work);
    if (code != OK)
        return code;
    job->line->running++;
    loop->jobs.running++;
    return OK;
}

/* A job that cannot be started because memory is short runs on the loop instead. */
static void start_waiting(struct loop *loop)
{
    struct loop_jobs *jobs = &loop->jobs;
    while (jobs->running < JOBS_MAX && !list_is_empty(&jobs->ring)) {
        struct job_line *line = LIST_ITEM(list_pop_front(&jobs->ring), struct job_line, line.ring);
        struct list *first = list_pop_front(&line->line.waiting);
        struct op_job *job = LIST_ITEM(first, struct op_job, link);
        bool is_started = job_start(loop, job) == OK;
        line_settle(jobs, line);
        if (is_started)
            continue;
        job->run(job->op);
        job_let_go(job->op);
    }
}

/* ---- the interface ---- */

int op_offload(struct op *op, struct op_job *job, void (*run)(struct op *op), const char *what)
{
    struct loop_jobs *jobs = &op->loop->jobs;
    ASSERT(run && !op->job && !op->is_ended);
    *job = (struct op_job){.work = {.run = job_run, .done = job_done}, .op = op, .run = run};
    list_init(&job->link);
    job->line = lines_get(&jobs->lines, op->account_id); /* empty for the server itself */
    if (!job->line)
        return ERR_NOMEM;
    int code = OK;
    if (jobs->running < JOBS_MAX && job->line->running < jobs->account_max)
        code = job_start(op->loop, job);
    else
        list_push_back(&job->line->line.waiting, &job->link);
    line_settle(jobs, job->line);
    if (code != OK)
        return code;
    op->job = job;
    op_hold(op, what);
    return OK;
}

enum op_result op_run_job(struct op *op, struct op_job *job, bool is_large,
                          void (*run)(struct op *op), const char *what)
{
    if (is_large && op_offload(op, job, run, what) == OK)
        return OP_WAIT;
    run(op);
    return OP_NEXT;
}

void op_job_drop(struct op *op)
{
    struct op_job *job = op->job;
    if (!job || list_is_empty(&job->link))
        return;
    list_unlink(&job->link);
    line_settle(&op->loop->jobs, job->line);
    op->job = NULL;
    op_release(op);
}
