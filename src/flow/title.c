/*
 * Display names of flows and steps. A flow's title is made once, at the start, from its template's
 * flow_title and the flow's input, and is stored with the flow. Without a flow_title, or if the
 * title cannot be made, the template's name is used. The flow starts in any case.
 *
 * Inputs come from outside, so the evaluation has a small budget, and a title is one short line
 * without characters that control a terminal or reorder the text around it.
 */
#include "base/ascii.h"
#include "flow/internal.h"

enum {
    TITLE_ARENA_BYTES_MAX = 1024 * 1024,
    TITLE_VISITS_MAX = 20000,
    TITLE_BUILT_BYTES_MAX = 64 * 1024,
};

/* Cleans a title: control characters and white space become one blank, direction marks are omitted.
 * Truncated to FLOW_TITLE_CHARS_MAX characters, the last of which is then an ellipsis. Returns
 * SLICE_NONE if nothing is left, or if out of memory. */
static slice clean(slice text, struct arena *arena)
{
    char *to = arena_alloc_text(arena, text.len + sizeof("\u2026"));
    size_t len = 0, end = 0, chars = 0;
    bool wants_blank = false;
    for (size_t at = 0; to && at < text.len && chars <= FLOW_TITLE_CHARS_MAX;) {
        uint32_t c;
        size_t bytes = slice_code_point(slice_from(text, at), &c);
        bool is_blank = c == ' ' || c == 0xa0 || (code_point_is_unsafe(c) && c < 0xa0) ||
                        c == 0x2028 || c == 0x2029;
        if (is_blank) {
            wants_blank = len > 0;
        } else if (!code_point_is_unsafe(c)) {
            if (wants_blank)
                to[len++] = ' ';
            memcpy(to + len, text.ptr + at, bytes);
            len += bytes;
            chars += 1 + wants_blank;
            wants_blank = false;
        }
        if (chars < FLOW_TITLE_CHARS_MAX)
            end = len;
        at += bytes;
    }
    if (chars > FLOW_TITLE_CHARS_MAX) {
        memcpy(to + end, "\u2026", 3);
        len = end + 3;
    }
    return to && len > 0 ? slice_of(to, len) : SLICE_NONE;
}

/* Only the flow's input and its own data are known at this time (template_lint_title). */
static int evaluate(struct flow_run *run, struct arena *arena, struct json *value, struct err *err)
{
    static const struct flow_step_def none = {.key = SLICE_INIT("")};
    struct expr_budget budget;
    const struct json *root = flow_plan_root(run, &none, arena, NULL, 0);
    if (!root)
        return err_set(err, ERR_NOMEM, "out of memory");
    expr_budget_init(&budget);
    budget.visits_max = TITLE_VISITS_MAX;
    budget.bytes_max = TITLE_BUILT_BYTES_MAX;
    int rc = expr_template_eval(run->tmpl->flow_title, root, 0, &budget, arena, value, err);
    if (rc == OK && value->type != JSON_STRING)
        rc = err_set(err, ERR_INVALID, "it is %s, not text", json_type_name(value));
    return rc;
}

void flow_title_begin(struct flow_run *run)
{
    struct arena arena;
    struct json value;
    struct err err;
    if (!run->tmpl->flow_title)
        return;
    arena_init(&arena, TITLE_ARENA_BYTES_MAX);
    if (evaluate(run, &arena, &value, &err) == OK)
        run->whole.title = clean(json_str(&value), &run->op.arena);
    else
        op_log(&run->op, LOG_INFO,
               "the title of a flow cannot be computed; its template's name is used",
               LOG_STR("template", run->tmpl->key), LOG_STR("because", slice_cstr(err.text)));
    arena_deinit(&arena);
}

/* ---- steps ---- */

/* Turns a key into words: "create_tasks" becomes "Create tasks". */
static slice words_of(slice key, struct arena *arena)
{
    char *words = arena_alloc_text(arena, key.len + 1);
    for (size_t i = 0; words && i < key.len; i++)
        words[i] = key.ptr[i] == '_' ? ' ' : key.ptr[i];
    if (words && key.len > 0)
        words[0] = ascii_upper(words[0]);
    return words ? slice_of(words, key.len) : key;
}

slice flow_step_title(const struct flow_step_def *step, const struct catalog *catalog,
                      struct arena *arena)
{
    const struct catalog_action *action =
        step->type == FLOW_TOOL_CALL ? catalog_find_tool(catalog, step->tool) : NULL;
    if (step->label.ptr)
        return step->label;
    if (!action)
        return words_of(step->key, arena);
    return arena_printf(arena, "%.*s: %.*s", SLICE_ARG(action->integration->name),
                        SLICE_ARG(action->title));
}
