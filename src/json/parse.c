/*
 * parse: parses text to a tree. yyjson parses in place in a copy of the text in the arena. Its own
 * flat values are in scratch memory that is freed before the parse returns; one walk over them
 * builds the tree, whose strings point into that copy. So a parse takes the text and 16 bytes per
 * value from the arena, and no step recurses: deep nesting ("[[[[...") cannot overflow the stack.
 *
 * Limits: text up to 4 GiB - 1, depth JSON_DEPTH_MAX. Texts over SCAN_BYTES_MIN are scanned first,
 * so that a hostile text is refused before memory is allocated for it.
 */
#include <yyjson.h>

#include "base/mem.h"
#include "json/mend.h"
#include "json/number.h"
#include "json/parse_dup.h"

const struct json_limits json_limits_request = {.depth_max = JSON_REQUEST_DEPTH_MAX,
                                                .refuse_dup_keys = true};
const struct json_limits json_limits_provider = {.depth_max = JSON_DEPTH_MAX, .mend_text = true};

enum {
    /* Smaller texts cost little even if they are hostile, and one more pass over each of them would
     * cost more. */
    SCAN_BYTES_MIN = 16 * 1024,
    KEY_PRINTED_MAX = 64,
    POINTER_PRINTED_MAX = 200,
};

struct frame {
    struct json *container;
    uint32_t done; /* items, or keys and values, filled in */
    uint32_t total;
};

struct parser {
    struct arena *arena;
    size_t depth_max;
    bool refuse_dup_keys, mend_text;
    struct json_dup_table dups;
    struct err *err;
    size_t depth;
    /* 8 KB, on the stack: as deep as any tree may be. */
    struct frame frames[JSON_DEPTH_MAX];
};

/* ---- checks of the text, without building anything ---- */

struct scan {
    size_t values_max;  /* no more values than this */
    size_t too_deep_at; /* offset of the first bracket past depth_max; SIZE_MAX: none */
};

/* Whether one of the 8 bytes equals the byte that is repeated in `wanted`. If so, the difference
 * has a zero byte, and only a zero byte borrows into a top bit that was clear. */
static bool has_byte(uint64_t bytes, uint64_t wanted)
{
    uint64_t difference = bytes ^ wanted;
    return (difference - UINT64_C(0x0101010101010101)) & ~difference & UINT64_C(0x8080808080808080);
}

/* Most of a large text is inside strings: 8 bytes are skipped at a time if none of them is
 * special. */
static size_t string_end(slice text, size_t at)
{
    const uint64_t quotes = UINT64_C(0x2222222222222222), slashes = UINT64_C(0x5c5c5c5c5c5c5c5c);
    /* at was the opening quote. */
    at++;
    while (at < text.len) {
        uint64_t bytes;
        while (at + sizeof(bytes) <= text.len) {
            memcpy(&bytes, text.ptr + at, sizeof(bytes));
            if (has_byte(bytes, quotes) || has_byte(bytes, slashes))
                break;
            at += sizeof(bytes);
        }
        /* The rest of this word, or of the text, is read byte by byte. */
        while (at < text.len && text.ptr[at] != '"' && text.ptr[at] != '\\')
            at++;
        if (at >= text.len || text.ptr[at] == '"')
            return at;
        at += 2; /* the backslash and the character that it escapes */
    }
    return at;
}

enum mark { MARK_NONE, MARK_STRING, MARK_OPEN, MARK_CLOSE, MARK_NEXT };

static const uint8_t marks[256] = {
    ['"'] = MARK_STRING, ['['] = MARK_OPEN, ['{'] = MARK_OPEN, [']'] = MARK_CLOSE,
    ['}'] = MARK_CLOSE,  [','] = MARK_NEXT, [':'] = MARK_NEXT,
};

/* Does not need valid JSON: for any bytes it counts at least as many values, and at least as
 * much depth, as a parser could find before it meets an error. */
static struct scan scan_text(slice text, size_t depth_max)
{
    struct scan scan = {1, SIZE_MAX};
    size_t depth = 0;
    for (size_t at = 0; at < text.len; at++) {
        enum mark mark = marks[(unsigned char)text.ptr[at]];
        if (mark == MARK_NONE)
            continue;
        if (mark == MARK_STRING) {
            at = string_end(text, at);
        } else if (mark == MARK_CLOSE) {
            /* A text that closes more than it opened is not JSON; yyjson reports where. */
            depth -= depth > 0;
        } else {
            scan.values_max++;
            if (mark == MARK_OPEN && ++depth > depth_max) {
                scan.too_deep_at = at;
                return scan;
            }
        }
    }
    return scan;
}

/* yyjson begins with room for a value every six bytes and grows by half; one of its values is as
 * large as a struct json. Only bytes that are not UTF-8 make a mended text longer than the first
 * copy. */
size_t json_parse_bytes(slice text)
{
    size_t mended = slice_is_utf8(text, NULL) ? 0 : json_mend_bytes(text) + YYJSON_PADDING_SIZE;
    size_t values = scan_text(text, JSON_DEPTH_MAX).values_max;
    size_t first = (mended > text.len ? mended : text.len) / 6 * sizeof(struct json);
    size_t grown = values * sizeof(struct json) * 3 / 2;
    return text.len + mended + values * sizeof(struct json) + (first > grown ? first : grown);
}

static int refuse_depth(struct err *err, size_t depth_max, size_t offset)
{
    return err_set(err, ERR_LIMIT, "not accepted: nested deeper than %zu levels at byte %zu",
                   depth_max, offset);
}

static int refuse_json_memory(struct err *err)
{
    return err_set(err, ERR_NOMEM, "not accepted: the JSON text needs more memory than allowed");
}

static int check_large(const struct parser *parser, slice text)
{
    struct scan scan = scan_text(text, parser->depth_max);
    if (scan.too_deep_at != SIZE_MAX)
        return refuse_depth(parser->err, parser->depth_max, scan.too_deep_at);
    /* Cannot wrap: bytes_used never exceeds bytes_max. */
    size_t room = parser->arena->bytes_max - parser->arena->bytes_used;
    if (text.len > room || scan.values_max > (room - text.len) / sizeof(struct json))
        return refuse_json_memory(parser->err);
    return OK;
}

/* ---- yyjson ---- */

static void *scratch_malloc(void *ctx, size_t size)
{
    (void)ctx;
    return mem_alloc(size);
}

static void *scratch_realloc(void *ctx, void *ptr, size_t old_size, size_t size)
{
    (void)ctx;
    (void)old_size;
    return mem_realloc(ptr, size);
}

static void scratch_free(void *ctx, void *ptr)
{
    (void)ctx;
    mem_free(ptr);
}

static int refuse_syntax(struct err *err, const yyjson_read_err *fault)
{
    if (fault->code == YYJSON_READ_ERROR_MEMORY_ALLOCATION)
        return refuse_json_memory(err);
    return err_set(err, ERR_SYNTAX, "not valid JSON at byte %zu: %s", fault->pos,
                   fault->msg ? fault->msg : "unknown fault");
}

/* copy: the text, in the arena, with padding, because yyjson reads a few bytes past the end
 * without a check. */
static yyjson_doc *read_copy(char *copy, size_t len, yyjson_read_err *fault)
{
    const yyjson_alc alc = {scratch_malloc, scratch_realloc, scratch_free, NULL};
    memset(copy + len, 0, YYJSON_PADDING_SIZE);
    *fault = (yyjson_read_err){0};
    /* NUMBER_AS_RAW: numbers come as text, and json_number_parse chooses a type that loses
     * nothing. */
    return yyjson_read_opts(copy, len, YYJSON_READ_INSITU | YYJSON_READ_NUMBER_AS_RAW, &alc, fault);
}

/* Only a refused text is searched for bytes to mend, since most texts are clean. A syntax error
 * before all of these bytes, as in a web page, is reported first. */
static bool can_mend(const struct parser *parser, slice text, const yyjson_read_err *fault)
{
    return parser->mend_text && (fault->code == YYJSON_READ_ERROR_INVALID_STRING ||
                                 slice_starts_with(text, SLICE("\xEF\xBB\xBF")));
}

/* Returns the parsed document, whose strings and numbers are in the arena; NULL with err set on
 * failure. */
static yyjson_doc *read_doc(struct parser *parser, slice text)
{
    yyjson_read_err fault;
    char *copy = arena_alloc_text(parser->arena, text.len + YYJSON_PADDING_SIZE);
    if (!copy)
        goto nomem;
    memcpy(copy, text.ptr, text.len);
    yyjson_doc *doc = read_copy(copy, text.len, &fault);
    if (!doc && can_mend(parser, text, &fault)) {
        size_t len = json_mend_bytes(text);
        /* yyjson has modified the first copy, so it cannot be used again. */
        if (len > text.len)
            copy = arena_alloc_text(parser->arena, len + YYJSON_PADDING_SIZE);
        if (!copy)
            goto nomem;
        json_mend(text, copy);
        doc = read_copy(copy, len, &fault);
    }
    if (!doc)
        refuse_syntax(parser->err, &fault);
    return doc;
nomem:
    refuse_json_memory(parser->err);
    return NULL;
}

/* ---- the walk ---- */

static void path_append(struct buf *out, const struct frame *frame)
{
    if (frame->container->type == JSON_ARRAY)
        json_pointer_append_index(out, frame->done - 1);
    else
        json_pointer_append_key(out,
                                json_str(&frame->container->as.members[(frame->done - 1) / 2].key));
}

static int refuse_duplicate(struct parser *parser, slice key)
{
    struct buf path;
    buf_init(&path, (size_t)16 * 1024);
    /* The last frame is the object with the duplicate keys. */
    for (size_t i = 0; i + 1 < parser->depth; i++)
        path_append(&path, &parser->frames[i]);
    slice printed = slice_first(buf_slice(&path), POINTER_PRINTED_MAX);
    slice name = slice_first(key, KEY_PRINTED_MAX);
    int code = err_set(parser->err, ERR_INVALID,
                       "the member \"%.*s\" occurs twice in the object at %s%.*s", SLICE_ARG(name),
                       printed.len ? "" : "the top level", SLICE_ARG(printed));
    buf_deinit(&path);
    return code;
}

static int close_container(struct parser *parser, struct json *container)
{
    if (container->type != JSON_OBJECT || container->count < 2)
        return OK;
    slice key = SLICE_NONE;
    /* All members are known now, so the table is sized only once. */
    int code = json_dup_fold(&parser->dups, container, &key);
    if (code == ERR_NOMEM)
        return refuse_json_memory(parser->err);
    if (code == ERR_INVALID && parser->refuse_dup_keys)
        return refuse_duplicate(parser, key);
    return OK;
}

static int open_container(struct parser *parser, struct json *slot, yyjson_val *value)
{
    size_t count = unsafe_yyjson_get_len(value);
    bool is_object = unsafe_yyjson_is_obj(value);
    /* The slot is filled before its container is opened: frames point to it, and it is in its
     * parent's block. */
    *slot = (struct json){.type = is_object ? JSON_OBJECT : JSON_ARRAY, .count = (uint32_t)count};
    /* Checked for small texts, which were not scanned. */
    if (parser->depth == parser->depth_max)
        return ERR_LIMIT;
    if (count > 0) {
        size_t size = is_object ? sizeof(struct json_member) : sizeof(struct json);
        void *block = arena_alloc(parser->arena, count * size);
        if (!block)
            return refuse_json_memory(parser->err);
        if (is_object)
            slot->as.members = block;
        else
            slot->as.items = block;
    }
    /* Keys are values of yyjson, too: an object has two for each member. */
    uint32_t total = (uint32_t)(is_object ? count * 2 : count);
    parser->frames[parser->depth++] = (struct frame){slot, 0, total};
    return OK;
}

static struct json leaf_of(yyjson_val *value)
{
    switch (unsafe_yyjson_get_type(value)) {
    case YYJSON_TYPE_RAW:
        return json_number_parse(
            (slice){unsafe_yyjson_get_raw(value), unsafe_yyjson_get_len(value)});
    case YYJSON_TYPE_STR:
        return json_string((slice){unsafe_yyjson_get_str(value), unsafe_yyjson_get_len(value)});
    case YYJSON_TYPE_BOOL:
        return json_bool(unsafe_yyjson_get_bool(value));
    default:
        ASSERT(unsafe_yyjson_is_null(value));
        return json_null;
    }
}

/* Closes full containers; returns the slot for the next value, NULL at the end or with *code
 * set. */
static struct json *next_slot(struct parser *parser, int *code)
{
    while (parser->depth > 0) {
        struct frame *frame = &parser->frames[parser->depth - 1];
        if (frame->done < frame->total) {
            uint32_t at = frame->done++;
            if (frame->container->type == JSON_ARRAY)
                return &frame->container->as.items[at];
            struct json_member *member = &frame->container->as.members[at / 2];
            return at % 2 ? &member->value : &member->key;
        }
        *code = close_container(parser, frame->container);
        if (*code != OK)
            return NULL;
        parser->depth--;
    }
    return NULL;
}

/* yyjson's values are in document order, a container before its items. */
static int build_tree(struct parser *parser, yyjson_val *value, struct json *root)
{
    int code = OK;
    for (struct json *slot = root; slot; slot = next_slot(parser, &code), value++) {
        if (!unsafe_yyjson_is_ctn(value)) {
            *slot = leaf_of(value);
            continue;
        }
        code = open_container(parser, slot, value);
        if (code != OK)
            break;
    }
    return code;
}

static struct json *parse_with(struct parser *parser, slice text)
{
    if (text.len > SCAN_BYTES_MIN && check_large(parser, text) != OK)
        return NULL;
    yyjson_doc *doc = read_doc(parser, text);
    if (!doc)
        return NULL;
    struct json *root = ARENA_NEW(parser->arena, struct json);
    int code = root ? build_tree(parser, yyjson_doc_get_root(doc), root)
                    : refuse_json_memory(parser->err);
    if (code == ERR_LIMIT)
        refuse_depth(parser->err, parser->depth_max,
                     scan_text(text, parser->depth_max).too_deep_at);
    yyjson_doc_free(doc);
    return code == OK ? root : NULL;
}

struct json *json_parse(struct arena *arena, slice text, const struct json_limits *limits,
                        struct err *err)
{
    ASSERT(arena && limits);
    if (text.len == 0)
        return err_null(err, ERR_SYNTAX, "not valid JSON at byte 0: the text is empty");
    if (text.len > UINT32_MAX - YYJSON_PADDING_SIZE)
        return err_null(err, ERR_LIMIT, "not accepted: a JSON text over 4 GiB");
    struct parser parser;
    parser.arena = arena;
    parser.depth_max = limits->depth_max > 0 && limits->depth_max < JSON_DEPTH_MAX
                           ? limits->depth_max
                           : JSON_DEPTH_MAX;
    parser.refuse_dup_keys = limits->refuse_dup_keys;
    parser.mend_text = limits->mend_text;
    parser.err = err;
    parser.depth = 0;
    json_dup_init(&parser.dups);
    struct json *root = parse_with(&parser, text);
    json_dup_deinit(&parser.dups);
    return root;
}
