/*
 * The table of an execution: every step and every jump, on the seam. Each test takes one path
 * through it. The last test checks that no step or jump was left out.
 */
#include "exec/steps.h"
#include "seam/table.h"
#include "seam/walk.h"

/* ---- before anything ---- */

static void past_its_account_s_share(void **state)
{
    struct bench *b = *state;
    struct seam_run *runs = mem_zalloc(MANY * sizeof(*runs));
    size_t refused = 0;
    for (size_t i = 0; i < MANY; i++) {
        want(b, &runs[i], "plain", "get", "{}");
        seam_run_start(&runs[i]);
    }
    seam_settle(b->node.loop);
    for (size_t i = 0; i < MANY; i++)
        if (!seam_run_has_ended(&runs[i]))
            seam_run_cancel(&runs[i]);
    seam_settle(b->node.loop);
    for (size_t i = 0; i < MANY; i++) {
        refused += runs[i].out.reason == EXEC_UNAVAILABLE;
        seam_run_end(&runs[i]);
    }
    seam_settle(b->node.loop);
    assert_true(refused > 0 && refused < MANY);
    mem_free(runs);
}

static void what_cannot_run_as_it_is(void **state)
{
    struct bench *b = *state;
    want_plain(b, "none", NULL);
    seam_run_start(&b->run);
    seam_settle(b->node.loop);
    assert_int_equal(end(b), EXEC_ACTION_UNKNOWN);
    want(b, &b->run, "plain", "get", "{\"q\":1}");
    seam_run_start(&b->run);
    assert_int_equal(end(b), EXEC_INPUT_INVALID);
    want_plain(b, "put", NULL);
    b->run.exec.is_confirmed = false;
    seam_run_start(&b->run);
    assert_int_equal(end(b), EXEC_CONFIRMATION_MISSING);
    want_plain(b, "send", NULL); /* the file is missing */
    seam_run_start(&b->run);
    assert_int_equal(end(b), EXEC_INPUT_INVALID);
    want_plain(b, "get", NULL);
    b->run.exec.connection_id = CONNECTION;
    seam_run_start(&b->run);
    assert_int_equal(end(b), EXEC_CONNECTION_UNKNOWN);
    what_waits_for_an_approval(b);
}

/* Files are hashed for the key and decoded for the request. A run with a file that cannot be
 * decoded is refused after the look-up of its key; an unconfirmed run is refused before. */
static void files_are_taken_first(void **state)
{
    struct bench *b = *state;
    struct call_file file = {.name = SLICE("a"), .data = SLICE("aGk=")};
    want_plain(b, "send", "k");
    b->run.exec.files = &file;
    b->run.exec.file_count = 1;
    seam_run_start(&b->run);
    answer(b, "claim_find");
    answer(b, "claim_insert");
    assert_true(slice_eq_cstr(call(b)->body_parts[0], "hi"));
    reply(b, 200, "{}");
    assert_int_equal(end(b), EXEC_SUCCEEDED);
    want_plain(b, "send", "k");
    file = (struct call_file){.name = SLICE("a"), .data = SLICE("aG!=")};
    b->run.exec.files = &file;
    b->run.exec.file_count = 1;
    seam_run_start(&b->run);
    answer(b, "claim_find");
    assert_int_equal(end(b), EXEC_KEY_MISMATCH);
    want_plain(b, "send", "k");
    b->run.exec.files = &file;
    b->run.exec.file_count = 1;
    b->run.exec.is_confirmed = false;
    seam_run_start(&b->run);
    assert_int_equal(end(b), EXEC_CONFIRMATION_MISSING);
}

/* The policy has more to decide about it than a turn may, and less than a decision may. */
#define ONES      "1,1,1,1,1,1,1,1,1,1,1,1,1,"
#define COSTLY(q) "{\"q\":\"" q "\",\"n\":[" ONES ONES ONES ONES ONES "1]}"

/* Other work of the server comes between decisions that cost much, and the runs of another account
 * come between those of an account with many. */
static void costly_decisions_of_a_policy_share_turns(void **state)
{
    enum { RUNS = 8, OTHER = RUNS - 1, CANCELLED = 4 };
    struct bench *b = *state;
    struct seam_run runs[RUNS];
    struct policy *policy =
        policy_of("{\"default\":\"allow\",\"rules\":[{\"when\":\"length(map(&length($.input.n[?@ > "
                  "`5`]), input.n)) > `1000`\",\"decision\":\"deny\"}]}");
    size_t calls = 0, place = SIZE_MAX;
    for (size_t i = 0; i < RUNS; i++) {
        want(b, &runs[i], "plain", "get", i == OTHER ? COSTLY("other") : COSTLY("many"));
        runs[i].exec.policy = policy;
        runs[i].exec.account_id = i == OTHER ? uuid_v7() : seam_account;
        seam_run_start(&runs[i]);
    }
    for (int turns = 0; turns < 100 && calls < RUNS - 1; turns++) {
        (void)loop_turn(b->node.loop, false);
        if (turns == 2)
            seam_run_cancel(&runs[CANCELLED]); /* it waits */
        if (seam_call_count(b->node.http) == calls)
            continue;
        char *sent = seam_call_text(seam_call(b->node.http, calls));
        place = strstr(sent, "q=other") ? calls : place;
        mem_free(sent);
        assert_int_equal(seam_call_count(b->node.http), ++calls); /* one a turn */
    }
    assert_true(calls == RUNS - 1 && place <= 2);
    for (size_t i = 0; i < RUNS - 1; i++)
        reply(b, 200, "{}");
    for (size_t i = 0; i < RUNS; i++)
        assert_int_equal(end_of(b, &runs[i]), i == CANCELLED ? EXEC_CANCELLED : EXEC_SUCCEEDED);
    policy_unref(policy);
}

/* ---- the key ---- */

static void another_run_of_this_process_has_the_key(void **state)
{
    struct bench *b = *state;
    struct seam_run other, third;
    want_plain(b, "get", "k");
    seam_run_start(&b->run);
    answer(b, "claim_find");
    want(b, &other, "plain", "get", "{}"); /* the other run waits, and gets the same result */
    want(b, &third, "plain", "get", "{\"q\":\"x\"}");
    other.exec.idempotency_key = third.exec.idempotency_key = SLICE("k");
    seam_run_start(&other);
    seam_run_start(&third); /* until the first has the key */
    answer(b, "claim_insert");
    seam_pass_ms(b->node.loop, 60);
    assert_int_equal(end_of(b, &third), EXEC_KEY_MISMATCH);
    assert_false(seam_run_has_ended(&other));
    reply(b, 200, "{}");
    assert_int_equal(end(b), EXEC_SUCCEEDED);
    assert_int_equal(end_of(b, &other), EXEC_SUCCEEDED);
    assert_int_equal(b->store.executions.count, 1);
}

static void a_large_result_is_handed_on_by_its_id(void **state)
{
    struct bench *b = *state;
    struct seam_run other;
    want_plain(b, "get", "k");
    seam_run_start(&b->run);
    answer(b, "claim_find");
    want(b, &other, "plain", "get", "{}");
    other.exec.idempotency_key = SLICE("k");
    seam_run_start(&other);
    answer(b, "claim_insert");
    reply(b, 200, large_body());
    answer(b, "execution_finish_keep");
    assert_int_equal(end(b), EXEC_SUCCEEDED);
    assert_int_equal(end_of(b, &other), EXEC_SUCCEEDED);
}

static void a_bound_key_is_replayed(void **state)
{
    struct bench *b = *state;
    run_bound(b, "small", "{}");
    want_plain(b, "get", "small");
    seam_run_start(&b->run);
    assert_int_equal(end(b), EXEC_SUCCEEDED);
    assert_true(b->run.out.is_replayed);
    want(b, &b->run, "plain", "get", "{\"q\":\"other\"}");
    b->run.exec.idempotency_key = SLICE("small");
    seam_run_start(&b->run);
    assert_int_equal(end(b), EXEC_KEY_MISMATCH);
    run_bound(b, "large", large_body());
    want_plain(b, "get", "large");
    seam_run_start(&b->run);
    answer(b, "claim_find");
    answer(b, "execution_get_summary");
    assert_int_equal(end(b), EXEC_SUCCEEDED);
}

/* The key is bound between the look-up and the claim, so the execution is loaded by its id. */
static void a_claim_that_was_lost(void **state)
{
    struct bench *b = *state;
    for (unsigned i = 0; i < 5; i++) {
        char key[8] = {'k', (char)('0' + i)};
        want_plain(b, "get", key);
        seam_run_start(&b->run);
        struct pg_query *find = query(b, "claim_find");
        (void)seam_rows_do(&b->store, find);
        seam_query_done(find);
        query(b, "claim_insert");
        struct row_claim *row = ROW_ADD(&b->store, claims); /* held by another process */
        *row = (struct row_claim){.claim = {.account_id = seam_account,
                                            .key = seam_keep(&b->store, slice_cstr(key)),
                                            .execution_id = uuid_v7(),
                                            .owner = node_id(b->node.node),
                                            .integration_id = SLICE("plain"),
                                            .action_id = SLICE("get"),
                                            .started_at = seam_store_now()},
                                  .expires_at = seam_store_now() + 3600 * (int64_t)SECOND_US,
                                  .is_bound = i > 0};
        slice fingerprint = seam_text(query(b, "claim_insert"), "fingerprint");
        memcpy(row->claim.fingerprint, fingerprint.ptr, fingerprint.len);
        if (i == 4) /* under another request */
            row->claim.fingerprint[0] ^= 1;
        if (i == 1 || i == 2) {
            struct execution *execution = ROW_ADD(&b->store, executions);
            *execution = (struct execution){
                .account_id = seam_account,
                .id = row->claim.execution_id,
                .integration_id = SLICE("plain"),
                .action_id = SLICE("get"),
                .is_succeeded = true,
                .summary = i == 1 ? SLICE("{\"status\":\"succeeded\",\"output\":1}")
                                  : slice_cstr(large_body())};
        }
        answer(b, "claim_insert");
        if (i == 0) /* the key is in flight, so the run waits until the other process has
                     * released it */
            seam_find_claim(&b->store, seam_account, slice_cstr(key))->claim.key = SLICE("gone");
        if (i == 3) { /* its execution does not exist: the look-up is repeated until the key has
                       * expired */
            answer(b, "execution_get");
            seam_find_claim(&b->store, seam_account, slice_cstr(key))->claim.key = SLICE("gone");
        }
        if (i == 0 || i == 3) {
            while (!seam_call(b->node.http, 0)) {
                seam_node_answer(&b->node, &b->store);
                (void)seam_pass_timer(b->node.loop, 60000);
            }
            reply(b, 200, "{}");
        }
        assert_int_equal(end(b), i == 4 ? EXEC_KEY_MISMATCH : EXEC_SUCCEEDED);
    }
}

/* The key is bound or in flight at the look-up, and free afterwards. */
static void the_key_is_free_by_now(void **state)
{
    struct bench *b = *state;
    run_bound(b, "unread", "{}");
    b->store.executions.items[0].id = uuid_v7(); /* an execution that cannot be found */
    want_plain(b, "get", "unread");
    seam_run_start(&b->run);
    answer(b, "claim_find");
    seam_query_fail(query(b, "execution_get"), ERR_BUSY);
    assert_int_equal(end(b), EXEC_UNAVAILABLE);
    struct row_claim *claim = seam_find_claim(&b->store, seam_account, SLICE("unread"));
    claim->is_bound = false; /* the key is in flight on another node */
    want_plain(b, "get", "unread");
    seam_run_start(&b->run);
    answer(b, "claim_find");
    claim->claim.key = SLICE("released");
    for (unsigned i = 0; i < 20 && !seam_call(b->node.http, 0); i++) {
        seam_node_answer(&b->node, &b->store);
        (void)seam_pass_timer(b->node.loop, 60000);
    }
    reply(b, 200, "{}");
    assert_int_equal(end(b), EXEC_SUCCEEDED);
    run_bound(b, "large", large_body());
    want_plain(b, "get", "large");
    seam_run_start(&b->run);
    answer(b, "claim_find");
    seam_query_done(query(b, "execution_get_summary")); /* dropped with its partition */
    seam_find_claim(&b->store, seam_account, SLICE("large"))->claim.key = SLICE("expired");
    for (unsigned i = 0; i < 20 && !seam_call(b->node.http, 0); i++) {
        seam_node_answer(&b->node, &b->store);
        (void)seam_pass_timer(b->node.loop, 60000);
    }
    reply(b, 200, "{}");
    assert_int_equal(end(b), EXEC_SUCCEEDED);
    assert_false(b->run.out.is_replayed);
}

/* If the answer lacks the output or a part of it, the answer says where to read it. */
static enum exec_reason end_shown(struct bench *b)
{
    slice cut = SLICE("\"output\":{\"truncated\":true,\"bytes\":");
    char more[100], id[UUID_TEXT_LEN + 1];
    for (unsigned i = 0; i < 400 && !seam_run_has_ended(&b->run); i++) {
        seam_node_answer(&b->node, &b->store);
        (void)seam_pass_timer(b->node.loop, 60000);
    }
    slice summary = b->run.summary_json;
    uuid_format(b->run.out.execution_id, id);
    (void)snprintf(more, sizeof(more), "\"more\":\"/api/executions/%s?pointer=", id);
    assert_true(b->run.out.started_us > 0 && b->run.out.finished_us > 0);
    if (summary.len > 0 /* there was also memory for the test's own copy */ &&
        slice_find(summary, SLICE("\"items\":")) < 0) {
        assert_true(slice_find(summary, cut) > 0);
        assert_true(slice_find(summary, slice_cstr(more)) > 0);
    }
    return end(b);
}

/* Each allocation in turn fails while a large result is loaded and cut. */
static void a_replay_without_memory(void **state)
{
    struct bench *b = *state;
    run_bound(b, "k", large_body());
    for (uint64_t n = 1, hits = 1; hits > 0; n++) {
        want_plain(b, "get", "k");
        b->run.exec.output_bytes_max = 2000;
        seam_run_start(&b->run);
        seam_rows_answer(&b->store, query(b, "claim_find"));
        mem_fail_at(n, 1);
        seam_settle(b->node.loop);
        hits = mem_fail_hits();
        mem_fail_at(0, 0);
        assert_int_equal(end_shown(b), EXEC_SUCCEEDED);
    }
    want_plain(b, "get", NULL); /* the run's own result, which is recorded */
    for (uint64_t n = 1, hits = 1; hits > 0; n++) {
        want_plain(b, "get", NULL);
        b->run.exec.output_bytes_max = 2000;
        seam_run_start(&b->run);
        reply(b, 200, large_body());
        seam_rows_answer(&b->store, query(b, "execution_insert"));
        mem_fail_at(n, 1);
        seam_settle(b->node.loop);
        hits = mem_fail_hits();
        mem_fail_at(0, 0);
        assert_int_equal(end_shown(b), EXEC_SUCCEEDED);
    }
}

/* A stored result that gets no memory in time is not read. The answer says where to read it. */
static void a_replay_that_waits_for_memory_in_vain(void **state)
{
    struct bench *b = *state;
    run_bound(b, "k", large_body());
    want_plain(b, "get", "k");
    seam_run_start(&b->run);
    answer(b, "claim_find");
    while (!seam_run_has_ended(&b->run)) {
        assert_null(seam_query_named(b->node.pool, "execution_get_summary"));
        seam_node_answer(&b->node, &b->store);
        (void)seam_pass_timer(b->node.loop, 60000);
    }
    assert_int_equal(end_shown(b), EXEC_SUCCEEDED);
    assert_true(b->run.out.is_replayed);
    assert_true(seam_find_claim(&b->store, seam_account, SLICE("k"))->is_bound);
}

/* ---- admission ---- */

static void the_lease_is_lost_before_and_after_the_claim(void **state)
{
    struct bench *b = *state;
    want_plain(b, "put", NULL);
    seam_run_start(&b->run);
    struct pg_query *own = query(b, "claim_own");
    (void)seam_rows_do(&b->store, own);
    seam_pass_ms(b->node.loop, 15000); /* no heartbeat is answered */
    assert_false(node_may_write(b->node.node));
    seam_query_done(own);
    seam_settle(b->node.loop);
    assert_int_equal(seam_call_count(b->node.http), 0);
    seam_rows_answer(&b->store, query(b, "claim_release"));
    assert_int_equal(end(b), EXEC_UNAVAILABLE);
    seam_pass_ms(b->node.loop, 15000);
    want_plain(b, "put", NULL);
    seam_run_start(&b->run);
    seam_settle(b->node.loop);
    assert_int_equal(end(b), EXEC_UNAVAILABLE);
    assert_int_equal(b->store.claims.count, 0);
}

/* The client does not wait for the record, which is retried until the claim is free. */
static void a_claim_that_cannot_be_released_at_once(void **state)
{
    struct bench *b = *state;
    want_plain(b, "put", NULL);
    seam_run_start(&b->run);
    struct pg_query *own = query(b, "claim_own");
    (void)seam_rows_do(&b->store, own);
    seam_pass_ms(b->node.loop, 15000); /* no heartbeat is answered */
    seam_query_done(own);
    for (unsigned i = 0; i < 3; i++) {
        seam_query_fail(query(b, "claim_release"), ERR_BUSY);
        seam_settle(b->node.loop);
        assert_true(seam_run_has_ended(&b->run));
        assert_int_equal(b->run.out.reason, EXEC_UNAVAILABLE);
        assert_int_equal(b->store.claims.count, 1);
        assert_int_equal(exec_service_active(b->node.exec), 1); /* a shutdown waits for it */
        seam_pass_ms(b->node.loop, 500);
    }
    answer(b, "claim_release");
    assert_int_equal(b->store.claims.count, 0);
    assert_int_equal(exec_service_active(b->node.exec), 0);
    assert_int_equal(seam_call_count(b->node.http), 0);
    assert_int_equal(end(b), EXEC_UNAVAILABLE);
}

static void a_circuit_opens(void **state)
{
    struct bench *b = *state;
    struct seam_run reader;
    want(b, &reader, "plain", "get", "{}");
    seam_run_start(&reader);
    reply(b, 503, "{}"); /* another attempt is scheduled */
    assert_int_equal(seam_call_count(b->node.http), 0);
    for (unsigned i = 0; i < 6; i++) {
        want_plain(b, "put", NULL);
        seam_run_start(&b->run);
        seam_node_answer(&b->node, &b->store);
        if (seam_call(b->node.http, 0))
            reply(b, 500, "{}");
        enum exec_reason reason = end(b);
        assert_true(reason == EXEC_PROVIDER_ERROR || reason == EXEC_CIRCUIT_OPEN);
    }
    assert_int_equal(b->run.out.reason, EXEC_CIRCUIT_OPEN);
    assert_int_equal(end_of(b, &reader), EXEC_PROVIDER_ERROR); /* the first answer remains */
}

/* ---- the call ---- */

static void requests_and_pages_follow_one_another(void **state)
{
    struct bench *b = *state;
    want_plain(b, "two", NULL);
    seam_run_start(&b->run);
    reply(b, 200, "{\"url\":\"https://files.example/f\"}");
    assert_true(slice_eq_cstr(call(b)->url, "https://files.example/f"));
    reply(b, 200, "{}");
    assert_int_equal(end(b), EXEC_SUCCEEDED);
    want_plain(b, "get", NULL);
    b->run.exec.pages_max = 3;
    seam_run_start(&b->run);
    reply(b, 200, "{\"items\":[1],\"next\":\"b\"}");
    reply(b, 503, "{}"); /* the request is sent again after a while */
    (void)seam_pass_timer(b->node.loop, 10000);
    assert_true(slice_eq_cstr(call(b)->url, "https://app.example/get?q=b"));
    reply(b, 200, "{\"items\":[2]}");
    assert_int_equal(end(b), EXEC_SUCCEEDED);
    assert_int_equal(b->run.out.pages_read, 2);
    const struct execution *stored = &b->store.executions.items[b->store.executions.count - 1];
    assert_true(slice_find(stored->summary, SLICE("{\"items\":[1,2]}")) > 0);
}

/* A thread combines their parts. */
static void large_pages_follow_one_another(void **state)
{
    static char page[LARGE * 2];
    struct bench *b = *state;
    int len = snprintf(page, sizeof(page), "{\"next\":\"b\",\"items\":[\"%*s\"]}", 70000, "x");
    assert_in_range(len, 70000, sizeof(page) - 1);
    want_plain(b, "get", NULL);
    b->run.exec.pages_max = 2;
    seam_run_start(&b->run);
    reply(b, 200, page);
    reply(b, 200, "{\"items\":[2]}");
    assert_int_equal(end(b), EXEC_SUCCEEDED);
    assert_int_equal(b->run.out.pages_read, 2);
    const struct execution *stored = &b->store.executions.items[b->store.executions.count - 1];
    assert_true(slice_find(stored->summary, SLICE("x\",2]")) > 0);
}

static void a_large_reply_waits_for_memory(void **state)
{
    struct bench *b = *state;
    want_plain(b, "get", NULL);
    seam_run_start(&b->run);
    reply(b, 200, large_body());
    assert_int_equal(end(b), EXEC_SUCCEEDED);
}

/* ---- a caller's own row ---- */

static struct exec_proof proof_of(struct bench *b, uint64_t sent_boot_ns)
{
    return (struct exec_proof){.flow_id = uuid_v7(),
                               .owner = node_id(b->node.node),
                               .rev = 3,
                               .sent_boot_ns = sent_boot_ns};
}

static void begin_proven(struct bench *b, struct exec_proof *proof)
{
    want_plain(b, "put", NULL);
    b->run.exec.is_recorded_by_caller = true;
    b->run.exec.proof = proof;
    seam_run_start(&b->run);
    seam_settle(b->node.loop);
}

static void say_rev(struct bench *b, int64_t rev)
{
    struct pg_query *asked = query(b, "flow_rev");
    const struct pg_value cell = pg_i64(rev);
    seam_row(asked, &cell);
    seam_query_done(asked);
    seam_settle(b->node.loop);
}

static void a_proof_is_renewed_before_the_first_byte(void **state)
{
    struct bench *b = *state;
    struct exec_proof proof = proof_of(b, clock_boot_ns());
    begin_proven(b, &proof);
    struct http_call *held = call(b);
    seam_pass_ms(b->node.loop, EXEC_PROOF_MS + 1); /* a long handshake */
    seam_node_answer(&b->node, &b->store);
    assert_false(seam_call_send(held));
    say_rev(b, 3);
    reply(b, 200, "{}");
    assert_int_equal(end(b), EXEC_SUCCEEDED);
    assert_int_equal(b->run.out.attempts, 1);
    assert_int_equal(b->store.executions.count, 0);
}

static void a_proof_that_cannot_be_renewed(void **state)
{
    struct bench *b = *state;
    struct exec_proof proof = proof_of(b, 0);
    seam_pass_ms(b->node.loop, 2 * EXEC_PROOF_MS);
    seam_node_answer(&b->node, &b->store);
    begin_proven(b, &proof);
    say_rev(b, 4); /* cancelled by another process */
    assert_int_equal(end(b), EXEC_CANCELLED);
    begin_proven(b, &proof);
    seam_query_fail(query(b, "flow_rev"), ERR_BUSY);
    assert_int_equal(end(b), EXEC_UNAVAILABLE);
    assert_int_equal(seam_call_count(b->node.http), 0);
}

/* ---- the record ---- */

/* Fails each attempt to end the claim until the run's client has its answer. */
static void lose_the_record(struct bench *b, const char *name)
{
    for (unsigned i = 0; i < 400 && !seam_run_has_ended(&b->run); i++) {
        seam_query_fail(query(b, name), ERR_BUSY);
        seam_settle(b->node.loop);
        if (!seam_run_has_ended(&b->run))
            (void)seam_pass_timer(b->node.loop, 1000);
    }
    assert_true(seam_run_has_ended(&b->run));
}

/* The client gets its answer some seconds after the run's deadline: the effect of a write is
 * unknown, and 503 would mean that nothing was done. The record is stored later. */
static void a_record_that_takes_too_long(void **state)
{
    static const struct {
        unsigned status;
        const char *statement;
        enum exec_reason reason;
        enum exec_effect effect;
    } cases[] = {
        {200, "execution_finish_keep", EXEC_OUTCOME_UNKNOWN, EXEC_EFFECT_UNKNOWN},
        {500, "execution_finish_keep_event", EXEC_OUTCOME_UNKNOWN, EXEC_EFFECT_UNKNOWN},
        {404, "execution_finish_release", EXEC_UNAVAILABLE, EXEC_EFFECT_NONE},
    };
    struct bench *b = *state;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        size_t former = b->store.executions.count;
        char key[] = {'l', 'o', 'n', 'g', (char)('0' + i), 0};
        want_plain(b, "put", key);
        seam_run_start(&b->run);
        answer(b, "claim_find");
        answer(b, "claim_insert");
        reply(b, cases[i].status, "{}");
        lose_the_record(b, cases[i].statement);
        const struct exec_outcome out = b->run.out;
        assert_int_equal(out.reason, cases[i].reason);
        assert_int_equal(out.effect, cases[i].effect);
        assert_false(exec_outcome_is_retryable(&out));
        const struct node_claims claims = exec_service_claims(b->node.exec);
        assert_true(claims.is_carried(claims.owner, out.execution_id));
        (void)seam_pass_timer(b->node.loop, 1000);
        (void)end(b);
        for (unsigned j = 0; j < 4 && b->store.executions.count == former; j++) {
            (void)seam_pass_timer(b->node.loop, 1000);
            seam_node_answer(&b->node, &b->store);
        }
        assert_int_equal(b->store.executions.count, former + 1);
        assert_true(uuid_eq(b->store.executions.items[former].id, out.execution_id));
        assert_int_equal(b->store.executions.items[former].is_succeeded, cases[i].status == 200);
    }
}

/* Another process has recorded the outcome as unknown, and the client gets that outcome. */
static void a_record_that_is_not_ours_any_more(void **state)
{
    struct bench *b = *state;
    want_plain(b, "put", "k");
    seam_run_start(&b->run);
    answer(b, "claim_find");
    answer(b, "claim_insert");
    reply(b, 200, "{}");
    seam_query_done(query(b, "execution_finish_keep")); /* no row */
    seam_settle(b->node.loop);
    const struct exec_outcome *out = &b->run.out;
    assert_int_equal(out->reason, EXEC_OUTCOME_UNKNOWN);
    assert_int_equal(out->effect, EXEC_EFFECT_UNKNOWN);
    assert_false(uuid_is_nil(out->execution_id));
    assert_int_equal(end(b), EXEC_OUTCOME_UNKNOWN);
}

static void a_record_that_fails(void **state)
{
    struct bench *b = *state;
    want_plain(b, "put", NULL);
    seam_run_start(&b->run);
    answer(b, "claim_own");
    reply(b, 200, "{}");
    seam_query_fail(query(b, "execution_finish_release"), ERR_BUSY);
    assert_int_equal(end(b), EXEC_SUCCEEDED); /* the record was retried */
    want_plain(b, "get", NULL);
    seam_run_start(&b->run);
    reply(b, 200, "{}");
    seam_query_fail(query(b, "execution_insert"), ERR_INVALID);
    assert_int_equal(end(b), EXEC_INTERNAL);
}

/* ---- the connection ---- */

static void begin_machine(struct bench *b)
{
    want(b, &b->run, "machine", "get", "{}");
    seam_run_start(&b->run);
}

/* Another process renews the token, the database is unreachable, or the token cannot be renewed. */
static void a_token_that_has_run_out(void **state)
{
    struct bench *b = *state;
    connect_as(b, OLD, -10, true);
    begin_machine(b);
    answer(b, "connection_choice");
    (void)query(b, "connection_get");
    connect_as(b, NEW, 3600, true);
    seam_node_answer(&b->node, &b->store);
    reply(b, 200, "{}");
    assert_int_equal(end(b), EXEC_SUCCEEDED);
}

static void a_token_that_is_refused(void **state)
{
    struct bench *b = *state;
    connect_as(b, OLD, 3600, true);
    begin_machine(b);
    answer(b, "connection_choice");
    reply(b, 401, "{}");
    (void)query(b, "connection_get");
    connect_as(b, NEW, 3600, true);
    seam_node_answer(&b->node, &b->store);
    reply(b, 401, "{}"); /* the new token is also refused, so a person has to reconnect */
    seam_query_done(query(b, "connection_lost"));
    assert_int_equal(end(b), EXEC_REAUTH_REQUIRED);
}

/* A claimed run that did nothing: first the claim is released, then the connection is marked. */
static void a_token_that_is_refused_under_a_key(void **state)
{
    struct bench *b = *state;
    connect_as(b, OLD, 3600, true);
    want(b, &b->run, "machine", "get", "{}");
    b->run.exec.idempotency_key = SLICE("k");
    seam_run_start(&b->run);
    answer(b, "claim_find");
    answer(b, "connection_choice");
    answer(b, "claim_insert");
    reply(b, 401, "{}");
    (void)query(b, "connection_get");
    connect_as(b, NEW, 3600, true);
    seam_node_answer(&b->node, &b->store);
    reply(b, 401, "{}");
    answer(b, "claim_release");
    seam_query_done(query(b, "connection_lost"));
    assert_int_equal(end(b), EXEC_REAUTH_REQUIRED);
    assert_int_equal(b->store.claims.count, 0);
}

static void a_token_that_cannot_be_renewed(void **state)
{
    struct bench *b = *state;
    connect_as(b, OLD, -10, true);
    begin_machine(b);
    answer(b, "connection_choice");
    seam_query_fail(query(b, "connection_get"), ERR_BUSY);
    assert_int_equal(end(b), EXEC_UNAVAILABLE);
}

static void a_token_without_a_client_is_good_for_a_moment(void **state)
{
    struct bench *b = *state;
    connect_as(b, "{\"access_token\":\"old\"}", 3, true);
    begin_machine(b);
    answer(b, "connection_choice");
    answer(b, "connection_get");
    while (seam_query_named(b->node.pool, "oauth_client_get")) {
        seam_query_done(seam_query_named(b->node.pool, "oauth_client_get"));
        seam_settle(b->node.loop);
    }
    reply(b, 200, "{}");
    assert_int_equal(end(b), EXEC_SUCCEEDED);
}

static void a_connection_that_was_lost_meanwhile(void **state)
{
    struct bench *b = *state;
    connect_as(b, OLD, -10, true);
    begin_machine(b);
    answer(b, "connection_choice");
    (void)query(b, "connection_get");
    connect_as(b, NEW, 3600, false);
    seam_node_answer(&b->node, &b->store);
    assert_int_equal(end(b), EXEC_REAUTH_REQUIRED);
}

/* Another process has stored the connection, and its notification has not arrived yet. */
static void a_connection_that_was_made_just_now(void **state)
{
    struct bench *b = *state;
    want(b, &b->run, "machine", "get", "{}");
    seam_run_start(&b->run);
    answer(b, "connection_choice");
    assert_int_equal(end(b), EXEC_NOT_CONNECTED);
    connect_as(b, NEW, 3600, true);
    begin_machine(b);
    assert_int_equal(end(b), EXEC_NOT_CONNECTED); /* the missing connection is cached for a
                                                   * moment */
    want(b, &b->run, "machine", "get", "{}");
    b->run.exec.has_connected = true;
    seam_run_start(&b->run);
    answer(b, "connection_choice");
    reply(b, 200, "{}");
    assert_int_equal(end(b), EXEC_SUCCEEDED);
}

static void a_dry_run_before_the_first_token(void **state)
{
    struct bench *b = *state;
    connect_as(b, "{\"client_id\":\"c\",\"client_secret\":\"s\"}", 0, true);
    want(b, &b->run, "machine", "get", "{}");
    b->run.exec.is_dry_run = true;
    seam_run_start(&b->run);
    answer(b, "connection_choice");
    (void)query(b, "connection_get");
    connect_as(b, NEW, 3600, true);
    seam_node_answer(&b->node, &b->store);
    assert_int_equal(end(b), EXEC_SUCCEEDED);
    assert_true(b->run.out.is_dry_run);
}

/* ---- what ids mean ---- */

static void want_shows(struct bench *b, const char *app)
{
    want(b, &b->run, app, "say", "{\"q\":\"a\"}");
    b->run.exec.is_dry_run = b->run.exec.wants_shows = true;
    seam_run_start(&b->run);
}

/* The read leaves no record. */
static void a_dry_run_shows_what_its_ids_mean(void **state)
{
    struct bench *b = *state;
    want_shows(b, "plain");
    assert_true(slice_eq_cstr(call(b)->method, "GET"));
    reply(b, 200, "{\"items\":[\" a\\nb\\u202e \"]}");
    assert_int_equal(end(b), EXEC_SUCCEEDED);
    assert_int_equal(b->store.executions.count, 0);
}

/* Without the right, no call is made; a failed call gives no text. */
static void a_read_that_gives_no_text(void **state)
{
    struct bench *b = *state;
    want(b, &b->run, "plain", "say", "{\"q\":\"a\"}");
    b->run.exec.is_dry_run = b->run.exec.wants_shows = true;
    b->run.exec.scopes = SCOPE_EXECUTE_WRITE;
    seam_run_start(&b->run);
    seam_settle(b->node.loop);
    assert_int_equal(end(b), EXEC_SUCCEEDED);
    want_shows(b, "plain");
    (void)call(b);
    reply(b, 404, "{}");
    assert_int_equal(end(b), EXEC_SUCCEEDED);
}

static void a_dry_run_of_shows_before_the_first_token(void **state)
{
    struct bench *b = *state;
    connect_as(b, "{\"client_id\":\"c\",\"client_secret\":\"s\"}", 0, true);
    want_shows(b, "machine");
    answer(b, "connection_choice");
    (void)query(b, "connection_get");
    connect_as(b, NEW, 3600, true);
    seam_node_answer(&b->node, &b->store);
    assert_true(slice_eq_cstr(call(b)->method, "GET"));
    reply(b, 200, "{\"items\":[]}");
    assert_int_equal(end(b), EXEC_SUCCEEDED);
}

/* The connection is looked up a second time, and nothing is left of the first look-up
 * (seam_close). */
static void a_claim_lost_with_a_connection(void **state)
{
    struct bench *b = *state;
    connect_as(b, NEW, 3600, true);
    want(b, &b->run, "machine", "get", "{}");
    b->run.exec.idempotency_key = SLICE("k");
    seam_run_start(&b->run);
    answer(b, "claim_find");
    answer(b, "connection_choice");
    slice fingerprint = seam_text(query(b, "claim_insert"), "fingerprint");
    struct row_claim *row = ROW_ADD(&b->store, claims);
    *row = (struct row_claim){.claim = {.account_id = seam_account,
                                        .key = SLICE("k"),
                                        .execution_id = uuid_v7(),
                                        .owner = node_id(b->node.node),
                                        .integration_id = SLICE("machine"),
                                        .action_id = SLICE("get"),
                                        .started_at = seam_store_now()}};
    memcpy(row->claim.fingerprint, fingerprint.ptr, fingerprint.len);
    answer(b, "claim_insert");
    seam_find_claim(&b->store, seam_account, SLICE("k"))->claim.key = SLICE("gone");
    for (unsigned i = 0; i < 20 && !seam_call(b->node.http, 0); i++) {
        seam_node_answer(&b->node, &b->store);
        (void)seam_pass_timer(b->node.loop, 60000);
    }
    reply(b, 200, "{}");
    assert_int_equal(end(b), EXEC_SUCCEEDED);
}

/* ---- each kind of failure at each of its waits ---- */

enum way { REQUESTS, PAGES, REPLAY, CONNECTED, WAYS };

static void start_way(struct bench *b, enum way way)
{
    bool is_connected = way == CONNECTED;
    if (way == REPLAY)
        run_bound(b, "k", large_body());
    if (is_connected)
        connect_as(b, NEW, 3600, true);
    want(b, &b->run, is_connected ? "machine" : "plain", way == REQUESTS ? "two" : "get", "{}");
    b->run.exec.pages_max = way == PAGES ? 3 : 0;
    b->run.exec.idempotency_key = way == REPLAY ? SLICE("k") : SLICE_NONE;
    seam_run_start(&b->run);
}

/* Each run ends once, and leaves neither a claim in flight nor memory (tear_down). */
static size_t walk_way(enum way way, size_t place, enum seam_fault fault)
{
    void *state;
    assert_int_equal(set_up(&state), 0);
    struct bench *b = state;
    struct seam_walk walk = {
        .node = &b->node,
        .store = &b->store,
        .place = place,
        .fault = fault,
        .reply = "{\"url\":\"https://files.example/f\",\"items\":[1],\"next\":\"b\"}"};
    start_way(b, way);
    if (!seam_walk_until_ended(&walk, &b->run))
        fail_msg("way %d, %s at %s: it never ends", way, seam_fault_name(fault), walk.where);
    seam_walk_for_ms(&walk, 60000);
    assert_int_equal(b->run.ended, 1);
    for (size_t i = 0; i < b->store.claims.count; i++)
        assert_true(b->store.claims.items[i].is_bound);
    if (place == SIZE_MAX)
        assert_int_equal(b->run.out.reason, EXEC_SUCCEEDED);
    seam_run_end(&b->run);
    seam_settle(b->node.loop);
    assert_int_equal(tear_down(&state), 0);
    return walk.places;
}

static void each_wait_may_fail_and_be_cancelled(void **state)
{
    (void)state;
    for (unsigned way = 0; way < WAYS; way++) {
        size_t places = walk_way((enum way)way, SIZE_MAX, SEAM_REFUSED);
        assert_true(places >= 2);
        for (size_t place = 0; place < places; place++)
            for (unsigned fault = 0; fault < SEAM_FAULTS; fault++)
                (void)walk_way((enum way)way, place, (enum seam_fault)fault);
    }
}

/* ---- connections that an account shares ---- */

static void a_user_without_a_connection_uses_a_shared_one(void **state)
{
    struct bench *b = *state;
    connect_as(b, NEW, 3600, true);
    b->store.connections.items[0].is_shared = true;
    want(b, &b->run, "machine", "get", "{}");
    b->run.exec.account_id = (struct uuid){{9}};
    b->run.exec.by.parent_id = seam_account;
    seam_run_start(&b->run);
    answer(b, "connection_choice");
    answer(b, "connection_shared");
    reply(b, 200, "{}");
    assert_int_equal(end(b), EXEC_SUCCEEDED);
}

/* ---- the number of steps in usual runs ---- */

static void a_confirmed_write_takes_18_steps(void **state)
{
    struct bench *b = *state;
    size_t before = seam_table_steps("exec");
    want_plain(b, "put", "k");
    seam_run_start(&b->run);
    answer(b, "claim_find");
    answer(b, "claim_insert");
    reply(b, 200, "{}");
    assert_int_equal(end(b), EXEC_SUCCEEDED);
    assert_int_equal(seam_table_steps("exec") - before, 18);
}

static void a_read_of_a_flow_takes_14_steps(void **state)
{
    struct bench *b = *state;
    size_t before = seam_table_steps("exec");
    struct exec_proof proof = proof_of(b, clock_boot_ns());
    connect_as(b, NEW, 3600, true);
    want(b, &b->run, "machine", "get", "{}");
    b->run.exec.is_recorded_by_caller = true;
    b->run.exec.proof = &proof;
    seam_run_start(&b->run);
    answer(b, "connection_choice");
    reply(b, 200, "{}");
    assert_int_equal(end(b), EXEC_SUCCEEDED);
    assert_int_equal(seam_table_steps("exec") - before, 14);
}

/* ---- coverage of the table ---- */

static void every_step_and_jump_was_taken(void **state)
{
    (void)state;
    assert_int_equal(seam_table_missing("exec"), 0);
    assert_int_equal(seam_table_missing("summary"), 0);
    assert_int_equal(seam_table_missing("claim_end"), 0);
    assert_int_equal(seam_table_missing("audit"), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        STEPS_TEST(past_its_account_s_share),
        STEPS_TEST(what_cannot_run_as_it_is),
        STEPS_TEST(costly_decisions_of_a_policy_share_turns),
        STEPS_TEST(another_run_of_this_process_has_the_key),
        STEPS_TEST(a_large_result_is_handed_on_by_its_id),
        STEPS_TEST(files_are_taken_first),
        STEPS_TEST(a_bound_key_is_replayed),
        STEPS_TEST(a_claim_that_was_lost),
        STEPS_TEST(the_key_is_free_by_now),
        STEPS_TEST(a_replay_without_memory),
        STEPS_TEST(the_lease_is_lost_before_and_after_the_claim),
        STEPS_TEST(a_claim_that_cannot_be_released_at_once),
        STEPS_TEST(requests_and_pages_follow_one_another),
        STEPS_TEST(large_pages_follow_one_another),
        STEPS_TEST(a_proof_is_renewed_before_the_first_byte),
        STEPS_TEST(a_proof_that_cannot_be_renewed),
        STEPS_TEST(a_record_that_fails),
        STEPS_TEST(a_record_that_takes_too_long),
        STEPS_TEST(a_record_that_is_not_ours_any_more),
        STEPS_TEST(a_token_that_has_run_out),
        STEPS_TEST(a_token_that_is_refused),
        STEPS_TEST(a_token_that_is_refused_under_a_key),
        STEPS_TEST(a_token_that_cannot_be_renewed),
        STEPS_TEST(a_token_without_a_client_is_good_for_a_moment),
        STEPS_TEST(a_connection_that_was_lost_meanwhile),
        STEPS_TEST(a_connection_that_was_made_just_now),
        STEPS_TEST(a_dry_run_before_the_first_token),
        STEPS_TEST(a_dry_run_shows_what_its_ids_mean),
        STEPS_TEST(a_read_that_gives_no_text),
        STEPS_TEST(a_dry_run_of_shows_before_the_first_token),
        STEPS_TEST(a_claim_lost_with_a_connection),
        cmocka_unit_test_setup_teardown(a_circuit_opens, set_up_circuits, tear_down),
        cmocka_unit_test_setup_teardown(a_large_reply_waits_for_memory, set_up_bounded, tear_down),
        cmocka_unit_test_setup_teardown(a_replay_that_waits_for_memory_in_vain, set_up_narrow,
                                        tear_down),
        STEPS_TEST(a_user_without_a_connection_uses_a_shared_one),
        STEPS_TEST(a_confirmed_write_takes_18_steps),
        STEPS_TEST(a_read_of_a_flow_takes_14_steps),
        cmocka_unit_test(each_wait_may_fail_and_be_cancelled),
        cmocka_unit_test(every_step_and_jump_was_taken),
    };
    seam_table_watch();
    return cmocka_run_group_tests_name("exec/steps", tests, NULL, NULL);
}
