/*
 * The tree of a mail: header sections, multiparts, transfer encodings.
 */
#include "provider/mime.h"

#include "base/ascii.h"

slice mime_header(const struct mime_part *part, const char *name)
{
    for (size_t i = 0; i < part->header_count; i++)
        if (slice_eq_nocase(part->headers[i].name, slice_cstr(name)))
            return part->headers[i].value;
    return SLICE("");
}

bool mime_is_attachment(const struct mime_part *part)
{
    if (part->part_count)
        return false;
    return part->filename.len || !slice_starts_with(part->mime_type, SLICE("text/"));
}

const struct mime_part *mime_find(const struct mime_part *part, const char *mime_type)
{
    if (slice_eq_cstr(part->mime_type, mime_type) && !part->filename.len)
        return part;
    for (size_t i = 0; i < part->part_count; i++) {
        const struct mime_part *found = mime_find(&part->parts[i], mime_type);
        if (found)
            return found;
    }
    return NULL;
}

/* Takes the next line off *text; without its end, CRLF or LF. */
static slice take_line(slice *text)
{
    slice line = slice_split(text, '\n');
    if (line.len && line.ptr[line.len - 1] == '\r')
        line.len--;
    return line;
}

static bool is_folded(slice rest)
{
    return rest.len && (rest.ptr[0] == ' ' || rest.ptr[0] == '\t');
}

/* The value from `line` on with its continuation lines joined. */
static slice unfold(struct arena *arena, slice line, slice *rest)
{
    if (!is_folded(*rest))
        return line;
    struct buf buf;
    buf_init(&buf, 1024 * 1024);
    buf_append(&buf, line);
    while (is_folded(*rest))
        buf_append(&buf, take_line(rest));
    slice value = arena_dup(arena, buf_slice(&buf));
    buf_deinit(&buf);
    return value;
}

/* Reads the header section; *rest is the body behind the empty line. */
static int parse_headers(struct arena *arena, slice *rest, struct mime_part *part, struct err *err)
{
    size_t cap = 0;
    while (rest->len) {
        slice line = take_line(rest);
        if (!line.len)
            break;
        ptrdiff_t colon = slice_find_char(line, ':');
        if (colon <= 0 || slice_find_char(slice_first(line, (size_t)colon), ' ') >= 0)
            return err_set(err, ERR_SYNTAX, "a line of the header has no field name");
        if (part->header_count == MIME_HEADERS_MAX)
            return err_set(err, ERR_LIMIT, "more than %d headers", MIME_HEADERS_MAX);
        if (part->header_count == cap) {
            size_t grown = cap ? cap * 2 : 16;
            part->headers = arena_realloc(arena, part->headers, cap * sizeof(*part->headers),
                                          grown * sizeof(*part->headers));
            if (!part->headers)
                return err_set(err, ERR_NOMEM, "out of memory");
            cap = grown;
        }
        slice value = unfold(arena, slice_from(line, (size_t)colon + 1), rest);
        part->headers[part->header_count++] =
            (struct mime_header){arena_dup(arena, slice_first(line, (size_t)colon)),
                                 mime_decode_words(arena, slice_trim(value))};
    }
    if (arena->is_exhausted)
        return err_set(err, ERR_NOMEM, "out of memory");
    if (!part->header_count)
        return err_set(err, ERR_SYNTAX, "the message has no header");
    return OK;
}

static slice lower(struct arena *arena, slice text)
{
    char *copy = arena_alloc_text(arena, text.len + 1);
    if (!copy)
        return SLICE("");
    for (size_t i = 0; i < text.len; i++)
        copy[i] = ascii_lower(text.ptr[i]);
    copy[text.len] = 0;
    return slice_of(copy, text.len);
}

static void read_type(struct arena *arena, struct mime_part *part)
{
    slice type = mime_header(part, "Content-Type");
    slice disposition = mime_header(part, "Content-Disposition");
    slice media = slice_trim(slice_split(&(slice){type.ptr, type.len}, ';'));
    bool is_good = media.len && slice_find_char(media, '/') > 0;
    part->mime_type = is_good ? lower(arena, media) : SLICE("text/plain");
    part->filename = mime_param(arena, disposition, "filename");
    if (!part->filename.len)
        part->filename = mime_param(arena, type, "name");
    if (!part->filename.ptr)
        part->filename = SLICE("");
}

static int read_body(struct arena *arena, slice text, struct mime_part *part)
{
    slice encoding = mime_header(part, "Content-Transfer-Encoding");
    struct buf buf;
    buf_init(&buf, text.len + 1);
    if (slice_eq_nocase(encoding, SLICE("base64"))) {
        mime_decode_base64(&buf, text);
        text = arena_dup(arena, buf_slice(&buf));
    } else if (slice_eq_nocase(encoding, SLICE("quoted-printable"))) {
        mime_decode_quoted(&buf, text, false);
        text = arena_dup(arena, buf_slice(&buf));
    }
    bool is_ok = buf_is_ok(&buf);
    buf_deinit(&buf);
    if (slice_starts_with(part->mime_type, SLICE("text/")) && !part->filename.len)
        text = mime_to_utf8(arena, text);

    part->body = text;
    return is_ok && !arena->is_exhausted ? OK : ERR_NOMEM;
}

static int parse_part(struct arena *arena, slice raw, unsigned depth, struct mime_part *part,
                      struct err *err);

/* Where the next delimiter line begins in text, or -1; *after is behind that line. */
static ptrdiff_t find_delimiter(slice text, slice boundary, slice *after, bool *is_last)
{
    size_t at = 0;
    while (at <= text.len) {
        slice rest = slice_from(text, at);
        slice line = take_line(&rest);
        if (line.len >= boundary.len + 2 && line.ptr[0] == '-' && line.ptr[1] == '-' &&
            slice_eq(slice_first(slice_from(line, 2), boundary.len), boundary)) {
            slice tail = slice_trim(slice_from(line, boundary.len + 2));
            *is_last = slice_eq(tail, SLICE("--"));
            if (!tail.len || *is_last) {
                *after = rest;
                return (ptrdiff_t)at;
            }
        }
        if (!rest.ptr)
            break;
        at = (size_t)(rest.ptr - text.ptr);
    }
    return -1;
}

/* The line end before a delimiter belongs to the delimiter (RFC 2046 5.1.1). */
static slice without_line_end(slice text)
{
    if (text.len && text.ptr[text.len - 1] == '\n')
        text.len--;
    if (text.len && text.ptr[text.len - 1] == '\r')
        text.len--;
    return text;
}

static int add_part(struct arena *arena, slice raw, unsigned depth, struct mime_part *parent,
                    size_t *cap, struct err *err)
{
    if (parent->part_count == MIME_PARTS_MAX)
        return err_set(err, ERR_LIMIT, "more than %d parts", MIME_PARTS_MAX);
    if (parent->part_count == *cap) {
        size_t grown = *cap ? *cap * 2 : 4;
        parent->parts = arena_realloc(arena, parent->parts, *cap * sizeof(*parent->parts),
                                      grown * sizeof(*parent->parts));
        if (!parent->parts)
            return err_set(err, ERR_NOMEM, "out of memory");
        *cap = grown;
    }
    struct mime_part *part = &parent->parts[parent->part_count];
    *part = (struct mime_part){0};
    part->part_id = arena_printf(arena, "%.*s%s%zu", SLICE_ARG(parent->part_id),
                                 parent->part_id.len ? "." : "", parent->part_count);
    parent->part_count++;
    return parse_part(arena, raw, depth + 1, part, err);
}

static int parse_multipart(struct arena *arena, slice text, unsigned depth, struct mime_part *part,
                           struct err *err)
{
    slice boundary = mime_param(arena, mime_header(part, "Content-Type"), "boundary");
    if (!boundary.len)
        return err_set(err, ERR_SYNTAX, "a multipart has no boundary");
    bool is_last = false;
    slice rest;
    if (find_delimiter(text, boundary, &rest, &is_last) < 0)
        return err_set(err, ERR_SYNTAX, "the boundary of a multipart does not occur");
    size_t cap = 0;
    while (!is_last && rest.ptr) {
        slice after = SLICE_NONE;
        ptrdiff_t end = find_delimiter(rest, boundary, &after, &is_last);
        slice raw = end < 0 ? rest : without_line_end(slice_first(rest, (size_t)end));
        int status = add_part(arena, raw, depth, part, &cap, err);
        if (status != OK)
            return status;
        if (end < 0)
            break;
        rest = after;
    }
    return OK;
}

static int parse_part(struct arena *arena, slice raw, unsigned depth, struct mime_part *part,
                      struct err *err)
{
    if (depth > MIME_DEPTH_MAX)
        return err_set(err, ERR_LIMIT, "parts are nested more than %d deep", MIME_DEPTH_MAX);
    /* A body part may begin with its empty line: then it has no header at all. */
    bool is_bare = depth && raw.len && (raw.ptr[0] == '\n' || raw.ptr[0] == '\r');
    if (is_bare || (depth && !raw.len)) {
        take_line(&raw);
    } else {
        int status = parse_headers(arena, &raw, part, err);
        if (status != OK)
            return status;
    }
    read_type(arena, part);
    if (slice_starts_with(part->mime_type, SLICE("multipart/")))
        return parse_multipart(arena, raw, depth, part, err);
    if (read_body(arena, raw, part) != OK)
        return err_set(err, ERR_NOMEM, "out of memory");
    return OK;
}

int mime_parse(struct arena *arena, slice raw, struct mime_part *out, struct err *err)
{
    *out = (struct mime_part){.part_id = SLICE("")};
    return parse_part(arena, raw, 0, out, err);
}
