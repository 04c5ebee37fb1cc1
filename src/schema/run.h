/*
 * The state of one validation, shared by the schema_run*.c files. Everything is on the stack; only
 * the report outlives it.
 */
#ifndef SCHEMA_RUN_H
#define SCHEMA_RUN_H

#include "schema/keyword.h"
#include "schema/program.h"

struct evaluated_set;

/* A position in the instance; the root has no path. */
struct schema_path {
    const struct schema_path *parent;
    const struct json *key; /* NULL: an item */
    uint32_t index;
};

/* The resources entered on the way to this node, for $dynamicRef. */
struct schema_scope {
    const struct schema_scope *outer;
    const struct schema_resource *resource;
};

struct schema_at {
    const struct json *value;
    const struct schema_path *path;
    const struct schema_scope *scope;
    struct evaluated_set *evaluated; /* NULL: not needed */
    const struct schema_node *node;
};

struct schema_run {
    uint64_t fuel;
    size_t depth;
    struct schema_report *report; /* NULL: only a yes or no is wanted, so the first "no" ends the
                                   * run */
    const struct schema *schema;
    const char *stop_reason; /* set if the run was stopped early; all answers are then "no" */
    bool is_known_invalid;   /* the instance is invalid: only the reasons are still needed */
    size_t violations_max;   /* maximum of violations in the report; the run ends there */
    unsigned detail_depth;   /* reports inside reports, for the alternatives of anyOf */
};

enum {
    FUEL_NODE = 10,
    FUEL_OP = 3,
    FUEL_MEMBER = 12,
    FUEL_ITEM = 4,
    FUEL_VIOLATION = 400, /* also charged for a duplicate, whose text was made, too */
};

void schema_stop(struct schema_run *run, const char *reason);

/* Returns false and stops the run if there is not enough fuel. */
static inline bool schema_spend(struct schema_run *run, uint64_t fuel)
{
    if (__builtin_expect(run->fuel < fuel, 0)) {
        schema_stop(run, "it takes too many steps");
        return false;
    }
    run->fuel -= fuel;
    return true;
}

/* Whether no further violations are reported. */
static inline bool schema_is_over(const struct schema_run *run)
{
    return !run->report || run->stop_reason || run->report->is_cut;
}

bool schema_run_node(struct schema_run *run, const struct schema_node *node,
                     const struct schema_at *at);
unsigned schema_types_of(const struct json *value);
/* Whether the text matches. Also false if the fuel is used up, which stops the run. */
bool schema_pattern_is_match(struct schema_run *run, const struct schema_pattern *pattern,
                             slice text);
/* Returns NULL if properties and required do not have that name. Members are often in the schema's
 * own order: *next, 0 at first, is the index after the last property found; that property is tried
 * first. */
const struct schema_property *schema_find_property(const struct schema_object *object, slice name,
                                                   uint32_t *next);

/* ---- report ---- Each function returns false, so that a check may return its result, and does
 * nothing if run->report is NULL. op may be NULL. */

bool schema_report_type(struct schema_run *run, const struct schema_at *at);
bool schema_report_value(struct schema_run *run, const struct schema_op *op,
                         const struct schema_at *at);
bool schema_report_count(struct schema_run *run, const struct schema_op *op,
                         const struct schema_at *at, uint64_t got);
bool schema_report_unique(struct schema_run *run, const struct schema_at *at, uint32_t first,
                          uint32_t second);
bool schema_report_missing(struct schema_run *run, const struct schema_at *at,
                           const struct schema_object *object);
bool schema_report_dependent(struct schema_run *run, const struct schema_at *at,
                             const struct schema_dependency *dependency, slice missing);
bool schema_report_unknown(struct schema_run *run, const struct schema_at *at, enum keyword keyword,
                           uint32_t index);
bool schema_report_extra_item(struct schema_run *run, const struct schema_at *at,
                              enum keyword keyword, uint32_t index, uint32_t allowed);
bool schema_report_forbidden(struct schema_run *run, const struct schema_at *at,
                             enum keyword keyword);
bool schema_report_property_name(struct schema_run *run, const struct schema_op *op,
                                 const struct schema_at *at, const struct json *key);
bool schema_report_contains(struct schema_run *run, const struct schema_op *op,
                            const struct schema_at *at, uint64_t got);
bool schema_report_none_match(struct schema_run *run, const struct schema_op *op,
                              const struct schema_at *at);
bool schema_report_several_match(struct schema_run *run, const struct schema_at *at, uint32_t first,
                                 uint32_t second);
void schema_report_stop(struct schema_run *run);

/* ---- suggestions ---- */

/* Returns the node's property that `name` most likely means; SLICE_NONE if none is close. */
slice schema_suggest_property(const struct schema_node *node, slice name);
/* Lists up to max known names; returns the total number. */
size_t schema_known_properties(const struct schema_node *node, slice *names, size_t max);
/* Returns the number of the object's members that the node knows; only the first 64 members are
 * counted. */
size_t schema_members_known(const struct schema_node *node, const struct json *object);

#endif
