/*
 * known: checks the parts of an expression whose data is known, before the rest of the data is.
 * Only what every evaluation would evaluate is checked, so a fault found here is certain.
 */
#include "expr/func.h"
#include "expr/run.h"

enum part {
    PART_KNOWN,   /* *out is the value */
    PART_PARTLY,  /* *out is an object with the known members */
    PART_UNKNOWN, /* it depends on data that is not known yet */
};

struct known {
    struct expr_run run;
    enum part part; /* of the last node */
};

static int check_node(struct known *known, const struct expr_node *node, struct json *out);

static bool on_path(void *user, const slice *names, size_t count)
{
    struct known *known = user;
    /* The whole root is not known, because some of its members are not. */
    if (count == 0 || !json_get(known->run.root, names[0]))
        known->part = PART_UNKNOWN;
    return known->part == PART_KNOWN;
}

static bool reads_known(struct known *known, const struct expr_node *node)
{
    const struct expr expr = {.top = node};
    known->part = PART_KNOWN;
    expr_root_names(&expr, on_path, known);
    return known->part == PART_KNOWN;
}

/* The parts after an unknown one may not be evaluated. */
static int check_logic(struct known *known, const struct expr_node *node, struct json *out)
{
    for (const struct expr_node *kid = node->first; kid; kid = kid->next) {
        int rc = check_node(known, kid, out);
        if (rc != OK)
            return rc;
        if (known->part == PART_PARTLY)
            known->part = PART_UNKNOWN;
        if (known->part == PART_UNKNOWN || expr_is_true(out) == (node->kind == EXPR_NODE_OR))
            return OK;
    }
    return OK;
}

static int check_hash(struct known *known, const struct expr_node *node, struct json *out)
{
    struct json_member *members = NULL;
    size_t count = 0;
    int rc = expr_run_members(&known->run, node->count, &members);
    for (const struct expr_node *kid = node->first; kid && rc == OK; kid = kid->next) {
        struct json_member *member = &members[count];
        member->key = expr_string(kid->key.ptr, kid->key.len);
        rc = check_node(known, kid, &member->value);
        count += known->part == PART_KNOWN;
    }
    if (rc == OK)
        *out = expr_object(members, count);
    known->part = PART_PARTLY;
    return rc;
}

static int check_kids(struct known *known, const struct expr_node *node, struct json *out)
{
    int rc = OK;
    for (const struct expr_node *kid = node->first; kid && rc == OK; kid = kid->next)
        if (kid->kind != EXPR_NODE_REF) /* it is applied to items, if there are any */
            rc = check_node(known, kid, out);
    return rc;
}

/* mime_message checks each member by itself, so it also accepts the known ones alone. */
static int check_call(struct known *known, const struct expr_node *node, struct json *out)
{
    struct json message;
    int rc = check_kids(known, node, out);
    if (rc == OK && known->part == PART_PARTLY && node->as.function->fn == expr_fn_mime_message) {
        message = *out;
        rc = expr_fn_mime_message(&known->run, node, &message, out);
    }
    known->part = PART_UNKNOWN;
    return rc;
}

/* Sets known->part, and *out unless the part is unknown. */
static int check_node(struct known *known, const struct expr_node *node, struct json *out)
{
    *out = json_null;
    int rc = expr_run_visit(&known->run, 1);
    if (rc != OK)
        return rc;
    if (reads_known(known, node))
        return expr_run_node(&known->run, node, known->run.root, out);
    switch ((enum expr_node_kind)node->kind) {
    case EXPR_NODE_OR:
    case EXPR_NODE_AND:
        return check_logic(known, node, out);
    case EXPR_NODE_HASH:
        return check_hash(known, node, out);
    case EXPR_NODE_CALL:
        return check_call(known, node, out);
    case EXPR_NODE_LIST:
    case EXPR_NODE_NOT:
    case EXPR_NODE_COMPARE:
        rc = check_kids(known, node, out);
        break;
    case EXPR_NODE_SEQ:
        /* The others are applied to its result. */
        rc = check_node(known, node->first, out);
        break;
    default:
        break;
    }
    known->part = PART_UNKNOWN;
    return rc;
}

int expr_check_known(const struct expr *expr, const struct json *root, struct expr_budget *budget,
                     struct arena *arena, struct err *err)
{
    struct json unused;
    struct known known = {
        .run = {
            .source = expr->source, .root = root, .budget = budget, .arena = arena, .err = err}};
    budget->fault = EXPR_FAULT_NONE;
    return check_node(&known, expr->top, &unused);
}
