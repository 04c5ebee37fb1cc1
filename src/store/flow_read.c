/*
 * Reading flows: one whole flow from one snapshot, lists, and revisions.
 *
 * A flow has many attempts and items, but a statement returns one row for each flow. They are
 * returned as one text of frames, "number number ... length length;" and then the documents of
 * these lengths in bytes (-1: no document), so that documents are neither escaped nor copied.
 */
#include "store/flow_read.h"

#include "store/internal.h"

enum { FRAME_NUMBERS_MAX = 8 };

#define US(column)   "(extract(epoch from " column ") * 1000000)::bigint"
#define SIZE(column) "coalesce(octet_length(" column "::text), -1)"
#define AND          ", ' ', "

#define STEP_FRAMES                                                                          \
    "(select string_agg(concat(s.step_index" AND "s.attempt" AND                             \
    "(s.error is null)::integer" AND US("s.started_at") AND US("s.finished_at")              \
        AND SIZE("s.input") AND SIZE("s.output")                                             \
            AND SIZE("s.error") ", ';', s.input, s.output, s.error), '' "                    \
                                "order by s.step_index, s.attempt) from sluice.flow_step s " \
                                "where s.account_id = t.account_id and s.flow_id = t.id)"

#define OUTPUT_FRAMES                                                            \
    "(select string_agg(concat(s.step_index" AND SIZE(                           \
        "s.output") ", ';', s.output), '' "                                      \
                    "order by s.step_index, s.attempt) from sluice.flow_step s " \
                    "where s.account_id = :account_id and s.flow_id = e.id and s.error is null)"

#define ITEM_FRAMES                                                                           \
    "(select string_agg(concat(n.item" AND "n.attempt" AND "case n.fact when 'begun' then 0 " \
    "when 'completed' then 1 else 2 end" AND US("n.at") AND SIZE("n.output")                  \
        AND SIZE("n.error") ", ';', n.output, n.error), '' "                                  \
                            "order by n.item, n.attempt, n.fact) from sluice.flow_item n "    \
                            "where n.account_id = t.account_id and n.flow_id = t.id and "     \
                            "n.step_index = t.step_index)"

/* ---- frames ---- */

/* Takes one frame's head from the front of *rest into numbers; the documents follow. */
static void take_numbers(slice *rest, int64_t *numbers, size_t count)
{
    slice head = slice_split(rest, ';');
    ASSERT(count <= FRAME_NUMBERS_MAX);
    for (size_t i = 0; i < count; i++)
        if (!slice_to_i64(slice_split(&head, ' '), &numbers[i]))
            /* The text is not external data: SIZE and US above produce only integers. */
            UNREACHABLE("the statement wrote it");
}

static slice take_document(slice *rest, int64_t len)
{
    if (len < 0)
        return SLICE_NONE;
    ASSERT((uint64_t)len <= rest->len);
    slice document = slice_first(*rest, (size_t)len);
    *rest = slice_from(*rest, (size_t)len);
    return document;
}

/* Counts the frames in a first pass over heads and lengths, so that the array is allocated once. */
static size_t count_frames(slice text, size_t numbers, size_t documents)
{
    int64_t values[FRAME_NUMBERS_MAX];
    size_t count = 0;
    for (; text.len > 0; count++) {
        take_numbers(&text, values, numbers);
        for (size_t i = numbers - documents; i < numbers; i++)
            (void)take_document(&text, values[i]);
    }
    return count;
}

static int read_steps(struct arena *arena, slice text, struct flow_step **list, size_t *count)
{
    int64_t n[8];
    *count = count_frames(text, ARRAY_LEN(n), 3);
    *list = ARENA_ARRAY(arena, struct flow_step, *count + 1);
    if (!*list)
        return ERR_NOMEM;
    for (size_t i = 0; i < *count; i++) {
        take_numbers(&text, n, ARRAY_LEN(n));
        (*list)[i] = (struct flow_step){
            .step_index = n[0],
            .attempt = n[1],
            .is_completed = n[2] == 1,
            .started_at = n[3],
            .finished_at = n[4],
            .input = take_document(&text, n[5]),
            .output = take_document(&text, n[6]),
            .error = take_document(&text, n[7]),
        };
    }
    return OK;
}

static int read_outputs(struct arena *arena, slice text, struct flow_step **list, size_t *count)
{
    int64_t n[2];
    *count = count_frames(text, ARRAY_LEN(n), 1);
    *list = ARENA_ARRAY(arena, struct flow_step, *count + 1);
    if (!*list)
        return ERR_NOMEM;
    for (size_t i = 0; i < *count; i++) {
        take_numbers(&text, n, ARRAY_LEN(n));
        (*list)[i] = (struct flow_step){
            .step_index = n[0],
            .is_completed = true,
            .output = take_document(&text, n[1]),
        };
    }
    return OK;
}

static int read_items(struct arena *arena, slice text, const struct flow *flow,
                      struct flow_item **list, size_t *count)
{
    int64_t n[6];
    *count = count_frames(text, ARRAY_LEN(n), 2);
    *list = ARENA_ARRAY(arena, struct flow_item, *count + 1);
    if (!*list)
        return ERR_NOMEM;
    for (size_t i = 0; i < *count; i++) {
        take_numbers(&text, n, ARRAY_LEN(n));
        (*list)[i] = (struct flow_item){
            .account_id = flow->account_id,
            .flow_id = flow->id,
            .step_index = flow->step_index,
            .item = n[0],
            .attempt = n[1],
            .fact = (enum flow_item_fact)n[2],
            .at = n[3],
            .output = take_document(&text, n[4]),
            .error = take_document(&text, n[5]),
        };
    }
    return OK;
}

/* ---- one whole flow ---- */

/* There is only one statement and so one snapshot: a step that completes between two reads cannot
 * be missing from both. Flow and document are found by their keys, each below an OFFSET 0
 * (pg/stmt.c). Only the owner needs the items and the policy; a view's statement returns NULL in
 * their columns. */
#define A_KEY "'^key:[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$'"
#define ACTOR_POLICY                                             \
    "case when d.actor ~ " A_KEY " then " STORE_KEY_POLICY_TEXT( \
        "coalesce(t.parent_id, t.account_id)", "substr(d.actor, 5)::uuid") " end"
#define LOAD(items, policy)                                                                      \
    "select :ord, " STORE_FLOW_ROW                                                               \
    ", d.input, d.actor, d.waiting_input, d.trace, t.title, " policy ", " STEP_FRAMES ", " items \
    " from @input lateral (select f.* from sluice.flow f where f.account_id = :account_id "      \
    "and f.id = :id offset 0) t, lateral (select c.input, c.actor, c.waiting_input, c.trace "    \
    "from sluice.flow_doc c where c.account_id = :account_id and c.flow_id = :id offset 0) d"

#define OF_WHOLE(name, type, ...) PG_OF(#name, type, struct flow_whole, name, __VA_ARGS__)
_Static_assert(offsetof(struct flow_whole, flow) == 0, "its columns are those of a flow");
static const struct pg_column load_params[] = {PG_ARG("account_id", PG_UUID),
                                               PG_ARG("id", PG_UUID)};
static const struct pg_column load_columns[] = {
    STORE_FLOW_ROW_COLUMNS,        OF_WHOLE(input, PG_JSON),
    OF_WHOLE(actor, PG_TEXT),      OF_WHOLE(waiting_input, PG_JSON),
    OF_WHOLE(trace, PG_TEXT),      OF_WHOLE(title, PG_TEXT),
    OF_WHOLE(policy, PG_TEXT),     PG_ARG("step_frames", PG_TEXT),
    PG_ARG("item_frames", PG_TEXT)};
enum { STEP_FRAMES_COLUMN = STORE_FLOW_COLUMNS + 6, ITEM_FRAMES_COLUMN };

static const struct pg_stmt flow_load = {
    .name = "flow_load",
    .sql = LOAD("null::text", "null::text"),
    PG_PARAMS(load_params),
    PG_COLUMNS(load_columns),
    .key_count = 2,
};
static const struct pg_stmt flow_load_items = {
    .name = "flow_load_items",
    .sql = LOAD(ITEM_FRAMES, ACTOR_POLICY),
    PG_PARAMS(load_params),
    PG_COLUMNS(load_columns),
    .key_count = 2,
};

void store_flow_load(STORE_ARGS, struct uuid account_id, struct uuid id, bool with_items)
{
    store_ask(pool, query, op, with_items ? &flow_load_items : &flow_load,
              PG_VALUES(pg_uuid(account_id), pg_uuid(id)));
}

int store_flow_load_result(const struct pg_query *query, struct flow_whole *whole)
{
    const struct pg_rows *rows = &query->rows;
    int rc = store_row_result(query, whole, sizeof(*whole));
    if (rc == OK)
        rc = read_steps(&query->wait.op->arena, pg_get_bytes(rows, 0, STEP_FRAMES_COLUMN),
                        &whole->steps, &whole->step_count);
    if (rc == OK)
        rc = read_items(&query->wait.op->arena, pg_get_bytes(rows, 0, ITEM_FRAMES_COLUMN),
                        &whole->flow, &whole->items, &whole->item_count);
    return rc;
}

/* ---- lists ---- */

/* The most recent flows come first: the list walks the primary key backward, or flow_status or
 * flow_approval. These two are partial with a condition that is always true, so that a search by
 * key does not consider them; a statement that needs such an index has to repeat that condition
 * ("status <> ''", "template_key <> ''"). Templates are not indexed: a page reads at most 1000
 * flows and reports where it stopped. Documents are most of the cost of a list, so a caller that
 * needs only rows gets only rows. */
#define LIST(only, input, asker, rejected, outputs)                                           \
    STORE_PAGE_OF_SQL("sluice.flow", "x.*", only,                                             \
                      "e.id as place, " STORE_FLOW_ROW_OF(                                    \
                          "e") ", e.title, " input " as input, " asker " as asker, " rejected \
                               " as is_rejected, " outputs " as outputs",                     \
                      "(:template_key is null or e.template_key = :template_key) and "        \
                      "(:state is null or (:state = 'rejected') = " rejected ") and "         \
                      "(:words is null or " HAS_WORDS ")")
/* The title, or without one the key of the template, has each of the words (vault/words.h). What
 * separates words is named here, as \\m and \\M depend on the locale; so does lower(), which has to
 * change ASCII alone, since the words name the cases of other letters. */
#define SEPARATOR                                                                              \
    "[\\u0001-\\u002f\\u003a-\\u0040\\u005b-\\u0060\\u007b-\\u00a9\\u00ab-\\u00b4\\u00b6-"     \
    "\\u00b9\\u00bb-\\u00bf\\u00d7\\u00f7\\u2000-\\u2bff\\u3000-\\u303f\\ufeff\\uff00-\\uff0f" \
    "\\uff1a-\\uff20\\U0001f000-\\U0001ffff]"
#define HAS_WORDS                                                                             \
    "not exists (select 1 from unnest(string_to_array(:words, ' ')) w where "                 \
    "lower(coalesce(e.title, e.template_key) collate \"C\") !~ ('(^|" SEPARATOR ")' || w || " \
    "'($|" SEPARATOR ")'))"
/* The last attempt of a rejected approval failed with this error (flow/decision.c). The error is
 * compared as text because ->> fails if a person's message has \u0000. */
#define IS_REJECTED                                                                               \
    "(case when e.status = 'cancelled' then coalesce((select s.error::text like "                 \
    "'{\"code\":\"policy_blocked\",\"message\":\"" FLOW_REJECTED_BY "%' from sluice.flow_step s " \
    "where s.account_id = :account_id and s.flow_id = e.id and s.step_index = e.step_index "      \
    "and s.attempt = e.attempt), false) else false end)"
#define OF_DOCUMENT(column)                                                           \
    "(select " column " from sluice.flow_doc d where d.account_id = :account_id and " \
    "d.flow_id = e.id)"
#define NO_INPUT          "null::json"
#define NO_TEXT           "null::text"
#define LIST_WHOLE(only)  LIST(only, OF_DOCUMENT("d.input"), NO_TEXT, "false", OUTPUT_FRAMES)
#define LIST_ROWS(only)   LIST(only, NO_INPUT, NO_TEXT, "false", NO_TEXT)
#define LIST_INPUTS(only) LIST(only, OF_DOCUMENT("d.input"), NO_TEXT, "false", NO_TEXT)
#define LIST_ASKED(only)                                                                      \
    LIST(only, NO_INPUT, OF_DOCUMENT("coalesce(" STORE_ACTOR_NAME ", d.actor)"), IS_REJECTED, \
         NO_TEXT)
#define ANY_STATUS ""
#define OF_STATUS  " and x.status <> '' and x.status = :status"
#define FOR_APPROVAL \
    " and x.template_key <> '' and x.waiting_for = 'approval' and x.status = :status"

static const struct pg_column list_params[] = {
    STORE_PAGE_PARAMS,        PG_ARG("template_key", PG_TEXT), PG_ARG("status", PG_TEXT),
    PG_ARG("state", PG_TEXT), PG_ARG("words", PG_TEXT),        PG_ARG("payer_id", PG_UUID)};
_Static_assert(offsetof(struct flow_listed, flow) == 0, "its columns are those of a flow");
static const struct pg_column list_columns[] = {
    PG_ARG("place", PG_UUID),
    STORE_FLOW_ROW_COLUMNS,
    PG_OF("title", PG_TEXT, struct flow_listed, title),
    PG_OF("input", PG_JSON, struct flow_listed, input),
    PG_OF("asker", PG_TEXT, struct flow_listed, asker),
    PG_OF("is_rejected", PG_BOOL, struct flow_listed, is_rejected),
    PG_ARG("outputs", PG_TEXT),
    STORE_PAGE_COLUMNS};
enum { OUTPUTS_COLUMN = 1 + STORE_FLOW_COLUMNS + 4 };

#define LIST_STMT(stmt_name, text)                                                       \
    {                                                                                    \
        .name = stmt_name, .sql = text, PG_PARAMS(list_params), PG_COLUMNS(list_columns) \
    }
static const struct pg_stmt flow_list = LIST_STMT("flow_list", LIST_WHOLE(ANY_STATUS));
static const struct pg_stmt flow_list_status = LIST_STMT("flow_list_status", LIST_WHOLE(OF_STATUS));
static const struct pg_stmt flow_list_rows = LIST_STMT("flow_list_rows", LIST_ROWS(ANY_STATUS));
static const struct pg_stmt flow_list_status_rows =
    LIST_STMT("flow_list_status_rows", LIST_ROWS(OF_STATUS));
static const struct pg_stmt flow_list_asked = LIST_STMT("flow_list_asked", LIST_ASKED(ANY_STATUS));
static const struct pg_stmt flow_list_status_asked =
    LIST_STMT("flow_list_status_asked", LIST_ASKED(OF_STATUS));
static const struct pg_stmt flow_list_approval_asked =
    LIST_STMT("flow_list_approval_asked", LIST_ASKED(FOR_APPROVAL));
static const struct pg_stmt flow_list_status_inputs =
    LIST_STMT("flow_list_status_inputs", LIST_INPUTS(OF_STATUS));

static const struct pg_stmt *list_stmt(const struct flow_filter *filter)
{
    enum { WHOLE, ROWS, ASKED };
    static const struct pg_stmt *const of_any[] = {&flow_list, &flow_list_rows, &flow_list_asked};
    static const struct pg_stmt *const of_status[] = {&flow_list_status, &flow_list_status_rows,
                                                      &flow_list_status_asked};
    size_t kind = filter->with_asker ? ASKED : filter->is_rows_alone ? ROWS : WHOLE;
    ASSERT(filter->is_rows_alone || (!filter->with_asker && !filter->with_input));
    ASSERT(!filter->state.ptr || (filter->status == FLOW_CANCELLED && filter->with_asker));
    if (filter->is_for_approval) {
        ASSERT(filter->status == FLOW_WAITING && filter->with_asker);
        return &flow_list_approval_asked;
    }
    if (filter->with_input) {
        ASSERT(filter->status >= 0 && !filter->with_asker);
        return &flow_list_status_inputs;
    }
    return filter->status < 0 ? of_any[kind] : of_status[kind];
}

void store_flow_list(STORE_ARGS, const struct flow_filter *filter)
{
    struct store_page page = {.before = filter->before, .count_max = (size_t)filter->limit};
    ASSERT(filter->limit > 0 && filter->limit <= 100);
    slice status = filter->status < 0
                       ? SLICE_NONE
                       : slice_cstr(flow_status_name((enum flow_status)filter->status));
    if (!uuid_is_nil(filter->id))
        page.since = filter->id;
    if (uuid_is_nil(page.before)) /* above every id */
        memset(page.before.bytes, 0xff, sizeof(page.before.bytes));
    store_ask_of(pool, query, op, list_stmt(filter), &page,
                 PG_VALUES(pg_uuid(filter->account_id), pg_text(filter->template_key),
                           pg_text(status), pg_text(filter->state), pg_text(filter->words),
                           pg_uuid(uuid_or(filter->payer_id, filter->account_id))));
}

int store_flow_list_result(const struct pg_query *query, struct flow_listed **list, size_t *count,
                           struct uuid *next)
{
    int status;
    *list = store_page_result(query, sizeof(**list), count, next, &status);
    for (size_t i = 0; status == OK && i < *count; i++)
        status = read_outputs(&query->wait.op->arena, pg_get_bytes(&query->rows, i, OUTPUTS_COLUMN),
                              &(*list)[i].outputs, &(*list)[i].output_count);
    return status;
}

/* ---- revisions ---- */

static const struct pg_stmt flow_rev = {
    .name = "flow_rev",
    .sql = "select :ord, t.rev @read(sluice.flow)",
    PG_PARAMS(load_params),
    PG_GIVES(PG_ARG("rev", PG_I64)),
    .key_count = 2,
};

STORE_CALL_ID(store_flow_rev, flow_rev, struct uuid, pg_uuid)

static const struct pg_stmt flow_title = {
    .name = "flow_title",
    .sql = "select :ord, t.title, t.template_key @read(sluice.flow)",
    PG_PARAMS(load_params),
    PG_GIVES(PG_OF("title", PG_TEXT, struct flow_title, title),
             PG_OF("template_key", PG_TEXT, struct flow_title, template_key)),
    .key_count = 2,
};

STORE_CALL_ID(store_flow_title, flow_title, struct uuid, pg_uuid)

static const struct pg_stmt flow_key_policy = {
    .name = "flow_key_policy",
    .sql = "select :ord, concat(t.policy, '@', " STORE_KEY_POLICY_REV("t") ") "
                                                                           "@read(sluice.api_key)",
    PG_PARAMS(load_params),
    PG_GIVES(PG_ARG("policy", PG_TEXT)),
    .key_count = 2,
    .is_copied = true,
};

STORE_CALL_ID(store_flow_key_policy, flow_key_policy, struct uuid, pg_uuid)

/* Reads the newest flows of each status; of waiting flows as many as a person may have to
 * decide. Endpoints that fail need a person, too. */
static const struct pg_stmt flow_stamp = {
    .name = "flow_stamp",
    .sql = "select :ord, x.stamp from @input lateral (select 1 + abs(mod(coalesce("
           "sum(hashtextextended(t.id::text, t.rev)), 0) + coalesce((select "
           "sum(hashtextextended(w.id::text, 2 * w.failures + (w.off_at is null)::int)) "
           "from sluice.webhook w where w.account_id = :account_id and " STORE_WEBHOOK_FAILS(
               "w") "), "
                    "0), "
                    "9007199254740991))::bigint as stamp "
                    "from unnest(array['waiting', 'failed', 'running', 'completed', 'cancelled'], "
                    "array[500, 20, 20, 20, 20]) s(status, count_max), lateral (select t.id, t.rev "
                    "from sluice.flow t where t.account_id = :account_id and t.status <> '' "
                    "and t.status = s.status order by t.id desc limit s.count_max) t offset 0) x",
    PG_TAKES(PG_ARG("account_id", PG_UUID)),
    PG_GIVES(PG_ARG("stamp", PG_I64)),
};

STORE_CALL_ONE(store_flow_stamp, flow_stamp, struct uuid, pg_uuid)

const struct pg_stmt *const flow_read_stmts[] = {
    &flow_load,
    &flow_load_items,
    &flow_list,
    &flow_list_status,
    &flow_list_rows,
    &flow_list_status_rows,
    &flow_list_asked,
    &flow_list_status_asked,
    &flow_list_approval_asked,
    &flow_list_status_inputs,
    &flow_rev,
    &flow_title,
    &flow_key_policy,
    &flow_stamp,
    NULL,
};
