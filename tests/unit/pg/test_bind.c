/* Query parameters from a struct, and rows into a struct. */
#include "pg/bind.h"
#include "unit.h"

enum colour { NO_COLOUR, RED, BLUE, COLOURS };

struct thing {
    struct uuid account_id, owner;
    int64_t number, wake_at;
    size_t size;
    bool is_open, is_done;
    slice label, note;
    uint8_t hash[4];
    enum colour colour;
};

static const char *const colour_words[COLOURS] = {NULL, "red", "blue"};
static const struct pg_words colours = {colour_words, COLOURS, BLUE};
static const char *const end_words[] = {"failed", "succeeded"};
static const struct pg_words ends = {end_words, 2, 0};

#define OF(name, type, ...) PG_OF(#name, type, struct thing, name, __VA_ARGS__)
static const struct pg_stmt stmt = {
    .name = "thing",
    PG_TAKES(PG_ARG("first", PG_I64), OF(account_id, PG_UUID), OF(owner, PG_UUID, .has_null = true),
             OF(number, PG_I64, .has_null = true), OF(wake_at, PG_TIME), OF(size, PG_I64),
             OF(is_open, PG_BOOL), PG_WORD("end", struct thing, is_done, &ends),
             OF(label, PG_TEXT, .has_no_null = true), OF(note, PG_JSON), OF(hash, PG_BYTES),
             PG_WORD("colour", struct thing, colour, &colours), PG_NOW("now"), PG_NEW_ID("token"),
             PG_ARG("last", PG_TEXT)),
    PG_GIVES(OF(account_id, PG_UUID), PG_ARG("skipped", PG_I64), OF(number, PG_I64),
             OF(wake_at, PG_TIME), OF(is_open, PG_BOOL),
             PG_WORD("end", struct thing, is_done, &ends), OF(label, PG_TEXT), OF(hash, PG_BYTES),
             PG_WORD("colour", struct thing, colour, &colours)),
};
enum {
    FIRST,
    ACCOUNT,
    OWNER,
    NUMBER,
    WAKE_AT,
    SIZE,
    IS_OPEN,
    END,
    LABEL,
    NOTE,
    HASH,
    COLOUR,
    NOW,
    TOKEN,
    LAST,
    PARAMS
};

static void bind(const struct thing *thing, struct pg_value *params)
{
    pg_bind(&stmt, thing, PG_VALUES(pg_i64(7), pg_text(SLICE("end"))), params);
    for (size_t i = 0; i < PARAMS; i++)
        assert_int_equal(params[i].type, stmt.params[i].type);
}

static void test_members_become_parameters(void **state)
{
    struct pg_value params[PARAMS];
    struct thing thing = {
        .account_id = {{1}},
        .owner = {{2}},
        .number = -3,
        .wake_at = 4,
        .size = 5,
        .is_open = true,
        .is_done = true,
        .label = SLICE_INIT("label"),
        .note = SLICE_INIT("{}"),
        .hash = {1, 2, 3, 4},
        .colour = RED,
    };
    (void)state;
    bind(&thing, params);
    assert_int_equal(params[FIRST].as.i64, 7);
    assert_true(uuid_eq(params[ACCOUNT].as.uuid, thing.account_id));
    assert_true(uuid_eq(params[OWNER].as.uuid, thing.owner) && !params[OWNER].is_null);
    assert_int_equal(params[NUMBER].as.i64, -3);
    assert_int_equal(params[WAKE_AT].as.i64, 4);
    assert_int_equal(params[SIZE].as.i64, 5);
    assert_int_equal(params[IS_OPEN].as.i64, 1);
    assert_true(slice_eq_cstr(params[END].as.bytes, "succeeded"));
    assert_true(slice_eq_cstr(params[LABEL].as.bytes, "label"));
    assert_true(slice_eq_cstr(params[NOTE].as.bytes, "{}"));
    assert_ptr_equal(params[HASH].as.bytes.ptr, thing.hash);
    assert_int_equal(params[HASH].as.bytes.len, 4);
    assert_true(slice_eq_cstr(params[COLOUR].as.bytes, "red"));
    assert_true(params[NOW].as.i64 > 0);
    assert_false(uuid_is_nil(params[TOKEN].as.uuid));
    assert_true(slice_eq_cstr(params[LAST].as.bytes, "end"));
}

/* An absent value is NULL if and only if its column says so. */
static void test_what_is_absent(void **state)
{
    struct pg_value params[PARAMS];
    static const bool is_null[PARAMS] = {
        [OWNER] = true, [NUMBER] = true, [WAKE_AT] = true, [NOTE] = true, [COLOUR] = true};
    (void)state;
    bind(&(struct thing){.size = 0}, params);
    for (size_t i = 0; i < PARAMS; i++)
        assert_int_equal(params[i].is_null, is_null[i]);
    assert_non_null(params[LABEL].as.bytes.ptr);
    assert_true(slice_eq_cstr(params[END].as.bytes, "failed"));
}

static struct pg_cell cell(const void *bytes, int32_t len)
{
    return (struct pg_cell){bytes, len};
}

static void test_rows_become_members(void **state)
{
    static const char number[8] = {0, 0, 0, 0, 0, 0, 1, 2}, yes[1] = {1};
    struct pg_cell cells[2][9] = {
        {cell("0123456789abcdef", 16), cell(number, 8), cell(number, 8), cell(NULL, -1),
         cell(yes, 1), cell("succeeded", 9), cell("text", 4), cell("\1\2\3\4", 4), cell("red", 3)},
        {cell(NULL, -1), cell(NULL, -1), cell(NULL, -1), cell(NULL, -1), cell(NULL, -1),
         cell("unheard", 7), cell(NULL, -1), cell("\1\2\3\4", 4), cell(NULL, -1)},
    };
    struct pg_rows rows = {.count = 2, .column_count = 9, .cells = cells[0]};
    struct thing thing = {.note = SLICE("kept"), .wake_at = 9, .size = 8};
    (void)state;
    pg_read(&stmt, &rows, 0, &thing);
    assert_memory_equal(&thing.account_id, "0123456789abcdef", 16);
    assert_int_equal(thing.number, 258);
    assert_int_equal(thing.wake_at, 0);
    assert_true(thing.is_open && thing.is_done);
    assert_true(slice_eq_cstr(thing.label, "text"));
    assert_memory_equal(thing.hash, "\1\2\3\4", 4);
    assert_int_equal(thing.colour, RED);
    /* members without a column */
    assert_true(slice_eq_cstr(thing.note, "kept"));
    assert_int_equal(thing.size, 8);
    pg_read(&stmt, &rows, 1, &thing);
    assert_true(uuid_is_nil(thing.account_id) && !thing.is_open && !thing.is_done);
    assert_int_equal(thing.number, 0);
    assert_null(thing.label.ptr);
    assert_int_equal(thing.colour, NO_COLOUR);
    cells[1][8] = cell("mauve", 5);
    pg_read(&stmt, &rows, 1, &thing);
    assert_int_equal(thing.colour, BLUE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_members_become_parameters),
        cmocka_unit_test(test_what_is_absent),
        cmocka_unit_test(test_rows_become_members),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
