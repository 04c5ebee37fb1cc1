/*
 * The service: the flows that this process runs, and the shutdown. A run is in the list from its
 * start to its end, and in the map by its flow's id; a later run of the same flow replaces it
 * there.
 */

#include <stdio.h>

#include "base/encode.h"
#include "base/mem.h"
#include "flow/run_end.h"

static struct metric running =
    METRIC_INIT("sluice_flows_running", "Flows that this process runs now.", METRIC_GAUGE);

enum {
    URL_MORE_MAX = 1024, /* path, id, and the longest id of a user, encoded */
    LOSSES_MAX = 1000,
};

static bool can_wake_due(void *owner)
{
    return flow_service_has_room(owner);
}

static bool is_moving_here(void *owner, const struct due_ref *ref)
{
    return flow_run_is_moving(owner, ref->id);
}

static void wake_due(void *owner, const struct due_ref *ref)
{
    flow_run_wake(owner, ref);
}

static const struct due_class due_class = {can_wake_due, is_moving_here, wake_due};

struct flow_service *flow_service_new(const struct flow_config *config)
{
    struct flow_service *service = mem_zalloc(sizeof(*service));
    if (!service)
        return NULL;
    service->config = *config;
    if (service->config.runs_max == 0)
        service->config.runs_max = FLOW_RUNS_MAX;
    list_init(&service->runs);
    flow_holds_init(service);
    store_laters_init(&service->takes, config->loop, config->pool, FLOW_SCAN_MAX);
    store_laters_init(&service->losses, config->loop, config->pool, LOSSES_MAX);
    map_init(&service->by_id, SIZE_MAX);
    flow_pinned_init(service);
    flow_view_cache_init(&service->views, config->loop);
    service->watches = flow_watches_new(service);
    service->adopter = flow_adopter_new(service);
    due_own(config->due, DUE_FLOW, &due_class, service);
    if (service->watches && service->adopter)
        return service;
    /* Ops that have started are cancelled. Nothing else is freed, since the process does not
     * continue without the service. */
    flow_service_cancel_all(service);
    return NULL;
}

void flow_service_public_url_set(struct flow_service *service, slice url)
{
    (void)snprintf(service->public_url, sizeof(service->public_url), "%.*s", SLICE_ARG(url));
}

slice flow_service_url(const struct flow_service *service, struct uuid id, slice user,
                       struct arena *arena)
{
    char text[UUID_TEXT_LEN + 1];
    struct buf url;
    if (service->public_url[0] == '\0')
        return SLICE_NONE;
    uuid_format(id, text);
    buf_init(&url, FLOW_URL_MAX + URL_MORE_MAX);
    buf_printf(&url, "%s/flows/%s", service->public_url, text);
    if (user.len > 0) {
        buf_append(&url, SLICE("?user="));
        encode_percent(&url, user);
    }
    return arena_take(arena, &url);
}

/* No row gets room from now on, and adoption stops first, so that nothing new begins. Runs check
 * is_draining at their next step; those that sleep are woken for this. */
void flow_service_drain(struct flow_service *service)
{
    if (service->is_draining)
        return;
    service->is_draining = true;
    flow_adopter_stop(service->adopter);
    service->adopter = NULL; /* the memory is freed with the adopter's op */
    LIST_EACH(&service->runs, struct flow_run, run, link) {
        op_sleep_stop(
            run->op.sleep); /* flows that wait for their next attempt are parked at once */
    }
}

size_t flow_service_active(const struct flow_service *service)
{
    return service->run_count + service->takes.count + service->holding_count +
           service->losses.count;
}

void flow_service_cancel_all(struct flow_service *service)
{
    flow_service_drain(service);
    if (service->watches)
        flow_watches_stop(service->watches);
    LIST_EACH(&service->runs, struct flow_run, run, link)
        op_cancel(&run->op);
    flow_holds_cancel(service);
    store_laters_cancel(&service->losses);
}

void flow_service_free(struct flow_service *service)
{
    if (!service)
        return;
    ASSERT(flow_service_active(service) == 0);
    flow_watches_free(service->watches);
    cache_deinit(&service->views);
    cache_deinit(&service->pinned);
    map_deinit(&service->by_id);
    mem_free(service);
}

/* ---- runs ---- */

static slice id_key(const struct flow_run *run)
{
    return uuid_slice(&run->flow.id);
}

void flow_run_register(struct flow_run *run)
{
    struct flow_service *service = run->service;
    list_push_back(&service->runs, &run->link);
    service->run_count++;
    metric_set(metric_series(&running, SLICE_NONE), (double)service->run_count);
    /* Out of memory: without an entry in the map the run would be considered lost, and started
     * twice. */
    if (map_put(&service->by_id, id_key(run), run, NULL) != OK)
        op_cancel(&run->op);
}

void flow_run_unregister(struct flow_run *run)
{
    struct flow_service *service = run->service;
    ASSERT(service->run_count > 0);
    list_unlink(&run->link);
    service->run_count--;
    metric_set(metric_series(&running, SLICE_NONE), (double)service->run_count);
    if (map_get(&service->by_id, id_key(run)) == run)
        (void)map_remove(&service->by_id, id_key(run));
    if (run->flow.status == FLOW_RUNNING && flow_run_is_ours(run) && !service->is_draining)
        /* the flow was cancelled or adopted, or this node still owns it */
        service->has_lost = true;
    flow_service_fire_timers(service);
}

void flow_run_cancel(struct flow_service *service, struct uuid id)
{
    struct flow_run *run = map_get(&service->by_id, uuid_slice(&id));
    if (run)
        op_cancel(&run->op);
}

static struct flow_run *find_run(const struct flow_service *service, struct uuid id)
{
    return map_get(&service->by_id, uuid_slice(&id));
}

bool flow_run_is_known(const struct flow_service *service, struct uuid id)
{
    return find_run(service, id) != NULL;
}

/* A run with an incomplete view does not count: the caller would get no views from it. */
bool flow_is_running_here(const struct flow_service *service, struct uuid account_id,
                          struct uuid id, struct policy *policy, int64_t *rev)
{
    const struct flow_run *run = find_run(service, id);
    if (!run || !run->published.is_whole || flow_run_is_leaving(run) ||
        !uuid_eq(run->flow.account_id, account_id) ||
        flow_is_hidden(run->tmpl, *service->config.catalog, policy))
        return false;
    *rev = run->flow.rev;
    return run->flow.status == FLOW_RUNNING;
}

struct flow_view *flow_run_view(const struct flow_service *service, struct uuid account_id,
                                struct uuid id, int64_t rev)
{
    const struct flow_run *run = find_run(service, id);
    bool is_known = run && run->published.is_whole && run->flow.rev == rev &&
                    uuid_eq(run->flow.account_id, account_id);
    return is_known ? flow_view_new(run->op.loop, &run->whole, run->tmpl) : NULL;
}

bool flow_run_is_moving(const struct flow_service *service, struct uuid id)
{
    const struct flow_run *run = map_get(&service->by_id, uuid_slice(&id));
    return run && (run->is_waking || run->flow.status == FLOW_RUNNING);
}

bool flow_run_is_leaving(const struct flow_run *run)
{
    return run->service->is_draining || !(run->is_waking || flow_run_is_ours(run));
}

bool flow_service_has_room(const struct flow_service *service)
{
    return !service->is_draining &&
           service->run_count + service->takes.count < service->config.runs_max;
}

void flow_service_fire_timers(struct flow_service *service)
{
    if (flow_service_has_room(service))
        due_fire(service->config.due);
}
