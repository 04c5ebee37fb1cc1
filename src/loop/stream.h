/*
 * stream: a two-way byte stream over any transport: TCP, a Unix socket (loop/tcp.h), or TLS over
 * one of them (tls/). Readers get bytes in the loop's single shared read buffer, so an idle
 * connection holds no memory for reading; bytes to keep must be copied. Writes try the socket
 * first. Only the bytes that it does not accept are copied, up to a limit.
 *
 * Events come from the loop, never from inside a stream_ call. After on_closed no event follows and
 * the pointer must not be used; its memory is freed at the bottom of the turn.
 */
#ifndef LOOP_STREAM_H
#define LOOP_STREAM_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"
#include "base/id.h"
#include "base/slice.h"
#include "loop/loop.h"

struct stream;
struct sockaddr;

struct stream_events {
    /* called after connect or the handshake; not called for accepted plain sockets */
    void (*on_open)(struct stream *stream, void *owner);
    /* bytes is borrowed for the call */
    void (*on_read)(struct stream *stream, void *owner, slice bytes);
    /* called when the peer will send no more (FIN, close_notify); writing still works. is_clean is
     * false if a TLS peer closed without close_notify: a body without length is then incomplete */
    void (*on_eof)(struct stream *stream, void *owner, bool is_clean);
    /* called when the kernel has all queued bytes, but only if stream_write left some pending */
    void (*on_drained)(struct stream *stream, void *owner);
    /* called exactly once, as the last event. why->code is OK if stream_close was called */
    void (*on_closed)(struct stream *stream, void *owner, const struct err *why);
};

struct stream_class {
    const char *name;
    void (*read_start)(struct stream *stream);
    void (*read_stop)(struct stream *stream);
    int (*write)(struct stream *stream, const slice *parts, size_t count);
    void (*shutdown)(struct stream *stream);
    void (*close)(struct stream *stream);
    void (*reset)(struct stream *stream);
    size_t (*write_pending)(const struct stream *stream);
    int (*peer)(const struct stream *stream, struct sockaddr *out, size_t cap);
    void (*read_for)(struct stream *stream, struct uuid account, bool is_discarded);
};

struct stream {
    const struct stream_class *class;
    const struct stream_events *events;
    void *owner;
    struct loop *loop;
};

/* Gives the stream to another owner, for example when it is accepted or returned to a pool. */
static inline void stream_own(struct stream *stream, const struct stream_events *events,
                              void *owner)
{
    stream->events = events;
    stream->owner = owner;
}

/* Starts and pauses reading. A stream starts paused. Both may be called any number of times. */
static inline void stream_read_start(struct stream *stream)
{
    stream->class->read_start(stream);
}

static inline void stream_read_stop(struct stream *stream)
{
    stream->class->read_stop(stream);
}

/* Accepts all bytes or none: returns ERR_LIMIT if these bytes and the pending ones would exceed the
 * stream's queue limit, ERR_CLOSED after shutdown, close or a write error (on_closed has the
 * reason). Bytes that the socket does not accept at once are copied before it returns; if there is
 * no memory for this, the stream is closed. */
MUST_CHECK static inline int stream_write(struct stream *stream, const slice *parts, size_t count)
{
    return stream->class->write(stream, parts, count);
}

/* Returns the number of bytes accepted by stream_write that the kernel does not have yet. */
static inline size_t stream_write_pending(const struct stream *stream)
{
    return stream->class->write_pending(stream);
}

/* Sends FIN (after close_notify on TLS) after the queued bytes; reading continues. */
static inline void stream_shutdown(struct stream *stream)
{
    stream->class->shutdown(stream);
}

/* Drops queued bytes; on_closed follows in this turn or the next. May be called any number of
 * times. */
static inline void stream_close(struct stream *stream)
{
    stream->class->close(stream);
}

/* Like stream_close, with RST: for peers that must not believe that a reply was complete. */
static inline void stream_reset(struct stream *stream)
{
    stream->class->reset(stream);
}

/* Sets *out to the peer's socket address; returns ERR_NOTFOUND for a Unix socket. */
static inline int stream_peer(const struct stream *stream, struct sockaddr *out, size_t cap)
{
    return stream->class->peer(stream, out, cap);
}

/* Sets the account in whose turn the stream is read (loop/reads.c); nil: no account. If
 * is_discarded, the input is discarded, so the stream is read last, a little at a time. */
static inline void stream_read_for(struct stream *stream, struct uuid account, bool is_discarded)
{
    stream->class->read_for(stream, account, is_discarded);
}

#endif
