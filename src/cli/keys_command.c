/*
 * sluice keys: manages the API keys of accounts, and the master keys that seal credentials.
 */
#include "base/clock.h"
#include "base/mem.h"
#include "cli/change.h"
#include "cli/commands.h"
#include "cli/output.h"
#include "cli/rotate.h"
#include "policy/policy.h"
#include "tls/tls.h"
#include "vault/key.h"

enum { MASTER_KEY_BYTES_MAX = 256, LIFE_DAYS_MAX = 3650 };

/* The default overlap of `keys roll`. */
#define OVERLAP "24h"

static const int64_t us_per_ms = 1000, ms_per_day = 86400000;

/* ---- create ---- */

/* Reads a duration from now or a point in time, in microseconds since 1970; 0 means that the key
 * never expires. A time in the past is an error, since the key would be useless. */
static int read_expiry(slice text, int64_t *expires_at, struct err *err)
{
    uint64_t ms;
    int64_t now = clock_shared_us();
    *expires_at = 0;
    if (!text.ptr || slice_eq_cstr(text, "never"))
        return OK;
    /* The text is read as a duration first: no point in time has that form. */
    bool is_span = config_parse_ms(text, &ms);
    if (is_span && ms <= (uint64_t)(LIFE_DAYS_MAX * ms_per_day))
        *expires_at = now + (int64_t)ms * us_per_ms;
    else if (is_span || !time_parse(text, expires_at))
        return err_set(err, ERR_INVALID,
                       "expires must be a time such as 90d or 12h (at most %dd), or "
                       "2027-01-31T00:00:00Z, got \"%.*s\"",
                       LIFE_DAYS_MAX, SLICE_ARG(text));
    if (*expires_at <= now)
        return err_set(err, ERR_INVALID, "expires must be in the future, got \"%.*s\"",
                       SLICE_ARG(text));
    return OK;
}

/* Reads an option whose value, if given, must be one of `words` (separated by spaces). */
static int read_word(const struct command_call *call, const char *name, const char *words,
                     slice *value, struct err *err)
{
    *value = command_option(call, name);
    if (!value->ptr || slice_has_word(slice_cstr(words), *value))
        return OK;
    return err_set(err, ERR_INVALID, "%s must be %s, got \"%.*s\"", name, words,
                   SLICE_ARG(slice_first_utf8(*value, 40)));
}

/* Opens the database and finds the account of the first argument. With --operator there is no such
 * argument, and the keys are those of the nil account. others: the number of other arguments. */
static int open_owner(struct session *session, const struct command_call *call, int others,
                      struct account *account)
{
    bool is_operator = command_has(call, "operator");
    *account = (struct account){.disabled_at = 0};
    if (call->argc != others + !is_operator)
        return err_set(&session->err, ERR_INVALID,
                       is_operator ? "with --operator there is no ACCOUNT"
                                   : "name the ACCOUNT, or give --operator");
    return is_operator ? session_open_database(session)
                       : session_open_account(session, call, account);
}

/* Fills in the key from the options: name, scopes (all by default), addresses, expiry, limits
 * over /mcp. */
static int read_options(struct session *session, const struct command_call *call,
                        struct api_key *key)
{
    struct err *err = &session->err;
    slice name = command_option(call, "name"), scopes = command_option(call, "scopes");
    slice addresses = command_option(call, "allow-address");
    bool is_operator = command_has(call, "operator");
    if (addresses.ptr && command_has(call, "addresses"))
        return err_set(err, ERR_INVALID,
                       "--addresses and --allow-address are the same: give one of them");
    const char *option = addresses.ptr ? "allow-address" : "addresses";
    if (!addresses.ptr)
        addresses = command_option(call, "addresses");
    key->name = name.ptr ? name : SLICE("");
    key->scopes = is_operator ? SCOPE_OPERATOR : SCOPE_ALL;
    if (is_operator && (scopes.ptr || !addresses.ptr))
        return err_set(err, ERR_INVALID,
                       "a key of the operator needs --addresses, and has no other scopes");
    key->policy = command_option(call, "policy");
    if (key->policy.ptr && (is_operator || !policy_is_name(key->policy)))
        return err_set(err, ERR_INVALID,
                       is_operator ? "a key of the operator has no policy"
                                   : "policy must be the name of one of the account's policies");
    /* The name is optional, but an invalid one is an error. */
    if (name.len > 0 && output_name_check(name, "a name", API_KEY_NAME_MAX, err) != OK)
        return (int)err->code;
    if (scopes.ptr && scopes_parse(scopes, &key->scopes, err) != OK)
        return (int)err->code;
    if (addresses.ptr &&
        vault_key_addresses(addresses, &session->arena, &key->addresses, err) != OK)
        return err_prefix(err, "%s", option);
    if (is_operator && (slice_has_word(key->addresses, SLICE("0.0.0.0/0")) ||
                        slice_has_word(key->addresses, SLICE("::/0"))))
        return err_set(err, ERR_INVALID,
                       "addresses: a key of the operator is bound to fewer addresses than all");
    if (read_word(call, "forms", "never", &key->forms, err) != OK ||
        read_word(call, "unattended-writes", "allow hold refuse", &key->unattended_writes, err) !=
            OK)
        return (int)err->code;
    return read_expiry(command_option(call, "expires"), &key->expires_at, err);
}

static void put_api_key(struct json_writer *w, const struct api_key *key, const char *secret)
{
    char scopes[48];
    json_member_uuid(w, "id", key->id);
    /* Only a new key has its text; lists have only the prefix. */
    if (secret)
        json_member_str(w, "key", slice_cstr(secret));
    json_member_str(w, "prefix", key->prefix);
    json_member_str(w, "name", key->name);
    json_member_str(w, "scopes", scopes_format(key->scopes, scopes));
    json_member_time(w, "created_at", key->created_at);
    json_member_time(w, "expires_at", key->expires_at);
    json_member_time(w, "revoked_at", key->revoked_at);
    json_member_time(w, "last_used_at", key->last_used_at);
    json_member_str(w, "addresses", key->addresses);
    json_member_str(w, "user", key->external_id);
    json_member_str(w, "forms", key->forms);
    json_member_str(w, "unattended_writes", key->unattended_writes);
    json_member_str(w, "policy", key->policy);
}

/* Only the key goes to stdout, so that a script can read it. */
static int print_new(struct session *session, const struct command_call *call,
                     const struct api_key *key, const char *secret)
{
    char id[UUID_TEXT_LEN + 1];
    if (command_has(call, "json")) {
        struct json_text json;
        put_api_key(output_json_begin(&json, '{'), key, secret);
        return output_json_end(&json, '{', &session->err);
    }
    uuid_format(key->id, id);
    (void)fprintf(stderr, "key %s; the secret is printed only this once:\n", id);
    (void)printf("%s\n", secret);
    return OK;
}

/* Generates, stores and prints a key. The database gets the hash of the key, not its text. */
static int make_key(struct session *session, struct command_call *call,
                    const struct account *account, struct vault_command_request *request)
{
    struct vault_key fresh;
    struct api_key *key = &request->key.key;
    if (account->erase_at)
        return err_set(&session->err, ERR_REFUSED, "the account is being erased and gets no keys");
    vault_key_new(&fresh);
    /* In lists, id and prefix identify the key; neither grants access. */
    memcpy(key->hash, fresh.hash, sizeof(key->hash));
    key->account_id = account->account_id;
    key->id = uuid_v7();
    key->prefix = slice_cstr(fresh.prefix);
    key->created_at = clock_shared_us();
    int result = change_vault(session, request, NULL);
    if (result == OK)
        result = print_new(session, call, key, fresh.text);
    if (result == OK && account->disabled_at)
        (void)fprintf(stderr, "the account is disabled: its keys are refused\n");
    mem_wipe(&fresh, sizeof(fresh));
    return result;
}

static int create_key(struct session *session, struct command_call *call)
{
    struct account account;
    struct vault_command_request request = {.kind = VAULT_KEY_CREATE};
    if (read_options(session, call, &request.key.key) != OK ||
        tls_library_init(&session->err) != OK || open_owner(session, call, 0, &account) != OK)
        return (int)session->err.code;
    /* The key is generated last, so that an error above leaves no key text in memory. */
    return make_key(session, call, &account, &request);
}

/* ---- list ---- */

static const char *api_key_state(const struct api_key *key)
{
    if (key->revoked_at)
        return "revoked";
    return key->expires_at && key->expires_at <= clock_shared_us() ? "expired" : "live";
}

/* Returns the key's limits over MCP (its members forms and unattended_writes) in words; empty if
 * the server's settings apply. */
static const char *mcp_limits(const struct api_key *key)
{
    static const char *const words[][2] = {
        [UNATTENDED_BY_SETTING] = {"", "forms never"},
        [UNATTENDED_ALLOWED] = {"unattended allow", "forms never, unattended allow"},
        [UNATTENDED_HELD] = {"unattended hold", "forms never, unattended hold"},
        [UNATTENDED_REFUSED] = {"unattended refuse", "forms never, unattended refuse"},
    };
    return words[vault_unattended_parse(key->unattended_writes)][key->forms.ptr != NULL];
}

static void put_key_cells(struct output_table *table, const void *row)
{
    const struct api_key *key = row;
    char scopes[48];
    output_table_uuid(table, key->id);
    output_table_cell(table, key->prefix);
    output_table_cell(table, slice_cstr(api_key_state(key)));
    output_table_cell(table, scopes_format(key->scopes, scopes));
    output_table_time(table, key->created_at);
    output_table_time(table, key->expires_at);
    output_table_time(table, key->last_used_at);
    output_table_cell(table, key->addresses.ptr ? key->addresses : SLICE("any"));
    output_table_cell(table, slice_cstr(mcp_limits(key)));
    output_table_cell(table, key->external_id);
    output_table_cell(table, key->policy);
    output_table_cell(table, key->name);
}

static void put_listed_key(struct json_writer *w, const void *row)
{
    put_api_key(w, row, NULL);
}

static const struct output_list key_list = {
    .row_size = sizeof(struct api_key),
    .headings = "KEY|PREFIX|STATE|SCOPES|CREATED|EXPIRES|USED|FROM|MCP|USER|POLICY|NAME",
    .none = "the account has no keys; `sluice keys create` makes one",
    .put_cells = put_key_cells,
    .put_json = put_listed_key,
    .load = store_api_key_list_sync,
};

static int list_keys(struct session *session, struct command_call *call)
{
    struct account account;
    return open_owner(session, call, 0, &account) == OK
               ? session_print_list(session, call, &key_list, account.account_id)
               : (int)session->err.code;
}

/* ---- revoke, roll ---- */

/* Finds a key by its id, or by its prefix if no other key has the same prefix. */
static int find_key(struct session *session, struct uuid account_id, slice text,
                    struct api_key *key)
{
    size_t count, found = 0;
    struct uuid id;
    bool is_id = uuid_parse(text, &id);
    if (is_id)
        return store_api_key_get_sync(session->sync, &session->arena, account_id, id, key,
                                      &session->err);
    const struct api_key *keys =
        store_api_key_list_sync(session->sync, &session->arena, account_id, &count, &session->err);
    if (!keys)
        return (int)session->err.code;
    for (size_t i = 0; i < count; i++) {
        if (!slice_eq(keys[i].prefix, text))
            continue;
        *key = keys[i];
        found++;
    }
    if (found == 1)
        return OK;
    return err_set(&session->err, ERR_NOTFOUND,
                   found ? "several keys begin with \"%.*s\": give the id"
                         : "the account has no key \"%.*s\"; `sluice keys list` shows them",
                   SLICE_ARG(slice_first(text, VAULT_KEY_PREFIX_LEN)));
}

static int revoke(struct session *session, struct command_call *call)
{
    struct account account;
    struct vault_command_request request = {.kind = VAULT_KEY_REVOKE};
    struct api_key *key = &request.key.key;
    if (open_owner(session, call, 1, &account) != OK ||
        find_key(session, account.account_id, slice_cstr(call->argv[call->argc - 1]), key) != OK ||
        change_vault(session, &request, NULL) != OK)
        return (int)session->err.code;
    (void)printf("revoked %.*s\n", SLICE_ARG(key->prefix));
    return OK;
}

/* Sets the end of the old key, but not later than its own expiry. */
static int read_overlap(slice text, struct api_key *old, struct err *err)
{
    uint64_t ms;
    if (!text.ptr)
        text = SLICE(OVERLAP);
    if (!config_parse_ms(text, &ms) || ms > (uint64_t)(LIFE_DAYS_MAX * ms_per_day))
        return err_set(err, ERR_INVALID,
                       "overlap must be a time such as 24h or 0s (at most %dd), got \"%.*s\"",
                       LIFE_DAYS_MAX, SLICE_ARG(text));
    int64_t until = clock_shared_us() + (int64_t)ms * us_per_ms;
    if (!old->expires_at || until < old->expires_at)
        old->expires_at = until;
    return OK;
}

/* The new key is created and the old one is ended in one change: no failure leaves a client
 * without a valid key. Two processes that roll the same key at the same time make two new keys,
 * and the earlier end applies. */
static int roll(struct session *session, struct command_call *call)
{
    struct account account;
    struct api_key old;
    char until[TIME_TEXT_LEN + 1];
    slice expires = command_option(call, "expires");
    if (session_open_account(session, call, &account) != OK ||
        tls_library_init(&session->err) != OK ||
        find_key(session, account.account_id, slice_cstr(call->argv[1]), &old) != OK)
        return (int)session->err.code;
    if (strcmp(api_key_state(&old), "live") != 0)
        return err_set(
            &session->err, ERR_INVALID,
            "the key %.*s is %s and cannot be rolled; `sluice keys create` creates another",
            SLICE_ARG(old.prefix), api_key_state(&old));
    struct vault_command_request request = {
        .kind = VAULT_KEY_ROLL,
        .key = {.key = old, .replaces = old.id},
        .is_new_expiry = true,
    };
    int64_t *end = &request.key.key.expires_at;
    request.key.key.last_used_at = 0;
    /* The new key gets the lifetime of the old one. */
    if (old.expires_at)
        *end = clock_shared_us() + (old.expires_at - old.created_at);
    if ((expires.ptr && read_expiry(expires, end, &session->err) != OK) ||
        read_overlap(command_option(call, "overlap"), &old, &session->err) != OK)
        return (int)session->err.code;
    /* The statement ends the old key at this time, unless that key expires earlier. */
    request.key.replaced_until = old.expires_at;
    if (make_key(session, call, &account, &request) != OK)
        return (int)session->err.code;
    time_format(old.expires_at, until);
    (void)fprintf(stderr, "the old key %.*s is refused from %s on\n", SLICE_ARG(old.prefix), until);
    return OK;
}

/* ---- master ---- */

static int master(struct session *session, struct command_call *call)
{
    struct buf text;
    (void)call;
    if (tls_library_init(&session->err) != OK)
        return (int)session->err.code;
    buf_init(&text, MASTER_KEY_BYTES_MAX);
    vault_master_key_new(&text);
    bool is_ok = buf_is_ok(&text);
    if (is_ok)
        (void)fwrite(text.ptr, 1, text.len, stdout);
    mem_wipe(text.ptr, text.len);
    buf_deinit(&text);
    return is_ok ? OK : err_set(&session->err, ERR_NOMEM, "out of memory for the key");
}

/* ---- the table ---- */

static const struct config_option create_options[] = {
    {"name", "NAME", "what the key is for, shown in lists"},
    {"scopes", "LIST",
     "some of read, execute (or execute:read, execute:write), approve, admin; all by "
     "default"},
    {"expires", "TIME", "such as 90d, 12h or 2027-01-31T00:00:00Z; never by default"},
    {"allow-address", "LIST", "addresses and networks such as 10.1.0.0/16,::1; any by default"},
    {"addresses", "LIST", "the same as --allow-address"},
    {"operator", NULL,
     "a key for /api/accounts, which belongs to no account; give --addresses and no ACCOUNT"},
    {"forms", "WHEN",
     "never: there is no one to answer forms over /mcp (as in CI); the confirm argument is enough"},
    {"unattended-writes", "MODE",
     "allow, hold (until a person approves them) or refuse writes over /mcp that cannot be "
     "confirmed in a form; by default as the server's setting says"},
    {"policy", "NAME",
     "what the key may do (sluice policy); by default the account's policy that is "
     "named " POLICY_DEFAULT_NAME ", if there is one"},
    {"json", NULL, "print JSON, for scripts"},
};

static const struct config_option roll_options[] = {
    {"overlap", "TIME",
     "how long both keys are valid; " OVERLAP " by default; 0s: the old key ends at once"},
    {"expires", "TIME",
     "when the new key expires; by default it gets the same lifetime as the old one"},
    {"json", NULL, "print JSON, for scripts"},
};

static const struct config_option list_options[] = {
    {"operator", NULL, "the keys for /api/accounts, which belong to no account"},
    {"json", NULL, "print JSON, for scripts"},
};

static const struct config_option revoke_options[] = {
    {"operator", NULL, "KEY is for /api/accounts, and belongs to no account"},
};

static const struct command_verb verbs[] = {
    {"create", "[ACCOUNT]", "Make an API key. It is printed once: only its hash is stored.",
     create_key, COMMAND_OPTIONS(create_options)},
    {"list", "[ACCOUNT]", "List the keys of an account.", list_keys, COMMAND_OPTIONS(list_options)},
    {"roll", "ACCOUNT KEY",
     "Create a key with the same name, scopes and limits. The old one expires soon.", roll,
     COMMAND_OPTIONS(roll_options)},
    {"revoke", "[ACCOUNT] KEY", "Refuse a key from now on. KEY is its id or its prefix.", revoke,
     COMMAND_OPTIONS(revoke_options)},
    {"master", "", "Print a new master key. Keep it in a file of mode 0600 (master-key-file).",
     master, COMMAND_NO_OPTIONS},
    {"rotate", "", "Seal all stored credentials under the first master key.", rotate_all,
     COMMAND_NO_OPTIONS},
};

const struct command keys_command = {
    .name = "keys",
    .summary = "API keys: create, list, roll, revoke; master keys: master, rotate",
    .help = "To change the master key, add a new one (`sluice keys master`) as the last line of "
            "the file and restart the servers, so that all of them can open what it seals. Then "
            "move it to the first line and restart them again. Then run `sluice keys rotate` and "
            "remove the old line. With a single server you can skip the first restart.",
    .scopes = CONFIG_DATABASE | CONFIG_KEYRING,
    COMMAND_VERBS(verbs),
};
