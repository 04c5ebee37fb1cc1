/*
 * Authorizing from a terminal; see authorize.h. One loop runs both halves: it turns until the
 * authorize URL is known, stops while the person uses the browser (read_line blocks), and turns
 * again to exchange the code.
 */
#include "cli/authorize.h"

#include <stdio.h>

#include "base/clock.h"
#include "base/encode.h"
#include "cli/engine.h"
#include "cli/output.h"
#include "call/enrol.h"

enum { SESSION_BYTES = 32, ARENA_BYTES_MAX = 1024 * 1024 };

struct authorize {
    struct op op;
    struct session *session;
    struct engine engine;
    struct oauth_begin_request begin_request;
    struct oauth_finish_request finish_request;
    struct oauth_begin begin;
    struct oauth_finish finish;
    struct call_enrol enrol;
    struct audit_by by;
    bool may_change_identity;
    uint8_t session_id[SESSION_BYTES];
    bool is_finishing, is_freed;
    /* the address that the user pasted, and the decoded values of its query */
    struct buf line, values;
};

/* ---- one op for each half ---- */

OP_OF(authorize_of, authorize)

static enum op_result step_start(struct op *op)
{
    struct authorize *it = authorize_of(op);
    if (it->is_finishing)
        oauth_finish_start(it->engine.connect, &it->finish, &it->finish_request, op);
    else
        oauth_begin_start(it->engine.connect, &it->begin, &it->begin_request, op);
    return OP_WAIT;
}

static slice copy_child_text(struct op *op, slice text)
{
    /* The texts belong to a child op whose memory is freed after this turn. */
    return text.ptr ? arena_dup(&op->arena, text) : SLICE_NONE;
}

/* Stores the grant with the identity that the app reports. */
static enum op_result step_enrol(struct op *op)
{
    struct authorize *it = authorize_of(op);
    const struct oauth_finish *finish = &it->finish;
    /* There is nothing to store after the first half, or if the grant was refused. */
    if (!it->is_finishing || finish->outcome != OAUTH_DONE)
        return OP_NEXT;
    const struct call_enrol_request in = {
        .save.account_id = it->finish_request.account_id,
        .save.integration_id = copy_child_text(op, finish->integration_id),
        .save.auth_kind = slice_cstr(catalog_auth_name(AUTH_OAUTH2)),
        .save.connection_id = finish->connection_id,
        .save.label = copy_child_text(op, finish->label),
        .save.params = copy_child_text(op, finish->params),
        .save.credential = secret_reveal(finish->credential),
        .id_token = copy_child_text(op, finish->id_token),
        .save.scopes = copy_child_text(op, finish->scopes),
        .save.expires_at = finish->expires_at,
        .is_grant = true,
        .may_change_identity = it->may_change_identity,
        .save.by = it->by,
    };
    it->finish.scopes_missing = copy_child_text(op, finish->scopes_missing);
    call_enrol_start(it->engine.connect, it->engine.pool, it->engine.out.client,
                     it->session->catalog, &it->enrol, &in, op);
    return OP_WAIT;
}

/* The connection's id goes to stdout for scripts; notes go to stderr. */
static void print_connection(const struct authorize *it)
{
    const struct call_enrol *enrol = &it->enrol;
    (void)printf("connection %lld%s\n", (long long)enrol->connection_id,
                 it->finish.connection_id ? " has a new grant" : "");
    if (connection_identity_is_known(&enrol->identity)) {
        (void)fprintf(stderr, "acts as ");
        output_text(stderr, connection_identity_text(&enrol->identity));
        (void)fputc('\n', stderr);
    }
    /* The connection works, but actions that need these scopes will be refused. */
    if (it->finish.scopes_missing.ptr) {
        (void)fprintf(stderr, "not granted: ");
        output_text(stderr, it->finish.scopes_missing);
        (void)fputc('\n', stderr);
    }
    if (it->finish.is_refresh_token_missing)
        (void)fprintf(
            stderr,
            "the app issued no refresh token: reconnect it when its access token expires\n");
}

/* The results of a child op are valid until the end of this turn, so they are printed here. */
static enum op_result step_print(struct op *op)
{
    struct authorize *it = authorize_of(op);
    bool is_begun = !it->is_finishing && it->begin.outcome == OAUTH_DONE;
    bool is_granted = it->is_finishing && it->finish.outcome == OAUTH_DONE;
    slice message = is_granted         ? it->enrol.message
                    : it->is_finishing ? it->finish.message
                                       : it->begin.message;
    /* By now the tokens are stored, or enrolling has failed and they are discarded. */
    if (it->is_finishing)
        secret_unref(it->finish.credential);
    if (is_begun) {
        (void)printf("%.*s\n", SLICE_ARG(it->begin.url));
        (void)fflush(stdout);
    } else if (is_granted && it->enrol.result == CALL_ENROLLED) {
        print_connection(it);
    } else {
        bool may_insist = is_granted && it->enrol.result == CALL_ENROL_OTHER_IDENTITY;
        (void)err_set(&it->session->err, ERR_REFUSED, "%.*s%s", SLICE_ARG(message),
                      may_insist ? " To allow another login, add --any-identity." : "");
    }
    return OP_DONE;
}

static void on_freed(struct op *op)
{
    authorize_of(op)->is_freed = true;
}

static const struct op_step steps[] = {
    {"start", step_start, 0}, {"enrol", step_enrol, 0}, {"print", step_print, 0}};
static const struct op_class authorize_class = {
    .name = "authorize", .steps = steps, .step_count = ARRAY_LEN(steps), .free = on_freed};

/* Runs one half to its end. Returns OK, or the error whose message is in the session's err. */
static int run_half(struct authorize *it, bool is_finishing)
{
    it->is_finishing = is_finishing;
    it->is_freed = false;
    it->session->err.code = OK;
    op_start(&it->op, &authorize_class, it->engine.loop, NULL, ARENA_BYTES_MAX);
    /* on_freed is called last, after the op's own end; only then may the struct be reused. */
    while (!it->is_freed)
        (void)loop_turn(it->engine.loop, true);
    return (int)it->session->err.code;
}

/* ---- the address that the browser ended at ---- */

static int read_line(struct authorize *it)
{
    struct err *err = &it->session->err;
    int c;
    (void)fprintf(
        stderr,
        "Open this address in a browser and allow the access. Then paste here the address of the "
        "page that the browser shows last:\n");
    while ((c = getchar()) != EOF && c != '\n')
        buf_append_char(&it->line, (char)c);
    if (!buf_is_ok(&it->line) || it->line.len == 0)
        return err_set(err, ERR_INVALID, "no address was entered");
    return OK;
}

/* Decodes a parameter's value into `values`. The buffer is reserved for the whole query, so it
 * never moves. */
static int read_value(struct authorize *it, slice text, slice *value)
{
    size_t start = it->values.len;
    if (decode_percent(&it->values, text, true) != OK)
        return err_set(&it->session->err, ERR_INVALID,
                       "the address has an invalid percent-encoding");
    *value = slice_of(it->values.ptr + start, it->values.len - start);
    return OK;
}

static int read_address(struct authorize *it)
{
    struct oauth_finish_request *request = &it->finish_request;
    struct {
        const char *name;
        slice *value;
    } const wanted[] = {{"state", &request->state},
                        {"code", &request->code},
                        {"iss", &request->iss},
                        {"error", &request->error}};
    slice query = slice_trim(buf_slice(&it->line));
    ptrdiff_t mark = slice_find_char(query, '?');
    /* All values together are shorter than the query, so one reservation is enough. */
    if (mark < 0 || !buf_reserve(&it->values, query.len))
        return err_set(&it->session->err, ERR_INVALID,
                       "the address has no query; it should hold a code and a state");
    query = slice_from(query, (size_t)mark + 1);
    /* A fragment is not part of the query; some apps append one. */
    query = slice_split(&query, '#');
    while (query.len > 0) {
        slice value = slice_split(&query, '&'), name = slice_split(&value, '=');
        /* Other parameters belong to the app. */
        for (size_t i = 0; i < ARRAY_LEN(wanted); i++)
            if (slice_eq_cstr(name, wanted[i].name) &&
                read_value(it, value.ptr ? value : SLICE(""), wanted[i].value) != OK)
                return ERR_INVALID;
    }
    return OK;
}

/* ---- both halves ---- */

int authorize_run(struct session *session, const struct oauth_begin_request *request)
{
    struct authorize it = {.session = session,
                           .begin_request = *request,
                           .may_change_identity = request->may_change_identity};
    /* The session id is new for this run: the state in the pasted address must have been issued
     * by it. */
    random_kernel(it.session_id, sizeof(it.session_id));
    it.begin_request.session_id = slice_of(it.session_id, sizeof(it.session_id));
    it.by = session_by(session);
    it.finish_request = (struct oauth_finish_request){
        .account_id = request->account_id,
        .session_id = it.begin_request.session_id,
    };
    buf_init(&it.line, OAUTH_URL_BYTES_MAX);
    buf_init(&it.values, OAUTH_URL_BYTES_MAX);
    int result = engine_open(&it.engine, session, true);
    if (result == OK)
        result = run_half(&it, false);
    if (result == OK)
        result = read_line(&it);
    if (result == OK)
        result = read_address(&it);
    if (result == OK)
        result = run_half(&it, true);
    engine_close(&it.engine);
    buf_deinit(&it.line);
    buf_deinit(&it.values);
    return result;
}
