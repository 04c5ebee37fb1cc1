/*
 * Subscriptions; see listen.h. The op is in one of four states: it looks up the flows (before the
 * stream has begun), it loads one of them (`load`), it looks up who asked for the call of one
 * (`asking`), or it sleeps. Callbacks store a fact and wake
 * the op. It sends one notification per turn, because a task may be large.
 */
#include "mcp/listen.h"

#include "flow/load.h"
#include "mcp/mcp.h"
#include "mcp/stream.h"
#include "mcp/task.h"
#include "serve/stream.h"

enum {
    STREAM_MS_MAX = 60 * 60 * 1000,
    RETRY_AFTER_MS = 5000,
    NOTE_ARENA_BYTES_MAX = 256 * 1024 * 1024,
};

static const slice flow_uri = SLICE_INIT("sluice://flows/");

/* A named flow. */
struct topic {
    struct listening *listening;
    slice name; /* as the client wrote it: a URI, or the id of a task */
    struct uuid id;
    bool is_task;
    bool is_found;    /* the flow belongs to this account */
    bool is_notified; /* a change has not been sent yet */
    bool is_asker_known;
    struct mcp_asker asker; /* of a held call, once that matters */
    struct flow_watch watch;
    struct pg_query query;
    struct flow_load *first; /* for a caller with a policy, instead of the query */
};

struct listening {
    struct list link; /* in the list of all streams of this process */
    struct api_request *request;
    struct topic *topics;
    size_t count;
    struct topic *loading;  /* the topic of `load` */
    struct flow_load *load; /* under way, or just done */
    struct topic *asking;   /* the topic whose asker is looked up, or was just found */
    struct serve_stream stream;
    bool wants_tools, are_tools_changed;
};

/* ---- wake-ups ---- */

static void on_change(struct flow_watch *watch)
{
    struct topic *topic = CONTAINER_OF(watch, struct topic, watch);
    topic->is_notified = true;
    serve_stream_wake(&topic->listening->stream);
}

void mcp_listeners_init(struct mcp_listeners *listeners)
{
    list_init(&listeners->all);
}

/* What the account shares serves its users, too. */
static bool acts_for(const struct listening *listening, struct uuid account_id)
{
    const struct vault_grant *grant = &listening->request->serve.grant;
    return uuid_eq(grant->account_id, account_id) || uuid_eq(grant->parent_id, account_id);
}

void mcp_listeners_tools_changed(struct mcp_listeners *listeners, const struct uuid *account_id)
{
    LIST_EACH(&listeners->all, struct listening, listening, link) {
        if (!listening->wants_tools || (account_id && !acts_for(listening, *account_id)))
            continue;
        listening->are_tools_changed = true;
        serve_stream_wake(&listening->stream);
    }
}

void mcp_listeners_wake(struct mcp_listeners *listeners)
{
    LIST_EACH(&listeners->all, struct listening, listening, link)
        serve_stream_wake(&listening->stream);
}

/* Call it before the end: callbacks must not reach an op that has ended. */
static void stop_listening(struct listening *listening)
{
    for (size_t i = 0; i < listening->count; i++)
        flow_watch_remove(&listening->topics[i].watch);
    serve_stream_close(&listening->stream);
    if (listening->link.next)
        list_unlink(&listening->link);
}

/* ---- messages ---- */

static void put_subscription(struct json_writer *w, const struct api_request *request)
{
    const struct mcp_message *message = request->outer;
    json_member_open(w, "_meta", '{');
    json_member(w, MCP_SUBSCRIPTION, message->id);
    json_close(w, '}');
}

static void begin_note(struct mcp_result *note, const struct api_request *request,
                       const char *method)
{
    mcp_notification_begin(note, method);
    put_subscription(&note->w, request);
}

static void put_accepted(struct json_writer *w, const struct listening *listening, bool are_tasks)
{
    bool is_open = false;
    for (size_t i = 0; i < listening->count; i++) {
        const struct topic *topic = &listening->topics[i];
        if (!topic->is_found || topic->is_task != are_tasks)
            continue;
        if (!is_open)
            json_member_open(w, are_tasks ? "taskIds" : "resourceSubscriptions", '[');
        is_open = true;
        json_put_str(w, topic->name);
    }
    if (is_open)
        json_close(w, ']');
}

static bool send_acknowledgement(struct listening *listening)
{
    struct mcp_result note;
    begin_note(&note, listening->request, "notifications/subscriptions/acknowledged");
    json_member_open(&note.w, "notifications", '{');
    if (listening->wants_tools)
        json_member_bool(&note.w, "toolsListChanged", true);
    put_accepted(&note.w, listening, false);
    put_accepted(&note.w, listening, true);
    json_close(&note.w, '}');
    return mcp_notification_send(listening->request, &note);
}

static bool send_tools_changed(struct listening *listening)
{
    struct mcp_result note;
    listening->are_tools_changed = false;
    begin_note(&note, listening->request, "notifications/tools/list_changed");
    return mcp_notification_send(listening->request, &note);
}

static bool send_updated(struct listening *listening, const struct topic *topic)
{
    struct mcp_result note;
    begin_note(&note, listening->request, "notifications/resources/updated");
    json_member_str(&note.w, "uri", topic->name);
    return mcp_notification_send(listening->request, &note);
}

/* ---- the end ---- */

static enum op_result end_listening(struct api_request *request)
{
    const struct mcp_message *message = request->outer;
    struct mcp_result result;
    ASSERT(message->is_subscription);
    stop_listening(request->state);
    mcp_result_begin(&result, message, 256);
    return mcp_result_send(request, message, &result);
}

static enum op_result end_refused(struct api_request *request)
{
    stop_listening(request->state);
    return mcp_reply_error(request, request->outer, 401, MCP_INVALID_REQUEST, SLICE_NONE, "%s",
                           API_KEY_REFUSED_TEXT);
}

static void gone_listening(struct api_request *request)
{
    stop_listening(request->state);
    op_cancel(&request->serve.op);
}

/* ---- while it is open ---- */

static api_step listen_continue;

static enum op_result rest(struct listening *listening, uint64_t ms, const char *what)
{
    serve_stream_sleep(&listening->stream, ms, what);
    return api_wait(listening->request, listen_continue);
}

static struct topic *next_notified(struct listening *listening)
{
    for (size_t i = 0; i < listening->count; i++)
        if (listening->topics[i].is_found && listening->topics[i].is_notified)
            return &listening->topics[i];
    return NULL;
}

/* Drops a flow that is past its retention, or belongs to another account. */
static void drop_topic(struct topic *topic)
{
    topic->is_found = false;
    flow_watch_remove(&topic->watch);
}

/* The next notification follows in another turn of the loop. */
static enum op_result sent(struct listening *listening, bool is_sent)
{
    if (!is_sent)
        return end_listening(listening->request);
    bool has_more = listening->are_tools_changed || next_notified(listening);
    return rest(listening, has_more ? 0 : SERVE_HEARTBEAT_MS, "a change");
}

static enum op_result take_asker(struct listening *listening)
{
    struct topic *topic = listening->asking;
    listening->asking = NULL;
    topic->is_asker_known = mcp_asker_result(&topic->asker) == OK;
    return rest(listening, topic->is_asker_known ? 0 : SERVE_HEARTBEAT_MS, "a change");
}

/* Uses a separate arena: the request's arena grows until the stream ends. Without its asker the
 * task is sent with the next load. */
static enum op_result send_task(struct listening *listening, struct topic *topic,
                                const struct flow_view *view)
{
    struct api_request *request = listening->request;
    struct mcp_result note;
    struct arena arena;
    arena_init(&arena, NOTE_ARENA_BYTES_MAX);
    if (!topic->is_asker_known && mcp_asker_ask(request, &arena, view->text, &topic->asker)) {
        arena_deinit(&arena);
        listening->asking = topic;
        topic->is_notified = true;
        return api_wait(request, listen_continue);
    }
    topic->watch.rev = view->rev;
    begin_note(&note, request, "notifications/tasks");
    mcp_task_put(&note.w, request, &arena, view->text, &topic->asker);
    bool is_sent = mcp_notification_send(request, &note);
    arena_deinit(&arena);
    return sent(listening, is_sent);
}

static enum op_result start_task_load(struct listening *listening, struct topic *topic)
{
    struct api_request *request = listening->request;
    listening->load = flow_load_start_view(request->api->config.flow,
                                           request->serve.grant.account_id, topic->id,
                                           request->serve.policy, &request->serve.op);
    listening->loading = topic;
    if (listening->load)
        return api_wait(request, listen_continue);
    topic->is_notified = true;
    return rest(listening, SERVE_HEARTBEAT_MS, "memory");
}

/* A change by this process comes with the flow's view. After a change by another process, or if a
 * policy decides whether the caller may have it, the view is loaded. */
static enum op_result send_topic(struct listening *listening, struct topic *topic)
{
    bool is_gone = topic->watch.news_rev == INT64_MAX;
    struct flow_view *view = flow_watch_take_view(&topic->watch);
    enum op_result result;
    topic->is_notified = false;
    if (topic->is_task && (!view || listening->request->serve.policy) && !is_gone) {
        flow_view_unref(view);
        return start_task_load(listening, topic);
    }
    if (is_gone) {
        drop_topic(topic);
        result = sent(listening, true);
    } else if (topic->is_task) {
        bool is_new = view->rev > topic->watch.rev;
        result = is_new ? send_task(listening, topic, view) : sent(listening, true);
    } else {
        topic->watch.rev = topic->watch.news_rev;
        result = sent(listening, send_updated(listening, topic));
    }
    flow_view_unref(view);
    return result;
}

static enum op_result finish_task_load(struct listening *listening)
{
    struct topic *topic = listening->loading;
    struct flow_load *load = listening->load;
    listening->load = NULL;
    if (load->status == ERR_NOTFOUND)
        drop_topic(topic);
    else if (load->status != OK || !load->view) /* the database is unreachable: try later */
        topic->is_notified = true;
    else if (load->view->rev > topic->watch.rev)
        return send_task(listening, topic, load->view);
    return rest(listening, load->status == OK && next_notified(listening) ? 0 : SERVE_HEARTBEAT_MS,
                "a change");
}

/* Takes the result of a load before it waits for a slow reader, because the loaded view occupies
 * memory. */
static enum op_result listen_continue(struct api_request *request)
{
    struct listening *listening = request->state;
    enum serve_stream_state state = serve_stream_check(&listening->stream);
    if (state == SERVE_STREAM_REFUSED)
        return end_refused(request);
    if (state == SERVE_STREAM_OVER)
        return end_listening(request);
    if (listening->load)
        return finish_task_load(listening);
    if (listening->asking)
        return take_asker(listening);
    if (state == SERVE_STREAM_SLOW)
        return rest(listening, SERVE_HEARTBEAT_MS, "a client that reads slowly");
    if (listening->are_tools_changed)
        return sent(listening, send_tools_changed(listening));
    struct topic *topic = next_notified(listening);
    if (topic)
        return send_topic(listening, topic);
    return sent(listening, serve_events_beat(request->serve.exchange));
}

/* ---- the beginning ---- */

/* Returns the status of the flow's look-up, and its revision. */
static int first_rev(struct topic *topic, int64_t *rev)
{
    const struct flow_load *load = topic->first;
    topic->first = NULL;
    if (!topic->listening->request->serve.policy)
        return store_rev_result(&topic->query, rev);
    if (!load)
        return ERR_NOMEM;
    *rev = load->whole.flow.rev;
    return load->status;
}

/* The watches were added before the flows were looked up, so no change in between is missed. Each
 * task is sent in its present state, since it may have changed before this request. */
static enum op_result begin_listening(struct api_request *request)
{
    struct listening *listening = request->state;
    for (size_t i = 0; i < listening->count; i++) {
        struct topic *topic = &listening->topics[i];
        int64_t rev;
        int status = first_rev(topic, &rev);
        topic->is_found = status == OK;
        if (status == ERR_NOTFOUND)
            drop_topic(topic);
        else if (status != OK) {
            stop_listening(listening);
            return api_reply_database(request, status);
        } else if (topic->is_task)
            topic->is_notified = true;
        else {
            topic->watch.rev = rev;
            topic->is_notified = topic->is_notified && topic->watch.news_rev > rev;
        }
    }
    if (listening->stream.is_refused)
        return end_refused(request);
    mcp_stream_begin(request);
    return sent(listening, send_acknowledgement(listening));
}

/* The revision shows whether the flow belongs to this account. Whether a policy hides it is known
 * from its template. */
static void watch_topics(struct api_request *request, struct listening *listening)
{
    for (size_t i = 0; i < listening->count; i++) {
        struct topic *topic = &listening->topics[i];
        topic->listening = listening;
        topic->watch = (struct flow_watch){.account_id = request->serve.grant.account_id,
                                           .flow_id = topic->id,
                                           .wants_view = topic->is_task,
                                           .on_change = on_change};
        flow_watch_add(request->api->config.flow, &topic->watch);
        if (request->serve.policy)
            topic->first = flow_load_start(request->api->config.flow,
                                           request->serve.grant.account_id, topic->id,
                                           request->serve.policy, &request->serve.op);
        else
            store_flow_rev(request->api->config.pool, &topic->query, &request->serve.op,
                           request->serve.grant.account_id, topic->id);
    }
}

/* Counts the streams of this process: each stream costs a watch for each of its flows. */
static bool has_too_many(const struct api_request *request)
{
    size_t count = 0;
    LIST_EACH(&request->api->config.mcp_listeners->all, struct listening, listening, link)
        count += uuid_eq(serve_payer(&listening->request->serve), serve_payer(&request->serve));
    return count >= MCP_LISTENERS_MAX;
}

static enum op_result start_listening(struct api_request *request, struct listening *listening)
{
    struct mcp_message *message = request->outer;
    if (listening->count > 0 && !api_may(request, SCOPE_READ, NULL))
        return api_refuse_scope(request, SCOPE_READ);
    if (has_too_many(request)) {
        serve_retry_after(&request->serve, RETRY_AFTER_MS);
        return mcp_reply_error(
            request, message, 429, MCP_INVALID_REQUEST, SLICE_NONE,
            "An account can have at most %d open subscriptions. Close one first.",
            MCP_LISTENERS_MAX);
    }
    message->is_subscription = true;
    request->state = listening;
    request->on_gone = gone_listening;
    listening->request = request;
    list_init(&listening->link);
    list_push_back(&request->api->config.mcp_listeners->all, &listening->link);
    serve_stream_open(&listening->stream, &request->serve.op, request->serve.exchange,
                      request->api->config.auth, &request->serve.check, STREAM_MS_MAX);
    watch_topics(request, listening);
    return listening->count > 0 ? api_wait(request, begin_listening) : begin_listening(request);
}

/* ---- the filter ---- */

/* Adds the names of a list. A name that cannot be a flow's id is skipped. Returns false if it is
 * not a list of strings or has too many names. */
static bool read_topics(struct listening *listening, const struct json *names, slice prefix)
{
    if (names && (names->type != JSON_ARRAY || names->count > MCP_TOPICS_MAX - listening->count))
        return false;
    for (uint32_t i = 0; names && i < names->count; i++) {
        slice name = json_str(&names->as.items[i]);
        struct topic *topic = &listening->topics[listening->count];
        if (!name.ptr)
            return false;
        if (!slice_starts_with(name, prefix) ||
            !uuid_parse(slice_from(name, prefix.len), &topic->id))
            continue;
        topic->name = name;
        topic->is_task = prefix.len == 0;
        listening->count++;
    }
    return true;
}

enum op_result mcp_listen(struct api_request *request, const struct mcp_message *message)
{
    const struct json *filter = JSON_GET(message->params, "notifications");
    const struct json *tools = JSON_GET(filter, "toolsListChanged");
    const struct json *tasks = JSON_GET(filter, "taskIds");
    struct listening *listening = ARENA_NEW(&request->serve.op.arena, struct listening);
    if (listening)
        listening->topics = ARENA_ARRAY(&request->serve.op.arena, struct topic, MCP_TOPICS_MAX);
    if (!listening || !listening->topics)
        return api_reply_no_memory(request);
    if (tasks && !message->has_tasks)
        return mcp_refuse_without_tasks(request, message);
    if (!json_is(filter, JSON_OBJECT) || (tools && tools->type != JSON_BOOL) ||
        !read_topics(listening, JSON_GET(filter, "resourceSubscriptions"), flow_uri) ||
        !read_topics(listening, tasks, SLICE("")))
        return mcp_reply_error(
            request, message, 200, MCP_INVALID_PARAMS, SLICE_NONE,
            "params.notifications must be an object: toolsListChanged is true or "
            "false, resourceSubscriptions and taskIds are lists of strings, of "
            "%d together at most",
            MCP_TOPICS_MAX);
    listening->wants_tools = tools && tools->as.boolean;
    return start_listening(request, listening);
}
