/*
 * The provider's certificates, made at each start: a CA of its own (ECDSA P-256, 10 years), whose
 * key is discarded, and a leaf for localhost, 127.0.0.1 and ::1 (1 year), in the data folder:
 *
 *   ca.pem    the trust root for clients
 *   cert.pem  the leaf and the CA
 *   cert.key  0600
 */
#ifndef PROVIDER_CERT_H
#define PROVIDER_CERT_H

#include "base/err.h"

enum { CERT_PATH_MAX = 4096 };

struct cert_files {
    char ca[CERT_PATH_MAX], cert[CERT_PATH_MAX], key[CERT_PATH_MAX];
};

/* Creates the certificates, and the folder. Needs tls_library_init. Fails with ERR_IO,
 * ERR_CRYPTO or ERR_LIMIT (a path that is too long), and a sentence. */
int cert_make(const char *dir, struct cert_files *files, struct err *err) MUST_CHECK;

#endif
