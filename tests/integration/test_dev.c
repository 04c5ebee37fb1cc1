/*
 * `sluice dev` from its first start to its end: what it creates, keeps, prints and stops, which is
 * everything that a new user sees. It runs as root and, if we are root, also as another user.
 */
#include "unit/support/folder.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>

#include "integration/support/program.h"
#include "json/json.h"
#include "pg/sync.h"

enum { NOBODY = 65534 };

static struct folder folder;
static struct arena arena;

struct dev {
    struct program program;
    char data[TEST_PATH_MAX], ready_path[TEST_PATH_MAX];
    const struct json *ready;
};

static const char *fact(const struct dev *dev, const char *name)
{
    slice text = json_get_str(dev->ready, slice_cstr(name));
    if (!text.ptr)
        fail_msg("the ready file lacks %s", name);
    return arena_cstr(&arena, text);
}

static void begin_with(struct dev *dev, const char *program, const char *data, uid_t uid)
{
    folder_path(&folder, data, dev->data);
    snprintf(dev->ready_path, sizeof(dev->ready_path), "%.280s.ready", dev->data);
    program_start(&dev->program, program,
                  (const char *const[]){"dev", "--port", "0", "--data", dev->data, "--ready-file",
                                        dev->ready_path, NULL},
                  NULL, uid);
}

/* Starts the program and reads its ready file. */
static void start_with(struct dev *dev, const char *program, const char *data, uid_t uid)
{
    char text[4096];
    struct err err;
    begin_with(dev, program, data, uid);
    while (access(dev->ready_path, F_OK) != 0 && program_is_running(&dev->program))
        usleep(2000);
    if (!program_is_running(&dev->program)) {
        program_wait(&dev->program);
        fail_msg("sluice dev ended with %d: %s", dev->program.status, dev->program.err);
    }
    file_read(dev->ready_path, text, sizeof(text));
    dev->ready = json_parse(&arena, slice_cstr(text), &json_limits_request, &err);
    assert_non_null(dev->ready);
}

static void start(struct dev *dev, const char *data)
{
    start_with(dev, program_sluice(), data, 0);
}

static void stop(struct dev *dev, int signum, int status)
{
    kill(dev->program.pid, signum);
    program_wait(&dev->program);
    if (dev->program.status != status)
        fail_msg("sluice dev ended with %d, not %d: %s", dev->program.status, status,
                 dev->program.err);
}

/* One HTTP reply as "STATUS BODY", through curl, which every machine that runs this test must
 * have. */
static const char *call(const struct dev *dev, const char *path, const char *body)
{
    struct program curl;
    char url[300], key[120];
    snprintf(url, sizeof(url), "%s%s", fact(dev, "base_url"), path);
    snprintf(key, sizeof(key), "Authorization: Bearer %s", fact(dev, "api_key"));
    const char *const get[] = {"-s", "-w", "\n%{http_code}", "-H", key, url, NULL};
    const char *const post[] = {
        "-s", "-w", "\n%{http_code}", "-H", key, "-H", "Content-Type: application/json", "-d", body,
        url,  NULL};
    program_start(&curl, "/usr/bin/curl", body ? post : get, NULL, 0);
    program_wait(&curl);
    assert_int_equal(curl.status, 0);
    const char *text = arena_cstr(&arena, slice_cstr(curl.out));
    program_free(&curl);
    return text;
}

/* Processes whose command line names the data folder. */
static int processes_of(const struct dev *dev)
{
    int count = 0;
    DIR *proc = opendir("/proc");
    for (struct dirent *entry = readdir(proc); entry; entry = readdir(proc)) {
        char path[300], line[4096];
        snprintf(path, sizeof(path), "/proc/%.200s/cmdline", entry->d_name);
        int fd = entry->d_name[0] >= '0' && entry->d_name[0] <= '9' ? open(path, O_RDONLY) : -1;
        if (fd < 0)
            continue;
        ssize_t len = read(fd, line, sizeof(line) - 1);
        close(fd);
        count += len > 0 && memmem(line, (size_t)len, dev->data, strlen(dev->data)) != NULL;
    }
    closedir(proc);
    return count;
}

static pid_t child_of(pid_t parent, const char *name)
{
    pid_t found = 0;
    DIR *proc = opendir("/proc");
    for (struct dirent *entry = readdir(proc); entry; entry = readdir(proc)) {
        char path[300], line[400], text[64];
        int pid, ppid;
        snprintf(path, sizeof(path), "/proc/%.200s/stat", entry->d_name);
        FILE *file = entry->d_name[0] >= '0' && entry->d_name[0] <= '9' ? fopen(path, "r") : NULL;
        if (!file)
            continue;
        if (fgets(line, sizeof(line), file) &&
            sscanf(line, "%d (%63[^)]) %*c %d", &pid, text, &ppid) == 3 && ppid == parent &&
            strcmp(text, name) == 0)
            found = pid;
        fclose(file);
    }
    closedir(proc);
    return found;
}

static mode_t mode_of(const struct dev *dev, const char *name)
{
    char path[2 * TEST_PATH_MAX];
    struct stat info;
    snprintf(path, sizeof(path), "%s/%s", dev->data, name);
    assert_int_equal(stat(path, &info), 0);
    return info.st_mode & 0777;
}

/* ---- the tests ---- */

static void the_first_start_brings_up_everything(void **state)
{
    (void)state;
    struct dev dev;
    char body[400];
    start(&dev, "data");
    assert_int_equal(json_get_i64(dev.ready, SLICE("pid"), 0), dev.program.pid);
    assert_int_equal(strncmp(fact(&dev, "api_key"), "sk_", 3), 0);
    assert_int_equal(access(fact(&dev, "provider_ca_file"), R_OK), 0);
    assert_int_equal(strncmp(fact(&dev, "provider_url"), "https://127.0.0.1:", 18), 0);
    const char *reply = call(&dev, "/api/integrations", NULL);
    assert_contains(reply, "\"connection_state\":\"connected\"");
    assert_contains(reply, "\n200");
    /* the three lines that are printed for a new user */
    reply = call(&dev, "/api/executions",
                 "{\"integration_id\":\"gmail\",\"action_id\":\"search_messages\","
                 "\"input\":{\"query\":\"is:unread newer_than:7d\"}}");
    assert_contains(reply, "\"status\":\"succeeded\"");
    assert_contains(reply, "\"19a4b6c7d8e90001\"");
    slice page = json_str(json_pointer(dev.ready, SLICE("/demo/task_parent/page_id")));
    snprintf(body, sizeof(body),
             "{\"integration_id\":\"notion\",\"action_id\":\"create_page\",\"input\":{\"parent\":"
             "{\"page_id\":\"%.*s\"},\"title\":\"Minutes\"}}",
             SLICE_ARG(page));
    reply = call(&dev, "/api/executions", body);
    assert_contains(reply, "\"error_code\":\"policy_blocked\"");
    assert_contains(reply, "\n409");
    body[strlen(body) - 1] = '\0';
    strncat(body, ",\"confirm\":true}", sizeof(body) - strlen(body) - 1);
    reply = call(&dev, "/api/executions", body);
    assert_contains(reply, "\"status\":\"succeeded\"");
    program_read(&dev.program);
    assert_contains(dev.program.err, "making a private PostgreSQL ... ");
    assert_contains(dev.program.err, "starting the server ... ");
    assert_contains(dev.program.err, "ready after ");
    assert_contains(dev.program.out, fact(&dev, "api_key"));
    assert_contains(dev.program.out, "curl -s");
    static const char *const secret_files[] = {"master.key", "api_key", "lock", "ca-bundle.pem"};
    for (size_t i = 0; i < ARRAY_LEN(secret_files); i++)
        assert_int_equal(mode_of(&dev, secret_files[i]), 0600);
    stop(&dev, SIGTERM, 0);
    assert_int_equal(processes_of(&dev), 0);
    assert_int_equal(access(dev.ready_path, F_OK), -1);
    program_free(&dev.program);
}

static void the_next_start_finds_all_again(void **state)
{
    (void)state;
    struct dev dev;
    char key[64], account[64];
    start(&dev, "data");
    snprintf(key, sizeof(key), "%s", fact(&dev, "api_key"));
    snprintf(account, sizeof(account), "%s", fact(&dev, "account_id"));
    stop(&dev, SIGINT, 0);
    program_free(&dev.program);
    start(&dev, "data");
    assert_string_equal(fact(&dev, "api_key"), key);
    assert_string_equal(fact(&dev, "account_id"), account);
    program_read(&dev.program);
    assert_null(strstr(dev.program.err, "making a private PostgreSQL"));
    struct err err;
    struct pg_rows rows;
    struct pg_sync *sync = pg_sync_open(fact(&dev, "database_url"), &err);
    assert_non_null(sync);
    assert_int_equal(pg_sync_text(sync,
                                  "select (select count(*) from sluice.connection)::text || ' ' || "
                                  "(select count(*) from sluice.api_key)::text || ' ' || "
                                  "(select count(*) from sluice.account)::text",
                                  &arena, &rows, &err),
                     OK);
    assert_text(pg_get_bytes(&rows, 0, 0), "2 1 1");
    pg_sync_close(sync);
    stop(&dev, SIGTERM, 0);
    program_free(&dev.program);
}

/* A grant is marked dead, a key is revoked, and the master key is replaced: after a restart, the
 * demo works again. */
static void what_was_broken_is_mended(void **state)
{
    (void)state;
    struct dev dev;
    struct err err;
    char path[2 * TEST_PATH_MAX], key[64];
    start(&dev, "data");
    snprintf(key, sizeof(key), "%s", fact(&dev, "api_key"));
    struct pg_sync *sync = pg_sync_open(fact(&dev, "database_url"), &err);
    assert_non_null(sync);
    assert_int_equal(pg_sync_run(sync,
                                 "update sluice.connection set status = 'reauth_required', error = "
                                 "'gone' where integration_id = 'gmail'; update sluice.api_key set "
                                 "revoked_at = now()",
                                 &err),
                     OK);
    pg_sync_close(sync);
    stop(&dev, SIGTERM, 0);
    program_free(&dev.program);
    snprintf(path, sizeof(path), "%s/master.key", dev.data);
    assert_int_equal(unlink(path), 0);
    start(&dev, "data");
    assert_string_not_equal(fact(&dev, "api_key"), key);
    const char *reply = call(&dev, "/api/executions",
                             "{\"integration_id\":\"gmail\",\"action_id\":\"get_profile\","
                             "\"input\":{}}");
    assert_contains(reply, "\"status\":\"succeeded\"");
    reply = call(&dev, "/api/executions",
                 "{\"integration_id\":\"notion\",\"action_id\":\"search\",\"input\":{}}");
    assert_contains(reply, "\"status\":\"succeeded\"");
    stop(&dev, SIGTERM, 0);
    program_free(&dev.program);
}

static void a_second_one_is_refused_with_a_message(void **state)
{
    (void)state;
    struct dev dev, second;
    char want[100];
    start(&dev, "data");
    begin_with(&second, program_sluice(), "data", 0);
    program_wait(&second.program);
    assert_int_equal(second.program.status, 1);
    snprintf(want, sizeof(want), "another sluice dev (process %d) has the folder",
             (int)dev.program.pid);
    assert_contains(second.program.err, want);
    program_free(&second.program);
    assert_contains(call(&dev, "/healthz", NULL), "\n200");
    stop(&dev, SIGTERM, 0);
    program_free(&dev.program);
}

static void a_taken_port_is_reported_at_once(void **state)
{
    (void)state;
    struct dev dev;
    struct program second;
    char other[TEST_PATH_MAX];
    start(&dev, "data");
    const char *port = strrchr(fact(&dev, "base_url"), ':') + 1;
    program_start(&second, program_sluice(),
                  (const char *const[]){"dev", "--port", port, "--data",
                                        folder_path(&folder, "other", other), NULL},
                  NULL, 0);
    program_wait(&second);
    assert_int_equal(second.status, 1);
    assert_contains(second.err, "Address already in use; --port 0 takes a free one");
    program_free(&second);
    stop(&dev, SIGTERM, 0);
    program_free(&dev.program);
}

static void a_child_that_dies_ends_it(void **state)
{
    (void)state;
    static const char *const children[] = {"sluice-provider", "postgres"};
    for (size_t i = 0; i < ARRAY_LEN(children); i++) {
        struct dev dev;
        start(&dev, "data");
        pid_t child = child_of(dev.program.pid, children[i]);
        assert_true(child > 0);
        kill(child, SIGKILL);
        program_wait(&dev.program);
        assert_int_equal(dev.program.status, 1);
        assert_contains(dev.program.err, "was ended by signal 9");
        assert_contains(dev.program.err, children[i]);
        while (processes_of(&dev) > 0) /* backends notice that by themselves */
            usleep(2000);
        assert_int_equal(access(dev.ready_path, F_OK), -1);
        program_free(&dev.program);
    }
}

/* kill -9 leaves no process, and the next start works. */
static void killed_it_takes_its_children_along(void **state)
{
    (void)state;
    struct dev dev;
    start(&dev, "data");
    stop(&dev, SIGKILL, 128 + SIGKILL);
    program_free(&dev.program);
    assert_int_equal(unlink(dev.ready_path), 0);
    start(&dev, "data");
    assert_contains(call(&dev, "/readyz", NULL), "\n200");
    stop(&dev, SIGKILL, 128 + SIGKILL);
    program_free(&dev.program);
    while (processes_of(&dev) > 0)
        usleep(2000);
    (void)unlink(dev.ready_path);
}

/* A person who closes the terminal window wants the program to end. */
static void a_closed_terminal_ends_it(void **state)
{
    (void)state;
    struct dev dev;
    int master = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
    assert_true(master >= 0);
    assert_int_equal(grantpt(master) + unlockpt(master), 0);
    int slave = open(ptsname(master), O_RDWR | O_NOCTTY | O_CLOEXEC);
    assert_true(slave >= 0);
    folder_path(&folder, "data", dev.data);
    snprintf(dev.ready_path, sizeof(dev.ready_path), "%.280s.ready", dev.data);
    pid_t pid = fork();
    if (pid == 0) {
        dup2(slave, 2);
        execl(program_sluice(), program_sluice(), "dev", "--port", "0", "--data", dev.data,
              "--ready-file", dev.ready_path, (char *)NULL);
        _exit(127);
    }
    close(slave);
    while (access(dev.ready_path, F_OK) != 0 && kill(pid, 0) == 0)
        usleep(2000);
    close(master);
    int status = -1;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    assert_int_equal(processes_of(&dev), 0);
}

static void stopped_while_it_starts_it_ends_cleanly(void **state)
{
    (void)state;
    struct dev dev;
    char data[32];
    bool is_caught = false;
    for (int tries = 0; !is_caught; tries++) { /* it may be over before the check */
        (void)snprintf(data, sizeof(data), "interrupted%d", tries);
        begin_with(&dev, program_sluice(), data, 0);
        while (!is_caught && access(dev.ready_path, F_OK) != 0) {
            is_caught = child_of(dev.program.pid, "initdb") != 0;
            assert_true(program_is_running(&dev.program));
            usleep(1000);
        }
        stop(&dev, SIGINT, 0);
        if (!is_caught)
            program_free(&dev.program);
    }
    assert_int_equal(processes_of(&dev), 0);
    assert_int_equal(access(dev.ready_path, F_OK), -1);
    program_free(&dev.program);
    start(&dev, data);
    stop(&dev, SIGTERM, 0);
    program_free(&dev.program);
}

/* The programs must be where that user can run them. The build tree in root's home is not. */
static void copy(const char *from, const char *to)
{
    struct program cp;
    program_start(&cp, "/bin/cp", (const char *const[]){from, to, NULL}, NULL, 0);
    program_wait(&cp);
    assert_int_equal(cp.status, 0);
    program_free(&cp);
    assert_int_equal(chmod(to, 0755), 0);
}

static void another_user_can_run_it(void **state)
{
    (void)state;
    struct dev dev;
    struct folder own;
    char path[TEST_PATH_MAX], from[1000];
    if (geteuid() != 0)
        skip(); /* then all the tests above ran as that user */
    own = folder;
    folder_make(&folder);
    assert_int_equal(chown(folder.path, NOBODY, NOBODY), 0);
    assert_int_equal(chmod(folder.path, 0755), 0);
    copy(program_sluice(), folder_path(&folder, "sluice", path));
    snprintf(from, sizeof(from), "%.900s-provider", program_sluice());
    copy(from, folder_path(&folder, "sluice-provider", path));
    folder_path(&folder, "sluice", path);
    start_with(&dev, path, "data", NOBODY);
    assert_contains(call(&dev, "/api/executions",
                         "{\"integration_id\":\"gmail\",\"action_id\":\"get_profile\","
                         "\"input\":{}}"),
                    "\"status\":\"succeeded\"");
    stop(&dev, SIGTERM, 0);
    program_free(&dev.program);
    folder_remove(&folder);
    folder = own;
}

static int setup(void **state)
{
    (void)state;
    arena_init(&arena, 64 * 1024 * 1024);
    folder_make(&folder);
    return chmod(folder.path, 0711); /* PostgreSQL enters it as another user */
}

static int teardown(void **state)
{
    (void)state;
    arena_deinit(&arena);
    folder_remove(&folder);
    return unit_end();
}

int main(void)
{
    if (access("/usr/bin/curl", X_OK) != 0) {
        printf("1..0 # SKIP curl is not installed\n");
        return 77;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_first_start_brings_up_everything),
        cmocka_unit_test(the_next_start_finds_all_again),
        cmocka_unit_test(what_was_broken_is_mended),
        cmocka_unit_test(a_second_one_is_refused_with_a_message),
        cmocka_unit_test(a_taken_port_is_reported_at_once),
        cmocka_unit_test(a_child_that_dies_ends_it),
        cmocka_unit_test(killed_it_takes_its_children_along),
        cmocka_unit_test(a_closed_terminal_ends_it),
        cmocka_unit_test(stopped_while_it_starts_it_ends_cleanly),
        cmocka_unit_test(another_user_can_run_it),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
