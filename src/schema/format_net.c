/*
 * schema_format_net: names and addresses of the network: hostname, ipv4, ipv6, email. Stricter than
 * what resolvers take (0x7f.1, 127.1): a format says what a text is, not what some library makes of
 * it.
 */
#include "schema/format.h"

#include "base/ascii.h"

/* RFC 1035 2.3.4: 255 bytes on the wire are 253 characters; a label has at most 63. */
enum {
    HOSTNAME_BYTES_MAX = 253,
    LABEL_BYTES_MAX = 63,
    LOCAL_PART_BYTES_MAX = 64,
};

/* ---- hostname ---- */

/* RFC 5891 4.2.3.1 wants no "--" in the third and fourth place but of an A-label, and RFC 3492
 * needs something behind "xn--" that decodes; the tables of code points are not checked. */
static bool is_plausible_a_label(slice label)
{
    slice code = slice_from(label, 4);
    ptrdiff_t last = -1;
    for (size_t i = 0; i < code.len; i++) {
        if (code.ptr[i] == '-')
            last = (ptrdiff_t)i;
    }
    /* Behind the last hyphen stand the deltas: at least two digits for one character. */
    return code.len - (size_t)(last + 1) >= 2;
}

static bool is_label(slice label)
{
    if (label.len == 0 || label.len > LABEL_BYTES_MAX || label.ptr[0] == '-' ||
        label.ptr[label.len - 1] == '-')
        return false;
    for (size_t i = 0; i < label.len; i++) {
        if (!ascii_is_alnum(label.ptr[i]) && label.ptr[i] != '-')
            return false;
    }
    /* "--" in the third and fourth position is reserved for A-labels. */
    if (label.len < 4 || label.ptr[2] != '-' || label.ptr[3] != '-')
        return true;
    return slice_eq_nocase(slice_first(label, 2), SLICE("xn")) && is_plausible_a_label(label);
}

bool format_hostname(slice text)
{
    /* The root's trailing dot is no part of a host name in RFC 1123 2.1. */
    if (text.len == 0 || text.len > HOSTNAME_BYTES_MAX || text.ptr[text.len - 1] == '.')
        return false;
    /* slice_split sets ptr to NULL behind the last label; an empty label between two dots is
     * refused. */
    while (text.ptr) {
        if (!is_label(slice_split(&text, '.')))
            return false;
    }
    return true;
}

/* Bytes of the label separator at the start of text (RFC 3490 3.1): '.', or one of the three wide
 * full stops; 0 when there is none. */
static size_t separator_len(slice text)
{
    static const slice stops[] = {SLICE_INIT("."), SLICE_INIT("\xE3\x80\x82"),
                                  SLICE_INIT("\xEF\xBC\x8E"), SLICE_INIT("\xEF\xBD\xA1")};
    for (size_t i = 0; i < ARRAY_LEN(stops); i++) {
        if (slice_starts_with(text, stops[i]))
            return stops[i].len;
    }
    return 0;
}

/* A U-label by its shape alone: ASCII as in host names, no hyphen at an end or in both the third
 * and fourth place, and what it takes as an A-label at the very least: "xn--" and a digit for each
 * character that is not ASCII. */
static bool is_u_label(slice label)
{
    size_t wide = 0;
    size_t ascii = 0;
    for (size_t i = 0; i < label.len; i++) {
        unsigned char c = (unsigned char)label.ptr[i];
        if (c < 0x80 && !ascii_is_alnum((char)c) && c != '-')
            return false;
        ascii += c < 0x80;
        /* Lead bytes from 0xC0 on count the characters that are not ASCII. */
        wide += c >= 0xC0;
    }
    if (wide == 0)
        return is_label(label);
    if (label.ptr[0] == '-' || label.ptr[label.len - 1] == '-')
        return false;
    /* A-labels have "xn--" in front and at least a digit for each wide character. */
    return ascii + wide + 4 <= LABEL_BYTES_MAX &&
           !slice_starts_with(slice_from(label, 2), SLICE("--"));
}

/* RFC 5890, without the tables of code points and the context rules of RFC 5892. */
bool format_idn_hostname(slice text)
{
    size_t start = 0;
    /* Up to four bytes a character; the exact count follows below. */
    if (text.len == 0 || text.len > HOSTNAME_BYTES_MAX * 4 || !slice_is_utf8(text, NULL))
        return false;
    size_t characters = 0;
    for (size_t at = 0; at <= text.len; at++) {
        size_t stop = separator_len(slice_from(text, at));
        if (at < text.len)
            characters += ((unsigned char)text.ptr[at] & 0xC0) != 0x80;
        if (stop == 0 && at < text.len)
            continue;
        if (at == start || !is_u_label((slice){text.ptr + start, at - start}))
            return false;
        start = at + stop;
        /* The loop's own increment takes the last byte of the separator. */
        at += stop > 0 ? stop - 1 : 0;
    }
    return characters <= HOSTNAME_BYTES_MAX;
}

/* ---- addresses ---- */

/* 0 to 255 without leading zeros. */
static bool is_octet(slice text)
{
    unsigned value = 0;
    if (text.len == 0 || text.len > 3 || (text.len > 1 && text.ptr[0] == '0'))
        return false;
    for (size_t i = 0; i < text.len; i++) {
        if (!ascii_is_digit(text.ptr[i]))
            return false;
        value = value * 10 + (unsigned)(text.ptr[i] - '0');
    }
    return value <= 255;
}

bool format_ipv4(slice text)
{
    int octets = 0;
    /* Stops at five, so that a text of a million octets costs no more. */
    while (text.ptr && octets < 5) {
        if (!is_octet(slice_split(&text, '.')))
            return false;
        octets++;
    }
    return octets == 4;
}

static bool is_hex_group(slice text)
{
    if (text.len == 0 || text.len > 4)
        return false;
    for (size_t i = 0; i < text.len; i++) {
        if (!ascii_is_hex(text.ptr[i]))
            return false;
    }
    return true;
}

/* Groups of 16 bits in one side of "::"; an IPv4 address may be the last of the right side and
 * counts as two. -1 on a fault. */
static int count_groups(slice side, bool may_end_ipv4)
{
    int count = 0;
    while (side.len > 0 && count <= 8) {
        slice group = slice_split(&side, ':');
        bool is_last = side.ptr == NULL;
        if (is_last && may_end_ipv4 && slice_find_char(group, '.') >= 0) {
            if (!format_ipv4(group))
                return -1;
            count += 2;
        } else if (is_hex_group(group) && (is_last || side.len > 0)) {
            count++;
        } else {
            return -1;
        }
    }
    return count;
}

bool format_ipv6(slice text)
{
    ptrdiff_t gap = slice_find(text, SLICE("::"));
    if (gap < 0)
        return count_groups(text, true) == 8;
    int left = count_groups(slice_first(text, (size_t)gap), false);
    int right = count_groups(slice_from(text, (size_t)gap + 2), true);
    /* Both sides of "::" together have at most seven groups, as it stands for one at least (RFC
     * 4291 2.2). */
    return left >= 0 && right >= 0 && left + right <= 7;
}

/* ---- email ---- */

/* RFC 5322 3.2.3 atext; past ASCII for RFC 6531. */
static bool is_atext(char c, bool is_idn)
{
    if ((unsigned char)c >= 0x80)
        return is_idn;
    return ascii_is_alnum(c) || (c && strchr("!#$%&'*+-/=?^_`{|}~", c));
}

static bool is_dot_atom(slice text, bool is_idn)
{
    bool after_dot = true;
    for (size_t i = 0; i < text.len; i++) {
        if (text.ptr[i] == '.' ? after_dot : !is_atext(text.ptr[i], is_idn))
            return false;
        after_dot = text.ptr[i] == '.';
    }
    return !after_dot;
}

/* The length of a quoted string with its quotes (RFC 5321 4.1.2); 0 when it is none. */
static size_t quoted_len(slice text, bool is_idn)
{
    for (size_t i = 1; i < text.len; i++) {
        char c = text.ptr[i];
        if (c == '"')
            return i + 1;
        /* A backslash takes the next byte along, also a quote or another backslash. */
        if (c == '\\' && ++i < text.len)
            c = text.ptr[i];
        bool is_past_ascii = (unsigned char)c >= 0x80;
        if (is_past_ascii ? !is_idn : c < 0x20 || c == 0x7F)
            return 0;
    }
    return 0;
}

/* RFC 5321 4.1.3 */
static bool is_address_literal(slice text)
{
    if (text.len < 2 || text.ptr[text.len - 1] != ']')
        return false;
    slice inner = {text.ptr + 1, text.len - 2};
    if (slice_eq_nocase(slice_first(inner, 5), SLICE("IPv6:")))
        return format_ipv6(slice_from(inner, 5));
    return format_ipv4(inner);
}

static bool is_email(slice text, bool is_idn)
{
    size_t local_len = 0;
    if (text.len > 0 && text.ptr[0] == '"') {
        local_len = quoted_len(text, is_idn);
    } else {
        /* The first "@" ends the local part: unquoted it cannot hold one. */
        ptrdiff_t at = slice_find_char(text, '@');
        if (at <= 0 || !is_dot_atom(slice_first(text, (size_t)at), is_idn))
            return false;
        local_len = (size_t)at;
    }
    if (local_len == 0 || local_len > LOCAL_PART_BYTES_MAX || local_len >= text.len ||
        text.ptr[local_len] != '@')
        return false;
    slice domain = slice_from(text, local_len + 1);
    if (domain.len > 0 && domain.ptr[0] == '[')
        return is_address_literal(domain);
    return is_idn ? format_idn_hostname(domain) : format_hostname(domain);
}

bool format_email(slice text)
{
    return is_email(text, false);
}

bool format_idn_email(slice text)
{
    return slice_is_utf8(text, NULL) && is_email(text, true);
}
