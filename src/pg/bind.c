/*
 * Members are read and written by offset and size, with memcpy: their types were checked where the
 * column was written (PG_OF), and a struct does not have to know that it is bound.
 */
#include "pg/bind.h"

/* ---- from a struct ---- */

static unsigned load_word(const struct pg_column *column, const char *at)
{
    unsigned number = 0;
    ASSERT(column->len == 1 || column->len == sizeof(number));
    memcpy(&number, at, column->len); /* little-endian: pg/value.c */
    ASSERT(number < column->words->count);
    return number;
}

static void bind_member(const struct pg_column *column, const char *at, struct pg_value *value)
{
    value->type = (uint8_t)column->type;
    value->is_null = false;
    switch (column->kind) {
    case PG_IS_UUID:
        memcpy(&value->as.uuid, at, sizeof(value->as.uuid));
        value->is_null = column->has_null && uuid_is_nil(value->as.uuid);
        break;
    case PG_IS_I64:
        memcpy(&value->as.i64, at, sizeof(value->as.i64));
        /* 0 means no time (pg_time). */
        value->is_null = value->as.i64 == 0 && (column->has_null || column->type == PG_TIME);
        break;
    case PG_IS_BOOL:
        value->as.i64 = *(const bool *)at;
        break;
    case PG_IS_ARRAY:
        value->as.bytes = slice_of(at, column->len);
        break;
    case PG_IS_WORD:
        value->as.bytes = slice_cstr(column->words->list[load_word(column, at)]);
        value->is_null = !value->as.bytes.ptr;
        break;
    case PG_IS_NOW:
        value->as.i64 = clock_shared_us();
        break;
    case PG_IS_NEW:
        value->as.uuid = uuid_v7();
        break;
    case PG_IS_MADE:
        value->is_null = true;
        break;
    case PG_IS_SLICE:
    case PG_IS_VALUE:
        memcpy(&value->as.bytes, at, sizeof(value->as.bytes));
        if (column->has_no_null && !value->as.bytes.ptr)
            value->as.bytes = SLICE("");
        value->is_null = !value->as.bytes.ptr;
    }
}

void pg_bind(const struct pg_stmt *stmt, const void *from, const struct pg_value *values,
             size_t count, struct pg_value *params)
{
    size_t used = 0;
    for (size_t i = 0; i < stmt->param_count; i++) {
        const struct pg_column *column = &stmt->params[i];
        bool is_drawn = column->kind == PG_IS_NOW || column->kind == PG_IS_NEW ||
                        column->kind == PG_IS_MADE;
        ASSERT(column->kind == PG_IS_VALUE ? used < count : from || is_drawn);
        if (column->kind == PG_IS_VALUE)
            params[i] = values[used++];
        else
            bind_member(column, is_drawn ? NULL : (const char *)from + column->at, &params[i]);
    }
    ASSERT(used == count);
}

/* ---- to a struct ---- */

static unsigned find_word(const struct pg_words *words, slice word)
{
    for (unsigned i = 0; i < words->count; i++)
        if (words->list[i] ? slice_eq_cstr(word, words->list[i]) : !word.ptr)
            return i;
    ASSERT(words->unknown < words->count); /* otherwise only these words are ever written */
    return words->unknown;
}

static void read_member(const struct pg_column *column, const struct pg_rows *rows, size_t row,
                        size_t col, char *at)
{
    struct uuid id;
    int64_t number;
    unsigned word;
    slice bytes;
    switch (column->kind) {
    case PG_IS_UUID:
        id = pg_get_uuid(rows, row, col);
        memcpy(at, &id, sizeof(id));
        break;
    case PG_IS_I64:
        number = column->type == PG_TIME ? pg_get_time(rows, row, col) : pg_get_i64(rows, row, col);
        memcpy(at, &number, sizeof(number));
        break;
    case PG_IS_BOOL:
        *(bool *)at = pg_get_bool(rows, row, col);
        break;
    case PG_IS_SLICE:
        bytes = pg_get_bytes(rows, row, col);
        memcpy(at, &bytes, sizeof(bytes));
        break;
    case PG_IS_ARRAY:
        bytes = pg_get_bytes(rows, row, col);
        ASSERT(bytes.len == column->len); /* it is written from such a member */
        memcpy(at, bytes.ptr, bytes.len);
        break;
    case PG_IS_WORD:
        word = find_word(column->words, pg_get_bytes(rows, row, col));
        memcpy(at, &word, column->len);
        break;
    case PG_IS_NOW:
    case PG_IS_NEW:
    case PG_IS_MADE:
        UNREACHABLE("a parameter's, not a result's");
    case PG_IS_VALUE:
        break;
    }
}

void pg_read(const struct pg_stmt *stmt, const struct pg_rows *rows, size_t row, void *out)
{
    for (size_t col = 0; col < stmt->column_count; col++)
        read_member(&stmt->columns[col], rows, row, col, (char *)out + stmt->columns[col].at);
}
