/*
 * arena: memory with one lifetime (a request, an op, a manifest). Bump allocation in chunks that
 * double from ARENA_CHUNK_MIN to ARENA_CHUNK_MAX; freed all at once. Every arena has a maximum.
 * Beyond it, or when the heap fails, allocation returns NULL and `is_exhausted` stays set, so that
 * a sequence of small steps may check once at its end.
 */
#ifndef BASE_ARENA_H
#define BASE_ARENA_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/slice.h"

enum {
    ARENA_CHUNK_MIN = 1024,
    /* greater than MEM_MAPPED_BYTES_MIN, so such chunks are unmapped when freed */
    ARENA_CHUNK_MAX = 1024 * 1024,
};

struct arena_chunk;
struct arena_cleanup;
struct budget_use;
struct buf;

struct arena {
    struct arena_chunk *chunks; /* newest first */
    char *next, *end;           /* free space of the newest chunk */
    size_t bytes_used;          /* bytes that were handed out, for the limit and for metrics */
    size_t bytes_max;
    bool is_exhausted;
    struct arena_cleanup *cleanups; /* newest first */
    struct budget_use *use;         /* charged for the arena's chunks; NULL: none is charged */
};

/* Allocates nothing yet. */
void arena_init(struct arena *arena, size_t bytes_max);
/* Frees everything; the arena is as after arena_init. */
void arena_reset(struct arena *arena);
void arena_deinit(struct arena *arena);
/* Counts the arena's chunks, present and future, in *use until they are freed. use outlives the
 * arena. */
void arena_count_in(struct arena *arena, struct budget_use *use);
/* Calls run(ctx) when the arena is freed, before its memory is released: for a block of the arena
 * that owns something outside of it (a file, a reference). The newest cleanup runs first. Returns
 * false, without registering the cleanup, if the limit is reached. */
bool arena_on_free(struct arena *arena, void (*run)(void *ctx), void *ctx) MUST_CHECK;

/* Allocates a block, aligned to 16 bytes and not cleared. Returns NULL if the limit is exceeded. */
void *arena_alloc(struct arena *arena, size_t size) MUST_CHECK;
void *arena_zalloc(struct arena *arena, size_t size) MUST_CHECK;
/* Allocates count * size bytes, cleared. Returns NULL also if the product overflows. */
void *arena_calloc(struct arena *arena, size_t count, size_t size) MUST_CHECK;
/* Allocates without alignment, for text. */
char *arena_alloc_text(struct arena *arena, size_t size) MUST_CHECK;
/* Grows the newest block in place if possible, else copies it. ptr may be NULL. */
void *arena_realloc(struct arena *arena, void *ptr, size_t old_size, size_t size) MUST_CHECK;

/* Copies the slice and appends a NUL that len does not count. Returns {NULL,0} if the limit is
 * exceeded. */
slice arena_dup(struct arena *arena, slice text);
/* Moves the buffer's text into the arena and frees the buffer. Returns SLICE_NONE if the buffer has
 * failed or the arena's limit is reached. */
slice arena_take(struct arena *arena, struct buf *buf);
char *arena_cstr(struct arena *arena, slice text) MUST_CHECK;
/* Joins the parts, with a NUL that len does not count; for texts of many bytes, which formatting
 * would copy one by one. Returns SLICE_NONE if the limit is exceeded. */
slice arena_join(struct arena *arena, const slice *parts, size_t count);
#define ARENA_JOIN(arena, ...)                        \
    arena_join((arena), (const slice[]){__VA_ARGS__}, \
               sizeof((const slice[]){__VA_ARGS__}) / sizeof(slice))
slice arena_printf(struct arena *arena, const char *fmt, ...) PRINTF_LIKE(2, 3);
slice arena_vprintf(struct arena *arena, const char *fmt, va_list args) PRINTF_LIKE(2, 0);

/* ---- text that grows in an arena; an error stays in status and ends the growth ---- */

struct arena_text {
    struct arena *arena;
    char *ptr;
    size_t len, cap, bytes_max;
    int status; /* OK, ERR_NOMEM, or ERR_LIMIT if the text exceeds bytes_max */
};

/* Allocates nothing yet. */
void arena_text_init(struct arena_text *text, struct arena *arena, size_t bytes_max);
/* Does nothing after an error. Growing copies the text if something else was allocated from the
 * arena since. */
void arena_text_add(struct arena_text *text, slice bytes);
/* At most 255 bytes. */
void arena_text_printf(struct arena_text *text, const char *fmt, ...) PRINTF_LIKE(2, 3);
#define ARENA_TEXT_LIT(text, literal) arena_text_add((text), SLICE(literal))

#define ARENA_NEW(arena, type)          ((type *)arena_zalloc((arena), sizeof(type)))
#define ARENA_ARRAY(arena, type, count) ((type *)arena_calloc((arena), (count), sizeof(type)))

#endif
