/*
 * sluice policy: checks and tries policies in files, without a server, and sets those of accounts.
 */
#include <stdio.h>

#include "cli/catalog_show.h"
#include "cli/change.h"
#include "cli/commands.h"
#include "cli/output.h"
#include "policy/policy.h"

/* ---- lint ---- */

/* The problems of all files are printed together, so that one run shows them. */
static int lint_source(struct session *session, const struct catalog_source *source,
                       struct catalog_report *report)
{
    struct policy *policy = policy_compile_text(source->name, source->text, SLICE_NONE, report);
    int result = policy ? policy_lint(policy, session->catalog, source->name, report) : OK;
    policy_unref(policy);
    return result == OK ? OK : err_set(&session->err, (enum err_code)result, "out of memory");
}

static int lint_sources(struct session *session, struct command_call *call,
                        struct catalog_report *report)
{
    struct catalog_source *sources;
    size_t count;
    int result = catalog_read_paths(session, call, POLICY_BODY_BYTES_MAX, &sources, &count, report);
    for (size_t i = 0; i < count && result == OK; i++)
        result = lint_source(session, &sources[i], report);
    if (result != OK)
        return result;
    catalog_show_problems(report);
    if (report->error_count > 0)
        return err_set(&session->err, ERR_INVALID, "%zu errors and %zu warnings in %zu files",
                       report->error_count, report->warning_count, count);
    (void)printf("%zu policies, %zu warnings: fine\n", count, report->warning_count);
    return OK;
}

/* Exits 1 if a file has an error, so that a check before a deployment can stop. Warnings do not
 * stop it. */
static int lint_policies(struct session *session, struct command_call *call)
{
    if (session_open_catalog(session) != OK)
        return (int)session->err.code;
    struct catalog_report *report = catalog_report_new(&session->err);
    if (!report)
        return (int)session->err.code;
    int result = lint_sources(session, call, report);
    catalog_report_free(report);
    return result;
}

/* ---- test ---- */

/* Reads no more than a policy may have, so that a wrong path costs little. */
static bool read_policy_file(struct session *session, const char *path,
                             struct catalog_source *source, struct catalog_report *report)
{
    return catalog_read_file(slice_cstr(path), &session->arena, POLICY_BODY_BYTES_MAX, source,
                             report);
}

/* Returns NULL with the first fault in session->err. */
static struct policy *read_policy(struct session *session, const char *path)
{
    struct catalog_source source;
    struct policy *policy = NULL;
    struct catalog_report *report = catalog_report_new(&session->err);
    if (!report)
        return NULL;
    if (read_policy_file(session, path, &source, report))
        policy = policy_compile_text(source.name, source.text, SLICE_NONE, report);
    if (!policy && report->count > 0)
        (void)err_set(&session->err, ERR_INVALID, "%.*s %.*s: %.*s", SLICE_ARG(slice_cstr(path)),
                      SLICE_ARG(report->problems[0].pointer), SLICE_ARG(report->problems[0].text));
    catalog_report_free(report);
    return policy;
}

/* Without --input, sets *input to NULL. */
static int read_call_input(struct session *session, struct command_call *call,
                           const struct json **input)
{
    slice text = command_option(call, "input");
    struct err err;
    *input = NULL;
    if (!text.ptr)
        return OK;
    *input = json_parse(&session->arena, text, &json_limits_request, &err);
    if (!*input)
        return err_set(&session->err, err.code, "--input: %s", err.text);
    if (!json_is(*input, JSON_OBJECT))
        return err_set(&session->err, ERR_INVALID, "--input must be a JSON object, got %s",
                       json_type_name(*input));
    return OK;
}

/* Without --json one line: the decision, what it comes from, and the reason that a caller would
 * read. */
static int print_verdict(struct session *session, const struct policy_verdict *verdict,
                         bool as_json)
{
    struct json_text json;
    if (as_json) {
        policy_put_verdict(output_json_begin(&json, '{'), verdict);
        return output_json_end(&json, '{', &session->err);
    }
    (void)printf("%s", policy_decision_name(verdict->decision));
    if (verdict->rule >= 0)
        (void)printf(", by rule %d", verdict->rule);
    else if (verdict->rule == POLICY_RULE_DEFAULT)
        (void)printf(", by default");
    if (verdict->reason.len > 0) {
        (void)printf(": ");
        output_text(stdout, verdict->reason);
    }
    if (verdict->is_hidden)
        (void)printf(" (the action is hidden)");
    if (verdict->is_unsure)
        (void)printf(" (a condition could not be evaluated)");
    (void)printf("\n");
    return OK;
}

/* The call is decided as it would be by a server with the same catalog. */
static int test_policy(struct session *session, struct command_call *call)
{
    const struct json *input;
    struct policy_verdict verdict;
    if (!command_has(call, "tool"))
        return err_set(&session->err, ERR_INVALID,
                       "--tool is missing: name the tool that is called, such as "
                       "gmail_send_message");
    if (read_call_input(session, call, &input) != OK || session_open_catalog(session) != OK)
        return (int)session->err.code;
    struct policy *policy = read_policy(session, call->argv[0]);
    if (!policy)
        return (int)session->err.code;
    int result = policy_test(policy, session->catalog, command_option(call, "tool"), input,
                             command_option(call, "user"), &session->arena, &verdict,
                             &session->err);
    if (result == OK)
        result = print_verdict(session, &verdict, command_has(call, "json"));
    policy_unref(policy);
    return result;
}

/* ---- an account's policies ---- */

static void put_policy_cells(struct output_table *table, const void *row)
{
    const struct policy_row *policy = row;
    char rev[SLICE_U64_MAX];
    output_table_cell(table, policy->name);
    output_table_cell(table, slice_of_u64((uint64_t)policy->rev, rev));
    output_table_time(table, policy->updated_at);
}

static void put_listed_policy(struct json_writer *w, const void *row)
{
    const struct policy_row *policy = row;
    json_member_str(w, "name", policy->name);
    json_member_i64(w, "rev", policy->rev);
    json_member_time(w, "updated_at", policy->updated_at);
}

/* Documents are printed by `show`: they are too large for a table. */
static const struct output_list policy_list = {
    .row_size = sizeof(struct policy_row),
    .headings = "POLICY|REV|CHANGED",
    .none = "the account has no policies; `sluice policy set` makes one",
    .put_cells = put_policy_cells,
    .put_json = put_listed_policy,
    .load = store_policy_list_sync,
};

/* Prints the document alone, so that it can be changed and set again. */
static int show_policy(struct session *session, struct command_call *call)
{
    struct account account;
    struct policy_row row;
    struct buf text;
    if (session_open_account(session, call, &account) != OK ||
        store_policy_get_sync(session->sync, &session->arena, account.account_id,
                              slice_cstr(call->argv[1]), &row, &session->err) != OK)
        return (int)session->err.code;
    const struct json *document =
        json_parse(&session->arena, row.body, &json_limits_request, &session->err);
    if (!document)
        return (int)session->err.code;
    buf_init(&text, 16 * (size_t)POLICY_BODY_BYTES_MAX);
    json_write_pretty(&text, document);
    output_text(stdout, buf_slice(&text));
    (void)printf("\n");
    bool is_ok = buf_is_ok(&text);
    buf_deinit(&text);
    return is_ok ? OK : err_set(&session->err, ERR_NOMEM, "out of memory");
}

/* Reads the document of the third argument. */
static int read_document(struct session *session, struct command_call *call,
                         const struct json **document)
{
    struct catalog_source source;
    struct err err;
    struct catalog_report *report = catalog_report_new(&session->err);
    if (!report)
        return (int)session->err.code;
    bool is_read = read_policy_file(session, call->argv[2], &source, report);
    if (!is_read)
        (void)err_set(&session->err, ERR_INVALID, "%s: %.*s", call->argv[2],
                      SLICE_ARG(report->problems[0].text));
    catalog_report_free(report);
    if (!is_read)
        return ERR_INVALID;
    /* as the body of a request, so that a name twice is refused here, too */
    *document = json_parse(&session->arena, source.text, &json_limits_request, &err);
    return *document ? OK : err_set(&session->err, err.code, "%s: %s", call->argv[2], err.text);
}

/* The op checks the document, as for the API. Without --rev the last writer wins. */
static int set_policy(struct session *session, struct command_call *call)
{
    struct account account;
    struct policy_command_request request = {
        .kind = POLICY_SET, .name = slice_cstr(call->argv[1]), .root = SLICE("")};
    slice rev = command_option(call, "rev");
    uint64_t number = 0;
    if (rev.ptr && !slice_to_u64(rev, INT64_MAX, &number))
        return err_set(&session->err, ERR_INVALID,
                       "rev must be a number as `sluice policy list` shows it, or 0 for a new "
                       "policy, got \"%.*s\"",
                       SLICE_ARG(rev));
    request.has_rev = rev.ptr != NULL;
    request.rev = (int64_t)number;
    /* the file is read before the database is asked: a wrong path is the likelier mistake */
    if (read_document(session, call, &request.document) != OK ||
        session_open_account(session, call, &account) != OK)
        return (int)session->err.code;
    request.account_id = account.account_id;
    if (change_policy(session, &request, &request.rev) != OK)
        return (int)session->err.code;
    /* as in executions and in the audit trail */
    (void)printf("%s@%lld\n", call->argv[1], (long long)request.rev);
    return OK;
}

/* The op refuses to delete a policy that keys name, and names them. */
static int delete_policy(struct session *session, struct command_call *call)
{
    struct account account;
    struct policy_command_request request = {.kind = POLICY_DELETE,
                                             .name = slice_cstr(call->argv[1])};
    if (session_open_account(session, call, &account) != OK)
        return (int)session->err.code;
    request.account_id = account.account_id;
    if (change_policy(session, &request, &request.rev) != OK)
        return (int)session->err.code;
    (void)printf("deleted %s\n", call->argv[1]);
    return OK;
}

/* ---- the table ---- */

static const struct config_option test_options[] = {
    {"tool", "NAME", "the tool that is called, such as gmail_send_message"},
    {"input", "JSON", "the call's input; without it: what all calls of the tool have in common"},
    {"user", "ID", "the end user for whom it is called; none by default"},
    {"json", NULL, "print JSON, for scripts"},
};

static const struct config_option set_options[] = {
    {"rev", "N", "set it only if this is its revision; 0: only if it is new"},
};

static const struct command_verb verbs[] = {
    {"lint", "FILE|DIR...",
     "Check policies, and warn of rules that do not do what they seem to; exits 1 if one has an "
     "error.",
     lint_policies, COMMAND_NO_OPTIONS},
    {"test", "FILE", "Say what the policy decides about a call. Nothing is called.", test_policy,
     COMMAND_OPTIONS(test_options), .needs = "tool"},
    {"list", "ACCOUNT", "List the policies of an account.", session_list, COMMAND_JSON,
     .list = &policy_list},
    {"show", "ACCOUNT POLICY", "Print a policy as it is in a file.", show_policy,
     COMMAND_NO_OPTIONS},
    {"set", "ACCOUNT POLICY FILE",
     "Make or replace a policy. Keys that have it follow it at once; keys that name none have the "
     "one that is named " POLICY_DEFAULT_NAME ".",
     set_policy, COMMAND_OPTIONS(set_options)},
    {"delete", "ACCOUNT POLICY", "Delete a policy that no valid key names.", delete_policy,
     COMMAND_NO_OPTIONS},
};

const struct command policy_command = {
    .name = "policy",
    .summary = "what API keys may do: lint, test; an account's policies: list, show, set, delete",
    .help = "src/policy/README.md describes policies. Rules are counted from 0.",
    .scopes = CONFIG_CATALOG | CONFIG_DATABASE,
    COMMAND_VERBS(verbs),
};
