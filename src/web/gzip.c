/*
 * Compression of pages; see gzip.h.
 */
#include "web/gzip.h"

#define ZLIB_CONST /* zlib reads const data */
#include <zlib.h>

#include "base/mem.h"

enum {
    LEVEL = 3,             /* low, since compression blocks the loop: a tenth of a millisecond
                            * per page */
    GZIP_WINDOW = 15 + 16, /* 32 KiB, with the header and trailer of gzip (zlib.h) */
    MEMORY_LEVEL = 8,
};

struct gzip {
    z_stream stream;
};

static void *take_block(void *ctx, uInt count, uInt size)
{
    (void)ctx;
    return mem_calloc(count, size);
}

static void free_block(void *ctx, void *block)
{
    (void)ctx;
    mem_free(block);
}

struct gzip *gzip_new(void)
{
    struct gzip *gzip = mem_zalloc(sizeof(*gzip));
    if (!gzip)
        return NULL;
    gzip->stream.zalloc = take_block;
    gzip->stream.zfree = free_block;
    if (deflateInit2(&gzip->stream, LEVEL, Z_DEFLATED, GZIP_WINDOW, MEMORY_LEVEL,
                     Z_DEFAULT_STRATEGY) == Z_OK)
        return gzip;
    mem_free(gzip);
    return NULL;
}

void gzip_free(struct gzip *gzip)
{
    if (!gzip)
        return;
    (void)deflateEnd(&gzip->stream);
    mem_free(gzip);
}

slice gzip_compress(struct gzip *gzip, slice text, struct arena *arena)
{
    z_stream *stream = &gzip->stream;
    ASSERT(text.len < UINT32_MAX); /* pages are far smaller, and zlib counts in unsigned int */
    (void)deflateReset(stream);
    size_t room = deflateBound(stream, text.len);
    char *out = arena_alloc(arena, room);
    if (!out)
        return SLICE_NONE;
    stream->next_in = (const Bytef *)text.ptr;
    stream->avail_in = (uInt)text.len;
    stream->next_out = (Bytef *)out;
    stream->avail_out = (uInt)room;
    int status = deflate(stream, Z_FINISH);
    ASSERT(status == Z_STREAM_END); /* the bound always suffices */
    return slice_of(out, stream->total_out);
}

/* Returns whether the parameters after a coding's name are a weight other than zero, or whether
 * there are none. */
static bool has_weight(slice parameters)
{
    slice name = slice_trim(slice_split(&parameters, '='));
    slice weight = slice_trim(parameters);
    if (name.len == 0)
        return true;
    if (!slice_eq_nocase(name, SLICE("q")) || weight.len == 0)
        return false;
    bool is_zero = true;
    for (size_t i = 0; i < weight.len; i++) {
        char c = weight.ptr[i];
        if (c != '.' && (c < '0' || c > '9'))
            return false;
        is_zero = is_zero && (c == '.' || c == '0');
    }
    return !is_zero;
}

bool gzip_is_taken(slice accept_encoding)
{
    slice rest = accept_encoding;
    bool is_any_taken = false;
    while (rest.len > 0) {
        slice parameters = slice_split(&rest, ',');
        slice name = slice_trim(slice_split(&parameters, ';'));
        if (slice_eq_nocase(name, SLICE("gzip")) || slice_eq_nocase(name, SLICE("x-gzip")))
            return has_weight(parameters);
        if (slice_eq_cstr(name, "*"))
            is_any_taken = has_weight(parameters);
    }
    return is_any_taken;
}
