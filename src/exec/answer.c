/*
 * The answer of a run that has ended: the summary, with the output truncated to the caller's limit.
 */
#include "base/clock.h"
#include "call/fit.h"
#include "exec/internal.h"
#include "call/summary.h"
#include "json/scan.h"

enum {
    FIT_ON_LOOP_BYTES_MAX = 64 * 1024, /* a larger summary is truncated on a pool thread */
    LEFT_OUT_BYTES_MAX = 64 * 1024,    /* the summary of an answer without its output */
};

/* If the operator sets a default limit, a request can raise it up to a maximum; otherwise it
 * gets what it asks for, up to the whole output. */
static size_t output_bytes_max(const struct exec *exec)
{
    const struct exec_config *config = &exec->service->config;
    uint64_t asked = exec->in.output_bytes_max;
    if (asked == 0)
        return config->output_bytes;
    uint64_t most = config->output_bytes > 0 ? config->output_bytes_max : SIZE_MAX;
    return asked < most ? (size_t)asked : (size_t)most;
}

/* If the action is no longer in the catalog, its output is not reduced to a view. */
struct call_fit exec_wanted_fit(const struct exec *exec)
{
    const struct expr *view = exec->action ? exec->action->view : NULL;
    bool has_select = exec->in.select.ptr != NULL;
    return (struct call_fit){
        .execution_id = exec->out.execution_id,
        .select = exec->in.select,
        .view = view && exec->in.wants_view && !has_select ? expr_source(view) : SLICE_NONE,
        .is_full = view && exec->in.is_resource && !exec->in.wants_view && !has_select,
        .bytes_max = output_bytes_max(exec),
        .is_resource = exec->in.is_resource,
    };
}

static void fit_output(struct op *op)
{
    struct exec *exec = exec_of(op);
    struct call_fit wanted = exec_wanted_fit(exec);
    slice output;
    exec->fit_status =
        call_fit_summary(exec->summary_json, &wanted, &op->arena, &exec->summary_json, &output);
    if (output.ptr)
        exec->out.output_json = output;
    else if (exec->out.is_replayed)
        exec->out.output_json = json_scan_get(exec->summary_json, SLICE("output"), &op->arena);
}

enum op_result exec_step_fit_output(struct op *op)
{
    struct exec *exec = exec_of(op);
    exec->fit_status = OK;
    struct call_fit wanted = exec_wanted_fit(exec);
    bool is_whole = !wanted.select.ptr && !wanted.view.ptr &&
                    (wanted.bytes_max == 0 || exec->summary_json.len <= wanted.bytes_max);
    if (exec->out.reason != EXEC_SUCCEEDED || (is_whole && !exec->out.is_replayed))
        return OP_NEXT;
    /* a caller's expression may use its whole budget */
    bool is_long = exec->summary_json.len > FIT_ON_LOOP_BYTES_MAX || wanted.select.ptr;
    return op_run_job(op, &exec->job, is_long, fit_output, "its output to be cut");
}

/* Omits the output: it is stored, and the answer says where. For a replay, only what was stored
 * with the key is known. */
static void leave_output_out(struct exec *exec)
{
    struct exec_outcome *out = &exec->out;
    size_t bytes = out->is_replayed ? exec->key.found.summary_bytes : out->output_json.len;
    struct call_fit wanted = exec_wanted_fit(exec);
    exec->op.arena.bytes_max += LEFT_OUT_BYTES_MAX;
    out->output_json = call_fit_left_out(&wanted, bytes, &exec->op.arena);
    if (out->is_replayed) {
        out->effect = EXEC_EFFECT_DONE;
        out->display_title = exec->action ? exec->action->title : SLICE("Action run");
        out->display_summary = SLICE("It ran before, and its output is stored.");
    }
    exec->summary_json = exec_summary_render(out, &exec->op.arena);
}

enum op_result exec_step_answer(struct op *op)
{
    struct exec *exec = exec_of(op);
    struct exec_outcome *out = &exec->out;
    ASSERT(exec->key.state != EXEC_CLAIM_ASKED);
    ASSERT(!exec_reason_is_blocked(out->reason) || !exec_is_claimed(exec));
    /* A result is never withheld for lack of memory, as a 503 would do: the action has run. */
    ASSERT(exec->fit_status == OK || !uuid_is_nil(out->execution_id));
    if (exec->fit_status != OK)
        leave_output_out(exec);
    if (exec->in.is_in_doubt && exec_reason_is_blocked(out->reason))
        /* for a step of a flow: a refusal does not settle the doubt about an earlier attempt */
        exec_settle(exec);
    if (out->finished_us == 0)
        out->finished_us = clock_shared_us();
    if (exec_reason_is_blocked(out->reason)) {
        out->execution_id = (struct uuid){{0}};
        if (!exec->in.is_recorded_by_caller && !exec_is_known_hold(exec))
            exec_audit_blocked(exec);
    }
    /* copied, because the text may belong to the manifest */
    out->error_code = arena_dup(&op->arena, out->error_code);
    bool has_summary = !out->is_dry_run && !out->is_left_out && !exec->in.is_recorded_by_caller;
    if (exec->summary_json.len == 0 && has_summary)
        exec->summary_json = exec_summary_render(out, &op->arena);
    op_log(op, LOG_DEBUG, "execution ended", LOG_CSTR("outcome", exec_reason_name(out->reason)),
           LOG_STR("integration_id", out->integration_id), LOG_STR("action_id", out->action_id),
           LOG_INT("attempts", out->attempts), LOG_BOOL("replayed", out->is_replayed));
    return OP_DONE;
}
