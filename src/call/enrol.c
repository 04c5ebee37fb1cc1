/*
 * Turns a credential into a connection; see enrol.h.
 */
#include "call/enrol.h"

enum { ENROL_ARENA_BYTES_MAX = 1024 * 1024, DETAILS_BYTES_MAX = 16 * 1024 };

enum step {
    STEP_LOAD,
    STEP_CHECK_FORMER,
    STEP_CHECK_COUNT,
    STEP_PROBE,
    STEP_SAVE,
    STEP_FIND_TWIN,
    STEP_CHECK_SAVED,
    STEP_YIELDED,
    STEP_CHECK_TWIN,
    STEP_CHECK_REFUSAL
};

OP_OF(enrol_of, call_enrol)

static enum op_result stop_enrol(struct call_enrol *enrol, enum call_enrolled result, slice message)
{
    enrol->result = result;
    enrol->message = message;
    return OP_FAIL;
}

static enum op_result stop_database(struct call_enrol *enrol)
{
    return stop_enrol(enrol, CALL_ENROL_UNAVAILABLE, SLICE("The database cannot be reached."));
}

/* The texts of the probe are in its own arena, which is freed at its end, but the outcome must
 * live as long as this op. SLICE_NONE stays SLICE_NONE: it differs from an empty text in the
 * database. */
static slice copy_text(struct call_enrol *enrol, slice text)
{
    return text.ptr ? arena_dup(&enrol->op.arena, text) : SLICE_NONE;
}

/* First come the checks that can refuse the credential without the app: the connection to
 * reconnect no longer exists, or the account has reached its limit. The old row also has the
 * params that the probe needs and the identity that the new one is compared with. */
static enum op_result step_load(struct op *op)
{
    struct call_enrol *enrol = enrol_of(op);
    if (enrol->find_status == ERR_NOMEM)
        return stop_enrol(enrol, CALL_ENROL_UNAVAILABLE, SLICE("The server is out of memory."));
    if (!enrol->app)
        return stop_enrol(enrol, CALL_ENROL_REFUSED, SLICE("The app is no longer available."));
    size_t connections_max = connect_connections_max(enrol->connect);
    if (!enrol->in.save.connection_id) {
        /* with is_single the credential may be that of a stored connection */
        if (!connections_max || enrol->in.is_single)
            return op_jump(op, STEP_PROBE);
        store_connection_count(enrol->pool, &enrol->query, op, enrol->in.save.account_id,
                               connections_max);
        return op_wait_then(op, STEP_CHECK_COUNT);
    }
    store_connection_get(enrol->pool, &enrol->query, op, enrol->in.save.account_id,
                         enrol->in.save.connection_id);
    return OP_WAIT;
}

static enum op_result stop_gone(struct call_enrol *enrol)
{
    return stop_enrol(enrol, CALL_ENROL_GONE,
                      SLICE("The connection was removed in the meantime. Nothing was changed."));
}

static enum op_result step_check_former(struct op *op)
{
    struct call_enrol *enrol = enrol_of(op);
    ASSERT(enrol->in.save.connection_id != 0);
    int status = store_connection_get_result(&enrol->query, &enrol->former);
    if (status == ERR_NOTFOUND ||
        (status == OK && !slice_eq(enrol->former.integration_id, enrol->app->integration_id)))
        return stop_gone(enrol);
    return status == OK ? op_jump(op, STEP_PROBE) : stop_database(enrol);
}

static enum op_result stop_full(struct call_enrol *enrol)
{
    return stop_enrol(enrol, CALL_ENROL_FULL, connect_say_full(enrol->connect, &enrol->op.arena));
}

/* This early check may save a call to the app. Two enrolments may pass it at the same time, so the
 * storing statement counts again (CONNECT_SAVE_FULL). */
static enum op_result step_check_count(struct op *op)
{
    struct call_enrol *enrol = enrol_of(op);
    size_t count;
    ASSERT(enrol->in.save.connection_id == 0);
    int status = store_count_result(&enrol->query, &count);
    if (status == OK && count >= connect_connections_max(enrol->connect))
        return stop_full(enrol);
    return status == OK ? OP_NEXT : stop_database(enrol);
}

/* A reconnect uses the stored params: it does not change a host or a tenant. */
static enum op_result step_probe(struct op *op)
{
    struct call_enrol *enrol = enrol_of(op);
    if (enrol->in.is_expired) {
        enrol->probe.verdict = CALL_PROBE_UNTESTED;
        return OP_NEXT;
    }
    slice params = enrol->in.save.connection_id ? enrol->former.params : enrol->in.save.params;
    const struct call_probe_request in = {
        .tenant = uuid_or(enrol->in.save.by.parent_id, enrol->in.save.account_id),
        .integration_id = enrol->in.save.integration_id,
        .auth_kind = enrol->in.save.auth_kind,
        .credential = enrol->in.save.credential,
        .params = params.len > 0 ? json_parse(&op->arena, params, &json_limits_provider, NULL)
                                 : NULL,
        .id_token = enrol->in.id_token,
        .is_identity_only = enrol->in.is_grant,
    };
    call_probe_start(enrol->http, enrol->catalog, &enrol->probe, &in, op);
    return OP_WAIT;
}

/* ---- the identity ---- */

enum match { MATCH_SAME, MATCH_OTHER, MATCH_UNKNOWN };

/* A link may demand an identity: each demanded member must be known and equal. A mismatch takes
 * precedence over an unknown member, so that the message names it. */
static enum match match_demand(const struct connection_identity *wanted,
                               const struct connection_identity *came)
{
    bool lacks = (wanted->email.ptr && !came->email.ptr) ||
                 (wanted->subject.ptr && !came->subject.ptr);
    bool is_other =
        (wanted->email.ptr && came->email.ptr && !slice_eq_nocase(wanted->email, came->email)) ||
        (wanted->subject.ptr && came->subject.ptr &&
         !connection_subject_admits(wanted->subject, came->subject));
    if (is_other)
        return MATCH_OTHER;
    return lacks ? MATCH_UNKNOWN : MATCH_SAME;
}

/* An email address may pass to another user, and a user may change the address, so the app's own id
 * decides if there is one. A connection of a version that knew only the workspace is any user's of
 * that workspace. */
static enum match match_former(const struct connection_identity *former,
                               const struct connection_identity *came)
{
    bool is_same;
    if (!connection_identity_is_known(former))
        return MATCH_SAME;
    if (former->subject.ptr && came->subject.ptr)
        is_same = connection_subject_admits(former->subject, came->subject);
    else if (former->email.ptr && came->email.ptr)
        is_same = slice_eq_nocase(former->email, came->email);
    else
        return MATCH_UNKNOWN;
    return is_same ? MATCH_SAME : MATCH_OTHER;
}

/* Includes the id if the id decides: "T0123 (Acme)". */
static slice name_of(const struct connection_identity *identity, bool is_by_subject,
                     struct arena *arena)
{
    slice text = connection_identity_text(identity);
    if (!is_by_subject || !identity->subject.ptr || slice_eq(text, identity->subject))
        return text;
    return arena_printf(arena, "%.*s (%.*s)", SLICE_ARG(identity->subject), SLICE_ARG(text));
}

static void put_refusal(struct call_enrol *enrol, struct json_writer *w,
                        const struct connection_identity *wanted)
{
    json_open(w, '{');
    json_member_str(w, "integration_id", enrol->in.save.integration_id);
    json_member_open(w, "expected", '{');
    connect_write_identity(w, wanted);
    json_close(w, '}');
    json_member_open(w, "came", '{');
    connect_write_identity(w, &enrol->identity);
    json_close(w, '}');
    connect_write_link(w, enrol->in.save.link);
    json_close(w, '}');
}

/* The link may have been forwarded, so its account is informed. The event is written before the
 * answer, and the refusal is final even if the event cannot be written (step_check_refusal). */
static enum op_result audit_refusal(struct call_enrol *enrol,
                                    const struct connection_identity *wanted)
{
    ASSERT(enrol->in.save.link && enrol->result != CALL_ENROLLED);
    struct json_text text;
    put_refusal(enrol, json_text_begin(&text, DETAILS_BYTES_MAX), wanted);
    enrol->event = (struct audit_event){
        .account_id = enrol->in.save.account_id,
        .id = uuid_v7(),
        .kind = audit_kind_name(AUDIT_LINK_REFUSED),
        .reason = enrol->result == CALL_ENROL_OTHER_IDENTITY ? SLICE("other_identity")
                                                             : SLICE("unknown_identity"),
        .by = enrol->in.save.by,
        .details = json_text_take(&text, &enrol->op.arena),
    };
    store_audit_insert(enrol->pool, &enrol->query, &enrol->op, &enrol->event);
    return op_wait_then(&enrol->op, STEP_CHECK_REFUSAL);
}

/* Refuses the identity; nothing was stored. A connection keeps its identity when it is
 * reconnected. */
static enum op_result refuse_identity(struct call_enrol *enrol, enum match match,
                                      const struct connection_identity *wanted, const char *what)
{
    ASSERT(match != MATCH_SAME);
    struct arena *arena = &enrol->op.arena;
    bool is_by_subject = !wanted->email.ptr ||
                         slice_eq_nocase(wanted->email, enrol->identity.email);
    slice app = enrol->app->name, login = name_of(wanted, is_by_subject, arena);
    slice came = name_of(&enrol->identity, is_by_subject, arena);
    if (match == MATCH_OTHER)
        (void)stop_enrol(enrol, CALL_ENROL_OTHER_IDENTITY,
                         arena_printf(arena,
                                      "%s %.*s, but the login at %.*s is %.*s. Nothing was stored "
                                      "or changed. Sign in to %.*s as %.*s, then try again.",
                                      what, SLICE_ARG(login), SLICE_ARG(app), SLICE_ARG(came),
                                      SLICE_ARG(app), SLICE_ARG(login)));
    else
        (void)stop_enrol(enrol, CALL_ENROL_UNKNOWN_IDENTITY,
                         arena_printf(arena,
                                      "%s %.*s, but the login at %.*s could not be determined. "
                                      "Nothing was stored or changed. Try again. %.*s",
                                      what, SLICE_ARG(login), SLICE_ARG(app),
                                      SLICE_ARG(enrol->probe.identity_message)));
    return enrol->in.save.link ? audit_refusal(enrol, wanted) : OP_FAIL;
}

/* Returns OP_NEXT if the identity may be connected. The identity that a link demands is checked
 * first. A link never changes an identity, because its holder is not the account; nor does a
 * request with is_single. Any other reconnect is accepted with an unknown identity, since an app
 * may have none and the request comes from the account itself. */
static enum op_result check_identity(struct call_enrol *enrol)
{
    const struct connect_session *link = enrol->in.save.link;
    const struct connection_identity *former = &enrol->former.identity;
    if (link) {
        const struct connection_identity wanted = {.email = link->email, .subject = link->subject};
        enum match match = match_demand(&wanted, &enrol->identity);
        if (match != MATCH_SAME)
            return refuse_identity(enrol, match, &wanted, "This link is for");
    }
    if (enrol->in.may_change_identity && !link)
        return OP_NEXT;
    enum match match = match_former(former, &enrol->identity);
    if (match == MATCH_OTHER || (match == MATCH_UNKNOWN && (link || enrol->in.is_single)))
        return refuse_identity(enrol, match, former, "This connection acts as");
    return OP_NEXT;
}

/* ---- storing ---- */

/* Returns the first text that can be a label, from the person's own text to the app's name. */
static slice label_of(struct call_enrol *enrol)
{
    const slice labels[] = {enrol->in.save.label, enrol->identity.label, enrol->identity.email,
                            enrol->probe.label};
    for (size_t i = 0; i < ARRAY_LEN(labels); i++)
        if (slice_is_name(labels[i], CONNECTION_LABEL_MAX))
            return copy_text(enrol, labels[i]);
    return copy_text(enrol, enrol->app->name);
}

static enum op_result save_connection(struct call_enrol *enrol)
{
    /* The struct is free again: between two saves a query or another op has ended. */
    connect_save_start(enrol->connect, &enrol->save, &enrol->in.save, &enrol->op);
    return op_wait_then(&enrol->op, STEP_CHECK_SAVED);
}

/* ---- one connection for each user of the app ---- */

enum { TWIN_TRIES_MAX = 10 };

static struct connection_twin twin_of(const struct call_enrol *enrol)
{
    const struct connect_save_request *request = &enrol->in.save;
    return (struct connection_twin){
        .integration_id = request->integration_id,
        .subject = enrol->identity.subject,
        .email = enrol->identity.email,
        .params = request->params.ptr ? request->params : SLICE("{}"),
    };
}

static enum op_result find_twin(struct call_enrol *enrol)
{
    struct connect_save_request *request = &enrol->in.save;
    const struct connection_twin twin = twin_of(enrol);
    request->connection_id = 0; /* one that was chosen before was removed */
    store_connection_twin(enrol->pool, &enrol->query, &enrol->op, request->account_id, &twin);
    return op_wait_then(&enrol->op, STEP_FIND_TWIN);
}

/* Chooses the connection that acts as the same user of the app, if there is one. */
static enum op_result step_find_twin(struct op *op)
{
    struct call_enrol *enrol = enrol_of(op);
    int64_t id = 0;
    int status = store_rev_result(&enrol->query, &id);
    if (status != OK && status != ERR_NOTFOUND && status != ERR_INVALID)
        return stop_database(enrol);
    enrol->is_twin = status == OK;
    enrol->in.save.connection_id = enrol->is_twin ? id : 0;
    return save_connection(enrol);
}

static bool needs_twin_check(const struct call_enrol *enrol)
{
    return enrol->in.is_single && !enrol->in.save.connection_id && enrol->identity.subject.ptr;
}

static enum op_result yield_connection(struct call_enrol *enrol)
{
    const struct connect_save_request *saved = &enrol->in.save;
    struct connect_command_request request = {
        .kind = CONNECT_YIELD,
        .by = saved->by,
        .connection = {.account_id = saved->account_id, .id = enrol->save.connection_id},
        .twin = twin_of(enrol),
    };
    connect_command_start(enrol->connect, &enrol->yield, &request, &enrol->op);
    return op_wait_then(&enrol->op, STEP_YIELDED);
}

static enum op_result end_enrolled(struct call_enrol *enrol)
{
    enrol->result = CALL_ENROLLED;
    enrol->message = SLICE_NONE;
    enrol->connection_id = enrol->save.connection_id;
    return OP_DONE;
}

static enum op_result load_twin(struct call_enrol *enrol)
{
    store_connection_get(enrol->pool, &enrol->query, &enrol->op, enrol->in.save.account_id,
                         enrol->save.connection_id);
    return op_wait_then(&enrol->op, STEP_CHECK_TWIN);
}

/* Another request has made a connection of the same user at the same moment: this one's was
 * removed, and the other one gets the credential. It stays the default if this one was. If the
 * answer was lost, the connection may have been removed. */
static enum op_result step_yielded(struct op *op)
{
    struct call_enrol *enrol = enrol_of(op);
    struct connect_save_request *request = &enrol->in.save;
    if (enrol->yield.status == ERR_NOTFOUND)
        return end_enrolled(enrol);
    enrol->is_twin = true;
    request->is_default |= enrol->save.is_default;
    if (enrol->yield.status != OK)
        return load_twin(enrol);
    request->connection_id = enrol->yield.kept_id;
    return save_connection(enrol);
}

/* The request that made it may have removed it in the meantime, since there was a third one. */
static enum op_result step_check_twin(struct op *op)
{
    struct call_enrol *enrol = enrol_of(op);
    struct connection row;
    bool is_gone = store_connection_get_result(&enrol->query, &row) == ERR_NOTFOUND;
    return is_gone && enrol->tries++ < TWIN_TRIES_MAX ? find_twin(enrol) : end_enrolled(enrol);
}

/* ---- the result ---- */

static enum op_result begin_save(struct call_enrol *enrol)
{
    struct connect_save_request *request = &enrol->in.save;
    const struct catalog_auth *auth = catalog_auth_of(enrol->app, request->auth_kind);
    request->auth_kind = slice_cstr(catalog_auth_name(auth->kind));
    request->integration_id = enrol->app->integration_id;
    request->label = label_of(enrol);
    request->identity = enrol->identity;
    if (!request->label.ptr)
        return stop_enrol(enrol, CALL_ENROL_UNAVAILABLE, SLICE("The server is out of memory."));
    return needs_twin_check(enrol) ? find_twin(enrol) : save_connection(enrol);
}

/* The probe has ended, so its fields can be read. Nothing is stored after an OUTAGE: a credential
 * that was never tested would fail in its first execution, when the person who typed it cannot
 * correct it. */
static enum op_result step_save(struct op *op)
{
    struct call_enrol *enrol = enrol_of(op);
    const struct call_probe *probe = &enrol->probe;
    ASSERT(!op_is_active(&probe->op));
    if (probe->verdict == CALL_PROBE_REFUSED || probe->verdict == CALL_PROBE_OUTAGE)
        return stop_enrol(
            enrol, probe->verdict == CALL_PROBE_REFUSED ? CALL_ENROL_REFUSED : CALL_ENROL_OUTAGE,
            copy_text(enrol, probe->message));
    enrol->is_tested = probe->verdict == CALL_PROBE_WORKS;
    enrol->identity = (struct connection_identity){
        .email = copy_text(enrol, probe->identity.email),
        .subject = copy_text(enrol, probe->identity.subject),
        .label = copy_text(enrol, probe->identity.label),
    };
    if (probe->identity_message.ptr && enrol->app->identity.from != IDENTITY_NONE)
        op_log(op, LOG_WARN, "a connection's identity is not known",
               LOG_STR("integration_id", enrol->in.save.integration_id),
               LOG_STR("cause", probe->identity_message));
    bool must_know = enrol->in.is_single && enrol->app->identity.subject;
    if (must_know && probe->is_identity_outage) /* else it might become a second connection */
        return stop_enrol(enrol, CALL_ENROL_OUTAGE, copy_text(enrol, probe->identity_message));
    enum op_result result = check_identity(enrol);
    return result == OP_NEXT ? begin_save(enrol) : result;
}

static enum op_result step_check_saved(struct op *op)
{
    struct call_enrol *enrol = enrol_of(op);
    switch (enrol->save.result) {
    case CONNECT_SAVED:
        if (needs_twin_check(enrol))
            return yield_connection(enrol);
        return enrol->is_twin ? load_twin(enrol) : end_enrolled(enrol);
    case CONNECT_SAVE_GONE:
        return enrol->is_twin && enrol->tries++ < TWIN_TRIES_MAX ? find_twin(enrol)
                                                                 : stop_gone(enrol);
    case CONNECT_SAVE_FULL: /* unless another request has just stored the same user's */
        return needs_twin_check(enrol) && enrol->tries++ == 0 ? find_twin(enrol) : stop_full(enrol);
    case CONNECT_SAVE_LINK_USED:
        return stop_enrol(enrol, CALL_ENROL_LINK_USED,
                          SLICE("This link was already used, or it has expired."));
    case CONNECT_SAVE_TOO_LARGE:
        return stop_enrol(enrol, CALL_ENROL_REFUSED, SLICE("The credential is too large."));
    case CONNECT_SAVE_UNAVAILABLE:
        return stop_database(enrol);
    }
    UNREACHABLE("all results are listed");
}

/* Returns OP_FAIL whether or not the event was written: refuse has set result and message. */
static enum op_result step_check_refusal(struct op *op)
{
    if (store_done_result(&enrol_of(op)->query) != OK)
        op_log(op, LOG_WARN, "an audit event was lost", LOG_STR("kind", enrol_of(op)->event.kind));
    return OP_FAIL;
}

static void on_cancel(struct op *op)
{
    struct call_enrol *enrol = enrol_of(op);
    op_cancel(&enrol->probe.op);
    op_cancel(&enrol->save.op);
    op_cancel(&enrol->yield.op);
}

static void on_end(struct op *op, enum op_end end)
{
    struct call_enrol *enrol = enrol_of(op);
    (void)end;
    catalog_unref(enrol->catalog);
    enrol->catalog = NULL;
    enrol->app = NULL;
}

static const struct op_step steps[] = {
    [STEP_LOAD] = {"load", step_load, OP_TO(STEP_CHECK_COUNT) | OP_TO(STEP_PROBE)},
    [STEP_CHECK_FORMER] = {"check_former", step_check_former, OP_TO(STEP_PROBE)},
    [STEP_CHECK_COUNT] = {"check_count", step_check_count, 0},
    [STEP_PROBE] = {"probe", step_probe, 0},
    [STEP_SAVE] = {"save", step_save,
                   OP_TO(STEP_FIND_TWIN) | OP_TO(STEP_CHECK_SAVED) | OP_TO(STEP_CHECK_REFUSAL)},
    [STEP_FIND_TWIN] = {"find_twin", step_find_twin, OP_TO(STEP_CHECK_SAVED)},
    [STEP_CHECK_SAVED] = {"check_saved", step_check_saved,
                          OP_TO(STEP_FIND_TWIN) | OP_TO(STEP_YIELDED) | OP_TO(STEP_CHECK_TWIN)},
    [STEP_YIELDED] = {"yielded", step_yielded, OP_TO(STEP_CHECK_SAVED) | OP_TO(STEP_CHECK_TWIN)},
    [STEP_CHECK_TWIN] = {"check_twin", step_check_twin, OP_TO(STEP_FIND_TWIN)},
    [STEP_CHECK_REFUSAL] = {"check_refusal", step_check_refusal, 0},
};
static const struct op_class enrol_class = {
    .name = "enrol",
    .is_background = true,
    OP_STEPS(steps),
    .on_cancel = on_cancel,
    .on_end = on_end,
};

void call_enrol_start(struct connect_service *connect, struct pg_pool *pool,
                      struct http_client *http, struct catalog *catalog, struct call_enrol *enrol,
                      const struct call_enrol_request *request, struct op *parent)
{
    *enrol = (struct call_enrol){
        .result = CALL_ENROL_UNAVAILABLE,
        .message = SLICE("This server is shutting down."),
        .connect = connect,
        .pool = pool,
        .http = http,
        .catalog = catalog_ref(catalog),
        .in = *request,
    };
    enrol->app =
        catalog_find_integration(catalog, request->save.integration_id, &enrol->find_status);
    op_start(&enrol->op, &enrol_class, parent->loop, parent, ENROL_ARENA_BYTES_MAX);
}
