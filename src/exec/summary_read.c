/*
 * See summary_read.h. The text is in the arena of a separate op, which ends once the memory of the
 * last reader is freed, because readers answer directly from the text.
 */
#include "exec/summary_read.h"

#include "base/mem.h"
#include "json/scan.h"

enum {
    SUMMARY_BYTES_MAX = 256 * 1024 * 1024, /* the text and the part copied from it */
    KEY_FIXED_LEN = 64,                    /* account, execution, size, offset, form of links,
                                            * length of the select or view */
};

enum summary_step { SUMMARY_ASK, SUMMARY_READ, SUMMARY_FIT, SUMMARY_ANNOUNCE, SUMMARY_END };

struct exec_shared_summary {
    struct op op;
    struct exec_summaries *table;
    struct uuid account_id;
    struct call_fit wanted;
    size_t bytes; /* the size of the summary according to its row */
    struct budget_use use;
    struct budget_wait memory;
    struct pg_query query;
    struct op_job fitting;
    int status;
    slice summary, output;
    size_t refs;         /* readers whose memory is not freed yet, including those that wait */
    struct list waiting; /* exec_summary_read.link */
    slice key;           /* the key in the table; SLICE_NONE: no longer in the table */
    bool is_found, is_ready;
};

OP_OF(shared_of, exec_shared_summary)

static void leave_table(struct exec_shared_summary *shared)
{
    if (shared->key.ptr)
        (void)map_remove(&shared->table->map, shared->key);
    shared->key = SLICE_NONE;
}

/* ---- readers ---- */

static void wake(struct exec_summary_read *read)
{
    struct op *op = read->op;
    list_unlink(&read->link);
    loop_task_cancel(&read->task);
    read->op = NULL;
    op_release(op);
}

static void hand_out(const struct exec_shared_summary *shared, struct exec_summary_read *read)
{
    read->status = shared->status;
    read->is_found = shared->is_found;
    read->summary = shared->summary;
    read->output = shared->output;
}

/* A separate task, so that no read completes before exec_summary_read_begin has returned. */
static void on_task(struct loop_task *task)
{
    struct exec_summary_read *read = CONTAINER_OF(task, struct exec_summary_read, task);
    if (read->shared)
        hand_out(read->shared, read);
    wake(read);
}

/* The last reader ends the op: with a cancel if the text has not arrived yet, otherwise by
 * releasing the hold of step_announce, so that the text lives exactly as long as an answer may
 * point into it. */
static void unref(struct exec_shared_summary *shared)
{
    ASSERT(shared->refs > 0);
    if (--shared->refs > 0)
        return;
    leave_table(shared); /* a later reader must not find a text that is being freed */
    if (shared->is_ready)
        op_release(&shared->op);
    else
        op_cancel(&shared->op);
}

/* The reader's memory is freed. */
static void on_reader_freed(void *ctx)
{
    struct exec_summary_read *read = ctx;
    struct exec_shared_summary *shared = read->shared;
    read->shared = NULL;
    ASSERT(!read->op);
    if (shared)
        unref(shared);
}

void exec_summary_read_cancel(struct exec_summary_read *read)
{
    if (!read->op)
        return;
    read->status = ERR_CLOSED;
    wake(read);
}

/* ---- steps ---- */

/* Starts the query for the text, with memory for the text and for the part copied from it. */
static enum op_result step_ask(struct op *op)
{
    struct exec_shared_summary *shared = shared_of(op);
    size_t output_bytes = shared->wanted.bytes_max;
    if (output_bytes == 0 || output_bytes > shared->bytes)
        output_bytes = shared->bytes;
    return budget_wait_op(&shared->memory, op, &shared->use, shared->bytes + output_bytes,
                          BUDGET_NEW, BUDGET_WAIT_MS)
               ? OP_NEXT
               : OP_WAIT;
}

/* Running out of the memory budget is an answer, not a failure: ERR_BUSY goes to every reader,
 * and is announced like a text, since readers may still join until then. */
static enum op_result step_read(struct op *op)
{
    struct exec_shared_summary *shared = shared_of(op);
    if (!shared->memory.is_taken) {
        shared->status = ERR_BUSY;
        return op_jump(op, SUMMARY_ANNOUNCE);
    }
    store_execution_get_summary(shared->table->pool, &shared->query, op, shared->account_id,
                                shared->wanted.execution_id);
    return OP_WAIT;
}

static void fit(struct op *op)
{
    struct exec_shared_summary *shared = shared_of(op);
    shared->status = call_fit_summary(shared->summary, &shared->wanted, &op->arena,
                                      &shared->summary, &shared->output);
    if (shared->status == OK && !shared->output.ptr)
        shared->output = json_scan_get(shared->summary, SLICE("output"), &op->arena);
}

static enum op_result step_fit(struct op *op)
{
    struct exec_shared_summary *shared = shared_of(op);
    shared->status = store_text_result(&shared->query, &shared->summary);
    shared->is_found = shared->status == OK;
    if (!shared->is_found)
        return OP_NEXT;
    return op_run_job(op, &shared->fitting, true, fit, "a stored output to be cut");
}

static enum op_result step_announce(struct op *op)
{
    struct exec_shared_summary *shared = shared_of(op);
    shared->is_ready = true;
    budget_use_settle(&shared->use);
    ASSERT(shared->refs > 0); /* otherwise it was cancelled */
    op_hold(op, "the readers of a stored output");
    LIST_EACH(&shared->waiting, struct exec_summary_read, read, link) {
        hand_out(shared, read);
        wake(read);
    }
    return OP_WAIT;
}

static enum op_result step_end(struct op *op)
{
    (void)op;
    return OP_DONE;
}

static const struct op_step steps[] = {
    [SUMMARY_ASK] = {"ask", step_ask, 0},
    [SUMMARY_READ] = {"read", step_read, OP_TO(SUMMARY_ANNOUNCE)},
    [SUMMARY_FIT] = {"fit", step_fit, 0},
    [SUMMARY_ANNOUNCE] = {"announce", step_announce, 0},
    [SUMMARY_END] = {"end", step_end, 0},
};

static void on_cancel(struct op *op)
{
    budget_wait_stop(&shared_of(op)->memory);
}

static void on_end(struct op *op, enum op_end end)
{
    struct exec_shared_summary *shared = shared_of(op);
    (void)end;
    ASSERT(list_is_empty(&shared->waiting) && shared->refs == 0);
    leave_table(shared);
}

static void free_shared(struct op *op)
{
    budget_use_end(&shared_of(op)->use);
    mem_free(shared_of(op));
}

static const struct op_class shared_class = {
    .name = "summary",
    OP_STEPS(steps),
    .on_cancel = on_cancel,
    .on_end = on_end,
    .free = free_shared,
};

/* ---- lookup ---- */

static slice make_summary_key(struct arena *arena, struct uuid account_id,
                              const struct call_fit *wanted)
{
    slice source = wanted->select.ptr ? wanted->select : wanted->view;
    size_t len = KEY_FIXED_LEN + source.len + wanted->pointer.len;
    char *text = arena_alloc_text(arena, len);
    uint64_t form = (uint64_t)wanted->is_resource | (uint64_t)wanted->is_full << 1 |
                    (uint64_t)(wanted->select.ptr != NULL) << 2;
    uint64_t numbers[4] = {wanted->bytes_max, wanted->offset, form, source.len};
    if (!text)
        return SLICE_NONE;
    memcpy(text, account_id.bytes, 16);
    memcpy(text + 16, wanted->execution_id.bytes, 16);
    memcpy(text + 32, numbers, sizeof(numbers));
    if (source.len > 0)
        memcpy(text + KEY_FIXED_LEN, source.ptr, source.len);
    if (wanted->pointer.len > 0)
        memcpy(text + KEY_FIXED_LEN + source.len, wanted->pointer.ptr, wanted->pointer.len);
    return slice_of(text, len);
}

/* Points the texts of wanted into the key, which lives as long as the summary. */
static void borrow_from_key(struct call_fit *wanted, slice key)
{
    slice *source = wanted->select.ptr ? &wanted->select : &wanted->view;
    slice texts = slice_from(key, KEY_FIXED_LEN);
    wanted->pointer = slice_from(texts, source->len);
    if (source->ptr)
        *source = slice_first(texts, source->len);
    if (wanted->select.ptr)
        wanted->view = SLICE_NONE;
}

/* Returns NULL if out of memory, or if there are too many texts at a time. */
static struct exec_shared_summary *start_shared(struct exec_summaries *table,
                                                struct uuid account_id, struct uuid payer_id,
                                                const struct call_fit *wanted, size_t bytes,
                                                slice key)
{
    struct exec_shared_summary *shared = mem_zalloc(sizeof(*shared));
    if (!shared)
        return NULL;
    shared->table = table;
    shared->account_id = account_id;
    shared->wanted = *wanted;
    shared->bytes = bytes;
    list_init(&shared->waiting);
    op_start(&shared->op, &shared_class, table->loop, NULL, SUMMARY_BYTES_MAX);
    op_account_set(&shared->op, payer_id);
    if (table->work && budget_use_begin(&shared->use, &table->work->budget, payer_id) == OK)
        arena_count_in(&shared->op.arena, &shared->use);
    shared->key = arena_dup(&shared->op.arena, key);
    if (shared->key.ptr)
        borrow_from_key(&shared->wanted, shared->key);
    if (shared->key.ptr && map_put(&table->map, shared->key, shared, NULL) == OK)
        return shared;
    shared->key = SLICE_NONE;
    op_cancel(&shared->op);
    return NULL;
}

void exec_summary_read_begin(struct exec_summaries *table, struct exec_summary_read *read,
                             struct op *op, struct uuid account_id, struct uuid payer_id,
                             const struct call_fit *wanted, size_t bytes)
{
    ASSERT(!read->op && !uuid_is_nil(wanted->execution_id));
    if (read->shared) /* the reader still refers to the text of an earlier read */
        unref(read->shared);
    *read = (struct exec_summary_read){.status = ERR_NOMEM};
    list_init(&read->link);
    loop_task_init(&read->task, on_task);
    slice key = make_summary_key(&op->arena, account_id, wanted);
    struct exec_shared_summary *shared = key.ptr ? map_get(&table->map, key) : NULL;
    if (!shared && key.ptr)
        shared = start_shared(table, account_id, payer_id, wanted, bytes, key);
    if (!shared || !arena_on_free(&op->arena, on_reader_freed, read)) {
        if (shared && shared->refs == 0)
            op_cancel(&shared->op);
        shared = NULL;
    }
    op_hold(op, "a stored output");
    read->op = op;
    read->shared = shared;
    if (shared)
        shared->refs++;
    if (shared && !shared->is_ready)
        list_push_back(&shared->waiting, &read->link);
    else
        loop_task_queue(table->loop, &read->task);
}

void exec_summaries_init(struct exec_summaries *table, struct loop *loop, struct pg_pool *pool,
                         struct budget_queue *work, size_t count_max)
{
    table->loop = loop;
    table->pool = pool;
    table->work = work;
    map_init(&table->map, count_max);
}

void exec_summaries_deinit(struct exec_summaries *table)
{
    ASSERT(table->map.count == 0);
    map_deinit(&table->map);
}
