/*
 * mem: malloc and friends, counted. One relaxed atomic add a block, nothing in front of it, so
 * that ASan sees every block at its real bounds. Fault injection costs one relaxed load when off.
 */
#include "base/mem.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

static atomic_size_t live_blocks;

/* Fault injection: 0 in fail_from means off. */
static _Atomic uint64_t fail_from, fail_to;
static _Atomic uint64_t fail_seen, fail_hits;

static bool is_told_to_fail(void)
{
    uint64_t from = atomic_load_explicit(&fail_from, memory_order_relaxed);
    if (__builtin_expect(from == 0, 1))
        return false;
    uint64_t nth = atomic_fetch_add(&fail_seen, 1) + 1;
    if (nth < from || nth >= atomic_load(&fail_to))
        return false;
    atomic_fetch_add(&fail_hits, 1);
    return true;
}

static bool may_allocate(size_t size)
{
    return size <= MEM_BLOCK_BYTES_MAX && !is_told_to_fail();
}

static void *counted(void *ptr)
{
    if (ptr)
        atomic_fetch_add_explicit(&live_blocks, 1, memory_order_relaxed);
    return ptr;
}

void *mem_alloc(size_t size)
{
    return may_allocate(size) ? counted(malloc(size ? size : 1)) : NULL;
}

void *mem_zalloc(size_t size)
{
    return may_allocate(size) ? counted(calloc(1, size ? size : 1)) : NULL;
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
    return may_allocate(size) ? realloc(ptr, size ? size : 1) : NULL;
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
    free(ptr);
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
    return atomic_load(&live_blocks);
}

void mem_fail_at(uint64_t n, uint64_t count)
{
    atomic_store(&fail_from, 0);
    atomic_store(&fail_seen, 0);
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
    atomic_fetch_add_explicit(&live_blocks, 1, memory_order_relaxed);
    return true;
}

void mem_block_end(void)
{
    size_t before = atomic_fetch_sub_explicit(&live_blocks, 1, memory_order_relaxed);
    ASSERT(before > 0);
}
