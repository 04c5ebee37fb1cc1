/*
 * Jobs: the CPU-heavy parts of ops, on the threads of the pool. An account and the whole process
 * may each have only a few jobs under way, so that processors are left for the loop and the
 * database, memory is needed for a few jobs only, and an account with many jobs does not delay the
 * jobs of others. Waiting jobs are started round robin by account.
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
struct job_account {
    /* in the ring while some of its jobs wait and one more may run */
    struct keyed keyed;
    size_t running;
};

void loop_jobs_init(struct loop_jobs *jobs)
{
    long processors = sysconf(_SC_NPROCESSORS_ONLN);
    size_t spare = processors > 2 ? (size_t)processors - 1 : 1;
    *jobs = (struct loop_jobs){.account_max = spare < ACCOUNT_JOBS_MAX ? spare : ACCOUNT_JOBS_MAX};
    keyed_init(&jobs->accounts, sizeof(struct job_account));
    list_init(&jobs->ring);
}

void loop_jobs_deinit(struct loop_jobs *jobs)
{
    ASSERT(jobs->running == 0);
    keyed_deinit(&jobs->accounts);
}

/* Called after each change of an account's jobs: adds the account to the ring, removes it, or frees
 * it. */
static void account_settle(struct loop_jobs *jobs, struct job_account *account)
{
    bool is_due = !list_is_empty(&account->keyed.waiting) && account->running < jobs->account_max;
    if (!is_due)
        list_unlink(&account->keyed.ring);
    else if (list_is_empty(&account->keyed.ring))
        list_push_back(&jobs->ring, &account->keyed.ring);
    if (account->running == 0 && list_is_empty(&account->keyed.waiting))
        keyed_drop(&jobs->accounts, &account->keyed);
}

/* ---- running ---- */

static void job_run(struct work *work)
{
    struct op_job *job = CONTAINER_OF(work, struct op_job, work);
    job->run(job->op);
}

/* Releases the op, once the thread no longer accesses its arena. */
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
    struct job_account *account = job->account;
    account->running--;
    loop->jobs.running--;
    account_settle(&loop->jobs, account);
    job_let_go(job->op);
    start_waiting(loop);
}

static int job_start(struct loop *loop, struct op_job *job)
{
    int code = work_start(loop, &job->work);
    if (code != OK)
        return code;
    job->account->running++;
    loop->jobs.running++;
    return OK;
}

/* A job that cannot be started because memory is short runs on the loop instead. */
static void start_waiting(struct loop *loop)
{
    struct loop_jobs *jobs = &loop->jobs;
    while (jobs->running < JOBS_MAX && !list_is_empty(&jobs->ring)) {
        struct job_account *account =
            LIST_ITEM(list_pop_front(&jobs->ring), struct job_account, keyed.ring);
        struct list *first = list_pop_front(&account->keyed.waiting);
        struct op_job *job = LIST_ITEM(first, struct op_job, link);
        bool is_started = job_start(loop, job) == OK;
        account_settle(jobs, account);
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
    /* the id is empty for jobs of the server itself */
    job->account = keyed_get(&jobs->accounts, op->account_id);
    if (!job->account)
        return ERR_NOMEM;
    int code = OK;
    if (jobs->running < JOBS_MAX && job->account->running < jobs->account_max)
        code = job_start(op->loop, job);
    else
        list_push_back(&job->account->keyed.waiting, &job->link);
    account_settle(jobs, job->account);
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
    account_settle(&op->loop->jobs, job->account);
    op->job = NULL;
    op_release(op);
}
