/*
 * The inverted index.
 *
 * A document is an integration or an action. Documents and queries consist of words; a term is the
 * stem of a word. A term has postings (the documents that contain it, ascending) and links (the
 * terms that mean the same). Everything is in tables that refer to one another by number and to
 * texts by offset, so it is used in place in a catalog's pack (catalog/pack.h).
 */
#ifndef SEARCH_INDEX_H
#define SEARCH_INDEX_H

#include "base/buf.h"
#include "json/json.h"
#include "search/search.h"

enum { SEARCH_DOC_MAX = (1 << 26) - 1 };

/* ---- what is indexed; texts are borrowed for the call, spans refer to the index's texts ---- */

struct search_action {
    slice id, title, description;
    struct buf_span id_span, tool_name_span;
    const struct json *tags;   /* array of strings, or NULL */
    const struct json *inputs; /* object whose keys are names of inputs, or NULL */
    bool is_read;              /* changes nothing */
};

struct search_integration {
    slice id, name, category, description;
    struct buf_span id_span;
    const struct json *tags;             /* array of strings, or NULL */
    const struct search_action *actions; /* sorted by id */
    size_t action_count;
};

/* ---- the tables ---- */

/* impact is the part of BM25F that does not depend on the query; it is above 0 and below 1. */
struct search_posting {
    uint32_t doc : 26;
    /* is_about: the term is in the app or a tag */
    uint32_t is_in_id : 1, is_in_title : 1, is_about : 1,
        /* is_in_app: the term names the document's integration and hardly any other */
        is_in_app : 1;
    /* singular, plural in the id or title: "message", "messages" */
    uint32_t is_one : 1, is_many : 1;
    float impact;
};

struct search_link {
    uint32_t term;
    float weight;
    uint32_t use; /* AS_VERB or AS_NOUN: only for a word that is used so; 0: for any word */
};

enum { SEARCH_NO_TERM = UINT32_MAX };

struct search_term {
    struct buf_span stem;
    uint32_t posting_first, posting_count;
    uint32_t link_first, link_count;
    /* number of documents with the term, as if all integrations had the same size: a large
     * integration must make neither the words of others nor its own name common */
    float docs;
    /* the term that this term implies as a query's first word; or SEARCH_NO_TERM */
    uint32_t implied;
    uint32_t is_app_name;                /* an integration's name */
    uint32_t is_verb;                    /* an action's id begins with the term */
    uint32_t phrase_first, phrase_count; /* phrases that begin with the term */
};

struct search_word {
    struct buf_span text;
    uint32_t term;
    uint32_t classes; /* enum search_class_flag */
};

/* One of the phrases of search_idioms[idiom]. */
struct search_phrase {
    struct buf_span text;
    uint32_t idiom;
};

/* The hash of a word without one of its bytes. Two words that are one typing mistake apart have
 * such a remainder in common (symmetric deletes, as in W. Garbe's SymSpell). */
struct search_remainder {
    uint32_t hash, word; /* index into words */
};

struct search_doc {
    uint32_t integration;
    /* index of the action in the integration; SEARCH_NO_ACTION: the document is the integration
     * itself */
    uint32_t action;
    uint32_t verb; /* the term that the action's id begins with; or SEARCH_NO_TERM */
    uint16_t id_word_count, title_word_count;
    struct buf_span id, tool_name; /* for an integration, both are its id */
    uint32_t is_read;              /* the action changes nothing */
};

enum { SEARCH_NO_ACTION = UINT32_MAX };

struct sb_stemmer;

struct search_index {
    struct sb_stemmer *stemmer;      /* NULL until the first search */
    const char *texts;               /* the texts that spans refer to */
    const struct search_word *words; /* sorted; each word has a term or a class */
    const struct search_term *terms; /* sorted by stem */
    const struct search_posting *postings;
    const struct search_link *links;
    const struct search_phrase *phrases; /* sorted by their first words' stems, then by text */
    const struct search_remainder *remainders;
    const uint32_t *bucket_starts; /* bucket_count + 1 indices into remainders */
    const struct search_doc *docs; /* an integration, then its actions, as the catalog sorts them */
    size_t word_count, term_count, posting_count, link_count, phrase_count, remainder_count,
        bucket_count, doc_count;
};

/* Appends the tables to the arena, and texts to `texts`. Documents are numbered in the given order:
 * an integration, then its actions. Returns OK or ERR_NOMEM. */
int search_index_build(const struct search_integration *integrations, size_t count,
                       struct arena *arena, struct buf *texts,
                       struct search_index *index) MUST_CHECK;
/* Creates the stemmer at the first search, since it cannot be part of a pack. Returns OK or
 * ERR_NOMEM. */
int search_index_prepare(struct search_index *index) MUST_CHECK;
/* Frees what searches have allocated. Accepts NULL. */
void search_index_close(struct search_index *index);

#endif
