/*
 * The service, for the files of this room.
 */
#ifndef EVENT_INTERNAL_H
#define EVENT_INTERNAL_H

#include "event/event.h"

struct event_service {
    struct event_config config;
    struct address_policy *policy;
    struct http_client *client; /* NULL once closed */
};

#endif
