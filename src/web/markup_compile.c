/*
 * The compiler of pages; see markup_compile.h. It makes one pass over the bytes of a file: literal
 * text collects in `text` until an op has to be written. The stack has the open elements and tags;
 * `current` and `root` are samples of `@` and `$` at this position.
 */
#include "web/markup_compile.h"

#include <stdarg.h>
#include <stdio.h>

#include "base/ascii.h"

enum { OPS_MAX = 2048, OPEN_MAX = 64, ATTRS_MAX = 24, TEXT_MAX = 256 * 1024, NONE = UINT32_MAX };

enum open_kind { OPEN_ELEMENT, OPEN_IF, OPEN_EACH, OPEN_TITLE };

struct open {
    enum open_kind kind;
    slice name;
    size_t at;                  /* in the source */
    uint32_t op;                /* the op whose `to` is set at the end, or NONE */
    uint32_t go;                /* the last GO to the end; its `to` is the GO before it */
    const struct json *current; /* `current` outside of this element */
};

struct file {
    slice path, source;
    struct json *sample;
    size_t body;  /* where the source continues after <data> */
    bool is_page; /* it has a title, and is not used by others */
    struct markup made;
};

struct attr {
    slice name, value;
    bool has_value;
    size_t at; /* where the value begins */
};

struct compiler {
    struct arena *arena;
    struct err *err;
    struct file *files, *file;
    size_t count, at;
    struct buf text;
    struct open open[OPEN_MAX];
    size_t depth;
    const struct json *root, *current;
    bool is_after_tag; /* white space with a line break is left out between tags */
};

/* ---- errors ---- */

static int fail(struct compiler *c, size_t at, const char *fmt, ...) PRINTF_LIKE(3, 4);
static int fail(struct compiler *c, size_t at, const char *fmt, ...)
{
    char text[400];
    size_t line = 1;
    va_list args;
    for (size_t i = 0; i < at && i < c->file->source.len; i++)
        line += c->file->source.ptr[i] == '\n';
    va_start(args, fmt);
    (void)vsnprintf(text, sizeof(text), fmt, args);
    va_end(args);
    return err_set(c->err, ERR_SYNTAX, "%.*s:%zu: %s", SLICE_ARG(c->file->path), line, text);
}

/* ---- ops ---- */

static uint32_t add_op(struct compiler *c, enum markup_kind kind, slice text, slice source)
{
    struct markup *made = &c->file->made;
    if (made->count == OPS_MAX) {
        c->text.is_failed = true; /* compile_file reports it */
        return 0;
    }
    made->ops[made->count] =
        (struct markup_op){.kind = (uint8_t)kind, .text = text, .source = source};
    return made->count++;
}

/* Turns the literal text collected up to here into an op. */
static void flush(struct compiler *c)
{
    if (c->text.len > 0)
        (void)add_op(c, MARKUP_TEXT, arena_dup(c->arena, buf_slice(&c->text)), SLICE_NONE);
    buf_clear(&c->text);
}

static uint32_t emit(struct compiler *c, enum markup_kind kind, slice text, slice source)
{
    flush(c);
    return add_op(c, kind, text, source);
}

/* Checks an expression and its names. *sample is set to the sample of its result; sample may be
 * NULL. */
static int check_expression(struct compiler *c, size_t at, slice source, const struct json **sample)
{
    struct err err = {0};
    const struct json *result = NULL;
    const struct expr *expr = expr_compile(c->arena, source, &err);
    if (!expr || expr_sample(expr, c->root, c->current, c->arena, &result, &err) != OK)
        return fail(c, at, "%s, in \"%.*s\"", err.text, SLICE_ARG(slice_first(source, 120)));
    if (sample)
        *sample = result;
    return OK;
}

/* Compiles the expression of the `${` at offset `at` of the source, within `limit` bytes. */
static int read_placeholder(struct compiler *c, size_t at, size_t limit, slice *source,
                            const struct json **sample)
{
    const char *why = NULL;
    slice rest = slice_of(c->file->source.ptr + at + 2, limit - 2);
    ptrdiff_t end = expr_closing_brace(rest, &why);
    if (end < 0)
        return fail(c, at, "%s", why);
    *source = slice_first(rest, (size_t)end);
    return check_expression(c, at, *source, sample);
}

/* The content of a <textarea> is sent again. */
static bool is_in_field(const struct compiler *c)
{
    for (size_t i = 0; i < c->depth; i++)
        if (slice_eq_cstr(c->open[i].name, "textarea"))
            return true;
    return false;
}

static int compile_placeholder(struct compiler *c)
{
    const struct json *sample;
    slice source;
    int status = read_placeholder(c, c->at, c->file->source.len - c->at, &source, &sample);
    if (status != OK)
        return status;
    if (json_is(sample, JSON_OBJECT) || json_is(sample, JSON_ARRAY))
        return fail(c, c->at,
                    "${%.*s} is not a string; write its members, or move it to a separate file",
                    SLICE_ARG(source));
    (void)emit(c, is_in_field(c) ? MARKUP_VALUE : MARKUP_VISIBLE, SLICE_NONE, source);
    c->at += source.len + 3;
    c->is_after_tag = false;
    return OK;
}

/* ---- attributes ---- */

static bool is_one_of(slice name, const char *const *names, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (slice_eq_cstr(name, names[i]))
            return true;
    return false;
}

static bool is_url_attr(slice name)
{
    static const char *const names[] = {"href",   "src",       "action",    "formaction",
                                        "cite",   "data-live", "data-page", "data-path",
                                        "poster", "longdesc",  "background"};
    return is_one_of(name, names, ARRAY_LEN(names));
}

/* The text before a placeholder in a URL must fix scheme and host, or begin a path, or the URL
 * is a position on this page. */
static bool is_url_start(slice text)
{
    if (slice_starts_with(text, SLICE("#")))
        return true;
    ptrdiff_t host = slice_find(text, SLICE("://"));
    if (slice_starts_with(text, SLICE("http://")) || slice_starts_with(text, SLICE("https://")))
        return slice_find_char(slice_from(text, (size_t)host + 3), '/') > 0;
    return text.len > 1 && text.ptr[0] == '/' && text.ptr[1] != '/' && text.ptr[1] != '\\';
}

static bool is_whole_url(slice text)
{
    return text.len == 0 || slice_eq_cstr(text, "/") || is_url_start(text);
}

/* Whether an attribute may contain values depends on its element and its name. */
static int check_attr(struct compiler *c, slice element, const struct attr *attr)
{
    static const char *const elements[] = {"script", "meta", "base", "object", "embed", "iframe"};
    static const char *const names[] = {"style", "srcdoc", "srcset", "ping", "xmlns"};
    bool is_asset = slice_eq_cstr(element, "script") && slice_eq_cstr(attr->name, "src");
    if (slice_find(attr->value, SLICE("${")) < 0)
        return !is_url_attr(attr->name) || is_whole_url(attr->value)
                   ? OK
                   : fail(c, attr->at, "%.*s must be a path on this site, or begin with https://",
                          SLICE_ARG(attr->name));
    if (slice_starts_with(attr->name, SLICE("on")) ||
        is_one_of(attr->name, names, ARRAY_LEN(names)) ||
        (is_one_of(element, elements, ARRAY_LEN(elements)) && !is_asset))
        return fail(c, attr->at,
                    "${...} is not allowed in the attribute %.*s of <%.*s>, because it could run "
                    "or load something; use another attribute, or a class",
                    SLICE_ARG(attr->name), SLICE_ARG(element));
    return OK;
}

/* Whether the attribute is a URL that keeps to the end user of the page. */
static bool is_kept_url(const struct attr *attr)
{
    static const char *const names[] = {"href", "action", "formaction", "data-live", "data-page"};
    return is_one_of(attr->name, names, ARRAY_LEN(names)) && markup_keeps_user(attr->value);
}

/* Where a URL is: before and within its query, its user is still to be named. */
enum url_part { URL_PATH, URL_QUERY, URL_DONE };

static void keep_user(struct compiler *c, enum url_part *part)
{
    if (*part != URL_DONE)
        (void)emit(c, MARKUP_KEEP, *part == URL_PATH ? SLICE("?") : SLICE("&amp;"), SLICE_NONE);
    *part = URL_DONE;
}

/* Appends literal text of a value; the user comes before a fragment. */
static void append_literal(struct compiler *c, slice literal, enum url_part *part)
{
    ptrdiff_t hash = slice_find_char(literal, '#');
    slice before = slice_first(literal, hash < 0 ? literal.len : (size_t)hash);
    if (*part == URL_PATH && slice_find_char(before, '?') >= 0)
        *part = URL_QUERY;
    buf_append(&c->text, before);
    if (hash >= 0)
        keep_user(c, part);
    buf_append(&c->text, slice_from(literal, before.len));
}

/* Compiles a value of literal text and placeholders, within quotes. */
static int compile_mixed(struct compiler *c, const struct attr *attr)
{
    bool is_url = is_url_attr(attr->name);
    enum url_part part = is_kept_url(attr) ? URL_PATH : URL_DONE;
    slice rest = attr->value, source;
    for (;;) {
        ptrdiff_t at = slice_find(rest, SLICE("${"));
        append_literal(c, slice_first(rest, at < 0 ? rest.len : (size_t)at), &part);
        if (at < 0) {
            keep_user(c, &part);
            return OK;
        }
        size_t done = attr->value.len - rest.len + (size_t)at;
        if (is_url && !is_url_start(slice_first(attr->value, done)))
            return fail(c, attr->at + done,
                        "a URL must be a single ${...}, or begin with a path (/flows/) or with "
                        "https:// and a host");
        int status = read_placeholder(c, attr->at + done, attr->value.len - done, &source, NULL);
        if (status != OK)
            return status;
        (void)emit(c,
                   is_url                       ? MARKUP_URL_PART
                   : markup_is_read(attr->name) ? MARKUP_VISIBLE
                                                : MARKUP_VALUE,
                   SLICE_NONE, source);
        rest = slice_from(rest, (size_t)at + source.len + 3);
    }
}

static int compile_attr(struct compiler *c, slice element, const struct attr *attr,
                        struct open *open)
{
    slice source;
    int status = check_attr(c, element, attr);
    if (status != OK)
        return status;
    if (!attr->has_value && slice_eq_cstr(attr->name, "data-version")) {
        open->op = emit(c, MARKUP_BLOCK, SLICE_NONE, SLICE_NONE);
        return OK;
    }
    if (slice_starts_with(attr->value, SLICE("${"))) {
        status = read_placeholder(c, attr->at, attr->value.len, &source, NULL);
        if (status != OK)
            return status;
        if (source.len + 3 == attr->value.len) {
            (void)emit(c, is_url_attr(attr->name) ? MARKUP_URL : MARKUP_ATTRIBUTE, attr->name,
                       source);
            return OK;
        }
    }
    buf_append_char(&c->text, ' ');
    buf_append(&c->text, attr->name);
    if (!attr->has_value)
        return OK;
    buf_append(&c->text, SLICE("=\""));
    status = compile_mixed(c, attr);
    buf_append_char(&c->text, '"');
    return status;
}

/* ---- reading tags ---- */

static char next_char(const struct compiler *c)
{
    return c->at < c->file->source.len ? c->file->source.ptr[c->at] : '\0';
}

static bool is_white(char c)
{
    return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

static void skip_space(struct compiler *c)
{
    while (is_white(next_char(c)))
        c->at++;
}

static slice read_word(struct compiler *c)
{
    size_t from = c->at;
    while (ascii_is_lower(next_char(c)) || ascii_is_digit(next_char(c)) || next_char(c) == '-')
        c->at++;
    return slice_of(c->file->source.ptr + from, c->at - from);
}

static int read_attr(struct compiler *c, struct attr *attr)
{
    size_t at = c->at;
    *attr = (struct attr){.name = read_word(c), .at = at};
    if (attr->name.len == 0)
        return fail(
            c, at,
            "expected an attribute name in lower case; put values and ${...} in double quotes");
    if (next_char(c) != '=')
        return OK;
    c->at++;
    if (next_char(c) != '"')
        return fail(c, c->at, "put the value of %.*s in double quotes", SLICE_ARG(attr->name));
    attr->at = ++c->at;
    ptrdiff_t len = slice_find_char(slice_from(c->file->source, c->at), '"');
    if (len < 0)
        return fail(c, attr->at, "the value of %.*s has no closing quote", SLICE_ARG(attr->name));
    attr->value = slice_of(c->file->source.ptr + c->at, (size_t)len);
    attr->has_value = true;
    c->at += (size_t)len + 1;
    return OK;
}

static bool has_attr(const struct attr *attrs, size_t count, slice name)
{
    for (size_t i = 0; i < count; i++)
        if (slice_eq(attrs[i].name, name))
            return true;
    return false;
}

/* Compiles the attributes up to ">" or "/>". */
static int read_attrs(struct compiler *c, size_t from, struct attr *attrs, size_t *count,
                      bool *is_closed)
{
    for (*count = 0;; (*count)++) {
        skip_space(c);
        *is_closed = slice_starts_with(slice_from(c->file->source, c->at), SLICE("/>"));
        if (*is_closed || next_char(c) == '>')
            break;
        if (*count == ATTRS_MAX || c->at >= c->file->source.len)
            return fail(c, from, "the tag has no \">\", or more than %d attributes", ATTRS_MAX);
        struct attr *attr = &attrs[*count];
        int status = read_attr(c, attr);
        if (status != OK)
            return status;
        if (has_attr(attrs, *count, attr->name))
            return fail(c, from, "the attribute %.*s is given twice: browsers use the first",
                        SLICE_ARG(attr->name));
    }
    c->at += *is_closed ? 2 : 1;
    return OK;
}

static int open_push(struct compiler *c, struct open open)
{
    if (c->depth == OPEN_MAX)
        return fail(c, open.at, "nested more than %d levels deep; move a part to a separate file",
                    OPEN_MAX);
    c->open[c->depth++] = open;
    return OK;
}

/* ---- tags of the language ---- */

/* Returns the value of the tag's attribute with that name, or SLICE_NONE if it is absent. */
static slice attr_of(const struct attr *attrs, size_t count, const char *name, size_t *at)
{
    for (size_t i = 0; i < count; i++)
        if (slice_eq_cstr(attrs[i].name, name)) {
            *at = attrs[i].at;
            return attrs[i].value;
        }
    return SLICE_NONE;
}

static int compile_else(struct compiler *c, size_t at, slice test)
{
    struct open *open = c->depth > 0 ? &c->open[c->depth - 1] : NULL;
    if (!open || open->kind != OPEN_IF || open->op == NONE)
        return fail(c, at, "<else/> belongs in an <if>; only the last <else/> may have no test");
    uint32_t go = emit(c, MARKUP_GO, SLICE_NONE, SLICE_NONE);
    c->file->made.ops[go].to = open->go;
    open->go = go;
    c->file->made.ops[open->op].to = c->file->made.count;
    open->op = NONE;
    if (test.ptr) {
        int status = check_expression(c, at, test, NULL);
        if (status != OK)
            return status;
        open->op = emit(c, MARKUP_IF, SLICE_NONE, test);
    }
    return OK;
}

static struct file *find_file(const struct compiler *c, slice name)
{
    for (size_t i = 0; i < c->count; i++)
        if (slice_eq(c->files[i].made.name, name))
            return &c->files[i];
    return NULL;
}

/* Returns whether data of one sample has the members that another one requires. NULL and null match
 * anything. */
static bool sample_fits(const struct json *wanted, const struct json *given, slice *missing)
{
    if (!given || given->type == JSON_NULL || wanted->type == JSON_NULL)
        return true;
    if (wanted->type != given->type && !(json_is_number(wanted) && json_is_number(given)))
        return false;
    if (wanted->type == JSON_ARRAY && wanted->count > 0 && given->count > 0)
        return sample_fits(&wanted->as.items[0], &given->as.items[0], missing);
    for (uint32_t i = 0; wanted->type == JSON_OBJECT && i < wanted->count; i++) {
        const struct json_member *member = &wanted->as.members[i];
        const struct json *value = json_get(given, json_str(&member->key));
        if (!value || !sample_fits(&member->value, value, missing)) {
            *missing = missing->ptr ? *missing : json_str(&member->key);
            return false;
        }
    }
    return true;
}

static int compile_use(struct compiler *c, size_t at, slice name, slice with)
{
    const struct file *used = find_file(c, name);
    const struct json *sample;
    slice missing = SLICE_NONE;
    if (!used || used->is_page)
        return fail(c, at, "src/web/pages has no file \"%.*s.html\"", SLICE_ARG(name));
    if (!with.ptr)
        with = SLICE("@");
    int status = check_expression(c, at, with, &sample);
    if (status != OK)
        return status;
    if (!sample_fits(used->sample, sample, &missing))
        return fail(c, at, "\"%.*s\" is not what %.*s.html declares in its <data>%s%.*s",
                    SLICE_ARG(with), SLICE_ARG(name), missing.ptr ? ": see " : "",
                    SLICE_ARG(missing));
    (void)emit(c, MARKUP_USE, name, with);
    return OK;
}

static int compile_each(struct compiler *c, size_t at, slice each)
{
    const struct json *list;
    struct open open = {OPEN_EACH, SLICE("for"), at, NONE, NONE, c->current};
    int status = check_expression(c, at, each, &list);
    if (status != OK)
        return status;
    if (list && list->type != JSON_NULL && list->type != JSON_ARRAY)
        return fail(c, at, "\"%.*s\" is not a list", SLICE_ARG(each));
    open.op = emit(c, MARKUP_EACH, SLICE_NONE, each);
    c->current = json_at(list, 0);
    return open_push(c, open);
}

static int compile_if(struct compiler *c, size_t at, slice test)
{
    struct open open = {OPEN_IF, SLICE("if"), at, NONE, NONE, c->current};
    int status = check_expression(c, at, test, NULL);
    if (status != OK)
        return status;
    open.op = emit(c, MARKUP_IF, SLICE_NONE, test);
    return open_push(c, open);
}

static bool is_in_svg(const struct compiler *c)
{
    for (size_t i = 0; i < c->depth; i++)
        if (slice_eq_cstr(c->open[i].name, "svg"))
            return true;
    return false;
}

/* SVG also has elements with two of these names: <title>, and <use href>. */
static bool is_language(const struct compiler *c, slice name, const struct attr *attrs,
                        size_t count)
{
    static const char *const names[] = {"if", "else", "for", "use", "slot", "data"};
    size_t at;
    if (is_in_svg(c) && (slice_eq_cstr(name, "title") ||
                         (slice_eq_cstr(name, "use") && attr_of(attrs, count, "href", &at).ptr)))
        return false;
    bool is_title = slice_eq_cstr(name, "title") && !slice_eq_cstr(c->file->made.name, "frame");
    return is_title || is_one_of(name, names, ARRAY_LEN(names));
}

static int compile_language(struct compiler *c, size_t from, slice tag, const struct attr *attrs,
                            size_t count, bool is_closed)
{
    static const struct {
        const char *tag, *wanted, *also;
        bool is_closed;
    } forms[] = {{"if", "test", NULL, false},  {"else", NULL, "test", true},
                 {"for", "each", NULL, false}, {"use", "file", "with", true},
                 {"slot", NULL, "name", true}, {"title", NULL, NULL, false}};
    size_t i = 0, at = from;
    while (i < ARRAY_LEN(forms) && !slice_eq_cstr(tag, forms[i].tag))
        i++;
    if (i == ARRAY_LEN(forms)) /* compile_file has read the <data> at the beginning */
        return fail(c, from, "<data> may appear only once, at the beginning of the file");
    slice wanted = forms[i].wanted ? attr_of(attrs, count, forms[i].wanted, &at) : SLICE_NONE;
    slice also = forms[i].also ? attr_of(attrs, count, forms[i].also, &at) : SLICE_NONE;
    size_t known = (size_t)(wanted.ptr ? 1 : 0) + (also.ptr ? 1 : 0);
    if (is_closed != forms[i].is_closed || known != count || (forms[i].wanted && !wanted.ptr))
        return fail(c, from, "write <%s%s%s%s%s>", forms[i].tag, forms[i].wanted ? " " : "",
                    forms[i].wanted ? forms[i].wanted : "", forms[i].wanted ? "=\"...\"" : "",
                    forms[i].is_closed ? "/" : "");
    if (slice_eq_cstr(tag, "if"))
        return compile_if(c, at, wanted);
    if (slice_eq_cstr(tag, "else"))
        return compile_else(c, at, also);
    if (slice_eq_cstr(tag, "for"))
        return compile_each(c, at, wanted);
    if (slice_eq_cstr(tag, "use"))
        return compile_use(c, at, wanted, also);
    if (slice_eq_cstr(tag, "title"))
        return c->file->made.count > 0 || c->text.len > 0 || c->depth > 0
                   ? fail(c, from, "<title> may appear only once, before the page's markup")
                   : open_push(c, (struct open){OPEN_TITLE, tag, from, NONE, NONE, c->current});
    if (!slice_eq_cstr(c->file->made.name, "frame"))
        return fail(c, from, "<slot/> is allowed only in frame.html");
    (void)emit(c, MARKUP_SLOT, also.ptr ? also : SLICE_NONE, SLICE_NONE);
    return OK;
}

/* ---- elements ---- */

static bool is_void(slice name)
{
    static const char *const names[] = {"area",  "base", "br",   "col",    "embed", "hr", "img",
                                        "input", "link", "meta", "source", "track", "wbr"};
    return is_one_of(name, names, ARRAY_LEN(names));
}

/* The text of a script or a style is written unchanged, so it cannot contain a value. */
static int copy_raw(struct compiler *c, size_t from, slice name)
{
    slice rest = slice_from(c->file->source, c->at);
    ptrdiff_t end = slice_find(rest, SLICE("</"));
    slice raw = slice_first(rest, end < 0 ? rest.len : (size_t)end);
    if (slice_find(raw, SLICE("${")) >= 0)
        return fail(c, from,
                    "${...} is not allowed in <%.*s>: put the value in a data-... attribute",
                    SLICE_ARG(name));
    buf_append(&c->text, raw);
    c->at += raw.len;
    return OK;
}

/* The browser replaces the query of a form's address by the fields of the form. */
static bool loses_query(slice element, const struct attr *attrs, size_t count)
{
    size_t at;
    if (!slice_eq_cstr(element, "form") ||
        !slice_eq_cstr(attr_of(attrs, count, "method", &at), "get"))
        return false;
    return markup_keeps_user(attr_of(attrs, count, "action", &at));
}

static int compile_open(struct compiler *c, size_t from)
{
    struct attr attrs[ATTRS_MAX];
    struct open open = {OPEN_ELEMENT, read_word(c), from, NONE, NONE, c->current};
    size_t count;
    bool is_closed;
    if (open.name.len == 0)
        return fail(c, from, "a tag begins with a name in lower case; write &lt; for a literal <");
    int status = read_attrs(c, from, attrs, &count, &is_closed);
    if (status != OK)
        return status;
    if (is_language(c, open.name, attrs, count))
        return compile_language(c, from, open.name, attrs, count, is_closed);
    if (is_closed && !is_in_svg(c))
        return fail(c, from,
                    "HTML ignores the slash in <%.*s/>: leave it out, or close the "
                    "element",
                    SLICE_ARG(open.name));
    buf_append_char(&c->text, '<');
    buf_append(&c->text, open.name);
    for (size_t i = 0; i < count && status == OK; i++)
        status = compile_attr(c, open.name, &attrs[i], &open);
    buf_append_cstr(&c->text, is_closed ? "/>" : ">");
    if (loses_query(open.name, attrs, count))
        (void)emit(c, MARKUP_KEEP_FIELD, SLICE_NONE, SLICE_NONE);
    bool is_empty = is_closed || is_void(open.name);
    if (status == OK && is_empty && open.op != NONE)
        return fail(c, from,
                    "data-version is the hash of an element's content, and <%.*s> has none",
                    SLICE_ARG(open.name));
    if (status != OK || is_empty)
        return status;
    status = open_push(c, open);
    bool is_raw = slice_eq_cstr(open.name, "script") || slice_eq_cstr(open.name, "style");
    return status == OK && is_raw ? copy_raw(c, from, open.name) : status;
}

static int compile_close(struct compiler *c, size_t from)
{
    struct markup *made = &c->file->made;
    c->at++;
    slice name = read_word(c);
    const struct open *open = c->depth > 0 ? &c->open[c->depth - 1] : NULL;
    if (next_char(c) != '>' || !open || !slice_eq(open->name, name))
        return fail(c, from, "</%.*s> closes nothing here%s%.*s%s", SLICE_ARG(name),
                    open ? ": close <" : "", open ? (int)open->name.len : 0,
                    open ? open->name.ptr : "", open ? "> first" : "");
    c->at++;
    c->depth--;
    c->current = open->current;
    if (open->kind == OPEN_ELEMENT) {
        buf_append(&c->text, SLICE("</"));
        buf_append(&c->text, name);
        buf_append_char(&c->text, '>');
    }
    /* A block may end before or after its closing tag: its content is the same. */
    if (open->op != NONE || open->go != NONE || open->kind == OPEN_TITLE)
        flush(c);
    for (uint32_t go = open->go; go != NONE;) {
        uint32_t before = made->ops[go].to;
        made->ops[go].to = made->count;
        go = before;
    }
    if (open->op != NONE)
        made->ops[open->op].to = made->count;
    if (open->kind == OPEN_TITLE)
        made->title_to = made->count;
    return OK;
}

/* ---- a file ---- */

static int compile_comment(struct compiler *c)
{
    ptrdiff_t end = slice_find(slice_from(c->file->source, c->at), SLICE("-->"));
    if (end < 0)
        return fail(c, c->at, "the comment has no end");
    if (slice_find(slice_of(c->file->source.ptr + c->at, (size_t)end), SLICE("${")) >= 0)
        return fail(c, c->at,
                    "${...} is not allowed in a comment: comments are left out of the page");
    c->at += (size_t)end + 3;
    return OK;
}

static int compile_tag(struct compiler *c)
{
    size_t from = c->at;
    slice rest = slice_from(c->file->source, from);
    c->is_after_tag = true;
    if (slice_starts_with(rest, SLICE("<!--")))
        return compile_comment(c);
    if (slice_starts_with(rest, SLICE("<!doctype html>"))) {
        buf_append(&c->text, SLICE("<!doctype html>"));
        c->at += sizeof("<!doctype html>") - 1;
        return OK;
    }
    c->at++;
    return next_char(c) == '/' ? compile_close(c, from) : compile_open(c, from);
}

static bool keeps_space(const struct compiler *c)
{
    for (size_t i = 0; i < c->depth; i++)
        if (slice_eq_cstr(c->open[i].name, "pre") || slice_eq_cstr(c->open[i].name, "textarea"))
            return true;
    return false;
}

/* Compiles a line break and its indentation: to nothing between tags, and to a space within
 * text. */
static void compile_space(struct compiler *c)
{
    size_t from = c->at;
    skip_space(c);
    slice space = slice_of(c->file->source.ptr + from, c->at - from);
    bool is_before_tag = next_char(c) == '<' || c->at == c->file->source.len;
    if (keeps_space(c) || slice_find_char(space, '\n') < 0)
        buf_append(&c->text, space);
    else if (!c->is_after_tag || !is_before_tag)
        buf_append_char(&c->text, ' ');
}

static int compile_file(struct compiler *c)
{
    int status = OK;
    c->depth = 0;
    c->at = c->file->body;
    c->is_after_tag = true;
    while (status == OK && c->at < c->file->source.len) {
        slice rest = slice_from(c->file->source, c->at);
        if (*rest.ptr == '<') {
            status = compile_tag(c);
        } else if (slice_starts_with(rest, SLICE("${"))) {
            status = compile_placeholder(c);
        } else if (is_white(*rest.ptr)) {
            compile_space(c);
        } else {
            /* $${ is the text ${ */
            bool is_escape = slice_starts_with(rest, SLICE("$${"));
            buf_append(&c->text, is_escape ? SLICE("${") : slice_first(rest, 1));
            c->at += is_escape ? 3 : 1;
            c->is_after_tag = false;
        }
    }
    flush(c);
    if (status == OK && c->depth > 0)
        return fail(c, c->open[c->depth - 1].at, "<%.*s> is not closed",
                    SLICE_ARG(c->open[c->depth - 1].name));
    if (status == OK && !buf_is_ok(&c->text))
        return fail(c, 0, "too large; move a part to a separate file");
    return status;
}

/* ---- samples ---- */

/* Reads <data>JSON</data> at the beginning. Without it a page has no data, and another file
 * accepts any data. */
static int read_sample(struct compiler *c)
{
    static const char open[] = "<data>", close[] = "</data>";
    struct err err = {0};
    slice rest = c->file->source, text = SLICE_NONE;
    if (slice_starts_with(rest, slice_cstr(open))) {
        ptrdiff_t end = slice_find(rest, slice_cstr(close));
        if (end < 0)
            return fail(c, 0, "<data> is not closed");
        text = slice_of(rest.ptr + sizeof(open) - 1, (size_t)end - (sizeof(open) - 1));
        c->file->body = (size_t)end + sizeof(close) - 1;
    }
    c->at = c->file->body;
    skip_space(c);
    c->file->is_page = slice_starts_with(slice_from(c->file->source, c->at), SLICE("<title>"));
    if (!text.ptr)
        text = c->file->is_page ? SLICE("{}") : SLICE("null");
    c->file->sample = json_parse(c->arena, text, &json_limits_request, &err);
    return c->file->sample ? OK : fail(c, 0, "<data> is not JSON: %s", err.text);
}

/* Replaces references in a sample: "@flow_row" stands for the sample of flow_row.html. */
static int resolve(struct compiler *c, struct json *sample, unsigned depth)
{
    slice name = json_str(sample);
    int status = OK;
    if (depth > OPEN_MAX)
        return fail(c, 0, "<data> refers to itself; write null where it does");
    if (slice_starts_with(name, SLICE("@"))) {
        const struct file *file = find_file(c, slice_from(name, 1));
        if (!file)
            return fail(c, 0, "<data> names \"%.*s\", but there is no such file", SLICE_ARG(name));
        *sample = *json_dup(c->arena, file->sample);
        return resolve(c, sample, depth + 1);
    }
    for (uint32_t i = 0; status == OK && sample->type == JSON_ARRAY && i < sample->count; i++)
        status = resolve(c, &sample->as.items[i], depth + 1);
    for (uint32_t i = 0; status == OK && sample->type == JSON_OBJECT && i < sample->count; i++)
        status = resolve(c, &sample->as.members[i].value, depth + 1);
    return status;
}

static slice name_of(slice path)
{
    slice name = path, rest = path;
    while (rest.len > 0)
        name = slice_split(&rest, '/');
    return slice_first(name, name.len - (slice_ends_with(name, SLICE(".html")) ? 5 : 0));
}

/* `$` is the data of the page and of the frame; in a file that is used, and in the frame, only
 * the latter. */
static int compile_one(struct compiler *c, struct buf *pack)
{
    const struct file *file = c->file, *frame = find_file(c, SLICE("frame"));
    struct json *root = arena_alloc(c->arena, sizeof(*root));
    struct buf text;
    if (!root)
        return err_set(c->err, ERR_NOMEM, "out of memory");
    *root = json_object();
    for (uint32_t i = 0; file->is_page && i < file->sample->count; i++)
        json_object_set(c->arena, root, json_str(&file->sample->as.members[i].key),
                        file->sample->as.members[i].value);
    if (frame)
        json_object_set(c->arena, root, SLICE("frame"), *frame->sample);
    c->root = root;
    c->current = file->is_page ? root : file->sample;
    int status = compile_file(c);
    if (status != OK)
        return status;
    buf_init(&text, TEXT_MAX);
    json_write(&text, c->current);
    markup_pack(&file->made, buf_slice(&text), pack);
    buf_deinit(&text);
    return buf_is_ok(pack) ? OK : err_set(c->err, ERR_LIMIT, "the pack is too large");
}

static int read_file(struct compiler *c, const struct markup_source *source)
{
    *c->file = (struct file){
        .path = source->path, .source = source->text, .made = {.name = name_of(source->path)}};
    c->file->made.ops = ARENA_ARRAY(c->arena, struct markup_op, OPS_MAX);
    if (!c->file->made.ops)
        return err_set(c->err, ERR_NOMEM, "out of memory");
    int status = read_sample(c);
    if (status == OK && c->file->is_page && c->file->sample->type != JSON_OBJECT)
        return fail(c, 0, "the <data> of a page must be an object");
    return status;
}

int markup_compile(const struct markup_source *sources, size_t count, struct arena *arena,
                   struct buf *pack, struct err *err)
{
    struct compiler c = {.arena = arena, .err = err, .count = count};
    int status = OK;
    c.files = ARENA_ARRAY(arena, struct file, count + 1);
    if (!c.files)
        return err_set(err, ERR_NOMEM, "out of memory");
    buf_init(&c.text, TEXT_MAX);
    /* All samples are read first, because files refer to each other. */
    for (size_t i = 0; i < count && status == OK; i++) {
        c.file = &c.files[i];
        status = read_file(&c, &sources[i]);
    }
    for (size_t i = 0; i < count && status == OK; i++) {
        c.file = &c.files[i];
        status = resolve(&c, c.file->sample, 0);
    }
    for (size_t i = 0; i < count && status == OK; i++) {
        c.file = &c.files[i];
        status = compile_one(&c, pack);
    }
    buf_deinit(&c.text);
    return status;
}
