/*
 * Shared by the files that word violations: a text under construction.
 */
#ifndef SCHEMA_REPORT_H
#define SCHEMA_REPORT_H

#include "schema/run.h"

struct schema_text {
    struct buf message, hint;
};

void schema_text_begin(struct schema_text *text);
/* Enters and frees it; returns false. */
bool schema_text_enter(struct schema_run *run, struct schema_text *text, const struct schema_at *at,
                       slice keyword);

/* A name or a string in quotes, shortened. */
void schema_text_quote(struct buf *out, slice name);
/* A value in a few words: "x", 5, true, null, an array of 3 items, an object. */
void schema_text_value(struct buf *out, const struct json *value);
slice schema_op_keyword(const struct schema_op *op);

#endif
