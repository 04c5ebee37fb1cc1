/*
 * The resolver (loop/dns.h): a map of names, each with its cached answer, the queries that wait for
 * it and at most one flight. A flight is a separate block that a pool thread writes to, so that
 * names and the resolver can be freed while it is under way.
 */
#include "loop/dns.h"

#include <netinet/in.h>

#include "base/ascii.h"
#include "base/ip.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/metric.h"

enum {
    TTL_MS_DEFAULT = 30 * 1000,
    NEGATIVE_TTL_MS_DEFAULT = 2000,
    CACHE_MAX_DEFAULT = 4096,
    QUERIES_MAX_DEFAULT = 10000,
    SLOW_MS_DEFAULT = 1000,
};

/* Kinds of names, by the speed of the last lookup; each kind may fill a number of slots. */
enum dns_kind { DNS_GOOD, DNS_NEW, DNS_SLOW, DNS_KINDS };

struct dns_name;

struct dns_flight {
    struct work work;
    struct loop *loop;
    struct dns_name *name; /* NULL: the resolver was freed */
    dns_lookup *lookup;
    uint64_t began_ns;
    enum dns_kind kind;
    /* written on the thread */
    int status;
    const char *cause;
    struct dns_addresses found;
    char text[DNS_NAME_MAX + 1];
};

union dns_address {
    sa_family_t family;
    struct sockaddr_in v4;
    struct sockaddr_in6 v6;
};

struct dns_name {
    struct dns_resolver *resolver;
    struct list age_link;   /* least recently used first */
    struct list start_link; /* waits for a slot */
    struct list queries;
    struct dns_flight *flight; /* NULL: none */
    enum dns_kind kind;
    uint64_t fresh_until_ns; /* 0: never answered */
    int status;
    const char *cause;
    size_t address_count;
    union dns_address addresses[DNS_ADDRESSES_MAX];
    size_t text_len;
    char text[];
};

struct dns_resolver {
    struct loop *loop;
    struct dns_config config;
    struct map names;
    struct list by_age;
    struct list starts[DNS_KINDS];
    size_t flying[DNS_KINDS], slots;
    struct list ready; /* queries with an answer; the task notifies their ops */
    struct loop_task ready_task;
    size_t waiting;
};

static struct metric lookup_metric = METRIC_INIT(
    "sluice_dns_lookup_seconds", "Time of a name look-up on the thread pool.", METRIC_HISTOGRAM);

static void start_flights(struct dns_resolver *resolver);

/* ---- queries ---- */

static slice name_slice(const struct dns_name *name)
{
    return slice_of(name->text, name->text_len);
}

/* Gives the query a failure as its answer. Returns true, so that a caller can return the result. */
static bool query_fail(struct dns_query *query, int status, const char *cause)
{
    query->status = err_set(&query->err, (enum err_code)status, "%s", cause);
    query->address_count = 0;
    return true;
}

/* Removes the query from every list and notifies its op. */
static void query_end(struct dns_query *query)
{
    struct op *op = query->op;
    if (query->is_waiting)
        query->resolver->waiting--;
    query->is_waiting = false;
    list_unlink(&query->link);
    timer_stop(&query->timer);
    query->op = NULL;
    op_release(op);
}

static void run_ready(struct loop_task *task)
{
    struct dns_resolver *resolver = CONTAINER_OF(task, struct dns_resolver, ready_task);
    while (!list_is_empty(&resolver->ready))
        query_end(LIST_ITEM(resolver->ready.next, struct dns_query, link));
}

/* Called when the query has its answer. The op is notified from the run queue: the caller may be
 * dns_resolve, and no operation completes before it returns. */
static void query_ready(struct dns_resolver *resolver, struct dns_query *query)
{
    timer_stop(&query->timer);
    list_move_back(&resolver->ready, &query->link);
    loop_task_queue(resolver->loop, &resolver->ready_task);
}

static void on_query_due(struct timer *timer)
{
    struct dns_query *query = CONTAINER_OF(timer, struct dns_query, timer);
    (void)query_fail(query, ERR_TIMEOUT, "the name was not resolved in time");
    query_end(query);
}

void dns_cancel(struct dns_query *query)
{
    if (!query->op)
        return;
    (void)query_fail(query, ERR_CLOSED, "the look-up was cancelled");
    query_end(query);
}

static void query_answer(struct dns_query *query, const struct dns_name *name)
{
    if (name->status != OK) {
        query->address_count = 0;
        query->status = err_set(&query->err, (enum err_code)name->status, "cannot resolve %.*s: %s",
                                SLICE_ARG(name_slice(name)), name->cause);
        return;
    }
    query->status = OK;
    query->address_count = name->address_count;
    for (size_t i = 0; i < name->address_count; i++) {
        memset(&query->addresses[i], 0, sizeof(query->addresses[i]));
        memcpy(&query->addresses[i], &name->addresses[i], sizeof(name->addresses[i]));
    }
}

/* ---- names ---- */

static void name_free(struct dns_name *name)
{
    ASSERT(list_is_empty(&name->queries));
    struct dns_resolver *resolver = name->resolver;
    map_remove(&resolver->names, name_slice(name));
    list_unlink(&name->age_link);
    list_unlink(&name->start_link);
    if (name->flight) {
        resolver->flying[name->flight->kind]--;
        name->flight->name = NULL;
    }
    mem_free(name);
}

static bool name_is_idle(const struct dns_name *name)
{
    return !name->flight && list_is_empty(&name->start_link) && list_is_empty(&name->queries);
}

/* Makes room for one more name: evicts the least recently used name that no op waits for. */
static bool evict_name(struct dns_resolver *resolver)
{
    if (resolver->names.count < resolver->config.cache_max)
        return true;
    LIST_EACH(&resolver->by_age, struct dns_name, name, age_link) {
        if (!name_is_idle(name))
            continue;
        name_free(name);
        return true;
    }
    return false;
}

static struct dns_name *name_new(struct dns_resolver *resolver, slice text)
{
    struct dns_name *name = mem_zalloc(sizeof(*name) + text.len + 1);
    if (!name)
        return NULL;
    name->resolver = resolver;
    name->kind = DNS_NEW;
    list_init(&name->age_link);
    list_init(&name->start_link);
    list_init(&name->queries);
    memcpy(name->text, text.ptr, text.len);
    name->text_len = text.len;
    if (map_put(&resolver->names, name_slice(name), name, NULL) != OK) {
        mem_free(name);
        return NULL;
    }
    return name;
}

/* Returns NULL with the error's code in *status on failure. */
static struct dns_name *name_get(struct dns_resolver *resolver, slice text, int *status)
{
    struct dns_name *name = map_get(&resolver->names, text);
    if (!name) {
        *status = ERR_BUSY;
        if (!evict_name(resolver))
            return NULL;
        *status = ERR_NOMEM;
        name = name_new(resolver, text);
        if (!name)
            return NULL;
    }
    list_move_back(&resolver->by_age, &name->age_link);
    return name;
}

/* ---- flights ---- */

/* Notifies all waiting queries. */
static void name_answered(struct dns_name *name)
{
    while (!list_is_empty(&name->queries)) {
        struct dns_query *query = LIST_ITEM(name->queries.next, struct dns_query, link);
        query_answer(query, name);
        query_ready(name->resolver, query);
    }
}

static void name_store(struct dns_name *name, int status, const char *cause,
                       const struct dns_addresses *found)
{
    const struct dns_config *config = &name->resolver->config;
    uint64_t ttl_ms = status == OK ? config->ttl_ms : config->negative_ttl_ms;
    name->status = status;
    name->cause = cause;
    name->fresh_until_ns = loop_now_ns(name->resolver->loop) + ttl_ms * 1000000;
    name->address_count = status == OK ? found->count : 0;
    for (size_t i = 0; i < name->address_count; i++)
        memcpy(&name->addresses[i], &found->list[i], sizeof(name->addresses[i]));
}

static void on_flight_run(struct work *work)
{
    struct dns_flight *flight = CONTAINER_OF(work, struct dns_flight, work);
    flight->cause = "the look-up failed";
    flight->status = flight->lookup(flight->text, &flight->found, &flight->cause);
    ASSERT(flight->status != OK || flight->found.count <= DNS_ADDRESSES_MAX);
}

static void on_flight_done(struct work *work)
{
    struct dns_flight *flight = CONTAINER_OF(work, struct dns_flight, work);
    struct dns_name *name = flight->name;
    uint64_t took_ns = loop_now_ns(flight->loop) - flight->began_ns;
    metric_time(&lookup_metric, took_ns);
    if (name) {
        struct dns_resolver *resolver = name->resolver;
        bool is_slow = took_ns > (uint64_t)resolver->config.slow_ms * 1000000;
        name->flight = NULL;
        name->kind = is_slow ? DNS_SLOW : flight->status == OK ? DNS_GOOD : DNS_NEW;
        resolver->flying[flight->kind]--;
        name_store(name, flight->status, flight->cause, &flight->found);
        name_answered(name);
        start_flights(resolver);
    }
    mem_free(flight);
}

static bool has_slot(const struct dns_resolver *resolver, enum dns_kind kind)
{
    size_t slots = resolver->slots;
    /* slots reserved for names that were quick before */
    size_t kept = slots >= 4 ? slots / 4 : slots >= 2 ? 1 : 0;
    size_t slow = resolver->flying[DNS_SLOW];
    size_t fresh = resolver->flying[DNS_NEW];
    if (slow + fresh + resolver->flying[DNS_GOOD] >= slots)
        return false;
    if (kind != DNS_GOOD && slow + fresh >= slots - kept)
        return false;
    return kind != DNS_SLOW || slow < (slots > 3 ? slots / 2 : 1);
}

static int start_flight(struct dns_name *name)
{
    struct dns_resolver *resolver = name->resolver;
    struct dns_flight *flight = mem_zalloc(sizeof(*flight));
    if (!flight)
        return ERR_NOMEM;
    flight->work = (struct work){.run = on_flight_run, .done = on_flight_done};
    flight->loop = resolver->loop;
    flight->name = name;
    flight->lookup = resolver->config.lookup;
    flight->kind = name->kind;
    flight->began_ns = loop_now_ns(resolver->loop);
    memcpy(flight->text, name->text, name->text_len + 1);
    int rc = work_start(resolver->loop, &flight->work);
    if (rc != OK) {
        mem_free(flight);
        return rc;
    }
    name->flight = flight;
    resolver->flying[flight->kind]++;
    return OK;
}

static void start_flights(struct dns_resolver *resolver)
{
    for (enum dns_kind kind = DNS_GOOD; kind < DNS_KINDS; kind++) {
        while (!list_is_empty(&resolver->starts[kind]) && has_slot(resolver, kind)) {
            struct list *link = list_pop_front(&resolver->starts[kind]);
            struct dns_name *name = LIST_ITEM(link, struct dns_name, start_link);
            if (list_is_empty(
                    /* all queries were cancelled or timed out before the lookup began */
                    &name->queries))
                continue;
            int rc = start_flight(name);
            if (rc == OK)
                continue;
            name->fresh_until_ns = 0;
            name->status = rc;
            name->cause = "out of memory";
            name_answered(name);
        }
    }
}

/* ---- lookups ---- */

static bool answer_literal(struct dns_query *query, const char *text)
{
    uint8_t ip[16];
    size_t len = ip_parse(slice_cstr(text), ip);
    if (len == 0)
        return false;
    ip_sockaddr(ip, len, 0, &query->addresses[0]);
    query->status = OK;
    query->address_count = 1;
    return true;
}

/* Copies the name in lower case. Returns false if it is not a valid name, so that no resolver is
 * needed. */
static bool read_name(slice host, char out[DNS_NAME_MAX + 1])
{
    if (host.len == 0 || host.len > DNS_NAME_MAX || host.ptr[0] == '.' || host.ptr[0] == '-')
        return false;
    for (size_t i = 0; i < host.len; i++) {
        char c = host.ptr[i];
        c = ascii_lower(c);
        bool is_good = ascii_is_lower(c) || ascii_is_digit(c) || c == '-' || c == '_' ||
                       (c == '.' && (i == 0 || host.ptr[i - 1] != '.')) || c == ':';
        if (!is_good)
            return false;
        out[i] = c;
    }
    out[host.len] = 0;
    return true;
}

static void query_wait(struct dns_resolver *resolver, struct dns_query *query,
                       struct dns_name *name)
{
    query->is_waiting = true;
    resolver->waiting++;
    list_push_back(&name->queries, &query->link);
    timer_start(&query->timer, query->deadline_ns);
    if (name->flight || !list_is_empty(&name->start_link))
        return;
    list_push_back(&resolver->starts[name->kind], &name->start_link);
    start_flights(resolver);
}

/* Returns true if the answer, or a failure, is in query; false if the query waits for a flight. */
static bool start_query(struct dns_resolver *resolver, struct dns_query *query)
{
    char text[DNS_NAME_MAX + 1];
    uint64_t now_ns = loop_now_ns(resolver->loop);
    if (!read_name(query->host, text))
        return query_fail(query, ERR_NOTFOUND, "the host is not a valid name");
    if (answer_literal(query, text))
        return true;
    struct dns_name *name = map_get(&resolver->names, slice_cstr(text));
    if (name && name->fresh_until_ns > now_ns && !name->flight) {
        list_move_back(&resolver->by_age, &name->age_link);
        query_answer(query, name);
        return true;
    }
    if (query->deadline_ns <= now_ns)
        return query_fail(query, ERR_TIMEOUT, "no time was left to resolve the name");
    int status = ERR_BUSY;
    bool has_room = resolver->waiting < resolver->config.queries_max;
    name = has_room ? name_get(resolver, slice_cstr(text), &status) : NULL;
    if (!name)
        return query_fail(query, status,
                          status == ERR_BUSY ? "too many names are being resolved"
                                             : "out of memory");
    query_wait(resolver, query, name);
    return false;
}

void dns_resolve(struct dns_resolver *resolver, struct dns_query *query, struct op *op)
{
    ASSERT(op && !query->op);
    query->op = op;
    query->resolver = resolver;
    query->err.code = OK;
    query->err.text[0] = 0;
    query->address_count = 0;
    query->is_waiting = false;
    list_init(&query->link);
    timer_init(&query->timer, resolver->loop, on_query_due);
    op_hold(op, "dns");
    if (start_query(resolver, query))
        query_ready(resolver, query);
}

/* ---- creation and removal ---- */

struct dns_resolver *dns_resolver_new(struct loop *loop, const struct dns_config *config)
{
    struct dns_resolver *resolver = mem_zalloc(sizeof(*resolver));
    if (!resolver)
        return NULL;
    struct dns_config *own = &resolver->config;
    if (config)
        *own = *config;
    DEFAULT_TO(own->ttl_ms, TTL_MS_DEFAULT);
    DEFAULT_TO(own->negative_ttl_ms, NEGATIVE_TTL_MS_DEFAULT);
    DEFAULT_TO(own->cache_max, CACHE_MAX_DEFAULT);
    DEFAULT_TO(own->queries_max, QUERIES_MAX_DEFAULT);
    DEFAULT_TO(own->slow_ms, SLOW_MS_DEFAULT);
    DEFAULT_TO(own->lookup, dns_lookup_system);
    resolver->loop = loop;
    resolver->slots = loop_threads_count() > 1 ? loop_threads_count() / 2 : 1;
    map_init(&resolver->names, own->cache_max + 1);
    list_init(&resolver->by_age);
    list_init(&resolver->ready);
    for (size_t kind = 0; kind < DNS_KINDS; kind++)
        list_init(&resolver->starts[kind]);
    loop_task_init(&resolver->ready_task, run_ready);
    return resolver;
}

void dns_cache_clear(struct dns_resolver *resolver)
{
    LIST_EACH(&resolver->by_age, struct dns_name, name, age_link) {
        if (name_is_idle(name))
            name_free(name);
        else
            name->fresh_until_ns = 0;
    }
}

void dns_resolver_free(struct dns_resolver *resolver)
{
    if (!resolver)
        return;
    loop_task_cancel(&resolver->ready_task);
    run_ready(&resolver->ready_task);
    while (!list_is_empty(&resolver->by_age)) {
        struct dns_name *name = LIST_ITEM(resolver->by_age.next, struct dns_name, age_link);
        while (!list_is_empty(&name->queries))
            dns_cancel(LIST_ITEM(name->queries.next, struct dns_query, link));
        name_free(name);
    }
    map_deinit(&resolver->names);
    mem_free(resolver);
}
