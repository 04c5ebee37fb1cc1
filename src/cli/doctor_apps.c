/*
 * The way to the apps: one request without a credential to each origin, all at once. Any reply
 * proves name, route and certificate.
 */
#include "base/clock.h"
#include "cli/doctor.h"
#include "server/outbound.h"

enum {
    ORIGINS_MAX = 64,
    CALL_MS = 10000,
    SETTLE_MS = 5000,
    ARENA_BYTES_MAX = 64 * 1024 * 1024,
};

struct origin {
    slice app, url; /* "https://host[:port]" */
    struct http_call call;
};

struct reach {
    struct op op;
    struct doctor *doctor;
    struct loop *loop;
    struct outbound out;
    struct origin origins[ORIGINS_MAX];
    size_t count;
    bool is_freed;
};

/* ---- which origins ---- */

static void add_origin(struct reach *reach, slice app, slice url)
{
    ptrdiff_t colon = slice_find_char(url, ':');
    size_t len = colon > 0 ? (size_t)colon + 3 : url.len;
    /* An address that a connection's parameters complete is not known here. */
    if (len >= url.len || slice_find_char(url, '$') >= 0)
        return;
    while (len < url.len && url.ptr[len] != '/' && url.ptr[len] != '?')
        len++;
    url = slice_first(url, len);
    for (size_t i = 0; i < reach->count; i++)
        if (slice_eq(reach->origins[i].url, url))
            return;
    if (reach->count < ORIGINS_MAX)
        reach->origins[reach->count++] = (struct origin){.app = app, .url = url};
}

/* Where its actions and its tokens come from. */
static void add_app(struct reach *reach, slice id)
{
    struct session *session = reach->doctor->session;
    const struct catalog_integration *app = catalog_find_integration(session->catalog, id, NULL);
    struct err err;
    if (!app) {
        doctor_say(reach->doctor, DOCTOR_FAIL, "app",
                   "Its connections answer integration_not_found: bring its manifest back "
                   "(catalog), or check the name.",
                   "there is no app \"%.*s\"", SLICE_ARG(id));
        return;
    }
    const struct json *manifest =
        json_parse(&session->arena, app->source, &json_limits_request, &err);
    if (manifest)
        add_origin(reach, app->integration_id, json_get_str(manifest, SLICE("base_url")));
    for (size_t i = 0; i < app->auth_count; i++)
        add_origin(reach, app->integration_id, app->auths[i].token_url);
}

/* Those that are connected, as far as there is a database, and those that were named. */
static void add_apps(struct reach *reach)
{
    struct doctor *doctor = reach->doctor;
    struct session *session = doctor->session;
    struct pg_rows rows = {.count = 0};
    if (session->sync && pg_sync_text(session->sync,
                                      "select distinct integration_id from sluice.connection "
                                      "order by 1",
                                      &session->arena, &rows, &session->err) != OK)
        rows.count = 0; /* the check of the database has said why */
    for (size_t i = 0; i < rows.count; i++)
        add_app(reach, pg_get_bytes(&rows, i, 0));
    for (size_t i = 0; i < doctor->app_count; i++)
        add_app(reach, slice_cstr(doctor->apps[i]));
}

/* ---- the requests ---- */

OP_OF(reach_of, reach)

static enum op_result step_call(struct op *op)
{
    struct reach *reach = reach_of(op);
    for (size_t i = 0; i < reach->count; i++) {
        struct origin *origin = &reach->origins[i];
        origin->call = (struct http_call){
            .method = SLICE("GET"),
            .url = arena_printf(&op->arena, "%.*s/", SLICE_ARG(origin->url)),
            .is_idempotent = true,
            .deadline_ns = loop_now_ns(op->loop) + CALL_MS * 1000000ULL,
        };
        if (http_call_start(reach->out.client, &origin->call, op) != OK)
            origin->call.result = HTTP_CALL_PROTOCOL;
    }
    return OP_WAIT;
}

static const char *advice(enum http_call_result result)
{
    switch (result) {
    case HTTP_CALL_DNS:
        return "Check the resolver (/etc/resolv.conf).";
    case HTTP_CALL_ADDRESS_REFUSED:
        return "If that private address is meant, allow it: allow-host.";
    case HTTP_CALL_TLS:
        return "If a gateway of yours signs certificates, put its root into ca-file.";
    case HTTP_CALL_PROXY:
        return "See https-proxy: its host, user and password, and where it lets this machine go.";
    case HTTP_CALL_CONNECT:
    case HTTP_CALL_TIMEOUT_CONNECT:
        return "Does a firewall let this machine out to it?";
    default:
        return "Try again; if it stays, ask the vendor's status page.";
    }
}

/* A reply that is too large, or no answer that HTTP knows, has come all the same. */
static enum op_result step_say(struct op *op)
{
    struct reach *reach = reach_of(op);
    for (size_t i = 0; i < reach->count; i++) {
        const struct origin *origin = &reach->origins[i];
        const struct http_call *call = &origin->call;
        if (call->status > 0)
            doctor_say(reach->doctor, DOCTOR_OK, "app", NULL,
                       "%.*s: %.*s answers (%u from %s, %llu ms)", SLICE_ARG(origin->app),
                       SLICE_ARG(origin->url), call->status, call->remote,
                       (unsigned long long)(call->total_ns / 1000000));
        else
            doctor_say(reach->doctor, DOCTOR_FAIL, "app", advice(call->result), "%.*s: %.*s: %s",
                       SLICE_ARG(origin->app), SLICE_ARG(origin->url), call->err.text);
    }
    return OP_DONE;
}

static void on_freed(struct op *op)
{
    reach_of(op)->is_freed = true;
}

static const struct op_step steps[] = {{"call", step_call, 0}, {"say", step_say, 0}};
static const struct op_class reach_class = {
    .name = "doctor", .steps = steps, .step_count = ARRAY_LEN(steps), .free = on_freed};

static void call_all(struct reach *reach)
{
    op_start(&reach->op, &reach_class, reach->loop, NULL, ARENA_BYTES_MAX);
    while (!reach->is_freed)
        (void)loop_turn(reach->loop, true);
}

static void close_parts(struct reach *reach)
{
    outbound_close(&reach->out);
    uint64_t until = clock_mono_ns() + SETTLE_MS * 1000000ULL;
    while (op_count(reach->loop) > 0 && clock_mono_ns() < until)
        (void)loop_turn(reach->loop, false);
    loop_free(reach->loop);
    outbound_free(&reach->out);
}

static void check_trust(struct doctor *doctor, const struct tls_context *tls)
{
    slice file = doctor->session->config->ca_file;
    doctor_say(doctor, DOCTOR_OK, "trust roots", NULL, "%zu in %s", tls_context_root_count(tls),
               file.len > 0 ? file.ptr : tls_system_roots());
}

void doctor_check_apps(struct doctor *doctor)
{
    struct err err;
    /* Its calls are too large for the stack. */
    struct reach *reach = ARENA_NEW(&doctor->session->arena, struct reach);
    if (!reach)
        return;
    *reach = (struct reach){.doctor = doctor, .loop = loop_new(&err)};
    if (!reach->loop) {
        doctor_say(doctor, DOCTOR_FAIL, "app", NULL, "%s", err.text);
        return;
    }
    if (outbound_open(&reach->out, reach->loop, doctor->session->config, &err) != OK) {
        doctor_say(doctor, DOCTOR_FAIL, "trust roots",
                   "Nothing can be called until that is mended.", "%s", err.text);
    } else {
        check_trust(doctor, reach->out.tls);
        if (doctor->session->catalog && !doctor->is_offline)
            add_apps(reach);
        if (reach->count > 0)
            call_all(reach);
        else
            doctor_say(doctor, DOCTOR_OK, "app", NULL,
                       doctor->is_offline ? "none was called (--offline)"
                                          : "no app is connected; name one to call it: "
                                            "sluice doctor gmail");
    }
    close_parts(reach);
}
