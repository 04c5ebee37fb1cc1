/*
 * Loads of flows for requests; see load.h. Reads take no lock and no slot: a running flow may be
 * loaded at any time, and the result is the state of one snapshot.
 */
#include "flow/load.h"

#include "base/mem.h"
#include "flow/internal.h"

enum {
    LOAD_ARENA_BYTES_MAX = 192 * 1024 * 1024,
    PAGE_BYTES = 16 * 1024 * 1024, /* a page ends after the flow that exceeds it */
    /* maximum of searches per page of records; for a page of rows one search is made, and the
     * reader continues */
    SEARCHES_MAX = 16,
};

/* ---- one flow ---- */

OP_OF(load_of, flow_load)

enum load_step { LOAD_CHECK_REV, LOAD_CHECKED, LOAD_SEND, LOAD_READ, LOAD_TEMPLATE };

/* Whether the policy lets the reader have a cached view. If the flow's version of the template is
 * not in memory, that is not known. */
static bool may_give(const struct flow_load *load, const struct flow_view *kept)
{
    const struct flow_template *tmpl =
        load->policy ? flow_template_known(load->service, kept->template_version) : NULL;
    return !load->policy ||
           (tmpl && !flow_is_hidden(tmpl, *load->service->config.catalog, load->policy));
}

/* If a view is cached or the flow runs here, reads only the flow's revision, which shows whether
 * that view is current. Without either, the revision alone would be useless. A flow keeps its
 * version of the template, so what a policy says about it holds for each of its revisions. */
static enum op_result step_check_rev(struct op *op)
{
    struct flow_load *load = load_of(op);
    struct flow_service *service = load->service;
    int64_t rev;
    if (!load->wants_view)
        return op_jump(op, LOAD_SEND);
    const struct flow_view *kept =
        flow_view_cache_find(&service->views, load->account_id, load->id);
    if (kept ? !may_give(load, kept)
             : !flow_is_running_here(service, load->account_id, load->id, load->policy, &rev))
        return op_jump(op, LOAD_SEND);
    store_flow_rev(service->config.pool, &load->query, op, load->account_id, load->id);
    return OP_WAIT;
}

/* The row exists, so the status of the template is the result, unless the policy hides the flow.
 * Views are added to the cache only here. */
static enum op_result finish_load(struct flow_load *load)
{
    load->status = load->find.status;
    load->tmpl = load->find.tmpl;
    if (load->status == OK && load->policy &&
        flow_is_hidden(load->tmpl, *load->service->config.catalog, load->policy))
        load->status = ERR_NOTFOUND;
    if (load->status != OK || !load->wants_view)
        return OP_DONE;
    load->view = flow_view_new(load->op.loop, &load->whole, load->tmpl);
    if (load->view)
        flow_view_cache_put(&load->service->views, load->view);
    return OP_DONE;
}

/* If a cached view or a run has this revision, it is the answer. If another node has changed the
 * flow since then, the flow is loaded. */
static enum op_result step_checked(struct op *op)
{
    struct flow_load *load = load_of(op);
    int64_t rev;
    load->status = store_rev_result(&load->query, &rev);
    if (load->status != OK)
        return OP_DONE;
    struct flow_view *kept =
        flow_view_cache_find(&load->service->views, load->account_id, load->id);
    if (kept && kept->rev == rev)
        load->view = flow_view_ref(kept);
    else
        load->view = flow_run_view(load->service, load->account_id, load->id, rev);
    return load->view ? OP_DONE : OP_NEXT;
}

static enum op_result step_load(struct op *op)
{
    struct flow_load *load = load_of(op);
    store_flow_load(load->service->config.pool, &load->query, op, load->account_id, load->id,
                    false);
    return OP_WAIT;
}

static enum op_result step_loaded(struct op *op)
{
    struct flow_load *load = load_of(op);
    load->status = store_flow_load_result(&load->query, &load->whole);
    if (load->status != OK)
        return OP_DONE;

    struct uuid version = load->whole.flow.template_version;
    if (!flow_template_find(load->service, &load->find, version, op))
        return OP_WAIT;
    return finish_load(load);
}

static enum op_result step_template(struct op *op)
{
    struct flow_load *load = load_of(op);
    return finish_load(load);
}

static void free_load(struct op *op)
{
    struct flow_load *load = load_of(op);
    flow_template_unref(load->find.tmpl); /* load->tmpl borrows it */
    flow_view_unref(load->view);
    mem_free(load);
}

static const struct op_step load_steps[] = {
    [LOAD_CHECK_REV] = {"check_rev", step_check_rev, OP_TO(LOAD_SEND)},
    [LOAD_CHECKED] = {"checked", step_checked, 0},
    [LOAD_SEND] = {"load", step_load, 0},
    [LOAD_READ] = {"loaded", step_loaded, 0},
    [LOAD_TEMPLATE] = {"template", step_template, 0},
};

static const struct op_class load_class = {
    .name = "flow_load",
    OP_STEPS(load_steps),
    .free = free_load,
};

static struct flow_load *start_flow_load(struct flow_service *service, struct uuid account_id,
                                         struct uuid id, struct policy *policy, struct op *parent,
                                         bool wants_view)
{
    ASSERT(parent);
    struct flow_load *load = mem_zalloc(sizeof(*load));
    if (!load)
        return NULL;
    load->service = service;
    load->account_id = account_id;
    load->id = id;
    load->policy = policy;
    load->status = ERR_BUSY; /* the status if the load is cancelled before it has a result */
    load->wants_view = wants_view;
    op_start(&load->op, &load_class, parent->loop, parent, LOAD_ARENA_BYTES_MAX);
    return load;
}

struct flow_load *flow_load_start(struct flow_service *service, struct uuid account_id,
                                  struct uuid id, struct policy *policy, struct op *parent)
{
    return start_flow_load(service, account_id, id, policy, parent, false);
}

struct flow_load *flow_load_start_view(struct flow_service *service, struct uuid account_id,
                                       struct uuid id, struct policy *policy, struct op *parent)
{
    return start_flow_load(service, account_id, id, policy, parent, true);
}

bool flow_load_has_ended(const struct flow_load *load)
{
    enum flow_status status = load->whole.flow.status;
    return status == FLOW_COMPLETED || status == FLOW_FAILED || status == FLOW_CANCELLED;
}

slice flow_load_render_view(struct flow_load *load)
{
    struct buf text;
    buf_init(&text, FLOW_VIEW_BYTES_MAX);
    flow_view_write(&text, &load->whole, load->tmpl, FLOW_VIEW_WHOLE);
    return arena_take(&load->op.arena, &text);
}

/* ---- a page ---- */

OP_OF(page_of, flow_page)

enum page_step { PAGE_LOAD, PAGE_LOADED, PAGE_WRITE, PAGE_TEMPLATE };

static enum op_result page_load(struct op *op)
{
    struct flow_page *page = page_of(op);
    struct flow_filter rest = page->filter;
    rest.limit -= (int64_t)page->count;
    store_flow_list(page->service->config.pool, &page->query, op, &rest);
    return OP_WAIT;
}

static enum op_result page_loaded(struct op *op)
{
    struct flow_page *page = page_of(op);
    page->status = store_flow_list_result(&page->query, &page->list, &page->listed, &page->older);
    if (page->status != OK)
        return OP_DONE;
    page->next = 0;
    page->searches++;
    if (!page->wants_rows)
        return OP_NEXT;
    ASSERT(!page->rows);
    page->rows = ARENA_ARRAY(&op->arena, struct flow_row, page->listed + 1); /* never of size 0 */
    if (page->rows)
        return OP_NEXT;
    page->status = ERR_NOMEM;
    return OP_DONE;
}

static struct flow_row row_of(struct flow_page *page, const struct flow_listed *listed)
{
    struct arena *arena = &page->op.arena;
    const struct flow_template *tmpl = page->find.tmpl;
    const struct flow *flow = &listed->flow;
    const struct catalog *catalog = *page->service->config.catalog;
    slice name = arena_dup(arena, tmpl->name);
    size_t index = flow_current_index(flow, tmpl);
    const struct flow_step_def *step = &tmpl->steps[index];
    return (struct flow_row){
        .id = flow->id,
        .name = name,
        .title = listed->title.ptr ? listed->title : name,
        .step_title = arena_dup(arena, flow_step_title(step, catalog, arena)),
        .asker = listed->asker,
        .step = index + 1,
        .step_count = tmpl->step_count,
        .status = flow->status,
        .is_rejected = listed->is_rejected,
        .waiting_for = flow->status == FLOW_WAITING ? flow->waiting_for : FLOW_WAITS_NOT,
        .ends_at = flow_due_at(flow),
        .updated_at = flow->updated_at,
    };
}

/* A flow whose template cannot be read, as one of a later version of the program, is left out: the
 * others are shown. */
static void skip_unread(struct flow_page *page, const struct flow *flow)
{
    char id[UUID_TEXT_LEN + 1];
    uuid_format(flow->id, id);
    op_log(&page->op, LOG_WARN, "a flow is not listed, since its template cannot be read",
           LOG_CSTR("flow_id", id), LOG_STR("template", flow->template_key));
    page->status = OK;
    page->next++;
    page->examined++;
    page->find = (struct flow_template_find){0};
}

/* Writes the flow at `next`, whose template lookup is done; status is the result. The texts of
 * the template are copied, as its reference is dropped here. */
static void page_put(struct flow_page *page)
{
    ASSERT(page->next < page->listed);
    const struct flow_listed *listed = &page->list[page->next];
    const struct catalog *catalog = *page->service->config.catalog;
    page->status = page->find.status;
    if (page->status == ERR_NOTFOUND || page->status == ERR_INVALID) {
        skip_unread(page, &listed->flow);
        return;
    }
    if (page->status != OK)
        return;
    if (page->policy && flow_is_hidden(page->find.tmpl, catalog, page->policy)) {
        /* as if it were not there */
    } else if (page->wants_rows) {
        if (!page->need || flow_has_need(page->need, listed, page->find.tmpl, &page->op.arena))
            page->rows[page->count++] = row_of(page, listed);
    } else {
        if (page->count++ > 0)
            buf_append_char(&page->text, ',');
        flow_record_write(&page->text, listed, page->find.tmpl, page->filter.is_rows_alone);
    }
    page->next++;
    page->examined++;
    flow_template_unref(page->find.tmpl);
    page->find = (struct flow_template_find){0};
}

/* Whether the page is long enough: contexts may be large, so a page of such flows is shorter. */
static bool page_is_long(const struct flow_page *page)
{
    return page->text.len > PAGE_BYTES;
}

/* If a search for a template's flows has read its maximum in one statement and found fewer than
 * wanted, it continues after the last flow read. */
static bool may_search_on(const struct flow_page *page)
{
    return !page->wants_rows && page->next == page->listed && !uuid_is_nil(page->older) &&
           (int64_t)page->count < page->filter.limit && page->searches < SEARCHES_MAX;
}

/* Most flows of a page share a few templates, which are in memory. The loop waits only for other
 * templates, and returns here through page_template. */
static enum op_result page_write(struct op *op)
{
    struct flow_page *page = page_of(op);
    while (page->status == OK && page->next < page->listed && !page_is_long(page)) {
        struct uuid version = page->list[page->next].flow.template_version;
        if (!flow_template_find(page->service, &page->find, version, op))
            return OP_WAIT;
        page_put(page);
    }
    if (page->status == OK && !page_is_long(page) && may_search_on(page)) {
        page->filter.before = page->older;
        return op_jump(op, PAGE_LOAD);
    }
    if (page->next < page->listed && page->next > 0)
        page->older = page->list[page->next - 1].flow.id;
    buf_append_char(&page->text, ']');
    return OP_DONE;
}

static enum op_result page_template(struct op *op)
{
    struct flow_page *page = page_of(op);
    page_put(page);
    return op_jump(op, PAGE_WRITE);
}

static void page_free(struct op *op)
{
    struct flow_page *page = page_of(op);
    flow_template_unref(page->find.tmpl); /* of a page that was cancelled as it arrived */
    buf_deinit(&page->text);
    mem_free(page);
}

static const struct op_step page_steps[] = {
    [PAGE_LOAD] = {"load", page_load, 0},
    [PAGE_LOADED] = {"loaded", page_loaded, 0},
    [PAGE_WRITE] = {"write", page_write, OP_TO(PAGE_LOAD)},
    [PAGE_TEMPLATE] = {"template", page_template, OP_TO(PAGE_WRITE)},
};

static const struct op_class page_class = {
    .name = "flow_page",
    OP_STEPS(page_steps),
    .free = page_free,
};

static struct flow_page *start_page(struct flow_service *service, const struct flow_filter *filter,
                                    struct policy *policy, bool wants_rows, struct op *parent)
{
    struct flow_page *page = mem_zalloc(sizeof(*page));
    if (!page)
        return NULL;
    page->service = service;
    page->filter = *filter;
    page->policy = policy;
    page->filter.is_rows_alone |= wants_rows;
    page->filter.with_asker = wants_rows && !filter->with_input;
    page->wants_rows = wants_rows;
    page->status = ERR_BUSY;
    buf_init(&page->text, FLOW_VIEW_BYTES_MAX);
    buf_append_char(&page->text, '[');
    op_start(&page->op, &page_class, parent->loop, parent, LOAD_ARENA_BYTES_MAX);
    return page;
}

struct flow_page *flow_page_start(struct flow_service *service, const struct flow_filter *filter,
                                  struct policy *policy, struct op *parent)
{
    return start_page(service, filter, policy, false, parent);
}

struct flow_page *flow_page_start_rows(struct flow_service *service,
                                       const struct flow_filter *filter, struct policy *policy,
                                       struct op *parent)
{
    return start_page(service, filter, policy, true, parent);
}

struct flow_page *flow_page_start_needing(struct flow_service *service,
                                          const struct flow_filter *filter,
                                          const struct flow_need *need, struct policy *policy,
                                          struct op *parent)
{
    ASSERT(filter->with_input);
    struct flow_page *page = start_page(service, filter, policy, true, parent);
    if (page)
        page->need = need; /* set before the op's first step */
    return page;
}
