/*
 * Words: how they are cut, what is known of English, how a query is read and widened. Private to
 * the room.
 */
#ifndef SEARCH_READING_H
#define SEARCH_READING_H

#include "search/index.h"

enum {
    SEARCH_WORD_BYTES_MAX = 32,   /* a longer word is not entered and finds nothing */
    SEARCH_FIELD_WORDS_MAX = 400, /* of one field; further ones are not entered */
    SEARCH_TYPO_BYTES_MIN = 4,    /* shorter words are taken as they are */
    SEARCH_TYPO_BYTES_MAX = 24,
};

/* What counts for something else has one of two weights: where one might be written for the other
 * (a synonym, a plural, a typing mistake), and where it is only likely. */
#define SEARCH_CLOSE 0.8f
#define SEARCH_HALF  0.5f

/* In the order of search_fields in index.c. */
enum search_field {
    FIELD_ID,
    FIELD_TITLE,
    FIELD_TAGS,
    FIELD_DESCRIPTION,
    FIELD_INTEGRATION, /* its id and name */
    FIELD_DOMAIN,      /* its category and tags */
    FIELD_INPUTS,      /* names of input fields; of an integration: its actions' ids */
    SEARCH_FIELD_COUNT,
};

/* ---- finding a word (expand.c) ---- */

/* NULL when no document, no synonym and no class has this very word. word is lower case. */
const struct search_word *search_index_word(const struct search_index *index, slice word);
/* By its stem, too: NULL when no document and no synonym has it. */
const struct search_term *search_index_find(const struct search_index *index, slice word);

/* Whether a document or a synonym has it. */
static inline bool search_term_finds(const struct search_term *term)
{
    return term && (term->posting_count > 0 || term->link_count > 0);
}

static inline slice search_index_text(const struct search_index *index, struct buf_span text)
{
    return slice_of(index->texts + text.at, text.len);
}

/* ---- text (text.c) ---- */

struct search_token {
    char text[SEARCH_WORD_BYTES_MAX]; /* lower case */
    size_t len;                       /* 0: longer than that */
    slice source;                     /* as it stands in the text */
};

/* The next word of *text, which is moved behind it; false at the end. A word is letters, digits and
 * all bytes above 127; with splits_humps "threadId" is two. */
bool search_text_next(slice *text, bool splits_humps, struct search_token *token);
/* "messages", by its ending. */
bool search_text_is_plural(slice word);
/* English, ASCII words only, others as they are. Borrowed until the next call. */
slice search_text_stem(struct sb_stemmer *stemmer, slice word);
/* hash of a word without its byte `skip` (SIZE_MAX: of the whole) */
uint32_t search_text_hash(slice word, size_t skip);
/* Whether one insertion, deletion, substitution or exchange of neighbours makes one the other. */
bool search_text_is_one_typo(slice a, slice b);

/* ---- what is known of English (words.txt, idioms.txt) ---- */

/* What part a word plays in a sentence. */
enum search_class_flag {
    WORD_STOP = 1,         /* says nothing of what is wanted: "the", "my" */
    WORD_PREPOSITION = 2,  /* what follows says where, or with what */
    WORD_DETERMINER = 4,   /* a thing follows */
    WORD_SUBJECT = 8,      /* a clause that begins so says how things are */
    WORD_QUESTION = 16,    /* a clause that begins so asks */
    WORD_SAYS = 32,        /* a verb with a listener, and what is said */
    WORD_ASKS = 64,        /* a verb that a person follows, and "to" what is said: "remind me to" */
    WORD_THANKS = 128,     /* of these: "for" opens it */
    WORD_OPENS = 256,      /* what is said follows: "that", "about" */
    WORD_RELATIVE = 512,   /* behind a thing, what is known of it follows: "the mail where" */
    WORD_NAMES = 1024,     /* a name follows: "called" */
    WORD_TIME = 2048,      /* a time or a number */
    WORD_TELLER = 4096,    /* behind a thing, what is known of it follows: "the mail she sent" */
    WORD_GENERIC = 8192,   /* in an app's name it names no app: "API" */
    WORD_LOCATION = 16384, /* where something is kept: as an app's name, never an aside */
    WORD_FINDS = 32768,    /* a document or a synonym has it; set when the index is built */
    WORD_LETTER = 65536,   /* a person sends it: an app that it comes from is not where it is */
    WORD_INDEFINITE = 131072, /* a thing follows that there may not be yet */
    WORD_CHANNEL = 262144,    /* by what it is said: what lacks this word does something else */
};

struct search_class {
    const char *words;
    uint32_t flags;
};

extern const struct search_class search_classes[];
extern const size_t search_classes_count;

/* finds NULL: every word of `words` finds every other. Else a word of `words` in a query finds
 * those of `finds`, and not the other way round. */
struct search_synonyms {
    const char *words, *finds;
    unsigned how; /* SAME or NEAR, and with what use of the word only */
};

enum {
    SAME = 0, /* one may be said for the other */
    NEAR = 1, /* what is said with one is often done by the other */
    AS_VERB = 2,
    AS_NOUN = 4,
};

extern const struct search_synonyms search_synonyms[];
extern const size_t search_synonyms_count;
/* A query that begins with one of `words` uses it as a verb, and wants `means` too. */
struct search_implied {
    const char *words, *means;
};

extern const struct search_implied search_implied[];
extern const size_t search_implied_count;
/* Phrases, with " / " between two, and what stands for each. */
struct search_idiom {
    const char *phrases, *means;
    uint32_t classes; /* as a word; with WORD_OPENS what is said follows the phrase */
};

extern const struct search_idiom search_idioms[];
extern const size_t search_idioms_count;

enum { SEARCH_GAP_WORDS_MAX = 5 };

/* ---- reading a query (parts.c, query.c) ---- */

enum search_role {
    ROLE_NONE,    /* says nothing, or is a part of something else */
    ROLE_PAYLOAD, /* what is reported, a time: it decides among equals only */
    ROLE_ASIDE,   /* where, with what, and what else the query says */
    ROLE_CORE,    /* what to do, to what */
};

struct search_part {
    struct search_token token;
    uint32_t classes;
    const struct search_term *term; /* of the word or its stem; NULL */
    slice means;                    /* words that stand for it, a phrase begins here; or empty */
    enum search_role role;
    bool is_known;      /* something has it, or it begins a phrase */
    bool is_taken;      /* by a phrase that began before */
    bool is_recipient;  /* a person inside such a phrase: "let the team know" */
    bool is_content;    /* says something outside of payload */
    bool is_sender;     /* an app that something was sent by: "the mails from Jira" */
    bool is_command;    /* the first word of its clause that says something */
    bool is_container;  /* something is done inside of it: "a row to the sheet" */
    bool is_name;       /* nothing that the catalog could know: a name, whom it is said to */
    bool begins_clause; /* the first word, or the first behind , ; . : ! ? */
    bool ends_sentence; /* . ! ? stand before it */
    bool follows_colon;
    bool is_capital, is_quoted;
    unsigned use; /* AS_VERB, AS_NOUN; 0: either */
};

struct search_reading {
    char text[SEARCH_QUERY_BYTES_MAX]; /* what the tokens' sources lie in */
    struct search_part parts[SEARCH_QUERY_WORDS_MAX];
    size_t count;
    bool is_question;
};

/* Cuts the text, up to SEARCH_QUERY_BYTES_MAX, into at most SEARCH_QUERY_WORDS_MAX parts, of which
 * is known what stands before each, and no role. */
void search_parts_cut(const struct search_index *index, slice text, struct search_reading *out);
/* The same, and says what part each plays. */
void search_query_read(const struct search_index *index, slice text, struct search_reading *out);

/* ---- widening (expand.c) ---- */

enum { SEARCH_EXPANSIONS_MAX = 24 };

/* The terms that stand for one word of a query. */
struct search_expansion {
    struct {
        const struct search_term *term;
        float weight;
    } terms[SEARCH_EXPANSIONS_MAX];
    size_t count;
};

/* The term itself with its synonyms. use: of the word (AS_VERB, AS_NOUN), or 0. */
void search_expand_term(const struct search_index *index, const struct search_term *term,
                        float weight, unsigned use, struct search_expansion *out);
/* Words that begin like this one, and with may_mistype those that are one mistake away. */
void search_expand_prefix(const struct search_index *index, slice word, float weight,
                          struct search_expansion *out);
void search_expand_typo(const struct search_index *index, slice word, struct search_expansion *out);

#endif
