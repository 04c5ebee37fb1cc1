/*
 * Gmail's JSON shapes (Gmail API reference: Message, MessagePart, Label).
 */
#include "base/encode.h"
#include "provider/gmail.h"

static void write_u64_text(struct json_writer *w, const char *key, uint64_t value)
{
    struct buf text;
    buf_init(&text, 32);
    buf_append_u64(&text, value);
    json_key(w, key);
    json_put_str(w, buf_slice(&text));
    buf_deinit(&text);
}

static void write_labels(struct json_writer *w, const struct gmail_message *message)
{
    if (!message->label_count)
        return;
    json_key(w, "labelIds");
    json_open(w, '[');
    for (unsigned i = 0; i < message->label_count; i++)
        json_put_str(w, message->labels[i]->id);
    json_close(w, ']');
}

static void write_ids(struct json_writer *w, const struct gmail_message *message)
{
    json_key(w, "id");
    json_put_str(w, slice_of(message->id_text, GMAIL_ID_TEXT_LEN));
    json_key(w, "threadId");
    json_put_str(w, slice_of(message->thread->id_text, GMAIL_ID_TEXT_LEN));
}

void gmail_write_brief(struct json_writer *w, const struct gmail_message *message)
{
    json_open(w, '{');
    write_ids(w, message);
    write_labels(w, message);
    json_close(w, '}');
}

static bool is_wanted(slice name, const struct http_header *wanted, size_t count)
{
    if (!count)
        return true;
    for (size_t i = 0; i < count; i++)
        if (slice_eq_nocase(wanted[i].value, name))
            return true;
    return false;
}

static void write_headers(struct json_writer *w, const struct mime_part *part,
                          const struct http_header *wanted, size_t wanted_count)
{
    json_key(w, "headers");
    json_open(w, '[');
    for (size_t i = 0; i < part->header_count; i++) {
        if (!is_wanted(part->headers[i].name, wanted, wanted_count))
            continue;
        json_open(w, '{');
        json_key(w, "name");
        json_put_str(w, part->headers[i].name);
        json_key(w, "value");
        json_put_str(w, part->headers[i].value);
        json_close(w, '}');
    }
    json_close(w, ']');
}

/* Written in place: base64url needs no escapes. Gmail pads. */
void gmail_write_data(struct json_writer *w, slice bytes)
{
    json_put_raw(w, SLICE("\""));
    encode_base64url(w->out, bytes);
    for (size_t rest = bytes.len % 3; rest && rest < 3; rest++)
        buf_append_char(w->out, '=');
    buf_append_char(w->out, '"');
}

/* Google's ids are opaque; these consist of a prefix, the message's id and the part's. */
static void write_attachment_id(struct json_writer *w, const struct gmail_message *message,
                                const struct mime_part *part)
{
    json_key(w, "attachmentId");
    json_put_raw(w, SLICE("\"ANGjdJ"));
    buf_append(w->out, slice_from(slice_of(message->id_text, GMAIL_ID_TEXT_LEN), 1));
    buf_append_char(w->out, '-');
    buf_append(w->out, part->part_id);
    buf_append_char(w->out, '"');
}

static const struct mime_part *find_part(const struct mime_part *part, slice part_id)
{
    if (slice_eq(part->part_id, part_id))
        return part;
    for (size_t i = 0; i < part->part_count; i++) {
        const struct mime_part *found = find_part(&part->parts[i], part_id);
        if (found)
            return found;
    }
    return NULL;
}

const struct mime_part *gmail_attachment(const struct gmail_message *message, slice id)
{
    slice own = slice_from(slice_of(message->id_text, GMAIL_ID_TEXT_LEN), 1);
    slice rest = slice_from(id, 6);
    if (!slice_starts_with(id, SLICE("ANGjdJ")) || !slice_starts_with(rest, own) ||
        rest.len <= own.len || rest.ptr[own.len] != '-')
        return NULL;
    return find_part(&message->payload, slice_from(rest, own.len + 1));
}

static void write_body(struct json_writer *w, const struct gmail_message *message,
                       const struct mime_part *part)
{
    json_key(w, "body");
    json_open(w, '{');
    if (mime_is_attachment(part))
        write_attachment_id(w, message, part);
    json_key(w, "size");
    json_put_i64(w, (int64_t)part->body.len);
    if (part->body.len && !mime_is_attachment(part)) {
        json_key(w, "data");
        gmail_write_data(w, part->body);
    }
    json_close(w, '}');
}

static void write_part(struct json_writer *w, const struct gmail_message *message,
                       const struct mime_part *part)
{
    json_open(w, '{');
    json_key(w, "partId");
    json_put_str(w, part->part_id);
    json_key(w, "mimeType");
    json_put_str(w, part->mime_type);
    json_key(w, "filename");
    json_put_str(w, part->filename);
    write_headers(w, part, NULL, 0);
    write_body(w, message, part);
    if (part->part_count) {
        json_key(w, "parts");
        json_open(w, '[');
        for (size_t i = 0; i < part->part_count; i++)
            write_part(w, message, &part->parts[i]);
        json_close(w, ']');
    }
    json_close(w, '}');
}

static void write_metadata(struct json_writer *w, const struct gmail_message *message,
                           const struct http_header *wanted, size_t wanted_count)
{
    json_open(w, '{');
    json_key(w, "mimeType");
    json_put_str(w, message->payload.mime_type);
    write_headers(w, &message->payload, wanted, wanted_count);
    json_close(w, '}');
}

void gmail_write_message(struct json_writer *w, const struct gmail_message *message,
                         enum gmail_format format, const struct http_header *wanted,
                         size_t wanted_count)
{
    json_open(w, '{');
    write_ids(w, message);
    write_labels(w, message);
    json_key(w, "snippet");
    json_put_str(w, message->snippet);
    if (format == GMAIL_FULL || format == GMAIL_METADATA)
        json_key(w, "payload");
    if (format == GMAIL_FULL)
        write_part(w, message, &message->payload);
    else if (format == GMAIL_METADATA)
        write_metadata(w, message, wanted, wanted_count);
    json_key(w, "sizeEstimate");
    json_put_i64(w, (int64_t)message->size);
    if (format == GMAIL_RAW) {
        json_key(w, "raw");
        gmail_write_data(w, message->raw);
    }
    write_u64_text(w, "historyId", message->history_id);
    write_u64_text(w, "internalDate", (uint64_t)message->time_ms);
    json_close(w, '}');
}

static void write_counts(struct json_writer *w, struct gmail *gmail,
                         const struct gmail_label *label)
{
    size_t unread = 0, threads = 0, threads_unread = 0;
    uint64_t mark = ++gmail->mark;
    for (size_t i = 0; i < label->order.count; i++) {
        const struct gmail_message *message = label->order.items[i];
        struct gmail_thread *thread = message->thread;
        bool is_unread = gmail_has(message, GMAIL_UNREAD);
        unread += is_unread;
        threads += thread->mark != mark;
        thread->mark = mark;
        threads_unread += is_unread && thread->mark_unread != mark;
        if (is_unread)
            thread->mark_unread = mark;
    }
    json_key(w, "messagesTotal");
    json_put_i64(w, (int64_t)label->order.count);
    json_key(w, "messagesUnread");
    json_put_i64(w, (int64_t)unread);
    json_key(w, "threadsTotal");
    json_put_i64(w, (int64_t)threads);
    json_key(w, "threadsUnread");
    json_put_i64(w, (int64_t)threads_unread);
}

void gmail_write_label(struct json_writer *w, struct gmail *gmail, const struct gmail_label *label,
                       bool with_counts)
{
    json_open(w, '{');
    json_key(w, "id");
    json_put_str(w, label->id);
    json_key(w, "name");
    json_put_str(w, label->name);
    json_key(w, "messageListVisibility");
    json_put_str(w, label->is_hidden_on_messages ? SLICE("hide") : SLICE("show"));
    json_key(w, "labelListVisibility");
    json_put_str(w, label->is_hidden_in_list ? SLICE("labelHide") : SLICE("labelShow"));
    json_key(w, "type");
    json_put_str(w, label->is_user ? SLICE("user") : SLICE("system"));
    if (with_counts)
        write_counts(w, gmail, label);
    json_close(w, '}');
}
