/*
 * Settings: defaults, file, environment and flags, in that order; limits; which values are refused,
 * with which message.
 */
#include "support/folder.h"

#include "config/config.h"

static const struct config_option options[] = {{"label", "TEXT", "a text"},
                                               {"json", NULL, "a switch"}};

/* argv is writable, like that of a process. */
struct line {
    char text[1024];
    char *argv[32];
    int argc;
};

static void line_make(struct line *line, const char *words)
{
    *line = (struct line){.argc = 0};
    snprintf(line->text, sizeof(line->text), "%s", words);
    for (char *c = line->text; *c;) {
        line->argv[line->argc++] = c;
        c += strcspn(c, " ");
        if (*c)
            *c++ = '\0';
    }
}

static int read_scoped(struct config *config, struct config_args *args, struct line *line,
                       unsigned scopes, const char *words, struct err *err)
{
    line_make(line, words);
    *args = (struct config_args){.scopes = scopes,
                                 .options = options,
                                 .option_count = ARRAY_LEN(options),
                                 .argc = line->argc,
                                 .argv = line->argv};
    assert_int_equal(config_init(config, err), OK);
    return config_read(config, args, err);
}

/* Reads and frees a configuration. Returns the text of the expected error. */
static const char *refusal(unsigned scopes, const char *words)
{
    static struct err err;
    struct config config;
    struct config_args args;
    struct line line;
    err.text[0] = '\0';
    int result = read_scoped(&config, &args, &line, scopes, words, &err);
    config_deinit(&config);
    if (result == OK)
        fail_msg("was accepted: %s", words);
    return err.text;
}

static void every_setting_has_a_sound_default(void **state)
{
    (void)state;
    struct config config;
    struct err err;
    assert_int_equal(config_init(&config, &err), OK);
    assert_text(config.listen.items[0], "127.0.0.1:8080");
    assert_int_equal(config.port, 8080);
    assert_int_equal(config.drain_timeout_ms, 35000);
    assert_int_equal(config.body_bytes_max, 8 * 1024 * 1024);
    assert_int_equal(config.database_url.len, 0);
    for (size_t i = 0; i < config_item_count; i++) {
        assert_non_null(config_items[i].help);
        assert_true(config_items[i].scopes != 0);
        for (size_t j = 0; j < i; j++)
            assert_string_not_equal(config_items[i].name, config_items[j].name);
    }
    config_deinit(&config);
}

static void flags_positions_and_options_are_told_apart(void **state)
{
    (void)state;
    struct config config;
    struct config_args args;
    struct line line;
    struct err err;
    assert_int_equal(read_scoped(&config, &args, &line, CONFIG_DEV,
                                 "one --port 0 two --data=x=y --json --label a - -- --port three",
                                 &err),
                     OK);
    assert_int_equal(config.port, 0);
    assert_text(config.data_dir, "x=y");
    assert_int_equal(args.positional, 5);
    assert_string_equal(args.argv[0], "one");
    assert_string_equal(args.argv[1], "two");
    assert_string_equal(args.argv[2], "-");
    assert_string_equal(args.argv[3], "--port");
    assert_string_equal(args.argv[4], "three");
    assert_text(args.values[0], "a");
    assert_non_null(args.values[1].ptr);
    config_deinit(&config);
}

static void an_option_that_was_not_given_has_no_value(void **state)
{
    (void)state;
    struct config config;
    struct config_args args;
    struct line line;
    struct err err;
    assert_int_equal(read_scoped(&config, &args, &line, CONFIG_DEV, "--label=", &err), OK);
    assert_non_null(args.values[0].ptr);
    assert_int_equal(args.values[0].len, 0);
    assert_null(args.values[1].ptr);
    config_deinit(&config);
}

static void lists_repeat_and_replace_the_default(void **state)
{
    (void)state;
    struct config config;
    struct config_args args;
    struct line line;
    struct err err;
    assert_int_equal(read_scoped(&config, &args, &line, CONFIG_SERVE,
                                 "--listen 127.0.0.1:1,127.0.0.1:2 --listen unix:/run/x "
                                 "--listen 127.0.0.1:1",
                                 &err),
                     OK);
    assert_int_equal(config.listen.count, 3);
    assert_text(config.listen.items[0], "127.0.0.1:1");
    assert_text(config.listen.items[2], "unix:/run/x");
    assert_int_equal(config_add(&config, SLICE("listen"), SLICE("127.0.0.1:9"), &err), OK);
    assert_int_equal(config.listen.count, 4);
    assert_int_equal(config_set(&config, SLICE("listen"), SLICE("127.0.0.1:7"), &err), OK);
    assert_int_equal(config.listen.count, 1);
    for (int i = 0; i < CONFIG_LIST_MAX - 1; i++) {
        char text[32];
        snprintf(text, sizeof(text), "127.0.0.1:%d", 100 + i);
        assert_int_equal(config_add(&config, SLICE("listen"), slice_cstr(text), &err), OK);
    }
    assert_int_equal(config_add(&config, SLICE("listen"), SLICE("one.more:1"), &err), ERR_LIMIT);
    assert_contains(err.text, "at most 64");
    config_deinit(&config);
}

static void units_scale_and_bounds_hold(void **state)
{
    (void)state;
    struct config config;
    struct config_args args;
    struct line line;
    struct err err;
    assert_int_equal(read_scoped(&config, &args, &line, CONFIG_SERVE,
                                 "--drain-timeout 500ms --idle-timeout 2 --head-timeout 1m "
                                 "--idempotency-ttl 2D --body-bytes 3m --head-bytes 2048",
                                 &err),
                     OK);
    assert_int_equal(config.drain_timeout_ms, 500);
    assert_int_equal(config.idle_timeout_ms, 2000);
    assert_int_equal(config.head_timeout_ms, 60000);
    assert_int_equal(config.idempotency_ttl_ms, 2 * 86400000);
    assert_int_equal(config.body_bytes_max, 3 * 1048576);
    assert_int_equal(config.head_bytes_max, 2048);
    config_deinit(&config);
    assert_contains(refusal(CONFIG_SERVE, "--drain-timeout 2h"), "from 10ms to 1h, got \"2h\"");
    assert_contains(refusal(CONFIG_SERVE, "--body-bytes 1"), "from 1k to 1g");
    assert_contains(refusal(CONFIG_SERVE, "--database-writers 0"), "from 1 to 64");
    assert_contains(refusal(CONFIG_SERVE, "--drain-timeout soon"), "500ms, 30s, 5m or 2h");
    assert_contains(refusal(CONFIG_SERVE, "--drain-timeout -1"), "got \"-1\"");
    assert_contains(refusal(CONFIG_SERVE, "--drain-timeout 5parsecs"), "got \"5parsecs\"");
    assert_contains(refusal(CONFIG_SERVE, "--database-writers 2.5"), "a whole number");
}

/* A value of 2^64 or more, with a unit or without, must not wrap to a small number. */
static void numbers_do_not_wrap(void **state)
{
    (void)state;
    assert_contains(refusal(CONFIG_SERVE, "--body-bytes 18446744073g"), "from 1k to 1g");
    assert_contains(refusal(CONFIG_SERVE, "--body-bytes 17179869184g"), "from 1k to 1g");
    assert_contains(refusal(CONFIG_SERVE, "--drain-timeout 18446744073709551615d"), "from 10ms");
    assert_contains(refusal(CONFIG_SERVE, "--drain-timeout 18446744073709551616"), "got \"184");
    uint64_t ms = 0;
    assert_true(config_parse_ms(SLICE("90d"), &ms));
    assert_int_equal(ms, 90ull * 86400000);
    assert_false(config_parse_ms(SLICE(""), &ms));
    assert_false(config_parse_ms(SLICE("d"), &ms));
}

static void unknown_flags_name_the_nearest(void **state)
{
    (void)state;
    assert_contains(refusal(CONFIG_DEV, "--prot 1"),
                    "there is no flag --prot; did you mean --port?");
    assert_contains(refusal(CONFIG_DEV, "--lable x"), "did you mean --label?");
    assert_contains(refusal(CONFIG_DEV, "--listen 127.0.0.1:1"), "there is no flag --listen");
    assert_string_equal(refusal(CONFIG_DEV, "--quxquxqux=1"), "there is no flag --quxquxqux");
    assert_contains(refusal(CONFIG_DEV, "-p 1"), "flags begin with two dashes");
    assert_contains(refusal(CONFIG_DEV, "--port"), "--port needs a value");
    assert_contains(refusal(CONFIG_DEV, "--label"), "--label needs a value");
    assert_contains(refusal(CONFIG_DEV, "--json=yes"), "--json takes no value");
}

static void secrets_are_taken_out_of_the_command_line(void **state)
{
    (void)state;
    struct config config;
    struct config_args args;
    struct line line;
    struct err err;
    assert_int_equal(read_scoped(&config, &args, &line, CONFIG_SERVE,
                                 "--master-key abcdef --database-url=postgresql://u:pw@h/d --json",
                                 &err),
                     OK);
    assert_text(config.master_key, "abcdef");
    assert_text(config.database_url, "postgresql://u:pw@h/d");
    assert_string_equal(line.argv[1], "******");
    assert_null(strstr(line.argv[2], "pw"));
    config_deinit(&config);
}

static void the_environment_is_read_within_scope(void **state)
{
    (void)state;
    struct config config;
    struct config_args args;
    struct line line;
    struct err err;
    setenv("SLUICE_DRAIN_TIMEOUT", "9s", 1);
    setenv("SLUICE_LISTEN", "127.0.0.1:5,127.0.0.1:6", 1);
    setenv("SLUICE_IDLE_TIMEOUT", "", 1);
    setenv("SLUICE_PORT", "tcp://10.0.0.1:80", 1); /* variables that Kubernetes sets for a
                                                    * service */
    setenv("DATABASE_URL", "postgresql://other", 1);
    assert_int_equal(read_scoped(&config, &args, &line, CONFIG_SERVE, "--listen 127.0.0.1:7", &err),
                     OK);
    assert_int_equal(config.drain_timeout_ms, 9000);
    assert_int_equal(config.idle_timeout_ms, 75000);
    assert_int_equal(config.listen.count, 1);
    assert_text(config.listen.items[0], "127.0.0.1:7");
    assert_text(config.database_url, "postgresql://other");
    config_deinit(&config);
    setenv("SLUICE_DATABASE_URL", "postgresql://own", 1);
    assert_int_equal(read_scoped(&config, &args, &line, CONFIG_SERVE, "", &err), OK);
    assert_text(config.database_url, "postgresql://own");
    assert_int_equal(config.listen.count, 2);
    config_deinit(&config);
    setenv("SLUICE_DRAIN_TIMEOUT", "soon", 1);
    assert_contains(refusal(CONFIG_SERVE, ""), "environment variable SLUICE_DRAIN_TIMEOUT");
    assert_contains(refusal(CONFIG_DEV, ""), "SLUICE_");
    unsetenv("SLUICE_DRAIN_TIMEOUT");
    unsetenv("SLUICE_LISTEN");
    unsetenv("SLUICE_IDLE_TIMEOUT");
    unsetenv("SLUICE_PORT");
    unsetenv("DATABASE_URL");
    unsetenv("SLUICE_DATABASE_URL");
}

static void the_file_comes_first(void **state)
{
    (void)state;
    struct config config;
    struct config_args args;
    struct line line;
    struct err err;
    struct folder folder;
    char path[TEST_PATH_MAX], words[TEST_PATH_MAX + 100];
    folder_make(&folder);
    folder_write(&folder, "sluice.conf",
                 "# a comment\r\n"
                 "\n"
                 "  drain-timeout =  7s \r\n"
                 "idle-timeout=8s\n"
                 "listen = 127.0.0.1:1\n"
                 "listen = 127.0.0.1:2\n"
                 "database-url = postgresql://file?a=b",
                 0600);
    setenv("SLUICE_IDLE_TIMEOUT", "9s", 1);
    snprintf(words, sizeof(words), "--config %s --head-timeout 3s",
             folder_path(&folder, "sluice.conf", path));
    assert_int_equal(read_scoped(&config, &args, &line, CONFIG_SERVE, words, &err), OK);
    assert_int_equal(config.drain_timeout_ms, 7000);
    assert_int_equal(config.idle_timeout_ms, 9000);
    assert_int_equal(config.head_timeout_ms, 3000);
    assert_int_equal(config.listen.count, 2);
    assert_text(config.database_url, "postgresql://file?a=b");
    config_deinit(&config);
    setenv("SLUICE_CONFIG", path, 1);
    assert_int_equal(read_scoped(&config, &args, &line, CONFIG_SERVE, "", &err), OK);
    assert_int_equal(config.drain_timeout_ms, 7000);
    config_deinit(&config);
    unsetenv("SLUICE_CONFIG");
    unsetenv("SLUICE_IDLE_TIMEOUT");
    folder_remove(&folder);
}

/* The error for a file with that text. */
static const char *file_refusal(const struct folder *folder, const char *text, mode_t mode)
{
    char path[TEST_PATH_MAX], words[TEST_PATH_MAX + 20];
    folder_write(folder, "bad.conf", text, mode);
    snprintf(words, sizeof(words), "--config=%s", folder_path(folder, "bad.conf", path));
    return refusal(CONFIG_SERVE, words);
}

static void a_bad_file_is_refused_by_line(void **state)
{
    (void)state;
    struct folder folder;
    folder_make(&folder);
    assert_contains(file_refusal(&folder, "\n\nnonsense\n", 0600), "bad.conf line 3: expected");
    assert_contains(file_refusal(&folder, "drian-timeout = 1s", 0600),
                    "line 1: there is no setting \"drian-timeout\"; did you mean drain-timeout?");
    assert_contains(file_refusal(&folder, "qqqqqqqqqq = 1", 0600), "lists them");
    assert_contains(file_refusal(&folder, "port = x\n", 0600),
                    "line 1: port must be a whole number");
    assert_contains(file_refusal(&folder, "master-key = x\n", 0644), "others may read this file");
    assert_contains(refusal(CONFIG_SERVE, "--config /nowhere/at.all"), "/nowhere/at.all");
    char *large = calloc(1, CONFIG_FILE_BYTES_MAX + 1);
    memset(large, '#', CONFIG_FILE_BYTES_MAX);
    assert_contains(file_refusal(&folder, large, 0600), "is larger than");
    free(large);
    folder_remove(&folder);
}

static void help_shows_the_scope_only(void **state)
{
    (void)state;
    static struct capture capture;
    capture_begin(&capture);
    config_print_help(capture.file, CONFIG_DATABASE);
    capture_end(&capture);
    assert_contains(capture.text, "--database-url URL");
    assert_null(strstr(capture.text, "--listen"));
    for (slice rest = slice_cstr(capture.text); rest.ptr;)
        assert_in_range(slice_split(&rest, '\n').len, 0, 78);
    capture_begin(&capture);
    config_print_options(capture.file, options, ARRAY_LEN(options));
    capture_end(&capture);
    assert_contains(capture.text, "  --label TEXT\n      a text\n  --json\n      a switch\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        UNIT_TEST(every_setting_has_a_sound_default),
        UNIT_TEST(flags_positions_and_options_are_told_apart),
        UNIT_TEST(an_option_that_was_not_given_has_no_value),
        UNIT_TEST(lists_repeat_and_replace_the_default),
        UNIT_TEST(units_scale_and_bounds_hold),
        UNIT_TEST(numbers_do_not_wrap),
        UNIT_TEST(unknown_flags_name_the_nearest),
        UNIT_TEST(secrets_are_taken_out_of_the_command_line),
        UNIT_TEST(the_environment_is_read_within_scope),
        UNIT_TEST(the_file_comes_first),
        UNIT_TEST(a_bad_file_is_refused_by_line),
        UNIT_TEST(help_shows_the_scope_only),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
