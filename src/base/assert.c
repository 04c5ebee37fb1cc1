/*
 * assert: ends the process when an invariant is broken. Uses only write(2), since the heap or stdio
 * may be corrupt.
 */
#include "base/assert.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/log.h"

_Noreturn void assert_fail(const char *expr, const char *file, int line, const char *func)
{
    char text[512];
    int len =
        snprintf(text, sizeof(text), "%s:%d: %s: ASSERT(%s) failed\n", file, line, func, expr);
    if (len >= (int)sizeof(text)) {
        len = (int)sizeof(text) - 1;
        text[len - 1] = '\n';
    }
    log_flush_crash(); /* the buffered log lines show what led here */
    /* Both branches abort: the result is tested only because libc marks write() as must-check. */
    if (len > 0 && write(STDERR_FILENO, text, (size_t)len) < 0)
        abort();
    abort();
}
