/*
 * Endpoints that run on a page's request, and pages that are views of one (struct web_view): its
 * reply becomes the page's data.
 */
#include "web/view.h"

static struct web_request *page_of(struct api_request *call)
{
    return CONTAINER_OF(call, struct web_request, call);
}

/* ---- an endpoint ---- */

static enum op_result take_reply(struct api_request *call, unsigned status, slice json_text,
                                 struct op *owner)
{
    struct web_request *request = page_of(call);
    (void)owner; /* the page is a copy */
    const struct json *reply =
        json_parse(&request->serve.op.arena, json_text, &json_limits_provider, NULL);
    return reply ? request->answer(request, status, reply) : web_reply_database(request, ERR_NOMEM);
}

/* It stays the page's next step until the endpoint has answered. */
static enum op_result resume_endpoint(struct web_request *request)
{
    return request->call.then(&request->call);
}

enum op_result web_ask(struct web_request *request, const struct api_endpoint *endpoint,
                       const struct json *arguments, web_answer *then)
{
    static const struct api_envelope to_page = {.reply = take_reply, .is_for_person = true};
    static const struct json none = {.type = JSON_OBJECT};
    if (request->serve.op.arena.is_exhausted) /* the arguments may lack some */
        return web_reply_database(request, ERR_NOMEM);
    request->call.api = request->web->api;
    request->answer = then;
    request->then = resume_endpoint;
    return api_delegate(&request->call, endpoint, arguments ? arguments : &none, &to_page);
}

enum op_result web_reply_refused(struct web_request *request, unsigned status,
                                 const struct json *reply)
{
    slice text = json_get_str(reply, SLICE("error"));
    if (status == 404)
        return web_reply_missing(request, "There is no page at this address.");
    bool is_read = request->serve.exchange->head.method != HTTP_METHOD_POST;
    if (status == 503 || !text.ptr || (is_read && status >= 500))
        return web_reply_database(request, status == 503 ? ERR_BUSY : ERR_INVALID);
    return web_reply_problem(
        request, status, status < 500 ? "Not done" : "It is not known whether this was done",
        "%.*s%s", SLICE_ARG(text), slice_ends_with(text, SLICE(".")) ? "" : ".");
}

/* ---- a view ---- */

/* The rows of the reply's list get the page's additions. */
static void put_member(struct web_request *request, struct json_writer *w,
                       const struct json_member *member)
{
    const struct web_view *view = request->page->view;
    slice key = json_str(&member->key);
    json_key_slice(w, key);
    if (!view->list || !slice_eq_cstr(key, view->list)) {
        json_put(w, &member->value);
        return;
    }
    json_open(w, '[');
    for (uint32_t i = 0; i < member->value.count; i++) {
        const struct json *row = &member->value.as.items[i];
        json_open(w, '{');
        for (uint32_t j = 0; j < row->count; j++) {
            json_key_slice(w, json_str(&row->as.members[j].key));
            json_put(w, &row->as.members[j].value);
        }
        view->row(request, w, row);
        json_close(w, '}');
    }
    json_close(w, ']');
}

/* For a view, a wrong argument means a wrong address. */
static enum op_result reply_page(struct web_request *request, unsigned status,
                                 const struct json *reply)
{
    const struct web_view *view = request->page->view;
    if (status != 200)
        return web_reply_refused(request, status == 400 ? 404 : status, reply);
    struct json_writer *w = view_begin(request);
    for (uint32_t i = 0; i < reply->count; i++)
        put_member(request, w, &reply->as.members[i]);
    json_member_open(w, "asked", '{');
    for (size_t i = 0; i < WEB_VIEW_ARGUMENTS_MAX && view->arguments[i].name; i++)
        if (view->arguments[i].from)
            json_member_str(w, view->arguments[i].from,
                            web_query(request, view->arguments[i].from));
    json_close(w, '}');
    return web_reply_view(request, 200, view->file);
}

enum op_result web_view_begin(struct web_request *request)
{
    const struct web_view *view = request->page->view;
    struct arena *arena = &request->serve.op.arena;
    struct json *arguments = ARENA_NEW(arena, struct json);
    if (!arguments)
        return web_reply_database(request, ERR_NOMEM);
    *arguments = json_object();
    for (size_t i = 0; i < WEB_VIEW_ARGUMENTS_MAX && view->arguments[i].name; i++) {
        slice value = view->arguments[i].from ? web_query(request, view->arguments[i].from)
                                              : slice_cstr(view->arguments[i].value);
        if (value.ptr)
            json_object_set(arena, arguments, slice_cstr(view->arguments[i].name),
                            json_string(value));
    }
    return web_ask(request, view->endpoint, arguments, reply_page);
}
