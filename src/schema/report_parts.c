/*
 * schema_report_parts: the wording of violations about the parts of objects and arrays, and about
 * alternatives. Each function returns at once where no report is wanted (schema_is_over), before
 * any text is made.
 */
#include "base/suggest.h"
#include "schema/report.h"

enum {
    DESCRIPTION_BYTES_MAX = 120,
    KNOWN_PRINTED_MAX = 12,
    ALTERNATIVES_PRINTED_MAX = 4,
    DETAIL_DEPTH_MAX = 3, /* alternatives inside alternatives */
    REF_STEPS_MAX = 8,
};

/* ---- unknown and missing properties ---- */

static struct schema_at member_at(const struct schema_at *at, uint32_t index,
                                  struct schema_path *path)
{
    const struct json_member *member = &at->value->as.members[index];
    *path = (struct schema_path){at->path, &member->key, index};
    return (struct schema_at){&member->value, path, at->scope, NULL, at->node};
}

static slice known_text(const struct schema_run *run, const struct schema_node *node)
{
    struct arena *arena = run->report->arena;
    slice names[KNOWN_PRINTED_MAX], text = SLICE_NONE;
    size_t total = schema_known_properties(node, names, ARRAY_LEN(names));
    size_t printed = total < ARRAY_LEN(names) ? total : ARRAY_LEN(names);
    for (size_t i = 0; i < printed; i++)
        text = arena_printf(arena, "%.*s%s%.*s", SLICE_ARG(text), i > 0 ? ", " : "; known here: ",
                            SLICE_ARG(schema_text_quote(run, names[i])));
    return total == printed
               ? text
               : arena_printf(arena, "%.*s and %zu more", SLICE_ARG(text), total - printed);
}

bool schema_report_unknown(struct schema_run *run, const struct schema_at *at, enum keyword keyword,
                           uint32_t index)
{
    struct schema_path path;
    if (schema_is_over(run))
        return false;
    struct arena *arena = run->report->arena;
    struct schema_at member = member_at(at, index, &path);
    slice name = schema_text_quote(run, json_str(path.key)), message, hint;
    slice meant = schema_suggest_property(at->node, json_str(path.key));
    /* The name that is near is there already, so renaming would lose one of two values. */
    if (meant.ptr && !json_get(at->value, meant)) {
        meant = schema_text_quote(run, meant);
        message = arena_printf(arena, "unknown property %.*s; did you mean %.*s?", SLICE_ARG(name),
                               SLICE_ARG(meant));
        hint = arena_printf(arena, "rename %.*s to %.*s", SLICE_ARG(name), SLICE_ARG(meant));
    } else {
        message = arena_printf(arena, "unknown property %.*s%.*s", SLICE_ARG(name),
                               SLICE_ARG(known_text(run, at->node)));
        hint = arena_printf(arena, "remove %.*s", SLICE_ARG(name));
    }
    return schema_report_enter(run, &member, keyword_name(keyword), message, hint);
}

/* The first sentence of a description. */
static slice first_sentence(slice text)
{
    size_t len = 0;
    while (len < text.len && len < DESCRIPTION_BYTES_MAX && text.ptr[len] != '\n' &&
           !(text.ptr[len] == '.' && (len + 1 == text.len || text.ptr[len + 1] == ' ')))
        len++;
    return slice_first_utf8(text, len);
}

/* A member of the instance that the schema does not know and whose name is near. */
static slice misspelt_member(const struct schema_at *at, slice wanted)
{
    /* At most 100 members: a hint is not worth more comparisons. */
    for (uint32_t i = 0; i < at->value->count && i < 100; i++) {
        slice name = json_str(&at->value->as.members[i].key);
        unsigned allowed = wanted.len / 3 > 2 ? 2 : (unsigned)(wanted.len / 3);
        if (suggest_distance(name, wanted, allowed + 1) > allowed)
            continue;
        /* Near to the wanted name is not enough: it must be nearer to it than to any other known
         * name. */
        slice meant = schema_suggest_property(at->node, name);
        if (slice_eq(meant, wanted))
            return name;
    }
    return SLICE_NONE;
}

static slice hint_missing(const struct schema_run *run, const struct schema_at *at,
                          const struct schema_property *property)
{
    struct arena *arena = run->report->arena;
    slice name = schema_text_quote(run, property->name),
          wrong = misspelt_member(at, property->name);
    if (wrong.ptr)
        return arena_printf(arena, "rename %.*s to %.*s", SLICE_ARG(schema_text_quote(run, wrong)),
                            SLICE_ARG(name));
    const struct json *source = property->node ? property->node->source : NULL;
    slice type = json_get_str(source, SLICE("type"));
    slice description = first_sentence(json_get_str(source, SLICE("description")));
    if (type.len == 0 && description.len == 0)
        return arena_printf(arena, "add %.*s", SLICE_ARG(name));
    return arena_printf(arena, "add %.*s (%.*s%s%.*s)", SLICE_ARG(name), SLICE_ARG(type),
                        type.len > 0 && description.len > 0 ? ": " : "", SLICE_ARG(description));
}

bool schema_report_missing(struct schema_run *run, const struct schema_at *at,
                           const struct schema_object *object)
{
    for (uint32_t i = 0; i < object->property_count; i++) {
        const struct schema_property *property = &object->properties[i];
        if (schema_is_over(run))
            return false;
        /* The charge pays for json_get, which is linear in the members. */
        if (!property->is_required || !schema_spend(run, at->value->count) ||
            json_get(at->value, property->name))
            continue;
        slice message = arena_printf(run->report->arena, "missing required property %.*s",
                                     SLICE_ARG(schema_text_quote(run, property->name)));
        (void)schema_report_enter(run, at, SLICE("required"), message,
                                  hint_missing(run, at, property));
    }
    return false;
}

bool schema_report_dependent(struct schema_run *run, const struct schema_at *at,
                             const struct schema_dependency *dependency, slice missing)
{
    if (schema_is_over(run))
        return false;
    struct arena *arena = run->report->arena;
    slice name = schema_text_quote(run, missing);
    slice message =
        arena_printf(arena, "missing property %.*s, which is required where %.*s is present",
                     SLICE_ARG(name), SLICE_ARG(schema_text_quote(run, dependency->name)));
    return schema_report_enter(run, at, keyword_name(dependency->keyword), message,
                               arena_printf(arena, "add %.*s", SLICE_ARG(name)));
}

/* ---- items ---- */

bool schema_report_unique(struct schema_run *run, const struct schema_at *at, uint32_t first,
                          uint32_t second)
{
    if (schema_is_over(run))
        return false;
    struct arena *arena = run->report->arena;
    slice value = schema_text_value(run, &at->value->as.items[first]);
    slice message = arena_printf(arena,
                                 "all items must differ, but items %u and %u are equal (%.*s)",
                                 first + 1, second + 1, SLICE_ARG(value));
    return schema_report_enter(run, at, SLICE("uniqueItems"), message,
                               arena_printf(arena, "remove item %u", second + 1));
}

bool schema_report_extra_item(struct schema_run *run, const struct schema_at *at,
                              enum keyword keyword, uint32_t index, uint32_t allowed)
{
    if (schema_is_over(run))
        return false;
    struct arena *arena = run->report->arena;
    /* A list of fixed length: the message names the length. unevaluatedItems has no such number. */
    slice message = keyword == KW_ITEMS
                        ? arena_printf(arena, "must have at most %u item%s (got %u)", allowed,
                                       allowed == 1 ? "" : "s", at->value->count)
                        : arena_printf(arena, "item %u is not allowed here", index + 1);
    return schema_report_enter(run, at, keyword_name(keyword), message, SLICE_NONE);
}

bool schema_report_contains(struct schema_run *run, const struct schema_op *op,
                            const struct schema_at *at, uint64_t got)
{
    const struct schema_contains *contains = op->as.contains;
    if (schema_is_over(run))
        return false;
    bool is_few = got < contains->min;
    slice keyword = !is_few             ? SLICE("maxContains")
                    : contains->has_min ? SLICE("minContains")
                                        : SLICE("contains");
    slice message = arena_printf(
        run->report->arena, "at %s %llu of its items must match \"contains\" (%s%llu do%s)",
        is_few ? "least" : "most", (unsigned long long)(is_few ? contains->min : contains->max),
        is_few ? "" : "at least ", (unsigned long long)got, got == 1 ? "es" : "");
    return schema_report_enter(run, at, keyword, message, SLICE_NONE);
}

/* ---- what is not allowed at all ---- */

bool schema_report_forbidden(struct schema_run *run, const struct schema_at *at,
                             enum keyword keyword)
{
    if (schema_is_over(run))
        return false;
    slice message = SLICE("is not allowed here");
    if (keyword == KW_NOT)
        message = SLICE("has a form that is ruled out by \"not\"");
    else if (at->path && at->path->key)
        message = arena_printf(run->report->arena, "property %.*s is not allowed here",
                               SLICE_ARG(schema_text_quote(run, json_str(at->path->key))));
    return schema_report_enter(run, at, keyword_name(keyword), message, SLICE_NONE);
}

/* ---- alternatives ---- */

/* What is wrong according to one node, without the usual report. NULL when there is no memory for
 * it, no room in depth, or nothing wrong. */
static const struct schema_report *report_closer(struct schema_run *run,
                                                 const struct schema_node *node,
                                                 const struct schema_at *at)
{
    struct schema_report *outer = run->report;
    struct schema_report *inner =
        run->detail_depth < DETAIL_DEPTH_MAX ? ARENA_NEW(outer->arena, struct schema_report) : NULL;
    if (!inner)
        return NULL;
    schema_report_init(inner, outer->arena, outer->prefix);
    /* Evaluated members are not wanted: the outer run has decided that the instance is invalid. */
    struct schema_at alone = *at;
    alone.evaluated = NULL;
    /* The run's state is exchanged for this one report and put back; fuel is shared, so details
     * cannot cost more than the rest. */
    size_t outer_max = run->violations_max;
    run->report = inner;
    run->violations_max = 1;
    run->detail_depth++;
    bool is_valid = schema_run_node(run, node, &alone);
    run->detail_depth--;
    run->violations_max = outer_max;
    run->report = outer;
    return !is_valid && inner->count > 0 ? inner : NULL;
}

/* The violation's pointer as seen from `at`; empty when it is the same value. */
static slice relative_pointer(const struct schema_run *run, const struct schema_at *at,
                              slice pointer)
{
    /* The prefix and one token for each level of the path are in front of what is relative. */
    size_t depth = 0;
    for (const struct schema_path *path = at->path; path; path = path->parent)
        depth++;
    pointer = slice_from(pointer, run->report->prefix.len);
    for (; depth > 0 && pointer.len > 0; depth--) {
        ptrdiff_t slash = slice_find_char(slice_from(pointer, 1), '/');
        pointer = slash < 0 ? SLICE_NONE : slice_from(pointer, (size_t)slash + 1);
    }
    return pointer;
}

bool schema_report_property_name(struct schema_run *run, const struct schema_op *op,
                                 const struct schema_at *at, const struct json *key)
{
    if (schema_is_over(run))
        return false;
    const struct schema_at name = {key, at->path, at->scope, NULL, op->as.node};
    const struct schema_report *detail = report_closer(run, op->as.node, &name);
    slice why = detail ? detail->violations[0].message : SLICE("is not allowed");
    slice message = arena_printf(run->report->arena, "the property name %.*s %.*s",
                                 SLICE_ARG(schema_text_quote(run, json_str(key))), SLICE_ARG(why));
    return schema_report_enter(run, at, SLICE("propertyNames"), message, SLICE_NONE);
}

static unsigned allowed_types(const struct schema_node *node)
{
    unsigned types = node->types;
    /* A $ref alone is followed, at most REF_STEPS_MAX times: references may go in circles. */
    for (unsigned step = 0; step < REF_STEPS_MAX; step++) {
        const struct schema_node *next = NULL;
        for (uint32_t i = 0; i < node->op_count && !next; i++)
            next = node->ops[i].kind == KW_REF ? node->ops[i].as.node : NULL;
        if (!next)
            break;
        types &= next->types;
        node = next;
    }
    return node->verdict == VERDICT_FALSE ? 0 : types;
}

/* The only alternative for a value of this type, as in "an object or null". */
static const struct schema_node *only_candidate(const struct schema_op *op,
                                                const struct json *value)
{
    unsigned types = schema_types_of(value);
    const struct schema_node *candidate = NULL;
    /* A whole number may be wanted as an integer. */
    if (types & TYPE_NUMBER)
        types |= TYPE_INTEGER;
    for (uint32_t i = 0; i < op->count; i++) {
        if (!(allowed_types(op->as.nodes[i]) & types))
            continue;
        if (candidate)
            return NULL;
        candidate = op->as.nodes[i];
    }
    return candidate;
}

static slice alternative_text(struct schema_run *run, const struct schema_node *node,
                              const struct schema_at *at)
{
    const struct schema_report *detail = report_closer(run, node, at);
    if (!detail)
        return SLICE("does not match");
    slice pointer = relative_pointer(run, at, detail->violations[0].pointer);
    return arena_printf(run->report->arena, "%.*s%s%.*s", SLICE_ARG(pointer),
                        pointer.len > 0 ? ": " : "", SLICE_ARG(detail->violations[0].message));
}

bool schema_report_none_match(struct schema_run *run, const struct schema_op *op,
                              const struct schema_at *at)
{
    if (schema_is_over(run))
        return false;
    const struct schema_node *candidate = only_candidate(op, at->value);
    if (candidate) {
        /* Its own violations say more than "matches none"; they go into the report directly. */
        size_t before = run->report->count;
        (void)schema_run_node(run, candidate, at);
        if (run->report->count > before || run->stop_reason)
            return false;
    }
    struct arena *arena = run->report->arena;
    slice message = arena_printf(arena, "matches none of the %u allowed forms: ", op->count);
    for (uint32_t i = 0; i < op->count && i < ALTERNATIVES_PRINTED_MAX; i++)
        message = arena_printf(arena, "%.*s%s(%u) %.*s", SLICE_ARG(message), i ? "; " : "", i + 1,
                               SLICE_ARG(alternative_text(run, op->as.nodes[i], at)));
    if (op->count > ALTERNATIVES_PRINTED_MAX)
        message = arena_printf(arena, "%.*s; ...", SLICE_ARG(message));
    return schema_report_enter(run, at, keyword_name(op->kind), message, SLICE_NONE);
}

bool schema_report_several_match(struct schema_run *run, const struct schema_at *at, uint32_t first,
                                 uint32_t second)
{
    if (schema_is_over(run))
        return false;
    slice message =
        arena_printf(run->report->arena,
                     "must match exactly one of the allowed forms, but matches both (%u) and (%u)",
                     first + 1, second + 1);
    return schema_report_enter(run, at, SLICE("oneOf"), message, SLICE_NONE);
}
