/*
 * What the ids of the calls that an approval confirms mean, in the app's words (`shows` of
 * contrib/integrations/README.md). They are read once, before the approval begins, and stored with
 * it: at most FLOW_READS_MAX reads in READS_MS. The dry run of a call makes its reads
 * (exec/shows.c), with the connection of the call, within its limits and without a record, once for
 * all calls that need the same. A call without texts is shown with its ids, which are named as
 * unread (plan_park.c).
 */
#include "catalog/target.h"
#include "flow/internal.h"
#include "json/scan.h"

enum { READS_MS = 2000 };

bool flow_shows_are_due(const struct flow_run *run)
{
    return run->plan.kind == FLOW_PLAN_PARK && run->plan.shows.count > 0 &&
           !run->plan.shows.is_read;
}

void flow_shows_begin(struct flow_run *run)
{
    struct flow_shows *shows = &run->plan.shows;
    if (shows->is_read)
        return;
    shows->count = 0;
    shows->reads_left = FLOW_READS_MAX;
}

static bool find_input(void *user, const struct expr *expr, slice where)
{
    slice source = expr_source(expr);
    bool *is_found = user;
    (void)where;
    *is_found |= slice_find(source, SLICE("input")) >= 0 || slice_find(source, SLICE("@")) >= 0 ||
                 slice_find(source, SLICE("$")) >= 0;
    return !*is_found;
}

/* Returns {member: what its text is made from}: the input of the read, and the whole input of the
 * call if the text uses that, too. Calls of one action for which it is equal have equal texts. */
static struct json sources_of(const struct catalog_action *action, const struct json *input,
                              struct arena *arena)
{
    struct json sources = json_object(), root = json_object();
    json_object_set(arena, &root, SLICE("input"), *input);
    for (unsigned i = 0; i < action->show_count; i++) {
        const struct catalog_show *show = &action->shows[i];
        struct json source = json_array(), value;
        struct expr_budget budget;
        bool is_input_used = false;
        if (!target_has_show(show, input, arena))
            continue;
        expr_budget_init(&budget);
        for (size_t j = 0; j < show->input.count; j++) {
            bool is_made = expr_template_eval(show->input.items[j].value, &root, 0, &budget, arena,
                                              &value, NULL) == OK;
            json_array_push(arena, &source, is_made ? value : json_null);
        }
        expr_template_each_expr(show->text, find_input, &is_input_used);
        if (show->version)
            expr_template_each_expr(show->version, find_input, &is_input_used);
        if (is_input_used)
            json_array_push(arena, &source, *input);
        json_object_set(arena, &sources, show->member, source);
    }
    return sources;
}

static bool show_is_of(const struct flow_show *show, const struct catalog_action *action,
                       int64_t connection_id, const struct json *sources)
{
    return slice_eq(show->integration_id, action->integration->integration_id) &&
           slice_eq(show->action_id, action->action_id) && show->connection_id == connection_id &&
           json_equal(show->sources, sources);
}

struct flow_show *flow_shows_find(struct flow_run *run, const struct catalog_action *action,
                                  const struct json *input, int64_t connection_id)
{
    struct flow_shows *shows = &run->plan.shows;
    struct arena *arena = flow_run_scratch(run);
    const struct json sources = sources_of(action, input, arena);
    for (size_t i = 0; i < shows->count; i++)
        if (show_is_of(&shows->items[i], action, connection_id, &sources))
            return &shows->items[i];
    if (shows->is_read || sources.count == 0 || sources.count > shows->reads_left)
        return NULL;
    struct flow_show *show = &shows->items[shows->count];
    *show = (struct flow_show){
        .integration_id = arena_dup(arena, action->integration->integration_id),
        .action_id = arena_dup(arena, action->action_id),
        .input = json_dup(arena, input),
        .sources = json_dup(arena, &sources), /* the catalog's constants may be in it */
        .connection_id = connection_id,
    };
    if (!show->integration_id.ptr || !show->action_id.ptr || !show->input || !show->sources)
        return NULL;
    shows->reads_left -= (unsigned)sources.count;
    shows->count++;
    return show;
}

/* The scopes are the same as for the flow's own reads (call.c). The asking key of a held call can
 * read its approval, so the approval shows only what that key may read itself. */
static uint32_t scopes_of(const struct flow_run *run)
{
    bool may_read = !run->tmpl->is_held || json_get_bool(run->input, SLICE("reads"), true);
    return may_read ? SCOPE_ALL : SCOPE_EXECUTE_WRITE;
}

void flow_shows_read(struct flow_run *run)
{
    struct flow_shows *shows = &run->plan.shows;
    for (size_t i = 0; i < shows->count; i++) {
        struct flow_show *show = &shows->items[i];
        struct exec_request read = {
            .account_id = run->flow.account_id,
            .by = {.actor = run->whole.actor,
                   .request_id = run->op.request_id,
                   .parent_id = run->flow.parent_id},
            .scopes = scopes_of(run),
            .policy = run->policy.policy,
            .user = run->policy.user,
            .integration_id = show->integration_id,
            .action_id = show->action_id,
            .input = show->input,
            .connection_id = show->connection_id,
            .is_dry_run = true,
            .wants_shows = true,
            .is_recorded_by_caller = true,
            .deadline_ns = loop_now_ns(run->op.loop) + READS_MS * UINT64_C(1000000),
        };
        show->exec = exec_start(run->service->config.exec, &read, &run->op);
    }
}

void flow_shows_cancel(struct flow_run *run)
{
    for (size_t i = 0; i < run->plan.shows.count; i++)
        if (run->plan.shows.items[i].exec)
            exec_cancel(run->plan.shows.items[i].exec);
}

/* Of the summary only these members are parsed: the request in it may be large. */
static const struct json *parse_member(const struct flow_show *show, slice name,
                                       struct arena *arena)
{
    slice text = json_scan_get(exec_summary_of(show->exec), name, arena);
    return text.ptr ? json_parse(arena, arena_dup(arena, text), &json_limits_provider, NULL) : NULL;
}

void flow_shows_take(struct flow_run *run)
{
    struct flow_shows *shows = &run->plan.shows;
    struct arena *arena = flow_run_scratch(run);
    for (size_t i = 0; i < shows->count; i++) {
        struct flow_show *show = &shows->items[i];
        bool is_made = show->exec && exec_outcome_of(show->exec)->is_dry_run;
        show->is_passing = !show->exec || exec_outcome_of(show->exec)->is_unread_passing;
        show->texts = is_made ? parse_member(show, SLICE("shows"), arena) : NULL;
        show->versions = is_made ? parse_member(show, SLICE("versions"), arena) : NULL;
        show->exec = NULL;
    }
    shows->is_read = true;
}
