/*
 * The rows of the simulation, compared with the real statements: the statements of a run
 * (tests/sim/sim_record.c) are repeated in a real database, whose now() is that of the run, and
 * each must return the same status and the same rows.
 */
#include <stdlib.h>
#include <unistd.h>

#include "pg/sync.h"
#include "store/store.h"
#include "support/pg_cluster.h"
#include "support/rows.h"
#include "unit.h"

enum { ROW_BYTES_MAX = 64 * 1024 * 1024, COLUMNS_MAX = 40 };

struct replay {
    FILE *file;
    struct pg_sync *sync;
    struct arena arena;     /* holds one record */
    size_t done, with_rows; /* statements that ran, and those whose rows were compared */
};

/* ---- reading ---- */

static bool get(struct replay *r, void *bytes, size_t len)
{
    return len == 0 || fread(bytes, len, 1, r->file) == 1;
}

static const struct pg_stmt *find_stmt(const char *name)
{
    const struct pg_stmt *stmt;
    for (size_t i = 0; (stmt = store_stmt_at(i)); i++)
        if (strcmp(stmt->name, name) == 0)
            return stmt;
    fail_msg("there is no statement %s", name);
    return NULL;
}

static struct pg_value get_param(struct replay *r)
{
    uint8_t type, is_null;
    uint32_t len;
    assert_true(get(r, &type, 1) && get(r, &is_null, 1) && get(r, &len, sizeof(len)));
    char *bytes = arena_alloc_text(&r->arena, len + 1);
    assert_true(get(r, bytes, len));
    struct pg_value value = {.type = type, .is_null = is_null};
    if (type == PG_UUID && !is_null)
        memcpy(value.as.uuid.bytes, bytes, sizeof(value.as.uuid.bytes));
    else if (type == PG_TEXT || type == PG_JSON || type == PG_BYTES)
        value.as.bytes = slice_of(bytes, len);
    else if (!is_null)
        memcpy(&value.as.i64, bytes, sizeof(value.as.i64));
    return value;
}

static struct pg_rows get_rows(struct replay *r)
{
    uint32_t count, columns;
    assert_true(get(r, &count, sizeof(count)) && get(r, &columns, sizeof(columns)));
    struct pg_rows rows = {.count = count, .column_count = columns};
    if (count == UINT32_MAX)
        return rows;
    rows.cells = ARENA_ARRAY(&r->arena, struct pg_cell, (size_t)count * columns + 1);
    for (size_t i = 0; i < (size_t)count * columns; i++) {
        struct pg_cell *cell = &rows.cells[i];
        assert_true(get(r, &cell->len, sizeof(cell->len)));
        if (cell->len < 0)
            continue;
        char *bytes = arena_alloc_text(&r->arena, (size_t)cell->len + 1);
        assert_true(get(r, bytes, (size_t)cell->len));
        cell->ptr = bytes;
    }
    return rows;
}

/* ---- comparing ---- */

static bool is_same_row(const struct pg_rows *a, size_t i, const struct pg_rows *b, size_t j)
{
    for (size_t col = 0; col < a->column_count; col++) {
        const struct pg_cell *x = &a->cells[i * a->column_count + col];
        const struct pg_cell *y = &b->cells[j * b->column_count + col];
        if (x->len != y->len || (x->len > 0 && memcmp(x->ptr, y->ptr, (size_t)x->len) != 0))
            return false;
    }
    return true;
}

/* Compares the rows in any order, since the rows of a scan have none. */
static bool is_same(const struct pg_rows *wanted, const struct pg_rows *got)
{
    if (wanted->count != got->count)
        return false;
    for (size_t i = 0; i < wanted->count && wanted->column_count > 0; i++) {
        bool is_found = false;
        for (size_t j = 0; j < got->count && !is_found; j++)
            is_found = is_same_row(wanted, i, got, j);
        if (!is_found)
            return false;
    }
    return true;
}

static void print_rows(const char *whose, const struct pg_rows *rows)
{
    print_error("%s: %zu rows\n", whose, rows->count);
    for (size_t i = 0; i < rows->count * rows->column_count; i++) {
        const struct pg_cell *cell = &rows->cells[i];
        print_error("  %zu: ", i % rows->column_count);
        for (int32_t at = 0; at < cell->len; at++)
            print_error(cell->ptr[at] >= ' ' && cell->ptr[at] <= '~' ? "%c" : "\\%02x",
                        (unsigned char)cell->ptr[at]);
        print_error(cell->len < 0 ? "null\n" : "\n");
    }
}

/* ---- replaying ---- */

static void set_now(struct replay *r, int64_t now)
{
    char sql[80];
    struct err err;
    (void)snprintf(sql, sizeof(sql), "set sim.now = '%lld'", (long long)now);
    assert_int_equal(pg_sync_run(r->sync, sql, &err), OK);
}

/* Repeats one statement. Returns false at the end of the file. */
static bool replay_one(struct replay *r)
{
    struct pg_value params[PG_PARAMS_MAX];
    struct err err = {.text = ""};
    struct pg_rows got = {0};
    char name[256];
    uint8_t len, count;
    int64_t now;
    int32_t status;
    if (!get(r, &len, 1))
        return false;
    assert_true(get(r, name, len));
    name[len] = '\0';
    assert_true(get(r, &now, sizeof(now)) && get(r, &count, 1));
    const struct pg_stmt *stmt = find_stmt(name);
    assert_int_equal(count, stmt->param_count);
    for (size_t i = 0; i < count; i++)
        params[i] = get_param(r);
    assert_true(get(r, &status, sizeof(status)));
    struct pg_rows wanted = get_rows(r);
    set_now(r, now);
    int result = pg_sync_exec(r->sync, stmt, params, &r->arena, &got, &err);
    bool is_asked = wanted.count != UINT32_MAX && status == OK && stmt->match != PG_MATCH_NONE;
    if (result != status || (is_asked && !is_same(&wanted, &got))) {
        print_error("statement %zu, %s: the rows give %d, the database %d %s\n", r->done, name,
                    status, result, err.text);
        if (is_asked) {
            print_rows("the rows", &wanted);
            print_rows("the database", &got);
        }
        fail();
    }
    r->done++;
    r->with_rows += is_asked && got.count > 0;
    return true;
}

static void must(struct pg_sync *sync, const char *sql)
{
    struct err err;
    if (pg_sync_run(sync, sql, &err) != OK)
        fail_msg("%s", err.text);
}

/* A database whose now() is the run's, starting at the run's first day. */
static struct pg_sync *open_database(void)
{
    struct err err;
    struct account account = {.name = SLICE("sim")};
    struct pg_sync *sync = pg_sync_open(pg_cluster_database(true), &err);
    if (!sync)
        fail_msg("%s", err.text);
    assert_true(uuid_parse(SLICE("019b7600-0000-7000-8000-000000000001"), &account.account_id));
    assert_int_equal(rows_account(sync, &account), OK);
    must(sync, "create schema sim; create function sim.now() returns timestamptz language sql "
               "stable as $$ select timestamptz 'epoch' + current_setting('sim.now')::bigint * "
               "interval '1 microsecond' $$; set search_path = sim, pg_catalog; "
               "set synchronous_commit = off; set sim.now = '1782892800000000'; select "
               "sluice.partitions_make(1)");
    return sync;
}

static void replay_seed(unsigned seed)
{
    char command[512], path[] = "/tmp/sluice-sim-XXXXXX";
    const char *program = getenv("SLUICE_SIM_BIN");
    int fd = mkstemp(path);
    assert_true(program && fd >= 0);
    (void)snprintf(command, sizeof(command),
                   "RECORD=%s SEED=%u FLOWS=40 EXECUTIONS=60 %s >/dev/null 2>&1", path, seed,
                   program);
    assert_int_equal(system(command), 0);
    struct replay r = {.file = fdopen(fd, "rb"), .sync = open_database()};
    arena_init(&r.arena, ROW_BYTES_MAX);
    (void)unlink(path);
    while (replay_one(&r))
        arena_reset(&r.arena);
    print_message("figure: %zu statements of seed %u compared, %zu with rows\n", r.done, seed,
                  r.with_rows);
    assert_true(r.done > 1000 && r.with_rows > 300);
    arena_deinit(&r.arena);
    (void)fclose(r.file);
    pg_sync_close(r.sync);
}

static void the_rows_do_what_the_statements_do(void **state)
{
    (void)state;
    for (unsigned seed = 1; seed <= 4; seed++)
        replay_seed(seed);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_rows_do_what_the_statements_do),
    };
    return cmocka_run_group_tests_name("sim", tests, NULL, NULL);
}
