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

static bool read_max(struct gmail_request *request, size_t *max)
{
    slice text = request_query(request->http, SLICE("maxResults"));
    uint64_t value = PAGE_DEFAULT;
    if (text.ptr && !slice_to_u64(text, UINT32_MAX, &value))
        return gmail_bad(request, "Invalid value at 'max_results' (TYPE_UINT32), \"%.*s\"",
                         SLICE_ARG(text));
    *max = value == 0 ? PAGE_DEFAULT : value < PAGE_MAX ? value : PAGE_MAX;
    return true;
}

static bool add_label(struct gmail_request *request, struct listing *listing,
                      const struct gmail_label *label, slice id)
{
    if (!label || listing->label_count == GMAIL_MESSAGE_LABELS_MAX)
        return gmail_bad(request, "Invalid label: %.*s", SLICE_ARG(id));
    listing->labels[listing->label_count++] = label;
    if (label->number == GMAIL_TRASH || label->number == GMAIL_SPAM)
        listing->shows_hidden = true;
    if (label->order.count < listing->order->count)
        listing->order = &label->order;
    return true;
}

/* Tokens are decimal like Google's: the message's time and its id. */
static bool read_token(struct gmail_request *request, struct listing *listing)
{
    slice rest = request_query(request->http, SLICE("pageToken"));
    uint64_t time_ms, id;
    listing->start = listing->order->count;
    if (!rest.len)
        return true;
    slice first = slice_split(&rest, '.');
    if (!slice_to_u64(first, INT64_MAX, &time_ms) || !slice_to_u64(rest, UINT64_MAX, &id))
        return gmail_bad(request, "Invalid pageToken");
    listing->start = gmail_order_rank(listing->order, (int64_t)time_ms, id);
    return true;
}

static bool listing_init(struct gmail_request *request, struct listing *listing)
{
    const struct provider_request *http = request->http;
    struct gmail *gmail = request->gmail;
    bool is_draft = request->target == GMAIL_A_DRAFT, wants_hidden;
    slice flag = request_query(http, SLICE("includeSpamTrash"));
    if (flag.len && !slice_to_bool(flag, &listing->shows_hidden))
        return gmail_bad(request, "Invalid value at 'include_spam_trash' (TYPE_BOOL)");
    listing->query = gmail_query_parse(gmail, request->arena, request_query(http, SLICE("q")),
                                       http->now_us, &wants_hidden);
    if (!listing->query)
        return gmail_error_plain(gmail, request->reply, 503);
    listing->shows_hidden |= wants_hidden || is_draft;
    listing->order = gmail_query_order(gmail, listing->query);
    if (!read_max(request, &listing->max) ||
        (is_draft && !add_label(request, listing, gmail->labels[GMAIL_DRAFT], SLICE_NONE)))
        return false;
    /* labelIds=INBOX&labelIds=UNREAD: all of them. */
    for (size_t i = 0; i < http->query_count; i++)
        if (slice_eq(http->query[i].name, SLICE("labelIds")) &&
            !add_label(request, listing, gmail_label_find(gmail, http->query[i].value),
                       http->query[i].value))
            return false;
    return read_token(request, listing);
}

static bool is_listed(const struct listing *listing, const struct gmail_message *message)
{
    if (!listing->shows_hidden && (gmail_is(message, GMAIL_TRASH) || gmail_is(message, GMAIL_SPAM)))
        return false;
    for (size_t i = 0; i < listing->label_count; i++)
        if (!gmail_has(message, listing->labels[i]))
            return false;
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

static void write_item(struct json_writer *w, const struct gmail_message *message,
                       enum gmail_target target)
{
    const struct gmail_thread *thread = message->thread;
    const struct gmail_message *newest = thread->order.items[thread->order.count - 1];
    if (target == GMAIL_MESSAGE) {
        gmail_write_brief(w, message, false);
        return;
    }
    json_open(w, '{');
    if (target == GMAIL_THREAD) {
        json_member_str(w, "id", slice_of(thread->id_text, GMAIL_ID_TEXT_LEN));
        json_member_str(w, "snippet", newest->snippet);
        gmail_write_u64(w, "historyId", newest->history_id);
    } else {
        json_member_str(w, "id", slice_cstr(message->draft_id));
        json_key(w, "message");
        gmail_write_brief(w, message, false);
    }
    json_close(w, '}');
}

bool gmail_list(struct gmail_request *request)
{
    static const char *const keys[] = {
        [GMAIL_MESSAGE] = "messages", [GMAIL_THREAD] = "threads", [GMAIL_A_DRAFT] = "drafts"};
    struct listing listing = {0};
    const struct gmail_message *last = NULL;
    size_t listed = 0, more = 0;
    if (!listing_init(request, &listing))
        return false;
    struct json_writer w = reply_json(request->reply, 200);
    json_open(&w, '{');
    /* Past the page it is only counted, and only as far as the estimate goes. */
    for (size_t i = listing.start; i-- > 0 && !(more && listed + more >= ESTIMATE_MAX);) {
        const struct gmail_message *message = listing.order->items[i];
        if (!is_listed(&listing, message) ||
            (request->target == GMAIL_THREAD && !is_thread_head(&listing, message)))
            continue;
        if (listed == listing.max) {
            more++;
            continue;
        }
        if (!listed++)
            json_member_open(&w, keys[request->target], '[');
        write_item(&w, message, request->target);
        last = message;
    }
    if (listed)
        json_close(&w, ']');
    if (more && last)
        json_member_str(&w, "nextPageToken",
                        arena_printf(request->arena, "%lld.%llu", (long long)last->time_ms,
                                     (unsigned long long)last->id));
    json_member_i64(&w, "resultSizeEstimate",
                    (int64_t)(listed + more < ESTIMATE_MAX ? listed + more : ESTIMATE_MAX));
    json_close(&w, '}');
    return true;
}
