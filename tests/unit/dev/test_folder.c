/*
 * The data folder of dev, its stages and its messages: each folder is used by one process, and
 * files of others are not touched.
 */
#include "support/folder.h"

#include <sys/wait.h>

#include "dev/folder.h"
#include "dev/stage.h"
#include "dev/text.h"
#include "dev/trust.h"

static mode_t mode_of(const char *path)
{
    struct stat info;
    assert_int_equal(stat(path, &info), 0);
    return info.st_mode & 07777;
}

static void it_is_made_closed_to_others(void **state)
{
    (void)state;
    struct folder base;
    struct dev_folder folder;
    struct err err;
    char path[TEST_PATH_MAX];
    folder_make(&base);
    folder_path(&base, "data", path);
    mode_t before = umask(077);
    assert_int_equal(dev_folder_open(&folder, path, &err), OK);
    umask(before);
    assert_string_equal(folder.path, path);
    assert_int_equal(mode_of(path), geteuid() == 0 ? 0711 : 0700);
    dev_folder_close(&folder);
    /* a second start finds its own files there */
    assert_int_equal(dev_folder_open(&folder, path, &err), OK);
    dev_folder_close(&folder);
    dev_folder_close(&folder);
    folder_remove(&base);
}

static void a_folder_of_others_is_left_alone(void **state)
{
    (void)state;
    struct folder base;
    struct dev_folder folder;
    struct err err;
    char path[TEST_PATH_MAX];
    folder_make(&base);
    folder_write(&base, "letter.txt", "dear", 0644);
    assert_int_equal(chmod(base.path, 0755), 0);
    assert_int_equal(dev_folder_open(&folder, base.path, &err), ERR_REFUSED);
    assert_contains(err.text, "holds other files");
    assert_int_equal(mode_of(base.path), 0755);
    assert_int_equal(access(folder_path(&base, "lock", path), F_OK), -1);
    assert_int_equal(dev_folder_open(&folder, folder_path(&base, "letter.txt", path), &err),
                     ERR_INVALID);
    assert_contains(err.text, "is not a folder");
    assert_int_equal(dev_folder_open(&folder, folder_path(&base, "a/b", path), &err), ERR_IO);
    assert_contains(err.text, "No such file");
    folder_remove(&base);
}

static void a_second_process_learns_of_the_first(void **state)
{
    (void)state;
    struct folder base;
    struct dev_folder folder;
    struct err err;
    char want[100];
    int fds[2], status = -1;
    folder_make(&base);
    assert_int_equal(dev_folder_open(&folder, base.path, &err), OK);
    snprintf(want, sizeof(want), "another sluice dev (process %d) has the folder", (int)getpid());
    assert_int_equal(pipe(fds), 0);
    pid_t pid = fork();
    if (pid == 0) {
        struct dev_folder other;
        int rc = dev_folder_open(&other, base.path, &err);
        _exit(rc == ERR_BUSY && strstr(err.text, want) ? 0 : 1);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    close(fds[0]);
    close(fds[1]);
    dev_folder_close(&folder);
    folder_remove(&base);
}

static void small_files_are_kept_for_us_only(void **state)
{
    (void)state;
    struct folder base;
    struct dev_folder folder;
    struct err err;
    struct buf text;
    char path[DEV_PATH_MAX];
    folder_make(&base);
    assert_int_equal(dev_folder_open(&folder, base.path, &err), OK);
    buf_init(&text, 1024 * 1024);
    assert_int_equal(dev_folder_read(&folder, "api_key", &text, &err), ERR_NOTFOUND);
    assert_int_equal(dev_folder_write(&folder, "api_key", SLICE("sk_x\n"), &err), OK);
    assert_int_equal(dev_folder_read(&folder, "api_key", &text, &err), OK);
    assert_text(buf_slice(&text), "sk_x\n");
    buf_deinit(&text);
    dev_folder_path(&folder, "api_key", path);
    assert_int_equal(mode_of(path), 0600);
    dev_folder_close(&folder);
    folder_remove(&base);
}

static void only_large_logs_are_started_again(void **state)
{
    (void)state;
    struct folder base;
    struct dev_folder folder;
    struct err err;
    char path[DEV_PATH_MAX];
    folder_make(&base);
    assert_int_equal(dev_folder_open(&folder, base.path, &err), OK);
    folder_write(&base, "a.log", "short", 0600);
    dev_folder_path(&folder, "a.log", path);
    dev_folder_trim_log(&folder, "a.log");
    assert_int_equal(access(path, F_OK), 0);
    assert_int_equal(truncate(path, 1024 * 1024 + 1), 0);
    dev_folder_trim_log(&folder, "a.log");
    assert_int_equal(access(path, F_OK), -1);
    dev_folder_trim_log(&folder, "a.log");
    dev_folder_close(&folder);
    folder_remove(&base);
}

static void roots_of_both_are_in_the_bundle(void **state)
{
    (void)state;
    struct folder base, own;
    struct dev_folder folder;
    struct err err;
    char path[TEST_PATH_MAX], roots[TEST_PATH_MAX], out[DEV_PATH_MAX], text[1000];
    folder_make(&base);
    folder_make(&own);
    assert_int_equal(dev_folder_open(&folder, base.path, &err), OK);
    folder_write(&own, "ca.pem", "provider\n", 0600);
    folder_write(&own, "roots.pem", "system", 0600);
    folder_path(&own, "ca.pem", path);
    folder_path(&own, "roots.pem", roots);
    assert_int_equal(dev_trust_write(&folder, roots, path, out, &err), OK);
    file_read(out, text, sizeof(text));
    assert_string_equal(text, "system\nprovider\n");
    assert_int_equal(dev_trust_write(&folder, "", path, out, &err), OK);
    assert_int_equal(dev_trust_write(&folder, "/no/such.pem", path, out, &err), ERR_NOTFOUND);
    assert_contains(err.text, "/no/such.pem");
    dev_folder_close(&folder);
    folder_remove(&base);
    folder_remove(&own);
}

static void a_stage_is_a_line(void **state)
{
    (void)state;
    static struct capture capture;
    struct dev_stages stages, silent;
    dev_stages_init(&silent, NULL);
    dev_stage(&silent, "never seen");
    dev_stages_end(&silent);
    dev_stage(NULL, "never seen");
    capture_begin(&capture);
    dev_stages_init(&stages, capture.file);
    dev_stage(&stages, "one");
    dev_stage(&stages, "two");
    dev_stage_later(&stages, "three");
    fprintf(capture.file, "a line of three's own\n");
    dev_stages_end(&stages);
    dev_stages_end(&stages);
    dev_stage(&stages, "four");
    dev_stages_fail(&stages);
    dev_stages_fail(&stages);
    assert_true(dev_stages_seconds(&stages) >= 0);
    for (char *c = (char *)capture_end(&capture); *c; c++)
        if (*c >= '0' && *c <= '9')
            *c = '0';
    assert_string_equal(capture.text, "  one ... 0.00 s\n  two ... 0.00 s\na line of three's own\n"
                                      "  three ... 0.00 s\n  four ... failed\n");
}

static void the_ready_file_holds_what_programs_need(void **state)
{
    (void)state;
    static struct capture capture;
    struct folder base;
    struct arena arena;
    struct err err;
    char path[TEST_PATH_MAX], text[2000];
    folder_make(&base);
    arena_init(&arena, 64 * 1024);
    struct dev_facts facts = {.port = 4711,
                              .api_key = "sk_abc",
                              .provider_url = SLICE("https://127.0.0.1:9"),
                              .provider_ca_file = SLICE("/x/ca.pem"),
                              .database_url = "host='/x' dbname=sluice",
                              .data_dir = "/x/data"};
    facts.task_parent =
        json_parse(&arena, SLICE("{\"page_id\":\"p1\"}"), &json_limits_request, &err);
    assert_int_equal(dev_text_ready_write(folder_path(&base, "r", path), &facts, &err), OK);
    file_read(path, text, sizeof(text));
    const struct json *ready = json_parse(&arena, slice_cstr(text), &json_limits_request, &err);
    assert_non_null(ready);
    assert_text(json_get_str(ready, SLICE("base_url")), "http://127.0.0.1:4711");
    assert_text(json_get_str(ready, SLICE("api_key")), "sk_abc");
    assert_text(json_get_str(ready, SLICE("provider_url")), "https://127.0.0.1:9");
    assert_text(json_get_str(ready, SLICE("provider_ca_file")), "/x/ca.pem");
    assert_text(json_get_str(ready, SLICE("database_url")), "host='/x' dbname=sluice");
    assert_text(json_get_str(ready, SLICE("account_id")), "00000000-0000-0000-0000-000000000000");
    assert_int_equal(json_get_i64(ready, SLICE("pid"), 0), getpid());
    assert_text(json_str(json_pointer(ready, SLICE("/demo/task_parent/page_id"))), "p1");
    assert_int_equal(dev_text_ready_write("/no/such/r", &facts, &err), ERR_IO);
    capture_begin(&capture);
    dev_text_print(capture.file, &facts);
    capture_end(&capture);
    assert_contains(capture.text, "SLUICE_KEY=sk_abc\n");
    assert_contains(capture.text, " http://127.0.0.1:4711/api/executions");
    assert_contains(capture.text, "\"page_id\": \"p1\"");
    assert_contains(capture.text, ": sluice accounts list --data /x/data\n");
    arena_deinit(&arena);
    folder_remove(&base);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        UNIT_TEST(it_is_made_closed_to_others),
        UNIT_TEST(a_folder_of_others_is_left_alone),
        UNIT_TEST(a_second_process_learns_of_the_first),
        UNIT_TEST(small_files_are_kept_for_us_only),
        UNIT_TEST(only_large_logs_are_started_again),
        UNIT_TEST(roots_of_both_are_in_the_bundle),
        UNIT_TEST(a_stage_is_a_line),
        UNIT_TEST(the_ready_file_holds_what_programs_need),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
