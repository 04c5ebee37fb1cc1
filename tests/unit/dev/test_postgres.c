/*
 * The private PostgreSQL of dev: a real one is created, started, found again, and stopped. A server
 * that an earlier run left is ended.
 */
#include "support/folder.h"

#include <signal.h>
#include <sys/wait.h>

#include "dev/postgres.h"
#include "pg/sync.h"

static struct folder folder;
static struct dev_folder data;

static bool has_postgres(void)
{
    return access("/usr/lib/postgresql", F_OK) == 0 || access("/usr/bin/initdb", F_OK) == 0;
}

/* Makes a folder that the user that PostgreSQL runs as can enter. */
static void make_base(void)
{
    folder_make(&folder);
    assert_int_equal(chmod(folder.path, 0711), 0);
    data = (struct dev_folder){.lock_fd = -1};
    snprintf(data.path, sizeof(data.path), "%s", folder.path);
}

/* Removes the folder with its contents. */
static int rmdir_data(const struct dev_folder *gone)
{
    return nftw(gone->path, folder_remove_entry, 16, FTW_DEPTH | FTW_PHYS);
}

/* Creates a folder inside the test's folder, and uses it as the data folder. */
static void make_data(const char *name, mode_t mode)
{
    char path[TEST_PATH_MAX];
    assert_int_equal(mkdir(folder_path(&folder, name, path), mode), 0);
    snprintf(data.path, sizeof(data.path), "%s", path);
}

static void start(struct dev_postgres *pg)
{
    struct err err = {.text = ""};
    if (dev_postgres_start(pg, &data, NULL, &err) != OK || dev_postgres_wait(pg, &err) != OK)
        fail_msg("%s", err.text);
}

static void run_sql(const struct dev_postgres *pg, const char *sql)
{
    struct err err = {.text = ""};
    struct pg_sync *sync = pg_sync_open(pg->url, &err);
    if (!sync || pg_sync_run(sync, sql, &err) != OK)
        fail_msg("%s: %s", sql, err.text);
    pg_sync_close(sync);
}

static void it_is_made_once_and_found_again(void **state)
{
    (void)state;
    struct dev_postgres pg;
    char path[TEST_PATH_MAX];
    if (!has_postgres())
        skip();
    make_base();
    /* left by an initdb that was killed */
    assert_int_equal(mkdir(folder_path(&folder, "postgres.part", path), 0700), 0);
    folder_write(&folder, "postgres.part/PG_VERSION", "15\n", 0600);
    start(&pg);
    assert_true(pg.is_new);
    assert_int_equal(access(path, F_OK), -1);
    assert_string_equal(pg.home, folder.path);
    run_sql(&pg, "create table kept (n int)");
    pid_t pid = pg.child.pid;
    dev_postgres_stop(&pg);
    assert_int_equal(kill(pid, 0), -1);
    start(&pg);
    assert_false(pg.is_new);
    run_sql(&pg, "insert into kept values (1)");
    dev_postgres_stop(&pg);
    folder_remove(&folder);
}

/* The server's parent has ended without stopping it, since the test's child has no
 * PR_SET_PDEATHSIG. */
static void an_orphan_is_stopped(void **state)
{
    (void)state;
    struct dev_postgres pg;
    struct err err;
    char program[2 * DEV_PATH_MAX];
    if (!has_postgres())
        skip();
    make_base();
    start(&pg);
    dev_postgres_stop(&pg);
    (void)snprintf(program, sizeof(program), "%s/postgres", pg.bin);
    const char *const argv[] = {program,    "-D", pg.cluster,          "-k",
                                pg.sockets, "-c", "listen_addresses=", NULL};
    struct child_spec spec = {.name = "orphan",
                              .argv = argv,
                              .log_path = pg.log,
                              .uid = pg.uid,
                              .gid = pg.gid,
                              .death_signal = SIGWINCH};
    struct child orphan;
    assert_int_equal(child_start(&orphan, &spec, &err), OK);
    /* waits until its postmaster.pid is complete */
    while (dev_postgres_find_postmaster(pg.cluster) != orphan.pid)
        assert_true(child_is_running(&orphan, pg.log, &err));
    start(&pg);
    assert_int_not_equal(pg.child.pid, orphan.pid);
    assert_false(child_is_running(&orphan, pg.log, &err));
    run_sql(&pg, "select 1");
    dev_postgres_stop(&pg);
    folder_remove(&folder);
}

/* The pid file of a crashed server, whose number now belongs to another process (this one). */
static void a_recycled_pid_is_not_an_orphan(void **state)
{
    (void)state;
    struct dev_postgres pg;
    char text[DEV_PATH_MAX + 100], path[TEST_PATH_MAX];
    if (!has_postgres())
        skip();
    make_base();
    start(&pg);
    dev_postgres_stop(&pg);
    snprintf(text, sizeof(text), "%d\n%s\n", (int)getppid(), pg.cluster);
    folder_write(&folder, "postgres/postmaster.pid", text, 0600);
    if (pg.uid != 0)
        assert_int_equal(
            chown(folder_path(&folder, "postgres/postmaster.pid", path), pg.uid, pg.gid), 0);
    /* PostgreSQL has its own rules for such a file. Ours is that no process is killed, and that
     * PostgreSQL's message is passed on */
    struct err err = {.text = ""};
    assert_int_equal(dev_postgres_start(&pg, &data, NULL, &err), OK);
    if (dev_postgres_wait(&pg, &err) != OK)
        assert_contains(err.text, "postmaster.pid");
    dev_postgres_stop(&pg);
    assert_int_equal(kill(getppid(), 0), 0);
    folder_remove(&folder);
}

static void a_cluster_of_a_missing_version_is_reported(void **state)
{
    (void)state;
    struct dev_postgres pg;
    struct err err;
    char path[TEST_PATH_MAX];
    if (access("/usr/lib/postgresql", F_OK) != 0)
        skip();
    make_base();
    assert_int_equal(mkdir(folder_path(&folder, "postgres", path), 0700), 0);
    folder_write(&folder, "postgres/PG_VERSION", "9\n", 0600);
    assert_int_equal(dev_postgres_start(&pg, &data, NULL, &err), ERR_NOTFOUND);
    assert_contains(err.text, "was made by PostgreSQL 9, which is no longer installed");
    folder_remove(&folder);
}

static void a_server_that_dies_at_start_tells_why(void **state)
{
    (void)state;
    struct dev_postgres pg;
    struct err err;
    char path[TEST_PATH_MAX];
    if (!has_postgres())
        skip();
    make_base();
    start(&pg);
    dev_postgres_stop(&pg);
    folder_write(&folder, "postgres/postgresql.conf", "no_such_parameter = 1\n", 0644);
    (void)chown(folder_path(&folder, "postgres/postgresql.conf", path), pg.uid, pg.gid);
    assert_int_equal(dev_postgres_start(&pg, &data, NULL, &err), OK);
    assert_int_equal(dev_postgres_wait(&pg, &err), ERR_IO);
    assert_contains(err.text, "postgres.log");
    assert_int_equal(pg.child.pid, 0);
    folder_remove(&folder);
}

/* The sockets are in /tmp if their path would be too long, or if unix_socket_directories would
 * misread it. */
static void odd_paths_work(void **state)
{
    (void)state;
    struct dev_postgres pg;
    char name[160] = "it's, a \\ long one ";
    if (!has_postgres())
        skip();
    make_base();
    memset(name + strlen(name), 'x', 100);
    make_data(name, 0711);
    start(&pg);
    assert_int_equal(strncmp(pg.sockets, "/tmp/sluice-", 12), 0);
    run_sql(&pg, "select 1");
    dev_postgres_stop(&pg);
    assert_int_equal(access(pg.sockets, F_OK), -1);
    folder_remove(&folder);
}

/* As root, PostgreSQL runs as another user, which cannot enter a closed folder. A person who
 * removes the data folder does not know of the cluster, so the next start removes it. */
static void below_a_closed_folder_the_cluster_is_elsewhere(void **state)
{
    (void)state;
    struct dev_postgres pg;
    struct folder home, other;
    struct dev_folder first;
    if (!has_postgres() || geteuid() != 0)
        skip();
    make_base();
    assert_int_equal(chmod(folder.path, 0700), 0);
    make_data("data", 0711);
    data.is_new = true;
    first = data;
    start(&pg);
    assert_int_equal(strncmp(pg.home, "/var/tmp/sluice-", 16), 0);
    snprintf(home.path, sizeof(home.path), "%.200s", pg.home);
    run_sql(&pg, "create table kept (n int)");
    dev_postgres_stop(&pg);
    data.is_new = false;
    start(&pg);
    run_sql(&pg, "select n from kept");
    dev_postgres_stop(&pg);
    /* created again: new data */
    data.is_new = true;
    start(&pg);
    assert_true(pg.is_new);
    dev_postgres_stop(&pg);
    /* removed: the next start with another data folder deletes the cluster */
    assert_int_equal(rmdir_data(&first), 0);
    make_data("other", 0711);
    start(&pg);
    assert_int_equal(access(home.path, F_OK), -1);
    dev_postgres_stop(&pg);
    snprintf(other.path, sizeof(other.path), "%.200s", pg.home);
    folder_remove(&other);
    folder_remove(&folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        UNIT_TEST(it_is_made_once_and_found_again),
        UNIT_TEST(an_orphan_is_stopped),
        UNIT_TEST(a_recycled_pid_is_not_an_orphan),
        UNIT_TEST(a_cluster_of_a_missing_version_is_reported),
        UNIT_TEST(a_server_that_dies_at_start_tells_why),
        UNIT_TEST(odd_paths_work),
        UNIT_TEST(below_a_closed_folder_the_cluster_is_elsewhere),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
