/*
 * page: the frame of every page, the cookie, and the security headers.
 */
#ifndef WEB_PAGE_H
#define WEB_PAGE_H

#include "web/request.h"

web_step web_asset;

/* "__Host-sluice" behind https, "sluice" where the dashboard is reached by plain http; for a
 * connect link followed by "-link-" and its mark. mark SLICE_NONE: the dashboard's. In the op's
 * arena. */
slice web_cookie_name_of(struct web_request *request, slice mark);
/* Whether the reply may be compressed; adds the header that tells caches that it depends on that.
 */
bool web_takes_gzip(struct web_request *request);
/* Puts the session's cookie, or that of its link, into the reply to come. false: out of memory. */
bool web_set_cookie(struct web_request *request) MUST_CHECK;
void web_clear_cookie(struct web_request *request);
/* The sign-in form, which continues at next, a path of this site; problem: a sentence, or "". */
enum op_result web_sign_in_reply(struct web_request *request, unsigned status, slice next,
                                 const char *problem);
/* Writes the member "kept" of the sign-in page's data: what again.c keeps of a form. */
void web_again_view_fields(struct web_request *request, struct json_writer *w);
/* The path of an asset with the hash of its bytes in it, so that it may be cached for good. */
const char *web_asset_path(const char *name);

#endif
