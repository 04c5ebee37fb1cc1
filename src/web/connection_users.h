/*
 * connection_users: the users of a connection (flows with remaining steps that use it, templates
 * that call its app, and keys that have used it) and the app's calls of a day.
 */
#ifndef WEB_CONNECTION_USERS_H
#define WEB_CONNECTION_USERS_H

#include "store/app_use.h"
#include "web/pages.h"

struct connection_users {
    int64_t flows_max; /* maximum number of flows examined in each status */
    struct flow_need need;
    /* NULL if there was no memory when the query was started */
    struct flow_page *running, *waiting;
    struct pg_query keys, calls;
    struct tally_range range;
    struct app_key *key_list;
    struct tally_sum *sums;
    size_t key_count, sum_count;
};

/* Starts all queries, each with a hold on the op. catalog and row live as long as the page. */
void connection_users_begin(struct web_request *request, struct connection_users *use,
                            const struct catalog *catalog, const struct connection *row,
                            int64_t flows_max);
/* Call in the next step, before the other functions. Returns OK, ERR_NOMEM, or the query's
 * status. */
int connection_users_result(struct connection_users *use) MUST_CHECK;
/* Writes members "running" and "waiting" (flows), "count" of both, and "examined", which is 0 if
 * all were examined. */
void connection_users_flows(struct json_writer *w, const struct connection_users *use);
/* A member "keys". */
void connection_users_keys(struct json_writer *w, const struct connection_users *use);
/* Writes a member "use", as connection_use.html declares it. */
void connection_users_view(struct web_request *request, struct json_writer *w,
                           const struct connection_users *use);

#endif
