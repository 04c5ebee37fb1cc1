/*
 * See fit.h. A value that does not fit is cut where it is long: a string at a character, an array
 * and an object of many small members after those that fit, while an object of few members shares
 * the room among them, so that one long member does not push out the others.
 */
#include "exec/fit.h"

#include "base/buf.h"
#include "base/encode.h"
#include "exec/exec.h"
#include "json/json.h"

enum {
    FIT_ARENA_BYTES_MAX = 256 * 1024 * 1024,
    FIT_BYTES_MAX = 512 * 1024 * 1024,
    FIT_DEPTH_MAX =
        12, /* deeper, a part that does not fit is left out: each level is measured anew */
    FIT_SHARE_MIN = 64,                /* less room than this for a member says nothing */
    FIT_ROUNDS_MAX = 16,               /* of sharing */
    FIT_ON_LOOP_BYTES_MAX = 64 * 1024, /* a larger summary is cut on a pool thread */
};

struct cut {
    slice pointer;
    uint64_t kept, of;
};

struct fit {
    const struct exec_fit *wanted;
    struct arena arena; /* the parsed summary and what is made of it on the way */
    struct buf out;
    struct buf pointer; /* to the value being written */
    struct buf scratch;
    struct cut cuts[EXEC_FIT_CUTS_MAX];
    size_t cut_count;
    unsigned depth;
};

/* ---- measuring ---- */

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

/* Of its JSON text. */
static size_t value_size(struct fit *f, const struct json *value)
{
    size_t size = 1; /* brackets, and a comma for each but one */
    switch (value->type) {
    case JSON_STRING:
        return text_size(json_str(value));
    case JSON_ARRAY:
        for (uint32_t i = 0; i < value->count; i++)
            size += value_size(f, &value->as.items[i]) + 1;
        return value->count ? size : 2;
    case JSON_OBJECT:
        for (uint32_t i = 0; i < value->count; i++)
            size += text_size(json_str(&value->as.members[i].key)) + 1 +
                    value_size(f, &value->as.members[i].value) + 1;
        return value->count ? size : 2;
    default:
        buf_clear(&f->scratch);
        json_write(&f->scratch, value);
        return f->scratch.len;
    }
}

/* ---- cutting ---- */

static void write_cut(struct fit *f, const struct json *value, size_t room);

static void write_fitting(struct fit *f, const struct json *value, size_t room)
{
    if (value_size(f, value) <= room)
        json_write(&f->out, value);
    else
        write_cut(f, value, room);
}

static void note_cut(struct fit *f, uint64_t kept, uint64_t of)
{
    uint64_t skipped = f->depth == 0 ? f->wanted->offset : 0;
    if (f->cut_count == EXEC_FIT_CUTS_MAX)
        return;
    f->cuts[f->cut_count++] =
        (struct cut){arena_dup(&f->arena, buf_slice(&f->pointer)), skipped + kept, skipped + of};
}

static void cut_string(struct fit *f, const struct json *value, size_t room)
{
    slice text = json_str(value), kept = slice_first_utf8(text, room > 2 ? room - 2 : 0);
    size_t size;
    /* escapes make it longer; each step takes at least what is too much, a sixth for an escape */
    while ((size = text_size(kept)) > room && kept.len > 0)
        kept = slice_first_utf8(kept, kept.len - (size - room + 5) / 6);
    json_write_str(&f->out, kept);
    note_cut(f, kept.len, text.len);
}

static void cut_array(struct fit *f, const struct json *value, size_t room)
{
    uint32_t kept = 0;
    size_t left = room > 2 ? room - 2 : 0;
    buf_append_char(&f->out, '[');
    for (; kept < value->count; kept++) {
        const struct json *item = &value->as.items[kept];
        size_t size = value_size(f, item), len = f->pointer.len;
        /* the first is cut rather than left out: an array of one huge item shows something */
        if (size + 1 > left && (kept > 0 || left < FIT_SHARE_MIN || f->depth >= FIT_DEPTH_MAX))
            break;
        if (kept > 0)
            buf_append_char(&f->out, ',');
        json_pointer_append_index(&f->pointer, kept + (f->depth == 0 ? f->wanted->offset : 0));
        f->depth++;
        write_fitting(f, item, left);
        f->depth--;
        f->pointer.len = len;
        left = size + 1 < left ? left - size - 1 : 0;
    }
    buf_append_char(&f->out, ']');
    if (kept < value->count)
        note_cut(f, kept, value->count);
}

/* How much each member may take at most; 0: there are so many that only the first of them fit. */
static size_t share_of(const struct json *object, const size_t *sizes, size_t room)
{
    size_t share = 0, before;
    for (unsigned round = 0; round < FIT_ROUNDS_MAX; round++) {
        size_t small = 0, large_count = 0;
        before = share;
        for (uint32_t i = 0; i < object->count; i++) {
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

static void cut_object(struct fit *f, const struct json *value, size_t room)
{
    size_t *sizes = ARENA_ARRAY(&f->arena, size_t, value->count), left = room > 2 ? room - 2 : 0;
    uint32_t kept = 0;
    for (uint32_t i = 0; sizes && i < value->count; i++)
        sizes[i] = text_size(json_str(&value->as.members[i].key)) + 2 +
                   value_size(f, &value->as.members[i].value);
    size_t share = sizes && f->depth < FIT_DEPTH_MAX ? share_of(value, sizes, left) : 0;
    buf_append_char(&f->out, '{');
    for (; sizes && kept < value->count && (share > 0 || sizes[kept] <= left); kept++) {
        const struct json_member *member = &value->as.members[kept];
        size_t key = text_size(json_str(&member->key)) + 2, len = f->pointer.len;
        size_t most = sizes[kept] > share && share > 0 ? share : sizes[kept];
        if (most < key + FIT_SHARE_MIN && most < sizes[kept])
            break; /* its name alone fills the share */
        if (kept > 0)
            buf_append_char(&f->out, ',');
        json_write_str(&f->out, json_str(&member->key));
        buf_append_char(&f->out, ':');
        json_pointer_append_key(&f->pointer, json_str(&member->key));
        f->depth++;
        write_fitting(f, &member->value, most - key);
        f->depth--;
        f->pointer.len = len;
        left -= most < left ? most : left;
    }
    buf_append_char(&f->out, '}');
    if (kept < value->count)
        note_cut(f, kept, value->count);
}

static void write_cut(struct fit *f, const struct json *value, size_t room)
{
    if (value->type == JSON_STRING) {
        cut_string(f, value, room);
    } else if (value->type == JSON_ARRAY) {
        cut_array(f, value, room);
    } else if (value->type == JSON_OBJECT) {
        cut_object(f, value, room);
    } else { /* half a number would be another one */
        buf_append_cstr(&f->out, "null");
        note_cut(f, 0, 1);
    }
}

/* ---- a part in place of the whole ---- */

static struct json skip(const struct json *value, uint64_t offset)
{
    struct json rest = *value;
    uint32_t count = offset < value->count ? (uint32_t)offset : value->count;
    if (value->type == JSON_ARRAY) {
        rest.as.items += count;
    } else if (value->type == JSON_OBJECT) {
        rest.as.members += count;
    } else if (value->type == JSON_STRING) {
        while (count < value->count && ((unsigned char)value->as.text[count] & 0xc0) == 0x80)
            count++;
        rest.as.text += count;
    } else {
        count = 0;
    }
    rest.count -= count;
    rest.cap_log2 = 0;
    return rest;
}

/* ---- the new output ---- */

static void put_cuts(struct fit *f, struct json_writer *w, const struct cut *cuts, size_t count)
{
    char id[UUID_TEXT_LEN + 1];
    uuid_format(f->wanted->execution_id, id);
    json_key(w, "cuts");
    json_open(w, '[');
    for (size_t i = 0; i < count; i++) {
        struct buf more;
        buf_init(&more, FIT_BYTES_MAX);
        buf_printf(&more, "/api/executions/%s?pointer=", id);
        encode_percent(&more, cuts[i].pointer);
        buf_printf(&more, "&offset=%llu", (unsigned long long)cuts[i].kept);
        json_open(w, '{');
        json_key(w, "pointer");
        json_put_str(w, cuts[i].pointer.ptr ? cuts[i].pointer : SLICE(""));
        json_key(w, "kept");
        json_put_i64(w, (int64_t)cuts[i].kept);
        json_key(w, "of");
        json_put_i64(w, (int64_t)cuts[i].of);
        json_key(w, "more");
        json_put_str(w, buf_slice(&more));
        json_close(w, '}');
        buf_deinit(&more);
    }
    json_close(w, ']');
}

static void put_truncated(struct fit *f, struct json_writer *w, const struct json *value,
                          size_t size)
{
    write_cut(f, value, f->wanted->bytes_max);
    json_open(w, '{');
    json_key(w, "truncated");
    json_put_bool(w, true);
    json_key(w, "bytes");
    json_put_i64(w, (int64_t)size);
    json_key(w, "max_output_bytes");
    json_put_i64(w, (int64_t)f->wanted->bytes_max);
    put_cuts(f, w, f->cuts, f->cut_count);
    json_key(w, "preview");
    json_put_raw(w, buf_slice(&f->out));
    json_close(w, '}');
}

/* The text of the new output in the caller's arena. */
static int make_output(struct fit *f, const struct json *value, size_t size, struct arena *arena,
                       slice *text)
{
    struct json_writer w;
    struct buf out;
    buf_init(&out, FIT_BYTES_MAX);
    json_begin(&w, &out);
    if (f->wanted->bytes_max > 0 && size > f->wanted->bytes_max)
        put_truncated(f, &w, value, size);
    else
        json_put(&w, value);
    bool is_ok = buf_is_ok(&out) && buf_is_ok(&f->out) && !f->arena.is_exhausted;
    *text = is_ok ? arena_dup(arena, buf_slice(&out)) : SLICE_NONE;
    buf_deinit(&out);
    return text->ptr ? OK : ERR_NOMEM;
}

static int make_summary(const struct json *summary, slice output, struct arena *arena, slice *text)
{
    struct json_writer w;
    struct buf out;
    buf_init(&out, FIT_BYTES_MAX);
    json_begin(&w, &out);
    json_open(&w, '{');
    for (uint32_t i = 0; i < summary->count; i++) {
        slice key = json_str(&summary->as.members[i].key);
        json_key_slice(&w, key);
        if (slice_eq_cstr(key, "output"))
            json_put_raw(&w, output);
        else
            json_put(&w, &summary->as.members[i].value);
    }
    json_close(&w, '}');
    *text = buf_is_ok(&out) ? arena_dup(arena, buf_slice(&out)) : SLICE_NONE;
    buf_deinit(&out);
    return text->ptr ? OK : ERR_NOMEM;
}

static int fit_parsed(struct fit *f, slice text, struct arena *arena, slice *fitted, slice *output)
{
    const struct json *summary = json_parse(&f->arena, text, &json_limits_provider, NULL);
    const struct json *whole = summary ? JSON_GET(summary, "output") : NULL;
    if (!summary)
        return ERR_NOMEM;
    const struct json *part = whole ? json_pointer(whole, f->wanted->pointer) : NULL;
    if (!part)
        return f->wanted->pointer.len > 0 || f->wanted->offset > 0 ? ERR_NOTFOUND : OK;
    struct json rest = skip(part, f->wanted->offset);
    size_t size = value_size(f, &rest);
    bool is_whole = f->wanted->pointer.len == 0 && f->wanted->offset == 0;
    if (is_whole && (f->wanted->bytes_max == 0 || size <= f->wanted->bytes_max))
        return OK;
    buf_append(&f->pointer, f->wanted->pointer);
    if (make_output(f, &rest, size, arena, output) != OK)
        return ERR_NOMEM;
    return make_summary(summary, *output, arena, fitted);
}

int exec_fit_summary(slice summary, const struct exec_fit *wanted, struct arena *arena,
                     slice *fitted, slice *output)
{
    slice unused;
    struct fit f = {.wanted = wanted};
    *fitted = summary;
    output = output ? output : &unused;
    *output = SLICE_NONE;
    if (wanted->pointer.len == 0 && wanted->offset == 0 &&
        (wanted->bytes_max == 0 || summary.len <= wanted->bytes_max))
        return OK;
    arena_init(&f.arena, FIT_ARENA_BYTES_MAX);
    buf_init(&f.out, FIT_BYTES_MAX);
    buf_init(&f.pointer, FIT_BYTES_MAX);
    buf_init(&f.scratch, FIT_BYTES_MAX);
    int result = fit_parsed(&f, summary, arena, fitted, output);
    buf_deinit(&f.scratch);
    buf_deinit(&f.pointer);
    buf_deinit(&f.out);
    arena_deinit(&f.arena);
    return result;
}

/* ---- the step ---- */

static size_t budget_of(const struct exec *exec)
{
    const struct exec_config *config = &exec->service->config;
    uint64_t wanted = exec->in.output_bytes_max > 0 ? exec->in.output_bytes_max
                                                    : config->output_bytes;
    return wanted < config->output_bytes_max ? (size_t)wanted : config->output_bytes_max;
}

static void fit_output(struct op *op)
{
    struct exec *exec = exec_of(op);
    struct exec_fit wanted = {.execution_id = exec->out.execution_id, .bytes_max = budget_of(exec)};
    slice output;
    exec->fit_status =
        exec_fit_summary(exec->summary_json, &wanted, &op->arena, &exec->summary_json, &output);
    if (output.ptr)
        exec->out.output_json = output;
}

enum op_result exec_step_fit_output(struct op *op)
{
    struct exec *exec = exec_of(op);
    exec->fit_status = OK;
    if (exec->out.reason != EXEC_SUCCEEDED || exec->summary_json.len <= budget_of(exec))
        return OP_NEXT;
    if (exec->summary_json.len > FIT_ON_LOOP_BYTES_MAX &&
        op_offload(op, &exec->reading, fit_output, "its output to be cut") == OK)
        return OP_WAIT;
    fit_output(op);
    return OP_NEXT;
}

enum op_result exec_step_judge_fit(struct op *op)
{
    struct exec *exec = exec_of(op);
    char id[UUID_TEXT_LEN + 1];
    uuid_format(exec->out.execution_id, id);
    if (exec->fit_status == OK)
        return OP_NEXT;
    return exec_stop(exec, EXEC_UNAVAILABLE,
                     arena_printf(&op->arena,
                                  "The action ran and its result is stored, but there is no memory "
                                  "to show it now; GET /api/executions/%s.",
                                  id),
                     SLICE_NONE);
}
