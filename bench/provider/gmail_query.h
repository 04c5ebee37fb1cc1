/*
 * The tree that a search is compiled to. Private to gmail_search.c and gmail_match.c.
 */
#ifndef PROVIDER_GMAIL_QUERY_H
#define PROVIDER_GMAIL_QUERY_H

#include "provider/gmail.h"

enum gmail_query_kind {
    GMAIL_QUERY_ALL,  /* every message */
    GMAIL_QUERY_NONE, /* no message */
    GMAIL_QUERY_ALL_OF,
    GMAIL_QUERY_ANY_OF,
    GMAIL_QUERY_NOT,
    GMAIL_QUERY_WORDS,
    GMAIL_QUERY_LABEL,
    GMAIL_QUERY_ATTACHMENT,
    GMAIL_QUERY_USER_LABELS,
    GMAIL_QUERY_SINCE, /* time_ms >= number */
    GMAIL_QUERY_UNTIL, /* time_ms < number */
    GMAIL_QUERY_LARGER,
    GMAIL_QUERY_SMALLER,
    GMAIL_QUERY_MESSAGE_ID,
};

enum gmail_field {
    GMAIL_FIELD_ALL,
    GMAIL_FIELD_FROM,
    GMAIL_FIELD_TO, /* To, Cc and Bcc, as Gmail's own to: */
    GMAIL_FIELD_CC,
    GMAIL_FIELD_BCC,
    GMAIL_FIELD_SUBJECT,
    GMAIL_FIELD_FILENAME,
};

struct gmail_query {
    enum gmail_query_kind kind;
    enum gmail_field field;
    bool is_or_chain;  /* made by OR: a further OR joins it */
    bool wants_hidden; /* of the root */
    slice words;
    int64_t number;
    const struct gmail_label *label;
    struct gmail_query *first, *next; /* children, sibling */
};

#endif
