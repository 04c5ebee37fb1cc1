/*
 * literal: quoted tokens of expressions; see expr/literal.h. This code runs only when an expression
 * is compiled, so it may copy.
 */
#include "expr/literal.h"

#include "expr/expr.h"

static const struct json_limits literal_limits = {.depth_max = EXPR_DEPTH_MAX,
                                                  .refuse_dup_keys = true};

static slice between_quotes(slice token)
{
    ASSERT(token.len >= 2);
    return slice_of(token.ptr + 1, token.len - 2);
}

/* Removes the backslash before each `quote`; escapes pair up from the left, as in the lexer.
 * Borrows the text if there is nothing to remove. */
static int unescape(struct arena *arena, slice text, char quote, slice *out)
{
    *out = text;
    if (slice_find_char(text, quote) < 0)
        return OK;
    char *to = arena_alloc_text(arena, text.len);
    if (!to)
        return ERR_NOMEM;
    size_t len = 0;
    for (size_t i = 0; i < text.len; i++) {
        if (text.ptr[i] == '\\' && i + 1 < text.len) {
            i++;
            /* Only a backslash before this quote is removed; the JSON parser or the raw string
             * needs all others. */
            if (text.ptr[i] != quote)
                to[len++] = '\\';
        }
        to[len++] = text.ptr[i];
    }
    ASSERT(len <= text.len);
    *out = slice_of(to, len);
    return OK;
}

/* Parses text as JSON; returns ERR_NOMEM or ERR_SYNTAX on failure. */
static int parse_literal_json(struct arena *arena, slice text, struct json *value)
{
    struct err err = {OK, ""};
    const struct json *parsed = json_parse(arena, text, &literal_limits, &err);
    if (!parsed)
        return err.code == ERR_NOMEM ? ERR_NOMEM : ERR_SYNTAX;
    *value = *parsed;
    return OK;
}

static bool is_escape_free(slice text)
{
    for (size_t i = 0; i < text.len; i++)
        if (text.ptr[i] == '\\' || (unsigned char)text.ptr[i] < 0x20)
            return false;
    return true;
}

int expr_literal_name(struct arena *arena, slice token, slice *name, const char **why)
{
    slice text = between_quotes(token);
    *name = text;
    /* Without a backslash or control character the text between the quotes is the name itself. */
    if (is_escape_free(text))
        return OK;
    struct json value = json_null;
    /* The quotes are included: the whole token is a JSON string. */
    int rc = parse_literal_json(arena, token, &value);
    *why = "a quoted name must be a JSON string";
    ASSERT(rc != OK || value.type == JSON_STRING);
    *name = json_str(&value);
    return rc;
}

int expr_literal_raw(struct arena *arena, slice token, slice *text, const char **why)
{
    *why = "out of memory";
    return unescape(arena, between_quotes(token), '\'', text);
}

static slice trim(slice text)
{
    while (text.len > 0 && strchr(" \t\r\n", text.ptr[0]) && text.ptr[0])
        text = slice_from(text, 1);
    while (text.len > 0 && strchr(" \t\r\n", text.ptr[text.len - 1]) && text.ptr[text.len - 1])
        text.len--;
    return text;
}

/* Parses the deprecated form, in which the text is read as if it were in quotes. */
static int parse_legacy(struct arena *arena, slice text, struct json *value)
{
    /* len is checked first, because strchr also finds the NUL of its list. Text that begins like
     * JSON is an error, not a string; otherwise a typing error would become data. */
    if (text.len == 0 || strchr("\"[{", text.ptr[0]))
        return ERR_SYNTAX;
    slice in_quotes = arena_printf(arena, "\"%.*s\"", SLICE_ARG(text));
    if (!in_quotes.ptr)
        return ERR_NOMEM;
    return parse_literal_json(arena, in_quotes, value);
}

int expr_literal_json(struct arena *arena, slice token, struct json *value, const char **why)
{
    *why = "a literal in backticks must be JSON";
    slice text = SLICE_NONE;
    int rc = unescape(arena, between_quotes(token), '`', &text);
    if (rc != OK)
        return rc;
    text = trim(text);
    if (text.len == 0) {
        *why = "an empty literal";
        return ERR_SYNTAX;
    }
    rc = parse_literal_json(arena, text, value);
    return rc == ERR_SYNTAX ? parse_legacy(arena, text, value) : rc;
}
