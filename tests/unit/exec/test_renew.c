/*
 * An expired token is renewed before the call: each outcome of the renewal, what is stored, and how
 * the execution continues.
 */
#include "exec/machine.h"
#include "seam/table.h"

enum { CONNECTION = 7, SUSPENDED_MS = 20000 };

static const char app[] = APP(
    "app", "{\"type\":\"oauth2_client_credentials\",\"token_url\":\"https://auth.example/token\"}",
    "", ACTION("get", "read", GET, ""));

#define OLD "{\"client_id\":\"c\",\"client_secret\":\"s\",\"access_token\":\"old\"}"
#define NEW "{\"client_id\":\"c\",\"client_secret\":\"s\",\"access_token\":\"other\"}"
#define TOKEN                                                                                \
    "POST https://auth.example/token\nAccept: application/json\nContent-Type: "              \
    "application/x-www-form-urlencoded\n\ngrant_type=client_credentials&client_id=c&client_" \
    "secret=s"
#define CALL(token) \
    "GET https://app.example/get\nAccept: application/json\nAuthorization: Bearer " token "\n\n"
#define ENDED                                           \
    {                                                   \
        400, "{\"error\":\"invalid_grant\"}", SEAM_SENT \
    }
#define GIVEN                                                            \
    {                                                                    \
        200, "{\"access_token\":\"new\",\"expires_in\":3600}", SEAM_SENT \
    }

static struct machine *open_machine(void)
{
    const char *const manifests[] = {app, NULL};
    return machine_new(manifests, (struct seam_tuning){0});
}

/* The answers to each statement in order, the last of which is repeated: o done, n no row, c no
 * row because another writer changed it, f refused, i invalid, s done while the process is
 * paused. */
struct way {
    const char *name, *claim, *set, *lost;
    struct {
        unsigned status; /* 0: it fails in that phase */
        const char *body;
        enum seam_phase phase;
    } token;
    enum exec_reason reason;
    const char *call; /* the token that is sent in the end; NULL: none */
    const char *message;
    bool is_marked;
    const char *credential; /* NULL: like the client's */
};

static const struct way ways[] = {
    {.name = "renewed",
     .claim = "o",
     .set = "o",
     .token = GIVEN,
     .reason = EXEC_SUCCEEDED,
     .call = CALL("new")},
    {.name = "another process has it",
     .claim = "nno",
     .set = "o",
     .token = GIVEN,
     .reason = EXEC_SUCCEEDED,
     .call = CALL("new")},
    {.name = "another process has done it",
     .claim = "c",
     .token = GIVEN,
     .reason = EXEC_SUCCEEDED,
     .call = CALL("other")},
    {.name = "no claim",
     .claim = "f",
     .token = GIVEN,
     .reason = EXEC_UNAVAILABLE,
     .message = "could not be renewed"},
    {.name = "suspended",
     .claim = "so",
     .set = "o",
     .token = GIVEN,
     .reason = EXEC_SUCCEEDED,
     .call = CALL("new")},
    {.name = "suspended again and again",
     .claim = "s",
     .token = GIVEN,
     .reason = EXEC_TIMED_OUT,
     .message = "could not be renewed"},
    {.name = "stored at the third try",
     .claim = "o",
     .set = "ffo",
     .token = GIVEN,
     .reason = EXEC_SUCCEEDED,
     .call = CALL("new")},
    {.name = "the row has another label",
     .claim = "o",
     .set = "no",
     .token = GIVEN,
     .reason = EXEC_SUCCEEDED,
     .call = CALL("new")},
    {.name = "a person was faster",
     .claim = "o",
     .set = "c",
     .token = GIVEN,
     .reason = EXEC_SUCCEEDED,
     .call = CALL("other")},
    {.name = "cannot be stored",
     .claim = "o",
     .set = "i",
     .token = GIVEN,
     .reason = EXEC_UNAVAILABLE,
     .message = "could not be renewed"},
    {.name = "the grant has ended",
     .claim = "o",
     .lost = "o",
     .token = ENDED,
     .reason = EXEC_REAUTH_REQUIRED,
     .message = "no longer works",
     .is_marked = true},
    {.name = "it is marked at the third try",
     .claim = "o",
     .lost = "ffo",
     .token = ENDED,
     .reason = EXEC_REAUTH_REQUIRED,
     .message = "no longer works",
     .is_marked = true},
    {.name = "it is marked as it is now",
     .claim = "o",
     .lost = "no",
     .token = ENDED,
     .reason = EXEC_REAUTH_REQUIRED,
     .message = "no longer works",
     .is_marked = true},
    {.name = "it has ended, and another one exists",
     .claim = "o",
     .lost = "c",
     .token = ENDED,
     .reason = EXEC_SUCCEEDED,
     .call = CALL("other")},
    {.name = "the client is refused",
     .claim = "o",
     .token = {401, "{\"error\":\"invalid_client\"}", SEAM_SENT},
     .reason = EXEC_UNREACHABLE,
     .message = "The token of the connection to The App could not be renewed: "},
    {.name = "an outage",
     .claim = "o",
     .token = {503, "", SEAM_SENT},
     .reason = EXEC_UNREACHABLE,
     .message = "HTTP 503"},
    {.name = "silence",
     .claim = "o",
     .token = {0, NULL, SEAM_SILENCE},
     .reason = EXEC_TIMED_OUT,
     .message = "could not be renewed"},
    {.name = "no server",
     .claim = "o",
     .token = {0, NULL, SEAM_DIAL},
     .reason = EXEC_UNREACHABLE,
     .message = "could not be renewed"},
    {.name = "no refresh token",
     .credential = "{\"access_token\":\"old\"}",
     .reason = EXEC_SUCCEEDED,
     .call = CALL("old")},
};

struct course {
    size_t claims, sets, losses, tokens, calls;
    bool is_released;
};

static struct connection *row_of(struct machine *m)
{
    return &m->store.connections.items[0];
}

/* Acts as another writer that stores other tokens. */
static void change_row(struct machine *m)
{
    int64_t rev = row_of(m)->rev;
    m->store.connections.count = 0;
    struct connection *row =
        machine_connect(m, "app", "oauth2_client_credentials", CONNECTION, NEW);
    row->rev = rev + 1;
}

static char next_answer(const char *answers, size_t *at)
{
    assert_non_null(answers);
    size_t len = strlen(answers);
    char answer = answers[*at < len ? *at : len - 1];
    (*at)++;
    return answer;
}

/* Returns true if the statement is done and a row has to be returned. */
static bool answer_as(struct machine *m, struct pg_query *query, char how)
{
    if (how == 'f' || how == 'i') {
        seam_query_fail(query, how == 'f' ? ERR_BUSY : ERR_INVALID);
        return false;
    }
    if (how == 's')
        seam_pass_ms(m->node.loop, SUSPENDED_MS);
    if (how == 'c')
        change_row(m);
    if (how == 'n' && strcmp(query->stmt->name, "connection_claim") != 0)
        row_of(m)->rev++; /* another writer has changed the label */
    if (how == 'n' || how == 'c')
        seam_query_done(query);
    return how == 'o' || how == 's';
}

static void store_token(struct machine *m, const struct pg_query *query)
{
    assert_int_equal(seam_i64(query, "rev"), row_of(m)->rev);
    row_of(m)->sealed = seam_keep(&m->store, seam_text(query, "sealed"));
    row_of(m)->expires_at = seam_time(query, "expires_at");
    row_of(m)->rev++;
    /* the lifetime starts at the time of the request */
    assert_true(row_of(m)->expires_at <= seam_store_now() + INT64_C(3600) * 1000000);
}

static void answer(struct machine *m, const struct way *way, struct course *course,
                   struct pg_query *query)
{
    const char *name = query->stmt->name;
    bool is_set = strcmp(name, "connection_credentials_set") == 0;
    bool is_lost = strcmp(name, "connection_lost") == 0;
    if (strcmp(name, "connection_claim") == 0) {
        assert_true(seam_i64(query, "lease_ms") > 0);
        if (answer_as(m, query, next_answer(way->claim, &course->claims))) {
            seam_rows(query, 1);
            seam_query_done(query);
        }
    } else if (strcmp(name, "connection_release") == 0) {
        course->is_released = true;
        seam_query_done(query);
    } else if (is_set || is_lost) {
        if (!answer_as(m, query,
                       is_set ? next_answer(way->set, &course->sets)
                              : next_answer(way->lost, &course->losses)))
            return;
        if (is_set)
            store_token(m, query);
        else
            row_of(m)->error = seam_keep(&m->store, seam_text(query, "error"));
        const struct pg_value cells[] = {pg_i64(seam_i64(query, "rev") + 1), pg_bool(false)};
        seam_row(query, cells);
        seam_query_done(query);
    } else if (strcmp(name, "oauth_client_get") == 0) {
        seam_query_done(query); /* the app has no client of its own */
    } else {
        seam_rows_answer(&m->store, query);
    }
}

static void reply(struct machine *m, const struct way *way, struct course *course)
{
    struct http_call *call = machine_call(m);
    if (slice_eq_cstr(call->method, "GET")) {
        course->calls++;
        assert_non_null(way->call);
        machine_assert_sent(m, way->call);
        seam_call_reply(call, 200, "{}");
        return;
    }
    course->tokens++;
    machine_assert_sent(m, TOKEN);
    if (way->token.status)
        seam_call_reply(call, way->token.status, way->token.body);
    else
        seam_call_fail(call, way->token.phase);
}

static void go_through(struct machine *m, const struct way *way, struct course *course)
{
    machine_connect(m, "app", "oauth2_client_credentials", CONNECTION,
                    way->credential ? way->credential : OLD)
        ->expires_at = seam_store_now() - 10000000;
    machine_begin(m, "app", "get", "{}");
    for (unsigned i = 0; i < 1000 && (i < 20 || !seam_run_has_ended(&m->run)); i++) {
        seam_settle(m->node.loop);
        struct pg_query *query = seam_query(m->node.pool, 0);
        if (query)
            answer(m, way, course, query);
        else if (seam_call(m->node.http, 0))
            reply(m, way, course);
        else if (!seam_run_has_ended(&m->run))
            (void)seam_pass_timer(m->node.loop, 60000);
    }
}

static bool expect(const struct way *way, const char *what, bool holds, slice is)
{
    if (!holds)
        print_error("%s: %s: %.*s\n", way->name, what, (int)is.len, is.ptr ? is.ptr : "");
    return holds;
}

static void each_renewal_has_its_end(void **state)
{
    bool is_ok = true;
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(ways); i++) {
        const struct way *way = &ways[i];
        struct machine *m = open_machine(); /* has no record of earlier failures */
        struct course course = {.claims = 0};
        go_through(m, way, &course);
        assert_true(seam_run_has_ended(&m->run));
        const struct exec_outcome *out = &m->run.out;
        is_ok &= expect(way, "the reason", out->reason == way->reason,
                        slice_cstr(exec_reason_name(out->reason)));
        is_ok &= expect(way, "the call", course.calls == (way->call != NULL), SLICE_NONE);
        is_ok &= expect(way, "tokens asked for, at most once", course.tokens <= 2, SLICE_NONE);
        is_ok &= expect(way, "the message",
                        !way->message || slice_find(out->message, slice_cstr(way->message)) >= 0,
                        out->message);
        is_ok &= expect(way, "the mark", (row_of(m)->error.ptr != NULL) == way->is_marked,
                        row_of(m)->error);
        (void)machine_end(m);
        assert_int_equal(machine_free(m), 0);
    }
    assert_true(is_ok);
}

static void every_step_and_jump_was_taken(void **state)
{
    (void)state;
    assert_int_equal(seam_table_missing("token_renewal"), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_renewal_has_its_end),
        cmocka_unit_test(every_step_and_jump_was_taken),
    };
    seam_table_watch();
    return cmocka_run_group_tests_name("exec/renew", tests, NULL, NULL);
}
