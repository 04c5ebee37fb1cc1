/*
 * Internals of a tls_context; only for context.c and client.c.
 */
#ifndef TLS_CONTEXT_H
#define TLS_CONTEXT_H

#include <mbedtls/ssl.h>
#include <mbedtls/x509_crt.h>

#include "tls/session.h"
#include "tls/tls.h"

struct tls_context {
    size_t refs;
    mbedtls_x509_crt roots;
    mbedtls_ssl_config conf;
    size_t root_count;
    struct tls_sessions sessions;
    unsigned session_age_max_s;
    bool is_resumption_off;
};

#endif
