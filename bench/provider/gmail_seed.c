/*
 * The first state of the mailbox, from gmail.json: labels, settings, and the mails as RFC 5322
 * texts, made by its templates and put in as if they had come in. Mail k (from 1) has the id
 * GMAIL_SEED_ID + k, whatever the seed and the day, so that documentation and examples can name it;
 * manifests' examples rely on these ids:
 *   1, 2 read; 3 has an invoice attached as part 1; 4 begins a thread; 5, 6, 7 unread in the inbox;
 *   0x38 and 0x39 to be trashed and deleted; 0x3c lies in the trash.
 */
#include <stdio.h>

#include "base/encode.h"
#include "provider/gmail.h"

enum { NOISE_BYTES = 2500 };

static bool add_labels(struct gmail *gmail)
{
    const struct json *labels = JSON_GET(gmail->data, "labels");
    for (uint32_t i = 0; json_is(labels, JSON_ARRAY) && i < labels->count; i++) {
        slice id = json_get_str(json_at(labels, i), SLICE("id"));
        bool is_visible = json_get_bool(json_at(labels, i), SLICE("shows"), false);
        if (!gmail_label_new(gmail, id, id, false, !is_visible))
            return false;
    }
    return gmail->label_count == GMAIL_SYSTEM_LABELS &&
           gmail_label_new(gmail, SLICE("Label_1"), SLICE("Receipts"), true, false);
}

/* What a file of an image or a document is filled with: base64 of random bytes. */
static slice noise(struct arena *arena, struct rng *rng)
{
    char bytes[NOISE_BYTES];
    struct buf out;
    for (size_t i = 0; i < sizeof(bytes); i++)
        bytes[i] = (char)rng_below(rng, 256);
    buf_init(&out, 2 * sizeof(bytes));
    encode_base64(&out, slice_of(bytes, sizeof(bytes)));
    return arena_take(arena, &out);
}

/* Evaluates the template with what is there so far, and adds the result under that name. */
static bool add_part(struct arena *arena, struct json *scope, slice name, const struct json *tree)
{
    struct json value;
    if (!provider_eval(arena, tree, scope, &value))
        return false;
    json_object_set(arena, scope, name, value);
    return true;
}

/* The mail as it comes in; empty: out of memory. */
static slice build(struct gmail *gmail, struct arena *arena, const struct json *row,
                   const struct gmail_new_message *new)
{
    const struct json *parts = JSON_GET(gmail->data, "parts");
    const struct json *file =
        json_get(JSON_GET(gmail->data, "files"), json_get_str(row, SLICE("file")));
    slice id = arena_printf(arena, "%llx", (unsigned long long)new->id);
    struct json scope = OBJECT(arena, "row id time_ms self noise", *row, json_string(id),
                               json_i64(new->time_ms),
                               json_string(SLICE("Sam Rivera <" GMAIL_ADDRESS ">")),
                               json_string(file ? noise(arena, &gmail->provider->rng) : SLICE("")));
    bool is_ok = !file || add_part(arena, &scope, SLICE("file"), file);
    for (uint32_t i = 0; is_ok && i < parts->count; i++)
        is_ok = add_part(arena, &scope, json_str(&parts->as.members[i].key),
                         &parts->as.members[i].value);
    return is_ok ? json_get_str(&scope, SLICE("mail")) : SLICE_NONE;
}

static bool insert(struct gmail *gmail, size_t k, int64_t now_us, struct arena *arena)
{
    const struct json *row = json_at(JSON_GET(gmail->data, "mails"), k - 1);
    const struct json *names = JSON_GET(row, "labels");
    struct gmail_label *labels[GMAIL_MESSAGE_LABELS_MAX];
    int64_t jitter_ms = (int64_t)rng_below(&gmail->provider->rng, 40 * 60 * 1000);
    struct gmail_new_message new = {.id = GMAIL_SEED_ID + k, .labels = labels};
    struct err err;
    new.time_ms = now_us / 1000 - json_get_i64(row, SLICE("hours_ago"), 0) * 3600000 - jitter_ms;
    for (uint32_t i = 0; i < names->count; i++)
        labels[new.label_count++] = gmail_label_find(gmail, json_str(json_at(names, i)));
    new.raw = build(gmail, arena, row, &new);
    struct gmail_message *message = new.raw.len ? gmail_insert(gmail, &new, &err) : NULL;
    if (message && gmail_is(message, GMAIL_DRAFT))
        (void)snprintf(message->draft_id, sizeof(message->draft_id), "r71900000000000000%02zu",
                       gmail->labels[GMAIL_DRAFT]->order.count);
    return message != NULL;
}

bool gmail_seed(struct gmail *gmail, int64_t now_us)
{
    gmail->data = provider_data(&gmail->arena, "gmail.json");
    const struct json *mails = JSON_GET(gmail->data, "mails");
    const struct json *settings = JSON_GET(gmail->data, "settings");
    if (!mails || !settings || !add_labels(gmail))
        return false;
    gmail->filters = *JSON_GET(settings, "filters");
    gmail->vacation = *JSON_GET(settings, "vacation");
    gmail->senders = *JSON_GET(settings, "sendAs");
    gmail->next_label = 1;
    gmail->next_filter = gmail->filters.count;
    /* Oldest first, and a thread's beginning before its answers. */
    for (int is_answer = 0; is_answer < 2; is_answer++) {
        for (size_t k = mails->count; k > 0; k--) {
            struct arena arena;
            bool is_due = !JSON_GET(json_at(mails, k - 1), "thread") == !is_answer;
            arena_init(&arena, 1024 * 1024);
            bool is_ok = !is_due || insert(gmail, k, now_us, &arena);
            arena_deinit(&arena);
            if (!is_ok)
                return false;
        }
    }
    return true;
}
