/*
 * gzip: compression of pages. The state of a compression is created once and used for one page
 * after another.
 *
 * The length of a compressed page depends on repetitions in it, so a page with a secret and with
 * text that another site chooses would reveal the secret, letter by letter (BREACH); every page
 * contains the token of its forms. Therefore a page is sent uncompressed (page.c) if another site
 * has requested it, or may have: browsers report that (Sec-Fetch-Site), but old ones do not. Pages
 * that display a new key or belong to a connect link are never compressed.
 */
#ifndef WEB_GZIP_H
#define WEB_GZIP_H

#include "base/arena.h"

struct gzip;

/* Returns NULL if out of memory. */
struct gzip *gzip_new(void) MUST_CHECK;
/* Accepts NULL. */
void gzip_free(struct gzip *gzip);
/* Returns the compressed text, in the arena. Returns SLICE_NONE if out of memory; the text can then
 * be sent uncompressed. */
slice gzip_compress(struct gzip *gzip, slice text, struct arena *arena);
/* Returns whether a client that sends this Accept-Encoding accepts gzip (RFC 9110 12.5.3): by its
 * name or else as "*", with a weight that is not zero. Without the header it gets uncompressed
 * bytes. */
bool gzip_is_taken(slice accept_encoding);

#endif
