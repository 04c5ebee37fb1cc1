/*
 * The parts that operator commands share; see session.h. They block: a command has no loop and
 * waits for one answer at a time.
 */
#include "cli/session.h"

#include <pwd.h>
#include <unistd.h>

#include "base/embed.h"
#include "pg/migrate.h"
#include "tls/tls.h"

enum { HOST_NAME_LEN_MAX = 150 };

void session_begin(struct session *session, const struct config *config)
{
    *session = (struct session){.config = config};
    arena_init(&session->arena, SESSION_ARENA_BYTES_MAX);
}

void session_end(struct session *session)
{
    /* Each part may be missing: a command opens what it needs. */
    pg_sync_close(session->sync);
    vault_ring_free(session->ring);
    catalog_unref(session->catalog);
    arena_deinit(&session->arena);
    session->sync = NULL;
    session->ring = NULL;
    session->catalog = NULL;
}

int session_run(struct command_call *call,
                int (*body)(struct session *session, struct command_call *call))
{
    struct session session;
    session_begin(&session, call->config);
    /* The body has set the session's err if it does not return OK. */
    int result = body(&session, call);
    session_end(&session);
    return result == OK ? EXIT_OK : command_fail(call, "%s", session.err.text);
}

int session_open_database(struct session *session)
{
    slice url = session->config->database_url;
    ASSERT(!session->sync);
    if (url.len == 0)
        return err_set(&session->err, ERR_NOTFOUND,
                       "no database: set DATABASE_URL or --database-url, for example "
                       "postgresql://user@localhost/sluice");
    /* Fails if this program does not know the schema's version, before anything is changed. */
    session->sync = pg_schema_open(url.ptr, embed_sql, embed_sql_count, &session->err);
    return session->sync ? OK : (int)session->err.code;
}

int session_open_ring(struct session *session)
{
    const struct config *config = session->config;
    if (tls_library_init(&session->err) != OK)
        return (int)session->err.code;
    /* The TLS library must be initialized first: the ring seals and opens with its ciphers. */
    if (config->master_key_file.len > 0)
        session->ring = vault_ring_from_file(config->master_key_file.ptr, &session->err);
    else if (config->master_key.len > 0)
        session->ring = vault_ring_new(config->master_key, &session->err);
    else
        return err_set(&session->err, ERR_NOTFOUND,
                       "no master key: set SLUICE_MASTER_KEY or --master-key-file; `sluice keys "
                       "master` makes one");
    return session->ring ? OK : err_prefix(&session->err, "master key");
}

/* The first error becomes the message; `catalog lint` prints all of them. */
static int catalog_error(struct session *session, const struct catalog_report *report)
{
    for (size_t i = 0; i < report->count; i++) {
        const struct catalog_problem *problem = &report->problems[i];
        if (!problem->is_warning)
            return err_set(&session->err, ERR_INVALID,
                           "%.*s%s%.*s: %.*s (%zu error%s; `sluice catalog lint %.*s` shows all)",
                           SLICE_ARG(problem->source), problem->pointer.len > 0 ? " " : "",
                           SLICE_ARG(problem->pointer), SLICE_ARG(problem->text),
                           report->error_count, report->error_count == 1 ? "" : "s",
                           SLICE_ARG(session->config->catalog_dir));
    }
    /* A load that fails without a problem in the report has run out of memory. */
    return err_set(&session->err, ERR_NOMEM, "the manifests could not be loaded");
}

int session_open_catalog(struct session *session)
{
    slice dir = session->config->catalog_dir;
    struct catalog_report *report = catalog_report_new(&session->err);
    int result = OK;
    if (!report)
        return ERR_NOMEM;
    session->catalog = catalog_load_all(dir.len > 0 ? dir.ptr : NULL, report);
    if (!session->catalog)
        result = catalog_error(session, report);
    catalog_report_free(report);
    return result;
}

int session_find_account(struct session *session, slice text, struct account *account)
{
    struct uuid id;
    struct account *list;
    size_t count;
    /* A name that has the form of an id cannot be used as a name. */
    if (uuid_parse(text, &id))
        return store_account_get_sync(session->sync, &session->arena, id, account, &session->err);
    int result = store_account_named_sync(session->sync, &session->arena, text, &list, &count,
                                          &session->err);
    if (result != OK)
        return result;
    /* Names are not unique, and a change must not reach the wrong account. */
    if (count > 1)
        return err_set(&session->err, ERR_INVALID,
                       "several accounts are named \"%.*s\"; give the id, which `sluice accounts "
                       "list` shows",
                       SLICE_ARG(text));
    if (count == 0)
        return err_set(
            &session->err, ERR_NOTFOUND,
            "there is no account with the id or name \"%.*s\"; `sluice accounts list` shows all",
            SLICE_ARG(text));
    *account = list[0];
    return OK;
}

int session_open_account(struct session *session, const struct command_call *call,
                         struct account *account)
{
    int result = session_open_database(session);
    return result == OK ? session_find_account(session, slice_cstr(call->argv[0]), account)
                        : result;
}

/* ---- lists ---- */

int session_print_list(struct session *session, const struct command_call *call,
                       const struct output_list *list, struct uuid account_id)
{
    size_t count;
    const void *rows =
        list->load(session->sync, &session->arena, account_id, &count, &session->err);
    return rows ? output_list(list, rows, count, command_has(call, "json"), &session->arena,
                              &session->err)
                : (int)session->err.code;
}

int session_list(struct session *session, struct command_call *call)
{
    struct account account;
    return session_open_account(session, call, &account) == OK
               ? session_print_list(session, call, call->verb->list, account.account_id)
               : (int)session->err.code;
}

/* ---- audit ---- */

/* The actor is "operator:<login>" and the address "host:<name>", from the operating system. */
struct audit_by session_by(struct session *session)
{
    char host[HOST_NAME_LEN_MAX + 1] = "";
    struct audit_by by = {.address = SLICE_NONE};
    struct passwd entry, *found = NULL;
    char names[4096];
    /* A container's user may have no entry; its number is used then. */
    bool is_known = getpwuid_r(getuid(), &entry, names, sizeof(names), &found) == 0 && found;
    by.actor = is_known ? arena_printf(&session->arena, "operator:%.100s", found->pw_name)
                        : arena_printf(&session->arena, "operator:%u", (unsigned)getuid());
    if (gethostname(host, sizeof(host) - 1) == 0 && slice_is_utf8(slice_cstr(host), NULL))
        by.address = arena_printf(&session->arena, "host:%s", host);
    return by;
}
