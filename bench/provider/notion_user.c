/*
 * Users and comments.
 */
#include "provider/notion.h"

bool notion_users_list(struct notion_request *request)
{
    struct notion_list list;
    const struct json *users = JSON_GET(request->notion->data, "users");
    if (!notion_list_open(request, "user", &list))
        return false;
    for (uint32_t i = 0; i < users->count; i++)
        if (notion_list_takes(&list, json_get_str(json_at(users, i), SLICE("id"))))
            json_put(&list.w, json_at(users, i));
    return notion_list_close(request, &list);
}

bool notion_users_get(struct notion_request *request)
{
    char text[UUID_TEXT_LEN + 1];
    const struct json *users = JSON_GET(request->notion->data, "users");
    bool is_id = notion_id_read(request->id, text);
    for (uint32_t i = 0; is_id && i < users->count; i++)
        if (slice_eq_cstr(json_get_str(json_at(users, i), SLICE("id")), text))
            return notion_reply(request, json_at(users, i));
    return notion_not_found(request, "user", request->id);
}

bool notion_users_me(struct notion_request *request)
{
    request->id = SLICE(NOTION_USER_BOT);
    return notion_users_get(request);
}

bool notion_comments_list(struct notion_request *request)
{
    struct notion_list list;
    slice id = request_query(request->http, SLICE("block_id"));
    const struct notion_node *node = notion_find(request->notion, id);
    if (!id.len)
        return notion_should(request, "query.block_id", "be defined", NULL);
    if (!node)
        return notion_not_found(request, "block", id);
    if (!notion_list_open(request, "comment", &list))
        return false;
    LIST_EACH(&node->children, const struct notion_node, comment, sibling_link) {
        if (comment->kind == NOTION_COMMENT && notion_list_takes(&list, slice_cstr(comment->id)))
            json_put_raw(&list.w, comment->text);
    }
    return notion_list_close(request, &list);
}

/* What a discussion is about; NULL where there is no such discussion. */
static struct notion_node *find_discussion(struct notion *notion, slice id)
{
    char text[UUID_TEXT_LEN + 1];
    if (!notion_id_read(id, text))
        return NULL;
    MAP_EACH(&notion->nodes, slot) {
        struct notion_node *node = slot->value;
        if (slice_eq_cstr(json_get_str(notion_object(node), SLICE("discussion_id")), text))
            return node->parent;
    }
    return NULL;
}

bool notion_comments_create(struct notion_request *request)
{
    struct arena *arena = request->arena;
    slice page_id = json_get_str(JSON_GET(request->body, "parent"), SLICE("page_id"));
    slice discussion = json_get_str(request->body, SLICE("discussion_id"));
    char id[UUID_TEXT_LEN + 1];
    if (!page_id.len && !discussion.len)
        return notion_should(request, "body.parent", "be defined", NULL);
    struct notion_node *node = discussion.len ? find_discussion(request->notion, discussion)
                                              : notion_find(request->notion, page_id);
    if (!node)
        return notion_not_found(request, page_id.len ? "page" : "discussion",
                                page_id.len ? page_id : discussion);
    struct json object = notion_shape(request, NOTION_COMMENT, node);
    json_object_put(arena, &object, SLICE("discussion_id"),
                    discussion.len && notion_id_read(discussion, id)
                        ? json_string_dup(arena, slice_cstr(id))
                        : notion_id_new(request->notion, arena));
    if (!JSON_GET(request->body, "rich_text"))
        return notion_should(request, "body.rich_text", "be defined", NULL);
    struct notion_node *comment = notion_text_put(request, "rich_text", &object)
                                      ? notion_node_add(request, NOTION_COMMENT, node, &object)
                                      : NULL;
    return comment && notion_done(request, comment);
}

bool notion_comments_update(struct notion_request *request)
{
    return notion_text_put(request, "rich_text", &request->object) && notion_save(request);
}

bool notion_comments_delete(struct notion_request *request)
{
    notion_done(request, request->node);
    notion_node_free(request->notion, request->node);
    return true;
}
