/*
 * The apps, the node and the store for the tests of an execution's table, and the actions that the
 * tests run.
 */
#ifndef EXEC_STEPS_H
#define EXEC_STEPS_H

#include "base/clock.h"
#include "node/node.h"
#include "policy/policy.h"
#include "seam/table.h"
#include "seam/walk.h"
#include "tls/tls.h"
#include "unit.h"
#include "vault/seal.h"

#define ACTION(id, level, more)                                                  \
    "{\"action_id\":\"" id "\",\"title\":\"" id "\",\"description\":\"d\","      \
    "\"side_effect_level\":\"" level "\",\"input_schema\":{\"type\":\"object\"," \
    "\"properties\":{\"q\":{\"type\":\"string\",\"description\":\"Q.\"}}}," more \
    ",\"display\":{\"title\":\"T\",\"summary\":\"s\"}}"
#define APP(id, auth, actions)                                                                  \
    "{\"integration_id\":\"" id "\",\"name\":\"App\",\"description\":\"d\",\"category\":\"c\"," \
    "\"base_url\":\"https://app.example\",\"auth\":" auth ",\"actions\":[" actions "]}"
#define GET  "\"request\":{\"method\":\"GET\",\"path\":\"/get\",\"query\":{\"q\":\"${input.q}\"}}"
#define POST "\"request\":{\"method\":\"POST\",\"path\":\"/put\",\"body\":{\"json\":\"${input}\"}}"

/* get: a read in pages. two: a read with two requests. put: a write. send: a write with a file. */
#define PLAIN_GET                                                                   \
    ACTION("get", "read",                                                           \
           GET ",\"response\":{\"output\":\"{items: body.items}\",\"pagination\":{" \
               "\"input\":\"q\",\"next\":\"body.next\",\"max_pages\":5}}")
#define PLAIN_PUT ACTION("put", "write", "\"requires_confirmation\":true," POST)
#define PLAIN_SEND                                                                       \
    ACTION("send", "write",                                                              \
           "\"requires_confirmation\":true,\"files\":{\"travel\":\"raw\"},\"request\":{" \
           "\"method\":\"POST\",\"path\":\"/send\"}")
#define PLAIN_TWO                                                                           \
    ACTION("two", "read",                                                                   \
           GET ",\"then\":[{\"request\":{\"method\":\"GET\",\"url\":\"${first.body.url}\"," \
               "\"hosts\":[\"files.example\"]},\"done\":false}]")
/* say: a write that shows what q means, from a read, and a second text that needs none. */
#define SAY                                                                         \
    ACTION("say", "write",                                                          \
           "\"shows\":{\"q\":{\"action\":\"get\",\"input\":{\"q\":\"${input.q}\"}," \
           "\"text\":\"${output.items[0]}\"},\"q.x\":{\"text\":\"${input.q}\"}}," POST)
static const char plain[] = APP("plain", "{\"type\":\"none\"}",
                                PLAIN_GET "," PLAIN_PUT "," PLAIN_SEND "," PLAIN_TWO "," SAY);

/* Connections of this app have their own client. */
static const char machine[] =
    APP("machine",
        "{\"type\":\"oauth2_client_credentials\",\"token_url\":\"https://app.example/token\"}",
        ACTION("get", "read", GET) "," SAY);

enum {
    CONNECTION = 7,
    LARGE = STORE_SUMMARY_INLINE_BYTES + 1000,
    MANY = 1100,
    SECOND_US = 1000000
};

struct bench {
    struct catalog *catalog;
    struct vault_ring *ring;
    struct seam_node node;
    struct seam_store store;
    struct seam_run run;
};

static inline int set_up_as(void **state, struct seam_tuning tuning)
{
    struct bench *b = mem_zalloc(sizeof(*b));
    const char *const manifests[] = {plain, machine, NULL};
    struct err err;
    struct buf key;
    seam_open(1);
    assert_int_equal(tls_library_init(&err), OK);
    b->catalog = seam_catalog(manifests);
    buf_init(&key, 128);
    vault_master_key_new(&key);
    b->ring = vault_ring_new(buf_slice(&key), &err);
    buf_deinit(&key);
    assert_non_null(b->ring);
    seam_store_init(&b->store);
    seam_node_open_as(&b->node, b->catalog, NULL, b->ring, tuning);
    seam_node_join(&b->node, &b->store);
    *state = b;
    return 0;
}

static inline int set_up(void **state)
{
    return set_up_as(state, (struct seam_tuning){0});
}

/* On this server, a circuit opens after a few failures. */
static inline int set_up_circuits(void **state)
{
    return set_up_as(state, (struct seam_tuning){.circuit_volume = 4});
}

/* This server has no memory for a large reply. */
static inline int set_up_narrow(void **state)
{
    return set_up_as(state, (struct seam_tuning){.work_bytes = LARGE / 2});
}

/* This server has memory for little more than one reply. */
static inline int set_up_bounded(void **state)
{
    return set_up_as(state, (struct seam_tuning){.work_bytes = 2 * LARGE});
}

static inline int tear_down(void **state)
{
    struct bench *b = *state;
    seam_node_close(&b->node);
    seam_store_deinit(&b->store);
    vault_ring_free(b->ring);
    catalog_unref(b->catalog);
    mem_free(b);
    tls_library_deinit();
    return seam_close() ? 0 : -1;
}

/* ---- actions of a test ---- */

static inline struct policy *policy_of(const char *document)
{
    struct catalog_report *report = catalog_report_new(NULL);
    struct policy *policy =
        policy_compile_text(SLICE_NONE, slice_cstr(document), SLICE("team@1"), report);
    assert_non_null(policy);
    catalog_report_free(report);
    return policy;
}

static inline void want(struct bench *b, struct seam_run *run, const char *app, const char *action,
                        const char *input)
{
    seam_run_exec(run, &b->node, action, input);
    run->exec.integration_id = slice_cstr(app);
    run->exec.is_confirmed = true;
}

static inline void want_plain(struct bench *b, const char *action, const char *key)
{
    want(b, &b->run, "plain", action, "{}");
    b->run.exec.idempotency_key = key ? slice_cstr(key) : SLICE_NONE;
}

static inline struct pg_query *query(struct bench *b, const char *name)
{
    seam_settle(b->node.loop);
    struct pg_query *query = seam_query_named(b->node.pool, name);
    if (!query)
        fail_msg("no query %s is under way", name);
    return query;
}

static inline void answer(struct bench *b, const char *name)
{
    seam_rows_answer(&b->store, query(b, name));
    seam_settle(b->node.loop);
}

static inline struct http_call *call(struct bench *b)
{
    seam_settle(b->node.loop);
    struct http_call *call = seam_call(b->node.http, 0);
    assert_non_null(call);
    return call;
}

static inline void reply(struct bench *b, unsigned status, const char *body)
{
    seam_call_reply(call(b), status, body);
    seam_settle(b->node.loop);
}

/* Answers everything until the run has ended. */
static inline enum exec_reason end_of(struct bench *b, struct seam_run *run)
{
    for (unsigned i = 0; i < 400 && !seam_run_has_ended(run); i++) {
        seam_node_answer(&b->node, &b->store);
        if (!seam_run_has_ended(run))
            (void)seam_pass_timer(b->node.loop, 60000);
    }
    assert_true(seam_run_has_ended(run));
    enum exec_reason reason = run->out.reason;
    seam_node_answer(&b->node, &b->store);
    seam_run_end(run);
    seam_settle(b->node.loop);
    return reason;
}

static inline enum exec_reason end(struct bench *b)
{
    return end_of(b, &b->run);
}

/* A summary that is stored separately from its row. */
static inline const char *large_body(void)
{
    static char body[LARGE + 32];
    memset(body, 'x', sizeof(body));
    memcpy(body, "{\"items\":\"", 10);
    memcpy(body + LARGE, "\"}", 3);
    return body;
}

/* Runs a read with a key, which binds the key. */
static inline void run_bound(struct bench *b, const char *key, const char *body)
{
    want_plain(b, "get", key);
    seam_run_start(&b->run);
    answer(b, "claim_find");
    answer(b, "claim_insert");
    reply(b, 200, body);
    assert_int_equal(end(b), EXEC_SUCCEEDED);
}

/* ---- a connection ---- */

#define OLD "{\"client_id\":\"c\",\"client_secret\":\"s\",\"access_token\":\"old\"}"
#define NEW "{\"client_id\":\"c\",\"client_secret\":\"s\",\"access_token\":\"new\"}"

/* Replaces the connection of the app "machine", as another process would. */
static inline void connect_as(struct bench *b, const char *credential, int64_t expires_in_s,
                              bool is_live)
{
    struct vault_binding place = {seam_account, CONNECTION};
    struct buf sealed;
    int64_t now = seam_store_now();
    buf_init(&sealed, 4096);
    assert_int_equal(vault_seal(b->ring, &place, slice_cstr(credential), &sealed), OK);
    struct connection row = {
        .account_id = seam_account,
        .id = CONNECTION,
        .integration_id = SLICE("machine"),
        .label = SLICE("m"),
        .is_default = true,
        .auth_kind = SLICE("oauth2_client_credentials"),
        .sealed = seam_keep(&b->store, buf_slice(&sealed)),
        .key_id = seam_keep(&b->store, vault_ring_key_id(b->ring)),
        .params = SLICE("{}"),
        .error = is_live ? SLICE_NONE : SLICE("revoked"),
        .expires_at = now + expires_in_s * SECOND_US,
        .created_at = now,
        .updated_at = now - 3600 * (int64_t)SECOND_US,
    };
    buf_deinit(&sealed);
    if (b->store.connections.count == 0)
        *ROW_ADD(&b->store, connections) = (struct connection){.rev = 0};
    row.rev = b->store.connections.items[0].rev + 1;
    b->store.connections.items[0] = row;
}

#define STEPS_TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

#endif
