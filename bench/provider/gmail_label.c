/*
 * users.labels and users.getProfile. A label's index in gmail.labels is its number; a deleted
 * label stays there, marked, so that numbers never change.
 */
#include "base/ascii.h"
#include "base/mem.h"
#include "provider/gmail.h"

enum { NAME_BYTES_MAX = 225 };

static void set(struct gmail *gmail, struct gmail_label *label, const char *key, slice text)
{
    json_object_put(&gmail->arena, &label->json, slice_cstr(key),
                    json_string_dup(&gmail->arena, text));
    label->id = json_get_str(&label->json, SLICE("id"));
    label->name = json_get_str(&label->json, SLICE("name"));
    buf_clear(&gmail->label_list);
}

struct gmail_label *gmail_label_new(struct gmail *gmail, slice id, slice name, bool is_user,
                                    bool is_hidden)
{
    if (gmail->label_count == GMAIL_LABELS_MAX)
        return NULL;
    struct gmail_label *label = mem_zalloc(sizeof(*label));
    if (!label)
        return NULL;
    label->json = json_object();
    set(gmail, label, "id", id);
    set(gmail, label, "name", name);
    set(gmail, label, "messageListVisibility", is_hidden ? SLICE("hide") : SLICE("show"));
    set(gmail, label, "labelListVisibility", is_hidden ? SLICE("labelHide") : SLICE("labelShow"));
    set(gmail, label, "type", is_user ? SLICE("user") : SLICE("system"));
    label->is_user = is_user;
    label->number = gmail->label_count;
    gmail->labels[gmail->label_count++] = label;
    return label;
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
        char x = ascii_lower(a.ptr[i]), y = ascii_lower(b.ptr[i]);
        bool are_gaps = strchr(" /-", x) && strchr(" /-", y);
        if (x != y && !are_gaps)
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

/* Cached between two changes: in benchmarks the emulator must not be the bottleneck. */
bool gmail_labels_list(struct gmail_request *request)
{
    struct gmail *gmail = request->gmail;
    if (!gmail->label_list.len) {
        struct json_writer w;
        json_begin(&w, &gmail->label_list);
        json_open(&w, '{');
        json_member_open(&w, "labels", '[');
        for (unsigned i = 0; i < gmail->label_count; i++)
            if (!gmail->labels[i]->is_deleted)
                json_put(&w, &gmail->labels[i]->json);
        json_close(&w, ']');
        json_close(&w, '}');
    }
    reply_text(request->reply, 200, SLICE("application/json"), buf_slice(&gmail->label_list));
    if (buf_is_ok(&gmail->label_list))
        return true;
    buf_clear(&gmail->label_list);
    return gmail_error_plain(gmail, request->reply, 503);
}

bool gmail_labels_get(struct gmail_request *request)
{
    const struct gmail_label *label = request->label;
    size_t unread = 0, threads = 0, threads_unread = 0;
    uint64_t mark = ++request->gmail->mark;
    for (size_t i = 0; i < label->order.count; i++) {
        const struct gmail_message *message = label->order.items[i];
        struct gmail_thread *thread = message->thread;
        bool is_unread = gmail_is(message, GMAIL_UNREAD);
        unread += is_unread;
        threads += thread->mark != mark;
        thread->mark = mark;
        threads_unread += is_unread && thread->mark_unread != mark;
        if (is_unread)
            thread->mark_unread = mark;
    }
    struct json counts = OBJECT(request->arena,
                                "messagesTotal messagesUnread threadsTotal threadsUnread",
                                json_u64(label->order.count), json_u64(unread), json_u64(threads),
                                json_u64(threads_unread));
    struct json out = provider_merged(request->arena, &label->json, &counts);
    return gmail_reply(request, &out);
}

/* What the body may change, of a new label (request->label NULL) too; false: answered. */
static bool check_body(struct gmail_request *request)
{
    const struct json *json = request->json;
    slice name = json_get_str(json, SLICE("name"));
    slice list = json_get_str(json, SLICE("labelListVisibility"));
    slice messages = json_get_str(json, SLICE("messageListVisibility"));
    const struct gmail_label *taken = gmail_label_find_name(request->gmail, name);
    bool is_other = taken && taken != request->label;
    if (((name.ptr || !request->label) && !slice_trim(name).len) || name.len > NAME_BYTES_MAX ||
        (is_other && !taken->is_user))
        return gmail_bad(request, "Invalid label name");
    if (is_other)
        return gmail_error(request->reply, 409, SLICE("aborted"), SLICE("ABORTED"),
                           SLICE("Label name exists or conflicts"));
    if (list.ptr && !slice_has_word(SLICE("labelShow labelShowIfUnread labelHide"), list))
        return gmail_bad(request, "Invalid value at 'label.label_list_visibility'");
    if (messages.ptr && !slice_has_word(SLICE("show hide"), messages))
        return gmail_bad(request, "Invalid value at 'label.message_list_visibility'");
    return true;
}

bool gmail_labels_write(struct gmail_request *request)
{
    static const char *const keys[] = {"name", "labelListVisibility", "messageListVisibility"};
    struct gmail *gmail = request->gmail;
    struct gmail_label *label = request->label;
    if (label && !label->is_user)
        return gmail_bad(request, "Invalid update request");
    if (!check_body(request))
        return false;
    if (!label) {
        slice id = arena_printf(request->arena, "Label_%u", ++gmail->next_label);
        label = gmail_label_new(gmail, id, SLICE(""), true, false);
    }
    if (!label)
        return gmail_bad(request, "Too many labels");
    for (size_t i = 0; i < ARRAY_LEN(keys); i++) {
        slice value = json_get_str(request->json, slice_cstr(keys[i]));
        if (value.ptr)
            set(gmail, label, keys[i], value);
    }
    gmail_record(request, label->id, label->name);
    return gmail_reply(request, &label->json);
}

bool gmail_labels_delete(struct gmail_request *request)
{
    struct gmail_label *label = request->label;
    if (!label->is_user)
        return gmail_bad(request, "Invalid delete request");
    while (label->order.count)
        gmail_label_remove(label->order.items[label->order.count - 1], label);
    label->is_deleted = true;
    buf_clear(&request->gmail->label_list);
    return gmail_removed(request, label->id, label->name);
}

bool gmail_profile(struct gmail_request *request)
{
    const struct gmail *gmail = request->gmail;
    char number[SLICE_U64_MAX];
    struct json profile = OBJECT(
        request->arena, "emailAddress messagesTotal threadsTotal historyId",
        json_string(SLICE(GMAIL_ADDRESS)), json_u64(gmail->all.count),
        json_u64(gmail->threads.count), json_string(slice_of_u64(gmail->history_id, number)));
    return gmail_reply(request, &profile);
}
