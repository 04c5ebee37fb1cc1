/*
 * view: the data of a page, written as the JSON that its file declares in <data>, and the reply
 * that renders them. The API's replies use the same writer, so pages and clients get objects in the
 * same form.
 */
#ifndef WEB_VIEW_H
#define WEB_VIEW_H

#include "base/id.h"
#include "web/page.h"

/* Opens the object, and discards one that was begun before; web_reply_view closes it. */
struct json_writer *view_begin(struct web_request *request);

/* Writes the members of an object, such as the reply of an endpoint, into the open one. */
void view_members(struct json_writer *w, const struct json *object);
/* Writes a member, like json_member_str; the nil id becomes null. */
void view_id(struct json_writer *w, const char *key, struct uuid id);
/* Returns the display name of a listed key: its name, else its first characters. Returns SLICE_NONE
 * if the key is not in the list. */
slice view_key_label(struct arena *arena, const struct api_key *keys, size_t count, struct uuid id);
/* Writes the key that made the request, as two members "key_id" and "key_name"; the nil id means
 * unknown. */
void view_key(struct json_writer *w, struct uuid id, slice name);
/* Returns a duration for people: "312 ms", "4.1 s", "5 min", "3 h", "12 days". view_took writes it
 * as a member. */
slice view_span(struct arena *arena, int64_t us);
void view_took(struct web_request *request, struct json_writer *w, const char *key, int64_t us);
void view_time(struct json_writer *w, const char *key, int64_t wall_us);

/* Writes a member "mark": the letters and the background of an app's tile. */
void view_app_mark(struct json_writer *w, slice id, slice name);
/* Writes the same member for an app by its id, which serves as the name if the catalog does not
 * have the app. */
void view_app_mark_of(struct web_request *request, struct json_writer *w, slice id);
/* Writes the same member with the app's own icon, as app_icon.html declares it. This is for pages
 * that show each app once, since the path is included. app is NULL if it is not in the catalog. */
struct catalog_integration;
void view_app_icon(struct json_writer *w, slice id, const struct catalog_integration *app);
/* Writes a member "account_mark", as account_mark.html declares it, from the mark and colour of
 * store/account.h; SLICE_NONE: derived from the name and the id. */
void view_account_mark(struct json_writer *w, struct uuid id, slice name, slice mark, slice colour);
/* Returns the colour of letters on a background "#rrggbb": "#fff" or "#000", with a contrast of at
 * least 4.5 to 1. */
slice view_ink_on(slice colour);

/* Returns the argument with which curl names the page's end user, in the op's arena: " -H
 * 'Sluice-User: ada'". SLICE_NONE: the page is the account's, or out of memory. */
slice view_user_curl(struct web_request *request);
/* Writes a call of POST /api/executions with curl, as a member; the key is in the shell's
 * $SLUICE_KEY. If body is NULL (out of memory), the member is null. */
void view_curl(struct web_request *request, struct json_writer *w, const char *key,
               const struct json *body);

/* Renders the page `file` of src/web/pages with these data, to which it adds the frame's. */
enum op_result web_reply_view(struct web_request *request, unsigned status, const char *file);

/* approvals.c: whether the policy of the session's key lets flows of this template be shown, as far
 * as its present version tells. The second function returns which flows that wait may be shown, as
 * store_flow_near wants them. */
bool web_gives_flow(struct web_request *request, slice template_key);
slice web_given_flows(const struct web_request *request);
/* flows.c: the number of flows in each state, of ended ones those of a day. With a policy only
 * flows that may be shown count. The first function starts the queries, which hold the request. */
struct flow_counted {
    struct pg_query query;
    struct flow_given *given; /* NULL without a policy, or if out of memory */
    struct flow_counts counts;
};
void flow_counts_begin(struct web_request *request, struct flow_counted *counted);
int flow_counts_result(const struct web_request *request, struct flow_counted *counted) MUST_CHECK;
/* Writes the number of flows in a state, which ends at FLOW_COUNT_MAX, as a member that
 * overview_count.html declares. */
void view_flow_count(struct json_writer *w, const char *key, int64_t count);

#endif
