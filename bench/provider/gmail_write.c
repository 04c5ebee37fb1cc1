/*
 * Gmail's JSON shapes (Gmail API reference: Message, MessagePart, Label).
 */
#include "base/encode.h"
#include "provider/gmail.h"

void gmail_write_u64(struct json_writer *w, const char *key, uint64_t value)
{
    char room[SLICE_U64_MAX];
    json_member_str(w, key, slice_of_u64(value, room));
}

static void write_labels(struct json_writer *w, const struct gmail_message *message)
{
    if (!message->label_count)
        return;
    json_member_open(w, "labelIds", '[');
    for (unsigned i = 0; i < message->label_count; i++)
        json_put_str(w, message->labels[i]->id);
    json_close(w, ']');
}

static void write_ids(struct json_writer *w, const struct gmail_message *message)
{
    json_member_str(w, "id", slice_of(message->id_text, GMAIL_ID_TEXT_LEN));
    json_member_str(w, "threadId", slice_of(message->thread->id_text, GMAIL_ID_TEXT_LEN));
}

void gmail_write_brief(struct json_writer *w, const struct gmail_message *message, bool with_labels)
{
    json_open(w, '{');
    write_ids(w, message);
    if (with_labels)
        write_labels(w, message);
    json_close(w, '}');
}

/* Of the metadataHeaders of the query; none: all. */
static bool is_wanted(slice name, const struct provider_request *http)
{
    bool is_any = false;
    for (size_t i = 0; http && i < http->query_count; i++) {
        if (!slice_eq(http->query[i].name, SLICE("metadataHeaders")))
            continue;
        is_any = true;
        if (slice_eq_nocase(http->query[i].value, name))
            return true;
    }
    return !is_any;
}

static void write_headers(struct json_writer *w, const struct mime_part *part,
                          const struct provider_request *http)
{
    json_member_open(w, "headers", '[');
    for (size_t i = 0; i < part->header_count; i++) {
        if (!is_wanted(part->headers[i].name, http))
            continue;
        json_open(w, '{');
        json_member_str(w, "name", part->headers[i].name);
        json_member_str(w, "value", part->headers[i].value);
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
    json_member_open(w, "body", '{');
    if (mime_is_attachment(part))
        write_attachment_id(w, message, part);
    json_member_i64(w, "size", (int64_t)part->body.len);
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
    json_member_str(w, "partId", part->part_id);
    json_member_str(w, "mimeType", part->mime_type);
    json_member_str(w, "filename", part->filename);
    write_headers(w, part, NULL);
    write_body(w, message, part);
    if (part->part_count) {
        json_member_open(w, "parts", '[');
        for (size_t i = 0; i < part->part_count; i++)
            write_part(w, message, &part->parts[i]);
        json_close(w, ']');
    }
    json_close(w, '}');
}

static void write_metadata(struct json_writer *w, const struct gmail_message *message,
                           const struct provider_request *http)
{
    json_open(w, '{');
    json_member_str(w, "mimeType", message->payload.mime_type);
    write_headers(w, &message->payload, http);
    json_close(w, '}');
}

void gmail_write_message(struct json_writer *w, const struct gmail_message *message,
                         enum gmail_format format, const struct provider_request *http)
{
    json_open(w, '{');
    write_ids(w, message);
    write_labels(w, message);
    json_member_str(w, "snippet", message->snippet);
    if (format == GMAIL_FULL || format == GMAIL_METADATA)
        json_key(w, "payload");
    if (format == GMAIL_FULL)
        write_part(w, message, &message->payload);
    else if (format == GMAIL_METADATA)
        write_metadata(w, message, http);
    json_member_i64(w, "sizeEstimate", (int64_t)message->size);
    if (format == GMAIL_RAW) {
        json_key(w, "raw");
        gmail_write_data(w, message->raw);
    }
    gmail_write_u64(w, "historyId", message->history_id);
    gmail_write_u64(w, "internalDate", (uint64_t)message->time_ms);
    json_close(w, '}');
}
