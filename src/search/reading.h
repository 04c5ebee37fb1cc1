/*
 * Tokenizing, English stemming and word lists, and parsing and expanding of queries. Private to
 * search/.
 */
#ifndef SEARCH_READING_H
#define SEARCH_READING_H

#include "search/index.h"

enum {
    SEARCH_WORD_BYTES_MAX = 32,   /* longer words are neither indexed nor found */
    SEARCH_FIELD_WORDS_MAX = 400, /* per field; further words are not indexed */
    SEARCH_TYPO_BYTES_MIN = 4,    /* shorter words are never corrected */
    SEARCH_TYPO_BYTES_MAX = 24,
};

/* A word that matches another has one of two weights: SEARCH_CLOSE if one may be written for the
 * other (a synonym, a plural, a typing mistake), SEARCH_HALF if it is only related. */
#define SEARCH_CLOSE 0.8f
#define SEARCH_HALF  0.5f

/* The fields, in the order of search_fields in index.c. */
enum search_field {
    FIELD_ID,
    FIELD_TITLE,
    FIELD_TAGS,
    FIELD_DESCRIPTION,
    FIELD_INTEGRATION, /* id and name of the integration */
    FIELD_DOMAIN,      /* category and tags of the integration */
    FIELD_INPUTS,      /* names of input fields; for an integration: its actions' ids */
    SEARCH_FIELD_COUNT,
};

/* ---- finding a word (expand.c) ---- */

/* Finds a word, which is in lower case. Returns NULL if no document, synonym or class has exactly
 * this word. */
const struct search_word *search_index_word(const struct search_index *index, slice word);
/* Finds the term of a word by the word or its stem. Returns NULL if no document or synonym has
 * it. */
const struct search_term *search_index_find(const struct search_index *index, slice word);

/* Whether any document or synonym has the term. */
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
    slice source;                     /* as it is in the text */
};

/* Reads the next word of *text, and advances *text past it. Returns false at the end. A word
 * consists of letters, digits and all bytes above 127; with splits_humps "threadId" is two. */
bool search_text_next(slice *text, bool splits_humps, struct search_token *token);
/* Whether the word's ending is that of a plural: "messages". */
bool search_text_is_plural(slice word);
/* Stems English words in ASCII; returns others unchanged. The result is borrowed until the next
 * call. */
slice search_text_stem(struct sb_stemmer *stemmer, slice word);
/* Hashes a word without the byte at index `skip`, or the whole word if skip is SIZE_MAX. */
uint32_t search_text_hash(slice word, size_t skip);
/* Whether one insertion, deletion, substitution or exchange of neighbours turns one into the
 * other. */
bool search_text_is_one_typo(slice a, slice b);

/* ---- English word lists (words.txt, idioms.txt) ---- */

/* The functions that a word may have in a sentence. */
enum search_class_flag {
    WORD_STOP = 1,        /* does not say what is wanted: "the", "my" */
    WORD_PREPOSITION = 2, /* the following words say where, or with what */
    WORD_DETERMINER = 4,  /* a thing follows */
    WORD_SUBJECT = 8,     /* a clause that begins with it is a statement */
    WORD_QUESTION = 16,   /* a clause that begins with it is a question */
    WORD_SAYS = 32,       /* a verb followed by a listener and the payload */
    WORD_ASKS = 64,      /* a verb followed by a person and "to" with the payload: "remind me to" */
    WORD_THANKS = 128,   /* as WORD_ASKS, but its payload begins with "for" */
    WORD_OPENS = 256,    /* payload follows: "that", "about" */
    WORD_RELATIVE = 512, /* after a thing it begins a description: "the mail where" */
    WORD_NAMES = 1024,   /* a name follows: "called" */
    WORD_TIME = 2048,    /* a time or a number */
    WORD_TELLER = 4096,  /* after a thing it begins a description: "the mail she sent" */
    WORD_GENERIC = 8192, /* does not identify an app in its name: "API" */
    /* names a place where things are kept; like an app's name, never an aside */
    WORD_LOCATION = 16384,
    WORD_FINDS = 32768, /* a document or a synonym has it; set when the index is built */
    /* something that a person sends: the app from which it comes is not where it is kept */
    WORD_LETTER = 65536,
    WORD_INDEFINITE = 131072, /* a thing follows that may not exist yet */
    WORD_CHANNEL = 262144,    /* a means of sending: an action without this word does not fit */
    WORD_READS = 524288,      /* as a query's first word it does not ask for a change */
    WORD_WISH = 1048576,      /* may say that something should be so (wish.c) */
};

struct search_class {
    const char *words;
    uint32_t flags;
};

extern const struct search_class search_classes[];
extern const size_t search_classes_count;

/* If finds is NULL, every word of `words` matches every other. Otherwise a word of `words` in a
 * query matches the words of `finds`, but not the reverse. */
struct search_synonyms {
    const char *words, *finds;
    unsigned how; /* SAME or NEAR; AS_VERB or AS_NOUN if only for this use of the word */
};

enum {
    SAME = 0, /* either word may be used for the other */
    NEAR = 1, /* an action often does under one word what a query calls by the other */
    AS_VERB = 2,
    AS_NOUN = 4,
};

extern const struct search_synonyms search_synonyms[];
extern const size_t search_synonyms_count;
/* If a query begins with one of `words`, the word is used as a verb, and the query also asks for
 * `means`. */
struct search_implied {
    const char *words, *means;
};

extern const struct search_implied search_implied[];
extern const size_t search_implied_count;
/* Phrases, separated by " / ", and the meaning of each. */
struct search_idiom {
    const char *phrases, *means;
    uint32_t classes; /* classes of the phrase as a word; after WORD_OPENS payload follows */
};

extern const struct search_idiom search_idioms[];
extern const size_t search_idioms_count;

enum { SEARCH_GAP_WORDS_MAX = 5 };

/* ---- parsing a query (parts.c, query.c) ---- */

enum search_role {
    ROLE_NONE,    /* has no meaning, or is part of something else */
    ROLE_PAYLOAD, /* text that is passed on, or a time: only breaks ties */
    ROLE_ASIDE,   /* where, with what, and other parts of the query */
    ROLE_CORE,    /* what to do, to what */
};

struct search_part {
    struct search_token token;
    uint32_t classes;
    const struct search_term *term; /* the term of the word or of its stem; NULL if there is none */
    /* words with the meaning of a phrase that begins with this part; or empty */
    slice means;
    enum search_role role;
    bool is_known;      /* a document or synonym has it, or it begins a phrase */
    bool is_taken;      /* belongs to a phrase that began earlier */
    bool is_recipient;  /* a person inside such a phrase: "let the team know" */
    bool is_content;    /* meaningful and not payload */
    bool is_sender;     /* an app that sent something: "the mails from Jira" */
    bool is_command;    /* the first meaningful word of its clause */
    bool is_container;  /* a container in which something is done: "a row to the sheet" */
    bool is_name;       /* a name or a recipient, which no catalog contains */
    bool begins_clause; /* the first word of the query, or the first after , ; . : ! ? */
    bool ends_sentence; /* . ! ? come before it */
    bool follows_colon;
    bool is_capital, is_quoted;
    unsigned use; /* AS_VERB, AS_NOUN; 0: either */
};

struct search_reading {
    char text[SEARCH_QUERY_BYTES_MAX]; /* the text into which the tokens' sources point */
    size_t text_len;                   /* its bytes may be NUL */
    struct search_part parts[SEARCH_QUERY_WORDS_MAX];
    size_t count;
    bool is_question;
};

/* Splits the text, up to SEARCH_QUERY_BYTES_MAX, into at most SEARCH_QUERY_WORDS_MAX parts. Sets
 * the members about the text before each part, but no roles. */
void search_parts_cut(const struct search_index *index, slice text, struct search_reading *out);
/* Returns the text of these parts, without blanks at its ends. It is in the reading. */
slice search_parts_text(const struct search_reading *r, size_t first, size_t end);
/* Parses a query: splits it into parts, and assigns each part its role. */
void search_query_read(const struct search_index *index, slice text, struct search_reading *out);

/* Whether the part is one of these words, which are separated by single blanks, and not quoted. */
bool search_part_is_any(const struct search_part *part, const char *words);

/* Whether an action's id begins with the word, or with a synonym of it (split.c). */
bool search_may_be_verb(const struct search_index *index, const struct search_part *part);
/* Whether one of the parts is a plural, up to the first preposition (split.c). */
bool search_has_plural(const struct search_reading *r, size_t first, size_t end);
/* Returns the words for reading the thing of these parts if it is written in a mail, or attached to
 * one: "the address from the mail", "the photo that Anna emailed"; otherwise NULL (split.c). */
const char *search_mail_reading(const struct search_reading *r, size_t first, size_t end);
/* If the words name a container, or what a person said, returns the words for reading it: "list
 * events calendar" for "the dates in my calendar"; otherwise NULL. Sets *rest to where the other
 * words begin (transfer.c). */
const char *search_contents_of(const struct search_reading *r, size_t first, size_t end,
                               size_t *rest);
/* Returns how the container that these words begin with gets new contents: "create event" for "my
 * calendar"; NULL if it is none (split.c). */
const char *search_adding_verb(const struct search_reading *r, size_t first, size_t end);
/* Returns the end of the clause of the part at `first`, at most `stop` (wish.c). */
size_t search_clause_end(const struct search_reading *r, size_t first, size_t stop);
/* Rewords parts that say what should be so as a command (wish.c). Returns SLICE_NONE if they do
 * not, or if out of memory. */
slice search_reword_wish(const struct search_index *index, struct arena *arena,
                         const struct search_reading *r, size_t begin, size_t stop);
/* Whether a sentence begins at the part, or a clause about what was asked for before, that says
 * what should be so: "they should be informed", "I want that number in Slack" (wish.c). */
bool search_begins_wish(const struct search_index *index, const struct search_reading *r,
                        size_t at);
/* Puts commands before their objects: "the colleagues inform" is "inform the colleagues". Returns
 * SLICE_NONE if none follows its object, or if out of memory. */
slice search_reword_order(const struct search_index *index, struct arena *arena,
                          const struct search_reading *r);
/* Splits one clause that needs two apps into what is done and what is read for it (transfer.c).
 * Returns OK or ERR_NOMEM. */
int search_split_transfer(struct search_index *index, struct arena *arena,
                          const struct search_reading *r, slice things[2],
                          bool *is_split) MUST_CHECK;

/* ---- expanding (expand.c) ---- */

enum { SEARCH_EXPANSIONS_MAX = 24 };

/* The terms that match one word of a query. */
struct search_expansion {
    struct {
        const struct search_term *term;
        float weight;
    } terms[SEARCH_EXPANSIONS_MAX];
    size_t count;
};

/* Adds the term itself and its synonyms. use is how the word is used (AS_VERB, AS_NOUN), or 0. */
void search_expand_term(const struct search_index *index, const struct search_term *term,
                        float weight, unsigned use, struct search_expansion *out);
/* Adds the terms of words with this prefix. */
void search_expand_prefix(const struct search_index *index, slice word, float weight,
                          struct search_expansion *out);
void search_expand_typo(const struct search_index *index, slice word, struct search_expansion *out);

#endif
