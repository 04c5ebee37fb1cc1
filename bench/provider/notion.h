/*
 * The Notion-shaped workspace (API version 2026-03-11): pages, databases, data sources, blocks,
 * comments. The children of a page are its blocks, sub-pages, databases and comments in order.
 * The children of a database are its data sources, and the children of a data source are its pages,
 * newest first. notion.json has the users, the shape of a new object of each kind, the errors, the
 * allowed contents of requests, and the requests that create the initial state.
 */
#ifndef PROVIDER_NOTION_H
#define PROVIDER_NOTION_H

#include "provider/call.h"

enum {
    NOTION_RECORDS_MAX = 50000,
    NOTION_TEXT_MAX = 2000, /* UTF-16 units of one rich text in the original; bytes here */
    NOTION_PAGE_MAX = 100,  /* page_size */
};

#define NOTION_VERSION "2026-03-11"

#define NOTION_USER_BOT "e0a1b2c3-4d5e-4f60-8a7b-9c8d7e6f5ab0" /* the bot's id in notion.json */

enum notion_kind {
    NOTION_PAGE,
    NOTION_DATABASE,
    NOTION_SOURCE,
    NOTION_BLOCK,
    NOTION_COMMENT,
    NOTION_KINDS
};

struct notion {
    struct app app;          /* order: pages, databases, data sources, the last edited first */
    const struct json *seed; /* the entry that is being carried out; NULL for requests of the API */
    uint32_t seed_ids;       /* number of the entry's ids that are used */
};

/* ---- the entry, errors, replies (notion_api.c) ---- */

struct notion *notion_new(void);
void notion_free(struct notion *notion);
/* Carries out the requests of notion.json. */
void notion_seed(struct provider *provider, int64_t now_us);
void notion_handle(struct call *call);
bool notion_not_found(struct call *call, const char *what, slice id);

/* Returns the record as a reply shows it. A page has the properties that filter_properties in the
 * query names, or all. */
struct json notion_show(struct call *call, const struct record *record);
/* Shows pages and databases as child_page and child_database. */
struct json notion_show_block(struct call *call, const struct record *record);
/* Returns whether the record is a block. Data sources and comments are below a record, too, but are
 * not blocks. */
bool notion_is_block(const struct record *record);
bool notion_get(struct call *call);
/* Records in the ledger that a write was carried out, and replies with the record. */
bool notion_done(struct call *call, const struct record *record);
/* Replies with the items that page_size and start_cursor select. Returns false if there is no such
 * cursor, for which it has answered with an error. */
bool notion_list(struct call *call, const char *type, const struct json *items);

/* Converts any form of an id (with or without dashes, upper or lower case) to the canonical
 * form. */
bool notion_id_read(slice text, char out[UUID_TEXT_LEN + 1]) MUST_CHECK;
struct record *notion_find(const struct call *call, slice id);
const char *notion_kind_name(unsigned kind);

/* ---- the objects (notion_object.c) ---- */

/* Replaces the record's object, and marks the record as edited, and also the page of a block. */
void notion_edit(struct call *call, struct record *record, struct json *object);
/* Replaces the record's object with call->object, and replies with it. Returns true. */
bool notion_save(struct call *call);
bool notion_is_gone(const struct record *record); /* the record, or one that contains it, is
                                                   * archived */
/* Returns false, and answers the request, if the record or one that contains it is archived and
 * stays archived. */
bool notion_is_editable(struct call *call, const struct record *record);
/* Adds blocks to parent, before a sibling, or at the end if it is NULL. */
void notion_blocks_add(struct call *call, struct record *parent, struct list *before,
                       const struct json *children);
extern const struct route notion_routes[];
extern const size_t notion_route_count;

/* ---- texts, schemas and values (notion_value.c) ---- */

/* Converts a value that a client sent to its full form, by the shape of its type. A value whose
 * type has no shape is unchanged. */
struct json notion_value(struct call *call, const char *type, const struct json *input);
/* Returns the plain text of a title, a block or a comment. */
slice notion_label(struct arena *arena, const struct json *object);
/* Returns the property with that name or id, or NULL. */
const struct json *notion_property(const struct record *record, slice name_or_id);
/* Changes a schema as a request says. Returns false if it has answered the request. */
bool notion_schema_read(struct call *call, struct json *schema, const struct json *input);
/* Sets the values of a page below `source` (NULL: only a title): the values in input, otherwise the
 * values that the page has, otherwise empty values. */
bool notion_values_read(struct call *call, struct record *source, struct json *page,
                        const struct json *input);
/* Returns what filters and sorts compare: a text, a number, a boolean, a list of texts, or null. */
struct json notion_value_key(struct arena *arena, const struct json *property);

/* ---- queries (notion_query.c), Markdown (notion_markdown.c) ---- */

bool notion_source_query(struct call *call);
bool notion_search(struct call *call);
/* Returns the blocks for a text, as a client would send them. */
struct json notion_markdown_read(struct arena *arena, slice text);
bool notion_page_markdown(struct call *call);
bool notion_markdown_update(struct call *call);

#endif
