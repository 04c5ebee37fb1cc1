/*
 * The tables of a view and of a page of flows: what is cached and what is loaded, templates in
 * memory and templates that must be loaded, and each query failing.
 */
#include "seam/seam.h"

#include "flow/load.h"
#include "machine.h"
#include "seam/rows_flow.h"

/* Sorted by key, as in a template set. */
static const char *const templates[] = {
    TEMPLATE("ask", PASS("p") "," ASK("a", "")),
    TEMPLATE("read", GET("a", "\"connection\":\"${input.n}\",")),
    NULL,
};

/* Loads one view or one page, and keeps the result until the test releases it. */
struct reader {
    struct op op;
    struct machine *m;
    struct uuid id;
    struct flow_filter filter;
    const struct flow_need *need;
    struct policy *policy;
    bool wants_view, wants_rows, is_done;
    struct flow_load *load;
    struct flow_page *page;
    /* result, in op's arena */
    int status;
    bool has_ended, has_seen;
    slice text, name;
    size_t count, examined;
    struct uuid older;
};

static struct reader reader;

static enum op_result step_ask(struct op *op)
{
    struct flow_service *service = reader.m->node.flow;
    if (reader.need)
        reader.page =
            flow_page_start_needing(service, &reader.filter, reader.need, reader.policy, op);
    else if (reader.filter.limit > 0 && reader.wants_rows)
        reader.page = flow_page_start_rows(service, &reader.filter, reader.policy, op);
    else if (reader.filter.limit > 0)
        reader.page = flow_page_start(service, &reader.filter, reader.policy, op);
    else if (reader.wants_view)
        reader.load = flow_load_start_view(service, seam_account, reader.id, reader.policy, op);
    else
        reader.load = flow_load_start(service, seam_account, reader.id, reader.policy, op);
    return OP_WAIT;
}

static void keep_page(struct arena *arena)
{
    const struct flow_page *page = reader.page;
    reader.status = page->status;
    reader.text = arena_dup(arena, buf_slice(&page->text));
    reader.count = page->count;
    reader.examined = page->examined;
    reader.older = page->older;
    if (page->rows && page->count > 0)
        reader.name = arena_dup(arena, page->rows[0].name);
}

static void keep_view(struct arena *arena)
{
    struct flow_load *load = reader.load;
    reader.status = load->status;
    reader.has_seen = load->view != NULL;
    if (load->view) {
        reader.text = arena_dup(arena, load->view->text);
    } else if (load->status == OK) {
        reader.has_ended = flow_load_has_ended(load);
        reader.text = arena_dup(arena, flow_load_render_view(load));
    }
}

/* The result is freed after this turn. */
static enum op_result step_keep(struct op *op)
{
    if (reader.page)
        keep_page(&op->arena);
    else
        keep_view(&op->arena);
    reader.is_done = true;
    op_hold(op, "the test");
    return OP_WAIT;
}

static const struct op_step steps[] = {{"ask", step_ask, 0}, {"keep", step_keep, 0}};
static const struct op_class reader_class = {
    .name = "reader", .steps = steps, .step_count = ARRAY_LEN(steps)};

static void begin(struct machine *m)
{
    reader.m = m;
    reader.is_done = false;
    op_start(&reader.op, &reader_class, m->node.loop, NULL, 64 * 1024 * 1024);
    seam_settle(m->node.loop);
}

static void finish(struct machine *m)
{
    for (unsigned i = 0; i < 100 && !reader.is_done; i++)
        machine_turn(m, NULL);
    assert_true(reader.is_done);
}

static void let_go(struct machine *m)
{
    op_release(&reader.op);
    seam_settle(m->node.loop);
    reader = (struct reader){.m = m};
}

static int set_up(void **state)
{
    *state = machine_new(templates);
    reader = (struct reader){.m = *state};
    return 0;
}

static int tear_down(void **state)
{
    return machine_free(*state);
}

static bool has(slice text, const char *part)
{
    return text.ptr && slice_find(text, slice_cstr(part)) >= 0;
}

/* ---- one flow ---- */

static void a_flow_that_is_loaded(void **state)
{
    struct machine *m = *state;
    reader.id = machine_start(m, "ask", "{\"confirm\":true}");
    machine_until(m, reader.id, FLOW_WAITING);
    begin(m);
    finish(m);
    assert_int_equal(reader.status, OK);
    assert_false(reader.has_ended);
    assert_true(has(reader.text, "\"stepKey\":\"a\""));
    let_go(m);
}

static void a_flow_that_is_not_there(void **state)
{
    struct machine *m = *state;
    reader.id = uuid_v7();
    begin(m);
    finish(m);
    assert_int_equal(reader.status, ERR_NOTFOUND);
    let_go(m);
}

/* For the second load, only the revision is queried. */
static void a_view_that_is_kept(void **state)
{
    struct machine *m = *state;
    struct uuid id = machine_start(m, "ask", "{\"confirm\":true}");
    machine_until(m, id, FLOW_WAITING);
    reader.id = id;
    reader.wants_view = true;
    begin(m);
    assert_non_null(seam_query_named(m->node.pool, "flow_load"));
    finish(m);
    assert_true(has(reader.text, "\"status\":\"waiting\""));
    let_go(m);
    reader.id = id;
    reader.wants_view = true;
    begin(m);
    assert_null(seam_query_named(m->node.pool, "flow_load"));
    assert_non_null(seam_query_named(m->node.pool, "flow_rev"));
    finish(m);
    assert_true(reader.has_seen);
    let_go(m);
}

static void a_view_of_what_runs_here(void **state)
{
    struct machine *m = *state;
    struct uuid id = machine_start(m, "read", "{\"confirm\":true}");
    (void)machine_call(m);
    reader.id = id;
    reader.wants_view = true;
    begin(m);
    finish(m);
    assert_true(has(reader.text, "\"status\":\"running\""));
    let_go(m);
    machine_row(m, id)->flow.rev++; /* another node has changed the flow since */
    reader.id = id;
    reader.wants_view = true;
    begin(m);
    seam_rows_answer(&m->store, seam_query_named(m->node.pool, "flow_rev"));
    seam_settle(m->node.loop);
    assert_non_null(seam_query_named(m->node.pool, "flow_load"));
    finish(m);
    assert_true(reader.has_seen);
    let_go(m);
}

/* Begins to read the view. Returns whether only the flow's revision is asked for. */
static bool asks_for_rev(struct machine *m, struct uuid id, struct policy *policy)
{
    reader.id = id;
    reader.policy = policy;
    reader.wants_view = true;
    begin(m);
    bool is_rev = seam_query_named(m->node.pool, "flow_rev") != NULL;
    assert_true(is_rev == !seam_query_named(m->node.pool, "flow_load"));
    return is_rev;
}

static void expect_view(struct machine *m, int status)
{
    finish(m);
    assert_int_equal(reader.status, status);
    assert_true(reader.has_seen == (status == OK));
    let_go(m);
}

static struct policy *deny(const char *tool)
{
    char text[200];
    struct catalog_report *report = catalog_report_new(NULL);
    (void)snprintf(text, sizeof(text),
                   "{\"default\":\"allow\",\"rules\":[{\"tools\":[\"%s\"],"
                   "\"decision\":\"deny\"}]}",
                   tool);
    struct policy *policy = policy_compile_text(SLICE_NONE, slice_cstr(text), SLICE("p@1"), report);
    assert_non_null(policy);
    catalog_report_free(report);
    return policy;
}

/* A view is read like without a policy if what the policy says about its template is known. */
static void a_view_under_a_policy(void **state)
{
    struct machine *m = *state;
    struct policy *other = deny("demo_put"), *own = deny("demo_get");
    struct uuid id = machine_start(m, "read", "{\"confirm\":true}");
    int64_t rev;
    (void)machine_call(m); /* it runs here */
    assert_true(flow_is_running_here(m->node.flow, seam_account, id, other, &rev));
    assert_false(flow_is_running_here(m->node.flow, seam_account, id, own, &rev));
    assert_true(asks_for_rev(m, id, other));
    expect_view(m, OK);
    assert_false(asks_for_rev(m, id, own));
    expect_view(m, ERR_NOTFOUND);
    machine_row(m, id)
        ->flow.rev++; /* another node has changed it: the view that is loaded is kept */
    assert_true(asks_for_rev(m, id, NULL));
    expect_view(m, OK);
    assert_true(asks_for_rev(m, id, other));
    expect_view(m, OK);
    assert_false(asks_for_rev(m, id, own));
    expect_view(m, ERR_NOTFOUND);
    assert_true(asks_for_rev(m, id, NULL));
    expect_view(m, OK);
    policy_unref(other);
    policy_unref(own);
}

/* The version of the template that the cached view was made with is no longer in memory. */
static const char older[] = TEMPLATE("ask", PASS("o") "," ASK("a", ""));

static void a_view_of_a_template_that_is_not_in_memory(void **state)
{
    struct machine *m = *state;
    struct policy *policy = deny("demo_put");
    struct uuid id = machine_start(m, "ask", "{\"confirm\":true}");
    struct catalog_report *report = catalog_report_new(NULL);
    struct flow_template *tmpl =
        flow_template_compile(SLICE("ask"), slice_cstr(older), m->catalog, report);
    assert_non_null(tmpl);
    catalog_report_free(report);
    const struct pg_value cells[] = {pg_text(tmpl->key), pg_json(tmpl->body)};
    machine_until(m, id, FLOW_WAITING);
    machine_row(m, id)->flow.template_version = tmpl->version;
    for (int round = 0; round < 2; round++) {
        assert_false(asks_for_rev(m, id, policy));
        struct pg_query *get = machine_query(m, "flow_template_get");
        seam_row(get, cells);
        seam_query_done(get);
        expect_view(m, OK);
        assert_true(asks_for_rev(m, id, policy));
        expect_view(m, OK);
        cache_forget_if(&m->node.flow->pinned, NULL, NULL);
        assert_true(asks_for_rev(m, id, NULL));
        expect_view(m, OK);
    }
    flow_template_unref(tmpl);
    policy_unref(policy);
}

static void queries_of_a_view_that_fail(void **state)
{
    struct machine *m = *state;
    static const char *const names[] = {"flow_load", "flow_template_get"};
    struct uuid id = machine_start(m, "ask", "{\"confirm\":true}");
    machine_until(m, id, FLOW_WAITING);
    machine_row(m, id)->flow.template_version = uuid_v7();
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        reader.id = id;
        begin(m);
        seam_query_fail(machine_query(m, names[i]), ERR_TIMEOUT);
        finish(m);
        assert_int_equal(reader.status, ERR_TIMEOUT);
        let_go(m);
    }
}

/* An old template comes from the database, and is cached. */
static void a_template_that_is_not_in_memory(void **state)
{
    struct machine *m = *state;
    struct uuid id = machine_start(m, "ask", "{\"confirm\":true}");
    machine_until(m, id, FLOW_WAITING);
    machine_row(m, id)->flow.template_version = uuid_v7();
    reader.id = id;
    begin(m);
    struct pg_query *get = machine_query(m, "flow_template_get");
    const struct flow_template *tmpl = m->templates->items[0];
    const struct pg_value cells[] = {pg_text(tmpl->key), pg_json(tmpl->body)};
    seam_row(get, cells);
    seam_query_done(get);
    finish(m);
    assert_int_equal(reader.status, OK);
    assert_true(has(reader.text, "\"templateKey\":\"ask\""));
    let_go(m);
}

/* ---- searches for a template ---- */

static struct finder {
    struct op op;
    struct machine *m;
    struct uuid version;
    struct flow_template_find find;
    bool is_done, cuts_reader;
} finders[4];

static enum op_result step_find(struct op *op)
{
    struct finder *finder = CONTAINER_OF(op, struct finder, op);
    return flow_template_find(finder->m->node.flow, &finder->find, finder->version, op) ? OP_NEXT
                                                                                        : OP_WAIT;
}

static enum op_result step_found(struct op *op)
{
    struct finder *finder = CONTAINER_OF(op, struct finder, op);
    finder->is_done = true;
    if (finder->cuts_reader) {
        op_cancel(&reader.op);
        op_cancel(reader.page ? &reader.page->op : &reader.load->op);
    }
    return OP_DONE;
}

static const struct op_step find_steps[] = {{"find", step_find, 0}, {"found", step_found, 0}};
static const struct op_class finder_class = {.name = "finder", OP_STEPS(find_steps)};

static void start_finder(struct machine *m, size_t index, struct uuid version)
{
    finders[index] = (struct finder){.m = m, .version = version};
    op_start(&finders[index].op, &finder_class, m->node.loop, NULL, 1024);
    seam_settle(m->node.loop);
}

/* All searches that begin before the template is there share one statement; later ones need none.
 * A failure answers those that wait, and the next search asks again. */
static void searches_for_a_template_share_a_load(void **state)
{
    struct machine *m = *state;
    struct uuid version = uuid_v7();
    const struct flow_template *tmpl = m->templates->items[0];
    const struct pg_value cells[] = {pg_text(tmpl->key), pg_json(tmpl->body)};
    seam_settle(m->node.loop);
    size_t before = seam_query_count(m->node.pool);
    for (int round = 0; round < 2; round++) {
        for (size_t i = 0; i < 3; i++)
            start_finder(m, i, version);
        op_cancel(&finders[1].op);
        seam_settle(m->node.loop);
        assert_int_equal(seam_query_count(m->node.pool), before + 1);
        struct pg_query *get = seam_query_named(m->node.pool, "flow_template_get");
        if (round == 0) {
            seam_query_fail(get, ERR_TIMEOUT);
        } else {
            seam_row(get, cells);
            seam_query_done(get);
        }
        seam_settle(m->node.loop);
        assert_false(finders[1].is_done);
        assert_null(finders[1].find.tmpl);
        for (size_t i = 0; i < 3; i += 2) {
            assert_true(finders[i].is_done);
            assert_int_equal(finders[i].find.status, round == 0 ? ERR_TIMEOUT : OK);
        }
    }
    start_finder(m, 3, version);
    assert_true(finders[3].is_done);
    assert_non_null(finders[0].find.tmpl);
    for (size_t i = 0; i < 4; i++)
        if (i != 1) {
            assert_ptr_equal(finders[i].find.tmpl, finders[0].find.tmpl);
            flow_template_unref(finders[i].find.tmpl);
        }
}

/* If is_cut, the row says how far a search got, and is not a flow that the search found. */
static void put_row(struct pg_query *query, const struct row_flow *row, bool is_cut)
{
    struct pg_value cells[32] = {pg_uuid(row->flow.id)};
    size_t n = 1 + seam_flow_cells(&row->flow, cells + 1);
    cells[n++] = pg_text(row->title);
    cells[n++] = pg_json(row->input);
    cells[n++] = pg_text(SLICE("a key's name"));
    cells[n++] = pg_bool(false);
    cells[n++] = pg_text(SLICE_NONE);
    cells[n++] = pg_bool(!is_cut);
    cells[n++] = pg_bool(is_cut);
    seam_row(query, cells);
}

/* The template is there, and its reader is cancelled before it takes it: nothing is leaked. */
static void a_reader_that_is_cancelled_as_its_template_arrives(void **state)
{
    struct machine *m = *state;
    const struct flow_template *tmpl = m->templates->items[0];
    const struct pg_value cells[] = {pg_text(tmpl->key), pg_json(tmpl->body)};
    struct uuid id = machine_start(m, "ask", "{\"confirm\":true}");
    machine_until(m, id, FLOW_WAITING);
    for (int of_page = 0; of_page < 2; of_page++) {
        struct uuid version = machine_row(m, id)->flow.template_version = uuid_v7();
        start_finder(m, 0, version);
        finders[0].cuts_reader = true;
        reader = (struct reader){.m = m, .id = id};
        if (of_page)
            reader.filter =
                (struct flow_filter){.account_id = seam_account, .status = -1, .limit = 10};
        begin(m);
        struct pg_query *query = machine_query(m, of_page ? "flow_list" : "flow_load");
        if (of_page) {
            put_row(query, machine_row(m, id), false);
            seam_query_done(query);
        } else {
            seam_rows_answer(&m->store, query);
        }
        seam_settle(m->node.loop);
        struct pg_query *get = seam_query_named(m->node.pool, "flow_template_get");
        seam_row(get, cells);
        seam_query_done(get);
        seam_settle(m->node.loop);
        assert_true(finders[0].is_done);
        assert_false(reader.is_done);
        flow_template_unref(finders[0].find.tmpl);
    }
    reader = (struct reader){.m = m};
}

/* ---- a page ---- */

static void answer_list(struct machine *m, const char *name)
{
    struct pg_query *query = machine_query(m, name);
    for (size_t i = 0; i < m->store.flows.count; i++)
        put_row(query, &m->store.flows.items[i], false);
    seam_query_done(query);
    finish(m);
}

/* The search for a template's flows: each statement reads at most its limit of flows. */
static void a_search_that_continues(void **state)
{
    struct machine *m = *state;
    (void)machine_start(m, "ask", "{\"confirm\":true}");
    const struct row_flow *row = &m->store.flows.items[0];
    for (int round = 0; round < 2; round++) {
        reader.filter = (struct flow_filter){
            .account_id = seam_account, .status = -1, .template_key = SLICE("ask"), .limit = 10};
        begin(m);
        struct pg_query *query = machine_query(m, "flow_list");
        put_row(query, row, true);
        seam_query_done(query);
        seam_settle(m->node.loop);
        assert_true(uuid_eq(machine_query(m, "flow_list")->params[2].as.uuid, row->flow.id));
        if (round == 0) { /* the rest of all flows: the next statement finds one flow, and the
                           * end */
            answer_list(m, "flow_list");
            assert_int_equal(reader.count, 1);
            assert_true(uuid_is_nil(reader.older));
        }
        for (int i = 1; i < 16 && round == 1; i++) {
            assert_false(reader.is_done);
            query = machine_query(m, "flow_list");
            put_row(query, row, true);
            seam_query_done(query);
            seam_settle(m->node.loop);
        }
        finish(m);
        assert_int_equal(reader.status, OK);
        if (round == 1) { /* the maximum number of statements for a page */
            assert_int_equal(reader.count, 0);
            assert_true(slice_eq_cstr(reader.text, "[]"));
            assert_true(uuid_eq(reader.older, row->flow.id));
        }
        let_go(m);
    }
    /* a page of rows takes one statement */
    reader.filter = (struct flow_filter){
        .account_id = seam_account, .status = -1, .template_key = SLICE("ask"), .limit = 10};
    reader.wants_rows = true;
    begin(m);
    struct pg_query *query = machine_query(m, "flow_list_asked");
    put_row(query, row, true);
    seam_query_done(query);
    finish(m);
    assert_true(uuid_eq(reader.older, row->flow.id) && reader.count == 0);
    let_go(m);
}

static void records_and_rows(void **state)
{
    struct machine *m = *state;
    for (unsigned i = 0; i < 2; i++)
        (void)machine_start(m, "ask", "{\"confirm\":true}");
    reader.filter = (struct flow_filter){.account_id = seam_account, .status = -1, .limit = 10};
    begin(m);
    answer_list(m, "flow_list");
    assert_int_equal(reader.status, OK);
    assert_true(has(reader.text, "\"input\":{\"confirm\":true}"));
    let_go(m);
    reader.filter = (struct flow_filter){.account_id = seam_account, .status = -1, .limit = 10};
    reader.wants_rows = true;
    begin(m);
    answer_list(m, "flow_list_asked");
    assert_int_equal(reader.count, 2);
    assert_true(slice_eq_cstr(reader.name, "T"));
    let_go(m);
}

static void a_page_with_a_template_that_is_not_in_memory(void **state)
{
    struct machine *m = *state;
    struct uuid id = machine_start(m, "ask", "{\"confirm\":true}");
    machine_row(m, id)->flow.template_version = uuid_v7();
    reader.filter = (struct flow_filter){.account_id = seam_account, .status = -1, .limit = 10};
    begin(m);
    struct pg_query *query = machine_query(m, "flow_list");
    put_row(query, machine_row(m, id), false);
    seam_query_done(query);
    struct pg_query *get = machine_query(m, "flow_template_get");
    const struct flow_template *tmpl = m->templates->items[0];
    const struct pg_value found[] = {pg_text(tmpl->key), pg_json(tmpl->body)};
    seam_row(get, found);
    seam_query_done(get);
    finish(m);
    assert_int_equal(reader.status, OK);
    assert_true(has(reader.text, "\"templateKey\":\"ask\""));
    let_go(m);
}

/* A template that does not exist, and one of a later version: the page has the other flow. */
static void a_page_leaves_out_what_cannot_be_read(void **state)
{
    static const char *const bodies[] = {NULL, "{\"key\":\"ask\",\"later\":1}"};
    struct machine *m = *state;
    for (size_t i = 0; i < ARRAY_LEN(bodies); i++) {
        struct uuid id = machine_start(m, "ask", "{\"confirm\":true}");
        struct uuid other = machine_start(m, "ask", "{\"confirm\":true}");
        machine_row(m, id)->flow.template_version = uuid_v7();
        reader.filter = (struct flow_filter){.account_id = seam_account, .status = -1, .limit = 10};
        begin(m);
        struct pg_query *query = machine_query(m, "flow_list");
        put_row(query, machine_row(m, id), false);
        put_row(query, machine_row(m, other), false);
        seam_query_done(query);
        struct pg_query *get = machine_query(m, "flow_template_get");
        const struct pg_value found[] = {pg_text(SLICE("ask")),
                                         pg_json(bodies[i] ? slice_cstr(bodies[i]) : SLICE_NONE)};
        if (bodies[i])
            seam_row(get, found);
        seam_query_done(get);
        finish(m);
        assert_int_equal(reader.status, OK);
        assert_int_equal(reader.count, 1);
        let_go(m);
    }
}

static void a_page_that_cannot_be_loaded(void **state)
{
    struct machine *m = *state;
    reader.filter = (struct flow_filter){.account_id = seam_account, .status = -1, .limit = 10};
    begin(m);
    seam_query_fail(machine_query(m, "flow_list"), ERR_TIMEOUT);
    finish(m);
    assert_int_equal(reader.status, ERR_TIMEOUT);
    let_go(m);
}

/* Finds the waiting flows that still have calls to make through a connection. */
static void flows_that_need_a_connection(void **state)
{
    struct machine *m = *state;
    static const char *const inputs[] = {"{\"confirm\":true,\"n\":\"17\"}",
                                         "{\"confirm\":true,\"n\":\"18\"}", "{\"confirm\":true}"};
    const struct flow_need need = {
        .catalog = m->catalog, .integration_id = SLICE("demo"), .connection_id = 17};
    for (size_t i = 0; i < ARRAY_LEN(inputs); i++)
        (void)machine_start(m, "read", inputs[i]);
    (void)machine_start(m, "ask", "{\"confirm\":true}"); /* this flow makes no calls */
    reader.filter = (struct flow_filter){.account_id = seam_account,
                                         .status = FLOW_RUNNING,
                                         .limit = 10,
                                         .is_rows_alone = true,
                                         .with_input = true};
    reader.need = &need;
    begin(m);
    answer_list(m, "flow_list_status_inputs");
    assert_int_equal(reader.examined, 4);
    assert_int_equal(reader.count, 1);
    let_go(m);
}

static void every_step_and_jump_was_taken(void **state)
{
    (void)state;
    assert_int_equal(seam_table_missing("flow_load"), 0);
    assert_int_equal(seam_table_missing("flow_page"), 0);
}

#define ON_A_MACHINE(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        ON_A_MACHINE(a_flow_that_is_loaded),
        ON_A_MACHINE(a_flow_that_is_not_there),
        ON_A_MACHINE(a_view_that_is_kept),
        ON_A_MACHINE(a_view_of_what_runs_here),
        ON_A_MACHINE(a_view_under_a_policy),
        ON_A_MACHINE(a_view_of_a_template_that_is_not_in_memory),
        ON_A_MACHINE(queries_of_a_view_that_fail),
        ON_A_MACHINE(a_template_that_is_not_in_memory),
        ON_A_MACHINE(searches_for_a_template_share_a_load),
        ON_A_MACHINE(a_reader_that_is_cancelled_as_its_template_arrives),
        ON_A_MACHINE(records_and_rows),
        ON_A_MACHINE(a_page_with_a_template_that_is_not_in_memory),
        ON_A_MACHINE(a_search_that_continues),
        ON_A_MACHINE(a_page_leaves_out_what_cannot_be_read),
        ON_A_MACHINE(a_page_that_cannot_be_loaded),
        ON_A_MACHINE(flows_that_need_a_connection),
        cmocka_unit_test(every_step_and_jump_was_taken),
    };
    seam_table_watch();
    return cmocka_run_group_tests_name("flow/load", tests, NULL, NULL);
}
