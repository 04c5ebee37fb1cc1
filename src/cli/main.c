/*
 * The program's main function: prepares the process, then passes the command line and the table of
 * commands to command_main.
 */
#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/log.h"
#include "base/mem.h"
#include "cli/commands.h"
#include "loop/loop.h"

enum { FILES_MAX = 1024 * 1024 };

static const struct command *const commands[] = {
    &serve_command,       &dev_command,         &migrate_command,       &accounts_command,
    &keys_command,        &connections_command, &oauth_clients_command, &catalog_command,
    &flow_command,        &policy_command,      &webhooks_command,      &doctor_command,
    &healthcheck_command, &top_command,
};

/* If descriptor 0, 1 or 2 is closed, the next file or socket would get its number, and every
 * message to stderr would go there. */
static bool open_standard_files(void)
{
    for (int fd = 0; fd <= 2; fd++)
        if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", fd == 0 ? O_RDONLY : O_WRONLY) != fd)
            return false;
    return true;
}

/* Each connection takes a descriptor; shells set the limit to 1024 by default and allow more. */
static void raise_file_limit(void)
{
    struct rlimit files;
    if (getrlimit(RLIMIT_NOFILE, &files) != 0)
        return;
    rlim_t wanted = files.rlim_max < FILES_MAX ? files.rlim_max : FILES_MAX;
    if (files.rlim_cur >= wanted)
        return;
    files.rlim_cur = wanted;
    (void)setrlimit(RLIMIT_NOFILE, &files);
}

int main(int argc, char **argv)
{
    struct rlimit no_core = {.rlim_cur = 0, .rlim_max = 0};
    if (!open_standard_files() || argc < 1)
        return EXIT_FAILED;
    /* Writing to a closed socket then returns EPIPE; the signal would end the process. */
    (void)signal(SIGPIPE, SIG_IGN);
    /* Memory holds secrets, which must not end up in a core file. */
    (void)setrlimit(RLIMIT_CORE, &no_core);
    raise_file_limit();
    mem_tune();
    (void)umask(077); /* only the owner may access the files that it creates */
    int result = command_main(commands, sizeof(commands) / sizeof(commands[0]), argc, argv);
    /* A pool thread is still busy (for example, a name lookup hangs). exit() would wait, because
     * libuv joins its threads there; _exit does not. command_main has flushed stdout; stderr has
     * no buffer. */
    if (loop_has_abandoned()) {
        log_flush();
        _exit(result);
    }
    return result;
}
