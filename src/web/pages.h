/*
 * The pages by file, for the route table, and functions that several of them share.
 */
#ifndef WEB_PAGES_H
#define WEB_PAGES_H

#include "flow/load.h"
#include "serve/list.h"
#include "web/value.h"
#include "web/view.h"

/* flows.c */
web_step web_flows;
/* Writes an object as flow_row.html declares it; the other view functions below do the same. */
void view_flow(struct json_writer *w, const struct flow_row *flow);
/* Returns the state of a flow, for people. */
slice view_flow_status(enum flow_status status, bool is_rejected);
/* flow_start.c */
web_step web_flow_new, web_flow_start;
/* approvals.c */
web_step web_approvals;
/* flow.c */
web_step web_flow;
/* flow_do.c */
web_step web_flow_approve, web_flow_reject, web_flow_resume, web_flow_cancel;
/* Starts a command on a flow, and waits for it; account, actor and request id are filled in here.
 */
enum op_result web_begin_command(struct web_request *request, const struct flow_request *in,
                                 web_step *then);
const struct flow_command *web_command_of(const struct web_request *request);
/* Sends a page with the reason why the command was not carried out. */
enum op_result web_refuse_command(struct web_request *request, const struct flow_command *command);
/* flow_again.c */
web_step web_flow_again_ask, web_flow_again;
/* flow_events.c */
web_step web_flow_events, web_account_events;
/* docs.c */
web_step web_docs, web_docs_operation;
/* execution.c */
web_step web_execution;
/* blocked.c: the page of a blocked run, whose address has the id of its audit event. */
web_step web_blocked;
/* Writes what the page of any run has about its input: "input" (its text; null: not kept), "tree",
 * "missing" (the reason, as the API has it) and "curl", the call with that input or with an
 * example's. */
struct kept_input;
void view_kept_input(struct web_request *request, struct json_writer *w, slice integration_id,
                     slice action_id, const struct kept_input *kept);
/* execution_again.c */
web_step web_execution_again_ask, web_execution_again;
/* action.c */
web_step web_action;
struct catalog_action;
/* Returns the input of the action's first example; NULL if it has none, or if action is NULL. */
const struct json *view_example(const struct catalog_action *action);
/* Writes a member "curl": the call that runs the action with that input; NULL: with {}. */
void view_action_curl(struct web_request *request, struct json_writer *w, slice integration_id,
                      slice action_id, const struct json *input);
/* executions.c */
web_step web_executions;
/* Writes members "app" and "action": their names. */
void view_names(struct web_request *request, struct json_writer *w, slice app_id, slice action_id);
/* Writes {id, name}: one of several values of a list's filter. */
void view_choice(struct json_writer *w, slice id, slice name);
/* For the argument `period`: its definition, a member "periods" with the choices, and the range of
 * the list within the period chosen by the argument `at`. */
#define VIEW_PERIOD                                                 \
    {                                                               \
        .name = "period", .words = "1h 24h 7d 30d today yesterday", \
    }
void view_periods(struct json_writer *w);
void view_period_narrow(struct serve_list *list, int at);
/* Reads the arguments of a list with `limit` rows per page. Returns false if a reply was sent. */
bool web_list_read(struct web_request *request, struct serve_list *list,
                   const struct serve_filter *filters, size_t limit) MUST_CHECK;
/* Writes members "newer" and "older" of a list by ids; next is the start of the next page, or nil
 * if there is none. */
void view_pager(struct web_request *request, struct json_writer *w, struct uuid next);
/* audit.c */
web_step web_audit_trail, web_audit_csv;

/* apps.c */
web_step web_apps;
/* app.c */
web_step web_app;
/* app_connect.c */
web_step web_app_connect, web_connect_link_go;
/* app_client.c */
web_step web_app_client, web_app_client_delete_ask, web_app_client_delete;
/* app_oauth.c */
web_step web_connect_callback;
/* connections.c */
extern const struct web_view web_connections;
struct connection;
/* Writes the members of an object as connection_row.html declares it. */
void view_connection_members(struct web_request *request, struct json_writer *w,
                             const struct connection *row);
/* connection.c */
web_step web_connection;
/* connection_do.c */
web_step web_connection_default, web_connection_label, web_connection_delete, web_connection_test;
/* connect_link.c */
web_step web_connect_link, web_connect_link_take;
/* question.c */
web_step web_key_revoke_ask, web_connection_delete_ask, web_flow_cancel_ask;
/* users.c */
extern const struct web_view web_users;
web_step web_user, web_user_erase_ask, web_user_erase;
/* webhooks.c */
extern const struct web_view web_webhooks;
web_step web_webhook, web_webhook_new, web_webhook_create, web_webhook_edit, web_webhook_change,
    web_webhook_switch, web_webhook_test, web_webhook_roll_ask, web_webhook_roll,
    web_webhook_delete_ask, web_webhook_delete, web_webhook_replay, web_webhook_replay_one;
/* keys.c. Keys are objects as the API has them. */
extern const struct web_view web_keys;
web_step web_key_form, web_key_create, web_key_revoke;
/* Returns "valid", "expired" or "revoked". */
slice view_key_state(const struct json *key);
/* Writes the members of key.html, except its runs. secret: the key's text, if it was created just
 * now; else SLICE_NONE. */
void view_key_page(struct web_request *request, struct json_writer *w, const struct json *key,
                   slice secret);
/* web_reply_refused, for an endpoint of one key. */
enum op_result web_key_refused(struct web_request *request, unsigned status,
                               const struct json *reply);
/* key_page.c */
web_step web_key, web_key_events;

#endif
