/*
 * Converts a manifest's JSON to the structs of catalog.h. Private to the catalog room.
 */
#ifndef CATALOG_MANIFEST_H
#define CATALOG_MANIFEST_H

#include "catalog/reader.h"

/* Reads one parsed manifest into the arena. Faults are added to the report; returns NULL if the
 * struct could not be made. The actions are sorted. */
struct catalog_integration *manifest_read(struct arena *arena, slice source,
                                          const struct json *document,
                                          struct catalog_report *report);
/* Reads a manifest that was checked and packed, without its actions. Only a lack of memory is
 * reported. */
void manifest_reread(struct arena *arena, const struct json *document,
                     struct catalog_integration *integration, struct catalog_report *report);
void manifest_reread_action(struct arena *arena, const struct json *object,
                            struct catalog_action *action, struct catalog_report *report);
/* manifest_action.c: one item of `actions`. */
void manifest_read_action(struct reader *parent, struct reader_path *path,
                          const struct json *object, struct catalog_action *action);
/* manifest_reply.c: reads `response` of parent into reply, once the action's output_schema is
 * known. If is_last, output and pages are read from this reply. */
void manifest_read_response(struct reader *parent, struct catalog_action *action,
                            struct catalog_reply *reply, bool is_last);
/* manifest_page.c: reads `pagination` of the response in parent. */
void manifest_read_pages(struct reader *parent, struct catalog_action *action);
/* Reads the member `request` of an action or an identity. If is_later, the request may take its URL
 * from an earlier reply, and has no alternatives. */
void manifest_read_request(struct reader *parent, struct catalog_request *request, bool is_later);
/* manifest_then.c: reads the requests after the action's first. */
void manifest_read_then(struct reader *parent, struct catalog_action *action);
/* manifest_shows.c: reads `shows` of an action. */
void manifest_read_shows(struct reader *parent, struct catalog_action *action);
/* manifest_each.c: parses how a list's items are read. */
void manifest_read_each(struct reader *parent, struct catalog_action *action);
/* Reads `met` and `checked` of an action. */
void manifest_read_proof(struct reader *parent, struct catalog_action *action);
/* Reports faults in the `base_url` of an integration or a request. */
void manifest_check_base_url(const struct reader *r, slice text);
/* Whether the host of base is, or contains, a value of the connection. */
bool manifest_is_host_given(slice base);
/* Like manifest_check_base_url, for the member `name`, a URL that begins with its scheme. */
void manifest_check_address(const struct reader *r, const char *name, slice text);
/* Checks that no constant segment of a path, or of a URL's path, is "." or "..". */
void manifest_check_dots(const struct reader *r, const char *name, slice text);
/* manifest_errors.c: reads `errors` of an integration or an action, and `limits`. */
struct catalog_error_rules manifest_read_errors(struct reader *r, const char *name);
/* Reads `not_done_statuses` of an integration or action; NULL if absent or faulty. */
const struct json *manifest_read_not_done(struct reader *r);
void manifest_read_limits(struct reader *parent, struct catalog_limits *limits);

/* manifest_form.c: makes the fields of auth's type, with the texts of its member `form`. */
void manifest_read_form(struct reader *parent, struct catalog_auth *auth);
/* manifest_identity.c: reads `identity`, and `login_hint` of auth. */
void manifest_read_identity(struct reader *parent, const struct catalog_integration *integration,
                            struct catalog_identity *identity);
const struct json *manifest_read_login_hint(struct reader *r);

/* lint.c: checks requirements beyond the grammar: placeholders exist, examples validate, a GET
 * does not write. */
void manifest_lint(const struct catalog_integration *integration, slice source,
                   struct catalog_report *report);

/* lint_wire.c: whether text is a token (RFC 9110 5.6.2), as a header name must be. */
bool manifest_is_header_name(slice name);
/* Whether the HTTP client writes this header itself; it refuses a call that sets such a header. */
bool manifest_is_own_header(slice name);
void manifest_lint_header(const struct reader *r, const char *member, slice name);
/* Checks that `send` names members that a credential of its type has. member is the position of its
 * value. */
void manifest_lint_send(const struct reader *r, const char *member,
                        const struct catalog_auth *auth);

/* lint_order.c: warns about rules of `errors` that no reply can reach. */
void manifest_lint_order(const struct reader *parent, const struct catalog_error_rules *rules);

/* lint_schema.c: warns about keywords that JSON Schema does not define. name is the member with the
 * schema. */
void manifest_lint_schema(const struct reader *parent, const char *name, const struct json *schema);

/* render.c: fills item_json, detail_json and capabilities_json. */
int manifest_render(struct arena *arena, struct catalog_integration *integration) MUST_CHECK;

#endif
