/* Which keys count as another one: those of its line, and those that these made. */
#include "store/api_key.h"
#include "support/pg_both.h"

enum { CHAIN = 1100, CHAIN_FROM = 1000 };

static struct pg_call call;
static struct uuid account;

/* The key with that number. */
static struct uuid key_of(int number)
{
    struct uuid id;
    char text[UUID_TEXT_LEN + 1];
    (void)snprintf(text, sizeof(text), "019a0000-0000-7000-8000-%012d", number);
    assert_true(uuid_parse(slice_cstr(text), &id));
    return id;
}

static const struct {
    int id, line, made_by; /* 0: none */
    const char *what;
} keys[] = {
    {1, 0, 0, "the maker of the asker"},
    {2, 0, 1, "the asker's first key"},
    {3, 2, 1, "the asker"},
    {4, 2, 1, "its successor"},
    {5, 0, 3, "a key that it made"},
    {6, 0, 4, "one that its successor made"},
    {7, 0, 2, "one that its first key made"},
    {8, 0, 5, "one made by one that it made"},
    {9, 8, 1, "that one, rolled by its maker"},
    {10, 0, 9, "one made by that one"},
    {11, 0, 1, "another key of the same maker"},
    {12, 11, 1, "that one, rolled"},
    {13, 0, 12, "one that it made"},
    {14, 0, 0, "a key of a command"},
};
static const bool are_kin[ARRAY_LEN(keys)] = {false, true, true, true,  true,  true,  true,
                                              true,  true, true, false, false, false, false};

static struct uuid asked[2];

static void start_is_kin(struct pg_call *c)
{
    store_api_key_is_kin(c->bench->pool, &c->query, &c->op, account, asked[0], asked[1]);
}

static bool is_kin(struct uuid id, struct uuid other_id)
{
    bool found;
    asked[0] = id;
    asked[1] = other_id;
    assert_int_equal(pg_call_run(&bench, &call, start_is_kin, NULL), OK);
    assert_int_equal(store_api_key_is_kin_result(&call.query, &found), OK);
    pg_call_end(&call);
    return found;
}

static void test_lines_and_makers(void **state)
{
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(keys); i++)
        for (int other = 2; other <= 4; other++) /* any key of the line asked */
            if (is_kin(key_of(keys[i].id), key_of(other)) != are_kin[i])
                fail_msg("%s and key %d", keys[i].what, other);
    assert_false(is_kin(key_of(3), key_of(5))); /* the maker may decide */
    assert_true(is_kin(key_of(5), key_of(5)));
    assert_true(is_kin(key_of(99), key_of(3))); /* it does not exist */
    assert_true(is_kin((struct uuid){{0}}, key_of(3)));
}

/* A chain that is too long to follow counts as any key's. */
static void test_a_long_chain(void **state)
{
    (void)state;
    assert_false(is_kin(key_of(CHAIN_FROM + 500), key_of(3)));
    assert_true(is_kin(key_of(CHAIN_FROM + CHAIN), key_of(3)));
}

static int set_up(void **state)
{
    char sql[600], id[UUID_TEXT_LEN + 1];
    (void)state;
    conninfo = pg_cluster_database(true);
    account = uuid_v7();
    uuid_format(account, id);
    (void)snprintf(sql, sizeof(sql),
                   "insert into sluice.account (account_id, name, created_at) values ('%s', 'a', "
                   "now())",
                   id);
    items_tell(conninfo, sql);
    for (size_t i = 0; i < ARRAY_LEN(keys); i++) {
        (void)snprintf(
            sql, sizeof(sql),
            "insert into sluice.api_key (account_id, id, hash, prefix, name, scopes, created_at, "
            "line, made_by) select '%s', '019a0000-0000-7000-8000-%012d', sha256('%d'), 'p', 'n', "
            "'read', now(), case when %d > 0 then '019a0000-0000-7000-8000-%012d'::uuid end, case "
            "when %d > 0 then '019a0000-0000-7000-8000-%012d'::uuid end",
            id, keys[i].id, keys[i].id, keys[i].line, keys[i].line, keys[i].made_by,
            keys[i].made_by);
        items_tell(conninfo, sql);
    }
    (void)snprintf(
        sql, sizeof(sql),
        "insert into sluice.api_key (account_id, id, hash, prefix, name, scopes, created_at, "
        "made_by) select '%s', ('019a0000-0000-7000-8000-' || lpad((%d + n)::text, 12, '0'))::uuid,"
        " sha256((%d + n)::text::bytea), 'p', 'n', 'read', now(), ('019a0000-0000-7000-8000-' || "
        "lpad((%d + n - 1)::text, 12, '0'))::uuid from generate_series(1, %d) n",
        id, CHAIN_FROM, CHAIN_FROM, CHAIN_FROM, CHAIN);
    items_tell(conninfo, sql);
    return 0;
}

#define IN_BOTH(test) IN_BOTH_BY(test, open_bench, close_bench)

int main(void)
{
    const struct CMUnitTest tests[] = {IN_BOTH(test_lines_and_makers), IN_BOTH(test_a_long_chain)};
    return unit_result(cmocka_run_group_tests(tests, set_up, NULL));
}
