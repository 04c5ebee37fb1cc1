/*
 * Search over a catalog (search/search.h): its integrations and actions are the documents of the
 * index in its pack.
 */
#ifndef CATALOG_SEARCH_H
#define CATALOG_SEARCH_H

#include "catalog/catalog.h"
#include "search/search.h"

struct catalog_hit {
    const struct catalog_integration *integration;
    const struct catalog_action *action; /* NULL: the integration itself */
    float score;                         /* comparable within one search only */
    bool is_high;                        /* matches at least half of the query */
};

/* Like search_run; arrays of the request have one entry for each of catalog->integrations. The
 * hits point into the catalog; their actions are heads (catalog.h). */
int catalog_search(const struct catalog *catalog, struct arena *arena,
                   const struct search_request *request, struct catalog_hit **hits,
                   size_t *count) MUST_CHECK;
/* Like search_split, with the words of this catalog. */
int catalog_split(const struct catalog *catalog, struct arena *arena, slice query, slice *things,
                  size_t max, size_t *count) MUST_CHECK;
/* Like search_match, with the words of this catalog. */
int catalog_match(const struct catalog *catalog, struct arena *arena, slice query, slice text,
                  float *share) MUST_CHECK;
/* Restricts hits to this integration of the searched catalog. */
void catalog_search_within(struct search_request *request,
                           const struct catalog_integration *integration);

/* Keeps the hits of high relevance, in their order; keeps all if none has high relevance. Returns
 * their number. It is for a list that is filtered by a query. */
size_t catalog_hits_keep_fitting(struct catalog_hit *hits, size_t count);

/* "high", "low" */
slice catalog_relevance_name(const struct catalog_hit *hit);

#endif
