/*
 * The account's connections in pages, of all apps or of one, oldest first.
 */
#include "web/app.h"

enum { CONNECTIONS_A_PAGE = 50 };

static enum op_result begin_connections_page(struct web_request *request)
{
    struct connection_page *page = ARENA_NEW(&request->op.arena, struct connection_page);
    if (!page)
        return web_reply_database(request, ERR_BUSY);
    page->integration_id = web_query(request, "app");
    /* One more row than a page has says whether there is a next page. */
    page->count_max = CONNECTIONS_A_PAGE + 1;
    if (!connect_cursor_read(web_query(request, "after"), page))
        return web_reply_problem(request, 404, SLICE("Not found"),
                                 SLICE("There is no page at this address."));
    request->state = page;
    store_connection_page(request->web->config.pool, &request->query, &request->op,
                          request->session.account_id, page);
    return OP_WAIT;
}

void web_write_connection_row(struct web_request *request, const struct connection *row,
                              struct buf *out)
{
    const struct catalog_integration *app =
        catalog_find_integration(*request->web->config.catalog, row->integration_id);
    HTML(out,
         "<li class=\"row\"><div><h3><a href=\"{}\">{}</a></h3>"
         /* A removed app leaves its connections; they are listed by its id. */
         "<p class=\"soft\">{}</p>",
         app_connection_path(request, row->id), app ? app->name : row->integration_id, row->label);
    if (row->error.len > 0)
        HTML(out, "<p>{}</p>", row->error);
    buf_append(out, SLICE("</div><p>"));
    app_write_badges(row, out);
    buf_append(out, SLICE("</p></li>"));
}

void web_write_more_connections(struct web_request *request, slice integration_id,
                                const struct connection *last, struct buf *out)
{
    HTML(out,
         "<p class=\"actions\"><a class=\"button\" href=\"/connections?app={}&amp;after={}\">"
         "More connections</a></p>",
         integration_id, connect_cursor(last, &request->op.arena));
}

static enum op_result finish_connections_page(struct web_request *request)
{
    const struct connection_page *page = request->state;
    struct connection *list;
    struct buf body;
    size_t count;
    int status = store_connection_list_result(&request->query, &list, &count);
    if (status != OK)
        return web_reply_database(request, status);
    ASSERT(count <= page->count_max);
    /* The extra row is not on this page; the link continues after the last one that is. */
    bool is_more = count == page->count_max;
    buf_init(&body, WEB_PAGE_BYTES_MAX);
    if (count == 0)
        buf_append(&body, SLICE("<p class=\"soft\">None.</p>"));
    buf_append(&body, SLICE("<ul class=\"list\">"));
    for (size_t i = 0; i < count - is_more; i++)
        web_write_connection_row(request, &list[i], &body);
    buf_append(&body, SLICE("</ul>"));
    if (is_more)
        web_write_more_connections(request, page->integration_id, &list[count - 2], &body);
    return web_reply_page(request, 200, SLICE("Connections"), &body);
}

const struct web_page web_connections = {.route = "/connections",
                                         .access = WEB_SESSION,
                                         .scope = SCOPE_READ,
                                         .begin = begin_connections_page,
                                         .finish = finish_connections_page};
