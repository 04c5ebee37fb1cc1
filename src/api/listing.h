/*
 * Lists of an account's rows by id, newest first, in pages:
 *
 *   {"<key>": [...], "next_cursor": "<id>" or null}
 *
 * `limit` is 20 by default and at most 100. next_cursor is the `cursor` of the next request, or
 * null if there are no older rows. serve/list.h reads the pages. Private to the api room.
 */
#ifndef API_LISTING_H
#define API_LISTING_H

#include "api/request.h"
#include "serve/list.h"

enum { LISTING_DEFAULT = 20, LISTING_MAX = 100 };

struct listing_kind {
    const struct serve_filter *filters;
    const char *key;
    /* Sends the query for one scan of the list. */
    void (*ask)(struct api_request *request, struct serve_list *list);
    /* Reads the result of the query: sets *items to an array in the op's arena, and *count and
     * *next as the store returns them. */
    int (*read)(struct api_request *request, void **items, size_t *count, struct uuid *next);
    void (*put)(struct json_writer *w, const void *item, struct arena *arena);
    struct {
        size_t size, id_at; /* size of an item, and offset of the id in it */
    } item;
};
#define LISTING_CURSOR                                                                         \
    {                                                                                          \
        "cursor", SERVE_CURSOR, .wanted = "the next_cursor of another page", .is_quoted = true \
    }

/* Reads the arguments, loads the pages and answers. */
enum op_result listing_begin(struct api_request *request, const struct listing_kind *kind);

/* For lists with their own form of answer: reads these arguments and `limit`. Returns false if the
 * request was answered with 400. */
bool listing_read(struct api_request *request, struct serve_list *list,
                  const struct serve_filter *filters, size_t limit_default) MUST_CHECK;
/* Writes a member that is an id, or null if it is nil: next_cursor, for instance. */
void listing_put_id(struct json_writer *w, const char *name, struct uuid id);
/* Answers with 400, because the value of this argument is invalid. */
enum op_result listing_refuse(struct api_request *request, const struct serve_filter *filter,
                              slice value);

#endif
