/*
 * schema_report: describes what is wrong with an instance: values, the parts of objects and arrays,
 * and alternatives. It also fills in the report, with each violation's pointer and location. It
 * runs only for invalid instances, so fuel (FUEL_VIOLATION) limits its cost, and it need not be
 * fast. Each function returns early if no report is wanted (schema_is_over), before any text is
 * made.
 *
 * Values of the instance are truncated and quoted as JSON: they may be large or contain control
 * characters, and the message goes into logs and terminals.
 */
#include <stdarg.h>

#include "base/suggest.h"
#include "schema/run.h"

enum {
    TEXT_BYTES_MAX = 2000,
    POINTER_BYTES_MAX = 8192,
    QUOTED_BYTES_MAX = 60,
    NUMBER_BYTES_MAX = 40,
    WANTED_BYTES_MAX = 80,
    ENUM_PRINTED_MAX = 12,
    DESCRIPTION_BYTES_MAX = 120,
    KNOWN_PRINTED_MAX = 12,
    ALTERNATIVES_PRINTED_MAX = 4,
    DETAIL_DEPTH_MAX = 3, /* nested alternatives */
    REF_STEPS_MAX = 8,
};

void schema_report_init(struct schema_report *report, struct arena *arena, slice prefix)
{
    *report = (struct schema_report){.arena = arena, .prefix = prefix};
}

/* ---- entering ---- */

static void write_path(struct buf *out, const struct schema_path *path)
{
    if (!path)
        return;
    /* Recursion writes the root first; paths are at most SCHEMA_DEPTH_MAX long. */
    write_path(out, path->parent);
    if (path->key)
        json_pointer_append_key(out, json_str(path->key));
    else
        json_pointer_append_index(out, path->index);
}

static slice pointer_of(struct schema_report *report, const struct schema_path *path)
{
    struct buf text;
    buf_init(&text, POINTER_BYTES_MAX);
    buf_append(&text, report->prefix);
    write_path(&text, path);
    slice pointer = arena_dup(report->arena, buf_slice(&text));
    buf_deinit(&text);
    return pointer;
}

static slice location_of(const struct schema_run *run, const struct schema_node *node,
                         slice keyword)
{
    if (!node)
        return SLICE("#");
    const struct schema_document *document = node->resource->document;
    struct buf text;
    buf_init(&text, POINTER_BYTES_MAX);
    /* The first document has no URI prefix, since the caller knows which document it is. */
    if (document != run->schema->document)
        buf_append(&text, document->uri);
    schema_location_write(&text, document->root, node->source, keyword);
    slice location = arena_dup(run->report->arena, buf_slice(&text));
    buf_deinit(&text);
    return location;
}

/* A subschema that is applied twice reports the same violation twice. */
static bool is_reported(const struct schema_report *report,
                        const struct schema_violation *violation)
{
    for (size_t i = 0; i < report->count; i++) {
        if (slice_eq(report->violations[i].pointer, violation->pointer) &&
            slice_eq(report->violations[i].message, violation->message))
            return true;
    }
    return false;
}

/* Adds a violation and returns false. All texts are in the report's arena or in the schema; a
 * long message is truncated. hint: SLICE_NONE if there is none. */
PRINTF_LIKE(5, 6)
static bool enter(struct schema_run *run, const struct schema_at *at, slice keyword, slice hint,
                  const char *fmt, ...)
{
    struct schema_report *report = run->report;
    va_list args;
    va_start(args, fmt);
    slice message = arena_vprintf(report->arena, fmt, args);
    va_end(args);
    struct schema_violation made = {
        .pointer = pointer_of(report, at->path),
        .keyword = keyword,
        .types = slice_eq_cstr(keyword, "type") ? at->node->types : 0,
        .message = slice_first_utf8(message, TEXT_BYTES_MAX),
        .hint = hint,
    };
    /* Charged before the check for duplicates, because the cost is that of making the text. */
    (void)schema_spend(run, FUEL_VIOLATION);
    if (report->arena->is_exhausted || report->count == run->violations_max) {
        report->is_cut = true;
    } else if (!is_reported(report, &made)) {
        /* This comes last, since the search for the location is the most expensive part. */
        made.location = location_of(run, at->node, keyword);
        report->violations[report->count++] = made;
    }
    return false;
}

void schema_report_stop(struct schema_run *run)
{
    const struct schema_at root = {.node = NULL};
    const char *what = run->is_known_invalid
                           ? "does not match its schema, but the reasons cannot be listed"
                           : "cannot be checked";
    if (run->report && run->stop_reason)
        (void)enter(run, &root, SLICE("limit"), SLICE_NONE, "%s: %s", what, run->stop_reason);
}

/* ---- parts of sentences ---- */

static slice quote_text(const struct schema_run *run, slice name)
{
    char room[6 * QUOTED_BYTES_MAX + 2]; /* each byte may become \u00xx */
    struct buf text = {.ptr = room, .cap = sizeof(room), .bytes_max = sizeof(room)};
    slice printed = slice_first_utf8(name, QUOTED_BYTES_MAX);
    json_write_str(&text, printed);
    return arena_printf(run->report->arena, "%.*s%s", SLICE_ARG(buf_slice(&text)),
                        printed.len < name.len ? "..." : "");
}

static slice value_text(const struct schema_run *run, const struct json *value)
{
    struct arena *arena = run->report->arena;
    char room[NUMBER_BYTES_MAX];
    struct buf text = {.ptr = room, .cap = sizeof(room), .bytes_max = sizeof(room)};
    if (value->type == JSON_STRING)
        return quote_text(run, json_str(value));
    if (value->type == JSON_BIGNUM && value->count > NUMBER_BYTES_MAX)
        return arena_printf(arena, "%.*s...", NUMBER_BYTES_MAX, value->as.text);
    if (value->type == JSON_ARRAY && value->count > 0)
        return arena_printf(arena, "an array of %u item%s", value->count,
                            value->count == 1 ? "" : "s");
    if (value->type == JSON_OBJECT && value->count > 0)
        return SLICE("an object");
    json_write(&text, value);
    return arena_dup(arena, buf_slice(&text));
}

/* Returns a value of the schema as text: as JSON if that is short, otherwise as value_text
 * describes it. */
static slice wanted_text(const struct schema_run *run, const struct json *value)
{
    /* A buffer over this fixed block: if the value does not fit, the buffer fails instead of
     * growing. */
    char room[WANTED_BYTES_MAX + 1];
    struct buf text = {.ptr = room, .cap = WANTED_BYTES_MAX, .bytes_max = WANTED_BYTES_MAX};
    if (value->type == JSON_ARRAY || value->type == JSON_OBJECT)
        json_write(&text, value);
    ASSERT(text.ptr == room);
    return text.len > 0 && buf_is_ok(&text) ? arena_dup(run->report->arena, buf_slice(&text))
                                            : value_text(run, value);
}

static slice list_text(const struct schema_run *run, const struct json *list)
{
    struct arena *arena = run->report->arena;
    uint32_t printed = list->count > ENUM_PRINTED_MAX ? ENUM_PRINTED_MAX : list->count;
    slice text = SLICE("");
    for (uint32_t i = 0; i < printed; i++)
        text = arena_printf(arena, "%.*s%s%.*s", SLICE_ARG(text), i > 0 ? ", " : "",
                            SLICE_ARG(wanted_text(run, &list->as.items[i])));
    return printed == list->count
               ? text
               : arena_printf(arena, "%.*s and %u more", SLICE_ARG(text), list->count - printed);
}

/* ---- type ---- */

bool schema_report_type(struct schema_run *run, const struct schema_at *at)
{
    static const char *const names[] = {"null",  "boolean", "number", "string",
                                        "array", "object",  "integer"};
    if (!run->report)
        return false;
    struct arena *arena = run->report->arena;
    unsigned left = at->node->types;
    slice text = left == 0 ? SLICE("of no type at all") : SLICE("");
    for (unsigned i = 0; i < ARRAY_LEN(names); i++) {
        if (!(left & 1U << i))
            continue;
        left &= ~(1U << i);
        /* Exactly one bit is left. */
        bool is_last_but_one = left && !(left & (left - 1));
        text = arena_printf(arena, "%.*s%s%s", SLICE_ARG(text), names[i],
                            is_last_but_one ? " or "
                            : left          ? ", "
                                            : "");
    }
    slice got = SLICE("");
    /* The type is enough to describe a container. */
    if (at->value->type < JSON_ARRAY && at->value->type != JSON_NULL)
        got = arena_printf(arena, " (got %.*s)", SLICE_ARG(value_text(run, at->value)));
    return enter(run, at, SLICE("type"), SLICE_NONE, "must be %.*s, not %s%.*s", SLICE_ARG(text),
                 json_type_name(at->value), SLICE_ARG(got));
}

/* ---- values ---- */

/* Suggests only a value that differs by one edit or in case: a wrong hint is worse than none. */
static slice hint_enum(const struct schema_run *run, const struct json *list,
                       const struct json *value)
{
    unsigned best = 2;
    const struct json *nearest = NULL;
    for (uint32_t i = 0; i < list->count && value->type == JSON_STRING; i++) {
        const struct json *item = &list->as.items[i];
        if (item->type != JSON_STRING)
            continue;
        unsigned distance = suggest_distance(json_str(item), json_str(value), 2);
        /* A short word differs by one edit from many others. */
        if (distance < best && (distance == 0 || value->count > 3)) {
            best = distance;
            nearest = item;
        }
    }
    if (!nearest)
        return SLICE_NONE;
    return arena_printf(run->report->arena, "use %.*s instead of %.*s",
                        SLICE_ARG(quote_text(run, json_str(nearest))),
                        SLICE_ARG(quote_text(run, json_str(value))));
}

/* Returns the op's requirement as a text to put after "must ". */
static slice wish_text(const struct schema_run *run, const struct schema_op *op,
                       const struct schema_at *at)
{
    static const char *const bounds[KW_COUNT] = {
        [KW_MINIMUM] = "be at least",
        [KW_MAXIMUM] = "be at most",
        [KW_EXCLUSIVE_MINIMUM] = "be greater than",
        [KW_EXCLUSIVE_MAXIMUM] = "be less than",
    };
    struct arena *arena = run->report->arena;
    slice text;
    switch (op->kind) {
    case KW_CONST:
        return arena_printf(arena, "be %.*s", SLICE_ARG(wanted_text(run, op->as.value)));
    case KW_ENUM:
        return arena_printf(arena, "be one of %.*s", SLICE_ARG(list_text(run, op->as.value)));
    case KW_MULTIPLE_OF:
        /* The decimal is decomposed; the source has the number as written. */
        text = value_text(run, json_get(at->node->source, SLICE("multipleOf")));
        return arena_printf(arena, "be a multiple of %.*s", SLICE_ARG(text));
    case KW_PATTERN:
        text = slice_first_utf8(schema_pattern_source(op->as.pattern), 300);
        return arena_printf(arena, "match the pattern %.*s", SLICE_ARG(text));
    case KW_FORMAT:
        return arena_printf(arena, "have the format %.*s, such as %s",
                            SLICE_ARG(op->as.format->name), op->as.format->hint);
    default:
        ASSERT(bounds[op->kind]);
        return arena_printf(arena, "%s %.*s", bounds[op->kind],
                            SLICE_ARG(value_text(run, op->as.value)));
    }
}

bool schema_report_value(struct schema_run *run, const struct schema_op *op,
                         const struct schema_at *at)
{
    if (schema_is_over(run))
        return false;
    slice hint = op->kind == KW_ENUM ? hint_enum(run, op->as.value, at->value) : SLICE_NONE;
    return enter(run, at, keyword_name(op->kind), hint, "must %.*s (got %.*s)",
                 SLICE_ARG(wish_text(run, op, at)), SLICE_ARG(value_text(run, at->value)));
}

/* ---- counts ---- */

bool schema_report_count(struct schema_run *run, const struct schema_op *op,
                         const struct schema_at *at, uint64_t got)
{
    static const struct {
        const char *verb, *one, *many;
    } words[KW_COUNT] = {
        [KW_MIN_LENGTH] = {"be at least", "character long", "characters long"},
        [KW_MAX_LENGTH] = {"be at most", "character long", "characters long"},
        [KW_MIN_ITEMS] = {"have at least", "item", "items"},
        [KW_MAX_ITEMS] = {"have at most", "item", "items"},
        [KW_MIN_PROPERTIES] = {"have at least", "property", "properties"},
        [KW_MAX_PROPERTIES] = {"have at most", "property", "properties"},
    };
    if (schema_is_over(run))
        return false;
    ASSERT(words[op->kind].verb);
    unsigned long long limit = op->as.limit;
    if (got == 0 && limit == 1)
        return enter(run, at, keyword_name(op->kind), SLICE_NONE, "must not be empty");
    return enter(run, at, keyword_name(op->kind), SLICE_NONE, "must %s %llu %s (got %llu)",
                 words[op->kind].verb, limit,
                 limit == 1 ? words[op->kind].one : words[op->kind].many, (unsigned long long)got);
}

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
        text = arena_printf(arena, "%.*s%s%.*s", SLICE_ARG(text),
                            i > 0 ? ", " : "; known here: ", SLICE_ARG(quote_text(run, names[i])));
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
    slice name = quote_text(run, json_str(path.key));
    slice meant = schema_suggest_property(at->node, json_str(path.key));
    /* If the object already has a member of the suggested name, renaming would lose one of the
     * two values. */
    if (!meant.ptr || json_get(at->value, meant))
        return enter(run, &member, keyword_name(keyword),
                     arena_printf(arena, "remove %.*s", SLICE_ARG(name)),
                     "unknown property %.*s%.*s", SLICE_ARG(name),
                     SLICE_ARG(known_text(run, at->node)));
    meant = quote_text(run, meant);
    return enter(run, &member, keyword_name(keyword),
                 arena_printf(arena, "rename %.*s to %.*s", SLICE_ARG(name), SLICE_ARG(meant)),
                 "unknown property %.*s; did you mean %.*s?", SLICE_ARG(name), SLICE_ARG(meant));
}

/* Returns the first sentence of a description. */
static slice first_sentence(slice text)
{
    size_t len = 0;
    while (len < text.len && len < DESCRIPTION_BYTES_MAX && text.ptr[len] != '\n' &&
           !(text.ptr[len] == '.' && (len + 1 == text.len || text.ptr[len + 1] == ' ')))
        len++;
    return slice_first_utf8(text, len);
}

/* Finds a member of the instance that the schema does not know and whose name is close to
 * `wanted`. */
static slice misspelt_member(const struct schema_at *at, slice wanted)
{
    /* At most 100 members: a hint is not worth more comparisons. */
    for (uint32_t i = 0; i < at->value->count && i < 100; i++) {
        slice name = json_str(&at->value->as.members[i].key);
        unsigned allowed = wanted.len / 3 > 2 ? 2 : (unsigned)(wanted.len / 3);
        if (suggest_distance(name, wanted, allowed + 1) > allowed)
            continue;
        /* It is not enough that a name is close to the wanted name: no other known name may be
         * closer. */
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
    slice name = quote_text(run, property->name), wrong = misspelt_member(at, property->name);
    if (wrong.ptr)
        return arena_printf(arena, "rename %.*s to %.*s", SLICE_ARG(quote_text(run, wrong)),
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
        (void)enter(run, at, SLICE("required"), hint_missing(run, at, property),
                    "missing required property %.*s", SLICE_ARG(quote_text(run, property->name)));
    }
    return false;
}

bool schema_report_dependent(struct schema_run *run, const struct schema_at *at,
                             const struct schema_dependency *dependency, slice missing)
{
    if (schema_is_over(run))
        return false;
    slice name = quote_text(run, missing);
    return enter(run, at, keyword_name(dependency->keyword),
                 arena_printf(run->report->arena, "add %.*s", SLICE_ARG(name)),
                 "missing property %.*s, which is required where %.*s is present", SLICE_ARG(name),
                 SLICE_ARG(quote_text(run, dependency->name)));
}

/* ---- items ---- */

bool schema_report_unique(struct schema_run *run, const struct schema_at *at, uint32_t first,
                          uint32_t second)
{
    if (schema_is_over(run))
        return false;
    slice value = value_text(run, &at->value->as.items[first]);
    return enter(run, at, SLICE("uniqueItems"),
                 arena_printf(run->report->arena, "remove item %u", second + 1),
                 "all items must differ, but items %u and %u are equal (%.*s)", first + 1,
                 second + 1, SLICE_ARG(value));
}

bool schema_report_extra_item(struct schema_run *run, const struct schema_at *at,
                              enum keyword keyword, uint32_t index, uint32_t allowed)
{
    if (schema_is_over(run))
        return false;
    /* For unevaluatedItems there is no maximum to name. */
    if (keyword != KW_ITEMS)
        return enter(run, at, keyword_name(keyword), SLICE_NONE, "item %u is not allowed here",
                     index + 1);
    return enter(run, at, keyword_name(keyword), SLICE_NONE, "must have at most %u item%s (got %u)",
                 allowed, allowed == 1 ? "" : "s", at->value->count);
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
    return enter(run, at, keyword, SLICE_NONE,
                 "at %s %llu of its items must match \"contains\" (%s%llu do%s)",
                 is_few ? "least" : "most",
                 (unsigned long long)(is_few ? contains->min : contains->max),
                 is_few ? "" : "at least ", (unsigned long long)got, got == 1 ? "es" : "");
}

/* ---- what is not allowed at all ---- */

bool schema_report_forbidden(struct schema_run *run, const struct schema_at *at,
                             enum keyword keyword)
{
    if (schema_is_over(run))
        return false;
    slice message = SLICE("is not allowed here");
    if (keyword == KW_NOT)
        message = SLICE("must not match the schema in \"not\"");
    else if (at->path && at->path->key)
        message = arena_printf(run->report->arena, "property %.*s is not allowed here",
                               SLICE_ARG(quote_text(run, json_str(at->path->key))));
    return enter(run, at, keyword_name(keyword), SLICE_NONE, "%.*s", SLICE_ARG(message));
}

/* ---- alternatives ---- */

/* Reports separately on one node. Returns NULL if out of memory, too deep, or nothing is wrong. */
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
    /* Evaluated members are not needed: the outer run has decided that the instance is invalid. */
    struct schema_at alone = *at;
    alone.evaluated = NULL;
    /* The run's state is replaced for this one report and then restored. Fuel is shared, so
     * details cannot cost more than the rest. */
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

/* Returns the violation's pointer relative to `at`; empty if it is the same value. */
static slice relative_pointer(const struct schema_run *run, const struct schema_at *at,
                              slice pointer)
{
    /* The prefix and one token for each level of the path precede the relative part. */
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
    return enter(run, at, SLICE("propertyNames"), SLICE_NONE, "the property name %.*s %.*s",
                 SLICE_ARG(quote_text(run, json_str(key))), SLICE_ARG(why));
}

static unsigned allowed_types(const struct schema_node *node)
{
    unsigned types = node->types;
    /* Follows a single $ref, at most REF_STEPS_MAX times: references may be circular. */
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

/* Returns the only alternative for a value of this type, as in "an object or null". */
static const struct schema_node *only_of_type(const struct schema_op *op, unsigned types)
{
    const struct schema_node *candidate = NULL;
    for (uint32_t i = 0; i < op->count; i++) {
        if (!(allowed_types(op->as.nodes[i]) & types))
            continue;
        if (candidate)
            return NULL;
        candidate = op->as.nodes[i];
    }
    return candidate;
}

/* Returns the alternative that knows more of the object's members than any other, as in {"page_id":
 * ...} or {"database_id": ...}. */
static const struct schema_node *only_of_members(const struct schema_op *op,
                                                 const struct json *object)
{
    const struct schema_node *candidate = NULL;
    size_t most = 0;
    for (uint32_t i = 0; i < op->count; i++) {
        if (!(allowed_types(op->as.nodes[i]) & TYPE_OBJECT))
            continue;
        size_t known = schema_members_known(op->as.nodes[i], object);
        if (known >= most)
            candidate = known > most ? op->as.nodes[i] : NULL;
        most = known > most ? known : most;
    }
    return candidate;
}

/* Returns the intended alternative if only one is possible, otherwise NULL. */
static const struct schema_node *only_candidate(const struct schema_op *op,
                                                const struct json *value)
{
    unsigned types = schema_types_of(value);
    /* An alternative may require an integer where the value is a number. */
    if (types & TYPE_NUMBER)
        types |= TYPE_INTEGER;
    const struct schema_node *candidate = only_of_type(op, types);
    return candidate || !(types & TYPE_OBJECT) ? candidate : only_of_members(op, value);
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
        /* The violations of that alternative are more specific than "matches none", so they go
         * directly into the report. */
        size_t before = run->report->count;
        (void)schema_run_node(run, candidate, at);
        if (run->report->count > before || run->stop_reason)
            return false;
    }
    struct arena *arena = run->report->arena;
    slice forms = SLICE("");
    for (uint32_t i = 0; i < op->count && i < ALTERNATIVES_PRINTED_MAX; i++)
        forms = arena_printf(arena, "%.*s%s(%u) %.*s", SLICE_ARG(forms), i ? "; " : "", i + 1,
                             SLICE_ARG(alternative_text(run, op->as.nodes[i], at)));
    return enter(run, at, keyword_name(op->kind), SLICE_NONE,
                 "matches none of the %u allowed forms: %.*s%s", op->count, SLICE_ARG(forms),
                 op->count > ALTERNATIVES_PRINTED_MAX ? "; ..." : "");
}

bool schema_report_several_match(struct schema_run *run, const struct schema_at *at, uint32_t first,
                                 uint32_t second)
{
    if (schema_is_over(run))
        return false;
    return enter(run, at, SLICE("oneOf"), SLICE_NONE,
                 "must match exactly one of the allowed forms, but matches both (%u) and (%u)",
                 first + 1, second + 1);
}

/* ---- writing ---- */

void schema_report_write(const struct schema_report *report, struct buf *out)
{
    for (size_t i = 0; i < report->count; i++) {
        const struct schema_violation *violation = &report->violations[i];
        if (i > 0)
            buf_append(out, SLICE("; "));
        buf_append(out, violation->pointer.len ? violation->pointer : SLICE("(root)"));
        buf_append(out, SLICE(": "));
        buf_append(out, violation->message);
    }
    /* The list is incomplete; a reader must not think that these are all violations. */
    if (report->is_cut)
        buf_append(out, SLICE("; and more"));
}

void schema_report_write_hints(const struct schema_report *report, struct buf *out)
{
    bool has_some = false;
    for (size_t i = 0; i < report->count; i++) {
        if (report->violations[i].hint.len == 0)
            continue;
        if (has_some)
            buf_append(out, SLICE("; "));
        buf_append(out, report->violations[i].hint);
        has_some = true;
    }
}
