/*
 * What each HTTP status proves about the effect, for each class of action, for an app that its
 * manifest knows and for one that is unknown (the built-in http): the outcome, the key, and the
 * message, on the seam. Each status is tested as the first reply, and after a lost reply.
 */
#include <stdio.h>

#include "base/embed.h"
#include "exec/machine.h"
#include "seam/node.h"

enum { CONNECTION = 7, HTTP_BYTES_MAX = 64 * 1024 };

#define WRITE \
    "\"method\":\"POST\",\"path\":\"/a\",\"body\":{\"json\":{\"q\":\"${input.q || `1`}\"}}"
#define SECOND "\"request\":{\"method\":\"POST\",\"path\":\"/second\"}"
#define ACTS \
    ",\"then\":[{" SECOND ",\"done\":\"The first was done\",\"not_done\":\"the second was not\"}]"
#define ASKS ",\"then\":[{" SECOND ",\"done\":false}]"
#define IN_USE                                                                      \
    ",\"errors\":[{\"when\":\"body.code == 'in_use'\",\"outcome\":\"in_progress\"," \
    "\"error_code\":\"execution_failed\"}]"

#define DELETE "\"method\":\"DELETE\",\"path\":\"/a\""
#define KEYED  ",\"idempotency_header\":\"Idempotency-Key\""
#define SAFE   ",\"idempotent\":true"

#define A_READ  ACTION("read", "read", GET, "")
#define A_WRITE ACTION("write", "write", WRITE, "")
#define A_KEYED ACTION("keyed", "write", WRITE, KEYED)
#define A_SET   ACTION("set", "write", WRITE, SAFE)
#define A_DEL   ACTION("del", "delete", DELETE, SAFE)
#define A_TWO   ACTION("two", "write", WRITE, ACTS)
#define A_ASK   ACTION("ask", "write", WRITE, ASKS)
static const char app[] = APP(
    "app", NO_AUTH, IN_USE, A_READ "," A_WRITE "," A_KEYED "," A_SET "," A_DEL "," A_TWO "," A_ASK);

enum kind {
    READ,
    WRITES,     /* the call is not retried automatically */
    REPEATS,    /* is retried */
    DELETES,    /* it is retried, and after a lost reply 404 or 410 means that the object is
                 * deleted */
    SECOND_ACT, /* the second request, after a write */
    SECOND_ASK  /* the second request, after a read */
};

/* A class of action, with an example. */
struct way {
    const char *app, *action, *input;
    enum kind kind;
};

static const struct way ways[] = {
    {"app", "read", "{}", READ},
    {"app", "write", "{}", WRITES},
    {"app", "keyed", "{}", REPEATS},
    {"app", "set", "{}", REPEATS},
    {"app", "del", "{}", DELETES},
    {"app", "two", "{}", WRITES},
    {"app", "two", "{}", SECOND_ACT},
    {"app", "ask", "{}", SECOND_ASK},
    {"http", "get_resource", "{\"resource\":\"a\",\"id\":\"b\"}", READ},
    {"http", "create_resource", "{\"resource\":\"a\",\"body\":{}}", WRITES},
    {"http", "replace_resource", "{\"resource\":\"a\",\"id\":\"b\",\"body\":{}}", REPEATS},
    {"http", "delete_resource", "{\"resource\":\"a\",\"id\":\"b\"}", DELETES},
};

static bool is_known(const struct way *way)
{
    return strcmp(way->app, "app") == 0;
}

static bool is_one_of(unsigned status, const unsigned *list)
{
    while (*list && *list != status)
        list++;
    return *list == status;
}

/* The rule: a redirect that keeps the method, a 4xx except those that may follow an effect, and
 * 501 prove a refusal. For an unknown app, only these 4xx do. */
static bool is_proof(unsigned status, bool is_of_known)
{
    static const unsigned others[] = {301, 307, 308, 501, 0};
    static const unsigned doubtful[] = {402, 408, 460, 499, 0};
    static const unsigned of_any[] = {401, 403, 404, 405, 413, 415, 429, 0};
    if (status < 400 || status >= 500)
        return is_one_of(status, others);
    return is_of_known ? !is_one_of(status, doubtful) : is_one_of(status, of_any);
}

static enum exec_effect effect_of(const struct way *way, unsigned status, bool is_after_lost)
{
    bool is_lost_last = is_after_lost && way->kind != REPEATS && way->kind != DELETES;
    if (way->kind == READ)
        return EXEC_EFFECT_NONE;
    if (is_after_lost && way->kind == DELETES && (status == 404 || status == 410))
        return EXEC_EFFECT_DONE;
    if (is_lost_last || is_after_lost || !is_proof(status, is_known(way)))
        return EXEC_EFFECT_UNKNOWN;
    return way->kind == SECOND_ACT ? EXEC_EFFECT_PARTLY : EXEC_EFFECT_NONE;
}

/* ---- a run ---- */

static int set_up(void **state)
{
    static char http[HTTP_BYTES_MAX];
    const char *const manifests[] = {app, http, NULL};
    for (size_t i = 0; i < embed_integrations_count; i++)
        if (strcmp(embed_integrations[i].name, "http.json") == 0) {
            assert_true(embed_integrations[i].len < sizeof(http));
            memcpy(http, embed_integrations[i].data, embed_integrations[i].len);
        }
    struct machine *m = machine_new(manifests, (struct seam_tuning){0});
    struct connection *row =
        machine_connect(m, "http", "api_key", CONNECTION, "{\"api_key\":\"k\"}");
    row->params = SLICE("{\"base\":\"api.example\"}");
    *state = m;
    return 0;
}

static int tear_down(void **state)
{
    return machine_free(*state);
}

/* Answers a query, but does not mark the connection, since the mark would block the app for the
 * next run. */
static void answer(struct machine *m, struct pg_query *query)
{
    if (strcmp(query->stmt->name, "connection_lost") == 0)
        seam_query_done(query);
    else
        seam_rows_answer(&m->store, query);
}

/* The app's answers, in order. The last answer is repeated for all later requests. */
struct reply {
    unsigned status; /* 0: the reply is lost */
    const char *body;
};

static void answer_call(struct machine *m, const struct way *way, const struct reply **next)
{
    struct http_call *call = seam_call(m->node.http, 0);
    bool is_first = way->kind >= SECOND_ACT && slice_find(call->url, SLICE("/second")) < 0;
    const struct reply *reply = *next;
    if (is_first) {
        seam_call_reply(call, 200, "{}");
        return;
    }
    if (reply[1].body)
        (*next)++;
    if (reply->status == 0)
        seam_call_fail(call, SEAM_MID_REPLY);
    else
        seam_call_reply(call, reply->status, reply->body);
}

static void want(struct machine *m, const struct way *way)
{
    connect_forget_all(m->node.connect);
    m->store.claims.count = m->store.executions.count = 0;
    machine_want(m, way->app, way->action, way->input);
    m->run.exec.idempotency_key = SLICE("k");
}

/* replies is an array that ends with a reply without a body. */
static void run(struct machine *m, const struct way *way, const struct reply *replies)
{
    want(m, way);
    seam_run_start(&m->run);
    for (unsigned i = 0; i < 400 && !seam_run_has_ended(&m->run); i++) {
        seam_settle(m->node.loop);
        struct pg_query *query = seam_query(m->node.pool, 0);
        if (query)
            answer(m, query);
        else if (seam_call(m->node.http, 0))
            answer_call(m, way, &replies);
        else
            (void)seam_pass_timer(m->node.loop, 60000);
        seam_settle(m->node.loop);
    }
    assert_true(seam_run_has_ended(&m->run));
}

/* ---- expected results ---- */

static bool has(slice text, const char *part)
{
    return slice_find(text, slice_cstr(part)) >= 0;
}

/* Whether it is a code after which clients repeat the request. */
static bool is_passing_code(slice code)
{
    return slice_has_word(SLICE("rate_limited reauth_required unauthorized forbidden "
                                "integration_not_connected"),
                          code);
}

static const char *find_fault(struct machine *m, enum exec_effect effect)
{
    const struct exec_outcome *out = &m->run.out;
    const struct row_claim *claim = seam_find_claim(&m->store, seam_account, SLICE("k"));
    bool is_none = effect == EXEC_EFFECT_NONE;
    bool says_nothing = has(out->message, "othing was ") || has(out->hint, "othing was ");
    bool says_unknown = has(out->message, "not known") || has(out->hint, "outcome is unknown");
    char words[64];
    (void)snprintf(words, sizeof(words), "\"outcome\":\"%s\"", exec_effect_name(effect));
    if (out->effect != effect)
        return "the effect";
    if (!has(m->run.summary_json, words))
        return "the summary's outcome";
    if (is_none ? claim != NULL : !claim || !claim->is_bound)
        return "the key";
    if (effect == EXEC_EFFECT_DONE)
        return NULL;
    if (is_none && says_unknown)
        return "its words say that the outcome is unknown";
    if (!is_none && says_nothing)
        return "its words say that nothing was done";
    if (effect == EXEC_EFFECT_UNKNOWN && !says_unknown)
        return "its words do not say that the outcome is unknown";
    if (!is_none && !exec_reason_is_failed(out->reason))
        return "the status";
    if (!is_none && is_passing_code(exec_outcome_error_code(out)))
        return "the code";
    if (!is_none && (exec_outcome_is_retryable(out) || exec_outcome_retry_after_s(out) > 0))
        return "it says when to send it again";
    return NULL;
}

static bool expect(struct machine *m, const struct way *way, const struct reply *replies,
                   enum exec_effect effect)
{
    run(m, way, replies);
    const struct exec_outcome *out = &m->run.out;
    const char *fault = find_fault(m, effect);
    if (fault)
        print_error("%s %s, %u, %u, wanted %s: %s: %s, %s, \"%.*s\" \"%.*s\"\n", way->app,
                    way->action, replies[0].status, replies[1].status, exec_effect_name(effect),
                    fault, exec_effect_name(out->effect), exec_reason_name(out->reason),
                    SLICE_ARG(out->message), SLICE_ARG(out->hint));
    (void)machine_end(m);
    seam_pass_ms(m->node.loop, 1000); /* the app's limits allow the next run */
    return !fault;
}

static bool expect_status(struct machine *m, const struct way *way, unsigned status)
{
    const struct reply first[] = {{status, "{}"}, {0, NULL}};
    const struct reply after_lost[] = {{0, ""}, {status, "{}"}, {0, NULL}};
    bool is_ok = expect(m, way, first, effect_of(way, status, false));
    return expect(m, way, after_lost, effect_of(way, status, true)) && is_ok;
}

static void each_status_says_what_was_done(void **state)
{
    static const unsigned rare[] = {460, 499, 500, 501, 502, 503, 504,
                                    505, 507, 511, 520, 530, 599};
    bool is_ok = true;
    for (size_t i = 0; i < ARRAY_LEN(ways); i++) {
        for (unsigned status = 300; status <= 308; status++)
            is_ok &= expect_status(*state, &ways[i], status);
        for (unsigned status = 400; status <= 451; status++)
            is_ok &= expect_status(*state, &ways[i], status);
        for (size_t at = 0; at < ARRAY_LEN(rare); at++)
            is_ok &= expect_status(*state, &ways[i], rare[at]);
    }
    assert_true(is_ok);
}

/* The app is still carrying the request out, so it is sent again if that is safe. */
static void a_key_in_use_proves_nothing(void **state)
{
    static const char in_use[] = "{\"code\":\"in_use\"}";
    static const struct way keyed = {"app", "keyed", "{}", REPEATS};
    static const struct way plain = {"app", "write", "{}", WRITES};
    const struct reply then_done[] = {{409, in_use}, {200, "{}"}, {0, NULL}};
    const struct reply lost_then_done[] = {{0, ""}, {409, in_use}, {200, "{}"}, {0, NULL}};
    const struct reply then_refused[] = {{409, in_use}, {403, "{}"}, {0, NULL}};
    const struct reply for_long[] = {{409, in_use}, {0, NULL}};
    assert_true(expect(*state, &keyed, then_done, EXEC_EFFECT_DONE));
    assert_true(expect(*state, &keyed, lost_then_done, EXEC_EFFECT_DONE));
    assert_true(expect(*state, &keyed, then_refused, EXEC_EFFECT_UNKNOWN));
    assert_true(expect(*state, &keyed, for_long, EXEC_EFFECT_UNKNOWN));
    assert_true(expect(*state, &plain, for_long, EXEC_EFFECT_UNKNOWN));
}

/* ---- what is not sent again ---- */

/* The node's lease has expired when the second attempt would start. */
static void a_second_try_that_is_not_sent_proves_nothing(void **state)
{
    struct machine *m = *state;
    static const struct way set = {"app", "set", "{}", REPEATS};
    want(m, &set);
    seam_run_start(&m->run);
    machine_answer(m, "claim_find");
    machine_answer(m, "claim_insert");
    assert_true(seam_call_send(machine_call(m)));
    seam_pass_ms(m->node.loop, 12000); /* no heartbeat is answered */
    assert_false(node_may_write(m->node.node));
    seam_call_fail(machine_call(m), SEAM_MID_REPLY);
    seam_pass_ms(m->node.loop, 1000);
    machine_assert_no_call(m);
    (void)machine_end_of(m, &m->run);
    const char *fault = find_fault(m, EXEC_EFFECT_UNKNOWN);
    if (fault)
        fail_msg("%s: %s, \"%.*s\"", fault, exec_reason_name(m->run.out.reason),
                 SLICE_ARG(m->run.out.message));
    (void)machine_end(m);
}

/* A step of a flow: the outcome of its earlier attempt is unknown, and its connection has been
 * deleted since. */
static void a_step_that_is_not_tried_again_stays_in_doubt(void **state)
{
    struct machine *m = *state;
    const struct exec_outcome *out = &m->run.out;
    static const struct way create = {"http", "create_resource", "{\"resource\":\"a\",\"body\":{}}",
                                      WRITES};
    struct exec_proof proof = {.flow_id = uuid_v7(), .owner = node_id(m->node.node), .rev = 1};
    m->store.connections.count = 0;
    want(m, &create);
    m->run.exec.idempotency_key = SLICE_NONE;
    m->run.exec.is_recorded_by_caller = m->run.exec.is_in_doubt = true;
    m->run.exec.proof = &proof;
    seam_run_start(&m->run);
    assert_int_equal(machine_end_of(m, &m->run), EXEC_OUTCOME_UNKNOWN);
    assert_int_equal(out->effect, EXEC_EFFECT_UNKNOWN);
    assert_slice_equal(exec_outcome_error_code(out), "execution_failed");
    assert_slice_has(out->message, "Tried again: HTTP API is not connected to this account.");
    assert_false(has(out->message, "othing was "));
    assert_slice_has(out->hint, "The outcome is unknown");
    (void)machine_end(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(each_status_says_what_was_done, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_key_in_use_proves_nothing, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_second_try_that_is_not_sent_proves_nothing, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(a_step_that_is_not_tried_again_stays_in_doubt, set_up,
                                        tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
