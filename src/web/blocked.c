/*
 * A blocked run: why it was not tried, its input, and the same call with curl. The run is an event
 * of the audit trail. Its message and hint are kept with its input; without them, the page has the
 * reason's code. If the run was held, they are true only while its flow waits for the approval, so
 * the page has the present state of the flow. view_kept_input is for the page of an execution, too.
 */
#include "call/kept_input.h"
#include "call/summary.h"
#include "serve/foresee.h"
#include "serve/stored.h"
#include "store/audit.h"
#include "web/pages.h"

struct blocked {
    struct audit_event event;
    struct kept_input kept;
    const struct json *details; /* of the event */
    struct uuid id;
    const struct api_key *keys;
    size_t key_count;
    struct flow_page *held; /* NULL: the run was not held, or out of memory */
    struct pg_query input_query, keys_query;
};

void view_kept_input(struct web_request *request, struct json_writer *w, slice integration_id,
                     slice action_id, const struct kept_input *kept)
{
    const struct catalog_integration *app =
        catalog_find_integration(*request->web->config.catalog, integration_id, NULL);
    const struct catalog_action *action =
        serve_known(&request->serve, app ? catalog_find_action(app, action_id, NULL) : NULL);
    if (kept->input) {
        value_view(w, "tree_input", kept->input);
        value_view_text(w, "input", kept->input, VALUE_TEXT_BYTES_MAX);
    } else {
        json_member_str(w, "tree_input", SLICE_NONE);
        json_member_str(w, "input", SLICE_NONE);
    }
    json_member_str(w, "missing", kept->missing);
    json_member_bool(w, "is_write", action && action->requires_confirmation);
    view_action_curl(request, w, integration_id, action_id,
                     kept->input ? kept->input : view_example(action));
}

/* Writes the flow that held the run, as blocked.html declares it. */
static void write_held(const struct blocked *blocked, struct json_writer *w)
{
    const struct flow_row *flow =
        blocked->held && blocked->held->count > 0 ? &blocked->held->rows[0] : NULL;
    json_member_bool(w, "is_held", blocked->held != NULL);
    json_member_str(w, "flow_id",
                    flow ? json_get_str(blocked->details, SLICE("flow_id")) : SLICE_NONE);
    json_member_str(w, "flow_status",
                    flow ? view_flow_status(flow->status, flow->is_rejected) : SLICE_NONE);
    json_member_bool(w, "is_open", flow && flow->waiting_for == FLOW_WAITS_APPROVAL);
}

static enum op_result reply_blocked(struct web_request *request)
{
    const struct blocked *blocked = request->state;
    const struct audit_event *event = &blocked->event;
    const struct json *details = blocked->details;
    struct arena *arena = &request->serve.op.arena;
    if (blocked->held && blocked->held->status != OK)
        return web_reply_database(request, blocked->held->status);
    slice app_id = json_get_str(details, SLICE("integration_id"));
    slice action_id = json_get_str(details, SLICE("action_id"));
    struct uuid key_id = audit_actor_key(event->by.actor);
    struct json_writer *w = view_begin(request);
    view_names(request, w, app_id, action_id);
    json_member_str(w, "integration_id", app_id);
    json_member_str(w, "action_id", action_id);
    json_member_str(w, "code", exec_reason_code(event->reason));
    json_member_str(w, "message", blocked->kept.message);
    json_member_str(w, "hint", exec_hint_of_people(blocked->kept.hint));
    view_key(w, key_id, view_key_label(arena, blocked->keys, blocked->key_count, key_id));
    view_time(w, "started_at", uuid_v7_wall_ms(event->id) * 1000);
    view_id(w, "id", event->id);
    write_held(blocked, w);
    view_kept_input(request, w, app_id, action_id, &blocked->kept);
    return web_reply_view(request, 200, "blocked");
}

/* Loads the flow of a run that was held. */
static enum op_result load_held(struct web_request *request)
{
    struct blocked *blocked = request->state;
    struct flow_filter filter = {.account_id = request->session.account_id,
                                 .payer_id = serve_payer(&request->serve),
                                 .status = -1,
                                 .limit = 1};
    if (!uuid_parse(json_get_str(blocked->details, SLICE("flow_id")), &filter.id))
        return reply_blocked(request);
    blocked->held = flow_page_start_rows(request->web->config.flow, &filter, request->serve.policy,
                                         &request->serve.op);
    return blocked->held ? web_wait(request, reply_blocked)
                         : web_reply_database(request, ERR_NOMEM);
}

static enum op_result on_event(struct web_request *request)
{
    struct blocked *blocked = request->state;
    struct api_key *keys = NULL;
    int status = store_audit_get_result(&request->query, &blocked->event);
    slice kind = audit_kind_name(AUDIT_EXECUTION_BLOCKED);
    if (status == ERR_NOTFOUND || (status == OK && !slice_eq(blocked->event.kind, kind)))
        return web_reply_missing(request, "There is no such execution.");
    if (status == OK)
        blocked->details = json_parse(&request->serve.op.arena, blocked->event.details,
                                      &json_limits_provider, NULL);
    /* as in the list of executions: a policy that denies the action hides its inputs, too */
    if (status == OK && !serve_gives(&request->serve, *request->web->config.catalog,
                                     json_get_str(blocked->details, SLICE("integration_id")),
                                     json_get_str(blocked->details, SLICE("action_id"))))
        return web_reply_missing(request, "There is no such execution.");
    if (status == OK)
        status = store_api_key_list_result(&blocked->keys_query, &keys, &blocked->key_count);
    blocked->keys = keys;
    if (status == OK)
        status = kept_input_result(&blocked->input_query, request->web->config.ring,
                                   request->session.account_id, blocked->id,
                                   &request->serve.op.arena, &blocked->kept);
    return status == OK ? load_held(request) : web_reply_database(request, status);
}

enum op_result web_blocked(struct web_request *request)
{
    struct blocked *blocked = web_state_new(request, sizeof(*blocked));
    struct pg_pool *pool = request->web->config.pool;
    struct op *op = &request->serve.op;
    struct uuid account_id = request->session.account_id;
    if (!blocked)
        return OP_DONE;
    if (!web_path_uuid(request, 0, &blocked->id))
        return OP_DONE;
    request->on_cancel = NULL;
    store_audit_get(pool, &request->query, op, account_id, blocked->id);
    store_execution_input_get(pool, &blocked->input_query, op, account_id, blocked->id);
    store_api_key_list(pool, &blocked->keys_query, op, serve_payer(&request->serve));
    return web_wait(request, on_event);
}
