/*
 * account: a tenant. Everything else hangs below its id.
 */
#ifndef STORE_ACCOUNT_H
#define STORE_ACCOUNT_H

#include "store/store.h"

enum { ACCOUNT_NAME_MAX = 200 };

struct account {
    struct uuid account_id;
    slice name;
    slice mark;          /* one or two letters or digits; SLICE_NONE: the first two of the name */
    slice colour;        /* "#0b6478", in small letters; SLICE_NONE: one of the pages' own */
    int64_t created_at;  /* microseconds of the wall clock, as all times here */
    int64_t disabled_at; /* 0: live. Its keys are refused then */
};

/* account_id and name are in. */
int store_account_create_sync(struct pg_sync *sync, const struct account *account,
                              struct err *err) MUST_CHECK;
/* The oldest of this name, in the arena. ERR_NOTFOUND, without words. Within a transaction: until
 * its end no other process that asks so is answered, so that two cannot make one name at a time. */
int store_account_named_sync(struct pg_sync *sync, struct arena *arena, slice name,
                             struct account *account, struct err *err) MUST_CHECK;
/* All, oldest first, in the arena; at most 10,000. */
int store_account_list_sync(struct pg_sync *sync, struct arena *arena, struct account **accounts,
                            size_t *count, struct err *err) MUST_CHECK;
/* ERR_NOTFOUND with a sentence. */
int store_account_get_sync(struct pg_sync *sync, struct arena *arena, struct uuid account_id,
                           struct account *account, struct err *err) MUST_CHECK;
/* disabled: true refuses its keys from now on. ERR_NOTFOUND. */
int store_account_disable_sync(struct pg_sync *sync, struct uuid account_id, bool disabled,
                               struct err *err) MUST_CHECK;
/* How it looks to those who see its pages: mark and colour. ERR_NOTFOUND. */
int store_account_mark_sync(struct pg_sync *sync, const struct account *account,
                            struct err *err) MUST_CHECK;

/* What every page of the dashboard has around it. Counts end at ACCOUNT_BRIEF_MAX; of an account's
 * connections ACCOUNT_BRIEF_CONNECTIONS are read. ERR_NOTFOUND: the account is gone. */
enum { ACCOUNT_BRIEF_MAX = 100, ACCOUNT_BRIEF_CONNECTIONS = 1000 };
struct account_brief {
    slice name, mark, colour; /* as of the account */
    slice key_name;
    int64_t approvals; /* flows that wait for one */
    int64_t broken;    /* connections that have to be connected again */
};
void store_account_brief(struct pg_pool *pool, struct pg_query *query, struct op *op,
                         struct uuid account_id, struct uuid key_id);
STORE_ROW_RESULT(store_account_brief_result, account_brief)

#endif
