/*
 * Plain matching of a query's words against the catalog, case-insensitive and by prefix.
 */
#include "catalog/catalog.h"

enum { WORDS_MAX = 16 };

static char lower(char c)
{
    return c >= 'A' && c <= 'Z' ? (char)(c + 32) : c;
}

static bool is_word_char(char c)
{
    c = lower(c);
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || (c & 0x80);
}

/* The next word of *text, {NULL,0} at its end. */
static slice next_word(slice *text)
{
    while (text->len > 0 && !is_word_char(text->ptr[0]))
        *text = slice_from(*text, 1);
    size_t len = 0;
    while (len < text->len && is_word_char(text->ptr[len]))
        len++;
    slice word = len > 0 ? slice_first(*text, len) : SLICE_NONE;
    *text = slice_from(*text, len);
    return word;
}

/* Whether some word of text begins with `word`. */
static bool has_word(slice text, slice word)
{
    for (slice candidate = next_word(&text); candidate.len > 0; candidate = next_word(&text))
        if (candidate.len >= word.len && slice_eq_nocase(slice_first(candidate, word.len), word))
            return true;
    return false;
}

static bool any_has_word(const struct json *texts, slice word)
{
    for (uint32_t i = 0; json_is(texts, JSON_ARRAY) && i < texts->count; i++)
        if (has_word(json_str(&texts->as.items[i]), word))
            return true;
    return false;
}

bool catalog_integration_matches(const struct catalog_integration *integration, slice query)
{
    for (slice word = next_word(&query); word.len > 0; word = next_word(&query))
        if (!has_word(integration->integration_id, word) && !has_word(integration->name, word) &&
            !has_word(integration->description, word) && !has_word(integration->category, word) &&
            !any_has_word(integration->tags, word))
            return false;
    return true;
}

unsigned catalog_action_score(const struct catalog_action *action, slice intent)
{
    unsigned score = 0, words = 0;
    for (slice word = next_word(&intent); word.len > 0 && words < WORDS_MAX;
         word = next_word(&intent), words++) {
        if (has_word(action->action_id, word))
            score += 8;
        if (has_word(action->title, word))
            score += 4;
        if (any_has_word(action->tags, word))
            score += 4;
        if (has_word(action->description, word))
            score += 1;
    }
    return score;
}
