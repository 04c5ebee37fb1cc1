/*
 * delivery_list: what an endpoint was sent, and is to be sent (store/delivery.h), for lists.
 */
#ifndef STORE_DELIVERY_LIST_H
#define STORE_DELIVERY_LIST_H

#include "store/store.h"

struct delivery_item {
    struct uuid id;         /* of the event */
    struct uuid account_id; /* of the changed row: the account's, or a user's */
    slice kind;
    struct uuid object; /* the changed row */
    int64_t rev;        /* its revision */
    int64_t at;
    slice status; /* "pending", "delivered" or "failed" */
    int64_t attempts;
    int64_t due_at; /* the next attempt; 0: it has ended */
    int64_t code;   /* the last reply's status; 0: none came */
    slice problem;  /* why the last attempt failed; SLICE_NONE: it did not */
    slice data;     /* JSON */
};

/* Lists an endpoint's deliveries, newest first, of the account and of all its users. status:
 * SLICE_NONE for all. The caller has found the endpoint in its account. In a sharded database
 * pg_query.is_partial shows that a shard did not answer. next: as in store_execution_list_result.
 */
void store_delivery_list(STORE_ARGS, struct uuid webhook_id, const struct store_page *page,
                         slice status);
int store_delivery_list_result(const struct pg_query *query, struct delivery_item **list,
                               size_t *count, struct uuid *next) MUST_CHECK;

#endif
