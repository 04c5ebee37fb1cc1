/*
 * A time in UTC by a format, for format_time() and the Date of a mail.
 */
#ifndef EXPR_TIME_TEXT_H
#define EXPR_TIME_TEXT_H

#include "expr/run.h"

/* format as in expr/expr.h. wall_us in the years 0000 to 9999. ERR_INVALID: a conversion that does
 * not exist, whose letter is put into *bad (NUL at the end of the format). */
int expr_time_put(struct expr_text *text, int64_t wall_us, slice format, char *bad) MUST_CHECK;

#endif
