/*
 * Gmail's search language, from text to a tree in the request's arena
 * (support.google.com "Refine searches in Gmail"). Precedence as there: words stand for AND, OR
 * joins just its two neighbours, - excludes one term or group, ( ) groups, { } is any of. What is
 * not understood is searched for as words, as Gmail does; it never fails.
 */
#include "provider/gmail_query.h"

#include "base/clock.h"

enum { DEPTH_MAX = 20 };

struct parser {
    const struct gmail *gmail;
    struct arena *arena;
    slice rest;
    int64_t now_us;
    bool wants_hidden, is_failed;
};

static struct gmail_query *new_node(struct parser *p, enum gmail_query_kind kind)
{
    struct gmail_query *node = ARENA_NEW(p->arena, struct gmail_query);
    if (!node) {
        p->is_failed = true;
        return NULL;
    }
    node->kind = kind;
    return node;
}

static void add_child(struct gmail_query *parent, struct gmail_query *child)
{
    if (!child)
        return;
    struct gmail_query **end = &parent->first;
    while (*end)
        end = &(*end)->next;
    *end = child;
}

static void skip_space(struct parser *p)
{
    while (p->rest.len && (p->rest.ptr[0] == ' ' || p->rest.ptr[0] == '\t' ||
                           p->rest.ptr[0] == '\n' || p->rest.ptr[0] == '\r'))
        p->rest = slice_from(p->rest, 1);
}

static bool is_word_end(char c)
{
    return c == ' ' || c == '\t' || c == '\n' || c == '\r' || c == ')' || c == '}' || c == '(' ||
           c == '{' || c == '"';
}

static slice take_quoted(struct parser *p)
{
    slice text = slice_from(p->rest, 1);
    ptrdiff_t end = slice_find_char(text, '"');
    slice phrase = end < 0 ? text : slice_first(text, (size_t)end);
    p->rest = slice_from(text, end < 0 ? text.len : (size_t)end + 1);
    return phrase;
}

static slice take_word(struct parser *p)
{
    size_t len = 0;
    while (len < p->rest.len && !is_word_end(p->rest.ptr[len]))
        len++;
    slice word = slice_first(p->rest, len);
    p->rest = slice_from(p->rest, len);
    return word;
}

/* Consumes the next word if it is this keyword. */
static bool take_keyword(struct parser *p, slice keyword)
{
    slice rest = p->rest;
    if (!slice_starts_with(rest, keyword))
        return false;
    if (rest.len > keyword.len && !is_word_end(rest.ptr[keyword.len]))
        return false;
    p->rest = slice_from(rest, keyword.len);
    return true;
}

static struct gmail_query *words_node(struct parser *p, enum gmail_field field, slice text)
{
    struct gmail_query *node = new_node(p, GMAIL_QUERY_WORDS);
    if (!node)
        return NULL;
    node->field = field;
    node->words = gmail_words_of(p->arena, text);
    if (node->words.len <= 1)
        node->kind = GMAIL_QUERY_ALL; /* nothing but punctuation: no condition */
    return node;
}

static struct gmail_query *label_node(struct parser *p, const struct gmail_label *label)
{
    struct gmail_query *node = new_node(p, label ? GMAIL_QUERY_LABEL : GMAIL_QUERY_NONE);
    if (node)
        node->label = label;
    return node;
}

static struct gmail_query *system_node(struct parser *p, enum gmail_system system)
{
    return label_node(p, p->gmail->labels[system]);
}

static struct gmail_query *negate(struct parser *p, struct gmail_query *child)
{
    struct gmail_query *node = new_node(p, GMAIL_QUERY_NOT);
    if (node)
        add_child(node, child);
    return node;
}

/* "2026/01/31", "2026-1-31", "01/31/2026" or seconds since 1970; false when it is none. */
static bool parse_day(slice text, int64_t *time_ms)
{
    uint64_t number[3] = {0};
    if (slice_to_u64(text, UINT64_C(99999999999), &number[0])) {
        *time_ms = (int64_t)number[0] * 1000;
        return true;
    }
    char separator = slice_find_char(text, '/') >= 0 ? '/' : '-';
    for (int i = 0; i < 3; i++) {
        slice part = slice_split(&text, separator);
        if (!slice_to_u64(part, 9999, &number[i]))
            return false;
    }
    if (text.ptr)
        return false;
    bool is_year_last = number[2] > 31;
    uint64_t year = is_year_last ? number[2] : number[0];
    uint64_t month = is_year_last ? number[0] : number[1];
    uint64_t day = is_year_last ? number[1] : number[2];
    if (year < 1970 || month < 1 || month > 12 || day < 1 || day > 31)
        return false;
    int64_t days = time_days_from_civil((int64_t)year, (unsigned)month, (unsigned)day);
    *time_ms = days * 86400000;
    return true;
}

static struct gmail_query *time_node(struct parser *p, enum gmail_query_kind kind, int64_t time_ms)
{
    struct gmail_query *node = new_node(p, kind);
    if (node)
        node->number = time_ms;
    return node;
}

static struct gmail_query *date_term(struct parser *p, slice value, enum gmail_query_kind kind)
{
    int64_t time_ms;
    if (!parse_day(value, &time_ms))
        return new_node(p, GMAIL_QUERY_NONE);
    return time_node(p, kind, time_ms);
}

/* newer_than:7d, older_than:2m; days, months of 30, years of 365, and hours. */
static struct gmail_query *age_term(struct parser *p, slice value, enum gmail_query_kind kind)
{
    uint64_t count;
    char unit = value.len ? value.ptr[value.len - 1] : 0;
    int64_t hours = unit == 'd'   ? 24
                    : unit == 'm' ? 30 * 24
                    : unit == 'y' ? 365 * 24
                    : unit == 'h' ? 1
                                  : 0;
    if (!hours || !slice_to_u64(slice_first(value, value.len - 1), 10000, &count))
        return new_node(p, GMAIL_QUERY_NONE);
    return time_node(p, kind, p->now_us / 1000 - (int64_t)count * hours * 3600000);
}

/* larger:5M, smaller:200K, size:1000 */
static struct gmail_query *size_term(struct parser *p, slice value, enum gmail_query_kind kind)
{
    int64_t unit = 1;
    char last = value.len ? (char)(value.ptr[value.len - 1] | 32) : 0;
    if (last == 'k' || last == 'm') {
        unit = last == 'k' ? 1024 : 1024 * 1024;
        value.len--;
    }
    uint64_t count;
    if (!slice_to_u64(value, UINT32_MAX, &count))
        return new_node(p, GMAIL_QUERY_NONE);
    return time_node(p, kind, (int64_t)count * unit);
}

static struct gmail_query *is_term(struct parser *p, slice value)
{
    static const struct {
        const char *name;
        enum gmail_system label;
    } states[] = {{"unread", GMAIL_UNREAD},       {"starred", GMAIL_STARRED},
                  {"important", GMAIL_IMPORTANT}, {"sent", GMAIL_SENT},
                  {"draft", GMAIL_DRAFT},         {"chat", GMAIL_CHAT}};
    if (slice_eq_nocase(value, SLICE("read")))
        return negate(p, system_node(p, GMAIL_UNREAD));
    for (size_t i = 0; i < ARRAY_LEN(states); i++)
        if (slice_eq_nocase(value, slice_cstr(states[i].name)))
            return system_node(p, states[i].label);
    return new_node(p, GMAIL_QUERY_NONE);
}

static struct gmail_query *in_term(struct parser *p, slice value)
{
    if (slice_eq_nocase(value, SLICE("anywhere"))) {
        p->wants_hidden = true;
        return new_node(p, GMAIL_QUERY_ALL);
    }
    if (slice_eq_nocase(value, SLICE("drafts")))
        return system_node(p, GMAIL_DRAFT);
    const struct gmail_label *label = gmail_label_find_name(p->gmail, value);
    if (label && (label->number == GMAIL_TRASH || label->number == GMAIL_SPAM))
        p->wants_hidden = true;
    return label_node(p, label);
}

static struct gmail_query *category_term(struct parser *p, slice value)
{
    static const struct {
        const char *name;
        enum gmail_system label;
    } categories[] = {{"primary", GMAIL_PERSONAL},      {"social", GMAIL_SOCIAL},
                      {"promotions", GMAIL_PROMOTIONS}, {"updates", GMAIL_UPDATES},
                      {"forums", GMAIL_FORUMS},         {"personal", GMAIL_PERSONAL}};
    for (size_t i = 0; i < ARRAY_LEN(categories); i++)
        if (slice_eq_nocase(value, slice_cstr(categories[i].name)))
            return system_node(p, categories[i].label);
    return new_node(p, GMAIL_QUERY_NONE);
}

static struct gmail_query *has_term(struct parser *p, slice value)
{
    if (slice_eq_nocase(value, SLICE("attachment")))
        return new_node(p, GMAIL_QUERY_ATTACHMENT);
    if (slice_eq_nocase(value, SLICE("userlabels")))
        return new_node(p, GMAIL_QUERY_USER_LABELS);
    if (slice_eq_nocase(value, SLICE("nouserlabels")))
        return negate(p, new_node(p, GMAIL_QUERY_USER_LABELS));
    if (slice_eq_nocase(value, SLICE("yellow-star")))
        return system_node(p, GMAIL_STARRED);
    return new_node(p, GMAIL_QUERY_NONE);
}

static struct gmail_query *id_term(struct parser *p, slice value)
{
    struct gmail_query *node = new_node(p, GMAIL_QUERY_MESSAGE_ID);
    if (value.len > 1 && value.ptr[0] == '<' && value.ptr[value.len - 1] == '>')
        value = slice_of(value.ptr + 1, value.len - 2);
    if (node)
        node->words = value;
    return node;
}

enum operator_kind {
    OP_NAME_WORDS,
    OP_NAME_IS,
    OP_NAME_IN,
    OP_NAME_HAS,
    OP_NAME_CATEGORY,
    OP_NAME_AFTER,
    OP_NAME_BEFORE,
    OP_NAME_NEWER,
    OP_NAME_OLDER,
    OP_NAME_LARGER,
    OP_NAME_SMALLER,
    OP_NAME_ID,
};

static const struct operator_name {
    const char *name;
    enum operator_kind kind;
    enum gmail_field field;
} operators[] = {
    {"from", OP_NAME_WORDS, GMAIL_FIELD_FROM},
    {"to", OP_NAME_WORDS, GMAIL_FIELD_TO},
    {"cc", OP_NAME_WORDS, GMAIL_FIELD_CC},
    {"bcc", OP_NAME_WORDS, GMAIL_FIELD_BCC},
    {"deliveredto", OP_NAME_WORDS, GMAIL_FIELD_TO},
    {"subject", OP_NAME_WORDS, GMAIL_FIELD_SUBJECT},
    {"filename", OP_NAME_WORDS, GMAIL_FIELD_FILENAME},
    {"is", OP_NAME_IS, GMAIL_FIELD_ALL},
    {"in", OP_NAME_IN, GMAIL_FIELD_ALL},
    {"label", OP_NAME_IN, GMAIL_FIELD_ALL},
    {"has", OP_NAME_HAS, GMAIL_FIELD_ALL},
    {"category", OP_NAME_CATEGORY, GMAIL_FIELD_ALL},
    {"after", OP_NAME_AFTER, GMAIL_FIELD_ALL},
    {"newer", OP_NAME_AFTER, GMAIL_FIELD_ALL},
    {"before", OP_NAME_BEFORE, GMAIL_FIELD_ALL},
    {"older", OP_NAME_BEFORE, GMAIL_FIELD_ALL},
    {"newer_than", OP_NAME_NEWER, GMAIL_FIELD_ALL},
    {"older_than", OP_NAME_OLDER, GMAIL_FIELD_ALL},
    {"larger", OP_NAME_LARGER, GMAIL_FIELD_ALL},
    {"size", OP_NAME_LARGER, GMAIL_FIELD_ALL},
    {"smaller", OP_NAME_SMALLER, GMAIL_FIELD_ALL},
    {"rfc822msgid", OP_NAME_ID, GMAIL_FIELD_ALL},
};

static const struct operator_name *find_operator(slice name)
{
    for (size_t i = 0; i < ARRAY_LEN(operators); i++)
        if (slice_eq_nocase(name, slice_cstr(operators[i].name)))
            return &operators[i];
    return NULL;
}

static struct gmail_query *apply(struct parser *p, const struct operator_name *op, slice value)
{
    switch (op->kind) {
    case OP_NAME_WORDS:
        return words_node(p, op->field, value);
    case OP_NAME_IS:
        return is_term(p, value);
    case OP_NAME_IN:
        return in_term(p, value);
    case OP_NAME_HAS:
        return has_term(p, value);
    case OP_NAME_CATEGORY:
        return category_term(p, value);
    case OP_NAME_AFTER:
        return date_term(p, value, GMAIL_QUERY_SINCE);
    case OP_NAME_BEFORE:
        return date_term(p, value, GMAIL_QUERY_UNTIL);
    case OP_NAME_NEWER:
        return age_term(p, value, GMAIL_QUERY_SINCE);
    case OP_NAME_OLDER:
        return age_term(p, value, GMAIL_QUERY_UNTIL);
    case OP_NAME_LARGER:
        return size_term(p, value, GMAIL_QUERY_LARGER);
    case OP_NAME_SMALLER:
        return size_term(p, value, GMAIL_QUERY_SMALLER);
    case OP_NAME_ID:
        return id_term(p, value);
    }
    return NULL;
}

static struct gmail_query *parse_list(struct parser *p, const struct operator_name *op,
                                      char closing, unsigned depth);

/* What an operator applies to, or a free term when op is NULL. */
static struct gmail_query *parse_value(struct parser *p, const struct operator_name *op,
                                       unsigned depth)
{
    static const struct operator_name anything = {"", OP_NAME_WORDS, GMAIL_FIELD_ALL};
    const struct operator_name *use = op ? op : &anything;
    if (!p->rest.len)
        return NULL;
    char c = p->rest.ptr[0];
    if (c == '"')
        return apply(p, use, take_quoted(p));
    if ((c == '(' || c == '{') && depth < DEPTH_MAX) {
        p->rest = slice_from(p->rest, 1);
        return parse_list(p, op, c == '(' ? ')' : '}', depth + 1);
    }
    slice word = take_word(p);
    if (!word.len) { /* a bracket without its counterpart */
        p->rest = slice_from(p->rest, 1);
        return NULL;
    }
    return apply(p, use, word);
}

static struct gmail_query *parse_term(struct parser *p, const struct operator_name *op,
                                      unsigned depth)
{
    bool is_negated = false;
    while (p->rest.len && (p->rest.ptr[0] == '-' || p->rest.ptr[0] == '+')) {
        is_negated ^= p->rest.ptr[0] == '-';
        p->rest = slice_from(p->rest, 1);
    }
    struct parser before = *p;
    slice word = take_word(p);
    ptrdiff_t colon = slice_find_char(word, ':');
    const struct operator_name *named = colon > 0 ? find_operator(slice_first(word, (size_t)colon))
                                                  : NULL;
    struct gmail_query *node;
    p->rest = before.rest;
    if (named) {
        p->rest = slice_from(p->rest, (size_t)colon + 1);
        node = parse_value(p, named, depth);
    } else {
        node = parse_value(p, op, depth);
    }
    return node && is_negated ? negate(p, node) : node;
}

static bool is_at_end(const struct parser *p, char closing)
{
    return !p->rest.len || (closing && p->rest.ptr[0] == closing);
}

/* Terms up to `closing` (0: the end), joined by AND; in braces by OR. */
static struct gmail_query *parse_list(struct parser *p, const struct operator_name *op,
                                      char closing, unsigned depth)
{
    struct gmail_query *list =
        new_node(p, closing == '}' ? GMAIL_QUERY_ANY_OF : GMAIL_QUERY_ALL_OF);
    struct gmail_query *last = NULL, **last_link = NULL;
    bool is_or = false;
    while (list && !p->is_failed) {
        skip_space(p);
        if (is_at_end(p, closing))
            break;
        if (take_keyword(p, SLICE("OR"))) {
            is_or = last != NULL;
            continue;
        }
        if (take_keyword(p, SLICE("AND")))
            continue;
        struct gmail_query *term = parse_term(p, op, depth);
        if (!term)
            continue;
        if (is_or && last->kind == GMAIL_QUERY_ANY_OF && last->is_or_chain) {
            add_child(last, term);
        } else if (is_or) {
            struct gmail_query *any = new_node(p, GMAIL_QUERY_ANY_OF);
            if (!any)
                break;
            any->is_or_chain = true;
            *last_link = any;
            add_child(any, last);
            add_child(any, term);
            last = any;
        } else {
            last_link = last ? &last->next : &list->first;
            *last_link = term;
            last = term;
        }
        is_or = false;
    }
    if (p->rest.len && closing)
        p->rest = slice_from(p->rest, 1);
    return list;
}

struct gmail_query *gmail_query_parse(const struct gmail *gmail, struct arena *arena, slice text,
                                      int64_t now_us)
{
    struct parser p = {gmail, arena, text, now_us, false, false};
    struct gmail_query *root = parse_list(&p, NULL, 0, 0);
    if (!root || p.is_failed)
        return NULL;
    root->wants_hidden = p.wants_hidden;
    return root;
}
