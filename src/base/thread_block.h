/*
 * Working memory that only some threads need. A thread-local array would be cleared, and so be
 * resident, in every thread: a quarter of a megabyte for each pool thread, most of a thread's cost.
 */
#ifndef BASE_THREAD_BLOCK_H
#define BASE_THREAD_BLOCK_H

#include <stddef.h>

#include "base/err.h"

/* A zeroed block of this thread, freed when the thread ends; keep the pointer in a thread-local
 * variable. Not counted as heap. NULL: out of memory; nothing has changed. */
void *thread_block_new(size_t size) MUST_CHECK;

#endif
