/*
 * lines: per-account state that exists while an account has something under way: its queue of
 * waiting requests, its part of a budget, or its count for a limit. A line is found by key, made
 * when first needed, and dropped by its owner once it is empty. Some dropped blocks are kept for
 * reuse, so that a request costs no allocation. Not thread-safe.
 */
#ifndef BASE_LINES_H
#define BASE_LINES_H

#include "base/list.h"
#include "base/map.h"

enum {
    LINE_KEY_MAX = 128
}; /* enough for an account, some numbers, and the names of a tool and of an error */

/* The first member of each line. */
struct line {
    struct list ring;    /* used by the owner: for example, the lines whose turn it is */
    struct list waiting; /* the owner's nodes, oldest first */
    size_t key_len;
    char key[LINE_KEY_MAX];
};

struct lines {
    struct map map;     /* struct line, by key */
    struct list spares; /* by ring */
    size_t spare_count, size;
};

/* size: the size of the struct that begins with a struct line. */
void lines_init(struct lines *lines, size_t size);
/* Asserts that no line is left. */
void lines_deinit(struct lines *lines);
/* NULL: there is none. */
void *lines_find(const struct lines *lines, slice key);
/* The line with that key (up to LINE_KEY_MAX bytes, copied); if it is new, it is zeroed except
 * for its struct line. NULL: out of memory. */
void *lines_get(struct lines *lines, slice key);
/* Removes the line from its ring and the table; its memory is reused. */
void lines_drop(struct lines *lines, struct line *line);

/* Appends the node to the line, and the line to the ring if nothing waited in it. A caller that
 * serves the first line of the ring and then moves it to the end serves the lines in turn. */
static inline void line_join(struct line *line, struct list *ring, struct list *node)
{
    if (list_is_empty(&line->waiting))
        list_move_back(ring, &line->ring);
    list_push_back(&line->waiting, node);
}

/* The node no longer waits. */
static inline void line_leave(struct line *line, struct list *node)
{
    list_unlink(node);
    if (list_is_empty(&line->waiting))
        list_unlink(&line->ring);
}

#endif
