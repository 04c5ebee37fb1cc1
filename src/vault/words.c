/*
 * The words of runs and of searches, as keyed hashes; see words.h.
 */
#include "vault/words.h"

#include <stdlib.h>

#include "base/ascii.h"
#include "base/map.h"
#include "base/mem.h"
#include "store/execution_input.h"
#include "vault/key.h"
#include "vault/ring.h"

/* ---- words of a text ---- */

/* Upper-case letters, every step-th of a range, and how far their lower case is; sorted. */
static const struct letters {
    uint16_t first, last, step;
    int16_t distance;
} uppers[] = {
    {0xc0, 0xd6, 1, 0x20},   {0xd8, 0xde, 1, 0x20},   {0x100, 0x12e, 2, 1},
    {0x132, 0x136, 2, 1},    {0x139, 0x147, 2, 1},    {0x14a, 0x176, 2, 1},
    {0x178, 0x178, 1, -121}, {0x179, 0x17d, 2, 1},    {0x1a0, 0x1a0, 1, 1},
    {0x1af, 0x1af, 1, 1},    {0x1cd, 0x1db, 2, 1},    {0x200, 0x21e, 2, 1},
    {0x222, 0x232, 2, 1},    {0x386, 0x386, 1, 0x26}, {0x388, 0x38a, 1, 0x25},
    {0x38c, 0x38c, 1, 0x40}, {0x38e, 0x38f, 1, 0x3f}, {0x391, 0x3ab, 1, 0x20},
    {0x3c2, 0x3c2, 1, 1}, /* a sigma at the end of a word */
    {0x400, 0x40f, 1, 0x50}, {0x410, 0x42f, 1, 0x20}, {0x460, 0x480, 2, 1},
    {0x48a, 0x4be, 2, 1},    {0x4c1, 0x4cd, 2, 1},    {0x4d0, 0x52e, 2, 1},
    {0x1e00, 0x1e94, 2, 1},  {0x1ea0, 0x1efe, 2, 1},
};

static bool has_letter(const struct letters *range, uint32_t c)
{
    return c >= range->first && c <= range->last && (c - range->first) % range->step == 0;
}

/* Returns the letter in lower case. */
static uint32_t lower_of(uint32_t c)
{
    for (size_t i = 0; i < ARRAY_LEN(uppers) && c >= uppers[i].first; i++)
        if (has_letter(&uppers[i], c))
            return (uint32_t)((int32_t)c + uppers[i].distance);
    return c;
}

/* Other characters are parts of words, except marks and symbols. */
static bool separates(uint32_t c)
{
    if (c < 0xc0)
        return c != 0xaa && c != 0xb5 && c != 0xba;
    return c == 0xd7 || c == 0xf7 || (c >= 0x2000 && c <= 0x2bff) || (c >= 0x3000 && c <= 0x303f) ||
           (c >= 0xff00 && c <= 0xff0f) || (c >= 0xff1a && c <= 0xff20) ||
           (c >= 0x1f000 && c <= 0x1ffff) || code_point_is_hidden(c);
}

/* Writes a character that is not ASCII. Returns the number of its bytes. */
static size_t put_utf8(uint32_t c, char *out)
{
    size_t len = c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
    for (size_t i = len; i-- > 1; c >>= 6)
        out[i] = (char)(0x80 | (c & 0x3f));
    out[0] = (char)(c | (0xf00U >> len & 0xff));
    return len;
}

/* Takes the first character of rest. Returns the number of its bytes in `out`, in lower case; 0: it
 * separates words. */
static size_t take_character(slice *rest, char out[4])
{
    uint32_t c = (unsigned char)rest->ptr[0];
    size_t len = 1;
    if (c < 0x80) {
        *rest = slice_from(*rest, 1);
        out[0] = ascii_lower((char)c);
        return ascii_is_alnum((int)c) ? 1 : 0;
    }
    bool is_valid = slice_utf8_first(*rest) > 0;
    if (is_valid)
        len = slice_code_point(*rest, &c);
    *rest = slice_from(*rest, len);
    return is_valid && !separates(c) ? put_utf8(lower_of(c), out) : 0;
}

/* Whether the text begins with a UUID and no letter or digit follows it directly. */
static bool begins_with_uuid(slice text)
{
    struct uuid id;
    return text.len >= UUID_TEXT_LEN && text.ptr[8] == '-' &&
           uuid_parse(slice_first(text, UUID_TEXT_LEN), &id) &&
           (text.len == UUID_TEXT_LEN || !ascii_is_alnum((unsigned char)text.ptr[UUID_TEXT_LEN]));
}

/* Takes the letters and digits of ASCII with which rest begins; most words have no others. Writes
 * the first `room` of them, in lower case. Returns how many there are. */
static size_t take_ascii(slice *rest, char *out, size_t room)
{
    size_t count = 0;
    for (; count < rest->len && ascii_is_alnum(rest->ptr[count]); count++)
        if (count < room)
            out[count] = ascii_lower(rest->ptr[count]);
    *rest = slice_from(*rest, count);
    return count;
}

/* Takes the next word of rest. Returns its length; 0 if there is none. */
static size_t take_word(slice *rest, char word[VAULT_WORD_BYTES_MAX])
{
    char character[4];
    size_t len = 0;
    bool is_full = false;
    while (rest->len > 0) {
        if (len == 0 && begins_with_uuid(*rest)) {
            for (; len < UUID_TEXT_LEN; len++)
                word[len] = ascii_lower(rest->ptr[len]);
            *rest = slice_from(*rest, UUID_TEXT_LEN);
            return len;
        }
        size_t room = is_full ? 0 : VAULT_WORD_BYTES_MAX - len;
        size_t more = take_ascii(rest, word + len, room);
        is_full |= more > room;
        len += more < room ? more : room;
        if (rest->len == 0)
            break;
        more = take_character(rest, character);
        if (more == 0 && len > 0)
            break;
        is_full |= len + more > VAULT_WORD_BYTES_MAX;
        if (!is_full) {
            memcpy(word + len, character, more);
            len += more;
        }
    }
    return len;
}

size_t vault_words_count(slice text, size_t count_max)
{
    char word[VAULT_WORD_BYTES_MAX];
    size_t count = 0;
    while (count < count_max && take_word(&text, word) > 0)
        count++;
    return count;
}

/* Appends a letter, or a set of it and its upper cases. */
static void append_cases(struct buf *out, uint32_t c)
{
    char text[4];
    bool is_set = false;
    for (size_t i = 0; i < ARRAY_LEN(uppers); i++) {
        uint32_t upper = (uint32_t)((int32_t)c - uppers[i].distance);
        if (!has_letter(&uppers[i], upper))
            continue;
        buf_append(out, is_set ? SLICE("") : SLICE("["));
        buf_append(out, slice_of(text, put_utf8(upper, text)));
        is_set = true;
    }
    buf_append(out, slice_of(text, put_utf8(c, text)));
    buf_append(out, is_set ? SLICE("]") : SLICE(""));
}

slice vault_words_patterns(slice text, struct arena *arena)
{
    char word[VAULT_WORD_BYTES_MAX];
    struct buf words;
    size_t len;
    buf_init(&words, 16 * text.len + 16); /* a set has at most four letters and two brackets */
    while ((len = take_word(&text, word)) > 0) {
        slice rest = slice_of(word, len);
        if (words.len > 0)
            buf_append_char(&words, ' ');
        while (rest.len > 0) {
            uint32_t c = (unsigned char)rest.ptr[0];
            size_t size = c < 0x80 ? 1 : slice_code_point(rest, &c);
            if (c < 0x80)
                buf_append_char(&words, (char)c);
            else
                append_cases(&words, c);
            rest = slice_from(rest, size);
        }
        /* The word may have been cut, so its end is open. */
        if (len + 4 > VAULT_WORD_BYTES_MAX)
            buf_append(&words, SLICE(".*"));
    }
    return arena_take(arena, &words);
}

/* ---- hashes ---- */

/* The label keeps this use of a master key apart from others. Hash and input are wiped: with the
 * derived key, words could be tried. */
static void derive_key(const struct vault_ring_key *key, struct uuid account_id, uint64_t out[2])
{
    static const char label[] = "sluice words 1";
    char room[sizeof(label) + sizeof(account_id.bytes) + VAULT_MASTER_KEY_LEN];
    uint8_t hash[32];
    slice input = SLICE_JOIN(room, slice_of(label, sizeof(label)),
                             slice_of(account_id.bytes, sizeof(account_id.bytes)),
                             secret_reveal(key->secret));
    vault_sha256(input, hash);
    memcpy(out, hash, 2 * sizeof(out[0]));
    mem_wipe(room, sizeof(room));
    mem_wipe(hash, sizeof(hash));
}

static void begin_list(struct vault_words *words)
{
    words->count = 0;
    words->bytes_left = VAULT_WORDS_BYTES_MAX;
}

/* A key is derived once for most runs of an account: it takes as long as all else of its list. */
void vault_words_init(struct vault_words *words, const struct vault_ring *ring,
                      struct uuid account_id)
{
    struct vault_ring_words *known =
        &ring->words[account_id.bytes[sizeof(account_id.bytes) - 1] % VAULT_RING_WORDS_MAX];
    begin_list(words);
    if (known->key && uuid_eq(known->account_id, account_id)) {
        memcpy(words->key, secret_reveal(known->key).ptr, sizeof(words->key));
        return;
    }
    derive_key(&ring->keys[0], account_id, words->key);
    secret_unref(known->key);
    known->account_id = account_id;
    known->key = secret_new(slice_of((const char *)words->key, sizeof(words->key)));
}

/* A list is short, so that it needs no table. */
static bool has_item(const struct vault_words *words, int64_t item)
{
    for (size_t i = 0; i < words->count; i++)
        if (words->items[i] == item)
            return true;
    return false;
}

slice vault_words_add(struct vault_words *words, slice text, size_t count_max)
{
    char word[VAULT_WORD_BYTES_MAX];
    size_t len;
    ASSERT(count_max <= VAULT_WORDS_MAX);
    slice rest = slice_first(text, text.len < words->bytes_left ? text.len : words->bytes_left);
    words->bytes_left -= rest.len;
    while (words->count < count_max && (len = take_word(&rest, word)) > 0) {
        int64_t item = (int64_t)hash_siphash13(words->key, word, len);
        if (!has_item(words, item))
            words->items[words->count++] = item;
    }
    words->bytes_left += rest.len;
    return rest;
}

static int compare_items(const void *a, const void *b)
{
    int64_t one = *(const int64_t *)a, other = *(const int64_t *)b;
    return (one > other) - (one < other);
}

/* Appends the text of a bigint[], for a search. */
static void put_list(struct buf *out, struct vault_words *words)
{
    qsort(words->items, words->count, sizeof(words->items[0]), compare_items);
    for (size_t i = 0; i < words->count; i++) {
        buf_append_char(out, i ? ',' : '{');
        buf_append_i64(out, words->items[i]);
    }
    buf_append_char(out, '}');
}

enum { LIST_BYTES_MAX = VAULT_WORDS_MAX * 21 + 2 };

slice vault_words_list(const struct vault_words *words, struct arena *arena)
{
    uint32_t list[VAULT_WORDS_MAX];
    for (size_t i = 0; i < words->count; i++) {
        uint32_t item = (uint32_t)words->items[i];
        size_t at = i;
        for (; at > 0 && list[at - 1] > item; at--)
            list[at] = list[at - 1];
        list[at] = item;
    }
    return store_input_words(list, words->count, arena);
}

slice vault_words_search(const struct vault_ring *ring, struct uuid account_id, slice text,
                         struct arena *arena)
{
    struct vault_words words, keys;
    struct buf lists;
    buf_init(&lists, VAULT_MASTER_KEYS_MAX * 4 * (LIST_BYTES_MAX + 1));
    for (size_t i = 0; i < ring->count; i++) {
        begin_list(&words);
        derive_key(&ring->keys[i], account_id, words.key);
        vault_words_add(&words, text, VAULT_WORDS_MAX);
        ASSERT(words.count > 0);
        if (i > 0)
            buf_append_char(&lists, ';');
        put_list(&lists, &words);
        buf_append_char(&lists, ';');
        for (size_t k = 0; k < words.count; k++)
            words.items[k] &= UINT32_MAX;
        put_list(&lists, &words);
        buf_append_char(&lists, ';');
        /* what the index has, and what the rows that it finds are compared with */
        keys = words;
        for (size_t k = 0; k < keys.count; k++)
            keys.items[k] = store_input_key(account_id, (uint32_t)keys.items[k]);
        put_list(&lists, &keys);
        buf_append_char(&lists, '/');
        put_list(&lists, &words);
    }
    slice search = buf_is_ok(&lists) ? arena_dup(arena, buf_slice(&lists)) : SLICE_NONE;
    buf_deinit(&lists);
    return search.ptr ? search : SLICE("{0}");
}
