/*
 * The templates that flows are pinned to: those of the current set, and older versions, which are
 * loaded from the database when a flow needs them and cached, up to PINNED_MAX. A version never
 * changes, so a cached one is never outdated.
 */
#include "flow/internal.h"

enum { PINNED_MAX = 256 };

struct flow_template *flow_template_known(const struct flow_service *service, struct uuid version)
{
    const struct flow_template_set *set = *service->config.templates;
    for (size_t i = 0; set && i < set->count; i++)
        if (uuid_eq(set->items[i]->version, version))
            return set->items[i];
    return map_get(&service->pinned, uuid_slice(&version));
}

bool flow_template_find(struct flow_service *service, struct flow_template_find *find,
                        struct uuid version, struct op *op)
{
    struct flow_template *known = flow_template_known(service, version);
    ASSERT(!find->tmpl); /* a template from an earlier search would leak its reference */
    find->version = version;
    find->status = OK;
    find->tmpl = known ? flow_template_ref(known) : NULL;
    if (known)
        return true;
    store_flow_template_get(service->config.pool, &find->query, op, version);
    return false;
}

void flow_pinned_drop(struct flow_service *service, bool even_used)
{
    MAP_EACH(&service->pinned, slot) {
        struct flow_template *tmpl = slot->value;
        if (!even_used && tmpl->refs > 1)
            continue;
        (void)map_remove(&service->pinned, slot->key);
        flow_template_unref(tmpl);
        slot = NULL; /* the walk starts over, because a removal may move slots */
    }
}

/* The map holds one reference. If memory is short, the template is loaded again next time. */
static void keep_pinned(struct flow_service *service, struct flow_template *tmpl)
{
    if (service->pinned.count >= PINNED_MAX)
        flow_pinned_drop(service, false);
    slice key = uuid_slice(&tmpl->version);
    if (map_put(&service->pinned, key, tmpl, NULL) == OK)
        (void)flow_template_ref(tmpl);
}

/* The template is compiled without the catalog: if a tool was removed since then, only its call
 * fails. */
static struct flow_template *compile_stored(slice key, slice body)
{
    struct catalog_report *report = catalog_report_new(NULL);
    if (!report)
        return NULL;
    struct flow_template *tmpl = flow_template_compile(key, body, NULL, report);
    if (!tmpl)
        log_event(LOG_ERROR, "a stored template no longer compiles", LOG_STR("key", key),
                  LOG_STR("problem", report->count ? report->problems[0].text : SLICE("")));
    catalog_report_free(report);
    return tmpl;
}

void flow_template_found(struct flow_service *service, struct flow_template_find *find)
{
    slice key, body;
    if (find->tmpl)
        return;
    find->status = store_flow_template_get_result(&find->query, &key, &body);
    if (find->status != OK)
        return;
    struct flow_template *known =
        /* Another search may have loaded the template at the same time. */
        flow_template_known(service, find->version);
    find->tmpl = known ? flow_template_ref(known) : compile_stored(key, body);
    if (!find->tmpl) {
        find->status = ERR_INVALID;
    } else if (!known) {
        const struct flow_template_set *set = *service->config.templates;
        flow_template_copy_titles(find->tmpl, set ? flow_template_set_find(set, key) : NULL);
        keep_pinned(service, find->tmpl);
    }
}
