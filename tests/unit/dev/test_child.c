/*
 * Child processes: started or refused with a message, watched, stopped, and ended together with
 * their parent.
 */
#include "support/folder.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include "base/clock.h"
#include "dev/child.h"

static struct folder folder;
static char log_path[TEST_PATH_MAX];

static struct child_spec shell(const char *const argv[4])
{
    return (struct child_spec){.name = "helper", .argv = argv, .log_path = log_path};
}

#define SHELL(script) ((const char *const[4]){"/bin/sh", "-c", (script), NULL})

static void wait_until_ended(struct child *child, struct err *err)
{
    while (child_is_running(child, log_path, err))
        usleep(1000);
}

static void its_output_goes_to_the_log(void **state)
{
    (void)state;
    struct child_spec spec = shell(SHELL("echo out; echo err >&2; cat"));
    struct err err;
    char text[200];
    (void)unlink(log_path);
    assert_int_equal(child_run(&spec, &err), OK);
    file_read(log_path, text, sizeof(text));
    assert_string_equal(text, "out\nerr\n");
}

static void an_exit_status_is_reported_with_the_last_line(void **state)
{
    (void)state;
    struct child_spec spec = shell(SHELL("echo first; echo 'the reason'; echo; exit 3"));
    struct err err;
    (void)unlink(log_path);
    assert_int_equal(child_run(&spec, &err), ERR_IO);
    assert_contains(err.text, "helper ended with status 3; its log is ");
    assert_contains(err.text, ": the reason");
    assert_null(strstr(err.text, "first"));
    spec = shell(SHELL("kill -9 $$"));
    (void)unlink(log_path);
    assert_int_equal(child_run(&spec, &err), ERR_IO);
    assert_contains(err.text, "was ended by signal 9");
    assert_contains(err.text, "(empty)");
}

static void what_cannot_be_run_is_reported_at_once(void **state)
{
    (void)state;
    struct child child;
    struct err err;
    struct child_spec spec = {.name = "helper",
                              .argv = (const char *const[]){"/no/such/program", NULL},
                              .log_path = log_path};
    assert_int_equal(child_start(&child, &spec, &err), ERR_IO);
    assert_string_equal(err.text, "cannot run /no/such/program: No such file or directory");
    assert_int_equal(child.pid, 0);
    assert_false(child_is_running(&child, log_path, &err));
    spec.argv = (const char *const[]){"/etc/passwd", NULL};
    assert_int_equal(child_start(&child, &spec, &err), ERR_IO);
    assert_contains(err.text, "Permission denied");
    spec.log_path = "/no/such/folder/log";
    assert_int_equal(child_start(&child, &spec, &err), ERR_IO);
    assert_contains(err.text, "cannot write /no/such/folder/log");
}

static void it_is_watched_and_stopped(void **state)
{
    (void)state;
    struct child_spec spec = shell(SHELL("exec sleep 100"));
    struct child child;
    struct err err;
    assert_int_equal(child_start(&child, &spec, &err), OK);
    assert_true(child_is_running(&child, log_path, &err));
    pid_t pid = child.pid;
    assert_int_equal(getsid(pid), pid); /* Ctrl-C at our terminal does not reach the child */
    child_stop(&child, SIGTERM, 5000);
    assert_int_equal(child.pid, 0);
    assert_int_equal(kill(pid, 0), -1);
    child_stop(&child, SIGTERM, 5000);
}

static void one_that_will_not_stop_is_killed(void **state)
{
    (void)state;
    struct child_spec spec = shell(SHELL("trap '' TERM; echo ready; while :; do sleep 100; done"));
    struct child child;
    struct err err;
    char text[100] = "";
    (void)unlink(log_path);
    assert_int_equal(child_start(&child, &spec, &err), OK);
    while (!strstr(text, "ready"))
        file_read(log_path, text, sizeof(text));
    child_stop(&child, SIGTERM, 50);
    assert_int_equal(child.pid, 0);
    /* `sleep` is in the child's process group, so tests/contain.c finds it if it is left */
}

static void an_end_is_noticed_once(void **state)
{
    (void)state;
    struct child_spec spec = shell(SHELL("echo bye; exit 0"));
    struct child child;
    struct err err = {.code = OK};
    (void)unlink(log_path);
    assert_int_equal(child_start(&child, &spec, &err), OK);
    wait_until_ended(&child, &err);
    assert_int_equal(err.code, ERR_IO);
    assert_contains(err.text, "ended with status 0");
    assert_contains(err.text, "bye");
    assert_false(child_is_running(&child, log_path, NULL));
}

static void as_root_it_runs_as_the_user_asked_for(void **state)
{
    (void)state;
    if (geteuid() != 0)
        skip();
    struct child_spec spec = shell(SHELL("id -u; id -g; id -G"));
    struct err err;
    char text[100];
    (void)unlink(log_path);
    spec.uid = 65534;
    spec.gid = 65534;
    assert_int_equal(child_run(&spec, &err), OK);
    file_read(log_path, text, sizeof(text));
    assert_string_equal(text, "65534\n65534\n65534\n");
}

/* If the parent is killed, the child also ends. */
static void it_dies_with_its_parent(void **state)
{
    (void)state;
    int fds[2];
    char byte;
    pid_t grandchild = 0;
    assert_int_equal(pipe(fds), 0);
    pid_t parent = fork();
    if (parent == 0) {
        struct child child;
        struct err err;
        /* the child keeps fds[1] open: the pipe ends when the child does */
        struct child_spec spec = shell(SHELL("exec sleep 100"));
        close(fds[0]);
        int rc = child_start(&child, &spec, &err);
        ssize_t len = write(fds[1], &child.pid, sizeof(child.pid));
        if (rc == OK && len == (ssize_t)sizeof(child.pid))
            kill(getpid(), SIGKILL);
        _exit(1);
    }
    close(fds[1]);
    assert_int_equal(read(fds[0], &grandchild, sizeof(grandchild)), sizeof(grandchild));
    assert_int_equal(waitpid(parent, NULL, 0), parent);
    assert_int_equal(read(fds[0], &byte, 1), 0);
    close(fds[0]);
}

static int setup(void **state)
{
    (void)state;
    folder_make(&folder);
    folder_path(&folder, "log", log_path);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    folder_remove(&folder);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        UNIT_TEST(its_output_goes_to_the_log),
        UNIT_TEST(an_exit_status_is_reported_with_the_last_line),
        UNIT_TEST(what_cannot_be_run_is_reported_at_once),
        UNIT_TEST(it_is_watched_and_stopped),
        UNIT_TEST(one_that_will_not_stop_is_killed),
        UNIT_TEST(an_end_is_noticed_once),
        UNIT_TEST(as_root_it_runs_as_the_user_asked_for),
        UNIT_TEST(it_dies_with_its_parent),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
