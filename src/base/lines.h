/*
 * lines: what there is one of for each account while something of it is under way: those that wait
 * in a queue, its part of a budget, its count of something limited. Found by key, made when first
 * wanted, dropped by its owner once it is empty. Some dropped blocks are kept for the next one, so
 * that a request costs no allocation. Not for several threads.
 */
#ifndef BASE_LINES_H
#define BASE_LINES_H

#include "base/list.h"
#include "base/map.h"

enum { LINE_KEY_MAX = 128 }; /* an account, some numbers, names of a tool and of an error fit */

/* The first member of each line. */
struct line {
    struct list ring;    /* the owner's: in a ring while it is the line's turn, say */
    struct list waiting; /* the owner's nodes, oldest first */
    size_t key_len;
    char key[LINE_KEY_MAX];
};

struct lines {
    struct map map;     /* struct line, by key */
    struct list spares; /* by ring */
    size_t spare_count, size;
};

/* size: of the struct that begins with a struct line. */
void lines_init(struct lines *lines, size_t size);
/* None is left (asserted). */
void lines_deinit(struct lines *lines);
/* NULL: there is none. */
void *lines_find(const struct lines *lines, slice key);
/* The line of that key (up to LINE_KEY_MAX bytes, copied), zeroed but for its struct line where it
 * is new. NULL: out of memory. */
void *lines_get(struct lines *lines, slice key);
/* Out of its ring and the table; its memory is used for the next one. */
void lines_drop(struct lines *lines, struct line *line);

/* Appends the node to the line, and the line to the ring if nothing waited in it. A caller that
 * serves the first line of the ring and then moves it to the end serves the lines in turn. */
static inline void line_join(struct line *line, struct list *ring, struct list *node)
{
    if (list_is_empty(&line->waiting))
        list_move_back(ring, &line->ring);
    list_push_back(&line->waiting, node);
}

/* It waits no more. */
static inline void line_leave(struct line *line, struct list *node)
{
    list_unlink(node);
    if (list_is_empty(&line->waiting))
        list_unlink(&line->ring);
}

#endif
