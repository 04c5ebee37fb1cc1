/*
 * Decoding of the quoted tokens: "names", 'raw strings' and `literals`.
 */
#ifndef EXPR_LITERAL_H
#define EXPR_LITERAL_H

#include "base/arena.h"
#include "json/json.h"

/* token includes the quotes. Without escapes the result is borrowed from the token. All functions
 * return OK, ERR_SYNTAX or ERR_NOMEM; *why (a static string) says what is wrong. */

/* A JSON string. */
int expr_literal_name(struct arena *arena, slice token, slice *name, const char **why) MUST_CHECK;
/* Decodes a raw string: \' is a quote, any other backslash is literal. */
int expr_literal_raw(struct arena *arena, slice token, slice *text, const char **why) MUST_CHECK;
/* Decodes JSON in backticks; \` is a backtick. In the deprecated form of JEP 12, text that is not
 * JSON and does not begin with " [ or { is a string without quotes. */
int expr_literal_json(struct arena *arena, slice token, struct json *value,
                      const char **why) MUST_CHECK;

#endif
