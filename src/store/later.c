/*
 * Runs statements in the background; see later.h.
 */
#include "store/later.h"

#include "base/mem.h"

enum { ARENA_BYTES_MAX = 256 * 1024 };

enum later_step { LATER_SEND, LATER_SENT };

OP_OF(later_of, store_later)

static const struct store_later_class *class_of(const struct store_later *later)
{
    return CONTAINER_OF(later->op.class, const struct store_later_class, op);
}

static enum op_result step_send(struct op *op)
{
    struct store_later *later = later_of(op);
    class_of(later)->send(later);
    return OP_WAIT;
}

/* While the database is unreachable many statements fail; only one line reports it. */
static void note_result(struct store_later *later)
{
    const struct pg_query *query = &later->query;
    const char *failure = class_of(later)->failure;
    bool is_failed = query->status != OK;
    if (is_failed && failure && !later->laters->is_failing)
        op_log(&later->op, LOG_WARN, failure, LOG_INT("status", query->status),
               LOG_CSTR("sqlstate", query->sqlstate), LOG_STR("cause", query->message));
    later->laters->is_failing = is_failed;
}

static enum op_result step_sent(struct op *op)
{
    struct store_later *later = later_of(op);
    const struct store_later_class *class = class_of(later);
    note_result(later);
    if (!class->on_sent || !class->on_sent(later))
        return OP_DONE;
    if (class->retry_ms == 0)
        return op_jump(op, LATER_SEND);
    op_sleep(op, &later->timer, class->retry_ms, "the database, to send a statement again");
    return op_wait_then(op, LATER_SEND);
}

const struct op_step store_later_once[2] = {
    [LATER_SEND] = {"send", step_send, 0},
    [LATER_SENT] = {"sent", step_sent, 0},
};
const struct op_step store_later_again[2] = {
    [LATER_SEND] = {"send", step_send, 0},
    [LATER_SENT] = {"sent", step_sent, OP_TO(LATER_SEND)},
};

static void leave(struct store_later *later)
{
    list_unlink(&later->link);
    later->laters->count--;
}

void store_later_end(struct op *op, enum op_end end)
{
    struct store_later *later = later_of(op);
    if (!later->laters)
        return;
    leave(later);
    if (class_of(later)->on_end)
        class_of(later)->on_end(later, end);
}

void store_laters_init(struct store_laters *laters, struct loop *loop, struct pg_pool *pool,
                       size_t count_max)
{
    *laters = (struct store_laters){.loop = loop, .pool = pool, .count_max = count_max};
    list_init(&laters->all);
}

/* Other ops may end after the pool was freed and report something then: store_later refuses it. */
void store_laters_cancel(struct store_laters *laters)
{
    laters->count_max = 0;
    LIST_EACH(&laters->all, struct store_later, later, link)
        op_cancel(&later->op);
}

void store_laters_deinit(struct store_laters *laters)
{
    LIST_EACH(&laters->all, struct store_later, later, link) {
        leave(later);
        later->laters = NULL;
        op_cancel(&later->op);
    }
}

void *store_later(struct store_laters *laters, const struct store_later_class *class,
                  struct op *parent, size_t text_bytes)
{
    ASSERT(class->op.on_end == store_later_end && class->send);
    struct store_later *later = laters->count < laters->count_max ? mem_zalloc(class->size) : NULL;
    if (!later)
        return NULL;
    op_start(&later->op, &class->op, laters->loop, parent, ARENA_BYTES_MAX + text_bytes);
    later->laters = laters;
    list_init(&later->link);
    list_push_back(&laters->all, &later->link);
    laters->count++;
    return later;
}
