/*
 * Gmail's search language (support.google.com "Refine searches in Gmail"), parsed and evaluated for
 * one mail at a time. Precedence as in Gmail: adjacent words are joined by AND, OR joins only its
 * two neighbours, - excludes one term or group, ( ) groups, { } means any of. Anything else is
 * searched for as words, as in Gmail. The parser never fails.
 */
#include "base/ascii.h"
#include "base/clock.h"
#include "provider/gmail.h"

enum { DEPTH_MAX = 20 };

/* Whether a term holds. NOTHING means that there was no term, so there is no condition. */
enum verdict { NO, YES, NOTHING };

struct search {
    const struct gmail *gmail;
    const struct record *record;
    const struct gmail_mail *mail;
    slice rest;
    int64_t now_ms;
    bool wants_hidden; /* the text itself asks for the trash or spam */
};

/* An operator: the word before a colon, and how the value after it is parsed. number: the field to
 * search, or a sign. */
struct prefix {
    const char *name;
    bool (*read)(struct search *s, const struct prefix *op, slice value);
    int number;
};

/* ---- operators ---- */

static bool is_word_byte(char c)
{
    return ascii_is_alnum(c) || (unsigned char)c >= 0x80;
}

slice gmail_words_of(struct arena *arena, slice text)
{
    char *out = arena_alloc_text(arena, text.len + 2);
    size_t len = 0;
    if (!out)
        return SLICE(" ");
    out[len++] = ' ';
    for (size_t i = 0; i < text.len; i++)
        if (is_word_byte(text.ptr[i]) || out[len - 1] != ' ')
            out[len++] = is_word_byte(text.ptr[i]) ? ascii_lower(text.ptr[i]) : ' ';
    if (out[len - 1] != ' ')
        out[len++] = ' ';
    return slice_of(out, len);
}

/* Returns whether the prepared words begin with the words of the value, which begins with a
 * word. */
static bool words_at(slice words, slice value)
{
    size_t at = 0;
    for (size_t i = 0; i <= value.len; i++) {
        char c = i < value.len && is_word_byte(value.ptr[i]) ? ascii_lower(value.ptr[i]) : ' ';
        if (c == ' ' && at && words.ptr[at - 1] == ' ')
            continue;
        if (at == words.len || words.ptr[at++] != c)
            return false;
    }
    return true;
}

/* Searches for the value's words next to each other. A value without words is not a condition. */
static bool words_term(struct search *s, const struct prefix *op, slice value)
{
    slice words = s->mail->words[op->number];
    while (value.len && !is_word_byte(*value.ptr))
        value = slice_from(value, 1);
    if (!value.len)
        return true;
    for (size_t i = 0; i + 1 < words.len; i++)
        if (words.ptr[i] == ' ' && words_at(slice_from(words, i + 1), value))
            return true;
    return false;
}

static bool has_label(struct search *s, slice name)
{
    const struct record *label = gmail_label_named(s->gmail, name);
    slice id = label ? slice_cstr(label->id) : SLICE_NONE;
    s->wants_hidden |= slice_has_word(SLICE("TRASH SPAM"), id);
    return label && gmail_has(s->record, id);
}

/* Evaluates the operators in:, label: and is:, whose value is the name of a label. */
static bool label_term(struct search *s, const struct prefix *op, slice value)
{
    (void)op;
    if (slice_eq_nocase(value, SLICE("read")))
        return !has_label(s, SLICE("UNREAD"));
    if (!slice_eq_nocase(value, SLICE("anywhere")))
        return has_label(s, slice_eq_nocase(value, SLICE("drafts")) ? SLICE("DRAFT") : value);
    s->wants_hidden = true;
    return true;
}

static bool has_term(struct search *s, const struct prefix *op, slice value)
{
    (void)op;
    return s->mail->has_attachment && slice_eq_nocase(value, SLICE("attachment"));
}

/* Returns whether the mail is from after that time, or from before it. */
static bool at_time(const struct search *s, const struct prefix *op, int64_t time_ms)
{
    return op->number > 0 ? s->mail->time_ms >= time_ms : s->mail->time_ms < time_ms;
}

/* Accepts "2026/01/31", "2026-1-31", "01/31/2026" and seconds since 1970. */
static bool date_term(struct search *s, const struct prefix *op, slice value)
{
    uint64_t n[3] = {0};
    char separator = slice_find_char(value, '/') >= 0 ? '/' : '-';
    if (slice_to_u64(value, UINT64_C(99999999999), &n[0]))
        return at_time(s, op, (int64_t)n[0] * 1000);
    for (int i = 0; i < 3; i++)
        if (!slice_to_u64(slice_split(&value, separator), 9999, &n[i]))
            return false;
    bool is_year_last = n[2] > 31;
    uint64_t year = n[is_year_last ? 2 : 0], month = n[is_year_last ? 0 : 1];
    uint64_t day = n[is_year_last ? 1 : 2];
    if (value.ptr || year < 1970 || month < 1 || month > 12 || day < 1 || day > 31)
        return false;
    return at_time(s, op,
                   time_days_from_civil((int64_t)year, (unsigned)month, (unsigned)day) * 86400000);
}

/* Evaluates newer_than:7d and older_than:2m: ages in days, months of 30 days, years of 365 days, or
 * hours. */
static bool age_term(struct search *s, const struct prefix *op, slice value)
{
    static const char letters[] = "hdmy";
    static const int64_t units[] = {1, 24, 30 * 24, 365 * 24};
    const char *letter = value.len ? strchr(letters, ascii_lower(value.ptr[value.len - 1])) : NULL;
    uint64_t count;
    return letter && *letter && slice_to_u64(slice_first(value, value.len - 1), 10000, &count) &&
           at_time(s, op, s->now_ms - (int64_t)count * units[letter - letters] * 3600000);
}

static const struct prefix prefixes[] = {
    {"", words_term, GMAIL_ALL},
    {"from", words_term, GMAIL_FROM},
    {"to", words_term, GMAIL_TO},
    {"subject", words_term, GMAIL_SUBJECT},
    {"filename", words_term, GMAIL_FILENAME},
    {"is", label_term, 0},
    {"in", label_term, 0},
    {"label", label_term, 0},
    {"has", has_term, 0},
    {"after", date_term, 1},
    {"before", date_term, -1},
    {"newer_than", age_term, 1},
    {"older_than", age_term, -1},
};

/* ---- the text ---- */

static bool is_word_end(char c)
{
    return c == ' ' || (c >= '\t' && c <= '\r') || c == '(' || c == ')' || c == '{' || c == '}' ||
           c == '"';
}

static slice word_ahead(const struct search *s)
{
    size_t len = 0;
    while (len < s->rest.len && !is_word_end(s->rest.ptr[len]))
        len++;
    return slice_first(s->rest, len);
}

/* Consumes the word if it comes next. */
static bool take_word(struct search *s, slice word)
{
    s->rest = slice_trim(s->rest);
    bool is_next = slice_starts_with(s->rest, word) && slice_eq(word_ahead(s), word);
    if (is_next)
        s->rest = slice_trim(slice_from(s->rest, word.len));
    return is_next;
}

static enum verdict read_list(struct search *s, const struct prefix *op, char closing,
                              unsigned depth);

/* Parses the value of an operator: a word, a quotation or a group. */
static enum verdict read_value(struct search *s, const struct prefix *op, unsigned depth)
{
    char c = s->rest.len ? s->rest.ptr[0] : ')';
    slice word = word_ahead(s);
    if (c == ')' || c == '}')
        return NOTHING;
    s->rest = slice_from(s->rest, word.len ? word.len : 1);
    if (c == '"') {
        word = slice_split(&s->rest, '"');
        return op->read(s, op, word) ? YES : NO;
    }
    if (word.len)
        return op->read(s, op, word) ? YES : NO;
    bool is_group = (c == '(' || c == '{') && depth < DEPTH_MAX;
    return is_group ? read_list(s, op, c == '(' ? ')' : '}', depth + 1) : NOTHING;
}

static enum verdict read_term(struct search *s, const struct prefix *op, unsigned depth)
{
    bool is_negated = false;
    while (s->rest.len && (s->rest.ptr[0] == '-' || s->rest.ptr[0] == '+')) {
        is_negated ^= s->rest.ptr[0] == '-';
        s->rest = slice_from(s->rest, 1);
    }
    slice behind = word_ahead(s);
    slice name = slice_split(&behind, ':');
    for (size_t i = 0; behind.ptr && name.len && i < ARRAY_LEN(prefixes); i++) {
        bool may_be = prefixes[i].name[0] == ascii_lower(*name.ptr); /* false for most prefixes */
        if (!may_be || !slice_eq_nocase(name, slice_cstr(prefixes[i].name)))
            continue;
        op = &prefixes[i];
        s->rest = slice_from(s->rest, name.len + 1);
        break;
    }
    enum verdict verdict = read_value(s, op, depth);
    return verdict == NOTHING || !is_negated ? verdict : verdict == YES ? NO : YES;
}

/* Parses the text up to `closing` (0: the end). Terms with OR between them are joined by OR, the
 * results by AND, or in braces by OR. The whole text is parsed, whatever the result. */
static enum verdict read_list(struct search *s, const struct prefix *op, char closing,
                              unsigned depth)
{
    bool is_any = closing == '}', all = true, any = false, is_empty = true;
    for (s->rest = slice_trim(s->rest); s->rest.len; s->rest = slice_trim(s->rest)) {
        enum verdict verdict = NOTHING;
        char c = s->rest.ptr[0];
        if (c == ')' || c == '}')
            s->rest = slice_from(s->rest, 1);
        if (c == closing)
            break;
        if (c == ')' || c == '}' || take_word(s, SLICE("OR")) || take_word(s, SLICE("AND")))
            continue;
        do {
            enum verdict one = read_term(s, op, depth);
            verdict = verdict == YES || one == NOTHING ? verdict : one;
        } while (take_word(s, SLICE("OR")));
        all &= verdict != NO;
        any |= verdict == YES;
        is_empty &= verdict == NOTHING;
    }
    return (is_any ? any || is_empty : all) ? YES : NO;
}

bool gmail_matches(const struct gmail *gmail, const struct record *mail, slice q, int64_t now_us,
                   bool shows_hidden)
{
    struct search s = {
        .gmail = gmail, .record = mail, .mail = mail->more, .rest = q, .now_ms = now_us / 1000};
    bool is_found = read_list(&s, &prefixes[0], 0, 0) == YES;
    return is_found && (shows_hidden || s.wants_hidden ||
                        !(gmail_has(mail, SLICE("TRASH")) || gmail_has(mail, SLICE("SPAM"))));
}
