/*
 * The content of a connect link's page in each state of the link. Private to the room.
 */
#ifndef WEB_LINK_PAGE_H
#define WEB_LINK_PAGE_H

#include "web/app.h"

/* Why the link can no longer be used. */
enum link_over {
    LINK_UNKNOWN, /* it never existed, or ended long ago */
    LINK_EXPIRED,
    LINK_TAKEN,   /* opened by another browser */
    LINK_USED,    /* opened by another browser, and used there to connect the app */
    LINK_REVOKED, /* the key that made the link was revoked */
    LINK_GONE,    /* the connection to reconnect was deleted */
};

/* A valid link; this browser has opened it if the request has a session. */
struct link_page {
    struct connect_session link;
    const struct catalog_integration *app;
    struct connection row; /* has_row: the connection to reconnect, or the one that was made */
    bool has_row;
    bool lacks_client; /* the app can be connected by signing in, but has no OAuth client */
};

/* Sends the page of a link that can no longer be used. link is NULL if the link has no row. */
enum op_result link_reply_over(struct web_request *request, enum link_over why,
                               const struct connect_session *link);
enum op_result link_reply_page(struct web_request *request, const struct link_page *page);

#endif
