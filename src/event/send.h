/*
 * send: sends one message to one endpoint, once. It reads no row and writes none: the caller
 * decides what the result means.
 *
 *   POST URL
 *   webhook-id: the event's id             the same for all endpoints and attempts
 *   webhook-timestamp: seconds since 1970  of this attempt
 *   webhook-signature: v1,... [v1,...]     sign.h; two while a rolled secret overlaps
 *
 *   {"type": "flow.failed", "timestamp": "2031-01-31T00:00:00.000Z", "data": {...}}
 *
 * Redirects are not followed. Of a reply 64 KB are read and none is kept.
 */
#ifndef EVENT_SEND_H
#define EVENT_SEND_H

#include "event/event.h"
#include "store/webhook.h"

enum {
    EVENT_DATA_MAX = 4096, /* bytes, of a row */
    EVENT_MESSAGE_DATA_MAX = 2 * EVENT_DATA_MAX,
    EVENT_PROBLEM_MAX = 200,       /* bytes */
    EVENT_PAUSE_S_MAX = 24 * 3600, /* of a Retry-After */
};

struct event_message {
    struct uuid id;
    slice kind;
    int64_t at; /* when it happened */
    slice data; /* a JSON object of at most EVENT_MESSAGE_DATA_MAX bytes, sent as it is */
};

/* An op, embedded in a caller's op. */
struct event_send {
    struct op op;
    /* out; until the op ends, as if no reply had come */
    bool is_delivered; /* the reply began with a status 2xx */
    bool is_ours; /* no reply came, for a reason that is not known to be the endpoint's: is_untried,
                   * or the operator's proxy did not connect */
    bool is_untried;  /* nothing was asked, for a reason in this process: the secret does not open
                       * here, or it has no free connection or memory, or ends */
    unsigned status;  /* of the reply; 0: none came */
    unsigned pause_s; /* from Retry-After; 0: none */
    uint64_t duration_ms;                /* from the start to the end of the reply */
    char problem[EVENT_PROBLEM_MAX + 1]; /* a sentence for the account; "" if is_delivered */
    /* private */
    struct event_service *service;
    const struct webhook *webhook;
    struct event_message message;
    struct http_call call;
    struct http_header headers[4];
    struct buf body, signature;
    slice part;
    char id[UUID_TEXT_LEN + 1], sent_at[24];
};

/* Returns a row's data as it is sent, apart from the members that are added at its beginning. The
 * page of a user's flow is found with the user, and the process that wrote the event may not have
 * known the name: then approval_url gets it. user: its external id, SLICE_NONE for the account's
 * own. The result is `data` itself or a copy in the arena; SLICE_NONE: out of memory. */
slice event_row_data(slice data, slice user, struct arena *arena);

/* webhook has a URL; it, its texts and those of message are borrowed until the op has ended. If the
 * parent is cancelled, the message may have arrived. */
void event_send_start(struct event_service *service, struct event_send *send,
                      const struct webhook *webhook, const struct event_message *message,
                      struct op *parent);

#endif
