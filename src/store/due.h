/*
 * due: rows of all kinds that wait for a time, in one scan over all accounts. The scan reads
 * without locks; each row is then taken by a fenced statement of its noun (store/flow.h,
 * store/delivery.h).
 */
#ifndef STORE_DUE_H
#define STORE_DUE_H

#include "store/store.h"

enum { DUE_SCAN_MAX = 2000 };

enum due_kind { DUE_FLOW, DUE_DELIVERY, DUE_KIND_COUNT };

struct due_ref {
    enum due_kind kind;
    struct uuid account_id, parent_id; /* of the row; parent_id: the account of a user's row */
    struct uuid id;                    /* of the flow; of a delivery: the event's */
    struct uuid webhook_id;            /* of a delivery */
    int64_t rev;                       /* of a delivery: its attempts so far */
    int64_t at;                        /* when it is due */
};

/* Lists up to DUE_SCAN_MAX rows of these kinds that are due up to `until`, soonest first, after
 * (at, id) of the last page (0 and nil: from the start). Deliveries of one event have the same id,
 * so a page may leave out some of them; the next scan from the start finds these. */
struct due_page {
    int64_t until, after_at;
    struct uuid after_id;
    bool with_flows, with_deliveries;
};
void store_due_scan(STORE_ARGS, const struct due_page *page);
STORE_LIST_RESULT(store_due_scan_result, due_ref)

#endif
