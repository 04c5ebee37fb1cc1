/*
 * execution_input: the input of a run, sealed by the server (call/kept_input.h), and the words by
 * which the run is found, as keyed hashes (vault/words.h). A row is inserted
 * by the statement that inserts its execution, or the audit event of its blocked run, and has that
 * id. Rows are removed by age (store/retention.h), with their execution or event, and, for blocked
 * runs, beyond an account's limit (store/quota.h).
 *
 * Words are found by an index of the column `words`. To add each word of each run to it would be a
 * third of the work of a confirmed write, so runs of an account that are sent in one set share one
 * entry, in the row of the newest of them, which is removed last. And the index does not have the
 * hashes, but keys of 12 of their bits and 20 bits of the account: new words seldom are new keys.
 * What the index finds is compared with all bits, in the columns
 *   own    the hashes of the row's run
 *   marks  if the row is that of several runs: their different hashes, then as many sets of bits,
 *          in which bit n is set if run n has the hash
 *   runs   their ids
 * The rows of the version before have hashes in `words`, and NULL in these columns.
 */
#ifndef STORE_EXECUTION_INPUT_H
#define STORE_EXECUTION_INPUT_H

#include "store/store.h"

/* Borrowed like the members of the row with which it is stored. */
struct execution_input {
    slice sealed; /* SLICE_NONE: no input is stored */
    slice key_id; /* the master key that sealed it */
    slice words;  /* by which its run is found (store_input_words); SLICE_NONE: none. Not read */
    int64_t expires_at;
};

/* Returns hashes of words in the form of the member above, in the arena. SLICE_NONE if there are
 * none, or if out of memory. */
slice store_input_words(const uint32_t *list, size_t count, struct arena *arena);

/* Returns the key of a hash in the index of an account's words. */
uint32_t store_input_key(struct uuid account_id, uint32_t word);
/* For statements that insert inputs (pg_stmt.gather): sets the columns above. */
bool store_inputs_gather(struct pg_query *const *queries, size_t count, struct arena *arena);

/* Reads the input of an execution, or of the audit event of a blocked run. The result is
 * ERR_NOTFOUND if none is stored, or if it has expired. */
void store_execution_input_get(STORE_ARGS, struct uuid account_id, struct uuid id);
STORE_ROW_RESULT(store_execution_input_get_result, execution_input)

#endif
