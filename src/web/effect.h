/*
 * effect: what calls do, in words for the person who decides about them: a verb, whom they reach,
 * whether that is outside of one's own organisation (the setting home-domains), and whether it can
 * be taken back.
 */
#ifndef WEB_EFFECT_H
#define WEB_EFFECT_H

#include "catalog/recipient.h"
#include "web/pages.h"

/* "create", "change", "delete", "send", "share", "admin"; else the level: "read", "write". action
 * NULL: SLICE_NONE. */
slice effect_verb(const struct catalog_action *action);
/* The icon of sprite.html that goes with it. */
slice effect_icon(const struct catalog_action *action);
/* Nothing takes it back, as the manifest says. */
bool effect_is_final(const struct catalog_action *action);
/* The inputs that view_recipients shows under their own names, in small letters with a space
 * between two: "to cc bcc". */
slice effect_fields(const struct catalog_action *action, struct arena *arena);
/* Whether an address of that domain is outside; never without home-domains. */
bool effect_leaves(const struct web *web, slice domain);
/* The same of the domains that an approval has kept, an array of texts; NULL: none. */
bool effect_any_leaves(const struct web_request *request, const struct json *domains);

/* Whom calls reach: each address once. */
struct reach {
    struct web_request *request;
    struct map addresses;
    size_t count, outside;
};
void reach_begin(struct reach *reach, struct web_request *request);
void reach_add(struct reach *reach, const struct catalog_action *action, const struct json *input);
/* "to 3 addresses, 1 of them outside of example.com"; SLICE_NONE: no address is known. Ends
 * it. */
slice reach_end(struct reach *reach);

/* Members "recipients" and "leaves" of the open object, as flow_call.html declares them. */
void view_recipients(struct web_request *request, struct json_writer *w,
                     const struct catalog_action *action, const struct json *input);
/* The steps of a flow, and as many titles; NULL: there are no steps. */
struct titled_steps {
    const struct json *list;
    const slice *titles; /* SLICE_NONE: it has none, its key names it */
};
/* A member "changes" of an item of an approval; null where it has none. */
void view_changes(struct json_writer *w, const struct json *item, const struct titled_steps *steps);

/* Domains as operators write them, in `out` in the form of recipient_domain, the texts in the
 * arena. ERR_INVALID names the one that is none. */
int effect_read_homes(const slice *domains, size_t count, slice *out, struct arena *arena,
                      struct err *err) MUST_CHECK;

#endif
