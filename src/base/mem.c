/*
 * mem: malloc and friends, counted. There is one relaxed atomic add per block and no header before
 * it, so that ASan sees every block at its real bounds. Fault injection costs one relaxed load when
 * off.
 *
 * Arenas and buffers allocate blocks of half a KiB to 16 KiB for a short time. glibc caches few or
 * none of these sizes per thread: it splits larger ones and merges them again, at five times the
 * cost. So a thread that called mem_reuse keeps some of the blocks that it frees, in eight sizes
 * per octave, and counts its blocks in its own counter: an atomic add waits for all writes before
 * it.
 */
#include "base/mem.h"

#include <malloc.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

/* The counter of a thread that keeps blocks may be negative: it frees blocks that another thread
 * allocated. */
static atomic_ptrdiff_t live_blocks;

/* Fault injection: 0 in fail_from means off. */
static _Atomic uint64_t fail_from, fail_to;
static _Atomic uint64_t fail_tried, fail_hits;

static bool is_due_to_fail(void)
{
    uint64_t from = atomic_load_explicit(&fail_from, memory_order_relaxed);
    if (__builtin_expect(from == 0, 1))
        return false;
    uint64_t nth = atomic_fetch_add(&fail_tried, 1) + 1;
    if (nth < from || nth >= atomic_load(&fail_to))
        return false;
    atomic_fetch_add(&fail_hits, 1);
    return true;
}

static bool may_allocate(size_t size)
{
    return size <= MEM_BLOCK_BYTES_MAX && !is_due_to_fail();
}

/* ---- the heaps ---- */

enum {
    HEAPS_MAX = 2, /* a heap for the loop, and a heap that the pool's threads share */
    /* Free memory at a heap's end before it is returned to the system: more than a dashboard
     * page needs for a moment. Otherwise that memory would be mapped and cleared again each
     * time. */
    TRIM_BYTES = 2 * 1024 * 1024,
};

void mem_tune(void)
{
    /* A fixed threshold also stops glibc from raising it after each large free, which would
     * leave large blocks on the heap. */
    (void)mallopt(M_MMAP_THRESHOLD, (int)MEM_MAPPED_BYTES_MIN);
    (void)mallopt(M_ARENA_MAX, HEAPS_MAX);
    (void)mallopt(M_TRIM_THRESHOLD, TRIM_BYTES);
}

/* ---- free lists ---- */

enum {
    CLASS_OCTAVE_MIN = 9, /* from 2^9, exclusive ... */
    CLASS_OCTAVES = 5,    /* ... to 2^14, inclusive */
    CLASS_BYTES_MAX = 1 << (CLASS_OCTAVE_MIN + CLASS_OCTAVES),
    STEPS_LOG2 = 3,
    SIZE_CLASSES = CLASS_OCTAVES << STEPS_LOG2,
};

struct free_block {
    struct free_block *next;
};

static _Thread_local struct {
    size_t bytes, bytes_max;
    ptrdiff_t live; /* not yet added to live_blocks */
    struct free_block *blocks[SIZE_CLASSES];
} reuse;

/* Returns the largest size class that a block of that many bytes can serve. A result that is
 * negative, or SIZE_CLASSES or more, means none. */
static int size_class_of(size_t bytes)
{
    /* At or below 2^9 the formula would give negative sizes in octaves that do not exist here. */
    if (bytes <= (size_t)1 << CLASS_OCTAVE_MIN)
        return -1;
    int octave = 63 - __builtin_clzll(bytes);
    size_t steps = (bytes - ((size_t)1 << octave)) >> (octave - STEPS_LOG2);
    return ((octave - CLASS_OCTAVE_MIN) << STEPS_LOG2) + (int)steps - 1;
}

static size_t size_class_bytes(int which)
{
    size_t octave = (size_t)1 << (CLASS_OCTAVE_MIN + (which >> STEPS_LOG2));
    return octave + (octave >> STEPS_LOG2) * (size_t)(which % (1 << STEPS_LOG2) + 1);
}

static void *block_new(size_t size)
{
    if (reuse.bytes_max == 0 || size <= (size_t)1 << CLASS_OCTAVE_MIN || size > CLASS_BYTES_MAX)
        return malloc(size ? size : 1);
    /* The requested size is rounded up and the usable size of a freed block is rounded down, so
     * a block from a list is always at least as large as the list's size. */
    int which = size_class_of(size - 1) + 1; /* the smallest class that holds it */
    struct free_block *block = reuse.blocks[which];
    if (!block)
        return malloc(size_class_bytes(which));
    reuse.blocks[which] = block->next;
    reuse.bytes -= size_class_bytes(which);
    return block;
}

static void block_free(void *ptr)
{
    /* glibc reports the usable size, so nothing is stored before the block. It may be larger
     * than the allocated size, never smaller. */
    int which = reuse.bytes_max ? size_class_of(malloc_usable_size(ptr)) : -1;
    size_t bytes = which >= 0 && which < SIZE_CLASSES ? size_class_bytes(which) : 0;
    /* A block that exceeds the limit or has no size class is freed to the heap. The subtraction
     * cannot wrap, since reuse.bytes never exceeds bytes_max. */
    if (bytes == 0 || bytes > reuse.bytes_max - reuse.bytes) {
        free(ptr);
        return;
    }
    struct free_block *block = ptr;
    block->next = reuse.blocks[which];
    reuse.blocks[which] = block;
    reuse.bytes += bytes;
}

void mem_reuse(size_t bytes_max)
{
    for (int which = 0; which < SIZE_CLASSES; which++) {
        struct free_block *next;
        for (struct free_block *block = reuse.blocks[which]; block; block = next) {
            next = block->next;
            free(block);
        }
        reuse.blocks[which] = NULL;
    }
    reuse.bytes = 0;
    reuse.bytes_max = bytes_max;
    /* Otherwise the total would stay wrong by this thread's count once it has ended. */
    atomic_fetch_add(&live_blocks, reuse.live);
    reuse.live = 0;
}

/* ---- counting ---- */

static void count_blocks(ptrdiff_t change)
{
    if (reuse.bytes_max)
        reuse.live += change;
    else
        atomic_fetch_add_explicit(&live_blocks, change, memory_order_relaxed);
}

/* ---- allocating ---- */

enum { PAGE_BYTES = 4096 };

/* Maps the pages of a large block, from byte `from` on, in one call. Otherwise the first write to
 * each page is a fault, which takes longer than clearing the page does, and twenty times as long on
 * a host that emulates page tables. This is a hint: systems before Linux 5.14 do not know it. */
static void populate(char *ptr, size_t from, size_t size)
{
    uintptr_t begin = ((uintptr_t)ptr + from) & ~(uintptr_t)(PAGE_BYTES - 1);
    uintptr_t end = ((uintptr_t)ptr + size) & ~(uintptr_t)(PAGE_BYTES - 1);
    if (size >= MEM_MAPPED_BYTES_MIN && begin < end)
        (void)madvise((void *)begin, end - begin, MADV_POPULATE_WRITE);
}

static void *counted(void *ptr)
{
    if (ptr)
        count_blocks(1);
    return ptr;
}

void *mem_alloc(size_t size)
{
    void *ptr = may_allocate(size) ? counted(block_new(size)) : NULL;
    if (ptr)
        populate(ptr, 0, size);
    return ptr;
}

void *mem_zalloc(size_t size)
{
    if (size > CLASS_BYTES_MAX) /* fresh pages from the system are zeroed */
        return may_allocate(size) ? counted(calloc(1, size)) : NULL;
    void *ptr = mem_alloc(size);
    return ptr ? memset(ptr, 0, size) : NULL;
}

void *mem_calloc(size_t count, size_t size)
{
    size_t total;
    if (__builtin_mul_overflow(count, size, &total))
        return NULL;
    return mem_zalloc(total);
}

void *mem_realloc(void *ptr, size_t size)
{
    if (!ptr)
        return mem_alloc(size);
    /* The count does not change: there is one block before and one after. A failed realloc leaves
     * the old block valid. */
    size_t before = malloc_usable_size(ptr);
    char *resized = may_allocate(size) ? realloc(ptr, size ? size : 1) : NULL;
    if (resized)
        populate(resized, before, size);
    return resized;
}

char *mem_strdup(const char *text)
{
    return mem_strndup(text, strlen(text));
}

char *mem_strndup(const char *text, size_t len)
{
    ASSERT(text || len == 0);
    char *copy = len < MEM_BLOCK_BYTES_MAX ? mem_alloc(len + 1) : NULL;
    if (!copy)
        return NULL;
    if (len)
        memcpy(copy, text, len);
    copy[len] = '\0';
    return copy;
}

void mem_free(void *ptr)
{
    if (!ptr)
        return;
    mem_block_end();
    block_free(ptr);
}

void mem_wipe(void *ptr, size_t size)
{
    if (size == 0)
        return;
    ASSERT(ptr);
    explicit_bzero(ptr, size);
}

size_t mem_live_blocks(void)
{
    ptrdiff_t live = atomic_load(&live_blocks) + reuse.live;
    ASSERT(live >= 0);
    return (size_t)live;
}

void mem_fail_at(uint64_t n, uint64_t count)
{
    /* Fault injection is turned off first and on last: a thread that allocates during the change
     * never sees a mixture of old and new numbers. */
    atomic_store(&fail_from, 0);
    atomic_store(&fail_tried, 0);
    atomic_store(&fail_hits, 0);
    atomic_store(&fail_to, n > UINT64_MAX - count ? UINT64_MAX : n + count);
    atomic_store(&fail_from, n);
}

uint64_t mem_fail_hits(void)
{
    return atomic_load(&fail_hits);
}

bool mem_block_begin(void)
{
    if (!may_allocate(0))
        return false;
    count_blocks(1);
    return true;
}

void mem_block_end(void)
{
    count_blocks(-1);
}
