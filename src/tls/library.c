/*
 * Mbed TLS as a library: initialization, shutdown, and texts for its error codes and alerts.
 */
#include <mbedtls/error.h>
#include <mbedtls/platform.h>
#include <psa/crypto.h>

#include "base/mem.h"
#include "tls/engine.h"
#include "tls/tls.h"

#if defined(MBEDTLS_THREADING_C)
enum { LIBRARY_HAS_THREADS = 1 };
#else
enum { LIBRARY_HAS_THREADS = 0 };
#endif
_Static_assert(LIBRARY_HAS_THREADS, "handshakes run on several threads");

static bool is_initialized;

int tls_library_init(struct err *err)
{
    if (is_initialized)
        return OK;
#if defined(MBEDTLS_PLATFORM_MEMORY) /* otherwise it is a distribution's build */
    if (mbedtls_platform_set_calloc_free(mem_calloc, mem_free) != 0)
        return err_set(err, ERR_CRYPTO, "Mbed TLS does not let its allocator be set");
#endif
    psa_status_t status = psa_crypto_init();
    if (status != PSA_SUCCESS)
        return err_set(err, ERR_CRYPTO, "the crypto library could not start (PSA status %d)",
                       (int)status);
    is_initialized = true;
    return OK;
}

void tls_library_deinit(void)
{
    if (!is_initialized)
        return;
    is_initialized = false;
    tls_engine_scratch_free();
    mbedtls_psa_crypto_free();
}

void tls_code_text(int code, char *out, size_t cap)
{
    ASSERT(cap > 0);
    if (code == MBEDTLS_ERR_SSL_ALLOC_FAILED) {
        static const char text[] = "out of memory";
        size_t len = sizeof(text) < cap ? sizeof(text) : cap;
        memcpy(out, text, len);
        out[len - 1] = '\0';
        return;
    }
    mbedtls_strerror(code, out, cap);
}

/* RFC 8446 6, RFC 5246 7.2 */
static const struct {
    uint8_t code;
    const char *name;
} alerts[] = {
    {0, "close_notify"},
    {10, "unexpected_message"},
    {20, "bad_record_mac"},
    {22, "record_overflow"},
    {40, "handshake_failure"},
    {42, "bad_certificate"},
    {43, "unsupported_certificate"},
    {44, "certificate_revoked"},
    {45, "certificate_expired"},
    {46, "certificate_unknown"},
    {47, "illegal_parameter"},
    {48, "unknown_ca"},
    {49, "access_denied"},
    {50, "decode_error"},
    {51, "decrypt_error"},
    {70, "protocol_version"},
    {71, "insufficient_security"},
    {80, "internal_error"},
    {86, "inappropriate_fallback"},
    {90, "user_canceled"},
    {109, "missing_extension"},
    {110, "unsupported_extension"},
    {112, "unrecognized_name"},
    {113, "bad_certificate_status_response"},
    {115, "unknown_psk_identity"},
    {116, "certificate_required"},
    {120, "no_application_protocol"},
};

const char *tls_engine_alert_text(const struct tls_engine *engine)
{
    /* The library has no accessor; the members are stable within its major version, which is
     * pinned. */
    const unsigned char *msg = engine->ssl.MBEDTLS_PRIVATE(in_msg);
    if (engine->ssl.MBEDTLS_PRIVATE(in_msgtype) != MBEDTLS_SSL_MSG_ALERT || !msg ||
        engine->ssl.MBEDTLS_PRIVATE(in_msglen) != 2)
        return NULL;
    for (size_t i = 0; i < ARRAY_LEN(alerts); i++)
        if (alerts[i].code == msg[1])
            return alerts[i].name;
    return "unknown";
}
