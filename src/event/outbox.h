/*
 * outbox: for the rooms whose changes make events. The statement of a change inserts its event for
 * each endpoint that hears it (STORE_OUTBOX in store/internal.h), so no crash loses one. This sends
 * it at once; without that, the next scan of any process finds it (due/due.h).
 */
#ifndef EVENT_OUTBOX_H
#define EVENT_OUTBOX_H

#include "base/id.h"

struct event_service;

/* Call it when the statement has reported that it wrote the event (store_has_event,
 * store_event_of). account_id: of the changed row. event_id may be nil: no endpoint hears it.
 * service may be NULL. */
void event_written(struct event_service *service, struct uuid account_id, struct uuid event_id);

#endif
