/*
 * Expands one word of a query to its term and to the terms that mean the same. All lookups are
 * binary searches in the pack's sorted tables or in one bucket of remainders; none scans the words.
 */
#include <stdlib.h>

#include "search/reading.h"

enum { PREFIX_WORDS_MAX = 64, AT_START_BYTES_MIN = 6, SUBSTITUTION_BYTES_MIN = 6 };

/* ---- lookups ---- */

/* The key of a binary search, with the index whose texts it refers to. */
struct sought {
    const struct search_index *index;
    slice text;
};

static int by_word(const void *key, const void *word)
{
    const struct sought *sought = key;
    return slice_cmp(sought->text,
                     search_index_text(sought->index, ((const struct search_word *)word)->text));
}

const struct search_word *search_index_word(const struct search_index *index, slice word)
{
    const struct sought sought = {index, word};
    return bsearch(&sought, index->words, index->word_count, sizeof(*index->words), by_word);
}

static int by_stem(const void *key, const void *term)
{
    const struct sought *sought = key;
    return slice_cmp(sought->text,
                     search_index_text(sought->index, ((const struct search_term *)term)->stem));
}

static const struct search_term *find_stem(const struct search_index *index, slice stem)
{
    const struct sought sought = {index, stem};
    return bsearch(&sought, index->terms, index->term_count, sizeof(*index->terms), by_stem);
}

const struct search_term *search_index_find(const struct search_index *index, slice word)
{
    const struct search_word *known = search_index_word(index, word);
    ASSERT(!known || known->term < index->term_count);
    return known ? &index->terms[known->term]
                 : find_stem(index, search_text_stem(index->stemmer, word));
}

/* ---- widening ---- */

static void add_term(struct search_expansion *out, const struct search_term *term, float weight)
{
    size_t i = 0;
    while (i < out->count && out->terms[i].term != term)
        i++;
    /* The list is full: the word's own term and its synonyms come first, so only the least
     * certain terms are lost. */
    if (i == SEARCH_EXPANSIONS_MAX)
        return;
    if (i == out->count) {
        out->terms[out->count].term = term;
        out->terms[out->count++].weight = weight;
    } else if (out->terms[i].weight < weight)
        out->terms[i].weight = weight;
}

void search_expand_term(const struct search_index *index, const struct search_term *term,
                        float weight, unsigned use, struct search_expansion *out)
{
    ASSERT((size_t)term->link_first + term->link_count <= index->link_count);
    const struct search_link *links = index->links + term->link_first;
    add_term(out, term, weight);
    for (uint32_t i = 0; i < term->link_count; i++)
        if (use == 0 || links[i].use == 0 || links[i].use == use)
            add_term(out, &index->terms[links[i].term], weight * links[i].weight);
}

/* Returns the position of the first word that does not sort before this word, by binary search. */
static size_t lower_bound(const struct search_index *index, slice word)
{
    size_t low = 0, high = index->word_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (slice_cmp(search_index_text(index, index->words[middle].text), word) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

void search_expand_prefix(const struct search_index *index, slice word, float weight,
                          struct search_expansion *out)
{
    ASSERT(word.len > 0); /* every word begins with an empty prefix */
    size_t first = lower_bound(index, word);
    for (size_t i = first; i < index->word_count && i < first + PREFIX_WORDS_MAX; i++) {
        slice longer = search_index_text(index, index->words[i].text);
        if (!slice_starts_with(longer, word))
            break;
        if (!(index->words[i].classes & WORD_FINDS))
            continue;
        search_expand_term(
            index, &index->terms[index->words[i].term],
            weight * (SEARCH_HALF + SEARCH_HALF * (float)word.len / (float)longer.len), 0, out);
    }
}

static bool is_substitution(slice a, slice b)
{
    size_t differ = 0;
    for (size_t i = 0; a.len == b.len && i < a.len; i++)
        differ += a.ptr[i] != b.ptr[i];
    return differ == 1;
}

/* Returns the weight of `other` for a mistyped `word`; 0 if they are two different words. People
 * seldom mistype the first letter, and in a short word a different letter makes a different word:
 * "mount" is not a mistyped "count", nor "tall" a mistyped "tell". */
static float typo_weight_of(slice word, slice other)
{
    bool is_at_start = word.ptr[0] != other.ptr[0];
    if ((is_at_start && word.len < AT_START_BYTES_MIN) ||
        (word.len < SUBSTITUTION_BYTES_MIN && is_substitution(word, other)) ||
        !search_text_is_one_typo(word, other))
        return 0;
    return is_at_start ? SEARCH_HALF : SEARCH_CLOSE;
}

static void try_remainder(const struct search_index *index, slice word, size_t skip,
                          struct search_expansion *out)
{
    /* Two words that are one mistake apart have equal remainders after at most one deletion in each
     * (SymSpell). Equal hashes are only candidates: typo_weight_of compares the words. */
    uint32_t hash = search_text_hash(word, skip);
    size_t bucket = hash & (index->bucket_count - 1);
    ASSERT(index->bucket_starts[bucket + 1] <= index->remainder_count);
    for (uint32_t i = index->bucket_starts[bucket]; i < index->bucket_starts[bucket + 1]; i++) {
        if (index->remainders[i].hash != hash)
            continue;
        const struct search_word *other = &index->words[index->remainders[i].word];
        float weight = typo_weight_of(word, search_index_text(index, other->text));
        if (weight > 0)
            search_expand_term(index, &index->terms[other->term], weight, 0, out);
    }
}

void search_expand_typo(const struct search_index *index, slice word, struct search_expansion *out)
{
    if (word.len < SEARCH_TYPO_BYTES_MIN || word.len > SEARCH_TYPO_BYTES_MAX)
        return;
    /* With nothing deleted, this finds words that are longer by one letter, of which this word is a
     * remainder. */
    try_remainder(index, word, SIZE_MAX, out);
    for (size_t i = 0; i < word.len; i++)
        try_remainder(index, word, i, out);
}
