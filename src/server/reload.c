/*
 * Reload; see reload.h.
 */
#include "server/reload.h"

#include <limits.h>
#include <signal.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/metric.h"
#include "loop/dir_watch.h"
#include "loop/op.h"
#include "store/flow.h"

enum { ARENA_BYTES_MAX = 64 * 1024, AGAIN_MS = 5000 };

enum step { STEP_IDLE, STEP_LOAD, STEP_PUBLISH, STEP_PUBLISHED, STEP_SWAP, STEP_AGAIN };

/* One op for the life of the server: it waits for a request, loads on a pool thread, swaps on
 * the loop, and waits again. */
struct reload {
    struct op op;
    struct op_job job;
    struct reload_config config;
    struct signal_watch on_hup;
    struct dir_watch watch, templates_watch;
    struct op_timer timer;
    bool is_idle;
    bool is_wanted, is_hup_wanted; /* a reload was requested after the current load began */
    bool is_hup;                   /* the current load includes the trust roots */
    uint64_t began_ns;
    /* results of the load */
    struct catalog_report report;
    struct catalog *catalog;
    struct flow_template_set *templates;
    struct tls_context *tls;
    struct err tls_err;
    struct pg_query query;
    size_t published; /* number of templates */
    bool is_unstored; /* a template could not be stored: the database is unreachable */
    char *templates_dir;
};

static struct metric reloads_total = METRIC_INIT(
    "sluice_catalog_reloads_total", "Reloads of the catalog by result.", METRIC_COUNTER);
static struct metric outdated = METRIC_INIT(
    "sluice_catalog_outdated",
    "1 while the manifests on disk have faults and older ones are served.", METRIC_GAUGE);
static struct metric actions =
    METRIC_INIT("sluice_catalog_actions", "Actions in the catalog in use.", METRIC_GAUGE);

OP_OF(reload_of, reload)

/* ---- the catalog ---- */

static void log_problems(const struct catalog_report *report)
{
    for (size_t i = 0; i < report->count; i++) {
        const struct catalog_problem *problem = &report->problems[i];
        log_event(problem->is_warning ? LOG_DEBUG : LOG_ERROR, "catalog file",
                  LOG_STR("file", problem->source), LOG_STR("at", problem->pointer),
                  LOG_STR("problem", problem->text));
    }
}

static struct catalog *load_catalog(const struct config *config, struct catalog_report *report)
{
    return catalog_load_all(config->catalog_dir.len > 0 ? config->catalog_dir.ptr : NULL, report);
}

struct catalog *reload_first_catalog(const struct config *config)
{
    struct catalog_report *report = catalog_report_new(NULL);
    /* At start there is no older set to keep; the caller exits, and the log has the errors. */
    if (!report)
        return NULL;
    struct catalog *catalog = load_catalog(config, report);
    log_problems(report);
    catalog_report_free(report);
    if (catalog)
        metric_set(metric_series(&actions, SLICE_NONE), (double)catalog->action_count);
    return catalog;
}

static void count_reload(const char *result, bool is_outdated)
{
    char text[32];
    int len = snprintf(text, sizeof(text), "result=\"%s\"", result);
    metric_add(metric_series(&reloads_total, slice_of(text, (size_t)len)), 1);
    /* An alarm can watch this gauge: it stays 1 until a reload succeeds. */
    metric_set(metric_series(&outdated, SLICE_NONE), is_outdated);
}

/* The first problem is in the log line itself, since an operator looks for it there. */
static void keep_old(struct reload *reload)
{
    const struct catalog_report *report = &reload->report;
    const struct catalog_problem none = {.text = SLICE("out of memory")}, *first = &none;
    /* The loop runs backwards, so that `first` ends at the first error. */
    for (size_t i = report->count; i > 0; i--)
        if (!report->problems[i - 1].is_warning)
            first = &report->problems[i - 1];
    count_reload("refused", true);
    log_event(LOG_ERROR, "the catalog was not reloaded; the old one stays in use",
              LOG_CSTR("because", reload->is_hup ? "SIGHUP" : "files changed"),
              LOG_INT("errors", report->error_count), LOG_STR("file", first->source),
              LOG_STR("at", first->pointer), LOG_STR("problem", first->text));
}

static bool are_same(const struct flow_template_set *a, const struct flow_template_set *b)
{
    /* Hashes of the templates' contents, including titles, which are not part of a version. */
    bool is_same = a->count == b->count;
    for (size_t i = 0; is_same && i < a->count; i++)
        is_same = uuid_eq(a->items[i]->whole, b->items[i]->whole);
    return is_same;
}

/* Executions and flows that started with the old versions keep a counted reference to them. */
static void swap_catalog(struct reload *reload)
{
    struct catalog *old = *reload->config.catalog;
    struct flow_template_set *old_templates = *reload->config.templates;
    const struct catalog *catalog = reload->catalog;
    bool is_same = strcmp(old->etag, catalog->etag) == 0 &&
                   are_same(old_templates, reload->templates);
    count_reload(is_same ? "unchanged" : "swapped", false);
    metric_set(metric_series(&actions, SLICE_NONE), (double)catalog->action_count);
    /* Editors may touch files without changing them; only SIGHUP expects an answer in the log. */
    log_event(is_same && !reload->is_hup ? LOG_TRACE : LOG_INFO,
              is_same ? "the catalog is unchanged" : "the catalog was reloaded",
              LOG_CSTR("because", reload->is_hup ? "SIGHUP" : "files changed"),
              LOG_INT("integrations", catalog->integration_count),
              LOG_INT("actions", catalog->action_count),
              LOG_INT("templates", reload->templates->count), LOG_CSTR("etag", catalog->etag),
              LOG_MS("ms", clock_mono_ns() - reload->began_ns));
    /* Readers load these pointers on the loop, so both change within one turn. */
    *reload->config.catalog = reload->catalog;
    *reload->config.templates = reload->templates;
    reload->catalog = NULL;
    reload->templates = NULL;
    flow_template_set_free(old_templates);
    catalog_unref(old);
    if (!is_same)
        mcp_listeners_tools_changed(reload->config.mcp_listeners, NULL);
}

/* ---- trust roots ---- */

static void swap_tls(struct reload *reload)
{
    if (!reload->tls) {
        log_event(LOG_ERROR, "the trust roots were not reloaded; the old ones stay in use",
                  LOG_CSTR("cause", reload->tls_err.text));
        return;
    }
    /* Open connections keep their original context, by reference. */
    http_client_tls_set(reload->config.client, reload->tls);
    trace_tls_set(reload->config.tracer, reload->tls);
    event_service_tls_set(reload->config.event, reload->tls);
    tls_context_unref(*reload->config.tls);
    *reload->config.tls = reload->tls;
    reload->tls = NULL;
    log_event(LOG_INFO, "the trust roots were reloaded",
              LOG_INT("roots", tls_context_root_count(*reload->config.tls)));
}

/* ---- the op ---- */

static void want(struct reload *reload, bool is_hup)
{
    /* Requests during a load are combined: however many there were, one more load follows. */
    reload->is_wanted = true;
    reload->is_hup_wanted |= is_hup;
    if (!reload->is_idle)
        return;
    reload->is_idle = false;
    op_release(&reload->op);
}

static void on_hup(struct signal_watch *watch, int signum)
{
    struct reload *reload = CONTAINER_OF(watch, struct reload, on_hup);
    (void)signum;
    reload->config.on_hup(reload->config.owner, false);
    want(reload, true);
}

static void on_change(struct dir_watch *watch)
{
    want(CONTAINER_OF(watch, struct reload, watch), false);
}

static void on_templates_change(struct dir_watch *watch)
{
    want(CONTAINER_OF(watch, struct reload, templates_watch), false);
}

static enum op_result step_idle(struct op *op)
{
    struct reload *reload = reload_of(op);
    arena_reset(&op->arena); /* frees the memory of earlier queries */
    if (reload->is_wanted)
        return OP_NEXT;
    reload->is_idle = true;
    op_hold(op, "a reason to reload");
    return OP_WAIT;
}

static void drop_catalog(struct reload *reload)
{
    flow_template_set_free(reload->templates);
    catalog_unref(reload->catalog);
    reload->templates = NULL;
    reload->catalog = NULL;
}

/* Runs on a pool thread: it accesses only the result members, which the loop reads afterwards. */
static void load_files(struct op *op)
{
    struct reload *reload = reload_of(op);
    const struct config *config = reload->config.config;
    slice ca_file = config->ca_file;
    struct tls_config tls = {.ca_file = ca_file.len > 0 ? ca_file.ptr : NULL};
    reload->catalog = load_catalog(config, &reload->report);
    if (reload->catalog)
        reload->templates =
            flow_template_set_load(config->catalog_dir.len > 0 ? config->catalog_dir.ptr : NULL,
                                   reload->catalog, &reload->report);
    /* Both are loaded or neither: templates refer to actions of this very catalog. */
    if (!reload->templates)
        drop_catalog(reload);
    /* Trust roots are read on SIGHUP only; certificate files are often replaced in several steps.
     */
    if (reload->is_hup)
        reload->tls = tls_context_new(&tls, &reload->tls_err);
}

static enum op_result step_load(struct op *op)
{
    struct reload *reload = reload_of(op);
    /* The flags are cleared before the load starts: later requests are for the next load. */
    reload->is_hup = reload->is_hup_wanted;
    reload->is_wanted = reload->is_hup_wanted = false;
    reload->began_ns = clock_mono_ns();
    reload->published = 0;
    reload->is_unstored = false;
    catalog_report_init(&reload->report);
    if (op_offload(op, &reload->job, load_files, "manifests and trust roots") == OK)
        return OP_WAIT;
    /* Without a thread the load runs on the loop: a slow turn is better than no reload. */
    load_files(op);
    return OP_NEXT;
}

/* A template of the current set is already stored. */
static bool is_stored(const struct reload *reload, const struct flow_template *tmpl)
{
    const struct flow_template *old = flow_template_set_find(*reload->config.templates, tmpl->key);
    return old && uuid_eq(old->version, tmpl->version);
}

/* A flow refers to its template's row, so the rows are stored before the set is used. */
static enum op_result step_publish(struct op *op)
{
    struct reload *reload = reload_of(op);
    const struct flow_template_set *set = reload->templates;
    while (set && reload->published < set->count &&
           is_stored(reload, set->items[reload->published]))
        reload->published++;
    if (!set || reload->published == set->count) {
        return op_jump(op, STEP_SWAP);
    }
    const struct flow_template *tmpl = set->items[reload->published];
    store_flow_template_insert(reload->config.pool, &reload->query, op, tmpl->version, tmpl->key,
                               tmpl->body, clock_shared_us());
    return OP_WAIT;
}

/* Without the database a new set cannot be used; the load is retried later. */
static enum op_result step_published(struct op *op)
{
    struct reload *reload = reload_of(op);
    if (store_done_result(&reload->query) == OK) {
        reload->published++;
        return op_jump(op, STEP_PUBLISH);
    }
    catalog_report_add(&reload->report, false, reload->templates->items[reload->published]->key,
                       SLICE_NONE, "template not stored, retrying: %.*s",
                       SLICE_ARG(reload->query.message));
    drop_catalog(reload);
    reload->is_unstored = reload->is_wanted = true;
    return OP_NEXT;
}

static enum op_result step_swap(struct op *op)
{
    struct reload *reload = reload_of(op);
    /* Warnings are also logged for a load that succeeded. */
    log_problems(&reload->report);
    if (reload->catalog)
        swap_catalog(reload);
    else
        keep_old(reload);
    catalog_report_deinit(&reload->report);
    if (reload->is_hup) {
        swap_tls(reload);
        reload->config.on_hup(reload->config.owner, true);
    }
    /* Only a failure of the database is retried; faulty files wait for the next change. */
    return reload->is_unstored ? OP_NEXT : op_jump(op, STEP_IDLE);
}

static enum op_result step_again(struct op *op)
{
    op_sleep(op, &reload_of(op)->timer, AGAIN_MS, "the database, to store templates");
    return op_wait_then(op, STEP_IDLE);
}

static void on_cancel(struct op *op)
{
    struct reload *reload = reload_of(op);
    signal_watch_stop(&reload->on_hup);
    dir_watch_stop(&reload->watch);
    dir_watch_stop(&reload->templates_watch);
    /* The hold that keeps the idle op waiting must be released here; no other code does it. */
    if (reload->is_idle)
        op_release(op);
    reload->is_idle = false;
}

/* Releases the results of a load that was cancelled. */
static void on_end(struct op *op, enum op_end end)
{
    struct reload *reload = reload_of(op);
    (void)end;
    drop_catalog(reload);
    tls_context_unref(reload->tls);
    catalog_report_deinit(&reload->report);
}

static void free_op(struct op *op)
{
    struct reload *reload = reload_of(op);
    mem_free(reload->templates_dir);
    mem_free(reload);
}

static const struct op_step steps[] = {
    [STEP_IDLE] = {"idle", step_idle, 0},
    [STEP_LOAD] = {"load", step_load, 0},
    [STEP_PUBLISH] = {"publish", step_publish, OP_TO(STEP_SWAP)},
    [STEP_PUBLISHED] = {"published", step_published, OP_TO(STEP_PUBLISH)},
    [STEP_SWAP] = {"swap", step_swap, OP_TO(STEP_IDLE)},
    [STEP_AGAIN] = {"again", step_again, OP_TO(STEP_IDLE)},
};

static const struct op_class reload_class = {
    .name = "reload",
    OP_STEPS(steps),
    .on_cancel = on_cancel,
    .on_end = on_end,
    .free = free_op,
};

/* Templates are in a subfolder, which may not exist yet: its watch then waits for it. */
static void watch_folders(struct reload *reload, slice dir)
{
    struct buf path;
    reload->watch.on_change = on_change;
    reload->templates_watch.on_change = on_templates_change;
    dir_watch_start(reload->config.loop, &reload->watch, dir.ptr);
    buf_init(&path, PATH_MAX);
    buf_printf(&path, "%.*s/templates", SLICE_ARG(dir));
    if (buf_is_ok(&path))
        reload->templates_dir = mem_strndup(path.ptr, path.len);
    buf_deinit(&path);
    if (reload->templates_dir)
        dir_watch_start(reload->config.loop, &reload->templates_watch, reload->templates_dir);
}

struct reload *reload_new(const struct reload_config *config, struct err *err)
{
    struct reload *reload = mem_zalloc(sizeof(*reload));
    if (!reload)
        return err_null(err, ERR_NOMEM, "out of memory for the reload");
    reload->config = *config;
    reload->on_hup.on_signal = on_hup;
    if (signal_watch_start(config->loop, &reload->on_hup, SIGHUP) != OK) {
        mem_free(reload);
        return err_null(err, ERR_IO, "cannot watch signals");
    }
    /* Without a folder only the built-in files exist, and SIGHUP reloads the trust roots. */
    if (config->config->catalog_dir.len > 0)
        watch_folders(reload, config->config->catalog_dir);
    op_start(&reload->op, &reload_class, config->loop, NULL, ARENA_BYTES_MAX);
    return reload;
}

void reload_free(struct reload *reload)
{
    if (reload)
        op_cancel(&reload->op);
}
