/*
 * A secret is a type that no formatter prints: its bytes are reachable only through
 * secret_reveal, which is easy to grep for. Wiped when freed. Kept out of core files
 * (madvise DONTDUMP on its own pages).
 */
#ifndef BASE_SECRET_H
#define BASE_SECRET_H

#include "base/slice.h"

struct secret;

/* Copies. NULL when out of memory. */
struct secret *secret_new(slice bytes) MUST_CHECK;
struct secret *secret_ref(struct secret *secret);
/* NULL is fine. The last reference wipes. */
void secret_unref(struct secret *secret);
/* Borrowed: as long as a reference is held. NULL secret gives SLICE_NONE. */
slice secret_reveal(const struct secret *secret);

#endif
