/*
 * Splits a sentence that asks for several things: "find the mail and make a page of it" is two
 * queries. One request ends before "and", "then" or a punctuation mark if a verb and its object
 * follow. A verb is a word with which an action's id begins, or a synonym of such a word.
 */
#include "search/reading.h"

/* Whether the part is a word that joins two requests, before the verb of the second. */
static bool is_joint(const struct search_part *part)
{
    static const char words[] = "and then also afterwards finally please";
    return slice_has_word(slice_cstr(words), slice_of(part->token.text, part->token.len));
}

static bool means_verb(const struct search_index *index, const struct search_term *term)
{
    for (uint32_t i = 0; i < term->link_count; i++) {
        const struct search_link *link = &index->links[term->link_first + i];
        if (index->terms[link->term].is_verb && link->use != AS_NOUN)
            return true;
    }
    return false;
}

static bool may_be_command(const struct search_index *index, const struct search_part *part,
                           const struct search_part *next)
{
    if (!part->token.source.ptr || part->is_quoted || part->is_taken ||
        part->classes & (WORD_DETERMINER | WORD_PREPOSITION))
        return false;
    if (part->means.len > 0 || part->classes & (WORD_SAYS | WORD_ASKS | WORD_THANKS))
        return true;
    slice word = slice_of(part->token.text, part->token.len);
    bool is_thing = next->classes & WORD_DETERMINER ||
                    slice_eq(slice_of(next->token.text, next->token.len), SLICE("that"));
    if (part->is_known && !(part->classes & WORD_STOP) && is_thing)
        return true; /* as in "and refund the payment": a noun does not precede a determiner */
    return part->term && !(part->classes & WORD_STOP) && !search_text_is_plural(word) &&
           (part->term->is_verb || means_verb(index, part->term) ||
            part->term->implied != SEARCH_NO_TERM);
}

/* Returns the part at which a request begins after the joint at `at`; 0 if none begins there. */
static size_t begins_at(const struct search_index *index, const struct search_reading *r, size_t at)
{
    bool is_joined = is_joint(&r->parts[at]);
    if (!r->parts[at].token.source.ptr || r->parts[at].is_quoted || r->parts[at].follows_colon ||
        (!is_joined && !r->parts[at].begins_clause))
        return 0;
    while (at < r->count && is_joint(&r->parts[at]))
        at++;
    return at + 1 < r->count && may_be_command(index, &r->parts[at], &r->parts[at + 1]) ? at : 0;
}

static size_t content_between(const struct search_reading *r, size_t from, size_t to)
{
    size_t count = 0;
    for (size_t i = from; i < to; i++)
        count += r->parts[i].is_content || r->parts[i].means.len > 0;
    return count;
}

int search_split(struct search_index *index, struct arena *arena, slice query, slice *things,
                 size_t max, size_t *count)
{
    struct search_reading *r = ARENA_NEW(arena, struct search_reading);
    size_t first = 0;
    *count = 0;
    if (!r || search_index_prepare(index) != OK)
        return ERR_NOMEM;
    search_query_read(index, query, r);
    const char *start = r->text;
    for (size_t i = 1; i < r->count && *count + 1 < max; i++) {
        size_t next = begins_at(index, r, i);
        if (next == 0 || content_between(r, first, i) == 0)
            continue;
        things[(*count)++] =
            slice_trim(slice_of(start, (size_t)(r->parts[i].token.source.ptr - start)));
        start = r->parts[next].token.source.ptr;
        first = i = next;
    }
    if (*count == 0) {
        bool is_split = false;
        if (max > 1 && search_split_transfer(index, arena, r, things, &is_split) != OK)
            return ERR_NOMEM;
        if (!is_split)
            things[0] = query;
        *count = is_split ? 2 : 1;
        return OK;
    }
    size_t used = (size_t)(start - r->text);
    things[(*count)++] = slice_trim(slice_of(start, strnlen(start, SEARCH_QUERY_BYTES_MAX - used)));
    return OK;
}
