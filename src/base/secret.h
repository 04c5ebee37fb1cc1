/*
 * A secret is a type that no formatter prints: its bytes are reachable only through
 * secret_reveal, which is easy to grep for. Wiped when freed. Kept out of core files
 * (madvise DONTDUMP on its own pages).
 */
#ifndef BASE_SECRET_H
#define BASE_SECRET_H

#include "base/slice.h"

struct secret;

enum { SECRET_BYTES_MAX = 256 * 1024 };

/* Copies the bytes and appends a NUL that the length does not count. Returns NULL if out of memory,
 * or if there are more than SECRET_BYTES_MAX. May be called on any thread. */
struct secret *secret_new(slice bytes) MUST_CHECK;
/* Like secret_new, with `len` zero bytes that the caller fills through *room before it passes
 * the secret on: for decrypted data, so that no copy is left elsewhere. */
struct secret *secret_new_room(size_t len, char **room) MUST_CHECK;
struct secret *secret_ref(struct secret *secret);
/* Releases a reference; accepts NULL. The release of the last reference wipes the secret. */
void secret_unref(struct secret *secret);
/* Returns the bytes, borrowed while a reference is held, or SLICE_NONE for a NULL secret. */
slice secret_reveal(const struct secret *secret);

#endif
