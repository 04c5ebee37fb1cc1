/* A script is split where PostgreSQL would split it. */
#include "base/embed.h"
#include "pg/script.h"
#include "unit.h"

/* want: the statements, each ended by '|'. */
static void check(const char *script, const char *want)
{
    slice rest = slice_cstr(script), wanted = slice_cstr(want), statement;
    while (pg_script_next(&rest, &statement)) {
        slice expected = slice_split(&wanted, '|');
        if (!slice_eq(statement, expected))
            fail_msg("%s: <%.*s> is not <%.*s>", script, SLICE_ARG(statement), SLICE_ARG(expected));
    }
    assert_int_equal(wanted.len, 0);
    assert_int_equal(rest.len, 0);
}

static void test_cut_at_semicolons(void **state)
{
    (void)state;
    check("", "");
    check(" \n;;\t", "");
    check("select 1", "select 1|");
    check("select 1;\nselect 2 ;", "select 1|select 2 |");
}

static void test_semicolons_that_end_nothing(void **state)
{
    (void)state;
    check("select 'a;''b;'; x", "select 'a;''b;'|x|");
    check("select \"a;\"\"b\"; x", "select \"a;\"\"b\"|x|");
    check("-- a; b's\nselect 1; x", "-- a; b's\nselect 1|x|");
    check("a /* ; ' */ b; x", "a /* ; ' */ b|x|");
    check("do $$ a; 'b $x$ $$; x", "do $$ a; 'b $x$ $$|x|");
    check("do $f_1$ a; $$ ; $f_1$; x", "do $f_1$ a; $$ ; $f_1$|x|");
    check("select $1; select $2$; x", "select $1|select $2$|x|");
    check("a - b / c; x", "a - b / c|x|");
}

/* The whole text is sent, so that the database reports the fault. */
static void test_what_is_never_closed(void **state)
{
    (void)state;
    check("select 'a; b", "select 'a; b|");
    check("a /* b; c", "a /* b; c|");
    check("do $$ a; b $x$", "do $$ a; b $x$|");
    check("select 1; $", "select 1|$|");
    check("select 1; $a", "select 1|$a|");
    check("select 1; -- the end", "select 1|-- the end|");
}

/* A piece of a function would begin differently. */
static void test_our_own_files(void **state)
{
    size_t count = 0;
    (void)state;
    for (size_t i = 0; i < embed_sql_count; i++) {
        slice rest = slice_of(embed_sql[i].data, embed_sql[i].len), statement;
        while (pg_script_next(&rest, &statement)) {
            count++;
            while (slice_starts_with(statement, SLICE("--")) || statement.ptr[0] == '\n')
                (void)slice_split(&statement, '\n');
            slice word = slice_split(&statement, ' ');
            if (!slice_has_word(SLICE("create alter drop do select update insert delete set"),
                                word))
                fail_msg("%s: a statement begins with %.*s", embed_sql[i].name, SLICE_ARG(word));
        }
    }
    assert_true(count > 50);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cut_at_semicolons),
        cmocka_unit_test(test_semicolons_that_end_nothing),
        cmocka_unit_test(test_what_is_never_closed),
        cmocka_unit_test(test_our_own_files),
    };
    return unit_result(cmocka_run_group_tests(tests, NULL, NULL));
}
