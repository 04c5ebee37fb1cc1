/*
 * See secret_mask.h.
 */
#include "base/secret_mask.h"

#include "base/buf.h"

enum { MASKED_BYTES_MAX = 256 * 1024 * 1024 };

void secret_mask_add(struct secret_mask *mask, slice secret)
{
    if (secret.len >= SECRET_MASK_BYTES_MIN && mask->count < SECRET_MASK_MAX)
        mask->secrets[mask->count++] = secret;
}

static slice mask_one(slice text, slice secret, struct arena *arena)
{
    ptrdiff_t at = slice_find(text, secret);
    if (at < 0)
        return text;
    struct buf out;
    buf_init(&out, MASKED_BYTES_MAX);
    for (; at >= 0; at = slice_find(text, secret)) {
        buf_append(&out, slice_first(text, (size_t)at));
        buf_append_cstr(&out, "***");
        text = slice_from(text, (size_t)at + secret.len);
    }
    buf_append(&out, text);
    return arena_take(arena, &out);
}

slice secret_mask_text(const struct secret_mask *mask, slice text, struct arena *arena)
{
    for (size_t i = 0; i < mask->count && text.ptr; i++)
        text = mask_one(text, mask->secrets[i], arena);
    return text;
}
