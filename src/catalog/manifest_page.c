/*
 * Reads how to request the next page of a list (contrib/integrations/README.md "pagination"). The
 * named kinds become one expression for each input, composed from the manifest's own parts, so that
 * readers of replies only need expressions.
 *
 * An input's expression yields the next page's value, or null on the last page, from the reply, the
 * headers and the input of the previous page. Parts of the manifest are first compiled alone, so
 * that a fault is reported at its member, then joined as text, each in parentheses.
 */
#include "catalog/manifest.h"

#include <stdio.h>

enum { PAGE_KIND_CURSOR, PAGE_KIND_URL, PAGE_KIND_LINK, PAGE_KIND_PAGE, PAGE_KIND_OFFSET };

enum { PAGE_EXPR_BYTES_MAX = EXPR_SOURCE_MAX, PAGE_FIRST_MAX = 1000 };

static const char *const kind_names[] = {"cursor", "url", "link", "page", "offset", NULL};

struct page_reader {
    struct reader *r;
    struct catalog_action *action;
    int kind;
    slice next, more, items, size, total, tail; /* expressions, as text */
    uint64_t first;                             /* the number of the first page */
    char size_room[SLICE_U64_MAX + 3];
};

/* Reads the text of an expression that compiles by itself; returns an empty text if there is none
 * or it is faulty. It is compiled only as a check: text like "a) || (b" must not change the
 * expression around it. */
static slice read_part(struct page_reader *p, const char *name)
{
    bool is_good = reader_expr(p->r, name) != NULL;
    return is_good ? json_get_str(p->r->object, slice_cstr(name)) : SLICE_NONE;
}

/* Reads the page size: a number, which becomes a literal, or an expression. */
static slice read_size(struct page_reader *p)
{
    const struct json *value = json_get(p->r->object, SLICE("size"));
    if (!json_is_number(value))
        return read_part(p, "size");
    /* A JMESPath literal. size_room lives as long as the reader, since the slice is used later. */
    unsigned size = (unsigned)reader_count(p->r, "size", 100000);
    int len = snprintf(p->size_room, sizeof(p->size_room), "`%u`", size);
    return slice_of(p->size_room, (size_t)len);
}

/* Superfluous members are refused, as they would have no effect, and necessary ones are
 * required: a list that stops early is not noticed, and a list that never stops costs max_pages
 * calls. */
static void check_page_members(struct page_reader *p)
{
    static const struct {
        const char *name;
        unsigned allowed, needed; /* bits of kinds */
    } members[] = {
        {"next", 1u << PAGE_KIND_CURSOR | 1u << PAGE_KIND_URL,
         1u << PAGE_KIND_CURSOR | 1u << PAGE_KIND_URL},
        {"take", 1u << PAGE_KIND_URL | 1u << PAGE_KIND_LINK, 0},
        {"tail", 1u << PAGE_KIND_URL | 1u << PAGE_KIND_LINK, 0},
        {"total", 1u << PAGE_KIND_PAGE | 1u << PAGE_KIND_OFFSET, 0},
        {"first", 1u << PAGE_KIND_PAGE, 0},
        {"items", ~0u, 1u << PAGE_KIND_OFFSET},
    };
    ASSERT(p->kind >= PAGE_KIND_CURSOR && p->kind <= PAGE_KIND_OFFSET);
    unsigned kind = 1u << p->kind;
    for (size_t i = 0; i < ARRAY_LEN(members); i++) {
        bool is_there = json_get(p->r->object, slice_cstr(members[i].name)) != NULL;
        if (is_there && !(members[i].allowed & kind))
            reader_error(p->r, members[i].name, "has no effect on pages of kind \"%s\"",
                         kind_names[p->kind]);
        if (!is_there && (members[i].needed & kind))
            reader_error(p->r, NULL, "pages of kind \"%s\" need \"%s\"", kind_names[p->kind],
                         members[i].name);
    }
    bool is_by_size = p->size.len > 0 && p->items.len > 0;
    if (p->kind == PAGE_KIND_PAGE && p->more.len == 0 && p->total.len == 0 && p->items.len == 0)
        reader_error(p->r, NULL,
                     "pages of kind \"page\" need a way to recognize the last one: \"more\", "
                     "\"total\" or \"items\" (and \"size\")");
    if (p->size.len > 0 && !is_by_size)
        reader_error(p->r, "size",
                     "is compared with the number of \"items\", but \"items\" is missing");
}

/* Whether the input accepts only a number. A URL's parameter is text and must be converted;
 * otherwise the input would not validate on the next page. */
static bool takes_number(const struct page_reader *p, slice input)
{
    const struct json *property = json_get(JSON_GET(p->action->input_schema, "properties"), input);
    const struct json *type = JSON_GET(property, "type");
    if (!json_is(type, JSON_ARRAY))
        return slice_has_word(SLICE("integer number"), json_str(type));
    return (json_has_text(type, SLICE("integer")) || json_has_text(type, SLICE("number"))) &&
           !json_has_text(type, SLICE("string"));
}

/* Writes 'text' as a JMESPath raw string. */
static void put_raw(struct buf *out, slice text)
{
    buf_append_char(out, '\'');
    for (size_t i = 0; i < text.len; i++) {
        if (text.ptr[i] == '\'' || text.ptr[i] == '\\')
            buf_append_char(out, '\\');
        buf_append_char(out, text.ptr[i]);
    }
    buf_append_char(out, '\'');
}

static void put_input(struct buf *out, slice input)
{
    struct json name = json_string(input);
    buf_append_cstr(out, "input.");
    json_write(out, &name);
}

/* Writes the conditions for a next page, each followed by &&. JMESPath's && yields its left side if
 * that is false, so the result is null, false or empty on the last page. */
static void put_conditions(const struct page_reader *p, struct buf *out)
{
    if (p->more.len > 0)
        buf_printf(out, "(%.*s) && ", SLICE_ARG(p->more));
    if (p->items.len > 0 && p->size.len > 0)
        buf_printf(out, "length((%.*s) || `[]`) >= (%.*s) && ", SLICE_ARG(p->items),
                   SLICE_ARG(p->size));
    else if (p->items.len > 0)
        buf_printf(out, "(%.*s) && ", SLICE_ARG(p->items));
}

/* Writes the number of this page, or the number of items before it: the input, or the first page's
 * number if the caller did not set it. */
static void put_position(const struct page_reader *p, struct buf *out, slice input)
{
    buf_append_cstr(out, "to_number(not_null(");
    put_input(out, input);
    buf_printf(out, ", `%llu`))", p->kind == PAGE_KIND_PAGE ? (unsigned long long)p->first : 0ULL);
}

static void put_counted(const struct page_reader *p, struct buf *out, slice input)
{
    struct buf next;
    ASSERT(p->kind == PAGE_KIND_PAGE || (p->kind == PAGE_KIND_OFFSET && p->items.len > 0));
    buf_init(&next, PAGE_EXPR_BYTES_MAX);
    buf_append_cstr(&next, "sum([");
    put_position(p, &next, input);
    if (p->kind == PAGE_KIND_PAGE)
        buf_append_cstr(&next, ", `1`])");
    else
        buf_printf(&next, ", length((%.*s) || `[]`)])", SLICE_ARG(p->items));
    if (p->total.len > 0) {
        /* If pages are counted from 0, the last page's number is total - 1. */
        bool is_from_0 = p->kind == PAGE_KIND_PAGE ? p->first == 0 : true;
        buf_printf(out, "to_number(%.*s) %s %.*s && ", SLICE_ARG(p->total),
                   is_from_0 ? ">" : ">=", SLICE_ARG(buf_slice(&next)));
    }
    buf_append(out, buf_slice(&next));
    /* A failed buffer must not be mistaken for an empty expression. */
    out->is_failed = out->is_failed || !buf_is_ok(&next);
    buf_deinit(&next);
}

static void put_from_url(const struct page_reader *p, struct buf *out, slice input, slice name)
{
    ASSERT(p->kind == PAGE_KIND_LINK || (p->kind == PAGE_KIND_URL && p->next.len > 0));
    bool is_number = takes_number(p, input);
    /* url_segment uses the path segment at the `*` of `tail`; url_query uses a parameter of the
     * query. */
    bool is_tail = p->tail.len > 0 && name.len == 0;
    if (is_number)
        buf_append_cstr(out, "to_number(");
    buf_append_cstr(out, is_tail ? "url_segment(" : "url_query(");
    if (p->kind == PAGE_KIND_LINK)
        buf_append_cstr(out, "link_url(headers.link, 'next')");
    else
        buf_printf(out, "(%.*s)", SLICE_ARG(p->next));
    buf_append_cstr(out, ", ");
    put_raw(out, is_tail ? p->tail : name);
    buf_append_cstr(out, is_number ? "))" : ")");
}

/* name is that of the URL's query parameter. */
static void add_input(struct page_reader *p, slice input, slice name)
{
    struct catalog_pages *pages = &p->action->pages;
    struct buf text;
    struct err err;
    ASSERT(pages->items && pages->count <= CATALOG_PAGE_INPUTS_MAX); /* one more fits */
    bool wants_next = p->kind == PAGE_KIND_CURSOR || p->kind == PAGE_KIND_URL;
    if ((wants_next && p->next.len == 0) || (p->kind == PAGE_KIND_OFFSET && p->items.len == 0))
        return; /* reported */
    buf_init(&text, PAGE_EXPR_BYTES_MAX);
    put_conditions(p, &text);
    if (p->kind == PAGE_KIND_CURSOR)
        buf_printf(&text, "(%.*s)", SLICE_ARG(p->next));
    else if (p->kind == PAGE_KIND_URL || p->kind == PAGE_KIND_LINK)
        put_from_url(p, &text, input, name);
    else
        put_counted(p, &text, input);
    const struct expr *next = buf_is_ok(&text) ? expr_compile(p->r->arena, buf_slice(&text), &err)
                                               : NULL;
    if (next)
        pages->items[pages->count++] = (struct catalog_page_input){input, next};
    else
        reader_error(p->r, NULL, "its expressions are too long together");
    buf_deinit(&text);
}

/* "take" is {input: query parameter}; "input" alone means a parameter with the same name. */
static void read_inputs(struct page_reader *p)
{
    const struct json *take = reader_member(p->r, "take");
    slice input = reader_text(p->r, "input");
    bool is_object = take && take->type == JSON_OBJECT && take->count > 0 &&
                     take->count <= CATALOG_PAGE_INPUTS_MAX;
    if (take && !is_object)
        reader_error(p->r, "take", "must be an object {input: query parameter} of at most %d",
                     CATALOG_PAGE_INPUTS_MAX);
    if ((input.len > 0) == (take != NULL) && p->tail.len == 0)
        reader_error(p->r, NULL, "needs \"input\"%s",
                     p->kind == PAGE_KIND_URL || p->kind == PAGE_KIND_LINK
                         ? " or \"take\", one of the two"
                         : "");
    if (p->tail.len > 0 && input.len == 0)
        reader_error(p->r, "tail", "needs \"input\": the value of the segment");
    /* One more than the maximum: `input` next to a full `take` is an error, but both are stored
     * before the manifest is refused. */
    p->action->pages.items =
        ARENA_ARRAY(p->r->arena, struct catalog_page_input, CATALOG_PAGE_INPUTS_MAX + 1);
    if (!p->action->pages.items)
        return;
    if (input.len > 0)
        add_input(p, input, p->tail.len > 0 ? SLICE_NONE : input);
    for (uint32_t i = 0; is_object && i < take->count; i++)
        add_input(p, json_str(&take->as.members[i].key), json_str(&take->as.members[i].value));
}

void manifest_read_pages(struct reader *parent, struct catalog_action *action)
{
    struct reader r;
    if (!reader_enter(&r, parent, "pagination"))
        return;
    struct page_reader p = {.r = &r, .action = action};
    p.kind = reader_choice(&r, "kind", kind_names, PAGE_KIND_CURSOR);
    p.next = read_part(&p, "next");
    p.more = read_part(&p, "more");
    p.items = read_part(&p, "items");
    p.size = read_size(&p);
    p.total = read_part(&p, "total");
    p.tail = reader_text(&r, "tail");
    p.first = reader_count(&r, "first", PAGE_FIRST_MAX);
    if (!json_get(r.object, SLICE("first")))
        p.first = 1;
    action->pages.max = (unsigned)reader_count(&r, "max_pages", CATALOG_PAGES_MAX);
    if (p.tail.len > 0 && slice_find_char(p.tail, '*') < 0)
        reader_error(&r, "tail", "must have a * where the value goes: \"/query/*\"");
    check_page_members(&p);
    read_inputs(&p);
    reader_finish(&r);
}
