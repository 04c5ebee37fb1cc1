/*
 * Trace contexts as text (W3C Trace Context).
 */
#include "http/message.h"
#include "trace/context.h"
#include "unit.h"

static const char good[] = "00-0af7651916cd43dd8448eb211c80319c-00f067aa0ba902b7-01";

static void traceparents(void **state)
{
    (void)state;
    struct trace_context context;
    static const char *const bad[] = {
        "",
        "00",
        "00-0af7651916cd43dd8448eb211c80319c-00f067aa0ba902b7-0",
        "00-0af7651916cd43dd8448eb211c80319c-00f067aa0ba902b7-01-x",
        "ff-0af7651916cd43dd8448eb211c80319c-00f067aa0ba902b7-01",
        "00-0AF7651916cd43dd8448eb211c80319c-00f067aa0ba902b7-01",
        "00-00000000000000000000000000000000-00f067aa0ba902b7-01",
        "00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01",
        "00_0af7651916cd43dd8448eb211c80319c-00f067aa0ba902b7-01",
        "01-0af7651916cd43dd8448eb211c80319c-00f067aa0ba902b7-01x",
    };
    assert_true(trace_parent_read(slice_cstr(good), &context));
    assert_true(context.is_remote && !context.is_root && !context.is_recorded);
    assert_true(trace_parent_read(
        SLICE("01-0af7651916cd43dd8448eb211c80319c-00f067aa0ba902b7-01-more"), &context));
    assert_false(trace_parent_read(SLICE_NONE, &context));
    for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++)
        if (trace_parent_read(slice_cstr(bad[i]), &context))
            fail_msg("\"%s\" is taken", bad[i]);
}

static void what_is_read_is_written(void **state)
{
    (void)state;
    char room[TRACE_PARENT_LEN + 1];
    struct trace_context context;
    assert_true(trace_parent_read(slice_cstr(good), &context));
    assert_string_equal(trace_parent_write(&context, room).ptr, good);
    /* a later version and unknown flags are reduced to what this version knows */
    assert_true(trace_parent_read(
        SLICE("cc-0af7651916cd43dd8448eb211c80319c-00f067aa0ba902b7-fd-what"), &context));
    assert_string_equal(trace_parent_write(&context, room).ptr, good);
}

static void states(void **state)
{
    (void)state;
    char text[TRACE_STATE_BYTES_MAX + 1];
    memset(text, 'a', sizeof(text));
    text[1] = '=';
    assert_true(trace_state_fits(SLICE("congo=t61rcWkgMzE, rojo=00f067aa0ba902b7")));
    assert_true(trace_state_fits(slice_of(text, TRACE_STATE_BYTES_MAX)));
    assert_false(trace_state_fits(slice_of(text, sizeof(text))));
    assert_false(trace_state_fits(SLICE("")));
    assert_false(trace_state_fits(SLICE_NONE));
    assert_false(trace_state_fits(SLICE("a=1\r\nX-Injected: 1")));
    assert_false(trace_state_fits(SLICE("a=\xc3\xbc")));
    assert_false(trace_state_fits(SLICE("nothing")));
    /* an accepted value may be sent in a header, and no reader takes it for something else */
    static const slice malformed[] = {
        SLICE_INIT(" a=1"),    SLICE_INIT("a=1 "), SLICE_INIT("\ta=1"), SLICE_INIT("a=1,b"),
        SLICE_INIT("=1"),      SLICE_INIT("a="),   SLICE_INIT("a=1=2"), SLICE_INIT("a b=1"),
        SLICE_INIT("a=1\x7f"), SLICE_INIT(","),    SLICE_INIT(" "),     SLICE_INIT("a=1,=2"),
    };
    for (size_t i = 0; i < ARRAY_LEN(malformed); i++)
        assert_false(trace_state_fits(malformed[i]));
    assert_true(trace_state_fits(SLICE("a@b/c=1 2,, d=3")));
    for (unsigned c = 0; c < 256; c++) { /* in each position */
        char one[] = "a=1,b=2";
        for (size_t at = 0; at < sizeof(one) - 1; at++) {
            char was = one[at];
            one[at] = (char)c;
            slice header = slice_of(one, sizeof(one) - 1);
            assert_true(!trace_state_fits(header) || http_is_field_value(header));
            one[at] = was;
        }
    }
}

static void children(void **state)
{
    (void)state;
    struct trace_context parent;
    assert_true(trace_parent_read(slice_cstr(good), &parent));
    parent.is_recorded = true;
    struct trace_context one = trace_child(&parent), other = trace_child(&parent);
    assert_memory_equal(&one.trace, &parent.trace, sizeof(one.trace));
    assert_memory_not_equal(&one.span, &other.span, sizeof(one.span));
    assert_true(one.is_recorded && !one.is_remote);
    /* the same on every node, and different for another name */
    struct uuid space = uuid_v7();
    one = trace_child_named(&parent, space, SLICE("span/1/1"));
    other = trace_child_named(&parent, space, SLICE("span/1/1"));
    assert_memory_equal(&one.span, &other.span, sizeof(one.span));
    other = trace_child_named(&parent, space, SLICE("span/1/2"));
    assert_memory_not_equal(&one.span, &other.span, sizeof(one.span));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(traceparents),
        cmocka_unit_test(what_is_read_is_written),
        cmocka_unit_test(states),
        cmocka_unit_test(children),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
