/*
 * Inside the parser: precedence climbing over the tokens of expr/lex.h into the nodes of
 * expr/ast.h. Errors are sticky: the first one stays, and every function that gives a node gives
 * NULL from then on, and takes NULL for a node that could not be made.
 */
#ifndef EXPR_PARSER_H
#define EXPR_PARSER_H

#include "expr/ast.h"
#include "expr/lex.h"

struct expr_parser {
    struct expr_lexer lexer;
    struct expr_token tok; /* the current one: read, not yet consumed */
    struct arena *arena;
    struct err *err;
    enum expr_fault fault;
    unsigned depth;
};

/* ---- parse_node.c ---- */

struct expr_node *expr_parser_fail(struct expr_parser *p, enum expr_fault fault, size_t at,
                                   const char *fmt, ...) PRINTF_LIKE(4, 5);
struct expr_node *expr_parser_nomem(struct expr_parser *p);
/* The current token is not what the grammar allows here. */
struct expr_node *expr_parser_unexpected(struct expr_parser *p, const char *wanted);
void expr_parser_advance(struct expr_parser *p);
/* Goes past a token of that kind; false, and the second form an error, when it is another. */
bool expr_parser_accept(struct expr_parser *p, enum expr_token_kind kind);
bool expr_parser_expect(struct expr_parser *p, enum expr_token_kind kind, const char *wanted);

struct expr_node *expr_parser_node(struct expr_parser *p, enum expr_node_kind kind, size_t at);
/* The child's nesting counts in the parent's; gives the parent. */
struct expr_node *expr_parser_deepen(struct expr_parser *p, struct expr_node *parent,
                                     const struct expr_node *child);
/* Appends child to the kids of parent (the arguments of a call lie at the same place); gives the
 * parent. */
struct expr_node *expr_parser_adopt(struct expr_parser *p, struct expr_node *parent,
                                    struct expr_node *child);
/* left, then right; a left of NULL is the current value. */
struct expr_node *expr_parser_chain(struct expr_parser *p, struct expr_node *left,
                                    struct expr_node *right);
/* left OR right and left AND right as one flat list. */
struct expr_node *expr_parser_join(struct expr_parser *p, enum expr_node_kind kind,
                                   struct expr_node *left, struct expr_node *right);

/* ---- parse_select.c ---- */

/* Behind the opening bracket, which stands at `at`. */
struct expr_node *expr_parse_list(struct expr_parser *p, size_t at);
struct expr_node *expr_parse_hash(struct expr_parser *p, size_t at);
/* name(...); the current token is the parenthesis. */
struct expr_node *expr_parse_call(struct expr_parser *p, slice name, size_t at);
/* The current token, quoted or not, as a name. */
bool expr_parse_name(struct expr_parser *p, slice *name);

/* ---- parse.c ---- */

/* An expression of operators that bind stronger than power; 0 takes them all. */
struct expr_node *expr_parse_power(struct expr_parser *p, int power);

#endif
