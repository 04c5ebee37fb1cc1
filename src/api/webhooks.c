/*
 * GET and POST /api/webhooks, GET, PATCH and DELETE /api/webhooks/{id}, GET
 * /api/webhooks/{id}/deliveries, POST /api/webhooks/{id}/roll and /test: endpoints to which the
 * account's events are sent, the oldest first. Reading needs the scope read, all else admin. The
 * text of a secret is only in the reply that makes it.
 */
#include "api/listing.h"
#include "base/clock.h"
#include "base/mem.h"
#include "event/command.h"
#include "event/replay.h"
#include "event/send.h"
#include "store/delivery_list.h"

enum { OVERLAP_S = 24 * 60 * 60 };

/* ---- what a reply has of an endpoint ---- */

static void put_webhook(struct json_writer *w, const void *row)
{
    const struct webhook *webhook = row;
    json_member_uuid(w, "id", webhook->id);
    json_member_str(w, "url", webhook->url);
    json_member_str(w, "description",
                    webhook->description.len > 0 ? webhook->description : SLICE_NONE);
    json_member_words(w, "events", webhook->events);
    json_member_bool(w, "enabled", webhook->off_at == 0);
    json_member_time(w, "off_at", webhook->off_at);
    json_member_str(w, "off_reason", webhook->off_reason);
    json_member_time(w, "failing_since", webhook->failing_since);
    json_member_i64(w, "failures", webhook->failures);
    json_member_time(w, "old_secret_until",
                     webhook->old_until > clock_shared_us() ? webhook->old_until : 0);
    listing_put_id(w, "made_by", webhook->api_key);
    json_member_i64(w, "rev", webhook->rev);
    json_member_time(w, "created_at", webhook->created_at);
}

#define NO_WEBHOOK "Webhook not found"

/* ---- reading ---- */

static enum op_result finish_webhook_list(struct api_request *request)
{
    struct webhook *rows;
    size_t count;
    int status = store_webhook_list_result(&request->query, &rows, &count);
    if (status != OK)
        return api_reply_database(request, status);
    struct json_writer *w = listing_reply_open(request, rows, count, sizeof(*rows), put_webhook);
    listing_put_id(w, "next_cursor", (struct uuid){{0}}); /* one page has all */
    return api_reply_close(request, 200);
}

static enum op_result begin_webhook_list(struct api_request *request)
{
    store_webhook_list(request->api->config.pool, &request->query, &request->serve.op,
                       request->serve.grant.account_id);
    return api_wait(request, finish_webhook_list);
}

const struct api_endpoint api_webhooks_list = {
    .scope = SCOPE_READ,
    .begin = begin_webhook_list,
    .is_of_account = true,
    .refuses_policy = true,
};

/* Sets *id to the id in the path. Returns false if the request has been answered. */
static bool read_webhook_id(struct api_request *request, struct uuid *id)
{
    if (uuid_parse(request->serve.match.params[0], id))
        return true;
    (void)api_reply_error(request, 404, NO_WEBHOOK);
    return false;
}

/* Loads the endpoint in the path, for `then`. */
static enum op_result load_webhook(struct api_request *request, api_step *then)
{
    struct uuid id;
    if (!read_webhook_id(request, &id))
        return OP_DONE;
    store_webhook_get(request->api->config.pool, &request->query, &request->serve.op,
                      request->serve.grant.account_id, id);
    return api_wait(request, then);
}

static enum op_result finish_webhook(struct api_request *request)
{
    struct webhook webhook;
    int status = store_webhook_get_result(&request->query, &webhook);
    if (status != OK)
        return api_reply_no_row(request, status, NO_WEBHOOK);
    put_webhook(api_reply_open(request, API_REQUEST_ARENA_BYTES_MAX), &webhook);
    return api_reply_close(request, 200);
}

static enum op_result begin_webhook_get(struct api_request *request)
{
    return load_webhook(request, finish_webhook);
}

const struct api_endpoint api_webhooks_get = {
    .scope = SCOPE_READ,
    .begin = begin_webhook_get,
    .is_of_account = true,
    .refuses_policy = true,
};

/* ---- what an endpoint is sent ---- */

enum { STATUS, CURSOR };

static const struct serve_filter delivery_filters[SERVE_FILTERS_MAX] = {
    [STATUS] = {.name = "status",
                .words = "pending delivered failed",
                .wanted = "pending, delivered or failed",
                .is_quoted = true},
    [CURSOR] = LISTING_CURSOR};

static void load_deliveries(struct api_request *request, struct serve_list *list)
{
    struct uuid id;
    bool is_id = uuid_parse(request->serve.match.params[0], &id);
    ASSERT(is_id);
    store_delivery_list(request->api->config.pool, &request->query, &request->serve.op, id,
                        serve_list_scan(list), list->values[STATUS]);
}

static int read_deliveries(struct api_request *request, void **items, size_t *count,
                           struct uuid *next)
{
    struct delivery_item *list;
    int status = store_delivery_list_result(&request->query, &list, count, next);
    *items = list;
    return status;
}

/* The id of a connection is a number: the end of the UUID that the row has. */
static void put_object(struct json_writer *w, const struct delivery_item *item)
{
    uint64_t number = 0;
    char text[SLICE_U64_MAX];
    for (size_t i = sizeof(number); i < sizeof(item->object.bytes); i++)
        number = number << 8 | item->object.bytes[i];
    if (slice_starts_with(item->kind, SLICE("connection.")))
        json_member_str(w, "object", slice_of_u64(number, text));
    else
        json_member_uuid(w, "object", item->object);
}

/* `data` is as it is sent, without the members that are added at its beginning. A delivery that has
 * ended has no next_at; one that was never answered has no code. */
static void put_delivery(struct json_writer *w, const void *row, slice user, struct arena *arena)
{
    const struct delivery_item *item = row;
    slice data = event_row_data(item->data, user, arena);
    json_member_uuid(w, "event_id", item->id);
    json_member_str(w, "type", item->kind);
    put_object(w, item);
    json_member_i64(w, "rev", item->rev);
    json_member_time(w, "created_at", item->at);
    json_member_str(w, "status", item->status);
    json_member_i64(w, "attempts", item->attempts);
    json_member_time(w, "next_at", item->due_at);
    if (item->code)
        json_member_i64(w, "code", item->code);
    else
        json_member_str(w, "code", SLICE_NONE);
    json_member_str(w, "problem", item->problem);
    json_member_raw(w, "data", data.ptr ? data : item->data);
}

static const struct listing_kind delivery_kind = {
    .filters = delivery_filters,
    .key = "items",
    .ask = load_deliveries,
    .read = read_deliveries,
    .put = put_delivery,
    .item = {.size = sizeof(struct delivery_item),
             .id_at = offsetof(struct delivery_item, id),
             .owner_at = offsetof(struct delivery_item, account_id)},
    .names_users = true,
};

/* The list is by the endpoint's id alone, so the account must have the endpoint. */
static enum op_result on_listed_found(struct api_request *request)
{
    struct webhook webhook;
    int status = store_webhook_get_result(&request->query, &webhook);
    if (status != OK)
        return api_reply_no_row(request, status, NO_WEBHOOK);
    return listing_begin(request, &delivery_kind);
}

static enum op_result begin_deliveries(struct api_request *request)
{
    return load_webhook(request, on_listed_found);
}

const struct api_endpoint api_webhooks_deliveries = {
    .scope = SCOPE_READ,
    .query = &(const struct api_names){.own = {"limit", "cursor", "status"}},
    .begin = begin_deliveries,
    .is_of_account = true,
    .refuses_policy = true,
};

/* ---- changes ---- */

struct webhook_changing {
    struct webhook_command command;
    struct webhook_command_request in;
};

static struct webhook_changing *change_webhook(struct api_request *request,
                                               enum webhook_command_kind kind)
{
    struct webhook_changing *it = request->state;
    it->in.kind = kind;
    it->in.by = serve_by(&request->serve);
    it->in.account_id = request->serve.grant.account_id;
    it->in.api_key = request->serve.grant.key_id;
    it->in.public_url = slice_cstr(request->api->public_url);
    request->on_gone = api_continue;
    return it;
}

/* The statuses of a command that did not do what was asked. A lost answer is a 500: the client can
 * find out, and a 503 would mean that nothing was done. */
static enum op_result reply_webhook_failed(struct api_request *request,
                                           const struct webhook_command *command)
{
    switch (command->status) {
    case ERR_SYNTAX:
        return api_reply_error(request, 400, "%s", command->err.text);
    case ERR_LIMIT:
        return api_reply_error(request, 409, "Nothing was changed: %s", command->err.text);
    case ERR_CRYPTO:
        return api_reply_error(request, 409,
                               "The present secret cannot be opened, so it cannot overlap with "
                               "the new one. Roll it with overlap_s 0.");
    case ERR_INVALID: /* the account was erased at this moment */
        return api_reply_key_refused(request);
    case ERR_CLOSED:
        return api_reply_error(request, 500,
                               "The database's answer was lost, so the change may have been made. "
                               "List the webhooks before you try again; roll one whose secret you "
                               "do not have.");
    default:
        return api_reply_no_row(request, command->status, NO_WEBHOOK);
    }
}

/* The secret is in the reply of a creation and of a roll, and nowhere afterwards: its copy in
 * memory is wiped in each case. */
static enum op_result finish_webhook_change(struct api_request *request)
{
    struct webhook_changing *it = request->state;
    struct webhook_command *command = &it->command;
    enum webhook_command_kind kind = it->in.kind;
    op_keep_children(&request->serve.op); /* texts of the endpoint are in the memory of that op */
    if (command->status != OK) {
        mem_wipe(command->secret, sizeof(command->secret));
        return reply_webhook_failed(request, command);
    }
    if (kind == WEBHOOK_DELETE)
        return api_reply(request, 200, SLICE("{\"success\":true}"));
    struct json_writer *w = api_reply_open(request, API_REQUEST_ARENA_BYTES_MAX);
    if (kind != WEBHOOK_CHANGE)
        json_member_str(w, "secret", slice_cstr(command->secret));
    put_webhook(w, &command->webhook);
    mem_wipe(command->secret, sizeof(command->secret));
    return api_reply_close(request, kind == WEBHOOK_CREATE ? 201 : 200);
}

/* The change goes on without its client: it is made as a whole, with its event. */
static enum op_result run_webhook_command(struct api_request *request)
{
    struct webhook_changing *it = request->state;
    webhook_command_start(request->api->config.event, &it->command, &it->in, &request->serve.op);
    return api_wait(request, finish_webhook_change);
}

/* The readers of members answer with 400 and return false. */
static bool read_webhook_url(struct api_request *request, struct webhook_command_request *in)
{
    const struct json *url = JSON_GET(request->body, "url");
    in->url = json_str(url);
    in->has_url = url != NULL;
    if (in->url.ptr || (!url && in->kind == WEBHOOK_CHANGE))
        return true;
    (void)api_reply_error(request, 400,
                          "url must be a string: the https URL to which events are sent");
    return false;
}

static bool read_description(struct api_request *request, struct webhook_command_request *in)
{
    const struct json *text = JSON_GET(request->body, "description");
    in->has_description = text || in->kind == WEBHOOK_CREATE;
    in->description = SLICE("");
    if (!text || json_is(text, JSON_NULL))
        return true;
    in->description = json_str(text);
    if (in->description.ptr)
        return true;
    (void)api_reply_error(request, 400,
                          "description must be a string of at most %d characters on one line, or "
                          "null",
                          WEBHOOK_DESCRIPTION_MAX);
    return false;
}

/* null means all kinds, also those of later versions. A name twice counts once. An unknown name is
 * refused, since an endpoint that waits for it would never hear anything. */
static bool read_events(struct api_request *request, struct webhook_command_request *in)
{
    const struct json *list = JSON_GET(request->body, "events");
    in->has_kinds = list || in->kind == WEBHOOK_CREATE;
    if (!list || json_is(list, JSON_NULL))
        return true;
    bool is_right = json_is(list, JSON_ARRAY) && list->count > 0;
    for (uint32_t i = 0; is_right && i < list->count; i++) {
        slice name = json_str(&list->as.items[i]);
        enum event_kind kind = event_kind_find(name);
        is_right = kind != EVENT_KIND_COUNT;
        if (is_right)
            in->kinds |= UINT32_C(1) << kind;
        else if (name.ptr) {
            (void)api_reply_error(request, 400, "events has \"%.*s\", which is none of:%s",
                                  SLICE_ARG(slice_first_utf8(name, 60)), EVENT_KIND_WORDS);
            return false;
        }
    }
    if (!is_right)
        (void)api_reply_error(request, 400,
                              "events must be an array of the kinds that are sent, or null for "
                              "all; the kinds are:%s",
                              EVENT_KIND_WORDS);
    return is_right;
}

static bool read_enabled(struct api_request *request, struct webhook_command_request *in)
{
    const struct json *value = JSON_GET(request->body, "enabled");
    in->has_switch = value != NULL;
    if (!value || json_is(value, JSON_BOOL)) {
        in->is_on = value && value->as.boolean;
        return true;
    }
    (void)api_reply_error(request, 400, "enabled must be true or false");
    return false;
}

static bool read_rev(struct api_request *request, struct webhook_command_request *in)
{
    const struct json *rev = JSON_GET(request->body, "rev"); /* null would be no fence */
    if (!rev || (json_to_i64(rev, &in->rev) && in->rev > 0))
        return true;
    (void)api_reply_error(request, 400,
                          "rev must be that of the webhook as it was read: it is changed only if "
                          "it still has this one");
    return false;
}

static enum op_result begin_webhook(struct api_request *request)
{
    struct webhook_changing *it = change_webhook(request, WEBHOOK_CREATE);
    return read_webhook_url(request, &it->in) && read_description(request, &it->in) &&
                   read_events(request, &it->in)
               ? run_webhook_command(request)
               : OP_DONE;
}

const struct api_endpoint api_webhooks_create = {
    .scope = SCOPE_ADMIN,
    .body = API_BODY_REQUIRED,
    .members = &(const struct api_names){.own = {"url", "events", "description"}},
    .begin = begin_webhook,
    .is_of_account = true,
    .refuses_policy = true,
    .state_bytes = sizeof(struct webhook_changing),
};

static enum op_result begin_webhook_change(struct api_request *request)
{
    struct webhook_changing *it = change_webhook(request, WEBHOOK_CHANGE);
    if (!read_webhook_id(request, &it->in.id) || !read_webhook_url(request, &it->in) ||
        !read_description(request, &it->in) || !read_events(request, &it->in) ||
        !read_enabled(request, &it->in) || !read_rev(request, &it->in))
        return OP_DONE;
    if (!it->in.has_url && !it->in.has_description && !it->in.has_kinds && !it->in.has_switch)
        return api_reply_error(request, 400,
                               "The body must have at least one of url, events, description and "
                               "enabled");
    return run_webhook_command(request);
}

const struct api_endpoint api_webhooks_change = {
    .scope = SCOPE_ADMIN,
    .body = API_BODY_REQUIRED,
    .members = &(const struct api_names){.own = {"url", "events", "description", "enabled", "rev"}},
    .begin = begin_webhook_change,
    .is_of_account = true,
    .refuses_policy = true,
    .state_bytes = sizeof(struct webhook_changing),
};

static enum op_result begin_webhook_roll(struct api_request *request)
{
    struct webhook_changing *it = change_webhook(request, WEBHOOK_ROLL);
    const struct json *overlap = json_given(request->body, SLICE("overlap_s"));
    int64_t seconds = OVERLAP_S;
    if (!read_webhook_id(request, &it->in.id))
        return OP_DONE;
    if (overlap &&
        (!json_to_i64(overlap, &seconds) || seconds < 0 || seconds > WEBHOOK_OVERLAP_S_MAX))
        return api_reply_error(request, 400,
                               "overlap_s must be a number of seconds from 0 to %d: how long the "
                               "old secret signs, too",
                               WEBHOOK_OVERLAP_S_MAX);
    it->in.overlap_s = seconds;
    return read_rev(request, &it->in) ? run_webhook_command(request) : OP_DONE;
}

const struct api_endpoint api_webhooks_roll = {
    .scope = SCOPE_ADMIN,
    .body = API_BODY_OPTIONAL,
    .members =
        &(const struct api_names){.own = {"overlap_s", "rev"}, .other = {{"overlap", "overlap_s"}}},
    .begin = begin_webhook_roll,
    .is_of_account = true,
    .refuses_policy = true,
    .state_bytes = sizeof(struct webhook_changing),
};

static enum op_result begin_webhook_delete(struct api_request *request)
{
    struct webhook_changing *it = change_webhook(request, WEBHOOK_DELETE);
    return read_webhook_id(request, &it->in.id) ? run_webhook_command(request) : OP_DONE;
}

const struct api_endpoint api_webhooks_delete = {
    .scope = SCOPE_ADMIN,
    .begin = begin_webhook_delete,
    .is_of_account = true,
    .refuses_policy = true,
    .state_bytes = sizeof(struct webhook_changing),
};

/* ---- a test ---- */

struct testing {
    struct webhook webhook;
    struct event_send send;
};

static enum op_result finish_webhook_test(struct api_request *request)
{
    const struct event_send *send = &((struct testing *)request->state)->send;
    struct json_writer *w = api_reply_open(request, API_REQUEST_ARENA_BYTES_MAX);
    if (send->status)
        json_member_i64(w, "status", send->status);
    else
        json_member_str(w, "status", SLICE_NONE);
    json_member_i64(w, "duration_ms", (int64_t)send->duration_ms);
    json_member_str(w, "problem", send->is_delivered ? SLICE_NONE : slice_cstr(send->problem));
    return api_reply_close(request, 200);
}

/* The endpoint is called whether it is on or off: a test comes before it is switched on. */
static enum op_result on_tested_loaded(struct api_request *request)
{
    struct testing *it = request->state;
    struct arena *arena = &request->serve.op.arena;
    char account[UUID_TEXT_LEN + 1], id[UUID_TEXT_LEN + 1];
    int status = store_webhook_get_result(&request->query, &it->webhook);
    if (status != OK)
        return api_reply_no_row(request, status, NO_WEBHOOK);
    if (!it->webhook.url.ptr)
        return api_reply_error(request, 409, "A later version of sluice sends to this webhook");
    uuid_format(it->webhook.account_id, account);
    uuid_format(it->webhook.id, id);
    const struct event_message message = {
        .id = uuid_v7(),
        .kind = EVENT_TEST,
        .at = clock_shared_us(),
        .data = arena_printf(arena, "{\"account_id\":\"%s\",\"webhook_id\":\"%s\"}", account, id),
    };
    if (!message.data.ptr)
        return api_reply_no_memory(request);
    event_send_start(request->api->config.event, &it->send, &it->webhook, &message,
                     &request->serve.op);
    return api_wait(request, finish_webhook_test);
}

/* The message is sent to its end even if the client has disconnected: the op that sends it has
 * texts of the request. */
static enum op_result begin_webhook_test(struct api_request *request)
{
    request->on_gone = api_continue;
    return load_webhook(request, on_tested_loaded);
}

const struct api_endpoint api_webhooks_test = {
    .scope = SCOPE_ADMIN,
    .begin = begin_webhook_test,
    .is_of_account = true,
    .refuses_policy = true,
    .state_bytes = sizeof(struct testing),
};

/* ---- sending again ---- */

struct replaying {
    struct uuid since, until; /* event ids; equal: one event */
    struct event_replay replay;
};

/* An event that is pending is not counted: it will be sent. */
static enum op_result finish_replay(struct api_request *request)
{
    const struct replaying *it = request->state;
    if (it->replay.status != OK)
        return api_reply_database(request, it->replay.status);
    if (it->replay.found == 0 && uuid_eq(it->since, it->until))
        return api_reply_error(request, 404, "Delivery not found");
    struct json_writer *w = api_reply_open(request, API_REQUEST_ARENA_BYTES_MAX);
    json_member_i64(w, "count", (int64_t)it->replay.count);
    return api_reply_close(request, 202);
}

/* One that is off would refuse each event at once. */
static enum op_result on_replayed_found(struct api_request *request)
{
    struct replaying *it = request->state;
    struct webhook webhook;
    int status = store_webhook_get_result(&request->query, &webhook);
    if (status != OK)
        return api_reply_no_row(request, status, NO_WEBHOOK);
    if (webhook.off_at != 0)
        return api_reply_error(request, 409,
                               "The webhook is switched off. Nothing is sent again. Enable it "
                               "first.");
    request->on_gone =
        api_continue; /* what is found is sent again, whether a client waits or not */
    event_replay_start(request->api->config.event, &it->replay, webhook.id, it->since, it->until,
                       &request->serve.op);
    return api_wait(request, finish_replay);
}

static enum op_result begin_replay_one(struct api_request *request)
{
    struct replaying *it = request->state;
    if (!uuid_parse(request->serve.match.params[1], &it->since))
        return api_reply_error(request, 404, "Delivery not found");
    it->until = it->since;
    return load_webhook(request, on_replayed_found);
}

const struct api_endpoint api_webhooks_replay_one = {
    .scope = SCOPE_ADMIN,
    .begin = begin_replay_one,
    .is_of_account = true,
    .refuses_policy = true,
    .state_bytes = sizeof(struct replaying),
};

static enum op_result begin_replay(struct api_request *request)
{
    struct replaying *it = request->state;
    int64_t since_us;
    if (!time_parse(json_str(JSON_GET(request->body, "since")), &since_us) || since_us < 0)
        return api_reply_error(request, 400,
                               "since must be a time such as 2031-01-31T00:00:00Z: failed events "
                               "of that time and later are sent again");
    it->since = uuid_v7_floor(since_us / 1000);
    memset(&it->until, 0xff, sizeof(it->until));
    return load_webhook(request, on_replayed_found);
}

const struct api_endpoint api_webhooks_replay = {
    .scope = SCOPE_ADMIN,
    .body = API_BODY_REQUIRED,
    .members = &(const struct api_names){.own = {"since"}},
    .begin = begin_replay,
    .is_of_account = true,
    .refuses_policy = true,
    .state_bytes = sizeof(struct replaying),
};
