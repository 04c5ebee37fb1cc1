/*
 * The domain of an address in ASCII (RFC 5890 2.3.2.1, RFC 3492): "müller.example" is
 * "xn--mller-kva.example", the form that DNS and mail servers use.
 *
 * This is not all of IDNA: capital letters are converted where a few ranges suffice, and text that
 * would have to be normalized first (RFC 5891 5.3) is refused, since another spelling would be
 * another domain.
 */
#include "mime/internal.h"

#include "base/ascii.h"

/* RFC 3492 5. */
enum {
    BASE = 36,
    T_MIN = 1,
    T_MAX = 26,
    SKEW = 38,
    DAMP = 700,
    BIAS_FIRST = 72,
    POINT_FIRST = 0x80,
    LABEL_MAX = 63, /* RFC 1035 2.3.4 */
};

/* ---- characters ---- */

static bool is_in(uint32_t point, uint32_t first, uint32_t last)
{
    return point >= first && point <= last;
}

/* Latin, Greek and Cyrillic; other letters of domains have no case, except for rare ones. */
static uint32_t to_lower(uint32_t point)
{
    bool is_even_upper = is_in(point, 0x100, 0x137) || is_in(point, 0x14A, 0x177) ||
                         is_in(point, 0x1E00, 0x1E95) || is_in(point, 0x1EA0, 0x1EFF) ||
                         is_in(point, 0x460, 0x481) || is_in(point, 0x48A, 0x4BF) ||
                         is_in(point, 0x4D0, 0x52F);
    bool is_odd_upper = is_in(point, 0x139, 0x148) || is_in(point, 0x179, 0x17E);
    if (point < 0x80)
        return (uint32_t)(unsigned char)ascii_lower((char)point);
    if (is_even_upper)
        return point | 1;
    if (is_odd_upper)
        return point + (point & 1);
    if ((is_in(point, 0xC0, 0xDE) && point != 0xD7) || is_in(point, 0x391, 0x3AB) ||
        is_in(point, 0x410, 0x42F))
        return point + 0x20;
    if (is_in(point, 0x531, 0x556))
        return point + 0x30;
    return is_in(point, 0x400, 0x40F) ? point + 0x50 : point == 0x178 ? 0xFF : point;
}

/* Whether a label may contain the code point. Refused are combining marks, symbols, invisible
 * characters, wide and other forms of letters, private-use characters, and capitals that
 * to_lower does not know. */
static bool is_label_point(uint32_t point)
{
    /* From Latin Extended-B only the letters of Vietnamese and Romanian, and from Greek only
     * letters. */
    bool is_odd_latin = is_in(point, 0x180, 0x24F) && point != 0x1A1 && point != 0x1B0 &&
                        point != 0x219 && point != 0x21B;
    bool is_odd_greek = is_in(point, 0x370, 0x38F) || is_in(point, 0x3CF, 0x3FF);
    bool is_joined = point == 0x132 || point == 0x133 || point == 0x13F || point == 0x140 ||
                     point == 0x149 || point == 0x17F || point == 0x587 || point == 0x640 ||
                     is_in(point, 0x1E96, 0x1E9F);
    if (point < 0x80)
        return ascii_is_alnum((char)point) || point == '-';
    return point > 0xBF && point != 0xD7 && point != 0xF7 && point != 0x130 && !is_odd_latin &&
           !is_odd_greek && !is_joined && !is_in(point, 0x4C0, 0x4CE) &&
           !is_in(point, 0x300, 0x36F) && !is_in(point, 0x1AB0, 0x1DFF) &&
           !is_in(point, 0x2000, 0x2BFF) && !is_in(point, 0x3000, 0x3004) &&
           !is_in(point, 0xE000, 0xF8FF) && !is_in(point, 0xFB00, 0xFB4F) &&
           !is_in(point, 0xFB50, 0xFFFF) && !is_in(point, 0x1D000, 0x1FFFF) && point < 0x30000;
}

/* ---- one label ---- */

struct label {
    uint32_t points[LABEL_MAX];
    size_t count;
    bool is_ascii;
};

static bool read_label(slice text, struct label *label)
{
    *label = (struct label){.is_ascii = true};
    while (text.len > 0 && label->count < LABEL_MAX) {
        uint32_t point;
        size_t len = slice_utf8_first(text);
        if (len == 0)
            return false;
        text = slice_from(text, slice_code_point(text, &point));
        if (!is_label_point(point))
            return false;
        label->points[label->count++] = to_lower(point);
        label->is_ascii = label->is_ascii && point < 0x80;
    }
    return text.len == 0 && label->count > 0;
}

static uint32_t adapt_bias(uint32_t delta, uint32_t count, bool is_first)
{
    uint32_t k = 0;
    delta = is_first ? delta / DAMP : delta / 2;
    for (delta += delta / count; delta > ((BASE - T_MIN) * T_MAX) / 2; k += BASE)
        delta /= BASE - T_MIN;
    return k + (BASE - T_MIN + 1) * delta / (delta + SKEW);
}

static void put_delta(struct buf *out, uint32_t delta, uint32_t bias)
{
    static const char digits[] = "abcdefghijklmnopqrstuvwxyz0123456789";
    for (uint32_t k = BASE;; k += BASE) {
        uint32_t t = k <= bias ? T_MIN : k >= bias + T_MAX ? T_MAX : k - bias;
        if (delta < t)
            break;
        buf_append_char(out, digits[t + (delta - t) % (BASE - t)]);
        delta = (delta - t) / (BASE - t);
    }
    buf_append_char(out, digits[delta]);
}

/* RFC 3492 6.3. No number overflows: a label has 63 points at most, below 2^18. */
static void put_punycode(struct buf *out, const struct label *label)
{
    uint32_t point = POINT_FIRST, delta = 0, bias = BIAS_FIRST, basic = 0;
    for (size_t i = 0; i < label->count; i++)
        if (label->points[i] < 0x80) {
            buf_append_char(out, (char)label->points[i]);
            basic++;
        }
    if (basic > 0)
        buf_append_char(out, '-');
    for (uint32_t done = basic; done < label->count; delta++, point++) {
        uint32_t next = UINT32_MAX;
        for (size_t i = 0; i < label->count; i++)
            if (label->points[i] >= point && label->points[i] < next)
                next = label->points[i];
        delta += (next - point) * (done + 1);
        point = next;
        for (size_t i = 0; i < label->count; i++) {
            delta += label->points[i] < point;
            if (label->points[i] != point)
                continue;
            put_delta(out, delta, bias);
            bias = adapt_bias(delta, done + 1, done == basic);
            delta = 0;
            done++;
        }
    }
}

slice mime_domain_ascii(slice domain, char room[MIME_ADDRESS_MAX])
{
    struct buf out = {.ptr = room, .cap = MIME_ADDRESS_MAX, .bytes_max = MIME_ADDRESS_MAX};
    while (domain.len > 0) {
        struct label label;
        bool is_last = slice_find_char(domain, '.') < 0;
        size_t begin = out.len;
        if (!read_label(slice_split(&domain, '.'), &label))
            return SLICE_NONE;
        if (!label.is_ascii)
            buf_append_cstr(&out, "xn--");
        if (label.is_ascii)
            for (size_t i = 0; i < label.count; i++)
                buf_append_char(&out, (char)label.points[i]);
        else
            put_punycode(&out, &label);
        if (out.len - begin > LABEL_MAX)
            return SLICE_NONE;
        if (!is_last)
            buf_append_char(&out, '.');
    }
    return buf_is_ok(&out) ? buf_slice(&out) : SLICE_NONE;
}
