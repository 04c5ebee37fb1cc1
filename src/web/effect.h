/*
 * effect: the effects of calls, in words for the person who decides: a verb, the recipients,
 * whether they are outside of one's own organisation (the setting home-domains), and whether it can
 * be reverted.
 */
#ifndef WEB_EFFECT_H
#define WEB_EFFECT_H

#include "catalog/recipient.h"
#include "web/pages.h"

/* Returns "create", "change", "delete", "send", "share" or "admin", else the level: "read" or
 * "write". Returns SLICE_NONE if action is NULL. */
slice effect_verb(const struct catalog_action *action);
/* Returns the icon of sprite.html for the action's effect. */
slice effect_icon(const struct catalog_action *action);
/* Returns whether the manifest says that the action cannot be reverted. */
bool effect_is_final(const struct catalog_action *action);
/* Returns the inputs that view_recipients shows under their own names, in lower case, separated by
 * spaces: "to cc bcc". */
slice effect_fields(const struct catalog_action *action, struct arena *arena);
/* Returns whether an address of that domain is outside; always false without home-domains. */
bool effect_leaves(const struct web *web, slice domain);
/* Returns whether any of an approval's stored domains is outside. domains is an array of texts, or
 * NULL if there are none. */
bool effect_any_leaves(const struct web_request *request, const struct json *domains);

/* The recipients of calls: each address once. */
struct reach {
    struct web_request *request;
    struct map addresses;
    size_t count, outside;
};
void reach_begin(struct reach *reach, struct web_request *request);
void reach_add(struct reach *reach, const struct catalog_action *action, const struct json *input);
/* Returns, for example, "to 3 addresses, 1 of them outside of example.com", or SLICE_NONE if no
 * address is known. Frees the reach. */
slice reach_end(struct reach *reach);

/* Writes members "recipients" and "leaves" of the open object, as flow_call.html declares them. */
void view_recipients(struct web_request *request, struct json_writer *w,
                     const struct catalog_action *action, const struct json *input);
/* The steps of a flow, and a title for each; NULL if it has no steps. */
struct titled_steps {
    const struct json *list;
    const slice *titles; /* SLICE_NONE: no title, so the step's key is used */
};
/* Writes a member "changes" of an approval's item; null if it has none. */
void view_changes(struct json_writer *w, const struct json *item, const struct titled_steps *steps);

/* Reads domains as operators write them into `out`, in the form of recipient_domain, with texts in
 * the arena. Returns ERR_INVALID if a domain is invalid; err names it. */
int effect_read_homes(const slice *domains, size_t count, slice *out, struct arena *arena,
                      struct err *err) MUST_CHECK;

#endif
