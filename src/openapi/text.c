/*
 * Words and ids. An id must be the same in every run, whatever is added to the document: it depends
 * only on the operation's own name, and a name that is too long or taken gets part of its hash.
 *
 * This matters because ids are in callers' code, grants and stored flows: a new operation in a
 * document must not rename the action of another operation.
 */
#include "openapi/internal.h"

#include "base/ascii.h"

enum { SLUG_BYTES_MAX = 200, HASH_DIGITS = 6 };

static bool is_lower_or_digit(char c)
{
    return ascii_is_lower(c) || ascii_is_digit(c);
}

/* Whether a new word begins here: list|Pets, and the last capital of a run, HTML|Page. */
static bool begins_word(slice text, size_t i)
{
    if (i == 0 || !ascii_is_upper(text.ptr[i]))
        return false;
    bool before_lower = i + 1 < text.len && ascii_is_lower(text.ptr[i + 1]);
    return is_lower_or_digit(text.ptr[i - 1]) || (ascii_is_upper(text.ptr[i - 1]) && before_lower);
}

slice import_slug(struct import *im, slice text)
{
    struct buf out;
    buf_init(&out, 4 * SLUG_BYTES_MAX);
    text = slice_first(text, SLUG_BYTES_MAX);
    bool wants_bar = false;
    for (size_t i = 0; i < text.len; i++) {
        char c = text.ptr[i];
        bool is_letter = ascii_is_upper(c) || is_lower_or_digit(c);
        wants_bar = wants_bar || !is_letter || begins_word(text, i);
        if (!is_letter)
            continue;
        if (wants_bar && out.len > 0)
            buf_append_char(&out, '_');
        /* An id begins with a letter. */
        if (out.len == 0 && ascii_is_digit(c))
            buf_append_cstr(&out, "n");
        buf_append_char(&out, ascii_lower(c));
        wants_bar = false;
    }
    slice slug = out.len > 0 ? arena_dup(im->arena, buf_slice(&out)) : SLICE_NONE;
    if (!buf_is_ok(&out))
        import_starve(im);
    buf_deinit(&out);
    return slug;
}

/* Words and version numbers that any description's title may have, and that do not identify the
 * app. */
static bool is_title_filler(slice word)
{
    slice fillers = SLICE(
        "a an and api apis definition description docs for extension http json documentation of "
        "official open openapi public rest reference restful s spec swagger the version "
        "specification web");
    if (slice_has_word(fillers, word))
        return true;
    /* v3, 2.0 */
    size_t digits = word.len > 0 && word.ptr[0] == 'v' ? 1 : 0;
    bool is_version = word.len > digits;
    for (size_t i = digits; i < word.len; i++)
        is_version = is_version && ascii_is_digit(word.ptr[i]);
    return is_version;
}

/* Puts the next word of letters and digits, in lower case, into `word`; returns false at the end.
 * All other bytes separate words, including UTF-8. */
static bool next_title_word(slice *title, char word[SLUG_BYTES_MAX], size_t *len)
{
    *len = 0;
    ASSERT(title->len <= SLUG_BYTES_MAX); /* all of it may be one word */
    for (; title->len > 0; *title = slice_from(*title, 1)) {
        char c = title->ptr[0];
        if (ascii_is_upper(c) || is_lower_or_digit(c))
            word[(*len)++] = ascii_lower(c);
        else if (*len > 0)
            break;
    }
    return *len > 0;
}

slice import_title_id(struct import *im, slice title, size_t max)
{
    char word[SLUG_BYTES_MAX];
    size_t word_len;
    struct buf out;
    buf_init(&out, 2 * SLUG_BYTES_MAX);
    slice rest = slice_first(title, SLUG_BYTES_MAX);
    while (next_title_word(&rest, word, &word_len)) {
        bool is_first = out.len == 0;
        if (is_title_filler(slice_of(word, word_len)) || (is_first && word[0] <= '9'))
            continue;
        if (!is_first && out.len + 1 + word_len > max)
            break;
        if (!is_first)
            buf_append_char(&out, '_');
        buf_append(&out, slice_first(slice_of(word, word_len), max));
    }
    slice id = out.len > 0 ? arena_dup(im->arena, buf_slice(&out))
                           : slice_first(import_slug(im, title), max);
    if (!buf_is_ok(&out))
        import_starve(im);
    buf_deinit(&out);
    return id;
}

/* Returns the slug cut to `max` bytes, ending in a 24-bit hash of its source. If two names of one
 * document share both the cut slug and the hash, the second is reported as taken, not merged. */
static slice hashed(struct import *im, slice slug, slice source, size_t max)
{
    ASSERT(max > HASH_DIGITS + 1); /* keeps a letter of the slug before the hash */
    unsigned hash = (unsigned)(hash_stable(source.ptr, source.len) & 0xffffff);
    slug = slice_first(slug, max - HASH_DIGITS - 1);
    while (slug.len > 1 && slug.ptr[slug.len - 1] == '_')
        slug.len--;
    return arena_printf(im->arena, "%.*s_%06x", SLICE_ARG(slug), hash);
}

slice import_action_id(struct import_op *op)
{
    struct import *im = op->im;
    ASSERT(im->prefix.len > 0 && im->prefix.len <= IMPORT_PREFIX_MAX);
    /* The length of a tool name that is left after "prefix_". */
    size_t max = CATALOG_TOOL_NAME_MAX - 1 - im->prefix.len;
    slice wanted = json_get_str(op->override, SLICE("action_id"));
    slice source =
        op->operation_id.len > 0
            ? op->operation_id
            : arena_printf(im->arena, "%.*s %.*s", SLICE_ARG(op->method), SLICE_ARG(op->path));
    slice slug = wanted.len > 0 ? wanted : import_slug(im, source);
    slice id = slug.len == 0 ? SLICE("operation") : slug;
    if (id.len > max)
        id = hashed(im, slug, source, max);
    if (map_get(&im->ids, id))
        id = hashed(im, id, source, max);
    if (map_get(&im->ids, id)) /* the same operationId twice */
        id = hashed(im, id, op->label, max);
    if (id.len == 0 || map_get(&im->ids, id)) {
        import_skip(op, "its action_id is taken; give it another in the overrides");
        return SLICE_NONE;
    }
    if (map_put(&im->ids, id, im, NULL) != OK)
        import_starve(im);
    return id;
}

slice import_clip(struct import *im, slice text, size_t max)
{
    ASSERT(max > 3); /* the "..." of a shortened text */
    text = slice_trim(text);
    bool is_cut = text.len > max;
    slice kept = slice_first_utf8(text, is_cut ? max - 3 : max);
    /* Cuts at a blank in the second half; a text without a blank there is cut inside a word. */
    for (size_t end = kept.len; is_cut && end > kept.len / 2; end--)
        if (kept.ptr[end - 1] == ' ' || kept.ptr[end - 1] == '\n') {
            kept.len = end - 1;
            break;
        }
    char *out = arena_alloc_text(im->arena, kept.len + 4);
    size_t len = 0;
    if (!out)
        return SLICE_NONE;
    for (size_t i = 0; i < kept.len; i++) {
        unsigned char c = (unsigned char)kept.ptr[i];
        if (c >= ' ' || c == '\n' || c == '\t')
            out[len++] = (char)c;
    }
    for (int i = 0; is_cut && i < 3; i++)
        out[len++] = '.';
    return slice_of(out, len);
}

slice import_literal(struct import *im, slice text)
{
    struct buf out;
    if (slice_find(text, SLICE("${")) < 0)
        return text;
    /* Each "${" becomes "$${", so the text grows by at most half. */
    buf_init(&out, 2 * text.len + 1);
    for (size_t i = 0; i < text.len; i++) {
        if (text.ptr[i] == '$' && i + 1 < text.len && text.ptr[i + 1] == '{')
            buf_append_char(&out, '$');
        buf_append_char(&out, text.ptr[i]);
    }
    slice literal = arena_dup(im->arena, buf_slice(&out));
    if (!buf_is_ok(&out))
        import_starve(im);
    buf_deinit(&out);
    return literal;
}
