/*
 * users.labels and users.getProfile. A label's index in gmail.labels is its number; a deleted
 * label stays there, marked, so that numbers never change.
 */
#include "base/ascii.h"
#include "base/mem.h"
#include "provider/gmail.h"

enum { NAME_BYTES_MAX = 225 };

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

static void write_counts(struct json_writer *w, struct gmail *gmail,
                         const struct gmail_label *label)
{
    size_t unread = 0, threads = 0, threads_unread = 0;
    uint64_t mark = ++gmail->mark;
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
    json_member_i64(w, "messagesTotal", (int64_t)label->order.count);
    json_member_i64(w, "messagesUnread", (int64_t)unread);
    json_member_i64(w, "threadsTotal", (int64_t)threads);
    json_member_i64(w, "threadsUnread", (int64_t)threads_unread);
}

static void write_label(struct json_writer *w, struct gmail *gmail, const struct gmail_label *label,
                        bool with_counts)
{
    json_open(w, '{');
    json_member_str(w, "id", label->id);
    json_member_str(w, "name", label->name);
    json_member_str(w, "messageListVisibility",
                    label->is_hidden_on_messages ? SLICE("hide") : SLICE("show"));
    json_member_str(w, "labelListVisibility",
                    label->is_hidden_in_list ? SLICE("labelHide") : SLICE("labelShow"));
    json_member_str(w, "type", label->is_user ? SLICE("user") : SLICE("system"));
    if (with_counts)
        write_counts(w, gmail, label);
    json_close(w, '}');
}

static void make_list(struct gmail *gmail)
{
    struct json_writer w;
    json_begin(&w, &gmail->label_list);
    json_open(&w, '{');
    json_member_open(&w, "labels", '[');
    for (unsigned i = 0; i < gmail->label_count; i++)
        if (!gmail->labels[i]->is_deleted)
            write_label(&w, gmail, gmail->labels[i], false);
    json_close(&w, ']');
    json_close(&w, '}');
}

/* Cached between two changes: in benchmarks the emulator must not be the bottleneck. */
void gmail_labels_list(struct gmail_request *request)
{
    struct gmail *gmail = request->gmail;
    if (!gmail->label_list.len)
        make_list(gmail);
    reply_text(request->reply, 200, SLICE("application/json"), buf_slice(&gmail->label_list));
    if (buf_is_ok(&gmail->label_list))
        return;
    gmail_error_plain(gmail, request->reply, 503);
    buf_clear(&gmail->label_list);
}

static void reply_label(struct gmail_request *request, const struct gmail_label *label,
                        bool with_counts)
{
    struct json_writer w = reply_json(request->reply, 200);
    write_label(&w, request->gmail, label, with_counts);
}

void gmail_labels_get(struct gmail_request *request)
{
    reply_label(request, request->label, true);
}

/* The name and the visibilities of the body, checked; false: answered. */
static bool check_body(struct gmail_request *request)
{
    const struct json *json = request->json;
    slice name = json_get_str(json, SLICE("name"));
    slice list = json_get_str(json, SLICE("labelListVisibility"));
    slice message = json_get_str(json, SLICE("messageListVisibility"));
    const struct gmail_label *taken = gmail_label_find_name(request->gmail, name);
    bool is_list_ok = !list.ptr || slice_eq(list, SLICE("labelShow")) ||
                      slice_eq(list, SLICE("labelShowIfUnread")) ||
                      slice_eq(list, SLICE("labelHide"));
    bool is_other = taken && taken != request->label;
    if (((name.ptr || !request->label) && !slice_trim(name).len) || name.len > NAME_BYTES_MAX ||
        (is_other && !taken->is_user))
        return gmail_bad(request, "Invalid label name");
    if (is_other)
        return gmail_error(request->reply, 409, SLICE("aborted"), SLICE("ABORTED"),
                           "Label name exists or conflicts");
    if (!is_list_ok ||
        (message.ptr && !slice_eq(message, SLICE("show")) && !slice_eq(message, SLICE("hide"))))
        return gmail_bad(request, "Invalid value at 'label.%s'",
                         is_list_ok ? "message_list_visibility" : "label_list_visibility");
    return true;
}

/* Applies the checked body. */
static void change(struct gmail_request *request, struct gmail_label *label)
{
    slice name = json_get_str(request->json, SLICE("name"));
    slice list = json_get_str(request->json, SLICE("labelListVisibility"));
    slice message = json_get_str(request->json, SLICE("messageListVisibility"));
    if (name.ptr)
        set_texts(label, label->id, name);
    if (list.ptr)
        label->is_hidden_in_list = slice_eq(list, SLICE("labelHide"));
    if (message.ptr)
        label->is_hidden_on_messages = slice_eq(message, SLICE("hide"));
    buf_clear(&request->gmail->label_list);
    gmail_record(request, label->id, label->name);
    reply_label(request, label, false);
}

void gmail_labels_create(struct gmail_request *request)
{
    struct gmail *gmail = request->gmail;
    if (!check_body(request))
        return;
    slice id = arena_printf(request->http->arena, "Label_%u", ++gmail->next_label);
    struct gmail_label *label = gmail_label_new(gmail, id, SLICE(""), true);
    if (label)
        change(request, label);
    else
        gmail_bad(request, "Too many labels");
}

void gmail_labels_update(struct gmail_request *request)
{
    if (!request->label->is_user)
        gmail_bad(request, "Invalid update request");
    else if (check_body(request))
        change(request, request->label);
}

void gmail_labels_delete(struct gmail_request *request)
{
    struct gmail_label *label = request->label;
    if (!label->is_user) {
        gmail_bad(request, "Invalid delete request");
        return;
    }
    while (label->order.count)
        gmail_label_remove(label->order.items[label->order.count - 1], label);
    label->is_deleted = true;
    buf_clear(&request->gmail->label_list);
    gmail_record(request, label->id, label->name);
    reply_empty(request->reply, 204);
}

void gmail_profile(struct gmail_request *request)
{
    const struct gmail *gmail = request->gmail;
    struct json_writer w = reply_json(request->reply, 200);
    json_open(&w, '{');
    json_member_str(&w, "emailAddress", SLICE(GMAIL_ADDRESS));
    json_member_i64(&w, "messagesTotal", (int64_t)gmail->all.count);
    json_member_i64(&w, "threadsTotal", (int64_t)gmail->threads.count);
    gmail_write_u64(&w, "historyId", gmail->history_id);
    json_close(&w, '}');
}
