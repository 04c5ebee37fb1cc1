/*
 * Sending and drafts. A mail comes as base64url in `raw`, or as message/rfc822 through the upload
 * path; it is parsed as MIME and refused as Gmail refuses it.
 */
#include <time.h>

#include "base/encode.h"
#include "base/mem.h"
#include "provider/gmail.h"
#include "provider/ledger.h"

static bool bad(struct provider_reply *reply, const char *text)
{
    gmail_error(reply, 400, "invalidArgument", "INVALID_ARGUMENT", "%s", text);
    return false;
}

/* Both alphabets and missing padding are taken, as Google's JSON reading does. */
static bool decode_raw(struct arena *arena, slice text, slice *raw)
{
    size_t len = text.len;
    while (len && text.ptr[len - 1] == '=')
        len--;
    char *copy = arena_alloc_text(arena, len + 1);
    struct buf out;
    buf_init(&out, len + 1);
    for (size_t i = 0; copy && i < len; i++) {
        char c = text.ptr[i];
        copy[i] = (char)(c == '+' ? '-' : c == '/' ? '_' : c);
    }
    bool is_ok = copy && decode_base64url(&out, slice_of(copy, len)) == OK;
    if (is_ok)
        *raw = arena_dup(arena, buf_slice(&out));
    buf_deinit(&out);
    return is_ok;
}

/* The mail of a request; message is the JSON that holds `raw`. false: answered. */
static bool read_raw(struct gmail_request *request, const struct json *message, slice *raw,
                     struct provider_reply *reply)
{
    const struct provider_request *http = request->http;
    if (!request->json && http->body.len) { /* message/rfc822 */
        *raw = http->body;
        return true;
    }
    slice text = json_get_str(message, SLICE("raw"));
    if (!text.len)
        return bad(reply, "'raw' RFC822 payload message string or uploading message via /upload/* "
                          "URL required");
    if (decode_raw(http->arena, text, raw))
        return true;
    gmail_error(reply, 400, "invalidArgument", "INVALID_ARGUMENT",
                "Invalid value at 'message.raw' (TYPE_BYTES), Base64 decoding failed for \"%.*s\"",
                SLICE_ARG(slice_first_utf8(text, 40)));
    return false;
}

/* The thread that the request names; false: answered. */
static bool read_thread(struct gmail_request *request, const struct json *message,
                        struct gmail_thread **thread, struct provider_reply *reply)
{
    slice id = json_get_str(message, SLICE("threadId"));
    *thread = id.len ? gmail_find_thread(request->gmail, id) : NULL;
    if (!id.len || *thread)
        return true;
    gmail_error_plain(reply, 404);
    return false;
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

/* Missing headers that Gmail adds to what it sends: From, Date, Message-ID. */
static slice complete(struct gmail_request *request, slice raw)
{
    struct arena *arena = request->http->arena;
    struct mime_part probe;
    struct err err;
    if (mime_parse(arena, raw, &probe, &err) != OK)
        return raw;
    struct buf head;
    buf_init(&head, 1024);
    if (!mime_header(&probe, "From").len)
        buf_append_cstr(&head, "From: Sam Rivera <" GMAIL_ADDRESS ">\r\n");
    if (!mime_header(&probe, "Date").len) {
        time_t seconds = (time_t)(request->http->now_us / 1000000);
        struct tm tm;
        char text[64];
        gmtime_r(&seconds, &tm);
        strftime(text, sizeof(text), "Date: %a, %d %b %Y %H:%M:%S +0000\r\n", &tm);
        buf_append_cstr(&head, text);
    }
    if (!mime_header(&probe, "Message-ID").len)
        buf_printf(&head, "Message-ID: <CA%016llx%08llx@mail.gmail.com>\r\n",
                   (unsigned long long)rng_next(&request->gmail->provider->rng),
                   (unsigned long long)request->gmail->history_id);
    slice whole =
        head.len ? arena_printf(arena, "%.*s%.*s", (int)head.len, head.ptr, SLICE_ARG(raw)) : raw;
    buf_deinit(&head);
    return whole;
}

static struct gmail_message *insert(struct gmail_request *request, slice raw,
                                    struct gmail_thread *thread, const unsigned *labels,
                                    size_t label_count, struct provider_reply *reply)
{
    int64_t now_ms = request->http->now_us / 1000;
    struct gmail_new_message new = {
        .raw = complete(request, raw),
        .time_ms = now_ms > request->gmail->last_ms ? now_ms : request->gmail->last_ms,
        .thread = thread,
        .labels = labels,
        .label_count = label_count,
        .is_from_api = true};
    struct err err = {0};
    struct gmail_message *message = gmail_insert(request->gmail, &new, &err);
    if (!message)
        gmail_error(reply, 400, "invalidArgument", "INVALID_ARGUMENT",
                    "The message could not be parsed: %s", err.text);
    return message;
}

/* Parses and sends; NULL: answered. */
static struct gmail_message *send_raw(struct gmail_request *request, slice raw,
                                      struct gmail_thread *thread, struct provider_reply *reply)
{
    static const unsigned sent[] = {GMAIL_SENT};
    static const unsigned to_self[] = {GMAIL_UNREAD, GMAIL_SENT, GMAIL_INBOX};
    struct mime_part part;
    struct err err = {0};
    if (raw.len > GMAIL_MESSAGE_BYTES_MAX) {
        gmail_error(reply, 413, "uploadTooLarge", "INVALID_ARGUMENT",
                    "Message too large. The maximum is %d bytes.", GMAIL_MESSAGE_BYTES_MAX);
        return NULL;
    }
    if (mime_parse(request->http->arena, raw, &part, &err) != OK) {
        gmail_error(reply, 400, "invalidArgument", "INVALID_ARGUMENT",
                    "The message could not be parsed: %s", err.text);
        return NULL;
    }
    struct recipients to = {0};
    static const char *const fields[] = {"To", "Cc", "Bcc"};
    for (size_t i = 0; i < ARRAY_LEN(fields); i++) {
        slice value = mime_header(&part, fields[i]);
        size_t before = to.count;
        mime_addresses(value, on_address, &to);
        if (value.len && to.count == before) {
            gmail_error(reply, 400, "invalidArgument", "INVALID_ARGUMENT", "Invalid %s header",
                        fields[i]);
            return NULL;
        }
    }
    if (!to.count) {
        bad(reply, "Recipient address required");
        return NULL;
    }
    return to.is_self ? insert(request, raw, thread, to_self, ARRAY_LEN(to_self), reply)
                      : insert(request, raw, thread, sent, ARRAY_LEN(sent), reply);
}

static void record(struct gmail_request *request, const char *kind, slice id,
                   const struct gmail_message *message)
{
    ledger_add(request->gmail->provider->ledger, request->http, kind, id,
               message ? mime_header(&message->payload, "Subject") : SLICE(""));
}

void gmail_messages_send(struct gmail_request *request, struct provider_reply *reply)
{
    slice raw;
    struct gmail_thread *thread;
    if (!read_raw(request, request->json, &raw, reply) ||
        !read_thread(request, request->json, &thread, reply))
        return;
    struct gmail_message *message = send_raw(request, raw, thread, reply);
    if (!message)
        return;
    record(request, "gmail.messages.send", slice_of(message->id_text, GMAIL_ID_TEXT_LEN), message);
    struct json_writer w = reply_json(reply, 200);
    gmail_write_brief(&w, message);
}

static void reply_draft(struct provider_reply *reply, const struct gmail_draft *draft)
{
    struct json_writer w = reply_json(reply, 200);
    json_open(&w, '{');
    json_key(&w, "id");
    json_put_str(&w, slice_cstr(draft->id));
    json_key(&w, "message");
    gmail_write_brief(&w, draft->message);
    json_close(&w, '}');
}

/* A draft needs no recipient, nothing but a mail that can be read. */
static struct gmail_message *insert_draft(struct gmail_request *request,
                                          struct provider_reply *reply)
{
    static const unsigned labels[] = {GMAIL_DRAFT};
    const struct json *message = JSON_GET(request->json, "message");
    slice raw;
    struct gmail_thread *thread;
    if (!read_raw(request, message, &raw, reply) || !read_thread(request, message, &thread, reply))
        return NULL;
    return insert(request, raw, thread, labels, ARRAY_LEN(labels), reply);
}

void gmail_drafts_create(struct gmail_request *request, struct provider_reply *reply)
{
    struct gmail_message *message = insert_draft(request, reply);
    if (!message)
        return;
    uint64_t number = UINT64_C(7200000000000000000) +
                      rng_below(&request->gmail->provider->rng, UINT64_C(1000000000000000000));
    struct gmail_draft *draft = gmail_draft_add(request->gmail, message, number);
    if (!draft) {
        gmail_delete(request->gmail, message);
        gmail_error_plain(reply, 503);
        return;
    }
    record(request, "gmail.drafts.create", slice_cstr(draft->id), message);
    reply_draft(reply, draft);
}

static struct gmail_draft *find_draft(struct gmail_request *request, slice id,
                                      struct provider_reply *reply)
{
    struct gmail_draft *draft = gmail_draft_find(request->gmail, id);
    if (!draft)
        gmail_error_plain(reply, 404);
    return draft;
}

void gmail_drafts_get(struct gmail_request *request, struct provider_reply *reply)
{
    const struct gmail_draft *draft = find_draft(request, request->id, reply);
    if (!draft)
        return;
    struct json_writer w = reply_json(reply, 200);
    json_open(&w, '{');
    json_key(&w, "id");
    json_put_str(&w, slice_cstr(draft->id));
    json_key(&w, "message");
    gmail_write_message(&w, draft->message, GMAIL_FULL, NULL, 0);
    json_close(&w, '}');
}

void gmail_drafts_update(struct gmail_request *request, struct provider_reply *reply)
{
    struct gmail_draft *draft = find_draft(request, request->id, reply);
    struct gmail_message *message = draft ? insert_draft(request, reply) : NULL;
    if (!message)
        return;
    struct gmail_message *old = draft->message;
    draft->message = message;
    gmail_delete(request->gmail, old);
    record(request, "gmail.drafts.update", slice_cstr(draft->id), message);
    reply_draft(reply, draft);
}

void gmail_drafts_delete(struct gmail_request *request, struct provider_reply *reply)
{
    struct gmail_draft *draft = find_draft(request, request->id, reply);
    if (!draft)
        return;
    struct gmail_message *message = draft->message;
    record(request, "gmail.drafts.delete", slice_cstr(draft->id), message);
    gmail_draft_remove(request->gmail, draft);
    gmail_delete(request->gmail, message);
    reply_empty(reply, 204);
}

/* The draft is gone and a new message with SENT takes its place. A `message` in the request
 * replaces the draft's content. */
void gmail_drafts_send(struct gmail_request *request, struct provider_reply *reply)
{
    slice id = json_get_str(request->json, SLICE("id"));
    const struct json *content = JSON_GET(request->json, "message");
    struct gmail_draft *draft = find_draft(request, id, reply);
    if (!draft)
        return;
    struct gmail_message *old = draft->message;
    slice raw = arena_dup(request->http->arena, old->raw);
    if (json_get_str(content, SLICE("raw")).len && !read_raw(request, content, &raw, reply))
        return;
    struct gmail_message *message =
        send_raw(request, raw, old->thread->order.count > 1 ? old->thread : NULL, reply);
    if (!message)
        return;
    record(request, "gmail.drafts.send", slice_of(message->id_text, GMAIL_ID_TEXT_LEN), message);
    gmail_draft_remove(request->gmail, draft);
    gmail_delete(request->gmail, old);
    struct json_writer w = reply_json(reply, 200);
    gmail_write_brief(&w, message);
}
