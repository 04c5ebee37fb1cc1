/*
 * The formats of JSON Schema 2020-12 that are checked, each a function over one text; none
 * allocates. Of internationalized host names only the shape is checked, not the tables of code
 * points and the context rules of RFC 5892.
 */
#ifndef SCHEMA_FORMAT_H
#define SCHEMA_FORMAT_H

#include "base/slice.h"

typedef bool schema_format_fn(slice text);

struct schema_format {
    slice name;
    schema_format_fn *check;
    const char *hint;       /* an example of the form, for messages */
    unsigned fuel_per_byte; /* what checking may cost */
};

/* NULL for a format that is not checked. */
const struct schema_format *schema_format_find(slice name);

/* RFC 3339 */
bool format_date_time(slice text);
bool format_date(slice text);
bool format_time(slice text);
bool format_duration(slice text);
/* RFC 3986, 3987, 6570 */
bool format_uri(slice text);
bool format_uri_reference(slice text);
bool format_iri(slice text);
bool format_iri_reference(slice text);
bool format_uri_template(slice text);
/* RFC 5321 4.1.2, 6531; RFC 1123 2.1, RFC 5890; RFC 2673 3.2; RFC 4291 2.2 */
bool format_email(slice text);
bool format_idn_email(slice text);
bool format_hostname(slice text);
bool format_idn_hostname(slice text);
bool format_ipv4(slice text);
bool format_ipv6(slice text);

#endif
