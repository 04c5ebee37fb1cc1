/* Reading a credential from a file. */
#include "cli/credential.h"
#include "support/folder.h"

static void a_file_is_read_within_bounds(void **state)
{
    (void)state;
    struct folder folder;
    struct buf text;
    struct err err;
    char path[TEST_PATH_MAX];
    folder_make(&folder);
    folder_write(&folder, "cred", "{\"token\":\"a\"}\n", 0600);
    buf_init(&text, CALL_CREDENTIAL_BYTES_MAX + 1);
    assert_int_equal(credential_read(folder_path(&folder, "cred", path), "JSON", &text, &err), OK);
    assert_text(buf_slice(&text), "{\"token\":\"a\"}\n");
    buf_clear(&text);
    folder_write(&folder, "empty", "", 0600);
    assert_int_equal(credential_read(folder_path(&folder, "empty", path), "JSON", &text, &err),
                     ERR_SYNTAX);
    assert_contains(err.text, "is empty");
    char *large = calloc(1, CALL_CREDENTIAL_BYTES_MAX + 2);
    memset(large, 'x', CALL_CREDENTIAL_BYTES_MAX + 1);
    folder_write(&folder, "large", large, 0600);
    free(large);
    buf_clear(&text);
    assert_int_equal(credential_read(folder_path(&folder, "large", path), "JSON", &text, &err),
                     ERR_LIMIT);
    buf_clear(&text);
    assert_int_equal(credential_read(folder_path(&folder, "none", path), "JSON", &text, &err),
                     ERR_IO);
    assert_contains(err.text, "No such file");
    assert_int_equal(credential_read(folder.path, "JSON", &text, &err), ERR_IO);
    buf_deinit(&text);
    folder_remove(&folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {UNIT_TEST(a_file_is_read_within_bounds)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
