/*
 * Working memory of a thread that only some threads ever need. As a thread-local array it would be
 * cleared, and so be resident, in every thread that is made: a quarter of a megabyte for each of
 * the pool's, which was most of what they cost.
 */
#ifndef BASE_THREAD_BLOCK_H
#define BASE_THREAD_BLOCK_H

#include <stddef.h>

#include "base/err.h"

/* A zeroed block of this thread, which is given back when the thread ends; keep the pointer in a
 * thread-local variable. Not counted as heap. NULL: no memory; nothing has changed then. */
void *thread_block_new(size_t size) MUST_CHECK;

#endif
