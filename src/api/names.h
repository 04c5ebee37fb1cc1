/*
 * The names that a request may have, of query parameters or of members of its body, for one that is
 * nearly ours: one of them but for case, hyphens and underscores, or what another endpoint calls
 * the same thing. Such a one is refused and the right one named, since to drop it would change what
 * is done; any other name that is not ours is ignored. Private to the api room.
 */
#ifndef API_NAMES_H
#define API_NAMES_H

#include <stdbool.h>

#include "base/slice.h"

enum { API_NAMES_MAX = 12, API_NAMES_OTHER_MAX = 8 };

/* One table an endpoint, and the same in openapi.json (tests/unit/api/test_openapi.c). */
struct api_names {
    const char *own[API_NAMES_MAX]; /* up to the first NULL */
    struct {
        const char *name, *use; /* "confirmed", "confirm" */
    } other[API_NAMES_OTHER_MAX];
    /* Of a body all of whose members mean something unless it has this one; NULL: of any. */
    const char *beside;
};

bool api_names_has(const struct api_names *names, slice name);
/* What to use instead of this name; NULL where it is one of ours, or none that we know. */
const char *api_names_right(const struct api_names *names, slice name);

#endif
