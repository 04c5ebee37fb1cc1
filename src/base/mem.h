/*
 * The only way to allocate from the heap. Counts live blocks so that tests can assert zero at the
 * end, and can be set to fail the n-th allocation (curl's torture test). Thread-safe (pool threads
 * allocate, too).
 */
#ifndef BASE_MEM_H
#define BASE_MEM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/assert.h"

/* Returns NULL if out of memory or set to fail; the caller reports it (HTTP: 503) and never
 * aborts. */
void *mem_alloc(size_t size) MUST_CHECK;
void *mem_zalloc(size_t size) MUST_CHECK;
/* Allocates count * size bytes with an overflow check, zeroed. */
void *mem_calloc(size_t count, size_t size) MUST_CHECK;
/* Returns NULL on failure, and the old block stays valid. */
void *mem_realloc(void *ptr, size_t size) MUST_CHECK;
char *mem_strdup(const char *text) MUST_CHECK;
char *mem_strndup(const char *text, size_t len) MUST_CHECK;
void mem_free(void *ptr);
/* Overwrites size bytes in a way that the compiler may not remove; for secrets. */
void mem_wipe(void *ptr, size_t size);

/* Call it at the start of a program, before any thread: blocks of MEM_MAPPED_BYTES_MIN and more
 * are mapped one by one, so that they are returned to the system when they are freed, and
 * smaller blocks come from few heaps. */
#define MEM_MAPPED_BYTES_MIN ((size_t)256 * 1024)
void mem_tune(void);

/* From now on the calling thread keeps up to this many bytes of the blocks of half a KiB to 16
 * KiB that it frees, for its next allocations. Blocks kept until now are freed, so that 0 leaves
 * none. */
void mem_reuse(size_t bytes_max);

/* A single block over this size is refused, as if memory had run out. */
#define MEM_BLOCK_BYTES_MAX ((size_t)1 << 32)

/* Returns the number of live blocks; it is exact if no other thread that keeps blocks is
 * running. */
size_t mem_live_blocks(void);
/* For tests: the n-th allocation from now on (1 = the next) and the `count - 1` allocations
 * after it fail; 0 turns it off. */
void mem_fail_at(uint64_t n, uint64_t count);
/* For tests: returns the number of failures injected since the last mem_fail_at. A torture loop
 * ends when this stays 0. */
uint64_t mem_fail_hits(void);

/* For memory that does not come from the heap but is counted and can fail like it (base/secret.c).
 * mem_block_begin returns whether the allocation may continue. */
bool mem_block_begin(void) MUST_CHECK;
void mem_block_end(void);

#endif
