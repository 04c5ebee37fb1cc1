/*
 * func_html: functions over HTML: unescape_html, html_text. Both read their input once from front
 * to back, accept any bytes as HTML, and write no more than they read, so the output is allocated
 * once and no write needs a check.
 *
 * This is not an HTML parser: a mail's markup is often broken, but its text is needed nevertheless.
 * The result is plain text for people and models; it must not be used as HTML again.
 */
#include "expr/html.h"

#include "base/ascii.h"
#include "expr/func.h"

enum {
    REFERENCE_BYTES_MAX = 12, /* enough for &#x0010FFFF; */
    LINES_BETWEEN_MAX = 2,    /* at most one blank line */
    LATIN1_FIRST = 160,
};

/* ---- references ---- */

/* HTML's names of U+00A0 to U+00FF, in order. */
static const char latin1[][7] = {
    "nbsp",   "iexcl",  "cent",   "pound",  "curren", "yen",    "brvbar", "sect",   "uml",
    "copy",   "ordf",   "laquo",  "not",    "shy",    "reg",    "macr",   "deg",    "plusmn",
    "sup2",   "sup3",   "acute",  "micro",  "para",   "middot", "cedil",  "sup1",   "ordm",
    "raquo",  "frac14", "frac12", "frac34", "iquest", "Agrave", "Aacute", "Acirc",  "Atilde",
    "Auml",   "Aring",  "AElig",  "Ccedil", "Egrave", "Eacute", "Ecirc",  "Euml",   "Igrave",
    "Iacute", "Icirc",  "Iuml",   "ETH",    "Ntilde", "Ograve", "Oacute", "Ocirc",  "Otilde",
    "Ouml",   "times",  "Oslash", "Ugrave", "Uacute", "Ucirc",  "Uuml",   "Yacute", "THORN",
    "szlig",  "agrave", "aacute", "acirc",  "atilde", "auml",   "aring",  "aelig",  "ccedil",
    "egrave", "eacute", "ecirc",  "euml",   "igrave", "iacute", "icirc",  "iuml",   "eth",
    "ntilde", "ograve", "oacute", "ocirc",  "otilde", "ouml",   "divide", "oslash", "ugrave",
    "uacute", "ucirc",  "uuml",   "yacute", "thorn",  "yuml"};

static const struct {
    const char *name;
    uint32_t point;
} others[] = {{"amp", '&'},       {"lt", '<'},        {"gt", '>'},       {"quot", '"'},
              {"apos", '\''},     {"ndash", 0x2013},  {"mdash", 0x2014}, {"lsquo", 0x2018},
              {"rsquo", 0x2019},  {"sbquo", 0x201A},  {"ldquo", 0x201C}, {"rdquo", 0x201D},
              {"bdquo", 0x201E},  {"bull", 0x2022},   {"zwnj", 0x200C},  {"zwj", 0x200D},
              {"hellip", 0x2026}, {"lsaquo", 0x2039}, {"euro", 0x20AC},  {"rsaquo", 0x203A},
              {"trade", 0x2122},  {"larr", 0x2190},   {"rarr", 0x2192},  {"ensp", 0x2002},
              {"emsp", 0x2003},   {"thinsp", 0x2009}, {"minus", 0x2212}};

static uint32_t named_character(slice name)
{
    for (size_t i = 0; i < ARRAY_LEN(others); i++)
        if (slice_eq_cstr(name, others[i].name))
            return others[i].point;
    for (uint32_t i = 0; i < ARRAY_LEN(latin1); i++)
        if (slice_eq_cstr(name, latin1[i]))
            return LATIN1_FIRST + i;
    return 0;
}

/* Returns the code point of a character reference, or 0 if it is not one. text is the part between
 * & and ;. */
static uint32_t referred_to(slice text)
{
    bool is_hex = text.len > 2 && (text.ptr[1] == 'x' || text.ptr[1] == 'X');
    uint32_t point = 0, base = is_hex ? 16 : 10;
    if (text.len < 2 || text.ptr[0] != '#')
        return named_character(text);
    for (size_t i = is_hex ? 2 : 1; i < text.len; i++) {
        char c = text.ptr[i];
        int digit = ascii_hex_value(c);
        if (digit < 0 || (uint32_t)digit >= base)
            return 0;
        /* The limit is checked at each digit: with many digits point would overflow and wrap to a
         * valid code point. */
        point = point * base + (uint32_t)digit;
        if (point > 0x10FFFF)
            return 0;
    }
    /* Surrogates are not characters (RFC 3629 3) and would make the result invalid UTF-8. */
    return point >= 0xD800 && point <= 0xDFFF ? 0 : point;
}

/* Returns the code point of the reference at the start of text, or 0 if there is none. Sets *len to
 * its length. */
static uint32_t reference_at(slice text, size_t *len)
{
    ASSERT(text.len > 0 && text.ptr[0] == '&');
    /* The length is limited, so that a text of ampersands costs linear time. */
    slice rest = slice_first(slice_from(text, 1), REFERENCE_BYTES_MAX);
    ptrdiff_t end = slice_find_char(rest, ';');
    *len = end > 0 ? (size_t)end + 2 : 1;
    return end > 0 ? referred_to(slice_first(rest, (size_t)end)) : 0;
}

static size_t put_point(char *to, uint32_t point)
{
    size_t len = point < 0x80 ? 1 : point < 0x800 ? 2 : point < 0x10000 ? 3 : 4;
    static const unsigned char marks[] = {0, 0, 0xC0, 0xE0, 0xF0};
    for (size_t i = len; i-- > 1; point >>= 6)
        to[i] = (char)(0x80 | (point & 0x3F));
    to[0] = (char)(marks[len] | point);
    return len;
}

/* Writes into `to`, which must have as many bytes as text: a reference is never shorter than its
 * character. Returns the bytes written. */
static size_t put_unescaped(char *to, slice text)
{
    size_t len = 0;
    for (size_t i = 0; i < text.len;) {
        size_t taken = 1;
        uint32_t point = text.ptr[i] == '&' ? reference_at(slice_from(text, i), &taken) : 0;
        if (point == 0) {
            to[len++] = text.ptr[i++];
            continue;
        }
        len += put_point(to + len, point);
        i += taken;
    }
    return len;
}

EXPR_FUNCTION(unescape_html)
{
    slice text = json_str(&args[0]);
    char *to = NULL;
    int rc = expr_run_scan(run, text.len);
    *out = args[0];
    if (rc != OK || slice_find_char(text, '&') < 0)
        return rc;
    rc = expr_run_text(run, text.len, &to);
    if (rc == OK)
        *out = expr_string(to, put_unescaped(to, text));
    return rc;
}

/* ---- the text of a page ---- */

/* The space between two words is not written until the second word arrives, so that the text
 * neither begins nor ends with white space. */
struct page {
    char *text;
    size_t len;
    unsigned lines; /* line feeds that are due */
    bool is_space_due, is_item_due;
    bool is_kept;  /* inside <pre>, where white space is preserved */
    slice link;    /* href of the open <a>; SLICE_NONE if it is not the URL of a web page */
    size_t linked; /* where the text of the link begins */
};

/* What a start tag does; an end tag does the same, except for items. */
enum tag_kind {
    TAG_NONE,
    TAG_BREAK,
    TAG_LINE,
    TAG_BLOCK,
    TAG_ITEM,
    TAG_CELL,
    TAG_PRE,
    TAG_LINK,
    TAG_HIDDEN
};

static const struct {
    const char *name;
    enum tag_kind kind;
} tags[] = {
    {"a", TAG_LINK},      {"address", TAG_LINE},  {"article", TAG_LINE}, {"blockquote", TAG_BLOCK},
    {"br", TAG_BREAK},    {"center", TAG_LINE},   {"dd", TAG_LINE},      {"div", TAG_LINE},
    {"dl", TAG_BLOCK},    {"dt", TAG_LINE},       {"footer", TAG_LINE},  {"h1", TAG_BLOCK},
    {"h2", TAG_BLOCK},    {"h3", TAG_BLOCK},      {"h4", TAG_BLOCK},     {"h5", TAG_BLOCK},
    {"h6", TAG_BLOCK},    {"header", TAG_LINE},   {"hr", TAG_BLOCK},     {"li", TAG_ITEM},
    {"main", TAG_LINE},   {"nav", TAG_LINE},      {"ol", TAG_BLOCK},     {"p", TAG_BLOCK},
    {"pre", TAG_PRE},     {"script", TAG_HIDDEN}, {"section", TAG_LINE}, {"style", TAG_HIDDEN},
    {"table", TAG_BLOCK}, {"td", TAG_CELL},       {"th", TAG_CELL},      {"title", TAG_HIDDEN},
    {"tr", TAG_LINE},     {"ul", TAG_BLOCK}};

static enum tag_kind tag_kind(slice name)
{
    for (size_t i = 0; i < ARRAY_LEN(tags); i++)
        if (slice_eq_nocase(name, slice_cstr(tags[i].name)))
            return tags[i].kind;
    return TAG_NONE;
}

static bool is_white(char c)
{
    return c == ' ' || c == '\t' || c == '\n' || c == '\r' || c == '\f';
}

/* Characters without a glyph. Mails contain rows of them between spaces, so that previews show
 * no more text; within a word they have a meaning. */
static bool is_invisible(slice character)
{
    static const char *const all[] = {"\xC2\xAD",     "\xCD\x8F",     "\xE2\x80\x8B",
                                      "\xE2\x80\x8C", "\xE2\x80\x8D", "\xE2\x80\x8E",
                                      "\xE2\x80\x8F", "\xEF\xBB\xBF"};
    for (size_t i = 0; i < ARRAY_LEN(all); i++)
        if (slice_eq_cstr(character, all[i]))
            return true;
    return false;
}

/* Returns the first character of text; the first byte gives its length. */
static slice first_character(slice text)
{
    unsigned char c = (unsigned char)text.ptr[0];
    return slice_first(text, c < 0xC0 ? 1 : c < 0xE0 ? 2 : c < 0xF0 ? 3 : 4);
}

static void need_lines(struct page *page, unsigned count)
{
    page->lines = page->lines > count ? page->lines : count;
}

static void put_gap(struct page *page)
{
    /* There is no gap before the first word: len is 0 until some text is written. */
    if (page->len > 0 && page->lines > 0)
        for (unsigned i = 0; i < page->lines; i++)
            page->text[page->len++] = '\n';
    else if (page->len > 0 && page->is_space_due)
        page->text[page->len++] = ' ';
    if (page->is_item_due) {
        page->text[page->len++] = '-';
        page->text[page->len++] = ' ';
    }
    page->lines = 0;
    page->is_space_due = page->is_item_due = false;
}

static void put_bytes(struct page *page, slice bytes)
{
    put_gap(page);
    memcpy(page->text + page->len, bytes.ptr, bytes.len);
    page->len += bytes.len;
}

/* Writes one character of the text, or one reference. Returns the bytes read. */
static size_t put_character(struct page *page, slice rest)
{
    char bytes[4];
    size_t taken = 1;
    uint32_t point = rest.ptr[0] == '&' ? reference_at(rest, &taken) : 0;
    slice character = point ? slice_of(bytes, put_point(bytes, point)) : first_character(rest);
    /* Invisible characters are kept only within a word (see is_invisible). */
    bool is_gap = page->len == 0 || page->lines > 0 || page->is_space_due;
    if ((character.len == 1 && is_white(character.ptr[0]) && !page->is_kept) ||
        slice_eq_cstr(character, "\xC2\xA0"))
        page->is_space_due = true;
    else if (!is_gap || !is_invisible(character))
        put_bytes(page, character);
    return point ? taken : character.len;
}

/* Returns the value of the href attribute if it is the URL of a web page. */
static slice link_of(slice tag)
{
    while (tag.len > 0) {
        while (tag.len > 0 && (is_white(tag.ptr[0]) || tag.ptr[0] == '/'))
            tag = slice_from(tag, 1);
        size_t end = 0;
        while (end < tag.len && !is_white(tag.ptr[end]) && tag.ptr[end] != '=')
            end++;
        slice name = slice_first(tag, end), value = SLICE_NONE;
        tag = slice_from(tag, end);
        if (tag.len > 1 && tag.ptr[0] == '=') {
            char quote = tag.ptr[1] == '"' || tag.ptr[1] == '\'' ? tag.ptr[1] : 0;
            tag = slice_from(tag, quote ? 2 : 1);
            for (end = 0;
                 end < tag.len && (quote ? tag.ptr[end] != quote : !is_white(tag.ptr[end]));)
                end++;
            value = slice_first(tag, end);
            tag = slice_from(tag, end < tag.len ? end + 1 : end);
        } else if (end == 0) {
            tag = slice_from(tag, 1);
        }
        if (slice_eq_nocase(name, SLICE("href")))
            /* Other schemes (mailto:, javascript:) do not lead to web pages. */
            return slice_starts_with(value, SLICE("http")) ? value : SLICE_NONE;
    }
    return SLICE_NONE;
}

static void open_link(struct page *page, slice tag)
{
    page->link = link_of(tag);
    page->linked = page->len;
}

/* Writes " (https://...)" after the text of a link, unless the text is the same URL. */
static void close_link(struct page *page)
{
    slice link = page->link;
    page->link = SLICE_NONE;
    if (link.len == 0 || page->len == page->linked)
        return;
    /* If the text of a link is its own address, the address would appear twice. */
    slice said = slice_trim(slice_of(page->text + page->linked, page->len - page->linked));
    if (slice_eq(said, link))
        return;
    page->text[page->len++] = ' ';
    page->text[page->len++] = '(';
    /* The address may contain references (&amp;), which are shorter once resolved. */
    page->len += put_unescaped(page->text + page->len, link);
    page->text[page->len++] = ')';
}

static void apply_tag(struct page *page, enum tag_kind kind, bool is_end, slice attributes)
{
    switch (kind) {
    case TAG_BREAK:
        page->lines += page->lines < LINES_BETWEEN_MAX;
        break;
    case TAG_ITEM:
        need_lines(page, 1);
        page->is_item_due = !is_end;
        break;
    case TAG_LINE:
        need_lines(page, 1);
        break;
    case TAG_PRE:
        page->is_kept = !is_end;
        need_lines(page, LINES_BETWEEN_MAX);
        break;
    case TAG_BLOCK:
        need_lines(page, LINES_BETWEEN_MAX);
        break;
    case TAG_CELL:
        page->is_space_due = true;
        break;
    case TAG_LINK:
        if (is_end)
            close_link(page);
        else
            open_link(page, attributes);
        break;
    case TAG_NONE:
    case TAG_HIDDEN:
        break;
    }
}

/* Returns the length of the tag at the start of text, including its >; a > in quotes does not end
 * the tag. */
static size_t tag_len(slice text)
{
    char quote = 0;
    for (size_t i = 1; i < text.len; i++) {
        char c = text.ptr[i];
        if (c == quote)
            quote = 0;
        /* A quote begins only after '=': elsewhere in a tag, an apostrophe that was read as a quote
         * would hide the rest of the page. */
        else if (quote == 0 && (c == '"' || c == '\'') && text.ptr[i - 1] == '=')
            quote = c;
        else if (quote == 0 && c == '>')
            return i + 1;
    }
    return text.len;
}

/* Returns the number of bytes before the element's end tag, or the length of text if there is
 * none. */
static size_t hidden_len(slice text, slice name)
{
    for (size_t i = 0; i < text.len; i++)
        /* Only its own end tag ends a script or style; a "<" inside is text (HTML Standard
         * 13.2.5.3, 13.2.5.4). */
        if (text.ptr[i] == '<' && i + 1 < text.len && text.ptr[i + 1] == '/' &&
            slice_eq_nocase(slice_first(slice_from(text, i + 2), name.len), name))
            return i;
    return text.len;
}

/* Reads a tag, comment or declaration, and the content of an element that is not shown. Returns the
 * number of bytes read, or 0 if the < is plain text. */
static size_t read_markup(struct page *page, slice text)
{
    if (slice_starts_with(text, SLICE("<!--"))) {
        ptrdiff_t end = slice_find(slice_from(text, 4), SLICE("-->"));
        /* An unclosed comment hides the rest, as in a browser. The 7 bytes are "<!--" and "-->". */
        return end < 0 ? text.len : (size_t)end + 7;
    }
    bool is_end = text.len > 1 && text.ptr[1] == '/';
    size_t start = is_end ? 2 : 1;
    if (text.len <= start)
        return 0;
    if (text.ptr[start] == '!' || text.ptr[start] == '?')
        return tag_len(text);
    if (!ascii_is_letter(text.ptr[start]))
        /* "<3" and "a < b" are text. */
        return 0;
    size_t len = tag_len(text), end = start;
    while (end < len && !is_white(text.ptr[end]) && text.ptr[end] != '>' && text.ptr[end] != '/')
        end++;
    slice name = slice_from(slice_first(text, end), start);
    enum tag_kind kind = tag_kind(name);
    if (kind == TAG_HIDDEN && !is_end)
        return len + hidden_len(slice_from(text, len), name);
    /* Without a ">" the tag ends with the text. */
    size_t inner = text.ptr[len - 1] == '>' ? len - 1 : len;
    apply_tag(page, kind, is_end, slice_from(slice_first(text, inner), end < inner ? end : inner));
    return len;
}

/* The output is never longer than the markup that causes it: "\n\n" needs at least a <p>, "\n- "
 * an <li>, " ()" an <a href=...></a>. */
size_t expr_html_text(slice text, char *to)
{
    struct page page = {.text = to};
    for (size_t i = 0; i < text.len;) {
        slice rest = slice_from(text, i);
        size_t taken = text.ptr[i] == '<' ? read_markup(&page, rest) : 0;
        i += taken > 0 ? taken : put_character(&page, rest);
    }
    ASSERT(page.len <= text.len);
    return page.len;
}

EXPR_FUNCTION(html_text)
{
    slice text = json_str(&args[0]);
    char *to = NULL;
    int rc = expr_run_text(run, text.len, &to);
    if (rc == OK)
        *out = expr_string(to, expr_html_text(text, to));
    return rc;
}

bool expr_text_has_words(slice text)
{
    while (text.len > 0) {
        slice character = first_character(text);
        if (!is_white(character.ptr[0]) && !slice_eq_cstr(character, "\xC2\xA0") &&
            !is_invisible(character))
            return true;
        text = slice_from(text, character.len);
    }
    return false;
}
