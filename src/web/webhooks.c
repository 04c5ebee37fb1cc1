/*
 * The account's endpoints of events: the list, one with what it was sent, and changes. The pages
 * call the endpoints of the API: their replies are the data, their refusals the texts of forms.
 */
#include "base/clock.h"
#include "store/webhook.h"
#include "web/pages.h"

#define DELIVERIES_MAX "20"
static const int64_t us_per_hour = 3600LL * 1000000;

const struct web_view web_webhooks = {.file = "webhooks", .endpoint = &api_webhooks_list};

/* ---- what the pages have in common ---- */

static slice id_of(const struct web_request *request)
{
    return request->serve.match.params[0];
}

/* Returns an object of one member; NULL if out of memory. */
static struct json *object_of(struct web_request *request, const char *name, struct json value)
{
    struct arena *arena = &request->serve.op.arena;
    struct json *object = ARENA_NEW(arena, struct json);
    if (!object)
        return NULL;
    *object = json_object();
    json_object_set(arena, object, slice_cstr(name), value);
    return object;
}

static enum op_result reply_redirect(struct web_request *request, const char *notice)
{
    slice path =
        arena_printf(&request->serve.op.arena, "/webhooks/%.*s", SLICE_ARG(id_of(request)));
    return web_reply_redirect(request, path.ptr ? path : SLICE("/webhooks"), notice);
}

/* The answers of endpoints that change something: back to the page of the webhook, if it was done.
 */
static enum op_result on_changed(struct web_request *request, unsigned status,
                                 const struct json *reply)
{
    return status == 200 ? reply_redirect(request, "webhook_changed")
                         : web_reply_refused(request, status, reply);
}

/* Replies with what came of a request to the endpoint. */
static enum op_result reply_result(struct web_request *request, const char *title, slice text)
{
    struct json_writer *w = view_begin(request);
    json_member_str(w, "id", id_of(request));
    json_member_str(w, "title", slice_cstr(title));
    json_member_str(w, "text", text);
    return web_reply_view(request, 200, "webhook_result");
}

/* ---- one endpoint, and what it was sent ---- */

static enum op_result on_deliveries(struct web_request *request, unsigned status,
                                    const struct json *reply)
{
    const struct json *webhook = request->state;
    if (status != 200) /* a wrong argument means a wrong address */
        return web_reply_refused(request, status == 400 ? 404 : status, reply);
    struct json_writer *w = view_begin(request);
    json_key(w, "webhook");
    json_put(w, webhook);
    json_key(w, "items");
    json_put(w, JSON_GET(reply, "items"));
    json_member_str(w, "next_cursor", json_get_str(reply, SLICE("next_cursor")));
    json_member_str(w, "status", web_query(request, "status"));
    return web_reply_view(request, 200, "webhook");
}

static enum op_result on_webhook(struct web_request *request, unsigned status,
                                 const struct json *reply)
{
    struct arena *arena = &request->serve.op.arena;
    struct json *query = object_of(request, "limit", json_string(SLICE(DELIVERIES_MAX)));
    slice after = web_query(request, "after"), wanted = web_query(request, "status");
    if (status != 200)
        return web_reply_refused(request, status, reply);
    request->state = (void *)(uintptr_t)reply;
    if (query && after.ptr)
        json_object_set(arena, query, SLICE("cursor"), json_string(after));
    if (query && wanted.ptr)
        json_object_set(arena, query, SLICE("status"), json_string(wanted));
    return web_ask(request, &api_webhooks_deliveries, query, on_deliveries);
}

enum op_result web_webhook(struct web_request *request)
{
    return web_ask(request, &api_webhooks_get, NULL, on_webhook);
}

/* ---- the form ---- */

static const struct {
    const char *name, *field, *sentence;
} kinds[] = {
#define KIND(name, text, sentence) {text, "event." text, sentence},
    EVENT_KINDS(KIND)
#undef KIND
};

static bool hears(const struct json *events, const char *kind)
{
    for (uint32_t i = 0; json_is(events, JSON_ARRAY) && i < events->count; i++)
        if (slice_eq_cstr(json_str(&events->as.items[i]), kind))
            return true;
    return false;
}

/* The values are those of the form that was sent, else of the endpoint; NULL: it is to be made. */
static enum op_result reply_form(struct web_request *request, unsigned status,
                                 const struct json *webhook, slice problem)
{
    bool is_sent = web_field(request, "which").ptr != NULL;
    const struct json *events = JSON_GET(webhook, "events");
    int64_t rev = json_get_i64(webhook, SLICE("rev"), 0);
    struct json_writer *w = view_begin(request);
    if (is_sent && !slice_to_i64(web_field(request, "rev"), &rev))
        rev = 0;
    json_member_str(w, "id", id_of(request));
    json_member_str(w, "problem", problem);
    if (id_of(request).ptr)
        json_member_i64(w, "rev", rev);
    json_member_str(w, "url",
                    is_sent ? web_field(request, "url") : json_get_str(webhook, SLICE("url")));
    json_member_str(w, "description",
                    is_sent ? web_field(request, "description")
                            : json_get_str(webhook, SLICE("description")));
    json_member_bool(w, "is_some",
                     is_sent ? slice_eq_cstr(web_field(request, "which"), "some")
                             : json_is(events, JSON_ARRAY));
    json_member_open(w, "kinds", '[');
    for (size_t i = 0; i < ARRAY_LEN(kinds); i++) {
        json_open(w, '{');
        json_member_str(w, "name", slice_cstr(kinds[i].name));
        json_member_str(w, "sentence", slice_cstr(kinds[i].sentence));
        json_member_bool(w, "checked",
                         is_sent ? web_field(request, kinds[i].field).ptr != NULL
                                 : hears(events, kinds[i].name));
        json_close(w, '}');
    }
    json_close(w, ']');
    return web_reply_view(request, status, id_of(request).ptr ? "webhook_edit" : "webhook_new");
}

/* A sentence about a member begins with its name, which is that of the field. */
static enum op_result refuse_form(struct web_request *request, unsigned status,
                                  const struct json *reply)
{
    slice problem = json_get_str(reply, SLICE("error")), rest = problem;
    slice field = slice_split(&rest, ' ');
    if ((status != 400 && status != 409) || !problem.ptr)
        return web_reply_refused(request, status, reply);
    bool is_of_field = slice_has_word(SLICE("url events description"), field);
    if (is_of_field)
        web_fault_add(request, field, problem);
    return reply_form(request, status, NULL, is_of_field ? SLICE_NONE : problem);
}

/* Returns the body of a creation or a change; NULL if out of memory. */
static struct json *body_of_form(struct web_request *request)
{
    struct arena *arena = &request->serve.op.arena;
    slice url = web_field(request, "url"), description = web_field(request, "description");
    slice rev = web_field(request, "rev");
    struct json *body = object_of(request, "url", json_string(url.ptr ? url : SLICE("")));
    struct json events = {.type = JSON_NULL};
    int64_t number;
    if (!body)
        return NULL;
    if (slice_eq_cstr(web_field(request, "which"), "some")) {
        events = json_array();
        for (size_t i = 0; i < ARRAY_LEN(kinds); i++)
            if (web_field(request, kinds[i].field).ptr)
                json_array_push(arena, &events, json_string(slice_cstr(kinds[i].name)));
    }
    json_object_set(arena, body, SLICE("events"), events);
    if (rev.ptr) /* another person's change is not undone */
        json_object_set(arena, body, SLICE("rev"),
                        slice_to_i64(rev, &number) ? json_i64(number) : json_string(rev));
    json_object_set(arena, body, SLICE("description"),
                    json_string(description.ptr ? description : SLICE("")));
    return body;
}

/* The page with a secret, which no later page has. */
static enum op_result reply_secret(struct web_request *request, unsigned status,
                                   const struct json *reply)
{
    struct json_writer *w = view_begin(request);
    request->holds_secret = true;
    json_member_str(w, "id", json_get_str(reply, SLICE("id")));
    json_member_str(w, "secret", json_get_str(reply, SLICE("secret")));
    json_member_str(w, "old_secret_until", json_get_str(reply, SLICE("old_secret_until")));
    json_member_bool(w, "is_new", status == 201);
    return web_reply_view(request, status, "webhook_secret");
}

static enum op_result on_created(struct web_request *request, unsigned status,
                                 const struct json *reply)
{
    return status == 201 ? reply_secret(request, status, reply)
                         : refuse_form(request, status, reply);
}

enum op_result web_webhook_new(struct web_request *request)
{
    return reply_form(request, 200, NULL, SLICE_NONE);
}
enum op_result web_webhook_create(struct web_request *request)
{
    return web_ask(request, &api_webhooks_create, body_of_form(request), on_created);
}

static enum op_result on_edited(struct web_request *request, unsigned status,
                                const struct json *reply)
{
    return status == 200 ? reply_form(request, 200, reply, SLICE_NONE)
                         : web_reply_refused(request, status, reply);
}
static enum op_result on_saved(struct web_request *request, unsigned status,
                               const struct json *reply)
{
    return status == 200 ? on_changed(request, status, reply) : refuse_form(request, status, reply);
}
enum op_result web_webhook_edit(struct web_request *request)
{
    return web_ask(request, &api_webhooks_get, NULL, on_edited);
}
enum op_result web_webhook_change(struct web_request *request)
{
    return web_ask(request, &api_webhooks_change, body_of_form(request), on_saved);
}

/* ---- buttons ---- */

enum op_result web_webhook_switch(struct web_request *request)
{
    bool is_on = slice_eq_cstr(web_field(request, "enabled"), "true");
    return web_ask(request, &api_webhooks_change, object_of(request, "enabled", json_bool(is_on)),
                   on_changed);
}

static enum op_result on_tested(struct web_request *request, unsigned status,
                                const struct json *reply)
{
    int64_t code = 0, took_ms = 0;
    slice problem = json_get_str(reply, SLICE("problem"));
    if (status != 200)
        return web_reply_refused(request, status, reply);
    (void)json_to_i64(JSON_GET(reply, "status"), &code);
    (void)json_to_i64(JSON_GET(reply, "duration_ms"), &took_ms);
    return problem.ptr ? reply_result(request, "The test failed", problem)
                       : reply_result(request, "The test was accepted",
                                      arena_printf(&request->serve.op.arena,
                                                   "The endpoint answered %lld after %lld ms.",
                                                   (long long)code, (long long)took_ms));
}

enum op_result web_webhook_test(struct web_request *request)
{
    return web_ask(request, &api_webhooks_test, NULL, on_tested);
}

static enum op_result on_replayed(struct web_request *request, unsigned status,
                                  const struct json *reply)
{
    int64_t count = 0;
    if (status != 202)
        return web_reply_refused(request, status, reply);
    (void)json_to_i64(JSON_GET(reply, "count"), &count);
    return reply_result(request, count > 0 ? "Sent again" : "Nothing to send again",
                        arena_printf(&request->serve.op.arena,
                                     "%lld of the events that failed in this time are sent again.",
                                     (long long)count));
}

/* The form has the age in hours: a page may be old when its form is sent. */
enum op_result web_webhook_replay(struct web_request *request)
{
    struct arena *arena = &request->serve.op.arena;
    char since[TIME_TEXT_LEN + 1];
    int64_t hours;
    if (!slice_to_i64(web_field(request, "hours"), &hours) || hours < 1 || hours > 10000)
        return web_reply_problem(request, 400, "Not done", "Choose since when.");
    time_format(clock_shared_us() - hours * us_per_hour, since);
    slice text = arena_dup(arena, slice_of(since, TIME_TEXT_LEN));
    return web_ask(request, &api_webhooks_replay, object_of(request, "since", json_string(text)),
                   on_replayed);
}

static enum op_result on_replayed_one(struct web_request *request, unsigned status,
                                      const struct json *reply)
{
    return status == 202 ? reply_redirect(request, "event_replayed")
                         : web_reply_refused(request, status, reply);
}
enum op_result web_webhook_replay_one(struct web_request *request)
{
    return web_ask(request, &api_webhooks_replay_one, NULL, on_replayed_one);
}

/* ---- questions ---- */

static enum op_result reply_question(struct web_request *request, const struct json *webhook,
                                     const char *file)
{
    struct json_writer *w = view_begin(request);
    json_key(w, "webhook");
    json_put(w, webhook);
    return web_reply_view(request, 200, file);
}

static enum op_result on_delete_asked(struct web_request *request, unsigned status,
                                      const struct json *reply)
{
    return status == 200 ? reply_question(request, reply, "webhook_delete")
                         : web_reply_refused(request, status, reply);
}
static enum op_result on_deleted(struct web_request *request, unsigned status,
                                 const struct json *reply)
{
    return status == 200 ? web_reply_redirect(request, SLICE("/webhooks"), "webhook_deleted")
                         : web_reply_refused(request, status, reply);
}
enum op_result web_webhook_delete_ask(struct web_request *request)
{
    return web_ask(request, &api_webhooks_get, NULL, on_delete_asked);
}
enum op_result web_webhook_delete(struct web_request *request)
{
    return web_ask(request, &api_webhooks_delete, NULL, on_deleted);
}

static enum op_result on_roll_asked(struct web_request *request, unsigned status,
                                    const struct json *reply)
{
    return status == 200 ? reply_question(request, reply, "webhook_roll")
                         : web_reply_refused(request, status, reply);
}

static enum op_result on_rolled(struct web_request *request, unsigned status,
                                const struct json *reply)
{
    slice text = json_get_str(reply, SLICE("error"));
    if (status == 409)
        return web_reply_problem(
            request, 409, "Not rolled",
            "%.*s%s If a new secret was displayed and you do not have it, roll it again.",
            SLICE_ARG(text), slice_ends_with(text, SLICE(".")) ? "" : ".");
    return status == 200 ? reply_secret(request, status, reply)
                         : web_reply_refused(request, status, reply);
}

enum op_result web_webhook_roll_ask(struct web_request *request)
{
    return web_ask(request, &api_webhooks_get, NULL, on_roll_asked);
}
/* A form that is sent twice rolls once: else the secret that receivers have would no longer sign.
 */
enum op_result web_webhook_roll(struct web_request *request)
{
    int64_t overlap_s, rev;
    if (!slice_to_i64(web_field(request, "overlap_s"), &overlap_s) ||
        !slice_to_i64(web_field(request, "rev"), &rev))
        return web_reply_problem(request, 400, "Not rolled",
                                 "Choose for how long the old secret signs, too.");
    struct json *body = object_of(request, "overlap_s", json_i64(overlap_s));
    if (body)
        json_object_set(&request->serve.op.arena, body, SLICE("rev"), json_i64(rev));
    return web_ask(request, &api_webhooks_roll, body, on_rolled);
}
