/*
 * contain SECONDS COMMAND...: runs one test program and leaves none of its processes running.
 *
 * It makes itself the reaper of every process that the command starts, at any depth and also in
 * sessions of their own (like a daemon's). When the command has ended, remaining processes get a
 * moment to end by themselves. Then they are killed and reported: a test that leaves a process has
 * failed. SECONDS limits the whole run. The last line on stderr, "# cpu SECONDS", is the processor
 * time of all of them. Exits with the command's status; 124 if the time ran out, 125 if a process
 * was left, 126 if the command could not be started.
 */
#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { STATUS_TIMEOUT = 124, STATUS_LEFT = 125, STATUS_NO_START = 126, GRACE_MS = 5000 };

static volatile sig_atomic_t stop_signal;

static void on_signal(int number)
{
    stop_signal = number;
}

static long long now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (long long)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* Parent of a process and its name, from /proc; 0: it has exited. */
static pid_t parent_of(const char *pid, char *name, size_t name_size)
{
    char path[300];
    char line[512];
    snprintf(path, sizeof(path), "/proc/%s/stat", pid);
    FILE *file = fopen(path, "r");
    if (file == NULL)
        return 0;
    size_t len = fread(line, 1, sizeof(line) - 1, file);
    fclose(file);
    line[len] = '\0';
    /* "pid (name) state parent ...": the name may contain anything, so search from the right. */
    char *open = strchr(line, '(');
    char *close = strrchr(line, ')');
    if (open == NULL || close == NULL || strlen(close) < 4)
        return 0;
    *close = '\0';
    snprintf(name, name_size, "%s", open + 1);
    return (pid_t)strtol(close + 4, NULL, 10);
}

/* Kills every child of this process. Their children become ours in turn. */
static void kill_children(bool is_reported)
{
    char self[32];
    char name[256];
    snprintf(self, sizeof(self), "%ld", (long)getpid());
    DIR *dir = opendir("/proc");
    if (dir == NULL)
        return;
    for (struct dirent *entry = readdir(dir); entry != NULL; entry = readdir(dir)) {
        if (entry->d_name[0] < '1' || entry->d_name[0] > '9' || strcmp(entry->d_name, self) == 0)
            continue;
        if (parent_of(entry->d_name, name, sizeof(name)) != getpid())
            continue;
        if (is_reported)
            fprintf(stderr, "contain: still running: %s (%s)\n", name, entry->d_name);
        kill((pid_t)strtol(entry->d_name, NULL, 10), SIGKILL);
    }
    closedir(dir);
}

static void pause_ms(long ms)
{
    struct timespec wait = {ms / 1000, ms % 1000 * 1000000};
    nanosleep(&wait, NULL);
}

/* Waits until the command has ended, no child is left, or the time is over. Returns true if no
 * child is left. */
static bool reap(pid_t command, int *status, bool *is_ended, long long until_ms)
{
    while (stop_signal == 0 && now_ms() < until_ms) {
        int one;
        pid_t pid = waitpid(-1, &one, WNOHANG);
        if (pid < 0 && errno == ECHILD)
            return true;
        if (pid <= 0) {
            pause_ms(5);
            continue;
        }
        if (pid != command)
            continue;
        *status = one;
        *is_ended = true;
        return false;
    }
    return false;
}

static void end_all(bool is_reported)
{
    for (int round = 0; round < 400; round++) {
        kill_children(is_reported && round == 0);
        pause_ms(5);
        while (waitpid(-1, NULL, WNOHANG) > 0)
            continue;
        if (waitpid(-1, NULL, WNOHANG) < 0 && errno == ECHILD)
            return;
    }
}

static int exit_status(int status)
{
    return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

static pid_t start(char **command)
{
    pid_t pid = fork();
    if (pid != 0)
        return pid;
    /* If the runner is killed, the test ends with it. */
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    setpgid(0, 0);
    execvp(command[0], command);
    fprintf(stderr, "contain: %s: %s\n", command[0], strerror(errno));
    _exit(STATUS_NO_START);
}

static int contain(const char *seconds, char **argv)
{
    pid_t command = start(argv);
    if (command < 0)
        return STATUS_NO_START;

    int status = 0;
    bool is_ended = false;
    long long until_ms = now_ms() + strtol(seconds, NULL, 10) * 1000;
    reap(command, &status, &is_ended, until_ms);
    if (!is_ended) {
        if (stop_signal == 0)
            fprintf(stderr, "contain: ended after %s s\n", seconds);
        end_all(false);
        return stop_signal != 0 ? 128 + stop_signal : STATUS_TIMEOUT;
    }
    if (reap(0, &status, &is_ended, now_ms() + GRACE_MS))
        return exit_status(status);
    end_all(true);
    return exit_status(status) != 0 ? exit_status(status) : STATUS_LEFT;
}

static double seconds_of(struct timeval time)
{
    return (double)time.tv_sec + (double)time.tv_usec / 1e6;
}

int main(int argc, char **argv)
{
    if (argc < 3) {
        fprintf(stderr, "usage: contain SECONDS COMMAND...\n");
        return STATUS_NO_START;
    }
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    signal(SIGINT, on_signal);
    signal(SIGTERM, on_signal);
    int status = contain(argv[1], argv + 2);
    struct rusage usage;
    if (getrusage(RUSAGE_CHILDREN, &usage) == 0)
        fprintf(stderr, "# cpu %.1f\n", seconds_of(usage.ru_utime) + seconds_of(usage.ru_stime));
    return status;
}
