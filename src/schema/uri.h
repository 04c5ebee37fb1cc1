/*
 * URI references of $id and $ref: resolution (RFC 3986 5.2) and fragments.
 */
#ifndef SCHEMA_URI_H
#define SCHEMA_URI_H

#include "base/arena.h"

enum { SCHEMA_URI_BYTES_MAX = 4096 };

/* Returns the part before '#'; *fragment (may be NULL) gets the part after it, or SLICE_NONE
 * without '#'. */
slice schema_uri_split(slice uri, slice *fragment);
/* Returns the reference resolved against base, without fragment, in the arena or as part of the
 * arguments. Returns SLICE_NONE if a limit was exceeded. An empty or relative base is used as it
 * is. */
slice schema_uri_resolve(struct arena *arena, slice base, slice reference);
/* Returns the length of a scheme with its ':' (RFC 3986 3.1: a letter, then letters, digits, "+",
 * "-" and "."); 0 if there is none. */
size_t schema_uri_scheme_len(slice text);

#endif
