/*
 * The command line: which function runs with which arguments, help, suggestions, exit codes.
 */
#include "support/folder.h"

#include <fcntl.h>

#include "cli/command.h"

/* ---- a table for tests ---- */

static struct {
    const char *verb;
    int argc;
    char args[200], label[100];
    bool has_force;
    int result;
} last;

static int note(struct command_call *call)
{
    slice label = call->verb->option_count ? command_option(call, "label") : SLICE_NONE;
    last.verb = call->verb->name ? call->verb->name : "";
    last.argc = call->argc;
    last.args[0] = '\0';
    for (int i = 0; i < call->argc; i++)
        snprintf(last.args + strlen(last.args), sizeof(last.args) - strlen(last.args), "%s;",
                 call->argv[i]);
    snprintf(last.label, sizeof(last.label), "%.*s", SLICE_ARG(label));
    last.has_force = call->verb->option_count && command_has(call, "force");
    if (last.result == EXIT_FAILED)
        return command_fail(call, "it %s", "failed");
    printf("ran\n");
    return last.result;
}

static const struct config_option options[] = {{"label", "TEXT", "a label"},
                                               {"force", NULL, "do it anyhow"}};
static const struct command_verb thing_verbs[] = {
    {"create", "NAME", "Make a thing.", COMMAND_OPTIONS(options), .needs = "label", .run = note},
    {"remove", "", "Remove all.", .run = note},
};
static const struct command things = {.name = "things",
                                      .summary = "make and remove things",
                                      .help = "First paragraph.\nSecond paragraph.",
                                      .scopes = CONFIG_DATABASE,
                                      COMMAND_VERBS(thing_verbs)};
static const struct command_verb go_verbs[] = {{NULL, "[WHERE]", "Go.", .run = note}};
static const struct command go = {
    .name = "gogo", .summary = "go somewhere", COMMAND_VERBS(go_verbs)};
static const struct command_verb serve_verbs[] = {{NULL, "", "Serve.", .run = note}};
static const struct command serve = {
    .name = "serve", .summary = "serve", .scopes = CONFIG_SERVE, COMMAND_VERBS(serve_verbs)};
static const struct command *const commands[] = {&things, &go, &serve};

static char out_text[TEST_TEXT_MAX], err_text[TEST_TEXT_MAX];

static int divert(int fd, int *saved)
{
    FILE *file = tmpfile();
    assert_non_null(file);
    int own = dup(fileno(file));
    fclose(file);
    fflush(fd == 1 ? stdout : stderr);
    *saved = dup(fd);
    dup2(own, fd);
    return own;
}

static void restore(int fd, int own, int saved, char *text)
{
    fflush(fd == 1 ? stdout : stderr);
    dup2(saved, fd);
    close(saved);
    ssize_t len = pread(own, text, TEST_TEXT_MAX - 1, 0);
    text[len > 0 ? len : 0] = '\0';
    close(own);
}

/* Runs a command line. Its output is in out_text and err_text. */
static int run_line(const char *words)
{
    char text[500], *argv[20] = {"sluice"};
    int argc = 1, saved_out, saved_err;
    snprintf(text, sizeof(text), "%s", words);
    for (char *c = text; *c;) {
        argv[argc++] = c;
        c += strcspn(c, " ");
        if (*c)
            *c++ = '\0';
    }
    last.verb = NULL;
    int own_out = divert(1, &saved_out), own_err = divert(2, &saved_err);
    int result = command_main(commands, ARRAY_LEN(commands), argc, argv);
    restore(1, own_out, saved_out, out_text);
    restore(2, own_err, saved_err, err_text);
    return result;
}

/* ---- the tests ---- */

static void the_verb_that_is_meant_runs(void **state)
{
    (void)state;
    assert_int_equal(run_line("things create --force a --label x"), EXIT_OK);
    assert_string_equal(last.verb, "create");
    assert_string_equal(last.args, "a;");
    assert_string_equal(last.label, "x");
    assert_true(last.has_force);
    assert_string_equal(out_text, "ran\n");
    assert_int_equal(run_line("things remove"), EXIT_OK);
    assert_string_equal(last.verb, "remove");
    assert_int_equal(run_line("gogo there"), EXIT_OK);
    assert_string_equal(last.args, "there;");
    assert_int_equal(run_line("gogo"), EXIT_OK);
    assert_int_equal(last.argc, 0);
}

static void a_failure_names_the_command(void **state)
{
    (void)state;
    last.result = EXIT_FAILED;
    assert_int_equal(run_line("things create a"), EXIT_FAILED);
    assert_string_equal(err_text, "sluice things create: it failed\n");
    assert_int_equal(run_line("gogo"), EXIT_FAILED);
    assert_string_equal(err_text, "sluice gogo: it failed\n");
    last.result = EXIT_OK;
}

static void wrong_use_points_to_help(void **state)
{
    (void)state;
    assert_int_equal(run_line("things create"), EXIT_USAGE);
    assert_contains(err_text, "sluice things create: an argument is missing: NAME\n");
    assert_contains(err_text, "`sluice things create --help`");
    assert_null(last.verb);
    assert_int_equal(run_line("things create a b"), EXIT_USAGE);
    assert_contains(err_text, "one argument too many: \"b\"");
    assert_int_equal(run_line("things remove a"), EXIT_USAGE);
    assert_contains(err_text, "it takes no arguments, got \"a\"");
    assert_int_equal(run_line("things create a --labl x"), EXIT_USAGE);
    assert_contains(err_text, "did you mean --label?");
    assert_int_equal(run_line("gogo --port 1"), EXIT_USAGE);
    assert_contains(err_text, "there is no flag --port");
}

static void names_are_suggested(void **state)
{
    (void)state;
    assert_int_equal(run_line("thigns"), EXIT_USAGE);
    assert_contains(err_text, "there is no command \"thigns\"; did you mean \"sluice things\"?");
    assert_int_equal(run_line("xyzzyxyzzy"), EXIT_USAGE);
    assert_contains(err_text, "`sluice --help` lists them");
    assert_int_equal(run_line("things creat a"), EXIT_USAGE);
    assert_contains(err_text, "did you mean \"create\"?");
    assert_int_equal(run_line("things"), EXIT_USAGE);
    assert_contains(err_text, "a verb is missing");
    assert_int_equal(run_line("things frobnicate"), EXIT_USAGE);
    assert_contains(err_text, "there is no \"frobnicate\"");
    assert_int_equal(run_line("help thigns"), EXIT_USAGE);
}

static void help_is_on_stdout_and_runs_nothing(void **state)
{
    (void)state;
    static const char *const lines[] = {"--help", "-h", "help"};
    for (size_t i = 0; i < ARRAY_LEN(lines); i++) {
        assert_int_equal(run_line(lines[i]), EXIT_OK);
        assert_contains(out_text, "things         make and remove things");
        assert_contains(out_text, "gogo           go somewhere");
        assert_string_equal(err_text, "");
    }
    assert_int_equal(run_line("things --help"), EXIT_OK);
    assert_contains(out_text, "usage: sluice things create NAME --label TEXT [--force] [SETTINGS]");
    assert_contains(out_text, "usage: sluice things remove");
    assert_contains(out_text, "First paragraph.\n\nSecond paragraph.\n");
    assert_contains(out_text, "--database-url URL");
    assert_int_equal(run_line("things remove x y --help"), EXIT_OK);
    assert_contains(out_text, "Remove all.");
    assert_null(strstr(out_text, "Make a thing."));
    assert_int_equal(run_line("help things create"), EXIT_OK);
    assert_contains(out_text, "Make a thing.");
    assert_null(strstr(out_text, "Remove all."));
    assert_int_equal(run_line("help gogo"), EXIT_OK);
    assert_contains(out_text, "usage: sluice gogo [WHERE]\n");
    assert_null(strstr(out_text, "settings:"));
    assert_null(last.verb);
    /* after -- a name with dashes is an argument like any other */
    assert_int_equal(run_line("gogo -- --help"), EXIT_OK);
    assert_string_equal(last.args, "--help;");
}

static void no_command_is_wrong_use(void **state)
{
    (void)state;
    assert_int_equal(run_line(""), EXIT_USAGE);
    assert_contains(err_text, "usage: sluice COMMAND");
    assert_string_equal(out_text, "");
    assert_int_equal(run_line("version"), EXIT_OK);
    assert_contains(out_text, "sluice ");
    assert_int_equal(run_line("--version"), EXIT_OK);
    assert_contains(out_text, command_version);
}

static void the_log_settings_are_checked(void **state)
{
    (void)state;
    assert_int_equal(run_line("serve --log-level loud"), EXIT_USAGE);
    assert_contains(err_text, "trace, debug, info, warn or error, got \"loud\"");
    assert_int_equal(run_line("serve --log-format xml"), EXIT_USAGE);
    assert_contains(err_text, "json, text or auto, got \"xml\"");
    assert_int_equal(run_line("serve --log-level warn --log-format json"), EXIT_OK);
}

/* A full disk must not be reported as success. */
static void output_that_cannot_be_written_fails(void **state)
{
    (void)state;
    char *argv[] = {"sluice", "gogo"};
    int full = open("/dev/full", O_WRONLY), saved_err;
    if (full < 0)
        skip();
    fflush(stdout);
    int saved = dup(1);
    dup2(full, 1);
    close(full);
    int own = divert(2, &saved_err);
    int result = command_main(commands, ARRAY_LEN(commands), 2, argv);
    clearerr(stdout);
    dup2(saved, 1);
    close(saved);
    restore(2, own, saved_err, err_text);
    assert_int_equal(result, EXIT_FAILED);
    assert_contains(err_text, "cannot write the output");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        UNIT_TEST(the_verb_that_is_meant_runs),
        UNIT_TEST(a_failure_names_the_command),
        UNIT_TEST(wrong_use_points_to_help),
        UNIT_TEST(names_are_suggested),
        UNIT_TEST(help_is_on_stdout_and_runs_nothing),
        UNIT_TEST(no_command_is_wrong_use),
        UNIT_TEST(the_log_settings_are_checked),
        UNIT_TEST(output_that_cannot_be_written_fails),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
