/*
 * From one decision to the next; see flow_next.h.
 */
#include "web/flow_next.h"

#include "flow/flow.h"
#include "store/flow_inbox.h"
#include "web/flow_decision.h"

void flow_next_ask(struct web_request *request, struct pg_query *query, struct uuid flow_id)
{
    store_flow_near(request->web->config.pool, query, &request->serve.op,
                    request->session.account_id, flow_id, web_given_flows(request));
}

/* Returns how many wait after the next one, such as "6", or "98+" if the list is cut; SLICE_NONE if
 * none does. */
static slice more_than(struct web_request *request, int64_t others)
{
    return others > 1 ? arena_printf(&request->serve.op.arena, "%lld%s", (long long)others - 1,
                                     others >= FLOW_INBOX_MAX - 1 ? "+" : "")
                      : SLICE_NONE;
}

int flow_next_view(struct web_request *request, const struct pg_query *query, struct json_writer *w)
{
    struct flow_near *near = NULL;
    size_t count = 0;
    int status = query->stmt ? store_flow_near_result(query, &near, &count) : OK;
    if (count == 0) {
        json_member_str(w, "next", SLICE_NONE);
        return status;
    }
    slice name = view_template_name(request, near[0].template_key);
    json_member_open(w, "next", '{');
    view_id(w, "id", near[0].id);
    json_member_str(w, "title", near[0].title.len > 0 ? near[0].title : name);
    json_member_str(w, "more", more_than(request, near[0].others));
    view_id(w, "previous", near[count - 1].id);
    json_close(w, '}');
    return OK;
}

static enum op_result finish_next(struct web_request *request)
{
    struct flow_near *near;
    size_t count;
    char id[UUID_TEXT_LEN + 1];
    /* The decision is made even if this read fails. */
    if (store_flow_near_result(&request->query, &near, &count) != OK || count == 0)
        return web_reply_redirect(request, SLICE("/approvals"), "decided");
    uuid_format(near[0].id, id);
    return web_reply_redirect(request, arena_printf(&request->serve.op.arena, "/flows/%s", id),
                              "decided");
}

enum op_result flow_next_go(struct web_request *request, struct uuid flow_id)
{
    flow_next_ask(request, &request->query, flow_id);
    return web_wait(request, finish_next);
}
