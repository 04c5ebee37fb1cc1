/* From an external id to a user: the cache, creation, two at once, the limit. */
#include "base/clock.h"
#include "support/pg_cluster.h"
#include "support/pg_items.h"
#include "support/pg_second.h"
#include "unit.h"
#include "vault/user.h"

enum { USERS_MAX = 3 };

static const char *conninfo;
static struct uuid account, other;

/* An op that finds a user, and creates it if it is unknown and is to be created. */
struct asker {
    struct op op;
    struct vault_users *users;
    struct uuid account_id, proposed;
    slice name;
    bool creates, only_looks, was_at_once, is_freed;
    struct vault_user_check check;
    struct vault_user_create create;
    int status;
    struct uuid user_id;
};

static struct asker *asker_of(struct op *op)
{
    return CONTAINER_OF(op, struct asker, op);
}

static enum op_result step_find(struct op *op)
{
    struct asker *asker = asker_of(op);
    asker->was_at_once = vault_user_find(asker->users, &asker->check, asker->account_id,
                                         asker->name, !asker->only_looks, op);
    return asker->was_at_once ? OP_NEXT : OP_WAIT;
}

static enum op_result step_found(struct op *op)
{
    struct asker *asker = asker_of(op);
    asker->status = asker->check.status;
    asker->user_id = asker->check.user_id;
    if (asker->status != ERR_NOTFOUND || !asker->creates)
        return OP_DONE;
    vault_user_create_start(asker->users, &asker->create, asker->account_id, asker->name,
                            asker->proposed, op);
    return OP_WAIT;
}

static enum op_result step_created(struct op *op)
{
    struct asker *asker = asker_of(op);
    asker->status = asker->create.status;
    asker->user_id = asker->create.user_id;
    return OP_DONE;
}

static void on_free(struct op *op)
{
    asker_of(op)->is_freed = true;
}

static const struct op_step steps[] = {
    {"find", step_find, 0}, {"found", step_found, 0}, {"created", step_created, 0}};
static const struct op_class asker_class = {
    .name = "asker",
    .steps = steps,
    .step_count = ARRAY_LEN(steps),
    .free = on_free,
};

static struct pg_bench bench;
static struct vault_users *users;

static void ask_start(struct asker *asker, struct uuid account_id, const char *name, bool creates)
{
    *asker = (struct asker){.users = users,
                            .account_id = account_id,
                            .proposed = uuid_v7(),
                            .name = slice_cstr(name),
                            .creates = creates};
    op_start(&asker->op, &asker_class, bench.loop, NULL, 1024);
}

static struct asker ask(struct uuid account_id, const char *name, bool creates)
{
    static struct asker asker;
    ask_start(&asker, account_id, name, creates);
    pg_bench_until(&bench, &asker.is_freed);
    return asker;
}

static void begin_of(unsigned ttl_ms, size_t users_max)
{
    struct pg_pool_config config = {.conninfo = conninfo};
    items_tell(conninfo, "delete from sluice.account_user");
    pg_bench_open(&bench, &config, true);
    const struct vault_users_config with = {
        .pool = bench.pool, .users_max = users_max, .ttl_ms = ttl_ms};
    users = vault_users_new(bench.loop, &with);
    assert_non_null(users);
}

static void begin(unsigned ttl_ms)
{
    begin_of(ttl_ms, USERS_MAX);
}

static void end(void)
{
    vault_users_free(users);
    pg_bench_close(&bench);
}

static void test_find_and_create(void **state)
{
    (void)state;
    begin(60000);
    struct asker asker = ask(account, "ada", false);
    assert_int_equal(asker.status, ERR_NOTFOUND);
    asker = ask(account, "ada", false); /* not cached: another process may create it */
    assert_int_equal(asker.status, ERR_NOTFOUND);
    assert_false(asker.was_at_once);
    struct asker made = ask(account, "ada", true);
    assert_int_equal(made.status, OK);
    assert_true(uuid_eq(made.user_id, made.proposed));
    asker = ask(account, "ada", true);
    assert_true(asker.status == OK && uuid_eq(asker.user_id, made.user_id));
    assert_false(asker.was_at_once);
    asker = ask(account, "ada", true);
    assert_true(asker.status == OK && uuid_eq(asker.user_id, made.user_id));
    assert_true(asker.was_at_once);
    /* compared byte for byte, and within the account */
    assert_int_equal(ask(account, "Ada", false).status, ERR_NOTFOUND);
    assert_int_equal(ask(account, "ada.", false).status, ERR_NOTFOUND);
    assert_int_equal(ask(other, "ada", false).status, ERR_NOTFOUND);
    asker = ask(other, "ada", true);
    assert_true(asker.status == OK && !uuid_eq(asker.user_id, made.user_id));
    end();
}

static void test_two_at_once(void **state)
{
    struct asker askers[8];
    (void)state;
    begin(60000);
    for (size_t i = 0; i < ARRAY_LEN(askers); i++)
        ask_start(&askers[i], account, "grace", true);
    for (size_t i = 0; i < ARRAY_LEN(askers); i++) {
        pg_bench_until(&bench, &askers[i].is_freed);
        assert_int_equal(askers[i].status, OK);
        assert_true(uuid_eq(askers[i].user_id, askers[0].user_id));
    }
    assert_int_equal(items_ask(conninfo, "select count(*) from sluice.account_user"), 1);
    end();
}

static void test_limit(void **state)
{
    static const char *const names[] = {"a", "b", "c"};
    (void)state;
    begin(1);
    for (size_t i = 0; i < ARRAY_LEN(names); i++)
        assert_int_equal(ask(account, names[i], true).status, OK);
    assert_int_equal(ask(account, "d", true).status, ERR_LIMIT);
    assert_int_equal(ask(account, "c", true).status, OK);
    assert_int_equal(ask(other, "d", true).status, OK);
    /* two requests create the last user at once: the second finds it, although the account is full
     */
    items_tell(conninfo, "delete from sluice.account_user where external_id = 'c'");
    struct asker last[2];
    for (size_t i = 0; i < ARRAY_LEN(last); i++)
        ask_start(&last[i], account, "e", true);
    for (size_t i = 0; i < ARRAY_LEN(last); i++) {
        pg_bench_until(&bench, &last[i].is_freed);
        assert_int_equal(last[i].status, OK);
    }
    assert_int_equal(vault_users_max(users), USERS_MAX);
    end();
}

static void create_many(size_t count, const char *prefix)
{
    enum { MANY_MAX = 50 };
    static struct asker askers[MANY_MAX];
    static char names[MANY_MAX][40];
    assert_true(count <= MANY_MAX);
    for (size_t i = 0; i < count; i++) {
        (void)snprintf(names[i], sizeof(names[i]), "%s%zu", prefix, i);
        ask_start(&askers[i], account, names[i], true);
    }
    for (size_t i = 0; i < count; i++) {
        pg_bench_until(&bench, &askers[i].is_freed);
        assert_int_equal(askers[i].status, OK);
    }
}

/* The rows that another process makes do not count until this one counts again. */
static void test_uncounted(void **state)
{
    enum { ROOM = 80, ALLOWED = ROOM / 16 };
    (void)state;
    begin_of(60000, ROOM);
    assert_int_equal(ask(account, "first", true).status, OK);
    char sql[256], id[UUID_TEXT_LEN + 1];
    uuid_format(account, id);
    (void)snprintf(sql, sizeof(sql),
                   "insert into sluice.account_user select '%s', 'other-' || n, "
                   "gen_random_uuid(), now() from generate_series(1, %d) n",
                   id, ROOM - 1);
    items_tell(conninfo, sql);
    create_many(ALLOWED - 1, "uncounted-");
    assert_int_equal(ask(account, "counted", true).status, ERR_LIMIT);
    assert_int_equal(items_ask(conninfo, "select count(*) from sluice.account_user"),
                     ROOM + ALLOWED - 1);
    /* full for as long as the cache holds it, without a count */
    items_tell(conninfo, "delete from sluice.account_user");
    assert_int_equal(ask(account, "counted", true).status, ERR_LIMIT);
    end();
}

/* More at once than several counts allow: those that wait share a count, and none is refused. */
static void test_many_at_once(void **state)
{
    enum { AT_ONCE = 50, ROOM = 66 };
    (void)state;
    begin_of(60000, ROOM);
    create_many(AT_ONCE, "u");
    assert_int_equal(items_ask(conninfo, "select count(*) from sluice.account_user"), AT_ONCE);
    end();
}

#define SEEN_NOW \
    "select count(*) from sluice.account_user where last_seen_at > now() - interval '1 min'"
#define SEEN_BEFORE(ago)                                                   \
    "update sluice.account_user set last_seen_at = now() - interval '" ago \
    "' where external_id = 'ada'"

/* Acts like an operator who opens a page of the user. */
static struct asker look(struct uuid account_id, const char *name)
{
    static struct asker asker;
    ask_start(&asker, account_id, name, false);
    asker.only_looks = true;
    pg_bench_until(&bench, &asker.is_freed);
    return asker;
}

/* The first request after a load of the user is noted, if the last note is an hour old. */
static void test_last_request(void **state)
{
    (void)state;
    begin(1); /* each request loads the user */
    assert_int_equal(ask(account, "ada", true).status, OK);
    items_tell(conninfo, SEEN_BEFORE("59 min"));
    for (int i = 0; i < 20; i++)
        assert_int_equal(ask(account, "ada", false).status, OK);
    assert_int_equal(items_ask(conninfo, SEEN_NOW), 0);
    items_tell(conninfo, SEEN_BEFORE("61 min"));
    int asked = 0;
    for (; items_ask(conninfo, SEEN_NOW) == 0; asked++) {
        assert_true(asked < 1000);
        assert_int_equal(ask(account, "ada", false).status, OK);
    }
    assert_true(asked > 0);
    end();
}

/* A look is not noted, and takes nothing from the request that finds the user in the cache. */
static void test_look(void **state)
{
    (void)state;
    begin(1);
    assert_int_equal(ask(account, "ada", true).status, OK);
    items_tell(conninfo, SEEN_BEFORE("61 min"));
    for (int i = 0; i < 20; i++) {
        assert_int_equal(look(account, "ada").status, OK);
        assert_int_equal(items_ask(conninfo, SEEN_NOW), 0);
    }
    vault_users_free(users);
    const struct vault_users_config with = {.pool = bench.pool, .ttl_ms = 60000};
    users = vault_users_new(bench.loop, &with);
    assert_false(look(account, "ada").was_at_once);
    assert_true(look(account, "ada").was_at_once);
    assert_true(ask(account, "ada", false).was_at_once);
    for (int asked = 0; items_ask(conninfo, SEEN_NOW) == 0; asked++) {
        assert_true(asked < 1000);
        assert_true(ask(account, "ada", false).was_at_once);
    }
    end();
}

/* ---- erasure ---- */

/* An op that begins to erase a user. */
struct erasing {
    struct op op;
    struct vault_user_erase erase;
    int status;
    struct uuid user_id;
    int64_t erase_at;
    bool is_freed;
};

static struct erasing *erasing_of(struct op *op)
{
    return CONTAINER_OF(op, struct erasing, op);
}

static enum op_result step_erase(struct op *op)
{
    static const struct audit_by by = {.actor = SLICE_INIT("test")};
    vault_user_erase_start(users, &erasing_of(op)->erase, account, SLICE("ada"), &by, op);
    return OP_WAIT;
}

static enum op_result step_erased(struct op *op)
{
    struct erasing *erasing = erasing_of(op);
    erasing->status = erasing->erase.status;
    erasing->user_id = erasing->erase.user.user_id;
    erasing->erase_at = erasing->erase.user.erase_at;
    return OP_DONE;
}

static void on_erasing_free(struct op *op)
{
    erasing_of(op)->is_freed = true;
}

static const struct op_step erase_steps[] = {{"erase", step_erase, 0}, {"erased", step_erased, 0}};
static const struct op_class erasing_class = {
    .name = "erasing", .steps = erase_steps, .step_count = 2, .free = on_erasing_free};

static struct erasing erase_ada(void)
{
    static struct erasing erasing;
    erasing = (struct erasing){.status = ERR_CLOSED};
    op_start(&erasing.op, &erasing_class, bench.loop, NULL, 1024);
    pg_bench_until(&bench, &erasing.is_freed);
    return erasing;
}

static size_t notified;

static void note_erasing(void *owner, const struct account_user *user)
{
    assert_ptr_equal(owner, &notified);
    assert_true(uuid_eq(user->account_id, account) && slice_eq_cstr(user->external_id, "ada"));
    notified++;
}

/* Creates a user without looking it up, as a request that has found none. */
static enum op_result step_only_create(struct op *op)
{
    struct asker *asker = asker_of(op);
    vault_user_create_start(users, &asker->create, asker->account_id, asker->name, asker->proposed,
                            op);
    return OP_WAIT;
}

static const struct op_step create_steps[] = {{"create", step_only_create, 0},
                                              {"created", step_created, 0}};
static const struct op_class create_class = {
    .name = "creating", .steps = create_steps, .step_count = 2, .free = on_free};

static struct vault_user_create ask_create(struct uuid account_id, const char *name)
{
    static struct asker asker;
    asker =
        (struct asker){.account_id = account_id, .proposed = uuid_v7(), .name = slice_cstr(name)};
    op_start(&asker.op, &create_class, bench.loop, NULL, 1024);
    pg_bench_until(&bench, &asker.is_freed);
    return asker.create;
}

#define EVENTS "select count(*) from sluice.audit_event where kind = 'user.erased'"

static void test_erase(void **state)
{
    struct pg_pool_config config = {.conninfo = conninfo};
    (void)state;
    items_tell(conninfo, "delete from sluice.account_user");
    pg_bench_open(&bench, &config, true);
    const struct vault_users_config with = {.pool = bench.pool,
                                            .ttl_ms = 60000,
                                            .erase_wait_ms = 5000,
                                            .on_erasing = note_erasing,
                                            .owner = &notified};
    users = vault_users_new(bench.loop, &with);
    assert_int_equal(erase_ada().status, ERR_NOTFOUND);
    struct uuid user_id = ask(account, "ada", true).user_id;
    (void)ask(other, "ada", true);
    assert_true(ask(account, "ada", false).check.erase_at == 0);
    assert_true(ask(account, "ada", false).was_at_once);
    struct erasing first = erase_ada();
    assert_true(first.status == OK && uuid_eq(first.user_id, user_id) && first.erase_at > 0);
    assert_int_equal(notified, 1);
    /* no longer cached, and not again */
    for (int i = 0; i < 2; i++) {
        struct asker asker = ask(account, "ada", false);
        assert_true(asker.status == OK && asker.check.erase_at == first.erase_at);
        assert_false(asker.was_at_once);
    }
    assert_true(ask(other, "ada", false).check.erase_at == 0);
    /* a second request changes nothing, and makes no second event */
    struct erasing again = erase_ada();
    assert_true(again.status == OK && again.erase_at == first.erase_at);
    assert_int_equal(items_ask(conninfo, EVENTS), 1);
    assert_int_equal(items_ask(conninfo,
                               EVENTS " and details->>'user_id' = (select user_id::text from "
                                      "sluice.account_user where erase_at is not null) and (select "
                                      "count(*) from json_object_keys(details)) = 1"),
                     1);
    /* a request that did not know the user creates none */
    struct vault_user_create create = ask_create(account, "ada");
    assert_true(create.status == OK && create.erase_at == first.erase_at);
    end();
}

/* An account that was erased meanwhile gets no user. */
static void test_no_account(void **state)
{
    (void)state;
    begin(1);
    assert_int_equal(ask(uuid_v7(), "ada", true).status, ERR_LIMIT);
    assert_int_equal(items_ask(conninfo, "select count(*) from sluice.account_user"), 0);
    end();
}

/* A request that began before its account was marked creates a user that is being erased, too. */
static void test_an_account_that_is_being_erased(void **state)
{
    (void)state;
    begin(1);
    items_tell(conninfo, "update sluice.account set erase_at = now() where name = 'b'");
    struct vault_user_create create = ask_create(other, "late");
    assert_true(create.status == OK && create.erase_at > clock_shared_us());
    assert_int_equal(items_ask(conninfo, "select count(*) from sluice.account_user where erase_at "
                                         "> now() + interval '50 years'"),
                     1);
    items_tell(conninfo, "update sluice.account set erase_at = null");
    assert_int_equal(ask_create(other, "early").erase_at, 0);
    items_tell(conninfo, "delete from sluice.account_user");
    end();
}

static int set_up(void **state)
{
    char sql[256], ids[2][UUID_TEXT_LEN + 1];
    (void)state;
    conninfo = pg_cluster_database(true);
    account = uuid_v7();
    other = uuid_v7();
    uuid_format(account, ids[0]);
    uuid_format(other, ids[1]);
    (void)snprintf(sql, sizeof(sql),
                   "insert into sluice.account values ('%s', 'a', now()), ('%s', 'b', now())",
                   ids[0], ids[1]);
    items_tell(conninfo, sql);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_find_and_create),
        cmocka_unit_test(test_two_at_once),
        cmocka_unit_test(test_limit),
        cmocka_unit_test(test_uncounted),
        cmocka_unit_test(test_many_at_once),
        cmocka_unit_test(test_last_request),
        cmocka_unit_test(test_look),
        cmocka_unit_test(test_erase),
        cmocka_unit_test(test_no_account),
        cmocka_unit_test(test_an_account_that_is_being_erased),
    };
    return unit_result(cmocka_run_group_tests(tests, set_up, NULL));
}
