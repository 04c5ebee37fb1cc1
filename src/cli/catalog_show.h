/*
 * Prints integrations and actions as text for a person, or as JSON for a script.
 */
#ifndef CLI_CATALOG_SHOW_H
#define CLI_CATALOG_SHOW_H

#include "cli/session.h"

/* Prints all integrations. session->catalog must be open. */
int catalog_show_all(struct session *session, bool as_json) MUST_CHECK;
/* Prints an action, or the integration itself if action is SLICE_NONE. Returns ERR_NOTFOUND, with
 * the nearest name in the message, if there is no such integration or action. */
int catalog_show_one(struct session *session, slice integration, slice action,
                     bool as_json) MUST_CHECK;
/* Prints the integrations and actions that match the query (catalog/search.h), best first. It is
 * not an error if there are none. */
int catalog_show_found(struct session *session, slice query, bool as_json) MUST_CHECK;
/* Loads the files that a command's arguments name, and the *.json of named folders, into the
 * session's arena. Files that cannot be read are in the report. Returns ERR_NOTFOUND if there is
 * nothing to read. */
int catalog_read_paths(struct session *session, const struct command_call *call, size_t bytes_max,
                       struct catalog_source **sources, size_t *count,
                       struct catalog_report *report) MUST_CHECK;
/* Prints the problems of a load, one per line. */
void catalog_show_problems(const struct catalog_report *report);
/* Prints a text with any content, wrapped. */
void catalog_show_text(struct session *session, int indent, slice text);
/* Prints the properties of an input schema. */
void catalog_show_input(struct session *session, const struct json *schema);
/* Returns ERR_NOTFOUND if there is no integration with that id; the message then names the nearest
 * id. */
int catalog_find_or_suggest(struct session *session, slice id,
                            const struct catalog_integration **found) MUST_CHECK;

#endif
