/* Runs found by words, in both modes: rare words are found wherever they are, frequent words from
 * the newest run on, and each account finds its own runs alone. The hashes are numbers here. */
#include "base/clock.h"
#include "store/execution.h"
#include "support/pg_both.h"

enum { RUNS = 12000, EVERY = 1500 }; /* every 1500th run has the rare word */

static struct pg_call call;
static struct uuid account, other, next;
static int64_t begin_ms; /* run n began n ms later */
static struct store_page page;
static struct execution_filter filter;

static void start_list(struct pg_call *c)
{
    store_execution_list(c->bench->pool, &c->query, &c->op, c->arg ? other : account, &page,
                         &filter);
}

/* Returns the rows that match the words, at most count_max. */
static size_t find(const char *words, size_t count_max, struct execution **list)
{
    size_t count;
    filter.words = slice_cstr(words);
    page.count_max = count_max;
    assert_int_equal(pg_call_run(&bench, &call, start_list, NULL), OK);
    assert_int_equal(store_execution_list_result(&call.query, list, &count, &next), OK);
    return count;
}

static int64_t number_of(const struct execution *one)
{
    return uuid_v7_wall_ms(one->id) - begin_ms;
}

static void rare_words_are_found_anywhere(void **state)
{
    struct execution *list;
    (void)state;
    assert_int_equal(find("{2}", 100, &list), RUNS / EVERY);
    assert_true(uuid_is_nil(next));
    for (size_t i = 0; i < RUNS / EVERY; i++) {
        assert_int_equal(number_of(&list[i]), RUNS - (int64_t)i * EVERY);
        assert_true(slice_eq_cstr(list[i].integration_id, "gmail"));
        assert_false(list[i].is_blocked);
    }
    pg_call_end(&call);
    assert_int_equal(find("{1,2}", 100, &list), RUNS / EVERY);
    pg_call_end(&call);
    /* under the present key of the ring, or under one before it */
    assert_int_equal(find("{9};{2}", 100, &list), RUNS / EVERY);
    pg_call_end(&call);
    assert_int_equal(find("{9,2}", 100, &list), 0);
    assert_true(uuid_is_nil(next));
    pg_call_end(&call);
}

static void a_page_of_them_continues(void **state)
{
    struct execution *list;
    (void)state;
    assert_int_equal(find("{2}", 3, &list), 3);
    assert_int_equal(number_of(&list[2]), RUNS - 2 * EVERY);
    page.before = next;
    pg_call_end(&call);
    assert_int_equal(find("{2}", 100, &list), RUNS / EVERY - 3);
    assert_int_equal(number_of(&list[0]), RUNS - 3 * EVERY);
    pg_call_end(&call);
    page.since = uuid_v7_floor(begin_ms + EVERY + 1);
    assert_int_equal(find("{2}", 100, &list), RUNS / EVERY - 4);
    pg_call_end(&call);
}

/* All runs have the word 1, half of them 3. Of so many as have 1, the newest thousand inputs are
 * read at a time. */
static void frequent_words_begin_with_the_newest(void **state)
{
    struct execution *list;
    (void)state;
    assert_int_equal(find("{1}", 26, &list), 26);
    assert_int_equal(number_of(&list[0]), RUNS);
    assert_int_equal(number_of(&list[25]), RUNS - 25);
    pg_call_end(&call);
    for (int64_t left = RUNS / 2, last = RUNS + 1; left > 0;) {
        size_t count = find("{3}", 100, &list);
        assert_true(count == 100);
        for (size_t i = 0; i < count; i++) {
            assert_true(number_of(&list[i]) < last && number_of(&list[i]) % 2 == 0);
            last = number_of(&list[i]);
        }
        left -= (int64_t)count;
        assert_true(left >= 0);
        page.before = next;
        pg_call_end(&call);
    }
}

/* Neither the runs of other days nor those outside the range hide those within it. */
static void a_range_holds_however_many_match(void **state)
{
    static const char *const lists[] = {"{1}", "{3}"};
    struct execution *list;
    (void)state;
    page.since = uuid_v7_floor(begin_ms + 101);
    page.before = uuid_v7_floor(begin_ms + 111);
    for (size_t i = 0; i < ARRAY_LEN(lists); i++) {
        assert_int_equal(find(lists[i], 100, &list), i ? 5 : 10);
        assert_int_equal(number_of(list), 110);
        pg_call_end(&call);
    }
    page = (struct store_page){.before = uuid_v7_floor(begin_ms + RUNS + 100)};
    assert_int_equal(find("{8}", 100, &list), 100);
    assert_int_equal(number_of(list), -1);
    pg_call_end(&call);
    page.since = uuid_v7_floor(begin_ms - 3);
    assert_int_equal(find("{8}", 100, &list), 3);
    pg_call_end(&call);
    page.since = uuid_v7_floor(begin_ms);
    assert_int_equal(find("{8}", 100, &list), 0);
    pg_call_end(&call);
}

static void filters_hold_too(void **state)
{
    struct execution *list;
    (void)state;
    filter.integration_id = SLICE("gmail");
    assert_int_equal(find("{2}", 100, &list), RUNS / EVERY);
    pg_call_end(&call);
    filter.integration_id = SLICE("notion");
    assert_int_equal(find("{2}", 100, &list), 0);
    pg_call_end(&call);
    filter.integration_id = SLICE_NONE;
    filter.status = SLICE("failed");
    assert_int_equal(find("{2}", 100, &list), 0);
    pg_call_end(&call);
    assert_int_equal(find("{4}", 100, &list), 1);
    assert_int_equal(number_of(list), 7);
    pg_call_end(&call);
    filter.error_code = SLICE("timeout");
    assert_int_equal(find("{4}", 100, &list), 1);
    pg_call_end(&call);
    filter.error_code = SLICE("forbidden");
    assert_int_equal(find("{4}", 100, &list), 0);
    pg_call_end(&call);
}

/* Page by page every run with the words is listed once, whether the newest inputs or the index has
 * them. Words that are frequent enough for a page of the newest may be too rare for one with other
 * filters. */
static void pages_lead_to_all(void **state)
{
    static const struct {
        const char *words;
        int64_t every;
        size_t count_max;
    } cases[] = {{"{7}", 40, 20}, {"{7}", 40, 30}, {"{3}", 2, 100}, {"{2}", EVERY, 5}};
    struct execution *list;
    (void)state;
    for (size_t i = 0; i < 2 * ARRAY_LEN(cases); i++) {
        int64_t every = cases[i / 2].every, expected = RUNS;
        filter.integration_id = i % 2 ? SLICE("gmail") : SLICE_NONE;
        page.before = uuid_v7_floor(begin_ms + RUNS + 100);
        do {
            size_t count = find(cases[i / 2].words, cases[i / 2].count_max, &list);
            for (size_t k = 0; k < count; k++, expected -= every)
                assert_int_equal(number_of(&list[k]), expected);
            page.before = next;
            pg_call_end(&call);
        } while (!uuid_is_nil(next));
        assert_int_equal(expected, 0);
    }
}

/* The newest thousand inputs are the answer if enough of them have the words: with other filters,
 * 250. Then the next page continues after them; by the index, after a thousand runs with the words,
 * or nowhere. */
static void where_the_answer_comes_from(void **state)
{
    struct execution *list;
    (void)state;
    filter.integration_id = SLICE("notion");
    assert_int_equal(find("{3}", 100, &list), 0);
    assert_int_equal(uuid_v7_wall_ms(next) - begin_ms, RUNS - 999);
    pg_call_end(&call);
    assert_int_equal(find("{7}", 20, &list), 0);
    assert_true(uuid_is_nil(next));
    pg_call_end(&call);
    /* expired inputs are among them, and match nothing */
    page.before = uuid_v7_floor(begin_ms + 10);
    page.since = uuid_v7_floor(begin_ms);
    filter.integration_id = SLICE_NONE;
    assert_int_equal(find("{1}", 100, &list), 8);
    pg_call_end(&call);
}

static void blocked_runs_on_request(void **state)
{
    struct execution *list;
    (void)state;
    assert_int_equal(find("{5}", 100, &list), 0);
    pg_call_end(&call);
    filter.with_blocked = true;
    assert_int_equal(find("{5}", 100, &list), 1);
    assert_true(list->is_blocked && slice_eq_cstr(list->action_id, "send"));
    assert_true(slice_eq_cstr(list->error_code, "confirmation_missing"));
    assert_int_equal(list->started_at, (begin_ms + RUNS + 1) * 1000);
    pg_call_end(&call);
    filter.status = SLICE("blocked");
    assert_int_equal(find("{5}", 100, &list), 1);
    pg_call_end(&call);
    assert_int_equal(find("{2}", 100, &list), 0);
    pg_call_end(&call);
    /* without words: among the executions, by their time */
    filter = (struct execution_filter){.with_blocked = true};
    assert_int_equal(find(NULL, 2, &list), 2);
    assert_true(list[0].is_blocked && number_of(&list[0]) == RUNS + 1);
    assert_true(!list[1].is_blocked && number_of(&list[1]) == RUNS);
    pg_call_end(&call);
    filter.status = SLICE("blocked");
    assert_int_equal(find(NULL, 100, &list), 1);
    pg_call_end(&call);
}

static void another_account_has_its_own(void **state)
{
    struct execution *list;
    size_t count;
    (void)state;
    filter.words = SLICE("{1}");
    page.count_max = 100;
    assert_int_equal(pg_call_run(&bench, &call, start_list, &bench), OK);
    assert_int_equal(store_execution_list_result(&call.query, &list, &count, &next), OK);
    assert_int_equal(count, 1);
    pg_call_end(&call);
}

static void not_what_has_expired(void **state)
{
    struct execution *list;
    (void)state;
    assert_int_equal(find("{6}", 100, &list), 0);
    pg_call_end(&call);
}

/* ---- rows ---- */

static const char *text_of(struct uuid id)
{
    static char text[2][UUID_TEXT_LEN + 1];
    static unsigned at;
    uuid_format(id, text[at ^= 1]);
    return text[at];
}

static void tell(const char *format, const char *owner, int first, int last)
{
    char sql[4096], rows[4096];
    snprintf(rows, sizeof(rows),
             "with k as (select '%s'::uuid as account, n, (lpad(to_hex(%lld + n), 12, '0') || "
             "'70008000000000000000')::uuid as id from generate_series(%d, %d) n) ",
             owner, (long long)begin_ms, first, last);
    snprintf(sql, sizeof(sql), "%s%s", rows, format);
    items_tell(conninfo, sql);
}

#define INPUT                                                                                      \
    "insert into sluice.execution_input (account_id, id, is_blocked, sealed, key_id, expires_at, " \
    "words) select account, id, "
#define RUN                                                                             \
    "insert into sluice.execution (account_id, id, integration_id, action_id, status, " \
    "error_code, started_at, finished_at, owner, summary) select account, id, 'gmail', 'send', "

static int set_up(void **state)
{
    (void)state;
    conninfo = pg_cluster_database(true);
    account = uuid_v7();
    other = uuid_v7();
    begin_ms = clock_wall_us() / 1000 / 86400000 * 86400000;
    tell(RUN "case n when 7 then 'failed' else 'succeeded' end, case n when 7 then 'timed_out' "
             "end, now(), now(), account, case n when 7 then '{\"error_code\":\"timeout\"}' else "
             "'{}' end from k",
         text_of(account), 1, RUNS);
    tell(INPUT "false, '', 'k', now() + case n when 9 then interval '-1 s' else '1 h' end, "
               "array[1] || case when n % 1500 = 0 then array[2] end || case n % 2 when 0 then "
               "array[3] end || case n when 7 then array[4] when 9 then array[6] end || "
               "case n % 40 when 0 then array[7] end from k",
         text_of(account), 1, RUNS);
    tell(RUN "'succeeded', null, now(), now(), account, '{}' from k", text_of(account), -1500, -1);
    tell(INPUT "false, '', 'k', now() + interval '1 h', array[8] from k", text_of(account), -1500,
         -1);
    tell(INPUT "true, '', 'k', now() + interval '1 h', array[5] from k", text_of(account), RUNS + 1,
         RUNS + 1);
    tell("insert into sluice.audit_event (account_id, id, kind, reason, actor, details) select "
         "account, id, 'execution.blocked', 'confirmation_missing', 'key:x', "
         "'{\"integration_id\":\"gmail\",\"action_id\":\"send\"}' from k",
         text_of(account), RUNS + 1, RUNS + 1);
    tell("insert into sluice.audit_event (account_id, id, kind, actor, details) select account, "
         "id, 'key.created', 'key:x', '{\"x\":\"\\u0000\"}' from k",
         text_of(account), RUNS + 2, RUNS + 9);
    tell(RUN "'succeeded', null, now(), now(), account, '{}' from k", text_of(other), 1, 1);
    tell(INPUT "false, '', 'k', now() + interval '1 h', array[1] from k", text_of(other), 1, 1);
    return 0;
}

static int open_search(void **state)
{
    filter = (struct execution_filter){0};
    page = (struct store_page){.before = uuid_v7_floor(begin_ms + RUNS + 100)};
    return open_bench(state);
}

#define IN_BOTH(test) IN_BOTH_BY(test, open_search, close_bench)

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_BOTH(rare_words_are_found_anywhere),
        IN_BOTH(a_page_of_them_continues),
        IN_BOTH(frequent_words_begin_with_the_newest),
        IN_BOTH(a_range_holds_however_many_match),
        IN_BOTH(filters_hold_too),
        IN_BOTH(pages_lead_to_all),
        IN_BOTH(where_the_answer_comes_from),
        IN_BOTH(blocked_runs_on_request),
        IN_BOTH(another_account_has_its_own),
        IN_BOTH(not_what_has_expired),
    };
    return unit_result(cmocka_run_group_tests(tests, set_up, NULL));
}
