/*
 * Export and erasure of an account; see accounts_rows.h.
 *
 * Erasure works while servers run. The account is disabled first and servers are notified, so that
 * no new request is accepted; then it waits for writes under way, whose callers still expect a
 * result. Work that had started may write rows for as long as an execution may take, so rows that
 * appear before the end of `settle` are erased, too. The account's own row is deleted last.
 */
#include "cli/accounts_rows.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "base/clock.h"
#include "cli/change.h"
#include "store/account_rows.h"

enum { PATH_BYTES_MAX = 4096, SETTLE_MS = 45000, PAUSE_US = 200 * 1000 };

/* ---- export ---- */

static int put_line(void *owner, slice line, struct err *err)
{
    FILE *out = owner;
    bool is_ok = fwrite(line.ptr, 1, line.len, out) == line.len && fputc('\n', out) != EOF;
    return is_ok ? OK : err_set(err, ERR_IO, "cannot write: %s", strerror(errno));
}

static int export_to(struct session *session, struct uuid account_id, FILE *out)
{
    struct account_export export = {.on_line = put_line, .owner = out};
    int result = store_account_export_sync(session->sync, account_id, &export, &session->err);
    /* A full disk is often reported only here. */
    if (result == OK && fflush(out) != 0)
        result = err_set(&session->err, ERR_IO, "cannot write: %s", strerror(errno));
    if (result == OK)
        (void)fprintf(stderr, "%llu rows\n", (unsigned long long)export.rows);
    return result;
}

/* The file is complete or does not exist, and only its owner may read it. */
static int export_to_file(struct session *session, struct uuid account_id, const char *path)
{
    char temporary[PATH_BYTES_MAX];
    /* The pid keeps two exports to one path from writing to the same temporary file. */
    int len = snprintf(temporary, sizeof(temporary), "%s.%d.part", path, (int)getpid());
    if (len < 0 || (size_t)len >= sizeof(temporary))
        return err_set(&session->err, ERR_LIMIT, "the path %s is too long", path);
    int fd = open(temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    FILE *out = fd >= 0 ? fdopen(fd, "w") : NULL;
    if (!out) {
        (void)err_set(&session->err, ERR_IO, "cannot write %s: %s", temporary, strerror(errno));
        if (fd >= 0)
            (void)close(fd);
        return ERR_IO;
    }
    int result = export_to(session, account_id, out);
    /* The rename must not become durable before the content. */
    if (result == OK && fsync(fd) != 0)
        result = err_set(&session->err, ERR_IO, "cannot write %s: %s", temporary, strerror(errno));
    if (fclose(out) != 0 && result == OK)
        result = err_set(&session->err, ERR_IO, "cannot write %s: %s", temporary, strerror(errno));
    /* The file is complete now, and the rename gives it its final name. */
    if (result == OK && rename(temporary, path) != 0)
        result = err_set(&session->err, ERR_IO, "cannot write %s: %s", path, strerror(errno));
    if (result != OK)
        (void)unlink(temporary);
    return result;
}

int accounts_export(struct session *session, struct command_call *call)
{
    struct account account;
    slice path = command_option(call, "out");
    if (session_open_account(session, call, &account) != OK)
        return (int)session->err.code;
    if (!path.ptr)
        return export_to(session, account.account_id, stdout);
    return export_to_file(session, account.account_id, path.ptr);
}

/* ---- erase ---- */

static bool is_over(uint64_t until_ns)
{
    /* The monotonic clock: jumps of the wall clock must not change the settling time. */
    return clock_mono_ns() >= until_ns;
}

static int wait_for_writes(struct session *session, struct uuid account_id, uint64_t until_ns)
{
    uint64_t count;
    for (;;) {
        int result = store_account_claims_sync(session->sync, account_id, &count, &session->err);
        if (result != OK || count == 0 || is_over(until_ns))
            /* Writes that take longer than `settle` are not awaited; their rows are erased as they
             * appear. */
            return result;
        (void)usleep(PAUSE_US);
    }
}

/* Erases until no more rows appear. */
static int erase_rows(struct session *session, struct uuid account_id, uint64_t until_ns,
                      uint64_t *rows)
{
    for (;;) {
        uint64_t count = 0;
        /* This is checked before the pass, so that the last pass begins after `settle` has elapsed
         * and finds everything. */
        bool is_last = is_over(until_ns);
        int result =
            store_account_erase_rows_sync(session->sync, account_id, &count, &session->err);
        *rows += count;
        if (result != OK || (is_last && count == 0))
            return result;
        /* Nothing was found, but work that still runs may write. */
        if (count == 0)
            (void)usleep(PAUSE_US);
    }
}

static int read_settle(struct session *session, const struct command_call *call, uint64_t *ms)
{
    slice text = command_option(call, "settle");
    *ms = SETTLE_MS;
    /* The default is longer than the default execution-timeout. */
    if (!text.ptr || config_parse_ms(text, ms))
        return OK;
    return err_set(&session->err, ERR_INVALID, "settle must be a time such as 45s, got \"%.*s\"",
                   SLICE_ARG(text));
}

int accounts_erase(struct session *session, struct command_call *call)
{
    struct vault_command_request disabling = {.kind = VAULT_ACCOUNT_DISABLE};
    struct account *account = &disabling.account.account;
    char id[UUID_TEXT_LEN + 1];
    uint64_t settle_ms, rows = 0;
    if (read_settle(session, call, &settle_ms) != OK ||
        session_open_account(session, call, account) != OK)
        return (int)session->err.code;
    uuid_format(account->account_id, id);
    /* The confirmation is requested after the account was found, so that the message can name
     * it. */
    if (!command_has(call, "yes"))
        return err_set(&session->err, ERR_REFUSED,
                       "Nothing was erased. Give --yes to erase all of account %s (%.*s) for ever. "
                       "`sluice accounts export` saves it first",
                       id, SLICE_ARG(account->name));
    /* The account is disabled first: no new work begins after this, so the settling time can
     * start. */
    int result = change_vault(session, &disabling, NULL);
    uint64_t until_ns = clock_mono_ns() + settle_ms * 1000000;
    if (result == OK && settle_ms > 0)
        (void)fprintf(stderr, "waiting %llu s for running work to finish\n",
                      (unsigned long long)((settle_ms + 999) / 1000));
    if (result == OK)
        result = wait_for_writes(session, account->account_id, until_ns);
    if (result == OK)
        result = erase_rows(session, account->account_id, until_ns, &rows);
    if (result == OK)
        result = store_account_delete_sync(session->sync, account->account_id, &session->err);
    if (result == OK)
        (void)printf("erased account %s and %llu rows\n", id, (unsigned long long)rows);
    return result;
}
