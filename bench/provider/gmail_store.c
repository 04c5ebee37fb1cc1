/*
 * The mailbox: adding and removing messages, and the labels and threads that refer to them.
 */
#include <stdio.h>

#include "base/ascii.h"
#include "base/mem.h"
#include "provider/gmail.h"

enum { SNIPPET_BYTES_MAX = 200, ARENA_BYTES_SPARE = 4 * 1024 * 1024 };

struct gmail *gmail_new(struct provider *provider)
{
    struct gmail *gmail = mem_zalloc(sizeof(*gmail));
    if (!gmail)
        return NULL;
    gmail->provider = provider;
    gmail->history_id = 1000;
    arena_init(&gmail->arena, GMAIL_SETTINGS_BYTES_MAX);
    buf_init(&gmail->label_list, PROVIDER_REPLY_BYTES_MAX);
    size_t max = GMAIL_MESSAGES_MAX * 4;
    map_init(&gmail->messages, max);
    map_init(&gmail->threads, max);
    map_init(&gmail->message_ids, max);
    return gmail;
}

static void free_message(struct gmail_message *message)
{
    arena_deinit(&message->arena);
    mem_free(message);
}

static void free_threads(struct gmail *gmail)
{
    MAP_EACH(&gmail->threads, slot) {
        struct gmail_thread *thread = slot->value;
        mem_free((void *)thread->order.items);
        mem_free(thread);
    }
}

void gmail_free(struct gmail *gmail)
{
    if (!gmail)
        return;
    for (size_t i = 0; i < gmail->all.count; i++)
        free_message(gmail->all.items[i]);
    free_threads(gmail);
    for (unsigned i = 0; i < gmail->label_count; i++) {
        mem_free((void *)gmail->labels[i]->order.items);
        mem_free(gmail->labels[i]);
    }
    mem_free((void *)gmail->all.items);
    buf_deinit(&gmail->label_list);
    arena_deinit(&gmail->arena);
    map_deinit(&gmail->messages);
    map_deinit(&gmail->threads);
    map_deinit(&gmail->message_ids);
    mem_free(gmail);
}

static slice id_key(const char text[GMAIL_ID_TEXT_LEN + 1])
{
    return slice_of(text, GMAIL_ID_TEXT_LEN);
}

static void id_format(uint64_t id, char out[GMAIL_ID_TEXT_LEN + 1])
{
    (void)snprintf(out, GMAIL_ID_TEXT_LEN + 1, "%016llx", (unsigned long long)id);
}

/* Ids are shown as 16 digits; shorter and upper-case spellings are understood. */
static void *find(const struct map *map, slice id)
{
    char text[GMAIL_ID_TEXT_LEN + 1];
    if (!id.len || id.len > GMAIL_ID_TEXT_LEN)
        return NULL;
    memset(text, '0', sizeof(text));
    for (size_t i = 0; i < id.len; i++)
        text[GMAIL_ID_TEXT_LEN - id.len + i] = ascii_lower(id.ptr[i]);
    return map_get(map, id_key(text));
}

struct gmail_message *gmail_find(const struct gmail *gmail, slice id)
{
    return find(&gmail->messages, id);
}

struct gmail_thread *gmail_find_thread(const struct gmail *gmail, slice id)
{
    return find(&gmail->threads, id);
}

/* Like Google's: milliseconds in the high bits, so that ids grow with time. */
static uint64_t id_new(struct gmail *gmail, int64_t time_ms)
{
    char text[GMAIL_ID_TEXT_LEN + 1];
    uint64_t id;
    do {
        id = (uint64_t)time_ms << 20 | rng_below(&gmail->provider->rng, 1 << 20);
        id_format(id, text);
    } while (map_get(&gmail->messages, id_key(text)));
    return id;
}

/* ---- orders: by (internalDate, id), old to new ---- */

static bool is_before(const struct gmail_message *message, int64_t time_ms, uint64_t id)
{
    return message->time_ms < time_ms || (message->time_ms == time_ms && message->id < id);
}

size_t gmail_order_rank(const struct gmail_order *order, int64_t time_ms, uint64_t id)
{
    size_t low = 0, high = order->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (is_before(order->items[middle], time_ms, id))
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static bool insert_in_order(struct gmail_order *order, struct gmail_message *message)
{
    if (order->count == order->cap) {
        size_t cap = order->cap ? order->cap * 2 : 8;
        struct gmail_message **items =
            mem_realloc((void *)order->items, cap * sizeof(struct gmail_message *));
        if (!items)
            return false;
        order->items = items;
        order->cap = cap;
    }
    size_t rank = gmail_order_rank(order, message->time_ms, message->id);
    ASSERT(rank == order->count || order->items[rank] != message);
    memmove((void *)(order->items + rank + 1), (void *)(order->items + rank),
            (order->count - rank) * sizeof(*order->items));
    order->items[rank] = message;
    order->count++;
    return true;
}

static void remove_in_order(struct gmail_order *order, const struct gmail_message *message)
{
    size_t rank = gmail_order_rank(order, message->time_ms, message->id);
    ASSERT(rank < order->count && order->items[rank] == message);
    order->count--;
    memmove((void *)(order->items + rank), (void *)(order->items + rank + 1),
            (order->count - rank) * sizeof(*order->items));
}

void gmail_touch(struct gmail *gmail, struct gmail_message *message)
{
    message->history_id = ++gmail->history_id;
}

bool gmail_has(const struct gmail_message *message, const struct gmail_label *label)
{
    if (label->number < GMAIL_SYSTEM_LABELS)
        return message->flags >> label->number & 1;
    for (unsigned i = 0; i < message->label_count; i++)
        if (message->labels[i] == label)
            return true;
    return false;
}

bool gmail_label_add(struct gmail_message *message, struct gmail_label *label)
{
    if (gmail_has(message, label) || message->label_count == GMAIL_MESSAGE_LABELS_MAX ||
        !insert_in_order(&label->order, message))
        return false;
    message->labels[message->label_count++] = label;
    if (label->number < GMAIL_SYSTEM_LABELS)
        message->flags |= UINT32_C(1) << label->number;
    return true;
}

bool gmail_label_remove(struct gmail_message *message, struct gmail_label *label)
{
    unsigned i = 0;
    while (i < message->label_count && message->labels[i] != label)
        i++;
    if (i == message->label_count)
        return false;
    message->label_count--;
    memmove((void *)(message->labels + i), (void *)(message->labels + i + 1),
            (message->label_count - i) * sizeof(*message->labels));
    remove_in_order(&label->order, message);
    if (label->number < GMAIL_SYSTEM_LABELS)
        message->flags &= ~(UINT32_C(1) << label->number);
    return true;
}

/* Text of HTML, good enough for a snippet and for search: tags are spaces. */
static slice strip_tags(struct arena *arena, slice html)
{
    char *out = arena_cstr(arena, html);
    bool is_in_tag = false;
    for (char *c = out; c && *c; c++) {
        is_in_tag |= *c == '<';
        bool is_end = *c == '>';
        if (is_in_tag)
            *c = ' ';
        is_in_tag &= !is_end;
    }
    return slice_cstr(out);
}

/* The first words on one line, HTML-escaped as Gmail does. */
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

/* All texts that a search scans, prepared once. */
static void prepare_words(struct gmail_message *message, slice body)
{
    struct arena *arena = &message->arena;
    const struct mime_part *payload = &message->payload;
    slice texts[GMAIL_FIELD_ALL] = {
        [GMAIL_FIELD_FROM] = mime_header(payload, "From"),
        [GMAIL_FIELD_TO] = arena_printf(
            arena, "%.*s, %.*s, %.*s", SLICE_ARG(mime_header(payload, "To")),
            SLICE_ARG(mime_header(payload, "Cc")), SLICE_ARG(mime_header(payload, "Bcc"))),
        [GMAIL_FIELD_SUBJECT] = mime_header(payload, "Subject")};
    struct buf all, names;
    buf_init(&all, GMAIL_MESSAGE_BYTES_MAX * 2);
    buf_init(&names, 64 * 1024);
    for (const struct mime_part *part = payload; part; part = part->next) {
        message->has_attachment |= part->filename.len > 0;
        buf_append(&names, part->filename);
        buf_append_char(&names, ' ');
    }
    texts[GMAIL_FIELD_FILENAME] = buf_slice(&names);
    for (size_t i = 0; i < GMAIL_FIELD_ALL; i++) {
        message->words[i] = gmail_words_of(arena, texts[i]);
        buf_append(&all, message->words[i]);
    }
    buf_append(&all, gmail_words_of(arena, body));
    message->words[GMAIL_FIELD_ALL] = arena_take(arena, &all);
    buf_deinit(&names);
}

static int read_mail(struct gmail_message *message, slice raw, struct err *err)
{
    struct arena *arena = &message->arena;
    arena_init(arena, raw.len * 8 + ARENA_BYTES_SPARE);
    message->raw = arena_dup(arena, raw);
    /* Google's ids are opaque; these consist of a prefix, the message's id and the part's. */
    slice prefix = arena_printf(arena, "ANGjdJ%s", message->id_text + 1);
    if (!message->raw.ptr)
        return err_set(err, ERR_NOMEM, "out of memory");
    int status = mime_parse(arena, message->raw, prefix, &message->payload, err);
    if (status != OK)
        return status;
    const struct mime_part *text = mime_find(&message->payload, "text/plain");
    const struct mime_part *html = text ? NULL : mime_find(&message->payload, "text/html");
    slice body = text ? text->body : html ? strip_tags(arena, html->body) : SLICE("");
    message->size = raw.len;
    message->snippet = make_snippet(arena, body);
    message->message_id = slice_trim(mime_header(&message->payload, "Message-ID"));
    prepare_words(message, body);
    return arena->is_exhausted ? err_set(err, ERR_NOMEM, "out of memory") : OK;
}

static struct gmail_thread *find_parent(const struct gmail *gmail,
                                        const struct gmail_message *message)
{
    const slice headers[] = {mime_header(&message->payload, "In-Reply-To"),
                             mime_header(&message->payload, "References")};
    for (size_t i = 0; i < ARRAY_LEN(headers); i++) {
        slice rest = headers[i];
        while (rest.len) {
            slice id = slice_trim(slice_split(&rest, ' '));
            const struct gmail_message *parent = id.len ? map_get(&gmail->message_ids, id) : NULL;
            if (parent)
                return parent->thread;
        }
    }
    return NULL;
}

static struct gmail_thread *new_thread(struct gmail *gmail, uint64_t id)
{
    struct gmail_thread *thread = mem_zalloc(sizeof(*thread));
    if (!thread)
        return NULL;
    thread->id = id;
    id_format(id, thread->id_text);
    if (map_put(&gmail->threads, id_key(thread->id_text), thread, NULL) != OK) {
        mem_free(thread);
        return NULL;
    }
    return thread;
}

static void drop_thread_when_empty(struct gmail *gmail, struct gmail_thread *thread)
{
    if (thread->order.count)
        return;
    map_remove(&gmail->threads, id_key(thread->id_text));
    mem_free((void *)thread->order.items);
    mem_free(thread);
}

static bool enter(struct gmail *gmail, struct gmail_message *message,
                  const struct gmail_new_message *new)
{
    message->thread = new->thread ? new->thread : find_parent(gmail, message);
    if (!message->thread)
        message->thread = new_thread(gmail, message->id);
    if (!message->thread)
        return false;
    for (size_t i = 0; i < new->label_count; i++)
        gmail_label_add(message, new->labels[i]);
    return map_put(&gmail->messages, id_key(message->id_text), message, NULL) == OK &&
           insert_in_order(&message->thread->order, message) &&
           insert_in_order(&gmail->all, message) &&
           (!message->message_id.len ||
            map_put(&gmail->message_ids, message->message_id, message, NULL) == OK);
}

static void evict_oldest(struct gmail *gmail)
{
    for (size_t i = 0; i < gmail->all.count; i++) {
        struct gmail_message *message = gmail->all.items[i];
        if (message->is_from_api && !gmail_is(message, GMAIL_DRAFT)) {
            gmail_delete(gmail, message);
            return;
        }
    }
}

struct gmail_message *gmail_insert(struct gmail *gmail, const struct gmail_new_message *new,
                                   struct err *err)
{
    struct gmail_message *message = mem_zalloc(sizeof(*message));
    if (!message)
        return err_null(err, ERR_NOMEM, "out of memory");
    message->id = new->id ? new->id : id_new(gmail, new->time_ms);
    id_format(message->id, message->id_text);
    if (read_mail(message, new->raw, err) != OK) {
        free_message(message);
        return NULL;
    }
    if (gmail->api_messages >= GMAIL_MESSAGES_MAX)
        evict_oldest(gmail);
    message->time_ms = new->time_ms;
    message->is_from_api = new->is_from_api;
    /* Out of memory here would leave the mailbox inconsistent: the process ends instead. */
    ASSERT(enter(gmail, message, new));
    gmail->api_messages += new->is_from_api;
    if (message->time_ms > gmail->last_ms)
        gmail->last_ms = message->time_ms;
    gmail_touch(gmail, message);
    return message;
}

void gmail_delete(struct gmail *gmail, struct gmail_message *message)
{
    while (message->label_count)
        gmail_label_remove(message, message->labels[0]);
    remove_in_order(&gmail->all, message);
    remove_in_order(&message->thread->order, message);
    drop_thread_when_empty(gmail, message->thread);
    map_remove(&gmail->messages, id_key(message->id_text));
    if (message->message_id.len && map_get(&gmail->message_ids, message->message_id) == message)
        map_remove(&gmail->message_ids, message->message_id);
    gmail->api_messages -= message->is_from_api;
    gmail->history_id++;
    free_message(message);
}
