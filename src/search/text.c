/*
 * Splits text into words, stems them, and defines what one typing mistake is. Only ASCII letters
 * are lowercased and stemmed: a catalog's words are English, and other scripts are compared byte by
 * byte, which needs no Unicode tables.
 */
#include <libstemmer.h>

#include "base/ascii.h"
#include "search/reading.h"

static bool is_word_char(char c)
{
    char l = ascii_lower(c);
    return ascii_is_lower(l) || ascii_is_digit(l) || (c & 0x80);
}

static size_t word_len(slice text, bool splits_humps)
{
    size_t len = 0;
    while (len < text.len && is_word_char(text.ptr[len])) {
        bool is_hump = len > 0 && ascii_is_upper(text.ptr[len]) &&
                       !ascii_is_upper(text.ptr[len - 1]);
        if (splits_humps && is_hump)
            break;
        len++;
    }
    return len;
}

bool search_text_next(slice *text, bool splits_humps, struct search_token *token)
{
    while (text->len > 0 && !is_word_char(text->ptr[0]))
        *text = slice_from(*text, 1);
    size_t len = word_len(*text, splits_humps);
    if (len == 0)
        return false;
    token->source = slice_first(*text, len);
    /* A word that is too long for the index gets an empty text; source still spans it, so positions
     * stay correct. */
    token->len = len <= sizeof(token->text) ? len : 0;
    for (size_t i = 0; i < token->len; i++)
        token->text[i] = ascii_lower(text->ptr[i]);
    *text = slice_from(*text, len);
    return true;
}

bool search_text_is_plural(slice word)
{
    if (word.len < 4 || word.ptr[word.len - 1] != 's')
        return false;
    /* "address", "status", "analysis" are singular. */
    char before = word.ptr[word.len - 2];
    return before != 's' && before != 'u' && before != 'i';
}

slice search_text_stem(struct sb_stemmer *stemmer, slice word)
{
    ASSERT(stemmer && word.len <= SEARCH_WORD_BYTES_MAX);
    for (size_t i = 0; i < word.len; i++)
        /* The stemmer's rules are English; on other bytes it could split a character. */
        if (word.ptr[i] & 0x80)
            return word;
    const sb_symbol *stem = sb_stemmer_stem(stemmer, (const sb_symbol *)word.ptr, (int)word.len);
    return stem ? slice_of(stem, (size_t)sb_stemmer_length(stemmer)) : word;
}

uint32_t search_text_hash(slice word, size_t skip)
{
    /* FNV-1a is enough, since expand.c compares the words themselves */
    uint32_t hash = 2166136261u;
    for (size_t i = 0; i < word.len; i++)
        if (i != skip)
            hash = (hash ^ (uint8_t)word.ptr[i]) * 16777619u;
    return hash ^ hash >> 15;
}

bool search_text_is_one_typo(slice a, slice b)
{
    size_t head = 0, tail = 0;
    /* From here on, a is the longer word. */
    if (a.len < b.len) {
        slice other = a;
        a = b;
        b = other;
    }
    if (a.len > b.len + 1)
        return false;
    while (head < b.len && a.ptr[head] == b.ptr[head])
        head++;
    while (tail < b.len - head && a.ptr[a.len - 1 - tail] == b.ptr[b.len - 1 - tail])
        tail++;
    if (a.len > b.len)
        /* a is longer by one letter if all of b is in the common head and tail. */
        return head + tail == b.len;
    /* At equal length, one letter may differ, or two neighbours may be swapped. */
    size_t apart = a.len - head - tail;
    return apart == 1 ||
           (apart == 2 && a.ptr[head] == b.ptr[head + 1] && a.ptr[head + 1] == b.ptr[head]);
}
