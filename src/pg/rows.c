/*
 * Allocates twice: one block for all cells of a query and one for all their bytes.
 */
#include "pg/rows.h"

static size_t row_bytes(const PGresult *result, size_t row, size_t lead, size_t columns)
{
    size_t bytes = 0;
    for (size_t i = 0; i < columns; i++)
        bytes += 1 + (size_t)PQgetlength(result, (int)row, (int)(lead + i));
    return bytes;
}

static char *copy_cell(const PGresult *result, size_t row, size_t col, struct pg_cell *cell,
                       char *text)
{
    *cell = (struct pg_cell){.len = -1};
    if (PQgetisnull(result, (int)row, (int)col))
        return text;
    cell->len = PQgetlength(result, (int)row, (int)col);
    cell->ptr = text;
    memcpy(text, PQgetvalue(result, (int)row, (int)col), (size_t)cell->len);
    text[cell->len] = '\0';
    return text + cell->len + 1;
}

int pg_rows_copy(struct arena *arena, const PGresult *result, size_t lead, size_t columns,
                 const size_t *numbers, size_t count, struct pg_rows *out)
{
    *out = (struct pg_rows){.column_count = columns};
    if (columns == 0)
        out->count = count;
    if (count == 0 || columns == 0)
        return OK;
    size_t bytes = 0;
    for (size_t i = 0; i < count; i++)
        bytes += row_bytes(result, numbers ? numbers[i] : i, lead, columns);
    struct pg_cell *cells = ARENA_ARRAY(arena, struct pg_cell, count * columns);
    char *text = cells ? arena_alloc_text(arena, bytes) : NULL;
    if (!text)
        return ERR_NOMEM;
    for (size_t i = 0; i < count; i++)
        for (size_t col = 0; col < columns; col++)
            text = copy_cell(result, numbers ? numbers[i] : i, lead + col,
                             &cells[i * columns + col], text);
    out->cells = cells;
    out->count = count;
    return OK;
}
