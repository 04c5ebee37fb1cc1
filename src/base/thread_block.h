/*
 * Working memory that only some threads need. A thread-local array would be cleared, and so be
 * resident, in every thread: a quarter of a megabyte for each pool thread, most of a thread's cost.
 */
#ifndef BASE_THREAD_BLOCK_H
#define BASE_THREAD_BLOCK_H

#include <stddef.h>

#include "base/err.h"

/* Makes a zeroed block of this thread, which is freed when the thread ends; keep the pointer in a
 * thread-local variable. It does not count as heap. Returns NULL if out of memory. */
void *thread_block_new(size_t size) MUST_CHECK;

#endif
