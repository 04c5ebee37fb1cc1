/*
 * The Gmail-shaped mailbox: messages, threads, labels, drafts, settings. One account, everything in
 * memory. gmail.json has the system labels, the first settings and the mails of the first state.
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
    GMAIL_BATCH_MAX = 1000,
    GMAIL_ID_TEXT_LEN = 16,
    GMAIL_DRAFT_ID_MAX = 24,
    GMAIL_SETTINGS_BYTES_MAX = 16 * 1024 * 1024,
};

#define GMAIL_ADDRESS "sam.rivera@example.com"
/* Message k (from 1) of the seed has this id plus k; drafts are r7190000000000000000 plus k. */
#define GMAIL_SEED_ID UINT64_C(0x19a4b6c7d8e90000)

/* Labels that are always there, as gmail.json lists them; their bit in gmail_message.flags is
 * 1 << this. */
enum gmail_system {
    GMAIL_INBOX,
    GMAIL_SENT,
    GMAIL_DRAFT,
    GMAIL_TRASH,
    GMAIL_SPAM,
    GMAIL_UNREAD,
    GMAIL_PERSONAL = GMAIL_UNREAD + 4,
    GMAIL_SYSTEM_LABELS = GMAIL_PERSONAL + 5
};

struct gmail_message;

/* Messages from old to new. */
struct gmail_order {
    struct gmail_message **items;
    size_t count, cap;
};

struct gmail_label {
    slice id, name;
    bool is_user, is_deleted;
    unsigned number; /* index in gmail.labels */
    struct gmail_order order;
    struct json json; /* as a reply holds it, without the counts */
};

struct gmail_thread {
    uint64_t id;
    char id_text[GMAIL_ID_TEXT_LEN + 1];
    struct gmail_order order;
    uint64_t mark, mark_unread; /* the last count of a label that counted it */
};

/* What a search can name; each text prepared: lower case, every run of other bytes one space, a
 * space at both ends. */
enum gmail_field {
    GMAIL_FIELD_FROM,
    GMAIL_FIELD_TO, /* To, Cc and Bcc, as Gmail's own to: */
    GMAIL_FIELD_SUBJECT,
    GMAIL_FIELD_FILENAME,
    GMAIL_FIELD_ALL, /* with the text */
    GMAIL_FIELDS
};

struct gmail_message {
    uint64_t id, history_id;
    char id_text[GMAIL_ID_TEXT_LEN + 1];
    char draft_id[GMAIL_DRAFT_ID_MAX + 1]; /* "": no draft */
    int64_t time_ms;                       /* internalDate */
    struct gmail_thread *thread;
    struct gmail_label *labels[GMAIL_MESSAGE_LABELS_MAX]; /* in the order that they came */
    unsigned label_count;
    uint32_t flags; /* system labels */
    bool has_attachment, is_from_api;
    size_t size;
    slice raw, snippet, message_id; /* message_id: header with its <> */
    struct mime_part payload;
    slice words[GMAIL_FIELDS];
    struct arena arena; /* of everything above */
};

struct gmail {
    struct provider *provider;
    struct arena arena; /* of data, the labels and the settings */
    const struct json *data;
    struct gmail_order all;
    struct map messages, threads, message_ids;
    struct gmail_label *labels[GMAIL_LABELS_MAX];
    unsigned label_count;
    struct buf label_list; /* the body of labels.list; empty when it has to be rebuilt */
    size_t api_messages;   /* that came in through the API and are still there */
    uint64_t history_id, mark;
    int64_t last_ms; /* of the newest message: times of new ones never go back */
    unsigned next_label, next_filter;
    struct json filters, vacation, senders; /* settings: a list, an object, a list */
};

/* ---- the mailbox (gmail_store.c, gmail_seed.c) ---- */

struct gmail *gmail_new(struct provider *provider) MUST_CHECK;
void gmail_free(struct gmail *gmail);
bool gmail_seed(struct gmail *gmail, int64_t now_us) MUST_CHECK;

struct gmail_new_message {
    slice raw;
    int64_t time_ms;
    uint64_t id;                 /* 0: a fresh one */
    struct gmail_thread *thread; /* NULL: found by References, else a new one */
    struct gmail_label *const *labels;
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
bool gmail_label_add(struct gmail_message *message, struct gmail_label *label);
bool gmail_label_remove(struct gmail_message *message, struct gmail_label *label);
/* The message has a new historyId. */
void gmail_touch(struct gmail *gmail, struct gmail_message *message);
/* How many are older than (time_ms, id). */
size_t gmail_order_rank(const struct gmail_order *order, int64_t time_ms, uint64_t id);
bool gmail_has(const struct gmail_message *message, const struct gmail_label *label);
static inline bool gmail_is(const struct gmail_message *message, enum gmail_system label)
{
    return message->flags >> label & 1;
}

/* gmail_label.c. NULL where there is no such label, and for a new one when there are too many. */
struct gmail_label *gmail_label_find(const struct gmail *gmail, slice id);
struct gmail_label *gmail_label_find_name(const struct gmail *gmail, slice name);
struct gmail_label *gmail_label_new(struct gmail *gmail, slice id, slice name, bool is_user,
                                    bool is_hidden);

/* ---- search (gmail_search.c) ---- */
struct gmail_query;
/* Compiles `q`. Never fails on what a person may type; NULL only when out of memory. *wants_hidden:
 * it asks for trash or spam itself (in:anywhere, in:trash ...). */
struct gmail_query *gmail_query_parse(const struct gmail *gmail, struct arena *arena, slice text,
                                      int64_t now_us, bool *wants_hidden) MUST_CHECK;
bool gmail_query_matches(const struct gmail_query *query, const struct gmail_message *message);
/* The shortest list of messages that holds every match. */
const struct gmail_order *gmail_query_order(const struct gmail *gmail,
                                            const struct gmail_query *query);
/* Prepares text as in gmail_message.words. */
slice gmail_words_of(struct arena *arena, slice text);

/* ---- requests (gmail_api.c has the routes) ---- */

/* What a route is about. */
enum gmail_target {
    GMAIL_MESSAGE,
    GMAIL_THREAD,
    GMAIL_MESSAGES, /* that the body's ids name */
    GMAIL_A_DRAFT,
    GMAIL_LABEL,
    GMAIL_NONE
};

struct gmail_request {
    struct gmail *gmail;
    const struct provider_request *http;
    struct arena *arena; /* http's */
    struct provider_reply *reply;
    const struct json *json; /* of the body; NULL when there is none */
    slice id, id2;           /* from the path */
    enum gmail_target target;
    const char *kind;                      /* of the ledger's entry: "messages.modify" */
    struct gmail_message *const *messages; /* that the id names: one, a thread's, a batch's */
    size_t message_count;
    struct gmail_message *message; /* the first of them */
    struct gmail_thread *thread;
    struct gmail_label *label;
};
/* Answers; what it returns has no meaning: an error is false, for `return gmail_bad(...)`. */
typedef bool (*gmail_handler)(struct gmail_request *request);

void gmail_handle(struct provider *provider, const struct provider_request *request,
                  struct provider_reply *reply);
/* Google's error shape. reason: "invalidArgument", "notFound" ...; status_text "INVALID_ARGUMENT".
 * Errors return false. */
bool gmail_error(struct provider_reply *reply, unsigned code, slice reason, slice status_text,
                 slice message);
bool gmail_bad(struct gmail_request *request, const char *fmt, ...) PRINTF_LIKE(2, 3);
/* The error that a status has when nothing more is known (faults, tokens). */
bool gmail_error_plain(struct gmail *gmail, struct provider_reply *reply, unsigned code);
bool gmail_not_found(struct gmail_request *request);
/* 200 with that value. */
bool gmail_reply(struct gmail_request *request, const struct json *value);
/* One more write of the request's kind, done: 204. */
bool gmail_removed(struct gmail_request *request, slice id, slice marker);
void gmail_record(struct gmail_request *request, slice id, slice marker);

/* ---- JSON shapes (gmail_messages.c) ---- */
enum gmail_format { GMAIL_FULL, GMAIL_METADATA, GMAIL_MINIMAL, GMAIL_RAW, GMAIL_BRIEF };
/* {"id","threadId"}, and with_labels {"labelIds"}: the answer of send, modify, trash. */
void gmail_write_brief(struct json_writer *w, const struct gmail_message *message,
                       bool with_labels);
void gmail_write_u64(struct json_writer *w, const char *key, uint64_t value);
/* The target as the reply: a message, a draft with its message, a thread with all of its. */
bool gmail_reply_target(struct gmail_request *request, enum gmail_format format);
/* The same of a new message. */
bool gmail_reply_message(struct gmail_request *request, struct gmail_message *message,
                         enum gmail_target target);

bool gmail_list(struct gmail_request *request);
bool gmail_get(struct gmail_request *request);
bool gmail_modify(struct gmail_request *request);
bool gmail_trash(struct gmail_request *request);
bool gmail_untrash(struct gmail_request *request);
bool gmail_remove(struct gmail_request *request);
bool gmail_attachments_get(struct gmail_request *request);
bool gmail_history_list(struct gmail_request *request);
bool gmail_messages_send(struct gmail_request *request);
bool gmail_drafts_write(struct gmail_request *request);
bool gmail_drafts_send(struct gmail_request *request);
bool gmail_labels_list(struct gmail_request *request);
bool gmail_labels_get(struct gmail_request *request);
bool gmail_labels_write(struct gmail_request *request);
bool gmail_labels_delete(struct gmail_request *request);
bool gmail_profile(struct gmail_request *request);
bool gmail_settings_get(struct gmail_request *request);
bool gmail_filters_create(struct gmail_request *request);
bool gmail_filters_delete(struct gmail_request *request);
bool gmail_vacation_set(struct gmail_request *request);
bool gmail_senders_update(struct gmail_request *request);

#endif
