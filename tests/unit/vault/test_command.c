/* Changes of accounts, keys and sessions, whichever interface requests them: the row, one event,
 * the cache and the notification. Rows of other accounts do not change. */
#include "base/clock.h"
#include "support/pg_call.h"
#include "support/pg_cluster.h"
#include "support/pg_items.h"
#include "support/rows.h"
#include "unit.h"
#include "vault/command.h"
#include "vault/key.h"

static const char *conninfo;
static struct pg_bench bench;
static struct vault_auth *auth;
static struct uuid account_id;

struct changing {
    struct op op;
    struct vault_command command;
    struct vault_command_request in;
    bool is_freed;
};

static enum op_result step_start(struct op *op)
{
    struct changing *it = CONTAINER_OF(op, struct changing, op);
    vault_command_start(auth, &it->command, &it->in, op);
    return OP_WAIT;
}

static enum op_result step_end(struct op *op)
{
    (void)op;
    return OP_DONE;
}

static void on_free(struct op *op)
{
    CONTAINER_OF(op, struct changing, op)->is_freed = true;
}

static const struct op_step steps[] = {{"start", step_start, 0}, {"end", step_end, 0}};
static const struct op_class changing_class = {
    .name = "changing", .steps = steps, .step_count = ARRAY_LEN(steps), .free = on_free};

static struct uuid maker; /* nil: a command */
static struct uuid made_line, made_by;
static char refusal[ERR_TEXT_MAX];

static int change(const struct vault_command_request *request, struct uuid *other)
{
    struct changing it = {.in = *request};
    it.in.maker = (struct vault_grant){.account_id = account_id, .key_id = maker};
    it.in.by = (struct audit_by){.actor = SLICE("operator:ada"),
                                 .request_id = SLICE("r-1"),
                                 .address = SLICE("10.0.0.1"),
                                 .means = SLICE("dashboard")};
    op_start(&it.op, &changing_class, bench.loop, NULL, 65536);
    pg_bench_until(&bench, &it.is_freed);
    if (other)
        *other = it.command.other;
    made_line = it.command.key.line;
    made_by = it.command.key.made_by;
    (void)snprintf(refusal, sizeof(refusal), "%s", it.command.err.text);
    return it.command.status;
}

static int64_t count(const char *table, const char *where)
{
    char text[500];
    (void)snprintf(text, sizeof(text), "select count(*) from sluice.%s where %s", table, where);
    return items_ask(conninfo, text);
}

static int64_t events(const char *kind)
{
    char where[300];
    (void)snprintf(where, sizeof(where),
                   "actor = 'operator:ada' and request_id = 'r-1' and address = '10.0.0.1' and "
                   "details->>'by' = 'dashboard' and kind like '%s'",
                   kind);
    return count("audit_event", where);
}

/* The notifications to other processes. */
static unsigned notified;

static void on_changed(void *owner, struct uuid changed, slice integration_id)
{
    (void)owner;
    (void)changed;
    assert_null(integration_id.ptr);
    notified++;
}

static struct vault_command_request of_account(enum vault_command_kind kind)
{
    return (struct vault_command_request){
        .kind = kind,
        .account.account = {.account_id = account_id, .mark = SLICE("AB")},
    };
}

static struct vault_command_request of_key(enum vault_command_kind kind, struct uuid id)
{
    return (struct vault_command_request){.kind = kind,
                                          .key.key = {.account_id = account_id, .id = id}};
}

static struct vault_command_request new_key(void)
{
    struct vault_key drawn;
    struct vault_command_request request = of_key(VAULT_KEY_CREATE, uuid_v7());
    struct api_key *key = &request.key.key;
    vault_key_new(&drawn);
    memcpy(key->hash, drawn.hash, sizeof(key->hash));
    key->prefix = SLICE("sk_abcdefg");
    key->name = SLICE("a key");
    key->scopes = SCOPE_READ | SCOPE_APPROVE;
    key->created_at = 1000000;
    return request;
}

static void an_account_is_made_and_changed(void **state)
{
    struct vault_command_request make = of_account(VAULT_ACCOUNT_CREATE);
    struct vault_command_request off = of_account(VAULT_ACCOUNT_DISABLE);
    struct vault_command_request on = of_account(VAULT_ACCOUNT_ENABLE);
    struct vault_command_request look = of_account(VAULT_ACCOUNT_MARK);
    struct uuid other;
    (void)state;
    notified = 0;
    make.account.account.name = SLICE("second");
    make.account.account.account_id = uuid_v7();
    assert_int_equal(change(&make, &other), OK);
    assert_true(uuid_is_nil(other));
    assert_int_equal(events("account.created"), 1);
    make.account.account.account_id = uuid_v7(); /* another one with this name */
    assert_int_equal(change(&make, &other), ERR_INVALID);
    assert_false(uuid_is_nil(other));
    assert_int_equal(events("account.created"), 1);
    assert_int_equal(notified, 1);
    make.account.is_again = true;
    assert_int_equal(change(&make, NULL), OK);
    assert_int_equal(count("account", "name = 'second'"), 2);
    make.account.account.name = SLICE("");
    make.account.account.account_id = uuid_v7();
    assert_int_equal(change(&make, NULL), ERR_INVALID);
    assert_int_equal(change(&off, NULL), OK);
    assert_int_equal(change(&look, NULL), OK); /* which enables nothing */
    assert_int_equal(count("account", "disabled_at is not null and mark = 'AB'"), 1);
    assert_int_equal(change(&off, NULL), OK); /* the row already has this value, so there is no
                                               * event */
    assert_int_equal(events("account.disabled"), 1);
    assert_int_equal(change(&on, NULL), OK);
    assert_int_equal(events("account.enabled"), 1);
    assert_int_equal(events("account.changed"), 1);
    assert_int_equal(count("account", "disabled_at is not null"), 0);
}

/* Only a disabled account is erased, and it stays disabled. The event is the operator's. */
static void an_account_is_erased(void **state)
{
    struct vault_command_request erase = of_account(VAULT_ACCOUNT_ERASE),
                                 on = of_account(VAULT_ACCOUNT_ENABLE),
                                 off = of_account(VAULT_ACCOUNT_DISABLE);
    (void)state;
    notified = 0;
    assert_int_equal(change(&erase, NULL), ERR_REFUSED);
    assert_non_null(strstr(refusal, "disable it first"));
    assert_int_equal(count("account", "erase_at is not null"), 0);
    assert_int_equal(change(&off, NULL), OK);
    for (int again = 0; again < 2; again++)
        assert_int_equal(change(&erase, NULL), OK);
    assert_int_equal(notified, 3);
    assert_int_equal(count("account", "erase_at > now() + interval '50 years'"), 1);
    assert_int_equal(events("account.erased"), 1);
    assert_int_equal(count("audit_event", "kind = 'account.erased' and details->>'account_id' is "
                                          "not null and account_id::text like '00000000-0000-%'"),
                     1);
    assert_int_equal(change(&on, NULL), ERR_REFUSED);
    assert_non_null(strstr(refusal, "being erased"));
    assert_int_equal(change(&off, NULL), OK);
    assert_int_equal(count("account", "disabled_at is not null"), 1);
    items_tell(conninfo, "update sluice.account set erase_at = null");
    assert_int_equal(change(&on, NULL), OK);
    erase.account.account.account_id = uuid_v7();
    assert_int_equal(change(&erase, NULL), ERR_NOTFOUND);
}

static void a_key_is_made_replaced_and_revoked(void **state)
{
    struct vault_command_request make = new_key();
    struct uuid first = make.key.key.id;
    (void)state;
    notified = 0;
    assert_int_equal(change(&make, NULL), OK);
    assert_int_equal(change(&make, NULL), ERR_INVALID); /* sent twice */
    assert_int_equal(events("key.created"), 1);
    struct vault_command_request next = new_key();
    next.key.replaces = first;
    next.key.replaced_until = 5000000;
    assert_int_equal(change(&next, NULL), OK);
    assert_int_equal(count("api_key", "expires_at = timestamptz 'epoch' + interval '5 seconds'"),
                     1);
    assert_int_equal(count("audit_event",
                           "kind = 'key.rolled' and details->>'replaces' is not null "
                           "and details->>'scopes' = 'read approve'"),
                     1);
    next = new_key();
    next.key.replaces = first; /* which has ended */
    assert_int_equal(change(&next, NULL), ERR_NOTFOUND);
    struct vault_command_request end = of_key(VAULT_KEY_REVOKE, first);
    assert_int_equal(change(&end, NULL), OK);
    assert_int_equal(change(&end, NULL), OK); /* the key is already revoked */
    assert_int_equal(events("key.revoked"), 1);
    assert_int_equal(notified, 4);
    next = new_key();
    next.key.replaces = first;
    assert_int_equal(change(&next, NULL), ERR_NOTFOUND);
    assert_int_equal(count("api_key", "true"), 2);
    assert_int_equal(events("key.%"), 3);
}

static int roll_key(struct uuid old, int64_t until, struct uuid *id)
{
    struct vault_command_request roll = new_key();
    roll.kind = VAULT_KEY_ROLL;
    roll.key.key.created_at = clock_shared_us();
    roll.key.key.scopes = SCOPE_ALL; /* those of the old key count */
    roll.key.replaces = old;
    roll.key.replaced_until = until;
    *id = roll.key.key.id;
    return change(&roll, NULL);
}

/* A key that a key makes: no more rights, its maker, and the line of a rolled one. */
static void a_key_makes_and_rolls_keys(void **state)
{
    const int64_t far = INT64_C(4000000000000000);
    struct vault_command_request make = new_key();
    struct uuid first_maker = make.key.key.id, first, second, third;
    (void)state;
    make.key.key.scopes |= SCOPE_ADMIN;
    assert_int_equal(change(&make, NULL), OK);
    assert_true(uuid_eq(made_line, first_maker) && uuid_is_nil(made_by));
    maker = first_maker;
    make = new_key();
    make.key.key.scopes = SCOPE_EXECUTE;
    assert_int_equal(change(&make, NULL), ERR_REFUSED);
    assert_non_null(strstr(refusal, "execute"));
    make = new_key();
    first = make.key.key.id;
    assert_int_equal(change(&make, NULL), OK);
    assert_true(uuid_eq(made_by, first_maker));
    assert_int_equal(roll_key(first, far, &second), OK);
    assert_true(uuid_eq(made_line, first) && uuid_eq(made_by, first_maker));
    assert_int_equal(count("api_key", "line is not null and scopes = 'read approve'"), 1);
    assert_int_equal(roll_key(first, far, &third), ERR_LIMIT); /* a second time */
    assert_non_null(strstr(refusal, "newer"));
    maker = second; /* it rolls itself */
    assert_int_equal(roll_key(second, 1000000, &third), OK);
    assert_true(uuid_eq(made_line, first) && uuid_eq(made_by, first_maker));
    maker = first_maker;
    assert_int_equal(roll_key(second, far, &third), ERR_LIMIT); /* it ended at once */
    assert_non_null(strstr(refusal, "expired"));
    assert_int_equal(roll_key(uuid_v7(), far, &third), ERR_NOTFOUND);
    make = of_key(VAULT_KEY_REVOKE, first_maker);
    assert_int_equal(change(&make, NULL), OK);
    make = new_key();
    assert_int_equal(change(&make, NULL), ERR_REFUSED); /* a revoked key makes none */
    assert_non_null(strstr(refusal, "revoked"));
    maker = (struct uuid){{0}};
}

static void objects_of_other_accounts_are_left_alone(void **state)
{
    struct vault_command_request make = new_key();
    (void)state;
    assert_int_equal(change(&make, NULL), OK);
    int64_t before = events("%");
    notified = 0;
    struct vault_command_request end = of_key(VAULT_KEY_REVOKE, uuid_v7());
    assert_int_equal(change(&end, NULL), ERR_NOTFOUND);
    end.key.key = (struct api_key){.account_id = uuid_v7(), .id = make.key.key.id};
    assert_int_equal(change(&end, NULL), ERR_NOTFOUND);
    make = new_key();
    make.key.key.account_id = uuid_v7();
    assert_int_equal(change(&make, NULL), ERR_INVALID);
    for (int kind = VAULT_ACCOUNT_DISABLE; kind <= VAULT_ACCOUNT_MARK; kind++) {
        struct vault_command_request request = of_account((enum vault_command_kind)kind);
        request.account.account.account_id = uuid_v7();
        assert_int_equal(change(&request, NULL), ERR_NOTFOUND);
    }
    assert_int_equal(events("%"), before);
    assert_int_equal(notified, 0);
}

static void sessions_end(void **state)
{
    uint8_t hash[SESSION_HASH_LEN] = {1};
    struct vault_command_request make = new_key();
    (void)state;
    assert_int_equal(change(&make, NULL), OK);
    struct vault_command_request end = of_key(VAULT_SESSION_END, make.key.key.id);
    end.session_hash = hash;
    end.session_until = INT64_C(4000000000000000);
    notified = 0;
    assert_int_equal(change(&end, NULL), OK);
    assert_int_equal(count("session_end", "true"), 1);
    end.kind = VAULT_SESSIONS_END;
    assert_int_equal(change(&end, NULL), OK);
    assert_int_equal(count("api_key", "sessions_ended_at is not null"), 1);
    assert_int_equal(notified, 2);
}

/* Each change has its event. */
static void a_change_whose_event_is_refused_is_not_made(void **state)
{
    struct vault_command_request make = new_key(), account = of_account(VAULT_ACCOUNT_CREATE);
    struct vault_command_request off = of_account(VAULT_ACCOUNT_DISABLE);
    (void)state;
    assert_int_equal(change(&make, NULL), OK);
    struct vault_command_request end = of_key(VAULT_KEY_REVOKE, make.key.key.id);
    int64_t keys = count("api_key", "revoked_at is null"), accounts = count("account", "true");
    items_tell(conninfo, "create function sluice.refuse() returns trigger language plpgsql "
                         "as $$ begin raise check_violation; end $$");
    items_tell(conninfo, "create trigger refuse before insert on sluice.audit_event "
                         "for each row execute function sluice.refuse()");
    make = new_key();
    account.account.account.name = SLICE("third");
    account.account.account.account_id = uuid_v7();
    assert_int_not_equal(change(&make, NULL), OK);
    assert_int_not_equal(change(&end, NULL), OK);
    assert_int_not_equal(change(&account, NULL), OK);
    assert_int_not_equal(change(&off, NULL), OK);
    items_tell(conninfo, "drop trigger refuse on sluice.audit_event");
    assert_int_equal(count("api_key", "revoked_at is null"), keys);
    assert_int_equal(count("account", "true"), accounts);
    assert_int_equal(count("account", "disabled_at is not null"), 0);
}

static int set_up(void **state)
{
    struct err err;
    struct pg_pool_config pool = {.queue_timeout_ms = 4000};
    (void)state;
    conninfo = pool.conninfo = pg_cluster_database(true);
    pg_bench_open(&bench, &pool, true);
    const struct vault_auth_config config = {.pool = bench.pool, .on_changed = on_changed};
    auth = vault_auth_new(bench.loop, &config);
    account_id = uuid_v7();
    const struct account row = {.account_id = account_id, .name = SLICE("test")};
    struct pg_sync *sync = pg_sync_open(conninfo, &err);
    int status = sync ? rows_account(sync, &row) : ERR_IO;
    pg_sync_close(sync);
    return auth ? status : ERR_NOMEM;
}

static int tear_down(void **state)
{
    (void)state;
    vault_auth_free(auth);
    pg_bench_close(&bench);
    return unit_end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_account_is_made_and_changed),
        cmocka_unit_test(an_account_is_erased),
        cmocka_unit_test(a_key_is_made_replaced_and_revoked),
        cmocka_unit_test(a_key_makes_and_rolls_keys),
        cmocka_unit_test(objects_of_other_accounts_are_left_alone),
        cmocka_unit_test(sessions_end),
        cmocka_unit_test(a_change_whose_event_is_refused_is_not_made),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
