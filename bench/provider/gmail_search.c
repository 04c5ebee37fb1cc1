/*
 * Gmail's search language, from text to a tree in the request's arena, and whether a message
 * matches (support.google.com "Refine searches in Gmail"). Precedence as there: words stand for
 * AND, OR joins just its two neighbours, - excludes one term or group, ( ) groups, { } is any of.
 * What is not understood is searched for as words, as Gmail does; it never fails.
 */
#include "base/ascii.h"
#include "base/clock.h"
#include "provider/gmail.h"

enum { DEPTH_MAX = 20 };

enum query_kind {
    QUERY_ALL,  /* every message */
    QUERY_NONE, /* no message */
    QUERY_ALL_OF,
    QUERY_ANY_OF,
    QUERY_NOT,
    QUERY_WORDS,
    QUERY_LABEL,
    QUERY_ATTACHMENT,
    QUERY_USER_LABELS,
    QUERY_SINCE, /* time_ms >= number */
    QUERY_UNTIL, /* time_ms < number */
    QUERY_LARGER,
    QUERY_SMALLER,
    QUERY_MESSAGE_ID,
};

struct gmail_query {
    enum query_kind kind;
    enum gmail_field field;
    slice words;
    int64_t number;
    const struct gmail_label *label;
    struct gmail_query *first, *next; /* children, sibling */
};

struct parser {
    const struct gmail *gmail;
    struct arena *arena;
    slice rest;
    int64_t now_ms;
    bool wants_hidden;
    struct gmail_query *nodes; /* room for all that the text can ask for */
    size_t used;
};

/* What stands before a colon: it reads what stands behind it. */
struct prefix {
    const char *name;
    struct gmail_query *(*read)(struct parser *p, const struct prefix *op, slice value);
    enum query_kind kind;
    enum gmail_field field;
};

static struct gmail_query *new_node(struct parser *p, enum query_kind kind)
{
    struct gmail_query *node = &p->nodes[p->used++];
    node->kind = kind;
    return node;
}

static struct gmail_query *negate(struct parser *p, struct gmail_query *child)
{
    struct gmail_query *node = new_node(p, QUERY_NOT);
    node->first = child;
    return node;
}

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
    for (size_t i = 0; i < text.len; i++) {
        if (is_word_byte(text.ptr[i]))
            out[len++] = ascii_lower(text.ptr[i]);
        else if (out[len - 1] != ' ')
            out[len++] = ' ';
    }
    if (out[len - 1] != ' ')
        out[len++] = ' ';
    return slice_of(out, len);
}

static struct gmail_query *words_term(struct parser *p, const struct prefix *op, slice text)
{
    struct gmail_query *node = new_node(p, QUERY_WORDS);
    node->field = op->field;
    node->words = gmail_words_of(p->arena, text);
    if (node->words.len <= 1)
        node->kind = QUERY_ALL; /* nothing but punctuation: no condition */
    return node;
}

static struct gmail_query *find_label(struct parser *p, slice name)
{
    struct gmail_query *node = new_node(p, QUERY_LABEL);
    node->label = gmail_label_find_name(p->gmail, name);
    if (!node->label)
        node->kind = QUERY_NONE;
    else if (node->label->number == GMAIL_TRASH || node->label->number == GMAIL_SPAM)
        p->wants_hidden = true;
    return node;
}

/* in:, label:, is: and category: all name a label. */
static struct gmail_query *label_term(struct parser *p, const struct prefix *op, slice value)
{
    bool is_category = op->kind == QUERY_ANY_OF;
    if (slice_eq_nocase(value, SLICE("read")))
        return negate(p, find_label(p, SLICE("UNREAD")));
    if (slice_eq_nocase(value, SLICE("drafts")))
        value = SLICE("DRAFT");
    if (is_category && slice_eq_nocase(value, SLICE("primary")))
        value = SLICE("personal");
    if (!slice_eq_nocase(value, SLICE("anywhere")))
        return find_label(p, is_category ? arena_printf(p->arena, "CATEGORY_%.*s", SLICE_ARG(value))
                                         : value);
    p->wants_hidden = true;
    return new_node(p, QUERY_ALL);
}

static struct gmail_query *has_term(struct parser *p, const struct prefix *op, slice value)
{
    (void)op;
    return new_node(p, slice_eq_nocase(value, SLICE("attachment"))   ? QUERY_ATTACHMENT
                       : slice_eq_nocase(value, SLICE("userlabels")) ? QUERY_USER_LABELS
                                                                     : QUERY_NONE);
}

static struct gmail_query *number_term(struct parser *p, const struct prefix *op, bool is_good,
                                       int64_t number)
{
    struct gmail_query *node = new_node(p, is_good ? op->kind : QUERY_NONE);
    node->number = number;
    return node;
}

/* "2026/01/31", "2026-1-31", "01/31/2026" or seconds since 1970. */
static struct gmail_query *date_term(struct parser *p, const struct prefix *op, slice value)
{
    uint64_t n[3] = {0};
    char separator = slice_find_char(value, '/') >= 0 ? '/' : '-';
    bool is_good = true;
    if (slice_to_u64(value, UINT64_C(99999999999), &n[0]))
        return number_term(p, op, true, (int64_t)n[0] * 1000);
    for (int i = 0; i < 3; i++)
        is_good &= slice_to_u64(slice_split(&value, separator), 9999, &n[i]);
    bool is_year_last = n[2] > 31;
    uint64_t year = n[is_year_last ? 2 : 0], month = n[is_year_last ? 0 : 1];
    uint64_t day = n[is_year_last ? 1 : 2];
    if (!is_good || value.ptr || year < 1970 || month < 1 || month > 12 || day < 1 || day > 31)
        return number_term(p, op, false, 0);
    int64_t days = time_days_from_civil((int64_t)year, (unsigned)month, (unsigned)day);
    return number_term(p, op, true, days * 86400000);
}

/* A number and the unit that is its last letter; false where it is none. */
static bool read_units(slice value, const char *letters, const int64_t *units, int64_t *out)
{
    const char *letter = value.len ? strchr(letters, ascii_lower(value.ptr[value.len - 1])) : NULL;
    uint64_t count;
    if (letter)
        value.len--;
    if (!slice_to_u64(value, UINT32_MAX, &count))
        return false;
    *out = (int64_t)count * (letter ? units[letter - letters] : 1);
    return true;
}

/* newer_than:7d, older_than:2m; days, months of 30, years of 365, and hours. */
static struct gmail_query *age_term(struct parser *p, const struct prefix *op, slice value)
{
    static const int64_t units[] = {1, 24, 30 * 24, 365 * 24};
    int64_t hours = 0;
    bool has_unit = value.len && ascii_is_letter(value.ptr[value.len - 1]);
    bool is_good = has_unit && read_units(value, "hdmy", units, &hours) &&
                   hours <= 10000 * units[3];
    return number_term(p, op, is_good, p->now_ms - (is_good ? hours * 3600000 : 0));
}

/* larger:5M, smaller:200K */
static struct gmail_query *size_term(struct parser *p, const struct prefix *op, slice value)
{
    static const int64_t units[] = {1024, 1024 * 1024};
    int64_t bytes = 0;
    bool is_good = read_units(value, "km", units, &bytes);
    return number_term(p, op, is_good, bytes);
}

static struct gmail_query *id_term(struct parser *p, const struct prefix *op, slice value)
{
    struct gmail_query *node = new_node(p, op->kind);
    if (value.len > 1 && value.ptr[0] == '<' && value.ptr[value.len - 1] == '>')
        value = slice_of(value.ptr + 1, value.len - 2);
    node->words = value;
    return node;
}

static const struct prefix prefixes[] = {
    {"from", words_term, QUERY_WORDS, GMAIL_FIELD_FROM},
    {"to", words_term, QUERY_WORDS, GMAIL_FIELD_TO},
    {"subject", words_term, QUERY_WORDS, GMAIL_FIELD_SUBJECT},
    {"filename", words_term, QUERY_WORDS, GMAIL_FIELD_FILENAME},
    {"is", label_term, QUERY_LABEL, GMAIL_FIELD_ALL},
    {"in", label_term, QUERY_LABEL, GMAIL_FIELD_ALL},
    {"label", label_term, QUERY_LABEL, GMAIL_FIELD_ALL},
    {"category", label_term, QUERY_ANY_OF, GMAIL_FIELD_ALL},
    {"has", has_term, QUERY_ALL, GMAIL_FIELD_ALL},
    {"after", date_term, QUERY_SINCE, GMAIL_FIELD_ALL},
    {"before", date_term, QUERY_UNTIL, GMAIL_FIELD_ALL},
    {"newer_than", age_term, QUERY_SINCE, GMAIL_FIELD_ALL},
    {"older_than", age_term, QUERY_UNTIL, GMAIL_FIELD_ALL},
    {"larger", size_term, QUERY_LARGER, GMAIL_FIELD_ALL},
    {"smaller", size_term, QUERY_SMALLER, GMAIL_FIELD_ALL},
    {"rfc822msgid", id_term, QUERY_MESSAGE_ID, GMAIL_FIELD_ALL},
};

/* What is searched for without an operator. */
static const struct prefix anything = {"", words_term, QUERY_WORDS, GMAIL_FIELD_ALL};

static const struct prefix *find_prefix(slice name)
{
    for (size_t i = 0; i < ARRAY_LEN(prefixes); i++)
        if (slice_eq_nocase(name, slice_cstr(prefixes[i].name)))
            return &prefixes[i];
    return NULL;
}

/* ---- the text ---- */

static bool is_word_end(char c)
{
    return c && strchr(" \t\n\r(){}\"", c);
}

static slice take_quoted(struct parser *p)
{
    slice text = slice_from(p->rest, 1);
    ptrdiff_t end = slice_find_char(text, '"');
    slice phrase = end < 0 ? text : slice_first(text, (size_t)end);
    p->rest = slice_from(text, end < 0 ? text.len : (size_t)end + 1);
    return phrase;
}

static slice word_ahead(const struct parser *p)
{
    size_t len = 0;
    while (len < p->rest.len && !is_word_end(p->rest.ptr[len]))
        len++;
    return slice_first(p->rest, len);
}

/* Takes that word, where it comes next. */
static bool take_word(struct parser *p, slice word)
{
    p->rest = slice_trim(p->rest);
    bool is_next = slice_eq(word_ahead(p), word);
    if (is_next)
        p->rest = slice_trim(slice_from(p->rest, word.len));
    return is_next;
}

static struct gmail_query *parse_list(struct parser *p, const struct prefix *op, char closing,
                                      unsigned depth);

/* What an operator applies to; NULL: there is nothing. */
static struct gmail_query *parse_value(struct parser *p, const struct prefix *op, unsigned depth)
{
    char c = p->rest.len ? p->rest.ptr[0] : ')';
    if (c == ')' || c == '}')
        return NULL;
    if (c == '"')
        return op->read(p, op, take_quoted(p));
    slice word = word_ahead(p);
    p->rest = slice_from(p->rest, word.len ? word.len : 1);
    if (word.len)
        return op->read(p, op, word);
    bool is_group = (c == '(' || c == '{') && depth < DEPTH_MAX;
    return is_group ? parse_list(p, op, c == '(' ? ')' : '}', depth + 1) : NULL;
}

static struct gmail_query *parse_term(struct parser *p, const struct prefix *op, unsigned depth)
{
    bool is_negated = false;
    while (p->rest.len && (p->rest.ptr[0] == '-' || p->rest.ptr[0] == '+')) {
        is_negated ^= p->rest.ptr[0] == '-';
        p->rest = slice_from(p->rest, 1);
    }
    slice word = word_ahead(p);
    ptrdiff_t colon = slice_find_char(word, ':');
    const struct prefix *named = colon > 0 ? find_prefix(slice_first(word, (size_t)colon)) : NULL;
    if (named)
        p->rest = slice_from(p->rest, (size_t)colon + 1);
    struct gmail_query *node = parse_value(p, named ? named : op, depth);
    return node && is_negated ? negate(p, node) : node;
}

/* Terms with OR between them; NULL: there is none. */
static struct gmail_query *parse_or(struct parser *p, const struct prefix *op, unsigned depth)
{
    struct gmail_query *any = new_node(p, QUERY_ANY_OF), **end = &any->first;
    do {
        *end = parse_term(p, op, depth);
        if (*end)
            end = &(*end)->next;
    } while (take_word(p, SLICE("OR")));
    return any->first && any->first->next ? any : any->first;
}

/* What stands up to `closing` (0: the end), joined by AND; in braces by OR. */
static struct gmail_query *parse_list(struct parser *p, const struct prefix *op, char closing,
                                      unsigned depth)
{
    struct gmail_query *list = new_node(p, closing == '}' ? QUERY_ANY_OF : QUERY_ALL_OF);
    struct gmail_query **end = &list->first;
    for (p->rest = slice_trim(p->rest); p->rest.len; p->rest = slice_trim(p->rest)) {
        char c = p->rest.ptr[0];
        if (c == ')' || c == '}')
            p->rest = slice_from(p->rest, 1);
        if (c == closing)
            break;
        if (c == ')' || c == '}' || take_word(p, SLICE("OR")) || take_word(p, SLICE("AND")))
            continue;
        *end = parse_or(p, op, depth);
        if (*end)
            end = &(*end)->next;
    }
    return list;
}

struct gmail_query *gmail_query_parse(const struct gmail *gmail, struct arena *arena, slice text,
                                      int64_t now_us, bool *wants_hidden)
{
    struct parser p = {.gmail = gmail, .arena = arena, .rest = text, .now_ms = now_us / 1000};
    /* Each node takes a byte of the text or more, but the root and what - and OR wrap. */
    p.nodes = ARENA_ARRAY(arena, struct gmail_query, 2 * text.len + 4);
    struct gmail_query *root = p.nodes ? parse_list(&p, &anything, 0, 0) : NULL;
    *wants_hidden = p.wants_hidden;
    return root;
}

/* ---- matching ---- */

static bool matches_words(const struct gmail_query *query, const struct gmail_message *message)
{
    slice words = message->words[query->field], wanted = query->words;
    return memmem(words.ptr, words.len, wanted.ptr, wanted.len) != NULL;
}

static bool has_user_label(const struct gmail_message *message)
{
    for (unsigned i = 0; i < message->label_count; i++)
        if (message->labels[i]->is_user)
            return true;
    return false;
}

/* Whether one of the children gives that answer. */
static bool any_is(const struct gmail_query *first, const struct gmail_message *message, bool is)
{
    for (const struct gmail_query *child = first; child; child = child->next)
        if (gmail_query_matches(child, message) == is)
            return true;
    return false;
}

bool gmail_query_matches(const struct gmail_query *query, const struct gmail_message *message)
{
    slice id = message->message_id;
    switch (query->kind) {
    case QUERY_ALL:
        return true;
    case QUERY_NONE:
        return false;
    case QUERY_ALL_OF:
        return !any_is(query->first, message, false);
    case QUERY_ANY_OF:
        return !query->first || any_is(query->first, message, true);
    case QUERY_NOT:
        return !gmail_query_matches(query->first, message);
    case QUERY_WORDS:
        return matches_words(query, message);
    case QUERY_LABEL:
        return gmail_has(message, query->label);
    case QUERY_ATTACHMENT:
        return message->has_attachment;
    case QUERY_USER_LABELS:
        return has_user_label(message);
    case QUERY_SINCE:
        return message->time_ms >= query->number;
    case QUERY_UNTIL:
        return message->time_ms < query->number;
    case QUERY_LARGER:
        return message->size > (uint64_t)query->number;
    case QUERY_SMALLER:
        return message->size < (uint64_t)query->number;
    case QUERY_MESSAGE_ID:
        return id.len > 2 && slice_eq(slice_of(id.ptr + 1, id.len - 2), query->words);
    }
    return false;
}

const struct gmail_order *gmail_query_order(const struct gmail *gmail,
                                            const struct gmail_query *query)
{
    const struct gmail_order *best = &gmail->all;
    if (query->kind == QUERY_LABEL)
        return &query->label->order;
    for (const struct gmail_query *child = query->kind == QUERY_ALL_OF ? query->first : NULL; child;
         child = child->next) {
        const struct gmail_order *order = gmail_query_order(gmail, child);
        if (order->count < best->count)
            best = order;
    }
    return best;
}
