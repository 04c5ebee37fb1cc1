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

/* impact: the part of BM25F that does not depend on the query, above 0 and below 1. */
struct search_posting {
    uint32_t doc : 26;
    uint32_t is_in_id : 1, is_in_title : 1, is_about : 1, /* its app or a tag */
        is_in_app : 1;                /* names the document's integration, and hardly any other */
    uint32_t is_one : 1, is_many : 1; /* the form in id or title: "message", "messages" */
    float impact;
};

struct search_link {
    uint32_t term;
    float weight;
    uint32_t use; /* AS_VERB, AS_NOUN: only for a word used that way; 0: for any */
};

enum { SEARCH_NO_TERM = UINT32_MAX };

struct search_term {
    struct buf_span stem;
    uint32_t posting_first, posting_count;
    uint32_t link_first, link_count;
    float docs;           /* number of documents that have it, as if all integrations had the same
                           * size: a large integration must not make the words of others common, nor
                           * its own name */
    uint32_t implied;     /* the term that it implies as a query's first word; or SEARCH_NO_TERM */
    uint32_t is_app_name; /* an integration's name */
    uint32_t is_verb;     /* an action's id begins with it */
    uint32_t phrase_first, phrase_count; /* phrases that begin with it */
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

/* A word with one byte left out, as a hash of the remaining bytes: two words that are one typing
 * mistake apart share such a remainder (the symmetric deletes of W. Garbe's SymSpell). */
struct search_remainder {
    uint32_t hash, word; /* index into words */
};

struct search_doc {
    uint32_t integration;
    uint32_t action; /* its index in the integration; SEARCH_NO_ACTION: the integration itself */
    uint32_t verb;   /* the term that the action's id begins with; or SEARCH_NO_TERM */
    uint16_t id_word_count, title_word_count;
    struct buf_span id, tool_name; /* both are the id if it is an integration */
    uint32_t is_read;              /* the action changes nothing */
};

enum { SEARCH_NO_ACTION = UINT32_MAX };

struct sb_stemmer;

struct search_index {
    struct sb_stemmer *stemmer;      /* NULL until the first search */
    const char *texts;               /* the texts that spans refer to */
    const struct search_word *words; /* sorted; each matches a term or has a class */
    const struct search_term *terms; /* sorted by stem */
    const struct search_posting *postings;
    const struct search_link *links;
    const struct search_phrase *phrases; /* sorted by their first words' stems, then by text */
    const struct search_remainder *remainders;
    const uint32_t *bucket_starts; /* bucket_count + 1, into remainders */
    const struct search_doc *docs; /* an integration, then its actions, as the catalog sorts them */
    size_t word_count, term_count, posting_count, link_count, phrase_count, remainder_count,
        bucket_count, doc_count;
};

/* Appends the tables to the arena, and texts to `texts`. Documents are numbered in the given
 * order: an integration, then its actions. ERR_NOMEM. */
int search_index_build(const struct search_integration *integrations, size_t count,
                       struct arena *arena, struct buf *texts,
                       struct search_index *index) MUST_CHECK;
/* Creates the stemmer at the first search, since it cannot be part of a pack. ERR_NOMEM. */
int search_index_prepare(struct search_index *index) MUST_CHECK;
/* Frees what searches have allocated. Accepts NULL. */
void search_index_close(struct search_index *index);

#endif
