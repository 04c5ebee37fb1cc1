/*
 * page: the frame of every page, the cookie, and the security headers.
 */
#ifndef WEB_PAGE_H
#define WEB_PAGE_H

#include "web/request.h"

web_step web_asset;

/* Returns the cookie's name, in the op's arena: "__Host-sluice" with https, "sluice" if the
 * dashboard is reached by plain http; for a connect link followed by "-link-" and the link's mark.
 * mark is SLICE_NONE for the dashboard's cookie. */
slice web_cookie_name_of(struct web_request *request, slice mark);
/* Returns whether the reply may be compressed, and adds the header that tells caches what this
 * depends on. */
bool web_takes_gzip(struct web_request *request);
/* Adds the cookie of the session, or of its link, to the later reply. Returns false if out of
 * memory. */
bool web_set_cookie(struct web_request *request) MUST_CHECK;
void web_clear_cookie(struct web_request *request);
/* Sends the sign-in form, which continues at next, a path of this site. problem is a sentence, or
 * "". */
enum op_result web_sign_in_reply(struct web_request *request, unsigned status, slice next,
                                 const char *problem);
/* Writes the member "kept" of the sign-in page's data: the form's fields that again.c keeps. */
void web_again_view_fields(struct web_request *request, struct json_writer *w);
/* Returns the path of an asset, with the hash of its bytes, so that it may be cached
 * permanently. */
const char *web_asset_path(const char *name);

#endif
