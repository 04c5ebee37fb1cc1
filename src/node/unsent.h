/*
 * unsent: the claims of this process that were abandoned before anything was sent to a provider.
 * The last UNSENT_IDS_MAX of them are remembered, by execution, in case one is committed after its
 * release (node/recover.h): it is then certain that nothing was done.
 */
#ifndef NODE_UNSENT_H
#define NODE_UNSENT_H

#include <stdbool.h>
#include <stddef.h>

#include "base/id.h"

enum {
    UNSENT_IDS_MAX = 4096
}; /* 64 KB; several times the number of claims that a lost connection can have had in flight */

/* Zero it before its first use. */
struct unsent {
    struct uuid *ids; /* a ring, allocated for the first id */
    size_t count;     /* number of ids ever added */
};

/* Adds an id; if the ring is full, it replaces the oldest. If out of memory, the id is not
 * remembered. */
void unsent_note(struct unsent *unsent, struct uuid execution_id);
bool unsent_has(const struct unsent *unsent, struct uuid execution_id);
void unsent_deinit(struct unsent *unsent);

#endif
