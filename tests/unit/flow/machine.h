/*
 * A server on the seam with small templates, for the tests of flow's tables. Every query and call
 * that the test does not answer itself succeeds.
 */
#ifndef TESTS_UNIT_FLOW_MACHINE_H
#define TESTS_UNIT_FLOW_MACHINE_H

#include "flow/internal.h"
#include "seam/seam.h"
#include "seam/table.h"
#include "seam/walk.h"
#include "unit.h"

#define TEMPLATE_WITH(key, more, steps)                                           \
    "{\"key\":\"" key "\",\"name\":\"T\",\"description\":\"d\"," more             \
    "\"input\":{\"type\":\"object\",\"required\":[\"confirm\"],"                  \
    "\"properties\":{\"n\":{\"description\":\"N.\"},\"confirm\":{\"const\":true," \
    "\"description\":\"C.\"}},\"additionalProperties\":false},\"steps\":[" steps "]}"
#define TEMPLATE(key, steps)  TEMPLATE_WITH(key, "", steps)
#define STEP(key, type, more) "{\"key\":\"" key "\",\"type\":\"" type "\"," more "}"
#define GET(key, more)        STEP(key, "tool_call", "\"tool\":\"demo_get\"," more "\"input\":{}")
#define PUT(key, by, more) \
    STEP(key, "tool_call", "\"tool\":\"demo_put\",\"confirmed_by\":\"" by "\"," more "\"input\":{}")
/* A write that may be repeated. */
#define SET(key, more) STEP(key, "tool_call", "\"tool\":\"demo_set\"," more "\"input\":{}")
#define EACH(more)     "\"for_each\":\"input.n\",\"concurrency\":2," more
#define ASK(key, more) STEP(key, "approval", more "\"title\":\"Go?\",\"summary\":\"s\"")
#define PASS(key)      STEP(key, "transform", "\"expr\":\"`1`\"")
#define WAIT(key, of)  STEP(key, "wait", "\"for\":" of)

struct machine {
    struct catalog *catalog;
    struct flow_template_set *templates;
    struct seam_node node;
    struct seam_store store;
    struct seam_walk walk;
    struct seam_run run;
};

static inline void machine_open_node(struct machine *m)
{
    seam_node_open(&m->node, m->catalog, m->templates, NULL);
    seam_node_join(&m->node, &m->store);
    m->walk = (struct seam_walk){.node = &m->node, .store = &m->store, .place = SIZE_MAX};
}

static inline struct machine *machine_new(const char *const *templates)
{
    const char *const manifests[] = {seam_demo_manifest, NULL};
    struct machine *m = mem_zalloc(sizeof(*m));
    seam_open(1);
    m->catalog = seam_catalog(manifests);
    m->templates = seam_templates(m->catalog, templates);
    seam_store_init(&m->store);
    machine_open_node(m);
    return m;
}

static inline int machine_free(struct machine *m)
{
    seam_node_close(&m->node);
    seam_store_deinit(&m->store);
    flow_template_set_free(m->templates);
    catalog_unref(m->catalog);
    mem_free(m);
    return seam_close() ? 0 : -1;
}

/* Lets the process die at this moment, as after a drain whose time is over: nothing of it stays in
 * memory. Another process replaces it. */
static inline void machine_restart(struct machine *m)
{
    seam_node_close(&m->node);
    machine_open_node(m);
}

/* Begins a command, without answering its queries. */
static inline void machine_begin(struct machine *m, enum flow_command_kind kind, struct uuid id)
{
    seam_run_command(&m->run, &m->node, kind, id);
    seam_run_start(&m->run);
}

static inline enum flow_answer machine_end(struct machine *m)
{
    assert_true(seam_walk_until_ended(&m->walk, &m->run));
    seam_run_end(&m->run);
    seam_settle(m->node.loop); /* the run's memory is in use until then */
    return m->run.answer;
}

static inline enum flow_answer machine_command(struct machine *m, enum flow_command_kind kind,
                                               struct uuid id)
{
    machine_begin(m, kind, id);
    return machine_end(m);
}

static inline void machine_begin_start(struct machine *m, const char *key, const char *input)
{
    seam_run_flow(&m->run, &m->node, key, input);
    seam_run_start(&m->run);
}

/* Starts a flow and answers its start. The flow has not continued yet. */
static inline struct uuid machine_start(struct machine *m, const char *key, const char *input)
{
    machine_begin_start(m, key, input);
    assert_int_equal(machine_end(m), FLOW_ANSWER_DONE);
    return m->run.flow_id;
}

static inline struct row_flow *machine_row(struct machine *m, struct uuid id)
{
    struct row_flow *row = seam_find_flow(&m->store, id);
    assert_non_null(row);
    return row;
}

/* Answers everything except the given statement. If nothing waits, time passes. */
static inline void machine_turn(struct machine *m, const char *but)
{
    seam_settle(m->node.loop);
    struct pg_query *query = NULL;
    for (size_t i = 0; (query = seam_query(m->node.pool, i)); i++)
        if (!but || strcmp(seam_query_stmt(query)->name, but) != 0)
            break;
    if (query)
        seam_rows_answer(&m->store, query);
    else if (!seam_pass_timer(m->node.loop, 60000))
        seam_pass_ms(m->node.loop, 60000);
    seam_settle(m->node.loop);
}

/* The next query of that statement. All other queries are answered. */
static inline struct pg_query *machine_query(struct machine *m, const char *name)
{
    for (unsigned i = 0; i < 1000; i++) {
        seam_settle(m->node.loop);
        struct pg_query *query = seam_query_named(m->node.pool, name);
        if (query)
            return query;
        machine_turn(m, name);
    }
    fail_msg("no query %s", name);
    return NULL;
}

/* ---- policies ---- */

/* From here on each key has the policy seam_key_policy ("@": none). */
static inline struct policy_cache *machine_policies(struct machine *m)
{
    struct policy_cache *policies = policy_cache_new(m->node.loop, m->node.pool);
    assert_non_null(policies);
    seam_key_policy = SLICE("@");
    return m->node.flow->config.policies = policies;
}

static inline void machine_policies_free(struct machine *m, struct policy_cache *policies)
{
    seam_settle(m->node.loop);
    m->node.flow->config.policies = NULL;
    seam_key_policy = SLICE_NONE;
    policy_cache_free(policies);
}

#define MACHINE_KEY   "key:0190b0a0-0000-7000-8000-000000000001"
#define MACHINE_OTHER "key:0190b0a0-0000-7000-8000-000000000002"

static inline void machine_begin_by(struct machine *m, enum flow_command_kind kind, struct uuid id,
                                    const char *actor)
{
    seam_run_command(&m->run, &m->node, kind, id);
    m->run.command.by.actor = slice_cstr(actor);
    seam_run_start(&m->run);
}

/* Starts a flow as machine_start does, by MACHINE_KEY. */
static inline struct uuid machine_start_by_key(struct machine *m, const char *key,
                                               const char *input)
{
    seam_run_flow(&m->run, &m->node, key, input);
    m->run.command.by.actor = SLICE(MACHINE_KEY);
    seam_run_start(&m->run);
    assert_true(seam_walk_until_ended(&m->walk, &m->run));
    assert_int_equal(m->run.answer, FLOW_ANSWER_DONE);
    seam_run_end(&m->run);
    seam_settle(m->node.loop);
    return m->run.flow_id;
}

/* Answers the load of revision 7 of the policy "team". */
static inline void machine_policy(struct pg_query *get, const char *body)
{
    const struct pg_value cells[] = {pg_uuid(seam_account), pg_text(SLICE("team")), pg_i64(7),
                                     pg_time(1), pg_json(slice_cstr(body))};
    seam_row(get, cells);
    seam_query_done(get);
}

/* The same; it denies all. */
static inline void machine_deny(struct pg_query *get)
{
    machine_policy(get, "{\"default\":\"deny\",\"rules\":[]}");
}

/* The next call, whose first byte has been sent. */
static inline struct http_call *machine_call(struct machine *m)
{
    for (unsigned i = 0; i < 1000; i++) {
        seam_settle(m->node.loop);
        struct http_call *call = seam_call(m->node.http, 0);
        if (call && seam_call_send(call))
            return call;
        machine_turn(m, NULL);
    }
    fail_msg("no call");
    return NULL;
}

static inline void machine_reply(struct machine *m, unsigned status)
{
    seam_call_reply(machine_call(m), status, "{}");
    seam_settle(m->node.loop);
}

/* Gives this reply to each call, including exec's own retries, until there is a query of that
 * statement. */
static inline struct pg_query *machine_reply_until(struct machine *m, unsigned status,
                                                   const char *name)
{
    for (unsigned i = 0; i < 100; i++) {
        struct pg_query *query = seam_query_named(m->node.pool, name);
        if (query)
            return query;
        machine_reply(m, status);
    }
    fail_msg("no query %s", name);
    return NULL;
}

/* Answers everything until the flow has that state. */
static inline void machine_until(struct machine *m, struct uuid id, enum flow_status status)
{
    if (!seam_walk_until_status(&m->walk, id, status))
        fail_msg("it is %s, not %s", flow_status_name(machine_row(m, id)->flow.status),
                 flow_status_name(status));
}

static inline size_t machine_count_steps(const struct machine *m, struct uuid id, bool is_completed)
{
    size_t count = 0;
    for (size_t i = 0; i < m->store.steps.count; i++)
        count += uuid_eq(m->store.steps.items[i].flow_id, id) &&
                 m->store.steps.items[i].step.is_completed == is_completed;
    return count;
}

/* Checks that the error of the flow's last attempt contains this phrase. */
static inline void machine_check_error(const struct machine *m, struct uuid id, const char *text)
{
    slice error = SLICE_NONE;
    for (size_t i = 0; i < m->store.steps.count; i++)
        if (uuid_eq(m->store.steps.items[i].flow_id, id))
            error = m->store.steps.items[i].step.error;
    if (!error.ptr || slice_find(error, slice_cstr(text)) < 0)
        fail_msg("no \"%s\" in %.*s", text, SLICE_ARG(error));
}

/* Checks what the error of the last attempt says about the effect. */
static inline void machine_check_outcome(const struct machine *m, struct uuid id,
                                         const char *outcome)
{
    char text[64];
    (void)snprintf(text, sizeof(text), "\"outcome\":\"%s\"", outcome);
    machine_check_error(m, id, text);
}

#endif
