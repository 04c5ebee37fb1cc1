/*
 * Renders pages; see markup.h.
 */
#include "web/markup.h"

#include "base/encode.h"
#include "base/map.h"
#include "web/html.h"

enum { VISITS_MAX = 50 * 1000 * 1000, BYTES_MAX = 64 * 1024 * 1024, VERSION_LEN = 8 };

struct render {
    const struct markup *page;
    slice user; /* SLICE_NONE: the page is the account's */
    const struct json *root;
    struct arena *arena;
    struct buf *out;
    struct expr_budget budget;
    struct err *err;
    unsigned depth;
};

/* ---- values ---- */

/* null and false are not text, so that `a && 'text'` writes nothing if a is false. */
static void write_value(struct render *r, const struct json *value,
                        void (*write)(struct buf *out, slice text))
{
    struct buf text;
    if (value->type == JSON_STRING) {
        write(r->out, json_str(value));
        return;
    }
    if (value->type == JSON_NULL || (value->type == JSON_BOOL && !value->as.boolean))
        return;
    buf_init(&text, BYTES_MAX);
    json_write(&text, value);
    write(r->out, buf_slice(&text));
    /* If a value cannot be written, rendering fails, so that the value is not silently missing. */
    r->out->is_failed = r->out->is_failed || !buf_is_ok(&text);
    buf_deinit(&text);
}

static void write_url_part(struct render *r, const struct json *value)
{
    struct buf text;
    if (value->type == JSON_STRING) {
        encode_percent(r->out, json_str(value));
        return;
    }
    buf_init(&text, BYTES_MAX);
    if (json_is_number(value))
        json_write(&text, value);
    encode_percent(r->out, buf_slice(&text));
    buf_deinit(&text);
}

/* Browsers drop tabs and line breaks and read a backslash as a slash: with these characters a
 * URL could lead elsewhere than it appears to. */
static bool is_safe_url(slice url)
{
    for (size_t i = 0; i < url.len; i++)
        if ((unsigned char)url.ptr[i] <= ' ' || url.ptr[i] == '\\' || url.ptr[i] == 0x7F)
            return false;
    if (url.len > 0 && url.ptr[0] == '/')
        return url.len == 1 || url.ptr[1] != '/';
    return slice_starts_with(url, SLICE("https://")) || slice_starts_with(url, SLICE("http://"));
}

static void append_user(struct buf *out, slice joint, slice user)
{
    buf_append(out, joint);
    buf_append(out, SLICE("user="));
    encode_percent(out, user);
}

void markup_append_url(struct buf *out, slice url, slice user)
{
    ptrdiff_t hash = slice_find_char(url, '#');
    slice page = slice_first(url, hash < 0 ? url.len : (size_t)hash);
    buf_append(out, page);
    if (user.len > 0 && markup_keeps_user(page))
        append_user(out, slice_find_char(page, '?') < 0 ? SLICE("?") : SLICE("&"), user);
    buf_append(out, slice_from(url, page.len));
}

static void write_url(struct render *r, slice url)
{
    struct buf text;
    buf_init(&text, BYTES_MAX);
    markup_append_url(&text, url, r->user);
    html_text(r->out, buf_slice(&text));
    r->out->is_failed = r->out->is_failed || !buf_is_ok(&text);
    buf_deinit(&text);
}

static void write_attribute(struct render *r, const struct markup_op *op, const struct json *value)
{
    bool is_true = value->type == JSON_BOOL && value->as.boolean;
    if (value->type == JSON_NULL || (value->type == JSON_BOOL && !is_true))
        return;
    if (op->kind == MARKUP_URL && !is_safe_url(json_str(value)))
        return;
    buf_append_char(r->out, ' ');
    buf_append(r->out, op->text);
    if (is_true)
        return;
    buf_append(r->out, SLICE("=\""));
    if (op->kind == MARKUP_URL && r->user.len > 0)
        write_url(r, json_str(value));
    else
        write_value(r, value, markup_is_read(op->text) ? html_visible : html_text);
    buf_append_char(r->out, '"');
}

/* ---- ops ---- */

static int run(struct render *r, const struct markup *file, uint32_t from, uint32_t to,
               const struct json *current);

static int run_each(struct render *r, const struct markup *file, uint32_t at,
                    const struct json *list)
{
    const struct markup_op *op = &file->ops[at];
    if (list->type != JSON_ARRAY)
        return OK;
    for (uint32_t i = 0; i < list->count; i++) {
        int status = run(r, file, at + 1, op->to, &list->as.items[i]);
        if (status != OK)
            return status;
    }
    return OK;
}

/* The version is not known before the content, so zeros are written here and overwritten at the
 * end. */
static int run_block(struct render *r, const struct markup *file, uint32_t at,
                     const struct json *current)
{
    static const char digits[] = "0123456789abcdef";
    /* the same in all processes, since their versions of a page are compared */
    static const uint64_t key[2] = {0};
    buf_append(r->out, SLICE(" data-version=\"00000000\""));
    size_t began = r->out->len;
    int status = run(r, file, at + 1, file->ops[at].to, current);
    if (status != OK || !buf_is_ok(r->out))
        return status;
    uint64_t hash = hash_siphash13(key, r->out->ptr + began, r->out->len - began);
    for (size_t i = 0; i < VERSION_LEN; i++)
        r->out->ptr[began - 2 - i] = digits[(hash >> (4 * i)) & 15];
    return OK;
}

static int run_slot(struct render *r, const struct markup_op *op)
{
    const struct markup *page = r->page;
    return op->text.len > 0 ? run(r, page, 0, page->title_to, r->root)
                            : run(r, page, page->title_to, page->count, r->root);
}

static void run_keep(struct render *r, const struct markup_op *op)
{
    if (r->user.len == 0)
        return;
    if (op->kind == MARKUP_KEEP) {
        append_user(r->out, op->text, r->user);
        return;
    }
    buf_append(r->out, SLICE("<input type=\"hidden\" name=\"user\" value=\""));
    html_text(r->out, r->user);
    buf_append(r->out, SLICE("\">"));
}

/* Runs one op that has a value. */
static int run_value(struct render *r, const struct markup *file, uint32_t *at,
                     const struct json *current)
{
    const struct markup_op *op = &file->ops[*at];
    struct json value;
    int status = expr_eval(op->expr, r->root, current, &r->budget, r->arena, &value, r->err);
    if (status != OK)
        return err_prefix(r->err, "%.*s: ${%.*s}", SLICE_ARG(file->name), SLICE_ARG(op->source));
    switch ((enum markup_kind)op->kind) {
    case MARKUP_VALUE:
        write_value(r, &value, html_text);
        return OK;
    case MARKUP_VISIBLE:
        write_value(r, &value, html_visible);
        return OK;
    case MARKUP_URL_PART:
        write_url_part(r, &value);
        return OK;
    case MARKUP_ATTRIBUTE:
    case MARKUP_URL:
        write_attribute(r, op, &value);
        return OK;
    case MARKUP_IF:
        /* The caller's loop advances past *at, hence the - 1. */
        *at = expr_is_true(&value) ? *at : op->to - 1;
        return OK;
    case MARKUP_EACH:
        status = run_each(r, file, *at, &value);
        *at = op->to - 1;
        return status;
    case MARKUP_USE:
        return run(r, op->used, 0, op->used->count, &value);
    default:
        break;
    }
    UNREACHABLE("markup_load checks kinds");
}

static int run(struct render *r, const struct markup *file, uint32_t from, uint32_t to,
               const struct json *current)
{
    int status = OK;
    if (++r->depth > MARKUP_DEPTH_MAX)
        return err_set(r->err, ERR_LIMIT, "%.*s: nested more than %d levels deep",
                       SLICE_ARG(file->name), MARKUP_DEPTH_MAX);
    for (uint32_t i = from; i < to && status == OK; i++) {
        const struct markup_op *op = &file->ops[i];
        switch ((enum markup_kind)op->kind) {
        case MARKUP_TEXT:
            buf_append(r->out, op->text);
            break;
        case MARKUP_GO:
            i = op->to - 1;
            break;
        case MARKUP_BLOCK:
            status = run_block(r, file, i, current);
            i = op->to - 1;
            break;
        case MARKUP_SLOT:
            status = run_slot(r, op);
            break;
        case MARKUP_KEEP:
        case MARKUP_KEEP_FIELD:
            run_keep(r, op);
            break;
        default:
            status = run_value(r, file, &i, current);
            break;
        }
        /* A full buffer accepts no more text, so the rest of a long list is not evaluated. */
        if (status == OK && !buf_is_ok(r->out))
            status =
                err_set(r->err, ERR_LIMIT, "%.*s: the page is too large", SLICE_ARG(file->name));
    }
    r->depth--;
    return status;
}

int markup_render(const struct markup_set *set, const struct markup *page, const struct json *data,
                  struct arena *arena, struct buf *out, struct err *err)
{
    const struct markup *frame = markup_find(set, SLICE("frame"));
    struct render r = {.page = page, .root = data, .arena = arena, .out = out, .err = err};
    expr_budget_init(&r.budget);
    r.budget.visits_max = VISITS_MAX;
    r.budget.bytes_max = BYTES_MAX;
    const struct json *own = JSON_GET(data, "frame");
    r.user = json_get_str(own, SLICE("user"));
    if (!frame)
        return run(&r, page, 0, page->count, data);
    return run(&r, frame, 0, frame->count, own ? own : &json_null);
}

/* ---- data ---- */

static bool is_of_type(const struct json *sample, const struct json *data)
{
    return sample->type == data->type || (json_is_number(sample) && json_is_number(data));
}

int markup_check(const struct json *sample, const struct json *data, struct err *err)
{
    int status = OK;
    if (sample->type == JSON_NULL || data->type == JSON_NULL)
        return OK;
    if (!is_of_type(sample, data))
        return err_set(err, ERR_INVALID, "is of type %s, but the page expects %s",
                       json_type_name(data), json_type_name(sample));
    for (uint32_t i = 0; status == OK && data->type == JSON_ARRAY && i < data->count; i++)
        if (sample->count > 0)
            status = markup_check(&sample->as.items[0], &data->as.items[i], err);
    for (uint32_t i = 0; status == OK && data->type == JSON_OBJECT && i < data->count; i++) {
        slice key = json_str(&data->as.members[i].key);
        const struct json *wanted = json_get(sample, key);
        status = wanted ? markup_check(wanted, &data->as.members[i].value, err)
                        : err_set(err, ERR_INVALID, "is not declared by the page");
        if (status != OK)
            (void)err_prefix(err, "\"%.*s\" ", SLICE_ARG(key));
    }
    for (uint32_t i = 0; status == OK && sample->type == JSON_OBJECT && i < sample->count; i++) {
        slice key = json_str(&sample->as.members[i].key);
        if (!json_get(data, key))
            status = err_set(err, ERR_INVALID, "\"%.*s\" is missing", SLICE_ARG(key));
    }
    return status;
}
