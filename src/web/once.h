/*
 * once: forms that make something, once. What a form is to make is named when the form is shown:
 * the name is sealed into it, bound to the account and to the key of the session, so that a second
 * press or a reload makes nothing new but finds what the first has made.
 */
#ifndef WEB_ONCE_H
#define WEB_ONCE_H

#include "web/request.h"

enum {
    ONCE_PLAIN_MAX = 128,
    ONCE_MS = 24 * 60 * 60 * 1000, /* how long a form is valid */
    ONCE_CONNECTION = 'c',         /* a new connection's id, in digits */
};

/* Writes the form's hidden field. plain: the name, at most ONCE_PLAIN_MAX bytes, whose first byte
 * is its kind. Out of memory, nothing is written: the form is then refused as too old. */
void once_write_field(struct web_request *request, slice plain, struct buf *out);
/* The name in the form that was sent, in the op's arena (the caller wipes it if it is secret).
 * SLICE_NONE: there is none, it is of another session or kind, or it is too old. */
slice once_read_field(struct web_request *request, char kind);

#endif
