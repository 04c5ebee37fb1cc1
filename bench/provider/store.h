/*
 * The records of an app: found by id, in a tree, each with the JSON object that a reply shows.
 * Above a maximum, records that requests created are evicted, oldest first, with everything inside
 * them.
 */
#ifndef PROVIDER_STORE_H
#define PROVIDER_STORE_H

#include "base/id.h"
#include "base/list.h"
#include "base/map.h"
#include "json/json.h"

enum { RECORD_ID_MAX = 40 };

struct record {
    char id[RECORD_ID_MAX + 1];
    unsigned kind;         /* the app's */
    struct record *parent; /* NULL: a root */
    struct list sibling_link, children;
    struct list order_link; /* store->order */
    struct list made_link;  /* store->made: the records that requests created, oldest first */
    struct arena arena;     /* holds json, label and more */
    struct json json;
    slice label;      /* its name for people: a title, the text of a block */
    bool is_archived; /* this record itself; notion_is_gone also checks the records that contain
                       * it */
    void *more;       /* the app's */
};

struct store {
    struct map records;
    struct list roots, order, made;
    size_t made_count, made_max;
};

void store_init(struct store *store, size_t made_max);
void store_deinit(struct store *store);
struct record *store_find(const struct store *store, slice id);
/* Evicts records that requests created, above the maximum. To be called only between requests. */
void store_evict(struct store *store);

/* Adds a record without JSON as the last child of parent (NULL: as the last root). It is not in
 * `order` yet. The id must be free. If there is no memory for it, the process ends, because the
 * store would be inconsistent. */
struct record *record_new(struct store *store, slice id, unsigned kind, struct record *parent,
                          bool is_made);
/* Copies the object and the label into a new arena of the record, which replaces the old one. Both
 * may point into the old arena. */
void record_set(struct record *record, const struct json *object, slice label);
/* Moves the record before a sibling, or, if `before` is NULL, to the end of parent's children or of
 * the roots. */
void record_move(struct store *store, struct record *record, struct record *parent,
                 struct list *before);
/* Frees the record and everything inside it. */
void record_free(struct store *store, struct record *record);

#define RECORD_EACH(head, item, link) LIST_EACH(head, struct record, item, link)

#endif
