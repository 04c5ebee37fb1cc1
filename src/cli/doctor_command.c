/*
 * sluice doctor: finds problems that `serve` would have with these settings, before it runs. It
 * changes nothing, and may run while a server runs.
 */
#include <errno.h>
#include <limits.h>
#include <stdarg.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/timex.h>
#include <unistd.h>

#include "catalog/catalog.h"
#include "cli/commands.h"
#include "cli/doctor.h"
#include "vault/seal.h"

enum { OTHER_FILES = 500 };

static const char *const marks[DOCTOR_MARKS] = {"ok", "warn", "FAIL"};

void doctor_say(struct doctor *doctor, enum doctor_mark mark, const char *what, const char *todo,
                const char *found, ...)
{
    struct arena *arena = &doctor->session->arena;
    va_list args;
    va_start(args, found);
    slice text = arena_vprintf(arena, found, args);
    va_end(args);
    doctor->counts[mark]++;
    ASSERT(mark == DOCTOR_OK || todo);
    if (doctor->is_json) {
        struct json_writer *w = &doctor->json.w;
        json_open(w, '{');
        json_member_str(w, "check", slice_cstr(what));
        json_member_str(w, "result", slice_cstr(mark == DOCTOR_FAIL ? "fail" : marks[mark]));
        json_member_str(w, "found", text);
        json_member_str(w, "do", todo ? slice_cstr(todo) : SLICE_NONE);
        json_close(w, '}');
        return;
    }
    (void)printf("%-5s %-12s ", marks[mark], what);
    output_text(stdout, text);
    (void)fputc('\n', stdout);
    if (todo)
        (void)printf("%-18s %s\n", "", todo);
    (void)fflush(stdout); /* the next check may take seconds */
}

/* ---- checks without database and network ---- */

static bool is_loopback(slice url)
{
    slice host = slice_from(url, slice_starts_with(url, SLICE("https://")) ? 8 : 7);
    return slice_starts_with(host, SLICE("127.")) || slice_starts_with(host, SLICE("localhost")) ||
           slice_starts_with(host, SLICE("[::1]"));
}

static void check_public_url(struct doctor *doctor)
{
    slice url = doctor->session->config->public_url;
    if (url.len == 0)
        doctor_say(
            doctor, DOCTOR_WARN, "public-url",
            "Set public-url to the address of the proxy, for example https://sluice.example.com.",
            "is not set, so OAuth redirects and connect links name the first listener");
    else if (slice_starts_with(url, SLICE("http://")) && !is_loopback(url))
        doctor_say(doctor, DOCTOR_WARN, "public-url",
                   "Terminate TLS at the proxy, and set public-url to its https address.",
                   "%.*s: API keys and cookies cross the network unencrypted", SLICE_ARG(url));
    else
        doctor_say(doctor, DOCTOR_OK, "public-url", NULL, "%.*s", SLICE_ARG(url));
}

/* main.c has raised the limit as far as it can: to the hard limit, or to the program's own
 * maximum. */
static void check_files(struct doctor *doctor)
{
    const struct config *config = doctor->session->config;
    unsigned long long wanted =
        config->connections_max + config->outbound_connections_max + OTHER_FILES;
    struct rlimit files;
    if (getrlimit(RLIMIT_NOFILE, &files) != 0)
        return;
    bool is_enough = files.rlim_cur >= wanted;
    doctor_say(doctor, is_enough ? DOCTOR_OK : DOCTOR_WARN, "descriptors",
               is_enough ? NULL : "Raise the limit (ulimit -n, LimitNOFILE), or lower connections.",
               "%llu may be open, but connections and outbound-connections need %llu",
               (unsigned long long)files.rlim_cur, wanted);
}

static void check_clock(struct doctor *doctor)
{
    struct timex state = {.modes = 0};
    bool is_set = ntp_adjtime(&state) != TIME_ERROR;
    doctor_say(doctor, is_set ? DOCTOR_OK : DOCTOR_WARN, "clock",
               is_set ? NULL : "Run a time daemon (systemd-timesyncd, chrony).",
               is_set ? "the kernel reports that it is synchronised"
                      : "nothing keeps this machine's clock right: tokens and keys would expire "
                        "at a wrong time");
}

/* Checks a file with secrets, if one is configured. open: mode bits that must not be set. */
static bool is_closed_file(struct doctor *doctor, slice path, mode_t open)
{
    struct stat state;
    char todo[PATH_MAX + 40];
    if (path.len == 0)
        return true;
    if (access(path.ptr, R_OK) != 0 || stat(path.ptr, &state) != 0) {
        bool is_refused = errno == EACCES;
        doctor_say(doctor, DOCTOR_FAIL, "key file",
                   is_refused ? "Run this as the server's user (runuser -u sluice -- sluice "
                                "doctor), or make that user the file's owner."
                              : "Put the file there, or name the right one.",
                   "%s: %s", path.ptr, strerror(errno));
        return false;
    }
    if (state.st_mode & open) {
        (void)snprintf(todo, sizeof(todo), "Run chmod %s %s.",
                       open & S_IRGRP ? "600" : "o=", path.ptr);
        doctor_say(doctor, DOCTOR_FAIL, "key file", todo, "others may read %s: its mode is %04o",
                   path.ptr, (unsigned)state.st_mode & 07777U);
        return false;
    }
    doctor_say(doctor, DOCTOR_OK, "key file", NULL, "others may not read %s (%04o)", path.ptr,
               (unsigned)state.st_mode & 07777U);
    return true;
}

/* Checks the master key, and the modes of the two files with secrets. The mode of the settings file
 * was checked when it was read (config/read.c). */
static void check_master_key(struct doctor *doctor)
{
    struct session *session = doctor->session;
    const struct config *config = session->config;
    bool is_closed = is_closed_file(doctor, config->master_key_file, S_IRWXG | S_IRWXO);
    if (session_open_ring(session) == OK)
        doctor_say(doctor, DOCTOR_OK, "master-key", NULL,
                   "new credentials are sealed with key %.*s",
                   SLICE_ARG(vault_ring_key_id(session->ring)));
    else
        doctor_say(
            doctor, DOCTOR_FAIL, "master-key",
            !is_closed ? "Correct its file first: without the key nothing stored can be opened."
            : session->err.code == ERR_NOTFOUND
                ? "Set master-key-file. If nothing is stored yet, `sluice keys master` makes a key."
                : "Restore the key from your copy: without it nothing stored can be opened.",
            "%s", session->err.text);
    (void)is_closed_file(doctor, config->trace_headers_file, S_IRWXO);
}

static void check_catalog(struct doctor *doctor)
{
    struct session *session = doctor->session;
    if (session_open_catalog(session) != OK)
        doctor_say(doctor, DOCTOR_FAIL, "catalog", "`sluice catalog lint DIR` shows all faults.",
                   "%s", session->err.text);
    else
        doctor_say(doctor, DOCTOR_OK, "catalog", NULL, "%zu apps with %zu actions",
                   session->catalog->integration_count, session->catalog->action_count);
}

/* ---- the command ---- */

/* Problems are in the report; the exit code is then that of a failure. */
static int print_end(struct doctor *doctor)
{
    struct session *session = doctor->session;
    size_t failed = doctor->counts[DOCTOR_FAIL], warned = doctor->counts[DOCTOR_WARN];
    if (doctor->is_json) {
        int result = output_json_end(&doctor->json, '[', &session->err);
        if (result != OK)
            return result;
    } else {
        (void)printf("%zu checks passed, %zu warned, %zu failed\n", doctor->counts[DOCTOR_OK],
                     warned, failed);
    }
    return failed == 0 ? OK
                       : err_set(&session->err, ERR_REFUSED, "%zu check%s failed", failed,
                                 failed == 1 ? "" : "s");
}

static int run_doctor(struct session *session, struct command_call *call)
{
    struct doctor doctor = {
        .session = session,
        .is_json = command_has(call, "json"),
        .is_offline = command_has(call, "offline"),
        .apps = call->argv,
        .app_count = (size_t)call->argc,
    };
    if (doctor.is_json)
        (void)output_json_begin(&doctor.json, '[');
    check_public_url(&doctor);
    check_files(&doctor);
    check_clock(&doctor);
    check_master_key(&doctor);
    check_catalog(&doctor);
    doctor_check_database(&doctor);
    doctor_check_apps(&doctor);
    return print_end(&doctor);
}

static const struct config_option options[] = {
    {"offline", NULL, "call no app"},
    {"json", NULL, "print JSON"},
};

static const struct command_verb verbs[] = {{NULL, "[APP...]",
                                             "Check the settings, keys and their files, database, "
                                             "clock, trust roots, names and the connected apps.",
                                             .body = run_doctor, COMMAND_OPTIONS(options)}};

const struct command doctor_command = {
    .name = "doctor",
    .summary = "check the settings, the database and the connections to apps",
    .help = "Each check prints a line with what it found and, if it warns or fails, what to do "
            "about it. Nothing is changed. Each connected app, and each APP, gets one request "
            "without a credential. Exit code 1: a check failed.",
    .scopes = CONFIG_SERVE | CONFIG_DATABASE | CONFIG_KEYRING | CONFIG_CATALOG | CONFIG_OUTBOUND,
    COMMAND_VERBS(verbs),
};
