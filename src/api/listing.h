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
#include "store/tally.h"

enum { LISTING_DEFAULT = 20, LISTING_MAX = 100 };

struct listing_kind {
    const struct serve_filter *filters;
    const char *key;
    /* Sends the query for one scan of the list. */
    void (*ask)(struct api_request *request, struct serve_list *list);
    /* Reads the result of the query: sets *items to an array in the op's arena, and *count and
     * *next as the store returns them. If `gives` leaves some out, the list is_sieved. */
    int (*read)(struct api_request *request, void **items, size_t *count, struct uuid *next);
    /* Whether the caller may have the item, and has asked for it; NULL: yes. */
    bool (*gives)(struct api_request *request, struct serve_list *list, void *item);
    /* Writes the members of an item. user: its owner's external id; SLICE_NONE: the account's own,
     * or the list does not name users. */
    void (*put)(struct json_writer *w, const void *item, slice user, struct arena *arena);
    struct {
        size_t size, id_at; /* size of an item, and offset of the id in it */
        size_t owner_at;    /* offset of its account_id; only for LISTING_USERS and names_users */
    } item;
    bool names_users; /* items are also of users, as with `users=all`, for a key with admin */
};
/* `users=all`: also the rows of the account's users; needs the scope admin, and no Sluice-User. */
#define LISTING_USERS                                                       \
    {                                                                       \
        .name = "users", .words = "all", .wanted = "all", .is_quoted = true \
    }
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
/* Writes p50_ms and p95_ms of these calls; null if there were none. */
void listing_put_times(struct json_writer *w, const int64_t buckets[TALLY_BUCKETS]);
/* Begins the reply of a page that is one query: its rows are the list "items". The caller adds
 * "next_cursor" and closes it. */
struct json_writer *listing_reply_open(struct api_request *request, const void *rows, size_t count,
                                       size_t row_size,
                                       void (*put)(struct json_writer *w, const void *row));
/* Whether the request asks for the rows of all users. */
bool listing_is_all(const struct serve_list *list, const struct serve_filter *filters);

/* The users to whom rows of a page belong, with their names: the first member of request->state.
 * Zeroed before its first use. */
struct listing_users {
    struct account_user *list;
    size_t count;
    api_step *then;
};
/* Runs `then` once the names of these owners are known, with one query. At most LISTING_MAX owners;
 * the account itself may be one of them. Answers if the query fails. */
enum op_result listing_name_users(struct api_request *request, const struct uuid *owners,
                                  size_t count, api_step *then);
/* Whether the owner of a row is the account (*name is then SLICE_NONE) or one of these users. Rows
 * of a user that no longer exists are about to be erased. */
bool listing_find_user(const struct api_request *request, struct uuid owner,
                       slice *name) MUST_CHECK;
/* Answers with 400, because the value of this argument is invalid. */
enum op_result listing_refuse(struct api_request *request, const struct serve_filter *filter,
                              slice value);

#endif
