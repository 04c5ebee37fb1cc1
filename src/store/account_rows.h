/*
 * account_rows: exports and erases every row of an account and of its users, in any table. Tables
 * are found in the schema's catalog by their column account_id, so a table that a later migration
 * adds is covered without a change here. Calls block; they are for operator commands, and servers
 * may run at the same time.
 */
#ifndef STORE_ACCOUNT_ROWS_H
#define STORE_ACCOUNT_ROWS_H

#include "store/store.h"

enum {
    ACCOUNT_ROWS_EXPORT_BATCH = 20, /* rows in memory at a time */
};

struct account_export {
    /* Receives one row as a line of JSON without its newline: {"table": name, "row": {...}}.
     * Columns of bytes (sealed credentials, hashes) are left out; `<name>_bytes` gives their
     * length. A result other than OK ends the export with that status. */
    int (*on_line)(void *owner, slice line, struct err *err);
    void *owner;
    uint64_t rows; /* out */
};
/* Exports all rows as they are at one moment: the account's own row first, then its other rows,
 * then those of each user. */
int store_account_export_sync(struct pg_sync *sync, struct uuid account_id,
                              struct account_export *export, struct err *err) MUST_CHECK;

/* Deletes the rows of the account's users, then its own in all tables but `account` and
 * `account_user`, a hundred users at a time, each bite in a separate transaction. *rows: the number
 * of deleted rows. Rows that servers write during the call are left for the next call. ERR_INVALID
 * if rows of another account refer to rows of this one. */
int store_account_erase_rows_sync(struct pg_sync *sync, struct uuid account_id, uint64_t *rows,
                                  struct err *err) MUST_CHECK;
/* Counts the unfinished runs of the account and its users that servers have claimed, that is,
 * writes under way. */
int store_account_claims_sync(struct pg_sync *sync, struct uuid account_id, uint64_t *count,
                              struct err *err) MUST_CHECK;
/* Deletes the account itself and the list of its users, after all their rows, as
 * store_account_remove does. Calls under way end before `settle` does. ERR_INVALID while a row
 * refers to the account. */
int store_account_delete_sync(struct pg_sync *sync, struct uuid account_id,
                              struct err *err) MUST_CHECK;

#endif
