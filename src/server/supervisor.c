/*
 * The parent process of `serve --workers`; see supervisor.h. Workers that were started together are
 * a generation: the current generation serves, a successor is being started, former generations
 * drain. One loop of poll() makes all state changes: signals arrive through a signalfd, reports of
 * workers through pipes.
 */
#include "server/supervisor.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "loop/tcp.h"

enum {
    SUCCESSOR_TIMEOUT_MS = 60 * 1000, /* time limit for a successor's workers to become ready */
    RESPAWN_MS_MIN = 500,
    RESPAWN_MS_MAX = 30 * 1000,
    WORKER_TEXT_MAX = 512,
    SHARE_BYTES = WORKERS_MAX * sizeof(uint32_t),
};

#define WORKER_VARIABLE "SLUICE_WORKER"
/* A separate variable, since a successor may be an older program: its value is "fd,count" for the
 * memory that the generation shares */
#define SHARE_VARIABLE "SLUICE_WORKER_SHARE"

struct slot {
    pid_t pid;     /* 0: not running */
    int report_fd; /* -1: the worker has ended, or its version reports only once */
    bool is_ready;
    bool is_reloading;   /* SIGHUP was forwarded, and the worker has not reported since */
    uint64_t heard_ns;   /* time of its last report */
    uint64_t respawn_ns; /* when the worker will be restarted; 0 if no restart is planned */
    unsigned failures;   /* failures in a row */
};

struct generation {
    struct slot slots[WORKERS_MAX];
    size_t count; /* 0: the generation does not exist */
    int share_fd; /* memory for a struct tcp_share of its workers; -1: none */
    uint64_t deadline_ns;
};

struct supervisor {
    const struct config *config;
    char *const *argv;
    char program[PATH_MAX];
    struct tcp_bound bound[CONFIG_LIST_MAX];
    struct generation current, successor;
    size_t draining; /* workers of former generations */
    int signal_fd;
    bool is_stopping, was_ready, has_failed;
    bool is_reloading;
    void (*on_state)(void *owner, enum server_state state, uint16_t port);
    void *owner;
};

/* ---- workers ---- */

/* "index;ready;fd,fd" */
static void format_worker(const struct supervisor *supervisor, size_t index, int report_fd,
                          char text[WORKER_TEXT_MAX])
{
    size_t len = (size_t)snprintf(text, WORKER_TEXT_MAX, "%zu;%d;", index, report_fd);
    for (size_t i = 0; i < supervisor->config->listen.count; i++)
        len += (size_t)snprintf(text + len, WORKER_TEXT_MAX - len, "%s%d", i ? "," : "",
                                supervisor->bound[i].fd);
}

static void export_share(const struct generation *generation)
{
    char value[WORKER_TEXT_MAX];
    (void)unsetenv(SHARE_VARIABLE);
    /* The descriptor must survive the exec. */
    if (generation->share_fd < 0 || fcntl(generation->share_fd, F_SETFD, 0) != 0)
        return;
    (void)snprintf(value, sizeof(value), "%d,%zu", generation->share_fd, generation->count);
    (void)setenv(SHARE_VARIABLE, value, 1);
}

/* Runs in the child, between fork and exec. */
static void run_worker(const struct supervisor *supervisor, const struct generation *generation,
                       size_t index, int report_fd)
{
    char value[WORKER_TEXT_MAX];
    sigset_t none;
    export_share(generation);
    format_worker(supervisor, index, report_fd, value);
    for (size_t i = 0; i < supervisor->config->listen.count; i++)
        (void)fcntl(supervisor->bound[i].fd, F_SETFD, 0);
    (void)fcntl(report_fd, F_SETFD, 0);
    (void)sigemptyset(&none);
    (void)sigprocmask(SIG_SETMASK, &none, NULL);
    /* Without a parent, a worker would keep the sockets open forever. */
    (void)prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (setenv(WORKER_VARIABLE, value, 1) == 0)
        (void)execv(supervisor->program, supervisor->argv);
    _exit(127);
}

static void start_slot(struct supervisor *supervisor, struct generation *generation, size_t index)
{
    struct slot *slot = &generation->slots[index];
    int pipe_fds[2];
    slot->respawn_ns = 0;
    slot->is_ready = slot->is_reloading = false;
    slot->report_fd = -1;
    /* The log is flushed, since otherwise both processes would write a buffered line. */
    log_flush();
    /* The start is retried later: a lack of descriptors is often temporary. */
    if (pipe2(pipe_fds, O_CLOEXEC) != 0) {
        slot->respawn_ns = clock_mono_ns() + RESPAWN_MS_MAX * 1000000ull;
        return;
    }
    slot->pid = fork();
    if (slot->pid == 0)
        run_worker(supervisor, generation, index, pipe_fds[1]);
    /* Only the child keeps the writing end, so its exit is an end of file here. */
    (void)close(pipe_fds[1]);
    if (slot->pid < 0) {
        (void)close(pipe_fds[0]);
        slot->pid = 0;
        slot->respawn_ns = clock_mono_ns() + RESPAWN_MS_MAX * 1000000ull;
        return;
    }
    slot->report_fd = pipe_fds[0];
}

static void start_generation(struct supervisor *supervisor, struct generation *generation)
{
    *generation = (struct generation){.count = supervisor->config->workers};
    /* Without the shared memory each worker accepts every connection it can, and the load is
     * distributed less evenly. */
    generation->share_fd = memfd_create("sluice-share", MFD_CLOEXEC);
    if (generation->share_fd >= 0 && ftruncate(generation->share_fd, SHARE_BYTES) != 0) {
        (void)close(generation->share_fd);
        generation->share_fd = -1;
    }
    generation->deadline_ns = clock_mono_ns() + SUCCESSOR_TIMEOUT_MS * 1000000ull;
    for (size_t i = 0; i < generation->count; i++)
        start_slot(supervisor, generation, i);
}

static bool is_all_ready(const struct generation *generation)
{
    for (size_t i = 0; i < generation->count; i++)
        if (!generation->slots[i].is_ready)
            return false;
    return generation->count > 0;
}

static void signal_all(const struct generation *generation, int signum)
{
    for (size_t i = 0; i < generation->count; i++)
        if (generation->slots[i].pid > 0)
            (void)kill(generation->slots[i].pid, signum);
}

/* Ends a generation: its workers drain, and are reaped when they exit; none is restarted. */
static void end_generation(struct supervisor *supervisor, struct generation *generation)
{
    signal_all(generation, SIGTERM);
    for (size_t i = 0; i < generation->count; i++) {
        supervisor->draining += generation->slots[i].pid > 0;
        if (generation->slots[i].report_fd >= 0)
            (void)close(generation->slots[i].report_fd);
    }
    if (generation->count > 0 && generation->share_fd >= 0)
        (void)close(generation->share_fd);
    generation->count = 0;
}

/* ---- events ---- */

static uint16_t first_port(const struct supervisor *supervisor)
{
    for (size_t i = 0; i < supervisor->config->listen.count; i++) {
        uint16_t port = tcp_port_of(supervisor->bound[i].fd);
        if (port > 0)
            return port;
    }
    return 0;
}

static void report_state(const struct supervisor *supervisor, enum server_state state)
{
    supervisor->on_state(supervisor->owner, state, first_port(supervisor));
}

/* A second signal changes nothing, since the workers are already draining. */
static void begin_stop(struct supervisor *supervisor, const char *why)
{
    if (supervisor->is_stopping)
        return;
    supervisor->is_stopping = true;
    report_state(supervisor, SERVER_DRAINING);
    log_event(LOG_INFO, "draining all workers", LOG_CSTR("because", why));
    end_generation(supervisor, &supervisor->current);
    end_generation(supervisor, &supervisor->successor);
}

static void give_up_successor(struct supervisor *supervisor, const char *why)
{
    log_event(LOG_ERROR, "the successor did not become ready; the old workers stay",
              LOG_CSTR("because", why));
    end_generation(supervisor, &supervisor->successor);
}

static void on_worker_ready(struct supervisor *supervisor)
{
    /* Reported once in the life of the parent, not again for a successor. */
    if (!supervisor->was_ready && is_all_ready(&supervisor->current)) {
        supervisor->was_ready = true;
        report_state(supervisor, SERVER_READY);
    }
    if (!is_all_ready(&supervisor->successor))
        return;
    log_event(LOG_INFO, "the successor is ready; the old workers drain",
              LOG_INT("workers", supervisor->successor.count));
    /* The successor already accepts connections, so none is refused in between. */
    end_generation(supervisor, &supervisor->current);
    supervisor->current = supervisor->successor;
    supervisor->successor.count = 0;
}

static struct slot *find_slot(struct generation *generation, pid_t pid)
{
    for (size_t i = 0; i < generation->count; i++)
        if (generation->slots[i].pid == pid)
            return &generation->slots[i];
    return NULL;
}

static void log_end(const char *what, pid_t pid, int status)
{
    log_event(LOG_ERROR, what, LOG_INT("pid", pid),
              LOG_INT("exit", WIFEXITED(status) ? WEXITSTATUS(status) : -1),
              LOG_INT("signal", WIFSIGNALED(status) ? WTERMSIG(status) : 0));
}

/* If a worker ends before any worker was ready, the configuration is wrong, and a restart would
 * hide that. */
static void on_lost(struct supervisor *supervisor, struct slot *slot, int status)
{
    log_end("a worker has ended", slot->pid, status);
    slot->pid = 0;
    if (slot->report_fd >= 0)
        (void)close(slot->report_fd);
    slot->report_fd = -1;
    if (!supervisor->was_ready) {
        supervisor->has_failed = true;
        begin_stop(supervisor, "a worker could not start");
        return;
    }
    /* If the worker was ready, a new series of failures begins. */
    if (slot->is_ready)
        slot->failures = 0;
    unsigned wait_ms = (unsigned)RESPAWN_MS_MIN << (slot->failures < 6 ? slot->failures : 6);
    slot->failures++;
    slot->is_ready = slot->is_reloading = false;
    slot->respawn_ns =
        clock_mono_ns() + (wait_ms < RESPAWN_MS_MAX ? wait_ms : RESPAWN_MS_MAX) * 1000000ull;
}

static void reap(struct supervisor *supervisor)
{
    int status = 0;
    /* One SIGCHLD may represent several children. */
    for (pid_t pid; (pid = waitpid(-1, &status, WNOHANG)) > 0;) {
        struct slot *slot = find_slot(&supervisor->current, pid);
        if (slot) {
            on_lost(supervisor, slot, status);
            continue;
        }
        slot = find_slot(&supervisor->successor, pid);
        if (slot) {
            log_end("a worker of the successor has ended", pid, status);
            slot->pid = 0;
            give_up_successor(supervisor, "a worker has ended");
            continue;
        }
        if (supervisor->draining > 0)
            supervisor->draining--;
        /* a worker that has just been started may die of SIGTERM before it has installed a
         * handler */
        bool is_well = WIFSIGNALED(status) ? WTERMSIG(status) == SIGTERM : WEXITSTATUS(status) == 0;
        if (!is_well) {
            log_end("a worker failed", pid, status);
            supervisor->has_failed |= supervisor->is_stopping;
        }
    }
}

static void on_usr2(struct supervisor *supervisor)
{
    /* Only one hand-over runs at a time, and only once the current workers are ready. */
    if (supervisor->is_stopping || supervisor->successor.count > 0 || !supervisor->was_ready)
        return;
    log_event(LOG_INFO, "handing over to a successor", LOG_CSTR("program", supervisor->program));
    start_generation(supervisor, &supervisor->successor);
}

/* Asks the workers to reload; the parent itself has loaded no files. */
static void begin_reload(struct supervisor *supervisor)
{
    supervisor->is_reloading = true;
    report_state(supervisor, SERVER_RELOADING);
    signal_all(&supervisor->current, SIGHUP);
    for (size_t i = 0; i < supervisor->current.count; i++) {
        struct slot *slot = &supervisor->current.slots[i];
        slot->is_reloading = slot->is_ready && slot->report_fd >= 0;
    }
}

/* Reports the reload once all workers have reloaded, ended or been replaced: workers that start now
 * read the new files. */
static void end_reload(struct supervisor *supervisor)
{
    for (size_t i = 0; i < supervisor->current.count; i++)
        if (supervisor->current.slots[i].is_reloading)
            return;
    if (supervisor->is_reloading && !supervisor->is_stopping)
        report_state(supervisor, SERVER_RELOADED);
    supervisor->is_reloading = false;
}

/* A worker whose loop hangs does not answer, but its sockets still get connections. It is killed
 * with SIGKILL, since it cannot drain. */
static void kill_standing(const struct generation *generation, uint64_t now_ns)
{
    uint64_t watchdog_ns = systemd_watchdog_ns();
    for (size_t i = 0; watchdog_ns > 0 && i < generation->count; i++) {
        const struct slot *slot = &generation->slots[i];
        if (!slot->is_ready || slot->report_fd < 0 || now_ns < slot->heard_ns + watchdog_ns)
            continue;
        log_event(LOG_ERROR, "a worker's loop is stuck; the worker is killed",
                  LOG_INT("pid", slot->pid), LOG_MS("for_ms", now_ns - slot->heard_ns));
        (void)kill(slot->pid, SIGKILL);
    }
}

static void take_signals(struct supervisor *supervisor)
{
    struct signalfd_siginfo info;
    while (read(supervisor->signal_fd, &info, sizeof(info)) == (ssize_t)sizeof(info)) {
        switch (info.ssi_signo) {
        case SIGTERM:
        case SIGINT:
            begin_stop(supervisor, info.ssi_signo == SIGTERM ? "SIGTERM" : "SIGINT");
            break;
        case SIGHUP:
            begin_reload(supervisor);
            break;
        case SIGUSR2:
            on_usr2(supervisor);
            break;
        default:
            reap(supervisor);
        }
    }
}

static void respawn_due(struct supervisor *supervisor, uint64_t now_ns)
{
    for (size_t i = 0; i < supervisor->current.count; i++) {
        const struct slot *slot = &supervisor->current.slots[i];
        if (slot->respawn_ns > 0 && now_ns >= slot->respawn_ns)
            start_slot(supervisor, &supervisor->current, i);
    }
    if (supervisor->successor.count > 0 && now_ns > supervisor->successor.deadline_ns)
        give_up_successor(supervisor, "it took too long");
}

/* End of file: the worker has ended and will be reaped, or its version reports only once. */
static void read_reports(struct slot *slot, uint64_t now_ns)
{
    char bytes[64];
    ssize_t len = read(slot->report_fd, bytes, sizeof(bytes));
    if (len <= 0) {
        (void)close(slot->report_fd);
        slot->report_fd = -1;
        slot->is_reloading = false;
        return;
    }
    slot->heard_ns = now_ns;
    slot->is_ready |= memchr(bytes, WORKER_READY, (size_t)len) != NULL;
    if (memchr(bytes, WORKER_RELOADED, (size_t)len))
        slot->is_reloading = false;
}

static size_t add_polls(struct generation *generation, struct pollfd *polls, struct slot **slots,
                        size_t count)
{
    for (size_t i = 0; i < generation->count; i++) {
        if (generation->slots[i].report_fd < 0)
            continue;
        polls[count] = (struct pollfd){.fd = generation->slots[i].report_fd, .events = POLLIN};
        slots[count++] = &generation->slots[i];
    }
    return count;
}

static void wait_once(struct supervisor *supervisor)
{
    enum { TURN_MS = 200, WATCH_MS = 1000, POLLS_MAX = 2 * WORKERS_MAX + 1 };
    struct pollfd polls[POLLS_MAX];
    struct slot *slots[POLLS_MAX];
    size_t count = 1;
    polls[0] = (struct pollfd){.fd = supervisor->signal_fd, .events = POLLIN};
    count = add_polls(&supervisor->current, polls, slots, count);
    count = add_polls(&supervisor->successor, polls, slots, count);
    /* The wait has no timeout, since only a signal or a report can happen. */
    bool is_quiet = supervisor->successor.count == 0;
    for (size_t i = 0; i < supervisor->current.count; i++)
        is_quiet &= supervisor->current.slots[i].respawn_ns == 0;
    int quiet_ms = systemd_watchdog_ns() > 0 ? WATCH_MS : -1;
    int ready = poll(polls, count, is_quiet ? quiet_ms : TURN_MS);
    uint64_t now_ns = clock_mono_ns();
    for (size_t i = 1; ready > 0 && i < count; i++)
        if (polls[i].revents)
            read_reports(slots[i], now_ns);
    /* Reports are read before signals: a worker may report and end in the same turn. */
    on_worker_ready(supervisor);
    if (ready > 0 && polls[0].revents)
        take_signals(supervisor);
    end_reload(supervisor);
    kill_standing(&supervisor->current, now_ns);
    respawn_due(supervisor, now_ns);
    if (systemd_watchdog_ns() > 0)
        systemd_notify("WATCHDOG=1");
    log_flush();
}

/* ---- a run ---- */

/* The path is used instead of /proc/self/exe, which would stay with the old file: a successor
 * runs the program that is installed there by then. */
static int find_program(struct supervisor *supervisor, struct err *err)
{
    if (strchr(supervisor->argv[0], '/') && realpath(supervisor->argv[0], supervisor->program))
        return OK;
    ssize_t len = readlink("/proc/self/exe", supervisor->program, sizeof(supervisor->program) - 1);
    if (len <= 0)
        return err_set(err, ERR_IO, "cannot find this program: %s", strerror(errno));
    supervisor->program[len] = 0;
    return OK;
}

static int open_signals(struct supervisor *supervisor, struct err *err)
{
    static const int signals[] = {SIGTERM, SIGINT, SIGHUP, SIGUSR2, SIGCHLD};
    sigset_t set;
    (void)sigemptyset(&set);
    for (size_t i = 0; i < ARRAY_LEN(signals); i++)
        (void)sigaddset(&set, signals[i]);
    /* The signals are blocked before the first fork; run_worker unblocks them in the child. */
    if (sigprocmask(SIG_BLOCK, &set, NULL) != 0)
        return err_set(err, ERR_IO, "cannot block signals: %s", strerror(errno));
    supervisor->signal_fd = signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC);
    return supervisor->signal_fd >= 0
               ? OK
               : err_set(err, ERR_IO, "cannot watch signals: %s", strerror(errno));
}

static int bind_all(struct supervisor *supervisor, const struct systemd_sockets *sockets,
                    struct err *err)
{
    const struct config_list *listen = &supervisor->config->listen;
    for (size_t i = 0; i < listen->count; i++) {
        struct tcp_listen_config config = {.address = listen->items[i]};
        int status = OK;
        if (sockets->count > 0)
            supervisor->bound[i].fd = sockets->fds[i];
        else
            status = tcp_bind(&config, &supervisor->bound[i], err);
        if (status != OK)
            return status;
        log_event(LOG_INFO, "listening", LOG_STR("address", listen->items[i]),
                  LOG_INT("port", tcp_port_of(supervisor->bound[i].fd)),
                  LOG_INT("workers", supervisor->config->workers));
    }
    return OK;
}

int supervisor_run(const struct config *config, char *const *argv,
                   const struct systemd_sockets *sockets,
                   void (*on_state)(void *owner, enum server_state state, uint16_t port),
                   void *owner, struct err *err)
{
    struct supervisor supervisor = {
        .config = config, .argv = argv, .on_state = on_state, .owner = owner, .signal_fd = -1};
    for (size_t i = 0; i < CONFIG_LIST_MAX; i++)
        supervisor.bound[i].fd = -1;
    /* Sockets are bound only once, so that no generation finds its port in use. */
    int status = find_program(&supervisor, err);
    if (status == OK)
        status = open_signals(&supervisor, err);
    if (status == OK)
        status = bind_all(&supervisor, sockets, err);
    if (status == OK) {
        start_generation(&supervisor, &supervisor.current);
        while (!supervisor.is_stopping || supervisor.draining > 0)
            wait_once(&supervisor);
        if (supervisor.has_failed)
            status = err_set(err, ERR_IO, "a worker failed; see the log above");
    }
    for (size_t i = 0; i < CONFIG_LIST_MAX; i++)
        tcp_unbind(&supervisor.bound[i]);
    if (supervisor.signal_fd >= 0)
        (void)close(supervisor.signal_fd);
    return status;
}

/* ---- in a worker ---- */

static bool take_number(slice *rest, char end, int *number)
{
    uint64_t value = 0;
    bool is_number = slice_to_u64(slice_split(rest, end), INT32_MAX, &value);
    *number = (int)value;
    return is_number;
}

/* A worker that was restarted has no connections yet, so its counter is reset. */
static void read_share(struct worker *worker)
{
    const char *value = getenv(SHARE_VARIABLE);
    slice rest = value ? slice_cstr(value) : SLICE_NONE;
    int fd = -1, count = 0;
    if (!value || !take_number(&rest, ',', &fd) || !take_number(&rest, ',', &count) ||
        count > WORKERS_MAX || worker->index >= (unsigned)count)
        return;
    /* Without the shared counters the worker accepts every connection it can. */
    void *memory = mmap(NULL, SHARE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    (void)close(fd);
    (void)unsetenv(SHARE_VARIABLE);
    if (memory == MAP_FAILED)
        return;
    worker->share = (struct tcp_share){memory, (size_t)count, worker->index};
    atomic_store(&worker->share.connections[worker->index], 0);
}

bool worker_read(struct worker *worker)
{
    char text[WORKER_TEXT_MAX];
    const char *value = getenv(WORKER_VARIABLE);
    int index = 0;
    *worker = (struct worker){.report_fd = -1};
    if (!value || strlen(value) >= sizeof(text))
        return false;
    memcpy(text, value, strlen(value) + 1);
    (void)unsetenv(WORKER_VARIABLE);
    slice rest = slice_cstr(text);
    if (!take_number(&rest, ';', &index) || !take_number(&rest, ';', &worker->report_fd))
        return false;
    worker->index = (unsigned)index;
    (void)fcntl(worker->report_fd, F_SETFD, FD_CLOEXEC);
    (void)fcntl(worker->report_fd, F_SETFL, O_NONBLOCK); /* the parent may be stopped */
    struct systemd_sockets *sockets = &worker->sockets;
    while (rest.ptr && sockets->count < CONFIG_LIST_MAX &&
           take_number(&rest, ',', &sockets->fds[sockets->count]))
        sockets->count++;
    read_share(worker);
    return true;
}

void worker_report(struct worker *worker, enum worker_report what)
{
    char byte = (char)what;
    if (worker->report_fd < 0 || write(worker->report_fd, &byte, 1) == 1 || errno == EAGAIN)
        return;
    /* A parent of the previous version closes the pipe after the first report. */
    (void)close(worker->report_fd);
    worker->report_fd = -1;
}
