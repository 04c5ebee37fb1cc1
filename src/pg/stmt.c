/*
 * Expands templates to SQL. One text for each statement keeps the two modes consistent; tests run
 * all statements in both.
 *
 * Plans are cached per connection, as generic plans (PG_SETTINGS_PLAN): with arrays as parameters a
 * custom plan would be made for each batch. A text must therefore have one plan that is right for
 * an empty table and for a full one.
 *
 * Set mode does not simply join input and table by equality: a planner that is free to choose
 * reverses such a join when the table's statistics say "tiny" (all of the table outside, the input
 * inside), and a cached plan keeps that order while the table grows, until the next ANALYZE. So:
 *
 * - Lookups are lateral subqueries with OFFSET 0, which can be neither flattened nor reversed:
 *   they run once per input row, with the key as their condition.
 *
 * - UPDATE and DELETE find their row by key = any(array[input]). The index treats that as an
 *   equality, but the planner does not, so it offers no ordered walk over the whole index to build
 *   a join on. With sequential scans off (PG_SETTINGS_PLAN) only an index scan for each input row
 *   is left. Key columns after the first are pinned by >= and <=: the planner may turn a
 *   second any() into a filter, and does while the table is empty; it then reads the whole
 *   account for each row. Tried and rejected: a range, (key) >= (input) and (key) <= (input), pins
 *   as well but reads dead entries of the account; a lateral that yields the row's ctid misses a
 *   row that another session changes during it, since PostgreSQL 15.14 compares the new
 *   version's ctid.
 */
#include "pg/stmt.h"

#include <stdio.h>

#include "base/ascii.h"

static const struct {
    const char *name;
    unsigned oid, array_oid; /* from pg_type.dat; built in, so they never change */
} types[] = {
    [PG_UUID] = {"uuid", 2950, 2951},  [PG_I64] = {"bigint", 20, 1016},
    [PG_TEXT] = {"text", 25, 1009},    [PG_JSON] = {"json", 114, 199},
    [PG_BYTES] = {"bytea", 17, 1001},  [PG_TIME] = {"timestamptz", 1184, 1185},
    [PG_BOOL] = {"boolean", 16, 1000}, [PG_OIDS] = {"oidvector", 30, 1013},
};

const char *pg_type_name(enum pg_type type)
{
    ASSERT(type < ARRAY_LEN(types));
    return types[type].name;
}

unsigned pg_stmt_param_oid(const struct pg_stmt *stmt, enum pg_mode mode, size_t i)
{
    ASSERT(i < stmt->param_count && stmt->params[i].type < ARRAY_LEN(types));
    enum pg_type type = stmt->params[i].type;
    return mode == PG_MODE_SET ? types[type].array_oid : types[type].oid;
}

unsigned pg_stmt_account_at(const struct pg_stmt *stmt)
{
    for (unsigned i = 0; i < stmt->param_count; i++)
        if (stmt->params[i].type == PG_UUID && strcmp(stmt->params[i].name, "account_id") == 0)
            return i;
    return PG_PARAMS_MAX;
}

struct expansion {
    const struct pg_stmt *stmt;
    enum pg_mode mode;
    struct buf *out;
    struct err *err;
    slice rest;
};

/* Characters of parameters and markers: lower case only, like unquoted names in PostgreSQL. */
static bool is_name_byte(char c)
{
    return ascii_is_lower(c) || ascii_is_digit(c) || c == '_';
}

/* Takes the word at the start of rest; the word may be empty. */
static slice take_word(struct expansion *x)
{
    size_t len = 0;
    while (len < x->rest.len && is_name_byte(x->rest.ptr[len]))
        len++;
    slice word = slice_first(x->rest, len);
    x->rest = slice_from(x->rest, len);
    return word;
}

/* Takes "(table)" after a marker. Returns SLICE_NONE if it is missing or empty. */
static slice take_table(struct expansion *x)
{
    ptrdiff_t end = slice_find_char(x->rest, ')');
    if (x->rest.len == 0 || x->rest.ptr[0] != '(' || end < 2)
        return SLICE_NONE;
    slice table = slice_of(x->rest.ptr + 1, (size_t)end - 1);
    x->rest = slice_from(x->rest, (size_t)end + 1);
    return table;
}

static void put_sql(struct expansion *x, const char *text)
{
    buf_append_cstr(x->out, text);
}

/* row: the alias of a row that has the query's ordinal; SLICE_NONE: the row of input. So a part of
 * a WITH list need not return parameters, only ordinals: PostgreSQL stores each row that it
 * returns. */
static void put_param_of(struct expansion *x, slice row, size_t i)
{
    if (x->mode == PG_MODE_SET && row.ptr)
        buf_printf(x->out, "$%zu[%.*s.ord]", i + 1, SLICE_ARG(row));
    else if (x->mode == PG_MODE_SET)
        buf_printf(x->out, "i.%s", x->stmt->params[i].name);
    else
        buf_printf(x->out, "$%zu", i + 1);
}

static void put_param(struct expansion *x, size_t i)
{
    put_param_of(x, SLICE_NONE, i);
}

/* Writes "alias.account_id = i.account_id and ..." for the key parameters. */
static void put_key_condition(struct expansion *x, const char *alias)
{
    for (size_t i = 0; i < x->stmt->key_count; i++) {
        buf_printf(x->out, "%s%s.%s = ", i ? " and " : "", alias, x->stmt->params[i].name);
        put_param(x, i);
    }
}

static void put_read(struct expansion *x, slice table)
{
    if (x->mode == PG_MODE_PIPE) {
        buf_printf(x->out, "from %.*s t where ", SLICE_ARG(table));
        put_key_condition(x, "t");
        return;
    }
    /* `k` inside, `t` outside, so that a template's own conditions name the row the same way in
     * both modes. */
    buf_printf(x->out, "from input i, lateral (select * from %.*s k where ", SLICE_ARG(table));
    put_key_condition(x, "k");
    put_sql(x, " offset 0) t where true");
}

/* word: "from" of an UPDATE, "using" of a DELETE. */
static void put_change(struct expansion *x, const char *word)
{
    if (x->mode == PG_MODE_PIPE) {
        put_sql(x, "where ");
        put_key_condition(x, "t");
        return;
    }
    buf_printf(x->out, "%s input i where ", word);
    for (size_t i = 0; i < x->stmt->key_count; i++) {
        const char *name = x->stmt->params[i].name;
        /* The head of this file explains why the operator of the first column differs from the
         * others. */
        if (i == 0)
            buf_printf(x->out, "t.%s = any(array[i.%s])", name, name);
        else
            buf_printf(x->out, " and t.%s >= i.%s and t.%s <= i.%s", name, name, name, name);
    }
}

static bool put_table_marker(struct expansion *x, slice marker)
{
    if (x->stmt->key_count == 0)
        return false;
    /* Checked before the marker is known: all three need a table. */
    slice table = take_table(x);
    if (table.len == 0)
        return false;
    if (slice_eq(marker, SLICE("read")))
        put_read(x, table);
    else if (slice_eq(marker, SLICE("update")))
        put_change(x, "from");
    else if (slice_eq(marker, SLICE("delete")))
        put_change(x, "using");
    else
        return false;
    return true;
}

static int expand_marker(struct expansion *x)
{
    bool is_set = x->mode == PG_MODE_SET;
    slice marker = take_word(x);
    if (slice_eq(marker, SLICE("row")))
        put_sql(x, is_set ? "select" : "values (");
    else if (slice_eq(marker, SLICE("end")))
        put_sql(x, is_set ? "from input i" : ")");
    else if (slice_eq(marker, SLICE("from")))
        put_sql(x, is_set ? "from input i" : "");
    else if (slice_eq(marker, SLICE("input")))
        put_sql(x, is_set ? "input i," : "");
    else if (slice_eq(marker, SLICE("set")))
        put_sql(x, is_set ? "true" : "false");
    else if (!put_table_marker(x, marker))
        return err_set(x->err, ERR_SYNTAX, "statement %s: bad marker @%.*s", x->stmt->name,
                       SLICE_ARG(marker));
    return OK;
}

static int expand_param(struct expansion *x)
{
    slice name = take_word(x), row = SLICE_NONE;
    if (slice_starts_with(x->rest, SLICE("."))) {
        row = name;
        x->rest = slice_from(x->rest, 1);
        name = take_word(x);
    } else if (slice_eq(name, SLICE("ord"))) {
        /* A lone query has ordinal 1, so that both modes return the same columns. */
        put_sql(x, x->mode == PG_MODE_SET ? "i.ord" : "1::bigint");
        return OK;
    }
    for (size_t i = 0; i < x->stmt->param_count; i++) {
        if (!slice_eq_cstr(name, x->stmt->params[i].name))
            continue;
        put_param_of(x, row, i);
        return OK;
    }
    return err_set(x->err, ERR_SYNTAX, "statement %s has no parameter :%.*s", x->stmt->name,
                   SLICE_ARG(name));
}

size_t pg_stmt_set_max(const struct pg_stmt *stmt)
{
    enum { WRITES_MAX = 64 };
    return stmt->access == PG_READ ? SIZE_MAX : WRITES_MAX;
}

/* Writes: with input as (select * from unnest($1, $2) with ordinality as u(account_id, id, ord)) */
static void put_unnested(struct expansion *x)
{
    put_sql(x, "with input as (select * from unnest(");
    for (size_t i = 0; i < x->stmt->param_count; i++)
        buf_printf(x->out, "%s$%zu", i ? ", " : "", i + 1);
    put_sql(x, ") with ordinality as u(");
    for (size_t i = 0; i < x->stmt->param_count; i++)
        buf_printf(x->out, "%s, ", x->stmt->params[i].name);
    put_sql(x, "ord))");
}

/* Writes: with input as (select u.account_id, $2[u.ord] as id, u.ord from unnest($1) with
 * ordinality as u(account_id, ord)). PostgreSQL stores the rows of each unnested array, which is
 * 24,000 of the 170,000 instructions of a confirmed write (sets of 16). An element is found by
 * walking over those before it, unless they have one size: so sets are limited, and reads, which
 * may compare many rows with a parameter, unnest. */
static void put_subscripts(struct expansion *x)
{
    const struct pg_column *params = x->stmt->params;
    buf_printf(x->out, "with input as (select u.%s", params[0].name);
    for (size_t i = 1; i < x->stmt->param_count; i++)
        buf_printf(x->out, ", $%zu[u.ord] as %s", i + 1, params[i].name);
    buf_printf(x->out, ", u.ord from unnest($1) with ordinality as u(%s, ord))", params[0].name);
}

static void put_input(struct expansion *x)
{
    if (x->stmt->access == PG_READ)
        put_unnested(x);
    else
        put_subscripts(x);
    /* Two WITH lists cannot follow each other; the template's list is appended to this list. */
    if (slice_starts_with(x->rest, SLICE("with "))) {
        x->rest = slice_from(x->rest, 4);
        put_sql(x, ",");
    } else {
        put_sql(x, " ");
    }
}

/* Copies the text up to the next parameter, marker or quote. */
static void copy_sql(struct expansion *x)
{
    size_t len = 0;
    while (len < x->rest.len && x->rest.ptr[len] != ':' && x->rest.ptr[len] != '@' &&
           x->rest.ptr[len] != '\'')
        len++;
    buf_append(x->out, slice_first(x->rest, len));
    x->rest = slice_from(x->rest, len);
}

/* A literal may contain ':' and '@', as in a time or an address. '' inside a literal is two
 * literals here, which copies the same bytes. */
static void copy_quoted(struct expansion *x)
{
    ptrdiff_t end = slice_find_char(slice_from(x->rest, 1), '\'');
    size_t len = end < 0 ? x->rest.len : (size_t)end + 2;
    buf_append(x->out, slice_first(x->rest, len));
    x->rest = slice_from(x->rest, len);
}

static int expand_next(struct expansion *x)
{
    copy_sql(x);
    if (x->rest.len == 0)
        return OK;
    if (x->rest.ptr[0] == '\'') {
        copy_quoted(x);
        return OK;
    }
    /* A cast and an operator are not a parameter and a marker. */
    if (slice_starts_with(x->rest, SLICE("::")) || slice_starts_with(x->rest, SLICE("@>"))) {
        buf_append(x->out, slice_first(x->rest, 2));
        x->rest = slice_from(x->rest, 2);
        return OK;
    }
    bool is_marker = x->rest.ptr[0] == '@';
    x->rest = slice_from(x->rest, 1);
    return is_marker ? expand_marker(x) : expand_param(x);
}

int pg_stmt_expand(const struct pg_stmt *stmt, enum pg_mode mode, struct buf *out, struct err *err)
{
    ASSERT(stmt->param_count <= PG_PARAMS_MAX && stmt->column_count <= PG_COLUMNS_MAX);
    ASSERT(stmt->key_count <= stmt->param_count && strlen(stmt->name) < PG_STMT_NAME_MAX);
    struct expansion x = {stmt, mode, out, err, slice_cstr(stmt->sql)};
    if (mode == PG_MODE_SET && stmt->param_count == 0)
        return err_set(err, ERR_INVALID, "statement %s has no set form", stmt->name);
    if (mode == PG_MODE_SET)
        put_input(&x);
    while (x.rest.len) {
        int rc = expand_next(&x);
        if (rc != OK)
            return rc;
    }
    if (!buf_is_ok(out))
        return err_set(err, ERR_LIMIT, "statement %s is too long", stmt->name);
    return OK;
}
