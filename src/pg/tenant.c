/*
 * The waiting queries of a queue, by tenant, so that each tenant gets its turn. A struct pg_tenant
 * exists while the tenant's queries wait; some unused blocks are kept, so that a query costs no
 * allocation.
 *
 * A query that waits is linked twice: at its tenant (tenant_link) and in the queue (link). The
 * share of a tenant follows base/share.h: a single tenant may fill seven eighths of the queue, and
 * less when there are several.
 */
#include "base/share.h"
#include "pg/lane.h"

void pg_queue_init(struct pg_queue *queue)
{
    list_init(&queue->queries);
    list_init(&queue->ring);
    keyed_init(&queue->tenants, sizeof(struct pg_tenant));
}

void pg_queue_deinit(struct pg_queue *queue)
{
    ASSERT(queue->count == 0);
    keyed_deinit(&queue->tenants);
}

/* Whether the text of an id ends with the last bytes of this one, which are random. Parsing the
 * whole text would cost more than the rest of a turn's choice. */
static bool ends_like(slice text, struct uuid id)
{
    static const char digits[] = "0123456789abcdef";
    enum { BYTES = 4 };
    const uint8_t *byte = id.bytes + sizeof(id.bytes) - BYTES;
    const char *at = text.ptr + UUID_TEXT_LEN - 2 * BYTES;
    if (text.len != UUID_TEXT_LEN)
        return false;
    for (size_t i = 0; i < BYTES; i++)
        if (at[2 * i] != digits[byte[i] >> 4] || at[2 * i + 1] != digits[byte[i] & 15])
            return false;
    return true;
}

static struct uuid tenant_of(const struct pg_query *query)
{
    const struct pg_stmt *stmt = query->stmt;
    size_t at = query->slot->tenant_at;
    const struct op *op = query->wait.op;
    struct uuid payer;
    /* Statements without an account are those of the op's account; without one (housekeeping,
     * nodes), of the nil uuid. */
    if (at >= stmt->param_count || query->params[at].is_null)
        return op && uuid_parse(op->account_id, &payer) ? payer : (struct uuid){{0}};
    /* The op's account may be another one: it takes one turn for the rows of all its users. */
    bool is_of_op = !op || op->account_id.len == 0 ||
                    ends_like(op->account_id, query->params[at].as.uuid) ||
                    !uuid_parse(op->account_id, &payer);
    return is_of_op ? query->params[at].as.uuid : payer;
}

int pg_tenant_join(struct pg_queue *queue, struct pg_query *query)
{
    const struct pg_pool *pool = query->pool;
    struct uuid id = tenant_of(query);
    struct pg_tenant *tenant = keyed_find(&queue->tenants, uuid_slice(&id));
    /* queue_max is one limit for the pool's three queues together, so `waiting` counts them all;
     * a tenant's own use is counted only in this queue. */
    if (!share_allows(tenant ? tenant->count : 0, pool->waiting, pool->queue_max,
                      share_default(pool->queue_max)))
        return ERR_BUSY;
    if (!tenant)
        tenant = keyed_get(&queue->tenants, uuid_slice(&id));
    if (!tenant)
        return ERR_NOMEM;
    query->tenant = tenant;
    tenant->count++;
    keyed_join(&tenant->keyed, &queue->ring, &query->tenant_link);
    return OK;
}

void pg_tenant_leave(struct pg_queue *queue, struct pg_query *query)
{
    struct pg_tenant *tenant = query->tenant;
    query->tenant = NULL;
    if (!tenant)
        return;
    list_unlink(&query->tenant_link);
    /* A tenant without queries has no turn, and its next query starts at the end of the ring. */
    if (--tenant->count == 0)
        keyed_drop(&queue->tenants, &tenant->keyed);
}
