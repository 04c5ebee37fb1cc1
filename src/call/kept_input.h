/*
 * kept_input: the input of a run as it is kept for the setting input-days, sealed: of writes, and
 * of runs that failed or were blocked. What is kept is a JSON document of at most VAULT_PLAIN_MAX
 * bytes:
 *
 *   {"input": {...}, "connection_id": 7, "message": "...", "hint": "..."}
 *
 * It has the last three members only for a blocked run, which has no other record of them. If the
 * document would be longer, or the input has over 8,192 values, it has no `input`. The bytes of
 * files are not part of an input. Members that the action's input_schema marks `writeOnly` are
 * replaced before the document is sealed, so nothing that reads it can show them.
 */
#ifndef CALL_KEPT_INPUT_H
#define CALL_KEPT_INPUT_H

#include "catalog/catalog.h"
#include "json/json.h"
#include "store/execution_input.h"
#include "vault/seal.h"

struct kept_input {
    const struct json *input; /* NULL: it was too long */
    int64_t connection_id;    /* as requested; 0: the default */
    slice message, hint;
    slice missing; /* why `input` is NULL, as the API says it: "not_kept", "too_long" or
                    * "unreadable"; else SLICE_NONE */
};

/* Returns the schema for the functions below: NULL if the action's input_schema hides nothing, so
 * that they do not walk over it. */
static inline const struct json *kept_input_schema(const struct catalog_action *action)
{
    return action->may_hide_inputs ? action->input_schema : NULL;
}

/* The value of a member that is not kept. */
#define KEPT_INPUT_HIDDEN "(hidden)"

/* Makes the row's columns in the arena, except expires_at. schema: kept_input_schema; NULL: nothing
 * is hidden. Sets *is_whole to false if the row is without the input, which is too long.
 * Returns false, with `row` zeroed, if out of memory. */
bool kept_input_seal(const struct vault_ring *ring, struct uuid account_id, struct uuid id,
                     const struct kept_input *what, const struct json *schema, struct arena *arena,
                     struct execution_input *row, bool *is_whole);

/* Opens a row. `out` is in the arena. Returns ERR_NOTFOUND if the ring lacks the row's key, other
 * errors as vault_open; err has a sentence. */
int kept_input_open(const struct vault_ring *ring, struct uuid account_id, struct uuid id,
                    const struct execution_input *row, struct arena *arena, struct kept_input *out,
                    struct err *err) MUST_CHECK;
/* Reads the result of store_execution_input_get and opens the row. Returns OK if there is none,
 * too: out->missing says why. Otherwise returns the error of the query, or ERR_NOMEM. */
int kept_input_result(const struct pg_query *query, const struct vault_ring *ring,
                      struct uuid account_id, struct uuid id, struct arena *arena,
                      struct kept_input *out) MUST_CHECK;
/* Whether the value at that JSON Pointer of the input is not kept, or is part of such a value; then
 * no message may quote it, either. Returns true if out of memory, or if the input has too many
 * values to look at. */
bool kept_input_hides(const struct json *schema, const struct json *input, slice pointer,
                      struct arena *arena);
/* Whether any value of the input is not kept. Returns true as kept_input_hides does. */
bool kept_input_has_hidden(const struct json *schema, const struct json *input,
                           struct arena *arena);
/* Whether the input has a member that is not kept (KEPT_INPUT_HIDDEN). It cannot be run as it is.
 */
bool kept_input_lacks(const struct json *input);

#endif
