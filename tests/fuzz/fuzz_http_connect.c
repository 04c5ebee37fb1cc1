/*
 * Any bytes as a proxy's reply to CONNECT, in any pieces: there is one verdict, no byte past the
 * received ones is read, and a tunnel exists only if a complete head says so and nothing follows
 * it.
 */
#include <stdlib.h>

#include "base/mem.h"
#include "http/client_internal.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { HEAD_BYTES_MAX = 8 * 1024 };

static void check(bool is_fine)
{
    if (!is_fine)
        abort();
}

/* Like a dial: reads up to the piece in which the head ends. 0: no head. */
static unsigned judge(slice bytes, size_t step, size_t *used)
{
    unsigned status = 0;
    struct buf head;
    buf_init(&head, HEAD_BYTES_MAX);
    *used = 0;
    do {
        slice piece = slice_first(bytes, step);
        buf_append(&head, piece);
        bytes = slice_from(bytes, step);
        *used += piece.len;
    } while (bytes.len > 0 && buf_is_ok(&head) && !proxy_is_head_whole(&head));
    /* The head ends where its block of memory ends, so that a read past the received bytes is
     * found. */
    struct buf exact = head;
    exact.ptr = mem_alloc(head.len + 1);
    check(exact.ptr != NULL);
    exact.ptr = memcpy(exact.ptr + 1, head.ptr, head.len);
    if (!buf_is_ok(&head) || proxy_read_head(&exact, &status) != OK)
        status = 0;
    check(status == 0 || (status >= 200 && status <= 999));
    check(status == 0 || proxy_is_head_whole(&head));
    mem_free(exact.ptr - 1);
    buf_deinit(&head);
    return status;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    size_t whole_used, used;
    if (size == 0 || size > HEAD_BYTES_MAX)
        return 0;
    slice bytes = slice_of(data, size);
    ptrdiff_t end = slice_find(bytes, SLICE("\r\n\r\n"));
    unsigned whole = judge(bytes, bytes.len, &whole_used);
    bool has_more = end >= 0 && (size_t)end + 4 < size;
    check(end >= 0 || whole == 0);
    check(!has_more || whole == 0 || whole >= 300);
    const size_t steps[] = {1, 2 + data[0] % 7u, bytes.len / 2 + 1};
    for (size_t i = 0; i < ARRAY_LEN(steps); i++) {
        unsigned pieces = judge(bytes, steps[i], &used);
        /* TLS has to refuse bytes that arrive in a later piece than the end of the head. */
        check(pieces == whole || (whole == 0 && has_more && pieces >= 200 && pieces < 300));
    }
    check(mem_live_blocks() == 0);
    return 0;
}
