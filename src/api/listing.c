/*
 * Pages of lists; see listing.h.
 */
#include "api/listing.h"

enum { REPLY_BYTES_MAX = 16 * 1024 * 1024, SCANS_MAX = 16 };

struct listing {
    const struct listing_kind *kind;
    struct serve_list list;
    const void *items[LISTING_MAX];
};

/* ---- the query string ---- */

enum op_result listing_refuse(struct api_request *request, const struct serve_filter *filter,
                              slice value)
{
    return api_reply_error(
        request, 400, "%.*s",
        SLICE_ARG(serve_filter_refusal(filter, value, &request->serve.op.arena)));
}

bool listing_read(struct api_request *request, struct serve_list *list,
                  const struct serve_filter *filters, size_t limit_default)
{
    uint64_t limit;
    for (size_t i = 0; filters[i].name; i++)
        list->values[i] = api_query_text(request, filters[i].name);
    int wrong = serve_list_read(list, filters);
    if (wrong >= 0)
        (void)listing_refuse(request, &filters[wrong], list->values[wrong]);
    if (wrong >= 0 || !api_query_positive(request, "limit", limit_default, LISTING_MAX, &limit))
        return false;
    list->limit = (size_t)limit;
    list->scans_left = SCANS_MAX;
    return true;
}

void listing_put_id(struct json_writer *w, const char *name, struct uuid id)
{
    if (uuid_is_nil(id))
        json_member_str(w, name, SLICE_NONE);
    else
        json_member_uuid(w, name, id);
}

/* ---- pages of the store ---- */

static api_step finish_listing;

static enum op_result load_page(struct api_request *request)
{
    struct listing *listing = request->state;
    listing->kind->ask(request, &listing->list);
    return api_wait(request, finish_listing);
}

enum op_result listing_begin(struct api_request *request, const struct listing_kind *kind)
{
    struct listing *listing = ARENA_NEW(&request->serve.op.arena, struct listing);
    ASSERT(!request->state);
    if (!listing)
        return api_reply_no_memory(request);
    listing->kind = kind;
    request->state = listing;
    return listing_read(request, &listing->list, kind->filters, LISTING_DEFAULT)
               ? load_page(request)
               : OP_DONE;
}

static enum op_result reply_listing(struct api_request *request, const struct listing *listing)
{
    struct json_writer *w = api_reply_open(request, REPLY_BYTES_MAX);
    json_member_open(w, listing->kind->key, '[');
    for (size_t i = 0; i < listing->list.count; i++)
        listing->kind->put(w, listing->items[i], &request->serve.op.arena);
    json_close(w, ']');
    listing_put_id(w, "next_cursor", listing->list.next);
    return api_reply_close(request, 200);
}

static enum op_result finish_listing(struct api_request *request)
{
    struct listing *listing = request->state;
    ASSERT(listing);
    struct uuid end, id;
    size_t count = 0;
    void *items;
    int status = listing->kind->read(request, &items, &count, &end);
    if (status != OK)
        return api_reply_database(request, status);
    for (size_t i = 0; i < count; i++) {
        const char *item = (const char *)items + i * listing->kind->item.size;
        memcpy(&id, item + listing->kind->item.id_at, sizeof(id));
        if (serve_list_take(&listing->list, id))
            listing->items[listing->list.count - 1] = item;
    }
    return serve_list_continues(&listing->list, end) ? load_page(request)
                                                     : reply_listing(request, listing);
}
