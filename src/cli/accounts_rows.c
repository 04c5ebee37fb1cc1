/*
 * Export and erasure of an account; see accounts_rows.h.
 *
 * Erasure works while servers run. The account is disabled first and servers are notified, so that
 * no new request is accepted, and marked as being erased, so that servers finish what this command
 * does not. Then it waits for writes under way, whose callers still expect a result. Work that had
 * started may write rows for as long as an execution may take, so rows that appear before the end
 * of `settle` are erased, too. The account's own row is deleted last.
 */
#include "cli/accounts_rows.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/encode.h"
#include "call/kept_input.h"
#include "catalog/catalog.h"
#include "cli/change.h"
#include "store/account_rows.h"

enum {
    INPUT_ROW_BYTES_MAX = 1024 * 1024,
    PATH_BYTES_MAX = 4096,
    /* calls that had begun: the longest that an action may take, and what their bodies take */
    SETTLE_MS = CATALOG_DEADLINE_MS_MAX + 60000,
    PAUSE_US = 200 * 1000
};

/* ---- export ---- */

struct exporting {
    struct session *session;
    FILE *out;
    struct arena arena; /* one input */
    size_t unopened;    /* inputs whose master key is not configured */
};

/* Opens the input of a row. Returns ERR_NOTFOUND if its master key is not configured. */
static int open_input(struct exporting *x, const struct json *row, struct kept_input *kept,
                      struct err *err)
{
    struct uuid account_id, id;
    struct buf sealed;
    if (!x->session->ring || !uuid_parse(json_get_str(row, SLICE("account_id")), &account_id) ||
        !uuid_parse(json_get_str(row, SLICE("id")), &id))
        return ERR_NOTFOUND;
    buf_init(&sealed, INPUT_ROW_BYTES_MAX);
    int result = decode_hex(&sealed, json_get_str(row, SLICE("sealed")));
    const struct execution_input stored = {.sealed = buf_slice(&sealed),
                                           .key_id = json_get_str(row, SLICE("key_id"))};
    if (result == OK)
        result = kept_input_open(x->session->ring, account_id, id, &stored, &x->arena, kept, err);
    buf_deinit(&sealed);
    return result;
}

/* Returns the line with the input in place of its sealed bytes, in the arena. */
static int make_input_line(struct exporting *x, slice *line, struct err *err)
{
    struct kept_input kept = {0};
    struct json_text text;
    arena_reset(&x->arena);
    const struct json *whole = json_parse(&x->arena, *line, &json_limits_provider, NULL);
    const struct json *row = JSON_GET(whole, "row");
    int result = open_input(x, row, &kept, err);
    if (result == ERR_NOTFOUND)
        x->unopened++;
    else if (result != OK)
        return result;
    struct json_writer *w = json_text_begin(&text, INPUT_ROW_BYTES_MAX);
    json_open(w, '{');
    json_member_str(w, "table", json_get_str(whole, SLICE("table")));
    json_member_open(w, "row", '{');
    for (uint32_t i = 0; row && i < row->count; i++) {
        const struct json_member *member = &row->as.members[i];
        if (slice_eq_cstr(json_str(&member->key), "sealed"))
            continue;
        json_key_slice(w, json_str(&member->key));
        json_put(w, &member->value);
    }
    json_member(w, "input", kept.input);
    if (kept.message.ptr)
        json_member_str(w, "message", kept.message);
    if (kept.hint.ptr)
        json_member_str(w, "hint", kept.hint);
    json_close(w, '}');
    json_close(w, '}');
    *line = json_text_take(&text, &x->arena);
    return line->ptr ? OK : err_set(err, ERR_NOMEM, "out of memory");
}

static int put_line(void *owner, slice line, struct err *err)
{
    struct exporting *x = owner;
    int result = slice_starts_with(line, SLICE("{\"table\":\"execution_input\""))
                     ? make_input_line(x, &line, err)
                     : OK;
    if (result != OK)
        return result;
    bool is_ok = fwrite(line.ptr, 1, line.len, x->out) == line.len && fputc('\n', x->out) != EOF;
    return is_ok ? OK : err_set(err, ERR_IO, "cannot write: %s", strerror(errno));
}

static int export_to(struct session *session, struct uuid account_id, FILE *out)
{
    struct exporting x = {.session = session, .out = out};
    struct account_export export = {.on_line = put_line, .owner = &x};
    arena_init(&x.arena, 8 * INPUT_ROW_BYTES_MAX);
    int result = store_account_export_sync(session->sync, account_id, &export, &session->err);
    /* A full disk is often reported only here. */
    if (result == OK && fflush(out) != 0)
        result = err_set(&session->err, ERR_IO, "cannot write: %s", strerror(errno));
    if (result == OK)
        (void)fprintf(stderr, "%llu rows\n", (unsigned long long)export.rows);
    if (result == OK && x.unopened > 0)
        (void)fprintf(stderr,
                      "%zu inputs of runs are missing, because the master key that sealed them is "
                      "not configured\n",
                      x.unopened);
    arena_deinit(&x.arena);
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
    bool has_key = session->config->master_key_file.len > 0 || session->config->master_key.len > 0;
    if (session_open_account(session, call, &account) != OK)
        return (int)session->err.code;
    /* Only inputs of runs need it. */
    if (has_key && session_open_ring(session) != OK)
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
    struct vault_command_request erasing = {.kind = VAULT_ACCOUNT_ERASE,
                                            .account = disabling.account};
    if (result == OK)
        result = change_vault(session, &erasing, NULL);
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
        (void)printf("erased account %s; %llu rows were deleted here, any others by servers\n", id,
                     (unsigned long long)rows);
    return result;
}
