/*
 * Messages, drafts and threads as Gmail's JSON, and what is done to them: to one, a thread's or a
 * batch's. users.history.list: which messages changed since a historyId, without how.
 */
#include "provider/gmail.h"

void gmail_write_u64(struct json_writer *w, const char *key, uint64_t value)
{
    char room[SLICE_U64_MAX];
    json_member_str(w, key, slice_of_u64(value, room));
}

static void write_ids(struct json_writer *w, const struct gmail_message *message, bool with_labels)
{
    json_member_str(w, "id", slice_cstr(message->id_text));
    json_member_str(w, "threadId", slice_cstr(message->thread->id_text));
    if (!with_labels || !message->label_count)
        return;
    json_member_open(w, "labelIds", '[');
    for (unsigned i = 0; i < message->label_count; i++)
        json_put_str(w, message->labels[i]->id);
    json_close(w, ']');
}

void gmail_write_brief(struct json_writer *w, const struct gmail_message *message, bool with_labels)
{
    json_open(w, '{');
    write_ids(w, message, with_labels);
    json_close(w, '}');
}

static void write_metadata(struct json_writer *w, const struct mime_part *payload,
                           const struct provider_request *http)
{
    json_member_open(w, "payload", '{');
    json_member_str(w, "mimeType", payload->type);
    json_member_open(w, "headers", '[');
    for (uint32_t i = 0; i < payload->headers.count; i++) {
        const struct json *header = json_at(&payload->headers, i);
        if (provider_wants(http, SLICE("metadataHeaders"), json_get_str(header, SLICE("name"))))
            json_put(w, header);
    }
    json_close(w, ']');
    json_close(w, '}');
}

static void write_message(struct json_writer *w, const struct gmail_message *message,
                          enum gmail_format format, const struct provider_request *http)
{
    if (format == GMAIL_BRIEF) {
        gmail_write_brief(w, message, true);
        return;
    }
    json_open(w, '{');
    write_ids(w, message, true);
    json_member_str(w, "snippet", message->snippet);
    if (format == GMAIL_FULL)
        json_member(w, "payload", &message->payload.json);
    else if (format == GMAIL_METADATA)
        write_metadata(w, &message->payload, http);
    json_member_i64(w, "sizeEstimate", (int64_t)message->size);
    if (format == GMAIL_RAW)
        json_member_str(w, "raw", mime_base64url(http->arena, message->raw));
    gmail_write_u64(w, "historyId", message->history_id);
    gmail_write_u64(w, "internalDate", (uint64_t)message->time_ms);
    json_close(w, '}');
}

bool gmail_reply_target(struct gmail_request *request, enum gmail_format format)
{
    const struct gmail_thread *thread = request->thread;
    struct json_writer w = reply_json(request->reply, 200);
    if (request->target == GMAIL_MESSAGE) {
        write_message(&w, request->message, format, request->http);
        return true;
    }
    json_open(&w, '{');
    json_member_str(&w, "id", slice_cstr(thread ? thread->id_text : request->message->draft_id));
    if (thread) {
        gmail_write_u64(&w, "historyId", thread->order.items[thread->order.count - 1]->history_id);
        json_member_open(&w, "messages", '[');
        for (size_t i = 0; i < thread->order.count; i++)
            write_message(&w, thread->order.items[i], format, request->http);
        json_close(&w, ']');
    } else {
        json_key(&w, "message");
        write_message(&w, request->message, format, request->http);
    }
    json_close(&w, '}');
    return true;
}

bool gmail_reply_message(struct gmail_request *request, struct gmail_message *message,
                         enum gmail_target target)
{
    bool is_draft = target == GMAIL_A_DRAFT;
    request->message = message;
    request->target = target;
    gmail_record(request, slice_cstr(is_draft ? message->draft_id : message->id_text),
                 mime_header(&message->payload, "Subject"));
    return gmail_reply_target(request, GMAIL_BRIEF);
}

bool gmail_get(struct gmail_request *request)
{
    static const char *const names[] = {"full", "metadata", "minimal", "raw"};
    slice text = request_query(request->http, SLICE("format"));
    for (size_t i = 0; i < ARRAY_LEN(names); i++)
        if (!text.len || slice_eq_nocase(text, slice_cstr(names[i])))
            return gmail_reply_target(request, (enum gmail_format)i);
    return gmail_bad(request,
                     "Invalid value at 'format' (type.googleapis.com/"
                     "google.gmail.v1.MessageFormat), \"%.*s\"",
                     SLICE_ARG(text));
}

bool gmail_attachments_get(struct gmail_request *request)
{
    const struct mime_part *part = &request->message->payload;
    while (part && (!part->attachment_id.len || !slice_eq(part->attachment_id, request->id2)))
        part = part->next;
    if (!part)
        return gmail_bad(request, "Invalid attachment token");
    struct json out = OBJECT(request->arena, "size data", json_u64(part->body.len),
                             json_string(mime_base64url(request->arena, part->body)));
    return gmail_reply(request, &out);
}

bool gmail_history_list(struct gmail_request *request)
{
    const struct gmail *gmail = request->gmail;
    uint64_t since;
    if (!slice_to_u64(request_query(request->http, SLICE("startHistoryId")), UINT64_MAX, &since))
        return gmail_bad(request, "Invalid startHistoryId");
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
    return true;
}

/* ---- changes ---- */

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

static bool change(struct gmail_request *request, struct gmail_label *const *add, size_t add_count,
                   struct gmail_label *const *remove, size_t remove_count)
{
    const struct gmail_message *first = request->messages[0];
    slice subject = mime_header(&first->payload, "Subject");
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
    if (request->target == GMAIL_MESSAGES)
        return gmail_removed(request, slice_cstr(first->id_text), subject);
    gmail_record(request, slice_cstr(first->id_text), subject);
    return gmail_reply_target(request, GMAIL_BRIEF);
}

bool gmail_modify(struct gmail_request *request)
{
    struct gmail_label *add[GMAIL_MESSAGE_LABELS_MAX], *remove[GMAIL_MESSAGE_LABELS_MAX];
    size_t add_count, remove_count;
    if (!read_labels(request, "addLabelIds", add, &add_count) ||
        !read_labels(request, "removeLabelIds", remove, &remove_count))
        return false;
    return add_count || remove_count ? change(request, add, add_count, remove, remove_count)
                                     : gmail_bad(request, "No label add or removes specified");
}

bool gmail_trash(struct gmail_request *request)
{
    struct gmail_label *const *labels = request->gmail->labels;
    struct gmail_label *const remove[] = {labels[GMAIL_INBOX], labels[GMAIL_SPAM]};
    return change(request, &labels[GMAIL_TRASH], 1, remove, ARRAY_LEN(remove));
}

bool gmail_untrash(struct gmail_request *request)
{
    return change(request, NULL, 0, &request->gmail->labels[GMAIL_TRASH], 1);
}

bool gmail_remove(struct gmail_request *request)
{
    const struct json *ids = JSON_GET(request->json, "ids");
    const struct gmail_message *first = request->message;
    bool is_draft = request->target == GMAIL_A_DRAFT;
    gmail_removed(request, slice_cstr(is_draft ? first->draft_id : first->id_text),
                  mime_header(&first->payload, "Subject"));
    for (size_t i = request->message_count; i > 0; i--) {
        struct gmail_message *message = request->messages[i - 1];
        if (request->target == GMAIL_MESSAGES) /* an id may stand twice */
            message = gmail_find(request->gmail, json_str(json_at(ids, i - 1)));
        if (message)
            gmail_delete(request->gmail, message);
    }
    return true;
}
