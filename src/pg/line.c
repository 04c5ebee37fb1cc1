/*
 * Lines: what waits in a queue, by tenant, so that each gets its turn. A line exists while queries
 * are in it; some unused ones are kept, so that a query costs no allocation.
 *
 * A query that waits is linked twice: in its tenant's line (line_link) and in the queue (link). The
 * share of a tenant follows base/share.h: alone it may fill seven eighths of the queue, next to
 * others less.
 */
#include "base/mem.h"
#include "base/share.h"
#include "pg/lane.h"

enum { SPARES_MAX = 64 };

void pg_queue_init(struct pg_queue *queue)
{
    list_init(&queue->queries);
    list_init(&queue->ring);
    list_init(&queue->spares);
    map_init(&queue->lines, SIZE_MAX);
}

void pg_queue_deinit(struct pg_queue *queue)
{
    struct list *node;
    ASSERT(queue->count == 0 && queue->lines.count == 0);
    while ((node = list_pop_front(&queue->spares)))
        mem_free(LIST_ITEM(node, struct pg_line, ring));
    map_deinit(&queue->lines);
}

static void line_give_back(struct pg_queue *queue, struct pg_line *line)
{
    if (queue->spare_count >= SPARES_MAX) {
        mem_free(line);
        return;
    }
    queue->spare_count++;
    list_push_front(&queue->spares, &line->ring);
}

static struct pg_line *line_new(struct pg_queue *queue, struct uuid tenant)
{
    struct list *node = list_pop_front(&queue->spares);
    queue->spare_count -= node != NULL;
    struct pg_line *line = node ? LIST_ITEM(node, struct pg_line, ring) : mem_alloc(sizeof(*line));
    if (!line)
        return NULL;
    *line = (struct pg_line){.tenant = tenant};
    /* The key points into the line, so tenant is set before map_put. */
    list_init(&line->ring);
    list_init(&line->queries);
    if (map_put(&queue->lines, uuid_slice(&line->tenant), line, NULL) == OK) {
        list_push_back(&queue->ring, &line->ring);
        return line;
    }
    line_give_back(queue, line);
    return NULL;
}

static struct uuid tenant_of(const struct pg_query *query)
{
    const struct pg_stmt *stmt = query->stmt;
    size_t at = query->slot->tenant_at;
    /* Statements without an account (housekeeping, nodes) share the line of the nil uuid. */
    bool is_there = at < stmt->param_count && !query->params[at].is_null;
    return is_there ? query->params[at].as.uuid : (struct uuid){{0}};
}

int pg_line_join(struct pg_queue *queue, struct pg_query *query)
{
    const struct pg_pool *pool = query->pool;
    struct uuid tenant = tenant_of(query);
    struct pg_line *line = map_get(&queue->lines, uuid_slice(&tenant));
    /* queue_max is one limit for the pool's three queues together, so `waiting` counts them all; a
     * tenant's own use is its line in this queue. */
    if (!share_allows(line ? line->count : 0, pool->waiting, pool->queue_max,
                      share_default(pool->queue_max)))
        return ERR_BUSY;
    if (!line)
        line = line_new(queue, tenant);
    if (!line)
        return ERR_NOMEM;
    query->line = line;
    line->count++;
    list_push_back(&line->queries, &query->line_link);
    return OK;
}

void pg_line_leave(struct pg_queue *queue, struct pg_query *query)
{
    struct pg_line *line = query->line;
    query->line = NULL;
    if (!line)
        return;
    list_unlink(&query->line_link);
    if (--line->count > 0)
        return;
    /* An empty line has no turn. A new query of the tenant starts at the end of the ring. */
    (void)map_remove(&queue->lines, uuid_slice(&line->tenant));
    list_unlink(&line->ring);
    line_give_back(queue, line);
}
