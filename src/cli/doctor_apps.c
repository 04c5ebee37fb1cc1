/*
 * Checks the route to the apps: resolves their names, then sends one request without a credential
 * to each origin, all in parallel. Any reply proves name, route and certificate.
 */
#include "base/clock.h"
#include "cli/doctor.h"
#include "http/url.h"
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
    struct dns_query names[ORIGINS_MAX]; /* the hosts of the origins, if calls resolve them */
    size_t name_count;
    uint64_t asked_ns;
    bool is_freed;
};

/* `sluice dev` calls its own provider instead of the vendors, so unreachable vendors are only a
 * warning there. */
static enum doctor_mark unreachable_mark(const struct reach *reach)
{
    return reach->doctor->session->config->data_dir.len > 0 ? DOCTOR_WARN : DOCTOR_FAIL;
}

/* ---- which origins ---- */

static void add_origin(struct reach *reach, slice app, slice url)
{
    ptrdiff_t colon = slice_find_char(url, ':');
    size_t len = colon > 0 ? (size_t)colon + 3 : url.len;
    /* If an address contains parameters of a connection, it is unknown here. */
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

/* Returns the base URL of an app's actions, or SLICE_NONE if its manifest has none. */
static slice base_url_of(struct session *session, const struct catalog_integration *app)
{
    struct err err;
    const struct json *manifest =
        json_parse(&session->arena, app->source, &json_limits_request, &err);
    return manifest ? json_get_str(manifest, SLICE("base_url")) : SLICE_NONE;
}

/* Adds the origins of an app's actions and token endpoints. */
static void add_app(struct reach *reach, slice id)
{
    struct session *session = reach->doctor->session;
    const struct catalog_integration *app = catalog_find_integration(session->catalog, id, NULL);
    if (!app) {
        doctor_say(reach->doctor, DOCTOR_FAIL, "app",
                   "Calls through its connections are answered with integration_not_found. Put its "
                   "manifest "
                   "back (catalog), or check the name.",
                   "there is no app \"%.*s\"", SLICE_ARG(id));
        return;
    }
    add_origin(reach, app->integration_id, base_url_of(session, app));
    for (size_t i = 0; i < app->auth_count; i++)
        add_origin(reach, app->integration_id, app->auths[i].token_url);
}

/* Adds the connected apps, if there is a database, and the apps named as arguments. */
static void add_apps(struct reach *reach)
{
    struct doctor *doctor = reach->doctor;
    struct session *session = doctor->session;
    struct pg_rows rows = {.count = 0};
    if (session->sync && pg_sync_text(session->sync,
                                      "select distinct integration_id from sluice.connection "
                                      "order by 1",
                                      &session->arena, &rows, &session->err) != OK)
        rows.count = 0; /* the check of the database has reported the reason */
    for (size_t i = 0; i < rows.count; i++)
        add_app(reach, pg_get_bytes(&rows, i, 0));
    for (size_t i = 0; i < doctor->app_count; i++)
        add_app(reach, slice_cstr(doctor->apps[i]));
}

/* ---- names ---- */

OP_OF(reach_of, reach)

/* Calls do not resolve the name of an origin that origin-override redirects. */
static bool is_overridden(const struct config *config, slice url)
{
    for (size_t i = 0; i < config->origin_override.count; i++) {
        slice item = config->origin_override.items[i];
        if (slice_starts_with(item, url) && item.ptr[url.len] == '=')
            return true;
    }
    return false;
}

static void add_name(struct reach *reach, slice url_text)
{
    struct url url;
    struct err err;
    if (is_overridden(reach->doctor->session->config, url_text) ||
        url_parse(url_text, &url, &err) != OK || url.is_ip_literal)
        return;
    for (size_t i = 0; i < reach->name_count; i++)
        if (slice_eq(reach->names[i].host, url.host))
            return;
    reach->names[reach->name_count++] = (struct dns_query){.host = url.host};
}

/* Adds the names of the origins. If no app is connected, adds the name of one app that could be. */
static void add_names(struct reach *reach)
{
    struct session *session = reach->doctor->session;
    const struct catalog *catalog = session->catalog;
    for (size_t i = 0; i < reach->count; i++)
        add_name(reach, reach->origins[i].url);
    for (size_t i = 0;
         reach->count == 0 && reach->name_count == 0 && i < catalog->integration_count; i++)
        add_name(reach, base_url_of(session, catalog->integrations[i]));
}

/* A call would resolve the name, too (later, from the resolver's cache). This step distinguishes
 * a name without an address from an address without a route. */
static enum op_result step_resolve(struct op *op)
{
    struct reach *reach = reach_of(op);
    reach->asked_ns = clock_mono_ns();
    for (size_t i = 0; i < reach->name_count; i++) {
        reach->names[i].deadline_ns = loop_now_ns(op->loop) + CALL_MS * 1000000ULL;
        dns_resolve(reach->out.dns, &reach->names[i], op);
    }
    return reach->name_count > 0 ? OP_WAIT : OP_NEXT;
}

static enum op_result step_say_names(struct op *op)
{
    struct reach *reach = reach_of(op);
    size_t well = 0;
    for (size_t i = 0; i < reach->name_count; i++) {
        const struct dns_query *name = &reach->names[i];
        if (name->status == OK)
            well++;
        else
            doctor_say(
                reach->doctor, unreachable_mark(reach), "dns",
                "Check the resolver (/etc/resolv.conf), and whether this machine may use it.", "%s",
                name->err.text);
    }
    if (well == reach->name_count)
        doctor_say(reach->doctor, DOCTOR_OK, "dns", NULL, "%zu name%s resolved in %llu ms", well,
                   well == 1 ? "" : "s",
                   (unsigned long long)((clock_mono_ns() - reach->asked_ns) / 1000000));
    return OP_NEXT;
}

/* ---- the requests ---- */

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
            origin->call.result = HTTP_CALL_INVALID;
    }
    return reach->count > 0 ? OP_WAIT : OP_NEXT;
}

static const char *advice(enum http_call_result result)
{
    switch (result) {
    case HTTP_CALL_DNS:
        return "Check the resolver (/etc/resolv.conf).";
    case HTTP_CALL_ADDRESS_REFUSED:
        return "If you want calls to that private address, allow it with allow-host.";
    case HTTP_CALL_TLS:
        return "If one of your gateways signs certificates, add its root to ca-file.";
    case HTTP_CALL_PROXY:
        return "Check https-proxy: its host, user and password, and which hosts it lets this "
               "machine reach.";
    case HTTP_CALL_CONNECT:
    case HTTP_CALL_TIMEOUT_CONNECT:
        return "Check whether a firewall lets this machine reach it.";
    default:
        return "Try again. If it happens again, check the vendor's status page.";
    }
}

/* A reply that is too large, or is not HTTP, still proves that the origin is reachable. */
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
            doctor_say(reach->doctor, unreachable_mark(reach), "app", advice(call->result),
                       "%.*s: %.*s: %s", SLICE_ARG(origin->app), SLICE_ARG(origin->url),
                       call->err.text);
    }
    if (reach->count == 0)
        doctor_say(reach->doctor, DOCTOR_OK, "app", NULL,
                   "no app is connected; to call one, name it: sluice doctor gmail");
    return OP_DONE;
}

static void on_freed(struct op *op)
{
    reach_of(op)->is_freed = true;
}

static const struct op_step steps[] = {
    {"resolve", step_resolve, 0},
    {"say_names", step_say_names, 0},
    {"call", step_call, 0},
    {"say", step_say, 0},
};
static const struct op_class reach_class = {
    .name = "doctor", .steps = steps, .step_count = ARRAY_LEN(steps), .free = on_freed};

static void run_all(struct reach *reach)
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
    /* The struct is allocated, since its calls are too large for the stack. */
    struct reach *reach = ARENA_NEW(&doctor->session->arena, struct reach);
    if (!reach)
        return;
    *reach = (struct reach){.doctor = doctor, .loop = loop_new(&err)};
    if (!reach->loop) {
        doctor_say(doctor, DOCTOR_FAIL, "app", "Check ulimit -n and the machine's memory.", "%s",
                   err.text);
        return;
    }
    if (outbound_open(&reach->out, reach->loop, doctor->session->config, &err) != OK) {
        doctor_say(doctor, DOCTOR_FAIL, "trust roots",
                   "Correct that setting. No app can be called until then.", "%s", err.text);
    } else {
        check_trust(doctor, reach->out.tls);
        if (doctor->is_offline) {
            doctor_say(doctor, DOCTOR_OK, "app", NULL,
                       "no app was called and no name was resolved (--offline)");
        } else if (doctor->session->catalog) {
            add_apps(reach);
            add_names(reach);
            run_all(reach);
        }
    }
    close_parts(reach);
}
