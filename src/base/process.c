/*
 * process: CPU time from getrusage. getrusage reports only the peak of the resident memory; its
 * present size is in /proc. Read when metrics are rendered, so the cost of opening a file does not
 * matter.
 */
#include "base/process.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

static double seconds_of(struct timeval time)
{
    return (double)time.tv_sec + (double)time.tv_usec / 1e6;
}

/* The second number of statm is in pages. */
static uint64_t read_rss(void)
{
    char text[128];
    int fd = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return 0;
    ssize_t got = read(fd, text, sizeof(text) - 1);
    (void)close(fd);
    if (got <= 0)
        return 0;
    text[got] = 0;
    const char *space = strchr(text, ' ');
    return space ? strtoull(space + 1, NULL, 10) * (uint64_t)sysconf(_SC_PAGESIZE) : 0;
}

struct process_usage process_usage(void)
{
    struct rusage usage;
    struct process_usage result = {.rss_bytes = read_rss()};
    if (getrusage(RUSAGE_SELF, &usage) == 0)
        result.cpu_s = seconds_of(usage.ru_utime) + seconds_of(usage.ru_stime);
    return result;
}
