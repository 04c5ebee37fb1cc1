/*
 * TLS to providers: Mbed TLS 3.6 as a client, as a stream over another stream. It supports TLS 1.2
 * and 1.3, ECDHE with AEAD only, SNI, and session resumption in both versions. The certificate and
 * the host name are always verified.
 *
 * A context holds the trust roots, the rules and the cache of sessions that can be resumed. It is
 * reference-counted, so a reload (SIGHUP) makes a new context while sessions under way keep the old
 * one. Handshakes run on the thread pool: the loop never does public-key arithmetic. An idle open
 * session keeps no buffers here; with Mbed TLS's own buffers and the peer's certificate it takes
 * about 30 KiB. Mbed TLS 3.6 does not support a TLS 1.3 KeyUpdate: the session of a peer that sends
 * one ends with an error. Loop thread only.
 */
#ifndef TLS_TLS_H
#define TLS_TLS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/slice.h"
#include "loop/stream.h"

/* Call it in each process before any other use of Mbed TLS or PSA, and after fork(): memory then
 * comes from base/mem, and the random generator is seeded. It may be called again. Returns
 * ERR_CRYPTO on failure. */
int tls_library_init(struct err *err) MUST_CHECK;
/* Call it at the very end, when no context and no PSA key is left; for leak checks. */
void tls_library_deinit(void);

/* Returns the file with the system's trust roots, or NULL if ca-certificates is not installed. */
const char *tls_system_roots(void);

enum tls_version { TLS_VERSION_ANY, TLS_VERSION_1_2, TLS_VERSION_1_3 };

struct tls_config {
    const char *ca_file;          /* PEM with the trust roots; NULL: the system's ca-certificates */
    enum tls_version version_min; /* ANY: 1.2 */
    enum tls_version version_max; /* ANY: 1.3 */
    size_t sessions_max;        /* maximum number of resumable sessions, the least recently used is
                                 * dropped; 0: 1024 */
    unsigned session_age_max_s; /* 0: 24 h; a session never outlives its certificate */
    bool is_resumption_off;
};

struct tls_context;

/* Reads the roots (a few milliseconds for a whole ca-certificates; nothing blocks later). config
 * may be NULL. Returns NULL on failure; err names the file and the reason. */
struct tls_context *tls_context_new(const struct tls_config *config, struct err *err) MUST_CHECK;
struct tls_context *tls_context_ref(struct tls_context *context);
/* Accepts NULL. The last reference wipes the sessions. */
void tls_context_unref(struct tls_context *context);
/* Returns the number of trust roots. */
size_t tls_context_root_count(const struct tls_context *context);

struct tls_client_config {
    /* The host name (for SNI and verification) or the IPv4/IPv6 literal without brackets
     * (verified against the certificate's IP addresses, no SNI). Required: without it no session
     * starts. */
    slice server_name;
    /* Sessions are resumed only within one origin: "host:port". Empty: server_name. */
    slice origin;
    /* Limit of the write queue, counted in plain bytes. 0: 1 MiB. `under` needs 10 % and 64 KiB
     * more. */
    size_t write_bytes_max;
};

/* Starts a session over `under`, which is connected. The session owns `under`: closing the new
 * stream closes it. on_open follows once the certificate is verified, or on_closed with a sentence:
 *   ERR_CRYPTO  the certificate is expired, for another host, from an unknown issuer ...
 *   ERR_IO      the peer broke off, or supports none of the versions or ciphers accepted here
 * The time limit is the caller's: stream_close ends a handshake at once. Writes before on_open are
 * refused with ERR_INVALID; a write that would pass write_bytes_max with ERR_LIMIT, even if the
 * socket might have taken it (nothing may be encrypted that cannot be sent). stream_shutdown sends
 * close_notify; on_eof reports whether the peer did (stream.h). Returns NULL on failure, with
 * ERR_INVALID for an invalid name or ERR_NOMEM; `under` then stays the caller's. */
struct stream *tls_client_start(struct tls_context *context, struct stream *under,
                                const struct tls_client_config *config,
                                const struct stream_events *events, void *owner,
                                struct err *err) MUST_CHECK;

struct tls_info {
    const char *version;     /* "TLSv1.3"; constant text */
    const char *ciphersuite; /* constant text */
    bool is_resumed;
    uint64_t handshake_cpu_ns; /* thread CPU time of the handshake up to now */
};

/* stream: returned by tls_client_start, after its on_open. */
struct tls_info tls_client_info(const struct stream *stream);

#endif
