/*
 * Sending and drafts. A mail comes as base64url in `raw`; it is parsed as MIME and refused as Gmail
 * refuses it.
 */
#include <stdio.h>

#include "base/clock.h"
#include "base/encode.h"
#include "provider/gmail.h"

/* A mail that a request brought. */
struct draft {
    slice raw;
    struct gmail_thread *thread; /* that the request names */
    struct mime_part head;
};

static bool unreadable(struct gmail_request *request, const struct err *err)
{
    return gmail_bad(request, "The message could not be parsed: %s", err->text);
}

/* The raw mail of a request; message is the JSON that holds it. false: answered. */
static bool read_raw(struct gmail_request *request, const struct json *message, slice *raw)
{
    slice text = json_get_str(message, SLICE("raw"));
    struct buf out;
    if (!text.len)
        return gmail_bad(request, "'raw' RFC822 payload message string required");
    while (slice_ends_with(text, SLICE("=")))
        text.len--;
    buf_init(&out, text.len + 1);
    bool is_ok = decode_base64url(&out, text) == OK;
    *raw = arena_take(request->arena, &out);
    return (is_ok && raw->ptr) ||
           gmail_bad(request,
                     "Invalid value at 'message.raw' (TYPE_BYTES), Base64 decoding failed for "
                     "\"%.*s\"",
                     SLICE_ARG(slice_first_utf8(text, 40)));
}

static bool read_draft(struct gmail_request *request, const struct json *message,
                       struct draft *draft)
{
    slice id = json_get_str(message, SLICE("threadId"));
    *draft = (struct draft){0};
    if (!read_raw(request, message, &draft->raw))
        return false;
    draft->thread = id.len ? gmail_find_thread(request->gmail, id) : NULL;
    return !id.len || draft->thread || gmail_not_found(request);
}

static bool read_head(struct gmail_request *request, struct draft *draft)
{
    slice text = draft->raw;
    struct err err = {0};
    return mime_read_head(request->arena, &text, &draft->head, &err) == OK ||
           unreadable(request, &err);
}

/* With the headers that Gmail adds to what it sends: From, Date, Message-ID. */
static slice complete(struct gmail_request *request, const struct draft *draft)
{
    struct arena *arena = request->arena;
    struct gmail *gmail = request->gmail;
    slice raw = draft->raw;
    char date[30];
    if (!mime_header(&draft->head, "From").len)
        raw = arena_printf(arena, "From: Sam Rivera <" GMAIL_ADDRESS ">\r\n%.*s", SLICE_ARG(raw));
    time_format_http(request->http->now_us, date);
    if (!mime_header(&draft->head, "Date").len)
        raw = arena_printf(arena, "Date: %.26s+0000\r\n%.*s", date, SLICE_ARG(raw));
    if (!mime_header(&draft->head, "Message-ID").len)
        raw = arena_printf(arena, "Message-ID: <CA%016llx%08llx@mail.gmail.com>\r\n%.*s",
                           (unsigned long long)rng_next(&gmail->provider->rng),
                           (unsigned long long)gmail->history_id, SLICE_ARG(raw));
    return raw;
}

/* NULL: answered. */
static struct gmail_message *insert(struct gmail_request *request, const struct draft *draft,
                                    struct gmail_label *const *labels, size_t label_count)
{
    int64_t now_ms = request->http->now_us / 1000;
    struct gmail_new_message new = {
        .raw = complete(request, draft),
        .time_ms = now_ms > request->gmail->last_ms ? now_ms : request->gmail->last_ms,
        .thread = draft->thread,
        .labels = labels,
        .label_count = label_count,
        .is_from_api = true};
    struct err err = {0};
    struct gmail_message *message = gmail_insert(request->gmail, &new, &err);
    if (!message)
        unreadable(request, &err);
    return message;
}

static bool read_recipients(struct gmail_request *request, const struct mime_part *head,
                            bool *is_self)
{
    static const char *const fields[] = {"To", "Cc", "Bcc"};
    size_t total = 0;
    *is_self = false;
    for (size_t i = 0; i < ARRAY_LEN(fields); i++) {
        slice rest = mime_header(head, fields[i]), address;
        size_t before = total;
        bool is_there = rest.len > 0;
        for (; (address = mime_take_address(&rest)).len; total++)
            *is_self |= slice_eq_nocase(address, SLICE(GMAIL_ADDRESS));
        if (is_there && total == before)
            return gmail_bad(request, "Invalid %s header", fields[i]);
    }
    return total || gmail_bad(request, "Recipient address required");
}

static bool send_draft(struct gmail_request *request, struct draft *draft)
{
    struct gmail_label *const *labels = request->gmail->labels;
    struct gmail_label *const to_self[] = {labels[GMAIL_UNREAD], labels[GMAIL_SENT],
                                           labels[GMAIL_INBOX]};
    bool is_self;
    if (draft->raw.len > GMAIL_MESSAGE_BYTES_MAX)
        return gmail_error(request->reply, 413, SLICE("uploadTooLarge"), SLICE("INVALID_ARGUMENT"),
                           SLICE("Message too large. The maximum is 36700160 bytes."));
    if (!read_head(request, draft) || !read_recipients(request, &draft->head, &is_self))
        return false;
    struct gmail_message *message = is_self ? insert(request, draft, to_self, ARRAY_LEN(to_self))
                                            : insert(request, draft, &labels[GMAIL_SENT], 1);
    return message && gmail_reply_message(request, message, GMAIL_MESSAGE);
}

bool gmail_messages_send(struct gmail_request *request)
{
    struct draft draft;
    return read_draft(request, request->json, &draft) && send_draft(request, &draft);
}

/* A draft needs no recipient, nothing but a mail that can be read. A new one, or another content of
 * the one that the path names. */
bool gmail_drafts_write(struct gmail_request *request)
{
    struct gmail *gmail = request->gmail;
    struct gmail_message *old = request->message, *message = NULL;
    struct draft draft;
    if (read_draft(request, JSON_GET(request->json, "message"), &draft) &&
        read_head(request, &draft))
        message = insert(request, &draft, &gmail->labels[GMAIL_DRAFT], 1);
    if (!message)
        return false;
    uint64_t number = UINT64_C(7200000000000000000) +
                      rng_below(&gmail->provider->rng, UINT64_C(1000000000000000000));
    (void)snprintf(message->draft_id, sizeof(message->draft_id), "r%llu",
                   (unsigned long long)number);
    if (old) {
        memcpy(message->draft_id, old->draft_id, sizeof(message->draft_id));
        gmail_delete(gmail, old);
    }
    return gmail_reply_message(request, message, GMAIL_A_DRAFT);
}

/* The draft is gone and a new message with SENT takes its place. A `message` in the request
 * replaces the draft's content. */
bool gmail_drafts_send(struct gmail_request *request)
{
    const struct json *content = JSON_GET(request->json, "message");
    struct gmail_message *old = request->message;
    struct draft draft = {.raw = old->raw,
                          .thread = old->thread->order.count > 1 ? old->thread : NULL};
    if (json_get_str(content, SLICE("raw")).len && !read_raw(request, content, &draft.raw))
        return false;
    if (!send_draft(request, &draft))
        return false;
    gmail_delete(request->gmail, old);
    return true;
}
