/*
 * Mailboxes of a message (RFC 5322 3.4), read in the forms that people and APIs write, checked, and
 * written in a single safe form. Comments and groups are not accepted: programs disagree about
 * them, and a mail whose address is read differently reaches someone else.
 */
#include "mime/internal.h"

#include "base/ascii.h"

static bool is_atom_char(char c)
{
    return ascii_is_alnum(c) || (c && strchr("!#$%&'*+-/=?^_`{|}~", c));
}

/* dot-atom: runs of atom characters with single dots between them. */
static bool is_dot_atom(slice text, size_t max)
{
    /* The initial value of a dot makes a leading dot count as a double dot. */
    char before = '.';
    for (size_t i = 0; i < text.len; before = text.ptr[i++])
        if (text.ptr[i] == '.' ? before == '.' : !is_atom_char(text.ptr[i]))
            return false;
    return text.len > 0 && text.len <= max && before != '.';
}

static bool is_domain(slice text)
{
    if (!is_dot_atom(text, 255))
        return false;
    for (size_t i = 0; i < text.len; i++)
        /* Atom characters that are not allowed in a domain name. */
        if (strchr("!#$%&'*+/=?^`{|}~", text.ptr[i]))
            return false;
    return true;
}

static bool is_address(slice text)
{
    ptrdiff_t at = slice_find_char(text, '@');
    return at > 0 && text.len <= MIME_ADDRESS_MAX &&
           is_dot_atom(slice_first(text, (size_t)at), 64) &&
           is_domain(slice_from(text, (size_t)at + 1));
}

/* ---- display names ---- */

enum name_form { NAME_ATOMS, NAME_QUOTED, NAME_ENCODED };

static enum name_form name_form(slice name)
{
    enum name_form form = NAME_ATOMS;
    /* "=?" would be decoded by readers (RFC 2047), so a name that contains it is encoded, too. */
    if (name.len > 60 || slice_find(name, SLICE("=?")) >= 0)
        return NAME_ENCODED;
    for (size_t i = 0; i < name.len; i++) {
        char c = name.ptr[i];
        if (c < ' ' || c > '~')
            return NAME_ENCODED;
        bool is_gap = c == ' ' && i > 0 && i + 1 < name.len && name.ptr[i - 1] != ' ';
        if (!is_gap && !is_atom_char(c))
            form = NAME_QUOTED;
    }
    return form;
}

static void put_quoted(struct mime *mime, slice name, bool with_space)
{
    /* At most two bytes for each character, and the quotes; name_form encodes longer names. */
    char word[2 * 60 + 2];
    size_t len = 0;
    ASSERT(name.len <= 60);
    word[len++] = '"';
    for (size_t i = 0; i < name.len; i++) {
        if (name.ptr[i] == '"' || name.ptr[i] == '\\')
            word[len++] = '\\';
        word[len++] = name.ptr[i];
    }
    word[len++] = '"';
    mime_put_word(mime, slice_of(word, len), with_space);
}

static void put_name(struct mime *mime, slice name, bool with_space)
{
    switch (name_form(name)) {
    case NAME_QUOTED:
        put_quoted(mime, name, with_space);
        break;
    case NAME_ENCODED:
        mime_put_encoded(mime, name, with_space);
        break;
    case NAME_ATOMS:
        for (; name.len > 0; with_space = true)
            mime_put_word(mime, slice_split(&name, ' '), with_space);
        break;
    }
}

/* ---- mailboxes ---- */

/* Collects the mailboxes of one field, or only their addresses if field is NULL. */
struct mailboxes {
    struct mime *mime;
    const char *field, *what;
    size_t *count;
};

static bool is_all_ascii(slice text)
{
    for (size_t i = 0; i < text.len; i++)
        if ((unsigned char)text.ptr[i] >= 0x80)
            return false;
    return true;
}

/* Returns the address with its domain in ASCII, in room if it had to be converted. The part before
 * the @ cannot be converted: only servers with SMTPUTF8 (RFC 6531) reach such a mailbox. Returns
 * SLICE_NONE with the error set on failure. */
static slice address_ascii(const struct mailboxes *list, slice address,
                           char room[MIME_ADDRESS_MAX + 1])
{
    char domain_room[MIME_ADDRESS_MAX];
    ptrdiff_t at = slice_find_char(address, '@');
    size_t local = at < 0 ? 0 : (size_t)at;
    slice domain = at < 0 ? SLICE_NONE : slice_from(address, local + 1);
    if (at < 0 || is_all_ascii(address))
        return address;
    if (!is_all_ascii(slice_first(address, local))) {
        mime_fail(list->mime, "%s: the part before the @ must be ASCII in %.*s", list->what,
                  SLICE_ARG(slice_first_utf8(address, 80)));
        return SLICE_NONE;
    }
    domain = mime_domain_ascii(domain, domain_room);
    if (domain.len == 0 || local + 1 + domain.len > MIME_ADDRESS_MAX) {
        mime_fail(list->mime, "%s: the domain of %.*s must be written in its ASCII form (xn--...)",
                  list->what, SLICE_ARG(slice_first_utf8(address, 80)));
        return SLICE_NONE;
    }
    memcpy(room, address.ptr, local + 1);
    memcpy(room + local + 1, domain.ptr, domain.len);
    return slice_of(room, local + 1 + domain.len);
}

static void put_mailbox(struct mailboxes *list, slice name, slice written)
{
    struct mime *mime = list->mime;
    char room[MIME_ADDRESS_MAX + 1];
    slice address = address_ascii(list, written, room);
    if (!address.ptr && written.ptr)
        return;
    if (!is_address(address)) {
        mime_fail(mime, "%s: %.*s is not an email address", list->what,
                  SLICE_ARG(slice_first(address, 80)));
        return;
    }
    ASSERT(address.ptr); /* it is not empty */
    if (name.len > MIME_NAME_MAX) {
        mime_fail(mime, "%s: a name is over %d bytes long", list->what, MIME_NAME_MAX);
        return;
    }
    /* The field's name is written with its first mailbox, so an empty list writes nothing. */
    bool is_next = *list->count > 0;
    if (!list->field) {
        mime_add(mime, is_next ? SLICE(", ") : SLICE(""));
        mime_add(mime, address);
        ++*list->count;
        return;
    }
    if (is_next) {
        MIME_LIT(mime, ",");
        mime->column++;
    } else {
        mime_add(mime, slice_cstr(list->field));
        MIME_LIT(mime, ": ");
        mime->column = strlen(list->field) + 2;
    }
    ++*list->count;
    if (name.len == 0) {
        mime_put_word(mime, address, is_next);
        return;
    }
    put_name(mime, name, is_next);
    /* put_mailbox checked the address: it fits. */
    char word[MIME_ADDRESS_MAX + 2];
    word[0] = '<';
    memcpy(word + 1, address.ptr, address.len);
    word[address.len + 1] = '>';
    mime_put_word(mime, slice_of(word, address.len + 2), true);
}

/* Returns the text of a quoted string without its backslashes, in room; other text is returned
 * unchanged. */
static slice unquote_name(slice name, char room[MIME_NAME_MAX + 1])
{
    if (name.len < 2 || name.len > MIME_NAME_MAX || name.ptr[0] != '"' ||
        name.ptr[name.len - 1] != '"')
        return name;
    size_t len = 0;
    for (size_t i = 1; i + 1 < name.len; i++) {
        if (name.ptr[i] == '\\' && i + 2 < name.len)
            i++;
        room[len++] = name.ptr[i];
    }
    return slice_of(room, len);
}

/* Writes one mailbox: "Name <a@b.c>" or "a@b.c". */
static void put_one(struct mailboxes *list, slice text)
{
    char room[MIME_NAME_MAX + 1];
    ptrdiff_t open = -1;
    /* Looks for the last "<", because a quoted name may contain one. */
    for (size_t i = text.len; i-- > 0 && open < 0;)
        if (text.ptr[i] == '<')
            open = (ptrdiff_t)i;
    if (open < 0 || text.ptr[text.len - 1] != '>') {
        put_mailbox(list, SLICE_NONE, text);
        return;
    }
    slice address = slice_of(text.ptr + open + 1, text.len - (size_t)open - 2);
    slice name = slice_trim(slice_first(text, (size_t)open));
    put_mailbox(list, unquote_name(name, room), slice_trim(address));
}

/* Returns the end of the mailbox at the start of text: a comma outside quotes and brackets, or the
 * end of text. */
static size_t mailbox_end(slice text)
{
    bool in_quotes = false, in_brackets = false;
    for (size_t i = 0; i < text.len; i++) {
        char c = text.ptr[i];
        /* An escaped quote does not end the string. */
        if (c == '\\' && in_quotes)
            i++;
        else if (c == '"' && !in_brackets)
            in_quotes = !in_quotes;
        else if (!in_quotes && (c == '<' || c == '>'))
            in_brackets = c == '<';
        else if (c == ',' && !in_quotes && !in_brackets)
            return i;
    }
    return text.len;
}

static void put_text_list(struct mailboxes *list, const struct json *value)
{
    if (!mime_check_text(list->mime, list->what, value))
        return;
    slice rest = json_str(value);
    while (rest.len > 0 && list->mime->status == OK) {
        size_t end = mailbox_end(rest);
        slice one = slice_trim(slice_first(rest, end));
        if (one.len > 0)
            put_one(list, one);
        rest = slice_from(rest, end + 1);
    }
}

static void put_object(struct mailboxes *list, const struct json *object)
{
    const struct json *name = JSON_GET(object, "name"), *email = JSON_GET(object, "email");
    /* The check has set its own error; mime_fail keeps the first. */
    bool has_name = name && name->type != JSON_NULL;
    if (!email || (has_name && !mime_check_text(list->mime, list->what, name))) {
        mime_fail(list->mime, "%s: an address object needs a member email", list->what);
        return;
    }
    if (mime_check_text(list->mime, list->what, email))
        put_mailbox(list, has_name ? slice_trim(json_str(name)) : SLICE_NONE,
                    slice_trim(json_str(email)));
}

static void put_item(struct mailboxes *list, const struct json *value)
{
    if (value->type == JSON_OBJECT)
        put_object(list, value);
    else
        put_text_list(list, value);
}

static void put_value(struct mailboxes *list, const struct json *value)
{
    if (value->type != JSON_ARRAY)
        put_item(list, value);
    for (uint32_t i = 0; value->type == JSON_ARRAY && i < value->count; i++)
        put_item(list, &value->as.items[i]);
}

void mime_put_mailboxes(struct mime *mime, const char *field, const char *what,
                        const struct json *value, size_t *count)
{
    struct mailboxes list = {mime, field, what, count};
    put_value(&list, value);
}

int mime_addresses(const struct json *value, struct arena_text *out, struct err *err)
{
    size_t count = 0;
    struct mime mime = {.text = out, .err = err};
    struct mailboxes list = {&mime, NULL, "address", &count};
    put_value(&list, value);
    return mime.status;
}
