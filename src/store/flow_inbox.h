/*
 * flow_inbox: flows that wait for a person's decision, as a list shows them, and the number of
 * flows in each state.
 */
#ifndef STORE_FLOW_INBOX_H
#define STORE_FLOW_INBOX_H

#include "store/store.h"

enum { FLOW_INBOX_MAX = 100 };

struct flow_inbox_row {
    struct uuid id;
    slice template_key;
    int64_t updated_at; /* when it began to wait */
    int64_t wake_at;    /* when it expires; 0 if it does not expire */
    /* the actor that started the flow, and the name of its key; SLICE_NONE if it was not a key */
    slice actor, asker;
    /* the decision to make, as JSON; SLICE_NONE if it is large: the members below are then set
     * instead */
    slice document;
    slice title, summary;
    int64_t calls; /* number of calls to be confirmed */
    slice tools;   /* the tools of these calls, separated by spaces; each tool appears once */
    slice uses;    /* [{tool, connection, target}], the first of them, each once; as in items */
    slice domains; /* domains of the recipients, as a JSON array; SLICE_NONE if unknown */
};

/* Which flows to list, and which of them to return. */
struct flow_inbox_filter {
    slice template_key, actor; /* SLICE_NONE: any; borrowed until the query has ended */
    slice given;               /* as for store_flow_near, and borrowed like the others */
    struct uuid payer_id;      /* the account, also for a user's flows: its keys are named */
    int64_t skip, count_max;
};

/* Lists the newest FLOW_INBOX_MAX, soonest to expire first. The result is in op's arena. */
void store_flow_inbox(STORE_ARGS, struct uuid account_id, const struct flow_inbox_filter *filter);
STORE_LIST_RESULT(store_flow_inbox_result, flow_inbox_row)

/* The decisions next to one in that order, which goes on with the first after the last: the next
 * one, then the previous one if it is another. After a flow that does not wait the first is next.
 * given: the versions of templates whose flows count, with a blank before and after each;
 * SLICE_NONE: all. The result is empty if no other flow waits. It is in op's arena. */
struct flow_near {
    struct uuid id;
    slice template_key, title; /* title: SLICE_NONE: the decision has none */
    int64_t others;            /* how many flows wait besides this one, at most FLOW_INBOX_MAX */
};
void store_flow_near(STORE_ARGS, struct uuid account_id, struct uuid flow_id, slice given);
STORE_LIST_RESULT(store_flow_near_result, flow_near)

/* The versions of templates of the newest FLOW_INBOX_MAX, each once, with the number of flows. The
 * result is in op's arena. */
struct flow_version_count {
    struct uuid version;
    int64_t count;
    int64_t running, waiting, completed, failed; /* only of store_flow_counted_versions */
};
void store_flow_waiting_versions(STORE_ARGS, struct uuid account_id);
STORE_LIST_RESULT(store_flow_waiting_versions_result, flow_version_count)

/* A requester of waiting flows. The list has each actor among the newest FLOW_INBOX_MAX of a
 * template (SLICE_NONE: any) once, with the name of its key (SLICE_NONE if it is not a key of
 * payer_id). given: as for store_flow_near. It is in op's arena. */
struct flow_asker {
    slice actor, name;
};
void store_flow_askers(STORE_ARGS, struct uuid account_id, slice template_key, slice given,
                       struct uuid payer_id);
STORE_LIST_RESULT(store_flow_askers_result, flow_asker)

/* The number of an account's flows in each state; counts end at FLOW_COUNT_MAX. completed and
 * failed count flows that began at `since` or later. has_execution and has_keys are for the list
 * of first steps. */
enum { FLOW_COUNT_MAX = 1000 };
struct flow_counts {
    int64_t running, waiting, completed, failed;
    bool has_execution, has_keys; /* has_keys: more than one key is not revoked */
    /* [{id, url (its first 100 characters), reason (of going off; null), failures}]: endpoints that
     * need attention; SLICE_NONE: none does */
    slice failing_webhooks;
};
void store_flow_counts(STORE_ARGS, struct uuid account_id, struct uuid since);
STORE_ROW_RESULT(store_flow_counts_result, flow_counts)
/* The same counts of flows, by the versions of their templates, without `count`. Read the result
 * with store_flow_waiting_versions_result. */
void store_flow_counted_versions(STORE_ARGS, struct uuid account_id, struct uuid since);

#endif
