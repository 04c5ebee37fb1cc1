/*
 * schema_run: validation, the walk over nodes, references, and the applicators that work in place.
 * A first run without a report decides; only an invalid instance is validated again to collect what
 * is wrong, so valid ones, which are nearly all, pay nothing for messages.
 *
 * Fuel and depth bound every run: a schema may refer to itself, and allOf of allOf doubles work
 * with each level. Once stopped, every function answers "no" quickly, and the caller asks
 * run->stop_reason which "no" it was.
 */
#include "schema/run.h"

#include "base/mem.h"
#include "base/thread_block.h"

/* ---- limits ---- */

void schema_stop(struct schema_run *run, const char *reason)
{
    if (!run->stop_reason)
        run->stop_reason = reason;
    /* No fuel: whatever goes on without a check of stop_reason ends at its next charge. */
    run->fuel = 0;
}

static bool enter_node(struct schema_run *run)
{
    if (run->stop_reason || !schema_spend(run, FUEL_NODE))
        return false;
    if (run->depth == SCHEMA_DEPTH_MAX) {
        schema_stop(run, "it goes too deep; the schema may refer to itself without end");
        return false;
    }
    run->depth++;
    return true;
}

/* ---- what was evaluated ---- */

enum { EVALUATED_WORDS = 4096 };

/* A stack, as validation is one: what was taken last goes first. */
struct evaluated_space {
    uint64_t words[EVALUATED_WORDS];
    size_t used;
};

/* Only threads that validate have one. */
static _Thread_local struct evaluated_space *evaluated_space;

bool evaluated_init(struct schema_run *run, struct evaluated_set *evaluated, uint32_t count)
{
    *evaluated = (struct evaluated_set){.words = (uint32_t)(((uint64_t)count + 63) / 64)};
    if (evaluated->words <= 1) {
        evaluated->words = 1;
        evaluated->bits = &evaluated->few;
        return true;
    }
    /* Both clearing and merging cost a word each. */
    if (!schema_spend(run, evaluated->words))
        return false;
    if (!evaluated_space)
        evaluated_space = thread_block_new(sizeof(*evaluated_space));
    if (evaluated_space && evaluated->words <= EVALUATED_WORDS - evaluated_space->used) {
        evaluated->bits = evaluated_space->words + evaluated_space->used;
        evaluated_space->used += evaluated->words;
        memset(evaluated->bits, 0, evaluated->words * sizeof(*evaluated->bits));
        return true;
    }
    evaluated->bits = mem_calloc(evaluated->words, sizeof(*evaluated->bits));
    evaluated->is_heap = true;
    if (!evaluated->bits)
        schema_stop(run, "there is not enough memory for it");
    return evaluated->bits != NULL;
}

void evaluated_deinit(struct evaluated_set *evaluated)
{
    /* Last taken, first given back: the function that took a set gives it back. */
    if (evaluated->is_heap) {
        mem_free(evaluated->bits);
    } else if (evaluated->bits != &evaluated->few) {
        ASSERT(evaluated_space->used >= evaluated->words);
        evaluated_space->used -= evaluated->words;
    }
}

void evaluated_merge(struct evaluated_set *to, const struct evaluated_set *from)
{
    ASSERT(to->words == from->words);
    for (uint32_t i = 0; i < to->words; i++)
        to->bits[i] |= from->bits[i];
}

static uint32_t container_count(const struct json *value)
{
    return value->type == JSON_ARRAY || value->type == JSON_OBJECT ? value->count : 0;
}

/* ---- in place ---- */

bool schema_run_quietly(struct schema_run *run, const struct schema_node *node,
                        const struct schema_at *at)
{
    struct schema_report *report = run->report;
    /* Branches that may fail must not report: only the keyword as a whole is wrong. */
    run->report = NULL;
    bool is_valid = false;
    if (!at->evaluated) {
        is_valid = schema_run_node(run, node, at);
    } else {
        struct evaluated_set branch;
        struct schema_at inner = *at;
        /* A set of its own: what a failed branch has evaluated does not count (Core 7.7.1). */
        inner.evaluated = &branch;
        if (evaluated_init(run, &branch, container_count(at->value))) {
            is_valid = schema_run_node(run, node, &inner);
            if (is_valid)
                evaluated_merge(at->evaluated, &branch);
            evaluated_deinit(&branch);
        }
    }
    run->report = report;
    return is_valid;
}

bool schema_run_child(struct schema_run *run, const struct schema_node *node,
                      const struct schema_at *at, const struct json *key, uint32_t index)
{
    /* The path and the scope are on the C stack: SCHEMA_DEPTH_MAX bounds it. */
    const struct schema_path path = {at->path, key, index};
    const struct json *value = key ? &at->value->as.members[index].value
                                   : &at->value->as.items[index];
    const struct schema_at child = {value, &path, at->scope, NULL, node};
    return schema_run_node(run, node, &child);
}

static bool run_all_of(struct schema_run *run, const struct schema_op *op,
                       const struct schema_at *at)
{
    /* Without a report the first "no" is the answer; with one, all branches are gone through. */
    bool is_valid = true;
    for (uint32_t i = 0; i < op->count; i++) {
        if (schema_run_node(run, op->as.nodes[i], at))
            continue;
        is_valid = false;
        if (schema_is_over(run))
            break;
    }
    return is_valid;
}

/* Every alternative is tried where the evaluated members are needed. */
static bool run_any_of(struct schema_run *run, const struct schema_op *op,
                       const struct schema_at *at)
{
    bool is_valid = false;
    for (uint32_t i = 0; i < op->count && !run->stop_reason; i++) {
        is_valid |= schema_run_quietly(run, op->as.nodes[i], at);
        if (is_valid && !at->evaluated)
            break;
    }
    return is_valid || schema_report_none_match(run, op, at);
}

static bool run_one_of(struct schema_run *run, const struct schema_op *op,
                       const struct schema_at *at)
{
    uint32_t first = op->count;
    for (uint32_t i = 0; i < op->count && !run->stop_reason; i++) {
        if (!schema_run_quietly(run, op->as.nodes[i], at))
            continue;
        /* A second match decides, so later branches need no run. */
        if (first < op->count)
            return schema_report_several_match(run, at, first, i);
        first = i;
    }
    return first < op->count || schema_report_none_match(run, op, at);
}

static bool run_not(struct schema_run *run, const struct schema_op *op, const struct schema_at *at)
{
    struct schema_at inner = *at;
    /* What matches under "not" is not evaluated: a success there is a failure here. */
    inner.evaluated = NULL;
    return !schema_run_quietly(run, op->as.node, &inner) ||
           schema_report_forbidden(run, at, KW_NOT);
}

static bool run_if(struct schema_run *run, const struct schema_if *branches,
                   const struct schema_at *at)
{
    bool is_met = schema_run_quietly(run, branches->condition, at);
    const struct schema_node *next = is_met ? branches->consequence : branches->alternative;
    return !next || schema_run_node(run, next, at);
}

/* Core 8.2.3.2: the outermost resource on the way here that has the anchor decides. */
static bool run_dynamic_ref(struct schema_run *run, const struct schema_dynamic_ref *ref,
                            const struct schema_at *at)
{
    const struct schema_node *target = ref->target;
    /* From the innermost outwards without a break: the last one found is the outermost. */
    const struct schema_scope *scope = ref->anchor.len > 0 ? at->scope : NULL;
    for (; scope && schema_spend(run, FUEL_OP); scope = scope->outer) {
        const struct schema_resource *resource = scope->resource;
        for (uint32_t i = 0; i < resource->dynamic_anchor_count; i++) {
            if (slice_eq(resource->dynamic_anchors[i].name, ref->anchor))
                target = resource->dynamic_anchors[i].node;
        }
    }
    return schema_run_node(run, target, at);
}

/* ---- nodes ---- */

static bool run_op(struct schema_run *run, const struct schema_op *op, const struct schema_at *at)
{
    switch (op->kind) {
    case KW_REF:
        return schema_run_node(run, op->as.node, at);
    case KW_DYNAMIC_REF:
        return run_dynamic_ref(run, op->as.dynamic_ref, at);
    case KW_ALL_OF:
        return run_all_of(run, op, at);
    case KW_ANY_OF:
        return run_any_of(run, op, at);
    case KW_ONE_OF:
        return run_one_of(run, op, at);
    case KW_NOT:
        return run_not(run, op, at);
    case KW_IF:
        return run_if(run, op->as.branches, at);
    default:
        break;
    }
    if (op->types == TYPE_OBJECT)
        return schema_run_object(run, op, at);
    if (op->types == TYPE_ARRAY)
        return schema_run_array(run, op, at);
    return schema_run_value(run, op, at);
}

unsigned schema_types_of(const struct json *value)
{
    static const uint8_t types[] = {
        [JSON_NULL] = TYPE_NULL,
        [JSON_BOOL] = TYPE_BOOLEAN,
        [JSON_INT] = TYPE_NUMBER | TYPE_INTEGER,
        [JSON_UINT] = TYPE_NUMBER | TYPE_INTEGER,
        [JSON_REAL] = TYPE_NUMBER,
        [JSON_BIGNUM] = TYPE_NUMBER,
        [JSON_STRING] = TYPE_STRING,
        [JSON_ARRAY] = TYPE_ARRAY,
        [JSON_OBJECT] = TYPE_OBJECT,
        [JSON_RAW] = 0,
    };
    ASSERT(value->type < ARRAY_LEN(types));
    return types[value->type];
}

static bool has_allowed_type(struct schema_run *run, const struct schema_node *node,
                             const struct json *value, unsigned types)
{
    if (types & node->types)
        return true;
    /* 1.0 and 1e3 are integers too. */
    if (!(types & TYPE_NUMBER) || !(node->types & TYPE_INTEGER))
        return false;
    return schema_spend(run, value->type == JSON_BIGNUM ? value->count : FUEL_OP) &&
           json_number_is_integer(value);
}

static bool run_ops(struct schema_run *run, const struct schema_node *node,
                    const struct schema_at *at)
{
    unsigned types = schema_types_of(at->value);
    if (!has_allowed_type(run, node, at->value, types))
        return schema_report_type(run, at);
    bool is_valid = true;
    for (uint32_t i = 0; i < node->op_count; i++) {
        const struct schema_op *op = &node->ops[i];
        /* An op about other types does not concern this instance: assertions pass (Core 7.6.1). */
        if (!(op->types & types))
            continue;
        if (schema_spend(run, FUEL_OP) && run_op(run, op, at))
            continue;
        is_valid = false;
        if (schema_is_over(run))
            break;
    }
    return is_valid;
}

static bool run_evaluating(struct schema_run *run, const struct schema_node *node,
                           const struct schema_at *at)
{
    struct evaluated_set own;
    struct schema_at inner = *at;
    if (!evaluated_init(run, &own, container_count(at->value)))
        return false;
    inner.evaluated = &own;
    bool is_valid = run_ops(run, node, &inner);
    if (is_valid && at->evaluated)
        evaluated_merge(at->evaluated, &own);
    evaluated_deinit(&own);
    return is_valid;
}

bool schema_run_node(struct schema_run *run, const struct schema_node *node,
                     const struct schema_at *at)
{
    if (node->verdict == VERDICT_TRUE)
        return true;
    if (node->verdict == VERDICT_FALSE)
        return schema_report_forbidden(run, at, KW_COUNT);
    if (!enter_node(run))
        return false;
    const struct schema_scope scope = {at->scope, node->resource};
    struct schema_at here = *at;
    here.node = node;
    /* A new scope only where the resource changes: a chain of references within one stays short. */
    if (!at->scope || at->scope->resource != node->resource)
        here.scope = &scope;
    bool is_valid = node->has_unevaluated ? run_evaluating(run, node, &here)
                                          : run_ops(run, node, &here);
    run->depth--;
    return is_valid;
}

/* ---- the whole ---- */

bool schema_validate(const struct schema *schema, const struct json *instance,
                     struct schema_report *report)
{
    ASSERT(schema && instance);
    struct schema_run run = {.fuel = SCHEMA_FUEL, .schema = schema};
    const struct schema_at at = {.value = instance};
    bool is_valid = schema_run_node(&run, schema->root, &at) && !run.stop_reason;
    if (is_valid || !report)
        return is_valid;
    run.report = report;
    run.violations_max = SCHEMA_VIOLATIONS_MAX;
    ASSERT(run.depth == 0);
    if (!run.stop_reason) {
        /* A second budget: the first run may have used up nearly all of the fuel. */
        run.fuel = SCHEMA_REPORT_FUEL;
        run.is_known_invalid = true;
        (void)schema_run_node(&run, schema->root, &at);
    }
    if (run.stop_reason)
        schema_report_stop(&run);
    return false;
}
