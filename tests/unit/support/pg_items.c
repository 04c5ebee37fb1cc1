/*
 * See pg_items.h.
 */
#include "support/pg_items.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "pg/stmt.h"

static const struct pg_column put_params[] = {
    PG_ARG("account_id", PG_UUID), PG_ARG("id", PG_I64),    PG_ARG("n", PG_I64),
    PG_ARG("name", PG_TEXT),       PG_ARG("body", PG_JSON), PG_ARG("at", PG_TIME),
    PG_ARG("flag", PG_BOOL),       PG_ARG("raw", PG_BYTES)};
static const struct pg_column take_columns[] = {PG_ARG("account_id", PG_UUID), PG_ARG("id", PG_I64),
                                                PG_ARG("n", PG_I64)};
static const struct pg_column by_params[] = {PG_ARG("account_id", PG_UUID), PG_ARG("id", PG_I64),
                                             PG_ARG("by", PG_I64)};
static const struct pg_column n_columns[] = {PG_ARG("n", PG_I64)};
static const struct pg_column list_columns[] = {PG_ARG("id", PG_I64), PG_ARG("n", PG_I64)};

#define INSERT                                                           \
    "insert into t.item (account_id, id, n, name, body, at, flag, raw) " \
    "@row :account_id, :id, :n, :name, :body, :at, :flag, :raw @end on conflict do nothing"

const struct pg_stmt item_put = {
    .name = "item_put",
    .sql = INSERT,
    PG_PARAMS(put_params),
    .key_count = 2,
    .match = PG_MATCH_NONE,
    .access = PG_WRITE,
};

const struct pg_stmt item_take = {
    .name = "item_take",
    .sql = INSERT " returning account_id, id, n",
    PG_PARAMS(put_params),
    PG_COLUMNS(take_columns),
    .key_count = 2,
    .match = PG_MATCH_KEY,
    .access = PG_WRITE,
};

const struct pg_stmt item_add = {
    .name = "item_add",
    .sql = "update t.item t set n = t.n + :by @update(t.item) returning :ord, t.n",
    PG_PARAMS(by_params),
    PG_COLUMNS(n_columns),
    .key_count = 2,
    .access = PG_WRITE_ONCE,
};

const struct pg_stmt item_set = {
    .name = "item_set",
    .sql = "update t.item t set n = :by @update(t.item) returning :ord, t.n",
    PG_PARAMS(by_params),
    PG_COLUMNS(n_columns),
    .key_count = 2,
    .access = PG_WRITE,
};

static const struct pg_stmt item_try_again = {
    .name = "item_try_again",
    .sql = "update t.item t set n = 1000 + :by @update(t.item) returning :ord, t.n",
    PG_PARAMS(by_params),
    PG_COLUMNS(n_columns),
    .key_count = 2,
    .access = PG_WRITE,
};

const struct pg_stmt item_try = {
    .name = "item_try",
    .sql = "update t.item t set n = :by @update(t.item) returning :ord, t.n",
    PG_PARAMS(by_params),
    PG_COLUMNS(n_columns),
    .key_count = 2,
    .access = PG_WRITE,
    .again = &item_try_again,
};

const struct pg_stmt item_get = {
    .name = "item_get",
    .sql = "select :ord, t.account_id, t.id, t.n, t.name, t.body, t.at, t.flag, t.raw "
           "@read(t.item)",
    .params = by_params,
    .param_count = 2,
    PG_COLUMNS(put_params),
    .key_count = 2,
};

const struct pg_stmt item_list = {
    .name = "item_list",
    .sql = "select :ord, c.* from @input lateral (select x.id, x.n from t.item x "
           "where x.account_id = :account_id order by x.id) c",
    .params = by_params,
    .param_count = 1,
    PG_COLUMNS(list_columns),
};

const struct pg_stmt item_drop = {
    .name = "item_drop",
    .sql = "delete from t.item t @delete(t.item) returning :ord",
    .params = by_params,
    .param_count = 2,
    .key_count = 2,
    .access = PG_WRITE_ONCE,
};

const struct pg_stmt item_count = {
    .name = "item_count",
    .sql = "select :ord, count(*) from t.item",
    PG_COLUMNS(n_columns),
};

void items_fill_key(struct pg_query *query, struct uuid account, int64_t id)
{
    query->params[0] = pg_uuid(account);
    query->params[1] = pg_i64(id);
}

void items_fill_by(struct pg_query *query, struct uuid account, int64_t id, int64_t by)
{
    items_fill_key(query, account, id);
    query->params[2] = pg_i64(by);
}

void items_fill_put(struct pg_query *query, struct uuid account, int64_t id, int64_t n)
{
    bool is_odd = id % 2 != 0; /* half of the rows have NULL in every nullable column */
    items_fill_by(query, account, id, n);
    query->params[3] = is_odd ? pg_null(PG_TEXT) : pg_text(SLICE("na\xC3\xAFve"));
    query->params[4] = is_odd ? pg_null(PG_JSON) : pg_json(SLICE("{\"b\": 1,\"a\":\"\\u0000\"}"));
    query->params[5] = is_odd ? pg_time(0) : pg_time(1767225599123456 + id);
    query->params[6] = is_odd ? pg_null(PG_BOOL) : pg_bool(id % 4 == 0);
    query->params[7] = is_odd ? pg_null(PG_BYTES) : pg_bytes(slice_of("\x00\xFF", 2));
}

struct uuid items_account(uint8_t number)
{
    struct uuid id = {{0x01, 0x92, 0, 0, 0, 0, 0x70, 0, 0x80, 0, 0, 0, 0, 0, 0, number}};
    return id;
}

static struct pg_sync *open_or_die(const char *conninfo)
{
    struct err err;
    struct pg_sync *sync = pg_sync_open(conninfo, &err);
    if (!sync) {
        fprintf(stderr, "pg_items: %s\n", err.text);
        abort();
    }
    return sync;
}

int64_t items_ask(const char *conninfo, const char *sql)
{
    struct err err;
    struct arena arena;
    struct pg_rows rows;
    int64_t answer = 0;
    struct pg_sync *sync = open_or_die(conninfo);
    arena_init(&arena, 1024 * 1024);
    if (pg_sync_text(sync, sql, &arena, &rows, &err) != OK || rows.count == 0 ||
        !slice_to_i64(pg_get_bytes(&rows, 0, 0), &answer)) {
        fprintf(stderr, "pg_items: %s: no number\n", sql);
        abort();
    }
    arena_deinit(&arena);
    pg_sync_close(sync);
    return answer;
}

static void run_or_die(struct pg_sync *sync, const char *sql)
{
    struct err err;
    if (pg_sync_run(sync, sql, &err) != OK) {
        fprintf(stderr, "pg_items: %s: %s\n", sql, err.text);
        abort();
    }
}

void items_tell(const char *conninfo, const char *sql)
{
    struct pg_sync *sync = open_or_die(conninfo);
    run_or_die(sync, sql);
    pg_sync_close(sync);
}

void items_tellf(const char *conninfo, const char *format, ...)
{
    char sql[2000];
    va_list args;
    va_start(args, format);
    int len = vsnprintf(sql, sizeof(sql), format, args);
    va_end(args);
    if (len < 0 || (size_t)len >= sizeof(sql)) {
        (void)fprintf(stderr, "the SQL is too long: %s\n", format);
        exit(1);
    }
    items_tell(conninfo, sql);
}

struct pg_sync *items_open_pinned(const char *conninfo)
{
    struct pg_sync *sync = open_or_die(conninfo);
    run_or_die(sync, "select set_config(name, value, false) from (values " PG_SETTINGS_PLAN
                     ",('plan_cache_mode','force_generic_plan')) s (name, value)");
    return sync;
}
