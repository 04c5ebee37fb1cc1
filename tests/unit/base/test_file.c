/*
 * Reading and writing whole files: what counts as a file, how large it may be, and what is left
 * after an error.
 */
#include "support/folder.h"

#include "base/file.h"

struct reading {
    struct folder folder;
    struct buf text;
    struct err err;
};

static int setup(void **state)
{
    struct reading *reading = mem_zalloc(sizeof(*reading));
    assert_non_null(reading);
    folder_make(&reading->folder);
    buf_init(&reading->text, 10);
    *state = reading;
    return 0;
}

static int teardown(void **state)
{
    struct reading *reading = *state;
    folder_remove(&reading->folder);
    buf_deinit(&reading->text);
    mem_free(reading);
    return unit_end();
}

static int read_file(struct reading *reading, const char *name, mode_t *mode)
{
    char path[TEST_PATH_MAX];
    return file_read_into(folder_path(&reading->folder, name, path), &reading->text, mode,
                          &reading->err);
}

static void files_are_appended_up_to_the_maximum(void **state)
{
    struct reading *reading = *state;
    mode_t mode = 0;
    folder_write(&reading->folder, "a", "12345", 0640);
    folder_write(&reading->folder, "none", "", 0600);
    assert_int_equal(read_file(reading, "a", &mode), OK);
    assert_int_equal(mode & 0777, 0640);
    assert_int_equal(read_file(reading, "none", NULL), OK);
    assert_int_equal(read_file(reading, "a", NULL), OK);
    assert_true(slice_eq_cstr(buf_slice(&reading->text), "1234512345"));
    assert_int_equal(read_file(reading, "a", NULL), ERR_LIMIT);
    assert_non_null(strstr(reading->err.text, "/a is larger than 0 bytes"));
    assert_true(slice_eq_cstr(buf_slice(&reading->text), "1234512345"));
}

static void only_a_file_is_accepted(void **state)
{
    struct reading *reading = *state;
    char path[TEST_PATH_MAX];
    assert_int_equal(read_file(reading, "missing", NULL), ERR_NOTFOUND);
    assert_non_null(strstr(reading->err.text, "/missing: No such file"));
    assert_int_equal(read_file(reading, ".", NULL), ERR_INVALID);
    assert_int_equal(mkfifo(folder_path(&reading->folder, "fifo", path), 0600), 0);
    assert_int_equal(read_file(reading, "fifo", NULL), ERR_INVALID);
    assert_non_null(strstr(reading->err.text, "/fifo is not a regular file"));
    assert_int_equal(reading->text.len, 0);
}

static void a_file_is_written_whole_or_not_at_all(void **state)
{
    struct reading *reading = *state;
    struct err *err = &reading->err;
    struct stat info;
    char path[TEST_PATH_MAX], text[100];
    folder_path(&reading->folder, "ready.json", path);
    assert_int_equal(file_write_whole(path, SLICE("{\"a\":1}"), 0600, err), OK);
    assert_int_equal(file_write_whole(path, SLICE("{}"), 0600, err), OK);
    file_read(path, text, sizeof(text));
    assert_string_equal(text, "{}");
    assert_int_equal(stat(path, &info), 0);
    assert_int_equal(info.st_mode & 0777, 0600);
    assert_int_equal(info.st_nlink, 1);
    folder_path(&reading->folder, "no/such/folder", path);
    assert_int_equal(file_write_whole(path, SLICE("{}"), 0600, err), ERR_IO);
    assert_non_null(strstr(err->text, "No such file"));
    folder_path(&reading->folder, "", path); /* a folder has that name, so no temporary file is
                                              * left */
    assert_int_equal(file_write_whole(path, SLICE("{}"), 0600, err), ERR_IO);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(files_are_appended_up_to_the_maximum, setup, teardown),
        cmocka_unit_test_setup_teardown(only_a_file_is_accepted, setup, teardown),
        cmocka_unit_test_setup_teardown(a_file_is_written_whole_or_not_at_all, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
