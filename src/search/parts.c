/*
 * Splits a query's text into parts and finds where clauses and quotations begin and end. A part is
 * either a word with its classes, or a sign: a text such as "#general", "OPS-77" or an address,
 * which does not consist of words. Bytes above 127 count as letters, so text in other scripts is
 * split at blanks.
 */
#include "search/reading.h"

#include "base/ascii.h"

/* Converts typographical quotes and dashes (U+2013 to U+201E) to ASCII, so that other code only
 * handles one form of each; other characters of that block become blanks. Returns the length. */
static size_t copy_straightened(slice text, char *out)
{
    size_t len = 0;
    /* `out` is large enough: no character becomes longer */
    ASSERT(text.len <= SEARCH_QUERY_BYTES_MAX);
    for (size_t i = 0; i < text.len; i++) {
        slice rest = slice_from(text, i);
        if (!slice_starts_with(rest, SLICE("\xe2\x80")) || rest.len < 3) {
            out[len++] = text.ptr[i];
            continue;
        }
        switch ((unsigned char)rest.ptr[2]) {
        case 0x93:
        case 0x94: /* dashes */
            out[len++] = ';';
            break;
        case 0x98:
        case 0x99: /* single quotes */
            out[len++] = '\'';
            break;
        case 0x9c:
        case 0x9d:
        case 0x9e: /* double quotes */
            out[len++] = '"';
            break;
        default:
            out[len++] = ' ';
        }
        i += 2;
    }
    return len;
}

static bool is_space(char c)
{
    return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

static bool is_word_end(slice text, size_t at)
{
    return at >= text.len || !ascii_is_alnum(text.ptr[at]);
}

/* Returns the length of the quotation that begins here, with its marks; 0 if no quotation begins,
 * or if it does not end. A single quote opens only at the beginning of a word and closes only at
 * the end of a word, so an apostrophe does not begin a quotation. */
static size_t quotation_len(slice text, size_t at)
{
    char mark = text.ptr[at];
    if (mark != '"' && (mark != '\'' || (at > 0 && !is_space(text.ptr[at - 1]))))
        return 0;
    for (size_t end = at + 1; end < text.len; end++)
        if (text.ptr[end] == mark && (mark == '"' || is_word_end(text, end + 1)))
            return end + 1 - at;
    return 0;
}

/* ---- signs ---- */

static bool has_suffix_of(slice chunk, const char *suffixes)
{
    slice list = slice_cstr(suffixes);
    while (list.len > 0) {
        slice suffix = slice_split(&list, ' ');
        if (chunk.len > suffix.len + 1 && chunk.ptr[chunk.len - suffix.len - 1] == '.' &&
            slice_eq_nocase(slice_from(chunk, chunk.len - suffix.len), suffix))
            return true;
    }
    return false;
}

/* Whether the chunk is a key like "OPS-77". */
static bool is_issue_key(slice chunk)
{
    size_t letters = 0, digits = 0;
    while (letters < chunk.len && ascii_is_upper(chunk.ptr[letters]))
        letters++;
    while (letters + 1 + digits < chunk.len && ascii_is_digit(chunk.ptr[letters + 1 + digits]))
        digits++;
    return letters >= 2 && digits > 0 && letters + 1 + digits == chunk.len &&
           chunk.ptr[letters] == '-';
}

/* Whether the chunk is a cell of a spreadsheet: "B7", but not "Q3", which is a quarter of a
 * year. */
static bool is_cell(slice chunk)
{
    size_t letters = 0, digits = 0;
    while (letters < chunk.len && ascii_is_upper(chunk.ptr[letters]))
        letters++;
    while (letters + digits < chunk.len && ascii_is_digit(chunk.ptr[letters + digits]))
        digits++;
    return letters > 0 && letters < 3 && digits > 0 && letters + digits == chunk.len &&
           chunk.ptr[0] != 'Q';
}

/* Recognizes a chunk that does not consist of words: an address, a URL, a path, a person's handle,
 * "#general", "#42", "OPS-77", "report.pdf". Returns false if the chunk consists of words. Sets
 * *means to words with the sign's meaning, or to empty. */
static bool is_sign(slice chunk, slice *means)
{
    *means = SLICE_NONE;
    if (chunk.len < 2)
        return false;
    if (chunk.ptr[0] == '#') {
        *means = ascii_is_digit(chunk.ptr[1]) ? SLICE("issue ticket") : SLICE("channel");
        return ascii_is_alnum(chunk.ptr[1]);
    }
    if (is_issue_key(chunk) || is_cell(chunk)) {
        *means = is_cell(chunk) ? SLICE("cell range") : SLICE("issue ticket");
        return true;
    }
    if (slice_find(chunk, SLICE("://")) >= 0) {
        *means = SLICE("url");
        return true;
    }
    if (slice_find_char(chunk, '@') >= 0 || chunk.ptr[0] == '/' ||
        slice_starts_with(chunk, SLICE("www.")))
        return true;
    if (!has_suffix_of(chunk, "pdf doc docx xls xlsx csv txt md png jpg jpeg gif mp4 mov zip json "
                              "yaml yml ppt pptx html js ts py c h"))
        return false;
    *means = SLICE("file document");
    return true;
}

/* ---- parts ---- */

static void know_word(const struct search_index *index, struct search_part *part)
{
    slice text = slice_of(part->token.text, part->token.len);
    const struct search_word *word = part->token.len > 0 ? search_index_word(index, text) : NULL;
    part->classes = word ? word->classes : 0;
    part->term = word                  ? &index->terms[word->term]
                 : part->token.len > 0 ? search_index_find(index, text)
                                       : NULL;
    /* A stop word counts as known only if a document or a synonym has it. */
    part->is_known = search_term_finds(part->term) &&
                     (!(part->classes & WORD_STOP) || part->classes & WORD_FINDS);
}

/* Reads the text between the previous word and this word. Marks count only next to a blank
 * ("example.com" does not end a sentence), and a period after a short capitalized word is an
 * abbreviation: "Mr. Wu" is one sentence. */
static void read_gap(struct search_reading *r, struct search_part *part, slice gap)
{
    const struct search_part *before = r->count > 0 ? part - 1 : NULL;
    bool is_spaced = false;
    part->begins_clause = r->count == 0;
    for (size_t i = 0; i < gap.len; i++)
        is_spaced = is_spaced || is_space(gap.ptr[i]);
    for (size_t i = 0; before && is_spaced && i < gap.len; i++) {
        char c = gap.ptr[i];
        bool is_short = c == '.' && before->is_capital && before->token.len <= 3;
        bool ends = (c == '.' && !is_short) || c == '!' || c == '?' || c == '\n';
        part->ends_sentence = part->ends_sentence || ends;
        part->follows_colon = part->follows_colon || c == ':';
        part->begins_clause = part->begins_clause || ends || c == ',' || c == ';' || c == ':' ||
                              (c == '-' && i > 0 && is_space(gap.ptr[i - 1]));
    }
}

static struct search_part *add_part(struct search_reading *r, slice gap)
{
    ASSERT(r->count < SEARCH_QUERY_WORDS_MAX);
    struct search_part *part = &r->parts[r->count];
    *part = (struct search_part){.role = ROLE_NONE};
    read_gap(r, part, gap);
    r->count++;
    return part;
}

/* Adds the chunk's words, or its sign as one part. */
static void read_chunk(const struct search_index *index, struct search_reading *r, slice gap,
                       slice chunk, bool is_quoted)
{
    slice means, rest = chunk;
    if (!is_quoted && is_sign(chunk, &means)) {
        struct search_part *part = add_part(r, gap);
        part->means = means;
        part->is_name = true;
        return;
    }
    while (r->count < SEARCH_QUERY_WORDS_MAX) {
        struct search_token token;
        const char *from = rest.ptr;
        if (!search_text_next(&rest, false, &token))
            return;
        if (from != chunk.ptr || token.source.ptr != from)
            /* Within a chunk, the gap is the text between two words: "and/or" is two parts. */
            gap = slice_of(from, (size_t)(token.source.ptr - from));
        struct search_part *part = add_part(r, gap);
        part->token = token;
        part->is_quoted = is_quoted;
        part->is_capital = ascii_is_upper(token.source.ptr[0]);
        know_word(index, part);
    }
}

/* Returns the text from the word's first byte to the next blank, without trailing punctuation. */
static slice chunk_at(slice text, size_t at)
{
    size_t end = at;
    while (end < text.len && !is_space(text.ptr[end]) && text.ptr[end] != '"')
        end++;
    while (end > at && memchr(".,;:!?)]}'", text.ptr[end - 1], 10))
        end--;
    return slice_from(slice_first(text, end), at);
}

static bool may_begin(slice text, size_t at)
{
    char c = text.ptr[at];
    return ascii_is_alnum(c) || c & 0x80 ||
           ((c == '#' || c == '@' || c == '/') && at + 1 < text.len &&
            ascii_is_alnum(text.ptr[at + 1]) && (at == 0 || is_space(text.ptr[at - 1])));
}

void search_parts_cut(const struct search_index *index, slice text, struct search_reading *out)
{
    size_t gap = 0, quoted_end = 0;
    text = slice_first_utf8(text, SEARCH_QUERY_BYTES_MAX);
    out->text_len = copy_straightened(text, out->text);
    text = slice_of(out->text, out->text_len);
    out->count = 0;
    for (size_t at = 0; at < text.len && out->count < SEARCH_QUERY_WORDS_MAX;) {
        if (at >= quoted_end && quotation_len(text, at) > 0)
            quoted_end = at + quotation_len(text, at);
        slice chunk = may_begin(text, at) ? chunk_at(text, at) : SLICE_NONE;
        if (chunk.len == 0) {
            at++;
            continue;
        }
        read_chunk(index, out, slice_from(slice_first(text, at), gap), chunk, at < quoted_end);
        at += chunk.len;
        gap = at;
    }
}

/* Splitting a sentence compares each part with many lists, so this compares letters in place: a
 * token has no blank and no NUL, at which a word of the list ends. */
bool search_part_is_any(const struct search_part *part, const char *words)
{
    size_t len = part->is_quoted ? 0 : part->token.len;
    const char *text = part->token.text;
    while (len > 0 && *words) {
        size_t same = 0;
        while (same < len && words[same] == text[same])
            same++;
        if (same == len && (words[same] == ' ' || words[same] == '\0'))
            return true;
        words += same;
        while (*words && *words != ' ')
            words++;
        if (*words)
            words++;
    }
    return false;
}

/* A sign begins where the word before it ends. */
static const char *start_of(const struct search_reading *r, size_t at)
{
    if (at >= r->count)
        return r->text + r->text_len;
    for (size_t i = at + 1; i-- > 0;) {
        slice source = r->parts[i].token.source;
        if (source.ptr)
            return i == at ? source.ptr : source.ptr + source.len;
    }
    return r->text;
}

slice search_parts_text(const struct search_reading *r, size_t first, size_t end)
{
    ASSERT(first <= end);
    const char *start = start_of(r, first);
    return slice_trim(slice_of(start, (size_t)(start_of(r, end) - start)));
}
