/* loop/dir_watch: written, renamed and removed files, a folder that is removed and created
 * again, a link that is changed to another folder, and a kernel that refuses to watch. */
#include "testing.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/log.h"
#include "loop/dir_watch.h"

enum { LOOK_MS = 20 };

struct probe {
    struct dir_watch watch;
    size_t told;
    char root[64], dir[96];
};

static struct probe probe;

static void on_change(struct dir_watch *watch)
{
    CONTAINER_OF(watch, struct probe, watch)->told++;
}

static const char *at(const char *name)
{
    static char paths[4][160];
    static size_t next;
    char *path = paths[next++ % 4];
    (void)snprintf(path, sizeof(paths[0]), "%s/%s", probe.root, name);
    return path;
}

static void put(const char *path, const char *text)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, strlen(text)), strlen(text));
    assert_int_equal(close(fd), 0);
}

/* poll_ms 0: there is no poll while a test runs. */
static void begin(struct loop *loop, uint32_t poll_ms)
{
    probe = (struct probe){.watch = {.on_change = on_change, .poll_ms = poll_ms}};
    (void)snprintf(probe.root, sizeof(probe.root), "/tmp/sluice-dir-watch-XXXXXX");
    assert_non_null(mkdtemp(probe.root));
    (void)snprintf(probe.dir, sizeof(probe.dir), "%s/catalog", probe.root);
    assert_int_equal(mkdir(probe.dir, 0700), 0);
    dir_watch_start(loop, &probe.watch, probe.dir);
}

static void end(void)
{
    char command[96];
    dir_watch_stop(&probe.watch);
    dir_watch_stop(&probe.watch); /* harmless */
    (void)snprintf(command, sizeof(command), "rm -rf %s", probe.root);
    assert_int_equal(system(command), 0);
}

/* Waits until earlier changes are reported. Later changes are reported separately. */
static void wait_until_told(struct loop *loop)
{
    WAIT_UNTIL(loop, probe.told > 0 && !probe.watch.changed_ns);
    probe.told = 0;
}

static void files_written_renamed_and_removed_are_reported(void **state)
{
    struct loop *loop = *state;
    begin(loop, 0);
    put(at("catalog/a.json"), "1");
    wait_until_told(loop);
    put(at("catalog/a.json"), "22");
    wait_until_told(loop);
    put(at("draft"), "333"); /* written outside of the folder and moved in, as editors or
                              * deployments do */
    assert_int_equal(rename(at("draft"), at("catalog/a.json")), 0);
    wait_until_told(loop);
    assert_int_equal(unlink(at("catalog/a.json")), 0);
    wait_until_told(loop);
    end();
}

static void a_burst_is_reported_once(void **state)
{
    struct loop *loop = *state;
    begin(loop, 0);
    uint64_t from_ns = clock_mono_ns();
    for (int i = 0; i < 200; i++) {
        put(at("catalog/a.json"), "1");
        (void)loop_turn(loop, false);
    }
    uint64_t took_ns = clock_mono_ns() - from_ns;
    WAIT_UNTIL(loop, probe.told > 0);
    if (took_ns < DIR_WATCH_SETTLE_MS * 1000000ULL) /* otherwise the machine was too slow for a
                                                     * burst */
        assert_int_equal(probe.told, 1);
    end();
}

static void a_folder_that_keeps_changing_is_reported_in_time(void **state)
{
    struct loop *loop = *state;
    begin(loop, 0);
    while (probe.told == 0) { /* never quiet */
        put(at("catalog/a.json"), "1");
        (void)loop_turn(loop, false);
    }
    end();
}

static void a_folder_may_go_and_come_back(void **state)
{
    struct loop *loop = *state;
    begin(loop, LOOK_MS);
    put(at("catalog/a.json"), "1");
    wait_until_told(loop);
    assert_int_equal(rename(probe.dir, at("old")), 0);
    WAIT_UNTIL(loop, probe.told > 0 && !probe.watch.handle && !probe.watch.is_there);
    size_t told = probe.told;
    assert_int_equal(mkdir(probe.dir, 0700), 0);
    WAIT_UNTIL(loop, probe.told > told && probe.watch.handle);
    told = probe.told;
    put(at("catalog/b.json"), "1");
    WAIT_UNTIL(loop, probe.told > told);
    end();
}

static void a_folder_may_come_later(void **state)
{
    struct loop *loop = *state;
    begin(loop, LOOK_MS);
    dir_watch_stop(&probe.watch);
    assert_int_equal(rmdir(probe.dir), 0);
    dir_watch_start(loop, &probe.watch, probe.dir);
    assert_null(probe.watch.handle);
    assert_int_equal(mkdir(probe.dir, 0700), 0);
    WAIT_UNTIL(loop, probe.told > 0);
    end();
}

static void a_link_may_lead_elsewhere(void **state)
{
    struct loop *loop = *state;
    begin(loop, LOOK_MS);
    assert_int_equal(mkdir(at("next"), 0700), 0);
    assert_int_equal(symlink(probe.dir, at("current")), 0);
    dir_watch_stop(&probe.watch);
    char path[96];
    (void)snprintf(path, sizeof(path), "%s/current", probe.root);
    dir_watch_start(loop, &probe.watch, path);
    assert_int_equal(symlink(at("next"), at("swap")), 0);
    assert_int_equal(rename(at("swap"), path), 0);
    WAIT_UNTIL(loop, probe.told > 0);
    size_t told = probe.told;
    put(at("next/a.json"), "1");
    WAIT_UNTIL(loop, probe.told > told);
    end();
}

/* No descriptor is left for inotify: polling reports the changes, and the watch begins once it
 * can. */
static void where_the_kernel_refuses_it_looks(void **state)
{
    struct loop *loop = *state;
    struct rlimit limit, none;
    begin(loop, LOOK_MS);
    dir_watch_stop(&probe.watch);
    loop_free(loop); /* its inotify descriptor is open already */
    struct err err;
    *state = loop = loop_new(&err);
    assert_non_null(loop);
    log_set_fd(open("/dev/null", O_WRONLY | O_CLOEXEC)); /* the warning */
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
    none = limit;
    int lowest = dup(0);
    assert_true(lowest >= 0);
    assert_int_equal(close(lowest), 0);
    none.rlim_cur = (rlim_t)lowest;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
    dir_watch_start(loop, &probe.watch, probe.dir);
    assert_null(probe.watch.handle);
    assert_true(probe.watch.is_warned);
    struct stat before, now;
    assert_int_equal(stat(probe.dir, &before), 0);
    do { /* needs no descriptor; file times may not change for milliseconds */
        (void)rmdir(at("catalog/a"));
        assert_int_equal(mkdir(at("catalog/a"), 0700), 0);
        assert_int_equal(stat(probe.dir, &now), 0);
    } while (now.st_mtim.tv_sec == before.st_mtim.tv_sec &&
             now.st_mtim.tv_nsec == before.st_mtim.tv_nsec);
    WAIT_UNTIL(loop, probe.told > 0);
    assert_null(probe.watch.handle);
    size_t told = probe.told;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
    WAIT_UNTIL(loop, probe.watch.handle && probe.told > told);
    told = probe.told;
    put(at("catalog/a.json"), "1");
    WAIT_UNTIL(loop, probe.told > told);
    end();
}

static void stopping_during_a_look_is_safe(void **state)
{
    struct loop *loop = *state;
    begin(loop, 1);
    WAIT_UNTIL(loop, probe.watch.polling);
    end(); /* end_loop waits for its thread */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(files_written_renamed_and_removed_are_reported),
        TEST(a_burst_is_reported_once),
        TEST(a_folder_that_keeps_changing_is_reported_in_time),
        TEST(a_folder_may_go_and_come_back),
        TEST(a_folder_may_come_later),
        TEST(a_link_may_lead_elsewhere),
        TEST(where_the_kernel_refuses_it_looks),
        TEST(stopping_during_a_look_is_safe),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
