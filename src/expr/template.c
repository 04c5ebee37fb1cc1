/*
 * template: JSON trees with `${ expr }` in their strings, compiled once. Parts without a
 * placeholder stay as they are in the tree, shared by every evaluation. See expr/expr.h.
 *
 * Placeholders are found once, in the template. The result of an expression is data and is never
 * searched for placeholders; otherwise a value of a tenant or a provider could run expressions of
 * its own (template injection). All expressions of a tree share one budget; only containers and
 * texts around a placeholder are built again.
 */
#include <stdarg.h>
#include <stdio.h>

#include "base/encode.h"
#include "expr/lex.h"
#include "expr/run.h"

enum expr_template_kind {
    EXPR_TEMPLATE_CONST,  /* value */
    EXPR_TEMPLATE_VALUE,  /* expr */
    EXPR_TEMPLATE_TEXT,   /* its kids are CONST strings and VALUEs, concatenated */
    EXPR_TEMPLATE_ARRAY,  /* kids */
    EXPR_TEMPLATE_OBJECT, /* kids with key */
};

struct expr_template {
    enum expr_template_kind kind;
    bool is_changed; /* a CONST that differs from the tree's string, which contained a $${ */
    uint32_t count;  /* number of kids */
    struct expr_template *first, *last;
    struct expr_template *next; /* sibling */
    struct json key;            /* only for kids of an object */
    struct json value;
    struct expr *expr;
    slice where; /* RFC 6901 pointer of the string */
};

/* The path from the root of the tree to the value being compiled, for errors and lint. */
struct position {
    const struct position *above;
    slice key;    /* members only; NULL for an item */
    size_t index; /* items only */
};

struct compiler {
    struct arena *arena;
    struct err *err;
};

/* ---- where ---- */

/* Writes the pointer backwards from the end of room and drops what does not fit. */
static slice pointer_text(const struct position *position, char *room, size_t size)
{
    size_t at = size;
    for (; position->above; position = position->above) {
        char number[24];
        int digits = snprintf(number, sizeof number, "%zu", position->index);
        slice part = position->key.ptr ? position->key : slice_of(number, (size_t)digits);
        /* The loop runs from the last character to the first, so an escape's second character is
         * written first: ~0 is "~" and ~1 is "/" (RFC 6901 3). */
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

/* Puts the position before the error's text. */
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
        return fail_with(c, position, ERR_NOMEM, "memory: not enough memory to compile a template");
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
        /* The expression's own braces are counted; the first closing brace without an opening one
         * ends the placeholder. */
        if (tok.kind == EXPR_TOKEN_RBRACE && open-- == 0)
            return (ptrdiff_t)tok.at;
        if (tok.kind == EXPR_TOKEN_LBRACE)
            open++;
        *why = tok.kind == EXPR_TOKEN_BAD ? tok.fault : "a ${ without its closing brace";
        if (tok.kind == EXPR_TOKEN_BAD || tok.kind == EXPR_TOKEN_END)
            return -1;
    }
}

/* Compiles the placeholder at the start of *rest, after its "${"; *rest moves past the closing
 * brace. */
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
        return fail_with(c, position, ERR_NOMEM, "memory: not enough memory to compile a template");
    *rest = slice_from(*rest, (size_t)end + 1);
    return node;
}

/* Removes the literal text before the next placeholder from *rest: up to a "${" or a "$${",
 * whose first dollar is dropped. */
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
        /* After an escape at the start, the text begins with a literal "${". */
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
        /* a single placeholder keeps the value's type; a text may also have only escapes */
        node = node->first;
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
    /* A NULL ptr marks an item of an array; an empty name is still a name. */
    if (!position.key.ptr)
        position.key = SLICE("");
    /* A name from data could collide with another name, or replace it. */
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
        return fail_with(c, above, ERR_LIMIT,
                         "limit: a template is nested more than 64 levels deep");
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
    /* No part of this container changes, so one constant node represents all of it, however
     * large it is. */
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

/* Returns the quote that is open at the end of text, or 0. `open` is the quote that is open at its
 * start. */
static char quote_after(slice text, char open)
{
    for (size_t i = 0; i < text.len; i++) {
        char c = text.ptr[i];
        if (c == '\\' && open)
            i++;
        else if (open ? c == open : c == '"' || c == '\'')
            open = open ? 0 : c;
    }
    return open;
}

const struct expr *expr_template_quoted(const struct expr_template *tmpl, const char *only)
{
    char open = 0;
    for (const struct expr_template *kid = tmpl->first; kid; kid = kid->next) {
        const struct expr *found = NULL;
        if (tmpl->kind != EXPR_TEMPLATE_TEXT)
            found = expr_template_quoted(kid, only);
        else if (kid->kind == EXPR_TEMPLATE_CONST)
            open = quote_after(json_str(&kid->value), open);
        else if (open && (!only || slice_eq_cstr(kid->where, only)))
            found = kid->expr;
        if (found)
            return found;
    }
    return NULL;
}

/* ---- evaluation ---- */

struct filling {
    const struct json *root;
    unsigned flags;
    struct expr_budget *budget;
    struct arena *arena;
    struct err *err;
};

static int fill_node(struct filling *f, const struct expr_template *tmpl, struct json *out);

static int fill_value(struct filling *f, const struct expr_template *tmpl, struct json *out)
{
    int rc = expr_eval(tmpl->expr, f->root, f->root, f->budget, f->arena, out, f->err);
    if (rc != OK && tmpl->where.len > 0)
        err_prefix(f->err, "at %.*s", SLICE_ARG(slice_first(tmpl->where, 200)));
    return rc;
}

static int no_room(struct filling *f)
{
    expr_budget_fail(f->budget, EXPR_FAULT_MEMORY, "");
    return err_set(f->err, ERR_NOMEM, "memory: not enough memory to fill in a template");
}

/* Whether a kid that gave null is omitted from its container. */
static bool is_dropped(const struct filling *f, const struct expr_template *kid,
                       const struct json *value)
{
    /* Only for the result of an expression: a null that is written in the template stays. */
    bool is_null = (f->flags & EXPR_DROP_NULL_MEMBERS) != 0 && kid->kind == EXPR_TEMPLATE_VALUE &&
                   value->type == JSON_NULL;
    return is_null &&
           !((f->flags & EXPR_KEEP_GIVEN_NULLS) != 0 && expr_names_null(kid->expr, f->root));
}

/* ---- text ---- */

/* Sets the budget's words; they name the faulty value by its pointer if the expression is a
 * chain of names. */
static void say_of(struct filling *f, const struct expr_template *part, const char *fmt, ...)
    PRINTF_LIKE(3, 4);
static void say_of(struct filling *f, const struct expr_template *part, const char *fmt, ...)
{
    char *words = f->budget->words;
    size_t size = sizeof(f->budget->words);
    struct buf name;
    va_list args;
    buf_init(&name, size / 2);
    expr_write_pointer(part->expr, &name);
    bool is_named = buf_is_ok(&name) && name.len > 0;
    int len = snprintf(words, size, "%.*s ", is_named ? (int)name.len : 12,
                       is_named ? name.ptr : "a part of it");
    buf_deinit(&name);
    va_start(args, fmt);
    (void)vsnprintf(words + len, size - (size_t)len, fmt, args);
    va_end(args);
}

static int text_fault(struct filling *f, const struct expr_template *part, const struct json *value)
{
    slice source = expr_source(part->expr), where = slice_first(part->where, 200);
    expr_budget_fail(f->budget, EXPR_FAULT_TYPE, "");
    say_of(f, part, "is %s, which cannot be part of a longer text", expr_value_type(value));
    return err_set(f->err, ERR_INVALID,
                   "%.*s%s${%.*s} is %s, which cannot be part of a longer text", SLICE_ARG(where),
                   where.len ? ": " : "", SLICE_ARG(slice_first(source, 200)),
                   expr_value_type(value));
}

/* Turns the value into one segment of a path: percent-encoded, and never "", "." or "..". */
static int path_segment(struct filling *f, struct expr_run *run, const struct expr_template *part,
                        struct json *value)
{
    slice text = json_str(value);
    /* With the id "..", /users/${id}/posts would be /posts. */
    if (text.len == 0 || path_is_dot_segment(text)) {
        expr_budget_fail(f->budget, EXPR_FAULT_VALUE, "");
        say_of(f, part, "is \"%.*s\", which cannot be part of a URL's path", SLICE_ARG(text));
        return err_set(f->err, ERR_INVALID,
                       "${%.*s} is \"%.*s\", which cannot be part of a URL's path",
                       SLICE_ARG(slice_first(expr_source(part->expr), 200)), SLICE_ARG(text));
    }
    char *room = NULL;
    int rc = expr_run_text(run, text.len * 3, &room);
    if (rc != OK)
        return rc;
    /* Large enough for the worst case, so the buffer never grows and never touches the heap. */
    struct buf encoded = {.ptr = room, .cap = text.len * 3, .bytes_max = text.len * 3};
    encode_percent(&encoded, text);
    ASSERT(buf_is_ok(&encoded) && encoded.ptr == room);
    *value = expr_string(room, encoded.len);
    return OK;
}

/* Each part is evaluated before space for the text is allocated; otherwise the text would be copied
 * each time it grows. */
static int text_part(struct filling *f, struct expr_run *run, const struct expr_template *part,
                     struct json *out)
{
    *out = part->value;
    if (part->kind == EXPR_TEMPLATE_CONST)
        return OK;
    int rc = fill_value(f, part, out);
    if (rc == OK && out->type != JSON_STRING) {
        slice text = SLICE_NONE;
        if (out->type != JSON_BOOL && !json_is_number(out))
            return text_fault(f, part, out);
        /* Numbers are written as people write them in a URL or in prose: 1e3 is 1000. */
        *out = json_plain_number(out);
        rc = expr_value_text(run, out, &text);
        if (rc == OK)
            *out = expr_string(text.ptr, text.len);
    }
    return rc == OK && (f->flags & EXPR_PATH_SEGMENTS) != 0 ? path_segment(f, run, part, out) : rc;
}

static int fill_text(struct filling *f, const struct expr_template *tmpl, struct json *out)
{
    /* Errors name the template as their source, since no single expression is at fault. */
    struct expr_run run = {.source = SLICE("of a template"),
                           .root = f->root,
                           .budget = f->budget,
                           .arena = f->arena,
                           .err = f->err};
    struct json *parts = NULL;
    size_t len = 0, count = 0;
    int rc = expr_run_items(&run, tmpl->count, &parts);
    for (const struct expr_template *part = tmpl->first; part && rc == OK; part = part->next) {
        rc = text_part(f, &run, part, &parts[count]);
        len += rc == OK ? parts[count++].count : 0;
    }
    char *to = NULL;
    if (rc == OK)
        rc = expr_run_text(&run, len, &to);
    if (rc != OK)
        return rc;
    *out = expr_string(to, len);
    for (size_t i = 0; i < count; i++)
        if (parts[i].count > 0)
            to = mempcpy(to, parts[i].as.text, parts[i].count);
    ASSERT(to == out->as.text + len);
    return OK;
}

/* ---- containers ---- */

static int fill_array(struct filling *f, const struct expr_template *tmpl, struct json *out)
{
    /* tmpl->count is the maximum; dropped items leave their slots unused. */
    struct json *items = ARENA_ARRAY(f->arena, struct json, tmpl->count);
    size_t count = 0;
    int rc = items ? OK : no_room(f);
    for (const struct expr_template *kid = tmpl->first; kid && rc == OK; kid = kid->next) {
        rc = fill_node(f, kid, &items[count]);
        count += !is_dropped(f, kid, &items[count]);
    }
    if (rc == OK)
        *out = expr_array(items, count);
    return rc;
}

static int fill_object(struct filling *f, const struct expr_template *tmpl, struct json *out)
{
    struct json_member *members = ARENA_ARRAY(f->arena, struct json_member, tmpl->count);
    size_t count = 0;
    int rc = members ? OK : no_room(f);
    for (const struct expr_template *kid = tmpl->first; kid && rc == OK; kid = kid->next) {
        members[count].key = kid->key;
        /* The next kid overwrites a member that is not counted. */
        rc = fill_node(f, kid, &members[count].value);
        count += !is_dropped(f, kid, &members[count].value);
    }
    if (rc == OK)
        *out = expr_object(members, count);
    return rc;
}

static int fill_node(struct filling *f, const struct expr_template *tmpl, struct json *out)
{
    switch (tmpl->kind) {
    case EXPR_TEMPLATE_CONST:
        *out = tmpl->value;
        return OK;
    case EXPR_TEMPLATE_VALUE:
        return fill_value(f, tmpl, out);
    case EXPR_TEMPLATE_TEXT:
        return fill_text(f, tmpl, out);
    case EXPR_TEMPLATE_ARRAY:
        return fill_array(f, tmpl, out);
    case EXPR_TEMPLATE_OBJECT:
        return fill_object(f, tmpl, out);
    }
    ASSERT(tmpl->kind <= EXPR_TEMPLATE_OBJECT);
    return ERR_INVALID;
}

int expr_template_eval(const struct expr_template *tmpl, const struct json *root, unsigned flags,
                       struct expr_budget *budget, struct arena *arena, struct json *result,
                       struct err *err)
{
    struct err own; /* used if err is NULL, because positions are added to the text */
    struct filling filling = {root ? root : &json_null, flags, budget, arena, err ? err : &own};
    struct json value = json_null;
    ASSERT(tmpl && budget && arena && result);
    budget->fault = EXPR_FAULT_NONE;
    int rc = fill_node(&filling, tmpl, &value);
    *result = rc == OK ? value : json_null;
    return rc;
}
