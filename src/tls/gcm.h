/*
 * AES-GCM of whole records, for x86-64 processors with instructions for it. Mbed TLS goes through a
 * record block by block and waits for each one: 25 cycles a byte here. These go eight blocks at a
 * time, at a tenth of that.
 *
 * They stand in front of the library's own: the linker hands them every call of
 * mbedtls_gcm_crypt_and_tag and mbedtls_gcm_auth_decrypt (--wrap, see LIBS_tls in the Makefile),
 * which the record layer makes once a record. What they do not take (another processor, another
 * cipher, a nonce that is not 12 bytes or a tag that is not 16) goes on to the library, named
 * __real_ here. Arguments, results and the wiping of what did not authenticate are the library's.
 */
#ifndef TLS_GCM_H
#define TLS_GCM_H

#include <mbedtls/gcm.h>
#include <stdbool.h>
#include <stddef.h>

/* Whether this processor has what it takes. */
bool tls_gcm_is_fast(void);

/* NOLINTBEGIN(bugprone-reserved-identifier): the linker's names */
int __real_mbedtls_gcm_crypt_and_tag(mbedtls_gcm_context *gcm, int mode, size_t len,
                                     const unsigned char *nonce, size_t nonce_len,
                                     const unsigned char *aad, size_t aad_len,
                                     const unsigned char *in, unsigned char *out, size_t tag_len,
                                     unsigned char *tag);
int __wrap_mbedtls_gcm_crypt_and_tag(mbedtls_gcm_context *gcm, int mode, size_t len,
                                     const unsigned char *nonce, size_t nonce_len,
                                     const unsigned char *aad, size_t aad_len,
                                     const unsigned char *in, unsigned char *out, size_t tag_len,
                                     unsigned char *tag);
int __real_mbedtls_gcm_auth_decrypt(mbedtls_gcm_context *gcm, size_t len,
                                    const unsigned char *nonce, size_t nonce_len,
                                    const unsigned char *aad, size_t aad_len,
                                    const unsigned char *tag, size_t tag_len,
                                    const unsigned char *in, unsigned char *out);
int __wrap_mbedtls_gcm_auth_decrypt(mbedtls_gcm_context *gcm, size_t len,
                                    const unsigned char *nonce, size_t nonce_len,
                                    const unsigned char *aad, size_t aad_len,
                                    const unsigned char *tag, size_t tag_len,
                                    const unsigned char *in, unsigned char *out);
/* NOLINTEND(bugprone-reserved-identifier) */

#endif
