/*
 * sample: applies an expression to a sample of its data. It is an abstract evaluation: a value is
 * either an example or unknown (NULL). The first item of an array represents all items, and JSON
 * null in a sample is unknown, too. It finds names that the data will never have.
 */
#include <stdio.h>

#include "expr/ast.h"

struct sampling {
    const struct json *root;
    struct arena *arena;
    struct err *err;
};

/* Returns false with the error set if a member is missing. */
static bool sample_node(struct sampling *s, const struct expr_node *node,
                        const struct json *current, const struct json **out);

static bool sample_field(const struct sampling *s, slice name, const struct json **value)
{
    char names[256];
    size_t len = 0;
    const struct json *object = *value;
    *value = NULL;
    if (!object || object->type == JSON_NULL)
        return true;
    *value = json_get(object, name);
    if (*value)
        return true;
    names[0] = 0;
    for (uint32_t i = 0; object->type == JSON_OBJECT && i < object->count; i++) {
        slice key = json_str(&object->as.members[i].key);
        if (len + key.len + 3 < sizeof(names))
            len += (size_t)snprintf(names + len, sizeof(names) - len, " %.*s", SLICE_ARG(key));
    }
    (void)err_set(s->err, ERR_NOTFOUND, "no \"%.*s\" in %s%s%s", SLICE_ARG(name),
                  object->type == JSON_OBJECT ? "an object of" : "a value of type ",
                  object->type == JSON_OBJECT ? "" : json_type_name(object), names);
    return false;
}

static const struct json *sample_item(const struct json *value)
{
    return json_is(value, JSON_ARRAY) ? json_at(value, 0) : NULL;
}

/* Returns an array with `item` as a sample of its items; its items are unknown if item is NULL. */
static const struct json *array_of(const struct sampling *s, const struct json *item)
{
    struct json *array = ARENA_NEW(s->arena, struct json);
    if (!array)
        return NULL;
    *array = json_array();
    json_array_push(s->arena, array, item ? *item : json_null);
    return array;
}

static bool sample_projection(struct sampling *s, const struct expr_node *node,
                              const struct json **value)
{
    const struct json *unused, *item = sample_item(*value);
    if (node->kind == EXPR_NODE_FLATTEN && json_is(item, JSON_ARRAY))
        item = sample_item(item);
    if (node->kind == EXPR_NODE_FILTER && !sample_node(s, node->first, item, &unused))
        return false;
    if (node->rhs && !sample_node(s, node->rhs, item, &item))
        return false;
    *value = array_of(s, item);
    return true;
}

/* A reference to an expression is applied to the items of the call's array. */
static bool sample_call(struct sampling *s, const struct expr_node *node,
                        const struct json *current, const struct json **out)
{
    const struct json *list = NULL, *value, *mapped = NULL;
    const struct expr_node *arg;
    bool has_ref = false;
    for (arg = node->first; arg; arg = arg->next)
        if (arg->kind != EXPR_NODE_REF) {
            if (!sample_node(s, arg, current, &value))
                return false;
            list = json_is(value, JSON_ARRAY) ? value : list;
        }
    for (arg = node->first; arg; arg = arg->next)
        if (arg->kind == EXPR_NODE_REF) {
            has_ref = true;
            if (!sample_node(s, arg->first, sample_item(list), &mapped))
                return false;
        }
    /* Only the result of map(&reference, list) is known; the results of other functions are not. */
    *out = has_ref && node->first->kind == EXPR_NODE_REF ? array_of(s, mapped) : NULL;
    return true;
}

static bool sample_kids(struct sampling *s, const struct expr_node *node,
                        const struct json *current, const struct json **out)
{
    struct json *made = ARENA_NEW(s->arena, struct json);
    const struct json *value = NULL;
    if (!made)
        return true;
    *made = node->kind == EXPR_NODE_HASH ? json_object() : json_array();
    for (const struct expr_node *kid = node->first; kid; kid = kid->next) {
        if (!sample_node(s, kid, current, &value))
            return false;
        if (node->kind == EXPR_NODE_HASH)
            json_object_set(s->arena, made, kid->key, value ? *value : json_null);
        else
            json_array_push(s->arena, made, value ? *value : json_null);
    }
    if (node->kind == EXPR_NODE_HASH || node->kind == EXPR_NODE_LIST)
        *out = made;
    else if (node->kind == EXPR_NODE_AND)
        *out = value;
    else if (node->kind == EXPR_NODE_OR)
        *out = NULL; /* the result is one of several values */
    else
        *made = json_bool(true), *out = made; /* comparisons and negations */
    return true;
}

static bool sample_node(struct sampling *s, const struct expr_node *node,
                        const struct json *current, const struct json **out)
{
    switch ((enum expr_node_kind)node->kind) {
    case EXPR_NODE_CURRENT:
        *out = current;
        return true;
    case EXPR_NODE_ROOT:
        *out = s->root;
        return true;
    case EXPR_NODE_FIELD:
        *out = current;
        return sample_field(s, node->as.name, out);
    case EXPR_NODE_INDEX:
        *out = sample_item(current);
        return true;
    case EXPR_NODE_LITERAL:
        *out = &node->as.literal;
        return true;
    case EXPR_NODE_SEQ:
        *out = current;
        for (const struct expr_node *kid = node->first; kid; kid = kid->next)
            if (!sample_node(s, kid, *out, out))
                return false;
        return true;
    case EXPR_NODE_EACH:
    case EXPR_NODE_VALUES:
    case EXPR_NODE_FLATTEN:
    case EXPR_NODE_FILTER:
    case EXPR_NODE_SLICE:
        *out = current;
        return sample_projection(s, node, out);
    case EXPR_NODE_CALL:
        return sample_call(s, node, current, out);
    default:
        return sample_kids(s, node, current, out);
    }
}

int expr_sample(const struct expr *expr, const struct json *root, const struct json *current,
                struct arena *arena, const struct json **result, struct err *err)
{
    struct sampling s = {root, arena, err};
    *result = NULL;
    return sample_node(&s, expr->top, current, result) ? OK : ERR_NOTFOUND;
}
