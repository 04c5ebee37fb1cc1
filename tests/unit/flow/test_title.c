/*
 * Titles: how a flow's name is built from the template's title and the input, that the flow starts
 * in any case, and how steps are named.
 */
#include <stdio.h>

#include "seam/seam.h"

#include "machine.h"

#define TITLED(key, title) TEMPLATE_WITH(key, "\"flow_title\":\"" title "\",", PASS("a"))

/* Sorted by key, as in a template set. */
static const char *const templates[] = {
    TITLED("ask", "Ask ${input.n} (${flow.templateKey}, ${flow.triggerType})"),
    TITLED("bare", "${input.n}"),
    TITLED("fixed", "Always the same"),
    TEMPLATE("none", PASS("a")),
    TEMPLATE(
        "steps",
        STEP("a_b", "transform", "\"title\":\"Sort them\",\"expr\":\"`1`\"") "," PASS(
            "sort_of_it") "," GET("c", "") "," ASK("d", "") "," GET("e", "\"title\":\"Look\",")),
    NULL,
};

static int set_up(void **state)
{
    *state = machine_new(templates);
    return 0;
}

static int tear_down(void **state)
{
    return machine_free(*state);
}

static slice flow_title_of(struct machine *m, const char *key, const char *n)
{
    char input[8192];
    (void)snprintf(input, sizeof(input), "{\"confirm\":true,\"n\":%s}", n);
    return machine_row(m, machine_start(m, key, input))->title;
}

#define assert_title(key, n, want)                                                      \
    do {                                                                                \
        slice title = flow_title_of(*state, key, n);                                    \
        if (!slice_eq(title, slice_cstr(want)))                                         \
            fail_msg("\"%.*s\" instead of \"%s\"", SLICE_ARG(title), want ? want : ""); \
    } while (0)

static void it_is_made_of_the_input(void **state)
{
    assert_title("ask", "\"Ada\"", "Ask Ada (ask, manual)");
    assert_title("ask", "12", "Ask 12 (ask, manual)");
    assert_title("fixed", "\"Ada\"", "Always the same");
    assert_title("none", "\"Ada\"", NULL);
}

/* The flow starts, and its view has the template's name. */
static void without_one_it_is_the_templates_name(void **state)
{
    struct machine *m = *state;
    const char *const inputs[] = {"[1]", "{}", "null", "[]"};
    for (size_t i = 0; i < ARRAY_LEN(inputs); i++)
        assert_title("ask", inputs[i], NULL);
    assert_title("bare", "7", NULL);
    assert_title("bare", "\" \\t\\u202e \"", NULL);
    machine_begin_start(m, "bare", "{\"confirm\":true,\"n\":7}");
    assert_true(seam_walk_until_ended(&m->walk, &m->run));
    assert_int_equal(m->run.answer, FLOW_ANSWER_DONE);
    assert_true(slice_find(m->run.as.command.view_json, SLICE("\"title\":\"T\"")) > 0);
    seam_run_end(&m->run);
}

static void the_answer_to_a_start_has_it(void **state)
{
    struct machine *m = *state;
    machine_begin_start(m, "bare", "{\"confirm\":true,\"n\":\"Of Ada\"}");
    assert_true(seam_walk_until_ended(&m->walk, &m->run));
    assert_true(
        slice_find(m->run.as.command.view_json, SLICE("\"name\":\"T\",\"title\":\"Of Ada\"")) > 0);
    seam_run_end(&m->run);
}

/* One line, without anything that reorders text or controls a terminal. */
static void it_is_one_clean_line(void **state)
{
    assert_title("bare", "\"  a\\r\\n\\tb\\u0000\\u0007c \\u00a0 d\\u2028e  \"", "a b c d e");
    assert_title("bare", "\"in\\u202evoice\\u2066.exe\\u2069\\ufeff\"", "invoice.exe");
    assert_title("bare", "\"\\u001b[31mred\"", "[31mred");
    assert_title("bare", "\"\\ud83d\\ude00 \\u05d0\\u200f\\u05d1\"", "\U0001f600 \u05d0\u05d1");
}

/* A character repeated that many times, as JSON text. */
static const char *times(const char *one, size_t count)
{
    static char text[4096];
    size_t at = (size_t)snprintf(text, sizeof(text), "\"");
    for (size_t i = 0; i < count; i++)
        at += (size_t)snprintf(text + at, sizeof(text) - at, "%s", one);
    (void)snprintf(text + at, sizeof(text) - at, "\"");
    return text;
}

static size_t characters(slice text)
{
    size_t count = 0;
    for (; text.len > 0; count++) {
        size_t bytes = slice_utf8_first(text);
        assert_true(bytes > 0);
        text = slice_from(text, bytes);
    }
    return count;
}

static void a_long_one_is_cut(void **state)
{
    static const char *const of[] = {"x", "\u00fc", "\u20ac", "\U0001f600", "x "};
    for (size_t i = 0; i < ARRAY_LEN(of); i++) {
        bool is_pair = of[i][1] == ' ';
        size_t fits = is_pair ? FLOW_TITLE_CHARS_MAX / 2 : FLOW_TITLE_CHARS_MAX;
        slice whole = flow_title_of(*state, "bare", times(of[i], fits));
        assert_int_equal(characters(whole), FLOW_TITLE_CHARS_MAX - is_pair);
        assert_true(slice_find(whole, SLICE("\u2026")) < 0);
        slice cut = flow_title_of(*state, "bare", times(of[i], fits + 1));
        assert_int_equal(characters(cut), FLOW_TITLE_CHARS_MAX);
        assert_int_equal(slice_find(cut, SLICE("\u2026")), cut.len - 3);
    }
}

/* An input may be large. Building a title from it has a budget. Without a title, the flow still
 * runs. */
static void its_budget_ends(void **state)
{
    struct machine *m = *state;
    struct buf input;
    buf_init(&input, 4 * 1024 * 1024);
    buf_append_cstr(&input, "{\"confirm\":true,\"n\":\"");
    for (size_t i = 0; i < 100000; i++)
        buf_append_cstr(&input, "0123456789");
    buf_append_cstr(&input, "\"}");
    buf_append_char(&input, '\0');
    assert_true(buf_is_ok(&input));
    assert_null(machine_row(m, machine_start(m, "ask", input.ptr))->title.ptr);
    /* A path alone builds no new text, and its value is truncated. */
    assert_int_equal(characters(machine_row(m, machine_start(m, "bare", input.ptr))->title),
                     FLOW_TITLE_CHARS_MAX);
    buf_deinit(&input);
}

static void what_steps_are_called(void **state)
{
    static const char *const want[] = {"Sort them", "Sort of it", "Demo: get", "D", "Look"};
    struct machine *m = *state;
    struct arena arena;
    arena_init(&arena, 64 * 1024);
    const struct flow_template *tmpl = flow_template_set_find(m->templates, SLICE("steps"));
    assert_int_equal(tmpl->step_count, ARRAY_LEN(want));
    for (size_t i = 0; i < ARRAY_LEN(want); i++) {
        slice title = flow_step_title(&tmpl->steps[i], m->catalog, &arena);
        if (!slice_eq_cstr(title, want[i]))
            fail_msg("\"%.*s\" instead of \"%s\"", SLICE_ARG(title), want[i]);
    }
    arena_deinit(&arena);
}

#define ON_A_MACHINE(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        ON_A_MACHINE(it_is_made_of_the_input),
        ON_A_MACHINE(without_one_it_is_the_templates_name),
        ON_A_MACHINE(the_answer_to_a_start_has_it),
        ON_A_MACHINE(it_is_one_clean_line),
        ON_A_MACHINE(a_long_one_is_cut),
        ON_A_MACHINE(its_budget_ends),
        ON_A_MACHINE(what_steps_are_called),
    };
    return cmocka_run_group_tests_name("flow/title", tests, NULL, NULL);
}
