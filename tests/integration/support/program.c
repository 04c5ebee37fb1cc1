/*
 * Runs programs; see program.h.
 */
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "integration/support/program.h"
#include "unit.h"

const char *program_sluice(void)
{
    const char *path = getenv("SLUICE_BIN");
    if (!path || access(path, X_OK) != 0)
        fail_msg("SLUICE_BIN is not a program: %s", path ? path : "(not set)");
    return path;
}

static int open_nameless(const char *text)
{
    FILE *file = tmpfile();
    assert_non_null(file);
    if (text)
        assert_int_equal(fwrite(text, 1, strlen(text), file), strlen(text));
    fflush(file);
    int fd = fcntl(fileno(file), F_DUPFD_CLOEXEC, 3);
    fclose(file);
    lseek(fd, 0, SEEK_SET);
    return fd;
}

static void become(const struct program *program, int in_fd, const char *path, char *const *argv,
                   uid_t uid)
{
    if (dup2(in_fd, 0) < 0 || dup2(program->out_fd, 1) < 0 || dup2(program->err_fd, 2) < 0)
        _exit(125);
    if (uid != 0 && (setgroups(0, NULL) != 0 || setgid((gid_t)uid) != 0 || setuid(uid) != 0))
        _exit(125);
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    execv(path, argv);
    _exit(127);
}

void program_start(struct program *program, const char *path, const char *const *args,
                   const char *input, uid_t uid)
{
    char *argv[PROGRAM_ARGS_MAX] = {(char *)path};
    int in_fd = open_nameless(input ? input : "");
    for (int i = 0; args[i]; i++) {
        assert_in_range(i, 0, PROGRAM_ARGS_MAX - 3);
        argv[i + 1] = (char *)args[i];
    }
    *program = (struct program){.out_fd = open_nameless(NULL), .err_fd = open_nameless(NULL)};
    program->pid = fork();
    assert_true(program->pid >= 0);
    if (program->pid == 0)
        become(program, in_fd, path, argv, uid);
    close(in_fd);
}

static void note_end(struct program *program, int status)
{
    program->status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    program->pid = 0;
}

bool program_is_running(struct program *program)
{
    int status;
    if (program->pid == 0)
        return false;
    if (waitpid(program->pid, &status, WNOHANG) == 0)
        return true;
    note_end(program, status);
    return false;
}

static char *read_all(int fd)
{
    char *text = calloc(1, PROGRAM_TEXT_MAX);
    assert_non_null(text);
    ssize_t len = pread(fd, text, PROGRAM_TEXT_MAX - 1, 0);
    assert_true(len >= 0);
    return text;
}

void program_read(struct program *program)
{
    free(program->out);
    free(program->err);
    program->out = read_all(program->out_fd);
    program->err = read_all(program->err_fd);
}

void program_wait(struct program *program)
{
    int status;
    if (program->pid != 0) {
        while (waitpid(program->pid, &status, 0) < 0)
            assert_int_equal(errno, EINTR);
        note_end(program, status);
    }
    program_read(program);
}

void program_free(struct program *program)
{
    free(program->out);
    free(program->err);
    close(program->out_fd);
    close(program->err_fd);
    *program = (struct program){.out_fd = -1, .err_fd = -1};
}
