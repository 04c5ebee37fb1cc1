/*
 * lines: see lines.h. A spare block is linked through its ring, and zeroed when it is reused: an
 * owner never finds data of another account.
 */
#include "base/lines.h"

#include "base/mem.h"

enum { SPARES_MAX = 64 }; /* limited, so that memory is released after a burst of accounts */

void lines_init(struct lines *lines, size_t size)
{
    ASSERT(size >= sizeof(struct line));
    *lines = (struct lines){.size = size};
    map_init(&lines->map, SIZE_MAX);
    list_init(&lines->spares);
}

void lines_deinit(struct lines *lines)
{
    ASSERT(lines->map.count == 0);
    LIST_DRAIN(&lines->spares, struct line, line, ring)
        mem_free(line);
    map_deinit(&lines->map);
}

static void line_give_back(struct lines *lines, struct line *line)
{
    if (lines->spare_count >= SPARES_MAX) {
        mem_free(line);
        return;
    }
    lines->spare_count++;
    list_push_front(&lines->spares, &line->ring);
}

void *lines_find(const struct lines *lines, slice key)
{
    return map_get(&lines->map, key);
}

void *lines_get(struct lines *lines, slice key)
{
    struct line *line = map_get(&lines->map, key);
    if (line)
        return line;
    struct list *node = list_pop_front(&lines->spares);
    lines->spare_count -= node != NULL;
    line = node ? LIST_ITEM(node, struct line, ring) : mem_alloc(lines->size);
    if (!line)
        return NULL;
    memset(line, 0, lines->size);
    ASSERT(key.len <= sizeof(line->key));
    list_init(&line->ring);
    list_init(&line->waiting);
    line->key_len = key.len;
    if (key.len > 0)
        memcpy(line->key, key.ptr, key.len);
    if (map_put(&lines->map, slice_of(line->key, key.len), line, NULL) == OK)
        return line;
    line_give_back(lines, line);
    return NULL;
}

void lines_drop(struct lines *lines, struct line *line)
{
    (void)map_remove(&lines->map, slice_of(line->key, line->key_len));
    list_unlink(&line->ring);
    line_give_back(lines, line);
}
