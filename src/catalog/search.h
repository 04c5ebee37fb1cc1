/*
 * Search over the catalog, from memory: what an agent says it wants to the actions that do it.
 *
 * An inverted index is a part of the catalog's pack and never changes. A query's words are
 * stemmed and widened by synonyms, a word that nobody wrote by its prefix and by one typing
 * mistake; documents are ranked by BM25F (Robertson, Zaragoza: The Probabilistic Relevance
 * Framework, 3.6) over id, title, tags, description, integration and input names. What covers too
 * little of the query is left out, so a query about nothing finds nothing.
 *
 * Belongs to the catalog. Not for several threads at once: the stemmer has state.
 */
#ifndef CATALOG_SEARCH_H
#define CATALOG_SEARCH_H

#include "catalog/catalog.h"

enum {
    SEARCH_QUERY_BYTES_MAX = 256, /* what comes after is not looked at */
    SEARCH_QUERY_WORDS_MAX = 32,
};

struct search_request {
    slice query;
    bool with_integrations, with_actions;
    const struct catalog_integration *within; /* NULL: all */
    /* One for each of catalog->integrations: whether it may be found. NULL: all may. */
    const bool *allowed;
    size_t limit;
    /* Everything that has a word in common counts, in place of what covers enough of the query:
     * for putting a list in order that somebody has chosen already. */
    bool is_lenient;
};

struct search_hit {
    const struct catalog_integration *integration;
    const struct catalog_action *action; /* NULL: the integration itself */
    float score;                         /* comparable within one search only */
};

/* The best hits, best first, at most request->limit. An exact id or tool name comes first; equal
 * ones in the order of the catalog (integration id, the integration before its actions, action id).
 * Hits and working memory (28 bytes a document) are the arena's; the hits point into the
 * catalog; their actions are heads (catalog.h). ERR_NOMEM. */
int catalog_search(const struct catalog *catalog, struct arena *arena,
                   const struct search_request *request, struct search_hit **hits,
                   size_t *count) MUST_CHECK;

#endif
