/*
 * Where the outbound client's calls go: name resolution, the address policy, overrides, and TLS.
 */
#include <arpa/inet.h>
#include <netinet/in.h>

#include "support/certs.h"
#include "support/http_caller.h"
#include "unit.h"

static struct certs *certs;

#define OK_REPLY "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"

static const struct peer_script keep_ok[] = {{.reply = OK_REPLY}};

static void assert_result(const struct caller *caller, enum http_call_result result)
{
    assert_int_equal(caller->start_code, OK);
    if (caller->call.result != result)
        fail_msg("%s, not %s: %s", http_call_result_name(caller->call.result),
                 http_call_result_name(result), caller->call.err.text);
    assert_int_equal(result == HTTP_CALL_OK, caller->call.err.code == OK);
    assert_int_equal(result == HTTP_CALL_OK, caller->call.err.text[0] == '\0');
}

/* ---- names and addresses ---- */

static struct dns_addresses fake_answer;
static int fake_status;

static int fake_lookup(const char *name, struct dns_addresses *out, const char **cause)
{
    (void)name;
    *out = fake_answer;
    *cause = "the test says so";
    return fake_status;
}

static void fake_address(size_t index, const char *text)
{
    struct sockaddr_in *v4 = (struct sockaddr_in *)&fake_answer.list[index];
    memset(v4, 0, sizeof(*v4));
    v4->sin_family = AF_INET;
    assert_int_equal(inet_pton(AF_INET, text, &v4->sin_addr), 1);
    fake_answer.count = index + 1;
    fake_status = OK;
}

static void call_name(struct caller *caller, struct caller_world *world, const char *host)
{
    caller_init(caller, world, "/");
    snprintf(caller->url, sizeof(caller->url), "http://%s:%u/", host, http_peer_port(&world->peer));
    caller->call.url = slice_cstr(caller->url);
    caller_start(caller, world, 1 << 20);
    caller_wait(caller);
}

static void the_address_is_what_is_checked(void **state)
{
    (void)state;
    struct caller_world world;
    struct caller caller;
    struct err err;
    struct dns_config dns = {.lookup = fake_lookup};
    caller_world_init(&world, NULL, &dns, NULL, keep_ok, 1);
    assert_int_equal(address_policy_allow(world.policy, SLICE("allowed.test"), &err), OK);
    fake_address(0, "127.0.0.1");
    call_name(&caller, &world, "evil.test"); /* plain HTTP and not allowed, so there is no
                                              * look-up */
    assert_result(&caller, HTTP_CALL_ADDRESS_REFUSED);
    assert_false(caller.call.is_any_byte_sent);
    caller_deinit(&caller);
    call_name(&caller, &world, "allowed.test");
    assert_result(&caller, HTTP_CALL_OK);
    caller_deinit(&caller);
    /* nothing listens on the first two, so the third answers */
    fake_address(0, "127.0.0.9");
    fake_address(1, "127.0.0.8");
    fake_address(2, "127.0.0.1");
    dns_cache_clear(world.resolver);
    world.peer.requests = 0;
    http_peer_close_all(&world.peer, false);
    WAIT_UNTIL(world.loop, http_client_stats(world.client).connections == 0);
    call_name(&caller, &world, "allowed.test");
    assert_result(&caller, HTTP_CALL_OK);
    assert_non_null(strstr(caller.call.remote, "127.0.0.1:"));
    caller_deinit(&caller);
    /* none of the addresses answers */
    fake_address(1, "127.0.0.8");
    dns_cache_clear(world.resolver);
    http_peer_close_all(&world.peer, false);
    WAIT_UNTIL(world.loop, http_client_stats(world.client).connections == 0);
    call_name(&caller, &world, "allowed.test");
    assert_result(&caller, HTTP_CALL_CONNECT);
    assert_non_null(strstr(caller.call.err.text, "cannot connect to allowed.test: "));
    assert_null(strstr(caller.call.err.text, "127.0.0."));
    caller_deinit(&caller);
    fake_status = ERR_NOTFOUND;
    dns_cache_clear(world.resolver);
    call_name(&caller, &world, "allowed.test");
    assert_result(&caller, HTTP_CALL_DNS);
    assert_false(caller.call.is_any_byte_sent);
    caller_deinit(&caller);
    caller_world_deinit(&world);
}

/* With https, a call is not refused because of a name alone, but because of its addresses. */
static void names_of_private_addresses_are_refused(void **state)
{
    (void)state;
    static const char *const addresses[] = {"127.0.0.1", "10.0.0.1", "169.254.169.254",
                                            "192.168.1.1"};
    struct caller_world world;
    struct err err;
    struct dns_config dns = {.lookup = fake_lookup};
    struct tls_config roots = {.ca_file = certs_path(certs, "ca.pem")};
    caller_world_init(&world, NULL, &dns, tls_context_new(&roots, &err), keep_ok, 1);
    for (size_t i = 0; i < ARRAY_LEN(addresses); i++) {
        struct caller caller;
        fake_address(0, addresses[i]);
        dns_cache_clear(world.resolver);
        caller_init(&caller, &world, "/");
        caller.call.url = SLICE("https://evil.test/");
        caller_start(&caller, &world, 1 << 20);
        caller_wait(&caller);
        assert_result(&caller, HTTP_CALL_ADDRESS_REFUSED);
        assert_non_null(strstr(caller.call.err.text, "evil.test"));
        assert_null(strstr(caller.call.err.text, addresses[i])); /* only the log has the address */
        assert_false(caller.call.is_any_byte_sent);
        caller_deinit(&caller);
    }
    assert_int_equal(world.peer.connections, 0);
    caller_world_deinit(&world);
}

/* A caller that names a host learns nothing about names that only this server's resolver knows. */
static void an_unknown_name_is_refused_like_a_private_one(void **state)
{
    (void)state;
    struct caller_world world;
    struct caller callers[2];
    struct err err;
    struct dns_config dns = {.lookup = fake_lookup};
    struct tls_config roots = {.ca_file = certs_path(certs, "ca.pem")};
    caller_world_init(&world, NULL, &dns, tls_context_new(&roots, &err), keep_ok, 1);
    fake_address(0, "10.0.0.1");
    for (size_t i = 0; i < ARRAY_LEN(callers); i++) {
        caller_init(&callers[i], &world, "/");
        callers[i].call.url = SLICE("https://inside.test/");
        callers[i].call.is_host_given = true;
        caller_start(&callers[i], &world, 1 << 20);
        caller_wait(&callers[i]);
        assert_result(&callers[i], HTTP_CALL_ADDRESS_REFUSED);
        fake_status = ERR_NOTFOUND;
        dns_cache_clear(world.resolver);
    }
    assert_int_equal(callers[0].call.err.code, callers[1].call.err.code);
    assert_string_equal(callers[0].call.err.text, callers[1].call.err.text);
    for (size_t i = 0; i < ARRAY_LEN(callers); i++)
        caller_deinit(&callers[i]);
    caller_world_deinit(&world);
}

static void overrides_lead_elsewhere(void **state)
{
    (void)state;
    struct caller_world world;
    struct caller caller;
    struct err err;
    char target[100];
    caller_world_init(&world, NULL, NULL, NULL, keep_ok, 1);
    snprintf(target, sizeof(target), "http://127.0.0.1:%u/prefix/", http_peer_port(&world.peer));
    assert_int_equal(http_client_override(world.client, SLICE("https://API.example.com"),
                                          slice_cstr(target), &err),
                     OK);
    static const char *const paths[][2] = {
        {"/v1/x?y=z", "/prefix/v1/x?y=z"}, {"", "/prefix/"}, {"?q", "/prefix/?q"}};
    for (size_t i = 0; i < ARRAY_LEN(paths); i++) {
        char url[100], want[200];
        snprintf(url, sizeof(url), "https://api.example.com%s", paths[i][0]);
        caller_init(&caller, &world, "/");
        caller.call.url = slice_cstr(url);
        caller_start(&caller, &world, 1 << 20);
        caller_wait(&caller);
        assert_result(&caller, HTTP_CALL_OK);
        assert_int_equal(caller.call.is_reused, i > 0);
        snprintf(want, sizeof(want),
                 "GET %s HTTP/1.1\r\nHost: api.example.com\r\nUser-Agent: sluice\r\n\r\n",
                 paths[i][1]);
        assert_text(buf_slice(&world.peer.request), want);
        caller_deinit(&caller);
    }
    /* a connection of an override is not used for calls to the host itself */
    caller_get(&caller, &world, "/direct");
    assert_result(&caller, HTTP_CALL_OK);
    assert_false(caller.call.is_reused);
    assert_int_equal(http_client_stats(world.client).origins, 2);
    caller_deinit(&caller);
    static const char *const bad[][2] = {
        {"api.example.com", "http://a"}, {"https://a/path", "http://a"}, {"https://a", "ftp://a"},
        {"https://a", "http://a/?q"},    {"https://a", "http://u@b"},    {"https://a", ""},
    };
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        assert_int_equal(
            http_client_override(world.client, slice_cstr(bad[i][0]), slice_cstr(bad[i][1]), &err),
            ERR_SYNTAX);
        assert_non_null(strstr(err.text, "origin override"));
    }
    caller_world_deinit(&world);
}

/* ---- TLS ---- */

static void https_is_verified_pooled_and_resumed(void **state)
{
    (void)state;
    struct caller_world world;
    struct caller caller;
    struct err err;
    struct tls_config roots = {.ca_file = certs_path(certs, "ca.pem")};
    struct tls_server_config server = {.cert_file = certs_path(certs, "ec.pem"),
                                       .key_file = certs_path(certs, "ec.key")};
    caller_world_init(&world, NULL, NULL, tls_context_new(&roots, &err), keep_ok, 1);
    world.peer.tls = tls_server_new(&server, &err);
    for (int i = 0; i < 3; i++) {
        caller_get(&caller, &world, "/");
        assert_result(&caller, HTTP_CALL_OK);
        assert_int_equal(caller.call.is_reused, i > 0);
        assert_false(caller.call.is_resumed);
        assert_int_equal(caller.call.tls_ns > 0, i == 0);
        caller_deinit(&caller);
    }
    assert_int_equal(world.peer.connections, 1);
    http_peer_close_all(&world.peer, false);
    WAIT_UNTIL(world.loop, http_client_stats(world.client).connections == 0);
    caller_get(&caller, &world, "/");
    assert_result(&caller, HTTP_CALL_OK);
    assert_true(!caller.call.is_reused && caller.call.is_resumed);
    caller_deinit(&caller);
    /* a reload: idle connections with the old roots are closed, and their sessions dropped */
    struct tls_context *fresh = tls_context_new(&roots, &err);
    http_client_tls_set(world.client, fresh);
    assert_int_equal(http_client_stats(world.client).idle, 0);
    caller_get(&caller, &world, "/");
    assert_result(&caller, HTTP_CALL_OK);
    assert_true(!caller.call.is_reused && !caller.call.is_resumed);
    caller_deinit(&caller);
    tls_context_unref(fresh);
    /* with roots that do not include the peer's, the client refuses the peer before it sends a
     * byte */
    roots.ca_file = certs_path(certs, "other.pem");
    fresh = tls_context_new(&roots, &err);
    http_client_tls_set(world.client, fresh);
    tls_context_unref(fresh);
    unsigned requests = world.peer.requests;
    caller_get(&caller, &world, "/");
    assert_result(&caller, HTTP_CALL_TLS);
    assert_non_null(strstr(caller.call.err.text, "unknown issuer"));
    assert_false(caller.call.is_any_byte_sent);
    assert_int_equal(world.peer.requests, requests);
    caller_deinit(&caller);
    http_client_tls_set(world.client, NULL);
    caller_get(&caller, &world, "/");
    assert_result(&caller, HTTP_CALL_TLS);
    caller_deinit(&caller);
    caller_world_deinit(&world);
}

static void a_reply_without_length_needs_close_notify(void **state)
{
    (void)state;
    static const struct peer_script scripts[] = {
        {.reply = "HTTP/1.1 200 OK\r\n\r\nto the end", .then = PEER_FIN},
        {.reply = "HTTP/1.1 200 OK\r\n\r\nto the end", .then = PEER_CUT},
        {.reply = "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nto the end", .then = PEER_CUT},
    };
    struct caller_world world;
    struct caller caller;
    struct err err;
    struct tls_config roots = {.ca_file = certs_path(certs, "ca.pem")};
    struct tls_server_config server = {.cert_file = certs_path(certs, "ec.pem"),
                                       .key_file = certs_path(certs, "ec.key")};
    caller_world_init(&world, NULL, NULL, tls_context_new(&roots, &err), scripts, 3);
    world.peer.tls = tls_server_new(&server, &err);
    caller_get(&caller, &world, "/");
    assert_result(&caller, HTTP_CALL_OK);
    assert_text(caller.call.body, "to the end");
    caller_deinit(&caller);
    caller_get(&caller, &world, "/");
    assert_result(&caller, HTTP_CALL_RESET);
    assert_non_null(strstr(caller.call.err.text, "close_notify"));
    caller_deinit(&caller);
    caller_get(&caller, &world, "/"); /* its Content-Length shows that it is complete */
    assert_result(&caller, HTTP_CALL_OK);
    caller_deinit(&caller);
    caller_world_deinit(&world);
}

static int setup(void **state)
{
    (void)state;
    loop_threads_init(4);
    certs = certs_new();
    certs_add(certs, &(struct cert_spec){.file = "ec", .dns = {"localhost"}});
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    certs_free(certs);
    tls_library_deinit();
    return unit_end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_address_is_what_is_checked),
        cmocka_unit_test(names_of_private_addresses_are_refused),
        cmocka_unit_test(an_unknown_name_is_refused_like_a_private_one),
        cmocka_unit_test(overrides_lead_elsewhere),
        cmocka_unit_test(https_is_verified_pooled_and_resumed),
        cmocka_unit_test(a_reply_without_length_needs_close_notify),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
