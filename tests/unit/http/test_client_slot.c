/*
 * Slots of the outbound client: turns and shares of tenants, in an origin and in total.
 */
#include "support/http_caller.h"
#include "unit.h"

#define OK_REPLY "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"

enum { CALLERS_MAX = 40, ARENA_BYTES = 1 << 20 };

static const struct peer_script keep_ok[] = {{.reply = OK_REPLY}};
static const struct peer_script slow[] = {{.reply = OK_REPLY, .is_trickled = true}};
static const struct peer_script silent[] = {{.reply = NULL, .then = PEER_DEAF}};
static const struct uuid anna = {{1}}, bert = {{2}}, cleo = {{3}};

static struct caller_world world;
static struct http_peer second, third; /* other origins */
static struct caller callers[CALLERS_MAX];
static size_t caller_count;

static void begin(const struct http_client_config *config, const struct peer_script *scripts)
{
    caller_world_init(&world, config, NULL, NULL, scripts, 1);
    http_peer_init(&second, world.loop, silent, 1);
    http_peer_init(&third, world.loop, keep_ok, 1);
    caller_count = 0;
}

static void end(void)
{
    for (size_t i = 0; i < caller_count; i++) {
        http_call_cancel(&callers[i].call);
        caller_wait(&callers[i]);
        caller_deinit(&callers[i]);
    }
    struct http_client_stats stats = http_client_stats(world.client);
    assert_int_equal(stats.calls_active + stats.calls_waiting, 0);
    http_peer_deinit(&second);
    http_peer_deinit(&third);
    caller_world_deinit(&world);
}

static struct caller *start_at(struct uuid tenant, uint16_t port)
{
    assert_true(caller_count < CALLERS_MAX);
    struct caller *caller = &callers[caller_count++];
    caller_init(caller, &world, "/");
    snprintf(caller->url, sizeof(caller->url), "http://127.0.0.1:%u/", port);
    caller->call.url = slice_cstr(caller->url);
    caller->call.tenant = tenant;
    caller_start(caller, &world, ARENA_BYTES);
    return caller;
}

static struct caller *start(struct uuid tenant, const struct http_peer *peer)
{
    return start_at(tenant, http_peer_port(peer));
}

static void start_times(size_t times, struct uuid tenant, const struct http_peer *peer)
{
    for (size_t i = 0; i < times; i++)
        (void)start(tenant, peer);
}

static void settle(void)
{
    size_t known;
    do { /* all have requested their slot */
        loop_turn(world.loop, false);
        known = 0;
        for (size_t i = 0; i < caller_count; i++)
            known += callers[i].is_done || http_call_is_active(&callers[i].call);
    } while (known < caller_count);
}

static void assert_counts(size_t active, size_t waiting)
{
    settle();
    assert_int_equal(http_client_stats(world.client).calls_active, active);
    assert_int_equal(http_client_stats(world.client).calls_waiting, waiting);
}

static void assert_result(struct caller *caller, enum http_call_result result)
{
    caller_wait(caller);
    if (caller->call.result != result)
        fail_msg("%s, not %s: %s", http_call_result_name(caller->call.result),
                 http_call_result_name(result), caller->call.err.text);
}

/* ---- turns ---- */

static void tenants_take_turns_in_an_origin(void **state)
{
    (void)state;
    struct http_client_config config = {.calls_per_origin = 1};
    begin(&config, slow);
    start_times(6, anna, &world.peer);
    struct caller *of_bert = start(bert, &world.peer);
    struct caller *of_cleo = start(cleo, &world.peer);
    assert_counts(1, 7);
    assert_result(of_cleo, HTTP_CALL_OK);
    assert_true(of_bert->is_done);
    assert_true(callers[1].is_done); /* first those under way, then one of each tenant */
    assert_false(callers[2].is_done);
    for (size_t i = 2; i < 6; i++) { /* calls of one tenant stay in order */
        assert_result(&callers[i], HTTP_CALL_OK);
        assert_true(i == 5 || !callers[i + 1].is_done);
    }
    end();
}

static void tenants_take_turns_in_the_whole(void **state)
{
    (void)state;
    struct http_client_config config = {.connections_max = 1};
    begin(&config, slow);
    start_times(6, anna, &world.peer);
    struct caller *of_bert = start(bert, &third);
    assert_counts(1, 6);
    assert_result(of_bert, HTTP_CALL_OK); /* closes an idle connection of the other origin */
    assert_true(callers[1].is_done);
    assert_false(callers[2].is_done);
    for (size_t i = 2; i < 6; i++)
        assert_result(&callers[i], HTTP_CALL_OK);
    assert_int_equal(http_client_stats(world.client).connections, 1);
    end();
}

static void a_full_whole_is_waited_for(void **state)
{
    (void)state;
    struct http_client_config config = {.connections_max = 2, .waiting_ms = 20};
    begin(&config, keep_ok);
    start_times(2, anna, &second);
    assert_counts(2, 0);
    struct caller *late = start(bert, &world.peer);
    assert_result(late, HTTP_CALL_OVERLOADED); /* before the deadline, but not immediately */
    assert_true(late->call.total_ns >= 20 * 1000000ull);
    assert_false(late->call.is_any_byte_sent);
    end();
    config.waiting_ms = 60000;
    begin(&config, keep_ok);
    start_times(2, anna, &second);
    late = start(bert, &world.peer);
    assert_counts(2, 1);
    http_call_cancel(&callers[0].call);
    assert_result(late, HTTP_CALL_OK);
    assert_true(late->call.waiting_ns > 0);
    end();
}

/* ---- shares ---- */

static void a_tenant_that_hangs_leaves_places_in_its_origin(void **state)
{
    (void)state;
    struct http_client_config config = {.calls_per_origin = 8};
    begin(&config, silent);
    start_times(20, anna, &world.peer);
    assert_counts(7, 13); /* seven eighths, since no other tenant uses it */
    http_peer_scripts(&world.peer, keep_ok, 1);
    assert_result(start(bert, &world.peer), HTTP_CALL_OK);
    assert_result(start(cleo, &world.peer), HTTP_CALL_OK);
    end();
}

static void a_tenant_that_hangs_leaves_places_in_the_whole(void **state)
{
    (void)state;
    struct http_client_config config = {.connections_max = 16, .calls_per_origin = 100};
    begin(&config, silent);
    start_times(10, anna, &world.peer);
    start_times(10, anna, &second);
    assert_counts(14, 6);
    assert_result(start(bert, &third), HTTP_CALL_OK);
    end();
}

/* 16 slots, 14 for a single tenant: each of two tenants gets 7 of 15 parts, which is 7 slots,
 * and two stay free. */
static void the_more_take_all_they_get_the_less_each_gets(void **state)
{
    (void)state;
    struct http_client_config config = {.connections_max = 16, .calls_per_origin = 100};
    begin(&config, silent);
    for (int i = 0; i < 12; i++) {
        (void)start(anna, &world.peer);
        (void)start(bert, &second);
        settle();
    }
    size_t active = http_client_stats(world.client).calls_active;
    assert_in_range(active, 14, 15);
    assert_result(start(cleo, &third), HTTP_CALL_OK);
    assert_result(start(cleo, &third), HTTP_CALL_OK);
    end();
}

static void a_share_can_be_set_and_grows_back(void **state)
{
    (void)state;
    struct http_client_config config = {.calls_per_origin = 8, .share_of_origin = 4};
    begin(&config, silent);
    start_times(2, bert, &world.peer);
    start_times(6, anna, &world.peer);
    assert_counts(5, 3); /* bert's two slots, and the number that stays free: three and three */
    http_call_cancel(&callers[0].call);
    http_call_cancel(&callers[1].call);
    assert_result(&callers[1], HTTP_CALL_CANCELLED);
    assert_counts(4, 2); /* alone, four of eight */
    end();
    config = (struct http_client_config){.calls_per_origin = 8, .share_of_origin = 8};
    begin(&config, silent);
    start_times(10, anna, &world.peer);
    assert_counts(8, 2); /* no share at all */
    end();
}

static void a_queue_that_is_full_is_full_for_its_tenant(void **state)
{
    (void)state;
    struct http_client_config config = {.calls_per_origin = 1, .waiting_max = 2};
    begin(&config, slow);
    start_times(4, anna, &world.peer);
    assert_result(&callers[3], HTTP_CALL_OVERLOADED);
    assert_result(start(bert, &world.peer), HTTP_CALL_OK);
    end();
}

static void a_tenant_with_many_origins_leaves_some(void **state)
{
    (void)state;
    struct http_client_config config = {.origins_max = 8, .connections_max = 1};
    begin(&config, silent);
    (void)start(anna, &second);
    for (uint16_t port = 1; port <= 6; port++)
        (void)start_at(anna, port);
    assert_counts(1, 6);
    assert_result(start_at(anna, 7), HTTP_CALL_OVERLOADED);
    (void)start_at(bert, 8);
    assert_counts(1, 7);
    end();
}

static void calls_cost_no_allocation_for_their_slot(void **state)
{
    (void)state;
    struct http_client_config config = {.calls_per_origin = 1};
    begin(&config, silent);
    start_times(2, anna, &world.peer); /* bert gets what they leave */
    start_times(1, bert, &second);
    assert_counts(2, 1);
    /* All memory that their connections need has been allocated by then. */
    while (world.peer.requests < 1 || second.requests < 1)
        (void)loop_turn(world.loop, true);
    http_call_cancel(&callers[1].call);
    http_call_cancel(&callers[2].call);
    assert_result(&callers[2], HTTP_CALL_CANCELLED);
    struct caller *caller = start(bert, &world.peer);
    mem_fail_at(2, UINT64_MAX); /* the first allocation is the arena's block */
    settle();
    uint64_t hits = mem_fail_hits();
    mem_fail_at(0, 0);
    assert_int_equal(hits, 0);
    assert_false(caller->is_done);
    end();
}

static void a_client_that_goes_lets_all_go(void **state)
{
    (void)state;
    struct http_client_config config = {.calls_per_origin = 2, .connections_max = 3};
    begin(&config, silent);
    start_times(4, anna, &world.peer);
    start_times(4, bert, &second);
    assert_counts(3, 5);
    http_client_free(world.client);
    for (size_t i = 0; i < caller_count; i++) {
        assert_result(&callers[i], HTTP_CALL_CANCELLED);
        caller_deinit(&callers[i]);
    }
    struct err err;
    struct http_client_config fresh = {.resolver = world.resolver, .policy = world.policy};
    world.client = http_client_new(world.loop, &fresh, &err);
    caller_count = 0;
    end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        UNIT_TEST(tenants_take_turns_in_an_origin),
        UNIT_TEST(tenants_take_turns_in_the_whole),
        UNIT_TEST(a_full_whole_is_waited_for),
        UNIT_TEST(a_tenant_that_hangs_leaves_places_in_its_origin),
        UNIT_TEST(a_tenant_that_hangs_leaves_places_in_the_whole),
        UNIT_TEST(the_more_take_all_they_get_the_less_each_gets),
        UNIT_TEST(a_share_can_be_set_and_grows_back),
        UNIT_TEST(a_queue_that_is_full_is_full_for_its_tenant),
        UNIT_TEST(a_tenant_with_many_origins_leaves_some),
        UNIT_TEST(calls_cost_no_allocation_for_their_slot),
        UNIT_TEST(a_client_that_goes_lets_all_go),
    };
    return cmocka_run_group_tests_name("http/client_slot", tests, NULL, NULL);
}
