/*
 * Leases of limits. One statement divides a limit for the holder that asks, under the lock of its
 * row. The holder gets amounts that no other holder has, as long as no other needs them.
 */
#include "store/rate_lease.h"

#include "store/internal.h"

#define ASK_OF(name, type, ...) PG_OF(#name, type, struct rate_lease_ask, name, __VA_ARGS__)
#define LEASE_OF(name)          PG_OF(#name, PG_I64, struct rate_lease, name)

/* clang-format off */
#define LIFE    "interval '" STORE_TEXT_OF(LIFE_MS) " milliseconds'"
#define LIFE_MS 2000
/* Entries of other holders with a valid lease; "promised": the part of the level that they may
 * have used by now. This holder's own entry is replaced. */
#define OTHERS                                                                                    \
    "(select coalesce(array_agg(u.holder), '{}') as holders, "                                    \
    "coalesce(array_agg(u.need), '{}') as needs, coalesce(array_agg(u.part), '{}') as parts, "    \
    "coalesce(array_agg(u.held), '{}') as helds, coalesce(array_agg(u.until), '{}') as ends, "    \
    "coalesce(sum(u.need), 0)::float8 as need, coalesce(sum(u.part), 0)::bigint as part, "        \
    "coalesce(sum(u.held + u.part * greatest(0, extract(epoch from now() - u.until + " LIFE       \
    "))), 0)::bigint as promised from (select x.* from "                                          \
    "unnest(t.holders, t.needs, t.parts, t.helds, t.ends) x (holder, need, part, held, until) "   \
    "where x.holder <> e.holders[1] and x.until > now() limit "                                   \
    STORE_TEXT_OF(OTHERS_MAX) ") u) o"
#define OTHERS_MAX 63
#define LEVEL                                                                                     \
    "(select least(e.burst, t.level + (e.total * greatest(0, extract(epoch from now() - "         \
    "t.filled_at)))::bigint) - e.asked[1] as level) v"
/* Grants all that is needed from the free part, and half of the rest, so that some is left for the
 * next holder. Never grants more than the part that the others do not need or, if the holders need
 * more than there is, a share in proportion to the need. */
#define PART                                                                                      \
    "(select greatest(e.asked[3], least(greatest(e.total - o.need, "                              \
    "ceil(e.total * e.asked[2]::float8 / greatest(e.asked[2] + o.need, 1)))::bigint, "            \
    "e.total - o.part, e.asked[2] + greatest(e.total - o.part - e.asked[2], 0) / 2)) as part) p"
#define HELD                                                                                      \
    "(select greatest(e.asked[5], 0, least(v.level - o.promised, "                                \
    "e.asked[4] + greatest(v.level - o.promised - e.asked[4], 0) / 2)) as held) h"
/* "excluded" has the request, with the amounts that a sole holder would get. */
#define DIVIDED                                                                                   \
    "(select e.total, e.burst, v.level, greatest(t.filled_at, now()), e.expires_at, e.asked, "    \
    "e.holders || o.holders, e.needs || o.needs, p.part || o.parts, h.held || o.helds, "          \
    "e.ends || o.ends from (select excluded.*) e, lateral " OTHERS ", lateral " LEVEL             \
    ", lateral " PART ", lateral " HELD ")"
/* clang-format on */
_Static_assert(LIFE_MS == RATE_LEASE_MS && OTHERS_MAX == RATE_LEASE_HOLDERS_MAX - 1,
               "as the header says");

static const struct pg_stmt rate_lease_take = {
    .name = "rate_lease_take",
    .sql = "insert into sluice.rate_lease as t (account_id, name, total, burst, level, filled_at, "
           "expires_at, asked, holders, needs, parts, helds, ends) @row :account_id, :name, "
           ":total, :burst, :burst - :used, now(), date_trunc('hour', now() + interval '2 hours' + "
           "least(:burst / greatest(:total, 1), 1000000) * interval '1 second'), "
           "array[:used, :need, :floor, :backlog, :kept], array[:holder], array[:need], "
           "array[:part], array[:held], array[now() + " LIFE "] @end "
           "on conflict (account_id, name) do update set (total, burst, level, filled_at, "
           "expires_at, asked, holders, needs, parts, helds, ends) = " DIVIDED
           " returning t.account_id, t.name, t.parts[1], t.helds[1]",
    PG_TAKES(ASK_OF(account_id, PG_UUID), ASK_OF(name, PG_TEXT), ASK_OF(holder, PG_UUID),
             ASK_OF(total, PG_I64), ASK_OF(burst, PG_I64), ASK_OF(used, PG_I64),
             ASK_OF(need, PG_I64), ASK_OF(floor, PG_I64), ASK_OF(backlog, PG_I64),
             ASK_OF(kept, PG_I64), PG_ARG("part", PG_I64), PG_ARG("held", PG_I64)),
    PG_GIVES(PG_ARG("account_id", PG_UUID), PG_ARG("name", PG_TEXT), LEASE_OF(part),
             LEASE_OF(held)),
    .key_count = 2,
    .match = PG_MATCH_KEY,
    .access = PG_WRITE_ONCE,
};

static const struct pg_stmt rate_lease_sweep =
    STORE_SWEEP("rate_lease_sweep", "rate_lease", "name", "now()", .is_spread = true);

const struct pg_stmt *const rate_lease_stmts[] = {&rate_lease_take, &rate_lease_sweep, NULL};

static int64_t at_most(int64_t value, int64_t most)
{
    return value < most ? value : most;
}

/* Returns the needed amount and half of the rest. */
static int64_t some_of(int64_t there, int64_t needed)
{
    return there > needed ? needed + (there - needed) / 2 : there;
}

void store_rate_lease_take(STORE_ARGS, const struct rate_lease_ask *ask)
{
    ASSERT(ask->total > 0 && ask->burst >= 0 && ask->need >= 0 && ask->floor >= 0);
    ASSERT(ask->name.len > 0 && ask->name.len <= RATE_LEASE_NAME_MAX);
    /* This is for a limit without a row, which no process has used. */
    int64_t part = some_of(ask->total, at_most(ask->need, ask->total));
    int64_t held = some_of(ask->burst - ask->used, ask->backlog);
    part = part > ask->floor ? part : ask->floor;
    store_ask_of(pool, query, op, &rate_lease_take, ask,
                 PG_VALUES(pg_i64(part), pg_i64(held > 0 ? held : 0)));
}

STORE_CALL(store_rate_lease_sweep, rate_lease_sweep)

int store_rate_lease_take_result(const struct pg_query *query, struct rate_lease *lease)
{
    if (query->status != OK)
        return query->status;
    *lease = (struct rate_lease){pg_get_i64(&query->rows, 0, 2), pg_get_i64(&query->rows, 0, 3)};
    return OK;
}
