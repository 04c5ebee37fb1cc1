/*
 * schema_regex: the translator of ECMA-262 patterns (JSON Schema Core 6.4) to PCRE2. One pass, no
 * recursion; open groups are a stack of kinds, and what may be quantified is remembered from term
 * to term.
 *
 * What is not understood is refused, never passed through: PCRE2 would give it a meaning of its
 * own.
 */
#include "schema/regex.h"

#include "base/ascii.h"
#include "schema/regex_class.h"

enum {
    /* The stack of groups is an array; PCRE2 has a limit of its own behind it. */
    GROUPS_DEEP_MAX = 128,
    REPEAT_MAX = 65535,
    NAME_MAX_BYTES = 32, /* PCRE2's own limit */
    NAMES_MAX = 32,      /* uses of names; each scans the pattern */
};

enum term { TERM_NONE, TERM_ATOM, TERM_ASSERTION, TERM_QUANTIFIED };

struct groups {
    size_t depth;
    bool is_lookaround[GROUPS_DEEP_MAX];
};

struct translation {
    struct regex_in in;
    struct groups groups;
    unsigned capture_count; /* in the whole pattern */
    unsigned names_used;
    enum term last;
    struct schema_regex_info *info;
};

/* Where a class that opens at `at` ends: the index of its ']', or the end. */
static size_t class_end(slice text, size_t at)
{
    for (at++; at < text.len && text.ptr[at] != ']'; at++) {
        if (text.ptr[at] == '\\')
            at++;
    }
    return at;
}

static bool is_named_group(slice text, size_t at)
{
    return at + 3 < text.len && text.ptr[at + 1] == '?' && text.ptr[at + 2] == '<' &&
           text.ptr[at + 3] != '=' && text.ptr[at + 3] != '!';
}

/* Counts capturing groups; stops with true where one is named wanted (empty: count only). */
static bool scan_groups(slice text, slice wanted, unsigned *count)
{
    *count = 0;
    for (size_t at = 0; at < text.len; at++) {
        char c = text.ptr[at];
        if (c == '\\') {
            at++;
        } else if (c == '[') {
            at = class_end(text, at);
        } else if (c == '(') {
            /* "(?" that is no named group captures nothing; "(" alone does. */
            bool is_named = is_named_group(text, at);
            if (is_named && wanted.len > 0) {
                slice rest = slice_from(text, at + 3);
                if (rest.len > wanted.len && slice_starts_with(rest, wanted) &&
                    rest.ptr[wanted.len] == '>')
                    return true;
            }
            *count += is_named || at + 1 >= text.len || text.ptr[at + 1] != '?';
        }
    }
    return false;
}

/* ---- groups ---- */

/* A group's name and its '>', from in.at on. */
static int read_name(struct regex_in *in, slice *name)
{
    size_t start = in->at;
    while (in->at < in->text.len && regex_is_word(in->text.ptr[in->at]))
        in->at++;
    *name = (slice){in->text.ptr + start, in->at - start};
    bool is_closed = in->at < in->text.len && in->text.ptr[in->at] == '>';
    if (!is_closed || name->len == 0 || name->len > NAME_MAX_BYTES || ascii_is_digit(*name->ptr))
        return regex_refuse(in, start, "a group's name is 1 to 32 letters, digits or _");
    in->at++;
    return OK;
}

static int use_name(struct translation *t)
{
    if (t->names_used++ < NAMES_MAX)
        return OK;
    return err_set(t->in.err, ERR_LIMIT, "pattern: names used more than %d times", NAMES_MAX);
}

static int open_named(struct translation *t, size_t start)
{
    slice name = SLICE_NONE;
    unsigned count = 0;
    int code = use_name(t);
    if (code == OK)
        code = read_name(&t->in, &name);
    if (code != OK)
        return code;
    /* Only names in front of this group: a name may be used once (ECMA-262 22.2.1.1). */
    if (scan_groups(slice_first(t->in.text, start), name, &count))
        return regex_refuse(&t->in, start, "this group's name is taken");
    return OK;
}

static int open_group(struct translation *t)
{
    struct regex_in *in = &t->in;
    size_t start = in->at++;
    bool is_lookaround = false;
    if (t->groups.depth == GROUPS_DEEP_MAX)
        return err_set(in->err, ERR_LIMIT, "pattern: groups nested deeper than %d",
                       GROUPS_DEEP_MAX);
    /* "(*" begins a verb of PCRE2, "(?" in any other form is its own, such as recursion. */
    slice rest = slice_from(in->text, in->at);
    int code = OK;
    if (slice_starts_with(rest, SLICE("?<=")) || slice_starts_with(rest, SLICE("?<!"))) {
        is_lookaround = true;
        in->at += 3;
    } else if (slice_starts_with(rest, SLICE("?=")) || slice_starts_with(rest, SLICE("?!"))) {
        is_lookaround = true;
        in->at += 2;
    } else if (slice_starts_with(rest, SLICE("?:"))) {
        in->at += 2;
    } else if (slice_starts_with(rest, SLICE("?<"))) {
        in->at += 2;
        code = open_named(t, start);
    } else if (slice_starts_with(rest, SLICE("?")) || slice_starts_with(rest, SLICE("*"))) {
        code = regex_refuse(in, start, "this kind of group is not ECMA-262");
    }
    if (code != OK)
        return code;
    t->groups.is_lookaround[t->groups.depth++] = is_lookaround;
    regex_emit(in, (slice){in->text.ptr + start, in->at - start});
    t->last = TERM_NONE;
    return OK;
}

static int close_group(struct translation *t)
{
    if (t->groups.depth == 0)
        return regex_refuse(&t->in, t->in.at, "a ) without its (");
    t->groups.depth--;
    /* ECMA-262 in Unicode mode allows no quantifier behind a look-around. */
    t->last = t->groups.is_lookaround[t->groups.depth] ? TERM_ASSERTION : TERM_ATOM;
    t->in.at++;
    regex_emit(&t->in, SLICE(")"));
    return OK;
}

/* ---- quantifiers ---- */

/* Decimal digits at *at; UINT_MAX-like values stay over REPEAT_MAX. false without a digit. */
static bool read_count(slice text, size_t *at, unsigned *value)
{
    size_t start = *at;
    *value = 0;
    for (; *at < text.len && ascii_is_digit(text.ptr[*at]); ++*at) {
        /* Stops growing above the limit, so the number cannot overflow. */
        if (*value <= REPEAT_MAX)
            *value = *value * 10 + (unsigned)(text.ptr[*at] - '0');
    }
    return *at > start;
}

struct braces {
    unsigned low, high;
    size_t end; /* behind the } */
};

/* {n}, {n,} or {n,m} at the opening brace; false when it is not one. */
static bool read_braces(slice text, size_t at, struct braces *braces)
{
    at++;
    if (!read_count(text, &at, &braces->low))
        return false;
    braces->high = braces->low;
    if (at < text.len && text.ptr[at] == ',') {
        at++;
        if (!read_count(text, &at, &braces->high))
            braces->high = REPEAT_MAX;
        /* {3,2} is no quantifier here: open_brace then takes the brace for itself. */
        if (braces->high < braces->low && braces->low <= REPEAT_MAX)
            return false;
    }
    braces->end = at + 1;
    return at < text.len && text.ptr[at] == '}';
}

static int add_quantifier(struct translation *t, size_t end)
{
    struct regex_in *in = &t->in;
    if (t->last != TERM_ATOM)
        return regex_refuse(in, in->at, "nothing to repeat");
    /* A "?" makes it lazy. A "+" there would be PCRE2's possessive form; as the last term is
     * quantified by now, the next call refuses it. */
    if (end < in->text.len && in->text.ptr[end] == '?')
        end++;
    regex_emit(in, (slice){in->text.ptr + in->at, end - in->at});
    in->at = end;
    t->last = TERM_QUANTIFIED;
    return OK;
}

static int open_brace(struct translation *t)
{
    struct regex_in *in = &t->in;
    struct braces braces = {0};
    if (!read_braces(in->text, in->at, &braces)) {
        regex_emit(in, SLICE("\\{"));
        in->at++;
        t->last = TERM_ATOM;
        return OK;
    }
    if (braces.low > REPEAT_MAX || braces.high > REPEAT_MAX)
        return err_set(in->err, ERR_LIMIT, "pattern at byte %zu: repeats over %d are not supported",
                       in->at, REPEAT_MAX);
    if (braces.low > t->info->repeat_min_max)
        t->info->repeat_min_max = braces.low;
    return add_quantifier(t, braces.end);
}

/* ---- escapes outside classes ---- */

static int back_reference(struct translation *t)
{
    struct regex_in *in = &t->in;
    size_t at = in->at + 1;
    unsigned number = 0;
    /* A group may be referred to before it is closed or opened (ECMA-262), so the count is of the
     * whole pattern. */
    if (!read_count(in->text, &at, &number) || number > t->capture_count)
        return regex_refuse(in, in->at, "there is no group of that number");
    in->at = at;
    regex_emit_number(in, "\\g{", number, false);
    t->info->has_backreference = true;
    t->last = TERM_ATOM;
    return OK;
}

static int named_reference(struct translation *t)
{
    struct regex_in *in = &t->in;
    size_t start = in->at;
    slice name = SLICE_NONE;
    unsigned count = 0;
    in->at += 2;
    if (in->at >= in->text.len || in->text.ptr[in->at] != '<')
        return regex_refuse(in, start, "\\k needs the <name> of a group");
    in->at++;
    int code = use_name(t);
    if (code == OK)
        code = read_name(in, &name);
    if (code != OK)
        return code;
    if (!scan_groups(in->text, name, &count))
        return regex_refuse(in, start, "there is no group of that name");
    regex_emit(in, (slice){in->text.ptr + start, in->at - start});
    t->info->has_backreference = true;
    t->last = TERM_ATOM;
    return OK;
}

static int escape(struct translation *t)
{
    struct regex_in *in = &t->in;
    char c = in->at + 1 < in->text.len ? in->text.ptr[in->at + 1] : '\0';
    if (c >= '1' && c <= '9')
        return back_reference(t);
    if (c == 'k')
        return named_reference(t);
    if (c == 'b' || c == 'B') {
        regex_emit(in, (slice){in->text.ptr + in->at, 2});
        in->at += 2;
        t->last = TERM_ASSERTION;
        return OK;
    }
    struct regex_escape escaped;
    int code = regex_read_escape(in, &escaped);
    if (code != OK)
        return code;
    regex_emit_escape(in, &escaped);
    t->last = TERM_ATOM;
    return OK;
}

/* ---- the whole ---- */

static int emit_as(struct translation *t, const char *text, enum term term)
{
    regex_emit(&t->in, slice_cstr(text));
    t->in.at++;
    t->last = term;
    return OK;
}

static int translate_term(struct translation *t)
{
    struct regex_in *in = &t->in;
    char c = in->text.ptr[in->at];
    switch (c) {
    case '(':
        return open_group(t);
    case ')':
        return close_group(t);
    case '*':
    case '+':
    case '?':
        return add_quantifier(t, in->at + 1);
    case '{':
        return open_brace(t);
    case '\\':
        return escape(t);
    case '[':
        t->last = TERM_ATOM;
        return regex_translate_class(in);
    case '|':
        return emit_as(t, "|", TERM_NONE);
    case '^':
        return emit_as(t, "^", TERM_ASSERTION);
    case '$':
        return emit_as(t, "$", TERM_ASSERTION);
    case '.':
        /* ECMA-262's line terminators; PCRE2's dot excludes only \n. */
        return emit_as(t, "[^\\n\\r\\x{2028}\\x{2029}]", TERM_ATOM);
    case '}':
        return emit_as(t, "\\}", TERM_ATOM);
    case ']':
        return emit_as(t, "\\]", TERM_ATOM);
    default: {
        struct regex_escape literal = {.kind = REGEX_CODE_POINT};
        literal.code_point = regex_next_code_point(in);
        regex_emit_escape(in, &literal);
        t->last = TERM_ATOM;
        return OK;
    }
    }
}

int schema_regex_translate(slice pattern, struct buf *out, struct schema_regex_info *info,
                           struct err *err)
{
    size_t bad_at = 0;
    *info = (struct schema_regex_info){0};
    if (!slice_is_utf8(pattern, &bad_at))
        return err_set(err, ERR_SYNTAX, "pattern at byte %zu: not UTF-8", bad_at);
    struct translation t;
    t.in = (struct regex_in){pattern, 0, out, err};
    /* Not initialized as a whole: the stack of groups is large, and depth bounds what is read of
     * it. */
    t.groups.depth = 0;
    t.names_used = 0;
    t.last = TERM_NONE;
    t.info = info;
    (void)scan_groups(pattern, SLICE_NONE, &t.capture_count);
    while (t.in.at < pattern.len) {
        int code = translate_term(&t);
        if (code != OK)
            return code;
    }
    if (t.groups.depth > 0)
        return regex_refuse(&t.in, pattern.len, "a ( without its )");
    return OK;
}
