/*
 * Search over a catalog: maps found documents to integrations and actions.
 */
#include "catalog/search.h"

#include "catalog/pack.h"
#include "search/index.h"

int catalog_search(const struct catalog *catalog, struct arena *arena,
                   const struct search_request *request, struct catalog_hit **hits, size_t *count)
{
    struct search_found *found = NULL;
    size_t found_count = 0;
    *count = 0;
    int result = search_run(catalog->search, arena, request, &found, &found_count);
    *hits = ARENA_ARRAY(arena, struct catalog_hit, found_count + 1);
    if (result != OK || !*hits || catalog_open_heads(catalog) != OK)
        return ERR_NOMEM;
    *count = found_count;
    for (size_t i = 0; i < found_count; i++) {
        const struct search_doc *doc = &catalog->search->docs[found[i].doc];
        const struct catalog_integration *integration = catalog->integrations[doc->integration];
        (*hits)[i] = (struct catalog_hit){
            .integration = integration,
            .action = doc->action == SEARCH_NO_ACTION ? NULL : &integration->actions[doc->action],
            .score = found[i].score,
            .is_high = found[i].is_high,
        };
    }
    return OK;
}

int catalog_split(const struct catalog *catalog, struct arena *arena, slice query, slice *things,
                  size_t max, size_t *count)
{
    return search_split(catalog->search, arena, query, things, max, count);
}

int catalog_match(const struct catalog *catalog, struct arena *arena, slice query, slice text,
                  float *share)
{
    return search_match(catalog->search, arena, query, text, share);
}

void catalog_search_within(struct search_request *request,
                           const struct catalog_integration *integration)
{
    /* Documents are numbered as they are packed: an integration, then its actions. */
    request->doc_first = integration->search_first;
    request->doc_count = 1 + integration->action_count;
}

size_t catalog_hits_keep_fitting(struct catalog_hit *hits, size_t count)
{
    size_t kept = 0;
    for (size_t i = 0; i < count; i++)
        if (hits[i].is_high)
            hits[kept++] = hits[i];
    return kept > 0 ? kept : count;
}

slice catalog_relevance_name(const struct catalog_hit *hit)
{
    return hit->is_high ? SLICE("high") : SLICE("low");
}
