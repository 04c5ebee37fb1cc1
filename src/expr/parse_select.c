/*
 * The parts of the grammar that are lists: [a, b], {a: b} and name(a, &b). See expr/parser.h.
 */
#include "expr/func.h"
#include "expr/literal.h"
#include "expr/parser.h"

/* ---- multiselects ---- the opening bracket is consumed */

struct expr_node *expr_parse_list(struct expr_parser *p, size_t at)
{
    struct expr_node *node = expr_parser_node(p, EXPR_NODE_LIST, at);
    do
        node = expr_parser_adopt(p, node, expr_parse_power(p, 0));
    while (node && expr_parser_accept(p, EXPR_TOKEN_COMMA));
    return node && expr_parser_expect(p, EXPR_TOKEN_RBRACKET, "',' or ']'") ? node : NULL;
}

bool expr_parse_name(struct expr_parser *p, slice *name)
{
    const char *why = NULL;
    int rc = OK;
    if (p->tok.kind == EXPR_TOKEN_NAME)
        *name = p->tok.text;
    else
        rc = expr_literal_name(p->arena, p->tok.text, name, &why);
    if (rc == ERR_NOMEM)
        expr_parser_nomem(p);
    else if (rc != OK)
        expr_parser_fail(p, EXPR_FAULT_SYNTAX, p->tok.at, "%s", why);
    expr_parser_advance(p);
    return rc == OK;
}

/* An earlier member of that key goes: the last one wins, as in JSON. */
static void drop_key(struct expr_node *hash, slice key)
{
    struct expr_node *last = NULL;
    for (struct expr_node *kid = hash->as.kids.first; kid; kid = kid->next) {
        if (!slice_eq(kid->key, key)) {
            last = kid;
            continue;
        }
        if (last)
            last->next = kid->next;
        else
            hash->as.kids.first = kid->next;
        if (!kid->next)
            hash->as.kids.last = last;
        hash->count--;
        return;
    }
}

struct expr_node *expr_parse_hash(struct expr_parser *p, size_t at)
{
    struct expr_node *node = expr_parser_node(p, EXPR_NODE_HASH, at);
    do {
        slice key = SLICE_NONE;
        if (p->tok.kind != EXPR_TOKEN_NAME && p->tok.kind != EXPR_TOKEN_QUOTED)
            return expr_parser_unexpected(p, "a key");
        if (!expr_parse_name(p, &key) || !expr_parser_expect(p, EXPR_TOKEN_COLON, "':'"))
            return NULL;
        struct expr_node *value = expr_parse_power(p, 0);
        if (!value || !node)
            return NULL;
        value->key = key;
        drop_key(node, key);
        node = expr_parser_adopt(p, node, value);
    } while (node && expr_parser_accept(p, EXPR_TOKEN_COMMA));
    return node && expr_parser_expect(p, EXPR_TOKEN_RBRACE, "',' or '}'") ? node : NULL;
}

/* ---- functions ---- */

static struct expr_node *parse_argument(struct expr_parser *p)
{
    size_t at = p->tok.at;
    if (!expr_parser_accept(p, EXPR_TOKEN_REF))
        return expr_parse_power(p, 0);
    return expr_parser_adopt(p, expr_parser_node(p, EXPR_NODE_REF, at), expr_parse_power(p, 0));
}

static struct expr_node *check_call(struct expr_parser *p, struct expr_node *call)
{
    const struct expr_function *function = call->as.call.function;
    if (call->count < function->args_min || call->count > function->args_max)
        return expr_parser_fail(
            p, EXPR_FAULT_ARITY, call->at, "%s() takes %s%u argument%s, got %u", function->name,
            function->args_min == function->args_max ? ""
            : call->count < function->args_min       ? "at least "
                                                     : "at most ",
            call->count < function->args_min ? function->args_min : function->args_max,
            function->args_min == 1 && function->args_max == 1 ? "" : "s", call->count);
    uint32_t i = 0;
    for (const struct expr_node *arg = call->as.call.args.first; arg; arg = arg->next, i++) {
        bool wants_ref = expr_function_arg(function, i) == EXPR_ARG_REF;
        if (wants_ref != (arg->kind == EXPR_NODE_REF))
            return expr_parser_fail(
                p, EXPR_FAULT_TYPE, arg->at, "%s() wants %s as argument %u", function->name,
                wants_ref ? "an expression reference (&...)" : "a value, not a reference,", i + 1);
    }
    return call;
}

/* name(...); the current token is the parenthesis. */
struct expr_node *expr_parse_call(struct expr_parser *p, slice name, size_t at)
{
    const struct expr_function *function = expr_function_find(name);
    struct expr_node *node = expr_parser_node(p, EXPR_NODE_CALL, at);
    expr_parser_advance(p);
    if (!expr_parser_accept(p, EXPR_TOKEN_RPAREN)) {
        do
            node = expr_parser_adopt(p, node, parse_argument(p));
        while (node && expr_parser_accept(p, EXPR_TOKEN_COMMA));
        if (!node || !expr_parser_expect(p, EXPR_TOKEN_RPAREN, "',' or ')'"))
            return NULL;
    }
    if (!node)
        return NULL;
    if (!function)
        return expr_parser_fail(p, EXPR_FAULT_UNKNOWN_FUNCTION, at, "there is no function %.*s()",
                                SLICE_ARG(slice_first(name, 64)));
    node->as.call.function = function;
    return check_call(p, node);
}
