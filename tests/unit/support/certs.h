/*
 * A local certificate authority for tests, created with Mbed TLS in a separate folder, so that no
 * test needs the openssl program and no key is in the repository.
 */
#ifndef TESTS_SUPPORT_CERTS_H
#define TESTS_SUPPORT_CERTS_H

#include <stdbool.h>
#include <stddef.h>

enum cert_signer { CERT_BY_CA, CERT_BY_OTHER_CA, CERT_BY_INTERMEDIATE, CERT_BY_ITSELF };

struct cert_spec {
    const char *file;   /* NAME: writes NAME.pem and NAME.key */
    const char *dns[3]; /* subjectAltName */
    const char *ip[2];  /* the same, literals */
    const char *cn;     /* NULL: "test" */
    unsigned rsa_bits;  /* 0: ECDSA on P-256 */
    const char *from;   /* "20260101000000", NULL: long ago */
    const char *to;     /* NULL: far in the future */
    enum cert_signer signer;
    bool is_client_only; /* extended key usage without serverAuth */
};

struct certs;

/* Makes DIR under /tmp with ca.pem (ECDSA), other.pem and an intermediate. Aborts on failure. */
struct certs *certs_new(void);
/* Deletes the folder. */
void certs_free(struct certs *certs);
void certs_add(struct certs *certs, const struct cert_spec *spec);
/* "DIR/name"; lives as long as certs, up to 64 different names. */
const char *certs_path(struct certs *certs, const char *name);

#endif
