/*
 * What the audit trail records about a decision on a flow: the whole text of any note, and nothing
 * else.
 */
#include <sys/mman.h>
#include <unistd.h>

#include "flow/flow.h"
#include "support/pg_call.h"
#include "support/pg_cluster.h"
#include "support/pg_items.h"
#include "unit.h"

static const char *conninfo;
static struct pg_bench bench;
static struct pg_call call;
static struct flow_command command;

static void start_audit(struct pg_call *c)
{
    flow_decision_audit(c->bench->pool, &c->query, &c->op, &command);
}

static void decide(enum flow_command_kind kind)
{
    command = (struct flow_command){.in = {.kind = kind,
                                           .account_id = uuid_v7(),
                                           .flow_id = uuid_v7(),
                                           .by = {.actor = SLICE("key:1"),
                                                  .request_id = SLICE("request-1"),
                                                  .address = SLICE("203.0.113.7")}},
                                    .is_changed = true};
}

static void audit(void)
{
    assert_int_equal(pg_call_run(&bench, &call, start_audit, NULL), OK);
    flow_decision_audited(&call.op, &call.query);
    pg_call_end(&call);
}

/* The events in the account of the decision that meet a condition. flow is the flow's id as
 * text. */
static int64_t events(const char *condition)
{
    static char sql[32 * 1024];
    char account[UUID_TEXT_LEN + 1], id[UUID_TEXT_LEN + 1];
    uuid_format(command.in.account_id, account);
    uuid_format(command.in.flow_id, id);
    int len = snprintf(sql, sizeof(sql),
                       "select count(*) from sluice.audit_event, (select '%s'::text as flow) f "
                       "where account_id = '%s' and (%s)",
                       id, account, condition);
    assert_true(len > 0 && (size_t)len < sizeof(sql));
    return items_ask(conninfo, sql);
}

static void an_approval_says_all_that_was_said(void **state)
{
    (void)state;
    decide(FLOW_COMMAND_APPROVE);
    command.in.step_key = SLICE("review");
    command.in.note = SLICE("looks good");
    command.in.by.means = SLICE("dashboard");
    audit();
    assert_int_equal(events("true"), 1);
    assert_int_equal(events("kind = 'flow.approved' and actor = 'key:1' and reason is null and "
                            "request_id = 'request-1' and address = '203.0.113.7'"),
                     1);
    assert_int_equal(events("details::jsonb = jsonb_build_object('flow_id', flow, 'step_key', "
                            "'review', 'note', 'looks good', 'by', 'dashboard')"),
                     1);
}

static void a_rejection_says_nothing_that_was_not_said(void **state)
{
    (void)state;
    decide(FLOW_COMMAND_REJECT);
    command.in.by.address = command.in.by.request_id = SLICE_NONE;
    audit();
    assert_int_equal(events("kind = 'flow.rejected' and address is null and request_id is null "
                            "and details::jsonb = jsonb_build_object('flow_id', flow)"),
                     1);
    decide(FLOW_COMMAND_REJECT);
    command.in.note = SLICE(""); /* an empty note */
    audit();
    assert_int_equal(events("details ->> 'note' = ''"), 1);
}

/* Two decisions on one flow (it was resumed in between, or another person rejected it) give two
 * events. */
static void each_decision_is_an_event(void **state)
{
    (void)state;
    decide(FLOW_COMMAND_APPROVE);
    audit();
    audit();
    command.in.kind = FLOW_COMMAND_REJECT;
    audit();
    assert_int_equal(events("kind = 'flow.approved' and details ->> 'flow_id' = flow"), 2);
    assert_int_equal(events("kind = 'flow.rejected' and details ->> 'flow_id' = flow"), 1);
}

/* The title is the approval's, cut if it is long; a title that is not a text is left out. */
static void a_decision_has_the_title_of_its_approval(void **state)
{
    (void)state;
    static char input[2048];
    for (int kind = FLOW_COMMAND_APPROVE; kind <= FLOW_COMMAND_REJECT; kind++) {
        decide(kind);
        command.decided.input = SLICE("{\"title\":\"Create \\\"14\\\" pages\",\"items\":[]}");
        audit();
        assert_int_equal(events("details ->> 'title' = 'Create \"14\" pages'"), 1);
    }
    int len = snprintf(input, sizeof(input), "{\"title\":\"%0500d\"}", 7);
    decide(FLOW_COMMAND_APPROVE);
    command.decided.input = slice_of(input, (size_t)len);
    audit();
    assert_int_equal(events("char_length(details ->> 'title') = 400"), 1);
    static const char *const others[] = {"{\"title\":7}", "{\"title\":\"\"}", "[]", "{"};
    for (size_t i = 0; i < ARRAY_LEN(others); i++) {
        decide(FLOW_COMMAND_APPROVE);
        command.decided.input = slice_cstr(others[i]);
        audit();
        assert_int_equal(events("details -> 'title' is null"), 1);
    }
}

/* ---- resume, cancel ---- */

static void a_resume_and_a_cancel_are_events(void **state)
{
    (void)state;
    decide(FLOW_COMMAND_RESUME);
    audit();
    assert_int_equal(events("kind = 'flow.resumed' and actor = 'key:1' and reason is null and "
                            "details::jsonb = jsonb_build_object('flow_id', flow)"),
                     1);
    decide(FLOW_COMMAND_CANCEL);
    audit();
    assert_int_equal(events("kind = 'flow.cancelled' and reason is null"), 1);
    command.was_cancelled = true;
    audit();
    assert_int_equal(events("kind = 'flow.cancelled' and reason = 'already_cancelled'"), 1);
}

/* ---- hostile notes ---- */

static void a_note_stays_a_note(void **state)
{
    (void)state;
    decide(FLOW_COMMAND_APPROVE);
    command.in.note = SLICE("\",\"by\":\"root\",\"x\":\"\\'); drop table sluice.flow; --");
    audit();
    assert_int_equal(events("details ->> 'note' like '%drop table%' and details -> 'by' is null "
                            "and details -> 'x' is null"),
                     1);
    decide(FLOW_COMMAND_APPROVE);
    command.in.note = SLICE("a\0b"); /* json preserves characters that text cannot */
    audit();
    assert_int_equal(events("position('\"note\":\"a\\u0000b\"' in details::text) > 0"), 1);
    decide(FLOW_COMMAND_APPROVE);
    command.in.note = SLICE("a\xC3(\xED\xA0\x80 b"); /* not UTF-8 */
    audit();
    assert_int_equal(events("details ->> 'note' like 'a%b'"), 1);
}

/* text, `count` times. */
static slice times(slice text, size_t count)
{
    static struct buf out;
    buf_deinit(&out);
    buf_init(&out, 1 << 20);
    for (size_t i = 0; i < count; i++)
        buf_append(&out, text);
    assert_true(buf_is_ok(&out));
    return buf_slice(&out);
}

static void the_longest_notes_are_kept_whole(void **state)
{
    static const slice chars[] = {SLICE_INIT("x"),
                                  SLICE_INIT("\x01"),
                                  SLICE_INIT("\xE2\x82\xAC"),
                                  SLICE_INIT("\xF0\x9F\x98\x80"),
                                  SLICE_INIT("\r\n"),
                                  SLICE_INIT("\\"),
                                  SLICE_INIT("\xFF")};
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(chars); i++) {
        char condition[128];
        bool is_two = slice_eq_cstr(chars[i], "\r\n");
        decide(FLOW_COMMAND_APPROVE);
        assert_false(flow_note_fits(times(chars[i], FLOW_NOTE_CHARS_MAX + 1)));
        command.in.note = times(chars[i], FLOW_NOTE_CHARS_MAX);
        assert_true(flow_note_fits(command.in.note));
        command.in.step_key =
            SLICE("a_step_with_a_name_that_is_as_long_as_they_may_be_0123456789abcd");
        command.in.by.means = SLICE("dashboard");
        audit();
        (void)snprintf(condition, sizeof(condition), "char_length(details ->> 'note') = %d",
                       FLOW_NOTE_CHARS_MAX * (is_two ? 2 : 1));
        assert_int_equal(events(condition), 1);
    }
    (void)times(SLICE(""), 0);
}

static void what_counts_as_a_character(void **state)
{
    (void)state;
    assert_true(flow_note_fits(SLICE_NONE));
    assert_true(flow_note_fits(SLICE("")));
    assert_true(flow_note_fits(times(SLICE("\r\n"), FLOW_NOTE_CHARS_MAX)));
    assert_false(flow_note_fits(times(SLICE("\r\r"), FLOW_NOTE_CHARS_MAX)));
    assert_false(flow_note_fits(times(SLICE("\n\r"), FLOW_NOTE_CHARS_MAX)));
    assert_false(flow_note_fits(times(SLICE("\x80"), FLOW_NOTE_CHARS_MAX + 1)));
    assert_false(flow_note_fits(times(SLICE("\xF0\x9F\x98"), FLOW_NOTE_CHARS_MAX))); /* cut within a
                                                                                      * character */
    assert_false(flow_note_fits(times(SLICE("x"), 1 << 19)));
}

/* A note longer than the trail accepts for one event: the decision is recorded nevertheless. */
static void details_that_are_too_large_do_not_hide_the_decision(void **state)
{
    (void)state;
    decide(FLOW_COMMAND_APPROVE);
    command.in.step_key = times(SLICE("k"), 16 * 1024);
    audit();
    assert_int_equal(events("kind = 'flow.approved' and details is null"), 1);
    (void)times(SLICE(""), 0);
}

/* ---- when the event cannot be written ---- */

static void what_is_not_in_the_trail_is_in_the_log(void **state)
{
    struct pg_bench away;
    struct pg_pool_config config = {.conninfo = "host=/nonexistent dbname=x",
                                    .queue_timeout_ms = 50};
    char text[4096];
    (void)state;
    int file = memfd_create("log", 0);
    assert_true(file >= 0);
    log_set_fd(file);
    log_init(LOG_ERROR, LOG_JSON);
    pg_bench_open(&away, &config, false);
    decide(FLOW_COMMAND_APPROVE);
    assert_int_equal(pg_call_run(&away, &call, start_audit, NULL), ERR_BUSY);
    flow_decision_audited(&call.op, &call.query);
    pg_call_end(&call);
    pg_bench_close(&away);
    log_flush();
    log_set_fd(STDERR_FILENO);
    ssize_t len = pread(file, text, sizeof(text) - 1, 0);
    assert_true(len > 0);
    close(file);
    text[len] = '\0';
    assert_non_null(strstr(text, "a decision about a flow is not in the audit trail"));
    assert_int_equal(events("true"), 0);
}

static int set_up(void **state)
{
    struct pg_pool_config config = {.conninfo = NULL};
    (void)state;
    config.conninfo = conninfo = pg_cluster_database(true);
    pg_bench_open(&bench, &config, true);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    pg_bench_close(&bench);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_approval_says_all_that_was_said),
        cmocka_unit_test(a_rejection_says_nothing_that_was_not_said),
        cmocka_unit_test(each_decision_is_an_event),
        cmocka_unit_test(a_decision_has_the_title_of_its_approval),
        cmocka_unit_test(a_note_stays_a_note),
        cmocka_unit_test(the_longest_notes_are_kept_whole),
        cmocka_unit_test(what_counts_as_a_character),
        cmocka_unit_test(a_resume_and_a_cancel_are_events),
        cmocka_unit_test(details_that_are_too_large_do_not_hide_the_decision),
        cmocka_unit_test(what_is_not_in_the_trail_is_in_the_log),
    };
    return unit_result(cmocka_run_group_tests(tests, set_up, tear_down));
}
