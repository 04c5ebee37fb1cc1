/*
 * The packed form of compiled files, which is built into the program: for each file its name, its
 * sample as JSON text, and its ops. Numbers are in the machine's byte order. Expressions are text:
 * compiling them all at the start takes less than a millisecond.
 */
#include "web/markup.h"

bool markup_is_read(slice attribute)
{
    static const slice read[] = {SLICE_INIT("title"), SLICE_INIT("aria-label"),
                                 SLICE_INIT("placeholder"), SLICE_INIT("alt")};
    for (size_t i = 0; i < ARRAY_LEN(read); i++)
        if (slice_eq(attribute, read[i]))
            return true;
    return false;
}

bool markup_keeps_user(slice path)
{
    slice rest = path;
    size_t len = 0;
    if (slice_split(&rest, '/').len > 0 || !rest.ptr)
        return false;
    while (len < rest.len && slice_find_char(SLICE("/?#"), rest.ptr[len]) < 0)
        len++;
    return len > 0 &&
           slice_has_word(SLICE("approvals audit audit.csv connections events executions "
                                "flows integrations"),
                          slice_first(rest, len));
}

struct reader {
    slice rest;
    bool is_broken;
};

static void put_number(struct buf *out, uint32_t number)
{
    buf_append(out, slice_of(&number, sizeof(number)));
}

static void put_text(struct buf *out, slice text)
{
    put_number(out, (uint32_t)text.len);
    buf_append(out, text);
}

void markup_pack(const struct markup *file, slice data, struct buf *out)
{
    put_text(out, file->name);
    put_text(out, data);
    put_number(out, file->title_to);
    put_number(out, file->count);
    for (uint32_t i = 0; i < file->count; i++) {
        const struct markup_op *op = &file->ops[i];
        put_number(out, op->kind);
        put_number(out, op->to);
        put_text(out, op->text);
        put_text(out, op->source);
    }
}

static slice take(struct reader *reader, size_t len)
{
    slice taken = slice_first(reader->rest, len);
    reader->is_broken = reader->is_broken || taken.len != len;
    reader->rest = slice_from(reader->rest, taken.len);
    return taken;
}

static uint32_t take_number(struct reader *reader)
{
    uint32_t number = 0;
    slice bytes = take(reader, sizeof(number));
    if (!reader->is_broken)
        memcpy(&number, bytes.ptr, sizeof(number));
    return number;
}

static slice take_text(struct reader *reader)
{
    return take(reader, take_number(reader));
}

static int load_op(struct reader *reader, struct arena *arena, const struct markup *file,
                   struct markup_op *op, struct err *err)
{
    uint32_t kind = take_number(reader);
    op->kind = (uint8_t)kind;
    op->to = take_number(reader);
    op->text = take_text(reader);
    op->source = take_text(reader);
    bool jumps = kind == MARKUP_BLOCK || kind == MARKUP_IF || kind == MARKUP_GO ||
                 kind == MARKUP_EACH;
    bool is_forward = op->to > (uint32_t)(op - file->ops) && op->to <= file->count;
    /* Jumps only go forward, so that rendering ends. */
    if (reader->is_broken || kind >= MARKUP_KINDS || (jumps && !is_forward))
        return err_set(err, ERR_INVALID, "the pack is broken at \"%.*s\"", SLICE_ARG(file->name));
    if (op->source.len == 0)
        return OK;
    op->expr = expr_compile(arena, op->source, err);
    return op->expr ? OK : err->code;
}

static int load_file(struct reader *reader, struct arena *arena, struct markup *file,
                     struct err *err)
{
    file->name = take_text(reader);
    file->data = json_parse(arena, take_text(reader), &json_limits_request, err);
    file->title_to = take_number(reader);
    file->count = take_number(reader);
    /* An op takes at least 16 bytes. */
    if (!file->data || reader->is_broken || file->count > reader->rest.len / 16 ||
        file->title_to > file->count)
        return err_set(err, ERR_INVALID, "the pack is broken at \"%.*s\"", SLICE_ARG(file->name));
    file->ops = ARENA_ARRAY(arena, struct markup_op, file->count + 1);
    if (!file->ops)
        return err_set(err, ERR_NOMEM, "out of memory for the pages");
    for (uint32_t i = 0; i < file->count; i++) {
        int status = load_op(reader, arena, file, &file->ops[i], err);
        if (status != OK)
            return status;
    }
    return OK;
}

/* Finds what each op uses; the compiler has checked that it exists. */
static int link_files(const struct markup_set *set, struct err *err)
{
    for (size_t i = 0; i < set->count; i++)
        for (uint32_t j = 0; j < set->items[i].count; j++) {
            struct markup_op *op = &set->items[i].ops[j];
            op->used = op->kind == MARKUP_USE ? markup_find(set, op->text) : NULL;
            if (op->kind == MARKUP_USE && !op->used)
                return err_set(err, ERR_NOTFOUND, "\"%.*s\" is not packed", SLICE_ARG(op->text));
        }
    return OK;
}

const struct markup_set *markup_load(struct arena *arena, slice pack, struct err *err)
{
    struct reader reader = {.rest = pack};
    struct markup_set *set = ARENA_NEW(arena, struct markup_set);
    if (set)
        set->items = ARENA_ARRAY(arena, struct markup, MARKUP_FILES_MAX);
    if (!set || !set->items)
        return err_null(err, ERR_NOMEM, "out of memory for the pages");
    while (reader.rest.len > 0 && set->count < MARKUP_FILES_MAX)
        if (load_file(&reader, arena, &set->items[set->count++], err) != OK)
            return NULL;
    return link_files(set, err) == OK ? set : NULL;
}

const struct markup *markup_find(const struct markup_set *set, slice name)
{
    for (size_t i = 0; i < set->count; i++)
        if (slice_eq(set->items[i].name, name))
            return &set->items[i];
    return NULL;
}
