/*
 * A ring of ids. Ids are added when a database connection is lost, and looked up only for orphans.
 * Orphans are few, so the ring has no index.
 */
#include "node/unsent.h"

#include "base/mem.h"

void unsent_note(struct unsent *unsent, struct uuid execution_id)
{
    if (!unsent->ids)
        unsent->ids = mem_calloc(UNSENT_IDS_MAX, sizeof(*unsent->ids));
    if (unsent->ids)
        unsent->ids[unsent->count++ % UNSENT_IDS_MAX] = execution_id;
}

bool unsent_has(const struct unsent *unsent, struct uuid execution_id)
{
    size_t count = unsent->count < UNSENT_IDS_MAX ? unsent->count : UNSENT_IDS_MAX;
    for (size_t i = 0; i < count; i++)
        if (uuid_eq(unsent->ids[i], execution_id))
            return true;
    return false;
}

void unsent_deinit(struct unsent *unsent)
{
    mem_free(unsent->ids);
}
