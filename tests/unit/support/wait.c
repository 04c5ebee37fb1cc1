/*
 * See wait.h. It polls libuv's own descriptor, so that no timer or handle of its own changes what a
 * test counts.
 */
#include "support/wait.h"

#include <ctype.h>
#include <dirent.h>
#include <fcntl.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "loop/internal.h"
#include "loop/op.h"

enum {
    ROUND_MS = 20,
    QUIET_ROUNDS = 50,
    CHECK_ROUNDS = 5, /* the time between two checks of work outside of the loop */
    CHECKS = 3,
    TIMER_MS_MAX = 5000,
    NOTE_MS = 3000,
    LAST_MS = 300000,
    OPS_MAX = 6,
};

bool (*wait_for_database)(FILE *out);

void wait_begin(struct wait *wait, struct loop *loop, const char *what, const char *file, int line)
{
    *wait = (struct wait){.loop = loop, .what = what, .file = file, .line = line};
    wait->began_ns = clock_mono_ns();
}

/* ---- what may still happen ---- */

static bool has_timer_soon(const struct loop *loop)
{
    return loop->spilled ||
           (loop->slot_count &&
            loop->slots[0].armed_ns < clock_mono_ns() + TIMER_MS_MAX * UINT64_C(1000000));
}

/* Whether a connection is being made, or the peer's kernel has not acknowledged all bytes: a lost
 * segment is sent again after a second or more. */
static bool is_sending(int fd)
{
    struct tcp_info info;
    socklen_t len = sizeof(info);
    if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &len) != 0)
        return false;
    return info.tcpi_state == TCP_SYN_SENT || info.tcpi_state == TCP_SYN_RECV ||
           info.tcpi_unacked > 0;
}

static bool has_bytes_under_way(void)
{
    bool found = false;
    DIR *dir = opendir("/proc/self/fd");
    for (struct dirent *entry; dir && !found && (entry = readdir(dir));)
        found = isdigit((unsigned char)entry->d_name[0]) &&
                is_sending((int)strtol(entry->d_name, NULL, 10));
    if (dir)
        closedir(dir);
    return found;
}

/* A child that is not PostgreSQL may do anything at any time, and so may an unidentified child. */
static bool has_other_children(void)
{
    char path[64], name[64];
    long pid;
    FILE *children = fopen("/proc/thread-self/children", "r");
    bool found = !children;
    while (children && !found && fscanf(children, "%ld", &pid) == 1) {
        snprintf(path, sizeof(path), "/proc/%ld/comm", pid);
        FILE *comm = fopen(path, "r");
        found = comm && fscanf(comm, "%63s", name) == 1 && strcmp(name, "postgres") != 0;
        if (comm)
            fclose(comm);
    }
    if (children)
        fclose(children);
    return found;
}

/* Returns the reason why the wait may still end, or NULL if nothing can end it. */
static const char *may_still_end(const struct wait *wait)
{
    const struct loop *loop = wait->loop;
    if (has_timer_soon(loop))
        return "a timer is due soon";
    if (loop->work_count)
        return "work is on a thread";
    if (has_bytes_under_way())
        return "bytes are under way on a TCP connection";
    if (has_other_children())
        return "a child process runs";
    if (wait_for_database && wait_for_database(NULL))
        return "PostgreSQL is at work";
    return NULL;
}

/* ---- what is printed ---- */

static void print_ops(struct loop *loop)
{
    size_t count = 0;
    LIST_EACH(&loop->ops, struct op, op, all_link) {
        if (++count > OPS_MAX)
            continue;
        fprintf(stderr, "  op %s, next step %s, waits for %s (%u holds)%s%s\n", op->class->name,
                op_step_name(op), op->holds && op->waits_for ? op->waits_for : "nothing",
                (unsigned)op->holds, op->is_cancelled ? ", cancelled" : "",
                op->is_ended ? ", ended" : "");
    }
    if (count > OPS_MAX)
        fprintf(stderr, "  and %zu ops more\n", count - OPS_MAX);
    if (count == 0)
        fprintf(stderr, "  no op is alive\n");
}

static void print_timers(const struct loop *loop)
{
    uint64_t now_ns = clock_mono_ns();
    if (loop->slot_count && loop->slots[0].armed_ns > now_ns)
        fprintf(stderr, "  %zu timers, the first due in %" PRIu64 " ms\n", loop->slot_count,
                (loop->slots[0].armed_ns - now_ns) / 1000000);
}

static void print_wait(const struct wait *wait, const char *why)
{
    fprintf(stderr, "%s:%d: waits for %s: %s\n", wait->file, wait->line, wait->what, why);
    print_ops(wait->loop);
    print_timers(wait->loop);
    if (wait_for_database)
        (void)wait_for_database(stderr);
    fflush(stderr);
}

/* Finds the calling test, if the build has a sanitizer that can report it. */
extern void __sanitizer_print_stack_trace(void) __attribute__((weak));

_Noreturn static void end_in_vain(const struct wait *wait, const char *why)
{
    log_flush();
    if (__sanitizer_print_stack_trace)
        __sanitizer_print_stack_trace();
    print_wait(wait, why);
    abort();
}

/* ---- a round ---- */

/* Called when nothing has happened for a while: ends the program if nothing can end the wait. */
static void check(struct wait *wait)
{
    uint64_t waited_ms = (clock_mono_ns() - wait->began_ns) / 1000000;
    const char *why = may_still_end(wait);
    if (why && waited_ms > LAST_MS)
        end_in_vain(wait, why);
    if (why)
        wait->quiet = 0;
    else if (wait->quiet >= QUIET_ROUNDS + CHECKS * CHECK_ROUNDS)
        end_in_vain(wait, "nothing can happen any more");
    if (why && waited_ms > NOTE_MS && !wait->is_noted) {
        wait->is_noted = true;
        print_wait(wait, why);
    }
}

void wait_turn(struct wait *wait)
{
    struct loop *loop = wait->loop;
    uint64_t turns = loop->stats.turns;
    (void)loop_turn(loop, false); /* runs deferred work that needs no I/O, such as freeing */
    if (loop->stats.turns != turns) {
        wait->quiet = 0;
        if (clock_mono_ns() - wait->began_ns > LAST_MS * UINT64_C(1000000))
            end_in_vain(wait, "five minutes have passed");
        return;
    }
    /* libuv does not block for a loop without handles. */
    int timeout_ms = uv_loop_alive(&loop->uv) ? uv_backend_timeout(&loop->uv) : -1;
    struct pollfd ready = {.fd = uv_backend_fd(&loop->uv), .events = POLLIN};
    (void)poll(&ready, 1, timeout_ms < 0 || timeout_ms > ROUND_MS ? ROUND_MS : timeout_ms);
    if (timeout_ms >= 0 && timeout_ms < ROUND_MS)
        return;
    if (++wait->quiet >= QUIET_ROUNDS && wait->quiet % CHECK_ROUNDS == 0)
        check(wait);
}
