/*
 * A table and statements for the tests of pg: every marker and every way of matching in pg/pg.h.
 */
#ifndef SUPPORT_PG_ITEMS_H
#define SUPPORT_PG_ITEMS_H

#include "pg/pg.h"
#include "pg/sync.h"

#define ITEMS_SCHEMA                                                                        \
    "create schema t;"                                                                      \
    "create table t.item (account_id uuid not null, id bigint not null, n bigint not null " \
    "check (n >= 0), name text, body json, at timestamptz, flag boolean, raw bytea, "       \
    "primary key (account_id, id)) with (fillfactor = 50)"

/* parameters of put: account_id, id, n, name, body, at, flag, raw */
extern const struct pg_stmt item_put;   /* insert, on conflict do nothing; no rows */
extern const struct pg_stmt item_take;  /* insert that returns account_id, id, n; matched by key */
extern const struct pg_stmt item_add;   /* n += :by, returns n; not replayable */
extern const struct pg_stmt item_set;   /* n = :by, returns n; replayable */
extern const struct pg_stmt item_try;   /* n = :by, but n = 1000 + :by when sent again */
extern const struct pg_stmt item_get;   /* all columns by key */
extern const struct pg_stmt item_list;  /* id, n of an account, in order of id */
extern const struct pg_stmt item_drop;  /* delete, returns only the match */
extern const struct pg_stmt item_count; /* no parameters */

void items_fill_put(struct pg_query *query, struct uuid account, int64_t id, int64_t n);
void items_fill_key(struct pg_query *query, struct uuid account, int64_t id);
void items_fill_by(struct pg_query *query, struct uuid account, int64_t id, int64_t by);
/* An account that tests share. number selects one of several. */
struct uuid items_account(uint8_t number);
/* The first cell of a query's result as a number, over a separate connection. An error ends the
 * program. */
int64_t items_ask(const char *conninfo, const char *sql);
void items_tell(const char *conninfo, const char *sql);
/* As items_tell, with the text made as by printf, of at most 2,000 bytes. */
void items_tellf(const char *conninfo, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* A connection whose plans are pinned like those of a server. An error ends the program. */
struct pg_sync *items_open_pinned(const char *conninfo);

#endif
