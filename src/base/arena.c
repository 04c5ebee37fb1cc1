/*
 * arena: bump allocation. A block larger than a chunk gets a chunk of its own, linked after the
 * newest one, so that the free space of the newest is not lost. Under ASan the free space is
 * poisoned and every aligned block has a gap in front of it, so that an overrun is found as on the
 * heap.
 *
 * Limits count the bytes handed out (bytes_used), not those of the chunks: whether a request fits
 * does not depend on how its blocks are distributed over chunks. Budgets count chunks, which are
 * what the process really holds. An arena has no lock: only one thread at a time may use it.
 */
#include "base/arena.h"

#include <stdint.h>
#include <stdio.h>

#include "base/buf.h"
#include "base/budget.h"
#include "base/err.h"
#include "base/mem.h"
#include "base/poison.h"

#ifdef BASE_HAS_ASAN
enum { ARENA_GAP = 16 };
#else
enum { ARENA_GAP = 0 };
#endif

/* This alignment is sufficient for any type used here, including max_align_t. */
enum { ARENA_ALIGN = 16, TEXT_ROOM_MIN = 128 };

struct arena_chunk {
    struct arena_chunk *older;
    size_t size; /* bytes of data */
    _Alignas(16) char data[];
};

struct arena_cleanup {
    struct arena_cleanup *older;
    void (*run)(void *ctx);
    void *ctx;
};

void arena_init(struct arena *arena, size_t bytes_max)
{
    *arena = (struct arena){.bytes_max = bytes_max};
}

bool arena_on_free(struct arena *arena, void (*run)(void *ctx), void *ctx)
{
    /* The record is in the arena itself, so registering a cleanup needs no separate memory. */
    struct arena_cleanup *cleanup = arena_alloc(arena, sizeof(*cleanup));
    if (!cleanup)
        return false;
    *cleanup = (struct arena_cleanup){arena->cleanups, run, ctx};
    arena->cleanups = cleanup;
    return true;
}

static void run_cleanups(struct arena *arena)
{
    struct arena_cleanup *cleanup;
    while ((cleanup = arena->cleanups)) {
        /* The cleanup is unlinked before it runs: if it resets another arena, or this one by
         * mistake, it cannot run twice. */
        arena->cleanups = cleanup->older;
        cleanup->run(cleanup->ctx);
    }
}

void arena_reset(struct arena *arena)
{
    /* The cleanups run first: they still read their blocks. */
    run_cleanups(arena);
    struct arena_chunk *chunk = arena->chunks;
    while (chunk) {
        struct arena_chunk *older = chunk->older;
        /* The heap's free list writes into the block, which ASan would report as a use of poisoned
         * memory. */
        UNPOISON(chunk->data, chunk->size);
        if (arena->use)
            budget_use_remove(arena->use, chunk->size);
        mem_free(chunk);
        chunk = older;
    }
    *arena = (struct arena){.bytes_max = arena->bytes_max, .use = arena->use};
}

void arena_count_in(struct arena *arena, struct budget_use *use)
{
    /* Moving an arena from one use to another would leave the first use charged permanently. */
    ASSERT(!arena->use);
    for (struct arena_chunk *chunk = arena->chunks; chunk; chunk = chunk->older)
        budget_use_add(use, chunk->size);
    arena->use = use;
}

void arena_deinit(struct arena *arena)
{
    arena_reset(arena);
}

static size_t next_chunk_size(const struct arena *arena)
{
    /* Doubling keeps the number of chunks logarithmic in the bytes used. */
    size_t size = arena->chunks ? arena->chunks->size * 2 : ARENA_CHUNK_MIN;
    if (size < ARENA_CHUNK_MIN)
        size = ARENA_CHUNK_MIN;
    return size > ARENA_CHUNK_MAX ? ARENA_CHUNK_MAX : size;
}

static struct arena_chunk *chunk_new(struct arena *arena, size_t data_size)
{
    struct arena_chunk *chunk = mem_alloc(sizeof(*chunk) + data_size);
    if (!chunk)
        return NULL;
    *chunk = (struct arena_chunk){.size = data_size};
    POISON(chunk->data, data_size);
    if (arena->use)
        budget_use_add(arena->use, data_size);
    return chunk;
}

/* Allocates a block in its own chunk; bumping continues in the newest chunk. */
static char *alloc_large(struct arena *arena, size_t size)
{
    struct arena_chunk *chunk = chunk_new(arena, size);
    if (!chunk)
        return NULL;
    if (arena->chunks) {
        chunk->older = arena->chunks->older;
        arena->chunks->older = chunk;
    } else {
        arena->chunks = chunk;
        /* If there is no chunk yet, this one becomes the newest although it is full; the next
         * block gets a new chunk. */
        arena->next = arena->end = chunk->data + size;
    }
    return chunk->data;
}

/* Allocates `size` bytes at the start of a new chunk. */
static char *alloc_chunk(struct arena *arena, size_t size)
{
    size_t chunk_size = next_chunk_size(arena);
    /* A block that would take more than half of a new chunk gets its own chunk. Any other block
     * fits: sizes up to ARENA_CHUNK_MIN fit into every chunk. */
    if (size > chunk_size / 2 && size > ARENA_CHUNK_MIN)
        return alloc_large(arena, size);
    struct arena_chunk *chunk = chunk_new(arena, chunk_size);
    if (!chunk)
        return NULL;
    chunk->older = arena->chunks;
    arena->chunks = chunk;
    arena->next = chunk->data + size;
    arena->end = chunk->data + chunk_size;
    return chunk->data;
}

static void *alloc_aligned(struct arena *arena, size_t size, size_t align)
{
    ASSERT((align & (align - 1)) == 0);
    /* The subtraction cannot wrap: bytes_used never exceeds bytes_max. MEM_BLOCK_BYTES_MAX keeps
     * the sums of sizes below from overflowing. */
    if (size > arena->bytes_max - arena->bytes_used || size >= MEM_BLOCK_BYTES_MAX) {
        arena->is_exhausted = true;
        return NULL;
    }
    size_t gap = align > 1 ? ARENA_GAP : 0;
    /* The number of bytes up to the next multiple of align, without a branch. While the arena has
     * no chunk, next is NULL. */
    size_t pad = (0 - (uintptr_t)arena->next) & (align - 1);
    size_t room = (size_t)(arena->end - arena->next);
    char *ptr;
    /* The comparison subtracts: pad + gap + size could overflow, room - pad - gap cannot. */
    if (arena->next && pad + gap <= room && size <= room - pad - gap) {
        ptr = arena->next + pad + gap;
        arena->next = ptr + size;
    } else {
        ptr = alloc_chunk(arena, size);
    }
    if (!ptr) {
        arena->is_exhausted = true;
        return NULL;
    }
    arena->bytes_used += size;
    UNPOISON(ptr, size);
    return ptr;
}

void *arena_alloc(struct arena *arena, size_t size)
{
    return alloc_aligned(arena, size, ARENA_ALIGN);
}

void *arena_zalloc(struct arena *arena, size_t size)
{
    void *ptr = arena_alloc(arena, size);
    return ptr ? memset(ptr, 0, size) : NULL;
}

void *arena_calloc(struct arena *arena, size_t count, size_t size)
{
    size_t total;
    if (__builtin_mul_overflow(count, size, &total)) {
        arena->is_exhausted = true;
        return NULL;
    }
    return arena_zalloc(arena, total);
}

char *arena_alloc_text(struct arena *arena, size_t size)
{
    return alloc_aligned(arena, size, 1);
}

/* Returns whether the block at ptr, the newest in its chunk, can be resized to `size` bytes in
 * place. */
static bool resize_in_place(struct arena *arena, char *ptr, size_t old_size, size_t size)
{
    /* Only the newest block ends where the free space begins. */
    if (ptr + old_size != arena->next || size > (size_t)(arena->end - ptr))
        return false;
    if (size > old_size && size - old_size > arena->bytes_max - arena->bytes_used)
        return false;
    arena->next = ptr + size;
    arena->bytes_used = arena->bytes_used - old_size + size;
    if (size < old_size)
        POISON(ptr + size, old_size - size);
    else
        UNPOISON(ptr, size);
    return true;
}

void *arena_realloc(struct arena *arena, void *ptr, size_t old_size, size_t size)
{
    ASSERT(ptr || old_size == 0);
    if (ptr && resize_in_place(arena, ptr, old_size, size))
        return ptr;
    /* A block that shrinks and is not the newest stays where it is; its tail is lost until the
     * reset. */
    if (ptr && size <= old_size)
        return ptr;
    void *moved = arena_alloc(arena, size);
    if (moved && old_size)
        memcpy(moved, ptr, old_size);
    return moved;
}

slice arena_dup(struct arena *arena, slice text)
{
    char *copy = arena_cstr(arena, text);
    return copy ? slice_of(copy, text.len) : SLICE_NONE;
}

slice arena_take(struct arena *arena, struct buf *buf)
{
    slice text = buf_is_ok(buf) ? arena_dup(arena, buf_slice(buf)) : SLICE_NONE;
    buf_deinit(buf);
    return text;
}

char *arena_cstr(struct arena *arena, slice text)
{
    char *copy = text.len < SIZE_MAX ? arena_alloc_text(arena, text.len + 1) : NULL;
    if (!copy)
        return NULL;
    if (text.len)
        memcpy(copy, text.ptr, text.len);
    copy[text.len] = '\0';
    return copy;
}

slice arena_join(struct arena *arena, const slice *parts, size_t count)
{
    size_t len = 0;
    for (size_t i = 0; i < count; i++)
        len += parts[i].len;
    char *text = arena_alloc_text(arena, len + 1);
    if (!text)
        return SLICE_NONE;
    text[len] = '\0';
    return slice_join(text, len, parts, count);
}

slice arena_printf(struct arena *arena, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    slice text = arena_vprintf(arena, fmt, args);
    va_end(args);
    return text;
}

slice arena_vprintf(struct arena *arena, const char *fmt, va_list args)
{
    char room[256]; /* most texts are shorter, and are formatted once */
    va_list again;
    /* The arguments of a longer text are read twice; a va_list may be used only once (C11 7.16). */
    va_copy(again, args);
    int want = vsnprintf(room, sizeof(room), fmt, args);
    size_t len = want < 0 ? 0 : (size_t)want;
    char *text = want < 0 ? NULL : arena_alloc_text(arena, len + 1);
    if (!text) {
        arena->is_exhausted = true;
    } else if (len < sizeof(room)) {
        memcpy(text, room, len + 1);
    } else {
        int wrote = vsnprintf(text, len + 1, fmt, again);
        ASSERT(wrote == want);
    }
    va_end(again);
    return text ? slice_of(text, len) : SLICE_NONE;
}

/* ---- text ---- */

void arena_text_init(struct arena_text *text, struct arena *arena, size_t bytes_max)
{
    *text = (struct arena_text){.arena = arena, .bytes_max = bytes_max};
}

static bool text_grow(struct arena_text *text, size_t len)
{
    if (len > text->bytes_max - text->len) {
        text->status = ERR_LIMIT;
        return false;
    }
    /* Doubles the size, so growing copies each byte at most about twice. */
    size_t cap = text->cap * 2 > text->len + len ? text->cap * 2 : text->len + len;
    cap = cap < TEXT_ROOM_MIN ? TEXT_ROOM_MIN : cap;
    /* The old size is the size of the whole block, not of its used part: it shows the arena whether
     * this is the newest block, which can grow in place. */
    char *ptr = arena_realloc(text->arena, text->ptr, text->cap, cap);
    if (!ptr) {
        text->status = ERR_NOMEM;
        return false;
    }
    text->ptr = ptr;
    text->cap = cap;
    return true;
}

void arena_text_add(struct arena_text *text, slice bytes)
{
    if (text->status != OK || bytes.len == 0)
        return;
    if (bytes.len > text->cap - text->len && !text_grow(text, bytes.len))
        return;
    ASSERT(bytes.len <= text->cap - text->len);
    memcpy(text->ptr + text->len, bytes.ptr, bytes.len);
    text->len += bytes.len;
}

void arena_text_printf(struct arena_text *text, const char *fmt, ...)
{
    char line[256];
    va_list args;
    va_start(args, fmt);
    int len = vsnprintf(line, sizeof(line), fmt, args);
    va_end(args);
    ASSERT(len >= 0 && (size_t)len < sizeof(line));
    arena_text_add(text, slice_of(line, (size_t)len));
}
