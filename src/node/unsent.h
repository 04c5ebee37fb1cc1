/*
 * unsent: the claims of this process that were given up before anything was sent to a provider. The
 * last UNSENT_IDS_MAX of them are remembered, by execution, for the one that is committed after it
 * was released (node/recover.h): of that one it is known that nothing was done.
 */
#ifndef NODE_UNSENT_H
#define NODE_UNSENT_H

#include <stdbool.h>
#include <stddef.h>

#include "base/id.h"

enum {
    UNSENT_IDS_MAX = 4096
}; /* 64 kB; some times what a lost connection can have had in flight */

/* Zeroed before its first use. */
struct unsent {
    struct uuid *ids; /* a ring, made for the first one */
    size_t count;     /* all that ever came */
};

/* The oldest makes room. Out of memory: it is not remembered. */
void unsent_note(struct unsent *unsent, struct uuid execution_id);
bool unsent_has(const struct unsent *unsent, struct uuid execution_id);
void unsent_deinit(struct unsent *unsent);

#endif
