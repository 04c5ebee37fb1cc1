/*
 * A page's content as Markdown, and back: paragraphs, headings, lists, to-dos, quotes, code and
 * dividers, indented by one tab per level; marks within a line are text. Sub-pages and databases
 * are written as <page> and <database>; blocks of other types are listed in unknown_block_ids.
 */
#include "provider/notion.h"

enum { MARKDOWN_BYTES_MAX = 1024 * 1024, MARKDOWN_DEPTH_MAX = 4 };

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

/* Marks within a line stay text. */
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

/* Consumes the lines of *rest up to the closing fence. */
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

/* Returns the content of a line's block; on entry *type is a paragraph. */
static struct json read_line(struct arena *arena, slice line, slice *rest, slice *type)
{
    struct json content = json_object();
    if (slice_eq(slice_trim(line), SLICE("---"))) {
        *type = SLICE("divider");
        return content;
    }
    if (slice_starts_with(line, SLICE("```"))) {
        slice language = slice_trim(slice_from(line, 3));
        *type = SLICE("code");
        line = take_code(rest);
        json_object_set(arena, &content, SLICE("language"),
                        json_string(language.len ? language : SLICE("plain text")));
    }
    for (size_t i = 0; i < ARRAY_LEN(marks) && slice_eq(*type, SLICE("paragraph")); i++) {
        if (!slice_starts_with(line, slice_cstr(marks[i].mark)))
            continue;
        *type = slice_cstr(marks[i].type);
        line = slice_from(line, strlen(marks[i].mark));
        if (slice_eq(*type, SLICE("to_do")))
            json_object_set(arena, &content, SLICE("checked"), json_bool(marks[i].is_checked));
    }
    json_object_set(arena, &content, SLICE("rich_text"), read_text(arena, line));
    return content;
}

/* Reads the lines at this depth. Deeper lines become children of the line above them. */
static struct json read_level(struct arena *arena, slice *rest, size_t depth)
{
    struct json list = json_array();
    while (rest->len) {
        slice ahead = *rest, line = slice_split(&ahead, '\n'), type = SLICE("paragraph");
        slice text = slice_trim(line);
        size_t tabs = 0;
        while (tabs < line.len && line.ptr[tabs] == '\t')
            tabs++;
        bool is_skipped = !text.len || slice_starts_with(text, SLICE("<page ")) ||
                          slice_starts_with(text, SLICE("<database "));
        if (!is_skipped && tabs < depth)
            break;
        *rest = ahead;
        if (is_skipped)
            continue;
        struct json content = read_line(arena, slice_from(line, tabs), rest, &type);
        struct json children = depth + 1 < MARKDOWN_DEPTH_MAX ? read_level(arena, rest, depth + 1)
                                                              : json_array();
        struct json block = OBJECT(arena, "type", json_string(type));
        if (children.count)
            json_object_set(arena, &content, SLICE("children"), children);
        json_object_set(arena, &block, type, content);
        json_array_push(arena, &list, block);
    }
    return list;
}

struct json notion_markdown_read(struct arena *arena, slice text)
{
    return read_level(arena, &text, 0);
}

/* ---- writing ---- */

/* Writes the line or lines of one block without its children. Returns false if the block has no
 * form in Markdown. */
static bool write_block(struct buf *out, const struct record *block)
{
    slice type = json_get_str(&block->json, SLICE("type"));
    const struct json *content = json_get(&block->json, type);
    bool is_code = slice_eq(type, SLICE("code")), is_line = slice_eq(type, SLICE("divider"));
    bool is_checked = json_get_bool(content, SLICE("checked"), false);
    if (!JSON_GET(content, "rich_text") && !is_line)
        return false;
    for (size_t i = 0; i < ARRAY_LEN(marks); i++)
        if (slice_eq_cstr(type, marks[i].type) && marks[i].is_checked == is_checked)
            buf_append_cstr(out, marks[i].mark);
    if (is_code)
        buf_printf(out, "```%.*s\n", SLICE_ARG(json_get_str(content, SLICE("language"))));
    buf_append(out, block->label);
    buf_append_cstr(out, is_code ? "\n```\n" : is_line ? "---\n" : "\n");
    return true;
}

/* Adds the ids of blocks that have no form to unknown. */
static void write_level(struct arena *arena, struct buf *out, struct json *unknown,
                        const struct record *parent, unsigned depth)
{
    RECORD_EACH(&parent->children, record, sibling_link) {
        size_t start = out->len;
        const char *tag = notion_kind_name(record->kind);
        if (!notion_is_block(record))
            continue;
        for (unsigned i = 0; i < depth; i++)
            buf_append_char(out, '\t');
        if (record->kind != NOTION_BLOCK) {
            buf_printf(out, "<%s url=\"https://www.notion.so/%s\">%.*s</%s>\n", tag, record->id,
                       SLICE_ARG(record->label), tag);
        } else if (write_block(out, record)) {
            write_level(arena, out, unknown, record, depth + 1);
        } else {
            out->len = start;
            json_array_push(arena, unknown, json_string(slice_cstr(record->id)));
        }
    }
}

/* The page's text. */
static slice render(struct call *call, struct json *unknown)
{
    struct buf out;
    buf_init(&out, MARKDOWN_BYTES_MAX);
    *unknown = json_array();
    write_level(call->arena, &out, unknown, call->record, 0);
    slice text = arena_take(call->arena, &out);
    return slice_first(text, text.len ? text.len - 1 : 0); /* without the last line's end */
}

bool notion_page_markdown(struct call *call)
{
    struct json unknown;
    slice text = render(call, &unknown);
    struct json reply = OBJECT(call->arena, "object id markdown truncated unknown_block_ids",
                               json_string(SLICE("page_markdown")),
                               json_string(slice_cstr(call->record->id)), json_string(text),
                               json_bool(false), unknown);
    return call_reply(call, 200, &reply);
}

/* ---- changing ---- */

static void append(struct call *call, slice text, bool is_first)
{
    struct json blocks = notion_markdown_read(call->arena, text);
    notion_blocks_add(call, call->record, is_first ? call->record->children.next : NULL, &blocks);
}

/* Sub-pages and databases that the new text names are kept. To delete the others, the change has
 * to allow the deletion. */
static bool replace(struct call *call, slice text, const struct json *change)
{
    bool may_delete = json_get_bool(change, SLICE("allow_deleting_content"), false);
    RECORD_EACH(&call->record->children, record, sibling_link) {
        bool is_named = slice_find(text, slice_cstr(record->id)) >= 0;
        if (!notion_is_block(record) || record->kind == NOTION_BLOCK || is_named)
            continue;
        if (!may_delete)
            return call_bad(call,
                            "This would delete the page or database %s: set "
                            "allow_deleting_content to true.",
                            record->id);
        struct json object = provider_copy(call->arena, &record->json);
        json_object_put(call->arena, &object, SLICE("in_trash"), json_bool(true));
        notion_edit(call, record, &object);
    }
    RECORD_EACH(&call->record->children, block, sibling_link)
        if (block->kind == NOTION_BLOCK)
            record_free(&call->provider->notion->app.store, block);
    append(call, text, false);
    return true;
}

/* Returns the text with every occurrence of `old` replaced; *count gets the number of
 * replacements. */
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

static bool update(struct call *call, const struct json *change)
{
    struct json unknown;
    slice text = render(call, &unknown);
    const struct json *list = JSON_GET(change, "content_updates");
    for (uint32_t i = 0; i < list->count; i++) {
        const struct json *one = json_at(list, i);
        bool is_all = json_get_bool(one, SLICE("replace_all_matches"), false);
        size_t count;
        text = exchange(call->arena, text, json_get_str(one, SLICE("old_str")),
                        json_get_str(one, SLICE("new_str")), &count);
        if (!count || (count > 1 && !is_all))
            return call_bad(call, "content_updates[%u].old_str is found %s in the page's Markdown.",
                            i, count ? "more than once" : "nowhere");
    }
    return replace(call, text, change);
}

static bool apply(struct call *call)
{
    slice type = json_str(call_get(call, "type"));
    const struct json *change = json_get(call->body, type);
    slice where = json_get_str(JSON_GET(change, "position"), SLICE("type"));
    if (slice_eq(type, SLICE("replace_content")))
        return replace(call, json_get_str(change, SLICE("new_str")), change);
    if (slice_eq(type, SLICE("update_content")))
        return update(call, change);
    append(call, json_get_str(change, SLICE("content")), slice_eq(where, SLICE("start")));
    return true;
}

bool notion_markdown_update(struct call *call)
{
    return notion_is_editable(call, call->record) && apply(call) && notion_save(call) &&
           notion_page_markdown(call);
}
