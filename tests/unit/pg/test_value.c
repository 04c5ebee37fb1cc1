/* Binary forms, as PostgreSQL reads them. */
#include "pg/value.h"
#include "unit.h"

static const struct pg_column params[] = {PG_ARG("account_id", PG_UUID), PG_ARG("body", PG_BYTES),
                                          PG_ARG("count", PG_I64)};
static const struct pg_stmt stmt = {.name = "x", .sql = "", PG_PARAMS(params)};

/* Asserts the array of parameter i of two queries: 20 bytes of its head, and the elements. */
static void check_array(size_t i, struct pg_value one, struct pg_value other, slice want)
{
    struct pg_query a = {0}, b = {0};
    struct pg_query *const queries[] = {&a, &b};
    struct buf out;
    a.params[i] = one;
    b.params[i] = other;
    buf_init(&out, 1000);
    buf_append(&out, SLICE("before"));
    pg_array_encode(&out, &stmt, queries, ARRAY_LEN(queries), i);
    assert_true(slice_eq(slice_from(buf_slice(&out), 6), want));
    buf_deinit(&out);
}

#define BYTES(text)         slice_of(text, sizeof(text) - 1)
#define HEAD(has_null, oid) "\0\0\0\1\0\0\0" has_null "\0\0" oid "\0\0\0\2\0\0\0\1"

static void arrays_of_parameters(void **state)
{
    /* not NULL, although it has no address */
    struct pg_value empty = {.type = PG_BYTES, .as.bytes = SLICE_NONE};
    (void)state;
    check_array(1, pg_bytes(SLICE("abc")), empty,
                BYTES(HEAD("\0", "\0\x11") "\0\0\0\3abc\0\0\0\0"));
    check_array(1, pg_null(PG_BYTES), pg_bytes(SLICE("")),
                BYTES(HEAD("\1", "\0\x11") "\xff\xff\xff\xff\0\0\0\0"));
    check_array(
        2, pg_i64(-2), pg_null(PG_I64),
        BYTES(HEAD("\1", "\0\x14") "\0\0\0\x8\xff\xff\xff\xff\xff\xff\xff\xfe\xff\xff\xff\xff"));
}

static void a_full_buffer_fails(void **state)
{
    struct pg_query query = {.params[2] = pg_i64(1)};
    struct pg_query *const queries[] = {&query};
    struct buf out;
    (void)state;
    buf_init(&out, 31); /* the head and an element have 32 bytes */
    pg_array_encode(&out, &stmt, queries, 1, 2);
    assert_false(buf_is_ok(&out));
    buf_deinit(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(arrays_of_parameters),
        cmocka_unit_test(a_full_buffer_fails),
    };
    return cmocka_run_group_tests_name("pg/value", tests, NULL, NULL);
}
