/*
 * The tokens of JMESPath. The lexer only finds where a token begins and ends: it allocates nothing
 * and decodes nothing (expr/literal.h does), so that templates can use it to find the brace that
 * closes a placeholder.
 */
#ifndef EXPR_LEX_H
#define EXPR_LEX_H

#include <stdint.h>

#include "base/slice.h"

enum expr_token_kind {
    EXPR_TOKEN_END,
    EXPR_TOKEN_BAD, /* see expr_token.fault */
    EXPR_TOKEN_NAME,
    EXPR_TOKEN_QUOTED,  /* "..." */
    EXPR_TOKEN_RAW,     /* '...' */
    EXPR_TOKEN_LITERAL, /* `...` */
    EXPR_TOKEN_NUMBER,
    EXPR_TOKEN_DOT,
    EXPR_TOKEN_STAR,
    EXPR_TOKEN_FLATTEN, /* [] */
    EXPR_TOKEN_FILTER,  /* [? */
    EXPR_TOKEN_LBRACKET,
    EXPR_TOKEN_RBRACKET,
    EXPR_TOKEN_LBRACE,
    EXPR_TOKEN_RBRACE,
    EXPR_TOKEN_LPAREN,
    EXPR_TOKEN_RPAREN,
    EXPR_TOKEN_COMMA,
    EXPR_TOKEN_COLON,
    EXPR_TOKEN_CURRENT, /* @ */
    EXPR_TOKEN_ROOT,    /* $ */
    EXPR_TOKEN_REF,     /* & */
    EXPR_TOKEN_PIPE,
    EXPR_TOKEN_OR,
    EXPR_TOKEN_AND,
    EXPR_TOKEN_NOT,
    EXPR_TOKEN_EQ,
    EXPR_TOKEN_NE,
    EXPR_TOKEN_LT,
    EXPR_TOKEN_LE,
    EXPR_TOKEN_GT,
    EXPR_TOKEN_GE,
};

struct expr_token {
    enum expr_token_kind kind;
    size_t at;         /* offset of the first byte, quotes included */
    slice text;        /* the whole token, quotes included; borrowed from the source */
    const char *fault; /* for EXPR_TOKEN_BAD: what is wrong, a static text */
};

struct expr_lexer {
    slice source;
    size_t at; /* where the next token begins, or white space before it */
};

/* Returns the next token; at the end always EXPR_TOKEN_END. After EXPR_TOKEN_BAD the lexer does
 * not move on. */
struct expr_token expr_lex_next(struct expr_lexer *lexer);

#endif
