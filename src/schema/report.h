/*
 * Shared by the files that word violations.
 */
#ifndef SCHEMA_REPORT_H
#define SCHEMA_REPORT_H

#include "schema/run.h"

/* Enters a violation and returns false. The texts lie in the report's arena; a long message is cut.
 * hint: empty for none. */
bool schema_report_enter(struct schema_run *run, const struct schema_at *at, slice keyword,
                         slice message, slice hint);

/* Both in the report's arena, as all texts of a report. A name or a string in quotes, shortened: */
slice schema_text_quote(const struct schema_run *run, slice name);
/* A value in a few words: "x", 5, true, null, an array of 3 items, an object. */
slice schema_text_value(const struct schema_run *run, const struct json *value);

#endif
