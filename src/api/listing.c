/*
 * Pages of lists; see listing.h.
 */
#include "api/listing.h"

#include "base/clock.h"

enum { REPLY_BYTES_MAX = 16 * 1024 * 1024, WINDOW_GROWTH = 32, WORD_LEN_MAX = 200 };

static const int64_t day_ms = 86400000;

/* ---- the query string ---- */

static struct uuid window_start(struct uuid before, int64_t window_ms)
{
    int64_t start_ms = uuid_v7_wall_ms(before) - window_ms;
    return start_ms > 0 ? uuid_v7_floor(start_ms) : (struct uuid){{0}};
}

/* Without a cursor the list begins a day in the future, because the ids are from the clocks of
 * several machines; the first window is a day longer then. */
static bool read_cursor(struct api_request *request, struct listing *listing)
{
    slice text = api_query_text(request, "cursor");
    listing->window_ms = text.ptr ? day_ms : 2 * day_ms;
    listing->page.before = uuid_v7_floor(clock_shared_us() / 1000 + day_ms);
    if (text.ptr && !uuid_parse(text, &listing->page.before)) {
        (void)api_reply_error(request, 400,
                              "cursor must be the next_cursor of another page, got \"%.*s\"",
                              SLICE_ARG(json_excerpt(text, &request->serve.op.arena)));
        return false;
    }
    listing->page.since = window_start(listing->page.before, listing->window_ms);
    return true;
}

bool listing_read_word(struct api_request *request, const char *name, slice *word)
{
    *word = api_query_text(request, name);
    bool is_word = word->len <= WORD_LEN_MAX;
    for (size_t i = 0; is_word && i < word->len; i++)
        is_word = word->ptr[i] > ' ' && word->ptr[i] < 0x7f;
    if (!is_word)
        (void)api_reply_error(request, 400, "%s must be a word of at most %d characters", name,
                              WORD_LEN_MAX);
    return is_word;
}

/* ---- pages of the store ---- */

static api_step finish_listing;

/* One more than what is still wanted: whether there is more is then known. */
static enum op_result load_page(struct api_request *request, struct listing *listing)
{
    listing->page.count_max = listing->limit - listing->count + 1;
    listing->kind->ask(request, listing);
    return api_wait(request, finish_listing);
}

enum op_result listing_begin(struct api_request *request, const struct listing_kind *kind,
                             void *filter)
{
    struct listing *listing = ARENA_NEW(&request->serve.op.arena, struct listing);
    ASSERT(kind && !request->state);
    if (!listing)
        return api_reply_no_memory(request);
    listing->kind = kind;
    listing->filter = filter;
    request->state = listing;
    uint64_t limit;
    if (!api_query_positive(request, "limit", LISTING_DEFAULT, LISTING_MAX, &limit) ||
        !read_cursor(request, listing))
        return OP_DONE;
    listing->limit = (size_t)limit;
    return load_page(request, listing);
}

/* Whether the items suffice; else page is set to what is read next. next is the store's: nil where
 * the window was read to its end, else where its limit of rows stopped it. Empty windows cost a
 * query each, so they grow 32-fold: a year without events is three queries. The last window begins
 * at the nil id. */
static bool is_complete(struct listing *listing, struct uuid next)
{
    bool is_window_through = uuid_is_nil(next);
    if (listing->count > listing->limit) {
        listing->count = listing->limit;
        listing->is_more = true;
        memcpy(&listing->cursor,
               (const char *)listing->items[listing->limit - 1] + listing->kind->id_at,
               sizeof(listing->cursor));
        return true;
    }
    if (is_window_through && uuid_is_nil(listing->page.since))
        return true;
    listing->page.before = is_window_through ? listing->page.since : next;
    if (is_window_through) {
        listing->window_ms *= WINDOW_GROWTH;
        listing->page.since = window_start(listing->page.before, listing->window_ms);
    }
    /* a filter that lets little pass: the client goes on from here with another request */
    listing->is_more = ++listing->rounds == LISTING_ROUNDS_MAX;
    listing->cursor = listing->page.before;
    return listing->is_more;
}

static enum op_result reply_listing(struct api_request *request, const struct listing *listing)
{
    struct json_writer *w = api_reply_open(request, REPLY_BYTES_MAX);
    json_member_open(w, listing->kind->key, '[');
    for (size_t i = 0; i < listing->count; i++)
        listing->kind->put(w, listing->items[i], &request->serve.op.arena);
    json_close(w, ']');
    if (listing->is_more)
        json_member_uuid(w, "next_cursor", listing->cursor);
    else
        json_member_str(w, "next_cursor", SLICE_NONE);
    return api_reply_close(request, 200);
}

static enum op_result finish_listing(struct api_request *request)
{
    struct listing *listing = request->state;
    ASSERT(listing);
    struct uuid next;
    size_t count = 0;
    void *items;
    int status = listing->kind->read(request, &items, &count, &next);
    if (status != OK)
        return api_reply_database(request, status);
    ASSERT(listing->count + count <= listing->limit + 1);
    for (size_t i = 0; i < count; i++)
        listing->items[listing->count++] = (const char *)items + i * listing->kind->size;
    return is_complete(listing, next) ? reply_listing(request, listing)
                                      : load_page(request, listing);
}

/* ---- items ---- */
