/*
 * users.messages: get, modify, trash, delete, attachments.
 */
#include "provider/gmail.h"
#include "provider/ledger.h"

static struct gmail_message *find(struct gmail_request *request, slice id,
                                  struct provider_reply *reply)
{
    bool is_hex = id.len > 0 && id.len <= GMAIL_ID_TEXT_LEN;
    for (size_t i = 0; i < id.len; i++)
        is_hex &= id.ptr[i] && strchr("0123456789abcdefABCDEF", id.ptr[i]) != NULL;
    if (!is_hex) {
        gmail_error(reply, 400, "invalidArgument", "INVALID_ARGUMENT", "Invalid id value");
        return NULL;
    }
    struct gmail_message *message = gmail_find(request->gmail, id);
    if (!message)
        gmail_error_plain(reply, 404);
    return message;
}

static void record(struct gmail_request *request, const char *kind,
                   const struct gmail_message *message)
{
    ledger_add(request->gmail->provider->ledger, request->http, kind,
               slice_of(message->id_text, GMAIL_ID_TEXT_LEN),
               mime_header(&message->payload, "Subject"));
}

static void reply_brief(struct provider_reply *reply, const struct gmail_message *message)
{
    struct json_writer w = reply_json(reply, 200);
    gmail_write_brief(&w, message);
}

static bool read_format(const struct provider_request *http, enum gmail_format *format,
                        struct provider_reply *reply)
{
    static const char *const names[] = {"full", "metadata", "minimal", "raw"};
    slice text = request_query(http, SLICE("format"));
    *format = GMAIL_FULL;
    if (!text.len)
        return true;
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        if (slice_eq_nocase(text, slice_cstr(names[i]))) {
            *format = (enum gmail_format)i;
            return true;
        }
    }
    gmail_error(reply, 400, "invalidArgument", "INVALID_ARGUMENT",
                "Invalid value at 'format' (type.googleapis.com/"
                "google.gmail.v1.MessageFormat), \"%.*s\"",
                SLICE_ARG(text));
    return false;
}

/* The metadataHeaders parameters, gathered in the request's arena. */
static const struct http_header *wanted_headers(const struct provider_request *http, size_t *count)
{
    *count = 0;
    struct http_header *wanted = ARENA_ARRAY(http->arena, struct http_header, http->query_count);
    for (size_t i = 0; wanted && i < http->query_count; i++)
        if (slice_eq(http->query[i].name, SLICE("metadataHeaders")))
            wanted[(*count)++] = http->query[i];
    return wanted;
}

void gmail_messages_get(struct gmail_request *request, struct provider_reply *reply)
{
    enum gmail_format format;
    size_t count = 0;
    const struct gmail_message *message = find(request, request->id, reply);
    if (!message || !read_format(request->http, &format, reply))
        return;
    const struct http_header *wanted = wanted_headers(request->http, &count);
    struct json_writer w = reply_json(reply, 200);
    gmail_write_message(&w, message, format, wanted, count);
}

void gmail_threads_get(struct gmail_request *request, struct provider_reply *reply)
{
    enum gmail_format format;
    size_t count = 0;
    const struct gmail_thread *thread = gmail_find_thread(request->gmail, request->id);
    if (!thread) {
        gmail_error_plain(reply, 404);
        return;
    }
    if (!read_format(request->http, &format, reply))
        return;
    const struct http_header *wanted = wanted_headers(request->http, &count);
    struct json_writer w = reply_json(reply, 200);
    struct buf history;
    buf_init(&history, 32);
    buf_append_u64(&history, thread->order.items[thread->order.count - 1]->history_id);
    json_open(&w, '{');
    json_key(&w, "id");
    json_put_str(&w, slice_of(thread->id_text, GMAIL_ID_TEXT_LEN));
    json_key(&w, "historyId");
    json_put_str(&w, buf_slice(&history));
    json_key(&w, "messages");
    json_open(&w, '[');
    for (size_t i = 0; i < thread->order.count; i++)
        gmail_write_message(&w, thread->order.items[i], format, wanted, count);
    json_close(&w, ']');
    json_close(&w, '}');
    buf_deinit(&history);
}

bool gmail_read_labels(struct gmail_request *request, const struct json *ids,
                       struct gmail_label **labels, size_t *count, struct provider_reply *reply)
{
    *count = 0;
    if (!ids || ids->type == JSON_NULL)
        return true;
    if (!json_is(ids, JSON_ARRAY) || ids->count > 100) {
        gmail_error(reply, 400, "invalidArgument", "INVALID_ARGUMENT",
                    "Invalid value at 'label_ids'");
        return false;
    }
    for (uint32_t i = 0; i < ids->count; i++) {
        slice id = json_str(json_at(ids, i));
        struct gmail_label *label = gmail_label_find(request->gmail, id);
        /* Gmail puts these on itself, only. */
        if (!label || label->number == GMAIL_SENT || label->number == GMAIL_DRAFT) {
            gmail_error(reply, 400, "invalidArgument", "INVALID_ARGUMENT",
                        label ? "Invalid label: %.*s" : "labelId not found: %.*s", SLICE_ARG(id));
            return false;
        }
        labels[(*count)++] = label;
    }
    return true;
}

bool gmail_modify(struct gmail_request *request, struct gmail_message *const *messages,
                  size_t message_count, struct provider_reply *reply)
{
    struct gmail_label *add[100], *remove[100];
    size_t add_count, remove_count;
    if (!gmail_read_labels(request, JSON_GET(request->json, "addLabelIds"), add, &add_count,
                           reply) ||
        !gmail_read_labels(request, JSON_GET(request->json, "removeLabelIds"), remove,
                           &remove_count, reply))
        return false;
    if (!add_count && !remove_count) {
        gmail_error(reply, 400, "invalidArgument", "INVALID_ARGUMENT",
                    "No label add or removes specified");
        return false;
    }
    for (size_t i = 0; i < message_count; i++) {
        bool is_changed = false;
        for (size_t k = 0; k < remove_count; k++)
            is_changed |= gmail_label_remove(request->gmail, messages[i], remove[k]);
        for (size_t k = 0; k < add_count; k++)
            is_changed |= gmail_label_add(request->gmail, messages[i], add[k]);
        if (is_changed)
            gmail_touch(request->gmail, messages[i]);
    }
    return true;
}

void gmail_messages_modify(struct gmail_request *request, struct provider_reply *reply)
{
    struct gmail_message *message = find(request, request->id, reply);
    if (!message || !gmail_modify(request, &message, 1, reply))
        return;
    record(request, "gmail.messages.modify", message);
    reply_brief(reply, message);
}

/* The messages that the body's `ids` name; NULL: answered. */
static struct gmail_message **read_ids(struct gmail_request *request, size_t *count,
                                       struct provider_reply *reply)
{
    const struct json *ids = JSON_GET(request->json, "ids");
    if (!json_is(ids, JSON_ARRAY) || !ids->count || ids->count > 1000) {
        gmail_error(reply, 400, "invalidArgument", "INVALID_ARGUMENT",
                    "ids must hold 1 to 1000 message ids");
        return NULL;
    }
    struct gmail_message **messages =
        ARENA_ARRAY(request->http->arena, struct gmail_message *, ids->count);
    for (uint32_t i = 0; messages && i < ids->count; i++) {
        messages[i] = find(request, json_str(json_at(ids, i)), reply);
        if (!messages[i])
            return NULL;
    }
    *count = ids->count;
    if (!messages)
        gmail_error_plain(reply, 503);
    return messages;
}

void gmail_messages_batch_modify(struct gmail_request *request, struct provider_reply *reply)
{
    size_t count = 0;
    struct gmail_message **messages = read_ids(request, &count, reply);
    if (!messages || !gmail_modify(request, messages, count, reply))
        return;
    record(request, "gmail.messages.batchModify", messages[0]);
    reply_empty(reply, 204);
}

void gmail_messages_batch_delete(struct gmail_request *request, struct provider_reply *reply)
{
    size_t count = 0;
    struct gmail_message **messages = read_ids(request, &count, reply);
    if (!messages)
        return;
    record(request, "gmail.messages.batchDelete", messages[0]);
    for (size_t i = 0; i < count; i++) {
        slice id = json_str(json_at(JSON_GET(request->json, "ids"), i));
        struct gmail_message *message = gmail_find(request->gmail, id); /* an id may stand twice */
        if (message)
            gmail_delete(request->gmail, message);
    }
    reply_empty(reply, 204);
}

static void trash(struct gmail *gmail, struct gmail_message *message)
{
    gmail_label_remove(gmail, message, gmail->labels[GMAIL_INBOX]);
    gmail_label_remove(gmail, message, gmail->labels[GMAIL_SPAM]);
    gmail_label_add(gmail, message, gmail->labels[GMAIL_TRASH]);
    gmail_touch(gmail, message);
}

static void untrash(struct gmail *gmail, struct gmail_message *message)
{
    gmail_label_remove(gmail, message, gmail->labels[GMAIL_TRASH]);
    gmail_touch(gmail, message);
}

void gmail_messages_trash(struct gmail_request *request, struct provider_reply *reply)
{
    struct gmail_message *message = find(request, request->id, reply);
    if (!message)
        return;
    trash(request->gmail, message);
    record(request, "gmail.messages.trash", message);
    reply_brief(reply, message);
}

void gmail_messages_untrash(struct gmail_request *request, struct provider_reply *reply)
{
    struct gmail_message *message = find(request, request->id, reply);
    if (!message)
        return;
    untrash(request->gmail, message);
    record(request, "gmail.messages.untrash", message);
    reply_brief(reply, message);
}

void gmail_messages_delete(struct gmail_request *request, struct provider_reply *reply)
{
    struct gmail_message *message = find(request, request->id, reply);
    if (!message)
        return;
    record(request, "gmail.messages.delete", message);
    gmail_delete(request->gmail, message);
    reply_empty(reply, 204);
}

static void reply_thread(struct provider_reply *reply, const struct gmail_thread *thread)
{
    struct json_writer w = reply_json(reply, 200);
    json_open(&w, '{');
    json_key(&w, "id");
    json_put_str(&w, slice_of(thread->id_text, GMAIL_ID_TEXT_LEN));
    json_key(&w, "messages");
    json_open(&w, '[');
    for (size_t i = 0; i < thread->order.count; i++)
        gmail_write_brief(&w, thread->order.items[i]);
    json_close(&w, ']');
    json_close(&w, '}');
}

static struct gmail_thread *find_thread(struct gmail_request *request, struct provider_reply *reply)
{
    struct gmail_thread *thread = gmail_find_thread(request->gmail, request->id);
    if (!thread)
        gmail_error_plain(reply, 404);
    return thread;
}

void gmail_threads_modify(struct gmail_request *request, struct provider_reply *reply)
{
    struct gmail_thread *thread = find_thread(request, reply);
    if (!thread || !gmail_modify(request, thread->order.items, thread->order.count, reply))
        return;
    record(request, "gmail.threads.modify", thread->order.items[0]);
    reply_thread(reply, thread);
}

void gmail_threads_trash(struct gmail_request *request, struct provider_reply *reply)
{
    struct gmail_thread *thread = find_thread(request, reply);
    for (size_t i = 0; thread && i < thread->order.count; i++)
        trash(request->gmail, thread->order.items[i]);
    if (!thread)
        return;
    record(request, "gmail.threads.trash", thread->order.items[0]);
    reply_thread(reply, thread);
}

void gmail_threads_untrash(struct gmail_request *request, struct provider_reply *reply)
{
    struct gmail_thread *thread = find_thread(request, reply);
    for (size_t i = 0; thread && i < thread->order.count; i++)
        untrash(request->gmail, thread->order.items[i]);
    if (!thread)
        return;
    record(request, "gmail.threads.untrash", thread->order.items[0]);
    reply_thread(reply, thread);
}

void gmail_threads_delete(struct gmail_request *request, struct provider_reply *reply)
{
    struct gmail_thread *thread = find_thread(request, reply);
    if (!thread)
        return;
    record(request, "gmail.threads.delete", thread->order.items[0]);
    for (size_t left = thread->order.count; left > 0; left--)
        gmail_delete(request->gmail, thread->order.items[left - 1]);
    reply_empty(reply, 204);
}

void gmail_attachments_get(struct gmail_request *request, struct provider_reply *reply)
{
    const struct gmail_message *message = find(request, request->id, reply);
    if (!message)
        return;
    const struct mime_part *part = gmail_attachment(message, request->id2);
    if (!part) {
        gmail_error(reply, 400, "invalidArgument", "INVALID_ARGUMENT", "Invalid attachment token");
        return;
    }
    struct json_writer w = reply_json(reply, 200);
    json_open(&w, '{');
    json_key(&w, "size");
    json_put_i64(&w, (int64_t)part->body.len);
    json_key(&w, "data");
    gmail_write_data(&w, part->body);
    json_close(&w, '}');
}
