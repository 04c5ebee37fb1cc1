/*
 * The possible effects of a failed request (src/api/README.md "Executions"). One table decides
 * them; the summary's `outcome`, whether an idempotency key is free again, and the hints are
 * derived from it. Private to the room.
 */
#ifndef CALL_EFFECT_H
#define CALL_EFFECT_H

#include "catalog/catalog.h"
#include "call/outcome.h"

/* Returns the effect of a request that acts, by its reply. rule is the error rule that matched, or
 * NULL; is_too_fast means that a rule of the manifest's limits recognized a rate limit. */
enum exec_effect exec_effect_of_reply(const struct catalog_action *action, unsigned status,
                                      const struct catalog_error_rule *rule, bool is_too_fast);

#endif
