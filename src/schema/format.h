/*
 * The formats of JSON Schema 2020-12 that are checked. For internationalized host names only the
 * form is checked, not the tables of code points and the context rules of RFC 5892.
 */
#ifndef SCHEMA_FORMAT_H
#define SCHEMA_FORMAT_H

#include "schema/pattern.h"

struct schema_format {
    slice name;
    const char *hint; /* an example of the format, for messages */
    /* Exactly one is set: a function over the text that does not allocate, or a pattern. */
    bool (*check)(slice text);
    const char *source;
    const struct schema_pattern *pattern; /* the compiled source; only in the format of an op */
};

/* Returns NULL for a format that is not checked. */
const struct schema_format *schema_format_find(slice name);
/* Returns the maximum cost of the format's function on this text. */
uint64_t schema_format_fuel(const struct schema_format *format, slice text);

#endif
