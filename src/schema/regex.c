/*
 * schema_regex: translates ECMA-262 patterns (JSON Schema Core 6.4) to PCRE2. It makes one pass
 * without recursion; open groups are a stack of kinds, and the kind of the last term is kept for
 * quantifiers.
 *
 * Unknown syntax is refused, never passed through: PCRE2 would give it its own meaning. Code points
 * are always written as \x{...}, so that no character has a special meaning in PCRE2, such as the
 * [: of a POSIX class.
 */
#include "schema/regex.h"

#include "base/ascii.h"

/* WhiteSpace and LineTerminator of ECMA-262: ASCII first, then the other characters. */
#define SPACE_SET                                                                                 \
    "\\x{9}-\\x{d}\\x{20}\\x{a0}\\x{1680}\\x{2000}-\\x{200a}\\x{2028}\\x{2029}\\x{202f}\\x{205f}" \
    "\\x{3000}\\x{feff}"
#define NOT_SPACE_SET                                                                \
    "\\x{0}-\\x{8}\\x{e}-\\x{1f}\\x{21}-\\x{9f}\\x{a1}-\\x{167f}\\x{1681}-\\x{1fff}" \
    "\\x{200b}-\\x{2027}\\x{202a}-\\x{202e}\\x{2030}-\\x{205e}\\x{2060}-\\x{2fff}"   \
    "\\x{3001}-\\x{fefe}\\x{ff00}-\\x{10ffff}"

enum {
    /* The stack of groups is an array; PCRE2 has its own, larger limit. */
    GROUPS_DEEP_MAX = 128,
    REPEAT_MAX = 65535,
    NAME_MAX_BYTES = 32, /* PCRE2's own limit */
    NAMES_MAX = 32,      /* uses of group names; each use scans the pattern */
    CODE_POINT_MAX = 0x10FFFF,
};

enum term { TERM_NONE, TERM_ATOM, TERM_ASSERTION, TERM_QUANTIFIED };

struct translation {
    slice text; /* UTF-8 */
    size_t at;
    struct buf *out; /* NULL: only check */
    struct err *err;
    struct schema_regex_info *info;
    unsigned capture_count; /* groups in the whole pattern */
    unsigned names_used;
    enum term last;
    size_t depth;
    bool is_lookaround[GROUPS_DEEP_MAX];
};

enum atom_kind {
    ATOM_CODE_POINT,
    ATOM_LONE_SURROGATE, /* never matches: strings are UTF-8 */
    ATOM_SHORTHAND,      /* d D w W */
    ATOM_SPACE,          /* s S: they match more characters than in PCRE2 */
    ATOM_PROPERTY,       /* \p{...} */
};

/* A single character, or an escape for a set of them. */
struct atom {
    enum atom_kind kind;
    uint32_t code_point;
    char letter;    /* the letter of a SHORTHAND or SPACE; p or P of a PROPERTY */
    slice property; /* as PCRE2 names it */
};

static int refuse_regex(const struct translation *t, size_t at, const char *why)
{
    return err_set(t->err, ERR_SYNTAX, "pattern at byte %zu: %s", at, why);
}

/* Returns the byte at this index, or NUL past the end. */
static char byte_at(const struct translation *t, size_t at)
{
    return at < t->text.len ? t->text.ptr[at] : '\0';
}

static bool is_word(char c)
{
    return ascii_is_alnum(c) || c == '_';
}

static void emit_text(const struct translation *t, slice text)
{
    if (t->out)
        buf_append(t->out, text);
}

/* Copies the pattern's own text, from `start` to t->at, to the output. */
static void emit_from(const struct translation *t, size_t start)
{
    emit_text(t, (slice){t->text.ptr + start, t->at - start});
}

/* ---- atoms ---- */

/* Reads at most max hexadecimal digits from `at`; returns their number. A value beyond
 * CODE_POINT_MAX is returned as some value beyond it. */
static size_t read_hex(slice text, size_t at, size_t max, uint32_t *value)
{
    size_t count = 0;
    *value = 0;
    for (; count < max && at + count < text.len; count++) {
        int digit = ascii_hex_value(text.ptr[at + count]);
        if (digit < 0)
            break;
        /* The value stops growing above the limit, so that no shift loses bits. */
        if (*value <= CODE_POINT_MAX)
            *value = *value << 4 | (uint32_t)digit;
    }
    return count;
}

/* Reads \uXXXX, \uXXXX\uXXXX (a surrogate pair) or \u{X...}; t->at is at the backslash. */
static int read_unicode(struct translation *t, struct atom *atom)
{
    size_t at = t->at + 2;
    bool is_braced = byte_at(t, at) == '{';
    at += is_braced;
    size_t count = read_hex(t->text, at, is_braced ? SIZE_MAX : 4, &atom->code_point);
    at += count;
    if (is_braced ? count == 0 || byte_at(t, at++) != '}' : count < 4)
        count = 0;
    if (count == 0 || atom->code_point > CODE_POINT_MAX)
        return refuse_regex(t, t->at, "\\u needs four hex digits, or {hex digits}");
    uint32_t high = atom->code_point, low = 0;
    /* A high surrogate followed by an escaped low surrogate is one code point, as in a JSON string.
     */
    if (!is_braced && high >= 0xD800 && high <= 0xDBFF && byte_at(t, at) == '\\' &&
        byte_at(t, at + 1) == 'u' && read_hex(t->text, at + 2, 4, &low) == 4 && low >= 0xDC00 &&
        low <= 0xDFFF) {
        atom->code_point = 0x10000 + ((high - 0xD800) << 10) + (low - 0xDC00);
        at += 6;
    }
    if (atom->code_point >= 0xD800 && atom->code_point <= 0xDFFF)
        atom->kind = ATOM_LONE_SURROGATE;
    t->at = at;
    return OK;
}

/* Long names of Unicode properties that PCRE2 does not know, with the short names that it knows. */
static slice property_alias(slice name)
{
    static const char aliases[] =
        "Letter=L Cased_Letter=L& LC=L& Uppercase_Letter=Lu Lowercase_Letter=Ll "
        "Titlecase_Letter=Lt Modifier_Letter=Lm Other_Letter=Lo Mark=M Combining_Mark=M "
        "Nonspacing_Mark=Mn Spacing_Mark=Mc Enclosing_Mark=Me Number=N Decimal_Number=Nd "
        "digit=Nd Letter_Number=Nl Other_Number=No Punctuation=P punct=P "
        "Connector_Punctuation=Pc Dash_Punctuation=Pd Open_Punctuation=Ps "
        "Close_Punctuation=Pe Initial_Punctuation=Pi Final_Punctuation=Pf "
        "Other_Punctuation=Po Symbol=S Math_Symbol=Sm Currency_Symbol=Sc Modifier_Symbol=Sk "
        "Other_Symbol=So Separator=Z Space_Separator=Zs Line_Separator=Zl "
        "Paragraph_Separator=Zp Other=C Control=Cc cntrl=Cc Format=Cf Surrogate=Cs "
        "Private_Use=Co Unassigned=Cn";
    for (slice rest = slice_cstr(aliases); rest.len > 0;) {
        slice alias = slice_split(&rest, ' ');
        if (slice_eq(slice_split(&alias, '='), name))
            return alias;
    }
    return name;
}

static int read_property(struct translation *t, struct atom *atom)
{
    size_t start = t->at + 3, end = start;
    while (is_word(byte_at(t, end)) || byte_at(t, end) == '=')
        end++;
    if (byte_at(t, start - 1) != '{' || byte_at(t, end) != '}' || end == start)
        return refuse_regex(t, t->at, "\\p needs a {Property} or {Name=Value}");
    atom->kind = ATOM_PROPERTY;
    atom->letter = byte_at(t, t->at + 1);
    slice name = {t->text.ptr + start, end - start}, value = name;
    slice kind = slice_split(&value, '=');
    /* General_Category= is dropped; PCRE2 knows Script= and Script_Extensions= by these names. */
    if (!value.ptr)
        value = name;
    else if (!slice_eq_cstr(kind, "gc") && !slice_eq_cstr(kind, "General_Category"))
        value = SLICE_NONE;
    atom->property = value.ptr ? property_alias(value) : name;
    t->at = end + 1;
    return OK;
}

/* Returns the control character of \t, \n, \v, \f or \r, and 0 for any other letter. */
static uint32_t control_of(char letter)
{
    static const char controls[] = "\t\n\v\f\r";
    ptrdiff_t at = slice_find_char(SLICE("tnvfr"), letter);
    return at < 0 ? 0 : (uint32_t)controls[at];
}

/* Reads the escape at t->at (a backslash) and moves past it. Does not handle \b, \B, \k or back
 * references. */
static int read_escape(struct translation *t, struct atom *atom)
{
    size_t start = t->at;
    char c = byte_at(t, start + 1), next = byte_at(t, start + 2);
    *atom = (struct atom){.kind = ATOM_CODE_POINT, .letter = c};
    if (start + 1 >= t->text.len)
        return refuse_regex(t, start, "a \\ at the end");
    if (c == 'u')
        return read_unicode(t, atom);
    if (c == 'p' || c == 'P')
        return read_property(t, atom);
    t->at += 2;
    if (c == 'd' || c == 'D' || c == 'w' || c == 'W') {
        atom->kind = ATOM_SHORTHAND;
    } else if (c == 's' || c == 'S') {
        atom->kind = ATOM_SPACE;
    } else if (c == 'c') {
        if (!ascii_is_letter(next))
            return refuse_regex(t, start, "\\c needs a letter");
        /* ECMA-262 CharacterEscape: the letter modulo 32. */
        atom->code_point = (unsigned char)next & 0x1FU;
        t->at++;
    } else if (c == 'x') {
        if (read_hex(t->text, t->at, 2, &atom->code_point) < 2)
            return refuse_regex(t, start, "\\x needs two hex digits");
        t->at += 2;
    } else if (control_of(c) || (c == '0' && !ascii_is_digit(next))) {
        /* \0 is NUL only if no digit follows (there are no octal escapes in Unicode mode). */
        atom->code_point = control_of(c);
    } else if ((unsigned char)c > 0x20 && (unsigned char)c < 0x7F && !is_word(c)) {
        atom->code_point = (unsigned char)c; /* escaped ASCII punctuation is literal */
    } else {
        return refuse_regex(t, start, "this escape is not ECMA-262");
    }
    return OK;
}

static void emit_in_class(const struct translation *t, const struct atom *atom)
{
    const char escape[] = {'\\', atom->letter, '\0'};
    if (!t->out)
        return;
    switch (atom->kind) {
    case ATOM_CODE_POINT:
        buf_printf(t->out, "\\x{%x}", atom->code_point);
        break;
    /* Strings are UTF-8, which has no surrogates: a lone surrogate adds nothing to a class. */
    case ATOM_LONE_SURROGATE:
        break;
    case ATOM_SHORTHAND:
        buf_append(t->out, slice_cstr(escape));
        break;
    case ATOM_SPACE:
        buf_append(t->out, atom->letter == 's' ? SLICE(SPACE_SET) : SLICE(NOT_SPACE_SET));
        break;
    case ATOM_PROPERTY:
        buf_printf(t->out, "%s{%.*s}", escape, SLICE_ARG(atom->property));
        break;
    }
}

/* Writes the atom as a term outside classes. */
static void emit_atom(struct translation *t, const struct atom *atom)
{
    char letter = (char)atom->code_point;
    /* A lone surrogate becomes an empty class, which never matches. */
    bool is_class = atom->kind == ATOM_SPACE || atom->kind == ATOM_LONE_SURROGATE;
    t->last = TERM_ATOM;
    if (atom->kind == ATOM_CODE_POINT && atom->code_point < 0x80 && is_word(letter)) {
        emit_text(t, (slice){&letter, 1});
        return;
    }
    emit_text(t, is_class ? SLICE("[") : SLICE_NONE);
    emit_in_class(t, atom);
    emit_text(t, is_class ? SLICE("]") : SLICE_NONE);
}

/* ---- classes ---- */

static int read_class_item(struct translation *t, struct atom *item)
{
    *item = (struct atom){.kind = ATOM_CODE_POINT};
    if (byte_at(t, t->at) != '\\') {
        t->at += slice_code_point(slice_from(t->text, t->at), &item->code_point);
        return OK;
    }
    if (byte_at(t, t->at + 1) != 'b')
        return read_escape(t, item);
    /* Inside a class \b is a backspace (ECMA-262 22.2.1), outside it a word boundary. */
    item->code_point = '\b';
    t->at += 2;
    return OK;
}

/* Reads the other end of a range that began with `low`. After or before a shorthand, '-' is
 * literal. */
static int finish_range(struct translation *t, const struct atom *low, size_t start)
{
    struct atom high;
    t->at++;
    int code = read_class_item(t, &high);
    if (code != OK)
        return code;
    emit_in_class(t, low);
    bool is_range = low->kind <= ATOM_LONE_SURROGATE && high.kind <= ATOM_LONE_SURROGATE;
    /* Surrogates are compared by number, too. */
    if (is_range && high.code_point < low->code_point)
        return refuse_regex(t, start, "this range is out of order");
    /* Surrogates at the ends of a range are omitted: PCRE2 refuses them, and no text contains
     * one. */
    if (is_range && low->kind == ATOM_LONE_SURROGATE) {
        if (high.kind == ATOM_LONE_SURROGATE)
            return OK;
        emit_text(t, SLICE("\\x{e000}"));
    }
    if (is_range && high.kind == ATOM_LONE_SURROGATE)
        high = (struct atom){.kind = ATOM_CODE_POINT, .code_point = 0xD7FF};
    emit_text(t, is_range ? SLICE("-") : SLICE("\\x{2d}"));
    emit_in_class(t, &high);
    return OK;
}

/* Translates the class at t->at (a '['). */
static int translate_class(struct translation *t)
{
    size_t open = t->at++;
    t->at += byte_at(t, t->at) == '^';
    emit_from(t, open);
    t->last = TERM_ATOM;
    while (t->at < t->text.len && byte_at(t, t->at) != ']') {
        size_t start = t->at;
        struct atom item;
        int code = read_class_item(t, &item);
        /* A "-" before the "]" is literal. */
        bool is_range = byte_at(t, t->at) == '-' && t->at + 1 < t->text.len &&
                        byte_at(t, t->at + 1) != ']';
        if (code == OK && is_range)
            code = finish_range(t, &item, start);
        else if (code == OK)
            emit_in_class(t, &item);
        if (code != OK)
            return code;
    }
    if (t->at >= t->text.len)
        return refuse_regex(t, open, "a [ without its ]");
    emit_text(t, SLICE("]"));
    t->at++;
    return OK;
}

/* ---- groups ---- */

/* Counts capturing groups. Stops and returns true at a group with the wanted name; an empty name
 * only counts. */
static bool scan_groups(slice text, slice wanted, unsigned *count)
{
    bool in_class = false;
    *count = 0;
    for (size_t at = 0; at < text.len; at++) {
        char c = text.ptr[at];
        /* A backslash escapes the next byte. */
        at += c == '\\';
        in_class = in_class ? c != ']' : c == '[';
        if (in_class || c != '(')
            continue;
        slice rest = slice_from(text, at + 1);
        /* Of the groups that begin with "(?", only a named group captures; "(" alone captures. */
        bool is_named = slice_starts_with(rest, SLICE("?<")) && rest.len > 2 &&
                        rest.ptr[2] != '=' && rest.ptr[2] != '!';
        *count += is_named || rest.len == 0 || rest.ptr[0] != '?';
        rest = slice_from(rest, 2);
        if (is_named && wanted.len > 0 && rest.len > wanted.len &&
            slice_starts_with(rest, wanted) && rest.ptr[wanted.len] == '>')
            return true;
    }
    return false;
}

/* Reads a group's name and its '>' from t->at on. */
static int read_name(struct translation *t, slice *name)
{
    size_t start = t->at;
    if (t->names_used++ == NAMES_MAX)
        return err_set(t->err, ERR_LIMIT, "pattern: names used more than %d times", NAMES_MAX);
    while (is_word(byte_at(t, t->at)))
        t->at++;
    *name = (slice){t->text.ptr + start, t->at - start};
    if (byte_at(t, t->at) != '>' || name->len == 0 || name->len > NAME_MAX_BYTES ||
        ascii_is_digit(*name->ptr))
        return refuse_regex(t, start, "a group's name is 1 to 32 letters, digits or _");
    t->at++;
    return OK;
}

static int open_group(struct translation *t)
{
    static const slice lookarounds[] = {SLICE_INIT("?<="), SLICE_INIT("?<!"), SLICE_INIT("?="),
                                        SLICE_INIT("?!")};
    size_t start = t->at++, kind = 0;
    unsigned count = 0;
    slice rest = slice_from(t->text, t->at), name;
    if (t->depth == GROUPS_DEEP_MAX)
        return err_set(t->err, ERR_LIMIT, "pattern: groups nested deeper than %d", GROUPS_DEEP_MAX);
    while (kind < ARRAY_LEN(lookarounds) && !slice_starts_with(rest, lookarounds[kind]))
        kind++;
    bool is_lookaround = kind < ARRAY_LEN(lookarounds);
    if (is_lookaround) {
        t->at += lookarounds[kind].len;
    } else if (slice_starts_with(rest, SLICE("?:"))) {
        t->at += 2;
    } else if (slice_starts_with(rest, SLICE("?<"))) {
        t->at += 2;
        int code = read_name(t, &name);
        if (code != OK)
            return code;
        /* Searches only the text before this group: a name may be used once (ECMA-262 22.2.1.1). */
        if (scan_groups(slice_first(t->text, start), name, &count))
            return refuse_regex(t, start, "this group's name is already used");
    } else if (slice_starts_with(rest, SLICE("?")) || slice_starts_with(rest, SLICE("*"))) {
        /* "(*" begins a PCRE2 verb, and any other form of "(?" is specific to PCRE2, such as
         * recursion. */
        return refuse_regex(t, start, "this kind of group is not ECMA-262");
    }
    t->is_lookaround[t->depth++] = is_lookaround;
    emit_from(t, start);
    t->last = TERM_NONE;
    return OK;
}

static int close_group(struct translation *t)
{
    if (t->depth == 0)
        return refuse_regex(t, t->at, "a ) without its (");
    /* ECMA-262 in Unicode mode allows no quantifier after a lookaround. */
    t->last = t->is_lookaround[--t->depth] ? TERM_ASSERTION : TERM_ATOM;
    t->at++;
    emit_text(t, SLICE(")"));
    return OK;
}

/* ---- quantifiers ---- */

/* Reads decimal digits at *at. A value beyond REPEAT_MAX is returned as some value beyond it.
 * Returns false if there is no digit. */
static bool read_count(const struct translation *t, size_t *at, unsigned *value)
{
    size_t start = *at;
    *value = 0;
    for (; ascii_is_digit(byte_at(t, *at)); ++*at) {
        /* The value stops growing above the limit, so it cannot overflow. */
        if (*value <= REPEAT_MAX)
            *value = *value * 10 + (unsigned)(byte_at(t, *at) - '0');
    }
    return *at > start;
}

static int add_quantifier(struct translation *t, size_t end)
{
    size_t start = t->at;
    if (t->last != TERM_ATOM)
        return refuse_regex(t, start, "nothing to repeat");
    /* A "?" after a quantifier makes it lazy. A "+" there would make it possessive in PCRE2; the
     * next call refuses it, since the last term now has a quantifier. */
    t->at = end + (byte_at(t, end) == '?');
    emit_from(t, start);
    t->last = TERM_QUANTIFIED;
    return OK;
}

static int emit_as(struct translation *t, slice text, enum term term)
{
    emit_text(t, text);
    t->at++;
    t->last = term;
    return OK;
}

/* Reads {n}, {n,} or {n,m}; any other brace is literal. */
static int open_brace(struct translation *t)
{
    size_t at = t->at + 1;
    unsigned low, high;
    bool is_quantifier = read_count(t, &at, &low);
    high = low;
    if (is_quantifier && byte_at(t, at) == ',') {
        at++;
        if (!read_count(t, &at, &high))
            high = REPEAT_MAX;
    }
    /* Braces such as {3,2} are literal, not a quantifier. */
    if (!is_quantifier || byte_at(t, at) != '}' || (high < low && low <= REPEAT_MAX))
        return emit_as(t, SLICE("\\{"), TERM_ATOM);
    if (low > REPEAT_MAX || high > REPEAT_MAX)
        return err_set(t->err, ERR_LIMIT, "pattern at byte %zu: repeats over %d are not supported",
                       t->at, REPEAT_MAX);
    if (low > t->info->repeat_min_max)
        t->info->repeat_min_max = low;
    return add_quantifier(t, at + 1);
}

/* ---- escapes outside classes ---- */

static int back_reference(struct translation *t)
{
    size_t at = t->at + 1;
    unsigned number = 0;
    /* A back reference may come before its group is closed or opened (ECMA-262), so the groups
     * of the whole pattern are counted. */
    if (!read_count(t, &at, &number) || number > t->capture_count)
        return refuse_regex(t, t->at, "there is no group with that number");
    if (t->out)
        buf_printf(t->out, "\\g{%u}", number);
    t->at = at;
    return OK;
}

static int named_reference(struct translation *t)
{
    size_t start = t->at;
    slice name = SLICE_NONE;
    unsigned count = 0;
    if (byte_at(t, start + 2) != '<')
        return refuse_regex(t, start, "\\k needs the <name> of a group");
    t->at += 3;
    int code = read_name(t, &name);
    if (code != OK)
        return code;
    if (!scan_groups(t->text, name, &count))
        return refuse_regex(t, start, "there is no group with that name");
    emit_from(t, start);
    return OK;
}

static int escape(struct translation *t)
{
    size_t start = t->at;
    struct atom atom;
    char c = byte_at(t, start + 1);
    bool is_named = c == 'k';
    if (is_named || (c >= '1' && c <= '9')) {
        t->info->has_backreference = true;
        t->last = TERM_ATOM;
        return is_named ? named_reference(t) : back_reference(t);
    }
    if (c == 'b' || c == 'B') {
        t->at += 2;
        emit_from(t, start);
        t->last = TERM_ASSERTION;
        return OK;
    }
    int code = read_escape(t, &atom);
    if (code == OK)
        emit_atom(t, &atom);
    return code;
}

/* ---- the whole ---- */

static int translate_term(struct translation *t)
{
    struct atom literal = {.kind = ATOM_CODE_POINT};
    switch (byte_at(t, t->at)) {
    case '(':
        return open_group(t);
    case ')':
        return close_group(t);
    case '*':
    case '+':
    case '?':
        return add_quantifier(t, t->at + 1);
    case '{':
        return open_brace(t);
    case '\\':
        return escape(t);
    case '[':
        return translate_class(t);
    case '|':
        return emit_as(t, SLICE("|"), TERM_NONE);
    case '^':
        return emit_as(t, SLICE("^"), TERM_ASSERTION);
    case '$':
        return emit_as(t, SLICE("$"), TERM_ASSERTION);
    case '.':
        /* ECMA-262's line terminators; PCRE2's dot excludes only \n. */
        return emit_as(t, SLICE("[^\\n\\r\\x{2028}\\x{2029}]"), TERM_ATOM);
    default:
        t->at += slice_code_point(slice_from(t->text, t->at), &literal.code_point);
        emit_atom(t, &literal);
        return OK;
    }
}

int schema_regex_translate(slice pattern, struct buf *out, struct schema_regex_info *info,
                           struct err *err)
{
    size_t bad_at = 0;
    struct translation t;
    *info = (struct schema_regex_info){0};
    if (!slice_is_utf8(pattern, &bad_at))
        return err_set(err, ERR_SYNTAX, "pattern at byte %zu: not UTF-8", bad_at);
    /* The struct is not cleared as a whole: the stack of groups is large, and only its first
     * `depth` entries are read. */
    t.text = pattern;
    t.out = out;
    t.err = err;
    t.info = info;
    t.at = t.depth = 0;
    t.names_used = 0;
    t.last = TERM_NONE;
    (void)scan_groups(pattern, SLICE_NONE, &t.capture_count);
    while (t.at < pattern.len) {
        int code = translate_term(&t);
        if (code != OK)
            return code;
    }
    return t.depth > 0 ? refuse_regex(&t, pattern.len, "a ( without its )") : OK;
}
