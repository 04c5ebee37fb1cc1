/*
 * Child processes; see child.h.
 */
#include "dev/child.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/slice.h"

enum { POLL_MS = 5, LOG_TAIL_BYTES = 4096 };

static void sleep_ms(unsigned ms)
{
    struct timespec wait = {.tv_sec = ms / 1000, .tv_nsec = (long)(ms % 1000) * 1000000};
    (void)nanosleep(&wait, NULL);
}

/* The data that the child reports to its parent, through a pipe that a successful exec closes. */
struct child_failure {
    int number; /* errno */
    int step;   /* enum child_step */
};

enum child_step { STEP_FILES, STEP_USER, STEP_EXEC };

_Noreturn static void give_up(int pipe_fd, enum child_step step)
{
    struct child_failure failure = {.number = errno, .step = (int)step};
    ssize_t ignored = write(pipe_fd, &failure, sizeof(failure));
    (void)ignored; /* if the write fails, the parent still has the exit status */
    _exit(127);
}

/* Runs in the child between fork and exec, so it makes only async-signal-safe calls. */
_Noreturn static void become(const struct child_spec *spec, int log_fd, int pipe_fd, pid_t parent)
{
    sigset_t none;
    (void)sigemptyset(&none);
    (void)signal(SIGPIPE, SIG_DFL);
    (void)signal(SIGINT, SIG_DFL);
    (void)signal(SIGTERM, SIG_DFL);
    (void)sigprocmask(SIG_SETMASK, &none, NULL);
    /* The child gets its own session: Ctrl-C at the terminal goes only to the parent, which stops
     * its children in order. */
    (void)setsid();
    int null_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    if (null_fd < 0 || dup2(null_fd, 0) < 0 || dup2(log_fd, 1) < 0 || dup2(log_fd, 2) < 0)
        give_up(pipe_fd, STEP_FILES);
    /* Groups are set before setuid: afterwards the process may not change them. */
    if (spec->uid != 0 &&
        (setgroups(0, NULL) != 0 || setgid(spec->gid) != 0 || setuid(spec->uid) != 0))
        give_up(pipe_fd, STEP_USER);
    /* set after setuid, which clears it */
    (void)prctl(PR_SET_PDEATHSIG, spec->death_signal ? spec->death_signal : SIGTERM);
    if (getppid() != parent)
        _exit(127); /* the parent has died before prctl, so no signal would come */
    execv(spec->argv[0], (char *const *)(void *)spec->argv);
    give_up(pipe_fd, STEP_EXEC);
}

/* Waits for the end of file, because a successful exec closes the pipe, or for a report of the
 * child's failure. */
static int wait_for_exec(struct child *child, const struct child_spec *spec, int pipe_fd,
                         struct err *err)
{
    struct child_failure failure;
    ssize_t len;
    do
        len = read(pipe_fd, &failure, sizeof(failure));
    while (len < 0 && errno == EINTR);
    /* End of file: the exec has succeeded. */
    if (len != (ssize_t)sizeof(failure))
        return OK;
    /* The child has exited; it is reaped here so that its pid is not signalled later. */
    (void)waitpid(child->pid, NULL, 0);
    child->pid = 0;
    if (failure.step == STEP_USER)
        return err_set(err, ERR_IO, "%s cannot run as user %u: %s", spec->name, (unsigned)spec->uid,
                       strerror(failure.number));
    if (failure.step == STEP_FILES)
        return err_set(err, ERR_IO, "%s cannot be started: %s", spec->name,
                       strerror(failure.number));
    return err_set(err, ERR_IO, "cannot run %s: %s", spec->argv[0], strerror(failure.number));
}

int child_start(struct child *child, const struct child_spec *spec, struct err *err)
{
    int fds[2];
    ASSERT(spec->name && spec->argv && spec->argv[0]);
    *child = (struct child){.name = spec->name};
    int log_fd = open(spec->log_path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (log_fd < 0)
        return err_set(err, ERR_IO, "cannot write %s: %s", spec->log_path, strerror(errno));
    if (pipe2(fds, O_CLOEXEC) != 0) {
        (void)close(log_fd);
        return err_set(err, ERR_IO, "cannot make a pipe: %s", strerror(errno));
    }
    pid_t parent = getpid();
    pid_t pid = fork();
    if (pid == 0)
        become(spec, log_fd, fds[1], parent);
    /* close may change errno. */
    int number = errno;
    (void)close(log_fd);
    /* Only the child may keep the writing end open; otherwise the read would not end. */
    (void)close(fds[1]);
    child->pid = pid > 0 ? pid : 0;
    int result = pid > 0
                     ? wait_for_exec(child, spec, fds[0], err)
                     : err_set(err, ERR_IO, "cannot start %s: %s", spec->name, strerror(number));
    (void)close(fds[0]);
    return result;
}

/* The last line of the log that is not empty, truncated to fit. */
static void last_line(const char *path, char *out, size_t cap)
{
    char tail[LOG_TAIL_BYTES + 1];
    out[0] = '\0';
    FILE *file = fopen(path, "re");
    if (!file)
        return;
    if (fseek(file, -LOG_TAIL_BYTES, SEEK_END) != 0)
        rewind(file);
    size_t len = fread(tail, 1, LOG_TAIL_BYTES, file);
    (void)fclose(file);
    /* A NUL in the log would end the text early. */
    for (size_t i = 0; i < len; i++)
        if (tail[i] == '\0')
            tail[i] = ' ';
    while (len > 0 && (tail[len - 1] == '\n' || tail[len - 1] == ' '))
        len--;
    tail[len] = '\0';
    const char *line = strrchr(tail, '\n');
    (void)snprintf(out, cap, "%.*s", (int)cap - 1, line ? line + 1 : tail);
}

static int describe_end(const char *name, int status, const char *log_path, struct err *err)
{
    char line[300];
    last_line(log_path, line, sizeof(line));
    if (WIFSIGNALED(status))
        return err_set(err, ERR_IO, "%s was ended by signal %d; its log is %s: %s", name,
                       WTERMSIG(status), log_path, line[0] ? line : "(empty)");
    return err_set(err, ERR_IO, "%s ended with status %d; its log is %s: %s", name,
                   WEXITSTATUS(status), log_path, line[0] ? line : "(empty)");
}

bool child_is_running(struct child *child, const char *log_path, struct err *err)
{
    int status = 0;
    if (child->pid == 0)
        return false;
    /* WNOHANG, because this is called from the loop, which must not block. */
    pid_t ended = waitpid(child->pid, &status, WNOHANG);
    if (ended == 0)
        return true;
    child->pid = 0;
    (void)describe_end(child->name, status, log_path, err);
    return false;
}

/* The child is polled, since SIGCHLD belongs to libuv while the loop runs. */
void child_stop(struct child *child, int signum, unsigned timeout_ms)
{
    if (child->pid == 0)
        return;
    (void)kill(child->pid, signum);
    uint64_t until = clock_mono_ns() + (uint64_t)timeout_ms * 1000000;
    while (waitpid(child->pid, NULL, WNOHANG) == 0) {
        if (clock_mono_ns() > until) {
            /* kills the group that the child leads, so that its own children end, too */
            (void)kill(-child->pid, SIGKILL);
            (void)waitpid(child->pid, NULL, 0);
            break;
        }
        sleep_ms(POLL_MS);
    }
    child->pid = 0;
}

int child_run(const struct child_spec *spec, struct err *err)
{
    struct child child;
    int status = 0;
    if (child_start(&child, spec, err) != OK)
        return (int)err->code;
    while (waitpid(child.pid, &status, 0) < 0)
        if (errno != EINTR)
            return err_set(err, ERR_IO, "cannot wait for %s: %s", spec->name, strerror(errno));
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
        return OK;
    return describe_end(spec->name, status, spec->log_path, err);
}
