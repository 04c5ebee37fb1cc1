/* Templates: the text of each marker in the two modes. */
#include "pg/stmt.h"
#include "unit.h"

static const struct pg_column params[] = {PG_ARG("account_id", PG_UUID), PG_ARG("id", PG_I64),
                                          PG_ARG("body", PG_JSON)};

static void check(const char *sql, uint8_t key_count, enum pg_mode mode, const char *want)
{
    struct pg_stmt stmt = {.name = "x", .sql = sql, PG_PARAMS(params), .key_count = key_count};
    struct buf out;
    struct err err;
    buf_init(&out, PG_SQL_MAX);
    assert_int_equal(pg_stmt_expand(&stmt, mode, &out, &err), OK);
    buf_append_char(&out, '\0');
    assert_string_equal(out.ptr, want);
    buf_deinit(&out);
}

static void check_error(const char *sql, uint8_t key_count, const char *want)
{
    struct pg_stmt stmt = {.name = "x", .sql = sql, PG_PARAMS(params), .key_count = key_count};
    struct buf out;
    struct err err;
    buf_init(&out, PG_SQL_MAX);
    assert_int_equal(pg_stmt_expand(&stmt, PG_MODE_PIPE, &out, &err), ERR_SYNTAX);
    assert_string_equal(err.text, want);
    buf_deinit(&out);
}

#define INPUT                                                             \
    "with input as (select * from unnest($1, $2, $3) with ordinality as " \
    "u(account_id, id, body, ord))"

/* A write reads its arrays by subscripts. */
static void test_input_of_a_write(void **state)
{
    struct pg_stmt stmt = {
        .name = "x", .sql = "select :id @from", PG_PARAMS(params), .access = PG_WRITE};
    struct buf out;
    struct err err;
    (void)state;
    buf_init(&out, PG_SQL_MAX);
    assert_int_equal(pg_stmt_expand(&stmt, PG_MODE_SET, &out, &err), OK);
    assert_true(slice_eq_cstr(buf_slice(&out),
                              "with input as (select u.account_id, $2[u.ord] as id, $3[u.ord] as "
                              "body, u.ord from unnest($1) with ordinality as u(account_id, ord)) "
                              "select i.id from input i"));
    buf_deinit(&out);
}

static void test_insert(void **state)
{
    (void)state;
    const char *sql = "insert into t (a, b) @row :account_id, :body @end on conflict do nothing";
    check(sql, 0, PG_MODE_PIPE, "insert into t (a, b) values ( $1, $3 ) on conflict do nothing");
    check(sql, 0, PG_MODE_SET,
          INPUT " insert into t (a, b) select i.account_id, i.body from input i on conflict do "
                "nothing");
}

/* A later part of a WITH list reads the parameters of the rows that an earlier part has changed. */
static void test_parameters_of_a_row(void **state)
{
    (void)state;
    const char *sql =
        "with m as (delete from s.t t @delete(s.t) returning :ord as ord) insert into "
        "u (a, b) select :m.account_id, (:m.body)::text from m";
    check(sql, 1, PG_MODE_PIPE,
          "with m as (delete from s.t t where t.account_id = $1 returning 1::bigint as ord) insert "
          "into u (a, b) select $1, ($3)::text from m");
    check(sql, 1, PG_MODE_SET,
          INPUT ", m as (delete from s.t t using input i where t.account_id = "
                "any(array[i.account_id]) returning i.ord as ord) insert into u (a, b) select "
                "$1[m.ord], ($3[m.ord])::text from m");
    check_error("select :m.none from m", 1, "statement x has no parameter :none");
}

static void test_read(void **state)
{
    (void)state;
    const char *sql = "select :ord, t.x @read(s.t) and t.y = :body";
    check(sql, 2, PG_MODE_PIPE,
          "select 1::bigint, t.x from s.t t where t.account_id = $1 and t.id = $2 and t.y = $3");
    check(sql, 2, PG_MODE_SET,
          INPUT " select i.ord, t.x from input i, lateral (select * from s.t k where "
                "k.account_id = i.account_id and k.id = i.id offset 0) t where true and t.y = "
                "i.body");
}

static void test_update_and_delete(void **state)
{
    (void)state;
    check("update s.t t set b = :body @update(s.t) returning :ord", 1, PG_MODE_PIPE,
          "update s.t t set b = $3 where t.account_id = $1 returning 1::bigint");
    check("update s.t t set b = :body @update(s.t)", 2, PG_MODE_SET,
          INPUT " update s.t t set b = i.body from input i where t.account_id = "
                "any(array[i.account_id]) and t.id >= i.id and t.id <= i.id");
    check("delete from s.t t @delete(s.t)", 1, PG_MODE_SET,
          INPUT " delete from s.t t using input i where t.account_id = any(array[i.account_id])");
    check("delete from s.t t @delete(s.t)", 2, PG_MODE_PIPE,
          "delete from s.t t where t.account_id = $1 and t.id = $2");
}

static void test_with_list_is_joined(void **state)
{
    (void)state;
    const char *sql = "with a as (select :id @from) select :ord from @input a";
    check(sql, 0, PG_MODE_SET,
          INPUT ", a as (select i.id from input i) select i.ord from input i, a");
    check(sql, 0, PG_MODE_PIPE, "with a as (select $2 ) select 1::bigint from  a");
}

static void test_the_mode_is_a_constant(void **state)
{
    (void)state;
    check("select :id from t where not @set", 0, PG_MODE_PIPE, "select $2 from t where not false");
    check("select :id @from where @set", 0, PG_MODE_SET,
          INPUT " select i.id from input i where true");
}

static void test_casts_and_quotes_are_left_alone(void **state)
{
    (void)state;
    check("select 'a:id @from', :id::text", 0, PG_MODE_PIPE, "select 'a:id @from', $2::text");
    check("select 'it''s :id'", 0, PG_MODE_PIPE, "select 'it''s :id'");
}

static void test_errors_name_the_fault(void **state)
{
    (void)state;
    check_error("select :nope", 0, "statement x has no parameter :nope");
    check_error("select @nope", 0, "statement x: bad marker @nope");
    check_error("select @read(s.t)", 0, "statement x: bad marker @read"); /* no key */
    check_error("select @read", 1, "statement x: bad marker @read");
    struct pg_stmt bare = {.name = "bare", .sql = "select 1"};
    struct buf out;
    struct err err;
    buf_init(&out, 8);
    assert_int_equal(pg_stmt_expand(&bare, PG_MODE_SET, &out, &err), ERR_INVALID);
    assert_int_equal(pg_stmt_expand(&bare, PG_MODE_PIPE, &out, &err), OK);
    struct pg_stmt longer = {.name = "longer", .sql = "select 1, 2"};
    assert_int_equal(pg_stmt_expand(&longer, PG_MODE_PIPE, &out, &err), ERR_LIMIT);
    buf_deinit(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_input_of_a_write),
        cmocka_unit_test(test_insert),
        cmocka_unit_test(test_parameters_of_a_row),
        cmocka_unit_test(test_read),
        cmocka_unit_test(test_update_and_delete),
        cmocka_unit_test(test_with_list_is_joined),
        cmocka_unit_test(test_the_mode_is_a_constant),
        cmocka_unit_test(test_casts_and_quotes_are_left_alone),
        cmocka_unit_test(test_errors_name_the_fault),
    };
    return unit_result(cmocka_run_group_tests(tests, NULL, NULL));
}
