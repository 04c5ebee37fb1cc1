/*
 * template: JSON trees with `${ expr }` in their strings, compiled once. Parts without a
 * placeholder stay what they are in the tree, shared by every evaluation. See expr/expr.h.
 *
 * Placeholders are found once, in the template. What an expression gives is data and is never read
 * for placeholders, or a value of a tenant or a provider could run expressions of its own (template
 * injection).
 */
#include "expr/template.h"

#include <stdio.h>

#include "expr/lex.h"

/* The way from the root of the tree to the value being compiled, for errors and lint. */
struct position {
    const struct position *above;
    slice key;    /* of a member; NULL for an item */
    size_t index; /* of an item */
};

struct compiler {
    struct arena *arena;
    struct err *err;
};

/* ---- where ---- */

/* Writes the pointer from the end of room backwards, cutting what does not fit. */
static slice pointer_text(const struct position *position, char *room, size_t size)
{
    size_t at = size;
    for (; position->above; position = position->above) {
        char number[24];
        int digits = snprintf(number, sizeof number, "%zu", position->index);
        slice part = position->key.ptr ? position->key : slice_of(number, (size_t)digits);
        /* From the last character to the first, so an escape's second character comes first: ~0 is
         * "~" and ~1 is "/" (RFC 6901 3). */
        for (size_t i = part.len; i-- > 0 && at > 2;) {
            char c = part.ptr[i];
            room[--at] = c == '~' ? '0' : c == '/' ? '1' : c;
            if (c == '~' || c == '/')
                room[--at] = '~';
        }
        if (at > 0)
            room[--at] = '/';
    }
    return slice_of(room + at, size - at);
}

/* Puts the position in front of the error's text. */
static void *fail_at(struct compiler *c, const struct position *position)
{
    char room[200];
    if (position->above)
        err_prefix(c->err, "at %.*s", SLICE_ARG(pointer_text(position, room, sizeof room)));
    return NULL;
}

static void *fail_with(struct compiler *c, const struct position *position, enum err_code code,
                       const char *text)
{
    err_set(c->err, code, "%s", text);
    return fail_at(c, position);
}

static struct expr_template *node_new(struct compiler *c, const struct position *position,
                                      enum expr_template_kind kind)
{
    struct expr_template *node = ARENA_NEW(c->arena, struct expr_template);
    if (!node)
        return fail_with(c, position, ERR_NOMEM, "memory: no room to compile a template");
    node->kind = kind;
    return node;
}

static void append_kid(struct expr_template *parent, struct expr_template *kid)
{
    ASSERT(!kid->next);
    if (parent->last)
        parent->last->next = kid;
    else
        parent->first = kid;
    parent->last = kid;
    parent->count++;
}

/* ---- strings ---- */

ptrdiff_t expr_closing_brace(slice text, const char **why)
{
    struct expr_lexer lexer = {text, 0};
    size_t open = 0;
    for (;;) {
        struct expr_token tok = expr_lex_next(&lexer);
        /* Braces of the expression itself are counted; the first one too many is the
         * placeholder's. */
        if (tok.kind == EXPR_TOKEN_RBRACE && open-- == 0)
            return (ptrdiff_t)tok.at;
        if (tok.kind == EXPR_TOKEN_LBRACE)
            open++;
        *why = tok.kind == EXPR_TOKEN_BAD ? tok.fault : "a ${ without its closing brace";
        if (tok.kind == EXPR_TOKEN_BAD || tok.kind == EXPR_TOKEN_END)
            return -1;
    }
}

/* The placeholder at the start of *rest, behind its "${"; *rest moves behind its brace. */
static struct expr_template *compile_placeholder(struct compiler *c,
                                                 const struct position *position, slice *rest)
{
    const char *why = NULL;
    ptrdiff_t end = expr_closing_brace(*rest, &why);
    if (end < 0) {
        err_set(c->err, ERR_SYNTAX, "syntax: %s, in the placeholder ${%.*s", why,
                SLICE_ARG(slice_first(*rest, 120)));
        return fail_at(c, position);
    }
    struct expr_template *node = node_new(c, position, EXPR_TEMPLATE_VALUE);
    if (!node)
        return NULL;
    char room[200];
    node->where = arena_dup(c->arena, pointer_text(position, room, sizeof room));
    node->expr = expr_compile(c->arena, slice_trim(slice_first(*rest, (size_t)end)), c->err);
    if (!node->expr)
        return fail_at(c, position);
    if (!node->where.ptr)
        return fail_with(c, position, ERR_NOMEM, "memory: no room to compile a template");
    *rest = slice_from(*rest, (size_t)end + 1);
    return node;
}

/* Takes the literal text before the next placeholder off *rest: up to a "${" or a "$${", of which
 * the first dollar goes. */
static slice take_literal(slice *rest)
{
    slice text = *rest;
    size_t i = 0;
    for (; i < text.len; i++) {
        slice from = slice_from(text, i);
        bool is_escape = slice_starts_with(from, SLICE("$${"));
        if (!is_escape && !slice_starts_with(from, SLICE("${")))
            continue;
        if (!is_escape || i > 0)
            break;
        /* At the start: "${" as such, then on to what follows it. */
        text = slice_from(text, 1);
        i = 1;
    }
    *rest = slice_from(text, i);
    return slice_first(text, i);
}

static struct expr_template *const_new(struct compiler *c, const struct position *position,
                                       struct json value)
{
    struct expr_template *node = node_new(c, position, EXPR_TEMPLATE_CONST);
    if (node)
        node->value = value;
    return node;
}

static struct expr_template *compile_string(struct compiler *c, const struct position *position,
                                            const struct json *string)
{
    slice rest = json_str(string);
    if (slice_find(rest, SLICE("${")) < 0)
        return const_new(c, position, *string);
    struct expr_template *node = node_new(c, position, EXPR_TEMPLATE_TEXT);
    while (node && rest.len > 0) {
        struct expr_template *part;
        if (slice_starts_with(rest, SLICE("${"))) {
            rest = slice_from(rest, 2);
            part = compile_placeholder(c, position, &rest);
        } else {
            part = const_new(c, position, json_string(take_literal(&rest)));
        }
        if (!part)
            return NULL;
        append_kid(node, part);
    }
    if (node && node->count == 1) {
        node = node->first; /* keeps its type; or a text that only had escapes */
        node->is_changed = true;
    }
    return node;
}

/* ---- trees ---- */

static struct expr_template *compile_value(struct compiler *c, const struct position *position,
                                           const struct json *value, size_t depth);

static struct expr_template *compile_member(struct compiler *c, const struct position *above,
                                            const struct json_member *member, size_t depth)
{
    struct position position = {above, json_str(&member->key), 0};
    /* A NULL ptr marks an item of an array; an empty name is a name. */
    if (!position.key.ptr)
        position.key = SLICE("");
    /* A name from data could collide with another one, or replace it. */
    if (slice_find(position.key, SLICE("${")) >= 0)
        return fail_with(c, &position, ERR_SYNTAX,
                         "syntax: a member name cannot hold a placeholder");
    struct expr_template *kid = compile_value(c, &position, &member->value, depth);
    if (kid)
        kid->key = member->key;
    return kid;
}

static struct expr_template *compile_container(struct compiler *c, const struct position *above,
                                               const struct json *value, size_t depth)
{
    bool is_array = value->type == JSON_ARRAY, is_same = true;
    if (depth >= EXPR_DEPTH_MAX)
        return fail_with(c, above, ERR_LIMIT, "limit: a template is nested over 64 deep");
    struct expr_template *node =
        node_new(c, above, is_array ? EXPR_TEMPLATE_ARRAY : EXPR_TEMPLATE_OBJECT);
    for (uint32_t i = 0; node && i < value->count; i++) {
        struct position position = {above, SLICE_NONE, i};
        struct expr_template *kid =
            is_array ? compile_value(c, &position, &value->as.items[i], depth + 1)
                     : compile_member(c, above, &value->as.members[i], depth + 1);
        if (!kid)
            return NULL;
        is_same = is_same && kid->kind == EXPR_TEMPLATE_CONST && !kid->is_changed;
        append_kid(node, kid);
    }
    /* Nothing in it changes, so one constant node stands for all of it, however large it is. */
    return node && is_same ? const_new(c, above, *value) : node;
}

static struct expr_template *compile_value(struct compiler *c, const struct position *position,
                                           const struct json *value, size_t depth)
{
    if (value->type == JSON_STRING)
        return compile_string(c, position, value);
    if (value->type == JSON_ARRAY || value->type == JSON_OBJECT)
        return compile_container(c, position, value, depth);
    return const_new(c, position, *value);
}

struct expr_template *expr_template_compile(struct arena *arena, const struct json *tree,
                                            struct err *err)
{
    struct compiler c = {arena, err};
    struct position top = {NULL, SLICE_NONE, 0};
    ASSERT(tree);
    return compile_value(&c, &top, tree, 0);
}

struct expr_template *expr_template_compile_text(struct arena *arena, slice text, struct err *err)
{
    struct json string = json_string(text);
    return expr_template_compile(arena, &string, err);
}

/* ---- questions about a template ---- */

bool expr_template_is_constant(const struct expr_template *tmpl)
{
    if (tmpl->kind == EXPR_TEMPLATE_VALUE)
        return false;
    for (const struct expr_template *kid = tmpl->first; kid; kid = kid->next)
        if (!expr_template_is_constant(kid))
            return false;
    return true;
}

static bool each_expr(const struct expr_template *tmpl, expr_template_fn on_expr, void *user)
{
    if (tmpl->kind == EXPR_TEMPLATE_VALUE)
        return on_expr(user, tmpl->expr, tmpl->where);
    for (const struct expr_template *kid = tmpl->first; kid; kid = kid->next)
        if (!each_expr(kid, on_expr, user))
            return false;
    return true;
}

void expr_template_each_expr(const struct expr_template *tmpl, expr_template_fn on_expr, void *user)
{
    (void)each_expr(tmpl, on_expr, user);
}
