/*
 * Calls of the outbound client through a proxy: the requests to the proxy, and how its refusals end
 * the call. The scripted peer is the proxy. tests/e2e/egress.test.mjs tests working tunnels.
 */
#include <arpa/inet.h>
#include <netinet/in.h>

#include "support/http_caller.h"
#include "unit.h"

static struct dns_addresses answer;

static int lookup(const char *name, struct dns_addresses *out, const char **cause)
{
    *out = answer;
    *cause = "the test says so";
    return strcmp(name, "none.test") == 0 ? ERR_NOTFOUND : OK;
}

static void answer_with(const char *const *texts, size_t count)
{
    memset(&answer, 0, sizeof(answer));
    for (size_t i = 0; i < count; i++) {
        struct sockaddr_in *v4 = (struct sockaddr_in *)&answer.list[i];
        v4->sin_family = AF_INET;
        assert_int_equal(inet_pton(AF_INET, texts[i], &v4->sin_addr), 1);
    }
    answer.count = count;
}

struct proxied {
    struct caller_world world;
    struct caller caller;
};

/* proxy: a URL with %u for the peer's port. */
static void open_world(struct proxied *it, const struct peer_script *scripts, size_t count,
                       const char *proxy)
{
    static const struct dns_config dns = {.lookup = lookup};
    struct tls_config roots = {.ca_file = NULL};
    struct err err;
    char url[100];
    caller_world_init(&it->world, NULL, &dns, tls_context_new(&roots, &err), scripts, count);
    snprintf(url, sizeof(url), "http://%s:%u", proxy, http_peer_port(&it->world.peer));
    http_client_free(it->world.client);
    struct http_client_config config = {.resolver = it->world.resolver,
                                        .policy = it->world.policy,
                                        .tls = it->world.tls,
                                        .proxy = slice_cstr(url)};
    it->world.client = http_client_new(it->world.loop, &config, &err);
    assert_non_null(it->world.client);
}

static void call_url(struct proxied *it, const char *url, unsigned deadline_ms)
{
    caller_init(&it->caller, &it->world, "/");
    it->caller.call.url = slice_cstr(url);
    it->caller.deadline_in_ms = deadline_ms;
    caller_start(&it->caller, &it->world, 1 << 20);
    caller_wait(&it->caller);
    assert_int_equal(it->caller.start_code, OK);
    assert_false(it->caller.call.is_any_byte_sent && it->caller.call.result == HTTP_CALL_PROXY);
}

static void assert_end(struct proxied *it, enum http_call_result result, const char *words)
{
    const struct http_call *call = &it->caller.call;
    if (call->result != result || !strstr(call->err.text, words))
        fail_msg("%s: %s", http_call_result_name(call->result), call->err.text);
    caller_deinit(&it->caller);
}

static void connect_names_the_checked_address(void **state)
{
    static const struct peer_script scripts[] = {{.reply = "HTTP/1.1 502 No\r\n\r\n"}};
    static const char *const addresses[] = {"10.0.0.1", "93.184.216.34", "93.184.216.35"};
    struct proxied it;
    (void)state;
    open_world(&it, scripts, 1, "us%3Aer:p%40ss@127.0.0.1");
    answer_with(addresses, 3);
    call_url(&it, "https://target.test/secret", 0);
    assert_end(&it, HTTP_CALL_PROXY, "the proxy did not connect to target.test (HTTP 502)");
    /* the private address is never sent to the proxy; after a 502, the next public address is */
    assert_int_equal(it.world.peer.requests, 2);
    slice want = SLICE("CONNECT 93.184.216.35:443 HTTP/1.1\r\nHost: 93.184.216.35:443\r\n"
                       "Proxy-Authorization: Basic dXM6ZXI6cEBzcw==\r\n\r\n");
    assert_true(slice_eq(buf_slice(&it.world.peer.request), want));
    answer_with(addresses, 1);
    dns_cache_clear(it.world.resolver);
    call_url(&it, "https://target.test/", 0);
    assert_end(&it, HTTP_CALL_ADDRESS_REFUSED, "target.test");
    call_url(&it, "https://169.254.169.254/", 0);
    assert_end(&it, HTTP_CALL_ADDRESS_REFUSED, "169.254.169.254");
    call_url(&it, "https://none.test/", 0);
    assert_end(&it, HTTP_CALL_DNS, "");
    assert_int_equal(it.world.peer.requests, 2);
    caller_world_deinit(&it.world);
}

static void what_the_proxy_says_instead(void **state)
{
    static const struct {
        struct peer_script script;
        const char *words;
    } cases[] = {
        {{.reply = "HTTP/1.1 407 Who\r\nContent-Length: 3\r\n\r\nyou"}, "credentials (HTTP 407)"},
        {{.reply = "HTTP/1.1 403 No\r\n\r\n", .then = PEER_FIN}, "(HTTP 403)"},
        {{.reply = "HTTP/1.0 503 Later\r\n\r\n", .is_trickled = true}, "(HTTP 503)"},
        {{.reply = "HTTP/1.1 302 Moved\r\nLocation: http://evil/\r\n\r\n"}, "(HTTP 302)"},
        {{.reply = "HTTP/1.1 200 OK\r\n\r\n\x16\x03"}, "did not answer CONNECT with HTTP"},
        {{.reply = "HTTP/1.1 100 Continue\r\n\r\n"}, "did not answer CONNECT with HTTP"},
        {{.reply = "HTTP/2 200\r\n\r\n"}, "did not answer CONNECT with HTTP"},
        {{.reply = "SSH-2.0-x\r\n\r\n"}, "did not answer CONNECT with HTTP"},
        {{.reply = "HTTP/1.1 200", .then = PEER_FIN}, "did not answer CONNECT with HTTP"},
        {{.reply = "HTTP/1.1 200 OK\r\nX: xxxxxxxx", .then = PEER_ENDLESS, .repeat = 8},
         "did not answer CONNECT with HTTP"},
        {{.then = PEER_FIN}, "closed the connection before it answered"},
        {{.then = PEER_RESET}, "closed the connection before it answered"},
    };
    static const char *const addresses[] = {"93.184.216.34"};
    (void)state;
    answer_with(addresses, 1);
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct proxied it;
        open_world(&it, &cases[i].script, 1, "user:password@127.0.0.1");
        call_url(&it, "https://target.test/", 0);
        assert_null(strstr(it.caller.call.err.text, "password"));
        assert_null(strstr(it.caller.call.err.text, "127.0.0.1"));
        assert_end(&it, HTTP_CALL_PROXY, cases[i].words);
        caller_world_deinit(&it.world);
    }
}

static void a_proxy_that_is_silent_or_is_not_there(void **state)
{
    static const struct peer_script silent[] = {{.then = PEER_KEEP}};
    static const char *const addresses[] = {"93.184.216.34"};
    struct proxied it;
    (void)state;
    answer_with(addresses, 1);
    open_world(&it, silent, 1, "127.0.0.1");
    call_url(&it, "https://target.test/", 50);
    assert_end(&it, HTTP_CALL_PROXY, "waiting for the proxy to connect to target.test");
    /* plain calls, and hosts that are allowed by name, bypass the proxy */
    caller_init(&it.caller, &it.world, "/");
    it.caller.deadline_in_ms = 50;
    caller_start(&it.caller, &it.world, 1 << 20);
    caller_wait(&it.caller);
    assert_true(slice_starts_with(buf_slice(&it.world.peer.request), SLICE("GET / HTTP/1.1\r\n")));
    assert_end(&it, HTTP_CALL_TIMEOUT, "");
    caller_world_deinit(&it.world);

    open_world(&it, silent, 1, "127.0.0.9");
    call_url(&it, "https://target.test/", 0);
    assert_end(&it, HTTP_CALL_PROXY, "cannot connect to the proxy: ");
    caller_world_deinit(&it.world);
    open_world(&it, silent, 1, "none.test");
    call_url(&it, "https://target.test/", 0);
    assert_end(&it, HTTP_CALL_PROXY, "the proxy has no address");
    caller_world_deinit(&it.world);
}

static void an_invalid_url_is_refused(void **state)
{
    static const char *const bad[] = {"https://127.0.0.1:3128",
                                      "socks5://127.0.0.1:1080",
                                      "127.0.0.1:3128",
                                      "http://",
                                      "http://user:hidden@",
                                      "http://127.0.0.1:3128/path",
                                      "http://u:hidden%zz@host:80",
                                      "http://host:99999",
                                      "http://u:hidden@ho st:80"};
    static const struct peer_script silent[] = {{.then = PEER_KEEP}};
    struct caller_world world;
    struct err err;
    (void)state;
    caller_world_init(&world, NULL, NULL, NULL, silent, 1);
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        struct http_client_config config = {.resolver = world.resolver,
                                            .proxy = slice_cstr(bad[i])};
        assert_null(http_client_new(world.loop, &config, &err));
        assert_int_equal(err.code, ERR_SYNTAX);
        assert_null(strstr(err.text, "hidden"));
        assert_non_null(strstr(err.text, "must be http://"));
    }
    caller_world_deinit(&world);
}

static int setup(void **state)
{
    (void)state;
    loop_threads_init(4);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    tls_library_deinit();
    return unit_end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(connect_names_the_checked_address),
        cmocka_unit_test(what_the_proxy_says_instead),
        cmocka_unit_test(a_proxy_that_is_silent_or_is_not_there),
        cmocka_unit_test(an_invalid_url_is_refused),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
