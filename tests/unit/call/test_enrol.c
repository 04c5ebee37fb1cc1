/*
 * From a credential to a connection: which statements are sent in which order, what is stored, what
 * is refused, and the failure of each query and call.
 */
#include "call/enrol.h"

#include <stdio.h>

#include "exec/machine.h"
#include "seam/table.h"

enum { OLD = 7, FEW = 3 };

#define WHO "\"email\":\"body.email\",\"subject\":\"body.id\",\"label\":\"body.name\""

static const char app[] =
    APP("app", "{\"type\":\"bearer\",\"test\":{\"method\":\"GET\",\"path\":\"/me\"}}",
        ",\"connection_params\":{\"type\":\"object\",\"properties\":{\"host\":{\"type\":"
        "\"string\",\"description\":\"H.\"}}},\"identity\":{" WHO "}",
        ACTION("get", "read", GET, ""));
/* It is asked for the user by a request of its own. */
static const char named[] =
    APP("named", "{\"type\":\"bearer\",\"test\":{\"method\":\"GET\",\"path\":\"/me\"}}",
        ",\"identity\":{\"request\":{\"method\":\"GET\",\"path\":\"/me\"}," WHO "}",
        ACTION("get", "read", GET, ""));
static const char silent[] = APP("silent", BEARER, "", ACTION("get", "read", GET, ""));

static int set_up(void **state)
{
    const char *const manifests[] = {app, named, silent, NULL};
    *state = machine_new(manifests, (struct seam_tuning){.connections_max = FEW});
    return 0;
}

static int set_up_unbounded(void **state)
{
    const char *const manifests[] = {app, named, silent, NULL};
    *state = machine_new(manifests, (struct seam_tuning){0});
    return 0;
}

static int tear_down(void **state)
{
    return machine_free(*state);
}

/* ---- one case per line ---- */

struct person {
    const char *email, *subject;
};

struct way {
    const char *name, *app, *label;
    bool is_reconnect, is_by_link, may_change, is_grant, is_single, is_expired;
    bool has_twin;  /* a stored connection of the same user */
    bool is_second; /* another request makes one at the same moment, and this one yields */
    struct person former, wanted; /* the connection's person; the person required by the link */
    unsigned status;              /* the status of the app's reply; 0: the app is not called */
    unsigned later_status;        /* of its second reply, about the user; 0: the same */
    const char *body;
    size_t count; /* existing connections */
    /* the result */
    enum call_enrolled result;
    const char *asked;   /* the statements, in order */
    const char *message; /* a part of the message; NULL: none */
    const char *stored_label, *details;
};

#define ANN        "{\"email\":\"ann@x.y\",\"id\":\"u1\",\"name\":\"Ann\"}"
#define NEW_BY_APP "connection_count connection_insert audit_insert "
#define BY_LINK    "connection_count connect_session_use connection_insert audit_insert "
#define RECONNECT  "connection_get connection_get connection_credentials_set audit_insert "
#define TO_TWIN    "connection_get connection_credentials_set audit_insert "

static const struct way ways[] = {
    {.name = "an app that was removed",
     .app = "gone",
     .result = CALL_ENROL_REFUSED,
     .asked = "",
     .message = "The app is no longer available."},
    {.name = "a new connection",
     .app = "app",
     .status = 200,
     .body = ANN,
     .result = CALL_ENROLLED,
     .asked = NEW_BY_APP,
     .stored_label = "Ann",
     .details = "\"identity\":{\"email\":\"ann@x.y\",\"subject\":\"u1\",\"label\":\"Ann\"}"},
    {.name = "a label of its own",
     .app = "app",
     .label = "Mine",
     .status = 200,
     .body = "{\"email\":\"ann@x.y\"}",
     .result = CALL_ENROLLED,
     .asked = NEW_BY_APP,
     .stored_label = "Mine"},
    {.name = "an app that does not name the user",
     .app = "silent",
     .result = CALL_ENROLLED,
     .asked = NEW_BY_APP,
     .stored_label = "The App"},
    {.name = "a grant whose user cannot be read is stored",
     .app = "app",
     .is_grant = true,
     .status = 503,
     .body = "{}",
     .result = CALL_ENROLLED,
     .asked = NEW_BY_APP,
     .stored_label = "The App"},
    {.name = "refused by the app",
     .app = "app",
     .status = 401,
     .body = "{}",
     .result = CALL_ENROL_REFUSED,
     .asked = "connection_count ",
     .message = "The App refused the credential"},
    {.name = "the app is down",
     .app = "app",
     .status = 503,
     .body = "{}",
     .result = CALL_ENROL_OUTAGE,
     .asked = "connection_count ",
     .message = "The App reported an error"},
    {.name = "as many as allowed",
     .app = "app",
     .count = FEW,
     .result = CALL_ENROL_FULL,
     .asked = "connection_count ",
     .message = "already has as many connections as it may have (3)"},
    {.name = "an expired token is not tested",
     .app = "app",
     .is_expired = true,
     .result = CALL_ENROLLED,
     .asked = NEW_BY_APP,
     .stored_label = "The App"},
    {.name = "a stored connection of the same user",
     .app = "app",
     .is_single = true,
     .has_twin = true,
     .status = 200,
     .body = ANN,
     .result = CALL_ENROLLED,
     .asked = "connection_twin " TO_TWIN "connection_get ",
     .details = "\"connection_id\":\"7\""},
    {.name = "the app cannot be asked for its user now",
     .app = "named",
     .is_single = true,
     .status = 200,
     .later_status = 503,
     .body = "{}",
     .result = CALL_ENROL_OUTAGE,
     .asked = "",
     .message = "The App reported an error"},
    {.name = "a named connection whose user is not known",
     .app = "app",
     .is_single = true,
     .is_reconnect = true,
     .former = {"ann@x.y", NULL},
     .status = 200,
     .body = "{}",
     .result = CALL_ENROL_UNKNOWN_IDENTITY,
     .asked = "connection_get ",
     .message = "could not be determined"},
    {.name = "a named connection whose user is known, and an expired token",
     .app = "app",
     .is_single = true,
     .is_expired = true,
     .is_reconnect = true,
     .former = {"ann@x.y", "u1"},
     .result = CALL_ENROL_UNKNOWN_IDENTITY,
     .asked = "connection_get ",
     .message = "could not be determined"},
    {.name = "the same user at the same moment",
     .app = "app",
     .is_single = true,
     .is_second = true,
     .status = 200,
     .body = ANN,
     .result = CALL_ENROLLED,
     .asked = "connection_twin connection_insert audit_insert connection_yield " TO_TWIN
              "connection_default_set connection_get "},
    {.name = "a connection of another app",
     .app = "silent",
     .is_reconnect = true,
     .result = CALL_ENROL_GONE,
     .asked = "connection_get ",
     .message = "The connection was removed in the meantime"},
    {.name = "reconnected as the same, whose address has changed",
     .app = "app",
     .is_reconnect = true,
     .former = {"old@x.y", "u1"},
     .status = 200,
     .body = ANN,
     .result = CALL_ENROLLED,
     .asked = RECONNECT,
     .details = "\"connection_id\":\"7\""},
    {.name = "reconnected by the address, in any case",
     .app = "app",
     .is_reconnect = true,
     .former = {"ANN@x.y", NULL},
     .status = 200,
     .body = ANN,
     .result = CALL_ENROLLED,
     .asked = RECONNECT},
    {.name = "reconnected as another",
     .app = "app",
     .is_reconnect = true,
     .former = {"ann@x.y", "u2"},
     .status = 200,
     .body = ANN,
     .result = CALL_ENROL_OTHER_IDENTITY,
     .asked = "connection_get ",
     .message = "This connection acts as u2 (ann@x.y), but the login at The App is u1 "
                "(ann@x.y). Nothing was stored"},
    {.name = "reconnected as another that replaces the first",
     .app = "app",
     .is_reconnect = true,
     .may_change = true,
     .former = {"ann@x.y", "u2"},
     .status = 200,
     .body = ANN,
     .result = CALL_ENROLLED,
     .asked = RECONNECT},
    {.name = "reconnected, and the user is not known",
     .app = "app",
     .is_reconnect = true,
     .former = {"ann@x.y", NULL},
     .status = 200,
     .body = "{}",
     .result = CALL_ENROLLED,
     .asked = RECONNECT},
    {.name = "a link for anyone",
     .app = "app",
     .is_by_link = true,
     .status = 200,
     .body = ANN,
     .result = CALL_ENROLLED,
     .asked = BY_LINK,
     .stored_label = "Ann",
     .details = "\"link_id\":\""},
    {.name = "a link for the person that signed in",
     .app = "app",
     .is_by_link = true,
     .wanted = {"Ann@X.Y", "u1"},
     .status = 200,
     .body = ANN,
     .result = CALL_ENROLLED,
     .asked = BY_LINK,
     .stored_label = "Ann"},
    {.name = "a link for another address",
     .app = "app",
     .is_by_link = true,
     .wanted = {"bob@x.y", NULL},
     .status = 200,
     .body = ANN,
     .result = CALL_ENROL_OTHER_IDENTITY,
     .asked = "connection_count audit_insert ",
     .message = "This link is for bob@x.y, but the login at The App is ann@x.y.",
     .details = "\"expected\":{\"email\":\"bob@x.y\"},\"came\":{\"email\":\"ann@x.y\","
                "\"subject\":\"u1\",\"label\":\"Ann\"},\"link_id\":\""},
    {.name = "a link for another id",
     .app = "app",
     .is_by_link = true,
     .wanted = {NULL, "u9"},
     .status = 200,
     .body = ANN,
     .result = CALL_ENROL_OTHER_IDENTITY,
     .asked = "connection_count audit_insert ",
     .message = "This link is for u9, but the login at The App is u1 (ann@x.y).",
     .details = "\"expected\":{\"subject\":\"u9\"}"},
    {.name = "a link for one person, and the user is not known",
     .app = "app",
     .is_by_link = true,
     .wanted = {NULL, "u1"},
     .status = 200,
     .body = "{\"email\":\"ann@x.y\"}",
     .result = CALL_ENROL_UNKNOWN_IDENTITY,
     .asked = "connection_count audit_insert ",
     .message = "but the login at The App could not be determined.",
     .details = "\"expected\":{\"subject\":\"u1\"}"},
    {.name = "a link that reconnects never changes the user",
     .app = "app",
     .is_reconnect = true,
     .is_by_link = true,
     .may_change = true,
     .former = {"bob@x.y", NULL},
     .status = 200,
     .body = ANN,
     .result = CALL_ENROL_OTHER_IDENTITY,
     .asked = "connection_get audit_insert ",
     .message = "This connection acts as bob@x.y",
     .details = "\"expected\":{\"email\":\"bob@x.y\"}"},
    {.name = "a link that reconnects needs to know the user",
     .app = "app",
     .is_reconnect = true,
     .is_by_link = true,
     .former = {"bob@x.y", NULL},
     .status = 200,
     .body = "{}",
     .result = CALL_ENROL_UNKNOWN_IDENTITY,
     .asked = "connection_get audit_insert ",
     .message =
         "This connection acts as bob@x.y, but the login at The App could not be determined"},
};

/* ---- the requester ---- */

struct asker {
    struct op op;
    struct machine *machine;
    const struct way *way;
    struct connect_session link;
    struct call_enrol_request request;
    struct call_enrol enrol;
    struct call_enrol out; /* the result; its message belongs to the requester */
    unsigned ended, replies;
    /* the request */
    char asked[512], label[64], audit[1024];
    struct pg_query *failing; /* the query that failed because of a bad answer */
    bool is_stored, is_link_used, is_link_free;
};

static enum op_result step_ask(struct op *op)
{
    struct asker *asker = CONTAINER_OF(op, struct asker, op);
    const struct seam_node *node = &asker->machine->node;
    call_enrol_start(node->connect, node->pool, node->http, node->catalog, &asker->enrol,
                     &asker->request, op);
    return OP_WAIT;
}

/* The enrolment's data are freed at this step. */
static enum op_result step_save(struct op *op)
{
    struct asker *asker = CONTAINER_OF(op, struct asker, op);
    asker->out = asker->enrol;
    asker->ended++;
    mem_fail_at(0, 0);
    if (asker->out.message.ptr)
        asker->out.message = arena_dup(&op->arena, asker->out.message);
    op_hold(op, "the test");
    return OP_WAIT;
}

static const struct op_step steps[] = {{"ask", step_ask, 0}, {"save", step_save, 0}};
static const struct op_class asker_class = {
    .name = "asker", .steps = steps, .step_count = ARRAY_LEN(steps)};

static slice text_of(const char *text)
{
    return text ? slice_cstr(text) : SLICE_NONE;
}

static struct connection_identity identity_of(const struct person *person)
{
    return (struct connection_identity){
        .email = text_of(person->email), .subject = text_of(person->subject), .label = SLICE_NONE};
}

static void begin(struct asker *asker, struct machine *m, const struct way *way)
{
    *asker = (struct asker){.machine = m, .way = way};
    asker->link = (struct connect_session){.account_id = seam_account,
                                           .token_hash = {1, 2, 3},
                                           .id = uuid_v7(),
                                           .key_id = uuid_v7(),
                                           .email = text_of(way->wanted.email),
                                           .subject = text_of(way->wanted.subject)};
    asker->request = (struct call_enrol_request){
        .save.account_id = seam_account,
        .save.integration_id = slice_cstr(way->app),
        .save.connection_id = way->is_reconnect ? OLD : 0,
        .save.label = text_of(way->label),
        .save.params = SLICE("{\"host\":\"h\"}"),
        .save.credential = SLICE("{\"token\":\"s3cret\"}"),
        .save.scopes = SLICE("read write"),
        .save.expires_at = 12345000000,
        .is_grant = way->is_grant,
        .is_single = way->is_single,
        .is_expired = way->is_expired,
        .may_change_identity = way->may_change,
        .save.link = way->is_by_link ? &asker->link : NULL,
        .save.by.actor = SLICE("user:ann"),
        .save.by.request_id = SLICE("r1"),
        .save.by.address = SLICE("192.0.2.1"),
    };
    m->store.connections.count = 0;
    if (way->is_reconnect)
        machine_connect(m, "app", "bearer", OLD, "{}")->identity = identity_of(&way->former);
    if (way->has_twin)
        (void)machine_connect(m, "app", "bearer", OLD, "{}");
    op_start(&asker->op, &asker_class, m->node.loop, NULL, 4 * 1024 * 1024);
    seam_settle(m->node.loop);
}

/* Checks that the credential is sealed for this row, so that the credential of another row cannot
 * replace it. */
static void check_sealed(struct asker *asker, const struct pg_query *query, int64_t id)
{
    struct vault_binding place = {seam_account, id};
    struct secret *plain;
    struct err err;
    assert_int_equal(vault_open(asker->machine->ring, &place, seam_text(query, "key_id"),
                                seam_text(query, "sealed"), &plain, &err),
                     OK);
    assert_slice_equal(secret_reveal(plain), "{\"token\":\"s3cret\"}");
    secret_unref(plain);
}

static void check_stored(struct asker *asker, struct pg_query *query)
{
    check_sealed(asker, query, seam_i64(query, "id"));
    assert_true(uuid_eq(seam_uuid(query, "account_id"), seam_account));
    assert_true(pg_value_is(seam_param(query, "scopes"), "read write"));
    assert_true(pg_value_is(seam_param(query, "auth_kind"), "bearer"));
    assert_int_equal(seam_time(query, "expires_at"), 12345000000);
    asker->is_stored = true;
}

static void insert(struct asker *asker, struct pg_query *query)
{
    const struct pg_value cells[] = {*seam_param(query, "account_id"), *seam_param(query, "id"),
                                     *seam_param(query, "op_token"), pg_bool(false)};
    check_stored(asker, query);
    assert_int_equal(seam_i64(query, "count_max"), asker->machine->node.tuning.connections_max);
    slice label = seam_text(query, "label");
    (void)snprintf(asker->label, sizeof(asker->label), "%.*s", SLICE_ARG(label));
    seam_row(query, cells);
}

static void set_credentials(struct asker *asker, struct pg_query *query)
{
    const struct pg_value cells[] = {pg_i64(seam_i64(query, "rev") + 1), pg_bool(false)};
    check_stored(asker, query);
    assert_int_equal(seam_i64(query, "id"), OLD);
    /* the fence */
    assert_int_equal(seam_i64(query, "rev"), asker->machine->store.connections.items[0].rev);
    seam_row(query, cells);
}

static void note_audit(struct asker *asker, const struct pg_query *query)
{
    slice kind = seam_text(query, "kind"), reason = seam_text(query, "reason");
    slice details = seam_text(query, "details");
    (void)snprintf(asker->audit, sizeof(asker->audit), "%.*s %.*s %.*s", SLICE_ARG(kind),
                   (int)reason.len, reason.ptr ? reason.ptr : "", SLICE_ARG(details));
    assert_true(pg_value_is(seam_param(query, "actor"), "user:ann"));
    assert_true(pg_value_is(seam_param(query, "request_id"), "r1"));
    assert_true(pg_value_is(seam_param(query, "address"), "192.0.2.1"));
}

static void find_twin(struct asker *asker, struct pg_query *query)
{
    const struct pg_value id = pg_i64(OLD);
    assert_true(pg_value_is(seam_param(query, "subject"), "u1"));
    assert_true(pg_value_is(seam_param(query, "email"), "ann@x.y"));
    assert_true(pg_value_is(seam_param(query, "params"), "{\"host\":\"h\"}"));
    if (asker->machine->store.connections.count > 0)
        seam_row(query, &id);
}

/* The connection of the other request remains. It is not the default. */
static void yield_to_other(struct asker *asker, struct pg_query *query)
{
    const struct pg_value kept[] = {pg_i64(OLD), pg_bool(false)};
    assert_true(pg_value_is(seam_param(query, "subject"), "u1"));
    assert_true(pg_value_is(seam_param(query, "params"), "{\"host\":\"h\"}"));
    if (!asker->way->is_second)
        return;
    machine_connect(asker->machine, "app", "bearer", OLD, "{}")->is_default = false;
    seam_row(query, kept);
}

/* Answers as the database would. */
static void answer(struct asker *asker, struct pg_query *query)
{
    const char *name = query->stmt->name;
    const struct pg_value count = pg_i64((int64_t)asker->way->count),
                          app_id = pg_text(SLICE("app"));
    if (strcmp(name, "connection_count") == 0)
        seam_row(query, &count);
    else if (strcmp(name, "connection_insert") == 0)
        insert(asker, query);
    else if (strcmp(name, "connection_credentials_set") == 0)
        set_credentials(asker, query);
    else if (strcmp(name, "connect_session_use") == 0)
        seam_rows(query, 1);
    else if (strcmp(name, "connection_yield") == 0)
        yield_to_other(asker, query);
    else if (strcmp(name, "connection_default_set") == 0)
        seam_row(query, &app_id);
    else if (strcmp(name, "connection_twin") == 0)
        find_twin(asker, query);
    else if (strcmp(name, "connection_get") == 0)
        assert_int_equal(seam_rows_do(&asker->machine->store, query), OK);
    else if (strcmp(name, "audit_insert") == 0)
        note_audit(asker, query);
    else if (strcmp(name, "connect_session_unuse") != 0)
        fail_msg("%s is requested", name);
    asker->is_link_used |= strcmp(name, "connect_session_use") == 0;
    asker->is_link_free |= strcmp(name, "connect_session_unuse") == 0;
    seam_query_done(query);
}

static void note_asked(struct asker *asker, const struct pg_query *query)
{
    size_t len = strlen(asker->asked);
    (void)snprintf(asker->asked + len, sizeof(asker->asked) - len, "%s ", query->stmt->name);
}

/* The next query of this enrolment, or NULL. Queries of the node itself are answered. */
static struct pg_query *next_query(struct asker *asker)
{
    static const char *const own[] = {"node_heartbeat", "node_dead", "claim_recover",
                                      "claim_owned"};
    struct machine *m = asker->machine;
    for (size_t i = 0;;) {
        seam_settle(m->node.loop);
        struct pg_query *query = seam_query(m->node.pool, 0);
        for (i = 0; query && i < ARRAY_LEN(own); i++)
            if (strcmp(query->stmt->name, own[i]) == 0)
                break;
        if (!query || i == ARRAY_LEN(own))
            return query;
        seam_rows_answer(&m->store, query);
    }
}

enum fault { FAULT_REFUSED, FAULT_TIMEOUT, FAULT_CLOSED, FAULT_INVALID, FAULT_CANCEL, FAULTS };

/* Fails the query or call that the enrolment waits for, or cancels the enrolment. */
static void fail_at_wait(struct asker *asker, enum fault fault)
{
    static const int statuses[] = {
        [FAULT_REFUSED] = ERR_BUSY, [FAULT_TIMEOUT] = ERR_TIMEOUT, [FAULT_INVALID] = ERR_INVALID};
    static const enum seam_phase phases[] = {[FAULT_REFUSED] = SEAM_DIAL,
                                             [FAULT_TIMEOUT] = SEAM_SILENCE,
                                             [FAULT_CLOSED] = SEAM_MID_REPLY,
                                             [FAULT_INVALID] = SEAM_GARBAGE};
    struct pg_query *query = next_query(asker);
    if (fault == FAULT_CANCEL)
        op_cancel(&asker->enrol.op);
    else if (!query)
        seam_call_fail(machine_call(asker->machine), phases[fault]);
    else if (fault == FAULT_CLOSED)
        seam_query_lose_for_good(query);
    else
        seam_query_fail(query, statuses[fault]);
    seam_settle(asker->machine->node.loop);
}

/* Answers every query and call with success, except at the given wait. Returns the number of
 * waits. */
static size_t go_through(struct asker *asker, size_t wait, enum fault fault)
{
    struct machine *m = asker->machine;
    size_t waits = 0;
    for (unsigned i = 0; i < 1000 && !asker->ended; i++) {
        struct pg_query *query = next_query(asker);
        bool is_wait = query || seam_call(m->node.http, 0);
        if (is_wait && waits++ == wait) {
            fail_at_wait(asker, fault);
            continue;
        }
        if (query) {
            note_asked(asker, query);
            answer(asker, query);
        } else if (is_wait) {
            machine_assert_sent(m, "GET https://app.example/me\nAccept: application/json\n"
                                   "Authorization: Bearer s3cret\n\n");
            bool is_later = asker->replies++ > 0 && asker->way->later_status;
            machine_reply(m, is_later ? asker->way->later_status : asker->way->status,
                          asker->way->body);
        } else {
            (void)seam_pass_timer(m->node.loop, 60000);
        }
        seam_settle(m->node.loop);
    }
    return waits;
}

/* Checks that the enrolment has ended once and that no part of it is under way, and releases it. */
static void let_go(struct asker *asker)
{
    struct machine *m = asker->machine;
    assert_int_equal(asker->ended, 1);
    assert_false(op_is_active(&asker->enrol.op));
    op_release(&asker->op);
    for (struct pg_query *query; (query = next_query(asker)); seam_settle(m->node.loop))
        seam_query_done(query); /* abandoned by a cancel */
    machine_assert_no_call(m);
}

static bool expect(const struct way *way, const char *what, bool holds, const char *is)
{
    if (!holds)
        print_error("%s: %s: %s\n", way->name, what, is);
    return holds;
}

static bool expect_way(const struct asker *asker)
{
    const struct way *way = asker->way;
    const struct call_enrol *out = &asker->out;
    char message[512];
    (void)snprintf(message, sizeof(message), "%d %.*s", (int)out->result, (int)out->message.len,
                   out->message.ptr ? out->message.ptr : "");
    bool is_ok = expect(way, "the result", out->result == way->result, message);
    is_ok &= expect(way, "the statements", strcmp(asker->asked, way->asked) == 0, asker->asked);
    is_ok &= expect(way, "the message",
                    way->message ? slice_find(out->message, slice_cstr(way->message)) >= 0
                                 : out->message.ptr == NULL,
                    message);
    if (way->stored_label)
        is_ok &=
            expect(way, "the label", strcmp(asker->label, way->stored_label) == 0, asker->label);
    if (way->details)
        is_ok &= expect(way, "the event", strstr(asker->audit, way->details) != NULL, asker->audit);
    bool is_new = out->result == CALL_ENROLLED && !way->is_reconnect;
    is_ok &= expect(way, "the connection's id",
                    is_new ? out->connection_id > 0
                           : out->connection_id == (out->result == CALL_ENROLLED ? OLD : 0),
                    message);
    return is_ok;
}

static void each_way_has_its_result(void **state)
{
    struct machine *m = *state;
    bool is_ok = true;
    for (size_t i = 0; i < ARRAY_LEN(ways); i++) {
        struct asker asker;
        begin(&asker, m, &ways[i]);
        (void)go_through(&asker, SIZE_MAX, FAULT_REFUSED);
        is_ok &= expect_way(&asker);
        let_go(&asker);
    }
    assert_true(is_ok);
}

static const struct way *way_named(const char *name)
{
    for (size_t i = 0; i < ARRAY_LEN(ways); i++)
        if (strcmp(ways[i].name, name) == 0)
            return &ways[i];
    fail_msg("no way %s", name);
    return NULL;
}

/* The event says what was done, or names the kind of refusal. */
static void events_have_their_kind(void **state)
{
    struct machine *m = *state;
    static const struct {
        const char *way, *event;
    } cases[] = {
        {"a new connection", "connection.added  {"},
        {"reconnected by the address, in any case", "connection.reconnected  {"},
        {"a link for another id", "link.refused other_identity {"},
        {"a link for one person, and the user is not known", "link.refused unknown_identity {"},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct asker asker;
        begin(&asker, m, way_named(cases[i].way));
        (void)go_through(&asker, SIZE_MAX, FAULT_REFUSED);
        assert_slice_has(slice_cstr(asker.audit), cases[i].event);
        let_go(&asker);
    }
}

/* ---- what the store finds ---- */

static void without_a_bound_nothing_is_counted(void **state)
{
    struct asker asker;
    begin(&asker, *state, way_named("a new connection"));
    (void)go_through(&asker, SIZE_MAX, FAULT_REFUSED);
    assert_int_equal(asker.out.result, CALL_ENROLLED);
    assert_string_equal(asker.asked, "connection_insert audit_insert ");
    let_go(&asker);
}

static struct pg_query *query_at(struct asker *asker, const char *name)
{
    for (unsigned i = 0; i < 20; i++) {
        struct pg_query *query = next_query(asker);
        if (query && strcmp(query->stmt->name, name) == 0)
            return query;
        if (query)
            answer(asker, query);
        else
            machine_reply(asker->machine, asker->way->status, asker->way->body);
    }
    fail_msg("no query %s", name);
    return NULL;
}

/* No row is returned, because the statement's fence excludes it. */
static void what_changed_in_between_is_found_when_it_is_stored(void **state)
{
    static const struct {
        const char *way, *at;
        enum call_enrolled result;
        const char *message;
    } cases[] = {
        {"reconnected by the address, in any case", "connection_get", CALL_ENROL_GONE,
         "The connection was removed in the meantime. Nothing was changed."},
        {"a new connection", "connection_insert", CALL_ENROL_FULL,
         "already has as many connections as it may have"},
        {"a link for anyone", "connect_session_use", CALL_ENROL_LINK_USED,
         "This link was already used, or it has expired."},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct asker asker;
        begin(&asker, *state, way_named(cases[i].way));
        seam_query_done(query_at(&asker, cases[i].at));
        (void)go_through(&asker, SIZE_MAX, FAULT_REFUSED);
        assert_int_equal(asker.out.result, cases[i].result);
        assert_slice_has(asker.out.message, cases[i].message);
        assert_false(asker.is_stored);
        let_go(&asker);
    }
}

static void a_connection_that_goes_while_the_app_is_asked(void **state)
{
    struct machine *m = *state;
    struct asker asker;
    begin(&asker, m, way_named("reconnected by the address, in any case"));
    answer(&asker, next_query(&asker));
    machine_reply(m, 200, ANN);
    seam_query_done(query_at(&asker, "connection_get"));
    seam_settle(m->node.loop);
    assert_int_equal(asker.out.result, CALL_ENROL_GONE);
    let_go(&asker);
}

/* A connection that was chosen because it has the same user is removed before, or right after it
 * has got the credential: the next one is chosen, or a new one is made. */
static void a_connection_of_the_same_user_that_goes(void **state)
{
    struct machine *m = *state;
    for (unsigned after = 0; after < 2; after++) {
        struct asker asker;
        begin(&asker, m, way_named("a stored connection of the same user"));
        if (after)
            answer(&asker, query_at(&asker, "connection_credentials_set"));
        seam_query_done(query_at(&asker, "connection_get"));
        m->store.connections.count = 0;
        (void)go_through(&asker, SIZE_MAX, FAULT_REFUSED);
        assert_int_equal(asker.out.result, CALL_ENROLLED);
        assert_true(asker.out.connection_id > 0 && asker.out.connection_id != OLD);
        assert_string_equal(asker.asked,
                            "connection_twin connection_insert audit_insert connection_yield ");
        let_go(&asker);
    }
}

/* A connection that may have been removed for another one, as the answer was lost, is looked for.
 */
static void a_removal_whose_answer_is_lost(void **state)
{
    for (unsigned is_removed = 0; is_removed < 2; is_removed++) {
        struct asker asker;
        struct machine *m = *state;
        begin(&asker, m, way_named("the same user at the same moment"));
        struct pg_query *query = query_at(&asker, "connection_yield");
        (void)machine_connect(m, "app", "bearer", is_removed ? OLD : asker.enrol.save.connection_id,
                              "{}");
        seam_query_lose_for_good(query);
        (void)go_through(&asker, SIZE_MAX, FAULT_REFUSED);
        assert_int_equal(asker.out.result, CALL_ENROLLED);
        assert_true((asker.out.connection_id == OLD) == is_removed);
        let_go(&asker);
    }
}

/* At the limit, since another request has just stored the same user. */
static void a_full_account_that_has_the_user(void **state)
{
    struct machine *m = *state;
    struct asker asker;
    begin(&asker, m, way_named("the same user at the same moment"));
    struct pg_query *query = query_at(&asker, "connection_insert");
    (void)machine_connect(m, "app", "bearer", OLD, "{}");
    seam_query_done(query);
    (void)go_through(&asker, SIZE_MAX, FAULT_REFUSED);
    assert_int_equal(asker.out.result, CALL_ENROLLED);
    assert_int_equal(asker.out.connection_id, OLD);
    let_go(&asker);
    begin(&asker, m, way_named("the same user at the same moment"));
    seam_query_done(query_at(&asker, "connection_insert"));
    seam_query_done(query_at(&asker, "connection_insert"));
    (void)go_through(&asker, SIZE_MAX, FAULT_REFUSED);
    assert_int_equal(asker.out.result, CALL_ENROL_FULL);
    let_go(&asker);
}

/* Another writer was first, for example a renewal: the new grant replaces what that writer
 * stored. */
static void a_connection_that_changes_while_it_is_stored(void **state)
{
    struct machine *m = *state;
    struct asker asker;
    begin(&asker, m, way_named("reconnected by the address, in any case"));
    seam_query_done(query_at(&asker, "connection_credentials_set"));
    m->store.connections.items[0].rev = 5;
    (void)go_through(&asker, SIZE_MAX, FAULT_REFUSED);
    assert_int_equal(asker.out.result, CALL_ENROLLED);
    assert_true(asker.is_stored);
    let_go(&asker);
    begin(&asker, m, way_named("reconnected by the address, in any case"));
    seam_query_done(query_at(&asker, "connection_credentials_set"));
    m->store.connections.count = 0;
    (void)go_through(&asker, SIZE_MAX, FAULT_REFUSED);
    assert_int_equal(asker.out.result, CALL_ENROL_GONE);
    assert_false(asker.is_stored);
    let_go(&asker);
}

/* The app already has a default connection, so this one does not become the default. */
static void a_second_connection_is_not_the_default(void **state)
{
    struct asker asker;
    begin(&asker, *state, way_named("a new connection"));
    struct pg_query *query = query_at(&asker, "connection_insert");
    assert_true(seam_param(query, "is_default")->as.i64 != 0);
    memcpy(query->sqlstate, "23505", 6);
    seam_query_fail(query, ERR_INVALID);
    query = query_at(&asker, "connection_insert");
    assert_true(seam_param(query, "is_default")->as.i64 == 0);
    (void)go_through(&asker, SIZE_MAX, FAULT_REFUSED);
    assert_int_equal(asker.out.result, CALL_ENROLLED);
    let_go(&asker);
}

static void a_credential_that_is_too_large(void **state)
{
    struct machine *m = *state;
    struct asker asker;
    struct buf text;
    buf_init(&text, 1024 * 1024);
    buf_append_cstr(&text, "{\"token\":\"s\",\"more\":\"");
    for (size_t i = 0; i <= VAULT_PLAIN_MAX; i++)
        buf_append_char(&text, 'x');
    buf_append_cstr(&text, "\"}");
    begin(&asker, m, way_named("an app that does not name the user"));
    asker.enrol.in.save.credential = buf_slice(&text);
    answer(&asker, next_query(&asker));
    seam_settle(m->node.loop);
    assert_int_equal(asker.out.result, CALL_ENROL_REFUSED);
    assert_slice_equal(asker.out.message, "The credential is too large.");
    let_go(&asker);
    buf_deinit(&text);
}

/* ---- each wait, each fault ---- */

static void check_failed(const struct asker *asker, size_t wait, enum fault fault)
{
    const struct call_enrol *out = &asker->out;
    bool is_enrolled = out->result == CALL_ENROLLED;
    if (is_enrolled && !asker->is_stored)
        fail_msg("%s, wait %zu, fault %d: enrolled, but not stored", asker->way->name, wait, fault);
    if (!is_enrolled && out->message.len == 0)
        fail_msg("%s, wait %zu, fault %d: no message", asker->way->name, wait, fault);
    if (!is_enrolled && fault != FAULT_CANCEL && asker->is_link_used && !asker->is_link_free)
        fail_msg("%s, wait %zu, fault %d: its link is used up", asker->way->name, wait, fault);
    if (fault != FAULT_CANCEL && asker->way->result != CALL_ENROLLED && is_enrolled)
        fail_msg("%s, wait %zu, fault %d: enrolled", asker->way->name, wait, fault);
}

static void each_wait_may_fail_and_be_cancelled(void **state)
{
    struct machine *m = *state;
    for (size_t i = 0; i < ARRAY_LEN(ways); i++) {
        struct asker asker;
        begin(&asker, m, &ways[i]);
        size_t waits = go_through(&asker, SIZE_MAX, FAULT_REFUSED);
        let_go(&asker);
        for (size_t wait = 0; wait < waits; wait++)
            for (unsigned fault = 0; fault < FAULTS; fault++) {
                begin(&asker, m, &ways[i]);
                (void)go_through(&asker, wait, (enum fault)fault);
                check_failed(&asker, wait, (enum fault)fault);
                let_go(&asker);
            }
    }
}

/* ---- without memory ---- */

/* Fails the n-th allocation after the first answer, or after the app's reply if is_late. Returns
 * the number of allocations that failed. */
static uint64_t fail_allocation(struct machine *m, const struct way *way, bool is_late, uint64_t n)
{
    struct asker asker;
    begin(&asker, m, way);
    struct pg_query *query = next_query(&asker);
    if (query)
        answer(&asker, query);
    if (is_late)
        seam_settle(m->node.loop);
    if (is_late && seam_call(m->node.http, 0))
        seam_call_reply(seam_call(m->node.http, 0), way->status, way->body);
    mem_fail_at(n, 1);
    seam_settle(m->node.loop);
    uint64_t hits = mem_fail_hits();
    mem_fail_at(0, 0);
    (void)go_through(&asker, SIZE_MAX, FAULT_REFUSED);
    enum call_enrolled result = asker.out.result;
    if (result != way->result && result != CALL_ENROL_OUTAGE && result != CALL_ENROL_UNAVAILABLE)
        fail_msg("%s: result %d at allocation %zu: %.*s", way->name, result, (size_t)n,
                 SLICE_ARG(asker.out.message));
    assert_true(result != CALL_ENROLLED || asker.is_stored);
    let_go(&asker);
    return hits;
}

/* Nothing is stored without being reported, and the failure is not blamed on a credential. */
static void each_allocation_may_fail(void **state)
{
    for (size_t i = 0; i < ARRAY_LEN(ways); i++)
        for (unsigned is_late = 0; is_late < 2; is_late++)
            for (uint64_t n = 1; fail_allocation(*state, &ways[i], is_late, n) > 0; n++)
                continue;
}

static void every_step_and_jump_was_taken(void **state)
{
    (void)state;
    assert_int_equal(seam_table_missing("enrol"), 0);
    assert_int_equal(seam_table_missing("connect_save"), 0);
}

#define ENROL_TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        ENROL_TEST(each_way_has_its_result),
        ENROL_TEST(events_have_their_kind),
        cmocka_unit_test_setup_teardown(without_a_bound_nothing_is_counted, set_up_unbounded,
                                        tear_down),
        ENROL_TEST(what_changed_in_between_is_found_when_it_is_stored),
        ENROL_TEST(a_connection_that_goes_while_the_app_is_asked),
        ENROL_TEST(a_connection_of_the_same_user_that_goes),
        ENROL_TEST(a_removal_whose_answer_is_lost),
        ENROL_TEST(a_full_account_that_has_the_user),
        ENROL_TEST(a_connection_that_changes_while_it_is_stored),
        ENROL_TEST(a_second_connection_is_not_the_default),
        ENROL_TEST(a_credential_that_is_too_large),
        ENROL_TEST(each_wait_may_fail_and_be_cancelled),
        ENROL_TEST(each_allocation_may_fail),
        cmocka_unit_test(every_step_and_jump_was_taken),
    };
    seam_table_watch();
    return cmocka_run_group_tests_name("call/enrol", tests, NULL, NULL);
}
