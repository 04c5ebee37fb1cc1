/*
 * The person who resumed or cancelled a flow; see doer.h.
 */
#include "flow/doer.h"

#include "json/json.h"

enum {
    MARGIN_MS = 10000, /* for different clocks, and for the time until the event is written */
    EVENTS_MAX = 100
};

void flow_doer_ask(struct pg_pool *pool, struct op *op, struct uuid account_id,
                   struct flow_doer *doer)
{
    int64_t at_ms = doer->at / 1000, after_ms = doer->after / 1000;
    int64_t since_ms = at_ms - MARGIN_MS > after_ms ? at_ms - MARGIN_MS : after_ms;
    const struct store_page around = {.since = uuid_v7_floor(since_ms),
                                      .before = uuid_v7_floor(at_ms + MARGIN_MS),
                                      .count_max = EVENTS_MAX};
    store_audit_list(pool, &doer->query, op, account_id, &around, audit_kind_name(doer->kind),
                     SLICE_NONE);
}

int flow_doer_result(const struct flow_doer *doer, struct uuid flow_id, slice *by, int64_t *done_at)
{
    struct audit_event *events;
    size_t count;
    struct uuid next, id;
    int64_t nearest = INT64_MAX;
    int status = store_audit_list_result(&doer->query, &events, &count, &next);
    if (status != OK)
        return status;
    *by = SLICE_NONE;
    for (size_t i = 0; i < count; i++) {
        const struct json *details =
            json_parse(&doer->query.wait.op->arena, events[i].details, &json_limits_request, NULL);
        int64_t at = uuid_v7_wall_ms(events[i].id) * 1000;
        int64_t distance = at > doer->at ? at - doer->at : doer->at - at;
        if (distance >= nearest || !uuid_parse(json_get_str(details, SLICE("flow_id")), &id) ||
            !uuid_eq(id, flow_id))
            continue;
        nearest = distance;
        *by = events[i].by.actor;
        *done_at = at;
    }
    return OK;
}
