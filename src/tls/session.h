/*
 * The cache of sessions that can be resumed. It keeps the newest serialized session per key. Its
 * size is limited; the least recently used session is dropped first, and dropped sessions are
 * wiped. Owned by a tls_context; loop thread only.
 */
#ifndef TLS_SESSION_H
#define TLS_SESSION_H

#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/list.h"
#include "base/map.h"
#include "base/slice.h"

enum {
    TLS_SESSION_BYTES_MAX =
        32 * 1024, /* size of one session; a TLS 1.2 session contains the peer's certificate */
    TLS_SESSION_KEY_MAX = 600,
};

struct tls_sessions {
    struct map by_key;
    struct list by_use; /* least recently used first */
    size_t count_max;
};

void tls_sessions_init(struct tls_sessions *sessions, size_t count_max);
void tls_sessions_deinit(struct tls_sessions *sessions);
/* Returns the session's bytes, borrowed until the next call of a function of this cache, or
 * SLICE_NONE if none is still valid at now_wall_s. *good_until_s gets the time with which the
 * session was stored. */
slice tls_sessions_get(struct tls_sessions *sessions, slice key, int64_t now_wall_s,
                       int64_t *good_until_s);
/* Copies both and replaces an older session. A session that cannot be stored is dropped. */
void tls_sessions_put(struct tls_sessions *sessions, slice key, slice bytes, int64_t good_until_s);
void tls_sessions_drop(struct tls_sessions *sessions, slice key);

#endif
