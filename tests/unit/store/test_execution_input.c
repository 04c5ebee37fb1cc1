/* Inputs that are stored with their executions and events, read, and removed. In both batch modes.
 */
#include "execution_test.h"
#include "store/audit.h"
#include "store/quota.h"

static struct uuid asked_account, asked;
static struct audit_event event;
static enum quota_kind kind;
static struct quota_cut cut;
static size_t kept_max;

static void start_input(struct pg_call *call)
{
    store_execution_input_get(call->bench->pool, &call->query, &call->op, asked_account, asked);
}

static void start_event(struct pg_call *call)
{
    store_audit_insert_input(call->bench->pool, &call->query, &call->op, &event);
}

static void start_trim(struct pg_call *call)
{
    store_quota_trim(call->bench->pool, &call->query, &call->op, kind, &cut, 0);
}

static void start_quota(struct pg_call *call)
{
    store_quota_find(call->bench->pool, &call->query, &call->op, kind, (struct uuid){{0}},
                     QUOTA_ACCOUNTS_MAX, kept_max);
}

static struct execution_input input_of(const char *sealed)
{
    /* as store_input_words writes 2 and 2^32 - 1 */
    static const char words[] = "\0\0\0\1\0\0\0\0\0\0\0\x1a\0\0\0\2\0\0\0\0"
                                "\0\0\0\4\0\0\0\2\0\0\0\4\xff\xff\xff\xff";
    return (struct execution_input){.sealed = slice_cstr(sealed),
                                    .key_id = SLICE("k1"),
                                    .words = slice_of(words, sizeof(words) - 1),
                                    .expires_at = clock_wall_us() + INT64_C(3600) * 1000000};
}

/* Asserts that the account has this input under that id; NULL: none. */
static void assert_input(struct uuid of, struct uuid id, const char *sealed)
{
    struct execution_input got;
    asked_account = of;
    asked = id;
    run(start_input);
    int status = store_execution_input_get_result(&calls[0].query, &got);
    assert_int_equal(status, sealed ? OK : ERR_NOTFOUND);
    if (sealed) {
        assert_true(slice_eq_cstr(got.sealed, sealed));
        assert_true(slice_eq_cstr(got.key_id, "k1"));
        assert_true(got.expires_at > clock_wall_us());
    }
    done();
}

static int finish_with_input(enum claim_end end, const char *sealed)
{
    execution = execution_of(&claim, SLICE("{}"));
    execution.input = input_of(sealed);
    claim_end = end;
    run(start_finish);
    int status = store_hit_result(&calls[0].query);
    done();
    return status;
}

static void insert_with_input(const char *sealed)
{
    claim = claim_of(SLICE_NONE);
    execution = execution_of(&claim, SLICE("{}"));
    execution.input = input_of(sealed);
    run(start_insert);
    assert_int_equal(store_done_result(&calls[0].query), OK);
    done();
}

static void insert_event(const char *sealed)
{
    event = (struct audit_event){.account_id = account,
                                 .id = uuid_v7(),
                                 .kind = audit_kind_name(AUDIT_EXECUTION_BLOCKED),
                                 .by = {.actor = SLICE("system")},
                                 .input = input_of(sealed)};
    run(start_event);
    assert_int_equal(store_done_result(&calls[0].query), OK);
    done();
}

static void test_stored_with_the_execution(void **state)
{
    (void)state;
    assert_int_equal(claim_now(SLICE("kept")), CLAIM_WON);
    assert_int_equal(finish_with_input(CLAIM_KEEP, "one"), OK);
    assert_input(account, execution.id, "one");
    assert_input(uuid_v7(), execution.id, NULL);
    assert_int_equal(claim_now(SLICE("released")), CLAIM_WON);
    assert_int_equal(finish_with_input(CLAIM_RELEASE, "two"), OK);
    assert_input(account, execution.id, "two");
    insert_with_input("three");
    assert_input(account, execution.id, "three");
    insert_event("four");
    assert_input(account, event.id, "four");
}

/* Nothing is stored by a node whose claim was taken from it. */
static void test_not_without_the_execution(void **state)
{
    (void)state;
    assert_int_equal(claim_now(SLICE("lost")), CLAIM_WON);
    claim.owner = uuid_v7();
    assert_int_equal(finish_with_input(CLAIM_KEEP, "one"), ERR_NOTFOUND);
    assert_input(account, execution.id, NULL);
}

static void test_none_is_stored_unless_it_is_set(void **state)
{
    (void)state;
    insert_with_input("one");
    struct uuid id = execution.id;
    execution.id = uuid_v7();
    execution.input = (struct execution_input){0};
    run(start_insert);
    done();
    assert_input(account, execution.id, NULL);
    assert_input(account, id, "one");
}

static void test_an_expired_input_is_not_read(void **state)
{
    (void)state;
    claim = claim_of(SLICE_NONE);
    execution = execution_of(&claim, SLICE("{}"));
    execution.input = input_of("old");
    execution.input.expires_at = clock_wall_us() - 1000000;
    run(start_insert);
    done();
    assert_input(account, execution.id, NULL);
}

static void test_the_second_sending_finds_the_first(void **state)
{
    (void)state;
    assert_int_equal(claim_now(SLICE("twice")), CLAIM_WON);
    execution = execution_of(&claim, SLICE("{}"));
    execution.input = input_of("once");
    claim_end = CLAIM_KEEP;
    calls[0].is_again = false;
    assert_int_equal(pg_call_run(&bench, &calls[0], start_finish, NULL), OK);
    assert_int_equal(store_hit_result(&calls[0].query), OK);
    done();
    calls[0].is_again = true;
    run(start_finish);
    assert_int_equal(store_hit_result(&calls[0].query), OK);
    done();
    calls[0].is_again = false;
    insert_event("event");
    run(start_event); /* every sending of an event is harmless */
    assert_int_equal(store_done_result(&calls[0].query), OK);
    done();
    insert_with_input("plain");
    calls[0].is_again = true;
    run(start_insert);
    assert_int_equal(store_done_result(&calls[0].query), OK);
    calls[0].is_again = false;
    done();
    assert_input(account, execution.id, "plain");
}

static int64_t count_inputs(const char *of)
{
    char sql[256], id[UUID_TEXT_LEN + 1];
    uuid_format(account, id);
    (void)snprintf(sql, sizeof(sql),
                   "select count(*) from sluice.execution_input where account_id = '%s' and %s", id,
                   of);
    return items_ask(conninfo, sql);
}

static size_t trim(enum quota_kind of, struct uuid last)
{
    size_t count = 0;
    kind = of;
    cut = (struct quota_cut){account, last};
    run(start_trim);
    assert_int_equal(store_quota_trim_result(&calls[0].query, &count), OK);
    done();
    return count;
}

static void test_removed_with_its_execution_and_event(void **state)
{
    (void)state;
    account = uuid_v7();
    insert_with_input("one");
    insert_with_input("two");
    insert_event("three");
    assert_int_equal(trim(QUOTA_EXECUTIONS, event.id), 2);
    assert_int_equal(count_inputs("not is_blocked"), 0);
    assert_int_equal(count_inputs("is_blocked"), 1);
    assert_int_equal(trim(QUOTA_AUDIT, event.id), 1);
    assert_int_equal(count_inputs("true"), 0);
}

/* Only inputs of blocked runs are limited, and their events stay. */
static void test_blocked_inputs_beyond_a_number(void **state)
{
    struct quota_cut *list;
    size_t count = 0, found = 0;
    char sql[256], id[UUID_TEXT_LEN + 1];
    (void)state;
    account = uuid_v7();
    uuid_format(account, id);
    (void)snprintf(sql, sizeof(sql),
                   "insert into sluice.account values ('%s', 'a', now()) on conflict do nothing",
                   id);
    items_tell(conninfo, sql);
    insert_with_input("run");
    for (int i = 0; i < 8; i++)
        insert_event("blocked");
    kind = QUOTA_BLOCKED_INPUTS;
    kept_max = 3;
    run(start_quota);
    assert_int_equal(store_quota_find_result(&calls[0].query, &list, &count), OK);
    for (size_t i = 0; i < count; i++)
        if (uuid_eq(list[i].account_id, account))
            cut = list[found = i];
    done();
    assert_false(uuid_is_nil(cut.last));
    assert_int_equal(trim(QUOTA_BLOCKED_INPUTS, cut.last), 5);
    assert_int_equal(count_inputs("is_blocked"), 3);
    assert_int_equal(count_inputs("not is_blocked"), 1);
    assert_input(account, event.id, "blocked");
    (void)snprintf(sql, sizeof(sql),
                   "select count(*) from sluice.audit_event where account_id = '%s'", id);
    assert_int_equal(items_ask(conninfo, sql), 8);
}

enum { SET = 20 };
static struct execution items[SET];
static struct claim claims[SET];

static void start_item_claim(struct pg_call *call)
{
    store_claim_insert(call->bench->pool, &call->query, &call->op, call->arg);
}

static void start_item_finish(struct pg_call *call)
{
    size_t i = (size_t)((const struct claim *)call->arg - claims);
    store_execution_finish(call->bench->pool, &call->query, &call->op, &items[i], claims[i].key,
                           i % 2 ? CLAIM_KEEP : CLAIM_RELEASE);
}

static void run_items(void (*start)(struct pg_call *call))
{
    for (size_t i = 0; i < SET; i++)
        pg_call_start(&bench, &calls[i], start, &claims[i]);
    pg_calls_wait(&bench, calls, SET);
}

/* Each input is stored with its own execution, with and without others in its statement. */
static void test_sets(void **state)
{
    static char keys[SET][8], sealed[SET][8];
    (void)state;
    for (size_t i = 0; i < SET; i++) {
        (void)snprintf(keys[i], sizeof(keys[i]), "k%zu", i);
        (void)snprintf(sealed[i], sizeof(sealed[i]), "s%zu", i);
        claims[i] = claim_of(slice_cstr(keys[i]));
        items[i] = execution_of(&claims[i], SLICE("{}"));
        if (i % 3)
            items[i].input = input_of(sealed[i]);
    }
    run_items(start_item_claim);
    pg_calls_end(calls, SET);
    claims[5].owner = items[5].owner = uuid_v7(); /* lost */
    run_items(start_item_finish);
    for (size_t i = 0; i < SET; i++)
        assert_int_equal(store_hit_result(&calls[i].query), i == 5 ? ERR_NOTFOUND : OK);
    pg_calls_end(calls, SET);
    for (size_t i = 0; i < SET; i++)
        assert_input(account, items[i].id, i % 3 && i != 5 ? sealed[i] : NULL);
}

/* ---- the words of runs that are sent together ---- */

enum { NEWER = 1000 }; /* inputs without words, so that the index has to be asked */

static struct arena words_arena;
static struct store_page page;
static struct execution_filter filter;

/* Words of run i: one that all have, one that half of them have, and its own. The first two have
 * the same key in the index. */
static uint32_t word_of(size_t i, unsigned which)
{
    const uint32_t words[] = {7, 100 + i % 2, 0x9e3779b1U * (uint32_t)(i + 1)};
    return words[which];
}

static void start_search(struct pg_call *call)
{
    store_execution_list(call->bench->pool, &call->query, &call->op, account, &page, &filter);
}

/* Returns how many runs of the account have both words, and the first of them. */
static size_t search(uint32_t one, uint32_t two, struct uuid *first)
{
    struct execution *list;
    struct uuid next;
    size_t count;
    char words[128];
    (void)snprintf(words, sizeof(words), "{9};{%u,%u};{%u,%u}/{%u,%u}", one, two,
                   store_input_key(account, one), store_input_key(account, two), one, two);
    filter = (struct execution_filter){.words = slice_cstr(words)};
    page = (struct store_page){.before = uuid_v7_floor(clock_wall_us() / 1000 + 7200000),
                               .count_max = 100};
    run(start_search);
    assert_int_equal(store_execution_list_result(&calls[0].query, &list, &count, &next), OK);
    assert_true(uuid_is_nil(next));
    *first = count ? list[0].id : (struct uuid){{0}};
    done();
    return count;
}

static void make_items(struct uuid stranger)
{
    static char keys[SET][8];
    char sql[512], id[UUID_TEXT_LEN + 1];
    arena_init(&words_arena, 65536);
    for (size_t i = 0; i < SET; i++) {
        const uint32_t words[] = {word_of(i, 0), word_of(i, 1), word_of(i, 2)};
        (void)snprintf(keys[i], sizeof(keys[i]), "w%zu", i);
        claims[i] = claim_of(slice_cstr(keys[i]));
        claims[i].account_id = i % 4 == 3 ? stranger : account;
        items[i] = execution_of(&claims[i], SLICE("{}"));
        items[i].input = input_of("x");
        items[i].input.words = store_input_words(words, ARRAY_LEN(words), &words_arena);
    }
    uuid_format(account, id);
    (void)snprintf(
        sql, sizeof(sql),
        "insert into sluice.execution_input (account_id, id, is_blocked, sealed, key_id, "
        "expires_at) select '%s', (lpad(to_hex(%lld + n), 12, '0') || "
        "'70008000000000000000')::uuid, false, '', 'k', now() + interval '1 h' from "
        "generate_series(1, %d) n",
        id, (long long)(clock_wall_us() / 1000 + 3600000), NEWER);
    items_tell(conninfo, sql);
    run_items(start_item_claim);
    pg_calls_end(calls, SET);
}

/* Asserts that these runs of the account are found, each by its own word and no other. */
static void assert_found(size_t lost)
{
    struct uuid first;
    size_t sums[2] = {0};
    for (size_t i = 0; i < SET; i++) {
        bool is_ours = i % 4 != 3, is_found = is_ours && i != lost;
        assert_int_equal(search(word_of(i, 2), word_of(i, 1), &first), is_found);
        assert_true(!is_found || uuid_eq(first, items[i].id));
        assert_int_equal(search(word_of(i, 2), word_of(i, 0), &first), is_found);
        assert_int_equal(search(word_of(i, 2), word_of(i + 1, 1), &first), 0);
        sums[i % 2] += is_found;
    }
    assert_int_equal(search(7, 7, &first), sums[0] + sums[1]);
    assert_int_equal(search(7, 100, &first), sums[0]);
    assert_int_equal(search(8, 8, &first), 0);
}

/* Asserts that no row has the words of a run that is not stored. */
static void assert_not_shared(size_t lost)
{
    char id[UUID_TEXT_LEN + 1], with[128];
    if (lost == SET)
        return;
    uuid_format(items[lost].id, id);
    (void)snprintf(with, sizeof(with), "position(uuid_send('%s') in runs) > 0", id);
    assert_int_equal(count_inputs(with), 0);
}

#define IS_SHARED "runs is not null"
/* The newest of the runs has their words: it is removed last. */
#define IS_OLDER                                                                            \
    IS_SHARED " and exists (select from generate_series(0, length(runs) / 16 - 1) n where " \
              "encode(substr(runs, 16 * n + 1, 16), 'hex')::uuid > id)"

static void test_runs_share_words(void **state)
{
    const enum pg_mode *mode = *state;
    for (size_t lost = SET - 3; lost <= SET; lost += 3) {
        account = uuid_v7();
        make_items(uuid_v7());
        if (lost < SET) /* and with it the words of others, if it had theirs */
            claims[lost].owner = items[lost].owner = uuid_v7();
        pg_calls_start(&bench, calls, SET, start_item_finish, claims, sizeof(claims[0]));
        pg_calls_wait(&bench, calls, SET);
        for (size_t i = 0; i < SET; i++) {
            assert_int_equal(store_hit_result(&calls[i].query), i == lost ? ERR_NOTFOUND : OK);
            /* The database has refused nothing, so none was sent again. */
            assert_int_equal(calls[i].query.attempts, 0);
        }
        pg_calls_end(calls, SET);
        assert_found(lost);
        if (*mode == PG_MODE_SET)
            assert_in_range(count_inputs(IS_SHARED), 1, SET / 2);
        else
            assert_int_equal(count_inputs(IS_SHARED), 0);
        assert_not_shared(lost);
        assert_int_equal(count_inputs(IS_OLDER), 0);
        arena_deinit(&words_arena);
    }
}

/* Rows that the first sending has stored stay as they are, so none of the second has the words of
 * others. */
static void test_none_is_shared_by_the_second_sending(void **state)
{
    (void)state;
    make_items(account);
    for (unsigned round = 0; round < 2; round++) {
        for (size_t i = 0; i < SET; i++)
            calls[i].is_again = round;
        size_t count = round ? SET : SET / 2;
        pg_calls_start(&bench, calls, count, start_item_finish, claims, sizeof(claims[0]));
        pg_calls_wait(&bench, calls, count);
        for (size_t i = 0; i < count; i++)
            assert_int_equal(store_hit_result(&calls[i].query), OK);
        pg_calls_end(calls, count);
    }
    for (size_t i = 0; i < SET; i++) {
        struct uuid first;
        calls[i].is_again = false;
        assert_int_equal(search(word_of(i, 2), 7, &first), 1);
        assert_true(uuid_eq(first, items[i].id));
    }
    arena_deinit(&words_arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_BOTH(test_stored_with_the_execution),
        IN_BOTH(test_not_without_the_execution),
        IN_BOTH(test_none_is_stored_unless_it_is_set),
        IN_BOTH(test_an_expired_input_is_not_read),
        IN_BOTH(test_the_second_sending_finds_the_first),
        IN_BOTH(test_removed_with_its_execution_and_event),
        IN_BOTH(test_blocked_inputs_beyond_a_number),
        IN_BOTH(test_sets),
        IN_BOTH(test_runs_share_words),
        IN_BOTH(test_none_is_shared_by_the_second_sending),
    };
    if (tests_begin() != 0)
        return 1;
    return tests_end(cmocka_run_group_tests(tests, NULL, NULL));
}
