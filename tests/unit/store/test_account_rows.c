/* Export and erasure reach every row of an account, including tables that do not exist yet. */
#include "base/buf.h"
#include "json/json.h"
#include "store/account_rows.h"
#include "support/pg_cluster.h"
#include "support/pg_items.h"
#include "unit.h"

enum { ROWS = 2500, USERS = 102 }; /* more users than are read at a time */

static const char *conninfo;
static struct uuid account, other;
static struct uuid users[USERS]; /* of `account` */
static struct pg_sync *sync;

/* Tables that a future migration might add: references in a chain, bytes, a partitioned table. */
static const char later_tables[] =
    "create table sluice.later (account_id uuid not null references sluice.account, "
    "id bigint not null, secret bytea, doc json, odd_name text, primary key (account_id, id));"
    "create table sluice.a_child (account_id uuid not null, id bigint not null, "
    "foreign key (account_id, id) references sluice.later, primary key (id, account_id));"
    "create table sluice.parted (account_id uuid not null, id bigint not null, "
    "primary key (account_id, id)) partition by range (id);"
    "create table sluice.parted_1 partition of sluice.parted for values from (0) to (10);"
    "create table sluice.parted_2 partition of sluice.parted for values from (10) to (100);";

static void fill(struct uuid id, const char *name)
{
    char sql[2048], text[UUID_TEXT_LEN + 1];
    uuid_format(id, text);
    snprintf(sql, sizeof(sql),
             "insert into sluice.account values ('%1$s', '%3$s', now());"
             "insert into sluice.later select '%1$s', n, 'hidden', E'{\n\"a\": \"\\\\u0000\"\r}', "
             "'it''s \"odd\" %%s' from generate_series(1, %2$d) n;"
             "insert into sluice.a_child select '%1$s', n from generate_series(1, 3) n;"
             "insert into sluice.parted select '%1$s', n from generate_series(8, 12) n;"
             "insert into sluice.api_key values ('%1$s', '%1$s', sha256('%1$s'), 'p', 'n', 'read', "
             "now());",
             text, ROWS, name);
    items_tell(conninfo, sql);
}

static int64_t rows_of(struct uuid id)
{
    static const char *const tables[] = {"account", "later", "a_child", "parted", "api_key"};
    char sql[256], text[UUID_TEXT_LEN + 1];
    int64_t count = 0;
    uuid_format(id, text);
    for (size_t i = 0; i < ARRAY_LEN(tables); i++) {
        snprintf(sql, sizeof(sql), "select count(*) from sluice.%s where account_id = '%s'",
                 tables[i], text);
        count += items_ask(conninfo, sql);
    }
    return count;
}

enum { ALL_ROWS = 1 + ROWS + 3 + 5 + 1 };

/* Each user has a row in a table of many and one in a partition; the first one has a claim. */
static void fill_users(void)
{
    char sql[1024], text[UUID_TEXT_LEN + 1], user[UUID_TEXT_LEN + 1];
    uuid_format(account, text);
    for (size_t i = 0; i < USERS; i++) {
        users[i] = uuid_v7();
        uuid_format(users[i], user);
        snprintf(sql, sizeof(sql),
                 "insert into sluice.account_user values ('%1$s', 'user-%3$zu', '%2$s', now());"
                 "insert into sluice.parted values ('%2$s', 8);"
                 "insert into sluice.connect_session (account_id, token_hash, integration_id, "
                 "key_hash, is_reconnect, created_at, expires_at, parent_id) values ('%2$s', "
                 "sha256('%2$s'), 'gmail', sha256('x'), false, now(), now(), '%1$s')",
                 text, user, i);
        items_tell(conninfo, sql);
    }
    snprintf(sql, sizeof(sql),
             "insert into sluice.idempotency_key (account_id, key, execution_id, fingerprint, "
             "state, owner, integration_id, action_id, is_write, started_at, expires_at) values "
             "('%1$s', 'k', '%1$s', sha256('x'), 'in_flight', '%1$s', 'gmail', 'x', true, now(), "
             "now())",
             (uuid_format(users[0], user), user));
    items_tell(conninfo, sql);
}

enum { USER_ROWS = USERS * 2 + 1, ROWS_WITH_USERS = ALL_ROWS + USERS + USER_ROWS };

static bool is_of_account(slice text)
{
    struct uuid id;
    assert_true(uuid_parse(text, &id));
    for (size_t i = 0; i < USERS; i++)
        if (uuid_eq(id, users[i]))
            return true;
    return uuid_eq(id, account);
}

struct seen {
    struct buf first;
    size_t lines, later, keys;
    int fail_at;
};

static int on_line(void *owner, slice line, struct err *err)
{
    struct seen *seen = owner;
    struct arena arena;
    arena_init(&arena, 64 * 1024);
    const struct json *json = json_parse(&arena, line, &json_limits_request, err);
    assert_non_null(json);
    slice table = json_get_str(json, SLICE("table"));
    const struct json *row = JSON_GET(json, "row");
    assert_true(is_of_account(json_get_str(row, SLICE("account_id"))));
    assert_true(slice_find_char(line, '\n') < 0 && slice_find_char(line, '\r') < 0);
    assert_true(slice_find(line, SLICE("hidden")) < 0 && slice_find(line, SLICE("\\\\x")) < 0);
    if (seen->lines++ == 0)
        buf_append(&seen->first, table);
    if (slice_eq(table, SLICE("later"))) {
        assert_int_equal(json_get_i64(row, SLICE("id"), 0), ++seen->later); /* sorted by key */
        assert_int_equal(json_get_i64(row, SLICE("secret_bytes"), 0), 6);
        assert_true(slice_eq(json_get_str(row, SLICE("odd_name")), SLICE("it's \"odd\" %s")));
        assert_true(json_get_str(JSON_GET(row, "doc"), SLICE("a")).len == 1);
    }
    if (slice_eq(table, SLICE("api_key"))) {
        seen->keys++;
        assert_int_equal(json_get_i64(row, SLICE("hash_bytes"), 0), 32);
        assert_null(JSON_GET(row, "hash"));
    }
    arena_deinit(&arena);
    if ((int)seen->lines == seen->fail_at)
        return err_set(err, ERR_IO, "the disk is full");
    return OK;
}

static void test_export(void **state)
{
    struct seen seen = {.lines = 0};
    struct account_export export = {.on_line = on_line, .owner = &seen};
    struct err err;
    (void)state;
    buf_init(&seen.first, 64);
    if (store_account_export_sync(sync, account, &export, &err) != OK)
        fail_msg("%s", err.text);
    assert_int_equal(export.rows, ROWS_WITH_USERS);
    assert_int_equal(seen.lines, ROWS_WITH_USERS);
    assert_true(slice_eq(buf_slice(&seen.first), SLICE("account")));
    assert_true(seen.later == ROWS && seen.keys == 1);
    seen = (struct seen){.first = seen.first, .fail_at = 30};
    assert_int_equal(store_account_export_sync(sync, account, &export, &err), ERR_IO);
    assert_string_equal(err.text, "the disk is full");
    assert_int_equal(seen.lines, 30);
    struct account_export none = {.on_line = on_line, .owner = &seen};
    assert_int_equal(store_account_export_sync(sync, uuid_v7(), &none, &err), OK);
    assert_int_equal(none.rows, 0);
    buf_deinit(&seen.first);
}

static void test_erase(void **state)
{
    struct err err;
    uint64_t rows, claims;
    (void)state;
    assert_int_equal(rows_of(account), ALL_ROWS);
    assert_int_equal(store_account_claims_sync(sync, account, &claims, &err), OK);
    assert_int_equal(claims, 1);
    assert_int_equal(store_account_claims_sync(sync, other, &claims, &err), OK);
    assert_int_equal(claims, 0);
    assert_int_equal(store_account_delete_sync(sync, account, &err), ERR_INVALID); /* too early */
    if (store_account_erase_rows_sync(sync, account, &rows, &err) != OK)
        fail_msg("%s", err.text);
    assert_int_equal(rows, ALL_ROWS - 1 + USER_ROWS);
    /* what a server writes for a user after that is found by the next pass */
    char sql[512], late[UUID_TEXT_LEN + 1], account_text[UUID_TEXT_LEN + 1];
    uuid_format(users[7], late);
    snprintf(sql, sizeof(sql), "insert into sluice.parted values ('%s', 9)", late);
    items_tell(conninfo, sql);
    assert_int_equal(store_account_erase_rows_sync(sync, account, &rows, &err), OK);
    assert_int_equal(rows, 1);
    assert_int_equal(store_account_erase_rows_sync(sync, account, &rows, &err), OK);
    assert_int_equal(rows, 0);
    /* and a connection that was made after the last pass, by the deletion of the account */
    uuid_format(account, account_text);
    snprintf(sql, sizeof(sql),
             "insert into sluice.connection select '%1$s', n, 'gmail', 'l', false, 'none', '', '', "
             "null, '{}', 'live', null, null, 1, gen_random_uuid(), now(), now() from "
             "generate_series(1, 1) n; update sluice.connection set parent_id = '%2$s';"
             "insert into sluice.usage values ('%2$s', now(), '%1$s', '%2$s', 1, 0, 0, 0, 0)",
             late, account_text);
    items_tell(conninfo, sql);
    assert_int_equal(store_account_delete_sync(sync, account, &err), OK);
    assert_int_equal(items_ask(conninfo, "select count(*) from sluice.connection"), 0);
    assert_int_equal(items_ask(conninfo, "select count(*) from sluice.usage"), 0);
    assert_int_equal(items_ask(conninfo, "select count(*) from sluice.parted"), 5);
    assert_int_equal(rows_of(account), 0);
    assert_int_equal(items_ask(conninfo, "select count(*) from sluice.account_user"), 0);
    assert_int_equal(items_ask(conninfo, "select count(*) from sluice.connect_session"), 0);
    assert_int_equal(rows_of(other), ALL_ROWS);
}

/* One call deletes about as many rows as it may, for many owners at once and for one with too many,
 * first what a server would continue; and one process at a time. */
static void test_erase_in_bites(void **state)
{
    static const char call[] = "select sluice.rows_erase(array(select distinct account_id from "
                               "sluice.later where account_id <> (select account_id from "
                               "sluice.account where name = 'other')), 1000, 2)";
    (void)state;
    items_tell(conninfo,
               "insert into sluice.later select (select account_id from sluice.account where name "
               "= 'other'), 10000 + n from generate_series(1, 5) n;"
               "create table sluice.owner as select gen_random_uuid() as id, n from "
               "generate_series(1, 30) n;"
               "alter table sluice.later drop constraint later_account_id_fkey;"
               "insert into sluice.later select id, k from sluice.owner, generate_series(1, 40) k;"
               "insert into sluice.connect_session (account_id, token_hash, integration_id, "
               "key_hash, is_reconnect, created_at, expires_at) select id, "
               "sha256(n::text::bytea), 'gmail', sha256('x'), false, now(), now() from "
               "sluice.owner");
    /* all links, and rows of one of too many owners */
    assert_int_equal(items_ask(conninfo, call), 30 + 40);
    assert_int_equal(items_ask(conninfo, "select count(*) from sluice.connect_session"), 0);
    assert_int_equal(items_ask(conninfo, call), 40);
    struct err err;
    assert_int_equal(
        pg_sync_run(sync, "begin; select pg_advisory_xact_lock(7453010373645639524)", &err), OK);
    assert_int_equal(items_ask(conninfo, call), -1);
    assert_int_equal(pg_sync_run(sync, "rollback", &err), OK);
    while (items_ask(conninfo, call) > 0) {
    }
    assert_int_equal(items_ask(conninfo, "select count(*) from sluice.later where account_id in "
                                         "(select id from sluice.owner)"),
                     0);
    assert_int_equal(rows_of(other), ALL_ROWS + 5);
}

/* Rows of usage are the account's, so they are found by the user; not all users' at once. */
static void test_erase_usage_in_bites(void **state)
{
    static const char call[] = "select sluice.rows_erase(array(select user_id from sluice.usage "
                               "where user_id < 'ff000000-0000-0000-0000-000000000000'), 50, 1)";
    (void)state;
    items_tell(conninfo,
               "insert into sluice.usage select a.account_id, current_date - d, "
               "gen_random_uuid(), ('00000000-0000-0000-0000-00000000000' || u)::uuid, 1, 0, 0, 0, "
               "0 from sluice.account a, generate_series(1, 60) d, generate_series(0, 2) u "
               "where a.name = 'other';"
               "insert into sluice.usage select account_id, day, key_id, "
               "'ffffffff-ffff-ffff-ffff-ffffffffffff', 1, 0, 0, 0, 0 from sluice.usage where "
               "user_id = '00000000-0000-0000-0000-000000000001'");
    assert_int_equal(items_ask(conninfo, call), 50);
    assert_int_equal(items_ask(conninfo, call), 10); /* the other days of this user */
    assert_int_equal(items_ask(conninfo, call), 50);
    assert_int_equal(items_ask(conninfo, call), 10);
    assert_int_equal(items_ask(conninfo, call), 0);
    assert_int_equal(items_ask(conninfo, "select count(*) from sluice.usage"), 120);
}

/* A row of another account refers to this account's row, which none of our tables allows. This
 * is reported, and not retried forever. */
static void test_erase_gives_up(void **state)
{
    struct err err;
    uint64_t rows;
    (void)state;
    items_tell(conninfo,
               "create table sluice.referrer (owner uuid primary key, id bigint, foreign key "
               "(owner, id) references sluice.later (account_id, id));"
               "insert into sluice.referrer select account_id, 7 from sluice.later where id = 7");
    assert_int_equal(store_account_erase_rows_sync(sync, other, &rows, &err), ERR_INVALID);
}

static int set_up(void **state)
{
    struct err err;
    (void)state;
    conninfo = pg_cluster_database(true);
    items_tell(conninfo, later_tables);
    account = uuid_v7();
    other = uuid_v7();
    fill(account, "one");
    fill(other, "other");
    fill_users();
    sync = pg_sync_open(conninfo, &err);
    return sync ? 0 : -1;
}

static int tear_down(void **state)
{
    (void)state;
    pg_sync_close(sync);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_export),         cmocka_unit_test(test_erase),
        cmocka_unit_test(test_erase_in_bites), cmocka_unit_test(test_erase_usage_in_bites),
        cmocka_unit_test(test_erase_gives_up),
    };
    return unit_result(cmocka_run_group_tests(tests, set_up, tear_down));
}
