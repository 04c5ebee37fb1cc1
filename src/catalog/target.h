/*
 * target: where a call writes (`target` of its action's manifest): the object that it changes, or
 * the page, folder, channel, repository or calendar, for the person who decides about it; and which
 * conditions of the manifest its input meets.
 */
#ifndef CATALOG_TARGET_H
#define CATALOG_TARGET_H

#include "catalog/catalog.h"

/* Returns the value at a path of names with dots between them; NULL if it is absent or null. */
const struct json *target_input_at(const struct json *input, slice path);

/* Whether the condition of a manifest (`when`, over the input; NULL: always) holds. One that cannot
 * be evaluated does not. */
bool target_input_is(const struct expr *when, const struct json *input, struct arena *arena);
/* Whether the input has what the text is about. */
bool target_has_show(const struct catalog_show *show, const struct json *input,
                     struct arena *arena);

/* Returns a list of {label, id, name?, unread?}, in the manifest's order; empty only if the action
 * has no `target`. shows is what members of the input mean ({path: text}, from the app; NULL if
 * unknown), and gives the name of an id. unread is true if the app has a name that was not read.
 * The list lives as long as the arguments and the arena. */
struct json target_of(const struct catalog_action *action, const struct json *input,
                      const struct json *shows, struct arena *arena);

/* Returns a list of the members of the input whose meaning the app has (`shows`, by a read) and
 * shows does not have: they were not read. It lives as long as the action and the arena. */
struct json target_unread(const struct catalog_action *action, const struct json *input,
                          const struct json *shows, struct arena *arena);

#endif
