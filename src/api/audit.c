/*
 * GET /api/audit: the account's events, newest first; `kind` filters ("key.created", or "key" for
 * all that begin with it), and `users=all` adds the events of the account's users. An event has its
 * actor ("key:<id>", "operator:<name>", "system"), its time (at) and the client's address. The list
 * shows the actions of every key of the account, so it needs the admin scope.
 */
#include "api/listing.h"
#include "serve/stored.h"
#include "store/audit.h"

enum { KIND, USERS, CURSOR };

static const struct serve_filter filters[SERVE_FILTERS_MAX] = {
    [KIND] = {.name = "kind", .words = AUDIT_KIND_WORDS, .wanted = AUDIT_KIND_WANTED},
    [USERS] = LISTING_USERS,
    [CURSOR] = LISTING_CURSOR};

static void load_events(struct api_request *request, struct serve_list *list)
{
    struct pg_pool *pool = request->api->config.pool;
    struct uuid account_id = request->serve.grant.account_id;
    list->is_sieved = request->serve.policy != NULL;
    const struct store_page *scan = serve_list_scan(list);
    if (listing_is_all(list, filters))
        store_audit_list_all(pool, &request->query, &request->serve.op, account_id, scan,
                             list->values[KIND]);
    else
        store_audit_list(pool, &request->query, &request->serve.op, account_id, scan,
                         list->values[KIND], SLICE_NONE);
}

/* Leaves out the events that the policy of the caller's key hides. */
static bool gives_event(struct api_request *request, struct serve_list *list, void *item)
{
    (void)list;
    return serve_gives_event(&request->serve, *request->api->config.catalog, item);
}

static int read_events(struct api_request *request, void **items, size_t *count, struct uuid *next)
{
    struct audit_event *list;
    int status = store_audit_list_result(&request->query, &list, count, next);
    *items = list;
    return status;
}

/* The id (UUIDv7) contains the time. details is a JSON object made by the writer of the event. */
static void put_event(struct json_writer *w, const void *item, slice user, struct arena *arena)
{
    const struct audit_event *event = item;
    (void)user;
    (void)arena;
    json_member_uuid(w, "id", event->id);
    json_member_time(w, "at", uuid_v7_wall_ms(event->id) * 1000);
    json_member_str(w, "kind", event->kind);
    json_member_str(w, "reason", event->reason);
    json_member_str(w, "actor", event->by.actor);
    json_member_str(w, "address", event->by.address);
    json_member_str(w, "request_id", event->by.request_id);
    json_member_raw(w, "details", event->details);
}

static const struct listing_kind kind = {
    .filters = filters,
    .key = "events",
    .ask = load_events,
    .read = read_events,
    .gives = gives_event,
    .put = put_event,
    .item = {.size = sizeof(struct audit_event),
             .id_at = offsetof(struct audit_event, id),
             .owner_at = offsetof(struct audit_event, account_id)},
};

static enum op_result begin_event_list(struct api_request *request)
{
    return listing_begin(request, &kind);
}

const struct api_endpoint api_audit_list = {
    .scope = SCOPE_ADMIN,
    .query = &(const struct api_names){.own = {"limit", "cursor", "kind", "users"}},
    .begin = begin_event_list,
};
