/*
 * The mailbox: mails, their threads, labels and settings, and its first state. Mail k (from 1) of
 * gmail.json has the id 19a4b6c7d8e90000 plus k, whatever the seed and the day, so that
 * documentation and examples can name it; manifests' examples rely on these ids:
 *   1, 2 read; 3 has an invoice attached as part 1; 4 begins a thread; 5, 6, 7 unread in the inbox;
 *   0x38 and 0x39 to be trashed and deleted; 0x3c is in the trash.
 */
#include <stdio.h>

#include "base/ascii.h"
#include "base/clock.h"
#include "base/mem.h"
#include "provider/gmail.h"

enum { SNIPPET_BYTES_MAX = 200 };

const char *const gmail_kind_names[] = {
    [GMAIL_MESSAGE] = "messages", [GMAIL_THREAD] = "threads", [GMAIL_LABEL] = "labels",
    [GMAIL_FILTER] = "filter",    [GMAIL_SENDER] = "sendAs",  [GMAIL_VACATION] = "vacation",
    [GMAIL_A_DRAFT] = "drafts"};

struct gmail *gmail_new(struct provider *provider)
{
    struct gmail *gmail = mem_zalloc(sizeof(*gmail));
    ASSERT(gmail);
    gmail->provider = provider;
    gmail->history_id = 1000;
    app_init(&gmail->app, "gmail", gmail_handle, GMAIL_MESSAGES_MAX);
    for (size_t i = 0; i < GMAIL_KINDS; i++)
        list_init(&gmail->kinds[i]);
    return gmail;
}

void gmail_free(struct gmail *gmail)
{
    app_deinit(&gmail->app);
    mem_free(gmail);
}

struct record *gmail_add(struct gmail *gmail, enum gmail_kind kind, slice id,
                         const struct json *json)
{
    struct record *record = record_new(&gmail->app.store, id, kind, NULL, false);
    record_set(record, json, json_get_str(json, SLICE("name")));
    list_push_back(&gmail->kinds[kind], &record->order_link);
    gmail->numbers[kind]++;
    return record;
}

struct record *gmail_find(const struct gmail *gmail, enum gmail_kind kind, slice id)
{
    char text[GMAIL_ID_LEN + 1];
    bool is_thread = kind == GMAIL_THREAD;
    if (kind <= GMAIL_THREAD) {
        if (!id.len || id.len > GMAIL_ID_LEN)
            return NULL;
        memset(text, '0', sizeof(text));
        text[0] = 't';
        for (size_t i = 0; i < id.len; i++)
            text[sizeof(text) - id.len + i] = ascii_lower(id.ptr[i]);
        id = slice_of(text + !is_thread, GMAIL_ID_LEN + is_thread);
    }
    struct record *record = store_find(&gmail->app.store, id);
    return record && record->kind == kind ? record : NULL;
}

/* ---- labels ---- */

/* Compares as in a search: case is ignored, and space, slash and dash are equal. */
static bool is_same_name(slice a, slice b)
{
    bool is_same = a.len == b.len;
    for (size_t i = 0; is_same && i < a.len; i++)
        is_same = ascii_lower(a.ptr[i]) == ascii_lower(b.ptr[i]) ||
                  (strchr(" /-", a.ptr[i]) && strchr(" /-", b.ptr[i]));
    return is_same;
}

struct record *gmail_label_named(const struct gmail *gmail, slice name)
{
    RECORD_EACH(&gmail->kinds[GMAIL_LABEL], label, order_link)
        if (is_same_name(label->label, name))
            return label;
    return NULL;
}

static struct json *labels_of(const struct record *mail)
{
    return (struct json *)(uintptr_t)JSON_GET(&mail->json, "labelIds");
}

bool gmail_has(const struct record *mail, slice label)
{
    return json_has_text(labels_of(mail), label);
}

static void touch(struct gmail *gmail, struct record *mail)
{
    json_object_put(&mail->arena, &mail->json, SLICE("historyId"),
                    json_string(slice_of_u64(++gmail->history_id, gmail_mail(mail)->history)));
}

void gmail_label_set(struct gmail *gmail, struct record *mail, slice label, bool is_on)
{
    struct json *labels = labels_of(mail);
    uint32_t at = 0;
    if (is_on == gmail_has(mail, label) || (is_on && labels->count == GMAIL_MESSAGE_LABELS_MAX))
        return;
    if (is_on) {
        json_array_push(&mail->arena, labels, json_string_dup(&mail->arena, label));
    } else {
        while (!slice_eq(json_str(json_at(labels, at)), label))
            at++;
        labels->count--;
        memmove(labels->as.items + at, labels->as.items + at + 1,
                (labels->count - at) * sizeof(struct json));
    }
    touch(gmail, mail);
}

/* ---- mails ---- */

/* Returns the first words on one line, HTML-escaped as Gmail does. */
static slice make_snippet(struct arena *arena, slice text)
{
    static const char special[] = "&<>\"'";
    static const char *const escapes[] = {"&amp;", "&lt;", "&gt;", "&quot;", "&#39;"};
    struct buf out;
    buf_init(&out, SNIPPET_BYTES_MAX * 6);
    text = slice_first_utf8(slice_trim(text), SNIPPET_BYTES_MAX);
    bool is_gap = false;
    for (size_t i = 0; i < text.len; i++) {
        char c = text.ptr[i];
        const char *found = c ? strchr(special, c) : NULL;
        bool is_space = c == ' ' || c == '\n' || c == '\r' || c == '\t';
        if (is_gap && !is_space)
            buf_append_char(&out, ' ');
        is_gap = is_space;
        if (found)
            buf_append_cstr(&out, escapes[found - special]);
        else if (!is_space)
            buf_append_char(&out, c);
    }
    return arena_take(arena, &out);
}

/* Prepares all texts that a search scans. */
static void prepare_words(struct arena *arena, struct gmail_mail *mail, slice body)
{
    const struct mime_part *payload = &mail->payload;
    slice names = SLICE("");
    for (const struct mime_part *part = payload; part; part = part->next) {
        mail->has_attachment |= part->filename.len > 0;
        if (part->filename.len)
            names = arena_printf(arena, "%.*s %.*s", SLICE_ARG(names), SLICE_ARG(part->filename));
    }
    slice to = arena_printf(arena, "%.*s, %.*s, %.*s", SLICE_ARG(mime_header(payload, "To")),
                            SLICE_ARG(mime_header(payload, "Cc")),
                            SLICE_ARG(mime_header(payload, "Bcc")));
    slice from = mime_header(payload, "From"), subject = mime_header(payload, "Subject");
    const slice texts[] = {from, to, subject, names,
                           arena_printf(arena, "%.*s\n%.*s\n%.*s\n%.*s\n%.*s", SLICE_ARG(from),
                                        SLICE_ARG(to), SLICE_ARG(subject), SLICE_ARG(names),
                                        SLICE_ARG(body))};
    for (size_t i = 0; i < GMAIL_FIELDS; i++)
        mail->words[i] = gmail_words_of(arena, texts[i]);
}

/* Finds the mail that this mail answers. Returns NULL if there is none. */
static struct record *find_parent(const struct gmail *gmail, const struct mime_part *payload)
{
    const slice headers[] = {mime_header(payload, "In-Reply-To"),
                             mime_header(payload, "References")};
    for (size_t i = 0; i < ARRAY_LEN(headers); i++) {
        slice rest = headers[i];
        while (rest.len) {
            slice id = slice_trim(slice_split(&rest, ' '));
            RECORD_EACH(&gmail->app.store.order, mail, order_link)
                if (id.len &&
                    slice_eq(slice_trim(mime_header(&gmail_mail(mail)->payload, "Message-ID")), id))
                    return mail;
        }
    }
    return NULL;
}

/* Reads the mail into mail->more and mail->json. */
static int read_mail(struct gmail *gmail, struct record *mail, const struct gmail_new *new,
                     struct err *err)
{
    struct arena *arena = &mail->arena;
    struct gmail_mail *more = mail->more = ARENA_NEW(arena, struct gmail_mail);
    if (!more)
        return err_set(err, ERR_NOMEM, "out of memory");
    more->time_ms = new->time_ms;
    more->draft_id = new->draft_id.ptr ? arena_dup(arena, new->draft_id) : SLICE_NONE;
    more->raw = arena_dup(arena, new->raw);
    /* Google's ids are opaque; these consist of a prefix, the message's id and the part's. */
    slice prefix = arena_printf(arena, "ANGjdJ%s", mail->id + 1);
    int status = mime_parse(arena, more->raw, prefix, &more->payload, err);
    if (status != OK)
        return status;
    const struct mime_part *text = mime_find(&more->payload, "text/plain");
    const struct mime_part *html = text ? NULL : mime_find(&more->payload, "text/html");
    struct json page = json_string(html ? html->body : SLICE(""));
    page = html ? shapes_make(&gmail->app.shapes, arena, SLICE("html_text"), &page) : page;
    slice body = text ? text->body : json_str(&page);
    prepare_words(arena, more, body);
    mail->label = mime_header(&more->payload, "Subject");
    mail->json =
        OBJECT(arena, "id threadId labelIds snippet payload sizeEstimate historyId internalDate",
               json_string(slice_cstr(mail->id)), json_null, json_array(),
               json_string(make_snippet(arena, body)), more->payload.json, json_u64(more->raw.len),
               json_null, json_string(arena_printf(arena, "%lld", (long long)more->time_ms)));
    return arena->is_exhausted ? err_set(err, ERR_NOMEM, "out of memory") : OK;
}

/* Enters the mail below its thread and in order of time. */
static void enter(struct gmail *gmail, struct record *mail, const struct gmail_new *new)
{
    struct record *answered = new->thread ? NULL : find_parent(gmail, &gmail_mail(mail)->payload);
    struct record *thread = new->thread ? new->thread : answered ? answered->parent : NULL;
    char id[GMAIL_ID_LEN + 1];
    gmail->numbers[GMAIL_MESSAGE]++;
    gmail->numbers[GMAIL_THREAD] += !thread;
    if (!thread)
        thread = record_new(&gmail->app.store, SLICE_JOIN(id, SLICE("t"), slice_cstr(mail->id)),
                            GMAIL_THREAD, NULL, false);
    struct list *older = gmail->app.store.order.next, *before = &thread->children;
    while (older != &gmail->app.store.order &&
           gmail_mail(LIST_ITEM(older, struct record, order_link))->time_ms > new->time_ms)
        older = older->next;
    list_push_back(older, &mail->order_link);
    while (before->prev != &thread->children &&
           gmail_mail(LIST_ITEM(before->prev, struct record, sibling_link))->time_ms > new->time_ms)
        before = before->prev;
    record_move(&gmail->app.store, mail, thread, before);
    json_object_put(&mail->arena, &mail->json, SLICE("threadId"),
                    json_string(slice_cstr(thread->id + 1)));
}

struct record *gmail_insert(struct gmail *gmail, const struct gmail_new *new, struct err *err)
{
    char room[GMAIL_ID_LEN + 1];
    slice id = new->id;
    while (gmail->app.store.made_count >= gmail->app.store.made_max)
        gmail_delete(gmail, LIST_ITEM(gmail->app.store.made.next, struct record, made_link));
    while (!id.ptr || store_find(&gmail->app.store, id)) {
        /* As in Google's ids, the high bits are milliseconds, so that ids grow with time. */
        uint64_t high = (uint64_t)(new->time_ms) << 20;
        (void)snprintf(room, sizeof(room), "%016llx",
                       (unsigned long long)(high | rng_below(&gmail->provider->rng, 1 << 20)));
        id = slice_cstr(room);
    }
    struct record *mail = record_new(&gmail->app.store, id, GMAIL_MESSAGE, NULL, new->is_made);
    if (read_mail(gmail, mail, new, err) != OK) {
        record_free(&gmail->app.store, mail);
        return NULL;
    }
    enter(gmail, mail, new);
    touch(gmail, mail);
    for (uint32_t i = 0; i < new->labels.count; i++)
        gmail_label_set(gmail, mail, json_str(json_at(&new->labels, i)), true);
    if (new->time_ms > gmail->last_ms)
        gmail->last_ms = new->time_ms;
    return mail;
}

void gmail_delete(struct gmail *gmail, struct record *mail)
{
    struct record *thread = mail->parent;
    gmail->history_id++;
    record_free(&gmail->app.store, mail);
    gmail->numbers[GMAIL_MESSAGE]--;
    gmail->numbers[GMAIL_THREAD] -= list_is_empty(&thread->children);
    if (list_is_empty(&thread->children))
        record_free(&gmail->app.store, thread);
}

struct record *gmail_receive(struct gmail *gmail, const struct json *mail, int64_t now_us,
                             struct arena *arena, struct err *err)
{
    const struct json *labels = JSON_GET(mail, "labels");
    struct json scope =
        OBJECT(arena, "mail id", *mail, json_i64((int64_t)(rng_next(&gmail->provider->rng) >> 1)));
    struct json raw = shapes_make(&gmail->app.shapes, arena, SLICE("received"), &scope);
    struct gmail_new new = {.raw = json_str(&raw),
                            .labels =
                                *(labels ? labels : JSON_GET(gmail->app.data, "received_labels")),
                            .is_made = true};
    for (uint32_t i = 0; i < new.labels.count; i++)
        if (!gmail_find(gmail, GMAIL_LABEL, json_str(json_at(&new.labels, i))))
            return err_null(err, ERR_INVALID, "an unknown label");
    if (!time_parse(json_get_str(mail, SLICE("date")), &now_us))
        ASSERT(now_us);
    new.time_ms = now_us / 1000;
    return gmail_insert(gmail, &new, err);
}

/* ---- the first state ---- */

/* Creates the k-th mail from the parts of gmail.json, each of which may use the previous parts. */
static void add_mail(struct gmail *gmail, size_t k, int64_t now_us, struct arena *arena)
{
    const struct json *row = json_at(JSON_GET(gmail->app.data, "mails"), k - 1);
    int64_t jitter_ms = (int64_t)rng_below(&gmail->provider->rng, 40 * 60 * 1000);
    struct gmail_new new = {
        .id = arena_printf(arena, "%llx", 0x19a4b6c7d8e90000 + (unsigned long long)k),
        .time_ms = now_us / 1000 - json_get_i64(row, SLICE("hours_ago"), 0) * 3600000 - jitter_ms};
    struct json scope =
        OBJECT(arena, "row id time_ms", *row, json_string(new.id), json_i64(new.time_ms));
    struct err err;
    for (uint32_t i = 0; i < gmail->parts.data->count; i++) {
        slice name = json_str(&gmail->parts.data->as.members[i].key);
        json_object_set(arena, &scope, name, shapes_make(&gmail->parts, arena, name, &scope));
    }
    new.raw = json_get_str(&scope, SLICE("mail"));
    new.draft_id = json_get_str(row, SLICE("draft_id"));
    new.labels = *JSON_GET(row, "labels");
    ASSERT(gmail_insert(gmail, &new, &err));
}

/* Labels and settings. */
static void add_records(struct gmail *gmail)
{
    for (enum gmail_kind kind = GMAIL_LABEL; kind < GMAIL_KINDS; kind++) {
        const struct json *rows = json_get(gmail->app.data, slice_cstr(gmail_kind_names[kind]));
        for (uint32_t i = 0; i < rows->count; i++) {
            struct json json = *json_at(rows, i);
            slice address = json_get_str(&json, SLICE("sendAsEmail"));
            slice id = address.ptr ? address : json_get_str(&json, SLICE("id"));
            if (kind == GMAIL_LABEL)
                json = shapes_make(&gmail->app.shapes, &gmail->app.arena, SLICE("label"), &json);
            gmail_add(gmail, kind, id.ptr ? id : slice_cstr(gmail_kind_names[kind]), &json);
        }
    }
    gmail->numbers[GMAIL_LABEL] = 1; /* numbers of labels that users created */
}

void gmail_seed(struct gmail *gmail, int64_t now_us)
{
    uint32_t count = JSON_GET(gmail->app.data, "mails")->count;
    shapes_init(&gmail->parts, &gmail->app.arena, JSON_GET(gmail->app.data, "parts"));
    add_records(gmail);
    /* The oldest mails come first, and the first mail of a thread before its answers. */
    for (uint32_t i = 2 * count; i > 0; i--) {
        struct arena arena;
        uint32_t k = (i - 1) % count;
        arena_init(&arena, 1024 * 1024);
        if (!JSON_GET(json_at(JSON_GET(gmail->app.data, "mails"), k), "thread") == (i > count))
            add_mail(gmail, k + 1, now_us, &arena);
        arena_deinit(&arena);
    }
}
