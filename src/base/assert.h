/*
 * ASSERT: a broken invariant is a bug; ASSERT prints the location and aborts, also in release
 * builds. It is never used for anything that input, a peer or the machine can cause: those are
 * errors.
 */
#ifndef BASE_ASSERT_H
#define BASE_ASSERT_H

_Noreturn void assert_fail(const char *expr, const char *file, int line, const char *func);

#define ASSERT(expr) \
    ((__builtin_expect(!(expr), 0)) ? assert_fail(#expr, __FILE__, __LINE__, __func__) : (void)0)

/* Marks a point that a correct program never reaches; the text says why. */
#define UNREACHABLE(why) assert_fail("unreachable: " why, __FILE__, __LINE__, __func__)

#define MUST_CHECK             __attribute__((warn_unused_result))
#define PRINTF_LIKE(fmt, args) __attribute__((format(printf, fmt, args)))
/* Replaces a setting of 0 by its default. */
#define DEFAULT_TO(setting, value)      ((setting) = (setting) ? (setting) : (value))
#define ARRAY_LEN(a)                    (sizeof(a) / sizeof((a)[0]))
#define CONTAINER_OF(ptr, type, member) ((type *)(void *)((char *)(ptr)-offsetof(type, member)))

#endif
