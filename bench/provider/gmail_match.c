/*
 * Whether a message matches a search, and which list of messages has to be scanned.
 */
#include "provider/gmail_query.h"

static bool is_word_byte(unsigned char c)
{
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c >= 0x80;
}

slice gmail_words_of(struct arena *arena, slice text)
{
    char *out = arena_alloc_text(arena, text.len + 2);
    if (!out)
        return SLICE(" ");
    size_t len = 0;
    out[len++] = ' ';
    for (size_t i = 0; i < text.len; i++) {
        unsigned char c = (unsigned char)text.ptr[i];
        if (c >= 'A' && c <= 'Z')
            c = (unsigned char)(c + 32);
        if (is_word_byte(c))
            out[len++] = (char)c;
        else if (out[len - 1] != ' ')
            out[len++] = ' ';
    }
    if (out[len - 1] != ' ')
        out[len++] = ' ';
    return slice_of(out, len);
}

static bool holds(slice words, slice wanted)
{
    return memmem(words.ptr, words.len, wanted.ptr, wanted.len) != NULL;
}

static bool matches_words(const struct gmail_query *query, const struct gmail_words *words)
{
    switch (query->field) {
    case GMAIL_FIELD_ALL:
        return holds(words->all, query->words);
    case GMAIL_FIELD_FROM:
        return holds(words->from, query->words);
    case GMAIL_FIELD_TO:
        return holds(words->to, query->words) || holds(words->cc, query->words) ||
               holds(words->bcc, query->words);
    case GMAIL_FIELD_CC:
        return holds(words->cc, query->words);
    case GMAIL_FIELD_BCC:
        return holds(words->bcc, query->words);
    case GMAIL_FIELD_SUBJECT:
        return holds(words->subject, query->words);
    case GMAIL_FIELD_FILENAME:
        return holds(words->filenames, query->words);
    }
    return false;
}

static bool has_label(const struct gmail_message *message, const struct gmail_label *label)
{
    if (label->number < GMAIL_SYSTEM_LABELS)
        return message->flags >> label->number & 1;
    for (unsigned i = 0; i < message->label_count; i++)
        if (message->labels[i] == label)
            return true;
    return false;
}

static bool has_user_label(const struct gmail_message *message)
{
    for (unsigned i = 0; i < message->label_count; i++)
        if (message->labels[i]->is_user)
            return true;
    return false;
}

static bool matches_id(slice message_id, slice wanted)
{
    if (message_id.len > 1 && message_id.ptr[0] == '<')
        message_id = slice_of(message_id.ptr + 1, message_id.len - 2);
    return slice_eq(message_id, wanted);
}

static bool matches_any(const struct gmail_query *first, const struct gmail_message *message)
{
    for (const struct gmail_query *child = first; child; child = child->next)
        if (gmail_query_matches(child, message))
            return true;
    return false;
}

static bool matches_all(const struct gmail_query *first, const struct gmail_message *message)
{
    for (const struct gmail_query *child = first; child; child = child->next)
        if (!gmail_query_matches(child, message))
            return false;
    return true;
}

bool gmail_query_matches(const struct gmail_query *query, const struct gmail_message *message)
{
    switch (query->kind) {
    case GMAIL_QUERY_ALL:
        return true;
    case GMAIL_QUERY_NONE:
        return false;
    case GMAIL_QUERY_ALL_OF:
        return matches_all(query->first, message);
    case GMAIL_QUERY_ANY_OF:
        return !query->first || matches_any(query->first, message);
    case GMAIL_QUERY_NOT:
        return !gmail_query_matches(query->first, message);
    case GMAIL_QUERY_WORDS:
        return matches_words(query, &message->words);
    case GMAIL_QUERY_LABEL:
        return has_label(message, query->label);
    case GMAIL_QUERY_ATTACHMENT:
        return message->has_attachment;
    case GMAIL_QUERY_USER_LABELS:
        return has_user_label(message);
    case GMAIL_QUERY_SINCE:
        return message->time_ms >= query->number;
    case GMAIL_QUERY_UNTIL:
        return message->time_ms < query->number;
    case GMAIL_QUERY_LARGER:
        return message->size > (uint64_t)query->number;
    case GMAIL_QUERY_SMALLER:
        return message->size < (uint64_t)query->number;
    case GMAIL_QUERY_MESSAGE_ID:
        return matches_id(message->message_id, query->words);
    }
    return false;
}

bool gmail_query_wants_hidden(const struct gmail_query *query)
{
    return query->wants_hidden;
}

const struct gmail_order *gmail_query_order(const struct gmail *gmail,
                                            const struct gmail_query *query)
{
    const struct gmail_order *best = &gmail->all;
    if (query->kind == GMAIL_QUERY_LABEL)
        return &query->label->order;
    if (query->kind != GMAIL_QUERY_ALL_OF)
        return best;
    for (const struct gmail_query *child = query->first; child; child = child->next) {
        const struct gmail_order *order = gmail_query_order(gmail, child);
        if (order->count < best->count)
            best = order;
    }
    return best;
}
