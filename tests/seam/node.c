/*
 * A server's services on the seam; see node.h.
 */
#include "seam/node.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

enum { RUN_ARENA_MAX = 64 * 1024 * 1024, EXECUTIONS_MAX = 1000 };

const struct uuid seam_account = {
    {0x01, 0x9b, 0x76, 0, 0, 0, 0x70, 0, 0x80, 0, 0, 0, 0, 0, 0, 0x01}};

#define ACTION(id, level, request, more)                                               \
    "{\"action_id\":\"" id "\",\"title\":\"" id "\",\"description\":\"d\","            \
    "\"side_effect_level\":\"" level "\",\"input_schema\":{\"type\":\"object\"}," more \
    "\"request\":{\"path\":\"/" id "\"," request "},"                                  \
    "\"display\":{\"title\":\"Done\",\"summary\":\"status ${status}\"}}"
#define GET    "\"method\":\"GET\",\"query\":{\"q\":\"${input.q}\"}"
#define POST   "\"method\":\"POST\",\"body\":{\"json\":\"${input}\"}"
#define DELETE "\"method\":\"DELETE\",\"query\":{\"of\":\"${input.of}\"}"

#define DEMO_GET ACTION("get", "read", GET, "")
#define DEMO_PUT ACTION("put", "write", POST, "\"requires_confirmation\":true,")
#define DEMO_SET ACTION("set", "write", POST, "\"idempotent\":true,")
#define DEMO_PAY ACTION("pay", "write", POST, "\"idempotency_header\":\"Idempotency-Key\",")
#define DEMO_DEL ACTION("del", "delete", DELETE, "\"idempotent\":true,")
/* Their ids are read before a person is asked. The second may be repeated. */
#define SHOWS                                                                                \
    "\"target\":{\"Place\":\"${input.q}\"},\"shows\":{\"q\":{\"action\":\"get\",\"input\":{" \
    "\"q\":\"${input.q}\"},\"text\":\"Named ${output.name || input.q}\","                    \
    "\"version\":\"${output.v}\"}},"
#define DEMO_SAY  ACTION("say", "write", POST, SHOWS)
#define DEMO_TELL ACTION("tell", "write", POST, "\"idempotent\":true," SHOWS)
const char seam_demo_manifest[] =
    "{\"integration_id\":\"demo\",\"name\":\"Demo\",\"description\":\"d\",\"category\":\"c\","
    "\"base_url\":\"https://demo.example\",\"auth\":{\"type\":\"none\"},"
    "\"actions\":[" DEMO_GET "," DEMO_PUT "," DEMO_SET "," DEMO_PAY "," DEMO_DEL "," DEMO_SAY
    "," DEMO_TELL "]}";

const char seam_demo_template[] =
    "{\"key\":\"demo\",\"name\":\"Demo\",\"description\":\"d\",\"input\":{\"type\":\"object\","
    "\"additionalProperties\":false},"
    "\"steps\":[{\"key\":\"read\",\"type\":\"tool_call\",\"tool\":\"demo_get\",\"input\":{}},"
    "{\"key\":\"rest\",\"type\":\"wait\",\"for\":60},"
    "{\"key\":\"ask\",\"type\":\"approval\",\"title\":\"Put "
    "it?\",\"summary\":\"s\",\"expires_in\":3600},"
    "{\"key\":\"write\",\"type\":\"tool_call\",\"tool\":\"demo_put\",\"confirmed_by\":\"approval:"
    "ask\","
    "\"input\":{\"id\":\"${flow.id}\"}}]}";

/* ---- data ---- */

static void check(const struct catalog_report *report, const void *made)
{
    for (size_t i = 0; i < report->count && !made; i++)
        if (!report->problems[i].is_warning)
            fprintf(stderr, "%.*s %.*s: %.*s\n", SLICE_ARG(report->problems[i].source),
                    SLICE_ARG(report->problems[i].pointer), SLICE_ARG(report->problems[i].text));
    ASSERT(made);
}

struct catalog *seam_catalog(const char *const *manifests)
{
    struct catalog_source sources[8];
    struct catalog_report *report = mem_zalloc(sizeof(*report));
    size_t count = 0;
    for (; manifests[count]; count++)
        sources[count] = (struct catalog_source){SLICE("test"), slice_cstr(manifests[count])};
    catalog_report_init(report);
    struct catalog *catalog = catalog_load(sources, count, report);
    check(report, catalog);
    catalog_report_deinit(report);
    mem_free(report);
    return catalog;
}

static int by_key(const void *a, const void *b)
{
    const struct flow_template *x = *(struct flow_template *const *)a;
    const struct flow_template *y = *(struct flow_template *const *)b;
    return slice_cmp(x->key, y->key);
}

struct flow_template_set *seam_templates(const struct catalog *catalog,
                                         const char *const *templates)
{
    struct flow_template_set *set = mem_zalloc(sizeof(*set));
    struct catalog_report *report = mem_zalloc(sizeof(*report));
    size_t count = 0;
    while (templates[count])
        count++;
    arena_init(&set->arena, 1024 * 1024);
    set->items = ARENA_ARRAY(&set->arena, struct flow_template *, count);
    catalog_report_init(report);
    for (; set->count < count; set->count++) {
        set->items[set->count] = flow_template_compile(
            SLICE("test"), slice_cstr(templates[set->count]), catalog, report);
        check(report, set->items[set->count]);
    }
    qsort(set->items, count, sizeof(set->items[0]), by_key);
    catalog_report_deinit(report);
    mem_free(report);
    return set;
}

/* ---- a node ---- */

static bool may_take(void *node)
{
    return node_may_write(node);
}

static void open_services(struct seam_node *node)
{
    struct connect_config connect = {.pool = node->pool,
                                     .ring = node->ring,
                                     .http = node->http,
                                     .catalog = &node->catalog,
                                     .connections_max = node->tuning.connections_max};
    node->connect = connect_new(node->loop, &connect);
    node->node = node_new(node->loop, node->pool);
    struct exec_config exec = {
        .loop = node->loop,
        .pool = node->pool,
        .http = node->http,
        .connect = node->connect,
        .catalog = &node->catalog,
        .node = node->node,
        .work = node->tuning.work_bytes > 0 ? &node->work : NULL,
        .breaker = {.volume_min = node->tuning.circuit_volume},
        .timeout_ms = 30000,
        .idempotency_ttl_ms = 24 * 3600 * 1000,
        .limit_wait_ms = 2000,
        .response_bytes_max = 1024 * 1024,
        .executions_max = EXECUTIONS_MAX,
        .file_bytes_max = 1024 * 1024,
        .input_days = node->tuning.input_days,
        .ring = node->ring,
    };
    node->exec = exec_service_new(&exec);
    node_serve(node->node, exec_service_claims(node->exec));
    struct due_config due = {
        .loop = node->loop, .pool = node->pool, .may_take = may_take, .owner = node->node};
    node->due = node->templates ? due_new(&due) : NULL;
    struct flow_config flow = {
        .loop = node->loop,
        .pool = node->pool,
        .exec = node->exec,
        .node = node->node,
        .due = node->due,
        .catalog = &node->catalog,
        .templates = &node->templates,
        .idempotency_ttl_ms = 24 * 3600 * 1000,
    };
    node->flow = node->templates ? flow_service_new(&flow) : NULL;
}

void seam_node_open(struct seam_node *node, struct catalog *catalog,
                    struct flow_template_set *templates, struct vault_ring *ring)
{
    seam_node_open_as(node, catalog, templates, ring, (struct seam_tuning){0});
}

void seam_node_open_as(struct seam_node *node, struct catalog *catalog,
                       struct flow_template_set *templates, struct vault_ring *ring,
                       struct seam_tuning tuning)
{
    struct err err;
    *node = (struct seam_node){
        .catalog = catalog_ref(catalog), .templates = templates, .ring = ring, .tuning = tuning};
    node->loop = loop_new(&err);
    if (tuning.work_bytes > 0)
        budget_queue_init(&node->work, node->loop, tuning.work_bytes, tuning.work_bytes);
    struct pg_pool_config pool = {0};
    struct http_client_config http = {0};
    node->pool = pg_pool_new(node->loop, &pool, &err);
    node->http = http_client_new(node->loop, &http, &err);
    open_services(node);
}

void seam_node_cut(struct seam_node *node)
{
    due_stop(node->due);
    if (node->flow)
        flow_service_cancel_all(node->flow);
    exec_service_cancel_all(node->exec);
    connect_renewals_cancel(node->connect);
    node_stop(node->node);
    seam_pool_refuse(node->pool);
    seam_settle(node->loop);
}

void seam_node_close(struct seam_node *node)
{
    seam_node_cut(node);
    ASSERT(exec_service_active(node->exec) == 0);
    http_client_free(node->http);
    seam_settle(node->loop);
    flow_service_free(node->flow);
    due_free(node->due);
    exec_service_free(node->exec);
    node_free(node->node);
    connect_free(node->connect);
    seam_settle(node->loop);
    pg_pool_free(node->pool);
    if (node->tuning.work_bytes > 0)
        budget_queue_deinit(&node->work);
    loop_free(node->loop);
    catalog_unref(node->catalog);
}

void seam_node_answer(struct seam_node *node, struct seam_store *store)
{
    struct pg_query *query;
    seam_settle(node->loop);
    while ((query = seam_query(node->pool, 0))) {
        seam_rows_answer(store, query);
        seam_settle(node->loop);
    }
}

void seam_node_join(struct seam_node *node, struct seam_store *store)
{
    seam_node_answer(node, store);
    ASSERT(node_may_write(node->node));
}

/* ---- what a client does ---- */

static struct seam_run *run_of(struct op *op)
{
    return CONTAINER_OF(op, struct seam_run, op);
}

static enum op_result step_begin(struct op *op)
{
    struct seam_run *run = run_of(op);
    struct err err;
    const struct json *input =
        json_parse(&op->arena, slice_cstr(run->input_text), &json_limits_provider, &err);
    ASSERT(input);
    run->exec.input = run->command.input = input;
    if (run->is_command)
        flow_command_start(run->node->flow, &run->as.command, &run->command, op);
    else
        run->as.exec = exec_start(run->node->exec, &run->exec, op);
    return OP_WAIT;
}

static void keep_approval(struct seam_run *run)
{
    struct exec_approval *approval = &run->approval;
    if (!run->out.approval)
        return;
    *approval = *run->out.approval;
    approval->url = arena_dup(&run->op.arena, approval->url);
    approval->key = arena_dup(&run->op.arena, approval->key);
    run->out.approval = approval;
}

/* The child's data live until this step is over. */
static enum op_result step_keep(struct op *op)
{
    struct seam_run *run = run_of(op);
    struct arena *arena = &op->arena;
    run->ended++;
    if (run->is_command) {
        run->answer = run->as.command.answer;
        run->flow_id = run->as.command.flow_id;
        run->message = run->as.command.message;
        run->view_json = run->as.command.view_json;
    } else {
        run->out = *exec_outcome_of(run->as.exec);
        run->out.message = arena_dup(arena, run->out.message);
        run->out.hint = arena_dup(arena, run->out.hint);
        run->out.output_json = arena_dup(arena, run->out.output_json);
        run->out.error_code = arena_dup(arena, run->out.error_code);
        run->summary_json = arena_dup(arena, exec_summary_of(run->as.exec));
        keep_approval(run);
    }
    run->is_held = true;
    op_hold(op, "the test");
    return OP_WAIT;
}

static const struct op_step steps[] = {{"begin", step_begin, 0}, {"keep", step_keep, 0}};
static void on_end(struct op *op, enum op_end end)
{
    struct seam_run *run = run_of(op);
    (void)end;
    if (run->is_command && run->as.command.op.class)
        flow_command_replied(&run->as.command);
}

static void on_free(struct op *op)
{
    struct seam_run *run = run_of(op);
    if (run->on_gone)
        run->on_gone(run);
}

static const struct op_class run_class = {
    .name = "seam_run", OP_STEPS(steps), .on_end = on_end, .free = on_free};

static void clear(struct seam_run *run, struct seam_node *node, const char *input)
{
    memset(run, 0, sizeof(*run));
    run->node = node;
    run->input_text = input;
}

void seam_run_exec(struct seam_run *run, struct seam_node *node, const char *action,
                   const char *input)
{
    clear(run, node, input);
    run->exec = (struct exec_request){
        .account_id = seam_account,
        .by = {.actor = SLICE("key:test"), .request_id = SLICE("test")},
        .scopes = SCOPE_ALL,
        .integration_id = SLICE("demo"),
        .action_id = slice_cstr(action),
    };
}

void seam_run_command(struct seam_run *run, struct seam_node *node, enum flow_command_kind kind,
                      struct uuid flow_id)
{
    clear(run, node, "{}");
    run->is_command = true;
    run->command = (struct flow_request){
        .kind = kind,
        .account_id = seam_account,
        .by = {.actor = SLICE("key:test"), .request_id = SLICE("test")},
        .scopes = SCOPE_ALL,
        .flow_id = flow_id,
        .trigger_type = SLICE("manual"),
    };
}

void seam_run_flow(struct seam_run *run, struct seam_node *node, const char *template_key,
                   const char *input)
{
    seam_run_command(run, node, FLOW_COMMAND_START, (struct uuid){{0}});
    run->input_text = input;
    run->command.template_key = slice_cstr(template_key);
}

void seam_run_start(struct seam_run *run)
{
    op_start(&run->op, &run_class, run->node->loop, NULL, RUN_ARENA_MAX);
}

void seam_run_leave(struct seam_run *run)
{
    if (!run->is_command && run->as.exec)
        exec_client_gone(run->as.exec);
    if (run->is_command && run->as.command.op.class)
        flow_command_client_gone(&run->as.command);
}

void seam_run_cancel(struct seam_run *run)
{
    if (!run->is_command && run->as.exec)
        exec_cancel(run->as.exec);
    if (run->is_command && run->as.command.op.class)
        op_cancel(&run->as.command.op);
}

bool seam_run_has_ended(const struct seam_run *run)
{
    return run->ended > 0;
}

void seam_run_drop(struct seam_run *run)
{
    seam_run_cancel(run);
    op_cancel(&run->op);
    if (run->is_held)
        op_release(&run->op);
    run->is_held = false;
}

void seam_run_end(struct seam_run *run)
{
    ASSERT(run->ended == 1 && run->is_held);
    run->is_held = false;
    op_release(&run->op);
}
