/*
 * The compiler's own state, shared by its files: compile.c (nodes and the queue), rules.c
 * (keywords), registry.c (documents, $id, anchors, $ref). It exists only during schema_compile; the
 * result is in program.h.
 */
#ifndef SCHEMA_COMPILE_H
#define SCHEMA_COMPILE_H

#include "base/map.h"
#include "schema/keyword.h"
#include "schema/program.h"

enum {
    SCHEMA_OPS_MAX = 40,          /* per node: each kind at most once, except two kinds twice */
    SCHEMA_SCAN_DEPTH_MAX = 1024, /* nested subschemas of one document */
};

struct compile_node {
    struct schema_node node;
    struct compile_node *next; /* next node in the queue */
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
    struct err *err;
    bool assert_formats;
    struct map by_uri;    /* URI -> compile_resource */
    struct map by_root;   /* address of a json -> compile_resource */
    struct map by_member; /* address of a wide object, alone or followed by a name -> value */
    struct map by_json;   /* address of a json -> compile_node */
    struct compile_resource *resources;
    struct compile_node *queue, **queue_end;
    size_t node_count;
    bool has_dynamic_ref;
    /* the node being compiled */
    const struct schema_node *node;
    const struct json *keywords[KW_COUNT];
    struct schema_op ops[SCHEMA_OPS_MAX];
    size_t op_count;
};

/* Makes a key for maps whose keys are addresses. */
static inline slice address_key(const struct json *const *address)
{
    return (slice){(const char *)address, sizeof(*address)};
}

/* Sets err to "schema <location>: <message>" and returns code. keyword may be KW_COUNT. */
int schema_fail(struct schema_compiler *compiler, enum err_code code, enum keyword keyword,
                const char *fmt, ...) PRINTF_LIKE(4, 5);
int schema_fail_memory(struct schema_compiler *compiler);
/* Compiles a pattern into the arena; returns NULL with err set. */
const struct schema_pattern *schema_pattern_of(struct schema_compiler *compiler,
                                               enum keyword keyword, slice source) MUST_CHECK;

/* Returns the node of a subschema, which is created and queued if it is new. Returns NULL with err
 * set on failure. */
struct schema_node *schema_node_for(struct schema_compiler *compiler, const struct json *source,
                                    const struct schema_resource *resource) MUST_CHECK;
/* Compiles the current node's keywords to ops, in the order in which they run. Returns OK or an
 * error. */
int schema_rules_compile(struct schema_compiler *compiler, struct schema_node *node) MUST_CHECK;

/* ---- registry ---- */

/* Registers a document with all its resources and anchors. Returns NULL with err set on failure. */
struct compile_resource *schema_document_add(struct schema_compiler *compiler,
                                             const struct json *root, slice uri) MUST_CHECK;
/* Finds the target of a reference from the current node: the subschema and its resource. anchor
 * gets the name if it is a $dynamicAnchor, otherwise SLICE_NONE. */
int schema_ref_resolve(struct schema_compiler *compiler, enum keyword keyword, slice reference,
                       const struct json **source, const struct schema_resource **resource,
                       slice *anchor) MUST_CHECK;

#endif
