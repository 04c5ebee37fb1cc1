/* For LD_PRELOAD: a look-up of a name that begins with "slow" takes SLOW_LOOKUP_S seconds and
 * then fails, and a name that begins with "fast" resolves to this machine. Each such look-up
 * adds a line to SLOW_LOOKUP_LOG. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef int (*getaddrinfo_fn)(const char *, const char *, const struct addrinfo *,
                              struct addrinfo **);

static void note(const char *name)
{
    const char *path = getenv("SLOW_LOOKUP_LOG");
    int fd = path ? open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600) : -1;
    if (fd < 0)
        return;
    (void)dprintf(fd, "%s\n", name);
    (void)close(fd);
}

int getaddrinfo(const char *name, const char *service, const struct addrinfo *hints,
                struct addrinfo **found)
{
    getaddrinfo_fn real = (getaddrinfo_fn)dlsym(RTLD_NEXT, "getaddrinfo");
    const char *seconds = getenv("SLOW_LOOKUP_S");
    if (name && strncmp(name, "slow", 4) == 0) {
        note(name);
        (void)sleep(seconds ? (unsigned)strtoul(seconds, NULL, 10) : 1);
        return EAI_AGAIN;
    }
    if (name && strncmp(name, "fast", 4) == 0) {
        note(name);
        name = "127.0.0.1";
    }
    return real(name, service, hints, found);
}
