/*
 * The calls of one app, looked up by the keys of tallies and executions, since neither table has an
 * index by app. The start of a longer slot (store/tally.h) is also the start of a shorter slot.
 */
#include "store/app_use.h"

#include "store/internal.h"

#define NEWEST 200
_Static_assert(NEWEST == APP_USE_NEWEST, "as callers know it");
_Static_assert(TALLY_SLOT_S == 300, "the times that are looked up");

#define OUTCOME(name) \
    "coalesce(sum(t.calls) filter (where t.outcome = '" name "'), 0)::bigint as " name
#define OUTCOMES           OUTCOME("succeeded") ", " OUTCOME("failed") ", " OUTCOME("blocked")
#define OF_SUM(name, type) PG_OF(#name, type, struct tally_sum, name)
static const struct pg_stmt app_use = {
    .name = "app_use",
    .sql = "select :ord, c.* from @input lateral (select date_bin(make_interval(secs => :step_s), "
           "t.slot, :since) as at, " OUTCOMES
           " from generate_series(:since, :until, interval '300 seconds') s(slot), lateral "
           "(select x.slot, x.outcome, x.calls from sluice.tally x where x.account_id = "
           ":account_id and x.slot = s.slot and x.integration_id = :integration_id offset 0) t "
           "group by 1 order by 1) c",
    PG_TAKES(PG_ARG("account_id", PG_UUID), PG_ARG("integration_id", PG_TEXT),
             PG_ARG("since", PG_TIME), PG_ARG("step_s", PG_I64), PG_ARG("until", PG_TIME)),
    PG_GIVES(OF_SUM(at, PG_TIME), OF_SUM(succeeded, PG_I64), OF_SUM(failed, PG_I64),
             OF_SUM(blocked, PG_I64)),
};

#define OF_KEY(name, type) PG_OF(#name, type, struct app_key, name)
#define LIMIT_NEWEST       " order by x.id desc limit " STORE_TEXT_OF(NEWEST)
static const struct pg_stmt app_keys = {
    .name = "app_keys",
    .sql = "select :ord, c.* from @input lateral (select d.id, d.calls, d.failed, "
           "(select " STORE_KEY_LABEL
           " from sluice.api_key k where k.account_id = :payer_id and k.id = d.id) as name from "
           "(select e.api_key_id as id, count(*) as calls, count(*) filter (where e.status = "
           "'failed') as failed from (select x.api_key_id, x.connection_id, x.status from "
           "sluice.execution x where x.account_id = :account_id" LIMIT_NEWEST
           ") e where e.connection_id = :connection_id group by 1) d order by 4, 1) c",
    PG_TAKES(PG_ARG("account_id", PG_UUID), PG_ARG("connection_id", PG_I64),
             PG_ARG("payer_id", PG_UUID)),
    PG_GIVES(OF_KEY(id, PG_UUID), OF_KEY(calls, PG_I64), OF_KEY(failed, PG_I64),
             OF_KEY(name, PG_TEXT)),
};

const struct pg_stmt *const app_use_stmts[] = {&app_use, &app_keys, NULL};

void store_app_use(STORE_ARGS, struct uuid account_id, slice integration_id,
                   const struct tally_range *range, int64_t until)
{
    ASSERT(range->step_s > 0 && range->step_s % TALLY_SLOT_S == 0);
    store_ask(pool, query, op, &app_use,
              PG_VALUES(pg_uuid(account_id), pg_text(integration_id), pg_time(range->since),
                        pg_i64(range->step_s), pg_time(until)));
}

void store_app_keys(STORE_ARGS, struct uuid account_id, int64_t connection_id, struct uuid payer_id)
{
    store_ask(pool, query, op, &app_keys,
              PG_VALUES(pg_uuid(account_id), pg_i64(connection_id), pg_uuid(payer_id)));
}
