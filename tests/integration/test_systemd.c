/*
 * `sluice serve` under a service manager that speaks systemd's protocols: its notifications, the
 * watchdog, credentials, and sockets that the manager has opened. The real program, alone and with
 * workers.
 */
#include "unit/support/folder.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>

#include "integration/support/program.h"
#include "unit/support/pg_cluster.h"

enum { WAIT_S = 120, TEXT_MAX = 4096, HANDED_FD = 9 };

static struct folder folder;
static char key_path[TEST_PATH_MAX];
static int manager_fd; /* the manager's end of NOTIFY_SOCKET */
static struct program server;

/* ---- the manager ---- */

static void open_manager(bool is_abstract)
{
    struct sockaddr_un un = {.sun_family = AF_UNIX};
    char path[TEST_PATH_MAX];
    folder_path(&folder, is_abstract ? "abstract" : "notify", path);
    socklen_t len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + strlen(path));
    assert_true(strlen(path) < sizeof(un.sun_path));
    memcpy(un.sun_path, path, strlen(path));
    if (is_abstract)
        un.sun_path[0] = 0;
    (void)unlink(path);
    manager_fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    struct timeval limit = {.tv_sec = WAIT_S};
    assert_int_equal(setsockopt(manager_fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit)), 0);
    assert_int_equal(bind(manager_fd, (struct sockaddr *)&un, len), 0);
    if (is_abstract)
        path[0] = '@';
    setenv("NOTIFY_SOCKET", path, 1);
}

/* The next notification that has this line. Others are skipped. text: TEXT_MAX bytes. */
static void await(const char *line, char *text)
{
    for (;;) {
        ssize_t len = recv(manager_fd, text, TEXT_MAX - 1, 0);
        if (len < 0) {
            program_read(&server);
            fail_msg("no %s: %s\n%s", line, strerror(errno), server.err);
        }
        text[len] = 0;
        for (const char *at = text; (at = strstr(at, line)); at++)
            if ((at == text || at[-1] == '\n') && (at[strlen(line)] == '\n' || !at[strlen(line)]))
                return;
    }
}

static void serve(const char *workers)
{
    program_start(&server, program_sluice(),
                  (const char *const[]){"serve", "--listen", "127.0.0.1:0", "--workers", workers,
                                        "--log-format", "json", NULL},
                  NULL, 0);
}

static void stop(void)
{
    char text[TEXT_MAX];
    kill(server.pid, SIGTERM);
    await("STOPPING=1", text);
    assert_contains(text, "\nSTATUS=draining");
    program_wait(&server);
    if (server.status != 0)
        fail_msg("exit %d: %s", server.status, server.err);
    program_free(&server);
    close(manager_fd);
}

static void reloads(void)
{
    char text[TEXT_MAX];
    unsigned long long at_us = 0;
    struct timespec now;
    kill(server.pid, SIGHUP);
    await("RELOADING=1", text);
    const char *at = strstr(text, "\nMONOTONIC_USEC=");
    assert_non_null(at);
    assert_int_equal(sscanf(at, "\nMONOTONIC_USEC=%llu", &at_us), 1);
    clock_gettime(CLOCK_MONOTONIC, &now);
    assert_in_range(at_us, 1, (unsigned long long)now.tv_sec * 1000000 + 999999);
    await("READY=1", text);
    assert_contains(text, "\nSTATUS=serving on http://127.0.0.1:");
}

/* ---- notifications ---- */

static void one_process_reports(void **state)
{
    char text[TEXT_MAX];
    (void)state;
    open_manager(false);
    setenv("WATCHDOG_USEC", "60000000", 1);
    serve("0");
    await("READY=1", text);
    assert_contains(text, "\nSTATUS=serving on http://127.0.0.1:");
    await("WATCHDOG=1", text);
    await("WATCHDOG=1", text);
    reloads();
    stop();
}

static void workers_report_through_their_parent(void **state)
{
    char text[TEXT_MAX];
    (void)state;
    open_manager(true);
    setenv("WATCHDOG_USEC", "60000000", 1);
    serve("2");
    await("READY=1", text);
    await("WATCHDOG=1", text);
    reloads();
    reloads();
    stop();
}

static void the_watchdog_of_another_process_is_not_answered(void **state)
{
    char text[TEXT_MAX];
    (void)state;
    open_manager(false);
    setenv("WATCHDOG_USEC", "60000000", 1);
    setenv("WATCHDOG_PID", "1", 1);
    serve("0");
    await("READY=1", text);
    sleep(2); /* two ticks */
    kill(server.pid, SIGTERM);
    assert_true(recv(manager_fd, text, TEXT_MAX - 1, 0) > 0);
    assert_true(strncmp(text, "STOPPING=1", strlen("STOPPING=1")) == 0);
    program_wait(&server);
    program_free(&server);
    close(manager_fd);
    unsetenv("WATCHDOG_PID");
}

/* The process id of a child of the server. */
static pid_t worker_of(pid_t parent)
{
    char path[TEST_PATH_MAX], text[TEXT_MAX];
    snprintf(path, sizeof(path), "/proc/%d/task/%d/children", (int)parent, (int)parent);
    file_read(path, text, sizeof(text));
    pid_t pid = (pid_t)strtol(text, NULL, 10);
    assert_true(pid > 1);
    return pid;
}

static void a_worker_that_hangs_is_started_again(void **state)
{
    char text[TEXT_MAX];
    (void)state;
    open_manager(false);
    setenv("WATCHDOG_USEC", "5000000", 1);
    serve("2");
    await("READY=1", text);
    pid_t stopped = worker_of(server.pid);
    kill(stopped, SIGSTOP);
    /* The parent still answers. Each request gives it time to write its log, which is then
     * checked. */
    do {
        await("WATCHDOG=1", text);
        program_read(&server);
    } while (!strstr(server.err, "a worker's loop is stuck"));
    snprintf(text, sizeof(text), "\"pid\":%d", (int)stopped);
    assert_contains(strstr(server.err, "a worker's loop is stuck"), text);
    while (kill(stopped, 0) == 0)
        await("WATCHDOG=1", text);
    stop();
}

/* ---- credentials ---- */

static void assert_refuses_the_key(void)
{
    serve("0");
    program_wait(&server);
    assert_int_equal(server.status, 1);
    assert_contains(server.err, "others may read");
    program_free(&server);
}

/* systemd gives access with an ACL, whose mask is in the mode's group bits. */
static void reads_a_credential_of_the_unit(void **state)
{
    char text[TEXT_MAX];
    (void)state;
    open_manager(false);
    assert_int_equal(chmod(key_path, 0440), 0);
    assert_refuses_the_key();
    setenv("CREDENTIALS_DIRECTORY", folder.path, 1);
    serve("2");
    await("READY=1", text);
    stop();
    assert_int_equal(chmod(key_path, 0444), 0);
    assert_refuses_the_key();
    assert_int_equal(chmod(key_path, 0440), 0);
    snprintf(text, sizeof(text), "%s/other", folder.path);
    setenv("CREDENTIALS_DIRECTORY", text, 1);
    assert_refuses_the_key();
    unsetenv("CREDENTIALS_DIRECTORY");
    assert_int_equal(chmod(key_path, 0600), 0);
}

/* ---- sockets ---- */

static uint16_t listen_for_it(void)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof(address);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&address, sizeof(address)), 0);
    assert_int_equal(listen(fd, 16), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&address, &len), 0);
    assert_int_equal(dup2(fd, HANDED_FD), HANDED_FD);
    close(fd);
    return ntohs(address.sin_port);
}

/* LISTEN_PID names the process that the sockets are for. The shell becomes that process. */
static void serve_on_handed(const char *workers)
{
    static const char script[] =
        "exec 3<&9 9<&-; LISTEN_PID=$$ LISTEN_FDS=1 exec \"$0\" serve --listen=127.0.0.1:1 "
        "--log-format json --workers ";
    char line[sizeof(script) + 8];
    snprintf(line, sizeof(line), "%s%s", script, workers);
    program_start(&server, "/bin/sh", (const char *const[]){"-c", line, program_sluice(), NULL},
                  NULL, 0);
}

static void assert_answers(uint16_t port)
{
    static const char request[] = "GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
    struct sockaddr_in address = {
        .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    char text[TEXT_MAX] = "";
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&address, sizeof(address)), 0);
    assert_int_equal(write(fd, request, strlen(request)), strlen(request));
    assert_true(read(fd, text, sizeof(text) - 1) > 0);
    assert_true(strncmp(text, "HTTP/1.1 200 ", strlen("HTTP/1.1 200 ")) == 0);
    close(fd);
}

static void serves_on_a_socket_of_the_manager(void **state)
{
    char text[TEXT_MAX], url[64];
    open_manager(false);
    unsetenv("WATCHDOG_USEC");
    uint16_t port = listen_for_it();
    serve_on_handed(*state);
    await("READY=1", text);
    snprintf(url, sizeof(url), "\nSTATUS=serving on http://127.0.0.1:%u", (unsigned)port);
    assert_contains(text, url); /* the address of the handed socket, not the configured one */
    assert_answers(port);
    stop();
    /* The socket belongs to the manager, and stays open for the next start. */
    int is_listening = 0;
    socklen_t len = sizeof(is_listening);
    assert_int_equal(getsockopt(HANDED_FD, SOL_SOCKET, SO_ACCEPTCONN, &is_listening, &len), 0);
    assert_true(is_listening);
    close(HANDED_FD);
}

static void only_a_listening_socket_is_accepted(void **state)
{
    (void)state;
    int fd = open("/dev/null", O_RDWR | O_CLOEXEC);
    assert_int_equal(dup2(fd, HANDED_FD), HANDED_FD);
    close(fd);
    serve_on_handed("0");
    program_wait(&server);
    assert_int_equal(server.status, 1);
    assert_contains(server.err, "descriptor 3 of LISTEN_FDS is not a listening stream socket");
    program_free(&server);
    close(HANDED_FD);
}

static int set_up(void **state)
{
    (void)state;
    folder_make(&folder);
    folder_write(&folder, "key", "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=\n", 0600);
    setenv("SLUICE_MASTER_KEY_FILE", folder_path(&folder, "key", key_path), 1);
    setenv("SLUICE_DATABASE_URL", pg_cluster_database(true), 1);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    folder_remove(&folder);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_process_reports),
        cmocka_unit_test(workers_report_through_their_parent),
        cmocka_unit_test(the_watchdog_of_another_process_is_not_answered),
        cmocka_unit_test(a_worker_that_hangs_is_started_again),
        cmocka_unit_test(reads_a_credential_of_the_unit),
        cmocka_unit_test_prestate(serves_on_a_socket_of_the_manager, "0"),
        cmocka_unit_test_prestate(serves_on_a_socket_of_the_manager, "2"),
        cmocka_unit_test(only_a_listening_socket_is_accepted),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
