/*
 * The page of a key: what it may do, the settings of programs that use it, and whether its first
 * call has arrived. Right after the key was created the page also has its text (keys.c).
 */
#include "base/clock.h"
#include "web/app.h"

/* How long a browser waits until it asks again whether the key was used. */
#define ASK_AGAIN "retry: 2000\n"

enum op_result web_reply_key(struct web_request *request, unsigned status,
                             const struct api_key *key, slice secret)
{
    struct json_writer *w = view_begin(request);
    view_key_members(request, w, key);
    json_member_bool(w, "may_read", (key->scopes & SCOPE_READ) != 0);
    json_member_bool(w, "may_run", (key->scopes & SCOPE_EXECUTE) != 0);
    json_member_str(w, "key", secret.ptr ? secret : SLICE("YOUR_KEY"));
    json_member_bool(w, "is_new", secret.ptr != NULL);
    return web_reply_view(request, status, "key");
}

/* Reads the key of the path. Returns false if a reply was sent. */
static bool read_found_key(struct web_request *request, struct api_key *key)
{
    int status = store_api_key_find_result(&request->query, key);
    if (status == ERR_NOTFOUND)
        (void)web_reply_missing(request, "The account has no such key.");
    else if (status != OK)
        (void)web_reply_database(request, status);
    return status == OK;
}

static enum op_result find_key_of_path(struct web_request *request, web_step *then)
{
    struct uuid id;
    if (!web_path_uuid(request, 0, &id))
        return OP_DONE;
    store_api_key_get(request->web->config.pool, &request->query, &request->serve.op,
                      request->session.account_id, id);
    return web_wait(request, then);
}

static enum op_result finish_page(struct web_request *request)
{
    struct api_key key;
    return read_found_key(request, &key) ? web_reply_key(request, 200, &key, SLICE_NONE) : OP_DONE;
}

enum op_result web_key(struct web_request *request)
{
    return find_key_of_path(request, finish_page);
}

/* Whether the page has nothing more to wait for. */
static bool is_settled(const struct api_key *key)
{
    return key->last_used_at || key->revoked_at ||
           (key->expires_at > 0 && key->expires_at <= clock_shared_us());
}

/* A stream that ends at once: the browser opens it again by itself (WHATWG HTML 9.2.3). The use of
 * a key notifies no process, and few people wait for a first call at the same time. */
static enum op_result finish_events(struct web_request *request)
{
    static const struct http_header headers[] = {
        {SLICE_INIT("Content-Type"), SLICE_INIT("text/event-stream; charset=utf-8")},
        {SLICE_INIT("Cache-Control"), SLICE_INIT("no-store")}};
    struct api_key key;
    if (!read_found_key(request, &key))
        return OP_DONE;
    request->serve.is_answered = true;
    http_reply(request->serve.exchange, 200, headers, ARRAY_LEN(headers),
               is_settled(&key) ? SLICE(ASK_AGAIN "data: used\n\n") : SLICE(ASK_AGAIN "\n"));
    return OP_DONE;
}

enum op_result web_key_events(struct web_request *request)
{
    return find_key_of_path(request, finish_events);
}
