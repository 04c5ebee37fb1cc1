/*
 * The entrance: while several accounts ask for something, each begins as many requests in a turn
 * of the loop as the others may. Who asks for more waits in a line of its account, so that turns
 * stay short and what one account has too much of delays nobody else. An account alone passes, and
 * pays nothing.
 */
#include <string.h>

#include "base/id.h"
#include "base/mem.h"
#include "loop/internal.h"
#include "loop/op.h"

enum {
    ENTRIES_A_TURN = 8,
    ALONE_AFTER_NS = 20 * 1000 * 1000, /* without a change of accounts */
};

/* There while the account's requests wait, or began in the last turn. */
struct entry_line {
    char account[UUID_TEXT_LEN];
    size_t account_len;
    size_t begun;        /* in this turn */
    struct list entries; /* that wait, oldest first */
    struct list ring;
};

static slice account_of(const struct entry_line *line)
{
    return slice_of(line->account, line->account_len);
}

static struct entry_line *line_get(struct loop_entrance *entrance, slice account)
{
    struct entry_line *line = map_get(&entrance->lines, account);
    if (line)
        return line;
    line = mem_zalloc(sizeof(*line));
    if (!line)
        return NULL;
    memcpy(line->account, account.ptr, account.len);
    line->account_len = account.len;
    list_init(&line->entries);
    list_init(&line->ring);
    if (map_put(&entrance->lines, account_of(line), line, NULL) != OK) {
        mem_free(line);
        return NULL;
    }
    list_push_back(&entrance->ring, &line->ring);
    return line;
}

static void line_free(struct loop_entrance *entrance, struct entry_line *line)
{
    list_unlink(&line->ring);
    (void)map_remove(&entrance->lines, account_of(line));
    mem_free(line);
}

static void line_let_in(struct entry_line *line)
{
    struct list *link;
    line->begun = 0;
    while (line->begun < ENTRIES_A_TURN && (link = list_pop_front(&line->entries))) {
        struct op *op = LIST_ITEM(link, struct op_entry, link)->op;
        line->begun++;
        op->entry = NULL;
        op_release(op);
    }
}

/* Once a turn, while there are lines. */
static void on_turn(struct loop_task *task)
{
    struct loop_entrance *entrance = CONTAINER_OF(task, struct loop_entrance, task);
    struct list passed = LIST_INIT(passed);
    struct list *link;
    while ((link = list_pop_front(&entrance->ring))) {
        struct entry_line *line = LIST_ITEM(link, struct entry_line, ring);
        list_push_back(&passed, link);
        line_let_in(line);
        if (line->begun == 0)
            line_free(entrance, line);
    }
    list_append_all(&entrance->ring, &passed);
    if (!list_is_empty(&entrance->ring))
        loop_task_queue_next_turn(entrance->loop, task);
}

void loop_entrance_init(struct loop *loop)
{
    struct loop_entrance *entrance = &loop->entrance;
    *entrance = (struct loop_entrance){.loop = loop};
    map_init(&entrance->lines, SIZE_MAX);
    list_init(&entrance->ring);
    loop_task_init(&entrance->task, on_turn);
}

void loop_entrance_deinit(struct loop *loop)
{
    struct loop_entrance *entrance = &loop->entrance;
    LIST_EACH(&entrance->ring, link)
    {
        struct entry_line *line = LIST_ITEM(link, struct entry_line, ring);
        ASSERT(list_is_empty(&line->entries));
        line_free(entrance, line);
    }
    loop_task_cancel(&entrance->task);
    map_deinit(&entrance->lines);
}

/* Whether somebody else asked lately. */
static bool is_shared(struct loop_entrance *entrance, slice account, uint64_t now_ns)
{
    if (!slice_eq(account, slice_of(entrance->last, entrance->last_len))) {
        bool is_first = entrance->last_len == 0;
        memcpy(entrance->last, account.ptr, account.len);
        entrance->last_len = account.len;
        if (!is_first)
            entrance->shared_until_ns = now_ns + ALONE_AFTER_NS;
    }
    return now_ns < entrance->shared_until_ns || entrance->lines.count > 0;
}

/* ---- doors ---- */

enum op_result op_enter(struct op *op, struct op_entry *entry)
{
    struct loop_entrance *entrance = &op->loop->entrance;
    slice account = op->account_id;
    ASSERT(account.len > 0 && account.len <= UUID_TEXT_LEN && !op->entry);
    if (!is_shared(entrance, account, loop_now_ns(op->loop)))
        return OP_NEXT;
    struct entry_line *line = line_get(entrance, account);
    if (!line)
        return OP_NEXT;
    loop_task_queue_next_turn(op->loop, &entrance->task);
    if (line->begun < ENTRIES_A_TURN && list_is_empty(&line->entries)) {
        line->begun++;
        return OP_NEXT;
    }
    *entry = (struct op_entry){.op = op};
    list_init(&entry->link);
    list_push_back(&line->entries, &entry->link);
    op->entry = entry;
    op_hold(op, "its account's turn");
    return OP_WAIT;
}

void op_entry_drop(struct op *op)
{
    struct op_entry *entry = op->entry;
    if (!entry)
        return;
    list_unlink(&entry->link);
    op->entry = NULL;
    op_release(op);
}
