/*
 * The audit event of a blocked run, with its input, if inputs are kept. It is written in the
 * background: if it cannot be written, it is counted as lost.
 */
#include "base/metric.h"
#include "exec/internal.h"

static struct metric lost_total = METRIC_INIT("sluice_audit_events_lost_total",
                                              "Blocked runs without an event in the audit trail.",
                                              METRIC_COUNTER);

struct audit {
    struct store_later later;
    struct exec_service *service;
    struct audit_event event;
};

static void send_audit(struct store_later *later)
{
    struct audit *audit = CONTAINER_OF(later, struct audit, later);
    struct pg_pool *pool = later->laters->pool;
    if (audit->event.input.sealed.ptr)
        store_audit_insert_input(pool, &later->query, &later->op, &audit->event);
    else
        store_audit_insert(pool, &later->query, &later->op, &audit->event);
}

static void end_audit(struct store_later *later, enum op_end end)
{
    struct audit *audit = CONTAINER_OF(later, struct audit, later);
    audit->service->blocked_input_bytes -= audit->event.input.sealed.len;
    if (end != OP_ENDED_DONE || later->query.status != OK)
        metric_inc(&lost_total);
}

static const struct store_later_class audit_class = {
    STORE_LATER(store_later_once, "audit", struct audit),
    .send = send_audit,
    .on_end = end_audit,
    .failure = "an audit event was lost",
};

static slice audit_details(const struct exec *exec, struct arena *arena)
{
    struct json_text text;
    struct json_writer *w = json_text_begin(&text, 8192);
    json_open(w, '{');
    json_member_str(w, "integration_id", slice_first(exec->out.integration_id, 200));
    json_member_str(w, "action_id", slice_first(exec->out.action_id, 200));
    exec_put_decider(exec, w);
    if (exec->out.approval)
        json_member_uuid(w, "flow_id", exec->out.approval->flow_id);
    json_close(w, '}');
    return json_text_take(&text, arena);
}

void exec_audit_blocked(struct exec *exec)
{
    ASSERT(exec_reason_is_blocked(exec->out.reason) && !exec->in.is_recorded_by_caller);
    struct audit_event event = {
        .account_id = exec->in.account_id,
        .id = uuid_v7(),
        .kind = audit_kind_name(AUDIT_EXECUTION_BLOCKED),
        .reason = slice_cstr(exec_reason_name(exec->out.reason)),
    };
    exec_input_keep_blocked(exec, &event);
    size_t input_bytes = event.input.sealed.len;
    struct audit *audit = store_later(&exec->service->audits, &audit_class, NULL,
                                      input_bytes + event.input.words.len);
    if (!audit) {
        metric_inc(&lost_total);
        return;
    }
    struct arena *arena = &audit->later.op.arena;
    op_account_set(&audit->later.op, exec_payer(exec));
    event.by = audit_by_dup(&exec->in.by, arena);
    event.details = audit_details(exec, arena);
    if (input_bytes > 0) {
        event.input.sealed = arena_dup(arena, event.input.sealed);
        if (event.input.words.ptr)
            event.input.words = arena_dup(arena, event.input.words);
    }
    audit->service = exec->service;
    audit->event = event;
    exec->service->blocked_input_bytes += event.input.sealed.len;
}
