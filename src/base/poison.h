/*
 * poison: marks unused bytes for ASan in blocks that we divide up ourselves. Does nothing in other
 * builds. Used by arena.c and secret.c; loop.c uses only BASE_HAS_ASAN, to keep no blocks where
 * ASan should see them freed.
 */
#ifndef BASE_POISON_H
#define BASE_POISON_H

#if defined(__SANITIZE_ADDRESS__)
#define BASE_HAS_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define BASE_HAS_ASAN 1
#endif
#endif

#ifdef BASE_HAS_ASAN
#include <sanitizer/asan_interface.h>
#define POISON(ptr, size)   __asan_poison_memory_region((ptr), (size))
#define UNPOISON(ptr, size) __asan_unpoison_memory_region((ptr), (size))
#else
#define POISON(ptr, size)   ((void)(ptr), (void)(size))
#define UNPOISON(ptr, size) ((void)(ptr), (void)(size))
#endif

#endif
