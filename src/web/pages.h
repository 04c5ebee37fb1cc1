/*
 * The pages by file, for the route table, and what more than one of them needs.
 */
#ifndef WEB_PAGES_H
#define WEB_PAGES_H

#include "flow/load.h"
#include "web/value.h"
#include "web/view.h"

/* flows.c */
extern const struct web_page web_flows, web_flow_new, web_flow_start;
/* An object as flow_row.html declares it; so for the other ones below. */
void view_flow(struct json_writer *w, const struct flow_row *flow);
/* flow.c */
extern const struct web_page web_flow;
/* flow_do.c */
extern const struct web_page web_flow_approve, web_flow_reject, web_flow_resume, web_flow_cancel;
/* Starts a command on a flow; account, actor and request id are filled in here. */
enum op_result web_begin_command(struct web_request *request, const struct flow_request *in);
const struct flow_command *web_command_of(const struct web_request *request);
/* A page that says why it was not done. */
enum op_result web_refuse_command(struct web_request *request, const struct flow_command *command);
/* flow_events.c */
extern const struct web_page web_flow_events;
/* executions.c */
extern const struct web_page web_executions, web_execution;
void view_execution(struct web_request *request, struct json_writer *w,
                    const struct execution *execution);

/* apps.c */
extern const struct web_page web_apps;
/* app.c */
extern const struct web_page web_app;
/* app_connect.c */
extern const struct web_page web_app_connect, web_connect_link_go;
/* app_client.c */
extern const struct web_page web_app_client, web_app_client_delete;
/* app_oauth.c */
extern const struct web_page web_connect_callback;
/* connections.c */
extern const struct web_page web_connections;
struct connection;
void view_connection(struct web_request *request, struct json_writer *w,
                     const struct connection *row);
/* Its members alone. */
void view_connection_members(struct web_request *request, struct json_writer *w,
                             const struct connection *row);
/* connection.c */
extern const struct web_page web_connection;
/* connection_do.c */
extern const struct web_page web_connection_default, web_connection_label, web_connection_delete,
    web_connection_test;
/* connect_link.c */
extern const struct web_page web_connect_link, web_connect_link_take;
/* question.c */
extern const struct web_page web_key_revoke_ask, web_connection_delete_ask, web_flow_cancel_ask;
/* keys.c */
extern const struct web_page web_keys, web_key_create, web_key_revoke;

#endif
