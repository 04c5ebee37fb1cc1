/*
 * The templates that flows are pinned to: those of the current set, and older versions, which are
 * loaded from the database when a flow needs them and cached (loop/cache.h). A version never
 * changes, so a cached one is never outdated.
 */
#include "flow/internal.h"

enum {
    PINNED_MAX = 256,
    LOAD_ARENA_BYTES_MAX = 4 * 1024 * 1024,
    TTL_MS = 24 * 60 * 60 * 1000, /* any time would do, since a version never changes */
};

struct pinned {
    struct cache_entry cached; /* its key is the version */
    int status;
    struct flow_template *tmpl;
};

struct pinned_load {
    struct cache_load under;
    struct pg_query query;
};

static struct pinned *pinned_of(const struct cache_entry *cached)
{
    return CONTAINER_OF(cached, struct pinned, cached);
}

static struct pinned_load *pinned_load_of(struct cache_load *under)
{
    return CONTAINER_OF(under, struct pinned_load, under);
}

static struct flow_service *loading_service(const struct cache_load *under)
{
    return CONTAINER_OF(under->cache, struct flow_service, pinned);
}

/* ---- loading ---- */

static void load_template(struct cache_load *under)
{
    struct uuid version;
    memcpy(version.bytes, under->entry->key.ptr, sizeof(version.bytes));
    store_flow_template_get(loading_service(under)->config.pool, &pinned_load_of(under)->query,
                            &under->op, version);
}

/* The template is compiled without the catalog: if a tool was removed since then, only its call
 * fails. */
static int compile_stored(struct pinned *pinned, const struct flow_template_set *set, slice key,
                          slice body)
{
    struct catalog_report *report = catalog_report_new(NULL);
    if (!report)
        return ERR_NOMEM;
    pinned->tmpl = flow_template_compile(key, body, NULL, report);
    if (pinned->tmpl)
        flow_template_copy_titles(pinned->tmpl, set ? flow_template_set_find(set, key) : NULL);
    else
        log_event(LOG_ERROR, "a stored template no longer compiles", LOG_STR("key", key),
                  LOG_STR("problem", report->count ? report->problems[0].text : SLICE("")));
    catalog_report_free(report);
    return pinned->tmpl ? OK : ERR_INVALID;
}

static uint64_t template_loaded(struct cache_load *under)
{
    struct pinned *pinned = pinned_of(under->entry);
    slice key, body;
    pinned->status = store_flow_template_get_result(&pinned_load_of(under)->query, &key, &body);
    if (pinned->status == OK)
        pinned->status =
            compile_stored(pinned, *loading_service(under)->config.templates, key, body);
    return pinned->status == OK ? TTL_MS : 0;
}

static void on_template_loaded(struct cache_wait *wait, const struct cache_entry *cached)
{
    struct flow_template_find *find = CONTAINER_OF(wait, struct flow_template_find, wait);
    const struct pinned *pinned = pinned_of(cached);
    find->status = pinned->status;
    find->tmpl = pinned->tmpl ? flow_template_ref(pinned->tmpl) : NULL;
}

static void drop_template(struct cache_entry *cached)
{
    flow_template_unref(pinned_of(cached)->tmpl);
}

static const struct cache_class pinned_class = {
    CACHE_LOAD("template_load", struct pinned, struct pinned_load),
    .arena_bytes_max = LOAD_ARENA_BYTES_MAX,
    .load = load_template,
    .loaded = template_loaded,
    .answer = on_template_loaded,
    .drop = drop_template,
};

void flow_pinned_init(struct flow_service *service)
{
    cache_init(&service->pinned, &pinned_class, service->config.loop, PINNED_MAX);
}

/* ---- finding ---- */

struct flow_template *flow_template_known(struct flow_service *service, struct uuid version)
{
    const struct flow_template_set *set = *service->config.templates;
    for (size_t i = 0; set && i < set->count; i++)
        if (uuid_eq(set->items[i]->version, version))
            return set->items[i];
    const struct cache_entry *cached = cache_find(&service->pinned, uuid_slice(&version));
    return cached ? pinned_of(cached)->tmpl : NULL;
}

bool flow_template_find(struct flow_service *service, struct flow_template_find *find,
                        struct uuid version, struct op *op)
{
    struct flow_template *known = flow_template_known(service, version);
    ASSERT(!find->tmpl); /* a template from an earlier search would leak its reference */
    find->status = OK;
    find->tmpl = known ? flow_template_ref(known) : NULL;
    if (known)
        return true;
    find->status = ERR_CLOSED;
    if (cache_await(&service->pinned, uuid_slice(&version), &find->wait, op))
        return false;
    find->status = ERR_NOMEM;
    return true;
}

void flow_pinned_keep(struct flow_service *service, struct flow_template *tmpl)
{
    struct cache_entry *cached = cache_put(&service->pinned, uuid_slice(&tmpl->version), 0, TTL_MS);
    if (cached)
        pinned_of(cached)->tmpl = flow_template_ref(tmpl);
}
