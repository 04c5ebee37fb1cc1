/* loop/dns with an injected look-up: cache, single flight, deadlines, cancel, limits, slots. A
 * slow resolver starves no other look-up. */
#include "testing.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <pthread.h>

#include "base/buf.h"
#include "loop/dns.h"

enum { THREADS = 8 };

/* ---- the injected resolver: names that begin with "slow" wait at a gate ---- */

static struct {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool is_open;
    size_t calls, waiting;
    char last[DNS_NAME_MAX + 1];
} gate = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

static void gate_set(bool is_open)
{
    pthread_mutex_lock(&gate.lock);
    gate.is_open = is_open;
    pthread_cond_broadcast(&gate.changed);
    pthread_mutex_unlock(&gate.lock);
}

static size_t gate_calls(void)
{
    pthread_mutex_lock(&gate.lock);
    size_t calls = gate.calls;
    pthread_mutex_unlock(&gate.lock);
    return calls;
}

static size_t gate_waiting(void)
{
    pthread_mutex_lock(&gate.lock);
    size_t waiting = gate.waiting;
    pthread_mutex_unlock(&gate.lock);
    return waiting;
}

static int lookup(const char *name, struct dns_addresses *out, const char **cause)
{
    pthread_mutex_lock(&gate.lock);
    gate.calls++;
    memcpy(gate.last, name, strlen(name) + 1);
    gate.waiting++;
    while (strncmp(name, "slow", 4) == 0 && !gate.is_open)
        pthread_cond_wait(&gate.changed, &gate.lock);
    gate.waiting--;
    pthread_mutex_unlock(&gate.lock);
    if (strncmp(name, "none", 4) == 0) {
        *cause = "no such name";
        return ERR_NOTFOUND;
    }
    struct sockaddr_in *v4 = (struct sockaddr_in *)(void *)&out->list[0];
    v4->sin_family = AF_INET;
    v4->sin_addr.s_addr = htonl(0x0a000000 + (uint32_t)strlen(name));
    out->count = 1;
    return OK;
}

/* ---- an op that looks up one name ---- */

struct asker {
    struct op op;
    struct dns_query query;
    struct dns_resolver *resolver;
    const char *host;
    uint64_t deadline_ns;
    bool has_asked, is_done;
};

static enum op_result step_ask(struct op *op)
{
    struct asker *asker = CONTAINER_OF(op, struct asker, op);
    asker->query.host = slice_cstr(asker->host);
    asker->query.deadline_ns = asker->deadline_ns;
    dns_resolve(asker->resolver, &asker->query, op);
    asker->has_asked = true;
    assert_int_equal(op->holds, 1); /* never done before the call returns */
    return OP_WAIT;
}

static enum op_result step_answered(struct op *op)
{
    CONTAINER_OF(op, struct asker, op)->is_done = true;
    return OP_DONE;
}

static const struct op_step steps[] = {{"ask", step_ask, 0}, {"answered", step_answered, 0}};
static const struct op_class asker_class = {.name = "asker", .steps = steps, .step_count = 2};

static void ask(struct asker *asker, struct loop *loop, struct dns_resolver *resolver,
                const char *host, uint64_t timeout_ms)
{
    *asker = (struct asker){.resolver = resolver, .host = host};
    asker->deadline_ns = clock_mono_ns() + timeout_ms * 1000000;
    op_start(&asker->op, &asker_class, loop, NULL, 0);
}

static void ask_and_wait(struct asker *asker, struct loop *loop, struct dns_resolver *resolver,
                         const char *host)
{
    ask(asker, loop, resolver, host, 60000);
    WAIT_UNTIL(loop, asker->is_done && op_count(loop) == 0);
}

/* A turn may end after each op if the machine is paused. */
static void turn_until_asked(struct loop *loop, const struct asker *askers, size_t count)
{
    for (size_t i = 0; i < count; i++)
        WAIT_UNTIL(loop, askers[i].has_asked);
}

static struct dns_resolver *resolver_new(struct loop *loop, struct dns_config config)
{
    config.lookup = lookup;
    gate_set(false);
    pthread_mutex_lock(&gate.lock);
    gate.calls = 0;
    pthread_mutex_unlock(&gate.lock);
    struct dns_resolver *resolver = dns_resolver_new(loop, &config);
    assert_non_null(resolver);
    return resolver;
}

static void spin_ms(uint64_t ms)
{
    uint64_t until_ns = clock_mono_ns() + ms * 1000000;
    while (clock_mono_ns() < until_ns)
        continue;
}

static uint32_t v4_of(const struct asker *asker)
{
    assert_int_equal(asker->query.status, OK);
    assert_int_equal(asker->query.address_count, 1);
    assert_int_equal(asker->query.addresses[0].ss_family, AF_INET);
    return ntohl(
        ((const struct sockaddr_in *)(const void *)&asker->query.addresses[0])->sin_addr.s_addr);
}

static void literals_need_no_lookup(void **state)
{
    struct dns_resolver *resolver = resolver_new(*state, (struct dns_config){0});
    struct asker asker;
    ask_and_wait(&asker, *state, resolver, "10.1.2.3");
    assert_int_equal(v4_of(&asker), 0x0a010203);
    ask_and_wait(&asker, *state, resolver, "::1");
    assert_int_equal(asker.query.status, OK);
    assert_int_equal(asker.query.addresses[0].ss_family, AF_INET6);
    assert_int_equal(gate_calls(), 0);
    dns_resolver_free(resolver);
}

static void bad_names_are_refused(void **state)
{
    static const char *const bad[] = {"", ".", "-x", "a..b", "a b", "a/b", "a%b", "ä", "a\n", ".a"};
    struct dns_resolver *resolver = resolver_new(*state, (struct dns_config){0});
    struct asker asker;
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        ask_and_wait(&asker, *state, resolver, bad[i]);
        assert_int_equal(asker.query.status, ERR_NOTFOUND);
    }
    char longest[DNS_NAME_MAX + 2];
    memset(longest, 'a', sizeof(longest) - 1);
    longest[sizeof(longest) - 1] = 0;
    ask_and_wait(&asker, *state, resolver, longest);
    assert_int_equal(asker.query.status, ERR_NOTFOUND);
    assert_int_equal(gate_calls(), 0);
    ask_and_wait(&asker, *state, resolver, longest + 1);
    assert_int_equal(asker.query.status, OK);
    dns_resolver_free(resolver);
}

static void answers_are_cached_and_expire(void **state)
{
    struct dns_config config = {.ttl_ms = 3600000, .negative_ttl_ms = 3600000};
    struct dns_resolver *resolver = resolver_new(*state, config);
    struct asker asker;
    ask_and_wait(&asker, *state, resolver, "Host.Example");
    assert_int_equal(v4_of(&asker), 0x0a00000c);
    assert_string_equal(gate.last, "host.example");
    ask_and_wait(&asker, *state, resolver, "hOST.eXAMPLE");
    assert_int_equal(v4_of(&asker), 0x0a00000c);
    assert_int_equal(gate_calls(), 1);
    for (size_t i = 0; i < 2; i++) {
        ask_and_wait(&asker, *state, resolver, "none.example");
        assert_int_equal(asker.query.status, ERR_NOTFOUND);
        assert_string_equal(asker.query.err.text, "cannot resolve none.example: no such name");
        assert_int_equal(gate_calls(), 2);
    }
    dns_cache_clear(resolver);
    ask_and_wait(&asker, *state, resolver, "host.example");
    assert_int_equal(gate_calls(), 3);
    dns_resolver_free(resolver);

    resolver = resolver_new(*state, (struct dns_config){.ttl_ms = 1});
    ask_and_wait(&asker, *state, resolver, "host.example");
    spin_ms(2);
    ask_and_wait(&asker, *state, resolver, "host.example");
    assert_int_equal(gate_calls(), 2);
    dns_resolver_free(resolver);
}

static void many_queries_make_one_flight(void **state)
{
    enum { COUNT = 50 };
    struct dns_resolver *resolver = resolver_new(*state, (struct dns_config){0});
    struct asker askers[COUNT];
    for (size_t i = 0; i < COUNT; i++)
        ask(&askers[i], *state, resolver, "slow.example", 60000);
    turn_until_asked(*state, askers, COUNT);
    gate_set(true);
    WAIT_UNTIL(*state, op_count(*state) == 0);
    for (size_t i = 0; i < COUNT; i++)
        assert_int_equal(v4_of(&askers[i]), 0x0a00000c);
    assert_int_equal(gate_calls(), 1);
    dns_resolver_free(resolver);
}

static void a_query_ends_at_its_deadline_and_the_lookup_continues(void **state)
{
    struct dns_resolver *resolver = resolver_new(*state, (struct dns_config){0});
    struct asker late, later, after;
    ask(&late, *state, resolver, "slow.example", 5);
    ask(&later, *state, resolver, "slow.example", 3600000);
    WAIT_UNTIL(*state, late.is_done);
    assert_int_equal(late.query.status, ERR_TIMEOUT);
    assert_false(later.is_done);
    gate_set(true);
    WAIT_UNTIL(*state, later.is_done);
    assert_int_equal(later.query.status, OK);
    ask(&after, *state, resolver, "slow.example", 0); /* in the cache, so it takes no time */
    WAIT_UNTIL(*state, after.is_done);
    assert_int_equal(after.query.status, OK);
    ask(&after, *state, resolver, "other.example", 0);
    WAIT_UNTIL(*state, after.is_done && op_count(*state) == 0);
    assert_int_equal(after.query.status, ERR_TIMEOUT);
    assert_int_equal(gate_calls(), 1);
    dns_resolver_free(resolver);
}

static void a_query_can_be_cancelled(void **state)
{
    struct dns_resolver *resolver = resolver_new(*state, (struct dns_config){0});
    struct asker waiting, ready;
    struct dns_query idle = {0};
    dns_cancel(&idle);
    ask(&waiting, *state, resolver, "slow.example", 3600000);
    turn_until_asked(*state, &waiting, 1);
    dns_cancel(&waiting.query);
    dns_cancel(&waiting.query);
    WAIT_UNTIL(*state, waiting.is_done);
    assert_int_equal(waiting.query.status, ERR_CLOSED);
    ask_and_wait(&ready, *state, resolver, "127.0.0.1");
    dns_cancel(&ready.query); /* the query has ended */
    assert_int_equal(ready.query.status, OK);
    gate_set(true);
    dns_resolver_free(resolver);
}

static void freeing_ends_what_waits(void **state)
{
    struct dns_resolver *resolver = resolver_new(*state, (struct dns_config){0});
    struct asker askers[20];
    static const char *const hosts[] = {"slow1", "slow2", "slow3", "slow4", "slow5"};
    for (size_t i = 0; i < ARRAY_LEN(askers); i++)
        ask(&askers[i], *state, resolver, hosts[i % 5], 3600000);
    turn_until_asked(*state, askers, ARRAY_LEN(askers));
    dns_resolver_free(resolver); /* look-ups are still on their threads */
    gate_set(true);
    WAIT_UNTIL(*state, op_count(*state) == 0);
    for (size_t i = 0; i < ARRAY_LEN(askers); i++)
        assert_int_equal(askers[i].query.status, ERR_CLOSED);
}

static void names_and_queries_are_bounded(void **state)
{
    struct dns_config config = {.cache_max = 2, .queries_max = 3};
    struct dns_resolver *resolver = resolver_new(*state, config);
    struct asker first, second, third, fourth;
    ask_and_wait(&first, *state, resolver, "a");
    ask_and_wait(&first, *state, resolver, "b");
    ask_and_wait(&first, *state, resolver, "a");
    assert_int_equal(gate_calls(), 2);
    ask_and_wait(&first, *state, resolver, "c"); /* b is evicted: it was used least recently */
    ask_and_wait(&first, *state, resolver, "a");
    assert_int_equal(gate_calls(), 3);
    ask_and_wait(&first, *state, resolver, "b");
    assert_int_equal(gate_calls(), 4);
    ask(&first, *state, resolver, "slow1", 3600000);
    ask(&second, *state, resolver, "slow2", 3600000);
    ask(&third, *state, resolver, "d", 3600000); /* no name can be evicted */
    WAIT_UNTIL(*state, third.is_done);
    assert_int_equal(third.query.status, ERR_BUSY);
    ask(&third, *state, resolver, "slow1", 3600000);
    ask(&fourth, *state, resolver, "slow1", 3600000);
    WAIT_UNTIL(*state, fourth.is_done);
    assert_int_equal(fourth.query.status, ERR_BUSY);
    gate_set(true);
    WAIT_UNTIL(*state, op_count(*state) == 0);
    assert_int_equal(third.query.status, OK);
    dns_resolver_free(resolver);
}

/* Looks the name up until the resolver has measured an answer within slow_ms: if the machine is
 * paused, any name is slow once. The cached answer may live 1 ms. */
static void become_good(struct loop *loop, struct dns_resolver *resolver, const char *host,
                        uint64_t slow_ms)
{
    struct asker asker;
    uint64_t began_ns;
    do {
        spin_ms(2);
        loop_turn(loop, false);
        began_ns = loop_now_ns(loop);
        ask_and_wait(&asker, loop, resolver, host);
    } while (clock_mono_ns() - began_ns >= slow_ms * 1000000);
}

/* 50 calls to 5 hosts whose resolver hangs: other hosts, including new ones, are answered, and
 * every deadline is met. */
static void a_slow_resolver_starves_no_other_lookup(void **state)
{
    enum {
        SLOW_MS = 10,
        AT_ONCE = THREADS / 2 - 1
    }; /* half the threads, and one slot is
        * reserved */
    static const char *const slow[] = {"slow1", "slow2", "slow3", "slow4", "slow5"};
    struct dns_resolver *resolver =
        resolver_new(*state, (struct dns_config){.slow_ms = SLOW_MS, .ttl_ms = 1});
    struct asker stuck[50], other;
    become_good(*state, resolver, "good.example", SLOW_MS);
    do { /* a round whose time was over before its first turn has begun no look-up */
        uint64_t deadline_ns = clock_mono_ns() + 20000000;
        for (size_t i = 0; i < ARRAY_LEN(stuck); i++) {
            ask(&stuck[i], *state, resolver, slow[i % 5], 0);
            stuck[i].deadline_ns = deadline_ns;
        }
        WAIT_UNTIL(*state, op_count(*state) == 0); /* the gate is closed, so all end at their
                                                    * deadline */
        for (size_t i = 0; i < ARRAY_LEN(stuck); i++)
            assert_int_equal(stuck[i].query.status, ERR_TIMEOUT);
    } while (gate_waiting() < AT_ONCE);
    assert_int_equal(gate_waiting(), AT_ONCE);
    spin_ms(SLOW_MS); /* also longer than the ttl, so the name is looked up again */
    size_t calls = gate_calls();
    ask_and_wait(&other, *state, resolver, "good.example");
    assert_int_equal(other.query.status, OK);
    assert_int_equal(gate_calls(), calls + 1);

    gate_set(true); /* the look-ups end, and their hosts count as slow from now on */
    WAIT_UNTIL(*state, gate_waiting() == 0);
    for (size_t i = 3; i < 5; i++) /* the look-ups that waited for a slot have also ended */
        ask_and_wait(&other, *state, resolver, slow[i]);
    gate_set(false);
    spin_ms(2);
    for (size_t i = 0; i < ARRAY_LEN(stuck); i++) /* the three that were under way while the gate
                                                   * was closed */
        ask(&stuck[i], *state, resolver, slow[i % 3], 3600000);
    turn_until_asked(*state, stuck, ARRAY_LEN(stuck));
    ask(&other, *state, resolver, "new.example", 3600000);
    WAIT_UNTIL(*state, other.is_done);
    assert_int_equal(other.query.status, OK);
    gate_set(true);
    WAIT_UNTIL(*state, op_count(*state) == 0);
    dns_resolver_free(resolver);
}

static void no_memory_is_an_answer(void **state)
{
    struct dns_resolver *resolver = resolver_new(*state, (struct dns_config){0});
    for (uint64_t n = 1; n < 20; n++) {
        struct asker asker;
        dns_cache_clear(resolver);
        ask(&asker, *state, resolver, "host.example", 60000);
        mem_fail_at(n, 1);
        WAIT_UNTIL(*state, asker.is_done);
        size_t hits = mem_fail_hits();
        mem_fail_at(0, 0);
        assert_true(asker.query.status == OK || hits > 0);
        loop_turn(*state, false);
        if (!hits)
            break;
        assert_true(n < 19);
    }
    dns_resolver_free(resolver);
    mem_fail_at(1, 1);
    assert_null(dns_resolver_new(*state, NULL));
    mem_fail_at(0, 0);
}

static void the_system_knows_localhost(void **state)
{
    struct dns_resolver *resolver = dns_resolver_new(*state, NULL);
    struct asker asker;
    ask_and_wait(&asker, *state, resolver, "localhost");
    assert_int_equal(asker.query.status, OK);
    assert_true(asker.query.address_count >= 1);
    ask_and_wait(&asker, *state, resolver, "name.invalid"); /* RFC 6761: never resolves */
    assert_int_not_equal(asker.query.status, OK);
    dns_resolver_free(resolver);
}

int main(void)
{
    loop_threads_init(THREADS);
    const struct CMUnitTest tests[] = {
        TEST(literals_need_no_lookup),
        TEST(bad_names_are_refused),
        TEST(answers_are_cached_and_expire),
        TEST(many_queries_make_one_flight),
        TEST(a_query_ends_at_its_deadline_and_the_lookup_continues),
        TEST(a_query_can_be_cancelled),
        TEST(freeing_ends_what_waits),
        TEST(names_and_queries_are_bounded),
        TEST(a_slow_resolver_starves_no_other_lookup),
        TEST(no_memory_is_an_answer),
        TEST(the_system_knows_localhost),
    };
    return cmocka_run_group_tests_name("loop/dns", tests, NULL, NULL);
}
