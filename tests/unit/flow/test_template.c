/*
 * Loading of templates: a valid template is loaded, every fault is found and reported with its
 * position, and the built-in templates fit the built-in catalog.
 */
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "flow/template.h"
#include "support/catalog_test.h"

/* Every kind of step. Names are short so that a test can replace a part. */
static const char good[] =
    "{\"key\":\"demo\",\"name\":\"Demo\",\"description\":\"A demo.\",\"deadline\":3600,"
    "\"input\":{\"type\":\"object\",\"required\":[\"to\"],\"additionalProperties\":false,"
    "\"properties\":{\"to\":{\"type\":\"string\",\"description\":\"Whom\"},"
    "\"box\":{\"type\":\"integer\",\"description\":\"Which mailbox\"}}},"
    "\"steps\":["
    "{\"key\":\"list\",\"type\":\"tool_call\",\"tool\":\"gmail_list_messages\","
    "\"connection\":\"${input.box}\",\"input\":{\"query\":\"to:${input.to}\",\"maxResults\":5},"
    "\"retry\":{\"attempts\":5,\"backoff\":0.5,\"backoff_max\":9},\"timeout\":2.5},"
    "{\"key\":\"ids\",\"type\":\"transform\",\"expr\":\"steps.list.messages[].id\"},"
    "{\"key\":\"ask\",\"type\":\"approval\",\"when\":\"steps.ids\",\"title\":\"Mark "
    "${length(steps.ids)}\",\"summary\":\"To ${input.to}\",\"expires_in\":60},"
    "{\"key\":\"mark\",\"type\":\"tool_call\",\"tool\":\"gmail_mark_as_read\",\"when\":\"steps."
    "ids\","
    "\"confirmed_by\":\"approval:ask\",\"for_each\":\"steps.ids\",\"concurrency\":2,"
    "\"input\":{\"id\":\"${item}\"}},"
    "{\"key\":\"rest\",\"type\":\"wait\",\"for\":60},"
    "{\"key\":\"again\",\"type\":\"tool_call\",\"tool\":\"gmail_send_message\","
    "\"confirmed_by\":\"approval:ask\",\"when\":\"steps.ids\",\"input\":{\"to\":\"${input.to}\","
    "\"subject\":\"x\",\"text\":\"${flow.createdAt}\"}}]}";

/* The valid template with the first `old` replaced by `new`. */
static struct flow_template *load(struct bench *b, const char *old, const char *new)
{
    bench_forget(b);
    const char *at = old ? strstr(good, old) : NULL;
    assert_true(!old || at);
    if (at)
        (void)snprintf(b->text, sizeof(b->text), "%.*s%s%s", (int)(at - good), good, new,
                       at + strlen(old));
    else
        (void)snprintf(b->text, sizeof(b->text), "%s", good);
    return flow_template_compile(SLICE("demo.json"), slice_cstr(b->text), b->catalog, &b->report);
}

static void print_report(const struct bench *b)
{
    for (size_t i = 0; i < b->report.count; i++)
        print_error("  got %.*s %.*s: %.*s\n", SLICE_ARG(b->report.problems[i].source),
                    SLICE_ARG(b->report.problems[i].pointer),
                    SLICE_ARG(b->report.problems[i].text));
}

static void check_fault(struct bench *b, const char *old, const char *new, const char *pointer,
                        const char *phrase, int line)
{
    struct flow_template *tmpl = load(b, old, new);
    for (size_t i = 0; i < b->report.count && !tmpl; i++)
        if (slice_eq_cstr(b->report.problems[i].source, "demo.json") &&
            slice_eq_cstr(b->report.problems[i].pointer, pointer) &&
            slice_find(b->report.problems[i].text, slice_cstr(phrase)) >= 0)
            return;
    print_error("line %d: %s\n", line, tmpl ? "was taken" : "the fault was not named");
    print_report(b);
    flow_template_unref(tmpl);
    fail();
}

#define assert_fault(old, new, pointer, phrase) \
    check_fault(*state, (old), (new), (pointer), (phrase), __LINE__)

static void a_good_one_is_read_whole(void **state)
{
    struct bench *b = *state;
    struct flow_template *tmpl = load(b, NULL, NULL);
    if (!tmpl)
        print_report(b);
    assert_non_null(tmpl);
    assert_int_equal(b->report.warning_count, 0);
    assert_true(slice_eq_cstr(tmpl->item_json,
                              "{\"key\":\"demo\",\"name\":\"Demo\",\"description\":\"A demo.\"}"));
    assert_int_equal(tmpl->deadline_s, 3600);
    assert_int_equal(tmpl->step_count, 6);
    const struct flow_step_def *list = &tmpl->steps[0], *mark = &tmpl->steps[3];
    assert_int_equal(list->type, FLOW_TOOL_CALL);
    assert_int_equal(list->confirm, FLOW_CONFIRM_NONE);
    assert_int_equal(list->retry.attempts_max, 5);
    assert_int_equal(list->retry.backoff_ms, 500);
    assert_int_equal(list->retry.backoff_ms_max, 9000);
    assert_int_equal(list->timeout_ms, 2500);
    assert_non_null(list->connection);
    assert_int_equal(mark->confirm, FLOW_CONFIRM_APPROVAL);
    assert_int_equal(mark->confirm_step, 2);
    assert_int_equal(mark->concurrency, 2);
    assert_int_equal(mark->retry.attempts_max, 0);
    assert_false(mark->is_when_late);
    assert_non_null(tmpl->steps[2].expires_in);
    assert_non_null(tmpl->steps[4].wait_for);
    flow_template_unref(flow_template_ref(tmpl));
    flow_template_unref(tmpl);
}

static void its_version_is_its_content(void **state)
{
    struct bench *b = *state;
    struct flow_template *one = load(b, NULL, NULL);
    struct flow_template *spaced =
        load(b, "{\"key\":\"demo\",\"name\":\"Demo\"", "{ \"name\" : \"Demo\", \"key\":\"demo\"");
    struct flow_template *other = load(b, "A demo.", "Another demo.");
    assert_non_null(one);
    assert_true(uuid_eq(one->version, spaced->version));
    assert_true(slice_eq(one->body, spaced->body));
    assert_false(uuid_eq(one->version, other->version));
    /* The stored form gives the same template again, without a catalog. */
    struct flow_template *stored =
        flow_template_compile(SLICE("stored"), one->body, NULL, &b->report);
    assert_non_null(stored);
    assert_true(uuid_eq(one->version, stored->version));
    flow_template_unref(stored);
    flow_template_unref(one);
    flow_template_unref(spaced);
    flow_template_unref(other);
}

/* The previous version does not know the template key, and compiles the stored form. */
static void titles_are_no_part_of_its_version(void **state)
{
    struct bench *b = *state;
    struct flow_template *bare = load(b, NULL, NULL);
    struct flow_template *titled =
        load(b, "\"deadline\"", "\"flow_title\":\"For ${input.to}\",\"deadline\"");
    struct flow_template *stepped =
        load(b, "\"key\":\"list\"", "\"key\":\"list\",\"title\":\"List them\"");
    struct flow_template *asked = load(b, "Mark ${length", "Marks ${length");
    assert_non_null(titled->flow_title);
    assert_true(slice_eq_cstr(stepped->steps[0].label, "List them"));
    assert_null(bare->steps[0].label.ptr);
    assert_null(bare->steps[2].label.ptr); /* the text of an approval is its question */
    const struct flow_template *same[] = {titled, stepped};
    for (size_t i = 0; i < 2; i++) {
        assert_true(uuid_eq(same[i]->version, bare->version));
        assert_true(slice_eq(same[i]->body, bare->body));
        assert_false(uuid_eq(same[i]->whole, bare->whole));
    }
    assert_false(uuid_eq(titled->whole, stepped->whole));
    assert_false(uuid_eq(asked->version, bare->version));
    /* A stored version uses the same names for its steps as the current template. */
    struct flow_template *stored =
        flow_template_compile(SLICE("stored"), stepped->body, NULL, &b->report);
    assert_null(stored->steps[0].label.ptr);
    flow_template_copy_titles(stored, stepped);
    assert_true(slice_eq_cstr(stored->steps[0].label, "List them"));
    for (size_t i = 1; i < stored->step_count; i++)
        assert_null(stored->steps[i].label.ptr);
    flow_template_copy_titles(stored, NULL); /* the template was removed */
    flow_template_unref(stored);
    flow_template_unref(asked);
    flow_template_unref(stepped);
    flow_template_unref(titled);
    flow_template_unref(bare);
}

static void titles_are_checked(void **state)
{
#define FLOW_TITLE(text) "\"deadline\"", "\"flow_title\":" text ",\"deadline\""
#define STEP_TITLE(text) "\"key\":\"rest\"", "\"key\":\"rest\",\"title\":" text
    static const struct {
        const char *old, *new, *pointer, *phrase;
    } faults[] = {
        {FLOW_TITLE("7"), "/flow_title", "must be text"},
        {FLOW_TITLE("{\"a\":\"b\"}"), "/flow_title", "must be text"},
        {FLOW_TITLE("\"${input.\""), "/flow_title", ""},
        {FLOW_TITLE("\"For ${input.too}\""), "/flow_title", "no property \"too\""},
        {FLOW_TITLE("\"For ${steps.list}\""), "/flow_title", "has not run yet"},
        {FLOW_TITLE("\"For ${item}\""), "/flow_title", "for_each"},
        {STEP_TITLE("7"), "/steps/4/title", ""},
        {STEP_TITLE("\" \""), "/steps/4/title", "one line"},
        {STEP_TITLE("\"a\\nb\""), "/steps/4/title", "one line"},
        {STEP_TITLE("\"Wait for ${input.to}\""), "/steps/4/title", "without ${...}"},
    };
    for (size_t i = 0; i < sizeof(faults) / sizeof(*faults); i++)
        check_fault(*state, faults[i].old, faults[i].new, faults[i].pointer, faults[i].phrase,
                    (int)i);
}

static void its_grammar_is_checked(void **state)
{
    assert_fault("{\"key\":\"demo\"", "[{\"key\":\"demo\"", "", "byte");
    assert_fault("\"key\":\"demo\",", "", "", "\"key\" is missing");
    assert_fault("\"key\":\"demo\"", "\"key\":\"De mo\"", "/key", "must match");
    assert_fault("\"key\":\"demo\"", "\"key\":\"" FLOW_HELD_KEY "\"", "/key",
                 "that a policy holds");
    assert_fault("\"deadline\"", "\"deadlin\"", "", "did you mean \"deadline\"");
    assert_fault("\"type\":\"object\",\"required\"", "\"type\":\"objekt\",\"required\"", "/input",
                 "type");
    assert_fault("\"additionalProperties\":false,", "", "/input", "additionalProperties");
    assert_fault("\"type\":\"wait\",", "\"type\":\"sleep\",", "/steps/4/type", "must be one of");
    assert_fault("\"type\":\"wait\",", "", "/steps/4", "\"type\" is missing");
    assert_fault("\"key\":\"rest\"", "\"key\":\"ids\"", "/steps/4/key", "another step");
    assert_fault("\"key\":\"rest\"", "\"key\":\"9\"", "/steps/4/key", "must match");
    assert_fault("\"for\":60", "\"for\":60,\"tool\":\"x\"", "/steps/4", "unknown member \"tool\"");
    assert_fault("\"key\":\"rest\"", "\"key\":\"rest\",\"key\":\"rest\"", "", "key");
}

static void its_members_are_checked(void **state)
{
    assert_fault("\"for\":60", "\"for\":-1", "/steps/4/for", "seconds");
    assert_fault("\"for\":60", "\"for\":\"soon\"", "/steps/4/for", "seconds");
    assert_fault("\"for\":60", "\"until\":\"tomorrow\"", "/steps/4/until", "RFC 3339");
    assert_fault("\"for\":60", "\"for\":60,\"until\":\"2026-01-01T00:00:00Z\"", "/steps/4",
                 "one of");
    assert_fault(",\"for\":60", "", "/steps/4", "one of");
    assert_fault("\"title\":\"Mark ${length(steps.ids)}\",", "", "/steps/2",
                 "\"title\" is missing");
    assert_fault("\"expr\":\"steps.list.messages[].id\"", "\"expr\":\"steps.list.[\"",
                 "/steps/1/expr", "");
    assert_fault(",\"expr\":\"steps.list.messages[].id\"", "", "/steps/1", "\"expr\" is missing");
    assert_fault("\"concurrency\":2", "\"concurrency\":0", "/steps/3/concurrency", "from 1 to 20");
    assert_fault("\"timeout\":2.5", "\"concurrency\":2", "/steps/0/concurrency", "for_each");
    assert_fault("\"attempts\":5", "\"attempts\":21", "/steps/0/retry/attempts", "from");
    assert_fault("\"input\":{\"id\":\"${item}\"}", "\"input\":7", "/steps/3/input", "object");
}

static void placeholders_exist(void **state)
{
    assert_fault("to:${input.to}", "to:${input.too}", "/steps/0/input/query",
                 "no property \"too\"");
    assert_fault("to:${input.to}", "to:${steps.ids}", "/steps/0/input/query", "has not run yet");
    assert_fault("to:${input.to}", "to:${steps.list}", "/steps/0/input/query", "has not run yet");
    assert_fault("to:${input.to}", "to:${steps.nope}", "/steps/0/input/query", "no step \"nope\"");
    assert_fault("to:${input.to}", "to:${imput.to}", "/steps/0/input/query", "\"imput\"");
    assert_fault("to:${input.to}", "to:${item}", "/steps/0/input/query", "for_each");
    assert_fault("to:${input.to}", "to:${keys($)}", "/steps/0/input/query", "whole context");
    assert_fault("to:${input.to}", "to:${flow.now}", "/steps/0/input/query", "currentTime");
    assert_fault("\"connection\":\"${input.box}\"", "\"connection\":\"${input.bax}\"",
                 "/steps/0/connection", "\"bax\"");
    assert_fault("steps.list.messages[].id", "keys(steps)", "/steps/1/expr", "steps.KEY");
    assert_fault("steps.list.messages[].id", "item", "/steps/1/expr", "for_each");
    assert_fault("\"for_each\":\"steps.ids\"", "\"for_each\":\"item\"", "/steps/3/for_each",
                 "for_each");
    assert_fault("Mark ${length(steps.ids)}", "Mark ${steps.mark}", "/steps/2/title",
                 "has not run yet");
}

static void tools_and_their_constants_are_checked(void **state)
{
    assert_fault("gmail_list_messages", "gmail_list_mesages", "/steps/0/tool", "no tool");
    assert_fault("\"maxResults\":5", "\"maxResults\":5000", "/steps/0/input", "/maxResults must");
    assert_fault("\"maxResults\":5", "\"maxResult\":5", "/steps/0/input", "no input \"maxResult\"");
    assert_fault("\"input\":{\"id\":\"${item}\"}", "\"input\":{}", "/steps/3/input",
                 "needs the input \"id\"");
    assert_fault("\"query\":\"to:${input.to}\",\"maxResults\":5", "\"maxResults\":\"5\"",
                 "/steps/0/input", "/maxResults");
}

static void writes_are_confirmed(void **state)
{
    assert_fault("\"confirmed_by\":\"approval:ask\",\"for_each\"", "\"for_each\"", "/steps/3",
                 "confirmed_by");
    assert_fault("approval:ask", "approval:list", "/steps/3/confirmed_by", "not an approval step");
    assert_fault("approval:ask", "approval:again", "/steps/3/confirmed_by", "no earlier step");
    assert_fault("approval:ask", "ask", "/steps/3/confirmed_by", "approval:STEP");
    assert_fault("\"confirmed_by\":\"approval:ask\",\"for_each\"",
                 "\"confirmed_by\":\"start\",\"for_each\"", "/input", "\"confirm\"");
    assert_fault("${flow.createdAt}", "${flow.currentTime}", "/steps/5/input/text", "createdAt");
    assert_fault("${flow.createdAt}", "${steps.mark}", "/steps/5/input/text", "not known yet");
    assert_fault("${flow.createdAt}", "${steps.ask.note}", "/steps/5/input/text", "not known yet");
    assert_fault("\"when\":\"steps.ids\",\"confirmed_by\"", "\"confirmed_by\"", "/steps/3",
                 "same \"when\"");
    assert_fault("\"when\":\"steps.ids\",\"confirmed_by\"",
                 "\"when\":\"steps.list\",\"confirmed_by\"", "/steps/3/when", "same \"when\"");
}

/* The step "mark" reports the previous state. */
#define BEFORE(of) "\"concurrency\":2,\"before\":" of

static void what_changes_was_read(void **state)
{
    const char *at = "/steps/3/before", *now = "/steps/3/before/now", *old = "\"concurrency\":2";
#define GOOD "\"now\":{\"a\":\"${before.x[0]}\"},\"then\":{\"a\":\"${id}\"}"
    struct bench *b = *state;
    struct flow_template *tmpl = load(b, old, BEFORE("{\"step\":\"list\"," GOOD "}"));
    assert_non_null(tmpl);
    assert_int_equal(tmpl->steps[3].before.step, 0);
    assert_false(tmpl->steps[3].before.is_by_item);
    assert_true(tmpl->steps[3].reads & 1);
    assert_null(tmpl->steps[5].before.now);
    flow_template_unref(tmpl);
    assert_fault(old, BEFORE("{" GOOD "}"), at, "\"step\" is missing");
    assert_fault(old, BEFORE("{\"step\":\"nope\"," GOOD "}"), "/steps/3/before/step",
                 "no earlier step");
    assert_fault(old, BEFORE("{\"step\":\"again\"," GOOD "}"), "/steps/3/before/step",
                 "no earlier step");
    assert_fault(old, BEFORE("{\"step\":\"ids\"," GOOD "}"), "/steps/3/before/step",
                 "calls a tool");
    assert_fault(old, BEFORE("{\"step\":\"list\",\"then\":\"${@}\"}"), at, "\"now\" is missing");
    assert_fault(old, BEFORE("{\"step\":\"list\",\"now\":\"${before}\"}"), at,
                 "\"then\" is missing");
    assert_fault(old, BEFORE("{\"step\":\"list\",\"now\":{\"a\":1},\"then\":\"${@}\"}"), now,
                 "${...}");
    assert_fault(old, BEFORE("{\"step\":\"list\",\"now\":[\"${before}\"],\"then\":\"${@}\"}"), now,
                 "object");
    assert_fault(old, BEFORE("{\"step\":\"list\",\"now\":\"${steps.list}\",\"then\":\"${@}\"}"),
                 now, "may name only before");
    assert_fault(old, BEFORE("{\"step\":\"list\",\"now\":{\"a\":\"${item.a}\"},\"then\":\"${@}\"}"),
                 "/steps/3/before/now/a", "refer to \"before\"");
    assert_fault(old,
                 BEFORE("{\"step\":\"list\",\"now\":\"${before}\",\"then\":{\"a\":\"${adress}\"}}"),
                 "/steps/3/before/then/a", "nothing else is sent");
    assert_fault(
        old, BEFORE("{\"step\":\"list\",\"now\":{\"a\":\"${before}\"},\"then\":{\"b\":\"${id}\"}}"),
        now, "\"b\" is now");
    assert_fault(old, BEFORE("{\"step\":\"list\"," GOOD ",\"of\":1}"), at, "unknown member");
    /* A step between the approval and the call, and a write. */
    assert_fault(
        "\"subject\":\"x\",\"text\":\"${flow.createdAt}\"}",
        "\"subject\":\"x\",\"text\":\"x\"},\"before\":{\"step\":\"mark\",\"now\":\"${before}\","
        "\"then\":\"${@}\"}",
        "/steps/5/before/step", "has not run yet");
    assert_fault("gmail_list_messages\",\"connection\":\"${input.box}\",\"input\":{\"query\":\"to:$"
                 "{input.to}\",\"maxResults\":5},",
                 "gmail_trash_message\",\"input\":{\"id\":\"x\"},", "/steps/0", "confirmed_by");
    assert_fault("\"maxResults\":5}", "\"maxResults\":5},\"before\":{\"step\":\"list\"," GOOD "}",
                 "/steps/0/before/step", "no earlier step");
#undef GOOD
}

/* A write does not report the previous state. */
static void what_changes_was_not_written(void **state)
{
    struct bench *b = *state;
    static const char list[] = "gmail_list_messages";
    char text[16384];
    flow_template_unref(
        load(b, "\"concurrency\":2",
             BEFORE("{\"step\":\"list\",\"now\":\"${before}\",\"then\":\"${@}\"}")));
    const char *at = strstr(b->text, list);
    (void)snprintf(text, sizeof(text), "%.*sgmail_create_label%s", (int)(at - b->text), b->text,
                   at + strlen(list));
    bench_forget(b);
    assert_null(flow_template_compile(SLICE("demo"), slice_cstr(text), b->catalog, &b->report));
    bool is_said = false;
    for (size_t i = 0; i < b->report.count; i++)
        is_said |= slice_eq_cstr(b->report.problems[i].pointer, "/steps/3/before/step") &&
                   slice_find(b->report.problems[i].text, SLICE("is not a read")) >= 0;
    assert_true(is_said);
}

static void a_start_may_confirm(void **state)
{
    struct bench *b = *state;
    struct flow_template *tmpl;
    const char *old = "\"confirmed_by\":\"approval:ask\",\"when\":\"steps.ids\"";
    char text[16384];
    tmpl = load(b, old, "\"confirmed_by\":\"start\"");
    assert_null(tmpl);
    const char *at = strstr(b->text, "\"required\":[\"to\"]");
    (void)snprintf(text, sizeof(text), "%.*s\"required\":[\"to\",\"confirm\"]%s",
                   (int)(at - b->text), b->text, at + strlen("\"required\":[\"to\"]"));
    char whole[16384];
    at = strstr(text, "\"box\":");
    (void)snprintf(whole, sizeof(whole),
                   "%.*s\"confirm\":{\"const\":true,\"description\":\"Yes\"},%s", (int)(at - text),
                   text, at);
    bench_forget(b);
    tmpl = flow_template_compile(SLICE("x"), slice_cstr(whole), b->catalog, &b->report);
    if (!tmpl)
        print_report(b);
    assert_non_null(tmpl);
    assert_int_equal(tmpl->steps[5].confirm, FLOW_CONFIRM_START);
    flow_template_unref(tmpl);
}

static void a_condition_may_be_late_where_the_approval_has_none(void **state)
{
    struct bench *b = *state;
    struct flow_template_set *set = flow_template_set_load(NULL, b->catalog, &b->report);
    assert_non_null(set);
    const struct flow_template *tmpl = flow_template_set_find(set, SLICE("mail_with_reminder"));
    assert_non_null(tmpl);
    const struct flow_step_def *remind = &tmpl->steps[tmpl->step_count - 1];
    assert_true(remind->is_when_late);
    assert_int_equal(remind->confirm_step, 0);
    flow_template_set_free(set);
}

static void those_compiled_in_are_good(void **state)
{
    static const char *const keys[] = {"mail_with_reminder",   "nudge_stale_issues",
                                       "reschedule_tasks",     "unread_mail_summary",
                                       "unread_mail_to_slack", "unread_mail_to_tasks"};
    struct bench *b = *state;
    struct flow_template_set *set = flow_template_set_load(NULL, b->catalog, &b->report);
    if (!set || b->report.count)
        print_report(b);
    assert_non_null(set);
    assert_int_equal(b->report.warning_count, 0);
    assert_int_equal(set->count, ARRAY_LEN(keys));
    struct arena arena;
    arena_init(&arena, 1024 * 1024);
    const struct json *list = json_parse(&arena, set->list_json, &json_limits_request, NULL);
    for (size_t i = 0; i < set->count; i++) {
        assert_true(slice_eq_cstr(set->items[i]->key, keys[i]));
        assert_ptr_equal(flow_template_set_find(set, slice_cstr(keys[i])), set->items[i]);
        assert_true(slice_eq_cstr(json_get_str(json_at(list, i), SLICE("key")), keys[i]));
    }
    assert_null(flow_template_set_find(set, SLICE("nope")));
    arena_deinit(&arena);
    flow_template_set_free(set);
}

static void write_file(const char *dir, const char *name, const char *text)
{
    char path[256];
    (void)snprintf(path, sizeof(path), "%s/%s", dir, name);
    FILE *file = fopen(path, "we");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

static void a_folder_adds_and_replaces(void **state)
{
    struct bench *b = *state;
    char dir[] = "build/templates-XXXXXX", sub[64], path[128];
    assert_non_null(mkdtemp(dir));
    struct flow_template_set *set = flow_template_set_load(dir, b->catalog, &b->report);
    assert_non_null(set); /* the folder does not contain a folder of templates */
    size_t built_in = set->count;
    flow_template_set_free(set);
    (void)snprintf(sub, sizeof(sub), "%s/templates", dir);
    assert_int_equal(mkdir(sub, 0700), 0);
    write_file(sub, "demo.json", good);
    write_file(sub, "own.json",
               "{\"key\":\"unread_mail_summary\",\"name\":\"Own\",\"description\":\"Mine.\","
               "\"steps\":[{\"key\":\"a\",\"type\":\"transform\",\"expr\":\"'x'\"}]}");
    set = flow_template_set_load(dir, b->catalog, &b->report);
    assert_non_null(set);
    assert_int_equal(set->count, built_in + 1);
    assert_true(
        slice_eq_cstr(flow_template_set_find(set, SLICE("unread_mail_summary"))->name, "Own"));
    flow_template_set_free(set);
    write_file(sub, "own.json", "{");
    assert_null(flow_template_set_load(dir, b->catalog, &b->report));
    assert_true(slice_ends_with(b->report.problems[0].source, SLICE("templates/own.json")));
    (void)snprintf(path, sizeof(path), "%s/own.json", sub);
    assert_int_equal(unlink(path), 0);
    (void)snprintf(path, sizeof(path), "%s/demo.json", sub);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(rmdir(sub), 0);
    assert_int_equal(rmdir(dir), 0);
}

static void a_failing_allocation_is_an_error_not_a_crash(void **state)
{
    struct bench *b = *state;
    /* the part of the catalog that is compiled on first use stays */
    flow_template_unref(
        flow_template_compile(SLICE("demo.json"), slice_cstr(good), b->catalog, &b->report));
    for (uint64_t n = 1;; n++) {
        catalog_report_deinit(&b->report);
        catalog_report_init(&b->report);
        size_t blocks = mem_live_blocks();
        mem_fail_at(n, 1);
        struct flow_template *tmpl =
            flow_template_compile(SLICE("demo.json"), slice_cstr(good), b->catalog, &b->report);
        uint64_t hits = mem_fail_hits();
        mem_fail_at(0, 0);
        flow_template_unref(tmpl);
        catalog_report_deinit(&b->report);
        assert_int_equal(mem_live_blocks(), blocks);
        if (!hits)
            break;
    }
    catalog_report_init(&b->report);
}

/* The strictest of its calls decides about a template; one hidden call hides it. */
static void a_policy_decides_about_a_template(void **state)
{
    static const struct {
        const char *policy;
        enum policy_decision decision;
        bool is_hidden;
    } cases[] = {
        {"{'default':'allow','rules':[]}", POLICY_ALLOW, false},
        {"{'default':'deny','rules':[{'tools':['gmail_*'],'decision':'allow'}]}", POLICY_ALLOW,
         false},
        {"{'default':'allow','rules':[{'tools':['gmail_mark_*'],'decision':'confirm'}]}",
         POLICY_CONFIRM, false},
        {"{'default':'allow','rules':[{'tools':['gmail_send_message'],'when':'input.to',"
         "'decision':'deny'}]}",
         POLICY_DEPENDS, false},
        {"{'default':'confirm','rules':[{'tools':['gmail_send_message'],'decision':'deny'}]}",
         POLICY_DENY, false},
        {"{'default':'deny','rules':[{'tools':['gmail_list_messages'],'decision':'deny',"
         "'hidden':true}]}",
         POLICY_DENY, true},
        {"{'default':'allow','rules':[{'tools':['notion_*'],'decision':'deny','hidden':true}]}",
         POLICY_ALLOW, false},
    };
    struct bench *b = *state;
    struct flow_template *tmpl = load(b, NULL, NULL);
    struct policy_verdict verdict;
    assert_non_null(tmpl);
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct policy *policy =
            policy_compile_text(SLICE_NONE, slice_cstr(unit_quoted(&b->arena, cases[i].policy)),
                                SLICE("p@1"), &b->report);
        assert_non_null(policy);
        flow_template_foresee(tmpl, b->catalog, policy, &verdict);
        assert_int_equal(verdict.decision, cases[i].decision);
        assert_int_equal(verdict.is_hidden, cases[i].is_hidden);
        struct flow_template_set set = {.items = &tmpl, .count = 1};
        slice nearest = flow_template_set_nearest(&set, SLICE("demos"), b->catalog, policy);
        assert_int_equal(nearest.len > 0, cases[i].decision != POLICY_DENY);
        policy_unref(policy);
    }
    struct catalog *other = catalog_load_all(NULL, &b->report); /* another snapshot */
    for (int round = 0; round < 4; round++) {
        const struct catalog *catalog = round % 2 ? b->catalog : other;
        for (size_t step = 0; step < tmpl->step_count; step++) {
            const struct catalog_action *action = flow_template_action(tmpl, catalog, step);
            assert_true((action != NULL) == (tmpl->steps[step].type == FLOW_TOOL_CALL));
            assert_true(!action || action->integration->catalog == catalog);
        }
    }
    catalog_unref(other);
    flow_template_foresee(tmpl, b->catalog, NULL, &verdict);
    assert_int_equal(verdict.decision, POLICY_ALLOW);
    flow_template_unref(tmpl);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CATALOG_TEST(a_good_one_is_read_whole),
        CATALOG_TEST(its_version_is_its_content),
        CATALOG_TEST(titles_are_no_part_of_its_version),
        CATALOG_TEST(titles_are_checked),
        CATALOG_TEST(its_grammar_is_checked),
        CATALOG_TEST(its_members_are_checked),
        CATALOG_TEST(placeholders_exist),
        CATALOG_TEST(tools_and_their_constants_are_checked),
        CATALOG_TEST(writes_are_confirmed),
        CATALOG_TEST(what_changes_was_read),
        CATALOG_TEST(what_changes_was_not_written),
        CATALOG_TEST(a_start_may_confirm),
        CATALOG_TEST(a_condition_may_be_late_where_the_approval_has_none),
        CATALOG_TEST(those_compiled_in_are_good),
        CATALOG_TEST(a_folder_adds_and_replaces),
        CATALOG_TEST(a_failing_allocation_is_an_error_not_a_crash),
        CATALOG_TEST(a_policy_decides_about_a_template),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
