/*
 * What an approval has shown of the ids in its calls (shows.c), read again right before the calls
 * are made. A person has approved what they read, and the app's object may have changed since: a
 * draft that is sent by its id can be edited. If a text differs now, or the version of the object
 * if the app has one, or it cannot be read any more, nothing is called. An id that was shown
 * without a text was approved as an id.
 *
 * What the flow itself may have changed is not compared: a call after another write of the flow to
 * the same app, one whose earlier attempt may have done it and which may be repeated, and the items
 * of a fan-out whose texts are those of such an item or of a completed one, too.
 */
#include "flow/internal.h"

enum {
    /* A comparison counts for so long: the intent is recorded after it. A call that cannot be sent
     * now is tried again and again, so its reads would take all of its connection's limits. */
    FRESH_MS = 1000,
    FRESH_UNSENT_MS = 5000,
};

/* Returns the input of the approval that confirms the planned calls, as its row has it; SLICE_NONE:
 * another confirmation, or none. */
static slice approved_input(const struct flow_run *run)
{
    const struct flow_step_def *step = flow_run_step(run);
    if (step->confirm != FLOW_CONFIRM_APPROVAL)
        return SLICE_NONE;
    for (size_t i = 0; i < run->whole.step_count; i++) {
        const struct flow_step *row = &run->whole.steps[i];
        if (row->step_index == (int64_t)step->confirm_step && row->is_completed)
            return row->input;
    }
    return SLICE_NONE;
}

static const struct catalog_action *action_of(const struct flow_run *run, size_t step)
{
    const struct flow_step_def *def = &run->tmpl->steps[step];
    return def->type == FLOW_TOOL_CALL ? catalog_find_tool(*run->service->config.catalog, def->tool)
                                       : NULL;
}

/* Whether the flow has written to the app since the approval. */
static bool has_written(const struct flow_run *run, const struct catalog_action *action)
{
    for (size_t i = flow_run_step(run)->confirm_step + 1; i < run->plan.step; i++) {
        const struct catalog_action *earlier = run->outputs[i].is_there ? action_of(run, i) : NULL;
        if (earlier && earlier->level != LEVEL_READ && earlier->integration == action->integration)
            return true;
    }
    return false;
}

/* Notes one call of the approval, which was shown with texts. */
static void note_call(struct flow_run *run, const struct catalog_action *action,
                      const struct json *call, bool is_completed)
{
    static const struct json none = {.type = JSON_OBJECT};
    const struct json *input = JSON_GET(call, "input"), *connection = JSON_GET(call, "connection");
    struct flow_show *show = flow_shows_find(run, action, input ? input : &none,
                                             connection ? flow_connection_id(connection) : 0);
    if (!show) {
        run->plan.shows.is_lost |= !is_completed;
        return;
    }
    show->is_changed |= is_completed;
    show->approved = call;
}

/* The texts of what may have been changed by the flow are not read. */
static void drop_changed(struct flow_shows *shows)
{
    size_t kept = 0;
    for (size_t i = 0; i < shows->count; i++)
        if (!shows->items[i].is_changed)
            shows->items[kept++] = shows->items[i];
    shows->count = kept;
}

/* Of an action that the catalog does not have, the call is refused. */
static void note_calls(struct flow_run *run)
{
    const struct flow_step_def *step = flow_run_step(run);
    const struct catalog_action *action = action_of(run, run->plan.step);
    slice text = approved_input(run);
    if (!action || !text.ptr || slice_find(text, SLICE("\"shows\"")) < 0 ||
        has_written(run, action))
        return;
    const struct json *approved =
        json_parse(flow_run_scratch(run), text, &json_limits_provider, NULL);
    const struct json *calls = JSON_GET(approved, "items");
    run->plan.shows.reads_left = FLOW_READS_MAX;
    run->plan.shows.is_lost = !json_is(calls, JSON_ARRAY); /* out of memory */
    size_t item = 0;
    for (uint32_t i = 0; json_is(calls, JSON_ARRAY) && i < calls->count; i++) {
        const struct json *call = &calls->as.items[i];
        if (!slice_eq(json_get_str(call, SLICE("stepKey")), step->key))
            continue;
        if (JSON_GET(call, "shows"))
            note_call(run, action, call, step->for_each && flow_fan_has_done(run, item));
        item++;
    }
    drop_changed(&run->plan.shows);
}

bool flow_compare_is_due(struct flow_run *run)
{
    struct flow_shows *shows = &run->plan.shows;
    bool is_call = run->plan.kind == FLOW_PLAN_CALL;
    ASSERT(is_call || run->plan.kind == FLOW_PLAN_FAN_OUT);
    if (is_call && run->progress.is_in_doubt && flow_call_is_safe(run, run->plan.step))
        return false; /* it was compared before its first attempt */
    if (!shows->is_noted)
        note_calls(run);
    shows->is_noted = true;
    uint64_t age_ns = loop_now_ns(run->op.loop) - shows->compared_ns;
    unsigned fresh_ms = run->progress.unsent > 0 ? FRESH_UNSENT_MS : FRESH_MS;
    if (shows->compared_ns > 0 && age_ns < fresh_ms * UINT64_C(1000000))
        return false;
    shows->is_read = false;
    return shows->count > 0 || shows->is_lost;
}

/* ---- the comparison ---- */

/* In doubt, an earlier attempt has or may have had an effect. */
static const char *not_made(const struct flow_run *run)
{
    bool is_in_doubt = run->progress.is_in_doubt;
    if (run->plan.kind == FLOW_PLAN_FAN_OUT)
        return is_in_doubt ? "No further call was made." : "No call was made.";
    return is_in_doubt ? "The call was not made again." : "The call was not made.";
}

/* If the texts are equal, something else has changed. */
static struct flow_error changed_error(struct flow_run *run, slice member, slice was, slice now)
{
    struct arena *arena = flow_run_scratch(run);
    slice how = slice_eq(was, now)
                    ? arena_printf(arena, "it is another version of \"%.*s\" now", SLICE_ARG(was))
                    : arena_printf(arena, "it was \"%.*s\", and is \"%.*s\" now", SLICE_ARG(was),
                                   SLICE_ARG(now));
    return flow_error_make(
        "policy_blocked",
        arena_printf(arena, "What %.*s means has changed since it was approved: %.*s. %s",
                     SLICE_ARG(member), SLICE_ARG(how), not_made(run)),
        run->tmpl->is_held
            ? SLICE("Send the request again with a new idempotency_key, to ask for an approval of "
                    "what is there now.")
            : SLICE("Start another flow, to ask for an approval of what is there now. Resume makes "
                    "the call only if it reads as it was approved."));
}

/* The object was read, but the app's answer does not have its version. */
static struct flow_error unversioned_error(struct flow_run *run, slice member, slice text)
{
    return flow_error_make(
        "policy_blocked",
        arena_printf(flow_run_scratch(run),
                     "What %.*s means reads \"%.*s\" as it was approved, but the app does not say "
                     "any more which version of it that is. %s",
                     SLICE_ARG(member), SLICE_ARG(text), not_made(run)),
        run->tmpl->is_held
            ? SLICE("Send the request again with a new idempotency_key, to ask for an approval of "
                    "what is there now.")
            : SLICE("Start another flow, to ask for an approval of what is there now. Resume reads "
                    "it again, and makes the call if it is the approved version."));
}

/* An app that cannot be read now is tried again, as it is before any call. */
static struct flow_error unread_error(struct flow_run *run, slice member, slice was,
                                      bool is_passing)
{
    struct flow_error error = flow_error_make(
        is_passing ? "execution_failed" : "policy_blocked",
        arena_printf(flow_run_scratch(run),
                     "What %.*s means could not be read again. It was \"%.*s\" when it was "
                     "approved. %s",
                     SLICE_ARG(member), SLICE_ARG(was), not_made(run)),
        is_passing ? SLICE("Resume reads it again, and makes the call if it is unchanged.")
        : run->tmpl->is_held ? SLICE("Check whether it is still there. Send the request again with "
                                     "a new idempotency_key, to ask for another approval.")
                             : SLICE("Check whether it is still there. Resume reads it again, and "
                                     "makes the call if it is unchanged."));
    error.is_retryable = error.is_passing = is_passing;
    return error;
}

/* The app's manifest has changed. */
static struct flow_error lost_error(struct flow_run *run)
{
    return flow_error_make(
        "policy_blocked",
        arena_printf(flow_run_scratch(run),
                     "The approval showed what ids mean, and the app's manifest does not say any "
                     "more how to read it. %s",
                     not_made(run)),
        run->tmpl->is_held ? SLICE("Send the request again with a new idempotency_key, to ask for "
                                   "another approval.")
                           : SLICE("Start another flow, to ask for another approval."));
}

/* Compares the approved members with those of now. The first one that differs or is missing makes
 * *error. */
static bool has_changed(struct flow_run *run, const struct flow_show *show,
                        const struct json *approved, const struct json *now,
                        struct flow_error *error)
{
    for (uint32_t i = 0; json_is(approved, JSON_OBJECT) && i < approved->count; i++) {
        slice name = json_str(&approved->as.members[i].key);
        slice was = json_str(&approved->as.members[i].value), is = json_get_str(now, name);
        slice text = json_get_str(JSON_GET(show->approved, "shows"), name);
        slice text_now = json_get_str(show->texts, name);
        if (slice_eq(was, is))
            continue;
        /* the texts were compared before the versions */
        *error = is.ptr         ? changed_error(run, name, text, text_now)
                 : text_now.ptr ? unversioned_error(run, name, text)
                                : unread_error(run, name, text, show->is_passing);
        return true;
    }
    return false;
}

enum flow_compared flow_compare_take(struct flow_run *run, const struct exec **refused,
                                     struct flow_error *error)
{
    struct flow_shows *shows = &run->plan.shows;
    ASSERT(shows->is_noted);
    *refused = NULL;
    for (size_t i = 0; i < shows->count && !*refused; i++) {
        const struct exec *exec = shows->items[i].exec;
        if (exec && !exec_outcome_of(exec)->is_dry_run)
            *refused = exec;
    }
    flow_shows_take(run);
    if (*refused)
        return FLOW_COMPARED_REFUSED;
    *error = flow_error_memory();
    if (flow_run_scratch(run)->is_exhausted)
        return FLOW_COMPARED_DIFFERS;
    for (size_t i = 0; i < shows->count; i++) {
        const struct flow_show *show = &shows->items[i];
        const struct json *texts = JSON_GET(show->approved, "shows");
        const struct json *versions = JSON_GET(show->approved, "versions");
        if (has_changed(run, show, texts, show->texts, error) ||
            has_changed(run, show, versions, show->versions, error))
            return FLOW_COMPARED_DIFFERS;
    }
    if (!shows->is_lost) {
        shows->compared_ns = loop_now_ns(run->op.loop);
        return FLOW_COMPARED_SAME;
    }
    *error = lost_error(run);
    return FLOW_COMPARED_DIFFERS;
}
