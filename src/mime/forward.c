/*
 * A message that is forwarded: its body becomes a part of the new message, byte for byte, with the
 * header fields that describe the body (RFC 2045 3). So its text, its HTML and its attachments
 * arrive as they were, and nothing of them is parsed or encoded again. No other field of it is
 * copied: they say how that message travelled.
 */
#include "base/encode.h"
#include "mime/internal.h"

/* Takes the next line, without its end, off *rest. */
static slice take_line(slice *rest)
{
    slice line = slice_split(rest, '\n');
    bool has_cr = line.len > 0 && line.ptr[line.len - 1] == '\r';
    return slice_first(line, line.len - (has_cr ? 1 : 0));
}

slice mime_read_forward(struct mime *mime, const struct json *raw)
{
    struct buf bytes;
    if (!raw || mime->status != OK)
        return SLICE_NONE;
    buf_init(&bytes, json_str(raw).len);
    if (decode_base64url(&bytes, json_str(raw)) != OK)
        mime_fail(mime, "forward must be a message in base64url");
    slice message = arena_take(mime->text->arena, &bytes);
    if (mime->status == OK && !message.ptr)
        mime->status = ERR_NOMEM;
    return message;
}

bool mime_is_8bit(slice bytes)
{
    for (size_t i = 0; i < bytes.len; i++)
        if ((unsigned char)bytes.ptr[i] >= 0x80)
            return true;
    return false;
}

void mime_put_forward(struct mime *mime, slice message)
{
    bool is_copied = false;
    while (message.len > 0) {
        slice line = take_line(&message);
        if (line.len == 0)
            break; /* the body follows */
        bool is_folded = line.ptr[0] == ' ' || line.ptr[0] == '\t';
        if (!is_folded)
            is_copied = slice_eq_nocase(slice_first(line, 8), SLICE("content-"));
        if (is_copied) {
            mime_add(mime, line);
            MIME_LIT(mime, "\r\n");
        }
    }
    MIME_LIT(mime, "\r\n");
    mime_add(mime, message);
}
