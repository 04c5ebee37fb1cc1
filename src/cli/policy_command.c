/*
 * sluice policy: checks and tries policies in files, without a server.
 */
#include <stdio.h>

#include "cli/catalog_show.h"
#include "cli/commands.h"
#include "cli/output.h"
#include "policy/policy.h"

/* ---- lint ---- */

/* The problems of all files are printed together, so that one run shows them. */
static int lint_source(struct session *session, const struct catalog_source *source,
                       struct catalog_report *report)
{
    struct policy *policy = policy_compile_text(source->name, source->text, report);
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

/* Returns NULL with the first fault in session->err. */
static struct policy *read_policy(struct session *session, const char *path)
{
    struct catalog_source source;
    struct policy *policy = NULL;
    struct catalog_report *report = catalog_report_new(&session->err);
    if (!report)
        return NULL;
    if (catalog_read_file(slice_cstr(path), &session->arena, POLICY_BODY_BYTES_MAX, &source,
                          report))
        policy = policy_compile_text(source.name, source.text, report);
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

static int print_verdict(struct session *session, const struct policy_verdict *verdict,
                         bool as_json)
{
    struct output_json json;
    if (as_json) {
        output_json_begin(&json);
        json_open(&json.w, '{');
        policy_put_verdict(&json.w, verdict);
        json_close(&json.w, '}');
        return output_json_end(&json, stdout, &session->err);
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

/* ---- the table ---- */

static const struct config_option test_options[] = {
    {"tool", "NAME", "the tool that is called, such as gmail_send_message"},
    {"input", "JSON", "the call's input; without it: what all calls of the tool have in common"},
    {"user", "ID", "the end user for whom it is called; none by default"},
    {"json", NULL, "print JSON, for scripts"},
};

static const struct command_verb verbs[] = {
    {"lint", "FILE|DIR...",
     "Check policies, and warn of rules that do not do what they seem to; exits 1 if one has an "
     "error.",
     lint_policies, COMMAND_NO_OPTIONS},
    {"test", "FILE", "Say what the policy decides about a call. Nothing is called.", test_policy,
     COMMAND_OPTIONS(test_options), .needs = "tool"},
};

const struct command policy_command = {
    .name = "policy",
    .summary = "what API keys may do: lint, test",
    .help = "src/policy/README.md describes policies. Rules are counted from 0.",
    .scopes = CONFIG_CATALOG,
    COMMAND_VERBS(verbs),
};
