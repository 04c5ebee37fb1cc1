/*
 * The configuration that sluice builds Mbed TLS 3.6 with; it is installed in place of the library's
 * own mbedtls/mbedtls_config.h, so that library and program can never disagree about a struct.
 *
 * What it is for: TLS 1.2 and 1.3 towards providers (the server half serves the emulated provider
 * of bench/), hashing, AES-GCM and random numbers. What is left out is left out on purpose: only
 * ECDHE key exchange and AEAD ciphers exist in this build, so no setting can bring back a weak one;
 * no DTLS, no renegotiation, no pre-shared-key suites, no key files on disk behind PSA.
 */
#ifndef SLUICE_MBEDTLS_CONFIG_H
#define SLUICE_MBEDTLS_CONFIG_H

/* The machine: assembler bignum, AES instructions found at run time, time from the C library. */
#define MBEDTLS_HAVE_ASM
#define MBEDTLS_AESNI_C
#if defined(__aarch64__)
#define MBEDTLS_AESCE_C
#define MBEDTLS_SHA256_USE_ARMV8_A_CRYPTO_IF_PRESENT
#endif
#define MBEDTLS_HAVE_TIME
#define MBEDTLS_HAVE_TIME_DATE
#define MBEDTLS_FS_IO
#define MBEDTLS_PLATFORM_C
/* calloc and free can be replaced, which the failing-allocation tests need. */
#define MBEDTLS_PLATFORM_MEMORY

/* Handshakes run on libuv's thread pool. */
#define MBEDTLS_THREADING_C
#define MBEDTLS_THREADING_PTHREAD

/* Random numbers: getrandom() through the entropy module. */
#define MBEDTLS_ENTROPY_C
#define MBEDTLS_CTR_DRBG_C
#define MBEDTLS_HMAC_DRBG_C

/* Hashes. SHA-1 is here only because many roots in ca-certificates are self-signed with it and
 * would not parse; the default certificate profile still refuses it inside a chain. */
#define MBEDTLS_MD_C
#define MBEDTLS_SHA1_C
#define MBEDTLS_SHA224_C
#define MBEDTLS_SHA256_C
#define MBEDTLS_SHA384_C
#define MBEDTLS_SHA512_C
#define MBEDTLS_HKDF_C

/* Symmetric ciphers: AEAD only. */
#define MBEDTLS_CIPHER_C
#define MBEDTLS_AES_C
#define MBEDTLS_GCM_C
#define MBEDTLS_CHACHA20_C
#define MBEDTLS_POLY1305_C
#define MBEDTLS_CHACHAPOLY_C

/* Public keys. */
#define MBEDTLS_BIGNUM_C
#define MBEDTLS_GENPRIME
#define MBEDTLS_RSA_C
#define MBEDTLS_PKCS1_V15
#define MBEDTLS_PKCS1_V21
#define MBEDTLS_ECP_C
#define MBEDTLS_ECP_NIST_OPTIM
#define MBEDTLS_ECP_DP_SECP256R1_ENABLED
#define MBEDTLS_ECP_DP_SECP384R1_ENABLED
#define MBEDTLS_ECP_DP_SECP521R1_ENABLED /* a certificate may be signed with it */
#define MBEDTLS_ECP_DP_CURVE25519_ENABLED
#define MBEDTLS_ECDH_C
#define MBEDTLS_ECDSA_C
#define MBEDTLS_ECDSA_DETERMINISTIC

/* PSA: TLS 1.3 is built on it. Keys live in memory; a session holds several, so the table of keys
 * must grow (the fixed one has 32 places for the whole process). */
#define MBEDTLS_PSA_CRYPTO_C
#define MBEDTLS_PSA_KEY_STORE_DYNAMIC

/* Keys and certificates: parse all, write what the emulated provider's local CA needs. */
#define MBEDTLS_ASN1_PARSE_C
#define MBEDTLS_ASN1_WRITE_C
#define MBEDTLS_BASE64_C
#define MBEDTLS_OID_C
#define MBEDTLS_PEM_PARSE_C
#define MBEDTLS_PEM_WRITE_C
#define MBEDTLS_PK_C
#define MBEDTLS_PK_PARSE_C
#define MBEDTLS_PK_PARSE_EC_COMPRESSED
#define MBEDTLS_PK_WRITE_C
#define MBEDTLS_X509_USE_C
#define MBEDTLS_X509_CRT_PARSE_C
#define MBEDTLS_X509_RSASSA_PSS_SUPPORT
#define MBEDTLS_X509_CREATE_C
#define MBEDTLS_X509_CRT_WRITE_C

/* TLS itself. */
#define MBEDTLS_SSL_TLS_C
#define MBEDTLS_SSL_CLI_C
#define MBEDTLS_SSL_SRV_C
#define MBEDTLS_SSL_PROTO_TLS1_2
#define MBEDTLS_SSL_PROTO_TLS1_3
#define MBEDTLS_SSL_TLS1_3_COMPATIBILITY_MODE
#define MBEDTLS_SSL_TLS1_3_KEY_EXCHANGE_MODE_EPHEMERAL_ENABLED
/* Resumption in TLS 1.3 is a pre-shared key; it is allowed only together with a fresh ECDHE. */
#define MBEDTLS_SSL_TLS1_3_KEY_EXCHANGE_MODE_PSK_EPHEMERAL_ENABLED
#define MBEDTLS_KEY_EXCHANGE_ECDHE_ECDSA_ENABLED
#define MBEDTLS_KEY_EXCHANGE_ECDHE_RSA_ENABLED
#define MBEDTLS_SSL_EXTENDED_MASTER_SECRET
#define MBEDTLS_SSL_SESSION_TICKETS
#define MBEDTLS_SSL_TICKET_C
#define MBEDTLS_SSL_CACHE_C
#define MBEDTLS_SSL_SERVER_NAME_INDICATION
#define MBEDTLS_SSL_ALPN
#define MBEDTLS_SSL_KEEP_PEER_CERTIFICATE
#define MBEDTLS_SSL_ALL_ALERT_MESSAGES

/* Memory of a connection. A peer may send full records, so the input side stays at 16 KiB. Output
 * is cut into records of at most 8 KiB: mbedtls_ssl_write() may write less than it was given.
 * MBEDTLS_SSL_VARIABLE_BUFFER_LENGTH (with MBEDTLS_SSL_MAX_FRAGMENT_LENGTH) must stay out: it cuts a
 * client's input buffer after the handshake to the smaller of these two lengths (3.6.7), and a full
 * record, as nginx sends them, then ends the session with "bad input parameters". */
#define MBEDTLS_SSL_IN_CONTENT_LEN 16384
#define MBEDTLS_SSL_OUT_CONTENT_LEN 8192

/* The library's own order puts ChaCha20 first; with AES instructions AES-GCM is several times
 * faster. The list is also the whole set of suites that can ever be spoken. */
#define MBEDTLS_SSL_CIPHERSUITES                                                                   \
    MBEDTLS_TLS1_3_AES_128_GCM_SHA256, MBEDTLS_TLS1_3_AES_256_GCM_SHA384,                          \
        MBEDTLS_TLS1_3_CHACHA20_POLY1305_SHA256, MBEDTLS_TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256,  \
        MBEDTLS_TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256,                                             \
        MBEDTLS_TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384,                                           \
        MBEDTLS_TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384,                                             \
        MBEDTLS_TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256,                                     \
        MBEDTLS_TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256

/* Words for people. */
#define MBEDTLS_ERROR_C
#define MBEDTLS_VERSION_C

#endif
