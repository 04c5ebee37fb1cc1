/*
 * Authorization code and PKCE: the URL matches the manifest, a state is valid once and only for the
 * person who began it, the callback is checked before anything is sent, and the granted scopes are
 * stored and reported.
 */
#include "unit/connect/testing.h"

#include "base/encode.h"
#include "connect/save.h"
#include "vault/key.h"

#define GRANT(more) REPLY_200("{\"access_token\":\"a1\"" more "}")

/* One begin, or one finish that also stores the grant, with copies of the results. */
struct way {
    struct op op;
    struct oauth_begin_request begin_request;
    struct oauth_finish_request finish_request;
    struct oauth_begin begin;
    struct oauth_finish finish;
    struct connect_save save; /* saves the grant */
    struct secret *credential;
    bool is_finishing, is_freed;
    char url[4000], state[64], message[400], scopes[200], missing[200];
    enum oauth_outcome outcome;
};

static enum op_result step_start(struct op *op)
{
    struct way *way = CONTAINER_OF(op, struct way, op);
    if (way->is_finishing)
        oauth_finish_start(bench.service, &way->finish, &way->finish_request, op);
    else
        oauth_begin_start(bench.service, &way->begin, &way->begin_request, op);
    return OP_WAIT;
}

static void copy(char *out, size_t room, slice text)
{
    (void)snprintf(out, room, "%.*s", SLICE_ARG(text));
}

static enum op_result step_save(struct op *op)
{
    struct way *way = CONTAINER_OF(op, struct way, op);
    const struct oauth_finish *finish = &way->finish;
    way->credential = way->is_finishing ? finish->credential : NULL;
    if (way->is_finishing) {
        copy(way->scopes, sizeof(way->scopes), finish->scopes);
        copy(way->missing, sizeof(way->missing), finish->scopes_missing);
        copy(way->message, sizeof(way->message), finish->message);
    }
    if (!way->is_finishing || finish->outcome != OAUTH_DONE)
        return OP_NEXT;
    const struct connect_save_request in = {
        .account_id = way->finish_request.account_id,
        .integration_id = arena_dup(&op->arena, finish->integration_id),
        .auth_kind = SLICE("oauth2"),
        .connection_id = finish->connection_id,
        .label = finish->label.ptr ? arena_dup(&op->arena, finish->label) : SLICE_NONE,
        .params = finish->params.ptr ? arena_dup(&op->arena, finish->params) : SLICE_NONE,
        .credential = secret_reveal(way->credential),
        .scopes = arena_dup(&op->arena, finish->scopes),
        .expires_at = finish->expires_at,
        .by.actor = SLICE("key:1"),
    };
    connect_save_start(bench.service, &way->save, &in, op);
    return OP_WAIT;
}

static enum op_result step_look(struct op *op)
{
    struct way *way = CONTAINER_OF(op, struct way, op);
    way->outcome = way->is_finishing ? way->finish.outcome : way->begin.outcome;
    if (!way->is_finishing)
        copy(way->message, sizeof(way->message), way->begin.message);
    assert_true((way->outcome == OAUTH_DONE) == (way->message[0] == '\0'));
    assert_true((way->credential != NULL) == (way->is_finishing && way->outcome == OAUTH_DONE));
    if (way->credential)
        assert_int_equal(way->save.result, CONNECT_SAVED);
    secret_unref(way->credential);
    if (!way->is_finishing)
        copy(way->url, sizeof(way->url), way->begin.url);
    return OP_DONE;
}

static void on_free(struct op *op)
{
    CONTAINER_OF(op, struct way, op)->is_freed = true;
}

static const struct op_step steps[] = {
    {"start", step_start, 0}, {"save", step_save, 0}, {"look", step_look, 0}};
static const struct op_class way_class = {
    .name = "way", .steps = steps, .step_count = ARRAY_LEN(steps), .free = on_free};

static void start(struct way *way, bool is_finishing)
{
    way->is_finishing = is_finishing;
    way->is_freed = false;
    op_start(&way->op, &way_class, bench.db.loop, NULL, 65536);
}

static enum oauth_outcome go(struct way *way, bool is_finishing)
{
    start(way, is_finishing);
    pg_bench_until(&bench.db, &way->is_freed);
    return way->outcome;
}

/* Stores a parameter of the URL, decoded, in `value`. */
static bool param(const char *url, const char *name, char *value, size_t room)
{
    slice query = slice_cstr(strchr(url, '?') + 1);
    struct buf out;
    value[0] = '\0';
    while (query.len > 0) {
        slice text = slice_split(&query, '&'), key = slice_split(&text, '=');
        if (!slice_eq_cstr(key, name))
            continue;
        buf_init(&out, 4000);
        assert_int_equal(decode_percent(&out, text, false), OK);
        copy(value, room, buf_slice(&out));
        buf_deinit(&out);
        return true;
    }
    return false;
}

static void expect_param(const char *url, const char *name, const char *want)
{
    char value[400];
    assert_true(param(url, name, value, sizeof(value)));
    assert_string_equal(value, want);
}

/* A successful begin, and the request that finishes it. */
static struct way *begun(int64_t connection_id)
{
    static struct way way;
    way = (struct way){.begin_request = {.account_id = bench.account,
                                         .integration_id = SLICE("demo"),
                                         .session_id = SLICE("browser one"),
                                         .redirect_uri = SLICE("https://sluice.example/back?a=b"),
                                         .label = SLICE("Mine"),
                                         .connection_id = connection_id}};
    assert_int_equal(go(&way, false), OAUTH_DONE);
    assert_true(param(way.url, "state", way.state, sizeof(way.state)));
    way.finish_request = (struct oauth_finish_request){.account_id = bench.account,
                                                       .session_id = SLICE("browser one"),
                                                       .state = slice_cstr(way.state),
                                                       .code = SLICE("the-code")};
    return &way;
}

static int64_t count(const char *what)
{
    char text[400];
    (void)snprintf(text, sizeof(text), "select count(*) from sluice.%s", what);
    return items_ask(bench.conninfo, text);
}

/* ---- tests ---- */

static void the_address_is_what_the_manifest_says(void **state)
{
    char challenge[100], first[100], second[100];
    (void)state;
    struct way *way = begun(0);
    assert_int_equal(
        strncmp(way->url, "https://login.example/authorize?tenant=1&response_type=", 55), 0);
    expect_param(way->url, "response_type", "code");
    expect_param(way->url, "client_id", "client");
    expect_param(way->url, "redirect_uri", "https://sluice.example/back?a=b");
    expect_param(way->url, "scope", "a,b");
    expect_param(way->url, "prompt", "consent");
    expect_param(way->url, "code_challenge_method", "S256");
    assert_true(param(way->url, "code_challenge", challenge, sizeof(challenge)));
    copy(first, sizeof(first), slice_cstr(way->state));
    assert_int_equal(strlen(first), 43);
    assert_int_equal(strlen(challenge), 43);
    copy(second, sizeof(second), slice_cstr(begun(0)->state));
    assert_string_not_equal(first, second);
    assert_null(strstr(way->url, "client-secret"));
}

static void a_code_becomes_a_connection(void **state)
{
    static const struct peer_script grant = {
        .reply = GRANT(",\"refresh_token\":\"r1\",\"expires_in\":60,\"scope\":\"a,c\""),
        .then = PEER_FIN};
    char challenge[100], want[100];
    uint8_t hash[32];
    struct buf text;
    (void)state;
    struct way *way = begun(0);
    assert_true(param(way->url, "code_challenge", challenge, sizeof(challenge)));
    bench_answers(&grant, 1);
    assert_int_equal(go(way, true), OAUTH_DONE);
    assert_string_equal(way->scopes, "a c");
    assert_string_equal(way->missing, "b");
    assert_false(way->finish.is_refresh_token_missing || way->finish.connection_id);
    bench_expect_credential(way->save.connection_id,
                            "{\"access_token\":\"a1\",\"refresh_token\":\"r1\"}");
    (void)snprintf(want, sizeof(want),
                   "connection where id = %lld and is_default and label = 'Mine' and "
                   "scopes = 'a c'",
                   (long long)way->save.connection_id);
    assert_int_equal(count(want), 1);
    assert_int_equal(count("audit_event where kind = 'connection.added' and actor = 'key:1'"), 1);
    /* the challenge belongs to the verifier that was sent */
    slice body = buf_slice(&bench.peer.request);
    ptrdiff_t at = slice_find(body, SLICE("code_verifier="));
    assert_true(at > 0);
    vault_sha256(slice_first(slice_from(body, (size_t)at + 14), 43), hash);
    buf_init(&text, 64);
    encode_base64url(&text, slice_of(hash, sizeof(hash)));
    assert_true(slice_eq_cstr(buf_slice(&text), challenge));
    buf_deinit(&text);
    assert_true(slice_find(body, SLICE("code=the-code&redirect_uri=https%3A%2F%2Fsluice.example%2F"
                                       "back%3Fa%3Db&")) > 0);
    /* the state was used */
    assert_int_equal(go(way, true), OAUTH_STATE_UNKNOWN);
    assert_int_equal(bench.peer.requests, 1);
}

static void a_state_is_only_for_its_session(void **state)
{
    static const struct peer_script grant = {.reply = GRANT(""), .then = PEER_FIN};
    (void)state;
    struct way *way = begun(0);
    bench_answers(&grant, 1);
    way->finish_request.session_id = SLICE("browser two");
    assert_int_equal(go(way, true), OAUTH_STATE_UNKNOWN);
    way->finish_request.session_id = SLICE("browser one");
    way->finish_request.account_id = uuid_v7();
    assert_int_equal(go(way, true), OAUTH_STATE_UNKNOWN);
    way->finish_request.account_id = bench.account;
    way->finish_request.state = SLICE("guessed");
    assert_int_equal(go(way, true), OAUTH_STATE_UNKNOWN);
    way->finish_request.state = SLICE_NONE;
    assert_int_equal(go(way, true), OAUTH_STATE_UNKNOWN);
    assert_int_equal(bench.peer.requests, 0);
    way->finish_request.state = slice_cstr(way->state); /* none of these attempts has used up the
                                                         * state */
    assert_int_equal(go(way, true), OAUTH_DONE);
    assert_string_equal(way->scopes, "a b"); /* the app does not report scopes, so the requested
                                              * scopes count */
    assert_string_equal(way->missing, "");
    way = begun(0);
    items_tell(bench.conninfo, "update sluice.oauth_begun set expires_at = now()");
    assert_int_equal(go(way, true), OAUTH_STATE_UNKNOWN);
    assert_int_equal(bench.peer.requests, 1);
}

static void answers_are_checked_before_anything_is_sent(void **state)
{
    static const struct {
        struct oauth_finish_request answer;
        enum oauth_outcome outcome;
        const char *message;
    } table[] = {
        {{.code = {"c", 1}, .iss = {"https://evil.example", 20}}, OAUTH_ISSUER_WRONG, "Demo"},
        {{.code = {"c", 1}, .iss = {"nonsense", 8}}, OAUTH_ISSUER_WRONG, "Demo"},
        {{.code = {"c", 1}, .iss = {"", 0}}, OAUTH_ISSUER_WRONG, "Demo"},
        {{.error = {"access_denied", 13}}, OAUTH_DENIED, "access_denied"},
        {{.error = {"<script>\r\n", 10}}, OAUTH_DENIED, "an error"},
        {{.code = {NULL, 0}}, OAUTH_DENIED, "no code"},
    };
    (void)state;
    bench.peer.requests = 0;
    for (size_t i = 0; i < ARRAY_LEN(table); i++) {
        struct way *way = begun(0);
        way->finish_request.code = table[i].answer.code;
        way->finish_request.iss = table[i].answer.iss;
        way->finish_request.error = table[i].answer.error;
        assert_int_equal(go(way, true), table[i].outcome);
        assert_non_null(strstr(way->message, table[i].message));
        assert_int_equal(go(way, true), OAUTH_STATE_UNKNOWN); /* the state is then used up */
    }
    assert_int_equal(bench.peer.requests, 0);
    static const struct peer_script grant = {.reply = GRANT(",\"expires_in\":9"), .then = PEER_FIN};
    bench_answers(&grant, 1);
    struct way *way = begun(0);
    way->finish_request.iss = SLICE("https://login.example/tenant");
    assert_int_equal(go(way, true), OAUTH_DONE);
    assert_true(way->finish.is_refresh_token_missing);
}

struct failing_row {
    struct peer_script script;
    enum oauth_outcome outcome;
};

static void fail_as_told(const struct failing_row *row)
{
    struct way *way = begun(0);
    bench_answers(&row->script, 1);
    assert_int_equal(go(way, true), row->outcome);
    assert_null(strstr(way->message, "the-code"));
}

static void exchanges_that_fail_leave_nothing(void **state)
{
    static const struct failing_row table[] = {
        {{.reply = REPLY_400("{\"error\":\"invalid_grant\"}"), .then = PEER_FIN},
         OAUTH_EXCHANGE_REFUSED},
        {{.reply = REPLY_400("{\"error\":\"invalid_client\"}"), .then = PEER_FIN},
         OAUTH_EXCHANGE_REFUSED},
        {{.reply = "HTTP/1.1 503 Away\r\nContent-Length: 0\r\n\r\n", .then = PEER_FIN},
         OAUTH_EXCHANGE_OUTAGE},
        {{.then = PEER_RESET}, OAUTH_EXCHANGE_OUTAGE},
    };
    static const struct failing_row deaf = {{.then = PEER_DEAF}, OAUTH_EXCHANGE_OUTAGE};
    int64_t before = count("connection");
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(table); i++)
        fail_as_told(&table[i]);
    struct connect_service *patient = bench_impatient(200);
    fail_as_told(&deaf);
    bench_patient_again(patient);
    assert_int_equal(count("connection"), before);
}

static void a_connection_is_mended(void **state)
{
    static const struct peer_script slow = {
        .reply = GRANT(",\"refresh_token\":\"r2\""), .then = PEER_FIN, .is_trickled = true};
    int64_t id = bench_connection("{\"access_token\":\"a0\"}");
    struct secret *credential;
    char text[300];
    unsigned rev;
    (void)state;
    (void)snprintf(text, sizeof(text),
                   "update sluice.connection set status = 'reauth_required', error = 'x', "
                   "label = 'kept' where id = %lld",
                   (long long)id);
    items_tell(bench.conninfo, text);
    struct way *way = begun(id);
    bench_answers(&slow, 1);
    start(way, true);
    while (bench.peer.requests == 0)
        (void)loop_turn(bench.db.loop, true);
    (void)snprintf(text, sizeof(text), "update sluice.connection set rev = rev + 1 where id = %lld",
                   (long long)id);
    items_tell(bench.conninfo, text); /* while the token endpoint answers */
    pg_bench_until(&bench.db, &way->is_freed);
    assert_int_equal(way->outcome, OAUTH_DONE);
    assert_true(way->finish.connection_id == id && way->save.connection_id == id);
    struct connection row = bench_row(id, &credential);
    secret_unref(credential);
    rev = (unsigned)row.rev;
    assert_true(row.status == CONNECTION_LIVE && !row.error.ptr && rev >= 3);
    bench_expect_credential(id, "{\"access_token\":\"a1\",\"refresh_token\":\"r2\"}");
    (void)snprintf(text, sizeof(text), "connection where id = %lld and label = 'kept'",
                   (long long)id);
    assert_int_equal(count(text), 1);
    assert_int_equal(count("audit_event where kind = 'connection.reconnected'"), 1);
}

static void the_customers_own_server_is_asked(void **state)
{
    static const struct peer_script grants[] = {
        {.reply = GRANT(",\"refresh_token\":\"r1\",\"expires_in\":60"), .then = PEER_FIN},
        {.reply = GRANT(",\"refresh_token\":\"r2\""), .then = PEER_FIN}};
    static struct way way;
    struct catalog *usual = bench.catalog;
    (void)state;
    bench.catalog = bench_catalog_at(http_peer_port(&bench.peer), "/${connection.params.realm}");
    way = (struct way){.begin_request = {.account_id = bench.account,
                                         .integration_id = SLICE("demo"),
                                         .session_id = SLICE("browser one"),
                                         .redirect_uri = SLICE("https://sluice.example/back")}};
    assert_int_equal(go(&way, false), OAUTH_UNSUPPORTED); /* no params */
    way.begin_request.params = SLICE("{\"realm\":\"../west\"}");
    assert_int_equal(go(&way, false), OAUTH_UNSUPPORTED);
    way.begin_request.params = SLICE("{\"realm\":\"west\"}");
    bench_answers(grants, 2);
    for (int i = 0; i < 2; i++) { /* connected, then reconnected with the same params */
        assert_int_equal(go(&way, false), OAUTH_DONE);
        assert_int_equal(strncmp(way.url, "https://login.example/west/authorize?tenant=1&", 46), 0);
        assert_true(param(way.url, "state", way.state, sizeof(way.state)));
        way.finish_request = (struct oauth_finish_request){.account_id = bench.account,
                                                           .session_id = SLICE("browser one"),
                                                           .state = slice_cstr(way.state),
                                                           .iss = SLICE("https://login.example"),
                                                           .code = SLICE("the-code")};
        assert_int_equal(go(&way, true), OAUTH_DONE);
        assert_true(slice_starts_with(buf_slice(&bench.peer.request), SLICE("POST /west/token ")));
        way.begin_request.connection_id = way.save.connection_id;
        way.begin_request.params = SLICE_NONE;
    }
    catalog_unref(bench.catalog);
    bench.catalog = usual;
}

static void what_cannot_begin(void **state)
{
    static struct way way;
    (void)state;
    struct oauth_begin_request good = {.account_id = bench.account,
                                       .integration_id = SLICE("demo"),
                                       .session_id = SLICE("s"),
                                       .redirect_uri = SLICE("https://s/back")};
    way = (struct way){.begin_request = good};
    way.begin_request.integration_id = SLICE("nothing");
    assert_int_equal(go(&way, false), OAUTH_UNSUPPORTED);
    way = (struct way){.begin_request = good};
    way.begin_request.connection_id = 12345;
    assert_int_equal(go(&way, false), OAUTH_CONNECTION_UNKNOWN);
    items_tell(bench.conninfo, "delete from sluice.oauth_client");
    way = (struct way){.begin_request = good};
    assert_int_equal(go(&way, false), OAUTH_NO_CLIENT);
    assert_string_equal(way.url, "");
    bench_client("client", "client-secret");
}

/* Each allocation in turn fails: the begin succeeds or fails cleanly. */
static void failing_allocations(void **state)
{
    static struct way way;
    (void)state;
    for (uint64_t n = 1, hits = 1; hits; n++) {
        way = (struct way){.begin_request = {.account_id = bench.account,
                                             .integration_id = SLICE("demo"),
                                             .session_id = SLICE("s"),
                                             .redirect_uri = SLICE("https://s/back")}};
        mem_fail_at(n, 1);
        enum oauth_outcome outcome = go(&way, false);
        hits = mem_fail_hits();
        mem_fail_at(0, 0);
        assert_true(outcome == OAUTH_DONE || hits);
        assert_true((outcome == OAUTH_DONE) == (way.url[0] != '\0'));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_address_is_what_the_manifest_says),
        cmocka_unit_test(a_code_becomes_a_connection),
        cmocka_unit_test(a_state_is_only_for_its_session),
        cmocka_unit_test(answers_are_checked_before_anything_is_sent),
        cmocka_unit_test(exchanges_that_fail_leave_nothing),
        cmocka_unit_test(a_connection_is_mended),
        cmocka_unit_test(the_customers_own_server_is_asked),
        cmocka_unit_test(what_cannot_begin),
        cmocka_unit_test(failing_allocations),
    };
    return cmocka_run_group_tests(tests, bench_set_up, bench_tear_down);
}
