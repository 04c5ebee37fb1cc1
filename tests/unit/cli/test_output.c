/*
 * Tables, JSON, names, base URLs: what operator commands print and write.
 */
#include "support/folder.h"

#include <fcntl.h>
#include <sys/ioctl.h>

#include "cli/output.h"
#include "server/ready_file.h"

static struct capture capture;

static void a_table_is_as_wide_as_its_cells(void **state)
{
    (void)state;
    struct arena arena;
    struct output_table table;
    struct err err;
    arena_init(&arena, 1024 * 1024);
    output_table_begin(&table, &arena, "ID|NAME|WHEN");
    output_table_cell(&table, SLICE("1"));
    output_table_cell(&table, SLICE("Z\xc3\xbcrich"));
    output_table_time(&table, 0);
    output_table_cell(&table, SLICE("1000"));
    output_table_cell(&table, SLICE("a\xe2\x80\xae")); /* U+202E */
    output_table_time(&table, 1769903999123456);
    capture_begin(&capture);
    assert_int_equal(output_table_print(&table, capture.file, "none", &err), OK);
    assert_string_equal(capture_end(&capture), "ID    NAME    WHEN\n"
                                               "1     Z\xc3\xbcrich  -\n"
                                               "1000  a?      2026-01-31 23:59\n");
    arena_deinit(&arena);
}

/* Stores the output for a terminal with that many columns in `text`. */
static void print_on_terminal(const struct output_table *table, unsigned short columns, char *text,
                              size_t size)
{
    struct winsize window = {.ws_row = 40, .ws_col = columns};
    struct err err;
    int master = posix_openpt(O_RDWR | O_NOCTTY);
    assert_true(master >= 0 && grantpt(master) == 0 && unlockpt(master) == 0);
    int slave = open(ptsname(master), O_RDWR | O_NOCTTY);
    assert_true(slave >= 0 && ioctl(slave, TIOCSWINSZ, &window) == 0);
    FILE *out = fdopen(slave, "w");
    assert_non_null(out);
    assert_int_equal(output_table_print(table, out, "none", &err), OK);
    assert_int_equal(fclose(out), 0);
    /* The output arrives in pieces. Then the read fails, because the other end is closed. */
    size_t len = 0;
    for (ssize_t got; (got = read(master, text + len, size - 1 - len)) > 0;)
        len += (size_t)got;
    text[len] = '\0';
    assert_int_equal(close(master), 0);
}

static void a_narrow_terminal_cuts_the_last_column_or_folds_it(void **state)
{
    (void)state;
    struct arena arena;
    struct output_table table;
    char text[1024];
    arena_init(&arena, 1024 * 1024);
    output_table_begin(&table, &arena, "ID|TITLE");
    output_table_cell(&table, SLICE("1"));
    output_table_cell(&table, SLICE("Z\xc3\xbcrich and whatever else there is to say of it"));
    print_on_terminal(&table, 80, text, sizeof(text));
    assert_string_equal(text, "ID  TITLE\r\n"
                              "1   Z\xc3\xbcrich and whatever else there is to say of it\r\n");
    print_on_terminal(&table, 30, text, sizeof(text));
    assert_string_equal(text, "ID  TITLE\r\n"
                              "1   Z\xc3\xbcrich and whatever else\xe2\x80\xa6\r\n");
    print_on_terminal(&table, 20, text, sizeof(text));
    assert_string_equal(text, "ID\r\n    TITLE\r\n1\r\n"
                              "    Z\xc3\xbcrich and whatever else there is to say of it\r\n");
    arena_deinit(&arena);
}

static void an_empty_table_says_so(void **state)
{
    (void)state;
    struct arena arena;
    struct output_table table;
    struct err err;
    arena_init(&arena, 1024 * 1024);
    output_table_begin(&table, &arena, "ID");
    capture_begin(&capture);
    assert_int_equal(output_table_print(&table, capture.file, "nothing there", &err), OK);
    assert_string_equal(capture_end(&capture), "nothing there\n");
    arena_deinit(&arena);
}

static void a_table_past_its_arena_is_an_error(void **state)
{
    (void)state;
    struct arena arena;
    struct output_table table;
    struct err err;
    arena_init(&arena, 8 * 1024);
    output_table_begin(&table, &arena, "ID");
    for (int i = 0; i < 2000; i++)
        output_table_cell(&table, SLICE("a cell that takes its room"));
    capture_begin(&capture);
    assert_int_equal(output_table_print(&table, capture.file, "none", &err), ERR_NOMEM);
    assert_string_equal(capture_end(&capture), "");
    arena_deinit(&arena);
}

/* A tenant's name may not move a terminal's cursor or forge a line. */
static void a_terminal_gets_no_commands(void **state)
{
    (void)state;
    struct arena arena;
    struct output_table table;
    struct err err;
    arena_init(&arena, 1024 * 1024);
    output_table_begin(&table, &arena, "NAME");
    output_table_cell(&table, SLICE("a\x1b[2Jb\nc\x7f\xc2\x9b\xff\xc3"));
    capture_begin(&capture);
    assert_int_equal(output_table_print(&table, capture.file, "none", &err), OK);
    assert_string_equal(capture_end(&capture), "NAME\na?[2Jb?c????\n");
    capture_begin(&capture);
    output_text(capture.file, SLICE("a\x1b[2J\n\tb\r\xc3\xa9\xf0\x9f"));
    assert_string_equal(capture_end(&capture), "a?[2J\n\tb?\xc3\xa9??");
    arena_deinit(&arena);
}

static void json_is_one_line(void **state)
{
    (void)state;
    struct json_text json;
    struct err err;
    FILE *out = stdout;
    struct json_writer *w = output_json_begin(&json, '{');
    json_member_str(w, "a", SLICE("x\"y"));
    json_member_str(w, "b", SLICE_NONE);
    json_member_time(w, "c", 0);
    json_member_time(w, "d", 1769903999123456);
    capture_begin(&capture);
    stdout = capture.file; /* the GNU C library lets a program assign it */
    int result = output_json_end(&json, '{', &err);
    stdout = out;
    assert_int_equal(result, OK);
    assert_string_equal(capture_end(&capture), "{\"a\":\"x\\\"y\",\"b\":null,\"c\":null,"
                                               "\"d\":\"2026-01-31T23:59:59.123Z\"}\n");
}

static void names_are_for_people(void **state)
{
    (void)state;
    struct err err;
    char text[500];
    assert_int_equal(output_name_check(SLICE("Anna's shop"), "a name", 20, &err), OK);
    assert_int_equal(output_name_check(SLICE("\xc3\xa9\xc3\xa9\xc3\xa9"), "a name", 3, &err), OK);
    assert_int_equal(output_name_check(SLICE(""), "a name", 20, &err), ERR_INVALID);
    assert_contains(err.text, "a name must have 1 to 20 characters");
    assert_int_equal(output_name_check(SLICE("  \t"), "a name", 20, &err), ERR_INVALID);
    assert_int_equal(output_name_check(SLICE("   "), "a label", 20, &err), ERR_INVALID);
    assert_contains(err.text, "a label must have");
    assert_int_equal(output_name_check(SLICE("a\nb"), "a name", 20, &err), ERR_INVALID);
    assert_contains(err.text, "must not contain control characters");
    assert_int_equal(output_name_check(SLICE("a\xff"), "a name", 20, &err), ERR_INVALID);
    assert_contains(err.text, "UTF-8");
    memset(text, 'x', sizeof(text));
    assert_int_equal(output_name_check(slice_of(text, 201), "a name", 200, &err), ERR_INVALID);
    assert_int_equal(output_name_check(slice_of(text, 200), "a name", 200, &err), OK);
}

static const char *base_url(const char *address, unsigned port)
{
    static char text[READY_URL_MAX];
    return ready_base_url(slice_cstr(address), (uint16_t)port, text).ptr;
}

static void a_base_url_can_be_called(void **state)
{
    (void)state;
    assert_string_equal(base_url("127.0.0.1:0", 4711), "http://127.0.0.1:4711");
    assert_string_equal(base_url("0.0.0.0:8080", 8080), "http://127.0.0.1:8080");
    assert_string_equal(base_url("[::]:8080", 8080), "http://[::1]:8080");
    assert_string_equal(base_url("[::1]:80", 80), "http://[::1]:80");
    assert_string_equal(base_url("unix:/run/sluice.sock", 0), "unix:/run/sluice.sock");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        UNIT_TEST(a_table_is_as_wide_as_its_cells),
        UNIT_TEST(a_narrow_terminal_cuts_the_last_column_or_folds_it),
        UNIT_TEST(an_empty_table_says_so),
        UNIT_TEST(a_table_past_its_arena_is_an_error),
        UNIT_TEST(a_terminal_gets_no_commands),
        UNIT_TEST(json_is_one_line),
        UNIT_TEST(names_are_for_people),
        UNIT_TEST(a_base_url_can_be_called),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
