/*
 * See view.h.
 */
#include "call/view.h"

#include "base/ascii.h"
#include "catalog/catalog.h"

enum { VIEW_BYTES_MAX = 64 * 1024 * 1024 };

slice call_select_fault(slice select, struct arena *arena)
{
    struct err err;
    if (expr_compile(arena, select, &err))
        return SLICE_NONE;
    slice fault = arena_printf(arena, "select is not a JMESPath expression: %s", err.text);
    return fault.ptr ? fault : SLICE("select is not a JMESPath expression");
}

/* The tree is larger than the text, so the arena limits the size of an output. */
static int evaluate_over(slice output, slice source, struct arena *arena, const struct json **whole,
                         struct json *result, struct err *err)
{
    struct expr_budget budget;
    const struct expr *expr = expr_compile(arena, source, err);
    *whole = expr ? json_parse(arena, output, &json_limits_provider, err) : NULL;
    if (expr && !*whole)
        return err_set(err, ERR_NOMEM, "the output is too large for it");
    if (!expr)
        return err->code;
    expr_budget_init(&budget);
    return expr_eval(expr, *whole, *whole, &budget, arena, result, err);
}

int call_select(slice output, slice select, struct arena *arena, slice *value, struct err *err)
{
    struct json result;
    const struct json *whole;
    int status = evaluate_over(output, select, arena, &whole, &result, err);
    if (status != OK)
        return status;
    *value = json_text_of(&result, arena, VIEW_BYTES_MAX);
    return value->ptr ? OK : err_set(err, ERR_NOMEM, "its result is too large");
}

/* ---- the names that a view leaves out ---- */

struct names {
    struct arena *arena;
    slice items[CALL_VIEW_NAMES_MAX];
    size_t count;
    bool are_more;
};

/* A name that is not a plain identifier is quoted, as in an expression. */
static slice path_of(struct names *names, slice path, slice name)
{
    struct buf text;
    bool is_plain = name.len > 0 && !ascii_is_digit(name.ptr[0]);
    for (size_t i = 0; i < name.len; i++)
        is_plain = is_plain && (ascii_is_alnum(name.ptr[i]) || name.ptr[i] == '_');
    buf_init(&text, VIEW_BYTES_MAX);
    buf_append(&text, path);
    if (path.len > 0)
        buf_append_char(&text, '.');
    if (is_plain)
        buf_append(&text, name);
    else
        json_write_str(&text, name);
    return arena_take(names->arena, &text);
}

static void add_name(struct names *names, slice path)
{
    for (size_t i = 0; i < names->count; i++)
        if (slice_eq(names->items[i], path))
            return;
    names->are_more = names->count == CALL_VIEW_NAMES_MAX;
    if (!names->are_more)
        names->items[names->count++] = path;
}

/* Whether nothing is lost if a view omits the value. */
static bool is_empty(const struct json *value)
{
    return !expr_is_true(value) && value->type != JSON_BOOL;
}

/* Items are compared by position; a view with other items than the output is represented by its
 * first item. A container that the view has replaced by a text or a number is not left out. */
static void name_missing(struct names *names, slice path, const struct json *whole,
                         const struct json *view)
{
    if (!view || whole->type != view->type || names->are_more)
        return;
    if (whole->type == JSON_ARRAY) {
        slice items = arena_printf(names->arena, "%.*s[]", SLICE_ARG(path));
        for (uint32_t i = 0; i < whole->count && view->count > 0; i++)
            name_missing(names, items, &whole->as.items[i],
                         &view->as.items[whole->count == view->count ? i : 0]);
    }
    for (uint32_t i = 0; whole->type == JSON_OBJECT && i < whole->count; i++) {
        const struct json *value = &whole->as.members[i].value;
        slice name = json_str(&whole->as.members[i].key);
        const struct json *kept = json_get(view, name);
        if (is_empty(value))
            continue;
        if (!kept || kept->type == JSON_NULL)
            add_name(names, path_of(names, path, name));
        else
            name_missing(names, path_of(names, path, name), value, kept);
    }
}

static slice names_text(const struct names *names)
{
    struct json_text text;
    if (names->count == 0)
        return SLICE_NONE;
    struct json_writer *w = json_text_begin(&text, VIEW_BYTES_MAX);
    json_open(w, '[');
    for (size_t i = 0; i < names->count; i++)
        json_put_str(w, names->items[i]);
    if (names->are_more)
        json_put_str(w, SLICE("..."));
    json_close(w, ']');
    return json_text_take(&text, names->arena);
}

int call_view(slice output, slice view, struct arena *arena, slice *value, slice *left_out,
              struct err *err)
{
    struct json_text text;
    struct json result;
    const struct json *whole;
    struct names names = {.arena = arena};
    int status = evaluate_over(output, view, arena, &whole, &result, err);
    if (status != OK)
        return status;
    ASSERT(whole);
    name_missing(&names, SLICE(""), whole, &result);
    *left_out = names_text(&names);
    json_put_without_nulls(json_text_begin(&text, VIEW_BYTES_MAX), &result);
    *value = json_text_take(&text, arena);
    return value->ptr && !arena->is_exhausted ? OK : err_set(err, ERR_NOMEM, "out of memory");
}
