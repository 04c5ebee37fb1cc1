/*
 * The Notion-shaped workspace (API version 2026-03-11): pages, databases, data sources, blocks,
 * comments. Everything in memory; past NOTION_NODES_MAX the oldest object that the API made is
 * removed, with what is inside it.
 *
 * Each object is a node that keeps the JSON of its reply. A page's children are its blocks,
 * sub-pages, databases and comments in order; a database's are its data sources; those of a data
 * source are its pages, the newest first. notion.json has the users, the shape of a new object of
 * each kind, the types of blocks, and the requests (templates of expr/expr.h) that make the first
 * state.
 */
#ifndef PROVIDER_NOTION_H
#define PROVIDER_NOTION_H

#include "base/id.h"
#include "base/list.h"
#include "base/map.h"
#include "provider/provider.h"

enum {
    NOTION_NODES_MAX = 50000,
    NOTION_NODE_BYTES_MAX = 8 * 1024 * 1024,
    NOTION_TEXT_MAX = 2000,    /* UTF-16 units of one rich text in the original; bytes here */
    NOTION_CHILDREN_MAX = 100, /* of one request */
    NOTION_PAGE_MAX = 100,     /* page_size */
    NOTION_DEPTH_MAX = 4,      /* blocks inside blocks in one request */
};

#define NOTION_VERSION "2026-03-11"

/* Fixed ids of notion.json. */
#define NOTION_ROOT_PAGE     "1c5f7a3e-9b24-4d68-8f0a-6e2d4c8b9a10"
#define NOTION_TASK_DATABASE "8e1d4c6b-2a3f-4b5c-9d7e-0f1a2b3c4d20"
#define NOTION_TASK_SOURCE   "8e1d4c6b-2a3f-4b5c-9d7e-0f1a2b3c4d21"
#define NOTION_USER_BOT      "e0a1b2c3-4d5e-4f60-8a7b-9c8d7e6f5ab0"

enum notion_kind {
    NOTION_PAGE,
    NOTION_DATABASE,
    NOTION_SOURCE,
    NOTION_BLOCK,
    NOTION_COMMENT,
    NOTION_KINDS
};

struct notion_node {
    char id[UUID_TEXT_LEN + 1];
    enum notion_kind kind;
    bool is_archived;
    struct notion_node *parent; /* NULL: the workspace */
    struct list sibling_link, children;
    struct list recent_link; /* pages, databases, data sources: the last edited first */
    struct list api_link;    /* those that the API made, oldest first */
    struct arena arena;
    slice text;                /* the object as a reply holds it */
    slice label;               /* plain text of the title, of a block or a comment */
    const struct json *object; /* the same, parsed; NULL: not yet (notion_object) */
};

struct notion {
    struct provider *provider;
    struct arena arena;
    struct buf scratch;      /* for a node's text */
    const struct json *data; /* notion.json */
    struct map nodes;
    struct list roots, recent, made;
    const struct json *seed; /* the entry that is being carried out; NULL: the API's requests */
    uint32_t seed_ids;       /* used of its ids */
};

struct notion_request {
    struct notion *notion;
    const struct provider_request *http;
    struct arena *arena; /* http's */
    struct provider_reply *reply;
    const struct json *body;  /* an object; empty where there was none */
    slice id, id2;            /* from the path */
    struct notion_node *node; /* that id names, where the route says of which kind */
    struct json object;       /* the node's, to be changed; where kind says of what write */
    const char *kind;         /* of the ledger's entry: "pages.create" */
};
/* Answers; false: with an error, so that `return notion_invalid(...)`. */
typedef bool (*notion_handler)(struct notion_request *request);

/* ---- errors (notion_api.c): all answer and return false ---- */
bool notion_invalid(struct notion_request *request, const char *fmt, ...) PRINTF_LIKE(2, 3);
/* "body failed validation: WHERE should WHAT, instead was `TYPE`."; input NULL: undefined. */
bool notion_should(struct notion_request *request, const char *where, const char *what,
                   const struct json *input);
/* true: got is 1 to max, of a length 0 to max. */
bool notion_in_range(struct notion_request *request, const char *where, int64_t got, int64_t max);
bool notion_not_found(struct notion_request *request, const char *what, slice id);
bool notion_out_of_memory(struct notion_request *request);
/* What a status says when nothing more is known: for faults. */
void notion_error_plain(struct provider *provider, struct provider_reply *reply, unsigned status);
void notion_handle(struct provider *provider, const struct provider_request *request,
                   struct provider_reply *reply);
/* Carries out the requests of notion.json. */
bool notion_seed(struct notion *notion, int64_t now_us) MUST_CHECK;

/* ---- replies (notion_api.c): return true ---- */
/* The node as its kind, with what changes without it; of a page the properties that
 * filter_properties of the query names; none: all. */
void notion_write(struct json_writer *w, const struct notion_node *node,
                  const struct provider_request *http);
/* Pages and databases as child_page and child_database. */
void notion_write_block(struct json_writer *w, const struct notion_node *node,
                        const struct provider_request *http);
bool notion_reply(struct notion_request *request, const struct json *value);
/* A write was carried out: the ledger, and the node as the reply. */
bool notion_done(struct notion_request *request, const struct notion_node *node);
/* The request's object becomes the node's, and the reply; false: answered. */
bool notion_save(struct notion_request *request);
/* A list: page_size (default 100) and start_cursor of the query, for GET, or of the body. */
struct notion_list {
    struct json_writer w;
    size_t size, listed;
    slice cursor, next; /* empty: from the beginning, up to the end */
    const char *type;
};
/* false: answered. */
bool notion_list_open(struct notion_request *request, const char *type, struct notion_list *list);
/* Whether the next item, of this id, belongs to the page; where not, it is list->next. */
bool notion_list_takes(struct notion_list *list, slice id);
/* false: the cursor was not found, answered. */
bool notion_list_close(struct notion_request *request, struct notion_list *list);

/* ---- the tree (notion_store.c) ---- */
struct notion *notion_new(struct provider *provider) MUST_CHECK;
void notion_free(struct notion *notion);
/* Any spelling (with or without dashes, upper or lower case) to the canonical one. */
bool notion_id_read(slice text, char out[UUID_TEXT_LEN + 1]) MUST_CHECK;
/* The next of the seed's, or a random one. */
struct json notion_id_new(struct notion *notion, struct arena *arena);
struct notion_node *notion_find(const struct notion *notion, slice id);
const char *notion_kind_name(enum notion_kind kind);
/* {"type": "page_id", "page_id": ...}; NULL: the workspace. */
struct json notion_parent(struct arena *arena, const struct notion_node *parent);
/* A new object below parent, without content, in the request's arena; draws its id. */
struct json notion_shape(struct notion_request *request, enum notion_kind kind,
                         const struct notion_node *parent);
/* A node of a filled shape, last below parent (in a data source first). NULL: answered. */
struct notion_node *notion_node_add(struct notion_request *request, enum notion_kind kind,
                                    struct notion_node *parent, struct json *object) MUST_CHECK;
/* Copies the object into an arena of the node's own; false: answered, the former one stays. */
bool notion_node_keep(struct notion_request *request, struct notion_node *node,
                      struct json *object) MUST_CHECK;
/* The same, edited now. */
bool notion_node_set(struct notion_request *request, struct notion_node *node,
                     struct json *object) MUST_CHECK;
/* Of a node that was kept; until it is kept again. */
const struct json *notion_object(const struct notion_node *node);
void notion_node_insert(struct notion_node *node, struct notion_node *parent, struct list *before);
/* With everything inside it. */
void notion_node_free(struct notion *notion, struct notion_node *node);
/* Removes nodes past the maximum; between requests only, since it may free any node that the API
 * made. */
void notion_evict(struct notion *notion);
bool notion_is_gone(const struct notion_node *node); /* it or one above it is archived */
/* Answers where the node or one above it is archived, and stays so. */
bool notion_is_editable(struct notion_request *request, const struct notion_node *node);

/* ---- texts, schemas and values (notion_property.c) ---- */
/* Reads rich text that a client sent into the full form. where: "body.title". */
bool notion_text_read(struct notion_request *request, const struct json *input, const char *where,
                      struct json *out);
/* Reads body[key], where there is one, into the object. */
bool notion_text_put(struct notion_request *request, const char *key, struct json *object);
/* The same of a boolean that the object has. */
void notion_flag_put(struct notion_request *request, const char *key, struct json *object);
/* All plain_text joined; in arena where there is more than one. */
slice notion_text_plain(struct arena *arena, const struct json *rich_text);
/* Plain text of the title, of a block or a comment. */
slice notion_label(struct arena *arena, const struct json *object);
/* The member of that name or of that id; NULL when there is none. */
const struct json *notion_property_find(const struct json *properties, slice name_or_id);
/* The same of a node's object. */
const struct json *notion_node_property(const struct notion_node *node, slice name_or_id);
/* Reads a schema object over the source's properties. */
bool notion_schema_read(struct notion_request *request, struct json *source,
                        const struct json *input);
/* Values for a page below `source` (NULL: a title alone): input's, else those that the page has,
 * else empty ones. */
bool notion_values_read(struct notion_request *request, const struct notion_node *source,
                        struct json *page, const struct json *input);
/* What filters and sorts compare: a text, a number, a boolean, a list of texts, or null. */
struct json notion_value_key(struct arena *arena, const struct json *property);

/* ---- pages (notion_page.c) ---- */
/* The node of one of the kinds from first to last that body.parent names. false: answered. */
bool notion_parent_read(struct notion_request *request, enum notion_kind first,
                        enum notion_kind last, struct notion_node **out);

/* ---- blocks (notion_block.c) ---- */
/* Adds blocks to parent, before a sibling (NULL: at the end); all or, answered, none. */
bool notion_blocks_add(struct notion_request *request, struct notion_node *parent,
                       struct list *before, const struct json *children, const char *where,
                       unsigned depth);

/* ---- Markdown (notion_markdown.c) ---- */
/* The blocks that a text stands for, as a client would send them; in arena. */
struct json notion_markdown_read(struct arena *arena, slice text);

/* ---- requests ---- */
bool notion_get(struct notion_request *request);
bool notion_pages_create(struct notion_request *request);
bool notion_pages_update(struct notion_request *request);
bool notion_pages_property(struct notion_request *request);
bool notion_pages_move(struct notion_request *request);
bool notion_pages_markdown(struct notion_request *request);
bool notion_pages_markdown_update(struct notion_request *request);
bool notion_databases_create(struct notion_request *request);
bool notion_databases_update(struct notion_request *request);
bool notion_sources_create(struct notion_request *request);
bool notion_sources_update(struct notion_request *request);
bool notion_sources_templates(struct notion_request *request);
bool notion_sources_query(struct notion_request *request);
bool notion_search(struct notion_request *request);
bool notion_blocks_get(struct notion_request *request);
bool notion_blocks_update(struct notion_request *request);
bool notion_blocks_delete(struct notion_request *request);
bool notion_children_list(struct notion_request *request);
bool notion_children_append(struct notion_request *request);
bool notion_users_list(struct notion_request *request);
bool notion_users_get(struct notion_request *request);
bool notion_users_me(struct notion_request *request);
bool notion_comments_list(struct notion_request *request);
bool notion_comments_create(struct notion_request *request);
bool notion_comments_update(struct notion_request *request);
bool notion_comments_delete(struct notion_request *request);

#endif
