/*
 * Lists of an account's things by id, newest first, in pages:
 *
 *   {"<key>": [...], "next_cursor": "<id>" or null}
 *
 * `limit` is 20 by default and 100 at most; next_cursor goes into the next request's `cursor`;
 * null: there is nothing older. A list is read in windows of time that grow (1 day, 32 days, ...),
 * so that the usual request touches one partition. A page reads LISTING_ROUNDS_MAX times
 * STORE_PAGE_ROWS rows at most: where a filter lets little pass it may hold fewer than `limit`
 * before the end. Private to the api room.
 */
#ifndef API_LISTING_H
#define API_LISTING_H

#include "api/request.h"

enum { LISTING_DEFAULT = 20, LISTING_MAX = 100, LISTING_ROUNDS_MAX = 16 };

struct listing;

struct listing_kind {
    const char *key;
    /* Starts the query for listing->page. */
    void (*ask)(struct api_request *request, struct listing *listing);
    size_t size, id_at; /* of an item; where its id is */
    /* Its result: count and next as the store gives them; an array in the op's arena. */
    int (*read)(struct api_request *request, void **items, size_t *count, struct uuid *next);
    void (*put)(struct json_writer *w, const void *item, struct arena *arena);
};

struct listing {
    const struct listing_kind *kind;
    struct store_page page;
    void *filter; /* the kind's own */
    /* private */
    int64_t window_ms;
    size_t limit, count;
    unsigned rounds;
    bool is_more;       /* older ones follow, or may */
    struct uuid cursor; /* with is_more: the id to go on from */
    const void *items[LISTING_MAX + 1];
};

/* Reads limit and cursor, asks for the pages and answers. */
enum op_result listing_begin(struct api_request *request, const struct listing_kind *kind,
                             void *filter);

/* For filters and items. A word is what ids and kinds are made of; SLICE_NONE when absent. false:
 * answered with 400. */
bool listing_read_word(struct api_request *request, const char *name, slice *word) MUST_CHECK;

#endif
