/*
 * Gmail requests: token, scopes, user, route and body; Google's error shape; and the handlers of
 * the routes. The order of the checks is Google's: an unknown path is a 404 page, then the token,
 * the scope and the user are checked. users.history.list says which messages have changed since a
 * historyId, but not how.
 */
#include <stdio.h>

#include "base/ascii.h"
#include "base/clock.h"
#include "base/encode.h"
#include "provider/gmail.h"
#include "provider/token.h"

enum {
    PAGE_MAX = 500,
    PAGE_DEFAULT = 100,
    ESTIMATE_MAX = 201, /* Gmail stops counting there, too */
};

static bool reply_shape(struct call *call, slice name, const struct json *scope)
{
    struct json out = shapes_make(&call->app->shapes, call->arena, name, scope);
    return call_reply(call, 200, &out);
}

static bool not_found(struct call *call)
{
    return call_error(call, 404);
}

/* Records that a removal was carried out, and replies. */
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
        if (call_wants(call, SLICE("metadataHeaders"), json_get_str(header, SLICE("name"))))
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

/* Returns a mail, or the draft if the mail is a draft. */
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

/* Replies with the object of the route. */
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
    slice text = json_str(call_get(call, "format"));
    for (size_t i = 0; i < ARRAY_LEN(formats); i++)
        if (!text.len || slice_eq_nocase(text, slice_cstr(formats[i].name)))
            return reply_target(call, &formats[i]);
    return call_bad(
        call,
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
        return call_bad(call, "Invalid attachment token");
    struct json out = OBJECT(call->arena, "size data", json_u64(part->body.len),
                             json_string(mime_base64url(call->arena, part->body)));
    return call_reply(call, 200, &out);
}

static bool history(struct call *call)
{
    const struct gmail *gmail = call->provider->gmail;
    char room[SLICE_U64_MAX];
    struct json list = json_array();
    uint64_t own, since = (uint64_t)json_get_i64(call->body, SLICE("startHistoryId"), 0);
    RECORD_EACH(&gmail->app.store.order, mail, order_link) {
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

struct listing {
    slice q;
    bool shows_hidden, has_labels;
};

static bool is_listed(struct call *call, const struct listing *listing, const struct record *mail)
{
    if (call->route->kind == GMAIL_A_DRAFT && !gmail_has(mail, SLICE("DRAFT")))
        return false;
    /* With labelIds=INBOX&labelIds=UNREAD a mail must have all of these labels. */
    for (size_t i = 0; listing->has_labels && i < call->query_count; i++)
        if (slice_eq(call->query[i].name, SLICE("labelIds")) &&
            !gmail_has(mail, call->query[i].value))
            return false;
    return gmail_matches(call->provider->gmail, mail, listing->q, call->now_us,
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

/* A page token is the time and the id of the last listed mail, so that new mail does not shift
 * the pages. */
static bool list(struct call *call)
{
    const struct gmail *gmail = call->provider->gmail;
    struct json items = json_array(), out = json_object();
    const struct record *last = NULL;
    slice after = json_str(call_get(call, "pageToken"));
    int64_t max = json_get_i64(call->body, SLICE("maxResults"), 0), after_ms = INT64_MAX;
    size_t more = 0;
    max = !max ? PAGE_DEFAULT : max < PAGE_MAX ? max : PAGE_MAX;
    if (after.len && !slice_to_i64(slice_split(&after, '.'), &after_ms))
        return call_bad(call, "Invalid pageToken");
    struct listing listing = {
        .q = http_query_get(call->http, SLICE("q")),
        .shows_hidden = call->route->kind == GMAIL_A_DRAFT ||
                        slice_eq(json_str(call_get(call, "includeSpamTrash")), SLICE("true"))};
    for (size_t i = 0; i < call->query_count; i++) {
        slice label = call->query[i].value;
        if (!slice_eq(call->query[i].name, SLICE("labelIds")))
            continue;
        if (!gmail_find(gmail, GMAIL_LABEL, label))
            return call_bad(call, "Invalid label: %.*s", SLICE_ARG(label));
        listing.has_labels = true;
        listing.shows_hidden |= slice_has_word(SLICE("TRASH SPAM"), label);
    }
    bool is_after = !after.len;
    /* Mails after the page are only counted, up to ESTIMATE_MAX. */
    RECORD_EACH(&gmail->app.store.order, mail, order_link) {
        bool is_token = slice_eq_cstr(after, mail->id);
        if (more && items.count + more >= ESTIMATE_MAX)
            break;
        is_after |= gmail_mail(mail)->time_ms < after_ms && after.len;
        if (is_after && !is_token && is_listed(call, &listing, mail) &&
            (call->route->kind != GMAIL_THREAD || is_thread_head(call, &listing, mail))) {
            more += items.count == max;
            if (!more) {
                json_array_push(call->arena, &items, show_item(call, mail));
                last = mail;
            }
        }
        is_after |= is_token;
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

static struct record *target(const struct call *call, uint32_t i)
{
    return gmail_find(call->provider->gmail, GMAIL_MESSAGE, json_str(json_at(&call->ids, i)));
}

/* Checks the labels (mail NULL), or sets them in the mail. */
static bool set_labels(struct call *call, const struct json *change, const char *key,
                       struct record *mail)
{
    struct gmail *gmail = call->provider->gmail;
    const struct json *ids = json_given(change, slice_cstr(key));
    for (uint32_t i = 0; ids && i < ids->count; i++) {
        slice id = json_str(json_at(ids, i));
        const struct record *label = gmail_find(gmail, GMAIL_LABEL, id);
        /* Only Gmail itself sets these labels. */
        if (!label || slice_has_word(SLICE("SENT DRAFT"), id))
            return call_bad(call, label ? "Invalid label: %.*s" : "labelId not found: %.*s",
                            SLICE_ARG(id));
        if (mail)
            gmail_label_set(gmail, mail, slice_cstr(label->id), !strcmp(key, "addLabelIds"));
    }
    return true;
}

/* Changes labels as the body, or the last segment of the path, requests. */
static bool modify(struct call *call)
{
    slice verb = call->http->segments[call->http->segment_count - 1];
    const struct json *named = json_get(JSON_GET(call->app->data, "changes"), verb);
    const struct json *change = named ? named : call->body;
    const struct record *first = target(call, 0);
    if (!set_labels(call, change, "addLabelIds", NULL) ||
        !set_labels(call, change, "removeLabelIds", NULL))
        return false;
    if (!json_at(JSON_GET(change, "addLabelIds"), 0) &&
        !json_at(JSON_GET(change, "removeLabelIds"), 0))
        return call_bad(call, "No label add or removes specified");
    for (uint32_t i = 0; i < call->ids.count; i++) {
        (void)set_labels(call, change, "removeLabelIds", target(call, i));
        (void)set_labels(call, change, "addLabelIds", target(call, i));
    }
    if (call->route->kind == GMAIL_BATCH)
        return removed(call, slice_cstr(first->id), first->label);
    call_record(call, slice_cstr(first->id), first->label);
    return reply_target(call, &brief);
}

static bool delete_mails(struct call *call)
{
    const struct record *first = target(call, 0);
    bool is_draft = call->route->kind == GMAIL_A_DRAFT;
    removed(call, is_draft ? gmail_mail(first)->draft_id : slice_cstr(first->id), first->label);
    for (uint32_t i = 0; i < call->ids.count; i++)
        if (target(call, i)) /* an id may occur twice */
            gmail_delete(call->provider->gmail, target(call, i));
    return true;
}

/* ---- sending, drafts: a mail comes as base64url in `raw` ---- */

/* A mail that a request contains or causes to be sent. */
struct letter {
    struct gmail_new new;
    struct mime_part head;
};

static bool unreadable(struct call *call, const struct err *err)
{
    return call_bad(call, "The message could not be parsed: %s", err->text);
}

/* message is the JSON that contains the mail. It may omit what the letter already has. Returns
 * false if it has answered the request. */
static bool read_letter(struct call *call, const struct json *message, struct letter *letter)
{
    struct gmail_new *new = &letter->new;
    slice text = json_get_str(message, SLICE("raw")), id = json_get_str(message, SLICE("threadId"));
    struct buf out;
    struct err err = {0};
    while (slice_ends_with(text, SLICE("=")))
        text.len--;
    buf_init(&out, text.len + 1);
    bool is_decoded = decode_base64url(&out, text) == OK;
    slice raw = arena_take(call->arena, &out);
    if (!is_decoded)
        return call_bad(
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

/* Inserts the mail, with the headers that Gmail adds when it sends. Returns NULL if it has answered
 * the request. */
static struct record *insert(struct call *call, struct letter *letter)
{
    struct gmail *gmail = call->provider->gmail;
    const struct mime_part *head = &letter->head;
    struct gmail_new *new = &letter->new;
    int64_t now_ms = call->now_us / 1000;
    struct err err = {0};
    slice fresh = arena_printf(call->arena, "CA%016llx%08llx",
                               (unsigned long long)rng_next(&call->provider->rng),
                               (unsigned long long)gmail->history_id);
    struct json scope =
        OBJECT(call->arena, "id date from fresh time_ms",
               json_string(mime_header(head, "Message-ID")), json_string(mime_header(head, "Date")),
               json_string(mime_header(head, "From")), json_string(fresh), json_i64(now_ms));
    struct json added = shapes_make(&gmail->app.shapes, call->arena, SLICE("sent"), &scope);
    new->raw =
        arena_printf(call->arena, "%.*s%.*s", SLICE_ARG(json_str(&added)), SLICE_ARG(new->raw));
    new->time_ms = now_ms > gmail->last_ms ? now_ms : gmail->last_ms;
    new->is_made = true;
    struct record *mail = gmail_insert(gmail, new, &err);
    if (!mail)
        unreadable(call, &err);
    return mail;
}

/* Replies with the new mail. */
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
            return call_bad(call, "Invalid %s header", fields[i]);
    }
    return total || call_bad(call, "Recipient address required");
}

static bool send_letter(struct call *call, const struct json *message, struct letter *letter)
{
    const struct gmail *gmail = call->provider->gmail;
    struct gmail_new *new = &letter->new;
    bool is_self;
    if (!read_letter(call, message, letter) || !read_recipients(call, &letter->head, &is_self))
        return false;
    if (new->raw.len > GMAIL_MESSAGE_BYTES_MAX)
        return call_fail(call, 413, "large", SLICE_NONE);
    new->labels = *json_get(JSON_GET(gmail->app.data, "sent_labels"),
                            is_self ? SLICE("self") : SLICE("others"));
    struct record *mail = insert(call, letter);
    return mail && reply_new(call, mail, GMAIL_MESSAGE);
}

static bool send_mail(struct call *call)
{
    struct letter letter = {0};
    return send_letter(call, call->body, &letter);
}

/* Creates a draft, or replaces the content of the draft that the path names. A draft needs no
 * recipient, only a mail that can be parsed. */
static bool write_draft(struct call *call)
{
    struct gmail *gmail = call->provider->gmail;
    struct letter letter = {.new.labels = *JSON_GET(gmail->app.data, "draft_labels")};
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

/* Deletes the draft, and adds a new message with SENT in its place. A `message` in the request
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

/* Replies with {key: [...]}, or with {} if the list is empty, as Gmail does. */
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
    int64_t messages = 0, unread = 0, threads = 0, threads_unread = 0;
    RECORD_EACH(&call->provider->gmail->app.store.roots, thread, sibling_link) {
        int64_t messages_before = messages, unread_before = unread;
        RECORD_EACH(&thread->children, mail, sibling_link) {
            bool is_counted = gmail_has(mail, slice_cstr(call->record->id));
            messages += is_counted;
            unread += is_counted && gmail_has(mail, SLICE("UNREAD"));
        }
        threads += messages > messages_before;
        threads_unread += unread > unread_before;
    }
    struct json scope = OBJECT(call->arena, "label messages unread threads threads_unread",
                               call->record->json, json_i64(messages), json_i64(unread),
                               json_i64(threads), json_i64(threads_unread));
    return reply_shape(call, SLICE("counted"), &scope);
}

static bool profile(struct call *call)
{
    const struct gmail *gmail = call->provider->gmail;
    char room[SLICE_U64_MAX];
    struct json scope = OBJECT(
        call->arena, "messages threads history", json_u64(gmail->numbers[GMAIL_MESSAGE]),
        json_u64(gmail->numbers[GMAIL_THREAD]), json_string(slice_of_u64(gmail->history_id, room)));
    return reply_shape(call, SLICE("profile"), &scope);
}

/* Writes a label or a setting. gmail.json defines which bodies are refused, and how a body
 * becomes a record. */
static bool write_record(struct call *call)
{
    struct gmail *gmail = call->provider->gmail;
    const struct json *write =
        json_get(JSON_GET(gmail->app.data, "writes"), slice_cstr(call->route->name));
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
            return reason
                       ? call_fail(call, 409, "taken", json_str(message))
                       : call_bad(call, "%.*s",
                                  SLICE_ARG(message ? json_str(message) : SLICE("Invalid value")));
    }
    struct json json = provider_eval(call->arena, JSON_GET(write, "value"), &scope);
    if (!call->record)
        call->record = gmail_add(gmail, kind, json_get_str(&json, SLICE("id")), &json);
    record_set(call->record, &json, json_get_str(&json, SLICE("name")));
    call_record(call, slice_cstr(call->record->id), call->record->label);
    return call_reply(call, 200, &call->record->json); /* json may share memory with the value
                                                        * that was replaced */
}

static bool delete_record(struct call *call)
{
    struct gmail *gmail = call->provider->gmail;
    struct record *record = call->record;
    bool is_label = record->kind == GMAIL_LABEL;
    if (is_label && !slice_starts_with(slice_cstr(record->id), SLICE("Label_")))
        return call_bad(call, "Invalid delete request");
    RECORD_EACH(&gmail->app.store.order, mail, order_link)
        gmail_label_set(gmail, mail, slice_cstr(record->id), false);
    removed(call, slice_cstr(record->id), record->label);
    record_free(&gmail->app.store, record);
    return true;
}

/* ---- a request ---- */

/* Any of the scopes is sufficient. */
#define READ_SCOPES    "full modify readonly"
#define MODIFY_SCOPES  "full modify"
#define COMPOSE_SCOPES MODIFY_SCOPES " compose"
#define SEND_SCOPES    COMPOSE_SCOPES " send"
#define SETTINGS_VIEW  READ_SCOPES " settings"
#define DRAFT_SCOPES   READ_SCOPES " compose"
#define LABEL_VIEW     READ_SCOPES " labels"
#define LABEL_SCOPES   MODIFY_SCOPES " labels"

/* The paths after users/{userId}/. */
static const struct route routes[] = {
    {GET, "messages", list, READ_SCOPES, GMAIL_MESSAGE, "list"},
    {POST, "messages/send", send_mail, SEND_SCOPES, GMAIL_NONE, "messages.send"},
    {POST, "messages/batchModify", modify, MODIFY_SCOPES, GMAIL_BATCH, "messages.batchModify"},
    {POST, "messages/batchDelete", delete_mails, "full", GMAIL_BATCH, "messages.batchDelete"},
    {GET, "messages/*", get, READ_SCOPES, GMAIL_MESSAGE, NULL},
    {DELETE, "messages/*", delete_mails, "full", GMAIL_MESSAGE, "messages.delete"},
    {POST, "messages/*/modify", modify, MODIFY_SCOPES, GMAIL_MESSAGE, "messages.modify"},
    {POST, "messages/*/trash", modify, MODIFY_SCOPES, GMAIL_MESSAGE, "messages.trash"},
    {POST, "messages/*/untrash", modify, MODIFY_SCOPES, GMAIL_MESSAGE, "messages.untrash"},
    {GET, "messages/*/attachments/*", attachment, READ_SCOPES, GMAIL_MESSAGE, NULL},
    {GET, "threads", list, READ_SCOPES, GMAIL_THREAD, "list"},
    {GET, "threads/*", get, READ_SCOPES, GMAIL_THREAD, NULL},
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
    {GET, "profile", profile, DRAFT_SCOPES, GMAIL_NONE, NULL},
    {GET, "drafts", list, DRAFT_SCOPES, GMAIL_A_DRAFT, "list"},
    {POST, "drafts", write_draft, COMPOSE_SCOPES, GMAIL_NONE, "drafts.create"},
    {POST, "drafts/send", send_draft, COMPOSE_SCOPES, GMAIL_A_DRAFT, "drafts.send"},
    {GET, "drafts/*", get, DRAFT_SCOPES, GMAIL_A_DRAFT, NULL},
    {PUT, "drafts/*", write_draft, COMPOSE_SCOPES, GMAIL_A_DRAFT, "drafts.update"},
    {DELETE, "drafts/*", delete_mails, COMPOSE_SCOPES, GMAIL_A_DRAFT, "drafts.delete"},
    {GET, "history", history, READ_SCOPES, GMAIL_NONE, "history"},
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
    const struct token *token = tokens_find(call->provider->tokens, call->app->name, call->http);
    if (!token)
        return call_error(call, 401);
    if (!token_may(token, call->route->scopes))
        return call_fail(call, 403, "scope", SLICE_NONE);
    if (!slice_eq(user, SLICE("me")) && !slice_eq_nocase(user, SLICE(GMAIL_ADDRESS)))
        return call_fail(call, 403, "forbidden", SLICE_NONE);
    return true;
}

static bool find_mail(struct call *call, slice id)
{
    bool is_hex = id.len > 0 && id.len <= GMAIL_ID_LEN;
    for (size_t i = 0; i < id.len; i++)
        is_hex &= ascii_is_hex(id.ptr[i]);
    call->record = gmail_find(call->provider->gmail, GMAIL_MESSAGE, id);
    return call->record || (is_hex ? not_found(call) : call_bad(call, "Invalid id value"));
}

static bool find_draft(struct call *call)
{
    slice id = call->id.ptr ? call->id : json_str(call_get(call, "id"));
    RECORD_EACH(&call->provider->gmail->app.store.order, mail, order_link)
        if (id.len && slice_eq(id, gmail_mail(mail)->draft_id))
            call->record = mail;
    return call->record || not_found(call);
}

/* Finds the record of the id in the path or the body, and the ids of the mails to change. Returns
 * false if it has answered the request. */
static bool find_target(struct call *call)
{
    unsigned kind = call->route->kind;
    const struct gmail *gmail = call->provider->gmail;
    call->ids = json_array();
    if (kind == GMAIL_NONE)
        return true;
    if (kind == GMAIL_BATCH) {
        call->ids = *call_get(call, "ids");
        for (uint32_t i = 0; i < call->ids.count; i++)
            if (!find_mail(call, json_str(json_at(&call->ids, i))))
                return false;
        return true;
    }
    if (kind == GMAIL_MESSAGE ? !find_mail(call, call->id)
                              : kind == GMAIL_A_DRAFT && !find_draft(call))
        return false;
    if (!call->record)
        call->record = gmail_find(gmail, (enum gmail_kind)kind,
                                  kind == GMAIL_VACATION ? SLICE("vacation") : call->id);
    if (!call->record)
        return not_found(call);
    if (kind != GMAIL_THREAD)
        json_array_push(call->arena, &call->ids, json_string(slice_cstr(call->record->id)));
    RECORD_EACH(&call->record->children, mail, sibling_link)
        json_array_push(call->arena, &call->ids, json_string(slice_cstr(mail->id)));
    return true;
}

void gmail_handle(struct call *call)
{
    static const char prefix[] = "gmail/v1/users/";
    const struct http_exchange *http = call->http;
    bool is_found =
        slice_starts_with(slice_from(http->head.path, 1), slice_cstr(prefix)) &&
        http->segment_count > 4 &&
        call_route(call, routes, ARRAY_LEN(routes), http->segments + 4, http->segment_count - 4);
    if (!is_found) /* the error of Google's front end, which is not JSON */
        reply_text(call->reply, 404, SLICE("text/html; charset=UTF-8"),
                   json_get_str(call->app->data, SLICE("no_route")));
    else if (check_access(call, http->segments[3]) && call_body(call) &&
             (call->route->run == list || call->route->run == list_records || find_target(call)))
        call->route->run(call);
}
