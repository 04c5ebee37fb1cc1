/*
 * sluice webhooks: manages the endpoints to which an account's events are sent.
 */
#include "base/clock.h"
#include "base/mem.h"
#include "cli/change.h"
#include "cli/commands.h"
#include "cli/output.h"

#define OVERLAP "24h"

/* Only the secret goes to stdout, so that a script can read it. */
static int run_and_print(struct session *session, const struct command_call *call,
                         struct webhook_command_request *request)
{
    char secret[EVENT_SECRET_TEXT_MAX + 1], id_text[UUID_TEXT_LEN + 1];
    struct uuid id;
    int result = change_webhook(session, request, &id, secret);
    uuid_format(id, id_text);
    if (result == OK && command_has(call, "json")) {
        struct json_text json;
        struct json_writer *w = output_json_begin(&json, '{');
        json_member_uuid(w, "id", id);
        json_member_str(w, "secret", slice_cstr(secret));
        result = output_json_end(&json, '{', &session->err);
    } else if (result == OK) {
        (void)fprintf(stderr, "webhook %s; the secret is printed only this once:\n", id_text);
        (void)printf("%s\n", secret);
    }
    mem_wipe(secret, sizeof(secret));
    return result;
}

/* ---- add ---- */

static int read_kinds(slice list, uint32_t *kinds, struct err *err)
{
    *kinds = 0;
    while (list.len > 0) {
        slice word = slice_trim(slice_split(&list, ','));
        enum event_kind kind = event_kind_find(word);
        if (kind == EVENT_KIND_COUNT)
            return err_set(err, ERR_INVALID, "events: \"%.*s\" is none of:%s",
                           SLICE_ARG(slice_first_utf8(word, 60)), EVENT_KIND_WORDS);
        *kinds |= UINT32_C(1) << kind;
    }
    return OK;
}

static int add_webhook(struct session *session, struct command_call *call)
{
    struct account account;
    slice description = command_option(call, "description");
    struct webhook_command_request request = {
        .kind = WEBHOOK_CREATE,
        .has_url = true,
        .has_description = true,
        .has_kinds = true,
        .url = slice_cstr(call->argv[1]),
        .description = description.ptr ? description : SLICE(""),
    };
    if (read_kinds(command_option(call, "events"), &request.kinds, &session->err) != OK ||
        session_open_ring(session) != OK || session_open_account(session, call, &account) != OK)
        return (int)session->err.code;
    request.account_id = account.account_id;
    return run_and_print(session, call, &request);
}

/* ---- list ---- */

static slice webhook_state(const struct webhook *webhook)
{
    if (webhook->off_at)
        return webhook->off_reason.ptr ? webhook->off_reason : SLICE("off");
    return webhook->failing_since ? SLICE("failing") : SLICE("on");
}

static void put_webhook_cells(struct output_table *table, const void *row)
{
    const struct webhook *webhook = row;
    output_table_uuid(table, webhook->id);
    output_table_cell(table, webhook_state(webhook));
    output_table_time(table, webhook->created_at);
    output_table_time(table, webhook->failing_since);
    output_table_time(table, webhook->old_until > clock_shared_us() ? webhook->old_until : 0);
    output_table_cell(table, webhook->key_id);
    output_table_cell(table, webhook->events.ptr ? webhook->events : SLICE("all"));
    output_table_cell(table, webhook->description);
    output_table_cell(table, webhook->url);
}

static void put_listed_webhook(struct json_writer *w, const void *row)
{
    const struct webhook *webhook = row;
    json_member_uuid(w, "id", webhook->id);
    json_member_str(w, "url", webhook->url);
    json_member_str(w, "description", webhook->description);
    json_member_str(w, "events", webhook->events);
    json_member_bool(w, "enabled", webhook->off_at == 0);
    json_member_time(w, "off_at", webhook->off_at);
    json_member_str(w, "off_reason", webhook->off_reason);
    json_member_time(w, "failing_since", webhook->failing_since);
    json_member_i64(w, "failures", webhook->failures);
    json_member_time(w, "old_secret_until",
                     webhook->old_until > clock_shared_us() ? webhook->old_until : 0);
    json_member_str(w, "master_key_id", webhook->key_id);
    json_member_time(w, "created_at", webhook->created_at);
}

static const struct output_list webhook_list = {
    .row_size = sizeof(struct webhook),
    .headings = "WEBHOOK|STATE|CREATED|FAILING|OLD SECRET|MASTER KEY|EVENTS|DESCRIPTION|URL",
    .none = "the account has no webhooks; `sluice webhooks add` creates one",
    .put_cells = put_webhook_cells,
    .put_json = put_listed_webhook,
    .load = store_webhook_list_sync,
};

/* ---- changes of one ---- */

/* Opens the account, and reads the id of the second argument. */
static int open_webhook(struct session *session, const struct command_call *call,
                        struct webhook_command_request *request)
{
    struct account account;
    if (!uuid_parse(slice_cstr(call->argv[1]), &request->id))
        return err_set(&session->err, ERR_INVALID,
                       "WEBHOOK must be an id, as `sluice webhooks list` shows it");
    int result = session_open_account(session, call, &account);
    request->account_id = account.account_id;
    return result;
}

static int change_webhook_to(struct session *session, const struct command_call *call,
                             struct webhook_command_request *request, const char *done)
{
    if (open_webhook(session, call, request) != OK ||
        change_webhook(session, request, NULL, NULL) != OK)
        return (int)session->err.code;
    (void)printf("%s %s\n", done, call->argv[1]);
    return OK;
}

static int remove_webhook(struct session *session, struct command_call *call)
{
    struct webhook_command_request request = {.kind = WEBHOOK_DELETE};
    return change_webhook_to(session, call, &request, "deleted");
}

static int enable_webhook(struct session *session, struct command_call *call)
{
    struct webhook_command_request request = {
        .kind = WEBHOOK_CHANGE, .has_switch = true, .is_on = true};
    return change_webhook_to(session, call, &request, "enabled");
}

static int roll_webhook(struct session *session, struct command_call *call)
{
    struct webhook_command_request request = {.kind = WEBHOOK_ROLL};
    slice text = command_option(call, "overlap");
    uint64_t ms;
    if (!text.ptr)
        text = SLICE(OVERLAP);
    if (!config_parse_ms(text, &ms) || ms / 1000 > WEBHOOK_OVERLAP_S_MAX)
        return err_set(&session->err, ERR_INVALID,
                       "overlap must be a time such as 24h or 0s (at most 7d), got \"%.*s\"",
                       SLICE_ARG(text));
    request.overlap_s = (int64_t)(ms / 1000);
    if (session_open_ring(session) != OK || open_webhook(session, call, &request) != OK)
        return (int)session->err.code;
    return run_and_print(session, call, &request);
}

/* ---- the table ---- */

static const struct config_option add_options[] = {
    {"events", "LIST", "kinds such as flow.waiting,flow.failed; all by default"},
    {"description", "TEXT", "what the endpoint is for, shown in lists"},
    {"json", NULL, "print JSON, for scripts"},
};

static const struct config_option roll_options[] = {
    {"overlap", "TIME",
     "how long both secrets sign; " OVERLAP " by default; 0s: the old one ends at once"},
    {"json", NULL, "print JSON, for scripts"},
};

static const struct command_verb verbs[] = {
    {"list", "ACCOUNT", "List the endpoints of an account.", session_list, COMMAND_JSON,
     .list = &webhook_list},
    {"add", "ACCOUNT URL", "Send an account's events to a URL. Its signing secret is printed once.",
     add_webhook, COMMAND_OPTIONS(add_options)},
    {"roll", "ACCOUNT WEBHOOK",
     "Make another signing secret. Messages are signed with both for a while.", roll_webhook,
     COMMAND_OPTIONS(roll_options)},
    {"enable", "ACCOUNT WEBHOOK", "Switch an endpoint on again, and forget its failures.",
     enable_webhook, COMMAND_NO_OPTIONS},
    {"remove", "ACCOUNT WEBHOOK", "Delete an endpoint. It gets no more events.", remove_webhook,
     COMMAND_NO_OPTIONS},
};

const struct command webhooks_command = {
    .name = "webhooks",
    .summary = "endpoints that get an account's events: list, add, roll, enable, remove",
    .help = "Messages are signed as the Standard Webhooks specification says, so its libraries "
            "verify them with the secret.",
    .scopes = CONFIG_DATABASE | CONFIG_KEYRING | CONFIG_EVENTS,
    COMMAND_VERBS(verbs),
};
