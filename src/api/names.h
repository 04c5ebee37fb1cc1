/*
 * The names of a request's query parameters or of its body's members, to find misspelt ones. A name
 * is misspelt if it differs from a known one only in case, hyphens and underscores, or if another
 * endpoint uses it for the same thing. It is refused with the right name, because ignoring it would
 * change what the request does. So is a name by which clients of other services name their end user
 * (api_names_is_user), unless the endpoint has it: the request would act for the account. Any other
 * unknown name is ignored. Private to the api room.
 */
#ifndef API_NAMES_H
#define API_NAMES_H

#include <stdbool.h>

#include "base/slice.h"

enum { API_NAMES_MAX = 12, API_NAMES_OTHER_MAX = 8 };

/* One table for each endpoint, the same as in openapi.json (tests/unit/api/test_openapi.c). */
struct api_names {
    const char *own[API_NAMES_MAX]; /* the names, up to the first NULL */
    struct {
        const char *name, *use; /* "confirmed", "confirm" */
    } other[API_NAMES_OTHER_MAX];
    /* The member that contains the arguments. A body without it is itself the arguments, so
     * every name may be valid and none is refused. NULL: the names are always checked. */
    const char *wrapper;
};

bool api_names_has(const struct api_names *names, slice name);
/* Returns the correct name to use instead of `name`; NULL if `name` is correct, or if no correction
 * is known. */
const char *api_names_right(const struct api_names *names, slice name);

/* Whether the name would name an end user. A request names its user by the header Sluice-User. */
bool api_names_is_user(slice name);

#endif
