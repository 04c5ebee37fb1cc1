/*
 * The expected name of the peer, the names in its certificate, and the error texts for a mismatch.
 * Owned by a client session during its handshake; used on the pool thread, then on the loop.
 * Internal.
 */
#ifndef TLS_VERIFY_H
#define TLS_VERIFY_H

#include <mbedtls/x509_crt.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/slice.h"

enum { TLS_NAME_MAX = 253, TLS_CERT_NAMES_MAX = 160 };

struct tls_verify {
    char name[TLS_NAME_MAX + 1]; /* as given, in lower case, without a trailing dot */
    uint8_t ip[16];              /* set if name is a literal */
    uint8_t ip_len;              /* 0, 4 or 16 */
    /* out */
    bool is_called; /* a certificate was checked: this was a full handshake */
    bool is_self_signed;
    int64_t valid_from_s, valid_to_s;    /* validity of the leaf, in seconds since 1970 */
    char cert_names[TLS_CERT_NAMES_MAX]; /* names in the leaf: "a.example, *.b.example" */
};

/* Returns ERR_INVALID, with a message in err, if name is neither a host name nor an IP literal. */
int tls_verify_init(struct tls_verify *verify, slice name, struct err *err) MUST_CHECK;
/* The callback of mbedtls_ssl_set_verify. It can only add reasons to refuse. */
int tls_verify_on_cert(void *verify, mbedtls_x509_crt *cert, int depth, uint32_t *flags);
/* Sets err to the sentence for the flags that the verification of the chain has set. */
void tls_verify_explain(const struct tls_verify *verify, uint32_t flags, struct err *err);

#endif
