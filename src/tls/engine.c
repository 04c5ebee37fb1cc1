/*
 * One TLS session over a stream: engine.h has the owners of each part.
 *
 *   HANDSHAKE  bytes from below are collected. A pool thread runs steps of the handshake until it
 *              needs more; then the loop sends its output and restarts it when bytes arrive
 *   OPEN       the loop decrypts from the reader's own buffer (no copy of cipher text unless
 *              reading is paused) and encrypts into scratch that all sessions share
 *   CLOSING    the stream below is closing; its on_closed ends it
 *   CLOSED     the owner has been notified; memory is freed once no thread uses it
 */
#include "tls/engine.h"

#include "base/clock.h"
#include "base/mem.h"

static const struct stream_class engine_class;
static const struct stream_events under_events;

/* Bytes read, records to write, and small parts that are gathered into one record. Used only in
 * the loop thread, shared by all sessions, and empty between two events. */
static char scratch_plain[TLS_RECORD_BYTES];
static struct buf scratch_out = {.bytes_max = (size_t)4 * TLS_FLUSH_BYTES};
static char scratch_gather[MBEDTLS_SSL_OUT_CONTENT_LEN];

static struct tls_engine *engine_of(struct stream *stream)
{
    ASSERT(stream->class == &engine_class);
    return CONTAINER_OF(stream, struct tls_engine, stream);
}

bool tls_engine_is(const struct stream *stream)
{
    return stream->class == &engine_class;
}

/* ---- between mbedtls and the buffers ---- */

static int bio_recv(void *ctx, unsigned char *out, size_t cap)
{
    struct tls_engine *engine = ctx;
    slice kept = slice_from(buf_slice(&engine->in), engine->in_at);
    slice from = slice_first(kept.len ? kept : engine->borrowed, cap);
    if (from.len == 0)
        return MBEDTLS_ERR_SSL_WANT_READ;
    memcpy(out, from.ptr, from.len);
    if (kept.len)
        engine->in_at += from.len;
    else
        engine->borrowed = slice_from(engine->borrowed, from.len);
    return (int)from.len;
}

/* The memory is released as soon as all of it was read. */
static void engine_in_trim(struct tls_engine *engine)
{
    if (engine->in_at < engine->in.len)
        return;
    buf_shrink(&engine->in, 0);
    engine->in_at = 0;
}

static bool engine_has_input(const struct tls_engine *engine)
{
    return engine->in_at < engine->in.len || engine->borrowed.len > 0;
}

/* ---- ending ---- */

/* If why is NULL, the stream below will report the reason. The first reason is never replaced. */
static void engine_close_under(struct tls_engine *engine, const struct err *why)
{
    if (engine->state >= TLS_CLOSING)
        return;
    if (why)
        engine->why = *why;
    engine->state = TLS_CLOSING;
    loop_task_cancel(&engine->wake);
    stream_close(engine->under);
}

static void engine_free(struct loop_garbage *garbage)
{
    struct tls_engine *engine = CONTAINER_OF(garbage, struct tls_engine, garbage);
    engine->hooks->free(engine);
}

static void engine_free_when_idle(struct tls_engine *engine)
{
    /* A pool thread still uses the session while is_working is set. handshake_done calls
     * this again. */
    if (engine->state != TLS_CLOSED || engine->is_working)
        return;
    engine->garbage.free = engine_free;
    loop_garbage_add(engine->stream.loop, &engine->garbage);
}

static void on_under_closed(struct stream *under, void *owner, const struct err *why)
{
    (void)under;
    struct tls_engine *engine = owner;
    ASSERT(engine->state != TLS_CLOSED);
    /* A close that began here already has its reason, which may be OK: the owner closed the
     * stream. */
    if (engine->why.code == OK && engine->state != TLS_CLOSING)
        engine->why = *why;
    loop_task_cancel(&engine->wake);
    engine->state = TLS_CLOSED;
    engine->under = NULL;
    if (engine->stream.events->on_closed)
        engine->stream.events->on_closed(&engine->stream, engine->stream.owner, &engine->why);
    engine_free_when_idle(engine);
}

void tls_engine_deinit(struct tls_engine *engine)
{
    mbedtls_ssl_free(&engine->ssl);
    buf_deinit(&engine->in);
    buf_deinit(&engine->arriving);
    buf_deinit(&engine->out);
}

/* ---- records to the stream below, in few large pieces ---- */

void tls_engine_scratch_free(void)
{
    buf_deinit(&scratch_out);
}

/* The send callback of mbedtls_ssl_set_bio. */
static int bio_send(void *ctx, const unsigned char *bytes, size_t len)
{
    struct tls_engine *engine = ctx;
    /* A handshake writes on a pool thread, which must not access the loop's shared scratch. */
    struct buf *out = engine->is_working ? &engine->out : &scratch_out;
    buf_append(out, slice_of(bytes, len));
    return buf_is_ok(out) ? (int)len : MBEDTLS_ERR_SSL_ALLOC_FAILED;
}

/* Sends what ssl has written since; a failed write ends the session. */
static bool engine_flush(struct tls_engine *engine)
{
    struct buf *out = engine->state == TLS_HANDSHAKE ? &engine->out : &scratch_out;
    if (!buf_is_ok(out)) {
        buf_shrink(out, 0);
        struct err why;
        err_set(&why, ERR_NOMEM, "out of memory for a TLS record");
        engine_close_under(engine, &why);
        return false;
    }
    if (out->len == 0)
        return true;
    slice bytes = buf_slice(out);
    /* The stream sends or copies the bytes, so the scratch is free again after the call. */
    int code = stream_write(engine->under, &bytes, 1);
    buf_shrink(out, out == &scratch_out ? 2 * TLS_FLUSH_BYTES : 0);
    buf_clear(out);
    if (code == OK)
        return true;
    /* CLOSED: the stream below reports the reason in its on_closed. LIMIT: its queue is too
     * small, and bytes that are already encrypted cannot be taken back. */
    struct err why;
    err_set(&why, (enum err_code)code, "the connection below TLS accepts no more bytes");
    engine_close_under(engine, code == ERR_CLOSED ? NULL : &why);
    return false;
}

/* ---- reading ---- */

static void engine_report_eof(struct tls_engine *engine, bool is_clean)
{
    if (engine->is_eof_reported)
        return;
    engine->is_eof_reported = true;
    if (engine->stream.events->on_eof)
        engine->stream.events->on_eof(&engine->stream, engine->stream.owner, is_clean);
}

static void engine_record_failed(struct tls_engine *engine, int code)
{
    struct err why;
    char text[160];
    const char *alert = code == MBEDTLS_ERR_SSL_FATAL_ALERT_MESSAGE ? tls_engine_alert_text(engine)
                                                                    : NULL;
    tls_code_text(code, text, sizeof(text));
    if (alert)
        err_set(&why, ERR_IO, "the peer ended the TLS session with the alert %s", alert);
    else
        err_set(&why, ERR_IO, "a TLS record could not be read or written: %s", text);
    if (engine_flush(engine)) /* sends this side's alert */
        engine_close_under(engine, &why);
}

static void engine_on_ticket(struct tls_engine *engine)
{
    engine->is_asked_again = false;
    if (engine->hooks->ticket)
        engine->hooks->ticket(engine);
}

/* Handles the results of mbedtls_ssl_read other than bytes. Returns true if reading may
 * continue. */
static bool engine_on_read_code(struct tls_engine *engine, int code)
{
    switch (code) {
    case MBEDTLS_ERR_SSL_WANT_READ:
        /* The library also returns WANT_READ between a ticket's record and its handling, whether or
         * not there is more to read: the read is repeated once. */
        if (engine_has_input(engine))
            return true;
        engine->is_asked_again = !engine->is_asked_again;
        return engine->is_asked_again;
    case MBEDTLS_ERR_SSL_RECEIVED_NEW_SESSION_TICKET:
        engine_on_ticket(engine);
        return true;
    case MBEDTLS_ERR_SSL_PEER_CLOSE_NOTIFY:
        engine_report_eof(engine, true);
        return false;
    case 0: /* the end of the transport; bio_recv never reports it */
        engine_report_eof(engine, false);
        return false;
    default:
        engine_record_failed(engine, code);
        return false;
    }
}

/* Decrypts and delivers until no whole record is left, or the owner pauses or closes. */
static void engine_pump(struct tls_engine *engine)
{
    unsigned char *plain = (unsigned char *)scratch_plain;
    engine->is_asked_again = false;
    while (engine->state == TLS_OPEN && engine->is_reading && !engine->is_eof_reported) {
        int n = mbedtls_ssl_read(&engine->ssl, plain, sizeof(scratch_plain));
        if (n <= 0) {
            if (!engine_on_read_code(engine, n))
                break;
            continue;
        }
        engine->is_asked_again = false;
        if (!engine_flush(engine)) /* cleared before another session writes into the shared
                                    * scratch */
            break;
        if (engine->stream.events->on_read)
            engine->stream.events->on_read(&engine->stream, engine->stream.owner,
                                           slice_of(scratch_plain, (size_t)n));
        /* All sessions share the scratch, so decrypted bytes are wiped from it. */
        mem_wipe(scratch_plain, (size_t)n);
    }
    if (engine->state == TLS_OPEN)
        engine_flush(engine);
    engine_in_trim(engine);
    if (engine->state == TLS_OPEN && engine->is_reading && engine->is_eof_under)
        engine_report_eof(engine, false); /* FIN without close_notify */
}

static void engine_limit_exceeded(struct tls_engine *engine)
{
    struct err why;
    err_set(&why, ERR_LIMIT, "the peer sent more than %d bytes that could not be processed",
            TLS_ARRIVING_BYTES_MAX);
    engine_close_under(engine, &why);
}

static void engine_keep(struct tls_engine *engine, struct buf *buf, slice bytes)
{
    buf_append(buf, bytes);
    if (!buf_is_ok(buf))
        engine_limit_exceeded(engine);
}

static void engine_handshake_step(struct tls_engine *engine);

static void on_under_read(struct stream *under, void *owner, slice bytes)
{
    struct tls_engine *engine = owner;
    if (engine->state >= TLS_CLOSING || engine->is_eof_reported)
        return;
    /* The thread reads engine->in, so new bytes go to a separate buffer of the loop. */
    if (engine->is_working) {
        engine_keep(engine, &engine->arriving, bytes);
        if (engine->arriving.len >= TLS_ARRIVING_BYTES_MAX / 4) /* data right after its Finished */
            stream_read_stop(under);
        return;
    }
    if (engine->state == TLS_HANDSHAKE) {
        engine_keep(engine, &engine->in, bytes);
        engine_handshake_step(engine);
        return;
    }
    /* Records are decrypted directly from the reader's buffer. Only an incomplete record is
     * copied below. */
    engine->borrowed = bytes;
    engine_pump(engine);
    slice rest = engine->borrowed;
    engine->borrowed = SLICE_NONE;
    if (engine->state == TLS_OPEN && !engine->is_eof_reported && rest.len)
        engine_keep(engine, &engine->in, rest);
}

/* Buffered bytes are delivered before new bytes are read; otherwise the buffer would grow if a
 * reader pauses often. */
static void on_wake(struct loop_task *task)
{
    struct tls_engine *engine = CONTAINER_OF(task, struct tls_engine, wake);
    engine_pump(engine);
    if (engine->state == TLS_OPEN && engine->is_reading)
        stream_read_start(engine->under);
}

static void engine_read_start(struct stream *stream)
{
    struct tls_engine *engine = engine_of(stream);
    if (engine->is_reading || engine->state >= TLS_CLOSING)
        return;
    engine->is_reading = true;
    if (engine->state != TLS_OPEN)
        return;
    /* The owner's callback must not run inside the owner's call, so a task delivers the buffered
     * bytes. */
    if (engine_has_input(engine) || engine->is_eof_under)
        loop_task_queue(engine->stream.loop, &engine->wake);
    else
        stream_read_start(engine->under);
}

static void engine_read_stop(struct stream *stream)
{
    struct tls_engine *engine = engine_of(stream);
    if (!engine->is_reading || engine->state >= TLS_CLOSING)
        return;
    engine->is_reading = false;
    loop_task_cancel(&engine->wake);
    if (engine->state == TLS_OPEN)
        stream_read_stop(engine->under);
}

/* ---- handshake ---- */

static void handshake_run(struct work *work)
{
    struct tls_engine *engine = CONTAINER_OF(work, struct tls_engine, work);
    /* Runs on a pool thread. It accesses only what the loop does not access while is_working is
     * set. */
    uint64_t began = clock_thread_cpu_ns();
    if (!engine->is_prepared && engine->hooks->prepare)
        engine->hooks->prepare(engine);
    /* The preparation is expensive and needs a thread, so the first handshake step does it. */
    engine->is_prepared = true;
    do {
        engine->handshake_code = mbedtls_ssl_handshake(&engine->ssl);
    } while (engine->handshake_code == MBEDTLS_ERR_SSL_RECEIVED_NEW_SESSION_TICKET);
    if (engine->handshake_code == 0 && engine->hooks->finish)
        engine->hooks->finish(engine);
    engine->handshake_cpu_ns += clock_thread_cpu_ns() - began;
}

static void engine_fail_handshake(struct tls_engine *engine, int code)
{
    struct err why = {0};
    engine->hooks->explain(engine, code, &why);
    ASSERT(why.code != OK);
    if (engine_flush(engine)) /* sends this side's alert */
        engine_close_under(engine, &why);
}

static void engine_fail_eof(struct tls_engine *engine)
{
    struct err why;
    err_set(&why, ERR_IO, "the peer closed the connection during the TLS handshake");
    engine_close_under(engine, &why);
}

static void engine_open(struct tls_engine *engine)
{
    engine->state = TLS_OPEN;
    buf_deinit(&engine->out);
    engine_in_trim(engine);
    if (engine->hooks->opened)
        engine->hooks->opened(engine);
    if (!engine->is_reading)
        stream_read_stop(engine->under);
    if (engine->stream.events->on_open)
        engine->stream.events->on_open(&engine->stream, engine->stream.owner);
    if (engine->state == TLS_OPEN && engine->is_reading)
        engine_pump(engine);
}

static void handshake_done(struct work *work)
{
    struct tls_engine *engine = CONTAINER_OF(work, struct tls_engine, work);
    engine->is_working = false;
    if (engine->state != TLS_HANDSHAKE) {
        engine_free_when_idle(engine);
        return;
    }
    /* The thread has ended. Both buffers belong to the loop again and are joined in order. */
    if (engine->arriving.len)
        stream_read_start(engine->under); /* reading may have been paused */
    engine_in_trim(engine);
    engine_keep(engine, &engine->in, buf_slice(&engine->arriving));
    buf_shrink(&engine->arriving, 0);
    int code = engine->handshake_code;
    if (code != 0 && code != MBEDTLS_ERR_SSL_WANT_READ) {
        engine_fail_handshake(engine, code);
        return;
    }
    if (engine->state != TLS_HANDSHAKE || !engine_flush(engine))
        return;
    if (code == 0)
        engine_open(engine);
    else
        engine_handshake_step(engine);
}

static int engine_work_start(struct tls_engine *engine, struct err *err)
{
    ASSERT(!engine->is_working);
    engine->is_working = true; /* set before the thread reads it */
    if (work_start(engine->stream.loop, &engine->work) == OK)
        return OK;
    engine->is_working = false;
    return err_set(err, ERR_NOMEM, "no thread was available for a TLS handshake");
}

/* Starts a thread for the next handshake steps if there are new bytes for it to read. */
static void engine_handshake_step(struct tls_engine *engine)
{
    if (engine->state != TLS_HANDSHAKE)
        return;
    if (!engine_has_input(engine)) {
        if (engine->is_eof_under)
            engine_fail_eof(engine);
        return;
    }
    struct err why;
    if (engine_work_start(engine, &why) != OK)
        engine_close_under(engine, &why);
}

static void on_under_eof(struct stream *under, void *owner, bool is_clean)
{
    (void)under, (void)is_clean;
    struct tls_engine *engine = owner;
    /* Records that arrived before the FIN are still delivered; the pump reports the end after
     * them. */
    engine->is_eof_under = true;
    if (engine->state == TLS_OPEN)
        engine_pump(engine);
    else if (engine->state == TLS_HANDSHAKE && !engine->is_working)
        engine_fail_eof(engine);
}

/* ---- writing ---- */

/* Encrypts `bytes` into one record or more. Returns false after a failure, which has closed the
 * session. */
static bool engine_encrypt(struct tls_engine *engine, slice bytes)
{
    while (bytes.len) {
        int n = mbedtls_ssl_write(&engine->ssl, (const unsigned char *)bytes.ptr, bytes.len);
        if (n == MBEDTLS_ERR_SSL_RECEIVED_NEW_SESSION_TICKET) { /* engine_on_read_code says why */
            engine_on_ticket(engine);
            continue;
        }
        if (n <= 0) {
            engine_record_failed(engine, n);
            return false;
        }
        bytes = slice_from(bytes, (size_t)n);
        /* A large write is sent in parts, so that the scratch stays small. */
        if (scratch_out.len >= TLS_FLUSH_BYTES && !engine_flush(engine))
            return false;
    }
    return true;
}

/* Small parts are gathered into one record, so that the head and body of a request are sent
 * together. Parts as large as a record are encrypted without a copy. */
static bool engine_encrypt_parts(struct tls_engine *engine, const slice *parts, size_t count)
{
    size_t held = 0, held_max = 0;
    bool is_ok = true;
    for (size_t i = 0; i < count && is_ok; i++) {
        slice part = parts[i];
        while (part.len && is_ok) {
            if (held == 0 && part.len >= sizeof(scratch_gather)) {
                size_t whole = part.len - part.len % sizeof(scratch_gather);
                is_ok = engine_encrypt(engine, slice_first(part, whole));
                part = slice_from(part, whole);
                continue;
            }
            slice piece = slice_first(part, sizeof(scratch_gather) - held);
            memcpy(scratch_gather + held, piece.ptr, piece.len);
            held += piece.len;
            held_max = held > held_max ? held : held_max;
            part = slice_from(part, piece.len);
            if (held == sizeof(scratch_gather)) {
                is_ok = engine_encrypt(engine, slice_of(scratch_gather, held));
                held = 0;
            }
        }
    }
    if (is_ok && held)
        is_ok = engine_encrypt(engine, slice_of(scratch_gather, held));
    /* The gathered bytes are plain text, and the next session uses the same scratch. */
    mem_wipe(scratch_gather, held_max);
    return is_ok;
}

static int engine_write(struct stream *stream, const slice *parts, size_t count)
{
    struct tls_engine *engine = engine_of(stream);
    if (engine->state == TLS_HANDSHAKE)
        return ERR_INVALID;
    if (engine->state != TLS_OPEN || engine->is_shut)
        return ERR_CLOSED;
    size_t total = stream_write_pending(engine->under);
    for (size_t i = 0; i < count; i++)
        total += parts[i].len;
    if (total > engine->write_bytes_max)
        return ERR_LIMIT;
    if (!engine_encrypt_parts(engine, parts, count))
        return ERR_CLOSED;
    return engine_flush(engine) ? OK : ERR_CLOSED;
}

static bool engine_send_close_notify(struct tls_engine *engine)
{
    ASSERT(engine->state == TLS_OPEN && !engine->is_shut);
    engine->is_shut = true;
    (void)mbedtls_ssl_close_notify(&engine->ssl); /* it fails only if the buffer fails */
    return engine_flush(engine);
}

static size_t engine_write_pending(const struct stream *stream)
{
    const struct tls_engine *engine = CONTAINER_OF(stream, const struct tls_engine, stream);
    return engine->under ? stream_write_pending(engine->under) : 0;
}

static void on_under_drained(struct stream *under, void *owner)
{
    (void)under;
    struct tls_engine *engine = owner;
    if (engine->state == TLS_OPEN && engine->stream.events->on_drained)
        engine->stream.events->on_drained(&engine->stream, engine->stream.owner);
}

static void engine_shutdown(struct stream *stream)
{
    struct tls_engine *engine = engine_of(stream);
    if (engine->state == TLS_HANDSHAKE) {
        stream_close(stream);
        return;
    }
    if (engine->state == TLS_OPEN && !engine->is_shut && engine_send_close_notify(engine))
        stream_shutdown(engine->under);
}

static void engine_close(struct stream *stream)
{
    struct tls_engine *engine = engine_of(stream);
    if (engine->state >= TLS_CLOSING)
        return;
    /* close_notify is sent only if that does not have to wait; the peer does not depend on it. */
    if (engine->state == TLS_OPEN && !engine->is_shut && stream_write_pending(engine->under) == 0 &&
        !engine_send_close_notify(engine))
        return;
    engine_close_under(engine, NULL);
}

static void engine_reset(struct stream *stream)
{
    struct tls_engine *engine = engine_of(stream);
    if (engine->state >= TLS_CLOSED)
        return;
    engine->state = TLS_CLOSING;
    loop_task_cancel(&engine->wake);
    stream_reset(engine->under);
}

static int engine_peer(const struct stream *stream, struct sockaddr *out, size_t cap)
{
    const struct tls_engine *engine = CONTAINER_OF(stream, const struct tls_engine, stream);
    return engine->under ? stream_peer(engine->under, out, cap) : ERR_CLOSED;
}

static void engine_read_for(struct stream *stream, struct uuid account, bool is_discarded)
{
    struct tls_engine *engine = engine_of(stream);
    if (engine->under)
        stream_read_for(engine->under, account, is_discarded);
}

static const struct stream_class engine_class = {
    "tls",        engine_read_start, engine_read_stop,     engine_write, engine_shutdown,
    engine_close, engine_reset,      engine_write_pending, engine_peer,  engine_read_for,
};

static const struct stream_events under_events = {
    NULL, on_under_read, on_under_eof, on_under_drained, on_under_closed,
};

/* ---- start ---- */

int tls_engine_init(struct tls_engine *engine, const struct tls_engine_hooks *hooks,
                    const mbedtls_ssl_config *conf, struct loop *loop, size_t write_bytes_max,
                    struct err *err)
{
    engine->stream = (struct stream){&engine_class, NULL, NULL, loop};
    engine->hooks = hooks;
    engine->state = TLS_HANDSHAKE;
    engine->write_bytes_max = write_bytes_max ? write_bytes_max : (size_t)1 << 20;
    engine->work = (struct work){.run = handshake_run, .done = handshake_done};
    mbedtls_ssl_init(&engine->ssl);
    buf_init(&engine->in, TLS_ARRIVING_BYTES_MAX);
    buf_init(&engine->arriving, TLS_ARRIVING_BYTES_MAX);
    buf_init(&engine->out, TLS_ARRIVING_BYTES_MAX);
    loop_task_init(&engine->wake, on_wake);
    if (mbedtls_ssl_setup(&engine->ssl, conf) != 0) {
        /* 3.6.7 clears conf if it fails late, but mbedtls_ssl_free dereferences it */
        engine->ssl.MBEDTLS_PRIVATE(conf) = conf;
        return err_set(err, ERR_NOMEM, "out of memory for a TLS session");
    }
    mbedtls_ssl_set_bio(&engine->ssl, engine, bio_send, bio_recv, NULL);
    engine->is_client = mbedtls_ssl_conf_get_endpoint(conf) == MBEDTLS_SSL_IS_CLIENT;
    return OK;
}

int tls_engine_start(struct tls_engine *engine, struct stream *under,
                     const struct stream_events *events, void *owner, struct err *err)
{
    ASSERT(!engine->under && engine->state == TLS_HANDSHAKE);
    engine->under = under;
    stream_own(&engine->stream, events, owner);
    if (engine->is_client && engine_work_start(engine, err) != OK) /* a server waits for bytes */
        return ERR_NOMEM;
    stream_own(under, &under_events, engine);
    stream_read_start(under);
    return OK;
}

struct tls_info tls_engine_info(const struct tls_engine *engine)
{
    struct tls_info info = {"", "", false, engine->handshake_cpu_ns};
    info.version = mbedtls_ssl_get_version(&engine->ssl);
    const char *suite = mbedtls_ssl_get_ciphersuite(&engine->ssl);
    info.ciphersuite = suite ? suite : "";
    return info;
}
