/*
 * Statement tables and small helpers for the files of this room.
 */
#ifndef STORE_INTERNAL_H
#define STORE_INTERNAL_H

#include "pg/bind.h"
#include "store/audit.h"
#include "store/execution.h"
#include "store/flow.h"
#include "store/hold.h"
#include "store/policy.h"
#include "store/store.h"

/* The files that have statements. Each has a list <file>_stmts, ended by NULL
 * (tests/lint/rooms.sh). */
/* clang-format off */
#define STORE_FILES(X) \
    X(account) X(account_user) X(api_key) X(app_use) X(audit) X(connect_session) X(connection) \
    X(connection_admin) X(connection_list) X(connection_manage) X(connection_refresh) X(connection_use) \
    X(delivery) X(due) \
    X(execution) X(execution_input) X(flow) X(flow_explain) X(flow_inbox) X(flow_item) X(flow_read) \
    X(flow_retention) X(flow_take) X(flow_template) X(hold) X(hold_call) X(idempotency) X(quota) \
    X(node) X(oauth) X(policy) X(rate_lease) X(retention) X(tally) X(usage) X(webhook) X(delivery_list)
/* The numbers of the elements of an array of buckets (TALLY_BUCKETS). */
#define STORE_EACH_BUCKET(X) \
    X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(10) X(11) X(12) X(13) X(14) X(15) X(16)
/* clang-format on */
#define STORE_STMTS_OF(file) extern const struct pg_stmt *const file##_stmts[];
STORE_FILES(STORE_STMTS_OF)

#define STORE_TEXT_OF(number)  STORE_TEXT_OF_(number)
#define STORE_TEXT_OF_(number) #number
/* Selects an execution's summary if it is small. The size of an out-of-line text is found without
 * reading it. */
#define STORE_SUMMARY_INLINE(row)                                                      \
    "case when octet_length(" row                                                      \
    ".summary) <= " STORE_TEXT_OF(STORE_SUMMARY_INLINE_BYTES) " then " row ".summary " \
                                                              "end"

/* A condition that is true, for a statement that changes rows of all shards and then a copied
 * table: Citus refuses the second change if the shards were changed at the same time. Elsewhere the
 * setting means nothing. It holds for the rest of the transaction. */
#define STORE_ONE_SHARD_AFTER_ANOTHER \
    "set_config('citus.multi_shard_modify_mode', 'sequential', true) is not null"

/* Makes a text parameter; SLICE_NONE becomes an empty text, not NULL. */
static inline struct pg_value pg_text_or_empty(slice value)
{
    return pg_text(value.ptr ? value : SLICE(""));
}

static inline void store_submit(STORE_ARGS, const struct pg_stmt *stmt)
{
    query->stmt = stmt;
    pg_submit(pool, query, op);
}

/* Binds the parameters (pg/bind.h) and submits the query. */
static inline void store_ask_of(STORE_ARGS, const struct pg_stmt *stmt, const void *from,
                                const struct pg_value *values, size_t count)
{
    pg_bind(stmt, from, values, count, query->params);
    store_submit(pool, query, op, stmt);
}
static inline void store_ask(STORE_ARGS, const struct pg_stmt *stmt, const struct pg_value *values,
                             size_t count)
{
    store_ask_of(pool, query, op, stmt, NULL, values, count);
}

/* These define the call of a statement: one without parameters; one whose parameters are all
 * members of a struct; one with a single value; and those with an id, usually the account's, or two
 * ids, and one more value. */
#define STORE_CALL(name, stmt)                \
    void name(STORE_ARGS)                     \
    {                                         \
        store_submit(pool, query, op, &stmt); \
    }
#define STORE_CALL_OF(name, stmt, type)                           \
    void name(STORE_ARGS, const struct type *from)                \
    {                                                             \
        store_ask_of(pool, query, op, &stmt, from, PG_NO_VALUES); \
    }
#define STORE_CALL_ONE(name, stmt, type, pg_type)                     \
    void name(STORE_ARGS, type value)                                 \
    {                                                                 \
        store_ask(pool, query, op, &stmt, PG_VALUES(pg_type(value))); \
    }
#define STORE_CALL_ID(name, stmt, type, pg_type)                                       \
    void name(STORE_ARGS, struct uuid first, type second)                              \
    {                                                                                  \
        store_ask(pool, query, op, &stmt, PG_VALUES(pg_uuid(first), pg_type(second))); \
    }
#define STORE_CALL_IDS(name, stmt, type, pg_type)                              \
    void name(STORE_ARGS, struct uuid first, struct uuid second, type third)   \
    {                                                                          \
        store_ask(pool, query, op, &stmt,                                      \
                  PG_VALUES(pg_uuid(first), pg_uuid(second), pg_type(third))); \
    }
/* The call of a change with an audit event of that kind. */
#define STORE_CALL_CHANGE(name, stmt, type, kind)                                  \
    void name(STORE_ARGS, const struct type *change)                               \
    {                                                                              \
        store_ask_of(pool, query, op, &stmt, change, PG_VALUES(store_kind(kind))); \
    }

/* Selects the policy that a key has now, as a text for store_flow_policy (store/flow.h). Both
 * tables are copied in a sharded database. */
#define STORE_KEY_POLICY_TEXT(account_id, key_id)                                               \
    "(select concat(k.policy, '@', " STORE_KEY_POLICY_REV("k") ") from sluice.api_key k where " \
                                                               "k.account_id = " account_id     \
                                                               " and k.id = " key_id ")"

/* A condition for an INSERT that must not follow the account's erasure (store/account.h). The
 * row is locked as by a foreign key. */
#define STORE_ACCOUNT_EXISTS(id) \
    "exists (select 1 from sluice.account a where a.account_id = " id " for key share)"

/* What is being erased, a user or an account, has such an erase_at until its links and flows have
 * ended. sql/0035_account_erase_usage.sql sets it, too. */
#define STORE_ERASE_AT "now() + interval '100 years'"
#define STORE_FAR      "'2100-01-01 00:00:00+00'"

/* Removes rows of a table that expired before `time`, by the index on expires_at. A call removes at
 * most 1000, so the transaction stays short however many have accumulated. The caller repeats the
 * call. */
#define STORE_SWEEP(stmt_name, table, hash, time, ...)                               \
    {                                                                                \
        .name = stmt_name,                                                           \
        .sql = "delete from sluice." table " t where (t.account_id, t." hash ") in " \
               "(select b.account_id, b." hash " from sluice." table " b "           \
               "where b.expires_at < " time " order by b.expires_at limit 1000)",    \
        .match = PG_MATCH_NONE, .access = PG_WRITE,                                  \
        .no_account = "what is due, over all accounts", __VA_ARGS__                  \
    }

/* The input of a run, as a part of the statement that inserts its execution or event: the
 * parameters, from a struct with a member `input`, and the insert of a row up to its values. */
#define STORE_INPUT_PARAMS(type)                                                    \
    PG_OF("sealed", PG_BYTES, struct type, input.sealed),                           \
        PG_OF("key_id", PG_TEXT, struct type, input.key_id),                        \
        PG_OF("expires_at", PG_TIME, struct type, input.expires_at),                \
        PG_OF("own", PG_OIDS, struct type, input.words), PG_MADE("words", PG_OIDS), \
        PG_MADE("marks", PG_OIDS), PG_MADE("runs", PG_BYTES), PG_MADE("together", PG_I64)
#define STORE_INPUT_INSERT                                                                         \
    "insert into sluice.execution_input (account_id, id, is_blocked, sealed, key_id, expires_at, " \
    "own, words, marks, runs) "
/* The values of a row. The text of numbers would be parsed, at a tenth of the cost of a write;
 * these casts are copies. */
#define STORE_INPUT_ROW(is_blocked)                                                         \
    "@row :account_id, :id, " is_blocked ", :sealed, :key_id, :expires_at, (:own)::oid[], " \
    "(:words)::oid[]::bigint[], (:marks)::oid[], :runs @end "

/* The parameters for the audit event of a statement, from a struct with a member `by`; the
 * caller supplies the kind. STORE_EVENT_SQL also needs the account, if the event is a user's. */
#define STORE_BY_PARAMS(type)                                       \
    PG_NEW_ID("event_id"), PG_ARG("kind", PG_TEXT), STORE_BY(type), \
        PG_OF("means", PG_TEXT, struct type, by.means)
#define STORE_EVENT_PARAMS(type) STORE_BY_PARAMS(type), STORE_BY_PARENT(type)
#define STORE_BY_PARENT(type) \
    PG_OF("by_parent", PG_UUID, struct type, by.parent_id, .has_null = true)
/* The columns of an event that name the caller, from a struct with a member `by`. */
#define STORE_BY(type)                                                   \
    PG_OF("actor", PG_TEXT, struct type, by.actor, .has_no_null = true), \
        PG_OF("request_id", PG_TEXT, struct type, by.request_id),        \
        PG_OF("address", PG_TEXT, struct type, by.address)
/* The same parameters as arguments of a function of the schema (sql/0024_changes.sql). */
#define STORE_BY_ARGS                                                                    \
    "event_id => :event_id, kind => :kind, actor => :actor, request_id => :request_id, " \
    "address => :address, means => :means"
/* Inserts the event of the row of `changed` that has the ordinal, if `where` holds, as the next
 * part of a WITH list. `details`: arguments of json_build_object. A replay finds its own event. */
#define STORE_EVENT_SQL(details)                                                        \
    "(insert into sluice.audit_event "                                                  \
    "(account_id, id, kind, actor, request_id, address, parent_id, details) "           \
    "select :account_id, :event_id, :kind, :actor, :request_id, :address, :by_parent, " \
    "json_strip_nulls(json_build_object(" details ", 'by', :means)) "
#define STORE_AUDITED(details, where)                                                       \
    "audited as " STORE_EVENT_SQL(details) "from @input changed c where c.ord = :ord" where \
                                           " on conflict do nothing) "
static inline struct pg_value store_kind(enum audit_kind kind)
{
    return pg_text(audit_kind_name(kind));
}

/* Binds and runs a statement for operator commands. Accepts NULL for rows and arena. */
int store_exec_sync(struct pg_sync *sync, const struct pg_stmt *stmt, const void *from,
                    const struct pg_value *values, size_t count, struct arena *arena,
                    struct pg_rows *rows, struct err *err) MUST_CHECK;
/* As store_exec_sync, for a statement that must find a row. Otherwise returns ERR_NOTFOUND, with
 * `what` as the message. */
int store_exec_one_sync(struct pg_sync *sync, const struct pg_stmt *stmt, const void *from,
                        const struct pg_value *values, size_t count, const char *what,
                        struct err *err) MUST_CHECK;
/* Returns the rows as an array in the arena, or NULL on failure; err has the reason. */
void *store_list_sync(struct pg_sync *sync, struct arena *arena, const struct pg_stmt *stmt,
                      const struct pg_value *values, size_t value_count, size_t size, size_t *count,
                      struct err *err) MUST_CHECK;
/* Defines a list of an account's rows (store_list_sync_of). */
#define STORE_LIST_SYNC(name, stmt, type)                                                        \
    void *name(struct pg_sync *sync, struct arena *arena, struct uuid account_id, size_t *count, \
               struct err *err)                                                                  \
    {                                                                                            \
        return store_list_sync(sync, arena, &stmt, PG_VALUES(pg_uuid(account_id)),               \
                               sizeof(struct type), count, err);                                 \
    }

/*
 * A page of a list by id (store.h). `columns` and `match`, the filter, refer to row e; the first
 * column is the id. Two columns follow: is_match, which is false for a row that only marks how far
 * the page has read, and is_cut, which is true for the row where it stopped. The parameters begin
 * with STORE_PAGE_PARAMS.
 */
#define STORE_PAGE_PARAMS PG_ARG("account_id", PG_UUID), STORE_PAGE_RANGE_PARAMS
#define STORE_PAGE_RANGE_PARAMS                              \
    PG_OF("since", PG_UUID, struct store_page, since),       \
        PG_OF("before", PG_UUID, struct store_page, before), \
        PG_OF("count_max", PG_I64, struct store_page, count_max)
#define STORE_PAGE_COLUMNS                    PG_ARG("is_match", PG_BOOL), PG_ARG("is_cut", PG_BOOL)
#define STORE_PAGE_SQL(table, columns, match) STORE_PAGE_OF_SQL(table, "x.*", "", columns, match)
/* As above, for the rows of a partial index, such as " and x.status = 'failed'". `read` selects row
 * e from a row x. Each read row is copied, so for a wide row name the columns. */
#define STORE_PAGE_OF_SQL(table, read, only, columns, match)                 \
    "select :ord, t.* from @input lateral (" STORE_PAGE_ROWS_SQL(            \
        "select " read " from " table " x where x.account_id = :account_id " \
        "and x.id < :before and x.id >= :since" only " order by x.id desc",  \
        "id desc", columns, match) ") t"
/* Makes a page of the rows that `scan` finds, which must be in that order. */
#define STORE_PAGE_ROWS_SQL(scan, order, columns, match)                                      \
    "select p.* from (select " columns ", (" match ") as is_match, e.n = 1000 as is_cut "     \
    "from (select r.*, row_number() over (order by " order ") as n from (" scan " limit 1000" \
    ") r) e) p where p.is_match or p.is_cut order by " order " limit :count_max"
/* As store_list_result, with the matching rows. *next is the id before which the next page
 * continues, or nil if this page has read its whole range. */
void *store_page_result(const struct pg_query *query, size_t size, size_t *count, struct uuid *next,
                        int *status) MUST_CHECK;

/*
 * The outbox, as the next part of a WITH list: inserts the event of each row m of `from` for the
 * endpoints that hear its kind (src/event/README.md). A row is {account_id, parent_id, event_id,
 * kind, object, rev, at}, with event_id NULL if it makes no event; `data` is an expression over m.
 * Endpoints are the account's own, or, of a user's row, those of the account that pays. Nothing is
 * joined and no data is made unless there is an event and an endpoint. `rest`: what a resend adds.
 */
#define STORE_OUTBOX(from, data, rest)                                                            \
    "outbox as (insert into sluice.delivery (account_id, event_id, webhook_id, parent_id, kind, " \
    "object, rev, at, data, status, attempt, due_at) select m.account_id, m.event_id, w.id, "     \
    "m.parent_id, m.kind, m.object, m.rev, m.at, json_strip_nulls(json_build_object(" data        \
    ")), 'pending', 0, now() from (" from                                                         \
    ") m cross join lateral (select h.id from sluice.webhook h where h.account_id = "             \
    "coalesce(m.parent_id, m.account_id) and h.off_at is null and h.url is not null and "         \
    "(h.events is null or m.kind = any(string_to_array(h.events, ' '))) offset 0) w" rest         \
    " returning event_id) "
/* The last column of the statement's result: whether rows were inserted for the event. An earlier
 * attempt of a resend may have inserted them, too: then the next scan finds them. */
#define STORE_HAS_EVENT(event_id) event_id " in (select o.event_id from outbox o) as has_event"
#define STORE_HAS_EVENT_COLUMN    PG_ARG("has_event", PG_BOOL)

/* The event of a flow's change (struct flow_event), and its outbox. A row of `from` also has the
 * flow's template_key, title and status, and the texts below. */
#define STORE_FLOW_EVENT_OF(type, member)                                 \
    PG_OF("event_id", PG_UUID, struct type, member.id, .has_null = true), \
        PG_OF("event_step", PG_TEXT, struct type, member.step_key),       \
        PG_OF("event_error", PG_TEXT, struct type, member.error_code),    \
        PG_OF("event_url", PG_TEXT, struct type, member.url),             \
        PG_OF("event_by", PG_TEXT, struct type, member.rejected_by)
#define STORE_FLOW_EVENT_PARAMS                                                                 \
    PG_ARG("event_id", PG_UUID), PG_ARG("event_step", PG_TEXT), PG_ARG("event_error", PG_TEXT), \
        PG_ARG("event_url", PG_TEXT), PG_ARG("event_by", PG_TEXT)
#define STORE_FLOW_EVENT_TEXTS                                                        \
    ":event_id as event_id, :event_step as event_step, :event_error as event_error, " \
    ":event_url as event_url, :event_by as event_by"
#define STORE_FLOW_OUTBOX(kind, texts, from, rest)                                               \
    STORE_OUTBOX("select c.account_id, c.parent_id, c.id as object, c.rev, c.updated_at as at, " \
                 "c.template_key, c.title, c.status, " kind " as kind, " texts " from " from,    \
                 "'flow_id', m.object, 'account_id', coalesce(m.parent_id, m.account_id), "      \
                 "'template_key', m.template_key, 'title', m.title, 'status', m.status, "        \
                 "'step_key', m.event_step, 'error_code', m.event_error, "                       \
                 "'approval_url', m.event_url, 'rejected_by', m.event_by",                       \
                 rest)
/* For rows that have the texts as columns. */
#define STORE_FLOW_OUTBOX_OF(kind, from)                                                        \
    STORE_FLOW_OUTBOX(kind, "c.event_id, c.event_step, c.event_error, c.event_url, c.event_by", \
                      from " c where c.event_id is not null", "")

/* A label for the API key in table alias k: its name, or its prefix if it has no name. */
#define STORE_KEY_LABEL "coalesce(nullif(k.name, ''), k.prefix || '\u2026')"
/* Selects the name of d.actor, if the actor is a key of :payer_id: rows of a user have the
 * account's keys. The key is found by the primary key, since an account may have many. */
#define STORE_ACTOR_NAME                                                     \
    "(select " STORE_KEY_LABEL                                               \
    " from sluice.api_key k where k.account_id = :payer_id and k.id = case " \
    "when d.actor ~ '^key:[0-9a-f-]{36}$' then substr(d.actor, 5)::uuid end)"

/* All columns of a flow's row, with the table alias t or another alias, in the order of
 * store_flow_columns (store/flow.c). */
#define STORE_FLOW_ROW STORE_FLOW_ROW_OF("t")
#define STORE_FLOW_ROW_OF(t)                                                                      \
    t ".account_id, " t ".id, " t ".template_key, " t ".template_version, " t ".trigger_type, " t \
      ".status, " t ".rev, " t ".owner, " t ".step_index, " t ".attempt, " t ".is_begun, " t      \
      ".adoptions, " t ".waiting_for, " t ".wake_at, " t ".deadline, " t ".created_at, " t        \
      ".updated_at, " t ".completed_at, " t ".parent_id"
#define STORE_FLOW_OF(name, type, ...) PG_OF(#name, type, struct flow, name, __VA_ARGS__)
#define STORE_FLOW_ROW_COLUMNS                                                                    \
    STORE_FLOW_OF(account_id, PG_UUID), STORE_FLOW_OF(id, PG_UUID),                               \
        STORE_FLOW_OF(template_key, PG_TEXT),                                                     \
        PG_OF("version", PG_UUID, struct flow, template_version),                                 \
        PG_OF("trigger", PG_TEXT, struct flow, trigger_type),                                     \
        PG_WORD("status", struct flow, status, &store_flow_statuses), STORE_FLOW_OF(rev, PG_I64), \
        STORE_FLOW_OF(owner, PG_UUID), STORE_FLOW_OF(step_index, PG_I64),                         \
        STORE_FLOW_OF(attempt, PG_I64), STORE_FLOW_OF(is_begun, PG_BOOL),                         \
        STORE_FLOW_OF(adoptions, PG_I64),                                                         \
        PG_WORD("waiting_for", struct flow, waiting_for, &store_flow_pauses),                     \
        STORE_FLOW_OF(wake_at, PG_TIME), STORE_FLOW_OF(deadline, PG_TIME),                        \
        STORE_FLOW_OF(created_at, PG_TIME), STORE_FLOW_OF(updated_at, PG_TIME),                   \
        STORE_FLOW_OF(completed_at, PG_TIME), STORE_FLOW_OF(parent_id, PG_UUID)
enum { STORE_FLOW_COLUMNS = 19 };
extern const struct pg_column store_flow_columns[STORE_FLOW_COLUMNS];
extern const struct pg_words store_flow_statuses, store_flow_pauses, store_due_kinds;
/* The columns of a struct flow_ref, from row f. */
#define STORE_FLOW_REF "f.account_id, f.id, f.owner, f.rev, f.wake_at, f.adoptions, f.parent_id "
enum { STORE_FLOW_REF_COLUMNS = 7 };
extern const struct pg_column store_flow_ref_columns[STORE_FLOW_REF_COLUMNS];

/* The values for the last columns of a new row, started_at and expires_at. Half a minute is more
 * than clocks may differ before that is reported (node/node.c). */
#define STORE_CLAIM_LIFE_PARAMS                              \
    PG_OF("lifetime_ms", PG_I64, struct claim, lifetime_ms), \
        PG_OF("guards_until", PG_TIME, struct claim, guards_until)
#define STORE_CLAIM_END "now() + :lifetime_ms * interval '1 millisecond'"
#define STORE_CLAIM_LIFE \
    "now(), greatest(" STORE_CLAIM_END ", :guards_until + interval '30 seconds')"

/* A claim's columns, as in a row of claim_find and of the statements that take a key. */
#define STORE_CLAIM_OUT(name, type, ...) PG_OF(#name, type, struct claim_outcome, name, __VA_ARGS__)
#define STORE_CLAIM_COLUMNS                                                                        \
    PG_ARG("account_id", PG_UUID), PG_ARG("key", PG_TEXT), STORE_CLAIM_OUT(execution_id, PG_UUID), \
        STORE_CLAIM_OUT(fingerprint, PG_BYTES), PG_ARG("is_bound", PG_BOOL),                       \
        STORE_CLAIM_OUT(owner, PG_UUID), STORE_CLAIM_OUT(is_succeeded, PG_BOOL),                   \
        STORE_CLAIM_OUT(error_code, PG_TEXT), STORE_CLAIM_OUT(summary, PG_TEXT),                   \
        STORE_CLAIM_OUT(summary_bytes, PG_I64), STORE_CLAIM_OUT(started_at, PG_TIME),              \
        STORE_CLAIM_OUT(finished_at, PG_TIME)
#define STORE_CLAIM_ROW \
    "t.account_id, t.key, t.execution_id, t.fingerprint, t.state = 'bound' as is_bound, t.owner, "
/* A statement that takes a key does not read the execution to which the key is bound. */
#define STORE_CLAIM_NOT_READ \
    "null::boolean, null::text, null::text, null::bigint, null::timestamptz, null::timestamptz"

/* DO UPDATE is used even if the key is taken, since only an updated row is returned. So one
 * statement finds out which run has the key, even if that run was committed after the statement's
 * snapshot. The row is rewritten unchanged, except for a bound row past its expiry, which gets a
 * new owner; excluded.started_at is now() (STORE_CLAIM_LIFE). Concurrent requests queue on the row;
 * one wins. execution_id is the operation token: a run that finds its own id there has won, in a
 * replay too. The execution of a bound key is not read here: that is rare (claim_find came before),
 * and merely opening a plan over all partitions would cost each claim more than its insert. */
/* clang-format off */
#define STORE_CLAIM_TAKE(column)                                                                   \
    column " = case when t.state = 'bound' and t.expires_at <= excluded.started_at "               \
    "then excluded." column " else t." column " end"
#define STORE_CLAIM_OR_HOLDER                                                                      \
    " on conflict (account_id, key) do update set "                                                \
    STORE_CLAIM_TAKE("execution_id") ", "                                                          \
    STORE_CLAIM_TAKE("fingerprint") ", "                                                           \
    STORE_CLAIM_TAKE("state") ", "                                                                 \
    STORE_CLAIM_TAKE("owner") ", "                                                                 \
    STORE_CLAIM_TAKE("integration_id") ", "                                                        \
    STORE_CLAIM_TAKE("action_id") ", "                                                             \
    STORE_CLAIM_TAKE("connection_id") ", "                                                         \
    STORE_CLAIM_TAKE("is_write") ", "                                                              \
    STORE_CLAIM_TAKE("parent_id") ", "                                                             \
    STORE_CLAIM_TAKE("started_at") ", "                                                            \
    STORE_CLAIM_TAKE("expires_at") " returning " STORE_CLAIM_ROW STORE_CLAIM_NOT_READ
/* clang-format on */

/* A hold's columns, as members of a struct that has it, and its row in table alias t. */
#define STORE_HOLD_OF(type, member)                                       \
    PG_OF("account_id", PG_UUID, struct type, member account_id),         \
        PG_OF("key", PG_TEXT, struct type, member key),                   \
        PG_OF("flow_id", PG_UUID, struct type, member flow_id),           \
        PG_OF("fingerprint", PG_BYTES, struct type, member fingerprint),  \
        PG_OF("asker", PG_UUID, struct type, member asker),               \
        PG_OF("execution_id", PG_UUID, struct type, member execution_id), \
        PG_OF("lifetime_ms", PG_I64, struct type, member lifetime_ms)
#define STORE_HOLD_ROW(t)                                                         \
    t ".account_id, " t ".key, " t ".flow_id, " t ".fingerprint, " t ".asker, " t \
      ".execution_id, " t ".lifetime_ms"
/* Whether the hold in row t still binds its key: its flow is open, or has ended within the hold's
 * lifetime. A waiting flow is recognized by waiting_for, a running one by owner (flow_take.c). */
#define STORE_HOLD_IS_KEPT(t)                                                            \
    "(select count(*) > 0 from sluice.flow f where f.account_id = " t ".account_id and " \
    "f.id = " t ".flow_id and (f.owner is not null or f.waiting_for is not null or "     \
    "f.updated_at > now() - " t ".lifetime_ms * interval '1 millisecond'))"

/* Returns the key parameter of a claim: the client's key, or a key made of the execution's id. The
 * latter begins with U+0001 and so never equals a client's key; its text is stored in the query. */
struct pg_value store_claim_key(struct pg_query *query, slice key, struct uuid execution_id);

/* A condition on a row of sluice.webhook: a person has to mend the endpoint. It went off by itself,
 * or is paused (store/delivery.h). */
#define STORE_WEBHOOK_FAILS(row)                                                             \
    "(" row ".off_reason in ('answered_410', 'failing') or (" row ".off_at is null and " row \
    ".failures > 2))"

#endif
