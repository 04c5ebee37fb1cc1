/*
 * Text from strangers stays text, at any position.
 */
#include "unit.h"
#include "web/html.h"

static struct buf out;

static int set_up(void **state)
{
    (void)state;
    buf_init(&out, 64 * 1024);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    buf_deinit(&out);
    return 0;
}

static void check(const char *want)
{
    assert_true(buf_is_ok(&out));
    buf_append_char(&out, '\0');
    assert_string_equal(out.ptr, want);
    buf_clear(&out);
}

static void test_markup_of_strangers_is_text(void **state)
{
    (void)state;
    html_text(&out, SLICE("\"><img src=x onerror=alert(1)>"));
    check("&quot;&gt;&lt;img src=x onerror=alert(1)&gt;");
    html_text(&out, SLICE("<script>'&amp;'</script>"));
    check("&lt;script&gt;&#39;&amp;amp;&#39;&lt;/script&gt;");
    html_text(&out, SLICE_NONE);
    check("");
}

static void test_invalid_text_is_marked(void **state)
{
    (void)state;
    html_text(&out, SLICE("a\xFFz"));
    check("a\xEF\xBF\xBDz");
    html_text(&out, SLICE("\x01\x1B[0m\x7F"));
    check("\xEF\xBF\xBD\xEF\xBF\xBD[0m\xEF\xBF\xBD");
    html_text(&out, SLICE("\xC3"));
    check("\xEF\xBF\xBD");
    html_text(&out, SLICE("\xC0\xBCscript"));
    check("\xEF\xBF\xBD\xEF\xBF\xBDscript");
    html_text(&out, SLICE("tab\tline\n\xC3\xA9 \xF0\x9F\x99\x82"));
    check("tab\tline\n\xC3\xA9 \xF0\x9F\x99\x82");
    html_text(&out, slice_of("a\0b", 3));
    check("a\xEF\xBF\xBD"
          "b");
}

static void test_what_is_read_is_visible(void **state)
{
    (void)state;
    html_visible(&out, SLICE("a & b\t\n"));
    check("a &amp; b\t\n");
    html_visible(&out, SLICE("a\u202eb\u2028<\x1b"));
    check("a\\u202eb\\u2028&lt;\\u001b");
    html_visible(&out, SLICE("\U000e0041\u00e9\U0001f642"));
    check("\\udb40\\udc41\u00e9\U0001f642");
    html_visible(&out, SLICE("\u05e9\u2069 1")); /* the mark ends no isolation */
    check("\u2068\u05e9\\u2069 1\u2069");
    html_visible(&out, SLICE("\u3164\u034fa\u115f\ufe0f\ufe0e\U000e0100b\ufe0f"));
    check("\\u3164\\u034fa\\u115f\\ufe0f\\ufe0e\\udb40\\udd00b\\ufe0f");
    html_visible(&out, SLICE("\u2764\ufe0f\ufe0e \u845b\U000e0101 \u2800"));
    check("\u2764\ufe0f\\ufe0e \u845b\\udb40\\udd01 \\u2800");
    html_visible(&out, SLICE("1\ufe0f\u20e3 e\u0301\u0302\u0303 "
                             "x\u0301\u0301\u0301\u0301\u0301\u0301\u0301\u0301\u0301\u0e47y"));
    check("1\ufe0f\u20e3 e\u0301\u0302\u0303 "
          "x\u0301\u0301\u0301\u0301\u0301\u0301\u0301\u0301\\u0301\\u0e47y");
    html_visible(&out, SLICE("\xff\u05e9"));
    check("\u2068\uFFFD\u05e9\u2069");
}

/* Tests every byte value between two letters: no character that is special in HTML is written
 * unescaped. */
static void test_no_byte_gets_through(void **state)
{
    (void)state;
    for (unsigned c = 0; c < 256; c++) {
        char text[3] = {'a', (char)c, 'z'};
        html_text(&out, slice_of(text, sizeof(text)));
        assert_true(buf_is_ok(&out));
        for (size_t i = 0; i < out.len; i++)
            assert_null(memchr("<>\"'", out.ptr[i], 4));
        assert_true(slice_is_utf8(buf_slice(&out), NULL));
        assert_true(slice_starts_with(buf_slice(&out), SLICE("a")));
        assert_true(slice_ends_with(buf_slice(&out), SLICE("z")));
        buf_clear(&out);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_markup_of_strangers_is_text, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_invalid_text_is_marked, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_what_is_read_is_visible, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_no_byte_gets_through, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
