/*
 * Users and comments.
 */
#include "base/mem.h"
#include "provider/ledger.h"
#include "provider/notion.h"

const struct notion_user notion_users[] = {
    {NOTION_USER_SAM, "Sam Rivera", "sam.rivera@example.com"},
    {NOTION_USER_ANNA, "Anna Keller", "anna.keller@example.com"},
    {NOTION_USER_BOT, "Sluice Demo", NULL},
};
const size_t notion_user_count = ARRAY_LEN(notion_users);

const struct notion_user *notion_user_find(slice id)
{
    char text[UUID_TEXT_LEN + 1];
    if (!notion_id_read(id, text))
        return NULL;
    for (size_t i = 0; i < notion_user_count; i++)
        if (!strcmp(notion_users[i].id, text))
            return &notion_users[i];
    return NULL;
}

static void write_bot(struct json_writer *w)
{
    json_key(w, "bot");
    json_open(w, '{');
    json_key(w, "owner");
    json_open(w, '{');
    json_key(w, "type");
    json_put_str(w, SLICE("workspace"));
    json_key(w, "workspace");
    json_put_bool(w, true);
    json_close(w, '}');
    json_key(w, "workspace_id");
    json_put_str(w, SLICE("7d1f6b52-0c4e-4a83-9f2b-5e8a1c3d7094"));
    json_key(w, "workspace_name");
    json_put_str(w, SLICE("Sam's Workspace"));
    json_close(w, '}');
}

static void write_user(struct json_writer *w, const struct notion_user *user)
{
    json_open(w, '{');
    json_key(w, "object");
    json_put_str(w, SLICE("user"));
    json_key(w, "id");
    json_put_str(w, slice_cstr(user->id));
    json_key(w, "name");
    json_put_str(w, slice_cstr(user->name));
    json_key(w, "avatar_url");
    json_put_null(w);
    json_key(w, "type");
    json_put_str(w, user->email ? SLICE("person") : SLICE("bot"));
    if (user->email) {
        json_key(w, "person");
        json_open(w, '{');
        json_key(w, "email");
        json_put_str(w, slice_cstr(user->email));
        json_close(w, '}');
    } else {
        write_bot(w);
    }
    json_close(w, '}');
}

void notion_users_list(struct notion_request *request)
{
    size_t size, i = 0;
    slice cursor;
    if (!notion_page_read(request, true, &size, &cursor))
        return;
    while (cursor.len && i < notion_user_count && !slice_eq_cstr(cursor, notion_users[i].id))
        i++;
    if (cursor.len && i == notion_user_count) {
        notion_invalid(request, "The start_cursor provided is invalid: %.*s", SLICE_ARG(cursor));
        return;
    }
    struct json_writer w = notion_list_open(request);
    for (size_t listed = 0; i < notion_user_count && listed < size; i++, listed++)
        write_user(&w, &notion_users[i]);
    notion_list_close(request, &w, i < notion_user_count ? notion_users[i].id : NULL, "user");
}

void notion_users_get(struct notion_request *request)
{
    const struct notion_user *user = notion_user_find(request->id);
    if (!user) {
        notion_not_found(request, "user", request->id);
        return;
    }
    struct json_writer w = reply_json(request->reply, 200);
    write_user(&w, user);
}

void notion_users_me(struct notion_request *request)
{
    struct json_writer w = reply_json(request->reply, 200);
    write_user(&w, notion_user_find(SLICE(NOTION_USER_BOT)));
}

static void write_comment(struct json_writer *w, const struct notion_comment *comment)
{
    json_open(w, '{');
    json_key(w, "object");
    json_put_str(w, SLICE("comment"));
    json_key(w, "id");
    json_put_str(w, slice_cstr(comment->id));
    json_key(w, "parent");
    json_open(w, '{');
    json_key(w, "type");
    json_put_str(w, comment->is_on_page ? SLICE("page_id") : SLICE("block_id"));
    json_key(w, comment->is_on_page ? "page_id" : "block_id");
    json_put_str(w, slice_cstr(comment->block_id));
    json_close(w, '}');
    json_key(w, "discussion_id");
    json_put_str(w, slice_cstr(comment->discussion_id));
    notion_write_time(w, "created_time", comment->created_us);
    notion_write_time(w, "last_edited_time", comment->created_us);
    notion_write_user_ref(w, "created_by", comment->created_by);
    json_key(w, "rich_text");
    json_put(w, &comment->rich_text);
    json_close(w, '}');
}

void notion_comments_list(struct notion_request *request)
{
    size_t size, listed = 0;
    slice cursor;
    slice id = request_query(request->http, SLICE("block_id"));
    const struct notion_node *node = notion_find(request->notion, id);
    if (!id.len) {
        notion_invalid(request, "query failed validation: query.block_id should be defined, "
                                "instead was `undefined`.");
        return;
    }
    if (!node) {
        notion_not_found(request, "block", id);
        return;
    }
    if (!notion_page_read(request, true, &size, &cursor))
        return;
    const char *next = NULL;
    bool is_on = !cursor.len;
    struct json_writer w = notion_list_open(request);
    for (size_t i = 0; i < request->notion->comment_count && !next; i++) {
        const struct notion_comment *comment = request->notion->comments[i];
        ASSERT(comment);
        is_on |= slice_eq_cstr(cursor, comment->id);
        if (!is_on || strcmp(comment->block_id, node->id) != 0)
            continue;
        if (listed == size) {
            next = comment->id;
        } else {
            write_comment(&w, comment);
            listed++;
        }
    }
    notion_list_close(request, &w, next, "comment");
}

/* Makes room for one more: past the maximum the oldest is removed. */
static struct notion_comment *new_comment(struct notion *notion)
{
    if (notion->comment_count == NOTION_COMMENTS_MAX) {
        struct notion_comment **all = notion->comments;
        ASSERT(all);
        arena_deinit(&all[0]->arena);
        mem_free(all[0]);
        notion->comment_count--;
        memmove((void *)all, (void *)(all + 1), notion->comment_count * sizeof(*all));
    }
    if (notion->comment_count == notion->comment_cap) {
        size_t cap = notion->comment_cap ? notion->comment_cap * 2 : 16;
        struct notion_comment **grown =
            mem_realloc((void *)notion->comments, cap * sizeof(struct notion_comment *));
        if (!grown)
            return NULL;
        notion->comments = grown;
        notion->comment_cap = cap;
    }
    struct notion_comment *comment = mem_zalloc(sizeof(*comment));
    if (comment) {
        arena_init(&comment->arena, 1024 * 1024);
        notion->comments[notion->comment_count++] = comment;
    }
    return comment;
}

struct notion_comment *notion_comment_add(struct notion *notion, const struct notion_node *node,
                                          const char *id, const char *discussion_id,
                                          const struct json *rich_text, const char *by,
                                          int64_t now_us)
{
    struct notion_comment *comment = new_comment(notion);
    if (!comment)
        return NULL;
    const struct json *text = json_dup(&comment->arena, rich_text);
    memcpy(comment->block_id, node->id, sizeof(comment->block_id));
    if (id[0])
        memcpy(comment->id, id, sizeof(comment->id));
    else
        notion_id_new(notion, comment->id);
    if (discussion_id[0])
        memcpy(comment->discussion_id, discussion_id, sizeof(comment->discussion_id));
    else
        notion_id_new(notion, comment->discussion_id);
    comment->is_on_page = node->kind == NOTION_PAGE;
    comment->created_us = now_us;
    comment->created_by = by;
    comment->rich_text = text ? *text : json_null;
    return comment;
}

void notion_comments_create(struct notion_request *request)
{
    struct notion *notion = request->notion;
    slice page_id = json_get_str(JSON_GET(request->body, "parent"), SLICE("page_id"));
    slice discussion = json_get_str(request->body, SLICE("discussion_id"));
    char discussion_id[UUID_TEXT_LEN + 1] = "";
    const struct notion_node *node = notion_find(notion, page_id);
    struct json text;
    if (discussion.len && notion_id_read(discussion, discussion_id)) {
        node = NULL;
        for (size_t i = 0; i < notion->comment_count && !node; i++)
            if (!strcmp(notion->comments[i]->discussion_id, discussion_id))
                node = notion_find(notion, slice_cstr(notion->comments[i]->block_id));
    }
    if (!page_id.len && !discussion.len) {
        notion_invalid(request, "body failed validation. Fix one: body.parent should be defined, "
                                "instead was `undefined`. body.discussion_id should be defined, "
                                "instead was `undefined`.");
        return;
    }
    if (!node) {
        notion_not_found(request, page_id.len ? "page" : "discussion",
                         page_id.len ? page_id : discussion);
        return;
    }
    if (!notion_text_read(request, request->http->arena, JSON_GET(request->body, "rich_text"),
                          "body.rich_text", &text))
        return;
    const struct notion_comment *comment = notion_comment_add(
        notion, node, "", discussion_id, &text, NOTION_USER_BOT, request->http->now_us);
    if (!comment) {
        notion_error_plain(notion->provider, request->reply, 503);
        return;
    }
    ledger_add(notion->provider->ledger, request->http, "notion.comments.create",
               slice_cstr(comment->id), notion_text_plain(request->http->arena, &text));
    struct json_writer w = reply_json(request->reply, 200);
    write_comment(&w, comment);
}

/* Its index among the comments; comment_count: answered. */
static size_t find_comment(struct notion_request *request)
{
    const struct notion *notion = request->notion;
    char id[UUID_TEXT_LEN + 1];
    size_t i = 0;
    if (!notion_id_read(request->id, id))
        i = notion->comment_count;
    while (i < notion->comment_count && strcmp(notion->comments[i]->id, id) != 0)
        i++;
    if (i == notion->comment_count)
        notion_not_found(request, "comment", request->id);
    return i;
}

static void reply_comment(struct notion_request *request, const struct notion_comment *comment)
{
    struct json_writer w = reply_json(request->reply, 200);
    write_comment(&w, comment);
}

static void record_comment(struct notion_request *request, const char *kind,
                           const struct notion_comment *comment)
{
    ledger_add(request->notion->provider->ledger, request->http, kind, slice_cstr(comment->id),
               notion_text_plain(request->http->arena, &comment->rich_text));
}

void notion_comments_get(struct notion_request *request)
{
    size_t at = find_comment(request);
    if (at < request->notion->comment_count)
        reply_comment(request, request->notion->comments[at]);
}

void notion_comments_update(struct notion_request *request)
{
    size_t at = find_comment(request);
    struct json text;
    if (at == request->notion->comment_count)
        return;
    struct notion_comment *comment = request->notion->comments[at];
    if (!notion_text_read(request, &comment->arena, JSON_GET(request->body, "rich_text"),
                          "body.rich_text", &text))
        return;
    comment->rich_text = text;
    record_comment(request, "notion.comments.update", comment);
    reply_comment(request, comment);
}

void notion_comments_delete(struct notion_request *request)
{
    struct notion *notion = request->notion;
    size_t at = find_comment(request);
    if (at == notion->comment_count)
        return;
    struct notion_comment *comment = notion->comments[at];
    record_comment(request, "notion.comments.delete", comment);
    reply_comment(request, comment);
    notion->comment_count--;
    memmove((void *)(notion->comments + at), (void *)(notion->comments + at + 1),
            (notion->comment_count - at) * sizeof(*notion->comments));
    arena_deinit(&comment->arena);
    mem_free(comment);
}
