/*
 * The account's connections in pages, of all apps or of one, oldest first.
 */
#include "web/app.h"

enum { CONNECTIONS_A_PAGE = 50 };

void view_connection_members(struct web_request *request, struct json_writer *w,
                             const struct connection *row)
{
    const struct catalog_integration *app =
        catalog_find_integration(*request->web->config.catalog, row->integration_id, NULL);
    connect_write(w, row);
    /* A removed app leaves its connections; they are listed by its id. */
    json_member_str(w, "app", app ? app->name : row->integration_id);
}

void view_connection(struct web_request *request, struct json_writer *w,
                     const struct connection *row)
{
    json_open(w, '{');
    view_connection_members(request, w, row);
    json_close(w, '}');
}

static enum op_result finish_connections_page(struct web_request *request)
{
    const struct connection_page *page = request->state;
    struct connection *list;
    size_t count;
    int status = store_connection_list_result(&request->query, &list, &count);
    if (status != OK)
        return web_reply_database(request, status);
    ASSERT(count <= page->count_max);
    /* The extra row is not on this page; the link continues after the last one that is. */
    bool is_more = count == page->count_max;
    struct json_writer *w = view_begin(request);
    json_member_open(w, "connections", '[');
    for (size_t i = 0; i < count - is_more; i++)
        view_connection(request, w, &list[i]);
    json_close(w, ']');
    json_member_str(w, "app", page->integration_id);
    json_member_str(w, "after",
                    is_more ? connect_cursor(&list[count - 2], &request->serve.op.arena)
                            : SLICE_NONE);
    return web_reply_view(request, 200, "connections");
}

enum op_result web_connections(struct web_request *request)
{
    struct connection_page *page = ARENA_NEW(&request->serve.op.arena, struct connection_page);
    if (!page)
        return web_reply_database(request, ERR_NOMEM);
    page->integration_id = web_query(request, "app");
    /* One more row than a page has says whether there is a next page. */
    page->count_max = CONNECTIONS_A_PAGE + 1;
    if (!connect_cursor_read(web_query(request, "after"), page))
        return web_reply_missing(request, "There is no page at this address.");
    request->state = page;
    store_connection_page(request->web->config.pool, &request->query, &request->serve.op,
                          request->session.account_id, page);
    return web_wait(request, finish_connections_page);
}
