/*
 * Which property was meant: names that a schema knows, and how near a wrong one is to them.
 */
#include "json/schema_run.h"

enum {
    NAME_BYTES_MAX = 64,
    NODES_DEEP_MAX = 6,
    KNOWN_MAX = 500, /* names looked at for one suggestion */
    DISTANCE_MAX = 3,
};

struct name_walk {
    slice names[KNOWN_MAX];
    size_t count;
};

/* ---- the names a node knows ---- */

static void walk_node(const struct schema_node *node, unsigned depth, struct name_walk *walk);

static void walk_list(const struct schema_op *op, unsigned depth, struct name_walk *walk)
{
    for (uint32_t i = 0; i < op->count && walk->count < KNOWN_MAX; i++)
        walk_node(op->as.nodes[i], depth, walk);
}

static void walk_properties(const struct schema_object *object, struct name_walk *walk)
{
    for (uint32_t i = 0; i < object->property_count && walk->count < KNOWN_MAX; i++) {
        const struct schema_property *property = &object->properties[i];
        if (!property->node || property->node->verdict != VERDICT_FALSE)
            walk->names[walk->count++] = property->name;
    }
}

static void walk_op(const struct schema_op *op, unsigned depth, struct name_walk *walk)
{
    switch (op->kind) {
    case OP_OBJECT:
        walk_properties(op->as.object, walk);
        break;
    case OP_REF:
        walk_node(op->as.node, depth, walk);
        break;
    case OP_ALL_OF:
    case OP_ANY_OF:
    case OP_ONE_OF:
        walk_list(op, depth, walk);
        break;
    case OP_IF:
        if (op->as.branches->consequence)
            walk_node(op->as.branches->consequence, depth, walk);
        if (op->as.branches->alternative)
            walk_node(op->as.branches->alternative, depth, walk);
        break;
    default:
        break;
    }
}

static void walk_node(const struct schema_node *node, unsigned depth, struct name_walk *walk)
{
    for (uint32_t i = 0; i < node->op_count && depth < NODES_DEEP_MAX; i++)
        walk_op(&node->ops[i], depth + 1, walk);
}

size_t schema_known_properties(const struct schema_node *node, slice *names, size_t max)
{
    struct name_walk walk;
    walk.count = 0;
    walk_node(node, 0, &walk);
    size_t shown = 0;
    for (size_t i = 0; i < walk.count && shown < max; i++) {
        bool is_new = true;
        for (size_t k = 0; k < shown; k++)
            is_new &= !slice_eq(names[k], walk.names[i]);
        if (is_new)
            names[shown++] = walk.names[i];
    }
    return walk.count > shown && shown == max ? walk.count : shown;
}

/* ---- distance ---- */

/* Lower case without separators: max_results, maxResults and max-results are one name. */
static size_t fold(slice name, char *out)
{
    size_t len = 0;
    for (size_t i = 0; i < name.len; i++) {
        char c = name.ptr[i];
        if (c == '_' || c == '-' || c == ' ' || c == '.')
            continue;
        out[len++] = c >= 'A' && c <= 'Z' ? (char)(c + ('a' - 'A')) : c;
    }
    return len;
}

static unsigned min3(unsigned a, unsigned b, unsigned c)
{
    unsigned least = a < b ? a : b;
    return least < c ? least : c;
}

/* Damerau-Levenshtein with swaps of neighbours, in three rows. */
static unsigned edit_distance(const char *a, size_t a_len, const char *b, size_t b_len)
{
    unsigned rows[3][NAME_BYTES_MAX + 1];
    for (size_t k = 0; k <= b_len; k++)
        rows[0][k] = (unsigned)k;
    for (size_t i = 1; i <= a_len; i++) {
        unsigned *row = rows[i % 3];
        const unsigned *above = rows[(i + 2) % 3];
        const unsigned *higher = rows[(i + 1) % 3];
        row[0] = (unsigned)i;
        for (size_t k = 1; k <= b_len; k++) {
            row[k] = min3(above[k] + 1, row[k - 1] + 1, above[k - 1] + (a[i - 1] != b[k - 1]));
            if (i > 1 && k > 1 && a[i - 1] == b[k - 2] && a[i - 2] == b[k - 1] &&
                higher[k - 2] + 1 < row[k])
                row[k] = higher[k - 2] + 1;
        }
    }
    return rows[a_len % 3][b_len];
}

unsigned schema_name_distance(slice a, slice b)
{
    char folded_a[NAME_BYTES_MAX];
    char folded_b[NAME_BYTES_MAX];
    if (a.len > NAME_BYTES_MAX || b.len > NAME_BYTES_MAX)
        return DISTANCE_MAX + 1;
    size_t a_len = fold(a, folded_a);
    size_t b_len = fold(b, folded_b);
    size_t gap = a_len > b_len ? a_len - b_len : b_len - a_len;
    if (gap > DISTANCE_MAX)
        return DISTANCE_MAX + 1;
    unsigned distance = edit_distance(folded_a, a_len, folded_b, b_len);
    return distance > DISTANCE_MAX ? DISTANCE_MAX + 1 : distance;
}

/* One edit for every three characters: "to" is not near "cc". */
static unsigned distance_allowed(slice name)
{
    size_t allowed = name.len / 3;
    return allowed > DISTANCE_MAX ? DISTANCE_MAX : (unsigned)allowed;
}

slice schema_suggest_property(const struct schema_node *node, slice name)
{
    struct name_walk walk;
    walk.count = 0;
    walk_node(node, 0, &walk);
    slice best = SLICE_NONE;
    unsigned best_distance = distance_allowed(name) + 1;
    for (size_t i = 0; i < walk.count; i++) {
        unsigned distance = schema_name_distance(walk.names[i], name);
        if (distance < best_distance && !slice_eq(walk.names[i], name)) {
            best = walk.names[i];
            best_distance = distance;
        }
    }
    return best;
}
