/*
 * The later requests of an action before the first is sent: a dry run shows them, and an input that
 * does not fit one of them is found before anything is done. Parts that depend on a reply are shown
 * as in the manifest: "${first.body.upload_url}".
 */
#include "exec/internal.h"

struct preview {
    struct exec *exec;
    struct arena *arena;
    struct json root;
    struct json given; /* the part of root that is sent as it is: files are shown as their sizes */
    struct expr_budget budget;
    struct err *err;
    int status;         /* of on_known */
    unsigned flags;     /* limits on the filled-in text */
    bool is_null_given; /* the last fill-in gave a null from the input (build.c) */
};

static bool on_name(void *user, const slice *names, size_t count)
{
    bool *is_later = user;
    *is_later = *is_later || count == 0 || slice_eq_cstr(names[0], "first") ||
                slice_eq_cstr(names[0], "second");
    return !*is_later;
}

static bool on_expr(void *user, const struct expr *expr, slice where)
{
    (void)where;
    expr_root_names(expr, on_name, user);
    return !*(bool *)user;
}

static bool on_null(void *user, const struct expr *expr, slice where)
{
    struct preview *p = user;
    (void)where;
    p->is_null_given = expr_names_null(expr, &p->root);
    return true;
}

/* Of an expression that depends on a reply, the parts that depend on the input are checked. */
static bool on_known(void *user, const struct expr *expr, slice where)
{
    struct preview *p = user;
    (void)where;
    p->status = expr_check_known(expr, &p->given, &p->budget, p->arena, p->err);
    return p->status == OK;
}

static int fill_text(struct preview *p, slice text, struct json *out)
{
    bool is_later = false;
    struct expr_template *tmpl = expr_template_compile_text(p->arena, text, p->err);
    if (!tmpl)
        return (int)p->err->code;
    expr_template_each_expr(tmpl, on_expr, &is_later);
    *out = json_string(text);
    p->is_null_given = false;
    p->status = OK;
    if (is_later)
        expr_template_each_expr(tmpl, on_known, p);
    else if (p->flags & EXPR_KEEP_GIVEN_NULLS)
        expr_template_each_expr(tmpl, on_null, p);
    int result =
        is_later ? p->status
                 : expr_template_eval(tmpl, &p->root, p->flags, &p->budget, p->arena, out, p->err);
    return result == OK ? OK : err_set(p->err, (enum err_code)result, "%s", p->budget.words);
}

/* Fills in all members; omits those that the built request would omit, too. */
static int fill_json(struct preview *p, const struct json *from, struct json *out)
{
    int result = OK;
    *out = *from;
    if (from->type == JSON_STRING)
        return fill_text(p, json_str(from), out);
    if (from->type != JSON_ARRAY && from->type != JSON_OBJECT)
        return OK;
    bool is_array = from->type == JSON_ARRAY;
    *out = is_array ? json_array() : json_object();
    for (uint32_t i = 0; i < from->count && result == OK; i++) {
        const struct json *item = is_array ? &from->as.items[i] : &from->as.members[i].value;
        struct json value;
        result = fill_json(p, item, &value);
        bool is_dropped = value.type == JSON_NULL && item->type != JSON_NULL && !p->is_null_given;
        if (result != OK || is_dropped)
            continue;
        if (is_array)
            json_array_push(p->arena, out, value);
        else
            json_object_set(p->arena, out, json_str(&from->as.members[i].key), value);
    }
    return result;
}

/* Sets *out to base_url and path joined, or to the URL that replaces them. */
static int fill_url(struct preview *p, const struct json *source, struct json *out)
{
    const struct catalog_integration *integration = p->exec->integration;
    const struct json *url = json_get(source, SLICE("url"));
    const struct json *own = json_get(source, SLICE("base_url"));
    struct json head, path;
    if (url) {
        *out = *url;
        return OK;
    }
    int result = own ? fill_text(p, json_str(own), &head)
                     : expr_template_eval(integration->base_url, &p->root, 0, &p->budget, p->arena,
                                          &head, p->err);
    p->flags = EXPR_PATH_SEGMENTS;
    if (result == OK)
        result = fill_text(p, json_get_str(source, SLICE("path")), &path);
    p->flags = 0;
    if (result == OK)
        *out = json_string(arena_printf(p->arena, "%.*s%.*s", SLICE_ARG(json_str(&head)),
                                        SLICE_ARG(json_str(&path))));
    return result;
}

static struct json file_text(struct preview *p, const struct call_file *file)
{
    return json_string(arena_printf(p->arena, "<%.*s: %zu bytes>", SLICE_ARG(file->name),
                                    call_file_size(file->data)));
}

/* Writes a placeholder for each file of this request. */
static void put_files(struct preview *p, struct json *out)
{
    const struct exec_request *in = &p->exec->in;
    struct json list = json_array();
    for (size_t i = 0; i < in->file_count; i++)
        json_array_push(p->arena, &list, file_text(p, &in->files[i]));
    if (in->file_count > 0)
        json_object_set(p->arena, out, SLICE("files"), list);
}

/* Templates see the size of each file instead of its data. */
static void hide_files(struct preview *p)
{
    const struct json *list = JSON_GET(&p->root, "files");
    for (uint32_t i = 0; list && i < list->count; i++)
        json_object_put(p->arena, &list->as.items[i], SLICE("data"),
                        file_text(p, &p->exec->in.files[i]));
}

static int preview_one(struct preview *p, unsigned at, struct json *out)
{
    enum { BODY = 2 };
    static const char *const members[] = {"query", "headers", [BODY] = "body"};
    const struct catalog_action *action = p->exec->action;
    const struct json *source = action->then[at - 1].source;
    struct json value;
    int result = fill_url(p, source, &value);
    *out = json_object();
    json_object_set(p->arena, out, SLICE("method"),
                    json_string(action->then[at - 1].request.method));
    json_object_set(p->arena, out, SLICE("url"), value);
    if (json_get(source, SLICE("hosts")))
        json_object_set(p->arena, out, SLICE("hosts"), *json_get(source, SLICE("hosts")));
    for (size_t i = 0; i < ARRAY_LEN(members) && result == OK; i++) {
        const struct json *member = json_get(source, slice_cstr(members[i]));
        if (!member || member->type == JSON_NULL)
            continue;
        p->flags = i == BODY && json_get(member, SLICE("json")) ? EXPR_KEEP_GIVEN_NULLS : 0;
        result = fill_json(p, member, &value);
        p->flags = 0;
        json_object_set(p->arena, out, slice_cstr(members[i]), value);
    }
    if (action->files.travel != FILES_NONE && action->files.travel != FILES_BASE64 &&
        action->files.at == at)
        put_files(p, out);
    return result;
}

int exec_preview(struct exec *exec, struct json *later, struct err *err)
{
    const struct call_scope scope = {
        .input = exec->in.input,
        .connection_params = exec->connection.item ? exec->connection.item->params : NULL,
        .files = exec->in.files,
        .file_count = exec->in.file_count,
    };
    static const slice given[] = {SLICE_INIT("input"), SLICE_INIT("connection")};
    struct preview p = {.exec = exec, .arena = &exec->op.arena, .err = err};
    struct json list = json_array();
    int result = OK;
    ASSERT(exec->action->then_count > 0);
    expr_budget_init(&p.budget);
    expr_budget_add_data(&p.budget, json_text_bytes(scope.input));
    p.root = call_build_root(&scope, p.arena);
    p.given = json_object();
    for (size_t i = 0; i < ARRAY_LEN(given); i++)
        json_object_set(p.arena, &p.given, given[i], *json_get(&p.root, given[i]));
    hide_files(&p);
    for (unsigned at = 1; at <= exec->action->then_count && result == OK; at++) {
        struct json one;
        result = preview_one(&p, at, &one);
        json_array_push(p.arena, &list, one);
    }
    if (later)
        *later = list;
    return result;
}
