/*
 * The Notion-shaped workspace (API version 2026-03-11): pages, databases, data sources, blocks,
 * users, comments. Everything in memory; past NOTION_NODES_MAX the oldest object that the API made
 * is removed, with what is inside it.
 *
 * A node is a page, a database, a data source or a block. A page's children are its blocks,
 * sub-pages and databases in order; a database's children are its data sources; those of a data
 * source are its pages, the newest first. The content of a node (rich text, property values,
 * schema) is kept as the JSON that a reply holds, in the node's arena.
 */
#ifndef PROVIDER_NOTION_H
#define PROVIDER_NOTION_H

#include "base/id.h"
#include "base/list.h"
#include "base/map.h"
#include "provider/provider.h"

enum {
    NOTION_NODES_MAX = 50000,
    NOTION_COMMENTS_MAX = 10000,
    NOTION_NODE_BYTES_MAX = 8 * 1024 * 1024,
    NOTION_TEXT_MAX = 2000,    /* UTF-16 units of one rich text in the original; bytes / 1 here */
    NOTION_CHILDREN_MAX = 100, /* of one request */
    NOTION_PAGE_MAX = 100,     /* page_size */
    NOTION_DEPTH_MAX = 4,      /* blocks inside blocks in one request */
    NOTION_PROPERTIES_MAX = 200,
};

#define NOTION_VERSION "2026-03-11"

/* Fixed ids of the seed; pages and blocks of the seed count up from 1 at their end. */
#define NOTION_ROOT_PAGE     "1c5f7a3e-9b24-4d68-8f0a-6e2d4c8b9a10"
#define NOTION_TASK_DATABASE "8e1d4c6b-2a3f-4b5c-9d7e-0f1a2b3c4d20"
#define NOTION_TASK_SOURCE   "8e1d4c6b-2a3f-4b5c-9d7e-0f1a2b3c4d21"
#define NOTION_PAGE_ID       "b3d5f7a9-1c2e-4a6b-8d0f-%012x"
#define NOTION_BLOCK_ID      "c4e6a8b0-2d3f-4b7c-9e1a-%012x"
#define NOTION_COMMENT_ID    "d5f7b9c1-3e40-4c8d-8f2b-%012x"
#define NOTION_USER_SAM      "e0a1b2c3-4d5e-4f60-8a7b-9c8d7e6f5a01"
#define NOTION_USER_ANNA     "e0a1b2c3-4d5e-4f60-8a7b-9c8d7e6f5a02"
#define NOTION_USER_BOT      "e0a1b2c3-4d5e-4f60-8a7b-9c8d7e6f5ab0"

enum notion_kind { NOTION_PAGE, NOTION_DATABASE, NOTION_SOURCE, NOTION_BLOCK };

struct notion_node {
    char id[UUID_TEXT_LEN + 1];
    enum notion_kind kind;
    bool is_archived, is_from_api, is_inline;
    struct notion_node *parent; /* NULL: the workspace */
    struct list sibling_link, children;
    size_t child_count;
    struct list recent_link; /* all but blocks by last edit, newest first */
    struct list api_link;    /* those that the API made, oldest first */
    int64_t created_us, edited_us;
    uint64_t number; /* counts up with creation: order where times are equal */
    const char *created_by, *edited_by;
    struct arena arena;     /* of the JSON below */
    size_t compact_bytes;   /* arena use after the last compaction */
    slice type;             /* block: "paragraph" ... */
    struct json content;    /* block: the object under its type */
    struct json properties; /* page: property id -> value; source: name -> {id, name, type, ...} */
    struct json title, description; /* database, data source: rich text */
    struct json icon, cover;        /* null or object */
};

struct notion_comment {
    char id[UUID_TEXT_LEN + 1], discussion_id[UUID_TEXT_LEN + 1];
    char block_id[UUID_TEXT_LEN + 1]; /* page or block it belongs to */
    bool is_on_page;
    int64_t created_us;
    const char *created_by;
    struct arena arena;
    struct json rich_text;
};

struct notion {
    struct provider *provider;
    struct map nodes;
    struct list roots, recent, made;
    uint64_t numbers;
    struct notion_comment **comments; /* oldest first */
    size_t comment_count, comment_cap;
};

struct notion_user {
    const char *id, *name, *email; /* email NULL: the bot */
};
extern const struct notion_user notion_users[];
extern const size_t notion_user_count;
/* NULL when there is none; id in any spelling. */
const struct notion_user *notion_user_find(slice id);
/* id and discussion_id "" draw one; rich_text is copied. NULL when out of memory. */
struct notion_comment *notion_comment_add(struct notion *notion, const struct notion_node *node,
                                          const char *id, const char *discussion_id,
                                          const struct json *rich_text, const char *by,
                                          int64_t now_us) MUST_CHECK;

struct notion_request {
    struct notion *notion;
    const struct provider_request *http;
    struct provider_reply *reply;
    const struct json *body; /* an object; empty where there was none */
    slice id, id2;           /* from the path */
};
typedef void (*notion_handler)(struct notion_request *request);

/* ---- errors (notion_api.c): all answer and return false, so that `return notion_invalid(...)`
 * ---- */
bool notion_fail(struct provider_reply *reply, struct rng *rng, unsigned status, const char *code,
                 const char *fmt, ...) PRINTF_LIKE(5, 6);
bool notion_invalid(struct notion_request *request, const char *fmt, ...) PRINTF_LIKE(2, 3);
bool notion_not_found(struct notion_request *request, const char *what, slice id);
/* What a status says when nothing more is known: for faults. */
void notion_error_plain(struct provider *provider, struct provider_reply *reply, unsigned status);
void notion_handle(struct provider *provider, const struct provider_request *request,
                   struct provider_reply *reply);

/* ---- the tree (notion_store.c) ---- */
struct notion *notion_new(struct provider *provider) MUST_CHECK;
void notion_free(struct notion *notion);
bool notion_seed(struct notion *notion, int64_t now_us) MUST_CHECK;
/* Any spelling (with or without dashes, upper or lower case) to the canonical one. */
bool notion_id_read(slice text, char out[UUID_TEXT_LEN + 1]) MUST_CHECK;
void notion_id_new(struct notion *notion, char out[UUID_TEXT_LEN + 1]);
struct notion_node *notion_find(const struct notion *notion, slice id);
/* Makes a node without content, not yet in the tree; notion_node_discard or notion_node_enter
 * follows. id "" draws one. NULL when out of memory. */
struct notion_node *notion_node_new(struct notion *notion, enum notion_kind kind, const char *id,
                                    int64_t now_us) MUST_CHECK;
void notion_node_discard(struct notion_node *node);
/* Puts it below parent (NULL: the workspace), behind `after` (NULL: at the end). */
bool notion_node_enter(struct notion *notion, struct notion_node *node, struct notion_node *parent,
                       struct notion_node *after) MUST_CHECK;
/* Below another parent (NULL: the workspace), which is not inside the node. */
void notion_node_move(struct notion *notion, struct notion_node *node, struct notion_node *parent);
/* With everything inside it. */
void notion_node_free(struct notion *notion, struct notion_node *node);
/* Removes nodes past the maximum; between requests only, since it may free any node that the API
 * made. */
void notion_evict(struct notion *notion);
/* Time and author of the last edit; gives back what former values took. */
void notion_node_edited(struct notion *notion, struct notion_node *node, int64_t now_us,
                        const char *by);
/* The page, database or data source that holds the node, itself where it is one. */
struct notion_node *notion_node_page(struct notion_node *node);
bool notion_is_gone(const struct notion_node *node); /* it or one above it is archived */

/* ---- rich text (notion_text.c) ---- */
/* Reads what a client sent into the full form. where: "body.title". */
bool notion_text_read(struct notion_request *request, struct arena *arena, const struct json *input,
                      const char *where, struct json *out);
struct json notion_text_make(struct arena *arena, slice text);
/* All plain_text joined; in arena where there is more than one. */
slice notion_text_plain(struct arena *arena, const struct json *rich_text);

/* ---- properties (notion_property.c: schema, notion_value.c: values) ---- */
/* By name or id; NULL when there is none. *name gets its name. */
const struct json *notion_schema_find(const struct notion_node *source, slice name_or_id,
                                      slice *name);
/* Reads a schema object into source->properties, merging where is_update. */
bool notion_schema_read(struct notion_request *request, struct notion_node *source,
                        const struct json *input, bool is_update);
/* Reads property values of a page below `source` (NULL: a page's child, title only) into *out,
 * an object of id -> value in node's arena, over what the node has. */
bool notion_values_read(struct notion_request *request, struct notion_node *node,
                        struct notion_node *source, const struct json *input, struct json *out);
/* The value that a page has for a property of that schema entry; null when it was never set. */
struct json notion_value_get(const struct notion_node *page, const struct json *schema,
                             struct arena *arena);
/* Plain text of the title. */
slice notion_title(struct arena *arena, const struct notion_node *node);

/* ---- blocks (notion_block.c) ---- */
/* Checks the items of `children` and makes their nodes below parent; answers on error, and then
 * nothing was made. made (may be NULL) gets up to NOTION_CHILDREN_MAX top-level nodes. */
bool notion_blocks_append(struct notion_request *request, struct notion_node *parent,
                          struct notion_node *after, const struct json *children, const char *where,
                          struct notion_node **made, size_t *made_count);
bool notion_blocks_check(struct notion_request *request, const struct json *children,
                         const char *where, unsigned depth);

/* ---- Markdown (notion_markdown.c) ---- */
/* The blocks that a text stands for, as a client would send them; in arena. */
struct json notion_markdown_read(struct arena *arena, slice text);

/* ---- shapes (notion_write.c) ---- */
void notion_write_page(struct json_writer *w, const struct notion_node *page, struct arena *arena,
                       const struct provider_request *http);
void notion_write_database(struct json_writer *w, const struct notion_node *database,
                           struct arena *arena);
void notion_write_source(struct json_writer *w, const struct notion_node *source,
                         struct arena *arena);
void notion_write_block(struct json_writer *w, const struct notion_node *node, struct arena *arena);
void notion_write_object(struct json_writer *w, const struct notion_node *node,
                         struct arena *arena);
void notion_write_user_ref(struct json_writer *w, const char *key, const char *id);
void notion_write_time(struct json_writer *w, const char *key, int64_t time_us);
/* {"object":"list","results":[ */
struct json_writer notion_list_open(struct notion_request *request);
/* ],"next_cursor","has_more","type",type:{}} ; next NULL: the end. */
void notion_list_close(struct notion_request *request, struct json_writer *w, const char *next,
                       const char *type);
/* page_size (default 100) and start_cursor of the body or the query; false: answered. */
bool notion_page_read(struct notion_request *request, bool is_query, size_t *size, slice *cursor);

/* ---- filters and sorts (notion_filter.c, notion_sort.c) ---- */
struct notion_filter;
/* NULL input gives a filter that takes all. NULL: answered. */
struct notion_filter *notion_filter_compile(struct notion_request *request,
                                            const struct notion_node *source,
                                            const struct json *input);
bool notion_filter_matches(const struct notion_filter *filter, const struct notion_node *page,
                           struct arena *arena);
/* Sorts pages by the body's `sorts`; false: answered. */
bool notion_sort_pages(struct notion_request *request, const struct notion_node *source,
                       const struct json *sorts, struct notion_node **pages, size_t count);

/* ---- requests ---- */
/* A page that can be seen; NULL: answered. */
struct notion_node *notion_find_page(struct notion_request *request);
/* The title and the description that the body names; false: answered. */
bool notion_texts_read(struct notion_request *request, struct notion_node *node, struct json *title,
                       struct json *description);
void notion_reply_page(struct notion_request *request, const struct notion_node *page);
void notion_pages_create(struct notion_request *request);
void notion_pages_get(struct notion_request *request);
void notion_pages_update(struct notion_request *request);
void notion_pages_property(struct notion_request *request);
void notion_pages_move(struct notion_request *request);
void notion_pages_markdown(struct notion_request *request);
void notion_pages_markdown_update(struct notion_request *request);
void notion_databases_create(struct notion_request *request);
void notion_databases_get(struct notion_request *request);
void notion_databases_update(struct notion_request *request);
void notion_sources_create(struct notion_request *request);
void notion_sources_get(struct notion_request *request);
void notion_sources_update(struct notion_request *request);
void notion_sources_query(struct notion_request *request);
void notion_sources_templates(struct notion_request *request);
void notion_search(struct notion_request *request);
void notion_blocks_get(struct notion_request *request);
void notion_blocks_update(struct notion_request *request);
void notion_blocks_delete(struct notion_request *request);
void notion_children_list(struct notion_request *request);
void notion_children_append(struct notion_request *request);
void notion_users_list(struct notion_request *request);
void notion_users_get(struct notion_request *request);
void notion_users_me(struct notion_request *request);
void notion_comments_list(struct notion_request *request);
void notion_comments_create(struct notion_request *request);
void notion_comments_get(struct notion_request *request);
void notion_comments_update(struct notion_request *request);
void notion_comments_delete(struct notion_request *request);

#endif
