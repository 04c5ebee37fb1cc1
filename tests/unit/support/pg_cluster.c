/*
 * The private cluster: initdb once for each program, or a copy of an earlier result. The postmaster
 * is a direct child with PDEATHSIG, so that it cannot outlive the test.
 */
#include "support/pg_cluster.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <grp.h>
#include <pwd.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/embed.h"
#include "pg/migrate.h"
#include "pg/sync.h"
#include "support/pg_activity.h"
#include "support/wait.h"

enum { DATABASES_MAX = 64, CONNINFO_MAX = 512, START_MS_MAX = 300000, PORTS_MAX = 5 };

static struct {
    bool is_known, is_foreign;
    bool is_copy; /* a cluster with a migrated database sluice */
    char dir[128];
    char bin[256];
    char conninfo[CONNINFO_MAX];
    unsigned port;
    bool listens_tcp;
    pid_t postmaster, owner;
    char databases[DATABASES_MAX][CONNINFO_MAX];
    size_t database_count;
} cluster;

_Noreturn static void die(const char *what, const char *why)
{
    fprintf(stderr, "pg_cluster: %s: %s\n", what, why);
    exit(99);
}

static void nap(void)
{
    const struct timespec ten_ms = {0, 10 * 1000 * 1000};
    nanosleep(&ten_ms, NULL);
}

/* ---- children ---- */

/* Runs in the child: becomes another user if it is root, and dies with the parent. */
static void become_child(const char *log_path)
{
    if (geteuid() == 0) {
        const struct passwd *user = getpwnam("postgres");
        if (!user || setgroups(0, NULL) || setgid(user->pw_gid) || setuid(user->pw_uid))
            _exit(98);
    }
    prctl(PR_SET_PDEATHSIG, SIGQUIT); /* after setuid, which clears it */
    if (getppid() != cluster.owner)
        _exit(97);
    setpgid(0, 0); /* Ctrl-C at the terminal is meant for the test */
    int log = open(log_path, O_WRONLY | O_CREAT | O_APPEND, 0644);
    if (log >= 0) {
        dup2(log, STDOUT_FILENO);
        dup2(log, STDERR_FILENO);
    }
    int null = open("/dev/null", O_RDONLY);
    if (null >= 0)
        dup2(null, STDIN_FILENO);
    for (int fd = 3; fd < 1024; fd++)
        close(fd);
    if (chdir("/") != 0)
        _exit(96);
    /* a sanitizer's runtime belongs to the test itself */
    unsetenv("LD_PRELOAD");
}

static pid_t spawn(char *const argv[], const char *log_name)
{
    char log_path[192];
    snprintf(log_path, sizeof(log_path), "%s/%s", cluster.dir, log_name);
    pid_t pid = fork();
    if (pid < 0)
        die("fork", strerror(errno));
    if (pid == 0) {
        become_child(log_path);
        execv(argv[0], argv);
        _exit(95);
    }
    return pid;
}

static int wait_for(pid_t pid)
{
    int status = 0;
    while (waitpid(pid, &status, 0) < 0)
        if (errno != EINTR)
            die("waitpid", strerror(errno));
    return status;
}

/* ---- making it ---- */

static void find_bin(void)
{
    const char *given = getenv("SLUICE_PG_BIN");
    if (given) {
        snprintf(cluster.bin, sizeof(cluster.bin), "%s", given);
        return;
    }
    glob_t found;
    if (glob("/usr/lib/postgresql/*/bin", 0, NULL, &found) != 0 || found.gl_pathc == 0)
        die("no PostgreSQL found", "install the package postgresql or set SLUICE_PG_BIN");
    long best = -1;
    for (size_t i = 0; i < found.gl_pathc; i++) {
        long version = strtol(found.gl_pathv[i] + strlen("/usr/lib/postgresql/"), NULL, 10);
        if (version > best)
            snprintf(cluster.bin, sizeof(cluster.bin), "%s", found.gl_pathv[i]);
        best = version > best ? version : best;
    }
    globfree(&found);
}

/* A port that is free right now. The socket file is named after it, too. */
static unsigned free_port(void)
{
    struct sockaddr_in address = {.sin_family = AF_INET};
    socklen_t len = sizeof(address);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || bind(fd, (struct sockaddr *)&address, sizeof(address)) ||
        getsockname(fd, (struct sockaddr *)&address, &len))
        die("no free port", strerror(errno));
    close(fd);
    return ntohs(address.sin_port);
}

static void remove_dir(const char *dir)
{
    pid_t pid = fork();
    if (pid == 0) {
        execl("/bin/rm", "rm", "-rf", "--", dir, (char *)NULL);
        _exit(95);
    }
    if (pid > 0)
        wait_for(pid);
}

/* Removes what killed programs left. The name of a folder contains the pid of its program. */
static void remove_stale_dirs(const char *prefix)
{
    char pattern[128];
    glob_t found;
    snprintf(pattern, sizeof(pattern), "%s*", prefix);
    if (glob(pattern, 0, NULL, &found) != 0)
        return;
    for (size_t i = 0; i < found.gl_pathc; i++) {
        long pid = strtol(found.gl_pathv[i] + strlen(prefix), NULL, 10);
        if (pid > 0 && kill((pid_t)pid, 0) != 0 && errno == ESRCH)
            remove_dir(found.gl_pathv[i]);
    }
    globfree(&found);
}

static void make_dir(void)
{
    char prefix[96]; /* its length limits the length of the socket's name */
    const char *base = getenv("TMPDIR");
    snprintf(prefix, sizeof(prefix), "%.64s/sluice-pg-", base && base[0] ? base : "/tmp");
    remove_stale_dirs(prefix);
    snprintf(cluster.dir, sizeof(cluster.dir), "%s%d-XXXXXX", prefix, (int)getpid());
    if (!mkdtemp(cluster.dir))
        die("mkdtemp", strerror(errno));
    if (geteuid() != 0)
        return;
    const struct passwd *user = getpwnam("postgres");
    if (!user || chown(cluster.dir, user->pw_uid, user->pw_gid))
        die("no user postgres to run the server as", "install the package postgresql");
}

/* Copies a data folder that tests/cluster.sh has made for the newest installed PostgreSQL. */
static bool copy_data(const char *data)
{
    char from[256];
    const char *made = getenv("SLUICE_TEST_CLUSTER");
    if (!made || !made[0] || getenv("SLUICE_PG_BIN"))
        return false;
    snprintf(from, sizeof(from), "%s/.", made);
    char *argv[] = {"/bin/cp", "-a", "--sparse=always", from, (char *)data, NULL};
    if (wait_for(spawn(argv, "initdb.log")) != 0)
        die("cannot copy", made);
    cluster.is_copy = true;
    return true;
}

static void init_data(void)
{
    char program[300], data[192];
    snprintf(program, sizeof(program), "%s/initdb", cluster.bin);
    snprintf(data, sizeof(data), "%s/data", cluster.dir);
    if (copy_data(data))
        return;
    char *argv[] = {program, "-D",   data,          "-U", "postgres", "-A", "trust",
                    "-E",    "UTF8", "--no-locale", "-N", "-n",       NULL};
    if (wait_for(spawn(argv, "initdb.log")) != 0)
        die("initdb failed", cluster.dir);
}

/* The last line of postmaster.pid says "ready" once connections are accepted. */
static bool is_ready(void)
{
    char path[192], text[1024];
    snprintf(path, sizeof(path), "%s/data/postmaster.pid", cluster.dir);
    FILE *file = fopen(path, "r");
    if (!file)
        return false;
    size_t len = fread(text, 1, sizeof(text) - 1, file);
    fclose(file);
    text[len] = '\0';
    return strstr(text, "\nready") != NULL && strtol(text, NULL, 10) == cluster.postmaster;
}

/* Starts the server and waits until it is ready. Returns false if it ended by itself. */
static bool server_start(void)
{
    char program[300], data[192], port[16], listen[64];
    snprintf(program, sizeof(program), "%s/postgres", cluster.bin);
    snprintf(data, sizeof(data), "%s/data", cluster.dir);
    snprintf(port, sizeof(port), "%u", cluster.port);
    snprintf(listen, sizeof(listen), "listen_addresses=%s", cluster.listens_tcp ? "127.0.0.1" : "");
    char *argv[] = {program,     "-D",
                    data,        "-k",
                    cluster.dir, "-p",
                    port,        "-c",
                    listen,      "-F",
                    "-c",        "max_connections=60",
                    "-c",        "shared_buffers=32MB",
                    "-c",        "log_min_messages=warning",
                    NULL};
    cluster.postmaster = spawn(argv, "server.log");
    for (int ms = 0; !is_ready(); ms += 10) {
        int status;
        if (ms > START_MS_MAX)
            die("the server does not start, see server.log in", cluster.dir);
        if (waitpid(cluster.postmaster, &status, WNOHANG) != 0) {
            cluster.postmaster = 0;
            return false;
        }
        nap();
    }
    return true;
}

void pg_cluster_restart(void)
{
    if (cluster.is_foreign || cluster.postmaster)
        die("restart", "the cluster is not ours or is running");
    if (!server_start())
        die("the server does not start, see server.log in", cluster.dir);
}

void pg_cluster_stop(enum pg_cluster_end how)
{
    if (cluster.is_foreign || !cluster.postmaster)
        die("stop", "the cluster is not ours or is not running");
    kill(cluster.postmaster, how == PG_CLUSTER_FAST ? SIGINT : SIGQUIT);
    wait_for(cluster.postmaster);
    cluster.postmaster = 0;
}

static void remove_all(void)
{
    if (getpid() != cluster.owner)
        return;
    if (cluster.postmaster)
        pg_cluster_stop(PG_CLUSTER_IMMEDIATE);
    remove_dir(cluster.dir);
}

static bool is_at_work(FILE *out)
{
    char databases[64];
    snprintf(databases, sizeof(databases), "sluice\\_test\\_%d\\_%%", (int)getpid());
    return pg_activity(cluster.conninfo, databases, cluster.postmaster, out);
}

const char *pg_cluster_start(void)
{
    if (cluster.is_known)
        return cluster.conninfo;
    cluster.is_known = true;
    wait_for_database = is_at_work;
    const char *given = getenv("SLUICE_TEST_DATABASE_URL");
    if (given && given[0]) {
        cluster.is_foreign = true;
        snprintf(cluster.conninfo, sizeof(cluster.conninfo), "%s", given);
        return cluster.conninfo;
    }
    cluster.owner = getpid();
    find_bin();
    make_dir();
    atexit(remove_all);
    init_data();
    for (int tries = 0;; tries++) { /* another process may take the port first */
        cluster.port = free_port();
        if (server_start())
            break;
        if (!cluster.listens_tcp || tries == PORTS_MAX)
            die("the server does not start, see server.log in", cluster.dir);
    }
    snprintf(cluster.conninfo, sizeof(cluster.conninfo),
             "host=%s port=%u user=postgres dbname=postgres", cluster.dir, cluster.port);
    return cluster.conninfo;
}

bool pg_cluster_is_private(void)
{
    pg_cluster_start();
    return !cluster.is_foreign;
}

const char *pg_cluster_socket_dir(void)
{
    return cluster.dir;
}

unsigned pg_cluster_port(void)
{
    return cluster.port;
}

unsigned pg_cluster_listen_tcp(void)
{
    cluster.listens_tcp = true;
    return cluster.port;
}

/* ---- databases ---- */

static void name_database(char *conninfo, const char *name)
{
    if (!cluster.is_foreign) {
        snprintf(conninfo, CONNINFO_MAX, "host=%s port=%u user=postgres dbname=%s", cluster.dir,
                 cluster.port, name);
        return;
    }
    /* in a URL, only the path changes */
    const char *host = strstr(cluster.conninfo, "://");
    if (!host)
        die("SLUICE_TEST_DATABASE_URL", "give it as postgresql://user@host:port/dbname");
    size_t head = (size_t)(host - cluster.conninfo) + 3;
    head += strcspn(cluster.conninfo + head, "/?");
    const char *query = strchr(cluster.conninfo, '?');
    snprintf(conninfo, CONNINFO_MAX, "%.*s/%s%s", (int)head, cluster.conninfo, name,
             query ? query : "");
}

const char *pg_cluster_database(bool migrated)
{
    struct err err;
    char name[64], sql[256];
    pg_cluster_start();
    if (cluster.database_count == DATABASES_MAX)
        die("too many databases", "");
    snprintf(name, sizeof(name), "sluice_test_%d_%zu", (int)getpid(), cluster.database_count);
    snprintf(sql, sizeof(sql), "create database %s encoding 'UTF8' template %s", name,
             migrated && cluster.is_copy ? "sluice" : "template0");
    struct pg_sync *sync = pg_sync_open(cluster.conninfo, &err);
    if (!sync || pg_sync_run(sync, sql, &err) != OK)
        die("create database", err.text);
    pg_sync_close(sync);
    char *conninfo = cluster.databases[cluster.database_count++];
    name_database(conninfo, name);
    if (migrated && pg_migrate(conninfo, embed_sql, embed_sql_count, NULL, NULL, &err) != OK)
        die("migrate", err.text);
    return conninfo;
}
