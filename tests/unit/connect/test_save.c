/*
 * Storing a credential as a connection. A link makes exactly one connection, or gives a connection
 * a new grant.
 */
#include "unit/connect/testing.h"

#include "base/clock.h"
#include "connect/save.h"

struct saving {
    struct op op;
    struct connect_save save;
    struct connect_save_request in;
    bool is_freed;
};

static enum op_result step_start(struct op *op)
{
    struct saving *it = CONTAINER_OF(op, struct saving, op);
    connect_save_start(bench.service, &it->save, &it->in, op);
    return OP_WAIT;
}

static void on_free(struct op *op)
{
    CONTAINER_OF(op, struct saving, op)->is_freed = true;
}

static enum op_result step_end(struct op *op)
{
    (void)op;
    return OP_DONE;
}

static const struct op_step steps[] = {{"start", step_start, 0}, {"end", step_end, 0}};
static const struct op_class saving_class = {
    .name = "saving", .steps = steps, .step_count = ARRAY_LEN(steps), .free = on_free};

static void start(struct saving *it, int64_t id, const struct connect_session *link)
{
    *it = (struct saving){
        .in = {.account_id = bench.account,
               .integration_id = SLICE("demo"),
               .auth_kind = SLICE("oauth2"),
               .connection_id = id,
               .label = SLICE("kept"),
               .credential = SLICE("{\"access_token\":\"t\"}"),
               .identity = {.email = SLICE("ada@example.com"), .subject = SLICE("7\"")},
               .link = link,
               .by = {.actor = SLICE("link:1"), .means = SLICE("link")}}};
    op_start(&it->op, &saving_class, bench.db.loop, NULL, 65536);
}

static enum connect_saved save(struct saving *it, int64_t id, const struct connect_session *link)
{
    start(it, id, link);
    pg_bench_until(&bench.db, &it->is_freed);
    return it->save.result;
}

static int64_t count(const char *what)
{
    char text[400];
    (void)snprintf(text, sizeof(text), "select count(*) from sluice.%s", what);
    return items_ask(bench.conninfo, text);
}

/* A link that was taken. */
static struct connect_session taken(uint8_t n)
{
    struct connect_session link = {
        .account_id = bench.account, .id = uuid_v7(), .key_id = uuid_v7()};
    char id[UUID_TEXT_LEN + 1], text[600];
    uuid_format(bench.account, id);
    memset(link.token_hash, n, sizeof(link.token_hash));
    (void)snprintf(text, sizeof(text),
                   "insert into sluice.connect_session (account_id, token_hash, integration_id, "
                   "key_hash, is_reconnect, created_at, expires_at, taken_at, taken_by) values "
                   "('%s', decode(repeat('%02x', 32), 'hex'), 'demo', sha256('k'), false, "
                   "now(), now() + interval '1 hour', now(), sha256('b'))",
                   id, n);
    items_tell(bench.conninfo, text);
    return link;
}

static void what_it_acts_as_is_stored_and_told(void **state)
{
    static struct saving it;
    (void)state;
    assert_int_equal(save(&it, 0, NULL), CONNECT_SAVED);
    assert_true(it.save.is_default); /* the first connection of an app */
    assert_int_equal(count("connection where identity_email = 'ada@example.com' and "
                           "identity_subject = '7\"' and identity_label is null"),
                     1);
    assert_int_equal(count("audit_event where kind = 'connection.added' and "
                           "details->'identity'->>'subject' = '7\"' and details->>'by' = 'link' "
                           "and details->>'link_id' is null"),
                     1);
    assert_int_equal(save(&it, 12345, NULL), CONNECT_SAVE_GONE);
}

static void a_link_makes_one_connection(void **state)
{
    static struct saving one, two;
    const struct connect_session link = taken(1);
    (void)state;
    int64_t before = count("connection");
    start(&one, 0, &link);
    start(&two, 0, &link); /* both use the link at the same time */
    pg_bench_until(&bench.db, &one.is_freed);
    pg_bench_until(&bench.db, &two.is_freed);
    bool is_one_first = one.save.result == CONNECT_SAVED;
    assert_int_equal(is_one_first ? two.save.result : one.save.result, CONNECT_SAVE_LINK_USED);
    assert_int_equal(is_one_first ? one.save.result : two.save.result, CONNECT_SAVED);
    assert_false(one.save.is_default);
    assert_int_equal(save(&one, 0, &link), CONNECT_SAVE_LINK_USED);
    assert_int_equal(count("connection"), before + 1);
    assert_int_equal(count("audit_event where details->>'link_id' is not null and "
                           "details->>'key_id' is not null and kind = 'connection.added'"),
                     1);
}

static void a_link_that_came_to_nothing_is_good_again(void **state)
{
    static struct saving it;
    const struct connect_session link = taken(2), late = taken(3);
    (void)state;
    items_tell(bench.conninfo, "create function sluice.refuse() returns trigger language plpgsql "
                               "as $$ begin raise check_violation; end $$");
    items_tell(bench.conninfo, "create trigger refuse before insert on sluice.connection "
                               "for each row execute function sluice.refuse()");
    assert_int_equal(save(&it, 0, &link), CONNECT_SAVE_UNAVAILABLE);
    items_tell(bench.conninfo, "drop trigger refuse on sluice.connection");
    assert_int_equal(save(&it, 0, &link), CONNECT_SAVED);
    items_tell(bench.conninfo, "update sluice.connect_session set expires_at = now() "
                               "where made_id is null");
    assert_int_equal(save(&it, 0, &late), CONNECT_SAVE_LINK_USED);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_it_acts_as_is_stored_and_told),
        cmocka_unit_test(a_link_makes_one_connection),
        cmocka_unit_test(a_link_that_came_to_nothing_is_good_again),
    };
    return cmocka_run_group_tests(tests, bench_set_up, bench_tear_down);
}
