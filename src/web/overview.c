/*
 * The overview: what waits for a person, what failed, what is connected.
 */
#include "web/page.h"

static enum op_result begin_overview(struct web_request *request)
{
    struct buf body;
    buf_init(&body, WEB_PAGE_BYTES_MAX);
    return web_reply_page(request, 200, SLICE("Overview"), &body);
}

const struct web_page web_overview = {
    .route = "/", .access = WEB_SESSION, .scope = SCOPE_READ, .begin = begin_overview};
