/*
 * Working memory of a thread that only some threads ever need. A thread-local array would be
 * cleared, and so be resident, in every thread that is made: a quarter of a megabyte for each
 * thread of the pool, which was most of what they cost.
 */
#ifndef BASE_THREAD_BLOCK_H
#define BASE_THREAD_BLOCK_H

#include <stddef.h>

#include "base/err.h"

/* A zeroed block of this thread, which is given back when the thread ends; keep the pointer in a
 * thread-local variable. Not counted as heap. NULL: no memory; nothing has changed then. */
void *thread_block_new(size_t size) MUST_CHECK;

#endif
