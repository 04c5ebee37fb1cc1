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

/* Copies, and puts a NUL behind that the length does not count. NULL when out of memory or over
 * SECRET_BYTES_MAX. Any thread. */
struct secret *secret_new(slice bytes) MUST_CHECK;
/* The same, of `len` zero bytes which the caller fills through *room before it hands the secret on:
 * for what is decrypted, so that no copy is left elsewhere. */
struct secret *secret_new_room(size_t len, char **room) MUST_CHECK;
struct secret *secret_ref(struct secret *secret);
/* NULL is fine. The last reference wipes. */
void secret_unref(struct secret *secret);
/* Borrowed: as long as a reference is held. NULL secret gives SLICE_NONE. */
slice secret_reveal(const struct secret *secret);

#endif
