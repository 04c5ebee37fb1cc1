/*
 * Slots of the outbound client: how many calls may be under way, and which call is next. A call
 * passes two queues, each in turn by tenant: first for a slot in its origin, in its tenant's queue
 * there, then for a slot in the client. It keeps the first slot while it waits for the second.
 *
 * A tenant's share is not fixed (base/share.h). A fixed share either wastes free slots or, when
 * several tenants use all of theirs, leaves none: calls that hang cannot be taken back, so the
 * slots that other tenants will need must be free before they ask. A queue and a tenant exist while
 * they have calls (base/keyed.h).
 */
#include "base/share.h"
#include "http/client_internal.h"

static bool queue_has_room(const struct http_queue *queue)
{
    const struct http_client_config *config = &queue->tenant->client->config;
    return share_allows(queue->slot_count, queue->origin->slot_count, config->calls_per_origin,
                        config->share_of_origin);
}

/* Abandoned dials and closing connections still count. */
static bool whole_has_room(const struct http_client *client)
{
    size_t busy = client->connection_count - client->idle_count + client->dial_count;
    return client->active_count < client->config.connections_max &&
           busy < client->config.connections_max;
}

static bool tenant_has_room(const struct http_tenant *tenant)
{
    const struct http_client *client = tenant->client;
    return whole_has_room(client) &&
           share_allows(tenant->active_count, client->active_count, client->config.connections_max,
                        client->config.share_of_all);
}

/* ---- queues and tenants ---- */

static void tenant_collect(struct http_tenant *tenant)
{
    /* Each queue counts its tenant's calls; a tenant without a queue has no calls in either queue.
     */
    if (tenant->queue_count > 0)
        return;
    ASSERT(tenant->active_count == 0 && list_is_empty(&tenant->keyed.waiting));
    keyed_drop(&tenant->client->tenants, &tenant->keyed);
}

static struct http_tenant *tenant_get(struct http_client *client, struct uuid key)
{
    struct http_tenant *tenant = keyed_get(&client->tenants, uuid_slice(&key));
    if (tenant)
        tenant->client = client;
    return tenant;
}

static void queue_collect(struct http_queue *queue)
{
    struct http_tenant *tenant = queue->tenant;
    if (queue->slot_count > 0 || queue->waiting_count > 0)
        /* A queue is kept while it has calls, whether they wait or are under way. */
        return;
    queue->origin->queue_count--;
    tenant->queue_count--;
    keyed_drop(&tenant->client->queues, &queue->keyed);
    tenant_collect(tenant);
}

/* Returns NULL if out of memory. */
static struct http_queue *tenant_queue_get(struct http_origin *origin, struct uuid key)
{
    struct http_client *client = origin->client;
    /* The bytes of the struct are the key of the table, since it has no padding. */
    struct queue_key of = {origin, key};
    struct http_queue *queue = keyed_find(&client->queues, slice_of(&of, sizeof(of)));
    if (queue)
        return queue;
    struct http_tenant *tenant = tenant_get(client, key);
    if (!tenant)
        return NULL;
    queue = keyed_get(&client->queues, slice_of(&of, sizeof(of)));
    if (!queue) {
        /* The tenant may have just been created for a queue that could not be created. */
        tenant_collect(tenant);
        return NULL;
    }
    queue->origin = origin;
    queue->tenant = tenant;
    origin->queue_count++;
    tenant->queue_count++;
    return queue;
}

bool slot_allows_origin(struct http_client *client, struct uuid key)
{
    const struct http_tenant *tenant = keyed_find(&client->tenants, uuid_slice(&key));
    size_t max = client->config.origins_max;
    return share_allows(tenant ? tenant->queue_count : 0, client->origins.count, max,
                        share_default(max));
}

/* ---- turns ---- */

/* Takes the queue's first call and moves the queue to the end: each tenant gets one turn per
 * round, however many calls it has waiting. */
static struct http_call *call_take(struct keyed *queue, struct list *ring)
{
    struct http_call *call = LIST_ITEM(queue->waiting.next, struct http_call, wait_link);
    list_move_back(ring, &queue->ring);
    keyed_leave(queue, &call->wait_link);
    return call;
}

static void slot_take_in_origin(struct http_call *call)
{
    call->queue->slot_count++;
    call->queue->origin->slot_count++;
    call->slot = SLOT_IN_ORIGIN;
}

static void slot_take(struct http_call *call)
{
    call->queue->tenant->active_count++;
    call->client->active_count++;
    call->slot = SLOT_IN_ALL;
}

static void tenant_enqueue(struct http_tenant *tenant, struct http_call *call)
{
    keyed_join(&tenant->keyed, &tenant->client->ring, &call->wait_link);
}

/* Returns the next queue, in turn, that may use another slot; NULL if there is none. A queue that
 * may not use another has several slots already, so few queues are skipped while any slot is
 * free. */
static struct http_queue *queue_next(struct http_origin *origin)
{
    /* Returns early, because this runs after every call: without a free slot no queue may start a
     * call. */
    if (origin->slot_count >= origin->client->config.calls_per_origin)
        return NULL;
    LIST_EACH(&origin->ring, struct http_queue, queue, keyed.ring) {
        if (queue_has_room(queue))
            return queue;
    }
    return NULL;
}

static struct http_tenant *tenant_next(struct http_client *client)
{
    if (!whole_has_room(client))
        return NULL;
    LIST_EACH(&client->ring, struct http_tenant, tenant, keyed.ring) {
        if (tenant_has_room(tenant))
            return tenant;
    }
    return NULL;
}

/* Serves the calls that only wait for a slot in the client. */
static void serve_all(struct http_client *client)
{
    struct http_tenant *tenant;
    if (client->is_serving) /* the loop below finds calls that end while it runs */
        return;
    client->is_serving = true;
    /* The ring is read again in each round, since call_assign may end calls and thereby change the
     * ring. */
    while ((tenant = tenant_next(client))) {
        /* The call is taken before call_assign, after which neither call nor tenant may be used. */
        struct http_call *call = call_take(&tenant->keyed, &client->ring);
        client->waiting_count--;
        slot_take(call);
        call->waiting_ns = loop_now_ns(client->loop) - call->queued_ns;
        call_assign(call);
    }
    client->is_serving = false;
}

void slot_serve(struct http_origin *origin)
{
    struct http_client *client = origin->client;
    struct http_queue *queue;
    if (origin->pins) /* a function further up the stack serves the origin */
        return;
    origin->pins++;
    do {
        while ((queue = queue_next(origin))) {
            struct http_call *call = call_take(&queue->keyed, &origin->ring);
            queue->waiting_count--;
            slot_take_in_origin(call);
            tenant_enqueue(queue->tenant, call);
        }
        serve_all(client);
        /* Calls that failed in serve_all have freed slots, so check again. */
    } while (queue_next(origin));
    origin->pins--;
    origin_collect(origin);
}

/* ---- start and end ---- */

bool slot_ask(struct http_call *call, struct http_origin *origin)
{
    struct http_client *client = origin->client;
    struct http_queue *queue = tenant_queue_get(origin, call->tenant);
    if (!queue) {
        call_fail(call, HTTP_CALL_OVERLOADED, ERR_NOMEM, "out of memory for the call");
        return false;
    }
    struct http_tenant *tenant = queue->tenant;
    /* A call may not overtake its tenant's calls that wait already. */
    bool is_first = list_is_empty(&queue->keyed.waiting) && queue_has_room(queue);
    call->origin = origin;
    call->queue = queue;
    if (is_first)
        slot_take_in_origin(call);
    if (is_first && list_is_empty(&tenant->keyed.waiting) && tenant_has_room(tenant)) {
        slot_take(call);
        return true;
    }
    if (is_first) {
        tenant_enqueue(tenant, call);
    } else if (queue->waiting_count < client->config.waiting_max) {
        call->slot = SLOT_NONE;
        queue->waiting_count++;
        keyed_join(&queue->keyed, &origin->ring, &call->wait_link);
    } else {
        call->queue = NULL; /* the queue has calls, so it stays */
        call_fail(call, HTTP_CALL_OVERLOADED, ERR_BUSY,
                  "%zu calls to %.*s are in flight, and %zu more already wait", queue->slot_count,
                  SLICE_ARG(call->authority), queue->waiting_count);
        return false;
    }
    /* Both waits end with the same timer (waiting_ms). */
    client->waiting_count++;
    call->queued_ns = loop_now_ns(client->loop);
    call_set_phase(call, CALL_WAITING, call->queued_ns + client->config.waiting_ms * 1000000ull);
    client_count_changed(client);
    return false;
}

void slot_leave(struct http_call *call)
{
    struct http_client *client = call->client;
    struct http_queue *queue = call->queue;
    call->queue = NULL;
    if (!queue)
        return;
    struct http_tenant *tenant = queue->tenant;
    /* wait_link is in the queue's list or in the tenant's; unlinking is the same in both. */
    if (call->slot != SLOT_IN_ALL) {
        list_unlink(&call->wait_link);
        client->waiting_count--;
    }
    if (call->slot == SLOT_NONE) {
        queue->waiting_count--;
        if (queue->waiting_count == 0)
            list_unlink(&queue->keyed.ring);
    } else {
        queue->slot_count--;
        queue->origin->slot_count--;
    }
    if (call->slot == SLOT_IN_ALL) {
        tenant->active_count--;
        client->active_count--;
        /* The tenant leaves the ring with its last waiting call. */
    } else if (list_is_empty(&tenant->keyed.waiting)) {
        list_unlink(&tenant->keyed.ring);
    }
    queue_collect(queue);
}

/* ---- the client ---- */

static void on_serve_more(struct loop_task *task)
{
    serve_all(CONTAINER_OF(task, struct http_client, serve_more));
}

void slot_room_came(struct http_client *client)
{
    /* The calls are served in a task: the caller is freeing a dial or connection, and calls must
     * not start inside that. */
    if (!list_is_empty(&client->ring))
        loop_task_queue(client->loop, &client->serve_more);
}

void slot_init(struct http_client *client)
{
    size_t all = client->config.connections_max, origin = client->config.calls_per_origin;
    if (client->config.share_of_all == 0)
        client->config.share_of_all = share_default(all);
    if (client->config.share_of_origin == 0)
        client->config.share_of_origin = share_default(origin);
    keyed_init(&client->tenants, sizeof(struct http_tenant));
    keyed_init(&client->queues, sizeof(struct http_queue));
    list_init(&client->ring);
    loop_task_init(&client->serve_more, on_serve_more);
}

void slot_deinit(struct http_client *client)
{
    ASSERT(client->active_count == 0);
    loop_task_cancel(&client->serve_more);
    keyed_deinit(&client->queues);
    keyed_deinit(&client->tenants);
}
