/*
 * sluice accounts: manages tenants. accounts_rows.c has export and erasure.
 */
#include "base/ascii.h"
#include "cli/accounts_rows.h"
#include "cli/change.h"
#include "cli/commands.h"
#include "cli/output.h"

static void put_account(struct json_writer *w, const void *row)
{
    const struct account *account = row;
    json_member_uuid(w, "account_id", account->account_id);
    json_member_str(w, "name", account->name);
    json_member_str(w, "external_id", account->external_id);
    json_member_str(w, "mark", account->mark);
    json_member_str(w, "colour", account->colour);
    json_member_time(w, "created_at", account->created_at);
    json_member_time(w, "disabled_at", account->disabled_at);
    json_member_bool(w, "erasing", account->erase_at != 0);
}

static slice account_state(const struct account *account)
{
    if (account->erase_at)
        return SLICE("erasing");
    return account->disabled_at ? SLICE("disabled") : SLICE("live");
}

static int print_one(struct session *session, const struct command_call *call,
                     const struct account *account)
{
    char id[UUID_TEXT_LEN + 1];
    if (command_has(call, "json"))
        return output_object(put_account, account, &session->err);
    uuid_format(account->account_id, id);
    (void)printf("account %s\nname    ", id);
    output_text(stdout, account->name);
    (void)printf("\nstate   %.*s\n", SLICE_ARG(account_state(account)));
    if (account->external_id.ptr)
        (void)printf("external_id %.*s\n", SLICE_ARG(account->external_id));
    if (account->mark.ptr)
        (void)printf("mark    %.*s\n", SLICE_ARG(account->mark));
    if (account->colour.ptr)
        (void)printf("colour  %.*s\n", SLICE_ARG(account->colour));
    return OK;
}

/* ---- create ---- */

/* Reads the account back, for the columns that the database sets and for its former state. */
static int print_stored(struct session *session, const struct command_call *call,
                        struct uuid account_id)
{
    struct account account;
    int result =
        store_account_get_sync(session->sync, &session->arena, account_id, &account, &session->err);
    return result == OK ? print_one(session, call, &account) : result;
}

/* A second account of the same name differs only by its id, and usually a script that ran twice
 * made it by mistake. */
static int create_account(struct session *session, struct command_call *call)
{
    struct uuid other;
    char id[UUID_TEXT_LEN + 1];
    struct vault_command_request request = {
        .kind = VAULT_ACCOUNT_CREATE,
        .account = {.account = {.account_id = uuid_v7(), .name = slice_cstr(call->argv[0])},
                    .is_again = command_has(call, "again")},
    };
    const struct account *account = &request.account.account;
    if (output_name_check(account->name, "a name", ACCOUNT_NAME_MAX, &session->err) != OK ||
        session_open_database(session) != OK)
        return (int)session->err.code;
    int result = change_vault(session, &request, &other);
    uuid_format(result == OK ? account->account_id : other, id);
    if (result == ERR_BUSY)
        return err_set(&session->err, ERR_INVALID,
                       "an account \"%.*s\" already exists (%s); --again creates another one",
                       SLICE_ARG(account->name), id);
    /* The hint goes to stderr, since scripts read the id from the first line of stdout. */
    if (result == OK &&
        !command_has(call, "json")) /* an ambiguous name cannot be used in the next command */
        (void)fprintf(stderr, "next: sluice keys create \"%s\"\n",
                      request.account.is_again ? id : call->argv[0]);
    return result == OK ? print_stored(session, call, account->account_id) : result;
}

/* ---- list, show ---- */

static void put_account_cells(struct output_table *table, const void *row)
{
    const struct account *account = row;
    output_table_uuid(table, account->account_id);
    output_table_time(table, account->created_at);
    output_table_cell(table, account_state(account));
    output_table_cell(table, account->name);
}

static const struct output_list account_list = {
    .row_size = sizeof(struct account),
    .headings = "ACCOUNT|CREATED|STATE|NAME",
    .none = "there are no accounts; `sluice accounts create` creates one",
    .put_cells = put_account_cells,
    .put_json = put_account,
};

static int list_accounts(struct session *session, struct command_call *call)
{
    struct account *all;
    size_t count;
    if (session_open_database(session) != OK ||
        store_account_list_sync(session->sync, &session->arena, &all, &count, &session->err) != OK)
        return (int)session->err.code;
    if (count == ACCOUNT_LIST_MAX)
        (void)fprintf(stderr, "these are the %d oldest accounts; GET /api/accounts lists all\n",
                      ACCOUNT_LIST_MAX);
    return output_list(&account_list, all, count, command_has(call, "json"), &session->arena,
                       &session->err);
}

static int show_account(struct session *session, struct command_call *call)
{
    struct account account;
    if (session_open_account(session, call, &account) != OK)
        return (int)session->err.code;
    return print_one(session, call, &account);
}

/* ---- disable, enable ---- */

/* An account that is already in the requested state does not change, and no event is written. */
static int set_disabled(struct session *session, struct command_call *call,
                        enum vault_command_kind kind)
{
    struct vault_command_request request = {.kind = kind};
    struct account *account = &request.account.account;
    if (session_open_account(session, call, account) != OK ||
        change_vault(session, &request, NULL) != OK)
        return (int)session->err.code;
    return print_stored(session, call, account->account_id);
}

static int disable_account(struct session *session, struct command_call *call)
{
    return set_disabled(session, call, VAULT_ACCOUNT_DISABLE);
}

static int enable_account(struct session *session, struct command_call *call)
{
    return set_disabled(session, call, VAULT_ACCOUNT_ENABLE);
}

/* ---- set ---- */

/* White letters have a contrast of at least 7:1 on each colour. */
static const struct {
    const char *name, *colour;
} colours[] = {{"teal", "#0b6478"}, {"blue", "#26489b"},  {"violet", "#6a2f93"},
               {"red", "#8f2a1c"},  {"amber", "#7a4d00"}, {"green", "#1f6a33"},
               {"grey", "#3b3a35"}};

/* Letters and digits of the scripts in use. Emoji and other pictures are refused, since they
 * would look like a part of the page. */
static bool is_mark_character(uint32_t c)
{
    static const struct {
        uint32_t first, last;
    } scripts[] = {
        {'0', '9'},       {'A', 'Z'},       {'a', 'z'},       {0xC0, 0xD6},     {0xD8, 0xF6},
        {0xF8, 0x24F},    {0x370, 0x373},   {0x386, 0x386},   {0x388, 0x3FF},   {0x400, 0x481},
        {0x48A, 0x52F},   {0x531, 0x556},   {0x561, 0x586},   {0x5D0, 0x5EA},   {0x620, 0x64A},
        {0x660, 0x669},   {0x904, 0x939},   {0xE01, 0xE30},   {0x10D0, 0x10FA}, {0x1E00, 0x1FFC},
        {0x3041, 0x3096}, {0x30A1, 0x30FA}, {0x3400, 0x4DBF}, {0x4E00, 0x9FFF}, {0xAC00, 0xD7A3}};
    for (size_t i = 0; i < ARRAY_LEN(scripts); i++)
        if (c >= scripts[i].first && c <= scripts[i].last)
            return true;
    return false;
}

/* Empty text resets the mark to the first two letters of the name. */
static int read_mark(struct session *session, slice text, slice *mark)
{
    size_t characters = 0;
    bool is_ok = slice_is_utf8(text, NULL);
    for (slice rest = text; is_ok && rest.len > 0; characters++) {
        uint32_t c;
        rest = slice_from(rest, slice_code_point(rest, &c));
        is_ok = is_mark_character(c) && characters < 2;
    }
    *mark = text.len > 0 ? text : SLICE_NONE;
    return is_ok ? OK
                 : err_set(&session->err, ERR_INVALID,
                           "the mark must be one or two letters or digits");
}

/* Reads a name in the list, or #rrggbb, which is stored in lower case. Empty text resets the colour
 * to the pages' default. */
static int read_colour(struct session *session, slice text, slice *colour)
{
    bool is_hex = text.len == 7 && text.ptr[0] == '#';
    char small[7];
    for (size_t i = 0; i < ARRAY_LEN(colours); i++)
        if (slice_eq_cstr(text, colours[i].name)) {
            *colour = slice_cstr(colours[i].colour);
            return OK;
        }
    for (size_t i = 1; is_hex && i < text.len; i++)
        is_hex = ascii_is_hex(text.ptr[i]);
    for (size_t i = 0; is_hex && i < text.len; i++)
        small[i] = ascii_lower(text.ptr[i]);
    *colour = is_hex ? arena_dup(&session->arena, slice_of(small, sizeof(small))) : SLICE_NONE;
    if (text.len == 0 || colour->ptr)
        return OK;
    return err_set(&session->err, ERR_INVALID,
                   "the colour must be #rrggbb, or teal, blue, violet, red, amber, green or grey");
}

static int set_account(struct session *session, struct command_call *call)
{
    struct vault_command_request request = {.kind = VAULT_ACCOUNT_MARK};
    struct account *account = &request.account.account;
    slice mark = command_option(call, "mark"), colour = command_option(call, "colour");
    if (!mark.ptr && !colour.ptr)
        return err_set(&session->err, ERR_INVALID, "nothing to set: give --mark or --colour");
    if (session_open_account(session, call, account) != OK ||
        (mark.ptr && read_mark(session, mark, &account->mark) != OK) ||
        (colour.ptr && read_colour(session, colour, &account->colour) != OK) ||
        change_vault(session, &request, NULL) != OK)
        return (int)session->err.code;
    return print_one(session, call, account);
}

/* ---- export, erase ---- */

/* ---- the table ---- */

static const struct config_option export_options[] = {
    {"out", "FILE", "write to this file instead of stdout; complete or not at all, mode 0600"},
};
static const struct config_option erase_options[] = {
    {"yes", NULL, "confirm that the account is to be erased"},
    {"settle", "TIME",
     "how long to wait for the servers' running work to finish, while rows that it still writes "
     "are erased; at least the longest time that an action may take; 11m by default"},
};
static const struct config_option set_options[] = {
    {"mark", "LETTERS",
     "one or two letters or digits, shown on the account's connect links and in its dashboard; if "
     "empty, the first two of its name"},
    {"colour", "COLOUR",
     "the background of the mark: teal, blue, violet, red, amber, green, grey or #rrggbb; the "
     "letters on it are white or black, whichever is easier to read; if empty, the pages choose "
     "one"},
    {"json", NULL, "print JSON, for scripts"},
};
static const struct config_option create_options[] = {
    {"again", NULL, "create it even if another account has this name"},
    {"json", NULL, "print JSON, for scripts"},
};

static const struct command_verb verbs[] = {
    {"create", "NAME", "Create an account. The first line of the output has its id.",
     create_account, COMMAND_OPTIONS(create_options)},
    {"list", "", "List all accounts, oldest first.", list_accounts, COMMAND_JSON},
    {"show", "ACCOUNT", "Show one account.", show_account, COMMAND_JSON},
    {"set", "ACCOUNT", "Change how an account looks to people who see its pages.", set_account,
     COMMAND_OPTIONS(set_options)},
    {"disable", "ACCOUNT", "Refuse all keys of an account from now on. Nothing is deleted.",
     disable_account, COMMAND_JSON},
    {"enable", "ACCOUNT", "Accept the keys of a disabled account again.", enable_account,
     COMMAND_JSON},
    {"export", "ACCOUNT",
     "Print everything that is stored for an account, one line of JSON per row, without "
     "credentials.",
     accounts_export, COMMAND_OPTIONS(export_options)},
    {"erase", "ACCOUNT", "Delete an account and everything that is stored for it, permanently.",
     accounts_erase, COMMAND_OPTIONS(erase_options), .needs = "yes"},
};

const struct command accounts_command = {
    .name = "accounts",
    .summary = "tenants: create, list, show, set, disable, enable, export, erase",
    .help = "ACCOUNT is an account's id, or its name if that is unique. Running servers apply a "
            "change at once.",
    .scopes = CONFIG_DATABASE | CONFIG_KEYRING,
    COMMAND_VERBS(verbs),
};
