/*
 * See tls_server.h. One mbedtls_ssl_config serves all sessions. It has the ticket keys, guarded by
 * a mutex of the library.
 */
#include "provider/tls_server.h"

#include <mbedtls/pk.h>
#include <mbedtls/psa_util.h>
#include <mbedtls/ssl_ticket.h>
#include <mbedtls/x509_crt.h>

#include "base/mem.h"
#include "tls/engine.h"

enum { TICKET_LIFETIME_S = 24 * 3600 };

struct tls_server {
    size_t refs;
    mbedtls_x509_crt cert;
    mbedtls_pk_context key;
    mbedtls_ssl_ticket_context ticket;
    mbedtls_ssl_config conf;
};

struct server_session {
    struct tls_engine engine; /* first member */
    struct tls_server *server;
};

static int load_pair(struct tls_server *server, const struct tls_server_config *config,
                     struct err *err)
{
    char text[160];
    int code = mbedtls_x509_crt_parse_file(&server->cert, config->cert_file);
    if (code != 0) {
        tls_code_text(code, text, sizeof(text));
        return err_set(err, ERR_IO, "cannot read the certificate %s: %s", config->cert_file, text);
    }
    code = mbedtls_pk_parse_keyfile(&server->key, config->key_file, NULL, mbedtls_psa_get_random,
                                    MBEDTLS_PSA_RANDOM_STATE);
    if (code != 0) {
        tls_code_text(code, text, sizeof(text));
        return err_set(err, ERR_IO, "cannot read the key %s: %s", config->key_file, text);
    }
    if (mbedtls_pk_check_pair(&server->cert.pk, &server->key, mbedtls_psa_get_random,
                              MBEDTLS_PSA_RANDOM_STATE) != 0)
        return err_set(err, ERR_INVALID, "the key %s does not belong to the certificate %s",
                       config->key_file, config->cert_file);
    return OK;
}

static int conf_tickets(struct tls_server *server, struct err *err)
{
    if (mbedtls_ssl_ticket_setup(&server->ticket, mbedtls_psa_get_random, MBEDTLS_PSA_RANDOM_STATE,
                                 MBEDTLS_CIPHER_AES_256_GCM, TICKET_LIFETIME_S) != 0)
        return err_set(err, ERR_CRYPTO, "no key for session tickets could be made");
    mbedtls_ssl_conf_session_tickets_cb(&server->conf, mbedtls_ssl_ticket_write,
                                        mbedtls_ssl_ticket_parse, &server->ticket);
    return OK;
}

static int conf_server(struct tls_server *server, const struct tls_server_config *config,
                       struct err *err)
{
    mbedtls_ssl_config *conf = &server->conf;
    if (mbedtls_ssl_config_defaults(conf, MBEDTLS_SSL_IS_SERVER, MBEDTLS_SSL_TRANSPORT_STREAM,
                                    MBEDTLS_SSL_PRESET_DEFAULT) != 0 ||
        mbedtls_ssl_conf_own_cert(conf, &server->cert, &server->key) != 0)
        return err_set(err, ERR_NOMEM, "out of memory for the TLS configuration");
    mbedtls_ssl_conf_authmode(conf, MBEDTLS_SSL_VERIFY_NONE); /* clients need no certificate */
    if (!config->is_tickets_off && conf_tickets(server, err) != OK)
        return ERR_CRYPTO;
    return tls_conf_common(conf, config->version_min, config->version_max, err);
}

static void server_free(struct tls_server *server)
{
    mbedtls_ssl_config_free(&server->conf);
    mbedtls_ssl_ticket_free(&server->ticket);
    mbedtls_pk_free(&server->key);
    mbedtls_x509_crt_free(&server->cert);
    mem_free(server);
}

struct tls_server *tls_server_new(const struct tls_server_config *config, struct err *err)
{
    if (tls_library_init(err) != OK)
        return NULL;
    struct tls_server *server = mem_zalloc(sizeof(*server));
    if (!server)
        return err_null(err, ERR_NOMEM, "out of memory for a TLS server");
    server->refs = 1;
    mbedtls_x509_crt_init(&server->cert);
    mbedtls_pk_init(&server->key);
    mbedtls_ssl_ticket_init(&server->ticket);
    mbedtls_ssl_config_init(&server->conf);
    if (load_pair(server, config, err) != OK || conf_server(server, config, err) != OK) {
        server_free(server);
        return NULL;
    }
    return server;
}

void tls_server_unref(struct tls_server *server)
{
    if (server && --server->refs == 0)
        server_free(server);
}

/* ---- sessions ---- */

static void on_explain(struct tls_engine *engine, int code, struct err *err)
{
    char text[160];
    const char *alert = tls_engine_alert_text(engine);
    if (code == MBEDTLS_ERR_SSL_FATAL_ALERT_MESSAGE && alert) {
        err_set(err, ERR_IO, "the client refused the TLS handshake (alert %s)", alert);
        return;
    }
    tls_code_text(code, text, sizeof(text));
    err_set(err, ERR_IO, "a TLS handshake failed: %s", text);
}

static void session_free(struct tls_engine *engine)
{
    struct server_session *session = CONTAINER_OF(engine, struct server_session, engine);
    tls_engine_deinit(engine);
    tls_server_unref(session->server);
    mem_free(session);
}

static const struct tls_engine_hooks server_hooks = {
    .explain = on_explain,
    .free = session_free,
};

struct stream *tls_server_start(struct tls_server *server, struct stream *under,
                                size_t write_bytes_max, const struct stream_events *events,
                                void *owner, struct err *err)
{
    struct server_session *session = mem_zalloc(sizeof(*session));
    if (!session)
        return err_null(err, ERR_NOMEM, "out of memory for a TLS session");
    session->server = server;
    server->refs++;
    struct tls_engine *engine = &session->engine;
    if (tls_engine_init(engine, &server_hooks, &server->conf, under->loop, write_bytes_max, err) !=
            OK ||
        tls_engine_start(engine, under, events, owner, err) != OK) {
        session_free(engine);
        return NULL;
    }
    return &engine->stream;
}

struct stream *tls_server_under(struct stream *stream)
{
    ASSERT(tls_engine_is(stream));
    return CONTAINER_OF(stream, struct tls_engine, stream)->under;
}
