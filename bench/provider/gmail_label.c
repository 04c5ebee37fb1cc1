/*
 * users.labels and users.getProfile. A label's index in gmail.labels is its number; a deleted
 * label stays there, marked, so that numbers never change.
 */
#include "base/mem.h"
#include "provider/gmail.h"
#include "provider/ledger.h"

enum { NAME_BYTES_MAX = 225 };

static const struct {
    const char *id;
    bool is_hidden_in_list, is_hidden_on_messages;
} system_labels[GMAIL_SYSTEM_LABELS] = {
    [GMAIL_INBOX] = {"INBOX", false, false},
    [GMAIL_SENT] = {"SENT", false, false},
    [GMAIL_DRAFT] = {"DRAFT", false, false},
    [GMAIL_TRASH] = {"TRASH", true, true},
    [GMAIL_SPAM] = {"SPAM", true, true},
    [GMAIL_UNREAD] = {"UNREAD", false, false},
    [GMAIL_STARRED] = {"STARRED", false, false},
    [GMAIL_IMPORTANT] = {"IMPORTANT", true, true},
    [GMAIL_CHAT] = {"CHAT", true, true},
    [GMAIL_PERSONAL] = {"CATEGORY_PERSONAL", true, true},
    [GMAIL_SOCIAL] = {"CATEGORY_SOCIAL", true, true},
    [GMAIL_PROMOTIONS] = {"CATEGORY_PROMOTIONS", true, true},
    [GMAIL_UPDATES] = {"CATEGORY_UPDATES", true, true},
    [GMAIL_FORUMS] = {"CATEGORY_FORUMS", true, true},
};

static void set_texts(struct gmail_label *label, slice id, slice name)
{
    ASSERT(id.ptr && name.ptr && id.len + name.len <= sizeof(label->text));
    memmove(label->text, id.ptr, id.len);
    memmove(label->text + id.len, name.ptr, name.len);
    label->id = slice_of(label->text, id.len);
    label->name = slice_of(label->text + id.len, name.len);
}

struct gmail_label *gmail_label_new(struct gmail *gmail, slice id, slice name, bool is_user)
{
    if (gmail->label_count == GMAIL_LABELS_MAX)
        return NULL;
    struct gmail_label *label = mem_zalloc(sizeof(*label));
    if (!label)
        return NULL;
    set_texts(label, id, name);
    label->is_user = is_user;
    label->number = gmail->label_count;
    gmail->labels[gmail->label_count++] = label;
    buf_clear(&gmail->label_list);
    return label;
}

bool gmail_labels_init(struct gmail *gmail)
{
    for (size_t i = 0; i < GMAIL_SYSTEM_LABELS; i++) {
        slice id = slice_cstr(system_labels[i].id);
        struct gmail_label *label = gmail_label_new(gmail, id, id, false);
        if (!label)
            return false;
        label->is_hidden_in_list = system_labels[i].is_hidden_in_list;
        label->is_hidden_on_messages = system_labels[i].is_hidden_on_messages;
    }
    return true;
}

struct gmail_label *gmail_label_find(const struct gmail *gmail, slice id)
{
    for (unsigned i = 0; id.len && i < gmail->label_count; i++)
        if (!gmail->labels[i]->is_deleted && slice_eq(gmail->labels[i]->id, id))
            return gmail->labels[i];
    return NULL;
}

/* Compared as in a search: without regard to case, and space, slash and dash are equal. */
static bool is_same_name(slice a, slice b)
{
    if (a.len != b.len)
        return false;
    for (size_t i = 0; i < a.len; i++) {
        char x = a.ptr[i], y = b.ptr[i];
        x = (char)(x >= 'A' && x <= 'Z' ? x + 32 : x == ' ' || x == '/' ? '-' : x);
        y = (char)(y >= 'A' && y <= 'Z' ? y + 32 : y == ' ' || y == '/' ? '-' : y);
        if (x != y)
            return false;
    }
    return true;
}

struct gmail_label *gmail_label_find_name(const struct gmail *gmail, slice name)
{
    for (unsigned i = 0; i < gmail->label_count; i++)
        if (!gmail->labels[i]->is_deleted && is_same_name(gmail->labels[i]->name, name))
            return gmail->labels[i];
    return NULL;
}

static void make_list(struct gmail *gmail)
{
    struct json_writer w;
    json_begin(&w, &gmail->label_list);
    json_open(&w, '{');
    json_key(&w, "labels");
    json_open(&w, '[');
    for (unsigned i = 0; i < gmail->label_count; i++)
        if (!gmail->labels[i]->is_deleted)
            gmail_write_label(&w, gmail, gmail->labels[i], false);
    json_close(&w, ']');
    json_close(&w, '}');
}

/* Cached between two changes: in benchmarks the emulator must not be the bottleneck. */
void gmail_labels_list(struct gmail_request *request, struct provider_reply *reply)
{
    struct gmail *gmail = request->gmail;
    if (!gmail->label_list.len)
        make_list(gmail);
    reply_json(reply, 200);
    if (buf_is_ok(&gmail->label_list)) {
        buf_append(reply->body, buf_slice(&gmail->label_list));
    } else {
        gmail_error_plain(reply, 503);
        buf_clear(&gmail->label_list);
    }
}

static struct gmail_label *find(struct gmail_request *request, struct provider_reply *reply)
{
    struct gmail_label *label = gmail_label_find(request->gmail, request->id);
    if (!label)
        gmail_error_plain(reply, 404);
    return label;
}

static void reply_label(struct gmail_request *request, struct provider_reply *reply,
                        const struct gmail_label *label, bool with_counts)
{
    struct json_writer w = reply_json(reply, 200);
    gmail_write_label(&w, request->gmail, label, with_counts);
}

void gmail_labels_get(struct gmail_request *request, struct provider_reply *reply)
{
    const struct gmail_label *label = find(request, reply);
    if (label)
        reply_label(request, reply, label, true);
}

/* A good name that no other label has; false: answered. */
static bool check_name(struct gmail_request *request, slice name, const struct gmail_label *own,
                       struct provider_reply *reply)
{
    const struct gmail_label *taken = gmail_label_find_name(request->gmail, name);
    if (!slice_trim(name).len || name.len > NAME_BYTES_MAX) {
        gmail_error(reply, 400, "invalidArgument", "INVALID_ARGUMENT", "Invalid label name");
        return false;
    }
    if (taken && taken != own && !taken->is_user) {
        gmail_error(reply, 400, "invalidArgument", "INVALID_ARGUMENT", "Invalid label name");
        return false;
    }
    if (taken && taken != own) {
        gmail_error(reply, 409, "aborted", "ABORTED", "Label name exists or conflicts");
        return false;
    }
    return true;
}

/* Visibilities; anything else than the documented words is an error. */
static bool read_visibility(struct gmail_request *request, struct gmail_label *label,
                            struct provider_reply *reply)
{
    slice list = json_get_str(request->json, SLICE("labelListVisibility"));
    slice message = json_get_str(request->json, SLICE("messageListVisibility"));
    bool is_list_ok = !list.ptr || slice_eq(list, SLICE("labelShow")) ||
                      slice_eq(list, SLICE("labelShowIfUnread")) ||
                      slice_eq(list, SLICE("labelHide"));
    bool is_message_ok = !message.ptr || slice_eq(message, SLICE("show")) ||
                         slice_eq(message, SLICE("hide"));
    if (!is_list_ok || !is_message_ok) {
        gmail_error(reply, 400, "invalidArgument", "INVALID_ARGUMENT",
                    "Invalid value at 'label.%s'",
                    is_list_ok ? "message_list_visibility" : "label_list_visibility");
        return false;
    }
    if (list.ptr)
        label->is_hidden_in_list = slice_eq(list, SLICE("labelHide"));
    if (message.ptr)
        label->is_hidden_on_messages = slice_eq(message, SLICE("hide"));
    return true;
}

/* Every change of a label ends here. */
static void record(struct gmail_request *request, const char *kind, const struct gmail_label *label)
{
    buf_clear(&request->gmail->label_list);
    ledger_add(request->gmail->provider->ledger, request->http, kind, label->id, label->name);
}

void gmail_labels_create(struct gmail_request *request, struct provider_reply *reply)
{
    struct gmail *gmail = request->gmail;
    slice name = json_get_str(request->json, SLICE("name"));
    struct gmail_label probe = {0};
    if (!check_name(request, name, NULL, reply) || !read_visibility(request, &probe, reply))
        return;
    slice id = arena_printf(request->http->arena, "Label_%u", ++gmail->next_label);
    struct gmail_label *label = gmail_label_new(gmail, id, name, true);
    if (!label) {
        gmail_error(reply, 400, "invalidArgument", "INVALID_ARGUMENT", "Too many labels");
        return;
    }
    label->is_hidden_in_list = probe.is_hidden_in_list;
    label->is_hidden_on_messages = probe.is_hidden_on_messages;
    record(request, "gmail.labels.create", label);
    reply_label(request, reply, label, false);
}

static bool refuse_system(const struct gmail_label *label, struct provider_reply *reply)
{
    if (!label->is_user)
        gmail_error(reply, 400, "invalidArgument", "INVALID_ARGUMENT", "Invalid update request");
    return !label->is_user;
}

void gmail_labels_update(struct gmail_request *request, struct provider_reply *reply)
{
    struct gmail_label *label = find(request, reply);
    if (!label || refuse_system(label, reply))
        return;
    slice name = json_get_str(request->json, SLICE("name"));
    if ((name.ptr && !check_name(request, name, label, reply)) ||
        !read_visibility(request, label, reply))
        return;
    if (name.ptr)
        set_texts(label, label->id, name);
    record(request, "gmail.labels.update", label);
    reply_label(request, reply, label, false);
}

void gmail_labels_delete(struct gmail_request *request, struct provider_reply *reply)
{
    struct gmail_label *label = find(request, reply);
    if (!label)
        return;
    if (!label->is_user) {
        gmail_error(reply, 400, "invalidArgument", "INVALID_ARGUMENT", "Invalid delete request");
        return;
    }
    while (label->order.count)
        gmail_label_remove(request->gmail, label->order.items[label->order.count - 1], label);
    label->is_deleted = true;
    record(request, "gmail.labels.delete", label);
    reply_empty(reply, 204);
}

void gmail_profile(struct gmail_request *request, struct provider_reply *reply)
{
    const struct gmail *gmail = request->gmail;
    struct json_writer w = reply_json(reply, 200);
    json_open(&w, '{');
    json_key(&w, "emailAddress");
    json_put_str(&w, SLICE(GMAIL_ADDRESS));
    json_key(&w, "messagesTotal");
    json_put_i64(&w, (int64_t)gmail->all.count);
    json_key(&w, "threadsTotal");
    json_put_i64(&w, (int64_t)gmail->threads.count);
    json_key(&w, "historyId");
    json_put_str(&w,
                 arena_printf(request->http->arena, "%llu", (unsigned long long)gmail->history_id));
    json_close(&w, '}');
}
