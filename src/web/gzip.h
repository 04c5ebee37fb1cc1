/*
 * gzip: pages as browsers take them. The state of a compression is made once and used for one page
 * after the other.
 *
 * The length of a compressed page says how much of it repeats, so that a page with a secret and
 * with text that another site chooses would give the secret up, letter by letter (BREACH); every
 * page has the token of its forms. Therefore a page is sent as it is (page.c) where another site
 * has asked for it, or may have: browsers say so (Sec-Fetch-Site), old ones not. Pages that display
 * a new key or belong to a connect link are never compressed.
 */
#ifndef WEB_GZIP_H
#define WEB_GZIP_H

#include "base/arena.h"

struct gzip;

/* NULL: out of memory. */
struct gzip *gzip_new(void) MUST_CHECK;
/* NULL is fine. */
void gzip_free(struct gzip *gzip);
/* In the arena; SLICE_NONE: out of memory, and the text can be sent as it is. */
slice gzip_compress(struct gzip *gzip, slice text, struct arena *arena);
/* Whether a client that sends this Accept-Encoding takes gzip (RFC 9110 12.5.3): by its name or
 * else as "*", with a weight that is not zero. Without the header it gets plain bytes. */
bool gzip_is_taken(slice accept_encoding);

#endif
