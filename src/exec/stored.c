/*
 * See stored.h. The text is in the arena of a separate op, which ends once the memory of the last
 * reader is freed: a reader answers from the text itself.
 */
#include "exec/stored.h"

#include "base/mem.h"
#include "json/scan.h"

enum {
    STORED_BYTES_MAX = 256 * 1024 * 1024, /* the text and the part copied from it */
    KEY_FIXED_LEN = 56,                   /* account, execution, size, offset, form of links */
};

enum stored_step { STORED_ASK, STORED_READ, STORED_FIT, STORED_ANNOUNCE, STORED_END };

struct exec_stored {
    struct op op;
    struct exec_stored_table *table;
    struct uuid account_id;
    struct call_fit wanted;
    size_t bytes; /* the size of the summary, as its row says */
    struct budget_use use;
    struct budget_wait memory;
    struct pg_query query;
    struct op_job fitting;
    int status;
    slice summary, output;
    size_t refs;         /* readers with memory, including those that wait */
    struct list waiting; /* exec_stored_read.link */
    slice key;           /* in the table; SLICE_NONE: not in it any more */
    bool is_found, is_ready;
};

OP_OF(stored_of, exec_stored)

static void leave_table(struct exec_stored *stored)
{
    if (stored->key.ptr)
        (void)map_remove(&stored->table->map, stored->key);
    stored->key = SLICE_NONE;
}

/* ---- readers ---- */

static void wake(struct exec_stored_read *read)
{
    struct op *op = read->op;
    list_unlink(&read->link);
    loop_task_cancel(&read->task);
    read->op = NULL;
    op_release(op);
}

static void hand_out(const struct exec_stored *stored, struct exec_stored_read *read)
{
    read->status = stored->status;
    read->is_found = stored->is_found;
    read->summary = stored->summary;
    read->output = stored->output;
}

/* Nothing completes before exec_stored_begin has returned. */
static void on_task(struct loop_task *task)
{
    struct exec_stored_read *read = CONTAINER_OF(task, struct exec_stored_read, task);
    if (read->stored)
        hand_out(read->stored, read);
    wake(read);
}

/* The last reader ends the op: with a cancel if the text has not arrived yet, otherwise by
 * releasing the hold of step_announce, so that the text lives exactly as long as an answer may
 * point into it. */
static void unref(struct exec_stored *stored)
{
    ASSERT(stored->refs > 0);
    if (--stored->refs > 0)
        return;
    leave_table(stored); /* a later reader must not find a text that is being freed */
    if (stored->is_ready)
        op_release(&stored->op);
    else
        op_cancel(&stored->op);
}

/* The reader's memory is freed. */
static void on_reader_freed(void *ctx)
{
    struct exec_stored_read *read = ctx;
    struct exec_stored *stored = read->stored;
    read->stored = NULL;
    ASSERT(!read->op);
    if (stored)
        unref(stored);
}

void exec_stored_cancel(struct exec_stored_read *read)
{
    if (!read->op)
        return;
    read->status = ERR_CLOSED;
    wake(read);
}

/* ---- steps ---- */

/* The text, and the part copied from it. */
static enum op_result step_ask(struct op *op)
{
    struct exec_stored *stored = stored_of(op);
    size_t part = stored->wanted.bytes_max;
    if (part == 0 || part > stored->bytes)
        part = stored->bytes;
    return budget_wait_op(&stored->memory, op, &stored->use, stored->bytes + part, BUDGET_NEW,
                          BUDGET_WAIT_MS)
               ? OP_NEXT
               : OP_WAIT;
}

/* Running out of the memory budget is an answer, not a failure: ERR_BUSY goes to every reader,
 * and is announced like a text, since readers may still join until then. */
static enum op_result step_read(struct op *op)
{
    struct exec_stored *stored = stored_of(op);
    if (!stored->memory.is_taken) {
        stored->status = ERR_BUSY;
        return op_jump(op, STORED_ANNOUNCE);
    }
    store_execution_get_summary(stored->table->pool, &stored->query, op, stored->account_id,
                                stored->wanted.execution_id);
    return OP_WAIT;
}

static void fit(struct op *op)
{
    struct exec_stored *stored = stored_of(op);
    stored->status = call_fit_summary(stored->summary, &stored->wanted, &op->arena,
                                      &stored->summary, &stored->output);
    if (stored->status == OK && !stored->output.ptr)
        stored->output = json_scan_get(stored->summary, SLICE("output"), &op->arena);
}

static enum op_result step_fit(struct op *op)
{
    struct exec_stored *stored = stored_of(op);
    stored->status = store_text_result(&stored->query, &stored->summary);
    stored->is_found = stored->status == OK;
    if (!stored->is_found)
        return OP_NEXT;
    return op_run_job(op, &stored->fitting, true, fit, "a stored output to be cut");
}

static enum op_result step_announce(struct op *op)
{
    struct exec_stored *stored = stored_of(op);
    stored->is_ready = true;
    budget_use_settle(&stored->use);
    ASSERT(stored->refs > 0); /* otherwise it was cancelled */
    op_hold(op, "the readers of a stored output");
    LIST_EACH(&stored->waiting, struct exec_stored_read, read, link) {
        hand_out(stored, read);
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
    [STORED_ASK] = {"ask", step_ask, 0},
    [STORED_READ] = {"read", step_read, OP_TO(STORED_ANNOUNCE)},
    [STORED_FIT] = {"fit", step_fit, 0},
    [STORED_ANNOUNCE] = {"announce", step_announce, 0},
    [STORED_END] = {"end", step_end, 0},
};

static void on_cancel(struct op *op)
{
    budget_wait_stop(&stored_of(op)->memory);
}

static void on_end(struct op *op, enum op_end end)
{
    struct exec_stored *stored = stored_of(op);
    (void)end;
    ASSERT(list_is_empty(&stored->waiting) && stored->refs == 0);
    leave_table(stored);
}

static void free_stored(struct op *op)
{
    budget_use_end(&stored_of(op)->use);
    mem_free(stored_of(op));
}

static const struct op_class stored_class = {
    .name = "stored",
    OP_STEPS(steps),
    .on_cancel = on_cancel,
    .on_end = on_end,
    .free = free_stored,
};

/* ---- lookup ---- */

static slice make_stored_key(struct arena *arena, struct uuid account_id,
                             const struct call_fit *wanted)
{
    size_t len = KEY_FIXED_LEN + wanted->pointer.len;
    char *text = arena_alloc_text(arena, len);
    uint64_t numbers[3] = {wanted->bytes_max, wanted->offset, wanted->is_resource};
    if (!text)
        return SLICE_NONE;
    memcpy(text, account_id.bytes, 16);
    memcpy(text + 16, wanted->execution_id.bytes, 16);
    memcpy(text + 32, numbers, sizeof(numbers));
    if (wanted->pointer.len > 0)
        memcpy(text + KEY_FIXED_LEN, wanted->pointer.ptr, wanted->pointer.len);
    return slice_of(text, len);
}

/* NULL: out of memory, or too many texts at a time. */
static struct exec_stored *start_stored(struct exec_stored_table *table, struct uuid account_id,
                                        const struct call_fit *wanted, size_t bytes, slice key)
{
    struct exec_stored *stored = mem_zalloc(sizeof(*stored));
    if (!stored)
        return NULL;
    stored->table = table;
    stored->account_id = account_id;
    stored->wanted = *wanted;
    stored->bytes = bytes;
    list_init(&stored->waiting);
    op_start(&stored->op, &stored_class, table->loop, NULL, STORED_BYTES_MAX);
    if (table->work && budget_use_begin(&stored->use, &table->work->budget, account_id) == OK)
        arena_count_in(&stored->op.arena, &stored->use);
    stored->key = arena_dup(&stored->op.arena, key);
    stored->wanted.pointer = slice_from(stored->key, KEY_FIXED_LEN);
    if (stored->key.ptr && map_put(&table->map, stored->key, stored, NULL) == OK)
        return stored;
    stored->key = SLICE_NONE;
    op_cancel(&stored->op);
    return NULL;
}

void exec_stored_begin(struct exec_stored_table *table, struct exec_stored_read *read,
                       struct op *op, struct uuid account_id, const struct call_fit *wanted,
                       size_t bytes)
{
    ASSERT(!read->op && !uuid_is_nil(wanted->execution_id));
    if (read->stored) /* from an earlier reading */
        unref(read->stored);
    *read = (struct exec_stored_read){.status = ERR_NOMEM};
    list_init(&read->link);
    loop_task_init(&read->task, on_task);
    slice key = make_stored_key(&op->arena, account_id, wanted);
    struct exec_stored *stored = key.ptr ? map_get(&table->map, key) : NULL;
    if (!stored && key.ptr)
        stored = start_stored(table, account_id, wanted, bytes, key);
    if (!stored || !arena_on_free(&op->arena, on_reader_freed, read)) {
        if (stored && stored->refs == 0)
            op_cancel(&stored->op);
        stored = NULL;
    }
    op_hold(op, "a stored output");
    read->op = op;
    read->stored = stored;
    if (stored)
        stored->refs++;
    if (stored && !stored->is_ready)
        list_push_back(&stored->waiting, &read->link);
    else
        loop_task_queue(table->loop, &read->task);
}

void exec_stored_init(struct exec_stored_table *table, struct loop *loop, struct pg_pool *pool,
                      struct budget_queue *work, size_t count_max)
{
    table->loop = loop;
    table->pool = pool;
    table->work = work;
    map_init(&table->map, count_max);
}

void exec_stored_deinit(struct exec_stored_table *table)
{
    ASSERT(table->map.count == 0);
    map_deinit(&table->map);
}
