/*
 * Pages of lists; see listing.h.
 */
#include "api/listing.h"

enum {
    REPLY_BYTES_MAX = 16 * 1024 * 1024,
    SCANS_MAX = 16,
    SCANS_OF_PERSON_MAX = 3, /* a person who waits for a page can look for older rows */
};

struct listing {
    struct listing_users users; /* must be the first member */
    const struct listing_kind *kind;
    struct serve_list list;
    const void *items[LISTING_MAX];
    struct uuid owners[LISTING_MAX]; /* of the items, if the list is over all users */
    bool is_partial;                 /* a shard of the database did not answer */
};

/* ---- the query string ---- */

enum op_result listing_refuse(struct api_request *request, const struct serve_filter *filter,
                              slice value)
{
    return api_reply_error(
        request, 400, "%.*s",
        SLICE_ARG(serve_filter_refusal(filter, value, &request->serve.op.arena)));
}

bool listing_is_all(const struct serve_list *list, const struct serve_filter *filters)
{
    for (size_t i = 0; filters[i].name; i++)
        if (strcmp(filters[i].name, "users") == 0)
            return list->choices[i] >= 0;
    return false;
}

/* Whether the request may ask for the rows of all users; otherwise it was answered. */
static bool may_list_all(struct api_request *request)
{
    if (api_user_check_account(request, "users=all") != OP_NEXT)
        return false;
    if (api_may(request, SCOPE_ADMIN, NULL))
        return true;
    (void)api_refuse_scope(request, SCOPE_ADMIN);
    return false;
}

static bool is_for_person(const struct api_request *request)
{
    return request->envelope && request->envelope->is_for_person;
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
    list->scans_left = is_for_person(request) ? SCANS_OF_PERSON_MAX : SCANS_MAX;
    return !listing_is_all(list, filters) || may_list_all(request);
}

/* ---- users ---- */

static bool has_owner(const struct uuid *owners, size_t count, struct uuid owner)
{
    for (size_t i = 0; i < count; i++)
        if (uuid_eq(owners[i], owner))
            return true;
    return false;
}

static enum op_result on_named(struct api_request *request)
{
    struct listing_users *users = request->state;
    int status = store_account_user_list_result(&request->query, &users->list, &users->count);
    return status == OK ? users->then(request) : api_reply_database(request, status);
}

enum op_result listing_name_users(struct api_request *request, const struct uuid *owners,
                                  size_t count, api_step *then)
{
    struct listing_users *users = request->state;
    struct uuid account_id = request->serve.grant.account_id;
    struct buf ids;
    char id[UUID_TEXT_LEN + 1];
    ASSERT(count <= LISTING_MAX);
    buf_init(&ids, LISTING_MAX * sizeof(id));
    for (size_t i = 0; i < count; i++) {
        if (uuid_eq(owners[i], account_id) || has_owner(owners, i, owners[i]))
            continue;
        uuid_format(owners[i], id);
        buf_printf(&ids, ids.len > 0 ? " %s" : "%s", id);
    }
    bool is_ok = buf_is_ok(&ids), has_users = ids.len > 0;
    slice text = arena_take(&request->serve.op.arena, &ids);
    if (!is_ok || (has_users && !text.ptr))
        return api_reply_no_memory(request);
    if (!has_users)
        return then(request);
    users->then = then;
    store_account_user_names(request->api->config.pool, &request->query, &request->serve.op,
                             account_id, text);
    return api_wait(request, on_named);
}

bool listing_find_user(const struct api_request *request, struct uuid owner, slice *name)
{
    const struct listing_users *users = request->state;
    *name = SLICE_NONE;
    if (uuid_eq(owner, request->serve.grant.account_id))
        return true;
    for (size_t i = 0; i < users->count && !name->ptr; i++)
        if (uuid_eq(users->list[i].user_id, owner))
            *name = users->list[i].external_id;
    return name->ptr != NULL;
}

void listing_put_id(struct json_writer *w, const char *name, struct uuid id)
{
    if (uuid_is_nil(id))
        json_member_str(w, name, SLICE_NONE);
    else
        json_member_uuid(w, name, id);
}

static void put_ms(struct json_writer *w, const char *key, int64_t ms)
{
    json_key(w, key);
    if (ms < 0)
        json_put_null(w);
    else
        json_put_i64(w, ms);
}

void listing_put_times(struct json_writer *w, const int64_t buckets[TALLY_BUCKETS])
{
    put_ms(w, "p50_ms", tally_percentile(buckets, 50));
    put_ms(w, "p95_ms", tally_percentile(buckets, 95));
}

struct json_writer *listing_reply_open(struct api_request *request, const void *rows, size_t count,
                                       size_t row_size,
                                       void (*put)(struct json_writer *w, const void *row))
{
    struct json_writer *w = api_reply_open(request, API_REQUEST_ARENA_BYTES_MAX);
    json_member_open(w, "items", '[');
    for (size_t i = 0; i < count; i++) {
        json_open(w, '{');
        put(w, (const char *)rows + i * row_size);
        json_close(w, '}');
    }
    json_close(w, ']');
    return w;
}

/* ---- pages of the store ---- */

static bool names_users(const struct listing *listing)
{
    return listing->kind->names_users || listing_is_all(&listing->list, listing->kind->filters);
}

/* Rows of users are for the scope admin, as with `users=all`. */
static bool is_for_caller(const struct api_request *request, const struct listing *listing,
                          const char *item)
{
    struct uuid owner;
    if (!listing->kind->names_users || api_may(request, SCOPE_ADMIN, NULL))
        return true;
    memcpy(&owner, item + listing->kind->item.owner_at, sizeof(owner));
    return uuid_eq(owner, request->serve.grant.account_id);
}

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

static enum op_result reply_listing(struct api_request *request)
{
    const struct listing *listing = request->state;
    struct json_writer *w = api_reply_open(request, REPLY_BYTES_MAX);
    bool is_all = names_users(listing);
    json_member_open(w, listing->kind->key, '[');
    for (size_t i = 0; i < listing->list.count; i++) {
        slice user = SLICE_NONE;
        if (is_all && !listing_find_user(request, listing->owners[i], &user))
            continue;
        json_open(w, '{');
        listing->kind->put(w, listing->items[i], user, &request->serve.op.arena);
        if (is_all)
            json_member_str(w, "user", user);
        json_close(w, '}');
    }
    json_close(w, ']');
    listing_put_id(w, "next_cursor", listing->list.next);
    if (listing->is_partial)
        json_member_bool(w, "partial", true);
    return api_reply_close(request, 200);
}

static bool is_search(const struct listing *listing)
{
    const struct serve_filter *filters = listing->kind->filters;
    for (size_t i = 0; filters[i].name; i++)
        if (filters[i].kind == SERVE_SEARCH && listing->list.values[i].ptr)
            return true;
    return false;
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
    listing->is_partial |= request->query.is_partial;
    /* A scan for words that read many rows and found few is the last: each reads all hits. */
    if ((is_for_person(request) || is_search(listing)) && !uuid_is_nil(end) &&
        count < listing->list.scan.count_max)
        listing->list.scans_left = 1;
    bool is_all = names_users(listing);
    for (size_t i = 0; i < count; i++) {
        char *item = (char *)items + i * listing->kind->item.size;
        memcpy(&id, item + listing->kind->item.id_at, sizeof(id));
        if (listing->kind->gives && !listing->kind->gives(request, &listing->list, item))
            continue;
        if (!is_for_caller(request, listing, item) || !serve_list_take(&listing->list, id))
            continue;
        size_t at = listing->list.count - 1;
        listing->items[at] = item;
        if (is_all)
            memcpy(&listing->owners[at], item + listing->kind->item.owner_at, sizeof(id));
    }
    if (serve_list_continues(&listing->list, end))
        return load_page(request);
    return is_all ? listing_name_users(request, listing->owners, listing->list.count, reply_listing)
                  : reply_listing(request);
}
