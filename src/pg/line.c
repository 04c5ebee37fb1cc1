/*
 * Lines: the waiting queries of a queue, by tenant, so that each tenant gets its turn. A line
 * exists while queries are in it; some unused lines are kept, so that a query costs no allocation.
 *
 * A query that waits is linked twice: in its tenant's line (line_link) and in the queue (link). The
 * share of a tenant follows base/share.h: a single tenant may fill seven eighths of the queue, and
 * less when there are several.
 */
#include "base/share.h"
#include "pg/lane.h"

void pg_queue_init(struct pg_queue *queue)
{
    list_init(&queue->queries);
    list_init(&queue->ring);
    lines_init(&queue->lines, sizeof(struct pg_line));
}

void pg_queue_deinit(struct pg_queue *queue)
{
    ASSERT(queue->count == 0);
    lines_deinit(&queue->lines);
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
    struct pg_line *line = lines_find(&queue->lines, uuid_slice(&tenant));
    /* queue_max is one limit for the pool's three queues together, so `waiting` counts them all;
     * a tenant's own use is counted only in its line of this queue. */
    if (!share_allows(line ? line->count : 0, pool->waiting, pool->queue_max,
                      share_default(pool->queue_max)))
        return ERR_BUSY;
    if (!line)
        line = lines_get(&queue->lines, uuid_slice(&tenant));
    if (!line)
        return ERR_NOMEM;
    query->line = line;
    line->count++;
    line_join(&line->line, &queue->ring, &query->line_link);
    return OK;
}

void pg_line_leave(struct pg_queue *queue, struct pg_query *query)
{
    struct pg_line *line = query->line;
    query->line = NULL;
    if (!line)
        return;
    list_unlink(&query->line_link);
    /* An empty line has no turn. A new query of the tenant starts at the end of the ring. */
    if (--line->count == 0)
        lines_drop(&queue->lines, &line->line);
}
