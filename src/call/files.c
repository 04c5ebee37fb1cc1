/*
 * Files of a call; see files.h.
 */
#include "call/files.h"

#include "base/encode.h"
#include "http/client.h"
#include "json/json.h"

enum { FAULTS_BYTES_MAX = 64 * 1024 };

slice call_file_type(const struct call_file *file)
{
    return file->content_type.len > 0 ? file->content_type : SLICE("application/octet-stream");
}

size_t call_file_size(slice data)
{
    size_t padding = slice_ends_with(data, SLICE("==")) ? 2 : slice_ends_with(data, SLICE("="));
    size_t size = data.len / 4 * 3;
    return size > padding ? size - padding : 0;
}

size_t call_files_size(const struct call_file *files, size_t count)
{
    size_t size = 0;
    for (size_t i = 0; i < count; i++)
        size += call_file_size(files[i].data);
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

/* Adds a fault to the list. */
static void add_file_fault(struct buf *out, const char *fmt, ...) PRINTF_LIKE(2, 3);
static void add_file_fault(struct buf *out, const char *fmt, ...)
{
    va_list args;
    if (out->len > 0)
        buf_append(out, SLICE("; "));
    va_start(args, fmt);
    buf_vprintf(out, fmt, args);
    va_end(args);
}

static void check_text(slice text, const char *member, size_t index, struct buf *out)
{
    if (text.len > CALL_FILE_NAME_MAX || !is_printable(text))
        add_file_fault(out, "/files/%zu/%s: must be at most %d bytes without control characters",
                       index, member, CALL_FILE_NAME_MAX);
}

/* The size is computed from the length of the base64: nothing is decoded before all files are
 * accepted. */
static void check_file(const struct call_file *file, size_t index, size_t bytes_max,
                       struct buf *out)
{
    size_t size = call_file_size(file->data);
    if (!file->data.ptr)
        add_file_fault(out, "/files/%zu: data is missing", index);
    if (file->name.len == 0)
        add_file_fault(out, "/files/%zu: name is missing", index);
    check_text(file->name, "name", index, out);
    check_text(file->field, "field", index, out);
    if (file->content_type.len > 0 &&
        (slice_find_char(file->content_type, '/') < 1 || !http_is_field_value(file->content_type)))
        add_file_fault(out, "/files/%zu/contentType: must be a media type", index);
    if (size > bytes_max)
        add_file_fault(out, "/files/%zu: has %zu bytes, but at most %zu are allowed", index, size,
                       bytes_max);
}

static size_t smaller_limit(size_t limit, size_t wanted)
{
    return wanted > 0 && wanted < limit ? wanted : limit;
}

static void check_files(const struct catalog_action *action, const struct call_file *files,
                        size_t count, size_t file_bytes_max, struct buf *out)
{
    const struct catalog_files *taken = &action->files;
    size_t count_max = smaller_limit(CALL_FILES_MAX, taken->count_max);
    bool is_whole_body = taken->travel == FILES_RAW;
    if (is_whole_body)
        count_max = 1;
    if (count == 0 && is_whole_body &&
        catalog_request_at(action, taken->at)->body_kind == BODY_NONE)
        add_file_fault(out, "%.*s needs a file, but the request has none",
                       SLICE_ARG(action->title));
    else if (count > 0 && taken->travel == FILES_NONE)
        add_file_fault(out, "%.*s takes no files", SLICE_ARG(action->title));
    else if (count > count_max)
        add_file_fault(out, "%.*s takes at most %zu file%s, but the request has more",
                       SLICE_ARG(action->title), count_max, count_max == 1 ? "" : "s");
    else
        for (size_t i = 0; i < count; i++)
            check_file(&files[i], i, smaller_limit(file_bytes_max, taken->bytes_max), out);
}

slice call_files_check(const struct catalog_action *action, const struct call_file *files,
                       size_t count, size_t file_bytes_max, struct arena *arena)
{
    struct buf text;
    buf_init(&text, FAULTS_BYTES_MAX);
    check_files(action, files, count, file_bytes_max, &text);
    if (text.len == 0 && buf_is_ok(&text))
        return SLICE_NONE;
    slice faults = arena_dup(arena, buf_slice(&text));
    buf_deinit(&text);
    return faults.len > 0 ? faults : SLICE("the files cannot be accepted");
}

/* Most agents whose call fails here have sent a path: the hint shows the right form. */
slice call_files_hint(const struct catalog_action *action, bool is_data_lacking)
{
    if (action->files.travel == FILES_NONE)
        return SLICE("Send the same request without files.");
    if (!is_data_lacking)
        return SLICE("Correct the files, then send the same request again.");
    return SLICE(
        "A path or a link is not enough. Read the file, encode its bytes as standard base64 with "
        "padding, and send the same request again with the file in it: \"files\": [{\"name\": "
        "\"report.pdf\", \"contentType\": \"application/pdf\", \"data\": \"<base64>\"}].");
}

/* ---- decoding ---- */

/* A file is decoded once, directly into the request's body, and never copied. */
int call_file_decode(struct call_file *file, struct arena *arena)
{
    size_t size = call_file_size(file->data);
    char *room = arena_alloc_text(arena, size + 1);
    if (!room)
        return ERR_NOMEM;
    /* a buf over memory of the arena that has the decoded size, so it never grows */
    struct buf out = {.ptr = room, .cap = size, .bytes_max = size};
    if (decode_base64(&out, file->data) != OK)
        return ERR_SYNTAX;
    ASSERT(out.ptr == room && out.len == size);
    file->bytes = slice_of(room, size);
    return OK;
}

void call_files_write_fingerprint(const struct call_file *files, size_t count, struct buf *out)
{
    for (size_t i = 0; i < count; i++) {
        buf_append_char(out, '\n');
        json_write_str(out, files[i].field);
        json_write_str(out, files[i].name);
        json_write_str(out, files[i].content_type);
        encode_hex(out, slice_of(files[i].hash, sizeof(files[i].hash)));
    }
}
