/*
 * In-memory search over what apps can do: an agent describes what it wants, in words or in a
 * sentence, and the search finds actions for it.
 *
 * An inverted index (index.h) is made once and never changes. A query is parsed first (query.c):
 * phrases are replaced by their meaning, the clause that asks for something is found, and payload
 * (quotes, text after "that" or "about", names, numbers, times) hardly counts. Its words are
 * stemmed and expanded by synonyms; a word that no document has is expanded by its prefix and by
 * one typing mistake. Documents are ranked by BM25F (Robertson, Zaragoza: The Probabilistic
 * Relevance Framework, 3.6) over id, title, tags, description, integration and input names. The
 * weight of every word, known or unknown, has a limit, so that a name or a rare word does not
 * decide the result. There is no minimum score: a document with any word of the query is found.
 * Relevance is high if a document matches half of the request and belongs to the requested app or
 * channel (SMS, mail).
 *
 * Not thread-safe: the stemmer has state.
 */
#ifndef SEARCH_SEARCH_H
#define SEARCH_SEARCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/err.h"
#include "base/slice.h"

enum {
    SEARCH_QUERY_BYTES_MAX = 512, /* the rest is ignored */
    SEARCH_QUERY_WORDS_MAX = 64,
};

struct search_request {
    slice query;
    bool with_integrations, with_actions;
    bool without_reads, without_writes; /* omits actions that only read, actions that write */
    size_t doc_first, doc_count;        /* the range of hits; doc_count 0: all documents */
    /* For each integration of the index, whether it may be found; NULL if all may be found. */
    const bool *allowed;
    /* For each document, whether it must not be found; NULL if all may be found. */
    const bool *unlisted;
    /* For each integration, whether it wins ties; NULL if none does. */
    const bool *connected;
    size_t limit;
    bool keeps_all; /* returns documents without a match, too, after all others */
};

struct search_found {
    uint32_t doc; /* number in the index */
    float score;  /* comparable within one search only */
    bool is_high; /* matches half of the request, in its app or channel */
};

struct search_index;

/* Finds at most request->limit hits, best first. There are none only if no word of the query is
 * known. An exact id or tool name comes first; equal hits are in the order of the documents. Hits
 * and working memory (32 bytes per document) are in the arena. Returns OK or ERR_NOMEM. */
int search_run(struct search_index *index, struct arena *arena,
               const struct search_request *request, struct search_found **hits,
               size_t *count) MUST_CHECK;
/* Splits a sentence that asks for several things, at most `max`: "find the mail and make a page of
 * it". If there is only one thing, it is the query itself; otherwise the things are in the arena.
 * Returns OK or ERR_NOMEM. */
int search_split(struct search_index *index, struct arena *arena, slice query, slice *things,
                 size_t max, size_t *count) MUST_CHECK;
/* Sets *share to the share of the query's words (0 to 1) that the text contains, as the word or as
 * a synonym. It is for a few texts that are not documents of the index. Returns OK or ERR_NOMEM. */
int search_match(struct search_index *index, struct arena *arena, slice query, slice text,
                 float *share) MUST_CHECK;

#endif
