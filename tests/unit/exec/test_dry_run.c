/*
 * A dry run returns the request as it would be sent, with the credential masked and files as their
 * sizes, and the known parts of later requests. Nothing is sent, claimed or recorded.
 */
#include "exec/machine.h"
#include "seam/table.h"

enum { CONNECTION = 7, CUT = 64 * 1024 };

#define KEY_IN(send) "{\"type\":\"api_key\",\"send\":{" send "}}"
#define RAW                                                                                    \
    "\"method\":\"POST\",\"path\":\"/raw\",\"body\":{\"raw\":\"${input.q}\",\"content_type\":" \
    "\"text/plain\""
#define UPLOAD "\"method\":\"POST\",\"path\":\"/up\""
/* Parts that depend on a reply stay as in the manifest. Everything else is filled in. */
#define THEN                                                                                      \
    ",\"then\":[{\"request\":{\"method\":\"PUT\",\"url\":\"${first.body.url}\",\"hosts\":["       \
    "\"*.files.example\"]},\"response\":{\"body\":\"any\"},\"done\":false},"                      \
    "{\"request\":{\"method\":\"POST\",\"base_url\":\"https://up.example\",\"path\":\"/${"        \
    "input.q}/x\",\"query\":{\"n\":\"${input.none}\",\"q\":\"${input.q}\"},\"headers\":{\"X-A\":" \
    "\"${second.status}\"},\"body\":{\"json\":{\"list\":[\"${input.none}\",1,\"${input.q}\"],"    \
    "\"id\":\"${first.body.id}\",\"all\":\"${@}\"}}},\"done\":\"It was sent\",\"not_done\":"      \
    "\"it was not\"}],\"files\":{\"travel\":\"raw\",\"request\":2}"
#define THEN_HERE \
    ",\"then\":[{\"request\":{\"method\":\"GET\",\"path\":\"/${input.q}\"},\"done\":false}]"
/* The known members of the message are checked before the first request. */
#define THEN_MAIL                                                                                  \
    ",\"then\":[{\"request\":{\"method\":\"POST\",\"path\":\"/send\",\"body\":{\"json\":{\"raw\":" \
    "\"${base64url(mime_message({to: first.body.from, cc: input.q, attachments: files, subject: "  \
    "join('', ['Re: ', first.body.subject])}))}\"}}},\"done\":false}]"

static const char header[] = APP(
    "header", KEY_IN("\"in\":\"header\",\"name\":\"X-Key\",\"value\":\"k ${credential.api_key}\""),
    "", ACTION("get", "read", GET, "") "," ACTION("put", "write", POST, ""));
static const char query[] =
    APP("query", KEY_IN("\"in\":\"query\",\"name\":\"key\",\"value\":\"${credential.api_key}\""),
        "", ACTION("get", "read", GET, ""));
static const char path[] = APP("path",
                               KEY_IN("\"in\":\"path\",\"value\":\"/bot${credential.api_key}\""),
                               "", ACTION("get", "read", GET, ""));
static const char files[] =
    APP("files", NO_AUTH, "",
        ACTION("raw", "write", RAW "}", "") "," ACTION(
            "bytes", "write", RAW ",\"encoding\":\"base64\"}",
            "") "," ACTION("file", "write", UPLOAD,
                           ",\"files\":{\"travel\":\"raw\"}") "," ACTION("parts", "write", UPLOAD,
                                                                         ",\"files\":{\"travel\":"
                                                                         "\"multipart\"}"));
static const char later[] =
    APP("later", NO_AUTH, "",
        ACTION("send", "write", UPLOAD, THEN) "," ACTION("two", "read", GET, THEN_HERE) "," ACTION(
            "mail", "write", UPLOAD, THEN_MAIL ",\"files\":{\"travel\":\"base64\"}"));

static int set_up(void **state)
{
    const char *const manifests[] = {header, query, path, files, later, NULL};
    struct machine *m = machine_new(manifests, (struct seam_tuning){0});
    static const char *const keyed[] = {"header", "query", "path"};
    for (size_t i = 0; i < ARRAY_LEN(keyed); i++)
        (void)machine_connect(m, keyed[i], "api_key", CONNECTION + (int64_t)i,
                              "{\"api_key\":\"s3cret\"}");
    *state = m;
    return 0;
}

static int tear_down(void **state)
{
    return machine_free(*state);
}

struct way {
    const char *name, *app, *action, *input;
    bool has_file;
    const char *summary;
};

#define RUN(request) "{\"dry_run\":true,\"request\":{" request "}}"
#define ACCEPT       "\"Accept\":\"application/json\""

static const struct way ways[] = {
    {.name = "a credential in a header",
     .app = "header",
     .action = "get",
     .input = "{\"q\":\"a b\"}",
     .summary =
         RUN("\"method\":\"GET\",\"url\":\"https://app.example/get?q=a%20b\",\"headers\":{" ACCEPT
             ",\"X-Key\":\"***\"},\"body\":null")},
    {.name = "a credential in the query",
     .app = "query",
     .action = "get",
     .input = "{\"q\":\"x\"}",
     .summary = RUN("\"method\":\"GET\",\"url\":\"https://app.example/get?q=x&key=***\","
                    "\"headers\":{" ACCEPT "},\"body\":null")},
    {.name = "a credential in the path",
     .app = "path",
     .action = "get",
     .input = "{}",
     .summary =
         RUN("\"method\":\"GET\",\"url\":\"https://app.example/***/get\",\"headers\":{" ACCEPT
             "},\"body\":null")},
    {.name = "a body",
     .app = "header",
     .action = "put",
     .input = "{\"q\":\"\\\"\",\"n\":12345678901234567890}",
     .summary = RUN("\"method\":\"POST\",\"url\":\"https://app.example/put\",\"headers\":{" ACCEPT
                    ",\"Content-Type\":\"application/json\",\"X-Key\":\"***\"},\"body\":"
                    "\"{\\\"q\\\":\\\"\\\\\\\"\\\",\\\"n\\\":12345678901234567890}\"")},
    {.name = "a body that is not text",
     .app = "files",
     .action = "bytes",
     .input = "{\"q\":\"/////w==\"}",
     .summary = RUN("\"method\":\"POST\",\"url\":\"https://app.example/raw\",\"headers\":{" ACCEPT
                    ",\"Content-Type\":\"text/plain\"},\"body\":\"<4 bytes>\"")},
    {.name = "an empty body",
     .app = "files",
     .action = "raw",
     .input = "{\"q\":\"\"}",
     .summary = RUN("\"method\":\"POST\",\"url\":\"https://app.example/raw\",\"headers\":{" ACCEPT
                    ",\"Content-Type\":\"text/plain\"},\"body\":\"\"")},
    {.name = "a file",
     .app = "files",
     .action = "file",
     .input = "{}",
     .has_file = true,
     .summary = RUN("\"method\":\"POST\",\"url\":\"https://app.example/up\",\"headers\":{" ACCEPT
                    ",\"Content-Type\":\"text/csv\"},\"body\":\"<a.csv: 4 bytes>\"")},
    {.name = "requests after the first",
     .app = "later",
     .action = "send",
     .input = "{\"q\":\"a/b\"}",
     .has_file = true,
     .summary =
         "{\"dry_run\":true,\"request\":{\"method\":\"POST\",\"url\":\"https://app.example/up\","
         "\"headers\":{" ACCEPT "},\"body\":null},\"then\":["
         "{\"method\":\"PUT\",\"url\":\"${first.body.url}\",\"hosts\":[\"*.files.example\"],"
         "\"files\":[\"<a.csv: 4 bytes>\"]},"
         "{\"method\":\"POST\",\"url\":\"https://up.example/a%2Fb/x\",\"query\":{\"q\":\"a/b\"},"
         "\"headers\":{\"X-A\":\"${second.status}\"},\"body\":{\"json\":{\"list\":[1,\"a/b\"],"
         "\"id\":\"${first.body.id}\",\"all\":\"${@}\"}}}]}"},
    {.name = "a mail whose text depends on a reply",
     .app = "later",
     .action = "mail",
     .input = "{\"q\":\"a@b.example\"}",
     .has_file = true,
     .summary =
         "{\"dry_run\":true,\"request\":{\"method\":\"POST\",\"url\":\"https://app.example/up\","
         "\"headers\":{" ACCEPT "},\"body\":null},\"then\":[{\"method\":\"POST\",\"url\":"
         "\"https://app.example/send\",\"body\":{\"json\":{\"raw\":\"${base64url(mime_message({to: "
         "first.body.from, cc: input.q, attachments: files, subject: join('', ['Re: ', "
         "first.body.subject])}))}\"}}}]}"},
};

static void begin(struct machine *m, const struct way *way, struct call_file *file)
{
    *file = (struct call_file){
        .name = SLICE("a.csv"), .content_type = SLICE("text/csv"), .data = SLICE("YWJjZA==")};
    machine_want(m, way->app, way->action, way->input);
    m->run.exec.is_confirmed = false; /* a dry run needs no confirmation */
    m->run.exec.is_dry_run = true;
    m->run.exec.idempotency_key = SLICE_NONE;
    m->run.exec.files = way->has_file ? file : NULL;
    m->run.exec.file_count = way->has_file;
    seam_run_start(&m->run);
    seam_settle(m->node.loop);
    if (seam_query_named(m->node.pool, "connection_choice"))
        machine_answer(m, "connection_choice");
}

static bool expect(const struct way *way, slice summary)
{
    bool is_same = slice_eq_cstr(summary, way->summary);
    if (!is_same)
        print_error("%s:\n%.*s\n%s\n", way->name, (int)summary.len, summary.ptr ? summary.ptr : "",
                    way->summary);
    return is_same;
}

static void each_request_is_shown_and_none_is_sent(void **state)
{
    struct machine *m = *state;
    bool is_ok = true;
    for (size_t i = 0; i < ARRAY_LEN(ways); i++) {
        struct call_file file;
        begin(m, &ways[i], &file);
        machine_assert_no_call(m);
        assert_int_equal(seam_query_count(m->node.pool), 0);
        assert_true(seam_run_has_ended(&m->run));
        assert_true(m->run.out.is_dry_run);
        is_ok &= expect(&ways[i], m->run.summary_json);
        assert_int_equal(machine_end(m), EXEC_SUCCEEDED);
    }
    assert_true(is_ok);
    assert_int_equal(m->store.executions.count + m->store.claims.count, 0);
}

/* A multipart body with a random boundary. */
static void files_in_parts_are_shown_by_their_size(void **state)
{
    struct machine *m = *state;
    const struct way way = {.app = "files", .action = "parts", .input = "{}", .has_file = true};
    struct call_file file;
    begin(m, &way, &file);
    assert_slice_has(m->run.summary_json, "filename=\\\"a.csv\\\"\\r\\nContent-Type: "
                                          "text/csv\\r\\n\\r\\n<a.csv: 4 bytes>\\r\\n--");
    assert_true(slice_find(m->run.summary_json, SLICE("abcd")) < 0);
    assert_int_equal(machine_end(m), EXEC_SUCCEEDED);
}

/* No character is cut in two: each has two bytes, and all have the same first byte. */
static void a_long_body_is_cut(void **state)
{
    struct machine *m = *state;
    struct buf input;
    buf_init(&input, 1024 * 1024);
    buf_append_cstr(&input, "{\"q\":\"x");
    for (size_t i = 0; i < CUT; i++)
        buf_append_cstr(&input, "\xc3\xa4");
    buf_append_cstr(&input, "\"}");
    buf_append_char(&input, '\0');
    const struct way way = {.app = "files", .action = "raw", .input = buf_slice(&input).ptr};
    struct call_file file;
    begin(m, &way, &file);
    assert_slice_has(m->run.summary_json, "\xc3\xa4<131073 bytes in all>\"");
    assert_true(m->run.summary_json.len < CUT + 300 && m->run.summary_json.len > CUT);
    assert_int_equal(machine_end(m), EXEC_SUCCEEDED);
    buf_deinit(&input);
}

/* A later request that cannot be built is detected before anything is done, in a dry run or not. */
static void a_later_request_that_cannot_be_made_stops_the_first(void **state)
{
    static const struct {
        const char *action, *input, *fault;
    } cases[] = {
        {"two", "{}", "/input/q is null"},
        {"mail", "{\"q\":\"bob smith\"}", "cc: bob smith is not an email address"},
    };
    struct machine *m = *state;
    for (size_t i = 0; i < 2 * ARRAY_LEN(cases); i++) {
        machine_want(m, "later", cases[i / 2].action, cases[i / 2].input);
        m->run.exec.is_dry_run = i % 2;
        seam_run_start(&m->run);
        machine_assert_no_call(m);
        (void)machine_end_of(m, &m->run);
        assert_slice_has(m->run.out.message, "The request cannot be made from this input: ");
        assert_slice_has(m->run.out.message, cases[i / 2].fault);
        assert_slice_has(m->run.out.message, "Nothing was sent");
        assert_int_equal(machine_end(m), EXEC_INPUT_INVALID);
    }
}

/* ---- without memory ---- */

/* Fails the n-th allocation: the answer is complete, or the run reports that it is unavailable. */
static uint64_t fail_allocation(struct machine *m, const struct way *way, uint64_t n)
{
    bool is_connected = strcmp(way->app, "files") != 0 && strcmp(way->app, "later") != 0;
    struct call_file file;
    connect_forget_all(m->node.connect);
    machine_fail_memory(is_connected ? "check_connection" : "find_action", n);
    begin(m, way, &file);
    machine_assert_no_call(m);
    enum exec_reason reason = machine_end_of(m, &m->run);
    bool is_ok = reason == EXEC_UNAVAILABLE;
    if (reason == EXEC_SUCCEEDED)
        is_ok = expect(way, m->run.summary_json);
    if (!is_ok)
        fail_msg("%s: %s at allocation %zu: %.*s", way->name, exec_reason_name(reason), (size_t)n,
                 SLICE_ARG(m->run.out.message));
    (void)machine_end(m);
    return machine_memory.hits;
}

static void each_allocation_may_fail(void **state)
{
    for (size_t i = 0; i < ARRAY_LEN(ways); i++) {
        uint64_t n = 1;
        while (fail_allocation(*state, &ways[i], n) > 0)
            n++;
        assert_true(n > 1);
    }
}

#define DRY_TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        DRY_TEST(each_request_is_shown_and_none_is_sent),
        DRY_TEST(files_in_parts_are_shown_by_their_size),
        DRY_TEST(a_long_body_is_cut),
        DRY_TEST(a_later_request_that_cannot_be_made_stops_the_first),
        DRY_TEST(each_allocation_may_fail),
    };
    return cmocka_run_group_tests_name("exec/dry_run", tests, NULL, NULL);
}
