/*
 * The inverted index. Private to the catalog room.
 *
 * A document is an integration or an action. A word is what somebody wrote, a term is its stem; a
 * term has postings (the documents it is in, ascending) and links (the terms that mean the same).
 * All of it are tables that name one another by number, so that it is read where it lies in a pack
 * (pack.h).
 */
#ifndef CATALOG_SEARCH_INDEX_H
#define CATALOG_SEARCH_INDEX_H

#include "catalog/pack.h"

enum {
    SEARCH_WORD_BYTES_MAX = 32,   /* a longer word is not entered and finds nothing */
    SEARCH_FIELD_WORDS_MAX = 400, /* of one field; further ones are not entered */
    SEARCH_TYPO_BYTES_MIN = 4,    /* shorter words are taken as they are */
    SEARCH_TYPO_BYTES_MAX = 24,
    SEARCH_DOC_MAX = (1 << 27) - 1,
};

/* In the order of search_fields in search_index.c. */
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

/* impact: the part of BM25F that does not depend on the query, above 0 and below 1. */
struct search_posting {
    uint32_t doc : 27;
    uint32_t is_in_id : 1, is_in_title : 1,
        is_in_app : 1;                /* its integration, and hardly anything else, is called so */
    uint32_t is_one : 1, is_many : 1; /* in id or title as "message", as "messages" */
    float impact;
};

struct search_link {
    uint32_t term;
    float weight;
};

enum { SEARCH_NO_TERM = UINT32_MAX };

struct search_term {
    struct pack_text stem;
    uint32_t posting_first, posting_count;
    uint32_t link_first, link_count;
    float docs; /* that have it, were all integrations of one size: a large one must not make the
                   words of the others common, nor its own name */
    uint32_t implied;     /* what it asks for as a query's first word; or SEARCH_NO_TERM */
    uint32_t is_app_name; /* an integration is called so */
};

struct search_word {
    struct pack_text text;
    uint32_t term;
};

/* A word with one byte left out, by the hash of what remains: two words that are one typing mistake
 * apart have such a remainder in common (the symmetric deletes of W. Garbe's SymSpell). */
struct search_remainder {
    uint32_t hash, word; /* index into words */
};

struct search_doc {
    uint32_t integration;
    uint32_t action; /* of the integration; SEARCH_NO_ACTION: the integration itself */
    uint16_t id_word_count, title_word_count;
};

enum { SEARCH_NO_ACTION = UINT32_MAX };

struct sb_stemmer;

struct search_index {
    struct sb_stemmer *stemmer;      /* NULL until the first search */
    const char *texts;               /* what pack_text names */
    const struct search_word *words; /* sorted; each has a posting or a link */
    const struct search_term *terms; /* sorted by stem */
    const struct search_posting *postings;
    const struct search_link *links;
    const struct search_remainder *remainders;
    const uint32_t *bucket_starts; /* bucket_count + 1, into remainders */
    const struct search_doc *docs; /* an integration, then its actions, as the catalog sorts them */
    size_t word_count, term_count, posting_count, link_count, remainder_count, bucket_count,
        doc_count;
};

/* The tables, into the arena; texts are appended. ERR_NOMEM. */
int search_index_build(const struct manifest_set *set, struct arena *arena, struct buf *texts,
                       struct search_index *index) MUST_CHECK;
/* NULL when no document and no synonym has this very word. word is lower case. */
const struct search_word *search_index_word(const struct search_index *index, slice word);
/* By its stem, too: NULL when no document and no synonym has it. */
const struct search_term *search_index_find(const struct search_index *index, slice word);

static inline slice search_index_text(const struct search_index *index, struct pack_text text)
{
    return slice_of(index->texts + text.at, text.len);
}

/* ---- text (search_text.c) ---- */

struct search_token {
    char text[SEARCH_WORD_BYTES_MAX]; /* lower case */
    size_t len;                       /* 0: longer than that */
    slice source;                     /* as it stands in the text */
};

/* The next word of *text, which is moved behind it; false at the end. A word is letters, digits and
 * all bytes above 127; with splits_humps "threadId" is two. */
bool search_text_next(slice *text, bool splits_humps, struct search_token *token);
/* A word that says nothing of what is wanted: "the", "my". */
bool search_text_is_stop_word(slice word);
/* "to", "in": what follows says where. */
bool search_text_is_preposition(slice word);
/* "messages", by its looks. */
bool search_text_is_plural(slice word);
/* "who", "what": a query that begins so asks. */
bool search_text_is_question(slice word);
/* English, ASCII words only, others as they are. Borrowed until the next call. */
slice search_text_stem(struct sb_stemmer *stemmer, slice word);
/* hash of a word without its byte `skip` (SIZE_MAX: of the whole) */
uint32_t search_text_hash(slice word, size_t skip);
/* Whether one insertion, deletion, substitution or exchange of neighbours makes one the other. */
bool search_text_is_one_typo(slice a, slice b);

/* ---- what is known of English (search_words.c) ---- */

/* alike: every word of `words` finds every other. Else a word of `words` in a query finds those of
 * `finds`, and not the other way round. */
struct search_synonyms {
    const char *words, *finds; /* finds NULL: alike */
    float weight;              /* of what is found, the word itself having 1 */
};

extern const struct search_synonyms search_synonyms[];
extern const size_t search_synonyms_count;
/* A query that begins with one of `words` uses it as a verb, and wants `means` too. */
struct search_implied {
    const char *words, *means;
};

extern const struct search_implied search_implied[];
extern const size_t search_implied_count;
/* Each list is sorted. */
extern const char *const search_stop_words[], *const search_prepositions[],
                                                  *const search_questions[];
extern const size_t search_stop_word_count, search_preposition_count, search_question_count;

/* ---- widening (search_expand.c) ---- */

enum { SEARCH_EXPANSIONS_MAX = 24 };

/* The terms that stand for one word of a query. */
struct search_expansion {
    struct {
        const struct search_term *term;
        float weight;
    } terms[SEARCH_EXPANSIONS_MAX];
    size_t count;
};

/* The term itself with its synonyms. */
void search_expand_term(const struct search_index *index, const struct search_term *term,
                        float weight, struct search_expansion *out);
/* Words that begin like this one, and with may_mistype those that are one mistake away. */
void search_expand_prefix(const struct search_index *index, slice word, float weight,
                          struct search_expansion *out);
void search_expand_typo(const struct search_index *index, slice word, struct search_expansion *out);

#endif
