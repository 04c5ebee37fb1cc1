/*
 * list: the common part of lists in every face: their arguments, and where a page of an account's
 * rows (by id, newest first) begins and ends.
 *
 * A page is read in scans. The first scan covers recent rows, which is enough for most pages: the
 * database opens each day's partition of a range, and the partitions of a month take longer than a
 * page of rows. A scan reads STORE_PAGE_ROWS rows at most, so with a narrow filter a page may have
 * fewer rows than its limit, and the next page continues.
 */
#ifndef SERVE_LIST_H
#define SERVE_LIST_H

#include "store/store.h"
#include "vault/seal.h"

enum { SERVE_FILTERS_MAX = 12, SERVE_RECENT_MS = 2 * 24 * 60 * 60 * 1000 };

#define SERVE_WORD_WANTED "a word of at most 200 characters"
#define SERVE_A_WORD      .kind = SERVE_WORD, .wanted = SERVE_WORD_WANTED
/* Whether a value is one, or absent; other values must not reach the database. */
bool serve_is_word(slice value);
#define SERVE_A_SINCE                                                                    \
    .kind = SERVE_SINCE,                                                                 \
    .wanted = "a time such as 2026-01-31T09:00:00Z, a date, or an age such as 90m, 24h " \
              "or 7d",                                                                   \
    .is_quoted = true
#define SERVE_A_UNTIL                                                                   \
    .kind = SERVE_UNTIL,                                                                \
    .wanted = "a time such as 2026-01-31T09:00:00Z, a date (the whole day), or an age " \
              "such as 90m, 24h or 7d",                                                 \
    .is_quoted = true
#define SERVE_A_SEARCH                                                                       \
    .kind = SERVE_SEARCH,                                                                    \
    .wanted = "1 to 16 words, or an id, with letters or digits, on one line of at most 200 " \
              "bytes",                                                                       \
    .is_quoted = true

/* An argument. An argument without a name ends a table of arguments. */
struct serve_filter {
    const char *name;
    enum {
        SERVE_TEXT,   /* text that the database can store */
        SERVE_WORD,   /* the characters of ids and kinds */
        SERVE_ID,     /* a UUID */
        SERVE_SEARCH, /* words (vault/words.h); a UUID selects the row with that id */
        SERVE_UNTIL,  /* as SERVE_SINCE: newer rows are left out, those of a date not */
        SERVE_SINCE,  /* a time, a date (UTC) or an age: older rows are left out */
        SERVE_CURSOR  /* a row's UUID: the page begins after that row */
    } kind;
    const char *words;  /* allowed words, separated by spaces. The value is one of them, or the
                         * part of one before its point. NULL: any value of its type */
    const char *wanted; /* the requirement as worded in a refusal; NULL: one of the words */
    bool is_quoted;     /* the refusal quotes the value */
};

/* Zeroed before its first use. */
struct serve_list {
    slice values[SERVE_FILTERS_MAX]; /* values that the caller gave, in the table's order;
                                      * SLICE_NONE: absent */
    int choices[SERVE_FILTERS_MAX];  /* the index of the word; -1: absent */
    struct store_page page, scan;    /* the range still to be read, and the current scan */
    struct uuid id;                  /* the only row wanted; nil: any */
    struct store_page wide;          /* the range before it was limited to the wanted row */
    struct uuid until;               /* above all rows wanted; nil: no limit */
    struct uuid next;                /* the start of the next page; nil: none */
    size_t count;                    /* rows of this page */
    bool is_full;
    /* set by the caller after the arguments were read */
    size_t limit;        /* number of rows */
    unsigned scans_left; /* more than 0 */
    bool is_sieved;      /* the caller omits rows, so a scan must return more than are requested */
};

/* Checks the arguments in values. Returns the index of the first invalid argument; -1: none. */
int serve_list_read(struct serve_list *list, const struct serve_filter *filters) MUST_CHECK;
/* Returns a sentence such as "status must be ...", in the arena. The value is truncated and
 * escaped. */
slice serve_filter_refusal(const struct serve_filter *filter, slice value, struct arena *arena);

/* Returns what the argument `at`, a SERVE_SEARCH, asks the store for (vault_words_search);
 * SLICE_NONE if it is absent, or an id. */
slice serve_list_words(const struct serve_list *list, int at, const struct vault_ring *ring,
                       struct uuid account_id, struct arena *arena);

/* Likewise the words themselves (vault_words_patterns), for a list whose texts are in clear. If out
 * of memory, nothing is found. */
slice serve_list_plain(const struct serve_list *list, int at, struct arena *arena);

/* Limits the range of `page` to `until` and to the wanted row, for a list that is not read in
 * scans. */
void serve_list_narrow(struct serve_list *list);
/* Returns what to read next. */
const struct store_page *serve_list_scan(struct serve_list *list);
/* Whether the row with this id, in the scan's order, belongs to the page; after false, no further
 * row does. */
bool serve_list_take(struct serve_list *list, struct uuid id) MUST_CHECK;
/* To be called after the rows of a scan; end: the end that the store returned, nil if the scan was
 * read completely. Returns whether another scan follows; otherwise the page is complete, and
 * list->next is set. */
bool serve_list_continues(struct serve_list *list, struct uuid end) MUST_CHECK;

#endif
