/*
 * execution_input: the input of a run, sealed by the server (call/kept_input.h), and the words by
 * which the run is found, as keyed hashes (vault/words.h). A row is inserted
 * by the statement that inserts its execution, or the audit event of its blocked run, and has that
 * id. Rows are removed by age (store/retention.h), with their execution or event, and, for blocked
 * runs, beyond an account's limit (store/quota.h).
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

/* Reads the input of an execution, or of the audit event of a blocked run. The result is
 * ERR_NOTFOUND if none is stored, or if it has expired. */
void store_execution_input_get(struct pg_pool *pool, struct pg_query *query, struct op *op,
                               struct uuid account_id, struct uuid id);
STORE_ROW_RESULT(store_execution_input_get_result, execution_input)

#endif
