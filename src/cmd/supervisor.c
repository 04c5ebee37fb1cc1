/*
 * The parent: workers of a generation, and signals.
 */
#include "cmd/supervisor.h"

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
    SUCCESSOR_TIMEOUT_MS = 60 * 1000, /* until all its workers answer */
    RESPAWN_MS_MIN = 500,
    RESPAWN_MS_MAX = 30 * 1000,
    WORKER_TEXT_MAX = 512,
    SHARE_BYTES = WORKERS_MAX * sizeof(uint32_t),
};

#define WORKER_VARIABLE "SLUICE_WORKER"
/* Beside it, since a successor may be an older program: "fd,count" of what its generation shares */
#define SHARE_VARIABLE "SLUICE_WORKER_SHARE"

struct place {
    pid_t pid;    /* 0: none runs */
    int ready_fd; /* -1: it has told, or is gone */
    bool is_ready;
    uint64_t respawn_ns; /* when to try again; 0: not due */
    unsigned failures;   /* one after the other */
};

struct generation {
    struct place places[WORKERS_MAX];
    size_t count; /* 0: there is no such generation */
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
    void (*on_ready)(void *owner, uint16_t port);
    void *owner;
};

/* ---- workers ---- */

/* "index;ready;fd,fd" */
static void write_told(const struct supervisor *supervisor, size_t index, int ready_fd,
                       char text[WORKER_TEXT_MAX])
{
    size_t len = (size_t)snprintf(text, WORKER_TEXT_MAX, "%zu;%d;", index, ready_fd);
    for (size_t i = 0; i < supervisor->config->listen.count; i++)
        len += (size_t)snprintf(text + len, WORKER_TEXT_MAX - len, "%s%d", i ? "," : "",
                                supervisor->bound[i].fd);
}

static void tell_share(const struct generation *generation)
{
    char told[WORKER_TEXT_MAX];
    (void)unsetenv(SHARE_VARIABLE);
    if (generation->share_fd < 0 || fcntl(generation->share_fd, F_SETFD, 0) != 0)
        return;
    (void)snprintf(told, sizeof(told), "%d,%zu", generation->share_fd, generation->count);
    (void)setenv(SHARE_VARIABLE, told, 1);
}

/* In the child. */
static void run_worker(const struct supervisor *supervisor, const struct generation *generation,
                       size_t index, int ready_fd)
{
    char told[WORKER_TEXT_MAX];
    sigset_t none;
    tell_share(generation);
    write_told(supervisor, index, ready_fd, told);
    for (size_t i = 0; i < supervisor->config->listen.count; i++)
        (void)fcntl(supervisor->bound[i].fd, F_SETFD, 0);
    (void)fcntl(ready_fd, F_SETFD, 0);
    (void)sigemptyset(&none);
    (void)sigprocmask(SIG_SETMASK, &none, NULL);
    (void)prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (setenv(WORKER_VARIABLE, told, 1) == 0)
        (void)execv(supervisor->program, supervisor->argv);
    _exit(127);
}

static void start_place(struct supervisor *supervisor, struct generation *generation, size_t index)
{
    struct place *place = &generation->places[index];
    int pipe_fds[2];
    place->respawn_ns = 0;
    place->is_ready = false;
    place->ready_fd = -1;
    log_flush();
    if (pipe2(pipe_fds, O_CLOEXEC) != 0) {
        place->respawn_ns = clock_mono_ns() + RESPAWN_MS_MAX * 1000000ull;
        return;
    }
    place->pid = fork();
    if (place->pid == 0)
        run_worker(supervisor, generation, index, pipe_fds[1]);
    (void)close(pipe_fds[1]);
    if (place->pid < 0) {
        (void)close(pipe_fds[0]);
        place->pid = 0;
        place->respawn_ns = clock_mono_ns() + RESPAWN_MS_MAX * 1000000ull;
        return;
    }
    place->ready_fd = pipe_fds[0];
}

static void start_generation(struct supervisor *supervisor, struct generation *generation)
{
    *generation = (struct generation){.count = supervisor->config->workers};
    generation->share_fd = memfd_create("sluice-share", MFD_CLOEXEC);
    if (generation->share_fd >= 0 && ftruncate(generation->share_fd, SHARE_BYTES) != 0) {
        (void)close(generation->share_fd);
        generation->share_fd = -1;
    }
    generation->deadline_ns = clock_mono_ns() + SUCCESSOR_TIMEOUT_MS * 1000000ull;
    for (size_t i = 0; i < generation->count; i++)
        start_place(supervisor, generation, i);
}

static bool is_all_ready(const struct generation *generation)
{
    for (size_t i = 0; i < generation->count; i++)
        if (!generation->places[i].is_ready)
            return false;
    return generation->count > 0;
}

static void signal_all(const struct generation *generation, int signum)
{
    for (size_t i = 0; i < generation->count; i++)
        if (generation->places[i].pid > 0)
            (void)kill(generation->places[i].pid, signum);
}

/* They drain, and are only waited for. */
static void let_go(struct supervisor *supervisor, struct generation *generation)
{
    signal_all(generation, SIGTERM);
    for (size_t i = 0; i < generation->count; i++) {
        supervisor->draining += generation->places[i].pid > 0;
        if (generation->places[i].ready_fd >= 0)
            (void)close(generation->places[i].ready_fd);
    }
    if (generation->count > 0 && generation->share_fd >= 0)
        (void)close(generation->share_fd);
    generation->count = 0;
}

/* ---- what happens ---- */

static uint16_t first_port(const struct supervisor *supervisor)
{
    for (size_t i = 0; i < supervisor->config->listen.count; i++) {
        uint16_t port = tcp_port_of(supervisor->bound[i].fd);
        if (port > 0)
            return port;
    }
    return 0;
}

static void begin_stop(struct supervisor *supervisor, const char *why)
{
    if (supervisor->is_stopping)
        return;
    supervisor->is_stopping = true;
    log_event(LOG_INFO, "draining all workers", LOG_CSTR("because", why));
    let_go(supervisor, &supervisor->current);
    let_go(supervisor, &supervisor->successor);
}

static void give_up_successor(struct supervisor *supervisor, const char *why)
{
    log_event(LOG_ERROR, "the successor did not come up; the old workers stay",
              LOG_CSTR("because", why));
    let_go(supervisor, &supervisor->successor);
}

static void on_worker_ready(struct supervisor *supervisor)
{
    if (!supervisor->was_ready && is_all_ready(&supervisor->current)) {
        supervisor->was_ready = true;
        supervisor->on_ready(supervisor->owner, first_port(supervisor));
    }
    if (!is_all_ready(&supervisor->successor))
        return;
    log_event(LOG_INFO, "the successor is ready; the old workers drain",
              LOG_INT("workers", supervisor->successor.count));
    let_go(supervisor, &supervisor->current);
    supervisor->current = supervisor->successor;
    supervisor->successor.count = 0;
}

static struct place *find_place(struct generation *generation, pid_t pid)
{
    for (size_t i = 0; i < generation->count; i++)
        if (generation->places[i].pid == pid)
            return &generation->places[i];
    return NULL;
}

static void log_end(const char *what, pid_t pid, int status)
{
    log_event(LOG_ERROR, what, LOG_INT("pid", pid),
              LOG_INT("exit", WIFEXITED(status) ? WEXITSTATUS(status) : -1),
              LOG_INT("signal", WIFSIGNALED(status) ? WTERMSIG(status) : 0));
}

/* A worker that was never ready, before any was: the configuration is wrong, and trying again
 * would hide it. */
static void on_lost(struct supervisor *supervisor, struct place *place, int status)
{
    log_end("a worker has ended", place->pid, status);
    place->pid = 0;
    if (place->ready_fd >= 0)
        (void)close(place->ready_fd);
    place->ready_fd = -1;
    if (!supervisor->was_ready) {
        supervisor->has_failed = true;
        begin_stop(supervisor, "a worker could not start");
        return;
    }
    if (place->is_ready)
        place->failures = 0;
    unsigned wait_ms = RESPAWN_MS_MIN << (place->failures < 6 ? place->failures : 6);
    place->failures++;
    place->is_ready = false;
    place->respawn_ns =
        clock_mono_ns() + (wait_ms < RESPAWN_MS_MAX ? wait_ms : RESPAWN_MS_MAX) * 1000000ull;
}

static void reap(struct supervisor *supervisor)
{
    int status = 0;
    for (pid_t pid; (pid = waitpid(-1, &status, WNOHANG)) > 0;) {
        struct place *place = find_place(&supervisor->current, pid);
        if (place) {
            on_lost(supervisor, place, status);
            continue;
        }
        place = find_place(&supervisor->successor, pid);
        if (place) {
            log_end("a worker of the successor has ended", pid, status);
            place->pid = 0;
            give_up_successor(supervisor, "a worker has ended");
            continue;
        }
        if (supervisor->draining > 0)
            supervisor->draining--;
        /* one that has just been started dies of the SIGTERM that it does not know yet */
        bool is_well = WIFSIGNALED(status) ? WTERMSIG(status) == SIGTERM : WEXITSTATUS(status) == 0;
        if (!is_well) {
            log_end("a worker ended badly", pid, status);
            supervisor->has_failed |= supervisor->is_stopping;
        }
    }
}

static void on_usr2(struct supervisor *supervisor)
{
    if (supervisor->is_stopping || supervisor->successor.count > 0 || !supervisor->was_ready)
        return;
    log_event(LOG_INFO, "handing over to a successor", LOG_CSTR("program", supervisor->program));
    start_generation(supervisor, &supervisor->successor);
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
            signal_all(&supervisor->current, SIGHUP);
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
        const struct place *place = &supervisor->current.places[i];
        if (place->respawn_ns > 0 && now_ns >= place->respawn_ns)
            start_place(supervisor, &supervisor->current, i);
    }
    if (supervisor->successor.count > 0 && now_ns > supervisor->successor.deadline_ns)
        give_up_successor(supervisor, "it took too long");
}

/* A byte: it answers. The end without one: it is about to be reaped. */
static void read_ready(struct place *place)
{
    char byte = 0;
    if (read(place->ready_fd, &byte, 1) == 1)
        place->is_ready = true;
    (void)close(place->ready_fd);
    place->ready_fd = -1;
}

static size_t add_polls(struct generation *generation, struct pollfd *polls, struct place **places,
                        size_t count)
{
    for (size_t i = 0; i < generation->count; i++) {
        if (generation->places[i].ready_fd < 0)
            continue;
        polls[count] = (struct pollfd){.fd = generation->places[i].ready_fd, .events = POLLIN};
        places[count++] = &generation->places[i];
    }
    return count;
}

static void wait_once(struct supervisor *supervisor)
{
    enum { TURN_MS = 200, POLLS_MAX = 2 * WORKERS_MAX + 1 };
    struct pollfd polls[POLLS_MAX];
    struct place *places[POLLS_MAX];
    size_t count = 1;
    polls[0] = (struct pollfd){.fd = supervisor->signal_fd, .events = POLLIN};
    count = add_polls(&supervisor->current, polls, places, count);
    count = add_polls(&supervisor->successor, polls, places, count);
    bool is_quiet = count == 1 && supervisor->successor.count == 0;
    for (size_t i = 0; i < supervisor->current.count; i++)
        is_quiet &= supervisor->current.places[i].respawn_ns == 0;
    int ready = poll(polls, count, is_quiet ? -1 : TURN_MS);
    for (size_t i = 1; ready > 0 && i < count; i++)
        if (polls[i].revents)
            read_ready(places[i]);
    on_worker_ready(supervisor);
    if (ready > 0 && polls[0].revents)
        take_signals(supervisor);
    respawn_due(supervisor, clock_mono_ns());
    log_flush();
}

/* ---- a run ---- */

/* The path, so that a successor is what lies there then; /proc/self/exe would follow the old
 * file. */
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
    if (sigprocmask(SIG_BLOCK, &set, NULL) != 0)
        return err_set(err, ERR_IO, "cannot block signals: %s", strerror(errno));
    supervisor->signal_fd = signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC);
    return supervisor->signal_fd >= 0
               ? OK
               : err_set(err, ERR_IO, "cannot watch signals: %s", strerror(errno));
}

static int bind_all(struct supervisor *supervisor, struct err *err)
{
    const struct config_list *listen = &supervisor->config->listen;
    for (size_t i = 0; i < listen->count; i++) {
        struct tcp_listen_config config = {.address = listen->items[i]};
        int status = tcp_bind(&config, &supervisor->bound[i], err);
        if (status != OK)
            return status;
        log_event(LOG_INFO, "listening", LOG_STR("address", listen->items[i]),
                  LOG_INT("port", tcp_port_of(supervisor->bound[i].fd)),
                  LOG_INT("workers", supervisor->config->workers));
    }
    return OK;
}

int supervisor_run(const struct config *config, char *const *argv,
                   void (*on_ready)(void *owner, uint16_t port), void *owner, struct err *err)
{
    struct supervisor supervisor = {
        .config = config, .argv = argv, .on_ready = on_ready, .owner = owner, .signal_fd = -1};
    for (size_t i = 0; i < CONFIG_LIST_MAX; i++)
        supervisor.bound[i].fd = -1;
    int status = find_program(&supervisor, err);
    if (status == OK)
        status = open_signals(&supervisor, err);
    if (status == OK)
        status = bind_all(&supervisor, err);
    if (status == OK) {
        start_generation(&supervisor, &supervisor.current);
        while (!supervisor.is_stopping || supervisor.draining > 0)
            wait_once(&supervisor);
        if (supervisor.has_failed)
            status = err_set(err, ERR_IO, "a worker ended badly; its reason is in the log above");
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

/* A worker that was started anew has none of what its predecessor had. */
static void read_share(struct worker *worker)
{
    const char *told = getenv(SHARE_VARIABLE);
    slice rest = told ? slice_cstr(told) : SLICE_NONE;
    int fd = -1, count = 0;
    if (!told || !take_number(&rest, ',', &fd) || !take_number(&rest, ',', &count) ||
        count > WORKERS_MAX || worker->index >= (unsigned)count)
        return;
    void *memory = mmap(NULL, SHARE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    (void)close(fd);
    (void)unsetenv(SHARE_VARIABLE);
    if (memory == MAP_FAILED)
        return;
    worker->share = (struct tcp_share){memory, (size_t)count, worker->index};
    atomic_store(&worker->share.connections[worker->index], 0);
}

bool worker_read(struct worker *worker, const struct config *config)
{
    char text[WORKER_TEXT_MAX];
    const char *told = getenv(WORKER_VARIABLE);
    int index = 0;
    *worker = (struct worker){.ready_fd = -1};
    if (!told || strlen(told) >= sizeof(text))
        return false;
    memcpy(text, told, strlen(told) + 1);
    (void)unsetenv(WORKER_VARIABLE);
    slice rest = slice_cstr(text);
    if (!take_number(&rest, ';', &index) || !take_number(&rest, ';', &worker->ready_fd))
        return false;
    worker->index = (unsigned)index;
    (void)fcntl(worker->ready_fd, F_SETFD, FD_CLOEXEC);
    while (rest.ptr && worker->listen_count < CONFIG_LIST_MAX &&
           take_number(&rest, ',', &worker->listen_fds[worker->listen_count]))
        worker->listen_count++;
    /* a successor that is told to listen elsewhere */
    if (worker->listen_count != config->listen.count)
        worker->listen_count = 0;
    read_share(worker);
    return true;
}

void worker_ready(struct worker *worker)
{
    if (worker->ready_fd < 0)
        return;
    (void)!write(worker->ready_fd, "1", 1);
    (void)close(worker->ready_fd);
    worker->ready_fd = -1;
}
