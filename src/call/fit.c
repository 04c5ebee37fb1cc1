/*
 * See fit.h. A value that does not fit is truncated where it is long: an array after the items that
 * fit, a string at a character, an object with many small members after those that fit. In an
 * object with few members, arrays are cut first, and other members only if that is not enough. They
 * then divide the room, so that one long member does not displace the others.
 */
#include "call/fit.h"

#include "base/encode.h"
#include "base/err.h"
#include "json/json.h"
#include "call/view.h"
#include "json/scan.h"

enum {
    FIT_ARENA_BYTES_MAX = 64 * 1024 * 1024, /* long strings, sizes of members, pointers */
    FIT_BYTES_MAX = 512 * 1024 * 1024,
    FIT_DEPTH_MAX = 12,  /* at greater depth, a part that does not fit is omitted: each level is
                          * measured again */
    FIT_SHARE_MIN = 64,  /* with less room than this a member is not useful */
    FIT_ROUNDS_MAX = 16, /* rounds of sharing */
    LEFT_OUT_BYTES_MAX = 4096, /* the object that replaces an omitted output */
};

struct cut {
    slice pointer;
    uint64_t kept, of;
};

struct fit {
    const struct call_fit *wanted;
    struct arena arena; /* intermediate forms of the summary */
    struct arena tree;  /* of the output, for a select or a view */
    slice after;        /* members that follow the output in the summary */
    bool is_failed;     /* the select failed, so the output is left out */
    struct buf out;
    struct buf pointer; /* JSON Pointer to the value being written */
    struct cut cuts[CALL_FIT_CUTS_MAX];
    size_t cut_count;
    unsigned depth;
};

/* Returns the size of the value's JSON text. */
static size_t text_size(slice text)
{
    size_t size = 2;
    for (size_t i = 0; i < text.len; i++) {
        unsigned char c = (unsigned char)text.ptr[i];
        bool is_short = c == '"' || c == '\\' || (c >= '\b' && c <= '\r' && c != '\v');
        size += is_short ? 2 : c < 0x20 ? 6 : 1;
    }
    return size;
}

/* ---- cutting: a value is its text ---- */

static void write_cut(struct fit *f, slice value, size_t room);

static void write_fitting(struct fit *f, slice value, size_t room)
{
    if (value.len <= room)
        buf_append(&f->out, value);
    else
        write_cut(f, value, room);
}

static void note_cut(struct fit *f, uint64_t kept, uint64_t of)
{
    uint64_t skipped = f->depth == 0 ? f->wanted->offset : 0;
    if (f->cut_count == CALL_FIT_CUTS_MAX)
        return;
    f->cuts[f->cut_count++] =
        (struct cut){arena_dup(&f->arena, buf_slice(&f->pointer)), skipped + kept, skipped + of};
}

static void cut_string(struct fit *f, slice value, size_t room)
{
    slice text = json_scan_str(value, &f->arena);
    slice kept = slice_first_utf8(text, room > 2 ? room - 2 : 0);
    size_t size;
    /* an escape makes six bytes of one, so each step removes at least a sixth of the excess */
    while ((size = text_size(kept)) > room && kept.len > 0)
        kept = slice_first_utf8(kept, kept.len - (size - room + 5) / 6);
    json_write_str(&f->out, kept);
    note_cut(f, kept.len, text.len);
}

/* Writes items from the front as long as they fit. */
static void cut_array(struct fit *f, slice value, size_t room)
{
    uint64_t kept = 0;
    size_t left = room > 2 ? room - 2 : 0;
    struct json_scan scan;
    slice none, item;
    bool is_more;
    json_scan_open(&scan, value);
    buf_append_char(&f->out, '[');
    while ((is_more = json_scan_next(&scan, &none, &item))) {
        size_t len = f->pointer.len;
        /* the first item is truncated instead of omitted, so that an array with one huge item
         * shows something */
        if (item.len + 1 > left && (kept > 0 || left < FIT_SHARE_MIN || f->depth >= FIT_DEPTH_MAX))
            break;
        if (kept > 0)
            buf_append_char(&f->out, ',');
        json_pointer_append_index(&f->pointer, kept + (f->depth == 0 ? f->wanted->offset : 0));
        f->depth++;
        write_fitting(f, item, left);
        f->depth--;
        f->pointer.len = len;
        left = item.len + 1 < left ? left - item.len - 1 : 0;
        kept++;
    }
    buf_append_char(&f->out, ']');
    uint64_t count = kept;
    for (; is_more; is_more = json_scan_next(&scan, &none, &item))
        count++;
    if (kept < count)
        note_cut(f, kept, count);
}

/* Returns the maximum size of each member; 0 if there are so many that only the first of them
 * fit. */
static size_t share_of(const size_t *sizes, size_t count, size_t room)
{
    size_t share = 0, before;
    for (unsigned round = 0; round < FIT_ROUNDS_MAX; round++) {
        size_t small = 0, large_count = 0;
        before = share;
        for (size_t i = 0; i < count; i++) {
            if (sizes[i] <= before)
                small += sizes[i];
            else
                large_count++;
        }
        share = small < room && large_count > 0 ? (room - small) / large_count : before;
        if (share == before)
            break;
    }
    return share < FIT_SHARE_MIN ? 0 : share;
}

/* Returns the size of each member, with its key, colon, value and comma; NULL if out of memory. */
static size_t *member_sizes(struct fit *f, slice object, size_t *count)
{
    struct json_scan scan;
    slice key, value;
    *count = json_scan_count(object);
    size_t *sizes = ARENA_ARRAY(&f->arena, size_t, *count + 1);
    json_scan_open(&scan, object);
    for (size_t i = 0; sizes && json_scan_next(&scan, &key, &value); i++)
        sizes[i] = key.len + value.len + 2;
    return sizes;
}

/* Rows are cut before texts: arrays divide what the other members leave. Returns 0 if that is less
 * than a quarter of the room, so that all members divide the room. */
static size_t rows_share_of(slice object, const size_t *sizes, size_t count, size_t room)
{
    struct json_scan scan;
    slice key, value;
    size_t arrays = 0, others = 0;
    json_scan_open(&scan, object);
    for (size_t i = 0; i < count && json_scan_next(&scan, &key, &value); i++) {
        bool is_array = json_scan_type(value) == JSON_ARRAY;
        arrays += is_array;
        others += is_array ? 0 : sizes[i];
    }
    bool is_enough = arrays > 0 && others < room && room - others >= room / 4;
    size_t share = is_enough ? (room - others) / arrays : 0;
    return share < FIT_SHARE_MIN ? 0 : share;
}

static void write_member(struct fit *f, slice key, slice value, size_t room)
{
    size_t len = f->pointer.len;
    buf_append(&f->out, key);
    buf_append_char(&f->out, ':');
    json_pointer_append_key(&f->pointer, json_scan_str(key, &f->arena));
    f->depth++;
    write_fitting(f, value, room);
    f->depth--;
    f->pointer.len = len;
}

static void cut_object(struct fit *f, slice object, size_t room)
{
    struct json_scan scan;
    slice key, value;
    size_t count, kept = 0, left = room > 2 ? room - 2 : 0;
    size_t *sizes = member_sizes(f, object, &count);
    bool is_deep = !sizes || f->depth >= FIT_DEPTH_MAX;
    size_t rows = is_deep ? 0 : rows_share_of(object, sizes, count, left);
    size_t share = is_deep ? 0 : rows > 0 ? rows : share_of(sizes, count, left);
    json_scan_open(&scan, object);
    buf_append_char(&f->out, '{');
    for (; sizes && kept < count && (share > 0 || sizes[kept] <= left); kept++) {
        if (!json_scan_next(&scan, &key, &value))
            break;
        bool is_shared = share > 0 && (rows == 0 || json_scan_type(value) == JSON_ARRAY);
        size_t most = sizes[kept] > share && is_shared ? share : sizes[kept];
        if (most < key.len + 2 + FIT_SHARE_MIN && most < sizes[kept])
            break; /* the member's name alone fills the share */
        if (kept > 0)
            buf_append_char(&f->out, ',');
        write_member(f, key, value, most - key.len - 2);
        left -= most < left ? most : left;
    }
    buf_append_char(&f->out, '}');
    if (kept < count)
        note_cut(f, kept, count);
}

static void write_cut(struct fit *f, slice value, size_t room)
{
    switch (json_scan_type(value)) {
    case JSON_STRING:
        cut_string(f, value, room);
        break;
    case JSON_ARRAY:
        cut_array(f, value, room);
        break;
    case JSON_OBJECT:
        cut_object(f, value, room);
        break;
    default: /* half a number would be another number */
        buf_append_cstr(&f->out, "null");
        note_cut(f, 0, 1);
    }
}

/* ---- a part instead of the whole ---- */

static slice skip_text(struct fit *f, slice value, uint64_t offset)
{
    struct buf rest;
    slice text = json_scan_str(value, &f->arena);
    size_t start = offset < text.len ? (size_t)offset : text.len;
    while (start < text.len && ((unsigned char)text.ptr[start] & 0xc0) == 0x80)
        start++;
    buf_init(&rest, FIT_BYTES_MAX);
    json_write_str(&rest, slice_from(text, start));
    return arena_take(&f->arena, &rest);
}

/* Returns the container without its first `offset` items or members. */
static slice skip_items(struct fit *f, slice container, uint64_t offset)
{
    struct json_scan scan;
    slice key, value;
    bool is_more = true;
    json_scan_open(&scan, container);
    for (; offset > 0 && is_more; offset--)
        is_more = json_scan_next(&scan, &key, &value);
    slice ahead = scan.rest;
    is_more = is_more && json_scan_next(&scan, &key, &value);
    const char *start = !is_more ? ahead.ptr : key.ptr ? key.ptr : value.ptr;
    size_t len = is_more ? ahead.len - (size_t)(start - ahead.ptr) : 0;
    char *text = arena_alloc_text(&f->arena, len + 2);
    if (!text)
        return SLICE_NONE;
    text[0] = container.ptr[0];
    if (len > 0)
        memcpy(text + 1, start, len);
    text[len + 1] = container.ptr[container.len - 1];
    return slice_of(text, len + 2);
}

/* Returns SLICE_NONE if out of memory. */
static slice skip(struct fit *f, slice value, uint64_t offset)
{
    if (offset == 0)
        return value;
    switch (json_scan_type(value)) {
    case JSON_STRING:
        return skip_text(f, value, offset);
    case JSON_ARRAY:
    case JSON_OBJECT:
        return skip_items(f, value, offset);
    default:
        return value;
    }
}

/* ---- the new output ---- */

/* Writes the list of omitted parts, each with the position at which to continue reading. */
static void put_cuts(struct fit *f, struct json_writer *w)
{
    char id[UUID_TEXT_LEN + 1];
    uuid_format(f->wanted->execution_id, id);
    json_member_open(w, "cuts", '[');
    for (size_t i = 0; i < f->cut_count; i++) {
        const struct cut *cut = &f->cuts[i];
        struct buf more;
        buf_init(&more, FIT_BYTES_MAX);
        buf_printf(&more, "%s/executions/%s?pointer=", f->wanted->is_resource ? "sluice:/" : "/api",
                   id);
        encode_percent(&more, cut->pointer);
        buf_printf(&more, "&offset=%llu", (unsigned long long)cut->kept);
        if (f->wanted->select.ptr)
            buf_append_cstr(&more, "&select=");
        encode_percent(&more, f->wanted->select);
        if (f->wanted->is_full)
            buf_append_cstr(&more, "&view=full");
        json_open(w, '{');
        json_member_str(w, "pointer", cut->pointer.ptr ? cut->pointer : SLICE(""));
        json_member_i64(w, "kept", (int64_t)cut->kept);
        json_member_i64(w, "of", (int64_t)cut->of);
        json_member_str(w, "more", buf_slice(&more));
        json_close(w, '}');
        buf_deinit(&more);
    }
    json_close(w, ']');
}

/* bytes is the size of the whole output; preview is JSON text */
static void put_cut_object(struct fit *f, struct buf *out, size_t bytes, slice preview)
{
    struct json_writer w;
    json_begin(&w, out);
    json_open(&w, '{');
    json_member_bool(&w, "truncated", true);
    json_member_i64(&w, "bytes", (int64_t)bytes);
    json_member_i64(&w, "max_output_bytes", (int64_t)f->wanted->bytes_max);
    put_cuts(f, &w);
    json_member_raw(&w, "preview", preview);
    json_close(&w, '}');
}

static void put_truncated(struct fit *f, struct buf *out, slice value)
{
    write_cut(f, value, f->wanted->bytes_max);
    put_cut_object(f, out, value.len, buf_slice(&f->out));
}

/* Copies the summary with another output and with members after the output; everything else is
 * copied byte for byte. */
static int replace_output(const struct fit *f, slice summary, slice whole, slice output,
                          struct arena *arena, slice *fitted, slice *placed)
{
    size_t before = (size_t)(whole.ptr - summary.ptr);
    slice end = slice_from(summary, before + whole.len);
    size_t len = before + output.len + f->after.len + end.len;
    char *text = arena_alloc_text(arena, len);
    if (!text)
        return ERR_NOMEM;
    memcpy(text, summary.ptr, before);
    memcpy(text + before, output.ptr, output.len);
    if (f->after.len > 0)
        memcpy(text + before + output.len, f->after.ptr, f->after.len);
    memcpy(text + before + output.len + f->after.len, end.ptr, end.len);
    *fitted = slice_of(text, len);
    *placed = slice_of(text + before, output.len);
    return OK;
}

static int make_summary(struct fit *f, slice summary, slice whole, slice rest, struct arena *arena,
                        slice *fitted, slice *output)
{
    struct buf cut;
    bool is_cut = f->wanted->bytes_max > 0 && rest.len > f->wanted->bytes_max;
    buf_init(&cut, FIT_BYTES_MAX);
    if (is_cut)
        put_truncated(f, &cut, rest);
    bool is_ok = buf_is_ok(&cut) && buf_is_ok(&f->out) && !f->arena.is_exhausted;
    int status = is_ok ? replace_output(f, summary, whole, is_cut ? buf_slice(&cut) : rest, arena,
                                        fitted, output)
                       : ERR_NOMEM;
    buf_deinit(&cut);
    return status;
}

/* ---- a select or a view of it ---- */

static void add_after(struct fit *f, const char *name, slice json_text)
{
    if (json_text.ptr)
        f->after = arena_printf(&f->arena, ",\"%s\":%.*s", name, SLICE_ARG(json_text));
}

/* The address of an omitted output is that of the whole output, since the select would fail
 * again. */
static slice leave_out(struct fit *f, slice whole, const char *why)
{
    struct call_fit wanted = *f->wanted;
    struct json_text text;
    wanted.select = SLICE_NONE;
    f->is_failed = true;
    json_put_str(json_text_begin(&text, FIT_BYTES_MAX), slice_cstr(why));
    add_after(f, "select_error", json_text_take(&text, &f->arena));
    return call_fit_left_out(&wanted, whole.len, &f->arena);
}

/* Returns what the reader sees: the value of the select or view, or the whole. */
static slice show(struct fit *f, slice whole)
{
    slice given = whole, left_out = SLICE_NONE;
    struct err err;
    if (!whole.ptr || (!f->wanted->select.ptr && !f->wanted->view.ptr))
        return whole;
    if (!f->wanted->select.ptr) {
        if (call_view(whole, f->wanted->view, &f->tree, &given, &left_out, &err) != OK)
            given = whole;
        else if (f->wanted->pointer.len == 0 && f->wanted->offset == 0)
            add_after(f, "left_out", left_out);
    } else if (call_select(whole, f->wanted->select, &f->tree, &given, &err) != OK) {
        given = leave_out(f, whole, err.text);
    }
    return given;
}

static int fit_text(struct fit *f, slice summary, struct arena *arena, slice *fitted, slice *output)
{
    slice whole = json_scan_get(summary, SLICE("output"), &f->arena), given = show(f, whole);
    if (f->is_failed && given.ptr)
        return replace_output(f, summary, whole, given, arena, fitted, output);
    slice part = json_scan_pointer(given, f->wanted->pointer, &f->arena);
    if (!part.ptr)
        return f->wanted->pointer.len > 0 || f->wanted->offset > 0 ? ERR_NOTFOUND : OK;
    bool is_whole = f->wanted->pointer.len == 0 && f->wanted->offset == 0;
    if (is_whole && given.ptr == whole.ptr &&
        (f->wanted->bytes_max == 0 || part.len <= f->wanted->bytes_max))
        return OK;
    slice rest = skip(f, part, f->wanted->offset);
    buf_append(&f->pointer, f->wanted->pointer);
    return rest.ptr ? make_summary(f, summary, whole, rest, arena, fitted, output) : ERR_NOMEM;
}

int call_fit_summary(slice summary, const struct call_fit *wanted, struct arena *arena,
                     slice *fitted, slice *output)
{
    slice unused;
    struct fit f = {.wanted = wanted};
    ASSERT(summary.ptr && arena);
    *fitted = summary;
    output = output ? output : &unused;
    *output = SLICE_NONE;
    if (wanted->pointer.len == 0 && wanted->offset == 0 && !wanted->select.ptr &&
        !wanted->view.ptr && (wanted->bytes_max == 0 || summary.len <= wanted->bytes_max))
        return OK;
    arena_init(&f.arena, FIT_ARENA_BYTES_MAX);
    arena_init(&f.tree, FIT_ARENA_BYTES_MAX);
    buf_init(&f.out, FIT_BYTES_MAX);
    buf_init(&f.pointer, FIT_BYTES_MAX);
    int result = fit_text(&f, summary, arena, fitted, output);
    buf_deinit(&f.pointer);
    buf_deinit(&f.out);
    arena_deinit(&f.tree);
    arena_deinit(&f.arena);
    return result;
}

slice call_fit_left_out(const struct call_fit *wanted, size_t bytes, struct arena *arena)
{
    struct fit f = {.wanted = wanted, .cuts = {{.of = 1}}, .cut_count = 1};
    struct buf out;
    buf_init(&out, LEFT_OUT_BYTES_MAX);
    put_cut_object(&f, &out, bytes, SLICE("null"));
    return arena_take(arena, &out);
}
