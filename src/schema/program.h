/*
 * The output of schema_compile, which schema_validate runs. A node is one subschema; its ops are
 * its assertions and applicators in execution order (cheap ones first, unevaluated* last).
 * Everything is in the arena of schema_compile and is immutable afterwards.
 */
#ifndef SCHEMA_PROGRAM_H
#define SCHEMA_PROGRAM_H

#include "json/number.h"
#include "schema/schema.h"
#include "schema/format.h"
#include "schema/keyword.h"
#include "schema/pattern.h"

/* Bits of instance types. A whole number has two of them. */
enum schema_type {
    TYPE_NULL = 1,
    TYPE_BOOLEAN = 2,
    TYPE_NUMBER = 4,
    TYPE_STRING = 8,
    TYPE_ARRAY = 16,
    TYPE_OBJECT = 32,
    TYPE_INTEGER = 64,
    TYPE_ANY = 127,
};

struct schema_node;

struct schema_property {
    slice name;
    const struct schema_node *node; /* NULL: only required */
    bool is_required;
};

struct schema_pattern_property {
    const struct schema_pattern *pattern;
    const struct schema_node *node;
};

/* Which subschemas apply to which members of an object. */
struct schema_object {
    const struct schema_property *properties;
    const uint32_t *slots; /* hash table of names: index + 1 into properties; 0 is free */
    uint32_t slot_mask;
    uint32_t property_count;
    uint32_t required_count;
    uint32_t pattern_count;
    const struct schema_pattern_property *patterns;
    const struct schema_node *additional; /* NULL: absent */
};

struct schema_items {
    const struct schema_node *const *prefix;
    uint32_t prefix_count;
    const struct schema_node *rest; /* NULL: absent */
};

struct schema_contains {
    const struct schema_node *node;
    uint64_t min, max;
    bool has_min;
};

struct schema_dependency {
    slice name;
    const struct schema_node *node; /* dependentSchemas only */
    const struct json *required;    /* dependentRequired only: an array of strings */
    uint8_t keyword;                /* enum keyword: dependentRequired, dependentSchemas or
                                     * dependencies */
};

struct schema_dynamic_ref {
    slice anchor;                     /* empty: this reference behaves like $ref */
    const struct schema_node *target; /* the target if no dynamic scope has the anchor */
};

struct schema_if {
    /* consequence and alternative may be NULL */
    const struct schema_node *condition, *consequence, *alternative;
};

struct schema_op {
    uint8_t kind;  /* enum keyword; KW_PROPERTIES: all keywords about an object's members, KW_ITEMS:
                      prefixItems as well, KW_DEPENDENT_*: dependencies as well */
    uint8_t types; /* the types of instances that it checks */
    uint32_t count; /* number of nodes or dependencies, or the weight of a value to compare with */
    union {
        uint64_t limit;
        const struct json *value;
        const struct json_decimal *divisor;
        const struct schema_pattern *pattern;
        const struct schema_format *format;
        const struct schema_node *node;
        const struct schema_node *const *nodes;
        const struct schema_object *object;
        const struct schema_items *items;
        const struct schema_contains *contains;
        const struct schema_dependency *dependencies;
        const struct schema_dynamic_ref *dynamic_ref;
        const struct schema_if *branches;
    } as;
};

enum schema_verdict { VERDICT_BY_OPS, VERDICT_TRUE, VERDICT_FALSE };

struct schema_resource;

struct schema_node {
    const struct json *source; /* the subschema in the document: for locations in messages */
    const struct schema_resource *resource;
    const struct schema_op *ops;
    uint16_t op_count;
    uint8_t verdict; /* enum schema_verdict */
    uint8_t types;   /* the allowed types */
    bool has_unevaluated;
};

struct schema_dynamic_anchor {
    slice name;
    const struct schema_node *node;
};

/* A subschema with an $id of its own, or a document's root. */
struct schema_resource {
    slice uri; /* absolute if an $id or the document makes it so; without fragment */
    const struct json *root;
    const struct schema_document *document;
    const struct schema_dynamic_anchor *dynamic_anchors;
    uint32_t dynamic_anchor_count;
};

struct schema_document {
    slice uri; /* the URI it was found under; empty for the first document */
    const struct json *root;
};

struct schema {
    const struct schema_node *root;
    const struct schema_document *document; /* the one given to schema_compile */
};

/* Returns the maximum cost in fuel of a comparison with the value: the number of values, a
 * sixteenth of the bytes of strings, and the digits of a BIGNUM. */
uint32_t schema_weight(const struct json *value);
/* Appends a location such as "#/properties/a/type": the JSON Pointer from root to target (found
 * by identity), then the keyword; only "#" if a limited search does not find the target. */
void schema_location_write(struct buf *out, const struct json *root, const struct json *target,
                           slice keyword);

#endif
