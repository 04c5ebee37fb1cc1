/*
 * Notifications and sockets of a service manager; see systemd.h.
 */
#include "server/systemd.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"

enum {
    FIRST_FD = 3, /* sd_listen_fds(3): SD_LISTEN_FDS_START */
    NOTIFY_BYTES_MAX = 1024,
    ADDRESS_TEXT_MAX = sizeof(((struct sockaddr_un *)NULL)->sun_path) + 16,
};

/* The state is per process, like the environment. */
static struct {
    struct sockaddr_un address;
    socklen_t address_len;
    int fd; /* 0: none */
    uint64_t watchdog_ns;
} manager;

/* Returns false if the variable is not set or is not a number. */
static bool env_number(const char *name, uint64_t max, uint64_t *value)
{
    const char *text = getenv(name);
    return text && slice_to_u64(slice_cstr(text), max, value);
}

/* ---- notifications ---- */

/* Reads a path, or '@' and an abstract name. */
static bool set_address(slice text)
{
    struct sockaddr_un *un = &manager.address;
    if (text.len < 2 || text.len >= sizeof(un->sun_path) ||
        (text.ptr[0] != '/' && text.ptr[0] != '@'))
        return false;
    *un = (struct sockaddr_un){.sun_family = AF_UNIX};
    memcpy(un->sun_path, text.ptr, text.len);
    if (text.ptr[0] == '@')
        un->sun_path[0] = 0;
    manager.address_len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + text.len);
    return true;
}

static void open_notify_socket(slice text)
{
    if (!set_address(text)) {
        log_event(LOG_WARN,
                  "NOTIFY_SOCKET is neither a path nor an abstract name; nothing is "
                  "reported to the service manager",
                  LOG_STR("socket", text));
        return;
    }
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd >= 0)
        manager.fd = fd;
    else
        log_event(LOG_WARN, "cannot open a socket to the service manager",
                  LOG_CSTR("cause", strerror(errno)));
}

void systemd_open(bool is_worker)
{
    uint64_t us = 0, pid = 0;
    const char *path = getenv("NOTIFY_SOCKET");
    if (path && !is_worker)
        open_notify_socket(slice_cstr(path));
    (void)unsetenv("NOTIFY_SOCKET");
    /* WATCHDOG_PID, if set, is the watched process: the parent. */
    bool is_other = env_number("WATCHDOG_PID", INT32_MAX, &pid) && !is_worker &&
                    pid != (uint64_t)getpid();
    if (!is_other && env_number("WATCHDOG_USEC", UINT64_MAX / 1000, &us))
        manager.watchdog_ns = us * 1000;
    (void)unsetenv("WATCHDOG_PID");
}

uint64_t systemd_watchdog_ns(void)
{
    return manager.watchdog_ns;
}

void systemd_notify(const char *format, ...)
{
    char text[NOTIFY_BYTES_MAX];
    va_list args;
    if (manager.fd == 0)
        return;
    va_start(args, format);
    int len = vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    ASSERT(len > 0 && (size_t)len < sizeof(text));
    if (sendto(manager.fd, text, (size_t)len, MSG_NOSIGNAL, (struct sockaddr *)&manager.address,
               manager.address_len) != len)
        log_event(LOG_WARN, "the service manager could not be notified",
                  LOG_CSTR("cause", strerror(errno)));
}

void systemd_notify_reloading(void)
{
    systemd_notify("RELOADING=1\nMONOTONIC_USEC=%llu\nSTATUS=reading manifests, templates and "
                   "trust roots",
                   (unsigned long long)(clock_mono_ns() / 1000));
}

/* ---- sockets ---- */

static bool has_option(int fd, int option, int wanted)
{
    int value = 0;
    socklen_t len = sizeof(value);
    return getsockopt(fd, SOL_SOCKET, option, &value, &len) == 0 && value == wanted;
}

int systemd_sockets_take(struct systemd_sockets *sockets, struct err *err)
{
    uint64_t pid = 0, count = 0;
    sockets->count = 0;
    /* LISTEN_FDS stays set: it shows workers that their listeners come from the service manager. */
    bool is_ours = env_number("LISTEN_PID", INT32_MAX, &pid) && pid == (uint64_t)getpid();
    (void)unsetenv("LISTEN_PID");
    (void)unsetenv("LISTEN_FDNAMES");
    if (!is_ours || !env_number("LISTEN_FDS", INT32_MAX, &count) || count == 0) {
        (void)unsetenv("LISTEN_FDS");
        return OK;
    }
    if (count > CONFIG_LIST_MAX)
        return err_set(err, ERR_LIMIT, "LISTEN_FDS has %llu sockets; at most %d can be used",
                       (unsigned long long)count, (int)CONFIG_LIST_MAX);
    for (int fd = FIRST_FD; fd < FIRST_FD + (int)count; fd++) {
        if (!has_option(fd, SO_ACCEPTCONN, 1) || !has_option(fd, SO_TYPE, SOCK_STREAM))
            return err_set(err, ERR_INVALID,
                           "descriptor %d of LISTEN_FDS is not a listening stream socket; the "
                           "socket unit needs ListenStream= and Accept=no",
                           fd);
        (void)fcntl(fd, F_SETFD, FD_CLOEXEC);
        sockets->fds[sockets->count++] = fd;
    }
    return OK;
}

bool systemd_has_sockets(void)
{
    return getenv("LISTEN_FDS") != NULL;
}

/* Formats the address like a listen setting. */
static void format_address(int fd, char text[ADDRESS_TEXT_MAX])
{
    union {
        struct sockaddr any;
        struct sockaddr_in v4;
        struct sockaddr_in6 v6;
        struct sockaddr_un un;
    } address = {0};
    char host[INET6_ADDRSTRLEN] = "";
    socklen_t len = sizeof(address) - 1; /* a path may fill sun_path, so its last byte is kept 0 */
    (void)getsockname(fd, &address.any, &len);
    if (address.any.sa_family == AF_INET) {
        (void)inet_ntop(AF_INET, &address.v4.sin_addr, host, sizeof(host));
        (void)snprintf(text, ADDRESS_TEXT_MAX, "%s:%u", host, ntohs(address.v4.sin_port));
    } else if (address.any.sa_family == AF_INET6) {
        (void)inet_ntop(AF_INET6, &address.v6.sin6_addr, host, sizeof(host));
        (void)snprintf(text, ADDRESS_TEXT_MAX, "[%s]:%u", host, ntohs(address.v6.sin6_port));
    } else {
        bool is_abstract = !address.un.sun_path[0];
        (void)snprintf(text, ADDRESS_TEXT_MAX, "unix:%s%s", is_abstract ? "@" : "",
                       address.un.sun_path + is_abstract);
    }
}

int systemd_sockets_use(const struct systemd_sockets *sockets, struct config *config,
                        struct err *err)
{
    char text[ADDRESS_TEXT_MAX];
    ASSERT(sockets->count <= CONFIG_LIST_MAX);
    for (size_t i = 0; i < sockets->count; i++) {
        format_address(sockets->fds[i], text);
        config->listen.items[i] = arena_dup(&config->arena, slice_cstr(text));
        if (!config->listen.items[i].ptr)
            return err_set(err, ERR_NOMEM, "out of memory for the listeners");
    }
    config->listen.count = sockets->count;
    return OK;
}
