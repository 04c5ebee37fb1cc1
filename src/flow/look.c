/*
 * Looks at flows; see look.h.
 */
#include "flow/look.h"

#include "base/mem.h"
#include "flow/internal.h"

enum {
    LOOK_ARENA_BYTES_MAX = 192 * 1024 * 1024,
    PAGE_BYTES = 16 * 1024 * 1024,
};

/* ---- one flow ---- */

static struct flow_look *look_of(struct op *op)
{
    return CONTAINER_OF(op, struct flow_look, op);
}

enum view_step { VIEW_CHECK_REV, VIEW_CHECKED, VIEW_LOAD, VIEW_LOADED, VIEW_TEMPLATE };

/* Something of the flow is known here: perhaps it is what it is now. */
static enum op_result step_check_rev(struct op *op)
{
    struct flow_look *look = look_of(op);
    struct flow_service *service = look->service;
    int64_t rev;
    if (look->wants_view && (flow_seen_find(service->seen, look->account_id, look->id) ||
                             flow_is_here(service, look->account_id, look->id, &rev))) {
        store_flow_rev(service->config.pool, &look->query, op, look->account_id, look->id);
        return OP_WAIT;
    }
    return op_jump(op, VIEW_LOAD);
}

static enum op_result step_checked(struct op *op)
{
    struct flow_look *look = look_of(op);
    int64_t rev;
    look->status = store_flow_rev_result(&look->query, &rev);
    if (look->status != OK)
        return OP_DONE;
    struct flow_seen *kept = flow_seen_find(look->service->seen, look->account_id, look->id);
    if (kept && kept->rev == rev)
        look->seen = flow_seen_ref(kept);
    else
        look->seen = flow_run_seen(look->service, look->account_id, look->id, rev);
    return look->seen ? OP_DONE : OP_NEXT;
}

static enum op_result step_load(struct op *op)
{
    struct flow_look *look = look_of(op);
    store_flow_load(look->service->config.pool, &look->query, op, look->account_id, look->id,
                    false);
    return OP_WAIT;
}

static enum op_result look_end(struct flow_look *look)
{
    look->status = look->find.status;
    look->tmpl = look->find.tmpl;
    if (look->status != OK || !look->wants_view)
        return OP_DONE;
    look->seen = flow_seen_new(look->op.loop, &look->whole, look->tmpl);
    if (look->seen)
        flow_seen_keep(look->service->seen, look->seen);
    return OP_DONE;
}

static enum op_result step_loaded(struct op *op)
{
    struct flow_look *look = look_of(op);
    look->status = store_flow_load_result(&look->query, &look->whole);
    if (look->status != OK)
        return OP_DONE;
    struct uuid version = look->whole.flow.template_version;
    if (!flow_template_find(look->service, &look->find, version, op))
        return OP_WAIT;
    return look_end(look);
}

static enum op_result step_template(struct op *op)
{
    struct flow_look *look = look_of(op);
    flow_template_found(look->service, &look->find);
    return look_end(look);
}

static void look_cancel(struct op *op)
{
    struct flow_look *look = look_of(op);
    pg_cancel(&look->query);
    pg_cancel(&look->find.query);
}

static void look_free(struct op *op)
{
    struct flow_look *look = look_of(op);
    if (look->tmpl)
        flow_template_unref(look->tmpl);
    flow_seen_unref(look->seen);
    mem_free(look);
}

static const struct op_step look_steps[] = {
    [VIEW_CHECK_REV] = {"check_rev", step_check_rev, OP_TO(VIEW_LOAD)},
    [VIEW_CHECKED] = {"checked", step_checked, 0},
    [VIEW_LOAD] = {"load", step_load, 0},
    [VIEW_LOADED] = {"loaded", step_loaded, 0},
    [VIEW_TEMPLATE] = {"template", step_template, 0},
};

static const struct op_class look_class = {
    .name = "flow_view",
    .steps = look_steps,
    .step_count = ARRAY_LEN(look_steps),
    .on_cancel = look_cancel,
    .free = look_free,
};

static struct flow_look *start(struct flow_service *service, struct uuid account_id, struct uuid id,
                               struct op *parent, bool wants_view)
{
    ASSERT(parent);
    struct flow_look *look = mem_zalloc(sizeof(*look));
    if (!look)
        return NULL;
    look->service = service;
    look->account_id = account_id;
    look->id = id;
    look->status = ERR_BUSY;
    look->wants_view = wants_view;
    op_start(&look->op, &look_class, parent->loop, parent, LOOK_ARENA_BYTES_MAX);
    return look;
}

struct flow_look *flow_look_start(struct flow_service *service, struct uuid account_id,
                                  struct uuid id, struct op *parent)
{
    return start(service, account_id, id, parent, false);
}

struct flow_look *flow_look_start_view(struct flow_service *service, struct uuid account_id,
                                       struct uuid id, struct op *parent)
{
    return start(service, account_id, id, parent, true);
}

bool flow_look_has_ended(const struct flow_look *look)
{
    enum flow_status status = look->whole.flow.status;
    return status == FLOW_COMPLETED || status == FLOW_FAILED || status == FLOW_CANCELLED;
}

slice flow_look_view(struct flow_look *look)
{
    struct buf text;
    buf_init(&text, FLOW_VIEW_BYTES_MAX);
    flow_view_write(&text, &look->whole, look->tmpl);
    slice view = buf_is_ok(&text) ? arena_dup(&look->op.arena, buf_slice(&text)) : SLICE_NONE;
    buf_deinit(&text);
    return view;
}

/* ---- a page ---- */

static struct flow_page *page_of(struct op *op)
{
    return CONTAINER_OF(op, struct flow_page, op);
}

enum page_step { PAGE_LOAD, PAGE_LOADED, PAGE_WRITE, PAGE_TEMPLATE };

static enum op_result page_load(struct op *op)
{
    struct flow_page *page = page_of(op);
    store_flow_list(page->service->config.pool, &page->query, op, &page->filter);
    return OP_WAIT;
}

static enum op_result page_loaded(struct op *op)
{
    struct flow_page *page = page_of(op);
    page->status = store_flow_list_result(&page->query, &page->list, &page->count);
    if (page->status != OK)
        return OP_DONE;
    buf_append_char(&page->text, '[');
    if (!page->wants_rows)
        return OP_NEXT;
    page->rows = ARENA_ARRAY(&op->arena, struct flow_row, page->count + 1);
    if (page->rows)
        return OP_NEXT;
    page->status = ERR_NOMEM;
    return OP_DONE;
}

static struct flow_row row_of(struct flow_page *page, const struct flow *flow)
{
    struct arena *arena = &page->op.arena;
    const struct flow_template *tmpl = page->find.tmpl;
    return (struct flow_row){
        .id = flow->id,
        .name = arena_dup(arena, tmpl->name),
        .current_step = arena_dup(arena, tmpl->steps[flow_current_index(flow, tmpl)].key),
        .status = flow->status,
        .updated_at = flow->updated_at,
    };
}

/* The one at `next`, whose template was looked for. */
static void page_put(struct flow_page *page)
{
    ASSERT(page->next < page->count);
    const struct flow_listed *listed = &page->list[page->next];
    page->status = page->find.status;
    if (page->status != OK)
        return;
    if (page->wants_rows) {
        if (!page->need || flow_has_need(page->need, listed, page->find.tmpl, &page->op.arena))
            page->rows[page->row_count++] = row_of(page, &listed->flow);
    } else {
        if (page->next > 0)
            buf_append_char(&page->text, ',');
        flow_record_write(&page->text, listed, page->find.tmpl, page->filter.is_rows_alone);
    }
    page->next++;
    flow_template_unref(page->find.tmpl);
    page->find = (struct flow_template_find){0};
}

/* Contexts may be large: a page of such flows is shorter, and the next one goes on behind it. */
static bool page_is_full(const struct flow_page *page)
{
    return page->next == page->count || page->text.len > PAGE_BYTES;
}

static enum op_result page_write(struct op *op)
{
    struct flow_page *page = page_of(op);
    while (page->status == OK && !page_is_full(page)) {
        struct uuid version = page->list[page->next].flow.template_version;
        if (!flow_template_find(page->service, &page->find, version, op))
            return OP_WAIT;
        page_put(page);
    }
    buf_append_char(&page->text, ']');
    page->examined = page->count;
    if (page->need)
        page->count = page->row_count;
    return OP_DONE;
}

static enum op_result page_template(struct op *op)
{
    struct flow_page *page = page_of(op);
    flow_template_found(page->service, &page->find);
    page_put(page);
    return op_jump(op, PAGE_WRITE);
}

static void page_cancel(struct op *op)
{
    struct flow_page *page = page_of(op);
    pg_cancel(&page->query);
    pg_cancel(&page->find.query);
}

static void page_free(struct op *op)
{
    struct flow_page *page = page_of(op);
    buf_deinit(&page->text);
    mem_free(page);
}

static const struct op_step page_steps[] = {
    [PAGE_LOAD] = {"load", page_load, 0},
    [PAGE_LOADED] = {"loaded", page_loaded, 0},
    [PAGE_WRITE] = {"write", page_write, 0},
    [PAGE_TEMPLATE] = {"template", page_template, OP_TO(PAGE_WRITE)},
};

static const struct op_class page_class = {
    .name = "flow_page",
    .steps = page_steps,
    .step_count = ARRAY_LEN(page_steps),
    .on_cancel = page_cancel,
    .free = page_free,
};

static struct flow_page *start_page(struct flow_service *service, const struct flow_filter *filter,
                                    bool wants_rows, struct op *parent)
{
    struct flow_page *page = mem_zalloc(sizeof(*page));
    if (!page)
        return NULL;
    page->service = service;
    page->filter = *filter;
    page->filter.is_rows_alone |= wants_rows;
    page->wants_rows = wants_rows;
    page->status = ERR_BUSY;
    buf_init(&page->text, FLOW_VIEW_BYTES_MAX);
    op_start(&page->op, &page_class, parent->loop, parent, LOOK_ARENA_BYTES_MAX);
    return page;
}

struct flow_page *flow_page_start(struct flow_service *service, const struct flow_filter *filter,
                                  struct op *parent)
{
    return start_page(service, filter, false, parent);
}

struct flow_page *flow_page_start_rows(struct flow_service *service,
                                       const struct flow_filter *filter, struct op *parent)
{
    return start_page(service, filter, true, parent);
}

struct flow_page *flow_page_start_needing(struct flow_service *service,
                                          const struct flow_filter *filter,
                                          const struct flow_need *need, struct op *parent)
{
    ASSERT(filter->with_input);
    struct flow_page *page = start_page(service, filter, true, parent);
    if (page)
        page->need = need; /* before its first step */
    return page;
}
