/*
 * AES-GCM (NIST SP 800-38D) of whole records, for processors with the instructions for it.
 *
 * Mbed TLS goes through five calls for each block of 16 bytes, one block after the other, and
 * multiplies each into the tag by itself: 11 instructions a byte. Here eight blocks are under way
 * at once and share a reduction, which is a tenth of that. The library's two calls that take a
 * whole message are replaced at the link (--wrap, see the Makefile), and so are those of TLS, which
 * are made of them; where the processor, the cipher or the arguments are none of ours, they go on
 * to the library's own. Constant in time: no table, no branch on what is secret.
 */
#ifndef TLS_GCM_H
#define TLS_GCM_H

#include <mbedtls/gcm.h>
#include <stdbool.h>

/* Whether this processor has the instructions, and this build of the library the keys' layout. */
bool tls_gcm_is_fast(void);

/* NOLINTBEGIN(bugprone-reserved-identifier): the linker gives these names */

/* As mbedtls_gcm_crypt_and_tag: the same arguments, results and errors. */
int __wrap_mbedtls_gcm_crypt_and_tag(mbedtls_gcm_context *ctx, int mode, size_t length,
                                     const unsigned char *iv, size_t iv_len,
                                     const unsigned char *add, size_t add_len,
                                     const unsigned char *input, unsigned char *output,
                                     size_t tag_len, unsigned char *tag);
/* As mbedtls_gcm_auth_decrypt. */
int __wrap_mbedtls_gcm_auth_decrypt(mbedtls_gcm_context *ctx, size_t length,
                                    const unsigned char *iv, size_t iv_len,
                                    const unsigned char *add, size_t add_len,
                                    const unsigned char *tag, size_t tag_len,
                                    const unsigned char *input, unsigned char *output);

/* The library's own. */
int __real_mbedtls_gcm_crypt_and_tag(mbedtls_gcm_context *ctx, int mode, size_t length,
                                     const unsigned char *iv, size_t iv_len,
                                     const unsigned char *add, size_t add_len,
                                     const unsigned char *input, unsigned char *output,
                                     size_t tag_len, unsigned char *tag);
int __real_mbedtls_gcm_auth_decrypt(mbedtls_gcm_context *ctx, size_t length,
                                    const unsigned char *iv, size_t iv_len,
                                    const unsigned char *add, size_t add_len,
                                    const unsigned char *tag, size_t tag_len,
                                    const unsigned char *input, unsigned char *output);

/* NOLINTEND(bugprone-reserved-identifier) */

#endif
