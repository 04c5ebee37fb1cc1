/*
 * A server on the seam with the apps of a test, for the tests of exec's steps. Until machine_end,
 * only the test answers queries and calls.
 */
#ifndef TESTS_UNIT_EXEC_MACHINE_H
#define TESTS_UNIT_EXEC_MACHINE_H

#include "node/node.h"
#include "policy/policy.h"
#include "seam/table.h"
#include "seam/walk.h"
#include "tls/tls.h"
#include "unit.h"
#include "vault/seal.h"

/* `request` and the following are members, each preceded by a comma. */
#define ACTION(id, level, request, more)                                                         \
    "{\"action_id\":\"" id "\",\"title\":\"" id "\",\"description\":\"d\","                      \
    "\"side_effect_level\":\"" level "\",\"input_schema\":{\"type\":\"object\","                 \
    "\"properties\":{\"q\":{\"type\":\"string\",\"description\":\"Q.\"}}},\"request\":{" request \
    "}" more ",\"display\":{\"title\":\"T\",\"summary\":\"s\"}}"
#define APP_AT(id, url, auth, more, actions)                            \
    "{\"integration_id\":\"" id                                         \
    "\",\"name\":\"The App\",\"description\":\"d\",\"category\":\"c\"," \
    "\"base_url\":\"" url "\",\"auth\":" auth more ",\"actions\":[" actions "]}"
#define APP(id, auth, more, actions) APP_AT(id, "https://app.example", auth, more, actions)
#define GET                          "\"method\":\"GET\",\"path\":\"/get\",\"query\":{\"q\":\"${input.q}\"}"
#define POST                         "\"method\":\"POST\",\"path\":\"/put\",\"body\":{\"json\":\"${input}\"}"
#define NO_AUTH                      "{\"type\":\"none\"}"
#define BEARER                       "{\"type\":\"bearer\"}"

struct machine {
    struct catalog *catalog;
    struct vault_ring *ring;
    struct seam_node node;
    struct seam_store store;
    struct seam_run run;
};

static inline struct machine *machine_new(const char *const *manifests, struct seam_tuning tuning)
{
    struct machine *m = mem_zalloc(sizeof(*m));
    struct err err;
    struct buf key;
    seam_open(1);
    assert_int_equal(tls_library_init(&err), OK);
    m->catalog = seam_catalog(manifests);
    buf_init(&key, 128);
    vault_master_key_new(&key);
    m->ring = vault_ring_new(buf_slice(&key), &err);
    buf_deinit(&key);
    assert_non_null(m->ring);
    seam_store_init(&m->store);
    seam_node_open_as(&m->node, m->catalog, NULL, m->ring, tuning);
    seam_node_join(&m->node, &m->store);
    return m;
}

static inline int machine_free(struct machine *m)
{
    seam_node_close(&m->node);
    seam_store_deinit(&m->store);
    vault_ring_free(m->ring);
    catalog_unref(m->catalog);
    mem_free(m);
    tls_library_deinit();
    return seam_close() ? 0 : -1;
}

/* Prepares a confirmed run, without starting it. */
static inline void machine_want(struct machine *m, const char *app, const char *action,
                                const char *input)
{
    seam_run_exec(&m->run, &m->node, action, input);
    m->run.exec.integration_id = slice_cstr(app);
    m->run.exec.is_confirmed = true;
}

/* Prepares a run under the policy with these rules; its default is to allow. */
static inline struct policy *machine_want_under(struct machine *m, const char *action,
                                                const char *input, const char *rules)
{
    char text[1024];
    struct catalog_report *report = catalog_report_new(NULL);
    (void)snprintf(text, sizeof(text), "{\"default\":\"allow\",\"rules\":[%s]}", rules);
    struct policy *policy =
        policy_compile_text(SLICE_NONE, slice_cstr(text), SLICE("team@3"), report);
    if (!policy)
        fail_msg("%s: %s", text, report->problems[0].text.ptr);
    catalog_report_free(report);
    machine_want(m, "app", action, input);
    m->run.exec.policy = policy;
    m->run.exec.by.actor = SLICE("key:test");
    return policy;
}

static inline void machine_begin(struct machine *m, const char *app, const char *action,
                                 const char *input)
{
    machine_want(m, app, action, input);
    seam_run_start(&m->run);
    seam_settle(m->node.loop);
}

/* ---- the database ---- */

static inline struct pg_query *machine_query(struct machine *m, const char *name)
{
    seam_settle(m->node.loop);
    struct pg_query *query = seam_query_named(m->node.pool, name);
    if (!query)
        fail_msg("no query %s is under way", name);
    return query;
}

static inline void machine_answer(struct machine *m, const char *name)
{
    seam_rows_answer(&m->store, machine_query(m, name));
    seam_settle(m->node.loop);
}

static inline void machine_done(struct machine *m, struct pg_query *query)
{
    seam_query_done(query);
    seam_settle(m->node.loop);
}

static inline void machine_fail(struct machine *m, const char *name, int status)
{
    seam_query_fail(machine_query(m, name), status);
    seam_settle(m->node.loop);
}

/* ---- the app ---- */

static inline struct http_call *machine_call(struct machine *m)
{
    seam_settle(m->node.loop);
    struct http_call *call = seam_call(m->node.http, 0);
    if (!call)
        fail_msg("no call is under way");
    return call;
}

static inline void machine_reply(struct machine *m, unsigned status, const char *body)
{
    seam_call_reply(machine_call(m), status, body);
    seam_settle(m->node.loop);
}

/* text: the whole request: "GET https://...", the headers, an empty line, and the body. */
static inline void machine_assert_sent(struct machine *m, const char *text)
{
    char *sent = seam_call_text(machine_call(m));
    assert_string_equal(sent, text);
    mem_free(sent);
}

static inline void machine_assert_no_call(struct machine *m)
{
    seam_settle(m->node.loop);
    assert_int_equal(seam_call_count(m->node.http), 0);
}

/* ---- the end ---- */

#define assert_slice_equal(actual, text)                                                         \
    do {                                                                                         \
        slice actual_ = (actual);                                                                \
        if (!slice_eq_cstr(actual_, text))                                                       \
            fail_msg("\"%.*s\" is not \"%s\"", (int)actual_.len, actual_.ptr ? actual_.ptr : "", \
                     text);                                                                      \
    } while (0)
#define assert_slice_has(actual, text)                                                           \
    do {                                                                                         \
        slice actual_ = (actual);                                                                \
        if (slice_find(actual_, slice_cstr(text)) < 0)                                           \
            fail_msg("\"%.*s\" has no \"%s\"", (int)actual_.len, actual_.ptr ? actual_.ptr : "", \
                     text);                                                                      \
    } while (0)

/* Answers every waiting query and call, and advances time if nothing waits. run.out and its
 * texts live until machine_free. */
static inline enum exec_reason machine_end_of(struct machine *m, struct seam_run *run)
{
    for (unsigned i = 0; i < 400 && !seam_run_has_ended(run); i++) {
        seam_node_answer(&m->node, &m->store);
        if (!seam_run_has_ended(run))
            (void)seam_pass_timer(m->node.loop, 60000);
    }
    assert_true(seam_run_has_ended(run));
    assert_int_equal(run->ended, 1);
    seam_node_answer(&m->node, &m->store);
    return run->out.reason;
}

/* Like machine_end_of, and frees the memory of the run. */
static inline enum exec_reason machine_end(struct machine *m)
{
    enum exec_reason reason = machine_end_of(m, &m->run);
    seam_run_end(&m->run);
    seam_settle(m->node.loop);
    return reason;
}

/* ---- without memory ---- */

static struct {
    const char *from; /* the step of an execution from which allocations are counted; NULL: off */
    uint64_t at, hits;
} machine_memory;

static inline void machine_on_step(struct op *op)
{
    if (machine_memory.from && strcmp(op->class->name, "exec") == 0 &&
        strcmp(op_step_name(op), machine_memory.from) == 0) {
        mem_fail_at(machine_memory.at, 1);
        machine_memory.from = NULL;
    }
    if (machine_memory.at && strcmp(op->class->name, "seam_run") == 0 && op->step > 0) {
        machine_memory.hits = mem_fail_hits(); /* further allocations belong to the test */
        mem_fail_at(0, 0);
        machine_memory.at = 0;
    }
}

/* Makes the n-th allocation of the next execution fail, counted from that step on. From there,
 * the execution may not wait. At its end, machine_memory.hits says whether the allocation was
 * reached. */
static inline void machine_fail_memory(const char *from, uint64_t n)
{
    machine_memory.from = from;
    machine_memory.at = n;
    machine_memory.hits = 0;
    op_on_step = machine_on_step;
}

/* ---- connections ---- */

/* A live row with that credential. The test changes the row if it needs other values. */
static inline struct connection *machine_connect(struct machine *m, const char *app,
                                                 const char *kind, int64_t id,
                                                 const char *credential)
{
    struct vault_binding place = {seam_account, id};
    struct buf sealed;
    int64_t now = seam_store_now();
    buf_init(&sealed, 64 * 1024);
    assert_int_equal(vault_seal(m->ring, &place, slice_cstr(credential), &sealed), OK);
    struct connection *row = ROW_ADD(&m->store, connections);
    *row = (struct connection){
        .account_id = seam_account,
        .id = id,
        .integration_id = slice_cstr(app),
        .label = SLICE("label"),
        .is_default = true,
        .auth_kind = slice_cstr(kind),
        .sealed = seam_keep(&m->store, buf_slice(&sealed)),
        .key_id = seam_keep(&m->store, vault_ring_key_id(m->ring)),
        .params = SLICE("{}"),
        .rev = 1,
        .created_at = now,
        .updated_at = now - INT64_C(3600) * 1000000,
    };
    buf_deinit(&sealed);
    return row;
}

#endif
