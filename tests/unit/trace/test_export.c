/*
 * The tracer: which traces are recorded, the queue and its limits, and what a receiver may do.
 * tests/e2e/traces.test.mjs checks that the output is valid OTLP.
 */
#include "json/json.h"
#include "support/http_peer.h"
#include "trace/trace.h"
#include "unit.h"

static const char sampled[] = "00-0af7651916cd43dd8448eb211c80319c-00f067aa0ba902b7-01";
static const char unsampled[] = "00-0af7651916cd43dd8448eb211c80319c-00f067aa0ba902b7-00";
static const struct peer_script takes[] = {
    {.reply = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"}};
static const struct peer_script silent[] = {{.reply = NULL}};
static const struct peer_script refuses[] = {
    {.reply = "HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n"}};

struct bench {
    struct loop *loop;
    struct dns_resolver *resolver;
    struct http_peer peer;
    struct tracer *tracer;
};

static void bench_open(struct bench *b, const struct peer_script *script, const char *sample,
                       bool has_endpoint)
{
    char url[64];
    struct err err = {0};
    memset(b, 0, sizeof(*b));
    b->loop = loop_new(&err);
    assert_non_null(b->loop);
    b->resolver = dns_resolver_new(b->loop, NULL);
    http_peer_init(&b->peer, b->loop, script, 1);
    (void)snprintf(url, sizeof(url), "http://127.0.0.1:%u", http_peer_port(&b->peer));
    struct trace_config config = {.loop = b->loop,
                                  .resolver = b->resolver,
                                  .endpoint = has_endpoint ? slice_cstr(url) : SLICE(""),
                                  .headers_file = SLICE(""),
                                  .sample = slice_cstr(sample),
                                  .is_propagated = !has_endpoint};
    b->tracer = trace_new(&config, &err);
    if (!b->tracer)
        fail_msg("%s", err.text);
}

static void bench_close(struct bench *b)
{
    trace_stop(b->tracer);
    http_peer_deinit(&b->peer);
    dns_resolver_free(b->resolver);
    while (op_count(b->loop) > 0)
        (void)loop_turn(b->loop, false);
    trace_free(b->tracer);
    loop_free(b->loop);
    metric_deinit();
    assert_int_equal(mem_live_blocks(), 0);
}

/* The value of sluice_trace_spans_total with that label. */
static unsigned counted(const char *as)
{
    char name[64];
    struct buf text;
    unsigned value = 0;
    buf_init(&text, 1 << 20);
    metric_render(&text);
    buf_append_char(&text, '\0');
    (void)snprintf(name, sizeof(name), "sluice_trace_spans_total{as=\"%s\"} ", as);
    const char *at = strstr(text.ptr, name);
    assert_non_null(at);
    assert_int_equal(sscanf(at + strlen(name), "%u", &value), 1);
    buf_deinit(&text);
    return value;
}

static void wait_for(struct bench *b, const char *as, unsigned count)
{
    while (counted(as) < count)
        (void)loop_turn(b->loop, true);
}

static void put_span(struct bench *b, slice name)
{
    struct trace_context parent;
    assert_true(trace_begin(b->tracer, slice_cstr(sampled), SLICE_NONE, &parent));
    struct trace_context own = trace_child(&parent);
    struct trace_span span = {.context = &own,
                              .parent = &parent,
                              .kind = TRACE_SERVER,
                              .name = name,
                              .started_us = 1700000000000000,
                              .took_ns = 5};
    trace_span_open(b->tracer, &span);
    trace_put_i64(b->tracer, "n", 7);
    trace_span_close(b->tracer);
}

/* A parent's flag can only prevent recording. The operator decides how much is recorded. */
static void the_ratio_decides_and_a_parent_may_forbid(void **state)
{
    (void)state;
    static const char high[] = "00-0af7651916cd43dd80fffffffffffffe-00f067aa0ba902b7-01";
    static const char low[] = "00-0af7651916cd43dd800000000000000f-00f067aa0ba902b7-01";
    struct bench b;
    struct trace_context context;
    bench_open(&b, takes, "0", true);
    assert_false(trace_begin(b.tracer, slice_cstr(sampled), SLICE("a=1"), &context));
    assert_false(trace_begin(b.tracer, slice_cstr(low), SLICE_NONE, &context));
    assert_false(trace_read(b.tracer, slice_cstr(sampled), &context));
    for (int i = 0; i < 100; i++)
        assert_false(trace_begin(b.tracer, SLICE_NONE, SLICE_NONE, &context));
    bench_close(&b);

    bench_open(&b, takes, "0.01", true);
    assert_false(trace_begin(b.tracer, slice_cstr(high), SLICE_NONE, &context));
    assert_false(trace_read(b.tracer, slice_cstr(high), &context)); /* a flow's trace, on any
                                                                     * node */
    assert_true(trace_begin(b.tracer, slice_cstr(low), SLICE("a=1"), &context));
    assert_true(context.is_recorded && slice_eq_cstr(context.state, "a=1"));
    assert_true(trace_read(b.tracer, slice_cstr(low), &context));
    bench_close(&b);

    bench_open(&b, takes, "1", true);
    assert_false(trace_begin(b.tracer, slice_cstr(unsampled), SLICE_NONE, &context));
    for (int i = 0; i < 100; i++) {
        assert_true(trace_begin(b.tracer, SLICE("malformed"), SLICE("a=1"), &context));
        assert_true(context.is_recorded && context.is_root && !context.state.ptr);
    }
    bench_close(&b);

    unsigned begun = 0;
    bench_open(&b, takes, "0.25", true);
    for (int i = 0; i < 4000; i++)
        begun += trace_begin(b.tracer, SLICE_NONE, SLICE_NONE, &context);
    assert_in_range(begun, 700, 1300); /* 11 standard deviations */
    bench_close(&b);
}

/* Without an endpoint nothing is recorded, and incoming contexts are passed on. */
static void what_is_only_passed_on(void **state)
{
    (void)state;
    struct bench b;
    struct trace_context context;
    bench_open(&b, takes, "1", false);
    assert_true(trace_is_propagated(b.tracer));
    assert_true(trace_begin(b.tracer, slice_cstr(sampled), SLICE_NONE, &context));
    assert_false(trace_is_recorded(&context));
    assert_true(trace_begin(b.tracer, slice_cstr(unsampled), SLICE_NONE, &context));
    assert_false(trace_begin(b.tracer, SLICE_NONE, SLICE_NONE, &context));
    assert_true(trace_is_drained(b.tracer));
    bench_close(&b);
    assert_false(trace_is_propagated(NULL));
    assert_false(trace_is_recorded(NULL));
}

static void a_context_is_stored(void **state)
{
    (void)state;
    struct bench b;
    struct arena arena;
    struct trace_context context, again;
    bench_open(&b, takes, "1", true);
    arena_init(&arena, 4096);
    assert_true(trace_begin(b.tracer, slice_cstr(sampled), SLICE("a=1, b=2"), &context));
    slice text = trace_text(&context, &arena);
    assert_true(slice_starts_with(text, slice_cstr(sampled)));
    assert_true(trace_read(b.tracer, text, &again));
    assert_true(again.is_recorded && !again.is_remote);
    assert_true(slice_eq_cstr(again.state, "a=1, b=2"));
    assert_memory_equal(&again.span, &context.span, sizeof(context.span));
    assert_false(trace_read(NULL, text, &again));
    assert_false(trace_read(b.tracer, SLICE_NONE, &again));
    arena_deinit(&arena);
    bench_close(&b);
}

static void spans_are_sent_together(void **state)
{
    (void)state;
    struct bench b;
    struct arena arena;
    struct err err;
    bench_open(&b, takes, "1", true);
    put_span(&b, SLICE("one"));
    put_span(&b, SLICE("a \"name\"\n"));
    assert_false(trace_is_drained(b.tracer));
    wait_for(&b, "exported", 2);
    assert_int_equal(b.peer.requests, 1);
    slice request = buf_slice(&b.peer.request);
    assert_true(slice_starts_with(request, SLICE("POST /v1/traces HTTP/1.1\r\n")));
    ptrdiff_t head = slice_find(request, SLICE("\r\n\r\n"));
    assert_true(head > 0);
    arena_init(&arena, 1 << 20);
    const struct json *body =
        json_parse(&arena, slice_from(request, (size_t)head + 4), &json_limits_request, &err);
    assert_non_null(body);
    const struct json *spans = json_pointer(body, SLICE("/resourceSpans/0/scopeSpans/0/spans"));
    assert_int_equal(spans->count, 2);
    assert_true(slice_eq_cstr(json_get_str(&spans->as.items[1], SLICE("name")), "a \"name\"\n"));
    assert_true(slice_eq_cstr(json_get_str(&spans->as.items[0], SLICE("parentSpanId")),
                              "00f067aa0ba902b7"));
    arena_deinit(&arena);
    bench_close(&b);
}

/* One export never ends. The queue fills up, and further spans are dropped. */
static void a_full_queue_drops(void **state)
{
    (void)state;
    struct bench b;
    bench_open(&b, silent, "1", true);
    unsigned put = 0;
    while (counted("dropped") == 0) {
        put_span(&b, SLICE("one"));
        put++;
        assert_true(put <= 2 * TRACE_QUEUE_SPANS_MAX + 1);
    }
    for (int i = 0; i < 10; i++)
        put_span(&b, SLICE("one"));
    assert_int_equal(counted("dropped"), 11);
    size_t blocks = mem_live_blocks();
    for (int i = 0; i < 5000; i++)
        put_span(&b, SLICE("one"));
    assert_int_equal(mem_live_blocks(), blocks);
    bench_close(&b);
}

/* The limit in bytes is reached long before the limit on the number of spans. */
static void large_spans_fill_it_sooner(void **state)
{
    (void)state;
    static char name[TRACE_SPAN_BYTES_MAX];
    struct bench b;
    memset(name, 'n', sizeof(name));
    bench_open(&b, silent, "1", true);
    put_span(&b, slice_of(name, sizeof(name))); /* no span may be that large */
    assert_int_equal(counted("dropped"), 1);
    unsigned put = 0;
    while (counted("dropped") == 1) {
        put_span(&b, slice_of(name, sizeof(name) / 2));
        put++;
        assert_true(put <= TRACE_QUEUE_BYTES_MAX / (sizeof(name) / 2) + 1);
    }
    bench_close(&b);
}

static void a_refusal_loses_its_spans(void **state)
{
    (void)state;
    struct bench b;
    bench_open(&b, refuses, "1", true);
    put_span(&b, SLICE("one"));
    wait_for(&b, "failed", 1);
    put_span(&b, SLICE("two"));
    wait_for(&b, "failed", 2);
    assert_int_equal(counted("exported"), 0);
    assert_int_equal(b.peer.requests, 2);
    bench_close(&b);
}

static void a_drain_sends_what_is_there(void **state)
{
    (void)state;
    struct bench b;
    bench_open(&b, takes, "1", true);
    put_span(&b, SLICE("one"));
    trace_drain(b.tracer);
    while (!trace_is_drained(b.tracer))
        (void)loop_turn(b.loop, true);
    assert_int_equal(counted("exported"), 1);
    bench_close(&b);
}

/* Stopped with an export under way and spans queued: all spans are counted, and no memory is
 * left. */
static void a_stop_cuts_what_is_under_way(void **state)
{
    (void)state;
    struct bench b;
    bench_open(&b, silent, "1", true);
    put_span(&b, SLICE("one"));
    trace_drain(b.tracer);
    while (b.peer.requests == 0)
        (void)loop_turn(b.loop, true);
    put_span(&b, SLICE("two"));
    trace_stop(b.tracer);
    assert_int_equal(counted("dropped"), 1);
    put_span(&b, SLICE("three"));
    assert_int_equal(counted("dropped"), 2);
    wait_for(&b, "failed", 1);
    bench_close(&b);
}

static void settings_that_cannot_work(void **state)
{
    (void)state;
    static const struct {
        const char *endpoint, *sample, *what;
    } bad[] = {
        {"ftp://x", "1", "trace-endpoint"},   {"http://u:p@x/", "1", "trace-endpoint"},
        {"http://x", "", "trace-sample"},     {"http://x", "1.01", "trace-sample"},
        {"http://x", "-1", "trace-sample"},   {"http://x", "0x1", "trace-sample"},
        {"http://x", "nan", "trace-sample"},  {"http://x", "1.2.3", "trace-sample"},
        {"http://x", "0.5 ", "trace-sample"},
    };
    struct err err = {0};
    struct loop *loop = loop_new(&err);
    struct dns_resolver *resolver = dns_resolver_new(loop, NULL);
    for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
        struct trace_config config = {.loop = loop,
                                      .resolver = resolver,
                                      .endpoint = slice_cstr(bad[i].endpoint),
                                      .headers_file = SLICE(""),
                                      .sample = slice_cstr(bad[i].sample)};
        err = (struct err){0};
        assert_null(trace_new(&config, &err));
        if (!strstr(err.text, bad[i].what))
            fail_msg("%s: %s", bad[i].what, err.text);
    }
    dns_resolver_free(resolver);
    loop_free(loop);
    metric_deinit();
    assert_int_equal(mem_live_blocks(), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_ratio_decides_and_a_parent_may_forbid),
        cmocka_unit_test(what_is_only_passed_on),
        cmocka_unit_test(a_context_is_stored),
        cmocka_unit_test(spans_are_sent_together),
        cmocka_unit_test(a_full_queue_drops),
        cmocka_unit_test(large_spans_fill_it_sooner),
        cmocka_unit_test(a_refusal_loses_its_spans),
        cmocka_unit_test(a_drain_sends_what_is_there),
        cmocka_unit_test(a_stop_cuts_what_is_under_way),
        cmocka_unit_test(settings_that_cannot_work),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
