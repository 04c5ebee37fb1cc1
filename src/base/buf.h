/*
 * buf: a growing byte buffer with a mandatory maximum. Errors are sticky: appending to a failed
 * buffer does nothing, so that a writer checks `buf_is_ok` once at the end.
 */
#ifndef BASE_BUF_H
#define BASE_BUF_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/slice.h"

struct buf {
    char *ptr;
    size_t len, cap;
    size_t bytes_max;
    /* the maximum was exceeded, or memory ran out; the contents are then incomplete */
    bool is_failed;
    bool is_over; /* with is_failed: the maximum was the cause */
};

/* Allocates nothing yet. */
void buf_init(struct buf *buf, size_t bytes_max);
void buf_deinit(struct buf *buf);
/* Empties the buffer and clears its failure; keeps the memory. */
void buf_clear(struct buf *buf);
/* Empties the buffer, and frees its memory if it is over keep_bytes. */
void buf_shrink(struct buf *buf, size_t keep_bytes);

static inline bool buf_is_ok(const struct buf *buf)
{
    return !buf->is_failed;
}

static inline slice buf_slice(const struct buf *buf)
{
    return (slice){buf->ptr, buf->len};
}

/* The slow path of buf_reserve, when there is no room yet. */
char *buf_make_room(struct buf *buf, size_t len);

/* Returns the address of room for `len` more bytes, or NULL if there is none. The bytes count
 * only after buf_added(). Inlined: the JSON writer calls it for every key, value and comma. */
static inline char *buf_reserve(struct buf *buf, size_t len)
{
    ASSERT(buf->len <= buf->cap);
    if (buf->is_failed || !buf->ptr || len > buf->cap - buf->len)
        return buf_make_room(buf, len);
    return buf->ptr + buf->len;
}

static inline void buf_added(struct buf *buf, size_t len)
{
    ASSERT(len <= buf->cap - buf->len);
    buf->len += len;
}

/* A part of a buffer that may still move: its start and its length. */
struct buf_span {
    uint32_t at, len;
};

/* Appends the bytes and returns their span. The buffer's maximum is at most 4 GB; if the buffer has
 * failed, the span is meaningless. */
struct buf_span buf_append_span(struct buf *buf, slice bytes);
void buf_append(struct buf *buf, slice bytes);
void buf_append_cstr(struct buf *buf, const char *text);
static inline void buf_append_char(struct buf *buf, char c)
{
    char *room = buf_reserve(buf, 1);
    if (!room)
        return;
    *room = c;
    buf->len++;
}
void buf_append_u64(struct buf *buf, uint64_t value);
void buf_append_i64(struct buf *buf, int64_t value);
void buf_printf(struct buf *buf, const char *fmt, ...) PRINTF_LIKE(2, 3);
void buf_vprintf(struct buf *buf, const char *fmt, va_list args) PRINTF_LIKE(2, 0);
/* Drops the first `len` bytes (memmove). */
void buf_consume(struct buf *buf, size_t len);
/* Gives the bytes, NUL-terminated, to the caller, who frees them with mem_free; the buf is empty
 * afterwards. Returns NULL if the buf has failed. */
char *buf_take(struct buf *buf, size_t *len) MUST_CHECK;

#endif
