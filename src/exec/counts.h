/*
 * counts: rows that are counted in memory by a key. They are written together in the background,
 * every few seconds, and at a shutdown; a process that dies loses what it counted since the last
 * write.
 *
 * Limits: rows_max rows in memory. When they are full, some are written at once; if the database
 * does not keep up, further rows are lost. At most flush_max of them are written at a time.
 */
#ifndef EXEC_COUNTS_H
#define EXEC_COUNTS_H

#include "base/keyed.h"
#include "store/later.h"

struct counts_class {
    size_t row_size; /* of a row, a struct that begins with a struct keyed */
    size_t rows_max, flush_max;
    unsigned every_ms;
    /* The statement of one row: its struct has the row, a copy, at row_at. COUNTS_LATER sets
     * on_sent. */
    struct store_later_class later;
    size_t row_at;
    void (*add)(void *row, const void *more); /* adds the counts of a row with the same key */
    void (*lose)(const void *row);
};
#define COUNTS_LATER(name, type) \
    STORE_LATER(store_later_once, name, type), .on_sent = counts_on_sent

struct counts {
    const struct counts_class *class;
    struct keyed_table table;
    struct list order; /* the rows, oldest first */
    struct timer timer;
    struct store_laters sent;
};

void counts_init(struct counts *counts, const struct counts_class *class, struct loop *loop,
                 struct pg_pool *pool);
/* Rows that were not written are lost. */
void counts_deinit(struct counts *counts);
/* Returns the row with this key, which is written later; a new one is zeroed except for its struct
 * keyed. Returns NULL if there is no room. */
void *counts_row(struct counts *counts, slice key);
/* Writes the rows now. */
void counts_write(struct counts *counts);
bool counts_are_written(const struct counts *counts);
/* Private: see struct counts_class. */
bool counts_on_sent(struct store_later *later);

#endif
