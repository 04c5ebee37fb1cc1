/*
 * Users and comments.
 */
#include "provider/notion.h"

static const struct json *find_user(const struct notion *notion, slice id)
{
    char text[UUID_TEXT_LEN + 1];
    const struct json *users = JSON_GET(notion->data, "users");
    if (!notion_id_read(id, text))
        return NULL;
    for (uint32_t i = 0; i < users->count; i++)
        if (slice_eq_cstr(json_get_str(json_at(users, i), SLICE("id")), text))
            return json_at(users, i);
    return NULL;
}

void notion_users_list(struct notion_request *request)
{
    struct notion_list list;
    const struct json *users = JSON_GET(request->notion->data, "users");
    if (!notion_list_open(request, "user", &list))
        return;
    for (uint32_t i = 0; i < users->count; i++)
        if (notion_list_takes(&list, json_get_str(json_at(users, i), SLICE("id"))))
            json_put(&list.w, json_at(users, i));
    notion_list_close(request, &list);
}

static void reply_user(struct notion_request *request, slice id)
{
    const struct json *user = find_user(request->notion, id);
    if (!user) {
        notion_not_found(request, "user", id);
        return;
    }
    struct json_writer w = reply_json(request->reply, 200);
    json_put(&w, user);
}

void notion_users_get(struct notion_request *request)
{
    reply_user(request, request->id);
}

void notion_users_me(struct notion_request *request)
{
    reply_user(request, SLICE(NOTION_USER_BOT));
}

void notion_comments_list(struct notion_request *request)
{
    struct notion_list list;
    slice id = request_query(request->http, SLICE("block_id"));
    const struct notion_node *node = notion_find(request->notion, id);
    if (!id.len)
        notion_invalid(request, "query failed validation: query.block_id should be defined, "
                                "instead was `undefined`.");
    else if (!node)
        notion_not_found(request, "block", id);
    if (!node || !notion_list_open(request, "comment", &list))
        return;
    LIST_EACH((struct list *)(uintptr_t)&node->children, link)
    {
        const struct notion_node *comment = LIST_ITEM(link, struct notion_node, sibling_link);
        if (comment->kind == NOTION_COMMENT && notion_list_takes(&list, slice_cstr(comment->id)))
            json_put_raw(&list.w, comment->text);
    }
    notion_list_close(request, &list);
}

/* What a discussion is about; NULL where there is no such discussion. */
static struct notion_node *find_discussion(struct notion *notion, slice id)
{
    char text[UUID_TEXT_LEN + 1];
    struct map_slot *slot;
    size_t at = 0;
    bool is_id = notion_id_read(id, text);
    while (is_id && (slot = map_next(&notion->nodes, &at))) {
        struct notion_node *node = slot->value;
        if (slice_eq_cstr(json_get_str(notion_object(node), SLICE("discussion_id")), text))
            return node->parent;
    }
    return NULL;
}

void notion_comments_create(struct notion_request *request)
{
    struct arena *arena = request->http->arena;
    slice page_id = json_get_str(JSON_GET(request->body, "parent"), SLICE("page_id"));
    slice discussion = json_get_str(request->body, SLICE("discussion_id"));
    char id[UUID_TEXT_LEN + 1];
    struct json text;
    struct notion_node *comment, *node = discussion.len
                                             ? find_discussion(request->notion, discussion)
                                             : notion_find(request->notion, page_id);
    if (!page_id.len && !discussion.len)
        notion_invalid(request, "body failed validation. Fix one: body.parent should be defined, "
                                "instead was `undefined`. body.discussion_id should be defined, "
                                "instead was `undefined`.");
    else if (!node)
        notion_not_found(request, page_id.len ? "page" : "discussion",
                         page_id.len ? page_id : discussion);
    if (!node ||
        !notion_text_read(request, JSON_GET(request->body, "rich_text"), "body.rich_text", &text))
        return;
    struct json object = notion_shape(request, NOTION_COMMENT, node);
    if (!discussion.len || !notion_id_read(discussion, id))
        notion_id_new(request->notion, id);
    json_object_put(arena, &object, SLICE("discussion_id"),
                    json_string_dup(arena, slice_of(id, UUID_TEXT_LEN)));
    json_object_put(arena, &object, SLICE("rich_text"), text);
    comment = notion_node_add(request, NOTION_COMMENT, node, &object);
    if (comment)
        notion_done(request, "notion.comments.create", comment);
}

void notion_comments_update(struct notion_request *request)
{
    struct json object = notion_copy(request->http->arena, notion_object(request->node));
    if (notion_text_put(request, "rich_text", &object) &&
        notion_node_set(request, request->node, &object))
        notion_done(request, "notion.comments.update", request->node);
}

void notion_comments_delete(struct notion_request *request)
{
    notion_done(request, "notion.comments.delete", request->node);
    notion_node_free(request->notion, request->node);
}
