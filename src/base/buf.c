/*
 * buf: grows by doubling, never beyond bytes_max. One byte more than cap is always allocated, so
 * that buf_take can add its NUL without another allocation.
 */
#include "base/buf.h"

#include <stdio.h>

#include "base/mem.h"

enum { BUF_CAP_MIN = 128 };

void buf_init(struct buf *buf, size_t bytes_max)
{
    ASSERT(bytes_max < MEM_BLOCK_BYTES_MAX);
    *buf = (struct buf){.bytes_max = bytes_max};
}

void buf_deinit(struct buf *buf)
{
    mem_free(buf->ptr);
    buf_init(buf, buf->bytes_max);
}

void buf_clear(struct buf *buf)
{
    buf->len = 0;
    buf->is_failed = buf->is_over = false;
}

void buf_shrink(struct buf *buf, size_t keep_bytes)
{
    if (buf->cap > keep_bytes)
        buf_deinit(buf);
    buf_clear(buf);
}

/* Makes room for `want` bytes in total; want <= bytes_max. */
static bool grow_bytes(struct buf *buf, size_t want)
{
    /* Doubles the size, so that appending n bytes one by one copies fewer than 2n in total. */
    size_t cap = buf->cap > BUF_CAP_MIN / 2 ? buf->cap * 2 : BUF_CAP_MIN;
    if (cap < want)
        cap = want;
    if (cap > buf->bytes_max)
        cap = buf->bytes_max;
    /* The extra byte is for a NUL (buf_take, vsnprintf); bytes_max below MEM_BLOCK_BYTES_MAX leaves
     * room for it. */
    char *ptr = mem_realloc(buf->ptr, cap + 1);
    if (!ptr)
        return false;
    buf->ptr = ptr;
    buf->cap = cap;
    return true;
}

char *buf_make_room(struct buf *buf, size_t len)
{
    ASSERT(buf->len <= buf->cap && buf->cap <= buf->bytes_max);
    if (buf->is_failed)
        return NULL;
    buf->is_over = len > buf->bytes_max - buf->len;
    if (buf->is_over || !grow_bytes(buf, buf->len + len)) {
        buf->is_failed = true;
        return NULL;
    }
    return buf->ptr + buf->len;
}

void buf_append(struct buf *buf, slice bytes)
{
    /* The bytes must not be part of the buffer itself: growing would free them before they are
     * copied. */
    ASSERT(!buf->ptr || !bytes.len || bytes.ptr >= buf->ptr + buf->cap ||
           bytes.ptr + bytes.len <= buf->ptr);
    char *room = bytes.len ? buf_reserve(buf, bytes.len) : NULL;
    if (!room)
        return;
    memcpy(room, bytes.ptr, bytes.len);
    buf->len += bytes.len;
}

struct buf_span buf_append_span(struct buf *buf, slice bytes)
{
    ASSERT(buf->len <= UINT32_MAX && bytes.len <= UINT32_MAX);
    struct buf_span span = {(uint32_t)buf->len, (uint32_t)bytes.len};
    buf_append(buf, bytes);
    return span;
}

void buf_append_cstr(struct buf *buf, const char *text)
{
    buf_append(buf, slice_cstr(text));
}

void buf_append_u64(struct buf *buf, uint64_t value)
{
    char text[SLICE_U64_MAX];
    buf_append(buf, slice_of_u64(value, text));
}

void buf_append_i64(struct buf *buf, int64_t value)
{
    char text[1 + SLICE_U64_MAX];
    /* Negating in unsigned arithmetic: -INT64_MIN does not exist as an int64_t. */
    uint64_t size = value < 0 ? 0 - (uint64_t)value : (uint64_t)value;
    size_t len = slice_of_u64(size, text + 1).len;
    /* slice_of_u64 writes at the end of its array, so the sign goes before the digits. */
    if (value < 0)
        text[sizeof(text) - ++len] = '-';
    buf_append(buf, slice_of(text + sizeof(text) - len, len));
}

void buf_printf(struct buf *buf, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    buf_vprintf(buf, fmt, args);
    va_end(args);
}

void buf_vprintf(struct buf *buf, const char *fmt, va_list args)
{
    if (buf->is_failed)
        return;
    va_list again;
    va_copy(again, args);
    /* vsnprintf may write the NUL into the spare byte after cap. Most texts fit at the first
     * attempt, so formatting is repeated only when the buffer has to grow. */
    size_t room = buf->ptr ? buf->cap - buf->len + 1 : 0;
    int want = vsnprintf(room ? buf->ptr + buf->len : NULL, room, fmt, args);
    if (want < 0) {
        buf->is_failed = true;
    } else if ((size_t)want >= room && buf_reserve(buf, (size_t)want)) {
        int wrote = vsnprintf(buf->ptr + buf->len, (size_t)want + 1, fmt, again);
        ASSERT(wrote == want);
    }
    va_end(again);
    if (!buf->is_failed)
        buf->len += (size_t)want;
}

void buf_consume(struct buf *buf, size_t len)
{
    ASSERT(len <= buf->len);
    if (len && len < buf->len)
        memmove(buf->ptr, buf->ptr + len, buf->len - len);
    buf->len -= len;
}

char *buf_take(struct buf *buf, size_t *len)
{
    /* Reserving 0 bytes allocates the block of a buffer that was never written to: the NUL needs
     * a byte. */
    char *end = buf_reserve(buf, 0);
    if (!end)
        return NULL;
    *end = '\0';
    if (len)
        *len = buf->len;
    char *taken = buf->ptr;
    buf_init(buf, buf->bytes_max);
    return taken;
}
