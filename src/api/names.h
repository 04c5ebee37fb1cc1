/*
 * The names of a request's query parameters or of its body's members, to find misspelt ones. A name
 * is misspelt where it differs from one of ours only in case, hyphens and underscores, or where
 * another endpoint uses it for the same thing. It is refused with the right name, because ignoring
 * it would change what the request does; any other unknown name is ignored. Private to the api
 * room.
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
    /* The member that holds the arguments. A body without it is itself the arguments, so that any
     * name may be meant and none is refused. NULL: the names are always checked. */
    const char *wrapper;
};

bool api_names_has(const struct api_names *names, slice name);
/* What to use instead of this name; NULL where it is one of ours, or none that we know. */
const char *api_names_right(const struct api_names *names, slice name);

#endif
