/*
 * Sending and drafts. A mail comes as base64url in `raw`; it is parsed as MIME and refused as Gmail
 * refuses it.
 */
#include <stdio.h>

#include "base/clock.h"
#include "base/encode.h"
#include "provider/gmail.h"

/* The mail of a request; message is the JSON that holds `raw`. false: answered. */
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
    *raw = arena_dup(request->http->arena, buf_slice(&out));
    buf_deinit(&out);
    return (is_ok && raw->ptr) ||
           gmail_bad(request,
                     "Invalid value at 'message.raw' (TYPE_BYTES), Base64 decoding failed for "
                     "\"%.*s\"",
                     SLICE_ARG(slice_first_utf8(text, 40)));
}

/* The thread that the request names; false: answered. */
static bool read_thread(struct gmail_request *request, const struct json *message,
                        struct gmail_thread **thread)
{
    slice id = json_get_str(message, SLICE("threadId"));
    *thread = id.len ? gmail_find_thread(request->gmail, id) : NULL;
    return !id.len || *thread || gmail_error_plain(request->gmail, request->reply, 404);
}

struct recipients {
    size_t count;
    bool is_self;
};

static void on_address(void *user, slice address)
{
    struct recipients *recipients = user;
    recipients->count++;
    recipients->is_self |= slice_eq_nocase(address, SLICE(GMAIL_ADDRESS));
}

static bool parse(struct gmail_request *request, slice raw, struct mime_part *part)
{
    struct err err = {0};
    return mime_parse(request->http->arena, raw, part, &err) == OK ||
           gmail_bad(request, "The message could not be parsed: %s", err.text);
}

/* With the headers that Gmail adds to what it sends: From, Date, Message-ID. */
static slice complete(struct gmail_request *request, const struct mime_part *part, slice raw)
{
    struct arena *arena = request->http->arena;
    struct gmail *gmail = request->gmail;
    char date[30];
    if (!mime_header(part, "From").len)
        raw = arena_printf(arena, "From: Sam Rivera <" GMAIL_ADDRESS ">\r\n%.*s", SLICE_ARG(raw));
    time_format_http(request->http->now_us, date);
    if (!mime_header(part, "Date").len)
        raw = arena_printf(arena, "Date: %.26s+0000\r\n%.*s", date, SLICE_ARG(raw));
    if (!mime_header(part, "Message-ID").len)
        raw = arena_printf(arena, "Message-ID: <CA%016llx%08llx@mail.gmail.com>\r\n%.*s",
                           (unsigned long long)rng_next(&gmail->provider->rng),
                           (unsigned long long)gmail->history_id, SLICE_ARG(raw));
    return raw;
}

static struct gmail_message *insert(struct gmail_request *request, const struct mime_part *part,
                                    slice raw, struct gmail_thread *thread,
                                    struct gmail_label *const *labels, size_t label_count)
{
    int64_t now_ms = request->http->now_us / 1000;
    struct gmail_new_message new = {
        .raw = complete(request, part, raw),
        .time_ms = now_ms > request->gmail->last_ms ? now_ms : request->gmail->last_ms,
        .thread = thread,
        .labels = labels,
        .label_count = label_count,
        .is_from_api = true};
    struct err err = {0};
    struct gmail_message *message = gmail_insert(request->gmail, &new, &err);
    if (!message)
        gmail_bad(request, "The message could not be parsed: %s", err.text);
    return message;
}

static bool read_recipients(struct gmail_request *request, const struct mime_part *part,
                            struct recipients *to)
{
    static const char *const fields[] = {"To", "Cc", "Bcc"};
    for (size_t i = 0; i < ARRAY_LEN(fields); i++) {
        slice value = mime_header(part, fields[i]);
        size_t before = to->count;
        mime_addresses(value, on_address, to);
        if (value.len && to->count == before)
            return gmail_bad(request, "Invalid %s header", fields[i]);
    }
    return to->count || gmail_bad(request, "Recipient address required");
}

/* Parses and sends; NULL: answered. */
static struct gmail_message *send_raw(struct gmail_request *request, slice raw,
                                      struct gmail_thread *thread)
{
    struct gmail_label *const *labels = request->gmail->labels;
    struct gmail_label *const to_self[] = {labels[GMAIL_UNREAD], labels[GMAIL_SENT],
                                           labels[GMAIL_INBOX]};
    struct mime_part part;
    struct recipients to = {0};
    struct gmail_message *message = NULL;
    if (raw.len > GMAIL_MESSAGE_BYTES_MAX)
        gmail_error(request->reply, 413, SLICE("uploadTooLarge"), SLICE("INVALID_ARGUMENT"),
                    "Message too large. The maximum is %d bytes.", GMAIL_MESSAGE_BYTES_MAX);
    else if (parse(request, raw, &part) && read_recipients(request, &part, &to))
        message = to.is_self ? insert(request, &part, raw, thread, to_self, ARRAY_LEN(to_self))
                             : insert(request, &part, raw, thread, &labels[GMAIL_SENT], 1);
    if (!message)
        return NULL;
    gmail_record_message(request, message);
    struct json_writer w = reply_json(request->reply, 200);
    gmail_write_brief(&w, message, true);
    return message;
}

void gmail_messages_send(struct gmail_request *request)
{
    slice raw;
    struct gmail_thread *thread;
    if (read_raw(request, request->json, &raw) && read_thread(request, request->json, &thread))
        (void)!send_raw(request, raw, thread);
}

/* A draft needs no recipient, nothing but a mail that can be read. A new one, or another content of
 * the one that the path names. */
void gmail_drafts_write(struct gmail_request *request)
{
    const struct json *content = JSON_GET(request->json, "message");
    struct gmail *gmail = request->gmail;
    struct gmail_message *old = request->message, *message;
    struct mime_part part;
    slice raw;
    struct gmail_thread *thread;
    if (!read_raw(request, content, &raw) || !read_thread(request, content, &thread) ||
        !parse(request, raw, &part))
        return;
    message = insert(request, &part, raw, thread, &gmail->labels[GMAIL_DRAFT], 1);
    if (!message)
        return;
    uint64_t number = UINT64_C(7200000000000000000) +
                      rng_below(&gmail->provider->rng, UINT64_C(1000000000000000000));
    (void)snprintf(message->draft_id, sizeof(message->draft_id), "r%llu",
                   (unsigned long long)number);
    if (old) {
        memcpy(message->draft_id, old->draft_id, sizeof(message->draft_id));
        gmail_delete(gmail, old);
    }
    gmail_record(request, slice_cstr(message->draft_id), mime_header(&message->payload, "Subject"));
    struct json_writer w = reply_json(request->reply, 200);
    json_open(&w, '{');
    json_member_str(&w, "id", slice_cstr(message->draft_id));
    json_key(&w, "message");
    gmail_write_brief(&w, message, true);
    json_close(&w, '}');
}

/* The draft is gone and a new message with SENT takes its place. A `message` in the request
 * replaces the draft's content. */
void gmail_drafts_send(struct gmail_request *request)
{
    const struct json *content = JSON_GET(request->json, "message");
    struct gmail_message *old = request->message;
    struct gmail_thread *thread = old->thread->order.count > 1 ? old->thread : NULL;
    slice raw = old->raw;
    if (json_get_str(content, SLICE("raw")).len && !read_raw(request, content, &raw))
        return;
    if (send_raw(request, raw, thread))
        gmail_delete(request->gmail, old);
}
