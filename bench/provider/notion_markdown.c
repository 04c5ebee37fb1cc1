/*
 * A page's content as Markdown, and back: paragraphs, headings, lists, to-dos, quotes, code and
 * dividers, one tab a level below; marks within a line are text. Sub-pages and databases are
 * written as <page> and <database>; blocks of other types are listed in unknown_block_ids.
 */
#include "provider/notion.h"

enum { MARKDOWN_BYTES_MAX = 1024 * 1024 };

static const struct {
    const char *mark, *type;
    bool is_checked;
} marks[] = {
    {"### ", "heading_3", false},         {"## ", "heading_2", false},
    {"# ", "heading_1", false},           {"- [x] ", "to_do", true},
    {"- [ ] ", "to_do", false},           {"- ", "bulleted_list_item", false},
    {"1. ", "numbered_list_item", false}, {"> ", "quote", false},
};

/* ---- reading ---- */

/* A line's marks within it stay text. */
static struct json read_text(struct arena *arena, slice text)
{
    struct json list = json_array();
    while (text.len) {
        slice piece = slice_first_utf8(text, NOTION_TEXT_MAX);
        struct json content = OBJECT(arena, "content", json_string(piece));
        json_array_push(arena, &list, OBJECT(arena, "text", content));
        text = slice_from(text, piece.len);
    }
    return list;
}

/* Takes the lines up to the closing fence off *rest. */
static slice take_code(slice *rest)
{
    const char *start = rest->ptr, *end = start;
    while (rest->len) {
        slice line = slice_split(rest, '\n');
        if (slice_eq(slice_trim(line), SLICE("```")))
            break;
        end = line.ptr + line.len;
    }
    return slice_of(start, (size_t)(end - start));
}

static struct json read_line(struct arena *arena, slice line, slice *rest)
{
    struct json content = json_object();
    slice type = SLICE("paragraph");
    bool is_line = slice_eq(slice_trim(line), SLICE("---"));
    if (slice_starts_with(line, SLICE("```"))) {
        slice language = slice_trim(slice_from(line, 3));
        json_object_set(arena, &content, SLICE("language"),
                        json_string(language.len ? language : SLICE("plain text")));
        type = SLICE("code");
        line = take_code(rest);
    }
    for (size_t i = 0; i < ARRAY_LEN(marks) && slice_eq(type, SLICE("paragraph")); i++) {
        if (!slice_starts_with(line, slice_cstr(marks[i].mark)))
            continue;
        type = slice_cstr(marks[i].type);
        line = slice_from(line, strlen(marks[i].mark));
        if (slice_eq(type, SLICE("to_do")))
            json_object_set(arena, &content, SLICE("checked"), json_bool(marks[i].is_checked));
    }
    if (is_line)
        type = SLICE("divider");
    else
        json_object_set(arena, &content, SLICE("rich_text"), read_text(arena, line));
    struct json block = OBJECT(arena, "type", json_string(type));
    json_object_set(arena, &block, type, content);
    return block;
}

static size_t depth_of(slice line)
{
    size_t depth = 0;
    while (depth < line.len && line.ptr[depth] == '\t')
        depth++;
    return depth;
}

/* The lines at this depth, with those that are deeper as children of the line above them. */
static struct json read_level(struct arena *arena, slice *rest, size_t depth)
{
    struct json list = json_array();
    while (rest->len) {
        slice ahead = *rest, line = slice_split(&ahead, '\n');
        bool is_child = slice_starts_with(slice_trim(line), SLICE("<page ")) ||
                        slice_starts_with(slice_trim(line), SLICE("<database "));
        if (!slice_trim(line).len || is_child) {
            *rest = ahead;
            continue;
        }
        if (depth_of(line) < depth)
            break;
        *rest = ahead;
        struct json block = read_line(arena, slice_from(line, depth_of(line)), rest);
        slice next = *rest;
        if (depth + 1 < NOTION_DEPTH_MAX && depth_of(slice_split(&next, '\n')) > depth) {
            slice type = json_get_str(&block, SLICE("type"));
            struct json children = read_level(arena, rest, depth + 1);
            struct json content = *json_get(&block, type);
            json_object_set(arena, &content, SLICE("children"), children);
            json_object_put(arena, &block, type, content);
        }
        json_array_push(arena, &list, block);
    }
    return list;
}

struct json notion_markdown_read(struct arena *arena, slice text)
{
    return read_level(arena, &text, 0);
}

/* ---- writing ---- */

struct writing {
    struct buf out;
    struct arena *arena;
    struct json unknown; /* ids */
};

/* The line or lines of one block without its children; false: it has no form in Markdown. */
static bool write_block(struct writing *w, const struct notion_node *block)
{
    slice type = json_get_str(notion_object(block), SLICE("type"));
    const struct json *content = json_get(notion_object(block), type);
    const struct json *text = JSON_GET(content, "rich_text");
    bool is_code = slice_eq(type, SLICE("code")), is_line = slice_eq(type, SLICE("divider"));
    bool is_checked = json_get_bool(content, SLICE("checked"), false);
    if (!text && !is_line)
        return false;
    for (size_t i = 0; i < ARRAY_LEN(marks); i++)
        if (slice_eq_cstr(type, marks[i].type) && marks[i].is_checked == is_checked)
            buf_append_cstr(&w->out, marks[i].mark);
    if (is_code)
        buf_printf(&w->out, "```%.*s\n", SLICE_ARG(json_get_str(content, SLICE("language"))));
    buf_append(&w->out, notion_text_plain(w->arena, text));
    buf_append_cstr(&w->out, is_code ? "\n```\n" : is_line ? "---\n" : "\n");
    return true;
}

static void write_level(struct writing *w, const struct notion_node *parent, unsigned depth)
{
    LIST_EACH(&parent->children, const struct notion_node, node, sibling_link) {
        size_t start = w->out.len;
        const char *tag = node->kind == NOTION_PAGE ? "page" : "database";
        if (node->is_archived || node->kind == NOTION_SOURCE || node->kind == NOTION_COMMENT)
            continue;
        for (unsigned i = 0; i < depth; i++)
            buf_append_char(&w->out, '\t');
        if (node->kind != NOTION_BLOCK) {
            buf_printf(&w->out, "<%s url=\"https://www.notion.so/%s\">%.*s</%s>\n", tag, node->id,
                       SLICE_ARG(node->label), tag);
        } else if (write_block(w, node)) {
            write_level(w, node, depth + 1);
        } else {
            w->out.len = start;
            json_array_push(w->arena, &w->unknown, json_string(slice_cstr(node->id)));
        }
    }
}

/* The page's text; in the request's arena. */
static slice render(struct notion_request *request, struct json *unknown)
{
    struct writing w = {.arena = request->arena, .unknown = json_array()};
    buf_init(&w.out, MARKDOWN_BYTES_MAX);
    write_level(&w, request->node, 0);
    *unknown = w.unknown;
    slice text = arena_take(request->arena, &w.out);
    return slice_first(text, text.len ? text.len - 1 : 0); /* without the last line's end */
}

bool notion_pages_markdown(struct notion_request *request)
{
    struct json unknown;
    slice text = render(request, &unknown);
    struct json reply = OBJECT(request->arena, "object id markdown truncated unknown_block_ids",
                               json_string(SLICE("page_markdown")),
                               json_string(slice_cstr(request->node->id)), json_string(text),
                               json_bool(false), unknown);
    return notion_reply(request, &reply);
}

/* ---- changing ---- */

/* In requests of NOTION_CHILDREN_MAX blocks each. */
static bool append(struct notion_request *request, slice text, bool is_first)
{
    struct json all = notion_markdown_read(request->arena, text);
    struct notion_node *page = request->node;
    struct list *before = is_first ? page->children.next : NULL;
    for (uint32_t at = 0; at < all.count; at += NOTION_CHILDREN_MAX) {
        struct json some = json_array();
        for (uint32_t i = at; i < at + NOTION_CHILDREN_MAX && i < all.count; i++)
            json_array_push(request->arena, &some, *json_at(&all, i));
        if (!notion_blocks_add(request, page, before, &some, "markdown", 1))
            return false;
    }
    return true;
}

static bool archive(struct notion_request *request, struct notion_node *node)
{
    struct json object = provider_copy(request->arena, notion_object(node));
    json_object_put(request->arena, &object, SLICE("in_trash"), json_bool(true));
    return notion_node_set(request, node, &object);
}

/* Sub-pages and databases stay where the new text names them; else the change has to allow the
 * deletion. */
static bool replace(struct notion_request *request, slice text, const struct json *change)
{
    struct notion_node *page = request->node;
    bool may_delete = json_get_bool(change, SLICE("allow_deleting_content"), false);
    LIST_EACH(&page->children, struct notion_node, node, sibling_link) {
        bool is_named = slice_find(text, slice_cstr(node->id)) >= 0;
        if (node->kind > NOTION_DATABASE || node->is_archived || is_named)
            continue;
        if (!may_delete)
            return notion_invalid(request,
                                  "This would delete the page or database %s: set "
                                  "allow_deleting_content to true.",
                                  node->id);
        if (!archive(request, node))
            return false;
    }
    LIST_EACH(&page->children, struct notion_node, node, sibling_link) {
        if (node->kind == NOTION_BLOCK)
            notion_node_free(request->notion, node);
    }
    return append(request, text, false);
}

/* The text with old in it replaced wherever it is; *count says how often it was there. */
static slice exchange(struct arena *arena, slice text, slice old, slice new, size_t *count)
{
    struct buf out;
    buf_init(&out, 2 * MARKDOWN_BYTES_MAX);
    *count = 0;
    for (ptrdiff_t at; old.len && (at = slice_find(text, old)) >= 0; ++*count) {
        buf_append(&out, slice_first(text, (size_t)at));
        buf_append(&out, new);
        text = slice_from(text, (size_t)at + old.len);
    }
    buf_append(&out, text);
    return arena_take(arena, &out);
}

static bool update(struct notion_request *request, const struct json *change)
{
    struct json unknown;
    slice text = render(request, &unknown);
    const struct json *list = JSON_GET(change, "content_updates");
    if (!json_is(list, JSON_ARRAY) || !list->count || list->count > 100)
        return notion_should(request, "body.update_content.content_updates",
                             "be an array of 1 to 100", list);
    for (uint32_t i = 0; i < list->count; i++) {
        const struct json *one = json_at(list, i);
        bool is_all = json_get_bool(one, SLICE("replace_all_matches"), false);
        size_t count;
        text = exchange(request->arena, text, json_get_str(one, SLICE("old_str")),
                        json_get_str(one, SLICE("new_str")), &count);
        if (!count || (count > 1 && !is_all))
            return notion_invalid(request,
                                  "content_updates[%u].old_str is found %s in the page's Markdown.",
                                  i, count ? "more than once" : "nowhere");
    }
    return replace(request, text, change);
}

static bool apply(struct notion_request *request)
{
    slice type = json_get_str(request->body, SLICE("type"));
    const struct json *change = json_get(request->body, type);
    slice where = json_get_str(JSON_GET(change, "position"), SLICE("type"));
    if (slice_eq(type, SLICE("insert_content")) && change)
        return append(request, json_get_str(change, SLICE("content")),
                      slice_eq(where, SLICE("start")));
    if (slice_eq(type, SLICE("replace_content")) && change)
        return replace(request, json_get_str(change, SLICE("new_str")), change);
    if (slice_eq(type, SLICE("update_content")) && change)
        return update(request, change);
    return notion_should(request, "body.type",
                         "be `\"insert_content\"`, `\"replace_content\"` or "
                         "`\"update_content\"`, with a member of that name",
                         JSON_GET(request->body, "type"));
}

bool notion_pages_markdown_update(struct notion_request *request)
{
    return notion_is_editable(request, request->node) && apply(request) && notion_save(request) &&
           notion_pages_markdown(request);
}
