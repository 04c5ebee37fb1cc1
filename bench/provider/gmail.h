/*
 * The Gmail-shaped mailbox: messages, threads, labels, drafts, settings. One account, everything in
 * memory.
 *
 * Each label keeps its messages in order of time, so that a list or search walks the shortest of
 * the labels that it needs and a mailbox full of sent mail does not slow down "is:unread". Past
 * GMAIL_MESSAGES_MAX the oldest message that came in through the API is removed.
 */
#ifndef PROVIDER_GMAIL_H
#define PROVIDER_GMAIL_H

#include "base/map.h"
#include "provider/mime.h"
#include "provider/provider.h"

enum {
    GMAIL_MESSAGES_MAX = 50000,
    GMAIL_MESSAGE_BYTES_MAX = 36700160, /* 35 MiB, as documented for upload */
    GMAIL_LABELS_MAX = 10000,
    GMAIL_MESSAGE_LABELS_MAX = 40,
    GMAIL_ID_TEXT_LEN = 16,
    GMAIL_DRAFT_ID_MAX = 24,
    GMAIL_FILTERS_MAX = 1000,
    GMAIL_FILTER_ID_MAX = 40,
    GMAIL_SETTING_BYTES_MAX = 1024 * 1024,
};

#define GMAIL_ADDRESS "sam.rivera@example.com"
/* Message k (from 1) of the seed has this id plus k; drafts are r7190000000000000000 plus k. */
#define GMAIL_SEED_ID UINT64_C(0x19a4b6c7d8e90000)

/* Labels that are always there; their bit in gmail_message.flags is 1 << this. */
enum gmail_system {
    GMAIL_INBOX,
    GMAIL_SENT,
    GMAIL_DRAFT,
    GMAIL_TRASH,
    GMAIL_SPAM,
    GMAIL_UNREAD,
    GMAIL_STARRED,
    GMAIL_IMPORTANT,
    GMAIL_CHAT,
    GMAIL_PERSONAL,
    GMAIL_SOCIAL,
    GMAIL_PROMOTIONS,
    GMAIL_UPDATES,
    GMAIL_FORUMS,
    GMAIL_SYSTEM_LABELS
};

struct gmail_message;
struct gmail_filter;

/* Messages from old to new. */
struct gmail_order {
    struct gmail_message **items;
    size_t count, cap;
};

struct gmail_label {
    slice id, name;
    bool is_user, is_deleted;
    bool is_hidden_in_list, is_hidden_on_messages; /* labelListVisibility, messageListVisibility */
    unsigned number;                               /* index in gmail.labels */
    struct gmail_order order;
    char text[300]; /* holds id and name */
};

struct gmail_thread {
    uint64_t id;
    char id_text[GMAIL_ID_TEXT_LEN + 1];
    struct gmail_order order;
    uint64_t mark, mark_unread; /* the last count of a label that counted it */
};

/* Texts prepared for search: lower case, every run of other bytes one space, a space at both
 * ends. */
struct gmail_words {
    slice from, to, cc, bcc, subject, all, filenames;
};

struct gmail_message {
    uint64_t id, history_id;
    char id_text[GMAIL_ID_TEXT_LEN + 1];
    int64_t time_ms; /* internalDate */
    struct gmail_thread *thread;
    struct gmail_label *labels[GMAIL_MESSAGE_LABELS_MAX]; /* in the order that they came */
    unsigned label_count;
    uint32_t flags; /* system labels */
    bool has_attachment, is_from_api;
    size_t size;
    slice raw, snippet, message_id; /* message_id: header with its <> */
    struct mime_part payload;
    struct gmail_words words;
    struct arena arena; /* of everything above */
};

struct gmail_draft {
    char id[GMAIL_DRAFT_ID_MAX + 1];
    struct gmail_message *message;
};

struct gmail {
    struct provider *provider;
    struct gmail_order all;
    struct map messages, threads, message_ids, drafts_by_id;
    struct gmail_label *labels[GMAIL_LABELS_MAX];
    unsigned label_count;
    struct buf label_list;       /* the body of labels.list; empty when it has to be rebuilt */
    struct gmail_draft **drafts; /* oldest first */
    size_t draft_count, draft_cap;
    size_t api_messages; /* that came in through the API and are still there */
    uint64_t history_id, mark;
    int64_t last_ms; /* of the newest message: times of new ones never go back */
    unsigned next_label;
    struct gmail_filter *filters[GMAIL_FILTERS_MAX];
    unsigned filter_count, next_filter;
    struct buf vacation; /* VacationSettings as JSON; empty: never set */
    struct buf send_as;  /* the signature */
};

/* ---- the mailbox (gmail_store.c) ---- */

struct gmail *gmail_new(struct provider *provider) MUST_CHECK;
void gmail_free(struct gmail *gmail);

struct gmail_new_message {
    slice raw;
    int64_t time_ms;
    uint64_t id;                 /* 0: a fresh one */
    struct gmail_thread *thread; /* NULL: found by References, else a new one */
    const unsigned *labels;      /* numbers in gmail.labels */
    size_t label_count;
    bool is_from_api;
};
/* NULL: err (ERR_SYNTAX where the mail cannot be read). */
struct gmail_message *gmail_insert(struct gmail *gmail, const struct gmail_new_message *message,
                                   struct err *err) MUST_CHECK;
void gmail_delete(struct gmail *gmail, struct gmail_message *message);
struct gmail_message *gmail_find(const struct gmail *gmail, slice id);
struct gmail_thread *gmail_find_thread(const struct gmail *gmail, slice id);
/* true where something changed. */
bool gmail_label_add(struct gmail *gmail, struct gmail_message *message, struct gmail_label *label);
bool gmail_label_remove(struct gmail *gmail, struct gmail_message *message,
                        struct gmail_label *label);
/* The message has a new historyId. */
void gmail_touch(struct gmail *gmail, struct gmail_message *message);
static inline bool gmail_has(const struct gmail_message *message, enum gmail_system label)
{
    return message->flags >> label & 1;
}

/* gmail_label.c. NULL where there is no such label, and for a new one when there are too many. */
struct gmail_label *gmail_label_find(const struct gmail *gmail, slice id);
struct gmail_label *gmail_label_find_name(const struct gmail *gmail, slice name);
struct gmail_label *gmail_label_new(struct gmail *gmail, slice id, slice name, bool is_user);
bool gmail_labels_init(struct gmail *gmail);

/* gmail_settings.c */
bool gmail_settings_init(struct gmail *gmail) MUST_CHECK;
void gmail_settings_deinit(struct gmail *gmail);

/* gmail_draft.c */
struct gmail_draft *gmail_draft_add(struct gmail *gmail, struct gmail_message *message,
                                    uint64_t number) MUST_CHECK;
struct gmail_draft *gmail_draft_find(const struct gmail *gmail, slice id);
/* Removes the draft; its message stays. */
void gmail_draft_remove(struct gmail *gmail, struct gmail_draft *draft);

/* ---- ordered sets (gmail_order.c) ---- */
bool gmail_order_insert(struct gmail_order *order, struct gmail_message *message) MUST_CHECK;
void gmail_order_remove(struct gmail_order *order, const struct gmail_message *message);
/* How many are older than (time_ms, id). */
size_t gmail_order_rank(const struct gmail_order *order, int64_t time_ms, uint64_t id);

/* ---- search (gmail_search.c, gmail_match.c) ---- */
struct gmail_query;
/* Compiles `q`. Never fails on what a person may type; NULL only when out of memory. */
struct gmail_query *gmail_query_parse(const struct gmail *gmail, struct arena *arena, slice text,
                                      int64_t now_us) MUST_CHECK;
bool gmail_query_matches(const struct gmail_query *query, const struct gmail_message *message);
/* Whether it asks for trash or spam itself (in:anywhere, in:trash ...). */
bool gmail_query_wants_hidden(const struct gmail_query *query);
/* The shortest list of messages that holds every match. */
const struct gmail_order *gmail_query_order(const struct gmail *gmail,
                                            const struct gmail_query *query);
/* Normalizes text as in struct gmail_words. */
slice gmail_words_of(struct arena *arena, slice text);

/* ---- JSON shapes (gmail_write.c) ---- */
enum gmail_format { GMAIL_FULL, GMAIL_METADATA, GMAIL_MINIMAL, GMAIL_RAW };
void gmail_write_message(struct json_writer *w, const struct gmail_message *message,
                         enum gmail_format format, const struct http_header *wanted,
                         size_t wanted_count);
/* {"id","threadId","labelIds"}: the answer of send, modify, trash. */
void gmail_write_brief(struct json_writer *w, const struct gmail_message *message);
void gmail_write_label(struct json_writer *w, struct gmail *gmail, const struct gmail_label *label,
                       bool with_counts);
/* The bytes as a base64url string. */
void gmail_write_data(struct json_writer *w, slice bytes);
/* The attachment with that id, NULL when there is none. */
const struct mime_part *gmail_attachment(const struct gmail_message *message, slice id);

/* ---- requests (gmail_api.c and the files it names) ---- */
bool gmail_seed(struct gmail *gmail, int64_t now_us) MUST_CHECK;
void gmail_handle(struct provider *provider, const struct provider_request *request,
                  struct provider_reply *reply);
/* Google's error shape. reason: "invalidArgument", "notFound" ...; status_text "INVALID_ARGUMENT".
 */
void gmail_error(struct provider_reply *reply, unsigned code, const char *reason,
                 const char *status_text, const char *fmt, ...) PRINTF_LIKE(5, 6);
/* The error that a status has when nothing more is known (faults, tokens). */
void gmail_error_plain(struct provider_reply *reply, unsigned code);
/* The shape of 403 when the token lacks a scope. */
void gmail_error_scope(struct provider_reply *reply);

struct gmail_request {
    struct gmail *gmail;
    const struct provider_request *http;
    const struct json *json; /* of the body; NULL when there is none */
    slice id, id2;           /* from the path */
};
typedef void (*gmail_handler)(struct gmail_request *request, struct provider_reply *reply);
/* gmail_list.c */
void gmail_messages_list(struct gmail_request *request, struct provider_reply *reply);
void gmail_threads_list(struct gmail_request *request, struct provider_reply *reply);
void gmail_drafts_list(struct gmail_request *request, struct provider_reply *reply);
/* gmail_messages.c */
void gmail_messages_get(struct gmail_request *request, struct provider_reply *reply);
void gmail_messages_modify(struct gmail_request *request, struct provider_reply *reply);
void gmail_messages_batch_modify(struct gmail_request *request, struct provider_reply *reply);
void gmail_messages_batch_delete(struct gmail_request *request, struct provider_reply *reply);
void gmail_messages_trash(struct gmail_request *request, struct provider_reply *reply);
void gmail_messages_untrash(struct gmail_request *request, struct provider_reply *reply);
void gmail_messages_delete(struct gmail_request *request, struct provider_reply *reply);
void gmail_attachments_get(struct gmail_request *request, struct provider_reply *reply);
void gmail_threads_get(struct gmail_request *request, struct provider_reply *reply);
void gmail_threads_modify(struct gmail_request *request, struct provider_reply *reply);
void gmail_threads_trash(struct gmail_request *request, struct provider_reply *reply);
void gmail_threads_untrash(struct gmail_request *request, struct provider_reply *reply);
void gmail_threads_delete(struct gmail_request *request, struct provider_reply *reply);
/* gmail_send.c */
void gmail_messages_send(struct gmail_request *request, struct provider_reply *reply);
void gmail_drafts_create(struct gmail_request *request, struct provider_reply *reply);
void gmail_drafts_get(struct gmail_request *request, struct provider_reply *reply);
void gmail_drafts_update(struct gmail_request *request, struct provider_reply *reply);
void gmail_drafts_delete(struct gmail_request *request, struct provider_reply *reply);
void gmail_drafts_send(struct gmail_request *request, struct provider_reply *reply);
/* gmail_label.c */
void gmail_labels_list(struct gmail_request *request, struct provider_reply *reply);
void gmail_labels_get(struct gmail_request *request, struct provider_reply *reply);
void gmail_labels_create(struct gmail_request *request, struct provider_reply *reply);
void gmail_labels_update(struct gmail_request *request, struct provider_reply *reply);
void gmail_labels_delete(struct gmail_request *request, struct provider_reply *reply);
void gmail_profile(struct gmail_request *request, struct provider_reply *reply);
/* gmail_settings.c */
void gmail_filters_list(struct gmail_request *request, struct provider_reply *reply);
void gmail_filters_get(struct gmail_request *request, struct provider_reply *reply);
void gmail_filters_create(struct gmail_request *request, struct provider_reply *reply);
void gmail_filters_delete(struct gmail_request *request, struct provider_reply *reply);
void gmail_vacation_get(struct gmail_request *request, struct provider_reply *reply);
void gmail_vacation_set(struct gmail_request *request, struct provider_reply *reply);
void gmail_send_as_list(struct gmail_request *request, struct provider_reply *reply);
void gmail_send_as_get(struct gmail_request *request, struct provider_reply *reply);
void gmail_send_as_update(struct gmail_request *request, struct provider_reply *reply);
void gmail_history_list(struct gmail_request *request, struct provider_reply *reply);
/* Reads label ids of a JSON array; false: answered with 400. */
bool gmail_read_labels(struct gmail_request *request, const struct json *ids,
                       struct gmail_label **labels, size_t *count, struct provider_reply *reply);
/* Applies addLabelIds and removeLabelIds to messages; false: answered. */
bool gmail_modify(struct gmail_request *request, struct gmail_message *const *messages,
                  size_t message_count, struct provider_reply *reply);

#endif
