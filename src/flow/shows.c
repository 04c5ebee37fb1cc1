/*
 * What the ids of the calls that an approval confirms mean, in the app's words (`shows` of
 * contrib/integrations/README.md). They are read once, before the approval begins, and stored with
 * it: at most FLOW_READS_MAX reads in READS_MS. Each call's dry run makes its reads (exec/shows.c),
 * with the connection of the call, within its limits and without a record. A call without texts is
 * shown with its ids, which are named as unread (plan_park.c).
 */
#include "catalog/target.h"
#include "flow/internal.h"

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

void flow_shows_add(struct flow_run *run, size_t item, const struct catalog_action *action,
                    const struct json *input, int64_t connection_id)
{
    struct flow_shows *shows = &run->plan.shows;
    unsigned reads = 0;
    for (unsigned i = 0; i < action->show_count; i++)
        reads += target_input_at(input, action->shows[i].member) != NULL;
    if (shows->is_read || reads == 0 || reads > shows->reads_left)
        return;
    struct arena *arena = flow_run_scratch(run);
    struct flow_show *show = &shows->items[shows->count];
    *show = (struct flow_show){
        .item = item,
        .integration_id = arena_dup(arena, action->integration->integration_id),
        .action_id = arena_dup(arena, action->action_id),
        .input = json_dup(arena, input),
        .connection_id = connection_id,
    };
    if (!show->integration_id.ptr || !show->action_id.ptr || !show->input)
        return;
    shows->reads_left -= reads;
    shows->count++;
}

/* The scopes are the same as for the flow's own reads (call.c). */
void flow_shows_read(struct flow_run *run)
{
    struct flow_shows *shows = &run->plan.shows;
    for (size_t i = 0; i < shows->count; i++) {
        struct flow_show *show = &shows->items[i];
        struct exec_request read = {
            .account_id = run->flow.account_id,
            .by = {.actor = run->whole.actor, .request_id = run->op.request_id},
            .scopes = SCOPE_ALL,
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

void flow_shows_take(struct flow_run *run)
{
    struct flow_shows *shows = &run->plan.shows;
    struct arena *arena = flow_run_scratch(run);
    for (size_t i = 0; i < shows->count; i++) {
        struct flow_show *show = &shows->items[i];
        bool is_made = show->exec && exec_outcome_of(show->exec)->is_dry_run;
        if (is_made)
            show->texts = JSON_GET(json_parse(arena, arena_dup(arena, exec_summary_of(show->exec)),
                                              &json_limits_provider, NULL),
                                   "shows");
        show->exec = NULL;
    }
    shows->is_read = true;
}

const struct json *flow_shows_of(const struct flow_run *run, size_t item)
{
    for (size_t i = 0; i < run->plan.shows.count; i++)
        if (run->plan.shows.items[i].item == item)
            return run->plan.shows.items[i].texts;
    return NULL;
}
