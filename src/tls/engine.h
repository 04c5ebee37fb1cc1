/*
 * The part of TLS that both directions share: drives one mbedtls_ssl_context over a stream, with
 * memory buffers in between, so that a handshake can run on the thread pool without access to the
 * socket. The client (tls/client.c) and the server of bench/provider embed struct tls_engine as the
 * first member and add their own parts through hooks. Internal: no other room includes this.
 *
 * Threads: while is_working is set, a pool thread owns ssl, in and out; the loop accesses only the
 * rest and collects arriving bytes in `arriving`. At all other times the loop owns everything.
 */
#ifndef TLS_ENGINE_H
#define TLS_ENGINE_H

#include <mbedtls/ssl.h>

#include "base/buf.h"
#include "loop/loop.h"
#include "tls/tls.h"

enum {
    TLS_RECORD_BYTES = 16 * 1024, /* plain bytes that a peer's record may hold */
    TLS_FLUSH_BYTES = 128 * 1024, /* records are handed to the socket in such pieces */
    TLS_ARRIVING_BYTES_MAX =
        256 * 1024, /* received from a peer in a handshake, or while reading is paused */
};

enum tls_state { TLS_HANDSHAKE, TLS_OPEN, TLS_CLOSING, TLS_CLOSED };

struct tls_engine;

struct tls_engine_hooks {
    /* Called on a pool thread, before the first step: offers a session. May be NULL. */
    void (*prepare)(struct tls_engine *engine);
    /* Called on a pool thread, after the handshake: saves the session. May be NULL. */
    void (*finish)(struct tls_engine *engine);
    /* Called on the loop when the handshake is done, before the owner's on_open. May be NULL. */
    void (*opened)(struct tls_engine *engine);
    /* Called on the loop when a TLS 1.3 ticket has arrived. May be NULL. */
    void (*ticket)(struct tls_engine *engine);
    /* Called on the loop: writes the sentence for an mbedtls code that ended the handshake. */
    void (*explain)(struct tls_engine *engine, int code, struct err *err);
    /* Called on the loop: frees the struct around the engine, after tls_engine_deinit. */
    void (*free)(struct tls_engine *engine);
};

struct tls_engine {
    struct stream stream; /* the owner's handle; first member */
    struct stream *under;
    const struct tls_engine_hooks *hooks;
    mbedtls_ssl_context ssl;
    enum tls_state state;
    bool is_working; /* a pool thread uses the session */
    bool is_client;
    bool is_prepared;     /* hooks->prepare was called */
    bool is_reading;      /* the owner wants bytes */
    bool is_eof_under;    /* the peer sent FIN */
    bool is_eof_reported; /* on_eof was called */
    bool is_asked_again;  /* see engine_on_read_code */
    bool is_shut;         /* close_notify was sent */
    int handshake_code;   /* the return code of the last step on the pool */
    uint64_t handshake_cpu_ns;
    size_t write_bytes_max;
    struct buf in; /* cipher text not yet read by ssl, from in_at on */
    size_t in_at;
    slice borrowed;      /* cipher text after `in`, valid during one on_read */
    struct buf arriving; /* cipher text that arrives while a thread works */
    struct buf out;      /* cipher text of the handshake */
    struct work work;
    struct loop_task wake; /* delivers buffered bytes after a pause */
    struct err why;
    struct loop_garbage garbage;
};

/* Sets up ssl; the engine is zeroed. After an error, or before tls_engine_start, hooks->free may
 * be called. write_bytes_max 0: 1 MiB. */
int tls_engine_init(struct tls_engine *engine, const struct tls_engine_hooks *hooks,
                    const mbedtls_ssl_config *conf, struct loop *loop, size_t write_bytes_max,
                    struct err *err) MUST_CHECK;
/* Takes ownership of `under` if it returns OK. A client's handshake begins immediately, on the
 * pool, so ssl must be set up completely before. */
int tls_engine_start(struct tls_engine *engine, struct stream *under,
                     const struct stream_events *events, void *owner, struct err *err) MUST_CHECK;
/* For hooks->free. */
void tls_engine_deinit(struct tls_engine *engine);
/* Returns whether this stream is an engine: its class is recognized by address. */
bool tls_engine_is(const struct stream *stream);
/* Returns the members of tls_info that both directions have. */
struct tls_info tls_engine_info(const struct tls_engine *engine);
/* Returns the peer's last alert ("handshake_failure"), or NULL if its last record was not an
 * alert. */
const char *tls_engine_alert_text(const struct tls_engine *engine);

/* ---- for both directions ---- */

/* Sets what both directions need: versions, groups, random numbers. Returns ERR_INVALID if min is
 * greater than max. */
int tls_conf_common(mbedtls_ssl_config *conf, enum tls_version min, enum tls_version max,
                    struct err *err) MUST_CHECK;

/* Frees the scratch that all engines of the loop thread share; called by tls_library_deinit. */
void tls_engine_scratch_free(void);

/* Writes a text for an mbedtls code that fits into a sentence: "out of memory", "SSL - ...". */
void tls_code_text(int code, char *out, size_t cap);

#endif
