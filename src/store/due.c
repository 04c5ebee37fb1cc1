/*
 * The scan for rows that are due; see due.h.
 */
#include "store/due.h"

#include "store/internal.h"

#define OF(name, type) PG_OF(#name, type, struct due_ref, name)
static const char *const kind_names[] = {[DUE_FLOW] = "flow", [DUE_DELIVERY] = "delivery"};
const struct pg_words store_due_kinds = {kind_names, ARRAY_LEN(kind_names), DUE_KIND_COUNT};

/* Each part walks its partial index from where the last page ended: many rows may be due at the
 * same microsecond, so the time alone is not a position. `>= :after_at` repeats the comparison's
 * first half as a plain condition on the index. */
#define PART(with, columns, table, status, at, id)                                             \
    "(select " columns ", d." at " as at, d.parent_id from " table " d where " with            \
    " and d.status = '" status "' and d." at " <= :until and d." at " >= :after_at and (d." at \
    ", d." id ") > (:after_at, :after_id) order by d." at ", d." id " limit 2000)"
#define OF_PAGE(name, type) PG_OF(#name, type, struct due_page, name)
static const struct pg_stmt due_scan = {
    .name = "due_scan",
    .sql = "select :ord, f.* from @input lateral (" PART(
        ":with_flows", "'flow' as kind, d.account_id, d.id, null::uuid as webhook_id, d.rev",
        "sluice.flow", "waiting", "wake_at",
        "id") " union all " PART(":with_deliveries",
                                 "'delivery', d.account_id, d.event_id, d.webhook_id, d.attempt",
                                 "sluice.delivery", "pending", "due_at",
                                 "event_id") " order by at, id limit 2000) f",
    PG_TAKES(OF_PAGE(until, PG_TIME), PG_ARG("after_at", PG_TIME), OF_PAGE(after_id, PG_UUID),
             OF_PAGE(with_flows, PG_BOOL), OF_PAGE(with_deliveries, PG_BOOL)),
    PG_GIVES(PG_WORD("kind", struct due_ref, kind, &store_due_kinds), OF(account_id, PG_UUID),
             OF(id, PG_UUID), OF(webhook_id, PG_UUID), OF(rev, PG_I64), OF(at, PG_TIME),
             OF(parent_id, PG_UUID)),
    .no_account = "a read-only scan for what is due, over all accounts",
    .is_spread = true,
    .spread_max = DUE_SCAN_MAX,
    .spread_order = "at id",
};

const struct pg_stmt *const due_stmts[] = {&due_scan, NULL};

void store_due_scan(STORE_ARGS, const struct due_page *page)
{
    /* 1 us after 1970: 0 would be NULL */
    store_ask_of(pool, query, op, &due_scan, page,
                 PG_VALUES(pg_time(page->after_at ? page->after_at : 1)));
}
