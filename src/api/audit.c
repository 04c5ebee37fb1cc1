/*
 * GET /api/audit: what happened to the account, newest first; `kind` filters ("key.created", or
 * "key" for all that begin so). An event has its actor ("key:<id>", "operator:<name>", "system"),
 * its time (at) and the client's address. It shows what every key of the account does, so it needs
 * the scope admin.
 */
#include "api/listing.h"
#include "store/audit.h"

static void load_events(struct api_request *request, struct listing *listing)
{
    store_audit_list(request->api->config.pool, &request->query, &request->serve.op,
                     request->serve.grant.account_id, &listing->page,
                     *(const slice *)listing->filter, SLICE_NONE);
}

static int read_events(struct api_request *request, void **items, size_t *count, struct uuid *next)
{
    struct audit_event *list;
    int status = store_audit_list_result(&request->query, &list, count, next);
    *items = list;
    return status;
}

/* The time is in the id (UUIDv7). details is a JSON object that the event's writer has made. */
static void put_event(struct json_writer *w, const void *item, struct arena *arena)
{
    const struct audit_event *event = item;
    (void)arena;
    json_open(w, '{');
    json_member_uuid(w, "id", event->id);
    json_member_time(w, "at", uuid_v7_wall_ms(event->id) * 1000);
    json_member_str(w, "kind", event->kind);
    json_member_str(w, "reason", event->reason);
    json_member_str(w, "actor", event->by.actor);
    json_member_str(w, "address", event->by.address);
    json_member_str(w, "request_id", event->by.request_id);
    json_member_raw(w, "details", event->details);
    json_close(w, '}');
}

/* "key.created", or "key" for all of the group. */
static bool is_kind(slice wanted)
{
    enum audit_kind at = 0;
    while (at < AUDIT_KIND_COUNT && !slice_eq(audit_kind_name(at), wanted) &&
           !slice_eq(audit_kind_group(at), wanted))
        at++;
    return at < AUDIT_KIND_COUNT;
}

static slice kinds_text(struct arena *arena)
{
    slice text = SLICE("");
    for (enum audit_kind at = 0; at < AUDIT_KIND_COUNT; at++)
        text = arena_printf(arena, "%.*s %.*s", SLICE_ARG(text), SLICE_ARG(audit_kind_name(at)));
    return text;
}

static const struct listing_kind kind = {
    "events",    load_events, sizeof(struct audit_event), offsetof(struct audit_event, id),
    read_events, put_event};

static enum op_result begin_event_list(struct api_request *request)
{
    slice *wanted = ARENA_NEW(&request->serve.op.arena, slice);
    if (!wanted)
        return api_reply_no_memory(request);
    if (!listing_read_word(request, "kind", wanted))
        return OP_DONE;
    if (wanted->len > 0 && !is_kind(*wanted))
        return api_reply_error(request, 400, "kind must be one of, or the first word of:%.*s",
                               SLICE_ARG(kinds_text(&request->serve.op.arena)));
    return listing_begin(request, &kind, wanted);
}

const struct api_endpoint api_audit_list = {
    .scope = SCOPE_ADMIN,
    .query = &(const struct api_names){.own = {"limit", "cursor", "kind"}},
    .begin = begin_event_list,
};
