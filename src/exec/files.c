/*
 * Files of a call; see files.h.
 */
#include "exec/files.h"

#include "base/encode.h"
#include "exec/exec.h"
#include "http/message.h"
#include "vault/key.h"

enum { FILES_ON_LOOP_BYTES_MAX = 64 * 1024 };

slice exec_file_type(const struct exec_file *file)
{
    return file->content_type.len > 0 ? file->content_type : SLICE("application/octet-stream");
}

size_t exec_file_size(slice data)
{
    size_t padding = slice_ends_with(data, SLICE("==")) ? 2 : slice_ends_with(data, SLICE("="));
    size_t size = data.len / 4 * 3;
    return size > padding ? size - padding : 0;
}

size_t exec_files_size(const struct exec_file *files, size_t count)
{
    size_t size = 0;
    for (size_t i = 0; i < count; i++)
        size += exec_file_size(files[i].data);
    return size;
}

/* ---- checks ---- */

static bool is_printable(slice text)
{
    for (size_t i = 0; i < text.len; i++)
        if ((unsigned char)text.ptr[i] < 0x20 || text.ptr[i] == 0x7f)
            return false;
    return true;
}

static slice check_file(const struct exec_file *file, size_t index, size_t bytes_max,
                        struct arena *arena)
{
    size_t size = exec_file_size(file->data);
    if (!file->data.ptr)
        return arena_printf(arena, "files[%zu] has no data; nothing was done.", index);
    if (file->name.len == 0)
        return arena_printf(arena, "files[%zu] has no name; nothing was done.", index);
    if (file->name.len > EXEC_FILE_NAME_MAX || !is_printable(file->name))
        return arena_printf(arena,
                            "files[%zu]: the name must be at most %d bytes without control "
                            "characters; nothing was done.",
                            index, EXEC_FILE_NAME_MAX);
    if (file->field.len > EXEC_FILE_NAME_MAX || !is_printable(file->field))
        return arena_printf(arena,
                            "files[%zu]: the field must be at most %d bytes without control "
                            "characters; nothing was done.",
                            index, EXEC_FILE_NAME_MAX);
    if (file->content_type.len > 0 &&
        (slice_find_char(file->content_type, '/') < 1 || !http_is_field_value(file->content_type)))
        return arena_printf(arena, "files[%zu]: contentType is no media type; nothing was done.",
                            index);
    if (size > bytes_max)
        return arena_printf(arena,
                            "files[%zu] has %zu bytes, at most %zu are taken; nothing was done.",
                            index, size, bytes_max);
    return SLICE_NONE;
}

static size_t smaller(size_t limit, size_t wanted)
{
    return wanted > 0 && wanted < limit ? wanted : limit;
}

slice exec_files_check(const struct catalog_action *action, const struct exec_file *files,
                       size_t count, size_t file_bytes_max, struct arena *arena)
{
    const struct catalog_files *taken = &action->files;
    size_t count_max = smaller(EXEC_FILES_MAX, taken->count_max), bytes_max;
    slice fault = SLICE_NONE;
    bool is_whole_body = taken->travel == FILES_RAW;
    if (is_whole_body)
        count_max = 1;
    if (count == 0 && is_whole_body && action->request.body_kind == BODY_NONE)
        return arena_printf(arena, "%.*s sends a file, and none came; nothing was done.",
                            SLICE_ARG(action->title));
    if (count > 0 && taken->travel == FILES_NONE)
        return arena_printf(arena, "%.*s takes no files; nothing was done.",
                            SLICE_ARG(action->title));
    if (count > count_max)
        return arena_printf(arena, "%.*s takes at most %zu file%s, more came; nothing was done.",
                            SLICE_ARG(action->title), count_max, count_max == 1 ? "" : "s");
    bytes_max = smaller(file_bytes_max, taken->bytes_max);
    for (size_t i = 0; i < count && !fault.ptr; i++)
        fault = check_file(&files[i], i, bytes_max, arena);
    return fault;
}

slice exec_files_hint(const struct catalog_action *action)
{
    if (action->files.travel == FILES_NONE)
        return SLICE("Send the same request without files.");
    return SLICE("A path or a link is not enough. Read the file where it lies, encode its bytes as "
                 "standard base64 with padding, and send the same request again with the upload in "
                 "it: \"files\": [{\"name\": \"report.pdf\", \"contentType\": \"application/pdf\", "
                 "\"data\": \"<base64>\"}].");
}

/* ---- decoding ---- */

int exec_file_decode(struct exec_file *file, struct arena *arena)
{
    size_t size = exec_file_size(file->data);
    char *room = arena_alloc_text(arena, size + 1);
    if (!room)
        return ERR_NOMEM;
    /* a buf over the arena's memory: it has room for all there can be, so it never grows */
    struct buf out = {.ptr = room, .cap = size, .bytes_max = size};
    if (decode_base64(&out, file->data) != OK)
        return ERR_SYNTAX;
    ASSERT(out.ptr == room && out.len == size);
    file->bytes = slice_of(room, size);
    return OK;
}

void exec_files_write_fingerprint(const struct exec_file *files, size_t count, struct buf *out)
{
    for (size_t i = 0; i < count; i++) {
        buf_append_char(out, '\n');
        json_write_str(out, files[i].field);
        json_write_str(out, files[i].name);
        json_write_str(out, files[i].content_type);
        encode_hex(out, slice_of(files[i].hash, sizeof(files[i].hash)));
    }
}

/* ---- steps: what takes long goes to a pool thread ---- */

/* Whether the loop may do it itself: some 100 us of hashing. */
static bool is_little(const struct exec *exec)
{
    return exec_files_size(exec->in.files, exec->in.file_count) <= FILES_ON_LOOP_BYTES_MAX;
}

static void hash_files(struct op *op)
{
    struct exec *exec = exec_of(op);
    for (size_t i = 0; i < exec->in.file_count; i++)
        vault_sha256(exec->in.files[i].data, exec->in.files[i].hash);
}

enum op_result exec_step_hash_files(struct op *op)
{
    struct exec *exec = exec_of(op);
    if (exec->in.idempotency_key.len == 0)
        return OP_NEXT;
    if (!is_little(exec) &&
        op_offload(op, &exec->reading, hash_files, "its files to be hashed") == OK)
        return OP_WAIT;
    hash_files(op);
    return OP_NEXT;
}

/* Up to the first that is broken. */
static void decode_files(struct op *op)
{
    struct exec *exec = exec_of(op);
    exec->files_status = OK;
    for (size_t i = 0; i < exec->in.file_count && exec->files_status == OK; i++) {
        exec->file_index = i;
        exec->files_status = exec_file_decode(&exec->in.files[i], &op->arena);
    }
}

enum op_result exec_step_decode_files(struct op *op)
{
    struct exec *exec = exec_of(op);
    if (!is_little(exec) &&
        op_offload(op, &exec->reading, decode_files, "its files to be decoded") == OK)
        return OP_WAIT;
    decode_files(op);
    return OP_NEXT;
}

enum op_result exec_step_judge_files(struct op *op)
{
    struct exec *exec = exec_of(op);
    if (exec->files_status == OK)
        return OP_NEXT;
    if (exec->files_status != ERR_SYNTAX)
        return exec_stop(exec, EXEC_UNAVAILABLE,
                         SLICE("Out of memory; nothing was done, try again."), SLICE_NONE);
    return exec_stop(exec, EXEC_INPUT_INVALID,
                     arena_printf(&op->arena,
                                  "files[%zu]: data is not standard base64 with padding; nothing "
                                  "was done.",
                                  exec->file_index),
                     exec_files_hint(exec->action));
}
