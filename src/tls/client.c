/*
 * Client sessions: the engine with a host name to verify and a session to resume.
 */
#include "base/buf.h"
#include "base/clock.h"
#include "base/mem.h"
#include "base/metric.h"
#include "tls/context.h"
#include "tls/engine.h"
#include "tls/verify.h"

static struct metric handshakes = METRIC_INIT("sluice_tls_handshakes_total",
                                              "TLS handshakes finished, by kind (full or resumed).",
                                              METRIC_COUNTER);
static struct metric handshake_failures = METRIC_INIT("sluice_tls_handshake_failures_total",
                                                      "TLS handshakes that ended with an error.",
                                                      METRIC_COUNTER);
static struct metric handshake_cpu =
    METRIC_INIT("sluice_tls_handshake_cpu_seconds",
                "Processor time of a handshake on the thread pool.", METRIC_HISTOGRAM);

/* State that only the handshake needs; freed when it is done. */
struct client_handshake {
    struct tls_verify verify;
    struct buf offered; /* the session to resume; empty if there is none */
    struct buf taken;   /* TLS 1.2: the session that this handshake has made */
    bool is_offered;
};

struct tls_client {
    struct tls_engine engine; /* first member */
    struct tls_context *context;
    struct client_handshake *handshake;
    int64_t session_good_until_s;
    bool is_resumed;
    size_t key_len;
    char key[]; /* key in the session cache: name, NUL and origin */
};

static struct tls_client *client_of(struct tls_engine *engine)
{
    return CONTAINER_OF(engine, struct tls_client, engine);
}

static slice client_key(const struct tls_client *client)
{
    return slice_of(client->key, client->key_len);
}

static void handshake_free(struct client_handshake *handshake)
{
    if (!handshake)
        return;
    mem_wipe(handshake->offered.ptr, handshake->offered.len);
    mem_wipe(handshake->taken.ptr, handshake->taken.len);
    buf_deinit(&handshake->offered);
    buf_deinit(&handshake->taken);
    mem_free(handshake);
}

static void client_free(struct tls_engine *engine)
{
    struct tls_client *client = client_of(engine);
    tls_engine_deinit(engine);
    handshake_free(client->handshake);
    tls_context_unref(client->context);
    mem_free(client);
}

/* ---- sessions ---- */

static void session_take(mbedtls_ssl_context *ssl, struct buf *out)
{
    mbedtls_ssl_session session;
    mbedtls_ssl_session_init(&session);
    size_t len = 0;
    if (mbedtls_ssl_get_session(ssl, &session) == 0 &&
        mbedtls_ssl_session_save(&session, NULL, 0, &len) == MBEDTLS_ERR_SSL_BUFFER_TOO_SMALL) {
        char *room = buf_reserve(out, len);
        if (room && mbedtls_ssl_session_save(&session, (unsigned char *)room, len, &len) == 0)
            buf_added(out, len);
    }
    mbedtls_ssl_session_free(&session);
}

/* A session that cannot be used is not an error: a full handshake follows. */
static void on_prepare(struct tls_engine *engine)
{
    struct client_handshake *handshake = client_of(engine)->handshake;
    if (handshake->offered.len == 0)
        return;
    mbedtls_ssl_session session;
    mbedtls_ssl_session_init(&session);
    handshake->is_offered = mbedtls_ssl_session_load(&session,
                                                     (const unsigned char *)handshake->offered.ptr,
                                                     handshake->offered.len) == 0 &&
                            mbedtls_ssl_set_session(&engine->ssl, &session) == 0;
    mbedtls_ssl_session_free(&session);
}

/* TLS 1.3 delivers its tickets later (on_ticket). */
static void on_finish(struct tls_engine *engine)
{
    struct tls_client *client = client_of(engine);
    if (!client->context->is_resumption_off &&
        mbedtls_ssl_get_version_number(&engine->ssl) == MBEDTLS_SSL_VERSION_TLS1_2)
        session_take(&engine->ssl, &client->handshake->taken);
}

static void session_keep(struct tls_client *client, struct buf *session)
{
    if (buf_is_ok(session) && session->len)
        tls_sessions_put(&client->context->sessions, client_key(client), buf_slice(session),
                         client->session_good_until_s);
}

static void on_ticket(struct tls_engine *engine)
{
    struct tls_client *client = client_of(engine);
    if (client->context->is_resumption_off)
        return;
    struct buf session;
    buf_init(&session, TLS_SESSION_BYTES_MAX);
    session_take(&engine->ssl, &session);
    session_keep(client, &session);
    mem_wipe(session.ptr, session.len);
    buf_deinit(&session);
}

/* ---- the end of the handshake ---- */

static void on_opened(struct tls_engine *engine)
{
    struct tls_client *client = client_of(engine);
    struct client_handshake *handshake = client->handshake;
    client->is_resumed = handshake->is_offered && !handshake->verify.is_called;
    /* The peer is verified at this point: a certificate was checked now, or the resumed session
     * comes from a handshake in this context that checked the certificate. */
    ASSERT(handshake->verify.is_called || client->is_resumed);
    if (handshake->verify.is_called) {
        int64_t until = clock_wall_us() / 1000000 + client->context->session_age_max_s;
        int64_t cert_until = handshake->verify.valid_to_s;
        client->session_good_until_s = until < cert_until ? until : cert_until;
    }
    session_keep(client, &handshake->taken);
    metric_add(metric_series(&handshakes, client->is_resumed ? SLICE("kind=\"resumed\"")
                                                             : SLICE("kind=\"full\"")),
               1);
    metric_time(&handshake_cpu, engine->handshake_cpu_ns);
    handshake_free(handshake);
    client->handshake = NULL;
    mbedtls_ssl_set_verify(&engine->ssl, NULL, NULL); /* the callback's argument is freed */
}

static void explain_alert(struct tls_engine *engine, const char *host, struct err *err)
{
    const char *alert = tls_engine_alert_text(engine);
    alert = alert ? alert : "unknown";
    if (strcmp(alert, "protocol_version") == 0)
        err_set(err, ERR_IO,
                "%s speaks none of the TLS versions allowed here (1.2 and 1.3 at most)", host);
    else if (strcmp(alert, "handshake_failure") == 0 || strcmp(alert, "insufficient_security") == 0)
        err_set(err, ERR_IO,
                "%s refused the TLS handshake (alert %s): no version, cipher, curve or signature "
                "in common",
                host, alert);
    else
        err_set(err, ERR_IO, "%s refused the TLS handshake (alert %s)", host, alert);
}

static void on_explain(struct tls_engine *engine, int code, struct err *err)
{
    struct tls_client *client = client_of(engine);
    const struct tls_verify *verify = &client->handshake->verify;
    char text[160];
    metric_inc(&handshake_failures);
    if (client->handshake->is_offered) /* the session may be the cause of the failure, so it is not
                                        * offered again */
        tls_sessions_drop(&client->context->sessions, client_key(client));
    uint32_t flags = mbedtls_ssl_get_verify_result(&engine->ssl);
    bool is_cert = code == MBEDTLS_ERR_X509_CERT_VERIFY_FAILED ||
                   /* sent for a wrong key usage, which also sets flags */
                   code == MBEDTLS_ERR_SSL_BAD_CERTIFICATE;
    if (is_cert && verify->is_called && flags) {
        tls_verify_explain(verify, flags, err);
        return;
    }
    switch (code) {
    case MBEDTLS_ERR_SSL_FATAL_ALERT_MESSAGE:
        explain_alert(engine, verify->name, err);
        return;
    case MBEDTLS_ERR_SSL_BAD_PROTOCOL_VERSION:
        err_set(err, ERR_IO, "%s answered with a TLS version that is not allowed here",
                verify->name);
        return;
    case MBEDTLS_ERR_SSL_INVALID_RECORD:
        err_set(err, ERR_IO, "%s does not speak TLS on this port", verify->name);
        return;
    case MBEDTLS_ERR_SSL_ALLOC_FAILED:
        err_set(err, ERR_NOMEM, "out of memory in the TLS handshake with %s", verify->name);
        return;
    default:
        tls_code_text(code, text, sizeof(text));
        err_set(err, ERR_IO, "the TLS handshake with %s failed: %s", verify->name, text);
    }
}

static const struct tls_engine_hooks client_hooks = {
    on_prepare, on_finish, on_opened, on_ticket, on_explain, client_free,
};

/* ---- start ---- */

static struct tls_client *client_new(struct tls_context *context, slice name, slice origin)
{
    size_t key_len = name.len + 1 + origin.len;
    struct tls_client *client = mem_zalloc(sizeof(*client) + key_len);
    struct client_handshake *handshake = mem_zalloc(sizeof(*handshake));
    if (!client || !handshake) {
        mem_free(client);
        mem_free(handshake);
        return NULL;
    }
    client->context = tls_context_ref(context);
    client->handshake = handshake;
    client->key_len = key_len;
    memcpy(client->key, name.ptr, name.len);
    if (origin.len)
        memcpy(client->key + name.len + 1, origin.ptr, origin.len);
    buf_init(&handshake->offered, TLS_SESSION_BYTES_MAX);
    buf_init(&handshake->taken, TLS_SESSION_BYTES_MAX);
    return client;
}

static void client_offer(struct tls_client *client)
{
    struct tls_context *context = client->context;
    if (context->is_resumption_off)
        return;
    slice session = tls_sessions_get(&context->sessions, client_key(client),
                                     clock_wall_us() / 1000000, &client->session_good_until_s);
    struct buf *offered = &client->handshake->offered;
    buf_append(offered, session);
    if (!buf_is_ok(offered))
        buf_clear(offered);
}

/* Sets everything that is needed before the first byte. Without a host name to verify no
 * handshake starts. */
static int client_setup(struct tls_client *client, size_t write_bytes_max, struct loop *loop,
                        struct err *err)
{
    struct tls_engine *engine = &client->engine;
    struct tls_verify *verify = &client->handshake->verify;
    int code =
        tls_engine_init(engine, &client_hooks, &client->context->conf, loop, write_bytes_max, err);
    if (code != OK)
        return code;
    ASSERT(verify->name[0]);
    if (mbedtls_ssl_set_hostname(&engine->ssl, verify->ip_len ? NULL : verify->name) != 0)
        return err_set(err, ERR_NOMEM, "out of memory for a TLS session");
    mbedtls_ssl_set_verify(&engine->ssl, tls_verify_on_cert, verify);
    return OK;
}

struct stream *tls_client_start(struct tls_context *context, struct stream *under,
                                const struct tls_client_config *config,
                                const struct stream_events *events, void *owner, struct err *err)
{
    struct tls_verify verify;
    if (tls_verify_init(&verify, config->server_name, err) != OK)
        return NULL;
    struct tls_client *client =
        client_new(context, slice_cstr(verify.name),
                   slice_first(config->origin, TLS_SESSION_KEY_MAX - TLS_NAME_MAX - 1));
    if (!client)
        return err_null(err, ERR_NOMEM, "out of memory for a TLS session");
    client->handshake->verify = verify;
    client_offer(client);
    if (client_setup(client, config->write_bytes_max, under->loop, err) != OK ||
        tls_engine_start(&client->engine, under, events, owner, err) != OK) {
        client_free(&client->engine);
        return NULL;
    }
    return &client->engine.stream;
}

struct tls_info tls_client_info(const struct stream *stream)
{
    ASSERT(tls_engine_is(stream));
    const struct tls_engine *engine = CONTAINER_OF(stream, const struct tls_engine, stream);
    const struct tls_client *client = CONTAINER_OF(engine, const struct tls_client, engine);
    struct tls_info info = tls_engine_info(engine);
    info.is_resumed = client->is_resumed;
    return info;
}
