/*
 * schema_regex_class: escapes and classes of ECMA-262 for PCRE2. Code points are always written as
 * \x{...}, so that no character can mean something else to PCRE2, such as the [: of a POSIX class.
 */
#include "schema/regex_class.h"

#include "base/ascii.h"

/* ECMA-262 WhiteSpace and LineTerminator, and what is left of Unicode without them. */
#define SPACE_SET                                                                                 \
    "\\x{9}-\\x{d}\\x{20}\\x{a0}\\x{1680}\\x{2000}-\\x{200a}\\x{2028}\\x{2029}\\x{202f}\\x{205f}" \
    "\\x{3000}\\x{feff}"
#define NOT_SPACE_SET                                                                \
    "\\x{0}-\\x{8}\\x{e}-\\x{1f}\\x{21}-\\x{9f}\\x{a1}-\\x{167f}\\x{1681}-\\x{1fff}" \
    "\\x{200b}-\\x{2027}\\x{202a}-\\x{202e}\\x{2030}-\\x{205e}\\x{2060}-\\x{2fff}"   \
    "\\x{3001}-\\x{fefe}\\x{ff00}-\\x{10ffff}"

int regex_refuse(const struct regex_in *in, size_t at, const char *why)
{
    return err_set(in->err, ERR_SYNTAX, "pattern at byte %zu: %s", at, why);
}

void regex_emit(const struct regex_in *in, slice text)
{
    if (in->out)
        buf_append(in->out, text);
}

void regex_emit_number(const struct regex_in *in, const char *prefix, unsigned number, bool is_hex)
{
    if (in->out && is_hex)
        /* The prefix holds the opening brace. */
        buf_printf(in->out, "%s%x}", prefix, number);
    else if (in->out)
        buf_printf(in->out, "%s%u}", prefix, number);
}

bool regex_is_word(char c)
{
    return ascii_is_alnum(c) || c == '_';
}

uint32_t regex_next_code_point(struct regex_in *in)
{
    uint32_t code_point;
    in->at += slice_code_point(slice_from(in->text, in->at), &code_point);
    return code_point;
}

/* ---- escapes ---- */

/* Exactly count hex digits at `at`. */
static bool read_hex(slice text, size_t at, size_t count, uint32_t *value)
{
    if (at + count > text.len)
        return false;
    *value = 0;
    for (size_t i = 0; i < count; i++) {
        int digit = ascii_hex_value(text.ptr[at + i]);
        if (digit < 0)
            return false;
        *value = *value << 4 | (uint32_t)digit;
    }
    return true;
}

/* \u{...}: the digits start at `at`; returns the index behind the brace, 0 on a fault. */
static size_t read_braced_hex(slice text, size_t at, uint32_t *value)
{
    size_t start = at;
    *value = 0;
    for (; at < text.len && ascii_hex_value(text.ptr[at]) >= 0; at++) {
        *value = *value << 4 | (uint32_t)ascii_hex_value(text.ptr[at]);
        /* Checked at each digit, before the next shift could lose bits. */
        if (*value > 0x10FFFF)
            return 0;
    }
    return at > start && at < text.len && text.ptr[at] == '}' ? at + 1 : 0;
}

/* \uXXXX, \uXXXX\uXXXX (a surrogate pair), \u{X...}; in->at is at the backslash. */
static int read_unicode(struct regex_in *in, struct regex_escape *escape)
{
    size_t at = in->at + 2;
    uint32_t value = 0;
    if (at < in->text.len && in->text.ptr[at] == '{') {
        at = read_braced_hex(in->text, at + 1, &value);
    } else {
        at = read_hex(in->text, at, 4, &value) ? at + 4 : 0;
        uint32_t low = 0;
        /* A high surrogate followed by an escaped low one is one code point, as in a JSON
         * string. */
        bool has_low = at > 0 && value >= 0xD800 && value <= 0xDBFF && at + 6 <= in->text.len &&
                       in->text.ptr[at] == '\\' && in->text.ptr[at + 1] == 'u' &&
                       read_hex(in->text, at + 2, 4, &low) && low >= 0xDC00 && low <= 0xDFFF;
        if (has_low) {
            value = 0x10000 + ((value - 0xD800) << 10) + (low - 0xDC00);
            at += 6;
        }
    }
    if (at == 0)
        return regex_refuse(in, in->at, "\\u needs four hex digits, or {hex digits}");
    in->at = at;
    escape->kind = value >= 0xD800 && value <= 0xDFFF ? REGEX_LONE_SURROGATE : REGEX_CODE_POINT;
    escape->code_point = value;
    return OK;
}

/* Long names that PCRE2 does not know; both sides of the table are Unicode's. */
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

/* General_Category= is dropped; Script= and Script_Extensions= PCRE2 knows by these names. */
static slice property_value(slice name)
{
    slice rest = name;
    slice kind = slice_split(&rest, '=');
    if (!rest.ptr)
        return property_alias(name);
    if (slice_eq_cstr(kind, "gc") || slice_eq_cstr(kind, "General_Category"))
        return property_alias(rest);
    return name;
}

static int read_property(struct regex_in *in, struct regex_escape *escape)
{
    size_t start = in->at;
    size_t at = start + 3;
    bool is_open = start + 2 < in->text.len && in->text.ptr[start + 2] == '{';
    while (is_open && at < in->text.len &&
           (regex_is_word(in->text.ptr[at]) || in->text.ptr[at] == '='))
        at++;
    if (!is_open || at >= in->text.len || in->text.ptr[at] != '}' || at == start + 3)
        return regex_refuse(in, start, "\\p needs a {Property} or {Name=Value}");
    escape->kind = REGEX_PROPERTY;
    escape->letter = in->text.ptr[start + 1];
    escape->property = property_value((slice){in->text.ptr + start + 3, at - start - 3});
    in->at = at + 1;
    return OK;
}

static int read_control(struct regex_in *in, struct regex_escape *escape)
{
    char letter = in->at + 2 < in->text.len ? in->text.ptr[in->at + 2] : '\0';
    if (!ascii_is_letter(letter))
        return regex_refuse(in, in->at, "\\c needs a letter");
    /* ECMA-262 CharacterEscape: the letter modulo 32. */
    *escape = (struct regex_escape){.kind = REGEX_CODE_POINT,
                                    .code_point = (unsigned char)letter & 0x1FU};
    in->at += 3;
    return OK;
}

static int read_byte(struct regex_in *in, struct regex_escape *escape)
{
    if (!read_hex(in->text, in->at + 2, 2, &escape->code_point))
        return regex_refuse(in, in->at, "\\x needs two hex digits");
    escape->kind = REGEX_CODE_POINT;
    in->at += 4;
    return OK;
}

/* \t and its kin; 0 for letters that are none. */
static uint32_t control_of(char letter)
{
    static const char controls[] = "\t\n\v\f\r";
    ptrdiff_t at = slice_find_char(SLICE("tnvfr"), letter);
    return at < 0 ? 0 : (uint32_t)controls[at];
}

static int read_simple(struct regex_in *in, struct regex_escape *escape, char c)
{
    bool is_digit_next = in->at + 2 < in->text.len && ascii_is_digit(in->text.ptr[in->at + 2]);
    escape->letter = c;
    /* \0 is NUL only where no digit follows (there are no octal escapes in Unicode mode). Any
     * escaped ASCII punctuation stands for itself. */
    if (c == 'd' || c == 'D' || c == 'w' || c == 'W') {
        escape->kind = REGEX_SHORTHAND;
    } else if (c == 's' || c == 'S') {
        escape->kind = REGEX_SPACE;
    } else if (control_of(c) || (c == '0' && !is_digit_next)) {
        escape->kind = REGEX_CODE_POINT;
        escape->code_point = control_of(c);
    } else if ((unsigned char)c > 0x20 && (unsigned char)c < 0x7F && !regex_is_word(c)) {
        escape->kind = REGEX_CODE_POINT;
        escape->code_point = (unsigned char)c;
    } else {
        return regex_refuse(in, in->at, "this escape is not ECMA-262");
    }
    in->at += 2;
    return OK;
}

int regex_read_escape(struct regex_in *in, struct regex_escape *escape)
{
    *escape = (struct regex_escape){0};
    if (in->at + 1 >= in->text.len)
        return regex_refuse(in, in->at, "a \\ at the end");
    char c = in->text.ptr[in->at + 1];
    switch (c) {
    case 'u':
        return read_unicode(in, escape);
    case 'p':
    case 'P':
        return read_property(in, escape);
    case 'c':
        return read_control(in, escape);
    case 'x':
        return read_byte(in, escape);
    default:
        return read_simple(in, escape, c);
    }
}

/* ---- output ---- */

static void emit_in_class(const struct regex_in *in, const struct regex_escape *escape)
{
    switch (escape->kind) {
    case REGEX_CODE_POINT:
        regex_emit_number(in, "\\x{", escape->code_point, true);
        break;
    /* Strings are UTF-8, which has no surrogates: in a class it adds nothing. */
    case REGEX_LONE_SURROGATE:
        break;
    case REGEX_SHORTHAND:
        regex_emit(in, (slice){"\\", 1});
        regex_emit(in, (slice){&escape->letter, 1});
        break;
    case REGEX_SPACE:
        regex_emit(in, escape->letter == 's' ? SLICE(SPACE_SET) : SLICE(NOT_SPACE_SET));
        break;
    case REGEX_PROPERTY:
        regex_emit(in, escape->letter == 'p' ? SLICE("\\p{") : SLICE("\\P{"));
        regex_emit(in, escape->property);
        regex_emit(in, SLICE("}"));
        break;
    }
}

void regex_emit_escape(const struct regex_in *in, const struct regex_escape *escape)
{
    bool is_plain = escape->kind == REGEX_CODE_POINT && escape->code_point < 0x80 &&
                    regex_is_word((char)escape->code_point);
    /* A lone surrogate becomes an empty class, which matches nothing. */
    if (is_plain) {
        char letter = (char)escape->code_point;
        regex_emit(in, (slice){&letter, 1});
    } else if (escape->kind == REGEX_SPACE || escape->kind == REGEX_LONE_SURROGATE) {
        regex_emit(in, SLICE("["));
        emit_in_class(in, escape);
        regex_emit(in, SLICE("]"));
    } else {
        emit_in_class(in, escape);
    }
}

/* ---- classes ---- */

static int read_class_item(struct regex_in *in, struct regex_escape *item)
{
    *item = (struct regex_escape){.kind = REGEX_CODE_POINT};
    if (in->text.ptr[in->at] != '\\') {
        item->code_point = regex_next_code_point(in);
        return OK;
    }
    /* Inside a class \b is a backspace (ECMA-262 22.2.1), outside it a word boundary. */
    if (in->at + 1 < in->text.len && in->text.ptr[in->at + 1] == 'b') {
        item->code_point = '\b';
        in->at += 2;
        return OK;
    }
    return regex_read_escape(in, item);
}

static bool is_range_next(const struct regex_in *in)
{
    /* A "-" before the "]" is literal. */
    return in->at + 1 < in->text.len && in->text.ptr[in->at] == '-' &&
           in->text.ptr[in->at + 1] != ']';
}

/* The other end of a range that began with `low`. After or before a shorthand, '-' is literal. */
static int finish_range(struct regex_in *in, const struct regex_escape *low, size_t start)
{
    struct regex_escape high;
    in->at++;
    int code = read_class_item(in, &high);
    if (code != OK)
        return code;
    emit_in_class(in, low);
    bool is_range = low->kind <= REGEX_LONE_SURROGATE && high.kind <= REGEX_LONE_SURROGATE;
    /* Also of surrogates, by their numbers. */
    if (is_range && high.code_point < low->code_point)
        return regex_refuse(in, start, "this range runs backwards");
    /* What surrogates a range begins or ends with is cut off: PCRE2 refuses them, and no text holds
     * one. */
    if (is_range && low->kind == REGEX_LONE_SURROGATE) {
        if (high.kind == REGEX_LONE_SURROGATE)
            return OK;
        regex_emit(in, SLICE("\\x{e000}"));
    }
    if (is_range && high.kind == REGEX_LONE_SURROGATE)
        high = (struct regex_escape){.kind = REGEX_CODE_POINT, .code_point = 0xD7FF};
    regex_emit(in, is_range ? SLICE("-") : SLICE("\\x{2d}"));
    emit_in_class(in, &high);
    return OK;
}

int regex_translate_class(struct regex_in *in)
{
    size_t open = in->at++;
    regex_emit(in, SLICE("["));
    if (in->at < in->text.len && in->text.ptr[in->at] == '^') {
        regex_emit(in, SLICE("^"));
        in->at++;
    }
    while (in->at < in->text.len && in->text.ptr[in->at] != ']') {
        size_t start = in->at;
        struct regex_escape item;
        int code = read_class_item(in, &item);
        if (code != OK)
            return code;
        if (!is_range_next(in)) {
            emit_in_class(in, &item);
            continue;
        }
        code = finish_range(in, &item, start);
        if (code != OK)
            return code;
    }
    if (in->at >= in->text.len)
        return regex_refuse(in, open, "a [ without its ]");
    regex_emit(in, SLICE("]"));
    in->at++;
    return OK;
}
