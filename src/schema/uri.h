/*
 * URI references as $id and $ref hold them: resolution (RFC 3986 5.2) and fragments.
 */
#ifndef SCHEMA_URI_H
#define SCHEMA_URI_H

#include "base/arena.h"

enum { SCHEMA_URI_BYTES_MAX = 4096 };

/* The part before '#'; *fragment (may be NULL) gets the part behind it, SLICE_NONE without '#'. */
slice schema_uri_split(slice uri, slice *fragment);
/* reference in the light of base, without fragment. In the arena, or part of the arguments.
 * SLICE_NONE past a limit. An empty or relative base is taken as it is. */
slice schema_uri_resolve(struct arena *arena, slice base, slice reference);
/* The length of a scheme with its ':' (RFC 3986 3.1: a letter, then letters, digits, "+", "-" and
 * "."); 0 when there is none. */
size_t schema_uri_scheme_len(slice text);

#endif
