/*
 * Compares a query with a text that is not a document of the index; see search.h.
 */
#include "search/reading.h"

/* Returns the weight of the best match of a query's word in the text. */
static float best_in(const struct search_index *index, const struct search_expansion *word,
                     slice text)
{
    struct search_token token;
    float best = 0;
    while (search_text_next(&text, false, &token)) {
        const struct search_term *term = search_index_find(index, slice_of(token.text, token.len));
        for (size_t i = 0; term && i < word->count; i++)
            if (word->terms[i].term == term && word->terms[i].weight > best)
                best = word->terms[i].weight;
    }
    return best;
}

/* A phrase counts by the words of its meaning. */
static void expand_part(const struct search_index *index, const struct search_part *part,
                        struct search_expansion *word)
{
    struct search_token token;
    slice means = part->means;
    word->count = 0;
    if (part->term && means.len == 0)
        search_expand_term(index, part->term, 1, part->use, word);
    while (search_text_next(&means, false, &token)) {
        const struct search_term *term = search_index_find(index, slice_of(token.text, token.len));
        if (term)
            search_expand_term(index, term, 1, 0, word);
    }
}

int search_match(struct search_index *index, struct arena *arena, slice query, slice text,
                 float *share)
{
    struct search_reading *reading = ARENA_NEW(arena, struct search_reading);
    struct search_expansion word;
    float asked = 0, found = 0;
    *share = 0;
    if (!reading || search_index_prepare(index) != OK)
        return ERR_NOMEM;
    search_query_read(index, query, reading);
    for (size_t i = 0; i < reading->count; i++) {
        const struct search_part *part = &reading->parts[i];
        if (part->role < ROLE_ASIDE)
            continue;
        float weight = part->role == ROLE_CORE ? 1 : SEARCH_HALF;
        expand_part(index, part, &word);
        asked += weight;
        found += weight * best_in(index, &word, text);
    }
    if (asked > 0)
        *share = found / asked;
    return OK;
}
