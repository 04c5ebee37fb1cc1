/*
 * The writing half of a TLS session: plain bytes into records, records to the stream below in few
 * large pieces. Open sessions share one buffer for records and one in which small parts are
 * gathered; both are empty whenever another session runs. See engine.h.
 */
#include "base/mem.h"
#include "tls/engine.h"

static struct buf scratch_out = {.bytes_max = (size_t)4 * TLS_FLUSH_BYTES};
static char scratch_gather[MBEDTLS_SSL_OUT_CONTENT_LEN];

void tls_engine_scratch_free(void)
{
    buf_deinit(&scratch_out);
}

/* For mbedtls_ssl_set_bio. */
int tls_engine_bio_send(void *ctx, const unsigned char *bytes, size_t len)
{
    struct tls_engine *engine = ctx;
    /* A handshake writes on a pool thread, where the loop's shared scratch may not be
     * touched. */
    struct buf *out = engine->is_working ? &engine->out : &scratch_out;
    buf_append(out, slice_of(bytes, len));
    return buf_is_ok(out) ? (int)len : MBEDTLS_ERR_SSL_ALLOC_FAILED;
}

/* Sends what ssl has written since; a write that fails ends the session. */
bool tls_engine_flush(struct tls_engine *engine)
{
    struct buf *out = engine->state == TLS_HANDSHAKE ? &engine->out : &scratch_out;
    if (!buf_is_ok(out)) {
        buf_shrink(out, 0);
        struct err why;
        err_set(&why, ERR_NOMEM, "out of memory for a TLS record");
        tls_engine_close_under(engine, &why);
        return false;
    }
    if (out->len == 0)
        return true;
    slice bytes = buf_slice(out);
    /* The stream takes the bytes or copies them, so the scratch is free again after the
     * call. */
    int code = stream_write(engine->under, &bytes, 1);
    buf_shrink(out, out == &scratch_out ? 2 * TLS_FLUSH_BYTES : 0);
    buf_clear(out);
    if (code == OK)
        return true;
    /* CLOSED: the stream below has the reason in its on_closed. LIMIT: it was given too small a
     * queue, and what is encrypted cannot be taken back. */
    struct err why;
    err_set(&why, (enum err_code)code, "the connection under TLS takes no more bytes");
    tls_engine_close_under(engine, code == ERR_CLOSED ? NULL : &why);
    return false;
}

/* One record or more out of `bytes`; false after a failure, which has closed the session. */
static bool engine_encrypt(struct tls_engine *engine, slice bytes)
{
    while (bytes.len) {
        int n = mbedtls_ssl_write(&engine->ssl, (const unsigned char *)bytes.ptr, bytes.len);
        if (n == MBEDTLS_ERR_SSL_RECEIVED_NEW_SESSION_TICKET) { /* engine_on_read_code says why */
            tls_engine_on_ticket(engine);
            continue;
        }
        if (n <= 0) {
            tls_engine_record_failed(engine, n);
            return false;
        }
        bytes = slice_from(bytes, (size_t)n);
        /* A large write leaves in parts, so that the scratch stays small. */
        if (scratch_out.len >= TLS_FLUSH_BYTES && !tls_engine_flush(engine))
            return false;
    }
    return true;
}

/* Small parts are gathered into one record: head and body of a request leave together. Parts as
 * large as a record are encrypted without a copy. */
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

int tls_engine_write(struct tls_engine *engine, const slice *parts, size_t count)
{
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
    return tls_engine_flush(engine) ? OK : ERR_CLOSED;
}

bool tls_engine_send_close_notify(struct tls_engine *engine)
{
    ASSERT(engine->state == TLS_OPEN && !engine->is_shut);
    engine->is_shut = true;
    (void)mbedtls_ssl_close_notify(&engine->ssl); /* fails only where the buffer does */
    return tls_engine_flush(engine);
}
