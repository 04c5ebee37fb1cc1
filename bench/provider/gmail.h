/*
 * The Gmail-shaped mailbox of one account. A thread's record is the parent of the records of its
 * mails, which are in order of time. Labels and settings are also records. gmail.json has the
 * initial state, the shapes of replies and the errors.
 */
#ifndef PROVIDER_GMAIL_H
#define PROVIDER_GMAIL_H

#include "provider/call.h"
#include "provider/mime.h"

enum {
    GMAIL_MESSAGES_MAX = 50000,
    GMAIL_MESSAGE_BYTES_MAX = 36700160, /* 35 MiB, as documented for upload */
    GMAIL_MESSAGE_LABELS_MAX = 40,
    GMAIL_ID_LEN = 16,
};

#define GMAIL_ADDRESS "sam.rivera@example.com"

/* Kinds of records, and other objects of a route. */
enum gmail_kind {
    GMAIL_MESSAGE,
    GMAIL_THREAD, /* the id of its record is the thread's id with a leading "t" */
    GMAIL_LABEL,
    GMAIL_FILTER,
    GMAIL_SENDER,
    GMAIL_VACATION,
    GMAIL_KINDS,
    GMAIL_A_DRAFT = GMAIL_KINDS,
    GMAIL_BATCH, /* the mails that the body's ids name */
    GMAIL_NONE
};

/* The key that each kind's list has in a reply. */
extern const char *const gmail_kind_names[];

/* The fields that a search can name. Each text is prepared: lower case, every run of other bytes
 * replaced by one space, and a space at both ends. */
enum gmail_field {
    GMAIL_FROM,
    GMAIL_TO, /* To, Cc and Bcc, like Gmail's own to: */
    GMAIL_SUBJECT,
    GMAIL_FILENAME,
    GMAIL_ALL, /* all of these, and the text */
    GMAIL_FIELDS
};

/* Further data of a mail's record, in its arena. The record's JSON is a reply in full. */
struct gmail_mail {
    int64_t time_ms; /* internalDate */
    char history[SLICE_U64_MAX];
    slice raw, draft_id; /* draft_id: empty if the mail is not a draft */
    slice words[GMAIL_FIELDS];
    struct mime_part payload;
    bool has_attachment;
};

struct gmail {
    struct app app; /* order: mails, the newest first */
    struct provider *provider;
    struct shapes parts;            /* the members of the initial mails, in order */
    struct list kinds[GMAIL_KINDS]; /* order of the records of other kinds */
    uint64_t history_id;
    int64_t last_ms; /* time of the newest mail: a new mail is never older */
    unsigned numbers[GMAIL_KINDS];
};

/* ---- the mailbox (gmail_store.c) ---- */

struct gmail *gmail_new(struct provider *provider);
void gmail_free(struct gmail *gmail);
void gmail_seed(struct gmail *gmail, int64_t now_us);
/* Adds a record of any kind but a mail. */
struct record *gmail_add(struct gmail *gmail, enum gmail_kind kind, slice id,
                         const struct json *json);

struct gmail_new {
    slice id; /* SLICE_NONE: a new id */
    slice raw, draft_id;
    int64_t time_ms;
    struct record *thread; /* NULL: the thread that References gives, otherwise a new thread */
    struct json labels;    /* ids of the labels */
    bool is_made;
};
/* Inserts a mail. Returns NULL and sets *err on failure (ERR_SYNTAX if the mail cannot be
 * parsed). */
struct record *gmail_insert(struct gmail *gmail, const struct gmail_new *mail,
                            struct err *err) MUST_CHECK;
/* Lets a mail arrive now, for POST /__control/mail. */
struct record *gmail_receive(struct gmail *gmail, const struct json *mail, int64_t now_us,
                             struct arena *arena, struct err *err) MUST_CHECK;
void gmail_delete(struct gmail *gmail, struct record *mail);
/* Finds a record; shorter and upper-case forms of ids are accepted. Returns NULL if there is no
 * such record. */
struct record *gmail_find(const struct gmail *gmail, enum gmail_kind kind, slice id);
struct record *gmail_label_named(const struct gmail *gmail, slice name);
bool gmail_has(const struct record *mail, slice label);
/* Adds or removes a label if that changes the mail, which then gets a new historyId. */
void gmail_label_set(struct gmail *gmail, struct record *mail, slice label, bool is_on);

static inline struct gmail_mail *gmail_mail(const struct record *mail)
{
    return mail->more;
}

/* ---- search (gmail_search.c) ---- */

/* Returns whether the search `q` finds the mail. Any text is a valid search. Mails in the trash or
 * in spam are only found if the text asks for that, or with shows_hidden. */
bool gmail_matches(const struct gmail *gmail, const struct record *mail, slice q, int64_t now_us,
                   bool shows_hidden);
/* Prepares text as in gmail_mail.words. */
slice gmail_words_of(struct arena *arena, slice text);

/* ---- requests (gmail_api.c) ---- */

void gmail_handle(struct call *call);
/* {id, threadId, labelIds} */
struct json gmail_brief(struct arena *arena, const struct record *mail);

#endif
