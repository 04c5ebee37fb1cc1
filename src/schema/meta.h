/*
 * The meta-schemas of 2020-12, compiled in, so that a schema may $ref them without a network.
 */
#ifndef SCHEMA_META_H
#define SCHEMA_META_H

#include "base/slice.h"

#define SCHEMA_META_URI "https://json-schema.org/draft/2020-12/schema"

/* Returns the text of the meta-schema with that URI; SLICE_NONE if there is none. */
slice schema_meta_find(slice uri);

#endif
