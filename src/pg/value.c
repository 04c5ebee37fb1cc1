/*
 * Binary formats: integers big-endian, times as microseconds since 2000-01-01, arrays with a header
 * of dimensions (utils/array.h and *_send of PostgreSQL).
 *
 * Binary in both directions: no quoting, no parsing of numbers, and bytea is not doubled in size.
 * The numbers of this file are part of PostgreSQL's wire format and do not change between versions.
 */
#include "pg/value.h"

#include "base/map.h"
#include "pg/stmt.h"

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "pg/value.c swaps bytes for a little-endian machine"
#endif

enum { OID_OID = 26 }; /* the Oid of the type oid */

/* 1970-01-01 to 2000-01-01 */
#define PG_EPOCH_US ((int64_t)946684800 * 1000000)

struct pg_value pg_uuid(struct uuid value)
{
    return (struct pg_value){.type = PG_UUID, .as.uuid = value};
}

struct pg_value pg_i64(int64_t value)
{
    return (struct pg_value){.type = PG_I64, .as.i64 = value};
}

struct pg_value pg_bool(bool value)
{
    return (struct pg_value){.type = PG_BOOL, .as.i64 = value};
}

static struct pg_value pg_of_bytes(enum pg_type type, slice value)
{
    return (struct pg_value){.type = (uint8_t)type, .is_null = !value.ptr, .as.bytes = value};
}

struct pg_value pg_text(slice value)
{
    return pg_of_bytes(PG_TEXT, value);
}

struct pg_value pg_json(slice value)
{
    return pg_of_bytes(PG_JSON, value);
}

struct pg_value pg_bytes(slice value)
{
    return pg_of_bytes(PG_BYTES, value);
}

struct pg_value pg_time(int64_t wall_us)
{
    return (struct pg_value){.type = PG_TIME, .is_null = wall_us == 0, .as.i64 = wall_us};
}

struct pg_value pg_null(enum pg_type type)
{
    return (struct pg_value){.type = (uint8_t)type, .is_null = true};
}

/* ---- encode ---- */

static void store_be64(char *out, uint64_t value)
{
    value = __builtin_bswap64(value);
    memcpy(out, &value, sizeof(value));
}

/* Returns the end of what it has written. */
static char *put_be32(char *out, uint32_t value)
{
    value = __builtin_bswap32(value);
    memcpy(out, &value, sizeof(value));
    return out + sizeof(value);
}

slice pg_value_encode(const struct pg_value *value, char scratch[8])
{
    ASSERT(!value->is_null);
    switch ((enum pg_type)value->type) {
    case PG_UUID:
        return uuid_slice(&value->as.uuid);
    case PG_TIME:
        store_be64(scratch, (uint64_t)(value->as.i64 - PG_EPOCH_US));
        return slice_of(scratch, 8);
    case PG_I64:
        store_be64(scratch, (uint64_t)value->as.i64);
        return slice_of(scratch, 8);
    case PG_BOOL:
        scratch[0] = value->as.i64 != 0;
        return slice_of(scratch, 1);
    case PG_TEXT:
    case PG_JSON:
    case PG_BYTES:
    case PG_OIDS:
        return value->as.bytes;
    }
    UNREACHABLE("a pg_value without a type");
    return SLICE_NONE;
}

size_t pg_value_size(const struct pg_value *value)
{
    /* As in arrays: 4 bytes of length for each element. Used for limits, so BOOL may count 8. */
    if (value->is_null)
        return 4;
    bool is_bytes = value->type == PG_TEXT || value->type == PG_JSON || value->type == PG_BYTES ||
                    value->type == PG_OIDS;
    return 4 + (is_bytes ? value->as.bytes.len : value->type == PG_UUID ? 16 : 8);
}

/* ndim, a flag for nulls, the element's Oid, then for each dimension its size and lower bound. */
enum { ARRAY_HEAD_BYTES = 20 };
static char *put_array_head(char *out, bool has_null, unsigned oid, size_t count, uint32_t first)
{
    out = put_be32(out, 1);
    out = put_be32(out, has_null);
    out = put_be32(out, oid);
    out = put_be32(out, (uint32_t)count);
    return put_be32(out, first);
}

static char *put_element(char *out, const struct pg_value *value)
{
    char scratch[8];
    if (value->is_null)
        return put_be32(out, UINT32_MAX); /* the length -1 */
    slice bytes = pg_value_encode(value, scratch);
    out = put_be32(out, (uint32_t)bytes.len);
    if (bytes.len > 0) /* the pointer of an empty text may be NULL */
        memcpy(out, bytes.ptr, bytes.len);
    return out + bytes.len;
}

void pg_array_encode(struct buf *out, const struct pg_stmt *stmt, struct pg_query *const *queries,
                     size_t count, size_t i)
{
    /* An array without elements has another header (no dimensions); no batch is empty. */
    ASSERT(count > 0 && count <= INT32_MAX && i < stmt->param_count);
    bool has_null = false;
    size_t size = ARRAY_HEAD_BYTES;
    for (size_t q = 0; q < count; q++) {
        has_null |= queries[q]->params[i].is_null;
        size += pg_value_size(&queries[q]->params[i]);
    }
    char *begin = buf_reserve(out, size);
    if (!begin)
        return;
    char *end = put_array_head(begin, has_null, pg_stmt_param_oid(stmt, PG_MODE_PIPE, i), count, 1);
    for (size_t q = 0; q < count; q++)
        end = put_element(end, &queries[q]->params[i]);
    ASSERT((size_t)(end - begin) <= size);
    buf_added(out, (size_t)(end - begin));
}

void pg_oids_write(char *out, const uint32_t *list, size_t count)
{
    ASSERT(count > 0 && count <= INT32_MAX);
    out = put_array_head(out, false, OID_OID, count, 0); /* the bound that the type demands */
    for (size_t i = 0; i < count; i++)
        out = put_be32(put_be32(out, sizeof(list[i])), list[i]);
}

size_t pg_oids_count(slice value)
{
    ASSERT(value.len >= PG_OIDS_BYTES(1) && value.len % 8 == PG_OIDS_BYTES(0) % 8);
    return (value.len - PG_OIDS_BYTES(0)) / 8;
}

uint32_t pg_oids_get(slice value, size_t i)
{
    uint32_t number;
    ASSERT(i < pg_oids_count(value));
    memcpy(&number, value.ptr + PG_OIDS_BYTES(i) + 4, sizeof(number));
    return __builtin_bswap32(number);
}

/* ---- compare ---- */

static int cmp_i64(int64_t a, int64_t b)
{
    return (a > b) - (a < b);
}

int pg_value_cmp(const struct pg_value *a, const struct pg_value *b)
{
    ASSERT(a->type == b->type);
    if (a->is_null || b->is_null)
        return (int)b->is_null - (int)a->is_null;
    if (a->type == PG_UUID)
        return uuid_cmp(a->as.uuid, b->as.uuid);
    if (a->type == PG_I64 || a->type == PG_TIME || a->type == PG_BOOL)
        return cmp_i64(a->as.i64, b->as.i64);
    return slice_cmp(a->as.bytes, b->as.bytes);
}

int pg_value_cmp_cell(const struct pg_value *value, const struct pg_cell *cell)
{
    char scratch[8];
    if (value->is_null || cell->len < 0)
        return (int)(cell->len < 0) - (int)value->is_null;
    slice theirs = slice_of(cell->ptr, (size_t)cell->len);
    /* Compared as numbers: as bytes, a negative number would come last. Both have the server's
     * epoch, so times need no conversion. */
    if ((value->type == PG_I64 || value->type == PG_TIME) && theirs.len == 8) {
        slice ours = pg_value_encode(value, scratch);
        return cmp_i64((int64_t)pg_load_be64(ours.ptr), (int64_t)pg_load_be64(theirs.ptr));
    }
    return slice_cmp(pg_value_encode(value, scratch), theirs);
}

int pg_cell_cmp(enum pg_type type, const struct pg_cell *a, const struct pg_cell *b)
{
    if (a->len < 0 || b->len < 0)
        return (int)(a->len < 0) - (int)(b->len < 0);
    if (type == PG_I64 || type == PG_TIME)
        return cmp_i64((int64_t)pg_load_be64(a->ptr), (int64_t)pg_load_be64(b->ptr));
    return slice_cmp(slice_of(a->ptr, (size_t)a->len), slice_of(b->ptr, (size_t)b->len));
}

uint64_t pg_values_hash(const struct pg_value *values, size_t count)
{
    /* The hash is mixed between values (murmur3's finalizer), else ("a", "b") and ("b", "a")
     * would collide. */
    uint64_t hash = 0x9E3779B97F4A7C15u;
    for (size_t i = 0; i < count; i++) {
        char scratch[8];
        slice bytes = values[i].is_null ? SLICE_NONE : pg_value_encode(&values[i], scratch);
        hash = (hash ^ hash_stable(bytes.ptr, bytes.len)) * 0xFF51AFD7ED558CCDu;
        hash ^= hash >> 32;
    }
    return hash ? hash : 1; /* 0 means "no row" in pg/collect.c */
}

/* ---- decode ---- */

static const struct pg_cell *cell_at(const struct pg_rows *rows, size_t row, size_t col)
{
    ASSERT(row < rows->count && col < rows->column_count);
    return &rows->cells[row * rows->column_count + col];
}

bool pg_is_null(const struct pg_rows *rows, size_t row, size_t col)
{
    return cell_at(rows, row, col)->len < 0;
}

struct uuid pg_get_uuid(const struct pg_rows *rows, size_t row, size_t col)
{
    const struct pg_cell *cell = cell_at(rows, row, col);
    struct uuid id = {{0}};
    if (cell->len == sizeof(id.bytes))
        memcpy(id.bytes, cell->ptr, sizeof(id.bytes));
    return id;
}

int64_t pg_get_i64(const struct pg_rows *rows, size_t row, size_t col)
{
    const struct pg_cell *cell = cell_at(rows, row, col);
    return cell->len == 8 ? (int64_t)pg_load_be64(cell->ptr) : 0;
}

bool pg_get_bool(const struct pg_rows *rows, size_t row, size_t col)
{
    const struct pg_cell *cell = cell_at(rows, row, col);
    return cell->len == 1 && cell->ptr[0] != 0;
}

slice pg_get_bytes(const struct pg_rows *rows, size_t row, size_t col)
{
    const struct pg_cell *cell = cell_at(rows, row, col);
    return cell->len < 0 ? SLICE_NONE : slice_of(cell->ptr, (size_t)cell->len);
}

int64_t pg_get_time(const struct pg_rows *rows, size_t row, size_t col)
{
    const struct pg_cell *cell = cell_at(rows, row, col);
    if (cell->len != 8)
        return 0;
    int64_t us = (int64_t)pg_load_be64(cell->ptr);
    /* 'infinity' and '-infinity' do not depend on the epoch; adding it would overflow. */
    if (us == INT64_MAX || us == INT64_MIN)
        return us;
    return us + PG_EPOCH_US;
}
