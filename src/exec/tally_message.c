/*
 * tally_message: the text of a failure as charts keep it. A message may quote the input, or an
 * app's answer to it, but the input itself is kept only sealed and for a few days. So words that a
 * value of the input has are left out, and mail addresses from anywhere.
 *
 * One plain word of a long text says nothing about it, and would make most messages unreadable: of
 * values over SHORT_BYTES_MAX, runs of RUN_WORDS words are left out, and all words that are not
 * plain, such as ids.
 */
#include "base/ascii.h"
#include "exec/tally.h"

enum {
    WORDS_MAX = 64,
    SHORT_BYTES_MAX = 100,
    RUN_WORDS = 3,
    NUMBER_BYTES_MAX = 64, /* for an input with a longer number no message is kept */
    VALUE_BYTES_MIN = 3,   /* of a value that is searched for within a word */
    /* for a larger input no message is kept: each value is compared with each word */
    INPUT_BYTES_MAX = 8 * 1024,
    INPUT_VALUES_MAX = 256,
};

struct word {
    size_t at, len;
    bool is_plain; /* letters only */
    bool is_hidden;
};

struct search {
    slice message;
    struct word words[WORDS_MAX];
    size_t count, bytes_left, values_left;
    bool is_over; /* the input has more */
};

static bool is_letter(char c)
{
    return ascii_is_letter(c) || (unsigned char)c >= 0x80;
}

static bool is_between_words(char c)
{
    return (unsigned char)c <= ' ' || strchr("\"'`()[]{}<>,;:", c);
}

static slice word_text(const struct search *search, size_t i)
{
    return slice_of(search->message.ptr + search->words[i].at, search->words[i].len);
}

static void add_word(struct search *search, size_t at, size_t end)
{
    while (end > at && strchr(".!?", search->message.ptr[end - 1]))
        end--;
    struct word word = {.at = at, .len = end - at, .is_plain = true};
    slice text = slice_of(search->message.ptr + at, word.len);
    for (size_t i = 0; i < text.len; i++)
        word.is_plain = word.is_plain && is_letter(text.ptr[i]);
    word.is_hidden = slice_find_char(text, '@') >= 0;
    if (word.len > 0)
        search->words[search->count++] = word;
}

/* Words past the last one are cut off. */
static void find_words(struct search *search)
{
    size_t at = 0;
    while (at < search->message.len && search->count < WORDS_MAX) {
        size_t end = at;
        while (end < search->message.len && !is_between_words(search->message.ptr[end]))
            end++;
        add_word(search, at, end);
        at = end + 1;
    }
    if (at < search->message.len)
        search->message.len = at;
}

static bool has_whole_word(slice value, slice word)
{
    size_t from = 0;
    for (ptrdiff_t at; (at = slice_find(slice_from(value, from), word)) >= 0; from++) {
        from += (size_t)at;
        bool begins = from == 0 || !is_letter(value.ptr[from - 1]);
        size_t end = from + word.len;
        if (begins && (end == value.len || !is_letter(value.ptr[end])))
            return true;
    }
    return false;
}

static bool is_word_of(slice value, slice word, bool is_plain)
{
    if (is_plain)
        return value.len <= SHORT_BYTES_MAX && has_whole_word(value, word);
    return slice_find(value, word) >= 0 ||
           (value.len >= VALUE_BYTES_MIN && slice_find(word, value) >= 0);
}

static void hide_words_of(struct search *search, slice value)
{
    for (size_t i = 0; i < search->count; i++) {
        struct word *word = &search->words[i];
        word->is_hidden = word->is_hidden ||
                          is_word_of(value, word_text(search, i), word->is_plain);
        if (value.len <= SHORT_BYTES_MAX || i + RUN_WORDS > search->count)
            continue;
        const struct word *last = &search->words[i + RUN_WORDS - 1];
        slice run = slice_of(search->message.ptr + word->at, last->at + last->len - word->at);
        for (size_t j = 0; slice_find(value, run) >= 0 && j < RUN_WORDS; j++)
            search->words[i + j].is_hidden = true;
    }
}

static void search_input(struct search *search, const struct json *value)
{
    bool is_object = value->type == JSON_OBJECT;
    search->is_over = search->is_over || search->values_left == 0;
    if (search->is_over)
        return;
    search->values_left--;
    if (is_object || value->type == JSON_ARRAY) {
        for (uint32_t i = 0; i < value->count && !search->is_over; i++)
            search_input(search, is_object ? &value->as.members[i].value : &value->as.items[i]);
        return;
    }
    char digits[NUMBER_BYTES_MAX];
    struct buf number = {.ptr = digits, .cap = sizeof(digits), .bytes_max = sizeof(digits)};
    slice text = json_str(value);
    if (json_is_number(value)) {
        json_write(&number, value);
        text = buf_slice(&number);
    }
    search->is_over = !buf_is_ok(&number) || text.len > search->bytes_left;
    search->bytes_left -= search->is_over ? 0 : text.len;
    if (text.len > 0 && !search->is_over)
        hide_words_of(search, text);
}

slice tally_message(char room[TALLY_LAST_MAX], slice message, const struct json *input)
{
    struct search search = {
        .message = message, .bytes_left = INPUT_BYTES_MAX, .values_left = INPUT_VALUES_MAX};
    struct buf text = {.ptr = room, .cap = TALLY_LAST_MAX, .bytes_max = TALLY_LAST_MAX};
    size_t at = 0;
    find_words(&search);
    if (input)
        search_input(&search, input);
    for (size_t i = 0; i < search.count && !search.is_over; i++) {
        const struct word *word = &search.words[i];
        bool is_next_hidden = i > 0 && word->is_hidden && search.words[i - 1].is_hidden &&
                              word->at == at + 1;
        if (!is_next_hidden)
            buf_append(&text, slice_of(search.message.ptr + at, word->at - at));
        if (!word->is_hidden)
            buf_append(&text, word_text(&search, i));
        else if (!is_next_hidden)
            buf_append_cstr(&text, "\u2026");
        at = word->at + word->len;
    }
    if (!search.is_over)
        buf_append(&text, slice_from(search.message, at));
    return buf_slice(&text);
}
