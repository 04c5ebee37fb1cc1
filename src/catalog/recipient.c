/*
 * Finds the recipients of calls; see recipient.h.
 */
#include "catalog/recipient.h"

#include "base/ascii.h"

/* ---- one address ---- */

/* Whether all characters of text may be in the unquoted local part of an address; all beyond ASCII
 * may. */
static bool is_local(slice text)
{
    for (size_t i = 0; i < text.len; i++) {
        unsigned char c = (unsigned char)text.ptr[i];
        if (c < 0x80 && !ascii_is_alnum((char)c) && !strchr("!#$%&'*+-/=?^_`{|}~.", (char)c))
            return false;
    }
    return memchr(text.ptr, 0, text.len) == NULL;
}

static bool is_label(slice label)
{
    for (size_t i = 0; i < label.len; i++) {
        unsigned char c = (unsigned char)label.ptr[i];
        if (c < 0x80 && !ascii_is_alnum((char)c) && c != '-' && c != '_')
            return false;
    }
    return label.len > 0;
}

static bool is_domain(slice domain)
{
    if (domain.len > 0 && domain.ptr[domain.len - 1] == '.')
        domain.len--;
    while (domain.len > 0) {
        bool is_last = slice_find_char(domain, '.') < 0;
        if (!is_label(slice_split(&domain, '.')))
            return false;
        if (is_last)
            return true;
    }
    return false;
}

/* "@example.com", without a name, means everyone in that domain: a file is shared with a domain. */
static slice domain_of(slice address, bool is_bare)
{
    ptrdiff_t at = slice_find_char(address, '@');
    if (at < 0 || (at == 0 && !is_bare))
        return SLICE_NONE;
    slice domain = slice_from(address, (size_t)at + 1);
    bool is_good = (at == 0 || is_local(slice_first(address, (size_t)at))) && is_domain(domain);
    return is_good ? domain : SLICE_NONE;
}

/* Returns the position of the first of these characters outside quotes; the text's length if there
 * is none. */
static size_t find_outside(slice text, const char *chars)
{
    bool is_quoted = false;
    for (size_t i = 0; i < text.len; i++) {
        char c = text.ptr[i];
        if (is_quoted && c == '\\')
            i++;
        else if (c == '"')
            is_quoted = !is_quoted;
        else if (!is_quoted && c && strchr(chars, c))
            return i;
    }
    return text.len;
}

/* Comments are refused, because programs disagree about them. Also refused are a second address
 * in the name, unless it is in quotes, and a control character, which could end a header's line. */
static void read_recipient(slice text, struct recipient *out)
{
    size_t open = find_outside(text, "<");
    *out = (struct recipient){.address = text};
    for (size_t i = 0; i < text.len; i++)
        if ((unsigned char)text.ptr[i] < ' ' || text.ptr[i] == 0x7F)
            return;
    if (open == text.len) {
        out->domain = domain_of(text, true);
        return;
    }
    slice name = slice_first(text, open), inner = slice_from(text, open + 1);
    bool is_whole = inner.len > 0 && inner.ptr[inner.len - 1] == '>' &&
                    find_outside(name, "@()>:") == name.len;
    inner = slice_first(inner, is_whole ? inner.len - 1 : 0);
    slice domain = domain_of(inner, false);
    if (domain.ptr)
        *out = (struct recipient){slice_first(text, open + 1), inner, SLICE(">"), domain};
}

bool recipient_next(slice *rest, struct recipient *out)
{
    while (rest->len > 0) {
        size_t end = find_outside(*rest, ",;");
        slice text = slice_trim(slice_first(*rest, end));
        *rest = slice_from(*rest, end < rest->len ? end + 1 : end);
        if (text.len == 0)
            continue;
        read_recipient(text, out);
        return true;
    }
    return false;
}

/* ---- domains ---- */

enum { LABEL_MAX = 63 };

/* RFC 3492 6.1. */
static uint32_t adapt(uint32_t delta, uint32_t count, bool is_first)
{
    uint32_t k = 0;
    delta = is_first ? delta / 700 : delta / 2;
    for (delta += delta / count; delta > 455; k += 36)
        delta /= 35;
    return k + 36 * delta / (delta + 38);
}

static void put_digits(struct buf *out, uint32_t number, uint32_t bias)
{
    for (uint32_t k = 36;; k += 36) {
        uint32_t t = k <= bias ? 1 : k >= bias + 26 ? 26 : k - bias;
        uint32_t digit = number < t ? number : t + (number - t) % (36 - t);
        buf_append_char(out, (char)(digit < 26 ? 'a' + digit : '0' + digit - 26));
        if (number < t)
            return;
        number = (number - t) / (36 - t);
    }
}

/* Encodes a label as in RFC 3492 6.3. It must be well-formed UTF-8, and is so short that no number
 * overflows. Returns false if the result is too long for a label. */
static bool put_punycode(struct buf *out, slice label)
{
    uint32_t points[LABEL_MAX], next = 0x80, delta = 0, bias = 72;
    size_t count = 0, basic = 0;
    for (size_t len; label.len > 0; label = slice_from(label, len)) {
        if (count == LABEL_MAX)
            return false;
        len = slice_code_point(label, &points[count++]);
    }
    for (size_t i = 0; i < count; i++)
        if (points[i] < 0x80) {
            buf_append_char(out, (char)points[i]);
            basic++;
        }
    if (basic > 0)
        buf_append_char(out, '-');
    for (size_t done = basic; done < count; next++, delta++) {
        uint32_t least = UINT32_MAX;
        for (size_t i = 0; i < count; i++)
            if (points[i] >= next && points[i] < least)
                least = points[i];
        delta += (least - next) * (uint32_t)(done + 1);
        next = least;
        for (size_t i = 0; i < count; i++) {
            delta += points[i] < next;
            if (points[i] != next)
                continue;
            put_digits(out, delta, bias);
            bias = adapt(delta, (uint32_t)done + 1, done == basic);
            delta = 0;
            done++;
        }
    }
    return true;
}

static bool put_label(struct buf *out, slice label)
{
    char small[RECIPIENT_DOMAIN_MAX];
    bool is_ascii = true;
    for (size_t i = 0; i < label.len; i++) {
        small[i] = ascii_lower(label.ptr[i]);
        is_ascii &= (unsigned char)small[i] < 0x80;
    }
    label = slice_of(small, label.len);
    if (is_ascii) {
        buf_append(out, label);
        return true;
    }
    buf_append_cstr(out, "xn--");
    return put_punycode(out, label);
}

slice recipient_domain(slice domain, char room[RECIPIENT_DOMAIN_MAX + 1])
{
    struct buf out;
    slice found = SLICE_NONE;
    if (domain.len > RECIPIENT_DOMAIN_MAX || !is_domain(domain) || !slice_is_utf8(domain, NULL))
        return SLICE_NONE;
    if (domain.ptr[domain.len - 1] == '.')
        domain.len--;
    bool is_good = true;
    buf_init(&out, RECIPIENT_DOMAIN_MAX);
    while (domain.len > 0 && is_good) {
        is_good = put_label(&out, slice_split(&domain, '.'));
        if (domain.len > 0)
            buf_append_char(&out, '.');
    }
    if (is_good && buf_is_ok(&out)) {
        slice text = buf_slice(&out);
        memcpy(room, text.ptr, text.len);
        found = slice_of(room, text.len);
    }
    buf_deinit(&out);
    return found;
}

bool recipient_is_home(slice domain, const slice *homes, size_t home_count)
{
    char room[RECIPIENT_DOMAIN_MAX + 1];
    domain = recipient_domain(domain, room);
    for (size_t i = 0; domain.ptr && i < home_count; i++) {
        size_t len = homes[i].len;
        ASSERT(len > 0);
        if (slice_ends_with(domain, homes[i]) &&
            (domain.len == len || domain.ptr[domain.len - len - 1] == '.'))
            return true;
    }
    return false;
}

/* ---- recipients of a call ---- */

struct listing {
    recipient_fn on_each;
    void *user;
    slice field;
    struct expr_budget *budget; /* NULL: unlimited */
};

/* A recipient costs some 100 ns more than its text, which is read several times. */
enum { RECIPIENT_VISITS = 4, BYTES_A_VISIT = 8 };

static void say_unknown(const struct listing *listing, slice text)
{
    const struct recipient unknown = {.address = text};
    listing->on_each(listing->user, listing->field, &unknown);
}

static bool is_affordable(const struct listing *listing, uint64_t visits)
{
    struct expr_budget *budget = listing->budget;
    if (!budget)
        return true;
    budget->visits += visits;
    return budget->visits <= budget->visits_max;
}

/* Lists may be nested; a value that is not text cannot be read as a recipient. Returns false if the
 * budget is used up. */
static bool list_value(const struct listing *listing, const struct json *value)
{
    struct recipient found;
    bool is_listed = is_affordable(listing, 1);
    if (value->type == JSON_ARRAY) {
        for (uint32_t i = 0; is_listed && i < value->count; i++)
            is_listed = list_value(listing, &value->as.items[i]);
    } else if (value->type == JSON_STRING) {
        is_listed = is_listed && is_affordable(listing, value->count / BYTES_A_VISIT);
        for (slice rest = json_str(value); is_listed && recipient_next(&rest, &found);) {
            listing->on_each(listing->user, listing->field, &found);
            is_listed = is_affordable(listing, RECIPIENT_VISITS);
        }
    } else if (value->type != JSON_NULL) {
        say_unknown(listing, SLICE("(no address)"));
    }
    return is_listed;
}

/* Lists the recipients of one field. */
static bool list_field(const struct listing *listing, const struct expr_template *field,
                       const struct json *root, struct arena *arena)
{
    struct expr_budget own;
    struct json value;
    expr_budget_init(&own);
    if (expr_template_eval(field, root, 0, listing->budget ? listing->budget : &own, arena, &value,
                           NULL) == OK &&
        list_value(listing, &value))
        return true;
    say_unknown(listing, SLICE("(not known)"));
    return false;
}

static bool list_all(struct listing *listing, const struct catalog_action *action,
                     const struct json *input, struct arena *arena)
{
    struct json root = json_object();
    bool is_listed = true;
    if (action->recipients.count == 0)
        return true;
    json_object_set(arena, &root, SLICE("input"), input ? *input : json_object());
    for (size_t i = 0; i < action->recipients.count; i++) {
        const struct catalog_pair *pair = &action->recipients.items[i];
        listing->field = pair->name;
        is_listed &= list_field(listing, pair->value, &root, arena);
    }
    return is_listed;
}

void recipient_each(const struct catalog_action *action, const struct json *input,
                    struct arena *arena, recipient_fn on_each, void *user)
{
    struct listing listing = {.on_each = on_each, .user = user};
    (void)list_all(&listing, action, input, arena);
}

bool recipient_each_within(const struct catalog_action *action, const struct json *input,
                           struct expr_budget *budget, struct arena *arena, recipient_fn on_each,
                           void *user)
{
    struct listing listing = {.on_each = on_each, .user = user, .budget = budget};
    return list_all(&listing, action, input, arena);
}
