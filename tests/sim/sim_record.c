/*
 * Writes each statement of a run, with the answer of the in-memory store (tests/seam/rows.h), to
 * the file that RECORD names. Another program runs the statements on a real database and compares
 * the answers (tests/integration/test_sim.c). A record:
 *
 *   u8 length and name of the statement, i64 time of the database (microseconds since 1970)
 *   u8 number of parameters; for each: u8 type (enum pg_type), u8 whether it is null, u32 length
 *      and bytes (16 for a uuid, 8 for a number, otherwise the text)
 *   i32 status, u32 rows (UINT32_MAX: not requested), u32 columns
 *   for each cell: i32 length (-1: null) and bytes, as the database sends them
 *
 * Numbers are in this machine's byte order.
 */
#include "sim/sim.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static FILE *file;

void sim_record_open(void)
{
    const char *path = getenv("RECORD");
    if (!path || !*path)
        return;
    file = fopen(path, "wb");
    ASSERT(file);
}

void sim_record_close(void)
{
    if (file)
        (void)fclose(file);
    file = NULL;
}

static void put(const void *bytes, size_t len)
{
    ASSERT(len == 0 || fwrite(bytes, len, 1, file) == 1);
}

static void put_u8(unsigned value)
{
    uint8_t byte = (uint8_t)value;
    put(&byte, 1);
}

static void put_bytes(const void *bytes, size_t len)
{
    uint32_t length = (uint32_t)len;
    put(&length, sizeof(length));
    put(bytes, len);
}

static void put_param(const struct pg_value *value)
{
    put_u8(value->type);
    put_u8(value->is_null);
    if (value->is_null)
        put_bytes("", 0);
    else if (value->type == PG_UUID)
        put_bytes(value->as.uuid.bytes, sizeof(value->as.uuid.bytes));
    else if (value->type == PG_TEXT || value->type == PG_JSON || value->type == PG_BYTES)
        put_bytes(value->as.bytes.ptr, value->as.bytes.len);
    else
        put_bytes(&value->as.i64, sizeof(value->as.i64));
}

static void put_rows(const struct pg_rows *rows)
{
    uint32_t columns = (uint32_t)rows->column_count, count = (uint32_t)rows->count;
    put(&count, sizeof(count));
    put(&columns, sizeof(columns));
    for (size_t i = 0; i < rows->count * rows->column_count; i++) {
        put(&rows->cells[i].len, sizeof(rows->cells[i].len));
        if (rows->cells[i].len > 0)
            put(rows->cells[i].ptr, (size_t)rows->cells[i].len);
    }
}

void sim_record(void *owner, const struct pg_query *query, int status)
{
    const struct pg_stmt *stmt = seam_query_stmt(query);
    static const struct pg_rows unasked = {.count = UINT32_MAX};
    int64_t now = seam_store_now();
    int32_t code = status;
    (void)owner;
    /* No statement of a run creates connections or keys, so a real database would find none. And
     * the rows only count the events of the audit trail. */
    if (!file || strncmp(stmt->name, "connection_", 11) == 0 ||
        strcmp(stmt->name, "api_key_is_kin") == 0 || strcmp(stmt->name, "audit_list") == 0)
        return;
    put_u8((unsigned)strlen(stmt->name));
    put(stmt->name, strlen(stmt->name));
    put(&now, sizeof(now));
    put_u8(stmt->param_count);
    for (size_t i = 0; i < stmt->param_count; i++)
        put_param(&query->params[i]);
    put(&code, sizeof(code));
    put_rows(seam_query_is_abandoned(query) ? &unasked : &query->rows);
}
