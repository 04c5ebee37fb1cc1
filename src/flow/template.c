/*
 * One template: its text is parsed, read and checked; see template.h. Steps are read in
 * template_step.c. All problems of a file are reported together, so parsing continues after an
 * error. The lint is skipped then, because it relies on a template without errors.
 */
#include "base/mem.h"
#include "flow/template_read.h"
#include "vault/key.h"

enum { TEMPLATE_ARENA_BYTES_MAX = 32 * 1024 * 1024 };

ptrdiff_t template_find_step(const struct flow_template *tmpl, slice key)
{
    for (size_t i = 0; i < tmpl->step_count; i++)
        if (slice_eq(tmpl->steps[i].key, key))
            return (ptrdiff_t)i;
    return -1;
}

bool template_constant(struct reader *r, const char *name, const struct expr_template *tmpl,
                       struct json *value)
{
    struct expr_budget budget;
    struct err err;
    if (!tmpl || !expr_template_is_constant(tmpl))
        return false;
    expr_budget_init(&budget);
    if (expr_template_eval(tmpl, NULL, 0, &budget, r->arena, value, &err) == OK)
        return true;
    reader_error(r, name, "%s", err.text);
    return false;
}

/* step_count grows with each step read, so a step finds only keys before its own: a duplicate
 * key is an error in the second step. */
static void read_steps(struct reader *r, struct flow_template *tmpl)
{
    const struct json *array = reader_member(r, "steps");
    if (!json_is(array, JSON_ARRAY) || array->count == 0 || array->count > FLOW_STEPS_MAX) {
        reader_error(r, "steps", "must be an array of 1 to %d steps", FLOW_STEPS_MAX);
        return;
    }
    tmpl->steps = ARENA_ARRAY(r->arena, struct flow_step_def, array->count);
    tmpl->actions = ARENA_NEW(r->arena, struct flow_actions);
    if (tmpl->actions)
        tmpl->actions->of = ARENA_ARRAY(r->arena, const struct catalog_action *, array->count);
    for (uint32_t i = 0; tmpl->steps && i < array->count; i++) {
        struct reader_path path = {r->path, SLICE("steps"), i};
        template_read_step(r, &path, &array->as.items[i], tmpl, i);
        tmpl->step_count++;
    }
}

/* A second pass, because the lint of a step refers to later steps, too. */
static void lint_steps(struct reader *r, struct flow_template *tmpl, const struct catalog *catalog)
{
    const struct json *array = JSON_GET(r->object, "steps");
    for (size_t i = 0; i < tmpl->step_count; i++) {
        struct reader_path path = {r->path, SLICE("steps"), (ptrdiff_t)i};
        struct reader step;
        if (!reader_init(&step, r, &path, &array->as.items[i]))
            continue;
        template_lint_step(&step, tmpl, i);
        if (catalog && tmpl->steps[i].type == FLOW_TOOL_CALL)
            template_check_tool(&step, tmpl, &tmpl->steps[i], catalog,
                                JSON_GET(&array->as.items[i], "input"));
    }
}

/* A template without "input" accepts no input. */
static void read_input(struct reader *r, struct flow_template *tmpl)
{
    static const char none[] = "{\"type\":\"object\",\"additionalProperties\":false}";
    tmpl->schema = reader_schema(r, "input", &tmpl->input_schema);
    if (tmpl->input_schema)
        return;
    struct err err;
    tmpl->input_schema = json_parse(r->arena, slice_cstr(none), &json_limits_request, &err);
    if (tmpl->input_schema)
        tmpl->schema = schema_compile(r->arena, tmpl->input_schema, false, &err);
}

static void read_flow_title(struct reader *r, struct flow_template *tmpl)
{
    const struct json *text = reader_member(r, "flow_title");
    tmpl->flow_title = reader_template(r, "flow_title");
    if (text && text->type != JSON_STRING)
        reader_error(r, "flow_title", "must be text with ${...} in it");
}

static void read_template(struct reader *r, struct flow_template *tmpl,
                          const struct catalog *catalog)
{
    size_t errors = r->report->error_count;
    tmpl->key = reader_text_required(r, "key");
    if (tmpl->key.len > 0 && !reader_is_id(tmpl->key, FLOW_KEY_BYTES_MAX))
        reader_error(r, "key", "must match [a-z][a-z0-9_]* and have at most %d characters",
                     FLOW_KEY_BYTES_MAX);
    tmpl->is_held = slice_eq_cstr(tmpl->key, FLOW_HELD_KEY);
    if (tmpl->is_held && catalog)
        reader_error(r, "key", "\"" FLOW_HELD_KEY "\" is the key of calls that a policy holds");
    tmpl->name = reader_text_required(r, "name");
    tmpl->description = reader_text_required(r, "description");
    read_flow_title(r, tmpl);
    read_input(r, tmpl);
    tmpl->deadline_s = (unsigned)reader_count(r, "deadline", FLOW_SECONDS_MAX);
    read_steps(r, tmpl);
    reader_finish(r);
    if (r->report->error_count != errors)
        return;
    template_lint_input(r, tmpl);
    template_lint_title(r, tmpl);
    lint_steps(r, tmpl, catalog);
}

/* Returns the object without one of its members. */
static struct json without(struct arena *arena, const struct json *object, slice name)
{
    struct json copy = json_object();
    for (uint32_t i = 0; i < object->count; i++) {
        const struct json_member *member = &object->as.members[i];
        if (!slice_eq(json_str(&member->key), name))
            json_object_set(arena, &copy, json_str(&member->key), member->value);
    }
    return copy;
}

/* Returns the document without titles. The previous version of the program does not know them, but
 * compiles the stored text. */
static struct json without_titles(struct flow_template *tmpl, const struct json *document)
{
    struct arena *arena = &tmpl->arena;
    struct json copy = without(arena, document, SLICE("flow_title"));
    struct json *steps = (struct json *)(uintptr_t)JSON_GET(&copy, "steps");
    struct json *items = steps ? ARENA_ARRAY(arena, struct json, steps->count + 1) : NULL;
    for (uint32_t i = 0; items && i < steps->count; i++)
        items[i] = i < tmpl->step_count && tmpl->steps[i].type == FLOW_APPROVAL
                       ? steps->as.items[i]
                       : without(arena, &steps->as.items[i], SLICE("title"));
    if (items)
        steps->as.items = items;
    return copy;
}

/* The first 16 bytes of SHA-256 over the canonical text, so that layout and the order of members do
 * not make a new version. */
static struct uuid hash_of(slice text)
{
    uint8_t hash[32];
    struct uuid version;
    vault_sha256(text, hash);
    memcpy(version.bytes, hash, sizeof(version.bytes));
    return version;
}

/* Sets body, version, whole and item_json of a template without faults. Returns false if out of
 * memory. */
static bool finish_texts(struct flow_template *tmpl, const struct json *document)
{
    struct buf text;
    struct json_writer w;
    struct json stored = without_titles(tmpl, document);
    buf_init(&text, 4 * (size_t)FLOW_TEMPLATE_BYTES_MAX);
    json_write_sorted(&text, document);
    tmpl->whole = hash_of(buf_slice(&text));
    bool is_ok = buf_is_ok(&text);
    buf_clear(&text);
    json_write_sorted(&text, &stored);
    tmpl->body = arena_dup(&tmpl->arena, buf_slice(&text));
    tmpl->version = hash_of(tmpl->body);
    is_ok = is_ok && buf_is_ok(&text);
    buf_clear(&text);
    json_begin(&w, &text);
    json_open(&w, '{');
    json_member_str(&w, "key", tmpl->key);
    json_member_str(&w, "name", tmpl->name);
    json_member_str(&w, "description", tmpl->description);
    json_close(&w, '}');
    tmpl->item_json = arena_dup(&tmpl->arena, buf_slice(&text));
    is_ok = is_ok && buf_is_ok(&text) && !tmpl->arena.is_exhausted;
    buf_deinit(&text);
    return is_ok;
}

static void compile_text(struct flow_template *tmpl, slice name, slice text,
                         const struct catalog *catalog, struct catalog_report *report)
{
    struct reader top = {.report = report, .arena = &tmpl->arena, .source = name};
    struct reader r;
    struct err err;
    if (text.len > FLOW_TEMPLATE_BYTES_MAX) {
        catalog_report_add(report, false, name, SLICE_NONE, "is larger than %d bytes",
                           FLOW_TEMPLATE_BYTES_MAX);
        return;
    }
    const struct json *document = json_parse(&tmpl->arena, text, &json_limits_request, &err);
    if (!document) {
        catalog_report_add(report, false, name, SLICE_NONE, "%s", err.text);
        return;
    }
    if (!reader_init(&r, &top, NULL, document))
        return;
    size_t errors = report->error_count;
    read_template(&r, tmpl, catalog);
    if (report->error_count == errors && !finish_texts(tmpl, document))
        catalog_report_add(report, false, name, SLICE_NONE, "out of memory");
}

struct flow_template *flow_template_compile(slice name, slice text, const struct catalog *catalog,
                                            struct catalog_report *report)
{
    struct flow_template *tmpl = mem_zalloc(sizeof(*tmpl));
    size_t errors = report->error_count;
    if (!tmpl) {
        catalog_report_add(report, false, name, SLICE_NONE, "out of memory");
        return NULL;
    }
    tmpl->refs = 1;
    arena_init(&tmpl->arena, TEMPLATE_ARENA_BYTES_MAX);
    compile_text(tmpl, name, text, catalog, report);
    if (report->error_count == errors)
        return tmpl;
    flow_template_unref(tmpl);
    return NULL;
}

void flow_template_copy_titles(struct flow_template *to, const struct flow_template *from)
{
    for (size_t i = 0; from && i < from->step_count; i++) {
        const struct flow_step_def *step = &from->steps[i];
        ptrdiff_t at = template_find_step(to, step->key);
        if (at >= 0 && step->label.ptr && to->steps[at].type == step->type)
            to->steps[at].label = arena_dup(&to->arena, step->label);
    }
}

struct flow_template *flow_template_ref(struct flow_template *tmpl)
{
    ASSERT(tmpl->refs > 0);
    tmpl->refs++;
    return tmpl;
}

void flow_template_unref(struct flow_template *tmpl)
{
    ASSERT(!tmpl || tmpl->refs > 0);
    if (!tmpl || --tmpl->refs > 0)
        return;
    arena_deinit(&tmpl->arena);
    mem_free(tmpl);
}
