/*
 * A change of a connection, a client or a link, whichever interface requests it: the row, one
 * event, the cache and the notification. Rows of other accounts do not change.
 */
#include "unit/connect/testing.h"

#include "connect/command.h"
#include "connect/internal.h"

struct changing {
    struct op op;
    struct connect_command command;
    struct connect_command_request in;
    bool is_freed;
};

static enum op_result step_start(struct op *op)
{
    struct changing *it = CONTAINER_OF(op, struct changing, op);
    connect_command_start(bench.service, &it->command, &it->in, op);
    return OP_WAIT;
}

static enum op_result step_end(struct op *op)
{
    const struct changing *it = CONTAINER_OF(op, struct changing, op);
    if (it->command.status == OK && it->in.kind != CONNECT_CLIENT_SET &&
        it->in.kind != CONNECT_CLIENT_REMOVE && it->in.kind != CONNECT_LINK_CREATE)
        assert_text(it->in.kind == CONNECT_LINK_TAKE ? it->command.link.integration_id
                                                     : it->command.integration_id,
                    "demo");
    return OP_DONE;
}

static void on_free(struct op *op)
{
    CONTAINER_OF(op, struct changing, op)->is_freed = true;
}

static const struct op_step steps[] = {{"start", step_start, 0}, {"end", step_end, 0}};
static const struct op_class changing_class = {
    .name = "changing", .steps = steps, .step_count = ARRAY_LEN(steps), .free = on_free};

static int run_change(struct changing *it)
{
    it->in.by = (struct audit_by){.actor = SLICE("operator:ada"), .means = SLICE("dashboard")};
    op_start(&it->op, &changing_class, bench.db.loop, NULL, 65536);
    pg_bench_until(&bench.db, &it->is_freed);
    return it->command.status;
}

static int change(enum connect_command_kind kind, struct uuid account_id, int64_t id)
{
    struct changing it = {.in = {.kind = kind,
                                 .label = SLICE("new name"),
                                 .connection = {.account_id = account_id, .id = id}}};
    return run_change(&it);
}

static int64_t events(const char *kind)
{
    char text[300];
    (void)snprintf(text, sizeof(text),
                   "select count(*) from sluice.audit_event where actor = 'operator:ada' and "
                   "details->>'by' = 'dashboard' and kind like '%s'",
                   kind);
    return items_ask(bench.conninfo, text);
}

/* The notifications to other processes. */
static unsigned notified;

static void on_changed(void *owner, struct uuid account_id, slice integration_id)
{
    (void)owner;
    assert_true(uuid_eq(account_id, bench.account));
    assert_text(integration_id, "demo");
    notified++;
}

static int64_t connect_app(const char *label)
{
    struct connection row = {.account_id = bench.account,
                             .id = short_id_new(),
                             .integration_id = SLICE("demo"),
                             .label = slice_cstr(label),
                             .auth_kind = SLICE("oauth2"),
                             .sealed = SLICE("sealed"),
                             .key_id = SLICE("k")};
    assert_int_equal(rows_connection(bench.sync, &row), OK);
    bench.service->config.on_changed = on_changed;
    notified = 0;
    return row.id;
}

static int64_t rows(const char *where)
{
    char text[300];
    (void)snprintf(text, sizeof(text), "select count(*) from sluice.connection where %s", where);
    return items_ask(bench.conninfo, text);
}

static void a_change_is_made_audited_and_notified(void **state)
{
    (void)state;
    (void)connect_app("first");
    int64_t id = connect_app("second");
    assert_int_equal(change(CONNECT_RENAME, bench.account, id), OK);
    assert_int_equal(rows("label = 'new name' and not is_default"), 1);
    assert_int_equal(events("connection.renamed"), 1);
    assert_int_equal(notified, 1);
    assert_int_equal(change(CONNECT_MAKE_DEFAULT, bench.account, id), OK);
    assert_int_equal(rows("is_default and label = 'new name'"), 1);
    assert_int_equal(rows("is_default"), 1);
    assert_int_equal(events("connection.default_set"), 1);
    assert_int_equal(change(CONNECT_REMOVE, bench.account, id), OK);
    assert_int_equal(rows("label = 'new name'"), 0);
    assert_int_equal(events("connection.removed"), 1);
    assert_int_equal(notified, 3);
}

static void objects_of_other_accounts_are_left_alone(void **state)
{
    (void)state;
    int64_t before = events("%"), id = connect_app("mine");
    for (int kind = CONNECT_MAKE_DEFAULT; kind <= CONNECT_REMOVE; kind++) {
        assert_int_equal(change((enum connect_command_kind)kind, uuid_v7(), id), ERR_NOTFOUND);
        assert_int_equal(change((enum connect_command_kind)kind, bench.account, 1), ERR_NOTFOUND);
    }
    assert_int_equal(rows("label = 'mine'"), 1);
    assert_int_equal(events("%"), before);
    assert_int_equal(notified, 0);
}

static void a_client_is_set_and_removed(void **state)
{
    struct changing set = {.in = {.kind = CONNECT_CLIENT_SET,
                                  .client.client = {.account_id = bench.account,
                                                    .integration_id = SLICE("demo"),
                                                    .client_id = SLICE("own")},
                                  .client_secret = SLICE("secret")}};
    (void)state;
    assert_int_equal(run_change(&set), OK);
    assert_int_equal(items_ask(bench.conninfo, "select count(*) from sluice.oauth_client where "
                                               "client_id = 'own' and key_id <> '' and "
                                               "octet_length(sealed) > 10"),
                     1);
    assert_int_equal(events("oauth_client.set"), 1);
    struct changing gone = {.in = set.in};
    gone.in.kind = CONNECT_CLIENT_REMOVE;
    assert_int_equal(run_change(&gone), OK);
    struct changing again = {.in = gone.in};
    assert_int_equal(run_change(&again), ERR_NOTFOUND);
    assert_int_equal(events("oauth_client.removed"), 1);
}

static int take(const struct connect_session *link, uint8_t page)
{
    struct changing it = {
        .in = {.kind = CONNECT_LINK_TAKE,
               .link = {.session = *link, .taken_by = {page}, .until = INT64_C(4000000000000000)}}};
    return run_change(&it);
}

static void a_link_is_made_and_taken_once(void **state)
{
    struct changing make = {.in = {.kind = CONNECT_LINK_CREATE,
                                   .link.session = {.account_id = bench.account,
                                                    .token_hash = {7},
                                                    .key_hash = {8},
                                                    .id = uuid_v7(),
                                                    .key_id = uuid_v7(),
                                                    .integration_id = SLICE("demo"),
                                                    .email = SLICE("ada@example.com"),
                                                    .created_at = clock_wall_us(),
                                                    .expires_at = INT64_C(4000000000000000)}}};
    (void)state;
    assert_int_equal(run_change(&make), OK);
    assert_int_equal(events("link.created"), 1);
    assert_int_equal(take(&make.in.link.session, 1), OK);
    assert_int_equal(take(&make.in.link.session, 1), OK); /* the same form, sent twice */
    assert_int_equal(take(&make.in.link.session, 2), ERR_NOTFOUND);
    assert_int_equal(events("link.used"), 1);
    assert_int_equal(items_ask(bench.conninfo,
                               "select count(*) from sluice.audit_event where kind like 'link.%' "
                               "and details->>'integration_id' = 'demo' and details->>'link_id' is "
                               "not null and details->>'key_id' is not null"),
                     2);
}

/* Each change has its event. */
static void a_change_whose_event_is_refused_is_not_made(void **state)
{
    (void)state;
    int64_t id = connect_app("kept");
    items_tell(bench.conninfo, "create function sluice.refuse() returns trigger language plpgsql "
                               "as $$ begin raise check_violation; end $$");
    items_tell(bench.conninfo, "create trigger refuse before insert on sluice.audit_event "
                               "for each row execute function sluice.refuse()");
    for (int kind = CONNECT_MAKE_DEFAULT; kind <= CONNECT_REMOVE; kind++)
        assert_int_not_equal(change((enum connect_command_kind)kind, bench.account, id), OK);
    items_tell(bench.conninfo, "drop trigger refuse on sluice.audit_event");
    assert_int_equal(rows("label = 'kept' and not is_default"), 1);
    assert_int_equal(notified, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_change_is_made_audited_and_notified),
        cmocka_unit_test(objects_of_other_accounts_are_left_alone),
        cmocka_unit_test(a_client_is_set_and_removed),
        cmocka_unit_test(a_link_is_made_and_taken_once),
        cmocka_unit_test(a_change_whose_event_is_refused_is_not_made),
    };
    return cmocka_run_group_tests(tests, bench_set_up, bench_tear_down);
}
