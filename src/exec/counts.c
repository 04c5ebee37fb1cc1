/*
 * Rows of counts; see counts.h. A row that is being written is removed from the table, so that a
 * count during the write begins another row. It returns to the table if nothing was stored.
 */
#include "exec/counts.h"

#include "store/store.h"

enum { SOON_MS = 1000 };

static void arm_timer(struct counts *counts, unsigned delay_ms)
{
    if (!list_is_empty(&counts->order) && !timer_is_armed(&counts->timer))
        timer_start_in_ms(&counts->timer, delay_ms);
}

void *counts_row(struct counts *counts, slice key)
{
    struct keyed *row = keyed_find(&counts->table, key);
    if (row)
        return row;
    if (counts->table.map.count >= counts->class->rows_max)
        counts_write(counts);
    if (counts->table.map.count >= counts->class->rows_max)
        return NULL;
    row = keyed_get(&counts->table, key);
    if (!row)
        return NULL;
    list_push_back(&counts->order, &row->ring);
    arm_timer(counts, counts->class->every_ms);
    return row;
}

/* Called if the write was rolled back or never sent. Adds the counts to the row that was begun
 * during the write, if any. */
static void put_back(struct counts *counts, const struct keyed *sent)
{
    void *row = counts_row(counts, slice_of(sent->key, sent->key_len));
    if (row)
        counts->class->add(row, sent);
    else
        counts->class->lose(sent);
}

bool counts_on_sent(struct store_later *later)
{
    struct counts *counts = CONTAINER_OF(later->laters, struct counts, sent);
    const void *row = (const char *)later + counts->class->row_at;
    int status = store_done_result(&later->query);
    if (status == ERR_BUSY || status == ERR_TIMEOUT || status == ERR_IO)
        put_back(counts, row);
    else if (status != OK)
        counts->class->lose(
            row); /* the account no longer exists, or the row may have been stored */
    return false;
}

/* Rows that do not fit are written with the next statements. */
void counts_write(struct counts *counts)
{
    const struct counts_class *class = counts->class;
    char *sent;
    timer_stop(&counts->timer);
    while (!list_is_empty(&counts->order) &&
           (sent = store_later(&counts->sent, &class->later, NULL, 0))) {
        struct keyed *row = LIST_ITEM(counts->order.next, struct keyed, ring);
        memcpy(sent + class->row_at, row, class->row_size); /* the copy is in no ring */
        keyed_drop(&counts->table, row);
    }
    arm_timer(counts, SOON_MS);
}

static void on_due(struct timer *timer)
{
    counts_write(CONTAINER_OF(timer, struct counts, timer));
}

bool counts_are_written(const struct counts *counts)
{
    return counts->sent.count == 0 && counts->table.map.count == 0;
}

void counts_init(struct counts *counts, const struct counts_class *class, struct loop *loop,
                 struct pg_pool *pool)
{
    counts->class = class;
    store_laters_init(&counts->sent, loop, pool, class->flush_max);
    keyed_init(&counts->table, class->row_size);
    list_init(&counts->order);
    timer_init(&counts->timer, loop, on_due);
}

void counts_deinit(struct counts *counts)
{
    timer_stop(&counts->timer);
    LIST_EACH(&counts->order, struct keyed, row, ring)
        keyed_drop(&counts->table, row);
    keyed_deinit(&counts->table);
    store_laters_deinit(&counts->sent);
}
