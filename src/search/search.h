/*
 * Search over what apps can do, from memory: what an agent says it wants, in words or in a
 * sentence, to the actions that do it.
 *
 * An inverted index (index.h) is made once and never changes. A query is read first (query.c):
 * phrases are exchanged for what they mean, the clause that asks for something is found, and what
 * is only handed on (quotes, what stands behind "that" or "about", names, numbers, times) does not
 * count. Its words are stemmed and widened by synonyms, a word that no document has by its prefix
 * and by one typing mistake; documents are ranked by BM25F (Robertson, Zaragoza: The Probabilistic
 * Relevance Framework, 3.6) over id, title, tags, description, integration and input names. No word
 * counts more than a bound, known or not, so that a name or a rare word decides nothing. There is
 * no floor: what has any word of the query is found. Relevance is high where a document has half of
 * what is asked for, and is of the app, or else of the channel (SMS, mail), that is asked for.
 *
 * Not for several threads at once: the stemmer has state.
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
    SEARCH_QUERY_BYTES_MAX = 512, /* what comes after is ignored */
    SEARCH_QUERY_WORDS_MAX = 64,
};

struct search_request {
    slice query;
    bool with_integrations, with_actions;
    size_t doc_first, doc_count; /* where hits may be; doc_count 0: everywhere */
    /* One for each integration of the index: whether it may be found. NULL: all may. */
    const bool *allowed;
    /* Likewise: what wins a tie. NULL: nothing does. */
    const bool *connected;
    size_t limit;
    bool keeps_all; /* also what has nothing of the query, behind the rest */
};

struct search_found {
    uint32_t doc; /* of the index */
    float score;  /* comparable within one search only */
    bool is_high; /* it has half of what is asked for, in the app or channel that is */
};

struct search_index;

/* The best hits, best first, at most request->limit; none only where no word is known. An exact id
 * or tool name comes first; equal ones in the order of the documents. Hits and working memory (32
 * bytes a document) are the arena's. ERR_NOMEM. */
int search_run(struct search_index *index, struct arena *arena,
               const struct search_request *request, struct search_found **hits,
               size_t *count) MUST_CHECK;

#endif
