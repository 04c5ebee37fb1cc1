/*
 * Reads the inputs of runs. store/execution.c and store/audit.c insert them, each in the statement
 * of its own row.
 */
#include "store/execution_input.h"

#include "base/buf.h"
#include "store/internal.h"

#define OF(name, type) PG_OF(#name, type, struct execution_input, name)

/* An expired row may still be there: its partition is dropped once all of its rows have expired. */
static const struct pg_stmt execution_input_get = {
    .name = "execution_input_get",
    .sql = "select :ord, t.sealed, t.key_id, t.expires_at @read(sluice.execution_input) "
           "and t.expires_at > now()",
    PG_TAKES(PG_ARG("account_id", PG_UUID), PG_ARG("id", PG_UUID)),
    PG_GIVES(OF(sealed, PG_BYTES), OF(key_id, PG_TEXT), OF(expires_at, PG_TIME)),
    .key_count = 2,
};

const struct pg_stmt *const execution_input_stmts[] = {&execution_input_get, NULL};

slice store_input_words(const uint32_t *list, size_t count, struct arena *arena)
{
    struct buf words;
    if (count == 0)
        return SLICE_NONE;
    buf_init(&words, PG_OIDS_BYTES(count));
    pg_oids_write(&words, list, count);
    return arena_take(arena, &words);
}

STORE_CALL_ID(store_execution_input_get, execution_input_get, struct uuid, pg_uuid)
