/*
 * once: forms that create a row, made idempotent. The row's id is drawn when the form is rendered
 * and sealed into a hidden field, bound to the account and to the API key of the session. A form
 * that is sent twice, or reloaded, names the same id and finds the row that the first request
 * created.
 */
#ifndef WEB_ONCE_H
#define WEB_ONCE_H

#include "web/request.h"

enum {
    ONCE_PLAIN_MAX = 128,
    ONCE_MS = 24 * 60 * 60 * 1000, /* how long a form is valid */
    ONCE_CONNECTION = 'c',         /* the kind for a new connection's id, in digits */
};

/* Writes the member "once" of a page's data, the value of the hidden field (once.html). plain is
 * the id, at most ONCE_PLAIN_MAX bytes, whose first byte is its kind. If memory runs out, nothing
 * is written, and the form is then refused as too old. */
void once_view_field(struct web_request *request, slice plain, struct json_writer *w);
/* Returns the id in the form that was sent, in the op's arena (the caller wipes it if it is
 * secret). Returns SLICE_NONE if the form has no id, or if its id is from another session, of
 * another kind, or too old. */
slice once_read_field(struct web_request *request, char kind);

#endif
