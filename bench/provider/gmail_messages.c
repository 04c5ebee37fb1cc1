/*
 * What is done to messages: one, a thread's or a batch's. users.history.list: which messages
 * changed since a historyId, without how.
 */
#include "provider/gmail.h"

bool gmail_read_format(struct gmail_request *request, enum gmail_format *format)
{
    static const char *const names[] = {"full", "metadata", "minimal", "raw"};
    slice text = request_query(request->http, SLICE("format"));
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        *format = (enum gmail_format)i;
        if (!text.len || slice_eq_nocase(text, slice_cstr(names[i])))
            return true;
    }
    return gmail_bad(request,
                     "Invalid value at 'format' (type.googleapis.com/"
                     "google.gmail.v1.MessageFormat), \"%.*s\"",
                     SLICE_ARG(text));
}

void gmail_get(struct gmail_request *request)
{
    enum gmail_format format;
    const struct gmail_thread *thread = request->thread;
    if (!gmail_read_format(request, &format))
        return;
    struct json_writer w = reply_json(request->reply, 200);
    if (request->target == GMAIL_MESSAGE) {
        gmail_write_message(&w, request->message, format, request->http);
        return;
    }
    json_open(&w, '{');
    if (thread) {
        json_member_str(&w, "id", slice_of(thread->id_text, GMAIL_ID_TEXT_LEN));
        gmail_write_u64(&w, "historyId", thread->order.items[thread->order.count - 1]->history_id);
        json_member_open(&w, "messages", '[');
        for (size_t i = 0; i < thread->order.count; i++)
            gmail_write_message(&w, thread->order.items[i], format, request->http);
        json_close(&w, ']');
    } else {
        json_member_str(&w, "id", slice_cstr(request->message->draft_id));
        json_key(&w, "message");
        gmail_write_message(&w, request->message, format, request->http);
    }
    json_close(&w, '}');
}

/* A change was made. */
static void finish(struct gmail_request *request)
{
    const struct gmail_thread *thread = request->thread;
    gmail_record_message(request, request->message);
    if (request->target == GMAIL_MESSAGES) {
        reply_empty(request->reply, 204);
        return;
    }
    struct json_writer w = reply_json(request->reply, 200);
    if (!thread) {
        gmail_write_brief(&w, request->message, true);
        return;
    }
    json_open(&w, '{');
    json_member_str(&w, "id", slice_of(thread->id_text, GMAIL_ID_TEXT_LEN));
    json_member_open(&w, "messages", '[');
    for (size_t i = 0; i < thread->order.count; i++)
        gmail_write_brief(&w, thread->order.items[i], true);
    json_close(&w, ']');
    json_close(&w, '}');
}

static bool read_labels(struct gmail_request *request, const char *key,
                        struct gmail_label *labels[GMAIL_MESSAGE_LABELS_MAX], size_t *count)
{
    const struct json *ids = json_get(request->json, slice_cstr(key));
    *count = 0;
    if (!ids || ids->type == JSON_NULL)
        return true;
    if (!json_is(ids, JSON_ARRAY) || ids->count > GMAIL_MESSAGE_LABELS_MAX)
        return gmail_bad(request, "Invalid value at 'label_ids'");
    for (uint32_t i = 0; i < ids->count; i++) {
        slice id = json_str(json_at(ids, i));
        struct gmail_label *label = gmail_label_find(request->gmail, id);
        /* Gmail puts these on itself, only. */
        if (!label || label->number == GMAIL_SENT || label->number == GMAIL_DRAFT)
            return gmail_bad(request, label ? "Invalid label: %.*s" : "labelId not found: %.*s",
                             SLICE_ARG(id));
        labels[(*count)++] = label;
    }
    return true;
}

static void change(struct gmail_request *request, struct gmail_label *const *add, size_t add_count,
                   struct gmail_label *const *remove, size_t remove_count)
{
    for (size_t i = 0; i < request->message_count; i++) {
        struct gmail_message *message = request->messages[i];
        bool is_changed = false;
        for (size_t k = 0; k < remove_count; k++)
            is_changed |= gmail_label_remove(message, remove[k]);
        for (size_t k = 0; k < add_count; k++)
            is_changed |= gmail_label_add(message, add[k]);
        if (is_changed)
            gmail_touch(request->gmail, message);
    }
    finish(request);
}

void gmail_modify(struct gmail_request *request)
{
    struct gmail_label *add[GMAIL_MESSAGE_LABELS_MAX], *remove[GMAIL_MESSAGE_LABELS_MAX];
    size_t add_count, remove_count;
    if (!read_labels(request, "addLabelIds", add, &add_count) ||
        !read_labels(request, "removeLabelIds", remove, &remove_count))
        return;
    if (add_count || remove_count)
        change(request, add, add_count, remove, remove_count);
    else
        gmail_bad(request, "No label add or removes specified");
}

void gmail_trash(struct gmail_request *request)
{
    struct gmail_label *const *labels = request->gmail->labels;
    struct gmail_label *const remove[] = {labels[GMAIL_INBOX], labels[GMAIL_SPAM]};
    change(request, &labels[GMAIL_TRASH], 1, remove, ARRAY_LEN(remove));
}

void gmail_untrash(struct gmail_request *request)
{
    change(request, NULL, 0, &request->gmail->labels[GMAIL_TRASH], 1);
}

void gmail_remove(struct gmail_request *request)
{
    const struct json *ids = JSON_GET(request->json, "ids");
    if (request->target == GMAIL_A_DRAFT)
        gmail_record(request, slice_cstr(request->message->draft_id),
                     mime_header(&request->message->payload, "Subject"));
    else
        gmail_record_message(request, request->message);
    for (size_t i = request->message_count; i > 0; i--) {
        struct gmail_message *message = request->messages[i - 1];
        if (request->target == GMAIL_MESSAGES) /* an id may stand twice */
            message = gmail_find(request->gmail, json_str(json_at(ids, i - 1)));
        if (message)
            gmail_delete(request->gmail, message);
    }
    reply_empty(request->reply, 204);
}

void gmail_attachments_get(struct gmail_request *request)
{
    const struct mime_part *part = gmail_attachment(request->message, request->id2);
    if (!part) {
        gmail_bad(request, "Invalid attachment token");
        return;
    }
    struct json_writer w = reply_json(request->reply, 200);
    json_open(&w, '{');
    json_member_i64(&w, "size", (int64_t)part->body.len);
    json_key(&w, "data");
    gmail_write_data(&w, part->body);
    json_close(&w, '}');
}

void gmail_history_list(struct gmail_request *request)
{
    const struct gmail *gmail = request->gmail;
    uint64_t since;
    if (!slice_to_u64(request_query(request->http, SLICE("startHistoryId")), UINT64_MAX, &since)) {
        gmail_bad(request, "Invalid startHistoryId");
        return;
    }
    struct json_writer w = reply_json(request->reply, 200);
    json_open(&w, '{');
    json_member_open(&w, "history", '[');
    for (size_t i = 0; i < gmail->all.count; i++) {
        const struct gmail_message *message = gmail->all.items[i];
        if (message->history_id <= since)
            continue;
        json_open(&w, '{');
        gmail_write_u64(&w, "id", message->history_id);
        json_member_open(&w, "messages", '[');
        gmail_write_brief(&w, message, true);
        json_close(&w, ']');
        json_close(&w, '}');
    }
    json_close(&w, ']');
    gmail_write_u64(&w, "historyId", gmail->history_id);
    json_close(&w, '}');
}
