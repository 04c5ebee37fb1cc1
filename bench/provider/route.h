/*
 * Routes of the emulated apps: a pattern of segments, "*" for a parameter, matched one by one.
 */
#ifndef PROVIDER_ROUTE_H
#define PROVIDER_ROUTE_H

#include <stdbool.h>

#include "base/slice.h"

enum { ROUTE_PARAMS_MAX = 4 };

/* Whether segments match a pattern such as messages, star, modify with a slash between; params gets
 * what the stars stand for. A parameter is never empty. */
bool route_match(const char *pattern, const slice *segments, size_t count,
                 slice params[ROUTE_PARAMS_MAX]);

#endif
