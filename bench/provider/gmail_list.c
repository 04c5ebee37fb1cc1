/*
 * Lists and searches: messages, threads, drafts. Newest first; a page token is the position of
 * the last message listed, so that the next page is found by bisection, and new mail does not shift
 * it.
 */
#include "provider/gmail.h"

enum {
    PAGE_MAX = 500,
    PAGE_DEFAULT = 100,
    ESTIMATE_MAX = 201, /* Gmail stops counting there, too */
};

struct listing {
    const struct gmail_order *order;
    const struct gmail_query *query;
    const struct gmail_label *labels[GMAIL_MESSAGE_LABELS_MAX];
    size_t label_count;
    bool shows_hidden;
    size_t max;
    size_t start; /* items[0 .. start) are still to be scanned, from the end */
};

static bool bad_argument(struct provider_reply *reply, const char *text)
{
    gmail_error(reply, 400, "invalidArgument", "INVALID_ARGUMENT", "%s", text);
    return false;
}

static bool read_max(const struct provider_request *http, size_t *max, struct provider_reply *reply)
{
    slice text = request_query(http, SLICE("maxResults"));
    uint64_t value = PAGE_DEFAULT;
    if (text.ptr && !slice_to_u64(text, UINT32_MAX, &value)) {
        gmail_error(reply, 400, "invalidArgument", "INVALID_ARGUMENT",
                    "Invalid value at 'max_results' (TYPE_UINT32), \"%.*s\"", SLICE_ARG(text));
        return false;
    }
    *max = value == 0 ? PAGE_DEFAULT : value < PAGE_MAX ? value : PAGE_MAX;
    return true;
}

/* labelIds=INBOX&labelIds=UNREAD: all of them. An unknown id matches nothing: 400 as Gmail. */
static bool read_labels(const struct gmail *gmail, const struct provider_request *http,
                        struct listing *listing, struct provider_reply *reply)
{
    for (size_t i = 0; i < http->query_count; i++) {
        if (!slice_eq(http->query[i].name, SLICE("labelIds")))
            continue;
        const struct gmail_label *label = gmail_label_find(gmail, http->query[i].value);
        if (!label || listing->label_count == GMAIL_MESSAGE_LABELS_MAX) {
            gmail_error(reply, 400, "invalidArgument", "INVALID_ARGUMENT", "Invalid label: %.*s",
                        SLICE_ARG(http->query[i].value));
            return false;
        }
        listing->labels[listing->label_count++] = label;
        if (label->number == GMAIL_TRASH || label->number == GMAIL_SPAM)
            listing->shows_hidden = true;
        if (!listing->order || label->order.count < listing->order->count)
            listing->order = &label->order;
    }
    return true;
}

/* Tokens are decimal like Google's: the message's time and the low bits of its id. */
static bool read_token(const struct provider_request *http, struct listing *listing,
                       struct provider_reply *reply)
{
    slice text = request_query(http, SLICE("pageToken"));
    listing->start = listing->order->count;
    if (!text.len)
        return true;
    slice rest = text;
    uint64_t time_ms, id;
    slice first = slice_split(&rest, '.');
    if (!slice_to_u64(first, INT64_MAX, &time_ms) || !slice_to_u64(rest, UINT64_MAX, &id))
        return bad_argument(reply, "Invalid pageToken");
    listing->start = gmail_order_rank(listing->order, (int64_t)time_ms, id);
    return true;
}

static void write_token(struct json_writer *w, const struct gmail_message *last)
{
    ASSERT(last);
    struct buf text;
    buf_init(&text, 64);
    buf_printf(&text, "%lld.%llu", (long long)last->time_ms, (unsigned long long)last->id);
    json_key(w, "nextPageToken");
    json_put_str(w, buf_slice(&text));
    buf_deinit(&text);
}

static bool listing_init(struct gmail_request *request, struct listing *listing,
                         struct provider_reply *reply)
{
    const struct provider_request *http = request->http;
    bool includes_hidden = false;
    slice flag = request_query(http, SLICE("includeSpamTrash"));
    if (flag.len && !slice_to_bool(flag, &includes_hidden))
        return bad_argument(reply, "Invalid value at 'include_spam_trash' (TYPE_BOOL)");
    listing->shows_hidden = includes_hidden;
    listing->query = gmail_query_parse(request->gmail, http->arena, request_query(http, SLICE("q")),
                                       http->now_us);
    if (!listing->query) {
        gmail_error_plain(reply, 503);
        return false;
    }
    listing->shows_hidden |= gmail_query_wants_hidden(listing->query);
    if (!read_max(http, &listing->max, reply) || !read_labels(request->gmail, http, listing, reply))
        return false;
    const struct gmail_order *order = gmail_query_order(request->gmail, listing->query);
    if (!listing->order || order->count < listing->order->count)
        listing->order = order;
    return read_token(http, listing, reply);
}

static bool is_listed(const struct listing *listing, const struct gmail_message *message)
{
    if (!listing->shows_hidden &&
        (gmail_has(message, GMAIL_TRASH) || gmail_has(message, GMAIL_SPAM)))
        return false;
    for (size_t i = 0; i < listing->label_count; i++) {
        bool has = false;
        for (unsigned l = 0; l < message->label_count && !has; l++)
            has = message->labels[l] == listing->labels[i];
        if (!has)
            return false;
    }
    return gmail_query_matches(listing->query, message);
}

/* A thread is listed at the position of its newest listed message. */
static bool is_thread_head(const struct listing *listing, const struct gmail_message *message)
{
    const struct gmail_order *thread = &message->thread->order;
    for (size_t i = thread->count; i-- > 0 && thread->items[i] != message;)
        if (is_listed(listing, thread->items[i]))
            return false;
    return true;
}

static void write_item(struct json_writer *w, const struct gmail_message *message, bool is_thread)
{
    json_open(w, '{');
    json_key(w, "id");
    json_put_str(
        w, slice_of(is_thread ? message->thread->id_text : message->id_text, GMAIL_ID_TEXT_LEN));
    if (is_thread) {
        const struct gmail_order *thread = &message->thread->order;
        struct buf text;
        buf_init(&text, 32);
        buf_append_u64(&text, thread->items[thread->count - 1]->history_id);
        json_key(w, "snippet");
        json_put_str(w, thread->items[thread->count - 1]->snippet);
        json_key(w, "historyId");
        json_put_str(w, buf_slice(&text));
        buf_deinit(&text);
    } else {
        json_key(w, "threadId");
        json_put_str(w, slice_of(message->thread->id_text, GMAIL_ID_TEXT_LEN));
    }
    json_close(w, '}');
}

static void list(struct gmail_request *request, struct provider_reply *reply, bool is_thread)
{
    struct listing listing = {0};
    if (!listing_init(request, &listing, reply))
        return;
    struct json_writer w = reply_json(reply, 200);
    const struct gmail_message *last = NULL;
    size_t listed = 0, more = 0;
    json_open(&w, '{');
    /* Past the page it is only counted, and only as far as the estimate goes. */
    for (size_t i = listing.start; i-- > 0 && !(more && listed + more >= ESTIMATE_MAX);) {
        const struct gmail_message *message = listing.order->items[i];
        if (!is_listed(&listing, message) || (is_thread && !is_thread_head(&listing, message)))
            continue;
        if (listed == listing.max) {
            more++;
            continue;
        }
        if (!listed++) {
            json_key(&w, is_thread ? "threads" : "messages");
            json_open(&w, '[');
        }
        write_item(&w, message, is_thread);
        last = message;
    }
    if (listed)
        json_close(&w, ']');
    if (more)
        write_token(&w, last);
    json_key(&w, "resultSizeEstimate");
    json_put_i64(&w, (int64_t)(listed + more < ESTIMATE_MAX ? listed + more : ESTIMATE_MAX));
    json_close(&w, '}');
}

void gmail_messages_list(struct gmail_request *request, struct provider_reply *reply)
{
    list(request, reply, false);
}

void gmail_threads_list(struct gmail_request *request, struct provider_reply *reply)
{
    list(request, reply, true);
}

static void write_draft(struct json_writer *w, const struct gmail_draft *draft)
{
    json_open(w, '{');
    json_key(w, "id");
    json_put_str(w, slice_cstr(draft->id));
    json_key(w, "message");
    json_open(w, '{');
    json_key(w, "id");
    json_put_str(w, slice_of(draft->message->id_text, GMAIL_ID_TEXT_LEN));
    json_key(w, "threadId");
    json_put_str(w, slice_of(draft->message->thread->id_text, GMAIL_ID_TEXT_LEN));
    json_close(w, '}');
    json_close(w, '}');
}

void gmail_drafts_list(struct gmail_request *request, struct provider_reply *reply)
{
    struct gmail *gmail = request->gmail;
    struct listing listing = {.shows_hidden = true};
    uint64_t skip = 0;
    slice token = request_query(request->http, SLICE("pageToken"));
    if (!read_max(request->http, &listing.max, reply))
        return;
    if (token.len && !slice_to_u64(token, SIZE_MAX / 2, &skip)) {
        bad_argument(reply, "Invalid pageToken");
        return;
    }
    listing.query = gmail_query_parse(gmail, request->http->arena,
                                      request_query(request->http, SLICE("q")),
                                      request->http->now_us);
    if (!listing.query) {
        gmail_error_plain(reply, 503);
        return;
    }
    struct json_writer w = reply_json(reply, 200);
    size_t matches = 0, listed = 0;
    json_open(&w, '{');
    for (size_t i = gmail->draft_count; i-- > 0;) {
        if (!is_listed(&listing, gmail->drafts[i]->message) || matches++ < skip ||
            listed == listing.max)
            continue;
        if (!listed++) {
            json_key(&w, "drafts");
            json_open(&w, '[');
        }
        write_draft(&w, gmail->drafts[i]);
    }
    if (listed)
        json_close(&w, ']');
    if (matches > skip + listed) {
        json_key(&w, "nextPageToken");
        struct buf text;
        buf_init(&text, 32);
        buf_append_u64(&text, skip + listed);
        json_put_str(&w, buf_slice(&text));
        buf_deinit(&text);
    }
    json_key(&w, "resultSizeEstimate");
    json_put_i64(&w, (int64_t)matches);
    json_close(&w, '}');
}
