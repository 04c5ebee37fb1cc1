/* The database's address: refused addresses, several hosts, and names whose look-up takes long. */
#include <arpa/inet.h>
#include <netdb.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/socket.h>

#include "support/pg_call.h"
#include "support/pg_cluster.h"
#include "support/pg_items.h"
#include "unit.h"

static char tcp_conninfo[256];

static struct pg_pool_config config_of(const char *where)
{
    return (struct pg_pool_config){
        .conninfo = where, .writers = 1, .readers = 1, .queue_timeout_ms = 30000};
}

static void start_get(struct pg_call *call)
{
    items_fill_key(&call->query, items_account(0), 1);
    call->query.stmt = &item_get;
    pg_submit(call->bench->pool, &call->query, &call->op);
}

static void test_conninfo_errors(void **state)
{
    struct err err;
    struct loop *loop = loop_new(&err);
    struct pg_pool_config config = {.conninfo = "host=a,b,c port=1,2 password=hunter2"};
    (void)state;
    assert_null(pg_pool_new(loop, &config, &err));
    assert_string_equal(err.text, "the database address has 3 hosts but 2 ports");
    config.conninfo = "postgresql://u:hunter2@h:1/db?nonsense=1";
    assert_null(pg_pool_new(loop, &config, &err));
    assert_null(strstr(err.text, "hunter2"));
    config.conninfo = "service=x";
    assert_null(pg_pool_new(loop, &config, &err));
    assert_non_null(strstr(err.text, "service"));
    loop_free(loop);
}

static void test_hosts_are_tried_in_turn(void **state)
{
    struct pg_bench bench;
    (void)state;
    if (!pg_cluster_is_private())
        skip();
    snprintf(tcp_conninfo, sizeof(tcp_conninfo),
             "host=/nonexistent,127.0.0.1 port=%u user=postgres dbname=postgres "
             "target_session_attrs=read-write",
             pg_cluster_port());
    struct pg_pool_config config = config_of(tcp_conninfo);
    pg_bench_open(&bench, &config, true);
    pg_bench_close(&bench);
}

static const struct pg_stmt show_settings = {
    .name = "test_show_settings",
    .sql = "select :ord, current_setting('statement_timeout'), current_setting('lock_timeout'), "
           "current_setting('plan_cache_mode'), current_setting('enable_hashjoin')",
    PG_GIVES(PG_ARG("statement_timeout", PG_TEXT), PG_ARG("lock_timeout", PG_TEXT),
             PG_ARG("plan_cache_mode", PG_TEXT), PG_ARG("enable_hashjoin", PG_TEXT)),
    .no_account = "settings of the session",
};

static void start_show(struct pg_call *call)
{
    call->query.stmt = &show_settings;
    pg_submit(call->bench->pool, &call->query, &call->op);
}

/* The operator's conninfo takes precedence. A role's settings do not. */
static void test_settings_of_a_session(void **state)
{
    static const char *const wants[] = {"7777ms", "1s", "force_generic_plan", "off"};
    struct pg_bench bench;
    struct pg_call call = {.arg = NULL};
    char text[512];
    (void)state;
    if (!pg_cluster_is_private())
        skip();
    snprintf(text, sizeof(text), "%s options='-c statement_timeout=7777'", pg_cluster_start());
    struct pg_pool_config config = config_of(text);
    pg_bench_open(&bench, &config, true);
    assert_int_equal(pg_call_run(&bench, &call, start_show, NULL), OK);
    for (size_t i = 0; i < ARRAY_LEN(wants); i++)
        assert_string_equal(pg_get_bytes(&call.query.rows, 0, i).ptr, wants[i]);
    pg_call_end(&call);
    pg_bench_close(&bench);
}

static pthread_mutex_t gate = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t gate_moves = PTHREAD_COND_INITIALIZER;
static bool gate_is_reached, gate_is_open;

static void wait_for_gate(void)
{
    pthread_mutex_lock(&gate);
    gate_is_reached = true;
    pthread_cond_broadcast(&gate_moves);
    while (!gate_is_open)
        pthread_cond_wait(&gate_moves, &gate);
    pthread_mutex_unlock(&gate);
}

/* Replaces the C library's function, for libpq too: "slow.test" is 127.0.0.1 once the gate is
 * open. Other names fail, and numeric addresses resolve. */
int getaddrinfo(const char *node, const char *service, const struct addrinfo *hints,
                struct addrinfo **result)
{
    struct in_addr number;
    (void)hints;
    if (node && strcmp(node, "slow.test") == 0) {
        wait_for_gate();
        number.s_addr = htonl(INADDR_LOOPBACK);
    } else if (!node || inet_pton(AF_INET, node, &number) != 1) {
        return EAI_NONAME;
    }
    struct {
        struct addrinfo info;
        struct sockaddr_in address;
    } *both = calloc(1, sizeof(*both));
    both->address.sin_family = AF_INET;
    both->address.sin_addr = number;
    both->address.sin_port = htons((uint16_t)(service ? strtol(service, NULL, 10) : 0));
    both->info.ai_family = AF_INET;
    both->info.ai_socktype = SOCK_STREAM;
    both->info.ai_addr = (struct sockaddr *)&both->address;
    both->info.ai_addrlen = sizeof(both->address);
    *result = &both->info;
    return 0;
}

void freeaddrinfo(struct addrinfo *info)
{
    free(info);
}

static bool gate_reached(void *arg)
{
    (void)arg;
    pthread_mutex_lock(&gate);
    bool is_reached = gate_is_reached;
    pthread_mutex_unlock(&gate);
    return is_reached;
}

static bool pool_is_ready(void *pool)
{
    return pg_pool_is_ready(pool);
}

static void test_slow_lookup_does_not_stop_the_loop(void **state)
{
    struct pg_bench bench;
    struct pg_call call = {.arg = NULL};
    (void)state;
    if (!pg_cluster_is_private())
        skip();
    snprintf(tcp_conninfo, sizeof(tcp_conninfo),
             "host=slow.test port=%u user=postgres dbname=postgres", pg_cluster_port());
    struct pg_pool_config config = config_of(tcp_conninfo);
    config.connect_timeout_ms = 60000;
    pg_bench_open(&bench, &config, false);
    pg_bench_until_true(&bench, gate_reached, NULL);
    pg_call_start(&bench, &call, start_get, NULL);
    for (int turn = 0; turn < 100; turn++) /* with libpq's own look-up, this would not return */
        loop_turn(bench.loop, false);
    assert_false(pg_pool_is_ready(bench.pool));
    pthread_mutex_lock(&gate);
    gate_is_open = true;
    pthread_cond_broadcast(&gate_moves);
    pthread_mutex_unlock(&gate);
    pg_bench_until_true(&bench, pool_is_ready, bench.pool);
    pg_calls_wait(&bench, &call, 1);
    assert_int_equal(call.query.status, ERR_IO); /* that database has no t.item */
    assert_string_equal(call.query.sqlstate, "42P01");
    pg_call_end(&call);
    pg_bench_close(&bench);
    gate_is_open = gate_is_reached = false;
}

static int set_up(void **state)
{
    (void)state;
    pg_cluster_listen_tcp(); /* from the next start on */
    return pg_cluster_start() ? 0 : -1;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_conninfo_errors),
        cmocka_unit_test(test_hosts_are_tried_in_turn),
        cmocka_unit_test(test_settings_of_a_session),
        cmocka_unit_test(test_slow_lookup_does_not_stop_the_loop),
    };
    loop_threads_init(4);
    return unit_result(cmocka_run_group_tests(tests, set_up, NULL));
}
