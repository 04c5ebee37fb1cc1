/* The plan of the next step: skipped steps, inputs, waits, an approval's view, faults, and
 * retries. */
#include "base/clock.h"
#include "flow/change.h"
#include "flow/internal.h"
#include "unit.h"

static struct catalog_report report;
static struct flow_service service;
static struct flow_run run;

/* Begins a run of these steps with this input, as after a start. */
static void begin(const char *properties, const char *steps, const char *input)
{
    struct err err;
    struct buf text;
    buf_init(&text, 64 * 1024);
    buf_printf(
        &text,
        "{\"key\":\"t\",\"name\":\"T\",\"description\":\"T.\",\"input\":{\"type\":\"object\","
        "\"properties\":{%s},\"additionalProperties\":false},\"steps\":[%s]}",
        properties, steps);
    catalog_report_init(&report);
    run = (struct flow_run){.service = &service};
    run.tmpl = flow_template_compile(SLICE("t"), buf_slice(&text), NULL, &report);
    if (!run.tmpl)
        fail_msg("%.*s: %.*s", SLICE_ARG(report.problems[0].pointer),
                 SLICE_ARG(report.problems[0].text));
    buf_deinit(&text);
    arena_init(&run.op.arena, 64 * 1024 * 1024);
    arena_init(&run.scratch[0], 64 * 1024 * 1024);
    arena_init(&run.scratch[1], 64 * 1024 * 1024);
    run.flow = (struct flow){.template_key = SLICE("t"), .trigger_type = SLICE("manual")};
    run.op.request_id = SLICE("01a2007c-ddc7-7664-bcdc-429c0f5bdf92");
    run.input = json_parse(&run.op.arena, slice_cstr(input), &json_limits_request, &err);
    assert_non_null(run.input);
}

static void end(void)
{
    arena_deinit(&run.op.arena);
    arena_deinit(&run.scratch[0]);
    arena_deinit(&run.scratch[1]);
    flow_template_unref(run.tmpl);
    catalog_report_deinit(&report);
}

static void plan(size_t at)
{
    flow_plan_make(&run, at, 1, false);
}

#define N        "\"n\":{\"description\":\"N.\"}"
#define PASS(k)  "{\"key\":\"" k "\",\"type\":\"transform\",\"expr\":\"`1`\"}"
#define WAIT(of) "{\"key\":\"w\",\"type\":\"wait\"," of "}"

static void test_steps_whose_condition_is_false_are_passed_over(void **state)
{
    (void)state;
    begin(N,
          "{\"key\":\"a\",\"type\":\"transform\",\"when\":\"input.n == `1`\",\"expr\":\"`1`\"},"
          "{\"key\":\"b\",\"type\":\"transform\",\"when\":\"input.n == `2`\",\"expr\":\"`2`\"}",
          "{\"n\":2}");
    plan(0);
    assert_int_equal(run.plan.kind, FLOW_PLAN_TRANSFORM);
    assert_int_equal(run.plan.step, 1);
    plan(2);
    assert_int_equal(run.plan.kind, FLOW_PLAN_END);
    flow_plan_make(&run, 0, 2, true); /* decided before, so it is not evaluated again */
    assert_int_equal(run.plan.step, 0);
    assert_int_equal(run.plan.attempt, 2);
    end();
}

static void test_inputs_of_calls(void **state)
{
    (void)state;
    begin(N,
          "{\"key\":\"a\",\"type\":\"tool_call\",\"tool\":\"x_y\",\"connection\":\"${input.n}\","
          "\"input\":{\"key\":\"${flow.templateKey}\",\"none\":\"${input.n[3]}\"}}",
          "{\"n\":\"17\"}");
    plan(0);
    assert_int_equal(run.plan.kind, FLOW_PLAN_CALL);
    assert_int_equal(run.plan.connection_id, 17);
    assert_string_equal(run.plan.input_json.ptr, "{\"key\":\"t\"}"); /* null members are left out */
    end();
}

static void check_wait(const char *of, const char *input, enum flow_plan_kind wanted)
{
    begin(N, of, input);
    plan(0);
    assert_int_equal(run.plan.kind, wanted);
    end();
}

static void test_waits(void **state)
{
    (void)state;
    check_wait(WAIT("\"for\":\"${input.n}\""), "{\"n\":60}", FLOW_PLAN_PARK);
    check_wait(WAIT("\"for\":\"${input.n}\""), "{\"n\":0}", FLOW_PLAN_PASS);
    check_wait(WAIT("\"for\":\"${input.n}\""), "{\"n\":-1}", FLOW_PLAN_FAULT);
    check_wait(WAIT("\"for\":\"${input.n}\""), "{\"n\":1e12}", FLOW_PLAN_FAULT);
    check_wait(WAIT("\"for\":\"${input.n}\""), "{\"n\":\"soon\"}", FLOW_PLAN_FAULT);
    check_wait(WAIT("\"until\":\"${input.n}\""), "{\"n\":\"2020-01-01T00:00:00+02:00\"}",
               FLOW_PLAN_PASS);
    check_wait(WAIT("\"until\":\"${input.n}\""), "{\"n\":\"2999-01-01T00:00:00-05:30\"}",
               FLOW_PLAN_PARK);
    check_wait(WAIT("\"until\":\"${input.n}\""), "{\"n\":\"tomorrow\"}", FLOW_PLAN_FAULT);
}

static void test_a_pause_ends_at_the_deadline(void **state)
{
    (void)state;
    begin(N, WAIT("\"for\":\"${input.n}\""), "{\"n\":3600}");
    run.flow.deadline = clock_wall_us() + 5000000;
    plan(0);
    assert_int_equal(run.plan.wake_at, run.flow.deadline);
    end();
}

#define ASK \
    "{\"key\":\"ask\",\"type\":\"approval\",\"title\":\"T ${input.n[0]}\",\"summary\":\"S\"},"

static void test_an_approval_shows_every_call(void **state)
{
    (void)state;
    begin(N,
          ASK "{\"key\":\"a\",\"type\":\"tool_call\",\"tool\":\"x_y\","
              "\"confirmed_by\":\"approval:ask\",\"for_each\":\"input.n\","
              "\"input\":{\"v\":\"${item}\",\"i\":\"${index}\"}},"
              "{\"key\":\"b\",\"type\":\"tool_call\",\"tool\":\"x_z\","
              "\"confirmed_by\":\"approval:ask\",\"when\":\"input.n[5]\",\"input\":{}}",
          "{\"n\":[7,8]}");
    plan(0);
    assert_int_equal(run.plan.kind, FLOW_PLAN_PARK);
    assert_int_equal(run.plan.wake_at, 0);
    assert_string_equal(run.plan.input_json.ptr,
                        "{\"title\":\"T 7\",\"summary\":\"S\",\"items\":["
                        "{\"stepKey\":\"a\",\"tool\":\"x_y\",\"input\":{\"v\":7,\"i\":0}},"
                        "{\"stepKey\":\"a\",\"tool\":\"x_y\",\"input\":{\"v\":8,\"i\":1}}]}");
    plan(1); /* the call sends exactly what the approval showed */
    assert_int_equal(run.plan.kind, FLOW_PLAN_FAN_OUT);
    struct json input;
    struct flow_error error;
    int64_t connection;
    assert_true(flow_plan_item(&run, 1, flow_run_scratch(&run), &input, &connection, &error));
    slice text = json_text_of(&input, flow_run_scratch(&run), 1000);
    assert_string_equal(text.ptr, "{\"v\":8,\"i\":1}");
    end();
}

/* ---- what would change ---- */

#define SHOW "{\"key\":\"ask\",\"type\":\"approval\",\"title\":\"T\",\"summary\":\"S\"},"
#define READ "{\"key\":\"r\",\"type\":\"tool_call\",\"tool\":\"x_get\",\"input\":{}},"
#define EACH                                                                                       \
    "{\"key\":\"r\",\"type\":\"tool_call\",\"tool\":\"x_get\",\"for_each\":\"input.n\",\"input\":" \
    "{}"                                                                                           \
    "},"
#define CHANGE(more, now, then)                                                             \
    "{\"key\":\"u\",\"type\":\"tool_call\",\"tool\":\"x_set\",\"confirmed_by\":\"approval:" \
    "ask\"," more ",\"before\":{\"step\":\"r\",\"now\":" now ",\"then\":" then "}}"
#define SET   "\"input\":\"${input.n[0]}\""
#define SET_1 "\"for_each\":\"input.n\",\"input\":\"${item}\""

/* Plans the approval as if step r had returned `output`, and returns the changes of each call. */
static void assert_changes(const char *steps, const char *input, const char *output,
                           const char *expected)
{
    char all[2048] = "";
    size_t len = 0;
    begin(N, steps, input);
    run.outputs[0] = (struct flow_output){.is_there = output, .text = slice_cstr(output)};
    plan(1);
    assert_int_equal(run.plan.kind, FLOW_PLAN_PARK);
    const struct json *shown =
        json_parse(&run.op.arena, run.plan.input_json, &json_limits_provider, NULL);
    const struct json *items = JSON_GET(shown, "items");
    for (uint32_t i = 0; i < items->count; i++) {
        const struct json *changes = JSON_GET(&items->as.items[i], "changes");
        slice text = changes ? json_text_of(changes, &run.op.arena, sizeof(all)) : SLICE("none");
        len += (size_t)snprintf(all + len, sizeof(all) - len, "%.*s%s", SLICE_ARG(text),
                                i + 1 < items->count ? " " : "");
    }
    assert_string_equal(all, expected);
    end();
}

#define CHANGES(properties, same) "{\"step\":\"r\",\"properties\":[" properties "]" same "}"
#define OF(name, now, then)       "{\"name\":\"" name "\"" now then "}"
#define NOW(text)                 ",\"now\":\"" text "\""
#define THEN(text)                ",\"then\":\"" text "\""

static void test_what_changes_is_said(void **state)
{
    (void)state;
    static const char steps[] = READ SHOW CHANGE(SET, "\"${before}\"", "\"${@}\"");
    assert_changes(steps, "{\"n\":[{\"a\":\"new\",\"b\":2,\"c\":\"x\",\"d\":true}]}",
                   "{\"a\":\"old\",\"b\":2.0,\"d\":false,\"e\":1,\"f\":null}",
                   CHANGES(OF("a", NOW("old"), THEN("new")) "," OF("c", , THEN("x")) "," OF(
                               "d", NOW("false"), THEN("true")),
                           ",\"same\":3"));
    /* Texts that look the same are not a difference. A text that becomes empty is a difference. */
    assert_changes(steps, "{\"n\":[{\"a\":\"1\",\"b\":\"\",\"c\":\"\"}]}",
                   "{\"a\":1,\"b\":\"x\",\"c\":null}", CHANGES(OF("b", NOW("x"), ), ",\"same\":2"));
    /* A null that is sent may clear a field, so the final value is not certain. */
    assert_changes(steps, "{\"n\":[{\"a\":\"new\",\"b\":null}]}", "{\"a\":\"old\",\"b\":1}",
                   CHANGES(OF("a", NOW("old"), THEN("new")), ));
    assert_changes(steps, "{\"n\":[{\"a\":[1,{\"x\":null}]}]}", "{\"a\":[1]}",
                   CHANGES(OF("a", NOW("[1]"), THEN("[1,{\\\"x\\\":null}]")), ));
}

static void test_an_unknown_value_is_not_a_change(void **state)
{
    (void)state;
    static const char steps[] = READ SHOW CHANGE(
        SET, "{\"A\":\"${before.a.x}\",\"B\":\"${before.b}\"}", "{\"A\":\"${a}\",\"B\":\"${b}\"}");
    static const char input[] = "{\"n\":[{\"a\":\"new\"}]}";
    assert_changes(steps, input, "{\"a\":{\"x\":\"old\"}}",
                   CHANGES(OF("A", NOW("old"), THEN("new")), ",\"same\":1"));
    assert_changes(steps, input, "{\"b\":1}", CHANGES(OF("A", , THEN("new")), ",\"same\":1"));
    assert_changes(steps, input, NULL, "none"); /* skipped */
    assert_changes(steps, input, "null", "none");
    assert_changes(steps, input, "{}", "none");
    assert_changes(steps, input, "\"gone\"", "none");
    assert_changes(READ SHOW CHANGE(SET, "\"${before.list}\"", "\"${@}\""), input,
                   "{\"list\":[\"a\"]}", "none");
    assert_changes(READ SHOW CHANGE(SET, "{\"a\":\"${abs(before.a)}\"}", "\"${@}\""), input,
                   "{\"a\":\"no number\"}", "none");
}

static void test_changes_are_of_the_same_item(void **state)
{
    (void)state;
    assert_changes(EACH SHOW CHANGE(SET_1, "\"${before}\"", "\"${@}\""),
                   "{\"n\":[{\"a\":1},{\"a\":2},{\"a\":3}]}", "[{\"a\":9},null]",
                   CHANGES(OF("a", NOW("9"), THEN("1")), ",\"same\":0") " none none");
    /* An object with its own title, which is left out if it is empty. */
    assert_changes(
        EACH SHOW CHANGE(SET_1, "\"${before}\",\"title\":\"${before.t}\"", "{\"a\":\"${a}\"}"),
        "{\"n\":[{\"a\":1},{\"a\":1}]}", "[{\"t\":\"One\",\"a\":1},{\"t\":2,\"a\":1}]",
        "{\"step\":\"r\",\"title\":\"One\",\"properties\":[],\"same\":2} "
        "{\"step\":\"r\",\"properties\":[],\"same\":2}");
    /* The title is found by the title members of the object. */
    assert_changes(
        READ SHOW CHANGE(SET_1, "\"${before[?id == $.item.id] | [0]}\"", "{\"a\":\"${a}\"}"),
        "{\"n\":[{\"id\":7,\"a\":1},{\"id\":8,\"a\":1}]}",
        "[{\"id\":6,\"a\":1},{\"id\":7,\"a\":2}]",
        CHANGES(OF("a", NOW("2"), THEN("1")), ",\"same\":1") " none");
}

/* JSON {"a": 50,000 umlauts and the last letter, ...rest}, between `open` and `close`. */
static char *long_text(struct buf *out, const char *open, char last, const char *rest)
{
    buf_init(out, 1024 * 1024);
    buf_printf(out, "%s{\"a\":\"", open);
    for (int i = 0; i < 50000; i++)
        buf_append_cstr(out, "\u00e4");
    buf_printf(out, "%c\"%s", last, rest);
    buf_append_char(out, 0);
    assert_true(buf_is_ok(out));
    return out->ptr;
}

/* Long texts are cut so that the difference is visible. If there are many properties, only their
 * number is given. */
static void test_large_changes_are_cut(void **state)
{
    (void)state;
    static const char steps[] = READ SHOW CHANGE(SET, "\"${before}\"", "\"${@}\"");
    char many[2048] = "";
    struct buf input, output;
    for (int i = 0; i < 40; i++)
        (void)snprintf(many + strlen(many), sizeof(many) - strlen(many), ",\"p%d\":%d", i, i);
    (void)snprintf(many + strlen(many), sizeof(many) - strlen(many), "}]}");
    begin(N, steps, long_text(&input, "{\"n\":[", 'X', many));
    run.outputs[0] = (struct flow_output){
        .is_there = true, .text = slice_cstr(long_text(&output, "", 'Y', ",\"p0\":0}"))};
    plan(1);
    const struct json *shown =
        json_parse(&run.op.arena, run.plan.input_json, &json_limits_provider, NULL);
    const struct json *changes = JSON_GET(&JSON_GET(shown, "items")->as.items[0], "changes");
    const struct json *properties = JSON_GET(changes, "properties");
    slice now = json_get_str(&properties->as.items[0], SLICE("now"));
    slice then = json_get_str(&properties->as.items[0], SLICE("then"));
    assert_int_equal(properties->count, FLOW_CHANGE_PROPERTIES_MAX);
    assert_int_equal(json_get_i64(changes, SLICE("more"), 0), 1 + 39 - FLOW_CHANGE_PROPERTIES_MAX);
    assert_int_equal(json_get_i64(changes, SLICE("same"), 0), 1);
    assert_true(now.len < 100 && slice_starts_with(now, SLICE("\u2026\u00e4")));
    assert_true(slice_ends_with(now, SLICE("\u00e4Y")) && slice_ends_with(then, SLICE("\u00e4X")));
    assert_true(slice_is_utf8(now, NULL));
    end();
    buf_deinit(&input);
    buf_deinit(&output);
}

/* An approval that is too large with its changes is shown without them. If the calls alone are
 * too large, it fails. */
static void test_what_is_sent_comes_first(void **state)
{
    (void)state;
    static const char steps[] = READ SHOW CHANGE(SET_1, "\"${before.x}\"", "\"${@}\"");
    struct buf input;
    for (int size = 1000; size <= 1200; size += 200) {
        buf_init(&input, 4 * 1024 * 1024);
        buf_append_cstr(&input, "{\"n\":[{\"p\":1}");
        for (int i = 0; i < 900; i++)
            buf_printf(&input, ",{\"p\":\"%0*d\"}", size, i);
        buf_append(&input, slice_of("]}", 3));
        begin(N, steps, input.ptr);
        run.outputs[0] =
            (struct flow_output){.is_there = true, .text = SLICE("{\"x\":{\"p\":\"now\"}}")};
        plan(1);
        assert_int_equal(run.plan.kind, size == 1000 ? FLOW_PLAN_PARK : FLOW_PLAN_FAULT);
        if (size == 1000)
            assert_true(slice_find(run.plan.input_json, SLICE("changes")) < 0);
        else
            assert_true(slice_find(run.plan.error.message, SLICE("too large")) >= 0);
        end();
        buf_deinit(&input);
    }
}

static void test_faults(void **state)
{
    (void)state;
    begin(N,
          "{\"key\":\"a\",\"type\":\"tool_call\",\"tool\":\"x_y\",\"for_each\":\"input.n\","
          "\"input\":{}}",
          "{\"n\":\"text\"}");
    plan(0);
    assert_int_equal(run.plan.kind, FLOW_PLAN_FAULT);
    assert_string_equal(run.plan.error.code.ptr, "validation_error");
    assert_false(run.plan.error.is_retryable);
    end();
    begin(N,
          "{\"key\":\"a\",\"type\":\"tool_call\",\"tool\":\"x_y\",\"input\":{\"t\":"
          "\"text ${input.n}\"}}",
          "{}");
    plan(0); /* null inside a longer text */
    assert_int_equal(run.plan.kind, FLOW_PLAN_FAULT);
    end();
}

static void test_connections(void **state)
{
    (void)state;
    struct json value = json_string(SLICE("17"));
    assert_int_equal(flow_connection_id(&value), 17);
    value = json_i64(18);
    assert_int_equal(flow_connection_id(&value), 18);
    assert_int_equal(flow_connection_id(&json_null), 0);
    value = json_string(SLICE("nobody"));
    assert_int_equal(flow_connection_id(&value), EXEC_CONNECTION_NONE);
    value = json_i64(-3);
    assert_int_equal(flow_connection_id(&value), EXEC_CONNECTION_NONE);
}

static void test_retries(void **state)
{
    (void)state;
    struct flow_error error = {.is_retryable = true, .retry_after_ms = -1};
    begin(N,
          "{\"key\":\"a\",\"type\":\"tool_call\",\"tool\":\"x_y\",\"input\":{},"
          "\"retry\":{\"attempts\":4,\"backoff\":1,\"backoff_max\":3}}",
          "{}");
    plan(0);
    for (int i = 0; i < 1000; i++) {
        assert_in_range(flow_call_retry_ms(&run, &error, 1), 1, 1000);
        assert_in_range(flow_call_retry_ms(&run, &error, 2), 1, 2000);
        assert_in_range(flow_call_retry_ms(&run, &error, 3), 1, 3000);
    }
    assert_int_equal(flow_call_retry_ms(&run, &error, 4), 0);
    error.retry_after_ms = 7000; /* the provider's message */
    assert_in_range(flow_call_retry_ms(&run, &error, 1), 7000, 7500);
    error.is_final = true;
    assert_int_equal(flow_call_retry_ms(&run, &error, 1), 0);
    error = (struct flow_error){.retry_after_ms = 7000};
    assert_int_equal(flow_call_retry_ms(&run, &error, 1), 0);
    end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_steps_whose_condition_is_false_are_passed_over),
        cmocka_unit_test(test_inputs_of_calls),
        cmocka_unit_test(test_waits),
        cmocka_unit_test(test_a_pause_ends_at_the_deadline),
        cmocka_unit_test(test_an_approval_shows_every_call),
        cmocka_unit_test(test_what_changes_is_said),
        cmocka_unit_test(test_an_unknown_value_is_not_a_change),
        cmocka_unit_test(test_changes_are_of_the_same_item),
        cmocka_unit_test(test_large_changes_are_cut),
        cmocka_unit_test(test_what_is_sent_comes_first),
        cmocka_unit_test(test_faults),
        cmocka_unit_test(test_connections),
        cmocka_unit_test(test_retries),
    };
    return unit_result(cmocka_run_group_tests(tests, NULL, NULL));
}
