/*
 * The list of drafts: an id of its own for a message with the label DRAFT.
 */
#include <stdio.h>

#include "base/mem.h"
#include "provider/gmail.h"

struct gmail_draft *gmail_draft_add(struct gmail *gmail, struct gmail_message *message,
                                    uint64_t number)
{
    if (gmail->draft_count == gmail->draft_cap) {
        size_t cap = gmail->draft_cap ? gmail->draft_cap * 2 : 8;
        struct gmail_draft **grown =
            mem_realloc((void *)gmail->drafts, cap * sizeof(struct gmail_draft *));
        if (!grown)
            return NULL;
        gmail->drafts = grown;
        gmail->draft_cap = cap;
    }
    struct gmail_draft *draft = mem_zalloc(sizeof(*draft));
    if (!draft)
        return NULL;
    (void)snprintf(draft->id, sizeof(draft->id), "r%llu", (unsigned long long)number);
    draft->message = message;
    if (map_put(&gmail->drafts_by_id, slice_cstr(draft->id), draft, NULL) != OK) {
        mem_free(draft);
        return NULL;
    }
    gmail->drafts[gmail->draft_count++] = draft;
    return draft;
}

struct gmail_draft *gmail_draft_find(const struct gmail *gmail, slice id)
{
    return id.len ? map_get(&gmail->drafts_by_id, id) : NULL;
}

void gmail_draft_remove(struct gmail *gmail, struct gmail_draft *draft)
{
    size_t i = 0;
    while (i < gmail->draft_count && gmail->drafts[i] != draft)
        i++;
    ASSERT(i < gmail->draft_count);
    gmail->draft_count--;
    memmove((void *)(gmail->drafts + i), (void *)(gmail->drafts + i + 1),
            (gmail->draft_count - i) * sizeof(*gmail->drafts));
    map_remove(&gmail->drafts_by_id, slice_cstr(draft->id));
    mem_free(draft);
}
