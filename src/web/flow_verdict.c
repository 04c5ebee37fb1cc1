/*
 * The last decision on a flow, and its state in a sentence; see flow_verdict.h. A flow that waits
 * for a second decision shows both.
 */
#include "web/flow_verdict.h"

#include "flow/flow.h"

static bool is_approval(const struct json *step)
{
    return slice_eq_cstr(json_get_str(step, SLICE("stepType")), "approval");
}

slice flow_step_rejecter(const struct json *step, slice *note)
{
    return is_approval(step) ? flow_decider_of(NULL, JSON_GET(step, "error"), note) : SLICE_NONE;
}

bool flow_step_is_rejected(const struct json *step)
{
    slice note;
    return flow_step_rejecter(step, &note).ptr != NULL;
}

bool flow_is_rejected(const struct flow *flow, const struct json *steps)
{
    for (size_t i = 0; flow->status == FLOW_CANCELLED && i < steps->count; i++)
        if (flow_step_is_rejected(&steps->as.items[i]))
            return true;
    return false;
}

bool flow_may_go_on(const struct json *steps)
{
    for (size_t i = 0; i < steps->count; i++)
        if (!json_get_bool(JSON_GET(&steps->as.items[i], "error"), SLICE("resumable"), true))
            return false;
    return true;
}

/* Steps are in order, so the last decided one was decided last. */
static const struct json *last_decided(const struct json *steps, slice *by)
{
    for (size_t i = steps->count; i > 0; i--) {
        const struct json *step = &steps->as.items[i - 1];
        slice note;
        *by = is_approval(step)
                  ? flow_decider_of(JSON_GET(step, "output"), JSON_GET(step, "error"), &note)
                  : SLICE_NONE;
        if (by->ptr)
            return step;
    }
    return NULL;
}

bool flow_is_own_decision(struct web_request *request, const struct json *steps)
{
    slice by;
    return last_decided(steps, &by) && flow_actor_is_own(request, by);
}

static void write_actor(struct web_request *request, struct flow_names *names, slice actor,
                        struct json_writer *w)
{
    json_member_str(w, "by", actor.ptr ? flow_names_actor(names, actor) : SLICE_NONE);
    json_member_bool(w, "own", actor.ptr && flow_actor_is_own(request, actor));
}

void view_flow_state(struct web_request *request, struct flow_names *names, const struct flow *flow,
                     const struct json *steps, slice canceller, slice failed_step,
                     struct json_writer *w)
{
    static const char *const waits[] = {[FLOW_WAITS_NOT] = NULL,
                                        [FLOW_WAITS_TIME] = "time",
                                        [FLOW_WAITS_APPROVAL] = "approval",
                                        [FLOW_WAITS_RETRY] = "retry"};
    bool is_waiting = flow->status == FLOW_WAITING;
    slice by;
    const struct json *decided = last_decided(steps, &by);
    json_member_open(w, "state", '{');
    json_member_str(w, "status", view_flow_status(flow->status, flow_is_rejected(flow, steps)));
    json_member_str(w, "waits_for", slice_cstr(is_waiting ? waits[flow->waiting_for] : NULL));
    view_time(w, "until_at", flow_continues_at(flow));
    view_time(w, "at", flow->completed_at ? flow->completed_at : flow->updated_at);
    write_actor(request, names, canceller, w);
    json_member_str(w, "step", failed_step);
    if (decided) {
        bool is_approved = !flow_step_is_rejected(decided);
        json_member_open(w, "decided", '{');
        json_member_bool(w, "is_approved", is_approved);
        write_actor(request, names, by, w);
        json_member_str(
            w, "at",
            json_get_str(decided, is_approved ? SLICE("completedAt") : SLICE("updatedAt")));
        json_close(w, '}');
    } else {
        json_member_str(w, "decided", SLICE_NONE);
    }
    json_close(w, '}');
}
