/*
 * Rich text: from what a client may send to the full form that a reply holds.
 */
#include "provider/notion.h"

enum { ITEMS_MAX = 100 };

static struct json annotations(struct arena *arena, const struct json *input)
{
    static const char *const flags[] = {"bold", "italic", "strikethrough", "underline", "code"};
    struct json out = json_object();
    for (size_t i = 0; i < ARRAY_LEN(flags); i++)
        json_object_set(arena, &out, slice_cstr(flags[i]),
                        json_bool(json_get_bool(input, slice_cstr(flags[i]), false)));
    slice color = json_get_str(input, SLICE("color"));
    json_object_set(arena, &out, SLICE("color"),
                    color.len ? json_string_dup(arena, color) : json_string(SLICE("default")));
    return out;
}

static void finish(struct arena *arena, struct json *item, const struct json *input, slice plain,
                   slice href)
{
    json_object_set(arena, item, SLICE("annotations"),
                    annotations(arena, JSON_GET(input, "annotations")));
    json_object_set(arena, item, SLICE("plain_text"), json_string_dup(arena, plain));
    json_object_set(arena, item, SLICE("href"),
                    href.len ? json_string_dup(arena, href) : json_null);
}

static struct json text_item(struct arena *arena, const struct json *input, slice content,
                             slice link)
{
    struct json item = json_object(), text = json_object(), url = json_object();
    json_object_set(arena, &item, SLICE("type"), json_string(SLICE("text")));
    json_object_set(arena, &text, SLICE("content"), json_string_dup(arena, content));
    if (link.len)
        json_object_set(arena, &url, SLICE("url"), json_string_dup(arena, link));
    json_object_set(arena, &text, SLICE("link"), link.len ? url : json_null);
    json_object_set(arena, &item, SLICE("text"), text);
    finish(arena, &item, input, content, link);
    return item;
}

struct json notion_text_make(struct arena *arena, slice text)
{
    struct json list = json_array();
    json_array_push(arena, &list, text_item(arena, NULL, text, SLICE_NONE));
    return list;
}

/* The plain text of a mention. */
static slice mention_text(const struct notion_request *request, const struct json *mention)
{
    const struct notion_user *user =
        notion_user_find(json_get_str(JSON_GET(mention, "user"), SLICE("id")));
    if (user)
        return arena_printf(request->http->arena, "@%s", user->name);
    slice id = json_get_str(JSON_GET(mention, "page"), SLICE("id"));
    if (!id.len)
        id = json_get_str(JSON_GET(mention, "database"), SLICE("id"));
    const struct notion_node *node = notion_find(request->notion, id);
    if (node)
        return notion_title(request->http->arena, node);
    slice start = json_get_str(JSON_GET(mention, "date"), SLICE("start"));
    return start.len ? start : SLICE("@unknown");
}

static bool read_text(struct notion_request *request, struct arena *arena, const struct json *input,
                      const char *where, uint32_t index, struct json *out)
{
    const struct json *content = JSON_GET(JSON_GET(input, "text"), "content");
    if (!json_is(content, JSON_STRING))
        return notion_invalid(request,
                              "body failed validation: %s[%u].text.content should be a string, "
                              "instead was `%s`.",
                              where, index, content ? json_type_name(content) : "undefined");
    if (content->count > NOTION_TEXT_MAX)
        return notion_invalid(request,
                              "body failed validation: %s[%u].text.content.length should be ≤ "
                              "`%d`, instead was `%u`.",
                              where, index, NOTION_TEXT_MAX, content->count);
    slice link = json_get_str(JSON_GET(JSON_GET(input, "text"), "link"), SLICE("url"));
    *out = text_item(arena, input, json_str(content), link);
    return true;
}

static bool read_item(struct notion_request *request, struct arena *arena, const struct json *input,
                      const char *where, uint32_t index, struct json *out)
{
    const struct json *mention = JSON_GET(input, "mention");
    slice expression = json_get_str(JSON_GET(input, "equation"), SLICE("expression"));
    if (JSON_GET(input, "text"))
        return read_text(request, arena, input, where, index, out);
    if (!mention && !expression.ptr)
        return notion_invalid(request,
                              "body failed validation. Fix one: %s[%u].text should be defined, "
                              "instead was `undefined`. %s[%u].mention should be defined, instead "
                              "was `undefined`. %s[%u].equation should be defined, instead was "
                              "`undefined`.",
                              where, index, where, index, where, index);
    const char *type = mention ? "mention" : "equation";
    const struct json *copy = json_dup(arena, mention ? mention : JSON_GET(input, "equation"));
    *out = json_object();
    json_object_set(arena, out, SLICE("type"), json_string(slice_cstr(type)));
    json_object_set(arena, out, slice_cstr(type), copy ? *copy : json_null);
    finish(arena, out, input, mention ? mention_text(request, mention) : expression, SLICE_NONE);
    return true;
}

bool notion_text_read(struct notion_request *request, struct arena *arena, const struct json *input,
                      const char *where, struct json *out)
{
    *out = json_array();
    if (!json_is(input, JSON_ARRAY))
        return notion_invalid(request,
                              "body failed validation: %s should be an array, instead was `%s`.",
                              where, input ? json_type_name(input) : "undefined");
    if (input->count > ITEMS_MAX)
        return notion_invalid(request,
                              "body failed validation: %s.length should be ≤ `%d`, instead was "
                              "`%u`.",
                              where, ITEMS_MAX, input->count);
    for (uint32_t i = 0; i < input->count; i++) {
        struct json item;
        if (!read_item(request, arena, json_at(input, i), where, i, &item))
            return false;
        json_array_push(arena, out, item);
    }
    return true;
}

slice notion_text_plain(struct arena *arena, const struct json *rich_text)
{
    if (!json_is(rich_text, JSON_ARRAY) || !rich_text->count)
        return SLICE("");
    if (rich_text->count == 1)
        return json_get_str(json_at(rich_text, 0), SLICE("plain_text"));
    struct buf all;
    buf_init(&all, 1024 * 1024);
    for (uint32_t i = 0; i < rich_text->count; i++)
        buf_append(&all, json_get_str(json_at(rich_text, i), SLICE("plain_text")));
    slice text = arena_dup(arena, buf_slice(&all));
    buf_deinit(&all);
    return text.ptr ? text : SLICE("");
}
