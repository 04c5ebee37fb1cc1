/*
 * lex: splits expressions into tokens in one pass. The offset is its only state, so a copy of the
 * lexer can read ahead. See expr/lex.h.
 */
#include "expr/lex.h"

#include "base/ascii.h"

static bool is_name_start(char c)
{
    return ascii_is_letter(c) || c == '_';
}

/* Returns the byte at offset i, NUL after the end. Only a quoted token can contain a NUL, and its
 * loop checks the length. */
static char peek(const struct expr_lexer *lexer, size_t i)
{
    return i < lexer->source.len ? lexer->source.ptr[i] : '\0';
}

static struct expr_token token(struct expr_lexer *lexer, enum expr_token_kind kind, size_t len)
{
    ASSERT(len <= lexer->source.len - lexer->at);
    struct expr_token tok = {kind, lexer->at, {lexer->source.ptr + lexer->at, len}, NULL};
    lexer->at += len;
    return tok;
}

static struct expr_token bad_token(struct expr_lexer *lexer, const char *fault)
{
    struct expr_token tok = {EXPR_TOKEN_BAD, lexer->at, SLICE_NONE, fault};
    tok.text = slice_first(slice_from(lexer->source, lexer->at), 1);
    return tok;
}

/* Reads from an opening quote to the closing one; a backslash includes the byte after it. */
static struct expr_token quoted(struct expr_lexer *lexer, enum expr_token_kind kind,
                                const char *fault)
{
    char quote = lexer->source.ptr[lexer->at];
    size_t i = lexer->at + 1;
    while (i < lexer->source.len && lexer->source.ptr[i] != quote)
        /* A backslash at the very end makes i exceed the length, which the check below catches. */
        i += lexer->source.ptr[i] == '\\' ? 2 : 1;
    if (i >= lexer->source.len)
        return bad_token(lexer, fault);
    return token(lexer, kind, i + 1 - lexer->at);
}

static struct expr_token name_or_number(struct expr_lexer *lexer)
{
    size_t i = lexer->at + 1;
    if (is_name_start(lexer->source.ptr[lexer->at])) {
        while (is_name_start(peek(lexer, i)) || ascii_is_digit(peek(lexer, i)))
            i++;
        return token(lexer, EXPR_TOKEN_NAME, i - lexer->at);
    }
    /* A '-' is only the sign of a number: JMESPath has no subtraction. */
    if (lexer->source.ptr[lexer->at] == '-' && !ascii_is_digit(peek(lexer, i)))
        return bad_token(lexer, "a '-' without a digit after it");
    while (ascii_is_digit(peek(lexer, i)))
        i++;
    return token(lexer, EXPR_TOKEN_NUMBER, i - lexer->at);
}

/* Reads a token of two bytes (`two`) if the second byte is `second`, else of one byte (`one`). */
static struct expr_token pair(struct expr_lexer *lexer, char second, enum expr_token_kind two,
                              enum expr_token_kind one)
{
    bool is_two = peek(lexer, lexer->at + 1) == second;
    return token(lexer, is_two ? two : one, is_two ? 2 : 1);
}

static struct expr_token bracket(struct expr_lexer *lexer)
{
    if (peek(lexer, lexer->at + 1) == '?')
        return token(lexer, EXPR_TOKEN_FILTER, 2);
    return pair(lexer, ']', EXPR_TOKEN_FLATTEN, EXPR_TOKEN_LBRACKET);
}

/* Tokens of one character that do not begin a longer token; all other bytes map to
 * EXPR_TOKEN_END. */
static const uint8_t singles[256] = {
    ['.'] = EXPR_TOKEN_DOT,     ['*'] = EXPR_TOKEN_STAR,   [']'] = EXPR_TOKEN_RBRACKET,
    ['{'] = EXPR_TOKEN_LBRACE,  ['}'] = EXPR_TOKEN_RBRACE, ['('] = EXPR_TOKEN_LPAREN,
    [')'] = EXPR_TOKEN_RPAREN,  [','] = EXPR_TOKEN_COMMA,  [':'] = EXPR_TOKEN_COLON,
    ['@'] = EXPR_TOKEN_CURRENT, ['$'] = EXPR_TOKEN_ROOT,
};

struct expr_token expr_lex_next(struct expr_lexer *lexer)
{
    ASSERT(lexer->at <= lexer->source.len);
    slice src = lexer->source;
    while (lexer->at < src.len && (src.ptr[lexer->at] == ' ' || src.ptr[lexer->at] == '\t' ||
                                   src.ptr[lexer->at] == '\n' || src.ptr[lexer->at] == '\r'))
        lexer->at++;
    if (lexer->at == src.len)
        return token(lexer, EXPR_TOKEN_END, 0);
    char c = src.ptr[lexer->at];
    if (is_name_start(c) || ascii_is_digit(c) || c == '-')
        return name_or_number(lexer);
    switch (c) {
    case '[':
        return bracket(lexer);
    case '|':
        return pair(lexer, '|', EXPR_TOKEN_OR, EXPR_TOKEN_PIPE);
    case '&':
        return pair(lexer, '&', EXPR_TOKEN_AND, EXPR_TOKEN_REF);
    case '!':
        return pair(lexer, '=', EXPR_TOKEN_NE, EXPR_TOKEN_NOT);
    case '<':
        return pair(lexer, '=', EXPR_TOKEN_LE, EXPR_TOKEN_LT);
    case '>':
        return pair(lexer, '=', EXPR_TOKEN_GE, EXPR_TOKEN_GT);
    case '=':
        if (peek(lexer, lexer->at + 1) != '=')
            return bad_token(lexer, "a single '='; use '==' to compare");
        return token(lexer, EXPR_TOKEN_EQ, 2);
    case '"':
        return quoted(lexer, EXPR_TOKEN_QUOTED, "a '\"' that is never closed");
    case '\'':
        return quoted(lexer, EXPR_TOKEN_RAW, "a \"'\" that is never closed");
    case '`':
        return quoted(lexer, EXPR_TOKEN_LITERAL, "a '`' that is never closed");
    default:
        break;
    }
    enum expr_token_kind kind = (enum expr_token_kind)singles[(unsigned char)c];
    if (kind == EXPR_TOKEN_END)
        return bad_token(lexer, "unexpected character");
    return token(lexer, kind, 1);
}
