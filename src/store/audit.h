/*
 * audit: what happened to an account that is no execution: blocked runs with their reason,
 * connections made and lost, approvals, key changes. Insert-only, partitioned by day.
 */
#ifndef STORE_AUDIT_H
#define STORE_AUDIT_H

#include "store/store.h"

struct audit_event {
    struct uuid account_id;
    struct uuid id;   /* uuid_v7(): also its time */
    slice kind;       /* "execution.blocked", "connection.reauth_required", "key.created" ... */
    slice reason;     /* an error code or a word; SLICE_NONE for none */
    slice actor;      /* "key:<id>", "operator:<login>", "system" */
    slice request_id; /* SLICE_NONE for none */
    slice address; /* of the client, or "host:<name>"; at most 200 characters; may be SLICE_NONE */
    slice details; /* JSON object; SLICE_NONE for none; no secrets, no inputs */
};

/* Replayable. store_done_result. */
void store_audit_insert(struct pg_pool *pool, struct pg_query *query, struct op *op,
                        const struct audit_event *event);
int store_audit_insert_sync(struct pg_sync *sync, const struct audit_event *event,
                            struct err *err) MUST_CHECK;

/* The account's events, newest first. kind: "key.created", or "key" for all that begin so; actor:
 * "key:<id>", or "key" likewise; SLICE_NONE: all. next as in store_execution_list_result. */
void store_audit_list(struct pg_pool *pool, struct pg_query *query, struct op *op,
                      struct uuid account_id, const struct store_page *page, slice kind,
                      slice actor);
int store_audit_list_result(const struct pg_query *query, struct audit_event **list, size_t *count,
                            struct uuid *next) MUST_CHECK;

#endif
