/*
 * template_eval: evaluation of templates. One budget bounds all expressions of a tree together.
 * Constants are shared with the tree: only containers and texts around a placeholder are made new.
 */
#include "base/encode.h"
#include "expr/run.h"
#include "expr/template.h"

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
    f->budget->fault = EXPR_FAULT_MEMORY;
    return err_set(f->err, ERR_NOMEM, "memory: no room to fill in a template");
}

/* Whether a kid that gave null is left out of its container. */
static bool is_dropped(const struct filling *f, const struct expr_template *kid,
                       const struct json *value)
{
    /* Only what an expression gave: a null that is written in the template stays. */
    return (f->flags & EXPR_DROP_NULL_MEMBERS) != 0 && kid->kind == EXPR_TEMPLATE_VALUE &&
           value->type == JSON_NULL;
}

/* ---- text ---- */

static int text_fault(struct filling *f, const struct expr_template *part, const struct json *value)
{
    slice source = expr_source(part->expr), where = slice_first(part->where, 200);
    f->budget->fault = EXPR_FAULT_TYPE;
    return err_set(f->err, ERR_INVALID,
                   "%.*s%s${%.*s} is %s, which cannot stand inside a longer text", SLICE_ARG(where),
                   where.len ? ": " : "", SLICE_ARG(slice_first(source, 200)),
                   expr_value_type(value));
}

/* The value as one segment of a path: percent-encoded, and never one that climbs or vanishes. */
static int path_segment(struct filling *f, struct expr_run *run, const struct expr_template *part,
                        struct json *value)
{
    slice text = json_str(value);
    /* "", "." and ".." would make the URL another one (RFC 3986 5.2.4): with id "..",
     * /users/${id}/posts is /posts. */
    if (text.len == 0 || slice_eq_cstr(text, ".") || slice_eq_cstr(text, "..")) {
        f->budget->fault = EXPR_FAULT_VALUE;
        return err_set(f->err, ERR_INVALID,
                       "${%.*s} is \"%.*s\", which cannot stand in the path of a URL",
                       SLICE_ARG(slice_first(expr_source(part->expr), 200)), SLICE_ARG(text));
    }
    char *room = NULL;
    int rc = expr_run_text(run, text.len * 3, &room);
    if (rc != OK)
        return rc;
    /* Room for the worst case, so it never grows and never touches the heap. */
    struct buf encoded = {.ptr = room, .cap = text.len * 3, .bytes_max = text.len * 3};
    encode_percent(&encoded, text);
    ASSERT(buf_is_ok(&encoded) && encoded.ptr == room);
    *value = expr_string(room, encoded.len);
    return OK;
}

/* Adds what the part gives to the text. Its value is made first and lies before the text in the
 * arena, or the text would be copied each time it grows. */
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
        /* Numbers as people write them in a URL or text: 1e3 is 1000. */
        *out = json_plain_number(out);
        rc = expr_value_text(run, out, &text);
        if (rc == OK)
            *out = expr_string(text.ptr, text.len);
    }
    return rc == OK && (f->flags & EXPR_PATH_SEGMENTS) != 0 ? path_segment(f, run, part, out) : rc;
}

static int fill_text(struct filling *f, const struct expr_template *tmpl, struct json *out)
{
    /* The source of the whole is named so in errors: no single expression is at fault. */
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
    /* tmpl->count is the most that can stay; what is dropped leaves room unused. */
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
        /* The next kid overwrites a member that was not counted. */
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
    struct filling filling = {root ? root : &json_null, flags, budget, arena, err};
    struct json value = json_null;
    ASSERT(tmpl && budget && arena && result);
    budget->fault = EXPR_FAULT_NONE;
    int rc = fill_node(&filling, tmpl, &value);
    *result = rc == OK ? value : json_null;
    return rc;
}
