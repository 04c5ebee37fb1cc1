/*
 * The compiler's own state, shared by its files: compile.c (nodes and the queue),
 * assert.c and apply.c (keywords), registry.c (documents, $id, anchors, $ref).
 * Gone when schema_compile returns; what stays is program.h's.
 */
#ifndef SCHEMA_COMPILE_H
#define SCHEMA_COMPILE_H

#include "base/map.h"
#include "schema/keyword.h"
#include "schema/program.h"

enum {
    SCHEMA_OPS_MAX = 40,          /* of one node: each kind at most once, two of them twice */
    SCHEMA_SCAN_DEPTH_MAX = 1024, /* nested subschemas of one document */
};

struct compile_node {
    struct schema_node node;
    struct compile_node *next; /* in the queue */
};

struct compile_anchor {
    slice name;
    const struct json *source;
    struct compile_anchor *next;
    bool is_dynamic;
};

struct compile_resource {
    struct schema_resource resource;
    struct compile_anchor *anchors;
    struct compile_resource *next;
    uint32_t dynamic_count;
};

struct schema_compiler {
    struct arena *arena;
    const struct schema_options *options;
    struct err *err;
    struct map by_uri;    /* URI -> compile_resource */
    struct map by_root;   /* address of a json -> compile_resource */
    struct map by_member; /* address of a wide object, alone and with a name behind it -> value */
    struct map by_json;   /* address of a json -> compile_node */
    struct compile_resource *resources;
    struct compile_node *queue, **queue_end;
    size_t node_count;
    size_t document_count;
    bool has_dynamic_ref;
    /* the node being compiled */
    const struct schema_node *node;
    const struct json *keywords[KW_COUNT];
    struct schema_op ops[SCHEMA_OPS_MAX];
    size_t op_count;
};

/* Of the maps whose keys are addresses. */
static inline slice address_key(const struct json *const *address)
{
    return (slice){(const char *)address, sizeof(*address)};
}

/* Sets err to "schema <location>: <message>" and returns code. keyword may be KW_COUNT. */
int schema_fail(struct schema_compiler *compiler, enum err_code code, enum keyword keyword,
                const char *fmt, ...) PRINTF_LIKE(4, 5);
int schema_fail_memory(struct schema_compiler *compiler);

/* The node of a subschema, made and queued when it is new. NULL with err set. */
struct schema_node *schema_node_for(struct schema_compiler *compiler, const struct json *source,
                                    const struct schema_resource *resource) MUST_CHECK;
/* What a keyword of the current node becomes. Of keyword KW_COUNT: several ones are read together,
 * and `compile` gets NULL. */
struct schema_rule {
    uint8_t keyword, kind; /* enum keyword; kind is the op's */
    uint8_t types;         /* of instances that the op is about */
    uint8_t vocabulary;    /* enum schema_vocabulary: of which the dialect must have one */
    int (*compile)(struct schema_compiler *, const struct schema_rule *, const struct json *);
};

/* Those of the node's keywords that have a rule, in the order of the rules. OK or an error. */
int schema_rules_compile(struct schema_compiler *compiler, const struct schema_rule *rules,
                         size_t count) MUST_CHECK;
/* Room for an op, cleared; its kind and types are set. */
struct schema_op *schema_op_add(struct schema_compiler *compiler, const struct schema_rule *rule);
/* The keywords of the current node. OK or an error. */
int schema_compile_asserts(struct schema_compiler *compiler, struct schema_node *node) MUST_CHECK;
int schema_compile_applicators(struct schema_compiler *compiler) MUST_CHECK;
/* A keyword's count, cut to 64 bits. OK or an error. */
int schema_count_read(struct schema_compiler *compiler, enum keyword keyword,
                      const struct json *value, uint64_t *count) MUST_CHECK;

/* ---- registry ---- */

/* Enters a document with all its resources and anchors. NULL with err set. */
struct compile_resource *schema_document_add(struct schema_compiler *compiler,
                                             const struct json *root, slice uri) MUST_CHECK;
/* Where a reference from the current node leads: the subschema and its resource. anchor gets the
 * name when that is a $dynamicAnchor, else SLICE_NONE. */
int schema_ref_resolve(struct schema_compiler *compiler, enum keyword keyword, slice reference,
                       const struct json **source, const struct schema_resource **resource,
                       slice *anchor) MUST_CHECK;
/* The vocabularies that a $schema selects. */
int schema_dialect_find(struct schema_compiler *compiler, slice uri,
                        uint8_t *vocabularies) MUST_CHECK;

#endif
