/* base/err and base/assert: messages that are truncated between characters, and how a bug ends
 * the process. */
#include "testing.h"

#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/err.h"
#include "base/log.h"

static void sets_and_returns(void **state)
{
    (void)state;
    struct err err;
    assert_int_equal(err_set(&err, ERR_LIMIT, "%d of %s", 5, "five"), ERR_LIMIT);
    assert_int_equal(err.code, ERR_LIMIT);
    assert_string_equal(err.text, "5 of five");
    assert_int_equal(err_set(NULL, ERR_IO, "nobody %s", "asks"), ERR_IO);
}

static void prefixes(void **state)
{
    (void)state;
    struct err err;
    err_set(&err, ERR_SYNTAX, "expected a comma");
    assert_int_equal(err_prefix(&err, "line %d", 7), ERR_SYNTAX);
    assert_int_equal(err_prefix(&err, "gmail.json"), ERR_SYNTAX);
    assert_string_equal(err.text, "gmail.json: line 7: expected a comma");
}

static void takes_its_own_text(void **state)
{
    (void)state;
    struct err err;
    err_set(&err, ERR_IO, "inner");
    err_set(&err, ERR_INVALID, "outer (%s)", err.text);
    assert_string_equal(err.text, "outer (inner)");
    err_prefix(&err, "%s", err.text);
    assert_string_equal(err.text, "outer (inner): outer (inner)");
}

/* Every length near the limit, with characters of 1 to 4 bytes: no character is cut in two, and
 * at most the space of one is lost. */
static void cuts_at_characters(void **state)
{
    (void)state;
    static const char *const chars[] = {"x", "\xC3\xA9", "\xE2\x82\xAC", "\xF0\x9F\x98\x80"};
    char text[ERR_TEXT_MAX * 2];
    for (size_t c = 0; c < ARRAY_LEN(chars); c++) {
        for (size_t lead = 0; lead < 8; lead++) {
            size_t len = lead, step = strlen(chars[c]);
            memset(text, 'a', lead);
            for (; len + step < sizeof(text); len += step)
                memcpy(text + len, chars[c], step);
            text[len] = '\0';
            struct err err;
            err_set(&err, ERR_SYNTAX, "%s", text);
            slice got = slice_cstr(err.text);
            assert_true(slice_is_utf8(got, NULL));
            assert_in_range(got.len, ERR_TEXT_MAX - 2 - 3, ERR_TEXT_MAX - 1);
            assert_memory_equal(err.text, text, got.len);
            err_prefix(&err, "here");
            assert_true(slice_is_utf8(slice_cstr(err.text), NULL));
            assert_true(slice_starts_with(slice_cstr(err.text), SLICE("here: a")) || lead == 0);
            err_prefix(&err, "%s", text);
            assert_true(slice_is_utf8(slice_cstr(err.text), NULL));
            assert_true(strlen(err.text) < ERR_TEXT_MAX);
        }
    }
}

/* The stderr of a child that breaks an invariant. */
static size_t read_crash(char *text, size_t size)
{
    int ends[2], status;
    assert_int_equal(pipe(ends), 0);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        const struct rlimit no_core = {0, 0};
        setrlimit(RLIMIT_CORE, &no_core);
        signal(SIGABRT, SIG_DFL);
        dup2(ends[1], STDERR_FILENO);
        log_init(LOG_INFO, LOG_JSON);
        log_event(LOG_INFO, "the last thing", LOG_INT("n", 1));
        ASSERT(text == NULL);
        _exit(0);
    }
    close(ends[1]);
    size_t len = 0;
    ssize_t got;
    while ((got = read(ends[0], text + len, size - 1 - len)) > 0)
        len += (size_t)got;
    close(ends[0]);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
    text[len] = '\0';
    return len;
}

static void a_bug_says_where(void **state)
{
    (void)state;
    char text[4096];
    read_crash(text, sizeof(text));
    char *line = strstr(text, "the last thing"), *bug = strstr(text, "test_err.c:");
    assert_non_null(line);
    assert_non_null(bug);
    assert_true(line < bug);
    assert_non_null(strstr(bug, "read_crash: ASSERT(text == NULL) failed\n"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        UNIT_TEST(sets_and_returns),   UNIT_TEST(prefixes),         UNIT_TEST(takes_its_own_text),
        UNIT_TEST(cuts_at_characters), UNIT_TEST(a_bug_says_where),
    };
    return cmocka_run_group_tests_name("base/err", tests, NULL, NULL);
}
