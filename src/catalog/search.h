/*
 * Search over the catalog, from memory: what an agent says it wants, in words or in a sentence, to
 * the actions that do it.
 *
 * An inverted index is a part of the catalog's pack and never changes. A query is read first
 * (search_query.c): phrases are exchanged for what they mean, the clause that asks for something is
 * found, and what is only handed on (quotes, what stands behind "that" or "about", names, numbers,
 * times) does not count. Its words are stemmed and widened by synonyms, a word that the catalog
 * does not know by its prefix and by one typing mistake; documents are ranked by BM25F (Robertson,
 * Zaragoza: The Probabilistic Relevance Framework, 3.6) over id, title, tags, description,
 * integration and input names. No word counts more than a bound, known or not, so that a name or a
 * rare word decides nothing. There is no floor: what has any word of the query is found. Relevance
 * is high where a document has half of what is asked for.
 *
 * Belongs to the catalog. Not for several threads at once: the stemmer has state.
 */
#ifndef CATALOG_SEARCH_H
#define CATALOG_SEARCH_H

#include "catalog/catalog.h"

enum {
    SEARCH_QUERY_BYTES_MAX = 512, /* what comes after is ignored */
    SEARCH_QUERY_WORDS_MAX = 64,
};

struct search_request {
    slice query;
    bool with_integrations, with_actions;
    const struct catalog_integration *within; /* NULL: all */
    /* One for each of catalog->integrations: whether it may be found. NULL: all may. */
    const bool *allowed;
    /* Likewise: what comes first among near equals. NULL: nothing does. */
    const bool *connected;
    size_t limit;
    bool keeps_all; /* also what has nothing of the query, behind the rest */
};

struct search_hit {
    const struct catalog_integration *integration;
    const struct catalog_action *action; /* NULL: the integration itself */
    float score;                         /* comparable within one search only */
    bool is_high;                        /* it has half of what is asked for */
};

/* The best hits, best first, at most request->limit; none only where no word is known. An exact id
 * or tool name comes first; equal ones in the order of the catalog (integration id, the integration
 * before its actions, action id). Hits and working memory (32 bytes a document) are the arena's;
 * the hits point into the catalog; their actions are heads (catalog.h). ERR_NOMEM. */
int catalog_search(const struct catalog *catalog, struct arena *arena,
                   const struct search_request *request, struct search_hit **hits,
                   size_t *count) MUST_CHECK;

/* Leaves the hits of high relevance, in their order; all where none is. Returns how many. For a
 * list that is narrowed by a query. */
size_t search_hits_keep_fitting(struct search_hit *hits, size_t count);

/* "high", "low" */
slice search_relevance_name(const struct search_hit *hit);

#endif
