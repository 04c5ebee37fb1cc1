/*
 * tls_context: trust roots, rules and sessions. All its sessions share one mbedtls_ssl_config,
 * which is never changed once a session has started, so threads may read it.
 */
#include "tls/context.h"

#include <mbedtls/pem.h>
#include <mbedtls/psa_util.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"
#include "tls/engine.h"

enum { ROOT_FILE_BYTES_MAX = 16 * 1024 * 1024 };

/* Debian; Fedora and RHEL; Alpine and the BSDs. */
static const char *const system_roots[] = {
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/cert.pem",
};

static const char *const alpn[] = {"http/1.1", NULL};

/* x25519 first: nearly every server accepts this key share without a second round trip. */
static const uint16_t groups[] = {
    MBEDTLS_SSL_IANA_TLS_GROUP_X25519,
    MBEDTLS_SSL_IANA_TLS_GROUP_SECP256R1,
    MBEDTLS_SSL_IANA_TLS_GROUP_SECP384R1,
    MBEDTLS_SSL_IANA_TLS_GROUP_NONE,
};

/* Only ECDHE and AEAD are allowed. AES is first because all relevant processors have instructions
 * for it. The list repeats the build's configuration, for a distribution's own Mbed TLS. */
static const int suites[] = {
    MBEDTLS_TLS1_3_AES_128_GCM_SHA256,
    MBEDTLS_TLS1_3_AES_256_GCM_SHA384,
    MBEDTLS_TLS1_3_CHACHA20_POLY1305_SHA256,
    MBEDTLS_TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256,
    MBEDTLS_TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256,
    MBEDTLS_TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384,
    MBEDTLS_TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384,
    MBEDTLS_TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256,
    MBEDTLS_TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256,
    0,
};

static int roots_parse(struct tls_context *context, const char *path, struct buf *pem,
                       struct err *err)
{
    buf_append_char(pem, '\0'); /* the parser requires a NUL that counts towards the length */
    if (!buf_is_ok(pem))
        return err_set(err, ERR_LIMIT, "%s is larger than %d bytes", path, ROOT_FILE_BYTES_MAX);
    int failed = mbedtls_x509_crt_parse(&context->roots, (const unsigned char *)pem->ptr, pem->len);
    /* The library only reports how many certificates did not parse, so the valid ones in its list
     * are counted. */
    for (const mbedtls_x509_crt *root = &context->roots; root && root->raw.p; root = root->next)
        context->root_count++;
    if (failed == MBEDTLS_ERR_X509_ALLOC_FAILED || failed == MBEDTLS_ERR_PEM_ALLOC_FAILED)
        return err_set(err, ERR_NOMEM, "out of memory for the certificates in %s", path);
    if (context->root_count == 0)
        return err_set(err, ERR_SYNTAX, "%s has no certificate in PEM form", path);
    /* A positive result is the number of certificates that did not parse. The others are usable;
     * a system's file often has a few of an unknown kind. */
    return OK;
}

const char *tls_system_roots(void)
{
    for (size_t i = 0; i < ARRAY_LEN(system_roots); i++)
        if (access(system_roots[i], R_OK) == 0)
            return system_roots[i];
    return NULL;
}

static int roots_load(struct tls_context *context, const char *path, struct err *err)
{
    if (!path)
        path = tls_system_roots();
    if (!path)
        return err_set(err, ERR_NOTFOUND,
                       "no trust roots: install the package ca-certificates, or name a PEM file "
                       "with --ca-file");
    struct buf pem;
    buf_init(&pem, ROOT_FILE_BYTES_MAX);
    int code = file_read_into(path, &pem, NULL, err);
    if (code == OK)
        code = roots_parse(context, path, &pem, err);
    buf_deinit(&pem);
    return code;
}

int tls_conf_common(mbedtls_ssl_config *conf, enum tls_version min, enum tls_version max,
                    struct err *err)
{
    min = min == TLS_VERSION_ANY ? TLS_VERSION_1_2 : min;
    max = max == TLS_VERSION_ANY ? TLS_VERSION_1_3 : max;
    if (min > max)
        return err_set(err, ERR_INVALID, "the lowest TLS version is above the highest");
    mbedtls_ssl_conf_min_tls_version(conf, min == TLS_VERSION_1_2 ? MBEDTLS_SSL_VERSION_TLS1_2
                                                                  : MBEDTLS_SSL_VERSION_TLS1_3);
    mbedtls_ssl_conf_max_tls_version(conf, max == TLS_VERSION_1_2 ? MBEDTLS_SSL_VERSION_TLS1_2
                                                                  : MBEDTLS_SSL_VERSION_TLS1_3);
    mbedtls_ssl_conf_rng(conf, mbedtls_psa_get_random, MBEDTLS_PSA_RANDOM_STATE);
    /* The library keeps pointers to these lists, which is why they are static. */
    mbedtls_ssl_conf_groups(conf, groups);
    mbedtls_ssl_conf_ciphersuites(conf, suites);
    mbedtls_ssl_conf_tls13_key_exchange_modes(
        conf, MBEDTLS_SSL_TLS1_3_KEY_EXCHANGE_MODE_EPHEMERAL |
                  MBEDTLS_SSL_TLS1_3_KEY_EXCHANGE_MODE_PSK_EPHEMERAL);
    if (mbedtls_ssl_conf_alpn_protocols(conf, (const char **)(uintptr_t)alpn) != 0)
        return err_set(err, ERR_INVALID, "the list of ALPN names is not accepted");
    return OK;
}

static int conf_client(struct tls_context *context, const struct tls_config *config,
                       struct err *err)
{
    mbedtls_ssl_config *conf = &context->conf;
    if (mbedtls_ssl_config_defaults(conf, MBEDTLS_SSL_IS_CLIENT, MBEDTLS_SSL_TRANSPORT_STREAM,
                                    MBEDTLS_SSL_PRESET_DEFAULT) != 0)
        return err_set(err, ERR_NOMEM, "out of memory for the TLS configuration");
    mbedtls_ssl_conf_authmode(conf, MBEDTLS_SSL_VERIFY_REQUIRED);
    mbedtls_ssl_conf_ca_chain(conf, &context->roots, NULL);
    mbedtls_ssl_conf_session_tickets(conf, config->is_resumption_off
                                               ? MBEDTLS_SSL_SESSION_TICKETS_DISABLED
                                               : MBEDTLS_SSL_SESSION_TICKETS_ENABLED);
    /* Since 3.6.1 the library reports TLS 1.3 tickets only if this is set. */
    mbedtls_ssl_conf_tls13_enable_signal_new_session_tickets(
        conf, config->is_resumption_off ? MBEDTLS_SSL_TLS1_3_SIGNAL_NEW_SESSION_TICKETS_DISABLED
                                        : MBEDTLS_SSL_TLS1_3_SIGNAL_NEW_SESSION_TICKETS_ENABLED);
    return tls_conf_common(conf, config->version_min, config->version_max, err);
}

static void context_free(struct tls_context *context)
{
    tls_sessions_deinit(&context->sessions);
    mbedtls_ssl_config_free(&context->conf);
    mbedtls_x509_crt_free(&context->roots);
    mem_free(context);
}

struct tls_context *tls_context_new(const struct tls_config *config, struct err *err)
{
    static const struct tls_config defaults;
    config = config ? config : &defaults;
    if (tls_library_init(err) != OK)
        return NULL;
    struct tls_context *context = mem_zalloc(sizeof(*context));
    if (!context)
        return err_null(err, ERR_NOMEM, "out of memory for a TLS context");
    context->refs = 1;
    context->session_age_max_s = config->session_age_max_s ? config->session_age_max_s : 24 * 3600;
    context->is_resumption_off = config->is_resumption_off;
    /* All members are initialised before the first step that can fail: context_free frees
     * each of them. */
    mbedtls_x509_crt_init(&context->roots);
    mbedtls_ssl_config_init(&context->conf);
    tls_sessions_init(&context->sessions, config->sessions_max ? config->sessions_max : 1024);
    if (roots_load(context, config->ca_file, err) != OK ||
        conf_client(context, config, err) != OK) {
        context_free(context);
        return NULL;
    }
    return context;
}

struct tls_context *tls_context_ref(struct tls_context *context)
{
    ASSERT(context->refs > 0);
    context->refs++;
    return context;
}

void tls_context_unref(struct tls_context *context)
{
    if (!context)
        return;
    ASSERT(context->refs > 0);
    if (--context->refs == 0)
        context_free(context);
}

size_t tls_context_root_count(const struct tls_context *context)
{
    return context->root_count;
}
