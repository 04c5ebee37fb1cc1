/*
 * The probe of a credential: the requests that are sent, how each reply is classified, and the
 * account that the connection uses.
 */
#include "exec/machine.h"
#include "call/probe.h"
#include "seam/table.h"

#define TEST                                                                              \
    "\"test\":{\"method\":\"GET\",\"path\":\"/me\",\"query\":{\"fields\":\"id,${`2`}\"}," \
    "\"label\":\"body.login\"}"
#define WHO "\"email\":\"body.email\",\"subject\":\"body.id\",\"label\":\"body.name\""
#define OAUTH                                                                                   \
    "{\"type\":\"oauth2\",\"authorize_url\":\"https://app.example/a\",\"token_url\":\"https://" \
    "app.example/t\"}"

/* One request tests the credential, and another asks for its user. */
static const char both[] =
    APP("both", "{\"type\":\"bearer\"," TEST "}",
        ",\"errors\":[{\"when\":\"body.error == 'quota'\",\"error_code\":\"rate_limited\"}],"
        "\"identity\":{\"request\":{\"method\":\"GET\",\"path\":\"/who\"}," WHO "}",
        ACTION("get", "read", GET, ""));
/* One request for both. */
static const char one[] =
    APP("one", "{\"type\":\"bearer\",\"test\":{\"method\":\"POST\",\"path\":\"/auth.test\"}}",
        ",\"identity\":{" WHO "}", ACTION("get", "read", GET, ""));
static const char label[] =
    APP("label", "{\"type\":\"bearer\"," TEST "}", "", ACTION("get", "read", GET, ""));
static const char nothing[] = APP("nothing", BEARER, "", ACTION("get", "read", GET, ""));
static const char token[] =
    APP("token", OAUTH,
        ",\"identity\":{\"from\":\"id_token\",\"scopes\":[\"openid\"],\"email\":\"claims.email\","
        "\"subject\":\"sum(claims.sub)\"}",
        ACTION("get", "read", GET, ""));
/* Each customer has a host, and the connection has its own client. */
static const char client[] =
    APP_AT("client", "https://${connection.params.host}",
           "{\"type\":\"oauth2_client_credentials\","
           "\"token_url\":\"https://${connection.params.host}/t\"," TEST "}",
           ",\"connection_params\":{\"type\":\"object\",\"properties\":{\"host\":{\"type\":"
           "\"string\",\"description\":\"H.\"}}}",
           ACTION("get", "read", GET, ""));

static int set_up(void **state)
{
    const char *const manifests[] = {both, one, label, nothing, token, client, NULL};
    *state = machine_new(manifests, (struct seam_tuning){0});
    return 0;
}

static int tear_down(void **state)
{
    return machine_free(*state);
}

/* ---- the requester ---- */

struct asker {
    struct op op;
    struct machine *machine;
    const char *params;
    struct call_probe_request request;
    struct call_probe probe;
    struct call_probe out;  /* the result; its texts belong to the requester */
    uint64_t fail_at, hits; /* which allocation fails (0: none), and how many have failed */
    unsigned ended;
};

static enum op_result step_ask(struct op *op)
{
    struct asker *asker = CONTAINER_OF(op, struct asker, op);
    const struct seam_node *node = &asker->machine->node;
    if (asker->params)
        asker->request.params =
            json_parse(&op->arena, slice_cstr(asker->params), &json_limits_provider, NULL);
    mem_fail_at(asker->fail_at, 1);
    call_probe_start(node->http, node->catalog, &asker->probe, &asker->request, op);
    return OP_WAIT;
}

/* The probe's data are freed at this step. */
static enum op_result step_save(struct op *op)
{
    struct asker *asker = CONTAINER_OF(op, struct asker, op);
    struct call_probe *out = &asker->out;
    slice *const texts[] = {&out->message,          &out->label,          &out->identity.email,
                            &out->identity.subject, &out->identity.label, &out->identity_message};
    *out = asker->probe;
    asker->ended++;
    asker->hits += mem_fail_hits();
    mem_fail_at(0, 0);
    for (size_t i = 0; i < ARRAY_LEN(texts); i++)
        if (texts[i]->ptr)
            *texts[i] = arena_dup(&op->arena, *texts[i]);
    op_hold(op, "the test");
    return OP_WAIT;
}

static const struct op_step steps[] = {{"ask", step_ask, 0}, {"save", step_save, 0}};
static const struct op_class asker_class = {
    .name = "asker", .steps = steps, .step_count = ARRAY_LEN(steps)};

static void begin(struct asker *asker, struct machine *m)
{
    asker->machine = m;
    asker->request.tenant = seam_account;
    op_start(&asker->op, &asker_class, m->node.loop, NULL, 32 * 1024 * 1024);
    seam_settle(m->node.loop);
}

/* Checks that the probe has ended once. Its result can be read until let_go. */
static void assert_ended(const struct asker *asker)
{
    assert_int_equal(asker->ended, 1);
    assert_false(op_is_active(&asker->probe.op));
    assert_null(asker->probe.catalog);
    assert_int_equal(seam_call_count(asker->machine->node.http), 0);
}

static void let_go(struct asker *asker)
{
    op_release(&asker->op);
    seam_settle(asker->machine->node.loop);
}

/* ---- one case per line ---- */

struct reply {
    const char *sent; /* the request it answers */
    unsigned status;
    const char *body;
};

#define SECRET "{\"token\":\"s3cret\"}"
#define ME                                                                                       \
    "GET https://app.example/me?fields=id%2C2\nAccept: application/json\nAuthorization: Bearer " \
    "s3cret\n\n"
#define WHO_IS \
    "GET https://app.example/who\nAccept: application/json\nAuthorization: Bearer s3cret\n\n"
#define AUTH_TEST                                                                          \
    "POST https://app.example/auth.test\nAccept: application/json\nAuthorization: Bearer " \
    "s3cret\n\n"
#define HOST   "{\"host\":\"h.example\"}"
#define CLIENT "{\"client_id\":\"c\",\"client_secret\":\"s\"}"
#define TOKEN_SENT                                                       \
    "POST https://h.example/t\nAccept: application/json\nContent-Type: " \
    "application/"                                                       \
    "x-www-form-urlencoded\n\ngrant_type=client_credentials&client_id=c&client_secret=s"
#define HOST_ME                                                                                \
    "GET https://h.example/me?fields=id%2C2\nAccept: application/json\nAuthorization: Bearer " \
    "t0ken\n\n"
/* {"alg":"none"} . {"email":"a@b.c","sub":[40,2]} . */
#define ID_TOKEN "eyJhbGciOiJub25lIn0.eyJlbWFpbCI6ImFAYi5jIiwic3ViIjpbNDAsMl19.x"
/* a token whose sub is not the list that the manifest's expression requires */
#define ODD_TOKEN "eyJhbGciOiJub25lIn0.eyJlbWFpbCI6ImFAYi5jIiwic3ViIjoieCJ9.x"

struct way {
    const char *name, *app, *credential, *params, *id_token;
    bool is_identity_only;
    struct reply replies[2];
    enum call_probe_verdict verdict;
    const char *message, *label, *email, *subject, *name_there, *unknown; /* NULL: none */
};

static const struct way ways[] = {
    {.name = "an app that was removed",
     .app = "gone",
     .credential = SECRET,
     .verdict = CALL_PROBE_REFUSED,
     .message = "The app is no longer available.",
     .unknown = "This server is shutting down."},
    {.name = "a credential that is not JSON",
     .app = "both",
     .credential = "{",
     .verdict = CALL_PROBE_REFUSED,
     .message = "The credential cannot be read.",
     .unknown = "This server is shutting down."},
    {.name = "a credential without the member that is sent",
     .app = "both",
     .credential = "{}",
     .verdict = CALL_PROBE_REFUSED,
     .message = "The test request cannot be made: the connection has no \"token\", "
                "which \"send\" in the app's manifest needs.",
     .unknown = "This server is shutting down."},
    {.name = "works, and names the user",
     .app = "both",
     .credential = SECRET,
     .replies = {{ME, 200, "{\"login\":\"ann\"}"},
                 {WHO_IS, 200, "{\"email\":\" a@b.c \",\"id\":7,\"name\":\"Ann\"}"}},
     .verdict = CALL_PROBE_WORKS,
     .label = "a@b.c",
     .email = "a@b.c",
     .subject = "7",
     .name_there = "Ann"},
    {.name = "works, and cannot name the user",
     .app = "both",
     .credential = SECRET,
     .replies = {{ME, 200, "{\"login\":\"ann\"}"}, {WHO_IS, 403, "{}"}},
     .verdict = CALL_PROBE_WORKS,
     .label = "ann",
     .unknown = "The App does not let the connected account do this (HTTP 403 Forbidden)."},
    {.name = "an invalid identity: an address without a name, a number that is not whole",
     .app = "both",
     .credential = SECRET,
     .replies = {{ME, 200, "{}"}, {WHO_IS, 200, "{\"email\":\"@b\",\"id\":1.5,\"name\":\"x\"}"}},
     .verdict = CALL_PROBE_WORKS,
     .unknown = "The App did not say which login it is."},
    {.name = "refused",
     .app = "both",
     .credential = SECRET,
     .replies = {{ME, 401, "{}"}},
     .verdict = CALL_PROBE_REFUSED,
     .message = "The App refused the credential (HTTP 401 Unauthorized).",
     .unknown = "This server is shutting down."},
    {.name = "a rule of the manifest names the error",
     .app = "both",
     .credential = SECRET,
     .replies = {{ME, 403, "{\"error\":\"quota\"}"}},
     .verdict = CALL_PROBE_OUTAGE,
     .message = "The App limits the rate of calls (HTTP 403 Forbidden): \"quota\"",
     .unknown = "This server is shutting down."},
    {.name = "an outage",
     .app = "both",
     .credential = SECRET,
     .replies = {{ME, 503, "{}"}},
     .verdict = CALL_PROBE_OUTAGE,
     .message = "The App reported an error (HTTP 503 Service Unavailable).",
     .unknown = "This server is shutting down."},
    {.name = "a grant is not tested",
     .app = "both",
     .credential = SECRET,
     .is_identity_only = true,
     .replies = {{WHO_IS, 200, "{\"id\":\"u1\"}"}},
     .verdict = CALL_PROBE_UNTESTED,
     .message = "The App has no request that tests a connection.",
     .label = "u1",
     .subject = "u1"},
    {.name = "one request for both",
     .app = "one",
     .credential = SECRET,
     .replies = {{AUTH_TEST, 200, "{\"id\":18446744073709551615,\"name\":\"Team\"}"}},
     .verdict = CALL_PROBE_WORKS,
     .label = "Team",
     .subject = "18446744073709551615",
     .name_there = "Team"},
    {.name = "one request for both, of a grant",
     .app = "one",
     .credential = SECRET,
     .is_identity_only = true,
     .replies = {{AUTH_TEST, 200, "{\"email\":\"a@b.c\"}"}},
     .verdict = CALL_PROBE_UNTESTED,
     .message = "The App has no request that tests a connection.",
     .label = "a@b.c",
     .email = "a@b.c"},
    {.name = "only a label",
     .app = "label",
     .credential = SECRET,
     .replies = {{ME, 200, "{\"login\":\"ann\"}"}},
     .verdict = CALL_PROBE_WORKS,
     .label = "ann",
     .unknown = "The App has no request that tells which login it is."},
    {.name = "neither",
     .app = "nothing",
     .credential = SECRET,
     .verdict = CALL_PROBE_UNTESTED,
     .message = "The App has no request that tests a connection.",
     .unknown = "The App has no request that tells which login it is."},
    {.name = "an ID token",
     .app = "token",
     .credential = "{\"access_token\":\"x\"}",
     .id_token = ID_TOKEN,
     .is_identity_only = true,
     .verdict = CALL_PROBE_UNTESTED,
     .message = "The App has no request that tests a connection.",
     .label = "a@b.c",
     .email = "a@b.c",
     .subject = "42"},
    {.name = "an ID token that the manifest does not expect",
     .app = "token",
     .credential = "{\"access_token\":\"x\"}",
     .id_token = ODD_TOKEN,
     .verdict = CALL_PROBE_UNTESTED,
     .message = "The App has no request that tests a connection.",
     .unknown = "The App did not say which login it is."},
    {.name = "an invalid ID token",
     .app = "token",
     .credential = "{\"access_token\":\"x\"}",
     .id_token = "a.%%.c",
     .verdict = CALL_PROBE_UNTESTED,
     .message = "The App has no request that tests a connection.",
     .unknown = "The App did not say which login it is."},
    {.name = "a client's first token",
     .app = "client",
     .credential = CLIENT,
     .params = HOST,
     .replies = {{TOKEN_SENT, 200, "{\"access_token\":\"t0ken\",\"token_type\":\"Bearer\"}"},
                 {HOST_ME, 200, "{\"login\":\"bot\"}"}},
     .verdict = CALL_PROBE_WORKS,
     .label = "bot",
     .unknown = "The App has no request that tells which login it is."},
    {.name = "a client that has a token",
     .app = "client",
     .credential = "{\"client_id\":\"c\",\"access_token\":\"t0ken\"}",
     .params = HOST,
     .replies = {{HOST_ME, 200, "{\"login\":\"bot\"}"}},
     .verdict = CALL_PROBE_WORKS,
     .label = "bot",
     .unknown = "The App has no request that tells which login it is."},
    {.name = "a client that is refused",
     .app = "client",
     .credential = CLIENT,
     .params = HOST,
     .replies = {{TOKEN_SENT, 401, "{\"error\":\"invalid_client\"}"}},
     .verdict = CALL_PROBE_REFUSED,
     .message = "The App issued no token: its authorization server answered invalid_client.",
     .unknown = "This server is shutting down."},
    {.name = "a token endpoint that is down",
     .app = "client",
     .credential = CLIENT,
     .params = HOST,
     .replies = {{TOKEN_SENT, 503, ""}},
     .verdict = CALL_PROBE_OUTAGE,
     .message = "The App issued no token: its authorization server answered with HTTP 503.",
     .unknown = "This server is shutting down."},
};

static bool is_text(slice actual, const char *wanted)
{
    return wanted ? slice_eq_cstr(actual, wanted) : actual.ptr == NULL;
}

static bool expect(const struct way *way, const char *what, slice actual, const char *wanted)
{
    bool is_same = is_text(actual, wanted);
    if (!is_same)
        print_error("%s: %s is \"%.*s\"\n", way->name, what, (int)actual.len,
                    actual.ptr ? actual.ptr : "(none)");
    return is_same;
}

static bool expect_result(const struct way *way, const struct call_probe *probe)
{
    bool is_ok = probe->verdict == way->verdict;
    if (!is_ok)
        print_error("%s: verdict %d\n", way->name, (int)probe->verdict);
    is_ok &= expect(way, "the message", probe->message, way->message);
    is_ok &= expect(way, "the label", probe->label, way->label);
    is_ok &= expect(way, "the email", probe->identity.email, way->email);
    is_ok &= expect(way, "the subject", probe->identity.subject, way->subject);
    is_ok &= expect(way, "the name", probe->identity.label, way->name_there);
    is_ok &= expect(way, "why it is unknown", probe->identity_message, way->unknown);
    return is_ok;
}

static struct asker asker_of(const struct way *way)
{
    return (struct asker){
        .params = way->params,
        .request = {.integration_id = slice_cstr(way->app),
                    .credential = slice_cstr(way->credential),
                    .id_token = way->id_token ? slice_cstr(way->id_token) : SLICE_NONE,
                    .is_identity_only = way->is_identity_only}};
}

static void each_way_has_its_verdict(void **state)
{
    struct machine *m = *state;
    bool is_ok = true;
    for (size_t i = 0; i < ARRAY_LEN(ways); i++) {
        struct asker asker = asker_of(&ways[i]);
        begin(&asker, m);
        for (size_t j = 0; j < 2 && ways[i].replies[j].sent; j++) {
            char *sent = seam_call_text(machine_call(m));
            is_ok &= expect(&ways[i], "what was sent", slice_cstr(sent), ways[i].replies[j].sent);
            mem_free(sent);
            machine_reply(m, ways[i].replies[j].status, ways[i].replies[j].body);
        }
        assert_ended(&asker);
        is_ok &= expect_result(&ways[i], &asker.out);
        let_go(&asker);
    }
    assert_true(is_ok);
}

/* ---- calls that fail ---- */

static const struct way *way_named(const char *name)
{
    for (size_t i = 0; i < ARRAY_LEN(ways); i++)
        if (strcmp(ways[i].name, name) == 0)
            return &ways[i];
    fail_msg("no way %s", name);
    return NULL;
}

static void no_answer_says_nothing_of_the_credential(void **state)
{
    struct machine *m = *state;
    const struct way *way = way_named("works, and names the user");
    for (unsigned phase = 0; phase < SEAM_PHASES; phase++) {
        struct asker asker = asker_of(way);
        begin(&asker, m);
        seam_call_fail(machine_call(m), (enum seam_phase)phase);
        seam_settle(m->node.loop);
        assert_ended(&asker);
        assert_int_equal(asker.out.verdict, CALL_PROBE_OUTAGE);
        assert_slice_has(asker.out.message, "The App");
        let_go(&asker);
    }
}

static void an_identity_that_cannot_be_asked_for_costs_the_knowledge_alone(void **state)
{
    struct machine *m = *state;
    const struct way *way = way_named("works, and names the user");
    for (unsigned phase = 0; phase < SEAM_PHASES; phase++) {
        struct asker asker = asker_of(way);
        begin(&asker, m);
        machine_reply(m, 200, "{\"login\":\"ann\"}");
        seam_call_fail(machine_call(m), (enum seam_phase)phase);
        seam_settle(m->node.loop);
        assert_ended(&asker);
        assert_int_equal(asker.out.verdict, CALL_PROBE_WORKS);
        assert_slice_equal(asker.out.label, "ann");
        assert_false(connection_identity_is_known(&asker.out.identity));
        assert_true(asker.out.identity_message.len > 0);
        let_go(&asker);
    }
}

static void a_token_request_that_fails(void **state)
{
    struct machine *m = *state;
    for (unsigned phase = 0; phase < SEAM_PHASES; phase++) {
        struct asker asker = asker_of(way_named("a client's first token"));
        begin(&asker, m);
        seam_call_fail(machine_call(m), (enum seam_phase)phase);
        seam_settle(m->node.loop);
        assert_ended(&asker);
        assert_int_equal(asker.out.verdict, CALL_PROBE_OUTAGE);
        assert_slice_has(asker.out.message, "The App issued no token: ");
        let_go(&asker);
    }
}

/* A person's input makes the request too long, or names no host. */
static void a_token_request_that_cannot_be_made(void **state)
{
    struct machine *m = *state;
    struct buf text;
    buf_init(&text, 512 * 1024);
    buf_append_cstr(&text, "{\"client_id\":\"");
    for (size_t i = 0; i < 2 * OAUTH_REQUEST_BYTES_MAX; i++)
        buf_append_char(&text, 'c');
    buf_append_cstr(&text, "\",\"client_secret\":\"s\"}");
    struct asker asker = asker_of(way_named("a client's first token"));
    asker.request.credential = buf_slice(&text);
    begin(&asker, m);
    assert_ended(&asker);
    assert_int_equal(asker.out.verdict, CALL_PROBE_REFUSED);
    assert_slice_equal(asker.out.message, "A token cannot be requested with this credential.");
    let_go(&asker);
    buf_deinit(&text);
}

/* ---- cancelled ---- */

static void it_may_be_cancelled_at_each_wait(void **state)
{
    struct machine *m = *state;
    static const char *const names[] = {"works, and names the user", "a client's first token"};
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        const struct way *way = way_named(names[i]);
        for (size_t at = 0; at < 2; at++) {
            struct asker asker = asker_of(way);
            begin(&asker, m);
            for (size_t j = 0; j < at; j++)
                machine_reply(m, way->replies[j].status, way->replies[j].body);
            (void)machine_call(m);
            op_cancel(&asker.probe.op);
            op_cancel(&asker.probe.op);
            seam_settle(m->node.loop);
            assert_ended(&asker);
            let_go(&asker);
        }
    }
}

/* ---- without memory ---- */

/* The probe ends, and says nothing about the credential, which was not tested. */
static void each_allocation_may_fail(void **state)
{
    struct machine *m = *state;
    for (size_t i = 0; i < ARRAY_LEN(ways); i++) {
        const struct way *way = &ways[i];
        for (uint64_t n = 1, hits = 1; hits > 0; n++) {
            struct asker asker = asker_of(way);
            asker.fail_at = n;
            begin(&asker, m);
            for (size_t j = 0; j < 2 && seam_call(m->node.http, 0); j++) {
                asker.hits += mem_fail_hits();
                mem_fail_at(0, 0); /* the reply's text belongs to the test */
                seam_call_reply(seam_call(m->node.http, 0), way->replies[j].status,
                                way->replies[j].body);
                mem_fail_at(asker.hits ? 0 : n, 1);
                seam_settle(m->node.loop);
            }
            hits = asker.hits;
            assert_ended(&asker);
            bool is_as_ever = asker.out.verdict == way->verdict;
            if (!is_as_ever && (hits == 0 || asker.out.verdict != CALL_PROBE_OUTAGE))
                fail_msg("%s: verdict %d at allocation %zu: %.*s", way->name, asker.out.verdict,
                         (size_t)n, SLICE_ARG(asker.out.message));
            if (asker.out.verdict != CALL_PROBE_WORKS && asker.out.message.len == 0)
                fail_msg("%s: no message at allocation %zu", way->name, (size_t)n);
            let_go(&asker);
        }
    }
}

static void every_step_and_jump_was_taken(void **state)
{
    (void)state;
    assert_int_equal(seam_table_missing("probe"), 0);
}

#define PROBE_TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        PROBE_TEST(each_way_has_its_verdict),
        PROBE_TEST(no_answer_says_nothing_of_the_credential),
        PROBE_TEST(an_identity_that_cannot_be_asked_for_costs_the_knowledge_alone),
        PROBE_TEST(a_token_request_that_fails),
        PROBE_TEST(a_token_request_that_cannot_be_made),
        PROBE_TEST(it_may_be_cancelled_at_each_wait),
        PROBE_TEST(each_allocation_may_fail),
        cmocka_unit_test(every_step_and_jump_was_taken),
    };
    seam_table_watch();
    return cmocka_run_group_tests_name("call/probe", tests, NULL, NULL);
}
