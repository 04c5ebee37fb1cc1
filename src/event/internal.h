/*
 * The service, for the files of this room.
 */
#ifndef EVENT_INTERNAL_H
#define EVENT_INTERNAL_H

#include "base/keyed.h"
#include "event/event.h"
#include "store/delivery.h"
#include "store/later.h"

/* Deliveries under way, and rows that wait for one (outbox.c). */
struct event_outbox {
    struct keyed_table lanes; /* struct event_lane, by endpoint */
    struct list ring;         /* lanes in which rows wait */
    struct map known;         /* struct event_row, by event and endpoint: all of the following */
    struct list sending;      /* struct event_row.link */
    struct list putting_off;  /* the same, of rows that are only put off */
    struct list late;         /* the same, of rows to be put off */
    size_t sending_count, putting_off_count, late_count, waiting_count;
    struct store_laters news;    /* reads of rows that were just written */
    struct store_laters replays; /* rows that are sent again on request */
    bool is_stopped;             /* nothing new begins */
};

struct event_service {
    struct event_config config;
    struct address_policy *policy;
    struct http_client *client; /* NULL once closed */
    struct event_outbox outbox;
};

struct event_lane {
    struct keyed keyed; /* waiting: struct event_row.link */
    struct uuid payer_id;
    size_t sending_count, waiting_count;
    size_t putting_off_count; /* including those of event_outbox.late */
    struct uuid behind_from;  /* the first event of those that were put off since the last read */
    bool is_behind;           /* there are such events */
    bool is_well;             /* the last message was accepted */
    bool is_reading;          /* its next rows are being read */
};

/* A row that this process is sending, or will. */
struct event_row {
    struct due_ref ref;
    bool is_next; /* the object's event before it has just ended */
    bool is_full; /* its lane has no room, so it is put off */
    bool is_sent; /* its message was sent, whatever the answer */
    bool is_accepted;
    bool is_held;    /* it was put off, because its endpoint is paused */
    bool has_healed; /* it was accepted, and others before it were not */
    struct list link;
    struct event_lane *lane;
    struct op *op;                        /* its delivery; NULL while it waits */
    uint8_t key[2 * sizeof(struct uuid)]; /* in event_outbox.known */
};

/* outbox.c */
void event_outbox_init(struct event_service *service);
/* Nothing may be under way (asserted). */
void event_outbox_deinit(struct event_service *service);
/* Sends the row now or once there is room for it, unless it is known already. */
void event_outbox_take(struct event_service *service, const struct due_ref *ref, bool is_next);
/* The row's delivery has ended. Frees the row, and starts others. */
void event_outbox_ended(struct event_service *service, struct event_row *row);

/* deliver.c: claims the row, sends it and ends it. Returns false if out of memory. */
bool event_deliver_start(struct event_service *service, struct event_row *row);

#endif
