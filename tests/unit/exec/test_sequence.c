/*
 * Runs of several requests, of an action or by repetition: the requests and their order, and what
 * is reported and stored if a later request fails after an earlier one has acted, or may have
 * acted.
 */
#include <stdio.h>

#include "exec/machine.h"
#include "seam/table.h"

enum { CONNECTION = 7, REPLIES = 6 };

#define FIRST_POST "\"method\":\"POST\",\"path\":\"/first\""
#define NEXT                                                                             \
    "\"request\":{\"method\":\"POST\",\"url\":\"${first.body.url}\",\"hosts\":[\"files." \
    "example\"],\"credential\":true}"
#define DONE \
    "\"done\":\"The file was uploaded as ${first.body.id}\",\"not_done\":\"it was not posted\""
#define UP  ",\"then\":[{" NEXT "," DONE "}]"
#define ASK ",\"then\":[{" NEXT ",\"done\":false}]"
#define SKIP                                                                                \
    ",\"then\":[{\"request\":{\"method\":\"POST\",\"path\":\"/second\",\"body\":{\"json\":" \
    "{\"id\":\"${first.body.id}\"}}},\"done\":false}]"
#define ERRORS                                                                                    \
    ",\"errors\":[{\"when\":\"status == `403`\",\"error_code\":\"forbidden\",\"hint\":\"Ask the " \
    "owner.\"}]"

static const char app[] = APP(
    "app", BEARER, ERRORS,
    ACTION("up", "write", FIRST_POST, UP) "," ACTION("safe", "write", FIRST_POST, ",\"idempotent\":true" UP) "," ACTION(
        "ask", "write", "\"method\":\"GET\",\"path\":\"/first\"",
        ASK) "," ACTION("skip", "write",
                        "\"method\":\"GET\",\"path\":\"/first\",\"when\":\"input.q\"",
                        SKIP) "," ACTION("one", "write", FIRST_POST,
                                         ",\"idempotent\":true") "," ACTION("del", "delete",
                                                                            "\"method\":\"DELETE\","
                                                                            "\"path\":\"/"
                                                                            "first\"",
                                                                            ",\"idempotent\":"
                                                                            "true"));

static int set_up(void **state)
{
    const char *const manifests[] = {app, NULL};
    struct machine *m = machine_new(manifests, (struct seam_tuning){0});
    (void)machine_connect(m, "app", "bearer", CONNECTION, "{\"token\":\"t\"}");
    *state = m;
    return 0;
}

static int tear_down(void **state)
{
    return machine_free(*state);
}

/* status 0: it fails in that phase. */
struct reply {
    unsigned status;
    const char *body;
    enum seam_phase phase;
};

struct way {
    const char *name, *action;
    bool is_recorded_by_caller, is_in_doubt;
    struct reply replies[REPLIES];
    enum exec_reason reason;
    const char *sent; /* hosts and paths, in order */
    const char *message, *hint;
    bool is_bound;       /* the key stays bound to this answer */
    const char *refusal; /* why the connection is marked, or NULL */
    bool is_repeatable;
    enum exec_advice advice;
};

#define FIRST                                                            \
    {                                                                    \
        200, "{\"id\":7,\"url\":\"https://files.example/n\"}", SEAM_SENT \
    }
#define LOST                    \
    {                           \
        0, NULL, SEAM_MID_REPLY \
    }
#define NOBODY             \
    {                      \
        0, NULL, SEAM_DIAL \
    }
#define FIRST_ "app.example/first "
#define NEXT_  "files.example/n "
#define BOTH   FIRST_ NEXT_

static const struct way ways[] = {
    {.name = "all is done",
     .action = "up",
     .replies = {FIRST, {200, "{}"}},
     .reason = EXEC_SUCCEEDED,
     .sent = BOTH,
     .is_bound = true},
    {.name = "the first fails",
     .action = "up",
     .replies = {{422, "{}"}},
     .reason = EXEC_PROVIDER_INVALID,
     .sent = FIRST_,
     .message = "The App"},
    {.name = "the second is refused",
     .action = "up",
     .replies = {FIRST, {422, "{}"}},
     .reason = EXEC_PARTLY_DONE,
     .sent = BOTH,
     .message = "The file was uploaded as 7, but it was not posted. The App",
     .hint = "What was done stays done",
     .is_bound = true},
    {.name = "the manifest has a hint",
     .action = "up",
     .replies = {FIRST, {403, "{}"}},
     .reason = EXEC_PARTLY_DONE,
     .sent = BOTH,
     .message = "The file was uploaded as 7, but it was not posted. The App",
     .hint = "Ask the owner. What was done stays done",
     .is_bound = true},
    {.name = "too fast: there is no Retry-After, since the whole would be repeated",
     .action = "up",
     .replies = {FIRST, {429, "{}"}},
     .reason = EXEC_PARTLY_DONE,
     .sent = BOTH,
     .message = "it was not posted. The App",
     .is_bound = true},
    {.name = "the second is cut off",
     .action = "up",
     .replies = {FIRST, {0, NULL, SEAM_MID_REPLY}},
     .reason = EXEC_BROKEN_OFF,
     .sent = BOTH,
     .message = "The file was uploaded as 7. It is not known whether the rest was done. The App",
     .is_bound = true},
    {.name = "the second is not answered",
     .action = "up",
     .replies = {FIRST, {0, NULL, SEAM_SILENCE}},
     .reason = EXEC_TIMED_OUT,
     .sent = BOTH,
     .message = "It is not known whether the rest was done.",
     .is_bound = true},
    {.name = "the second gets a fault of the app",
     .action = "up",
     .replies = {FIRST, {500, "{}"}},
     .reason = EXEC_PROVIDER_ERROR,
     .sent = BOTH,
     .message = "It is not known whether the rest was done.",
     .is_bound = true},
    {.name = "the second gets an answer that is not JSON",
     .action = "up",
     .replies = {FIRST, {200, "<html>"}},
     .reason = EXEC_REPLY_UNREADABLE,
     .sent = BOTH,
     .message = "It is not known whether the rest was done.",
     .is_bound = true},
    {.name = "the second finds no server, four times",
     .action = "up",
     .replies = {FIRST, NOBODY, {0, NULL, SEAM_RESOLVE}, NOBODY, NOBODY},
     .reason = EXEC_PARTLY_DONE,
     .sent = BOTH NEXT_ NEXT_ NEXT_,
     .message = "The file was uploaded as 7, but it was not posted. The App",
     .is_bound = true},
    {.name = "the key is refused in between",
     .action = "up",
     .replies = {FIRST, {401, "{}"}},
     .reason = EXEC_PARTLY_DONE,
     .sent = BOTH,
     .message = "The file was uploaded as 7, but it was not posted. The App",
     .is_bound = true,
     .refusal = "key_refused",
     .advice = EXEC_ADVICE_RECONNECT},
    {.name = "the key is refused at once",
     .action = "up",
     .replies = {{401, "{}"}},
     .reason = EXEC_KEY_REFUSED,
     .sent = FIRST_,
     .message = "The App",
     .refusal = "key_refused"},
    {.name = "the reply names another host",
     .action = "up",
     .replies = {{200, "{\"id\":7,\"url\":\"https://evil.example/n\"}"}},
     .reason = EXEC_PARTLY_DONE,
     .sent = FIRST_,
     .message = "The file was uploaded as 7, but it was not posted. The App named ",
     .is_bound = true},
    {.name = "the reply names nothing",
     .action = "up",
     .replies = {{200, "{\"id\":7}"}},
     .reason = EXEC_PARTLY_DONE,
     .sent = FIRST_,
     .message = "it was not posted. The next request cannot be made from the reply of The App: ",
     .is_bound = true},
    {.name = "nothing had been done before the second",
     .action = "ask",
     .replies = {FIRST, {403, "{}"}},
     .reason = EXEC_PROVIDER_FORBIDDEN,
     .sent = BOTH,
     .message = "The App",
     .hint = "Ask the owner."},
    {.name = "a request that only reads is repeated",
     .action = "ask",
     .replies = {{0, NULL, SEAM_MID_REPLY}, FIRST, {200, "{}"}},
     .reason = EXEC_SUCCEEDED,
     .sent = FIRST_ BOTH,
     .is_bound = true},
    {.name = "a request that only reads names nothing",
     .action = "ask",
     .replies = {{200, "{}"}},
     .reason = EXEC_REPLY_UNREADABLE,
     .sent = FIRST_,
     .message = "The next request cannot be made from the reply of The App: ",
     .hint = "Nothing permanent was done."},
    {.name = "the read before the write is refused",
     .action = "ask",
     .replies = {{403, "{}"}},
     .reason = EXEC_PROVIDER_FORBIDDEN,
     .sent = FIRST_,
     .message = "Nothing was done.",
     .hint = "Ask the owner."},
    {.name = "there is nothing to read before the write",
     .action = "skip",
     .replies = {{200, "{}"}},
     .reason = EXEC_SUCCEEDED,
     .sent = "app.example/second ",
     .is_bound = true},
    {.name = "the write alone is lost",
     .action = "skip",
     .replies = {LOST},
     .reason = EXEC_BROKEN_OFF,
     .sent = "app.example/second ",
     .message = "The App",
     .hint = "The outcome is unknown",
     .is_bound = true},
    {.name = "all of it again",
     .action = "safe",
     .replies = {FIRST, {503, "{}"}, FIRST, {200, "{}"}},
     .reason = EXEC_SUCCEEDED,
     .sent = BOTH BOTH,
     .is_bound = true},
    {.name = "all of it again, elsewhere",
     .action = "safe",
     .replies = {FIRST,
                 {0, NULL, SEAM_MID_REPLY},
                 {200, "{\"id\":8,\"url\":\"https://app.example/o\"}"},
                 {422, "{}"}},
     .reason = EXEC_BROKEN_OFF,
     .sent = BOTH FIRST_ "app.example/o ",
     .message = "The file was uploaded as 8. It is not known whether the rest was done. The App",
     .hint = "The outcome is unknown",
     .is_bound = true},
    {.name = "a flow may repeat a safe request that may end differently",
     .action = "safe",
     .is_recorded_by_caller = true,
     .replies = {FIRST, NOBODY, NOBODY, NOBODY, NOBODY},
     .reason = EXEC_PARTLY_DONE,
     .sent = BOTH NEXT_ NEXT_ NEXT_,
     .message = "it was not posted.",
     .is_repeatable = true},
    {.name = "a flow does not repeat a request that would end in the same way",
     .action = "safe",
     .is_recorded_by_caller = true,
     .replies = {FIRST, {422, "{}"}},
     .reason = EXEC_PARTLY_DONE,
     .sent = BOTH,
     .message = "it was not posted."},
    {.name = "a flow does not repeat an unsafe request",
     .action = "up",
     .is_recorded_by_caller = true,
     .replies = {FIRST, {429, "{}"}},
     .reason = EXEC_PARTLY_DONE,
     .sent = BOTH,
     .message = "it was not posted."},
    {.name = "lost, then 400",
     .action = "one",
     .replies = {LOST, {400, "{}"}},
     .reason = EXEC_BROKEN_OFF,
     .sent = FIRST_ FIRST_,
     .message = "Tried again: The App",
     .hint = "The outcome is unknown",
     .is_bound = true},
    {.name = "lost, then 403",
     .action = "one",
     .replies = {LOST, {403, "{}"}},
     .reason = EXEC_BROKEN_OFF,
     .sent = FIRST_ FIRST_,
     .message = "Tried again: The App",
     .hint = "The outcome is unknown",
     .is_bound = true},
    {.name = "lost, then 404",
     .action = "one",
     .replies = {LOST, {404, "{}"}},
     .reason = EXEC_BROKEN_OFF,
     .sent = FIRST_ FIRST_,
     .message = "Tried again: The App",
     .hint = "The outcome is unknown",
     .is_bound = true},
    {.name = "lost, then 409",
     .action = "one",
     .replies = {LOST, {409, "{}"}},
     .reason = EXEC_BROKEN_OFF,
     .sent = FIRST_ FIRST_,
     .message = "Tried again: The App",
     .hint = "The outcome is unknown",
     .is_bound = true},
    {.name = "lost, then 410",
     .action = "one",
     .replies = {LOST, {410, "{}"}},
     .reason = EXEC_BROKEN_OFF,
     .sent = FIRST_ FIRST_,
     .message = "Tried again: The App",
     .hint = "The outcome is unknown",
     .is_bound = true},
    {.name = "lost, then 422",
     .action = "one",
     .replies = {LOST, {422, "{}"}},
     .reason = EXEC_BROKEN_OFF,
     .sent = FIRST_ FIRST_,
     .message = "Tried again: The App",
     .hint = "The outcome is unknown",
     .is_bound = true},
    {.name = "lost, then 429",
     .action = "one",
     .replies = {LOST, {429, "{}"}, {429, "{}"}, {429, "{}"}},
     .reason = EXEC_BROKEN_OFF,
     .sent = FIRST_ FIRST_ FIRST_ FIRST_,
     .message = "Tried again: The App",
     .hint = "The outcome is unknown",
     .is_bound = true},
    {.name = "lost, then 401",
     .action = "one",
     .replies = {LOST, {401, "{}"}},
     .reason = EXEC_BROKEN_OFF,
     .sent = FIRST_ FIRST_,
     .message = "Tried again: The App refused",
     .hint = "The outcome is unknown",
     .is_bound = true,
     .refusal = "key_refused"},
    {.name = "503, then unreachable",
     .action = "one",
     .replies = {{503, "{}"}, NOBODY, NOBODY, NOBODY},
     .reason = EXEC_PROVIDER_ERROR,
     .sent = FIRST_ FIRST_ FIRST_ FIRST_,
     .message = "Tried again: The App could not be reached",
     .hint = "The outcome is unknown",
     .is_bound = true},
    {.name = "lost, then done",
     .action = "one",
     .replies = {LOST, {200, "{}"}},
     .reason = EXEC_SUCCEEDED,
     .sent = FIRST_ FIRST_,
     .is_bound = true},
    {.name = "a delete whose reply is lost, then finds nothing",
     .action = "del",
     .replies = {LOST, {404, "{}"}},
     .reason = EXEC_SUCCEEDED,
     .sent = FIRST_ FIRST_,
     .is_bound = true},
    {.name = "a delete that finds nothing",
     .action = "del",
     .replies = {{404, "{}"}},
     .reason = EXEC_PROVIDER_ERROR,
     .sent = FIRST_,
     .hint = "Nothing was done."},
    {.name = "an earlier run in doubt",
     .action = "one",
     .is_recorded_by_caller = true,
     .is_in_doubt = true,
     .replies = {{401, "{}"}},
     .reason = EXEC_OUTCOME_UNKNOWN,
     .sent = FIRST_,
     .message = "An earlier attempt of this call may have been carried out. Tried again",
     .refusal = "key_refused"},
};

struct heard {
    char sent[256], refusal[64];
    size_t replies;
};

static void note_sent(struct heard *heard, const struct http_call *call)
{
    slice where = slice_from(call->url, sizeof("https://") - 1);
    size_t len = strlen(heard->sent);
    (void)snprintf(heard->sent + len, sizeof(heard->sent) - len, "%.*s ", SLICE_ARG(where));
}

static void answer(struct machine *m, struct pg_query *query, struct heard *heard)
{
    const struct pg_value rev = pg_i64(1);
    if (strcmp(query->stmt->name, "connection_lost") == 0) {
        slice reason = seam_text(query, "reason");
        (void)snprintf(heard->refusal, sizeof(heard->refusal), "%.*s", SLICE_ARG(reason));
        assert_int_equal(seam_i64(query, "id"), CONNECTION);
        assert_int_equal(seam_i64(query, "rev"), 1);
        seam_query_done(query);
    } else if (strcmp(query->stmt->name, "flow_rev") == 0) {
        seam_row(query, &rev);
        seam_query_done(query);
    } else {
        seam_rows_answer(&m->store, query);
    }
}

static void reply(struct machine *m, const struct way *way, struct heard *heard)
{
    struct http_call *call = machine_call(m);
    note_sent(heard, call);
    if (heard->replies == REPLIES)
        fail_msg("%s: a further request: %s", way->name, heard->sent);
    const struct reply *reply = &way->replies[heard->replies++];
    if (reply->status)
        seam_call_reply(call, reply->status, reply->body);
    else
        seam_call_fail(call, reply->phase);
}

static void go_through(struct machine *m, const struct way *way, struct heard *heard)
{
    for (unsigned i = 0; i < 400 && !seam_run_has_ended(&m->run); i++) {
        seam_settle(m->node.loop);
        struct pg_query *query = seam_query(m->node.pool, 0);
        if (query)
            answer(m, query, heard);
        else if (seam_call(m->node.http, 0))
            reply(m, way, heard);
        else
            (void)seam_pass_timer(m->node.loop, 60000);
        seam_settle(m->node.loop);
    }
    assert_true(seam_run_has_ended(&m->run));
}

static void begin(struct machine *m, const struct way *way, struct exec_proof *proof)
{
    *proof = (struct exec_proof){.flow_id = uuid_v7(), .owner = node_id(m->node.node), .rev = 1};
    connect_forget_all(m->node.connect);
    m->store.claims.count = m->store.executions.count = 0;
    machine_want(m, "app", way->action, "{}");
    m->run.exec.idempotency_key = way->is_recorded_by_caller ? SLICE_NONE : SLICE("k");
    m->run.exec.is_recorded_by_caller = way->is_recorded_by_caller;
    m->run.exec.is_in_doubt = way->is_in_doubt;
    m->run.exec.proof = way->is_recorded_by_caller ? proof : NULL;
    seam_run_start(&m->run);
}

static bool expect(const struct way *way, const char *what, bool holds, slice is)
{
    if (!holds)
        print_error("%s: %s: %.*s\n", way->name, what, (int)is.len, is.ptr ? is.ptr : "");
    return holds;
}

static bool has(slice text, const char *part)
{
    return !part || slice_find(text, slice_cstr(part)) >= 0;
}

/* Checks what is stored: one execution with the same reason, and a key that is bound or free
 * again. */
static bool expect_stored(struct machine *m, const struct way *way)
{
    const struct exec_outcome *out = &m->run.out;
    const struct row_claim *claim = seam_find_claim(&m->store, seam_account, SLICE("k"));
    bool is_ok =
        expect(way, "the key",
               (claim && claim->is_bound) == way->is_bound && (claim == NULL) == !way->is_bound,
               SLICE_NONE);
    bool is_blocked = exec_reason_is_blocked(out->reason);
    size_t count = way->is_recorded_by_caller || is_blocked ? 0 : 1;
    is_ok &= expect(way, "executions", m->store.executions.count == count, SLICE_NONE);
    const struct execution *row = count ? &m->store.executions.items[0] : NULL;
    if (row)
        is_ok &= expect(way, "the record",
                        row->is_succeeded == (way->reason == EXEC_SUCCEEDED) &&
                            uuid_eq(row->id, out->execution_id) && has(row->summary, way->message),
                        row->summary);
    return is_ok;
}

/* The state of the key follows from the effect: the key is released only with proof that nothing
 * was done. */
static bool expect_effect(const struct way *way, const struct exec_outcome *out)
{
    bool is_bound = way->is_bound || way->is_in_doubt;
    enum exec_effect effect = way->reason == EXEC_SUCCEEDED     ? EXEC_EFFECT_DONE
                              : way->reason == EXEC_PARTLY_DONE ? EXEC_EFFECT_PARTLY
                              : is_bound                        ? EXEC_EFFECT_UNKNOWN
                                                                : EXEC_EFFECT_NONE;
    bool is_ok = expect(way, "the effect",
                        out->effect == effect ||
                            (way->is_recorded_by_caller && out->effect == EXEC_EFFECT_UNKNOWN),
                        slice_cstr(exec_effect_name(out->effect)));
    if (out->effect == EXEC_EFFECT_UNKNOWN)
        is_ok &=
            expect(way, "no time to come again", exec_outcome_retry_after_s(out) == 0, SLICE_NONE);
    return is_ok;
}

static bool expect_way(struct machine *m, const struct way *way, const struct heard *heard)
{
    const struct exec_outcome *out = &m->run.out;
    bool is_ok = expect(way, "the reason", out->reason == way->reason,
                        slice_cstr(exec_reason_name(out->reason)));
    is_ok &=
        expect(way, "what was sent", strcmp(heard->sent, way->sent) == 0, slice_cstr(heard->sent));
    is_ok &= expect(way, "the message", has(out->message, way->message), out->message);
    is_ok &= expect(way, "the hint", has(out->hint, way->hint), out->hint);
    is_ok &= expect(way, "the mark", strcmp(heard->refusal, way->refusal ? way->refusal : "") == 0,
                    slice_cstr(heard->refusal));
    is_ok &= expect(way, "the attempts", out->attempts == heard->replies, SLICE_NONE);
    if (way->reason == EXEC_PARTLY_DONE)
        is_ok &= expect(way, "may it be sent again",
                        out->is_repeatable == way->is_repeatable && out->retry_after_ms == -1 &&
                            out->advice == way->advice && out->error_code.len == 0,
                        out->error_code);
    is_ok &= expect_effect(way, out);
    return is_ok && expect_stored(m, way);
}

static void each_way_has_its_outcome(void **state)
{
    struct machine *m = *state;
    bool is_ok = true;
    for (size_t i = 0; i < ARRAY_LEN(ways); i++) {
        struct heard heard = {.replies = 0};
        struct exec_proof proof;
        begin(m, &ways[i], &proof);
        go_through(m, &ways[i], &heard);
        is_ok &= expect_way(m, &ways[i], &heard);
        (void)machine_end(m);
    }
    assert_true(is_ok);
}

/* The credential is sent where the manifest says, and each request has the named method and URL. */
static void the_second_request_is_made_of_the_first_reply(void **state)
{
    struct machine *m = *state;
    struct exec_proof proof;
    struct heard heard = {.replies = 0};
    begin(m, &ways[0], &proof);
    for (unsigned i = 0; i < 10 && !seam_call(m->node.http, 0); i++)
        seam_node_answer(&m->node, &m->store);
    machine_assert_sent(m, "POST https://app.example/first\nAccept: application/json\n"
                           "Authorization: Bearer t\n\n");
    reply(m, &ways[0], &heard);
    seam_settle(m->node.loop);
    assert_int_equal(seam_query_count(m->node.pool), 0); /* recorded once, at the end */
    machine_assert_sent(m, "POST https://files.example/n\nAccept: application/json\n"
                           "Authorization: Bearer t\n\n");
    reply(m, &ways[0], &heard);
    assert_int_equal(machine_end(m), EXEC_SUCCEEDED);
}

/* ---- cancelled ---- */

/* Runs until that call is under way and a byte of the first call has been sent, or until the run
 * has ended. */
static void go_to_call(struct machine *m, const struct way *way, struct heard *heard, size_t at)
{
    for (unsigned i = 0; i < 40; i++) {
        seam_settle(m->node.loop);
        struct pg_query *query = seam_query(m->node.pool, 0);
        if (query)
            answer(m, query, heard);
        if (!query && seam_call(m->node.http, 0) && heard->replies == at) {
            assert_true(at > 0 || seam_call_send(seam_call(m->node.http, 0)));
            return;
        }
        if (!query && seam_call(m->node.http, 0))
            reply(m, way, heard);
    }
}

/* Once the app may have seen a request, the execution continues until it is recorded. */
static void it_may_be_left_at_each_call(void **state)
{
    struct machine *m = *state;
    for (size_t i = 0; i < ARRAY_LEN(ways); i++)
        for (size_t at = 0; at < 2; at++) {
            struct heard heard = {.replies = 0};
            struct exec_proof proof;
            begin(m, &ways[i], &proof);
            go_to_call(m, &ways[i], &heard, at);
            seam_run_leave(&m->run);
            go_through(m, &ways[i], &heard);
            bool is_ok = expect_way(m, &ways[i], &heard);
            (void)machine_end(m);
            assert_true(is_ok);
        }
}

#define SEQUENCE_TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        SEQUENCE_TEST(each_way_has_its_outcome),
        SEQUENCE_TEST(the_second_request_is_made_of_the_first_reply),
        SEQUENCE_TEST(it_may_be_left_at_each_call),
    };
    return cmocka_run_group_tests_name("exec/sequence", tests, NULL, NULL);
}
