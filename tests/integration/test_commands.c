/*
 * Every operator command with a real database: its effect, its output, and its message if it fails.
 * Runs the real program.
 */
#include "unit/support/folder.h"

#include <signal.h>

#include "integration/support/program.h"
#include "json/json.h"
#include "pg/sync.h"
#include "unit/support/pg_cluster.h"

static const char master_one[] = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=\n";
static const char master_two[] =
    "202122232425262728292a2b2c2d2e2f303132333435363738393a3b3c3d3e3f\n";

static const char *database_url;
static struct folder folder;
static char key_path[TEST_PATH_MAX];
static struct program last;
static struct arena arena;

/* Runs `sluice WORD ...`, which must end with that code. */
#define RUN(code, ...)           run_args((code), NULL, (const char *const[]){__VA_ARGS__, NULL})
#define RUN_IN(code, input, ...) run_args((code), (input), (const char *const[]){__VA_ARGS__, NULL})

static void run_args(int code, const char *input, const char *const *args)
{
    program_free(&last);
    program_start(&last, program_sluice(), args, input, 0);
    program_wait(&last);
    if (last.status != code)
        fail_msg("sluice %s %s: exit %d\n%s%s", args[0], args[1] ? args[1] : "", last.status,
                 last.out, last.err);
}

#define assert_out(part) assert_contains(last.out, part)
#define assert_err(part) assert_contains(last.err, part)

static const struct json *out_json(void)
{
    struct err err;
    const struct json *value = json_parse(&arena, slice_cstr(last.out), &json_limits_request, &err);
    if (!value)
        fail_msg("%s in: %s", err.text, last.out);
    return value;
}

/* A member of the printed JSON, as C text. */
static const char *out_text(const char *pointer)
{
    const struct json *value = json_pointer(out_json(), slice_cstr(pointer));
    if (!json_is(value, JSON_STRING))
        fail_msg("no text at %s in: %s", pointer, last.out);
    return arena_cstr(&arena, json_str(value));
}

/* One cell of the database as text, "" for NULL and for no row. */
static const char *query(const char *sql)
{
    struct err err = {.text = ""};
    struct pg_rows rows = {.count = 0};
    struct pg_sync *sync = pg_sync_open(database_url, &err);
    if (!sync || pg_sync_text(sync, sql, &arena, &rows, &err) != OK)
        fail_msg("%s: %s", sql, err.text);
    pg_sync_close(sync);
    slice cell = rows.count > 0 ? pg_get_bytes(&rows, 0, 0) : SLICE_NONE;
    return arena_cstr(&arena, cell);
}

static const char *new_account(const char *name)
{
    RUN(0, "accounts", "create", name, "--json");
    return out_text("/account_id");
}

/* ---- the schema ---- */

static void nothing_works_before_migrate_and_says_so(void **state)
{
    (void)state;
    RUN(1, "accounts", "list");
    assert_err("sluice migrate");
    RUN(1, "migrate", "--check");
    assert_err("sluice migrate");
    RUN(0, "migrate");
    assert_out("applying 0001_base.sql\n");
    assert_out("the schema is now at version ");
    RUN(0, "migrate");
    assert_out("already");
    RUN(0, "migrate", "--check");
    assert_out("current");
}

static void a_plain_postgresql_is_not_sharded(void **state)
{
    (void)state;
    RUN(2, "migrate", "--shards", "8");
    assert_err("--shards must be a number from 1 to 1024, and needs --citus");
    RUN(2, "migrate", "--citus", "--shards", "0");
    assert_err("--shards must be a number from 1 to 1024");
    RUN(1, "migrate", "--citus", "--shards", "8");
    assert_err("sluice migrate: the database has no Citus");
    RUN(1, "serve", "--master-key-file", key_path, "--database-batch", "sharded");
    assert_err("run `sluice migrate --citus`, or set database-batch to set");
}

static void a_missing_database_is_reported(void **state)
{
    (void)state;
    unsetenv("SLUICE_DATABASE_URL");
    RUN(1, "accounts", "list");
    assert_err("sluice accounts list: no database: set DATABASE_URL");
    RUN(2, "migrate");
    assert_err("no database");
    RUN(1, "serve", "--master-key-file", key_path);
    assert_err("no database");
    RUN(1, "accounts", "list", "--database-url", "host=/nowhere dbname=x");
    assert_err("/nowhere");
    setenv("SLUICE_DATABASE_URL", database_url, 1);
}

/* ---- accounts ---- */

static void accounts_live_and_are_disabled(void **state)
{
    (void)state;
    RUN(0, "accounts", "list");
    assert_out("there are no accounts");
    const char *id = new_account("M\xc3\xbcller & Co");
    RUN(0, "accounts", "list");
    assert_out("ACCOUNT");
    assert_out("M\xc3\xbcller & Co");
    RUN(0, "accounts", "show", id);
    assert_out("state   live");
    RUN(0, "accounts", "disable", "M\xc3\xbcller & Co", "--json");
    assert_string_equal(out_text("/account_id"), id);
    assert_non_null(out_text("/disabled_at"));
    RUN(0, "accounts", "disable", id);
    assert_out("disabled");
    RUN(0, "accounts", "list");
    assert_out("disabled");
    RUN(0, "accounts", "enable", id);
    assert_out("state   live");
    RUN(0, "accounts", "list", "--json");
    assert_int_equal(out_json()->count, 1);
    /* one event for each change; a second disabling makes none */
    assert_string_equal(query("select string_agg(kind, ' ' order by id) from sluice.audit_event"),
                        "account.created account.disabled account.enabled");
}

/* An account's title, mark and colour: names of colours are stored as pages write them. */
static void an_account_has_a_mark_and_a_colour(void **state)
{
    (void)state;
    const char *id = new_account("Look");
    RUN(1, "accounts", "set", id);
    assert_err("nothing to set");
    static const char *const marks[] = {
        "", "ABC", "a b", "<b", "\xF0\x9F\x98\x80", "\xE2\x9C\x93", "A\xFF"};
    for (size_t i = 1; i < ARRAY_LEN(marks); i++) {
        RUN(1, "accounts", "set", id, "--mark", marks[i]);
        assert_err("the mark must be one or two letters or digits");
    }
    static const char *const colours[] = {"#0b647", "#0b647g", "0b6478a", "url(#x)", "Teal"};
    for (size_t i = 0; i < ARRAY_LEN(colours); i++) {
        RUN(1, "accounts", "set", id, "--mark", "A", "--colour", colours[i]);
        assert_err("the colour must be #rrggbb, or teal");
    }
    assert_string_equal(query("select count(*) from sluice.account where mark is not null"), "0");
    RUN(0, "accounts", "set", id, "--mark", "\xC3\x84\xE6\x97\xA5", "--colour", "teal");
    assert_out("mark    \xC3\x84\xE6\x97\xA5\n");
    assert_out("colour  #0b6478\n");
    RUN(0, "accounts", "set", "Look", "--colour", "#FFcc00", "--json");
    assert_string_equal(out_text("/mark"), "\xC3\x84\xE6\x97\xA5");
    assert_string_equal(out_text("/colour"), "#ffcc00");
    RUN(0, "accounts", "set", id, "--mark", "", "--colour", "");
    assert_string_equal(
        query("select concat(mark, colour, '.') from sluice.account where name = 'Look'"), ".");
    assert_string_equal(
        query("select count(*) from sluice.audit_event where kind = 'account.changed'"), "3");
}

/* A transaction for each day: on a cluster, the partitions of a week take too long for a single
 * one. */
static void a_command_makes_missing_partitions_one_by_one(void **state)
{
    (void)state;
    query("do $$ begin for n in 0..7 loop execute 'drop table sluice.audit_event_' || "
          "to_char((now() at time zone 'UTC')::date + n, 'YYYYMMDD'); end loop; end $$");
    new_account("Partitions");
    assert_string_equal(
        query("select count(*) || ' in ' || count(distinct xmin::text) from pg_class "
              "where relname ~ '^audit_event_[0-9]{8}$' and "
              "right(relname, 8)::date >= (now() at time zone 'UTC')::date"),
        "8 in 8");
}

static void bad_accounts_are_refused(void **state)
{
    (void)state;
    RUN(1, "accounts", "create", "");
    assert_err("a name must have 1 to 200 characters");
    RUN(1, "accounts", "create", "a\x1b[2J");
    assert_err("must not contain control characters");
    RUN(2, "accounts", "create");
    assert_err("an argument is missing: NAME");
    RUN(1, "accounts", "show", "nobody");
    assert_err("there is no account with the id or name \"nobody\""); /* words: ok */
    RUN(1, "accounts", "show", "01a1fcc0-b337-761a-81da-6a741b70f9ab");
    assert_err("there is no account with that id");
    char first[64], refusal[128];
    snprintf(first, sizeof(first), "%s", new_account("twin"));
    RUN(1, "accounts", "create", "twin");
    snprintf(refusal, sizeof(refusal), "an account \"twin\" already exists (%s); --again", first);
    assert_err(refusal);
    RUN(0, "accounts", "create", "twin", "--again");
    RUN(1, "accounts", "disable", "twin");
    assert_err("several accounts are named \"twin\"");
}

/* ---- keys ---- */

static void a_key_is_shown_once_and_stored_as_a_hash(void **state)
{
    (void)state;
    const char *account = new_account("keys");
    RUN(0, "keys", "create", "keys");
    assert_int_equal(strlen(last.out), 47);
    assert_int_equal(strncmp(last.out, "sk_", 3), 0);
    assert_err("the secret is printed only this once");
    char secret[64];
    snprintf(secret, sizeof(secret), "%.46s", last.out);
    RUN(0, "keys", "list", account);
    assert_out("live");
    assert_out("admin");
    assert_null(strstr(last.out, secret + 12));
    assert_string_equal(
        query("select count(*)::text from sluice.api_key where octet_length(hash) = "
              "32 and hash = sha256(convert_to('x', 'UTF8'))"),
        "0");
    char sql[400];
    snprintf(sql, sizeof(sql),
             "select count(*)::text from sluice.api_key where hash = sha256('%s'::bytea)", secret);
    assert_string_equal(query(sql), "1");
    RUN(0, "keys", "create", "keys", "--name", "agent", "--scopes", "read,execute", "--expires",
        "90d", "--json");
    assert_string_equal(out_text("/scopes"), "read execute");
    assert_string_equal(out_text("/name"), "agent");
    const char *id = out_text("/id"), *prefix = out_text("/prefix");
    assert_int_equal(strncmp(out_text("/key"), prefix, strlen(prefix)), 0);
    assert_string_equal(
        query("select round(extract(epoch from expires_at - created_at) / 86400)::text from "
              "sluice.api_key where name = 'agent'"),
        "90");
    RUN(0, "keys", "revoke", account, prefix);
    assert_out("revoked sk_");
    RUN(0, "keys", "revoke", account, id);
    RUN(0, "keys", "list", "keys", "--json");
    assert_int_equal(out_json()->count, 2);
    assert_non_null(out_text("/1/revoked_at"));
    assert_null(strstr(last.out, "\"key\""));
    RUN(0, "keys", "list", "keys");
    assert_out("revoked");
    assert_string_equal(query("select count(*)::text from sluice.audit_event where kind in "
                              "('key.created', 'key.revoked') and details->>'key_id' is not null"),
                        "3"); /* the key was revoked only once */
}

static void a_key_is_rolled_with_overlap(void **state)
{
    (void)state;
    const char *account = new_account("rolled");
    RUN(0, "keys", "create", account, "--name", "agent", "--scopes", "read,execute",
        "--allow-address", "10.1.0.0/16,2001:db8::1", "--expires", "90d", "--json");
    const char *old = out_text("/id");
    assert_string_equal(out_text("/addresses"), "10.1.0.0/16 2001:db8::1");
    RUN(0, "keys", "list", account);
    assert_out("10.1.0.0/16 2001:db8::1");
    RUN(0, "keys", "roll", account, old, "--overlap", "2d", "--json");
    assert_err("is refused from 20");
    assert_string_equal(out_text("/addresses"), "10.1.0.0/16 2001:db8::1");
    assert_string_equal(out_text("/scopes"), "read execute");
    assert_string_equal(out_text("/name"), "agent");
    assert_int_equal(strncmp(out_text("/key"), "sk_", 3), 0);
    const char *fresh = out_text("/id");
    /* In days: the remaining lifetime of the old key, and the lifetime of the new key. */
    char sql[400];
    snprintf(sql, sizeof(sql),
             "select string_agg(round(extract(epoch from expires_at - now()) / 86400)::text, ' ' "
             "order by id) from sluice.api_key where account_id = '%s'",
             account);
    assert_string_equal(query(sql), "2 90");
    RUN(1, "keys", "roll", account, old, "--overlap", "9d");
    assert_err("a newer key of its line is valid");
    assert_string_equal(query(sql), "2 90");
    /* a longer overlap does not prolong a key's lifetime */
    RUN(0, "keys", "create", account, "--expires", "3d", "--json");
    const char *brief = out_text("/id");
    RUN(0, "keys", "roll", account, brief, "--overlap", "9d", "--expires", "30d");
    assert_string_equal(query(sql), "2 90 3 30");
    snprintf(sql, sizeof(sql),
             "select string_agg((details->>'replaces' = '%s')::text, ' ') from sluice.audit_event "
             "where kind = 'key.rolled' and account_id = '%s' and details->>'replaces' <> '%s'",
             old, account, brief);
    assert_string_equal(query(sql), "true");
    RUN(1, "keys", "roll", account, fresh, "--overlap", "soon");
    assert_err("overlap must be a time such as 24h or 0s (at most 3650d), got \"soon\"");
    RUN(1, "keys", "roll", account, "sk_nothing");
    assert_err("the account has no key");
    RUN(0, "keys", "roll", account, fresh, "--overlap", "0s");
    RUN(1, "keys", "roll", account, fresh);
    assert_err("is expired and cannot be rolled; `sluice keys create`");
    RUN(0, "keys", "revoke", account, old);
    RUN(1, "keys", "roll", account, old);
    assert_err("is revoked and cannot be rolled; `sluice keys create`");
}

static void bad_keys_are_refused(void **state)
{
    (void)state;
    new_account("bad keys");
    RUN(1, "keys", "create", "bad keys", "--scopes", "read,write");
    assert_err("\"write\" is not a scope");
    RUN(1, "keys", "create", "bad keys", "--expires", "soon");
    assert_err("90d or 12h");
    RUN(1, "keys", "create", "bad keys", "--expires", "2001-01-01T00:00:00Z");
    assert_err("expires must be in the future");
    RUN(1, "keys", "create", "bad keys", "--expires", "99999d");
    assert_err("at most 3650d");
    RUN(1, "keys", "create", "bad keys", "--name", "a\nb");
    assert_err("must not contain control characters");
    RUN(1, "keys", "create", "bad keys", "--allow-address", "10.1.2.3/16");
    assert_err("allow-address: the network \"10.1.2.3/16\" has bits set after its prefix");
    RUN(1, "keys", "create", "bad keys", "--allow-address", "10.1.0.0/16,");
    assert_err("allow-address: \"\" is not a network");
    RUN(1, "keys", "create", "nobody");
    RUN(1, "keys", "revoke", "bad keys", "sk_nothing");
    assert_err("the account has no key");
    RUN(0, "keys", "list", "bad keys");
    assert_out("the account has no keys");
}

static void master_keys_are_fresh(void **state)
{
    (void)state;
    char first[100];
    RUN(0, "keys", "master");
    assert_int_equal(strlen(last.out), 45);
    snprintf(first, sizeof(first), "%s", last.out);
    RUN(0, "keys", "master");
    assert_string_not_equal(last.out, first);
}

/* ---- connections ---- */

static void a_connection_is_sealed_and_listed(void **state)
{
    (void)state;
    const char *account = new_account("apps");
    RUN_IN(0, "{\"access_token\":\"t0p-s3cret\",\"expires_at\":\"2031-01-01T00:00:00Z\"}",
           "connections", "add", account, "gmail", "--label", "Work", "--credential-file", "-",
           "--scopes", " a  b ", "--json");
    char first[32], second[32], path[TEST_PATH_MAX];
    snprintf(first, sizeof(first), "%s", out_text("/id"));
    folder_write(&folder, "cred", "{\"access_token\":\"other\"}", 0600);
    RUN(0, "connections", "add", "apps", "gmail", "--credential-file",
        folder_path(&folder, "cred", path));
    assert_int_equal(sscanf(last.out, "connection %31s", second), 1);
    RUN(0, "connections", "list", account, "--json");
    assert_int_equal(out_json()->count, 2);
    assert_string_equal(out_text("/0/id"), first);
    assert_string_equal(out_text("/0/scopes"), "a b");
    assert_string_equal(out_text("/0/expires_at"), "2031-01-01T00:00:00.000Z");
    assert_string_equal(out_text("/1/label"), "Gmail");
    assert_true(json_get_bool(json_at(out_json(), 0), SLICE("default"), false));
    assert_false(json_get_bool(json_at(out_json(), 1), SLICE("default"), true));
    RUN(0, "connections", "default", account, second);
    RUN(0, "connections", "list", account);
    assert_out("Work");
    assert_string_equal(query("select label from sluice.connection where is_default"), "Gmail");
    RUN(0, "connections", "remove", account, first);
    assert_string_equal(query("select count(*)::text from sluice.connection"), "1");
    RUN(0, "connections", "remove", account, second);
    RUN(0, "connections", "list", account);
    assert_out("the account has no connections");
    assert_string_equal(query("select string_agg(kind, ' ' order by id) from sluice.audit_event "
                              "where kind like 'connection.%'"),
                        "connection.added connection.added connection.default_set "
                        "connection.removed connection.removed");
    assert_string_equal(query("select count(*)::text from sluice.audit_event where "
                              "kind like 'connection.%' and details->>'integration_id' = 'gmail'"),
                        "5");
    assert_string_equal(query("select count(*)::text from sluice.audit_event where "
                              "audit_event::text like '%s3cret%'"),
                        "0");
}

static void a_change_that_fails_leaves_no_event(void **state)
{
    (void)state;
    new_account("no events");
    char before[32];
    snprintf(before, sizeof(before), "%s", query("select count(*)::text from sluice.audit_event"));
    RUN(1, "connections", "remove", "no events", "123");
    assert_err("the account has no connection with that id");
    RUN(1, "connections", "default", "no events", "123");
    assert_err("the account has no connection with that id");
    assert_string_equal(query("select count(*)::text from sluice.audit_event"), before);
}

static void bad_connections_are_refused(void **state)
{
    (void)state;
    new_account("bad apps");
    RUN(1, "connections", "add", "bad apps", "gmial", "--credential-file", "-");
    assert_err("there is no integration \"gmial\"; did you mean gmail?");
    RUN(1, "connections", "add", "bad apps", "gmail");
    assert_err("--credential-file is missing");
    assert_err("access_token");
    RUN(1, "connections", "add", "bad apps", "gmail", "--credential-file", "/no/such/file");
    assert_err("cannot open /no/such/file");
    RUN_IN(1, "", "connections", "add", "bad apps", "gmail", "--credential-file", "-");
    assert_err("stdin is empty");
    RUN_IN(1, "{\"token\":\"t0p-s3cret\"}", "connections", "add", "bad apps", "gmail",
           "--credential-file", "-");
    assert_err("has a member \"token\"");
    assert_null(strstr(last.err, "s3cret"));
    RUN_IN(1, "{\"access_token\":\"x\"}", "connections", "add", "bad apps", "gmail",
           "--credential-file", "-", "--params", "{\"shop\":1}");
    assert_err("params");
    RUN_IN(1, "{\"access_token\":\"x\"}", "connections", "add", "bad apps", "gmail",
           "--credential-file", "-", "--params", "[");
    assert_err("params");
    RUN(1, "connections", "remove", "bad apps", "x1");
    assert_err("CONNECTION must be a number");
    assert_string_equal(query("select count(*)::text from sluice.connection"), "0");
}

/* params must match the integration's own schema, and auth none needs no connection. */
static void an_integrations_own_rules_hold(void **state)
{
    (void)state;
    static const char action[] =
        "\"actions\":[{\"action_id\":\"get\",\"title\":\"Get\",\"description\":\"Gets it.\","
        "\"side_effect_level\":\"read\",\"input_schema\":{\"type\":\"object\","
        "\"properties\":{},\"additionalProperties\":false},\"request\":{\"method\":\"GET\","
        "\"path\":\"/\"},\"display\":{\"title\":\"Got\",\"summary\":\"Got it.\"}}]}";
    char shop[2000], open[2000], path[TEST_PATH_MAX];
    snprintf(shop, sizeof(shop),
             "{\"integration_id\":\"shop\",\"name\":\"Shop\",\"description\":\"A shop.\","
             "\"category\":\"shop\",\"base_url\":\"https://${connection.params.name}.example.com\","
             "\"connection_params\":{\"type\":\"object\",\"properties\":{\"name\":{\"type\":"
             "\"string\",\"pattern\":\"^[a-z]+$\"}},\"required\":[\"name\"],"
             "\"additionalProperties\":false},\"auth\":{\"type\":\"basic\"},%s",
             action);
    snprintf(open, sizeof(open),
             "{\"integration_id\":\"weather\",\"name\":\"Weather\",\"description\":\"Weather.\","
             "\"category\":\"misc\",\"base_url\":\"https://weather.example.com\","
             "\"auth\":{\"type\":\"none\"},%s",
             action);
    assert_int_equal(mkdir(folder_path(&folder, "catalog", path), 0700), 0);
    folder_write(&folder, "catalog/shop.json", shop, 0600);
    folder_write(&folder, "catalog/weather.json", open, 0600);
    setenv("SLUICE_CATALOG", path, 1);
    new_account("shops");
    static const char credential[] = "{\"username\":\"u\",\"password\":\"\"}";
    RUN(0, "catalog", "lint", path);
    assert_out("2 integrations, 2 actions");
    RUN_IN(1, credential, "connections", "add", "shops", "shop", "--credential-file", "-");
    assert_err("params: ");
    RUN_IN(1, credential, "connections", "add", "shops", "shop", "--credential-file", "-",
           "--params", "{\"name\":\"UP\"}");
    assert_err("params/name");
    RUN_IN(0, credential, "connections", "add", "shops", "shop", "--credential-file", "-",
           "--params", "{\"name\":\"mine\"}");
    assert_string_equal(query("select params->>'name' from sluice.connection"), "mine");
    RUN_IN(1, "{}", "connections", "add", "shops", "weather", "--credential-file", "-");
    assert_err("needs no connection");
    RUN(0, "connections", "list", "shops", "--json");
    RUN(0, "connections", "remove", "shops", out_text("/0/id"));
    unsetenv("SLUICE_CATALOG");
}

/* ---- rotation ---- */

static void rotation_reseals_what_the_ring_opens(void **state)
{
    (void)state;
    char both[300];
    new_account("rotation");
    for (int i = 0; i < 5; i++)
        RUN_IN(0, "{\"access_token\":\"x\"}", "connections", "add", "rotation", "gmail",
               "--credential-file", "-");
    RUN(0, "keys", "rotate");
    assert_out("0 credentials resealed");
    snprintf(both, sizeof(both), "%s%s", master_two, master_one);
    folder_write(&folder, "master.key", both, 0600);
    RUN(0, "keys", "rotate");
    assert_out("5 credentials resealed");
    RUN(0, "keys", "rotate");
    assert_out("0 credentials resealed");
    folder_write(&folder, "master.key", master_two, 0600);
    RUN(0, "keys", "rotate");
    /* Credentials that were moved to another row cannot be opened, and there are more of them
     * than a page has. They are reported, and the others are resealed. */
    RUN(0, "accounts", "create", "thief", "--json");
    (void)query("insert into sluice.connection (account_id, id, integration_id, label, is_default, "
                "auth_kind, sealed, key_id, params, status, rev, op_token, created_at, updated_at) "
                "select a.account_id, c.id + g, c.integration_id, c.label, false, c.auth_kind, "
                "c.sealed, c.key_id, c.params, c.status, 1, c.op_token, now(), now() from "
                "sluice.account a, generate_series(1, 150) g, (select * from sluice.connection "
                "limit 1) c where a.name = 'thief' returning '1'");
    snprintf(both, sizeof(both), "%s%s", master_one, master_two);
    folder_write(&folder, "master.key", both, 0600);
    RUN(1, "keys", "rotate");
    assert_out("5 credentials resealed");
    assert_err("150 credentials were not resealed; keep the old master keys");
    assert_string_equal(query("select count(distinct key_id)::text from sluice.connection c join "
                              "sluice.account a using (account_id) where a.name = 'rotation'"),
                        "1");
    (void)query("delete from sluice.connection returning '1'");
    folder_write(&folder, "master.key", master_one, 0600);
}

static void a_bad_master_key_is_reported_without_showing_it(void **state)
{
    (void)state;
    folder_write(&folder, "master.key", "c2hvcnQtczNjcmV0\n", 0600);
    RUN(1, "keys", "rotate");
    assert_err("master key");
    assert_null(strstr(last.err, "c2hvcnQ"));
    folder_write(&folder, "master.key", master_one, 0644);
    RUN(1, "keys", "rotate");
    assert_err("master key");
    folder_write(&folder, "master.key", master_one, 0600);
    unsetenv("SLUICE_MASTER_KEY_FILE");
    RUN(1, "keys", "rotate");
    assert_err("no master key: set SLUICE_MASTER_KEY");
    setenv("SLUICE_MASTER_KEY_FILE", key_path, 1);
}

/* ---- catalog ---- */

static void the_catalog_is_shown(void **state)
{
    (void)state;
    RUN(0, "catalog", "list");
    assert_out("gmail");
    assert_out("oauth2");
    assert_out("oauth2, basic"); /* zendesk's */
    RUN(0, "catalog", "list", "--json");
    assert_true(out_json()->count >= 2);
    assert_out("\"auth\":\"oauth2\",\"auths\":[\"oauth2\",\"basic\"]");
    RUN(0, "catalog", "show", "gmail");
    assert_out("send_message");
    RUN(0, "catalog", "show", "gmail", "send_message");
    assert_out("gmail_send_message: ");
    assert_out("needs \"confirm\": true");
    assert_out("required");
    assert_out("examples of input:");
    assert_out("recorded reply");
    RUN(0, "catalog", "show", "gmail", "gmail_send_message", "--json");
    assert_string_equal(out_text("/action_id"), "send_message");
    RUN(1, "catalog", "show", "gmail", "send_mesage");
    assert_err("gmail has no action \"send_mesage\"; did you mean send_message?");
    RUN(1, "catalog", "show", "nothing_like_it");
    assert_err("`sluice catalog list` shows them");
}

static void policies_are_checked_and_tried(void **state)
{
    char path[TEST_PATH_MAX];
    (void)state;
    folder_path(&folder, "policy.json", path);
    folder_write(&folder, "policy.json",
                 "{\"default\":\"allow\",\"rules\":[{\"tools\":[\"gmail_send_message\"],"
                 "\"recipients_outside\":[\"acme.com\"],\"decision\":\"deny\",\"reason\":\"no "
                 "outside mail\"},{\"tools\":[\"gmial_*\"],\"decision\":\"confirm\"}]}",
                 0600);
    RUN(0, "policy", "lint", path);
    assert_out("policy.json /rules/1: warning: matches no action");
    assert_out("1 policies, 1 warnings: fine");
    RUN(0, "policy", "test", path, "--tool", "gmail_send_message", "--input",
        "{\"to\":\"a@evil.example\"}");
    assert_string_equal(last.out, "deny, by rule 0: no outside mail\n");
    RUN(0, "policy", "test", path, "--tool", "gmail_send_message", "--json");
    assert_string_equal(
        last.out, "{\"decision\":\"depends\",\"rule\":null,\"reason\":null,\"unsure\":false}\n");
    RUN(0, "policy", "test", path, "--tool", "gmail_list_threads", "--user", "u1");
    assert_string_equal(last.out, "allow, by default\n");
    RUN(1, "policy", "test", path, "--tool", "gmail_send_mesage");
    assert_err("did you mean \"gmail_send_message\"?");
    RUN(1, "policy", "test", path, "--tool", "gmail_send_message", "--input", "[]");
    assert_err("--input must be a JSON object, got array");
    RUN(1, "policy", "test", path, "--tool", "gmail_send_message", "--input", "{\"a\":1,\"a\":2}");
    assert_err("--input: ");
    RUN(1, "policy", "test", path);
    assert_err("--tool is missing");
    folder_write(&folder, "policy.json", "{\"default\":\"hold\"}", 0600);
    RUN(0, "policy", "test", path, "--tool", "gmail_list_threads");
    assert_string_equal(last.out, "hold, by default\n");
    folder_write(&folder, "policy.json", "{\"default\":\"held\",\"rules\":[{}]}", 0600);
    RUN(1, "policy", "lint", path);
    assert_out("policy.json /default: must be one of");
    assert_out("policy.json /rules/0: member \"decision\" is missing");
    RUN(1, "policy", "test", path, "--tool", "gmail_send_message");
    assert_err("policy.json /default: ");
}

static void the_catalog_is_searched(void **state)
{
    (void)state;
    RUN(0, "catalog", "search", "create", "a", "notion", "page");
    assert_out("create_page");
    assert_out("LEVEL");
    assert_out("RELEVANCE");
    RUN(0, "catalog", "search", "gmail_send_message", "--json");
    assert_string_equal(out_text("/0/action_id"), "send_message");
    assert_string_equal(out_text("/0/kind"), "action");
    assert_string_equal(out_text("/0/relevance"), "high");
    RUN(0, "catalog", "search", "kilimanjaro");
    assert_out("Nothing found");
    RUN(0, "catalog", "search", "kilimanjaro volcano eruption guidebook chapter invoice");
    assert_out("low");
    RUN(2, "catalog", "search");
}

static void lint_names_file_and_place(void **state)
{
    (void)state;
    char path[TEST_PATH_MAX], root[TEST_PATH_MAX];
    const char *home = getenv("SLUICE_ROOT");
    snprintf(root, sizeof(root), "%s/contrib/integrations", home ? home : ".");
    RUN(0, "catalog", "lint", root);
    assert_out("fine");
    folder_write(&folder, "broken.json", "{\"integration_id\": 7}", 0600);
    RUN(1, "catalog", "lint", folder_path(&folder, "broken.json", path));
    assert_out("broken.json");
    assert_out("/integration_id");
    assert_err(" and 0 warnings in 1 file");
    folder_write(&folder, "nojson.json", "{", 0600);
    RUN(1, "catalog", "lint", folder_path(&folder, "nojson.json", path), root);
    assert_out("nojson.json");
    RUN(1, "catalog", "lint", "/no/such.json");
    assert_out("/no/such.json: cannot be opened");
    assert_int_equal(mkdir(folder_path(&folder, "empty", path), 0700), 0);
    RUN(1, "catalog", "lint", path);
    assert_err("there is no file (*.json)");
    RUN(2, "catalog", "lint");
}

/* ---- serve ---- */

static void serve_starts_tells_and_drains(void **state)
{
    (void)state;
    struct program server;
    char path[TEST_PATH_MAX], text[1000];
    struct err err;
    folder_path(&folder, "ready", path);
    program_start(&server, program_sluice(),
                  (const char *const[]){"serve", "--listen", "127.0.0.1:0", "--ready-file", path,
                                        "--log-format", "json", NULL},
                  NULL, 0);
    while (access(path, F_OK) != 0 && program_is_running(&server))
        usleep(2000);
    assert_true(program_is_running(&server));
    file_read(path, text, sizeof(text));
    const struct json *ready = json_parse(&arena, slice_cstr(text), &json_limits_request, &err);
    assert_non_null(ready);
    assert_int_equal(json_get_i64(ready, SLICE("pid"), 0), server.pid);
    assert_true(
        slice_starts_with(json_get_str(ready, SLICE("base_url")), SLICE("http://127.0.0.1:")));
    kill(server.pid, SIGTERM);
    program_wait(&server);
    assert_int_equal(server.status, 0);
    assert_contains(server.err, "\"msg\":\"draining\"");
    assert_int_equal(access(path, F_OK), -1);
    program_free(&server);
}

static void serve_says_what_it_lacks(void **state)
{
    (void)state;
    unsetenv("SLUICE_MASTER_KEY_FILE");
    RUN(1, "serve", "--listen", "127.0.0.1:0");
    assert_err("no master key");
    RUN(2, "serve", "--master-key", "a", "--master-key-file", "b");
    assert_err("not both");
    setenv("SLUICE_MASTER_KEY_FILE", key_path, 1);
    RUN(2, "serve", "--listen=");
    assert_err("nothing to listen on");
    RUN(1, "serve", "--listen", "nonsense");
    assert_err("nonsense");
    RUN(1, "serve", "--listen", "127.0.0.1:0", "--allow-host", "not/a/cidr");
    assert_err("allow-host");
    RUN(1, "serve", "--listen", "127.0.0.1:0", "--origin-override", "nonsense");
    assert_err("ORIGIN=URL");
    RUN(1, "serve", "--listen", "127.0.0.1:0", "--ca-file", "/no/such.pem");
    assert_err("/no/such.pem");
}

static int setup(void **state)
{
    (void)state;
    last = (struct program){.out_fd = -1, .err_fd = -1};
    arena_init(&arena, 64 * 1024 * 1024);
    folder_make(&folder);
    database_url = pg_cluster_database(false);
    setenv("SLUICE_DATABASE_URL", database_url, 1);
    folder_write(&folder, "master.key", master_one, 0600);
    setenv("SLUICE_MASTER_KEY_FILE", folder_path(&folder, "master.key", key_path), 1);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    program_free(&last);
    arena_deinit(&arena);
    folder_remove(&folder);
    return unit_end();
}

int main(void)
{
    /* in this order: they share a database */
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_works_before_migrate_and_says_so),
        cmocka_unit_test(a_plain_postgresql_is_not_sharded),
        cmocka_unit_test(a_missing_database_is_reported),
        cmocka_unit_test(accounts_live_and_are_disabled),
        cmocka_unit_test(a_command_makes_missing_partitions_one_by_one),
        cmocka_unit_test(bad_accounts_are_refused),
        cmocka_unit_test(an_account_has_a_mark_and_a_colour),
        cmocka_unit_test(a_key_is_shown_once_and_stored_as_a_hash),
        cmocka_unit_test(a_key_is_rolled_with_overlap),
        cmocka_unit_test(bad_keys_are_refused),
        cmocka_unit_test(master_keys_are_fresh),
        cmocka_unit_test(a_connection_is_sealed_and_listed),
        cmocka_unit_test(a_change_that_fails_leaves_no_event),
        cmocka_unit_test(bad_connections_are_refused),
        cmocka_unit_test(an_integrations_own_rules_hold),
        cmocka_unit_test(rotation_reseals_what_the_ring_opens),
        cmocka_unit_test(a_bad_master_key_is_reported_without_showing_it),
        cmocka_unit_test(the_catalog_is_shown),
        cmocka_unit_test(policies_are_checked_and_tried),
        cmocka_unit_test(the_catalog_is_searched),
        cmocka_unit_test(lint_names_file_and_place),
        cmocka_unit_test(serve_starts_tells_and_drains),
        cmocka_unit_test(serve_says_what_it_lacks),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
