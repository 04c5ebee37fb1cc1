/*
 * JSON shown to people: its name, in short, whole, and truncated.
 */
#include <math.h>

#include "unit.h"
#include "web/value.h"
#include "web/view.h"

static struct arena arena;
static struct buf out;

static int set_up(void **state)
{
    (void)state;
    arena_init(&arena, 1024 * 1024);
    buf_init(&out, 1024 * 1024);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    buf_deinit(&out);
    arena_deinit(&arena);
    return 0;
}

static const struct json *parse(const char *text)
{
    const struct json *value = json_parse(&arena, slice_cstr(text), &json_limits_request, NULL);
    assert_non_null(value);
    return value;
}

static void check_headline(const char *text, const char *want)
{
    slice found = value_headline(parse(text));
    assert_true(want ? slice_eq_cstr(found, want) : found.len == 0);
}

static void test_headlines(void **state)
{
    (void)state;
    check_headline("{\"to\":\"a\",\"text\":\"Hello\",\"subject\":\"Hi\"}", "Hi");
    check_headline("{\"title\":\"  \",\"name\":\"N\"}", "N");
    check_headline("{\"parent\":{\"page_id\":\"1\"},\"properties\":{\"Name\":{\"title\":"
                   "[{\"text\":{\"content\":\"Deep\"}}]}}}",
                   "Deep");
    check_headline("{\"channel\":\"C1\",\"count\":3}", NULL);
    check_headline("[\"a\"]", NULL);
    check_headline("null", NULL);
    assert_true(value_headline(NULL).len == 0);
    check_headline("{\"a\":{\"a\":{\"a\":{\"a\":{\"a\":{\"a\":{\"a\":{\"a\":{\"a\":{\"title\":"
                   "\"too deep\"}}}}}}}}}}",
                   NULL);
}

/* Ends the object that has been begun, and checks its text. */
static void check_json(struct json_writer *w, const char *want)
{
    json_close(w, '}');
    buf_append_char(&out, '\0');
    assert_string_equal(out.ptr, want);
    buf_clear(&out);
}

static struct json_writer *begin(struct json_writer *w)
{
    json_begin(w, &out);
    json_open(w, '{');
    return w;
}

static void check_brief(const char *text, const char *want)
{
    const struct json *value = parse(text);
    struct json_writer w;
    value_view_brief(begin(&w), value, value_headline(value), SLICE("left_out"));
    check_json(&w, want);
}

static void test_in_short(void **state)
{
    (void)state;
    check_brief("{\"subject\":\"Hi\",\"to\":\"<a@b>\",\"n\":1}",
                "{\"brief\":[{\"name\":\"To\",\"text\":\"<a@b>\"}],\"sentences\":[]}");
    check_brief("{\"title\":\"T\",\"children\":[{\"type\":\"paragraph\",\"t\":\"one two\"},"
                "{\"t\":\"<b> x\"},{\"t\":\"no more\"}]}",
                "{\"brief\":[],\"sentences\":[\"one two\",\"<b> x\"]}");
    check_brief("[1]", "{\"brief\":[],\"sentences\":[]}");
}

static void test_whole_and_cut(void **state)
{
    struct json_writer w;
    (void)state;
    value_view(begin(&w), "v", parse("{\"a\":{\"b\":[\"<i>\",true,[]]}}"));
    check_json(&w, "{\"v\":{\"members\":[{\"name\":\"a\",\"value\":{\"members\":[{\"name\":\"b\","
                   "\"value\":{\"items\":[{\"text\":\"<i>\"},{\"text\":\"true\"},{\"items\":[],"
                   "\"more\":0}],\"more\":0}}],\"more\":0}}],\"more\":0}}");
    value_view(begin(&w), "v", NULL);
    check_json(&w, "{\"v\":{\"text\":\"-\"}}");
    value_view(begin(&w), "v", parse("[[[[[[[[[1]]]]]]]]]"));
    assert_true(slice_find(buf_slice(&out), SLICE("{\"json\":\"[\\n  1\\n]\"}")) > 0);
    buf_clear(&out);
    value_view_text(begin(&w), "v", parse("\"0123456789\""), 4);
    check_json(&w, "{\"v\":\"\\\"012 ... (shortened)\"}");
}

static void test_equal_objects_are_a_table(void **state)
{
    struct json_writer w;
    (void)state;
    value_view(begin(&w), "v",
               parse("[{\"id\":1,\"none\":null,\"name\":\"<a>\"},{\"id\":2,\"new\":true}]"));
    check_json(&w, "{\"v\":{\"columns\":[\"id\",\"name\",\"new\"],\"rows\":["
                   "{\"cells\":[{\"text\":\"1\"},{\"text\":\"<a>\"},null]},"
                   "{\"cells\":[{\"text\":\"2\"},null,{\"text\":\"true\"}]}],\"more\":0}}");
    /* one object, a nested value, another type, too many columns, and nothing but null */
    static const char *const others[] = {"[{\"a\":1}]", "[{\"a\":1},{\"a\":[1]}]", "[{\"a\":1},2]",
                                         "[{\"a\":1,\"b\":1,\"c\":1,\"d\":1,\"e\":1,\"f\":1},"
                                         "{\"g\":1}]",
                                         "[{\"a\":null},{\"a\":null}]"};
    for (size_t i = 0; i < ARRAY_LEN(others); i++) {
        value_view(begin(&w), "v", parse(others[i]));
        assert_true(slice_starts_with(buf_slice(&out), SLICE("{\"v\":{\"items\":")));
        buf_clear(&out);
    }
}

static void check_name(const char *name, const char *want)
{
    struct json_writer w;
    value_view_name(begin(&w), "v", slice_cstr(name));
    json_close(&w, '}');
    const struct json *made = json_parse(&arena, buf_slice(&out), &json_limits_request, NULL);
    assert_true(slice_eq_cstr(json_get_str(made, SLICE("v")), want));
    buf_clear(&out);
}

static void test_names(void **state)
{
    (void)state;
    check_name("taskParent", "Task parent");
    check_name("max_results", "Max results");
    check_name("mailConnectionId", "Mail connection id");
    check_name("baseURL", "Base URL");
    check_name("api-key", "Api key");
    check_name("X", "X");
    check_name("", "");
    check_name("\xC3\xA9t\xC3\xA9<b>", "\xC3\xA9t\xC3\xA9<b>");
}

/* The luminance of a channel, with the numbers of WCAG 2.2. */
static double light(unsigned channel)
{
    double part = channel / 255.0;
    return part <= 0.04045 ? part / 12.92 : pow((part + 0.055) / 1.055, 2.4);
}

static void test_letters_can_be_read_on_any_ground(void **state)
{
    (void)state;
    size_t white = 0, black = 0;
    for (unsigned r = 0; r <= 255; r += 15)
        for (unsigned g = 0; g <= 255; g += 15)
            for (unsigned b = 0; b <= 255; b += 15) {
                char colour[16];
                (void)snprintf(colour, sizeof(colour), "#%02x%02x%02x", r, g, b);
                double ground = 0.2126 * light(r) + 0.7152 * light(g) + 0.0722 * light(b) + 0.05;
                bool is_white = slice_eq_cstr(view_ink_on(slice_cstr(colour)), "#fff");
                assert_true(is_white ? 1.05 / ground >= 4.5 : ground / 0.05 >= 4.5);
                *(is_white ? &white : &black) += 1;
            }
    assert_true(white > 1000 && black > 1000);
    assert_true(slice_eq_cstr(view_ink_on(SLICE("#0b6478")), "#fff"));
    assert_true(slice_eq_cstr(view_ink_on(SLICE("#FFCC00")), "#000"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_headlines, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_in_short, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_whole_and_cut, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_equal_objects_are_a_table, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_names, set_up, tear_down),
        cmocka_unit_test(test_letters_can_be_read_on_any_ground),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
