/*
 * Gmail requests: token, scopes, user, route, body; Google's error shape; and what each route does.
 * The order of the checks is Google's: an unknown path is a 404 page, then the token, the scope,
 * the user. users.history.list says which messages changed since a historyId, without how.
 */
#include "base/ascii.h"
#include "base/clock.h"
#include "base/encode.h"
#include "provider/gmail.h"
#include "provider/token.h"

enum {
    BATCH_MAX = 1000,
    PAGE_MAX = 500,
    PAGE_DEFAULT = 100,
    ESTIMATE_MAX = 201, /* Gmail stops counting there, too */
};

/* ---- errors ---- */

static bool fail(struct call *call, unsigned code, const char *reason, const char *status,
                 slice message)
{
    const struct gmail *gmail = call->provider->gmail;
    struct json scope = OBJECT(call->arena, "code reason status message", json_i64(code),
                               json_string(slice_cstr(reason)), json_string(slice_cstr(status)),
                               json_string(message));
    struct json error = shapes_make(&gmail->shapes, call->arena, SLICE("error"), &scope);
    return call_reply(call, code, &error);
}

static bool bad(struct call *call, const char *fmt, ...) PRINTF_LIKE(2, 3);
static bool bad(struct call *call, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    slice message = arena_vprintf(call->arena, fmt, args);
    va_end(args);
    return fail(call, 400, "invalidArgument", "INVALID_ARGUMENT", message);
}

static void challenge(struct call *call, const char *error)
{
    reply_header(call->reply, SLICE("WWW-Authenticate"),
                 arena_printf(call->arena,
                              "Bearer realm=\"https://accounts.google.com/\", error=\"%s\"",
                              error));
}

bool gmail_error_plain(struct call *call, unsigned code)
{
    char number[SLICE_U64_MAX];
    const struct json *errors = JSON_GET(call->provider->gmail->data, "errors");
    const struct json *own = json_get(errors, slice_of_u64(code, number));
    const struct json *known = own          ? own
                               : code < 500 ? JSON_GET(errors, "4xx")
                                            : JSON_GET(errors, "5xx");
    if (code == 401)
        challenge(call, "invalid_token");
    return fail(call, code, arena_dup(call->arena, json_str(json_at(known, 0))).ptr,
                arena_dup(call->arena, json_str(json_at(known, 1))).ptr,
                own ? json_str(json_at(own, 2)) : slice_cstr(http_status_text(code)));
}

static bool not_found(struct call *call)
{
    return gmail_error_plain(call, 404);
}

static bool forbidden(struct call *call, slice text)
{
    return fail(call, 403, "forbidden", "PERMISSION_DENIED", text);
}

/* One more write, done. */
static bool removed(struct call *call, slice id, slice marker)
{
    call_record(call, id, marker);
    reply_text(call->reply, 204, SLICE_NONE, SLICE_NONE);
    return true;
}

/* ---- mails, threads and drafts as JSON ---- */

/* The members of a mail's JSON that each format shows. */
static const struct format {
    const char *name, *members;
} formats[] =
    {
        {"full", "id threadId labelIds snippet payload sizeEstimate historyId internalDate"},
        {"metadata", "id threadId labelIds snippet payload sizeEstimate historyId internalDate"},
        {"minimal", "id threadId labelIds snippet sizeEstimate historyId internalDate"},
        {"raw", "id threadId labelIds snippet sizeEstimate historyId internalDate"},
},
  brief = {"brief", "id threadId labelIds"}, item = {"item", "id threadId"};

static struct json metadata(struct call *call, const struct mime_part *payload)
{
    struct json headers = json_array();
    for (uint32_t i = 0; i < payload->headers.count; i++) {
        const struct json *header = json_at(&payload->headers, i);
        if (provider_wants(call->http, SLICE("metadataHeaders"),
                           json_get_str(header, SLICE("name"))))
            json_array_push(call->arena, &headers, *header);
    }
    return OBJECT(call->arena, "mimeType headers", json_string(payload->type), headers);
}

static struct json members_of(struct arena *arena, const struct record *mail,
                              const struct format *format)
{
    struct json out = json_object();
    for (uint32_t i = 0; i < mail->json.count; i++) {
        const struct json_member *member = &mail->json.as.members[i];
        bool is_empty = json_is(&member->value, JSON_ARRAY) && !member->value.count;
        if (!is_empty && slice_has_word(slice_cstr(format->members), json_str(&member->key)))
            json_object_set(arena, &out, json_str(&member->key), member->value);
    }
    return out;
}

struct json gmail_brief(struct arena *arena, const struct record *mail)
{
    return members_of(arena, mail, &brief);
}

static struct json show_mail(struct call *call, const struct record *mail,
                             const struct format *format)
{
    struct json out = members_of(call->arena, mail, format);
    if (format == &formats[1])
        json_object_put(call->arena, &out, SLICE("payload"),
                        metadata(call, &gmail_mail(mail)->payload));
    else if (format == &formats[3])
        json_object_set(call->arena, &out, SLICE("raw"),
                        json_string(mime_base64url(call->arena, gmail_mail(mail)->raw)));
    return out;
}

/* A mail, or the draft that it is. */
static struct json show(struct call *call, const struct record *mail, const struct format *format,
                        unsigned kind)
{
    struct json out = show_mail(call, mail, format);
    return kind == GMAIL_A_DRAFT
               ? OBJECT(call->arena, "id message", json_string(gmail_mail(mail)->draft_id), out)
               : out;
}

static struct json history_of(const struct record *thread)
{
    return *JSON_GET(&LIST_ITEM(thread->children.prev, struct record, sibling_link)->json,
                     "historyId");
}

/* What the route is about, as the reply. */
static bool reply_target(struct call *call, const struct format *format)
{
    struct json out, messages = json_array();
    if (call->route->kind != GMAIL_THREAD) {
        out = show(call, call->record, format, call->route->kind);
        return call_reply(call, 200, &out);
    }
    RECORD_EACH(&call->record->children, mail, sibling_link)
        json_array_push(call->arena, &messages, show_mail(call, mail, format));
    out = OBJECT(call->arena, "id historyId messages",
                 json_string(slice_cstr(call->record->id + 1)), history_of(call->record), messages);
    return call_reply(call, 200, &out);
}

static bool get(struct call *call)
{
    slice text = request_query(call->http, SLICE("format"));
    for (size_t i = 0; i < ARRAY_LEN(formats); i++)
        if (!text.len || slice_eq_nocase(text, slice_cstr(formats[i].name)))
            return reply_target(call, &formats[i]);
    return bad(call,
               "Invalid value at 'format' (type.googleapis.com/google.gmail.v1.MessageFormat), "
               "\"%.*s\"",
               SLICE_ARG(text));
}

static bool attachment(struct call *call)
{
    const struct mime_part *part = &gmail_mail(call->record)->payload;
    while (part && (!part->attachment_id.len || !slice_eq(part->attachment_id, call->id2)))
        part = part->next;
    if (!part)
        return bad(call, "Invalid attachment token");
    struct json out = OBJECT(call->arena, "size data", json_u64(part->body.len),
                             json_string(mime_base64url(call->arena, part->body)));
    return call_reply(call, 200, &out);
}

static bool history(struct call *call)
{
    const struct gmail *gmail = call->provider->gmail;
    char room[SLICE_U64_MAX];
    struct json list = json_array();
    uint64_t since, own;
    if (!slice_to_u64(request_query(call->http, SLICE("startHistoryId")), UINT64_MAX, &since))
        return bad(call, "Invalid startHistoryId");
    RECORD_EACH(&gmail->store.order, mail, order_link) {
        struct json messages = json_array();
        slice id = json_get_str(&mail->json, SLICE("historyId"));
        if (!slice_to_u64(id, UINT64_MAX, &own) || own <= since)
            continue;
        json_array_push(call->arena, &messages, gmail_brief(call->arena, mail));
        json_array_push(call->arena, &list,
                        OBJECT(call->arena, "id messages", json_string(id), messages));
    }
    struct json out = OBJECT(call->arena, "history historyId", list,
                             json_string(slice_of_u64(gmail->history_id, room)));
    return call_reply(call, 200, &out);
}

/* ---- lists and searches: newest first ---- */

/* A page token is the time and the id of the last mail listed, so that new mail does not shift it.
 */
struct listing {
    const struct record *labels[GMAIL_MESSAGE_LABELS_MAX];
    size_t label_count;
    slice q, after;
    uint64_t max, after_ms;
    bool shows_hidden;
};

static bool add_label(struct call *call, struct listing *listing, const struct record *label,
                      slice id)
{
    const struct gmail *gmail = call->provider->gmail;
    if (!label || listing->label_count == GMAIL_MESSAGE_LABELS_MAX)
        return bad(call, "Invalid label: %.*s", SLICE_ARG(id));
    listing->labels[listing->label_count++] = label;
    listing->shows_hidden |= label == gmail->trash || label == gmail->spam;
    return true;
}

static bool read_listing(struct call *call, struct listing *listing)
{
    const struct provider_request *http = call->http;
    const struct gmail *gmail = call->provider->gmail;
    slice flag = request_query(http, SLICE("includeSpamTrash"));
    slice max = request_query(http, SLICE("maxResults"));
    slice token = request_query(http, SLICE("pageToken"));
    *listing = (struct listing){.q = request_query(http, SLICE("q"))};
    if (flag.len && !slice_to_bool(flag, &listing->shows_hidden))
        return bad(call, "Invalid value at 'include_spam_trash' (TYPE_BOOL)");
    if (max.ptr && !slice_to_u64(max, UINT32_MAX, &listing->max))
        return bad(call, "Invalid value at 'max_results' (TYPE_UINT32), \"%.*s\"", SLICE_ARG(max));
    listing->max = !listing->max ? PAGE_DEFAULT : listing->max < PAGE_MAX ? listing->max : PAGE_MAX;
    listing->after = token;
    if (token.len &&
        (!slice_to_u64(slice_split(&listing->after, '.'), INT64_MAX, &listing->after_ms) ||
         !listing->after.len))
        return bad(call, "Invalid pageToken");
    if (call->route->kind == GMAIL_A_DRAFT) {
        listing->shows_hidden = true;
        if (!add_label(call, listing, gmail->draft, SLICE_NONE))
            return false;
    }
    /* labelIds=INBOX&labelIds=UNREAD: all of them. */
    for (size_t i = 0; i < http->query_count; i++)
        if (slice_eq(http->query[i].name, SLICE("labelIds")) &&
            !add_label(call, listing, gmail_find(gmail, GMAIL_LABEL, http->query[i].value),
                       http->query[i].value))
            return false;
    return true;
}

static bool is_listed(struct call *call, const struct listing *listing, const struct record *mail)
{
    for (size_t i = 0; i < listing->label_count; i++)
        if (!gmail_has(mail, listing->labels[i]))
            return false;
    return gmail_matches(call->provider->gmail, mail, listing->q, call->http->now_us,
                         listing->shows_hidden);
}

/* A thread is listed at the position of its newest listed message. */
static bool is_thread_head(struct call *call, const struct listing *listing,
                           const struct record *mail)
{
    const struct list *link = &mail->sibling_link;
    while ((link = link->next) != &mail->parent->children)
        if (is_listed(call, listing, LIST_ITEM(link, struct record, sibling_link)))
            return false;
    return true;
}

static struct json show_item(struct call *call, const struct record *mail)
{
    const struct record *thread = mail->parent;
    if (call->route->kind != GMAIL_THREAD)
        return show(call, mail, &item, call->route->kind);
    const struct record *newest = LIST_ITEM(thread->children.prev, struct record, sibling_link);
    return OBJECT(call->arena, "id snippet historyId", json_string(slice_cstr(thread->id + 1)),
                  *JSON_GET(&newest->json, "snippet"), history_of(thread));
}

static bool list(struct call *call)
{
    struct listing listing;
    struct json items = json_array(), out = json_object();
    const struct record *last = NULL;
    size_t more = 0;
    if (!read_listing(call, &listing))
        return false;
    bool is_behind = !listing.after.len;
    /* Past the page it is only counted, and only as far as the estimate goes. */
    RECORD_EACH(&call->provider->gmail->store.order, mail, order_link) {
        int64_t time_ms = gmail_mail(mail)->time_ms;
        bool is_token = slice_eq_cstr(listing.after, mail->id);
        if (more && items.count + more >= ESTIMATE_MAX)
            break;
        is_behind |= time_ms < (int64_t)listing.after_ms;
        if (is_behind && !is_token && is_listed(call, &listing, mail) &&
            (call->route->kind != GMAIL_THREAD || is_thread_head(call, &listing, mail))) {
            more += items.count == listing.max;
            if (!more) {
                json_array_push(call->arena, &items, show_item(call, mail));
                last = mail;
            }
        }
        is_behind |= is_token;
    }
    if (items.count)
        json_object_set(call->arena, &out, slice_cstr(gmail_kind_names[call->route->kind]), items);
    if (more && last)
        json_object_set(call->arena, &out, SLICE("nextPageToken"),
                        json_string(arena_printf(call->arena, "%lld.%s",
                                                 (long long)gmail_mail(last)->time_ms, last->id)));
    more += items.count;
    json_object_set(call->arena, &out, SLICE("resultSizeEstimate"),
                    json_u64(more < ESTIMATE_MAX ? more : ESTIMATE_MAX));
    return call_reply(call, 200, &out);
}

/* ---- changes ---- */

/* Checks the labels (what is NULL), or sets them in the mail. */
static bool set_labels(struct call *call, const struct json *change, const char *key,
                       struct record *mail, bool is_on)
{
    struct gmail *gmail = call->provider->gmail;
    const struct json *ids = json_given(change, slice_cstr(key));
    if (ids && (!json_is(ids, JSON_ARRAY) || ids->count > GMAIL_MESSAGE_LABELS_MAX))
        return bad(call, "Invalid value at 'label_ids'");
    for (uint32_t i = 0; ids && i < ids->count; i++) {
        slice id = json_str(json_at(ids, i));
        const struct record *label = gmail_find(gmail, GMAIL_LABEL, id);
        /* Gmail puts these on itself, only. */
        if (!label || label == gmail->sent || label == gmail->draft)
            return bad(call, label ? "Invalid label: %.*s" : "labelId not found: %.*s",
                       SLICE_ARG(id));
        if (mail)
            gmail_label_set(gmail, mail, label, is_on);
    }
    return true;
}

/* As the body says, or the last segment of the path. */
static bool modify(struct call *call)
{
    slice verb = call->http->segments[call->http->segment_count - 1];
    const struct json *named = json_get(JSON_GET(call->provider->gmail->data, "changes"), verb);
    const struct json *change = named ? named : call->body;
    const struct record *first = call->targets[0];
    if (!set_labels(call, change, "addLabelIds", NULL, true) ||
        !set_labels(call, change, "removeLabelIds", NULL, false))
        return false;
    if (!json_at(JSON_GET(change, "addLabelIds"), 0) &&
        !json_at(JSON_GET(change, "removeLabelIds"), 0))
        return bad(call, "No label add or removes specified");
    for (uint32_t i = 0; i < call->target_count; i++) {
        (void)set_labels(call, change, "removeLabelIds", call->targets[i], false);
        (void)set_labels(call, change, "addLabelIds", call->targets[i], true);
    }
    if (call->route->kind == GMAIL_BATCH)
        return removed(call, slice_cstr(first->id), first->label);
    call_record(call, slice_cstr(first->id), first->label);
    return reply_target(call, &brief);
}

static bool delete_mails(struct call *call)
{
    const struct record *first = call->targets[0];
    bool is_draft = call->route->kind == GMAIL_A_DRAFT;
    removed(call, is_draft ? gmail_mail(first)->draft_id : slice_cstr(first->id), first->label);
    for (uint32_t i = 0; i < call->target_count; i++)
        gmail_delete(call->provider->gmail, call->targets[i]);
    return true;
}

/* ---- sending, drafts: a mail comes as base64url in `raw` ---- */

/* A mail that a request brought, or sends. */
struct letter {
    struct gmail_new new;
    struct mime_part head;
};

static bool unreadable(struct call *call, const struct err *err)
{
    return bad(call, "The message could not be parsed: %s", err->text);
}

/* message is the JSON that holds the mail; it may leave out what the letter has. false: answered.
 */
static bool read_letter(struct call *call, const struct json *message, struct letter *letter)
{
    struct gmail_new *new = &letter->new;
    slice text = json_get_str(message, SLICE("raw")), id = json_get_str(message, SLICE("threadId"));
    struct buf out;
    struct err err = {0};
    if (!text.len && !new->raw.len)
        return bad(call, "'raw' RFC822 payload message string required");
    while (slice_ends_with(text, SLICE("=")))
        text.len--;
    buf_init(&out, text.len + 1);
    bool is_decoded = decode_base64url(&out, text) == OK;
    slice raw = arena_take(call->arena, &out);
    if (!is_decoded)
        return bad(
            call,
            "Invalid value at 'message.raw' (TYPE_BYTES), Base64 decoding failed for \"%.*s\"",
            SLICE_ARG(slice_first_utf8(text, 40)));
    if (raw.len)
        new->raw = raw;
    if (id.len)
        new->thread = gmail_find(call->provider->gmail, GMAIL_THREAD, id);
    if (id.len && !new->thread)
        return not_found(call);
    raw = new->raw;
    return mime_read_head(call->arena, &raw, &letter->head, &err) == OK || unreadable(call, &err);
}

/* With the headers that Gmail adds to what it sends. NULL: answered. */
static struct record *insert(struct call *call, struct letter *letter)
{
    struct gmail *gmail = call->provider->gmail;
    const struct mime_part *head = &letter->head;
    struct gmail_new *new = &letter->new;
    int64_t now_ms = call->http->now_us / 1000;
    struct err err = {0};
    slice fresh = arena_printf(call->arena, "CA%016llx%08llx",
                               (unsigned long long)rng_next(&call->provider->rng),
                               (unsigned long long)gmail->history_id);
    struct json scope =
        OBJECT(call->arena, "id date from fresh time_ms",
               json_string(mime_header(head, "Message-ID")), json_string(mime_header(head, "Date")),
               json_string(mime_header(head, "From")), json_string(fresh), json_i64(now_ms));
    struct json added = shapes_make(&gmail->shapes, call->arena, SLICE("sent"), &scope);
    new->raw =
        arena_printf(call->arena, "%.*s%.*s", SLICE_ARG(json_str(&added)), SLICE_ARG(new->raw));
    new->time_ms = now_ms > gmail->last_ms ? now_ms : gmail->last_ms;
    new->is_made = true;
    struct record *mail = gmail_insert(gmail, new, &err);
    if (!mail)
        unreadable(call, &err);
    return mail;
}

/* The new mail as the reply. */
static bool reply_new(struct call *call, struct record *mail, unsigned kind)
{
    struct json out = show(call, mail, &brief, kind);
    call_record(call, kind == GMAIL_A_DRAFT ? gmail_mail(mail)->draft_id : slice_cstr(mail->id),
                mail->label);
    return call_reply(call, 200, &out);
}

static bool read_recipients(struct call *call, const struct mime_part *head, bool *is_self)
{
    static const char *const fields[] = {"To", "Cc", "Bcc"};
    size_t total = 0;
    *is_self = false;
    for (size_t i = 0; i < ARRAY_LEN(fields); i++) {
        slice rest = mime_header(head, fields[i]), address;
        size_t before = total;
        bool is_there = rest.len > 0;
        for (; (address = mime_take_address(&rest)).len; total++)
            *is_self |= slice_eq_nocase(address, SLICE(GMAIL_ADDRESS));
        if (is_there && total == before)
            return bad(call, "Invalid %s header", fields[i]);
    }
    return total || bad(call, "Recipient address required");
}

static bool send_letter(struct call *call, const struct json *message, struct letter *letter)
{
    const struct gmail *gmail = call->provider->gmail;
    struct gmail_new *new = &letter->new;
    bool is_self;
    if (!read_letter(call, message, letter) || !read_recipients(call, &letter->head, &is_self))
        return false;
    if (new->raw.len > GMAIL_MESSAGE_BYTES_MAX)
        return fail(call, 413, "uploadTooLarge", "INVALID_ARGUMENT",
                    SLICE("Message too large. The maximum is 36700160 bytes."));
    new->labels[0] = gmail->sent;
    new->labels[1] = gmail->unread;
    new->labels[2] = gmail->inbox;
    new->label_count = is_self ? 3 : 1;
    struct record *mail = insert(call, letter);
    return mail && reply_new(call, mail, GMAIL_MESSAGE);
}

static bool send_mail(struct call *call)
{
    struct letter letter = {0};
    return send_letter(call, call->body, &letter);
}

/* A draft needs no recipient, nothing but a mail that can be read. A new one, or another content of
 * the one that the path names. */
static bool write_draft(struct call *call)
{
    struct gmail *gmail = call->provider->gmail;
    struct letter letter = {.new = {.labels = {gmail->draft}, .label_count = 1}};
    if (!read_letter(call, call_get(call, "message"), &letter))
        return false;
    uint64_t number = UINT64_C(7200000000000000000) +
                      rng_below(&call->provider->rng, UINT64_C(1000000000000000000));
    letter.new.draft_id = call->record
                              ? gmail_mail(call->record)->draft_id
                              : arena_printf(call->arena, "r%llu", (unsigned long long)number);
    struct record *mail = insert(call, &letter);
    if (mail && call->record)
        gmail_delete(gmail, call->record);
    return mail && reply_new(call, mail, GMAIL_A_DRAFT);
}

/* The draft is gone and a new message with SENT takes its place. A `message` in the request
 * replaces the draft's content. */
static bool send_draft(struct call *call)
{
    struct record *old = call->record, *thread = old->parent;
    bool is_alone = thread->children.next == thread->children.prev;
    struct letter letter = {
        .new = {.raw = gmail_mail(old)->raw, .thread = is_alone ? NULL : thread}};
    if (!send_letter(call, call_get(call, "message"), &letter))
        return false;
    gmail_delete(call->provider->gmail, old);
    return true;
}

/* ---- labels, profile, settings ---- */

/* {key: [...]}, {} where it is empty, as Gmail does. */
static bool list_records(struct call *call)
{
    struct json items = json_array(), out = json_object();
    RECORD_EACH(&call->provider->gmail->kinds[call->route->kind], record, order_link)
        json_array_push(call->arena, &items, record->json);
    if (items.count)
        json_object_set(call->arena, &out, slice_cstr(gmail_kind_names[call->route->kind]), items);
    return call_reply(call, 200, &out);
}

static bool get_record(struct call *call)
{
    return call_reply(call, 200, &call->record->json);
}

static bool get_label(struct call *call)
{
    const struct gmail *gmail = call->provider->gmail;
    uint64_t counts[2][2] = {{0}}; /* messages and threads; all, and the unread */
    struct map met[2];
    map_init(&met[0], GMAIL_MESSAGES_MAX * 2);
    map_init(&met[1], GMAIL_MESSAGES_MAX * 2);
    RECORD_EACH(&gmail->store.order, mail, order_link) {
        slice thread = slice_cstr(mail->parent->id);
        if (!gmail_has(mail, call->record))
            continue;
        int last = gmail_has(mail, gmail->unread) ? 1 : 0;
        for (int unread = 0; unread <= last; unread++) {
            counts[0][unread]++;
            counts[1][unread] += !map_get(&met[unread], thread);
            (void)!map_put(&met[unread], thread, mail, NULL);
        }
    }
    map_deinit(&met[0]);
    map_deinit(&met[1]);
    static const char *const names[] = {"messagesTotal", "messagesUnread", "threadsTotal",
                                        "threadsUnread"};
    struct json out = provider_copy(call->arena, &call->record->json);
    for (size_t i = 0; i < ARRAY_LEN(names); i++)
        json_object_set(call->arena, &out, slice_cstr(names[i]), json_u64(counts[i / 2][i % 2]));
    return call_reply(call, 200, &out);
}

/* A label or a setting: gmail.json has what is refused, and what is made of the body. */
static bool write_record(struct call *call)
{
    struct gmail *gmail = call->provider->gmail;
    const struct json *write =
        json_get(JSON_GET(gmail->data, "writes"), slice_cstr(call->route->name));
    const struct json *checks = JSON_GET(write, "checks");
    enum gmail_kind kind = (enum gmail_kind)json_get_i64(write, SLICE("kind"), 0);
    const struct record *taken = gmail_label_named(gmail, json_str(call_get(call, "name")));
    struct json scope = OBJECT(call->arena, "body record taken number", *call->body,
                               call->record ? call->record->json : json_null,
                               taken && taken != call->record ? taken->json : json_null,
                               json_i64(gmail->numbers[kind] + 1));
    for (uint32_t i = 0; i < checks->count; i++) {
        struct json verdict = provider_eval(call->arena, json_at(checks, i), &scope);
        const struct json *message = json_at(&verdict, 1), *reason = json_at(&verdict, 2);
        if (!expr_is_true(json_at(&verdict, 0)))
            return reason ? fail(call, 409, "aborted", "ABORTED", json_str(message))
                          : bad(call, "%.*s",
                                SLICE_ARG(message ? json_str(message) : SLICE("Invalid value")));
    }
    struct json json = provider_eval(call->arena, JSON_GET(write, "value"), &scope);
    if (!call->record)
        call->record = gmail_add(gmail, kind, json_get_str(&json, SLICE("id")), &json);
    record_set(call->record, &json, json_get_str(&json, SLICE("name")));
    call_record(call, slice_cstr(call->record->id), call->record->label);
    return call_reply(call, 200, &call->record->json); /* json may share what was replaced */
}

static bool delete_record(struct call *call)
{
    struct gmail *gmail = call->provider->gmail;
    struct record *record = call->record;
    bool is_label = record->kind == GMAIL_LABEL;
    if (is_label && !slice_starts_with(slice_cstr(record->id), SLICE("Label_")))
        return bad(call, "Invalid delete request");
    RECORD_EACH(&gmail->store.order, mail, order_link)
        gmail_label_set(gmail, mail, record, false);
    removed(call, slice_cstr(record->id), record->label);
    record_free(&gmail->store, record);
    return true;
}

static bool profile(struct call *call)
{
    const struct gmail *gmail = call->provider->gmail;
    char room[SLICE_U64_MAX];
    size_t threads = 0, messages = 0;
    RECORD_EACH(&gmail->store.order, mail, order_link) {
        messages++;
        threads += mail->parent->children.next == &mail->sibling_link;
    }
    struct json scope = OBJECT(call->arena, "messages threads history", json_u64(messages),
                               json_u64(threads),
                               json_string(slice_of_u64(gmail->history_id, room)));
    struct json out = shapes_make(&gmail->shapes, call->arena, SLICE("profile"), &scope);
    return call_reply(call, 200, &out);
}

/* ---- a request ---- */

/* Any of the scopes will do. */
#define READ_SCOPES    "full modify readonly"
#define VIEW_SCOPES    READ_SCOPES " metadata"
#define MODIFY_SCOPES  "full modify"
#define COMPOSE_SCOPES MODIFY_SCOPES " compose"
#define SEND_SCOPES    COMPOSE_SCOPES " send"
#define SETTINGS_VIEW  READ_SCOPES " settings"
#define DRAFT_SCOPES   READ_SCOPES " compose"
#define LABEL_VIEW     VIEW_SCOPES " labels"
#define LABEL_SCOPES   MODIFY_SCOPES " labels"

/* Behind users/{userId}/. */
static const struct route routes[] = {
    {GET, "messages", list, VIEW_SCOPES, GMAIL_MESSAGE, NULL},
    {POST, "messages/send", send_mail, SEND_SCOPES, GMAIL_NONE, "messages.send"},
    {POST, "messages/batchModify", modify, MODIFY_SCOPES, GMAIL_BATCH, "messages.batchModify"},
    {POST, "messages/batchDelete", delete_mails, "full", GMAIL_BATCH, "messages.batchDelete"},
    {GET, "messages/*", get, VIEW_SCOPES, GMAIL_MESSAGE, NULL},
    {DELETE, "messages/*", delete_mails, "full", GMAIL_MESSAGE, "messages.delete"},
    {POST, "messages/*/modify", modify, MODIFY_SCOPES, GMAIL_MESSAGE, "messages.modify"},
    {POST, "messages/*/trash", modify, MODIFY_SCOPES, GMAIL_MESSAGE, "messages.trash"},
    {POST, "messages/*/untrash", modify, MODIFY_SCOPES, GMAIL_MESSAGE, "messages.untrash"},
    {GET, "messages/*/attachments/*", attachment, READ_SCOPES, GMAIL_MESSAGE, NULL},
    {GET, "threads", list, VIEW_SCOPES, GMAIL_THREAD, NULL},
    {GET, "threads/*", get, VIEW_SCOPES, GMAIL_THREAD, NULL},
    {DELETE, "threads/*", delete_mails, "full", GMAIL_THREAD, "threads.delete"},
    {POST, "threads/*/modify", modify, MODIFY_SCOPES, GMAIL_THREAD, "threads.modify"},
    {POST, "threads/*/trash", modify, MODIFY_SCOPES, GMAIL_THREAD, "threads.trash"},
    {POST, "threads/*/untrash", modify, MODIFY_SCOPES, GMAIL_THREAD, "threads.untrash"},
    {GET, "labels", list_records, LABEL_VIEW, GMAIL_LABEL, NULL},
    {POST, "labels", write_record, LABEL_SCOPES, GMAIL_NONE, "labels.create"},
    {GET, "labels/*", get_label, LABEL_VIEW, GMAIL_LABEL, NULL},
    {PATCH, "labels/*", write_record, LABEL_SCOPES, GMAIL_LABEL, "labels.update"},
    {PUT, "labels/*", write_record, LABEL_SCOPES, GMAIL_LABEL, "labels.update"},
    {DELETE, "labels/*", delete_record, LABEL_SCOPES, GMAIL_LABEL, "labels.delete"},
    {GET, "profile", profile, VIEW_SCOPES " compose", GMAIL_NONE, NULL},
    {GET, "drafts", list, DRAFT_SCOPES, GMAIL_A_DRAFT, NULL},
    {POST, "drafts", write_draft, COMPOSE_SCOPES, GMAIL_NONE, "drafts.create"},
    {POST, "drafts/send", send_draft, COMPOSE_SCOPES, GMAIL_A_DRAFT, "drafts.send"},
    {GET, "drafts/*", get, DRAFT_SCOPES, GMAIL_A_DRAFT, NULL},
    {PUT, "drafts/*", write_draft, COMPOSE_SCOPES, GMAIL_A_DRAFT, "drafts.update"},
    {DELETE, "drafts/*", delete_mails, COMPOSE_SCOPES, GMAIL_A_DRAFT, "drafts.delete"},
    {GET, "history", history, VIEW_SCOPES, GMAIL_NONE, NULL},
    {GET, "settings/filters", list_records, SETTINGS_VIEW, GMAIL_FILTER, NULL},
    {POST, "settings/filters", write_record, "settings", GMAIL_NONE, "filters.create"},
    {GET, "settings/filters/*", get_record, SETTINGS_VIEW, GMAIL_FILTER, NULL},
    {DELETE, "settings/filters/*", delete_record, "settings", GMAIL_FILTER, "filters.delete"},
    {GET, "settings/vacation", get_record, SETTINGS_VIEW, GMAIL_VACATION, NULL},
    {PUT, "settings/vacation", write_record, "settings", GMAIL_VACATION, "vacation.set"},
    {GET, "settings/sendAs", list_records, SETTINGS_VIEW, GMAIL_SENDER, NULL},
    {GET, "settings/sendAs/*", get_record, SETTINGS_VIEW, GMAIL_SENDER, NULL},
    {PATCH, "settings/sendAs/*", write_record, "settings", GMAIL_SENDER, "send_as.update"},
};

static bool check_access(struct call *call, slice user)
{
    const struct provider_request *http = call->http;
    const char *scopes = call->route->scopes;
    const struct token *token = tokens_find(call->provider->tokens, call->app, http);
    if (!token)
        return gmail_error_plain(call, 401);
    if (!token_may(token, scopes)) {
        challenge(call, "insufficient_scope");
        return fail(call, 403, "insufficientPermissions", "PERMISSION_DENIED",
                    SLICE("Request had insufficient authentication scopes."));
    }
    if (!slice_eq(user, SLICE("me")) && !slice_eq_nocase(user, SLICE(GMAIL_ADDRESS)))
        return forbidden(call, SLICE("Delegation denied for " GMAIL_ADDRESS));
    /* Metadata never shows bodies and cannot search (Gmail API reference, users.messages.get). */
    bool is_metadata_only = http->query_count && !token_may(token, READ_SCOPES) &&
                            strstr(scopes, "metadata");
    slice format = request_query(http, SLICE("format"));
    if (is_metadata_only && request_query(http, SLICE("q")).len)
        return forbidden(call, SLICE("Metadata scope does not support 'q' parameter"));
    if (is_metadata_only &&
        (slice_eq_nocase(format, SLICE("full")) || slice_eq_nocase(format, SLICE("raw"))))
        return forbidden(call, SLICE("Metadata scope doesn't allow format FULL or RAW"));
    return true;
}

static bool read_body(struct call *call)
{
    struct err err = {.text = "Unknown name \"\": Root element must be a message."};
    return (call_body(call, &err) && json_is(call->body, JSON_OBJECT)) ||
           fail(call, 400, "parseError", "INVALID_ARGUMENT",
                arena_printf(call->arena, "Invalid JSON payload received. %s", err.text));
}

static bool find_mail(struct call *call, slice id, struct record **out)
{
    bool is_hex = id.len > 0 && id.len <= GMAIL_ID_LEN;
    for (size_t i = 0; i < id.len; i++)
        is_hex &= ascii_is_hex(id.ptr[i]);
    *out = gmail_find(call->provider->gmail, GMAIL_MESSAGE, id);
    if (!is_hex)
        return bad(call, "Invalid id value");
    return *out || not_found(call);
}

/* An id may be there twice. */
static bool find_batch(struct call *call, const struct json *ids)
{
    if (!json_is(ids, JSON_ARRAY) || !ids->count || ids->count > BATCH_MAX)
        return bad(call, "ids must hold 1 to %d message ids", BATCH_MAX);
    for (uint32_t i = 0; i < ids->count; i++) {
        struct record *mail;
        uint32_t at = 0;
        if (!find_mail(call, json_str(json_at(ids, i)), &mail))
            return false;
        while (at < call->target_count && call->targets[at] != mail)
            at++;
        call->targets[at] = mail;
        call->target_count += at == call->target_count;
    }
    return true;
}

static bool find_draft(struct call *call)
{
    slice id = call->id.ptr ? call->id : json_str(call_get(call, "id"));
    RECORD_EACH(&call->provider->gmail->store.order, mail, order_link)
        if (id.len && slice_eq(id, gmail_mail(mail)->draft_id))
            call->record = mail;
    return call->record || not_found(call);
}

/* What the id of the path, or of the body, names: record, and targets, the mails that it is about.
 * false: answered. */
static bool find_target(struct call *call)
{
    unsigned kind = call->route->kind;
    size_t max = BATCH_MAX;
    bool is_found = true;
    if (kind == GMAIL_MESSAGE)
        is_found = find_mail(call, call->id, &call->record);
    else if (kind == GMAIL_A_DRAFT)
        is_found = find_draft(call);
    else if (kind < GMAIL_KINDS)
        is_found =
            (call->record = gmail_find(call->provider->gmail, (enum gmail_kind)kind,
                                       kind == GMAIL_VACATION ? SLICE("vacation") : call->id)) ||
            not_found(call);
    if (!is_found || (kind > GMAIL_THREAD && kind < GMAIL_KINDS) || kind == GMAIL_NONE)
        return is_found;
    if (kind == GMAIL_THREAD)
        RECORD_EACH(&call->record->children, mail, sibling_link)
            max += mail != NULL;
    call->targets = ARENA_ARRAY(call->arena, struct record *, max);
    ASSERT(call->targets);
    if (kind == GMAIL_BATCH)
        return find_batch(call, call_get(call, "ids"));
    if (kind == GMAIL_THREAD)
        RECORD_EACH(&call->record->children, mail, sibling_link)
            call->targets[call->target_count++] = mail;
    else
        call->targets[call->target_count++] = call->record;
    return true;
}

void gmail_handle(struct call *call)
{
    static const char prefix[] = "gmail/v1/users/";
    const struct provider_request *http = call->http;
    bool is_found =
        slice_starts_with(slice_from(http->path, 1), slice_cstr(prefix)) &&
        http->segment_count > 4 &&
        call_route(call, routes, ARRAY_LEN(routes), http->segments + 4, http->segment_count - 4);
    if (!is_found) /* what Google's front end says: not JSON */
        reply_text(call->reply, 404, SLICE("text/html; charset=UTF-8"),
                   json_get_str(call->provider->gmail->data, SLICE("no_route")));
    else if (check_access(call, http->segments[3]) && read_body(call) &&
             (call->route->run == list || call->route->run == list_records || find_target(call)))
        call->route->run(call);
}
