/*
 * Reads the inputs of runs. store/execution.c and store/audit.c insert them, each in the statement
 * of its own row.
 */
#include "store/execution_input.h"

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
    size_t size = PG_OIDS_BYTES(count);
    char *words = count > 0 ? arena_alloc_text(arena, size) : NULL;
    if (!words)
        return SLICE_NONE;
    pg_oids_write(words, list, count);
    return slice_of(words, size);
}

/* ---- runs that are sent together ---- */

/* So that the row with their words seldom has over 2 KB, of which parts would be stored apart. */
enum { RUNS_MAX = 16 /* as in store/execution.c */, SHARED_WORDS_MAX = 64, OWN_WORDS_MAX = 128 };
enum { SLOTS = 256 }; /* so that half of them stay empty */

/* Parameters after `own`, in the order of STORE_INPUT_PARAMS. */
enum { WORDS = 1, MARKS, RUNS, TOGETHER };

/* Runs of one account. */
struct group {
    struct pg_query *runs[RUNS_MAX];
    size_t run_count, word_count;
    uint32_t words[OWN_WORDS_MAX], marks[OWN_WORDS_MAX]; /* bit n: run n has the word */
    uint8_t slots[SLOTS];                                /* an index and 1, by bits of the word */
    size_t id_at, own_at;                                /* parameters of the statement */
    size_t set_count;
    struct arena *arena;
};

static size_t param_at(const struct pg_stmt *stmt, const char *name)
{
    size_t i = 0;
    while (i < stmt->param_count && strcmp(stmt->params[i].name, name) != 0)
        i++;
    ASSERT(i < stmt->param_count);
    return i;
}

uint32_t store_input_key(struct uuid account_id, uint32_t word)
{
    const uint8_t *end = &account_id.bytes[sizeof(account_id.bytes) - 3];
    return (uint32_t)end[0] << 24 | (uint32_t)end[1] << 16 | ((uint32_t)end[2] & 0xf0) << 8 |
           word >> 20;
}

/* Returns the slot of a word, which has it or is empty. */
static uint8_t *slot_of(struct group *group, uint32_t word)
{
    size_t at = word % SLOTS;
    while (group->slots[at] && group->words[group->slots[at] - 1] != word)
        at = (at + 1) % SLOTS;
    return &group->slots[at];
}

static void group_empty(struct group *group)
{
    group->run_count = group->word_count = 0;
    memset(group->slots, 0, sizeof(group->slots));
}

/* Whether the query may join the group. A run that may be stored already has a group of its own,
 * since a row that exists stays as it is. */
static bool group_takes(const struct group *group, const struct pg_query *query)
{
    if (group->run_count == 0)
        return true;
    const struct pg_query *first = group->runs[0];
    return group->run_count < RUNS_MAX && !first->is_unknown && !query->is_unknown &&
           uuid_eq(first->params[0].as.uuid, query->params[0].as.uuid);
}

/* Adds the run of a query; false: the group does not take it. */
static bool group_add(struct group *group, struct pg_query *query)
{
    slice own = query->params[group->own_at].as.bytes;
    size_t own_count = pg_oids_count(own), new_count = 0;
    size_t max = group->run_count == 0 ? OWN_WORDS_MAX : SHARED_WORDS_MAX;
    if (!group_takes(group, query))
        return false;
    for (size_t i = 0; i < own_count; i++)
        new_count += *slot_of(group, pg_oids_get(own, i)) == 0;
    if (group->word_count + new_count > max)
        return false;
    for (size_t i = 0; i < own_count; i++) {
        uint32_t word = pg_oids_get(own, i);
        uint8_t *slot = slot_of(group, word);
        if (*slot == 0) {
            group->words[group->word_count] = word;
            group->marks[group->word_count] = 0;
            *slot = (uint8_t)++group->word_count;
        }
        group->marks[*slot - 1] |= 1U << group->run_count;
    }
    group->runs[group->run_count++] = query;
    return true;
}

static bool set_list(const struct group *group, struct pg_value *value, const uint32_t *list,
                     size_t count)
{
    value->as.bytes = store_input_words(list, count, group->arena);
    value->is_null = !value->as.bytes.ptr;
    return !value->is_null;
}

static bool set_keys(const struct group *group, struct pg_query *query)
{
    uint32_t keys[OWN_WORDS_MAX];
    for (size_t i = 0; i < group->word_count; i++)
        keys[i] = store_input_key(query->params[0].as.uuid, group->words[i]);
    return set_list(group, &query->params[group->own_at + WORDS], keys, group->word_count);
}

/* Sets the columns that only several runs have. */
static bool set_marks(const struct group *group, struct pg_query *query)
{
    uint32_t marks[2 * OWN_WORDS_MAX];
    size_t len = sizeof(struct uuid), size = group->word_count * sizeof(marks[0]);
    char *ids = arena_alloc_text(group->arena, group->run_count * len);
    if (!ids)
        return false;
    for (size_t i = 0; i < group->run_count; i++) {
        struct pg_value *params = group->runs[i]->params;
        memcpy(ids + i * len, &params[group->id_at].as.uuid, len);
        params[group->own_at + TOGETHER] = pg_i64((int64_t)group->set_count);
    }
    query->params[group->own_at + RUNS] = pg_bytes(slice_of(ids, group->run_count * len));
    memcpy(marks, group->words, size);
    memcpy(&marks[group->word_count], group->marks, size);
    return set_list(group, &query->params[group->own_at + MARKS], marks, 2 * group->word_count);
}

/* Gives the words of the group to its newest run, and empties the group. */
static bool group_close(struct group *group)
{
    struct pg_query *newest = group->runs[0];
    for (size_t i = 1; i < group->run_count; i++)
        if (uuid_cmp(group->runs[i]->params[group->id_at].as.uuid,
                     newest->params[group->id_at].as.uuid) > 0)
            newest = group->runs[i];
    bool is_set = group->run_count == 0 ||
                  (set_keys(group, newest) && (group->run_count == 1 || set_marks(group, newest)));
    group_empty(group);
    return is_set;
}

bool store_inputs_gather(struct pg_query *const *queries, size_t count, struct arena *arena)
{
    const struct pg_stmt *stmt = queries[0]->stmt;
    struct group group;
    group_empty(&group);
    group.id_at = param_at(stmt, "id");
    group.own_at = param_at(stmt, "own");
    group.set_count = count;
    group.arena = arena;
    for (size_t i = 0; i < count; i++) {
        struct pg_value *own = &queries[i]->params[group.own_at];
        for (size_t k = WORDS; k <= TOGETHER; k++)
            own[k].is_null = true;
        if (own->is_null || group_add(&group, queries[i]))
            continue;
        if (!group_close(&group))
            return false;
        bool is_added = group_add(&group, queries[i]);
        ASSERT(is_added);
    }
    return group_close(&group);
}

STORE_CALL_ID(store_execution_input_get, execution_input_get, struct uuid, pg_uuid)
