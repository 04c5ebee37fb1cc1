/*
 * Actions with several requests: what the loader parses, and the faults that it reports.
 */
#include "support/catalog_test.h"

#define FIRST                                                                          \
    "\"request\":{\"method\":\"POST\",\"path\":\"/sessions\"},\"response\":{\"body\":" \
    "\"any\"}"
#define SEND                                                                             \
    "{\"request\":{\"method\":\"PUT\",\"url\":\"${first.headers.location}\",\"hosts\":[" \
    "\"files.example.com\"]},\"response\":{\"body\":\"any\"},\"done\":false}"
#define POST                                                                               \
    "{\"request\":{\"method\":\"POST\",\"path\":\"/posts\",\"body\":{\"json\":{\"id\":"    \
    "\"${first.body.id}\"}}},\"response\":{\"required\":[\"body.ts\"]},\"done\":\"It was " \
    "uploaded as ${first.body.id}\",\"not_done\":\"it was not posted\"}"

/* requests: members of the action, in which `old` is replaced by `new`. */
static struct catalog *load(struct bench *b, const char *level, const char *requests,
                            const char *old, const char *new)
{
    char members[8192];
    const char *at = old ? strstr(requests, old) : NULL;
    assert_true(!old || at);
    if (at)
        (void)snprintf(members, sizeof(members), "%.*s%s%s", (int)(at - requests), requests, new,
                       at + strlen(old));
    else
        (void)snprintf(members, sizeof(members), "%s", requests);
    (void)snprintf(b->text, sizeof(b->text),
                   "{\"integration_id\":\"demo\",\"name\":\"Demo\",\"description\":\"d\","
                   "\"category\":\"c\",\"base_url\":\"https://api.example.com\",\"auth\":{\"type\":"
                   "\"bearer\"},\"actions\":[{\"action_id\":\"act\",\"title\":\"Act\","
                   "\"description\":\"d\",\"side_effect_level\":\"%s\",\"input_schema\":{\"type\":"
                   "\"object\",\"additionalProperties\":false,\"properties\":{}},\"display\":{"
                   "\"title\":\"t\",\"summary\":\"s\"},%s}]}",
                   level, members);
    bench_forget(b);
    struct catalog_source source = {SLICE("demo.json"), slice_cstr(b->text)};
    return catalog_load(&source, 1, &b->report);
}

static void check_fault(struct bench *b, const char *level, const char *requests, const char *old,
                        const char *new, const char *pointer, const char *phrase, int line)
{
    struct catalog *catalog = load(b, level, requests, old, new);
    bool is_found = false;
    for (size_t i = 0; i < b->report.count; i++)
        is_found = is_found || (slice_eq_cstr(b->report.problems[i].pointer, pointer) &&
                                slice_find(b->report.problems[i].text, slice_cstr(phrase)) >= 0);
    for (size_t i = 0; !is_found && i < b->report.count; i++)
        print_error("line %d: got %.*s: %.*s\n", line, SLICE_ARG(b->report.problems[i].pointer),
                    SLICE_ARG(b->report.problems[i].text));
    assert_null(catalog);
    assert_true(is_found);
}

#define assert_fault(level, requests, old, new, pointer, phrase) \
    check_fault(*state, (level), (requests), (old), (new), (pointer), (phrase), __LINE__)

static const char three[] = FIRST ",\"then\":[" SEND "," POST
                                  "],\"files\":{\"travel\":\"raw\",\"request\":2}";

static void three_requests_are_read(void **state)
{
    struct bench *b = *state;
    struct catalog *catalog = load(b, "write", three, NULL, NULL);
    for (size_t i = 0; i < b->report.count; i++)
        print_error("%.*s: %.*s\n", SLICE_ARG(b->report.problems[i].pointer),
                    SLICE_ARG(b->report.problems[i].text));
    assert_int_equal(b->report.count, 0);
    const struct catalog_action *action = catalog_find_tool(catalog, SLICE("demo_act"));
    assert_int_equal(action->then_count, 2);
    assert_int_equal(action->files.at, 1);
    assert_true(action->then[0].request.is_bare);
    assert_null(action->then[0].done);
    assert_non_null(action->then[1].done);
    assert_false(action->then[1].request.is_bare);
    assert_false(action->then[1].is_idempotent);
    assert_int_equal(catalog_reply_at(action, 0)->body, REPLY_ANY);
    assert_int_equal(catalog_reply_at(action, 2)->kind, REPLY_KIND_OBJECT);
    assert_false(catalog_request_acts(action, 0)); /* the first request only reads */
    assert_true(catalog_request_acts(action, 1));
    assert_true(catalog_request_acts(action, 2));
    catalog_unref(catalog);
}

static void faults_are_named_with_their_place(void **state)
{
    static const char *const w = "write";
    const char *then1 = "/actions/0/then/1";
    assert_fault(w, three,
                 "\"done\":\"It was uploaded as ${first.body.id}\",\"not_done\":\"it was "
                 "not posted\"",
                 "\"idempotent\":false", then1, "\"done\" is missing");
    assert_fault(w, three, ",\"not_done\":\"it was not posted\"", "", then1,
                 "\"not_done\" is missing");
    assert_fault(w, three, "\"done\":false", "\"done\":false,\"not_done\":\"x\"",
                 "/actions/0/then/0/not_done", "no effect");
    assert_fault(w, three, "\"done\":false", "\"done\":true", "/actions/0/then/0/done",
                 "must be text");
    assert_fault(w, FIRST ",\"then\":[" POST "," SEND "]", NULL, NULL, "/actions/0/then/1/done",
                 "an earlier request has done something");
}

static void a_url_comes_out_of_a_reply_and_goes_to_hosts_that_are_named(void **state)
{
    static const char *const w = "write";
    assert_fault(w, three, "${first.headers.location}", "https://files.example.com/up",
                 "/actions/0/then/0/request/url", "come from an earlier reply");
    assert_fault(w, three, "${first.headers.location}", "${input.url}",
                 "/actions/0/then/0/request/url", "\"input\" is not known here");
    assert_fault(w, three, "${first.headers.location}", "${second.body.url}",
                 "/actions/0/then/0/request/url", "\"second\" is not known here");
    assert_fault(w, three, "\"hosts\":[", "\"path\":\"/x\",\"hosts\":[",
                 "/actions/0/then/0/request/path", "replaces it");
    static const char *const hosts[] = {
        "https://files.example.com", "*", "*.com", "a/b", "", "A.b"};
    for (size_t i = 0; i < ARRAY_LEN(hosts); i++)
        assert_fault(w, three, "files.example.com", hosts[i], "/actions/0/then/0/request/hosts",
                     "must be a host");
    assert_fault(w, three, "\"path\":\"/sessions\"", "\"url\":\"${first.body.x}\"",
                 "/actions/0/request", "unknown member \"url\"");
    assert_fault(w, three, "\"path\":\"/posts\"", "\"path\":\"/posts\",\"hosts\":[\"a.b\"]",
                 "/actions/0/then/1/request", "unknown member \"hosts\"");
    assert_fault(w, three, "\"path\":\"/posts\"", "\"path\":\"/posts\",\"instead\":[]",
                 "/actions/0/then/1/request", "unknown member \"instead\"");
}

static void what_does_not_go_with_several_requests_is_refused(void **state)
{
    static const char *const w = "write";
    assert_fault(w, three, "\"body\":\"any\"}", "\"body\":\"any\",\"output\":\"body\"}",
                 "/actions/0/response/output", "last reply");
    assert_fault(w, three, "\"files\":", "\"idempotency_header\":\"Key\",\"files\":",
                 "/actions/0/idempotency_header", "one request");
    assert_fault(w, three, "\"request\":2}", "\"request\":4}", "/actions/0/files/request",
                 "from 0 to 3");
    assert_fault(w, FIRST ",\"then\":[" SEND "," SEND "," SEND "]", NULL, NULL, "/actions/0/then",
                 "1 to 2 further");
    assert_fault(w, FIRST ",\"then\":[]", NULL, NULL, "/actions/0/then", "1 to 2 further");
    assert_fault(w, three, "\"done\":false", "\"done\":false,\"retry\":1", "/actions/0/then/0",
                 "unknown member \"retry\"");
    assert_fault("read", FIRST ",\"then\":[" POST "]", NULL, NULL, "/actions/0/then/0/done",
                 "no effect in a read");
}

#define LIST                                                                                      \
    "\"output_schema\":{\"type\":\"object\",\"properties\":{\"rows\":{\"type\":\"array\"}}},"     \
    "\"request\":{\"method\":\"GET\",\"path\":\"/rows\"},\"response\":{\"kind\":\"object\"},"     \
    "\"each\":{\"items\":\"rows\",\"action\":\"none\",\"input\":{\"id\":\"${item.id}\"},\"max\":" \
    "5}"

static void the_reads_of_a_list_are_checked(void **state)
{
    const char *action = "/actions/0/each/action";
    assert_fault("read", LIST, NULL, NULL, action, "another read of the app");
    assert_fault("read", LIST, "\"none\"", "\"act\"", action, "\"each\" of its own");
    assert_fault("write", LIST, NULL, NULL, "/actions/0/each", "that reads");
    assert_fault("read", LIST, "\"items\":\"rows\"", "\"items\":\"none\"", "/actions/0/each/items",
                 "no property \"none\"");
    assert_fault("read", LIST, "\"max\":5", "\"max\":0", "/actions/0/each/max", "1 to 100");
    assert_fault("read", LIST, "\"max\":5", "\"max\":5,\"when\":\"body.x\"", "/actions/0/each/when",
                 "not known here");
    assert_fault("read", LIST, "\"max\":5", "\"max\":5,\"of\":1", "/actions/0/each",
                 "unknown member");
}

static void only_the_first_of_two_requests_may_be_left_out(void **state)
{
    static const char *const w = "write";
    const char *when = "/actions/0/request/when";
    const char *path = "\"path\":\"/sessions\"",
               *both = "\"path\":\"/sessions\",\"when\":\"input\"";
    assert_fault(w, FIRST, path, both, when, "needs a request in \"then\"");
    assert_fault(w, three, path, both, when, "exactly one");
    assert_fault(w, FIRST ",\"then\":[" POST "]", path, both, when, "\"done\": false");
    assert_fault(w, FIRST ",\"then\":[" SEND "]", path, "\"path\":\"/sessions\",\"when\":\"body\"",
                 when, "not known here");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        BENCH_TEST(three_requests_are_read),
        BENCH_TEST(faults_are_named_with_their_place),
        BENCH_TEST(a_url_comes_out_of_a_reply_and_goes_to_hosts_that_are_named),
        BENCH_TEST(what_does_not_go_with_several_requests_is_refused),
        BENCH_TEST(the_reads_of_a_list_are_checked),
        BENCH_TEST(only_the_first_of_two_requests_may_be_left_out),
    };
    return cmocka_run_group_tests_name("catalog/then", tests, NULL, NULL);
}
